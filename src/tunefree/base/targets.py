"""Targets and columns with outliers: location, scale and limits that a few rows cannot spoil.

PiSTOL needs rows that each change the predictor by a bounded amount. Real targets have no such
bound. So they are measured from the median m in units of a robust scale s, the squared loss is
linear beyond ``DELTA`` of these units, and columns are clipped at median -+ cap q95|x - median|.

Clipping helps where a line is wrong beyond the bulk of the rows (bounded targets, columns that
saturate) and harms where it is right (heavy tails). The rows beyond a limit decide: it is opened if
they would have been predicted worse with it. One outlier must not open it: with the line's
prediction p, a target beyond max(p, 4 robust standard deviations) counts as that bound. An open
limit lies at ten times the largest value seen.
"""

import numpy as np
from scipy import sparse

from tunefree.core.jit import kernel
from tunefree.held_out.progressive_risk import recent_rows
from tunefree.held_out.shrinkage import few_beyond
from tunefree.parts.losses import within
from tunefree.rows.matrices import resized
from tunefree.rows.outliers import DELTA, column_caps, location_and_scale

_WINDOW, _BLOCK = 256, 1024
# An open limit lies at this many times the largest value seen.
WIDER = 10.0
# Excesses up to here may be rounding, relative to the width of the column's limits.
_ROUNDING = 1e-9


@kernel
def _lines(X, low, high, coef, intercept, line, clipped):
    """Write predictions of raw and of clipped dense rows; row by row, for equal bits."""
    for i in range(line.shape[0]):
        for c in range(line.shape[1]):
            p = q = intercept[c]
            for j in range(X.shape[1]):
                v = float(X[i, j])
                p += v * coef[j, c]
                q += min(max(v, low[j]), high[j]) * coef[j, c]
            line[i, c], clipped[i, c] = p, q


@kernel
def _weigh_sides(line, y, weights, inner, outer, sides, hull):
    """Compare line and limits beyond the inner limits; bound the targets by the line."""
    for i in range(line.shape[0]):
        for c in range(line.shape[1]):
            p = line[i, c]
            a = min(max(y[i, c], min(outer[0, c], p)), max(outer[1, c], p))
            y[i, c] = a
            hull[0, c], hull[1, c] = min(hull[0, c], a), max(hull[1, c], a)
            for side in range(2):
                limit = inner[side, c]
                if (p < limit) if side == 0 else (p > limit):
                    of_limit, of_line = a - limit, a - p
                    sides[side, c] += weights[i] * (of_limit * of_limit - of_line * of_line)


@kernel
def _weigh_columns(X, low, high, residuals, weights, coef, columns, beyond):
    """Compare the raw with the clipped column, beyond each column's limits."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            v = float(X[i, j])
            excess = v - min(max(v, low[j]), high[j])
            if abs(excess) > _ROUNDING * (high[j] - low[j]):
                beyond[j] = 1.0
                for c in range(coef.shape[1]):
                    e = excess * coef[j, c]
                    columns[j] += weights[i] * (2.0 * residuals[i, c] * e - e * e)


def _no_range(n):
    return np.array([np.full(n, np.inf), np.full(n, -np.inf)])


class Extent:
    """Whether a line predicts rows beyond the limits better than clipping does.

    With d columns and k targets there are

    - `coef`, `intercept`: the line, in standardised targets. It has learned none of the rows on
      which it is evaluated, or all rows;
    - `farthest`, (2, d): the range of the raw columns;
    - `columns`, (d,): the gain in squared error if the column is not clipped;
    - `beyond`, (d,): 1 if the column was beyond its limits;
    - `sides`, (2, k): the gain in squared error if predictions are not clipped, on either side;
    - `hull`, (2, k): the range of the targets, bounded by the line.

    Examples
    --------
    >>> extent, x = Extent(1, 1), np.array([[0.5], [3.0], [90.0]])
    >>> extent.judge(np.ones((1, 1)), np.zeros(1))
    >>> limits = np.array([-4.0]), np.array([4.0])
    >>> extent.weigh(x, x.copy(), np.ones(3), limits, np.array([[-1.0], [1.0]]), limits)
    >>> extent.open_columns(), extent.open_sides().ravel(), extent.hull.ravel()
    (array([ True]), array([False,  True]), array([ 0.5, 90. ]))
    """

    _SAVED = ("coef", "intercept", "farthest", "columns", "beyond", "sides", "hull")

    def __init__(self, d, k):
        self.coef = self.intercept = None
        self.farthest = _no_range(d)
        self.columns, self.beyond, self.sides = np.zeros(d), np.zeros(d), np.zeros((2, k))
        self.hull = _no_range(k)

    def judge(self, coef, intercept):
        """Evaluate this line from now on."""
        self.coef, self.intercept = np.ascontiguousarray(coef), np.ascontiguousarray(intercept)

    def weigh(self, X, y, weights, limits, inner, outer):
        """Add raw rows; y is overwritten by the bounded targets.

        `limits` are those of the columns. `inner` and `outer` have the shape (2, k): there are few
        targets beyond `inner`; a target beyond `outer` counts at most as far as the line predicts.
        """
        is_sparse, clipped = sparse.issparse(X), None
        if not is_sparse:
            self.farthest[0] = np.minimum(self.farthest[0], X.min(axis=0))
            self.farthest[1] = np.maximum(self.farthest[1], X.max(axis=0))
        if self.coef is None:
            return
        if is_sparse:
            line = X @ self.coef + self.intercept
        else:
            line, clipped = np.empty(y.shape), np.empty(y.shape)
            _lines(X, *limits, self.coef, self.intercept, line, clipped)
        _weigh_sides(line, y, weights, np.asarray(inner), np.asarray(outer), self.sides, self.hull)
        if clipped is not None:
            _weigh_columns(X, *limits, y - clipped, weights, self.coef, self.columns, self.beyond)

    def open_columns(self):
        """Columns that predict better without clipping, or were never beyond their limits."""
        return (self.beyond == 0.0) | (self.columns > 0.0)

    def open_sides(self):
        """Sides of the range on which the line predicts better than the limit."""
        return self.sides > 0.0

    def resized(self, d):
        """Have d columns from now on (sparse data only, which have no limits)."""
        self.columns, self.beyond = resized(self.columns, d), resized(self.beyond, d)
        self.farthest = np.array([resized(self.farthest[0], d), resized(self.farthest[1], d)])
        if self.coef is not None:
            self.coef = resized(self.coef, d)


@kernel
def _drift(rows, weights, total, mean):
    """Add rows to a running mean; return the total weight."""
    for i in range(rows.shape[0]):
        total += weights[i]
        for j in range(rows.shape[1]):
            mean[j] += (rows[i, j] - mean[j]) * (weights[i] / total)
    return total


def _limits(m, s):
    """The ends of the range in which the loss is quadratic."""
    return m - DELTA * s, m + DELTA * s


def residual_size(predictions, targets):
    """The median absolute residual of the latest progressive predictions."""
    return float(np.median(np.abs(predictions[-_WINDOW:] - targets[-_WINDOW:])))


class TargetScale:
    """How a run clips columns and scales targets.

    The width of the loss follows the targets' scale and the residuals. `cap` sets the columns'
    limits, None sets none; `centred` is whether there is an intercept.

    - Targets: location `m` and scale `s` (fixed by `open`); `range_y`, the range of the clipped
      targets; `inner`, limits beyond which there are few.
    - Columns: their limits `low` and `high`; `seen_low` and `seen_high`, the range within these.
    - Both: running means `mean_x` and `mean_y`, of the weight `total`.
    - `extent`: whether the line is better than the limits.
    """

    # Saved in a model file.
    _SAVED = ("loss", "cap", "centred", "m", "s", "low", "high", "seen_low", "seen_high", "total",
              "mean_x", "mean_y", "range_y", "window", "limit", "inner", "extent")  # fmt: skip

    def __init__(self, loss, cap, centred):
        self.loss, self.cap, self.centred = loss, cap, centred

    @property
    def outliers(self):
        """Whether the loss is made for targets with outliers."""
        return getattr(self.loss, "outliers", False)

    @property
    def elicits_mean(self):
        """Whether the least risk is at the conditional mean."""
        return getattr(self.loss, "elicits_mean", False)

    def open(self, X, y):
        """Set location, scale and limits from rows (on a stream, the first 64)."""
        d, k = X.shape[1], y.shape[1]
        self.m, self.s = self._location_and_scale(y)
        self.low, self.high = np.full(d, -np.inf), np.full(d, np.inf)
        if self.cap is not None and not sparse.issparse(X):
            self.low, self.high = column_caps(X, np.arange(X.shape[0]), self.cap)
        self.seen_low, self.seen_high = np.full(d, np.inf), np.full(d, -np.inf)
        self.total, self.mean_x, self.mean_y = 0.0, np.zeros(d), np.zeros(k)
        self.range_y = _no_range(k)
        self.window, self.limit = y[:0], _limits(self.m, self.s)
        self.inner, self.extent = few_beyond(y, np.ones(len(y))), Extent(d, k)
        return self

    def _location_and_scale(self, y):
        return location_and_scale(y, self.centred, tails=not self.outliers)

    def clip(self, X):
        """Columns within their limits; X itself if there are none."""
        limited = np.isfinite([self.low, self.high]).any()
        return np.clip(X, self.low, self.high) if limited else X

    def standardise(self, y):
        """Targets in units of the scale about the location."""
        return (y - self.m) / self.s

    def columns(self, d):
        """Have d columns from now on (sparse data only, which have no limits)."""
        limits = {"low": -np.inf, "high": np.inf, "seen_low": np.inf, "seen_high": -np.inf}
        for name, initial in (limits | {"mean_x": 0.0}).items():
            setattr(self, name, resized(getattr(self, name), d, fill=initial))
        self.extent.resized(d)

    def add(self, X, y, weights):
        """Add clipped rows to running means, ranges and the window of latest targets."""
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
        """Evaluate this line, in standardised targets, on the rows to come."""
        if self.centred and self.elicits_mean:
            intercept = self.mean_y - self.mean_x @ coef
        self.extent.judge(coef, intercept)

    def weigh(self, X, y, weights):
        """Add raw rows to `extent`."""
        outer = self.standardise(np.array(self.limit))
        inner = np.clip(self.standardise(self.inner), *outer)
        self.extent.weigh(X, self.standardise(y), weights, (self.low, self.high), inner, outer)

    def weigh_all(self, problem, coef, intercept):
        """`weigh` for rows in memory and the line learned from them."""
        X, y, rows, weights = problem.X, problem.targets, problem.rows, problem.totals
        self.extent, self.inner = Extent(*coef.shape), few_beyond(y[rows], weights)
        self.judge(coef, intercept)
        for start in range(0, len(rows), _BLOCK):
            part = slice(start, start + _BLOCK)
            self.weigh(X[rows[part]], y[rows[part]], weights[part])

    def add_all(self, problem, moments):
        """`add` for rows in memory whose moments are known."""
        X, y, rows, weights = problem.X, problem.targets, problem.rows, problem.totals
        clipped = np.clip(y[rows], *self.limit)
        self.range_y = np.array([clipped.min(axis=0), clipped.max(axis=0)])
        self.total, self.mean_x = moments.weight, moments.mean
        self.mean_y = weights @ self.standardise(clipped) / weights.sum()
        if not sparse.issparse(X):
            self.seen_low = np.clip(X[rows].min(axis=0), self.low, self.high)
            self.seen_high = np.clip(X[rows].max(axis=0), self.low, self.high)

    def begin(self, portfolio, X):
        """The portfolio for a stream that begins with these rows.

        In memory the columns share the wealth. A sparse stream has an unknown number of columns:
        there the entries of a row share it.
        """
        share = min(0.1, X.shape[0] / max(1, X.nnz)) if sparse.issparse(X) else None

        def sharing(learner):
            rule = learner.rule
            if not getattr(rule, "squares", False):
                return learner
            return learner._replace(rule=rule._replace(b=share))

        return portfolio if share is None else portfolio.with_learners(sharing)

    def after(self, portfolio, state):
        """The portfolio after its first pass: the loss fits the residuals of the best member."""
        predicted, targets, _ = recent_rows(state.progress)
        residual = residual_size(predicted[:, 2 * state.chosen[0]], targets)
        loss = within(self.loss, DELTA, residual)
        return portfolio.with_learners(lambda learner: learner._replace(loss=loss))

    def renew(self, portfolio, state):
        """Every 64 rows of a stream: the loss fits the latest 256 targets and residuals."""
        if len(self.window) < 64 or not hasattr(self.loss, "within"):
            return portfolio
        m, s = self._location_and_scale(self.window)
        self.limit = _limits(m, s)
        self.inner = few_beyond(self.window, np.ones(len(self.window)))
        p = state.progress
        slots = np.arange(p.clock[0] - min(p.clock[0], _WINDOW), p.clock[0]) % len(p.weights)
        residual = residual_size(p.recent[slots, 0], p.targets[slots])
        loss = within(self.loss, float(np.max(DELTA * s / self.s)), residual)
        return portfolio.with_learners(lambda learner: learner._replace(loss=loss))

    def limits(self):
        """Limits of columns at prediction, at equal distances from the mean.

        The distance is the largest deviation of the clipped column, or ten times that of the raw
        column where this predicts better.
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
