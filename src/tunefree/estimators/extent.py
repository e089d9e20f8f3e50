"""Extent: how far beyond its limits a line is believed.

Clipping helps where a line is wrong beyond the bulk of the rows (bounded targets, columns that
saturate) and harms where it is right (heavy tails). The rows out there tell: a limit is opened if,
with it, they would have been predicted worse. What they say is bounded by the prediction p as the
line gives it, since a target beyond max(p, 4 robust standard deviations) counts as that: one absurd
target opens nothing. An open limit lies ten times as far as anything seen.
"""

import numpy as np
from scipy import sparse

from tunefree._array import resized
from tunefree._jit import kernel

# How much farther than anything seen a line is believed.
WIDER = 10.0
# Excesses that may be rounding, in units of the column's limits.
_ROUNDING = 1e-9


@kernel
def _lines(X, low, high, coef, intercept):
    """Predictions of dense rows as they are and of clipped ones; row by row, for equal bits."""
    n, k = X.shape[0], coef.shape[1]
    line, clipped = np.empty((n, k)), np.empty((n, k))
    for i in range(n):
        for c in range(k):
            p = q = intercept[c]
            for j in range(X.shape[1]):
                v = float(X[i, j])
                p += v * coef[j, c]
                q += min(max(v, low[j]), high[j]) * coef[j, c]
            line[i, c], clipped[i, c] = p, q
    return line, clipped


@kernel
def _weigh_sides(line, y, weights, inner, outer, sides, hull):
    """Compare, beyond the inner limits, the line with the limits; bound the targets by the line."""
    for i in range(line.shape[0]):
        for c in range(line.shape[1]):
            p = line[i, c]
            a = min(max(y[i, c], min(outer[0, c], p)), max(outer[1, c], p))
            y[i, c] = a
            hull[0, c], hull[1, c] = min(hull[0, c], a), max(hull[1, c], a)
            for side in range(2):
                limit = inner[side, c]
                if (p < limit) if side == 0 else (p > limit):
                    sides[side, c] += weights[i] * ((a - limit) ** 2 - (a - p) ** 2)


@kernel
def _weigh_columns(X, low, high, residuals, weights, coef, columns, beyond):
    """Compare, beyond each column's limits, the column as it is with the clipped one."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            v = float(X[i, j])
            excess = v - min(max(v, low[j]), high[j])
            if abs(excess) > _ROUNDING * (high[j] - low[j]):
                beyond[j] = 1.0
                for c in range(coef.shape[1]):
                    e = excess * coef[j, c]
                    columns[j] += weights[i] * (2.0 * residuals[i, c] * e - e * e)


class Extent:
    """What rows beyond the limits say of a line.

    Parameters
    ----------
    d, k : int
        Columns and targets.

    Attributes
    ----------
    coef, intercept : ndarray or None
        The line that is judged, in standardised targets; rows must not have shown it its errors on
        them unless it has seen all.
    farthest : ndarray of shape (2, d)
        Range of the columns as they are (dense rows).
    columns, beyond : ndarray of shape (d,)
        By how much the squared errors fall if the column is not clipped; 1 where it was beyond.
    sides : ndarray of shape (2, k)
        The same of the range of predictions, below and above.
    hull : ndarray of shape (2, k)
        Range of the targets that the line accounts for.

    Examples
    --------
    >>> extent, x = Extent(1, 1), np.array([[0.5], [3.0], [90.0]])
    >>> extent.judge(np.ones((1, 1)), np.zeros(1))
    >>> limits = np.array([-4.0]), np.array([4.0])
    >>> extent.weigh(x, x.copy(), np.ones(3), limits, np.array([[-1.0], [1.0]]), limits)
    >>> extent.open_columns(), extent.open_sides().ravel(), extent.hull.ravel()
    (array([ True]), array([False,  True]), array([ 0.5, 90. ]))
    """

    _SAVED = ("coef", "intercept", "farthest", "columns", "beyond", "sides", "hull")

    def __init__(self, d, k):
        self.coef = self.intercept = None
        self.farthest = np.array([np.full(d, np.inf), np.full(d, -np.inf)])
        self.columns, self.beyond, self.sides = np.zeros(d), np.zeros(d), np.zeros((2, k))
        self.hull = np.array([np.full(k, np.inf), np.full(k, -np.inf)])

    def judge(self, coef, intercept):
        """Judge this line from now on."""
        self.coef, self.intercept = np.ascontiguousarray(coef), np.ascontiguousarray(intercept)

    def weigh(self, X, y, weights, limits, inner, outer):
        """Take in rows.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            As they are.
        y : ndarray of shape (n, k)
            Standardised; overwritten by what the line accounts for.
        weights : ndarray of shape (n,)
        limits : (ndarray, ndarray) of shape (d,)
            Of the columns.
        inner, outer : array of shape (2, k)
            Where targets are few, and where they count only as far as the line goes.
        """
        if not sparse.issparse(X):
            self.farthest[0] = np.minimum(self.farthest[0], X.min(axis=0))
            self.farthest[1] = np.maximum(self.farthest[1], X.max(axis=0))
        if self.coef is None:
            return
        if sparse.issparse(X):
            line = X @ self.coef + self.intercept
        else:
            line, clipped = _lines(X, *limits, self.coef, self.intercept)
        _weigh_sides(line, y, weights, np.asarray(inner), np.asarray(outer), self.sides, self.hull)
        if not sparse.issparse(X):
            _weigh_columns(X, *limits, y - clipped, weights, self.coef, self.columns, self.beyond)

    def open_columns(self):
        """Columns that are better as they are, or were never beyond their limits."""
        return (self.beyond == 0.0) | (self.columns > 0.0)

    def open_sides(self):
        """Sides of the range beyond which the line is better than the limit."""
        return self.sides > 0.0

    def resized(self, d):
        """Know d columns from now on (of sparse data, which have no limits)."""
        self.columns, self.beyond = resized(self.columns, d), resized(self.beyond, d)
        self.farthest = np.array([resized(self.farthest[0], d), resized(self.farthest[1], d)])
        if self.coef is not None:
            self.coef = resized(self.coef, d)
