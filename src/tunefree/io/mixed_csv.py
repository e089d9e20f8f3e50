"""Delimited text whose cells may be anything, through pyarrow, stretch by stretch."""

import re
import warnings

import numpy as np

from tunefree.io import DataError
from tunefree.io.cells import kind_of, known, meant
from tunefree.io.layout import TARGET, WEIGHT, plan
from tunefree.io.mixed_rows import (
    Faults,
    cell_words,
    feature_order,
    long_words,
    table_of,
    target_words,
    weight_words,
)
from tunefree.io.opening import chunks, whole_lines
from tunefree.io.places import place_of
from tunefree.io.table import LONGEST_LABEL, looks_numeric

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# Text is parsed in parts of about so many bytes where it need not be in memory at once.
_PART = 32 << 20


def stretches_of(source, path, header, whole, columns):
    """Stretches of whole rows of text: (text, line, layout)."""
    layout = None
    for text, line in _stretches(source, path, whole):
        if layout is None and (first := re.search(rb"^.*\S.*\n", text, re.MULTILINE)):
            line += text.count(b"\n", 0, first.start())
            layout = plan(first[0], (path, line), header=header, **columns)
            text = text[first.start() :]
            if layout.names is not None:
                text, line = text[len(first[0]) :], line + 1
        if layout is not None and text.strip():
            yield text, line, layout


def _stretches(source, path, whole):
    """Text in UTF-8, cut where a line ends outside quotes, with the number of its first line."""
    held, size, line = [], 0, 1
    for piece in whole_lines(chunks(source)):
        held.append(piece)
        size += len(piece)
        if whole or size < _PART or held[0].startswith(_UTF16):
            continue
        text = b"".join(held)
        end = _last_row(text)
        if end:
            yield _as_utf8(text[:end], path), line
            line += text.count(b"\n", 0, end)
        elif size > 8 * _PART:
            raise DataError(f"no row ends in {size} bytes: a quote is lost", path, line)
        held, size = [text[end:]] if end < len(text) else [], len(text) - end
    if held:
        yield _as_utf8(b"".join(held), path), line


def _last_row(text):
    """Where the last row ends that is whole, or 0: within quotes a line's end is none."""
    if text.count(b'"') % 2 == 0:
        return len(text)
    end = text.rfind(b"\n", 0, text.rfind(b'"')) + 1
    return 0 if text.count(b'"', 0, end) % 2 else end


def _as_utf8(text, path):
    if text.startswith(_UTF16):
        text = text.removesuffix(b"\n") if len(text) % 2 else text
        return (text.decode("utf-16", errors="replace").rstrip("\n") + "\n").encode()
    try:
        text.decode()
    except UnicodeDecodeError:
        warnings.warn(f"{path} is not UTF-8: read as Windows-1252", stacklevel=2)
        return text.decode("cp1252", errors="replace").encode()
    return text


class Delimited:
    """Parses stretches of text."""

    def __init__(self, path, kinds, skipped, target_type):
        self.path, self.kinds, self.skipped = path, kinds, skipped
        self.target_type = target_type

    def __call__(self, text, line, layout):
        """A `Table` of some rows."""
        cells, records = self._cells(text, line, layout)
        comma = layout.delimiter != ","
        places, names = feature_order(layout)

        def at(row, position, words):
            raw = cells.column(position)[row].as_py()
            record = int(records[row])
            where = place_of(text, line, record, position, layout.delimiter)
            error = DataError(f"{layout.describe(position)}: {words(raw)}", self.path, *where)
            if self.kinds is None and where[0] is not None and where[0] <= 2 and raw.strip():
                error.hint = "is it the target? a header?"
            return error

        faults = Faults(cells.num_rows, self.skipped, at)
        bare = [known(cells.column(place).combine_chunks()) for place in places]
        given = self.kinds or [None] * len(bare)
        kinds = [k or kind_of(c, comma) for k, c in zip(given, bare, strict=True)]
        columns = []
        for place, column, kind in zip(places, bare, kinds, strict=True):
            values, bad = meant(column, kind, comma)
            faults.add(bad, place, cell_words(kind, self.kinds is not None))
            columns.append(values)
        y, weight = self._target(cells, layout, comma, faults), None
        if found := layout.find(WEIGHT):
            values, _ = meant(known(cells.column(found.position).combine_chunks()), "number", comma)
            weight = values.to_numpy(zero_copy_only=False).astype(np.float64)
            faults.add(~(weight >= 0.0), found.position, weight_words)
        return table_of(columns, names, kinds, y, weight, layout, self.path, faults.kept())

    def _cells(self, text, line, layout):
        """Every cell as text, and the number of each row's record in the text."""
        import pyarrow as pa
        from pyarrow import csv

        odd, width = [], len(layout.slots)

        def ragged(row):
            odd.append(row)
            blank = not row.text.strip()
            return "skip" if blank or self.skipped is not None else "error"

        names = [str(j) for j in range(width)]
        try:
            cells = csv.read_csv(
                pa.BufferReader(text),
                read_options=csv.ReadOptions(
                    use_threads=False, column_names=names, block_size=len(text) + 1
                ),
                parse_options=csv.ParseOptions(
                    delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=ragged
                ),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid as problem:
            if odd:
                raise self._ragged(odd[-1], text, line, layout) from None
            raise DataError(f"pyarrow cannot read it: {problem}", self.path) from None
        for row in odd:
            if row.text.strip():
                self.skipped.add(self._ragged(row, text, line, layout))
        gone = [row.number - 1 for row in odd]
        records = np.setdiff1d(np.arange(cells.num_rows + len(gone)), gone)
        self._check_last(cells, records, text, line, layout)
        return cells, records

    def _ragged(self, row, text, line, layout):
        """The error for a row of too many or too few cells."""
        found, width, record = row.actual_columns, len(layout.slots), row.number - 1
        if row.text.count('"') % 2 and found <= width:
            return self._unclosed(record, found - 1, text, line, layout)
        if found < width:
            words = f"this row has {found} cells, the first one has {width}"
        else:
            words = f"this row has more than the {width} cells of the first one"
        where = place_of(text, line, record, width, layout.delimiter, border=True)
        return DataError(words, self.path, *where)

    def _unclosed(self, record, position, text, line, layout):
        where = place_of(text, line, record, position, layout.delimiter)
        words = f"{layout.describe(position)}: the quote that begins here does not end"
        return DataError(words, self.path, *where)

    def _check_last(self, cells, records, text, line, layout):
        """Refuse a last cell that has swallowed the rest of the text because its quote is lost."""
        if not cells.num_rows or text.count(b'"') % 2 == 0 or text.rstrip().endswith(b'"'):
            return
        last = cells.num_columns - 1
        if "\n" in cells.column(last)[-1].as_py():
            raise self._unclosed(int(records[-1]), last, text, line, layout)

    def _target(self, cells, layout, comma, faults):
        """The targets: numbers if they look like it, or text."""
        from pyarrow import compute

        found = layout.find(TARGET)
        if found is None:
            return None
        column = compute.utf8_trim_whitespace(cells.column(found.position).combine_chunks())
        empty = compute.equal(column, "").to_numpy(zero_copy_only=False)
        if self.target_type is not str:
            values, bad = meant(column, "number", comma)
            numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
            odd, rest = bad & ~empty, ~empty
            numeric = not odd[rest].any() or looks_numeric(numbers[rest], rest.sum())
            if self.target_type is float or numeric:
                faults.add(bad, found.position, target_words)
                return numbers
        long = compute.greater(compute.binary_length(column), LONGEST_LABEL)
        faults.add(empty, found.position, target_words)
        faults.add(long.to_numpy(zero_copy_only=False), found.position, long_words)
        texts = column.to_pylist()
        return np.array([t[:LONGEST_LABEL] for t in texts], dtype=np.str_)
