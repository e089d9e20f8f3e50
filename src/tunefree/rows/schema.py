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
from pyarrow import compute
from sklearn.utils.validation import _check_feature_names_in

from tunefree.core.warn import DataWarning, did_you_mean, warn
from tunefree.rows.checks import Finding, warn_of
from tunefree.rows.columns import (
    DATE,
    DURATION,
    NOTHING,
    NUMBER,
    TRUTH,
    RawColumn,
    as_numbers,
    of_array,
    raw_columns,
)
from tunefree.rows.kinds import (
    AMONG_NUMBERS,
    FIRST_DAY,
    HIGH_MARKERS,
    KINDS,
    LAST_DAY,
    LEAST_DAY,
    MOST_DAY,
    NAMED,
    SECONDS,
    SENTINELS,
    WITH_NUMBERS,
    ColumnKind,
    ColumnValues,
    KindChanged,
    all_whole,
    are_markers,
    rows_of_levels,
    unknown_words,
    zone_words,
)
from tunefree.rows.learned_kinds import (
    FEW_NUMBERS,
    MOST_STRAY,
    are_strays,
    learned_kind,
    note_of,
    notes_of_columns,
)
from tunefree.rows.order import in_units_of_rows
from tunefree.rows.written_numbers import Numbers, are_grouped


class BadCells(DataWarning):
    """Cells that are not of the kind of their column, and count as missing.

    Attributes
    ----------
    found : list of BadColumn
    """

    def __init__(self, found):
        self.found = found
        super().__init__(bad_words(found))


class UnknownLevels(DataWarning):
    """Levels of new rows that `fit` has not seen, and that count as missing.

    Attributes
    ----------
    found : list of UnknownLevel
    """

    def __init__(self, found):
        self.found = found
        super().__init__(unknown_words(found))


def warn_of_notes(schema):
    """Warn of what a person should look at in the columns of a `Schema`."""
    warn_of([Finding(*one) for one in notes_of_columns(schema.names, schema.columns)])


def warn_of_unknown(found):
    """One warning about the `UnknownLevel`s among some findings."""
    found = [one for one in found if one is not None]
    if found:
        warn(UnknownLevels(found), UnknownLevels)


class BadColumn(NamedTuple):
    """The cells of a column that are not of its kind."""

    column: str
    kind: str
    count: int
    row: Any  # the first, or its place in a file; None if it is not known
    cell: str

    def words(self, place):
        """A sentence; `place` names the row where the first one stands."""
        cells = "1 cell is" if self.count == 1 else f"{self.count} cells are"
        what = {NUMBER: "no number", DATE: "no date", TRUTH: "no truth value"}.get(self.kind, "bad")
        example = "such as" if self.row is None else "the first"
        where = "" if self.row is None else f" in {place(self.row)}"
        return f"column {self.column!r}: {cells} {what}, {example} {self.cell!r}{where}"


def bad_words(found, place=lambda row: f"row {row}"):
    """The message about bad cells; `place` names a row.

    >>> bad_words([BadColumn("a", "number", 2, 7, "n.a.")])
    "Cells that count as missing: column 'a': 2 cells are no number, the first 'n.a.' in row 7."
    """
    words = [bad.words(place) for bad in found[:NAMED]]
    more = f"; and in {len(found) - NAMED} more columns" if len(found) > NAMED else ""
    return f"Cells that count as missing: {'; '.join(words)}{more}."


class Schema(NamedTuple):
    """The columns of a table.

    Attributes
    ----------
    names : tuple of str
    columns : tuple of ColumnKind

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
            Whether numbers such as -999 may stand for missing values, and such as 20190103 for
            days: not for an estimator of numbers alone.
        """
        return _schema_of([found[:2] for found in _learned(X, names, weights, given, sentinels)])

    @classmethod
    def of_numbers(cls, X: np.ndarray, names: Any) -> Any:
        """The schema of an array of finite numbers; None if a column must be looked at.

        It must be if it may hold sentinels, or numbers like them, or dates of eight digits.
        """
        low, high = X.min(axis=0), X.max(axis=0)
        may_be_days = (low >= LEAST_DAY) & (high <= MOST_DAY)
        may_be_days |= (low >= FIRST_DAY * SECONDS) & (high < (LAST_DAY + 1) * SECONDS)
        may_be_markers = np.isin(low, SENTINELS) | np.isin(high, HIGH_MARKERS)
        if may_be_markers.any() or may_be_days.any():
            return None
        columns = tuple(ColumnKind(NUMBER, whole=all_whole(x)) for x in X.T)
        return cls(tuple(map(str, names)), columns)

    @classmethod
    def of_sparse(cls, names: Any) -> Any:
        """The schema of sparse rows, which hold numbers."""
        names = tuple(map(str, names))
        return cls(names, (ColumnKind(NUMBER),) * len(names))

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
    if not hasattr(estimator, "feature_names_in_"):  # there may be a million columns
        return [f"x{j}" for j in range(estimator.n_features_in_)]
    return [str(name) for name in _check_feature_names_in(estimator)]


def learn_columns(
    X: Any,
    names: Any = None,
    weights: Any = None,
    given: Any = None,
    on_bad_cell: str = "missing",
    *,
    sentinels: bool = True,
) -> tuple[Schema, list[ColumnValues]]:
    """The `Schema` of a table and the values of its columns, as `Schema.of` and `read_columns`.

    The cells are read once.

    Examples
    --------
    >>> schema, columns = learn_columns(np.array([["7%", "red"], ["", "blue"]], dtype=object))
    >>> columns[0].values, columns[1].levels
    (array([0.07, 0.  ]), array(['blue', 'red'], dtype=object))
    """
    found: list = []

    def noted():  # one column at a time is in memory as it was given
        for name, kind, raw in _learned(X, names, weights, given, sentinels):
            found.append((name, kind))
            yield name, kind, raw

    values = _checked(noted(), on_bad_cell)
    return _schema_of(found), values


def _schema_of(found):
    """The `Schema` of names and kinds of columns."""
    return Schema(tuple(name for name, _ in found), tuple(kind for _, kind in found))


def _learned(X, names, weights, given, sentinels):
    """The name, the kind and the cells of each column."""
    numbered = (f"x{j}" for j in range(X.shape[1]))
    names = tuple(numbered if names is None else map(str, names))
    given = check_given(given, names)
    used: Any = None
    if weights is not None and not (weights > 0.0).all():
        used = np.flatnonzero(weights > 0.0)
        weights = weights[used]
    if weights is not None and len(weights):
        weights = in_units_of_rows(weights)
    for j, (name, raw) in enumerate(_named_columns(X, names)):
        some = raw if used is None else raw.taken(used)
        facts = given.get(name, {})
        if (point := decimal_mark(X, j)) is not None:
            facts = {"point": point, **facts}
        try:
            column = learned_kind(some, weights, facts, sentinels)
            if "kind" in facts:
                column.read(some, name)
        except KindChanged as problem:  # by what is given, and not by rows of a fit
            raise ValueError(
                f"schema= has the kind {facts['kind']!r} for {name!r}, which holds {problem.now}."
            ) from None
        yield name, column._replace(note=note_of(name, column, some, weights, facts)), raw


def read_columns(
    schema: Schema,
    X: Any,
    on_bad_cell: str = "missing",
    is_new: bool = True,
    is_part: bool = False,
) -> list[ColumnValues]:
    """The values of every column, with one warning, or an error, about bad cells.

    Parameters
    ----------
    schema : Schema
    X : frame, or array of two dimensions
    on_bad_cell : {'missing', 'error'}
    is_new : bool, default=True
        Whether rows are new, and may hold another kind than those of the fit, which is an error.
    is_part : bool, default=False
        Whether rows are a part of those to come: they do not decide that the kind is another.

    Warns
    -----
    BadCells
        A `DataWarning` that counts the cells that are not of their column's kind.
    """
    named: Any = zip(_named_columns(X, schema.names), schema.columns, strict=True)
    columns = ((name, column, raw) for (name, raw), column in named)
    return _checked(columns, on_bad_cell, is_new, is_part)


def _checked(columns, on_bad_cell, is_new=True, is_part=False):
    """The values of (name, kind, column)s, with one warning, or an error, about bad cells."""
    found, bad, zones = [], [], []
    for name, column, raw in columns:
        values = column.read(raw, name, is_new and not is_part)
        if values.zone is not None:
            zones.append((name, column.zone, values.zone))
        if values.bad is not None and values.bad.any():
            row = int(np.argmax(values.bad))
            count = int(np.count_nonzero(values.bad))
            bad.append(BadColumn(name, column.kind, count, row, raw.text(row)))
        found.append(values)
    if is_new:  # of the rows of a fit all bad cells were counted together
        warn_of_bad(bad, on_bad_cell)
        warn_of_zones(zones)
    return found


def warn_of_zones(found):
    """One warning about dates in other time zones than in the fit: (column, known, new)s."""
    if found:
        warn(zone_words(found), DataWarning)


def warn_of_bad(bad, on_bad_cell):
    """One warning, or an error, about some `BadColumn`."""
    if bad and on_bad_cell == "error":
        raise ValueError(f"{bad_words(bad).removesuffix('.')}, but on_bad_cell='error'.")
    if bad:
        warn(BadCells(bad), BadCells)


def typed(schema: Schema, columns: list[ColumnValues]) -> pa.Table:
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
    """ColumnValues as an array of Arrow."""
    missing = column.missing
    if column.levels is not None:
        levels = pa.array(column.levels, pa.string())
        return levels.take(pa.array(column.codes, mask=missing))
    if column.kind == NOTHING:
        return pa.nulls(len(missing))
    if column.kind in (DATE, DURATION):
        micros = np.round(column.values * 86400e6).astype(np.int64)
        kind = pa.timestamp("us") if column.kind == DATE else pa.duration("us")
        return pa.array(micros, mask=missing).cast(kind)
    is_truth = column.kind == TRUTH and np.isin(column.values, (0.0, 1.0)).all()
    return pa.array(column.values.astype(bool) if is_truth else column.values, mask=missing)


def with_decimal_commas(field: pa.Field) -> pa.Field:
    """A field of Arrow whose text has decimal commas where a comma could be either mark.

    >>> field = with_decimal_commas(pa.field("a", pa.string()))
    >>> cells = pa.table([["12,345", "1,250"]], pa.schema([field]))
    >>> learn_columns(cells)[1][0].values
    array([12.345,  1.25 ])
    """
    return field.with_metadata({_POINT: ","})


def decimal_mark(X: Any, j: int) -> str | None:
    """The decimal mark that a field of Arrow notes for its column; None of other tables."""
    if not isinstance(X, pa.Table):
        return None
    noted = X.schema.field(j).metadata or {}
    return noted.get(_POINT.encode(), b"").decode() or None


_POINT = "tunefree.point"


def _named_columns(X, names):
    """The raw columns of a table with their names, which errors name."""
    columns = raw_columns(X)
    for name in names:
        try:
            yield name, next(columns)
        except (TypeError, ValueError) as problem:
            raise type(problem)(f"Column {name!r} {problem}") from None


# --- targets and weights --------------------------------------------------------------------------


def numeric_targets(
    raw: RawColumn, are_numbers: bool = False, written: Numbers | None = None
) -> tuple[np.ndarray | None, Numbers | None]:
    """Targets of text as numbers, None if they are no numbers; and how they are written.

    Parameters
    ----------
    raw : RawColumn
        A column of text.
    are_numbers : bool, default=False
        Whether they must be numbers.
    written : Numbers, optional
        How those that a model has learned were written: these are read so, too.

    Returns
    -------
    values : ndarray or None
        NaN where a target is missing, infinity where a cell is no number.
    written : Numbers or None
        None of plain numbers.

    Examples
    --------
    >>> from tunefree.rows.columns import of_array
    >>> column = of_array(np.array(["$5,000", "n.a.", "$7,500"], dtype=object))
    >>> numeric_targets(column, True)
    (array([5000.,   nan, 7500.]), Numbers(point='.', unit='$', styles='groups'))
    >>> numeric_targets(of_array(np.array(["<=50K", ">50K"])))
    (None, None)
    >>> numeric_targets(of_array(np.array(["1.250", "2.125"])), written=Numbers(","))[0]
    array([1250., 2125.])
    """
    are_numbers = are_numbers or written is not None
    if raw.texts is None:
        return (np.full(len(raw.missing), np.nan) if are_numbers else None), None
    if not are_numbers and are_padded_names(raw.texts.cells):
        return None, None
    if written is None and (found := _plain_among(raw)) is not None:
        return found, None
    marked, values, written = _levels_as_numbers(raw, written)
    stray = np.isnan(values) & ~marked
    if not are_numbers:
        counts, cells = rows_of_levels(raw), np.flatnonzero(~marked)
        if not len(cells) or written is None:
            return None, None
        if len(cells) <= FEW_NUMBERS and _are_named(written):
            return None, None
        if stray.any():
            is_rare = counts[stray].sum() <= MOST_STRAY * counts[~marked].sum()
            found, is_stray = raw.cells.take(pa.array(cells)), stray[cells]
            if not (is_rare and are_strays(found, values[cells], is_stray, NUMBER)):
                return None, None
    written = None if written is None or written.is_plain else written
    return np.append(np.where(stray, np.inf, values), np.nan)[raw.codes], written


def are_padded_names(cells: pa.StringArray) -> bool:
    """Whether a few digits of one length are names, as some have zeros in front.

    >>> are_padded_names(pa.array(["007", "010", None])), are_padded_names(pa.array(["7", "10"]))
    (True, False)
    """
    if not compute.match_substring_regex(cells, r"^0\d+$").true_count:
        return False
    cells = compute.unique(cells.drop_null())
    cells = cells.filter(pa.array(~are_markers(cells, (), AMONG_NUMBERS)))
    are_digits = compute.match_substring_regex(cells, r"^\d+$")
    lengths = compute.unique(compute.binary_length(cells))
    return are_digits.false_count == 0 and len(lengths) == 1 and len(cells) <= FEW_NUMBERS


def _are_named(written):
    """Whether a few texts that stand for numbers, such as "4 stars", are names of classes."""
    is_word = written.unit.isalpha() and written.unit == written.unit.lower()
    return is_word or {"ranges", "bounds"} & set(written.styles.split())


def what_targets_are(y: Any) -> str | None:
    """What targets of text are that nothing predicts, or that are no numbers, and the way out.

    None of other texts, such as names of classes.

    >>> what_targets_are(np.array(["2024-01-31", "2024-02-29", "2023-05-01"]))
    "dates such as '2024-01-31': give numbers, such as days since a date"
    >>> what_targets_are(np.array(["$1.50", "$2.25", "tbd"]))
    "numbers as text, but also 'tbd', which is none: give numbers, and drop rows without one"
    """
    raw = of_array(np.asarray(y))
    if raw.texts is None:
        return None
    kind = learned_kind(raw, None, {}, False).kind
    if kind in (DATE, DURATION):
        unit = "days since a date" if kind == DATE else "hours"
        return f"{kind}s such as {str(y[0])!r:.40}: give numbers, such as {unit}"
    numbers = numbers_among(raw)
    stray = np.isnan(numbers)
    if stray.sum() > 0.5 * len(stray):
        return None
    if not stray.any():
        return f"numbers as text such as {str(y[0])!r:.40}: give numbers"
    first = str(y[int(np.argmax(stray))])
    words = f"numbers as text, but also {first!r:.40}, which is none"
    return f"{words}: give numbers, and drop rows without one"


def numbers_among(raw: RawColumn) -> np.ndarray:
    """The numbers of a column of text; NaN where a cell is none.

    >>> from tunefree.rows.columns import of_array
    >>> numbers_among(of_array(np.array(["1.5", "x", None], dtype=object)))
    array([1.5, nan, nan])
    """
    if raw.texts is None:
        return np.where(raw.absent, np.nan, raw.values)
    if (found := _plain_among(raw)) is not None:
        return found
    return np.append(_levels_as_numbers(raw)[1], np.nan)[raw.codes]


def _plain_among(raw):
    """Plain numbers, NaN for markers of missing values; None if other cells are there, too."""
    plain = raw.plain
    if plain is None or not are_markers(plain.others, (), AMONG_NUMBERS).all():
        return None
    if are_in_thousands(raw):
        return None
    return np.where(plain.found, plain.values, np.nan)


def are_in_thousands(raw: RawColumn) -> bool:
    """Whether points in the plain numbers of a column of text stand between thousands.

    >>> from tunefree.rows.columns import of_array
    >>> [are_in_thousands(of_array(np.array(c))) for c in (["1.250", "410"], ["1.25", "410"])]
    [True, False]
    """
    plain = raw.plain
    if raw.texts is None or plain is None:
        return False
    return are_grouped(raw.texts.cells.filter(pa.array(plain.found)), plain.values[plain.found])


def _levels_as_numbers(raw, written=None):
    """Which levels mean a missing value, the numbers of the others, and how they are written."""
    marked = are_markers(raw.cells, (), AMONG_NUMBERS)
    values = np.full(len(marked), np.nan)
    cells = raw.cells.filter(pa.array(~marked))
    if written is not None:
        values[~marked] = as_numbers(written.values(cells))
    elif len(cells):
        written, found = Numbers.read(cells, rows_of_levels(raw)[~marked])
        if found is not None:
            values[~marked] = as_numbers(found)
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
        if not isinstance(facts, str | Mapping):
            raise ValueError(
                f"schema= has {facts!r:.60} for {name!r}: give a kind, one of {', '.join(KINDS)}, "
                "or a dict."
            )
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
