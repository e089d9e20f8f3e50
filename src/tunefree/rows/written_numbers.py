"""How the numbers of one column of text are written, and their values.

Everything is decided on the whole column, never on a cell alone: the decimal mark, the unit, what
a letter after a number means, and whether ``10-20`` is a range. A cell is a number between two
affixes: ``-$`` and ``M`` in ``-$3.0M``. Numbers are read by Arrow, cell by cell at the speed of a
cast; affixes are few, and each is read once.
"""

import re
from typing import NamedTuple

import numpy as np

from tunefree.core.arrow import compute, pa
from tunefree.rows.cells import in_ascii_digits

# --- the table of marks and units ---

# Marks of money, by the sign that stands for them. Those of one sign are one unit.
_SIGNS = {
    "$": "$ us$ usd", "€": "€ eur euro euros", "£": "£ gbp", "¥": "¥ jpy cny rmb 円 元",
    "₹": "₹ inr rs rs. re", "R$": "r$ brl", "kr": "kr kr. sek nok dkk", "CHF": "chf fr. sfr sfr.",
    "zł": "zł zl pln", "A$": "a$ au$ aud", "C$": "c$ ca$ cad", "NZ$": "nz$ nzd", "HK$": "hk$ hkd",
    "S$": "s$ sgd", "MX$": "mx$ mxn", "NT$": "nt$ twd", "₩": "₩ krw 원", "₽": "₽ rub руб руб.",
    "₺": "₺ try tl", "₪": "₪ ils nis", "₫": "₫ vnd", "฿": "฿ thb", "₴": "₴ uah", "₦": "₦ ngn",
    "R": "zar", "Kč": "kč czk", "Ft": "huf", "Rp": "rp rp. idr", "₱": "₱ php", "RM": "rm myr",
    "₿": "₿ btc", "¢": "¢", "AED": "aed", "SAR": "sar", "Rs.PKR": "pkr", "S/": "s/ pen",
}  # fmt: skip
_MONEY = {written: sign for sign, names in _SIGNS.items() for written in names.split()}
# Units that convert into each other: {kind: {unit: (its size, other names)}}. In lower case; a
# name in capitals means the same unless it is here.
_CONVERTIBLE = {
    "length": {
        "mm": (1e-3, "millimeter millimetre"), "cm": (1e-2, "centimeter centimetre"),
        "m": (1.0, "meter metre mtr"), "km": (1e3, "kilometer kilometre kms"),
        "in": (0.0254, 'inch inches " \'\' ″ in.'), "ft": (0.3048, "foot feet ' ′"),
        "yd": (0.9144, "yard"), "mi": (1609.344, "mile"),
    },
    "mass": {
        "mg": (1e-6, "milligram"), "g": (1e-3, "gram gr"), "kg": (1.0, "kilogram kilo kgs"),
        "t": (1e3, "tonne ton"), "lb": (0.45359237, "lbs lb. lbs. pound"),
        "oz": (0.028349523125, "ounce oz."),
    },
    "time": {
        "ms": (1e-3, "millisecond msec"), "s": (1.0, "sec secs second sec."),
        "min": (60.0, "mins minute min."), "h": (3600.0, "hr hrs hour hr. hrs. std"),
        "d": (86400.0, "day"), "wk": (604800.0, "week wks"),
        "mo": (2629746.0, "month mos mth mon"), "yr": (31556952.0, "year yrs yr."),
    },
    "bytes": {
        "B": (1.0, "byte"), "KB": (1e3, "kilobyte"), "MB": (1e6, "megabyte"),
        "GB": (1e9, "gigabyte"), "TB": (1e12, "terabyte"), "KiB": (2.0**10, ""),
        "MiB": (2.0**20, ""), "GiB": (2.0**30, ""), "TiB": (2.0**40, ""),
    },
    "volume": {
        "ml": (1e-3, "milliliter millilitre"), "cl": (1e-2, ""), "l": (1.0, "liter litre ltr"),
    },
    "power": {"W": (1.0, "watt"), "kW": (1e3, "kilowatt"), "GW": (1e9, "")},
    "frequency": {"Hz": (1.0, ""), "kHz": (1e3, ""), "MHz": (1e6, ""), "GHz": (1e9, "")},
    "share": {"%": (0.01, "percent pct prozent"), "‰": (0.001, ""), "‱": (1e-4, "bp bps")},
    "speed": {
        "km/h": (1.0, "kmh kph"), "mph": (1.609344, "mi/h"), "m/s": (3.6, ""),
        "kn": (1.852, "knot"),
    },
}  # fmt: skip
_SIZES = {u: size for units in _CONVERTIBLE.values() for u, (size, _) in units.items()}
_KINDS = {u: kind for kind, units in _CONVERTIBLE.items() for u in units}
_NAMES = {
    name.lower(): u
    for units in _CONVERTIBLE.values()
    for u, (_, names) in units.items()
    for name in (u, *names.split())
}
# Words for powers of ten mean the same in every column.
_WORDS = {
    1e3: "thousand thousands tsd tsd. mil", 1e5: "lakh lakhs lac lacs",
    1e6: "million millions mio mio. mn mln mill mill. millionen", 1e7: "crore crores cr cr.",
    1e9: "billion billions bn bln mrd mrd. milliarden", 1e12: "trillion trillions trn",
    1e4: "万 萬 만", 1e8: "億 亿 억",
}  # fmt: skip
_POWERS = {word: power for power, words in _WORDS.items() for word in words.split()}
# Single letters are powers of ten only in a column that shows one of k, K or M: "5 m" alone may be
# metres or minutes, "7 T" tonnes, "9 B" bytes. "L" is a lakh beside crores.
_LETTERS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_SURE_LETTERS = frozenset("kKM")
# Debits are negative beside credits, and either of them is beside numbers without a mark. Where
# numbers without a mark are so much larger, CR is a crore.
_DEBITS, _CREDITS = frozenset(["dr", "dr."]), frozenset(["cr", "cr."])
_GERMAN = frozenset(["S", "H"])  # Soll and Haben; as units they are seconds and hours
_CRORE = 1e3
# Parts of the compass, which have two signs where a column has both. "O" is oeste and ouest beside
# E, and Osten beside W.
_COMPASS = {"south": ("N", "S"), "west": ("E", "W"), "oeste": ("E", "O"), "westen": ("O", "W")}
_SIDES = {
    "<": "< <= ≤ under below less_than up_to at_most max max. fewer_than",
    ">": "> >= ≥ over above more_than at_least min min. greater_than",
    "~": "~ ≈ about approx approx. ca ca. circa around ±",
}
_BOUNDS = {word.replace("_", " "): sign for sign, words in _SIDES.items() for word in words.split()}

# --- the forms of cells ---

_PLAIN = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
# Patterns with one way through: Arrow takes them apart ten times as fast as others.
_BODY = r"\d[\d.,' ]*"
_ONE = rf"^(?P<before>[^\d]*)(?P<low>{_BODY})(?P<after>[^\d]*)$"
_TWO = rf"^(?P<before>[^\d]*)(?P<low>{_BODY})(?P<middle>[^\d]*)(?P<high>{_BODY})(?P<after>[^\d]*)$"
_SCIENTIFIC = r"^[+-]?[\d.,]+[eE][+-]?\d+$"
_FRACTION = re.compile(
    r"(?P<sign>-?)(?:(?P<whole>\d{1,4})(?: |-| and ))?"
    r"(?P<top>\d{1,2})/(?P<bottom>2|3|4|5|8|16|32|64) ?(?P<after>[^\d]{0,12})"
)
_FEET = re.compile(
    r"(?P<feet>\d{1,5}) ?(?:'|ft\.?|feet|foot)(?: ?-? ?(?P<inches>\d{1,2}(?:\.\d+)?)"
    r"(?: (?P<top>\d{1,2})/(?P<bottom>2|4|8|16|32|64))?)? ?(?:\"|''|in\.?|inch|inches)?",
    re.IGNORECASE,
)
# "40°26'46\"N", of minutes and seconds or of minutes alone.
_DEGREES = re.compile(
    r"(?P<degrees>\d{1,3}) ?° ?(?P<minutes>\d{1,2}(?:\.\d+)?) ?'"
    r"(?: ?(?P<seconds>\d{1,2}(?:\.\d+)?) ?(?:\"|''))? ?(?P<after>[NSEWO]?)"
)
# "2h 50m", "1 day 3 hours": two units or more of time. Others, such as "4 lb 5 oz": `_UNITED`.
_SPAN = re.compile(
    r"(?:(?P<days>\d{1,4}) ?d(?:ays?)?)?,? ?(?:(?P<hours>\d{1,3}) ?h(?:(?:ou)?rs?)?)?,? ?"
    r"(?:(?P<minutes>\d{1,3}) ?m(?:in(?:ute)?s?)?)?,? ?"
    r"(?:(?P<seconds>\d{1,3}) ?s(?:ec(?:ond)?s?)?)?",
    re.IGNORECASE,
)
_UNITED = re.compile(r"(\d+(?:\.\d+)?) ?([^\W\d_]+)\.?(?:,? ?(?:and )?(?=\d)|$)")
_MINUTES = {"days": 1440.0, "hours": 60.0, "minutes": 1.0, "seconds": 1.0 / 60.0}
_ODD = (
    r"^-?\d+(?:(?: |-| and )\d+)?/\d|^\d+ ?(?:°|'|[fF][tT]|[fF]ee?[oO]?t)"
    r"|^\d+(?:\.\d+)? ?[A-Za-z]+\.?,? ?(?:and )?\d+(?:\.\d+)? ?[A-Za-z]"
)
# What is written in another way in the same sense, by pattern: a unit "m2" or "m^2", a price "5,-",
# footnotes "7*" and "7[a]", powers "1.5×10^3" and "1.5D+03", "5 ± 1", ranges "5..7" and
# "between 5 and 7", "N 59.8" and "59.8° N", and what spreadsheets write before a number that is
# meant as text.
_OTHERWISE = {
    r"([a-df-zA-DF-Z])\^?2$": r"\1²",
    r"([a-df-zA-DF-Z])\^?3$": r"\1³",
    r"/ ?100 ?([A-Za-z]+)$": r"/¹⁰⁰ \1",
    r"/ ?1000 ?([A-Za-z]+)$": r"/¹⁰⁰⁰ \1",
    "(\\d)[.,] ?[-\u2013\u2014]+": r"\1",
    r"(\d) ?(?:\[\w{1,4}\]|[*†‡§])+$": r"\1",
    r"(\d) ?[×x·*] ?10\^ ?(-?\d)": r"\1e\2",
    r"^([+-]?\d*\.\d+)[dD]([+-]\d+)$": r"\1e\2",
    r"(\d) ?(?:±|\+/-|\+-) ?\d[\d.,]*": r"\1",
    r"(\d) ?(?:\.\.+|[~〜]) ?(\d)": r"\1 - \2",
    r"^(?i:between|from) ([^\d]*\d.*) (?i:and|to) ([^\d]*\d)": r"\1 - \2",
    r"^'([^']*)'$": r"\1",
    r"^'([^']*\d[^']*)$": r"\1",
    r'^="?(.*?)"?$': r"\1",
    r'^"(.*)"$': r"\1",
    r"^(?:(?i:minus|negative) |[▼▽↓] ?)(\d)": r"-\1",
    r"^[▲△↑] ?(\d)": r"\1",
    r"(\d) ?° ?([NSEWO])$": r"\1\2",
    r"^([NSEWO]) ?(\d{1,3}\.\d+)°?$": r"\2\1",
}
_MAY_BE_OTHERWISE = (
    r"[a-df-zA-DF-Z]\^?[23]$|/ ?100|\d[.,] ?[-\x{2013}\x{2014}]|[\]*†‡§]$|10\^|[dD][+-]\d"
    r"|±|\+/?-|\.\.|~|〜|° ?[NSEWO]$|^[NSEWO] ?\d|^(?i:between|from|minus|negative) |^['\"=▲△↑▼▽↓]"
)
# Marks out of ten: "8/10", "8 out of 10". Halves and quarters of an inch have other denominators.
_RATIO = r"^(?P<top>\d+(?:[.,]\d+)?) ?(?:/|out of|of) ?(?P<bottom>5|6|7|10|20|25|50|100)$"
_SMALL = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_PARTS = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
          "⅓": "1/3", "⅔": "2/3"}  # fmt: skip


def _choice(words):
    """A pattern of any of some words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_BEFORE = re.compile(
    rf"(?P<open>\(?) ?(?:(?P<bound>{_choice(_BOUNDS)}) ?)?(?P<sign>[+-]?) ?"
    rf"(?P<money>{_choice(_MONEY)})? ?(?P<sign2>[+-]?) ?(?P<open2>\(?)(?P<mark>[.,]?)"
)
_AFTER = re.compile(
    r" ?(?P<close>\)?) ?(?P<word>.*?) ?(?P<bound>\+| plus|(?:and|or) (?:more|over|above|up|older)"
    r"|(?:and|or) (?:less|under|below|fewer|younger))? ?(?P<sign>-?) ?(?P<close2>\)?)"
)
_WORD = re.compile(r"(?:[^\W\d_]|[/%‰°\"'′″$€£¥¢])[^\d()<>=:;+,]{0,17}[²³]?")
_DASH = re.compile(
    r"(?P<after>.*?) ?(?P<dash>-|–|—|…|(?<![^\W\d_])(?:to|bis)(?= )) ?(?P<before>.*)"
)
_NO_UNITS = frozenset(["st", "nd", "rd", "th", "am", "pm", "a.m.", "p.m."])
_MOST_AFFIXES = 2000
_LONGEST = 48
_LEAST_SHARE = 0.5  # of the rows; below it a column is not one of numbers
_LEAST_DISTINCT = 3  # numbers in a unit that is not in the table, where other cells have none
_MOST_STRAYS = 0.05  # of the rows may be in a unit that does not convert


def _reading(point):
    """The pattern of a number with a decimal mark, and one kind of mark between thousands."""
    other, mark = ("," if point == "." else r"\."), re.escape(point)
    groups = "|".join(rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+" for group in (other, " ", "'"))
    indian = r"|[1-9]\d?(?:,\d{2})+,\d{3}" if point == "." else ""
    return (
        rf"^(?:[+-]?(?:\d+(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?"
        rf"|(?:{groups}{indian})(?:{mark}\d*)?)$"
    )


_READINGS = {point: _reading(point) for point in ".,"}
_GROUPS = {".": "[,' ]", ",": "[.' ]"}


class _Affix(NamedTuple):
    """What stands around a number: its sign, a bound, money, a word; a mark without a 0.

    The sign is that of an account, ")", if it does not stand before the number: (5) and 5-.
    """

    sign: str = ""
    bound: str = ""
    money: str = ""
    word: str = ""
    mark: str = ""


class _Affixes(NamedTuple):
    """What stands around the one number of a cell, or the two of a range, and between them."""

    low: _Affix
    high: _Affix | None = None
    dash: str = ""


class _Cells(NamedTuple):
    """Cells that are not plain numbers, taken apart.

    `code` is a place among `affixes`, -1 where a cell is no number. `low` and `high` are numbers
    without what is around them (null where there is none); `exact` are the values of fractions.
    """

    low: pa.StringArray
    high: pa.StringArray
    exact: np.ndarray
    code: np.ndarray
    is_tight: np.ndarray
    affixes: list

    @classmethod
    def of(cls, cells):
        """Take apart cells from `_normalised`."""
        one = compute.extract_regex(cells, _ONE)
        low, around = compute.struct_field(one, "low"), _joined(one, "before", "after")
        high = pa.nulls(len(cells), pa.string())
        if low.null_count:
            two = compute.extract_regex(compute.if_else(low.is_valid(), "", cells), _TWO)
            low = compute.coalesce(low, compute.struct_field(two, "low"))
            around = compute.coalesce(around, _joined(two, "before", "middle", "after"))
            high = compute.struct_field(two, "high")
        scientific = compute.match_substring_regex(cells, _SCIENTIFIC)
        low = compute.if_else(scientific, cells, low)
        high = compute.if_else(scientific, pa.scalar(None, pa.string()), high)
        around = compute.if_else(scientific, "\0", around)
        exact, around = _fractions(cells, around)
        code, affixes = _coded(around)
        no_blank = compute.invert(compute.ends_with(low, " "))
        is_tight = compute.fill_null(no_blank, False).to_numpy(zero_copy_only=False)
        low, high = (compute.utf8_rtrim(part, " .,'") for part in (low, high))
        out = cls(low, high, exact, code, is_tight, affixes)
        marks = (
            out.of_affixes([affix.low.mark for affix in affixes], ""),
            out.of_affixes([affix.high.mark if affix.high else "" for affix in affixes], ""),
        )
        if any((mark != "").any() for mark in marks):  # ".5" is 0.5
            low, high = (
                compute.binary_join_element_wise(pa.array(mark, pa.string()), part, "")
                for mark, part in zip(marks, (low, high), strict=True)
            )
        is_tight &= out.of_affixes([affix.dash == "-" for affix in affixes])
        return out._replace(low=low, high=high, is_tight=is_tight)

    def in_marks(self, written):
        """The same; where the column has both kinds of decimal marks, with one of them."""
        if "marks" not in written.styles:
            return self
        low, high = (_in_marks(part, written.point) for part in (self.low, self.high))
        return self._replace(low=low, high=high)

    def of_affixes(self, values: list, other: bool | str = False) -> np.ndarray:
        """By cell, a value of its affixes, and another for cells that are no numbers."""
        return np.array([*values, other])[self.code]


def _joined(found, *names):
    parts = [compute.struct_field(found, name) for name in names]
    return compute.binary_join_element_wise(*parts, "\0")


def _coded(around):
    """Codes of what stands around numbers, and what it means; in an order of the texts alone."""
    counted = compute.value_counts(around.drop_null())
    texts = sorted(counted.field("values").to_pylist())
    if len(texts) > _MOST_AFFIXES:
        most = zip((-counted.field("counts").to_numpy()).tolist(),
                   counted.field("values").to_pylist(), strict=True)  # fmt: skip
        texts = sorted(text for _, text in sorted(most)[:_MOST_AFFIXES])
    found = {text: affixes for text in texts if (affixes := _affixes(text)) is not None}
    code = compute.index_in(around, pa.array(list(found), pa.string()))
    return compute.fill_null(code, -1).to_numpy(), list(found.values())


def _affixes(text):
    """What stands around the numbers of a cell: before, perhaps between, and after; or None."""
    before, *middle, after = text.split("\0")
    if not middle:
        low = _affix(before, after)
        return None if low is None else _Affixes(low)
    dash = _DASH.fullmatch(middle[0])
    if dash is None:
        return None
    low, high = _affix(before, dash["after"]), _affix(dash["before"], after)
    if low is None or high is None or low.bound or high.bound:
        return None
    low = low._replace(word=low.word or high.word, money=low.money or high.money)
    high = high._replace(money=low.money)
    return _Affixes(low, high, "-" if middle[0] == "-" else "to")


def _affix(before, after):
    """What stands before and after one number, or None if it is not what does so."""
    after = re.sub(r"^ ?\+ ?(?=\w)(.*)", r" \1+", after)  # "10+ years"
    head, tail = _BEFORE.fullmatch(before.lower()), _AFTER.fullmatch(after)
    if head is None or tail is None:
        return None
    is_open = head["open"] or head["open2"]
    is_closed = tail["close"] or tail["close2"]
    signs = [s for s in (head["sign"], head["sign2"], tail["sign"] and ")", is_open and ")") if s]
    word = tail["word"]
    is_word = not word or (_WORD.fullmatch(word) and word.count(" ") <= 2)
    if bool(is_open) != bool(is_closed) or len(signs) > 1 or not is_word:
        return None
    if word.lower() in _NO_UNITS or (head["bound"] and tail["bound"]):
        return None
    bound = _BOUNDS.get(head["bound"] or "", "")
    if tail["bound"]:
        more = ("+", "plus", "more", "over", "above", "up", "older")
        bound = ">" if tail["bound"].strip().endswith(more) else "<"
    money = _MONEY.get(head["money"] or "", "")
    return _Affix("".join(signs), bound, money, word, head["mark"])


def _normalised(cells):
    """Cells with one blank, one minus and one apostrophe for each that is in use."""
    if compute.any(compute.match_substring_regex(cells, r"[^\x20-\x7e]")).as_py():
        cells = compute.replace_substring_regex(cells, r"[\s\p{Zs}]", " ")
        cells = compute.replace_substring_regex(cells, "[\u2212\uff0d\ufe63\u2010\u2011]", "-")
        cells = compute.replace_substring_regex(cells, "^ ?[\u2013\u2014]", "-")
        cells = compute.replace_substring_regex(cells, "[\u2018\u2019\u02bc\u00b4`′]", "'")
        cells = compute.replace_substring_regex(cells, "[″“”]", '"')
        for sign, text in _PARTS.items():
            if compute.any(compute.match_substring(cells, sign)).as_py():
                cells = compute.replace_substring_regex(cells, rf"(\d) ?{sign}", rf"\1 {text}")
                cells = compute.replace_substring(cells, sign, text)
    if not compute.any(compute.match_substring_regex(cells, _MAY_BE_OTHERWISE)).as_py():
        return cells  # a look takes a tenth of the time of these copies
    for pattern, text in _OTHERWISE.items():
        if compute.any(compute.match_substring_regex(cells, pattern)).as_py():
            cells = compute.replace_substring_regex(cells, pattern, text)
    return cells


def _with_ratios(cells, bottom):
    """Cells such as "8/10" as a number with the unit "/¹⁰"."""
    is_ratio = compute.match_substring_regex(cells, _RATIO)
    if not compute.any(is_ratio).as_py():
        return cells
    parts = compute.extract_regex(cells, _RATIO)
    top, own = (compute.struct_field(parts, name) for name in ("top", "bottom"))
    small = bottom.translate(_SMALL)
    named = compute.binary_join_element_wise(top, pa.scalar(f"/{small}"), "")
    return compute.if_else(compute.fill_null(compute.equal(own, bottom), False), named, cells)


def _bottom_of(cells):
    """What marks are out of: the one number behind the bars of "8/10"; "" if there is none."""
    if not compute.any(compute.match_substring_regex(cells, _RATIO)).as_py():
        return ""
    parts = compute.extract_regex(cells, _RATIO).drop_null()
    tops, bottoms = (compute.struct_field(parts, name).unique() for name in ("top", "bottom"))
    is_one = len(bottoms) == 1 and len(tops) >= _LEAST_DISTINCT
    return bottoms[0].as_py() if is_one else ""


def _fractions(cells, around):
    """The values of fractions (NaN for other cells), and what stands around each number."""
    exact = np.full(len(cells), np.nan)
    places = np.flatnonzero(compute.match_substring_regex(cells, _ODD).to_numpy(False))
    if not len(places):
        return exact, around
    texts = around.to_pylist()
    for k, cell in zip(places, cells.take(pa.array(places)).to_pylist(), strict=True):
        found = _FEET.fullmatch(cell)
        scale, after = 1.0, "in"
        if found and (found["inches"] or "'" in cell):
            whole = 12.0 * float(found["feet"]) + float(found["inches"] or 0.0)
        elif found := _FRACTION.fullmatch(cell):
            whole, after = float(found["whole"] or 0.0), found["after"]
            scale = -1.0 if found["sign"] else 1.0
        elif found := _DEGREES.fullmatch(cell):
            minutes = float(found["minutes"]) + float(found["seconds"] or 0.0) / 60.0
            exact[k], texts[k] = float(found["degrees"]) + minutes / 60.0, f"\0{found['after']}"
            continue
        elif found := _SPAN.fullmatch(cell):
            exact[k] = sum(_MINUTES[name] * float(found[name] or 0.0) for name in _MINUTES)
            texts[k] = "\0min"
            continue
        elif united := _united(cell):
            exact[k], texts[k] = united[0], f"\0{united[1]}"
            continue
        else:
            continue
        part = float(found["top"] or 0.0) / float(found["bottom"] or 1.0)
        if part < 1.0:
            exact[k] = scale * (whole + part)
            texts[k] = f"\0{after}"
    return exact, pa.array(texts, pa.string())


def _united(cell):
    """The value of a cell such as "4 lb 5 oz", and its last unit; None if units do not convert."""
    parts, at = [], 0
    while at < len(cell):
        found = _UNITED.match(cell, at)
        if found is None or (unit := _unit(found[2])) is None:
            return None
        parts.append((float(found[1]), unit))
        at = found.end()
    sizes = [_SIZES[unit] for _, unit in parts]
    is_one = len({_KINDS[unit] for _, unit in parts}) == 1 and len(parts) > 1
    if not is_one or sizes != sorted({*sizes}, reverse=True):
        return None
    last = sizes[-1]
    ratios = [10.0**power * rest for power, rest in (_power_and_rest(s / last) for s in sizes)]
    return sum(n * ratio for (n, _), ratio in zip(parts, ratios, strict=True)), parts[-1][1]


def _in_marks(bodies, point):
    """Numbers with the other decimal mark, where it is one without doubt, with this one.

    "1.234,5", "1.234.567" and "99,5" among "1,234.5"; "1,234" is read with the mark of the column.
    """
    group = {".": ",", ",": "."}[point]
    mark, other = re.escape(group), re.escape(point)
    both = rf"^[+-]?\d{{1,3}}(?:{other}\d{{3}})+{mark}\d+$|^[+-]?\d{{1,3}}(?:{other}\d{{3}}){{2,}}$"
    alone = rf"^[+-]?\d+{mark}(?:\d{{1,2}}|\d{{4,}})$"
    is_other = compute.match_substring_regex(bodies, f"{both}|{alone}")
    swapped = compute.replace_substring(compute.replace_substring(bodies, point, ""), group, point)
    return compute.if_else(compute.fill_null(is_other, False), swapped, bodies)


def _has_both_marks(bodies, rows):
    """Whether there are numbers such as 1,234.5 and such as 1.234,5, both in some of the rows."""
    shares = [
        rows[compute.fill_null(compute.match_substring_regex(bodies, pattern), False)
             .to_numpy(zero_copy_only=False)].sum()
        for pattern in (r"^[+-]?\d{1,3}(?:,\d{3})+\.\d+$", r"^[+-]?\d{1,3}(?:\.\d{3})+,\d+$")
    ]  # fmt: skip
    return min(shares) > 0.0


def _accepted(bodies, point):
    """Which numbers are well written with a decimal mark."""
    found = compute.match_substring_regex(bodies, _READINGS[point])
    return compute.fill_null(found, False).to_numpy(zero_copy_only=False)


def _floats(bodies, point, powers):
    """Numbers with a decimal mark, times powers of ten; NaN where they are not so written.

    A power is written behind the digits, so that 2.3M is 2300000 to the last bit.
    """
    if bodies.null_count == len(bodies):
        return np.full(len(bodies), np.nan)
    bodies = compute.if_else(pa.array(_accepted(bodies, point)), bodies, None)
    if point == "," or compute.any(compute.match_substring_regex(bodies, _GROUPS[point])).as_py():
        bodies = compute.replace_substring_regex(bodies, _GROUPS[point], "")
        bodies = compute.replace_substring(bodies, ",", ".")
    if powers.any():
        exponents = pa.array(np.where(powers == 0, "", [f"e{p}" for p in powers.tolist()]))
        bodies = compute.binary_join_element_wise(bodies, exponents, "")
    values = compute.fill_null(bodies.cast(pa.float64()), np.nan).to_numpy()
    return np.where(np.isfinite(values), values, np.nan)


# --- what words mean ---


def _meaning(word, styles, kind):
    """A word after a number: its size, and a unit ("" for thousands, millions, ...)."""
    lower, letters = word.lower(), "letters" in styles
    if _is_a_sign(word, styles):
        return 1.0, ""
    if not word or lower in _MONEY:
        return 1.0, _MONEY.get(lower, "")
    if kind == "bytes" and lower in "kmgt":
        return 1.0, f"{word.upper()}B"
    if letters and lower in _LETTERS:
        return _LETTERS[lower], ""
    if word == "L" and "lakh" in styles:
        return 1e5, ""
    if word == "m" and kind == "time":
        return 1.0, "min"
    unit = _unit(word)
    if unit is not None:
        return 1.0, unit
    if lower in _POWERS:
        return _POWERS[lower], ""
    powers = {**_POWERS, **_LETTERS} if letters else _POWERS
    for power in sorted(powers, key=len, reverse=True):
        rest = lower[len(power) :].strip()
        is_split = rest in _MONEY or lower.startswith(f"{power} ")
        if lower.startswith(power) and is_split:
            _, unit = _meaning(word[len(power) :].strip(), "", kind)
            return powers[power], unit
    return 1.0, word


def _negative_of(cells, plain, point):
    """What words make a number negative: of an account, or of the compass; "" if there are none."""
    words = {affixes.low.word for affixes in cells.affixes if affixes.low.word}
    sides = [style for style, pair in _COMPASS.items() if words == {*pair}]
    return sides[0] if sides else _account_of(cells, plain, point, words)


def _account_of(cells, plain, point, words):
    """What marks of an account mean in a column: "debits" or "credits" are negative; "" of none."""
    lower = {word.lower() for word in words}
    if (lower & _DEBITS and lower & _CREDITS) or words == _GERMAN:
        return "debits"
    if not lower or lower - _DEBITS - _CREDITS:
        return ""
    is_marked = cells.of_affixes([bool(affixes.low.word) for affixes in cells.affixes])
    values = np.abs(_floats(cells.low, point, np.zeros(len(cells.low), dtype=int)))
    bare = np.abs(_floats(plain, point, np.zeros(len(plain), dtype=int)))
    bare = np.append(bare, values[~is_marked])
    bare, values = bare[~np.isnan(bare)], values[is_marked & ~np.isnan(values)]
    if lower & _DEBITS:  # but "4dr" is a number of doors
        return "debits" if (values != np.floor(values)).any() else ""
    if not len(bare) or not len(values):
        return ""
    return "credits" if np.median(bare) < _CRORE * np.median(values) else ""


def _is_a_sign(word, styles):
    """Whether a word is a mark of an account, or a part of the compass, in a column so written."""
    if any(word in _COMPASS.get(style, ()) for style in styles):
        return True
    if "debits" not in styles and "credits" not in styles:
        return False
    return word.lower() in _DEBITS | _CREDITS or word in _GERMAN


def _is_negative(word, styles):
    """Whether a number with such a word is negative in a column so written."""
    if any(word == _COMPASS[style][1] for style in styles if style in _COMPASS):
        return True
    if "debits" in styles:
        return word.lower() in _DEBITS or word == "S"
    return "credits" in styles and word.lower() in _CREDITS


def _unit(word):
    """The unit of the table that a word is, or None."""
    lower = word.lower()
    singular = lower[:-1] if lower.endswith("s") and len(lower) > 3 else lower
    return word if word in _SIZES else _NAMES.get(lower, _NAMES.get(singular))


def _group_of(unit):
    """What a unit converts within."""
    if unit in _KINDS:
        return _KINDS[unit]
    unit = unit.lower()
    return unit[:-1] if unit.endswith("s") and len(unit) > 3 else unit


def _power_and_rest(size):
    """A size as a power of ten and what is left of it."""
    power = round(np.log10(size))
    if np.isclose(size, 10.0**power, rtol=1e-12):
        return power, 1.0
    whole = round(max(size, 1.0 / size))  # 12 inches are a foot, not 12.000000000000002
    exact = float(whole) if size > 1.0 else 1.0 / whole
    return 0, exact if np.isclose(size, exact, rtol=1e-12) else size


class _Sizes(NamedTuple):
    """By code of affixes: powers of ten and other factors, by number of a range."""

    powers: np.ndarray
    factors: np.ndarray


class Numbers(NamedTuple):
    """How the numbers of a column of text are written.

    Cells are trimmed text, none of which is a marker of a missing value.

    Parameters
    ----------
    point : str
        The decimal mark, "." or ",".
    unit : str
        The unit that the values are in: "kmpl", "GB", "$"; "" if there is none. Percents are
        divided by a hundred.
    styles : str
        What else cells show, as words: "groups" of thousands, "marks" of both kinds before
        decimals, "signs" as in accounts, "debits", "credits", "south" or "west" as negative
        numbers, "letters" that are powers of ten, "lakh", "percents" without their sign, "bounds",
        "ranges" (and "tight" ones, without blanks) and "fractions". Cells in another style are not
        numbers so written.

    Examples
    --------
    >>> cells = pa.array(["1.234", "12.500,75", "3,5"])
    >>> numbers = Numbers.of(cells, np.array([1, 1, 1]))
    >>> numbers.point, numbers.values(cells).tolist()
    (',', [1234.0, 12500.75, 3.5])
    >>> cells = pa.array(["8GB", "512MB", "2100 - 2850 MB"])
    >>> numbers = Numbers.of(cells, np.array([5, 1, 1]))
    >>> numbers.words(), numbers.values(cells).tolist()
    ('numbers in GB, ranges as their middle', [8.0, 0.512, 2.475])
    """

    point: str = "."
    unit: str = ""
    styles: str = ""

    @classmethod
    def of(cls, cells: pa.StringArray, counts: np.ndarray, points: str = ".") -> "Numbers | None":
        """How the numbers of distinct cells are written; None if hardly a cell is a number.

        Parameters
        ----------
        cells : StringArray
            Distinct cells.
        counts : ndarray
            The rows of each.
        points : str, default="."
            Decimal marks of the file, the first one for columns that can be read either way
            ("1,234" and "5,678").

        Examples
        --------
        >>> Numbers.of(pa.array(["10.0.0.1", "10.0.0.2"]), np.array([1, 1])) is None
        True
        """
        return cls.read(cells, counts, points)[0]

    @classmethod
    def read(
        cls, cells: pa.StringArray, counts: np.ndarray, points: str = "."
    ) -> "tuple[Numbers | None, np.ndarray | None]":
        """The same, with the values of the cells, so that they need not be taken apart twice."""
        counts = np.asarray(counts, dtype=np.float64)
        cells = in_ascii_digits(cells)
        plain = _is_plain(cells)
        if points == "." and plain.all() and are_grouped(cells):
            points = ",."
        if points[0] == "." and plain.all() and len(cells):
            return cls(), cls().values(cells)
        least = _LEAST_SHARE * counts.sum()
        if counts[_may_be_numbers(cells)].sum() < least:
            return None, None
        others, rows = cells.filter(pa.array(~plain)), counts[~plain]
        bottom = _bottom_of(others)
        rest = _Cells.of(_normalised(_with_ratios(others, bottom)))
        if counts[plain].sum() + rows[rest.code >= 0].sum() < least or not counts.sum():
            return None, None
        point = _point(cells.filter(pa.array(plain)), counts[plain], rest, rows, points)
        first = cls(point)
        if _has_both_marks(rest.low, rows):
            first = first._replace(styles="marks")
        rest = rest.in_marks(first)
        negative = _negative_of(rest, cells.filter(pa.array(plain)), point)
        first = first._replace(styles=f"{first.styles} {negative}".strip())
        found = first._with_units(rest, rows, counts.sum(), counts[plain].sum())
        if found is None:
            return None, None
        bare = found._plain_values(cells.filter(pa.array(plain)), np.zeros(int(plain.sum()), int))
        if found.unit == "%" and len(bare) and np.nanmax(np.abs(bare), initial=0.0) > 1.0:
            found = found._replace(styles=f"{found.styles} percents".strip())
        found, values = found._with_styles(rest, rows, counts[plain].sum())
        none, out = np.zeros(int(plain.sum()), dtype=int), np.empty(len(cells))
        out[plain] = found._plain_values(cells.filter(pa.array(plain)), none)
        in_plain = ~np.isnan(out[plain])
        out[~plain] = values
        n_numbers = counts[plain][in_plain].sum() + rows[~np.isnan(values)].sum()
        # "1Fam" beside "Duplex" is a level, and no number of families.
        is_word = found.unit not in _KINDS and found.unit not in _SIGNS and found.unit != ""
        few = is_word and len(np.unique(values[~np.isnan(values)])) < _LEAST_DISTINCT
        if few and n_numbers < (1.0 - _MOST_STRAYS) * counts.sum():
            return None, None
        return (found, out) if n_numbers >= least else (None, None)

    @property
    def is_plain(self) -> bool:
        """Whether numbers are only digits, a sign, a point and an exponent."""
        return self == Numbers()

    def values(self, cells: pa.StringArray) -> np.ndarray:
        """Values of cells; NaN where a cell is not a number so written."""
        cells = in_ascii_digits(compute.fill_null(cells, ""))
        plain = _is_plain(cells)
        out = np.full(len(cells), np.nan)
        none = np.zeros(int(plain.sum()), dtype=int)
        out[plain] = self._plain_values(cells.filter(pa.array(plain)), none)
        if not plain.all():
            others = _with_ratios(cells.filter(pa.array(~plain)), self._bottom)
            out[~plain] = self._values(_Cells.of(_normalised(others)).in_marks(self))
        return out

    def _plain_values(self, cells, powers):
        """The values of plain numbers."""
        if "marks" in self.styles:
            cells = _in_marks(cells, self.point)
        values = _floats(cells, self.point, powers)
        return values / 100.0 if "percents" in self.styles else values

    @property
    def _bottom(self):
        """What marks such as "8/10" are out of, as text; "" for other numbers."""
        digits = self.unit[1:].translate({v: chr(k) for k, v in _SMALL.items()})
        return digits if self.unit[:1] == "/" and digits.isdigit() else ""

    def words(self) -> str:
        """How the numbers are written, in words."""
        styles = self.styles.split()
        parts = ["with a decimal comma"] if self.point == "," else []
        if "groups" in styles:
            parts.append("with marks between thousands")
        if "marks" in styles:
            parts.append("some with a decimal comma, some with a point")
        if self._bottom:
            parts.append(f"out of {self._bottom}")
        elif self.unit:
            parts.append("in parts of one" if self.unit == "%" else f"in {self.unit}")
        if "percents" in styles:
            parts.append("percents with and without a sign")
        if "letters" in styles:
            parts.append("where letters such as k and M are powers of ten")
        if "ranges" in styles:
            parts.append("ranges as their middle")
        if "bounds" in styles:
            parts.append("bounds as their number")
        for side in ("debits", "credits", *_COMPASS):
            if side in styles:
                parts.append(f"{side} as negative numbers")
        return f"numbers {', '.join(parts)}".strip()

    # --- of the whole column ---

    def _with_units(self, cells, rows, n_rows, n_plain):
        """The unit of a column, and what letters mean; None if units do not convert."""
        is_number = _accepted(cells.low, self.point) | ~np.isnan(cells.exact)
        seen = np.bincount(cells.code[is_number & (cells.code >= 0)],
                           rows[is_number & (cells.code >= 0)], len(cells.affixes))  # fmt: skip
        words = [a.low.word for a, count in zip(cells.affixes, seen, strict=True) if count]
        first = {found.group() for word in words if (found := re.match(r"[^\W\d_]+", word))}
        styles = self.styles.split() + ["letters"] * bool(_SURE_LETTERS.intersection(first))
        styles += ["lakh"] if any(w.lower().startswith("cr") for w in words) else []
        words = [w for w in words if not _is_a_sign(w, styles)]
        units = {_unit(word) for word in words if word.lower() not in _LETTERS}
        kinds = {_KINDS[u] for u in units if u is not None}
        kind = next((k for k in ("bytes", "length", "time") if k in kinds), "")
        if kind == "bytes":
            styles = [style for style in styles if style != "letters"]
        by_unit, n_bare = {}, n_plain
        for affixes, count in zip(cells.affixes, seen, strict=True):
            unit = affixes.low.money or _meaning(affixes.low.word, styles, kind)[1]
            if unit:
                by_unit[unit] = by_unit.get(unit, 0.0) + count
            else:
                n_bare += count
        by_group = {}
        for unit, count in by_unit.items():
            by_group[_group_of(unit)] = by_group.get(_group_of(unit), 0.0) + count
        found = self._replace(styles=" ".join(styles))
        if not by_group or not max(by_group.values()):
            return found
        group = max(sorted(by_group), key=by_group.__getitem__)
        unit = max(sorted(u for u in by_unit if _group_of(u) == group), key=by_unit.__getitem__)
        # A unit that few cells have may be a letter of a code, such as E of 84030E.
        is_sure = unit in _SIGNS or group == "share" or (unit in _KINDS and len(unit) > 1)
        if not is_sure and by_group[group] < n_bare:
            return found
        if sum(by_group.values()) - by_group[group] > _MOST_STRAYS * n_rows:
            return None
        return found._replace(unit="%" if group == "share" else unit)

    def _with_styles(self, cells, rows, n_plain):
        """The styles that cells show, and that can be read without doubt; and the values."""
        every = "groups signs bounds ranges tight fractions"
        values = self._replace(styles=f"{self.styles} {every}")._values(cells)
        is_number = ~np.isnan(values)
        sides = cells.of_affixes([a.low.bound for a in cells.affixes], "")
        is_range = cells.of_affixes([bool(a.dash) for a in cells.affixes])
        is_signed = cells.of_affixes([a.low.sign == ")" for a in cells.affixes])
        has_word = cells.of_affixes([bool(a.low.word) for a in cells.affixes])
        is_fraction = ~np.isnan(cells.exact)
        n_single = n_plain + rows[is_number & ~is_range & ~is_fraction].sum()
        styles = self.styles.split()
        below, above = (set(values[is_number & (sides == side)]) for side in "<>")
        if (is_number & (sides != "")).any() and not below & above:
            styles.append("bounds")  # but "<=50K" and ">50K" are two classes
        if (is_number & is_range).any():
            styles.append("ranges")
        tight = is_number & is_range & cells.is_tight
        if tight.any() and (rows[tight].sum() < n_single or self._tile(cells, tight)):
            styles.append("tight")
        fractions = is_number & is_fraction
        is_clear = has_word | (np.abs(cells.exact) > 1.0)
        if (fractions & is_clear).any() or 0 < rows[fractions].sum() < n_single:
            styles.append("fractions")
        grouped = compute.match_substring_regex(cells.low, rf"\d{_GROUPS[self.point]}\d")
        grouped = compute.fill_null(grouped, False).to_numpy(zero_copy_only=False)
        if (grouped & is_number & ~is_fraction).any():
            styles.append("groups")
        if (is_signed & is_number).any():
            styles.append("signs")
        found = self._replace(styles=" ".join(styles))
        has_doubt = (is_number & ((sides != "") | is_range | is_fraction)).any()
        return found, found._values(cells) if has_doubt else values

    def _tile(self, cells, chosen):
        """Whether ranges such as 18-25, 26-35 do not overlap; parts of phone numbers do."""
        sizes = self._sizes(cells)
        low, high = (v[chosen] for v in self._ends(cells, sizes))
        order = np.argsort(low, kind="stable")
        return len(low) > 1 and bool((low[order][1:] >= high[order][:-1]).all())

    # --- of cells ---

    def _sizes(self, cells):
        """Powers of ten and factors of affixes; NaN where a unit is not the column's."""
        powers, styles = np.zeros((len(cells.affixes) + 1, 2), dtype=int), self.styles.split()
        factors = np.full((len(cells.affixes) + 1, 2), np.nan)
        for k, affixes in enumerate(cells.affixes):
            for end, affix in enumerate((affixes.low, affixes.high)):
                size = None if affix is None else self._size(affix)
                if affix is not None and size is not None:
                    powers[k, end], factors[k, end] = _power_and_rest(size)
                    is_negative = affix.sign in ("-", ")") or _is_negative(affix.word, styles)
                    factors[k, end] *= -1.0 if is_negative else 1.0
        return _Sizes(powers[cells.code], factors[cells.code])

    def _size(self, affix):
        """The size of one such number in the unit of the column, or None if it has none."""
        styles, kind = self.styles.split(), _KINDS.get(self.unit, "")
        size, unit = _meaning(affix.word, styles, kind)
        if affix.money and unit:
            return size if affix.money == unit else None
        unit = affix.money or unit
        if affix.bound and "bounds" not in styles:
            return None
        is_money = self.unit in _SIGNS or not self.unit
        if not unit and "percents" in styles:
            return 0.01 * size
        if not unit:
            return size if size == 1.0 or is_money or self.unit not in _KINDS else None
        if _group_of(unit) != _group_of(self.unit):
            return None
        if unit not in _KINDS:
            return size
        return size * _SIZES[unit] / (1.0 if kind == "share" else _SIZES[self.unit])

    def _ends(self, cells, sizes):
        """The number of each cell, or the two of a range; the second is NaN without one."""
        low = _floats(cells.low, self.point, sizes.powers[:, 0]) * sizes.factors[:, 0]
        high = _floats(cells.high, self.point, sizes.powers[:, 1]) * sizes.factors[:, 1]
        return low, high

    def _values(self, cells):
        sizes, styles = self._sizes(cells), self.styles.split()
        low, high = self._ends(cells, sizes)
        is_range = cells.of_affixes([bool(affix.dash) for affix in cells.affixes])
        may_be = np.full(len(low), "ranges" in styles)
        if cells.is_tight.any():
            padded = compute.match_substring_regex(cells.low, r"^0\d")
            padded = compute.or_kleene(padded, compute.match_substring_regex(cells.high, r"^0\d"))
            padded = compute.fill_null(padded, False).to_numpy(zero_copy_only=False)
            may_be &= ~cells.is_tight | (("tight" in styles) & ~padded & (low < high))
        with np.errstate(invalid="ignore"):
            middle = np.where(may_be & (low <= high), low + (high - low) / 2.0, np.nan)
        out = np.where(is_range, middle, low)
        exact = cells.exact * sizes.factors[:, 0] * 10.0 ** sizes.powers[:, 0]
        exact = exact if "fractions" in styles else np.full(len(exact), np.nan)
        # "+1 555 123 456" is a phone number.
        phone = cells.of_affixes([affix.low.sign == "+" for affix in cells.affixes])
        if phone.any():
            blank = compute.fill_null(compute.match_substring(cells.low, " "), False)
            out[phone & blank.to_numpy(zero_copy_only=False)] = np.nan
        return np.where(np.isnan(cells.exact), out, exact)


# Thousands with points, with more digits than one group, and whole numbers below a thousand.
_GROUPED = r"^[+-]?[1-9]\d{0,2}(?:\.\d{3})+$"
_BELOW_THOUSAND = r"^[+-]?\d{1,3}$"


def are_grouped(cells: pa.StringArray, values: np.ndarray | None = None) -> bool:
    """Whether points in plain numbers stand between thousands: "1.250" and "410", not "1.25".

    Decimals have as many digits everywhere, or none at the end that is a zero. These have three,
    a zero among the last ones, and stand beside whole numbers below a thousand.

    Parameters
    ----------
    cells : StringArray
    values : ndarray, optional
        Their numbers, which show at once that most columns are none of these.

    Examples
    --------
    >>> are_grouped(pa.array(["1.250", "410", "2.125"])), are_grouped(pa.array(["1.25", "410"]))
    (True, False)
    >>> are_grouped(pa.array(["2.000", "410"]), np.array([2.0, 410.0]))
    True
    """
    if values is not None:
        if not may_be_grouped(values):
            return False
        has_points = (
            np.any(values != np.floor(values))
            or compute.any(compute.match_substring(cells, ".")).as_py()
        )
        if not has_points:
            return False
    grouped = compute.match_substring_regex(cells, _GROUPED)
    is_whole = compute.match_substring_regex(cells, _BELOW_THOUSAND)
    if compute.any(compute.invert(compute.or_(grouped, is_whole))).as_py():
        return False
    shown = cells.filter(grouped)
    ends_with_zero = compute.any(compute.ends_with(shown, "0")).as_py()
    return bool(ends_with_zero) and 0 < len(shown) < len(cells) - cells.null_count


def may_be_grouped(values: np.ndarray) -> bool:
    """Whether points in some plain numbers may stand between thousands, by their size.

    >>> [may_be_grouped(np.array(x)) for x in ([1.25, 410.0], [0.25, 410.0], [1.25, 4100.0])]
    [True, False, False]
    """
    values = values[~np.isnan(values)]
    parts = values[values != np.floor(values)]
    if len(parts) == len(values):  # thousands stand beside numbers below 1000
        return False
    if np.abs(values).max(initial=0.0) >= 1000.0 or np.abs(parts).min(initial=1.0) < 1.0:
        return False
    return np.array_equal(np.round(parts, 3), parts)


def words_of_groups(cell: str) -> str:
    """What a cell with points between thousands is, for messages.

    >>> words_of_groups("1.250")
    "points stand between thousands: '1.250' is 1250"
    """
    return f"points stand between thousands: {cell!r} is {cell.replace('.', '')}"


def _is_plain(cells):
    return compute.match_substring_regex(cells, _PLAIN).to_numpy(zero_copy_only=False)


def _may_be_numbers(cells):
    """Which cells can be numbers at all, by a look that costs little."""
    is_short = compute.less_equal(compute.utf8_length(cells), _LONGEST)
    may_be = compute.match_substring_regex(cells, r"^[^\d]{0,20}\d|[½¼¾⅛⅜⅝⅞⅓⅔]")
    return compute.and_(is_short, may_be).to_numpy(zero_copy_only=False)


def _point(plain, plain_rows, rest, rows, points):
    """The decimal mark with which most rows are numbers; the first of `points` if both do."""
    fits = {}
    for point in ".,":
        bodies = _accepted(rest.low, point) & (rest.code >= 0)
        fits[point] = plain_rows[_accepted(plain, point)].sum() + rows[bodies].sum()
    if fits["."] == fits[","]:
        return points[0]
    return max(fits, key=fits.__getitem__)
