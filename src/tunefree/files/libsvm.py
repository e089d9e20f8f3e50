"""LIBSVM / SVMlight text: ``label index:value index:value ... # comment``.

A compiled parser reads one block of whole lines at a time into arrays. Python joins the blocks,
reads the few numbers that need `float`, and writes the error messages.

Why not `sklearn.datasets.load_svmlight_file`: it reads a9a at a sixth of the speed, accepts NaN
and infinity, reports no line, and reads the whole file at once.
"""

import re
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from tunefree.core.jit import kernel
from tunefree.files.files import DataError, excerpt, fault, name_of, placed_lines, sound_parts
from tunefree.files.numbers import NOT_A_NUMBER, SLOW, python_number, scan_number
from tunefree.rows.matrices import stacked

_FINE, _LABEL, _INDEX, _NEGATIVE, _HUGE, _COLON, _VALUE, _ZERO = range(8)
_MOST_DIGITS = 18  # of an index: what int64 holds without overflow
_SMALLEST_ENTRY = 4  # bytes: " 1:1"


class LibsvmBlock(NamedTuple):
    """Consecutive rows; indices are as in the file, from 0 or from 1."""

    labels: np.ndarray  # NaN where a row has none
    starts: np.ndarray  # where each row starts in `indices` and `values`
    indices: np.ndarray  # increasing within a row
    values: np.ndarray


@kernel
def _is_blank(byte):
    return byte == 32 or byte == 9


@kernel
def _ends_word(byte):
    return byte == 10 or _is_blank(byte) or byte == 35


@kernel
def _starts_query(text, at):
    """Whether the text at a byte is ``qid:``."""
    return text[at] == 113 and text[at + 1] == 105 and text[at + 2] == 100 and text[at + 3] == 58


@kernel
def _parse(text, bare, lowest, highest, labels, starts, indices, values, slow):
    """Parse whole lines; returns (rows, slow numbers, sorted?, outcome, byte of the fault).

    `slow` lists (entry or -1 - row, byte) of the numbers that need `float`. Loops need no bounds
    check because the last byte is a newline.
    """
    at, stop, row, entry, slows, ordered = 0, len(text), 0, 0, 0, True
    while at < stop:
        byte = text[at]
        if byte == 10 or _is_blank(byte):
            at += 1
            continue
        if byte == 35:
            while text[at] != 10:
                at += 1
            continue
        begin = at
        labels[row] = np.nan
        value, at, outcome = scan_number(text, at)
        if bare and text[at] == 58:
            at = begin
        else:
            if outcome == NOT_A_NUMBER or not _ends_word(text[at]):
                return row, slows, ordered, _LABEL, begin
            labels[row] = value
            if outcome == SLOW:
                slow[slows, 0], slow[slows, 1] = -1 - row, begin
                slows += 1
            while _is_blank(text[at]):
                at += 1
            if _starts_query(text, at):
                while not _ends_word(text[at]):
                    at += 1
        starts[row] = entry
        last = -1
        while True:
            while _is_blank(text[at]):
                at += 1
            if text[at] == 10 or text[at] == 35:
                break
            begin = at
            index = 0
            digit = np.int64(text[at]) - 48
            while 0 <= digit <= 9:
                index = 10 * index + digit
                at += 1
                digit = np.int64(text[at]) - 48
            if at == begin:
                return row, slows, ordered, (_NEGATIVE if text[at] == 45 else _INDEX), begin
            if text[at] != 58:
                return row, slows, ordered, (_COLON if _ends_word(text[at]) else _INDEX), begin
            if at - begin > _MOST_DIGITS or index > highest:
                return row, slows, ordered, _HUGE, begin
            if index < lowest:
                return row, slows, ordered, _ZERO, begin
            if index <= last:
                ordered = False
            last = index
            begin = at + 1
            digit = np.int64(text[begin]) - 48
            if 0 <= digit <= 9 and _ends_word(text[begin + 1]):  # counts and flags: most values
                value, at = np.float64(digit), begin + 1
            else:
                value, at, outcome = scan_number(text, begin)
                if outcome == NOT_A_NUMBER or not _ends_word(text[at]):
                    return row, slows, ordered, _VALUE, begin
                if outcome == SLOW:
                    slow[slows, 0], slow[slows, 1] = entry, begin
                    slows += 1
            indices[entry] = index
            values[entry] = value
            entry += 1
        row += 1
        starts[row] = entry
    return row, slows, ordered, _FINE, at


class Parser:
    """Parses whole lines; its buffers are used for one text after the other."""

    def __init__(self, path, labelled, zero_based, n_features):
        self.path, self.labelled, self.capacity = path, labelled, 0
        self.lowest = 1 if zero_based is False else 0
        largest = np.iinfo(np.int64).max
        self.highest = largest if n_features is None else n_features - (zero_based is True)

    def _allocate(self, capacity):
        """Buffers for a text of so many bytes."""
        self.capacity = capacity
        rows, entries = capacity // 2 + 1, capacity // _SMALLEST_ENTRY + 1
        self.labels, self.starts = np.empty(rows), np.zeros(rows + 1, np.int64)
        self.indices, self.values = np.empty(entries, np.int64), np.empty(entries)
        self.slow = np.empty((entries, 2), np.int64)

    def __call__(self, text, line):
        """Parse lines; `line` is the number of the first."""
        if len(text) > self.capacity:
            self._allocate(len(text))
        labels, starts, indices, values = self.labels, self.starts, self.indices, self.values
        read = np.frombuffer(text, np.uint8), not self.labelled, self.lowest, self.highest
        written = labels, starts, indices, values, self.slow
        rows, slows, ordered, outcome, at = _parse(*read, *written)
        faults = [] if outcome == _FINE else [(at, _message(outcome, text, at, self.highest))]
        for entry, begin in self.slow[:slows].tolist():
            number = python_number(text, begin)
            if not np.isfinite(number):
                what = _VALUE if entry >= 0 else _LABEL
                faults.append((begin, _message(what, text, begin, self.highest)))
            if entry >= 0:
                values[entry] = number
            else:
                labels[-1 - entry] = number
        n = starts[rows] if rows else 0
        block = LibsvmBlock(
            labels[:rows].copy(), starts[: rows + 1].copy(), indices[:n].copy(), values[:n].copy()
        )
        if not ordered and not _sort_rows(block):
            at, index = _repetition(text)
            faults.append((at, f"feature {index} occurs twice in this row"))
        if faults:
            at, words = min(faults)
            raise fault(words, self.path, text, at, line)
        return block


def blocks(
    source, *, labelled=True, zero_based="auto", n_features=None, skipped=None, place=(0, 1)
):
    """Read libsvm text from a place on: pairs of a `LibsvmBlock` and the place after it.

    The options are those of `read_libsvm`. Memory does not depend on the size of the file.
    """
    parse = Parser(name_of(source), labelled, zero_based, n_features)
    for text, line, after in placed_lines(source, place):
        yield from sound_parts(text, line, after, parse, skipped)


def matrix(block, first=0):
    """The rows of a block, whose indices count from `first`, as a CSR array of the least width."""
    indices = block.indices - first
    return _csr(block.values, indices, block.starts, int(indices.max(initial=-1)) + 1)


def _csr(values, indices, starts, width):
    """A CSR array of sorted rows, with indices of the narrowest type."""
    kind = np.int32 if max(width, len(values)) < 2**31 else np.int64
    narrow = (array.astype(kind, copy=False) for array in (indices, starts))
    X = scipy.sparse.csr_array((values, *narrow), shape=(len(starts) - 1, width))
    X.has_canonical_format = True
    return X


def _sort_rows(block):
    """Sort the entries of every row by index, in place; False if a row repeats an index."""
    rows = np.repeat(np.arange(len(block.labels)), np.diff(block.starts))
    order = np.lexsort((block.indices, rows))
    block.indices[:], block.values[:] = block.indices[order], block.values[order]
    return not np.any((np.diff(block.indices) == 0) & (np.diff(rows) == 0))


def _repetition(text):
    """The first index that occurs twice in a row: (its position in `text`, the index)."""
    start = 0
    for row in text.split(b"\n"):
        seen = set()
        for pair in re.finditer(rb"(?<!\S)(\d+):", row.split(b"#")[0]):
            index = int(pair[1])
            if index in seen:
                return start + pair.start(), index
            seen.add(index)
        start += len(row) + 1
    raise AssertionError("called for a text without a repeated index")


def read_libsvm(
    source, *, labelled=True, zero_based="auto", n_features=None, unseen="error", skipped=None
):
    r"""Read libsvm text into (X, y, zero_based, ignored entries), X a canonical CSR array.

    Rows must start with a label if `labelled`; otherwise they may, and y is None. With `zero_based`
    "auto" indices start from 0 if a 0 occurs. Indices beyond `n_features` are an error unless
    `unseen` is "ignore". Malformed lines are an error unless `skipped` counts them.

    >>> X, y, zero_based, _ = read_libsvm([b"+1 1:0.5 3:2\n", b"-1 2:1"])
    >>> X.toarray(), y, zero_based
    (array([[0.5, 0. , 2. ], [0. , 1. , 0. ]]), array([ 1., -1.]), False)
    """
    bound = None if unseen == "ignore" else n_features
    options = {"labelled": labelled, "zero_based": zero_based, "n_features": bound}
    parts, labels = [], []
    for block, _ in blocks(source, skipped=skipped, **options):
        parts.append(matrix(block))
        labels.append(block.labels)
    y = np.concatenate([[], *labels])
    if not len(y) and skipped is not None:
        skipped.check(0, name_of(source))
    if not len(y):
        raise DataError("the file has no rows", name_of(source))
    width = max(part.shape[1] for part in parts)
    for part in parts:
        part.resize(part.shape[0], width)
    X: Any = stacked(parts)
    if zero_based == "auto":
        zero_based = bool(np.any(X.indices == 0))
    first = 0 if zero_based else 1
    width, n_entries = max(width - first, 0), X.nnz
    if n_features is not None:
        if width > n_features and unseen == "error":
            words = f"index {width - 1} is too large for {n_features} features counted from 0"
            raise DataError(words, name_of(source))
        width = n_features
        X.resize(X.shape[0], first + width)
    n_ignored = n_entries - X.nnz
    X = _csr(X.data, X.indices - first, X.indptr, width)
    return X, (y if labelled else None), zero_based, n_ignored


_MESSAGES = {
    _LABEL: "the label must be a finite number, not {word}",
    _INDEX: "expected index:value, found {word}",
    _NEGATIVE: "a feature index must not be negative: {word}",
    _HUGE: "the feature index is too large (at most {highest}): {word}",
    _COLON: "expected index:value, found {word} without a colon",
    _VALUE: "the value must be a finite number, not {word}",
    _ZERO: "index 0 in a file whose indices start from 1: {word}",
}


def _message(outcome, text, at, highest):
    """The message for an error at byte `at`."""
    word = excerpt(text, at, b" \t#")
    if outcome == _LABEL and "," in word:
        return f"a row has one label, not several: {word}"
    if outcome == _LABEL and ":" in word:
        return f"the label is missing: the row starts with {word}"
    if outcome == _VALUE and word == "''":
        return "the value after the colon is missing"
    return _MESSAGES[outcome].format(word=word, highest=highest)
