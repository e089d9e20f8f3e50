"""What one pass of the Optimistic Perceptron adds up, and how two stretches of rows join."""

from typing import NamedTuple

import numpy as np

from tunefree._jit import kernel


@kernel
def blend(answer, mean, rho):
    """Move the mean by rho towards the answer."""
    for i in range(mean.shape[0]):
        mean[i] += rho * (answer[i] - mean[i])


@kernel
def advance(x, step, sums, longer, trial, w, out):
    """Add step x to the sums; the next w, and the v it leads to, into w and out."""
    for j in range(x.shape[0]):
        sums[j] += step * x[j]
        w[j] = sums[j] + longer * x[j]
        out[j] = trial[j] + longer * w[j]


class Sweep(NamedTuple):
    """What one pass adds up.

    Attributes
    ----------
    shift, mass : float
        The answer's exponent and sum: sum_i p_i = mass exp(-shift) before normalising.
    pulled : ndarray or 0.0
        Z' of the unnormalised answer.
    average, current : float
        Smallest margins under v and w.
    average_errors, current_errors : float
        Weight of the rows that v and w get wrong.
    square, least, total : float
        The longest squared row, the smallest and the total weight.
    n_rows : int
    """

    shift: float = np.inf
    mass: float = 0.0
    pulled: np.ndarray | float = 0.0
    average: float = np.inf
    current: float = np.inf
    average_errors: float = 0.0
    current_errors: float = 0.0
    square: float = 0.0
    least: float = np.inf
    total: float = 0.0
    n_rows: int = 0

    def join(self, other):
        """The sums of two stretches of rows."""
        shift = min(self.shift, other.shift)
        if self.n_rows == 0:
            return other
        a, b = (np.exp(shift - s.shift) if s.mass > 0.0 else 0.0 for s in (self, other))
        return Sweep(
            shift,
            a * self.mass + b * other.mass,
            a * self.pulled + b * other.pulled,
            min(self.average, other.average),
            min(self.current, other.current),
            self.average_errors + other.average_errors,
            self.current_errors + other.current_errors,
            max(self.square, other.square),
            min(self.least, other.least),
            self.total + other.total,
            self.n_rows + other.n_rows,
        )
