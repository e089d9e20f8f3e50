"""Learning rules: how a sum of gradients becomes a predictor without a step size.

Write z_t = -slope for the negative gradient in the prediction, g = sum_t z_t x_t, and X for the
largest norm (isotropic learners) or the largest absolute value of the column (diagonal ones).

`PiSTOL`
    f = c g with c = b / D exp(g^2 / (2 D)); D bounds the variance of g, growing with the gradients.
`DoWG`
    gradient descent whose step is the squared distance travelled over the root of the weighted
    squared gradients; an isotropic rule only.
"""

from typing import NamedTuple

import numpy as np

from tunefree.core.jit import fast_exp, part, verb

grow, add, variance = verb("grow"), verb("add"), verb("variance")
factor = verb("factor")
enter, loosen, coefficient = verb("enter"), verb("loosen"), verb("coefficient")
importance, increment, settle = verb("importance"), verb("increment"), verb("settle")

# The scalars s[k] of an isotropic learner for each output k. (Methods take the whole table: in a
# kernel a view of one row costs two atomic operations.) GROWTH is the sum in the proof of the
# regret (`bounds.pistol_regret_seen`), infinite where the proof fails; RADIUS and UNIT are DoWG's.
ACCUMULATOR, SQUARED_NORM, SUM, MASS, GROWTH, RADIUS, UNIT = 0, 1, 2, 3, 4, 5, 6
N_SCALARS = 7
# With a larger weight a visit may have a slope beyond the Lipschitz bound.
HEAVIEST = 1.0 + 1e-6


class Regret(NamedTuple):
    """The numbers of a run that the bound of its regret needs (`bounds.run_regret`)."""

    a: float
    b: float
    root: bool  # whether b is multiplied by sqrt(alpha)
    lipschitz: float
    largest: float  # norm of a row
    alpha: np.ndarray  # of shape (n_outputs,), as `bounds.pistol_regret_seen` takes it
    growth: np.ndarray


@part
class PiSTOL(NamedTuple):
    r"""Parameter-free stochastic learning: f = (b/D) exp(\|g\|^2 / (2 D)) g.

    Notes
    -----
    D = X A with A = a L X + a sum |z| |x| (Orabona 2014, Algorithm 3, made free of the data's
    scale), or D = a (L^2 X^2 + sum z^2 x^2) with `squares`.

    Examples
    --------
    >>> rule = PiSTOL(a=1.0, b=0.1, squares=True)
    >>> rule.grow(0.0, 0.0, 3.0, 2.0)
    36.0
    """

    a: float = 0.25  # multiplies the growth of the variance bound D. The theorems need a >= 2.25 L
    b: float = 1.0  # scale of the first predictions
    # Multiply b by sqrt(D) / X, which removes the need to know the number of rows.
    root: bool = True
    # Grow D by z^2 x^2 (as an empirical variance) instead of a |z| X |x| (the paper).
    squares: bool = False
    cap: float = 700.0  # largest exponent

    def grow(self, accumulator, old, new, lipschitz):
        """The accumulator after the largest value X went from old to new."""
        if self.squares:
            return accumulator + self.a * lipschitz * lipschitz * (new * new - old * old)
        return accumulator + self.a * lipschitz * (new - old)

    def add(self, accumulator, z, x):
        """The accumulator after the gradient -z x."""
        if self.squares:
            return accumulator + self.a * (z * x) * (z * x)
        return accumulator + self.a * abs(z) * x

    def regret(self, scalars, shared, lipschitz):
        """The numbers for the bound of a run's regret, or None; `lipschitz` is that of the loss."""
        if self.squares or self.a < 2.25 * lipschitz:
            return None
        largest, _, lipschitz = map(float, shared)
        alpha = scalars[:, ACCUMULATOR] / (largest or 1.0)
        growth = scalars[:, GROWTH].copy()
        a, b, root = float(self.a), float(self.b), bool(self.root)
        return Regret(a, b, root, lipschitz, largest, alpha, growth)

    def variance(self, accumulator, largest):
        """D."""
        return accumulator if self.squares else accumulator * largest

    def factor(self, variance, largest):
        """B / D, times sqrt(D) / X if `root`."""
        if self.root:
            return self.b / (largest * np.sqrt(variance))
        return self.b / variance

    def enter(self, s, k, old, new, lipschitz):
        """Update by a larger row."""
        s[k, ACCUMULATOR] = grow(self, s[k, ACCUMULATOR], old, new, lipschitz)

    def loosen(self, s, k, largest, old, new):
        """Update by a larger Lipschitz bound."""
        s[k, ACCUMULATOR] += grow(self, 0.0, 0.0, largest, new) - grow(self, 0.0, 0.0, largest, old)
        s[k, GROWTH] = np.inf

    def coefficient(self, s, k, largest):
        """The c of f = c g."""
        d = variance(self, s[k, ACCUMULATOR], largest)
        return factor(self, d, largest) * fast_exp(min(0.5 * s[k, SQUARED_NORM] / d, self.cap))

    def importance(self, s, k):
        """Weight of the current iterate in the average."""
        return 1.0

    def increment(self, s, k, slope, norm, largest):
        """The multiple of x that is added to g."""
        before = s[k, ACCUMULATOR]
        after = add(self, before, slope, norm)
        s[k, ACCUMULATOR] = after
        if self.root:
            s[k, GROWTH] += (np.sqrt(after) - np.sqrt(before)) / np.sqrt(largest)
        else:
            s[k, GROWTH] += (after - before) / after
        return -slope

    def settle(self, s, k):
        """Nothing follows the update of g."""


@part
class DoWG(NamedTuple):
    """Distance over weighted gradients (Khaled, Mishchenko, Jin 2023).

    With r the largest distance from the start so far, in units of 1 / n for the norm n of the first
    row that is not zero: v += r^2 s^2 |x / n|^2, then w -= r^2 / (sqrt(v) n^2) s x; iterates are
    averaged with weight r^2. The stored vector is w n and the stored weight n r^2, so that sums
    neither overflow nor underflow for rows of any size.

    Examples
    --------
    >>> DoWG().first
    0.0001
    """

    first: float = 1e-4  # first distance

    def regret(self, scalars, shared, lipschitz):
        """Nothing is proved."""
        return None

    def enter(self, s, k, old, new, lipschitz):
        """Start the distance at the first row that is not zero."""
        if s[k, RADIUS] == 0.0:
            s[k, RADIUS], s[k, UNIT] = self.first, new

    def loosen(self, s, k, largest, old, new):
        """The slopes alone matter."""

    def coefficient(self, s, k, largest):
        """The vector is the iterate times the unit."""
        return 1.0 / s[k, UNIT] if s[k, UNIT] > 0.0 else 1.0

    def importance(self, s, k):
        """Weight of the current iterate in the average."""
        return s[k, RADIUS] * s[k, RADIUS] * s[k, UNIT]

    def increment(self, s, k, slope, norm, largest):
        """The multiple of x that is added to the vector."""
        step = s[k, RADIUS] * slope
        unit = s[k, UNIT]
        s[k, ACCUMULATOR] += (step * (norm / unit)) ** 2
        return -s[k, RADIUS] * step / np.sqrt(s[k, ACCUMULATOR]) / unit

    def settle(self, s, k):
        """Remember the largest distance."""
        s[k, RADIUS] = max(s[k, RADIUS], np.sqrt(s[k, SQUARED_NORM]))


@part
class ConstantStep(NamedTuple):
    """Stochastic gradient descent with a constant step: w -= step * slope * x.

    Examples
    --------
    >>> ConstantStep(0.5).increment(None, 0, 2.0, 1.0, 1.0)
    -1.0
    """

    step: float = 0.25

    def regret(self, scalars, shared, lipschitz):
        """Nothing is proved."""
        return None

    def enter(self, s, k, old, new, lipschitz):
        """The step does not depend on the rows."""

    def loosen(self, s, k, largest, old, new):
        """The step does not depend on the loss."""

    def coefficient(self, s, k, largest):
        """The vector is the iterate itself."""
        return 1.0

    def importance(self, s, k):
        """All iterates count alike."""
        return 1.0

    def increment(self, s, k, slope, norm, largest):
        """The multiple of x that is added to w."""
        return -self.step * slope

    def settle(self, s, k):
        """Nothing follows the update."""
