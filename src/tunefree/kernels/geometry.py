r"""The geometry of a kernel: a rate for each column, learned from the data.

The kernel is :math:`k(x, z) = e^{-D} + \beta\,(b(x) + b(z) - D) + 1` with the distance
:math:`D = \sum_j S_j |x_j - z_j|^p` and :math:`b(x) = \sum_j S_j |x_j|^p`: a product kernel, an
additive one and a constant. The middle term is positive definite: for p = 1 it is a sum of
Brownian motions (piecewise linear functions of single columns), for p = 2 the linear kernel. Its
cost is negligible once D is known. Rates S, the slope beta and the penalty lambda maximize the
evidence of a Gaussian process of free scale, whose outputs share the kernel,

.. math:: J = \tfrac{n c}{2} \left(\log \tfrac{q}{n c} + \tfrac1n \log\det A\right)
    + \sum_j \tfrac{(\log S_j - \overline{\log S})^2}{2 \sigma^2},
    \qquad A = K + \lambda\,\mathrm{diag}(1/w),\; q = \mathrm{tr}\,Y^\top A^{-1} Y,

plus weak priors of lambda and beta. The log-normal prior of the rates prevents that hundreds of
rates overfit few rows. With :math:`G = A^{-1}/n - A^{-1} Y Y^\top A^{-1}/q` the gradient is
:math:`\partial J / \partial\theta = \tfrac{n c}{2} \langle G, \partial A/\partial\theta\rangle`.

Source: Rasmussen and Williams 2006, sections 4.2, 5.1 and 5.4.1 (automatic relevance
determination); the mixture, the prior and the search are this library's.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.blas import gemm, potrf, potri, potrs, trsm
from tunefree.core.jit import REASSOCIATE, fast_exp, fast_exp32, maximum
from tunefree.core.jit import kernel as compiled
from tunefree.core.process import ALONE
from tunefree.kernels.kernels import HALVED, decay, mirror

# Prior deviation of the logarithms of rates, and where targets are classes; prior mean and
# deviation of the logarithms of penalty and slope.
_RATES, _OF_LABELS, _MIDDLE, _WIDTH = 1.5, 0.6, np.log(0.1), 3.0
_BOUNDS = {
    "rate": (-14.0, 4.0),
    "penalty": (np.log(1e-4), np.log(30.0)),
    "slope": (np.log(1e-3), np.log(10.0)),
}
# Starts: rate times the median distance, penalty. The last one is needed for a parity target.
_STARTS = ((1 / 16, 0.1), (1 / 2, 0.1), (4.0, 0.01))
# Rows of a search at least and at most.
ROWS, MORE_ROWS = 700, 1400
# Rows from which starts are compared, evaluations for that and for the search, and the least gain
# of a step: a tenth of a unit of the evidence is negligible.
_START_ROWS, _START_EVALUATIONS, _EVALUATIONS, _GAIN = 300, 6, 16, 0.1
# A later view must have more evidence by so many units, a factor of e each.
_DECISIVE = 10.0
# The value of the objective where rounding spoils a factor.
_FAILED = 1e10
# Kernel values to compute for the permutation effects of all columns.
_PERMUTED_VALUES = 1e7
# Rows whose columns are permuted, at most.
_MOST_PERMUTED = 1000
_NONE = np.empty(0, dtype=np.int64)
# Single precision is enough from this penalty on; for a fit of so many rows, from the second.
_SINGLE = 3e-3
_MANY, SINGLE_MANY = 1000, 0.03
# Up to so many rows are one task; up to so many are inverted by LAPACK alone.
_WHOLE, _LEAF = 1024, 160


# Kernel values in place of distances, in one sweep.
@compiled(borrows=True)
def _values32(D, left, right, slope):
    one, lowest = np.float32(1.0), np.float32(-87.0)
    for i in range(len(D)):
        row, size = D[i], left[i]
        for k in range(len(row)):
            lines = ((row[k] - size) - right[k]) * slope
            row[k] = fast_exp32(maximum(-row[k], lowest)) - lines + one


@compiled(borrows=True)
def _values64(D, left, right, slope):
    for i in range(len(D)):
        row, size = D[i], left[i]
        for k in range(len(row)):
            lines = ((row[k] - size) - right[k]) * slope
            row[k] = fast_exp(maximum(-row[k], -700.0)) - lines + 1.0


@compiled(fastmath=REASSOCIATE)
def _distance(a, b, squares):
    """The distance of two rows, and the sum of their sizes."""
    distance = sizes = 0.0
    if squares:
        for k in range(len(a)):
            distance += (a[k] - b[k]) ** 2
            sizes += a[k] * a[k] + b[k] * b[k]
    else:
        for k in range(len(a)):
            distance += abs(a[k] - b[k])
            sizes += abs(a[k]) + abs(b[k])
    return distance, sizes


@compiled
def _add_products(A, B, squares, slope, coef, out):
    """Add the kernel values of rows A with rows B, times coefficients."""
    for i in range(len(A)):
        for j in range(len(B)):
            distance, sizes = _distance(A[i], B[j], squares)
            value = fast_exp(maximum(-distance, -700.0)) - (distance - sizes) * slope + 1.0
            for c in range(coef.shape[1]):
                out[i, c] += value * coef[j, c]


class Geometry(NamedTuple):
    """A kernel with a rate for each column."""

    kernel: Any  # `kernels.RBF` (p = 2) or `kernels.Laplacian` (p = 1) with gamma = 1
    rates: np.ndarray
    slope: float
    penalty: float

    def show(self, Z):
        """Rows in the units of the kernel, so that every rate is 1."""
        return Z * (self.rates ** (1.0 / self.kernel.power)).astype(Z.dtype)

    def gram(self, A, B, out=None):
        """Kernel values of rows in these units, shape (n, m)."""
        a, b = self.kernel.sizes(A), self.kernel.sizes(B)
        D = self.kernel.distances(A, B, a, b, out)
        to_values = _values32 if D.dtype == np.float32 else _values64
        to_values(D, a, b, D.dtype.type(self.slope))
        return D

    def products(self, A, B, coef):
        """`gram(A, B) @ coef` in double precision, for few rows A, without the matrix."""
        A, B, coef = (np.ascontiguousarray(part, np.float64) for part in (A, B, coef))
        out = np.zeros((len(A), coef.shape[1]))
        if A.shape[1] != B.shape[1] or len(B) != len(coef):
            raise ValueError(f"Rows of {A.shape[1]} columns do not fit landmarks of {B.shape[1]}.")
        _add_products(A, B, self.kernel.power == 2, float(self.slope), coef, out)
        return out

    def onnx(self, g, X):
        """Rows in the units of the kernel, as nodes of a graph."""
        return g("Mul", X, self.rates ** (1.0 / self.kernel.power))

    def onnx_values(self, g, X, B):
        """Kernel values of rows in these units with those of the array B, as nodes of a graph."""
        E, lines = self.kernel.onnx(g, X, B), self.kernel.onnx_lines(g, X, B)
        return g("Add", g("Add", E, 1.0), g("Mul", lines, float(self.slope)))


def parts_of(n, whole=_WHOLE):
    """Blocks of n rows for threads; up to `whole` rows are one block."""
    step = n if n <= whole else min(max(n // 8, 256), 1024)
    return [slice(i, min(i + step, n)) for i in range(0, n, max(step, 1))]


def _against_all(kernel, A):
    """Blocks of rows whose distances to all rows are a task, and their places."""
    if kernel.power == 1 and A.shape[1] > HALVED:  # half of the distances of A to itself is enough
        return [(A, slice(None))]
    return [(A[part], part) for part in parts_of(len(A))]


def gram(geometry, A, team):
    """Kernel values of transformed rows with themselves."""
    K = np.empty((len(A), len(A)), A.dtype)
    blocks = _against_all(geometry.kernel, A)
    team.map(lambda block: geometry.gram(block[0], A, K[block[1]]), blocks)
    return K


def factored(A, team, whole=_WHOLE):
    """Replace A by its lower Cholesky factor, block by block; threads update the rows below."""
    parts = parts_of(len(A), whole)
    for i, part in enumerate(parts):
        if failed := potrf(A[part, part]):
            return failed
        rest = parts[i + 1 :]
        team.map(lambda rows, p=part: trsm(A[p, p], A[rows, p]), rest)
        team.map(lambda c, p=part: gemm(A[c.start :, p], A[c, p], A[c.start :, c]), rest)
    return 0


def _copied(K, team):
    """A symmetric matrix in Fortran order."""
    out = np.empty(K.shape, K.dtype, order="F")
    team.map(lambda part: np.copyto(out[:, part], K[part].T), parts_of(len(K)))
    return out


def inverse(K, penalty, weights, last, team=ALONE):
    """A block of the inverse of K + penalty diag(1 / weights), and the matrix's Cholesky factor.

    It is the trailing block, of the `last` rows. None if rounding spoiled the factor, which takes
    the memory of K.
    """
    A = K.T  # in Fortran order
    A[np.diag_indices_from(A)] += (penalty / weights).astype(A.dtype)
    if factored(A, team) or not np.isfinite(np.diagonal(A)).all():
        return None
    return _invert(np.array(A[-last:, -last:], order="F"), team), A


def root_of(factor, team, whole=_WHOLE):
    """The inverse of a lower Cholesky factor, by panels."""
    n = len(factor)
    root = np.zeros((n, n), factor.dtype, order="F")

    def panel(part):
        root[part, part] = np.eye(part.stop - part.start)
        trsm(factor[part.start :, part.start :], root[part.start :, part], left=True)

    team.map(panel, parts_of(n, whole))
    return root


def _invert(factor, team):
    """The inverse from the lower Cholesky factor, which is overwritten."""
    parts = parts_of(len(factor))
    if len(parts) == 1:
        potri(factor)
    else:
        root = root_of(factor, team)

        def product(part):
            below = slice(part.start, None)
            factor[part, : part.stop] = root[below, part].T @ root[below, : part.stop]

        team.map(product, reversed(parts))
    team.map(lambda part: mirror(factor.T, part.start, part.stop), parts)
    return factor


def _inverted(A, team=ALONE):
    """The inverse of a symmetric matrix and the logarithm of its determinant, or None.

    With few rows it is computed from two halves: matrix products are three times as fast as LAPACK.
    """
    h = len(A) // 2
    if not _LEAF < len(A) <= _WHOLE:
        F = np.array(A, order="F") if len(A) <= _LEAF else _copied(A, team)
        failed, size = factored(F, team), np.diagonal(F).astype(np.float64)
        if failed or not np.isfinite(size).all():
            return None
        return _invert(F, team).T, 2.0 * np.log(size).sum()
    if (first := _inverted(A[:h, :h])) is None:
        return None
    T = A[h:, :h] @ first[0]
    if (second := _inverted(A[h:, h:] - T @ A[:h, h:])) is None:
        return None
    out, below = np.empty_like(A), second[0] @ T
    out[:h, :h], out[h:, h:] = first[0] + T.T @ below, second[0]
    out[h:, :h], out[:h, h:] = -below, -below.T
    return out, first[1] + second[1]


@compiled(fastmath=REASSOCIATE, borrows=True)
def _mix(D, E, own, sizes, slope, K):
    one = D.dtype.type(1.0)
    for i in range(len(D)):
        for k in range(len(sizes)):
            K[i, k] = E[i, k] + slope * (own[i] + sizes[k] - D[i, k]) + one


@compiled(fastmath=REASSOCIATE, borrows=True)
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
        self.kernel, self.Z, self.Y, self.weights, self.shared = kernel, Z, Y, weights, shared
        self.labels, self.team, self.parts = labels, team, parts_of(len(Z))
        self.q = int(shared.max()) + 1
        # Indicators of classes are far from normal, and they are not independent outputs.
        n_outputs, self.spread = (1, _OF_LABELS) if labels else (Y.shape[1], _RATES)
        self.half = 0.5 * len(Y) * n_outputs

    def geometry(self, theta):
        rates = np.exp(theta[: self.q])[self.shared]
        return Geometry(self.kernel, rates, *np.exp(theta[[self.q + 1, self.q]]).tolist())

    def __call__(self, theta):
        g, (n, c) = self.geometry(theta), self.Y.shape
        values = self._kernel_values(g)
        found = _inverted(values.K, self.team) if g.penalty >= _SINGLE else None
        found = found or _inverted(values.K.astype(np.float64), self.team)
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
        sizes, beta = self.kernel.sizes(A), np.float32(g.slope)
        D, E, K = np.empty((3, len(A), len(A)), A.dtype)

        def distances(block):
            rows, part = block
            self.kernel.distances(rows, A, sizes[part], sizes, D[part])

        def values(part):
            decay(D[part], 1.0, E[part])
            _mix(D[part], E[part], sizes[part], sizes, beta, K[part])

        self.team.map(distances, _against_all(self.kernel, A))
        self.team.map(values, self.parts)
        K[np.diag_indices(len(A))] += np.asarray(g.penalty / self.weights, K.dtype)
        return _KernelValues(A, sizes, D, E, K)

    def _slope(self, g, values, inv, alpha, size):
        """The gradient of the evidence, without that of the prior."""
        A, sizes, D, E, _ = values
        n, kernel, beta = len(A), self.kernel, np.float32(g.slope)
        # W is G times the derivative of the kernel by D; `row` has the sums of G's rows.
        W, row, negative = np.empty_like(D), np.empty(n), alpha.T / -size
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
        the value falls. (SciPy's goes on for tens of evaluations when all that could be gained is
        the rounding of single precision.)
        """
        low, high = self.bounds()
        theta, pairs = np.clip(theta, low, high), []
        value, slope = self(theta)
        fall, most = _FAILED, most - 1
        while fall > _GAIN and most > 0:
            stays_low, stays_high = (theta <= low) & (slope > 0.0), (theta >= high) & (slope < 0.0)
            free = ~(stays_low | stays_high)
            step = -_newton([free * pair for pair in pairs], free * slope)
            step *= min(1.0, 4.0 / max(np.abs(step).max(), 1e-300))
            fall, t = 0.0, 1.0
            while most > 0:
                new = np.clip(theta + t * step, low, high)
                new_value, new_slope = self(new)
                most, expected = most - 1, float(slope @ (new - theta))
                if new_value <= value + 1e-4 * expected:
                    pair = np.array([new - theta, new_slope - slope])
                    if value < _FAILED and pair[0] @ pair[1] > 1e-10 * (pair[1] @ pair[1]):
                        pairs = [*pairs[-9:], pair]
                    fall = value - new_value
                    theta, value, slope = new, new_value, new_slope
                    break
                if expected > -0.1 * _GAIN:
                    break
                # The minimum of the parabola through both values and the slope.
                t *= float(np.clip(0.5 * expected / (expected - new_value + value), 0.1, 0.5))
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


def n_permuted_rows(n, n_columns, n_held):
    """On how many rows permutation effects of a predictor with n coefficients are computed.

    They cost at most as much as predicting the held-out rows twice, if that is more than
    `_PERMUTED_VALUES` kernel values.
    """
    cheap = max(_PERMUTED_VALUES / max(n * n_columns, 1), 2.0 * n_held / n_columns)
    return int(min(max(cheap, 10), _MOST_PERMUTED))


def permutation_effects(geometry, A, centers, coef, source: Any, columns, without=None, team=ALONE):
    r"""How predictions change when columns come from the next row, of shape (n_columns, n, c).

    Parameters
    ----------
    geometry : Geometry
    A : ndarray of shape (n, q)
        Transformed rows, in random order.
    centers : ndarray of shape (m, q)
    coef : ndarray of shape (m, c)
    source : ndarray of int of shape (q,), or callable
        The column of each coordinate; or a function of columns that gives these rows, transformed,
        with the columns from the next row.
    columns : list of ndarray of int
        Groups of columns, each permuted as a whole.
    without : tuple of ndarray of shapes (n, m) and (n, c), optional
        Rows of the inverse and residuals of `exact`: row i is then predicted by the coefficients
        :math:`\alpha - A^{-1} e_i (\alpha_i / A^{-1}_{ii})`, which were learned without it.
    team : Workers, optional
        Threads, which share the groups.
    """
    out = np.zeros((len(columns), len(A), coef.shape[1]))
    kernel, slope = geometry.kernel, geometry.slope

    def distances(a, c):
        sizes = kernel.sizes(a)
        return kernel.distances(a, c, sizes, kernel.sizes(c)), sizes

    A, centers = (part.astype(np.float32, copy=False) for part in (A, centers))
    coef = coef.astype(np.float32)
    D, _ = distances(A, centers)
    E = decay(D, 1.0)
    left = kernel.sizes(A)

    def compute(effect, group):
        if callable(source):
            permuted: Any = source(group)
            new, sizes = distances(permuted.astype(np.float32), centers)
            change, lines = new - D, sizes - left
        else:
            own = np.flatnonzero(np.isin(source, group))
            if not len(own):
                return
            old, sizes = distances(*(np.ascontiguousarray(part[:, own]) for part in (A, centers)))
            change, lines = np.roll(old, 1, axis=0) - old, np.roll(sizes, 1) - sizes
        # The change of the kernel values.
        values = decay(np.maximum(D + change, 0.0), 1.0)
        values += slope * (lines[:, None] - change) - E
        effect[:] = values @ coef
        if without is not None:
            effect -= np.einsum("ik,ik->i", values, without[0])[:, None] * without[1]

    team.map(lambda pair: compute(*pair), zip(out, columns, strict=True))
    return out


def exact(geometry, A, Y, weights, held, groups=None, inverse_of=_NONE, team=ALONE):
    r"""Kernel ridge regression on all rows, and held-out predictions of the last `held` rows.

    With :math:`\alpha = A^{-1} Y` row i is predicted by the others as
    :math:`y_i - \alpha_i / A^{-1}_{ii}`, and a group G, held out as a whole, as
    :math:`y_G - ((A^{-1})_{GG})^{-1} \alpha_G`. This needs only the trailing block of the inverse,
    of the held-out rows, which is the inverse of L L' for the trailing block L of the Cholesky
    factor.

    Parameters
    ----------
    geometry : Geometry
    A : ndarray of shape (n, d)
        Transformed rows.
    Y : ndarray of shape (n, c)
    weights : ndarray of shape (n,)
    held : int
    groups : ndarray of shape (held,), optional
        Groups of the held-out rows; other rows are in none of these groups.
    inverse_of : ndarray of int, optional
        The numbers of rows of the inverse to return.
    team : Workers, optional

    Returns
    -------
    coef : ndarray of shape (n, c)
    held_out : ndarray of shape (held, c)
    penalty : float
        That of the geometry, or more if rounding spoiled the solution.
    inverse_rows : ndarray of shape (n_rows, n)
    """
    penalty = geometry.penalty
    single = len(A) >= _MANY and penalty >= SINGLE_MANY
    A = A.astype(np.float32 if single else np.float64, copy=False)
    solved = inverse(gram(geometry, A, team), penalty, weights, held, team)
    while solved is None:
        penalty *= 4.0
        if not np.isfinite(penalty):
            raise np.linalg.LinAlgError("A matrix of kernel values is not finite.")
        K = gram(geometry, A, team).astype(np.float64, copy=False)
        solved = inverse(K, penalty, weights, held, team)
    corner, factor = solved
    coef = potrs(factor, Y).astype(np.float64)
    gap = coef[-held:] / np.diagonal(corner)[:, None]
    if groups is not None:
        order = np.argsort(groups, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            gap[rows] = np.linalg.solve(corner[np.ix_(rows, rows)], coef[-held:][rows])
    held_out = Y[-held:] - gap
    if held == len(A):
        return coef, held_out, penalty, corner[inverse_of]
    unit = np.zeros((len(A), len(inverse_of)), factor.dtype)
    unit[inverse_of, np.arange(len(inverse_of))] = 1.0
    return coef, held_out, penalty, potrs(factor, unit).T
