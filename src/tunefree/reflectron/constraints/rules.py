"""What projections share: pairs without a rule, shrinking by a constant, squared p-norms."""

import numpy as np
from scipy import optimize

_FARTHEST = 2000.0  # in logarithms of norms


def no_rule(constraint, potential, instead):
    """The error for a pair of constraint and potential without a rule."""
    return ValueError(
        f"There is no rule to project onto {constraint!r} with the potential {potential!r}: "
        f"{instead}."
    )


def check_radius(radius, name="radius"):
    """Refuse a radius that is not positive."""
    if not (isinstance(radius, int | float | np.number) and 0.0 < radius < np.inf):
        raise ValueError(f"{name}={radius!r} is not a positive number.")


def is_odd(potential):
    """Whether the gradient keeps signs and zeros."""
    return getattr(potential, "odd", False)


def is_separable(potential):
    """Whether the potential is a sum over entries."""
    return getattr(potential, "separable", False)


def acts_on_entries(constraint, potential):
    """Whether a constraint, if there is one, only bounds the entries of the dual."""
    bounds = getattr(constraint, "dual_bounds", lambda _: None)
    return constraint is None or bounds(potential) is not None


def shrink(a, radius, potential):
    """Shrink a >= 0 by the constant that makes the l1 norm of its inverse the radius."""
    if hasattr(potential, "l1_shrink"):
        return potential.l1_shrink(a, radius)

    def excess(tau):
        size = np.sum(np.abs(potential.inverse(np.maximum(a - tau, 0.0))))
        return min(size, 1e300) / radius - 1.0

    tau = optimize.brentq(excess, 0.0, float(np.max(a)), xtol=1e-300, rtol=1e-15, maxiter=500)
    return np.maximum(a - tau, 0.0)


def by_norm(constraint, dual, potential):
    """Project with half a squared p-norm by a rule for the p-th power of the p-norm.

    The gradient of ||x||_p^2 / 2 is that of (c / p) ||x||_p^p with c = N^(2 - p), N = ||x||_p. For
    a fixed c, the projection x minimises (c / p) ||x||_p^p - <w, x> over the set. A larger c makes
    ||x||_p smaller, so ||x||_p falls as N grows, and N is the one root of ||x(N)||_p = N. This
    holds for every convex set.
    """

    def project(log_norm):
        power, scale = potential.given_norm(np.exp(log_norm), dual.size)
        theta, v = constraint.project(dual / scale, power)
        return theta, v * scale

    def excess(log_norm):
        norm = potential.norm(project(log_norm)[0])
        return (np.log(norm) if norm > 0.0 else -_FARTHEST) - log_norm

    free = potential.norm(potential.inverse(dual))
    middle = np.log(free) if 0.0 < free < np.inf else 0.0
    reach = 1.0
    while excess(middle - reach) < 0.0 and reach < _FARTHEST / 4.0:
        reach *= 2.0
    low, reach = middle - reach, 1.0
    if excess(low) < 0.0:
        return np.zeros_like(dual), np.zeros_like(dual)
    while excess(middle + reach) > 0.0:
        reach *= 2.0
    return project(
        optimize.brentq(excess, low, middle + reach, xtol=1e-15, rtol=1e-15, maxiter=200)
    )


def on_singular_values(ball, dual, base):
    """Project a matrix by projecting its singular values."""
    u, s, v = np.linalg.svd(dual, full_matrices=False)
    theta, s = ball.project(s, base)
    return (u * theta) @ v, (u * s) @ v
