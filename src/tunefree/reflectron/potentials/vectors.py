"""Potentials of the entries of an array; `tunefree.reflectron.potentials` has the table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefree.reflectron.potentials.coordinates import NormPower, Root, Sinh, Unchanged

_LARGEST_POWER = 40.0
_NEWTON_STEPS = 200  # five are usual


class Potential:
    """What every potential can do."""

    separable = odd = False
    value: Callable[..., float]
    mirror: Callable[..., np.ndarray]

    def coordinates(self, size: int) -> Any:
        """The part of `potentials.coordinates` for so many entries; None without one."""
        return None

    def divergence(self, x: np.ndarray, y: np.ndarray) -> float:
        """psi(x) - psi(y) - <grad psi(y), x - y>."""
        return self.value(x) - self.value(y) - float(np.sum(self.mirror(y) * (x - y)))


@dataclass(frozen=True)
class Euclidean(Potential):
    """Half the squared 2-norm: the mirror map is the identity, the Reflectron is GLM-tron.

    Examples
    --------
    >>> Euclidean().divergence(np.array([3.0, 4.0]), np.zeros(2))
    12.5
    """

    separable = odd = True

    def value(self, x: np.ndarray) -> float:
        """psi(x)."""
        return 0.5 * float(np.sum(x * x))

    def conjugate(self, w: np.ndarray) -> float:
        """psi*(w)."""
        return self.value(w)

    def mirror(self, x: np.ndarray) -> np.ndarray:
        """Gradient of psi; its own inverse."""
        return x

    inverse = mirror

    def coordinates(self, size: int) -> Any:
        """One coordinate at a time."""
        return Unchanged()

    def metric_solve(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Inverse Hessian of psi at x, times g."""
        return g

    def exponent(self, size: int) -> float:
        """The exponent of the norm whose halved square this is."""
        return 2.0

    def convexity(self, size: int, radius: float | None = None) -> tuple[float, float]:
        """Strong convexity, and the exponent of the norm it is in."""
        return 1.0, 2.0

    def l1_shrink(self, a: np.ndarray, radius: float) -> np.ndarray:
        """Shrink a >= 0 by the constant that makes its sum the radius (Michelot's active set)."""
        c = np.max(a) - a  # the shrunk dual is (s - c)+, without cancellation
        active, s = c[c < radius], 0.0
        while True:
            s = (radius + np.sum(active)) / active.size
            remaining = active[active < s]
            if remaining.size == active.size:
                return np.maximum(s - c, 0.0)
            active = remaining


@dataclass(frozen=True)
class PNorm(Potential):
    r"""Half the squared p-norm: from least squares (p = 2) towards sparsity (p near 1).

    .. math:: \nabla\psi(x)_j = \|x\|_p^{2-p}\, \mathrm{sign}(x_j) |x_j|^{p-1}

    Parameters
    ----------
    p : float in (1, 2] or 'log', default=1.1
        'log' takes p = log d / (log d - 1) for d entries (at most 2), whose guarantee grows only
        with log d.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> PNorm(1.5).inverse(PNorm(1.5).mirror(np.array([1.0, -2.0])))
    array([ 1., -2.])
    """

    p: float | str = 1.1
    odd = True

    def __post_init__(self):
        if self.p != "log" and not (isinstance(self.p, int | float) and 1.0 < self.p <= 2.0):
            raise ValueError(f"p={self.p!r} is neither 'log' nor in (1, 2]: try p=1.1.")

    def exponent(self, size: int) -> float:
        """The value of p for so many entries."""
        if self.p != "log":
            return float(self.p)
        log = np.log(size)
        return float(log / (log - 1.0)) if log > 2.0 else 2.0

    def _dual(self, size):
        p = self.exponent(size)
        return p / (p - 1.0)

    def norm(self, x: np.ndarray) -> float:
        """The p-norm."""
        return _norm(x, self.exponent(x.size))

    def given_norm(self, norm: float, size: int) -> tuple["Power", float]:
        """A separable potential whose gradient, times a scale, is this one's where ||x||_p = norm.

        Returns
        -------
        potential : Power
        scale : float
        """
        p = self.exponent(size)
        return Power(p), norm ** (2.0 - p) / p

    def value(self, x: np.ndarray) -> float:
        """psi(x)."""
        return 0.5 * self.norm(x) ** 2

    def conjugate(self, w: np.ndarray) -> float:
        """psi*(w)."""
        return 0.5 * _norm(w, self._dual(w.size)) ** 2

    def mirror(self, x: np.ndarray) -> np.ndarray:
        """Gradient of psi."""
        return _norm_gradient(x, self.exponent(x.size))

    def inverse(self, w: np.ndarray) -> np.ndarray:
        """Gradient of psi*: undoes `mirror`."""
        return _norm_gradient(w, self._dual(w.size))

    def metric_solve(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Inverse Hessian of psi at x, times g: a diagonal and one rank; 0 at 0."""
        p, size = self.exponent(x.size), _norm(x, self.exponent(x.size))
        if not size > 0.0:
            return np.zeros_like(g)
        v = x / size
        return (np.abs(v) ** (2.0 - p) * g - (2.0 - p) * np.sum(v * g) * v) / (p - 1.0)

    def coordinates(self, size: int) -> Any:
        """One coordinate at a time, while powers stay within floating point."""
        q = self._dual(size)
        return NormPower(q) if q <= _LARGEST_POWER else None

    def convexity(self, size: int, radius: float | None = None) -> tuple[float, float]:
        r"""Strong convexity, and the exponent of the norm it is in: (p - 1, p); 'log': in l1.

        Half the squared p-norm is (p-1)-strongly convex in the p-norm. For 'log', Hoelder's
        \|u\|_1 <= d^(1 - 1/p) \|u\|_p = e \|u\|_p makes that (p-1) / e^2 in l1, or
        1 / (e^2 (log d - 1)). It is attained (d even): at x = 1 the Hessian takes u of alternating
        signs, whose sum is 0, to (p-1) d^(2/p - 2) \|u\|_1^2. Boffi, Tu and Slotine 2021, Corollary
        4.2, have 1 / (3 log d), more than that for every d > 7: the factor e <= 3 must be squared.
        Up to d = 7, p is 2.
        """
        p = self.exponent(size)
        if self.p == "log" and p < 2.0:
            return (p - 1.0) / np.e**2, 1.0
        return p - 1.0, p

    def l1_shrink(self, a: np.ndarray, radius: float) -> np.ndarray:
        """Shrink a >= 0 by the constant that makes the l1 norm of its inverse the radius.

        With c = 1 - a / max(a) it is max(a) (s - c)+, max(a) s S_q^(2/q - 1) S_(q-1) = radius,
        S_k = sum (1 - c/s)+^k: by Newton's method on logarithms, safely bracketed.
        """
        q, top = self._dual(a.size), np.max(a)
        c = (top - a) / top
        upper = min(0.0, float(np.log(radius / top)))
        lower = min(upper, float(np.log(radius / top) - 2.0 / q * np.log(a.size)))
        target, log_s = np.log(radius / top), upper
        active = c[c < np.exp(upper)]
        for _ in range(_NEWTON_STEPS):
            s = np.exp(log_s)
            t = 1.0 - active / s
            t = t[t > 0.0]
            power = t ** (q - 2.0)
            s2, s1, s0 = np.sum(power * t * t), np.sum(power * t), np.sum(power)
            excess = log_s + (2.0 / q - 1.0) * np.log(s2) + np.log(s1) - target
            if excess > 0.0:
                upper, active = log_s, active[active < s]
            else:
                lower = log_s
            step = excess / ((2.0 - q) * s1 / s2 + (q - 1.0) * s0 / s1)
            if abs(step) <= 4e-16 * max(1.0, abs(log_s)) or upper - lower <= 2e-16:
                break
            log_s = log_s - step
            if not lower <= log_s <= upper:
                log_s = 0.5 * (lower + upper)
        return top * np.maximum(np.exp(log_s) - c, 0.0)


@dataclass(frozen=True)
class Hypentropy(Potential):
    r"""Hypentropy: the Euclidean geometry for \|x\| below beta, that of entropy above.

    .. math:: \psi(x) = \sum_j x_j \operatorname{asinh}(x_j/\beta) - \sqrt{x_j^2+\beta^2} + \beta

    Parameters
    ----------
    beta : float, default=1e-6
        Small values favour sparse predictors; the dependence is logarithmic.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> Hypentropy(beta=0.1).inverse(Hypentropy(beta=0.1).mirror(np.array([1.0, -2.0])))
    array([ 1., -2.])
    """

    beta: float = 1e-6
    separable = odd = True

    def __post_init__(self):
        if not (isinstance(self.beta, int | float) and 0.0 < self.beta < np.inf):
            raise ValueError(f"beta={self.beta!r} is not a positive number: try beta=1e-6.")

    @property
    def patience_factor(self) -> float:
        """Factor of the patience: the dual of 1, relative to beta = 1e-12; at least 1."""
        return max(1.0, float(np.log(2.0) - np.log(self.beta)) / float(np.log(2e12)))

    def value(self, x: np.ndarray) -> float:
        """psi(x), 0 at 0 and without cancellation."""
        b = self.beta
        return float(np.sum(x * np.arcsinh(x / b) - x * x / (np.hypot(x, b) + b)))

    def conjugate(self, w: np.ndarray) -> float:
        """psi*(w) = beta sum (cosh w - 1)."""
        return float(2.0 * self.beta * np.sum(np.sinh(0.5 * w) ** 2))

    def mirror(self, x: np.ndarray) -> np.ndarray:
        """Gradient of psi."""
        return np.arcsinh(x / self.beta)

    def inverse(self, w: np.ndarray) -> np.ndarray:
        r"""Gradient of psi*: undoes `mirror`. Infinite for \|w\| > 710."""
        with np.errstate(over="ignore"):
            return self.beta * np.sinh(w)

    def metric_solve(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Inverse Hessian of psi at x, times g."""
        return np.hypot(x, self.beta) * g

    def coordinates(self, size: int) -> Any:
        """One coordinate at a time."""
        return Sinh(float(self.beta))

    def convexity(self, size: int, radius: float = np.inf) -> tuple[float, float]:
        """Strong convexity on an l1 ball, and the exponent of the norm it is in."""
        return 1.0 / (radius + size * self.beta), 1.0

    def l1_shrink(self, a: np.ndarray, radius: float) -> np.ndarray:
        """As `PNorm.l1_shrink`: (t - c)+ with c = max(a) - a, t in closed form where positive.

        P e^t - Q e^-t = 2 radius / beta with P = sum e^-c and Q = sum e^c. A small t is log1p
        of a sum of positive terms: Q - P is 2 sum sinh c.
        """
        b, c = self.beta, np.max(a) - a
        active = c[c < np.logaddexp(np.log(2.0 * radius) - np.log(b), 0.0)]
        while True:
            low, high = b * np.sum(np.exp(-active)), b * np.sum(np.exp(active))
            root = np.hypot(radius, np.sqrt(low) * np.sqrt(high))
            t = np.log(radius + root) - np.log(low)
            if t < 1.0:
                gap = radius * radius + low * (2.0 * b * np.sum(np.sinh(active)))
                t = np.log1p((radius + gap / (root + low)) / low)
            remaining = active[active < t]
            if remaining.size == active.size:
                return np.maximum(t - c, 0.0)
            active = remaining


@dataclass(frozen=True)
class Power(Potential):
    r"""The q-th power of the q-norm.

    .. math:: \nabla\psi(x)_j = q\, \mathrm{sign}(x_j) |x_j|^{q-1}

    Parameters
    ----------
    q : float > 1, default=1.1

    Raises
    ------
    ValueError

    Examples
    --------
    >>> Power(1.5).inverse(Power(1.5).mirror(np.array([1.0, -2.0])))
    array([ 1., -2.])
    """

    q: float = 1.1
    separable = odd = True

    def __post_init__(self):
        if not (isinstance(self.q, int | float) and 1.0 < self.q < np.inf):
            raise ValueError(f"q={self.q!r} is not greater than 1: try q=1.1.")

    def value(self, x: np.ndarray) -> float:
        """psi(x)."""
        return float(np.sum(np.abs(x) ** self.q))

    def conjugate(self, w: np.ndarray) -> float:
        """psi*(w)."""
        return float((self.q - 1.0) * np.sum((np.abs(w) / self.q) ** (self.q / (self.q - 1.0))))

    def mirror(self, x: np.ndarray) -> np.ndarray:
        """Gradient of psi."""
        return self.q * np.sign(x) * np.abs(x) ** (self.q - 1.0)

    def inverse(self, w: np.ndarray) -> np.ndarray:
        """Gradient of psi*: undoes `mirror`."""
        with np.errstate(over="ignore"):
            return np.sign(w) * (np.abs(w) / self.q) ** (1.0 / (self.q - 1.0))

    def coordinates(self, size: int) -> Any:
        """One coordinate at a time."""
        return Root(float(self.q))

    def metric_solve(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Inverse Hessian of psi at x, times g: 0 where x is, if q < 2."""
        with np.errstate(divide="ignore"):
            return np.abs(x) ** (2.0 - self.q) * g / (self.q * (self.q - 1.0))


def _norm(x, p):
    top = float(np.max(np.abs(x), initial=0.0))
    return top * float(np.sum((np.abs(x) / top) ** p)) ** (1.0 / p) if top > 0.0 else 0.0


def _norm_gradient(x, p):
    """Gradient of half the squared p-norm, scaled by the largest entry against overflow."""
    top = np.max(np.abs(x), initial=0.0)
    if not top > 0.0:
        return np.zeros_like(x)
    v = np.abs(x) / top
    power = v ** (p - 1.0)
    return np.sign(x) * (top * np.sum(power * v) ** ((2.0 - p) / p)) * power
