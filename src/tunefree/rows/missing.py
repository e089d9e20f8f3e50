"""Missing values beside the rows: among targets, labels, groups, weights, exposures and offsets.

A model cannot learn a row without a target, and nothing stands in for one. `complete` refuses
missing values, and what are no values, in one sentence; readers of files skip the rows of
`unlabelled`.
"""

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

# What to do about a missing value, by the argument that has it.
_WAYS_OUT = {
    "groups": "give every row a group, or drop the rows that have none",
    "sample_weight": "give every row a weight; 0 leaves a row out",
    "exposure": "give every row its exposure, or drop the rows that have none",
    "offset": "give every row its offset, or drop the rows that have none",
}
_OF_NUMBERS = ("sample_weight", "exposure", "offset")
# Classes may have an offset each.
_ONE_A_ROW = ("sample_weight", "exposure")
_WAY_OUT = "drop the rows whose target is missing"
# Cells of a file that mean a missing value, in lower case; databases write "\\N", pandas "<NA>".
MISSING = frozenset(
    ["", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "?", "-", "--", ".", "\\n"]
)
# Those that are no name of a class: "-", "." and "none" may be one, but "None" is what Python and
# pandas write.
NO_LABEL = frozenset(
    ["", "?", "NA", "na", "N/A", "n/a", "#N/A", "#n/a", "<NA>", "NaN", "nan", "NAN", "NaT", "nat"]
    + ["-nan", "-NaN", "None", "null", "NULL", "Null", "\\N"]
)


# A class may have the name "None": it does if more than this share of the labels is "None".
_NONE, _MOST_NONE = "None", 0.2


def complete(values: Any, name: str = "y") -> Any:
    """Values of any container as an array of NumPy's types, none of which is missing.

    Containers are lists, arrays, and series, arrays and tables of pandas, polars and Arrow. Whole
    numbers and truth values stay what they are, also in pandas' nullable types. Others are
    returned as they are.

    Parameters
    ----------
    values : array-like, or None
    name : str
        The argument.

    Returns
    -------
    ndarray, or values

    Raises
    ------
    ValueError
        If a value is missing: None, NaN, NaT, NA, or masked; or neither a number nor text. The
        message names the first.
    TypeError
        If these are no values in an order, such as a dict, a set or a generator.

    Examples
    --------
    >>> complete([True, False]), complete(np.array([1, 2], dtype=object))
    (array([ True, False]), array([1, 2]))
    >>> complete([0.5, None])
    Traceback (most recent call last):
    ...
    ValueError: Input y contains None. The first is y[1]: drop the rows whose target is missing.
    """
    refuse_no_order(values, name)
    array, missing = separated(values)
    if name in _OF_NUMBERS and getattr(array, "dtype", None) is not None:
        _refuse_text(array, name)
    if missing is None or not missing.any():
        _refuse_other(array, name)
        return _one_a_row(array, name) if name in _ONE_A_ROW else array
    place = np.unravel_index(np.argmax(missing), missing.shape)
    word = _word(np.asarray(array)[place], np.ma.isMaskedArray(values))
    if missing.shape[1:] == (1,):  # a column
        place = place[:1]
    where = ", ".join(str(k) for k in place)
    way_out = _WAYS_OUT.get(name, _WAY_OUT)
    raise ValueError(f"Input {name} contains {word}. The first is {name}[{where}]: {way_out}.")


def _one_a_row(values, name):
    """Values of one dimension: those of a column are the same."""
    if hasattr(values, "tocsr"):
        return values
    array = np.asarray(values)
    if array.ndim < 2:
        return values
    if array.shape[1:] != (1,):
        raise ValueError(f"{name} has the shape {array.shape}: give one number a row.")
    return array.ravel()


def refuse_no_order(values, name):
    """Refuse what holds values in no order, or only once, or is no container."""
    if isinstance(values, str) and name not in ("exposure", "offset"):  # which name columns, too
        raise ValueError(f"{name}={values!r:.60} is text: give the values, one a row.")
    if isinstance(values, Mapping) and not hasattr(values, "__array__"):
        raise TypeError(f"{name} is a dict: give its values in the order of the rows, as a list.")
    has_items = hasattr(values, "__getitem__") or hasattr(values, "__array__")
    if isinstance(values, AbstractSet) or (hasattr(values, "__iter__") and not has_items):
        kind = type(values).__name__
        raise TypeError(f"{name} is a {kind}: give a list or an array, with one value a row.")


def _refuse_other(array, name):
    """Refuse values that are neither numbers, truth values, text, dates nor durations."""
    if isinstance(array, list | tuple):
        raise ValueError(f"{name} has entries of several lengths: give one value a row.")
    kind = str(getattr(getattr(array, "dtype", None), "kind", ""))
    if kind == "V" and array.dtype.names:
        first = array.dtype.names[0]
        fields = ", ".join(map(repr, array.dtype.names))
        raise ValueError(f"{name} has the fields {fields}: give one of them: {name}[{first!r}].")
    if kind == "c":
        words = f"Complex data not supported: {name} holds {array.ravel()[:1].tolist()[0]}"
        raise ValueError(f"{words}. Give real numbers.")
    if kind in ("m", "M") and name in _OF_NUMBERS:
        raise ValueError(f"{name} holds dates or times: give numbers, such as days since a date.")
    if kind != "O" or name == "groups" or not isinstance(array, np.ndarray):
        return
    for place, value in enumerate(array.ravel().tolist()):
        if isinstance(value, date | time | timedelta):
            raise ValueError(
                f"{name} holds dates or times such as {value!r:.60}, at {name}[{place}]: give "
                "numbers, such as days since a date, or text for classes."
            )
        if not isinstance(value, str | bytes | Real | Decimal | np.generic):
            raise ValueError(
                f"{name}[{place}] is {value!r:.60}, which is neither a number nor text: give one "
                f"of them a row, such as {str(value)!r:.40}."
            )


def _refuse_text(array, name):
    """Refuse text among numbers, unless it is a plain finite number."""
    if array.dtype.kind not in "OUS":
        return
    for place, value in enumerate(array.ravel().tolist()):
        if isinstance(value, str | bytes) and not is_finite_number(value):
            words = f"{name} holds text such as {value!r:.40}, at {name}[{place}]"
            raise ValueError(f"{words}: give numbers.")


def is_finite_number(text: str | bytes) -> bool:
    """Whether text is a plain number; Python also reads "nan" and "inf" as numbers.

    >>> is_finite_number("1.5"), is_finite_number("nan"), is_finite_number("2 kg")
    (True, False, False)
    """
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def separated(values: Any) -> tuple[Any, Any]:
    """Values as an array of NumPy's types, and which of them are missing.

    Returns
    -------
    values : ndarray, or what was given
        The latter if it is no container of values.
    missing : ndarray of bool of the same shape, or None
        None if it is no container of values.

    Examples
    --------
    >>> separated(["a", None])[1]
    array([False,  True])
    """
    is_scalar = np.isscalar(values) or getattr(values, "ndim", 1) == 0
    if values is None or is_scalar or hasattr(values, "tocsr"):
        return values, None
    if hasattr(values, "columns"):
        return _of_frame(values)
    if np.ma.isMaskedArray(values):
        array, missing = separated(np.ma.getdata(values))
        return array, missing | np.ma.getmaskarray(values)
    if isinstance(values, list | tuple):
        return _of_list(values)
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "T":  # text of any length of NumPy 2
            return separated(values.astype(object))
        missing = missing_among(values)
        return (values if missing.any() else _typed(values)), missing
    if hasattr(values, "to_numpy"):
        return _of_series(values)
    try:  # an array of another library, which its own checks take
        return values, missing_among(np.asarray(values))
    except (TypeError, ValueError, RuntimeError):
        return values, None


def missing_among(array: np.ndarray) -> np.ndarray:
    """Which entries of an array are missing."""
    if array.dtype.kind in "fc":
        return np.isnan(array)
    if array.dtype.kind in "mM":
        return np.isnat(array)
    if array.dtype.kind != "O":
        return np.zeros(array.shape, dtype=bool)
    values = array.ravel().tolist()
    found = [type(value) is not str and _is_missing(value) for value in values]
    return np.array(found, dtype=bool).reshape(array.shape)


def unlabelled(y: Any) -> np.ndarray:
    """Which rows of a file have no target: a missing one, or text that names no class.

    Where "None" is frequent, as in a column of damages, it is a class.

    >>> unlabelled(np.array(["yes", "", "NA", "none"]))
    array([False,  True,  True, False])
    >>> unlabelled(np.array(["None", "Minor", "", "None"]))
    array([False, False,  True, False])
    """
    missing: Any = missing_among(y)
    if y.dtype.kind == "U" or (y.dtype.kind == "O" and y.ndim == 1):
        labels = y.tolist()
        is_frequent = labels.count(_NONE) > _MOST_NONE * len(labels)
        no_label = NO_LABEL - {_NONE} if is_frequent else NO_LABEL
        missing |= np.array([isinstance(v, str) and v in no_label for v in labels], dtype=bool)
    return missing if missing.ndim == 1 else missing.any(axis=1)


def _is_missing(value):
    """Whether a Python value is missing: NaN, NaT and missing decimals do not equal themselves."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return np.ndim(value) == 0 and value != value  # noqa: PLR0124


def _word(value, is_masked):
    """The name of a missing value."""
    if is_masked and not _is_missing(value):
        return "masked values"
    if value is None:
        return "None"
    names = {"NAType": "NA", "NaTType": "NaT", "datetime64": "NaT", "timedelta64": "NaT"}
    return names.get(type(value).__name__, "NaN")


def _of_list(values):
    """A list's values. NumPy would make the text 'nan' of a missing label, and text of numbers."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths
        return values, None
    if array.dtype.kind in "US":
        objects = np.array(values, dtype=object)
        missing = missing_among(objects)
        is_mixed = any(not isinstance(value, str) for value in objects.ravel().tolist())
        return (objects if missing.any() or is_mixed else array), missing
    return separated(array)


def _of_frame(table):
    """A table's values, of one type if all columns are numbers."""
    if hasattr(table, "iloc"):  # where several columns may have one name
        found = [table.iloc[:, j] for j in range(table.shape[1])]
    elif hasattr(table, "column_names"):
        found = table.columns
    else:
        found = [table[name] for name in table.columns]
    columns = [separated(column) for column in found]
    if not columns or any(missing is None or missing.ndim != 1 for _, missing in columns):
        return table, None
    arrays, missing = zip(*columns, strict=True)
    kinds = {array.dtype.kind for array in arrays}
    if not kinds <= set("biuf") and not (len(kinds) == 1 and kinds <= set("mM")):
        arrays = [_as_objects(array) for array in arrays]
    return np.column_stack(arrays), np.column_stack(missing)


def _as_objects(array):
    """An array of Python's objects; of nanoseconds NumPy would make whole numbers."""
    is_of_times = array.dtype.kind in "mM"
    return (array.astype(f"{array.dtype.kind}8[us]") if is_of_times else array).astype(object)


def _of_series(series):
    """The values of a series or array of pandas, polars, Arrow or another library."""
    if hasattr(series, "dictionary_encode"):  # Arrow
        if hasattr(series.type, "value_type") and hasattr(series.type, "index_type"):
            series = series.cast(series.type.value_type)
        array = series.to_numpy(**({} if hasattr(series, "chunks") else {"zero_copy_only": False}))
        return separated(array)
    if not hasattr(series, "isna"):
        if str(series.dtype) in ("Int128", "UInt128"):  # which NumPy has not
            return _of_list(series.to_list())
        return separated(np.asarray(series.to_numpy()))
    missing, number = np.asarray(series.isna()), getattr(series.dtype, "numpy_dtype", None)
    if number is not None and number.kind in "biuf" and not missing.any():  # a nullable type
        return series.to_numpy(dtype=number), missing
    array = np.asarray(series)
    return (array if missing.any() else _typed(array)), missing


def _typed(array):
    """An array of Python's truth values, numbers, dates or durations with their type.

    Others are as they are. Truth values among numbers are 0 and 1.
    """
    if array.dtype.kind != "O":
        return array
    kinds = {type(value) for value in array.ravel().tolist()}
    if kinds and all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return array.astype(bool)
    if kinds and all(issubclass(kind, int | np.integer | np.bool_) for kind in kinds):
        whole = np.array([int(value) for value in array.ravel().tolist()]).reshape(array.shape)
        return whole if whole.dtype.kind in "iu" else array
    if kinds and all(issubclass(kind, Real | Decimal | np.bool_) for kind in kinds):
        try:
            return array.astype(np.float64)
        except OverflowError:  # beyond 1e308
            return array
    if kinds and all(issubclass(kind, timedelta | np.timedelta64) for kind in kinds):
        return array.astype("m8[us]")
    if kinds and all(issubclass(kind, date | np.datetime64) for kind in kinds):
        return _as_datetimes(array)
    return array


def _as_datetimes(array):
    """An array of dates as datetime64, those with a zone in UTC; itself if only some have one."""
    items = array.ravel().tolist()
    n_zoned = sum(getattr(item, "tzinfo", None) is not None for item in items)
    if n_zoned == len(items):
        moments = [item.astimezone(UTC).replace(tzinfo=None) for item in items]
        return np.array(moments, dtype="M8[us]").reshape(array.shape)
    if n_zoned:
        return array
    have_times = any(isinstance(item, datetime | np.datetime64) for item in items)
    return array.astype("M8[us]" if have_times else "M8[D]")
