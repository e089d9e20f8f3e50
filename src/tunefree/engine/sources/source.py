"""`open_source`: files, pipes, arrays and iterators as one kind of thing, a `Source`."""

import os
from collections.abc import Sequence
from typing import Any

from scipy import sparse
from sklearn.feature_extraction import FeatureHasher

from tunefree.engine.sources import readers
from tunefree.engine.sources.chunks import Chunk, Mark, ahead, on_grid, shuffled
from tunefree.io import FORMATS, format_of, sniff_text
from tunefree.io.opening import DataError, Skipped, chunks as text_pieces, fingerprint, name_of


class Source:
    """Rows that need not fit into memory: what `open_source` makes of a reader.

    A source that can be read again (`again`) serves several passes; `name` says what it is,
    `n_features` how many columns there are (None while that is open), `rows` how many rows of the
    current pass were handed out, and `skipped` counts the malformed ones that were left out.
    """

    def __init__(self, reader, *, window=0, seed=0, on_bad_row="error"):
        self.reader, self.window, self.seed, self.on_bad_row = reader, window, seed, on_bad_row
        self.name, self.again, self.n_features = reader.name, reader.again, reader.n_features
        self.feature_names, self.skipped, self.rows = reader.feature_names, Skipped(), 0

    def chunks(self, mark=None, epoch=0, rows=None):
        """The `Chunk`s after a mark, read ahead by a thread, cut on a grid of so many rows.

        The number of the pass, `epoch`, decides the order within windows.
        """
        mark = mark or Mark()
        found = self._marked(mark)
        if self.window:
            found = shuffled(found, self.window, self.seed, epoch, mark)
        elif rows or mark.skip:
            found = on_grid(found, rows or 4096, mark)
        self.rows = mark.row
        for chunk in ahead(found):
            self.rows = chunk.mark.row
            yield chunk

    def _marked(self, mark):
        skipped = None
        if self.on_bad_row == "skip":
            self.skipped = skipped = Skipped()
            skipped.count = mark.skipped
        rows, kind = mark.rows, None
        for X, y, weight, place in self.reader.pieces(mark.place, skipped):
            kind = kind or _kind(X)
            if _kind(X) != kind:
                words = f"from row {rows + 1} on there are {_kind(X)}, and before it {kind}"
                raise DataError(words, self.name)
            rows += X.shape[0]
            if X.shape[0]:
                count = skipped.count if skipped else 0
                yield Chunk(X, y, weight, Mark(place, rows, skipped=count))

    def identity(self, mark=None):
        """What a checkpoint remembers of a source, to notice another one.

        With a mark only of what comes before it: what comes after may change, and a fault in it be
        mended.
        """
        path = getattr(self.reader, "path", getattr(self.reader, "source", None))
        content = None
        if isinstance(path, str) and os.path.isfile(path):
            text = isinstance(self.reader, readers.Libsvm | readers.Csv)
            content = fingerprint(path, mark.place[0] if mark and mark.place and text else None)
        return {"content": content, "window": self.window, "seed": self.seed}


def _kind(X):
    """What rows have to have in common."""
    return "sparse rows" if sparse.issparse(X) else f"rows of {X.shape[1]} columns"


class _Hasher:
    """Hashes rows, which are mappings of names to numbers or text, or lists of strings, to CSR."""

    def __init__(self, n_features):
        self.n_features = n_features

    def rows(self, X):
        X = list(X)
        mappings = bool(X) and isinstance(X[0], dict)
        if mappings:  # what is missing has no entry
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
    weight_column: Any = None,
    n_features: int | None = None,
    unseen: str = "error",
    columns: Sequence[str] | None = None,
    zero_based: bool | str = "auto",
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
        A libsvm, csv, parquet, Arrow, ``.npy`` or ``.npz`` file (text also as ``.gz`` or ``.zst``);
        ``"-"`` for standard input; a pair (X, y) or triple (X, y, weight) of arrays, which may be
        memory maps; an iterable of such pairs or triples, or a function that returns one, so that
        it can be read again.
    name : str, optional
        What to call it in messages.
    format : {'libsvm', 'csv', 'parquet', 'arrow', 'npy', 'npz'}, optional
        By default the suffix or the first line tells.
    target, header, weight_column
        As for ``tunefree train``: the target column (by default the last, False for none), whether
        a csv file has a header, the column of weights.
    n_features : int, optional
        Number of columns; of libsvm text it grows by default as larger indices come.
    unseen : {'error', 'ignore'}, default='error'
        libsvm: what to do about an index beyond `n_features`.
    columns : list of str, optional
        csv, parquet and Arrow with named columns: take these features, in this order.
    zero_based : bool or 'auto', default='auto'
        libsvm: whether indices count from 0; 'auto' says so if one occurs in the first
        megabyte of a file, or 128 KiB of a pipe.
    target_type : {float, str, None}, default=None
        csv: what targets are; None tells by the same.
    hashed : int, optional
        Hash features into so many columns (scikit-learn's FeatureHasher): rows may then be lists of
        strings, mappings of names to numbers or text, or lines of a csv, parquet or Arrow file with
        named columns.
    window : int, default=0
        Shuffle within windows of so many rows, in an order that `seed` and the pass decide.
    seed : int, default=0
    on_bad_row : {'error', 'skip'}, default='error'
        What to do about a malformed row. Skipped rows are counted in ``source.skipped``.

    Returns
    -------
    Source

    Raises
    ------
    DataError
        The data cannot be read; the message names file, line and column.

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
    width: dict[str, Any] = {"n_features": n_features}
    roles = {"target": target, "weight_column": weight_column}
    named = roles | width | {"columns": columns, "target_type": target_type}
    options = {"window": window, "seed": seed, "on_bad_row": on_bad_row}
    if not isinstance(data, str | os.PathLike | readers.Replay):
        return Source(_from_memory(data, hasher), **options)
    if isinstance(data, readers.Replay):
        path, name = None, name or data.name
    else:
        path, name = os.fspath(data), name or name_of(data)
    kind = FORMATS.get(format or "") or (path and FORMATS.get(format_of(path) or ""))
    if hasher and kind in ("parquet", "arrow", "csv"):
        reader = readers.Hashed(path, name, hasher, format=kind, **roles)
    elif hasher:
        raise ValueError("hashed= is for iterators, and for csv, parquet and Arrow files.")
    elif kind in ("parquet", "arrow", "npy", "npz"):
        reader = readers.Stored(path, name, format=kind, **named)
    else:
        lenient = on_bad_row == "skip"
        text: Any = readers.Replay(name, text_pieces(path)) if path == "-" else path or data
        if kind is None:
            kind, _ = sniff_text(text_pieces(text) if isinstance(text, str) else iter(text))
        if kind == "libsvm":
            width |= {"unseen": unseen, "zero_based": zero_based, "labelled": target is not False}
            reader = readers.Libsvm(text, name, lenient=lenient, **width)
        else:
            reader = readers.Csv(text, name, lenient=lenient, header=header, **named)
    return Source(reader, **options)


def _from_memory(data, hasher):
    """A reader of arrays, or of an iterator of them."""
    if isinstance(data, tuple) and len(data) in (2, 3) and hasattr(data[0], "shape"):
        if hasher:
            raise ValueError("hashed= is for rows of text, not for arrays.")
        return readers.Arrays(*data)
    if not (callable(data) or hasattr(data, "__iter__")):
        raise ValueError(f"data is a {type(data).__name__}: no path, arrays or iterable of pieces.")
    return readers.Pieces(data, hasher)
