"""Sources for mirror descent: the first pass, and the blocks of every later one."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefree.base.from_source import RepeatableSource, SourceSample
from tunefree.core.parameters import seed_of
from tunefree.core.protocols import BlockSource
from tunefree.parts.families import Matching
from tunefree.parts.links import link_range
from tunefree.reflectron.choice import with_first_step
from tunefree.reflectron.descent import Descent
from tunefree.reflectron.mirror import NONE, Batch
from tunefree.rows.matrices import as_columns
from tunefree.rows.moments import Deviations
from tunefree.rows.order import row_hash
from tunefree.rows.units import Units


@dataclass(frozen=True)
class Surveyed(BlockSource):
    """The blocks of a source, made as it is read in every pass."""

    rows: RepeatableSource
    columns: Units
    targets: Any  # function of y: targets of shape (n, k)
    held: Any  # function of X: the member that each row is held out from

    def blocks(self, epoch):
        """The blocks of a pass."""
        for X, y, weights in self.rows.pieces():
            yield Batch(self.columns.design(X), self.targets(y), weights, self.held(X))

    def gram(self, weights):
        """X' diag(weights) X, by the rows' own weights."""
        return sum(batch.design.gram(batch.weights) for batch in self.blocks(0))


class Survey:
    """The results of the first pass: moments of the columns, sums of targets in every fold.

    `outside` counts targets outside the range of the family. `weight` and `sums` have a row for
    every fold; `sums` has its weighted targets, or the weight of each of the `classes`. If a law is
    to be learned, a `SourceSample` is drawn.
    """

    def __init__(self, rows, setup, classify, learns_law):
        self.rows, self.seed = rows, seed_of(setup.settings.random_state)
        self.n_folds = setup.settings.folds(np.inf, setup.settings.n_splits).number
        low, high = family_range(setup.family, setup.link)
        self.moments: Any = None
        self.sample: Any = None
        self.weight, self.outside, found = np.zeros(self.n_folds), 0, {}
        for X, y, weights in rows.survey():
            fold = self.fold_of(X)
            part = Deviations.of(X, np.empty((len(y), 0)), weights)
            before = self.moments and self.moments.widened(len(part.square))
            self.moments = before.join(part) if before else part
            self.weight += np.bincount(fold, weights, minlength=self.n_folds)
            if learns_law:
                drawn = SourceSample.of(X, np.asarray(y), weights, self.seed + 1)
                self.sample = self.sample.join(drawn) if self.sample else drawn
            if not classify:
                self.outside += np.count_nonzero((y < low) | (y > high))
            for name, column in zip(*_target_columns(y, classify), strict=True):
                sums = np.bincount(fold, weights * column, minlength=self.n_folds)
                found[name] = found.get(name, 0.0) + sums
        self.moments = self.moments.widened(rows.width)
        names = sorted(found)
        self.classes = np.array(names) if classify else None
        self.sums = np.column_stack([found[name] for name in names])

    def fold_of(self, X):
        """The fold of each row."""
        return (row_hash(X, self.seed) % np.uint64(self.n_folds)).astype(np.intp)

    def units(self, settings):
        """The units of the columns."""
        if settings.standardize:
            return Units.of_moments(self.moments, settings.fit_intercept)
        return Units.unchanged(self.rows.width)

    def descend(self, setup, columns, targets, sums, start, **how):
        """Full batches, by passes over the source: the `DescentResult`.

        `targets` is a function of y, and `sums` are those of the targets in every fold. Without a
        `start` it is that of the targets' means.
        """
        rows, folds, k = self.rows, np.arange(self.n_folds), sums.shape[1]
        held = setup.settings.folds(rows.rows, setup.settings.n_splits).members(folds)
        choosing = bool(self.weight[held > NONE].sum() > 0.0)
        if not choosing:
            held[:] = NONE
        setup.check_choice(choosing, rows.rows)
        source = Surveyed(rows, columns, targets, lambda X: held[self.fold_of(X)])
        setup = setup.in_units(columns)
        learner = setup.learner(1 + max(0, held.max()), choosing)
        if start is None:
            # It depends on the means of targets only: one row for each fold is enough.
            means = sums / np.maximum(self.weight, np.finfo(float).tiny)[:, None]
            start = setup.start(columns, Batch(None, means, self.weight, held), learner.members)
        if learner.family is not None:
            learner = setup.with_geometries(learner, (rows.rows, rows.width))
            learner = with_first_step(learner, start[1], k)
            learner = learner.with_metric(source, None, self.weight.sum())
        descent = Descent(columns, k, rows.dtype, setup.settings.most_passes, **how)
        return descent.follow(learner, start, source)[0]


def _target_columns(y, classify):
    """Names and columns of targets: an indicator of each class, or the values."""
    if not classify:
        y = as_columns(y)
        return range(y.shape[1]), y.T
    labels, codes = np.unique(y, return_inverse=True)
    return labels.tolist(), codes == np.arange(len(labels))[:, None]


def family_range(family, link):
    """The range of targets of a family, or of the means of a link."""
    if isinstance(family, Matching):
        return link_range(link)
    low, high = family.range
    return (np.nextafter(low, np.inf) if family.open_below else low), high
