"""How predictions of a `Geometry` change when columns are permuted."""

from typing import Any

import numpy as np

from tunefree.core.process import ALONE
from tunefree.kernels.kernels import decay

# Kernel values to compute for the permutation effects of all columns.
_PERMUTED_VALUES = 1e7
# Rows whose columns are permuted, at most.
_MOST_PERMUTED = 1000


def n_permuted_rows(n, n_columns, n_held):
    """On how many rows permutation effects of a predictor with n coefficients are computed.

    They cost at most as much as predicting the held-out rows twice, if that is more than
    `_PERMUTED_VALUES` kernel values.
    """
    cheap = max(_PERMUTED_VALUES / max(n * n_columns, 1), 2.0 * n_held / n_columns)
    return int(min(max(cheap, 10), _MOST_PERMUTED))


def permutation_effects(geometry, A, centers, coef, source: Any, columns, without=None, team=ALONE):
    r"""How predictions change when columns come from the next row, of shape (n_columns, n, c).

    Parameters
    ----------
    geometry : Geometry
    A : ndarray of shape (n, q)
        Transformed rows, in random order.
    centers : ndarray of shape (m, q)
    coef : ndarray of shape (m, c)
    source : ndarray of int of shape (q,), or callable
        The column of each coordinate; or a function of columns that gives these rows, transformed,
        with the columns from the next row.
    columns : list of ndarray of int
        Groups of columns, each permuted as a whole.
    without : tuple of ndarray of shapes (n, m) and (n, c), optional
        Rows of the inverse and residuals of `exact`: row i is then predicted by the coefficients
        :math:`\alpha - A^{-1} e_i (\alpha_i / A^{-1}_{ii})`, which were learned without it.
    team : Workers, optional
        Threads, which share the groups.
    """
    out = np.zeros((len(columns), len(A), coef.shape[1]))
    kernel, slope = geometry.kernel, geometry.slope

    def distances(a, c):
        sizes = kernel.sizes(a)
        return kernel.distances(a, c, sizes, kernel.sizes(c)), sizes

    A, centers = (part.astype(np.float32, copy=False) for part in (A, centers))
    coef = coef.astype(np.float32)
    D, _ = distances(A, centers)
    E = decay(D, 1.0)
    left = kernel.sizes(A)

    def compute(effect, group):
        if callable(source):
            permuted: Any = source(group)
            new, sizes = distances(permuted.astype(np.float32), centers)
            change, lines = new - D, sizes - left
        else:
            own = np.flatnonzero(np.isin(source, group))
            if not len(own):
                return
            old, sizes = distances(*(np.ascontiguousarray(part[:, own]) for part in (A, centers)))
            change = np.empty_like(old)
            np.subtract(old[:-1], old[1:], out=change[1:])
            np.subtract(old[-1], old[0], out=change[0])
            lines = np.roll(sizes, 1) - sizes
        # The change of the kernel values, in place: new pages cost as much as the arithmetic.
        values = D + change
        decay(np.maximum(values, 0.0, out=values), 1.0, values)
        np.subtract(lines[:, None], change, out=change)
        change *= slope
        change -= E
        values += change
        effect[:] = values @ coef
        if without is not None:
            effect -= np.einsum("ik,ik->i", values, without[0])[:, None] * without[1]

    team.map(lambda pair: compute(*pair), zip(out, columns, strict=True))
    return out
