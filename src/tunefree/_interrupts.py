"""Ctrl-C comes out as `KeyboardInterrupt`, even if it strikes while a kernel is compiled."""

import _thread
import signal
import threading
from contextlib import contextmanager

SIGNALS = signal.SIGINT, signal.SIGTERM
# Where Python calls back from C, exceptions are dropped or become others: the compiler does so all
# the time, and references to what is gone.
_DEAF = "numba", "llvmlite", "weakref"
_RETRY = 0.01  # seconds


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
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        _thread.interrupt_main(number)


def _is_deaf(frame):
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _DEAF:
            return True
        frame = frame.f_back
    return False
