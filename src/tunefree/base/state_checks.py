"""Checks that the arrays of a learner from a model file have the shapes that compiled code assumes.

A checksum detects damage, but not a forged file. Kernels index arrays without bounds checks, so
each array is compared with that of a fresh learner before anything is learned. What differs raises
a ValueError.
"""

import numpy as np


def same_form(one, other):
    """Whether arrays, numbers or tuples of these have the same types and shapes.

    Examples
    --------
    >>> same_form((np.zeros(2), 1), (np.ones(2), 5)), same_form(np.zeros(2), np.zeros(3))
    (True, False)
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return (one.shape, one.dtype) == (other.shape, other.dtype) and one.flags.c_contiguous
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same_form, one, other))
    return True


def require(condition):
    """Refuse a learner.

    Raises
    ------
    ValueError
        If the condition does not hold.
    """
    if not condition:
        raise ValueError("the saved state of its learner is inconsistent")


def check_like(saved, fresh, *names):
    """Check that some attributes have the form of those of a fresh object of the same class."""
    require(type(saved) is type(fresh))
    require(all(same_form(getattr(saved, n), getattr(fresh, n)) for n in names))


def check_optional(array, *shape):
    """Check an array of float64 that may be missing."""
    require(array is None or same_form(array, np.empty(shape)))


def check_array(array, dtype, *shape):
    """Check the type and the shape of an array, which may be mapped from a file.

    Raises
    ------
    ValueError
        If it has another form.
    """
    require(isinstance(array, np.ndarray) and array.flags.c_contiguous)
    require(array.dtype == dtype and array.shape == shape)
