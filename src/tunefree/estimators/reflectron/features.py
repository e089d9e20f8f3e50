"""What the Reflectron learns on: units of the columns, and feature maps in front of it."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from tunefree._process import one_blas_thread
from tunefree.designs import CSR, Centred, Dense
from tunefree.estimators.base import canonical
from tunefree.kernels import KERNELS, check_gram, make_kernel, median_gamma

# Directions of feature space whose share of the largest eigenvalue is below this are rounding.
_SMALLEST = 1e-10


class Columns(NamedTuple):
    """Units of the columns, without which a potential is not the same for all.

    x becomes (x - centre) / scale.
    """

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X, weights, centred, scaled):
        """The weighted means and standard deviations of the columns (from 0 if not centred)."""
        d, share = X.shape[1], weights / weights.sum()
        if not scaled:
            return cls.unchanged(d)
        # In units of the largest entry squares neither overflow nor vanish.
        top = np.asarray(abs(X).max(axis=0).todense() if sparse.issparse(X) else abs(X).max(axis=0))
        top = top.reshape(-1).astype(np.float64)
        top = np.where(top > 0.0, top, 1.0)
        if sparse.issparse(X):
            row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            value, column, mass = X.data / top[X.indices], X.indices, share[row]
            mean = np.bincount(column, mass * value, minlength=d) * centred
            square = np.bincount(column, mass * (value - mean[column]) ** 2, minlength=d)
            variance = square + (1.0 - np.bincount(column, mass, minlength=d)) * mean**2
        else:
            value = X / top
            mean = share @ value * centred
            variance = share @ np.square(value - mean)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        # A column that is constant up to rounding is left as it is.
        deviation = np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)
        return cls(mean * top, np.where(deviation > 0.0, deviation * top, 1.0))

    @classmethod
    def unchanged(cls, d):
        """The columns as they are."""
        return cls(np.zeros(d), np.ones(d))

    def rows(self, X):
        """Rows in these units, in their own precision; sparse rows are not centred."""
        if not sparse.issparse(X):
            return np.ascontiguousarray((X - self.centre) / self.scale, dtype=X.dtype)
        X = X.copy()
        X.data = (X.data / self.scale[X.indices]).astype(X.dtype, copy=False)
        return X

    def design(self, X):
        """The same as a design, sparse rows centred, too."""
        rows = self.rows(X)
        if not sparse.issparse(X):
            return Dense(rows)
        rows = CSR.from_scipy(rows)
        return Centred(rows, self.centre / self.scale) if self.centre.any() else rows


class Moments(NamedTuple):
    """Moments of weighted rows; `square` sums squared deviations, `target` are means."""

    weight: float
    mean: np.ndarray
    square: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The moments of rows."""
        total = weights.sum()
        share = weights / total
        mean = np.asarray(share @ X, dtype=np.float64).reshape(-1)
        if sparse.issparse(X):
            values = X.astype(np.float64)
            mass = np.repeat(weights, np.diff(X.indptr))
            square = np.bincount(
                X.indices, mass * (values.data - mean[X.indices]) ** 2, minlength=len(mean)
            )
            zero = total - np.bincount(X.indices, mass, minlength=len(mean))
            square = square + zero * mean**2
        else:
            gap = X - mean
            square = weights @ np.square(gap, out=gap)
        return cls(float(total), mean, square, share @ targets)

    def join(self, other):
        """The moments of both together (Chan, Golub and LeVeque 1979)."""
        total = self.weight + other.weight
        share, gap = other.weight / total, other.mean - self.mean
        return Moments(
            total,
            self.mean + share * gap,
            self.square + other.square + self.weight * share * gap**2,
            self.target + share * (other.target - self.target),
        )

    def widened(self, d):
        """The same with d columns: new ones have been 0."""
        wide = np.zeros((2, d))
        wide[:, : len(self.mean)] = self.mean, self.square
        return self._replace(mean=wide[0], square=wide[1])

    def columns(self, centred):
        """The units in which every column has deviation 1 (from 0 if not centred)."""
        variance = self.square / self.weight + (0.0 if centred else self.mean**2)
        deviation = np.sqrt(variance)
        # A column that is constant up to rounding is left as it is.
        still = deviation <= 1e-12 * np.abs(self.mean) * centred
        centre = self.mean if centred else np.zeros_like(self.mean)
        return Columns(centre, np.where(still | (deviation == 0.0), 1.0, deviation))


class Mapped(NamedTuple):
    """A function or a fitted transformer of rows."""

    function: object

    def transform(self, X):
        """Features of rows; they must be finite numbers, one line a row."""
        features = self.function(X)
        dtype = X.dtype
        if sparse.issparse(features):
            features = canonical(sparse.csr_array(features).astype(dtype, copy=False))
            values = features.data
        else:
            features = values = np.ascontiguousarray(features, dtype=dtype)
        if features.ndim != 2 or features.shape[0] != X.shape[0] or not np.isfinite(values).all():
            raise ValueError(
                "feature_map must give finite numbers of shape (n_rows, n_features), and gave "
                f"shape {features.shape} for {X.shape[0]} rows."
            )
        return features


class KernelMap(NamedTuple):
    r"""Rows as points of a kernel's feature space, within the span of the rows learned from.

    .. math:: \alpha(x) = \Lambda^{-1/2} Q' k(X, x), \qquad k(X, X) = Q \Lambda Q'

    so that <alpha(x), alpha(x_i)> = k(x, x_i): GLM-tron in these coordinates is the Alphatron, with
    coefficients Q Lambda^(-1/2) theta on the rows. `support` are the rows in the units `columns`,
    and `root` is Q Lambda^(-1/2).
    """

    kernel: object
    columns: Columns
    support: object
    root: np.ndarray

    @classmethod
    def of(cls, kernel, X, weights, standardize, seed):
        """The map of a kernel or its name; 'rbf' and 'laplacian' take the median heuristic."""
        columns = Columns.of(X, weights, not sparse.issparse(X), standardize)
        support = columns.rows(X)
        part = make_kernel(kernel)
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
        kept = values > _SMALLEST * max(values[-1], 1e-300)
        return cls(part, columns, support, vectors[:, kept] / np.sqrt(values[kept]))

    @one_blas_thread()
    def transform(self, X):
        """Coordinates of rows in feature space."""
        gram = self.kernel.gram(self.columns.rows(X), self.support)
        return np.ascontiguousarray(gram @ self.root, dtype=X.dtype)


def is_kernel(feature_map):
    """Whether a feature map is a kernel or the name of one."""
    return isinstance(feature_map, str) or hasattr(feature_map, "gram")


def fitted_map(feature_map, X, weights, standardize, seed):
    """The map of rows to features; None for none."""
    if feature_map is None:
        return None
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
