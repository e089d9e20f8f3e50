"""Potentials of the singular values of a matrix."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefree.reflectron.potentials.vectors import Hypentropy, Potential


@dataclass(frozen=True)
class Spectral(Potential):
    """A potential of a matrix's singular values: of low rank, not sparse.

    Parameters
    ----------
    base : potential that keeps signs and zeros, default=Hypentropy()

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from tunefree.reflectron.potentials import PNorm
    >>> Spectral(PNorm(1.1)).value(np.ones((2, 2)))
    2.0
    """

    base: Any = Hypentropy()

    def __post_init__(self):
        if not getattr(self.base, "odd", False):
            raise ValueError(f"{self.base!r} has no spectral form: give an odd potential.")

    def through(
        self, matrix: np.ndarray, function: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Apply a function to the singular values."""
        u, s, v = np.linalg.svd(matrix, full_matrices=False)
        return (u * function(s)) @ v

    def value(self, x: np.ndarray) -> float:
        """Psi of the singular values."""
        return self.base.value(np.linalg.svd(x, compute_uv=False))

    def conjugate(self, w: np.ndarray) -> float:
        """psi* of the singular values."""
        return self.base.conjugate(np.linalg.svd(w, compute_uv=False))

    def mirror(self, x: np.ndarray) -> np.ndarray:
        """Gradient of psi."""
        return self.through(x, self.base.mirror)

    def inverse(self, w: np.ndarray) -> np.ndarray:
        """Gradient of psi*: undoes `mirror`."""
        return self.through(w, self.base.inverse)
