r"""JSON as tables: a row on each line, an array of records, or an object of columns.

Records within records become columns such as ``address.city``, and a list becomes the number of its
items, in a column such as ``tags.count``. pyarrow reads lines of plain objects; for others it would
end the interpreter (null), or refuse a column of numbers and texts, which here becomes text.
"""

import itertools
import json
import math
import os
import re
from typing import Any

from tunefree.core.format import listed
from tunefree.core.warn import warn
from tunefree.files.files import (
    DataError,
    Named,
    chunks,
    decoded,
    distinct,
    hint_on_json,
    json_row,
    name_of,
    skip,
    whole_lines,
)
from tunefree.files.formats import noted, notes_of
from tunefree.rows.missing import MISSING

_END = b"end"
# What stands between two objects: blanks, and a comma or the separator of JSON text sequences.
_NEXT_VALUE: Any = re.compile(r"[\s\0\x1e\ufeff]*(?:,[\s\0\x1e]*)?")
_BLANKS = b" \t\r\n\0\v\f"


def json_shape(source):
    """Whether the rows of JSON are "lines" or one "document", and the source, unread."""
    pieces, head, held = chunks(source), b"", []
    shape = None
    for piece in pieces:
        held.append(piece)
        head += piece
        shape = _shape(head.removeprefix(b"\xef\xbb\xbf").lstrip(_BLANKS))
        if shape is not None:
            break
    if not isinstance(source, (str, os.PathLike)) or os.fspath(source) == "-":
        source = Named(name_of(source), itertools.chain(held, pieces))
    if shape is None:
        shape = _shape(head.removeprefix(b"\xef\xbb\xbf").strip(_BLANKS) + b"\n" + _END)
    return shape or "lines", source


def _shape(text):
    """The shape by the start of a text; None if more of it is needed."""
    if not text:
        return None
    if text.startswith(b"["):
        return "document"
    first, _, rest = text.partition(b"\n")
    rest = rest.lstrip(_BLANKS)
    if not text.startswith(b"{"):
        return "lines"
    try:
        row = json.loads(decoded(first))
    except json.JSONDecodeError as problem:
        if problem.msg == "Extra data" and problem.doc[problem.pos :].lstrip().startswith("{"):
            return "document"  # several objects on a line
        row = None
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, dict) and not _are_columns(row):
        return "lines"
    if not rest:
        return None
    if rest == _END:
        return "lines" if row is None else "document"
    return "lines" if rest.startswith(b"{") or row is not None else "document"


def _are_columns(document):
    """Whether an object may hold a table: columns (lists or objects), or an array of rows."""
    values = [*document.values()]
    kinds = {type(value) for value in values}
    is_table = any(_is_table(v) or _holds_records(v) for v in values)
    return kinds in ({list}, {dict}) or is_table or _named_arrays(document) is not None


def _is_table(value):
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _named_arrays(document):
    """The names and the rows of an object that holds these as lists, or None.

    >>> _named_arrays({"title": "t", "fields": ["a", "b"], "rows": [[1, 2], [3, 4]]})
    (['a', 'b'], [[1, 2], [3, 4]])
    """
    lists = [value for value in document.values() if isinstance(value, list) and value]
    rows = [v for v in lists if all(isinstance(row, list) for row in v)]
    if len(rows) != 1 or len(widths := {*map(len, rows[0])}) > 1:
        return None
    names = [
        v for v in lists
        if {len(v)} == widths and all(isinstance(name, str) for name in v) and len({*v}) == len(v)
    ]  # fmt: skip
    return (names[0], rows[0]) if len(names) == 1 else None


def flat(row, before="", lists=None):
    """A record without records and lists in it; the names of `lists` are added to a dict.

    >>> flat({"a": {"b": 1, "c": {}}, "tags": ["x", "y"], "d": None})
    {'a.b': 1, 'tags.count': 2, 'd': None}
    """
    out = {}
    for name, value in row.items():
        if isinstance(value, dict):
            out |= flat(value, f"{before}{name}.", lists)
        elif isinstance(value, list):
            out[f"{before}{name}.count"] = len(value)
            if lists is not None:
                lists[before + name] = True
        else:
            out[before + name] = value
    return out


def json_batches(source, target, aside, skipped=None):
    """The record batches of JSON."""
    shape, source = json_shape(source)
    text = b"".join(whole_lines(chunks(source)))
    name = name_of(source)
    if shape == "document":
        return _from_rows(_records(_loaded(text, name), name), target, aside)
    lines, text = _lines_of(text)
    if not lines:
        return []
    table = _quick_table(text, len(lines))
    if table is not None:
        first = flat(json.loads(decoded(lines[0][1])))
        return _with_last(table, first).to_batches()
    return _from_rows(_rows_of(lines, name, skipped), target, aside)


def lines_table(text, place, skipped, keep=()) -> Any:
    r"""Some lines of JSON as a table of all their columns, and the values of some as they are.

    The table is None without rows. `place` is the file and the number of the first line. Malformed
    rows are skipped if `skipped` counts them.

    >>> text = b'{"id": 0, "a": 1}\n{"id": "0", "a": 2}\n'
    >>> table, kept = lines_table(text, ("rows.jsonl", 1), None, ["id"])
    >>> table.column("id").to_pylist(), kept
    (['0', '0'], {'id': [0, '0']})
    """
    name, first = place
    lines, text = _lines_of(text, first)
    table = _quick_table(text, len(lines)) if lines else None
    rows: Any = []
    if table is None or keep:
        rows = [flat(row) for row in _rows_of(lines, name, skipped)]
    if table is None and rows:
        table = table_of(_with_nulls(rows, "", ()))
    return table, {name: [row.get(name) for row in rows] for name in keep}


def _lines_of(text, first=1):
    """Numbered lines that are not empty, and their text.

    Where these are the lines of an array without its brackets, they lose the commas behind them.
    """
    lines = [(k, line.strip()) for k, line in enumerate(text.split(b"\n"), first)]
    lines = [(k, line) for k, line in lines if line]
    if any(line.endswith(b"},") for _, line in lines):
        lines = [(k, line[:-1] if line.endswith(b"},") else line) for k, line in lines]
        text = b"\n".join(line for _, line in lines) + b"\n"
    return lines, text


def _quick_table(text, n_rows):
    """A table of plain lines by pyarrow; None if they are not plain."""
    import pyarrow

    if any(
        line[:1] + line[-1:] not in (b"", b"{}") for line in map(bytes.strip, text.split(b"\n"))
    ):
        return None
    try:
        table = _read_lines(text)
    except pyarrow.ArrowInvalid:
        return None
    return _flattened(table) if table.num_rows == n_rows else None


def _rows_of(lines, name, skipped):
    """The objects of numbered lines."""
    for k, line in lines:
        try:
            yield json_row(decoded(line), (name, k))
        except DataError as error:
            error.row = True
            skip(error, skipped)


def _from_rows(records, target, aside):
    """The batches of records."""
    lists: dict[str, bool] = {}
    rows = [flat(row, lists=lists) for row in records]
    if not rows:
        return []
    table = table_of(_with_nulls(rows, target, aside))
    return noted(_with_last(table, rows[0]), note_of_lists(lists)).to_batches()


def note_of_lists(lists):
    """A note on the names of lists, whose entries are not read."""
    if not lists:
        return []
    names = listed([*map(repr, lists)])
    return [f"of lists the number of entries is read, not the entries: {names}"]


def _with_last(table, first):
    """A table whose last column is that of its first row: by default it is the target."""
    names, last = table.column_names, next(reversed(first), None)
    if last not in names or last == names[-1]:
        return table
    return table.select([*(name for name in names if name != last), last])


def _loaded(text, name):
    """The value of a document; of objects or arrays one after the other the list of them."""
    text, at, found = decoded(text), 0, []
    decoder = json.JSONDecoder(object_pairs_hook=distinct)
    try:
        while (at := _NEXT_VALUE.match(text, at).end()) < len(text) or not found:
            value, at = decoder.raw_decode(text, at)
            found.append(value)
            if type(value) is not type(found[0]) or not isinstance(value, dict | list):
                break
        if at < len(text.rstrip()):
            raise json.JSONDecodeError("Extra data", text, at)
    except json.JSONDecodeError as problem:
        words = f"the JSON is damaged ({problem.msg})"
        here = name, problem.lineno, problem.colno
        raise DataError(words, *here, hint=hint_on_json(text)) from None
    except (ValueError, RecursionError) as problem:
        raise DataError(f"the JSON is damaged ({problem})", name) from None
    if len(found) > 1 and all(map(_is_table, found)):  # pages of records
        return [*itertools.chain(*found)]
    return found[0] if len(found) == 1 else found


def _records(found, name):
    """The records of a document.

    It is an array of records, an object of columns as lists or objects (as pandas writes it), or an
    object that holds one of these, such as ``{"data": [...]}``.
    """
    if isinstance(found, list):
        if len(found) > 1 and all(isinstance(row, list) for row in found):
            return _records_of_lists(found, name)
        for number, row in enumerate(found, 1):
            if not isinstance(row, dict):
                raise DataError(f"item {number} of the array is no record: {str(row)[:40]!r}", name)
        return found
    if not isinstance(found, dict):
        raise DataError("the JSON holds neither records nor columns", name)
    if isinstance(found.get("columns"), list) and isinstance(found.get("data"), list):
        return [dict(zip(found["columns"], row, strict=False)) for row in found["data"]]
    if (named := _named_arrays(found)) is not None:
        return [dict(zip(named[0], row, strict=True)) for row in named[1]]
    tables = {key: rows for key, rows in found.items() if _is_table(rows)}
    if len(tables) == len(found) > 1 and len({frozenset(rows[0]) for rows in tables.values()}) == 1:
        return _main_records(tables, name)
    lists = [value for value in found.values() if isinstance(value, list)]
    if len(lists) == len(found) > 0 and len({*map(len, lists)}) == 1:
        if len(found) > 1 or not any(isinstance(item, dict) for item in lists[0]):
            return [dict(zip(found, row, strict=True)) for row in zip(*lists, strict=True)]
    objects = [value for value in found.values() if isinstance(value, dict)]
    if len(objects) == len(found) > 0:
        # A record for each row number, or for each of many names.
        widest = max(map(len, objects))
        if all(key.isdigit() for key in found) or len(found) > max(widest, 2):
            return objects
        keys = list(dict.fromkeys(key for column in objects for key in column))
        return [{name: column.get(key) for name, column in found.items()} for key in keys]
    if len(tables) == 1:
        return _without_index(found, next(iter(tables.values())), name)
    if tables:
        return _main_records(tables, name)
    within = [value for value in objects if _holds_records(value)]
    if len(within) == 1:
        return _records(within[0], name)
    raise DataError("the JSON holds neither an array of records nor an object of columns", name)


def _main_records(tables, name):
    """Of several arrays of records the one of which the others list the columns, with a warning."""

    def lists(rows, columns):
        cells = zip(*map(dict.values, rows), strict=False)
        texts = ({cell for cell in column if isinstance(cell, str)} for column in cells)
        return any(2 * len(columns.intersection(own)) > len(columns) for own in texts)

    about = {
        key: [other for other, rows in tables.items() if other != key and lists(rows, {*own[0]})]
        for key, own in tables.items()
    }
    main = [key for key, others in about.items() if len(others) == len(tables) - 1]
    keys = listed([*map(repr, tables)])
    if len(main) != 1:
        words = f"the JSON holds several arrays of records: {keys}"
        raise DataError(words, name, hint="keep one of them in the file")
    warn(f"{name}: the array {main[0]!r} is read, of {keys}")
    return tables[main[0]]


def _without_index(found, rows, name):
    """Records without the number of the row that pandas writes into its table schema."""
    schema = found.get("schema")
    if not isinstance(schema, dict) or "pandas_version" not in schema:
        return rows
    if schema.get("primaryKey") != ["index"]:
        return rows
    warn(f"{name}: the index of pandas is not read: 'index'")
    return [{key: value for key, value in row.items() if key != "index"} for row in rows]


def _holds_records(value):
    """Whether an object holds an array of records, perhaps within another object."""
    return isinstance(value, dict) and any(
        _is_table(inner) or _holds_records(inner) for inner in value.values()
    )


def _records_of_lists(rows, name):
    """The records of an array of arrays; the first one has the names if it holds texts alone."""
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise DataError("the arrays within the array have several lengths", name)
    is_header = all(isinstance(cell, str) for cell in rows[0])
    names = rows[0] if is_header else [f"column {j + 1}" for j in range(width)]
    return [dict(zip(names, row, strict=True)) for row in rows[is_header:]]


def _read_lines(text):
    r"""Lines of JSON as a table, whose dates are the texts that they are in every other file.

    pyarrow would read them as times of UTC without their offset.

    >>> _read_lines(b'{"t": "2024-05-01T23:00:00-04:00"}\n').to_pydict()
    {'t': ['2024-05-01T23:00:00-04:00']}
    """
    import pyarrow
    from pyarrow import json as arrow_json

    blocks = arrow_json.ReadOptions(use_threads=False, block_size=max(len(text), 1 << 20))
    table = arrow_json.read_json(pyarrow.BufferReader(text), blocks)
    written = pyarrow.schema([field.with_type(_as_written(field.type)) for field in table.schema])
    if written.equals(table.schema):
        return table
    as_texts = arrow_json.ParseOptions(explicit_schema=written)
    return arrow_json.read_json(pyarrow.BufferReader(text), blocks, as_texts)


def _as_written(kind):
    """A type of pyarrow with text in place of times, in records as well."""
    import pyarrow
    from pyarrow import types

    if types.is_timestamp(kind):
        return pyarrow.string()
    if types.is_struct(kind):
        fields = [kind.field(j) for j in range(kind.num_fields)]
        return pyarrow.struct([field.with_type(_as_written(field.type)) for field in fields])
    return kind


def flattened(batch):
    """A batch without records and lists in its cells, as `flat` makes of a record.

    >>> import pyarrow
    >>> nested = pyarrow.table({"a": [{"b": 1, "c": [2, 3]}], "d": ["x"]}).to_batches()[0]
    >>> flattened(nested).to_pydict()
    {'a.b': [1], 'a.c.count': [2], 'd': ['x']}
    """
    import pyarrow
    from pyarrow import types

    if not len(batch) or not any(types.is_nested(field.type) for field in batch.schema):
        return batch
    return _flattened(pyarrow.Table.from_batches([batch])).combine_chunks().to_batches()[0]


def _flattened(table):
    """A table without records and lists in its cells, with a note on lists."""
    from pyarrow import compute, types

    metadata, notes, lists = table.schema.metadata, notes_of(table), []
    while any(types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    names, columns = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        names.append(f"{name}.count" if is_list else name)
        columns.append(compute.list_value_length(column) if is_list else column)
        if is_list:
            lists.append(name)
    found = type(table).from_arrays(columns, names).replace_schema_metadata(metadata)
    return noted(found, [*notes, *note_of_lists(lists)])


def table_of(rows):
    """A pyarrow table of records; a column of several types becomes text.

    Truth values beside 0 and 1 are numbers, and beside text True and False, as in every container.

    >>> table_of([{"a": 1, "b": 2, "c": True}, {"b": "x", "a": 0.5, "c": 0}]).to_pydict()
    {'a': [1.0, 0.5], 'b': ['2', 'x'], 'c': [1.0, 0.0]}
    >>> table_of([{"a": "x"}, {"a": True}]).to_pydict()
    {'a': ['x', 'True']}
    """
    import pyarrow

    names = dict.fromkeys(name for row in rows for name in row)
    parents = {name.rpartition(".")[0] for name in names}
    columns: Any = {}
    for name in names:
        cells = [row.get(name) for row in rows]
        if name in parents and not any(cell is not None for cell in cells):
            continue  # a record or list that is null in some rows
        try:
            columns[name] = pyarrow.array(cells)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
            are_truths = all(cell is None or _is_truth(cell) for cell in cells)
            as_plain = _as_number if are_truths else _as_text
            columns[name] = pyarrow.array([as_plain(cell) for cell in cells])
    return pyarrow.table(columns)


def _is_truth(cell):
    """Whether it is a truth value, or 0 or 1, which stand for the same."""
    return isinstance(cell, bool | int | float) and cell in (0, 1)


def _as_number(cell):
    return None if cell is None else float(cell)


def _as_text(cell):
    if cell is None or isinstance(cell, str):
        return cell
    return str(cell) if isinstance(cell, bool) else json.dumps(cell, default=str)


def _with_nulls(rows, target, aside):
    """Rows of JSON with null for NaN and for a target that is missing, without some columns."""
    name = getattr(target, "name", target)
    name = next(reversed(rows[0]), None) if name is None else name
    for row in rows:
        for other in aside:
            row.pop(other, None)
        for key, value in row.items():
            is_nan = isinstance(value, float) and math.isnan(value)
            is_marker = key == name and isinstance(value, str) and value.strip().lower() in MISSING
            row[key] = None if is_nan or is_marker else value
    return rows
