"""The batch form's rows of a source: a survey in the first pass, then one pass for each step."""

from dataclasses import dataclass

import numpy as np

from tunefree.estimators.from_source import Reread
from tunefree.estimators.reflectron.features import Columns, Moments
from tunefree.learners.reflectron.mirror import Batch
from tunefree.protocols import Source


@dataclass(frozen=True)
class Surveyed(Source):
    """The blocks of every pass, made as they are read; as a design, these are all rows.

    `targets` takes y to targets of shape (n, k), `held` takes X to the member that each row is
    held out from.
    """

    rows: Reread
    columns: Columns
    targets: object
    held: object

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


class Survey:
    """What the first pass finds out: moments of the columns, targets of every share of the rows.

    `turns` takes X to the share that each row belongs to. `outside` counts targets beyond the
    link's range `inside`; `weight` and `sums` are of every share, `sums` of its weighted targets
    or the weight of each of the `classes`.
    """

    def __init__(self, rows, turns, n_shares, classify, inside):
        self.moments, self.weight, self.outside, found = None, np.zeros(n_shares), 0, {}
        for X, y, weights in rows.survey():
            share = turns(X)
            part = Moments.of(X, np.empty((len(y), 0)), weights)
            before = self.moments and self.moments.widened(part.mean.size)
            self.moments = before.join(part) if before else part
            self.weight += np.bincount(share, weights, minlength=n_shares)
            if not classify:
                self.outside += np.count_nonzero((y < inside[0]) | (y > inside[1]))
            for name, column in zip(*_columns(y, classify), strict=True):
                sums = np.bincount(share, weights * column, minlength=n_shares)
                found[name] = found.get(name, 0.0) + sums
        self.moments = self.moments.widened(rows.width)
        names = sorted(found)
        self.classes = np.array(names) if classify else None
        self.sums = np.column_stack([found[name] for name in names])


def _columns(y, classify):
    """Names and columns of targets: what a row of each class counts, or the values."""
    if not classify:
        y = y.reshape(len(y), -1)
        return range(y.shape[1]), y.T.astype(np.float64)
    labels, codes = np.unique(y, return_inverse=True)
    return labels.tolist(), codes == np.arange(len(labels))[:, None]
