"""Rows of numbers: all must be finite, or they are refused, or left out and counted."""

import numpy as np
from scipy import sparse

from tunefree.io.errors import DataError


def finite_rows(X, y, weight, name, start, skipped=None):
    """Check rows of numbers that were not text.

    Parameters
    ----------
    X : array or CSR of shape (n, n_features)
        The features.
    y : array of shape (n,) or (n, n_targets), or None
        The targets; text passes.
    weight : array of shape (n,) or None
        The weights, which must not be negative either.
    name : str
        The file, for messages.
    start : int
        The number of the first row, from 0.
    skipped : Skipped or None
        Where bad rows are counted and left out; None makes them errors.

    Returns
    -------
    X, y, weight
        The sound rows.

    Raises
    ------
    DataError
        With the number of the row, from 1.
    """
    faults = [(_rows(X), "a feature that is not finite")]
    if y is not None and np.asarray(y).dtype.kind in "fc":
        faults.append((_rows(np.reshape(y, (len(y), -1))), "a target that is not finite"))
    if weight is not None:
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0.0)))
        faults.append((bad, "a weight that is negative or not finite"))
    bad = np.unique(np.concatenate([rows for rows, _ in faults]))
    if not len(bad):
        return X, y, weight
    words = next(words for rows, words in faults if bad[0] in rows)
    error = DataError(f"row {start + bad[0] + 1} has {words}", name)
    error.feature = bad[0] in faults[0][0]
    if skipped is None:
        raise error
    skipped.add(error, len(bad))
    kept = np.setdiff1d(np.arange(X.shape[0]), bad)
    return X[kept], None if y is None else y[kept], None if weight is None else weight[kept]


def _rows(X):
    """The numbers of the rows that are not finite throughout."""
    values = X.data if sparse.issparse(X) else X
    if values.dtype.kind not in "fc" or np.isfinite(values).all():
        return np.empty(0, int)
    if sparse.issparse(X):
        bad = np.searchsorted(X.indptr, np.flatnonzero(~np.isfinite(values)), side="right") - 1
        return np.unique(bad)
    return np.flatnonzero(~np.isfinite(X).all(axis=1))
