r"""Ridge regression on features of few columns, with the leave-one-out error of every penalty.

With m landmarks c_j and a kernel k the predictor is :math:`f(x) = b + \sum_j a_j k(x, c_j)`, with
the penalty :math:`\alpha \|f\|^2` in the kernel's norm. In the coordinates
:math:`\phi(x) = L^{-1} k(c, x)`, with L L' the landmarks' Gram matrix, this is ridge regression in
m columns; one eigendecomposition gives the solutions of all penalties, and with them every row's
leverage. Rows are visited in blocks: memory is O(m^2). `Columns` are a linear model's features.

Source: Williams and Seeger 2001 (Nystroem); Allen 1974 (leave-one-out by leverages).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk, dtrmm

from tunefree._array import elsewhere, here, moved

ALPHAS = np.logspace(-6.0, 3.0, 19)
# Numbers in a block of kernel values; and in all of them, if they are kept between two visits.
_BLOCK, _KEPT = 500_000, 1_000_000


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

    def there(self, A):
        """The same, where the arrays of this fit live."""
        A = moved(A)
        return self.values(A) if isinstance(A, np.ndarray) else self.geometry.there(A, self.centers)

    def blocks(self, rows, n):
        """Yield (start, stop, coordinates) of the first n rows; each is gone with the next."""
        memory = np.empty((max(1, min(n, _BLOCK // len(self.centers))), len(self.centers)))
        for start in range(0, n, len(memory)):
            A = rows(start, min(start + len(memory), n)).astype(np.float64, copy=False)
            K = self.values(A, memory[: len(A)])
            # Sums of products of the kernel values themselves would lose the digits that small
            # penalties need.
            F = dtrmm(1.0, self.basis, K.T, trans_a=True, overwrite_b=True)
            yield start, start + len(A), F.T

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

    def there(self, A):
        """The rows, where the arrays of this fit live."""
        return moved(A)

    def blocks(self, rows, n):
        """Yield (start, stop, columns) of the first n rows."""
        step = max(1, _BLOCK // self.size)
        for start in range(0, n, step):
            stop = min(start + step, n)
            yield start, stop, np.array(rows(start, stop), dtype=np.float64, order="F")

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
    second: np.ndarray  # their products, shape (m, m), the upper triangle
    shift: np.ndarray  # what targets are measured from, no sum, shape (n_outputs,)
    targets: np.ndarray  # targets less the shift, shape (n_outputs,)
    cross: np.ndarray  # products of coordinates and these, shape (m, n_outputs)

    def plus(self, other):
        """The sums over the rows of both, of one shift."""
        added = (a + b for a, b in zip(self, other, strict=True))
        return Sums(*added)._replace(shift=self.shift)


class Solution(NamedTuple):
    """Ridge regression in the landmarks' coordinates, for every penalty."""

    coef: np.ndarray  # of the kernel values, of shape (m, n_alphas, n_outputs)
    intercept: np.ndarray  # of shape (n_alphas, n_outputs)
    left_out: np.ndarray  # predictions of the first rows by all others, (n, n_alphas, n_outputs)


def place(centers, geometry):
    """Landmarks with a basis in which their kernel is the identity."""
    marks = Landmarks(centers, geometry, np.empty((0, 0)))
    gram = marks.values(centers.astype(np.float64))
    # The small ridge stands for equal or nearly equal landmarks.
    gram[np.diag_indices_from(gram)] += 1e-9 * np.trace(gram)
    lower = np.linalg.cholesky(gram)
    return marks._replace(
        basis=np.asfortranarray(solve_triangular(lower, np.eye(len(gram)), lower=True).T)
    )


def _nothing(marks, targets, weights):
    """The sums over no rows, with targets measured from the mean."""
    m, k = marks.size, targets.shape[1]
    shift, second = weights @ targets / weights.sum(), np.zeros((m, m), order="F")
    return Sums(0.0, np.zeros(m), second, shift, np.zeros(k), np.zeros((m, k)))


def accumulate(marks, rows, n, targets, weights, shift):
    """The `Sums` over n rows, with targets measured from the shift: those of parts join."""
    none = _nothing(marks, targets, weights)._replace(shift=shift)
    return _added(none, marks.blocks(rows, n), targets, weights)


def _accumulate_there(marks, rows, n, targets, weights):
    """The `Sums` over n rows, with products made where the arrays of this fit live."""
    shift, step = weights @ targets / weights.sum(), max(1, _BLOCK // marks.size)
    basis: Any = moved(getattr(marks, "basis", np.eye(marks.size)))
    total: Any = 0.0, 0.0, 0.0
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        F = marks.there(rows(start, part.stop).astype(np.float64, copy=False)).values @ basis.values
        w, y = weights[part, None], targets[part] - shift
        w, y = moved(w).values, moved(w * y).values
        parts = w.T @ F, F.T @ (w * F), F.T @ y
        total = [a + b for a, b in zip(total, parts, strict=True)]
    first, second, cross = map(here, total)
    known = weights.sum(), first[0], np.triu(second), shift, weights @ (targets - shift), cross
    return Sums(*known)


def _added(sums, blocks, targets, weights):
    """Sums and those over blocks of coordinates."""
    first, cross, second = sums.first.copy(), sums.cross.copy(), sums.second.copy(order="F")
    y = targets - sums.shift
    for start, stop, F in blocks:
        w = weights[start:stop]
        first += w @ F
        cross += F.T @ (w[:, None] * y[start:stop])
        if (w != 1.0).any():
            F = F * np.sqrt(w)[:, None]
        second = dsyrk(1.0, F.T, beta=1.0, c=second, overwrite_c=True)
    total = sums.total + weights.sum()
    return Sums(total, first, second, sums.shift, sums.targets + weights @ y, cross)


def solve(marks, rows, n, targets, weights, alphas=ALPHAS, most=None, sums: Any = None):
    """Solve for every penalty, and predict each of the first `most` rows from all others.

    `rows(start, stop)` are placed rows. A row is left out with all its weight. `sums` are of more
    rows than these, if they are given.
    """
    blocks = None
    if sums is not None:
        pass
    elif elsewhere():
        sums = _accumulate_there(marks, rows, n, targets, weights)
    elif n * marks.size <= _KEPT:  # their coordinates serve both visits
        blocks = [(start, stop, F.copy(order="K")) for start, stop, F in marks.blocks(rows, n)]
        sums = _added(_nothing(marks, targets, weights), blocks, targets, weights)
    else:
        sums = _added(_nothing(marks, targets, weights), marks.blocks(rows, n), targets, weights)
    total, k = sums.total, targets.shape[1]
    level, mean = sums.targets / total, sums.first / total
    gram = sums.second + np.triu(sums.second, 1).T
    gram -= np.outer(sums.first, mean)
    values, vectors = np.linalg.eigh(gram)
    inverse = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    cross = vectors.T @ (sums.cross - np.outer(sums.first, level))
    table = (cross[:, None] * inverse[:, :, None]).reshape(len(cross), -1)
    shape = (len(alphas), k)
    coef, level = marks.fold(vectors @ table), sums.shift + level
    mean, most = mean @ vectors, n if most is None else min(most, n)
    intercept = level - (mean @ table).reshape(shape)
    left_out = np.empty((most, *shape))
    for start, stop, F in blocks or marks.blocks(rows, most):
        if start >= most:
            break
        F, stop = F[: most - start] @ vectors, min(stop, most)
        F -= mean
        fit = left_out[start:stop]
        np.matmul(F, table, out=fit.reshape(len(F), -1))
        w, y = weights[start:stop, None], targets[start:stop, None] - level
        np.square(F, out=F)
        # A row that its own fit passes through says nothing: its prediction is the mean's.
        rest = np.maximum(1.0 - w * (F @ inverse) - w / total, 0.0)[:, :, None]
        # y - (y - fit) / rest, in place.
        fit -= y
        fit /= np.maximum(rest, 1e-8)
        fit += y
        fit *= rest > 1e-8
        fit += level
    return Solution(coef.reshape(len(coef), *shape), intercept, left_out)
