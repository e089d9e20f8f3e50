"""Balls of norms of singular values."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefree.reflectron.constraints.balls import LpBall
from tunefree.reflectron.constraints.rules import is_odd, no_rule, on_singular_values


@dataclass(frozen=True)
class SchattenBall:
    """Matrices whose singular values have p-norm at most a radius.

    Parameters
    ----------
    p : float >= 1
    radius : float > 0

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from tunefree.reflectron.potentials import Euclidean
    >>> SchattenBall(1.0, 1.0).project(np.diag([2.0, 1.5]), Euclidean())[0].diagonal()
    array([0.75, 0.25])
    """

    p: float = 1.0
    radius: float = 1.0

    def __post_init__(self):
        LpBall(self.p, self.radius)  # refuses a p or radius that is none

    @property
    def of_values(self) -> LpBall:
        """The ball of their singular values."""
        return LpBall(self.p, self.radius)

    def project(self, dual: np.ndarray, potential: Any) -> tuple[np.ndarray, np.ndarray]:
        """The nearest point of the set, and its dual."""
        base = getattr(potential, "base", None)
        if base is None and is_odd(potential) and hasattr(potential, "exponent"):
            # Half the squared Frobenius norm is the same function of entries and singular values.
            base = potential if potential.exponent(dual.size) == 2.0 else None
        if base is None or dual.ndim != 2:
            raise no_rule(self, potential, "use a matrix, with Euclidean or Spectral(...)")
        return on_singular_values(self.of_values, dual, base)

    def contains(self, theta: np.ndarray, tolerance: float = 1e-9) -> bool:
        """Whether a point is in the set, up to a relative tolerance."""
        return self.of_values.contains(np.linalg.svd(theta, compute_uv=False), tolerance)

    def scaled(self, factor: float) -> "SchattenBall":
        """The set times a factor."""
        return SchattenBall(self.p, self.radius * factor)


def NuclearBall(radius: float = 1.0) -> SchattenBall:
    """Matrices whose singular values sum to at most a radius: ``SchattenBall(1.0, radius)``.

    Parameters
    ----------
    radius : float > 0

    Returns
    -------
    SchattenBall

    Examples
    --------
    >>> NuclearBall(2.0)
    SchattenBall(p=1.0, radius=2.0)
    """
    return SchattenBall(1.0, radius)
