"""Sizes of entries and targets: those whose squares overflow, vanish or agree."""

from typing import Any

import numpy as np

from tunefree.core.warn import DataWarning, warn
from tunefree.rows.designs import design_of
from tunefree.rows.learned_kinds import sentinel_of
from tunefree.rows.matrices import entries

# Squares of larger entries overflow, and those of smaller ones vanish.
HUGE, _TINY = 1e150, 1e-154
# The same for columns of a stream, whose limits of outliers are wide at first.
_HUGE_STREAMED, _TINY_STREAMED = 1e120, 1e-120
# The same for targets of a stream: larger ones are not learned, and smaller ones have no interval.
HUGE_STREAMED_TARGET, _TINY_STREAMED_TARGET = 1e140, 1e-120
# The same for targets: standard errors have the squares of squared errors.
HUGE_TARGET, _TINY_TARGET = 1e75, 1e-75
# A column whose width is below this share of its entries may count as constant: a column's
# deviation must be 1e-10 of its entries, and is about a fifth of its width.
_NARROW, _ROUNDING = 1e-9, 1e-15


def check_entries(X: Any, names: Any = None, *, fresh: bool = False) -> None:
    """Refuse rows with entries whose squares overflow; if `fresh`, warn of tiny or close ones.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    names : sequence of str, optional
        The names of the columns.
    fresh : bool, default=False
        Whether these rows are the first.
    """
    if largest_entry(X) > HUGE:
        low, high = _ranges(X)
        raise ValueError(_too_large(np.maximum(high, -low), names))
    if fresh:
        _warn_of_ranges(*_ranges(X), names)


def warn_of_entries(X: Any, names: Any = None) -> None:
    """Warn of the first rows of a stream, in which large entries count as missing."""
    low, high = _ranges(X)
    low, high = np.nan_to_num(low), np.nan_to_num(high)
    top = np.maximum(high, -low)
    if (top > _HUGE_STREAMED).any():
        words = _too_large(top, names, _HUGE_STREAMED)
        warn(f"{words} They may count as missing.", DataWarning)
    _warn_of_ranges(low, high, names, _TINY_STREAMED)


def _too_large(top, names, most=HUGE):
    j = int(np.argmax(top > most))
    return (
        f"{_column(names, j)} has entries up to {top[j]:g}: the squares of those beyond {most:g} "
        f"overflow. Divide the column by {_power(top[j])}."
    )


def _warn_of_ranges(low, high, names, least=_TINY):
    """Warn of columns whose entries vanish when they are squared, or nearly agree."""
    top, width = np.maximum(high, -low), high - low
    tiny = (top > 0.0) & (top < least)
    if tiny.any():
        j = int(np.argmax(tiny))
        warn(
            f"{_column(names, j)} has no entry beyond {top[j]:g}: their squares vanish, and it may "
            f"count as constant. Divide it by {_power(top[j])}.",
            DataWarning,
        )
    close = (width > _ROUNDING * top) & (width < _NARROW * top)
    if close.any():
        j = int(np.argmax(close))
        warn(
            f"{_column(names, j)} has entries near {low[j]:g} that differ by {width[j]:.2g} at "
            f"most, and it may count as constant. Subtract {low[j]:.15g} from it.",
            DataWarning,
        )


def check_target_sizes(y: Any, *, fresh: bool = True) -> None:
    """Refuse targets whose squared errors cannot be squared; if not `fresh`, too large ones only.

    Examples
    --------
    >>> check_target_sizes(np.array([1.0, 2e160]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: y[1] = 2e+160 is beyond 1e+75: ...
    """
    top = _largest_target(y)
    if top > HUGE_TARGET:
        raise ValueError(
            f"{_first_beyond(y, HUGE_TARGET)}: squares of squared errors overflow. "
            f"Divide y by {_power(top)}, and multiply predictions by it."
        )
    if fresh and 0.0 < top < _TINY_TARGET:
        raise ValueError(
            f"y has no target beyond {top:g}: squares of its squared errors vanish. Divide y by "
            f"{_power(top)}, and multiply predictions by it."
        )
    if fresh:
        _warn_of_sentinels(np.asarray(y))


def _warn_of_sentinels(y):
    """Warn of a number such as -999 that stands apart, and may be no target."""
    for column in y.reshape(len(y), -1).T:
        value = sentinel_of(column)
        if value is not None:
            n = np.count_nonzero(column == value)
            warn(
                f"y holds {value:g} {n} times, apart from all other targets: if it stands for a "
                "missing value, drop these rows.",
                DataWarning,
            )


def warn_of_streamed_targets(y: Any, *, fresh: bool = False) -> None:
    """Warn of targets that a stream does not learn; if `fresh`, of tiny ones, too.

    A stream goes on: a refused row would end it.
    """
    top = _largest_target(y)
    if top > HUGE_STREAMED_TARGET:
        warn(
            f"{_first_beyond(y, HUGE_STREAMED_TARGET)}, and is not learned. "
            f"Divide y by {_power(top)}, and multiply predictions by it.",
            DataWarning,
        )
    if fresh and 0.0 < top < _TINY_STREAMED_TARGET:
        warn(
            f"y has no target beyond {top:g}: squares of its errors vanish, and intervals are too "
            f"wide. Divide y by {_power(top)}, and multiply predictions by it.",
            DataWarning,
        )


def _largest_target(y):
    return float(np.abs(np.asarray(y, dtype=np.float64)).max(initial=0.0))


def _first_beyond(y, most):
    """The first row with a target beyond `most`, as text."""
    rows = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    row = int(np.argmax(np.abs(rows).max(axis=1) > most))
    value = rows[row][np.argmax(np.abs(rows[row]))]
    return f"y[{row}] = {value:g} is beyond {most:g}"


def largest_column(X: Any, names: Any = None) -> str:
    """The column of the largest absolute value, and that value, as text."""
    low, high = _ranges(X)
    top = np.maximum(high, -low)
    j = int(np.argmax(top))
    return f"{_column(names, j)} has entries up to {top[j]:g}"


def check_kernel_values(values: np.ndarray, X: Any, names: Any = None) -> None:
    """Refuse rows to predict whose sums of kernel values (n, n_outputs) overflow.

    >>> check_kernel_values(np.array([[0.5], [np.inf]]), np.array([[1.0], [1e150]]))
    Traceback (most recent call last):
    ...
    ValueError: Row 1 of X is beyond the range of the kernel: Column 0 of X has entries up to ...
    """
    is_finite = np.isfinite(values).all(axis=1)
    if not is_finite.all():
        row = int(np.argmin(is_finite))
        raise ValueError(
            f"Row {row} of X is beyond the range of the kernel: {largest_column(X[[row]], names)}."
        )


def largest_entry(X: Any) -> float:
    """The largest absolute value."""
    values, _ = entries(X)
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def _ranges(X):
    """Lowest and highest value of each column; NaN does not count."""
    if isinstance(X, np.ndarray):
        low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
        return low.astype(np.float64), high.astype(np.float64)
    return design_of(X).ranges()


def _column(names, j):
    """A column by name, or by its number."""
    return f"Column {j} of X" if names is None else f"Column {str(names[j])!r} of X"


def _power(size):
    """The power of ten below a size."""
    return f"{10.0 ** np.floor(np.log10(size)):g}"
