"""Labels of a stream: classes that come late, and what a row of each class weighs."""

import numpy as np

from tunefree._jit import kernel
from tunefree.estimators import base

_TINY = np.finfo(float).tiny


def stream_labels(estimator, y, weights, classes, known):
    """Take in the labels of the next chunk.

    Parameters
    ----------
    estimator : estimator
        With `class_weight`, and `class_count_` if it has learned.
    y, weights : ndarray of shape (n,)
    classes : array-like or None
        Classes announced with this chunk.
    known : ndarray or None
        The classes so far.

    Returns
    -------
    classes : ndarray
        All classes now, sorted.
    codes : ndarray of shape (n,)
        The class number of every row.
    weights : ndarray of shape (n,)
        Times those of the classes.
    counts : ndarray of shape (n_classes,)
        The weight of all rows of each class, before those.

    Raises
    ------
    ValueError
        If there is only one class so far.
    """
    seen, _ = base.encode_labels(y)
    every = np.unique(np.concatenate([c for c in (known, classes, seen) if c is not None]))
    if len(every) < 2:
        raise ValueError(
            f"There is only one class so far ({every[0]}): announce them all by classes=."
        )
    codes, counts = np.searchsorted(every, y), np.zeros(len(every))
    if known is not None:
        counts[np.searchsorted(every, known)] = getattr(estimator, "class_count_", 0.0)
    shares = _balances(codes, weights, counts)
    if estimator.class_weight == "balanced":
        return every, codes, weights * shares, counts
    return every, codes, base.balanced(estimator.class_weight, every, codes, weights), counts


def _balances(codes, weights, counts):
    """What rows weigh if all classes seen so far are to weigh the same; the counts go on.

    A row knows those before it and itself, so that the chunks' sizes make no difference.

    Examples
    --------
    >>> _balances(np.array([0, 0, 0, 1]), np.ones(4), np.zeros(2))
    array([1., 1., 1., 2.])
    """
    shares = np.empty(len(codes))
    _scan(codes, weights, counts, shares)
    return shares


@kernel
def _scan(codes, weights, counts, shares):
    for i in range(len(codes)):
        counts[codes[i]] += weights[i]
        total, n_seen = 0.0, 0
        for k in range(len(counts)):
            total += counts[k]
            n_seen += counts[k] > 0.0
        shares[i] = total / max(n_seen * counts[codes[i]], _TINY)


def validation(estimator, X_val, y_val):
    """The error of coefficients and intercepts on validation rows, as a function.

    Raises
    ------
    ValueError
        If the labels are not those of the training classes, one a row.
    """
    if y_val is None:
        raise ValueError("X_val is given without y_val.")
    X, y = base.check_rows(estimator, X_val), np.asarray(y_val)
    if len(y) != X.shape[0] or not np.isin(y, estimator.classes_).all():
        raise ValueError("y_val must have a label of the training classes for each row.")
    codes = np.searchsorted(estimator.classes_, y)

    def validate(coef, intercept):
        return float(np.mean(base.chosen(X @ coef + intercept) != codes))

    return validate
