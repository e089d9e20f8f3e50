"""Successive halving: stochastic runs of several configurations, side by side.

Each run predicts every row before it learns it, so that runs can be compared on a stream that is
read once. Whenever the number of rows has doubled (from 1,024 on), the worse half of the runs ends.

The automatic step of a run is a multiple of sigma / (L C^2 B), the step of Theorem 5.2, with C the
norm of the longest row so far. Several multiples run side by side.

The rows of a stream are divided by a unit, which is computed from its first rows. So multiplying
all columns by one factor changes nothing: a hypentropy's beta, the intercept, and steps given as
numbers mean the same at every scale.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.parts.links import target_margin
from tunefree.reflectron.stochastic_steps import discounted_risk
from tunefree.rows.designs import design_of
from tunefree.rows.outliers import OutlierFilter

MULTIPLES = (1.0 / 16.0, 0.25, 1.0, 4.0, 16.0)
_FIRST_HALVING = 1024
# Rows from which the unit of a stream is computed; after so many rows of zeros only, it is 1.
_FIRST_ROWS, _MOST_ROWS = 64, 1024
# A run has diverged if its risk is so many times that of a run that has learned nothing.
HOPELESS = 100.0
# Risks of bounded means never become so large. There a run is worse than the constant if its risk
# is so many times that of the mean of the targets.
_BEATEN = 1.5


class Pace(NamedTuple):
    """The steps of a run: `fixed`, or numerator / C^2.

    For each row: the squared norm of the `exponent`, plus `euclidean` times the squared Euclidean
    norm. C^2 is the largest value so far, plus `extra` for an intercept.
    """

    fixed: float | None
    numerator: float = 1.0
    exponent: float = 2.0
    extra: float = 0.0
    euclidean: float = 0.0

    def steps(self, X, longest):
        """Steps for rows, and the largest norm so far."""
        n = X.shape[0]
        if self.fixed is not None:
            return np.full(n, self.fixed), longest
        design = design_of(X)
        norms = design.norms(self.exponent)
        if self.euclidean:
            norms = np.hypot(norms, np.sqrt(self.euclidean) * design.norms(2.0))
        norms = np.maximum.accumulate(np.r_[longest, norms])[1:]
        square = norms.astype(float) ** 2 + self.extra
        steps = np.divide(self.numerator, square, out=np.zeros(n), where=square > 0.0)
        return steps, float(norms[-1])


class Run(NamedTuple):
    """One run. Rows are divided by `unit`; in this unit `longest` is the largest norm so far."""

    configuration: Any
    learner: Any
    state: Any
    pace: Pace
    unit: float = 1.0
    longest: float = 0.0

    def learn(self, X, targets, weights):
        """The run after more rows in its unit. Do not use this one afterwards."""
        steps, longest = self.pace.steps(X, self.longest)
        state = self.learner.scan(self.state, X, targets, weights, steps)
        return self._replace(state=state, longest=longest)

    def read(self):
        """Parameters (k, d) and intercepts (k,), for rows in their original scale."""
        theta, offset = self.learner.read(self.state)
        return theta / self.unit, offset

    def risk(self):
        """The progressive risk."""
        return discounted_risk(self.state.clock)


class Halving(NamedTuple):
    """Runs side by side, after `seen` rows. The fields after these are for streams."""

    runs: tuple
    seen: int = 0
    guards: tuple = ()  # outlier filters of rows and of targets
    is_open: bool = False  # whether the last output is for classes that may still appear
    start: tuple | None = None  # initial (theta, offset), while the unit is unknown
    waiting: tuple = ()  # the rows until then
    # Per output: weights, weighted targets and squared errors of a run that has learned nothing.
    tally: Any = None  # an array of shape (3, n_outputs)

    @classmethod
    def begin(cls, runs, d, k, start):
        """Runs (of any state) before the first row of d columns and k outputs.

        `start` is (theta, offset), each may be None, for rows in their original scale.
        """
        theta, offset = start
        runs = tuple(
            run._replace(
                state=run.learner.init(d, k, None if theta is None else theta * run.unit, offset)
            )
            for run in runs
        )
        guards = OutlierFilter.of(np.zeros(d)), OutlierFilter.of(np.zeros(k))
        return cls(runs, guards=guards, tally=np.zeros((3, k)))

    def n_outputs(self):
        """The number of outputs."""
        return len(self.runs[0].state.offset)

    def take(self, X, targets, weights):
        """The runs after more rows of a stream; rows wait while the unit is unknown."""
        start = self.start
        gap = self.runs[0].learner.link.mean(np.zeros(self.n_outputs())) - targets
        with np.errstate(over="ignore"):
            terms = (
                np.stack([np.ones_like(targets), targets, gap**2], axis=1) * weights[:, None, None]
            )
            tally = np.add.accumulate(np.concatenate([self.tally[None], terms]))[-1]
        halving = self._replace(tally=tally)
        if start is not None:
            return halving._replace(waiting=(*self.waiting, (X, targets, weights)))
        return halving.learn(X, targets, weights)

    def unit(self, now=False):
        """The unit of the waiting rows; None while they are too few, unless `now`.

        It is the median, over the first 64 rows, of a row's largest absolute entry. While all are
        0, up to 1,024 rows are awaited.
        """
        sizes = np.concatenate(
            [design_of(X).norms(np.inf).astype(float) for X, _, _ in self.waiting]
        )
        filled = np.flatnonzero(sizes > 0.0)
        enough = max(_FIRST_ROWS, min(filled[0] + 1 if len(filled) else _MOST_ROWS, _MOST_ROWS))
        if len(sizes) < enough and not now:
            return None
        sizes = np.sort(sizes[:enough][sizes[:enough] > 0.0])
        return float(sizes[len(sizes) // 2]) if len(sizes) else 1.0

    def diverged(self, run):
        """Whether a run predicts far worse than a run that has learned nothing."""
        weight, _, squares = self.tally
        return not run.risk() <= HOPELESS * squares.sum() / max(weight[0], 1e-300)

    def beaten(self, run):
        """Whether, for bounded means, the mean of the targets predicts better than a run."""
        weight, sums, squares = self.tally / max(self.tally[0, 0], 1e-300)
        link = run.learner.link
        if self.seen < _FIRST_HALVING or not np.isfinite(getattr(link, "range", np.inf)).all():
            return False
        gap = sums - weight * link.mean(np.zeros(len(sums)))
        return run.risk() > _BEATEN * np.sum(squares - gap**2) > 0.0

    def constant(self):
        """Parameters and intercepts that predict the mean of the targets."""
        learner, d = self.runs[0].learner, len(self.guards[0].centre)
        theta, offset = np.zeros((self.n_outputs(), d)), np.zeros(self.n_outputs())
        low, high = getattr(learner.link, "range", (np.inf, -np.inf))
        mean = self.tally[1] / np.maximum(self.tally[0], 1e-300)
        inside = (mean > low) & (mean < high)
        if learner.intercept and hasattr(learner.link, "inverse") and inside.any():
            offset[inside] = target_margin(learner.link, mean[inside])
        return theta, offset

    def learn(self, X, targets, weights, *, halve=True):
        """The runs after more rows, in the order given. Do not use these afterwards."""
        halving, start = self, 0
        while start < len(targets):
            grid = max(_FIRST_HALVING, 1 << halving.seen.bit_length())
            stop = min(len(targets), start + grid - halving.seen)
            part = slice(start, stop)
            views = {unit: _in_unit(X[part], unit) for unit in {run.unit for run in halving.runs}}
            runs = tuple(
                run.learn(views[run.unit], targets[part], weights[part]) for run in halving.runs
            )
            halving = halving._replace(runs=runs, seen=halving.seen + stop - start)
            if halve and halving.seen == grid:
                halving = halving.only(better_half([run.risk() for run in halving.runs]))
            start = stop
        return halving

    def outputs(self, index, sign, ends):
        """Rearrange outputs: the new output i is sign[i] times the old output index[i].

        A negative sign needs an odd potential, no constraint, and a link with
        mean(s) + mean(-s) = ends, the sum of the two limits of its range.
        """
        sign = np.array(sign)
        runs = tuple(
            run._replace(state=run.learner.outputs(run.state, index, sign, ends))
            for run in self.runs
        )
        row_filter, target_filter = self.guards
        arrays = (np.ascontiguousarray(a[index]) for a in target_filter[:-1])
        guards = row_filter, OutlierFilter(*arrays, clock=target_filter.clock)
        tally, start = self.tally[:, index], self.start
        tally[1] = np.where(sign > 0.0, tally[1], ends * tally[0] - tally[1])
        if start is not None:
            start = tuple(a if a is None else (a[index].T * sign).T for a in start)
        waiting = tuple(
            (X, np.where(sign > 0.0, y[:, index], ends - y[:, index]), w)
            for X, y, w in self.waiting
        )
        return self._replace(runs=runs, guards=guards, tally=tally, start=start, waiting=waiting)

    def only(self, kept):
        """The runs of these numbers."""
        return self._replace(runs=tuple(self.runs[i] for i in kept))


def better_half(risks):
    """The numbers of the better half, ascending."""
    return sorted(np.argsort(risks, kind="stable")[: (len(risks) + 1) // 2])


def _in_unit(X, unit):
    return X if unit == 1.0 else X / unit
