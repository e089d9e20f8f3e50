r"""What the reading of cells takes of pyarrow, in Python: names and meanings are Arrow's.

Arrays are lists, in which None is null. Arrow's patterns are those of RE2: ``\d``, ``\w`` and
``\s`` are of ASCII, and ``$`` is the end of the text.
"""

import re
import sys
import unicodedata
from functools import cache
from typing import Any, NamedTuple

import numpy as np


class ArrowInvalid(ValueError):
    """Values that cannot be cast."""


class DataType(NamedTuple):
    """A type by its name."""

    name: str


class Scalar(NamedTuple):
    """A value alone."""

    value: Any

    def as_py(self):
        """The value."""
        return self.value


def string():
    """The type of texts."""
    return DataType("string")


def float64():
    """The type of floats."""
    return DataType("double")


def int64():
    """The type of whole numbers."""
    return DataType("int64")


def bool_():
    """The type of truth values."""
    return DataType("bool")


def timestamp(unit):
    """The type of times."""
    return DataType(f"timestamp[{unit}]")


class Array:
    """Values of one type."""

    def __init__(self, values, kind):
        self.values, self.type = values, kind

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return map(Scalar, self.values)

    def __getitem__(self, at):
        found = self.values[at]
        return Array(found, self.type) if isinstance(at, slice) else Scalar(found)

    @property
    def null_count(self):
        """How many are null."""
        return sum(value is None for value in self.values)

    @property
    def true_count(self):
        """How many are true."""
        return sum(value is True for value in self.values)

    def is_null(self):
        """Which are null."""
        return Array([value is None for value in self.values], bool_())

    def is_valid(self):
        """Which are not null."""
        return Array([value is not None for value in self.values], bool_())

    def equals(self, other):
        """Whether these are the values of another array."""
        return self.values == other.values

    def fill_null(self, value):
        """The same with a value for null."""
        return Array([value if v is None else v for v in self.values], self.type)

    def drop_null(self):
        """Those that are not null."""
        return Array([value for value in self.values if value is not None], self.type)

    def filter(self, mask):
        """Those where a mask is true."""
        chosen = zip(self.values, mask.values, strict=True)
        return Array([value for value, keep in chosen if keep], self.type)

    def take(self, places):
        """Those at some places."""
        return Array([None if k is None else self.values[k] for k in places.values], self.type)

    def unique(self):
        """Each value once, in the order of their appearance."""
        return Array([*dict.fromkeys(self.values)], self.type)

    def dictionary_encode(self):
        """The distinct values, and the place of each among them."""
        place = {value: k for k, value in enumerate(dict.fromkeys(self.drop_null().values))}
        return Dictionary(
            Array([*place], self.type), Array([*map(place.get, self.values)], int64())
        )

    def cast(self, kind):
        """The same as another type."""
        if kind.name == self.type.name:
            return self
        convert: Any = {"double": float, "int64": int, "string": str}.get(kind.name, _time)
        try:
            return Array([None if v is None else convert(v) for v in self.values], kind)
        except ValueError as problem:
            raise ArrowInvalid(str(problem)) from None

    def to_pylist(self):
        """A list."""
        return list(self.values)

    def to_numpy(self, zero_copy_only=True):
        """An array of NumPy."""
        has_null, name = None in self.values, self.type.name
        if name.startswith("timestamp"):
            return np.array(["NaT" if v is None else v for v in self.values], "M8[us]")
        if name in ("double", "int64") and (has_null or name == "double"):
            return np.array([np.nan if v is None else v for v in self.values], float)
        if name == "string" or has_null:
            return np.array([*self.values, None], object)[:-1]
        return np.array(self.values, np.int64 if name == "int64" else bool)


StringArray = ChunkedArray = Array


class Dictionary(NamedTuple):
    """Distinct values and places among them."""

    dictionary: Array
    indices: Array


class _Fields(tuple):
    """The fields of a type, `DataType`s."""

    @property
    def num_fields(self):
        return len(self)

    def field(self, k):
        return self[k]


class Struct(NamedTuple):
    """Records as tuples, or None; and the names of their fields."""

    records: list
    names: tuple

    @property
    def type(self):
        """The fields."""
        return _Fields(map(DataType, self.names))

    def field(self, name):
        """One field of all records."""
        return struct_field(self, name)

    def drop_null(self):
        """Those that are not null."""
        return Struct([record for record in self.records if record is not None], self.names)


def _time(text):
    return np.datetime64(text.replace(" ", "T"), "us")


def array(values: Any, type: Any = None, mask: Any = None) -> Array:
    """An array of a list, or of NumPy's."""
    items = values.tolist() if hasattr(values, "tolist") else list(values)
    if mask is not None:
        items = [None if gone else item for item, gone in zip(items, mask.tolist(), strict=True)]
    for item in items:
        if isinstance(item, str) and not item.isascii():
            item.encode()  # an error for halves of pairs, as in pyarrow
    if type is None:
        kinds = {bool: bool_(), int: int64(), float: float64()}
        first = next((item for item in items if item is not None), "")
        type = kinds.get(first.__class__, string())
    return Array(items, type)


def scalar(value, type=None):
    """A value alone."""
    return Scalar(value)


def nulls(n, type):
    """So many nulls."""
    return Array([None] * n, type)


# --- compute --------------------------------------------------------------------------------------


@cache
def _spaces():
    """The class of the blanks of Unicode, for patterns."""
    every = map(chr, range(sys.maxunicode + 1))
    return "".join(c for c in every if unicodedata.category(c) == "Zs")


_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}


@cache
def _pattern(text):
    """A pattern of RE2 for `re`."""
    out, at, within = [], 0, False
    while at < len(text):
        c = text[at]
        if c == "\\":
            code = text[at + 1]
            at += 2
            if code in "pP":
                at = text.index("}", at) + 1
                out.append(_spaces() if within else f"[{_spaces()}]")
            elif code == "x" and text[at] == "{":
                stop = text.index("}", at)
                out.append(re.escape(chr(int(text[at + 1 : stop], 16))))
                at = stop + 1
            elif code.lower() in _CLASSES:
                inner = _CLASSES[code.lower()]
                if code.isupper():
                    out.append(f"[^{inner}]")
                else:
                    out.append(inner if within else f"[{inner}]")
            else:
                out.append(f"\\{code}")
            continue
        if c == "[" and not within:
            within = True
            out.append(c)
            at += 1
            if text[at] == "^":
                out.append("^")
                at += 1
            if text[at] == "]":
                out.append(r"\]")
                at += 1
            continue
        if c == "[":
            c = r"\["
        elif c == "]":
            within = False
        elif c == "$" and not within:
            c = r"\Z"
        out.append(c)
        at += 1
    return re.compile("".join(out))


def _each(function, cells, kind):
    return Array([None if v is None else function(v) for v in cells.values], kind)


def _of_two(function, a, b):
    """A function of pairs; null where one is."""
    n = len(a if isinstance(a, Array) else b)
    pairs = zip(_many(a, n), _many(b, n), strict=True)
    return Array([None if None in pair else function(*pair) for pair in pairs], bool_())


def _many(value, n):
    """The values of an array, or n times a single one."""
    if isinstance(value, Array):
        return value.values
    return [value.value if isinstance(value, Scalar) else value] * n


def any(cells):
    """Whether any is true."""
    return Scalar(True in cells.values)


def and_(a, b):
    """Both."""
    return _of_two(lambda x, y: x and y, a, b)


def or_(a, b):
    """One or both."""
    return _of_two(lambda x, y: x or y, a, b)


def or_kleene(a, b):
    """One or both, also where the other is null."""
    pairs = zip(a.values, b.values, strict=True)
    return Array([True if True in pair else (None if None in pair else False) for pair in pairs],
                 bool_())  # fmt: skip


def invert(cells):
    """Not."""
    return _each(lambda v: not v, cells, bool_())


def equal(a, b):
    """Which are equal."""
    return _of_two(lambda x, y: x == y, a, b)


def less_equal(a, b):
    """Which are not larger."""
    return _of_two(lambda x, y: x <= y, a, b)


def if_else(mask, a, b):
    """Values of a where a mask is true, and else of b."""
    n = len(mask)
    kind = next((x.type for x in (a, b) if isinstance(x, Array)), string())
    triples = zip(mask.values, _many(a, n), _many(b, n), strict=True)
    return Array([None if m is None else (x if m else y) for m, x, y in triples], kind)


def coalesce(a, b):
    """Values of a, and of b where a is null."""
    pairs = zip(a.values, b.values, strict=True)
    return Array([y if x is None else x for x, y in pairs], a.type)


def fill_null(cells, value):
    """The same with a value for null."""
    return cells.fill_null(value)


def is_in(cells, value_set):
    """Which are among some values."""
    known = set(value_set.values)
    return Array([value in known for value in cells.values], bool_())


def index_in(cells, value_set):
    """The place among some values; null for others."""
    place = {value: k for k, value in reversed([*enumerate(value_set.values)])}
    return Array([*map(place.get, cells.values)], int64())


def unique(cells):
    """Each value once."""
    return cells.unique()


def value_counts(cells):
    """How often each value occurs."""
    counts: dict = {}
    for value in cells.values:
        counts[value] = counts.get(value, 0) + 1
    return Counts(Array([*counts], cells.type), Array([*counts.values()], int64()))


class Counts(NamedTuple):
    """Values and how often they occur."""

    values: Array
    counts: Array

    def field(self, name):
        """The values or the counts."""
        return getattr(self, name)


def min(cells):
    """The least."""
    found = cells.drop_null().values
    return Scalar(sorted(found)[0] if found else None)


def array_sort_indices(cells):
    """The places of values in order."""
    values = cells.values
    present = sorted((k for k, v in enumerate(values) if v is not None), key=values.__getitem__)
    return Array([*present, *(k for k, v in enumerate(values) if v is None)], int64())


def struct_field(found, name):
    """One field of records, by its name or [place]."""
    k = name[0] if isinstance(name, list) else found.names.index(name)
    return Array([None if r is None else r[k] for r in found.records], string())


def extract_regex(cells, pattern):
    """The named groups of a pattern; null where a cell does not match."""
    search = _pattern(pattern)
    names = sorted(search.groupindex, key=search.groupindex.__getitem__)
    found = [None if v is None else search.search(v) for v in cells.values]
    records = [m and tuple(m[name] or "" for name in names) for m in found]
    return Struct(records, tuple(names))


def match_substring_regex(cells, pattern):
    """Which cells have a pattern."""
    search = _pattern(pattern).search
    return _each(lambda v: search(v) is not None, cells, bool_())


def replace_substring_regex(cells, pattern, replacement):
    """Cells with a text for a pattern."""
    replace = _pattern(pattern).sub
    return _each(lambda v: replace(replacement, v), cells, cells.type)


def match_substring(cells, pattern):
    """Which cells have a text."""
    return _each(lambda v: pattern in v, cells, bool_())


def replace_substring(cells, pattern, replacement):
    """Cells with a text for another."""
    return _each(lambda v: v.replace(pattern, replacement), cells, cells.type)


def ends_with(cells, pattern):
    """Which cells end with a text."""
    return _each(lambda v: v.endswith(pattern), cells, bool_())


def binary_join_element_wise(*parts):
    """Texts joined by the last argument; null where one is."""
    *parts, between = parts
    n = next(len(part) for part in parts if isinstance(part, Array))
    rows = zip(*(_many(part, n) for part in parts), strict=True)
    return Array([None if None in row else between.join(row) for row in rows], string())


def utf8_length(cells):
    """Letters of each."""
    return _each(len, cells, int64())


def utf8_lower(cells):
    """In lower case, letter by letter."""

    def lower(text):
        small = text.lower()
        if text.isascii():
            return small
        return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)

    return _each(lower, cells, cells.type)


def utf8_trim(cells, characters):
    """Without some characters around."""
    return _each(lambda v: v.strip(characters), cells, cells.type)


def utf8_rtrim(cells, characters):
    """Without some characters behind."""
    return _each(lambda v: v.rstrip(characters), cells, cells.type)


def utf8_rpad(cells, width, padding):
    """Filled up to a width."""
    return _each(lambda v: v.ljust(width, padding), cells, cells.type)


def utf8_slice_codeunits(cells, start, stop):
    """Some letters of each."""
    return _each(lambda v: v[start:stop], cells, cells.type)
