"""A quadratic potential in the metric of the rows: natural steps, for correlated columns."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tunefree.reflectron.potentials.vectors import Potential


@dataclass(frozen=True)
class Whitened(Potential):
    r"""Half the squared norm in the metric of the columns' second moments.

    .. math:: \psi(x) = \tfrac12\, x^\top (C + a I)\, x

    with C the weighted second moments of the columns, scaled to the trace d. A step of mirror
    descent is a step of Fisher scoring with a ridge towards the parameters before it (iterated
    Tikhonov). Few passes are enough however the columns are correlated; directions with a variance
    below a are learned late. The estimators compute C from the rows (`bound`); before, it is the
    identity.

    Parameters
    ----------
    shrinkage : float > 0, default=1e-2
        The number a.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> one = Whitened(0.5).bound(np.array([[2.0, 0.0], [0.0, 0.0]]))
    >>> one.inverse(np.array([5.0, 1.0])), one
    (array([2., 2.]), Whitened(shrinkage=0.5))
    """

    shrinkage: float = 1e-2
    variances: Any = field(default=None, repr=False, compare=False)
    directions: Any = field(default=None, repr=False, compare=False)
    unit: float = field(default=1.0, repr=False, compare=False)  # a column of ones in C
    patience_factor = 0.2  # in the metric of the rows few steps are enough

    def __post_init__(self):
        if not (isinstance(self.shrinkage, int | float) and 0.0 < self.shrinkage < np.inf):
            raise ValueError(f"shrinkage={self.shrinkage!r} is not a positive number.")

    def bound(self, moments: np.ndarray, ones: float | None = None) -> "Whitened":
        """The potential of these second moments, of shape (d, d), and of a column of ones."""
        trace = float(np.trace(moments))
        scale = len(moments) / trace if trace > 0.0 else 1.0
        variances, directions = np.linalg.eigh(moments * scale)
        unit = 1.0 if ones is None else float(ones) * scale
        if abs(unit - 1.0) < 1e-9:  # columns are standardized, up to rounding
            unit = 1.0
        return replace(self, variances=np.maximum(variances, 0.0), directions=directions, unit=unit)

    def like(self, other: "Whitened") -> "Whitened":
        """The potential with the moments of another."""
        return replace(
            self, variances=other.variances, directions=other.directions, unit=other.unit
        )

    def unbound(self) -> "Whitened":
        """The potential without its moments."""
        return Whitened(self.shrinkage)

    def _scaled(self, x, power):
        if self.variances is None:
            return x * (1.0 + self.shrinkage) ** power
        return (
            (x @ self.directions) * (self.variances + self.shrinkage) ** power @ (self.directions.T)
        )

    def mirror(self, x: np.ndarray) -> np.ndarray:
        """Gradient of psi."""
        return self._scaled(x, 1.0)

    def inverse(self, w: np.ndarray) -> np.ndarray:
        """Gradient of psi*: undoes `mirror`."""
        return self._scaled(w, -1.0)

    def value(self, x: np.ndarray) -> float:
        """psi(x)."""
        return 0.5 * float(np.sum(x * self.mirror(x)))

    def conjugate(self, w: np.ndarray) -> float:
        """psi*(w)."""
        return 0.5 * float(np.sum(w * self.inverse(w)))

    def metric_solve(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Inverse Hessian of psi at x, times g."""
        return self.inverse(g)
