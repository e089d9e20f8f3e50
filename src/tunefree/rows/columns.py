"""The columns of any table as arrays of a few kinds, whatever holds it.

Tables are frames of pandas and polars, tables of Arrow, arrays of NumPy and lists of rows or of
dicts. What a container knows of its columns is kept: numbers, truth values, dates, durations and
categories. Text is kept as it is written: `tunefree.rows.schema` decides what it stands for.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.arrow import compute, pa, types
from tunefree.core.format import listed
from tunefree.core.warn import DataWarning, did_you_mean, warn
from tunefree.rows.missing import missing_among

NUMBER, TRUTH, DATE, DURATION = "number", "truth", "date", "duration"
TEXT, CATEGORY, NOTHING = "text", "category", "nothing"
_EPOCH, _DAY = np.datetime64("1970-01-01"), np.timedelta64(1, "D")
# Kinds of columns whose values are numbers: of dates and durations they are days.
WITH_VALUES = NUMBER, TRUTH, DATE, DURATION
_ABSENT = -1  # the code of a missing value
# White space, and marks without a width, such as one of UTF-8 in the middle of a file.
_BLANKS = (
    " \t\n\r\v\f\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000"
    "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
)


# A plain number: digits, a sign, a point and an exponent.
PLAIN = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
# From here on floats have not all whole numbers.
EXACT = 2.0**53
_LONG = frozenset(["int64", "uint64", "int128", "uint128"])
# A column with more kinds of other cells is no column of plain numbers.
_MOST_OTHERS = 100
# The name that Arrow gives to an index of pandas without a name.
INDEX_OF_PANDAS = re.compile(r"__index_level_\d+__")
# The note of a field of Arrow about the time zones of dates, which are in local time.
_ZONE = b"tunefree.zone"
_VIEWS = {"string_view": "string", "binary_view": "binary"}
_UTC, _OFFSET = "UTC", re.compile(r"([+-])(\d\d):(\d\d)")
_OF_UTC = {"UTC", "Z", "GMT", "+00:00", "-00:00", "Etc/UTC", "Etc/GMT", "Zulu", "tzutc()"}
# Cells that show whether a closer look may be worth its time.
_FIRST_CELLS = 100


class PlainNumbers(NamedTuple):
    """The plain numbers among texts; few of the others differ."""

    values: Any  # 0 where a cell is none
    found: Any  # which cells are
    others: Any  # the distinct other texts, in order
    codes: Any  # the place of each cell among them; -1 of numbers and where it is missing


class Texts:
    """The texts of a column, trimmed; null where there is none.

    They are coded, or read as plain numbers, when this is asked for, and once.

    Parameters
    ----------
    cells : StringArray
        One a row.
    """

    def __init__(self, cells):
        self.cells = cells
        self._read: dict = {}  # values of the distinct texts, by how they are written

    @cached_property
    def _coded(self):
        coded = self.cells.dictionary_encode()
        return coded.dictionary, _indices(coded)

    @property
    def distinct(self):
        """The distinct texts in any order, as an array of Arrow."""
        return self._coded[0]

    @property
    def codes(self):
        """The place of each among the distinct ones; -1 where it is missing."""
        return self._coded[1]

    def levels(self):
        """The texts as `TextLevels` in order, which takes longer than all else for many texts."""
        distinct, place = _in_order(self.distinct)
        return TextLevels(distinct, place[self.codes])

    @cached_property
    def plain(self):
        """The `PlainNumbers`, if half of the cells are; otherwise None.

        Arrow casts texts to the bits of Python's `float`.
        """
        cells = self.cells
        head = compute.match_substring_regex(cells[:_FIRST_CELLS], PLAIN)
        if not head.true_count and head.null_count < len(head):
            return None
        is_plain = compute.match_substring_regex(cells, PLAIN).fill_null(False)
        count = is_plain.true_count
        if not count or 2 * count < len(cells) - cells.null_count:
            return None
        none = pa.scalar(None, cells.type)
        values = compute.if_else(is_plain, cells, none).cast(pa.float64()).fill_null(0.0).to_numpy()
        others = Texts(compute.if_else(is_plain, none, cells))
        if len(others.distinct) > _MOST_OTHERS or not np.isfinite(values).all():
            return None
        others = others.levels()
        is_plain = is_plain.to_numpy(zero_copy_only=False)
        return PlainNumbers(values, is_plain, others.distinct, others.codes)

    def values(self, written, chosen):
        """The values of some of the distinct texts, as they are written; NaN for the others."""
        if written not in self._read:
            self._read[written] = _values_of(self.distinct, written, chosen)
        return self._read[written]

    def keep(self, written, values, chosen):
        """Remember the values of some of the distinct texts."""
        self._read[written] = np.full(len(chosen), np.nan)
        self._read[written][chosen] = values

    @property
    def missing(self):
        """Which rows have none."""
        return self.cells.is_null().to_numpy(zero_copy_only=False)

    def text(self, row):
        """The text of a row."""
        return self.cells[int(row)].as_py()

    def count(self, texts):
        """How many rows have one of some texts."""
        return compute.is_in(self.cells, as_texts([*texts])).true_count

    def taken(self, rows):
        """The texts of some rows."""
        return Texts(self.cells.take(pa.array(rows)))


def _values_of(cells, written, chosen):
    """The values of some cells as numbers, or as days; NaN where they are none."""
    out = np.full(len(cells), np.nan)
    out[chosen] = as_numbers(written.values(cells.filter(pa.array(chosen))))
    return out


def as_numbers(values):
    """Numbers, or dates as days; NaN where they are not finite."""
    if values.dtype.kind != "M":
        return np.where(np.isfinite(values), values, np.nan)
    days = (values - _EPOCH) / _DAY
    return np.where(np.isnat(values), np.nan, days)


class TextLevels(NamedTuple):
    """Distinct texts, and the place of each row among them, as of a category."""

    distinct: Any
    codes: Any
    plain: Any = None

    def levels(self):
        """The same."""
        return self

    def values(self, written, chosen):
        """The values of some of the distinct texts, as they are written; NaN for the others."""
        return _values_of(self.distinct, written, chosen)

    def keep(self, written, values, chosen):
        """Nothing is remembered of categories, which are few."""

    @property
    def missing(self):
        """Which rows have none."""
        return self.codes < 0

    def text(self, row):
        """The text of a row."""
        return self.distinct[int(self.codes[row])].as_py()

    def count(self, texts):
        """How many rows have one of some texts."""
        found = compute.is_in(self.distinct, as_texts([*texts])).to_numpy(zero_copy_only=False)
        return np.count_nonzero(np.append(found, False)[self.codes])

    def taken(self, rows):
        """Some of the rows; levels that none of them has stay."""
        return self._replace(codes=self.codes[rows])


class RawColumn(NamedTuple):
    """A column as its container has it: values, or texts."""

    kind: str
    values: Any = None  # float64, of the kinds `WITH_VALUES`; 0 where they are absent
    absent: Any = None  # which of them are missing
    texts: Any = None  # `Texts`, or the `TextLevels` of a category
    ordered: bool = False  # whether the levels of a category have an order
    zone: str | None = None  # of dates: their time is local

    @property
    def cells(self) -> Any:
        """Distinct texts, as an array of Arrow; None without texts."""
        return None if self.texts is None else self.texts.distinct

    @property
    def codes(self) -> Any:
        """The level of each row; -1 where it is missing. None without texts."""
        return None if self.texts is None else self.texts.codes

    @property
    def plain(self) -> Any:
        """The `PlainNumbers` among texts; None if they are no column of such numbers."""
        return None if self.texts is None else self.texts.plain

    @property
    def missing(self):
        """Which rows have no value."""
        return self.absent if self.texts is None else self.texts.missing

    def taken(self, rows):
        """Some of the rows; levels that none of them has stay."""
        if self.texts is None:
            return self._replace(values=self.values[rows], absent=self.absent[rows])
        return self._replace(texts=self.texts.taken(rows))

    def text(self, row):
        """The value of a row in messages."""
        if self.texts is not None:
            return self.texts.text(row)
        if self.kind == DATE:
            moment = _EPOCH + np.timedelta64(round(self.values[row] * 86400e6), "us")
            return str(moment).removesuffix("T00:00:00.000000")
        return level_text(float(self.values[row]))


def names_of(X: Any) -> Any:
    """The names of the columns of a frame; None of other rows.

    >>> names_of({"a": [1]}), names_of(pa.table({"a": [1]}))
    (None, ['a'])
    """
    if hasattr(X, "column_names"):
        return list(X.column_names)
    return list(X.columns) if hasattr(X, "columns") and hasattr(X, "dtypes") else None


def column_named(X: Any, name: str, role: str) -> Any:
    """A column of a frame as an array, by its name; `role` is the argument that names it.

    >>> column_named(pa.table({"a": [1]}), "a", "exposure")
    array([1])
    """
    names = names_of(X)
    if names is None:
        raise ValueError(f"{role}={name!r} names a column, and X is not a frame: give the numbers.")
    if name not in names:
        meant = did_you_mean(name, names, " (did you mean {}?)") or ""
        raise ValueError(f"{role}={name!r}: X has no such column{meant}.")
    column = X.column(name) if hasattr(X, "drop_columns") else X[name]
    return column.to_numpy()


def without_columns(X: Any, names: Any) -> Any:
    """A frame without the columns of some names, of those that it has.

    >>> without_columns(pa.table({"a": [1], "b": [2]}), ["b", "c"]).column_names
    ['a']
    """
    present = [name for name in names if name in (names_of(X) or ())]
    if not present:
        return X
    if hasattr(X, "drop_columns"):
        return X.drop_columns(present)
    return X.drop(columns=present) if hasattr(X, "iloc") else X.drop(present)


def without_index(X: Any) -> Any:
    """A frame without the columns that hold an index of pandas, which Arrow names itself.

    >>> without_index(pa.table({"a": [1], "__index_level_0__": [7]})).column_names
    ['a']
    """
    is_lazy = hasattr(X, "collect_schema") and hasattr(X, "collect")  # refused by `check_frame`
    names = () if is_lazy else names_of(X) or ()
    index = [name for name in names if isinstance(name, str) and INDEX_OF_PANDAS.fullmatch(name)]
    return without_columns(X, index) if 0 < len(index) < len(names) else X


def named_table(columns: list, names: Any) -> Any:
    """Columns as a table of Arrow; as an array if not all names are text, which then name nothing.

    >>> named_table([np.ones(1)], ["a"]).column_names, named_table([np.ones(1)], [0])
    (['a'], array([[1.]]))
    """
    if names is None or not all(isinstance(name, str) for name in names):
        return np.column_stack(columns)
    return pa.table(columns, list(names))


def as_table(X: Any, names: Any = None) -> Any:
    """Rows in lists as an array, or, of dicts, as a table of Arrow; anything else as it is.

    Frames lose the columns that hold an index of pandas.

    Parameters
    ----------
    X : table
    names : sequence of str, optional
        The columns that are wanted of dicts. By default they are those of all rows, in the order of
        their appearance.

    Examples
    --------
    >>> as_table([{"a": 1, "b": "u"}, {"a": 2}])["b"].to_pylist()
    ['u', None]
    >>> as_table([[1, "u"], [2.5, "v"]])
    array([[1, 'u'],
           [2.5, 'v']], dtype=object)
    """
    if isinstance(X, np.ndarray) and X.dtype.kind == "T":  # text of any length of NumPy 2
        return X.astype(object)
    if not isinstance(X, list | tuple) or not len(X):
        return without_index(_in_plain_arrays(X))
    if all(isinstance(row, Mapping) for row in X):
        found = dict.fromkeys(key for row in X for key in row)
        keys = list(found) if names is None else names
        _warn_of_lacking(keys, {str(key) for key in found})
        return _of_dicts(X, keys)
    try:
        array = np.asarray(X)
    except ValueError:  # rows of several lengths, which scikit-learn refuses
        return X
    if array.dtype.kind == "O" and array.ndim == 2:
        return array
    # NumPy would make text of numbers, and floats of whole numbers.
    if array.dtype.kind in "US":
        return np.array(X, dtype=object)
    if array.dtype.kind in "iuf" and (np.abs(array) >= EXACT).any():
        items = np.array(X, dtype=object)
        return items if any(map(_is_large_whole, items.ravel().tolist())) else X
    return X


def _of_dicts(rows, keys):
    """Rows of dicts as a table of Arrow, whose fields name the time zones of dates."""
    columns, fields = [], []
    for key in keys:
        cells = of_array(np.array([*(row.get(key) for row in rows), None], dtype=object)[:-1])
        columns.append(_arrow_of(cells))
        noted = None if cells.zone is None else {_ZONE: cells.zone}
        fields.append(pa.field(str(key), columns[-1].type, metadata=noted))
    return pa.table(columns, pa.schema(fields))


def _in_plain_arrays(X):
    """A table of Arrow without views of text and runs, of which it takes no rows; others as given.

    >>> runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.5, 2.5]))
    >>> _in_plain_arrays(pa.record_batch([runs], ["a"]))["a"].to_pylist()
    [1.5, 1.5, 2.5]
    """
    if isinstance(X, pa.RecordBatch):
        X = pa.Table.from_batches([X])
    if not isinstance(X, pa.Table):
        return X
    for j, field in enumerate(X.schema):
        kind = field.type
        if types.is_run_end_encoded(kind):
            chunks = [compute.run_end_decode(chunk) for chunk in X.column(j).chunks]
            column = pa.chunked_array(chunks, kind.value_type)
        elif str(kind) in _VIEWS:
            column = X.column(j).cast(_VIEWS[str(kind)])
        else:
            continue
        X = X.set_column(j, pa.field(field.name, column.type, metadata=field.metadata), column)
    return X


def _is_large_whole(item):
    """Whether an object is a whole number, and not a float, beyond those that all are floats."""
    return isinstance(item, int | np.integer) and abs(item) >= EXACT


def _warn_of_lacking(names, keys):
    """Warn of the columns that no row of dicts has; a frame without them is refused."""
    lacking = [str(name) for name in names if str(name) not in keys]
    if lacking:
        columns = listed([*map(repr, lacking)])
        warn(f"No row of X has a value of {columns}: they count as missing.", DataWarning)


def must_be_read(X: Any) -> bool:
    """Whether a table holds more than numbers by their types, so that its cells must be read.

    Whole numbers that differ and are equal as floats are more than numbers, too.

    Examples
    --------
    >>> must_be_read(np.eye(2)), must_be_read(np.array([["1"]])), must_be_read(pa.table({"a": [1]}))
    (False, True, False)
    """
    if hasattr(X, "tocsr"):
        return False
    if hasattr(X, "column_names"):
        is_number = [types.is_integer(t) or types.is_floating(t) for t in X.schema.types]
        return not all(is_number) or _loses_digits(X, X.schema.types)
    if names_of(X) is not None:
        is_number = [_is_number_type(dtype) for dtype in X.dtypes]
        return not all(is_number) or _loses_digits(X, X.dtypes)
    if not isinstance(X, np.ndarray) or X.ndim != 2:
        return False
    return X.dtype.kind in "OUSMm" or _loses_digits(X, [X.dtype] * X.shape[1])


def _loses_digits(X, dtypes):
    """Whether a column of whole numbers of 64 bits or more has some that are equal as floats."""
    is_long = [str(getattr(dtype, "subtype", dtype)).lower() in _LONG for dtype in dtypes]
    if not any(is_long):
        return False
    if isinstance(X, np.ndarray) and not (X.size and np.abs(X.astype(np.float64)).max() >= EXACT):
        return False
    pairs = zip(is_long, raw_columns(X), strict=True)
    return any(long and column.texts is not None for long, column in pairs)


def _is_number_type(dtype):
    if isinstance(dtype, np.dtype):
        return dtype.kind in "iufb"
    is_numeric = getattr(dtype, "is_numeric", None)  # of polars a method, which a Decimal has, too
    if callable(is_numeric):
        return bool(is_numeric()) and not str(dtype).startswith("Decimal")
    return getattr(dtype, "kind", "O") in "iuf" and not hasattr(dtype, "pyarrow_dtype")


def raw_columns(X: Any) -> Iterator[RawColumn]:
    """The columns of a frame or an array of two dimensions, one by one.

    Examples
    --------
    >>> [column.kind for column in raw_columns(pa.table({"a": [1.5], "b": ["u"], "c": [True]}))]
    ['number', 'text', 'truth']
    """
    if hasattr(X, "column_names"):
        for field, column in zip(X.schema, X.columns, strict=True):
            zone = (field.metadata or {}).get(_ZONE, b"").decode()
            raw = of_arrow(column)
            yield raw._replace(zone=zone) if zone else raw
    elif hasattr(X, "iloc"):
        yield from (_of_pandas(X.iloc[:, j]) for j in range(X.shape[1]))
    elif names_of(X) is not None:  # polars
        yield from (_of_polars(X[name]) for name in X.columns)
    elif hasattr(X, "tocsr"):
        yield from (of_array(X[:, [j]].toarray()[:, 0]) for j in range(X.shape[1]))
    else:
        yield from (of_array(X[:, j]) for j in range(X.shape[1]))


def _nothing(n):
    """A column without any value."""
    return RawColumn(NOTHING, np.zeros(n), np.ones(n, dtype=bool))


# --- of arrays ------------------------------------------------------------------------------------


def of_array(values: np.ndarray) -> RawColumn:
    """The column of an array of any type.

    Raises
    ------
    TypeError
        If a value is neither a number, text, a truth value, a date nor a duration.

    Examples
    --------
    >>> of_array(np.array([1, "u", None], dtype=object)).cells.to_pylist()
    ['1', 'u']
    """
    kind = values.dtype.kind
    if kind in "iuf":
        numbers = values.astype(np.float64)
        if kind != "f" and _are_rounded(values, numbers):
            return _of_texts(as_texts(values.astype(str).tolist()))
        absent = np.isnan(numbers)
        return RawColumn(
            NUMBER, np.where(absent, 0.0, numbers) if absent.any() else numbers, absent
        )
    if kind == "b":
        return RawColumn(TRUTH, values.astype(np.float64), np.zeros(len(values), dtype=bool))
    if kind in "Mm":
        return _of_times(values)
    if kind == "S":
        return _of_objects(values.astype(object))
    if kind == "U":
        return _of_texts(as_texts(values.tolist()))
    if kind == "O":
        return _of_objects(values)
    raise TypeError(f"holds values of type {values.dtype}: give numbers, text or dates.")


def _are_rounded(values, numbers):
    """Whether whole numbers that differ are equal as floats: their digits must be kept as text."""
    large = np.abs(numbers) >= EXACT
    return bool(large.any()) and len(np.unique(numbers[large])) < len(np.unique(values[large]))


def _of_times(values, zone=None):
    """The column of datetime64, in local time, or of timedelta64."""
    absent = np.isnat(values)
    if len(values) and absent.all():
        return _nothing(len(values))
    if np.datetime_data(values.dtype)[0] == "ns":  # days since 1970 have the bits of microseconds
        micros = values.astype(f"{values.dtype.kind}8[us]")
        values = micros if (micros == values)[~absent].all() else values
    is_date = values.dtype.kind == "M"
    days = ((values - _EPOCH) if is_date else values) / _DAY
    return RawColumn(DATE if is_date else DURATION, np.where(absent, 0.0, days), absent, zone=zone)


def _of_objects(values):
    """The column of an array of Python's objects."""
    items = values.tolist()
    absent = missing_among(values)
    present = [item for item, gone in zip(items, absent, strict=True) if not gone]
    kinds = set(map(type, present))
    if not kinds:
        return _nothing(len(items))
    if all(issubclass(kind, str) for kind in kinds):
        if len(present) < len(items):
            items = [None if gone else v for v, gone in zip(items, absent, strict=True)]
        return _of_texts(as_texts(items))
    families: Any = {_family(kind) for kind in kinds}
    if None in families:
        wrong = next(item for item in present if _family(type(item)) is None)
        is_nested = isinstance(wrong, list | tuple | Mapping | np.ndarray | set)
        way_out = "give its entries as columns" if is_nested else "make text of it with str()"
        raise TypeError(
            f"holds {wrong!r:.80}: its argument must be a string or a real number, or a date; "
            f"{way_out}."
        )
    if families <= {NUMBER, TRUTH} or families in ({DATE}, {DURATION}):
        kind: Any = NUMBER if len(families) > 1 else families.pop()
        found = np.zeros(len(items))
        found[~absent] = [_number_of(item, kind) for item in present]
        is_large = kind == NUMBER and bool((np.abs(found) >= EXACT).any())
        if is_large and len(np.unique(found[~absent])) < len({*present}):  # digits would be lost
            texts = [None if gone else str(v) for v, gone in zip(items, absent, strict=True)]
            return _of_texts(as_texts(texts))
        return RawColumn(kind, found, absent, zone=_zone_of(present, kind))
    texts = [None if gone else _text_among(v) for v, gone in zip(items, absent, strict=True)]
    return _of_texts(as_texts(texts))


def _text_among(value):
    """`cell_text` beside cells of other kinds: 1:30:00 alone would be a time of day."""
    text = cell_text(value)
    is_short = isinstance(value, timedelta | np.timedelta64) and "day" not in text
    return f"0 days, {text}" if is_short else text


def _family(kind):
    """The kind of a column of objects of a type; None if it is no cell."""
    if issubclass(kind, str | bytes):
        return TEXT
    if issubclass(kind, bool | np.bool_):
        return TRUTH
    if issubclass(kind, timedelta | np.timedelta64):
        return DURATION
    if issubclass(kind, date | np.datetime64 | time):
        return DATE
    return NUMBER if issubclass(kind, Real | Decimal) else None


def _number_of(item, kind):
    """An object as a number, or as days."""
    if kind == DATE:
        if isinstance(item, time):  # a time alone is one of the first of January 1970
            item = datetime.combine(date(1970, 1, 1), item)
        if isinstance(item, datetime):
            item = item.replace(tzinfo=None)  # the local time, as it is written
        return (np.datetime64(item) - _EPOCH) / _DAY
    if kind == DURATION:
        return np.timedelta64(item) / _DAY
    try:
        return float(item)
    except OverflowError:
        raise ValueError(f"holds {item!r:.40}: give numbers below 1e308.") from None


def _zone_of(items, kind):
    """The names of the time zones of dates."""
    if kind != DATE:
        return None
    return zones_joined({str(z) for z in {getattr(v, "tzinfo", None) for v in items} - {None}})


def zones_joined(zones: Any) -> str | None:
    """Names of time zones as one text; None of none.

    >>> zones_joined(["+02:00", "Z"]), zones_joined([])
    ('+02:00, UTC', None)
    """
    return ", ".join(sorted(set(map(_zone_name, zones)))) or None


def are_other_zones(known: str | None, new: str | None) -> bool:
    """Whether some zones of dates are none of those that are known.

    An offset may be that of a region, or of its summer time. Dates without a zone are in any.

    >>> [are_other_zones("Europe/Rome", new) for new in ("UTC", "Asia/Tokyo", "+01:00", None)]
    [True, True, False, False]
    >>> [are_other_zones("+01:00", new) for new in ("+02:00", "+01:00, +05:00")]
    [False, True]
    """
    if not known or not new:
        return False
    ours = [*map(_zone_name, known.split(", "))]
    return not all(_may_be_among(_zone_name(zone), ours) for zone in new.split(", "))


def _may_be_among(zone, known):
    """Whether a zone is one of those that are known, or an offset that one of them may have."""
    if zone in known:
        return True
    others = [own for own in known if own != _UTC]
    return zone != _UTC and any(_may_be_same(zone, other) for other in others)


def _may_be_same(one, other):
    """Whether two zones may be the same in winter or in summer: regions are not, nor is UTC."""
    n_offsets = sum(_OFFSET.fullmatch(zone) is not None for zone in (one, other))
    ours, theirs = _hours_of(one), _hours_of(other)
    if n_offsets == 0:
        return False
    apart = [abs(a - b) for a in ours for b in theirs]
    return not apart or min(apart) <= n_offsets - 1


def _hours_of(zone):
    """The hours from UTC of an offset, or of a region in January and July; none if unknown."""
    if found := _OFFSET.fullmatch(zone):
        return [float(found[1] + "1") * (int(found[2]) + int(found[3]) / 60.0)]
    try:
        from zoneinfo import ZoneInfo  # services read cells with few modules

        region = ZoneInfo(zone)
    except (ImportError, ValueError, KeyError, OSError):  # no such region, or no table of them
        return []
    offsets = [datetime(2024, month, 1, tzinfo=region).utcoffset() for month in (1, 7)]
    return [offset / timedelta(hours=1) for offset in offsets if offset is not None]


def _zone_name(zone):
    """One name of those of a zone: UTC, an offset such as +01:00, or a region."""
    if region := re.search(r"\[(.+/.+)\]$", zone):
        zone = region[1]
    zone = re.sub(r"^(?:UTC|GMT)(?=[+-])|\[.*\]$| \(.*\)$", "", zone)
    zone = re.sub(r"^([+-]\d\d):?(\d\d)?$", lambda found: f"{found[1]}:{found[2] or '00'}", zone)
    return _UTC if zone in _OF_UTC else zone


def as_texts(items):
    """A list of str and None as an array of Arrow."""
    try:
        return pa.array(items, pa.string())
    except UnicodeEncodeError:  # halves of pairs, which stand for no character
        return pa.array([v if v is None else v.encode("utf-8", "replace").decode() for v in items])


def _of_texts(cells):
    """The column of texts of Arrow: blanks around them do not count."""
    cells = _trimmed(cells)
    if cells.null_count == len(cells):
        return _nothing(len(cells))
    return RawColumn(TEXT, texts=Texts(cells))


def _trimmed(cells):
    """Texts without blanks around them; null where nothing is left."""
    cells = compute.utf8_trim(cells, _BLANKS)
    is_empty = compute.equal(cells, "")
    if not compute.any(is_empty).as_py():
        return cells
    return compute.if_else(is_empty, pa.scalar(None, cells.type), cells)


def _in_order(distinct):
    """Distinct texts in order, and the new place of each; the last place is that of none, -1."""
    order = compute.array_sort_indices(distinct)
    place = np.empty(len(order) + 1, dtype=np.int64)
    place[order.to_numpy()], place[-1] = np.arange(len(order)), _ABSENT
    return distinct.take(order), place


def _indices(coded):
    """The codes of a dictionary of Arrow; -1 where a value is missing."""
    codes = coded.indices.cast(pa.int64())  # those of polars have no sign
    return codes.fill_null(_ABSENT).to_numpy(zero_copy_only=False)


def cell_text(value: Any) -> str:
    """A value as text: 1 and 1.0 are the same, and so is a date with or without a time of 0:00.

    Whole numbers keep their digits where a float would lose some.

    >>> cell_text(1.0), cell_text(True), cell_text(date(2024, 5, 1)), cell_text("1.0")
    ('1', 'True', '2024-05-01', '1.0')
    >>> cell_text(2**53 + 1), cell_text(np.timedelta64(90, "m"))
    ('9007199254740993', '1:30:00')
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    if isinstance(value, timedelta | np.timedelta64):  # that of pandas has another text
        return str(np.timedelta64(value).astype("m8[us]").item())
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_)
    if not is_number:
        return str(value)
    number: Any = value
    return str(int(number)) if _loses_digits_alone(number) else level_text(float(number))


def _loses_digits_alone(value: Any) -> bool:
    """Whether a whole number, of Python or a decimal, is another one as a float."""
    is_whole = isinstance(value, Integral) or (
        isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value()
    )
    try:
        return is_whole and float(value) != int(value)
    except OverflowError:  # beyond all floats
        return True


def level_text(value):
    """A number as text: whole ones without a point.

    >>> level_text(2.0), level_text(0.25)
    ('2', '0.25')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)


# --- of frames ------------------------------------------------------------------------------------


def _of_pandas(series):
    """The column of a Series."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return of_array(series.to_numpy())
    name = str(dtype)
    if name == "category":
        return _of_levels(series.cat.categories.tolist(), series.cat.codes, series.cat.ordered)
    if getattr(dtype, "tz", None) is not None:
        return _of_times(series.dt.tz_localize(None).to_numpy(), str(dtype.tz))
    if name.startswith("period"):
        return _of_times(series.dt.to_timestamp().to_numpy())
    if name.startswith("Sparse"):
        return of_array(series.to_numpy())
    if name.startswith("interval"):
        return of_array(series.astype(object).map(str, na_action="ignore").to_numpy())
    return of_arrow(pa.array(series, from_pandas=True))


def _of_polars(series):
    """The column of a Series of polars; some of its types are none of Arrow's."""
    if str(series.dtype) in ("Object", "Int128", "UInt128"):
        return of_array(np.array([*series.to_list(), None], dtype=object)[:-1])
    return of_arrow(series.to_arrow())


def _of_levels(values, codes, ordered=False):
    """The column of categories; of levels that no row has none is left."""
    codes = np.asarray(codes, dtype=np.int64)
    used = np.bincount(codes[codes >= 0], minlength=len(values)) > 0
    texts = [cell_text(v) if u else None for v, u in zip(values, used.tolist(), strict=True)]
    own = Texts(_trimmed(as_texts(texts)))
    levels = TextLevels(own.distinct, own.codes) if ordered else own.levels()
    codes = np.append(levels.codes, _ABSENT)[codes]
    if not len(levels.distinct):
        return _nothing(len(codes))
    return RawColumn(CATEGORY, texts=levels._replace(codes=codes), ordered=ordered)


def of_arrow(column: Any) -> RawColumn:
    """The column of an array of Arrow.

    >>> of_arrow(pa.array(["u", None, " u "])).codes
    array([ 0, -1,  0])
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # of no chunks, or of too many texts for one
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([])
    kind = column.type
    if types.is_null(kind):
        return _nothing(len(column))
    if _is_of_pandas(kind):
        return _of_pandas(column.to_pandas())
    if types.is_dictionary(kind):
        values = column.dictionary
        levels = (values.to_pandas() if _is_of_pandas(values.type) else values).tolist()
        return _of_levels(levels, _indices(column), bool(kind.ordered))
    if types.is_binary(kind) or types.is_large_binary(kind):
        coded = column.dictionary_encode()
        distinct = as_texts([cell_text(value) for value in coded.dictionary.to_pylist()])
        return _of_texts(distinct.take(coded.indices))
    if _is_text(kind):
        return _of_texts(column.cast(pa.string()))
    if types.is_timestamp(kind) or types.is_date(kind):
        zone = getattr(kind, "tz", None)
        if zone is not None:
            column = compute.local_timestamp(column)
        column = column.cast(pa.timestamp("us"), safe=False)
        return _of_times(column.to_numpy(zero_copy_only=False), zone)
    if types.is_duration(kind):
        return _of_times(column.to_numpy(zero_copy_only=False))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        absent = column.is_null().to_numpy(zero_copy_only=False)
        values = column.fill_null(False if types.is_boolean(kind) else 0)
        values = values.to_numpy(zero_copy_only=False)
        if types.is_floating(kind):
            absent = absent | np.isnan(values)
        numbers = np.where(absent, 0.0, values.astype(np.float64))
        if types.is_integer(kind) and _are_rounded(values, numbers):
            return _of_texts(column.cast(pa.string()))
        return RawColumn(TRUTH if types.is_boolean(kind) else NUMBER, numbers, absent)
    return of_array(np.array([*column.to_pylist(), None], dtype=object)[:-1])


def _is_of_pandas(kind):
    """Whether a type is one that pandas adds to Arrow: periods and intervals."""
    return getattr(kind, "extension_name", "").startswith("pandas.")


def _is_text(kind):
    return types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view"


def _arrow_of(column):
    """A column of Python's values as an array of Arrow; as text if they are of several kinds."""
    if column.texts is not None:
        return column.texts.cells
    if column.kind == NOTHING:
        return pa.nulls(len(column.missing))
    mask = column.absent
    if column.kind == DATE:
        times = _EPOCH + np.round(column.values * 86400e6).astype("m8[us]")
        return pa.array(times.astype("M8[us]"), mask=mask)
    if column.kind == DURATION:
        return pa.array(np.round(column.values * 86400e6).astype("m8[us]"), mask=mask)
    values = column.values.astype(bool) if column.kind == TRUTH else column.values
    return pa.array(values, mask=mask)
