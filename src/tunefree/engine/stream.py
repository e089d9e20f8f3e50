"""Streams: rows that come in chunks of any size and can be read once.

The first 64 rows are held back until the columns' statistics mean something; after that every row
is learned when it comes, and the statistics are renewed each time the number of rows has doubled.
Nothing depends on where a chunk ends, so any chunking gives the same bits.
"""

import copy
from typing import Any

import numpy as np
from scipy import sparse

from tunefree.columns import RunningMoments
from tunefree.engine.order import given_visits
from tunefree.engine.run import Block, Rows, run
from tunefree.engine.sources import widened
from tunefree.robust import OutlierFilter, column_caps
from tunefree.select.progressive_risk import risks

FIRST = 64
# Rows that are learned at a time, of dense and of sparse data.
_MOST, _MOST_SPARSE = 1024, 4096
# From so many rows at least, evenly spread over all so far, the limits of dense columns are told,
# and from as many of the latest.
_SAMPLE = 256


def _stack(parts):
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.vstack(parts)


class Stream:
    """A portfolio that learns from a stream of dense or of sparse rows.

    Views are made from the first rows and, if `renew`, again whenever their number has doubled. A
    `scale` (`TargetScale`) clips columns and standardises targets. `guarded` takes entries, and
    targets if there is a scale, that are far beyond all before them as missing.
    """

    # What a model file keeps.
    _SAVED = ("portfolio", "views", "sparse", "renew", "scale", "seen", "state", "moments",
              "pending", "guarded", "guards", "sample", "latest",
              "caps")  # fmt: skip

    def __init__(self, portfolio, views, *, sparse, renew=True, scale=None, guarded=False):
        self.portfolio, self.views = portfolio, views
        self.sparse, self.renew, self.scale = sparse, renew, scale
        self.guarded, self.guards = guarded, ()
        self.sample: Any = None
        self.latest: Any = None
        self.caps: Any = None
        self.seen, self.pending = 0, []
        self.state: Any = None
        self.moments: Any = None

    def n_outputs(self):
        """How many outputs the rows so far had; None before the first."""
        if self.state is not None:
            return self.state.progress.targets.shape[1]
        return self.pending[0][1].shape[1] if self.pending else None

    def learn(self, X, targets, weights):
        """Take in rows, in the order in which they come."""
        if sparse.issparse(X) != self.sparse:
            X = sparse.csr_array(X) if self.sparse else X.toarray()
        source = Rows(X, targets, given_visits(weights), self._room)
        return run(self, self, source, max_passes=1).state

    def turn(self, state):
        """Nothing: where a chunk ends makes no difference."""
        return state, False

    def _room(self):
        """How many rows are taken in together: they may not go beyond the grid."""
        grid = FIRST if self.state is None else self._grid()
        return min(grid - self.seen, _MOST_SPARSE if self.sparse else _MOST)

    def _grid(self):
        """Where the next block must end: the next doubling, or the next 64 rows."""
        if self.scale is not None:
            return (self.seen // FIRST + 1) * FIRST
        doubling = FIRST << (self.seen // FIRST).bit_length()
        if self.caps is None:
            return doubling
        return min(doubling, (self.seen // _SAMPLE + 1) * _SAMPLE)

    def scan(self, _, block):
        """Take in a block: a stream is its own state."""
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
        if self.caps is not None and (doubled or self.seen % _SAMPLE == 0):
            self._make_caps(doubled)
        if self.renew and doubled:
            self.state = self.state._replace(views=self._make_views())
        if doubled:
            self._judge()
        return self

    def _guard(self, X, targets):
        """Rows and targets without what is far beyond all before."""
        if self.guards:
            X = self.guards[0].screen(X)
        if len(self.guards) > 1:
            targets = self.guards[1].screen(targets)
        return X, targets

    @property
    def n_outliers(self):
        """How many rows had an entry or a target that was taken as missing."""
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
        X, targets, weights = (
            _stack([p[0] for p in self.pending]),
            np.vstack([p[1] for p in self.pending]),
            np.concatenate([p[2] for p in self.pending]),
        )
        if self.guarded:
            guarded = (X,) if self.scale is None else (X, targets)
            self.guards = tuple(map(OutlierFilter.opened, guarded))
            X, targets = self._guard(X, targets)
        self.moments = self._no_moments(X.shape[1])
        shown = X
        if self.scale is not None:
            self.scale.open(X, targets)
            self.portfolio = self.scale.begin(self.portfolio, X)
            shown = self.scale.clip(X)
        elif self.guarded and self.renew and not self.sparse:
            self.sample = self.latest = X[:0]
            self.caps = column_caps(X, np.arange(len(X)))
            shown = np.clip(X, *self.caps)
        self.moments.add(shown, weights)
        views = self._make_views()
        self.moments = self._no_moments(X.shape[1])
        self.state = self.portfolio.init(views, X.shape[1], targets.shape[1])
        self.pending, self.seen = [], 0
        self._scan(X, targets, weights)
        self.seen = len(targets)
        self._judge()

    def _judge(self):
        """Let the scale judge the line so far by the rows to come."""
        self.tell_means()
        if self.scale is not None:
            self.scale.judge(*self.portfolio.weights(self.state, *self.best(1)[0]))

    def tell_means(self):
        """Tell the scale the means of sparse columns: it goes through dense rows only."""
        if self.scale is not None and self.sparse and self.moments is not None:
            self.scale.mean_x = self.moments.moments().mean

    def _no_moments(self, d):
        return RunningMoments(d, sparse=self.sparse, products=self.views.products)

    def _step(self):
        """Of how many rows one is kept in the sample: 256 to 511 are kept in the end."""
        return max(1, (1 << max(self.seen, 1).bit_length() - 1) // _SAMPLE)

    def _make_caps(self, doubled):
        """Renew the columns' limits: wider where the latest rows were clipped, for streams drift.

        The sample is thinned out where its step doubles from now on.
        """
        if doubled:
            self.caps = column_caps(self.sample, np.arange(len(self.sample)))
            if len(self.sample) >= 2 * _SAMPLE:
                self.sample = self.sample[::2].copy()
        low, high = self.caps
        j = np.flatnonzero(((self.latest < low) | (self.latest > high)).any(axis=0))
        latest = column_caps(self.latest[:, j], np.arange(len(self.latest)))
        low[j], high[j] = np.minimum(low[j], latest[0]), np.maximum(high[j], latest[1])
        views = {k: v._replace(low=low, high=high) for k, v in self.state.views.items()}
        self.state = self.state._replace(views=views)

    def _make_views(self):
        caps = self.caps
        if self.scale is not None and not self.sparse:
            caps = self.scale.low, self.scale.high
        return self.views.make(self.moments.moments(), caps)

    def opened(self):
        """Return this stream, or a copy that has learned the rows still held back."""
        if self.state is not None or not self.pending:
            return self
        ready = copy.deepcopy(self)
        ready._open()
        return ready

    def columns(self, d):
        """Learn rows of d columns from now on (sparse streams only)."""
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
        """End a pass of several: the best members go on."""
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
        p = self.state.progress
        progress = p._replace(
            recent=p.recent[:, :, index] * sign, targets=p.targets[:, index] * sign
        )
        self.state = self.state._replace(members=members, progress=progress)

    def risk(self, share=1.0):
        """The lowest progressive risk over the latest share of the rows; NaN before it."""
        return (
            float("nan") if self.state is None else float(risks(self.state.progress, share).min())
        )

    def best(self, keep=2, last=None):
        """The read-outs with the lowest progressive risk over the last half of the rows.

        `last` asks for last iterates only, or for averages only.
        """
        order = [divmod(int(c), 2) for c in np.argsort(risks(self.state.progress), kind="stable")]
        return [
            (i, bool(end))
            for i, end in order
            if self.state.members[i] is not None and last in (None, bool(end))
        ][:keep]
