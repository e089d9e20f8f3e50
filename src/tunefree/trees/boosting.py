r"""Boosted trees: a GLM by pseudogradients in the space of trees.

The scores F start at the link of the best constant mean. Every round takes the pseudogradients
G and the curvatures H of the family's deviance at F, grows an oblivious tree (`tree`), and adds to
the scores of every leaf and output

.. math:: \eta \, \frac{\sum G}{\sum H + \lambda},

with the step eta = 0.12 and lambda = 3 mean curvatures. The number of rounds is chosen by held-out
rows: learners on the other folds' rows stop 30 rounds after the minimum of their held-out loss, and
the learner on all rows takes as many rounds as gave this minimum.

Quantiles of level q have the pseudogradients q - 1{y < F}, 0 for y = F, and curvatures of 1. The
value of a leaf is the quantile of its residuals y - F, times the step and H / (H + lambda). In the
end the quantile of the held-out residuals is added: residuals of learned rows are too small.

Source: Friedman 2001, algorithm 1, section 4.4 (Newton steps) and algorithm 3 (quantiles of
residuals); Boffi, Tu and Slotine 2021, equation 6 (pseudogradients); Iosipoi and Vakhrushev 2022,
section 3.3 (random projections of many outputs).
"""

import threading
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.process import team
from tunefree.rows.order import in_order
from tunefree.trees.monotone import increasing
from tunefree.trees.tree import (
    add_trees,
    first_bins,
    fours_of,
    grow,
    leaves_of,
    packed,
    tree_memory,
)

# The share of a Newton step that a tree takes; the ridge of a leaf, in rows of mean curvature.
STEP = 0.12
RIDGE = 3.0
# Rounds after the minimum of the held-out loss, and the most rounds.
_PATIENCE, MOST_ROUNDS = 30, 2000
# Rows that choose the splits of a tree.
_MOST_SPLIT_ROWS = 131_072
# For more outputs than this, splits are found on so many random projections of them.
_MOST_OUTPUTS = 4
# The column, threshold and side of missing values of a level without a split: all rows go left.
_NO_SPLIT = np.array([[0], [255], [0]])
# Rows that trees predict at once: their bins stay in the cache.
BLOCK = 4096


class Forest(NamedTuple):
    """Trees of one depth, and the scores that they are added to."""

    columns: np.ndarray  # of shape (trees, depth), as thresholds and missing
    thresholds: np.ndarray
    missing: np.ndarray
    values: np.ndarray  # of shape (trees, leaves, outputs)
    start: np.ndarray  # of shape (outputs,)

    def scores(self, codes):
        """Scores of shape (rows, outputs) for bins of shape (columns, rows)."""
        n = codes.shape[1]
        out = np.tile(self.start, (n, 1))

        def add(first):
            part = slice(first, first + BLOCK)
            block = np.ascontiguousarray(codes[:, part])
            leaves = np.empty(block.shape[1], dtype=np.uint8)
            splits = self.columns, self.thresholds, self.missing
            add_trees(block, *splits, self.values, leaves, out[part])

        team().map(add, range(0, n, BLOCK))
        return out

    def shifted(self, shift):
        """The forest with a constant added to the scores of every output."""
        return self._replace(start=self.start + shift)

    def in_units(self, units):
        """The forest for targets in other units, one of every output."""
        return self._replace(values=self.values * units, start=self.start * units)

    def relevances(self, n_columns):
        """The mean squared effects of the splits on each column, added over all trees."""
        trees, depth = self.columns.shape
        out = np.zeros(n_columns)
        effects = np.empty((trees, depth))
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
            return g("Add", g("MatMul", X, np.zeros((len(bins.sizes()), 1))), self.start)
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


class BinnedRows(NamedTuple):
    """Rows to learn or to predict."""

    codes: np.ndarray  # bins, of shape (columns, rows)
    targets: np.ndarray  # of shape (rows, outputs)
    weights: np.ndarray
    offset: Any = 0.0  # of shape (rows, 1) or (rows, outputs), or 0
    groups: Any = None  # numbers of groups of dependent rows

    def part(self, rows):
        """Some rows."""
        offset = self.offset if np.ndim(self.offset) == 0 else self.offset[rows]
        groups = None if self.groups is None else self.groups[rows]
        codes = np.ascontiguousarray(self.codes[:, rows])
        return BinnedRows(codes, self.targets[rows], self.weights[rows], offset, groups)

    def second_half(self):
        """Whether each row is in the second of two halves: every other row, or whole groups."""
        numbers = np.arange(len(self.weights)) if self.groups is None else in_order(self.groups)
        return numbers % 2 == 1

    def in_units(self, units):
        """The rows with targets in these units, one of every output."""
        offset = self.offset if np.ndim(self.offset) == 0 else self.offset / units
        return self._replace(targets=self.targets / units, offset=offset)


class BoostingOptions(NamedTuple):
    """What the learners of all folds and depths share."""

    loss: Any  # of `tunefree.trees.losses`
    bins: Any
    seed: int
    signs: Any = None  # 1, -1 or 0 for every column: see `monotone`


class Booster:
    """Learns trees of one depth from rows, and predicts held-out rows after every round."""

    def __init__(self, sample, held_out, options, depth, halt=None):
        loss, bins, seed, signs = options
        self._sample, self.held_out, self._loss = sample, held_out, loss
        self._sizes, self._depth = bins.sizes(), depth
        self._signs = signs if signs is not None and signs.any() else None
        self._random, self._halt = np.random.default_rng(seed), halt
        self._total = sample.weights.sum()
        self._parts = [(part, sample.weights[part].sum()) for part in _parts(len(sample.weights))]
        self._has_missing = (sample.codes == 0).any(axis=1)
        self._fours, self._firsts = fours_of(sample.codes), first_bins(self._sizes)
        self.second = held_out.second_half()
        self.start = loss.start(sample)
        self._scores = self.start + sample.offset + np.zeros_like(sample.targets)
        self.held_out_scores = self.start + held_out.offset + np.zeros_like(held_out.targets)
        self.trees, self.risks = [], [self._risk()]

    def run(self, n_rounds):
        """Learn so many more trees, or until no split lowers the loss."""
        n_rows, outputs = self._sample.targets.shape
        shape = min(outputs, _MOST_OUTPUTS), min(n_rows, _MOST_SPLIT_ROWS)
        memory = tree_memory(self._sizes, self._depth, *shape)
        while len(self.trees) < n_rounds and self._learn(memory):
            self.risks.append(self._risk())
        # A learner that has ended early predicts the same from then on.
        self.risks += self.risks[-1:] * (n_rounds + 1 - len(self.risks))

    def forest(self, n_trees):
        """The first trees."""
        shape = -1, self._depth
        parts = list(zip(*self.trees[:n_trees], strict=True)) or [[]] * 4
        return Forest(
            np.array(parts[0], np.int32).reshape(shape),
            np.array(parts[1], np.uint8).reshape(shape),
            np.array(parts[2], np.bool_).reshape(shape),
            np.array(parts[3], np.float64).reshape(-1, 1 << self._depth, len(self.start)),
            self.start,
        )

    def _risk(self):
        """The losses of the two halves of the held-out rows."""
        out = self.held_out
        if not len(out.weights):
            return np.zeros(2)
        losses = self._loss.losses(self.held_out_scores, out.targets) * out.weights
        return np.array([losses[~self.second].sum(), losses[self.second].sum()])

    def _learn(self, memory):
        """Add a tree; False if no split lowers the loss."""
        if self._halt is not None and self._halt.is_set():
            raise KeyboardInterrupt
        sample, held_out = self._sample, self.held_out.codes
        gradients, curvatures = self._loss.slopes(self._scores, sample.targets)
        gradients *= sample.weights[:, None]
        curvatures *= sample.weights[:, None]
        splits = self._splits(gradients, curvatures, memory)
        if splits is None:
            return False
        leaves = leaves_of(sample.codes, *splits)
        n_leaves = 1 << self._depth
        ridges = RIDGE * curvatures.sum(axis=0) / self._total
        values = STEP * self._loss.values(
            leaves, n_leaves, gradients, curvatures, ridges, self._scores, sample.targets
        )
        if self._signs is not None:
            filled = np.bincount(leaves, minlength=n_leaves) > 0
            values = increasing(values, splits[0], self._signs, filled)
        self._scores += values[leaves]
        self.trees.append((*splits, values))
        one = [part[None] for part in self.trees[-1]]
        add_trees(held_out, *one, np.empty(held_out.shape[1], np.uint8), self.held_out_scores)
        return True

    def _splits(self, gradients, curvatures, memory):
        """Columns, thresholds and sides of missing values; None if no split lowers the loss."""
        part, total = self._parts[len(self.trees) % len(self._parts)]
        shared = _mean_of_outputs(curvatures[part])
        words, units = packed(self._sketch(gradients[part]), shared)
        n_levels = grow(
            self._sample.codes,
            self._fours,
            part.start,
            self._sizes,
            self._firsts,
            words,
            units,
            self._has_missing,
            self._depth,
            RIDGE * shared.sum() / total,
            self._signs,
            memory,
        )
        memory.splits[:, n_levels:] = _NO_SPLIT
        columns, thresholds, missing = memory.splits
        found = columns.copy(), thresholds.astype(np.uint8), missing.astype(np.bool_)
        return found if n_levels else None

    def _sketch(self, gradients):
        outputs = gradients.shape[1]
        if outputs <= _MOST_OUTPUTS:
            return gradients
        return gradients @ self._random.standard_normal((outputs, _MOST_OUTPUTS))


def _parts(n):
    """Parts of n rows, few enough to choose the splits of a tree: another part every round."""
    count = max(1, -(-n // _MOST_SPLIT_ROWS))
    return [slice(i * n // count, (i + 1) * n // count) for i in range(count)]


def _mean_of_outputs(numbers):
    return numbers[:, 0] if numbers.shape[1] == 1 else numbers.mean(axis=1)


class Boosted(NamedTuple):
    """Trees on all rows, and what the folds' learners predicted for their held-out rows."""

    forest: Forest
    scores: np.ndarray  # of shape (held-out rows, outputs), in the order of the folds
    risks: np.ndarray  # the held-out loss after every round


def n_reports(most_rounds):
    """How often `boost` reports at most for a depth."""
    return -(-most_rounds // _PATIENCE)


class DepthLearners:
    """Learners of trees of one depth: one without each fold, and one of all rows."""

    def __init__(self, sample, folds, options, depth, halt):
        self._boosters = [
            Booster(sample.part(train), sample.part(out), options, depth, halt)
            for train, out in folds
        ]
        self._last = Booster(sample, sample.part(slice(0, 0)), options, depth, halt)
        self._n_rounds, self._best, self._curve = 0, 0, np.empty(0)

    def is_over(self, most_rounds):
        """Whether the held-out loss has not fallen for some rounds, or they are enough."""
        return self._n_rounds >= min(most_rounds, self._best + _PATIENCE)

    def tasks(self):
        """More rounds of every learner, as functions; of all rows those that are surely kept."""
        self._n_rounds += _PATIENCE
        ends = [self._best, *[self._n_rounds] * len(self._boosters)]
        learners = [self._last, *self._boosters]
        return [partial(b.run, end) for b, end in zip(learners, ends, strict=True)]

    def find_best(self):
        """Find the round of least held-out loss."""
        risks = [booster.risks[len(self._curve) :] for booster in self._boosters]
        self._curve = np.append(self._curve, np.sum(risks, axis=2).sum(axis=0))
        self._best = int(np.argmin(self._curve))

    def result(self):
        """The `Boosted`."""
        self._last.run(self._best)
        total = sum(booster.held_out.weights.sum() for booster in self._boosters)
        forest = self._last.forest(self._best)
        scores = _held_out_scores(self._boosters)
        return Boosted(forest, scores, self._curve / total)


def boost(sample, folds, options, depths, most_rounds, report):
    """Choose the number of rounds by held-out rows, and learn as many from all rows.

    A row's own loss does not choose the round of its held-out prediction: with several folds the
    other folds choose it, with one fold the other half of its rows, or of its groups.

    After some rounds `report` is called once for every depth: it returns whether these were the
    last. Returned is a list of `Boosted`.
    """
    halt = threading.Event()
    sweeps = [DepthLearners(sample, folds, options, depth, halt) for depth in depths]
    running, stopped = sweeps, False
    while running and not stopped:
        # The deepest trees take longest.
        tasks = [task for sweep in reversed(running) for task in sweep.tasks()]
        try:
            team().map(lambda task: task(), tasks)
        except BaseException:  # such as Ctrl-C: the other threads end, too
            halt.set()
            raise
        for sweep in running:
            sweep.find_best()
            stopped = report()
        running = [sweep for sweep in running if not sweep.is_over(most_rounds)]
    return team().map(DepthLearners.result, sweeps)


def _held_out_scores(boosters):
    """Held-out scores of rounds that were chosen by other held-out rows."""
    curves = np.array([booster.risks for booster in boosters])  # of shape (folds, rounds, halves)
    out = []
    for booster, own in zip(boosters, curves, strict=True):
        # Parts of the held-out rows, each with the risks of other rows.
        of_others = [(slice(None), (curves.sum(axis=0) - own).sum(axis=1))]
        if len(boosters) == 1:
            of_others = [(~booster.second, own[:, 1]), (booster.second, own[:, 0])]
        held_out = booster.held_out
        scores = held_out.offset + np.zeros_like(held_out.targets)
        for part, risks in of_others:
            forest = booster.forest(int(np.argmin(risks)))
            scores[part] += forest.scores(np.ascontiguousarray(held_out.codes[:, part]))
        out.append(scores)
    return np.concatenate(out)
