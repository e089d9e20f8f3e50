"""Columns in bins: numbers from 0 to 255, by borders between the values of the training rows.

Bin 0 holds missing values, and bin 1 + k the values above exactly k borders. So a tree depends on
the order of a column's values only: an increasing transform of the column changes no prediction of
the training rows.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.jit import kernel, minimum
from tunefree.rows.scaling import SEARCHED, count_below

# Borders of a column; with missing values and the values above all borders, a byte counts the bins.
MOST_BORDERS = 254
# Borders are found on so many rows.
_MOST_ROWS = 200_000


class Bins(NamedTuple):
    """The borders of all columns, those of column j from `starts[j]` to `starts[j + 1]`."""

    borders: np.ndarray
    starts: np.ndarray

    def sizes(self):
        """The number of bins of every column."""
        return np.diff(self.starts) + 2

    def limits(self, columns, thresholds):
        """The borders that values in bins above these thresholds exceed."""
        places = self.starts[columns] + thresholds.astype(np.int64) - 1
        inside = (thresholds > 0) & (places < self.starts[columns + 1])
        padded = np.append(self.borders, np.inf)
        return padded[np.where(inside, places, len(self.borders))]

    def codes(self, X):
        """The bins of the values, of shape (columns, rows)."""
        out = np.empty((X.shape[1], X.shape[0]), dtype=np.uint8)
        n = max(1, min(X.shape[0], SEARCHED))
        memory = np.empty(n), np.empty(n, np.int64)
        if isinstance(X, np.ndarray):
            _bin_columns(np.ascontiguousarray(X), self.borders, self.starts, *memory, out)
            return out
        for j, values in enumerate(_columns_of(X)):
            part = slice(j, j + 2)
            _bin_columns(values[:, None], self.borders, self.starts[part], *memory, out[j : j + 1])
        return out


def bins_of(X, weights):
    """The `Bins` of training rows, where `weights` counts each row's repetitions."""
    step = -(-X.shape[0] // _MOST_ROWS)
    X, weights = X[::step], weights[::step]
    borders = [_borders(values, weights) for values in _columns_of(X)]
    starts = np.concatenate([[0], np.cumsum([len(b) for b in borders])]).astype(np.int64)
    return Bins(np.concatenate([np.empty(0), *borders]), starts)


def _columns_of(X):
    """The columns of dense or sparse rows, as contiguous numbers."""
    if not sparse.issparse(X):
        yield from (np.ascontiguousarray(X[:, j], dtype=np.float64) for j in range(X.shape[1]))
        return
    X = sparse.csc_array(X)
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        values = np.zeros(X.shape[0])
        values[X.indices[start:end]] = X.data[start:end]
        yield values


def _borders(values, weights):
    """Borders between distinct values: all, or those nearest to quantiles of equal weight."""
    present = ~np.isnan(values)
    distinct, place = np.unique(values[present], return_inverse=True)
    if len(distinct) < 2:
        return np.empty(0)
    last = np.arange(len(distinct) - 1)
    if len(last) > MOST_BORDERS:
        mass = np.cumsum(np.bincount(place, weights[present]))
        shares = np.arange(1, MOST_BORDERS + 1) / (MOST_BORDERS + 1)
        last = np.unique(np.minimum(np.searchsorted(mass, shares * mass[-1]), last[-1]))
    return _between(distinct[last], distinct[last + 1])


def _between(low, high):
    """A number b with low <= b < high: the middle in single precision, or else `low`."""
    with np.errstate(over="ignore", invalid="ignore"):
        middle = (0.5 * low + 0.5 * high).astype(np.float32).astype(np.float64)
        return np.where((low <= middle) & (middle < high), middle, low)


@kernel(borrows=True, unrolls=False)
def _bin_columns(X, borders, starts, x, counts, out):
    """Write the bins of columns; `x` and `counts` are memory for `count_below`."""
    for first in range(0, len(X), len(x)):
        n = minimum(len(x), len(X) - first)
        for j in range(X.shape[1]):
            for i in range(n):
                x[i] = X[first + i, j]
            count_below(x[:n], borders[starts[j] : starts[j + 1]], counts)
            for i in range(n):
                out[j, first + i] = 0 if np.isnan(x[i]) else counts[i] + 1
