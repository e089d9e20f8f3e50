"""Tuning-free linear and kernel learning: no step size, no grid, no cross-validation.

Public names are imported at first use, so that ``import tunefree`` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tunefree._registry import ESTIMATORS
from tunefree._version import __version__

if TYPE_CHECKING:  # the same names for type checkers, which do not run `__getattr__`
    # isort: off
    # fmt: off
    from tunefree.engine.session import Checkpoint as Checkpoint
    from tunefree.engine.sources import open_source as open_source
    from tunefree.estimators.auto import (
        TuneFreeClassifier as TuneFreeClassifier, TuneFreeRegressor as TuneFreeRegressor,
    )
    from tunefree.estimators.kernel.landmarks import (
        LandmarkClassifier as LandmarkClassifier, LandmarkRegressor as LandmarkRegressor,
    )
    from tunefree.estimators.kernel.pistol import (
        KernelPiSTOLClassifier as KernelPiSTOLClassifier,
        KernelPiSTOLRegressor as KernelPiSTOLRegressor,
    )
    from tunefree.estimators.perceptron import (
        ClassicalPerceptron as ClassicalPerceptron,
        KernelOptimisticPerceptron as KernelOptimisticPerceptron,
        OptimisticPerceptron as OptimisticPerceptron,
    )
    from tunefree.estimators.pistol import (
        PiSTOLClassifier as PiSTOLClassifier, PiSTOLRegressor as PiSTOLRegressor,
    )
    from tunefree.estimators.reflectron.dynamics import DynamicsReflectron as DynamicsReflectron
    from tunefree.estimators.reflectron.flow import flow as flow
    from tunefree.estimators.reflectron.glm import (
        ReflectronClassifier as ReflectronClassifier, ReflectronRegressor as ReflectronRegressor,
    )
    from tunefree.estimators.reflectron.shared import SharedReflectron as SharedReflectron
    from tunefree.estimators.ridge import (
        AveragedSGDRegressor as AveragedSGDRegressor, sgd_ridge_path as sgd_ridge_path,
    )
    from tunefree.estimators.stream import (
        StreamClassifier as StreamClassifier, StreamRegressor as StreamRegressor,
    )
    from tunefree.io.model import load_model as load_model, save_model as save_model
    from tunefree.plots import (
        CoverageDisplay as CoverageDisplay, DriftDisplay as DriftDisplay,
        IntervalDisplay as IntervalDisplay, LeaderboardDisplay as LeaderboardDisplay,
        LinkDisplay as LinkDisplay, MarginDisplay as MarginDisplay,
        ReliabilityDisplay as ReliabilityDisplay, RidgePathDisplay as RidgePathDisplay,
        RiskCurveDisplay as RiskCurveDisplay, WeightsDisplay as WeightsDisplay,
    )
    from tunefree.preprocessing import TablePreprocessor as TablePreprocessor
    # fmt: on
    # isort: on

_HOMES = ESTIMATORS | {
    "Checkpoint": "tunefree.engine.session",
    "CoverageDisplay": "tunefree.plots",
    "DriftDisplay": "tunefree.plots",
    "IntervalDisplay": "tunefree.plots",
    "LeaderboardDisplay": "tunefree.plots",
    "LinkDisplay": "tunefree.plots",
    "MarginDisplay": "tunefree.plots",
    "ReliabilityDisplay": "tunefree.plots",
    "RidgePathDisplay": "tunefree.plots",
    "RiskCurveDisplay": "tunefree.plots",
    "WeightsDisplay": "tunefree.plots",
    "flow": "tunefree.estimators.reflectron.flow",
    "load_model": "tunefree.io.model",
    "open_source": "tunefree.engine.sources",
    "save_model": "tunefree.io.model",
    "sgd_ridge_path": "tunefree.estimators.ridge",
}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'tunefree' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
