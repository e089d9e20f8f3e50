r"""Quotes in delimited text: which of them count, and text in which all of them do.

A quote counts if it opens a cell and another one closes it: before a delimiter or the end of a
line, at most `MOST_LINES` lines later. Any other quote is text. So one stray quote costs nothing,
and a quote within quotes need not be doubled. If every line from an opening quote to the closing
one has all the cells of a row without it, these are rows and not one cell: tab-separated text is
often written without quoting.
"""

import re
from functools import lru_cache
from typing import Any

import numpy as np

from tunefree.core.jit import kernel

MOST_LINES = 500  # of one quoted cell


@kernel
def _closing(text, at, delimiter, n_before, width):
    """Find what closes the cell that a quote at `at` opens, after `n_before` delimiters.

    Returns (place of the closing quote, or -1; whether there are lone quotes between; whether the
    text ends before that can be decided).
    """
    lines, lone, i = 0, False, at + 1
    n_cells, all_full = n_before, width > 1
    while i < len(text):
        if text[i] == 10:
            all_full = all_full and n_cells == width - 1
            n_cells = 0
            lines += 1
            if lines > MOST_LINES:
                return -1, lone, False
        elif text[i] == delimiter:
            n_cells += 1
        elif text[i] == 34:
            if i + 1 < len(text) and text[i + 1] == 34:
                i += 2
                continue
            j = i + 1
            while j < len(text) and (text[j] == 32 or text[j] == 9) and text[j] != delimiter:
                j += 1
            if j >= len(text) or text[j] == 10 or text[j] == delimiter:
                if lines and all_full:
                    while j < len(text) and text[j] != 10:
                        n_cells += text[j] == delimiter
                        j += 1
                    if n_cells == width - 1:
                        return -1, lone, False
                return i, lone, False
            lone = True
        i += 1
    return -1, lone, True


@kernel
def _scan(text, delimiter, width, out):
    """Copy whole lines to `out`, if it has a length, with quotes that every reader understands.

    Returns (bytes written, whether anything changed, start of the first row whose quote is open at
    the end of the text, or -1).
    """
    writes = len(out) > 0
    at, size, row, n_before, changed, open_row = 0, 0, 0, 0, False, -1
    while at < len(text):
        begin = at
        while at < len(text) and (text[at] == 32 or text[at] == 9) and text[at] != delimiter:
            at += 1
        end, lone = -1, False
        if at < len(text) and text[at] == 34:
            end, lone, is_open = _closing(text, at, delimiter, n_before, width)
            if is_open and open_row < 0:
                open_row = row
        if end >= 0:
            changed = changed or lone or begin < at
            i = at + 1
            if writes:
                out[size] = 34
                size += 1
                while i < end:
                    out[size] = text[i]
                    size += 1
                    if text[i] == 34:
                        out[size] = 34
                        size += 1
                        i += text[i + 1] == 34
                    i += 1
                out[size] = 34
                size += 1
            at = end + 1
            while at < len(text) and text[at] != delimiter and text[at] != 10:
                at += 1
        else:
            stray = at < len(text) and text[at] == 34
            changed = changed or stray
            if writes and stray:
                out[size] = 34
                size += 1
            at = begin
            while at < len(text) and text[at] != delimiter and text[at] != 10:
                if writes:
                    out[size] = text[at]
                    size += 1
                    if stray and text[at] == 34:
                        out[size] = 34
                        size += 1
                at += 1
            if writes and stray:
                out[size] = 34
                size += 1
        if at < len(text):
            if writes:
                out[size] = text[at]
                size += 1
            n_before += 1
            if text[at] == 10:
                row = at + 1
                n_before = 0
            at += 1
    return size, changed, open_row


def regular(text, delimiter, width):
    r"""Whole lines with quotes that every reader understands; unchanged if they are such.

    >>> regular(b'a, "x"\nb,"not "so" now"\n', ",", 2)
    b'a,"x"\nb,"not ""so"" now"\n'
    """
    if b'"' not in text:
        return text
    source, mark = np.frombuffer(text, np.uint8), ord(delimiter)
    _, changed, _ = _scan(source, mark, width, np.empty(0, np.uint8))
    if not changed:
        return text
    out = np.empty(2 * len(text) + 2 * text.count(b'"') + 2, np.uint8)
    size, _, _ = _scan(source, mark, width, out)
    return out[:size].tobytes()


def last_row(text, delimiter, width):
    """Where the last complete row of whole lines ends; 0 if the first one is not complete."""
    if b'"' not in text:
        return len(text)
    source = np.frombuffer(text, np.uint8)
    _, _, open_row = _scan(source, ord(delimiter), width, np.empty(0, np.uint8))
    return len(text) if open_row < 0 else open_row


@kernel
def _part_at_blanks(text):
    """In place: the last blank of those between two cells becomes a tab."""
    at = 0
    while at < len(text):
        while at < len(text) and (text[at] == 32 or text[at] == 9):
            text[at] = 32
            at += 1
        if at < len(text) and text[at] == 34:
            i = at + 1
            while i < len(text) and text[i] != 10:
                is_end = text[i] == 34 and text[i + 1] in (9, 10, 32)
                if is_end:
                    at = i + 1
                    break
                i += 1
        while at < len(text) and text[at] != 32 and text[at] != 9 and text[at] != 10:
            at += 1
        last = at
        while at < len(text) and (text[at] == 32 or text[at] == 9):
            text[at] = 32
            at += 1
        if at > last and at < len(text) and text[at] != 10:
            text[at - 1] = 9
        if at < len(text) and text[at] == 10:
            at += 1


def parted_at_blanks(text):
    r"""Whole lines whose cells blanks separate, with tabs between them; as many bytes.

    >>> parted_at_blanks(b' 1   2 \n"a b" 3\n')
    b' 1  \t2 \n"a b"\t3\n'
    """
    out = np.frombuffer(bytearray(text), np.uint8)
    _part_at_blanks(out)
    return out.tobytes()


@lru_cache(maxsize=16)
def _cell(delimiter):
    blanks, mark = " " if delimiter == "\t" else " \t", re.escape(delimiter)
    closed = rf"[{blanks}]*(?={mark}|\n|\Z)"
    return re.compile(rf'[{blanks}]*(?:"((?:[^"]|""|"(?!{closed}))*+)"{closed}|([^{mark}\n]*))')


def cells_of(text, at, delimiter, width=0):
    r"""The cells of the row that begins at `at`, and where it ends, after its line.

    Each cell is where it begins, where its content begins, and the content.

    >>> row, end = cells_of('age, "income, net" ,7\n8', 0, ",")
    >>> [cell for *_, cell in row], end
    (['age', 'income, net', '7'], 22)
    """
    pattern, row = _cell(delimiter), []
    line_end = text.find("\n", at)
    line_end = len(text) if line_end < 0 else line_end
    if text.find('"', at, line_end) < 0:  # the usual line
        for cell in text[at:line_end].split(delimiter):
            bare = cell.strip(" \t")
            row.append((at, at + (cell.find(bare) if bare else 0), bare))
            at += len(cell) + 1
        return row, min(line_end + 1, len(text))
    while True:
        found: Any = pattern.match(text, at)
        quoted, bare = found.groups()
        is_long = quoted is not None and "\n" in found[0]
        if is_long and not _is_one(text, found, len(row), delimiter, width):
            found = re.compile(rf"[^{re.escape(delimiter)}\n]*").match(text, at)
            quoted, bare, content, end = None, found[0], at, found.end()
        else:
            end, content = found.end(), found.start(2 if quoted is None else 1)
        whole = bare if quoted is None else quoted.replace('""', '"')
        row.append((at, content, whole.strip(" \t")))
        if end >= len(text) or text[end] == "\n":
            return row, min(end + 1, len(text))
        at = end + 1


def _is_one(text, found, n_before, delimiter, width):
    """Whether a quoted cell of several lines is one: see above."""
    if found[0].count("\n") > MOST_LINES:
        return False
    if width <= 1:
        return True
    end = text.find("\n", found.end())
    lines = text[found.start() : len(text) if end < 0 else end].split("\n")
    counts = [line.count(delimiter) for line in lines]
    counts[0] += n_before
    return any(count != width - 1 for count in counts)
