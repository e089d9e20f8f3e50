"""Moments of columns.

`moments` are those of rows in memory, `RunningMoments` of a stream, and `RowMeans`, `Deviations`
and `Ranges` of parts that are joined (chunks of a source, partitions of a cluster).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.jit import REASSOCIATE, kernel, maximum
from tunefree.rows.designs import design_of
from tunefree.rows.matrices import as_dense, resized, squares_about

_BLOCK = 1024


class Moments(NamedTuple):
    """Weighted statistics of d columns."""

    weight: float  # of all rows
    mean: np.ndarray
    square: np.ndarray  # the mean square about the mean, of sparse data about 0
    largest: np.ndarray  # the largest absolute value
    product: Any  # the covariance, of shape (d, d); None if it was not computed
    magnitude: float  # the root mean square of the entries that are not 0


def _blocks(X, rows, caps):
    for start in range(0, len(rows), _BLOCK):
        block = as_dense(X[rows[start : start + _BLOCK]]).astype(np.float64, copy=False)
        yield slice(start, start + _BLOCK), block if caps is None else np.clip(block, *caps)


def moments(X, rows, weights, *, centred=True, products=False, caps=None):
    """Moments of chosen rows, summed in their order; columns are clipped to `caps` first.

    About the mean if `centred`, else about zero, which reads stored entries only. With `products`
    the covariance is computed, too.

    Examples
    --------
    >>> m = moments(np.array([[1.0], [3.0]]), np.array([0, 1]), np.ones(2))
    >>> m.mean, m.square
    (array([2.]), array([1.]))
    """
    d, total = X.shape[1], float(weights.sum())
    if not centred and sparse.issparse(X):
        sums = RunningMoments(d, sparse=True, products=False)
        sums.add(X, weights, rows)
        sums.total = total
        return sums.moments()
    mean, largest = np.zeros(d), np.zeros(d)
    stored = energy = 0.0
    for part, block in _blocks(X, rows, caps):
        w = weights[part]
        mean += w @ block
        np.maximum(largest, np.abs(block).max(axis=0), out=largest)
        stored += float(w @ np.count_nonzero(block, axis=1))
        energy += float(w @ np.einsum("ij,ij->i", block, block))
    mean /= total
    product = np.zeros((d, d)) if products else None
    square = np.zeros(d)
    for part, block in _blocks(X, rows, caps):
        block = block - mean if centred else block
        weighted = block * weights[part][:, None]
        square += np.einsum("ij,ij->j", weighted, block)
        if products:
            product += weighted.T @ block
    return Moments(
        total,
        mean,
        square / total,
        largest,
        None if product is None else product / total,
        float(np.sqrt(energy / max(stored, 1e-300))),
    )


@kernel(fastmath=REASSOCIATE)
def _stream_sums(X, weights, total, mean, square, largest, product, counts):
    """Welford's update, row by row, so that chunks of any size give the same bits."""
    d = X.shape[1]
    gap = np.empty(d)
    for i in range(X.shape[0]):
        w = weights[i]
        total += w
        for j in range(d):
            v = X[i, j]
            gap[j] = v - mean[j]
            mean[j] += gap[j] * w / total
            square[j] += w * gap[j] * (v - mean[j])
            largest[j] = maximum(largest[j], abs(v))
            if v != 0.0:
                counts[0] += w
                counts[1] += w * v * v
        shrink = w * (1.0 - w / total)
        if product.shape[0] > 0:
            for j in range(d):
                s = shrink * gap[j]
                for k in range(d):
                    product[j, k] += s * gap[k]
    return total


@kernel
def _sparse_sums(data, indices, indptr, rows, weights, mean, square, largest, counts):
    total = 0.0
    for i in range(rows.shape[0]):
        w = weights[i]
        total += w
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            v = float(data[p])
            if v != 0.0:
                mean[indices[p]] += w * v
                square[indices[p]] += w * v * v
                largest[indices[p]] = maximum(largest[indices[p]], abs(v))
                counts[0] += w
                counts[1] += w * v * v
    return total


class RunningMoments:
    """Moments of a stream, updated row by row; of sparse rows about 0, else about the mean.

    Examples
    --------
    >>> running = RunningMoments(1, sparse=False, products=False)
    >>> running.add(np.array([[1.0], [3.0]]), np.ones(2))
    >>> running.moments().square
    array([1.])
    """

    _SAVED = ("sparse", "total", "counts", "mean", "square", "largest", "product")

    def __init__(self, d, *, sparse, products):
        self.sparse, self.total, self.counts = sparse, 0.0, np.zeros(2)
        self.mean, self.square, self.largest = np.zeros(d), np.zeros(d), np.zeros(d)
        self.product = np.zeros((d, d) if products else (0, 0))

    def add(self, X, weights, rows=None):
        """Add rows: chosen ones of a sparse matrix, or all."""
        sums = self.mean, self.square, self.largest
        if self.sparse:
            rows = np.arange(X.shape[0]) if rows is None else rows
            self.total += _sparse_sums(
                X.data, X.indices, X.indptr, rows, weights, *sums, self.counts
            )
        else:
            X = X.astype(np.float64, copy=False)
            self.total = _stream_sums(X, weights, self.total, *sums, self.product, self.counts)

    def columns(self, d):
        """Extend to d columns; new columns have been 0 so far."""
        for name in ("mean", "square", "largest"):
            setattr(self, name, resized(getattr(self, name), d))

    def moments(self):
        """The moments so far."""
        total = max(self.total, 1e-300)
        return Moments(
            self.total,
            self.mean / total if self.sparse else self.mean.copy(),
            self.square / total,
            self.largest.copy(),
            self.product / total if self.product.size else None,
            float(np.sqrt(self.counts[1] / max(self.counts[0], 1e-300))),
        )


class RowMeans(NamedTuple):
    """Total weight of rows, and weighted means of their columns and targets."""

    weight: float
    columns: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The means of rows."""
        total = float(weights.sum())
        share = weights / total
        return cls(total, np.asarray(share @ X, dtype=np.float64).reshape(-1), share @ targets)

    def join(self, other):
        """The means of the union."""
        total = self.weight + other.weight
        share = other.weight / total
        return RowMeans(
            total,
            self.columns + share * (other.columns - self.columns),
            self.targets + share * (other.targets - self.targets),
        )


class Deviations(NamedTuple):
    """Means of rows, and the sums of squared deviations of their columns: they can be joined."""

    means: RowMeans
    square: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The deviations of rows."""
        means = RowMeans.of(X, targets, weights)
        return cls(means, squares_about(means.columns, X, weights, means.weight))

    def join(self, other):
        """The deviations of the union (Chan, Golub and LeVeque 1979)."""
        means = self.means.join(other.means)
        share, gap = other.means.weight / means.weight, other.means.columns - self.means.columns
        between = self.means.weight * share * gap**2
        return Deviations(means, self.square + other.square + between)

    def widened(self, d):
        """The same with d columns; new columns were 0 so far."""
        means = self.means._replace(columns=resized(self.means.columns, d))
        return Deviations(means, resized(self.square, d))


class Ranges(NamedTuple):
    """Means of rows, and the range of every column: they can be joined."""

    means: RowMeans
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The ranges of rows of positive weight."""
        return cls(RowMeans.of(X, targets, weights), *design_of(X).ranges())

    def join(self, other):
        """The ranges of the union."""
        means = self.means.join(other.means)
        return Ranges(means, np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@kernel
def _scaled_rows(data, indices, indptr, rows, scale, bias, width):
    """Chosen rows of a CSR matrix, scaled by column, with a constant last entry."""
    n = rows.shape[0]
    extra = 1 if bias != 0.0 else 0
    starts = np.empty(n + 1, np.int64)
    starts[0] = 0
    for i in range(n):
        starts[i + 1] = starts[i] + indptr[rows[i] + 1] - indptr[rows[i]] + extra
    out, columns = np.empty(starts[n]), np.empty(starts[n], np.uint32)
    scaled = scale.shape[0] > 0
    for i in range(n):
        q = starts[i]
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            j = indices[p]
            out[q] = data[p] * scale[j] if scaled else data[p]
            columns[q] = j
            q += 1
        if extra:
            out[q] = bias
            columns[q] = width
    return out, columns, starts
