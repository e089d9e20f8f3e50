"""Rows of the page with one column changed: permutation importances and partial effects.

Rows are an array or a pyarrow table, as they were read: scikit-learn's own functions take pandas
frames in place of such tables.
"""

from typing import Any

import numpy as np

from tunefree.base.exposures import neutral_terms

# Values of a number for which effects are computed, and the quantiles between which they lie.
_GRID, _ENDS = 20, (0.05, 0.95)


def taken_rows(X: Any, rows: np.ndarray) -> Any:
    """Some rows."""
    return X.take(rows) if hasattr(X, "schema") else X[rows]


def with_column(X: Any, j: int, column: Any) -> Any:
    """The rows with another column j."""
    if hasattr(X, "schema"):
        return X.set_column(j, X.schema.names[j], column)
    X = X.copy()
    X[:, j] = column
    return X


def column_of(X: Any, j: int) -> np.ndarray | None:
    """Column j as numbers, or as objects if it holds text; None for dates and truth values."""
    if not hasattr(X, "schema"):
        return X[:, j]
    from pyarrow import types

    column, kind = X.column(j), X.schema.field(j).type
    of_levels = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(of_levels) or types.is_large_string(of_levels):
        return np.array(column.to_pylist(), dtype=object)
    if types.is_integer(kind) or types.is_floating(kind):
        return np.array(column.to_pylist(), dtype=np.float64)  # None is NaN
    return None


def permuted_scores(estimator, X, y, scorer, n_repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """How much the score falls if a column is permuted: mean and standard deviation, by column.

    Every column has the same permutations, as in scikit-learn's ``permutation_importance``.
    """
    rng, whole = np.random.default_rng(0), scorer(estimator, X, y)
    orders, falls = [rng.permutation(len(y)) for _ in range(n_repeats)], []
    for j in range(X.shape[1]):
        column = X.column(j) if hasattr(X, "schema") else X[:, j]
        changed = (with_column(X, j, column.take(order)) for order in orders)
        falls.append([whole - scorer(estimator, one, y) for one in changed])
    return np.mean(falls, axis=1), np.std(falls, axis=1)


def mean_predictions(estimator, X, j: int, values: np.ndarray) -> np.ndarray:
    """The mean prediction if all rows have the same value in column j, for each of the values.

    Of a classifier it is that of the last class, of several targets that of the last one, and of
    counts over an exposure the rate.
    """
    names = "predict_proba", "decision_function", "predict"
    predict = next(getattr(estimator, name) for name in names if hasattr(estimator, name))
    terms = neutral_terms(estimator)
    n, means = X.shape[0], []
    for value in values.tolist():
        same: Any = value
        if hasattr(X, "schema"):
            import pyarrow

            same = pyarrow.array([value] * n)
        means.append(predict(with_column(X, j, same), **terms).reshape(n, -1)[:, -1].mean())
    return np.array(means)


def grid_of(column: np.ndarray) -> np.ndarray:
    """The values of numbers for which effects are computed, as in ``partial_dependence``."""
    values = np.unique(column)
    if len(values) <= _GRID:
        return values.astype(np.float64)
    low, high = np.quantile(column, _ENDS)
    return np.linspace(low, high, _GRID)
