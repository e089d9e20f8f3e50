"""Units of columns, so that a geometry means the same for all; and which columns are learned."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.process import team
from tunefree.rows.designs import Centred, Dense, design_of
from tunefree.rows.levels import Levels
from tunefree.rows.matrices import divided, squares_about

# From this many dense entries on, moments are computed in blocks of so many rows.
_LARGE, _BLOCK = 4_000_000, 4096
_LEAST_SPREAD = 1e-300


def _spread(X, share, centred):
    """Centres and deviations of many rows, in blocks that stay in the cache."""
    blocks = [slice(i, i + _BLOCK) for i in range(0, len(X), _BLOCK)]
    top = np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)
    top = np.where(top > 0.0, top, 1.0)
    mean = (share @ X) / top * centred
    variance = sum(team().map(lambda b: share[b] @ np.square(X[b] / top - mean), blocks))
    deviation = np.sqrt(np.maximum(variance, 0.0))
    deviation = np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)
    return mean * top, np.where(deviation > 0.0, deviation * top, 1.0)


class Among(NamedTuple):
    """The `places` of columns that have an entry, among `width` of sparse rows.

    Examples
    --------
    >>> Among(np.array([1, 3]), 5).whole(np.array([[2.0, 7.0]]))
    array([[0., 2., 0., 7., 0.]])
    """

    places: np.ndarray
    width: int

    @classmethod
    def of(cls, X):
        """None if rows are dense, or more than half of the columns have an entry."""
        if not sparse.issparse(X):
            return None
        places = np.unique(X.indices)
        return cls(places, X.shape[1]) if 0 < 2 * len(places) < X.shape[1] else None

    def transform(self, X):
        """Rows with these columns only."""
        return X[:, self.places]

    def whole(self, values):
        """Values of these columns, and 0 for the others."""
        out = np.zeros((*values.shape[:-1], self.width), values.dtype)
        out[..., self.places] = values
        return out


class Units(NamedTuple):
    """Units of the columns, so that a potential means the same for all: (x - centre) / scale.

    `among` locates these columns among all, if some were dropped.
    """

    centre: np.ndarray
    scale: np.ndarray
    levels: Levels | None = None
    among: Among | None = None

    def whole(self, values):
        """Values of these columns as values of all."""
        return values if self.among is None else self.among.whole(values)

    @classmethod
    def of(cls, X, weights, centred, scaled, levels=None):
        """The weighted means and standard deviations of the columns (from 0 if not centred)."""
        if levels is not None:  # indicators keep their scale, and are centred at their shares
            own = cls.of(levels.numbers(X), weights, centred, scaled)
            shares = np.concatenate([part.adjoint(weights) for part in levels.indicators(X)])
            shares /= weights.sum()
            centre = np.concatenate([own.centre, shares * centred])
            return cls(centre, np.concatenate([own.scale, np.ones_like(shares)]), levels)
        d, share = X.shape[1], weights / weights.sum()
        if not scaled:
            return cls.unchanged(d)
        design = design_of(X)
        if isinstance(design, Dense) and X.size > _LARGE:
            return cls(*_spread(X, share, centred))
        # In units of the largest entry squares neither overflow nor underflow.
        low, high = design.ranges()
        top = np.maximum(high, -low)
        top = np.where(top > 0.0, top, 1.0)
        Z = divided(X, top)
        mean = share @ Z * centred
        variance = squares_about(mean, Z, share, 1.0)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        # A column that is constant up to rounding keeps its scale, and so does one whose
        # coefficients would overflow.
        spread = np.where(deviation > 1e-12 * np.abs(mean), deviation * top, 0.0)
        return cls(mean * top, np.where(spread > _LEAST_SPREAD, spread, 1.0))

    @classmethod
    def of_moments(cls, moments, centred):
        """The units in which every column has deviation 1 (from 0 if not centred)."""
        means = moments.means
        variance = moments.square / means.weight + (0.0 if centred else means.columns**2)
        deviation = np.sqrt(variance)
        # A column that is constant up to rounding keeps its scale.
        is_constant = deviation <= 1e-12 * np.abs(means.columns) * centred
        centre = means.columns if centred else np.zeros_like(means.columns)
        return cls(centre, np.where(is_constant | (deviation == 0.0), 1.0, deviation))

    @classmethod
    def unchanged(cls, d):
        """The columns as they are."""
        return cls(np.zeros(d), np.ones(d))

    def rows(self, X, own=False):
        """Rows in these units, in their own precision; sparse rows are not centred.

        If `own`, they may be overwritten.
        """
        if sparse.issparse(X):
            return divided(X, self.scale).astype(X.dtype, copy=False)
        if own and X.dtype == np.float64:
            for i in range(0, len(X), _BLOCK):
                X[i : i + _BLOCK] -= self.centre
                X[i : i + _BLOCK] /= self.scale
            return X
        out = X - self.centre
        out /= self.scale
        return np.ascontiguousarray(out, dtype=X.dtype)

    def design(self, X, own=False):
        """The rows in these units as a design; sparse rows are centred, too."""
        if self.levels is not None:
            rows = self.levels.design(X, self, own)
            n_numbers = rows.parts[0].shape[1]
            centre = np.where(np.arange(rows.shape[1]) < n_numbers, 0.0, self.centre)
            return Centred(rows, centre) if centre.any() else rows
        rows = design_of(self.rows(X, own))
        if isinstance(rows, Dense) or not self.centre.any():
            return rows
        return Centred(rows, self.centre / self.scale)
