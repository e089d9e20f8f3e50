"""Sets that bound entries: the simplex, the nonnegative orthant, boxes, bounds by column."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tunefree.reflectron.constraints.rules import (
    by_norm,
    check_radius,
    is_odd,
    is_separable,
    no_rule,
    shrink,
)


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
    >>> from tunefree.reflectron.potentials import Euclidean
    >>> Simplex().project(np.array([1.5, 1.0, -2.0]), Euclidean())[0]
    array([0.75, 0.25, 0.  ])
    """

    total: float = 1.0

    def __post_init__(self):
        check_radius(self.total, "total")

    def project(self, dual: np.ndarray, potential: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nearest point of the set, and its dual."""
        if not is_odd(potential):
            if hasattr(potential, "base") or not hasattr(potential, "simplex"):
                raise no_rule(self, potential, "use Entropy, Euclidean, PNorm or Hypentropy")
            dual = dual - logsumexp(dual) + np.log(self.total)
            return np.exp(dual), dual
        # A shift of the whole dual does not change the result: raise the sum, then shrink it.
        shift = float(np.max(np.abs(potential.mirror(np.full(dual.shape, self.total / dual.size)))))
        raised = dual - np.min(dual) + shift
        while np.sum(potential.inverse(raised)) < self.total:
            shift *= 2.0
            raised = dual - np.min(dual) + shift
        dual = shrink(raised, self.total, potential)
        return potential.inverse(dual), dual

    def contains(self, theta: np.ndarray, tolerance: float = 1e-9) -> bool:
        """Whether a point is in the set, up to a relative tolerance."""
        gap = abs(float(np.sum(theta)) - self.total)
        return bool(np.min(theta) >= 0.0 and gap <= self.total * tolerance)

    def scaled(self, factor: float) -> "Simplex":
        """The set times a factor."""
        return Simplex(self.total * factor)


@dataclass(frozen=True)
class NonNegative:
    """Vectors without negative entries.

    Examples
    --------
    >>> from tunefree.reflectron.potentials import Euclidean
    >>> NonNegative().project(np.array([1.5, -2.0]), Euclidean())[0]
    array([1.5, 0. ])
    """

    def dual_bounds(self, potential: Any) -> tuple[float, float] | None:
        """The bounds of a dual, if the set bounds each dual separately; else None."""
        if hasattr(potential, "simplex"):
            return -np.inf, np.inf
        return (0.0, np.inf) if is_odd(potential) else None

    def project(self, dual: np.ndarray, potential: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nearest point of the set, and its dual."""
        bounds = self.dual_bounds(potential)
        if bounds is None:
            raise no_rule(self, potential, "use a potential of the entries")
        dual = np.maximum(dual, bounds[0])
        return potential.inverse(dual), dual

    def contains(self, theta: np.ndarray, tolerance: float = 1e-9) -> bool:
        """Whether a point is in the set."""
        return bool(np.min(theta) >= 0.0)

    def scaled(self, factor: float) -> "NonNegative":
        """The set times a factor: itself."""
        return self


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
    >>> from tunefree.reflectron.potentials import Euclidean
    >>> Box(-1.0, 1.0).project(np.array([1.5, -0.5]), Euclidean())[0]
    array([ 1. , -0.5])
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self):
        if not self.low < self.high:
            raise ValueError(f"low={self.low!r} is not below high={self.high!r}.")

    def dual_bounds(self, potential: Any) -> tuple[float, float] | None:
        """The bounds of a dual, if the set bounds each dual separately; else None."""
        if not (is_separable(potential) and is_odd(potential)):
            return None
        return tuple(potential.mirror(np.array([self.low, self.high], dtype=float)))

    def project(self, dual: np.ndarray, potential: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nearest point of the set, and its dual."""
        bounds = self.dual_bounds(potential)
        if bounds is None and hasattr(potential, "given_norm"):
            return by_norm(self, dual, potential)
        if bounds is None:
            raise no_rule(self, potential, "use a potential of the entries, off the simplex")
        dual = np.clip(dual, *bounds)
        return np.clip(potential.inverse(dual), self.low, self.high), dual

    def contains(self, theta: np.ndarray, tolerance: float = 1e-9) -> bool:
        """Whether a point is in the set."""
        return bool(np.min(theta) >= self.low and np.max(theta) <= self.high)

    def scaled(self, factor: float) -> "Box":
        """The set times a factor."""
        return Box(self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Bounds:
    """Vectors whose entries lie between bounds for each column; an infinite bound is none.

    In estimators the bounds are in the units of the user's columns.

    Parameters
    ----------
    low, high : float or tuple of float
        One number, or one a column.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from tunefree.reflectron.potentials import Euclidean
    >>> Bounds((0.0, -np.inf), (1.0, 0.0)).project(np.array([1.5, 2.0]), Euclidean())[0]
    array([1., 0.])
    """

    low: Any = 0.0
    high: Any = np.inf

    def __post_init__(self):
        for name in ("low", "high"):
            value = getattr(self, name)
            if np.ndim(value):
                object.__setattr__(self, name, tuple(float(v) for v in np.ravel(value)))
        if not (np.asarray(self.low) <= np.asarray(self.high)).all():
            raise ValueError(f"low={self.low!r} exceeds high={self.high!r} in some column.")

    def in_units(self, scale: np.ndarray) -> "Bounds":
        """The bounds for coefficients of columns that are divided by a scale."""
        return Bounds(*(tuple(np.asarray(b) * scale) for b in (self.low, self.high)))

    def project(self, dual: np.ndarray, potential: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nearest point of the set, and its dual."""
        if not (is_separable(potential) and is_odd(potential)):
            raise no_rule(self, potential, "use a potential of the entries, off the simplex")
        for bound in (self.low, self.high):
            if np.ndim(bound) and len(bound) != dual.shape[-1]:
                raise ValueError(
                    f"The bounds are for {len(bound)} columns, and the rows have {dual.shape[-1]}."
                )
        low, high = (np.broadcast_to(b, dual.shape).astype(float) for b in (self.low, self.high))
        dual = np.clip(dual, *(potential.mirror(b) for b in (low, high)))
        return np.clip(potential.inverse(dual), low, high), dual

    def contains(self, theta: np.ndarray, tolerance: float = 1e-9) -> bool:
        """Whether a point is in the set."""
        return bool((theta >= self.low).all() and (theta <= self.high).all())

    def scaled(self, factor: float) -> "Bounds":
        """The set times a factor."""
        return Bounds(*(np.asarray(b) * factor for b in (self.low, self.high)))


def Monotone(signs: Any) -> Bounds:
    """Coefficients with these signs: 1 never falls with the column, -1 never rises, 0 is free.

    Parameters
    ----------
    signs : sequence of int

    Returns
    -------
    Bounds

    Examples
    --------
    >>> Monotone((1, 0))
    Bounds(low=(0.0, -inf), high=(inf, inf))
    """
    signs = np.asarray(signs, dtype=float)
    if not np.isin(signs, (-1.0, 0.0, 1.0)).all():
        raise ValueError(f"signs={signs.tolist()} may hold -1, 0 and 1 only.")
    low, high = np.where(signs > 0.0, 0.0, -np.inf), np.where(signs < 0.0, 0.0, np.inf)
    return Bounds(tuple(low), tuple(high))
