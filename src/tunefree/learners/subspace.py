r"""Spectral mirror maps and projections from the leading singular values only.

A spectral potential asks for the singular values of a matrix at each step, but its inverse mirror
map is steep: with slope b at 0,

.. math:: \nabla\psi^{-1}(W) = bW + U_k\,(f(s_k) - b s_k)\,V_k' + \text{a tail}

and the tail is far below rounding once the values left out are moderate (beta (sinh s - s) for the
hypentropy, s^(q-1) for p-norms). The leading part comes from subspace iteration, which starts in
the range of the last parameters and a few random directions; the number of values grows until the
tail is small, and the iteration goes on until the residuals are. Both errors are estimated:

* residual i, W v_i - s_i u_i, counts with the divided difference (F(s_i) - F(s_k)) / (s_i - s_k) of
  F(s) = f(s) - b s, which is how far it can move the result;
* the tail is at most F(s_k) / s_k times the Frobenius norm of what is left of W.

If their sum does not fall below the tolerance, or too many values would be needed, or a norm cannot
be told from the leading values, all singular values are worked out.

Source: Boffi, Tu and Slotine 2021, section 6.2, for the maps; the rest is this library's.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from tunefree.constraints import LpBall, SchattenBall
from tunefree.learners.mirror_state import Configuration
from tunefree.potentials import Euclidean, Spectral

FEWEST = 200  # a smaller matrix has all its singular values worked out
TOLERANCE = 5e-7
_FIRST, _GUARDS = 16, 6  # directions from the last parameters; random ones, for what they lack
_ROUNDS = 12
_SHARE = 0.25  # of the values: more are not worth it


def of_singular_values(potential, constraint):
    """Whether a pair is about singular values alone, in a way that this module knows."""
    ball = isinstance(constraint, SchattenBall)
    if isinstance(potential, Spectral):
        return ball or constraint is None
    return ball and isinstance(potential, Euclidean)


class LowRank(Configuration):
    """A configuration of a spectral potential or a Schatten ball, by leading singular values."""

    __slots__ = ()

    def place(self, duals, near=None):
        """The predictors of duals of shape (members, k, d), and the duals of those predictors."""
        near = [None] * len(duals) if near is None else near
        placed = [
            place(dual, self.potential, self.constraint, last)
            for dual, last in zip(duals, near, strict=True)
        ]
        return np.array([theta for theta, _ in placed]), np.array([dual for _, dual in placed])


class _Answer(NamedTuple):
    """What leading singular values tell.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Singular values of the result, less those of slope times the dual.
    slope : float
        The multiple of the dual that is added.
    dual : ndarray of shape (k,), float
        Singular values of the new dual, or a factor of the old one.
    tail : float
        A bound of what is left out.
    size : float
        The result's Frobenius norm.
    """

    values: np.ndarray
    slope: float
    dual: object
    tail: float
    size: float


def place(dual, potential, constraint=None, near=None, tolerance=TOLERANCE):
    """The point of a dual, projected, and its dual.

    Parameters
    ----------
    dual : ndarray of shape (k, d)
    potential : potential
    constraint : constraint or None
    near : ndarray of shape (k, d), optional
        The last point: where to look for the leading singular vectors.
    tolerance : float, default=5e-7
        Largest relative error in Frobenius norm, as estimated.

    Returns
    -------
    theta, dual : ndarray of shape (k, d)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> one = np.outer(*rng.standard_normal((2, 300))) / 20.0
    >>> w = one + rng.standard_normal((300, 300)) / 100.0
    >>> theta, _ = place(w, Spectral(), near=one)
    >>> exact = Spectral().inverse(w)
    >>> bool(np.linalg.norm(theta - exact) < 1e-6 * np.linalg.norm(exact))
    True
    """
    base = _base(dual, potential, constraint)
    if base is not None and near is not None:
        found = _leading(dual, base, constraint, near, tolerance)
        if found is not None:
            return found
    if constraint is None:
        return potential.inverse(dual), dual
    return constraint.project(dual, potential)


def _base(dual, potential, constraint):
    """The potential of the singular values, where this module has something to say."""
    small = dual.ndim != 2 or min(dual.shape) < FEWEST
    if small or not of_singular_values(potential, constraint):
        return None
    base = potential.base if isinstance(potential, Spectral) else potential
    return base if hasattr(base, "metric_solve") and np.isfinite(np.vdot(dual, dual)) else None


def _leading(dual, base, ball, near, tolerance):
    """`place` by leading singular values, or None where they do not tell."""
    rng, count = np.random.default_rng(0), min(dual.shape)
    most, total = int(_SHARE * count), float(np.vdot(dual, dual))

    def directions(size):
        return near.T @ rng.standard_normal((len(near), size))

    fresh = rng.standard_normal((dual.shape[1], _GUARDS))
    image = dual @ np.linalg.qr(np.hstack([directions(min(_FIRST, most)), fresh]))[0]
    for _ in range(_ROUNDS):
        left, right, s = _turned(dual, image)
        image = dual @ right
        rest = np.sqrt(max(total - float(np.sum(s * s)), 0.0))
        answer = _answer(s, rest, count, base, ball)
        if answer is not None and answer.tail <= 0.5 * tolerance * answer.size:
            residuals = np.linalg.norm(image - left * s, axis=0)
            moves = _moves(s, answer.values, residuals) / answer.size
            if np.ndim(answer.dual):
                moves += _moves(s, answer.dual, residuals) / np.linalg.norm(answer.dual)
            if moves <= 0.5 * tolerance:
                return _assembled(dual, left, right, answer)
        elif len(s) >= most:
            return None
        else:
            more = directions(min(len(s) // 2, most - len(s)))
            image = dual @ np.linalg.qr(np.hstack([right, more]))[0]
    return None


def _turned(dual, image):
    """Half a round of subspace iteration: singular vectors and values as far as they are seen."""
    left = np.linalg.qr(image)[0]
    right = dual.T @ left
    squares, turn = np.linalg.eigh(right.T @ right)
    s = np.sqrt(np.maximum(squares[::-1], 1e-30 * squares[-1]))
    return left @ turn[:, ::-1], right @ turn[:, ::-1] / s, s


def _moves(s, values, residuals):
    """How far residuals of the singular vectors can move a function of the values."""
    gaps = np.maximum(s[:-1] - s[-1], 1e-3 * s[:-1])
    return np.linalg.norm((values[:-1] - values[-1]) / gaps * residuals[:-1])


def _answer(s, rest, count, base, ball):
    """What the leading values tell of all `count`, with the Frobenius norm of the rest."""
    k, all_values = len(s), np.concatenate([s, np.zeros(count - len(s))])
    theta = base.inverse(all_values)[:k]
    if not np.isfinite(theta).all():
        return None
    slope = float(base.metric_solve(np.zeros(1), np.ones(1))[0])
    values, left = theta - slope * s, count - k
    tail, size = values[-1] / s[-1] * rest, float(np.linalg.norm(theta))
    if ball is None:
        return _Answer(values, slope, 1.0, tail, size)
    # f(s) / s rises, so that the norm of the rest is at most this.
    beyond = theta[-1] / s[-1] * rest * left ** max(1.0 / ball.p - 0.5, 0.0)
    inner = LpBall(ball.p, ball.radius)
    norm = inner.size(theta)
    if norm + beyond <= ball.radius:
        return _Answer(values, slope, 1.0, tail, size)
    if norm <= ball.radius:
        return None
    if ball.p == 1.0:
        theta, dual = inner.project(all_values, base)
        if dual[k - 1] > 0.0:
            return None  # some of the rest may not be shrunk to zero
        return _Answer(theta[:k], 0.0, dual[:k], 0.0, float(np.linalg.norm(theta)))
    if slope == 0.0 and getattr(base, "exponent", lambda size: None)(count) == ball.p:
        scale = ball.radius / norm
        return _Answer(values * scale, 0.0, scale, (tail + beyond) * scale, size * scale)
    return None


def _assembled(dual, left, right, answer):
    theta = (left * answer.values) @ right.T
    if answer.slope:
        theta = daxpy(dual.ravel(), theta.ravel(), a=answer.slope).reshape(dual.shape)
    if np.ndim(answer.dual):
        return theta, (left * answer.dual) @ right.T
    return theta, dual if answer.dual == 1.0 else answer.dual * dual
