"""Labels of rows: the index of a frame or a series of pandas, which is no column.

Rows and what is given beside them are matched by their place, as in scikit-learn. A user of pandas
may expect that they are matched by their labels: there is a warning where this makes a difference.
"""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from tunefree.core.warn import DataWarning, warn
from tunefree.rows.columns import names_of, without_index

Method = TypeVar("Method", bound=Callable[..., Any])
# What has one value a row of X.
_OF_ROWS = "y", "sample_weight", "exposure", "offset", "groups"
# Whether a method has looked at the labels of its rows, and calls others.
_LOOKED: ContextVar[bool] = ContextVar("looked_at_labels", default=False)


def warn_of_row_labels(X: Any, **beside: Any) -> None:
    """Warn of an index of pandas that is not that of the rows, or that is a column.

    Parameters
    ----------
    X : rows
    **beside : values
        One a row, by the name of the argument.

    Warns
    -----
    DataWarning
        If values have the labels of the rows in another order, or if Arrow has made a column of an
        index.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> X = pd.DataFrame({"a": [1.0, 2.0]})
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_row_labels(X, y=pd.Series([1.0, 2.0], index=[1, 0]))
    >>> str(caught[0].message).partition(":")[0]
    'X and y have the same row labels in another order, and are matched by place'
    """
    _warn_of_index(X)
    _warn_of_order("X", X, beside)


def warn_of_labels_of_fit(arguments: dict) -> None:
    """Warn of row labels of the arguments of a method, by name: rows, and rows to validate on.

    Warns
    -----
    DataWarning
        As `warn_of_row_labels`.
    """
    beside = {name: arguments.get(name) for name in _OF_ROWS}
    warn_of_row_labels(arguments["X"], **beside)
    _warn_of_order("X_val", arguments.get("X_val"), {"y_val": arguments.get("y_val")})


def matched_by_place(method: Method) -> Method:
    """Make a method warn of values beside X that have its row labels in another order.

    Methods that it calls with the same rows do not warn again.

    >>> import pandas as pd
    >>> class Count:
    ...     @matched_by_place
    ...     def score(self, X, y=None):
    ...         return len(X)
    >>> Count().score(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1.0, 2.0]))
    2
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def looked(self: Any, *args: Any, **kwargs: Any) -> Any:
        rows = args[0] if args else kwargs.get("X")
        if _LOOKED.get() or not _has_labels(rows):
            return method(self, *args, **kwargs)
        before = _LOOKED.set(True)
        try:
            warn_of_labels_of_fit(signature.bind_partial(self, *args, **kwargs).arguments)
            return method(self, *args, **kwargs)
        finally:
            _LOOKED.reset(before)

    return cast(Any, looked)


def _warn_of_index(X):
    """Warn of an index of pandas that Arrow has made a column."""
    kept = without_index(X)
    if kept is not X:
        name = next(name for name in names_of(X) if name not in names_of(kept))
        warn(
            f"X has the index of pandas in the column {name!r}, which is not learned: give it "
            "another name if it is a feature.",
            DataWarning,
        )


def _warn_of_order(of, X, beside):
    """Warn of values that have the labels of the rows `of` in another order."""
    for name, values in beside.items():
        if _are_in_another_order(X, values):
            warn(
                f"{of} and {name} have the same row labels in another order, and are matched by "
                f"place: {name}.loc[{of}.index] matches them by label.",
                DataWarning,
            )


def _are_in_another_order(X, values):
    """Whether rows and values have the same labels, each once, in another order."""
    labels: Any = getattr(X, "index", None)
    others: Any = getattr(values, "index", None)
    if not (_has_labels(X) and _has_labels(values)):
        return False
    if len(labels) != len(others):
        return False
    if labels.equals(others) or not (labels.is_unique and others.is_unique):
        return False
    return bool(others.isin(labels).all())


def _has_labels(values):
    """Whether rows or values have an index: that of a list is a method."""
    return hasattr(getattr(values, "index", None), "equals")
