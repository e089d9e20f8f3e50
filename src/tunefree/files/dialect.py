r"""The dialect of delimited text: what parts its cells, where the table begins, its header.

It is found once, from the first `HEAD` bytes. Then text is made what the readers of whole lines
expect, byte for byte at its place, so that lines, columns and checkpoints stay true: comments
become blanks, and cells that blanks separate are parted with tabs. Usual text is not touched.

What was taken from others. From CleverCSV (van den Burg et al. 2019): the delimiter is the one
with the highest product of how regular the rows are (weighted with 1 - 1 / width) and how many
cells have a known type. From DuckDB: the table begins where rows of one width begin, and a first
row is a header if it does not fit the types of the columns below. Neither is used itself: they read
all of a file or lose the place of a cell, and know neither second headers, comments between rows,
lines quoted as a whole nor unnamed columns of nothing.
"""

import csv
import math
import re
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from tunefree.core.format import listed
from tunefree.files.files import decoded
from tunefree.files.quotes import cells_of, parted_at_blanks
from tunefree.rows.missing import MISSING
from tunefree.rows.written_numbers import are_grouped

HEAD = 1 << 16
DELIMITERS = "\t;|, "
_RARE = "^~\x1f\x01:"  # where none of these parts the lines
_MOST_ROWS = 400
# Comments, and the lines between the rows of a table that a database prints.
_COMMENTS = ("#", "%", "//", "+-", "---")
_NAMES = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "blanks"}
# How a number, an amount or a date begins.
_DIGIT_LED = re.compile(r"[+-]?[$€£¥₹]? ?(\d|[.,]\d)")
_DECIMAL = re.compile(
    r"[+-]?\d*[.,]?\d+([eE][+-]?\d+)?%?|[+-]?\d{1,3}(,\d{3})+(\.\d+)?|[+-]?\d{1,3}(\.\d{3})+,\d+"
)
_AMOUNT = re.compile(
    r"[+-]?[$€£¥]? ?(\d{1,3}(\.\d{3})+|\d+),\d+ ?[^\d\s,;|]{1,6}|[$€£¥] ?[\d.]+,\d+"
)
_SEVERAL = re.compile(r"[+-]?[\d.,]+(\s+[+-]?[\d.,]+)+")  # numbers that blanks separate
_WHOLE = re.compile(r"\d+")
_UNIT = re.compile(r"[(\[].*[)\]]|[^\d\s]{1,6}(/[^\d\s]{1,4})?")
_FEWEST = 3  # rows that show what a column holds
_REGULAR = 0.7  # a table between whose rows some are malformed has this share of whole ones


class Dialect(NamedTuple):
    """How a file is written.

    Attributes
    ----------
    delimiter : str
        Between two cells; " " stands for any number of blanks.
    names : list or None
        The header.
    width : int
        The number of columns.
    empty : tuple
        Positions of the columns that have neither a name nor contents.
    body : int
        The number of lines before the first row of data.
    comment : str
        What the lines begin with that are not read, or "".
    is_wrapped : bool
        Whether every line is one quoted cell.
    notes : tuple
        What was found that may surprise, a sentence each.
    quoting : str
        What is special about quotes: "'" if it stands around cells, a backslash if it stands before
        quotes within cells, or "".
    header : tuple
        The cells of the lines with names or units, which are no data further down, either.
    commas : tuple
        Positions of the columns whose numbers have a decimal comma, for readers of single rows.
    padded : tuple
        Positions of the columns with digits behind zeros, such as 00601, which may be names, and
        how many digits.
    points : bool
        Whether a number has a decimal point.
    grouped : tuple
        Positions of the columns whose points may stand between thousands, by all plain numbers.
    """

    delimiter: str
    names: list | None
    width: int
    empty: tuple = ()
    body: int = 0
    comment: str = ""
    is_wrapped: bool = False
    notes: tuple = ()
    quoting: str = ""
    header: tuple = ()
    commas: tuple = ()
    padded: tuple = ()
    points: bool = False
    grouped: tuple = ()

    @property
    def mark(self):
        """The delimiter of the text that `plain` returns."""
        return "\t" if self.delimiter == " " else self.delimiter

    def plain(self, text):
        r"""Whole lines with a delimiter of one byte and without comments; as many bytes.

        >>> Dialect(" ", None, 2, comment="#").plain(b"1  2\n# no\n")
        b'1 \t2\n    \n'
        """
        if self.comment:
            text = _without_comments(text, self.comment)
        if self.is_wrapped:
            text = _unwrapped(text)
        if self.quoting:
            text = _requoted(text, self.quoting, self.delimiter)
        return parted_at_blanks(text) if self.delimiter == " " else text

    def without_headers(self, text):
        r"""Lines of `plain` with blanks for those that repeat the header; where the first begins.

        Files that were joined have them. It is -1 without such lines.

        >>> found = Dialect(",", ["a", "b"], 2, header=(("a", "b"),))
        >>> found.without_headers(b'1,2\n"a","b"\n3,4\n')
        (b'1,2\n       \n3,4\n', 4)
        """
        pattern = _repetition(self.header, self.mark)
        # The pattern takes as long as reading numbers; looking for one name takes a hundredth.
        if pattern is None or not any(name in text for name in _longest_names(self.header)):
            return text, -1
        first = pattern.search(text)
        if first is None:
            return text, -1
        return pattern.sub(lambda m: re.sub(rb"[^\n]", b" ", m[0]), text), first.start()

    def words(self):
        """What was found, as a phrase.

        >>> Dialect(";", ["a", "b"], 2).words()
        '2 columns separated by semicolons, with a header'
        """
        header = "without a header" if self.names is None else "with a header"
        mark = _NAMES.get(self.delimiter, repr(self.delimiter))
        return f"{self.width} columns separated by {mark}, {header}"


_QUOTING = {
    "'": "apostrophes stand around cells: they are not read",
    "\\": "a backslash stands before quotes within cells: it is not read",
}
_WORDS = {
    "tab": "\t",
    "\\t": "\t",
    "comma": ",",
    "semicolon": ";",
    "bar": "|",
    "pipe": "|",
    "blank": " ",
    "blanks": " ",
    "space": " ",
}


def delimiter_named(delimiter: str) -> str:
    """A delimiter given as a character or by a word.

    >>> delimiter_named("bar"), delimiter_named(";")
    ('|', ';')
    """
    found: Any = _WORDS.get(delimiter, delimiter)
    if len(found) != 1 or not found.isascii() or found in '"\n\r':
        words = "give one character, or tab, comma, semicolon, bar or blank"
        raise ValueError(f"delimiter={delimiter!r} is no delimiter: {words}")
    return found


def _without_comments(text, comment):
    mark = re.escape(comment.encode())
    return re.sub(rb"(?m)^[ \t]*" + mark + rb"[^\n]*", lambda m: b" " * len(m[0]), text)


def _unwrapped(text):
    """Lines that are one quoted cell each, without these quotes; as many bytes."""

    def inner(found):
        return found[1].replace(b'""', b'"').ljust(len(found[0]))

    return re.sub(rb'(?m)^"((?:[^"\n]|"")*+)"[ \t]*$', inner, text)


def _requoted(text, quoting, delimiter):
    r"""Lines whose quotes are those of csv; as many bytes.

    >>> _requoted(rb'1,"a \"b\" c"', "\\", ","), _requoted(b"1,'a, b'\n", "'", ",")
    (b'1,"a ""b"" c"', b'1,"a, b"\n')
    """
    if quoting == "\\":
        return re.sub(rb'\\([\\"])', lambda m: b'""' if m[1] == b'"' else m[0], text)
    mark = b" \t" if delimiter == " " else re.escape(delimiter.encode())
    cell = rb"(?m)(^|[" + mark + rb"])([ \t]*)'((?:[^'\n]|'')*+)'(?=[ \t]*(?:[" + mark + rb"]|$))"
    return re.sub(cell, rb'\1\2"\3"', text)


def _quoting_of(head, delimiter, comment):
    """The `Dialect.quoting` of a head."""
    if '\\"' in head:
        usual, other = (
            _regularity(text, delimiter or _delimiter_of(text, comment), comment)
            for text in (head, _requoted(head.encode(), "\\", "").decode())
        )
        # Before a delimiter the backslash may end a cell.
        is_within = re.search(r'\\"[^\s,;|"]', head) is not None
        if other > usual or (other == usual and is_within):
            return "\\"
    if "'" not in head:
        return ""
    mark = delimiter or _delimiter_of(head, comment)
    requoted = _requoted(head.encode(), "'", mark).decode()
    if requoted == head:
        return ""
    is_better = _regularity(requoted, mark, comment) > _regularity(head, mark, comment)
    return "'" if is_better or _are_quoted(_rows(head, mark, comment)) else ""


def _regularity(head, delimiter, comment):
    """The share of rows that have the usual number of cells."""
    widths = Counter(len(row.cells) for row in _rows(head, delimiter, comment))
    return max(widths.values(), default=0) / max(sum(widths.values()), 1)


def _are_quoted(rows):
    """Whether all cells of a column stand between apostrophes."""
    width = max((len(row.cells) for row in rows), default=0)
    columns = zip(*(row.cells for row in rows if len(row.cells) == width), strict=True)
    filled = ([cell for cell in column if cell] for column in columns)
    return any(
        len(cells) > 1 and all(len(c) > 1 and c[0] == c[-1] == "'" for c in cells)
        for cells in filled
    )


# A number with a decimal comma, whole or in groups, with a sign of money or percent.
_WITH_COMMA = re.compile(
    r"([+-]?(?:[$€£¥] ?)?)((?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)(?:,\d+)?)( ?[%$€£¥])?", re.ASCII
)
# A number with a decimal point: what stands around it is no group of thousands.
_WITH_POINT = re.compile(r"[+-]?(?:\d*\.(?:\d{1,2}|\d{4,})|(?:0?|\d{4,})\.\d{3})", re.ASCII)


def decimal_commas(below, width, delimiter):
    """Positions of the columns of some rows whose numbers have a decimal comma.

    A column shows it by a comma before other than three digits. Between semicolons three are
    enough, unless a column has a decimal point, or the column the form of thousands; and then all
    columns have decimal commas. So have columns with points between thousands.

    >>> rows = [["1,5", "1,250", "7"], ["2", "3,125", "8"]]
    >>> decimal_commas(rows, 3, ";"), decimal_commas([[*row, "2.5"] for row in rows], 4, ";")
    ((0, 1, 2), (0,))
    >>> decimal_commas([["1,250", "7"], ["410", "8"]], 2, ";")  # thousands
    ()
    """
    rows = [row for row in below if len(row) == width]
    return commas_of([*zip(*rows, strict=True)], width, delimiter)


def commas_of(columns, width, delimiter):
    """The same of the cells of columns, each of which may be there once."""
    columns = [[c for c in column if c.lower() not in MISSING] for column in columns]
    grouped = tuple(j for j, column in enumerate(columns) if _has_grouped(column))
    if not any("," in cell for column in columns for cell in column):
        return grouped
    has_points = any(map(_have_points, columns))
    is_sure = delimiter == ";" and not has_points
    shown = tuple(j for j, column in enumerate(columns) if _shows_commas(column, is_sure))
    if has_points or not shown:
        return tuple(sorted({*shown, *grouped}))
    return tuple(range(width))


def _have_points(cells):
    """Whether one of some cells has a decimal point."""
    return any("." in cell and _WITH_POINT.fullmatch(cell) for cell in cells)


_PADDED = re.compile(r"0\d+", re.ASCII)


def _padded_columns(rows):
    """Positions of the columns with digits behind zeros, and how many digits.

    >>> _padded_columns([["00601", "1.5", "0"], ["90210", "2", "07"]])
    ((0, 5), (2, 2))
    """
    found: dict = {}
    for row in rows:
        for j, cell in enumerate(row):
            if cell[:1] == "0" and _PADDED.fullmatch(cell):
                found[j] = max(found.get(j, 0), len(cell))
    return tuple(sorted(found.items()))


def _has_grouped(column):
    """Whether the points in a column of plain numbers stand between thousands."""
    if not any(map(_GROUP.fullmatch, column)):  # of most columns the first cells show it
        return False
    return are_grouped(pa.array(column))


_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}\.\d\d0", re.ASCII)


def _shows_commas(column, is_sure):
    """Whether cells are numbers, one of which has a decimal comma."""
    own = [cell for cell in column if "," in cell]
    if is_sure and _has_grouped([cell.replace(",", ".") for cell in column]):
        return False  # 345,120 beside 980
    tails = [cell.partition(",")[2].strip(" %$€£¥") for cell in own]
    shown = any("." in c or is_sure or len(t) != 3 for c, t in zip(own, tails, strict=True))
    return shown and all(map(_WITH_COMMA.fullmatch, column))


def with_point(cell):
    """A cell of a column with decimal commas, with a decimal point if it is a number.

    >>> with_point("1.234,5 €"), with_point("1.250"), with_point("0.250"), with_point("a,b")
    ('1234.5 €', '1250', '0.250', 'a,b')
    """
    found = _WITH_COMMA.fullmatch(cell)
    if found is None:
        return cell
    before, number, after = found.groups("")
    return before + number.replace(".", "").replace(",", ".") + after


def with_comma(cell):
    """A plain number with a decimal comma in place of its point.

    >>> with_comma("12.345"), with_comma("1,5"), with_comma("a.b")
    ('12,345', '1,5', 'a.b')
    """
    return cell.replace(".", ",") if _PLAIN.fullmatch(cell) else cell


_PLAIN = re.compile(r"[+-]?\d*\.\d+", re.ASCII)


@lru_cache(maxsize=16)
def _repetition(header, mark):
    """A pattern of the lines with these cells; None if these may be data."""
    rows = [cells for cells in header if not all(map(_DIGIT_LED.match, filter(None, cells)))]
    if not rows:
        return None

    def cell(text):
        quoted = re.escape('"' + text.replace('"', '""') + '"')
        return rf"[ \t]*(?:{re.escape(text)}|{quoted})[ \t]*"

    lines = (re.escape(mark).join(map(cell, cells)) for cells in rows)
    return re.compile(f"(?m)^(?:\ufeff)?(?:{'|'.join(lines)})$".encode())


def _longest_names(header):
    """The longest cell of each line of a header, up to the first quote in it."""
    return [max(cells, key=len).partition('"')[0].encode() for cells in header]


def sniffed(head, *, header=None, delimiter=None, known=None):
    r"""The `Dialect` of a file that begins with some whole lines.

    Parameters
    ----------
    head : str
    header : bool, optional
        Whether the table has a header.
    delimiter : str, optional
    known : list of str, optional
        Names of columns that a header of this file should have; none if it should have no header.

    Examples
    --------
    >>> found = sniffed("# a station\nx y\n1  2\n3  4\n5 6\n")
    >>> found.delimiter, found.names, found.body, found.comment
    (' ', ['x', 'y'], 2, '#')
    """
    is_wrapped = _is_wrapped(head)
    if is_wrapped:
        head = _unwrapped(head.encode()).decode()
    comment = _comment_of(head)
    if delimiter is not None:
        delimiter = delimiter_named(delimiter)
    quoting = _quoting_of(head, delimiter, comment)
    if quoting == "\\":
        head = _requoted(head.encode(), quoting, "").decode()
    delimiter = delimiter or _delimiter_of(head, comment)
    if quoting == "'":
        head = _requoted(head.encode(), quoting, delimiter).decode()
    rows = _rows(head, delimiter, comment)
    if comment and not rows:
        comment, rows = "", _rows(head, delimiter, "")
    titles = _titles([row.cells for row in rows]) if delimiter != " " else 0
    if not any(" " in cell for row in rows[:titles] for cell in row.cells):
        titles = 0  # one word alone may be the first of two headers
    titles += _pairs([row.cells for row in rows[titles:]])
    above, rows = rows[:titles], rows[titles:]
    table = _TableHead(head, delimiter, comment, rows)
    if not comment and (comment := _comment_between(rows, table.width)):
        rows = _rows(head, delimiter, comment)[titles:]
        table = _TableHead(head, delimiter, comment, rows)
    names, first, notes = table.header(header, known)
    width = table.width
    below = [row.cells for row in rows[first:]]
    heads = [row.cells for row in rows[max(first - 2, 0) : first] if len(row.cells) > 1]
    heads = () if names is None else tuple(map(tuple, heads))
    if names is not None:
        names = [*names[:width], *[""] * (width - len(names))]
    empty = unnamed_columns(names, below, width)
    # Without names one empty column at the end may be the target: then its rows are refused.
    may_be_target = names is None and len(empty) == 1 and delimiter not in " |"
    empty = () if may_be_target else empty
    if names is not None:
        # Programs that add a mark of the byte order do so to files that have one.
        names, renamed = distinct_names([name.strip("\ufeff") for name in names])
        notes += renamed
    if is_wrapped:
        notes.insert(0, "every line is one quoted cell: these quotes are not read")
    if quoting:
        notes.insert(0, _QUOTING[quoting])
    if delimiter in " |":
        notes.insert(0, f"cells are separated by {_NAMES[delimiter]}")
    if above:
        lines = f"lines 1 to {above[-1].line + 1} are" if above[-1].line else "line 1 is"
        notes.insert(0, f"{lines} before the table: not read")
    if comment:
        notes.append(f"lines that begin with {comment} are not read")
    if empty:
        what = "columns" if len(empty) > 1 else "column"
        numbers = listed([str(j + 1) for j in empty])
        notes.append(f"{what} {numbers} without a name and contents: not read")
    body = rows[first].line if first < len(rows) else head.count("\n")
    known = Dialect(delimiter, names, width, empty, body, comment, is_wrapped, tuple(notes))
    commas = decimal_commas(below, width, delimiter)
    padded, points = _padded_columns(below), any(map(_have_points, below))
    return known._replace(
        quoting=quoting, header=heads, commas=commas, padded=padded, points=points
    )


class _Row(NamedTuple):
    """A row of the head: the number of lines before it, and its cells."""

    line: int
    cells: list


def _rows(head, delimiter, comment, most=_MOST_ROWS, width=0):
    """The rows that are neither blank nor comments."""
    rows, at, line = [], 0, 0
    if delimiter == " ":
        head = parted_at_blanks(head.encode()).decode()
    mark = "\t" if delimiter == " " else delimiter
    while at < len(head) and len(rows) < most:
        end = head.find("\n", at)
        end = len(head) if end < 0 else end
        first = head[at:end].strip()
        if not first or (comment and first.startswith(comment)):
            line, at = line + 1, end + 1
            continue
        found, after = cells_of(head, at, mark, width)
        rows.append(_Row(line, [cell for *_, cell in found]))
        line += head.count("\n", at, after)
        at = after
    return rows


def _is_wrapped(head):
    lines = [line.strip() for line in head.split("\n") if line.strip()][:50]
    whole = [re.fullmatch(r'"((?:[^"]|"")*+)"', line) for line in lines]
    if not lines or None in whole:
        return False
    inner = [found[1] for found in whole if found]
    # One quoted column has no delimiter in its cells, or not in all of them.
    return any(all(d in line for line in inner) for d in "\t;|,")


def _comment_of(head):
    """What comments begin with if the first line is one, or ""."""
    lines = [line.strip() for line in head.split("\n") if line.strip()]
    comment = next((c for c in _COMMENTS if lines and lines[0].startswith(c)), "")
    marked = [line for line in lines if comment and line.startswith(comment)]
    others = [line for line in lines if not (comment and line.startswith(comment))]
    if not marked or not others:
        return ""
    usual = {d: Counter(line.count(d) for line in others).most_common(1)[0][0] for d in "\t;|,"}
    rows = [any(n and line.count(d) == n for d, n in usual.items()) for line in marked]
    # A column named "#", or one with texts such as "#1".
    is_name = not lines[0][len(comment) :].strip(" ")[:1].isalnum()
    is_data = all(rows) and (len(marked) > 1 or is_name)
    return "" if is_data else comment


def _comment_between(rows, width):
    """What lines between the rows begin with that are none, or ""."""
    for comment in _COMMENTS:
        marked = [row for row in rows if row.cells[0].startswith(comment)]
        if marked and width > 1 and all(len(row.cells) < width for row in marked):
            return comment
    return ""


def _known(cell, delimiter):
    """How likely such a cell is, from 0 to 1: another delimiter within it makes it less so."""
    if cell.lower() in MISSING or _DECIMAL.fullmatch(cell) or _AMOUNT.fullmatch(cell):
        return 1.0
    others = [d for d in "\t;|," if d != delimiter and d in cell]
    parts = cell.split(others[0]) if others else []
    if others not in ([], [","]) and all(_DECIMAL.fullmatch(part.strip()) for part in parts):
        return 0.2  # 73;6: no mark of decimals joins numbers so
    if _SEVERAL.fullmatch(cell):
        return 0.3
    if not others:
        return 1.0
    if delimiter == " ":
        return 0.0
    return 0.5 if any(_DIGIT_LED.match(part.strip()) for part in parts) else 0.8


def _delimiter_of(head, comment):
    """The delimiter with the best score; a comma if none parts the lines."""
    best, found = 0.0, ","
    for delimiter in DELIMITERS:
        if (delimiter == " " and best > 0.6) or not _occurs(delimiter, head):
            continue
        rows = _rows(head, delimiter, comment, most=100)
        score = _score(rows, delimiter)
        # "4 000" beside a tab: blanks are within cells if tabs part every line, and they do not.
        if delimiter == " " and found == "\t" and _are_alike(head, found, comment):
            score = score if len({len(row.cells) for row in rows}) == 1 else 0.0
        if score > best + 1e-9:
            best, found = score, delimiter
    if best == 0.0:
        for delimiter in filter(head.__contains__, _RARE):
            rows = _rows(head, delimiter, comment, most=100)
            widths = {len(row.cells) for row in rows}
            if len(rows) >= _FEWEST and len(widths) == 1 and widths != {1}:
                return delimiter
    return found


def _are_alike(head, delimiter, comment):
    """Whether all rows have the same number of cells."""
    return len({len(row.cells) for row in _rows(head, delimiter, comment, most=100)}) == 1


def _occurs(delimiter, head):
    return delimiter in head or (delimiter == " " and "\t" in head)


def _score(rows, delimiter):
    widths = Counter(len(row.cells) for row in rows)
    if not widths:
        return 0.0
    width = max(widths, key=lambda w: (w > 1) * widths[w] * (1.0 - 1.0 / w))
    if width < 2:
        return 0.0
    regular = [row.cells for row in rows if len(row.cells) == width]
    share = len(regular) / len(rows)
    if delimiter == " ":
        # Words of a text are separated by blanks, too.
        columns = zip(*regular[1:], strict=True)
        numbers = [all(_DIGIT_LED.match(c) or c in "?-" for c in column) for column in columns]
        last = [len(row.cells) == width for row in rows[-_FEWEST:]]
        is_table = all(last) or share >= _REGULAR
        if not any(numbers) or not is_table or len(regular) < 2:
            return 0.0
    step = max(1, len(regular) * width // 5000)
    cells = [cell for row in regular[::step] for cell in row]
    known = sum(_known(cell, delimiter) for cell in cells) / len(cells)
    begins = 1.0 if len(rows[0].cells) == width else 0.7
    return share * (1.0 - 1.0 / width) * known * begins


class _TableHead:
    """The rows of the head, in search of the first one of the table."""

    def __init__(self, head, delimiter, comment, rows):
        self.head, self.delimiter, self.comment, self.rows = head, delimiter, comment, rows
        self.width, self.start = self._extent()

    def _extent(self):
        """The number of columns, and the index of the first row of that width."""
        rows = self.rows
        widths = [len(row.cells) for row in rows]
        if not widths:
            return 0, 0
        counts = Counter(widths)
        first = widths[0]
        width = max(counts, key=lambda w: (counts[w], w == first, w))
        if width == first or width < 2:
            return first, 0
        # The longest stretch to the end of which nearly all rows have that width.
        good, start = 0, None
        for index in range(len(rows) - 1, -1, -1):
            good += widths[index] == width
            if widths[index] == width and good >= 0.9 * (len(rows) - index):
                start = index
        if start is None or len(rows) - start < _FEWEST or not self._are_prose(rows[:start], width):
            return first, 0
        return width, start

    def _are_prose(self, before, width):
        """Whether rows are no part of the table below them: texts, or a header of another width."""
        last = before[-1].cells
        if len(last) == width - 1 and all(last) and not self._have_names(before[-1].line, width):
            return False  # a header that lacks a name
        is_header = len(last) > width and not any(last[width:])
        is_short = all(len(row.cells) < width for row in before[: -1 if is_header else None])
        numbers = [all(map(_DIGIT_LED.match, row.cells)) for row in before]
        return (is_short or self._other_header(before[-1], width) is not None) and not any(numbers)

    def _have_names(self, line, width):
        """Whether rows below a line begin with a name of their own, or end with nothing."""
        body = [row.cells for row in self.rows if row.line > line and len(row.cells) == width]
        first = [cells[0] for cells in body]
        has_decimals = any("." in cell and _DECIMAL.fullmatch(cell) for cell in first)
        are_names = len({*first}) == len(first) and not has_decimals
        return are_names or not any(cells[-1] for cells in body)

    def _other_header(self, row, width):
        """The cells of a row that is written with another delimiter, if these are `width`."""
        line = self.head.split("\n")[row.line]
        for delimiter in "\t;|,":
            if delimiter != self.delimiter:
                found = [cell for *_, cell in cells_of(line, 0, delimiter)[0]]
                if len(found) == width:
                    return found
        return None

    def _above(self):
        """The header above rows of another width, and the index of its row; (None, `start`)."""
        rows, width, start = self.rows, self.width, self.start
        if start:
            cells = rows[start - 1].cells
            if len(cells) > width and not any(cells[width:]):
                return cells, start - 1
            body = [row.cells for row in rows[start:] if len(row.cells) == width]
            if is_header(body[0], body[1:]):
                return None, start
            if len(cells) == width - 1 and all(cells) and not any(map(_DIGIT_LED.match, cells)):
                trails = not any(row[-1] for row in body)
                # R writes the names of rows without a name of their column.
                return ([*cells, ""] if trails else ["", *cells]), start - 1
            other = self._other_header(rows[start - 1], width)
            if other is not None:
                return other, start - 1
        return None, start

    def _commented(self):
        """The header in a comment just above the first row, if it has as many cells."""
        if not self.comment or not self.rows:
            return None
        line = (self.head.split("\n")[: self.rows[self.start].line] or [""])[-1].strip()
        if not line.startswith(self.comment):
            return None
        line = line.lstrip(self.comment).strip()
        if self.delimiter in " \t":
            cells = line.split()
        else:
            cells = [cell for *_, cell in cells_of(line, 0, self.delimiter)[0]]
        is_header = len(cells) == self.width > 1 and all(cells)
        is_prose = any(cell[-1:] in ",.:;" or _DIGIT_LED.match(cell) for cell in cells)
        return cells if is_header and not is_prose else None

    def header(self, wanted, known):
        """(Names or None, index of the first row of data, notes)."""
        rows, notes = self.rows, []
        names, start = self._above()
        first = self.start
        if not rows:
            return None, 0, notes
        if wanted is False:
            names = None
        elif names is None:
            below = [row.cells for row in rows[first + 1 :] if len(row.cells) == self.width]
            cells = rows[first].cells
            above = None
            if wanted is None:
                above = self._commented()
            if wanted or (wanted is None and is_header(cells, below, known)):
                names, first = cells, first + 1
            elif above is not None:
                names = above
                notes.append(f"the line with {self.comment} above the rows holds the names")
            elif wanted is None and known is None and _may_be_names(cells, below):
                notes.append(
                    f"line {rows[first].line + 1} is read as a row: if {cells[0]}, {cells[1]}, ... "
                    "are names of columns, give --header"
                )
        if names is not None:
            names, first, more = self._second_header(names, first)
            notes += more
        lines = sorted({row.line + 1 for row in rows[:start]})
        if lines:
            several = f"lines {lines[0]} to {lines[-1]} are"
            what = several if len(lines) > 1 else f"line {lines[0]} is"
            notes.insert(0, f"{what} before the table: not read")
        return names, first, notes

    def _second_header(self, names, first):
        rows = self.rows
        below = [row.cells for row in rows[first + 1 :] if len(row.cells) == self.width]
        if first >= len(rows) or len(rows[first].cells) != self.width or len(below) < _FEWEST:
            return names, first, []
        second = rows[first].cells
        if not _is_second_header(second, names, below):
            return names, first, []
        line = rows[first].line + 1
        if any(not name and more for name, more in zip(names, second, strict=False)):
            names = [name or more for name, more in zip(names, second, strict=False)]
            words = f"line {line} is a second header: it names the columns without a name"
        else:
            words = f"line {line} is a second header: not read"
        return names, first + 1, [words]


def _numeric(column):
    """Whether nearly all cells of a column begin like numbers or dates; None if all are missing."""
    filled = [cell for cell in column if cell.lower() not in MISSING]
    if not filled:
        return None
    return sum(map(bool, map(_DIGIT_LED.match, filled))) >= 0.95 * len(filled)


def is_header(cells, below, known=None):
    """Whether a row of cells is a header of the rows below.

    It is one if it has text above numbers. Numbers in it must look like names: whole, different,
    and none of the column's own values. Without numbers it is one unless half of its cells occur
    again in columns of recurring texts.

    >>> below = [["a", "1.5", "7"], ["b", "2.5", "8"], ["a", "0.5", "9"]]
    >>> is_header(["name", "2019", "grade"], below), is_header(["b", "3.5", "6"], below)
    (True, False)
    """
    if known and sum(cell in known for cell in cells) * 2 >= len(known):
        return True
    columns = [list(column) for column in zip(*below, strict=True)]
    numbers = [cell for cell in cells if _DECIMAL.fullmatch(cell) or _DIGIT_LED.fullmatch(cell)]
    if not columns:
        return not numbers and known != []
    # Files that were joined repeat their header, perhaps after a mark of the byte order.
    others = [row for row in below if [row[0].lstrip("\ufeff"), *row[1:]] != cells]
    kinds = [_numeric(column) for column in zip(*(others or below), strict=True)]
    text_above = sum(
        kind is True and cell.lower() not in MISSING and not _DIGIT_LED.match(cell)
        for kind, cell in zip(kinds, cells, strict=True)
    )
    # Columns of texts that recur, and of these the ones in which the first cell recurs.
    common = [
        (cell, column)
        for kind, cell, column in zip(kinds, cells, columns, strict=True)
        if kind is False and len({*column}) <= 0.7 * len(column)
    ]
    again = sum(bool(cell) and cell in column for cell, column in common)
    if _counts(cells, columns):
        return True
    if numbers:
        are_names = all(map(_WHOLE.fullmatch, numbers)) and len({*numbers}) == len(numbers)
        repeated = sum(
            cell in numbers and column.count(cell) > 0.05 * len(column)
            for cell, column in zip(cells, columns, strict=True)
        )
        # Years above decimals, and a name above levels that are others.
        above_decimals = [
            _has_decimals(column)
            for cell, column in zip(cells, columns, strict=True)
            if cell in numbers
        ]
        are_new = len(above_decimals) > 1 and all(above_decimals)
        differs = text_above or (len(common) + are_new > 1 and not again)
        return bool(differs) and are_names and not repeated and len(below) >= _FEWEST
    return bool(text_above) or again < max(1, 0.5 * len(common))


def _may_be_names(cells, below):
    """Whether a row that is read as one may be a header.

    It counts, from 0 or 1 or with no number of it below it, or it has a word above numbers.

    >>> below = [["7", "3", "1"], ["8", "9", "2"], ["5", "4", "3"]]
    >>> rows = ["2020", "2021", "2022"], ["0", "1", "2"], ["-1", "2.5", "y"], ["7", "8", "9"]
    >>> [_may_be_names(row, below) for row in rows]
    [True, True, True, False]
    """
    if len(below) < _FEWEST:
        return False
    columns = [*zip(*below, strict=True)]
    pairs = [*zip(cells, columns, strict=True)]
    if any(cell[:1].isalpha() and cell.lower() not in MISSING and _numeric([*column])
           for cell, column in pairs):  # fmt: skip
        return True
    if len(cells) < 3 or not all(map(_WHOLE.fullmatch, cells)):
        return False
    first = int(cells[0])
    run = [*range(first, first + len(cells))]
    if [*map(int, cells)] != run:
        return False
    if first in (0, 1):
        return cells not in below
    return not any(cell in column for cell, column in pairs)


def _has_decimals(column):
    """Whether most cells of a column have a decimal point."""
    return sum("." in cell for cell in column) > 0.5 * len(column)


def _counts(cells, columns):
    """Whether a row numbers the columns, from 0 or 1, as pandas names them."""
    numbers = [cell for cell in cells if cell]
    is_count = any(numbers == [str(k) for k in range(s, s + len(numbers))] for s in (0, 1))
    has_decimals = any("." in cell for column in columns for cell in column)
    is_new = has_decimals or not cells[0]
    return is_count and is_new and len(numbers) > 2 and len(columns[0]) >= _FEWEST


def _is_second_header(second, names, below):
    """Whether a row below the header holds units or parts of a question, and no data."""
    columns = [list(column) for column in zip(*below, strict=True)]
    found = [*zip(map(_numeric, columns), second, columns, strict=True)]
    above = [cell for kind, cell, _ in found if kind is True and cell.lower() not in MISSING]
    if not above or any(map(_DIGIT_LED.match, above)):
        return False
    n_texts = sum(kind is False for kind, _, _ in found)
    again = sum(kind is False and cell in column for kind, cell, column in found)
    if again * 2 > n_texts:
        return False
    fills = any(not name and cell for name, cell in zip(names, second, strict=False))
    are_units = n_texts == 0 and all(map(_UNIT.fullmatch, above))
    return len(above) > 1 or fills or are_units


def unnamed_columns(names, below, width):
    """Positions of columns without a name and contents; without a header only the last ones."""
    rows = [row for row in below if len(row) == width]
    if not rows:
        return ()
    bare = [
        j for j in range(width)
        if all(not row[j].strip(";,|") for row in rows)
        and (names is None or not names[j].strip(";,|"))
    ]  # fmt: skip
    if names is None:
        while bare and bare[0] != width - len(bare):
            bare = bare[1:]
    return () if len(bare) == width else tuple(bare)


def _titles(rows):
    """How many rows of one text and else empty cells stand above a table."""
    filled = [sum(map(bool, row)) for row in rows]
    start = 0
    while start < len(rows) - 2 and filled[start] <= 1 < max(filled[start:]) - 1:
        if len(rows[start]) < 3 or any(map(_DIGIT_LED.match, rows[start])):
            break
        start += 1
    return start


def _pairs(rows):
    """How many rows of names and values, such as "Station,Berlin,,", stand above a header."""
    filled = [sum(map(bool, row)) for row in rows]
    start = next((k for k, row in enumerate(rows) if len(row) == filled[k] > 3), 0)
    above, below = rows[:start], [row for row in rows[start + 1 :] if len(row) == len(rows[start])]
    if 2 not in filled[:start] or len(below) < _FEWEST or any(any(row[2:]) for row in above):
        return 0
    kinds = [_numeric(column) for column in zip(*below, strict=True)]
    names = rows[start]
    has_numbers = any(kinds) and not any(map(_DIGIT_LED.match, names))
    return start if has_numbers and is_header(names, below) else 0


_GAP = re.compile(rb"\n(?:[ \t,;|]*\n)+")
_ROWS_BEFORE = 50  # an empty line, that show which columns are numbers


def second_table(text, dialect):
    r"""Where whole lines hold another table below empty ones: (their place, that of its header).

    None without one. Its header has another number of cells, or names below the numbers of two and
    more columns: below those of one it may be a row with a bad cell.

    >>> table = Dialect(",", ["a", "b", "c"], 3)
    >>> second_table(b"u,1,1\nv,2,0\nu,3,1\n\nkey,n,k\nx,1,2\n", table)
    (18, 19)
    """
    if dialect.delimiter == " " or not _GAP.search(text):
        return None
    number = re.compile(rb"(?:^|" + re.escape(dialect.mark.encode()) + rb")[ \t\"]*[+-]?[\d.]")
    at, n_quotes, n_looks = 0, 0, 0
    for gap in _GAP.finditer(text):
        n_quotes += text.count(b'"', at, gap.start())
        at, end = gap.span()
        # Most lines below an empty one are rows: a look at them takes its time.
        is_within = n_quotes % 2 or number.search(text[end : text.find(b"\n", end)])
        if is_within or n_looks == _MOST_LOOKS:
            continue
        n_looks += 1
        above = _last_rows(text[max(0, at + 1 - _HEAD_OF_TABLE) : at + 1], dialect)
        heads = decoded(text[end : end + _HEAD_OF_TABLE]).split("\n")[:2]
        heads = _cells_of_lines(heads, dialect)
        if len(heads) == 2 and len(above) >= _FEWEST and _begins_table(heads, above):
            return at + 1, end
    return None


_MOST_LOOKS = 20
_HEAD_OF_TABLE = 1 << 14  # bytes before and after an empty line that are looked at


def _last_rows(text, dialect):
    """The last rows of whole lines, those that have the width of the table."""
    rows = _cells_of_lines(decoded(text).split("\n")[-_ROWS_BEFORE:], dialect)
    return [row for row in rows if len(row) == dialect.width]


def _cells_of_lines(lines, dialect):
    """The cells of lines that are not empty; none if they cannot be read."""
    lines = filter(None, map(str.strip, lines))
    try:
        return [[c.strip() for c in row] for row in csv.reader(lines, delimiter=dialect.mark)]
    except csv.Error:
        return []


def _begins_table(heads, above):
    """Whether the first of two rows is a header that does not belong to the rows above."""
    names, row = heads
    are_names = all(names) and not any(map(_DIGIT_LED.match, names))
    if not are_names or len(names) < 2 or len(row) != len(names):
        return False
    if len(names) != len(above[0]):
        return any(map(_DIGIT_LED.match, row))
    numbers = [_numeric(column) for column in zip(*above, strict=True)]
    named = [cell.lower() not in MISSING for cell, is_number in zip(names, numbers, strict=True)
             if is_number]  # fmt: skip
    return len(named) > 1 and all(named)


# How a row of sums or means begins.
_TOTALS = re.compile(
    rb"(?i)(?:grand |sub)?totals?|sums?|summe|gesamt|insgesamt|totaal|somme|suma"
    rb"|(?:overall )?(?:averages?|avg\.?|means?|medians?)|mittelwert|durchschnitt|moyenne|promedio"
)
_MOST_FOOTERS = 20
_PROSE = re.compile(r"[^\W\d]|[(*©†‡¹²³]")
_NOTE = re.compile(r"(?:\S+\s+){2}\S|\S*[:*©]|\(")  # of a sheet: three words, or a mark
_MARKED = re.compile(r"\S*[:*©]|\(")  # of text, where a name may have three words


def without_footer(text, dialect):
    r"""The last lines of a file with blanks for those below the table, and what these are.

    They are texts below a table of three and more columns, such as its source, without delimiters
    or with nothing between them, and rows of sums or means: with empty cells, or with the sums of
    the rows above.

    >>> table = Dialect(",", ["a", "b", "c"], 3)
    >>> without_footer(b"x,1,2\nTotal,,2\nSource: us\n", table)
    (b'x,1,2\n        \n          \n', ['Total,,2', 'Source: us'])
    """
    mark = dialect.delimiter.encode()
    if dialect.width < 3 or mark == b" ":
        return text, []
    lines, found = text.split(b"\n"), []
    for k in range(len(lines) - 1, max(len(lines) - 2 - _MOST_FOOTERS, -1), -1):
        line = lines[k].strip()
        cells = [line] if re.fullmatch(rb'"[^"]*"', line) else line.strip(b"|").split(mark)
        words = cells[0].strip(b'" ')
        is_text = len(cells) == 1 and _PROSE.match(decoded(words).strip())
        is_sum = _TOTALS.fullmatch(words) and (
            any(not cell.strip() for cell in cells) or _are_sums(line, lines[:k], dialect)
        )
        # Texts with line breaks in them, and a level of that name, are rows.
        if line and not (is_text or is_sum or _is_padded_note(line, lines, mark)):
            break
        if is_sum and len(re.findall(rb"(?im)^\W*" + re.escape(words), text)) > 1:
            break
        if line:
            found.append(decoded(line))
            lines[k] = b" " * len(lines[k])
    if not found or (text.count(b'"') % 2 and b'"' in b"".join(line.encode() for line in found)):
        return text, []
    return b"\n".join(lines), found[::-1]


def _is_padded_note(line, lines, mark):
    """Whether a line is a marked text and else empty cells, and no other one begins like a note."""
    words = line.rstrip(mark + b" \t")
    is_alone = words != line and (mark not in words or re.fullmatch(rb'"[^"]*"', words))
    if not is_alone or not _is_marked(words):
        return False
    others = (other for other in lines[: -_MOST_FOOTERS - 1] if other)
    return not any(_is_marked(other.partition(mark)[0]) for other in others)


def _is_marked(words):
    return _MARKED.match(decoded(words).strip('" ')) is not None


def _are_sums(line, lines, dialect):
    """Whether the cells of a row are sums or means of the columns in the lines above."""
    texts = (decoded(text).rstrip() for text in [*lines, line])
    try:
        found = [*csv.reader(texts, delimiter=dialect.delimiter)]
    except csv.Error:  # of cells that are very long
        return False
    rows = [
        [with_point(cell) if j in dialect.commas else cell for j, cell in enumerate(cells)]
        for cells in found
    ]
    last = rows[-1]
    return are_sums(last, [row for row in rows[:-1] if len(row) == len(last)])


def are_sums(last, rows):
    """Whether a row of texts holds sums or means of columns: of most that have numbers, and of one.

    >>> are_sums(["Total", "6", "0.75"], [["u", "1", "0.5"], ["v", "2", "-1"], ["u", "3", "1.25"]])
    True
    """
    rows = [row for row in rows if not _TOTALS.fullmatch(row[0].encode())]
    if len(rows) < _FEWEST:
        return False
    matches = []
    for cell, column in zip(last[1:], [*zip(*rows, strict=True)][1:], strict=True):
        numbers = [float(c) for c in column if _NUMBER.fullmatch(c)]
        if _NUMBER.fullmatch(cell) and len(numbers) >= 0.8 * len(column):
            total, digits = math.fsum(numbers), len(cell.partition(".")[2])
            near = 0.51 * 10.0**-digits + 1e-9 * abs(total)
            wanted = total, total / len(numbers)
            matches.append(any(abs(float(cell) - value) <= near for value in wanted))
    return sum(matches) > 0.5 * len(matches)


_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def first_total(text, dialect):
    """How many lines begin with a cell such as "Total", and the place of the first, from 0."""
    lower = text.lower()
    if not any(word in lower for word in _SURE_TOTALS):  # which takes less than the pattern
        return 0, -1
    mark = re.escape(dialect.mark.encode())
    pattern = rb'(?m)^[ \t]*"?(?:' + b"|".join(_SURE_TOTALS) + rb')s?"?[ \t]*' + mark
    found = [m.start() for m in re.finditer(pattern, lower)]
    return len(found), found[0] if found else -1


_SURE_TOTALS = (b"grand total", b"subtotal", b"total", b"sum", b"summe", b"gesamt", b"insgesamt")


def footers(rows, texts, are_sums_of=lambda row: False):
    """How many rows at the end of a sheet of three and more columns are none of its table.

    They are rows of sums or means with empty cells, or for which `are_sums_of` is true, and notes
    in the first cell. `texts` are the first cells of all rows.
    """
    for n, row in enumerate(reversed(rows[-_MOST_FOOTERS:])):
        words = row[0]
        is_alone = sum(map(bool, row)) == 1
        is_note = is_alone and _PROSE.match(words) and _NOTE.match(words)
        is_sum = _TOTALS.fullmatch(words.encode()) and (not all(row) or are_sums_of(row))
        if len(row) < 3 or texts.count(words) > 1 or not (is_note or is_sum):
            return n
    return min(len(rows), _MOST_FOOTERS)


def header_of(rows, header=None, known=None):
    """The header of a sheet: (names or None, index of the first row of data, notes).

    Rows of one cell above the table are titles.
    """
    start = _titles(rows)
    start += _pairs(rows[start:])
    table = _TableHead("", ",", "", [_Row(line, row) for line, row in enumerate(rows)][start:])
    names, first, notes = table.header(header, known)
    if start:
        notes.insert(0, f"the first {start} rows are above the table: not read")
    return names, first + start, notes


def distinct_names(names):
    """Names without repetitions, as pandas writes them, and a note on each change.

    >>> distinct_names(["x", "y", "x", ""])[0]
    ['x', 'y', 'x.1', 'column 4']
    """
    names = [name or f"column {j + 1}" for j, name in enumerate(names)]
    taken, seen, out, notes = {*names}, Counter(), [], []
    for name in names:
        new, number = name, seen[name]
        seen[name] += 1
        while number and new in taken:
            new, number = f"{name}.{number}", number + 1
        taken.add(new)
        out.append(new)
    for name, count in Counter(names).items():
        if count > 1:
            new = [after for before, after in zip(names, out, strict=True) if before == name]
            notes.append(f"{count} columns have the name {name!r}: they are {listed(new)}")
    return out, notes
