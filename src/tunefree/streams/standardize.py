"""Rows and targets to one scale: running means and variances, without outliers."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import kernel, maximum, minimum
from tunefree.streams.state import N_LINES

# An outlier is an entry this many standard deviations from the mean; it counts as missing. Each
# outlier in succession makes the limit 4 times wider, and a column of n < 16 entries makes it
# 10^(16 / n) times wider: values that keep coming are learned in the end.
_OUTLIER_SD, _WIDENING, _FEW_ENTRIES = 30.0, 4.0, 16.0
# An accepted target cancels this much of a refused one: what half of the targets are is learned.
_CANCELLED = 0.9
# A column's statistics restart where the variance of its latest 64 entries is this much smaller
# than that of all entries.
_BLOCK, _RESTART_RATIO = 64.0, 1e-4
# Larger entries are missing, and larger targets are outliers: sums of their squares might overflow,
# where rows weigh much.
HUGE = 1e140
# A smaller variance counts as 0: quotients of squares that underflow are no numbers.
LEAST_VARIANCE = 1e-280
# A target so many units from the centre changes the unit at once, so that no ratio overflows.
_FAR = 1e9


class StandardRow(NamedTuple):
    """A standardised row: the columns of its entries, the constant 0, and their values."""

    places: Any
    z: Any
    norm: float  # the sum of squares


@kernel
def squared_norm(z):
    """The sum of squares."""
    norm = 0.0
    for i in range(len(z)):
        norm += z[i] * z[i]
    return norm


@kernel
def _is_outlier(x, moments, n_outliers):
    count, mean, square = moments
    if square <= LEAST_VARIANCE * count:
        return False
    limit = _OUTLIER_SD
    if n_outliers > 0.0:  # a power takes long
        limit *= _WIDENING ** minimum(n_outliers, 500.0)
    if count < _FEW_ENTRIES:
        limit *= 10.0 ** (_FEW_ENTRIES / count)
    return abs(x - mean) > limit * np.sqrt(square / count)


@kernel
def _joined(moments, x, weight, sparse):
    """Weight, mean and sum of squares with one more value."""
    count, mean, square = moments
    count += weight
    if sparse:  # measured from 0: an absent entry has no effect
        return count, mean, square + weight * x * x
    gap = x - mean
    mean += gap * weight / count
    return count, mean, square + weight * gap * (x - mean)


@kernel
def _moments_of(table, j):
    return table[0, j], table[1, j], table[2, j]


@kernel
def _store_moments(table, j, moments):
    table[0, j], table[1, j], table[2, j] = moments


@kernel
def _store_entry(sparse, all_moments, latest, j, x, moments):
    """Store a column's moments; return them, or those of the latest block if they restart."""
    count, _, square = moments
    block = _joined(_moments_of(latest, j), x, 1.0, sparse)
    if block[0] == _BLOCK:
        if 0.0 < block[2] < _RESTART_RATIO * _BLOCK * square / count:
            moments = block
        block = (0.0, 0.0, 0.0)
    _store_moments(latest, j, block)
    _store_moments(all_moments, j, moments)
    return moments


@kernel
def standardize(sparse, now, statistics, entries, store, places, z):
    """Standardise the row, the constant first, and return how many entries it has.

    The row itself counts in the means and variances used; they are kept only if `store`. `entries`
    are the columns, which only a sparse row names, the values and the weight of the row.
    """
    (all_moments, outliers, latest), (columns, values, weight) = statistics, entries
    is_outlying, n = False, 1
    places[0], z[0] = 0, 1.0
    for i in range(len(values)):
        j, x = (columns[i] if sparse else i), values[i]
        if not sparse:
            places[n], z[n] = j + 1, 0.0
            n += 1
        is_missing = not abs(x) <= HUGE  # or NaN
        is_absent = sparse and x == 0.0
        if is_missing or is_absent:
            continue
        moments = _moments_of(all_moments, j)
        if _is_outlier(x, moments, outliers[j]):
            is_outlying = True
            if store:
                outliers[j] += 1.0
            continue
        moments = _joined(moments, x, weight, sparse)
        if store:
            moments = _store_entry(sparse, all_moments, latest, j, x, moments)
            outliers[j] = 0.0
        count, mean, square = moments
        if square > LEAST_VARIANCE * count:
            if sparse:
                places[n] = j + 1
                n += 1
            z[n - 1] = (x - mean) / np.sqrt(square / count)
    if store and is_outlying:
        now.outliers += 1.0
    return n


@kernel
def take_target(now, weights, y, weight):
    """Whether a real target counts; update its statistics.

    The unit changes when rows have doubled, and at a target that is far off.
    """
    moments = now.y_weight, now.y_mean, now.y_squares
    if not abs(y) <= HUGE or _is_outlier(y, moments, now.y_outliers):
        now.y_outliers += 1.0
        now.outliers += 1.0
        now.refused += 1.0
        return False
    now.y_outliers = maximum(now.y_outliers - _CANCELLED, 0.0)
    is_first = now.y_weight == 0.0
    now.low = y if is_first else minimum(now.low, y)
    now.high = y if is_first else maximum(now.high, y)
    now.y_weight, now.y_mean, now.y_squares = _joined(moments, y, weight, False)
    rows = np.int64(now.rows) + 1
    is_far = abs(y - now.centre) > _FAR * now.unit
    if rows & (rows - 1) == 0 or is_far:
        _change_unit(weights, now, is_first)
    return True


@kernel
def _change_unit(weights, now, is_first):
    """Standardise targets by their statistics so far, and rescale weights: predictions stay.

    At the first target predictions become that target.
    """
    centre, unit = now.centre, now.unit
    now.centre = now.y_mean
    if now.y_squares > LEAST_VARIANCE * now.y_weight:
        now.unit = np.sqrt(now.y_squares / now.y_weight)
    if is_first:
        return
    for j in range(len(weights)):
        for k in range(N_LINES):
            weights[j, k] *= unit / now.unit
    for k in range(N_LINES):
        weights[0, k] += (centre - now.centre) / now.unit
