"""What the columns of a table are, decided by all of their cells, never by their order."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from tunefree.core.format import listed
from tunefree.rows.columns import (
    CATEGORY,
    DATE,
    DURATION,
    EXACT,
    NOTHING,
    NUMBER,
    TEXT,
    TRUTH,
    WITH_VALUES,
    RawColumn,
    as_numbers,
)
from tunefree.rows.kinds import (
    AMONG_NUMBERS,
    FIRST_DAY,
    HIGH_MARKERS,
    LAST_DAY,
    LEAST_DAY,
    MOST_DAY,
    SECONDS,
    SENTINELS,
    ColumnKind,
    all_whole,
    are_markers,
    are_plain,
    as_levels,
    ending_of_whole,
    truths,
    weight_of_levels,
    with_ending,
)
from tunefree.rows.missing import MISSING
from tunefree.rows.written_dates import Dates, are_iso, may_all_be_dates, zones_among
from tunefree.rows.written_durations import Durations
from tunefree.rows.written_numbers import Numbers, are_grouped, words_of_groups

# A column of numbers or dates may have this share of cells that are none, and count as missing.
MOST_STRAY = 0.2
# With fewer distinct numbers, a text among them may be a level: 1, 2, 3 and "unknown".
FEW_NUMBERS = 20
_FEWEST_CODES = 3
# So many sentinels are no accident.
_FEWEST_SENTINELS = 3
# Numbers of eight digits are dates if so many distinct ones are all days of these years.
_FEWEST_DAYS = 10
# How a note counts rows.
_IN_ROWS = re.compile(r", in (\d+) rows?\.")
# So many distinct whole numbers may be equal as floats.
_MOST_LOST = 0.1
# Digits of one length, with zeros in front, are names rather than numbers from this length on.
FEWEST_DIGITS = 4
_CODE = r"^\d{2,}[eE]\d{1,3}$"
# A column of text with this share of numbers is noted.
_MOSTLY = 0.5
# A number within a cell, and one that is no part of a code; a column has few forms if they are at
# most this share of its distinct cells, and so many are shown.
_NUMBER, _NUMBER_ALONE = r"\d+(?:[.,]\d+)?", r"(?:^|[^\p{L}_])#"
_MOST_FORMS, _SHOWN_FORMS = 0.1, 3


def learned_kind(raw: RawColumn, weights: Any, facts: dict, sentinels: bool) -> ColumnKind:
    """What a column is.

    Parameters
    ----------
    raw : RawColumn
    weights : ndarray, or None
        Of the rows, all above 0.
    facts : dict
        What the user knows: see `tunefree.rows.schema.check_given`; and the decimal mark `point` of
        the file.
    sentinels : bool
        Whether numbers such as -999 may stand for missing values, and such as 20190103 for days.

    Examples
    --------
    >>> from tunefree.rows.columns import of_array
    >>> learned_kind(of_array(np.array(["7%", "8%"])), None, {}, True).words()
    'number (in parts of one)'
    """
    kind = facts.get("kind")
    if kind in (CATEGORY, TEXT):
        return _learned_levels(raw, kind, facts)
    if raw.texts is not None and (kind is not None or raw.kind == TEXT):
        column = _learned_cells(raw, weights, facts, sentinels)
    elif raw.kind == CATEGORY:
        return _learned_levels(raw, CATEGORY, facts)
    elif (
        raw.kind == NUMBER and _may_be_days(kind, sentinels) and _are_days(raw.values[~raw.absent])
    ):
        cells = as_levels(raw)
        column = _learned_cells(cells, weights, {**facts, "kind": DATE}, sentinels)
    elif kind is not None and raw.kind not in (kind, NOTHING) and raw.kind == DATE:
        raise ValueError(f"schema= has the kind {kind!r} for a column of dates.")
    else:
        whole = raw.kind == NUMBER and all_whole(raw.values)
        column = ColumnKind(kind or raw.kind, zone=raw.zone, whole=whole)
    if column.kind != NUMBER:
        return column
    if kind is None and column.whole and column.written is None and _are_names(raw):
        return ColumnKind(TEXT, numeric=True)
    return column._replace(sentinels=_sentinels_of(column, raw, weights, facts, sentinels))


def _are_names(raw):
    """Whether whole numbers of text are names: many differ only in digits that floats have not.

    So do codes such as 896e1 among 89601, of which several are no accident.
    """
    cells, values = plain_cells(raw)
    if values is None:
        return False
    large = np.abs(values) >= EXACT
    n_large = np.count_nonzero(large)
    if n_large and len(np.unique(values[large])) < (1.0 - _MOST_LOST) * n_large:
        return True
    return len(_codes_with_power(cells)) >= _FEWEST_CODES


def plain_cells(raw):
    """Distinct plain numbers as text, and their values; (None, None) of a column of others.

    Columns without large numbers and exponents have none that matter.
    """
    if raw.texts is None or raw.plain is None:
        return None, None
    values = raw.plain.values
    may_have = compute.match_substring(raw.texts.cells, "e", ignore_case=True)
    if not may_have.true_count and not (np.abs(values) >= EXACT).any():
        return None, None
    cells = _chosen(raw.cells, are_plain(raw.cells))
    return cells, cells.cast(pa.float64()).to_numpy()


def _codes_with_power(cells):
    """Numbers such as 896e1 among whole numbers without a power, such as 89601.

    A machine writes 8.96e+03.
    """
    is_code = compute.match_substring_regex(cells, _CODE)
    is_digits = compute.match_substring_regex(cells, r"^\d+$")
    if compute.all(compute.or_(is_code, is_digits)).as_py() and is_digits.true_count:
        return cells.filter(is_code)
    return cells[:0]


def _learned_levels(raw, kind, facts):
    """A column of categories or text."""
    if raw.texts is None and raw.kind != NOTHING:
        raw = as_levels(raw)
    levels = facts.get("levels", raw.cells.to_pylist() if raw.ordered else None)
    markers = tuple(str(m) for m in facts.get("markers", ()))
    known = _numbers_of(raw.cells)
    if kind == CATEGORY and known["whole_ending"]:  # as a container of numbers has them
        known["whole_ending"] = ""
        levels, markers = (texts and _without_ending(texts) for texts in (levels, markers))
    levels = None if levels is None else tuple(levels)
    return ColumnKind(kind, levels=levels, markers=markers, **known)


def _without_ending(texts):
    """Texts with whole numbers as 3 for 3.0."""
    return tuple(with_ending(pa.array([*map(str, texts)], pa.string()), "").to_pylist())


def _numbers_of(cells):
    """What is known of the levels that are numbers."""
    ending = None if cells is None else ending_of_whole(cells)
    return {"numeric": ending is not None or _some_are_numbers(cells), "whole_ending": ending}


def _some_are_numbers(cells):
    """Whether some levels are numbers as a container of numbers writes them."""
    if cells is None:
        return False
    # Python also reads "nan", "inf" and the digits of other scripts.
    may_be = compute.match_substring_regex(cells, r"^[+-]?[\d.nNiI]|^[+-]?[^\x00-\x7f]")
    for level in cells.filter(may_be).to_pylist():
        try:
            float(level)
        except ValueError:
            continue
        return True
    return False


def _may_be_days(kind, sentinels):
    """Whether numbers of eight digits may be days, by what the user gives."""
    return kind == DATE or (kind is None and sentinels)


def _learned_cells(raw, weights, facts, sentinels):
    """What text is: numbers, truth values, dates, or text."""
    if (found := _plain_numbers(raw, facts)) is not None:
        return found
    counts = weight_of_levels(raw, weights)
    wanted, given = facts.get("kind"), facts.get("markers")
    used = counts > 0.0
    own = None if given is None else tuple(str(m) for m in given if isinstance(m, str))
    marked = are_markers(raw.cells, own or (), AMONG_NUMBERS if own is None else frozenset([""]))
    cells, counts = _chosen(raw.cells, used & ~marked), counts[used & ~marked]
    if not len(cells):
        # A column of "unknown" alone is text: new rows may have other levels.
        found = are_markers(_chosen(raw.cells, used), own or (), MISSING)
        is_nothing = used.any() and found.all()
        return ColumnKind(wanted or (NOTHING if is_nothing else TEXT))
    markers = (
        own if own is not None else tuple(sorted(_chosen(raw.cells, used & marked).to_pylist()))
    )
    written = _written_of(facts)
    if written is not None:
        kinds = {Numbers: NUMBER, Dates: DATE, Durations: DURATION}
        kind = wanted or kinds[type(written)]
        zone = zones_among(cells) if kind == DATE else None
        return ColumnKind(kind, written, markers, zone=zone)
    if wanted in (None, TRUTH) and not np.isnan(truths(cells)).any():
        return ColumnKind(TRUTH, markers=markers)
    days = _may_be_days(wanted, sentinels)
    points = ",." if facts.get("point") == "," else "."
    found: Any = _numbers_or_dates(cells, counts, wanted, facts.get("day_first"), days, points)
    column, values = found
    if column is not None and column.written is not None:
        raw.texts.keep(column.written, values, used & ~marked)
    if column is None and wanted is not None:
        column = ColumnKind(wanted)
    if column is None:
        levels = cells if own is not None else _chosen(cells, ~are_markers(cells, (), MISSING))
        return ColumnKind(TEXT, markers=own or (), **_numbers_of(levels))
    zone = zones_among(cells) if column.kind == DATE else None
    return column._replace(markers=markers, zone=zone)


def _plain_numbers(raw, facts):
    """The same of plain numbers beside markers of missing values; None of other columns.

    This is what most columns of files are, and found without a look at all distinct cells.
    """
    wanted, plain = facts.get("kind"), raw.plain
    if plain is None or wanted not in (None, NUMBER) or set(facts) - {"kind"}:
        return None
    if not are_markers(plain.others, (), AMONG_NUMBERS).all():
        return None
    values = plain.values[plain.found]
    if are_grouped(raw.texts.cells.filter(pa.array(plain.found)), values):
        return None
    if wanted is None and (values.max() >= FIRST_DAY or _are_days(values)):  # they may be dates
        return None
    return ColumnKind(NUMBER, markers=tuple(plain.others.to_pylist()), whole=all_whole(values))


def _chosen(cells, chosen):
    """Some texts of Arrow."""
    return cells.filter(pa.array(chosen))


def _numbers_or_dates(cells, counts, wanted, day_first, days, points):
    """The `ColumnKind` of cells that are numbers, dates or durations, but for a few; their values.

    None of others. The first of the decimal marks `points` counts where both are possible.
    """
    best, found, fewest = None, None, 1.0 if wanted else MOST_STRAY
    # Of readings without strays the last one counts: dates, if numbers have other digits.
    kinds = (DATE,) if wanted is None and are_iso(cells) else (NUMBER, DURATION, DATE)
    for kind in kinds:
        if wanted not in (None, kind):
            continue
        written: Any = None
        if kind == NUMBER:
            written, values = Numbers.read(cells, counts, points)
        elif kind == DURATION:
            written, values = Durations.read(cells, counts, wanted is None)
        else:
            written, values = Dates.read(cells, counts, day_first)
        if written is None:
            continue
        values = as_numbers(values)
        stray = np.isnan(values)
        share = counts[stray].sum() / counts.sum()
        fits = wanted is not None or not stray.any() or are_strays(cells, values, stray, kind)
        if fits and (share < fewest or (best is None and share <= fewest) or share == 0.0):
            whole = kind == NUMBER and all_whole(values[~stray])
            is_plain = kind == NUMBER and written.is_plain
            best, found = ColumnKind(kind, None if is_plain else written, whole=whole), values
            fewest = share
            # 20190103 is a date by the rule for numbers, whatever holds it.
            is_number = is_plain and not (days and _are_days(values))
            if share == 0.0 and (is_number or not may_all_be_dates(cells)):
                break  # no need to look for dates, which takes longer
    return best, found


def are_strays(cells, values, stray, kind):
    """Whether cells that are no numbers or dates look like markers, not like codes or levels.

    Codes such as 84030E among 22423 are several distinct texts that begin with a digit.
    """
    if kind != NUMBER:
        return len(np.unique(values[~stray])) > 2
    if len(np.unique(values[~stray])) <= FEW_NUMBERS:
        return False
    texts = _chosen(cells, stray).to_pylist()
    n_codes = sum(text[0].isdigit() and text[-1].isalpha() and " " not in text for text in texts)
    whole = np.all(values[~stray] == np.floor(values[~stray]))
    return not (whole and n_codes >= _FEWEST_CODES and n_codes > 0.5 * len(texts))


def _are_days(values):
    """Whether numbers are days of eight digits, such as 20190103 or 3012019, or of fourteen."""
    if (
        len(values)
        and values.min() >= FIRST_DAY * SECONDS
        and values.max() < SECONDS * (LAST_DAY + 1)
    ):
        time = values % SECONDS
        if (time >= 240000).any() or (time % 10000 >= 6000).any() or (time % 100 >= 60).any():
            return False
        values = values // SECONDS
    if not len(values) or values.min() < LEAST_DAY or values.max() > MOST_DAY:
        return False
    values = np.unique(values)
    if len(values) < _FEWEST_DAYS or not np.all(values == np.floor(values)):
        return False
    first, middle, last = values // 10**6, values // 10000 % 100, values % 10000
    orders = (values // 10000, values // 100 % 100, values % 100), (last, middle, first)
    return any(_are_dates(*order) for order in (*orders, (last, first, middle)))


def _are_dates(year, month, day):
    """Whether numbers may be dates, not all of one month."""
    if year.min() < FIRST_DAY // 10000 or year.max() > LAST_DAY // 10000:
        return False
    if not (np.all((month >= 1) & (month <= 12)) and np.all((day >= 1) & (day <= 31))):
        return False
    return len(np.unique(100 * year + month)) > 1


def _sentinels_of(column, raw, weights, facts, sentinels):
    """Numbers such as -999 that stand apart from all others, and occur several times."""
    if facts.get("markers") is not None:
        return tuple(float(m) for m in facts["markers"] if isinstance(m, int | float))
    if not sentinels:
        return ()
    if raw.texts is None:
        values, missing = raw.values, raw.absent
    else:
        values, missing = column.read(raw, "")[1:3]
    value = sentinel_of(values[~missing], None if weights is None else weights[~missing])
    return () if value is None else (value,)


def sentinel_of(values: np.ndarray, weights: Any = None) -> float | None:
    """The number such as -999 that stands apart from all others, and occurs several times.

    Examples
    --------
    >>> sentinel_of(np.array([3.0, -999.0, 5.0, -999.0, 4.0, -999.0]))
    -999.0
    """
    if not len(values) or float(values.min()) not in SENTINELS:
        return None
    low = float(values.min())
    is_low, others = values == low, values[values > low]
    n = np.count_nonzero(is_low) if weights is None else weights[is_low].sum()
    if n < _FEWEST_SENTINELS or not len(others):
        return None
    return low if others.min() >= 0.0 or others.min() - low > 2.0 * np.ptp(others) else None


def _low_marker_of(column, raw, weights):
    """A number such as -999 that stands apart below all others, and its rows; or None."""
    if raw.texts is None:
        values, missing = raw.values, raw.absent
    elif raw.texts.count(_LOW_CELLS):
        values, missing = column.read(raw, "")[1:3]
    else:
        return None
    weights = None if weights is None else weights[~missing]
    value = sentinel_of(values[~missing], weights)
    if value is None:
        return None
    is_low = values[~missing] == value
    return value, np.count_nonzero(is_low) if weights is None else weights[is_low].sum()


def _high_marker_of(column, raw, weights):
    """A number such as 9999 that stands apart above all others, and in how many rows; or None."""
    if raw.texts is None:
        values, missing = raw.values, raw.absent
    elif raw.texts.count(_HIGH_CELLS):
        values, missing = column.read(raw, "")[1:3]
    else:
        return None
    values = values[~missing]
    if not len(values) or (high := float(values.max())) not in HIGH_MARKERS:
        return None
    is_high = values == high
    rows = np.count_nonzero(is_high) if weights is None else weights[~missing][is_high].sum()
    others = values[~is_high]
    if rows < _FEWEST_SENTINELS or not len(others):
        return None
    stands_apart = high - others.max() > 2.0 * np.ptp(others)
    return (high, rows) if stands_apart else None


def _first_with_point(raw):
    """The first of the distinct cells with a point, if no other mark shows what it is; or None."""
    cells = raw.cells.filter(compute.match_substring(raw.cells, "."))
    has_commas = compute.any(compute.match_substring(raw.cells, ",")).as_py()
    is_certain = has_commas or not len(cells) or not are_plain(cells).all()
    return None if is_certain else cells[0].as_py()


_LOW_CELLS = [form for value in SENTINELS for form in (f"{value:.0f}", f"{value:.1f}")]
_HIGH_CELLS = [form for value in HIGH_MARKERS for form in {f"{value:.10g}", f"{value:.1f}"}]


def _written_of(facts):
    """How cells are written, by what the user gives."""
    if not facts.get("written"):
        return None
    written = dict(facts["written"])
    kind = {"Numbers": Numbers, "Dates": Dates, "Durations": Durations}[
        written.pop("as", "Numbers")
    ]
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in written.items()})


def note_of(
    name: str, column: ColumnKind, raw: RawColumn, weights: Any, facts: Any = None
) -> str | None:
    """What a person should look at; None if there is nothing. `facts` are what the user knows."""
    notes = []
    unusual = [marker for marker in column.markers if marker.lower() not in MISSING]
    if unusual and column.kind in WITH_VALUES and raw.texts is not None:
        n = weight_of_levels(raw, weights)[are_markers(raw.cells, unusual, ())].sum()
        rows = "1 row" if n <= 1 else f"{n:.0f} rows"
        notes.append(
            f"{listed([repr(marker) for marker in unusual])} counts as missing, in "
            f"{rows}. schema={{{name!r}: 'category'}} makes it a level."
        )
    if column.sentinels:
        values = listed([f"{value:g}" for value in column.sentinels])
        notes.append(
            f"{values} stands apart and counts as missing. schema={{{name!r}: {{'markers': []}}}} "
            "keeps it as a number."
        )
    may_be_marked = column.kind == NUMBER and "markers" not in (facts or {})
    if may_be_marked and not column.sentinels and (low := _low_marker_of(column, raw, weights)):
        value, rows = low
        notes.append(
            f"{value:g} stands apart from the other numbers, in {rows:.0f} rows, and is learned as "
            "a number. If it marks missing values, drop these rows, or take TuneFree* or "
            "BoostedTrees*, for which it is missing."
        )
    if may_be_marked and (found := _high_marker_of(column, raw, weights)) is not None:
        value, rows = f"{found[0]:.10g}", found[1]
        notes.append(
            f"{value} stands apart from the other numbers, in {rows:.0f} rows. If it marks missing "
            f"values, schema={{{name!r}: {{'markers': [{value}]}}}} reads it so."
        )
    if getattr(column.written, "point", None) == "," and raw.texts is not None:
        first = _first_with_point(raw)
        if first is not None:
            notes.append(
                f"{words_of_groups(first)}. "
                f"schema={{{name!r}: {{'written': {{'point': '.'}}}}}} reads decimals."
            )
    if (facts or {}).get("point") == "," and column.kind == NUMBER and raw.texts is not None:
        with_commas = raw.cells.filter(compute.match_substring(raw.cells, ","))
        either = compute.match_substring_regex(with_commas, r"^[+-]?[1-9]\d{0,2},\d{3}$")
        if len(with_commas) and compute.all(either).as_py():
            first = with_commas[0].as_py()
            notes.append(
                f"commas are decimal marks, as in other columns of the file: {first!r} is "
                f"{first.replace(',', '.')}. schema={{{name!r}: {{'written': {{'point': '.', "
                "'styles': 'groups'}}} reads thousands."
            )
    if column.kind == DATE and getattr(column.written, "is_ambiguous", False):
        order, other = ("day", False) if column.written.day_first else ("month", True)
        notes.append(
            f"day and month of its dates could be either way round, and the {order} is read first. "
            f"schema={{{name!r}: {{'day_first': {other}}}}} changes this."
        )
    if column.whole and column.written is None and column.kind == NUMBER:
        notes += _notes_of_powers(name, raw) + _notes_of_zeros(name, raw)
    if column.kind == TEXT and raw.kind == TEXT:
        notes += _notes_of_text(name, raw, weight_of_levels(raw, weights))
    return " ".join(notes) or None


def notes_of_columns(names: Any, columns: Any) -> list[tuple[str, str]]:
    """The notes about columns, each with its column; of columns with a like note it is the same.

    Examples
    --------
    >>> kinds = [ColumnKind(NUMBER, note=f"-99 stands apart, in {n} rows. ") for n in (3, 4)]
    >>> notes_of_columns(["a", "b"], kinds)[0]
    ('a', '-99 stands apart, in 7 rows. ')
    """
    found: dict = {}
    for name, column in zip(names, columns, strict=True):
        if column.note is None:
            continue
        plain = column.note.replace(f"{{{name!r}: ", "{column: ")
        counts = [int(count) for count in _IN_ROWS.findall(plain)]
        found.setdefault(_IN_ROWS.sub(", in {} rows.", plain), []).append(
            (name, column.note, counts)
        )
    notes = []
    for words, like in found.items():
        if len(like) > 1:
            sums = np.sum([counts for _, _, counts in like], axis=0).astype(int).tolist()
            words = "".join(_filled(words.split(", in {} rows."), sums))
        notes += [(name, words if len(like) > 1 else note) for name, note, _ in like]
    return notes


def _filled(parts, sums):
    """Parts of a note with the numbers of rows between them."""
    yield parts[0]
    for part, rows in zip(parts[1:], sums, strict=True):
        yield f", in {rows} rows."
        yield part


def _notes_of_powers(name, raw):
    """A note about a number such as 896e1, which may be a name."""
    cells, _ = plain_cells(raw)
    codes = [] if cells is None else _codes_with_power(cells).to_pylist()
    return [
        f"{code!r} is read as {float(code):g}. schema={{{name!r}: 'category'}} makes names of it."
        for code in codes[:1]
    ]


def _notes_of_zeros(name, raw):
    """A note about digits of one length that begin with 0, such as 01234, which may be names."""
    if raw.texts is None:
        return []
    cells = getattr(raw.texts, "cells", raw.cells)
    # A spreadsheet keeps the zeros of ="00601".
    cells = compute.replace_substring_regex(cells, r'^="(.*)"$', r"\1")
    is_long = compute.greater_equal(compute.binary_length(cells), FEWEST_DIGITS)
    is_padded = compute.and_(compute.starts_with(cells, "0"), is_long).fill_null(False)
    if not is_padded.true_count:
        return []
    digits = cells.filter(compute.match_substring_regex(cells, r"^\d+$"))
    lengths = compute.min_max(compute.binary_length(digits)).as_py()
    first = compute.min(cells.filter(is_padded)).as_py()
    if lengths["min"] != lengths["max"] or not first.isdigit():
        return []
    return [
        f"digits such as {first!r:.40} are read as numbers, without the zeros in front. "
        f"schema={{{name!r}: 'category'}} makes names of them."
    ]


def _notes_of_text(name, raw, counts):
    """A note about a column of text most of whose cells are numbers."""
    marked = are_markers(raw.cells, (), AMONG_NUMBERS) | (counts <= 0.0)
    cells, counts = _chosen(raw.cells, ~marked), counts[~marked]
    if not len(cells):
        return []
    found: Any = Numbers.read(cells, counts)
    written, values = found
    if written is None:
        return _note_of_forms(cells)
    stray = ~np.isfinite(values)
    if not stray.any() and written.is_plain:
        first = compute.min(cells).as_py()
        return [
            f"whole numbers such as {first!r:.40} are read as names: as numbers some would be "
            f"equal, or have a power of ten. schema={{{name!r}: 'number'}} reads numbers."
        ]
    share = 1.0 - counts[stray].sum() / counts.sum()
    if share < _MOSTLY or not stray.any():
        return []
    first = compute.min(_chosen(cells, stray)).as_py()
    return [
        f"{100.0 * share:.0f} % of its cells are numbers, but {first!r:.40} is none: it is read as "
        f"text. schema={{{name!r}: 'number'}} reads numbers, and counts others as missing."
    ]


def _note_of_forms(cells):
    """A note if numbers stand within the cells of a column that has few forms, such as "# USD".

    Of codes, such as A17, they are a part.
    """
    if len(cells) <= FEW_NUMBERS:
        return []
    counted = compute.value_counts(compute.replace_substring_regex(cells, _NUMBER, "#"))
    forms, counts = counted.field("values"), counted.field("counts").to_numpy()
    has_number = compute.match_substring_regex(forms, _NUMBER_ALONE).to_numpy(zero_copy_only=False)
    if len(forms) > _MOST_FORMS * len(cells) or counts[has_number].sum() < _MOSTLY * len(cells):
        return []
    most = sorted(
        zip(-counts[has_number], forms.filter(pa.array(has_number)).to_pylist(), strict=True)
    )
    words = listed([repr(form)[:40] for _, form in most[:_SHOWN_FORMS]])
    return [
        f"numbers stand within its cells, as in {words}, and it is read as text: if their size "
        "matters, give them in one unit and one number a column."
    ]
