r"""Potentials one coordinate at a time, for steps that touch only the entries of a row.

.. math:: \theta_j = \mathrm{factor}(S, R)\, c_j, \qquad c_j = \mathrm{coordinate}(w_j, R), \qquad
    S = \sum_j \mathrm{stat}(w_j, c_j, R)

A row changes few duals, so S follows in O(nnz), and so do all parameters: the others change by the
common factor. A separable potential has the factor 1. `potential.coordinates(d)` is the potential's
part of this module, or None. The reference R = ``reference(low, high)`` is computed from the least
and the largest dual: theta does not depend on it, but powers and exponentials are then of numbers
near 1. Where R is out of date, values are capped before they overflow.
"""

from typing import NamedTuple

import numpy as np

from tunefree.core.jit import part, verb

coordinate, stat, factor, reference = (
    verb("coordinate"),
    verb("stat"),
    verb("factor"),
    verb("reference"),
)
_LARGEST_EXPONENT = 700.0
_SMALLEST, _LARGEST = 1e-300, 1e290


def separable(cls):
    """A part whose coordinates are independent: S = 0, and the factor is 1."""
    for name in ("stat", "factor", "reference"):
        setattr(cls, name, getattr(_Alone, name))
    return part(cls)


class _Alone:
    def stat(self, w, c, r):
        """What a dual adds to S."""
        return 0.0

    def factor(self, s, r):
        """The common factor."""
        return 1.0

    def reference(self, low, high):
        """Not needed."""
        return 0.0


@separable
class Unchanged(NamedTuple):
    """The Euclidean potential: theta_j = w_j.

    Examples
    --------
    >>> Unchanged().coordinate(2.0, 0.0)
    2.0
    """

    def coordinate(self, w, r):
        """theta_j without the common factor."""
        return w


@separable
class Sinh(NamedTuple):
    """The hypentropy: theta_j = beta sinh(w_j).

    Examples
    --------
    >>> float(Sinh(2.0).coordinate(0.0, 0.0))
    0.0
    """

    beta: float

    def coordinate(self, w, r):
        """theta_j without the common factor; capped before it overflows."""
        return self.beta * np.sinh(min(max(w, -_LARGEST_EXPONENT), _LARGEST_EXPONENT))


@separable
class Root(NamedTuple):
    """The power potential: theta_j = sign(w_j) (|w_j| / q)^(1 / (q - 1)).

    Examples
    --------
    >>> float(Root(2.0).coordinate(-4.0, 0.0))
    -2.0
    """

    q: float

    def coordinate(self, w, r):
        """theta_j without the common factor."""
        size = (abs(w) / self.q) ** (1.0 / (self.q - 1.0))
        return size if w > 0.0 else -size


@part
class NormPower(NamedTuple):
    """Half a squared norm: theta_j = R S^(2/q - 1) sign(w_j) |w_j/R|^(q-1), S = sum |w/R|^q.

    Examples
    --------
    >>> part = NormPower(3.0)
    >>> c = part.coordinate(2.0, 4.0)
    >>> round(float(part.factor(part.stat(2.0, c, 4.0), 4.0) * c), 9)
    2.0
    """

    q: float

    def coordinate(self, w, r):
        """theta_j without the common factor."""
        size = min((abs(w) / r) ** (self.q - 1.0), _LARGEST)
        return size if w > 0.0 else -size

    def stat(self, w, c, r):
        """What a dual adds to S."""
        return min(c * (w / r), _LARGEST)

    def factor(self, s, r):
        """The common factor."""
        return r * s ** (2.0 / self.q - 1.0) if s > 0.0 else 0.0

    def reference(self, low, high):
        """The largest size of a dual."""
        return max(-low, high, _SMALLEST)


@part
class Exponential(NamedTuple):
    """The entropy on the simplex: theta_j = exp(w_j - R) / S, S = sum exp(w - R).

    Examples
    --------
    >>> part = Exponential()
    >>> c = part.coordinate(900.0, 900.0)
    >>> float(part.factor(4 * part.stat(900.0, c, 900.0), 900.0) * c)
    0.25
    """

    def coordinate(self, w, r):
        """theta_j without the common factor."""
        return np.exp(min(w - r, _LARGEST_EXPONENT))

    def stat(self, w, c, r):
        """What a dual adds to S."""
        return min(c, _LARGEST)

    def factor(self, s, r):
        """The common factor."""
        return 1.0 / s

    def reference(self, low, high):
        """The largest dual."""
        return high
