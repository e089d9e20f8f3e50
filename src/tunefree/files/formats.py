"""Workbooks, ARFF, and files of Stata, SPSS and SAS as pyarrow tables.

All of them may be packed. A table has the types that the file has: numbers, truth values, dates and
texts; a column of several types becomes text. What was found that may surprise is kept with the
schema (`noted`).
"""

import datetime
import io
import json
import os
import re
import tempfile
import zipfile
from collections import Counter
from typing import Any, NamedTuple

from tunefree.core.format import listed
from tunefree.core.warn import warn
from tunefree.files.dialect import are_sums, distinct_names, footers, header_of, unnamed_columns
from tunefree.files.files import DataError, name_of, numbered_lines, shown, unpacked

_NOTES = b"tunefree notes"
_LAST_ROWS = 20  # of a sheet, among which notes and sums are looked for


def noted(table, notes):
    """A table or batch with notes: sentences on what was found in its file."""
    known = table.schema.metadata or {}
    return table.replace_schema_metadata(known | {_NOTES: json.dumps(notes)}) if notes else table


def notes_of(batch):
    """The notes of a table or batch."""
    found = (batch.schema.metadata or {}).get(_NOTES)
    return tuple(json.loads(found)) if found else ()


# Workbooks.


def workbook(path, sheet=None, header=None, known=None, wanted=()):
    """The table on a sheet, by default the one that `_main_sheet` chooses.

    `known` are the columns of a model, and `wanted` the columns that the table must have.
    """
    name = name_of(path)
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        words = "this is a workbook: install tunefree[excel] to read it, or save the sheet as csv"
        raise DataError(words, name) from None
    content = unpacked(path)
    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(content))
    except (CalamineError, OSError) as problem:
        raise DataError(f"the workbook cannot be read ({problem})", name) from None
    names, notes = book.sheet_names, []
    if sheet is not None:
        found = _read_sheet(book, _sheet_named(str(sheet), names, name))
    else:
        found = _main_sheet((_read_sheet(book, sheet) for sheet in names), {*wanted})
        if found is None:
            raise DataError("no sheet holds a table", name)
        if len(names) > 1:
            notes.append(f"the sheet {found.name!r} is read, of {listed([*map(repr, names)])}")
    if not found.rows:
        raise DataError(f"the sheet {found.name!r} has no rows", name)
    gone = _formulas_without_values(content, found)
    table, more = _table_of_cells(found.rows, header, known)
    if gone:
        letters = listed([f"{letter} ({count} cells)" for letter, count in gone.items()])
        warn(
            f"{name}: formulas without a stored value count as missing, in column {letters} of the "
            f"sheet {found.name!r}: open the workbook in a spreadsheet and save it"
        )
    return noted(table, notes + found.notes + more)


def _sheet_named(sheet, names, path):
    if sheet in names:
        return sheet
    if sheet.isdigit() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]
    raise DataError(f"there is no sheet {sheet!r}: it has {listed([*map(repr, names)])}", path)


class _Sheet(NamedTuple):
    """A sheet: its rows that are not empty, all as wide as its cells go; None for an empty cell."""

    name: str
    rows: list
    notes: list

    @property
    def is_table(self):
        """Whether it has two rows and two columns."""
        return len(self.rows) > 1 and len(self.rows[0]) > 1

    @property
    def names(self):
        """The texts of its header, or an empty set."""
        texts = [[_written(cell) or "" for cell in row] for row in self.rows[:_HEAD_ROWS]]
        return {*filter(None, header_of(texts)[0] or ())} if self.is_table else set()

    def is_about(self, other):
        """Whether it describes another sheet: it lists its columns, or has a few lines."""
        names = other.names
        columns = zip(*self.rows, strict=True)
        lists = any(2 * len(names.intersection(column)) > len(names) > 1 for column in columns)
        is_short = len(self.rows) < _FEW_ROWS and len(other.rows) >= 10 * len(self.rows)
        return lists or (is_short and len(other.rows) > 2 * _FEW_ROWS)


# Rows of a sheet that show its header; of one that may be a note; and of one that is none.
_HEAD_ROWS, _FEW_ROWS, _MANY_ROWS = 400, 10, 500


def _main_sheet(sheets, wanted):
    """The first sheet with the wanted columns, else the first table that is not about another one.

    People put a list of columns, or who made the file and when, before the data.
    """
    tables = []
    for sheet in sheets:
        if not sheet.is_table:
            continue
        has_wanted = wanted <= sheet.names
        if has_wanted and (wanted or len(sheet.rows) > _MANY_ROWS):
            return sheet
        tables.append(sheet)
    own = (sheet for sheet in tables if not any(map(sheet.is_about, tables)))
    return next(own, tables[0] if tables else None)


def _read_sheet(book, name):
    """A `_Sheet`, with the values of merged cells where a person sees them."""
    sheet = book.get_sheet_by_name(name)
    rows = sheet.to_python(skip_empty_area=True)
    rows = [[None if cell == "" else cell for cell in row] for row in rows]
    top, left = sheet.start or (0, 0)
    merged = [
        (r - top, c - left, last_r - top, last_c - left)
        for (r, c), (last_r, last_c) in getattr(sheet, "merged_cell_ranges", None) or ()
    ]
    notes = [words for fill in (_filled_down, _with_one_header) if (words := fill(rows, merged))]
    rows = [row for row in rows if any(cell is not None for cell in row)]
    width = max((j + 1 for row in rows for j, c in enumerate(row) if c is not None), default=0)
    return _Sheet(name, [row[:width] + [None] * (width - len(row)) for row in rows], notes)


def _filled_down(rows, merged):
    """Write the value of merged cells into each of their rows that has other cells; a note."""
    count = 0
    for first, column, last, _ in merged:
        for row in rows[first + 1 : last + 1]:
            if any(cell is not None for cell in row):
                row[column] = rows[first][column]
                count += 1
    return f"the value of merged cells is that of all their rows ({count} more)" if count else None


def _with_one_header(rows, merged):
    """Make one header of two, of which the first has merged cells over several names; a note."""
    spans = [span for span in merged if span[0] == span[2] and span[1] < span[3]]
    for at in sorted({first for first, *_ in spans}):
        upper = rows[at]
        lower = rows[at + 1] if at + 1 < len(rows) else []
        own = [range(c, last_c + 1) for first, c, _, last_c in spans if first == at]
        has_several = sum(cell is not None for cell in upper) > 1
        if has_several and lower and all(_is_name(lower[j]) for span in own for j in span):
            break
    else:
        return None
    for span in own:
        for j in span:
            upper[j] = upper[span[0]]
    joined = [
        " ".join(dict.fromkeys(filter(None, map(_written, cells))))
        for cells in zip(upper, lower, strict=True)
    ]
    rows[at] = [None] * len(upper)
    rows[at + 1] = [name or None for name in joined]
    return f"two rows of names are one header, with names such as {joined[own[0][0]]!r}"


def _is_name(cell):
    """Whether a cell may be a name below a merged one: a text, or a year."""
    return isinstance(cell, str) or cell in range(1900, 2101)


# A cell with a formula and no value, as libraries write them; its column.
_NO_VALUE = re.compile(
    rb"<c r=\"([A-Z]+)\d+\"[^>]*>\s*<f\b(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(?:<v\s*/>|<v></v>)?\s*</c>"
)


def _formulas_without_values(content, sheet):
    """How many formulas of a sheet have no stored value, by the letters of its columns."""
    if all(cell is not None for row in sheet.rows for cell in row):
        return {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return Counter(m.decode() for m in _NO_VALUE.findall(_xml_of(archive, sheet.name)))
    except (zipfile.BadZipFile, KeyError):
        return {}  # of another kind, whose formulas have values


def _xml_of(archive, sheet):
    """The text of a sheet of an xlsx file."""
    from xml.etree import ElementTree

    book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
    links = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    own = next(e for e in book.iter() if e.tag.endswith("}sheet") and e.get("name") == sheet)
    key = next(value for name, value in own.items() if name.endswith("}id"))
    (target,) = (e.get("Target", "") for e in links if e.get("Id") == key)
    return archive.read(target[1:] if target.startswith("/") else f"xl/{target}")


def _table_of_cells(rows, header, known):
    """A table of rows of cells, and notes; titles above the table are not read."""
    texts = [[_written(cell) or "" for cell in row] for row in rows[:_HEAD_ROWS]]
    names, first, notes = header_of(texts, header, known)
    body = rows[first:]
    empty = unnamed_columns(names, texts[first:], len(rows[0]))
    body, found = _own_rows(body, names)
    notes += found
    names = names or [""] * len(rows[0])
    names, renamed = distinct_names(names)
    columns = {
        name: [_plain(row[j]) for row in body] for j, name in enumerate(names) if j not in empty
    }
    return table_of_columns(columns), notes + renamed


def _own_rows(body, names):
    """The rows of a table without repetitions of its header and what stands below, and notes."""
    notes = []
    if names is not None and not all(name[:1].isdigit() for name in names):
        own = [row for row in body if [_written(cell) or "" for cell in row] != names]
        if len(own) < len(body):
            notes.append("rows that repeat the header: not read")
        body = own
    last = [[(_written(cell) or "").strip() for cell in row] for row in body[-_LAST_ROWS:]]

    def are_sums_of(row):
        texts = [[_written(cell) or "" for cell in other] for other in body]
        return are_sums(row, [other for other in texts if other != row])

    below = footers(last, [(_written(row[0]) or "").strip() for row in body], are_sums_of)
    if below:
        rows = f"last {below} rows are" if below > 1 else "last row is"
        notes.append(f"the {rows} below the table: not read, such as {last[-below][0]!r:.60}")
    return body[: len(body) - below], notes


def _plain(cell):
    """A cell of a type that pyarrow has; whole numbers without a point, as they are shown."""
    if isinstance(cell, (datetime.time, datetime.timedelta)):
        return str(cell)
    is_whole = isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53
    return int(cell) if is_whole else cell


def _written(cell):
    """A cell as text."""
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(" ")
    cell = _plain(cell)
    return None if cell is None else str(cell)


def table_of_columns(columns):
    """A pyarrow table of {name: values}; a column of several types becomes text."""
    import pyarrow

    made: Any = {}
    for name, cells in columns.items():
        kinds = {type(cell) for cell in cells if cell is not None}
        if kinds == {datetime.date, datetime.datetime}:
            midnight = datetime.time()
            cells = [
                datetime.datetime.combine(cell, midnight) if type(cell) is datetime.date else cell
                for cell in cells
            ]
        try:
            made[name] = pyarrow.array(cells)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
            made[name] = pyarrow.array([_written(cell) for cell in cells])
    return pyarrow.table(made)


# ARFF.

_ATTRIBUTE = re.compile(
    r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)\s*(.*)""", re.IGNORECASE
)
_ARFF_CELL = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,{}]*?))\s*(?:,|$)""")
_NUMERIC = ("numeric", "real", "integer")


def arff(path):
    """The table of an ARFF file."""
    name, attributes, rows, in_data = name_of(path), [], [], False
    for text, first in numbered_lines(path):
        for number, line in enumerate(text.decode().split("\n"), first):
            line = line.strip()
            if not line or line.startswith("%"):
                continue
            if in_data:
                line = line if "," in line else line.replace("\t", ",")
                rows.append(_arff_row(line, attributes, (name, number)))
            elif line.lower().startswith("@data"):
                in_data = True
            elif line.lower().startswith("@attribute"):
                attributes.append(_attribute(line, (name, number)))
            elif not line.lower().startswith("@relation"):
                raise DataError(f"not a line of an ARFF header: {shown(line)}", name, number)
    if not attributes:
        raise DataError("the ARFF file declares no @attribute", name)
    names, notes = distinct_names([attribute for attribute, _ in attributes])
    cells = zip(*rows, strict=True) if rows else [[] for _ in names]
    return noted(table_of_columns(dict(zip(names, map(list, cells), strict=True))), notes)


def _attribute(line, here):
    """The name and the kind: "number", "text", or the levels."""
    found = _ATTRIBUTE.fullmatch(line)
    if found is None:
        raise DataError(f"not an @attribute: {shown(line)}", *here)
    name, kind = _unquoted(found[1]), found[2].strip()
    if kind.startswith("{"):
        return name, [cell for cell in _arff_cells(kind.strip("{} \t"), here)]
    word = kind.split()[0].lower() if kind else ""
    if word in _NUMERIC:
        return name, "number"
    if word in ("string", "date"):
        return name, "text"
    raise DataError(f"the attribute {name!r} has the type {kind!r}, which is not read", *here)


def _unquoted(word):
    quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if quoted else word


def _arff_cells(line, here):
    """The cells of a line; None for a bare question mark."""
    if "'" not in line and '"' not in line and "\\" not in line:
        return [None if cell == "?" else cell for cell in map(str.strip, line.split(","))]
    cells, at = [], 0
    while True:
        found = _ARFF_CELL.match(line, at)
        if found is None:
            words = f"a quote is not closed: {shown(line[at:])}"
            raise DataError(words, here[0], here[1], at + 1)
        single, double, bare = found.groups()
        quoted = single if single is not None else double
        cells.append((None if bare == "?" else bare) if quoted is None else _escaped(quoted))
        at = found.end()
        if at >= len(line):
            return cells + [""] * line.endswith(",")


def _escaped(text):
    return re.sub(r"\\(.)", r"\1", text)


def _arff_row(line, attributes, here):
    """The values of a row, dense or sparse."""
    if line.startswith("{"):
        # What is not written is zero, or the first level; a text has neither.
        zeros = {"number": 0.0, "text": None}
        values = [zeros[k] if isinstance(k, str) else k[0] for _, k in attributes]
        for item in filter(None, re.split(r",(?=\s*\d+\s)", line.strip("{} \t"))):
            place, _, cell = item.strip().partition(" ")
            if not place.isdigit() or int(place) >= len(attributes):
                raise DataError(f"not an index and a value: {shown(item)}", *here)
            (cell,) = _arff_cells(cell.strip(), here)
            values[int(place)] = _arff_value(cell, attributes[int(place)], here)
        return values
    cells = _arff_cells(re.sub(r",\s*\{[^{}]*\}$", "", line), here)  # without the row's weight
    if len(cells) != len(attributes):
        words = f"this row has {len(cells)} cells, but there are {len(attributes)} attributes"
        raise DataError(words, *here, row=True)
    return [_arff_value(cell, kind, here) for cell, kind in zip(cells, attributes, strict=True)]


def _arff_value(cell, attribute, here):
    name, kind = attribute
    if cell is None or kind == "text":
        return cell
    if kind == "number":
        try:
            return float(cell)
        except ValueError:
            raise DataError(f"column {name!r}: not a number: {shown(cell)}", *here) from None
    if cell not in kind:
        raise DataError(f"column {name!r}: {shown(cell)} is none of the declared levels", *here)
    return cell


# Statistics packages.


def statistics(path, format):
    """The table of a file of Stata, SPSS or SAS; labelled values are their labels."""
    name = name_of(path)
    try:
        frame = _frame(unpacked(path), format)
    except ImportError as problem:
        title = {"stata": "Stata", "spss": "SPSS", "sas": "SAS"}[format]
        words = f"this is a file of {title}: install tunefree[stat] to read it ({problem.name})"
        raise DataError(words, name) from None
    except Exception as problem:  # readers raise errors of many kinds
        words = str(problem).split("\n")[0] or type(problem).__name__
        raise DataError(f"it cannot be read as {format}: {words}", name) from None
    import pyarrow

    columns: Any = {}
    for column in frame.columns:
        cells = frame[column]
        try:
            columns[str(column)] = pyarrow.array(cells, from_pandas=True)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            texts = [None if cell != cell or cell is None else str(cell) for cell in cells]
            columns[str(column)] = pyarrow.array(texts)
    return pyarrow.table(columns)


def _frame(content, format):
    """A frame of pandas: pandas reads Stata, pyreadstat the others, from a file."""
    if format == "stata":
        import pandas as pd

        return pd.read_stata(io.BytesIO(content))
    import pyreadstat

    readers: Any = {
        b"$FL2": pyreadstat.read_sav,
        b"$FL3": pyreadstat.read_sav,
        b"HEAD": pyreadstat.read_xport,
    }
    other = pyreadstat.read_por if format == "spss" else pyreadstat.read_sas7bdat
    reader = readers.get(content[:4], other)
    labels = {"apply_value_formats": True} if format == "spss" else {}
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "data")
        with open(place, "wb") as file:
            file.write(content)
        return reader(place, **labels)[0]
