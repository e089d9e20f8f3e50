r"""Files: formats, bytes, lines, errors with their position, and atomic writing.

For libsvm and csv, read at once or as a stream, a line ends with a newline (or with the file), and
blanks are spaces and tabs. Carriage returns, vertical tabs and form feeds count as spaces
everywhere; so ``\r\n`` ends a line, too, and ``\r`` alone does so only in a file that has two of
them before its first newline. Text in UTF-16, with or without a mark, is read as UTF-8, and lines
that are not UTF-8 as Windows-1252.
"""

import bz2
import codecs
import contextlib
import hashlib
import io
import itertools
import json
import lzma
import mmap
import os
import re
import sys
import tempfile
import zipfile
import zlib
from functools import partial
from typing import Any

from tunefree.core.format import listed, words_on_address
from tunefree.core.progress import task
from tunefree.core.warn import DataWarning, NoEffect, warn

CHUNK = 1 << 21
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BZIP2, _ZIP, _XZ = b"BZh", b"PK\x03\x04", b"\xfd7zX"
PACKED = (_GZIP, _ZSTD, _BZIP2, _ZIP, _XZ)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
_SAMPLE = 4096
_LONGEST_HEAD = 1 << 16  # bytes in which the end of the first line is looked for
_OTHER_BLANKS = b"\r\v\f\0\x1a"  # the last one ends files of DOS
_AS_SPACES = bytes.maketrans(_OTHER_BLANKS, b"     ")
_SEPARATOR = re.compile(rb"(?i:sep=)[,;|\t][ \t]*(?=\n)")  # first line of Excel files


FORMATS = {
    "libsvm": "libsvm",
    "svm": "libsvm",
    "svmlight": "libsvm",
    "csv": "csv",
    "tsv": "csv",
    "parquet": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "orc": "orc",
    "npy": "npy",
    "npz": "npz",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "excel": "excel",
    "xlsx": "excel",
    "xlsm": "excel",
    "xlsb": "excel",
    "xls": "excel",
    "ods": "excel",
    "arff": "arff",
    "stata": "stata",
    "dta": "stata",
    "spss": "spss",
    "sav": "spss",
    "zsav": "spss",
    "por": "spss",
    "sas": "sas",
    "sas7bdat": "sas",
    "xpt": "sas",
}
# How files begin that are no text, and their formats.
_FIRST_BYTES = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"ORC": "orc",
    b"\x93NUMPY": "npy",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "excel",
    b"$FL2": "spss",
    b"$FL3": "spss",
    b"<stata_dta>": "stata",
    b"HEADER RECORD*******": "sas",
    b"\0" * 12 + b"\xc2\xea\x81\x60": "sas",
}
# Those that are not read: what they are, and the way out.
_FOREIGN = {
    b"%PDF": ("a PDF document", "save its table as csv"),
    b"\x89PNG": ("an image (PNG)", "give a table"),
    b"\xff\xd8\xff": ("an image (JPEG)", "give a table"),
    b"GIF8": ("an image (GIF)", "give a table"),
    b"SQLite format 3\0": ("an SQLite database", "export a table as csv"),
    b"\x89HDF": ("an HDF5 file", "write a table of it as parquet or csv"),
    b"Obj\x01": ("an Avro file", "write it as parquet or csv"),
    b"RDX": ("a file of R", "write its table as csv"),
    b"RDA": ("a file of R", "write its table as csv"),
    b"X\n\0\0\0": ("a file of R (RDS)", "write its table as csv, by write.csv"),
    b"A\n2\n": ("a file of R (RDS)", "write its table as csv, by write.csv"),
    b"A\n3\n": ("a file of R (RDS)", "write its table as csv, by write.csv"),
    b"7z\xbc\xaf": ("a 7z archive", "unpack it"),
    b"Rar!": ("a rar archive", "unpack it"),
    b"\x7fELF": ("a program", "give a table"),
    b"version https://git-lfs": ("a pointer of Git LFS", "fetch the file itself, by git lfs pull"),
    b"{\\rtf": ("a text document (RTF)", "save its table as csv"),
}
_OLD_STATA = (b"\x6e", b"\x6f", b"\x71", b"\x72", b"\x73")  # then: byte order, a one
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_DOCUMENTS = {
    "word/document.xml": ("a Word document", "save its table as csv"),
    "ppt/presentation.xml": ("a presentation", "save its table as csv"),
}
# Texts about a table, beside it in an archive.
_ABOUT = re.compile(r"(?:readme|licen[cs]e|citation|changelog)\b|.*\.(?:md|pdf|html?)$")
_PACKED_NAMES = (".gz", ".zst", ".bz2", ".zip", ".xz")
# A label, index:value pairs, or both; a line of csv holds a delimiter.
_LIBSVM_LINE = re.compile(rb"\s*([^\s,;:]+(?!\S))?(\s*(qid|\d+):[^\s,;:]+(?!\S))*\s*(#.*)?\n?")
_PAIR = re.compile(rb"(qid|\d+):[^\s,;:]+")
_LABEL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DELIMITER = re.compile(rb"[,;|\t]")
# Of Vowpal Wabbit: a label with a weight and a tag, then a bar, a namespace, and features.
_WABBIT_LINE = re.compile(
    rb"(?:[+-]?[\d.][\d.:e+-]*[ \t]+)*[^\s|,;]*[|][^\s|]*(?:[ \t]+[^\s|,;]+|[ \t]+[|][^\s|]*)*"
)
_WABBIT_FEATURE = re.compile(rb"\s[A-Za-z_][^\s:|]*:[+-]?[\d.]")
_FEW_LINES = 20
# A line that is neither blank nor a comment.
_CONTENT = re.compile(rb"(?m)^[^\S\n]*(?!#|%|//)\S[^\n]*\n")


class DataError(ValueError):
    """A data file that cannot be read, with the position of the error.

    Attributes
    ----------
    message : str
        The error.
    path : str or None
        The file, or None for data that are not from a file.
    line, column : int or None
        The position, from 1; a column counts characters.
    feature : bool
        Whether a feature is not a number, which some learners would accept.
    row : bool
        Whether one row is malformed, and could be skipped.
    hint : str or None
        Advice that follows the message.

    Examples
    --------
    >>> from tunefree.files import DataError
    >>> print(DataError("not a number: 'abc'", "train.csv", 3, 7))
    train.csv:3:7: not a number: 'abc'
    """

    at: int  # of a `fault`: its position in the current text

    def __init__(
        self,
        message: str,
        path: str | None = None,
        line: Any = None,
        column: Any = None,
        *,
        feature: bool = False,
        row: bool = False,
        hint: str | None = None,
    ):
        super().__init__(message, path, line, column)
        self.message, self.path, self.line, self.column = message, path, line, column
        self.feature, self.row, self.hint = feature, row, hint

    def __str__(self):
        position = [str(part) for part in (self.path, self.line, self.column) if part is not None]
        words = self.message if self.hint is None else f"{self.message} ({self.hint})"
        return ": ".join([":".join(position), words] if position else [words])


# A file of which more rows are skipped is probably read in a wrong way.
_MOST_SKIPPED = 0.2


class Skipped:
    """Rows that are skipped: malformed ones, and those without a target.

    Parameters
    ----------
    malformed : bool
        Whether malformed rows are skipped; otherwise they are errors.
    unlabelled : bool
        Whether rows without a target are skipped; otherwise they are read like others.

    Attributes
    ----------
    count, n_unlabelled : int
        How many malformed rows there are, and how many without a target.
    first, first_unlabelled : DataError or None
        The first of each.
    """

    def __init__(self, malformed=True, unlabelled=True):
        self.malformed, self.unlabelled = malformed, unlabelled
        self.count, self.n_unlabelled = 0, 0
        self.first: Any = None
        self.first_unlabelled: Any = None
        self.has_warned = False

    def add(self, error, count=1):
        """Count a malformed row, or several."""
        self.count += count
        self.first = self.first or error

    def note(self, error):
        """Remember a row without a target, if it is the first."""
        self.first_unlabelled = self.first_unlabelled or error

    def join(self, other):
        """Add the rows of another reading."""
        self.add(other.first, other.count)
        self.note(other.first_unlabelled)
        self.n_unlabelled += other.n_unlabelled
        self.has_warned |= other.has_warned

    def check(self, rows, path):
        """Raise an error if more than a fifth of the rows were skipped; `rows` were not."""
        n = self.count + self.n_unlabelled
        if n <= _MOST_SKIPPED * (rows + n):
            return
        reasons = [
            (self.n_unlabelled, "without a target", self.first_unlabelled),
            (self.count, "malformed", self.first),
        ]
        words = [f"{k} {why} (the first: {first})" for k, why, first in reasons if k]
        raise DataError(
            f"{n} of {rows + n} rows cannot be learned: {' and '.join(words)}",
            path,
            hint="is another column the target? otherwise remove these rows from the data",
        )

    def warn(self):
        """Warn of rows without a target, once, if there are any."""
        if self.n_unlabelled and not self.has_warned:
            self.has_warned = True
            rows = "1 row" if self.n_unlabelled == 1 else f"{self.n_unlabelled} rows"
            first = f", the first: {self.first_unlabelled}" if self.first_unlabelled else ""
            warn(f"skipped {rows} without a target{first}", DataWarning)


def skip(error, skipped, count=1):
    """Count malformed rows, or raise their error if they are not skipped."""
    if skipped is None or not skipped.malformed:
        raise error
    skipped.add(error, count)


def fault(message, path, text, at, first_line):
    """A `DataError` for the byte `at` of whole lines; `first_line` is the number of the first."""
    start = text.rfind(b"\n", 0, at) + 1
    line = first_line + text.count(b"\n", 0, at)
    error = DataError(message, path, line, len(decoded(text[start:at])) + 1)
    error.at = at
    return error


def sound_parts(text, line, after, parse, skipped):
    r"""Parse whole lines, without malformed ones if `skipped` counts them.

    The text, the number of its first line and the place after it are those of `placed_lines`.
    `parse` takes a text and the number of its first line, and raises errors of `fault`. Yields its
    results, each with the place after it.

    >>> def parse(text, line):
    ...     if b"x" in text:
    ...         raise fault("an x", "file", text, text.index(b"x"), line)
    ...     return text
    >>> skipped = Skipped()
    >>> list(sound_parts(b"a\nb\nx\nc\n", 1, (8, 5), parse, skipped)), str(skipped.first)
    ([(b'a\nb\n', (6, 4)), (b'c\n', (8, 5))], 'file:3:1: an x')
    """
    while text:
        try:
            block = parse(text, line)
        except DataError as error:
            error.row = True
            start, stop = text.rfind(b"\n", 0, error.at) + 1, text.index(b"\n", error.at) + 1
            place = after[0] - len(text)
            if skipped is None or not skipped.malformed:
                if start:  # reading continues before the error
                    yield parse(text[:start], line), (place + start, error.line)
                raise
            skipped.add(error)
            if start:  # valid lines before the error
                yield parse(text[:start], line), (place + stop, error.line + 1)
            text, line = text[stop:], error.line + 1
        else:
            yield block, after
            return


def excerpt(text, at, stops):
    """Quote the word that starts at byte `at` and ends before any of the bytes `stops`."""
    end = at
    while end < min(len(text), at + 200) and text[end] != 10 and text[end] not in stops:
        end += 1
    return shown(decoded(text[at:end]))


def shown(word):
    """A cell in quotes, cut to 40 characters."""
    word = word.strip()
    return repr(word if len(word) <= 40 else word[:37] + "...")


def decoded(text):
    r"""Decode UTF-8, or else Windows-1252.

    Where enough lines are UTF-8, the others alone are Windows-1252.

    >>> decoded("é\nö\n".encode() + b"\xe9\n"), decoded(b"\xe9\n\x8d")
    ('é\nö\né\n', 'é\n\x8d')
    """
    try:
        return text.decode()
    except UnicodeDecodeError:
        lines = bytes(text).split(b"\n")
        others = _not_utf8(lines)
    if not _are_few(others, lines):
        return text.decode("cp1252", errors=_GAPS)
    errors = {k: lines[k].decode("cp1252", errors=_GAPS) for k in others}
    return "\n".join(errors[k] if k in errors else line.decode() for k, line in enumerate(lines))


def _not_utf8(lines):
    """The places of lines that are not UTF-8."""
    found = []
    for k, line in enumerate(lines):
        try:
            line.decode()
        except UnicodeDecodeError:
            found.append(k)
    return found


def _are_few(others, lines):
    """Whether enough of the lines with letters beyond ASCII are UTF-8.

    Few lines in other encodings are UTF-8, too, by chance.
    """
    return len(others) < _MOST_OTHERS * sum(not line.isascii() for line in lines)


_MOST_OTHERS = 0.75
_GAPS = "tunefree gaps of Windows-1252"


# Five bytes have no letter there: they keep their number, so that texts that differ do so still.
def _of_gap(found: Any):
    return chr(found.object[found.start]), found.start + 1


codecs.register_error(_GAPS, _of_gap)


def encoding_of(head):
    r"""The encoding of text by its first bytes: "utf-16-le", "utf-16-be", "utf-32" or "utf-8".

    >>> encoding_of("a,b\n".encode("utf-16-le")), encoding_of(b"a,b\n")
    ('utf-16-le', 'utf-8')
    """
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    for mark, name in zip(UTF16, ("utf-16-le", "utf-16-be"), strict=True):
        if head.startswith(mark):
            return name
    # Half of the bytes of text in UTF-16 without a mark are zero, if its letters are Latin ones.
    even, odd = head[:_SAMPLE:2], head[1:_SAMPLE:2]
    for zeros, others, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        is_half = zeros.count(0) > 0.4 * len(zeros) and not others.count(0)
        if is_half and len(zeros) > 1:
            return name
    return "utf-8"


def _ends_with_returns(head):
    r"""Whether carriage returns end the lines, by the first bytes.

    A file of such lines may end with a newline, or have some further down: what counts are two
    returns or more, outside of quotes, before the first one.

    >>> _ends_with_returns(b"a,b\r1,2\r3,4\n"), _ends_with_returns(b"a,b\r\n1,2\r\n")
    (True, False)
    """
    first_line, newline, _ = head.partition(b"\n")
    outside_quotes = b"".join(first_line.rstrip(b"\r").split(b'"')[::2])
    return outside_quotes.count(b"\r") > 1 if newline else b"\r" in head


def _with_newlines(piece):
    return piece.replace(b"\r", b"\n")


def _headed(pieces):
    """The first bytes, up to a line's end if it comes soon, and all pieces."""
    held, head = [], b""
    for piece in pieces:
        held.append(piece)
        head += piece[:_LONGEST_HEAD]
        if b"\n" in head or len(head) >= _LONGEST_HEAD:
            break
    return head[:_LONGEST_HEAD], itertools.chain(held, pieces)


def _in_utf8(pieces):
    """Text in UTF-8 whose lines end with newlines."""
    head, pieces = _headed(iter(pieces))
    encoding = encoding_of(head)
    if encoding != "utf-8":
        found = codecs.getincrementaldecoder(encoding)(errors="replace")
        texts = itertools.chain(map(found.decode, pieces), (found.decode(b"", True) for _ in "1"))
        head, pieces = _headed(text.encode() for text in texts if text)
    if _ends_with_returns(head):
        pieces = map(_with_newlines, pieces)
    yield from pieces


def name_of(source):
    """The name of a source in messages.

    >>> name_of("-")
    '<stdin>'
    """
    if isinstance(source, (str, os.PathLike)):
        return "<stdin>" if os.fspath(source) == "-" else os.fspath(source)
    return str(getattr(source, "name", "<stream>"))


class Named:
    """Pieces of text with the name of their file."""

    def __init__(self, name, pieces):
        self.name, self.pieces = name, pieces

    def __iter__(self):
        return iter(self.pieces)


def format_of(path):
    """The format that the suffix stands for, or None.

    >>> format_of("a.CSV.gz"), format_of("b.npz"), format_of("c")
    ('csv', 'npz', None)
    """
    stem = path
    while stem.lower().endswith(_PACKED_NAMES):
        stem = os.path.splitext(stem)[0]
    return FORMATS.get(os.path.splitext(stem)[1].lower().lstrip("."))


def detected(source, format):
    """The format as given, from the name or from the first line, and the source, unread."""
    path = name_of(source)
    if isinstance(source, str) and (words := words_on_address(source)) is not None:
        raise DataError(words, path)
    kind = binary_kind(source, path)
    if kind is not None:
        return FORMATS[format] if format else kind, source
    format = format or format_of(path)
    if format is not None:
        return FORMATS[format], source
    pieces = chunks(source)
    kind, head = sniff_text(pieces)
    if kind == "csv" and _is_wabbit(head):
        words = "this is text for Vowpal Wabbit, not a table: write it as csv, libsvm or JSON lines"
        raise DataError(words, path)
    for first, what in _FIRST_BYTES.items():
        if head.startswith(first):
            raise DataError(f"{what} data must come from a file, not through a pipe", path)
    return kind, Named(path, itertools.chain([head], pieces))


# Options that some formats alone have: their formats, and what these are in words.
_ONLY_FOR: Any = {
    "sheet": (("excel",), "workbooks"),
    "delimiter": (("csv",), "csv"),
    "header": (("csv", "excel"), "csv and workbooks"),
}
# Formats without named columns: options that choose one would change nothing.
_WITHOUT_COLUMNS = ("libsvm", "npz")
_OF_COLUMNS = ("target", "weight_column", "drop")


def check_options(kind, path, options):
    """Refuse options that have no effect on a format, which else would be ignored.

    >>> check_options("libsvm", "a.svm", {"target": False, "header": None, "drop": ()})
    >>> check_options("jsonl", "a.jsonl", {"delimiter": ";"})
    Traceback (most recent call last):
        ...
    tunefree.core.warn.NoEffect: delimiter= is for csv, but a.jsonl is jsonl
    """
    for option, value in options.items():
        kinds, what = _ONLY_FOR.get(option, (None, None))
        if kinds is not None and value is not None and kind not in kinds:
            raise NoEffect(option, f"is for {what}, but {path} is {kind}")
        if option in _OF_COLUMNS and kind in _WITHOUT_COLUMNS and _is_chosen(value):
            raise NoEffect(option, f"is for csv and other tables, but {path} is {kind}")


def _is_chosen(value):
    """Whether columns are chosen by name or position; a `Column` may be absent."""
    columns = (
        [value] if hasattr(value, "_fields") or not isinstance(value, (list, tuple)) else value
    )
    return any(isinstance(c, (str, int)) and not isinstance(c, bool) for c in columns)


def _is_wabbit(head):
    r"""Whether lines are a label, a bar, and features as ``name:value``.

    >>> _is_wabbit(b"1 |house size:2.5 red\n-1 |house size:3\n"), _is_wabbit(b"1|size:2\n")
    (True, False)
    """
    lines = [found[0].strip() for found in _CONTENT.finditer(head + b"\n")][:_FEW_LINES]
    features = (b" ".join(line.split(b"|")[1:]) for line in lines)
    return all(map(_WABBIT_LINE.fullmatch, lines)) and any(map(_WABBIT_FEATURE.search, features))


def binary_kind(source, path):
    """The format of a file that is no text, by its first bytes; None for text.

    One that cannot be read is a `DataError` that names what it is.
    """
    if not isinstance(source, (str, os.PathLike)) or not os.path.isfile(source):
        return None
    with open(source, "rb") as file:
        head = file.read(512)
    is_packed = head.startswith(PACKED) and not head.startswith(_ZIP)
    if is_packed:
        head = b""
        with contextlib.suppress(DataError):
            for piece in raw_chunks(source, 512):
                head += piece
                if len(head) >= 512:
                    break
    if head.startswith(_ZIP):
        return _kind_of_archive(source, path, is_packed)
    for first, kind in _FIRST_BYTES.items():
        if head.startswith(first):
            return kind
    if head[:1] in _OLD_STATA and head[1:3] in (b"\x01\x01", b"\x02\x01"):
        return "stata"
    for first, (what, way_out) in _FOREIGN.items():
        if head.startswith(first):
            raise DataError(f"this is {what}, not a table: {way_out}", path)
    if head.lstrip(b"\xef\xbb\xbf \r\n\t")[:14].lower().startswith((b"<!doctype html", b"<html")):
        raise DataError("this is a web page (HTML), not a table: save its table as csv", path)
    if head[257:262] == b"ustar":
        raise DataError("this is a tar archive, not a table: unpack it", path)
    if _PICKLE.match(head):
        raise DataError("this is a pickle, which is never opened: save it as parquet or csv", path)
    return None


def _kind_of_archive(source, path, is_packed):
    """The format of a zip archive: a workbook, arrays, ...; None if it may hold text."""
    try:
        with zipfile.ZipFile(io.BytesIO(unpacked(source)) if is_packed else source) as archive:
            names = _members(archive)
            mimetype = archive.read("mimetype") if "mimetype" in names else b""
    except (zipfile.BadZipFile, OSError):
        return None  # its reader has the words
    if "xl/workbook.xml" in names or "xl/workbook.bin" in names or b"spreadsheet" in mimetype:
        return "excel"
    if names and all(name.endswith(".npy") for name in names):
        return "npz"
    what = next((words for name, words in _DOCUMENTS.items() if name in names), None)
    if what is None and b"opendocument" in mimetype:
        what = "a document", "save its table as csv"
    if what is not None:
        raise DataError(f"this is {what[0]}, not a table: {what[1]}", path)
    inner = format_of(names[0]) if len(names) == 1 else None
    return inner if inner in ("excel", "spss", "stata", "sas", "parquet", "arrow", "orc") else None


def _members(archive):
    """The names of the files of a zip archive: of tables, where texts about them are beside."""
    names = [
        name for name in archive.namelist()
        if name[-1] != "/" and not name.startswith("__MACOSX")
        and not os.path.basename(name).startswith(".")
    ]  # fmt: skip
    tables = [name for name in names if not _ABOUT.match(os.path.basename(name).lower())]
    return tables or names


def unpacked(source):
    """The bytes of a file that is no text, unpacked; a workbook, which is an archive, stays."""
    path = name_of(source)
    if not isinstance(source, (str, os.PathLike)) or path == "<stdin>":
        raise DataError("data that are no text must come from a file", path)
    with open(source, "rb") as file:
        head = file.read(4)
        if not head.startswith(PACKED):
            return head + file.read()
        if head.startswith(_ZIP):
            content = head + file.read()
            return _only_member(content)
    content = b"".join(raw_chunks(source))
    return _only_member(content) if content.startswith(_ZIP) else content


def _only_member(content):
    """The only file in an archive, or the archive if it has more, as a workbook has."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = _members(archive)
            return archive.read(names[0]) if len(names) == 1 else content
    except zipfile.BadZipFile:
        return content


def sniff_text(pieces):
    """Detect the format of text from its first lines; also returns the text read so far."""
    head, first = b"", None
    for piece in pieces:
        head += piece
        first = _CONTENT.search(head)
        if first is not None and (_decided(first[0]) or len(head) >= _LONGEST_HEAD):
            break
    first = _CONTENT.search(head + b"\n")
    line = first[0].strip() if first else b""
    found = _decided(line)
    if found is None:  # a word, or prose: the lines below decide
        lines = [found[0].strip() for found in _CONTENT.finditer(head + b"\n")]
        is_labels = all(_LABEL.fullmatch(line) for line in lines)
        below = next(filter(None, map(_decided, lines[1:])), "csv")
        found = "libsvm" if is_labels or below == "libsvm" else "csv"
    return found, head


def _decided(line):
    """The format that a line shows, or None."""
    line = line.strip()
    if line[:1] in (b"{", b"["):
        return "jsonl"
    if line.lower().startswith((b"@relation", b"@attribute")):
        return "arff"
    words = line.split()
    has_pairs = any(map(_PAIR.fullmatch, words))
    if has_pairs and _LIBSVM_LINE.fullmatch(line):
        return "libsvm"
    if _DELIMITER.search(line):
        return "csv"
    if has_pairs:
        is_row = _LABEL.fullmatch(words[0]) and _PAIR.fullmatch(words[-1])
        return "libsvm" if is_row else "csv"
    return "csv" if len(words) > 1 and all(word[:1] in b"+-.0123456789" for word in words) else None


def chunks(source, size=None, start=0):
    """The bytes of a source, decompressed, in pieces of at most `size` (2 MiB), never empty.

    A source is a path, ``"-"`` for standard input, an open binary file, which stays open, or pieces
    of plain text, which are passed on unchanged. Compression is detected from the first bytes, not
    from the name. Truncated or damaged compressed data are a `DataError`, and so is a regular file
    that ends before the size it had when it was opened. The first `start` bytes of the content are
    skipped; in a plain file they are not read.

    >>> list(chunks(io.BytesIO(b"1 3:1 4:2"), size=5))
    [b'1 3:1', b' 4:2']
    """
    yield from _chunks(source, size, start, _in_utf8)


def raw_chunks(source, size=None):
    """The bytes of a source, decompressed, whatever they are."""
    yield from _chunks(source, size, 0, iter)


def _chunks(source, size, start, change: Any):
    path, size = name_of(source), size or CHUNK
    is_path = isinstance(source, (str, os.PathLike))
    if not is_path and not hasattr(source, "read"):
        yield from _from_byte(change(source), start)
        return
    is_file, opened = False, contextlib.nullcontext[Any](source)
    if is_path and os.fspath(source) == "-":
        opened = contextlib.nullcontext(sys.stdin.buffer)
    elif is_path:
        is_file, opened = os.path.isfile(source), open(source, "rb", buffering=0)
    with opened as stream:
        take: Any = getattr(stream, "read1", stream.read)  # what a pipe has now, without waiting
        head = piece = take(size)
        # A pipe may give less than requested; a whole line is not compressed.
        while piece and len(head) < len(_ZSTD) and not head.endswith(b"\n"):
            piece = take(size)
            head += piece
        kind, before = next(filter(head.startswith, PACKED), None), 0
        if is_file and start and kind is None:
            stream.seek(0)
            head = stream.read(_LONGEST_HEAD)
            if encoding_of(head) == "utf-8":  # then the bytes before need not be read
                stream.seek(start)
                returns = _ends_with_returns(head)
                change = partial(map, _with_newlines) if returns else iter
                head, before, start = b"", start, 0
        pieces = itertools.chain([head], iter(lambda: take(size), b""))
        if is_file:
            pieces = _whole_file(pieces, stream, before, path, kind is None)
        if kind == _ZIP:
            pieces = _unzip(pieces, size, path)
        elif kind is not None:
            found = _unpacked(pieces, kind, path)
            pieces = (p[i : i + size] for p in found for i in range(0, len(p), size))
        yield from _from_byte(change(filter(None, pieces)), start)


def _whole_file(pieces, stream, read, path, is_plain):
    """Pass on the pieces of a file; an error if it ends before the size it had at the start."""
    size = os.fstat(stream.fileno()).st_size
    if read > size + 1:  # 1: a newline may have been added to the last line
        raise DataError(f"the file has {size} bytes, but reading must continue at {read}", path)
    with task(f"reading {path}", "rows" if is_plain else "bytes") as own:
        rows = 0
        for piece in pieces:
            read += len(piece)
            if own.is_shown:
                rows += piece.count(b"\n")
                own.at(rows if is_plain else read, read / max(size, 1))
            yield piece
    if read < size:
        raise DataError(f"the file shrank while it was read: {read} of {size} bytes", path)


def _from_byte(pieces, start):
    for piece in pieces:
        if start < len(piece):
            yield piece[start:]
        start = max(0, start - len(piece))


def _unpacked(pieces, kind, path):
    """Decompressed pieces; several archives may follow each other, with zeros between them."""
    import zstandard

    makers: Any = {
        _GZIP: ("gzip", lambda: zlib.decompressobj(31)),
        _ZSTD: ("zstd", lambda: zstandard.ZstdDecompressor().decompressobj()),
        _BZIP2: ("bzip2", bz2.BZ2Decompressor),
        _XZ: ("xz", lzma.LZMADecompressor),
    }
    name, opened = makers[kind]
    unpacked = opened()
    try:
        for piece in pieces:
            while piece := piece.lstrip(b"\0") if unpacked.eof else piece:
                unpacked = opened() if unpacked.eof else unpacked
                yield unpacked.decompress(piece)
                piece = unpacked.unused_data
    except (zlib.error, zstandard.ZstdError, lzma.LZMAError, EOFError, OSError) as problem:
        raise DataError(f"the {name} data are damaged ({problem})", path) from None
    if not unpacked.eof:
        raise DataError(f"the {name} data end too early: the file is truncated", path)


def _unzip(pieces, size, path):
    """The only file of an archive, all in memory: the contents are listed at its end."""
    try:
        with zipfile.ZipFile(io.BytesIO(b"".join(pieces))) as archive:
            names = _members(archive)
            if "xl/workbook.xml" in names:
                raise DataError("this is a workbook: give it as a file, or save it as csv", path)
            if len(names) != 1:
                several = f": {listed([*map(repr, names)])}" if names else ""
                words = f"the archive must hold one file, and holds {len(names)}{several}"
                hint = "unpack it, and give one of them" if names else None
                raise DataError(words, path, hint=hint)
            with archive.open(names[0]) as stream:
                yield from iter(lambda: stream.read(size), b"")
    except (zipfile.BadZipFile, EOFError, zlib.error, RuntimeError, NotImplementedError) as problem:
        raise DataError(f"the zip archive cannot be read ({problem})", path) from None


def forget(pages):
    """Release the memory of a mapped file; pages that are used again are read again.

    Systems without this advice release the memory when they need it.
    """
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def mapped(path):
    """The bytes of a file, mapped: they may be larger than memory."""
    with open(path, "rb") as file:
        empty = os.fstat(file.fileno()).st_size == 0  # empty files cannot be mapped
        return b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def fingerprint(path, stop=None):
    """A digest of 16 blocks of a regular file, evenly spread over its first `stop` bytes.

    For a compressed file, where `stop` counts bytes of the content, only the first 4096 are used.
    """
    digest, size = hashlib.sha256(), os.path.getsize(path)
    with open(path, "rb") as file:
        packed = file.read(len(_ZSTD)).startswith(PACKED)
        stop = size if stop is None else min(_SAMPLE if packed else stop, size)
        digest.update(b"%d" % stop)
        for k in range(16):
            start = max(0, stop - _SAMPLE) * k // 15
            file.seek(start)
            digest.update(file.read(min(_SAMPLE, stop - start)))
    return digest.hexdigest()


def plain(text):
    r"""Text whose only blanks are spaces and tabs.

    >>> plain(b"1,2\r\n\f3,4\n")
    b'1,2 \n 3,4\n'
    """
    return text.translate(_AS_SPACES) if any(b in text for b in _OTHER_BLANKS) else text


def _unmarked(text):
    found = _SEPARATOR.match(text)
    return text if found is None else b" " * found.end() + text[found.end() :]


def whole_lines(pieces):
    r"""Regroup pieces of text so that each ends with a line, and that in a newline.

    A line longer than a piece is collected until it ends, in time linear in its length. A byte
    order mark at the start is dropped, and the line ``sep=;`` of Excel becomes blanks.

    >>> list(whole_lines([b"a", b"b", b"c\r\nd"]))
    [b'abc \n', b'd\n']
    """
    rest, first, start = [], True, True
    for piece in pieces:
        rest.append(piece)
        if first and sum(map(len, rest)) >= len(_BYTE_ORDER_MARK):
            rest, first = [b"".join(rest).removeprefix(_BYTE_ORDER_MARK)], False
        last = rest[-1].rfind(b"\n") + 1
        if last and not first:
            piece = rest.pop()
            text = plain(b"".join([*rest, piece[:last]]))
            yield _unmarked(text) if start else text
            start = False
            rest = [piece[last:]] if last < len(piece) else []
    text = plain(b"".join(rest))
    if text:
        yield text if text.endswith(b"\n") else text + b"\n"


def numbered_lines(source):
    """Whole lines in UTF-8, each text with the number of its first line."""
    line, has_warned = 1, False
    for text in whole_lines(chunks(source)):
        try:
            if not text.isascii():
                text.decode()
        except UnicodeDecodeError:
            if not has_warned:
                _warn_of_others(text, line, name_of(source))
            text, has_warned = decoded(text).encode(), True
        yield text, line
        line += text.count(b"\n")


def _warn_of_others(text, first_line, name):
    """Warn of lines that are not UTF-8."""
    lines = text.split(b"\n")
    others = _not_utf8(lines)
    if _are_few(others, lines):
        place = f"{name}:{first_line + others[0]}"
        warn(f"{place}: the line is not UTF-8: such lines are read as Windows-1252")
    else:
        likely = likely_encoding(text)
        more = (
            ""
            if likely is None
            else (
                f". It looks like {likely}, so that letters are others: write new files in UTF-8, "
                f"as by iconv -f {likely} -t UTF-8, for the training and for rows to predict"
            )
        )
        warn(f"{name} is not UTF-8: read as Windows-1252{more}")


_KANA, _HAN, _HANGUL = "\u3041-\u30ff", "\u4e00-\u9fff", "\uac00-\ud7a3"
# Encodings of two bytes a letter, in order: their codec, what nearly all letters are, and what some
# must be.
_OF_TWO_BYTES = {
    "SHIFT-JIS": ("cp932", _KANA + _HAN, _KANA + _HAN),
    "EUC-KR": ("euc_kr", _HANGUL, _HANGUL),
    "EUC-JP": ("euc_jp", _KANA + _HAN, _KANA),
    "GB18030": ("gb2312", _HAN, _HAN),
    "BIG5": ("big5", _HAN, _HAN),
}
_FEWEST_LETTERS = 8  # beyond ASCII, that show an encoding
_NEARLY_ALL, _SOME = 0.95, 0.1
# Signs of Windows-1252 that stand within words where they are letters of Central Europe.
_SIGN_IN_WORD = re.compile(
    rb"(?<=[A-Za-z\xc0-\xff])[\xb1\xb3\xb6\xb9\xbc\xbe\xbf](?=[a-z\xc0-\xff])"
)


def likely_encoding(text):
    """What bytes that are not UTF-8 look like; None if that is Windows-1252, or not known.

    >>> [likely_encoding(word.encode(code)) for word, code in [
    ...     ("Москва, Казань", "cp1251"), ("größer, Straße, Öl, übel, Äste", "cp1252")]]
    ['WINDOWS-1251', None]
    """
    text = bytes(text[:_LONGEST_HEAD])
    letters = re.findall(rb"[\x80-\xff]", text)
    if len(letters) < _FEWEST_LETTERS:
        return None

    def share(pattern):
        return len(re.findall(pattern, text)) / len(letters)

    # Letters of one byte are above; pairs of Cyrillic ones would be rare Chinese ones.
    may_be_pairs = share(rb"[\x80-\xbf]") > _SOME
    for name, (codec, usual, own) in _OF_TWO_BYTES.items() if may_be_pairs else ():
        found = re.sub(r"[\0-\x7f]", "", text.decode(codec, errors="replace"))
        n_usual, n_own = (len(re.findall(f"[{kind}]", found)) for kind in (usual, own))
        if n_usual > _NEARLY_ALL * len(found) and n_own > _SOME * len(found):
            return name
    # Few letters of Windows-1252 stand side by side; those of other alphabets nearly all do.
    if share(rb"[\xc0-\xff](?=[\xc0-\xff])|(?<=[\xc0-\xff])[\xc0-\xff]") > 0.8:
        if share(rb"[\xc0-\xdf]") > 0.6:
            return "KOI8-R"
        has_accents = share(rb"(?<=[\xe0-\xff])[\xdc-\xdf]") > 0.03
        return "WINDOWS-1253" if has_accents else "WINDOWS-1251"
    if share(_SIGN_IN_WORD) > 0.05:
        of_windows = share(rb"[\xb9\x9c\x9f\x8c\x8f]") > share(rb"[\xb1\xb6\xbc\xbe\xa6\xac]")
        return "WINDOWS-1250" if of_windows else "ISO-8859-2"
    return None


def placed_lines(source, place=(0, 1)):
    r"""Whole lines from a place on: (text, number of its first line, the place after it).

    A place is a position in the content, in bytes, and the number of the line there.

    >>> list(placed_lines([b"a\nb", b"\nc"]))
    [(b'a\n', 1, (2, 2)), (b'b\n', 2, (4, 3)), (b'c\n', 3, (6, 4))]
    """
    start, line = place
    pieces = chunks(source, start=start)
    first = next(pieces, b"")
    if start == 0 and first.startswith(_BYTE_ORDER_MARK):
        start += len(_BYTE_ORDER_MARK)
    for text in whole_lines(itertools.chain([first], pieces)):
        after = start + len(text), line + text.count(b"\n")
        yield text, line, after
        start, line = after


def json_row(line, here):
    r"""The object on a line of JSON lines, with distinct names; `here` is its file and line.

    >>> json_row('{"a": null}', ("rows.jsonl", 1))
    {'a': None}
    >>> json_row("null", ("rows.jsonl", 2))
    Traceback (most recent call last):
        ...
    tunefree.files.files.DataError: rows.jsonl:2: not a JSON object: 'null'
    """
    try:
        row = json.loads(line, object_pairs_hook=distinct)
    except json.JSONDecodeError as problem:
        cut = problem.pos >= len(line.rstrip()) or problem.msg.startswith("Unterminated")
        words = (
            "the line ends within its JSON object" if cut else f"not one JSON object ({problem})"
        )
        raise DataError(words, *here, hint=hint_on_json(line)) from None
    except (ValueError, RecursionError) as problem:
        raise DataError(f"not one JSON object ({problem})", *here) from None
    if not isinstance(row, dict):
        raise DataError(f"not a JSON object: {shown(line)}", *here)
    return row


def hint_on_json(text):
    """What to do about text that is nearly JSON; None if that is not known.

    >>> hint_on_json("{'a': None}")
    'this is how Python prints values: write them with json.dumps'
    """
    if re.match(r"\s*[\[{(]*\s*'", text):
        return "this is how Python prints values: write them with json.dumps"
    if re.match(r"\s*(?:(?:var|let|const)\s|[\w.]+\s*[=(])", text):
        return "this is a script: keep the JSON in it alone"
    return None


def distinct(pairs):
    """A JSON object with distinct names: otherwise readers might read different values."""
    if len(items := dict(pairs)) < len(pairs):
        raise ValueError("a name occurs twice")
    return items


def write_atomically(path, pieces, check=lambda path: None):
    """Write pieces so that at any moment the file has its old content, or all of the new.

    If the pieces raise an error, or `check(path of the new file)`, nothing is changed. A device or
    a pipe is written directly.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb", buffering=0) as file:
            for piece in pieces:
                _write_all(file, piece)
        return
    path = os.path.realpath(path)  # replace the target of a link, not the link
    folder, name = os.path.split(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    try:
        with open(handle, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        check(temporary)
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    with contextlib.suppress(OSError):  # not every file system can sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_all(file, piece):
    """Write bytes to a file without a buffer: a pipe may take fewer of them at a time."""
    left = memoryview(piece)
    while left.nbytes:
        left = left[file.write(left) :]


def _mode(path):
    """The permissions of the replaced file, or those of a new one."""
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
