"""Cells of text alone: numbers, labels, and markers of missing values.

Whole columns are read by `tunefree.rows.schema`.
"""

import math
import re

import numpy as np

from tunefree.core.arrow import compute, pa
from tunefree.rows.missing import MISSING, NO_LABEL

_BLANKS = " \t\n"
_STYLED = re.compile(r"[+-]?([$€£¥] ?)?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?( ?[%$€£¥])?", re.ASCII)
_NO_DIGITS = re.compile(r"[$€£¥%, ]")
_TRUTHS = {"true": True, "false": False}
_LATE_QUOTE = r'^[ \t]+"((?:[^"]|"")*)"[ \t]*$'


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
    if not _STYLED.fullmatch(found):
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
    quoted = compute.match_substring(cells, '"')  # which takes a tenth of the pattern's time
    if quoted.true_count:
        quoted = compute.match_substring_regex(cells, _LATE_QUOTE)
    if quoted.true_count:
        inner = compute.replace_substring_regex(cells, _LATE_QUOTE, r"\1")
        cells = compute.if_else(quoted, compute.replace_substring(inner, '""', '"'), cells)
    return compute.utf8_trim(cells, _BLANKS)


# Digits, points and signs of other scripts, and those that mean the same.
_OTHER_DIGITS = {
    ord(start) + k: str(k) for start in "\u0660\u06f0\u0966\uff10" for k in range(10)
} | str.maketrans("\u066b\uff0e\uff0c\uff0d\uff0b\uff05\uff0f\uff1a", ".." + ",-+%/:")
_HAS_OTHER_DIGITS = "[\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\uff10-\uff19]"


def in_ascii_digits(cells):
    """Cells of Arrow with the digits 0 to 9 for those of other scripts.

    >>> import pyarrow as pa
    >>> in_ascii_digits(pa.array(["\uff11\uff12\uff0e\uff15", "\u0661", "x"])).to_pylist()
    ['12.5', '1', 'x']
    """
    if not compute.any(compute.match_substring_regex(cells, _HAS_OTHER_DIGITS)).as_py():
        return cells
    return pa.array([cell.translate(_OTHER_DIGITS) for cell in cells.to_pylist()], pa.string())


def looks_numeric(numbers, rows):
    """Whether a column with some text is one of numbers with a few bad cells."""
    numbers = numbers[~np.isnan(numbers)]
    return len(numbers) > 0.9 * rows and len(np.unique(numbers)) > 20
