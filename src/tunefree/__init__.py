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
    from tunefree import dynamics as dynamics, perceptrons as perceptrons, plots as plots
    from tunefree._warn import DataWarning as DataWarning
    from tunefree.engine.session import Checkpoint as Checkpoint
    from tunefree.engine.sources import open_source as open_source
    from tunefree.estimators.auto import (
        TuneFreeClassifier as TuneFreeClassifier, TuneFreeRegressor as TuneFreeRegressor,
    )
    from tunefree.estimators.kernel.ridge import (
        KernelRidgeClassifier as KernelRidgeClassifier,
        KernelRidgeRegressor as KernelRidgeRegressor,
    )
    from tunefree.estimators.kernel.pistol import (
        KernelPiSTOLClassifier as KernelPiSTOLClassifier,
        KernelPiSTOLRegressor as KernelPiSTOLRegressor,
    )
    from tunefree.estimators.perceptron import OptimisticPerceptron as OptimisticPerceptron
    from tunefree.estimators.pistol import (
        PiSTOLClassifier as PiSTOLClassifier, PiSTOLRegressor as PiSTOLRegressor,
    )
    from tunefree.estimators.reflectron.classifier import (
        ReflectronClassifier as ReflectronClassifier,
    )
    from tunefree.estimators.reflectron.glm import (
        GLMClassifier as GLMClassifier, GLMRegressor as GLMRegressor,
    )
    from tunefree.estimators.reflectron.reflectron import (
        ReflectronRegressor as ReflectronRegressor,
    )
    from tunefree.estimators.ridge import (
        RidgePathRegressor as RidgePathRegressor, sgd_ridge_path as sgd_ridge_path,
    )
    from tunefree.estimators.trees import (
        BoostedTreesClassifier as BoostedTreesClassifier,
        BoostedTreesRegressor as BoostedTreesRegressor,
    )
    from tunefree.estimators.stream import (
        StreamClassifier as StreamClassifier, StreamRegressor as StreamRegressor,
    )
    from tunefree.io.model import load_model as load_model, save_model as save_model
    from tunefree.preprocessing import TablePreprocessor as TablePreprocessor
    # fmt: on
    # isort: on

# Modules of public names, imported when they are first used, and the estimators among these names.
_MODULES = ("dynamics", "perceptrons", "plots")
_IN_MODULES = ["ClassicalPerceptron", "KernelOptimisticPerceptron"]
_IN_MODULES += ["DynamicsReflectron", "SharedReflectron"]
_HOMES = {name: home for name, home in ESTIMATORS.items() if name not in _IN_MODULES} | {
    "Checkpoint": "tunefree.engine.session",
    "DataWarning": "tunefree._warn",
    "load_model": "tunefree.io.model",
    "open_source": "tunefree.engine.sources",
    "save_model": "tunefree.io.model",
    "sgd_ridge_path": "tunefree.estimators.ridge",
}
__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str):
    if name in _MODULES:
        return import_module(f"tunefree.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'tunefree' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_MODULES])
