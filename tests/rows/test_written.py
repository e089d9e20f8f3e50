"""Numbers and dates as written: what is written in any usual way is read back exactly."""

import json
import re
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from tunefree.rows.written_dates import Dates
from tunefree.rows.written_durations import Durations
from tunefree.rows.written_numbers import Numbers

SEEDS = range(4)


def numbers_of(*cells, points=".", counts=None):
    counts = np.ones(len(cells)) if counts is None else np.array(counts)
    return Numbers.of(pa.array(cells, pa.string()), counts, points)


def dates_of(*cells, **kwargs):
    return Dates.of(pa.array(cells, pa.string()), np.ones(len(cells)), **kwargs)


def read(found, *cells):
    return found.values(pa.array(cells, pa.string()))


def assert_reads(found, cells, expected):
    assert found is not None
    np.testing.assert_array_equal(read(found, *cells), np.array(expected))


# --- numbers ---


def with_marks(value, decimals, group, point):
    """A number with marks between thousands and a decimal mark."""
    text = f"{value:,.{decimals}f}"
    return text.replace(",", "\0").replace(".", point).replace("\0", group)


def indian(value, decimals, _, point):
    whole, _, part = f"{abs(value):.{decimals}f}".partition(".")
    head, tail = whole[:-3], whole[-3:]
    pairs = []
    while head:
        pairs.insert(0, head[-2:])
        head = head[:-2]
    sign = "-" if value < 0 else ""
    return sign + ",".join([*pairs, tail]) + (point + part if part else "")


MARKS = [
    ("", "."), ("", ","), (",", "."), (".", ","), (" ", ","), (" ", "."), ("\u00a0", ","),
    ("\u202f", ","), ("\u2009", ","), ("'", "."), ("’", "."),
]  # fmt: skip
AROUND = [
    "{}", "${}", "$ {}", "€{}", "{} €", "{}€", "£{}", "¥{}", "₹{}", "Rs. {}", "Rs {}", "R$ {}",
    "{} kr", "USD {}", "{} USD", "CHF {}", "{} zł", "{} kmpl", "{} CC", "{}GB", "{} lbs", "{} °C",
    "{} km/h", "{} m²", "{} m2", "{} sq ft", "~{}", "ca. {}",
]  # fmt: skip


def drawn(rng, n=40):
    """Numbers of any size with up to three decimals, one of them with one and above 1,000."""
    decimals = int(rng.integers(0, 3))
    values = np.round(rng.normal(size=n) * 10.0 ** rng.integers(0, 7, n), decimals)
    return np.append(values, [1234567.0, 0.5 if decimals else 5.0]), decimals


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_read_back_exactly(around, seed):
    rng = np.random.default_rng([seed, AROUND.index(around)])
    values, decimals = drawn(rng)
    group, point = MARKS[rng.integers(len(MARKS))]
    if decimals == 0 and "." in group + around:
        group = ""  # 1.234 alone is a point between decimals
    cells = [around.format(with_marks(v, decimals, group, point)) for v in values]
    found = numbers_of(*dict.fromkeys(cells))
    assert_reads(found, cells, values)
    assert found.is_plain == (around == "{}" and group == "" and (point == "." or not decimals))


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_with_indian_groups_are_read_back_exactly(seed):
    values, decimals = drawn(np.random.default_rng(seed))
    cells = [indian(v, decimals, ",", ".") for v in values]
    assert_reads(numbers_of(*dict.fromkeys(cells)), cells, values)


@pytest.mark.parametrize("minus", ["-{}", "\u2212{}", "({})", "{}-", "- {}", "–{}"])
@pytest.mark.parametrize("around", ["{}", "{},5", "{} kg"])
def test_negative_numbers(minus, around):
    cells = [around.format(7), minus.format(around.format(12)), minus.format(around.format(3))]
    half = 0.5 if "," in around else 0.0
    assert_reads(numbers_of(*cells), cells, [7 + half, -12 - half, -3 - half])


@pytest.mark.parametrize("minus", ["-{}", "\u2212{}", "({})", "{}-", "- {}"])
@pytest.mark.parametrize("quotes", ["'{}'", "'{}", '"{}"'])
def test_quotes_around_numbers_mean_nothing(minus, quotes):
    """Those with a sign before the number were no numbers."""
    cells = [quotes.format(cell) for cell in ("7.5", minus.format("12.25"), minus.format("3"))]
    assert_reads(numbers_of(*cells), cells, [7.5, -12.25, -3])


def test_money_with_signs():
    cells = ["-$5", "$-6", "($7.25)", "$(8)", "$1,234.50", "9"]
    assert_reads(numbers_of(*cells), cells, [-5, -6, -7.25, -8, 1234.5, 9])


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["12.50 CR", "3.25 DR", "0.00"], [12.5, -3.25, 0]),
        (["12.50Cr.", "3Dr."], [12.5, -3]),
        (["$1,012.50 CR", "$3.25"], [-1012.5, 3.25]),
        (["12.50 DR", "3.25"], [-12.5, 3.25]),
        (["-12.50 DR", "(3) DR", "7 CR"], [-12.5, -3, 7]),
        (["1.012,50 S", "3,25 H"], [-1012.5, 3.25]),
        (["2.5 Cr", "3 Cr"], [25e6, 30e6]),
        (["2.5 Cr", "85 Lac"], [25e6, 85e5]),
        (["2.5 Cr", "8500000"], [25e6, 85e5]),
        (["4dr", "2dr", "5"], [4, 2, 5]),
        (["30 S", "20 S"], [30, 20]),
    ],
)
def test_debits_and_credits_are_of_different_signs_and_crores_are_none(cells, expected):
    """CR was a crore beside DR, and DR alone a unit."""
    assert_reads(numbers_of(*cells), cells, expected)


@pytest.mark.parametrize(
    ("suffixes", "powers"),
    [
        (["k", "M"], [3, 6]), (["K", "M", "B"], [3, 6, 9]), (["k", "m", "bn"], [3, 6, 9]),
        ([" Mio", " Mrd"], [6, 9]), ([" lakh", " crore"], [5, 7]), ([" L", " Cr"], [5, 7]),
        ([" million", " billion"], [6, 9]), (["M", "B", "T"], [6, 9, 12]), ([" Mio €"], [6]),
        (["M $", "k $"], [6, 3]), (["%"], [-2]), ([" %"], [-2]),
    ],
)  # fmt: skip
def test_powers_of_ten_are_exact(suffixes, powers):
    rng = np.random.default_rng(len(suffixes))
    digits = [f"{v:.2f}" for v in rng.uniform(0, 100, 30)]
    places = [k % len(suffixes) for k in range(30)]
    cells = [d + suffixes[p] for d, p in zip(digits, places, strict=True)]
    expected = [float(f"{d}e{powers[p]}") for d, p in zip(digits, places, strict=True)]
    assert_reads(numbers_of(*cells), cells, expected)


@pytest.mark.parametrize(
    ("cells", "unit", "expected"),
    [
        (["8GB", "16GB", "512MB", "1TB"], "GB", [8, 16, 0.512, 1000]),
        (["5 kg", "7kg", "250 g"], "kg", [5, 7, 0.25]),
        (["5 lbs", "7 lbs", "8 oz"], "lb", [5, 7, 0.5]),
        (["5 m", "7 m", "30 cm", "2 km"], "m", [5, 7, 0.3, 2000]),
        (["5 m", "7 m", "30 s", "2 h"], "min", [5, 7, 0.5, 120]),
        (["5 ft", "7 ft", "6 in"], "ft", [5, 7, 0.5]),
        (["1 vehicle", "2 vehicles"], "vehicle", [1, 2]),
        (["3 years", "1 year", "6 months"], "yr", [3, 1, 0.5]),
        (["10+ years", "< 1 year", "2 years"], "yr", [10, 1, 2]),
        (["2h 50m", "19h", "1h 5m"], "min", [170, 1140, 65]),
        (["1 day, 3 hours", "2 hours 30 min", "45 min"], "min", [1620, 150, 45]),
    ],
)
def test_units_that_convert(cells, unit, expected):
    found = numbers_of(*cells)
    assert found.unit == unit
    np.testing.assert_allclose(read(found, *cells), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "cells",
    [
        ["5 lbs", "3 hours"], ["5 kg", "7 m"], ["$5", "7 €"], ["2 BHK", "4 Bedroom"],
        ["5 GB", "5 %"], ["1Fam", "Duplex", "1Fam", "Twnhs", "1Fam"],
    ],
)  # fmt: skip
def test_units_that_do_not_convert_make_no_column_of_numbers(cells):
    counts = [3] + [1] * (len(set(cells)) - 1)
    assert numbers_of(*dict.fromkeys(cells), counts=counts) is None


def test_a_letter_alone_is_a_unit():
    """5 m may be metres: only k, K and M make letters powers of ten."""
    assert_reads(numbers_of("5 m", "7 m"), ["5 m"], [5])
    assert_reads(numbers_of("5 m", "7 k"), ["5 m", "7 k"], [5e6, 7e3])


@pytest.mark.parametrize(
    ("cells", "points", "expected"),
    [
        (["1.234", "12.500,75"], ".", [1234, 12500.75]),
        (["1,234", "5,678"], ".", [1234, 5678]),
        (["1,234", "5,678"], ".,", [1234, 5678]),
        (["1,234", "5,678"], ",", [1.234, 5.678]),
        (["1.234", "5.678"], ",", [1234, 5678]),
        (["1.234", "5.678"], ".", [1.234, 5.678]),
        (["1,234", "0,5"], ".", [1.234, 0.5]),
        (["1,234", "0,567"], ".,", [1.234, 0.567]),
        (["1,234", "0.5"], ".,", [1234, 0.5]),
        (["1,234,567", "12"], ",", [1234567, 12]),
        (["1.234.567", "12"], ".", [1234567, 12]),
        (["1,5e3", "2,5"], ".,", [1500, 2.5]),
    ],
)
def test_the_whole_column_decides_the_decimal_mark(cells, points, expected):
    assert_reads(numbers_of(*cells, points=points), cells, expected)
    assert_reads(numbers_of(*cells[::-1], points=points), cells, expected)


@pytest.mark.parametrize("dash", [" - ", "–", " – ", " to ", "-", "- "])
@pytest.mark.parametrize("around", ["{}{}{}", "${}{}${}", "{}{}{} kg", "{} kg{}{} kg", "{}k{}{}k"])
def test_ranges_are_their_middle(dash, around):
    lows = [10, 21, 1500, 0.5]
    cells = [around.format(low, dash, low + 1) for low in lows]
    size = 1000.0 if "k{}{}k" in around and "kg" not in around else 1.0
    assert_reads(numbers_of(*cells), cells, [(low + 0.5) * size for low in lows])


def test_ranges_among_numbers():
    cells = ["1200", "1300", "2100 - 2850", "1100-1300"]
    assert_reads(numbers_of(*cells), cells, [1200, 1300, 2475, 1200])


def test_groups_of_ages_and_incomes():
    ages = ["18-24", "25-34", "35-44", "45+"]
    assert_reads(numbers_of(*ages), ages, [21, 29.5, 39.5, 45])
    incomes = ["$0 - $24,999", "$25,000 - $49,999", "$150,000+"]
    assert_reads(numbers_of(*incomes), incomes, [12499.5, 37499.5, 150000])


@pytest.mark.parametrize("bound", ["<{}", "< {}", ">{}", ">= {}", "≥{}", "{}+", "over {}",
                                   "up to {}", "~{}", "{} or more", "more than {}"])  # fmt: skip
def test_bounds_are_their_number(bound):
    cells = ["1.5", "2", "3", bound.format(90), bound.format("1,000")]
    assert_reads(numbers_of(*cells), cells, [1.5, 2, 3, 90, 1000])


def test_bounds_that_are_two_classes_are_no_numbers():
    assert numbers_of("<=50K", ">50K") is None


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (['5 1/2"', '3/4"', '7"'], [5.5, 0.75, 7]),
        (["5 1/2", "3/4", "7"], [5.5, 0.75, 7]),
        (["5½", "3¾", "7"], [5.5, 3.75, 7]),
        (["5'11\"", "6'2\"", "6'"], [71, 74, 72]),
        (["5' 11 1/2\"", "6 ft 2 in", "6 ft"], [71.5, 74, 72]),
        (["5’11”", "6’2”"], [71, 74]),
    ],
)
def test_fractions_of_inches(cells, expected):
    assert_reads(numbers_of(*cells), cells, expected)


NO_NUMBERS = [
    ["192.168.1.1", "10.0.0.1", "8.8.8.8"], ["1.2.3", "4.0.12"], ["555-1234", "555-2345"],
    ["555-123-4567", "444-123-4567"], ["(555) 123-4567", "(555) 765-4321"],
    ["+1 555 123 4567", "+44 20 7946 0958"], ["06 12 34 56 78", "06 98 76 54 32"],
    ["1-2-3", "10-20-30"], ["2020-01-31", "2021-12-01"], ["01/02/2020", "3/4/2021"],
    ["d41d8cd98f", "900150983c"], ["A12", "B7"], ["12:30", "4:01"], ["16:9", "4:3"],
    ["1/2", "3/4"], ["7-Jan-18", "8-Feb-19"], ["inf", "-inf"], ["nan", "x"], ["red", "blue"],
    ["1st", "2nd", "3rd"], ["4 PM", "5 AM"], ["12 Main Street", "7 High Road"],
    ["10x20", "5x7"], ["1,2,3", "4,5,6"], ["ab@c1.de", "x@y2.de"], ["12-34-56-78", "1-2"],
    ["550e8400-e29b-41d4", "f47ac10b-58cc-4372"], ["", "-"], ["Q1", "Q2"], ["v1.2", "v1.3"],
    ["2-1", "0-3", "1-1"], ["120/80", "130/85"], ["84030E", "84031B", "85123A"], ["1 2 3", "4 5"],
]  # fmt: skip


@pytest.mark.parametrize("cells", NO_NUMBERS, ids=lambda cells: cells[0])
def test_what_is_no_number(cells):
    assert numbers_of(*cells) is None
    assert np.isnan(read(Numbers(), *cells)).all()


def test_a_plain_column_reads_plain_cells_only():
    """A cell in a style that the column never had is no number so written."""
    found = numbers_of("1", "2.5", "-3e2")
    assert found.is_plain
    odd = ["n.a.", "3.0M", "2100 - 2850", "150k", "84030E", "< 5", "5 kg", "inf", "1e999"]
    assert np.isnan(read(found, *odd)).all()


def strays_of(rng, n):
    words = ["Unknown", "Ask For Price", "see note", "84030E", "10.0.0.1", "#DIV/0!", "??", "x1y2"]
    return [f"{words[rng.integers(len(words))]}{' ' * k}." for k in range(n)]


@pytest.mark.parametrize("seed", range(8))
def test_strays_and_the_order_of_cells_change_nothing(seed):
    rng = np.random.default_rng(seed)
    values, decimals = drawn(rng, 60)
    group, point = MARKS[rng.integers(len(MARKS))]
    around = AROUND[rng.integers(len(AROUND))]
    cells = [around.format(with_marks(v, decimals + 1, group, point)) for v in values]
    cells = list(dict.fromkeys(cells))
    alone = numbers_of(*cells)
    mixed = [*cells, *strays_of(rng, 3)]
    found = numbers_of(*mixed)
    assert found == alone
    np.testing.assert_array_equal(read(found, *cells), read(alone, *cells))
    assert np.isnan(read(found, *mixed[len(cells) :])).all()
    shuffled = [mixed[k] for k in rng.permutation(len(mixed))]
    assert numbers_of(*shuffled) == found
    assert numbers_of(*mixed, counts=np.full(len(mixed), 7)) == found


@pytest.mark.parametrize("around", AROUND)
def test_numbers_go_to_json_and_back(around):
    found = numbers_of(*[around.format(k) for k in ("1,5", "2,25", "1.000,5")])
    again = Numbers(**json.loads(json.dumps(found._asdict())))
    assert again == found and found.words().startswith("numbers with a decimal comma")


def test_no_cells():
    assert numbers_of() is None and dates_of() is None
    assert len(Numbers().values(pa.array([], pa.string()))) == 0
    assert len(Dates().values(pa.array([], pa.string()))) == 0


# --- dates ---

FORMATS = [
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%m/%d/%y",
    "%d/%m/%y", "%d-%m-%Y", "%d.%m.%y", "%d-%b-%y", "%d-%b-%Y", "%d %b %Y", "%d %B %Y",
    "%b %d, %Y", "%B %d, %Y", "%B %d %Y", "%b. %d, %Y", "%a %d %b %Y", "%A, %B %d, %Y",
    "%d%b%Y", "%Y-%b-%d", "%d. %B %Y", "%a, %d %b %Y", "%b-%d-%Y",
]  # fmt: skip
TIMES = [
    "", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p", " %I:%M%p", "T%H:%M:%SZ",
    " %H:%M:%S+02:00", " %H:%M:%S.%f", " %H:%M:%S -0500", "T%H:%M:%S.%fZ", ", %H:%M",
]  # fmt: skip


def moments(rng, n=60):
    seconds = rng.integers(0, int(60 * 365.25 * 86400), n)
    fraction = rng.integers(0, 1_000_000, n)
    start = datetime(1970, 1, 1)
    return [start + timedelta(0, int(s), int(f)) for s, f in zip(seconds, fraction, strict=True)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("time", TIMES)
def test_dates_are_read_back_exactly(form, time):
    rng = np.random.default_rng([FORMATS.index(form), TIMES.index(time)])
    written = form + time
    cells = [moment.strftime(written) for moment in moments(rng)]
    expected = np.array(
        [datetime.strptime(cell, written).replace(tzinfo=None) for cell in cells], "datetime64[us]"
    )
    if rng.random() < 0.5 and form != "%Y%m%d" and not form.startswith("%d%b"):
        # Without zeros in front of days and months.
        cells = [re.sub("(^|[/-])0(?=[1-9][/-])", r"\1", cell, count=2) for cell in cells]
    found = dates_of(*dict.fromkeys(cells))
    assert_reads(found, cells, expected)
    assert not found.is_ambiguous


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("5/13/18 4:01", "2018-05-13T04:01"), ("7-Jan-18", "2018-01-07"),
        ("September 25, 2021", "2021-09-25"), ("Sept. 5, 2021", "2021-09-05"),
        ("20141013T000000", "2014-10-13"), ("20190103", "2019-01-03"),
        ("Jun 12 1998", "1998-06-12"), ("January 3rd, 2020 at 5:06 PM", "2020-01-03T17:06"),
        ("12/31/99 12:00 AM", "1999-12-31"), ("12/31/99 12:00 PM", "1999-12-31T12:00"),
        ("2020-01-31T10:11:12.123456789Z", "2020-01-31T10:11:12.123456"),
        ("10/Oct/2000:13:55:36 -0700", "2000-10-10T13:55:36"),
        ("Tue Aug 05 13:14:15 2014", "2014-08-05T13:14:15"),
        ("Wed Aug 27 13:08:45 +0000 2008", "2008-08-27T13:08:45"),
        ("Sun Jan 7 2018 10:00:00 GMT+0100 (CET)", "2018-01-07T10:00"), ("2020M01", "2020-01-01"),
        ("5/13/18 4:01:00 PM UTC", "2018-05-13T16:01"), ("2018, January 7", "2018-01-07"),
        ("Mar 5, 2018", "2018-03-05"), ("mar 5 2018", "2018-03-05"), ("1. März 2020", "2020-03-01"),
        ("3 de enero de 2020", "2020-01-03"), ("14 juillet 1989", "1989-07-14"),
        ("2 dicembre 2001", "2001-12-02"), ("7 de setembro de 1922", "1922-09-07"),
        ("2024-02-29 23:59:60", "2024-03-01"), ("98-05-31", "1998-05-31"),
        ("31/12/68", "2068-12-31"), ("31/12/69", "1969-12-31"), ("2019-Q3", "2019-07-01"),
        ("Q1 2020", "2020-01-01"), ("2019-07", "2019-07-01"), ("Jan-18", "2018-01-01"),
        ("07/2019", "2019-07-01"), ("January 2019", "2019-01-01"),
        ("2024-01-01T00:00:00+01:00[Europe/Paris]", "2024-01-01"), ("0001-01-01", "0001-01-01"),
        ("9999-12-31", "9999-12-31"),
    ],
)  # fmt: skip
def test_a_date(cell, expected):
    assert_reads(dates_of(cell), [cell], [np.datetime64(expected, "us")])


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("18.00.00", "18:00"), ("18:00", "18:00"), ("4:01:59", "04:01:59"), ("6:05 PM", "18:05"),
        ("12:00 am", "00:00"), ("23:59:59.5", "23:59:59.5"), ("5 p.m.", "17:00"),
    ],
)  # fmt: skip
def test_times_alone(cell, expected):
    found = dates_of(cell)
    assert found.is_time
    assert_reads(found, [cell], [np.datetime64(f"1970-01-01T{expected}", "us")])


NO_DATES = [
    ["1", "2", "3"], ["10.5", "11.5"], ["2019", "2020"], ["May", "June"], ["12345678", "20190101"],
    ["20191301", "20190101"], ["18000101", "19000101"], ["1.2.3", "1.2.4"], ["10.0.0.1"],
    ["2020-02-30"], ["31/02/2020"], ["2023-02-29"], ["2020-13-01"], ["2020-01-01 25:00"],
    ["2020-01-01 10:61"], ["13:00 PM"], ["555-1234"], ["555-123-4567"], ["abc"], ["84030E"],
    ["0000-01-01"], ["1/2"], ["2100 - 2850"], ["Juno 5, 2020"], ["5-Foo-18"], ["1-2-3"], ["19-Dec"],
    ["12 Main Street 2020"], ["2020-01-01 and more"], ["1e5"], [""],
]  # fmt: skip


@pytest.mark.parametrize("cells", NO_DATES, ids=lambda cells: cells[0])
def test_what_is_no_date(cells):
    assert dates_of(*cells) is None


@pytest.mark.parametrize("separator", "/-")
def test_the_whole_column_decides_the_order_of_day_and_month(separator):
    def written(*cells):
        return [cell.replace("/", separator) for cell in cells]

    either = written("01/02/2020", "03/04/2021")
    found = dates_of(*either)
    assert found.is_ambiguous and not found.day_first and "first as well" in found.words()
    assert_reads(found, either, np.array(["2020-01-02", "2021-03-04"], "datetime64[us]"))
    found = dates_of(*either, day_first=True)
    assert found.day_first and not found.is_ambiguous
    assert_reads(found, either, np.array(["2020-02-01", "2021-04-03"], "datetime64[us]"))
    day_first = written("01/02/2020", "15/01/2020")
    found = dates_of(*day_first)
    assert found.day_first and not found.is_ambiguous and "day first" in found.words()
    assert_reads(found, day_first, np.array(["2020-02-01", "2020-01-15"], "datetime64[us]"))
    both = written("1/13/2020", "1/14/2020", "15/01/2020", "1/2/2020")
    expected = np.array(["2020-01-13", "2020-01-14", "NaT", "2020-01-02"], "datetime64[us]")
    assert_reads(dates_of(*both), both, expected)


def test_dates_with_points_have_the_day_first():
    cells = ["01.02.2024", "03.04.2024"]
    found = dates_of(*cells)
    assert found.day_first and not found.is_ambiguous
    assert_reads(found, cells, np.array(["2024-02-01", "2024-04-03"], "datetime64[us]"))


def test_a_day_that_does_not_exist_is_missing():
    """Other parsers make it a day of the next month."""
    cells = ["2020-02-28", "2020-02-30", "2020-04-31", "2020-03-01"]
    expected = np.array([cells[0], "NaT", "NaT", cells[3]], "datetime64[us]")
    assert_reads(dates_of(*cells), cells, expected)


def test_the_local_time_counts():
    cells = ["2020-01-31T10:00:00Z", "2020-01-31T10:00:01+02:00", "2020-01-31T10:00:02-0330"]
    found = dates_of(*cells)
    assert found.has_offsets and "offsets" in found.words()
    expected = [np.datetime64(cell[:19], "us") for cell in cells]
    assert_reads(found, cells, expected)
    assert not dates_of(*cells[:1]).has_offsets


@pytest.mark.parametrize("form", FORMATS)
def test_strays_and_the_order_of_dates_change_nothing(form):
    rng = np.random.default_rng(FORMATS.index(form))
    cells = list(dict.fromkeys(m.strftime(form) for m in moments(rng)))
    strays = ["Unknown", "0000-00-00", "soon"]
    found, alone = dates_of(*cells, *strays), dates_of(*cells)
    assert found == alone
    np.testing.assert_array_equal(read(found, *cells), read(alone, *cells))
    assert np.isnat(read(found, *strays)).all()
    mixed = [*cells, *strays]
    assert dates_of(*(mixed[k] for k in rng.permutation(len(mixed)))) == found
    again = Dates(**json.loads(json.dumps(found._asdict())))
    assert again == found
    np.testing.assert_array_equal(read(again, *cells), read(found, *cells))


def test_a_learned_column_reads_other_full_dates():
    """A file written on another day, or another container, may write dates in another way."""
    found = dates_of("13/05/2018", "01/06/2018")
    cells = ["2018-06-01", "1-Jun-18", "01/06/2018", "June 1, 2018"]
    assert_reads(found, cells, [np.datetime64("2018-06-01", "us")] * 4)
    assert np.isnat(read(found, "20180601", "2018-06", "18:00", "5")).all()


# --- other scripts, marks of both kinds, and what means the same ---

SCRIPTS = {"full width": "\uff10", "Arabic": "\u0660", "Persian": "\u06f0", "Hindi": "\u0966"}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("around", ["{}", "{} kg", "-{}", "20{}%"])
def test_digits_of_any_script_are_digits(script, around):
    table = {ord("0") + k: chr(ord(SCRIPTS[script]) + k) for k in range(10)}
    cells = [around.format(f"{v:.2f}") for v in np.random.default_rng(0).uniform(1, 9, 30)]
    other = [cell.translate(table) for cell in cells]
    np.testing.assert_array_equal(
        read(numbers_of(*other), *other), read(numbers_of(*cells), *cells)
    )
    days = [day(i).strftime("%d.%m.%Y") for i in range(30)]
    other = [cell.translate(table) for cell in days]
    np.testing.assert_array_equal(read(dates_of(*other), *other), read(dates_of(*days), *days))


def day(i):
    return datetime(2019, 1, 1) + timedelta(days=97 * i)


@pytest.mark.parametrize("around", ["{}", "{} €", "$ {}"])
def test_marks_of_both_kinds_in_one_column(around):
    values = np.random.default_rng(0).uniform(1, 1e6, 60).round(2)
    cells = [
        around.format(with_marks(v, 2, *((",", ".") if i % 3 else (".", ","))))
        for i, v in enumerate(values)
    ]
    found = numbers_of(*cells)
    assert "both" in found.words() or "some with a decimal comma" in found.words()
    assert_reads(found, cells, values)
    usual = numbers_of(*[cell for i, cell in enumerate(cells) if i % 3])
    assert np.isnan(read(usual, "1.234,50")).all()  # of one kind the other is none


ALIKE = {
    "{} m²": ["{} m2", "{} m^2"],
    "{} l/¹⁰⁰ km": ["{} l/100 km", "{} l/100km"],
    "{}": ["{}*", "{} [a]", "{} ± 0.5", "{}+/-1", "'{}", '="{}"', "{}×10^0", "{}‡", "~{}"],
}


@pytest.mark.parametrize("plain", ALIKE)
def test_what_means_the_same_is_read_alike(plain):
    values = np.random.default_rng(0).uniform(1, 90, 30).round(1)
    for form in ALIKE[plain]:
        cells = [(form if i % 3 else plain).format(v) for i, v in enumerate(values)]
        assert_reads(numbers_of(*cells), cells, values)


@pytest.mark.parametrize("form", ["{} - {}", "{}..{}", "{} ~ {}", "between {} and {}", "{} to {}"])
def test_ranges_in_words_and_signs(form):
    low = np.arange(20.0) * 7 + 100
    cells = [form.format(int(v), int(v) + 10) for v in low]
    assert_reads(numbers_of(*cells), cells, low + 5)


@pytest.mark.parametrize("form", ["{}/10", "{} out of 10", "{} of 10", "{} / 10"])
def test_marks_out_of_ten(form):
    values = [7.5, 8.0, 9.0, 10.0, 3.0]
    cells = [form.format(f"{v:g}") for v in values]
    found = numbers_of(*cells)
    assert_reads(found, cells, values)
    assert "out of 10" in found.words()
    assert dates_of(*cells) is None
    assert numbers_of("129/80", "120/70", "110/75") is None  # of several things out of which


def test_units_that_follow_each_other():
    cells = ["4 lb 5 oz", "9 lb", "3 lb 8oz", "12 oz"]
    np.testing.assert_allclose(
        read(numbers_of(*cells), *cells) / read(numbers_of(*cells), "1 lb"),
        [4.3125, 9, 3.5, 0.75],
        rtol=1e-12,
    )
    cells = ["29 years 7 months", "3 yrs 2 mon", "1 year 6 months"]
    months = read(numbers_of(*cells), *cells) / read(numbers_of(*cells), "1 month")
    np.testing.assert_allclose(months, [355, 38, 18], rtol=1e-12)
    assert numbers_of("12W 3D 4L", "10W 2D 7L") is None  # of several kinds


@pytest.mark.parametrize(("bare", "expected"), [("{:.1f}", 0.01), ("{:.4f}", 1.0)])
def test_percents_with_and_without_their_sign(bare, expected):
    """Bare numbers above one are percents as well; below one all are parts."""
    values = np.random.default_rng(0).uniform(10, 90, 20).round(1)
    numbers = values if expected == 0.01 else values / 100.0
    cells = [f"{v:.1f}%" if i % 2 else bare.format(numbers[i]) for i, v in enumerate(values)]
    np.testing.assert_allclose(read(numbers_of(*cells), *cells), values / 100.0, rtol=1e-4)


# --- more dates, and durations ---

MONTHS = {
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
    "sv": "januari februari mars april maj juni juli augusti september oktober november december",
    "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października "
          "listopada grudnia",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "cs": "ledna února března dubna května června července srpna září října listopadu prosince",
    "tr": "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
    "id": "januari februari maret april mei juni juli agustus september oktober november desember",
}  # fmt: skip


@pytest.mark.parametrize("language", MONTHS)
def test_months_of_more_languages(language):
    names = MONTHS[language].split()
    days = [day(i) for i in range(30)]
    for form in ("{d} {m} {y}", "{d}. {m} {y}", "{d}-{m}-{y}"):
        cells = [form.format(d=t.day, m=names[t.month - 1], y=t.year) for t in days]
        assert_reads(dates_of(*cells), cells, np.array(days, dtype="M8[us]"))


@pytest.mark.parametrize(
    "form",
    ["%Y年%m月%d日", "%Y년 %m월 %d일", "%Y. %m. %d.", "%Y年%-m月%-d日 0時00分", "%G-W%V-%u",
     "%Y%m%d000000", "%Y-%m-%d 00:00:00 Europe/Berlin", "%Y-%m-%dT00:00:00+01:00[Europe/Oslo]"],
)  # fmt: skip
def test_dates_of_more_places(form):
    days = [day(i) for i in range(30)]
    cells = [t.strftime(form) for t in days]
    assert_reads(dates_of(*cells), cells, np.array(days, dtype="M8[us]"))


def test_weeks_are_their_mondays():
    cells = ["2020-W01", "2020-W53", "2021W02"]
    assert_reads(
        dates_of(*cells), cells, np.array(["2019-12-30", "2020-12-28", "2021-01-11"], "M8[us]")
    )


@pytest.mark.parametrize("writer", ["pandas", "Python", "clock", "ISO"])
def test_durations_as_they_are_written(writer):
    pd = pytest.importorskip("pandas")
    minutes = np.random.default_rng(0).integers(-2000, 5000, 40)
    minutes = np.abs(minutes) if writer in ("clock", "ISO") else minutes
    values = [timedelta(minutes=int(m), seconds=7) for m in minutes]
    cells = {
        "pandas": lambda t: str(pd.Timedelta(t)),
        "Python": str,
        "clock": lambda t: (
            f"{int(t.total_seconds()) // 3600}:{int(t.total_seconds()) // 60 % 60:02d}:07"
        ),
        "ISO": lambda t: f"PT{int(t.total_seconds()) // 60}M7S",
    }[writer]
    cells = [cells(t) for t in values]
    found, days = Durations.read(pa.array(cells), np.ones(40))
    np.testing.assert_array_equal(days, np.array(values, "m8[us]") / np.timedelta64(1, "D"))
    assert_reads(found, cells, days)


def test_clock_times_below_a_day_are_times_and_no_durations():
    cells = pa.array(["5:11", "23:59", "0:00"])
    assert Durations.read(cells, np.ones(3)) == (None, None)
    assert Durations.of(cells, np.ones(3)) is not None  # where durations are known to be
    long = pa.array(["51:30", "1:05:00"])
    np.testing.assert_allclose(Durations.read(long, np.ones(2))[1] * 1440, [51.5, 65])


@pytest.mark.parametrize("point", [".", ","])
@pytest.mark.parametrize("most", [59.0, 90.0, 2000.0])
def test_laps_of_races_are_seconds(point, most):
    """1:38.109 is 98.109 seconds; below a minute a race is written 58.220."""
    seconds = np.random.default_rng(0).uniform(30.0, most, 40).round(3)
    seconds[0] = 61.5
    cells = [lap(t, point) for t in seconds]
    found, days = Durations.read(pa.array(cells), np.ones(40))
    np.testing.assert_allclose(days * 86_400, seconds, rtol=1e-12)
    assert_reads(found, cells, days)
    without_minutes = [f"{t:.3f}".replace(".", point) for t in seconds]
    assert Durations.of(pa.array(without_minutes), np.ones(40)) is None  # numbers alone


def lap(seconds, point):
    """Seconds as races write them."""
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    text = f"{rest // 1000:02d}.{rest % 1000:03d}".replace(".", point)
    return f"{minutes}:{text}" if minutes else text


COORDINATES = {
    "28.25N": lambda x, side: f"{x:.2f}{side}",
    "28.25 N": lambda x, side: f"{x:.2f} {side}",
    "N 28.25": lambda x, side: f"{side} {x:.2f}",
    "28.25° N": lambda x, side: f"{x:.2f}° {side}",
    "28°15'N": lambda x, side: f"{int(x)}°{round(x % 1 * 60):02d}'{side}",
    "28° 15' 0\" N": lambda x, side: f"{int(x)}° {round(x % 1 * 60)}' 0\" {side}",
}


@pytest.mark.parametrize("form", COORDINATES)
@pytest.mark.parametrize("sides", ["NS", "EW", "EO"])
def test_south_and_west_are_negative_where_a_column_has_both_sides(form, sides):
    degrees = np.random.default_rng(0).integers(-80 * 4, 80 * 4, 40) / 4.0
    cells = [COORDINATES[form](abs(x), sides[int(x < 0.0)]) for x in degrees]
    found = numbers_of(*cells)
    np.testing.assert_allclose(read(found, *cells), degrees, rtol=1e-12)
    north = [COORDINATES[form](abs(x), sides[0]) for x in degrees]
    alone = numbers_of(*north)
    np.testing.assert_allclose(read(alone, *north), np.abs(degrees), rtol=1e-12)
    is_south = degrees < 0.0  # not silently north: such cells are counted as bad
    np.testing.assert_array_equal(np.isnan(read(alone, *cells)), is_south)
