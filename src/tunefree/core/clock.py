"""The time that a task has; compiling does not count.

Learners that improve step by step ask `clock` between steps how much time is left, and end with
what they have. Without a limit of time the answer is infinity. Only the thread that set a clock
sees it: work in threads of a pool is not cut short.
"""

import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

now = time.perf_counter
# How long kernels were compiled or loaded in this process, and since when one is: several threads
# that wait for the compiler wait once.
_lock = threading.Lock()
_total = 0.0
_since = 0.0
_running = 0


@contextmanager
def compiling():
    """The time in this context is that of the compiler."""
    global _total, _since, _running
    with _lock:
        if not _running:
            _since = now()
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                _total += now() - _since


def is_compiling():
    """Whether a kernel is compiled or loaded, in any thread."""
    return _running > 0


def seconds_of_compiler():
    """Seconds in which kernels were compiled or loaded, in any thread."""
    with _lock:
        return _total + (now() - _since if _running else 0.0)


class Clock:
    """Counts the time of a task from its creation on, without that of the compiler.

    Parameters
    ----------
    seconds : float
        The time that the task has.
    kept : object, optional
        What the task kept when it was cut short: it goes on from there.

    Examples
    --------
    >>> Clock(60.0).left() > 59.0
    True
    """

    def __init__(self, seconds=float("inf"), kept: Any = None):
        self.seconds = seconds
        self.cut: int | None = None  # the limit at which the task ended for want of time
        self.kept: Any = None  # what it goes on from with more time
        self._before = kept
        self._start = now() - seconds_of_compiler()

    def spent(self):
        """Seconds since the start."""
        return now() - seconds_of_compiler() - self._start

    def left(self):
        """Seconds to go; negative if the time is over."""
        return self.seconds - self.spent()

    def share(self):
        """The share of the time that has passed."""
        return self.spent() / self.seconds

    def cut_at(self, limit):
        """Note that the task ends here, with so many rounds or landmarks, since time is short."""
        self.cut = int(limit)

    def kept_before(self):
        """What the task kept when it was cut short before, once; or None."""
        before, self._before = self._before, None
        return before


_CLOCK: ContextVar[Clock] = ContextVar("clock")
_ENDLESS = Clock()


def clock():
    """The clock of the calling thread's task; without one it never ends."""
    return _CLOCK.get(_ENDLESS)


@contextmanager
def limited(seconds, kept=None):
    """Give the task in this context so many seconds; yields its `Clock`.

    It goes on from what was `kept` when it was cut short.
    """
    own = Clock(seconds, kept)
    token = _CLOCK.set(own)
    try:
        yield own
    finally:
        _CLOCK.reset(token)
