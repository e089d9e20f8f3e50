"""How the dates of one column of text are written, and their values.

The order of day and month is decided on the whole column. The local time counts, as it is written:
a zone is read and dropped.

Dates are taken apart by Arrow's regular expressions, a form at a time, and put together in NumPy.
"""

# Why no parser of another library (300,000 distinct times, one CPU, in thousands a second):
# - Arrow's cast (12,000) reads ISO 8601 without a zone, and is taken for it.
# - `pyarrow.compute.strptime` (9,000) makes 30 February the first of March, and reads no fractions
#   of seconds; which form it has to be given is the question here.
# - polars (4,000 to 8,000) needs the form as well, and is not among the dependencies.
# - ciso8601 (9,000) reads ISO 8601 only.
# - dateutil (15) and pandas' mixed format (12) decide on each cell alone, and dateutil takes "1",
#   "10.5", "May" and "1.2.3" for dates.
# The forms below read 200 to 400.

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.arrow import compute, pa
from tunefree.rows.cells import in_ascii_digits
from tunefree.rows.columns import zones_joined

_MONTHS = [
    "jan january januar janv janvier ene enero janeiro gen gennaio jänner januari styczeń stycznia"
    " sty leden ledna январь января янв ocak oca",
    "feb february februar fév févr février fev febrero fevereiro febbraio fevr februari luty"
    " lutego lut únor února февраль февраля фев şubat şub",
    "mar march märz mär mrz mars marzo março maart maret mrt marzec marca březen března март"
    " марта мар mart",
    "apr april avr avril abr abril aprile kwiecień kwietnia kwi duben dubna апрель апреля апр"
    " nisan nis",
    "may mai mayo maio mag maggio mei maj maja květen května май мая mayıs",
    "jun june juni juin junio junho giu giugno czerwiec czerwca cze červen června июнь июня июн"
    " haziran haz",
    "jul july juli juil juillet julio julho lug luglio lipiec lipca lip červenec července июль"
    " июля июл temmuz tem",
    "aug august août aout ago agosto augustus augusti agustus sierpień sierpnia sie srpen srpna"
    " август августа авг ağustos ağu",
    "sep sept september septembre septiembre setembro set settembre wrzesień września wrz září"
    " сентябрь сентября сен сент eylül eyl",
    "oct october okt oktober octobre octubre outubro out ott ottobre październik października paź"
    " říjen října октябрь октября окт ekim eki",
    "nov november novembre noviembre novembro listopad listopada lis listopadu ноябрь ноября ноя"
    " нояб kasım kas",
    "dec december dez dezember déc décembre dic diciembre dezembro dicembre desember des grudzień"
    " grudnia gru prosinec prosince декабрь декабря дек aralık ara",
]
_MONTH = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_NAMES = pa.array(list(_MONTH))
_NUMBERS = np.array(list(_MONTH.values()))
_WEEKDAY = (
    r"^(?i:mon|monday|tue|tues|tuesday|wed|weds|wednesday|thu|thur|thurs|thursday|fri|friday"
    r"|sat|saturday|sun|sunday|mo|di|mi|do|fr|sa|so|montag|dienstag|mittwoch|donnerstag|freitag"
    r"|samstag|sonnabend|sonntag|lun|lundi|mardi|mer|mercredi|jeu|jeudi|ven|vendredi|sam"
    r"|samedi|dim|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo)(?:[.,] ?| )"
)
_ZONE = (
    r"(?P<time>:\d{2}(?:[.,]\d+)?(?: ?[AaPp]\.?[Mm]\.?)?|T\d{4,6}) ?"
    r"(?P<zone>(?:Z|UTC|GMT|[ECMP][SD]T|[CEW]ES?T|BST|IST|MSK|JST"
    r"|[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+|(?:UTC|GMT)?[+-]\d{2}(?::?\d{2}){0,2})"
    r"(?:\[[\w/+-]+\]| \([\w ]+\))?)$"
)
_HALF = r"(\d) ?[AaPp]\.?[Mm]\.?$"
# Patterns with one way through: Arrow takes them apart ten times as fast as others.
_CLOCK = (
    r"(?P<hour>\d{1,2})(?:[:.h](?P<minute>\d{2})(?:[:.](?P<second>\d{2})"
    r"(?:[.,](?P<fraction>\d{1,9}))?)?)?"
)
_TIME = rf"(?:[T ,:]+{_CLOCK})?$"
_YEAR = r"'?(?P<year>\d{2}(?:\d{2})?)"
_NAME = r"(?P<name>[A-Za-zÀ-žа-я]{3,12})"  # with \pL the pattern is too large to be quick
_PURE_DIGITS = r"^\d+$"
# Numbers that no date is written as.
_NO_DATE = r"^[+-]?(?:\d{1,7}|\d{9,11}|\d{13}|\d{15,}|\d*\.\d*)$"
# 31122019, or 1122019: no day with the year first, 20191231, has 19 or 20 as its month.
_YEAR_LAST = r"^(\d{1,2})(\d{2})((?:19|20)\d{2})$"
# The forms of a date, in the order in which they are tried: (kind, pattern).
_FORMS = [
    ("days", rf"^(?P<year>\d{{4}})[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}}){_TIME}"),
    ("digits", r"^(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})(?:[T ,]*(?P<hour>\d{2}):?"
               r"(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?$"),
    ("orders", rf"^(?P<first>\d{{1,2}})[-/.](?P<second_>\d{{1,2}})[-/.]{_YEAR}{_TIME}"),
    ("days", rf"^(?P<day>\d{{1,2}})[-/ .]*{_NAME}[-/ .,]*{_YEAR}{_TIME}"),
    ("days", rf"^{_NAME}[-/ .]*(?P<day>\d{{1,2}})[-/ .,]+{_YEAR}{_TIME}"),
    ("days", rf"^(?P<year>\d{{4}})[-/ .,]*{_NAME}[-/ .]*(?P<day>\d{{1,2}}){_TIME}"),
    ("days", rf"^{_NAME} +(?P<day>\d{{1,2}}) {_CLOCK} (?:[+-]\d{{4}} |[A-Z]{{3,4}} )?"
             r"(?P<year>\d{4})$"),
    ("months", r"^(?P<year>\d{4})[-/M](?P<month>\d{2})$"),
    ("months", r"^(?P<month>\d{1,2})[-/](?P<year>\d{4})$"),
    ("months", rf"^{_NAME}[-/ .,']*(?P<year>\d{{4}})$"),
    ("months", rf"^{_NAME}\.?[-/' ]*[-'](?P<year>\d{{2}})$"),
    ("months", rf"^(?P<year>\d{{4}})[-/ .]*{_NAME}$"),
    ("weeks", r"^(?P<year>\d{4})-?W(?P<week>\d{2})(?:-?(?P<weekday>[1-7]))?$"),
    ("quarters", r"^(?P<year>\d{4})[- /]?[Qq](?P<quarter>[1-4])$"),
    ("quarters", r"^[Qq](?P<quarter>[1-4])[- /]*(?P<year>\d{4})$"),
]  # fmt: skip
_TIME_ALONE = rf"^{_CLOCK}$"
_KINDS = ("", "days", "digits", "orders", "months", "quarters", "weeks")
# Parts of a year, which are dates only in a column that shows them.
_SPANS = "months", "quarters", "weeks"
_PIVOT = 69  # of years with two digits, as in POSIX: 69 is 1969, 68 is 2068
_LEAST_SHARE = 0.5  # of the rows; below it a column is not one of dates
_LONGEST = 64
_FIRST_CELLS = 100
_FIRST = np.datetime64("0001-01-01", "us")
_NAT = np.datetime64("NaT", "us")


class _Parts(NamedTuple):
    """Cells taken apart: `kind` is a place among `_KINDS`, 0 for a cell that is no date.

    Of cells of the kind "orders", `first`, `second` and `last` are the numbers as written (`last`
    is 0 if it has four digits), `year` is the third as a year, and `values` has only the time.
    `clocks` are the cells read as a time alone.
    """

    kind: np.ndarray
    values: np.ndarray
    first: np.ndarray
    second: np.ndarray
    year: np.ndarray
    last: np.ndarray
    clocks: np.ndarray
    is_pure: np.ndarray  # digits and nothing else
    is_dotted: np.ndarray
    zones: list

    @classmethod
    def of(cls, cells):
        """Take apart trimmed cells."""
        n = len(cells)
        kind, values = np.zeros(n, dtype=np.int8), np.full(n, _NAT)
        first, second, year, last = (np.zeros(n, dtype=np.int64) for _ in range(4))
        cells, half, zones = _cleaned(cells)
        is_pure = _matches(cells, _PURE_DIGITS)
        is_dotted = _matches(cells, r"^\d+\.\d+\.")
        clocks = np.full(n, _NAT)
        chosen = np.flatnonzero(_matches(cells, _TIME_ALONE) & ~_matches(cells, r"^\d+(\.\d+)?$"))
        alone = np.union1d(chosen, np.flatnonzero(_matches(cells, r"^\d{1,2}$") & (half >= 0)))
        if len(alone):
            found = _fields(cells.take(pa.array(alone)), _TIME_ALONE)
            clocks[alone] = _time_of_day(found, half[alone]).astype("datetime64[us]")
        rest = np.flatnonzero(_matches(cells, r"\d"))
        is_iso = _matches(cells, _ISO)
        found = _iso(cells.filter(pa.array(is_iso))) if is_iso.any() else None
        if found is not None:
            plain = is_iso & (half < 0)
            values[plain], kind[plain] = found[plain[is_iso]], _KINDS.index("days")
            rest = np.setdiff1d(rest, np.flatnonzero(plain), assume_unique=True)
        for form, pattern in _FORMS:
            if not len(rest):
                break
            tried = cells.take(pa.array(rest))
            is_form = _matches(tried, pattern)  # a look costs a tenth of taking apart
            if not is_form.any():
                continue
            places, found = rest[is_form], _fields(tried.filter(pa.array(is_form)), pattern)
            time = _time_of_day(found, half[places])
            if form == "orders":
                first[places], second[places] = found["first"], found["second_"]
                year[places] = found["full_year"]
                last[places] = np.where(found["is_short"], found["year"], 0)
                ok, value = ~np.isnat(time), time.astype("datetime64[us]")
            else:
                day = _week(found) if form == "weeks" else _named_day(found)
                value = day.astype("datetime64[us]") + time
                ok = ~np.isnat(value)
            kind[places[ok]], values[places[ok]] = _KINDS.index(form), value[ok]
            rest = np.setdiff1d(rest, places[ok], assume_unique=True)
        return cls(kind, values, first, second, year, last, clocks, is_pure, is_dotted, zones)

    def ordered(self, order):
        """The dates of cells of the kind "orders", with "dmy", "mdy" or "ymd"; NaT for others."""
        if order == "ymd":
            year = self.first + np.where(self.first >= _PIVOT, 1900, 2000)
            day = _day(year, self.second, self.last)
        elif order == "dmy":
            day = _day(self.year, self.second, self.first)
        else:
            day = _day(self.year, self.first, self.second)
        value = day.astype("datetime64[us]") + (self.values - np.datetime64(0, "us"))
        return np.where(self.kind == _KINDS.index("orders"), value, _NAT)


def _matches(cells, pattern):
    return compute.match_substring_regex(cells, pattern).to_numpy(zero_copy_only=False)


def _replaced(cells, pattern, text):
    """Cells with a pattern replaced, where a cell has it; a look is cheaper than a copy."""
    if not compute.any(compute.match_substring_regex(cells, pattern)).as_py():
        return cells
    return compute.replace_substring_regex(cells, pattern, text)


def _cleaned(cells):
    """Cells without weekdays, zones and halves of days; the half (-1, 0, 1); the zones."""
    cells = in_ascii_digits(cells)
    cells = _replaced(cells, r"[\s\p{Zs}]+", " ")
    cells = _with_points(cells)
    cells = _replaced(cells, _YEAR_LAST, r"\1/\2/\3")
    cells = _replaced(cells, "[\u2010\u2011\u2012\u2013\u2212]", "-")
    cells = _replaced(cells, _WEEKDAY + r"(\d|[A-Za-zÀ-ÿ]+\.? ?\d)", r"\1")
    zones = []
    if compute.any(compute.match_substring_regex(cells, _ZONE)).as_py():
        found = compute.extract_regex(cells, _ZONE)
        zones = sorted(compute.unique(compute.struct_field(found, "zone").drop_null()).to_pylist())
        cells = compute.replace_substring_regex(cells, _ZONE, r"\1")
    half = np.full(len(cells), -1, dtype=np.int8)
    is_half = _matches(cells, _HALF)
    if is_half.any():
        half[is_half] = _matches(cells, r"[Pp]\.?[Mm]\.?$")[is_half]
        cells = compute.replace_substring_regex(cells, _HALF, r"\1")
    cells = _replaced(cells, r"(\d)(?:st|nd|rd|th|er|º|ª)([ ,.-])", r"\1\2")
    cells = _replaced(cells, r"(?i) out of ", "/")  # "8 out of 10" is no day of October
    cells = _replaced(cells, r"(?i)(?: of| del?) ", " ")
    cells = _replaced(cells, r"(?i)[, ]+(?:at|um|à) (\d)", r" \1")
    return cells, half, zones


def zones_among(cells: Any) -> str | None:
    """The time zones that cells of dates name; None if they name none.

    >>> zones_among(pa.array(["2024-01-31T10:00Z", "2024-01-31T10:00+01:00", "2024-01-31 9:00"]))
    '+01:00, UTC'
    """
    found = compute.extract_regex(cells, _ZONE).drop_null()
    return zones_joined(compute.unique(compute.struct_field(found, "zone")).to_pylist())


# 2020年2月8日 5時11分, 2020년 2월 8일, and 2020. 2. 8.
_SIGNED = {
    r"^(\d{4}) ?[年년] ?(\d{1,2}) ?[月월] ?(\d{1,2}) ?[日일]": r"\1-\2-\3",
    r"^(\d{4}) ?[年년] ?(\d{2}) ?[月월]$": r"\1-\2",
    r"^(\d{4}) ?[年년] ?(\d) ?[月월]$": r"\1-0\2",
    r"(\d{1,2}) ?[時时시] ?(\d{2}) ?[分분](?: ?(\d{2}) ?[秒초])?$": r"\1:\2:\3",
    r"(\d{1,2}:\d{2}):$": r"\1",
    r"^(\d{4})\. ?(\d{1,2})\. ?(\d{1,2})\.?": r"\1-\2-\3",
}


def _with_points(cells):
    """Cells with hyphens and colons for the signs of year, month, day, hour and minute."""
    may_be = compute.match_substring_regex(cells, r"^\d{4}(?: ?[年년]|\. ?\d)|\d ?[時时시]")
    if compute.any(may_be).as_py():
        for pattern, text in _SIGNED.items():
            cells = compute.replace_substring_regex(cells, pattern, text)
    return cells


def _fields(cells, pattern):
    """The fields of cells of a form, as whole numbers; 0 where they are empty."""
    found, out = compute.extract_regex(cells, pattern), {}
    for k in range(found.type.num_fields):
        name = found.type.field(k).name
        part = compute.fill_null(compute.struct_field(found, [k]), "")
        if name == "name":
            place = compute.index_in(compute.utf8_lower(part), _NAMES)
            place = compute.fill_null(place, -1).to_numpy()
            out["month"] = np.where(place >= 0, _NUMBERS[place], 0)
            continue
        if name == "fraction":
            part = compute.utf8_slice_codeunits(compute.utf8_rpad(part, 6, "0"), 0, 6)
        is_empty = compute.equal(part, "")
        if name == "hour":
            out["has_hour"] = ~is_empty.to_numpy(zero_copy_only=False)
        if name == "year":
            out["is_short"] = compute.equal(compute.utf8_length(part), 2).to_numpy(False)
        part = compute.if_else(is_empty, "0", part)
        out[name] = part.cast(pa.int64()).to_numpy()
    if "year" in out:
        late = np.where(out["year"] >= _PIVOT, 1900, 2000)
        out["full_year"] = out["year"] + np.where(out["is_short"], late, 0)
    return out


def _named_day(found):
    """The day of fields: the first one of months and quarters."""
    return _day(found["full_year"], _month(found), found.get("day", 1))


def _week(found):
    """The day of a week of ISO 8601, its Monday without another; NaT where there is none."""
    year = found["full_year"]
    fourth = _day(year, np.full(len(year), 1), np.full(len(year), 4))  # it is in the first week
    since_monday = (fourth.astype(np.int64) + 3) % 7
    later = 7 * (found["week"] - 1) + np.maximum(found["weekday"], 1) - 1
    day = fourth + (later - since_monday).astype("timedelta64[D]")
    ok = (found["week"] >= 1) & (found["week"] <= 53)
    return np.where(ok, day, np.datetime64("NaT", "D"))


def _month(found):
    """The month of fields; the first of a quarter."""
    return 3 * found["quarter"] - 2 if "quarter" in found else found["month"]


def _day(year, month, day):
    """Days; NaT where one does not exist."""
    ok = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = np.where(ok, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + np.where(ok, day - 1, 0).astype("timedelta64[D]")
    ok &= days.astype("datetime64[M]") == months
    return np.where(ok, days, np.datetime64("NaT", "D"))


def _time_of_day(found, half):
    """Time since midnight; NaT where there is none such."""
    n = len(half)
    none = np.zeros(n, dtype=np.int64)
    hour, minute, second, fraction = (
        found.get(name, none) for name in ("hour", "minute", "second", "fraction")
    )
    has_hour = found.get("has_hour", np.zeros(n, dtype=bool))
    is_half = half >= 0
    ok = (hour < 24) & (minute < 60) & (second < 61)
    ok &= ~is_half | (has_hour & (hour >= 1) & (hour <= 12))
    hour = np.where(is_half, hour % 12 + 12 * half, hour)
    time = ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction
    return np.where(ok, time.astype("timedelta64[us]"), np.timedelta64("NaT", "us"))


class Dates(NamedTuple):
    """How the dates of a column of text are written.

    Cells are trimmed text, none of which is a marker of a missing value. Dates with two digits
    for the year are between 1969 and 2068.

    Parameters
    ----------
    formats : str
        Kinds of dates that cells show, as words: "days", "digits" (20190103), "months",
        "quarters", "weeks" or "times". Times alone are times of the first of January 1970.
    day_first : bool
        Whether 1/2/2024 is the first of February.
    is_ambiguous : bool
        Whether day and month could be either way round.
    year_first : bool
        Whether 98/05/31 has the year first.
    example : str
        A cell.
    has_offsets : bool
        Whether cells have different offsets from UTC.

    Examples
    --------
    >>> cells = pa.array(["5/10/18 4:01", "5/13/18 16:00"])
    >>> dates = Dates.of(cells, np.array([1, 1]))
    >>> print(dates.values(cells))
    ['2018-05-10T04:01:00.000000' '2018-05-13T16:00:00.000000']
    >>> dates.words()
    'dates such as 5/10/18 4:01 (month first)'
    """

    formats: str = "days"
    day_first: bool = False
    is_ambiguous: bool = False
    year_first: bool = False
    example: str = ""
    has_offsets: bool = False

    @classmethod
    def of(
        cls, cells: pa.StringArray, counts: np.ndarray, day_first: bool | None = None
    ) -> "Dates | None":
        """How the dates of distinct cells are written; None if hardly a cell is a date.

        Parameters
        ----------
        cells : StringArray
            Distinct cells.
        counts : ndarray
            The rows of each.
        day_first : bool, default=None
            Whether 1/2/2024 is the first of February; by default the whole column decides, and
            if either fits, the month comes first, but for dates with points (1.2.2024).

        Examples
        --------
        >>> Dates.of(pa.array(["1/2/2024", "3/4/2024"]), np.array([1, 1])).is_ambiguous
        True
        >>> Dates.of(pa.array(["20190103", "20191303"]), np.array([1, 1])) is None
        True
        """
        return cls.read(cells, counts, day_first)[0]

    @classmethod
    def read(
        cls, cells: pa.StringArray, counts: np.ndarray, day_first: bool | None = None
    ) -> "tuple[Dates | None, np.ndarray | None]":
        """The same, with the values of the cells, so that they need not be taken apart twice."""
        counts = np.asarray(counts, dtype=np.float64)
        least, iso = _LEAST_SHARE * counts.sum(), _iso(cells)
        if not counts.sum():
            return None, None
        if iso is not None:
            return cls(example=_first(cells, np.ones(len(cells), dtype=bool), counts)), iso
        may_be = _may_be_dates(cells)
        if counts[may_be].sum() < least:
            return None, None
        parts = _Parts.of(cells)
        is_order = parts.kind == _KINDS.index("orders")
        fits = {order: counts[~np.isnat(parts.ordered(order))].sum() for order in _ORDERS}
        is_tie = is_order.any() and fits["mdy"] == fits["dmy"] > 0.0
        dotted = is_order.any() and not (is_order & ~parts.is_dotted).any()
        year_first = bool(fits["ymd"] > max(fits["mdy"], fits["dmy"]))
        first = fits["dmy"] > fits["mdy"] or (is_tie and dotted)
        found = cls(
            day_first=bool(first if day_first is None else day_first),
            is_ambiguous=bool(is_tie and not dotted and not year_first and day_first is None),
            year_first=year_first,
            has_offsets=len(parts.zones) > 1,
        )
        found = found._replace(formats=_formats(parts, counts, found))
        if found.is_time:
            found = cls("times", has_offsets=found.has_offsets)
        values = found._values(parts)
        is_date = ~np.isnat(values)
        if not is_date.any() or counts[is_date].sum() < least:
            return None, None
        return found._replace(example=_first(cells, is_date, counts)), values

    @property
    def is_time(self) -> bool:
        """Whether cells are times of a day alone."""
        return self.formats == "times"

    def values(self, cells: pa.StringArray) -> np.ndarray:
        """Dates of cells, as datetime64[us] in local time; NaT where a cell is no such date."""
        cells = compute.fill_null(cells, "")
        if not self.is_time:
            found = _iso(cells)
            if found is not None:
                return found
        return self._values(_Parts.of(cells))

    def words(self) -> str:
        """How the dates are written, in words."""
        what = "times" if self.is_time else "dates"
        notes = []
        if self.is_time:
            pass
        elif self.year_first:
            notes.append("year first")
        elif _is_ordered(self.example):
            notes.append("day first" if self.day_first else "month first")
        if self.is_ambiguous:
            notes.append("the day could be first as well")
        if self.has_offsets:
            notes.append("with several offsets from UTC; the local time counts")
        return f"{what} such as {self.example}" + (f" ({', '.join(notes)})" if notes else "")

    def _values(self, parts):
        """Dates of cells that are taken apart."""
        if self.is_time:
            return parts.clocks
        formats = self.formats.split()
        order = "ymd" if self.year_first else "dmy" if self.day_first else "mdy"
        out = np.where(parts.kind == _KINDS.index("orders"), parts.ordered(order), parts.values)
        refused = [k for k in _SPANS if k not in formats]
        out[np.isin(parts.kind, [0, *(_KINDS.index(k) for k in refused)])] = _NAT
        if "digits" not in formats:
            out[parts.is_pure] = _NAT
        return out


_ORDERS = ("mdy", "dmy", "ymd")


def _formats(parts, counts, found):
    """The kinds of dates that a column shows, as words."""
    every = found._replace(formats=" ".join(("digits", *_SPANS)))
    is_date = ~np.isnat(every._values(parts))
    # Whole numbers are dates only if all of them are, between 1900 and 2100.
    if parts.is_pure.any():
        years = parts.values.astype("datetime64[Y]").astype(np.int64) + 1970
        fine = is_date & (years >= 1900) & (years <= 2100)
        if not fine[parts.is_pure].all():
            is_date &= ~parts.is_pure
    is_clock = ~np.isnat(parts.clocks)
    if counts[is_clock].sum() > counts[is_date].sum():
        return "times"
    shown = {_KINDS[k] for k in np.unique(parts.kind[is_date])}
    words = [k for k in _SPANS if k in shown]
    words += ["days"] if shown & {"days", "orders"} else []
    if (is_date & parts.is_pure).any():
        words.append("digits")
    elif "digits" in shown:
        words.append("days")
    return " ".join(sorted(set(words)))


def _may_be_dates(cells):
    """Which cells can be dates at all, by a look that costs little."""
    is_short = compute.less_equal(compute.utf8_length(cells), _LONGEST)
    is_short = is_short.to_numpy(zero_copy_only=False)
    is_other = _matches(cells, _NO_DATE) & ~_matches(cells, _YEAR_LAST)
    return _matches(in_ascii_digits(cells), r"^[^\d]{0,30}\d") & is_short & ~is_other


def are_iso(cells: pa.StringArray) -> bool:
    """Whether all cells are dates of ISO 8601, which are read at the speed of a cast.

    >>> are_iso(pa.array(["2024-01-31", "2024-02-01 12:30"])), are_iso(pa.array(["2024-02-30"]))
    (True, False)
    """
    return _iso(cells) is not None


def may_all_be_dates(cells: pa.StringArray) -> bool:
    """Whether each of the first cells is a date in some order of day and month.

    >>> may_all_be_dates(pa.array(["1.2", "3.4"])), may_all_be_dates(pa.array(["1.2.2024"]))
    (False, True)
    """
    parts = _Parts.of(cells[:_FIRST_CELLS])
    return not ((parts.kind == 0) & np.isnat(parts.clocks)).any()


def _is_ordered(cell):
    """Whether a cell is a date with three numbers, whose order matters."""
    return bool(len(cell)) and bool((_Parts.of(pa.array([cell])).kind == 3).any())


def _first(cells, chosen, counts):
    """The cell of most rows among some; of equal ones the first in order of text."""
    counts = np.where(chosen, counts, -1)
    most = cells.filter(pa.array(counts == counts.max()))
    return compute.min(most).as_py()


def _iso(cells):
    """Cells as times if all are of the one form that Arrow casts, or None.

    `compute.strptime` has no fractions of seconds, and a cast is five times as fast.
    """
    for some in (cells[:_FIRST_CELLS], cells):  # most columns of other cells end here
        if not len(cells) or not _matches(some, _ISO).all():
            return None
    try:
        found = cells.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # a day that does not exist
        return None
    return found if found.min() >= _FIRST else None


_ISO = r"^\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?$"
