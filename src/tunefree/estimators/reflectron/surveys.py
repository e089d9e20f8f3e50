"""Sources for mirror descent: the first pass, and the blocks of every later one."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefree.columns import Deviations
from tunefree.data.units import Units
from tunefree.estimators.from_source import RepeatableSource, SourceSample
from tunefree.learners.reflectron.mirror import Batch
from tunefree.protocols import BlockSource


@dataclass(frozen=True)
class Surveyed(BlockSource):
    """The blocks of a source, made as it is read in every pass; also a design of all its rows."""

    rows: RepeatableSource
    columns: Units
    targets: Any  # function of y: targets of shape (n, k)
    held: Any  # function of X: the member that each row is held out from

    def blocks(self, epoch):
        """The blocks of a pass."""
        for X, y, weights in self.rows.pieces():
            yield Batch(self.columns.design(X), self.targets(y), weights, self.held(X))

    @property
    def shape(self):
        """Rows and columns."""
        return self.rows.rows, self.rows.width

    def norms(self, p):
        """The p-norm of every row."""
        return np.concatenate([batch.design.norms(p) for batch in self.blocks(0)])

    def gram(self, weights):
        """X' diag(weights) X, by the rows' own weights."""
        return sum(batch.design.gram(batch.weights) for batch in self.blocks(0))


class Survey:
    """The results of the first pass: moments of the columns, sums of targets in every fold.

    `fold_of` is a function of X: the fold of each row. `outside` counts targets outside the range
    `inside`. `weight` and `sums` have a row for every fold; `sums` has its weighted targets, or the
    weight of each of the `classes`. With a `seed` a `SourceSample` is drawn.
    """

    def __init__(self, rows, fold_of, n_folds, classify, inside, seed=None):
        self.moments: Any = None
        self.sample: Any = None
        self.weight, self.outside, found = np.zeros(n_folds), 0, {}
        for X, y, weights in rows.survey():
            fold = fold_of(X)
            part = Deviations.of(X, np.empty((len(y), 0)), weights)
            before = self.moments and self.moments.widened(len(part.square))
            self.moments = before.join(part) if before else part
            self.weight += np.bincount(fold, weights, minlength=n_folds)
            if seed is not None:
                drawn = SourceSample.of(X, np.asarray(y), weights, seed)
                self.sample = self.sample.join(drawn) if self.sample else drawn
            if not classify:
                self.outside += np.count_nonzero((y < inside[0]) | (y > inside[1]))
            for name, column in zip(*_target_columns(y, classify), strict=True):
                sums = np.bincount(fold, weights * column, minlength=n_folds)
                found[name] = found.get(name, 0.0) + sums
        self.moments = self.moments.widened(rows.width)
        names = sorted(found)
        self.classes = np.array(names) if classify else None
        self.sums = np.column_stack([found[name] for name in names])


def _target_columns(y, classify):
    """Names and columns of targets: an indicator of each class, or the values."""
    if not classify:
        y = y.reshape(len(y), -1)
        return range(y.shape[1]), y.T.astype(np.float64)
    labels, codes = np.unique(y, return_inverse=True)
    return labels.tolist(), codes == np.arange(len(labels))[:, None]
