"""Averaging schemes as masses: the weight that each scheme gives to the iterates of a run.

The iterate used to predict round t (t = 0, 1, ...) has mass(t, t + 1); ``mass(start, stop)`` is the
closed-form total over start..stop-1. A running average moves by
``rho_t = mass(t, t + 1) / mass(0, t + 1)``; a lazily updated coordinate that kept its value from
round `start` to round `stop` adds ``value * mass(start, stop)``; averages of consecutive stretches
merge by their total masses.

A suffix (tail) average is any scheme restarted: learners forget what they have summed and go on.
"""

from typing import NamedTuple

from tunefree._jit import part, verb

mass = verb("mass", 2)


@part
class Uniform(NamedTuple):
    """Every iterate counts the same (Polyak-Ruppert averaging).

    Examples
    --------
    >>> Uniform().mass(3.0, 10.0)
    7.0
    """

    def mass(self, start, stop):
        """Total weight of the iterates start..stop-1."""
        return stop - start


@part
class Polynomial(NamedTuple):
    """Iterate t counts t + 1: later iterates matter more, the first ones fade like 1/T^2.

    Examples
    --------
    >>> Polynomial().mass(0.0, 3.0)  # 1 + 2 + 3
    6.0
    """

    def mass(self, start, stop):
        """Total weight of the iterates start..stop-1."""
        return 0.5 * (stop - start) * (stop + start + 1.0)


AVERAGES = {"uniform": Uniform(), "polynomial": Polynomial()}
