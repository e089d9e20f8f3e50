"""Read data files into arrays: libsvm, csv, JSON lines (also compressed), parquet, Arrow, NumPy.

Errors are `DataError` and name the file, the line and the column.
"""

import itertools
import os
import re
from typing import Any

from tunefree.designs import stacked
from tunefree.io.arrays import row_blocks
from tunefree.io.files import DataError, Skipped, chunks, name_of
from tunefree.io.libsvm import read_libsvm
from tunefree.io.tables import TARGET, WEIGHT, Column, Table, read_table

__all__ = ["Column", "DataError", "FORMATS", "Named", "Skipped", "Table", "format_of", "read"]

FORMATS = {
    "libsvm": "libsvm",
    "svm": "libsvm",
    "svmlight": "libsvm",
    "csv": "csv",
    "tsv": "csv",
    "parquet": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "npy": "npy",
    "npz": "npz",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
}
_PACKED = (".gz", ".zst", ".bz2", ".zip")
# A label, index:value pairs, or both; a line of csv holds a delimiter.
_LIBSVM_LINE = re.compile(rb"\s*([^\s,;:]+(?!\S))?(\s*(qid|\d+):[^\s,;:]+(?!\S))*\s*(#.*)?\n?")
_DELIMITER = re.compile(rb"[,;\t]")


def read(
    source,
    *,
    format: Any = None,
    target: Any = None,
    header: bool | None = None,
    weight_column=None,
    n_features=None,
    columns=None,
    drop=(),
    zero_based: Any = "auto",
    target_type: type | None = None,
    unseen: str = "error",
    skipped=None,
):
    r"""Read a data file.

    The format is detected from the name (``.libsvm``, ``.svm``, ``.csv``, ``.tsv``, ``.jsonl``,
    also with ``.gz``, ``.zst``, ``.bz2`` or ``.zip`` appended; ``.parquet``, ``.arrow``, ``.npy``,
    ``.npz``), or else from the first line.

    The options are those of `tunefree.open_source`. A target or column of weights may be a
    `Column` of another file, which may be absent here. With ``target=False`` no target is read, and
    labels of libsvm files are optional. The columns of `drop` are not read. A csv file
    with exactly `n_features` columns has features only. Malformed rows are skipped and counted in
    `skipped`; without it they are a `DataError`.

    >>> table = read([b"1 1:0.5\n-1 2:3\n"])
    >>> table.X.toarray().tolist(), table.y.tolist()
    ([[0.5, 0.0], [0.0, 3.0]], [1.0, -1.0])
    """
    if format not in (None, *FORMATS):
        raise ValueError(f"format must be one of {sorted(FORMATS)}, not {format!r}")
    path = name_of(source)
    kind, source = detected(source, format)
    if kind == "libsvm":
        X, y, zero_based, ignored = read_libsvm(
            source,
            labelled=target is not False,
            zero_based=zero_based,
            n_features=n_features,
            unseen=unseen,
            skipped=skipped,
        )
        return Table(X, y, None, None, path, zero_based, ignored=ignored)
    options = {
        "target": target,
        "weight_column": weight_column,
        "n_features": n_features,
        "columns": columns,
        "drop": drop,
        "target_type": target_type,
        "skipped": skipped,
    }
    if kind == "csv":
        X, y, weight, layout = read_table(source, header=header, **options)
    else:
        X, y, weight, layout = _read_arrays(source, path, kind, **options)
    if layout is None:
        return Table(X, y, weight, None, path)
    names, target, weight_column = layout.feature_names, layout.find(TARGET), layout.find(WEIGHT)
    roles = {"target": target, "weight_column": weight_column, "slots": layout.slots}
    return Table(X, y, weight, names, path, **roles)


def _read_arrays(source, path, format, *, n_features, target_type, **options):
    """Read a file that is not delimited text."""
    if format != "jsonl" and (not isinstance(source, (str, os.PathLike)) or path == "<stdin>"):
        raise DataError(f"{format} data must come from a file", path)
    options |= {"n_features": n_features, "target_type": target_type}
    found = list(row_blocks(source if format == "jsonl" else path, format, **options))
    if not sum(block[0].shape[0] for block in found):
        raise DataError("the file has no rows", path)
    columns: Any = (
        None if parts[0] is None else stacked(parts) for parts in list(zip(*found, strict=True))[:3]
    )
    X, y, weight = columns
    if target_type is str and y is not None and y.dtype.kind == "f":
        y = y.astype(str)
    if n_features is not None and X.shape[1] != n_features:
        words = f"the file has {X.shape[1]} features, but {n_features} are expected"
        raise DataError(words, path)
    return X, y, weight, found[0][3]


class Named:
    """Pieces of text with the name of their file."""

    def __init__(self, name, pieces):
        self.name, self.pieces = name, pieces

    def __iter__(self):
        return iter(self.pieces)


def format_of(path):
    """The format that the suffix stands for, or None.

    >>> format_of("a.CSV.gz"), format_of("b.npz"), format_of("c")
    ('csv', 'npz', None)
    """
    stem = path
    while stem.lower().endswith(_PACKED):
        stem = os.path.splitext(stem)[0]
    return FORMATS.get(os.path.splitext(stem)[1].lower().lstrip("."))


def detected(source, format=None):
    """The format as given, from the name or from the first line, and the source, unread."""
    path = name_of(source)
    format = format or format_of(path)
    if format is not None:
        return FORMATS[format], source
    pieces = chunks(source)
    kind, head = sniff_text(pieces)
    return kind, Named(path, itertools.chain([head], pieces))


def sniff_text(pieces):
    """Detect libsvm, csv or JSON lines from the first line; also returns the text read so far."""
    head = b""
    while (line := re.search(rb"^[^\S\n]*[^\s#].*\n", head, re.MULTILINE)) is None:
        piece = next(pieces, None)
        if piece is None:
            line = re.search(rb"^[^\S\n]*[^\s#].*", head, re.MULTILINE)
            break
        head += piece
    if line is not None and line[0].lstrip()[:1] == b"{":
        return "jsonl", head
    is_libsvm = line is None or _LIBSVM_LINE.fullmatch(line[0]) or not _DELIMITER.search(line[0])
    return ("libsvm" if is_libsvm else "csv"), head
