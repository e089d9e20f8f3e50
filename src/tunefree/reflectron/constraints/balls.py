"""Balls of norms of vectors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from tunefree.reflectron.constraints.rules import (
    by_norm,
    check_radius,
    is_odd,
    is_separable,
    no_rule,
    on_singular_values,
    shrink,
)

_NEWTON_STEPS = 60  # five are usual
_STEP = 1e-6
_FARTHEST = 80.0


@dataclass(frozen=True)
class L1Ball:
    """Vectors whose absolute values sum to at most a radius.

    Parameters
    ----------
    radius : float > 0

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from tunefree.reflectron.potentials import Euclidean
    >>> L1Ball(1.0).project(np.array([2.0, -1.5]), Euclidean())[0]
    array([ 0.75, -0.25])
    """

    radius: float = 1.0

    def __post_init__(self):
        check_radius(self.radius)

    def project(self, dual: np.ndarray, potential: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nearest point of the set, and its dual."""
        if not is_odd(potential):
            raise no_rule(
                self, potential, "use Simplex with the entropy, NuclearBall with Spectral"
            )
        theta = potential.inverse(dual)
        if np.sum(np.abs(theta)) <= self.radius:
            return theta, dual
        dual = np.copysign(shrink(np.abs(dual), self.radius, potential), dual)
        return potential.inverse(dual), dual

    def contains(self, theta: np.ndarray, tolerance: float = 1e-9) -> bool:
        """Whether a point is in the set, up to a relative tolerance."""
        return bool(np.sum(np.abs(theta)) <= self.radius * (1.0 + tolerance))

    def size(self, theta: np.ndarray) -> float:
        """The norm that the ball bounds."""
        return float(np.sum(np.abs(theta)))

    def scaled(self, factor: float) -> "L1Ball":
        """The set times a factor."""
        return L1Ball(self.radius * factor)


@dataclass(frozen=True)
class LpBall:
    """Vectors of p-norm at most a radius, p >= 1.

    Parameters
    ----------
    p : float >= 1
    radius : float > 0

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from tunefree.reflectron.potentials import Euclidean
    >>> LpBall(2.0, 1.0).project(np.array([3.0, -4.0]), Euclidean())[0]
    array([ 0.6, -0.8])
    """

    p: float = 2.0
    radius: float = 1.0

    def __post_init__(self):
        check_radius(self.radius)
        if not (isinstance(self.p, int | float) and 1.0 <= self.p < np.inf):
            raise ValueError(f"p={self.p!r} is not a number of at least 1.")

    def size(self, theta: np.ndarray) -> float:
        """The norm that the ball bounds."""
        top = float(np.max(np.abs(theta), initial=0.0))
        if not 0.0 < top < np.inf:
            return top
        return top * float(np.sum((np.abs(theta) / top) ** self.p)) ** (1.0 / self.p)

    def project(self, dual: np.ndarray, potential: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nearest point of the set, and its dual."""
        if self.p == 1.0:
            return L1Ball(self.radius).project(dual, potential)
        if hasattr(potential, "base") and self.p == 2.0:
            return on_singular_values(self, dual, potential.base)
        if not is_odd(potential):
            raise no_rule(
                self, potential, "use Simplex with the entropy, SchattenBall with Spectral"
            )
        theta = potential.inverse(dual)
        size = self.size(theta)
        if size <= self.radius:
            return theta, dual
        own = potential.exponent(dual.size) if hasattr(potential, "exponent") else None
        if own == self.p:  # half the square of the ball's own norm
            return theta * (self.radius / size), dual * (self.radius / size)
        if not is_separable(potential):
            return by_norm(self, dual, potential)
        dual = np.copysign(self._pull(np.abs(dual), potential), dual)
        return potential.inverse(dual), dual

    def _pull(self, a, potential):
        """The sizes v with v + mu inverse(v)^(p-1) = a for every entry, and mu for the radius.

        In t = log inverse(v) it is log(mirror(e^t) + mu e^((p-1) t)) = log a, whose left side is
        smooth and nearly linear. Either term alone gives an upper bound, less than log 2 too large.
        """
        positive = a > 0.0
        size, power = a[positive], self.p - 1.0
        with np.errstate(over="ignore"):
            alone = np.log(potential.inverse(size))

        def solve(mu):
            high = np.minimum(alone, (np.log(size) - np.log(mu)) / power)
            t, low = high, np.full_like(high, -np.inf)
            for _ in range(_NEWTON_STEPS):
                x = np.exp(t)
                v, pull = potential.mirror(x), mu * np.exp(power * t)
                off = np.log((v + pull) / size)
                low, high = np.where(off < 0.0, t, low), np.where(off < 0.0, high, t)
                if np.max(np.abs(off)) <= 1e-14:
                    break
                rise = (potential.mirror(x * (1.0 + _STEP)) - v) / _STEP
                slope = (rise + power * pull) / (v + pull)
                t = t - off / slope
                t = np.where((t >= low) & (t <= high), t, 0.5 * (np.maximum(low, t) + high))
            out = np.zeros_like(a)
            out[positive] = v
            return out

        def excess(log_mu):
            return self.size(potential.inverse(solve(np.exp(log_mu)))) / self.radius - 1.0

        # The bracket of the root starts where mu alone would bring the largest entry inside.
        log_mu = float(np.log(np.max(a)) - (self.p - 1.0) * np.log(self.radius))
        low = high = log_mu
        while excess(low) < 0.0:
            low -= 2.0
            if low < log_mu - _FARTHEST:  # outside by no more than rounding
                return a
        while excess(high) > 0.0:
            high += 2.0
        return solve(
            np.exp(optimize.brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=200))
        )

    def contains(self, theta: np.ndarray, tolerance: float = 1e-9) -> bool:
        """Whether a point is in the set, up to a relative tolerance."""
        return bool(self.size(theta) <= self.radius * (1.0 + tolerance))

    def scaled(self, factor: float) -> "LpBall":
        """The set times a factor."""
        return LpBall(self.p, self.radius * factor)


def L2Ball(radius: float = 1.0) -> LpBall:
    """Vectors of Euclidean norm at most a radius: ``LpBall(2.0, radius)``.

    Parameters
    ----------
    radius : float > 0

    Returns
    -------
    LpBall

    Examples
    --------
    >>> L2Ball(3.0)
    LpBall(p=2.0, radius=3.0)
    """
    return LpBall(2.0, radius)
