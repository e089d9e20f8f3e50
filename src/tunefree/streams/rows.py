"""Rows and labels of streams as numbers.

A row with names is a dict, a Series of pandas or a frame of one row. A text value that stands for a
number is that number (`tunefree.rows.cells.value_of`), one that is a date with the year first is
that date, and others are categories. None, NaN, NaT, NA, nulls and cells such as "n/a" are missing.
A label that is missing is not known yet. Any other value is an error that names its key.
"""

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from tunefree.core.warn import DataWarning, warn
from tunefree.rows.cells import value_of
from tunefree.rows.columns import (
    DATE,
    EXACT,
    as_table,
    must_be_read,
    named_table,
    names_of,
    raw_columns,
)
from tunefree.rows.missing import refuse_no_order, separated

_NUMBERS = (Real, Decimal, np.bool_)
# Columns that a warning names.
_NAMED = 5
# Dates with the year first, of which a cell alone shows day and month; the local time counts.
_DATE = re.compile(
    r"(\d{4}([-/])\d\d\2\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?)"
    r" ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?)?"
)
# Times of a day, and durations as pandas and Python write them, are those in a cell alone, too.
_CLOCK = re.compile(r"(\d|[01]\d|2[0-3])(:[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?)", re.ASCII)
_DURATIONS = (
    re.compile(
        r"(?P<days>-?\d{1,7}) days?(?:,? \+?(?P<hours>\d{1,2}):(?P<minutes>[0-5]\d):"
        r"(?P<seconds>[0-5]\d)(?:\.(?P<part>\d{1,9}))?)?",
        re.ASCII,
    ),
    re.compile(  # of ISO 8601
        r"(?P<sign>-?)P(?=T?\d)(?:(?P<days>\d{1,7})D)?(?:T(?=\d)(?:(?P<hours>\d{1,7})H)?"
        r"(?:(?P<minutes>\d{1,7})M)?(?:(?P<seconds>\d{1,7})(?:[.,](?P<part>\d{1,9}))?S)?)?",
        re.ASCII,
    ),
)
_EPOCH, _DAY, _YEAR = datetime.datetime(1970, 1, 1), datetime.timedelta(days=1), 365.25
_MICROS = 86_400_000_000  # a day's
_PARTS = frozenset(
    (": weekday", ": weekend")
    + tuple(f": {part}, {of}" for part in ("year", "day", "half day") for of in ("sine", "cosine"))
)
# Values of these types are numbers, or None, without a closer look.
PLAIN = frozenset(
    {float, int, bool, type(None), np.float64, np.float32, np.int64, np.int32, np.bool_}
)


# --- values ---------------------------------------------------------------------------------------


def is_missing(value):
    """Whether a value is None, NaN, NaT or NA.

    Examples
    --------
    >>> nat = np.datetime64("NaT", "D")
    >>> [is_missing(value) for value in (None, float("nan"), nat, 0, "nan")]
    [True, True, True, False, False]
    """
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA of pandas is neither true nor false, and arrays are many
        return type(value).__name__ == "NAType"


def plain(value):
    """A value as Python's own: text as str, scalars of arrays unwrapped, None if it is missing.

    Examples
    --------
    >>> plain(np.str_("red")), plain(np.int64(3)), plain(np.array(2.5)), plain(np.nan)
    ('red', 3, 2.5, None)
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool:
        return value
    if isinstance(value, str):  # also an enumeration of texts
        return str.__str__(value)
    if hasattr(value, "as_py"):  # a scalar of Arrow
        return plain(value.as_py())
    is_time = isinstance(value, (np.datetime64, np.timedelta64))  # as items they may be integers
    if not is_time and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    return None if is_missing(value) else value


def _of_time(value):
    """A plain value, a date as a datetime in local time, and a duration as days."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        item: Any = value.astype(f"{value.dtype.kind}8[us]").item()
        return value if isinstance(item, int) else _of_time(item)  # a year that Python lacks
    if isinstance(value, datetime.timedelta):
        return value / _DAY
    if isinstance(value, datetime.time):
        return datetime.datetime.combine(_EPOCH, value.replace(tzinfo=None))
    if not isinstance(value, datetime.date):
        return value
    if not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    clock = value.hour, value.minute, value.second, value.microsecond
    return datetime.datetime(value.year, value.month, value.day, *clock)


def read(value):
    """A plain value, where text that stands for a number, a truth value or a date is that.

    Dates are datetimes in local time, times of a day those of 1970-01-01, and durations days.

    Examples
    --------
    >>> read("3.5"), read("$944.00"), read(" red"), read("NA")
    (3.5, 944, 'red', None)
    >>> read("2024-01-31 10:30"), read(datetime.timedelta(hours=36))
    (datetime.datetime(2024, 1, 31, 10, 30), 1.5)
    >>> read("9:30"), read(datetime.time(9, 30)), read("1 days 12:00:00"), read("1 day, 12:00:00")
    (datetime.datetime(1970, 1, 1, 9, 30), datetime.datetime(1970, 1, 1, 9, 30), 1.5, 1.5)
    >>> read("PT36H"), read("-P1DT12H"), read("P")
    (1.5, -1.5, 'P')
    """
    found: Any = plain(value)
    return _value_of_text(found) if isinstance(found, str) else _of_time(found)


def _value_of_text(text):
    value = value_of(text)
    if not isinstance(value, str) or not value[-1:].isalnum():
        return value
    if "day" in value or "P" in value:
        for pattern in _DURATIONS:
            if (found := pattern.fullmatch(value)) is not None:
                return _days_of(**found.groupdict())
    if (found := _CLOCK.fullmatch(value)) is not None:
        clock = datetime.time.fromisoformat(found[1].zfill(2) + found[2])
        return datetime.datetime.combine(_EPOCH, clock)
    found = _DATE.fullmatch(value)
    if found is None:
        return value
    try:
        return datetime.datetime.fromisoformat(found[1].replace("/", "-"))
    except ValueError:  # there is no such day
        return value


def _days_of(days, hours, minutes, seconds, part, sign=""):
    """A duration in days, of its parts as text; parts of a microsecond do not count."""
    counts = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
    micros = int((part or "").ljust(6, "0")[:6])
    found = datetime.timedelta(
        **{name: int(count or 0) for name, count in counts.items()}, microseconds=micros
    )
    return found / (-_DAY if sign else _DAY)


def _calendar(name, moment):
    """The columns of a date beside its days: its place in the year, the week and the day.

    Angles are numbers on a circle. Cosines are less 1, so that midnight, whose columns are not
    made, has zeros, as what is absent of a dict.
    """
    weekday = moment.weekday()
    columns = {": weekday": float(weekday), ": weekend": float(weekday >= 5)}
    turns = {": year": (moment.timetuple().tm_yday - 1) / _YEAR}
    time = (moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)) / _DAY
    if time:
        turns |= {": day": time, ": half day": 2.0 * time}
    for part, turn in turns.items():
        angle = 2.0 * math.pi * turn
        columns |= {f"{part}, sine": math.sin(angle), f"{part}, cosine": math.cos(angle) - 1.0}
    return {f"{name}{part}": value for part, value in columns.items()}


def is_of_date(name, columns):
    """Whether one of some columns is of the date of this name."""
    return f"{name}: weekday" in columns


def date_of(column):
    """The name of the date that a column is the weekday of; None of other columns."""
    name = column.removesuffix(": weekday")
    return None if name == column else name


def columns_of_date(name, columns):
    """The columns, of some, of the date of this name."""
    return [name, *(f"{name}{part}" for part in sorted(_PARTS) if f"{name}{part}" in columns)]


def keys_of(columns):
    """The keys of rows that columns stand for, in order.

    >>> keys_of(["size", "kind=red", *features({"when": "2024-01-31"})])
    ['size', 'kind', 'when']
    """
    columns = dict.fromkeys(columns)
    found: dict[str, None] = {}
    for column in columns:
        key, _, _ = column.partition("=")
        date, mark, part = column.rpartition(": ")
        is_part = f"{mark}{part}" in _PARTS and is_of_date(date, columns)
        found[date if is_part else key] = None
    return [*found]


def _is_number(value):
    """Whether a plain value is a real number; for NumPy a timedelta64 is one, too."""
    return isinstance(value, _NUMBERS) and not isinstance(value, np.timedelta64)


def _as_float(value, *place):
    """A plain value as a float; NaN if it is missing. `place` is where it stands."""
    if value is None:
        return math.nan
    if not _is_number(value):
        raise ValueError(f"{_place(*place)} is {value!r:.80}: give a number, text or a date.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{_place(*place)} is too large: give a number below 1e308.") from None


def loses_digits(given, value):
    """Whether a whole number, or its text, is not the float that stands for it.

    >>> loses_digits(2**53 + 1, 2.0**53), loses_digits("9007199254740994", 2.0**53 + 2)
    (True, False)
    """
    whole: Any = plain(given)
    try:
        return int(whole) != int(value)
    except (TypeError, ValueError, OverflowError):  # no whole number, or an infinite one
        return False


def warn_of_rounded(found):
    """Warn of the first whole number of each column whose digits a float has not."""
    for name, given in found.items():
        warn(
            f"Column {name!r} has whole numbers such as {given}, which a float cannot hold: some "
            "that differ are one value. Give names as text that is no number, or leave them out.",
            DataWarning,
        )


def _place(row, key):
    """Where a value stands: in the only row, or in a row of a chunk."""
    return f"{'x' if row is None else f'X[{row}]'}[{key!r}]"


# --- rows with names ------------------------------------------------------------------------------


class NamedNumbers(dict):
    """The numbers of a row by the names of their columns; its cells of text and dates by key.

    `rounded` has the whole numbers whose digits a float has not.
    """

    __slots__ = ("dates", "rounded", "texts")


def record_of(x: Any, named=False):
    """A row with names as a mapping; None of other rows.

    Parameters
    ----------
    x : mapping, Series, frame of one row, or array-like
    named : bool, default=False
        Whether the stream has names: then a Series is read by its labels, whatever these are.

    Raises
    ------
    ValueError
        If a frame has several rows, or a label occurs twice.

    Examples
    --------
    >>> record_of({"size": 3}), record_of([3])
    ({'size': 3}, None)
    """
    if isinstance(x, Mapping):
        return x
    if type(x) is np.ndarray or type(x) is list:
        return None
    if hasattr(x, "columns"):
        if len(x) != 1:
            raise ValueError(f"x has {len(x)} rows: give one.")
        cells = _cells_of(x, list(names_of(x)))
        return {name: column[0] for name, column in cells.items()}
    labels = getattr(x, "index", None)
    if callable(labels) or not hasattr(x, "items"):  # a sequence
        return None
    labels = [*x.index]
    if not (named or any(isinstance(label, str) for label in labels)):
        return None
    record = dict(x.items())
    if len(record) < len(labels):
        raise ValueError(f"x has several values of one name: {labels!r:.80}.")
    return record


def as_records(X):
    """Rows with names as a sequence of mappings; None of other rows."""
    is_column = getattr(X, "ndim", None) == 1 and hasattr(X, "tolist")  # an array of objects
    if is_column and len(X) and isinstance(next(iter(X)), Mapping):
        return X.tolist()
    if not isinstance(X, Sequence) or len(X) == 0:
        return None
    if isinstance(X[0], (str, Sequence)):
        return None
    return None if record_of(X[0]) is None else X


def _name_of(key):
    """The name of a key: text itself, and the representation of anything else."""
    if isinstance(key, str):
        return str.__str__(key)
    return repr(key.item() if isinstance(key, np.generic) else key)


def _column_name(key, value):
    """The name of the column of a value."""
    value = read(value)
    return f"{_name_of(key)}={value}" if isinstance(value, str) else _name_of(key)


def features(x, row=None):
    """The `NamedNumbers` of a mapping.

    Text that stands for a number, such as "3.5", "$944.00" or "7%", is that number. A date has
    several columns (`_calendar`). Other text has a column of its own, where it is 1. What is
    missing is NaN.

    Parameters
    ----------
    x : mapping
    row : int, optional
        Its place in a chunk, for errors.

    Raises
    ------
    ValueError
        If a value is neither a number nor text nor a date, or two keys have one name.

    Examples
    --------
    >>> features({"size": 3, "kind": "red", "age": None})
    {'size': 3.0, 'kind=red': 1.0, 'age': nan}
    """
    found, of_dates = NamedNumbers(), {}
    found.texts, found.dates, found.rounded = {}, {}, {}
    for key, given in x.items():
        name, value = key if type(key) is str else _name_of(key), given
        if type(value) is not float:
            value = read(value)
            if type(value) is str:
                found.texts[name] = value
                name, value = f"{name}={value}", 1.0
            elif type(value) is datetime.datetime:
                found.dates[name] = value
                of_dates |= _calendar(name, value)
                value = (value - _EPOCH) / _DAY
            else:
                value = _as_float(value, row, key)
                if abs(value) >= EXACT and loses_digits(given, value):
                    found.rounded[name] = given
        found[name] = value
    if len(found) < len(x):
        first = {}
        for key, value in x.items():
            other = first.setdefault(_column_name(key, value), key)
            if other is not key:
                place = "x" if row is None else f"X[{row}]"
                raise ValueError(
                    f"{place} has the keys {other!r} and {key!r}, which are one column: rename one."
                )
    for name, value in of_dates.items():
        found.setdefault(name, value)
    return found


def frame_rows(X, began, known):
    """The rows of a frame as dicts where a stream has names or begins with text, else the frame.

    Text is read cell by cell, as in dicts: the sizes of chunks decide nothing.

    Parameters
    ----------
    X : frame
    began : bool
        Whether the stream has begun.
    known : collection of str, or None
        The names of the stream, if it has names. What the frame lacks of them is missing.
    """
    has_names = known is not None
    columns = _cells_of(X, list(names_of(X)))
    not_numeric = [name for name, cells in columns.items() if not _are_numbers(cells, began)]
    if began and not has_names and not_numeric:
        raise ValueError(
            f"Column {not_numeric[0]!r} is not numeric, but this stream began without text."
        )
    if not (has_names or not_numeric):
        return _of_numbers(X, columns)
    columns |= dict.fromkeys(_lacking(columns, known or ()), [None] * len(X))
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _lacking(columns, known):
    """The known names that no column of a frame stands for, with a warning that names them.

    In a dict a name that is absent is 0, as a word that a text does not have; in a table it is a
    column that is missing.
    """
    own = {_name_of(name) for name in columns}
    levels = tuple(f"{name}{mark}" for name in own for mark in ("=", ": "))
    lacking = [name for name in known if name not in own and not name.startswith(levels)]
    if lacking:
        names = ", ".join(map(repr, lacking[:_NAMED])) + (", ..." if lacking[_NAMED:] else "")
        warn(f"X lacks {names} of this stream's columns: they count as missing.", DataWarning)
    return lacking


def array_rows(X):
    """The rows of an array or of lists, with numbers in place of text that stands for them.

    Raises
    ------
    ValueError
        If a column holds other text, or dates.
    """
    X = as_table(X)
    if not must_be_read(X):
        return X
    columns = _cells_of(X, range(X.shape[1]))
    for name, cells in columns.items():
        text = next((cell for cell in cells if _needs_a_name(cell)), None)
        if text is not None:
            what = "text" if isinstance(text, str) else "dates"
            raise ValueError(
                f"Column {name} of X holds {what} such as {str(text)!r:.80}, which needs names: "
                "give a frame, or a list of dicts."
            )
    return np.array([*columns.values()], dtype=np.float64).T


def _of_numbers(X, columns):
    """A frame of numbers whose cells have been read."""
    if not must_be_read(X):
        return X
    return named_table([np.array(c, dtype=np.float64) for c in columns.values()], list(columns))


def _cells_of(X, names):
    """The cells of every column of a frame or an array: numbers, text, or None."""
    columns, found = raw_columns(X), {}
    for name in names:
        try:
            column = next(columns)
        except TypeError as problem:
            if isinstance(name, int):  # of an array: scikit-learn's type of error
                raise TypeError(f"Column {name} of X {problem}") from None
            words = str(problem).replace(
                "its argument must be a string or a real number, or a date",
                "give numbers, text or dates",
            )
            raise ValueError(f"Column {name!r} {words}") from None
        if column.texts is None:
            values, absent = _listed(column)
            found[name] = [None if a else v for v, a in zip(values, absent, strict=True)]
        else:
            texts = column.cells.to_pylist()
            levels = [*map(_value_of_text, texts), None]
            pairs = zip(texts, levels, strict=False)
            long = [t for t, v in pairs if isinstance(v, float) and loses_digits(t, v)]
            if long:
                warn_of_rounded({name: long[0]})
            found[name] = [levels[code] for code in column.codes.tolist()]
    return found


def _listed(column):
    """The values of a column, dates as datetimes, and which are absent."""
    values = column.values
    if column.kind == DATE:
        values = np.round(values * _MICROS).astype("M8[us]")
    return values.tolist(), column.absent.tolist()


def _needs_a_name(cell):
    """Whether a cell has other columns than its own."""
    return isinstance(cell, (str, datetime.datetime))


def _are_numbers(cells, if_empty):
    """Whether cells are numbers, or `if_empty` if there is none."""
    values = [cell for cell in cells if cell is not None]
    return not any(map(_needs_a_name, values)) if values else if_empty


# --- rows without names ---------------------------------------------------------------------------


def writable(values):
    """A writable float64 array; kernels would be compiled again for a read-only one."""
    out = np.ascontiguousarray(values, dtype=np.float64)
    return out if out.flags.writeable else out.copy()


def numbers_of(x):
    """The values of a row without names.

    Raises
    ------
    ValueError
        If one is no number, or there is not one row.

    Examples
    --------
    >>> numbers_of([3, None, 2.5])
    array([3. , nan, 2.5])
    """
    values = x if type(x) is np.ndarray else np.asarray(x.toarray() if hasattr(x, "toarray") else x)
    if values.ndim != 1 and values.shape[:-1] != (1,):
        raise ValueError(f"x is {x!r:.80}: give one row, a dict or an array of one dimension.")
    if values.dtype.kind in "biuf":
        return writable(values).ravel()
    items = x if isinstance(x, (list, tuple)) else list(values.ravel())
    numbers = np.empty(len(items))
    for j, value in enumerate(map(read, items)):
        if _needs_a_name(value):
            what = "text" if isinstance(value, str) else "a date"
            raise ValueError(f"x[{j}] is {str(value)!r:.80}: {what} needs a name, so give a dict.")
        numbers[j] = _as_float(value, None, j)
    return numbers


# --- labels ---------------------------------------------------------------------------------------


def label_of(y, place="y"):
    """The label of a class; None if it is not known.

    Raises
    ------
    ValueError
        If it is neither text nor a finite number.

    Examples
    --------
    >>> label_of(np.str_("red")), label_of(np.True_), label_of(np.nan)
    ('red', True, None)
    """
    label = plain(y)
    if label is None or isinstance(label, (str, bool)):
        return label
    if isinstance(label, int):  # also of an enumeration
        return int(label)
    if _is_number(label) and math.isfinite(label):
        return float(label)
    raise ValueError(f"{place} is {label!r:.80}, which is no class: give text or a number.")


def target_of(y, place="y"):
    """A real target; None if it is not known.

    Raises
    ------
    ValueError
        If it is no number, or not finite.

    Examples
    --------
    >>> target_of(3), target_of(np.float32(0.5)), target_of(np.nan)
    (3.0, 0.5, None)
    """
    if type(y) is float and math.isfinite(y):
        return y
    target = plain(y)
    if target is None:
        return None
    if not _is_number(target):
        raise ValueError(f"{place} is {target!r:.80}, which is no number.")
    try:
        target = float(target)
    except OverflowError:
        target = math.inf
    if not math.isfinite(target):
        raise ValueError(f"{place}={y!r:.80} is not finite.")
    return target


def split_labels(y: Any, real):
    """Labels as an array, and which of them are known; the others hold one that is, or 0.

    Examples
    --------
    >>> split_labels(["red", None, "blue"], False)
    (array(['red', 'red', 'blue'], dtype='<U4'), array([ True, False,  True]))
    """
    refuse_no_order(y, "y")
    # Of Arrow, polars and the types of pandas an array has floats for integers beside a null.
    if hasattr(y, "columns") or getattr(getattr(y, "dtype", None), "kind", "") == "T":
        y = separated(y)[0]
    if hasattr(y, "to_pylist"):
        y = y.to_pylist()
    elif np.ma.is_masked(y):
        y = np.ma.ravel(y).tolist() if y.shape[1:] == (1,) else y.tolist()
    elif hasattr(y, "to_list") and not isinstance(getattr(y, "dtype", None), np.dtype):
        y = y.to_list()
    if isinstance(y, (list, tuple)):
        kinds = set(map(type, y))
        items = y if len(kinds) > 1 or type(None) in kinds else None
        try:
            y = objects(y) if items is not None and not _has_rows(items) else np.asarray(y)
        except ValueError:
            raise ValueError("y has entries of several lengths: give one value a row.") from None
    else:
        y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    if y.ndim != 1:
        return y, np.ones(len(y) if y.ndim else 0, dtype=bool)  # refused by what checks labels
    if y.dtype.kind in "mM":
        raise ValueError("y holds dates or times: give numbers, such as days since a date.")
    if y.dtype.kind == "O":
        whole, missing = separated(y)
        if real and whole.dtype.kind in "iu":  # with all of their digits
            return whole, ~missing
        return _split_objects(y.tolist(), real)
    if y.dtype.kind == "f":
        known = ~np.isnan(y)
    else:
        known = np.ones(len(y), dtype=bool)
    if known.all():
        return y, known
    return (np.where(known, y, y[known][0]) if known.any() else np.zeros(len(y))), known


def _has_rows(items):
    """Whether labels are rows of several."""
    return any(isinstance(item, (list, tuple)) or np.ndim(item) > 0 for item in items)


def _split_objects(items, real):
    """`split_labels` of objects of any kinds."""
    if real and any(isinstance(item, str) for item in items):
        return np.asarray(items, dtype=object), np.ones(len(items), dtype=bool)  # refused later
    read = target_of if real else label_of
    labels = [read(item, f"y[{i}]") for i, item in enumerate(items)]
    known = np.array([label is not None for label in labels], dtype=bool)
    some = next((label for label in labels if label is not None), 0)
    labels = [some if label is None else label for label in labels]
    n_text = sum(isinstance(label, str) for label in labels)
    is_mixed = 0 < n_text < len(labels)  # an array of one kind would make text of numbers
    return (objects(labels) if is_mixed else np.asarray(labels)), known


def objects(values):
    """An array of objects, one for each value."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
