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
# The number of threads belongs to the process, but for an OpenBLAS on OpenMP, where each thread has
# its own: what to restore when the last of our threads leaves, and what as each of them does.
_lock, _before, _inside = threading.RLock(), [], {}


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
        shared, own = _libraries()
        if not _before:
            _before.extend((library, library.get_num_threads()) for library in shared)
        if not _inside:
            _set((library, 1) for library, n in _before if n != 1)
        mine = _inside[me] = [(library, library.get_num_threads()) for library in own]
        _set((library, 1) for library, n in mine if n != 1)


def _leave(me):
    with _lock:
        _set(pair for pair in _inside.get(me, ()) if pair[1] != 1)
        _inside.pop(me, None)
        if not _inside:
            _set(pair for pair in _before if pair[1] != 1)
            _before.clear()


def _set(numbers):
    """Set each library's number of threads.

    From its version 3.8 on, threadpoolctl lets only the thread that was first set the number of an
    OpenBLAS, and ignores the others: what must not depend on who leaves last asks for its turn, and
    gives it back.
    """
    for library, n in numbers:
        take_turn = getattr(library, "clear_controlling_thread", lambda force: None)
        take_turn(force=True)
        library.set_num_threads(n)
        take_turn(force=True)


@cache
def _libraries():
    """The loaded BLAS libraries whose number belongs to the process, and to a thread.

    Looking for them takes milliseconds: it is done once, after SciPy's is loaded, too. No other
    module that is used here brings one.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [
        library for library in found
        if getattr(library, "threading_layer", "") == "openmp"
        and hasattr(library, "clear_controlling_thread")  # before 3.8 one number was set for all
    ]  # fmt: skip
    return [library for library in found if library not in own], own


def _in_child():
    """In the child of a fork only the thread that forked lives on."""
    for other in set(_inside) - {threading.get_ident()}:
        del _inside[other]
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child
    )
