"""Warnings that name the user's line."""

import sys
import warnings

# Between the user and us there may be pipelines, searches and wrappers of scikit-learn.
_LIBRARIES = ("tunefree", "sklearn")


class DataWarning(UserWarning):
    """A finding about a training table that a person should look at, such as a constant column.

    Examples
    --------
    >>> import warnings
    >>> from tunefree import DataWarning
    >>> warnings.simplefilter("ignore", DataWarning)  # silence all of them
    """


def warn(message, category=UserWarning):
    """Warn at the line of the nearest caller outside of this package and scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in _LIBRARIES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
