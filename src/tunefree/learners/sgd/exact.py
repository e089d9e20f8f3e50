r"""The whole ridge path exactly, from one eigendecomposition, with leave-one-out errors.

With B the rows of z times the roots of their weights and B'B = V S V', the solution for the
penalty alpha is V (S + alpha)^-1 V' B' y, and row i contributes the leverage
h_i = sum_j (B V)_ij^2 / (S_j + alpha) to its own fit. For fewer rows than columns B B' is
decomposed instead.
"""

from typing import NamedTuple

import numpy as np

_BLOCK = 4096
_RANK = 1e-14  # eigenvalues below this share of the largest are rounding


class Spectrum(NamedTuple):
    """The eigenvectors of B'B and what the targets are along them: enough for the path.

    Attributes
    ----------
    right : ndarray of shape (d, r)
        V.
    values : ndarray of shape (r,)
        S.
    moments : ndarray of shape (r, n_outputs)
        V' B' y.

    Examples
    --------
    >>> found = Spectrum.of(np.eye(2), np.array([[2.0], [4.0]]))
    >>> found.path([1.0])[:, 0, 0]
    array([1., 2.])
    """

    right: np.ndarray
    values: np.ndarray
    moments: np.ndarray

    @classmethod
    def of(cls, gram, products):
        """The spectrum of B'B, from it and B'y."""
        values, right = np.linalg.eigh(gram)
        keep = values > _RANK * max(values[-1], 0.0)
        right = right[:, keep]
        return cls(right, values[keep], right.T @ products)

    def path(self, alphas):
        """Solutions for all penalties, of shape (d, n_alphas, n_outputs)."""
        return np.tensordot(self.right, self._table(alphas)[1], axes=1)

    def _table(self, alphas):
        inverse = 1.0 / (self.values[:, None] + np.asarray(alphas))
        return inverse, self.moments[:, None] * inverse[:, :, None]

    def left_out(self, left, targets, mass, alphas):
        """Weighted squared errors of every penalty at rows left out with all their weight.

        Parameters
        ----------
        left : ndarray of shape (m, r)
            Rows of B V.
        targets : ndarray of shape (m, n_outputs)
            Targets times the roots of the weights.
        mass : ndarray of shape (m,)
            What each row has of the fitted mean: its share of all weight, or 0.
        alphas : ndarray of shape (n_alphas,)

        Returns
        -------
        ndarray of shape (n_alphas,)
            The sum over rows and outputs.
        """
        inverse, table = self._table(alphas)
        risk = np.zeros(len(alphas))
        for start in range(0, len(left), _BLOCK):
            part = slice(start, start + _BLOCK)
            rest = 1.0 - np.square(left[part]) @ inverse - mass[part, None]
            error = targets[part][:, None] - np.tensordot(left[part], table, axes=1)
            # A row that its own fit passes through says nothing: such a penalty is out.
            known = rest > 1e-10
            square = np.square(error).sum(axis=2)
            each = np.divide(square, rest**2, out=np.full(rest.shape, np.inf), where=known)
            risk += each.sum(axis=0)
        return risk


class Ridge(NamedTuple):
    """A decomposed ridge problem.

    Attributes
    ----------
    spectrum : Spectrum
    left : ndarray of shape (m, r)
        B V.
    targets : ndarray of shape (m, n_outputs)
        Targets times the roots of the weights.
    weights : ndarray of shape (m,)

    Examples
    --------
    >>> problem = decompose(np.eye(2), np.array([[2.0], [4.0]]), np.ones(2))
    >>> problem.left_out(np.array([1.0]), intercept=False)
    array([10.])
    """

    spectrum: Spectrum
    left: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

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
        total = self.weights.sum()
        mass = self.weights / total * bool(intercept)
        return self.spectrum.left_out(self.left, self.targets, mass, alphas) / total


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
        spectrum = Spectrum.of(B.T @ B, B.T @ y)
        return Ridge(spectrum, B @ spectrum.right, y, weights)
    values, left = np.linalg.eigh(B @ B.T)
    keep = values > _RANK * max(values[-1], 0.0)
    values, left = values[keep], left[:, keep] * np.sqrt(values[keep])
    right = B.T @ (left / values)
    return Ridge(Spectrum(right, values, left.T @ y), left, y, weights)
