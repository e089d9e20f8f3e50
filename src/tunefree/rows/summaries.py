"""Columns as their distinct values and weights: parts of a table are joined in bounded memory.

A summary keeps the values of the smallest hashes, an even sample of the distinct ones, with exact
weights. So it depends neither on the order of rows nor on how they are cut into parts.
"""

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from tunefree.rows.columns import (
    CATEGORY,
    DATE,
    NOTHING,
    NUMBER,
    TEXT,
    TRUTH,
    WITH_VALUES,
    RawColumn,
    TextLevels,
    as_texts,
    zones_joined,
)
from tunefree.rows.kinds import as_levels
from tunefree.rows.learned_kinds import learned_kind, note_of
from tunefree.rows.order import row_hash
from tunefree.rows.schema import BadColumn, Schema, check_given

# Most distinct values that are kept of a column, and most characters of its texts.
_MOST_VALUES, _MOST_CHARACTERS = 100_000, 10_000_000
# The lowest numbers are kept, since one of them may stand for a missing value; so is the highest.
_LOWEST, _HIGHEST = 2, 1


class ColumnSummary(NamedTuple):
    """The distinct values of a column and their weights.

    Examples
    --------
    >>> from tunefree.rows.columns import of_array
    >>> one = ColumnSummary.of(of_array(np.array([1.0, 3.0, 1.0])), np.ones(3))
    >>> other = ColumnSummary.of(of_array(np.array(["3", "red", None], dtype=object)), np.ones(3))
    >>> both = one.join(other)
    >>> both.values.tolist(), both.weights.tolist(), both.missing
    (['1', '3', 'red'], [2.0, 2.0, 1.0], 1.0)
    """

    kind: str
    values: np.ndarray  # distinct numbers or texts, in order
    weights: np.ndarray  # of the rows with each of them
    missing: float  # the weight of the rows without a value
    total: float  # of all rows
    ordered: bool = False
    zone: Any = None

    @classmethod
    def of(cls, raw: RawColumn, weights: np.ndarray) -> "ColumnSummary":
        """The summary of a column, of whose rows the weights are above 0."""
        present = ~raw.missing
        if raw.texts is None:
            values, places = np.unique(raw.values[present], return_inverse=True)
        else:
            values, places = _objects(raw.cells), raw.codes[present]
        sums = np.bincount(places, weights[present], len(values))
        missing, total = float(weights[~present].sum()), float(weights.sum())
        found = cls(raw.kind, values, sums, missing, total, raw.ordered, raw.zone)
        return found._merged()

    def join(self, other: "ColumnSummary", *_) -> "ColumnSummary":
        """The summary of the rows of both."""
        kind = _kind_of_both(self.kind, other.kind)
        one, two = self._as(kind), other._as(kind)
        return self._replace(
            kind=kind,
            values=np.concatenate([one.values, two.values]),
            weights=np.concatenate([one.weights, two.weights]),
            missing=self.missing + other.missing,
            total=self.total + other.total,
            ordered=self.ordered and other.ordered,
            zone=zones_joined(z for own in (self.zone, other.zone) if own for z in own.split(", ")),
        )._merged()

    def column(self) -> tuple[RawColumn, np.ndarray]:
        """A column with one row for each value, and the weights of its rows."""
        codes, weights = np.arange(len(self.values)), self.weights
        if len(weights):  # those of all values, also of those that are not kept
            weights = weights * ((self.total - self.missing) / weights.sum())
        is_gap = np.zeros(len(codes), dtype=bool)
        if self.missing or not len(codes):
            codes, is_gap = np.append(codes, -1), np.append(is_gap, True)
            weights = np.append(weights, self.missing or 1.0)
        if self.kind in (TEXT, CATEGORY):
            texts = TextLevels(as_texts(self.values.tolist()), codes)
            return RawColumn(self.kind, texts=texts, ordered=self.ordered), weights
        numbers = np.append(self.values, 0.0)[codes] if len(self.values) else np.zeros(len(codes))
        return RawColumn(self.kind, numbers.astype(float), is_gap, zone=self.zone), weights

    def _as(self, kind):
        """The same with values of another kind."""
        of_text = self.kind in WITH_VALUES and kind in (TEXT, CATEGORY)
        if not of_text or not len(self.values):
            empty = kind in (TEXT, CATEGORY) and not len(self.values)
            return self._replace(values=np.array([], dtype=object)) if empty else self
        raw, _ = self._replace(missing=0.0).column()
        if self.kind in (NUMBER, TRUTH):
            return self._replace(values=_objects(as_levels(raw).cells))
        texts = [raw.text(row) for row in range(len(self.values))]
        if self.kind == DATE:
            texts = [text.replace("T", " ").removesuffix(".000000") for text in texts]
        return self._replace(values=np.array(texts, dtype=object))

    def _merged(self):
        """Equal values are one; of too many those of the smallest hashes are kept."""
        values, weights = self.values, self.weights
        if len(values):
            values, places = np.unique(values, return_inverse=True)
            weights = np.bincount(places, weights, len(values))
            kept = np.flatnonzero((weights > 0.0) & _are_kept(values))
            values, weights = values[kept], weights[kept]
        kind = self.kind if len(values) else NOTHING
        return self._replace(kind=kind, values=values, weights=weights)


class ReadSummaries(NamedTuple):
    """The schema of a table in summaries, and the values of these."""

    schema: Schema
    columns: list  # `ColumnValues`
    weights: list  # of the rows of each column
    bad: list  # `BadColumn`

    @classmethod
    def of(
        cls, names: Any, summaries: Any, unit: float = 1.0, given: Any = None, *, sentinels=True
    ) -> "ReadSummaries":
        """Learn the columns of a table.

        Parameters
        ----------
        names : sequence of str
        summaries : sequence of ColumnSummary
        unit : float, default=1
            What the weight of a row is multiplied by.
        given : dict, optional
            What is known of some columns: see `tunefree.rows.schema.check_given`.
        sentinels : bool, default=True
            Whether numbers such as -999 may stand for missing values.

        Examples
        --------
        >>> from tunefree.rows.columns import of_array
        >>> summary = ColumnSummary.of(of_array(np.array(["1,5", "2", None])), np.ones(3))
        >>> ReadSummaries.of(["a"], [summary]).schema.columns[0].words()
        'number (with a decimal comma)'
        """
        names, kinds, columns, rows, bad = tuple(map(str, names)), [], [], [], []
        given = check_given(given, names)
        for name, summary in zip(names, summaries, strict=True):
            raw, weights = summary.column()
            weights = unit * weights
            facts = given.get(name, {})
            kind = learned_kind(raw, weights, facts, sentinels)
            kinds.append(kind._replace(note=note_of(name, kind, raw, weights, facts)))
            values = kind.read(raw, name, False)
            if values.bad is not None and values.bad.any():
                count = max(1, round(weights[values.bad].sum()))
                first = raw.text(int(np.argmax(values.bad)))
                bad.append(BadColumn(name, kind.kind, count, None, first))
            columns.append(values)
            rows.append(weights)
        return cls(Schema(names, tuple(kinds)), columns, rows, bad)


def _objects(cells):
    """Texts of Arrow as an array of objects."""
    return np.array(cells.to_pylist(), dtype=object)


def _kind_of_both(one, other):
    """The kind of a column of values of two kinds, as in an array of objects."""
    kinds = {one, other} - {NOTHING}
    if len(kinds) < 2:
        return kinds.pop() if kinds else NOTHING
    return NUMBER if kinds == {NUMBER, TRUTH} else TEXT


def _are_kept(values):
    """Which of some distinct values, in order, are kept."""
    is_text = values.dtype.kind == "O"
    sizes = np.array([len(text) for text in values.tolist()]) if is_text else np.zeros(len(values))
    if len(values) <= _MOST_VALUES and sizes.sum() <= _MOST_CHARACTERS:
        return np.ones(len(values), dtype=bool)
    if is_text:
        digests = [blake2b(text.encode(), digest_size=8).digest() for text in values.tolist()]
        hashes = np.frombuffer(b"".join(digests), np.uint64)
    else:
        hashes = row_hash(values[:, None].astype(np.float64), 0)
    order = np.argsort(hashes, kind="stable")
    kept = np.zeros(len(values), dtype=bool)
    kept[order[:_MOST_VALUES][np.cumsum(sizes[order])[:_MOST_VALUES] <= _MOST_CHARACTERS]] = True
    if not is_text:
        kept[:_LOWEST] = kept[-_HIGHEST:] = True
    return kept
