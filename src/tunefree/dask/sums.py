"""Moments of columns and targets that partitions add up."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.estimators.units import Columns
from tunefree.learners.coordinates import spanned


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

    def columns(self, centred):
        """The units in which every column has deviation 1 (from 0 if not centred)."""
        variance = self.square / self.weight + (0.0 if centred else self.mean**2)
        deviation = np.sqrt(variance)
        # A column that is constant up to rounding is left as it is.
        still = deviation <= 1e-12 * np.abs(self.mean) * centred
        centre = self.mean if centred else np.zeros_like(self.mean)
        return Columns(centre, np.where(still | (deviation == 0.0), 1.0, deviation))


class Extent(NamedTuple):
    """Means of weighted rows and their targets, and between what their columns lie.

    Attributes
    ----------
    weight : float
    mean, low, high : ndarray of shape (d,)
    target : ndarray of shape (n_outputs,)
    """

    weight: float
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    target: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The extent of rows of positive weight.

        Examples
        --------
        >>> Extent.of(np.array([[1.0], [3.0]]), np.array([[0.0], [1.0]]), np.ones(2)).high
        array([3.])
        """
        total = float(weights.sum())
        share = weights / total
        low, high = X.min(axis=0), X.max(axis=0)
        if sparse.issparse(X):
            low, high = low.toarray().reshape(-1), high.toarray().reshape(-1)
        mean = np.asarray(share @ X, dtype=np.float64).reshape(-1)
        return cls(total, mean, low.astype(float), high.astype(float), share @ targets)

    def join(self, other):
        """The extent of both together."""
        total = self.weight + other.weight
        share = other.weight / total
        return Extent(
            total,
            self.mean + share * (other.mean - self.mean),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.target + share * (other.target - self.target),
        )

    def columns(self, centred):
        """The coordinates in which least squares are learned."""
        mean, target = (v if centred else np.zeros_like(v) for v in (self.mean, self.target))
        return spanned(mean, target, self.low, self.high)


def moments(part, numbers, estimator):
    """The moments of a partition; `numbers` makes its targets."""
    part = part.positive()
    targets, _ = numbers(part, estimator)
    return Moments.of(part.X, targets, part.weights)


def joined(a, b, *_):
    """Two partitions' moments together, as a merge of the cluster."""
    return a.join(b)
