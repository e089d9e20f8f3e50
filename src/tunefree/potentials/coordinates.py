r"""Potentials one coordinate at a time, for steps that touch only the entries of a row.

.. math:: \theta_j = \mathrm{factor}(S)\, \mathrm{coordinate}(w_j), \qquad
    S = \sum_j \mathrm{stat}(w_j)

A row changes few duals, so S follows in O(nnz), and so do all parameters: the others change by the
common factor. A separable potential has the factor 1. `potential.coordinates(d)` says which of
these parts is its own, None if it has none. ``base(top)`` is what may be subtracted from all
duals, whose largest is `top`, without a change of theta.
"""

from typing import NamedTuple

import numpy as np

from tunefree._jit import part, verb

coordinate, stat, factor, base = (
    verb("coordinate", 1), verb("stat", 1), verb("factor", 1), verb("base", 1)
)  # fmt: skip
_LARGEST_EXPONENT = 700.0


def separable(cls):
    """A part whose coordinates know nothing of each other: S = 0, and the factor is 1."""
    for name in ("stat", "factor", "base"):
        setattr(cls, name, getattr(_Alone, name))
    return part(cls)


class _Alone:
    def stat(self, w):
        """What a dual adds to S."""
        return 0.0

    def factor(self, s):
        """The common factor."""
        return 1.0

    def base(self, top):
        """What may be subtracted from every dual."""
        return 0.0


@separable
class Linear(NamedTuple):
    """The Euclidean potential: theta_j = w_j.

    Examples
    --------
    >>> Linear().coordinate(2.0)
    2.0
    """

    def coordinate(self, w):
        """theta_j without the common factor."""
        return w


@separable
class Sinh(NamedTuple):
    """The hypentropy: theta_j = beta sinh(w_j).

    Examples
    --------
    >>> float(Sinh(2.0).coordinate(0.0))
    0.0
    """

    beta: float

    def coordinate(self, w):
        """theta_j without the common factor; capped before it overflows."""
        return self.beta * np.sinh(min(max(w, -_LARGEST_EXPONENT), _LARGEST_EXPONENT))


@separable
class Root(NamedTuple):
    """The power potential: theta_j = sign(w_j) (|w_j| / q)^(1 / (q - 1)).

    Examples
    --------
    >>> float(Root(2.0).coordinate(-4.0))
    -2.0
    """

    q: float

    def coordinate(self, w):
        """theta_j without the common factor."""
        size = (abs(w) / self.q) ** (1.0 / (self.q - 1.0))
        return size if w > 0.0 else -size


@part
class NormPower(NamedTuple):
    """Half a squared norm: theta_j = S^(2/q - 1) sign(w_j) |w_j|^(q-1), S = sum |w|^q.

    Examples
    --------
    >>> part = NormPower(3.0)
    >>> round(float(part.factor(part.stat(2.0)) * part.coordinate(2.0)), 9)
    2.0
    """

    q: float

    def coordinate(self, w):
        """theta_j without the common factor."""
        size = abs(w) ** (self.q - 1.0)
        return size if w > 0.0 else -size

    def stat(self, w):
        """What a dual adds to S."""
        return abs(w) ** self.q

    def factor(self, s):
        """The common factor."""
        return s ** (2.0 / self.q - 1.0) if s > 0.0 else 0.0

    def base(self, top):
        """What may be subtracted from every dual."""
        return 0.0


@part
class Exponential(NamedTuple):
    """The entropy on the simplex: theta_j = exp(w_j) / S, S = sum exp(w).

    Examples
    --------
    >>> part = Exponential()
    >>> float(part.factor(4 * part.stat(0.0)) * part.coordinate(0.0))
    0.25
    """

    def coordinate(self, w):
        """theta_j without the common factor; capped before it overflows."""
        return np.exp(min(w, _LARGEST_EXPONENT))

    def stat(self, w):
        """What a dual adds to S."""
        return np.exp(min(w, _LARGEST_EXPONENT))

    def factor(self, s):
        """The common factor."""
        return 1.0 / s

    def base(self, top):
        """What may be subtracted from every dual."""
        return top
