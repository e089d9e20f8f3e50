"""Moments: what views need to know of the columns, from all rows or row by row."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree._jit import REASSOCIATE, kernel

_BLOCK = 1024


class Moments(NamedTuple):
    """Weighted statistics of columns.

    Attributes
    ----------
    weight : float
        Total weight of the rows.
    mean, square, largest : ndarray of shape (d,)
        Mean, mean square about the mean (of sparse data: about 0), largest absolute value.
    product : ndarray of shape (d, d) or None
        Mean products about the mean (the covariance), where asked for.
    magnitude : float
        Root mean square of the entries that are not 0.
    """

    weight: float
    mean: np.ndarray
    square: np.ndarray
    largest: np.ndarray
    product: np.ndarray | None
    magnitude: float


def _blocks(X, rows, caps):
    for start in range(0, len(rows), _BLOCK):
        block = X[rows[start : start + _BLOCK]]
        block = block.toarray() if sparse.issparse(block) else block
        block = block.astype(np.float64, copy=False)
        yield slice(start, start + _BLOCK), block if caps is None else np.clip(block, *caps)


def moments(X, rows, weights, *, centred=True, products=False, caps=None):
    """Moments of chosen rows; the rows' order is the order of summation.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    rows : ndarray of shape (m,)
    weights : ndarray of shape (m,)
    centred : bool, default=True
        About the mean; False leaves zeros zero and reads only stored entries.
    products : bool, default=False
        Also the covariance.
    caps : pair of ndarray of shape (d,), optional
        Clip the columns to these limits first (dense data only).

    Examples
    --------
    >>> m = moments(np.array([[1.0], [3.0]]), np.array([0, 1]), np.ones(2))
    >>> m.mean, m.square
    (array([2.]), array([1.]))
    """
    d, total = X.shape[1], float(weights.sum())
    if not centred and sparse.issparse(X):
        mean, square, largest, stored, energy = _sparse_sums(
            X.data, X.indices, X.indptr, rows, weights, d
        )
        return Moments(
            total,
            mean / total,
            square / total,
            largest,
            None,
            float(np.sqrt(energy / max(stored, 1e-300))),
        )
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


def column_caps(X, rows, reach=10.0, sample=10_000):
    """Limits of each column: median -+ max(reach q95, q98) of |x - median|; none where q95 is 0.

    Single absurd values are cut; a column that is mostly constant and sometimes not, such as a
    pixel near the border, keeps its range.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    rows : ndarray of shape (m,)
        The first `sample` of them are used.
    reach : float, default=10

    Returns
    -------
    low, high : ndarray of shape (d,)
    """
    block = np.concatenate([b for _, b in _blocks(X, rows[:sample], None)])
    middle = np.median(block, axis=0)
    usual, rare = np.quantile(np.abs(block - middle), (0.95, 0.98), axis=0)
    spread = np.where(usual > 0.0, np.maximum(reach * usual, rare), np.inf)
    return middle - spread, middle + spread


@kernel
def _sparse_sums(data, indices, indptr, rows, weights, d):
    mean, square, largest = np.zeros(d), np.zeros(d), np.zeros(d)
    stored = energy = 0.0
    for i in range(rows.shape[0]):
        w = weights[i]
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            v = float(data[p])
            if v != 0.0:
                mean[indices[p]] += w * v
                square[indices[p]] += w * v * v
                largest[indices[p]] = max(largest[indices[p]], abs(v))
                stored += w
                energy += w * v * v
    return mean, square, largest, stored, energy


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
            largest[j] = max(largest[j], abs(v))
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
def _sparse_stream_sums(data, indices, indptr, weights, mean, square, largest, counts):
    total = 0.0
    for i in range(weights.shape[0]):
        w = weights[i]
        total += w
        for p in range(indptr[i], indptr[i + 1]):
            v = float(data[p])
            if v != 0.0:
                mean[indices[p]] += w * v
                square[indices[p]] += w * v * v
                largest[indices[p]] = max(largest[indices[p]], abs(v))
                counts[0] += w
                counts[1] += w * v * v
    return total


class RunningMoments:
    """Moments of a stream, updated row by row.

    Parameters
    ----------
    d : int
        Columns.
    sparse : bool
        About 0 instead of about the mean.
    products : bool
        Also the covariance.

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

    def add(self, X, weights):
        """Take in rows."""
        if self.sparse:
            self.total += _sparse_stream_sums(
                X.data,
                X.indices,
                X.indptr,
                weights,
                self.mean,
                self.square,
                self.largest,
                self.counts,
            )
        else:
            self.total = _stream_sums(
                X.astype(np.float64, copy=False),
                weights,
                self.total,
                self.mean,
                self.square,
                self.largest,
                self.product,
                self.counts,
            )

    def columns(self, d):
        """Count d columns from now on: those that are new have been 0."""
        known = min(d, len(self.mean))
        for name in ("mean", "square", "largest"):
            wide = np.zeros(d)
            wide[:known] = getattr(self, name)[:known]
            setattr(self, name, wide)

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
