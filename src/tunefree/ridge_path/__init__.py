"""Ridge paths: one pass of SGD, geometric averages for all penalties (Neu and Rosasco 2018)."""

from tunefree.core.registry import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__, {"sgd_ridge_path": "tunefree.ridge_path.estimators"}
)
