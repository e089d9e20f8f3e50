"""Progress of long work: one line on a terminal, plain lines elsewhere, and the logger `tunefree`.

Work names what it does by `task`, and how far it is by `Job.at` or `Job.advance`. These only set
numbers: a thread shows them, where someone has asked for it by `shown`. Else nothing is shown and
no thread runs. Threads of a pool show nothing. Nothing is written to stdout.
"""

import logging
import shutil
import sys
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tunefree.core.clock import is_compiling
from tunefree.core.format import duration, number

LOGGER = logging.getLogger("tunefree")
# Seconds between two looks of the thread, and between two plain lines.
_TICK, _EVERY = 0.5, 30.0
# Times and shares before this many seconds say little.
_FIRST = 2.0
_ERASE = "\r\x1b[2K"
_COMPILING = "compiling to machine code, once"


class Job:
    """What is done, and how far it is.

    Parameters
    ----------
    what : str
    unit : str
        Of what is counted, such as 'rows'; '' if nothing is.
    total : float or None
        How much there is to do, in this unit; None if that is unknown.

    Attributes
    ----------
    is_shown : bool
        Whether someone asked: numbers that cost something are not counted if not.
    """

    def __init__(self, what, unit="", total=None):
        self.what, self.unit, self.total = what, unit, total
        self.done, self.share = 0, None
        self.is_shown = False
        self.start = time.perf_counter()

    def advance(self, n=1):
        """So much more is done."""
        self.done += n

    def at(self, done, share=None):
        """So much is done, which is this share of the work, if that is known otherwise."""
        self.done, self.share = done, share

    def words(self, now):
        """How far it is: what is done, percent, speed, and the time left.

        >>> task = Job("reading", "rows", 2000)
        >>> task.advance(500)
        >>> task.words(task.start + 5.0)
        'reading: 500 rows, 25 %, 100 rows a second, 15 s left'
        """
        passed = now - self.start
        if not self.done:
            return f"{self.what}, {duration(passed)}" if passed > _FIRST else self.what
        share = self.share
        if share is None and self.total:
            share = self.done / self.total
        words = [f"{self.what}: {number(int(self.done))} {self.unit}"]
        if share is not None:
            words.append(f"{min(share, 1.0):.0%}".replace("%", " %"))
        if passed > _FIRST:
            words.append(f"{number(round(self.done / passed))} {self.unit} a second")
            if share:
                words.append(f"{duration(passed * max(1.0 / share - 1.0, 0.0))} left")
        return ", ".join(words)


def parts_of(tasks, now):
    """The words of tasks, the one within the other.

    >>> outer, inner = Job("candidate 2 of 3, boosted trees"), Job("boosted trees", "rounds", 200)
    >>> inner.advance(100)
    >>> parts_of([outer, inner], inner.start + 1.0)
    ['candidate 2 of 3', 'boosted trees: 100 rounds, 50 %']
    """
    found = [task.what for task in tasks[:-1]]
    for i, inner in enumerate(tasks[1:]):  # none is named twice
        found[i] = found[i].removesuffix(f", {inner.what}")
    return [*found, tasks[-1].words(now)]


def within(parts, width):
    """The last parts, as many as there is room for.

    >>> within(["training", "trees", "100 rounds"], 20)
    'trees: 100 rounds'
    """
    while len(parts) > 1 and len(": ".join(parts)) > width:
        parts = parts[1:]
    return ": ".join(parts)[:width]


class Screen:
    """Shows tasks, the one within the other, until it is closed.

    Parameters
    ----------
    stream : file or None
        Where they are shown; None for the logger only.
    is_terminal : bool
        One line that changes, or a line every 30 seconds.
    announces : bool
        Whether a line notes at once that kernels are compiled.
    """

    def __init__(self, stream, is_terminal, announces=True):
        self.tasks: list[Job] = []
        self._stream, self._is_terminal, self._announces = stream, is_terminal, announces
        self._lock, self._over = threading.Lock(), threading.Event()
        self._last = time.perf_counter()
        self._is_drawn = False

    def start(self):
        """Begin to show."""
        threading.Thread(target=self._run, name="tunefree progress", daemon=True).start()

    def close(self):
        """Show nothing more."""
        self._over.set()
        self.clear()

    def clear(self):
        """Erase the line, before something else is written."""
        with self._lock:
            if self._is_drawn:
                self._write(_ERASE)
                self._is_drawn = False

    def _run(self):
        while not self._over.wait(_TICK):
            self.tick(time.perf_counter())

    def tick(self, now):
        """Show how far the tasks are, if it is time to."""
        tasks = list(self.tasks)
        if not tasks:
            return
        parts, compiles = parts_of(tasks, now), is_compiling()
        if compiles:
            parts[-1] = f"{parts[-1]}; {_COMPILING}"
        if self._is_terminal:
            self._draw(parts)
        words = ": ".join(parts)
        is_news = compiles and self._announces
        if is_news or now - self._last >= _EVERY:
            self._announces &= not is_news
            self._last = now
            LOGGER.info(words)
            if self._stream is not None and not self._is_terminal:
                with self._lock:
                    self._write(words + "\n")

    def _draw(self, parts):
        width = shutil.get_terminal_size().columns - 1
        words = within(parts, width)
        with self._lock:
            if not self._over.is_set():
                self._write(_ERASE + words)
                self._is_drawn = True

    def _write(self, text):
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # it is closed
            self._over.set()


_DISPLAY: ContextVar[Screen | None] = ContextVar("display", default=None)
_OPEN: list[Screen] = []


@contextmanager
def shown(what, on_stderr=True, announces=True):
    """Show a task and those within it: on stderr, and in the logger `tunefree` (level INFO).

    Within another such context it is one more task.
    """
    logs = LOGGER.isEnabledFor(logging.INFO) and LOGGER.hasHandlers()
    if _DISPLAY.get() is not None or not (on_stderr or logs):
        with task(what):
            yield
        return
    stream: Any = sys.stderr if on_stderr else None
    display = Screen(stream, on_stderr and stream.isatty(), announces)
    token = _DISPLAY.set(display)
    _OPEN.append(display)
    try:
        with task(what):
            display.start()
            yield
    finally:
        _DISPLAY.reset(token)
        _OPEN.remove(display)
        display.close()


@contextmanager
def task(what, unit="", total=None):
    """A `Job` in what is shown; it costs nothing else where nothing is."""
    own, display = Job(what, unit, total), _DISPLAY.get()
    if display is None:
        yield own
        return
    own.is_shown = True
    display.tasks.append(own)
    try:
        yield own
    finally:
        display.tasks.remove(own)


def clear():
    """Erase the line on the terminal, before something else is written there."""
    for display in list(_OPEN):
        display.clear()
