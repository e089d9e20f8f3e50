"""Dominant targets are limited twice: about the median, then about held-out predictions."""

import numpy as np

from tunefree.rows.outliers import limit_dominant, warn_of_dominant

# Of fewer targets none is limited because it is dominant.
_FEWEST = 40


def without_dominant(y, weights, numbers, held_out):
    """Targets without dominant ones (`tunefree.rows.outliers.limit_dominant`), with a warning.

    They are limited about the median. A model that has learned the limited ones then predicts them
    where they are held out, and they are limited about these predictions: what the columns explain
    stays.

    Parameters
    ----------
    y, weights, numbers : ndarray of shape (n,)
        Targets, their weights, and their places in the user's y.
    held_out : callable
        From limited targets to held-out rows, and their predictions; no rows if there are none.

    Returns
    -------
    ndarray of shape (n,) or None
        None if no target is limited.
    """
    if len(y) < _FEWEST:
        return None
    centres = np.full(len(y), np.median(y))
    limited = limit_dominant(y, centres, weights)
    changed = limited != y
    if not changed.any():
        return None
    rows, predictions = held_out(limited)
    if changed[rows].sum() == changed.sum():
        centres[rows] = predictions
        limited = np.where(changed, limit_dominant(y, centres, weights), y)
    if (limited == y).all():
        return None
    warn_of_dominant(y, limited, numbers)
    return limited
