"""A column that decides the target is learned, however its cells are written, or named.

`CELLS` has ways to write cells, by the size `z`, or the class `k`, of a row. A table of such a
column is learned: either new rows show its signal, or a warning names the column.
"""

import unicodedata
import warnings
from datetime import datetime, timedelta

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from tunefree import GLMRegressor, TablePreprocessor

pd = pytest.importorskip("pandas")
N, TRAIN = 300, 200
RNG = np.random.default_rng(0)
SIZES = RNG.uniform(1.0, 100.0, N).round(2)
SIGNED = (RNG.normal(size=N) * 50.0).round(2)
CLASSES = RNG.integers(0, 6, N)
START = datetime(2018, 1, 1)


def day(z, form):
    return (START + timedelta(days=20.0 * z)).strftime(form)


def grouped(value, group, point):
    text = f"{value:,.2f}"
    return text.replace(",", "\0").replace(".", point).replace("\0", group)


def minutes(z):
    return divmod(int(60 * z), 60)


OF_SIZES = {
    "US and Germany": lambda z, i: grouped(1e3 * z, *(",.", ".,")[i % 2]),
    "US and Switzerland": lambda z, i: grouped(1e3 * z, *(",.", "'.")[i % 2]),
    "four places": lambda z, i: grouped(1e3 * z, *(",.", ".,", "'.", "\u202f,")[i % 4]),
    "basis points": lambda z, i: f"{z:.0f} bps",
    "percents and basis points": lambda z, i: f"{100 * z:.0f} bp" if i % 2 else f"{z}%",
    "percent points": lambda z, i: f"{z:.1f} pp",
    "serial dates": lambda z, i: 40_000 + int(20 * z),
    "errors of a sheet": lambda z, i: (
        ["#N/A", "#DIV/0!", "#REF!"][i % 3] if i % 20 == 0 else str(z)
    ),
    "seconds since 1970": lambda z, i: int(1.5e9 + 1e6 * z),
    "ns since 1970": lambda z, i: int(1.5e9 + 1e6 * z) * 10**9,
    "short years": lambda z, i: day(z, "%d.%m.%y"),
    "days and months in both orders": lambda z, i: day(z, ("%d/%m/%Y", "%m/%d/%Y")[i % 2]),
    "dates in several ways": lambda z, i: day(z, ("%Y-%m-%d", "%d %b %Y", "%B %d, %Y")[i % 3]),
    "zones": lambda z, i: day(z, "%Y-%m-%dT%H:%M:%S") + ("Z", "+02:00", "-05:00")[i % 3],
    "months": lambda z, i: day(z, "%m/%y"),
    "hours and minutes": lambda z, i: "{}h {}m".format(*minutes(z)),
    "a clock": lambda z, i: "{:02d}:{:02d}:12".format(*minutes(z / 5)),
    "minutes and seconds": lambda z, i: "{}m{}s".format(*minutes(z)),
    "minutes and seconds in words": lambda z, i: "{} min {} sec".format(*minutes(z)),
    "ranges": lambda z, i: f"{int(z) // 10 * 10}-{int(z) // 10 * 10 + 9}",
    "ranges that overlap": lambda z, i: f"{int(z)}-{int(z) + 10}",
    "bounds at the ends": lambda z, i: "<5" if z < 5 else ">90" if z > 90 else f"{z:.1f}",
    "at least": lambda z, i: f">={z:.0f}",
    "powers of ten": lambda z, i: f"{z:.3e}",
    "powers with a comma": lambda z, i: f"{z:.3E}".replace(".", ","),
    "hexadecimal": lambda z, i: hex(int(10 * z)),
    "coordinates": lambda z, i: f"{int(z)}°{int(60 * z) % 60:02d}'N",
    "pairs": lambda z, i: f"{z:.3f}, {i % 7}.5",
    "points": lambda z, i: f"POINT ({z:.3f} {i % 7}.5)",
    "a remark": lambda z, i: "N/A (not measured)" if i % 9 == 0 else f"{z:.1f}",
    "remarks": lambda z, i: (
        ["not measured", "see below", "broken"][i % 3] if i % 4 == 0 else str(z)
    ),
    "halves": lambda z, i: f"{int(z)} 1/2" if i % 2 else str(int(z)),
    "odds": lambda z, i: f"{int(z)}/1",
    "ratios": lambda z, i: f"{int(z)}:1",
    "feet": lambda z, i: "{}'{}\"".format(*divmod(int(z), 12)),
    "feet in words": lambda z, i: "{} ft {} in".format(*divmod(int(z), 12)),
    "lists": lambda z, i: f"[{z:.1f}, {i % 7}]",
    "records": lambda z, i: f'{{"v": {z}}}',
    "markup": lambda z, i: f"<td>{z:.1f}</td>",
    "blanks without a break": lambda z, i: f"\u00a0{z}\u202f",
    "marks without a width": lambda z, i: f"\u200b{z}" if i % 2 else f"\ufeff{z}",
    "single quotes": lambda z, i: f"'{z}'",
    "double quotes": lambda z, i: f'"{z}"',
    "formulas": lambda z, i: f"={z}",
    "degrees of two scales": lambda z, i: f"{z:.1f} °C" if i % 2 else f"{1.8 * z + 32:.1f} °F",
    "letters of two scales": lambda z, i: f"{z:.1f} C" if i % 2 else f"{1.8 * z + 32:.1f} F",
    "dollars and euros": lambda z, i: f"${z}" if i % 2 else f"€{0.9 * z:.2f}",
    "dollars and some euros": lambda z, i: f"${z}" if i % 20 else f"€{100 * z:.2f}",
    "three currencies": lambda z, i: f"{z} {('USD', 'EUR', 'GBP')[i % 3]}",
    "some without a currency": lambda z, i: (f"${z}", f"{z}", f"€{z}")[i % 3],
    "pounds and kilograms": lambda z, i: f"{z} kg" if i % 2 else f"{z / 0.45359237:.3f} lb",
    "miles and kilometres": lambda z, i: f"{z} km/h" if i % 2 else f"{z / 1.609344:.3f} mph",
    "two scales of blood": lambda z, i: f"{z} mg/dL" if i % 2 else f"{z / 18:.2f} mmol/L",
    "a share beside": lambda z, i: f"{z:.1f} ({z / 2:.0f}%)",
    "a deviation beside": lambda z, i: f"{z:.1f} (1.{i % 10})",
    "pressure": lambda z, i: f"{100 + int(z)}/80",
    "sides": lambda z, i: f"{int(z)} x 20 cm",
    "words before": lambda z, i: f"Age: {int(z)}",
    "numbers of things": lambda z, i: f"{int(z)} reviews",
    "ranks": lambda z, i: f"#{int(z)}",
    "years and months": lambda z, i: f"{int(z)}y {i % 12}m",
    "k and M": lambda z, i: f"{z / 50:.2f} M" if z > 50 else f"{20 * z:.0f} K",
    "intervals": lambda z, i: f"({int(z)}, {int(z) + 5}]",
    "other digits": lambda z, i: f"{z:.1f}".translate({48 + d: 0x660 + d for d in range(10)}),
    "weeks": lambda z, i: day(z, "%G-W%V"),
}
OF_SIGNED = {
    "accounts": lambda z, i: f"({-z:.2f})" if z < 0 else f"{z:.2f}",
    "a minus behind": lambda z, i: f"{abs(z):.2f}{'-' * (z < 0)}",
    **{
        f"minus {ord(mark):x}": lambda z, i, mark=mark: f"{z:.2f}".replace("-", mark)
        for mark in "\u2212\u2010\u2011\u2013\uff0d\ufe63"
    },
    "minus in words": lambda z, i: f"minus {-z:.2f}" if z < 0 else f"{z:.2f}",
    "arrows": lambda z, i: f"{'▲' if z > 0 else '▼'}{abs(z):.2f}",
    "debit and credit": lambda z, i: f"{abs(z):.2f} {'DR' if z < 0 else 'CR'}",
    "D and C": lambda z, i: f"{abs(z):.2f} {'D' if z < 0 else 'C'}",
    "changes": lambda z, i: f"{z:+.1f}%",
    "changes of accounts": lambda z, i: f"({-z:.1f}%)" if z < 0 else f"{z:.1f}%",
    "north and south": lambda z, i: f"{abs(z):.3f}° {'N' if z > 0 else 'S'}",
    "east and west": lambda z, i: f"{'E' if z > 0 else 'W'}{abs(z):.3f}",
}
WORDS = {
    "answers": ["Y", "N"], "in French": ["oui", "non"], "letters": ["T", "F"],
    "0 and 1": ["0", "1"],
    "a cross": ["x", ""], "ticks": ["✓", "✗"], "a dash": ["Yes", "-"], "one": ["1", ""],
    "cities": ["München", "Zürich", "Köln"], "mojibake": ["MÃ¼nchen", "KÃ¶ln", "Paris"],
    "faces": ["😀", "😡"], "stars": ["★", "★★", "★★★"], "roman": ["I", "II", "III", "IV"],
    "marks": ["A+", "A", "A-", "B+"], "places": ["1st", "2nd", "3rd"],
    "parts": ["1/8", "1/4", "1/2"],
    "versions": ["1.2.3", "1.10.0", "2.0.1"], "zip codes": ["01234", "04567", "98765"],
    "lists of words": ["['a', 'b']", "['c']", "[]"], "None": ["None", "some"],
    "words of numbers": ["one", "two", "three"], "seasons": ["2019/20", "2020/21", "2021/22"],
    "quoted": ["'low'", "'high'"], "markup of levels": ["<b>u</b>", "<b>v</b>"],
}  # fmt: skip
OF_CLASSES = {
    **{name: lambda k, i, words=words: words[k % len(words)] for name, words in WORDS.items()},
    "composed letters": lambda k, i: unicodedata.normalize("NFD" if i % 2 else "NFC", "äöüéñß"[k]),
    "blanks at the ends": lambda k, i: " " * (i % 3) + f"level {k}" + "\u00a0" * (i % 2),
    "codes": lambda k, i: f"http://a.org/{k}/{i}",
    "addresses": lambda k, i: f"u{i}@b{k}.org",
    "machines": lambda k, i: f"10.0.{k}.{i % 250}",
    "telephones": lambda k, i: f"+1 55{k} {i % 900 + 100} {7 * i % 9000 + 1000}",
    "long ids": lambda k, i: str(10**17 * (k + 1) + i),
    "ids as floats": lambda k, i: float(1000 + k),
}
CELLS = {
    **{name: (SIZES, cell) for name, cell in OF_SIZES.items()},
    **{name: (SIGNED, cell) for name, cell in OF_SIGNED.items()},
    **{name: (CLASSES, cell) for name, cell in OF_CLASSES.items()},
}


def table_of(name):
    """A column of cells beside one of noise, and the target that it decides."""
    latent, cell = CELLS[name]
    cells = [cell(value, i) for i, value in enumerate(latent.tolist())]
    if name in WORDS:
        latent = latent % len(WORDS[name])
    y = (latent - latent.mean()) / latent.std() + 0.05 * np.random.default_rng(1).normal(size=N)
    noise = np.random.default_rng(2).normal(size=N)
    return pd.DataFrame({"cell": pd.Series(cells, dtype=object), "noise": noise}), y


@pytest.mark.parametrize("name", CELLS)
def test_a_signal_is_learned_or_its_column_is_named(name):
    X, y = table_of(name)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        table = TablePreprocessor(sparse_output=False).fit(X[:TRAIN])
        rows, new = table.transform(X[:TRAIN]), table.transform(X[TRAIN:])
    score = DecisionTreeRegressor(min_samples_leaf=3).fit(rows, y[:TRAIN]).score(new, y[TRAIN:])
    is_named = any("'cell'" in str(one.message) for one in found)
    assert score > 0.85 or is_named, (score, table.schema_.columns[0].words())


OF_SEVERAL_UNITS = [
    "degrees of two scales", "letters of two scales", "dollars and euros", "three currencies",
    "some without a currency", "two scales of blood",
]  # fmt: skip


@pytest.mark.parametrize("name", OF_SEVERAL_UNITS)
def test_several_units_are_never_one_number(name):
    """The warning shows the forms of the cells, whatever learns text."""
    X, y = table_of(name)
    for model in (TablePreprocessor(), GLMRegressor("gaussian", max_iter=5, random_state=0)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model.fit(X, y)
        named = [str(one.message) for one in found if "'cell'" in str(one.message)]
        assert len(named) == 1
        assert named[0].startswith("Column 'cell': numbers stand within its cells, as in ")
        assert model.schema_.columns[0].kind == "text"
