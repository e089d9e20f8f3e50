"""Threads of a stretch of work: a team maps functions over blocks of rows of a fixed size.

What blocks find is joined in their order, so that results do not depend on how many threads there
are. Matrix products inside use one thread each. What a team is for is handed it, or, far below,
asks for the `team` of the stretch of work that it is part of.
"""

import math
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import joblib
import numpy as np

from tunefree._process import in_threads, one_blas_thread


def n_threads(n_jobs):
    """How many threads `n_jobs` means; None and -1 are all that the process may use."""
    if n_jobs is None or n_jobs == -1:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        most = joblib.cpu_count()
        return min(most, int(limit)) if limit.isdigit() and int(limit) > 0 else most
    return max(1, joblib.effective_n_jobs(n_jobs))


class Workers:
    """Maps a function over tiles, in threads; matrix products inside use one thread each."""

    def __init__(self, pool=None, size=1, cores=None):
        self._pool, self._size, self._local = pool, size, threading.local()
        self._cores: Any = cores or nullcontext()

    def memory(self, shape, dtype, use="tile"):
        """Memory of the calling thread for a use: new pages cost more than the work on them."""
        held = self._local.__dict__
        size = math.prod(shape) * dtype.itemsize
        if use not in held or held[use].size < size:
            held[use] = np.empty(size, np.uint8)
        return held[use][:size].view(dtype).reshape(shape)

    def map(self, function, items):
        """Results in the order of the items."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self._pool.map(self._sent(function), items))

    def each(self, function, items, ahead=1):
        """Yield results in the order of the items, of which only a few a thread wait at a time."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            yield from map(function, items)
            return
        waiting, function = deque(), self._sent(function)
        for item in items:
            waiting.append(self._pool.submit(function, item))
            if len(waiting) > ahead * self._size:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _sent(self, function):
        """The function for the pool's threads, which hear of rounding what the caller would."""
        function, told = in_threads(function), np.geterr()

        def begun(item):
            with self._cores, np.errstate(**told):
                return function(item)

        return begun


ALONE = Workers()
# The team of the stretch of work that a thread is in; its own threads have none.
_TEAM: Any = ContextVar("team", default=ALONE)
# Of work beside other work: threads at most, and the cores that these have to wait for.
_SHARE: Any = ContextVar("share", default=(None, None))


def team():
    """The workers of the stretch of work that the calling thread is in, or itself alone."""
    return _TEAM.get()


def _settle(cores):
    """Keep the calling thread on the next of some cores, if there are any.

    The system may leave threads that sleep a lot on the core of the one that wakes them.
    """
    with suppress(OSError, StopIteration):
        os.sched_setaffinity(0, {next(cores)})


@contextmanager
def _leading(found):
    token = _TEAM.set(found)
    try:
        yield found
    finally:
        _TEAM.reset(token)


@contextmanager
def workers(n_jobs):
    """Threads for a stretch of work."""
    most, free = _SHARE.get()
    n = min(n_threads(n_jobs), most or os.cpu_count() or 1)
    with one_blas_thread():
        if n == 1:
            with _leading(Workers()) as found:
                yield found
            return
        cores = sorted(getattr(os, "sched_getaffinity", lambda _: ())(0))
        settled = free is None and n == len(cores)  # fewer threads than cores go where they can
        with ThreadPoolExecutor(n, "tunefree", _settle, (iter(cores if settled else ()),)) as pool:
            with _leading(Workers(pool, n, free)) as found:
                yield found


def side_by_side(works, n_jobs) -> list[Any]:
    """Functions without arguments as ones that run at once, in threads that the caller has.

    Each has its part of the cores, and the last also those that the others leave as they end.
    """
    n = n_threads(n_jobs)
    own, free = max(1, n // len(works)), threading.Semaphore(n)

    def begun(i):
        last = i + 1 == len(works)
        _SHARE.set((n, free) if last else (own, None))
        with ExitStack() as held:
            for _ in range(0 if last else own):
                held.enter_context(free)
            return works[i]()

    return [partial(copy_context().run, begun, i) for i in range(len(works))]
