"""Tuning-free linear and kernel learning: no step size, no grid, no cross-validation.

Public names are imported at first use, so that ``import tunefree`` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tunefree._version import __version__
from tunefree.core.registry import ESTIMATORS

if TYPE_CHECKING:  # the same names for type checkers, which do not run `__getattr__`
    # isort: off
    # fmt: off
    from tunefree import (
        kernel_ridge as kernel_ridge, kernels as kernels, perceptron as perceptron,
        pistol as pistol, plots as plots, reflectron as reflectron, ridge_path as ridge_path,
        stack as stack, streams as streams, trees as trees,
    )
    from tunefree.core.warn import DataWarning as DataWarning
    from tunefree.engine.session import Checkpoint as Checkpoint
    from tunefree.engine.sources import open_source as open_source
    from tunefree.stack.classifier import TuneFreeClassifier as TuneFreeClassifier
    from tunefree.stack.regressor import TuneFreeRegressor as TuneFreeRegressor
    from tunefree.kernel_ridge.estimators import (
        KernelRidgeClassifier as KernelRidgeClassifier,
        KernelRidgeRegressor as KernelRidgeRegressor,
    )
    from tunefree.pistol.kernel_classifier import (
        KernelPiSTOLClassifier as KernelPiSTOLClassifier,
    )
    from tunefree.pistol.kernel_regressor import KernelPiSTOLRegressor as KernelPiSTOLRegressor
    from tunefree.perceptron.estimators import OptimisticPerceptron as OptimisticPerceptron
    from tunefree.pistol.classifier import PiSTOLClassifier as PiSTOLClassifier
    from tunefree.pistol.regressor import PiSTOLRegressor as PiSTOLRegressor
    from tunefree.reflectron.classifier import ReflectronClassifier as ReflectronClassifier
    from tunefree.reflectron.glm.classifier import GLMClassifier as GLMClassifier
    from tunefree.reflectron.glm.regressor import GLMRegressor as GLMRegressor
    from tunefree.reflectron.reflectron import ReflectronRegressor as ReflectronRegressor
    from tunefree.ridge_path.estimators import (
        RidgePathRegressor as RidgePathRegressor,
        sgd_ridge_path as sgd_ridge_path,
    )
    from tunefree.trees.classifier import BoostedTreesClassifier as BoostedTreesClassifier
    from tunefree.trees.regressor import BoostedTreesRegressor as BoostedTreesRegressor
    from tunefree.streams.classifier import StreamClassifier as StreamClassifier
    from tunefree.streams.regressor import StreamRegressor as StreamRegressor
    from tunefree.files.model import (
        describe_model as describe_model, load_model as load_model, save_model as save_model,
    )
    from tunefree.rows.preprocessing import TablePreprocessor as TablePreprocessor
    # fmt: on
    # isort: on

# Folders of public names, imported at first use, and the estimators that are in a folder alone.
_MODULES = (
    "kernel_ridge", "kernels", "perceptron", "pistol", "plots", "reflectron", "ridge_path", "stack",
    "streams", "trees",
)  # fmt: skip
_IN_MODULES = (
    "ClassicalPerceptron", "DynamicsReflectron", "KernelOptimisticPerceptron", "SharedReflectron",
)  # fmt: skip
_HOMES = {name: home for name, home in ESTIMATORS.items() if name not in _IN_MODULES} | {
    "Checkpoint": "tunefree.engine.session",
    "DataWarning": "tunefree.core.warn",
    "describe_model": "tunefree.files.model",
    "load_model": "tunefree.files.model",
    "open_source": "tunefree.engine.sources",
    "save_model": "tunefree.files.model",
    "sgd_ridge_path": "tunefree.ridge_path.estimators",
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
