r"""Calibration of probabilities on held-out rows.

`calibrated` fits a slope and an offset for every class,
:math:`p_c \propto \exp(a_c \log p_c + b_c)`, and uses them only if five-fold cross-validation on
held-out rows gains more than one standard error of log-loss. (A single temperature is already in
the weights of a stack. Venn-Abers prediction as a last step gained that much on none of 46 data
sets, and was worse on most: it remains a separate pair of probabilities.)

`VennAbers` gives two probabilities of a class. They are isotonic regressions of the labels on the
scores of the held-out rows and the new row, once with the label 1 and once with the label 0. If
rows are exchangeable, one of the two is calibrated exactly. Both are slopes of a greatest convex
minorant with one point added; one sweep finds them for all positions of the new score.

Source: Guo et al. 2017; Kull et al. 2019; Vovk, Petej and Fedorova 2015 ("Large-scale probabilistic
predictors with and without guarantees of validity", algorithms 1 to 4).
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import log_softmax

_FOLDS, _OFFSETS, _FEWEST_ROWS = 5, 1e-3, 40


class Slopes(NamedTuple):
    """A slope and an offset for every class: of log-probabilities, shape (n_classes,) each.

    Examples
    --------
    >>> Slopes(np.array([2.0, 2.0]), np.zeros(2)).of(np.log([[0.5, 0.5]])).round(3)
    array([[-0.693, -0.693]])
    """

    slopes: np.ndarray
    offsets: np.ndarray

    def of(self, logs):
        """Log-probabilities."""
        return log_softmax(self.slopes * log_softmax(logs, axis=1) + self.offsets, axis=1)

    def onnx(self, g, scores):
        """Log-probabilities as nodes of a graph."""
        logs = g("LogSoftmax", scores, axis=1)
        return g("Add", g("Mul", logs, self.slopes), self.offsets)

    @classmethod
    def fit(cls, logs, codes, weights):
        """The fit of least log-loss, as if all classes shared two more rows equally."""
        k, total = logs.shape[1], weights.sum()
        targets, share = (total * np.eye(k)[codes] + 2.0 / k) / (total + 2.0), weights / total

        def risk(theta):
            a, b = np.exp(theta[:k]), theta[k:]
            log_p = log_softmax(a * logs + b, axis=1)
            gap = share[:, None] * (np.exp(log_p) - targets)
            slope = [a * (gap * logs).sum(axis=0), gap.sum(axis=0) + 2.0 * _OFFSETS * b]
            value = -np.vdot(share[:, None] * targets, log_p) + _OFFSETS * b @ b
            return value, np.concatenate(slope)

        ends = [(-3.0, 3.0)] * k + [(None, None)] * k
        theta = optimize.minimize(risk, np.zeros(2 * k), jac=True, method="L-BFGS-B", bounds=ends).x
        return cls(np.exp(theta[:k]), theta[k:])


def calibrated(scores, codes, weights):
    """`Slopes` for held-out log-odds if they lower the log-loss, else None.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
    codes : ndarray of int of shape (n,)
    weights : ndarray of shape (n,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> F = rng.normal(size=(600, 3)) * 2
    >>> p = np.exp(log_softmax(F * [0.3, 1.0, 2.0], axis=1)).cumsum(axis=1)
    >>> y = (rng.uniform(size=(600, 1)) > p).sum(axis=1)
    >>> calibrated(F, y, np.ones(600)).slopes.argsort()
    array([0, 1, 2])
    """
    logs = log_softmax(scores, axis=1)
    fold = np.arange(len(codes)) % _FOLDS  # rows are in the order of a hash
    counts = np.bincount(codes, minlength=scores.shape[1])
    if len(codes) < _FEWEST_ROWS or counts.min() < 2:
        return None
    recalibrated = np.empty_like(logs)
    for f in range(_FOLDS):
        others = fold != f
        slopes = Slopes.fit(logs[others], codes[others], weights[others])
        recalibrated[~others] = slopes.of(logs[~others])
    rows, share = np.arange(len(codes)), weights / weights.sum()
    gain = (recalibrated - logs)[rows, codes]
    mean = share @ gain
    if mean <= np.sqrt(np.square(share * (gain - mean)).sum()):
        return None
    slopes = Slopes.fit(logs, codes, weights)
    final_gain = (slopes.of(logs) - logs)[rows, codes]
    return slopes if share @ final_gain > 0.0 else None


class VennAbers(NamedTuple):
    """Two probabilities for every position of a new score among the held-out ones.

    Examples
    --------
    >>> pair = VennAbers.fit(np.arange(6.0), np.array([0, 0, 1, 0, 1, 1.0]), np.ones(6))
    >>> pair.of(np.array([2.5])).round(3)
    array([[0.333, 0.667]])
    """

    knots: np.ndarray  # (m,): the distinct scores, ascending
    low: np.ndarray  # (m + 1,): at or below knot i, if the new row has the label 0
    high: np.ndarray  # (m + 1,): at or above knot i - 1, if the new row has the label 1

    @classmethod
    def fit(cls, scores, labels, weights):
        """Fit to scores, labels 0 or 1, and weights of shape (n,)."""
        knots, knot_of = np.unique(scores, return_inverse=True)
        mass = np.bincount(knot_of, weights, len(knots))
        hits = np.bincount(knot_of, weights * labels, len(knots))
        high = _with_one(mass, hits)
        low = 1.0 - _with_one(mass[::-1], (mass - hits)[::-1])[::-1]
        return cls(knots, low, high)

    def of(self, scores):
        """The pair of new scores, of shape (n, 2)."""
        # A score at a knot or between two is pooled with those at and above it (label 1), or at and
        # below it (label 0).
        left, right = (np.searchsorted(self.knots, scores, side) for side in ("left", "right"))
        return np.stack([self.low[right], self.high[left]], axis=1)


def _with_one(w, hits):
    """Isotonic fit of one more row of weight 1 and label 1, at each position among the knots.

    The result has the shape (m + 1,): at or below knot i, and above all. The fit is the slope of
    the greatest convex minorant of summed hits over summed weights. The new row's step (1, 1)
    starts left of all others, and moves to the right by one knot at a time. `hull` is a stack of
    the minorant's corners from the new step on, the leftmost on top.
    """
    m = len(w)
    x, y = [-1.0, 0.0, *np.cumsum(w).tolist()], [-1.0, 0.0, *np.cumsum(hits).tolist()]

    def cross(a, b, c):  # positive: to the left
        return (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])

    hull: list = []
    for point in zip(reversed(x), reversed(y), strict=True):
        while len(hull) > 1 and cross(point, hull[-1], hull[-2]) <= 0.0:
            hull.pop()
        hull.append(point)
    out = np.ones(m + 1)
    for i in range(m):
        top, next_corner = hull[-1], hull[-2]
        out[i] = (next_corner[1] - top[1]) / (next_corner[0] - top[0])
        x[i + 1], y[i + 1] = x[i] + x[i + 2] - x[i + 1], y[i] + y[i + 2] - y[i + 1]
        moved = (x[i + 1], y[i + 1])
        if cross(top, moved, next_corner) <= 0.0:
            continue
        hull.pop()
        while len(hull) > 1 and cross(moved, hull[-1], hull[-2]) <= 0.0:
            hull.pop()
        hull.append(moved)
    return np.clip(out, 0.0, 1.0)
