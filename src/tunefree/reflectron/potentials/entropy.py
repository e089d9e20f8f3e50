"""The entropy, a potential of the simplex; `tunefree.reflectron.potentials` has the table."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from tunefree.reflectron.potentials.coordinates import Exponential
from tunefree.reflectron.potentials.vectors import Potential


@dataclass(frozen=True)
class Entropy(Potential):
    """Negative entropy on the simplex: exponentiated gradient.

    Examples
    --------
    >>> Entropy().inverse(np.zeros(4))
    array([0.25, 0.25, 0.25, 0.25])
    """

    simplex = True

    def value(self, x: np.ndarray) -> float:
        """psi(x) = sum x log x."""
        return float(np.sum(special.xlogy(x, x)))

    def conjugate(self, w: np.ndarray) -> float:
        """psi*(w) = log sum exp w."""
        return float(special.logsumexp(w))

    def mirror(self, x: np.ndarray) -> np.ndarray:
        """Gradient of psi on the simplex, up to a constant."""
        with np.errstate(divide="ignore"):
            return np.log(x)

    def inverse(self, w: np.ndarray) -> np.ndarray:
        """Gradient of psi*: undoes `mirror`."""
        return np.exp(w - special.logsumexp(w))

    def metric_solve(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Inverse Hessian of psi at x, within the simplex, times g."""
        return x * (g - np.sum(x * g))

    def coordinates(self, size: int) -> Any:
        """One coordinate at a time."""
        return Exponential()

    def divergence(self, x: np.ndarray, y: np.ndarray) -> float:
        """The Kullback-Leibler divergence of x from y."""
        return float(np.sum(special.rel_entr(x, y)))

    def convexity(self, size: int, radius: float | None = None) -> tuple[float, float]:
        """Strong convexity, and the exponent of the norm it is in."""
        return 1.0, 1.0
