r"""Leaf-wise trees: the leaf whose split gains most is split next.

A split of a leaf sends a row to the right if its bin is above a threshold. With the sums G of the
pseudogradients and H of the curvatures it gains

.. math:: \frac{G_L^2}{H_L + \lambda} + \frac{G_R^2}{H_R + \lambda} - \frac{G^2}{H + \lambda},

summed over the outputs. A tree has at most 31 leaves, each with the curvature of ten of the rows of
the leaf that it comes from. Such trees find rules that hold for few rows, for which oblivious trees
(`tree`) need many levels. Sums are exact, as theirs are.

Source: Shi 2007, "Best-first decision tree learning", section 2; Chen and Guestrin 2016, equation 7
(the gain); Ke et al. 2017, sections 2.1 and 5 (histograms of bins; leaf-wise growth).
"""

from typing import NamedTuple

import numpy as np

from tunefree.core.jit import minimum
from tunefree.core.process import team
from tunefree.trees.tree import (
    accumulate,
    add_gains,
    add_values,
    borrowing,
    count_bins,
    is_reversed,
    number_in,
    partition,
    sum_words,
)

# The most leaves of a tree, and the rows whose share of a leaf's curvature each child has at least.
LEAVES, _FEWEST_ROWS = 31, 10
# Rows of a task of a prediction. Fewer than so many go through a tree one by one.
BLOCK, _FEW_ROWS = 4096, 64


class LeafMemory(NamedTuple):
    """Memory to grow a tree in, and its splits: new pages cost more than the work."""

    histograms: np.ndarray  # of shape (leaves, words, bins)
    rows: np.ndarray  # those of a leaf are consecutive; and as many spare numbers
    starts: np.ndarray  # of the leaves' rows
    ends: np.ndarray
    slot: np.ndarray  # the histogram of every leaf
    words: np.ndarray  # sums over the leaves' rows
    totals: np.ndarray  # the numbers in those of a leaf
    sums: np.ndarray  # over the bins up to each
    gains: np.ndarray
    found: np.ndarray  # the gain of every leaf's best split; 0 if there is none
    best: np.ndarray  # its column, threshold, and side of missing values
    links: np.ndarray  # the node above every leaf, and the side
    splits: np.ndarray  # columns, thresholds, sides of missing values, and two children


def leaf_memory(sizes, n_leaves, n_outputs, n_rows):
    """Memory for trees of at most so many rows, which the calling thread uses again."""
    words = (n_outputs + 2) // 2
    shape = n_leaves, words, sizes.sum() + 1
    return LeafMemory(
        team().memory(shape, np.dtype(np.int64), "histograms"),
        np.empty((2, n_rows), dtype=np.int32),
        np.empty(n_leaves, dtype=np.int64),
        np.empty(n_leaves, dtype=np.int64),
        np.empty(n_leaves, dtype=np.int64),
        np.empty((n_leaves, words), dtype=np.int64),
        np.empty(2 * words),
        np.empty((words, 256), dtype=np.int64),
        np.empty(256),
        np.empty(n_leaves),
        np.empty((n_leaves, 3), dtype=np.int64),
        np.empty((n_leaves, 2), dtype=np.int64),
        np.empty((5, n_leaves - 1), dtype=np.int32),
    )


@borrowing
def _count_leaf(fours, first_row, rows, words, firsts, histogram):
    """Fill the histogram of rows."""
    last_row = first_row + words.shape[1]
    for w in range(histogram.shape[0]):
        for b in range(histogram.shape[1]):
            histogram[w, b] = 0
    for j in range(fours.shape[0]):
        four = fours[j, first_row:last_row]
        count_bins(four, rows, words, firsts[4 * j : 4 * j + 4], histogram)


@borrowing
def _gain_of_leaf(totals, ridge):
    """The gain of a leaf with the sums `totals`, the first of which is the curvature."""
    gain = 0.0
    for k in range(1, totals.shape[0]):
        gain += totals[k] * totals[k] / (totals[0] + ridge)
    return gain


@borrowing
def _forbid_reversed(sums, totals, units, ridge, first, last, sign, gains):
    """Take the gains from splits that would order the values of their sides wrongly."""
    h = totals[0] + 2.0 * ridge
    for b in range(first, last):
        own = number_in(sums[0, b], 0) * units[0] + ridge
        if is_reversed(number_in(sums[0, b], 1) * units[1], own, totals[1], h, sign):
            gains[b] = 0.0


@borrowing
def _find_split(leaf, firsts, sizes, has_missing, units, ridge, signs, memory):
    """Write the best split of a leaf, and what it gains."""
    histogram, sums, gains = memory.histograms[memory.slot[leaf]], memory.sums, memory.gains
    totals, best = memory.totals, memory.best[leaf]
    for k in range(units.shape[0]):
        totals[k] = number_in(memory.words[leaf, k // 2], k) * units[k]
    n_rows = memory.ends[leaf] - memory.starts[leaf]
    least = _FEWEST_ROWS * totals[0] / n_rows
    whole = _gain_of_leaf(totals, ridge)
    highest = whole * (1.0 + 1e-9)
    memory.found[leaf] = 0.0
    if n_rows < 2 * _FEWEST_ROWS:
        return
    for j in range(sizes.shape[0]):
        table = histogram[:, firsts[j] : firsts[j] + sizes[j]]
        last = sizes[j] - 1
        for to_right in range(2 if has_missing[j] else 1):
            first = 1 if to_right or not has_missing[j] else 0
            accumulate(table, first, sums)
            for b in range(first, last):
                gains[b] = 0.0
            add_gains(sums, totals, units, ridge, first, last, gains)
            if signs is not None and signs[j] != 0:
                _forbid_reversed(sums, totals, units, ridge, first, last, signs[j], gains)
            for b in range(first, last):
                if gains[b] > highest:
                    own = number_in(sums[0, b], 0) * units[0]
                    if own >= least and totals[0] - own >= least:
                        highest = gains[b]
                        best[0], best[1], best[2] = j, b, to_right
                        memory.found[leaf] = highest - whole


@borrowing
def _split_leaf(codes, leaf, new, words, memory):
    """Move the rows of a leaf's right side to a new leaf, with the sums of their words."""
    best, rows, sums = memory.best[leaf], memory.rows[0], memory.words
    start, end = memory.starts[leaf], memory.ends[leaf]
    middle = partition(codes, best[1], best[2] != 0, rows, memory.rows[1], start, end)
    memory.starts[new], memory.ends[new], memory.ends[leaf] = middle, end, middle
    left_is_small = middle - start <= end - middle
    small, large = (leaf, new) if left_is_small else (new, leaf)
    for w in range(words.shape[0]):
        sums[new, w] = sums[leaf, w]
    whole = sums[large]
    part = rows[memory.starts[small] : memory.ends[small]]
    sum_words(part, words, sums[small])
    for w in range(words.shape[0]):
        whole[w] -= sums[small, w]
    # The larger one takes the histogram of both.
    slot = memory.slot
    slot[large], slot[small] = slot[leaf], new
    return small, large


@borrowing
def grow_leaves(
    codes, fours, first_row, sizes, firsts, words, units, has_missing, ridge, signs, memory
):
    """Write the splits of a tree, and return their number; the arguments are those of `tree.grow`.

    The first split is the root. A child of a split is the number of another one, or, if it is
    negative, -1 less the number of a leaf.
    """
    n, n_leaves = words.shape[1], memory.starts.shape[0]
    rows, splits = memory.rows[0][:n], memory.splits
    for i in range(n):
        rows[i] = i
    memory.starts[0], memory.ends[0], memory.slot[0] = 0, n, 0
    memory.links[0, 0] = -1
    sum_words(rows, words, memory.words[0])
    _count_leaf(fours, first_row, rows, words, firsts, memory.histograms[0])
    _find_split(0, firsts, sizes, has_missing, units, ridge, signs, memory)
    for node in range(n_leaves - 1):
        leaf, new = 0, node + 1
        for other in range(1, new):
            if memory.found[other] > memory.found[leaf]:
                leaf = other
        if memory.found[leaf] <= 0.0:
            return node
        best, above = memory.best[leaf], memory.links[leaf]
        if above[0] >= 0:
            splits[3 + above[1], above[0]] = node
        splits[0, node], splits[1, node], splits[2, node] = best[0], best[1], best[2]
        splits[3, node], splits[4, node] = -1 - leaf, -1 - new
        above[0], above[1] = node, 0
        memory.links[new, 0], memory.links[new, 1] = node, 1
        column = codes[best[0], first_row : first_row + n]
        small, large = _split_leaf(column, leaf, new, words, memory)
        if not has_missing[best[0]]:
            left, right = number_in(memory.words[leaf, 0], 0), number_in(memory.words[new, 0], 0)
            splits[2, node] = right > left
        if new == n_leaves - 1:
            return n_leaves - 1
        counted = memory.histograms[memory.slot[small]]
        other = memory.histograms[memory.slot[large]]
        part = rows[memory.starts[small] : memory.ends[small]]
        _count_leaf(fours, first_row, part, words, firsts, counted)
        for w in range(words.shape[0]):
            for b in range(counted.shape[1]):
                other[w, b] -= counted[w, b]
        _find_split(leaf, firsts, sizes, has_missing, units, ridge, signs, memory)
        _find_split(new, firsts, sizes, has_missing, units, ridge, signs, memory)
    return n_leaves - 1


@borrowing
def _leaf_of(codes, i, columns, thresholds, missing, children):
    """The leaf of a row in one tree."""
    node = 0
    while node >= 0:
        code = codes[columns[node], i]
        right = missing[node] if code == 0 else code > thresholds[node]
        node = children[1 if right else 0, node]
    return -1 - node


@borrowing
def _find_slots(children, slots, leaf_of_slot):
    """Write the slot of every split, or -1 if nothing leads there, and the leaf of every slot.

    Rows that go left stay in the slot of a split, and those that go right move to one of their own.
    """
    n_splits = children.shape[1]
    for node in range(n_splits):
        slots[node] = -1
    slots[0] = 0
    for node in range(n_splits):
        if slots[node] < 0:
            continue
        for side in range(2):
            slot = node + 1 if side else slots[node]
            child = children[side, node]
            if child < 0:
                leaf_of_slot[slot] = -1 - child
            else:
                slots[child] = slot


@borrowing
def _move_right(column, threshold, missing, old, new, slots):
    """Move rows of the slot `old` that go right to the slot `new`: there is no branch."""
    if missing:  # bin 0 becomes 255
        for i in range(slots.shape[0]):
            is_right = np.uint8(column[i] - np.uint8(1)) >= threshold
            slots[i] = new if (slots[i] == old) & is_right else slots[i]
    else:
        for i in range(slots.shape[0]):
            is_right = column[i] > threshold
            slots[i] = new if (slots[i] == old) & is_right else slots[i]


@borrowing
def find_leaves(codes, columns, thresholds, missing, children, memory, leaves):
    """Write the leaf of every row in one tree; of many rows at once, split by split.

    `memory` has the type int64 and the shape (2, leaves of the tree).
    """
    if len(leaves) < _FEW_ROWS:
        for i in range(len(leaves)):
            leaves[i] = _leaf_of(codes, i, columns, thresholds, missing, children)
        return
    slots, leaf_of_slot = memory[0], memory[1]
    _find_slots(children, slots, leaf_of_slot)
    for i in range(len(leaves)):
        leaves[i] = 0
    for node in range(len(columns)):
        if slots[node] >= 0:
            old, new = np.uint8(slots[node]), np.uint8(node + 1)
            _move_right(codes[columns[node]], thresholds[node], missing[node], old, new, leaves)
    for i in range(len(leaves)):
        leaves[i] = leaf_of_slot[leaves[i]]


@borrowing
def add_leafwise(codes, columns, thresholds, missing, children, values, memory, leaves, scores):
    """Add the values of the rows' leaves in all trees to their scores.

    `memory` is that of `find_leaves`; `values`, `leaves` and `scores` those of `add_values`.
    """
    some, rows = leaves.shape
    for first in range(0, len(scores), rows):
        last = minimum(first + rows, len(scores))
        part = codes[:, first:last]
        for start in range(0, len(columns), some):
            own = leaves[: minimum(some, len(columns) - start), : last - first]
            for i in range(len(own)):
                t = start + i
                find_leaves(
                    part, columns[t], thresholds[t], missing[t], children[t], memory, own[i]
                )
            add_values(values[start : start + len(own)], leaves, scores[first:last])


def paths(children):
    """How each leaf is reached: 1 for splits where it is right, -1 left, 0 for others.

    Parameters
    ----------
    children : ndarray of shape (2, splits)

    Returns
    -------
    ndarray of int8 of shape (leaves, splits)
        Zeros for leaves that nothing leads to.
    """
    n_splits = children.shape[1]
    to_node = np.zeros((n_splits, n_splits), dtype=np.int8)
    to_leaf = np.zeros((n_splits + 1, n_splits), dtype=np.int8)
    is_reached = np.zeros(n_splits, dtype=bool)
    is_reached[0] = True
    for node in np.arange(n_splits):
        if not is_reached[node]:
            continue
        for side, child in zip((-1, 1), children[:, node], strict=True):
            path = to_node[node].copy()
            path[node] = side
            if child < 0:
                to_leaf[-1 - child] = path
            else:
                to_node[child], is_reached[child] = path, True
    return to_leaf


def boxes(splits, n_columns):
    """The first and last bin of present values in every leaf, and whether missing ones go there.

    Each has the shape (leaves, columns); `splits` are those of `Leafwise.splits`.
    """
    columns, thresholds, missing, children = splits
    reach = paths(children)
    shape = len(reach), n_columns
    first, last = np.full(shape, 1), np.full(shape, 255)
    holds = np.ones(shape, dtype=bool)
    for node, column in enumerate(columns):
        left, right = reach[:, node] < 0, reach[:, node] > 0
        last[left, column] = np.minimum(last[left, column], thresholds[node])
        first[right, column] = np.maximum(first[right, column], thresholds[node] + np.int64(1))
        holds[right if not missing[node] else left, column] = False
    return first, last, holds
