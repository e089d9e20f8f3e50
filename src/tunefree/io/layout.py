"""What each column of a csv file is: feature, target, weight, or nothing to us."""

import re
from typing import NamedTuple

import numpy as np

from tunefree.io.errors import DataError, decoded
from tunefree.io.numbers import NOT_A_NUMBER, scan_number

IGNORED, TARGET, WEIGHT = -1, -2, -3
DELIMITERS = "\t;,"


class Column(NamedTuple):
    """A column of another file, looked for in this one; it may be absent.

    Parameters
    ----------
    name : str or None
        Its name there. A file with a header has the column if it has the name.
    position : int
        Its position there, for a file without a header.
    """

    name: str | None
    position: int


class Layout(NamedTuple):
    """The meaning of the columns.

    Parameters
    ----------
    delimiter : str
        What separates two cells.
    names : list of str or None
        The header.
    slots : int64 array of shape (n_columns,)
        For each column of the file its feature number, or `IGNORED`, `TARGET`, `WEIGHT`.
    """

    delimiter: str
    names: list | None
    slots: np.ndarray

    @property
    def n_features(self):
        """The number of feature columns."""
        return int(np.count_nonzero(self.slots >= 0))

    @property
    def feature_names(self):
        """The names of the features in their order, or None without a header."""
        if self.names is None:
            return None
        order = np.argsort(self.slots, kind="stable")
        return [self.names[column] for column in order[self.slots[order] >= 0]]

    def find(self, role):
        """Find the column with a role.

        Parameters
        ----------
        role : int
            `TARGET` or `WEIGHT`.

        Returns
        -------
        Column or None
            The column, if there is one.
        """
        found = np.flatnonzero(self.slots == role)
        if not len(found):
            return None
        return Column(None if self.names is None else self.names[found[0]], int(found[0]))

    def describe(self, column):
        """How to call a column in a message.

        Parameters
        ----------
        column : int
            Its position, from 0.

        Returns
        -------
        str
            Its name, or else its number, from 1.
        """
        name = unnamed(column)
        if self.names is None or self.names[column] == name:
            return name
        return f"column {self.names[column]!r}"


def split_cells(line, delimiter):
    """Split one line into cells without their quotes and outer blanks.

    Parameters
    ----------
    line : bytes
        The line, without its newline.
    delimiter : str
        What separates two cells.

    Returns
    -------
    list of str
        The cells.

    Examples
    --------
    >>> from tunefree.io.layout import split_cells
    >>> split_cells(b'age, "income, net" ,7', ",")
    ['age', 'income, net', '7']
    """
    return [cell for _, _, cell in cell_spans(decoded(line).rstrip("\r\n"), delimiter)]


def cell_spans(text, delimiter):
    """The cells of a row: where each begins, where its content does, and that content."""
    at = -1
    cell = re.compile(rf'[^\S{delimiter}]*(?:"((?:[^"]|"")*)"[^\S{delimiter}]*|([^{delimiter}]*))')
    while at < len(text):
        found = cell.match(text, at + 1)
        if found.end() < len(text) and text[found.end()] != delimiter:  # text after the quote
            found = re.compile(f"()([^{delimiter}]*)").match(text, at + 1)
        quoted, plain = found.groups()
        whole = quoted.replace('""', '"') if plain is None else plain
        yield at + 1, found.start(1 if plain is None else 2), whole.strip()
        at = found.end()


def sniff_delimiter(line):
    """Guess the delimiter: what occurs most often outside quotes in a line; comma if none does.

    Parameters
    ----------
    line : bytes
        The first line of a file.

    Returns
    -------
    str
        One of `DELIMITERS`; of equally frequent ones the tab, then the semicolon.

    Examples
    --------
    >>> from tunefree.io.layout import sniff_delimiter
    >>> sniff_delimiter(b"1,5;2,5;3")
    ';'
    """
    outside = "".join(decoded(line).split('"')[::2])
    best = max(DELIMITERS, key=outside.count)
    return best if best in outside else ","


def _is_number(cell):
    text = np.frombuffer(cell.encode() + b"\n", np.uint8)
    _, end, outcome = scan_number(text, 0)
    return outcome != NOT_A_NUMBER and end == len(text) - 1


def _position(column, names, width, what, place):
    """Find where a column given by name or position stands; None for an absent `Column`."""
    if isinstance(column, Column):
        if names is not None and column.name is not None:
            return names.index(column.name) if column.name in names else None
        return column.position if column.position < width else None
    if names is not None and str(column) in names:
        return names.index(str(column))
    try:
        position = int(column)
    except ValueError:
        known = "the file has no header" if names is None else "the header has " + _some(names)
        raise DataError(f"there is no {what} column {column!r}: {known}", *place) from None
    if not -width <= position < width:
        raise DataError(f"there is no {what} column {position}: the file has {width}", *place)
    return position % width


def _some(names):
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def unnamed(position):
    """What a column without a name is called.

    Examples
    --------
    >>> unnamed(0)
    'column 1'
    """
    return f"column {position + 1}"


def plan(
    line,
    place,
    *,
    target=None,
    header=None,
    weight_column=None,
    n_features=None,
    columns=None,
    delimiter=None,
):
    """Decide from its first line what a file's columns are.

    Parameters
    ----------
    line : bytes
        The first line that is not blank.
    place : tuple of (str, int)
        File and line number, for messages.
    target, header, weight_column, n_features, columns
        As for `tunefree.io.read`.
    delimiter : str or None
        What separates two cells; None to guess.

    Returns
    -------
    Layout
        The columns' meaning.

    Raises
    ------
    DataError
        A column that is asked for is missing, a name occurs twice, or the number of columns does
        not fit `n_features`.
    """
    delimiter = delimiter or sniff_delimiter(line)
    cells = split_cells(line, delimiter)
    if header is None:
        header = not any(map(_is_number, cells))
    if header:
        cells = [cell or unnamed(place) for place, cell in enumerate(cells)]
    return assign(
        cells if header else None, len(cells), place, delimiter=delimiter, target=target,
        weight_column=weight_column, n_features=n_features, columns=columns,
    )  # fmt: skip


def assign(
    names,
    width,
    place,
    *,
    delimiter="",
    target=None,
    weight_column=None,
    n_features=None,
    columns=None,
):
    """Decide what columns are that are known by number, and by name if they have names.

    Parameters
    ----------
    names : list of str or None
        Their names.
    width : int
        How many there are.
    place : tuple
        File and perhaps line, for messages.
    delimiter : str
        What separates two cells, for text.
    target, weight_column, n_features, columns
        As for `tunefree.io.read`.

    Returns
    -------
    Layout
        The columns' meaning.

    Raises
    ------
    DataError
        As for `plan`.
    """
    slots = np.full(width, IGNORED, np.int64)
    if names is not None and len(set(names)) < width:
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the header names the column {twice!r} twice", *place)
    if n_features == width and (columns is None or names is None):
        slots[:] = np.arange(width)
        return Layout(delimiter, names, slots)

    by_name = columns is not None and names is not None
    if target is None and not (by_name and names[-1] in columns):
        target = width - 1
    if target is not None and target is not False:
        position = _position(target, names, width, "target", place)
        if position is not None:
            slots[position] = TARGET
    if weight_column is not None:
        position = _position(weight_column, names, width, "weight", place)
    if weight_column is not None and position is not None:
        if slots[position] == TARGET:
            raise DataError("one column cannot be both target and weight", *place)
        slots[position] = WEIGHT
    if by_name:
        missing = [name for name in columns if name not in names]
        if missing:
            raise DataError(f"the header lacks {_some(missing)}", *place)
        slots[[names.index(name) for name in columns]] = np.arange(len(columns))
    else:
        free = np.flatnonzero(slots == IGNORED)
        slots[free] = np.arange(len(free))
        if n_features is not None and len(free) != n_features:
            raise DataError(
                f"{width} columns hold {len(free)} features, but {n_features} are expected", *place
            )
    if not np.any(slots >= 0):
        error = DataError("the file has no feature column", *place)
        if delimiter:
            error.hint = "cells are divided by commas, semicolons or tabs"
        raise error
    return Layout(delimiter, names, slots)
