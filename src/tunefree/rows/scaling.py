"""Scaling of columns: to one scale, or to asinh((x - median) / scale).

The latter is linear near the median and logarithmic far from it, which suits heavy tails and skewed
counts.
"""

from typing import NamedTuple

import numpy as np

from tunefree.core.jit import kernel, maximum, minimum

# Rows from which centre and scale of an asinh column are computed.
_MOST_ROWS = 20_000


class Scaling(NamedTuple):
    """z = asinh((x - center) / scale), or a plain shift and rescaling.

    Parameters
    ----------
    center, scale : ndarray of shape (d,)
    asinh : bool, default=True
        False: no asinh.
    """

    center: np.ndarray
    scale: np.ndarray
    asinh: bool = True

    def show(self, X):
        """The transformed rows, of the same type of float.

        Examples
        --------
        >>> Scaling(np.zeros(1), np.ones(1)).show(np.array([[0.0], [1e6]])).round(1)
        array([[ 0. ],
               [14.5]])
        """
        z = (X - self.center.astype(X.dtype)) / self.scale.astype(X.dtype)
        return np.arcsinh(z) if self.asinh else z

    def onnx(self, g, X):
        """The same in a graph (`tunefree.onnx`)."""
        X = g("Div", g("Sub", X, self.center), self.scale)
        if self.asinh:  # asinh(z) = sign(z) log(|z| + sqrt(z^2 + 1))
            root = g("Sqrt", g("Add", g("Mul", X, X), 1.0))
            X = g("Mul", g("Sign", X), g("Log", g("Add", g("Abs", X), root)))
        return X


def asinh_scaling(X):
    """Asinh scaling of rows in random order: median, and the 75 % quantile of the distance to it.

    Where that is 0, the smallest distance that is not (1 for a constant).

    Examples
    --------
    >>> asinh_scaling(np.array([[1.0, 0.0], [2.0, 0.0], [9.0, 5.0]])).scale
    array([4. , 2.5])
    """
    X = np.asarray(X[:_MOST_ROWS], dtype=np.float64)
    center = np.median(X, axis=0)
    away = np.abs(X - center)
    scale = np.quantile(away, 0.75, axis=0)
    least = np.where(away > 0.0, away, np.inf).min(axis=0)
    return Scaling(center, np.where(scale > 0.0, scale, np.where(np.isfinite(least), least, 1.0)))


def standard_scaling(X, weights):
    """Mean and standard deviation of weighted rows (deviation 1 for a constant).

    Examples
    --------
    >>> standard_scaling(np.array([[1.0], [3.0]]), np.ones(2)).center
    array([2.])
    """
    share = (weights / weights.sum()).astype(np.float64)
    center = share @ X
    spread = np.sqrt(np.maximum(share @ np.square(X - center), 0.0))
    largest = np.abs(X).max(axis=0, initial=0.0)
    return Scaling(center, np.where(spread > 1e-10 * largest, spread, 1.0), asinh=False)


def show(parts, X):
    """Rows under all parts of a view, one after the other."""
    for part in parts:
        X = part.show(X)
    return X


# Standardised numbers are clipped at this many deviations.
_CLIP = 6.0
_NUMBER, _RANK, _LEVEL = 0, 1, 2


# Numbers whose places are searched together.
SEARCHED = 256


@kernel(borrows=True)
def count_below(x, knots, counts):
    """Write how many of some increasing numbers are below each x: binary search.

    All x take a step before the next one: a search alone waits for every comparison, which takes
    six times as long (`benchmarks/tables.py`, us a row).
    """
    n = len(knots)
    for i in range(len(x)):
        counts[i] = 0
    while n > 0:
        half = (n + 1) >> 1
        for i in range(len(x)):
            count = counts[i]
            counts[i] = count + (half if x[i] > knots[count + half - 1] else 0)
        n -= half


@kernel(borrows=True)
def _interpolated(x, j, knots, heights):
    """`numpy.interp` for one number with j knots below it, to the bit."""
    if j == len(knots):
        return heights[-1]
    if j == 0 or x == knots[j]:
        return heights[j]
    slope = (heights[j] - heights[j - 1]) / (knots[j] - knots[j - 1])
    return slope * (x - knots[j - 1]) + heights[j - 1]


@kernel(borrows=True)
def _show(X, source, kind, out, x, counts, center, scale, start, knots, heights):
    """Write the coordinates of rows; False if an index is out of bounds, as in a forged file.

    `x` and `counts` are memory for `count_below`.
    """
    n = len(source)
    same = len(kind) == len(center) == len(scale) == n and len(knots) == len(heights)
    if not same or len(start) != n + 1:
        return False
    for i in range(n):
        rank = kind[i] == _RANK
        if not 0 <= source[i] < X.shape[1] or not 0 <= start[i] <= start[i + 1] <= len(knots):
            return False
        if rank and start[i] == start[i + 1]:
            return False
    for i in range(n):
        row, j = out[i], source[i]
        if kind[i] == _LEVEL:
            for r in range(len(X)):
                row[r] = X[r, j] == center[i]
        elif kind[i] == _RANK:
            own, ranks = knots[start[i] : start[i + 1]], heights[start[i] : start[i + 1]]
            for first in range(0, len(X), len(x)):
                n = minimum(len(x), len(X) - first)
                for r in range(n):
                    x[r] = X[first + r, j]
                count_below(x[:n], own, counts)
                for r in range(n):
                    row[first + r] = _interpolated(x[r], counts[r], own, ranks)
        else:
            for r in range(len(X)):
                z = (X[r, j] - center[i]) / scale[i]
                row[r] = minimum(maximum(z, -_CLIP), _CLIP)
    return True
