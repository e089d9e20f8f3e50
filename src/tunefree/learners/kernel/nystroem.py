r"""Ridge regression on features of few columns, with the leave-one-out error of every penalty.

With m landmarks c_j and a kernel k the predictor is :math:`f(x) = b + \sum_j a_j k(x, c_j)`, with
the penalty :math:`\alpha \|f\|^2` in the kernel's norm. In the coordinates
:math:`\phi(x) = L^{-1} k(c, x)`, with L L' the landmarks' Gram matrix, this is ridge regression in
m columns; one eigendecomposition gives the solutions of all penalties, and with them every row's
leverage. Rows are visited in blocks, in threads: memory is O(m^2). What is known of the rows are
sums, which `accumulate` makes; those over parts of the rows, on several machines, are added up.
`Columns` are a linear model's features.

Source: Williams and Seeger 2001 (Nystroem); Allen 1974 (leave-one-out by leverages).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from tunefree._array import elsewhere, here, moved
from tunefree._blas import syrk, trmm
from tunefree._threads import ALONE
from tunefree.learners.kernel.geometry import factored, gram, parts_of, root_of

ALPHAS = np.logspace(-6.0, 3.0, 19)
# Numbers in a block of kernel values at least, and its rows at least: as many as make products of
# coordinates cost more than the addition of their sums.
_BLOCK, _ROWS = 500_000, 1024
# Up to so many landmarks are placed, and rows left out, in one piece.
_WHOLE = 256
# Steps in double precision after a solution in single precision.
_STEPS = 2
# Rows that are proposed as landmarks at once.
_DRAWN = 64


class Landmarks(NamedTuple):
    """Landmarks and the map from kernel values to coordinates."""

    centers: np.ndarray  # of shape (m, d), placed
    geometry: Any  # with values(A, B, out)
    basis: np.ndarray  # of shape (m, m), upper triangular, in Fortran order

    @property
    def size(self):
        """How many features."""
        return len(self.centers)

    def values(self, A, out=None):
        """Kernel values of placed rows, of shape (n, m), written to `out` if that is given."""
        return self.geometry.values(A, self.centers.astype(A.dtype, copy=False), out)

    def features(self, A):
        """Coordinates of placed rows, as columns: of shape (m, n), in Fortran order."""
        # Sums of products of the kernel values themselves would lose the digits that small
        # penalties need.
        return trmm(self.basis.astype(A.dtype, copy=False), self.values(A).T)

    def there(self, A):
        """The same, where the arrays of this fit live."""
        A = moved(A)
        return self.values(A) if isinstance(A, np.ndarray) else self.geometry.there(A, self.centers)

    def fold(self, coef):
        """Coefficients of the kernel values from those of the coordinates."""
        return self.basis @ coef

    def alone(self):
        """Without the basis, which only learning needs."""
        return self._replace(basis=np.empty((0, 0)))


class Columns(NamedTuple):
    """The columns themselves: of a linear model."""

    size: int

    def values(self, A, out=None):
        """The rows."""
        return A

    def features(self, A):
        """The columns, of shape (m, n)."""
        return np.array(A, order="F").T

    def there(self, A):
        """The rows, where the arrays of this fit live."""
        return moved(A)

    def fold(self, coef):
        """Themselves."""
        return coef

    def alone(self):
        """Themselves."""
        return self


class Sums(NamedTuple):
    """What a solution needs to know of the rows: sums over them, by weight."""

    total: float  # the weights
    first: np.ndarray  # coordinates, shape (m,)
    second: Any  # their products, array of shape (m, m), the upper triangle
    targets: np.ndarray  # targets less a shift, shape (n_outputs,)
    cross: Any  # products of coordinates and these, shape (m, n_outputs)

    def plus(self, other):
        """The sums over the rows of both."""
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))

    def centred(self):
        """Products of coordinates less their means, and of these with targets less theirs."""
        gram = self.second + np.triu(self.second, 1).T
        gram -= np.outer(self.first, self.first / self.total)
        return gram, self.cross - np.outer(self.first, self.targets / self.total)


class Solution(NamedTuple):
    """Ridge regression in the landmarks' coordinates, for every penalty."""

    coef: np.ndarray  # of the kernel values, of shape (m, n_alphas, n_outputs)
    intercept: np.ndarray  # of shape (n_alphas, n_outputs)
    held_out: np.ndarray  # predictions of the first rows by all others, (n, n_alphas, n_outputs)
    rest: np.ndarray  # what is left of these rows' own residuals, of shape (n, n_alphas)
    known: tuple  # eigenvalues and eigenvectors of the products of centred coordinates


def place(centers, geometry, team=ALONE, ridge=0.0):
    """Landmarks with a basis in which their kernel, with a ridge, is the identity."""
    K = gram(geometry, centers.astype(np.float64), team)
    # The small ridge stands for equal or nearly equal landmarks.
    K[np.diag_indices_from(K)] += max(ridge, 1e-9 * np.trace(K))
    lower = np.asfortranarray(K)
    if factored(lower, team, _WHOLE):
        raise np.linalg.LinAlgError("Landmarks have no kernel matrix that is positive.")
    return Landmarks(centers, geometry, np.asfortranarray(root_of(lower, team, _WHOLE).T))


def pivots(geometry, A, m, seed, block=_DRAWN):
    r"""Numbers of at most m rows, drawn in proportion to what earlier ones leave of their squares.

    With F the partial Cholesky factor that these rows make, that is
    :math:`d_i = k(x_i, x_i) - |F_i|^2`: far rows are drawn and near ones are not drawn twice. Rows
    are proposed by blocks, and those refused that earlier ones of the block explain, with the odds
    that give each row its own probability. Fewer than m come where rounding is all that is left.

    Source: Chen, Epperly, Tropp and Webber 2025 (randomly pivoted Cholesky); Epperly, Tropp and
    Webber 2024 (blocks with rejection).

    Examples
    --------
    >>> from tunefree.kernels import RBF
    >>> from tunefree.learners.kernel.geometry import Geometry
    >>> A = np.repeat([[0.0], [9.0]], [50, 1], axis=0)
    >>> sorted(A[pivots(Geometry(RBF(), np.ones(1), 1.0, 0.1), A, 2, 0)].ravel().tolist())
    [0.0, 9.0]
    """
    rng, n, found = np.random.default_rng(seed), len(A), np.empty(0, dtype=np.int64)
    F = np.zeros((n, m), A.dtype)
    left = 2.0 + 2.0 * geometry.slope * geometry.kernel.sizes(A).astype(np.float64)
    least = np.finfo(A.dtype).eps * left.max()
    while len(found) < m and left.sum() > n * least:
        k = len(found)
        drawn = rng.choice(n, min(block, m - k), p=left / left.sum())
        odds, taken = rng.random(len(drawn)), []
        H = geometry.values(A[drawn], A[drawn]) - F[drawn, :k] @ F[drawn, :k].T
        H = H.astype(np.float64)
        left[drawn[np.diagonal(H) <= least]] = 0.0  # rounding
        for i, row in enumerate(drawn):
            if H[i, i] > odds[i] * left[row] and H[i, i] > least:
                taken.append(i)
                H -= np.outer(H[:, i], H[i] / H[i, i])
        new = drawn[taken]
        G = geometry.values(A, A[new]) - F[:, :k] @ F[new, :k].T
        lower = _lower(G[new].astype(np.float64), least)
        F[:, k : k + len(new)] = solve_triangular(lower, G.T, lower=True).T
        left = np.maximum(
            left - np.square(F[:, k : k + len(new)], dtype=np.float64).sum(axis=1), 0.0
        )
        left[new] = 0.0
        found = np.append(found, new)
    return found


def _lower(corner, least):
    """The Cholesky factor of what rounding may have made indefinite: with ever more of a ridge."""
    while True:
        corner[np.diag_indices_from(corner)] += least
        try:
            return np.linalg.cholesky(corner)
        except np.linalg.LinAlgError:
            if not np.isfinite(corner).all():
                raise
            least *= 10.0


def _step(m, n):
    """Rows of a block of m features."""
    return max(1, _BLOCK // m, min(_ROWS, n))


def cells(m, n):
    """Numbers in a block of m features of n rows."""
    return m * min(_step(m, n), n)


def blocks(marks, n, start=0):
    """Blocks of the rows from `start` to n, the same for any number of threads."""
    step = _step(marks.size, n)
    return [slice(i, min(i + step, n)) for i in range(start, n, step)]


def accumulate(marks, rows, n, targets, weights, shift, team=ALONE, start=0):
    """The `Sums` over rows from `start` to n, of targets less `shift`.

    `rows(start, stop)` are placed rows: products have their type of float, sums double precision.
    """
    m, k = marks.size, targets.shape[1]

    def part(block):
        F, w, y = marks.features(rows(block.start, block.stop)), weights[block], targets[block]
        y = y - shift
        first, cross = F @ w.astype(F.dtype), F @ (w[:, None] * y).astype(F.dtype)
        if (w != 1.0).any():
            F = F * np.sqrt(w).astype(F.dtype)  # others may hold it
        second = syrk(F, np.zeros((m, m), F.dtype, order="F"))
        return second, Sums(w.sum(), first, 0.0, w @ y, cross)

    second, sums = np.zeros((m, m), order="F"), Sums(0.0, np.zeros(m), 0.0, np.zeros(k), 0.0)
    for products, found in team.each(part, blocks(marks, n, start)):
        second += products  # in place: it is large
        sums = sums.plus(found)
    return sums._replace(second=second)


def _accumulate_there(marks, rows, n, targets, weights, shift, _):
    """The same, with products made where the arrays of this fit live."""
    basis: Any = moved(getattr(marks, "basis", np.eye(marks.size)))
    total: Any = 0.0, 0.0, 0.0
    for part in blocks(marks, n):
        A = rows(part.start, part.stop).astype(np.float64, copy=False)
        F, w = marks.there(A).values @ basis.values, weights[part, None]
        w, y = moved(w).values, moved(w * (targets[part] - shift)).values
        parts = w.T @ F, F.T @ (w * F), F.T @ y
        total = [a + b for a, b in zip(total, parts, strict=True)]
    first, second, cross = map(here, total)
    return Sums(weights.sum(), first[0], np.triu(second), weights @ (targets - shift), cross)


def solve(
    marks, rows, n, targets, weights, alphas=ALPHAS, most=None, team=ALONE, sums: Any = None
):  # fmt: skip
    """Solve for every penalty, and predict each of the first `most` rows from all others.

    `rows(start, stop)` are placed rows. A row is left out with all its weight. `sums` are of more
    rows than these, if they are given, with targets as they are.
    """
    shift: Any = 0.0
    if sums is None:
        shift = weights @ targets / weights.sum()
        make = _accumulate_there if elsewhere() else accumulate
        sums = make(marks, rows, n, targets, weights, shift, team)
    (products, cross), total = sums.centred(), sums.total
    values, vectors = np.linalg.eigh(products)
    inverse = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    table = ((vectors.T @ cross)[:, None] * inverse[:, :, None]).reshape(len(cross), -1)
    shape, mean = (len(alphas), targets.shape[1]), sums.first / total @ vectors
    coef, level = marks.fold(vectors @ table), shift + sums.targets / total

    def held_out(block):
        F = marks.features(rows(block.start, block.stop)).T @ vectors
        F -= mean
        fit = (F @ table).reshape(len(F), *shape)
        w, y = weights[block, None], targets[block, None] - level
        np.square(F, out=F)
        # A row that its own fit passes through says nothing: its prediction is the mean's.
        own = np.maximum(1.0 - w * (F @ inverse) - w / total, 0.0)
        rest = own[:, :, None]
        # y - (y - fit) / rest, in place.
        fit -= y
        fit /= np.maximum(rest, 1e-8)
        fit += y
        fit *= rest > 1e-8
        fit += level
        return fit, own

    most = n if most is None else min(most, n)
    told, own = zip(*team.map(held_out, parts_of(most, _WHOLE)), strict=True)
    return Solution(
        coef.reshape(len(coef), *shape), level - (mean @ table).reshape(shape),
        np.concatenate(told), np.concatenate(own), (np.maximum(values, 0.0), vectors),
    )  # fmt: skip


def sharpened(marks, rows, n, targets, weights, found, i, team=ALONE):
    """What solves for the i-th penalty, in double precision, and what it says of rows left out.

    The solution `found` is one from products in single precision, the curvature of which will do
    for steps of Newton.
    """
    coef, intercept, (values, vectors) = found.coef[:, i], found.intercept[i], found.known
    total, kept = weights.sum(), len(found.rest)
    blocks = [slice(a, min(a + _WHOLE, n)) for a in range(0, n, _WHOLE)]

    def part(block):
        K, w = marks.values(rows(block.start, block.stop)), weights[block]
        gap = targets[block] - intercept - K @ coef
        rest = w[:, None] * gap
        return (K.T @ rest, w @ K, rest.sum(axis=0)), gap[: max(kept - block.start, 0)]

    for _ in range(_STEPS):
        sums: Any = 0.0, 0.0, 0.0
        gaps = []
        for parts, gap in team.each(part, blocks):
            sums = [a + b for a, b in zip(sums, parts, strict=True)]
            gaps.append(gap)
        slope, first, rest = sums
        slope = marks.basis.T @ (slope - np.outer(first, rest / total))
        slope -= ALPHAS[i] * solve_triangular(marks.basis, coef)
        step = marks.fold(vectors @ (vectors.T @ slope / (values + ALPHAS[i])[:, None]))
        coef, intercept = coef + step, intercept + (rest - first @ step) / total
    own = found.rest[:, i, None]
    predictions = targets[:kept] - np.concatenate(gaps) / np.maximum(own, 1e-8)
    return coef, intercept, np.where(own > 1e-8, predictions, found.held_out[:, i])
