"""Distances of all pairs of rows, and what decays with them."""

import numpy as np
from scipy import sparse

from tunefree._jit import REASSOCIATE, fast_exp, fast_exp32, kernel


# In place: with a second array the compiler would have to expect that the two overlap, and a call
# in place would run one number at a time, fourteen times slower.
@kernel
def _decay32(values, gamma):
    gamma, lowest = np.float32(-gamma), np.float32(-87.0)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[i, j] = fast_exp32(max(gamma * values[i, j], lowest))


@kernel
def _decay64(values, gamma):
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[i, j] = fast_exp(max(-gamma * values[i, j], -700.0))


@kernel
def _to_squares(products, left, right):
    """Inner products become squared distances; rounding does not make them negative."""
    zero = products.dtype.type(0.0)
    for i in range(products.shape[0]):
        a = left[i]
        for j in range(products.shape[1]):
            p = products[i, j]
            products[i, j] = max(a + right[j] - (p + p), zero)


def inner(A, B, out=None):
    """Inner products of all pairs of rows as an array, for arrays written to `out`."""
    if out is not None and not sparse.issparse(A) and not sparse.issparse(B):
        return np.matmul(A, B.T, out=out)
    products = A @ B.T
    return products.toarray() if sparse.issparse(products) else np.asarray(products)


def squared_norms(A):
    """The squared length of each row."""
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def squared_distances(A, B, left=None, right=None, out=None):
    """Squared Euclidean distances of all pairs of rows, by one matrix product.

    Rows far from the origin lose digits: centre them first.

    Parameters
    ----------
    A : ndarray or CSR of shape (n, d)
    B : ndarray or CSR of shape (m, d)
    left, right : ndarray of shape (n,) and (m,), optional
        Squared norms of the rows, if known.
    out : ndarray of shape (n, m), optional
        Memory for the result: new pages cost more than the work on a few columns. Unused if A or B
        is sparse.

    Returns
    -------
    ndarray of shape (n, m)
    """
    out = inner(A, B, out)
    left = squared_norms(A) if left is None else left
    right = squared_norms(B) if right is None else right
    _to_squares(out, left.astype(out.dtype, copy=False), right.astype(out.dtype, copy=False))
    return out


@kernel(fastmath=REASSOCIATE)
def _manhattan(A, B, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total = A.dtype.type(0.0)
            for c in range(A.shape[1]):
                total += abs(A[i, c] - B[j, c])
            out[i, j] = total


def manhattan_distances(A, B, out=None):
    """Sums of absolute differences of all pairs of rows of arrays, written to `out`."""
    A, B = np.ascontiguousarray(A), np.ascontiguousarray(B)
    out = np.empty((len(A), len(B)), A.dtype) if out is None else out
    _manhattan(A, B, out)
    return out


def decay(distances, gamma, out=None):
    """Exp(-gamma distances); values below 1e-37 are not told apart.

    Parameters
    ----------
    distances : ndarray of shape (n, m)
    gamma : float
    out : ndarray of shape (n, m), optional
        May be `distances` itself.
    """
    if out is None:
        out = distances.copy()
    elif out is not distances:
        out[:] = distances
    (_decay32 if out.dtype == np.float32 else _decay64)(out, gamma)
    return out


@kernel
def _gather(table, rows, out):
    for i in range(out.shape[0]):
        r = rows[i]
        for j in range(out.shape[1]):
            out[i, j] = table[r, j]


def gather(table, rows, out):
    """The first columns of some rows, as many as `out` has; NumPy's take would copy the table."""
    _gather(table, rows, out)
    return out
