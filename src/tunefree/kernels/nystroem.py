r"""Ridge regression on the features of landmarks, with leave-one-out errors for every penalty.

With m landmarks c_j and a kernel k the predictor is :math:`f(x) = b + \sum_j a_j k(x, c_j)`, with
the penalty :math:`\alpha \|f\|^2` in the kernel's norm. In the coordinates
:math:`\phi(x) = L^{-1} k(c, x)`, with L L' the landmarks' Gram matrix, this is ridge regression in
m columns; one eigendecomposition gives the solutions of all penalties, and with them every row's
leverage. Threads visit blocks of rows: memory is O(m^2). A solution needs sums over the rows only,
which `accumulate` computes; sums over parts of the rows, on several machines, are added up. The
features of a linear model are `ColumnFeatures`.

Source: Williams and Seeger 2001 (Nystroem); Allen 1974 (leave-one-out by leverages).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from tunefree.core.blas import eigh, syrk, trmm
from tunefree.core.process import ALONE
from tunefree.kernels.factors import factored, parts_of, root_of
from tunefree.kernels.geometry import gram

# The penalties that compete, from the smallest.
ALPHAS = np.logspace(-6.0, 3.0, 19)
# Numbers in a block of kernel values at least, and its rows at least: with fewer the addition of
# sums would cost more than the products of features.
_BLOCK, _ROWS = 500_000, 1024
# Up to so many landmarks are factored, and so many rows predicted, in one task.
_WHOLE = 256
# Steps in double precision after a solution in single precision.
_STEPS = 2
# Rows that are proposed as landmarks at once.
_DRAWN = 64
_NO_BASIS = np.empty((0, 0))


class Landmarks(NamedTuple):
    """Landmarks and the map from kernel values to features."""

    centers: np.ndarray  # of shape (m, d), transformed
    geometry: Any  # with values(A, B, out)
    # Of shape (m, m), upper triangular, in Fortran order; empty where features are not needed.
    basis: np.ndarray = _NO_BASIS

    @property
    def size(self):
        """The number of features."""
        return len(self.centers)

    def values(self, A):
        """Kernel values of transformed rows, of shape (n, m)."""
        return self.geometry.gram(A, self.centers.astype(A.dtype, copy=False))

    def features(self, A):
        """Features of transformed rows, as columns: of shape (m, n), in Fortran order."""
        # Sums of products of the kernel values would lose the digits that small penalties need.
        return trmm(self.basis.astype(A.dtype, copy=False), self.values(A).T)

    def fold(self, coef):
        """Coefficients of the kernel values from those of the features."""
        return self.basis @ coef

    def alone(self):
        """Without the basis, which only learning needs."""
        return self._replace(basis=_NO_BASIS)


class ColumnFeatures(NamedTuple):
    """The columns as features of a linear model."""

    size: int

    def values(self, A):
        """The rows."""
        return A

    def features(self, A):
        """The columns, of shape (m, n)."""
        return np.array(A, order="F").T

    def fold(self, coef):
        """The coefficients."""
        return coef

    def alone(self):
        """These columns."""
        return self


class RowBlocks(NamedTuple):
    """Blocks of transformed rows in a type of float."""

    A: np.ndarray
    dtype: Any

    def __call__(self, start, stop):
        """The rows from `start` to `stop`."""
        return self.A[start:stop].astype(self.dtype, copy=False)


class ProductSums(NamedTuple):
    """Weighted sums over the rows, from which a solution is computed."""

    total: float  # the weights
    first: np.ndarray  # features, shape (m,)
    second: Any  # their products, array of shape (m, m), the upper triangle
    targets: np.ndarray  # targets less a shift, shape (n_outputs,)
    cross: Any  # products of features and these, shape (m, n_outputs)

    def plus(self, other, *_):
        """The sums over the rows of both."""
        return ProductSums(*(a + b for a, b in zip(self, other, strict=True)))

    def centred(self):
        """Products of centred features, the lower triangle, and of these with centred targets."""
        gram = np.array(self.second.T, order="F")
        gram -= np.outer(self.first, self.first / self.total)
        return gram, self.cross - np.outer(self.first, self.targets / self.total)


class RidgePath(NamedTuple):
    """Ridge regression on features, for every penalty."""

    coef: np.ndarray  # of the kernel values, of shape (m, n_alphas, n_outputs)
    intercept: np.ndarray  # of shape (n_alphas, n_outputs)
    held_out: np.ndarray  # predictions of the first rows by all others, (n, n_alphas, n_outputs)
    one_less_leverage: np.ndarray  # of these rows, of shape (n, n_alphas)
    eigen: tuple  # eigenvalues and eigenvectors of the products of centred features


def make_landmarks(centers, geometry, team=ALONE, ridge=0.0):
    """Landmarks with a basis in which their kernel, with a ridge, is the identity."""
    # At most two matrices are in memory: each takes the name of the one before.
    matrix = np.asfortranarray(gram(geometry, centers.astype(np.float64), team))
    # The small ridge is for equal or nearly equal landmarks.
    matrix[np.diag_indices_from(matrix)] += max(ridge, 1e-9 * np.trace(matrix))
    if factored(matrix, team, _WHOLE):
        raise np.linalg.LinAlgError("The kernel matrix of the landmarks is not positive definite.")
    matrix = root_of(matrix, team, _WHOLE)
    return Landmarks(centers, geometry, np.asfortranarray(matrix.T))


def pivots(geometry, A, m, seed, block=_DRAWN):
    r"""Numbers of at most m rows, drawn in proportion to their residuals after earlier ones.

    With F the partial Cholesky factor of the rows drawn so far, the residual is
    :math:`d_i = k(x_i, x_i) - |F_i|^2`: distant rows are drawn, and similar rows are not drawn
    twice. Rows are proposed in blocks. A row is rejected as far as earlier ones of its block
    explain it, which gives each row its right probability. Fewer than m rows are drawn if the
    remaining residuals are rounding.

    Source: Chen, Epperly, Tropp and Webber 2025 (randomly pivoted Cholesky); Epperly, Tropp and
    Webber 2024 (blocks with rejection).

    Examples
    --------
    >>> from tunefree.kernels.kernels import RBF
    >>> from tunefree.kernels.geometry import Geometry
    >>> A = np.repeat([[0.0], [9.0]], [50, 1], axis=0)
    >>> sorted(A[pivots(Geometry(RBF(), np.ones(1), 1.0, 0.1), A, 2, 0)].ravel().tolist())
    [0.0, 9.0]
    """
    rng = np.random.default_rng(seed)
    n = len(A)
    chosen = np.empty(0, dtype=np.int64)
    F = np.zeros((n, m), A.dtype)
    residual = 2.0 + 2.0 * geometry.slope * geometry.kernel.sizes(A).astype(np.float64)
    least = np.finfo(A.dtype).eps * residual.max()
    while len(chosen) < m and residual.sum() > n * least:
        k = len(chosen)
        proposed = rng.choice(n, min(block, m - k), p=residual / residual.sum())
        uniform, accepted = rng.random(len(proposed)), []
        H = geometry.gram(A[proposed], A[proposed]) - F[proposed, :k] @ F[proposed, :k].T
        H = H.astype(np.float64)
        residual[proposed[np.diagonal(H) <= least]] = 0.0  # rounding
        for i, row in enumerate(proposed):
            if H[i, i] > uniform[i] * residual[row] and H[i, i] > least:
                accepted.append(i)
                H -= np.outer(H[:, i], H[i] / H[i, i])
        new = proposed[accepted]
        G = geometry.gram(A, A[new]) - F[:, :k] @ F[new, :k].T
        lower = _lower(G[new].astype(np.float64), least)
        F[:, k : k + len(new)] = solve_triangular(lower, G.T, lower=True).T
        residual = np.maximum(
            residual - np.square(F[:, k : k + len(new)], dtype=np.float64).sum(axis=1), 0.0
        )
        residual[new] = 0.0
        chosen = np.append(chosen, new)
    return chosen


def _lower(corner, least):
    """The Cholesky factor of a matrix and a ridge, which grows until rounding does no harm."""
    while True:
        corner[np.diag_indices_from(corner)] += least
        try:
            return np.linalg.cholesky(corner)
        except np.linalg.LinAlgError:
            if not np.isfinite(corner).all():
                raise
            least *= 10.0


def blocks(landmarks, n):
    """Blocks of n rows, the same for any number of threads."""
    step = max(1, _BLOCK // landmarks.size, min(_ROWS, n))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def accumulate(landmarks, rows, targets, weights, shift=0.0, team=ALONE):
    """The `ProductSums` over rows, of targets less `shift`.

    `rows(start, stop)` are transformed rows: products have their type of float, sums double
    precision.
    """
    m, k = landmarks.size, targets.shape[1]

    def part(block):
        F = landmarks.features(rows(block.start, block.stop))
        w = weights[block]
        y = targets[block]
        y = y - shift
        first = F @ w.astype(F.dtype)
        cross = F @ (w[:, None] * y).astype(F.dtype)
        if (w != 1.0).any():
            F = F * np.sqrt(w).astype(F.dtype)  # a copy: F may be cached
        second = syrk(F, np.zeros((m, m), F.dtype, order="F"))
        return second, ProductSums(w.sum(), first, 0.0, w @ y, cross)

    second: Any = None
    sums = ProductSums(0.0, np.zeros(m), 0.0, np.zeros(k), 0.0)
    for products, part_sums in team.each(part, blocks(landmarks, len(targets))):
        if second is None:
            second = products.astype(np.float64, copy=False)
        else:
            second += products  # in place: it is large
        del products
        sums = sums.plus(part_sums)
    return sums._replace(second=np.zeros((m, m), order="F") if second is None else second)


def solve(
    landmarks, rows, targets, weights, alphas=ALPHAS, most=None, team=ALONE, sums: Any = None
):
    """Solve for every penalty, and predict each of the first `most` rows from all others.

    `rows(start, stop)` are transformed rows. A row is held out with all its weight. If `sums` are
    given, they are of more rows than these, with unshifted targets.
    """
    n, shift = len(targets), 0.0
    if sums is None:
        shift = weights @ targets / weights.sum()
        sums = accumulate(landmarks, rows, targets, weights, shift, team)
    products, cross = sums.centred()
    sums, total = sums._replace(second=None), sums.total  # its memory is needed
    values, vectors = eigh(products)
    del products
    inverse = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    table = ((vectors.T @ cross)[:, None] * inverse[:, :, None]).reshape(len(cross), -1)
    shape = (len(alphas), targets.shape[1])
    mean = sums.first / total @ vectors
    coef = landmarks.fold(vectors @ table)
    level = shift + sums.targets / total

    def held_out(block):
        F = landmarks.features(rows(block.start, block.stop)).T @ vectors
        F -= mean
        fit = (F @ table).reshape(len(F), *shape)
        w = weights[block, None]
        y = targets[block, None] - level
        np.square(F, out=F)
        # Of a row with leverage 1 nothing is known: it is predicted by the mean.
        one_less_leverage = np.maximum(1.0 - w * (F @ inverse) - w / total, 0.0)
        rest = one_less_leverage[:, :, None]
        # y - (y - fit) / rest, in place.
        fit -= y
        fit /= np.maximum(rest, 1e-8)
        fit += y
        fit *= rest > 1e-8
        fit += level
        return fit, one_less_leverage

    most = n if most is None else min(most, n)
    predictions, rest = zip(*team.map(held_out, parts_of(most, _WHOLE)), strict=True)
    line = coef.reshape(len(coef), *shape), level - (mean @ table).reshape(shape)
    of_held_out = np.concatenate(predictions), np.concatenate(rest)
    return RidgePath(*line, *of_held_out, (np.maximum(values, 0.0), vectors))


def refined(landmarks, rows, targets, weights, path, i, team=ALONE):
    """The solution for the i-th penalty in double precision, and its held-out predictions.

    `path` was computed in single precision. Its eigendecomposition is precise enough as the
    curvature of Newton steps.
    """
    coef, intercept = path.coef[:, i], path.intercept[i]
    (values, vectors), n_held, n = path.eigen, len(path.held_out), len(targets)
    total = weights.sum()
    blocks = [slice(a, min(a + _WHOLE, n)) for a in range(0, n, _WHOLE)]

    def part(block):
        K = landmarks.values(rows(block.start, block.stop))
        w = weights[block]
        gap = targets[block] - intercept - K @ coef
        weighted = w[:, None] * gap
        return (K.T @ weighted, w @ K, weighted.sum(axis=0)), gap[: max(n_held - block.start, 0)]

    for _ in range(_STEPS):
        sums: Any = 0.0, 0.0, 0.0
        gaps = []
        for parts, gap in team.each(part, blocks):
            sums = [a + b for a, b in zip(sums, parts, strict=True)]
            gaps.append(gap)
        slope, first, residual = sums
        slope = landmarks.basis.T @ (slope - np.outer(first, residual / total))
        slope -= ALPHAS[i] * solve_triangular(landmarks.basis, coef)
        step = landmarks.fold(vectors @ (vectors.T @ slope / (values + ALPHAS[i])[:, None]))
        coef, intercept = coef + step, intercept + (residual - first @ step) / total
    rest = path.one_less_leverage[:, i, None]
    predictions = targets[:n_held] - np.concatenate(gaps) / np.maximum(rest, 1e-8)
    return coef, intercept, np.where(rest > 1e-8, predictions, path.held_out[:, i])
