"""SciPy's BLAS and LAPACK without Python's lock (GIL), so that several threads compute at once.

SciPy's own wrappers hold the lock while they compute. These call the same routines of the same
library, with the same bits. (NumPy releases the lock itself.) Matrices are in Fortran order, all in
single or all in double precision.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

_get: Any = ctypes.pythonapi.PyCapsule_GetPointer
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_name: Any = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]


@cache
def _routine(name, count) -> Any:
    table: Any = cython_lapack if name in cython_lapack.__pyx_capi__ else cython_blas
    capsule = table.__pyx_capi__[name]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)
    return kind(_get(capsule, _name(capsule)))


def _call(name, *arguments):
    """Call a routine of the arrays' type; text becomes characters, numbers are by reference."""
    single = next(a for a in arguments if isinstance(a, np.ndarray)).dtype == np.float32
    real, passed = ctypes.c_float if single else ctypes.c_double, []
    for value in arguments:
        if isinstance(value, np.ndarray):
            passed.append(ctypes.c_void_p(value.ctypes.data))
        elif isinstance(value, str):
            passed.append(ctypes.cast(ctypes.c_char_p(value.encode()), ctypes.c_void_p))
        elif isinstance(value, ctypes.c_int):
            passed.append(ctypes.addressof(value))
        else:
            value = real(value) if isinstance(value, float) else ctypes.c_int(value)
            passed.append(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p))
    _routine(("s" if single else "d") + name, len(arguments))(*passed)


def trmm(upper, F):
    """F becomes upper' F."""
    m, n = F.shape
    _call("trmm", "L", "U", "T", "N", m, n, 1.0, upper, len(upper), F, m)
    return F


def syrk(F, sums):
    """Add the upper triangle of F F'."""
    F = np.asfortranarray(F)
    m, n = F.shape
    _call("syrk", "U", "N", m, n, 1.0, F, max(m, 1), 1.0, sums, max(m, 1))
    return sums


def _stride(A):
    """The distance of the columns of a block in memory (the leading dimension)."""
    return max(A.strides[1] // A.itemsize, len(A), 1)


def trsm(lower, B, left=False):
    """B becomes B L^-T or, from the left, L^-1 B."""
    side = ("L", "L", "N") if left else ("R", "L", "T")
    _call("trsm", *side, "N", *B.shape, 1.0, lower, _stride(lower), B, _stride(B))


def gemm(A, B, C):
    """Subtract A B'."""
    shape, factors = (*C.shape, A.shape[1]), (A, _stride(A), B, _stride(B))
    _call("gemm", "N", "T", *shape, -1.0, *factors, 1.0, C, _stride(C))


def potrf(A):
    """A becomes the lower Cholesky factor (the upper part stays); return the info of LAPACK."""
    info = ctypes.c_int(0)
    _call("potrf", "L", len(A), A, _stride(A), info)
    return info.value


def potri(factor):
    """The lower Cholesky factor becomes the lower triangle of the inverse."""
    _call("potri", "L", len(factor), factor, max(len(factor), 1), ctypes.c_int(0))
    return factor


def potrs(factor, B):
    """The solution of A X = B, by the lower Cholesky factor of A."""
    X = np.array(B, dtype=factor.dtype, order="F")
    n = len(factor)
    _call("potrs", "L", n, X.shape[1], factor, max(n, 1), X, max(n, 1), ctypes.c_int(0))
    return X


def eigh(A):
    """`numpy.linalg.eigh` in double precision, in the memory of A and of two more such matrices.

    The lower triangle of A is read; A is overwritten.
    """
    n, info = len(A), ctypes.c_int(0)
    values, work = np.empty(n), np.empty(1 + 6 * n + 2 * n * n)
    integers = np.empty(3 + 5 * n, np.intc)
    memory = work, len(work), integers, len(integers)
    _call("syevd", "V", "L", n, A, max(n, 1), values, *memory, info)
    if info.value:
        raise np.linalg.LinAlgError("The eigenvalues did not converge.")
    del work, memory
    return values, np.ascontiguousarray(A)
