"""NumPy files: ``.npy`` tables and ``.npz`` archives, read a stretch of rows at a time.

An ``.npy`` file is a table whose last column is the target. An ``.npz`` file holds the features as
``X``, or as ``data, indices, indptr, shape`` (what `scipy.sparse.save_npz` writes), and ``y`` and
``weight`` if it has them. Nothing in either is ever unpickled.
"""

import contextlib
import os
import zipfile
import zlib

import numpy as np
from scipy import sparse

from tunefree.io.errors import DataError
from tunefree.io.finite import finite_rows
from tunefree.io.layout import TARGET, WEIGHT, assign

_ENTRIES = 500_000
_FAULTS = (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


def array_blocks(path, format, *, skipped=None, start=0, **columns):
    """Read the rows of an ``.npy`` or ``.npz`` file.

    Parameters
    ----------
    path : str
        The file.
    format : {"npy", "npz"}
        What it is.
    skipped : Skipped or None
        Where rows with other than finite numbers are counted and left out.
    start : int
        Leave out so many rows.
    **columns
        ``target, weight_column, n_features``, as for `tunefree.io.read`; they concern
        ``.npy``.

    Yields
    ------
    X, y, weight : arrays
        Rows; X may be CSR, and None stands for what the file has not.
    layout : Layout or None
        The meaning of the columns of a table.
    rows : int
        Rows of the file up to here.

    Raises
    ------
    DataError
        Not such a file, or truncated, or not finite.
    """
    read = _table if format == "npy" else _archive
    try:
        for X, y, weight, layout, first in read(os.fspath(path), start, columns):
            rows = first + X.shape[0]
            yield *finite_rows(X, y, weight, path, first, skipped), layout, rows
    except DataError:
        raise
    except _FAULTS as problem:
        words = str(problem).split("\n")[0] or type(problem).__name__
        raise DataError(f"it is not a sound {format} file: {words}", path) from None


def _table(path, start, columns):
    table = np.load(path, mmap_mode="r", allow_pickle=False)
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        words = f"an array of shape {table.shape} and type {table.dtype} is no table of numbers"
        raise DataError(words, path)
    n, width = table.shape
    layout = assign(None, width, (path,), **columns)
    order = np.argsort(layout.slots, kind="stable")
    features = order[layout.slots[order] >= 0]
    target, weight = layout.find(TARGET), layout.find(WEIGHT)
    size = max(1, _ENTRIES // width)
    for first in range(start, n, size):
        block = np.asarray(table[first : first + size])
        block = block if block.dtype in (np.float32, np.float64) else block.astype(np.float64)
        y = None if target is None else block[:, target.position].astype(np.float64)
        w = None if weight is None else block[:, weight.position].astype(np.float64)
        yield np.ascontiguousarray(block[:, features]), y, w, layout, first


class _Member:
    """An array in an archive, read from front to back: neither mapped nor loaded as a whole."""

    def __init__(self, archive, name):
        self.stream = archive.open(f"{name}.npy")
        version = np.lib.format.read_magic(self.stream)
        header = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            header = np.lib.format.read_array_header_2_0
        self.shape, columnwise, self.dtype = header(self.stream)
        if (columnwise and len(self.shape) > 1) or self.dtype.hasobject:
            raise ValueError(f"{name} is not an array of numbers or text in C order")
        self.begin, self.at = self.stream.tell(), 0
        self.step = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def take(self, start, stop):
        """Items start .. stop - 1."""
        if start != self.at:
            self.stream.seek(self.begin + start * self.step)
        data = self.stream.read((stop - start) * self.step)
        if len(data) != (stop - start) * self.step:
            raise EOFError("it ends too early")
        self.at = stop
        return np.frombuffer(data, self.dtype).reshape(stop - start, *self.shape[1:])


def _archive(path, start, columns):
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(path))
        names = {name.removesuffix(".npy") for name in archive.namelist()}
        members = {name: _Member(archive, name) for name in names & {"y", "weight"}}
        if columns.get("target") is False:
            members.pop("y", None)
        if "X" in names:
            read, shape, entries = _dense(archive)
        elif {"data", "indices", "indptr", "shape"} <= names:
            read, shape, entries = _sparse(archive)
        else:
            raise DataError("it has neither X nor data, indices, indptr and shape", path)
        for name, member in members.items():
            if member.shape[:1] != shape[:1]:
                raise DataError(f"{name} has {member.shape[0]} rows, X has {shape[0]}", path)
        size = max(1, int(_ENTRIES * shape[0] // max(entries, 1)))
        for first in range(start, shape[0], size):
            stop = min(first + size, shape[0])
            y, w = (
                members[name].take(first, stop) if name in members else None
                for name in ("y", "weight")
            )
            y = y.astype(np.float64) if y is not None and y.dtype.kind in "iub" else y
            yield read(first, stop), y, w, None, first


def _dense(archive):
    X = _Member(archive, "X")
    if len(X.shape) != 2 or X.dtype.kind not in "fiub":
        raise ValueError("X is no table of numbers")
    kind = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    return lambda a, b: X.take(a, b).astype(kind), X.shape, X.shape[0] * X.shape[1]


def _sparse(archive):
    shape = tuple(_Member(archive, "shape").take(0, 2).tolist())
    data, indices, starts = (_Member(archive, name) for name in ("data", "indices", "indptr"))

    def read(first, stop):
        at = starts.take(first, stop + 1).astype(np.int64)
        values, columns = data.take(at[0], at[-1]), indices.take(at[0], at[-1])
        if np.any(np.diff(at) < 0) or np.any((columns < 0) | (columns >= shape[1])):
            raise ValueError("impossible sparse rows")
        kind = np.float32 if values.dtype == np.float32 else np.float64
        return sparse.csr_array(
            (values.astype(kind), columns.copy(), at - at[0]), shape=(stop - first, shape[1])
        )

    return read, shape, data.shape[0]
