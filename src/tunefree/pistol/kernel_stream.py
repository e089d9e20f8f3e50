"""Kernel learners on a stream: rows come in chunks of any size and are read once.

Columns' scaling and the grid of bandwidths are computed from the first rows. All bandwidths learn
side by side; each row is predicted before it is learned. Successive halving drops bandwidths as
rows come in, and the predictor is a weighted sum of the best three. Rows are learned in blocks of a
fixed size, whatever the chunks.
"""

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from tunefree.core.process import workers
from tunefree.held_out.progressive_risk import (
    curve,
    recent_rows,
    record,
    risks,
    rms,
    start_progress,
)
from tunefree.kernels.bandwidths import BLOCK, Facts
from tunefree.kernels.kernels import median_gamma
from tunefree.pistol.bandwidths import BandwidthOutcome
from tunefree.pistol.kernel_blocked import KernelBlock, Member, StreamEngine
from tunefree.pistol.kernel_problem import GRID, KernelView
from tunefree.pistol.kernel_projection import limit_support
from tunefree.rows.matrices import as_dense, stacked
from tunefree.rows.order import given_visits
from tunefree.rows.outliers import OutlierFilter
from tunefree.rows.scaling import standard_scaling

# How many bandwidths are kept after how many rows.
_KEPT = {1024: 5, 4096: 3}
_BEST = 3
# Sparse rows of up to so many columns become arrays, so that the storage makes no difference.
_FILLED = 2000


class KernelStream:
    """Learners of several bandwidths on a stream.

    With `classify` scores are mistakes, and decisions are divided by their size before they are
    added. The last output is then for classes that have not appeared: it is learned, but not
    scored. `units` is a function of the first targets; it returns the one that standardises them.
    """

    def __init__(self, recipe, learner, single, classify, max_support, units):
        self.recipe, self.learner, self.single, self.classify = recipe, learner, single, classify
        self.max_support, self.units, self.size = max_support, units, BLOCK
        if max_support is not None:
            self.size = min(BLOCK, max_support - max_support // 2)
        self.pending, self.waiting, self.seen = [], 0, 0
        self.engine: Any = None
        self.coordinates: Any = None
        self.progress: Any = None
        self.scale: Any = None
        self.guards: Any = None

    def n_outputs(self):
        """The number of targets; None before the first row."""
        return self.pending[0][1].shape[1] if self.pending else None

    def learn(self, X, targets, weights, n_jobs):
        """Learn rows, in the order given."""
        if X.shape[1] <= _FILLED:
            X = as_dense(X)
        rows, weights = given_visits(weights).order(0)
        self.pending.append((*self._screened(X[rows], targets[rows]), weights))
        self.waiting += len(rows)
        if self.waiting < self.size:
            return
        X, targets, weights = self._stacked()
        stop = self.waiting - self.waiting % self.size
        with workers(n_jobs) as team:
            for start in range(0, stop, self.size):
                part = slice(start, start + self.size)
                self._scan(team, X[part], targets[part], weights[part])
        self.pending = [(X[stop:], targets[stop:], weights[stop:])]
        self.waiting = len(weights) - stop

    def _screened(self, X, targets):
        """Rows and targets, in order, without outliers; `guards` filter by the rows before."""
        if self.guards is None:
            centre = np.zeros(X.shape[1]) if sparse.issparse(X) else X[0]
            self.guards = OutlierFilter.of(centre), OutlierFilter.of(targets[0])
        if self.recipe.drops_outliers:
            X = self.guards[0].screen(X)
        return X, targets if self.classify else self.guards[1].screen(targets)

    def _stacked(self):
        X, targets, weights = zip(*self.pending, strict=True)
        return stacked(X), np.vstack(targets), np.hstack(weights)

    def _scan(self, team, X, targets, weights):
        """Learn a block; drop the worst bandwidths after certain numbers of rows."""
        if self.engine is None:
            self._open(X, targets)
        engine: Any = self.engine
        kernel = self.recipe.kernel
        targets = targets if self.scale is None else self.scale(targets)
        rows = self.coordinates.show(X)
        if self.max_support is not None:
            limit_support(engine, len(targets), self.max_support)
        squares = kernel.diag(rows).astype(np.float64)
        block = KernelBlock(Facts.of(kernel, rows), None, squares, targets, weights)
        names = [m.name for m in engine.members]
        predictions = dict(zip(names, engine.learn(team, block, True), strict=True))
        scores = [predictions[name][0] if name in predictions else None for name in self.names]
        record(self.progress, self.classify, self._scored(), scores, targets, weights)
        before, self.seen = self.seen, self.seen + len(targets)
        for n_rows, keep in _KEPT.items():
            if before < n_rows <= self.seen and len(engine.members) > keep:
                best = self._order()[:keep]
                engine.keep([i for i, m in enumerate(engine.members) if m.name in best])

    def _scored(self):
        return self.engine.n_outputs - self.classify

    def _risks(self):
        """The progressive risk of each name."""
        return dict(zip(self.names, risks(self.progress), strict=True))

    def _order(self):
        """Names of the members that were not dropped, the best first."""
        return sorted((m.name for m in self.engine.members), key=self._risks().__getitem__)

    def _open(self, X, targets):
        """Compute scaling and bandwidths from the first rows."""
        recipe, parts, dense = self.recipe, (), not sparse.issparse(X)
        if recipe.standard and dense:
            parts = (standard_scaling(X, np.ones(len(targets))),)
        name = "standardised" if parts else "raw"
        self.coordinates = KernelView(name, parts, dense, self.single)
        rows = self.coordinates.show(X)
        if recipe.radial and recipe.auto:
            gammas = median_gamma(recipe.kernel, rows) * GRID
        else:
            self.recipe = recipe = recipe.resolved(rows)
            gammas = [recipe.gamma if recipe.radial else None]
        members = [Member(g, self.learner, "" if g is None else f"gamma={g:.3g}") for g in gammas]
        self.names = [m.name for m in members]
        self.scale = None if self.units is None else self.units(targets)
        self.engine = StreamEngine(recipe.kernel, members, targets.shape[1], rows[:0])
        self.progress = start_progress(len(members), targets.shape[1])

    def outputs(self, index, sign):
        """Rearrange outputs: the new output i is sign[i] times the old output index[i]."""
        index, sign = np.asarray(index), np.asarray(sign, dtype=float)
        self.pending = [(X, y[:, index] * sign, w) for X, y, w in self.pending]
        if self.engine is None:
            return
        self.engine.outputs(index, sign)
        self.progress = self.progress.rearranged(index, sign)

    def caught_up(self, n_jobs):
        """The stream, or a copy that has learned the rows of the incomplete block, too."""
        if not self.waiting:
            return self
        ready = copy(self)
        if self.engine is not None:
            ready.engine = self.engine.branch()
            ready.progress = type(self.progress)(*(a.copy() for a in self.progress))
        with workers(n_jobs) as team:
            ready._scan(team, *self._stacked())
        ready.pending, ready.waiting = [], 0
        return ready

    def read(self):
        """The weighted averages of the best members, by their risks, and the leaderboard.

        Decisions are those of the latest rows, predicted before they were learned.
        """
        best, k = self._order()[:_BEST], self._scored()
        recent, targets, weights = recent_rows(self.progress)
        numbers = {m.name: i for i, m in enumerate(self.engine.members)}
        coefs: dict = {}
        decisions: Any = 0.0
        for name, share in zip(best, self._shares(best), strict=True):
            i, f = numbers[name], recent[:, self.names.index(name), :k]
            share = share / rms(f) if self.classify else share
            coefs[self.engine.members[i].gamma] = share * self.engine.mean(i)[:, :k]
            decisions = decisions + share * f
        if len(coefs) > 1:
            coefs = dict(sorted(coefs.items()))
        rows, curves = curve(self.progress)
        trace = {"rows": rows, "progressive_error": dict(zip(self.names, curves.T, strict=True))}
        outcome = BandwidthOutcome(coefs, decisions, targets[:, :k], weights, trace)
        return outcome, self._leaderboard(best)

    def _shares(self, best):
        """Weights of the best members, which sum to 1."""
        risk = self._risks()
        low = risk[best[0]]
        n = max(1, min(self.seen, len(self.progress.weights)))
        spread = np.sqrt(max(low, 1e-3) / n)
        share = np.array([np.exp(-2.0 * (risk[name] - low) / spread) for name in best])
        return share / share.sum()

    def _leaderboard(self, best):
        risk = self._risks()
        kept = [m.name for m in self.engine.members]
        return [
            {
                "name": name,
                "progressive_error": float(risk[name]),
                "chosen": name in best,
                "dropped": name not in kept,
            }
            for name in sorted(self.names, key=lambda name: (name not in best, risk[name]))
        ]
