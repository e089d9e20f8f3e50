"""Distinct rows, and the forests of several shapes that are learned from them."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.process import workers
from tunefree.held_out.predictions import automatic_folds
from tunefree.trees.boosting import (
    MOST_ROUNDS,
    BinnedRows,
    BoostingOptions,
    best_shares,
    boost,
    mixed,
    n_reports,
)
from tunefree.trees.forests import Leafwise, Oblivious
from tunefree.trees.losses import LogLoss

# Trees of these shapes are learned: of few rows; and from `_MANY_ROWS` on of one number, of two
# classes, and of several outputs, which gain from smaller steps. All were compared on twelve
# tables, those of one number on california, elevators and pumadyn32nm, where they take .4 to .6 of
# the time of the last three (benchmarks/tables.py --large); those of two classes on magic04, a9a,
# elec2 and 24,000 made rows, where no log-loss is above that of the last three, and elec2's is 2 %
# below. The number of rows was chosen, not measured.
SHAPES = Oblivious(3), Oblivious(6)
SHAPES_OF_MANY = Oblivious(6), Oblivious(8, rival=6), Leafwise(step=0.12)
SHAPES_OF_TWO_CLASSES = Oblivious(4), Oblivious(8), Leafwise(step=0.09)
SHAPES_OF_SEVERAL = Oblivious(4), Oblivious(8), Leafwise()
_MANY_ROWS = 4000
# Threads are slower than one for fewer cells than twice this: no benchmark is named for it.
CELLS_OF_A_THREAD = 5000


class GivenRows(NamedTuple):
    """The user's rows of positive weight, and what is to be learned of them."""

    X: Any
    loss: Any  # of `tunefree.trees.losses`
    targets: np.ndarray  # of shape (rows, outputs)
    weights: np.ndarray  # with the exposure of rates
    strata: np.ndarray  # class numbers, or zeros
    groups: Any = None  # numbers of groups
    offset: Any = None
    exposure: Any = None  # of which the target is a rate
    are_precisions: bool = False  # whether weights are precisions, not repetitions


class TreeRows(NamedTuple):
    """Distinct rows in the order of the hash of their bins."""

    bins: Any
    loss: Any
    sample: BinnedRows
    strata: np.ndarray
    terms: Any = None  # `Terms` of rows with an exposure or an offset
    most_rounds: int = MOST_ROUNDS
    numbers: Any = None  # of these rows among those of positive weight
    are_precisions: bool = False  # whether weights are precisions, not repetitions

    def folds(self):
        """Training rows and held-out rows: of all folds, or of one if rows are many."""
        groups = self.sample.groups
        if len(self.strata) == 1:  # rows that are all equal predict each other
            return [(np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp))]
        folds = automatic_folds(self.strata, groups)
        learns_none = not len(folds[0][0])
        if learns_none and groups is not None:
            raise ValueError("groups= has one group of every class only: none can be held out.")
        if learns_none:  # one row of every class: hold out one row at a time
            folds = automatic_folds(np.zeros_like(self.strata))
        return folds


class FittedTrees(NamedTuple):
    """Forests, the share of each, and held-out scores of shape (rows, outputs)."""

    forests: tuple
    shares: np.ndarray
    effects: np.ndarray  # of the columns, of shape (forests, columns)
    curves: dict  # the held-out loss after every round of each forest, by the shape's name
    held_out: np.ndarray
    held_rows: np.ndarray  # places of the held-out rows

    def in_units(self, units):
        """The same for targets in other units, one of every output."""
        forests = tuple(forest.in_units(units) for forest in self.forests)
        return self._replace(forests=forests, held_out=self.held_out * units)


def _shapes(sample, loss):
    """The shapes of trees that are learned."""
    if len(sample.weights) < _MANY_ROWS:
        return SHAPES
    if sample.targets.shape[1] > 1:
        return SHAPES_OF_SEVERAL
    return SHAPES_OF_TWO_CLASSES if isinstance(loss, LogLoss) else SHAPES_OF_MANY


def learn_trees(table, folds, seed, signs, n_jobs, progress):
    """The `FittedTrees` of rows: forests of every shape, weighted by their held-out loss."""
    loss, sample = table.loss, table.sample
    options = BoostingOptions(loss, table.bins, seed, signs)
    shapes = _shapes(sample, loss)
    progress.expect(len(shapes) * n_reports(table.most_rounds))

    def report():
        progress.begin("rounds")
        return progress.end()

    with workers(n_jobs, sample.codes.size // CELLS_OF_A_THREAD):
        fits = boost(sample, folds, options, shapes, table.most_rounds, report)
    held = np.concatenate([out for _, out in folds])
    order = np.argsort(held)
    held = held[order]
    parts = np.array([fit.scores[order] for fit in fits])
    targets, weights = sample.targets[held], sample.weights[held]
    shares = best_shares(parts, lambda scores: weights @ loss.losses(scores, targets))
    scores = mixed(shares, parts)
    shift = loss.shift(scores, targets, weights)
    used = np.flatnonzero(shares)
    shares = shares[used]
    forests = tuple(fits[i].forest.shifted(shift) for i in used)
    effects = np.array([forest.relevances(len(signs)) for forest in forests])
    curves = {shapes[i].name: fits[i].risks for i in used}
    return FittedTrees(forests, shares, effects, curves, scores + shift, held)
