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
    """Moments of weighted rows.

    Attributes
    ----------
    weight : float
    mean, square : ndarray of shape (d,)
        Means of the columns, and weighted sums of squared deviations from them.
    target : ndarray of shape (n_outputs,)
        Means of the targets.
    """

    weight: float
    mean: np.ndarray
    square: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The moments of rows.

        Examples
        --------
        >>> Moments.of(np.array([[1.0], [3.0]]), np.array([[0.0], [1.0]]), np.ones(2)).square
        array([2.])
        """
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
