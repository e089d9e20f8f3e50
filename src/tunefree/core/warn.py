"""Warnings that name the user's line, and guesses of what a misspelt word means."""

import difflib
import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Between the user and us there may be pipelines, searches and wrappers of scikit-learn.
_LIBRARIES = ("tunefree", "sklearn")
# The list to which the running fit adds its findings; None outside of a fit.
_FOUND: ContextVar[Any] = ContextVar("found", default=None)


class DataWarning(UserWarning):
    """A finding about a training table that a person should look at, such as a constant column.

    Examples
    --------
    >>> import warnings
    >>> from tunefree import DataWarning
    >>> warnings.simplefilter("ignore", DataWarning)  # silence all of them
    """


class NoEffect(ValueError):
    """An option that has no effect on the data that are given.

    Attributes
    ----------
    option : str
        Its name as an argument.
    words : str
        What it is for, and what the data are.

    Examples
    --------
    >>> str(NoEffect("sheet", "is for workbooks, but a.csv is csv"))
    'sheet= is for workbooks, but a.csv is csv'
    """

    def __init__(self, option: str, words: str):
        super().__init__(f"{option}= {words}")
        self.option, self.words = option, words


def warn(message, category=UserWarning):
    """Warn at the line of the nearest caller outside of this package and scikit-learn."""
    found = _FOUND.get()
    if found is not None and issubclass(category, DataWarning):
        found.append(message)
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _LIBRARIES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def findings_kept():
    """A list of what every `DataWarning` inside warns of: texts or warnings.

    >>> with warnings.catch_warnings(action="ignore"), findings_kept() as found:
    ...     warn("Column 'a': all values are equal.", DataWarning)
    >>> found
    ["Column 'a': all values are equal."]
    """
    before = _FOUND.set([])
    try:
        yield _FOUND.get()
    finally:
        _FOUND.reset(before)


def none_of(parameter, value, names):
    """The error for a value of a parameter that is none of some names.

    >>> str(none_of("loss", "huger", ["huber", "quantile"]))
    "loss='huger' is none of huber, quantile: did you mean 'huber'?"
    """
    names = [*names]
    meant = did_you_mean(value, names, ": did you mean {}?") if isinstance(value, str) else None
    return ValueError(f"{parameter}={value!r} is none of {', '.join(names)}{meant or '.'}")


def did_you_mean(word, names, question="did you mean {}?"):
    """A question with the name most similar to a word, or None.

    >>> did_you_mean("prise", ["size", "Price", "city"])
    "did you mean 'Price'?"
    """
    lower = {name.lower(): name for name in reversed(names)}
    found = difflib.get_close_matches(str(word).lower(), lower, n=1)
    return question.format(repr(lower[found[0]])) if found else None
