r"""Kernel ridge regression on landmarks, with the leave-one-out error of every penalty.

With m landmarks the predictor is :math:`f(x) = b + \sum_j a_j k(x, c_j)`, the kernel
:math:`k(x, c) = \exp(-\gamma \|x - c\|^2)` and the penalty :math:`\alpha \|f\|^2` in the kernel's
norm. In the coordinates :math:`\phi(x) = L^{-1} k(c, x)`, with L L' the landmarks' Gram matrix,
this is ridge regression in m columns; one eigendecomposition gives the solutions of all penalties,
and with them every row's leverage. Rows are visited in blocks: memory is O(m^2). What is kept of
them are sums, so that more rows can be added to a solution at their own cost.

Source: Williams and Seeger 2001 (Nystroem); Allen 1974 (leave-one-out by leverages).
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk, dtrmm

from tunefree.distances import decay, squared_distances

ALPHAS = np.logspace(-6.0, 3.0, 19)
# Numbers in a block of kernel values; and in all of them, if they are kept between two visits.
_BLOCK, _KEPT = 500_000, 1_000_000


class Landmarks(NamedTuple):
    """Landmarks and the map from kernel values to coordinates.

    Attributes
    ----------
    centers : ndarray of shape (m, d)
    gamma : float
    basis : ndarray of shape (m, m)
        Upper triangular, in Fortran order.
    """

    centers: np.ndarray
    gamma: float
    basis: np.ndarray

    def values(self, Z, out=None):
        """Kernel values, of shape (n, m), written to `out` if that is given."""
        distances = squared_distances(Z, self.centers.astype(Z.dtype, copy=False), out=out)
        return decay(distances, self.gamma, distances)

    def blocks(self, rows, n):
        """Yield (start, stop, coordinates) of the first n rows; each is gone with the next."""
        memory = np.empty((max(1, min(n, _BLOCK // len(self.centers))), len(self.centers)))
        for start in range(0, n, len(memory)):
            Z = rows(start, min(start + len(memory), n)).astype(np.float64, copy=False)
            K = self.values(Z, memory[: len(Z)])
            # Sums of products of the kernel values themselves would lose the digits that small
            # penalties need.
            F = dtrmm(1.0, self.basis, K.T, trans_a=True, overwrite_b=True)
            yield start, start + len(Z), F.T


class Sums(NamedTuple):
    """What a solution needs to know of the rows.

    Attributes
    ----------
    total : float
        Weight of all rows.
    first : ndarray of shape (m,)
        Sum of the coordinates.
    second : ndarray of shape (m, m)
        Sum of their products; the upper triangle.
    shift : ndarray of shape (n_outputs,)
        What targets are measured from.
    targets : ndarray of shape (n_outputs,)
        Sum of the targets less the shift.
    cross : ndarray of shape (m, n_outputs)
        Sum of products of coordinates and targets less the shift.
    """

    total: float
    first: np.ndarray
    second: np.ndarray
    shift: np.ndarray
    targets: np.ndarray
    cross: np.ndarray


class Solution(NamedTuple):
    """Ridge regression in the landmarks' coordinates, for every penalty.

    Attributes
    ----------
    coef : ndarray of shape (m, n_alphas, n_outputs)
        Coefficients of the kernel values.
    intercept : ndarray of shape (n_alphas, n_outputs)
    left_out : ndarray of shape (n_left_out, n_alphas, n_outputs)
        What each of the first rows is predicted to be by all others.
    """

    coef: np.ndarray
    intercept: np.ndarray
    left_out: np.ndarray


def place(centers, gamma):
    """Landmarks with a basis in which their kernel is the identity.

    Examples
    --------
    >>> marks = place(np.array([[0.0], [3.0]]), 0.5)
    >>> F = marks.values(marks.centers) @ marks.basis
    >>> np.allclose(F @ F.T, marks.values(marks.centers))
    True
    """
    marks = Landmarks(centers, float(gamma), np.empty((0, 0)))
    gram = marks.values(centers.astype(np.float64))
    # The small ridge stands for equal or nearly equal landmarks.
    gram[np.diag_indices_from(gram)] += 1e-9 * len(gram)
    lower = np.linalg.cholesky(gram)
    return marks._replace(
        basis=np.asfortranarray(solve_triangular(lower, np.eye(len(gram)), lower=True).T)
    )


def gather(marks, rows, n, targets, weights, sums=None):
    """The sums over n rows, added to others.

    Parameters
    ----------
    marks : Landmarks
    rows : callable
        (start, stop) -> ndarray of shape (stop - start, d).
    n : int
    targets : ndarray of shape (n, n_outputs)
    weights : ndarray of shape (n,)
    sums : Sums, optional

    Returns
    -------
    Sums
    """
    if sums is None:
        sums = _nothing(marks, targets, weights)
    return _added(sums, marks.blocks(rows, n), targets, weights)


def _nothing(marks, targets, weights):
    """The sums over no rows, with targets measured from the mean."""
    m, k = len(marks.centers), targets.shape[1]
    shift, second = weights @ targets / weights.sum(), np.zeros((m, m), order="F")
    return Sums(0.0, np.zeros(m), second, shift, np.zeros(k), np.zeros((m, k)))


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


def solve(marks, rows, n, targets, weights, alphas=ALPHAS, most=None, sums=None):
    """Solve for every penalty, and predict each of the first `most` rows from all others.

    Parameters
    ----------
    marks, rows, n, targets, weights
        See `gather`. A row is left out with all its weight.
    alphas : ndarray of shape (n_alphas,)
    most : int, optional
        All rows by default.
    sums : Sums, optional
        Those of the rows, if they are known.

    Returns
    -------
    Solution
    """
    blocks = None
    if sums is None and most is None and n * len(marks.centers) <= _KEPT:
        # The search fits hundreds of times to few rows: their coordinates serve both visits.
        blocks = [(start, stop, F.copy(order="K")) for start, stop, F in marks.blocks(rows, n)]
        sums = _added(_nothing(marks, targets, weights), blocks, targets, weights)
    elif sums is None:
        sums = gather(marks, rows, n, targets, weights)
    total, k = sums.total, targets.shape[1]
    level, mean = sums.targets / total, sums.first / total
    gram = sums.second + np.triu(sums.second, 1).T
    gram -= np.outer(sums.first, mean)
    values, vectors = np.linalg.eigh(gram)
    inverse = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    cross = vectors.T @ (sums.cross - np.outer(sums.first, level))
    table = (cross[:, None] * inverse[:, :, None]).reshape(len(cross), -1)
    shape = (len(alphas), k)
    coef, level = marks.basis @ (vectors @ table), sums.shift + level
    mean, most = mean @ vectors, n if most is None else min(most, n)
    intercept = level - (mean @ table).reshape(shape)
    left_out = np.empty((most, *shape))
    for start, stop, F in blocks or marks.blocks(rows, most):
        F = F @ vectors
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
