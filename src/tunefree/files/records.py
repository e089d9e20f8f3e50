"""Rows one by one, each a dict of names and values, of every format with rows.

Learners that take one row at a time need no types of columns: text is text, and empty cells and
absent targets are None. A place is a position in the content, in bytes, and the number of its line,
as in `tunefree.files.files`; in files that are not text it is a number of rows and the next row.
Reading continues from there. Text is parsed by the readers of whole files, and refused with their
words.
"""

import datetime
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tunefree.core.warn import DataWarning, warn
from tunefree.files.arrays import frame_batches
from tunefree.files.dialect import Dialect, with_point
from tunefree.files.files import (
    DataError,
    check_options,
    decoded,
    json_row,
    name_of,
    placed_lines,
    skip,
)
from tunefree.files.formats import notes_of
from tunefree.files.json_tables import flat, json_shape, note_of_lists
from tunefree.files.libsvm import Parser
from tunefree.files.quotes import cells_of, last_row
from tunefree.files.tables import TARGET, Layout, headed, names_beside_blanks, ragged, unnamed
from tunefree.rows.cells import label_of, number_of, value_of
from tunefree.rows.missing import NO_LABEL
from tunefree.rows.schema import are_padded_names
from tunefree.rows.written_numbers import words_of_groups

_TARGETS = ("target", "label", "class", "y")


class Record(NamedTuple):
    """A row: its values by name, its target (None if absent), and the place after it."""

    x: dict
    y: Any
    place: tuple


def records(
    source, format, *, place=(0, 1), layout=None, skipped=None, is_live=False, **columns
) -> Iterator[Record]:
    r"""Read the records of a source from a place on.

    Parameters
    ----------
    source : str, or pieces of text
        As for `tunefree.files.files.chunks`.
    format : {'csv', 'libsvm', 'jsonl', 'parquet', 'arrow', 'orc', 'excel', 'arff', 'stata', ...}
    place : tuple
        Position in bytes, and line.
    layout : list, optional
        Filled from the first line; required if reading starts after that.
    skipped : Skipped, optional
        Counts malformed lines; without it they are errors.
    is_live : bool, default=False
        Whether rows arrive while they are read: the dialect is then that of the first lines.
    **columns
        `target`, and of csv `header` and `delimiter`, of workbooks `sheet`.

    Yields
    ------
    Record

    Examples
    --------
    >>> next(records([b"size,kind,price\n3,red,7\n"], "csv"))
    Record(x={'size': 3, 'kind': 'red'}, y=7, place=(24, 3))
    >>> [(r.x, r.y) for r in records([b"-1 2:0.5\n1:4\n"], "libsvm")]
    [({'2': 0.5}, -1), ({'1': 4.0}, None)]
    >>> [(r.x, r.y) for r in records([b'{"a": null, "y": true}\n'], "jsonl")]
    [({'a': None}, True)]
    """
    path = name_of(source)
    layout = [] if layout is None else layout
    check_options(format, path, columns)
    if format == "jsonl":
        format, source = json_shape(source)
    if format == "csv":
        yield from _csv(source, path, place, layout, skipped, is_live, **columns)
        return
    parsers: Any = {"libsvm": _Libsvm, "lines": _Json}
    if format not in parsers:
        yield from _of_frames(source, path, format, place, layout, **columns)
        return
    parse = parsers[format](layout, path, **columns)
    for text, line, after in placed_lines(source, place):
        at = after[0] - len(text)
        for row in text.splitlines(keepends=True):
            at, here, line = at + len(row), line, line + 1
            if not row.strip():
                continue
            try:
                found = parse(row, here)
            except DataError as error:
                skip(error, skipped)
                continue
            if found is not None:
                x, y = found
                yield Record(x, y, (at, line))


# Delimited text. The layout is what a checkpoint stores of a dialect, and the name of the target.


def _csv(source, path, place, layout, skipped, is_live, **columns):
    known = None
    if layout:
        delimiter, names, target, empty, comment, is_wrapped, *more = layout
        width = len(names)
        dialect = Dialect(delimiter, names, width, tuple(empty), 0, comment, is_wrapped)
        if more:  # a checkpoint of earlier versions has none of them
            quoting, header, commas, *_ = more
            header = tuple(map(tuple, header))
            dialect = dialect._replace(quoting=quoting, header=header, commas=tuple(commas))
        known = Layout(dialect.mark, names, np.arange(width), dialect)
    enough = 1 if is_live else None
    texts = headed(placed_lines(source, place), path, known, enough=enough, **columns)
    found: Any
    for text, line, at, found in _cut(texts):
        width = len(found.slots)
        if not layout:
            names = found.names or [unnamed(j) for j in range(width)]
            target = found.find(TARGET)
            dialect = found.dialect
            layout[:] = [dialect.delimiter, names, target and names[target.position]]
            layout += [[*dialect.empty], dialect.comment, dialect.is_wrapped]
            layout += [dialect.quoting, [[*cells] for cells in dialect.header]]
            layout.append([*dialect.commas])
            _note_points(text, found, path)
            layout.append(not is_live and _has_padded_targets(text, found))
        _, names, target, empty, *_ = layout
        are_names = len(layout) > _PADDED and layout[_PADDED]
        for cells, n_lines, n_bytes in _rows(text, found.delimiter, width):
            here, line, at = line, line + n_lines, at + n_bytes
            if not any(cells) and len(cells) != width:
                continue
            if len(cells) != width:
                skip(DataError(ragged(len(cells), width), path, here), skipped)
                continue
            for j in found.dialect.commas:
                cells[j] = with_point(cells[j])
            x = {name: cells[j] for j, name in enumerate(names) if j not in empty}
            y = x.pop(target, "")
            y = y if are_names and y.isdigit() else label_of(y)
            yield Record({name: value_of(cell) for name, cell in x.items()}, y, (at, line))


# Where a layout has the columns with decimal commas, and whether targets are digits that are names.
_COMMAS, _PADDED = 8, 9


def columns_with_commas(layout):
    r"""The names of the columns of delimited text whose numbers have a decimal comma.

    >>> layout = []
    >>> _ = next(records([b"a;b;y\n1,5;x;2,5\n"], "csv", layout=layout))
    >>> columns_with_commas(layout)
    ['a', 'b', 'y']
    """
    return [layout[1][j] for j in layout[_COMMAS]] if len(layout) > _COMMAS else []


def _whole_rows(text, layout):
    width = len(layout.slots)
    return [cells for cells, *_ in _rows(text, layout.delimiter, width) if len(cells) == width]


def _has_padded_targets(text, layout):
    """Whether targets are names such as 007 and 010, by the first rows."""
    target = layout.find(TARGET)
    padded = dict(layout.dialect.padded)
    if target is None or target.position not in padded:
        return False
    cells = [row[target.position].strip() for row in _whole_rows(text, layout)]
    return are_padded_names(pa.array(cells))


def _note_points(text, layout, path):
    """Warn of columns whose points stand between thousands where no comma shows it."""
    rows = _whole_rows(text, layout)
    for j in layout.dialect.commas:
        cells = [row[j] for row in rows]
        with_points = [c for c in cells if "." in c and with_point(c) != c]
        if with_points and not any("," in cell for cell in cells):
            words = words_of_groups(with_points[0])
            warn(f"{path}: {layout.describe(j)}: {words}", DataWarning)


def _cut(texts):
    """Texts that end with a row, the line and the byte at which they begin, and the layout."""
    held, line, at = b"", 1, 0
    layout: Any = None
    for text, first, layout, after in texts:
        if not held:
            line, at = first, after[0] - len(text)
        held += text
        end = last_row(held, layout.delimiter, len(layout.slots))
        if end:
            yield held[:end], line, at, layout
            line, at = line + held.count(b"\n", 0, end), at + end
            held = held[end:]
    if held:
        yield held, line, at, layout


def _rows(text, delimiter, width):
    """The cells of each row, and its numbers of lines and bytes."""
    lines, text, start, first = text.splitlines(keepends=True), decoded(text), 0, 0
    while start < len(text):
        cells, end = cells_of(text, start, delimiter, width)
        n_lines = text.count("\n", start, end)
        n_bytes = sum(map(len, lines[first : first + n_lines]))
        yield [cell for *_, cell in cells], n_lines, n_bytes
        start, first = end, first + n_lines


def _of_frames(source, path, format, place, layout, *, target=None, **columns):
    """The rows of a file with typed columns; the layout is the name of the target."""
    start = place[0]
    for batch in frame_batches(source, format, start, target=target, **columns):
        names = batch.schema.names
        if not layout:
            for words in notes_of(batch):
                warn(f"{path}: {words}")
            usual = next((name for name in _TARGETS if name in names), names[-1])
            layout[:] = [target or (usual if format == "document" else names[-1])]
        for row in batch.to_pylist():
            start += 1
            y = _known(_plain(_popped(row, layout[0])))
            yield Record({k: _plain(v) for k, v in row.items()}, y, (start, start + 1))


def _popped(row, target):
    """Remove a target from a row: its name may have blanks around it; None if there is none.

    >>> row = {"a": 1, "y ": 2}
    >>> _popped(row, "y"), row
    (2, {'a': 1})
    """
    if target not in row:
        own = names_beside_blanks([*row], [target])
        target = next(
            (name for name, as_wanted in zip(row, own, strict=True) if as_wanted == target), target
        )
    return row.pop(target, None)


def _plain(value):
    """A value as text writes it: dates become text, and durations days."""
    if isinstance(value, datetime.timedelta):
        return value / datetime.timedelta(days=1)
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


class _Libsvm:
    """Values by index; nothing is read from the first line."""

    def __init__(self, layout, path, **_):
        self.parse = Parser(path, labelled=False, zero_based="auto", n_features=None)

    def __call__(self, row, line):
        block = self.parse(row, line)
        if not len(block.labels):
            return None
        x = dict(zip(map(str, block.indices.tolist()), block.values.tolist(), strict=True))
        return x, number_of(block.labels[0].item())


class _Json:
    """Values by name; the layout is the name of the target."""

    def __init__(self, layout, path, target=None, **_):
        self.layout, self.path, self.target = layout, path, target
        self.is_first = not layout  # a second pass over the rows has no notes
        self.noted: set[str] = set()

    def __call__(self, row, line):
        here, lists = (self.path, line), {}
        x = flat(json_row(decoded(row).rstrip("\n"), here), lists=lists)
        new = lists.keys() - self.noted
        if new and self.is_first:
            self.noted |= new
            (words,) = note_of_lists(sorted(new))
            warn(f"{self.path}:{line}: {words}")
        if not self.layout:
            usual = next((name for name in _TARGETS if name in x), None)
            self.layout[:] = [self.target or usual or next(reversed(x), "")]
        y = _popped(x, self.layout[0])
        return x, _known(y)


def _known(label):
    """A label of JSON; None if it is missing."""
    if isinstance(label, str):
        label = label.strip()
        return None if label in NO_LABEL else label
    return number_of(label) if isinstance(label, float) else label
