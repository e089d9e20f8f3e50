"""Tuning-free linear and kernel learning: no step size, no grid, no cross-validation.

Public names are imported when they are first used, so that ``import tunefree`` costs nothing.
"""

from importlib import import_module

from tunefree._version import __version__

_HOMES = {
    "AveragedSGDRegressor": "tunefree.estimators.ridge",
    "Checkpoint": "tunefree.persistence",
    "ClassicalPerceptron": "tunefree.estimators.perceptron_classical",
    "ErrorCurveDisplay": "tunefree.plots",
    "DynamicsReflectron": "tunefree.estimators.dynamics",
    "KernelAveragedSGDClassifier": "tunefree.estimators.kernel_sgd",
    "KernelAveragedSGDRegressor": "tunefree.estimators.kernel_sgd",
    "KernelOptimisticPerceptron": "tunefree.estimators.perceptron_kernel",
    "LeaderboardDisplay": "tunefree.plots",
    "MarginDisplay": "tunefree.plots",
    "KernelPerceptron": "tunefree.estimators.kernel_perceptron",
    "KernelPiSTOLClassifier": "tunefree.estimators.kernel",
    "KernelPiSTOLRegressor": "tunefree.estimators.kernel_regression",
    "LandmarkClassifier": "tunefree.estimators.landmarks",
    "LandmarkRegressor": "tunefree.estimators.landmarks",
    "OptimisticPerceptron": "tunefree.estimators.perceptron",
    "PiSTOLClassifier": "tunefree.estimators.linear",
    "PiSTOLRegressor": "tunefree.estimators.regression",
    "ReflectronClassifier": "tunefree.estimators.glm_classifier",
    "ReflectronRegressor": "tunefree.estimators.glm",
    "RidgePathDisplay": "tunefree.plots",
    "RiskCurveDisplay": "tunefree.plots",
    "SharedReflectron": "tunefree.estimators.shared",
    "TablePreprocessor": "tunefree.preprocessing",
    "WeightsDisplay": "tunefree.plots",
    "flow": "tunefree.estimators.trajectory",
    "TuneFreeClassifier": "tunefree.estimators.auto",
    "TuneFreeRegressor": "tunefree.estimators.auto",
    "load_model": "tunefree.persistence",
    "open_source": "tunefree.engine.sources",
    "save_model": "tunefree.persistence",
    "sgd_ridge_path": "tunefree.estimators.ridge_path",
}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'tunefree' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *__all__])
