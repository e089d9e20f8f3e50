"""Rows of a stream for drift: an even sample of those that came, and their columns."""

import numpy as np

from tunefree.engine.sources import row_keys
from tunefree.rows.cells import value_of

_AHEAD = 4096  # keys of rows that are computed at once


class RecordSample:
    """At most so many rows that came one by one, drawn evenly by the keys of their numbers.

    The sample depends on the rows only: a resumed run has that of one run.

    Parameters
    ----------
    most : int
    most_columns : int
        Rows of more columns are not kept.

    Examples
    --------
    >>> sample = RecordSample(2, 9)
    >>> for number in range(50):
    ...     sample.add({"a": number})
    >>> len(sample.rows())
    2
    """

    def __init__(self, most, most_columns):
        self.most, self.most_columns, self.n_seen = most, most_columns, 0
        self._kept = {}  # keys and rows by number
        self._due, self._end = {}, 0  # the keys of coming rows that may be drawn, by number
        self._limit = None  # the largest key of a full sample

    def add(self, x):
        """The next row, a dict."""
        number = self.n_seen
        if number >= self._end:
            self._look_ahead()
        self.n_seen = number + 1
        key = self._due.get(number)
        if key is not None and len(x) <= self.most_columns:
            self._kept[number] = key, dict(x)
            if len(self._kept) > 2 * self.most:
                self._cut()

    def rows(self):
        """The sample in the order of the rows."""
        return self.state[2]

    @property
    def state(self):
        """What a checkpoint saves: how many rows came, and the numbers and rows of the sample."""
        self._cut()
        numbers = sorted(self._kept)
        return self.n_seen, numbers, [self._kept[number][1] for number in numbers]

    def resume(self, state):
        """Continue from a `state`."""
        self.n_seen, numbers, rows = state
        keys = (int(row_keys(number, number + 1)[0]) for number in numbers)
        self._kept = dict(zip(numbers, zip(keys, rows, strict=True), strict=True))
        self._cut()
        self._end = self.n_seen

    def _look_ahead(self):
        keys = row_keys(self.n_seen, self.n_seen + _AHEAD).tolist()
        numbered = enumerate(keys, self.n_seen)
        limit = self._limit
        self._due = {number: key for number, key in numbered if limit is None or key < limit}
        self._end = self.n_seen + _AHEAD

    def _cut(self):
        """Keep the rows with the smallest keys."""
        if len(self._kept) < self.most:
            return
        kept = sorted(self._kept.items(), key=lambda one: one[1][0])[: self.most]
        self._kept, self._limit = dict(kept), kept[-1][1][0]


def columns_of_cells(cells, known=None):
    """Arrays by name of cells by name: of numbers if all are, else of text.

    `known` is what a reference keeps of each column: other cells than its numbers are missing.
    """
    found = {}
    for name, column in cells.items():
        values = [value_of(cell) if isinstance(cell, str) else cell for cell in column]
        kept = None if known is None else known.get(name)
        are_numbers = all(map(_is_number, values)) if kept is None else _holds_numbers(kept)
        if are_numbers:
            found[name] = np.array(
                [float(v) if v is not None and _is_number(v) else np.nan for v in values]
            )
        else:
            texts = [None if value is None else str(value) for value in values]
            found[name] = np.array([*texts, None], dtype=object)[:-1]
    return found


def _is_number(value):
    return value is None or isinstance(value, int | float)


def _holds_numbers(known):
    """Whether a reference keeps numbers of a column."""
    return "cuts" in known or np.asarray(known.get("levels", [""])).dtype.kind == "f"
