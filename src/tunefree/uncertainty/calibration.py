r"""Probabilities that are as right as rows left out can make them.

`calibrated` goes from what it is given to a slope and an offset for every class,
:math:`p_c \propto \exp(a_c \log p_c + b_c)`, only if five-fold cross-validation on rows left out
gains more than a standard error of log-loss. (One temperature for all is what a stack already has
in its weights. Venn-Abers prediction as a last step gained so much on none of the 46 sets it was
tried on, and would have cost on most: it stays a pair of probabilities of its own.)

`VennAbers` gives two probabilities of a class: isotonic regression of the labels on the scores,
with the new row among them, once as one of the class and once as none. One of the two is calibrated
exactly, if rows are exchangeable. Both are read from the slopes of the greatest convex minorant
with a point added, for all places of the new row in one sweep.

Source: Guo et al. 2017; Kull et al. 2019; Vovk, Petej and Fedorova 2015 ("Large-scale probabilistic
predictors with and without guarantees of validity", algorithms 1 to 4).
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

_FOLDS, _OFFSETS, _FEWEST = 5, 1e-3, 40


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
        """The same as nodes of a graph."""
        logs = g("LogSoftmax", scores, axis=1)
        return g("Add", g("Mul", logs, self.slopes), self.offsets)

    @classmethod
    def fit(cls, logs, codes, weights):
        """Those of least log-loss, as if two more rows were of all classes in equal parts."""
        k, total = logs.shape[1], weights.sum()
        aims, share = (total * np.eye(k)[codes] + 2.0 / k) / (total + 2.0), weights / total

        def risk(theta):
            a, b = np.exp(theta[:k]), theta[k:]
            told = log_softmax(a * logs + b, axis=1)
            gap = share[:, None] * (np.exp(told) - aims)
            slope = [a * (gap * logs).sum(axis=0), gap.sum(axis=0) + 2.0 * _OFFSETS * b]
            return -np.vdot(share[:, None] * aims, told) + _OFFSETS * b @ b, np.concatenate(slope)

        ends = [(-3.0, 3.0)] * k + [(None, None)] * k
        theta = minimize(risk, np.zeros(2 * k), jac=True, method="L-BFGS-B", bounds=ends).x
        return cls(np.exp(theta[:k]), theta[k:])


def calibrated(scores, codes, weights):
    """`Slopes` for log-odds of rows left out if they pay, else None.

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
    if len(codes) < _FEWEST or counts.min() < 2:
        return None
    gain, each = np.empty(len(codes)), np.arange(len(codes))
    for f in range(_FOLDS):
        out = fold == f
        mended = Slopes.fit(logs[~out], codes[~out], weights[~out]).of(logs[out])
        gain[out] = (mended - logs[out])[np.arange(out.sum()), codes[out]]
    share = weights / weights.sum()
    mean = share @ gain
    if mean <= np.sqrt(np.square(share * (gain - mean)).sum()):
        return None
    found = Slopes.fit(logs, codes, weights)
    better = (found.of(logs) - logs)[each, codes]
    return found if share @ better > 0.0 else None


class VennAbers(NamedTuple):
    """Two probabilities for every place of a new score among those of rows left out.

    Attributes
    ----------
    knots : ndarray of shape (m,)
        The different scores, ascending.
    low, high : ndarray of shape (m + 1,)
        Probability of a row at or below knot i, if it is taken as none of the class; of one at or
        above knot i - 1, if as one.

    Examples
    --------
    >>> pair = VennAbers.fit(np.arange(6.0), np.array([0, 0, 1, 0, 1, 1.0]), np.ones(6))
    >>> pair.of(np.array([2.5])).round(3)
    array([[0.333, 0.667]])
    """

    knots: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def fit(cls, scores, labels, weights):
        """Of scores, labels 0 or 1, and weights of shape (n,)."""
        knots, place = np.unique(scores, return_inverse=True)
        w = np.bincount(place, weights, len(knots))
        hits = np.bincount(place, weights * labels, len(knots))
        high = _with_one(w, hits)
        low = 1.0 - _with_one(w[::-1], (w - hits)[::-1])[::-1]
        return cls(knots, low, high)

    def of(self, scores):
        """The pair of new scores, of shape (n, 2)."""
        # A score between two knots, or at one, is pooled with those at and above it (as one of the
        # class) or at and below it (as none).
        left, right = (np.searchsorted(self.knots, scores, side) for side in ("left", "right"))
        return np.stack([self.low[right], self.high[left]], axis=1)


def _with_one(w, hits):
    """Isotonic fit of one more row of weight 1 and label 1, at each place among the knots.

    Of shape (m + 1,): at or below knot i, and above all. The fit is the slope of the greatest
    convex minorant of summed hits over summed weights; the new row's step (1, 1) starts left of all
    others, and moves one knot to the right at a time. `hull` holds the minorant's corners from the
    new step on, the leftmost on top.
    """
    m = len(w)
    x, y = [-1.0, 0.0, *np.cumsum(w).tolist()], [-1.0, 0.0, *np.cumsum(hits).tolist()]

    def turn(a, b, c):  # positive: to the left
        return (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])

    hull: list = []
    for point in zip(reversed(x), reversed(y), strict=True):
        while len(hull) > 1 and turn(point, hull[-1], hull[-2]) <= 0.0:
            hull.pop()
        hull.append(point)
    out = np.ones(m + 1)
    for i in range(m):
        top, after = hull[-1], hull[-2]
        out[i] = (after[1] - top[1]) / (after[0] - top[0])
        x[i + 1], y[i + 1] = x[i] + x[i + 2] - x[i + 1], y[i] + y[i + 2] - y[i + 1]
        moved = (x[i + 1], y[i + 1])
        if turn(top, moved, after) <= 0.0:
            continue
        hull.pop()
        while len(hull) > 1 and turn(moved, hull[-1], hull[-2]) <= 0.0:
            hull.pop()
        hull.append(moved)
    return np.clip(out, 0.0, 1.0)
