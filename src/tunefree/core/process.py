"""What a fit needs of its process: threads, one BLAS thread in each, memory, signals.

NumPy and SciPy each have their own BLAS. The threads of each wait for the next product in a busy
loop, and slow down those of the other. Fits call both alternately, thousands of times on a few
hundred rows: above all the eigendecompositions, Cholesky factors and `dsyrk` sums of
`kernels.evidence` and `kernels.nystroem`, then the small products of distances and of a portfolio's
views. Several threads also add in another order, which changes last digits and choices that depend
on them. So fits and predictions use one BLAS thread. Where threads help, they split the rows into
blocks of a fixed size (`workers`): results do not depend on the number of threads.

`Workers` map functions over such blocks. Results of blocks are joined in their order. Functions get
workers as an argument, or, deep in the call stack, from `team`: the workers of the current task.

Ctrl-C raises `KeyboardInterrupt`, even while a kernel is compiled.
"""

import _thread
import ctypes
import math
import os
import signal
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any

SIGNALS = signal.SIGINT, signal.SIGTERM
# Exceptions are lost or replaced where C code calls Python, as the compiler often does, and weak
# references to deleted objects.
_NO_SIGNALS = "numba", "llvmlite", "weakref"
_RETRY = 0.01  # seconds until a delayed signal is sent again
# Multiply-adds below which OpenBLAS never uses a second thread (9,216 for a matrix and a vector).
_SMALL = 8192
# Tasks of each thread in a map over many items: their number balances the threads.
_TASKS = 4
# The number of BLAS threads belongs to the process; for an OpenBLAS on OpenMP, to each thread. The
# numbers to restore: when the last of our threads leaves (_before), and when each leaves (_inside).
_lock, _before, _inside = threading.RLock(), [], {}


@contextmanager
def one_blas_thread():
    """Limit BLAS to one thread of its own; also a decorator, ``@one_blas_thread()``.

    The first thread to enter sets the limit, and the last one to leave restores the old number. A
    thread that is already inside enters and leaves at no cost.
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
        except BaseException:  # Ctrl-C at this moment
            _leave(me)
            raise


def in_threads(function):
    """The function for the threads of a pool, where BLAS needs a limit for each thread."""
    return one_blas_thread()(function) if _libraries()[1] else function


def product(A, B):
    """A @ B on one BLAS thread; for small products, which use one anyway, without the limit."""
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

    From version 3.8 on, threadpoolctl lets only the first thread set the number of an OpenBLAS, and
    ignores others. Here any thread may leave last: each takes over this control, and releases it.
    """
    for library, n in numbers:
        clear_control = getattr(library, "clear_controlling_thread", lambda force: None)
        clear_control(force=True)
        library.set_num_threads(n)
        clear_control(force=True)


@cache
def _libraries():
    """The loaded BLAS libraries: with a number of threads of the process, and of each thread.

    The search takes milliseconds: it is done once, after SciPy's BLAS is loaded. No other module
    used here has one.
    """
    import_module("scipy.linalg")
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [
        library
        for library in found
        if getattr(library, "threading_layer", "") == "openmp"
        and hasattr(library, "clear_controlling_thread")  # before 3.8 one number was set for all
    ]
    return [library for library in found if library not in own], own


def _in_child():
    """In the child of a fork only the thread that forked exists."""
    for other in set(_inside) - {threading.get_ident()}:
        del _inside[other]
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child
    )


@contextmanager
def interruptible():
    """Delay the handlers of signals while the compiler runs.

    If a handler raises while Numba compiles or loads a kernel, its exception may be lost, or become
    a compiler error. In this context SIGINT and, where it has a handler, SIGTERM that arrive then
    are sent again a little later. Threads other than the main one get no signals, and nothing is
    changed in them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    delayed = {
        number: _DelayedHandler(old)
        for number, old in before.items()
        if callable(old) and not isinstance(old, _DelayedHandler)
    }
    for number, handler in delayed.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in delayed:
            signal.signal(number, before[number])


class _DelayedHandler:
    """A handler that calls another one, or sends the signal again if the compiler is running."""

    def __init__(self, handler):
        self.handler = handler

    def __call__(self, number, frame):
        if _loses_exceptions(frame):
            again = threading.Timer(_RETRY, _send_again, [number])
            again.daemon = True
            again.start()
        else:
            self.handler(number, frame)


def _send_again(number):
    if hasattr(signal, "pthread_kill"):  # also wakes a main thread that sleeps or waits
        main: Any = threading.main_thread().ident
        signal.pthread_kill(main, number)
    else:
        _thread.interrupt_main(number)


def _loses_exceptions(frame):
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _NO_SIGNALS:
            return True
        frame = frame.f_back
    return False


# Options of glibc's `mallopt`.
_TRIM = -1
_MMAP = -3
# Its default of `_MMAP`, and ours, in bytes.
_DEFAULT = 1 << 17
_THRESHOLD = 1 << 25


@contextmanager
def kept_memory():
    """Keep freed memory in the process; also a decorator, ``@kept_memory()``.

    Dask configures its workers to return freed memory to the system at once, from 64 kB on, and all
    blocks above 128 kB. Residuals and sums of blocks are then new pages each time. Measured on 400
    passes over 26,000 rows of 20 columns: 163,200 page faults instead of none, and 0.84 to 1.14
    seconds of the processor instead of 0.23 to 0.30. Without glibc nothing is changed.
    """
    libc, trim_threshold = _libc(), os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    if not trim_threshold.isdigit() or not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(_TRIM, 2 * _THRESHOLD)
    libc.mallopt(_MMAP, _THRESHOLD)
    try:
        yield
    finally:
        libc.mallopt(_TRIM, int(trim_threshold))
        libc.mallopt(_MMAP, _DEFAULT)
        libc.malloc_trim(0)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None) if os.name == "posix" else None


# The share of the available memory that a fit may use.
_SHARE = 0.75


def machine_memory():
    """Bytes that a fit may use: three quarters of the limit of the machine or the process."""
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
    """Refuse work that needs too much memory, before it starts.

    >>> check_memory(1e18, "A fit on 10 columns", "Take fewer.")
    Traceback (most recent call last):
        ...
    MemoryError: A fit on 10 columns takes about 1e+09 GB, more than is available. Take fewer.
    """
    if size > machine_memory():
        raise MemoryError(f"{what} takes about {amount(size)}, more than is available. {way_out}")


def amount(size):
    """Bytes as text.

    >>> amount(1.5e9), amount(3e4)
    ('1.5 GB', '0.03 MB')
    """
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def n_threads(n_jobs):
    """The number of threads for `n_jobs`; None and -1 mean all that the process may use."""
    import joblib  # not at the top, and neither is NumPy: the shell starts without them

    if n_jobs is None or n_jobs == -1:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        most = joblib.cpu_count()
        return min(most, int(limit)) if limit.isdigit() and int(limit) > 0 else most
    return max(1, joblib.effective_n_jobs(n_jobs))


class Workers:
    """Maps a function over tiles, in threads; matrix products inside use one thread each."""

    def __init__(self, pool=None, size=1):
        self._pool, self._size, self._local = pool, size, threading.local()

    def memory(self, shape, dtype, use="tile"):
        """Reused memory of the calling thread: new pages cost more than the work on them."""
        import numpy as np

        buffers = self._local.__dict__
        size = math.prod(shape) * dtype.itemsize
        if use not in buffers or buffers[use].size < size:
            buffers[use] = np.empty(size, np.uint8)
        return buffers[use][:size].view(dtype).reshape(shape)

    def map(self, function, items):
        """Results in the order of the items."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            return [function(item) for item in items]
        # A task costs about 0.1 ms: many small items are a few tasks.
        step = max(1, len(items) // (_TASKS * self._size))
        tasks = [items[i : i + step] for i in range(0, len(items), step)]
        run = self._for_pool(lambda task: [function(item) for item in task])
        return [result for results in self._pool.map(run, tasks) for result in results]

    def each(self, function, items, ahead=1):
        """Yield results in the order of the items, with only a few waiting for each thread."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            yield from map(function, items)
            return
        waiting, function = deque(), self._for_pool(function)
        for item in items:
            waiting.append(self._pool.submit(function, item))
            if len(waiting) > ahead * self._size:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _for_pool(self, function):
        """The function for the pool's threads, with the caller's handling of rounding errors."""
        import numpy as np

        function, error_handling = in_threads(function), np.geterr()

        def in_pool(item):
            with np.errstate(**error_handling):
                return function(item)

        return in_pool


ALONE, _IN_POOL = Workers(), Workers()
# The workers of a thread's current task; each thread of a pool works alone.
_TEAM: Any = ContextVar("team", default=ALONE)


def team():
    """The workers of the calling thread's current task; without one, the thread alone."""
    return _TEAM.get()


def _settle(cores):
    """Bind the calling thread of a pool to the next of some cores, if there are any.

    Else the system may keep threads that often sleep on the core of the thread that wakes them: on
    two idle cores fits of a stack (12,000 rows) and of kernels (800) took 4 and 5 % longer.
    """
    _TEAM.set(_IN_POOL)
    with suppress(OSError, StopIteration):
        os.sched_setaffinity(0, {next(cores)})


@contextmanager
def _as_team(crew):
    token = _TEAM.set(crew)
    try:
        yield crew
    finally:
        _TEAM.reset(token)


@contextmanager
def workers(n_jobs, most=2):
    """Threads for a task; the calling thread for one block of rows, and in a thread of a pool."""
    in_pool = team() is _IN_POOL
    n = 1 if in_pool or most <= 1 else min(n_threads(n_jobs), os.cpu_count() or 1)
    with one_blas_thread():
        if n == 1:
            with _as_team(_IN_POOL if in_pool else Workers()) as crew:
                yield crew
            return
        cores = sorted(getattr(os, "sched_getaffinity", lambda _: ())(0))
        settled = n == len(cores)  # fewer threads than cores are not bound
        with ThreadPoolExecutor(n, "tunefree", _settle, (iter(cores if settled else ()),)) as pool:
            with _as_team(Workers(pool, n)) as crew:
                yield crew
