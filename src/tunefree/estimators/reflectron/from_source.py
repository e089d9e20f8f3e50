"""The Reflectron's batch form on a source: a survey, then one pass over the rows for each step."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import is_classifier

from tunefree._array import seed_of
from tunefree.engine.order import row_hash
from tunefree.engine.sources import open_source
from tunefree.estimators import base
from tunefree.estimators.reflectron.parts import link_range, with_steps
from tunefree.estimators.reflectron.stochastic import Stochastic
from tunefree.estimators.reflectron.units import Columns, Moments
from tunefree.estimators.rereads import Reread, journal
from tunefree.learners.reflectron.mirror_state import NONE, Sheet
from tunefree.protocols import Source


@dataclass(frozen=True)
class Sheets(Source):
    """The blocks of every pass, made as they are read.

    Attributes
    ----------
    rows : Reread
    columns : Columns
    targets : callable
        y -> targets of shape (n, k).
    held : callable
        X -> the member that each row is held out from.
    """

    rows: Reread
    columns: Columns
    targets: object
    held: object

    def blocks(self, epoch):
        """The blocks of a pass."""
        for X, y, weights in self.rows.pieces():
            yield Sheet(self.columns.design(X), self.targets(y), weights, self.held(X))

    @property
    def shape(self):
        """Rows and columns: as a design these are all rows."""
        return self.rows.rows, self.rows.width

    def norms(self, p):
        """The p-norm of every row."""
        return np.concatenate([sheet.design.norms(p) for sheet in self.blocks(0)])


class Survey:
    """What the first pass finds out: moments of the columns, targets of every share of the rows.

    Parameters
    ----------
    rows : Reread
    turns : callable
        X -> the share that each row belongs to.
    n_shares : int
    classify : bool
    inside : tuple of float
        The range of the link.

    Attributes
    ----------
    outside : int
        Targets beyond that range.
    moments : Moments
    weight : ndarray of shape (n_shares,)
    sums : ndarray of shape (n_shares, n_targets)
        Weighted targets, or the weight of every class.
    classes : ndarray or None
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


class OfSource(Stochastic):
    """`fit_source` in the form that `solver` says."""

    @base.all_or_nothing
    def fit_source(self, source, *, classes=None, checkpoint=None, on_chunk=None):
        """Learn from a source of any size, in flat memory.

        ``solver="batch"`` passes over the rows once for their units and once for every step, and
        finds what `fit` finds with the same rows held out: those whose hash says so, of one fold
        from 1,000 rows on. ``solver="stochastic"`` learns in one pass, as `partial_fit` does.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes
            For ``solver="batch"`` one that can be read again.
        classes : array-like, optional
            For classifiers: labels to expect. Without them ``solver="stochastic"`` takes classes
            that come late.
        checkpoint : Checkpoint, optional
            Saves the run (of ``solver="batch"`` between two passes), resumes it with the same bits.
        on_chunk : callable, optional
            Called with (estimator, rows seen, pass) after each chunk.

        Returns
        -------
        self
        """
        if self.solver == "stochastic":
            return super().fit_source(
                source, classes=classes, checkpoint=checkpoint, on_chunk=on_chunk
            )
        if self.solver != "batch":
            raise ValueError(
                f"solver={self.solver!r} needs all rows in memory: a source is learned with "
                "solver='batch' or 'stochastic'."
            )
        if checkpoint is not None and self.keep_path:
            raise ValueError("A checkpoint does not hold the path: give keep_path=False.")
        source = open_source(source)
        if not source.again:
            raise ValueError(
                f"{source.name} can be read once only, and solver='batch' needs many passes: give "
                "a file, a function that makes the iterator, or solver='stochastic'."
            )
        with journal(self, source, checkpoint):
            self._fit_rows(Reread(source), classes, on_chunk)
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        return self

    def _fit_rows(self, rows, classes, on_chunk):
        link, configurations, _ = self._check()
        if self.feature_map is not None:
            raise ValueError("A source is learned without feature_map: transform its rows.")
        if getattr(self, "class_weight", None) is not None:
            raise ValueError(
                "class_weight needs rows in memory or solver='stochastic': give a source's rows "
                "weights in its place."
            )
        seed, (n_shares, _) = seed_of(self.random_state), self._shares(np.inf, self.n_splits)

        def turns(X):
            return (row_hash(X, seed) % np.uint64(n_shares)).astype(np.intp)

        survey = Survey(rows, turns, n_shares, is_classifier(self), link_range(link))
        targets, sums = self._source_targets(survey, classes, rows)
        held = _members(np.arange(n_shares), self._shares(rows.rows, self.n_splits)[1])
        choosing = bool(survey.weight[held > NONE].sum() > 0.0)
        if not choosing:
            held[:] = NONE
        self._check_choice(choosing, rows.rows, configurations)
        columns = Columns.unchanged(rows.width)
        if self.standardize:
            columns = survey.moments.columns(self.fit_intercept)
        sheets = Sheets(rows, columns, targets, lambda X: held[turns(X)])
        configurations = with_steps(
            configurations, sheets, link, self.weight, self.fit_intercept, self.max_iter,
            sums.shape[1],
        )  # fmt: skip
        learner = self._mirror(link, configurations, 1 + max(0, held.max()), choosing)
        # What the start asks of the targets their means tell: a row for each share.
        means = sums / np.maximum(survey.weight, np.finfo(float).tiny)[:, None]
        shares = Sheet(None, means, survey.weight, held)
        start = self._start(link, columns, shares, learner.members, rows.width)

        def told(state, block):
            on_chunk(self, rows.source.rows, state.passes)

        self.n_features_in_, self.feature_map_, self._stream = rows.width, None, None
        self._descend(learner, sheets, columns, start, means.shape[1], rows.dtype,
                      told if on_chunk is not None else None)  # fmt: skip
        if rows.flat and not is_classifier(self):
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]

    def _source_targets(self, survey, classes, rows):
        """How targets are made of y, and their weighted sums in every share of the rows."""
        if not is_classifier(self):
            self._warn_outside(survey.outside / (rows.rows * survey.sums.shape[1]))
            return lambda y: np.asarray(y, np.float64).reshape(len(y), -1), survey.sums
        known = survey.classes if classes is None else np.union1d(survey.classes, classes)
        if len(survey.classes) < 2:
            raise ValueError(
                f"{rows.source.name} has only one class ({survey.classes[0]}): a classifier needs "
                "rows of at least two."
            )
        self.classes_ = known
        each = self._targets(np.arange(len(known)), len(known))
        sums = survey.sums @ each[np.searchsorted(known, survey.classes)]
        return lambda y: each[np.searchsorted(known, y)], sums


def _members(turns, n_splits):
    """The member that rows are held out from: there is one for each of the first shares."""
    return np.where(turns < n_splits, turns + 1, NONE)
