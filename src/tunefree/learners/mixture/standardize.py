"""Rows and targets to one scale: running means and variances, without outliers."""

from typing import Any, NamedTuple

import numpy as np

from tunefree._jit import kernel
from tunefree.learners.mixture.state import N_LINES, SPARSE

# An outlier is an entry this many standard deviations from the mean; it counts as missing. Each
# outlier in succession makes the limit 4 times wider, and a column of n < 16 entries makes it
# 10^(16 / n) times wider: values that keep coming are learned in the end.
_OUTLIER_SD, _WIDENING, _FEW_ENTRIES = 30.0, 4.0, 16.0
# An accepted target cancels this much of a refused one: what half of the targets are is learned.
_CANCELLED = 0.9
# A column's statistics restart where the variance of its latest 64 entries is this much smaller
# than that of all entries.
_BLOCK, _RESTART_RATIO = 64.0, 1e-4
HUGE = 1e150  # larger entries are missing: their squares overflow


class Columns(NamedTuple):
    """Statistics of the columns: rows of `State.columns`."""

    weight: Any
    mean: Any
    square: Any  # the sum of squared distances from the mean
    outliers: Any  # in succession
    latest: Any  # entries of the latest block, their mean and sum of squares
    latest_mean: Any
    latest_square: Any


class Row(NamedTuple):
    """A standardised row: the columns of its entries, the constant 0, and their values."""

    places: Any
    z: Any
    norm: float  # the sum of squares


class Label(NamedTuple):
    """What a row is learned from: a class number or a real target, and its weight."""

    code: int
    y: float
    weight: float


@kernel
def _columns_of(state):
    table = state.columns
    return Columns(table[0], table[1], table[2], table[3], table[4], table[5], table[6])


@kernel
def _is_outlier(gap, count, square, n_outliers):
    """Whether a value is an outlier: `gap` is its distance from the mean."""
    if square == 0.0:
        return False
    limit = _OUTLIER_SD * _WIDENING ** min(n_outliers, 500.0)
    if count < _FEW_ENTRIES:
        limit *= 10.0 ** (_FEW_ENTRIES / count)
    return abs(gap) > limit * np.sqrt(square / count)


@kernel
def _joined(count, mean, square, x, weight, sparse):
    """Weight, mean and sum of squares with one more value."""
    count += weight
    if sparse:  # measured from 0: an absent entry has no effect
        return count, mean, square + weight * x * x
    gap = x - mean
    mean += gap * weight / count
    return count, mean, square + weight * gap * (x - mean)


@kernel
def _store_entry(columns, j, x, sparse, count, mean, square):
    """Store a column's statistics; return them, or those of the latest block if they restart."""
    latest = columns.latest[j], columns.latest_mean[j], columns.latest_square[j]
    n_latest, middle, squares = _joined(latest[0], latest[1], latest[2], x, 1.0, sparse)
    if n_latest == _BLOCK:
        if 0.0 < squares < _RESTART_RATIO * _BLOCK * square / count:
            count, mean, square = n_latest, middle, squares
        n_latest, middle, squares = 0.0, 0.0, 0.0
    columns.latest[j], columns.latest_mean[j] = n_latest, middle
    columns.latest_square[j] = squares
    columns.weight[j], columns.mean[j], columns.square[j] = count, mean, square
    columns.outliers[j] = 0.0
    return count, mean, square


@kernel
def standardize(state, entries, values, weight, store, places, z):
    """Standardise the row, the constant first, and return how many entries it has.

    The row itself counts in the means and variances used; they are kept only if `store`. A sparse
    row names the columns of its `entries`.
    """
    columns, sparse, is_outlying, n = _columns_of(state), state.form == SPARSE, False, 1
    places[0], z[0] = 0, 1.0
    for i in range(len(values)):
        j, x = (entries[i] if sparse else i), values[i]
        if not sparse:
            places[n], z[n] = j + 1, 0.0
            n += 1
        if not abs(x) <= HUGE or (sparse and x == 0.0):
            continue
        count, mean, square = columns.weight[j], columns.mean[j], columns.square[j]
        if _is_outlier(x - mean, count, square, columns.outliers[j]):
            is_outlying = True
            if store:
                columns.outliers[j] += 1.0
            continue
        count, mean, square = _joined(count, mean, square, x, weight, sparse)
        if store:
            count, mean, square = _store_entry(columns, j, x, sparse, count, mean, square)
        if square > 0.0:
            if sparse:
                places[n] = j + 1
                n += 1
            z[n - 1] = (x - mean) / np.sqrt(square / count)
    if store and is_outlying:
        state.numbers[0].outliers += 1.0
    return n


@kernel
def take_target(state, y, weight):
    """Whether a real target counts; update its statistics, and the unit when rows have doubled."""
    now = state.numbers[0]
    count, mean, square = now.y_weight, now.y_mean, now.y_squares
    if _is_outlier(y - mean, count, square, now.y_outliers):
        now.y_outliers += 1.0
        now.outliers += 1.0
        now.refused += 1.0
        return False
    now.y_outliers = max(now.y_outliers - _CANCELLED, 0.0)
    now.low = y if count == 0.0 else min(now.low, y)
    now.high = y if count == 0.0 else max(now.high, y)
    now.y_weight, now.y_mean, now.y_squares = _joined(count, mean, square, y, weight, False)
    rows = int(now.rows) + 1
    if rows & (rows - 1) == 0:
        _change_unit(state, now, count == 0.0)
    return True


@kernel
def _change_unit(state, now, is_first):
    """Standardise targets by their statistics so far, and rescale weights: predictions stay.

    The first target is not rescaled to: predictions become that target.
    """
    centre, unit, weights = now.centre, now.unit, state.weights[0]
    now.centre = now.y_mean
    if now.y_squares > 0.0:
        now.unit = np.sqrt(now.y_squares / now.y_weight)
    if is_first:
        return
    for j in range(weights.shape[0]):
        for k in range(N_LINES):
            weights[j, k] *= unit / now.unit
    for k in range(N_LINES):
        weights[0, k] += (centre - now.centre) / now.unit
