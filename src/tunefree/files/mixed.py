"""Tables with text, booleans, dates and missing values, from text and from files with types.

pyarrow reads them. For an error, the text of the row is parsed again to find the line and column. A
quoted cell may continue over several lines. A table of numbers only is read by
`tunefree.files.read`.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from tunefree.files import read
from tunefree.files.arrays import (
    FRAMES,
    column_of,
    frame_batches,
    kind_of_type,
    laid_out,
    taken,
    targets_of,
)
from tunefree.files.dialect import commas_of
from tunefree.files.files import (
    DataError,
    Skipped,
    check_options,
    decoded,
    detected,
    name_of,
    numbered_lines,
    shown,
    skip,
)
from tunefree.files.quotes import cells_of, last_row, regular
from tunefree.files.tables import (
    LONGEST_LABEL,
    TARGET,
    TARGET_OR_HEADER,
    WEIGHT,
    headed,
    no_rows,
    ragged,
    unnamed,
)
from tunefree.rows.cells import trimmed
from tunefree.rows.columns import EXACT, of_array, of_arrow
from tunefree.rows.kinds import AMONG_NUMBERS, WITH_NUMBERS, are_markers
from tunefree.rows.learned_kinds import FEW_NUMBERS, FEWEST_DIGITS
from tunefree.rows.missing import unlabelled
from tunefree.rows.schema import (
    BadCells,
    are_in_thousands,
    learn_columns,
    numbers_among,
    numeric_targets,
    with_decimal_commas,
)
from tunefree.rows.written_numbers import Numbers, words_of_groups

# Text that need not be in memory at once is parsed in parts of about so many bytes.
_PART = 32 << 20
# Formats whose cells are read.
TABLES = ("csv", *FRAMES)
_BLANKS = " \t\n"


class _Options(NamedTuple):
    """Options of `read_mixed`."""

    path: str
    skipped: Skipped | None
    target_type: type | None
    keep: Any = ()  # columns whose cells are kept as they are
    target_written: Any = None  # how the targets that a model has learned were written


def read_mixed(source, *, cells=False, skipped=None, target_written=None, **options):
    r"""Read a data file like `tunefree.files.read`, for learners that accept more than numbers.

    If all cells are plain numbers, ``X`` of the result is an array. Otherwise, or if `cells` are
    wanted, it is a pyarrow table of cells as they are written (null where they are empty), or of
    the types of a file that has types: `tunefree.rows.schema` decides what they are. Cells are
    needed, too, for targets that are `target_written` in a way of their own.

    >>> table = read_mixed([b"city,day,n,y\nRome,2026-01-31,,1\n\"Oslo, N\",,$7,2\n"], format="csv")
    >>> table.X.to_pylist()[1], table.y.tolist()
    ({'city': 'Oslo, N', 'day': None, 'n': '$7'}, [1.0, 2.0])
    """
    error = None
    sound = None if skipped is None else Skipped(False, skipped.unlabelled)
    if not cells and target_written is None:
        try:
            table = read(source, skipped=sound, **options)
            if not (_needs_cells(table) or _are_rounded(table.X)):
                if skipped is not None and sound is not None:
                    skipped.join(sound)
                return table
        except DataError as problem:
            error = problem
    if detected(source, options.get("format"))[0] not in TABLES:
        if error is not None and (skipped is None or not skipped.malformed):
            raise error
        return read(source, skipped=skipped, **options)
    options["target_written"] = target_written
    return next(mixed_parts(source, skipped=skipped, whole=True, **options))


def _needs_cells(table):
    """Whether a table of numbers holds more than its numbers show."""
    return (
        _are_numbers(table)
        or _are_padded(table)
        or _may_be_names(table)
        or any(table.slots[position] >= 0 for position in table.truths)
        or bool(getattr(table.dialect, "grouped", ()))
    )


def _may_be_names(table):
    """Whether whole numbers of the target may have lost the digits in which they differ."""
    y = table.y
    return y is not None and y.dtype.kind == "f" and bool((np.abs(y) >= EXACT).any())


def _are_numbers(table):
    """Whether targets of a table that are text may be numbers, such as $5,000."""
    if table.y is None or table.y.dtype.kind != "U" or table.zero_based is not None:
        return False
    return numeric_targets(of_array(table.y))[0] is not None


def _are_padded(table):
    """Whether digits of a target or feature have zeros in front, which floats have not.

    Of features, short ones such as the months 01 and 02 do not matter.
    """
    slots, padded = table.slots, getattr(table.dialect, "padded", ())
    padded = [(slots[j], n_digits) for j, n_digits in padded if j < len(slots)]
    return any(
        slot == TARGET or (slot >= 0 and n_digits >= FEWEST_DIGITS) for slot, n_digits in padded
    )


def _are_rounded(X):
    """Whether numbers of a table are so large that whole ones may have lost their last digits."""
    is_dense = isinstance(X, np.ndarray) and X.size > 0
    return is_dense and bool(max(X.max(), -X.min()) >= EXACT)


def read_numbers(source, **options):
    r"""Read like `tunefree.files.read`; numbers written as 1,5 or 7% are numbers, too.

    >>> read_numbers([b"a;y\n1,5;2\n2,5;3\n"]).X.to_pylist()
    [{'a': '1,5'}, {'a': '2,5'}]
    """
    skipped = options.pop("skipped", None)
    sound = None if skipped is None else Skipped(skipped.malformed, skipped.unlabelled)
    error: Any = None
    try:
        table = read(source, skipped=sound, **options)
        if not _needs_cells(table):
            if skipped is not None and sound is not None:
                skipped.join(sound)
            return table
    except DataError as problem:
        error = problem
    if detected(source, options.get("format"))[0] not in TABLES:
        if error is not None:
            raise error
        return read(source, skipped=skipped, **options)
    try:
        table = next(mixed_parts(source, whole=True, skipped=skipped, **options))
    except DataError as problem:
        raise error or problem from None
    if error is not None:
        _refuse_other_columns(table)
    return table


def _refuse_other_columns(table):
    """Refuse a table of cells that are not all numbers, with the first column that is to blame."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BadCells)  # the first one is the error
        schema, values = learn_columns(table.X, table.X.column_names, sentinels=False)
    for j, (name, column) in enumerate(zip(schema.names, schema.columns, strict=True)):
        if column.kind in WITH_NUMBERS and not values[j].missing.any():
            continue
        raw = of_arrow(table.X.column(j))
        row = int(np.argmax(np.isnan(numbers_among(raw))))
        words = f"{table.where(row, j)}: column {name!r}: not a finite number: {raw.text(row)!r}"
        raise DataError(words, feature=True)


def mixed_parts(
    source,
    *,
    skipped=None,
    whole=False,
    part=None,
    enough=None,
    keep=(),
    format=None,
    header=None,
    delimiter=None,
    sheet=None,
    target_type=None,
    target_written=None,
    **columns,
):
    """The rows of a file as `Table`s of consecutive rows; with `whole` as one.

    Text that need not be in memory at once is parsed in parts of about `part` bytes, 32 MiB by
    default. The dialect is that of the first `enough` bytes. A table has the cells of the columns
    `keep` as they are in the file. Targets are read as those that a model has learned were
    `target_written`.
    """
    options = _Options(name_of(source), skipped, target_type, keep, target_written)
    kind, source = detected(source, format)
    written = {"header": header, "delimiter": delimiter, "sheet": sheet}
    check_options(kind, options.path, written | columns)
    columns = {k: v for k, v in columns.items() if k not in ("zero_based", "unseen")}
    if kind == "csv":
        how = {"header": header, "delimiter": delimiter}
        texts = headed(numbered_lines(source), options.path, enough=enough, **how, **columns)
        found = _whole_rows(texts, None if whole else part or _PART)
    else:
        batches = frame_batches(
            source, kind, sheet=sheet, header=header, skipped=skipped, **columns
        )
        if whole:
            batches = map(pa.Table.from_batches, filter(None, [[*batches]]))
        found = laid_out(batches, options.path, **columns)
    n_rows, layout, part_of = 0, None, _TextRows if kind == "csv" else _TypedRows
    for rows, start, layout in found:
        part = part_of(rows, start, layout, options)
        if whole and part.error is not None:
            raise part.error
        if whole and isinstance(part, _TextRows) and part.n_rows:
            layout = part.layout = _with_commas_of_all(part.cells, layout)
        table = _table(part, layout, options)
        if table is not None:
            if table.target_written is not None:  # the parts to come are read as this one
                options = options._replace(target_written=table.target_written)
            n_rows += table.X.shape[0]
            yield table
        if part.error is not None:  # the rows before it have been given
            raise part.error
    if not n_rows and skipped is not None:
        skipped.check(0, options.path)
    if not n_rows:
        raise no_rows(options.path, layout)


def table_of_batch(batch, start, layout, path) -> Any:
    """The `Table` of a batch with types, after `start` other rows."""
    options = _Options(path, None, None)
    return _table(_TypedRows(batch, start, layout, options), layout, options)


# What may be thousands, or three decimals behind a comma.
_EITHER = r"^[+-]?[1-9]\d{0,2},\d{3}$"


def _with_commas_of_all(cells, layout):
    """The layout with the decimal commas that all rows show, and not the first ones alone.

    It matters only where a column could be either: most tables have none.
    """
    columns = [trimmed(column.combine_chunks()) for column in cells.columns]

    def is_either(column):
        own = column.filter(compute.match_substring(column, ","))
        return len(own) > 0 and not compute.match_substring_regex(own, _EITHER).false_count

    if not any(map(is_either, columns)):
        return layout
    distinct = [compute.unique(column).to_pylist() for column in columns]
    commas = commas_of(distinct, len(columns), layout.dialect.delimiter)
    return layout._replace(dialect=layout.dialect._replace(commas=commas))


def _table(part, layout, options):
    """A `Table` of the valid rows of a part; None if there are none."""
    if not part.n_rows:
        return None
    faults, features = _Faults(part, options), layout.features
    columns = [part.feature(position) for position in features]
    y, weight, targets = None, None, _Targets(None)
    if found := layout.find(TARGET):
        targets = part.target(found.position, faults)
        y = targets.values
        faults.set_apart(unlabelled(y), found.position)
    if found := layout.find(WEIGHT):
        weight = part.weight(found.position)
        faults.add(~(weight >= 0.0), found.position, _weight_words)
    rows = faults.valid_rows()
    if rows is not None:
        columns = [c.take(pa.array(rows)) for c in columns]
        y, weight = taken(rows, y, weight)
    if not len(columns[0]):
        return None
    names = layout.feature_names or [unnamed(j) for j in features]
    X = pa.table(columns, pa.schema([*map(part.field, names, features, columns)]))

    def where(row, column):
        """The place in the file of a cell of X."""
        return part.place(int(row if rows is None else rows[row]), features[column])

    kept = layout.positions(options.keep, options.path)
    for name, position in kept.items():
        cells = part.kept(position)
        kept[name] = cells if rows is None else [cells[row] for row in rows]
    table = layout.table(X, y, weight, options.path)
    notes = (*table.notes, *targets.notes)
    return table._replace(where=where, kept=kept, target_written=targets.written, notes=notes)


def _floats(column):
    return column.to_numpy(zero_copy_only=False).astype(np.float64)


def _booleans(column):
    return column.to_numpy(zero_copy_only=False)


class _Faults:
    """Bad cells of a part: the first one is an error, or their rows are skipped.

    Rows without a target are skipped and counted apart, whatever their other cells hold.
    """

    def __init__(self, part, options):
        self.part, self.skipped, self.found = part, options.skipped, []
        self.absent = np.zeros(part.n_rows, dtype=bool)

    def set_apart(self, absent, position):
        """Skip the rows whose target, in a column, is missing; without `skipped` it is an error."""
        if self.skipped is None:
            self.add(absent, position, _absent_words)
        elif self.skipped.unlabelled:
            self.absent = absent
            if absent.any() and self.skipped.first_unlabelled is None:
                first = int(np.argmax(absent))
                self.skipped.note(self.part.error_at(first, position, _absent_words))

    def add(self, bad, position, words):
        """Add the rows in which a column is bad."""
        self.found += [(row, position, words) for row in np.flatnonzero(bad).tolist()]

    def valid_rows(self):
        """Which rows are valid, or None if all are."""
        found = [fault for fault in self.found if not self.absent[fault[0]]]
        if not found and not self.absent.any():
            return None
        bad = np.unique([row for row, _, _ in found]).astype(int)
        if found:
            first = self.part.error_at(*min(found, key=lambda f: f[:2]))
            skip(first, self.skipped, len(bad))
        if self.absent.any():
            self.skipped.n_unlabelled += int(self.absent.sum())
        return np.setdiff1d(np.flatnonzero(~self.absent), bad)


def _words_of(role, fault):
    """The message for a cell of a target or weight."""

    def words(raw):
        blank = f"the cell is empty: the row has no {role}"
        return f"{fault}: {shown(raw)}" if raw.strip() else blank

    return words


_target_words = _words_of("target", "not a finite number")
_weight_words = _words_of("weight", "not a valid weight")


def _absent_words(raw):
    """The message for a target that is missing."""
    return f"{shown(raw)} is no target" if raw.strip() else _target_words(raw)


def _long_words(raw):
    return f"a target of more than {LONGEST_LABEL} bytes: {shown(raw)}"


# Delimited text.


def _whole_rows(texts, part):
    """Texts cut where a row ends, with the number of the first line and the layout.

    Each has about `part` bytes; without it there is one.
    """
    pieces, size, line, layout = [], 0, 1, None
    for text, first, layout in texts:
        line = line if pieces else first
        pieces.append(text)
        size += len(text)
        if part is None or size < part:
            continue
        text = b"".join(pieces)
        end = last_row(text, layout.delimiter, len(layout.slots))
        if end:
            yield text[:end], line, layout
            line += text.count(b"\n", 0, end)
        pieces, size = [text[end:]] if end < len(text) else [], len(text) - end
    if pieces:
        yield b"".join(pieces), line, layout


def place_of(text, line, record, position, delimiter, border=False, width=0):
    r"""Line and column of a cell in whole lines; `line` is the number of the first line.

    Records (without blank lines) and positions count from 0. With `border` the position is that of
    the delimiter before the cell, or, without such a cell, of the end of the row. (None, None) if
    there is no such row.

    >>> place_of(b'a,"b\nc",d\n\nx, y\n', 1, 0, 2, ","), place_of(b'a,b\n\nx, y\n', 1, 1, 1, ",")
    ((2, 4), (3, 4))
    """
    text, start = decoded(text), 0
    while start < len(text):
        cells, end = cells_of(text, start, delimiter, width)
        if text[start : max(end, start + 1)] != "\n":
            record -= 1
        if record < 0:
            at = end - text[start:end].endswith("\n")
            if position < len(cells):
                begin, content, _ = cells[position]
                at = begin - 1 if border else content
            return line + text.count("\n", 0, at), at - text.rfind("\n", 0, at)
        start = end
    return None, None


class _TextRows:
    """Some rows of text; the first is on a line of the file.

    Where malformed rows are no longer skipped, `error` is that of the first one, and the rows are
    those before it.
    """

    def __init__(self, text, line, layout, options):
        self.text, self.line, self.layout, self.options = text, line, layout, options
        self.n_rows, self.error = 0, None
        if text.strip():
            self.cells, self.records = self._parsed()
            self.n_rows = self.cells.num_rows

    def _parsed(self):
        """Every cell as text, and the number of each row in the text."""
        odd, width = [], len(self.layout.slots)
        text = regular(self.text, self.layout.delimiter, width)
        skipped: Any = self.options.skipped
        is_strict = skipped is None or not skipped.malformed

        def ragged_row(row):
            odd.append(row)
            return "skip"

        names = [str(j) for j in range(width)]
        reading = csv.ReadOptions(use_threads=False, column_names=names, block_size=len(text) + 1)
        parsing = csv.ParseOptions(
            delimiter=self.layout.delimiter,
            newlines_in_values=True,
            invalid_row_handler=ragged_row,
        )
        as_text = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        )
        try:
            cells = csv.read_csv(pa.BufferReader(text), reading, parsing, as_text)
        except pa.ArrowInvalid as problem:
            raise DataError(f"pyarrow cannot read it: {problem}", self.options.path) from None
        records = np.delete(np.arange(cells.num_rows + len(odd)), [row.number - 1 for row in odd])
        malformed = [row for row in odd if row.text.strip(_BLANKS)]
        if malformed and is_strict:
            self.error = self._ragged(malformed[0])
            n_before = int(np.searchsorted(records, malformed[0].number - 1))
            cells, records = cells.slice(0, n_before), records[:n_before]
        elif skipped is not None:
            for row in malformed:
                skipped.add(self._ragged(row))
        return (cells, records) if width > 1 else _without_blank_lines(cells, records)

    def _ragged(self, row):
        """The error for a row with too many or too few cells."""
        found, width, record = row.actual_columns, len(self.layout.slots), row.number - 1
        where = self._place(record, width, border=True)
        return DataError(ragged(found, width), self.options.path, *where, row=True)

    def _place(self, record, position, border=False):
        delimiter = self.layout.delimiter
        width = len(self.layout.slots)
        return place_of(self.text, self.line, record, position, delimiter, border, width)

    def error_at(self, row, position, words):
        """The error for a cell, whose text the message quotes."""
        raw = self.cells.column(position)[row].as_py()
        line, column = self._place(int(self.records[row]), position)
        words = f"{self.layout.describe(position)}: {words(raw)}"
        in_first_lines = line is not None and line <= 2
        hint = TARGET_OR_HEADER if in_first_lines and raw.strip() else None
        return DataError(words, self.options.path, line, column, row=True, hint=hint)

    def _cells_of(self, position):
        return self.cells.column(position).combine_chunks()

    def place(self, row, position):
        """Where a cell is: file, line and column."""
        found = self._place(int(self.records[row]), position)
        return ":".join(str(part) for part in (self.options.path, *found) if part is not None)

    def kept(self, position):
        """The cells of a column, as they are."""
        return trimmed(self._cells_of(position)).to_pylist()

    def field(self, name, position, cells):
        """The field of a column, which notes where the file shows that commas are decimal marks."""
        field = pa.field(name, cells.type)
        if position not in self.layout.dialect.commas:
            return field
        has_marks = compute.any(compute.match_substring_regex(cells, "[.,]")).as_py()
        return with_decimal_commas(field) if has_marks else field

    def feature(self, position):
        """The cells of a column; null where they are empty."""
        cells = trimmed(self._cells_of(position))
        is_empty = compute.equal(cells, "")
        if not is_empty.true_count:
            return cells
        return compute.if_else(is_empty, pa.scalar(None, pa.string()), cells)

    def weight(self, position):
        """The weights; NaN where a cell is none."""
        return numbers_among(of_arrow(trimmed(self._cells_of(position))))

    def target(self, position, faults):
        """The `_Targets`: numbers if most of them are, or else text."""
        column = trimmed(self._cells_of(position))
        if (names := _names_of(column, self.options)) is not None:
            return _Targets(names)
        targets = _numeric(column, self.options, position, faults)
        if targets is not None:
            return targets
        long = _booleans(compute.greater(compute.binary_length(column), LONGEST_LABEL))
        faults.add(long, position, _long_words)
        return _Targets(np.array([t[:LONGEST_LABEL] for t in column.to_pylist()], dtype=np.str_))


def _names_of(texts, options):
    """`names_beyond_floats`, unless it is known how targets are written."""
    if options.target_type is not None or options.target_written is not None:
        return None
    return names_beyond_floats(texts)


def names_beyond_floats(texts):
    """Targets that are few whole numbers of which some are equal as floats, as text; else None.

    They can be nothing but names of classes. Where one is missing the text is empty.

    >>> names_beyond_floats(pa.array(["9007199254740993", "9007199254740992"])).tolist()
    ['9007199254740993', '9007199254740992']
    """
    cells = compute.unique(texts).drop_null()
    if len(cells) > FEW_NUMBERS:
        return None
    marked = pa.array(are_markers(cells, (), AMONG_NUMBERS))
    names = cells.filter(compute.invert(marked))
    are_whole = compute.match_substring_regex(names, r"^[+-]?\d+$")
    if not len(names) or are_whole.false_count:
        return None
    numbers = np.array([float(name) for name in names.to_pylist()])
    large = np.abs(numbers) >= EXACT
    if len(np.unique(numbers[large])) == large.sum():
        return None
    missing = compute.is_in(texts, cells.filter(marked))
    found = compute.if_else(missing, "", texts).fill_null("")
    return np.array(found.to_pylist(), dtype=np.str_)


def _without_blank_lines(cells, records):
    """The rows of a single column but for lines of blanks, such as those above the table."""
    column = cells.column(0)
    is_empty = compute.equal(compute.utf8_trim(column, _BLANKS), "")
    is_row = compute.invert(compute.and_(is_empty, compute.not_equal(column, "")))
    if compute.all(is_row).as_py():
        return cells, records
    return cells.filter(is_row), records[_booleans(is_row)]


class _Targets(NamedTuple):
    """The targets of a part, how text of numbers is written, and what may surprise in them."""

    values: Any
    written: Numbers | None = None
    notes: tuple = ()


def _numeric(column, options, position, faults):
    """`_Targets` that are numbers; cells that are none are faults. None of other targets."""
    if options.target_type is str:
        return None
    raw, known = of_arrow(column), options.target_written
    y: Any
    y, written = numeric_targets(raw, options.target_type is float, known)
    if known is not None and np.isinf(y).any():
        own: Any
        own, way = numeric_targets(raw, True)
        if not np.isinf(own).any():  # this file shows that its numbers are written in another way
            y, written = own, way
    if y is None:
        return None
    faults.add(np.isinf(y), position, _target_words)
    if known is not None or not are_in_thousands(raw):
        return _Targets(y, written)
    example = column.filter(compute.match_substring(column, "."))[0].as_py()
    return _Targets(y, written, (f"Targets: {words_of_groups(example)}.",))


# Parquet and Arrow, with the types of pyarrow.


class _TypedRows:
    """Some rows of a table with types, after `start` others."""

    def __init__(self, batch, start, layout, options):
        self.batch, self.start, self.layout, self.options = batch, start, layout, options
        self.n_rows, self.error = batch.num_rows, None

    def error_at(self, row, position, words):
        """The error for a cell, whose text the message quotes."""
        named = f"{self.layout.describe(position)}: {words(str(self.batch.column(position)[row]))}"
        return DataError(f"row {self.start + row + 1}: {named}", self.options.path, row=True)

    def place(self, row, _):
        """Where a cell is: the number of its row."""
        return f"row {self.start + row + 1} of {self.options.path}"

    def kept(self, position):
        """The values of a column, as they are."""
        return column_of(self.batch, position).to_pylist()

    def field(self, name, _, cells):
        """The field of a column."""
        return pa.field(name, cells.type)

    def feature(self, position):
        """The values of a column, with their type."""
        column = self.batch.column(position)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        kind = column.type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if kind_of_type(kind) is None:
            words = f"{self.layout.describe(position)} holds {column.type}"
            words += ": neither numbers, text, booleans nor dates"
            raise DataError(words, self.options.path)
        return column

    def weight(self, position):
        """The weights."""
        return targets_of(self.batch, position, self.options.path, float)

    def target(self, position, faults):
        """The `_Targets`, numbers or text."""
        column = column_of(self.batch, position)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_integer(column.type) or pa.types.is_string(column.type):
            names = _names_of(column.cast(pa.string()), self.options)
            if names is not None:
                return _Targets(names)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            targets = _numeric(column, self.options, position, faults)
            if targets is not None:
                return targets
        y = targets_of(self.batch, position, self.options.path, self.options.target_type)
        if y.dtype.kind == "f":
            faults.add(np.isinf(y), position, _target_words)
        return _Targets(y)
