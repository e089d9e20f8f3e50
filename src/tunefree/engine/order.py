"""The order of rows: a pure function of what the rows hold and of a seed.

Rows are hashed by content, equal rows are merged and their weights added, and every pass visits
them in the order of the hash. So the result of a fit does not depend on the order in which rows
were given, on dense or sparse storage, or on whether a row stands twice or has the weight 2.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree._array import mix, number_hash, scramble
from tunefree._jit import kernel

# A heavy row is spread over at most this many separate visits of a pass ...
_MAX_VISITS = 16
# ... and rows are repeated at most this often on average, whatever the unit of the weights.
_MAX_MEAN = 64.0


@kernel
def _hash_dense(X, centre, scale, targets, seed):
    out = np.empty(X.shape[0], np.uint64)
    for i in range(X.shape[0]):
        total = mix(np.uint64(seed))
        for j in range(X.shape[1]):
            v = X[i, j] - centre[j]
            if v != 0.0:
                total += number_hash(abs(v) * scale[j], j)
        for k in range(targets.shape[1]):
            total += number_hash(targets[i, k], -1 - k)
        out[i] = mix(total)
    return out


@kernel
def _hash_csr(data, indices, indptr, scale, targets, seed):
    n = indptr.shape[0] - 1
    out = np.empty(n, np.uint64)
    for i in range(n):
        total = mix(np.uint64(seed))
        for p in range(indptr[i], indptr[i + 1]):
            if data[p] != 0.0:
                total += number_hash(abs(data[p]) * scale[indices[p]], indices[p])
        for k in range(targets.shape[1]):
            total += number_hash(targets[i, k], -1 - k)
        out[i] = mix(total)
    return out


@kernel
def _largest_csr(data, indices, d):
    out = np.zeros(d)
    for p in range(data.shape[0]):
        out[indices[p]] = max(out[indices[p]], abs(data[p]))
    return out


def _unit(largest):
    return np.divide(1.0, largest, out=np.zeros(len(largest)), where=largest > 0.0)


def content_hash(X, targets, seed, *, affine=False):
    """A 64-bit hash of every row and its targets, shape (n_rows,).

    Values enter as their size relative to the largest of their column, in single precision, so that
    the hash, and with it the order of learning, does not change when columns are rescaled.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, d)
    targets : ndarray of shape (n_rows, n_targets)
    seed : int
    affine : bool, default=False
        Measure values and targets from the middle of their range, so that shifts do not change the
        hash either (dense data only).

    Examples
    --------
    >>> X, y = np.array([[0.0, 2.0], [0.0, 2.0], [0.0, 4.0]]), np.ones((3, 1))
    >>> a, b, _ = content_hash(X, y, 0)
    >>> bool(a == b), bool(content_hash(sparse.csr_array(X), y, 0)[0] == a)
    (True, True)
    """
    if affine:
        middle = 0.5 * targets.max(axis=0) + 0.5 * targets.min(axis=0)
        targets = np.abs(targets - middle) * _unit(np.abs(targets - middle).max(axis=0))
    if sparse.issparse(X):
        scale = _unit(_largest_csr(X.data, X.indices, X.shape[1]))
        return _hash_csr(X.data, X.indices, X.indptr, scale, targets, seed)
    low, high = X.min(axis=0).astype(float), X.max(axis=0).astype(float)
    centre = 0.5 * low + 0.5 * high if affine else np.zeros(X.shape[1])
    scale = _unit(np.maximum(high - centre, centre - low))
    return _hash_dense(X, centre, scale, targets, seed)


@kernel
def _equal_dense(X, targets, left, right):
    out = np.empty(left.shape[0], np.bool_)
    for q in range(left.shape[0]):
        i, j = left[q], right[q]
        out[q] = (X[i] == X[j]).all() and (targets[i] == targets[j]).all()
    return out


@kernel
def _equal_csr(data, indices, indptr, targets, left, right):
    out = np.empty(left.shape[0], np.bool_)
    for q in range(left.shape[0]):
        i, j = left[q], right[q]
        a, b, n = indptr[i], indptr[j], indptr[i + 1] - indptr[i]
        same = indptr[j + 1] - b == n and (targets[i] == targets[j]).all()
        for p in range(n):
            same = same and data[a + p] == data[b + p] and indices[a + p] == indices[b + p]
        out[q] = same
    return out


def _equal(X, targets, left, right):
    """Whether rows of equal hash are equal (a collision is as good as impossible)."""
    if sparse.issparse(X):
        return _equal_csr(X.data, X.indices, X.indptr, targets, left, right)
    return _equal_dense(X, targets, left, right)


class Visits(NamedTuple):
    """Which rows a pass visits, how heavy each visit is, and the keys that order them.

    Attributes
    ----------
    rows : ndarray of shape (n_visits,)
        Row numbers; a heavy row appears several times.
    weights : ndarray of shape (n_visits,)
    keys : ndarray of shape (n_visits,) or None
        Hash of each visit; None keeps the given order.
    repeats : ndarray of shape (n_visits,)
        How often the visit is repeated on the spot.
    """

    rows: np.ndarray
    weights: np.ndarray
    keys: np.ndarray | None
    repeats: np.ndarray

    def order(self, epoch):
        """Row numbers and weights of a pass, in the order in which to learn them."""
        if self.keys is None:
            chosen = np.arange(len(self.rows))
        else:
            chosen = np.argsort(scramble(self.keys, epoch), kind="stable")
        if self.repeats.max(initial=1) > 1:
            chosen = np.repeat(chosen, self.repeats[chosen])
        return self.rows[chosen], self.weights[chosen]

    def unique(self):
        """Distinct rows in the order of their hash and their total weights."""
        total = self.weights * self.repeats
        first = np.flatnonzero(np.diff(self.rows, prepend=-1) != 0)
        return self.rows[first], np.add.reduceat(total, first)


def visit_weights(weights):
    """Weights in units in which whole numbers are repetitions.

    Whole weights are divided by their greatest common divisor, others by their mean; a mean above
    64 is brought down to 64.

    Examples
    --------
    >>> visit_weights(np.array([2.0, 4.0])), visit_weights(np.array([0.25, 0.75]))
    (array([1., 2.]), array([0.5, 1.5]))
    """
    if np.all(weights == np.floor(weights)) and weights.max() < 2**53:
        weights = weights / np.gcd.reduce(weights.astype(np.int64))
    else:
        weights = weights / weights.mean()
    return weights / max(1.0, weights.mean() / _MAX_MEAN)


def hashed_visits(X, targets, weights, seed, *, affine=False):
    """Merge equal rows and spread them over a pass by the hash of their content.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, d)
    targets : ndarray of shape (n_rows, n_targets)
    weights : ndarray of shape (n_rows,)
        Rows of weight 0 are left out.
    seed : int
    affine : bool, default=False
        See `content_hash`.

    Returns
    -------
    Visits
    """
    keys = content_hash(X, targets, seed, affine=affine)
    order = np.argsort(keys, kind="stable")
    order = order[weights[order] > 0.0]
    keys = keys[order]
    equal = np.flatnonzero(keys[1:] == keys[:-1])
    starts = np.ones(len(order), bool)
    starts[equal + 1] = ~_equal(X, targets, order[equal], order[equal + 1])
    first = np.flatnonzero(starts)
    total = visit_weights(np.add.reduceat(weights[order], first))
    copies = np.minimum(np.ceil(total), _MAX_VISITS).astype(np.int64)
    each = total / copies
    repeats = np.ceil(each - 1e-9).astype(np.int64)
    copy = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies)
    salted = np.repeat(keys[first], copies) + copy.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return Visits(
        np.repeat(order[first], copies),
        np.repeat(each / repeats, copies),
        salted,
        np.repeat(repeats, copies),
    )


def given_visits(weights):
    """Visit the rows as they are given; a whole weight repeats its row, a fraction scales it.

    Parameters
    ----------
    weights : ndarray of shape (n_rows,)

    Returns
    -------
    Visits
    """
    rows = np.flatnonzero(weights > 0.0)
    weights = weights[rows]
    whole = np.clip(np.floor(weights), 1, _MAX_MEAN).astype(np.int64)
    even = (weights == whole) | (weights < 1.0) | (weights > _MAX_MEAN)
    rest = np.where(even, 0.0, weights - whole)
    each = np.where(even, weights / whole, 1.0)
    extra = np.flatnonzero(rest > 0.0)
    at = np.concatenate([np.arange(len(rows)), extra])
    order = np.argsort(at, kind="stable")
    return Visits(
        rows[at[order]],
        np.concatenate([each, rest[extra]])[order],
        None,
        np.concatenate([whole, np.ones(len(extra), np.int64)])[order],
    )
