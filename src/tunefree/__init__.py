"""Tuning-free linear and kernel learning: no step size, no grid, no cross-validation.

Public names are imported when they are first used, so that ``import tunefree`` costs nothing.
"""

from importlib import import_module

from tunefree._version import __version__

_HOMES = {
    "AveragedSGDRegressor": "tunefree.estimators.ridge",
    "Checkpoint": "tunefree.engine.session",
    "ClassicalPerceptron": "tunefree.estimators.perceptron",
    "DynamicsReflectron": "tunefree.estimators.reflectron.dynamics",
    "KernelOptimisticPerceptron": "tunefree.estimators.perceptron",
    "LeaderboardDisplay": "tunefree.plots",
    "MarginDisplay": "tunefree.plots",
    "KernelPiSTOLClassifier": "tunefree.estimators.kernel.pistol",
    "KernelPiSTOLRegressor": "tunefree.estimators.kernel.pistol",
    "LandmarkClassifier": "tunefree.estimators.kernel.landmarks",
    "LandmarkRegressor": "tunefree.estimators.kernel.landmarks",
    "OptimisticPerceptron": "tunefree.estimators.perceptron",
    "PiSTOLClassifier": "tunefree.estimators.pistol",
    "PiSTOLRegressor": "tunefree.estimators.pistol",
    "ReflectronClassifier": "tunefree.estimators.reflectron.glm",
    "ReflectronRegressor": "tunefree.estimators.reflectron.glm",
    "RidgePathDisplay": "tunefree.plots",
    "RiskCurveDisplay": "tunefree.plots",
    "SharedReflectron": "tunefree.estimators.reflectron.shared",
    "TablePreprocessor": "tunefree.preprocessing",
    "WeightsDisplay": "tunefree.plots",
    "flow": "tunefree.estimators.reflectron.flow",
    "TuneFreeClassifier": "tunefree.estimators.auto",
    "TuneFreeRegressor": "tunefree.estimators.auto",
    "load_model": "tunefree.io.model",
    "open_source": "tunefree.engine.sources",
    "save_model": "tunefree.io.model",
    "sgd_ridge_path": "tunefree.estimators.ridge",
}

# Names of earlier versions: how to say it now.
_REMOVED = {
    "ErrorCurveDisplay": "RiskCurveDisplay takes the same curves, of any number of repetitions.",
    **{
        name: f"it is tunefree.experiments.baselines.{name}, to compare with."
        for name in (
            "KernelAveragedSGDClassifier", "KernelAveragedSGDRegressor", "KernelPerceptron",
        )
    },
}  # fmt: skip

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name):
    if name in _REMOVED:
        raise AttributeError(f"tunefree.{name} is gone: {_REMOVED[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'tunefree' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *__all__])
