"""Coordinates in a kernel's feature space, in place of columns: the Alphatron."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.process import one_blas_thread
from tunefree.core.warn import none_of
from tunefree.kernels.kernels import KERNELS, check_gram, make_kernel, median_gamma
from tunefree.rows.units import Units

# Smaller eigenvalues of a kernel matrix, relative to the largest, are rounding.
_SMALLEST = 1e-10


class KernelMap(NamedTuple):
    r"""Rows as points of a kernel's feature space, in the span of the training rows.

    .. math:: \alpha(x) = \Lambda^{-1/2} Q' k(X, x), \qquad k(X, X) = Q \Lambda Q'

    so that <alpha(x), alpha(x_i)> = k(x, x_i): GLM-tron in these coordinates is the Alphatron, with
    coefficients Q Lambda^(-1/2) theta on the rows. `support` are the rows in the units `columns`,
    and `root` is Q Lambda^(-1/2).
    """

    kernel: Any
    columns: Units
    support: Any
    root: np.ndarray

    @classmethod
    def of(cls, kernel, X, weights, standardize, seed):
        """The map of a kernel or its name; 'rbf' and 'laplacian' use the median heuristic."""
        if not hasattr(kernel, "gram") and str(kernel) not in KERNELS:
            raise none_of("feature_map", kernel, KERNELS)
        columns = Units.of(X, weights, not sparse.issparse(X), standardize)
        support = columns.rows(X)
        part: Any = make_kernel(kernel)
        if isinstance(kernel, str) and hasattr(part, "distances"):
            part = part._replace(gamma=median_gamma(part, support, seed))
        gram = np.asarray(part.gram(support, support), dtype=np.float64)
        check_gram(gram, "feature_map")
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        if values[0] < -1e-6 * max(values[-1], 1e-300):
            raise ValueError(
                f"The kernel {part!r} has the eigenvalue {values[0]:.3g} on these rows: it is no "
                "inner product."
            )
        used = values > _SMALLEST * max(values[-1], 1e-300)
        return cls(part, columns, support, vectors[:, used] / np.sqrt(values[used]))

    @one_blas_thread()
    def transform(self, X):
        """Coordinates of rows in feature space."""
        gram = self.kernel.gram(self.columns.rows(X), self.support)
        return np.ascontiguousarray(gram @ self.root, dtype=X.dtype)
