"""How the durations of one column of text are written, and their values.

Numbers with units of time, such as "2h 50m", are numbers: see `tunefree.rows.written_numbers`. Here
are those with colons, as clocks, races, pandas and Python write them, and those of ISO 8601.
"""

from typing import NamedTuple

import numpy as np

from tunefree.core.arrow import compute, pa

# "29:27:28", "51:27", "1 day, 5:00:00", "-1 days +23:30:00", "3 days".
_CLOCK = (
    r"^(?P<sign>-?)(?:(?P<days>\d{1,7}) ?[dD](?:ays?)?(?:,? ?(?P<plus>\+?)|$))?"
    r"(?:(?P<hours>\d{1,7}):(?P<minutes>\d{2})(?::(?P<seconds>\d{2})(?:[.,](?P<part>\d{1,9}))?)?)?$"
)
_ISO = (
    r"^(?P<sign>-?)P(?:(?P<days>\d{1,7})D)?(?:T(?:(?P<hours>\d{1,7})H)?(?:(?P<minutes>\d{1,7})M)?"
    r"(?:(?P<seconds>\d{1,7})(?:[.,](?P<part>\d{1,9}))?S)?)?$"
)
# Laps of a race, "1:38.109": minutes, seconds and a part. Below a minute there are only seconds.
_LAP = (
    r"^(?P<sign>-?)(?P<days>)(?P<hours>)(?P<minutes>\d{1,7}):(?P<seconds>\d{2})"
    r"[.,](?P<part>\d{1,9})$"
)
_SECONDS = (
    r"^(?P<sign>-?)(?P<days>)(?P<hours>)(?P<minutes>)(?P<seconds>[0-5]?\d)"
    r"(?:[.,](?P<part>\d{1,9}))?$"
)
_MAY_BE = r"^-?(?:P[T\d]|\d{1,7} ?[dD]|\d{1,7}:\d\d)"
_LEAST_SHARE = 0.5  # of the rows; below it a column is not one of durations
_MICROS = {"days": 86_400_000_000, "hours": 3_600_000_000, "minutes": 60_000_000,
           "seconds": 1_000_000}  # fmt: skip
_DAY = np.timedelta64(1, "D")


class Durations(NamedTuple):
    """How the durations of a column of text are written.

    Parameters
    ----------
    is_short : bool
        Whether "51:27" is minutes and seconds, and not hours and minutes.
    has_laps : bool
        Whether there are laps such as "1:38.109", and "58.22" is seconds.
    example : str
        A cell.

    Examples
    --------
    >>> cells = pa.array(["29:30:00", "1 day, 5:30:00", "PT1H30M"])
    >>> (24 * Durations.read(cells, np.ones(3))[1]).tolist()
    [29.5, 29.5, 1.5]
    """

    is_short: bool = False
    has_laps: bool = False
    example: str = ""

    @classmethod
    def of(cls, cells: pa.StringArray, counts: np.ndarray) -> "Durations | None":
        """How the durations of distinct cells are written; None if hardly a cell is one."""
        return cls.read(cells, counts, False)[0]

    @classmethod
    def read(
        cls, cells: pa.StringArray, counts: np.ndarray, may_be_times: bool = True
    ) -> "tuple[Durations | None, np.ndarray | None]":
        """The same, with the values of the cells, in days; NaN where a cell is none.

        If `may_be_times`, clock times below 24 hours alone are none: they are times of a day.
        """
        least = _LEAST_SHARE * counts.sum()
        may_be = _matches(cells, _MAY_BE)
        has_laps = bool(_matches(cells, _LAP).any())
        if has_laps:
            may_be |= _matches(cells, _SECONDS)
        if counts[may_be].sum() < least or not counts.sum():
            return None, None
        two, clock = _matches(cells, r"^-?\d+:\d\d$"), _matches(cells, r"^-?\d+:\d\d")
        found = cls(bool(two.any() and (clock & ~two).any()), has_laps)
        if may_be_times and not (found.is_short or has_laps):
            hours = compute.extract_regex(cells.filter(pa.array(clock)), r"^-?(?P<hours>\d{1,9}):")
            hours = compute.struct_field(hours, "hours").cast(pa.int64()).to_numpy(False)
            is_long = bool(len(hours)) and hours.max() > 24
            if clock.all() and not is_long:
                return None, None
            found = found._replace(is_short=bool(two.any() and is_long))
        values = found.values(cells)
        is_duration = ~np.isnan(values)
        if counts[is_duration].sum() < least:
            return None, None
        most = np.where(is_duration, counts, -1)
        example = compute.min(cells.filter(pa.array(most == most.max()))).as_py()
        return found._replace(example=example), values

    def values(self, cells: pa.StringArray) -> np.ndarray:
        """Durations of cells in days; NaN where a cell is no such duration."""
        cells, out = compute.fill_null(cells, ""), np.full(len(cells), np.nan)
        laps = (_LAP, _SECONDS) if self.has_laps else ()
        for pattern in (_CLOCK, _ISO, *laps):
            is_form = compute.match_substring_regex(cells, pattern)
            is_form = compute.and_(is_form, compute.match_substring_regex(cells, r"\d"))
            if compute.any(is_form).as_py():
                found = self._days(cells.filter(is_form), pattern)
                out[is_form.to_numpy(zero_copy_only=False)] = found
        return out

    def words(self) -> str:
        """How the durations are written, in words."""
        return f"durations such as {self.example}"

    def _days(self, cells, pattern):
        """The durations of cells of a form."""
        parts = compute.extract_regex(cells, pattern)
        texts = {field.name: compute.struct_field(parts, field.name) for field in parts.type}
        counts = {
            name: compute.if_else(compute.equal(texts[name], ""), "0", texts[name])
            .cast(pa.int64())
            .to_numpy()
            for name in _MICROS
        }
        if self.is_short and pattern == _CLOCK:
            is_two = _matches(cells, r"^-?\d+:\d\d$")
            moved = {"minutes": counts["hours"], "seconds": counts["minutes"], "hours": 0 * is_two}
            counts |= {name: np.where(is_two, part, counts[name]) for name, part in moved.items()}
        part = compute.utf8_slice_codeunits(compute.utf8_rpad(texts["part"], 6, "0"), 0, 6)
        clock = part.cast(pa.int64()).to_numpy()
        clock = clock + sum(
            counts[name] * _MICROS[name] for name in ("hours", "minutes", "seconds")
        )
        days = counts["days"] * _MICROS["days"]
        sign = np.where(compute.equal(texts["sign"], "-").to_numpy(zero_copy_only=False), -1, 1)
        # "-1 day, 23:30:00" is half an hour below 0: the sign is that of the days alone.
        own = compute.equal(texts["days"], "").to_numpy(zero_copy_only=False) | (pattern == _ISO)
        micros = sign * days + np.where(own, sign, 1) * clock
        return micros.astype("m8[us]") / _DAY


def _matches(cells, pattern):
    """Which cells have a form."""
    return compute.match_substring_regex(cells, pattern).to_numpy(zero_copy_only=False)
