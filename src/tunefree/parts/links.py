r"""Links: the mean u of a generalized linear model, E[y | x] = u(<theta, x>).

A link is nondecreasing, so that u(s) - y is the slope of a convex function of s: the *matching
loss* U(s) - y s, with U' = u. Its minimisation by mirror descent is the Reflectron.

================  =======================================  =========  =============
name              u(s)                                     bound      range
================  =======================================  =========  =============
identity          s                                        1          all numbers
logistic          1 / (1 + exp(-s))                        1/4        (0, 1)
probit            normal distribution function             0.399      (0, 1)
cloglog           1 - exp(-exp(s))                         1/e        (0, 1)
tanh              tanh(s)                                  1          (-1, 1)
softplus          log(1 + exp(s))                          1          (0, inf)
relu              max(0, s)                                1          [0, inf)
leaky relu        max(a s, s)                              1          all numbers
clipped identity  min(high, max(low, s))                   1          [low, high]
exp               exp(s), linear beyond a limit of 5       exp(limit)  (0, inf)
log               exp(s), linear beyond a limit of 100     exp(limit)  (0, inf)
================  =======================================  =========  =============

A link of your own needs `mean`; `slope`, `inverse`, `range` and `onnx` only where they are used::

    class Cauchit:
        def mean(self, s):
            return 0.5 + np.arctan(s) / np.pi

Source: Boffi, Tu and Slotine 2021, assumption 3.2; Kakade et al. 2011 (GLM-tron).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import ArrayLike
from scipy import special

from tunefree.core.jit import part
from tunefree.core.parts import PartTable
from tunefree.core.protocols import Numbers

_ROOT_2PI = np.sqrt(2.0 * np.pi)


# SciPy's special functions for Numba kernels, of scalars.
@overload(special.expit)
def _expit(s):
    def compiled(s):
        e = np.exp(-abs(s))
        return 1.0 / (1.0 + e) if s > 0.0 else e / (1.0 + e)

    return compiled


@overload(special.ndtr)
def _ndtr(s):
    return lambda s: 0.5 * math.erfc(-s / math.sqrt(2.0))


def target_margin(link: Any, y: ArrayLike) -> np.ndarray:
    """The margin s with u(s) = y, where every target has one.

    Parameters
    ----------
    link : a part of this module
    y : array-like
        Targets strictly inside the link's range.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        For targets outside the range.

    Examples
    --------
    >>> target_margin(Logit(), [0.5])
    array([0.])
    """
    y = np.asarray(y, dtype=float)
    low, high = link.range
    if not ((y > low) & (y < high)).all():
        raise ValueError(
            f"The inverse of {link!r} needs targets between {low:g} and {high:g}, and some lie "
            "outside: clip them, or choose a link whose range contains them."
        )
    return link.inverse(y)


def link_of(link: Any, default: str) -> Any:
    """The part of a link's name; None is the default.

    Examples
    --------
    >>> link_of(None, "logit"), link_of("identity", "logit")
    (Logit(), Identity())
    """
    return LINKS[default] if link is None else LINKS.find(link)


def link_range(link: Any) -> tuple[float, float]:
    """The smallest and the largest mean of a link, if it has these.

    Examples
    --------
    >>> link_range(Logit())
    (0.0, 1.0)
    """
    return getattr(link, "range", (-np.inf, np.inf))


def index_of_mean(link: Any, mean: np.ndarray) -> Any:
    """The indices of means, or None where one is not inside the link's range.

    Examples
    --------
    >>> index_of_mean(Logit(), np.array([0.5])), index_of_mean(Logit(), np.array([1.0]))
    (array([0.]), None)
    """
    low, high = getattr(link, "range", (np.inf, -np.inf))
    inside = ((mean > low) & (mean < high)).all() and hasattr(link, "inverse")
    return link.inverse(mean) if inside else None


def check_increasing(link: Any) -> None:
    """Refuse a link that decreases or is not finite somewhere on a grid of [-30, 30].

    Examples
    --------
    >>> check_increasing(Tanh())
    """
    u = np.asarray(link.mean(np.linspace(-30.0, 30.0, 601)), dtype=float)
    if not np.isfinite(u).all() or (np.diff(u) < -1e-12 * np.abs(u).max()).any():
        raise ValueError(
            f"The link {link!r} decreases, or is not finite, between -30 and 30: give a "
            "nondecreasing one (for a decreasing link, change the sign of the features)."
        )


@part
class Identity(NamedTuple):
    """u(s) = s: linear least squares.

    Examples
    --------
    >>> Identity().mean(2.0), Identity().matching(2.0)
    (2.0, 2.0)
    """

    range = (-np.inf, np.inf)

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return s

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        return 1.0 + 0.0 * s

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y."""
        return y

    def matching(self, s: Numbers) -> Any:
        """U(s), the integral of u."""
        return 0.5 * s * s

    def bound(self) -> float:
        """The largest slope."""
        return 1.0

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        return s


@part
class Logit(NamedTuple):
    """u(s) = 1 / (1 + exp(-s)).

    Examples
    --------
    >>> float(Logit().mean(0.0)), Logit().bound()
    (0.5, 0.25)
    """

    range = (0.0, 1.0)

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return special.expit(s)

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        return special.expit(s) * special.expit(-s)

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y."""
        return special.logit(y)

    def matching(self, s: Numbers) -> Any:
        """U(s), the integral of u."""
        return np.logaddexp(0.0, s)

    def bound(self) -> float:
        """The largest slope."""
        return 0.25

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        return g("Sigmoid", s)


@part
class Probit(NamedTuple):
    """u(s) = the standard normal distribution function.

    Examples
    --------
    >>> float(Probit().mean(0.0)), round(Probit().bound(), 3)
    (0.5, 0.399)
    """

    range = (0.0, 1.0)

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return special.ndtr(s)

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        return np.exp(-0.5 * np.square(s)) / _ROOT_2PI

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y."""
        return special.ndtri(y)

    def matching(self, s: Numbers) -> Any:
        """U(s), the integral of u."""
        return s * special.ndtr(s) + self.slope(s)

    def bound(self) -> float:
        """The largest slope."""
        return float(1.0 / _ROOT_2PI)

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        # By erf, which ONNX has in float32 only.
        half = g.cast(g("Mul", s, float(np.sqrt(0.5))), np.float32)
        return g("Mul", g("Add", g.cast(g("Erf", half), np.float64), 1.0), 0.5)


@part
class Cloglog(NamedTuple):
    """u(s) = 1 - exp(-exp(s)).

    Examples
    --------
    >>> round(float(Cloglog().mean(0.0)), 3)
    0.632
    """

    range = (0.0, 1.0)

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return -np.expm1(-np.exp(np.minimum(s, 700.0)))

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        s = np.minimum(s, 700.0)
        return np.exp(s - np.exp(s))

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y."""
        return np.log(-np.log1p(-y))

    def matching(self, s: Numbers) -> Any:
        """U(s), the integral of u: exp(s) - exp(2s)/4 + ... = s + E1(exp(s)) + gamma."""
        e = np.exp(np.minimum(s, 700.0))
        small = e * (1.0 - e / 4.0 * (1.0 - 2.0 * e / 9.0 * (1.0 - 3.0 * e / 16.0)))
        return np.where(e < 1e-3, small, s + special.exp1(e) + np.euler_gamma)

    def bound(self) -> float:
        """The largest slope."""
        return float(np.exp(-1.0))

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        rate = g("Exp", g("Min", s, 700.0))
        return g("Sub", 1.0, g("Exp", g("Neg", rate)))


@part
class Tanh(NamedTuple):
    """u(s) = tanh(s).

    Examples
    --------
    >>> float(Tanh().mean(0.0)), Tanh().range
    (0.0, (-1.0, 1.0))
    """

    range = (-1.0, 1.0)

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return np.tanh(s)

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        return 1.0 - np.square(np.tanh(s))

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y."""
        return np.arctanh(y)

    def matching(self, s: Numbers) -> Any:
        """U(s), the integral of u: log cosh s."""
        return np.logaddexp(s, -s) - np.log(2.0)

    def bound(self) -> float:
        """The largest slope."""
        return 1.0

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        return g("Tanh", s)


@part
class Softplus(NamedTuple):
    """u(s) = log(1 + exp(s)).

    Examples
    --------
    >>> round(float(Softplus().mean(0.0)), 4), float(Softplus().slope(0.0))
    (0.6931, 0.5)
    """

    range = (0.0, np.inf)

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return np.logaddexp(0.0, s)

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        return special.expit(s)

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y."""
        return y + np.log(-np.expm1(-y))

    def matching(self, s: Numbers) -> Any:
        """U(s), the integral of u: -Li2(-exp(s))."""
        small = -special.spence(1.0 + np.exp(-np.abs(s)))
        return np.where(s > 0.0, np.pi**2 / 6.0 + 0.5 * np.square(s) - small, small)

    def bound(self) -> float:
        """The largest slope."""
        return 1.0

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        tail = g("Log", g("Add", g("Exp", g("Neg", g("Abs", s))), 1.0))
        return g("Add", g("Max", s, 0.0), tail)


@part
class LeakyRelu(NamedTuple):
    """u(s) = s for s > 0, a s below; a = 0 is the rectifier, which has no inverse at 0.

    Examples
    --------
    >>> LeakyRelu(0.1).mean(np.array([-1.0, 2.0]))
    array([-0.1,  2. ])
    """

    a: float = 0.01

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest mean."""
        return (-np.inf if self.a > 0.0 else 0.0, np.inf)

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return np.maximum(s, 0.0) + self.a * np.minimum(s, 0.0)

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        return self.a + (1.0 - self.a) * (s > 0.0)

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y."""
        return np.where(y > 0.0, y, y / self.a) if self.a > 0.0 else y

    def matching(self, s: Numbers) -> Any:
        """U(s), the integral of u."""
        return 0.5 * s * self.mean(s)

    def bound(self) -> float:
        """The largest slope."""
        return max(1.0, self.a)

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        return g("Add", g("Max", s, 0.0), g("Mul", g("Min", s, 0.0), float(self.a)))


@part
class ClippedIdentity(NamedTuple):
    """u(s) = min(high, max(low, s)).

    Examples
    --------
    >>> ClippedIdentity(-1.0, 1.0).mean(np.array([-3.0, 0.5, 2.0]))
    array([-1. ,  0.5,  1. ])
    """

    low: float = 0.0
    high: float = 1.0

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest mean."""
        return (self.low, self.high)

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return np.minimum(np.maximum(s, self.low), self.high)

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        return 1.0 * ((s > self.low) & (s < self.high))

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y."""
        return y

    def matching(self, s: Numbers) -> Any:
        """U(s), the integral of u, up to a constant."""
        c = self.mean(s)
        return c * (s - 0.5 * c)

    def bound(self) -> float:
        """The largest slope."""
        return 1.0

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        return g("Min", g("Max", s, float(self.low)), float(self.high))


@part
class Exp(NamedTuple):
    """u(s) = exp(s), continued linearly beyond `limit`, so that its slope is bounded.

    Examples
    --------
    >>> float(Exp().mean(0.0)), float(Exp(limit=0.0).mean(2.0))
    (1.0, 3.0)
    """

    limit: float = 5.0
    range = (0.0, np.inf)

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return np.exp(np.minimum(s, self.limit)) * (1.0 + np.maximum(s - self.limit, 0.0))

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        return np.exp(np.minimum(s, self.limit))

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y."""
        top = np.exp(self.limit)
        return np.log(np.minimum(y, top)) + np.maximum(y / top - 1.0, 0.0)

    def matching(self, s: Numbers) -> Any:
        """U(s), the integral of u."""
        beyond = np.maximum(s - self.limit, 0.0)
        return np.exp(np.minimum(s, self.limit)) * (1.0 + beyond + 0.5 * beyond * beyond)

    def bound(self) -> float:
        """The largest slope."""
        return float(np.exp(self.limit))

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        rest = g("Add", g("Max", g("Sub", s, float(self.limit)), 0.0), 1.0)
        return g("Mul", g("Exp", g("Min", s, float(self.limit))), rest)


@part
class Learned(NamedTuple):
    """u(s) = base.mean(h(s)): a link learned from rows, where h transforms the index.

    h is increasing: a monotone cubic through (knots, values) with these slopes (Fritsch and Carlson
    1980), and linear beyond the first and the last knot.

    Examples
    --------
    >>> link = Learned.through(Identity(), [0.0, 1.0, 3.0], [0.0, 2.0, 4.0])
    >>> link.mean(np.array([-1.0, 0.0, 1.0, 3.0, 4.0])).round(2)
    array([-2.33,  0.  ,  2.  ,  4.  ,  4.5 ])
    """

    base: Any
    knots: tuple
    values: tuple
    slopes: tuple

    @classmethod
    def through(cls, base: Any, knots: ArrayLike, values: ArrayLike) -> "Learned":
        """The link whose means at the knots are those of the base at increasing values."""
        x, v = np.asarray(knots, dtype=float), np.asarray(values, dtype=float)
        h = np.diff(x)
        secant = np.diff(v) / np.diff(x)
        slopes = np.repeat(secant[0], len(x))
        if len(x) > 2:
            before = 2.0 * h[1:] + h[:-1]
            after = h[1:] + 2.0 * h[:-1]
            slopes[1:-1] = (before + after) / (before / secant[:-1] + after / secant[1:])
            # With a slope of 0 at an end the link would be constant beyond it.
            for i, j in ((0, 1), (-1, -2)):
                parabola = ((2.0 * h[i] + h[j]) * secant[i] - h[i] * secant[j]) / (h[i] + h[j])
                slopes[i] = max(parabola, 0.5 * secant[i])
        return cls(base, *(tuple(map(float, a)) for a in (x, v, slopes)))

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest mean."""
        return self.base.range

    def _cubics(self):
        """The knots, and for each interval its left end and the cubic from there."""
        x, v, m = (np.array(a) for a in self[1:])
        h, rise = np.diff(x), np.diff(v)
        third = (m[:-1] + m[1:] - 2.0 * rise / h) / h**2
        second = (3.0 * rise / h - 2.0 * m[:-1] - m[1:]) / h
        cubics = np.column_stack([v[:-1], m[:-1], second, third])
        ends = [[v[0], m[0], 0.0, 0.0]], [[v[-1], m[-1], 0.0, 0.0]]
        return x, np.r_[x[0], x[:-1], x[-1]], np.concatenate([ends[0], cubics, ends[1]])

    def _index(self, s, derivative=False):
        """h(s), or its derivative."""
        x, left, cubics = self._cubics()
        i = np.searchsorted(x, s)
        t = np.asarray(s, dtype=float) - left[i]
        value, first, second, third = (np.ascontiguousarray(c) for c in cubics.T)
        if derivative:
            return first[i] + t * (2.0 * second[i] + 3.0 * t * third[i])
        return value[i] + t * (first[i] + t * (second[i] + t * third[i]))

    def mean(self, s: Numbers) -> Any:
        """u(s)."""
        return self.base.mean(self._index(s))

    def slope(self, s: Numbers) -> Any:
        """u'(s)."""
        return self.base.slope(self._index(s)) * self._index(s, derivative=True)

    def inverse(self, y: Numbers) -> Any:
        """The s with u(s) = y, by bisection."""
        h = np.asarray(self.base.inverse(y), dtype=float)
        reach = 1e3 * (1.0 + self.knots[-1] - self.knots[0] + np.abs(h))
        low, high = self.knots[0] - reach, self.knots[-1] + reach
        for _ in range(100):
            middle = 0.5 * (low + high)
            below = self._index(middle) < h
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def onnx(self, g: Any, s: Any) -> Any:
        """u(s) as nodes of a graph."""
        x, left, cubics = self._cubics()
        above = g("Greater", g("Unsqueeze", s, np.array([-1])), x)
        i = g("ReduceSum", g.cast(above, np.int64), np.array([-1]), keepdims=0)
        t = g("Sub", s, g("Gather", left, i))
        a, b, second, third = (g("Gather", np.ascontiguousarray(c), i) for c in cubics.T)
        rest = g("Add", b, g("Mul", t, g("Add", second, g("Mul", t, third))))
        return self.base.onnx(g, g("Add", a, g("Mul", t, rest)))


LINKS = PartTable(
    "link",
    "mean",
    {
        "identity": Identity(),
        "logit": Logit(),
        "probit": Probit(),
        "cloglog": Cloglog(),
        "tanh": Tanh(),
        "softplus": Softplus(),
        "relu": LeakyRelu(0.0),
        "leaky_relu": LeakyRelu(),
        "clipped_identity": ClippedIdentity(),
        "exp": Exp(),
        "log": Exp(100.0),
    },
)
