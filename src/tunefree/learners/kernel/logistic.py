r"""Kernel logistic regression: on landmarks' features, a matrix of kernel values, or tiles of it.

With weights w, classes y and b, the log-odds of the classes' shares, f minimizes

.. math:: J(f) = \sum_i w_i\, \ell(b + f(x_i), y_i) + \tfrac{\lambda}{2} \|f\|^2,

the penalized log loss of one sigmoid or of a softmax. In the landmarks' coordinates it is
:math:`f = c^\top \phi`, on all rows :math:`f = \sum_i c_i k(x_i, \cdot)`; with
:math:`r_i = w_i (p_i - y_i)` the gradient has the coefficients :math:`\Phi^\top r + \lambda c`, or
:math:`r + \lambda c`. At f = 0 the loss bends every row alike, by h: a factor of
:math:`h\, \Phi^\top W \Phi + \lambda` leads all steps, for any rows left out and penalties nearby,
and changes of the gradient tell the rest (L-BFGS in the norm of the kernel). Values on the rows go
along with coefficients: a search along a line costs no product, a step one with all kernel values.

Source: Nocedal 1980 (L-BFGS); Boehning 1992 (a fixed curvature leads).
"""

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from tunefree._blas import potrs
from tunefree._threads import ALONE
from tunefree.learners.kernel.full import Preconditioner, lowered
from tunefree.learners.kernel.nystroem import accumulate, blocks
from tunefree.learners.kernel.tiles import symmetric

# Steps and pairs at most; a line ends where its slope is such a share of what it was.
_MOST, _PAIRS, _FLAT = 100, 10, 0.1
# A step gains so many nats a row or more: while penalties are compared, and in the end.
_LOOKED, _ENOUGH = 1e-6, 1e-8
# After so many steps from f = 0 a factor by the chances that they found leads; rows bend it by so
# much at least.
_PATIENCE, _LEAST = 20, 1e-3
# Penalties that are compared, over the one of least squares, and where they begin.
_FACTORS, _MIDDLE = 10.0 ** np.arange(-3.0, 1.1, 0.5), 4
# So many parts are left out by turns.
_FOLDS = 5


def curvature(p):
    """The mean curvature of the loss where rows have such chances, of shape (n, k).

    Examples
    --------
    >>> curvature(np.array([[0.5], [0.9]]))
    array([0.25, 0.09])
    """
    if p.shape[1] == 1:
        return p[:, 0] * (1.0 - p[:, 0])
    return (1.0 - np.square(p).sum(axis=1)) / (p.shape[1] - 1.0)


def losses(scores, Y):
    """-log p of the rows' classes, of log-odds; Y has 1 for the class of each output, else 0."""
    if scores.shape[1] == 1:
        return np.logaddexp(0.0, (1.0 - 2.0 * Y[:, 0]) * scores[:, 0])
    top = scores.max(axis=1, keepdims=True)
    return np.log(np.exp(scores - top).sum(axis=1)) - ((scores - top) * Y).sum(axis=1)


def _chances(scores):
    return expit(scores) if scores.shape[1] == 1 else softmax(scores, axis=1)


def _factor(gram, penalty):
    """What solves with a matrix and a penalty."""
    A = lowered(gram, penalty)
    return lambda q: potrs(A, q).astype(np.float64)


class OnLandmarks:
    """Functions in the coordinates of landmarks; features of up to `room` numbers are held.

    `rows(start, stop)` are placed rows, whose type of float features have.
    """

    def __init__(self, marks, rows, n, memory, team=ALONE):
        self.size, self.team = marks.size, team
        self._make, self._blocks = marks.features, blocks(marks, n)
        self._rows: Any = rows
        if self.size * n <= memory:
            held = team.map(lambda b: self._make(rows(b.start, b.stop)), self._blocks)
            known = dict(zip([b.start for b in self._blocks], held, strict=True))
            self._make, self._rows = known.__getitem__, lambda start, _: start

    def features(self, rows):
        """Features of a block, (m, n)."""
        return self._make(rows)

    def _each(self, function):
        def part(block):
            F = self.features(self._rows(block.start, block.stop))
            return function(F, block).astype(np.float64)

        return self.team.each(part, self._blocks)

    def see(self, c):
        """Values on the rows."""
        return np.concatenate(list(self._each(lambda F, _: F.T @ c.astype(F.dtype))))

    def back(self, r):
        """The sum of the rows' multiples."""
        return sum(self._each(lambda F, b: F @ r[b].astype(F.dtype)))

    def dual(self, c, values):
        """What multiplies coefficients in an inner product."""
        return c

    def leader(self, weights, penalty):
        """An approximate inverse of weighted products and a penalty."""
        n, none = len(weights), np.zeros((len(weights), 1))
        sums = accumulate(self, self._rows, n, none, weights, np.zeros(1), self.team)
        return _factor(sums.second + np.triu(sums.second, 1).T, penalty)


class _OnRows:
    """Functions of as many coefficients as rows."""

    def back(self, r):
        """The rows' multiples."""
        return r

    def dual(self, c, values):
        """What multiplies coefficients in an inner product."""
        return values


class OnMatrix(_OnRows):
    """Of few rows, by the matrix of kernel values."""

    def __init__(self, values):
        self.values, self.size = values, len(values)

    def see(self, c):
        """Values on the rows."""
        return (self.values @ c.astype(self.values.dtype)).astype(np.float64)

    def leader(self, weights, penalty):
        """The inverse of U K U + penalty, from U q to U times it."""
        root = np.sqrt(weights).astype(self.values.dtype)[:, None]
        solved = _factor(root * self.values * root.T, penalty)
        return lambda q: root * solved(q / root)


class OnTiles(_OnRows):
    """Of many rows in single precision, by tiles of kernel values that landmarks lead."""

    def __init__(self, centers, geometry, A, team=ALONE):
        self.centers, self.geometry, self.A = centers, geometry, A
        self.team, self.size = team, len(A)

    def see(self, c):
        """Values on the rows."""
        return symmetric(self.geometry, self.A, c, self.team)

    def leader(self, weights, penalty):
        """The same by landmarks and neighbours."""
        unit = weights.mean()
        weights = np.maximum(weights / unit, _LEAST)
        given = self.centers, self.geometry, self.A, weights, penalty / unit, self.team
        lead, root = Preconditioner.of(*given), np.sqrt(weights)[:, None]
        return lambda q: root * lead.solve(q / root) / unit


def minimize(space, penalty, Y, weights, offset, led, c, enough=_ENOUGH, most=_MOST):
    """Coefficients of the least penalized loss, the function's values on the rows, and the steps.

    Parameters
    ----------
    space : part
        `OnLandmarks`, `OnMatrix` or `OnTiles`.
    penalty : float
    Y : ndarray of shape (n, k)
        1 for a row's class, else 0; one column of two classes is that of the second.
    weights : ndarray of shape (n,)
    offset : ndarray of shape (k,)
        Log-odds where the function is 0.
    led : callable
        The approximate inverse of the second derivative.
    c : ndarray of shape (m, k)
        Where to start.
    enough : float, default=1e-8
        Steps end where they gain less, in nats a row.
    most : int, default=100
    """
    w, values, least = weights[:, None], space.see(c), enough * weights.sum()
    pairs: list[Any] = []
    step: Any = None
    for n_steps in range(most):
        r = w * (_chances(offset + values) - Y)
        slope = space.back(r) + penalty * c
        if step is not None:
            change = slope - step[2]
            size = float((space.dual(*step[:2]) * change).sum())
            if size > 0.0:
                pairs = [*pairs[1 - _PAIRS :], (*step[:2], change, size)]
        d, shares = slope, []
        for s, seen, change, size in reversed(pairs):
            shares.append(float((space.dual(s, seen) * d).sum()) / size)
            d = d - shares[-1] * change
        d = led(d)
        v = space.see(d)
        for (s, seen, change, size), share in zip(pairs, reversed(shares), strict=True):
            more = share - float((change * space.dual(d, v)).sum()) / size
            d, v = d + more * s, v + more * seen
        along = space.dual(d, v)
        steep = float((slope * along).sum())
        if not 0.5 * steep > least:
            return c, values, n_steps
        bend, lean = penalty * float((d * along).sum()), penalty * float((c * along).sum())
        t = _far(offset + values, v, Y, w, steep, bend, lean)
        step = -t * d, -t * v, slope
        c, values = c + step[0], values + step[1]
    return c, values, most


def _far(scores, v, Y, w, steep, bend, lean):
    """How far to go against v: Newton steps, halved into the bracket where they leave it."""
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(30):
        p = _chances(scores - t * v)
        slope = t * bend - lean - float((w * (p - Y) * v).sum())
        if abs(slope) <= _FLAT * steep:
            break
        low, high = (t, high) if slope < 0.0 else (low, t)
        mean = (p * v).sum(axis=1)
        curved = bend + float(w[:, 0] @ ((p * v * v).sum(axis=1) - mean * mean))
        t -= slope / curved if curved > 0.0 else np.inf
        if not low < t < high:
            t = 2.0 * low if high == np.inf else 0.5 * (low + high)
    return t


def parts(Y, held, groups=None):
    """Rows to leave out by turns, as masks: those held, or of all a fifth of each class or group.

    Examples
    --------
    >>> parts(np.array([[0.0], [0.0], [1.0]]), 1)
    [array([False, False,  True])]
    """
    n = len(Y)
    if held < n:
        return [np.arange(n) >= n - held]
    if groups is not None:
        fold = np.unique(groups, return_inverse=True)[1]
    else:
        kind = Y[:, 0] if Y.shape[1] == 1 else Y.argmax(axis=1)
        fold = np.empty(n, np.int64)
        fold[np.argsort(kind, kind="stable")] = np.arange(n)  # by turns within each class
    return [out for f in range(_FOLDS) if (out := fold % _FOLDS == f).any()]


def learn(space, penalty, Y, weights, offset, held_out):
    """Coefficients, what is said of the rows left out, and the penalty that says most of them.

    `left_out` are masks of rows, `penalty` is that of least squares.
    """
    middle, c = penalty * _FACTORS[_MIDDLE], np.zeros((space.size, Y.shape[1]))
    known, w = [c] * len(held_out), np.where(held_out[0], 0.0, weights)
    led = space.leader(curvature(_chances(offset[None])) * weights, middle)
    known[0], values, n_steps = minimize(space, middle, Y, w, offset, led, c, _LOOKED, _PATIENCE)
    if n_steps == _PATIENCE:
        h = np.maximum(curvature(_chances(offset + values)), _LEAST)
        led = space.leader(h * weights, middle)

    def heard(i, starts):
        predictions, found = np.zeros(Y.shape), []
        for out, c in zip(held_out, starts, strict=True):
            w = np.where(out, 0.0, weights)
            c, values, _ = minimize(space, penalty * _FACTORS[i], Y, w, offset, led, c, _LOOKED)
            predictions[out] = offset + values[out]
            found.append(c)
        out = np.any(held_out, axis=0)
        return float(weights[out] @ losses(predictions[out], Y[out])), i, found, predictions[out]

    best = heard(_MIDDLE, known)
    for way in (-1, 1):  # down while that is better, else up
        while 0 <= (i := best[1] + way) < len(_FACTORS):
            near = heard(i, best[2])
            if near[0] >= best[0]:
                break
            best = near
        if best[1] != _MIDDLE:
            break
    _, i, starts, predictions = best
    penalty *= _FACTORS[i]
    c = minimize(space, penalty, Y, weights, offset, led, starts[0])[0]
    return c, predictions, penalty
