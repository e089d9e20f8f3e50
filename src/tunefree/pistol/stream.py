"""Streams: rows that come in chunks of any size and can be read once.

The first 64 rows wait until there are statistics of the columns. After that every row is learned
when it comes, and the statistics are updated each time the number of rows has doubled. Nothing
depends on where a chunk ends, so any chunking gives the same bits.
"""

import copy
from typing import Any

import numpy as np
from scipy import sparse

from tunefree.engine.run import Block, Rows, run
from tunefree.engine.sources import widened
from tunefree.held_out.progressive_risk import risks
from tunefree.rows.matrices import stacked
from tunefree.rows.moments import RunningMoments
from tunefree.rows.order import given_visits
from tunefree.rows.outliers import OutlierFilter, column_caps

# Rows that a stream collects before it opens; later blocks end at multiples or doublings of it.
FIRST = 64
# Rows that are learned at a time, of dense and of sparse data.
_MOST, _MOST_SPARSE = 1024, 8192
# The limits of dense columns are computed from at least this many rows, evenly spread over all so
# far, and from as many of the latest rows.
_SAMPLE = 256


class Stream:
    """A portfolio that learns from a stream of dense or of sparse rows.

    Views are made from the first rows and, if `renew`, again whenever their number has doubled. A
    `scale` (`TargetScale`) clips columns and standardises targets. If `guarded`, outliers among the
    entries (and among the targets, if there is a scale) count as missing.
    """

    # Saved in a model file.
    _SAVED = ("portfolio", "views", "sparse", "renew", "scale", "seen", "state", "moments",
              "pending", "guarded", "guards", "sample", "latest",
              "caps")  # fmt: skip

    def __init__(self, portfolio, views, *, sparse, renew, scale, guarded):
        self.portfolio, self.views = portfolio, views
        self.sparse, self.renew, self.scale = sparse, renew, scale
        self.guarded, self.guards = guarded, ()
        self.sample: Any = None
        self.latest: Any = None
        self.caps: Any = None
        self.seen, self.pending = 0, []
        self.state: Any = None
        self.moments: Any = None

    @classmethod
    def after_fit(cls, portfolio, state, scale, n_columns, guarded):
        """A stream that goes on after passes over rows in memory, with their statistics."""
        views = state.views.values()
        dense = any(view.dense for view in views)
        stream = cls(portfolio, None, sparse=not dense, renew=False, scale=scale, guarded=guarded)
        if guarded:
            shifts = [view.shift for view in views if view.shift is not None]
            centres = [shifts[0] if shifts else np.zeros(n_columns)]
            centres += [] if scale is None else [scale.m]
            stream.guards = tuple(map(OutlierFilter.of, centres))
        stream.state = state._replace(epoch=0)
        stream.seen = int(state.progress.clock[0])
        return stream

    def n_outputs(self):
        """The number of outputs; None before the first row."""
        if self.state is not None:
            return self.state.progress.targets.shape[1]
        return self.pending[0][1].shape[1] if self.pending else None

    def learn(self, X, targets, weights):
        """Learn rows, in the order in which they come."""
        if sparse.issparse(X) != self.sparse:
            X = sparse.csr_array(X) if self.sparse else X.toarray()
        source = Rows(X, targets, given_visits(weights), self._most_rows)
        return run(self, self, source, max_passes=1).state

    def turn(self, state):
        """Nothing: where a chunk ends makes no difference."""
        return state, False

    def _most_rows(self):
        """The most rows of the next block, which may not go beyond the grid."""
        grid = FIRST if self.state is None else self._grid()
        return min(grid - self.seen, _MOST_SPARSE if self.sparse else _MOST)

    def _grid(self):
        """The row at which the next block must end: the next doubling, or the next 64 rows."""
        if self.scale is not None:
            return (self.seen // FIRST + 1) * FIRST
        doubling = FIRST << (self.seen // FIRST).bit_length()
        if self.caps is None:
            return doubling
        return min(doubling, (self.seen // _SAMPLE + 1) * _SAMPLE)

    def scan(self, _, block):
        """Learn a block; a stream is its own state."""
        X, targets, weights = block.X[block.rows], block.targets, block.weights
        if self.state is None:
            self.pending.append((X, targets, weights))
            self.seen += len(targets)
            if self.seen == FIRST:
                self._open()
            return self
        self._scan(*self._guard(X, targets), weights)
        self.seen += len(targets)
        doubled = self.seen >= FIRST and (self.seen & (self.seen - 1)) == 0
        takes_sample = doubled or self.seen % _SAMPLE == 0
        if self.caps is not None and takes_sample:
            self._make_caps(doubled)
        if self.renew and doubled:
            self.state = self.state._replace(views=self._make_views())
        if doubled:
            self._judge()
        return self

    def _guard(self, X, targets):
        """Rows and targets, with outliers as missing."""
        if self.guards:
            X = self.guards[0].screen(X)
        if len(self.guards) > 1:
            targets = self.guards[1].screen(targets)
        return X, targets

    @property
    def n_outliers(self):
        """How many rows had an outlier among entries or targets."""
        return sum(guard.n_outliers for guard in self.guards)

    def _scan(self, X, targets, weights):
        standard = targets
        if self.scale is not None:
            if self.seen % FIRST == 0:
                self.portfolio = self.scale.renew(self.portfolio, self.state)
            self.scale.weigh(X, targets, weights)
            X, standard = self.scale.clip(X), self.scale.standardise(targets)
        elif self.caps is not None:
            step = self._step()
            self.sample = np.vstack([self.sample, X[-self.seen % step :: step]])
            self.latest = np.vstack([self.latest, X])[-_SAMPLE:]
            X = np.clip(X, *self.caps)
        if self.moments is not None:
            self.moments.add(X, weights)
        block = Block(X, np.arange(len(targets)), standard, weights, self.seen, 0)
        self.state = self.portfolio.scan(self.state, block)
        if self.scale is not None:
            self.scale.add(X, targets, weights)

    def _open(self):
        rows, targets, weights = zip(*self.pending, strict=True)
        X = stacked(rows)
        targets = np.vstack(targets)
        weights = np.concatenate(weights)
        if self.guarded:
            guarded = (X,) if self.scale is None else (X, targets)
            self.guards = tuple(map(OutlierFilter.opened, guarded))
            X, targets = self._guard(X, targets)
        self.moments = self._no_moments(X.shape[1])
        clipped = X
        if self.scale is not None:
            self.scale.open(X, targets)
            self.portfolio = self.scale.begin(self.portfolio, X)
            clipped = self.scale.clip(X)
        elif self.guarded and self.renew and not self.sparse:
            self.sample = self.latest = X[:0]
            self.caps = column_caps(X, np.arange(len(X)))
            clipped = np.clip(X, *self.caps)
        self.moments.add(clipped, weights)
        views = self._make_views()
        self.moments = self._no_moments(X.shape[1])
        self.state = self.portfolio.init(views, X.shape[1], targets.shape[1])
        self.pending, self.seen = [], 0
        self._scan(X, targets, weights)
        self.seen = len(targets)
        self._judge()

    def _judge(self):
        """Give the present linear model to the scale, which tests it on the next rows."""
        self.set_column_means()
        if self.scale is not None:
            self.scale.judge(*self.portfolio.weights(self.state, *self.best(1)[0]))

    def set_column_means(self):
        """Set the scale's means of sparse columns; of dense columns it computes them itself."""
        if self.scale is None or self.moments is None:
            return
        if self.sparse:
            self.scale.mean_x = self.moments.moments().mean

    def _no_moments(self, d):
        return RunningMoments(d, sparse=self.sparse, products=self.views.products)

    def _step(self):
        """One row in so many enters the sample, which has 256 to 511 rows in the end."""
        return max(1, (1 << max(self.seen, 1).bit_length() - 1) // _SAMPLE)

    def _make_caps(self, doubled):
        """Update the columns' limits: wider where the latest rows were clipped, as streams drift.

        If the step of the sample doubles from now on, every other row is dropped.
        """
        if doubled:
            self.caps = column_caps(self.sample, np.arange(len(self.sample)))
            if len(self.sample) >= 2 * _SAMPLE:
                self.sample = self.sample[::2].copy()
        low, high = self.caps
        j = np.flatnonzero(((self.latest < low) | (self.latest > high)).any(axis=0))
        if len(j):
            latest = column_caps(self.latest[:, j], np.arange(len(self.latest)))
            low[j], high[j] = np.minimum(low[j], latest[0]), np.maximum(high[j], latest[1])

    def _make_views(self):
        """Views of rows that are within `caps` already, or else have the limits of the scale."""
        caps = None
        if self.scale is not None and not self.sparse:
            caps = self.scale.low, self.scale.high
        return self.views.make(self.moments.moments(), caps)

    def opened(self):
        """Return this stream, or a copy that has learned the rows that still wait."""
        if self.state is not None or not self.pending:
            return self
        ready = copy.deepcopy(self)
        ready._open()
        return ready

    def columns(self, d):
        """Set the number of columns for the next rows (sparse streams only)."""
        self.pending = [(widened(X, d), y, w) for X, y, w in self.pending]
        self.guards = tuple(g.columns(d) if k == 0 else g for k, g in enumerate(self.guards))
        if self.moments is not None:
            self.moments.columns(d)
        if self.scale is not None and self.state is not None:
            self.scale.columns(d)
        if self.state is not None:
            self.state = self.portfolio.columns(self.state, d)
        return self

    def end_pass(self):
        """End one of several passes; the best members continue."""
        if self.state is None:
            self._open()
        self.state, _ = self.portfolio.turn(self.state)
        return self

    def outputs(self, index, sign):
        """Rearrange outputs: the new output i is sign[i] times the old output index[i]."""
        index, sign = np.asarray(index), np.asarray(sign, dtype=float)
        self.pending = [(X, y[:, index] * sign, w) for X, y, w in self.pending]
        if self.state is None:
            return
        members = tuple(
            m.learner.outputs(s, index, sign)
            for m, s in zip(self.portfolio.members, self.state.members, strict=True)
        )
        progress = self.state.progress.rearranged(index, sign)
        self.state = self.state._replace(members=members, progress=progress)

    def risk(self, share=1.0):
        """The lowest progressive risk over the latest share of the rows; NaN before it."""
        return (
            float("nan") if self.state is None else float(risks(self.state.progress, share).min())
        )

    def best(self, keep=2, last=None):
        """The read-outs with the lowest progressive risk over the last half of the rows.

        With `last` true only last iterates, with `last` false only averages.
        """
        order = [divmod(int(c), 2) for c in np.argsort(risks(self.state.progress), kind="stable")]
        return [
            (i, bool(end))
            for i, end in order
            if self.state.members[i] is not None and last in (None, bool(end))
        ][:keep]
