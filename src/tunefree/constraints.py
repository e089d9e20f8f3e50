r"""Constraints: convex sets, and Bregman projections onto them.

``project(dual, potential)`` returns the point of the set that is nearest to potential.inverse(dual)
in the potential's divergence, and the dual of that point. The dual is the state of the learner: it
is shrunk or clipped, never rebuilt from the point.

============  ==============================  ==================================================
name          set                             rule: the new dual is
============  ==============================  ==================================================
l1            sum |x| <= radius               w shrunk towards 0 by a constant
l2, lp        ||x||_p <= radius               w scaled, or v with v + mu |x(v)|^(p-1) = |w|
simplex       x >= 0, sum x = total           (w - nu)+; w - nu for the entropy
non-negative  x >= 0                          w+
box           low <= x <= high                w clipped
nuclear       sum of singular values          the l1 rule on singular values
Schatten      ||singular values||_p           the lp rule on singular values
============  ==============================  ==================================================

The shrinking rule is the optimality condition grad psi(x) = w - tau s, s in d||x||_1, for every
potential whose gradient keeps signs and zeros, separable or not: ||x(tau)||_1 decreases in tau, so
a one-dimensional root is all that is left.

Source: Boffi, Tu and Slotine 2021, eq. 8; Michelot 1986 and Duchi et al. 2008 for the l1 ball; the
p-norm's rule is this library's.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

_HALVINGS = 64


def _no_rule(constraint, potential, instead):
    return ValueError(
        f"There is no rule to project onto {constraint!r} with the potential {potential!r}: "
        f"{instead}."
    )


def _check_radius(radius, name="radius"):
    if not (isinstance(radius, int | float | np.number) and 0.0 < radius < np.inf):
        raise ValueError(f"{name}={radius!r} is not a positive number.")


def _is_odd(potential):
    return getattr(potential, "odd", False)


def _is_separable(potential):
    return getattr(potential, "separable", False)


def _shrink(a, radius, potential):
    """Shrink a >= 0 by the constant that makes the l1 norm of its inverse the radius."""
    if hasattr(potential, "l1_shrink"):
        return potential.l1_shrink(a, radius)

    def excess(tau):
        size = np.sum(np.abs(potential.inverse(np.maximum(a - tau, 0.0))))
        return min(size, 1e300) / radius - 1.0

    tau = brentq(excess, 0.0, float(np.max(a)), xtol=1e-300, rtol=1e-15, maxiter=500)
    return np.maximum(a - tau, 0.0)


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
    >>> from tunefree.potentials import Euclidean
    >>> L1Ball(1.0).project(np.array([2.0, -1.5]), Euclidean())[0]
    array([ 0.75, -0.25])
    """

    radius: float = 1.0

    def __post_init__(self):
        _check_radius(self.radius)

    def project(self, dual, potential):
        """The nearest point of the set, and its dual."""
        if not _is_odd(potential):
            raise _no_rule(
                self, potential, "use Simplex with the entropy, NuclearBall with Spectral"
            )
        theta = potential.inverse(dual)
        if np.sum(np.abs(theta)) <= self.radius:
            return theta, dual
        dual = np.copysign(_shrink(np.abs(dual), self.radius, potential), dual)
        return potential.inverse(dual), dual

    def contains(self, theta, tolerance=1e-9):
        """Whether a point is in the set, up to a relative tolerance."""
        return bool(np.sum(np.abs(theta)) <= self.radius * (1.0 + tolerance))

    def size(self, theta):
        """The norm that the ball bounds."""
        return float(np.sum(np.abs(theta)))


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
    >>> from tunefree.potentials import Euclidean
    >>> LpBall(2.0, 1.0).project(np.array([3.0, -4.0]), Euclidean())[0]
    array([ 0.6, -0.8])
    """

    p: float = 2.0
    radius: float = 1.0

    def __post_init__(self):
        _check_radius(self.radius)
        if not (isinstance(self.p, int | float) and 1.0 <= self.p < np.inf):
            raise ValueError(f"p={self.p!r} is not a number of at least 1.")

    def size(self, theta):
        """The norm that the ball bounds."""
        top = float(np.max(np.abs(theta), initial=0.0))
        if not 0.0 < top < np.inf:
            return top
        return top * float(np.sum((np.abs(theta) / top) ** self.p)) ** (1.0 / self.p)

    def project(self, dual, potential):
        """The nearest point of the set, and its dual."""
        if self.p == 1.0:
            return L1Ball(self.radius).project(dual, potential)
        if hasattr(potential, "base") and self.p == 2.0:
            return SchattenBall(2.0, self.radius).project(dual, potential)
        if not _is_odd(potential):
            raise _no_rule(
                self, potential, "use Simplex with the entropy, SchattenBall with Spectral"
            )
        theta = potential.inverse(dual)
        size = self.size(theta)
        if size <= self.radius:
            return theta, dual
        own = potential.exponent(dual.size) if hasattr(potential, "exponent") else None
        if own == self.p:  # half the square of the ball's own norm
            return theta * (self.radius / size), dual * (self.radius / size)
        if not _is_separable(potential):
            raise _no_rule(self, potential, f"use LpBall(p={own:g}) or L1Ball")
        dual = np.copysign(self._pull(np.abs(dual), potential), dual)
        return potential.inverse(dual), dual

    def _pull(self, a, potential):
        """Solve v + mu inverse(v)^(p-1) = a for every entry, and mu for the radius."""

        def solve(mu):
            low, high = np.zeros_like(a), a.copy()
            for _ in range(_HALVINGS):
                v = 0.5 * (low + high)
                below = v + mu * potential.inverse(v) ** (self.p - 1.0) < a
                low, high = np.where(below, v, low), np.where(below, high, v)
            return 0.5 * (low + high)

        def excess(log_mu):
            return self.size(potential.inverse(solve(np.exp(log_mu)))) / self.radius - 1.0

        # The root is bracketed by doubling from where mu alone would bring the largest entry in.
        log_mu = float(np.log(np.max(a)) - (self.p - 1.0) * np.log(self.radius))
        low = high = log_mu
        while excess(low) < 0.0:
            low -= 2.0
        while excess(high) > 0.0:
            high += 2.0
        return solve(np.exp(brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=200)))

    def contains(self, theta, tolerance=1e-9):
        """Whether a point is in the set, up to a relative tolerance."""
        return bool(self.size(theta) <= self.radius * (1.0 + tolerance))


def L2Ball(radius=1.0):
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


@dataclass(frozen=True)
class Simplex:
    """Non-negative vectors with a given sum.

    Parameters
    ----------
    total : float > 0

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from tunefree.potentials import Euclidean
    >>> Simplex().project(np.array([1.5, 1.0, -2.0]), Euclidean())[0]
    array([0.75, 0.25, 0.  ])
    """

    total: float = 1.0

    def __post_init__(self):
        _check_radius(self.total, "total")

    def project(self, dual, potential):
        """The nearest point of the set, and its dual."""
        if not _is_odd(potential):
            if hasattr(potential, "base") or not hasattr(potential, "simplex"):
                raise _no_rule(self, potential, "use Entropy, Euclidean, PNorm or Hypentropy")
            dual = dual - logsumexp(dual) + np.log(self.total)
            return np.exp(dual), dual
        # A shift of the whole dual does not change the answer: one with a larger sum is shrunk.
        shift = float(np.max(np.abs(potential.mirror(np.full(dual.shape, self.total / dual.size)))))
        raised = dual - np.min(dual) + shift
        while np.sum(potential.inverse(raised)) < self.total:
            shift *= 2.0
            raised = dual - np.min(dual) + shift
        dual = _shrink(raised, self.total, potential)
        return potential.inverse(dual), dual

    def contains(self, theta, tolerance=1e-9):
        """Whether a point is in the set, up to a relative tolerance."""
        gap = abs(float(np.sum(theta)) - self.total)
        return bool(np.min(theta) >= 0.0 and gap <= self.total * tolerance)


@dataclass(frozen=True)
class NonNegative:
    """Vectors without negative entries.

    Examples
    --------
    >>> from tunefree.potentials import Euclidean
    >>> NonNegative().project(np.array([1.5, -2.0]), Euclidean())[0]
    array([1.5, 0. ])
    """

    def dual_bounds(self, potential):
        """Where the set bounds each dual on its own: the bounds; None if it does not."""
        if hasattr(potential, "simplex"):
            return -np.inf, np.inf
        return (0.0, np.inf) if _is_odd(potential) else None

    def project(self, dual, potential):
        """The nearest point of the set, and its dual."""
        bounds = self.dual_bounds(potential)
        if bounds is None:
            raise _no_rule(self, potential, "use a potential of the entries")
        dual = np.maximum(dual, bounds[0])
        return potential.inverse(dual), dual

    def contains(self, theta, tolerance=1e-9):
        """Whether a point is in the set."""
        return bool(np.min(theta) >= 0.0)


@dataclass(frozen=True)
class Box:
    """Vectors whose entries lie between two bounds; an infinite bound is none.

    Parameters
    ----------
    low, high : float

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from tunefree.potentials import Euclidean
    >>> Box(-1.0, 1.0).project(np.array([1.5, -0.5]), Euclidean())[0]
    array([ 1. , -0.5])
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self):
        if not self.low < self.high:
            raise ValueError(f"low={self.low!r} is not below high={self.high!r}.")

    def dual_bounds(self, potential):
        """Where the set bounds each dual on its own: the bounds; None if it does not."""
        if not (_is_separable(potential) and _is_odd(potential)):
            return None
        return tuple(potential.mirror(np.array([self.low, self.high], dtype=float)))

    def project(self, dual, potential):
        """The nearest point of the set, and its dual."""
        bounds = self.dual_bounds(potential)
        if bounds is None:
            raise _no_rule(self, potential, "use a separable one (Euclidean, Hypentropy, Power)")
        dual = np.clip(dual, *bounds)
        return np.clip(potential.inverse(dual), self.low, self.high), dual

    def contains(self, theta, tolerance=1e-9):
        """Whether a point is in the set."""
        return bool(np.min(theta) >= self.low and np.max(theta) <= self.high)


@dataclass(frozen=True)
class SchattenBall:
    """Matrices whose singular values have p-norm at most a radius.

    Parameters
    ----------
    p : float >= 1
    radius : float > 0

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from tunefree.potentials import Euclidean
    >>> SchattenBall(1.0, 1.0).project(np.diag([2.0, 1.5]), Euclidean())[0].diagonal()
    array([0.75, 0.25])
    """

    p: float = 1.0
    radius: float = 1.0

    def __post_init__(self):
        LpBall(self.p, self.radius)

    def project(self, dual, potential):
        """The nearest point of the set, and its dual."""
        base = getattr(potential, "base", None)
        if base is None and _is_odd(potential) and hasattr(potential, "exponent"):
            # Half the squared Frobenius norm is the same function of entries and singular values.
            base = potential if potential.exponent(dual.size) == 2.0 else None
        if base is None or dual.ndim != 2:
            raise _no_rule(self, potential, "use a matrix, with Euclidean or Spectral(...)")
        u, s, v = np.linalg.svd(dual, full_matrices=False)
        theta, s = LpBall(self.p, self.radius).project(s, base)
        return (u * theta) @ v, (u * s) @ v

    def contains(self, theta, tolerance=1e-9):
        """Whether a point is in the set, up to a relative tolerance."""
        s = np.linalg.svd(theta, compute_uv=False)
        return LpBall(self.p, self.radius).contains(s, tolerance)


def NuclearBall(radius=1.0):
    """Matrices whose singular values sum to at most a radius: ``SchattenBall(1.0, radius)``.

    Parameters
    ----------
    radius : float > 0

    Returns
    -------
    SchattenBall

    Examples
    --------
    >>> NuclearBall(2.0)
    SchattenBall(p=1.0, radius=2.0)
    """
    return SchattenBall(1.0, radius)


CONSTRAINTS = {
    "l1": L1Ball(),
    "l2": L2Ball(),
    "lp": LpBall(1.5),
    "simplex": Simplex(),
    "non_negative": NonNegative(),
    "box": Box(),
    "nuclear": NuclearBall(),
    "schatten": SchattenBall(1.5),
}
