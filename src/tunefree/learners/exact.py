r"""The whole ridge path exactly, from one eigendecomposition, with leave-one-out errors.

With B the rows of z times the roots of their weights and B'B = V S V', the solution for the
penalty alpha is V (S + alpha)^-1 V' B' y, and row i contributes the leverage
h_i = sum_j (B V)_ij^2 / (S_j + alpha) to its own fit. For fewer rows than columns B B' is
decomposed instead.
"""

from typing import NamedTuple

import numpy as np

_BLOCK = 4096


class Ridge(NamedTuple):
    """A decomposed ridge problem.

    Attributes
    ----------
    left : ndarray of shape (m, r)
        B V.
    right : ndarray of shape (d, r)
        V.
    values : ndarray of shape (r,)
        S.
    targets : ndarray of shape (m, n_outputs)
        Targets times the roots of the weights.
    weights : ndarray of shape (m,)

    Examples
    --------
    >>> problem = decompose(np.eye(2), np.array([[2.0], [4.0]]), np.ones(2))
    >>> problem.path([1.0])[:, 0, 0]
    array([1., 2.])
    """

    left: np.ndarray
    right: np.ndarray
    values: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

    def path(self, alphas):
        """Solutions for all penalties, of shape (d, n_alphas, n_outputs)."""
        c = self.left.T @ self.targets
        table = c[:, None] / (self.values[:, None] + np.asarray(alphas))[:, :, None]
        return np.tensordot(self.right, table, axes=1)

    def left_out(self, alphas, intercept):
        """Mean squared errors of every penalty at rows left out with all their weight.

        Parameters
        ----------
        alphas : ndarray of shape (n_alphas,)
        intercept : bool
            Whether the mean was fitted, too.

        Returns
        -------
        ndarray of shape (n_alphas,)
        """
        inverse = 1.0 / (self.values[:, None] + np.asarray(alphas))
        table = (self.left.T @ self.targets)[:, None] * inverse[:, :, None]
        total = self.weights.sum()
        risk = np.zeros(len(alphas))
        for start in range(0, len(self.left), _BLOCK):
            part = slice(start, start + _BLOCK)
            left = self.left[part]
            rest = 1.0 - np.square(left) @ inverse
            if intercept:
                rest -= (self.weights[part] / total)[:, None]
            error = self.targets[part][:, None] - np.tensordot(left, table, axes=1)
            # A row that its own fit passes through says nothing: such a penalty is out.
            with np.errstate(divide="ignore"):
                factor = np.where(rest > 1e-10, 1.0 / rest**2, np.inf)
            square = np.square(error).sum(axis=2)
            risk += np.where(np.isinf(factor), np.inf, factor * square).sum(axis=0)
        return risk / total


def decompose(Z, targets, weights):
    """The eigendecomposition behind a ridge path.

    Parameters
    ----------
    Z : ndarray of shape (m, d)
        Centred rows.
    targets : ndarray of shape (m, n_outputs)
        Centred targets.
    weights : ndarray of shape (m,)

    Returns
    -------
    Ridge
    """
    root = np.sqrt(weights)[:, None]
    B, y = root * Z, root * targets
    if B.shape[1] <= B.shape[0]:
        values, right = np.linalg.eigh(B.T @ B)
        keep = values > 1e-14 * max(values[-1], 0.0)
        values, right = values[keep], right[:, keep]
        return Ridge(B @ right, right, values, y, weights)
    values, left = np.linalg.eigh(B @ B.T)
    keep = values > 1e-14 * max(values[-1], 0.0)
    values, left = values[keep], left[:, keep] * np.sqrt(values[keep])
    return Ridge(left, B.T @ (left / values), values, y, weights)
