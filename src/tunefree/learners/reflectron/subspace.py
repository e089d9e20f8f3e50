r"""Spectral mirror maps and projections from the leading singular values only.

A spectral potential asks for the singular values of a matrix at each step, but its inverse mirror
map f is steep: above a few values s_k it dwarfs what a multiple of the matrix itself leaves out,

.. math:: \nabla\psi^{-1}(W) = cW + W V_k\,(f(s_k)/s_k - c)\,V_k' + \text{a tail}.

With c in the middle between f(s)/s at 0 and at the largest s left out, the tail is at most half
that difference times the Frobenius norm of what is left of W: below rounding once s_k is moderate.
The directions V_k come from subspace iteration, which starts in the range of the last parameters
and a few random directions. Their number grows until the tail is small, and the iteration goes on
until the residuals are. Because W itself stands on the left, a residual E = (I - U U') W of the
subspace counts only by its square:

    E'E changes W'W, and f(s)/s = phi(s^2), by (phi_i - phi_k) / (s_i^2 - s_k^2) v_i v_i' E'E.

The first products only look for a subspace, so they are made in single precision. If the sum of
both estimates does not fall below the tolerance, or too many values would be needed, or a norm
cannot be told from the leading values, all singular values are worked out.

Source: Boffi, Tu and Slotine 2021, section 6.2, for the maps; the rest is this library's.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from tunefree.constraints import LpBall
from tunefree.learners.reflectron.mirror import Configuration, of_singular_values
from tunefree.potentials import Spectral

FEWEST = 200  # a smaller matrix has all its singular values worked out
TOLERANCE = 1e-6
_FIRST, _GUARDS = 40, 6  # directions from the last parameters; random ones, for what they lack
_ROUNDS = 12
_SHARE = 0.3  # of the values: more are not worth it
_TAIL = 0.75  # of the tolerance may be the tail's
# The smallest values found are too small; what is left reaches about up to the one at this share.
_EDGE = 0.8


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
    """What k leading singular values tell.

    `factors` are singular values of the result, less those of `slope` times the dual, over those
    of the dual; `dual` has those of the new dual in the same sense, or one factor of the whole;
    `tail` bounds what is left out, and `size` is the result's Frobenius norm.
    """

    factors: np.ndarray
    slope: float
    dual: Any
    tail: float
    size: float


def place(dual, potential, constraint=None, near=None, tolerance=TOLERANCE):
    """The point of a dual, projected, and its dual, to a relative error in Frobenius norm.

    `near`, the last point, tells where to look for the leading singular vectors.
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
    return base if hasattr(base, "metric_solve") and 0.0 < np.vdot(dual, dual) < np.inf else None


def _leading(dual, base, ball, near, tolerance):
    """`place` by leading singular values, or None where they do not tell."""
    count, total = min(dual.shape), float(np.vdot(dual, dual))
    most, seek = int(_SHARE * count), _seeker(dual, near)
    left = seek(min(_FIRST, most))
    right = dual.T @ left
    for _ in range(_ROUNDS):
        s, left, right = _turned(left, right)
        rest = np.sqrt(max(total - float(np.sum(s * s)), 0.0))
        answer = _answer(s, rest, count, base, ball)
        excess = np.inf if answer is None else answer.tail / (_TAIL * tolerance * answer.size)
        if answer is not None and excess <= 1.0:
            image = dual @ right
            residuals = np.linalg.norm(image - left * s, axis=0)
            moves = _moves(s, answer.factors, residuals) / answer.size
            if np.ndim(answer.dual):
                moves += _moves(s, answer.dual, residuals) / np.linalg.norm(answer.dual * s)
            if answer.tail / answer.size + moves <= tolerance:
                return _assembled(dual, image, right, answer)
            left = np.linalg.qr(image)[0]
            right = dual.T @ left
        elif len(s) >= most:
            return None
        else:
            more = seek(_missing(s, rest, excess, most), left, right)
            left, right = np.hstack([left, more]), np.hstack([right * s, dual.T @ more])
    return None


def _seeker(dual, near):
    """What finds left singular directions: a step and a half of subspace iteration."""
    rng, single = np.random.default_rng(0), np.float32

    def narrowed(a):
        return (a / max(np.abs(a).max(), 1e-300)).astype(single)

    w, last = narrowed(dual), narrowed(near)

    def seek(size, left=None, right=None):
        """So many more left directions; those known stay out."""
        x = last.T @ rng.standard_normal((len(last), size), dtype=single)
        fresh = rng.standard_normal((len(x), _GUARDS), dtype=single)
        if right is not None:
            x = x - right.astype(single) @ (right.T.astype(single) @ x)
        image = np.linalg.qr(w @ np.hstack([x, fresh * (np.abs(x).max() or 1.0)]))[0]
        image = w @ (w.T @ image)
        known = image[:, :0] if left is None else left
        return np.linalg.qr(np.hstack([known, image]).astype(float))[0][:, known.shape[1] :]

    return seek


def _missing(s, rest, excess, most):
    """How many more values are needed, if they fall on as fast as the rest says."""
    k = len(s)
    # Values s_k exp(-i / length) have this length; the tail falls about like their cube.
    length = 2.0 * (rest / s[_edge(s)]) ** 2
    more = length * np.log(1.4 * min(excess, 1e6)) / 3.0
    return int(min(max(more, k // 3), 3 * k, most - k))


def _turned(left, right):
    """Singular values and vectors of a matrix as far as left directions see it."""
    squares, turn = np.linalg.eigh(right.T @ right)
    s = np.sqrt(np.maximum(squares[::-1], 1e-30 * squares[-1]))
    return s, left @ turn[:, ::-1], right @ turn[:, ::-1] / s


def _moves(s, factors, residuals):
    """How far residuals of the singular vectors can move a function of the values."""
    edge = _edge(s)
    gaps = np.maximum(np.abs((s - s[edge]) * (s + s[edge])), 1e-3 * s * s)
    return s[edge] * np.linalg.norm(s * (factors - factors[edge]) / gaps * residuals)


def _edge(s):
    """Which value is as large as all that is left."""
    return int(_EDGE * (len(s) - 1))


def _answer(s, rest, count, base, ball):
    """What the leading values tell of all `count`, with the Frobenius norm of the rest."""
    k, all_values = len(s), np.concatenate([s, np.zeros(count - len(s))])
    theta = base.inverse(all_values)[:k]
    if not np.isfinite(theta).all():
        return None
    slope = float(base.metric_solve(np.zeros(1), np.ones(1))[0])
    edge = _edge(s)
    last = theta[edge] / s[edge]  # f(s) / s rises, from the slope to this
    middle = 0.5 * (slope + last) if slope > 0.0 else 0.0
    factors, tail = theta / s - middle, (last - middle) * rest
    size, left = float(np.linalg.norm(theta)), count - k
    if ball is None:
        return _Answer(factors, middle, 1.0, tail, size)
    # The norm of the rest is at most this.
    beyond = last * rest * left ** max(1.0 / ball.p - 0.5, 0.0)
    inner = LpBall(ball.p, ball.radius)
    norm = inner.size(theta)
    if norm + beyond <= ball.radius:
        return _Answer(factors, middle, 1.0, tail, size)
    if norm <= ball.radius:
        return None
    if ball.p == 1.0:
        theta, dual = inner.project(all_values, base)
        if dual[edge] > 0.0:
            return None  # some of the rest may not be shrunk to zero
        return _Answer(theta[:k] / s, 0.0, dual[:k] / s, 0.0, float(np.linalg.norm(theta)))
    if slope == 0.0 and getattr(base, "exponent", lambda size: None)(count) == ball.p:
        scale = ball.radius / norm
        return _Answer(factors * scale, 0.0, scale, (tail + beyond) * scale, size * scale)
    return None


def _assembled(dual, image, right, answer):
    theta = (image * answer.factors) @ right.T
    if answer.slope:
        theta = daxpy(dual.ravel(), theta.ravel(), a=answer.slope).reshape(dual.shape)
    if np.ndim(answer.dual):
        return theta, (image * answer.dual) @ right.T
    return theta, dual if answer.dual == 1.0 else answer.dual * dual
