"""Comma, tab or semicolon separated text with numeric features.

As in `libsvm`, compiled code parses one block of whole lines at a time. A cell may be quoted; a
quoted cell ends on its line.
"""

import re
from typing import NamedTuple

import numpy as np

from tunefree._jit import kernel
from tunefree.io.errors import DataError, decoded, excerpt, fault, sound_parts
from tunefree.io.layout import TARGET, WEIGHT, Layout, plan
from tunefree.io.numbers import NOT_A_NUMBER, SLOW, python_number, scan_number
from tunefree.io.opening import name_of, placed_lines

_FINE, _CELL, _FEW, _MANY, _UNCLOSED, _EMPTY, _NEGATIVE, _LONG = range(8)
LONGEST_LABEL = 256  # bytes: a longer class name is a wrong column or a lost quote
_NOT_FINITE = {b"nan", b"inf", b"infinity"}


class Block(NamedTuple):
    """Some consecutive rows.

    Parameters
    ----------
    X : float64 array of shape (rows, n_features)
        The features.
    y : float64 array of shape (rows,)
        The targets, NaN where one is text.
    weight : float64 array of shape (rows,)
        The weights, 1 without a weight column.
    labels : bytes
        The targets as text, each followed by a newline; empty where text is not allowed.
    stray : DataError or None
        What to raise if the first target that is text should have been a number.
    layout : Layout
        The meaning of the file's columns, the same in every block.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    labels: bytes
    stray: DataError | None
    layout: Layout

    def texts(self):
        """The targets as text."""
        return _split_labels(self.labels)


def _split_labels(labels):
    return np.array(decoded(labels).replace('""', '"').split("\n")[:-1], dtype=np.str_)


@kernel
def _skip_blanks(text, at, delimiter):
    while (text[at] == 32 or text[at] == 13 or text[at] == 9) and text[at] != delimiter:
        at += 1
    return at


@kernel
def _skip_cell(text, at, delimiter):
    """Find a cell: (its first byte, end, first byte after it); end -1 for a lost quote."""
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
        if text[at - 1] != 32 and text[at - 1] != 13 and text[at - 1] != 9:
            end = at
    return begin, end, at


@kernel
def _parse(text, at, delimiter, slots, X, y, weight, spans, slow):
    """Parse whole lines from byte `at`.

    Returns (rows, slow numbers, outcome, byte and column of the fault). `slow` lists (row, column,
    byte) of the numbers left to `float`; `spans` holds the bytes of each target. Loops need no
    bounds check because the last byte is a newline.
    """
    stop, width, row, slows = len(text), len(slots), 0, 0
    while at < stop:
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
                    if end == begin:
                        return row, slows, _EMPTY, begin, column
                    if end - begin > LONGEST_LABEL:
                        return row, slows, _LONG, begin, column
                    spans[row, 0], spans[row, 1] = begin, end
                    value, number_end, outcome = scan_number(text, begin)
                    if number_end != end:
                        outcome = NOT_A_NUMBER
                    if outcome != NOT_A_NUMBER:
                        y[row] = value
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


@kernel
def _join(text, spans, joined):
    """Copy the spans of a text one after the other, a newline after each; returns the length."""
    at = 0
    for row in range(len(spans)):
        for byte in range(spans[row, 0], spans[row, 1]):
            joined[at] = text[byte]
            at += 1
        joined[at] = 10
        at += 1
    return at


def placed_blocks(source, *, target_type=None, skipped=None, place=(0, 1), layout=None, **columns):
    """`blocks`, each with the place after it: the byte of the content and the line to go on from.

    Parameters
    ----------
    source, target_type, skipped, **columns
        As for `blocks`.
    place : tuple of int
        Where to begin.
    layout : Layout or None
        The meaning of the columns, for a place other than the first.

    Yields
    ------
    Block, tuple of int
    """
    path = name_of(source)
    layout = None if place == (0, 1) else layout

    def parse(text, line):
        return _read_block(text, layout, path, line, target_type)

    for text, line, after in placed_lines(source, place):
        if layout is None and (first := re.search(rb"^.*\S.*\n", text, re.MULTILINE)):
            line += text.count(b"\n", 0, first.start())
            layout = plan(first[0], (path, line), **columns)
            text = text[first.start() :]
            if layout.names is not None:
                text, line = text[len(first[0]) :], line + 1
                if not text:  # so that a file of a header alone says what it has
                    yield _read_block(b"\n", layout, path, line, target_type), after
        if layout is not None:
            for block, rest, next_line in sound_parts(text, line, parse, skipped):
                yield block, (after[0] - rest, next_line)


def blocks(source, *, target_type=None, skipped=None, **columns):
    """Read delimited text block by block: memory does not grow with the file.

    Parameters
    ----------
    source : str, path-like, binary file or iterable of bytes
        As for `tunefree.io.opening.chunks`.
    target_type : type or None
        `float` makes a target that is not a number an error.
    skipped : Skipped or None
        Where malformed lines are counted and left out; None makes them errors.
    **columns
        ``target, header, weight_column, n_features, columns``, as for `tunefree.io.read`.

    Yields
    ------
    Block
        Consecutive rows; a block may have none.

    Raises
    ------
    DataError
        Malformed text, with file, line and column.
    """
    for block, _ in placed_blocks(source, target_type=target_type, skipped=skipped, **columns):
        yield block


def _read_block(text, layout, path, line, target_type):
    most = len(text) // len(layout.slots) + 1
    X, y, weight = np.empty((most, layout.n_features)), np.empty(most), np.empty(most)
    spans, slow = np.empty((most, 2), np.int64), np.empty((len(text) // 4 + 1, 3), np.int64)
    array = np.frombuffer(text, np.uint8)
    rows, slows, outcome, at, column = _parse(
        array, 0, ord(layout.delimiter), layout.slots, X, y, weight, spans, slow
    )
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
    stray, labels, target = None, b"", layout.find(TARGET)
    if target and (texts := spans[np.isnan(y)].tolist()):
        stray = _error(_CELL, text, texts[0][0], layout, target.position, path, line)
        for begin, end in texts:
            odd = text[begin:end].lower().lstrip(b"+-") in _NOT_FINITE
            if odd or target_type is float:
                faults.append((begin, _CELL, target.position))
                break
    if faults:
        at, outcome, column = min(faults)
        raise _error(outcome, text, at, layout, column, path, line)
    if target and target_type is not float:
        joined = np.empty(int(np.diff(spans).sum()) + rows, np.uint8)
        _join(array, spans, joined)
        labels = joined.tobytes()
    return Block(X, y, weight, labels, stray, layout)


def read_table(source, *, target_type=None, skipped=None, **columns):
    r"""Read delimited text into arrays.

    Parameters
    ----------
    source : str, path-like, binary file or iterable of bytes
        As for `blocks`.
    target_type : type or None
        `float` or `str`; None takes numbers if all targets are, else text.
    skipped : Skipped or None
        Where malformed lines are counted and left out; None makes them errors.
    **columns
        As for `blocks`.

    Returns
    -------
    X : float64 array of shape (n_rows, n_features)
        The features.
    y : array of shape (n_rows,) or None
        The targets, float64 or text.
    weight : float64 array of shape (n_rows,) or None
        The weights.
    layout : Layout
        The meaning of the columns.

    Raises
    ------
    DataError
        Malformed text, with file, line and column; no rows.

    Examples
    --------
    >>> from tunefree.io.table import read_table
    >>> text = [b"a,b,kind\n1,2,cat\n3,4,dog\n"]
    >>> X, y, _, layout = read_table(text)
    >>> X.tolist(), y.tolist(), layout.feature_names
    ([[1.0, 2.0], [3.0, 4.0]], ['cat', 'dog'], ['a', 'b'])
    """
    read = list(blocks(source, target_type=target_type, skipped=skipped, **columns))
    if not sum(len(block.X) for block in read):
        raise DataError("the file is empty: it holds no row", name_of(source))
    layout = read[0].layout
    X, y, weight = (np.concatenate([block[part] for block in read]) for part in range(3))
    if not layout.find(TARGET):
        y = None
    else:
        stray = next((block.stray for block in read if block.stray), None)
        if stray and target_type is None and looks_numeric(y, len(y)):
            raise stray
        if stray or target_type is str:
            y = _split_labels(b"".join(block.labels for block in read))
    return X, y, (weight if layout.find(WEIGHT) else None), layout


def looks_numeric(numbers, rows):
    """Whether a target with some text is a column of numbers with a few bad cells."""
    numbers = numbers[~np.isnan(numbers)]
    return len(numbers) > 0.9 * rows and len(np.unique(numbers)) > 20


def _error(outcome, text, at, layout, column, path, line):
    """Word the `DataError` for a fault at byte `at`, in a cell of the given column."""
    name, width = layout.describe(column), len(layout.slots)
    word = excerpt(text, at, (layout.delimiter + '"').encode())
    if outcome == _FEW:
        words = f"this row has {column + 1} cells, the first one has {width}"
    elif outcome == _MANY:
        words = f"this row has more than the {width} cells of the first one"
    elif outcome == _UNCLOSED:
        words = f"{name}: the quote does not end on this line"
    elif outcome == _NEGATIVE:
        words = f"{name}: a weight must not be negative: {word}"
    elif outcome == _LONG:
        words = f"{name}: a target of more than {LONGEST_LABEL} bytes: {word}"
    elif outcome == _EMPTY or word == "''":
        words = f"{name}: the cell is empty"
    else:
        words = f"{name}: not a finite number: {word}"
    error = fault(words, path, text, at, line)
    if words.endswith(word) and error.line <= 2:  # more likely a wrong guess than a bad cell
        error.hint = "is it the target? a header?"
    error.feature = outcome in (_CELL, _EMPTY) and bool(layout.slots[column] >= 0)
    return error
