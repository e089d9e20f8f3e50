"""Messages, spinners, exit codes, and the values of options.

Results go to stdout, all other text to stderr.
"""

import contextlib
import csv
import io
import os
import signal
import sys
import threading
import unicodedata
import warnings
from typing import NoReturn

import typer

from tunefree.core import progress
from tunefree.core.format import listed, words_on_address
from tunefree.core.process import interruptible
from tunefree.core.warn import NoEffect, did_you_mean

FAILED, USAGE, BAD_DATA, BAD_MODEL, DRIFT, INTERRUPTED = 1, 2, 3, 4, 5, 130


# Characters that reverse the direction of text.
_REVERSING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def shown(text):
    r"""Text with its control characters, which a terminal would obey, written as escapes.

    >>> shown("\x1b[31mred")
    '\\x1b[31mred'
    """

    def one(c):
        obeyed = unicodedata.category(c) == "Cc" and c not in "\n\t" or c in _REVERSING
        return c.encode("unicode_escape").decode() if obeyed else c

    return "".join(map(one, text))


def note(message):
    """Print a message on stderr."""
    progress.clear()
    typer.echo(shown(str(message)), err=True)


def answer(text):
    """Write a result, whole lines without the last newline, to stdout."""
    try:
        print(shown(text) if sys.stdout.isatty() else text, flush=True)
    except OSError as problem:
        _discard_output()
        if isinstance(problem, BrokenPipeError):
            raise
        stop(f"standard output: {problem.strerror}", FAILED)


def _discard_output():
    """Let Python drop what it could not write to stdout, in place of an error as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stop(message, code) -> NoReturn:
    """Print an error on stderr and exit with a code."""
    note(f"error: {message}")
    raise typer.Exit(code)


@contextlib.contextmanager
def outcomes():
    """Turn errors and warnings of a command into messages, and errors into exit codes."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        named: set[str] = set()
        warnings.showwarning = lambda message, *_, **__: _note_warning(message, named)
        try:
            with _terminated_like_interrupted(), interruptible():
                yield
        except KeyboardInterrupt:
            stop("interrupted; nothing was written", INTERRUPTED)
        except MemoryError as problem:
            stop(str(problem) or "not enough memory", FAILED)
        except BrokenPipeError:  # the reader of our output has closed it
            _discard_output()
            raise typer.Exit(FAILED) from None


def _note_warning(message, named):
    """Print a warning; of new levels once a column, since rows come in parts. `named` has those."""
    if type(message).__name__ != "UnknownLevels":  # whose module loads the numerics
        note(f"note: {message}")
        return
    new = [one for one in message.found if one.column not in named]
    if new:
        named.update(one.column for one in new)
        words = listed([f"{one.level!r:.40} in column {one.column!r}" for one in new])
        note(f"note: levels that the model does not know count as missing, such as {words}")


@contextlib.contextmanager
def _terminated_like_interrupted():
    """Treat SIGTERM like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def failing(code, path):
    """Give errors from reading or writing one file an exit code."""
    try:
        yield
    except BrokenPipeError:
        raise
    except NoEffect as problem:
        stop(f"{flag(problem.option)} {problem.words}", USAGE)
    except OSError as problem:
        stop(f"{path}: {problem.strerror or problem}", code)
    except ValueError as problem:
        stop(str(problem), code)


@contextlib.contextmanager
def working(what):
    """Show on stderr what is done, and how far it is: a line on a terminal, else now and then."""
    with progress.shown(what, announces=False):
        yield


def check_found(path, code):
    """Stop, before heavy imports, if a file does not exist (None: no file; -: standard input)."""
    if path in (None, "-"):
        return
    words = words_on_address(path)
    if words is not None:
        stop(f"{path}: {words}", code)
    with failing(code, path):
        os.stat(path)


def is_stdout(path):
    """Whether an output is standard output: "-", and the names that systems have for it."""
    return path in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def check_writable(*paths):
    """Stop, before any work, if a file cannot be written (None: no file)."""
    for path in filter(None, paths):
        if is_stdout(path):
            continue
        if os.path.exists(path) and not os.path.isfile(path) and os.access(path, os.W_OK):
            if not os.path.isdir(path):  # a pipe or a device
                continue
        folder = os.path.dirname(os.path.realpath(path))
        if not os.path.isdir(folder):
            stop(f"{path} cannot be written: there is no folder {folder}", USAGE)
        if os.path.isdir(path) or not os.access(folder, os.W_OK):
            stop(f"{path} cannot be written", USAGE)


def flag(option):
    """An option as it is typed: ``--max-memory`` for max_memory."""
    return "--" + option.replace("_", "-")


def as_csv(rows):
    """Rows as the text of a csv file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def one_of(names):
    """A parser of an option whose value is one of some names."""

    def choice(text):
        if text in names:
            return text
        meant = did_you_mean(text, names, "; did you mean {}?") or ""
        raise typer.BadParameter(f"{text!r} is none of {', '.join(names)}{meant}")

    return choice


def number_from(least=None):
    """A parser of an option whose value is a whole number from `least` on, or else any number."""
    kind, words = (float, "a number") if least is None else (int, f"a whole number from {least} on")

    def number(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or (least is not None and value < least):
            raise typer.BadParameter(f"{text!r} is not {words}")
        return value

    return number
