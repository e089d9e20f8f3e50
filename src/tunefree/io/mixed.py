"""Tables whose columns may be text, truth values or dates, and have gaps: csv, parquet and Arrow.

What is nothing but numbers is read as `tunefree.io.read` reads it; for the rest there is
pyarrow. A quoted cell may go on over several lines.
"""

from tunefree.io import FORMATS, DataError, format_of, read, sniff_text
from tunefree.io.mixed_csv import Delimited, stretches_of
from tunefree.io.mixed_frames import Framed, batches_of
from tunefree.io.opening import chunks, name_of

FRAMES = ("csv", "parquet", "arrow")


def read_mixed(source, *, kinds=None, skipped=None, **options):
    r"""Read a data file for a learner that takes more than numbers.

    Parameters
    ----------
    source : str, path-like or list of bytes
        As for `tunefree.io.read`.
    kinds : list or None
        What the features are, as a table of the same columns had it; None decides by the cells.
    skipped : Skipped or None
        Where malformed rows are counted and left out; None makes them errors.
    **options
        As for `tunefree.io.read`.

    Returns
    -------
    Table
        Its ``kinds`` say what the features are, None for numbers without gaps. Unless all are
        numbers its ``X`` is a pyarrow table.

    Raises
    ------
    DataError
        With file, line and column.

    Examples
    --------
    >>> import pytest; pyarrow = pytest.importorskip("pyarrow")
    >>> table = read_mixed([b"city,day,n,y\nRome,2026-01-31,,1\n\"Oslo, N\",,7,2\n"], format="csv")
    >>> table.kinds, table.X["city"].to_pylist(), table.y.tolist()
    (['text', 'date', 'number'], ['Rome', 'Oslo, N'], [1.0, 2.0])
    """
    if kinds is None or set(kinds) <= {"number", None}:
        try:
            return read(source, **options)
        except DataError as problem:
            refused = problem
    else:
        refused = None
    if format_in(source, options.get("format")) not in FRAMES:
        if refused is not None and skipped is None:
            raise refused
        return read(source, skipped=skipped, **options)
    _need_pyarrow(refused, source)
    return next(mixed_parts(source, kinds=kinds, skipped=skipped, whole=True, **options))


def format_in(source, format=None):
    """The format of a file, by its name or else its first line."""
    format = format or format_of(name_of(source))
    return FORMATS[format] if format else sniff_text(chunks(source))[0]


def _need_pyarrow(refused, source):
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        words = "text, dates and gaps need the pyarrow package: pip install 'tunefree[files]'"
        if refused is None:
            raise DataError(words, name_of(source)) from None
        refused.hint = words
        raise refused from None


def mixed_parts(
    source,
    *,
    kinds=None,
    skipped=None,
    whole=False,
    format=None,
    header=None,
    target_type=None,
    **columns,
):
    """The rows of a file as tables of consecutive rows; with `whole` as one.

    Parameters
    ----------
    source, kinds, skipped
        As for `read_mixed`.
    whole : bool
        Whether all rows are wanted at once.
    format, header, target_type, **columns
        As for `tunefree.io.read`.

    Yields
    ------
    Table
    """
    path, kind = name_of(source), format_in(source, format)
    columns = {k: v for k, v in columns.items() if k not in ("zero_based", "unseen")}
    if kind == "csv":
        found = stretches_of(source, path, header, whole, columns)
        read_part = Delimited(path, kinds, skipped, target_type)
    else:
        found = batches_of(source, path, kind, whole, columns)
        read_part = Framed(path, kinds, skipped, target_type)
    rows = 0
    for part in found:
        table = read_part(*part)
        rows += table.X.shape[0]
        if table.X.shape[0]:
            yield table
    if not rows:
        raise DataError("the file is empty: it holds no row", path)
