"""Columns on a robust logarithmic scale: what heavy tails and skewed counts want.

x becomes asinh((x - median) / scale): linear near the median, logarithmic far from it.
"""

from typing import NamedTuple

import numpy as np

_MOST_ROWS = 20_000


class Squash(NamedTuple):
    """z = asinh((x - center) / scale), or a plain shift and rescaling.

    Parameters
    ----------
    center, scale : ndarray of shape (d,)
    curved : bool, default=True
        False leaves the asinh out.
    """

    center: np.ndarray
    scale: np.ndarray
    curved: bool = True

    def show(self, X):
        """The transformed rows, of the same type of float.

        Examples
        --------
        >>> Squash(np.zeros(1), np.ones(1)).show(np.array([[0.0], [1e6]])).round(1)
        array([[ 0. ],
               [14.5]])
        """
        z = (X - self.center.astype(X.dtype)) / self.scale.astype(X.dtype)
        return np.arcsinh(z) if self.curved else z


def squash_of(X):
    """Center and scale from rows: median, and the 75 % quantile of the distance to it.

    Where that is 0, the smallest distance that is not (1 for a constant).

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Distinct rows in random order; the first 20,000 count.

    Returns
    -------
    Squash

    Examples
    --------
    >>> squash_of(np.array([[1.0, 0.0], [2.0, 0.0], [9.0, 5.0]])).scale
    array([4. , 2.5])
    """
    X = np.asarray(X[:_MOST_ROWS], dtype=np.float64)
    center = np.median(X, axis=0)
    away = np.abs(X - center)
    scale = np.quantile(away, 0.75, axis=0)
    least = np.where(away > 0.0, away, np.inf).min(axis=0)
    return Squash(center, np.where(scale > 0.0, scale, np.where(np.isfinite(least), least, 1.0)))


def standardise_of(X, weights):
    """Mean and standard deviation of weighted rows (deviation 1 for a constant).

    Examples
    --------
    >>> standardise_of(np.array([[1.0], [3.0]]), np.ones(2)).center
    array([2.])
    """
    share = (weights / weights.sum()).astype(np.float64)
    center = share @ X
    spread = np.sqrt(np.maximum(share @ np.square(X - center), 0.0))
    largest = np.abs(X).max(axis=0, initial=0.0)
    return Squash(center, np.where(spread > 1e-10 * largest, spread, 1.0), curved=False)
