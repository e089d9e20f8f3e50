r"""Kernel ridge regression on landmarks, with the leave-one-out error of every penalty.

With m landmarks the predictor is :math:`f(x) = b + \sum_j a_j k(x, c_j)`, the kernel
:math:`k(x, c) = \exp(-\gamma \|x - c\|^2)` and the penalty :math:`\alpha \|f\|^2` in the kernel's
norm. In the coordinates :math:`\phi(x) = L^{-1} k(c, x)`, with L L' the landmarks' Gram matrix,
this is ridge regression in m columns; one eigendecomposition gives the solutions of all penalties,
and with them every row's leverage. Rows are visited in blocks: memory is O(m^2).

Source: Williams and Seeger 2001 (Nystroem); Allen 1974 (leave-one-out by leverages).
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

ALPHAS = np.logspace(-6.0, 3.0, 19)
_BLOCK = 2048
# Coordinates of all rows are kept for the second sweep if they are no more numbers than this.
_MOST_KEPT = 2e7


class Landmarks(NamedTuple):
    """Landmarks and the map from kernel values to coordinates.

    Attributes
    ----------
    centers : ndarray of shape (m, d)
    gamma : float
    basis : ndarray of shape (m, r)
    """

    centers: np.ndarray
    gamma: float
    basis: np.ndarray

    def values(self, Z):
        """Kernel values, of shape (n, m)."""
        centers = self.centers.astype(Z.dtype, copy=False)
        square = np.einsum("ij,ij->i", Z, Z)[:, None] + np.einsum("ij,ij->i", centers, centers)
        square -= 2.0 * (Z @ centers.T)
        np.maximum(square, 0.0, out=square)
        square *= -self.gamma
        return np.exp(square, out=square)


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
    return marks._replace(basis=solve_triangular(lower, np.eye(len(gram)), lower=True).T)


def solve(marks, rows, n, targets, weights, alphas=ALPHAS, most=None):
    """Solve for every penalty, and predict each of the first `most` rows from all others.

    Parameters
    ----------
    marks : Landmarks
    rows : callable
        (start, stop) -> ndarray of shape (stop - start, d).
    n : int
    targets : ndarray of shape (n, n_outputs)
    weights : ndarray of shape (n,)
        A row is left out with all its weight.
    alphas : ndarray of shape (n_alphas,)
    most : int, optional
        All rows by default.

    Returns
    -------
    Solution
    """
    width, k = marks.basis.shape[1], targets.shape[1]
    total = weights.sum()
    gram, sums, cross = np.zeros((width, width)), np.zeros(width), np.zeros((width, k))
    level = weights @ targets / total
    parts = [(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]
    kept = [] if n * width <= _MOST_KEPT else None
    for start, stop in parts:
        F = marks.values(rows(start, stop)) @ marks.basis
        if kept is not None:
            kept.append(F.copy())
        w = weights[start:stop, None]
        F *= np.sqrt(w)
        gram += F.T @ F
        F *= np.sqrt(w)
        sums += F.sum(axis=0)
        cross += F.T @ (targets[start:stop] - level)
    # Weighted columns of mean 0; the centred targets make the cross products centred already.
    gram -= np.outer(sums, sums) / total
    values, vectors = np.linalg.eigh(gram)
    inverse = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    table = (vectors.T @ cross)[:, None] * inverse[:, :, None]
    coef = np.tensordot(marks.basis @ vectors, table, axes=1)
    mean = (sums / total) @ vectors
    intercept = level - np.tensordot(mean, table, axes=1)
    most = n if most is None else min(most, n)
    left_out = np.empty((most, len(alphas), k))
    for i, (start, stop) in enumerate(parts):
        if start >= most:
            break
        F = marks.values(rows(start, stop)) @ marks.basis if kept is None else kept[i]
        stop = min(stop, most)
        F = F[: stop - start] @ vectors - mean
        w, y = weights[start:stop, None], targets[start:stop, None]
        # A row that its own fit passes through says nothing: its prediction is the mean's.
        rest = np.maximum(1.0 - w * (np.square(F) @ inverse) - w / total, 0.0)[:, :, None]
        error = y - level - np.tensordot(F, table, axes=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            left_out[start:stop] = np.where(rest > 1e-8, y - error / rest, level)
    return Solution(coef, intercept, left_out)
