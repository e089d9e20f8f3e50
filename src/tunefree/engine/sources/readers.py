"""Readers: files, arrays and iterators as pieces ``(X, y, weight, place)``.

A reader has a `name`, the `path` of its file or None, a flag `again` (whether it can be read
again), and a method `pieces(place)`, which yields the rows after a position, each piece with the
position after it.
"""

import contextlib
from typing import Any

import numpy as np

from tunefree.files.arrays import finite_rows, frame_batches, plain_batch, row_blocks, spans
from tunefree.files.files import DataError, Named, Skipped
from tunefree.files.late_forms import LateForms, refuse_written_targets, type_of_first_targets
from tunefree.files.libsvm import blocks as libsvm_blocks
from tunefree.files.libsvm import matrix
from tunefree.files.tables import TARGET, WEIGHT, assign, check_points
from tunefree.files.tables import blocks as table_blocks
from tunefree.rows.columns import names_of, without_index
from tunefree.rows.designs import n_entries
from tunefree.rows.matrices import as_rows, check_frame
from tunefree.rows.missing import separated
from tunefree.rows.row_labels import warn_of_row_labels

_START = (0, 1)


class Replay:
    """An iterator whose start can be read several times before it is read once to the end.

    >>> pieces = Replay("file", iter([1, 2, 3]))
    >>> next(iter(pieces)), list(pieces.for_good())
    (1, [1, 2, 3])
    """

    def __init__(self, name, items):
        self.name, self.items, self.kept = name, iter(items), []

    def __iter__(self):
        """Read from the start, and store what is read."""
        yield from list(self.kept)
        for item in self.items:
            self.kept.append(item)
            yield item

    def head(self, enough):
        """The whole lines of the first text of which `enough` is true."""
        text = b""
        for piece in self:
            text += piece
            if enough(text):
                break
        return Replay(self.name, [text[: text.rfind(b"\n") + 1] or text])

    def for_good(self):
        """Read from the start, and store nothing."""
        while self.kept:
            yield self.kept.pop(0)
        yield from self.items


# The format of a pipe is detected from this many bytes, that of a file from the first chunk.
_FIRST_BYTES = 128 << 10


def _first_of(blocks):
    """The blocks from which a format is detected; no more of a pipe is read than needed."""
    first = []
    for block, (byte, _) in blocks:
        first.append(block)
        if byte >= _FIRST_BYTES:
            break
    return first


class Text:
    """What libsvm and csv share: a file, or the `Replay` of a pipe."""

    feature_names = target = weight_column = None
    late: Any = None  # the `LateForms` of the current pass
    _parsed: Any

    def __init__(self, source, name, lenient):
        self.again = not isinstance(source, Replay)
        self.source, self.name, self.path = source, name, source if self.again else None
        self.look = Skipped() if lenient else None  # malformed rows while detecting the format
        self.kept: Any = None  # the `ParsedCache` of blocks

    def pieces(self, place, skipped):
        """The rows after a position; if rows may be skipped, text is parsed in every pass."""
        if self.kept is None or (skipped is not None and skipped.malformed):
            return self._parsed(place, skipped)
        return self.kept.pieces(lambda place: self._parsed(place, skipped), place)

    def _open(self, look):
        if self.again:
            return self.source
        return Named(self.name, iter(self.source) if look else self.source.for_good())


class Libsvm(Text):
    """LIBSVM text; the number of columns may increase from piece to piece."""

    def __init__(self, source, name, *, lenient, n_features, unseen, zero_based, labelled):
        super().__init__(source, name, lenient)
        self.n_features, self.labelled = n_features, labelled
        self.cut, self.ignored = unseen == "ignore", 0
        if zero_based == "auto":
            found = libsvm_blocks(self._open(look=True), skipped=self.look, labelled=labelled)
            zero_based = any(np.any(block.indices == 0) for block in _first_of(found))
        self.zero_based = zero_based
        self.settings = n_features, unseen, zero_based, labelled

    def _parsed(self, place, skipped):
        """Blocks as pieces; with unseen='ignore' entries beyond the columns are cut and counted."""
        options = {"zero_based": self.zero_based, "labelled": self.labelled}
        options["n_features"] = None if self.cut else self.n_features
        width: Any = self.n_features or 0
        self.ignored, block = 0, None
        text, place = self._open(look=False), place or _START
        for block, after in libsvm_blocks(text, skipped=skipped, place=place, **options):
            X = matrix(block, 0 if self.zero_based else 1)
            n_entries, width = X.nnz, self.n_features if self.cut else max(width, X.shape[1])
            X.resize(X.shape[0], max(width, 1))
            self.ignored += n_entries - X.nnz
            yield X, block.labels if self.labelled else None, None, after
        if block is not None and not width and place == _START:
            raise DataError("the file has no features", self.name)


class Csv(Text):
    """Delimited text; whether targets are text is detected from its start."""

    def __init__(self, source, name, *, lenient, target_type, **columns):
        super().__init__(source, name, lenient)
        self.columns = columns
        first = _first_of(table_blocks(self._open(look=True), skipped=self.look, **columns))
        if not first:
            raise DataError("the file has no rows", name)
        self.layout = first[0].layout
        check_points(self.layout, name)
        self.n_features, self.feature_names = self.layout.n_features, self.layout.feature_names
        self.target, self.weight_column = self.layout.find(TARGET), self.layout.find(WEIGHT)
        self.target_type = target_type or type_of_first_targets(first, name)
        self.is_decided = target_type is not None or self.target_type is str
        self.settings = columns, self.target_type

    def _parsed(self, place, skipped):
        how = {"target_type": self.target_type, "skipped": skipped, "layout": self.layout}
        text = self._open(look=False)
        self.late = LateForms(self.layout, self.is_decided)
        for block, after in table_blocks(text, place=place or _START, **how, **self.columns):
            self.late.add(block)
            y = None
            if self.target:
                y = block.targets(self.target_type, skipped)
            yield block.X, y, block.weight if self.weight_column else None, after


class Stored:
    """Parquet, Arrow and NumPy files; a position is a number of rows."""

    again = True

    def __init__(self, path, name, *, format, **columns):
        self.path, self.name, self.format, self.columns = path, name, format, columns
        first = next(self._blocks(0, Skipped(malformed=False)), None)
        if first is None:
            raise DataError("the file has no rows", name)
        X, y, _, layout, _ = first
        self.n_features = X.shape[1]
        self.feature_names = layout and layout.feature_names
        self.target = layout and layout.find(TARGET)
        self.weight_column = layout and layout.find(WEIGHT)
        if self.target and columns.get("target_type") is None:
            refuse_written_targets(y, layout.describe(self.target.position), name)

    def _blocks(self, start, skipped):
        return row_blocks(self.path, self.format, start=start, skipped=skipped, **self.columns)

    def pieces(self, place, skipped):
        """The rows after a position."""
        (start,) = place or (0,)
        for X, y, weight, _, rows in self._blocks(start, skipped):
            yield X, y, weight, (rows,)


def _rows_of(X, name, where):
    """A user's rows of numbers, and the names of their columns; None without names."""
    try:
        check_frame(X)
    except (TypeError, ValueError) as problem:
        raise DataError(f"{where}{problem}", name) from None
    X = without_index(X)
    names = names_of(X)
    if names is None:
        return as_rows(X), None
    rows = as_rows(separated(X)[0])
    if rows.dtype.kind == "O" and not any(isinstance(cell, str) for cell in rows.flat):
        with contextlib.suppress(TypeError, ValueError):  # truth values beside numbers
            rows = rows.astype(np.float64)
    return rows, (names if all(isinstance(name, str) for name in names) else None)


def _targets_of(y):
    """A user's targets as an array; masked ones are missing."""
    if np.ma.is_masked(y):
        y = y.astype(object).filled(None)
    return np.asarray(separated(y)[0])


class Arrays:
    """Arrays in memory, or memory maps, some rows at a time."""

    again, path, target, weight_column = True, None, None, None

    def __init__(self, X, y=None, weight=None):
        self.name, self.parts = "the arrays", (X, y, weight)
        self.n_features = X.shape[1]
        _, self.feature_names = _rows_of(X[:1], self.name, "")
        warn_of_row_labels(X, y=y, sample_weight=weight)

    def pieces(self, place, skipped):
        """The rows after a position."""
        X, y, weight = self.parts
        for part in spans(X.shape[0], n_entries(X), *place):
            targets = None if y is None else _targets_of(y[part])
            weights = None if weight is None else np.asarray(weight[part])
            rows, _ = _rows_of(X[part], self.name, f"rows {part.start + 1} to {part.stop}: ")
            yield *finite_rows(rows, targets, weights, self.name, part.start, skipped), (part.stop,)


class Pieces:
    """A user's iterator of ``(X, y)`` or ``(X, y, weight)``, or a function that makes one.

    Frames are matched by the names of their columns, in the order of the first one.
    """

    path = target = weight_column = None
    feature_names: Any = None

    def __init__(self, items, hasher):
        self.items, self.name, self.hasher = items, "the iterator", hasher
        self.again = callable(items) or iter(items) is not items
        if not self.again:
            self.items = Replay(self.name, items)
        self.n_features = hasher.n_features if hasher else None

    def pieces(self, place, skipped):
        """The rows after a position, which is a number of pieces and of rows."""
        to_skip, row = place or (0, 0)
        items: Any = self.items() if callable(self.items) else self.items
        items = items if self.again else items.for_good()
        for k, piece in enumerate(items):
            if 0 < k < to_skip:
                continue
            X, y, weight = self._checked(piece, k)  # the first one has the names
            if k < to_skip:
                continue
            n = X.shape[0]
            if n:
                yield *finite_rows(X, y, weight, self.name, row, skipped), (k + 1, row + n)
            row += n

    def _checked(self, piece, k):
        """The rows, targets and weights of a piece."""
        where = f"piece {k + 1}: "
        if not isinstance(piece, (tuple, list)) or len(piece) not in (2, 3):
            words = f"{where}a {type(piece).__name__}, which is no pair (X, y) or triple"
            raise DataError(f"{words} (X, y, weight)", self.name)
        X, y, weight = (*piece, None)[:3]
        warn_of_row_labels(X, y=y, sample_weight=weight)
        X = self.hasher.rows(X) if self.hasher else self._in_order(X, k, where)
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            words = f"X has the shape {X.shape} and the type {X.dtype}, not rows of numbers"
            raise DataError(f"{where}{words} (hashed=2**18 takes text)", self.name)
        y = _targets_of(y)
        weight = None if weight is None else np.asarray(weight, np.float64)
        if weight is not None and weight.shape[1:] == (1,):
            weight = weight.ravel()
        if y.ndim == 0 or len(y) != X.shape[0] or not (weight is None or len(weight) == len(y)):
            raise DataError(f"piece {k + 1} has X and y of different lengths", self.name)
        return X, y, weight

    def _in_order(self, X, k, where):
        """The rows with the columns of the first piece, in its order."""
        X, names = _rows_of(X, self.name, where)
        if k == 0:
            self.feature_names = names
        known = self.feature_names
        if names == known:
            return X
        if known is None or names is None:
            first, own = ("no names" if n is None else "names" for n in (known, names))
            words = f"{where}its columns have {own}, and those of the first piece {first}"
            raise DataError(words, self.name)
        lost = [name for name in known if name not in names]
        new = [name for name in names if name not in known]
        if lost:
            raise DataError(f"{where}X lacks the column {lost[0]!r} of the first piece", self.name)
        if new:
            words = f"X has a column {new[0]!r}, which the first piece has not"
            raise DataError(f"{where}{words}", self.name)
        return X[:, [names.index(name) for name in known]]


class Hashed:
    """A parquet, Arrow or csv file whose columns may hold text: all are hashed by their names."""

    again, feature_names = True, None

    def __init__(self, path, name, hasher, *, format, written, **roles):
        self.path, self.name, self.hasher, self.format = path, name, hasher, format
        self.n_features = hasher.n_features
        self.roles = roles | written
        first = next(frame_batches(path, format, **self.roles), None)
        if first is None:
            raise DataError("the file has no rows", name)
        names = first.schema.names
        layout = assign(names, len(names), (name,), **roles)
        self.features = layout.feature_names
        self.target, self.weight_column = layout.find(TARGET), layout.find(WEIGHT)

    def pieces(self, place, skipped):
        """The rows after a position."""
        (start,) = place or (0,)
        for batch in frame_batches(self.path, self.format, start, **self.roles):
            n, y, weight = len(batch), None, None
            if self.target:
                y = separated(batch.column(self.target.name).to_pylist())[0]
            if self.weight_column:
                weights = batch.column(self.weight_column.name).to_pylist()
                weight = np.array(weights, dtype=np.float64)
            features = plain_batch(batch.select(self.features), self.name)
            X = self.hasher.rows(features.to_pylist())
            yield *finite_rows(X, y, weight, self.name, start, skipped), (start + n,)
            start += n
