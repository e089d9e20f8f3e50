"""Real targets and wild columns: location, scale and limits that a few rows cannot ruin.

PiSTOL knows how to learn when one row moves the predictor by a bounded amount. Real targets have no
such bound, so they are measured in units of a robust scale s about the median m, the squared loss
goes on linearly beyond ``DELTA`` of these units, and columns are clipped at
median -+ cap q95|x - median|.
"""

import numpy as np
from scipy import sparse

from tunefree._array import resized
from tunefree._jit import kernel
from tunefree.estimators.extent import WIDER, Extent
from tunefree.losses import Huber
from tunefree.robust import DELTA, NORMAL, column_caps, few_beyond, location_and_scale

_WINDOW, _BLOCK = 256, 1024


def with_width(portfolio, width):
    """The portfolio with another width of its members' Huber losses."""
    return portfolio._replace(
        members=tuple(
            m._replace(learner=m.learner._replace(loss=Huber(float(width))))
            for m in portfolio.members
        )
    )


def _with_wealth(member, b):
    rule = member.learner.rule
    if not getattr(rule, "squares", False):
        return member
    return member._replace(learner=member.learner._replace(rule=rule._replace(b=b)))


def residual_width(predictions, targets):
    """Huber's 1.345 standard deviations, robustly, of the latest progressive residuals."""
    r = np.abs(predictions[-_WINDOW:] - targets[-_WINDOW:])
    return max(1.345 * NORMAL * float(np.median(r)), 1e-3)


@kernel
def _drift(rows, weights, total, mean):
    """Take rows into a running mean; the weight so far."""
    for i in range(rows.shape[0]):
        total += weights[i]
        for j in range(rows.shape[1]):
            mean[j] += (rows[i, j] - mean[j]) * (weights[i] / total)
    return total


class TargetScale:
    """How a run clips columns and measures targets.

    Parameters
    ----------
    loss : {'squared', 'huber', ...}
        What the width follows: the targets' scale, the residuals' scale, or nothing.
    cap : float or None
        Reach of the columns' limits; None sets none.
    centred : bool
        Whether there is an intercept.

    Attributes
    ----------
    m, s : ndarray of shape (n_targets,)
        Location and scale, frozen when opened.
    low, high : ndarray of shape (d,)
        Limits of the columns.
    seen_low, seen_high : ndarray of shape (d,)
        Range of the clipped columns.
    total, mean_x, mean_y
        Weight and running means of the clipped columns and standardised, clipped targets.
    range_y : ndarray of shape (2, n_targets)
        Range of the clipped targets.
    inner : ndarray of shape (2, n_targets)
        Limits of the targets beyond which few are.
    extent : Extent
        How far beyond the limits of columns and targets the rows believe the line.
    """

    # What a model file keeps.
    _SAVED = ("loss", "cap", "centred", "m", "s", "low", "high", "seen_low", "seen_high", "total",
              "mean_x", "mean_y", "range_y", "window", "limit", "inner", "extent")  # fmt: skip

    def __init__(self, loss, cap, centred):
        self.loss, self.cap, self.centred = loss, cap, centred

    def open(self, X, y):
        """Set location, scale and limits from rows (on a stream, the first 64)."""
        d, k = X.shape[1], y.shape[1]
        self.m, self.s = self._location_and_scale(y)
        self.low, self.high = np.full(d, -np.inf), np.full(d, np.inf)
        if self.cap is not None and not sparse.issparse(X):
            self.low, self.high = column_caps(X, np.arange(X.shape[0]), self.cap)
        self.seen_low, self.seen_high = np.full(d, np.inf), np.full(d, -np.inf)
        self.total, self.mean_x, self.mean_y = 0.0, np.zeros(d), np.zeros(k)
        self.range_y = np.array([np.full(k, np.inf), np.full(k, -np.inf)])
        self.window, self.limit = y[:0], self._limits(y)
        self.inner, self.extent = few_beyond(y, np.ones(len(y))), Extent(d, k)
        return self

    def _location_and_scale(self, y):
        return location_and_scale(y, self.centred, tails=self.loss != "huber")

    def _limits(self, y):
        m, s = self._location_and_scale(y)
        return m - DELTA * s, m + DELTA * s

    def clip(self, X):
        """Columns within their limits."""
        return X if sparse.issparse(X) else np.clip(X, self.low, self.high)

    def standardise(self, y):
        """Targets in units of the scale about the location."""
        return (y - self.m) / self.s

    def columns(self, d):
        """Know d columns from now on (of sparse data, which have no limits)."""
        for name, nothing in (("low", -np.inf), ("high", np.inf), ("seen_low", np.inf),
                              ("seen_high", -np.inf), ("mean_x", 0.0)):  # fmt: skip
            setattr(self, name, resized(getattr(self, name), d, fill=nothing))
        self.extent.resized(d)

    def add(self, X, y, weights):
        """Take in clipped rows: running means and ranges, and the window of latest targets."""
        clipped = np.clip(y, *self.limit)
        self.range_y[0] = np.minimum(self.range_y[0], clipped.min(axis=0))
        self.range_y[1] = np.maximum(self.range_y[1], clipped.max(axis=0))
        standard = self.standardise(clipped)
        total = _drift(standard, weights, self.total, self.mean_y)
        if not sparse.issparse(X):
            _drift(X, weights, self.total, self.mean_x)
            self.seen_low = np.minimum(self.seen_low, X.min(axis=0))
            self.seen_high = np.maximum(self.seen_high, X.max(axis=0))
        self.total = total
        self.window = np.concatenate([self.window, y])[-_WINDOW:]

    def judge(self, coef, intercept):
        """Judge this line, in standardised targets, by the rows to come."""
        if self.centred and self.loss == "squared":
            intercept = self.mean_y - self.mean_x @ coef
        self.extent.judge(coef, intercept)

    def weigh(self, X, y, weights):
        """Take in rows as they are: what they say of the extent of the line."""
        outer = self.standardise(np.array(self.limit))
        inner = np.clip(self.standardise(self.inner), *outer)
        self.extent.weigh(X, self.standardise(y), weights, (self.low, self.high), inner, outer)

    def weigh_all(self, X, y, rows, weights, coef, intercept):
        """`weigh` for rows in memory and the line that they have led to."""
        d, k = coef.shape
        self.extent, self.inner = Extent(d, k), few_beyond(y[rows], weights)
        self.judge(coef, intercept)
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            self.weigh(X[rows[part]], y[rows[part]], weights[part])
        return self

    def add_all(self, X, y, rows, weights, moments):
        """`add` for rows in memory whose moments are known."""
        clipped = np.clip(y[rows], *self.limit)
        self.range_y = np.array([clipped.min(axis=0), clipped.max(axis=0)])
        self.total, self.mean_x = moments.weight, moments.mean
        self.mean_y = weights @ self.standardise(clipped) / weights.sum()
        if not sparse.issparse(X):
            self.seen_low = np.clip(X[rows].min(axis=0), self.low, self.high)
            self.seen_high = np.clip(X[rows].max(axis=0), self.low, self.high)
        return self

    def begin(self, portfolio, X):
        """The portfolio for a stream that begins with these rows.

        How many columns a sparse stream has is not known, only how many entries its rows have: they
        share the wealth that the columns share in memory.
        """
        if not sparse.issparse(X):
            return portfolio
        share = min(0.1, X.shape[0] / max(1, X.nnz))
        return portfolio._replace(members=tuple(_with_wealth(m, share) for m in portfolio.members))

    def renew(self, portfolio, state):
        """Every 64 rows of a stream: the loss's width after the latest 256 targets or residuals."""
        if self.loss not in ("squared", "huber") or len(self.window) < 64:
            return portfolio
        m, s = self._location_and_scale(self.window)
        self.limit = m - DELTA * s, m + DELTA * s
        self.inner = few_beyond(self.window, np.ones(len(self.window)))
        width = float(np.max(DELTA * s / self.s))
        if self.loss == "huber":
            p = state.progress
            slots = np.arange(p.clock[0] - min(p.clock[0], _WINDOW), p.clock[0]) % len(p.weights)
            width = min(width, residual_width(p.recent[slots, 0], p.targets[slots]))
        return with_width(portfolio, width)

    def limits(self):
        """Limits at prediction, as far from the mean on either side.

        The largest deviation of the clipped column; ten times that of the column as it is where
        this predicts better.
        """
        if not np.isfinite(self.seen_high).all():
            return None
        low, high = self.extent.farthest
        reach = np.maximum(self.seen_high - self.mean_x, self.mean_x - self.seen_low)
        wider = WIDER * np.maximum(high - self.mean_x, self.mean_x - low)
        reach = np.where(self.extent.open_columns(), wider, reach)
        return self.mean_x - reach, self.mean_x + reach

    def range(self):
        """Range of predictions: that of the clipped targets, wider where the line is better."""
        wider = self.m + self.s * WIDER * self.extent.hull
        low, high = self.range_y
        below, above = self.extent.open_sides()
        low = np.where(below, np.minimum(low, wider[0]), low)
        return np.array([low, np.where(above, np.maximum(high, wider[1]), high)])
