"""Valid values of parameters by name, the same for all estimators; attributes after an error.

Other checks, such as that of an estimator's solvers, are in its own module.
"""

import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tunefree.core.warn import did_you_mean

# The change of the loss, as a share of the loss of predicting zero, that compress=True allows.
_TOLERANCE = 1e-3


def _scorers():
    """The names of scikit-learn's scorers."""
    from sklearn.metrics import get_scorer_names

    return get_scorer_names()


@contextmanager
def restored_on_error(estimator: Any) -> Iterator[None]:
    """Restore the estimator's attributes if the body raises."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; True and False are not.

    Examples
    --------
    >>> is_number(2), is_number(np.float32(0.5)), is_number("2"), is_number(np.nan)
    (True, True, False, False)
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return False
    return bool(np.isreal(value) and np.isfinite(value))


def _is_positive(value):
    return is_number(value) and value > 0


def _is_amount(value):
    return is_number(value) and value >= 0


def _is_switch(value):
    return isinstance(value, bool | np.bool_)


def _is_auto(value):
    return isinstance(value, str) and value == "auto"


def _is_array(value):
    try:
        return bool(np.isfinite(np.asarray(value, dtype=np.float64)).all())
    except (TypeError, ValueError):
        return False


def _is_whole(value):
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1


def _is_count(value):
    return is_number(value) and value == int(value) and value != 0


def _is_kernel(value):
    return isinstance(value, str) or callable(value) or hasattr(value, "gram")


def _is_levels(value):
    if isinstance(value, str) or _is_switch(value) or not _is_array(value):
        return False
    levels = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if levels.ndim != 1 or len(levels) == 0:
        return False
    are_inside = ((levels > 0.0) & (levels < 1.0)).all()
    return are_inside and (np.diff(levels) > 0.0).all()


def _only(is_valid, what):
    return is_valid, f"not {what}"


def _or_none(is_valid, what):
    return lambda value: value is None or is_valid(value), f"neither None nor {what}"


def _or_auto(is_valid, what):
    return lambda value: _is_auto(value) or is_valid(value), f"neither 'auto' nor {what}"


# Parameters by name: a test of the value, and the message where it fails.
_RULES: dict[str, Any] = {
    "alphas": _or_none(_is_array, "an array of numbers"),
    "batch_size": _only(_is_whole, "a positive integer"),
    "cap": _or_none(lambda v: _is_positive(v) or v == np.inf, "positive"),
    "coef0": _only(is_number, "a number"),
    "cross_fit": _or_none(lambda v: _is_whole(v) and v >= 2, "a whole number of copies from 2 on"),
    "degree": _only(_is_positive, "a positive number"),
    "dt": _or_none(_is_positive, "a positive number"),
    "horizon": _or_none(_is_whole, "a positive integer"),
    "init": _or_none(_is_array, "an array of numbers"),
    "intercept_scaling": _or_auto(_is_positive, "a positive number"),
    "kernel": (_is_kernel, "neither the name of a kernel, nor a function or part"),
    "margin": _or_none(_is_amount, "a number from 0 on"),
    "max_iter": _only(lambda v: _is_auto(v) or _is_whole(v), "a positive integer or 'auto'"),
    "max_levels": _only(lambda v: is_number(v) and v >= 1, "a number from 1 on"),
    "max_support": _or_none(lambda v: _is_count(v) and v >= 2, "a whole number from 2 on"),
    "min_share": _only(lambda v: is_number(v) and 0 <= v <= 1, "a share between 0 and 1"),
    "n_jobs": _or_none(_is_count, "a whole number other than 0"),
    "n_splits": _or_auto(_is_whole, "a positive integer"),
    "on_bad_cell": _only(lambda v: v in ("missing", "error"), "one of 'missing', 'error'"),
    "patience": _only(_is_whole, "a positive integer"),
    "quantile": (_is_levels, "neither a number between 0 and 1 nor increasing ones"),
    "rho": _or_none(is_number, "a number"),
    "schema": _or_none(lambda v: isinstance(v, Mapping), "a dict of columns"),
    "scoring": (
        lambda v: v is None or callable(v) or v in _scorers(),
        "no scorer of scikit-learn: sklearn.metrics.get_scorer_names() lists them",
    ),
    "standardize": _or_auto(_is_switch, "a bool"),
    "tol": _only(_is_amount, "a number from 0 on"),
    "verbose": (
        lambda v: _is_switch(v) or (isinstance(v, int | np.integer) and v >= 0),
        "neither True, False nor a whole number from 0 on",
    ),
    "validation_fraction": _or_auto(lambda v: is_number(v) and 0 <= v < 1, "in [0, 1)"),
}
_SWITCH = _is_switch, "neither True nor False"


@functools.cache
def _rules(cls):
    """The rules for the parameters of a class; True or False as default means a switch."""
    parameters = inspect.signature(cls.__init__).parameters
    rules = {
        name: _RULES.get(name, _SWITCH if _is_switch(p.default) else None)
        for name, p in parameters.items()
    }
    return {name: rule for name, rule in rules.items() if rule is not None}


def check_values(estimator):
    """Refuse values that are invalid for a parameter in all estimators; name the parameter."""
    for name, (is_valid, message) in _rules(type(estimator)).items():
        value = getattr(estimator, name)
        if not is_valid(value):
            meant = None
            if name == "scoring":
                meant = did_you_mean(value, _scorers(), "; did you mean {}?")
            raise ValueError(f"{name}={value!r} is {message}{meant or '.'}")


def seed_of(random_state):
    """A 32-bit seed from a Generator or any `random_state` of scikit-learn.

    Examples
    --------
    >>> seed_of(7)
    7
    """
    if random_state is None:
        return int(np.random.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    generator: Any = random_state
    if hasattr(generator, "randint"):
        return int(generator.randint(2**31 - 1))
    raise ValueError(
        f"random_state={random_state!r} is neither None, nor an integer from 0 on, nor a "
        "RandomState or Generator."
    )


def compression_options(value) -> dict[str, Any]:
    """A tolerance or a number of landmarks for a value of `compress=`; nothing for None or False.

    Examples
    --------
    >>> compression_options(True), compression_options(300)
    ({'tolerance': 0.001}, {'count': 300})
    """
    if value is None or _is_switch(value):
        return {"tolerance": _TOLERANCE} if value else {}
    if isinstance(value, float | np.floating) and 0.0 < value < 1.0:
        return {"tolerance": float(value)}
    if _is_whole(value):
        return {"count": int(value)}
    raise ValueError(
        f"compress={value!r} is none of: None, True, a tolerance between 0 and 1, a number of "
        "landmarks (an integer from 1 on)."
    )


def bytes_of(max_memory):
    """Bytes of a value of `max_memory=`, a number or text; KiB are 1024 bytes, KB are 1000.

    >>> bytes_of("500 MB"), bytes_of("2gib"), bytes_of("1e9")
    (500000000.0, 2147483648.0, 1000000000.0)
    """
    size = 0.0
    if isinstance(max_memory, str):
        pattern = r"\s*(\d+\.?\d*(?:e\+?\d+)?)\s*([kmgt]?)(i?)b?\s*"
        if found := re.fullmatch(pattern, max_memory.lower()):
            number, prefix, is_binary = found.groups()
            unit = 1024.0 if is_binary else 1000.0
            size = float(number) * unit ** " kmgt".index(prefix or " ")
    elif isinstance(max_memory, int | float | np.number) and not isinstance(max_memory, bool):
        size = float(max_memory)
    if not size > 0.0:
        raise ValueError(
            f"max_memory={max_memory!r} is neither bytes nor text such as '2GB' or '512MiB'."
        )
    return size
