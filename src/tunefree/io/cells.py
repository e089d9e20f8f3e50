"""Columns of cells of text: what kind they are, and what they mean."""

import numpy as np

from tunefree.io.table import looks_numeric

KINDS = ("number", "truth", "date", "text")
# Cells that say that nothing is known, in small letters.
MISSING = ("", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "?", "-", "--", ".")
_NUMBER = r"^[+-]?((\d+{point}?\d*|{point}\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_DATE = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?Z?)?$"
WORDS = {
    "number": "not a finite number",
    "truth": "neither true nor false",
    "date": "no date such as 2026-01-31",
}


def known(cells):
    """Cells without the blanks around them; null where they say that nothing is known."""
    import pyarrow as pa
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(cells)
    nothing = compute.is_in(compute.utf8_lower(cells), value_set=pa.array(MISSING))
    return compute.if_else(nothing, pa.scalar(None, pa.string()), cells)


def kind_of(cells, comma=False):
    """Tell what a column holds.

    Numbers, ``true`` and ``false``, dates in the form of ISO 8601, or else text. A column of more
    than 20 different numbers is one of numbers, too, if a tenth of its cells at most are not.

    Parameters
    ----------
    cells : pyarrow array of text
        As `known` gives them.
    comma : bool
        Whether the decimal point may be a comma.

    Returns
    -------
    {"number", "truth", "date", "text"}

    Examples
    --------
    >>> import pytest; pyarrow = pytest.importorskip("pyarrow")
    >>> [kind_of(pyarrow.array(c)) for c in (["1", None], ["TRUE"], ["2026-01-31"], ["1", "a"])]
    ['number', 'truth', 'date', 'text']
    """
    cells = cells.drop_null()
    if not len(cells):
        return "text"
    if not _fitting(cells, "number", comma).null_count:
        return "number"
    values, _ = meant(cells, "number", comma)
    if looks_numeric(values.to_numpy(zero_copy_only=False), len(cells)):
        return "number"
    for kind in ("truth", "date"):
        if not meant(cells, kind)[1].any():
            return kind
    return "text"


def _fitting(cells, kind, comma):
    """The cells that look like a kind; null for others."""
    import pyarrow as pa
    from pyarrow import compute

    if kind == "number":
        pattern = _NUMBER.format(point="[.,]" if comma else r"\.")
        fits = compute.match_substring_regex(cells, pattern)
    elif kind == "truth":
        fits = compute.is_in(compute.utf8_lower(cells), value_set=pa.array(["true", "false"]))
    else:
        fits = compute.match_substring_regex(cells, _DATE)
    return compute.if_else(fits, cells, pa.scalar(None, pa.string()))


def meant(cells, kind, comma=False):
    """What cells mean.

    Parameters
    ----------
    cells : pyarrow array of text
        As `known` gives them.
    kind : {"number", "truth", "date", "text"}
    comma : bool
        Whether the decimal point may be a comma.

    Returns
    -------
    values : pyarrow array
        Null where nothing is known, or for the bad ones.
    bad : ndarray of bool
        Cells that are not of this kind.
    """
    import pyarrow as pa
    from pyarrow import compute

    if kind == "text":
        return cells, np.zeros(len(cells), dtype=bool)
    fitting = _fitting(cells, kind, comma)
    if kind == "number":
        fitting = compute.replace_substring(fitting, ",", ".") if comma else fitting
        values = fitting.cast(pa.float64())
        values = compute.if_else(compute.is_finite(values), values, pa.scalar(None, pa.float64()))
    elif kind == "truth":
        values = compute.equal(compute.utf8_lower(fitting), "true")
    else:
        values = _dates(compute.replace_substring(fitting, "Z", ""))
    bad = compute.and_(compute.is_valid(cells), compute.is_null(values))
    return values, bad.to_numpy(zero_copy_only=False)


def _dates(texts):
    """Times; null for days that no calendar has."""
    import pyarrow as pa

    try:
        return texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        found = []
        for text in texts:
            try:
                found.append(text.cast(pa.timestamp("us")))
            except pa.ArrowInvalid:
                found.append(None)
        return pa.array(found, pa.timestamp("us"))
