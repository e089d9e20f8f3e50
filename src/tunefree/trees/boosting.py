r"""Boosted trees: a GLM by pseudogradients in the space of trees.

The scores F start at the link of the best constant mean. Every round takes the pseudogradients
G and the curvatures H of the family's deviance at F, grows a tree, and adds to the scores of every
leaf and output

.. math:: \eta \, \frac{\sum G}{\sum H + \lambda},

with the step eta and lambda = 3 mean curvatures. Trees are of several shapes (`forests`): oblivious
ones of two depths, and leaf-wise ones. The number of rounds is chosen by held-out
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
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.clock import clock
from tunefree.core.process import team
from tunefree.core.progress import task
from tunefree.rows.order import in_order
from tunefree.trees.monotone import increasing
from tunefree.trees.tree import add_tree, first_bins, fours_of, packed

# The ridge of a leaf, in rows of mean curvature.
RIDGE = 3.0
# Rounds after the minimum of the held-out loss, and the most rounds.
_PATIENCE, MOST_ROUNDS = 30, 2000
# Rows that choose the splits of a tree.
_MOST_SPLIT_ROWS = 131_072
# After so many rounds a shape ends whose held-out loss is so many times the least. On eight
# development tables of 3,000 to 40,000 rows none of those had a share in the end; a trial after 120
# rounds, or by shares, ended shapes that had one.
_TRIAL, _FAR = 480, 1.25
# After so many rounds one of two rival depths goes on: the deeper one if its held-out loss is below
# such a share of the other's. It was .94 on california and .92 on elevators, where trees of depth 6
# serve as well for less time, and .77 on pumadyn32nm and .65 on pol, where they lose much
# (benchmarks/tables.py --large).
_RACE, _DEEPER = 120, 0.91
# The learner of all rows takes the splits of the learner without the held-out ones if these are at
# most this share: from 100,000 rows on. It saves 40 % of the time. With 50,000 rows the log-loss of
# made classes was the same; the squared error of Friedman's function was 2 % higher without noise,
# and 0.1 % with it. With a fifth held out it was 4 % higher (by hand).
FOLLOWED = 0.05
# The shares of shapes that held-out rows choose among are multiples of one over this.
_QUARTERS = 4
# Seconds of a round of the learner of all rows, as a share of those of a round of all learners: of
# one fold 1 / (1 + .8).
_SHARE_OF_ALL = 0.6
# For more outputs than this, splits are found on so many random projections of them.
_MOST_OUTPUTS = 4


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
    """What the learners of all folds and shapes share."""

    loss: Any  # of `tunefree.trees.losses`
    bins: Any
    seed: int
    signs: Any = None  # 1, -1 or 0 for every column: see `monotone`


class Booster:
    """Learns trees of one shape from rows, and predicts held-out rows after every round."""

    def __init__(self, sample, held_out, options, shape, halt=None):
        loss, bins, seed, signs = options
        self._sample, self.held_out, self._loss = sample, held_out, loss
        self._sizes, self._shape = bins.sizes(), shape
        self._signs = signs if signs is not None and signs.any() else None
        self._random, self._halt = np.random.default_rng(seed), halt
        self._total = sample.weights.sum()
        self._parts = [(part, sample.weights[part].sum()) for part in _parts(len(sample.weights))]
        self._has_missing = (sample.codes == 0).any(axis=1)
        self._fours, self._firsts = fours_of(sample.codes), first_bins(self._sizes)
        self.second = held_out.second_half()
        self._halves = np.flatnonzero(~self.second), np.flatnonzero(self.second)
        self.start = loss.start(sample)
        self._scores = self.start + sample.offset + np.zeros_like(sample.targets)
        self.held_out_scores = self.start + held_out.offset + np.zeros_like(held_out.targets)
        self.trees, self.risks = [], [self._risk()]

    def run(self, n_rounds):
        """Learn so many more trees, or until no split lowers the loss."""
        n_rows, outputs = self._sample.targets.shape
        shape = min(outputs, _MOST_OUTPUTS), min(n_rows, _MOST_SPLIT_ROWS)
        memory = self._shape.memory(self._sizes, *shape)
        while len(self.trees) < n_rounds and self._learn(memory):
            self.risks.append(self._risk())
        # A learner that has ended early predicts the same from then on.
        self.risks += self.risks[-1:] * (n_rounds + 1 - len(self.risks))

    def follow(self, other, n_rounds):
        """Take the splits of another learner's trees, up to so many, with values of own rows."""
        for tree in other.trees[len(self.trees) : n_rounds]:
            self._add_tree(tree[:-1], *self._slopes())

    def forest(self, n_trees):
        """The first trees."""
        return self._shape.forest(self.trees[:n_trees], self.start)

    def _risk(self):
        """The losses of the two halves of the held-out rows."""
        out = self.held_out
        if not len(out.weights):
            return np.zeros(2)
        losses = self._loss.losses(self.held_out_scores, out.targets) * out.weights
        return np.array([losses[half].sum() for half in self._halves])

    def _learn(self, memory):
        """Add a tree; False if no split lowers the loss."""
        held_out = self.held_out.codes
        gradients, curvatures = self._slopes()
        splits = self._splits(gradients, curvatures, memory)
        if splits is None:
            return False
        self._add_tree(splits, gradients, curvatures)
        self._shape.forest(self.trees[-1:], self.start).add(held_out, self.held_out_scores)
        return True

    def _slopes(self):
        """Pseudogradients and curvatures of all rows, times their weights."""
        if self._halt is not None and self._halt.is_set():
            raise KeyboardInterrupt
        gradients, curvatures = self._loss.slopes(self._scores, self._sample.targets)
        gradients *= self._sample.weights[:, None]
        curvatures *= self._sample.weights[:, None]
        return gradients, curvatures

    def _add_tree(self, splits, gradients, curvatures):
        """Add a tree of these splits, with the values of its leaves."""
        sample, shape = self._sample, self._shape
        leaves = shape.leaves(sample.codes, splits)
        ridges = RIDGE * curvatures.sum(axis=0) / self._total
        values = shape.step * self._loss.values(
            leaves, shape.n_leaves, gradients, curvatures, ridges, self._scores, sample.targets
        )
        if self._signs is not None:
            filled = np.bincount(leaves, minlength=shape.n_leaves) > 0
            values = increasing(values, shape.below(splits, self._signs), filled)
        add_tree(sample.codes, values, leaves, self._scores)
        self.trees.append((*splits, values))

    def _splits(self, gradients, curvatures, memory):
        """The splits of a tree; None if none lowers the loss."""
        part, total = self._parts[len(self.trees) % len(self._parts)]
        shared = _mean_of_outputs(curvatures[part])
        words, units = packed(self._sketch(gradients[part]), shared)
        return self._shape.splits(
            self._sample.codes,
            self._fours,
            part.start,
            self._sizes,
            self._firsts,
            words,
            units,
            self._has_missing,
            RIDGE * shared.sum() / total,
            self._signs,
            memory,
        )

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

    forest: Any
    scores: np.ndarray  # of shape (held-out rows, outputs), in the order of the folds
    risks: np.ndarray  # the held-out loss after every round


def n_reports(most_rounds):
    """How often `boost` reports at most for a shape."""
    return -(-most_rounds // _PATIENCE)


class ShapeLearners:
    """Learners of trees of one shape: one without each fold, and one of all rows."""

    def __init__(self, sample, folds, options, shape, halt, most_rounds):
        self._most_rounds, self.shape = most_rounds, shape
        self._boosters = [
            Booster(sample.part(train), sample.part(out), options, shape, halt)
            for train, out in folds
        ]
        self._last = Booster(sample, sample.part(slice(0, 0)), options, shape, halt)
        rest = len(sample.weights) - min(len(train) for train, _ in folds)
        self._follows = len(folds) == 1 and rest <= FOLLOWED * len(sample.weights)
        self.n_rounds, self._best, self._curve = 0, 0, np.empty(0)

    def is_over(self):
        """Whether the held-out loss has not fallen for some rounds, or they are enough."""
        if self.n_rounds >= self._most_rounds:
            return True
        # The end does not depend on how many rounds are learned between two looks.
        return self.n_rounds % _PATIENCE == 0 and self.n_rounds >= self._best + _PATIENCE

    def is_trial(self):
        """Whether learners that are far behind end here."""
        return self.n_rounds == _TRIAL

    def least_risk(self):
        """The least held-out loss so far."""
        return self._curve[self._best]

    def tasks(self, n_more):
        """More rounds of every learner, as functions; of all rows those that are surely kept."""
        self.n_rounds += n_more
        return [
            partial(self._learn_all, self._best),
            *[partial(booster.run, self.n_rounds) for booster in self._boosters],
        ]

    def _learn_all(self, n_rounds):
        """So many rounds of the learner of all rows."""
        if self._follows:
            self._last.follow(self._boosters[0], n_rounds)
        else:
            self._last.run(n_rounds)

    def find_best(self):
        """Find the round of least held-out loss."""
        risks = [booster.risks[len(self._curve) :] for booster in self._boosters]
        self._curve = np.append(self._curve, np.sum(risks, axis=2).sum(axis=0))
        self._best = int(np.argmin(self._curve))

    def result(self):
        """The `Boosted`."""
        self._learn_all(self._best)
        total = sum(booster.held_out.weights.sum() for booster in self._boosters)
        forest = self._last.forest(self._best)
        scores = _held_out_scores(self._boosters)
        return Boosted(forest, scores, self._curve / total)


class Rounds:
    """How many rounds are learned between two looks at the held-out loss.

    They are `_PATIENCE`, or, if the task has a clock, as many as the time suffices for, by the
    rounds so far. What is learned does not depend on it.
    """

    def __init__(self, most_rounds, each=0.0):
        self._clock, self._most_rounds = clock(), most_rounds
        self.each, self._before = each, 0  # seconds a round, and the rounds that came last

    def next(self, n_rounds):
        """The number of rounds that come next; 0 if the time is over."""
        most = min(_PATIENCE - n_rounds % _PATIENCE, self._most_rounds - n_rounds)
        left = self._clock.left()
        if left == np.inf:
            return most
        if not n_rounds:
            return 1
        # The learner of all rows is yet to learn the last rounds and the next ones.
        spare = left / max(self.each, 1e-9) - _SHARE_OF_ALL * self._before
        n_more = min(most, int(spare / (1.0 + _SHARE_OF_ALL)))
        if n_more < 1:
            self._clock.cut_at(n_rounds)
            return 0
        # Less than all at once: the first rounds say little about the next ones.
        return min(n_more, max(1, n_rounds))

    def learned(self, n_rounds, seconds):
        """Note how long the last rounds took."""
        self.each, self._before = seconds / n_rounds, n_rounds


def boost(sample, folds, options, shapes, most_rounds, report):
    """Choose the number of rounds by held-out rows, and learn as many from all rows.

    A row's own loss does not choose the round of its held-out prediction: with several folds the
    other folds choose it, with one fold the other half of its rows, or of its groups. All of them
    decide only how many rounds there are to choose from.

    After some rounds `report` is called once for every shape: it returns whether these were the
    last. Returned is a list of `Boosted`. A clock (`core.clock`) ends the rounds of all shapes, and
    keeps their learners: with more time they go on, and learn the same as without an end.
    """
    kept = clock().kept_before()
    if kept is None:
        halt = threading.Event()
        sweeps = [ShapeLearners(sample, folds, options, s, halt, most_rounds) for s in shapes]
        running, each = sweeps, 0.0
    else:
        halt, sweeps, running, each = kept
    stopped, pace = False, Rounds(most_rounds, each)
    with task("boosted trees", "rounds", most_rounds) as rounds:
        while running and not stopped:
            if running[0].is_trial():
                running = _able(running, sweeps)
            if running and running[0].n_rounds == _RACE:
                running = _without_losers(running)
            n_more = pace.next(running[0].n_rounds) if running else 0
            if not n_more:
                if running:
                    clock().kept = halt, sweeps, running, pace.each
                break
            start = clock().spent()
            # The last shapes take longest.
            learners = [run for sweep in reversed(running) for run in sweep.tasks(n_more)]
            try:
                team().map(lambda run: run(), learners)
            except BaseException:  # such as Ctrl-C: the other threads end, too
                halt.set()
                raise
            n_rounds = max(sweep.n_rounds for sweep in running)
            rounds.at(n_rounds, max(n_rounds / most_rounds, clock().share()))
            pace.learned(n_more, clock().spent() - start)
            for sweep in running:
                sweep.find_best()
                if sweep.n_rounds % _PATIENCE == 0 or sweep.is_over():
                    stopped = report()
            running = [sweep for sweep in running if not sweep.is_over()]
    return team().map(ShapeLearners.result, sweeps)


def _able(running, sweeps):
    """Those of the running learners that are not far behind the best."""
    least = min(sweep.least_risk() for sweep in sweeps)
    return [sweep for sweep in running if sweep.least_risk() <= _FAR * least]


def _without_losers(running):
    """The running learners without one of each two rival depths."""
    lost = []
    for deeper in running:
        for other in running:
            if getattr(deeper.shape, "rival", 0) == getattr(other.shape, "depth", None):
                wins = deeper.least_risk() < _DEEPER * other.least_risk()
                lost.append(other if wins else deeper)
    return [sweep for sweep in running if not any(sweep is one for one in lost)]


def mixed(shares, parts):
    """The sum of scores with these shares."""
    return sum(share * part for share, part in zip(shares, parts, strict=True))


def best_shares(parts, risk):
    """The shares of scores of several shapes, multiples of a quarter, of the least risk."""
    wholes = product(range(_QUARTERS + 1), repeat=len(parts))
    found = [np.array(whole) / _QUARTERS for whole in wholes if sum(whole) == _QUARTERS]
    return min(found, key=lambda shares: risk(mixed(shares, parts)))


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
