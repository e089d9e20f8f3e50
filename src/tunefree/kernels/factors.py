"""Cholesky factors and inverses of symmetric matrices, by blocks that threads share."""

import numpy as np

from tunefree.core.blas import gemm, potrf, potri, trsm
from tunefree.core.process import ALONE
from tunefree.kernels.kernels import mirror

# Up to so many rows are one task.
_WHOLE = 1024
# Up to so many rows LAPACK alone is the fastest: no benchmark is named for it.
_LEAF = 160


def parts_of(n, whole=_WHOLE):
    """Blocks of n rows for threads; up to `whole` rows are one block."""
    step = n if n <= whole else min(max(n // 8, 256), 1024)
    return [slice(i, min(i + step, n)) for i in range(0, n, max(step, 1))]


def factored(A, team, whole=_WHOLE):
    """Replace A by its lower Cholesky factor, block by block; threads update the rows below."""
    parts = parts_of(len(A), whole)
    for i, part in enumerate(parts):
        if failed := potrf(A[part, part]):
            return failed
        rest = parts[i + 1 :]
        team.map(lambda rows, p=part: trsm(A[p, p], A[rows, p]), rest)
        team.map(lambda c, p=part: gemm(A[c.start :, p], A[c, p], A[c.start :, c]), rest)
    return 0


def _copied(K, team):
    """A symmetric matrix in Fortran order."""
    out = np.empty(K.shape, K.dtype, order="F")
    team.map(lambda part: np.copyto(out[:, part], K[part].T), parts_of(len(K)))
    return out


def inverse(K, penalty, weights, last, team=ALONE):
    """A block of the inverse of K + penalty diag(1 / weights), and the matrix's Cholesky factor.

    It is the trailing block, of the `last` rows. None if rounding spoiled the factor, which takes
    the memory of K.
    """
    A = K.T  # in Fortran order
    A[np.diag_indices_from(A)] += (penalty / weights).astype(A.dtype)
    if factored(A, team) or not np.isfinite(np.diagonal(A)).all():
        return None
    return _invert(np.array(A[-last:, -last:], order="F"), team), A


def root_of(factor, team, whole=_WHOLE):
    """The inverse of a lower Cholesky factor, by panels."""
    n = len(factor)
    root = np.zeros((n, n), factor.dtype, order="F")

    def panel(part):
        root[part, part] = np.eye(part.stop - part.start)
        trsm(factor[part.start :, part.start :], root[part.start :, part], left=True)

    team.map(panel, parts_of(n, whole))
    return root


def _invert(factor, team):
    """The inverse from the lower Cholesky factor, which is overwritten."""
    parts = parts_of(len(factor))
    if len(parts) == 1:
        potri(factor)
    else:
        root = root_of(factor, team)

        def product(part):
            below = slice(part.start, None)
            factor[part, : part.stop] = root[below, part].T @ root[below, : part.stop]

        team.map(product, reversed(parts))
    team.map(lambda part: mirror(factor.T, part.start, part.stop), parts)
    return factor


def inverted(A, team=ALONE):
    """The inverse of a symmetric matrix and the logarithm of its determinant, or None.

    With few rows it is computed from two halves: matrix products are three times as fast as LAPACK.
    """
    in_halves = _LEAF < len(A) <= _WHOLE
    if not in_halves:
        factor = np.array(A, order="F") if len(A) <= _LEAF else _copied(A, team)
        failed = factored(factor, team)
        size = np.diagonal(factor).astype(np.float64)
        if failed or not np.isfinite(size).all():
            return None
        return _invert(factor, team).T, 2.0 * np.log(size).sum()
    half = len(A) // 2
    if (first := inverted(A[:half, :half])) is None:
        return None
    T = A[half:, :half] @ first[0]
    # The Schur complement of the first half.
    if (second := inverted(A[half:, half:] - T @ A[:half, half:])) is None:
        return None
    out = np.empty_like(A)
    below = second[0] @ T
    out[:half, :half] = first[0] + T.T @ below
    out[half:, half:] = second[0]
    out[half:, :half] = -below
    out[:half, half:] = -below.T
    return out, first[1] + second[1]
