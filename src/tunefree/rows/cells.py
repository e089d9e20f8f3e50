"""Cells of text: the kind of a column, the values of its cells, and that of one cell alone.

Numbers are plain (``-1.5e3``, in files without commas between cells also ``1,5``) or
formatted: ``1,234.50``, ``7%``, ``$5,000``. Dates are ``2024-01-31``, ``31.01.2024`` or
``01/31/2024``, and ``31/01/2024`` if the column holds a day above 12; a time and a time zone may
follow. The local time counts, as it is written.
"""

import math
import re
from datetime import datetime, timedelta
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyarrow import compute

from tunefree.rows.missing import MISSING, NO_LABEL

_MISSING = pa.array(sorted(MISSING))
_PLAIN = r"^[+-]?((\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_SIGNS, _UNIT = r"^[+-]?([$€£¥] ?)?", r"( ?[%$€£¥])?$"
_STYLED = _SIGNS + r"(\d{{1,3}}({group}\d{{3}})+|\d+)({point}\d*)?" + _UNIT
# Commas between thousands, where a comma may also be a decimal point.
_THOUSANDS = (
    r"^[+-]?([$£] ?\d{1,3}(,\d{3})+(\.\d*)?|[$€£¥]? ?\d{1,3}(,\d{3})+(,\d{3}|\.\d*))" + _UNIT
)
_ONE_STYLED = re.compile(_STYLED.format(group=",", point=r"\."), re.ASCII)
_NO_DIGITS = re.compile(r"[$€£¥%, ]")
_TRUTHS = {"true": True, "false": False}
_DAY = re.compile(
    r"(?:(?P<y>\d{4})[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})"
    r"|(?P<dd>\d{1,2})\.(?P<mm>\d{1,2})\.(?P<yy>\d{4})"
    r"|(?P<a>\d{1,2})[-/](?P<b>\d{1,2})[-/](?P<yyyy>\d{4}))"
    r"(?:[ T](?P<h>\d{1,2}):(?P<min>\d{2})(?::(?P<s>\d{2}(?:\.\d{1,9})?))?"
    r"(?: ?(?P<half>[AaPp][Mm]))?(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?)?",
    re.ASCII,
)
DATES = ("date", "date dmy")
_BLANKS = " \t\n"
_LATE_QUOTE = r'^[ \t]+"((?:[^"]|"")*)"[ \t]*$'
_NO_TEXT, _NO_NUMBER = pa.scalar(None, pa.string()), pa.scalar(None, pa.float64())


@lru_cache(maxsize=1 << 14)  # levels come again and again
def value_of(cell):
    """A cell alone, as a plain number, a truth value, as text, or None.

    Numbers may be money, percent or in groups of thousands. A cell alone does not show which of
    day and month comes first, or whether a comma is a decimal point: it is text then.

    >>> value_of("3"), value_of("2.5"), value_of("red"), value_of("NA")
    (3, 2.5, 'red', None)
    >>> value_of("$1,234.50"), value_of("7%"), value_of("TRUE"), value_of("1,5")
    (1234.5, 0.07, True, '1,5')
    """
    found = _plain_value(cell)
    if not isinstance(found, str):
        return found
    if found.lower() in _TRUTHS:
        return _TRUTHS[found.lower()]
    if not _ONE_STYLED.fullmatch(found):
        return found
    value = float(_NO_DIGITS.sub("", found))
    return number_of(value / 100.0 if "%" in found else value)


def _plain_value(cell):
    """A cell as a plain number, as text, or None."""
    cell = cell.strip()
    try:
        return cell if "_" in cell else number_of(float(cell))
    except ValueError:
        return None if cell.lower() in MISSING else cell


def label_of(cell):
    """A cell of a stream's target, as a plain number, as text, or None if it is no label.

    "-" and "none" may be names of classes.

    >>> label_of("1"), label_of("-"), label_of(" NA ")
    (1, '-', None)
    """
    text = cell.strip()
    if text in NO_LABEL:
        return None
    return text if is_marker(text) else _plain_value(text)


def is_marker(cell):
    """Whether text means a missing value among numbers."""
    return cell.strip().lower() in MISSING


def number_of(value):
    """A float as an int if it is whole; None if it is NaN."""
    if math.isnan(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def trimmed(cells):
    """Cells without the blanks around them; a quoted cell may have blanks around its quotes."""
    quoted = compute.match_substring_regex(cells, _LATE_QUOTE)
    if compute.any(quoted).as_py():
        inner = compute.replace_substring_regex(cells, _LATE_QUOTE, r"\1")
        cells = compute.if_else(quoted, compute.replace_substring(inner, '""', '"'), cells)
    return compute.utf8_trim(cells, _BLANKS)


def without_missing(cells):
    """Cells without the blanks around them; null where the value is missing."""
    cells = trimmed(cells)
    return compute.if_else(among_markers(cells), _NO_TEXT, cells)


def among_markers(cells):
    """Which of some cells, without blanks around them, mean a missing value among numbers."""
    return compute.is_in(compute.utf8_lower(cells), _MISSING)


def kind_of(cells, comma=False):
    """The kind of a column of cells from `without_missing`; `comma` allows decimal commas.

    Numbers, ``true`` and ``false``, dates (with the month first, or the day), or else text. With
    more than 20 different numbers, up to a tenth of the cells may be something else.

    >>> [kind_of(pa.array(c)) for c in (["1", "7%"], ["TRUE"], ["1/31/2024"], ["31/1/2024"], ["a"])]
    ['number', 'truth', 'date', 'date dmy', 'text']
    """
    cells = cells.drop_null()
    if not len(cells):
        return "text"
    found = _numbers(cells, comma).drop_null().to_numpy()
    if len(found) == len(cells) or looks_numeric(found, len(cells)):
        return "number"
    parts = cells[:50], cells  # the first cells rule out most kinds
    kinds = ("truth", *DATES)
    return next((k for k in kinds if not any(parsed(p, k)[1].any() for p in parts)), "text")


def looks_numeric(numbers, rows):
    """Whether a column with some text is one of numbers with a few bad cells."""
    numbers = numbers[~np.isnan(numbers)]
    return len(numbers) > 0.9 * rows and len(np.unique(numbers)) > 20


def formatted(cells):
    """Whether some cells are formatted numbers, such as 7%."""
    return bool(compute.any(compute.invert(_plain(cells, comma=False))).as_py())


def _plain(cells, comma):
    pattern = _PLAIN.format(point="[.,]" if comma else r"\.")
    return compute.match_substring_regex(cells, pattern)


def parsed(cells, kind, comma=False):
    """The values of cells from `without_missing` (null for bad ones), and which are bad."""
    if kind == "text":
        return cells, np.zeros(len(cells), dtype=bool)
    if kind == "number":
        values = _numbers(cells, comma)
        values = compute.if_else(compute.is_finite(values), values, _NO_NUMBER)
    elif kind == "truth":
        lower = compute.utf8_lower(cells)
        values = compute.equal(lower, "true")
        values = compute.if_else(compute.is_in(lower, pa.array(["true", "false"])), values, None)
    else:
        times = [_date(cell, day_first=kind == "date dmy") for cell in cells.to_pylist()]
        values = pa.array(times, pa.timestamp("us"))
    bad = compute.and_(compute.is_valid(cells), compute.is_null(values))
    return values, bad.to_numpy(zero_copy_only=False)


def _numbers(cells, comma):
    """Cells as numbers; null where they are not."""
    plain = _plain(cells, comma)
    text = compute.if_else(plain, cells, _NO_TEXT)
    text = compute.replace_substring(text, ",", ".") if comma else text
    if compute.all(compute.fill_null(plain, True)).as_py():
        return text.cast(pa.float64())
    english = _STYLED.format(group=",", point=r"\.")
    other = _STYLED.format(group="[. ]", point=",") if comma else english
    thousands = compute.match_substring_regex(cells, _THOUSANDS if comma else english)
    styled = compute.or_(thousands, compute.match_substring_regex(cells, other))
    styled = compute.and_(styled, compute.invert(plain))
    digits = compute.replace_substring_regex(cells, r"[$€£¥% ]", "")
    without_commas = compute.replace_substring(digits, ",", "")
    without_points = compute.replace_substring(digits, ".", "")
    with_point = compute.replace_substring(without_points, ",", ".")
    digits = compute.if_else(thousands, without_commas, with_point)
    values = compute.if_else(styled, digits, text).cast(pa.float64())
    percent = compute.and_(styled, compute.match_substring(cells, "%"))
    return compute.if_else(percent, compute.divide(values, 100.0), values)


def _date(cell, day_first):
    """A local time; None for a cell that is not a date, and for a day that does not exist."""
    found = None if cell is None else _DAY.fullmatch(cell)
    if found is None:
        return None
    part = found.groupdict()
    month, day = ("b", "a") if day_first else ("a", "b")
    month = int(part["m"] or part["mm"] or part[month])
    day = int(part["d"] or part["dd"] or part[day])
    year = int(part["y"] or part["yy"] or part["yyyy"])
    hour, minute, second = (float(part[name] or 0) for name in ("h", "min", "s"))
    if part["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (part["half"].lower() == "pm")
    if hour >= 24 or minute >= 60 or second >= 61:
        return None
    since_midnight = ((hour * 60 + minute) * 60 + second) * 1e6
    try:
        return datetime(year, month, day) + timedelta(microseconds=round(since_midnight))
    except (ValueError, OverflowError):
        return None
