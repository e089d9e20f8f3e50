r"""One oblivious tree: at every level one split for all leaves.

A split sends a row to the right if its bin is above a threshold. With the sums G of the
pseudogradients and H of the curvatures, the split of a level maximises the sum over all leaves and
outputs of

.. math:: \frac{G_L^2}{H_L + \lambda} + \frac{G_R^2}{H_R + \lambda} .

Sums are exact: pseudogradients and curvatures are rounded to whole multiples of a power of two, and
whole numbers are added. So a tree depends neither on the order of the rows nor on the number of
threads.

Source: Prokhorenkova, Gusev, Vorobev, Dorogush and Gulin 2018, section 4 (oblivious trees); Chen
and Guestrin 2016, equation 7 (the gain); Ke et al. 2017 (histograms; the larger of two leaves is a
difference).
"""

from typing import NamedTuple

import numpy as np

from tunefree.core.jit import kernel, maximum, minimum
from tunefree.core.process import team
from tunefree.core.vectors import add_row

# These kernels make no arrays.
borrowing = kernel(borrows=True, unrolls=False)
# Two numbers share a word of 64 bits: sums of up to 2^30 units each.
_UNITS = 2.0**30
# Exact sums of single numbers.
_FINE_UNITS = 2.0**61
# Trees and rows whose leaves are found before their values are added.
_TREES_AT_ONCE, _ROWS_AT_ONCE = 16, 512
_NO_SPLITS = tuple(np.empty((0, 0), kind) for kind in (np.int32, np.uint8, np.bool_))
# A leaf with so many bins for each of its rows is small: its rows are added up bin by bin.
_BINS_PER_ROW = 6
# The highest six bits of a power of two times this number are different for each exponent.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACES = np.zeros(64, dtype=np.uint8)
_PLACES[[(int(_DE_BRUIJN) << i & (1 << 64) - 1) >> 58 for i in range(64)]] = np.arange(64)


@borrowing
def _unit(numbers, most):
    """A power of two in which the sizes of numbers add up to at most `most`."""
    # Four sums at once: an addition does not wait for the one before.
    n = numbers.shape[0]
    a = b = c = d = 0.0
    for i in range(0, n - 3, 4):
        a += abs(numbers[i])
        b += abs(numbers[i + 1])
        c += abs(numbers[i + 2])
        d += abs(numbers[i + 3])
    for i in range(n - n % 4, n):
        a += abs(numbers[i])
    total = (a + b) + (c + d)
    return 2.0 ** np.ceil(np.log2(total / most)) if total > 0.0 else 1.0


def packed(gradients, curvatures):
    """Words of pairs of whole numbers, of shape (words, rows), and the units of the numbers.

    The first number is the curvature, the others are the gradients of all outputs.
    """
    n, k = gradients.shape
    n_words = (k + 2) // 2
    words = np.zeros((n_words, n), dtype=np.int64)
    units = np.ones(2 * n_words)
    _pack(gradients, curvatures, words, units)
    return words, units


@borrowing
def _pack(gradients, curvatures, words, units):
    n, k = gradients.shape
    for j in range(k + 1):
        numbers = curvatures if j == 0 else gradients[:, j - 1]
        units[j] = _unit(numbers, _UNITS)
        inverse = 1.0 / units[j]
        for i in range(n):
            whole = np.int64(np.rint(numbers[i] * inverse))
            words[j // 2, i] += (whole << 32) if j % 2 else whole


@borrowing
def number_in(word, k):
    """The first number of a word for even k, the second one for odd k."""
    carry, places = (0x80000000, 32) if k % 2 else (0, 0)
    return np.float64(np.int32(np.uint64(word + carry) >> np.uint64(places)))


def fours_of(codes):
    """Bins of shape (columns, rows) as (columns / 4, rows, 4): four columns are counted at once."""
    d, n = codes.shape
    fours = np.zeros(((d + 3) // 4, n, 4), dtype=np.uint8)
    for j in range(d):
        fours[j // 4, :, j % 4] = codes[j]
    return fours


def first_bins(sizes):
    """The first bin of every column; columns that fill up the last four have the last bin."""
    ends = np.cumsum(sizes)
    firsts = np.full((len(sizes) + 3) // 4 * 4, ends[-1])
    firsts[: len(sizes)] = ends - sizes
    return firsts


@borrowing
def count_bins(four, rows, words, firsts, out):
    """Add the words of rows to the histograms of four columns, which start at `firsts`."""
    for w in range(words.shape[0]):
        own = words[w]
        a, b = out[w, firsts[0] :], out[w, firsts[1] :]
        c, d = out[w, firsts[2] :], out[w, firsts[3] :]
        for i in range(rows.shape[0]):
            row = np.uint64(rows[i])
            word = own[row]
            a[four[row, 0]] += word
            b[four[row, 1]] += word
            c[four[row, 2]] += word
            d[four[row, 3]] += word


@borrowing
def accumulate(words, first, sums):
    """Write the sums over the bins from `first` up to each, as ``sums[word, bin]``."""
    for w in range(words.shape[0]):
        total = np.int64(0)
        for b in range(first, words.shape[1]):
            total += words[w, b]
            sums[w, b] = total


@kernel(fastmath={"contract"}, borrows=True, unrolls=False)
def _gain(a, own, g, h):
    """What a split gains for one output, if the left side has the sums a and own, both g and h."""
    c, other = g - a, h - own
    return (a * a * other + c * c * own) / (own * other)


@kernel(fastmath={"contract"}, borrows=True, unrolls=False)
def add_gains(sums, totals, units, ridge, first, last, gains):
    """Add the gains of a leaf's splits after every bin from `first` to before `last`."""
    h = totals[0] + 2.0 * ridge
    unit = units[0]
    weights, out = sums[0, first:last], gains[first:last]
    for k in range(1, totals.shape[0]):
        numbers = sums[k // 2, first:last]
        for b in range(out.shape[0]):
            own = number_in(weights[b], 0) * unit + ridge
            out[b] += _gain(number_in(numbers[b], k) * units[k], own, totals[k], h)


@borrowing
def is_reversed(a, own, g, h, sign):
    """Whether a split with these sums (`_gain`) orders the values of its sides wrongly."""
    return sign * ((g - a) * own - a * (h - own)) < 0.0


@borrowing
def _add_monotone_gains(sums, totals, units, ridge, first, last, sign, gains):
    """`add_gains` of one output: a leaf that a split would give the wrong order stays whole."""
    h = totals[0] + 2.0 * ridge
    g = totals[1]
    for b in range(first, last):
        own = number_in(sums[0, b], 0) * units[0] + ridge
        a = number_in(sums[0, b], 1) * units[1]
        if is_reversed(a, own, g, h, sign):
            gains[b] += g * g / (h - ridge)
        else:
            gains[b] += _gain(a, own, g, h)


@borrowing
def _is_small(starts, leaf, size):
    return _BINS_PER_ROW * (starts[leaf + 1] - starts[leaf]) <= size


@borrowing
def _lowest_bit(bits):
    """The place of the lowest bit of 64 that is 1."""
    alone = bits & (~bits + np.uint64(1))
    return np.int64(_PLACES[(alone * _DE_BRUIJN) >> np.uint64(58)])


@borrowing
def _add_steps(codes, rows, bins, present, words, totals, units, ridge, first, last, sign, steps):
    """Add a small leaf's changes of the gain from bin to bin; return the gain before the first.

    The gain changes only at bins that hold rows. `bins` are zeros, one for every bin and one more,
    and `present` are 256 bits of 0: memory, which is left as it was.
    """
    n = rows.shape[0]
    n_words = words.shape[0]
    h = totals[0] + 2.0 * ridge
    for i in range(n):
        row = rows[i]
        code = codes[row]
        present[code >> 6] |= np.uint64(1) << np.uint64(code & 63)
        for w in range(n_words):
            bins[w, code] += words[w, row]
    whole = 0.0
    for k in range(1, totals.shape[0]):
        whole += totals[k] * totals[k] / (h - ridge)
    before = whole
    for part in range(4):
        bits, present[part] = present[part], 0
        while bits:
            code = 64 * part + _lowest_bit(bits)
            bits &= bits - np.uint64(1)
            inside = first <= code < last
            for w in range(n_words):
                if inside:
                    bins[w, 256] += bins[w, code]
                bins[w, code] = 0
            if not inside:
                continue
            own = number_in(bins[0, 256], 0) * units[0] + ridge
            after = 0.0
            for k in range(1, totals.shape[0]):
                a = number_in(bins[k // 2, 256], k) * units[k]
                if sign is not None and is_reversed(a, own, totals[k], h, sign):
                    after += totals[k] * totals[k] / (h - ridge)
                else:
                    after += _gain(a, own, totals[k], h)
            steps[code] += after - before
            before = after
    bins[:, 256] = 0
    return whole


@borrowing
def partition(codes, threshold, missing, rows, spare, start, end):
    """Sort rows of a leaf stably to the left and right; return where the right ones start."""
    place, others = start, 0
    for i in range(start, end):
        row = rows[i]
        code = codes[row]
        right = missing if code == 0 else code > threshold
        # Both are written, so that there is no branch.
        rows[place], spare[others] = row, row
        others += right
        place += not right
    for i in range(others):
        rows[place + i] = spare[i]
    return place


@borrowing
def _assign_slots(starts, slot, n_parents):
    """Give the smaller child of every leaf a new histogram, and the larger one its parent's."""
    for p in range(n_parents - 1, -1, -1):
        new, old = p + n_parents, slot[p]
        left_is_new = starts[2 * p + 1] - starts[2 * p] <= starts[2 * p + 2] - starts[2 * p + 1]
        slot[2 * p], slot[2 * p + 1] = (new, old) if left_is_new else (old, new)


@borrowing
def _count_columns(four, words, rows, starts, slot, n_parents, firsts, sizes, histograms):
    """Fill the histograms of four columns: count the smaller of two leaves, and subtract it."""
    first, end, size = firsts[0], firsts[0], sizes[0]
    for j in range(sizes.shape[0]):
        end += sizes[j]
        size = minimum(size, sizes[j])
    for p in range(maximum(1, n_parents)):
        if n_parents and _is_small(starts, 2 * p, size) and _is_small(starts, 2 * p + 1, size):
            continue
        child = 2 * p if not n_parents or slot[2 * p] == p + n_parents else 2 * p + 1
        counted = histograms[slot[child]]
        for w in range(words.shape[0]):
            for b in range(first, end):
                counted[w, b] = 0
        count_bins(four, rows[starts[child] : starts[child + 1]], words, firsts, counted)
        if n_parents:
            other = histograms[slot[4 * p + 1 - child]]
            for w in range(words.shape[0]):
                for b in range(first, end):
                    other[w, b] -= counted[w, b]


@borrowing
def sum_words(rows, words, sums):
    """Write the sums over rows."""
    for w in range(words.shape[0]):
        own, total = words[w], np.int64(0)
        for i in range(rows.shape[0]):
            total += own[rows[i]]
        sums[w] = total


@borrowing
def _sum_children(left, right, words, leaf, sums):
    """Replace a leaf's sums by those of its children: add the smaller one, and subtract it."""
    small, rows = (2 * leaf, left) if len(left) <= len(right) else (2 * leaf + 1, right)
    part, whole = sums[4 * leaf + 1 - small], sums[leaf]
    spare = sums[sums.shape[0] - 1]
    sum_words(rows, words, spare)
    for w in range(words.shape[0]):
        part[w] = whole[w] - spare[w]
        sums[small, w] = spare[w]


@borrowing
def _split_leaves(codes, split, words, rows, spare, starts, sums, n_leaves):
    """Split every leaf of a level: its rows, and the sums of their words."""
    for leaf in range(n_leaves - 1, -1, -1):
        start, stop = starts[leaf], starts[leaf + 1]
        middle = partition(codes, split[1], split[2], rows, spare, start, stop)
        starts[2 * leaf + 1], starts[2 * leaf + 2] = middle, stop
        _sum_children(rows[start:middle], rows[middle:stop], words, leaf, sums)


@borrowing
def _heavier_right(sums, n_leaves):
    """Whether the right children of a level's leaves have more curvature."""
    difference = 0.0
    for leaf in range(0, 2 * n_leaves, 2):
        difference += number_in(sums[leaf + 1, 0], 0) - number_in(sums[leaf, 0], 0)
    return difference > 0.0


@borrowing
def _gain_without_split(sums, units, ridge, totals):
    """Write the numbers in the words of every leaf's sums, and return the gain."""
    gain = 0.0
    for leaf in range(totals.shape[0]):
        for k in range(totals.shape[1]):
            totals[leaf, k] = number_in(sums[leaf, k // 2], k) * units[k]
            if k > 0:
                gain += totals[leaf, k] * totals[leaf, k] / (totals[leaf, 0] + ridge)
    return gain


@borrowing
def _score_column(codes, words, table, memory, totals, units, ridge, first, sign):
    """Write the gains of a column's thresholds, and return the best one; -1 if there is none.

    Missing values go right if `first` is 1.
    """
    rows = memory.rows[0]
    starts = memory.starts
    slot = memory.slot
    bins = memory.bins
    sums = memory.sums
    gains = memory.gains[0]
    steps = memory.gains[1]
    present, size = memory.present, table.shape[2]
    last, constant, best = size - 1, 0.0, -1
    for b in range(last):
        gains[b] = steps[b] = 0.0
    for leaf in range(totals.shape[0]):
        start, end = starts[leaf], starts[leaf + 1]
        if start == end:
            continue
        own = totals[leaf]
        if _is_small(starts, leaf, size):
            part = rows[start:end]
            constant += _add_steps(
                codes, part, bins, present, words, own, units, ridge, first, last, sign, steps
            )
            continue
        accumulate(table[slot[leaf]], first, sums)
        if sign is None:
            add_gains(sums, own, units, ridge, first, last, gains)
        else:
            _add_monotone_gains(sums, own, units, ridge, first, last, sign, gains)
    for b in range(first, last):
        constant += steps[b]
        gains[b] += constant
        if best < 0 or gains[b] > gains[best]:
            best = b
    return best


class TreeMemory(NamedTuple):
    """Memory to grow a tree in, and its splits: new pages cost more than the work."""

    histograms: np.ndarray  # of shape (leaves, words, bins)
    rows: np.ndarray  # those of a leaf are consecutive; and as many spare numbers
    starts: np.ndarray  # of the leaves' rows
    slot: np.ndarray  # the histogram of every leaf
    totals: np.ndarray  # sums over the leaves' rows
    words: np.ndarray  # the same, of words
    sums: np.ndarray
    gains: np.ndarray  # and their steps
    bins: np.ndarray  # sums over the rows of every bin of a small leaf
    present: np.ndarray  # whether each bin has rows, as bits
    splits: np.ndarray  # columns, thresholds, and whether missing values go right


def tree_memory(sizes, depth, n_outputs, n_rows):
    """Memory for trees of at most so many rows, which the calling thread uses again."""
    words = (n_outputs + 2) // 2
    leaves = 1 << (depth - 1)
    # Columns that fill up the last four have their bin at the end.
    shape = leaves, words, sizes.sum() + 1
    return TreeMemory(
        team().memory(shape, np.dtype(np.int64), "histograms"),
        np.empty((2, n_rows), dtype=np.int32),
        np.empty(2 * leaves + 1, dtype=np.int64),
        np.empty(leaves, dtype=np.int64),
        np.empty((leaves, n_outputs + 1)),
        np.empty((2 * leaves + 1, words), dtype=np.int64),
        np.empty((words, 256), dtype=np.int64),
        np.empty((2, 256)),
        np.zeros((words, 257), dtype=np.int64),
        np.zeros(4, dtype=np.uint64),
        np.empty((3, depth), dtype=np.int32),
    )


@borrowing
def grow(
    codes, fours, first_row, sizes, firsts, words, units, has_missing, depth, ridge, signs, memory
):
    """Write columns, thresholds and sides of missing values of a tree's splits; their number.

    Parameters
    ----------
    codes : bins of shape (columns, rows)
    fours : the same, see `fours_of`
    first_row : the first of the rows that the words are of
    sizes : the number of bins of every column
    firsts : see `first_bins`
    words, units : pseudogradients and curvatures, see `packed`
    has_missing : whether each column has missing values
    depth : the most splits
    ridge : lambda
    signs : 1 for columns in which scores increase, -1 where they decrease, else 0; of shape
        (columns,) and of type int8. None for several outputs, and where all are 0: the code for
        signs is compiled when it is first used
    memory : `TreeMemory`, to which the splits are written
    """
    d, n = codes.shape[0], words.shape[1]
    last_row = first_row + n
    rows = memory.rows[0][:n]
    starts = memory.starts
    slot = memory.slot
    spare = memory.rows[1]
    sums = memory.words
    histograms = memory.histograms
    splits = memory.splits
    columns, thresholds, missing = splits[0], splits[1], splits[2]
    for i in range(n):
        rows[i] = i
    starts[0], starts[1], slot[0] = 0, n, 0
    sum_words(rows, words, sums[0])
    for level in range(depth):
        n_leaves = 1 << level
        n_parents = n_leaves // 2
        _assign_slots(starts, slot, n_parents)
        totals = memory.totals[:n_leaves]
        best = _gain_without_split(sums, units, ridge, totals) * (1.0 + 1e-9)
        columns[level] = -1
        for j in range(d):
            if j % 4 == 0:
                four = fours[j // 4, first_row:last_row]
                own = slice(j, j + 4)
                _count_columns(
                    four, words, rows, starts, slot, n_parents, firsts[own], sizes[own], histograms
                )
            size = sizes[j]
            sign = None if signs is None else signs[j]
            table = histograms[:, :, firsts[j] : firsts[j] + size]
            column = codes[j, first_row:last_row]
            for to_right in range(2 if has_missing[j] else 1):
                first = 1 if to_right or not has_missing[j] else 0
                b = _score_column(column, words, table, memory, totals, units, ridge, first, sign)
                if b >= 0 and memory.gains[0, b] > best:
                    best = memory.gains[0, b]
                    columns[level], thresholds[level], missing[level] = j, b, to_right
        j = columns[level]
        if j < 0:
            return level
        column = codes[j, first_row:last_row]
        _split_leaves(column, splits[:, level], words, rows, spare, starts, sums, n_leaves)
        if not has_missing[j]:
            missing[level] = _heavier_right(sums, n_leaves)
    return depth


@borrowing
def _find_leaves(codes, first, columns, thresholds, missing, out):
    """Write the leaf of every row from the first one on; the first level is the highest bit."""
    n = len(out)
    for i in range(n):
        out[i] = 0
    for level in range(len(columns)):
        column, threshold = codes[columns[level], first : first + n], thresholds[level]
        side = np.uint8(1 if missing[level] else 0)
        for i in range(n):
            code = column[i]
            right = side if code == 0 else np.uint8(code > threshold)
            out[i] = np.uint8(2) * out[i] + right


def leaf_sums(leaves, n_leaves, numbers):
    """Exact sums of numbers of shape (rows, outputs) over every leaf's rows."""
    out = np.empty((n_leaves, numbers.shape[1]))
    _sum_exactly(leaves, numbers, np.empty(n_leaves, dtype=np.int64), out)
    return out


@borrowing
def _sum_exactly(leaves, numbers, sums, out):
    n, k = numbers.shape
    for c in range(k):
        unit = _unit(numbers[:, c], _FINE_UNITS)
        inverse = 1.0 / unit
        sums[:] = 0
        for i in range(n):
            sums[leaves[i]] += np.int64(np.rint(numbers[i, c] * inverse))
        for leaf in range(sums.shape[0]):
            out[leaf, c] = sums[leaf] * unit


@borrowing
def add_values(values, leaves, scores):
    """Add the values of the rows' leaves in some trees, in the order of the trees, to scores.

    Values and scores of one output have no axis of outputs. `leaves` may have more trees and rows.
    """
    n_trees, n = len(values), len(scores)
    if scores.ndim == 2:
        for t in range(n_trees):
            for i in range(n):
                add_row(values[t], leaves[t, i], scores, i)
    else:
        whole = n_trees - n_trees % 4
        for t in range(0, whole, 4):
            v, w, x, y = values[t], values[t + 1], values[t + 2], values[t + 3]
            a, b, c, d = leaves[t], leaves[t + 1], leaves[t + 2], leaves[t + 3]
            for i in range(n):
                scores[i] = ((scores[i] + v[a[i]]) + w[b[i]] + x[c[i]]) + y[d[i]]
        for t in range(whole, n_trees):
            own, places = values[t], leaves[t]
            for i in range(n):
                scores[i] += own[places[i]]


@borrowing
def _add_trees(codes, columns, thresholds, missing, values, leaves, scores):
    """Write the leaves of the rows in some trees, and add the values of leaves in some to scores.

    These are the same trees, but without splits `leaves` are given, and without values only they
    are written: one kernel is compiled for all three uses. `leaves` is memory for some trees and
    rows, see `add_values`.
    """
    some, rows = len(leaves), maximum(1, leaves.shape[1])
    n = codes.shape[1]
    for first in range(0, n, rows):
        last = minimum(first + rows, n)
        for start in range(0, maximum(len(columns), len(values)), some):
            for t in range(start, minimum(start + some, len(columns))):
                own = leaves[t - start, : last - first]
                _find_leaves(codes, first, columns[t], thresholds[t], missing[t], own)
            add_values(values[start : start + some], leaves, scores[first:last])


def without_axis(values, scores):
    """Values and scores, of one output without their axis of outputs: less has to be compiled."""
    return (values[..., 0], scores[:, 0]) if scores.shape[1] == 1 else (values, scores)


def add_trees(codes, columns, thresholds, missing, values, scores):
    """Add the values of the rows' leaves in all trees to their scores."""
    leaves = memory_of_leaves(codes.shape[1])
    values, scores = without_axis(values, scores)
    _add_trees(codes, columns, thresholds, missing, values, leaves, scores)


def add_tree(codes, values, leaves, scores):
    """Add the values of the rows' leaves in one tree to their scores."""
    values, scores = without_axis(values[None], scores)
    _add_trees(codes, *_NO_SPLITS, values, leaves[None], scores)


def leaves_of(codes, columns, thresholds, missing):
    """The leaf of every row in one tree."""
    leaves = np.empty((1, codes.shape[1]), dtype=np.uint8)
    splits = columns[None], thresholds[None], missing[None]
    _add_trees(codes, *splits, np.empty((0, 0)), leaves, np.empty(0))
    return leaves[0]


def memory_of_leaves(n_rows):
    """Memory for the leaves of rows in some trees, which stays in the L1 cache."""
    return np.empty((_TREES_AT_ONCE, max(1, min(n_rows, _ROWS_AT_ONCE))), np.uint8)
