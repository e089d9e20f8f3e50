"""Labels of rows: the index of a frame or a series of pandas, which is no column.

Rows and what is given beside them are matched by their place, as in scikit-learn. A user of pandas
may expect that they are matched by their labels: there is a warning where this makes a difference.
"""

from typing import Any

from tunefree.core.warn import DataWarning, warn
from tunefree.rows.columns import names_of, without_index


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
    kept = without_index(X)
    if kept is not X:
        name = next(name for name in names_of(X) if name not in names_of(kept))
        warn(
            f"X has the index of pandas in the column {name!r}, which is not learned: give it "
            "another name if it is a feature.",
            DataWarning,
        )
    for name, values in beside.items():
        if _are_in_another_order(X, values):
            warn(
                f"X and {name} have the same row labels in another order, and are matched by "
                f"place: {name}.loc[X.index] matches them by label.",
                DataWarning,
            )


def _are_in_another_order(X, values):
    """Whether rows and values have the same labels, each once, in another order."""
    labels: Any = getattr(X, "index", None)
    others: Any = getattr(values, "index", None)
    if not (hasattr(labels, "equals") and hasattr(others, "equals")):  # those of lists are methods
        return False
    if len(labels) != len(others):
        return False
    if labels.equals(others) or not (labels.is_unique and others.is_unique):
        return False
    return bool(others.isin(labels).all())
