"""The order of rows: a pure function of their content and of a seed.

Rows are hashed by content, equal rows are merged and their weights added, and every pass visits
them in the order of the hash. So the result of a fit does not depend on the order of rows, on
dense or sparse storage, or on whether a row occurs twice or has the weight 2.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import _as_integer, kernel
from tunefree.rows.designs import Dense, count, design_of, entry, index
from tunefree.rows.matrices import as_dense

# A row of large weight is spread over at most this many separate visits of a pass ...
_MAX_VISITS = 16
# ... and rows are repeated at most this often on average, whatever the unit of the weights.
_MAX_MEAN = 64.0
# Multiples of a weight are whole up to rounding, and not by chance.
_ROUNDED, _MOST_TIMES = 1e-12, 1e6
# The smallest weight stands for at most so many rows. With ten, weights in tenths would be tens.
_MOST_OF_SMALLEST = 9
# The coarse hash rounds values to 1 / _STEPS of the largest. The number of steps is irrational, so
# that simple fractions of the largest (a half, a third) do not lie midway between two steps.
_STEPS = 1e6 + np.sqrt(2.0)
# Up to this many values compiling takes longer than it saves.
_FEW_VALUES = 2**15
# Rows compared at a time.
_BLOCK = 4096


@kernel
def mix(x):
    """Scramble a 64-bit integer (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def number_hash(value, position):
    """Hash of a number at a position."""
    return mix(np.uint64(_as_integer(np.float64(value) + 0.0)) ^ mix(np.uint64(position)))


def scramble(keys, salt):
    """A new key for every key, for a new order."""
    return mix.py_func(keys + np.uint64(salt))


@kernel
def _hash(design, centre, scale, targets, measured, seed, signed):
    n = targets.shape[0]
    coarse, exact = np.empty(n, np.uint64), np.empty(n, np.uint64)
    for i in range(n):
        a = b = mix(np.uint64(seed))
        for p in range(count(design, i)):
            j, value = index(design, i, p), entry(design, i, p)
            size = np.rint((value - centre[j]) * scale[j])
            size = size if signed else abs(size)
            if size != 0.0:
                a += number_hash(size, j)
            if value != 0.0:
                b += number_hash(value, j)
        for k in range(targets.shape[1]):
            a += number_hash(targets[i, k] if signed else np.rint(measured[i, k]), -1 - k)
            b += number_hash(targets[i, k], -1 - k)
        coarse[i], exact[i] = mix(a), mix(b)
    return coarse, exact


def _number_hashes(values, positions):
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)
    return mix.py_func(bits ^ mix.py_func(positions.astype(np.uint64)))


def _hash_few(X, centre, scale, targets, measured, seed, signed):
    """`_hash` of dense rows, without compiling."""
    with np.errstate(all="ignore"):
        size = np.rint((X - centre) * scale)
    size, rounded = (size, targets) if signed else (np.abs(size), np.rint(measured))
    columns, positions = np.arange(X.shape[1]), -1 - np.arange(targets.shape[1])
    out = []
    for values, others in ((size, rounded), (X, targets)):
        sums = np.where(values != 0.0, _number_hashes(values, columns), np.uint64(0)).sum(axis=1)
        sums += _number_hashes(others, positions).sum(axis=1)
        out.append(mix.py_func(sums + mix.py_func(np.array([seed]).astype(np.uint64))))
    return out


def _steps(largest):
    return np.divide(_STEPS, largest, out=np.zeros(len(largest)), where=largest > 0.0)


def content_hash(X, targets, seed, *, affine=False, signed=False, anchor=None):
    """Two 64-bit hashes of every row and its targets: a coarse and an exact one.

    For the coarse hash values are rounded to a millionth of the largest of their column: it, and
    with it the order of learning, does not change when columns are rescaled.

    With `affine`, values and targets (of dense data) are measured from the middle of their range,
    or from the row number `anchor`: the coarse hash does not change either when they are shifted or
    change sign. With `signed`, it includes signs and all digits of targets.

    >>> X, y = np.array([[0.0, 2.0], [0.0, 2.0], [0.0, 4.0]]), np.ones((3, 1))
    >>> coarse, exact = content_hash(X, y, 0)
    >>> bool(exact[0] == exact[1]), len(set(coarse.tolist()))
    (True, 2)
    >>> from scipy import sparse
    >>> bool((content_hash(sparse.csr_array(1e6 * X), y, 0)[0] == coarse).all())
    True
    """
    measured = targets
    if affine:
        low, high = targets.min(axis=0), targets.max(axis=0)
        middle = 0.5 * high + 0.5 * low
        start = middle if anchor is None else targets[anchor]
        measured = np.abs(targets - start) * _steps(np.maximum(high - middle, middle - low))
    design = design_of(X)
    low, high = design.ranges()
    centre = 0.5 * low + 0.5 * high if affine else np.zeros(X.shape[1])
    scale = _steps(np.maximum(high - centre, centre - low))
    start = centre if anchor is None else X[anchor].astype(float)
    if isinstance(design, Dense) and X.size <= _FEW_VALUES:
        return _hash_few(X, start, scale, targets, measured, seed, signed)
    return _hash(design, start, scale, targets, measured, seed, signed)


def row_hash(X, seed):
    """A 64-bit hash of every row, independent of the other rows.

    >>> X = np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 2.0]])
    >>> a, b, c = row_hash(X, 0)
    >>> bool(a == c), bool(a == b), bool(b == row_hash(X[1:2], 0)[0])
    (True, False, True)
    """
    return content_hash(X, np.empty((X.shape[0], 0)), seed)[1]


def _equal(X, targets, left, right):
    """Whether rows of equal hash are equal (collisions are extremely unlikely)."""
    out = (targets[left] == targets[right]).all(axis=1)
    for start in range(0, len(left), _BLOCK):
        part = slice(start, start + _BLOCK)
        out[part] &= (X[left[part]] != X[right[part]]).sum(axis=1) == 0
    return out


class Visits(NamedTuple):
    """The rows that a pass visits, the weight of each visit, and the keys of their order."""

    rows: np.ndarray  # a row of large weight appears several times
    weights: np.ndarray
    keys: np.ndarray | None  # hashes; None keeps the given order
    repeats: np.ndarray  # how often a visit is repeated at once

    def order(self, epoch):
        """Row numbers and weights of a pass, in the order in which to learn them."""
        if self.keys is None:
            chosen = np.arange(len(self.rows))
        else:
            chosen = np.argsort(scramble(self.keys, epoch), kind="stable")
        if self.repeats.max(initial=1) > 1:
            chosen = np.repeat(chosen, self.repeats[chosen])
        return self.rows[chosen], self.weights[chosen]

    def without(self, apart):
        """The visits of other rows than these."""
        kept = ~np.isin(self.rows, apart)
        fields: Any = (None if field is None else field[kept] for field in self)
        return Visits(*fields)

    def unique(self):
        """Distinct rows in the order of their hash and their total weights."""
        total = self.weights * self.repeats
        first = np.flatnonzero(np.diff(self.rows, prepend=-1) != 0)
        return self.rows[first], np.add.reduceat(total, first)


def as_repetitions(weights):
    """Weights that are whole multiples of one number as these whole numbers.

    The smallest is one to nine times that number. So the unit of repetitions is free. Other
    weights, and those of 0, stay as they are.

    >>> as_repetitions(np.array([0.25, 0.0, 0.75])), as_repetitions(np.array([0.02, 0.03]))
    (array([1., 0., 3.]), array([2., 3.]))
    """
    times = weights / weights[weights > 0.0].min()
    for smallest in range(1, _MOST_OF_SMALLEST + 1):
        whole = np.rint(smallest * times)
        are_whole = np.abs(smallest * times - whole) <= _ROUNDED * whole
        if are_whole.all():
            return whole if whole.max() <= _MOST_TIMES else weights
    return weights


def in_units_of_rows(weights):
    """Weights in units in which an ordinary row weighs 1, and whole numbers are repetitions.

    Whole weights are divided by their greatest common divisor, others by the mean of those that are
    not 0.

    >>> in_units_of_rows(np.array([2.0, 4.0])), in_units_of_rows(np.array([1.0, 1.1, 0.0]))
    (array([1., 2.]), array([0.95238095, 1.04761905, 0.        ]))
    """
    weights = as_repetitions(weights)
    if np.all(weights == np.floor(weights)) and weights.max() < 2**53:
        return weights / np.gcd.reduce(weights.astype(np.int64))
    return weights / weights[weights > 0.0].mean()


def visit_weights(weights):
    """Positive weights as `in_units_of_rows`; a mean above 64 is reduced to 64.

    >>> visit_weights(np.array([2.0, 4.0])), visit_weights(np.array([10.0, 30.0]) / 7.0)
    (array([1., 2.]), array([1., 3.]))
    """
    weights = in_units_of_rows(weights)
    return weights / max(1.0, weights.mean() / _MAX_MEAN)


def hashed_visits(X, targets, weights, seed, *, affine=False):
    """Merge equal rows and spread them over a pass by the hash of their content.

    Rows of weight 0 are dropped. With `affine` (see `content_hash`) CSR is made dense.
    """
    X = as_dense(X) if affine else X
    coarse, exact = content_hash(X, targets, seed, affine=affine)
    order = np.lexsort((exact, coarse))
    order = order[weights[order] > 0.0]
    first = _first_of_equal(X, targets, coarse, exact, order)
    total = np.add.reduceat(weights[order], first)
    order = order[first]
    keys = coarse[order]
    alike = np.isin(keys, keys[1:][keys[1:] == keys[:-1]])
    if alike.any():
        finer = _finer_keys(X, targets, seed, affine, keys, exact[order], order, alike)
        sorting = np.lexsort((finer, keys))
        keys[alike] = scramble(keys[alike] ^ finer[alike], seed)
        keys, order, total = keys[sorting], order[sorting], total[sorting]
    return _spread(order, keys, visit_weights(total))


def _first_of_equal(X, targets, coarse, exact, order):
    """The places of the first of equal rows, which follow one another in this order."""
    keys, exact = coarse[order], exact[order]
    pairs = np.flatnonzero((keys[1:] == keys[:-1]) & (exact[1:] == exact[:-1]))
    is_first = np.ones(len(order), dtype=bool)
    is_first[pairs + 1] = ~_equal(X, targets, order[pairs], order[pairs + 1])
    return np.flatnonzero(is_first)


def _spread(order, keys, total):
    """Visits of rows: several, with keys of their own, for a row of large weight."""
    copies = np.minimum(np.ceil(total), _MAX_VISITS).astype(np.int64)
    each = total / copies
    repeats = np.maximum(np.ceil(each - 1e-9), 1.0).astype(np.int64)
    copy = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies)
    salted = np.repeat(keys, copies) + copy.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return Visits(
        np.repeat(order, copies),
        np.repeat(each / repeats, copies),
        salted,
        np.repeat(repeats, copies),
    )


def _finer_keys(X, targets, seed, affine, keys, exact, order, alike):
    """Keys that differ for distinct rows of equal coarse hashes, with the same invariances.

    Mirror images differ in their signs, equal rows in their targets; where columns may change sign,
    rows differ in their distance from another row. Rows still tied differ in the exact hash.
    """
    others = order[~alike]
    if affine and not len(others):
        return exact
    anchor = others[0] if affine else None
    finer, _ = content_hash(X, targets, seed, affine=affine, signed=not affine, anchor=anchor)
    finer = np.where(alike, finer[order], np.uint64(0))
    sorting = np.lexsort((finer, keys))
    one, other = sorting[1:], sorting[:-1]
    is_tied = (keys[one] == keys[other]) & (finer[one] == finer[other])
    tied = np.union1d(one[is_tied], other[is_tied])
    finer[tied] ^= exact[tied]
    return finer


def even_sample(weights, most):
    """Numbers of at most so many rows in random order, evenly by weight.

    Examples
    --------
    >>> even_sample(np.array([1.0, 1.0, 2.0, 0.0]), 100)
    array([0, 1, 2, 2])
    """
    total, count = np.cumsum(weights), min(most, len(weights))
    return np.searchsorted(total, (np.arange(count) + 0.5) / count * total[-1])


def given_visits(weights):
    """Visits in the given order; a whole weight repeats its row, a fraction scales it."""
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


def visits_of(X, labels, weights, shuffle, seed, affine=False):
    """Visits in the order of the rows' content, or as given; distinct rows and their weights."""
    if shuffle:
        visits = hashed_visits(X, labels, weights, seed, affine=affine)
    else:
        visits = given_visits(weights)
    return visits, *visits.unique()


def summed_by(groups, values):
    """Values of rows, of shape (n,) or (n, k), added up by their groups; as they are without any.

    >>> summed_by(np.array([4, 2, 4]), np.array([1.0, 2.0, 3.0]))
    array([2., 4.])
    """
    if groups is None:
        return values
    _, codes = np.unique(groups, return_inverse=True)
    sums = np.zeros((codes.max(initial=-1) + 1, *values.shape[1:]))
    np.add.at(sums, codes, values)
    return sums


def in_order(groups):
    """Groups as numbers 0, 1, 2 ... in the order of their first rows.

    >>> in_order(np.array(["b", "a", "b", "c"]))
    array([0, 1, 0, 2])
    """
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]
