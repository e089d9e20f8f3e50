"""Features in place of columns: functions, transformers, kernels."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from tunefree._process import one_blas_thread
from tunefree.data.units import Units
from tunefree.designs import as_rows, canonical, entries
from tunefree.kernels import KERNELS, check_gram, make_kernel, median_gamma

# Smaller eigenvalues of a kernel matrix, relative to the largest, are rounding.
_SMALLEST = 1e-10


class Mapped(NamedTuple):
    """A function or a fitted transformer of rows."""

    function: Any

    def transform(self, X):
        """Features of rows, which must be finite numbers."""
        features = canonical(as_rows(self.function(X)).astype(X.dtype, copy=False))
        finite = np.isfinite(entries(features)[0]).all()
        if features.ndim != 2 or features.shape[0] != X.shape[0] or not finite:
            raise ValueError(
                "feature_map must return finite numbers of shape (n_rows, n_features); it returned "
                f"the shape {features.shape} for {X.shape[0]} rows."
            )
        return features


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


def is_kernel(feature_map):
    """Whether a feature map is a kernel or the name of one."""
    return isinstance(feature_map, str) or hasattr(feature_map, "gram")


def fitted_map(feature_map, X, rows, weights, standardize, seed):
    """The fitted map of rows to features."""
    X = X[rows]
    if is_kernel(feature_map):
        if isinstance(feature_map, str) and feature_map not in KERNELS:
            raise ValueError(f"feature_map={feature_map!r} is none of {', '.join(KERNELS)}.")
        return KernelMap.of(feature_map, X, weights, standardize, seed)
    if hasattr(feature_map, "transform"):
        return Mapped(clone(feature_map).fit(X).transform)
    if not callable(feature_map):
        raise ValueError(
            f"feature_map={feature_map!r} is neither a function nor a transformer nor a kernel."
        )
    return Mapped(feature_map)
