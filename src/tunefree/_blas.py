"""SciPy's BLAS and LAPACK without Python's lock, so that several threads compute at once.

SciPy's own wrappers hold the lock while they compute; these call the same routines of the same
library, with the same bits. (NumPy lets go of the lock by itself.) Matrices are in Fortran order
and of one type of float, single or double.
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


def _call(name, *given):
    """Call a routine of the arrays' type: text is letters, numbers are by reference."""
    single = next(a for a in given if isinstance(a, np.ndarray)).dtype == np.float32
    real, passed = ctypes.c_float if single else ctypes.c_double, []
    for value in given:
        if isinstance(value, np.ndarray):
            passed.append(ctypes.c_void_p(value.ctypes.data))
        elif isinstance(value, str):
            passed.append(ctypes.cast(ctypes.c_char_p(value.encode()), ctypes.c_void_p))
        elif isinstance(value, ctypes.c_int):
            passed.append(ctypes.addressof(value))
        else:
            value = real(value) if isinstance(value, float) else ctypes.c_int(value)
            passed.append(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p))
    _routine(("s" if single else "d") + name, len(given))(*passed)


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


def potrf(A):
    """A becomes the lower Cholesky factor, above which it stays; gives what LAPACK says of it."""
    info = ctypes.c_int(0)
    _call("potrf", "L", len(A), A, max(len(A), 1), info)
    return info.value


def potri(factor):
    """The lower Cholesky factor becomes the lower triangle of the inverse."""
    _call("potri", "L", len(factor), factor, max(len(factor), 1), ctypes.c_int(0))
    return factor


def trtri(factor):
    """The lower Cholesky factor becomes its inverse; what is above stays."""
    _call("trtri", "L", "N", len(factor), factor, max(len(factor), 1), ctypes.c_int(0))
    return factor


def potrs(factor, B):
    """The solution of A X = B, by the lower Cholesky factor of A."""
    X, n = np.array(B, dtype=factor.dtype, order="F"), len(factor)
    _call("potrs", "L", n, X.shape[1], factor, max(n, 1), X, max(n, 1), ctypes.c_int(0))
    return X
