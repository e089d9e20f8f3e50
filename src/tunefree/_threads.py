"""One BLAS thread while something is learned or predicted.

What spins: NumPy and SciPy each bring a BLAS of their own, and each keeps threads that wait for the
next product by turning on the spot, in the way of the other's. Fits call them by turns, thousands
of times on a few hundred rows: the eigendecompositions, Cholesky factors and `dsyrk` sums of
`learners.nystroem` above all, then the small products of `distances` and of the portfolio's views.
More threads also add in another order, and so change last digits and what is chosen by them.
Fits and predictions therefore use one, and where threads pay they split the rows into blocks of a
fixed size (`learners.support.workers`): results do not depend on how many threads there are.
"""

import os
import threading
from contextlib import contextmanager
from functools import cache

# Multiply-adds below which OpenBLAS never takes a second thread (9,216 for a matrix and a vector).
_SMALL = 8192
# The number of threads belongs to the process: threads of ours that are inside, and what to restore
# when the last one leaves.
_lock, _inside, _before = threading.RLock(), set(), []


@contextmanager
def one_blas_thread():
    """Limit BLAS to one thread of its own; also a decorator, ``@one_blas_thread()``.

    The first thread to enter sets the limit and the last one to leave restores what was there; a
    thread that is inside already enters and leaves at no cost.
    """
    me = threading.get_ident()
    if me in _inside:
        yield
        return
    try:
        _enter(me)
        yield
    finally:
        try:
            _leave(me)
        except BaseException:  # Ctrl-C at this very moment
            _leave(me)
            raise


def product(A, B):
    """A @ B on one BLAS thread; what BLAS does on one anyway does not pay for the limit."""
    if A.shape[0] * B.size < _SMALL:
        return A @ B
    with one_blas_thread():
        return A @ B


def _enter(me):
    with _lock:
        if not _before:
            _before.extend((library, library.get_num_threads()) for library in _libraries())
        if not _inside:
            for library, n in _before:
                if n != 1:
                    library.set_num_threads(1)
        _inside.add(me)


def _leave(me):
    with _lock:
        _inside.discard(me)
        if not _inside:
            for library, n in _before:
                if n != 1:
                    library.set_num_threads(n)
            _before.clear()


@cache
def _libraries():
    """The BLAS libraries that are loaded: looking for them takes milliseconds, so it is done once.

    After SciPy's is loaded, too; no other module that this library calls brings one.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _in_child():
    """In the child of a fork only the thread that forked lives on."""
    _inside.intersection_update([threading.get_ident()])
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child
    )
