"""Numbers separated by commas, tabs, ..., and the roles of the columns of any table.

As in `libsvm`, compiled code parses one block of whole lines at a time. A cell may be quoted; a
quoted cell ends on its line. `mixed` reads tables with other values, through pyarrow.

pyarrow does not read numbers, too: in blocks of 2 MiB, which bound memory, it takes 2.3 times the
CPU time for 1,000 columns and 2.5 times for 3,000. Here an error has its line and column at
once, and a lost quote costs one row, not all rows up to the next quote.
"""

import itertools
import re
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.format import listed
from tunefree.core.jit import kernel
from tunefree.core.warn import did_you_mean, warn
from tunefree.files.dialect import (
    HEAD,
    distinct_names,
    first_total,
    second_table,
    sniffed,
    without_footer,
)
from tunefree.files.files import (
    DataError,
    decoded,
    excerpt,
    fault,
    name_of,
    placed_lines,
    sound_parts,
)
from tunefree.files.numbers import NOT_A_NUMBER, SLOW, python_number, scan_number
from tunefree.rows.cells import looks_numeric
from tunefree.rows.missing import MISSING, NO_LABEL
from tunefree.rows.written_numbers import may_be_grouped

IGNORED, TARGET, WEIGHT = -1, -2, -3
_FEWEST_LINES = 5  # that show the dialect
LONGEST_LABEL = 256  # bytes: a longer class name is a wrong column or an unclosed quote
_ONE_COLUMN = "see --delimiter: tabs, commas, semicolons, bars and blanks are recognized"
TARGET_OR_HEADER = "if another column is the target, or this is a header, see --target and --header"
_FINE, _CELL, _FEW, _MANY, _UNCLOSED, _EMPTY, _NEGATIVE, _LONG, _ABSENT = range(9)
_INFINITE = {"inf", "infinity"}


class Column(NamedTuple):
    """A column of another file, found in this one by its name, or else by its position.

    It may be absent: a file with a header has the column only if it has the name.
    """

    name: str | None
    position: int


class Table(NamedTuple):
    """The contents of a data file."""

    X: Any  # (n_rows, n_features): CSR from libsvm, dense from csv; a pyarrow table from `mixed`
    y: np.ndarray | None  # targets: float64, or text from csv
    weight: np.ndarray | None
    feature_names: list | None  # the header's
    path: str  # for messages
    zero_based: bool | None = None  # libsvm: whether indices start from 0
    target: Column | None = None  # the columns of `y` and `weight`
    weight_column: Column | None = None
    target_written: Any = None  # how targets are written, a `Numbers`; None of plain ones
    ignored: int = 0  # libsvm: number of skipped entries beyond `n_features`
    slots: Any = None  # of the file's columns, as in `Layout`
    where: Any = None  # of cells: the place in the file of a row and a feature, as text
    schema: Any = None  # of cells: the `tunefree.rows.schema.Schema` of the features
    gaps: Any = None  # of cells: how many of each feature are missing
    notes: tuple = ()  # what was found in the file that may surprise, a sentence each
    dialect: Any = None  # the `Dialect` of text
    kept: Any = None  # the cells of columns that are copied as they are, by name
    truths: tuple = ()  # of files with types: the positions of columns of truth values


class Layout(NamedTuple):
    """The roles of the columns."""

    delimiter: str  # between two cells of text
    names: list | None  # the header
    slots: np.ndarray  # for each column its feature number, or `IGNORED`, `TARGET`, `WEIGHT`
    dialect: Any = None  # the `Dialect` of text
    notes: tuple = ()  # what was found in the file that may surprise, a sentence each
    truths: tuple = ()  # of files with types: the positions of columns of truth values

    @property
    def features(self):
        """Positions of the features, in their order."""
        order = np.argsort(self.slots, kind="stable")
        return order[self.slots[order] >= 0].tolist()

    @property
    def n_features(self):
        """The number of feature columns."""
        return len(self.features)

    @property
    def feature_names(self):
        """The names of the features in their order, or None without a header."""
        return None if self.names is None else [self.names[column] for column in self.features]

    def find(self, role):
        """The `Column` that is `TARGET` or `WEIGHT`, or None."""
        found = np.flatnonzero(self.slots == role)
        if not len(found):
            return None
        return Column(None if self.names is None else self.names[found[0]], int(found[0]))

    def positions(self, columns, path):
        """The positions of columns given by name or position, by name; a `Column` may be absent."""
        header, found = _Header(self.names, len(self.slots), (path,)), {}
        for column in columns:
            position = header.position(column)
            if position is not None:
                found[column.name if isinstance(column, Column) else column] = position
        return found

    def table(self, X, y, weight, path):
        """A `Table` of rows with these columns."""
        more = {"slots": self.slots, "notes": self.notes, "dialect": self.dialect}
        table = Table(X, y, weight, self.feature_names, path, truths=self.truths, **more)
        return table._replace(target=self.find(TARGET), weight_column=self.find(WEIGHT))

    def describe(self, column):
        """A column in messages: its name, or else its number, from 1."""
        name = unnamed(column)
        if self.names is None or self.names[column] == name:
            return name
        return f"column {self.names[column]!r}"


def unnamed(position):
    """The name of a column without a name: 'column 1' for position 0."""
    return f"column {position + 1}"


def planned(text, place, *, header=None, delimiter=None, **columns):
    """The `Layout` of the text at the start of a file; `place` is its file and line, for messages.

    The options are those of `tunefree.files.read`.
    """
    known = columns.get("columns")
    if known is None and columns.get("n_features") is not None:
        known = []  # of a model that was trained without names
    how = {"header": header, "delimiter": delimiter, "known": known}
    dialect = sniffed(decoded(_head(text)), **how)
    layout = assign(
        dialect.names,
        dialect.width,
        (place[0], place[1] + max(dialect.body - 1, 0)),
        delimiter=dialect.mark,
        empty=dialect.empty,
        **columns,
    )
    return layout._replace(dialect=dialect, notes=dialect.notes)


def _head(text):
    """Enough whole lines to find the dialect: `HEAD` bytes, and of long lines some more."""
    end = text.find(b"\n", HEAD) + 1 or len(text)
    while end < len(text) and text.count(b"\n", 0, end) < _FEWEST_LINES:
        end = text.find(b"\n", end) + 1 or len(text)
    return text[:end]


class Wanted(NamedTuple):
    """The options of `tunefree.files.read` that give columns their roles."""

    target: Any = None
    weight_column: Any = None
    n_features: int | None = None
    columns: Any = None
    drop: Any = ()


class _Header(NamedTuple):
    """The columns of a file."""

    names: Any  # a list, or None
    width: int
    place: tuple  # file and line, for messages

    def error(self, words, hint=None):
        """An error at this place."""
        return DataError(words, *self.place, hint=hint)

    def position(self, column):
        """The position of a column given by name or position; None for an absent `Column`."""
        names, width = self.names, self.width
        if isinstance(column, Column):
            if names is not None and column.name is not None:
                return self._places([column.name]).get(column.name)
            return column.position if column.position < width else None
        if names is not None and (found := self._places([str(column)])):
            named = found[str(column)]
            if isinstance(column, int) and -width <= column < width and column % width != named:
                words = f"{column} is the name of one column and the position of another"
                raise self.error(words, f"{str(column)!r} is the name")
            return named
        try:
            position = int(column)
        except ValueError:
            known = [*map(repr, names or ())]
            words = f"the header has {listed(known)}" if known else "the file has no header"
            hint = did_you_mean(column, names or [])
            raise self.error(f"there is no column {column!r}: {words}", hint) from None
        if not -width <= position < width:
            words = f"there is no column {position}: the file has {width}"
            raise self.error(words, f"positions are 0 to {width - 1}, or -1 for the last")
        return position % width

    def _places(self, wanted):
        """The positions of the columns of some names that are there, by name.

        A header of text has no blanks around its names; one of a workbook or of JSON may have them.
        """
        wanted = {*wanted}
        own = names_beside_blanks(self.names, wanted)
        return {name: position for position, name in reversed([*enumerate(own)]) if name in wanted}

    def positions(self, required):
        """The positions of columns given by name, which must be there."""
        places = self._places(required)
        missing = [name for name in required if name not in places]
        if missing and all(re.fullmatch(r"column \d+", name) for name in missing):
            # Columns without a name keep their order, where the target or others are absent.
            bare = [name for j, name in enumerate(self.names) if name == unnamed(j)]
            wanted = [name for name in required if re.fullmatch(r"column \d+", name)]
            if len(bare) == len(wanted):
                ranks = sorted(wanted, key=lambda name: int(name.split()[1]))
                own = self._places(bare)
                places |= {name: own[here] for name, here in zip(ranks, bare, strict=True)}
                missing = []
        if missing:
            hint = did_you_mean(missing[0], self.names, "is it {}?")
            raise self.error(f"the header lacks {listed([*map(repr, missing)])}", hint)
        return [places[name] for name in required]


def names_beside_blanks(names, wanted):
    """Names as they are wanted, where one has other blanks around it, and no other is like it.

    >>> names_beside_blanks(["a ", "b", "c", " c"], ["a", "b", "c "])
    ['a', 'b', 'c', ' c']
    """
    wanted = {*wanted}
    lacking = {name.strip(): name for name in wanted.difference(names)}
    if not lacking:
        return names
    alike = Counter(name.strip() for name in names)
    return [
        lacking.get(name.strip(), name) if alike[name.strip()] == 1 and name not in wanted else name
        for name in names
    ]


def assign(names, width, place, *, delimiter="", empty=(), **options):
    """The `Layout` of columns with the given roles, by name or position.

    Columns of `empty` are not read.
    """
    wanted: Any = Wanted(**options)
    if names is not None and len({*names}) < width:
        names, _ = distinct_names(names)
    header = _Header(names, width, place)
    by_name = wanted.columns is not None and names is not None
    slots = np.full(width, IGNORED, np.int64)
    if wanted.n_features == width - len(empty) and not by_name:
        slots[[j for j in range(width) if j not in empty]] = np.arange(width - len(empty))
        return Layout(delimiter, names, slots)
    given = [column for column in wanted.drop or () if not isinstance(column, Column)]
    dropped = {header.position(column) for column in given}.union(empty)
    aside = dropped.union(header.position(column) for column in set_aside(wanted.drop))
    for role, position in _roles(wanted, header, dropped):
        if slots[position] == TARGET:
            raise header.error("one column cannot be both target and weight")
        slots[position] = role
    if by_name:
        places = header.positions(wanted.columns)
        slots[places] = np.arange(len(places))
    else:
        free = [j for j in np.flatnonzero(slots == IGNORED).tolist() if j not in aside]
        slots[free] = np.arange(len(free))
        if wanted.n_features not in (None, len(free)):
            words = f"{width} columns hold {len(free)} features"
            raise header.error(f"{words}, but {wanted.n_features} are expected")
    if not np.any(slots >= 0):
        hint = _ONE_COLUMN if delimiter else None
        raise header.error("the file has no feature column", hint)
    return Layout(delimiter, names, slots)


def set_aside(drop):
    """Those of the columns to drop that may be absent, or have another role: each a `Column`."""
    return [column for column in drop or () if isinstance(column, Column)]


def _roles(wanted, header, dropped):
    """The positions of the target and of the weights, as far as there are any."""
    target, names = wanted.target, header.names
    if target is None and (wanted.columns is None or not names or names[-1] not in wanted.columns):
        last = max(set(range(header.width)).difference(dropped), default=0)
        target = Column(None, last)  # a number could be the name of another one
    for role, column, what in (
        (TARGET, target, "target column"),
        (WEIGHT, wanted.weight_column, "weight column"),
    ):
        if column is None or column is False:
            continue
        position = header.position(column)
        if position is None:
            continue
        if position in dropped:
            raise header.error(f"the {what} cannot be dropped")
        yield role, position


def no_rows(path, layout=None):
    """The error for a file without rows; `layout` is that of its header, if it has one."""
    headed = layout is not None and layout.names is not None
    return DataError(f"the file has {'a header and ' if headed else ''}no rows", path)


def ragged(cells, width):
    """The message for a row with a wrong number of cells."""
    if cells > width:
        return f"this row has more than the {width} cells of the first one"
    return f"this row has {cells} {'cell' if cells == 1 else 'cells'}, the first one has {width}"


def headed(texts, path, layout=None, *, enough=None, **columns):
    """Rows of texts below the header: (text, number of its first line, layout, what came with it).

    A text, which is of whole lines, comes with the number of its first line, and perhaps more. The
    first ones, of `enough` bytes (`HEAD`), give the layout, unless it is known; the lines above the
    table become blanks.
    """
    texts = iter(texts)
    if path != "<stdin>":  # the lines of which are read as they come
        yield from _footless(headed_rows(texts, path, layout, enough=enough, **columns), path)
    else:
        yield from headed_rows(texts, path, layout, enough=enough, **columns)


def _footless(texts, path):
    """The same texts; what stands below the table becomes blanks."""
    last, count, first = None, 0, 0
    for found in itertools.chain(_first_tables(texts, path), [None]):
        if last is not None:
            text, line, layout, *more = last
            if found is None:
                text, footer = without_footer(text, layout.dialect)
                if footer:
                    rows = f"{len(footer)} lines" if len(footer) > 1 else "line"
                    words = f"the last {rows} below the table: not read, such as {footer[0]!r:.60}"
                    warn(f"{path}: {words}")
            n_totals, at = first_total(text, layout.dialect)
            first = first or (n_totals and line + text.count(b"\n", 0, at))
            count += n_totals
            yield text, line, layout, *more
        last = found
    if count:
        rows = f"{count} rows begin" if count > 1 else "1 row begins"
        warn(f"{path}: {rows} like a row of sums, the first in line {first}: read as data")


def _first_tables(texts, path):
    """The same texts; another table below the first one becomes blanks."""
    has_begun = False
    for text, line, layout, *more in texts:
        end = 0
        if not has_begun:
            found = second_table(text, layout.dialect)
            has_begun, end = found is not None, len(text)
            if found is not None:
                end, header = found
                number = line + text.count(b"\n", 0, header)
                warn(f"{path}: another table begins in line {number}: not read from there on")
        yield text[:end] + re.sub(rb"[^\n]", b" ", text[end:]), line, layout, *more


def headed_rows(texts, path, layout=None, *, enough=None, **columns):
    """As `headed`, with what stands below the table."""
    rows: Any = None
    if layout is None:
        held, size = [], 0
        for text, *more in texts:
            held.append((text, *more))
            size += len(text)
            if size >= (enough or HEAD) and not text.isspace():
                break
        text = b"".join(text for text, *_ in held)
        if not text.strip():
            return
        layout = planned(text, (path, held[0][1]), **columns)
        rows, above = _PlainRows(layout.dialect, path), 0
        for _ in range(layout.dialect.body):
            above = text.index(b"\n", above) + 1
        for text, line, *more in held:
            head, text = text[:above], text[above:]
            above -= len(head)
            head = re.sub(rb"[^\n]", b" ", head)
            yield head + rows.plain(text, line + head.count(b"\n")), line, layout, *more
    rows = rows or _PlainRows(layout.dialect, path)
    for text, line, *more in texts:
        yield rows.plain(text, line), line, layout, *more


class _PlainRows:
    """The rows of texts, without repetitions of the header, with a warning of the first."""

    def __init__(self, dialect, path):
        self.dialect, self.path, self.has_warned = dialect, path, False

    def plain(self, text, line):
        """The text that `Dialect.plain` gives; `line` is the number of its first line."""
        text, at = self.dialect.without_headers(self.dialect.plain(text))
        if at >= 0 and not self.has_warned:
            self.has_warned = True
            line += text.count(b"\n", 0, at)
            warn(f"{self.path}: line {line} repeats the header: such lines are not read")
        return text


class TableBlock(NamedTuple):
    """Consecutive rows."""

    X: np.ndarray
    y: np.ndarray  # NaN where a target is text
    weight: np.ndarray  # 1 without a weight column
    labels: bytes  # the targets as text, each with a newline; empty if text is not allowed
    stray: DataError | None  # the error for the first target that is not a number
    absent: DataError | None  # that for the first missing one, if targets are numbers
    nameless: DataError | None  # and if they are texts
    n_absent: int  # how many are missing if targets are numbers
    layout: Layout  # the same in every block of a file
    forms: Any = None  # of numbers, for each column: see `_note_form`
    found: Any = None  # the error for the first number of each column and form

    def texts(self):
        """The targets as text."""
        labels = decoded(self.labels).replace('""', '"').split("\n")
        return np.array(labels[:-1], dtype=np.str_)

    def targets(self, kind, skipped):
        """The targets, float or str; the first one that is missing is noted in `skipped`."""
        error = self.absent if kind is float else self.nameless
        if error is not None and skipped is None:
            raise error
        if error is not None:
            skipped.note(error)
        return self.y if kind is float else self.texts()


@kernel
def _skip_blanks(text, at, delimiter):
    while (text[at] == 32 or text[at] == 9) and text[at] != delimiter:
        at += 1
    return at


@kernel
def _skip_cell(text, at, delimiter):
    """Find a cell: (its first byte, end, first byte after it); end -1 for an unclosed quote."""
    if text[at] == 34:
        begin = at + 1
        at = begin
        while text[at] != 34 or text[at + 1] == 34:
            if text[at] == 10:
                return begin, -1, at
            at += 2 if text[at] == 34 else 1
        return begin, at, at + 1
    begin, end = at, at
    while text[at] != delimiter and text[at] != 10:
        at += 1
        if text[at - 1] != 32 and text[at - 1] != 9:
            end = at
    return begin, end, at


PADDED, GROUPED, LONG = 0, 1, 2
_FORM_WORDS = {
    PADDED: "digits with zeros in front, which may be names, are read as numbers",
    GROUPED: "points stand between thousands, as in '1.250'",
    LONG: "whole numbers which a float cannot hold: some that differ may be one value",
}
_LONGEST_EXACT = 15  # digits; whole numbers of more may be beyond 2**53


@kernel
def _are_digits(text, begin, end):
    at = begin
    while at < end and 48 <= text[at] <= 57:
        at += 1
    return at == end


@kernel
def _note_form(text, begin, end, column, forms, firsts):
    """Note what floats do not show: digits behind zeros, and a point that may part thousands.

    A row of `forms` has the most digits of a number of the column such as 00601, 1 if there is one
    such as 1.250, and 1 if there is a whole one that a float may not hold; `firsts` has the first
    byte after where each of them begins.
    """
    if text[begin] == 48:
        if end - begin > max(1, forms[column, PADDED]) and _are_digits(text, begin, end):
            forms[column, PADDED] = end - begin
            firsts[column, PADDED] = firsts[column, PADDED] or begin + 1
    elif end - begin >= 5 and text[end - 4] == 46 and text[end - 1] == 48:
        forms[column, GROUPED] = 1
        firsts[column, GROUPED] = firsts[column, GROUPED] or begin + 1
    elif end - begin > _LONGEST_EXACT and not forms[column, LONG]:
        start = begin + 1 if text[begin] == 45 or text[begin] == 43 else begin
        is_long = end - start > _LONGEST_EXACT + 1 or text[start] == 57
        if is_long and end - start > _LONGEST_EXACT and _are_digits(text, start, end):
            forms[column, LONG] = 1
            firsts[column, LONG] = begin + 1


@kernel
def _parse(text, delimiter, slots, X, y, weight, spans, slow, forms, firsts):
    """Parse whole lines.

    Returns (rows, slow numbers, outcome, byte and column of the fault). `slow` lists (row, column,
    byte) of the numbers that need `float`; `spans` holds the bytes of each target. Loops need no
    bounds check because the last byte is a newline.
    """
    at, width, row, slows = 0, len(slots), 0, 0
    while at < len(text):
        at = _skip_blanks(text, at, delimiter)
        if text[at] == 10:
            at += 1
            continue
        y[row], weight[row] = np.nan, 1.0
        for column in range(width):
            at = _skip_blanks(text, at, delimiter)
            slot, quoted = slots[column], text[at] == 34
            begin = at + 1 if quoted else at
            if slot >= 0 or slot == WEIGHT:
                value, at, outcome = scan_number(text, begin)
                if outcome == NOT_A_NUMBER or (quoted and text[at] != 34):
                    return row, slows, _CELL, begin, column
                _note_form(text, begin, at, column, forms, firsts)
                if quoted:
                    at += 1
                if slot >= 0:
                    X[row, slot] = value
                elif value < 0:
                    return row, slows, _NEGATIVE, begin, column
                else:
                    weight[row] = value
            else:
                begin, end, at = _skip_cell(text, at, delimiter)
                outcome = NOT_A_NUMBER
                if end < 0:
                    return row, slows, _UNCLOSED, begin, column
                if slot == TARGET:
                    if end - begin > LONGEST_LABEL:
                        return row, slows, _LONG, begin, column
                    spans[row, 0], spans[row, 1] = begin, end
                    value, number_end, outcome = scan_number(text, begin)
                    if number_end != end:
                        outcome = NOT_A_NUMBER
                    if outcome != NOT_A_NUMBER:
                        y[row] = value
                        _note_form(text, begin, end, column, forms, firsts)
            if outcome == SLOW:
                slow[slows, 0], slow[slows, 1], slow[slows, 2] = row, column, begin
                slows += 1
            at = _skip_blanks(text, at, delimiter)
            if text[at] == delimiter:
                if column == width - 1:
                    return row, slows, _MANY, at, column
                at += 1
            elif text[at] != 10:
                return row, slows, _CELL, begin, column
            elif column < width - 1:
                return row, slows, _FEW, at, column
        row += 1
    return row, slows, _FINE, at, 0


def blocks(source, *, target_type=None, skipped=None, place=(0, 1), layout=None, **columns):
    """Read delimited text from a place on: pairs of a `TableBlock` and the place after it.

    The options are those of `tunefree.files.read`; a place after the start needs the layout.
    """
    path = name_of(source)
    layout = None if place == (0, 1) else layout
    texts = headed(placed_lines(source, place), path, layout, **columns)
    for text, line, layout, after in texts:
        parse = partial(_read_block, layout=layout, path=path, target_type=target_type)
        yield from sound_parts(text, line, after, parse, skipped)


def _read_block(text, line, layout, path, target_type):
    most = len(text) // len(layout.slots) + 1
    X, y, weight = np.empty((most, layout.n_features)), np.empty(most), np.empty(most)
    spans, slow = np.empty((most, 2), np.int64), np.empty((len(text) // 4 + 1, 3), np.int64)
    read = np.frombuffer(text, np.uint8), ord(layout.delimiter), layout.slots
    forms, firsts = np.zeros((2, len(layout.slots), 3), np.int64)
    rows, slows, outcome, at, column = _parse(*read, X, y, weight, spans, slow, forms, firsts)
    faults = [] if outcome == _FINE else [(at, outcome, column)]
    for row, where, begin in slow[:slows].tolist():
        number, slot = python_number(text, begin), layout.slots[where]
        if not np.isfinite(number) or (slot == WEIGHT and number < 0):
            faults.append((begin, _CELL, where))
        if slot >= 0:
            X[row, slot] = number
        else:
            (y if slot == TARGET else weight)[row] = number
    X, y, weight, spans = X[:rows].copy(), y[:rows].copy(), weight[:rows].copy(), spans[:rows]
    labels, target, found = b"", layout.find(TARGET), _Texts()
    if target:
        found = _texts_among(spans[np.isnan(y)], text, target.position)
        if fault := found.stray if target_type is float else found.infinite:
            faults.append(fault)
    if faults:
        raise _error(min(faults), text, line, layout, path)
    if target and target_type is not float:
        begins, ends = spans.T.tolist()
        words = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
        labels = b"\n".join([*words, b""])
    stray, absent, nameless = (
        place and _error(place, text, line, layout, path)
        for place in (found.stray, found.absent, found.nameless)
    )
    noted = {
        (j, form): _form_error(int(firsts[j, form]) - 1, j, form, text, line, layout, path)
        for j, form in np.argwhere(firsts).tolist()
    }
    return TableBlock(
        X, y, weight, labels, stray, absent, nameless, found.n_absent, layout, forms, noted
    )


def _form_error(at, column, form, text, line, layout, path):
    """The error for the first number of a form."""
    words = f"{layout.describe(column)}: {_FORM_WORDS[form]}"
    if form != GROUPED:
        first = excerpt(text, at, (layout.delimiter + '"').encode())
        words += f", the first {first}"
    return fault(words, path, text, at, line)


class _Texts(NamedTuple):
    """The first targets of some kinds among those that are no numbers, as (byte, outcome, column).

    None where there is none.
    """

    stray: Any = None  # not missing
    infinite: Any = None
    absent: Any = None  # missing, if the others are numbers
    nameless: Any = None  # missing, if the others are texts
    n_absent: int = 0


def _texts_among(spans, text, column):
    """The `_Texts` of the targets that are no numbers."""
    found: Any = {}
    n_absent, plain = 0, set()  # words of which there is nothing to note any more
    begins, ends = spans.T.tolist()
    for begin, end in zip(begins, ends, strict=True):
        word = text[begin:end]
        if word in plain:
            continue
        cell = decoded(word)
        place = begin, _CELL if cell else _EMPTY, column
        if cell in NO_LABEL:
            found.setdefault("nameless", (begin, _ABSENT if cell else _EMPTY, column))
        if cell in NO_LABEL or cell.lower() in MISSING:
            found.setdefault("absent", place)
            n_absent += 1
            continue
        found.setdefault("stray", place)
        if cell.lower().lstrip("+-") in _INFINITE:
            found.setdefault("infinite", place)
        plain.add(word)
    return _Texts(**found, n_absent=n_absent)


def read_table(source, *, target_type=None, skipped=None, **columns):
    r"""Read delimited text into (X, y, weight, layout), with the options of `tunefree.files.read`.

    >>> X, y, _, layout = read_table([b"a,b,kind\n1,2,cat\n3,4,dog\n"])
    >>> X.tolist(), y.tolist(), layout.feature_names
    ([[1.0, 2.0], [3.0, 4.0]], ['cat', 'dog'], ['a', 'b'])
    """
    found: Any = [b for b, _ in blocks(source, target_type=target_type, skipped=skipped, **columns)]
    if not sum(len(block.X) for block in found):
        raise no_rows(name_of(source), found[0].layout if found else None)
    layout = found[0].layout
    X, y, weight = (np.concatenate([block[part] for block in found]) for part in range(3))
    if not layout.find(TARGET):
        y = None
    else:
        kind = target_type or type_of_targets(found)
        y = np.concatenate([block.targets(kind, skipped) for block in found])
    forms = np.max([block.forms for block in found], axis=0)
    layout = layout._replace(dialect=_with_forms(layout, forms, X, y))
    return X, y, (weight if layout.find(WEIGHT) else None), layout


def _with_forms(layout, forms, X, y):
    """The dialect with what numbers of all rows show, and not those of the first rows alone."""
    padded = dict(layout.dialect.padded)
    padded |= {j: n for j, n in enumerate(forms[:, PADDED].tolist()) if n > padded.get(j, 1)}
    grouped = []
    for j in np.flatnonzero(forms[:, GROUPED]).tolist():
        slot = layout.slots[j]
        values = X[:, slot] if slot >= 0 else y
        if slot != WEIGHT and values.dtype.kind == "f" and may_be_grouped(values):
            grouped.append(j)
    return layout.dialect._replace(padded=tuple(sorted(padded.items())), grouped=tuple(grouped))


def check_points(layout, path):
    """Refuse plain numbers whose points, by the dialect, stand between thousands."""
    read = [j for j in layout.dialect.commas if layout.slots[j] != IGNORED]
    if read:
        words = f"{layout.describe(read[0])}: points stand between thousands, as in '1.250'"
        raise DataError(words, path, feature=True)


def type_of_targets(blocks):
    """What the targets of blocks are: float or str; an error for a few bad cells among numbers."""
    stray = next((block.stray for block in blocks if block.stray), None)
    y = np.concatenate([block.y for block in blocks])
    if stray and looks_numeric(y, len(y) - sum(block.n_absent for block in blocks)):
        raise stray
    return str if stray else float


_MESSAGES = {
    _CELL: "not a finite number",
    _EMPTY: "the cell is empty",
    _ABSENT: "no class",
    _LONG: f"a target of more than {LONGEST_LABEL} bytes",
    _NEGATIVE: "a weight must not be negative",
    _UNCLOSED: "the quote is not closed on this line",
}
_QUOTED = _CELL, _LONG, _NEGATIVE, _ABSENT  # the cell follows the message


def _error(found, text, line, layout, path):
    """The `DataError` for (its byte in the text, its outcome, the column)."""
    at, outcome, column = found
    word = excerpt(text, at, (layout.delimiter + '"').encode())
    if outcome == _CELL and word == "''":
        outcome = _EMPTY
    if outcome in (_FEW, _MANY):
        words = ragged(column + 1 + (outcome == _MANY), len(layout.slots))
    else:
        words = f"{layout.describe(column)}: {_MESSAGES[outcome]}"
    is_quoted = outcome in _QUOTED
    error = fault(f"{words}: {word}" if is_quoted else words, path, text, at, line)
    if is_quoted and error.line <= 2:  # more likely the wrong role than a bad cell
        error.hint = TARGET_OR_HEADER
    error.feature = outcome in (_CELL, _EMPTY) and bool(layout.slots[column] >= 0)
    return error
