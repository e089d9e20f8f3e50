"""What the columns of a table are: learned once, from all rows, and applied to any other rows.

A column holds numbers, truth values, dates, durations, categories, text, or nothing. What the
container knows is kept. Of text all distinct cells decide, never their order: numbers and dates may
be written in many ways (`written_numbers`, `written_dates`), and a few cells that do not fit are
missing values. A schema keeps how the cells of each column are written, so that new rows of any
other container, or of a file, are read in the same way.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import _check_feature_names_in

from tunefree.core.format import listed
from tunefree.core.warn import DataWarning, did_you_mean, warn
from tunefree.rows.columns import (
    CATEGORY,
    DATE,
    DURATION,
    NOTHING,
    NUMBER,
    TEXT,
    TRUTH,
    WITH_VALUES,
    RawColumn,
    raw_columns,
)
from tunefree.rows.missing import MISSING
from tunefree.rows.written_dates import Dates
from tunefree.rows.written_numbers import Numbers

KINDS = NUMBER, TRUTH, DATE, DURATION, CATEGORY, TEXT
# Kinds of columns that are numbers without more ado.
WITH_NUMBERS = NUMBER, TRUTH, DURATION, NOTHING
_PLURAL = {
    NUMBER: "numbers",
    TRUTH: "truth values",
    DATE: "dates",
    DURATION: "durations",
    CATEGORY: "categories",
    TEXT: "text",
    NOTHING: "nothing",
}
# A column of numbers or dates may have this share of cells that are none, and count as missing.
MOST_STRAY = 0.2
# With fewer distinct numbers, a text among them may be a level: 1, 2, 3 and "unknown".
_DISTINCT = 20
_FEWEST_CODES = 3
# Cells that mean a missing value among numbers, dates and truth values, whatever their share.
_AMONG_NUMBERS = MISSING | {
    "n.a.", "n.a", "n/d", "nd", "not available", "not applicable", "missing", "unknown", "unk",
    "undefined", "<na>", "(null)", "nil", "*", "**", "***", "...", "#div/0!", "#value!", "#ref!",
    "#name?", "#num!", "#null!", "inf", "+inf", "-inf", "infinity", "-infinity", "1.#qnan",
    "-1.#ind", "1.#ind", "-nan", "#na", "error",
}  # fmt: skip
# Numbers that stand for a missing value where they stand apart from all others.
_SENTINELS = -99.0, -200.0, -999.0, -9999.0, -99999.0, -999999.0
_FEWEST_SENTINELS = 3
# Numbers of eight digits are dates if so many distinct ones are all days of these years.
_FEWEST_DAYS, _FIRST_DAY, _LAST_DAY = 10, 19000101, 21001231
# New rows of which more are no numbers, in so many rows, hold something else than numbers.
_MOST_BAD, _FEWEST_ROWS = 0.5, 2
# A column of text with this share of numbers is noted.
_MOSTLY = 0.5
# Columns that a message names.
_NAMED = 5


class BadCells(DataWarning):
    """Cells that are not of the kind of their column, and count as missing.

    Attributes
    ----------
    found : list of BadColumn
    """

    def __init__(self, found):
        self.found = found
        super().__init__(bad_words(found))


class BadColumn(NamedTuple):
    """The cells of a column that are not of its kind."""

    column: str
    kind: str
    count: int
    row: int  # the first
    cell: str

    def words(self, place):
        """A sentence; `place` is where the first one stands."""
        cells = "1 cell is" if self.count == 1 else f"{self.count} cells are"
        what = {NUMBER: "no number", DATE: "no date", TRUTH: "no truth value"}.get(self.kind, "bad")
        return f"column {self.column!r}: {cells} {what}, the first {self.cell!r} in {place}"


def bad_words(found, place=lambda row: f"row {row}"):
    """The message about bad cells; `place` names a row.

    >>> bad_words([BadColumn("a", "number", 2, 7, "n.a.")])
    "Cells that count as missing: column 'a': 2 cells are no number, the first 'n.a.' in row 7."
    """
    words = [bad.words(place(bad.row)) for bad in found[:_NAMED]]
    more = f"; and in {len(found) - _NAMED} more columns" if len(found) > _NAMED else ""
    return f"Cells that count as missing: {'; '.join(words)}{more}."


class Values(NamedTuple):
    """A column that is read: numbers (days of dates), or the levels of text and their codes."""

    kind: str
    values: Any  # 0 where missing; None of text and categories
    missing: Any
    levels: Any = None
    codes: Any = None  # -1 where missing
    bad: Any = None  # rows with a cell that is not of the kind, which are missing

    def filled(self, missing):
        """Levels in order, and the code of every row; `missing` is a level where there is none."""
        if not (self.codes < 0).any():
            return self.levels, self.codes
        levels = np.array([*self.levels, missing], dtype=object)
        order = np.argsort(levels.astype(str), kind="stable")
        place = np.empty(len(levels), dtype=np.int64)
        place[order] = np.arange(len(levels))
        return levels[order], place[self.codes]


class Column(NamedTuple):
    """What a column is, and how its cells are written.

    Attributes
    ----------
    kind : str
        'number', 'truth', 'date', 'duration', 'category', 'text' or 'nothing'. A container or the
        user declares categories; other text is 'text'.
    written : Numbers, Dates or None
        How numbers or dates are written; None if the container has their type.
    markers : tuple of str
        Cells that meant a missing value, as they are written.
    sentinels : tuple of float
        Numbers that mean a missing value.
    levels : tuple of str or None
        The levels of an ordered category, in order.
    zone : str or None
        The time zone of dates, whose local time counts.
    whole : bool
        Whether all numbers are whole.
    numeric : bool
        Whether some levels of a category or of text are numbers.
    note : str or None
        What a person should look at.
    """

    kind: str
    written: Any = None
    markers: tuple = ()
    sentinels: tuple = ()
    levels: Any = None
    zone: Any = None
    whole: bool = False
    numeric: bool = False
    note: Any = None

    def words(self):
        """The kind in words, and how cells are written.

        >>> Column("number").words()
        'number'
        """
        more = [self.written.words()] if self.written is not None else []
        if self.kind == NUMBER and self.whole and not more:
            more = ["whole numbers"]
        if self.zone is not None:
            more.append(f"in {self.zone}")
        if self.levels is not None:
            more.append(f"in order: {listed(list(self.levels))}")
        missing = [*self.markers, *(f"{value:g}" for value in self.sentinels)]
        if missing:
            more.append(f"missing: {listed([repr(m) for m in missing])}")
        return self.kind + (f" ({', '.join(more)})" if more else "")

    def read(self, raw: RawColumn, name: str) -> Values:
        """The values of new rows; what is not of the kind is missing and `bad`.

        Raises
        ------
        ValueError
            If the rows hold another kind. The message names both.
        """
        if self.kind in (CATEGORY, TEXT):
            return self._read_levels(raw, name)
        if raw.kind == NOTHING or self.kind == NOTHING:
            return self._read_nothing(raw)
        if raw.codes is None:
            return self._read_values(raw, name)
        return self._read_cells(raw, name)

    def _read_nothing(self, raw):
        n = len(raw.missing)
        return Values(self.kind, np.zeros(n), np.ones(n, dtype=bool), bad=~raw.missing)

    def _read_levels(self, raw: Any, name):
        """Texts as they are; numbers and truth values as text."""
        if raw.kind == NOTHING:
            n = len(raw.missing)
            return Values(self.kind, None, raw.missing, np.array([], dtype=object), np.full(n, -1))
        if raw.codes is None:
            is_number = raw.kind in (NUMBER, TRUTH) and (self.numeric or raw.kind == TRUTH)
            if not is_number and not raw.missing.all():
                raise _changed(name, self.kind, raw)
            raw = _as_levels(raw)
        codes: Any = raw.codes
        is_marker = _are_markers(raw.levels, self.markers, MISSING)
        if is_marker.any():
            codes = np.where(np.append(is_marker, False)[codes], -1, codes)
        return Values(self.kind, None, codes < 0, raw.levels, codes)

    def _read_values(self, raw, name):
        """Numbers, dates or durations by their type."""
        values, missing = raw.values, raw.absent
        same = raw.kind == self.kind or {raw.kind, self.kind} == {NUMBER, TRUTH}
        days = raw.values[~missing]
        of_digits = raw.kind == NUMBER and self.written is not None and bool(len(days))
        if self.kind == DATE and of_digits and days.min() >= _FIRST_DAY:
            return self._read_cells(_as_levels(raw), name)
        if not same and not missing.all():
            raise _changed(name, self.kind, raw)
        if np.isinf(values).any():
            raise ValueError(f"Input X contains infinity or a value too large, in column {name!r}.")
        for value in self.sentinels:
            missing = missing | (values == value)
        if missing is not raw.absent:
            values = np.where(missing, 0.0, values)
        return Values(self.kind, values, missing)

    def _read_cells(self, raw, name):
        """Text that stands for numbers, dates or truth values."""
        marked = _are_markers(raw.levels, self.markers, _AMONG_NUMBERS)
        values = np.full(len(raw.levels), np.nan)
        cells = raw.levels[~marked]
        if len(cells):
            values[~marked] = self._values_of(cells, raw, marked)
        of_row = np.append(values, np.nan)[raw.codes]
        is_stray = np.append(np.isnan(values) & ~marked, False)[raw.codes]
        present = np.count_nonzero(np.append(~marked, False)[raw.codes])
        if present >= _FEWEST_ROWS and np.count_nonzero(is_stray) > _MOST_BAD * present:
            raise _changed(name, self.kind, raw, int(np.argmax(is_stray)))
        is_known = _are_markers(raw.levels, self.markers, MISSING)
        bad = np.append(np.isnan(values) & ~is_known, False)[raw.codes]
        missing = np.isnan(of_row)
        for value in self.sentinels:
            missing |= of_row == value
        return Values(self.kind, np.where(missing, 0.0, of_row), missing, bad=bad)

    def _values_of(self, cells, raw, marked):
        """The values of distinct cells, NaN where they are not of the kind."""
        if self.kind == TRUTH:
            return _truths(cells)
        if self.kind == DURATION:
            return np.full(len(cells), np.nan)
        written = self.written
        if written is None:  # the rows of `fit` had the type of numbers or dates
            counts = _counts(raw)[~marked]
            written = (Numbers if self.kind == NUMBER else Dates).of(_as_cells(cells), counts)
        if written is None:  # truth values count as 0 and 1 among numbers of any container
            return _truths(cells) if self.kind == NUMBER else np.full(len(cells), np.nan)
        return _values_as_written(written, cells)


PLAIN_NUMBER = Column(NUMBER)


class Schema(NamedTuple):
    """The columns of a table.

    Attributes
    ----------
    names : tuple of str
    columns : tuple of Column

    Examples
    --------
    >>> table = np.array([["1,5", "red"], ["2,5", "blue"], ["n.a.", "red"]], dtype=object)
    >>> [column.kind for column in Schema.of(table).columns]
    ['number', 'text']
    """

    names: tuple
    columns: tuple

    @classmethod
    def of(
        cls, X: Any, names: Any = None, weights: Any = None, given: Any = None, *, sentinels=True
    ):
        """Learn the columns of a table.

        Parameters
        ----------
        X : frame, or array of two dimensions
        names : sequence of str, optional
            The names of the columns; by default x0, x1, ...
        weights : ndarray of shape (n_rows,), optional
            Rows of weight 0 do not count, and whole weights are repetitions.
        given : dict, optional
            What is known of some columns: see `check_given`.
        sentinels : bool, default=True
            Whether numbers such as -999 may stand for missing values.
        """
        numbered = (f"x{j}" for j in range(X.shape[1]))
        names = tuple(numbered if names is None else map(str, names))
        given = check_given(given, names)
        used: Any = None
        if weights is not None and not (weights > 0.0).all():
            used = np.flatnonzero(weights > 0.0)
            weights = weights[used]
        columns = []
        for name, raw in _named_columns(X, names):
            raw = raw if used is None else raw.taken(used)
            column = _learned(raw, weights, given.get(name, {}), sentinels)
            columns.append(column._replace(note=_note_of(name, column, raw, weights)))
        return cls(names, tuple(columns))

    @classmethod
    def of_numbers(cls, X: np.ndarray, names: Any) -> Any:
        """The schema of an array of finite numbers; None if a column must be looked at.

        It must be if it may hold sentinels, or dates of eight digits.
        """
        low, high = X.min(axis=0), X.max(axis=0)
        may_be_days = (low >= _FIRST_DAY) & (high <= _LAST_DAY)
        if np.isin(low, _SENTINELS).any() or may_be_days.any():
            return None
        columns = tuple(Column(NUMBER, whole=_all_whole(x)) for x in X.T)
        return cls(tuple(map(str, names)), columns)

    @classmethod
    def of_sparse(cls, names: Any) -> Any:
        """The schema of sparse rows, which hold numbers."""
        names = tuple(map(str, names))
        return cls(names, tuple(Column(NUMBER) for _ in names))

    @property
    def is_of_numbers(self) -> bool:
        """Whether every column is one of numbers: no text, categories or dates."""
        return all(column.kind in WITH_NUMBERS for column in self.columns)

    def as_dict(self) -> dict:
        """What `schema=` takes: for each column its kind and how its cells are written."""
        return {
            name: _as_given(column) for name, column in zip(self.names, self.columns, strict=True)
        }


def names_in(estimator: Any) -> list[str]:
    """The names of the columns of a fit; x0, x1, ... without any."""
    return [str(name) for name in _check_feature_names_in(estimator)]


def read_columns(schema: Schema, X: Any, on_bad_cell: str = "missing") -> list[Values]:
    """The values of every column, with one warning, or an error, about bad cells.

    Parameters
    ----------
    schema : Schema
    X : frame, or array of two dimensions
    on_bad_cell : {'missing', 'error'}

    Warns
    -----
    BadCells
        A `DataWarning` that counts the cells that are not of their column's kind.
    """
    found, bad = [], []
    named: Any = zip(_named_columns(X, schema.names), schema.columns, strict=True)
    for (name, raw), column in named:
        values = column.read(raw, name)
        if values.bad is not None and values.bad.any():
            row = int(np.argmax(values.bad))
            count = int(np.count_nonzero(values.bad))
            bad.append(BadColumn(name, column.kind, count, row, raw.text(row)))
        found.append(values)
    if bad and on_bad_cell == "error":
        raise ValueError(f"{bad_words(bad).removesuffix('.')}, but on_bad_cell='error'.")
    if bad:
        warn(BadCells(bad), BadCells)
    return found


def typed(schema: Schema, columns: list[Values]) -> pa.Table:
    """Columns that were read, as a table of Arrow with the types of their kinds.

    Examples
    --------
    >>> X = np.array([["7%", "red"], ["", "blue"]], dtype=object)
    >>> schema = Schema.of(X)
    >>> typed(schema, read_columns(schema, X)).to_pylist()
    [{'x0': 0.07, 'x1': 'red'}, {'x0': None, 'x1': 'blue'}]
    """
    return pa.table([_arrow_of(column) for column in columns], list(schema.names))


def _arrow_of(column):
    """Values as an array of Arrow."""
    missing = column.missing
    if column.levels is not None:
        texts = np.array([*column.levels, ""], dtype=object)[column.codes]
        return pa.array(texts, pa.string(), mask=missing)
    if column.kind == NOTHING:
        return pa.nulls(len(missing))
    if column.kind in (DATE, DURATION):
        micros = np.round(column.values * 86400e6).astype(np.int64)
        kind = pa.timestamp("us") if column.kind == DATE else pa.duration("us")
        return pa.array(micros, mask=missing).cast(kind)
    is_truth = column.kind == TRUTH and np.isin(column.values, (0.0, 1.0)).all()
    return pa.array(column.values.astype(bool) if is_truth else column.values, mask=missing)


def _named_columns(X, names):
    """The raw columns of a table with their names, which errors name."""
    columns = raw_columns(X)
    for name in names:
        try:
            yield name, next(columns)
        except (TypeError, ValueError) as problem:
            raise type(problem)(f"Column {name!r} {problem}") from None


# --- targets and weights --------------------------------------------------------------------------


def numeric_targets(raw: RawColumn, are_numbers: bool = False) -> Any:
    """Targets of text as numbers; None if they are no numbers.

    Parameters
    ----------
    raw : RawColumn
        A column of text.
    are_numbers : bool, default=False
        Whether they must be numbers.

    Returns
    -------
    ndarray or None
        NaN where a target is missing, infinity where a cell is no number.

    Examples
    --------
    >>> from tunefree.rows.columns import of_array
    >>> column = of_array(np.array(["$5,000", "n.a.", "$7,500"], dtype=object))
    >>> numeric_targets(column, True), numeric_targets(of_array(np.array(["<=50K", ">50K"])))
    (array([5000.,   nan, 7500.]), None)
    """
    if raw.codes is None:
        return np.full(len(raw.missing), np.nan) if are_numbers else None
    marked, values, written = _levels_as_numbers(raw)
    stray = np.isnan(values) & ~marked
    if not are_numbers:
        counts, cells = _counts(raw), np.flatnonzero(~marked)
        if not len(cells) or written is None:
            return None
        if len(cells) <= _DISTINCT and _are_named(written):
            return None
        if stray.any():
            is_rare = counts[stray].sum() <= MOST_STRAY * counts[~marked].sum()
            found, is_stray = raw.levels[cells], stray[cells]
            if not (is_rare and _are_strays(found, values[cells], is_stray, NUMBER)):
                return None
    return np.append(np.where(stray, np.inf, values), np.nan)[raw.codes]


def _are_named(written):
    """Whether a few texts that stand for numbers, such as "4 stars", are names of classes."""
    is_word = written.unit.isalpha() and written.unit == written.unit.lower()
    return is_word or {"ranges", "bounds"} & set(written.styles.split())


def numbers_among(raw: RawColumn) -> np.ndarray:
    """The numbers of a column of text; NaN where a cell is none.

    >>> from tunefree.rows.columns import of_array
    >>> numbers_among(of_array(np.array(["1.5", "x", None], dtype=object)))
    array([1.5, nan, nan])
    """
    if raw.codes is None:
        return np.where(raw.absent, np.nan, raw.values)
    return np.append(_levels_as_numbers(raw)[1], np.nan)[raw.codes]


def _levels_as_numbers(raw):
    """Which levels mean a missing value, the numbers of the others, and how they are written."""
    marked = _are_markers(raw.levels, (), _AMONG_NUMBERS)
    values, written = np.full(len(raw.levels), np.nan), None
    if not marked.all():
        cells = _as_cells(raw.levels[~marked])
        written = Numbers.of(cells, _counts(raw)[~marked])
    if written is not None:
        values[~marked] = _values_as_written(written, raw.levels[~marked])
    return marked, values, written


# --- what the user knows --------------------------------------------------------------------------


_KEYS = ("kind", "day_first", "markers", "levels", "written")


def check_given(given: Any, names: Any) -> dict:
    """What the user knows of columns, as a dict of dicts.

    Parameters
    ----------
    given : dict or None
        For a column its kind, or a dict of: ``kind``; ``day_first``, of dates; ``markers``, cells
        that mean a missing value; ``levels``, those of a category in order; ``written``, how
        numbers or dates are written, as another schema has it.
    names : sequence of str

    Raises
    ------
    ValueError
        If a column, a key or a kind is not known.

    Examples
    --------
    >>> check_given({"zip": "category"}, ["zip"])
    {'zip': {'kind': 'category'}}
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"schema={given!r:.80} is no dict of columns.")
    found = {}
    for name, facts in given.items():
        if str(name) not in names:
            meant = did_you_mean(str(name), list(names), " Did you mean {}?") or ""
            raise ValueError(f"schema= names {name!r}, which is no column.{meant}")
        facts = {"kind": facts} if isinstance(facts, str) else dict(facts)
        if unknown := set(facts) - {*_KEYS}:
            raise ValueError(
                f"schema= has {min(unknown)!r} for {name!r}: give some of {', '.join(_KEYS)}."
            )
        if "kind" in facts and facts["kind"] not in (*KINDS, NOTHING):
            raise ValueError(
                f"schema= has the kind {facts['kind']!r} for {name!r}: give one of "
                f"{', '.join(KINDS)}."
            )
        found[str(name)] = facts
    return found


def _as_given(column):
    """A column as a user gives it."""
    facts: dict[str, Any] = {"kind": column.kind}
    if column.written is not None:
        facts["written"] = {"as": type(column.written).__name__} | column.written._asdict()
    if column.markers or column.sentinels:
        facts["markers"] = [*column.markers, *column.sentinels]
    if column.levels is not None:
        facts["levels"] = list(column.levels)
    return facts


def _written_of(facts):
    """How cells are written, by what the user gives."""
    if not facts.get("written"):
        return None
    written = dict(facts["written"])
    kind = {"Numbers": Numbers, "Dates": Dates}[written.pop("as", "Numbers")]
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in written.items()})


# --- learning -------------------------------------------------------------------------------------


def _learned(raw, weights, facts, sentinels):
    """The `Column` of a raw one."""
    kind = facts.get("kind")
    if kind in (CATEGORY, TEXT):
        return _learned_levels(raw, kind, facts)
    if raw.codes is not None and (kind is not None or raw.kind == TEXT):
        column = _learned_cells(raw, _weighed(raw, weights), facts)
    elif raw.kind == CATEGORY:
        return _learned_levels(raw, CATEGORY, facts)
    elif raw.kind == NUMBER and kind in (None, DATE) and _are_days(raw):
        cells = _as_levels(raw)
        column = _learned_cells(cells, _weighed(cells, weights), {**facts, "kind": DATE})
    elif kind is not None and raw.kind not in (kind, NOTHING) and raw.kind == DATE:
        raise ValueError(f"schema= has the kind {kind!r} for a column of dates.")
    else:
        whole = raw.kind == NUMBER and _all_whole(raw.values)
        column = Column(kind or raw.kind, zone=raw.zone, whole=whole)
    if column.kind != NUMBER:
        return column
    return column._replace(sentinels=_sentinels_of(column, raw, facts, sentinels))


def _learned_levels(raw, kind, facts):
    """A column of categories or text."""
    if raw.codes is None and raw.kind != NOTHING:
        raw = _as_levels(raw)
    levels = facts.get("levels", raw.levels.tolist() if raw.ordered else None)
    levels = None if levels is None else tuple(levels)
    markers = tuple(str(m) for m in facts.get("markers", ()))
    return Column(kind, levels=levels, markers=markers, numeric=_some_are_numbers(raw.levels))


def _some_are_numbers(levels):
    """Whether some levels are numbers as a container of numbers writes them."""
    for level in () if levels is None else levels.tolist():
        try:
            float(level)
        except ValueError:
            continue
        return True
    return False


def _learned_cells(raw, counts, facts):
    """What text is: numbers, truth values, dates, or text."""
    wanted, given = facts.get("kind"), facts.get("markers")
    used = counts > 0.0
    own = None if given is None else tuple(str(m) for m in given if isinstance(m, str))
    marked = _are_markers(raw.levels, own or (), _AMONG_NUMBERS if own is None else frozenset([""]))
    cells, counts = raw.levels[used & ~marked], counts[used & ~marked]
    if not len(cells):
        # A column of "unknown" alone is text: new rows may have other levels.
        is_nothing = used.any() and _are_markers(raw.levels[used], own or (), MISSING).all()
        return Column(wanted or (NOTHING if is_nothing else TEXT))
    markers = own if own is not None else tuple(raw.levels[used & marked].tolist())
    written = _written_of(facts)
    if written is not None:
        kind = wanted or (NUMBER if isinstance(written, Numbers) else DATE)
        return Column(kind, written, markers)
    if wanted in (None, TRUTH) and not np.isnan(_truths(cells)).any():
        return Column(TRUTH, markers=markers)
    column = _numbers_or_dates(cells, counts, wanted, facts.get("day_first"))
    if column is None and wanted is not None:
        column = Column(wanted)
    if column is None:
        marked = _are_markers(cells, (), MISSING)
        levels = cells[~marked] if own is None else cells
        return Column(TEXT, markers=own or (), numeric=_some_are_numbers(levels))
    return column._replace(markers=markers)


def _numbers_or_dates(cells, counts, wanted, day_first):
    """The `Column` of cells that are numbers or dates, but for a few; None of others."""
    texts, best, fewest = _as_cells(cells), None, 1.0 if wanted else MOST_STRAY
    for kind in (NUMBER, DATE):
        if wanted not in (None, kind):
            continue
        if kind == NUMBER:
            written = Numbers.of(texts, counts)
        else:
            written = Dates.of(texts, counts, day_first)
        if written is None:
            continue
        values = _values_as_written(written, cells)
        stray = np.isnan(values)
        share = counts[stray].sum() / counts.sum()
        fits = wanted is not None or not stray.any() or _are_strays(cells, values, stray, kind)
        # Of two readings without strays the one as dates counts: 20190103 is a number, too.
        if fits and (share < fewest or (best is None and share <= fewest) or share == 0.0):
            whole = kind == NUMBER and _all_whole(values[~stray])
            is_plain = kind == NUMBER and written.is_plain
            best, fewest = Column(kind, None if is_plain else written, whole=whole), share
            if is_plain and share == 0.0 and values.max() < _FIRST_DAY:
                return best  # no need to look for dates, which takes longer
    return best


def _are_strays(cells, values, stray, kind):
    """Whether cells that are no numbers or dates look like markers, not like codes or levels.

    Codes such as 84030E among 22423 are several distinct texts that begin with a digit.
    """
    if kind == DATE:
        return len(np.unique(values[~stray])) > 2
    if len(np.unique(values[~stray])) <= _DISTINCT:
        return False
    texts = cells[stray].tolist()
    n_codes = sum(text[0].isdigit() and text[-1].isalpha() and " " not in text for text in texts)
    whole = np.all(values[~stray] == np.floor(values[~stray]))
    return not (whole and n_codes >= _FEWEST_CODES and n_codes > 0.5 * len(texts))


def _are_days(raw):
    """Whether numbers are days written with eight digits, such as 20190103."""
    values = np.unique(raw.values[~raw.absent])
    if len(values) < _FEWEST_DAYS or values[0] < _FIRST_DAY or values[-1] > _LAST_DAY:
        return False
    if not np.all(values == np.floor(values)):
        return False
    year, month, day = values // 10000, values // 100 % 100, values % 100
    if not (np.all((month >= 1) & (month <= 12)) and np.all((day >= 1) & (day <= 31))):
        return False
    return len(np.unique(100 * year + month)) > 1


def _sentinels_of(column, raw, facts, sentinels):
    """Numbers such as -999 that stand apart from all others, and occur several times."""
    if facts.get("markers") is not None:
        return tuple(float(m) for m in facts["markers"] if isinstance(m, int | float))
    if not sentinels:
        return ()
    if raw.codes is None:
        values = raw.values[~raw.absent]
    else:
        read = column.read(raw, "")
        values = read.values[~read.missing]
    if not len(values) or values.min() not in _SENTINELS:
        return ()
    low = values.min()
    others = values[values > low]
    n = np.count_nonzero(values == low)
    if n < _FEWEST_SENTINELS or not len(others):
        return ()
    apart = others.min() >= 0.0 or others.min() - low > 2.0 * np.ptp(others)
    return (float(low),) if apart else ()


# --- cells ----------------------------------------------------------------------------------------


def _as_cells(levels):
    return pa.array(levels.tolist(), pa.string())


def _values_as_written(written, cells):
    """The values of distinct cells as numbers, or as days; NaN where they are none."""
    values = written.values(_as_cells(cells))
    if values.dtype.kind != "M":
        return np.where(np.isfinite(values), values, np.nan)
    days = (values - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    return np.where(np.isnat(values), np.nan, days)


def _all_whole(values):
    """Whether numbers are whole; the first ones decide in most columns."""
    head = values[:100]
    return bool(np.all(head == np.floor(head)) and np.all(values == np.floor(values)))


def _truths(cells):
    known = {"true": 1.0, "false": 0.0}
    return np.array([known.get(cell.lower(), np.nan) for cell in cells.tolist()])


def _are_markers(levels, own, usual):
    """Which levels mean a missing value."""
    own = {*own}
    found = [level in own or level.lower() in usual for level in levels.tolist()]
    return np.array(found, dtype=bool)


def _counts(raw):
    """How many rows have each level."""
    return np.bincount(raw.codes[raw.codes >= 0], minlength=len(raw.levels)).astype(float)


def _weighed(raw, weights):
    """The weight of the rows of each level."""
    if weights is None:
        return _counts(raw)
    known = raw.codes >= 0
    return np.bincount(raw.codes[known], weights[known], minlength=len(raw.levels))


def _as_levels(raw):
    """Numbers or truth values as text."""
    values, codes = np.unique(raw.values, return_inverse=True)
    names = ["False", "True"] if raw.kind == TRUTH else None
    levels = [names[int(v)] if names else _level(v) for v in values.tolist()]
    codes = np.where(raw.absent, -1, codes)
    return RawColumn(TEXT, levels=np.array(levels, dtype=object), codes=codes)


def _level(value):
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**63 else repr(value)


def _changed(name, kind, raw, row=None):
    """The error for a column that has become another kind."""
    row = int(np.argmin(raw.missing)) if row is None else row
    now = _PLURAL[raw.kind]
    return ValueError(
        f"Column {name!r} held {_PLURAL[kind]} in fit, but now holds {now} such as "
        f"{raw.text(row)!r:.60}."
    )


def _note_of(name, column, raw, weights):
    """What a person should look at; None if there is nothing."""
    notes = []
    unusual = [marker for marker in column.markers if marker.lower() not in MISSING]
    if unusual and column.kind in WITH_VALUES and raw.codes is not None:
        rows = np.append(_are_markers(raw.levels, unusual, ()), False)[raw.codes]
        notes.append(
            f"{listed([repr(marker) for marker in unusual])} counts as missing, in "
            f"{np.count_nonzero(rows)} rows. schema={{{name!r}: 'category'}} makes it a level."
        )
    if column.sentinels:
        values = listed([f"{value:g}" for value in column.sentinels])
        notes.append(
            f"{values} stands apart and counts as missing. schema={{{name!r}: {{'markers': []}}}} "
            "keeps it as a number."
        )
    if column.kind == DATE and getattr(column.written, "is_ambiguous", False):
        order, other = ("day", False) if column.written.day_first else ("month", True)
        notes.append(
            f"day and month of its dates could be either way round, and the {order} is read first. "
            f"schema={{{name!r}: {{'day_first': {other}}}}} changes this."
        )
    if column.kind == TEXT and raw.kind == TEXT:
        notes += _notes_of_text(name, raw, _weighed(raw, weights))
    return " ".join(notes) or None


def _notes_of_text(name, raw, counts):
    """A note about a column of text most of whose cells are numbers."""
    marked = _are_markers(raw.levels, (), _AMONG_NUMBERS) | (counts <= 0.0)
    cells, counts = raw.levels[~marked], counts[~marked]
    written = Numbers.of(_as_cells(cells), counts) if len(cells) else None
    if written is None:
        return []
    stray = np.isnan(_values_as_written(written, cells))
    share = 1.0 - counts[stray].sum() / counts.sum()
    if share < _MOSTLY or not stray.any():
        return []
    return [
        f"{100.0 * share:.0f} % of its cells are numbers, but {cells[stray][0]!r:.40} is none: it "
        f"is read as text. schema={{{name!r}: 'number'}} reads numbers, and counts others as "
        "missing."
    ]
