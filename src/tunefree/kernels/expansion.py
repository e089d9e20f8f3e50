"""Functions written over support rows, and their values on many rows, quickly.

f(x) = sum_k sum_s k(x, x_s) c_ks is the predictor of every kernel learner here. The kernels are the
bandwidths of one family, whose distances are computed once.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.process import Workers, workers
from tunefree.kernels.bandwidths import Facts, base, products
from tunefree.kernels.kernels import Linear
from tunefree.rows.matrices import as_dense

# Rows of a block: its kernel values with a tile of the support stay in a core's cache.
ROWS = 512
# Above this share of stored entries products of arrays are faster than products of sparse rows:
# no benchmark is named for it.
DENSE = 0.05


class Expansion(NamedTuple):
    """One function, or several, over support rows, of one kernel or of bandwidths of one family.

    Examples
    --------
    >>> from tunefree.kernels.kernels import RBF
    >>> support, coef = np.array([[0.0], [2.0]]), np.array([[1.0], [-1.0]])
    >>> Expansion((RBF(0.25),), support, (coef,))(np.array([[0.0], [1.0]])).round(4)
    array([[0.6321],
           [0.    ]])
    """

    kernels: tuple
    # Of shape (m, d), in the type of the arithmetic; of a precomputed kernel the rows' numbers.
    support: Any
    coefs: tuple  # one for each kernel, of shape (m, n_outputs)

    def __call__(self, X, n_jobs=None):
        """Values of the functions on rows, float64 of shape (n, n_outputs).

        Within a block of the support the arithmetic has the support's type; blocks are summed in
        float64. Neither the blocks nor the BLAS threads depend on `n_jobs`, so that it does not
        change a bit of the result.
        """
        starts = range(0, X.shape[0], ROWS)
        with workers(n_jobs, len(starts)) as team:
            values = self._block_values()
            blocks = team.map(lambda start: values(X[start : start + ROWS]), starts)
        return np.concatenate([np.zeros((0, self.n_outputs)), *blocks])

    @property
    def n_outputs(self):
        """The number of functions."""
        return self.coefs[0].shape[1]

    @property
    def dtype(self):
        """The type of the arithmetic."""
        return self.coefs[0].dtype if self.support.dtype.kind == "i" else self.support.dtype

    def _block_values(self):
        """The function that evaluates a block of rows."""
        kernel = self.kernels[0]
        support = self.support
        m = self.support.shape[0]
        if not m:
            return lambda rows: np.zeros((rows.shape[0], self.n_outputs))
        if isinstance(kernel, Linear):
            weights = support.T @ self.coefs[0]
            return lambda rows: np.asarray(rows @ weights, np.float64)
        team = Workers()  # one thread a block of rows, with its own memory
        has_numbers = support.dtype.kind == "i"  # of rows, in place of these
        is_sparse, radial = sparse.issparse(support), hasattr(kernel, "distances")
        fill = is_sparse and support.nnz > DENSE * m * support.shape[1]
        tables = [c.astype(self.dtype, copy=False) for c in self.coefs]
        gammas = [k.gamma if radial else None for k in self.kernels]
        centre = 0
        if radial and not is_sparse:  # so distances keep their digits
            centre = support.mean(axis=0)
            support = support - centre
        support_facts = Facts.of(kernel, support)

        def values(rows):
            if not has_numbers:
                rows = rows.astype(support.dtype, copy=False)
                rows = as_dense(rows) - centre if fill or not is_sparse else rows
            facts = Facts.of(kernel, rows)

            def tile_of(start, stop):
                tile = support_facts[start:stop]
                tile = tile._replace(rows=tile.rows.toarray()) if fill else tile
                memory = team.memory((rows.shape[0], stop - start), self.dtype)
                return base(kernel, None, facts, tile, memory)

            total: Any = np.zeros((rows.shape[0], self.n_outputs))
            for part in products(team, gammas, None, tile_of, m, tables):
                total += part
            return total

        return values
