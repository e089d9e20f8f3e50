"""Units of the columns: a potential means the same for all only if they are comparable."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.designs import CSR, Centred, Dense


class Columns(NamedTuple):
    """Units of the columns: x becomes (x - centre) / scale."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X, weights, centred, scaled):
        """The weighted means and standard deviations of the columns (from 0 if not centred)."""
        d, share = X.shape[1], weights / weights.sum()
        if not scaled:
            return cls(np.zeros(d), np.ones(d))
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
