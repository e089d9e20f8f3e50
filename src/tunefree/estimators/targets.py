"""Real targets and wild columns: location, scale and limits that a few rows cannot ruin.

PiSTOL knows how to learn when one row moves the predictor by a bounded amount. Real targets have no
such bound, so they are measured in units of a robust scale s about the median m, the squared loss
goes on linearly beyond ``DELTA`` of these units, and columns are clipped at
median -+ cap q95|x - median|.

Clipping helps where a line is wrong beyond the bulk of the rows (bounded targets, columns that
saturate) and harms where it is right (heavy tails). The rows out there tell: a limit is opened if,
with it, they would have been predicted worse. What they say is bounded by the prediction p as the
line gives it, since a target beyond max(p, 4 robust standard deviations) counts as that: one absurd
target opens nothing. An open limit lies ten times as far as anything seen.
"""

import numpy as np
from scipy import sparse

from tunefree._jit import kernel
from tunefree.designs import resized
from tunefree.losses import within
from tunefree.robust import DELTA, column_caps, few_beyond, location_and_scale
from tunefree.select.progressive_risk import recent_rows

_WINDOW, _BLOCK = 256, 1024
# How much farther than anything seen a line is believed.
WIDER = 10.0
# Excesses that may be rounding, in units of the column's limits.
_ROUNDING = 1e-9


@kernel
def _lines(X, low, high, coef, intercept):
    """Predictions of dense rows as they are and of clipped ones; row by row, for equal bits."""
    n, k = X.shape[0], coef.shape[1]
    line, clipped = np.empty((n, k)), np.empty((n, k))
    for i in range(n):
        for c in range(k):
            p = q = intercept[c]
            for j in range(X.shape[1]):
                v = float(X[i, j])
                p += v * coef[j, c]
                q += min(max(v, low[j]), high[j]) * coef[j, c]
            line[i, c], clipped[i, c] = p, q
    return line, clipped


@kernel
def _weigh_sides(line, y, weights, inner, outer, sides, hull):
    """Compare, beyond the inner limits, the line with the limits; bound the targets by the line."""
    for i in range(line.shape[0]):
        for c in range(line.shape[1]):
            p = line[i, c]
            a = min(max(y[i, c], min(outer[0, c], p)), max(outer[1, c], p))
            y[i, c] = a
            hull[0, c], hull[1, c] = min(hull[0, c], a), max(hull[1, c], a)
            for side in range(2):
                limit = inner[side, c]
                if (p < limit) if side == 0 else (p > limit):
                    sides[side, c] += weights[i] * ((a - limit) ** 2 - (a - p) ** 2)


@kernel
def _weigh_columns(X, low, high, residuals, weights, coef, columns, beyond):
    """Compare, beyond each column's limits, the column as it is with the clipped one."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            v = float(X[i, j])
            excess = v - min(max(v, low[j]), high[j])
            if abs(excess) > _ROUNDING * (high[j] - low[j]):
                beyond[j] = 1.0
                for c in range(coef.shape[1]):
                    e = excess * coef[j, c]
                    columns[j] += weights[i] * (2.0 * residuals[i, c] * e - e * e)


class Extent:
    """What rows beyond the limits say of a line.

    With d columns and k targets: `coef` and `intercept` are the line that is judged, in
    standardised targets (rows must not have shown it its errors on them unless it has seen all);
    `farthest`, (2, d), the range of the columns as they are; `columns`, (d,), by how much the
    squared errors fall if the column is not clipped, `beyond` 1 where it was beyond; `sides`,
    (2, k), the same of the range of predictions; `hull`, (2, k), the range of the targets that the
    line accounts for.

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
        self.farthest = np.array([np.full(d, np.inf), np.full(d, -np.inf)])
        self.columns, self.beyond, self.sides = np.zeros(d), np.zeros(d), np.zeros((2, k))
        self.hull = np.array([np.full(k, np.inf), np.full(k, -np.inf)])

    def judge(self, coef, intercept):
        """Judge this line from now on."""
        self.coef, self.intercept = np.ascontiguousarray(coef), np.ascontiguousarray(intercept)

    def weigh(self, X, y, weights, limits, inner, outer):
        """Take in rows as they are; y is overwritten by what the line accounts for.

        `limits` are those of the columns; `inner` and `outer`, of shape (2, k), say where targets
        are few, and where they count only as far as the line goes.
        """
        if not sparse.issparse(X):
            self.farthest[0] = np.minimum(self.farthest[0], X.min(axis=0))
            self.farthest[1] = np.maximum(self.farthest[1], X.max(axis=0))
        if self.coef is None:
            return
        if sparse.issparse(X):
            line = X @ self.coef + self.intercept
        else:
            line, clipped = _lines(X, *limits, self.coef, self.intercept)
        _weigh_sides(line, y, weights, np.asarray(inner), np.asarray(outer), self.sides, self.hull)
        if not sparse.issparse(X):
            _weigh_columns(X, *limits, y - clipped, weights, self.coef, self.columns, self.beyond)

    def open_columns(self):
        """Columns that are better as they are, or were never beyond their limits."""
        return (self.beyond == 0.0) | (self.columns > 0.0)

    def open_sides(self):
        """Sides of the range beyond which the line is better than the limit."""
        return self.sides > 0.0

    def resized(self, d):
        """Know d columns from now on (of sparse data, which have no limits)."""
        self.columns, self.beyond = resized(self.columns, d), resized(self.beyond, d)
        self.farthest = np.array([resized(self.farthest[0], d), resized(self.farthest[1], d)])
        if self.coef is not None:
            self.coef = resized(self.coef, d)


@kernel
def _drift(rows, weights, total, mean):
    """Take rows into a running mean; the weight so far."""
    for i in range(rows.shape[0]):
        total += weights[i]
        for j in range(rows.shape[1]):
            mean[j] += (rows[i, j] - mean[j]) * (weights[i] / total)
    return total


def residual_size(predictions, targets):
    """The median absolute residual of the latest progressive predictions."""
    return float(np.median(np.abs(predictions[-_WINDOW:] - targets[-_WINDOW:])))


class TargetScale:
    """How a run clips columns and measures targets.

    The loss's `within` follows the targets' scale and the residuals; `cap` is the reach of the
    columns' limits, None sets none; `centred` says that there is an intercept. Of the targets there
    are m and s, location and scale (frozen when opened), `range_y`, that of the clipped ones, and
    `inner`, limits beyond which few are; of the columns `low` and `high`, their limits, `seen_low`
    and `seen_high`, the range within, and of both the running means `mean_x`, `mean_y` of the
    weight `total`. `extent` says how far beyond all limits the rows believe the line.
    """

    # What a model file keeps.
    _SAVED = ("loss", "cap", "centred", "m", "s", "low", "high", "seen_low", "seen_high", "total",
              "mean_x", "mean_y", "range_y", "window", "limit", "inner", "extent")  # fmt: skip

    def __init__(self, loss, cap, centred):
        self.loss, self.cap, self.centred = loss, cap, centred

    @property
    def outliers(self):
        """Whether the loss is one for targets that hold outliers."""
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
        self.range_y = np.array([np.full(k, np.inf), np.full(k, -np.inf)])
        self.window, self.limit = y[:0], self._limits(y)
        self.inner, self.extent = few_beyond(y, np.ones(len(y))), Extent(d, k)
        return self

    def _location_and_scale(self, y):
        return location_and_scale(y, self.centred, tails=not self.outliers)

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
        if self.centred and self.elicits_mean:
            intercept = self.mean_y - self.mean_x @ coef
        self.extent.judge(coef, intercept)

    def weigh(self, X, y, weights):
        """Take in rows as they are: what they say of the extent of the line."""
        outer = self.standardise(np.array(self.limit))
        inner = np.clip(self.standardise(self.inner), *outer)
        self.extent.weigh(X, self.standardise(y), weights, (self.low, self.high), inner, outer)

    def weigh_all(self, problem, coef, intercept):
        """`weigh` for rows in memory and the line that they have led to."""
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

        How many columns a sparse stream has is not known, only how many entries its rows have: they
        share the wealth that the columns share in memory.
        """
        share = min(0.1, X.shape[0] / max(1, X.nnz)) if sparse.issparse(X) else None

        def sharing(learner):
            rule = learner.rule
            if not getattr(rule, "squares", False):
                return learner
            return learner._replace(rule=rule._replace(b=share))

        return portfolio if share is None else portfolio.with_learners(sharing)

    def after(self, portfolio, state):
        """The portfolio after its first pass: the loss follows the residuals of the best member."""
        predicted, seen, _ = recent_rows(state.progress)
        residual = residual_size(predicted[:, 2 * state.chosen[0]], seen)
        loss = within(self.loss, DELTA, residual)
        return portfolio.with_learners(lambda learner: learner._replace(loss=loss))

    def renew(self, portfolio, state):
        """Every 64 rows of a stream: the loss after the latest 256 targets and residuals."""
        if len(self.window) < 64 or not hasattr(self.loss, "within"):
            return portfolio
        m, s = self._location_and_scale(self.window)
        self.limit = m - DELTA * s, m + DELTA * s
        self.inner = few_beyond(self.window, np.ones(len(self.window)))
        p = state.progress
        slots = np.arange(p.clock[0] - min(p.clock[0], _WINDOW), p.clock[0]) % len(p.weights)
        residual = residual_size(p.recent[slots, 0], p.targets[slots])
        loss = within(self.loss, float(np.max(DELTA * s / self.s)), residual)
        return portfolio.with_learners(lambda learner: learner._replace(loss=loss))

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
