"""Rows one by one, each a dict of names and values: csv, libsvm, JSON lines.

Learners that take one row at a time need no types of columns: text is text, and empty cells and
absent targets are None. A place is a position in the content, in bytes, and the number of its line,
as in `tunefree.io.files`; reading continues from there.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from tunefree.io.cells import MISSING
from tunefree.io.files import DataError, decoded, json_row, name_of, placed_lines
from tunefree.io.tables import TARGET, WEIGHT, Layout, cell_spans, plan, unnamed

_MISSING = set(MISSING.to_pylist())
_TARGETS = ("target", "label", "class", "y")


class Record(NamedTuple):
    """A row: its values by name, its target (None if absent), and the place after it."""

    x: dict
    y: Any
    place: tuple


def value_of(cell):
    """A cell as a number, as text, or None.

    >>> value_of("3"), value_of("2.5"), value_of("red"), value_of("NA")
    (3, 2.5, 'red', None)
    """
    try:
        number = float(cell)
    except ValueError:
        cell = cell.strip()
        return None if cell.lower() in _MISSING else cell
    if math.isnan(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def records(
    source, format, *, place=(0, 1), layout=None, skipped=None, **columns
) -> Iterator[Record]:
    r"""Read the records of a source from a place on.

    Parameters
    ----------
    source : str, or pieces of text
        As for `tunefree.io.files.chunks`.
    format : {'csv', 'libsvm', 'jsonl'}
    place : tuple
        Position in bytes, and line.
    layout : list, optional
        Filled from the first line; required if reading starts after that.
    skipped : Skipped, optional
        Counts malformed lines; without it they are errors.
    **columns
        `target` and `header` of csv; `target` of JSON lines.

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
    layout = [] if layout is None else layout
    parsers: Any = {"csv": _Csv, "libsvm": _Libsvm, "jsonl": _Json}
    parse = parsers[format](layout, **columns)
    path = name_of(source)
    for text, line, after in placed_lines(source, place):
        at = after[0] - len(text)
        for raw in text.splitlines(keepends=True):
            at, here, line = at + len(raw), (path, line), line + 1
            if not raw.strip():
                continue
            try:
                found = parse(decoded(raw).rstrip("\n"), here)
            except DataError as error:
                if skipped is None:
                    raise
                skipped.add(error)
                continue
            if found is not None:
                yield Record(found[0], found[1], (at, line))


class _Csv:
    def __init__(self, layout, target=None, header=None):
        self.layout, self.target, self.header = layout, target, header
        self.names_at: Any = None

    def __call__(self, line, here):
        if self.names_at is None:
            is_first = not self.layout
            if is_first:
                self.layout[:] = self._plan(line, here)
            delimiter, names, slots, has_header = self.layout
            self.delimiter, self.width = delimiter, len(slots)
            self.names_at = [
                (i, names[i]) for i, slot in enumerate(slots) if slot not in (TARGET, WEIGHT)
            ]
            self.target_at = slots.index(TARGET) if TARGET in slots else None
            if is_first and has_header:
                return None
        if '"' in line:
            cells = [cell for *_, cell in cell_spans(line, self.delimiter)]
        else:
            cells = line.split(self.delimiter)
        if len(cells) != self.width:
            words = f"the line has {len(cells)} cells, but the first has {self.width}"
            raise DataError(words, *here)
        x = {name: value_of(cells[i]) for i, name in self.names_at}
        return x, None if self.target_at is None else value_of(cells[self.target_at])

    def _plan(self, line, here):
        found: Layout = plan((line + "\n").encode(), here, header=self.header, target=self.target)
        names = found.names or [unnamed(i) for i in range(len(found.slots))]
        return [found.delimiter, list(names), [int(s) for s in found.slots], bool(found.names)]


class _Libsvm:
    def __init__(self, layout):
        layout[:] = ["libsvm"]

    def __call__(self, line, here):
        words = line.split("#", 1)[0].split()
        if not words:
            return None
        y = None if ":" in words[0] else value_of(words.pop(0))
        x = {}
        for word in words:
            name, _, value = word.partition(":")
            if name == "qid":
                continue
            try:
                x[str(int(name))] = float(value)
            except ValueError:
                raise DataError(f"not index:value: {word[:40]!r}", *here) from None
        return x, y


class _Json:
    def __init__(self, layout, target=None):
        self.layout, self.target = layout, target

    def __call__(self, line, here):
        row = json_row(line, here)
        if not self.layout:
            usual = next((name for name in _TARGETS if name in row), None)
            self.layout[:] = [self.target or usual or next(reversed(row), "")]
        nested = next((k for k, v in row.items() if isinstance(v, (list, dict))), None)
        if nested is not None:
            raise DataError(f"{nested!r} is neither a number nor text", *here)
        y = row.pop(self.layout[0], None)
        return row, y
