"""How predictions of a `Geometry` change when columns are permuted."""

from typing import Any

import numpy as np

from tunefree.core.jit import fast_exp32, maximum
from tunefree.core.jit import kernel as compiled
from tunefree.core.process import ALONE, Workers
from tunefree.kernels.kernels import decay

# Kernel values to compute for the permutation effects of all columns.
_PERMUTED_VALUES = 1e7
# Rows whose columns are permuted, at most.
_MOST_PERMUTED = 1000


# In one sweep, in place: new pages and more sweeps cost as much as the arithmetic.
@compiled(borrows=True, unrolls=False)
def _to_changes(change, D, E, lines, slope):
    """Changes of kernel values in place of those of the distances D; E is exp(-D)."""
    zero, lowest = np.float32(0.0), np.float32(-87.0)
    for i in range(len(change)):
        row, distance, before, line = change[i], D[i], E[i], lines[i]
        for k in range(len(row)):
            x = row[k]
            value = fast_exp32(maximum(-maximum(distance[k] + x, zero), lowest))
            row[k] = value + ((line - x) * slope - before[k])


@compiled(borrows=True, unrolls=False)
def _write_differences(A, B, squares, out):
    """Write how distances of rows to the columns of B change if each is the row before it."""
    for i in range(len(A)):
        row = out[i]
        row[:] = 0.0
        for j in range(len(B)):
            before, x, w = A[i - 1, j], A[i, j], B[j]
            if squares:
                for k in range(len(row)):
                    old, new = x - w[k], before - w[k]
                    row[k] += new * new - old * old
            else:
                for k in range(len(row)):
                    row[k] += abs(before - w[k]) - abs(x - w[k])


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
    kernel, slope = geometry.kernel, np.float32(geometry.slope)

    def distances(a, c, out=None):
        sizes = kernel.sizes(a)
        return kernel.distances(a, c, sizes, kernel.sizes(c), out), sizes

    A, centers = (part.astype(np.float32, copy=False) for part in (A, centers))
    coef = coef.astype(np.float32)
    D, _ = distances(A, centers)
    E = decay(D, 1.0)
    left = kernel.sizes(A)
    own_memory = Workers().memory  # of each thread, until the end

    def compute(effect, group):
        memory = own_memory(D.shape, D.dtype)
        if callable(source):
            permuted: Any = source(group)
            new, sizes = distances(permuted.astype(np.float32), centers, memory)
            change, lines = np.subtract(new, D, out=new), sizes - left
        else:
            own = np.flatnonzero(np.isin(source, group))
            if not len(own):
                return
            rows, change = np.ascontiguousarray(A[:, own]), memory
            sizes = kernel.sizes(rows)
            columns_of_centers = np.ascontiguousarray(centers[:, own].T)
            _write_differences(rows, columns_of_centers, kernel.power == 2, change)
            lines = np.roll(sizes, 1) - sizes
        _to_changes(change, D, E, lines, slope)
        effect[:] = change @ coef
        if without is not None:
            effect -= np.einsum("ik,ik->i", change, without[0])[:, None] * without[1]

    team.map(lambda pair: compute(*pair), zip(out, columns, strict=True))
    return out
