"""Parquet and Arrow files through pyarrow, a batch of rows at a time."""

import os

import numpy as np

from tunefree.io.errors import DataError
from tunefree.io.finite import finite_rows
from tunefree.io.layout import TARGET, WEIGHT, assign, sniff_delimiter
from tunefree.io.opening import chunks, whole_lines

_ROWS = 8192


def frame_batches(path, format, start=0):
    """Read record batches.

    Parameters
    ----------
    path : str
        A parquet file, an Arrow file or stream, or (``csv``) delimited text that pyarrow reads.
    format : {"parquet", "arrow", "csv"}
        What it is.
    start : int
        Leave out so many rows.

    Yields
    ------
    pyarrow.RecordBatch
        At most 8192 rows.

    Raises
    ------
    DataError
        pyarrow is missing, or refuses the file.
    """
    try:
        import pyarrow
        from pyarrow import csv, ipc, parquet
    except ImportError:
        words = f"{format} files need the pyarrow package: pip install 'tunefree[files]'"
        raise DataError(words, path) from None
    try:
        if format == "parquet":
            with parquet.ParquetFile(os.fspath(path)) as file:
                groups = np.cumsum(
                    [0, *(file.metadata.row_group(g).num_rows for g in range(file.num_row_groups))]
                )
                first = int(np.searchsorted(groups, start, side="right")) - 1
                rest = list(range(first, file.num_row_groups))
                start -= int(groups[first]) if rest else 0
                yield from _skip(file.iter_batches(_ROWS, row_groups=rest), start)
        elif format == "csv":
            head = next(whole_lines(chunks(path)), b"").split(b"\n")[0]
            head.decode()  # pyarrow would notice in the rows only
            how = csv.ParseOptions(delimiter=sniff_delimiter(head), newlines_in_values=True)
            with csv.open_csv(os.fspath(path), parse_options=how) as file:
                yield from _skip(file, start)
        else:
            with pyarrow.memory_map(os.fspath(path)) as mapped:
                try:
                    file = ipc.open_file(mapped)
                    batches = (file.get_batch(i) for i in range(file.num_record_batches))
                except pyarrow.ArrowInvalid:
                    mapped.seek(0)
                    batches = iter(ipc.open_stream(mapped))
                yield from _skip(batches, start)
    except UnicodeDecodeError:
        raise DataError("the text is not UTF-8", path) from None
    except (pyarrow.ArrowException, OSError) as problem:
        if isinstance(problem, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        words = str(problem).split("\n")[0]
        raise DataError(f"pyarrow cannot read it as {format}: {words}", path) from None


def _skip(batches, start):
    """Leave out the first rows, and cut what is longer than 8192 rows."""
    for batch in batches:
        at, start = min(start, len(batch)), start - min(start, len(batch))
        for first in range(at, len(batch), _ROWS):
            yield batch.slice(first, _ROWS)


def plain(batch, path, leave=None):
    """A batch of numbers, truth values and text: dates are days since 1970.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    path : str
        For messages.
    leave : str or None
        A column that stays as it is.

    Returns
    -------
    pyarrow.RecordBatch

    Raises
    ------
    DataError
        For a column of anything else.
    """
    import pyarrow as pa
    from pyarrow import compute, types

    columns = []
    for column, field in zip(batch.columns, batch.schema, strict=True):
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        if field.name == leave or types.is_boolean(kind) or types.is_null(kind):
            pass
        elif types.is_date(kind) or types.is_timestamp(kind):
            zone = getattr(kind, "tz", None)
            since = column.cast(pa.timestamp("us", zone)).cast(pa.int64()).cast(pa.float64())
            column = compute.divide(since, 86_400e6)
        elif types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            column = column.cast(pa.float64(), safe=False)
        elif not (types.is_string(kind) or types.is_large_string(kind)):
            words = f"column {field.name!r} holds {kind}"
            raise DataError(f"{words}: neither numbers, text, truth values nor dates", path)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def frame_blocks(path, format, *, target_type=None, skipped=None, start=0, **columns):
    """Read the rows of a parquet or Arrow file.

    Parameters
    ----------
    path : str
        The file.
    format : {"parquet", "arrow"}
        What it is.
    target_type : type or None
        `float` refuses text targets, `str` makes numbers text.
    skipped : Skipped or None
        Where rows with nulls or other than finite numbers are counted and left out.
    start : int
        Leave out so many rows.
    **columns
        ``target, weight_column, n_features, columns``, as for `tunefree.io.read`.

    Yields
    ------
    X, y, weight : arrays
        Rows; None for what the file has not.
    layout : Layout
        The meaning of the columns.
    rows : int
        Rows of the file up to here.

    Raises
    ------
    DataError
        A feature that is not a number, or not finite.
    """
    layout = None
    for batch in frame_batches(path, format, start):
        if layout is None:
            names = batch.schema.names
            layout = assign(names, len(names), (path,), **columns)
            features = [names.index(name) for name in layout.feature_names]
            target, weight = layout.find(TARGET), layout.find(WEIGHT)
        X = np.column_stack([_numbers(batch, j, path) for j in features])
        y = None if target is None else targets_of(batch, target.position, path, target_type)
        w = None if weight is None else _numbers(batch, weight.position, path).astype(np.float64)
        n = len(batch)
        yield *finite_rows(X, y, w, path, start, skipped), layout, start + n
        start += n


def _numbers(batch, j, path):
    """A column as floats, NaN for null."""
    import pyarrow

    column, kind = batch.column(j), batch.schema.field(j).type
    if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
        if not pyarrow.types.is_boolean(kind):
            text = pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)
            what = "text" if text else kind
            words = f"column {batch.schema.names[j]!r} holds {what}, not numbers"
            error = DataError(words, path)
            error.feature, error.hint = True, "hashed=2**18 takes text"
            raise error
    narrow = pyarrow.types.is_float32(kind)
    column = column.cast(pyarrow.float32() if narrow else pyarrow.float64())
    return column.to_numpy(zero_copy_only=False)


def targets_of(batch, j, path, target_type):
    """A target column: float64 or text."""
    import pyarrow

    column, kind = batch.column(j), batch.schema.field(j).type
    if pyarrow.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    text = pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)
    if not text and target_type is not str:
        return _numbers(batch, j, path).astype(np.float64)
    if text and target_type is float:
        raise DataError(f"column {batch.schema.names[j]!r} holds text, not numbers", path)
    if column.null_count:
        raise DataError(f"column {batch.schema.names[j]!r} has rows without a target", path)
    return np.array(column.cast(pyarrow.string()).to_pylist(), dtype=np.str_)
