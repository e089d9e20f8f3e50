"""What a fit does to the process: one BLAS thread, memory, and signals that wait for the compiler.

What spins: NumPy and SciPy each bring a BLAS of their own, and each keeps threads that wait for the
next product by turning on the spot, in the way of the other's. Fits call them by turns, thousands
of times on a few hundred rows: the eigendecompositions, Cholesky factors and `dsyrk` sums of
`learners.kernel.geometry` and `nystroem` above all, then the small products of distances and of a
portfolio's views. More threads also add in another order, and so change last digits and what is
chosen by them.
Fits and predictions therefore use one, and where threads pay they split the rows into blocks of a
fixed size (`_threads.workers`): results do not depend on how many threads there are.

Ctrl-C comes out as `KeyboardInterrupt`, even if it strikes while a kernel is compiled.
"""

import _thread
import ctypes
import os
import signal
import threading
from contextlib import contextmanager
from functools import cache
from typing import Any

SIGNALS = signal.SIGINT, signal.SIGTERM
# Where Python calls back from C, exceptions are dropped or become others: the compiler does so all
# the time, and references to what is gone.
_DEAF = "numba", "llvmlite", "weakref"
_RETRY = 0.01  # seconds
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


def in_threads(function):
    """The function for a pool's threads, whose owner has limited BLAS for all but their own."""
    return one_blas_thread()(function) if _libraries()[1] else function


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


@contextmanager
def interruptible():
    """Let the handlers of signals wait until the compiler is done.

    A handler that raises while Numba compiles or loads a kernel may be ignored, or come out as an
    error of the compiler. Within this context SIGINT and, where it has a handler, SIGTERM are
    handled as before, but not in such moments: then they are sent again a little later. Threads
    other than the main one get no signals, and nothing is changed in them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    ours = {number: _Patient(old) for number, old in before.items()
            if callable(old) and not isinstance(old, _Patient)}  # fmt: skip
    for number, handler in ours.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


class _Patient:
    """A handler that calls another one, unless the compiler is at work."""

    def __init__(self, handler):
        self.handler = handler

    def __call__(self, number, frame):
        if _is_deaf(frame):
            again = threading.Timer(_RETRY, _send_again, [number])
            again.daemon = True
            again.start()
        else:
            self.handler(number, frame)


def _send_again(number):
    if hasattr(signal, "pthread_kill"):  # wakes a main thread that sleeps or waits, too
        main: Any = threading.main_thread().ident
        signal.pthread_kill(main, number)
    else:
        _thread.interrupt_main(number)


def _is_deaf(frame):
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _DEAF:
            return True
        frame = frame.f_back
    return False


# Numbers of glibc's `mallopt`, with what Dask gives its workers and the defaults, and ours.
_TRIM, _MMAP, _DEFAULT, _KEPT = -1, -3, 1 << 17, 1 << 25


@contextmanager
def kept_memory():
    """Let freed memory stay at hand within; also a decorator, ``@kept_memory()``.

    Dask tells its workers to give every 64 kB back to the system at once, and with that all that is
    larger than 128 kB: blocks' residuals and sums are then new pages each time, which takes three
    times as long as the work on them. Without glibc nothing is changed.
    """
    libc, told = _libc(), os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    if not told.isdigit() or not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(_TRIM, 2 * _KEPT)
    libc.mallopt(_MMAP, _KEPT)
    try:
        yield
    finally:
        libc.mallopt(_TRIM, int(told))
        libc.mallopt(_MMAP, _DEFAULT)
        libc.malloc_trim(0)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None) if os.name == "posix" else None


# The share of what the process may have that a fit may take.
_SHARE = 0.75


def machine_memory():
    """Bytes that a fit may take: three quarters of the machine's or the process's limit."""
    try:
        size = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                size = min(size, float(file.read()))
        except (OSError, ValueError):  # no container, or "max"
            continue
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return _SHARE * (size if soft == resource.RLIM_INFINITY else min(size, soft))


def check_memory(size, what, way_out):
    """Refuse, before work starts, what takes more bytes than there are.

    >>> check_memory(1e18, "A fit on 10 columns", "Take fewer.")
    Traceback (most recent call last):
        ...
    MemoryError: A fit on 10 columns takes about 1e+09 GB, more than there is. Take fewer.
    """
    if size > machine_memory():
        raise MemoryError(f"{what} takes about {amount(size)}, more than there is. {way_out}")


def amount(size):
    """Bytes as text.

    >>> amount(1.5e9), amount(3e4)
    ('1.5 GB', '0.03 MB')
    """
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
