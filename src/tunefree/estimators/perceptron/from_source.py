"""Separators of rows that are read anew whenever they are needed."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.engine.sources import Block, Whole, open_source
from tunefree.estimators import base
from tunefree.estimators.journal import journal
from tunefree.estimators.perceptron.base import check_range, double, squared_norms
from tunefree.estimators.rereads import Reread
from tunefree.learners.perceptron.spaces import Linear
from tunefree.protocols import Source


class Passing(NamedTuple):
    """`Linear`, for a block whose rows stay in their file: a product is a pass over it.

    Attributes
    ----------
    bias : float
        Value of one more, constant coordinate; 0 for none.
    """

    bias: float = 0.0

    def view(self, block):
        """The signed rows of a block, whose X is a `Shelf`."""
        return _View(block.X, block.targets[:, 0], Linear(self.bias))

    dot, norm, slack = Linear.dot, Linear.norm, Linear.slack


class Shelf:
    """Rows of a source that can be fetched one by one, besides being read in passes.

    Parameters
    ----------
    rows : Reread
        Surveyed.
    """

    def __init__(self, rows):
        self.rows, self.starts, self.marks, self.fetched = rows, [], [None], {}

    def blocks(self, signs):
        """The rows as blocks with these signs."""
        for start, X, weights in self._pieces():
            at = slice(start, start + X.shape[0])
            yield Block(double(X), None, signs[at, None], weights, start, 0)

    def _pieces(self):
        """The rows as they are read; the first time it is noted where each piece begins."""
        start, new = 0, not self.starts
        for X, _, weights in self.rows.pieces():
            if new:
                self.starts.append(start)
                self.marks.append(self.rows.mark)
            yield start, X, weights
            start += X.shape[0]

    def row(self, j):
        """Row j, a matrix of one row; it is kept."""
        if not self.starts:
            for _ in self._pieces():
                pass
        if j not in self.fetched:
            k = int(np.searchsorted(self.starts, j, side="right")) - 1
            X, _, _ = next(self.rows.pieces(self.marks[k]))
            at = j - self.starts[k]
            self.fetched[j] = double(X[at : at + 1])
        return self.fetched[j]


class _View(NamedTuple):
    shelf: Shelf
    signs: np.ndarray
    space: Linear

    def _each(self):
        for block in self.shelf.blocks(self.signs):
            at = slice(block.start, block.start + len(block.weights))
            yield at, self.space.view(block)

    def push(self, x):
        """Z x."""
        out = np.empty(len(self.signs))
        for at, view in self._each():
            out[at] = view.push(x)
        return out

    def pull(self, p):
        """Z' p."""
        return sum(view.pull(p[at]) for at, view in self._each())

    def squares(self):
        """The squared norm of each row."""
        return np.concatenate([view.squares() for _, view in self._each()])

    def inner(self, rows, j):
        """Z_i Z_j for the rows i."""
        one = self.shelf.row(j)
        support = [self.shelf.row(i) for i in rows]
        stacked = (
            sparse.vstack(support, format="csr") if sparse.issparse(one) else np.vstack(support)
        )
        out = stacked @ (one.toarray() if sparse.issparse(one) else one)[0]
        return self.signs[rows] * self.signs[j] * (out + self.space.bias**2)


class OfSource:
    """`fit_source`: in the paper's method a pass a round, in the others one or two."""

    @base.all_or_nothing
    def fit_source(self, source, *, classes=None, checkpoint=None):
        """Find separators of a source that can be read again, in as many passes as it takes.

        ``method="optimistic"`` with the entropy keeps O(n_features) numbers. The others, and the
        Euclidean potential, keep about ten numbers for each row besides, and their result is that
        of `fit` up to rounding.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes
        classes : array-like, optional
            Labels to expect besides those that occur.
        checkpoint : Checkpoint, optional
            Saves the run between two passes, resumes it with the same bits.

        Returns
        -------
        self
        """
        self._check_parameters()
        source = open_source(source)
        with journal(self, source, checkpoint):
            return self._fit_rows(Reread(source), classes)

    def _fit_rows(self, rows, classes):
        seen, labels, weights, largest = np.empty(0), [], [], 0.0
        keeps = (self.method, self.potential) != ("optimistic", "entropy")
        for X, y, weight in rows.survey():
            check_range(X)
            seen = np.unique(np.concatenate([seen, y])) if len(seen) else np.unique(y)
            largest = max(largest, float(np.max(squared_norms(double(X)))))
            if keeps:
                weights.append(weight)
                labels.append(y)
        self.classes_ = seen if classes is None else np.union1d(seen, classes)
        if len(self.classes_) < 2:
            raise ValueError(f"{rows.source.name} has one class: a separator needs two or more.")
        self.n_features_in_ = rows.width
        if rows.source.feature_names is not None:
            self.feature_names_in_ = np.asarray(rows.source.feature_names, dtype=object)
        if keeps:
            codes = np.searchsorted(self.classes_, np.concatenate(labels))
            weights, bias = np.concatenate(weights), self._bias(largest)
            signs, shelf = base.signs(codes, len(self.classes_)), Shelf(rows)
            each = (Whole(shelf, column[:, None], weights) for column in signs.T)
            self._fit_all(Passing(bias), each, rows.dtype, np.arange(rows.rows), rows.rows)
            return self
        return self._stream(lambda k: _Signed(rows, self.classes_[k]), largest)


@dataclass(frozen=True)
class _Signed(Source):
    """The rows of a source as one class against the rest."""

    rows: Reread
    positive: object

    def blocks(self, epoch):
        """The blocks of a pass."""
        start = 0
        for X, y, weights in self.rows.pieces():
            signs = np.where(y == self.positive, 1.0, -1.0)[:, None]
            yield Block(double(X), None, signs, weights, start, epoch)
            start += len(y)
