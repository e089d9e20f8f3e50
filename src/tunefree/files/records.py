"""Rows one by one, each a dict of names and values: csv, libsvm, JSON lines.

Learners that take one row at a time need no types of columns: text is text, and empty cells and
absent targets are None. A place is a position in the content, in bytes, and the number of its line,
as in `tunefree.files.files`; reading continues from there. Lines are parsed by the readers of whole
files, and refused with their words.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tunefree.files.files import DataError, decoded, json_row, name_of, placed_lines, skip
from tunefree.files.libsvm import Parser
from tunefree.files.tables import TARGET, cell_spans, plan, ragged, unnamed
from tunefree.rows.cells import label_of, number_of, value_of
from tunefree.rows.missing import NO_LABEL

_TARGETS = ("target", "label", "class", "y")


class Record(NamedTuple):
    """A row: its values by name, its target (None if absent), and the place after it."""

    x: dict
    y: Any
    place: tuple


def records(
    source, format, *, place=(0, 1), layout=None, skipped=None, **columns
) -> Iterator[Record]:
    r"""Read the records of a source from a place on.

    Parameters
    ----------
    source : str, or pieces of text
        As for `tunefree.files.files.chunks`.
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
    path = name_of(source)
    layout = [] if layout is None else layout
    parsers: Any = {"csv": _Csv, "libsvm": _Libsvm, "jsonl": _Json}
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


class _Csv:
    """Cells by name; the layout is the delimiter, the names, and that of the target or None."""

    def __init__(self, layout, path, **columns):
        self.layout, self.path, self.columns = layout, path, columns

    def __call__(self, row, line):
        if not self.layout and self._plan(row, line):
            return None
        delimiter, names, target = self.layout
        cells = [cell for *_, cell in cell_spans(decoded(row).rstrip("\n"), delimiter)]
        if len(cells) != len(names):
            raise DataError(ragged(len(cells), len(names)), self.path, line)
        cells = dict(zip(names, cells, strict=True))
        y = label_of(cells.pop(target, ""))
        return {name: value_of(cell) for name, cell in cells.items()}, y

    def _plan(self, row, line):
        """Fill the layout from the first line; whether it is a header."""
        found = plan(row, (self.path, line), **self.columns)
        names = found.names or [unnamed(i) for i in range(len(found.slots))]
        target = found.find(TARGET)
        self.layout[:] = [found.delimiter, names, target and names[target.position]]
        return found.names is not None


class _Libsvm:
    """Values by index; nothing is read from the first line."""

    def __init__(self, layout, path):
        self.parse = Parser(path, labelled=False, zero_based="auto", n_features=None)

    def __call__(self, row, line):
        block = self.parse(row, line)
        if not len(block.labels):
            return None
        x = dict(zip(map(str, block.indices.tolist()), block.values.tolist(), strict=True))
        return x, number_of(block.labels[0].item())


class _Json:
    """Values by name; the layout is the name of the target."""

    def __init__(self, layout, path, target=None):
        self.layout, self.path, self.target = layout, path, target

    def __call__(self, row, line):
        here = self.path, line
        x = json_row(decoded(row).rstrip("\n"), here)
        if not self.layout:
            usual = next((name for name in _TARGETS if name in x), None)
            self.layout[:] = [self.target or usual or next(reversed(x), "")]
        nested = next((k for k, v in x.items() if isinstance(v, (list, dict))), None)
        if nested is not None:
            raise DataError(f"{nested!r} is neither a number nor text", *here)
        y = x.pop(self.layout[0], None)
        return x, _known(y)


def _known(label):
    """A label of JSON; None if it is missing."""
    if isinstance(label, str):
        return None if label.strip() in NO_LABEL else label
    return number_of(label) if isinstance(label, float) else label
