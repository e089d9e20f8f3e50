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
from contextlib import contextmanager, suppress
from contextvars import ContextVar
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

    def __init__(self, pool=None, size=1):
        self._pool, self._size, self._local = pool, size, threading.local()

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
        return list(self._pool.map(_sent(function), items))

    def each(self, function, items):
        """Yield results in the order of the items, of which only a few wait at a time."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            yield from map(function, items)
            return
        waiting, function = deque(), _sent(function)
        for item in items:
            waiting.append(self._pool.submit(function, item))
            if len(waiting) > self._size:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


ALONE = Workers()
# The team of the stretch of work that a thread is in; its own threads have none.
_TEAM: Any = ContextVar("team", default=ALONE)


def team():
    """The workers of the stretch of work that the calling thread is in, or itself alone."""
    return _TEAM.get()


def _sent(function):
    """The function for a pool's threads, to which rounding is as well known as to the caller."""
    function, told = in_threads(function), np.geterr()

    def aloud(item):
        with np.errstate(**told):
            return function(item)

    return aloud


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
    n = n_threads(n_jobs)
    with one_blas_thread():
        if n == 1:
            with _leading(Workers()) as found:
                yield found
            return
        cores = sorted(getattr(os, "sched_getaffinity", lambda _: ())(0))
        cores = iter(cores if n == len(cores) else ())  # fewer threads than cores go where they can
        with ThreadPoolExecutor(n, "tunefree", _settle, (cores,)) as pool:
            with _leading(Workers(pool, n)) as found:
                yield found
