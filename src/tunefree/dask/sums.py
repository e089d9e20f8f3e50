"""Moments of columns and targets that partitions add up."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.estimators.reflectron.units import Moments
from tunefree.learners.sgd.coordinates import spanned


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
