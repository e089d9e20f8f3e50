"""Threads of a task: `Workers` map functions over blocks of rows of a fixed size.

The results of blocks are joined in their order, so that they do not depend on the number of
threads. Matrix products inside use one thread each. Functions get workers as an argument, or, deep
in the call stack, from `team`: the workers of the current task.
"""

import math
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import joblib
import numpy as np

from tunefree._process import in_threads, one_blas_thread


def n_threads(n_jobs):
    """The number of threads for `n_jobs`; None and -1 mean all that the process may use."""
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
        return list(self._pool.map(self._for_pool(function), items))

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

    Else the system may keep threads that often sleep on the core of the thread that wakes them.
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
