r"""The rates of a `Geometry`, learned from the data by their evidence.

Rates S, the slope beta and the penalty lambda maximize the evidence of a Gaussian process of free
scale, whose outputs share the kernel,

.. math:: J = \tfrac{n c}{2} \left(\log \tfrac{q}{n c} + \tfrac1n \log\det A\right)
    + \sum_j \tfrac{(\log S_j - \overline{\log S})^2}{2 \sigma^2},
    \qquad A = K + \lambda\,\mathrm{diag}(1/w),\; q = \mathrm{tr}\,Y^\top A^{-1} Y,

plus weak priors of lambda and beta. The log-normal prior of the rates prevents that hundreds of
rates overfit few rows. With :math:`G = A^{-1}/n - A^{-1} Y Y^\top A^{-1}/q` the gradient is
:math:`\partial J / \partial\theta = \tfrac{n c}{2} \langle G, \partial A/\partial\theta\rangle`.

Source: Rasmussen and Williams 2006, sections 4.2, 5.1 and 5.4.1 (automatic relevance
determination); the mixture, the prior and the search are this library's.
"""

from typing import NamedTuple

import numpy as np

from tunefree.core.jit import REASSOCIATE
from tunefree.core.jit import kernel as compiled
from tunefree.core.process import ALONE
from tunefree.kernels.factors import inverted, parts_of
from tunefree.kernels.geometry import Geometry, against_all
from tunefree.kernels.kernels import decay

# Prior deviation of the logarithms of rates, for numbers and for classes.
_RATES = 1.5
_OF_LABELS = 0.6
# Prior mean and deviation of the logarithms of penalty and slope.
_MIDDLE = np.log(0.1)
_WIDTH = 3.0
_BOUNDS = {
    "rate": (-14.0, 4.0),
    "penalty": (np.log(1e-4), np.log(30.0)),
    "slope": (np.log(1e-3), np.log(10.0)),
}
# Starts: rate times the median distance, penalty. The last one is needed for a parity target.
_STARTS = ((1 / 16, 0.1), (1 / 2, 0.1), (4.0, 0.01))
# Rows of a search at least and at most.
ROWS = 700
MORE_ROWS = 1400
# Rows on which starts are compared, and evaluations for each start and for the search.
_START_ROWS = 300
_START_EVALUATIONS = 6
_EVALUATIONS = 16
# The least gain of a step: a tenth of a unit of the evidence is negligible.
_GAIN = 0.1
# A later view must have more evidence by so many units, a factor of e each.
_DECISIVE = 10.0
# The value of the objective where rounding spoils a factor.
_FAILED = 1e10
# In a search single precision is enough from this penalty on.
_SINGLE = 3e-3


@compiled(fastmath=REASSOCIATE, borrows=True, unrolls=False)
def _mix(D, E, own, sizes, slope, K):
    one = D.dtype.type(1.0)
    for i in range(len(D)):
        for k in range(len(sizes)):
            K[i, k] = E[i, k] + slope * (own[i] + sizes[k] - D[i, k]) + one


@compiled(fastmath=REASSOCIATE, borrows=True, unrolls=False)
def _weigh(W, inv, D, E, own, sizes, slope, row):
    n = len(sizes)
    share = W.dtype.type(1.0 / n)
    lines = 0.0
    for i in range(len(D)):
        total = line = W.dtype.type(0.0)
        for k in range(n):
            g = W[i, k] + share * inv[i, k]
            total += g
            line += g * (own[i] + sizes[k] - D[i, k])
            W[i, k] = g * (E[i, k] + slope)
        row[i] = total
        lines += line
    return lines


class _KernelValues(NamedTuple):
    """Kernel values of the rows of a search."""

    A: np.ndarray  # the rows in the units of the kernel
    sizes: np.ndarray
    D: np.ndarray  # their distances
    E: np.ndarray  # exp(-D)
    K: np.ndarray  # the kernel matrix plus the penalty


class _Evidence:
    """The negative logarithm of the evidence, and its gradient, for some rows."""

    def __init__(self, kernel, Z, Y, weights, shared, labels=False, team=ALONE):
        self.kernel = kernel
        self.Z = Z
        self.Y = Y
        self.weights = weights
        self.shared = shared
        self.labels = labels
        self.team = team
        self.parts = parts_of(len(Z))
        self.q = int(shared.max()) + 1  # rates
        # Indicators of classes are far from normal, and they are not independent outputs.
        n_outputs = 1 if labels else Y.shape[1]
        self.spread = _OF_LABELS if labels else _RATES
        self.half = 0.5 * len(Y) * n_outputs

    def geometry(self, theta):
        rates = np.exp(theta[: self.q])[self.shared]
        return Geometry(self.kernel, rates, *np.exp(theta[[self.q + 1, self.q]]).tolist())

    def __call__(self, theta):
        g, (n, c) = self.geometry(theta), self.Y.shape
        values = self._kernel_values(g)
        found = inverted(values.K, self.team) if g.penalty >= _SINGLE else None
        found = found or inverted(values.K.astype(np.float64), self.team)
        if found is None:  # a larger penalty helps
            return _FAILED, -np.eye(len(theta))[self.q]
        inv, logdet = found
        alpha = (inv @ self.Y).astype(np.float32)
        size = float(np.vdot(self.Y, alpha))
        value = self.half * (np.log(size / (n * c)) + logdet / n)
        slope = self._slope(g, values, inv, alpha, size)
        deviation = theta[: self.q] - theta[: self.q].mean()
        scaled = (theta[self.q :] - _MIDDLE) / _WIDTH
        prior = 0.5 * np.sum(np.square(deviation / self.spread)) + 0.5 * np.sum(np.square(scaled))
        return value + prior, slope + np.append(deviation / self.spread**2, scaled / _WIDTH)

    def _kernel_values(self, g):
        """The kernel matrix plus the penalty, and what it is made of."""
        A = np.ascontiguousarray(g.show(self.Z))
        sizes = self.kernel.sizes(A)
        beta = np.float32(g.slope)
        D, E, K = np.empty((3, len(A), len(A)), A.dtype)

        def distances(block):
            rows, part = block
            self.kernel.distances(rows, A, sizes[part], sizes, D[part])

        def values(part):
            decay(D[part], 1.0, E[part])
            _mix(D[part], E[part], sizes[part], sizes, beta, K[part])

        self.team.map(distances, against_all(self.kernel, A))
        self.team.map(values, self.parts)
        K[np.diag_indices(len(A))] += np.asarray(g.penalty / self.weights, K.dtype)
        return _KernelValues(A, sizes, D, E, K)

    def _slope(self, g, values, inv, alpha, size):
        """The gradient of the evidence, without that of the prior."""
        A, sizes, D, E, _ = values
        n = len(A)
        kernel = self.kernel
        beta = np.float32(g.slope)
        # W is G times the derivative of the kernel by D; `row` has the sums of G's rows.
        W = np.empty_like(D)
        row = np.empty(n)
        negative = alpha.T / -size
        self.team.map(lambda part: np.matmul(alpha[part], negative, out=W[part]), self.parts)
        diagonal = np.diagonal(W) + np.diagonal(inv) / n
        of_penalty = self.half * g.penalty * float((diagonal / self.weights).sum())

        def weigh(part):
            return _weigh(W[part], inv[part], D[part], E[part], sizes[part], sizes, beta, row[part])

        of_slope = self.half * g.slope * sum(self.team.map(weigh, self.parts))
        if kernel.power == 2:
            spread = sum(self.team.map(lambda part: kernel.spread(A, W, part), self.parts))
        else:
            step = 16 if len(self.parts) > 1 else A.shape[1]
            columns = [slice(j, j + step) for j in range(0, A.shape[1], step)]
            spread = np.concatenate(self.team.map(lambda c: kernel.spread(A[:, c], W), columns))
        each = 2.0 * self.half * (g.slope * kernel.spread_from_zero(A, row) - spread)
        return np.append(np.bincount(self.shared, each, self.q), [of_penalty, of_slope])

    def minimize(self, theta, most):
        """The best of at most so many evaluations, and its value.

        L-BFGS in a box: the quasi-Newton step in the coordinates that may change, shortened until
        the value falls.

        SciPy's L-BFGS-B was tried in its place, with the same limits on evaluations. With 30
        columns, two of which matter, it ended at an evidence of 197.9 instead of 287.3 and a
        held-out error of 0.122 instead of 0.085; of the Friedman problem at 350.7 instead of 354.1.
        On the diabetes data it took 34 evaluations instead of 21 for the same error: near the
        minimum its line search goes on where all that could be gained is the rounding of single
        precision.
        """
        low, high = self.bounds()
        theta = np.clip(theta, low, high)
        value, slope = self(theta)
        most -= 1
        pairs = []  # of steps and changes of the slope, the latest last
        fall = _FAILED
        while fall > _GAIN and most > 0:
            stays_low = (theta <= low) & (slope > 0.0)
            stays_high = (theta >= high) & (slope < 0.0)
            free = ~(stays_low | stays_high)
            step = -_newton([free * pair for pair in pairs], free * slope)
            step *= min(1.0, 4.0 / max(np.abs(step).max(), 1e-300))
            fall = 0.0
            length = 1.0
            while most > 0:
                new = np.clip(theta + length * step, low, high)
                new_value, new_slope = self(new)
                most -= 1
                expected = float(slope @ (new - theta))
                if new_value <= value + 1e-4 * expected:
                    pair = np.array([new - theta, new_slope - slope])
                    is_curved = pair[0] @ pair[1] > 1e-10 * (pair[1] @ pair[1])
                    if value < _FAILED and is_curved:
                        pairs = [*pairs[-9:], pair]
                    fall = value - new_value
                    theta, value, slope = new, new_value, new_slope
                    break
                if expected > -0.1 * _GAIN:
                    break
                # The minimum of the parabola through both values and the slope.
                share = 0.5 * expected / (expected - new_value + value)
                length *= float(np.clip(share, 0.1, 0.5))
        return theta, value

    def bounds(self):
        low, high = zip(
            *[_BOUNDS["rate"]] * self.q, _BOUNDS["penalty"], _BOUNDS["slope"], strict=True
        )
        if self.labels:
            high = (*high[:-1], low[-1])
        return np.array(low), np.array(high)


def _newton(pairs, slope):
    """The L-BFGS inverse Hessian times the slope; pairs are (step, change of slope), in order.

    Source: Nocedal 1980, the two loops.
    """
    pairs = [(s, y, s @ y) for s, y in pairs if s @ y > 0.0]
    if not pairs:
        return slope / max(np.sqrt(slope @ slope), 1e-300)
    shares = []
    for s, y, size in reversed(pairs):
        shares.append((s @ slope) / size)
        slope = slope - shares[-1] * y
    _, y, size = pairs[-1]
    slope = slope * (size / (y @ y))
    for (s, y, size), share in zip(pairs, reversed(shares), strict=True):
        slope = slope + s * (share - (y @ slope) / size)
    return slope


def best_view(kernel, views, Y, weights, labels=False, team=ALONE):
    """The number of the view of most evidence, and its geometry.

    A later view must be better than earlier ones by `_DECISIVE`.

    Parameters
    ----------
    kernel : part
        With `power`, `sizes`, `distances`, `spread` and `spread_from_zero`.
    views : list of pairs
        Z, ndarray of float32 of shape (n, d): columns of about unit spread, rows in random order.
        And the number of each column's rate, ndarray of int of shape (d,): columns with the same
        number share one.
    Y : ndarray of shape (n, c)
        Targets of mean zero and about unit variance.
    weights : ndarray of shape (n,)
    labels : bool, default=False
        Whether targets are classes. A normal distribution then gives too much evidence: rates
        differ less, outputs count as one, and the slope is at its lower bound (docs/selection.md).
    team : Workers, optional

    Examples
    --------
    >>> from tunefree.kernels.kernels import RBF
    >>> Z = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    >>> views = [(Z, np.arange(3))]
    >>> _, g = best_view(RBF(), views, np.sin(3 * Z[:, :1]), np.ones(200))
    >>> bool(g.rates[0] > 100 * g.rates[1:].max())
    True
    """
    best, number, geometry, Y = np.inf, 0, None, Y.astype(np.float32)
    for i, (Z, shared) in enumerate(views):
        whole = _Evidence(kernel, Z, Y, weights, shared, labels, team)
        m = _START_ROWS
        part = _Evidence(kernel, Z[:m], Y[:m], weights[:m], shared, labels)
        median = _median(kernel, Z)
        starts = [
            np.append(np.full(whole.q, np.log(rate / median)), [np.log(penalty), _MIDDLE])
            for rate, penalty in _STARTS
        ]
        tried = team.map(lambda theta, part=part: part.minimize(theta, _START_EVALUATIONS), starts)
        theta, value = whole.minimize(min(tried, key=lambda r: r[1])[0], _EVALUATIONS)
        if value < best - _DECISIVE * (i > 0):
            best, number, geometry = value, i, whole.geometry(theta)
    return number, geometry


def _median(kernel, A):
    """The median distance of a few rows, at least a thousandth."""
    A = np.ascontiguousarray(A[:200])
    D = kernel.distances(A, A, kernel.sizes(A), kernel.sizes(A))
    off = D[np.triu_indices(len(A), 1)]
    return float(max(np.median(off), 1e-3)) if len(off) else 1.0
