"""Read data files into arrays: delimited text, libsvm, JSON, parquet, workbooks, ARFF, NumPy, ...

Errors are `DataError` and name the file, the line and the column.
"""

import os
from typing import Any

from tunefree.files.arrays import row_blocks, with_targets
from tunefree.files.files import FORMATS, DataError, Skipped, check_options, detected, name_of
from tunefree.files.libsvm import read_libsvm
from tunefree.files.tables import Column, Table, check_points, read_table
from tunefree.rows.matrices import stacked

__all__ = ["Column", "DataError", "Skipped", "Table", "read"]


def read(
    source,
    *,
    format: Any = None,
    header: bool | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    zero_based: Any = "auto",
    unseen: str = "error",
    skipped=None,
    **columns: Any,
):
    r"""Read a data file.

    The format is detected from the first bytes if these are no text, or else from the name
    (``.libsvm``, ``.csv``, ``.tsv``, ``.json``, ``.jsonl``, ``.parquet``, ``.arrow``, ``.orc``,
    ``.xlsx``, ``.ods``, ``.arff``, ``.dta``, ``.sav``, ``.sas7bdat``, ``.npy``, ..., also with
    ``.gz``, ``.zst``, ``.bz2`` or ``.zip`` appended), or else from the first lines. The result's
    ``notes`` are sentences on what was found that may surprise.

    The options are those of `tunefree.open_source`; `columns` are its `target`, `weight_column`,
    `n_features`, `columns`, `drop` and `target_type`. A target or column of weights may be a
    `Column` of another file, which may be absent here. With ``target=False`` no target is read, and
    labels of libsvm files are optional. The columns of `drop` are not read. A csv file
    with exactly `n_features` columns has features only. A `Column` of `drop` may be absent, or have
    another role. Malformed rows, and rows without a target, are skipped and counted in `skipped`;
    without it they are a `DataError`.

    >>> table = read([b"1 1:0.5\n-1 2:3\n"])
    >>> table.X.toarray().tolist(), table.y.tolist()
    ([[0.5, 0.0], [0.0, 3.0]], [1.0, -1.0])
    """
    if format not in (None, *FORMATS):
        raise ValueError(f"format must be one of {sorted(FORMATS)}, not {format!r}")
    path = name_of(source)
    kind, source = detected(source, format)
    written = {"header": header, "delimiter": delimiter, "sheet": sheet}
    check_options(kind, path, written | columns)
    if kind == "libsvm":
        labelled, width = columns.get("target") is not False, columns.get("n_features")
        how = {"zero_based": zero_based, "n_features": width, "unseen": unseen, "skipped": skipped}
        X, y, zero_based, ignored = read_libsvm(source, labelled=labelled, **how)
        return Table(X, y, None, None, path, zero_based, ignored=ignored)
    how = {"header": header, "delimiter": delimiter, "skipped": skipped}
    if kind == "csv":
        X, y, weight, layout = read_table(source, **how, **columns)
        check_points(layout, path)
    else:
        how |= {"sheet": sheet}
        X, y, weight, layout = _read_arrays(source, path, kind, **how, **columns)
    X, y, weight = with_targets(X, y, weight, skipped)
    return Table(X, y, weight, None, path) if layout is None else layout.table(X, y, weight, path)


def _read_arrays(source, path, format, *, n_features=None, target_type=None, **options):
    """Read a file that is not delimited text."""
    is_text = format in ("jsonl", "arff")
    if not is_text and (not isinstance(source, (str, os.PathLike)) or path == "<stdin>"):
        raise DataError(f"{format} data must come from a file", path)
    options |= {"n_features": n_features, "target_type": target_type}
    found: Any = list(row_blocks(source if is_text else path, format, **options))
    if not sum(block[0].shape[0] for block in found):
        raise DataError("the file has no rows", path)
    *columns, layouts, _ = zip(*found, strict=True)
    parts: Any = (None if blocks[0] is None else stacked(blocks) for blocks in columns)
    X, y, weight = parts
    if target_type is str and y is not None and y.dtype.kind == "f":
        y = y.astype(str)
    if n_features is not None and X.shape[1] != n_features:
        words = f"the file has {X.shape[1]} features, but {n_features} are expected"
        raise DataError(words, path)
    return X, y, weight, layouts[0]
