"""`open_source`: files, pipes, arrays and iterators as a `Source` of chunks.

A reader yields chunks of any size, each with a mark from which reading can continue. Chunks can be
cut on a fixed grid of rows and shuffled within windows; reading can still continue from the mark of
any chunk.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree._version import __version__
from tunefree.core.progress import task
from tunefree.engine.sources import readers
from tunefree.engine.sources.parsed_cache import ParsedCache, cache_path
from tunefree.files.arrays import FRAMES, taken, with_targets
from tunefree.files.files import (
    FORMATS,
    PACKED,
    DataError,
    Skipped,
    check_options,
    detected,
    fingerprint,
    name_of,
)
from tunefree.files.files import chunks as text_pieces
from tunefree.rows.matrices import stacked

# A shuffled window is yielded in pieces of so many rows.
_PIECE = 4096


class Mark(NamedTuple):
    """Where reading continues.

    >>> Mark((1024, 17), rows=16, skip=2).row
    18
    """

    place: tuple = ()  # the reader's position, in its own form; () is the start
    rows: int = 0  # before that position
    skip: int = 0  # from there to the next block, or to the block that has been read in part
    done: int = 0  # rows of that block that have been read
    skipped: int = 0  # malformed rows skipped before the position
    unlabelled: int = 0  # rows without a target skipped before it

    @property
    def row(self):
        """Rows read so far."""
        return self.rows + self.skip + self.done


class Chunk(NamedTuple):
    """Some rows."""

    X: Any  # ndarray or CSR of shape (n, d)
    y: np.ndarray | None  # (n,) or (n, n_targets)
    weight: np.ndarray | None
    mark: Mark  # where reading continues after them

    def __len__(self):
        """How many rows."""
        return self.X.shape[0]

    def take(self, rows, mark):
        """Chosen rows, with another mark."""
        X, y, weight = taken(rows, self.X, self.y, self.weight)
        return Chunk(X, y, weight, mark)


def widened(X, d):
    """A CSR matrix with d columns that shares the memory of X; X itself if it has so many.

    >>> widened(sparse.csr_array(np.eye(2)), 5).shape
    (2, 5)
    """
    if X.shape[1] == d:
        return X
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], d))


def joined(chunks):
    """Several chunks as one, with the mark of the last."""
    if len(chunks) == 1:
        return chunks[0]
    X, y, weight, marks = zip(*chunks, strict=True)
    d = max(x.shape[1] for x in X)
    X = stacked([widened(x, d) for x in X])
    y, weight = (None if parts[0] is None else np.concatenate(parts) for parts in (y, weight))
    return Chunk(X, y, weight, marks[-1])


def on_grid(chunks, size, mark):
    """Cut chunks so that they end at the multiples of `size` rows, counted from the first row.

    The chunks are those of a reader from the mark's position on.

    >>> X = np.arange(7.0)[:, None]
    >>> parts = [Chunk(X[a:b], X[a:b, 0], None, Mark((b,), b)) for a, b in [(0, 4), (4, 7)]]
    >>> [(len(c), c.mark.row) for c in on_grid(parts, 3, Mark())]
    [(3, 3), (3, 6), (1, 7)]
    """
    at, to_skip = mark.rows, mark.skip
    parts = []
    for chunk in chunks:
        begin, start = min(to_skip, len(chunk)), mark._replace(skip=0, done=0)
        to_skip -= begin
        while begin < len(chunk):
            row = at + begin
            stop = min(len(chunk), begin + size - row % size)
            whole = stop == len(chunk)
            after = chunk.mark if whole else start._replace(skip=stop)
            parts.append(chunk.take(slice(begin, stop), after))
            begin = stop
            if (at + stop) % size == 0:
                yield joined(parts)
                parts = []
        at += len(chunk)
        mark = chunk.mark
    if parts:
        yield joined(parts)


def shuffled(chunks, window, seed, epoch, mark):
    """Shuffle the rows within each window of so many rows, and yield pieces of windows.

    The order is a function of the seed, the pass and the window only.

    >>> X = np.arange(6.0)[:, None]
    >>> part = Chunk(X, X[:, 0], None, Mark((6,), 6))
    >>> sorted(next(shuffled([part], 4, 0, 0, Mark())).y.tolist())
    [0.0, 1.0, 2.0, 3.0]
    """
    begin, done = mark._replace(done=0), mark.done
    for whole in on_grid(chunks, window, begin):
        n = len(whole)
        order = np.random.default_rng([seed, epoch, begin.row // window]).permutation(n)
        for start in range(done, n, _PIECE):
            stop = min(start + _PIECE, n)
            after = whole.mark if stop == n else begin._replace(done=stop)
            yield whole.take(order[start:stop], after)
        begin, done = whole.mark, 0


def ahead(items):
    """Run an iterator in a thread, three items ahead; its exceptions are raised in order.

    >>> list(ahead(range(4)))
    [0, 1, 2, 3]
    """
    ready, closed = queue.Queue(3), threading.Event()

    def put(item):
        while not closed.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work():
        try:
            for item in items:
                put((item, None))
                if closed.is_set():
                    return
            put((None, StopIteration))
        except BaseException as error:  # raised again in the thread that reads
            put((None, error))

    threading.Thread(target=work, daemon=True, name="tunefree-reader").start()
    try:
        while True:
            item, error = ready.get()
            if error is StopIteration:
                return
            if error is not None:
                raise error
            yield item
    finally:
        closed.set()


class Source:
    """Rows that need not fit into memory: what `open_source` makes of a reader.

    If `again`, it can be read in several passes. `name` is its name in messages, `n_features` the
    number of columns (None while unknown), `rows` the number of rows read in the current pass, and
    `skipped` counts malformed rows and rows without a target. The latter are skipped, with a
    warning after the first pass, unless `keeps_unlabelled`. If `is_sample`, nothing is concluded
    from how many are skipped. A `sample` (`RowSample`) draws from the rows of the first pass.
    """

    keeps_unlabelled = is_sample = False
    sample: Any = None

    def __init__(self, reader, *, window=0, seed=0, on_bad_row="error"):
        self.reader, self.window, self.seed, self.on_bad_row = reader, window, seed, on_bad_row
        self.name, self.again, self.n_features = reader.name, reader.again, reader.n_features
        self.skipped, self.rows = Skipped(), 0

    @property
    def feature_names(self):
        """The names of the columns; None without names, or while they are unknown."""
        return self.reader.feature_names

    def chunks(self, mark=None, epoch=0, rows=None):
        """The `Chunk`s after a mark, prefetched by a thread, cut on a grid of so many rows.

        The order within windows depends on the pass, `epoch`. After the last one a DataError is
        raised if more than a fifth of the rows had to be skipped.
        """
        mark = mark or Mark()
        found = self._marked(mark)
        if self.window:
            found = shuffled(found, self.window, self.seed, epoch, mark)
        elif rows or mark.skip:
            found = on_grid(found, rows or 4096, mark)
        self.rows = mark.row
        with task(f"reading {self.name}", "rows") as own:
            size = self._size() if own.is_shown else None
            for chunk in ahead(found):
                self.rows = chunk.mark.row
                place = chunk.mark.place
                own.at(self.rows, place[0] / size if size and place else None)
                if self.sample is not None and not epoch:
                    self.sample.add(chunk.X, self.rows - len(chunk))
                yield chunk
        if not self.is_sample:
            if (late := getattr(self.reader, "late", None)) is not None:
                late.check()
            self.skipped.check(self.rows, self.name)
            self.skipped.warn()

    def _size(self):
        """The bytes of a plain text file, which marks count; None for others."""
        path = self.reader.path if self._is_text else None
        if path is None or not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            is_packed = file.read(8).startswith(tuple(PACKED))
        return None if is_packed else os.path.getsize(path)

    @property
    def _is_text(self):
        return isinstance(self.reader, readers.Text)

    @contextlib.contextmanager
    def parsed_once(self, checkpoint=None):
        """A context in which a text file is parsed in the first pass only (`ParsedCache`)."""
        reader, path = self.reader, self.reader.path
        if path is None or not self._is_text or self.on_bad_row == "skip":
            yield
            return
        with cache_path(path, checkpoint and checkpoint.path) as cached:
            identity = repr((__version__, fingerprint(path), os.stat(path).st_mtime_ns))
            if cached is not None:
                reader.kept = ParsedCache(cached, identity + repr(reader.settings))
            try:
                yield
            finally:
                reader.kept = None

    def _marked(self, mark):
        skipped = Skipped(self.on_bad_row == "skip", not self.keeps_unlabelled)
        skipped.has_warned, self.skipped = self.skipped.has_warned, skipped
        skipped.count, skipped.n_unlabelled = mark.skipped, mark.unlabelled
        rows, known, shape = mark.rows, {}, None
        for X, y, weight, place in self.reader.pieces(mark.place, skipped):
            X, y, weight = with_targets(X, y, weight, skipped)
            if X.shape[0]:
                found = _kinds(X, y, weight, f"{self.name}: rows from {rows + 1} on")
                for what, kind in found.items():
                    if known.setdefault(what, kind) != kind:
                        words = f"from row {rows + 1} on there are {kind}, and before it"
                        raise DataError(f"{words} {known[what]}", self.name)
                if y is not None:
                    shape = y.shape[1:] if shape is None else shape
                    y = y.reshape(len(y), *shape)
                rows += X.shape[0]
                so_far = {"skipped": skipped.count, "unlabelled": skipped.n_unlabelled}
                yield Chunk(X, y, weight, Mark(place, rows, **so_far))

    def identity(self, mark):
        """What a checkpoint stores of a source, to detect another one.

        With a mark, only the rows before it count: later rows may change, so that errors in them
        can be corrected.
        """
        path, stop, content = self.reader.path, None, None
        if mark and mark.place and self._is_text:
            stop = mark.place[0]  # in bytes
        if path is not None and os.path.isfile(path):
            content = fingerprint(path, stop)
        return {"content": content, "window": self.window, "seed": self.seed}


def _kinds(X, y, weight, where):
    """The kinds of rows, targets and weights, which must be the same in all chunks."""
    rows = "sparse rows" if sparse.issparse(X) else f"rows of {X.shape[1]} columns"
    weights = "no weights" if weight is None else "weights"
    if y is None:
        return {"rows": rows, "weights": weights, "targets": "no targets"}
    width = int(np.prod(y.shape[1:]))
    return {
        "rows": rows,
        "weights": weights,
        "width": f"rows of {width} targets" if width > 1 else "rows of one target",
        "targets": _kind_of_targets(y, where),
    }


def _kind_of_targets(y, where):
    """Whether targets are text or not; both in one chunk are an error."""
    if y.dtype.kind != "O":
        return "targets of text" if y.dtype.kind in "SUT" else "targets that are no text"
    items = y.ravel().tolist()
    texts = [item for item in items if isinstance(item, str)]
    if texts and len(texts) < len(items):
        other = next(item for item in items if not isinstance(item, str))
        raise DataError(
            f"{where} have targets such as {texts[0]!r:.40} and such as {other!r:.40}: give text "
            "or numbers, not both"
        )
    return "targets of text" if texts else "targets that are no text"


class _Hasher:
    """Hashes rows, which are mappings of names to numbers or text, or lists of strings, to CSR."""

    def __init__(self, n_features):
        self.n_features = n_features

    def rows(self, X):
        from sklearn.feature_extraction import FeatureHasher

        X = list(X)
        mappings = bool(X) and isinstance(X[0], dict)
        if mappings:  # a missing value has no entry
            X = [{k: v for k, v in row.items() if v is not None} for row in X]
        hasher = FeatureHasher(self.n_features, input_type="dict" if mappings else "string")
        return hasher.transform(X)


def open_source(
    data: Any,
    *,
    name: str | None = None,
    format: str | None = None,
    target: Any = None,
    header: bool | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    weight_column: Any = None,
    n_features: int | None = None,
    unseen: str = "error",
    columns: Sequence[str] | None = None,
    zero_based: bool | str = "auto",
    drop: Sequence[str] = (),
    target_type: type | None = None,
    hashed: int | None = None,
    window: int = 0,
    seed: int = 0,
    on_bad_row: str = "error",
) -> Source:
    r"""Open data of any size for ``fit_source``.

    Parameters
    ----------
    data : path, arrays, iterable, function or Source
        A file of any format that ``tunefree train`` takes, also packed;
        ``"-"`` for standard input; a pair (X, y) or triple (X, y, weight) of arrays, which may be
        memory maps; an iterable of such pairs or triples, or a function that returns one, so that
        it can be read again. Frames are matched by the names of their columns; pieces that differ
        in their columns, in the type of targets, or in whether they have weights are refused.
    name : str, optional
        What to call it in messages.
    format : str, optional
        'libsvm', 'csv', 'json', 'jsonl', 'parquet', 'arrow', 'orc', 'excel', 'arff', 'stata',
        'spss', 'sas', 'npy' or 'npz'. By default it is detected from the suffix or the contents.
    target, header, weight_column
        As for ``tunefree train``: the target column (by default the last, False for none), whether
        a csv file has a header, the column of weights.
    delimiter : str, optional
        What separates the cells of a csv file, such as ``";"``; " " stands for any number of
        blanks. By default it is found in the first 64 KB.
    sheet : str, optional
        The sheet of a workbook, by name or number; by default the first that holds a table.
    n_features : int, optional
        Number of columns; of libsvm text it increases by default as larger indices come.
    unseen : {'error', 'ignore'}, default='error'
        libsvm: what to do about an index beyond `n_features`.
    columns : list of str, optional
        csv, parquet and Arrow with named columns: take these features, in this order.
    drop : list of str, default=()
        Columns that are not features, by name or position; not for libsvm.
    zero_based : bool or 'auto', default='auto'
        libsvm: whether indices count from 0; 'auto' means yes if the index 0 occurs in the first 2
        MiB of a file, or 128 KiB of a pipe.
    target_type : {float, str, None}, default=None
        csv: the type of targets; None detects it from the same first part.
    hashed : int, optional
        Hash features into so many columns (scikit-learn's FeatureHasher): rows may then be lists of
        strings, mappings of names to numbers or text, or lines of a csv, parquet or Arrow file with
        named columns.
    window : int, default=0
        Shuffle within windows of so many rows, in an order that depends on `seed` and the pass.
    seed : int, default=0
    on_bad_row : {'error', 'skip'}, default='error'
        What to do about a malformed row. Skipped rows are counted in ``source.skipped``, and so
        are rows without a target (an empty cell, null, NaN), which are always skipped.

    Returns
    -------
    Source

    Raises
    ------
    DataError
        The data cannot be read; the message names file, line and column. At the end of a pass also
        if more than a fifth of the rows had to be skipped, or if all rows show that points of a
        column stand between thousands.

    Warns
    -----
    DataWarning
        At the end of the first pass, of rows without a target; at the end of a pass over text, of
        columns with zeros in front of digits, or with whole numbers that floats cannot hold.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import PiSTOLRegressor, open_source
    >>> rng = np.random.default_rng(0)
    >>> def pieces():
    ...     for _ in range(10):
    ...         X = rng.standard_normal((100, 3))
    ...         yield X, X @ [1.0, 2.0, 3.0]
    >>> PiSTOLRegressor().fit_source(open_source(pieces)).coef_.round(1).tolist()
    [1.0, 2.0, 3.0]
    """
    if isinstance(data, Source):
        return data
    if on_bad_row not in ("error", "skip"):
        raise ValueError(f"on_bad_row={on_bad_row!r} is neither 'error' nor 'skip'.")
    if format is not None and format not in FORMATS:
        raise ValueError(f"format={format!r} is none of {', '.join(sorted(FORMATS))}.")
    hasher = _Hasher(hashed) if hashed else None
    options = {"window": window, "seed": seed, "on_bad_row": on_bad_row}
    if not isinstance(data, str | os.PathLike | readers.Replay):
        return Source(_from_memory(data, hasher), **options)
    name = name or name_of(data)
    if not isinstance(data, readers.Replay):
        data = os.fspath(data)
    if data == "-":
        data = readers.Replay(name, text_pieces(data))
    kind, _ = detected(data, format)
    if kind not in ("csv", "libsvm") and isinstance(data, readers.Replay):
        raise ValueError(f"{kind} data are read from files only: give a path.")
    roles = {"target": target, "weight_column": weight_column, "drop": drop}
    named = roles | {"n_features": n_features, "columns": columns, "target_type": target_type}
    written = {"header": header, "delimiter": delimiter, "sheet": sheet}
    check_options(kind, name, written | roles)
    lenient = on_bad_row == "skip"
    reader: Any
    if hasher:
        if kind not in ("csv", *FRAMES) or isinstance(data, readers.Replay):
            raise ValueError("hashed= is for iterators and for files of tables with names only.")
        reader = readers.Hashed(data, name, hasher, format=kind, written=written, **roles)
    elif kind == "csv":
        del written["sheet"]
        reader = readers.Csv(data, name, lenient=lenient, **written, **named)
    elif kind == "libsvm":
        how: Any = {"unseen": unseen, "zero_based": zero_based, "labelled": target is not False}
        reader = readers.Libsvm(data, name, lenient=lenient, n_features=n_features, **how)
    else:
        reader = readers.Stored(data, name, format=kind, **written, **named)
    return Source(reader, **options)


def _from_memory(data, hasher):
    """A reader of arrays, or of an iterator of arrays."""
    if isinstance(data, tuple) and len(data) in (2, 3) and hasattr(data[0], "shape"):
        if hasher:
            raise ValueError("hashed= is for rows of text, not for arrays.")
        return readers.Arrays(*data)
    if not (callable(data) or hasattr(data, "__iter__")):
        raise ValueError(f"data is a {type(data).__name__}: no path, arrays or iterable of pieces.")
    return readers.Pieces(data, hasher)
