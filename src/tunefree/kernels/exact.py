"""Kernel ridge regression on all rows, with exact held-out predictions."""

import numpy as np

from tunefree.core.blas import potrs
from tunefree.core.process import ALONE
from tunefree.kernels.factors import inverse
from tunefree.kernels.geometry import gram

_NONE = np.empty(0, dtype=np.int64)
# In a fit of so many rows it is enough from this penalty on.
_MANY = 1000
SINGLE_MANY = 0.03


def exact(geometry, A, Y, weights, held, groups=None, inverse_of=_NONE, team=ALONE):
    r"""Kernel ridge regression on all rows, and held-out predictions of the last `held` rows.

    With :math:`\alpha = A^{-1} Y` row i is predicted by the others as
    :math:`y_i - \alpha_i / A^{-1}_{ii}`, and a group G, held out as a whole, as
    :math:`y_G - ((A^{-1})_{GG})^{-1} \alpha_G`. This needs only the trailing block of the inverse,
    of the held-out rows, which is the inverse of L L' for the trailing block L of the Cholesky
    factor.

    Parameters
    ----------
    geometry : Geometry
    A : ndarray of shape (n, d)
        Transformed rows.
    Y : ndarray of shape (n, c)
    weights : ndarray of shape (n,)
    held : int
    groups : ndarray of shape (held,), optional
        Groups of the held-out rows; other rows are in none of these groups.
    inverse_of : ndarray of int, optional
        The numbers of rows of the inverse to return.
    team : Workers, optional

    Returns
    -------
    coef : ndarray of shape (n, c)
    held_out : ndarray of shape (held, c)
    penalty : float
        That of the geometry, or more if rounding spoiled the solution.
    inverse_rows : ndarray of shape (n_rows, n)
    """
    penalty = geometry.penalty
    single = len(A) >= _MANY and penalty >= SINGLE_MANY
    A = A.astype(np.float32 if single else np.float64, copy=False)
    solved = inverse(gram(geometry, A, team), penalty, weights, held, team)
    while solved is None:
        penalty *= 4.0
        if not np.isfinite(penalty):
            raise np.linalg.LinAlgError("A matrix of kernel values is not finite.")
        K = gram(geometry, A, team).astype(np.float64, copy=False)
        solved = inverse(K, penalty, weights, held, team)
    corner, factor = solved
    coef = potrs(factor, Y).astype(np.float64)
    gap = coef[-held:] / np.diagonal(corner)[:, None]
    if groups is not None:
        order = np.argsort(groups, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            gap[rows] = np.linalg.solve(corner[np.ix_(rows, rows)], coef[-held:][rows])
    held_out = Y[-held:] - gap
    if held == len(A):
        return coef, held_out, penalty, corner[inverse_of]
    unit = np.zeros((len(A), len(inverse_of)), factor.dtype)
    unit[inverse_of, np.arange(len(inverse_of))] = 1.0
    return coef, held_out, penalty, potrs(factor, unit).T
