r"""Spectral mirror maps and projections from the leading singular values only.

A spectral potential needs the singular values of a matrix at each step. But its inverse mirror map
f is steep: a few leading values s_k and a multiple of the matrix itself give nearly all of it,

.. math:: \nabla\psi^{-1}(W) = cW + W V_k\,(f(s_k)/s_k - c)\,V_k' + \text{a tail}.

With c midway between f(s)/s at 0 and at the largest of the remaining s, the tail is at most half
that difference times the Frobenius norm of the rest of W: below rounding if s_k is moderate.
The directions V_k come from subspace iteration, which starts in the range of the last parameters
and a few random directions. Directions are added until the tail is small; the iteration continues
until the residuals are. Because W itself is the left factor, a residual E = (I - U U') W of the
subspace counts only by its square:

    E'E changes W'W, and f(s)/s = phi(s^2), by (phi_i - phi_k) / (s_i^2 - s_k^2) v_i v_i' E'E.

The first products only search for a subspace, so they are in single precision. All singular values
are computed if the sum of both estimates does not fall below the tolerance, if too many values
would be needed, or if a norm does not follow from the leading values.

Source: Boffi, Tu and Slotine 2021, section 6.2, for the maps; the rest is this library's.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from tunefree.reflectron.constraints import LpBall
from tunefree.reflectron.mirror import Configuration, of_singular_values, paired
from tunefree.reflectron.potentials import Spectral

FEWEST = 200  # of a smaller matrix all singular values are computed
TOLERANCE = 1e-6
_FIRST, _GUARDS = 40, 6  # directions from the last parameters, and random ones
_ROUNDS = 12
_SHARE = 0.3  # of the values: with more, computing all is faster
_TAIL = 0.75  # share of the tolerance for the tail
# The smallest values found are too small: the largest of the rest is about the one at this share.
_EDGE = 0.8


class LowRank(Configuration):
    """A configuration of a spectral potential or a Schatten ball, by leading singular values."""

    __slots__ = ()

    def place(self, duals, near=None):
        """The predictors of duals of shape (members, k, d), and the duals of those predictors."""
        near = [None] * len(duals) if near is None else near
        return paired(
            place(dual, self.potential, self.constraint, last)
            for dual, last in zip(duals, near, strict=True)
        )


class _Answer(NamedTuple):
    """The result by k leading singular values."""

    factors: np.ndarray  # (f(s) - slope s) / s: singular values of the result over the dual's
    slope: float  # c: the multiple of the dual itself
    dual: Any  # the same factors for the new dual, or one factor for the whole matrix
    tail: float  # bound of the rest
    size: float  # Frobenius norm of the result


def place(dual, potential, constraint=None, near=None):
    """The point of a dual, projected, and its dual, to a relative error in Frobenius norm.

    The search for the leading singular vectors starts from `near`, the last point.
    """
    base = _base(dual, potential, constraint)
    if base is not None and near is not None:
        found = _leading(dual, base, constraint, near)
        if found is not None:
            return found
    if constraint is None:
        return potential.inverse(dual), dual
    return constraint.project(dual, potential)


def _base(dual, potential, constraint):
    """The potential of the singular values, where this module applies; else None."""
    small = dual.ndim != 2 or min(dual.shape) < FEWEST
    if small or not of_singular_values(potential, constraint):
        return None
    base = potential.base if isinstance(potential, Spectral) else potential
    return base if hasattr(base, "metric_solve") and 0.0 < np.vdot(dual, dual) < np.inf else None


def _leading(dual, base, ball, near):
    """`place` by leading singular values, or None where these are not enough."""
    count, total = min(dual.shape), float(np.vdot(dual, dual))
    most, seek = int(_SHARE * count), _seeker(dual, near)
    left = seek(min(_FIRST, most))
    right = dual.T @ left
    for _ in range(_ROUNDS):
        s, left, right = _turned(left, right)
        rest = np.sqrt(max(total - float(np.sum(s * s)), 0.0))
        answer = _answer(s, rest, count, base, ball)
        excess = np.inf if answer is None else answer.tail / (_TAIL * TOLERANCE * answer.size)
        if answer is not None and excess <= 1.0:
            image = dual @ right
            residuals = np.linalg.norm(image - left * s, axis=0)
            error = _residual_error(s, answer.factors, residuals) / answer.size
            if np.ndim(answer.dual):
                change = _residual_error(s, answer.dual, residuals)
                error += change / np.linalg.norm(answer.dual * s)
            if answer.tail / answer.size + error <= TOLERANCE:
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
    """A function that finds left singular directions: 1.5 steps of subspace iteration."""
    rng, single = np.random.default_rng(0), np.float32

    def narrowed(a):
        return (a / max(np.abs(a).max(), 1e-300)).astype(single)

    w, last = narrowed(dual), narrowed(near)

    def seek(size, left=None, right=None):
        """More left directions, `size` and a few random ones, beyond those in `left`."""
        x = last.T @ rng.standard_normal((len(last), size), dtype=single)
        fresh = rng.standard_normal((len(x), _GUARDS), dtype=single)
        if right is not None:
            x = x - right.astype(single) @ (right.T.astype(single) @ x)
        image = np.linalg.qr(w @ np.hstack([x, fresh * (np.abs(x).max() or 1.0)]))[0]
        image = w @ (w.T @ image)
        found = image[:, :0] if left is None else left
        return np.linalg.qr(np.hstack([found, image]).astype(float))[0][:, found.shape[1] :]

    return seek


def _missing(s, rest, excess, most):
    """How many more values are needed, if they fall as fast as the rest suggests."""
    k = len(s)
    # Values that fall like s_k exp(-i / length) have this length; the tail falls about like s^3.
    length = 2.0 * (rest / s[_edge(s)]) ** 2
    more = length * np.log(1.4 * min(excess, 1e6)) / 3.0
    return int(min(max(more, k // 3), 3 * k, most - k))


def _turned(left, right):
    """Singular values and vectors of a matrix projected onto left directions."""
    squares, rotation = np.linalg.eigh(right.T @ right)
    s = np.sqrt(np.maximum(squares[::-1], 1e-30 * squares[-1]))
    return s, left @ rotation[:, ::-1], right @ rotation[:, ::-1] / s


def _residual_error(s, factors, residuals):
    """The error of a function of the values due to residuals of the singular vectors."""
    edge = _edge(s)
    gaps = np.maximum(np.abs((s - s[edge]) * (s + s[edge])), 1e-3 * s * s)
    return s[edge] * np.linalg.norm(s * (factors - factors[edge]) / gaps * residuals)


def _edge(s):
    """The index of the value that bounds all of the rest."""
    return int(_EDGE * (len(s) - 1))


def _answer(s, rest, count, base, ball):
    """The `_Answer` by leading values of `count`, given the Frobenius norm of the rest; or None."""
    k, all_values = len(s), np.concatenate([s, np.zeros(count - len(s))])
    theta = base.inverse(all_values)[:k]
    if not np.isfinite(theta).all():
        return None
    slope = float(base.metric_solve(np.zeros(1), np.ones(1))[0])
    edge = _edge(s)
    last = theta[edge] / s[edge]  # f(s) / s rises from the slope to this value
    middle = 0.5 * (slope + last) if slope > 0.0 else 0.0
    factors, tail = theta / s - middle, (last - middle) * rest
    size, n_rest = float(np.linalg.norm(theta)), count - k
    if ball is None:
        return _Answer(factors, middle, 1.0, tail, size)
    # The norm of the rest is at most this.
    beyond = last * rest * n_rest ** max(1.0 / ball.p - 0.5, 0.0)
    inner = LpBall(ball.p, ball.radius)
    norm = inner.size(theta)
    if norm + beyond <= ball.radius:
        return _Answer(factors, middle, 1.0, tail, size)
    if norm <= ball.radius:
        return None
    if ball.p == 1.0:
        theta, dual = inner.project(all_values, base)
        if dual[edge] > 0.0:
            return None  # some of the rest may not shrink to zero
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
