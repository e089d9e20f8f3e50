"""Forests of each shape of trees, and what grows them.

A shape has `splits`, which grows a tree, the `leaves` of rows in it, which leaves are `below` which
in the order of some columns, and the `forest` of trees. A forest adds its trees to scores, and is
explained and exported.
"""

from typing import NamedTuple

import numpy as np

from tunefree.base.state_checks import check_array, require
from tunefree.core.process import team
from tunefree.trees import shapley
from tunefree.trees.leafwise import (
    BLOCK,
    LEAVES,
    add_leafwise,
    boxes,
    find_leaves,
    grow_leaves,
    leaf_memory,
    paths,
)
from tunefree.trees.monotone import below_by_boxes, below_by_levels
from tunefree.trees.tree import (
    add_trees,
    grow,
    leaves_of,
    memory_of_leaves,
    tree_memory,
    without_axis,
)

# The column, threshold and side of missing values of a level without a split: all rows go left.
_NO_SPLIT = np.array([[0], [255], [0]])
# The same of a leaf-wise tree that has fewer splits: nothing leads there.
_IDLE = np.array([[0], [255], [0], [-1], [-1]])


def scores_in_blocks(forest, codes):
    """A forest's scores of shape (rows, outputs) for bins of shape (columns, rows)."""
    n = codes.shape[1]
    out = np.tile(forest.start, (n, 1))

    def add(first):
        part = slice(first, first + BLOCK)
        forest.add(np.ascontiguousarray(codes[:, part]), out[part])

    team().map(add, range(0, n, BLOCK))
    return out


def _zeros(g, X, bins):
    """A zero for every row, as a node of a graph; values may be missing."""
    return g("MatMul", g.cast(g("IsNaN", X), np.float64), np.zeros((len(bins.sizes()), 1)))


def _check_splits(forest, trees, n_splits, n_columns):
    """What trees of both shapes have in common."""
    check_array(forest.columns, np.int32, trees, n_splits)
    check_array(forest.thresholds, np.uint8, trees, n_splits)
    check_array(forest.missing, np.bool_, trees, n_splits)
    require(((forest.columns >= 0) & (forest.columns < n_columns)).all())


class ObliviousForest(NamedTuple):
    """Oblivious trees of one depth, and the scores that they are added to."""

    columns: np.ndarray  # of shape (trees, depth), as thresholds and missing
    thresholds: np.ndarray
    missing: np.ndarray
    values: np.ndarray  # of shape (trees, leaves, outputs)
    start: np.ndarray  # of shape (outputs,)

    def scores(self, codes):
        """Scores of shape (rows, outputs) for bins of shape (columns, rows)."""
        return scores_in_blocks(self, codes)

    def add(self, codes, scores):
        """Add the values of all trees to scores."""
        splits = self.columns, self.thresholds, self.missing
        add_trees(codes, *splits, self.values, scores)

    def shifted(self, shift):
        """The forest with a constant added to the scores of every output."""
        return self._replace(start=self.start + shift)

    def in_units(self, units):
        """The forest for targets in other units, one of every output."""
        return self._replace(values=self.values * units, start=self.start * units)

    def relevances(self, n_columns):
        """The mean squared effects of the splits on each column, added over all trees."""
        trees, depth = self.columns.shape
        out, effects = np.zeros(n_columns), np.empty((trees, depth))
        for level in range(depth):
            half = len(self.start) << (depth - 1 - level)
            left, right = np.moveaxis(self.values.reshape(trees, 1 << level, 2, half), 2, 0)
            effects[:, level] = np.square(right - left).reshape(trees, half << level).mean(axis=1)
        np.add.at(out, self.columns, effects)
        return out

    def onnx(self, g, X, bins):
        """Scores as nodes of a graph: the leaf of every tree, and the sum of its values."""
        trees, depth = self.columns.shape
        if not trees:
            return g("Add", _zeros(g, X, bins), self.start)
        columns = self.columns.ravel()
        values = g("Gather", X, columns.astype(np.int64), axis=1)
        absent = g("IsNaN", values)
        above = g("Greater", values, bins.limits(columns, self.thresholds.ravel()))
        # Threshold 0 is below all values, and those of levels without a split are above all.
        above = g("Or", above, (self.thresholds == 0).ravel())
        above = g("And", above, g("Not", absent))
        right = g("Or", above, g("And", absent, self.missing.ravel()))
        bits = g("Reshape", g.cast(right, np.float64), np.array([-1, trees, depth]))
        powers = 2.0 ** np.arange(depth - 1, -1, -1)
        leaves = g("Squeeze", g("MatMul", bits, powers[:, None]), np.array([2]))
        leaves = g.cast(g("Add", leaves, np.arange(trees) * float(1 << depth)), np.int64)
        each = g("Gather", self.values.reshape(-1, len(self.start)), leaves, axis=0)
        return g("Add", g("ReduceSum", each, np.array([1]), keepdims=0), self.start)

    def add_shapley(self, codes, others, groups, out):
        """Add the Shapley values of rows to `out`: see `shapley.add_oblivious`."""
        shapley.add_oblivious(self, codes, others, groups, out)

    def check(self, n_columns, n_outputs):
        """Refuse trees of a model file that compiled code must not read."""
        trees, depth = self.columns.shape
        require(1 <= depth <= 8)
        _check_splits(self, trees, depth, n_columns)
        check_array(self.values, np.float64, trees, 1 << depth, n_outputs)


class Oblivious(NamedTuple):
    """Grows oblivious trees of a depth."""

    depth: int
    step: float = 0.12
    rival: int = 0  # the depth of other trees: after some rounds only the better ones go on

    @property
    def name(self):
        """What the shape is called."""
        return f"depth {self.depth}"

    @property
    def n_leaves(self):
        """The most leaves of a tree."""
        return 1 << self.depth

    def memory(self, sizes, n_outputs, n_rows):
        """Memory to grow trees in."""
        return tree_memory(sizes, self.depth, n_outputs, n_rows)

    def splits(
        self, codes, fours, first, sizes, firsts, words, units, has_missing, ridge, signs, memory
    ):
        """Columns, thresholds and sides of missing values; None if no split lowers the loss."""
        rows = codes, fours, first, sizes, firsts, words, units, has_missing
        n_levels = grow(*rows, self.depth, ridge, signs, memory)
        memory.splits[:, n_levels:] = _NO_SPLIT
        columns, thresholds, missing = memory.splits
        found = columns.copy(), thresholds.astype(np.uint8), missing.astype(np.bool_)
        return found if n_levels else None

    def leaves(self, codes, splits):
        """The leaf of every row."""
        return leaves_of(codes, *splits)

    def below(self, splits, signs):
        """Which leaves are below which in the order of the signed columns."""
        return below_by_levels(splits[0], signs)

    def forest(self, trees, start):
        """The forest of trees: splits and values."""
        shape = -1, self.depth
        parts = list(zip(*trees, strict=True)) or [[]] * 4
        return ObliviousForest(
            np.array(parts[0], np.int32).reshape(shape),
            np.array(parts[1], np.uint8).reshape(shape),
            np.array(parts[2], np.bool_).reshape(shape),
            np.array(parts[3], np.float64).reshape(-1, self.n_leaves, len(start)),
            start,
        )


class LeafwiseForest(NamedTuple):
    """Leaf-wise trees, and the scores that they are added to.

    The first split of a tree is its root. A child of a split is the number of another split, or -1
    less the number of a leaf. Trees with fewer splits have idle ones.
    """

    columns: np.ndarray  # of shape (trees, splits), as thresholds and missing
    thresholds: np.ndarray
    missing: np.ndarray
    children: np.ndarray  # of shape (trees, 2, splits)
    values: np.ndarray  # of shape (trees, leaves, outputs)
    start: np.ndarray  # of shape (outputs,)

    def scores(self, codes):
        """Scores of shape (rows, outputs) for bins of shape (columns, rows)."""
        return scores_in_blocks(self, codes)

    def add(self, codes, scores):
        """Add the values of all trees to scores."""
        splits = self.columns, self.thresholds, self.missing, self.children
        slots = np.empty((2, self.values.shape[1]), np.int64)
        leaves = memory_of_leaves(codes.shape[1])
        values, scores = without_axis(self.values, scores)
        add_leafwise(codes, *splits, values, slots, leaves, scores)

    def shifted(self, shift):
        """The forest with a constant added to the scores of every output."""
        return self._replace(start=self.start + shift)

    def in_units(self, units):
        """The forest for targets in other units, one of every output."""
        return self._replace(values=self.values * units, start=self.start * units)

    def relevances(self, n_columns):
        """The mean squared effects of the splits on each column, added over all trees.

        The effect of a split is the difference between the means of its sides' leaves, where every
        split on the way halves the weight.
        """
        trees, n_splits = self.columns.shape
        means = np.zeros((trees, n_splits, len(self.start)))
        weights, out = np.zeros((trees, n_splits)), np.zeros(n_columns)
        weights[:, 0] = 1.0
        every = np.arange(trees)
        for node in range(n_splits):
            for child in self.children[:, :, node].T:
                below = child >= 0
                weights[every[below], child[below]] = 0.5 * weights[below, node]
        for node in range(n_splits - 1, -1, -1):
            left, right = (self._means_of(child, means) for child in self.children[:, :, node].T)
            means[:, node] = 0.5 * (left + right)
            effects = np.square(right - left).mean(axis=1)
            np.add.at(out, self.columns[:, node], weights[:, node] * effects)
        return out

    def _means_of(self, child, means):
        """The mean of the leaves under one child of every tree, given those under splits."""
        every, is_leaf = np.arange(len(child)), (child < 0)[:, None]
        of_leaves = self.values[every, np.maximum(-1 - child, 0)]
        return np.where(is_leaf, of_leaves, means[every, np.maximum(child, 0)])

    def add_shapley(self, codes, others, groups, out):
        """Add the Shapley values of rows to `out`: see `shapley.add_oblivious`."""
        shapley.add_leafwise(self, codes, others, groups, out)

    def check(self, n_columns, n_outputs):
        """Refuse trees of a model file that compiled code must not read."""
        trees, n_splits = self.columns.shape
        require(1 <= n_splits <= 255)
        _check_splits(self, trees, n_splits, n_columns)
        check_array(self.children, np.int16, trees, 2, n_splits)
        check_array(self.values, np.float64, trees, n_splits + 1, n_outputs)
        # A way through a tree ends, since it leads to later splits only.
        is_leaf = (self.children < 0) & (self.children >= -1 - n_splits)
        is_later = (self.children > np.arange(n_splits)) & (self.children < n_splits)
        require((is_leaf | is_later).all())
        # And only one way leads to a split.
        every = np.arange(trees)[:, None, None] * n_splits + self.children
        require(np.bincount(every[self.children >= 0], minlength=1).max() <= 1)

    def onnx(self, g, X, bins):
        """Scores as nodes of a graph: steps from split to split in all trees, and leaf values."""
        trees, n_splits = self.columns.shape
        if not trees:
            return g("Add", _zeros(g, X, bins), self.start)
        # Leaves are numbers behind those of splits, and lead to themselves.
        n_places = 2 * n_splits + 1
        leaves = np.arange(n_splits, n_places)
        tables = np.zeros((4, trees, n_places))
        columns, limits, always, absent = tables
        columns[:, :n_splits] = self.columns
        limits[:, :n_splits] = bins.limits(self.columns.ravel(), self.thresholds.ravel()).reshape(
            trees, n_splits
        )
        always[:, :n_splits] = self.thresholds == 0
        absent[:, :n_splits] = self.missing
        children = np.tile(leaves, (trees, 2, 1))
        children = np.concatenate([np.zeros((trees, 2, n_splits), dtype=int), children], axis=2)
        inner = np.where(self.children < 0, n_splits - 1 - self.children, self.children)
        children[:, :, :n_splits] = inner
        first = np.arange(trees)[:, None, None] * n_places
        left, right = np.moveaxis(children + first, 1, 0).astype(np.int64)
        depth = max(int(np.abs(paths(c)).sum(axis=1).max()) for c in self.children)
        place = g("Add", g.cast(_zeros(g, X, bins), np.int64), first[:, 0].T.astype(np.int64))
        for _ in range(depth):
            column = g("Gather", columns.ravel().astype(np.int64), place, axis=0)
            value = g("GatherElements", X, column, axis=1)
            is_absent = g("IsNaN", value)
            above = g("Greater", value, g("Gather", limits.ravel(), place, axis=0))
            above = g("Or", above, g("Gather", always.ravel() > 0.0, place, axis=0))
            above = g("And", above, g("Not", is_absent))
            goes = g("And", is_absent, g("Gather", absent.ravel() > 0.0, place, axis=0))
            is_right = g("Or", above, goes)
            ways = [g("Gather", way.ravel(), place, axis=0) for way in (right, left)]
            place = g("Where", is_right, *ways)
        values = np.concatenate([np.zeros((trees, n_splits, len(self.start))), self.values], axis=1)
        each = g("Gather", values.reshape(-1, len(self.start)), place, axis=0)
        return g("Add", g("ReduceSum", each, np.array([1]), keepdims=0), self.start)


class Leafwise(NamedTuple):
    """Grows leaf-wise trees."""

    n_leaves: int = LEAVES
    step: float = 0.06

    @property
    def name(self):
        """What the shape is called."""
        return "leaf-wise"

    def memory(self, sizes, n_outputs, n_rows):
        """Memory to grow trees in."""
        return leaf_memory(sizes, self.n_leaves, n_outputs, n_rows)

    def splits(
        self, codes, fours, first, sizes, firsts, words, units, has_missing, ridge, signs, memory
    ):
        """Columns, thresholds, sides of missing values and children; None if nothing is gained."""
        rows = codes, fours, first, sizes, firsts, words, units, has_missing
        n_splits = grow_leaves(*rows, ridge, signs, memory)
        if not n_splits:
            return None
        memory.splits[:, n_splits:] = _IDLE
        columns, thresholds, missing, *children = memory.splits
        return (
            columns.copy(),
            thresholds.astype(np.uint8),
            missing.astype(np.bool_),
            np.array(children, dtype=np.int16),
        )

    def leaves(self, codes, splits):
        """The leaf of every row."""
        leaves = np.empty(codes.shape[1], np.uint8)
        find_leaves(codes, *splits, np.empty((2, self.n_leaves), np.int64), leaves)
        return leaves

    def below(self, splits, signs):
        """Which leaves are below which in the order of the signed columns."""
        first, last, missing = boxes(splits, len(signs))
        return below_by_boxes(first, last, missing, signs)

    def forest(self, trees, start):
        """The forest of trees: splits and values."""
        n_splits = self.n_leaves - 1
        parts = list(zip(*trees, strict=True)) or [[]] * 5
        return LeafwiseForest(
            np.array(parts[0], np.int32).reshape(-1, n_splits),
            np.array(parts[1], np.uint8).reshape(-1, n_splits),
            np.array(parts[2], np.bool_).reshape(-1, n_splits),
            np.array(parts[3], np.int16).reshape(-1, 2, n_splits),
            np.array(parts[4], np.float64).reshape(-1, self.n_leaves, len(start)),
            start,
        )
