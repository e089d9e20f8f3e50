r"""Averaging schemes as masses: the weight that each scheme gives to the iterates of a run.

The iterate used to predict round t (t = 0, 1, ...) has mass(t, t + 1); ``mass(start, stop)`` is the
closed-form total over start..stop-1. A running average moves by
``rho_t = mass(t, t + 1) / mass(0, t + 1)``. A lazily updated coordinate that did not change from
round `start` to round `stop` adds ``value * mass(start, stop)``. Averages of consecutive chunks are
merged by their total masses. If the iterates are ``w_t = w_0 + steps 1..t``, their average is w_0
plus every step s times `survival`, the share ``mass(s, n) / mass(0, n)`` of the iterates that
include it.

A suffix (tail) average is any scheme restarted: learners set their sums to zero and continue.
`Last` and `Tail` depend on where the run ends: ``within(scheme, n)`` makes them for n iterates.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import part, verb
from tunefree.core.parts import PartTable
from tunefree.core.protocols import Average, AverageWithin, Numbers

mass = verb("mass")


@part
class Uniform(NamedTuple):
    """Every iterate counts the same (Polyak-Ruppert averaging).

    Examples
    --------
    >>> Uniform().mass(3.0, 10.0)
    7.0
    """

    def mass(self, start: Numbers, stop: Numbers) -> Any:
        """Total weight of the iterates start..stop-1."""
        return stop - start


@part
class PolynomialDecay(NamedTuple):
    """Iterate t counts t + 1: later iterates weigh more, and the first ones fade like 1/T^2.

    Examples
    --------
    >>> PolynomialDecay().mass(0.0, 3.0)  # 1 + 2 + 3
    6.0
    """

    def mass(self, start: Numbers, stop: Numbers) -> Any:
        """Total weight of the iterates start..stop-1."""
        return 0.5 * (stop - start) * (stop + start + 1.0)


@part
class Geometric(NamedTuple):
    r"""Iterate t counts q^t with q = 1 / (1 + rate): averaging that regularizes.

    In expectation and in the limit of many steps, the average of SGD with step eta on the squared
    loss is ridge regression with penalty lambda = rate / eta, towards w_0.

    Parameters
    ----------
    rate : float, default=0.001
        eta lambda >= 0; 0 is the uniform average. (A rate has digits that q near 1 would lose.)

    References
    ----------
    Neu and Rosasco 2018, equation 6 and Proposition 1; the iterate w_0 belongs to the average.

    Examples
    --------
    >>> float(Geometric(rate=1.0).mass(0.0, 3.0))  # 1 + 1/2 + 1/4
    1.75
    """

    rate: float = 0.001

    def mass(self, start: Numbers, stop: Numbers) -> Any:
        """Total weight of the iterates start..stop-1."""
        if self.rate == 0.0:
            return stop - start
        log = -np.log1p(self.rate)
        return np.exp(start * log) * np.expm1((stop - start) * log) / np.expm1(log)


@part
class Suffix(NamedTuple):
    """Iterates from `first` on count the same, earlier ones nothing.

    Examples
    --------
    >>> float(Suffix(5.0).mass(3.0, 10.0))
    5.0
    """

    first: float = 0.0

    def mass(self, start: Numbers, stop: Numbers) -> Any:
        """Total weight of the iterates start..stop-1."""
        return np.maximum(stop - np.maximum(start, self.first), 0.0)


@part
class Last(NamedTuple):
    """Only the last iterate counts.

    Examples
    --------
    >>> Last().within(10)
    Suffix(first=9.0)
    """

    fraction = 0.0

    def within(self, n: int) -> Suffix:
        """The scheme for a run of n iterates."""
        return Suffix(n - 1.0)


@part
class Tail(NamedTuple):
    """The last part of the iterates count the same (suffix averaging).

    Parameters
    ----------
    fraction : float, default=0.5
        The share of the iterates, in (0, 1].

    References
    ----------
    Jain et al. 2016.

    Examples
    --------
    >>> Tail(fraction=0.25).within(8)
    Suffix(first=6.0)
    """

    fraction: float = 0.5

    def within(self, n: int) -> Suffix:
        """The scheme for a run of n iterates."""
        if not 0.0 < self.fraction <= 1.0:
            raise ValueError(f"fraction={self.fraction!r} is not in (0, 1].")
        return Suffix(float(n - max(1, round(self.fraction * n))))


def within(scheme: Any, n: int) -> Any:
    """The scheme for a run of n iterates, where it depends on the end of the run.

    Examples
    --------
    >>> within(Tail(), 10), within(Uniform(), 10)
    (Suffix(first=5.0), Uniform())
    """
    return scheme.within(n) if hasattr(scheme, "within") else scheme


def survival(scheme: Any, n: int) -> np.ndarray:
    """The share of n iterates that include each of the steps 1..n-1.

    Returns
    -------
    ndarray of shape (n - 1,)

    Examples
    --------
    >>> survival(Uniform(), 4)
    array([0.75, 0.5 , 0.25])
    """
    scheme = within(scheme, n)
    return scheme.mass(np.arange(1.0, n), float(n)) / scheme.mass(0.0, float(n))


AVERAGES = PartTable(
    "average",
    "mass",
    {
        "uniform": Uniform(),
        "polynomial": PolynomialDecay(),
        "geometric": Geometric(),
        "last": Last(),
        "tail": Tail(),
    },
)


def scheme_of(
    average: str | Average | AverageWithin, *, also: Iterable[str] = (), online: bool = False
) -> Any:
    """The scheme for the parameter `average`: a name, or a part, which is returned as it is.

    Parameters
    ----------
    average : str or part
    also : iterable of str, default=()
        Further names that the caller accepts, for the message.
    online : bool, default=False
        Whether the end of the run is unknown to the learner.

    Returns
    -------
    part

    Raises
    ------
    ValueError
        For what is no scheme, or if `online` for a scheme that depends on where the run ends.

    Examples
    --------
    >>> scheme_of("tail"), scheme_of(Tail(0.25))
    (Tail(fraction=0.5), Tail(fraction=0.25))
    """
    scheme = average if hasattr(average, "within") else AVERAGES.find(average, also)
    if online and hasattr(scheme, "within"):
        names = ", ".join(name for name, s in AVERAGES.items() if not hasattr(s, "within"))
        raise ValueError(
            f"average={average!r} depends on where the run ends, which is not known here: take one "
            f"of {', '.join([*also, names])}."
        )
    return scheme
