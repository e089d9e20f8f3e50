"""Parquet, Arrow, ORC and NumPy files, read in blocks of rows; pyarrow reads the first three.

An ``.npy`` file is a table whose last column is the target. An ``.npz`` file holds the features as
``X``, or as ``data, indices, indptr, shape`` (what `scipy.sparse.save_npz` writes), and ``y`` and
``weight`` if it has them; arrays that are not compressed are mapped, others are loaded whole.
Nothing in either is ever unpickled.
"""

import io
import itertools
import json
import os
import re
import zipfile
import zlib
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from scipy import sparse

from tunefree.core.format import listed
from tunefree.files.files import (
    CHUNK,
    PACKED,
    DataError,
    forget,
    mapped,
    name_of,
    numbered_lines,
    skip,
    unpacked,
)
from tunefree.files.formats import arff, noted, notes_of, statistics, workbook
from tunefree.files.json_tables import flattened, json_batches
from tunefree.files.quotes import regular
from tunefree.files.tables import TARGET, WEIGHT, assign, headed, set_aside, unnamed
from tunefree.rows.columns import EXACT, INDEX_OF_PANDAS
from tunefree.rows.designs import n_entries
from tunefree.rows.missing import NO_LABEL, complete, unlabelled

_ENTRIES = 500_000
_ROWS = 8192
_MAPPED = 1 << 24  # arrays of an archive of more bytes are mapped, not loaded
# Formats whose columns have names and types.
FRAMES = ("parquet", "arrow", "orc", "jsonl", "excel", "arff", "stata", "spss", "sas")
_FAULTS = (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


def spans(n_rows, n_entries, start=0):
    """Slices of rows, from `start` on, of about half a million entries each.

    >>> list(spans(5, 1_000_000, 2))
    [slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, _ENTRIES * n_rows // max(n_entries, 1))
    for first in range(start, n_rows, size):
        yield slice(first, min(first + size, n_rows))


def finite_rows(X, y, weight, name, start, skipped=None) -> Any:
    """The valid rows of numbers; `start` is the number of the first one, from 0.

    Numbers must be finite and weights not negative; targets may be text. Other rows are skipped and
    counted in `skipped`; without it they are a DataError. The first row without a target is noted
    there, and stays.
    """
    faults = [(_not_finite(X), "a feature that is not finite")]
    if y is not None:
        absent = np.flatnonzero(unlabelled(y))
        if skipped is None:
            faults.append((absent, "no target"))
        elif len(absent):
            skipped.note(DataError(f"row {start + absent[0] + 1}", name))
        if y.dtype.kind in "fc":
            infinite = np.isinf(np.reshape(y, (len(y), -1))).any(axis=1)
            faults.append((np.flatnonzero(infinite), "a target that is not finite"))
    if weight is not None:
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0.0)))
        faults.append((bad, "a weight that is negative or not finite"))
    bad = np.unique(np.concatenate([rows for rows, _ in faults]))
    if not len(bad):
        return X, y, weight
    words = next(words for rows, words in faults if bad[0] in rows)
    words, feature = f"row {start + bad[0] + 1} has {words}", bad[0] in faults[0][0]
    error = DataError(words, name, feature=feature, row=True)
    skip(error, skipped, len(bad))
    valid = np.setdiff1d(np.arange(X.shape[0]), bad)
    return taken(valid, X, y, weight)


def taken(rows, *arrays) -> Any:
    """Some rows of arrays, any of which may be None."""
    return [None if array is None else array[rows] for array in arrays]


def with_targets(X, y, weight, skipped) -> Any:
    """The rows that have a target; the others are counted in `skipped`."""
    if y is None or skipped is None or not skipped.unlabelled:
        return X, y, weight
    absent = unlabelled(y)
    if absent.any():
        skipped.n_unlabelled += int(absent.sum())
        X, y, weight = taken(np.flatnonzero(~absent), X, y, weight)
    return X, complete(y) if y.dtype.kind == "O" else y, weight


def _not_finite(X):
    """Which rows hold a number that is not finite."""
    is_sparse = sparse.issparse(X)
    values = X.data if is_sparse else X
    if values.dtype.kind not in "fc" or np.isfinite(values).all():
        return np.empty(0, int)
    if is_sparse:
        bad = np.searchsorted(X.indptr, np.flatnonzero(~np.isfinite(values)), side="right") - 1
        return np.unique(bad)
    return np.flatnonzero(~np.isfinite(X).all(axis=1))


def row_blocks(path, format, *, skipped=None, start=0, **columns):
    """Blocks of rows from row `start` on: (X, y, weight, layout, rows of the file so far).

    What the file does not have is None. `columns` are options of `tunefree.files.read`; NumPy files
    use only some of them.
    """
    if format in FRAMES:
        found = _frames(path, format, start, **columns)
    else:
        names = ("target", "weight_column", "n_features", "drop")
        columns = {k: columns.get(k) for k in names}
        found = (_table if format == "npy" else _archive)(os.fspath(path), start, columns)
    try:
        for X, y, weight, layout, first in found:
            rows = first + X.shape[0]
            yield *finite_rows(X, y, weight, name_of(path), first, skipped), layout, rows
    except DataError:
        raise
    except _FAULTS as problem:
        words = str(problem).split("\n")[0] or type(problem).__name__
        raise DataError(f"it is not a valid {format} file: {words}", name_of(path)) from None


def frame_batches(
    path,
    format,
    start=0,
    *,
    target=None,
    weight_column=None,
    columns=None,
    drop=(),
    header=None,
    delimiter=None,
    sheet=None,
    skipped=None,
    **_,
):
    """The record batches, of at most 8192 rows, of a file of one of `FRAMES`, or "csv".

    They begin with row `start`. A "csv" file is delimited text, which pyarrow reads. A `Column` of
    `drop` may hold anything.
    """
    import pyarrow

    name = name_of(path)
    aside = [column.name for column in set_aside(drop) if column.name is not None]
    asked = [getattr(column, "name", column) for column in (target, weight_column)]
    asked += columns or ()
    by_name = [str(c) for c in asked if c not in (None, False) and not _is_position(c)]
    readers: Any = {
        "parquet": partial(_parquet, asked=asked),
        "arrow": _arrow,
        "orc": _orc,
        "csv": partial(_delimited, aside=aside, header=header, delimiter=delimiter),
        "jsonl": partial(json_batches, target=target, aside=aside, skipped=skipped),
        "document": partial(json_batches, target=target, aside=aside),
        "excel": lambda path: workbook(path, sheet, header, columns, by_name).to_batches(),
        "arff": lambda path: arff(path).to_batches(),
        "stata": lambda path: statistics(path, format).to_batches(),
        "spss": lambda path: statistics(path, format).to_batches(),
        "sas": lambda path: statistics(path, format).to_batches(),
    }
    try:
        for batch in map(_usual_types, map(flattened, readers[format](path))):
            begin, start = min(start, len(batch)), start - min(start, len(batch))
            for first in range(begin, len(batch), _ROWS):
                yield batch.slice(first, _ROWS)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (pyarrow.ArrowException, OSError) as problem:
        words = str(problem).split("\n")[0]
        raise DataError(f"pyarrow cannot read it as {format}: {words}", name) from None


def _is_position(column):
    """Whether a column may be given by its position, from either end."""
    return str(column).lstrip("-").isdigit()


def _usual_types(batch):
    """A batch whose texts are strings: bytes that are text, views of texts, and times of the day.

    >>> import pyarrow as pa
    >>> views = pa.array(["a", None], pa.string_view())
    >>> _usual_types(pa.record_batch([views, pa.array([b"x", b"y"])], ["v", "b"])).schema.types
    [DataType(string), DataType(string)]
    """
    import pyarrow as pa

    columns, changed = [], False
    for column in batch.columns:
        values = column.dictionary if pa.types.is_dictionary(column.type) else column
        texts = _as_strings(values)
        if texts is not values:
            changed = True
            column = texts if values is column else _with_levels(column, texts)
        columns.append(column)
    if not changed:
        return batch
    found = pa.record_batch(columns, batch.schema.names)
    return found.replace_schema_metadata(batch.schema.metadata)


def _with_levels(column, levels):
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(column.indices, levels, ordered=column.type.ordered)


def _as_strings(column):
    """A column of texts or times of the day as strings; any other one as it is."""
    import pyarrow as pa
    from pyarrow import compute

    kind, types = column.type, pa.types
    bytes_of = str(kind).startswith(("binary", "large_binary", "fixed_size_binary"))
    if not (bytes_of or types.is_string_view(kind) or types.is_time(kind)):
        return column
    try:
        if bytes_of:
            column = column.cast(pa.large_binary())
        texts = column.cast(pa.string())
        if types.is_time(kind):  # as a csv has them
            return compute.replace_substring_regex(texts, r"\.0+$", "")
        return texts
    except pa.ArrowInvalid:  # bytes that are no text
        return column


def laid_out(batches, path, start=0, **columns):
    """Batches, each with the number of rows before it and the `Layout` of their columns."""
    layout = None
    columns = {k: v for k, v in columns.items() if k not in ("header", "delimiter", "sheet")}
    for batch in batches:
        if layout is None:
            # A column without a name is called as in text.
            names = [
                name if name.strip() else unnamed(j) for j, name in enumerate(batch.schema.names)
            ]
            layout = assign(names, len(names), (path,), **columns)
            kinds = map(kind_of_type, batch.schema.types)
            truths = tuple(j for j, kind in enumerate(kinds) if kind == "truth")
            layout = layout._replace(notes=notes_of(batch), truths=truths)
        yield batch, start, layout
        start += batch.num_rows


def _as_file(path):
    """A file for pyarrow, unpacked if it is packed."""
    import pyarrow

    with open(path, "rb") as file:
        is_packed = file.read(4).startswith(PACKED)
    return pyarrow.BufferReader(unpacked(path)) if is_packed else os.fspath(path)


def _parquet(path, asked):
    """Batches without the columns in which pandas keeps its index, unless they are asked for."""
    from pyarrow import parquet

    with parquet.ParquetFile(_as_file(path)) as file:
        names = file.schema_arrow.names
        index = [name for name in _index_columns(file.schema_arrow) if name not in asked]
        kept = [name for name in names if name not in index]
        notes = []
        if index and kept:
            notes = [f"the index of pandas is not read: {listed([*map(repr, index)])}"]
        for batch in file.iter_batches(_ROWS, columns=kept if notes else None):
            yield noted(batch, notes)


def _index_columns(schema):
    """The columns that hold the index of a frame of pandas."""
    found = (schema.metadata or {}).get(b"pandas")
    index = json.loads(found).get("index_columns", []) if found else []
    names = [name for name in index if isinstance(name, str) and name in schema.names]
    return [*names, *(n for n in schema.names if INDEX_OF_PANDAS.fullmatch(n) and n not in names)]


class _JoinedTexts(io.RawIOBase):
    """Texts as a file."""

    def __init__(self, texts):
        self.texts, self.rest = texts, b""

    def readable(self):
        return True

    def readinto(self, buffer):
        while not self.rest:
            self.rest = next(self.texts, None)
            if self.rest is None:
                self.rest = b""
                return 0
        size = min(len(buffer), len(self.rest))
        buffer[:size], self.rest = self.rest[:size], self.rest[size:]
        return size


def _delimited(path, aside, header, delimiter):
    import pyarrow
    from pyarrow import csv

    how = {"header": header, "delimiter": delimiter, "target": False}
    found = headed(numbered_lines(path), name_of(path), **how)
    first = next(found, None)
    if first is None:
        return
    layout = first[2]
    names = layout.names or [unnamed(j) for j in range(len(layout.slots))]

    def texts():
        for text, _, _ in itertools.chain([first], found):
            rows = re.sub(rb"(?m)^[ \t]*\n", b"", text)  # comments, and the lines above the table
            yield regular(rows, layout.delimiter, len(layout.slots))

    reading = csv.ReadOptions(column_names=names)
    cells = csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
    anything = dict.fromkeys(aside, pyarrow.string())
    missing = sorted({*csv.ConvertOptions().null_values, *NO_LABEL})  # of numbers only
    values = csv.ConvertOptions(column_types=anything, null_values=missing)
    kept = [name for j, name in enumerate(names) if j not in layout.dialect.empty]
    file = io.BufferedReader(_JoinedTexts(texts()), CHUNK)
    with csv.open_csv(file, reading, cells, values) as batches:
        for batch in batches:
            yield batch.select(kept)


def _arrow(path):
    import pyarrow
    from pyarrow import ipc

    with open(path, "rb") as file:
        is_packed = file.read(4).startswith(PACKED)
    pages = unpacked(path) if is_packed else mapped(os.fspath(path))
    stored = pyarrow.py_buffer(pages)
    try:
        file = ipc.open_file(stored)
        batches = (file.get_batch(i) for i in range(file.num_record_batches))
    except pyarrow.ArrowInvalid:
        batches = iter(ipc.open_stream(stored))
    for batch in batches:
        for first in range(0, len(batch), _ROWS):
            yield batch.slice(first, _ROWS)
            forget(pages)


def _orc(path):
    from pyarrow import orc

    file = orc.ORCFile(_as_file(path))
    for stripe in range(file.nstripes):
        yield file.read_stripe(stripe)


def plain_batch(batch, path):
    """A batch of numbers, booleans and text; dates become days since 1970, durations days."""
    import pyarrow as pa
    from pyarrow import compute

    columns = []
    for j, name in enumerate(batch.schema.names):
        column = column_of(batch, j)
        meaning = kind_of_type(column.type)
        if meaning == "date":
            zone = getattr(column.type, "tz", None)
            since = column.cast(pa.timestamp("us", zone)).cast(pa.int64()).cast(pa.float64())
            column = compute.divide(since, 86_400e6)
        elif meaning == "duration":
            since = column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.float64())
            column = compute.divide(since, 86_400e6)
        elif meaning == "number":
            column = column.cast(pa.float64(), safe=False)
        elif meaning is None:
            words = f"column {name!r} holds {column.type}"
            raise DataError(f"{words}: neither numbers, text, booleans nor dates", path)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def column_of(batch, j):
    """A column; that of a dictionary with its values."""
    from pyarrow import types

    column = batch.column(j)
    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def kind_of_type(kind):
    """The kind of a column by its pyarrow type: 'number', 'date', ...; None if it has none."""
    from pyarrow import types

    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "truth"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    if types.is_duration(kind):
        return "duration"
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)
    return "text" if text else None


def _frames(path, format, start, target_type=None, **columns):
    name = name_of(path)
    batches = frame_batches(path, format, start, **columns)
    for batch, first, layout in laid_out(batches, name, start, **columns):
        target, weight = layout.find(TARGET), layout.find(WEIGHT)
        X = np.column_stack([_exact_numbers(batch, j, name) for j in layout.features])
        y = None if target is None else targets_of(batch, target.position, name, target_type)
        w = None if weight is None else _numbers(batch, weight.position, name).astype(np.float64)
        yield X, y, w, layout, first


def _numbers(batch, j, path):
    """A column as floats, NaN for null."""
    import pyarrow
    from pyarrow import types

    column = column_of(batch, j)
    meaning = kind_of_type(column.type)
    if meaning not in ("number", "truth"):
        what = "text" if meaning == "text" else column.type
        words = f"column {batch.schema.names[j]!r} holds {what}, not numbers"
        raise DataError(words, path, feature=True, hint="hashed=2**18 accepts text")
    if not types.is_float32(column.type):
        column = column.cast(pyarrow.float64(), safe=False)
    return column.to_numpy(zero_copy_only=False)


def _exact_numbers(batch, j, path):
    """As `_numbers`, but different whole numbers that are one float are an error."""
    import pyarrow
    from pyarrow import compute, types

    column, found = column_of(batch, j), _numbers(batch, j, path)
    if types.is_integer(column.type) and np.any(np.abs(found) > EXACT):
        rounded = compute.count_distinct(pyarrow.array(found)), compute.count_distinct(column)
        if rounded[0] != rounded[1]:
            first = column[int(np.argmax(np.abs(found) > EXACT))]
            words = f"column {batch.schema.names[j]!r}: as a number {first} equals others"
            raise DataError(words, path, feature=True, hint="hashed=2**18 accepts text")
    return found


def targets_of(batch, j, path, target_type) -> Any:
    """A target column: float64 or text; NaN or empty text for null.

    Text has no blanks around it, and truth values are True and False, as in a csv.
    """
    import pyarrow
    from pyarrow import compute

    column, name = column_of(batch, j), batch.schema.names[j]
    types = pyarrow.types
    if types.is_null(column.type):
        return np.full(len(column), np.nan)
    if types.is_boolean(column.type) and target_type is not float:
        truths = [{True: "True", False: "False"}.get(value, "") for value in column.to_pylist()]
        return np.array(truths, dtype=np.str_)
    is_text = types.is_string(column.type) or types.is_large_string(column.type)
    if not is_text and target_type is not str:
        return _numbers(batch, j, path).astype(np.float64)
    if is_text and target_type is float:
        raise DataError(f"column {name!r} holds text, not numbers", path)
    texts = compute.utf8_trim_whitespace(column.cast(pyarrow.string()).fill_null(""))
    return np.array(texts.to_pylist(), dtype=np.str_)


def _table(path, start, columns):
    table = np.load(path, mmap_mode="r", allow_pickle=False)
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        words = f"an array of shape {table.shape} and type {table.dtype} is not a table of numbers"
        raise DataError(words, path)
    n, width = table.shape
    layout = assign(None, width, (path,), **columns)
    target, weight = layout.find(TARGET), layout.find(WEIGHT)
    for part in spans(n, table.size, start):
        block = np.asarray(table[part])
        block = block if block.dtype in (np.float32, np.float64) else block.astype(np.float64)
        y = None if target is None else block[:, target.position].astype(np.float64)
        w = None if weight is None else block[:, weight.position].astype(np.float64)
        yield np.ascontiguousarray(block[:, layout.features]), y, w, layout, part.start
        forget(table.base)


def _archive(path, start, columns):
    with open(path, "rb") as file, NpzFile(file) as archive:
        packed: Any = archive.zip
        members = {m.filename.removesuffix(".npy"): m for m in packed.infolist()}
        parts: Any = {}
        for name in archive.files:
            is_large = members[name].file_size > _MAPPED
            stored = members[name].compress_type == zipfile.ZIP_STORED
            parts[name] = (
                _mapped_member(path, file, members[name]) if is_large and stored else archive[name]
            )
    if "X" in parts:
        X = parts["X"]
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise ValueError("X is not a table of numbers")
    elif {"data", "indices", "indptr", "shape"} <= parts.keys():
        arrays = parts["data"], parts["indices"], parts["indptr"]
        X = sparse.csr_array(arrays, shape=tuple(parts["shape"]))
        X.check_format(full_check=True)  # compiled code does not check indices
    else:
        raise DataError("it has neither X nor data, indices, indptr and shape", path)
    y, weight = (parts.get(name) for name in ("y", "weight"))
    y = None if columns["target"] is False else y
    for name, values in (("y", y), ("weight", weight)):
        if values is not None and values.shape[:1] != X.shape[:1]:
            raise DataError(f"{name} has {len(values)} rows, X has {X.shape[0]}", path)
    kind = np.float32 if X.dtype == np.float32 else np.float64
    y = y.astype(np.float64) if y is not None and y.dtype.kind in "iub" else y
    for part in spans(X.shape[0], n_entries(X), start):
        rows, *others = taken(part, X, y, weight)
        rows = rows.astype(kind) if sparse.issparse(rows) else np.array(rows, dtype=kind)
        yield rows, *others, None, part.start


def _mapped_member(path, file, member):
    """An array of an archive that is not compressed, mapped into memory; its checksum is checked.

    A file of the archive is preceded by 30 bytes, its name, and what the archiver adds.
    """
    file.seek(member.header_offset)
    head = file.read(30)
    if len(head) < 30:
        raise zipfile.BadZipFile("the archive is truncated")
    first = member.header_offset + 30 + sum(np.frombuffer(head[26:30], "<u2").tolist())
    file.seek(first)
    checksum, left = 0, member.file_size
    while left and (piece := file.read(min(CHUNK, left))):
        checksum, left = zlib.crc32(piece, checksum), left - len(piece)
    if left or checksum != member.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {member.filename!r}")
    file.seek(first)
    version = np.lib.format.read_magic(file)
    readers: Any = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"an array of format {version}")
    shape, in_columns, dtype = readers[version](file)
    n_bytes = dtype.itemsize * int(np.prod(shape))
    if dtype.hasobject or file.tell() + n_bytes > first + member.file_size:
        raise ValueError("an array of Python's objects, or one that is cut off")
    order = "F" if in_columns else "C"
    return np.memmap(path, dtype, "r", offset=file.tell(), shape=shape, order=order)
