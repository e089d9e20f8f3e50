"""Functions written over support rows, and their values on many rows, quickly.

f(x) = sum_k sum_s k(x, x_s) c_ks is the predictor of every kernel learner here. Several kernels may
share the support, as the bandwidths of one family do; their distances are then computed once.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.kernels import RBF, Linear, decay, squared_distances, squared_norms
from tunefree.learners.kernel.blocked import workers

# A block of kernel values stays in a core's cache.
ROWS, SUPPORT = 512, 1024
# Above this share of stored entries the product of arrays is faster than that of sparse rows.
DENSE = 0.05


class Expansion(NamedTuple):
    """One function, or several, over support rows.

    Parameters
    ----------
    kernels : tuple of kernel parts
    support : ndarray or CSR of shape (m, d)
        Their type is that of the arithmetic. For a precomputed kernel: the numbers of the rows.
    coefs : tuple of ndarray of shape (m, n_outputs)
        One for each kernel.

    Examples
    --------
    >>> support, coef = np.array([[0.0], [2.0]]), np.array([[1.0], [-1.0]])
    >>> Expansion((RBF(0.25),), support, (coef,))(np.array([[0.0], [1.0]])).round(4)
    array([[0.6321],
           [0.    ]])
    """

    kernels: tuple
    support: Any
    coefs: tuple

    def __call__(self, X, n_jobs=None):
        """Values of the functions on rows, float64 of shape (n, n_outputs).

        Within a block of the support the arithmetic is that of the support's type; blocks are
        summed in float64. Neither the blocks nor the number of threads of the BLAS depend on
        `n_jobs`, so that it does not change a bit of the result.
        """
        starts = range(0, X.shape[0], ROWS)
        with workers(n_jobs) as team:
            values = self._block_values()
            blocks = team.map(lambda start: values(X[start : start + ROWS]), starts)
        return np.concatenate([np.zeros((0, self.n_outputs)), *blocks])

    @property
    def n_outputs(self):
        """How many functions there are."""
        return self.coefs[0].shape[1]

    def _block_values(self):
        """The function that evaluates a block of rows."""
        if all(isinstance(k, Linear) for k in self.kernels):
            weights = self.support.T @ sum(self.coefs)
            return lambda rows: np.asarray(rows @ weights, np.float64)
        support, coefs = self.support, [c.astype(self.dtype, copy=False) for c in self.coefs]
        shares = all(hasattr(k, "distances") for k in self.kernels)
        grams = Distances(self.kernels, support) if shares else Grams(self.kernels, support)

        def values(rows):
            rows = grams.rows(rows)
            total = np.zeros((rows[0].shape[0], self.n_outputs))
            for start in range(0, support.shape[0], SUPPORT):
                block = slice(start, start + SUPPORT)
                for gram, coef in zip(grams(rows, block), coefs, strict=True):
                    total += gram @ coef[block]
            return total

        return values

    @property
    def dtype(self):
        """The type of the arithmetic."""
        return self.coefs[0].dtype if self.support.dtype.kind == "i" else self.support.dtype


class Grams:
    """Kernel values of blocks of rows with blocks of the support."""

    def __init__(self, kernels, support):
        self.kernels, self.support = kernels, support
        stored = (
            support.nnz / max(1, support.shape[0] * support.shape[1])
            if sparse.issparse(support)
            else 0.0
        )
        self.fill = stored > DENSE

    def rows(self, rows):
        """What is needed of a block of rows, once."""
        numbers = self.support.dtype.kind != "i"
        rows = rows.astype(self.support.dtype, copy=False) if numbers else rows
        dense = sparse.issparse(rows) and (self.fill or not sparse.issparse(self.support))
        return (rows.toarray() if dense and numbers else rows,)

    def block(self, block):
        """A block of the support, as an array if that is faster."""
        found = self.support[block]
        return found.toarray() if self.fill else found

    def __call__(self, rows, block):
        """Yield the values of each kernel."""
        for k in self.kernels:
            yield k.gram(rows[0], self.block(block))


class Distances(Grams):
    """Kernel values of one family of bandwidths from shared distances.

    Arrays are centred, so that distances keep their digits wherever the rows lie.
    """

    def __init__(self, kernels, support):
        super().__init__(kernels, support)
        self.centre = None
        if support.shape[0] and not sparse.issparse(support):
            self.centre = support.mean(axis=0)
            self.support = support - self.centre
        self.norms = squared_norms(self.support)

    def rows(self, rows):
        """Centred rows, their squared norms, and memory for kernel values."""
        (rows,) = super().rows(rows)
        rows = rows if self.centre is None else rows - self.centre
        scratch = np.empty((2, rows.shape[0] * SUPPORT), rows.dtype)
        return rows, squared_norms(rows), scratch

    def __call__(self, rows, block):
        """Yield the values of each kernel; the array is overwritten by the next."""
        A, B = rows[0], self.block(block)
        memory, out = (m[: A.shape[0] * B.shape[0]].reshape(A.shape[0], -1) for m in rows[2])
        if isinstance(self.kernels[0], RBF):
            D = squared_distances(A, B, rows[1], self.norms[block], memory)
        else:
            D = self.kernels[0].distances(A, B)
        for k in self.kernels[:-1]:
            yield decay(D, k.gamma, out)
        yield decay(D, self.kernels[-1].gamma, D)
