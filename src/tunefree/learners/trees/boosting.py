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

from tunefree._process import team
from tunefree.learners.trees.monotone import increasing
from tunefree.learners.trees.tree import (
    add_trees,
    first_bins,
    fours_of,
    grow,
    leaves_of,
    packed,
    tree_memory,
)

STEP, RIDGE = 0.12, 3.0
# Rounds after the minimum of the held-out loss, and the most rounds.
_PATIENCE, MOST_ROUNDS = 30, 2000
# Rows that choose the splits of a tree.
_MOST_SPLIT_ROWS = 131_072
# For more outputs than this, splits are found on so many random projections of them.
_MOST_OUTPUTS = 4
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
        out, depth = np.zeros(n_columns), self.columns.shape[1]
        for columns, values in zip(self.columns, self.values, strict=True):
            for level, column in enumerate(columns):
                halves = values.reshape(1 << level, 2, 1 << (depth - 1 - level), -1)
                out[column] += np.square(halves[:, 1] - halves[:, 0]).mean()
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

    def part(self, rows):
        """Some rows."""
        offset = self.offset if np.ndim(self.offset) == 0 else self.offset[rows]
        codes = np.ascontiguousarray(self.codes[:, rows])
        return BinnedRows(codes, self.targets[rows], self.weights[rows], offset)

    def in_units(self, units):
        """The rows with targets in these units, one of every output."""
        offset = self.offset if np.ndim(self.offset) == 0 else self.offset / units
        return self._replace(targets=self.targets / units, offset=offset)


class Booster:
    """Learns trees of one depth from rows, and predicts held-out rows after every round."""

    def __init__(self, sample, held_out, loss, bins, depth, seed, step=STEP, signs=None, halt=None):
        self._sample, self._held_out, self._loss = sample, held_out, loss
        self._sizes, self._depth, self._step = bins.sizes(), depth, step
        self._signs = signs if signs is not None and signs.any() else None
        self._random, self._halt = np.random.default_rng(seed), halt
        self._has_missing = (sample.codes == 0).any(axis=1)
        self._fours, self._firsts = fours_of(sample.codes), first_bins(self._sizes)
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
        kept = self.trees[:n_trees]
        leaves, outputs = 1 << self._depth, len(self.start)
        empty = [
            np.empty((0, self._depth), np.int32),
            np.empty((0, self._depth), np.uint8),
            np.empty((0, self._depth), np.bool_),
            np.empty((0, leaves, outputs)),
        ]
        parts: list[Any] = [np.stack(p) for p in zip(*kept, strict=True)] if kept else empty
        return Forest(parts[0], parts[1], parts[2], parts[3], self.start)

    def _risk(self):
        """The losses of every other held-out row, and of the rest."""
        out = self._held_out
        if not len(out.weights):
            return np.zeros(2)
        losses = self._loss.losses(self.held_out_scores, out.targets) * out.weights
        return np.array([losses[::2].sum(), losses[1::2].sum()])

    def _learn(self, memory):
        """Add a tree; False if no split lowers the loss."""
        if self._halt is not None and self._halt.is_set():
            raise KeyboardInterrupt
        sample, depth = self._sample, self._depth
        gradients, curvatures = self._loss.slopes(self._scores, sample.targets)
        gradients *= sample.weights[:, None]
        curvatures *= sample.weights[:, None]
        part = self._split_rows()
        shared = _mean_of_outputs(curvatures[part])
        total = sample.weights.sum()
        words, units = packed(self._sketch(gradients[part]), shared)
        ridge = RIDGE * shared.sum() / sample.weights[part].sum()
        n_levels = grow(
            sample.codes,
            self._fours,
            part.start,
            self._sizes,
            self._firsts,
            words,
            units,
            self._has_missing,
            depth,
            ridge,
            self._signs,
            memory,
        )
        if not n_levels:
            return False
        # Levels without a split send all rows to the left.
        splits = memory.splits
        splits[0, n_levels:], splits[1, n_levels:], splits[2, n_levels:] = 0, 255, 0
        kinds = np.int32, np.uint8, np.bool_
        columns, thresholds, missing = (s.astype(k) for s, k in zip(splits, kinds, strict=True))
        leaves = leaves_of(sample.codes, columns, thresholds, missing)
        ridges = RIDGE * curvatures.sum(axis=0) / total
        values = self._step * self._loss.values(
            leaves, 1 << depth, gradients, curvatures, ridges, sample.targets - self._scores
        )
        if self._signs is not None:
            filled = np.bincount(leaves, minlength=1 << depth) > 0
            values = increasing(values, columns, self._signs, filled)
        self._scores += values[leaves]
        held_out = leaves_of(self._held_out.codes, columns, thresholds, missing)
        self.held_out_scores += values[held_out]
        self.trees.append((columns, thresholds, missing, values))
        return True

    def _split_rows(self):
        """The rows that choose the splits of the next tree: few enough, and others every round."""
        n = len(self._sample.weights)
        count = max(1, -(-n // _MOST_SPLIT_ROWS))
        i = len(self.trees) % count
        return slice(i * n // count, (i + 1) * n // count)

    def _sketch(self, gradients):
        outputs = gradients.shape[1]
        if outputs <= _MOST_OUTPUTS:
            return gradients
        return gradients @ self._random.standard_normal((outputs, _MOST_OUTPUTS))


def _mean_of_outputs(numbers):
    return numbers[:, 0] if numbers.shape[1] == 1 else numbers.mean(axis=1)


class Boosted(NamedTuple):
    """Trees on all rows, and what the folds' learners predicted for their held-out rows."""

    forest: Forest
    scores: np.ndarray  # of shape (held-out rows, outputs), in the order of the folds
    risks: np.ndarray  # the held-out loss after every round


def n_reports(most_rounds):
    """How often `boost` yields at most for a depth."""
    return -(-most_rounds // _PATIENCE)


class DepthLearners:
    """Learners of trees of one depth: one without each fold, and one of all rows."""

    def __init__(self, sample, folds, *options):
        self._sample, self._folds = sample, folds
        parts = [(sample.part(train), sample.part(out)) for train, out in folds]
        self._boosters = [Booster(*part, *options) for part in parts]
        self._last = Booster(sample, sample.part(slice(0, 0)), *options)
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
        losses = [[r.sum() for r in booster.risks] for booster in self._boosters]
        self._curve = np.sum(losses, axis=0)
        self._best = int(np.argmin(self._curve))

    def result(self):
        """The `Boosted`."""
        scores = _held_out_scores(self._sample, self._folds, self._boosters)
        self._last.run(self._best)
        total = sum(self._sample.weights[out].sum() for _, out in self._folds)
        return Boosted(self._last.forest(self._best), scores, self._curve / total)


def boost(
    sample, folds, loss, bins, depths, seed=0, step=STEP, signs=None, most_rounds=MOST_ROUNDS
):
    """Choose the number of rounds by held-out rows, and learn as many from all rows.

    A row's own loss does not choose the round of its held-out prediction: with several folds the
    other folds choose it, with one fold the other half of its rows.

    A generator: after some rounds it yields once for every depth, is sent whether these were the
    last, and returns a list of `Boosted`.
    """
    halt = threading.Event()
    sweeps = [DepthLearners(sample, folds, loss, bins, d, seed, step, signs, halt) for d in depths]
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
            stopped = yield
        running = [sweep for sweep in running if not sweep.is_over(most_rounds)]
    return team().map(DepthLearners.result, sweeps)


def _held_out_scores(sample, folds, boosters):
    """Held-out scores of rounds that were chosen by other held-out rows."""
    curves = np.array([booster.risks for booster in boosters])  # of shape (folds, rounds, halves)
    out = []
    for f, (booster, (_, rows)) in enumerate(zip(boosters, folds, strict=True)):
        scores = np.empty((len(rows), len(booster.start)))
        parts, others = [slice(None)], [(curves.sum(axis=0) - curves[f]).sum(axis=1)]
        if len(folds) == 1:
            parts = [slice(0, None, 2), slice(1, None, 2)]
            others = [curves[0, :, 1], curves[0, :, 0]]
        for part, risks in zip(parts, others, strict=True):
            forest = booster.forest(int(np.argmin(risks)))
            scores[part] = forest.scores(np.ascontiguousarray(sample.codes[:, rows[part]]))
        offset = sample.offset if np.ndim(sample.offset) == 0 else sample.offset[rows]
        out.append(scores + offset)
    return np.concatenate(out)
