r"""Kernel logistic regression: on landmarks' features, a matrix of kernel values, or tiles of it.

With weights w, classes y and b, the log-odds of the classes' shares, f minimizes

.. math:: J(f) = \sum_i w_i\, \ell(b + f(x_i), y_i) + \tfrac{\lambda}{2} \|f\|^2,

the penalized log loss of one sigmoid or of a softmax. In the landmarks' coordinates it is
:math:`f = c^\top \phi`, on all rows :math:`f = \sum_i c_i k(x_i, \cdot)`; with
:math:`r_i = w_i (p_i - y_i)` the gradient has the coefficients :math:`\Phi^\top r + \lambda c`, or
:math:`r + \lambda c`. At f = 0 the loss has the same curvature h for every row. So one factor of
:math:`h\, \Phi^\top W \Phi + \lambda` preconditions all steps, for all held-out parts and for
nearby penalties; L-BFGS in the norm of the kernel learns the rest from changes of the gradient. The
function's values on the rows are updated with the coefficients, so that a line search needs no
product, and a step needs one with all kernel values.

Source: Nocedal 1980 (L-BFGS); Boehning 1992 (a fixed curvature as preconditioner).
"""

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from tunefree.core.blas import potrs
from tunefree.core.process import ALONE
from tunefree.kernel_ridge.full import Preconditioner, cholesky, valley
from tunefree.kernels.nystroem import accumulate, blocks
from tunefree.kernels.tiles import symmetric

# Steps and pairs at most; a line search ends where the slope is such a share of the first one.
_MOST, _PAIRS, _FLAT = 100, 10, 0.1
# Steps end when they gain fewer nats a row: while penalties are compared, and in the last fit.
_COMPARED, _ENOUGH = 1e-6, 1e-8
# If the first solution takes so many steps, the preconditioner is computed anew with its
# probabilities; every row has at least this curvature.
_PATIENCE, _LEAST = 20, 1e-3
# Penalties that are compared, as factors of that of least squares, and where the search starts.
_FACTORS = 10.0 ** np.arange(-3.0, 1.1, 0.5)
_MIDDLE = 4
# The number of folds.
_FOLDS = 5


def curvature(p):
    """The mean curvature of the loss of rows with these probabilities, of shape (n, k).

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


def _probabilities(scores):
    return expit(scores) if scores.shape[1] == 1 else softmax(scores, axis=1)


def _solver(gram, penalty):
    """A function that solves with a matrix plus a penalty."""
    A = cholesky(gram, penalty)
    return lambda q: potrs(A, q).astype(np.float64)


class OnLandmarks:
    """Functions of landmarks' features, which are cached if they are at most `memory` numbers.

    `rows(start, stop)` are transformed rows; features have their type of float.
    """

    def __init__(self, landmarks, rows, n, memory, team=ALONE):
        self.size, self.team = landmarks.size, team
        self.features, self._blocks = landmarks.features, blocks(landmarks, n)
        self._rows: Any = rows
        if self.size * n <= memory:
            features = team.map(lambda b: landmarks.features(rows(b.start, b.stop)), self._blocks)
            cache = dict(zip([b.start for b in self._blocks], features, strict=True))
            self.features, self._rows = cache.__getitem__, lambda start, _: start

    def _each(self, function):
        def part(block):
            F = self.features(self._rows(block.start, block.stop))
            return function(F, block).astype(np.float64)

        return self.team.each(part, self._blocks)

    def evaluate(self, c):
        """Values on the rows."""
        return np.concatenate(list(self._each(lambda F, _: F.T @ c.astype(F.dtype))))

    def combine(self, r):
        """The coefficients of the rows' multiples."""
        return sum(self._each(lambda F, b: F @ r[b].astype(F.dtype)))

    def dual(self, c, values):
        """The factor of other coefficients in the inner product of functions."""
        return c

    def preconditioner(self, weights, penalty):
        """A function that solves with weighted products plus a penalty."""
        none = np.zeros((len(weights), 1))
        sums = accumulate(self, self._rows, none, weights, team=self.team)
        return _solver(sums.second + np.triu(sums.second, 1).T, penalty)


class _OnRows:
    """Functions of as many coefficients as rows."""

    def combine(self, r):
        """The coefficients of the rows' multiples."""
        return r

    def dual(self, c, values):
        """The factor of other coefficients in the inner product of functions."""
        return values


class OnMatrix(_OnRows):
    """For few rows: the matrix of kernel values."""

    def __init__(self, values):
        self.values, self.size = values, len(values)

    def evaluate(self, c):
        """Values on the rows."""
        return (self.values @ c.astype(self.values.dtype)).astype(np.float64)

    def preconditioner(self, weights, penalty):
        """A function that maps U q to U times the inverse of U K U + penalty, times q."""
        root = np.sqrt(weights).astype(self.values.dtype)[:, None]
        solve = _solver(root * self.values * root.T, penalty)
        return lambda q: root * solve(q / root)


class OnTiles(_OnRows):
    """For many rows, in single precision: tiles of kernel values."""

    def __init__(self, centers, geometry, A, team=ALONE):
        self.centers, self.geometry, self.A = centers, geometry, A
        self.team, self.size = team, len(A)

    def evaluate(self, c):
        """Values on the rows."""
        return symmetric(self.geometry, self.A, c, self.team)

    def preconditioner(self, weights, penalty):
        """That of `OnMatrix`, approximated with landmarks and neighbours."""
        unit = weights.mean()
        weights = np.maximum(weights / unit, _LEAST)
        approximation = Preconditioner.of(
            self.centers, self.geometry, self.A, weights, penalty / unit, self.team
        )
        root = np.sqrt(weights)[:, None]
        return lambda q: root * approximation.solve(q / root) / unit


def minimize(space, penalty, Y, weights, offset, precondition, c, enough=_ENOUGH, most=_MOST):
    """Coefficients of least penalized loss, the function's values on the rows, and the steps.

    Parameters
    ----------
    space : part
        `OnLandmarks`, `OnMatrix` or `OnTiles`.
    penalty : float
    Y : ndarray of shape (n, k)
        1 for a row's class, else 0; of two classes the column of the second.
    weights : ndarray of shape (n,)
    offset : ndarray of shape (k,)
        Log-odds where the function is 0.
    precondition : callable
        The approximate inverse of the second derivative.
    c : ndarray of shape (m, k)
        The start.
    enough : float, default=1e-8
        Steps end when they gain less, in nats a row.
    most : int, default=100
    """
    w = weights[:, None]
    values = space.evaluate(c)
    least = enough * weights.sum()
    # Steps s with their values on the rows, changes of the gradient, and inner products.
    pairs: list[Any] = []
    step: Any = None
    for n_steps in range(most):
        r = w * (_probabilities(offset + values) - Y)
        gradient = space.combine(r) + penalty * c
        if step is not None:
            change = gradient - step[2]
            size = float((space.dual(*step[:2]) * change).sum())
            if size > 0.0:
                pairs = [*pairs[1 - _PAIRS :], (*step[:2], change, size)]
        d, shares = gradient, []
        for s, s_values, change, size in reversed(pairs):
            shares.append(float((space.dual(s, s_values) * d).sum()) / size)
            d = d - shares[-1] * change
        d = precondition(d)
        v = space.evaluate(d)
        for (s, s_values, change, size), share in zip(pairs, reversed(shares), strict=True):
            more = share - float((change * space.dual(d, v)).sum()) / size
            d, v = d + more * s, v + more * s_values
        dual = space.dual(d, v)
        slope = float((gradient * dual).sum())
        if not 0.5 * slope > least:
            return c, values, n_steps
        quadratic, linear = penalty * float((d * dual).sum()), penalty * float((c * dual).sum())
        t = _step_length(offset + values, v, Y, w, slope, quadratic, linear)
        step = -t * d, -t * v, gradient
        c, values = c + step[0], values + step[1]
    return c, values, most


def _step_length(scores, v, Y, w, first_slope, quadratic, linear):
    """The step length against v, by Newton's method with bisection.

    The penalty along the line is ``quadratic t^2 / 2 - linear t`` plus a constant.
    """
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(30):
        p = _probabilities(scores - t * v)
        slope = t * quadratic - linear - float((w * (p - Y) * v).sum())
        if abs(slope) <= _FLAT * first_slope:
            break
        low, high = (t, high) if slope < 0.0 else (low, t)
        mean = (p * v).sum(axis=1)
        second = quadratic + float(w[:, 0] @ ((p * v * v).sum(axis=1) - mean * mean))
        t -= slope / second if second > 0.0 else np.inf
        if not low < t < high:
            t = 2.0 * low if high == np.inf else 0.5 * (low + high)
    return t


def held_out_masks(Y, held, groups=None):
    """Masks of rows to hold out: the last `held`, or if these are all, folds by class or group.

    Examples
    --------
    >>> held_out_masks(np.array([[0.0], [0.0], [1.0]]), 1)
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
        fold[np.argsort(kind, kind="stable")] = np.arange(n)  # even within each class
    return [out for f in range(_FOLDS) if (out := fold % _FOLDS == f).any()]


def learn(space, penalty, Y, weights, offset, held_out):
    """Coefficients, held-out predictions, and the penalty that makes these best.

    `held_out` are masks of rows, `penalty` is that of least squares.
    """
    middle = penalty * _FACTORS[_MIDDLE]
    c = np.zeros((space.size, Y.shape[1]))
    starts = [c] * len(held_out)
    w = np.where(held_out[0], 0.0, weights)
    h = curvature(_probabilities(offset[None]))
    made = {_MIDDLE: space.preconditioner(h * weights, middle)}
    starts[0], values, n_steps = minimize(
        space, middle, Y, w, offset, made[_MIDDLE], c, _COMPARED, _PATIENCE
    )
    if n_steps == _PATIENCE:
        h = np.maximum(curvature(_probabilities(offset + values)), _LEAST)
        made = {_MIDDLE: space.preconditioner(h * weights, middle)}

    def preconditioner(i):
        # One of a smaller penalty overshoots where the kernel's eigenvalues are nearly 0. The loss
        # does not show it, and coefficients would grow until their sums have no digit left.
        i = max(i, _MIDDLE)
        if i not in made:
            made[i] = space.preconditioner(h * weights, penalty * _FACTORS[i])
        return made[i]

    def evaluate(i, best):
        predictions, coefs, precondition = np.zeros(Y.shape), [], preconditioner(i)
        for out, c in zip(held_out, best[2] if best else starts, strict=True):
            w = np.where(out, 0.0, weights)
            c, values, _ = minimize(
                space, penalty * _FACTORS[i], Y, w, offset, precondition, c, _COMPARED
            )
            predictions[out] = offset + values[out]
            coefs.append(c)
        out = np.any(held_out, axis=0)
        return float(weights[out] @ losses(predictions[out], Y[out])), i, coefs, predictions[out]

    _, i, coefs, predictions = valley(evaluate, _MIDDLE, len(_FACTORS))
    best = penalty * _FACTORS[i]
    c = minimize(space, best, Y, weights, offset, preconditioner(i), coefs[0])[0]
    return c, predictions, best
