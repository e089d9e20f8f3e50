r"""The coordinates in which averaged SGD learns: columns centred and scaled, private ones merged.

SGD for least squares depends on the products of rows only. A private column has entries in one row
only (most words of a text collection); it enters the product of that row with itself alone. So the
private columns of a row may be replaced by one column of the same length: the learner makes the
same steps on fewer columns, and the weight of the user's column j is the weight at place[j] times
factor[j].
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.jit import kernel
from tunefree.rows.designs import design_of
from tunefree.rows.matrices import csr

# Columns that are scaled at a time: temporary arrays stay small.
_STRIPE = 4096


class Columns(NamedTuple):
    """How columns become coordinates: z = factor (x - mean), with private columns merged."""

    mean: np.ndarray
    factor: np.ndarray  # 1 / the largest deviation; 0 drops a (constant) column
    target: np.ndarray  # mean of the targets
    place: Any = None  # the coordinate of each column; None: its own
    width: Any = None  # the number of coordinates, if columns are merged

    def unscaled(self):
        """The same with columns in their own units; constant columns stay dropped."""
        return self._replace(factor=(self.factor > 0.0).astype(float))

    def show(self, X):
        """The rows in these coordinates; sparse rows are scaled but not centred."""
        if not sparse.issparse(X):
            out = X - self.mean
            out *= self.factor
            return out
        indices = X.indices if self.place is None else self.place[X.indices]
        width = X.shape[1] if self.place is None else self.width
        return csr(X.data * self.factor[X.indices], indices, X.indptr, width)

    def middle(self):
        """The mean in these coordinates, before it is subtracted."""
        middle = self.mean * self.factor
        if self.place is None:
            return middle
        return np.bincount(self.place, middle, minlength=self.width)

    def back(self, weights, mix, dtype=float):
        """Combinations of weights (width, r, n_outputs) by `mix` (r, n), for the user's columns.

        Their shape is (n_outputs, d, n).
        """
        factor = self.factor[:, None]
        d = len(self.mean)
        out = np.empty((weights.shape[2], d, mix.shape[1]), dtype)
        for start in range(0, d, _STRIPE):
            part = slice(start, start + _STRIPE)
            rows = weights[part if self.place is None else self.place[part]]
            for k in range(len(out)):
                np.multiply(rows[:, :, k] @ mix, factor[part], out=out[k, part])
        return out


def columns(X, targets, weights, *, intercept=True):
    """RowMeans and largest deviations of columns; without an intercept nothing is centred."""
    share = weights / weights.sum()
    mean, target = np.zeros(X.shape[1]), np.zeros(targets.shape[1])
    if intercept:
        mean = np.asarray(share @ X, dtype=float)
        target = share @ targets
    return spanned(mean, target, *design_of(X).ranges())


def spanned(mean, target, low, high):
    """The columns with this range and mean."""
    largest = np.maximum(high - mean, mean - low)
    size = np.maximum(np.abs(low), np.abs(high))
    # A deviation within the rounding of the mean, or with an infinite inverse, counts as 0.
    largest = np.where(largest > np.maximum(1e-13 * size, 1e-300), largest, 0.0)
    factor = np.divide(1.0, largest, out=np.zeros(len(mean)), where=largest > 0.0)
    return Columns(mean, factor, target)


@kernel
def _merge(data, indices, indptr, factor):
    """Scale CSR rows and merge the columns with entries in one row only."""
    n, d = indptr.shape[0] - 1, factor.shape[0]
    n_rows, place = np.zeros(d, np.uint8), np.zeros(d, indices.dtype)
    for p in range(data.shape[0]):
        n_rows[indices[p]] = min(2, n_rows[indices[p]] + 1)  # up to 2
    merged = np.where(n_rows > 1, factor, 0.0)
    width, private = 0, 0
    for j in range(d):
        # Shared columns keep their order; private ones get their place with their row.
        place[j] = width if n_rows[j] > 1 else -1
        width += n_rows[j] > 1
        private += n_rows[j] == 1
    size = data.shape[0] - private + min(n, private)
    values, places = np.empty(size), np.empty(size, indices.dtype)
    ends = np.zeros(n + 1, indptr.dtype)
    q = 0
    for i in range(n):
        own = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            z = data[p] * factor[j]
            if place[j] >= 0:
                values[q], places[q] = z, place[j]
                q += 1
            else:
                own += z * z
        if own > 0.0:
            own = np.sqrt(own)
            for p in range(indptr[i], indptr[i + 1]):
                j = indices[p]
                if place[j] < 0:
                    place[j], merged[j] = width, data[p] * factor[j] * factor[j] / own
            values[q], places[q] = own, width
            q += 1
            width += 1
        ends[i + 1] = q
    return values[:q], places[:q], ends, np.maximum(place, 0), merged, width


def shown(X, view):
    """The rows to learn in the coordinates of a view, what is still to be subtracted, and the view.

    Nothing is to be subtracted from dense rows; of sparse rows private columns are merged.
    """
    if not sparse.issparse(X):
        return view.show(X), np.empty(0), view
    *rows, place, factor, width = _merge(X.data, X.indices, X.indptr, view.factor)
    values, places, ends = rows
    view = view._replace(factor=factor, place=place, width=width)
    return csr(values, places, ends, width), view.middle(), view


def squared_norms(Z, centre):
    """Squared norm of every row of z less the centre."""
    square = design_of(Z).squares()
    if not len(centre):
        return square
    return np.maximum(square - 2.0 * (Z @ centre) + centre @ centre, 0.0)
