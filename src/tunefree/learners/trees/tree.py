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

import numpy as np

from tunefree._jit import kernel

# Two numbers share a word of 64 bits: sums of up to 2^30 units each.
_UNITS = 2.0**30
# Exact sums of single numbers.
_FINE_UNITS = 2.0**61
# A leaf with so many bins for each of its rows is small: its rows are sorted, not counted.
_BINS_PER_ROW = 6


@kernel
def _unit(numbers, most):
    """A power of two in which the sizes of numbers add up to at most `most`."""
    total = 0.0
    for i in range(numbers.shape[0]):
        total += abs(numbers[i])
    return 2.0 ** np.ceil(np.log2(total / most)) if total > 0.0 else 1.0


@kernel
def packed(gradients, curvatures):
    """Words of pairs of whole numbers, of shape (words, rows), and the units of the numbers.

    The first number is the curvature, the others are the gradients of all outputs.
    """
    n, k = gradients.shape
    n_words = (k + 2) // 2
    words, units = np.zeros((n_words, n), dtype=np.int64), np.ones(2 * n_words)
    for j in range(k + 1):
        numbers = curvatures if j == 0 else gradients[:, j - 1]
        units[j] = _unit(numbers, _UNITS)
        inverse = 1.0 / units[j]
        for i in range(n):
            whole = np.int64(np.rint(numbers[i] * inverse))
            words[j // 2, i] += (whole << 32) if j % 2 else whole
    return words, units


@kernel
def _low(word):
    """The first number of a word."""
    return np.float64(np.int32(word & 0xFFFFFFFF))


@kernel
def _high(word):
    """The second number of a word."""
    return np.float64(np.int32((word + 0x80000000) >> 32))


@kernel
def fours_of(codes):
    """Bins of shape (columns, rows) as (columns / 4, rows, 4): four columns are counted at once."""
    d, n = codes.shape
    fours = np.zeros(((d + 3) // 4, n, 4), dtype=np.uint8)
    for j in range(d):
        fours[j // 4, :, j % 4] = codes[j]
    return fours


@kernel
def _count(four, rows, words, firsts, out):
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


@kernel
def _accumulate(words, first, sums):
    """Write the sums over the bins from `first` up to each, as ``sums[word, bin]``."""
    for w in range(words.shape[0]):
        total = np.int64(0)
        for b in range(first, words.shape[1]):
            total += words[w, b]
            sums[w, b] = total


@kernel(fastmath={"contract"})
def _gain(a, own, g, h):
    """What a split gains for one output, if the left side has the sums a and own, both g and h."""
    c, other = g - a, h - own
    return (a * a * other + c * c * own) / (own * other)


@kernel(fastmath={"contract"})
def _add_gains(sums, totals, units, ridge, first, last, gains):
    """Add the gains of a leaf's splits after every bin from `first` to before `last`."""
    h, unit = totals[0] + 2.0 * ridge, units[0]
    weights, out = sums[0, first:last], gains[first:last]
    for k in range(1, totals.shape[0]):
        numbers = sums[k // 2, first:last]
        if k % 2:
            for b in range(out.shape[0]):
                own = _low(weights[b]) * unit + ridge
                out[b] += _gain(_high(numbers[b]) * units[k], own, totals[k], h)
        else:
            for b in range(out.shape[0]):
                own = _low(weights[b]) * unit + ridge
                out[b] += _gain(_low(numbers[b]) * units[k], own, totals[k], h)


@kernel
def _add_monotone_gains(sums, totals, units, ridge, first, last, sign, gains):
    """`_add_gains` of one output: a leaf that a split would give the wrong order stays whole."""
    h, g = totals[0] + 2.0 * ridge, totals[1]
    for b in range(first, last):
        own, a = _low(sums[0, b]) * units[0] + ridge, _high(sums[0, b]) * units[1]
        if sign * ((g - a) * own - a * (h - own)) < 0.0:
            gains[b] += g * g / (h - ridge)
        else:
            gains[b] += _gain(a, own, g, h)


@kernel
def _is_small(starts, leaf, size):
    return _BINS_PER_ROW * (starts[leaf + 1] - starts[leaf]) <= size


@kernel
def _add_steps(codes, rows, order, words, totals, units, ridge, first, last, sign, steps):
    """Add a small leaf's changes of the gain from bin to bin; return the gain before the first.

    The gain changes only at bins that hold rows: these are sorted by their bins. `order` is memory.
    """
    n, h = rows.shape[0], totals[0] + 2.0 * ridge
    for i in range(n):
        row, place = rows[i], i
        while place > 0 and codes[order[place - 1]] > codes[row]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = row
    whole = 0.0
    for k in range(1, totals.shape[0]):
        whole += totals[k] ** 2 / (h - ridge)
    before, sums = whole, np.zeros(words.shape[0], dtype=np.int64)
    for i in range(n):
        row = order[i]
        code = codes[row]
        if code < first:
            continue
        if code >= last:
            break
        for w in range(words.shape[0]):
            sums[w] += words[w, row]
        if i + 1 < n and codes[order[i + 1]] == code:
            continue
        own, after = _low(sums[0]) * units[0] + ridge, 0.0
        for k in range(1, totals.shape[0]):
            a = (_high(sums[k // 2]) if k % 2 else _low(sums[k // 2])) * units[k]
            if sign and sign * ((totals[k] - a) * own - a * (h - own)) < 0.0:
                after += totals[k] ** 2 / (h - ridge)
            else:
                after += _gain(a, own, totals[k], h)
        steps[code] += after - before
        before = after
    return whole


@kernel
def _partition(codes, threshold, missing, rows, spare, start, end):
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
    rows[place:end] = spare[:others]
    return place


@kernel
def _assign_slots(starts, slot, n_parents):
    """Give the smaller child of every leaf a new histogram, and the larger one its parent's."""
    for p in range(n_parents - 1, -1, -1):
        new, old = p + n_parents, slot[p]
        left_is_new = starts[2 * p + 1] - starts[2 * p] <= starts[2 * p + 2] - starts[2 * p + 1]
        slot[2 * p], slot[2 * p + 1] = (new, old) if left_is_new else (old, new)


@kernel
def _count_columns(four, rows, starts, words, slot, n_parents, firsts, end, size, histograms):
    """Fill the histograms of four columns: count the smaller of two leaves, and subtract it.

    Their bins are before `end`; `size` is the least number of bins of a column.
    """
    first = firsts[0]
    if not n_parents:
        histograms[0, :, first:end] = 0
        _count(four, rows, words, firsts, histograms[0])
    for p in range(n_parents):
        if _is_small(starts, 2 * p, size) and _is_small(starts, 2 * p + 1, size):
            continue
        child = 2 * p if slot[2 * p] == p + n_parents else 2 * p + 1
        own, other = histograms[slot[child]], histograms[slot[4 * p + 1 - child]]
        own[:, first:end] = 0
        _count(four, rows[starts[child] : starts[child + 1]], words, firsts, own)
        for w in range(words.shape[0]):
            for b in range(first, end):
                other[w, b] -= own[w, b]


@kernel
def _sum_children(left, right, words, leaf, sums):
    """Replace a leaf's sums by those of its children: add the smaller one, and subtract it."""
    small, rows = (2 * leaf, left) if len(left) <= len(right) else (2 * leaf + 1, right)
    for w in range(words.shape[0]):
        whole, part, own = sums[leaf, w], np.int64(0), words[w]
        for i in range(rows.shape[0]):
            part += own[rows[i]]
        sums[4 * leaf + 1 - small, w] = whole - part
        sums[small, w] = part


@kernel
def _write_numbers(sums, units, totals):
    """Write the numbers in the words of every leaf's sums."""
    for leaf in range(totals.shape[0]):
        for w in range(sums.shape[1]):
            totals[leaf, 2 * w] = _low(sums[leaf, w]) * units[2 * w]
            totals[leaf, 2 * w + 1] = _high(sums[leaf, w]) * units[2 * w + 1]


@kernel
def _heavier_right(sums):
    """Whether the right children of a level's leaves have more curvature."""
    difference = 0.0
    for leaf in range(0, sums.shape[0], 2):
        difference += _low(sums[leaf + 1, 0]) - _low(sums[leaf, 0])
    return difference > 0.0


@kernel
def _gain_without_split(totals, ridge):
    gain = 0.0
    for leaf in range(totals.shape[0]):
        for k in range(1, totals.shape[1]):
            gain += totals[leaf, k] ** 2 / (totals[leaf, 0] + ridge)
    return gain


@kernel
def _score_column(
    codes,
    rows,
    spare,
    words,
    table,
    slot,
    starts,
    totals,
    units,
    ridge,
    first,
    sign,
    sums,
    steps,
    gains,
):
    """Write the gains of a column's thresholds; missing values go right if `first` is 1."""
    size = table.shape[2]
    last, constant = size - 1, 0.0
    gains[:last], steps[:last] = 0.0, 0.0
    for leaf in range(totals.shape[0]):
        start, end = starts[leaf], starts[leaf + 1]
        if start == end:
            continue
        own = totals[leaf]
        if _is_small(starts, leaf, size):
            part = rows[start:end]
            constant += _add_steps(
                codes, part, spare, words, own, units, ridge, first, last, sign, steps
            )
            continue
        _accumulate(table[slot[leaf]], first, sums)
        if sign:
            _add_monotone_gains(sums, own, units, ridge, first, last, sign, gains)
        else:
            _add_gains(sums, own, units, ridge, first, last, gains)
    for b in range(first, last):
        constant += steps[b]
        gains[b] += constant


def histogram_memory(sizes, depth, n_outputs):
    """Memory for the histograms of the leaves of a tree: new pages cost more than the work."""
    # Columns that fill up the last four have their bin at the end.
    return np.empty((1 << (depth - 1), (n_outputs + 2) // 2, sizes.sum() + 1), dtype=np.int64)


@kernel
def grow(
    codes, fours, first_row, sizes, words, units, has_missing, depth, ridge, signs, histograms
):
    """Columns, thresholds and sides of missing values of a tree's splits, and their number.

    Parameters
    ----------
    codes : bins of shape (columns, rows)
    fours : the same, see `fours_of`
    first_row : the first of the rows that the words are of
    sizes : the number of bins of every column
    words, units : pseudogradients and curvatures, see `packed`
    has_missing : whether each column has missing values
    depth : the most splits
    ridge : lambda
    signs : 1 for columns in which scores increase, -1 where they decrease, else 0; of shape
        (columns,) and of type int8, zeros for several outputs
    histograms : memory, see `histogram_memory`
    """
    d, n = codes.shape[0], words.shape[1]
    last_row = first_row + n
    k, most = words.shape[0], 1 << (depth - 1)
    ends = np.cumsum(sizes)
    firsts = np.full(4 * fours.shape[0], ends[-1])
    firsts[:d] = ends - sizes
    rows, spare = np.arange(n).astype(np.int32), np.empty(n, dtype=np.int32)
    # The rows of a leaf are consecutive; its histogram has the number slot[leaf].
    starts, slot = np.zeros(2 * most + 1, dtype=np.int64), np.zeros(most, dtype=np.int64)
    starts[1] = n
    columns = np.full(depth, -1, dtype=np.int32)
    thresholds = np.zeros(depth, dtype=np.uint8)
    missing = np.zeros(depth, dtype=np.bool_)
    sums, totals = np.empty((2 * most, k), dtype=np.int64), np.empty((most, 2 * k))
    for w in range(k):
        sums[0, w] = words[w].sum()
    gains, steps = np.empty(256), np.empty(256)
    running = np.empty((k, 256), dtype=np.int64)
    for level in range(depth):
        n_leaves = 1 << level
        _assign_slots(starts, slot, n_leaves // 2)
        numbers = totals[:n_leaves]
        _write_numbers(sums, units, numbers)
        best = _gain_without_split(numbers, ridge) * (1.0 + 1e-9)
        for j in range(d):
            if j % 4 == 0:
                last = min(j + 4, d)
                _count_columns(
                    fours[j // 4, first_row:last_row],
                    rows,
                    starts,
                    words,
                    slot,
                    n_leaves // 2,
                    firsts[j : j + 4],
                    ends[last - 1],
                    sizes[j:last].min(),
                    histograms,
                )
            size = sizes[j]
            table = histograms[:, :, ends[j] - size : ends[j]]
            column = codes[j, first_row:last_row]
            for to_right in range(2 if has_missing[j] else 1):
                first = 1 if to_right or not has_missing[j] else 0
                _score_column(
                    column,
                    rows,
                    spare,
                    words,
                    table,
                    slot,
                    starts,
                    numbers,
                    units,
                    ridge,
                    first,
                    signs[j],
                    running,
                    steps,
                    gains,
                )
                for b in range(first, size - 1):
                    if gains[b] > best:
                        best = gains[b]
                        columns[level], thresholds[level], missing[level] = j, b, to_right == 1
        j = columns[level]
        if j < 0:
            return columns, thresholds, missing, level
        column = codes[j, first_row:last_row]
        for leaf in range(n_leaves - 1, -1, -1):
            start, end = starts[leaf], starts[leaf + 1]
            middle = _partition(column, thresholds[level], missing[level], rows, spare, start, end)
            starts[2 * leaf + 1], starts[2 * leaf + 2] = middle, end
            _sum_children(rows[start:middle], rows[middle:end], words, leaf, sums)
        if not has_missing[j]:
            missing[level] = _heavier_right(sums[: 2 * n_leaves])
    return columns, thresholds, missing, depth


@kernel
def leaves_of(codes, columns, thresholds, missing):
    """The leaf of every row; the first level is the highest bit."""
    n = codes.shape[1]
    out = np.zeros(n, dtype=np.uint8)
    for level in range(columns.shape[0]):
        column, threshold = codes[columns[level]], thresholds[level]
        side = np.uint8(1 if missing[level] else 0)
        for i in range(n):
            code = column[i]
            right = side if code == 0 else np.uint8(code > threshold)
            out[i] = np.uint8(2) * out[i] + right
    return out


@kernel
def leaf_sums(leaves, n_leaves, numbers):
    """Exact sums of numbers of shape (rows, outputs) over every leaf's rows."""
    n, k = numbers.shape
    out = np.empty((n_leaves, k))
    sums = np.empty(n_leaves, dtype=np.int64)
    for c in range(k):
        unit = _unit(numbers[:, c], _FINE_UNITS)
        inverse = 1.0 / unit
        sums[:] = 0
        for i in range(n):
            sums[leaves[i]] += np.int64(np.rint(numbers[i, c] * inverse))
        for leaf in range(n_leaves):
            out[leaf, c] = sums[leaf] * unit
    return out


@kernel
def add_values(leaves, values, scores):
    """Add the values of the rows' leaves to their scores."""
    for i in range(leaves.shape[0]):
        for c in range(values.shape[1]):
            scores[i, c] += values[leaves[i], c]
