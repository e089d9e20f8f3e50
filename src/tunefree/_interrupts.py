"""Ctrl-C comes out as `KeyboardInterrupt`, wherever it strikes."""

from contextlib import contextmanager


@contextmanager
def interruptible():
    """Raise `KeyboardInterrupt` for what it became on its way out of compiled code.

    A signal that is handled while Numba calls back into Python (it does so at the first call of a
    kernel) comes out as a `SystemError` that has the `KeyboardInterrupt` among its causes.

    Raises
    ------
    KeyboardInterrupt
        If one is behind a `SystemError`; any other error passes as it is.
    """
    try:
        yield
    except SystemError as error:
        cause = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise KeyboardInterrupt from error
