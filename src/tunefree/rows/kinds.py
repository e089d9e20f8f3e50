"""What a column is, how its cells are written, and how new cells are read.

Cells that are not of the kind of their column are missing, and bad.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.arrow import compute, pa
from tunefree.core.format import listed
from tunefree.rows.columns import (
    CATEGORY,
    DATE,
    DURATION,
    NOTHING,
    NUMBER,
    PLAIN,
    TEXT,
    TRUTH,
    RawColumn,
    TextLevels,
    Texts,
    are_other_zones,
    as_texts,
)
from tunefree.rows.missing import MISSING
from tunefree.rows.written_dates import Dates, zones_among
from tunefree.rows.written_durations import Durations
from tunefree.rows.written_numbers import Numbers

KINDS = NUMBER, TRUTH, DATE, DURATION, CATEGORY, TEXT
# Columns that a message names.
NAMED = 5
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
# Cells that mean a missing value among numbers, dates and truth values, whatever their share.
AMONG_NUMBERS = MISSING | {
    "n.a.", "n.a", "n/d", "nd", "not available", "not applicable", "missing", "unknown", "unk",
    "undefined", "<na>", "(null)", "nil", "*", "**", "***", "...", "#div/0!", "#value!", "#ref!",
    "#name?", "#num!", "#null!", "inf", "+inf", "-inf", "infinity", "-infinity", "1.#qnan",
    "-1.#ind", "1.#ind", "-nan", "#na", "error", "k.a.", "k. a.", "s/d", "n.v.t.",
    # Errors of spreadsheets in other languages, and the missing values of Stata.
    "#wert!", "#bezug!", "#zahl!", "#nv", "#valeur!", "#nombre!", "#nom?", "#valor!", "#¡valor!",
    "#¡ref!", "#¡div/0!", "#¡num!", "#¿nombre?", "#n/d", "#valore!", "#rif!", "#nome?", "#n/b",
    "#waarde!", "#verw!", "#getal!", "#arg!", "#adr!", "#liczba!", "#calc!", "#spill!", "#null",
    *(f".{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"),
}  # fmt: skip
# Numbers that stand for a missing value where they stand apart from all others.
SENTINELS = -99.0, -200.0, -999.0, -9999.0, -99999.0, -999999.0
# Those that may, and are only noted: a number above all others may be a limit.
HIGH_MARKERS = 999.0, 9999.0, 99999.0, 999999.0, 999.9, 9999.9, 999.99, 9999.99, 99999.99
# Days that are written as numbers of eight digits, with the year first, or last: 1011900.
FIRST_DAY, LAST_DAY = 19000101, 21001231
LEAST_DAY, MOST_DAY = 1011900, 31122099
SECONDS = 10**6  # of fourteen digits the last six are the time: 20190103235959
# New rows of which more are no numbers, in so many rows, hold something else than numbers.
_MOST_BAD, _FEWEST_ROWS = 0.5, 2

# A level that is a whole number without zeros in front, which would be digits of a name.
_WHOLE = r"^(?P<digits>-?(?:0|[1-9]\d*))(?P<ending>(?:[.,]0)?)$"

# Whether infinite values are ordered like others, as trees do, and not refused.
_ORDERS_INFINITY: ContextVar[bool] = ContextVar("orders_infinity", default=False)
_LARGEST = np.finfo(np.float64).max

# How the cells of a kind may be written.
_WRITTEN: Any = {NUMBER: Numbers, DATE: Dates, DURATION: Durations}


class ColumnValues(NamedTuple):
    """A column that is read: numbers (days of dates), or the levels of text and their codes."""

    kind: str
    values: Any  # 0 where missing; None of text and categories
    missing: Any
    levels: Any = None
    codes: Any = None  # -1 where missing
    bad: Any = None  # rows with a cell that is not of the kind, which are missing
    zone: Any = None  # of dates, if it is another one than in the fit

    def filled(self, missing):
        """Levels in order, and the code of every row; `missing` is a level where there is none."""
        if not (self.codes < 0).any():
            return self.levels, self.codes
        levels = np.array([*self.levels, missing], dtype=object)
        order = np.argsort(levels.astype(str), kind="stable")
        place = np.empty(len(levels), dtype=np.int64)
        place[order] = np.arange(len(levels))
        return levels[order], place[self.codes]


class ColumnKind(NamedTuple):
    """What a column is, and how its cells are written.

    Attributes
    ----------
    kind : str
        'number', 'truth', 'date', 'duration', 'category', 'text' or 'nothing'. A container or the
        user declares categories; other text is 'text'.
    written : Numbers, Dates, Durations or None
        How numbers, dates or durations are written; None if the container has their type.
    markers : tuple of str
        Cells that meant a missing value, as they are written.
    sentinels : tuple of float
        Numbers that mean a missing value.
    levels : tuple of str or None
        The levels of an ordered category, in order.
    zone : str or None
        The time zones of dates, whose local time counts.
    whole : bool
        Whether all numbers are whole.
    numeric : bool
        Whether some levels of a category or of text are numbers.
    note : str or None
        What a person should look at.
    whole_ending : str or None
        What follows the digits of levels that are whole numbers: "" of 3, ".0" of 3.0; None if
        there are none, or if they are written in several ways.
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
    whole_ending: Any = None

    def words(self):
        """The kind in words, and how cells are written.

        >>> ColumnKind("number").words()
        'number'
        """
        more = []
        if self.written is not None:
            more = [self.written.words().removeprefix(f"{_PLURAL[self.kind]} ")]
        if self.kind == NUMBER and self.whole and not more:
            more = ["whole numbers"]
        if self.zone is not None and not getattr(self.written, "has_offsets", False):
            more.append(f"in {self.zone}")
        if self.levels is not None:
            more.append(f"in order: {listed(list(self.levels))}")
        missing = [*self.markers, *(f"{value:g}" for value in self.sentinels)]
        if missing:
            more.append(f"missing: {listed([repr(m) for m in missing])}")
        return self.kind + (f" ({', '.join(more)})" if more else "")

    def read(self, raw: RawColumn, name: str, is_new: bool = True) -> ColumnValues:
        """The values of rows; what is not of the kind is missing and `bad`.

        Rows that are not new are a part of those of the fit, whose kind is known.

        Raises
        ------
        ValueError
            If the rows hold another kind. The message names both.
        """
        if self.kind in (CATEGORY, TEXT):
            return self._read_levels(raw, name)
        if raw.kind == NOTHING or self.kind == NOTHING:
            return self._read_nothing(raw)
        if raw.texts is None:
            found = self._read_values(raw, name)
        else:
            found = self._read_cells(raw, name, is_new)
        return found._replace(zone=self._other_zone(raw))

    def _other_zone(self, raw):
        """The time zone of dates, if it is another one than in the fit."""
        if self.kind != DATE or self.zone is None:
            return None
        zone = raw.zone if raw.texts is None else zones_among(raw.cells)
        return zone if are_other_zones(self.zone, zone) else None

    def _read_nothing(self, raw):
        n = len(raw.missing)
        return ColumnValues(self.kind, np.zeros(n), np.ones(n, dtype=bool), bad=~raw.missing)

    def _read_levels(self, raw: Any, name):
        """Texts as they are; numbers and truth values as text."""
        if raw.kind == NOTHING:
            n = len(raw.missing)
            return ColumnValues(
                self.kind, None, raw.missing, np.array([], dtype=object), np.full(n, -1)
            )
        if raw.texts is None:
            is_number = raw.kind in (NUMBER, TRUTH) and (self.numeric or raw.kind == TRUTH)
            if not is_number and not raw.missing.all():
                raise _changed(name, _PLURAL[self.kind], raw)
            raw = as_levels(raw)
        distinct, codes, *_ = self._as_learned(raw.texts)
        is_marker = are_markers(distinct, self.markers, MISSING)
        if is_marker.any():
            codes = np.where(np.append(is_marker, False)[codes], -1, codes)
        levels = distinct.to_numpy(zero_copy_only=False)
        return ColumnValues(self.kind, None, codes < 0, levels, codes)

    def _as_learned(self, texts):
        """Levels in the order of their texts, whatever order a container has.

        Whole numbers are written as in the fit: a gap makes pandas write 3.0 for 3.
        """
        levels = texts.levels()
        names = levels.distinct
        if self.whole_ending is not None:
            names = with_ending(names, self.whole_ending)
        if levels is not texts and names.equals(levels.distinct):
            return levels
        found = Texts(names).levels()
        return TextLevels(found.distinct, np.append(found.codes, -1)[levels.codes])

    def _read_values(self, raw, name):
        """Numbers, dates or durations by their type."""
        values, missing = raw.values, raw.absent
        same = raw.kind == self.kind or {raw.kind, self.kind} == {NUMBER, TRUTH}
        days = raw.values[~missing]
        of_digits = raw.kind == NUMBER and self.written is not None and bool(len(days))
        if self.kind == DATE and of_digits and days.min() >= LEAST_DAY:
            return self._read_cells(as_levels(raw), name, True)
        if not same and not missing.all():
            raise _changed(name, _PLURAL[self.kind], raw)
        if np.isinf(values).any():
            if not _ORDERS_INFINITY.get():
                row = int(np.argmax(np.isinf(values)))
                raise ValueError(
                    "Input X contains infinity or a value too large, in column "
                    f"{name!r}, row {row}: give NaN if it means a missing value."
                )
            values = np.clip(values, -_LARGEST, _LARGEST)
        for value in self.sentinels:
            missing = missing | (values == value)
        if missing is not raw.absent:
            values = np.where(missing, 0.0, values)
        return ColumnValues(self.kind, values, missing)

    def _read_cells(self, raw, name, is_new):
        """Text that stands for numbers, dates or truth values."""
        if self.kind == NUMBER and (self.written is None or self.written.is_plain):
            found = self._read_plain(raw)
            if found is not None:
                return found
        marked = are_markers(raw.cells, self.markers, AMONG_NUMBERS)
        values = np.full(len(marked), np.nan)
        if not marked.all():
            values[~marked] = self._values_of(raw, marked)[~marked]
        codes: Any = raw.codes
        of_row = np.append(values, np.nan)[codes]
        is_stray = np.append(np.isnan(values) & ~marked, False)[codes]
        present = np.count_nonzero(np.append(~marked, False)[codes])
        if is_new and present >= _FEWEST_ROWS and np.count_nonzero(is_stray) > _MOST_BAD * present:
            held = _PLURAL[self.kind]
            if self.kind == NUMBER and self.written is not None:
                held = self.written.words()
            raise _changed(name, held, raw, int(np.argmax(is_stray)))
        is_known = are_markers(raw.cells, self.markers, MISSING)
        bad = np.append(np.isnan(values) & ~is_known, False)[codes]
        return self._read_numbers(of_row, np.isnan(of_row), bad)

    def _read_plain(self, raw):
        """Plain numbers beside markers of missing values; None if other cells are there, too."""
        plain = raw.plain
        if plain is None or not are_markers(plain.others, self.markers, AMONG_NUMBERS).all():
            return None
        if are_plain(as_texts([*self.markers])).any():  # some numbers mean a missing value
            return None
        is_known = are_markers(plain.others, self.markers, MISSING)
        bad = np.append(~is_known, False)[plain.codes]
        return self._read_numbers(plain.values, ~plain.found, bad)

    def _read_numbers(self, values, missing, bad):
        """Numbers, or days, of which some may be sentinels."""
        for value in self.sentinels:
            missing = missing | (values == value)
        return ColumnValues(self.kind, np.where(missing, 0.0, values), missing, bad=bad)

    def _values_of(self, raw, marked):
        """The values of distinct cells, NaN where they are not of the kind."""
        if self.kind == TRUTH:  # 1 and 0 as a file may have them, or numbers of any container
            plain = are_plain(raw.cells)
            cells = compute.if_else(pa.array(plain), raw.cells, "0").cast(pa.float64())
            return np.where(plain, cells.to_numpy(), truths(raw.cells))
        if self.written is not None:
            return raw.texts.values(self.written, ~marked)
        # The rows of `fit` had the type of numbers, dates or durations: no way of writing is known.
        cells, counts = raw.cells.filter(pa.array(~marked)), rows_of_levels(raw)[~marked]
        learned = _WRITTEN[self.kind].of(cells, counts)
        if learned is not None:
            return raw.texts.values(learned, ~marked)
        # Where hardly a cell is of the kind, "1.5" is still a number.
        values = raw.texts.values(_WRITTEN[self.kind](), ~marked)
        if self.kind == NUMBER:  # truth values count as 0 and 1 among numbers of any container
            values = np.where(np.isnan(values), truths(raw.cells), values)
        return values


PLAIN_NUMBER = ColumnKind(NUMBER)


@contextmanager
def infinity_ordered():
    """Read infinite numbers as the largest, for a learner that knows only the order of numbers.

    >>> from tunefree.rows.columns import of_array
    >>> with infinity_ordered():
    ...     values = PLAIN_NUMBER.read(of_array(np.array([1.0, np.inf])), "x").values
    >>> values
    array([1.00000000e+000, 1.79769313e+308])
    """
    before = _ORDERS_INFINITY.set(True)
    try:
        yield
    finally:
        _ORDERS_INFINITY.reset(before)


class UnknownLevel(NamedTuple):
    """The cells of a column with levels that `fit` has not seen."""

    column: str
    count: int
    row: int  # the first
    level: str

    def words(self):
        """A sentence.

        >>> UnknownLevel("city", 2, 7, "Oslo").words()
        "column 'city' in 2 cells, the first 'Oslo' in row 7"
        """
        cells = "1 cell" if self.count == 1 else f"{self.count} cells"
        return f"column {self.column!r} in {cells}, the first {self.level!r:.40} in row {self.row}"

    @classmethod
    def of(cls, column, is_unknown, levels, codes):
        """Of the levels that are not known, and the level of each row; None if no row has one.

        >>> UnknownLevel.of("city", np.array([False, True]), ["Rome", "Oslo"], np.array([0, 1, -1]))
        UnknownLevel(column='city', count=1, row=1, level='Oslo')
        """
        rows = np.flatnonzero(np.append(is_unknown, False)[codes])
        if not len(rows):
            return None
        return cls(str(column), len(rows), int(rows[0]), str(levels[codes[rows[0]]]))


def unknown_words(found, what="Levels that fit has not seen count as missing"):
    """The message about levels that are not known, of the `UnknownLevel` of each column.

    >>> unknown_words([UnknownLevel("a", 1, 7, "x")])
    "Levels that fit has not seen count as missing: column 'a' in 1 cell, the first 'x' in row 7."
    """
    words = "; ".join(one.words() for one in found[:NAMED])
    more = f"; and in {len(found) - NAMED} more columns" if len(found) > NAMED else ""
    return f"{what}: {words}{more}."


def zone_words(found):
    """The message about dates in other time zones: the column, the zones of the fit, and the new.

    >>> zone_words([("day", "Europe/Rome", "UTC")]).partition(".")[0]
    "Dates in another time zone: column 'day', in Europe/Rome in fit and in UTC here"
    """
    words = [f"column {name!r}, in {known} in fit and in {new} here" for name, known, new in found]
    more = f"; and {len(found) - NAMED} more columns" if len(found) > NAMED else ""
    return (
        f"Dates in another time zone: {'; '.join(words[:NAMED])}{more}. The local time counts: "
        "convert them to the zone of the fit if instants matter."
    )


# --- cells ----------------------------------------------------------------------------------------


def all_whole(values):
    """Whether numbers are whole; the first ones decide in most columns."""
    head = values[:100]
    return bool(np.all(head == np.floor(head)) and np.all(values == np.floor(values)))


def truths(cells):
    """1 and 0 for true and false, NaN for other cells."""
    place = compute.index_in(compute.utf8_lower(cells), pa.array(["false", "true"]))
    return place.cast(pa.float64()).fill_null(np.nan).to_numpy()


def are_markers(cells, own, usual):
    """Which cells mean a missing value: some as they are written, and `usual` ones in any case."""
    found = compute.is_in(compute.utf8_lower(cells), as_texts([*usual]))
    if own:
        found = compute.or_(found, compute.is_in(cells, as_texts([*own])))
    return found.to_numpy(zero_copy_only=False)


def are_plain(cells):
    """Which cells are plain numbers."""
    return compute.match_substring_regex(cells, PLAIN).to_numpy(zero_copy_only=False)


def ending_of_whole(cells):
    """What follows the digits of whole numbers; None if there are none, or several endings.

    >>> [ending_of_whole(pa.array(cells)) for cells in (["3.0", "n"], ["3", "1.5"], ["3", "4.0"])]
    ['.0', '', None]
    """
    found = compute.extract_regex(cells, _WHOLE).drop_null()
    endings = compute.unique(compute.struct_field(found, "ending")).to_pylist()
    return endings[0] if len(endings) == 1 else None


def with_ending(cells, ending):
    """Texts of whole numbers with another ending, and other texts.

    >>> with_ending(pa.array(["3", "04", "5.0", "1.5"]), ".0").to_pylist()
    ['3.0', '04', '5.0', '1.5']
    """
    return compute.replace_substring_regex(cells, _WHOLE, rf"\1{ending}")


def rows_of_levels(raw):
    """How many rows have each level."""
    return np.bincount(raw.codes + 1, minlength=len(raw.cells) + 1)[1:].astype(float)


def weight_of_levels(raw, weights):
    """The weight of the rows of each level."""
    if weights is None:
        return rows_of_levels(raw)
    return np.bincount(raw.codes + 1, weights, minlength=len(raw.cells) + 1)[1:]


def as_levels(raw):
    """Numbers or truth values as text."""
    values, codes = np.unique(raw.values, return_inverse=True)
    names = ["False", "True"] if raw.kind == TRUTH else None
    levels = [names[int(v)] if names else _level(v) for v in values.tolist()]
    codes = np.where(raw.absent, -1, codes)
    return RawColumn(TEXT, texts=TextLevels(as_texts(levels), codes))


def _level(value):
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**63 else repr(value)


class KindChanged(ValueError):
    """A column has become another kind; `now` is what it holds."""

    now = ""


def _changed(name, held, raw, row=None):
    """The error for a column that has become another kind than it `held`."""
    row = int(np.argmin(raw.missing)) if row is None else row
    now = f"{_PLURAL[raw.kind]} such as {raw.text(row)!r:.60}"
    error = KindChanged(f"Column {name!r} held {held} in fit, but now holds {now}.")
    error.now = now
    return error
