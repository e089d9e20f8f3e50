"""Small files of our own, each as odd as one that people have, are read, learned and predicted."""

import csv
import json
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.files.files import Skipped
from tunefree.files.mixed import read_mixed
from tunefree.rows.schema import Schema

RNG = np.random.default_rng(7)
N = 60
A, B = RNG.normal(size=(2, N)).round(3)
Y = (3.0 * A + 0.1 * B).round(3)
LETTERS = RNG.choice(list("uvw"), N)
LIST = Path(__file__).parents[2] / "benchmarks" / "files.csv"


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def text_of(header, rows, mark=","):
    lines = [header, *(mark.join(map(str, row)) for row in rows)]
    return "".join(line + "\n" for line in lines if line is not None)


def kinds_of(path, target=None):
    """The kinds of the features of a file, in order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = read_mixed(str(path), target=target, skipped=Skipped(malformed=False))
        names = table.feature_names or [f"x{j}" for j in range(table.X.shape[1])]
        return [column.kind for column in Schema.of(table.X, names).columns]


def day(i, form):
    return (np.datetime64("2021-01-25") + np.timedelta64(9 * i, "D")).astype(object).strftime(form)


def cells(i, kind):
    """A cell of a row that is written in an odd way."""
    x, size = A[i], round(abs(A[i]) + 1.0, 2)
    return {
        "decimal comma": f"{x:.3f}".replace(".", ","),
        "unit": f"{size} kmpl" if i % 30 else "",
        "lakh": f"{size} Lakh",
        "range": f"{100 + i} - {120 + i}" if i % 9 == 0 else str(110 + i),
        "ages": ["18-29", "30-44", "> 60"][i % 3],
        "income": ['"$0 - $24,999"', '"$25,000 - $49,999"', '"$150,000+"'][i % 3],
        "installs": f'"{10 ** (i % 5 + 3):,}+"',
        "quoted money": f'"{1000 * size:,.2f}"',
        "dollars": f"${size}" if i % 2 else "0",
        "a few gaps": "?" if i % 7 == 0 else x,
        "blanks": " " if i % 20 == 0 else x,
        "sentinels": -200 if i % 6 == 0 else round(abs(x), 3),
        "leading zeros": f"{i % 12:05d}",
        "codes": f"{20000 + 7 * i}{'' if i % 5 else 'ABCD'[i % 4]}",
        "levels of the trunk": ["2 BHK", "4 Bedroom", "3 BHK"][i % 3],
        "unknown": "unknown",
        "none": "",
        "compact": day(i, "%Y%m%dT000000"),
        "digits": day(i, "%Y%m%d"),
        "short": day(i, "%-d-%b-%y"),
        "month first": day(i, "%-m/%-d/%y") + f" {i % 24}:01",
        "day first": day(i, "%d/%m/%Y"),
        "long": day(i, '"%B %d, %Y"'),
        "hours": f"{i % 24:02d}.00.00",
        "months or not": day(i, "%d-%b") if i % 3 else "Ready To Move",
    }[kind]


NUMBERS = (
    "unit", "lakh", "range", "ages", "income", "installs", "quoted money", "dollars",
    "a few gaps", "blanks", "sentinels", "leading zeros",
)  # fmt: skip
DATES = "compact", "digits", "short", "month first", "day first", "long", "hours"
TEXTS = "codes", "levels of the trunk", "unknown", "months or not"


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_no_column_is_misread(tmp_path, mark):
    names = [*NUMBERS, *DATES, *TEXTS, "none", *(["decimal comma"] if mark != "," else [])]
    path = tmp_path / "t.csv"
    rows = [[*(cells(i, name) for name in names), Y[i]] for i in range(N)]
    path.write_text(text_of(mark.join([*names, "y"]), rows, mark))
    wanted = {**dict.fromkeys(NUMBERS, "number"), **dict.fromkeys(DATES, "date")}
    wanted |= {**dict.fromkeys(TEXTS, "text"), "none": "nothing", "decimal comma": "number"}
    assert dict(zip(names, kinds_of(path), strict=True)) == {name: wanted[name] for name in names}


SHAPES = {
    "blanks, no header": (None, lambda i: f"  {A[i]}  {LETTERS[i]} {Y[i]} "),
    "a header with commas": ("a,b,y", lambda i: f"{A[i]} {LETTERS[i]} {Y[i]}"),
    "lines above": (
        "-BEGIN-\nall of it (m/s) \n-END-\na,b,y",
        lambda i: f"{A[i]},{LETTERS[i]},{Y[i]}",
    ),
    "quoted lines": ('"""a"";""b"";""y"""', lambda i: f'"{A[i]};""{LETTERS[i]}"";{Y[i]}"'),
    "ends": ("a;b;y;;", lambda i: f"{A[i]};{LETTERS[i]};{Y[i]};;"),
    "longer header": ("a;b;y;;,,", lambda i: f"{A[i]};{LETTERS[i]};{Y[i]};;"),
    "two headers": ("a,,y\n,Response,Response", lambda i: f"{A[i]},{LETTERS[i]},{Y[i]}"),
    "numbers as names": ("2019,name,2021", lambda i: f"{A[i]},{LETTERS[i]},{Y[i]}"),
    "a mark": ("\ufeffa,b,y", lambda i: f"{A[i]},{LETTERS[i]},{Y[i]}"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_columns_and_rows_of_a_file_in_any_shape(tmp_path, shape):
    header, line = SHAPES[shape]
    path = tmp_path / "t.data"
    path.write_text(text_of(header, [[line(i)] for i in range(N)]), encoding="utf-8")
    table = read_mixed(str(path))
    assert kinds_of(path) == ["number", "text"]
    assert table.y.tolist() == Y.tolist()
    assert table.X.column(1).to_pylist() == LETTERS.tolist()


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("marker", ["None", "none", "-"])
def test_a_frequent_name_of_nothing_is_a_class(here, marker):
    labels = np.where(A > -0.5, marker, "Minor")
    Path("t.csv").write_text(text_of("a,b,y", zip(A, LETTERS, labels, strict=True)))
    run("train", "t.csv", "m", "--target", "y", "--estimator", "trees")
    scores = json.loads(run("eval", "m", "t.csv", "--json").stdout)
    assert scores["n"] == N
    assert set(run("predict", "m", "t.csv").stdout.split()) <= {marker, "Minor"}


@pytest.mark.parametrize("feature", ["days", "numbers", "texts"])
@pytest.mark.parametrize("mark", [",", "\t"])
def test_a_single_feature_is_predicted_without_the_target(here, feature, mark):
    x = {"days": [day(i, "%Y%m%d") for i in range(N)], "numbers": A, "texts": LETTERS}[feature]
    Path("t.csv").write_text(text_of(f"x{mark}y", zip(x, Y, strict=True), mark))
    Path("n.csv").write_text(text_of("x", [[cell] for cell in x]))
    trained = run("train", "t.csv", "m", "--target", "y", "--estimator", "trees")
    assert ("1 date" in trained.stderr) == (feature == "days")
    assert run("predict", "m", "n.csv").stdout == run("predict", "m", "t.csv").stdout


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
@pytest.mark.parametrize("order", ["sorted", "drawn"])
def test_the_index_of_some_rows_is_no_feature(here, name, order):
    index = RNG.permutation(5 * N)[:N]
    index = np.sort(index) if order == "sorted" else index
    rows = list(zip(index, A, LETTERS, Y, strict=True))
    Path("t.csv").write_text(text_of(f"{name},a,b,y", rows))
    Path("n.csv").write_text(text_of("a,b", [row[1:3] for row in rows]))
    trained = run("train", "t.csv", "m", "--target", "y", "--estimator", "trees")
    assert "numbers the rows: it is skipped" in trained.stderr and "2 features" in trained.stderr
    assert run("predict", "m", "n.csv").stdout == run("predict", "m", "t.csv").stdout


def test_an_unnamed_column_that_repeats_is_a_feature(here):
    rows = zip(np.arange(N) % 7, A, LETTERS, Y, strict=True)
    Path("t.csv").write_text(text_of(",a,b,y", rows))
    trained = run("train", "t.csv", "m", "--target", "y", "--estimator", "trees")
    assert "3 features" in trained.stderr


def test_a_column_of_unknown_alone_may_have_levels_later(here):
    Path("t.csv").write_text(text_of("a,b,y", zip(A, ["unknown"] * N, Y, strict=True)))
    Path("n.csv").write_text(text_of("a,b", zip(A, LETTERS, strict=True)))
    trained = run("train", "t.csv", "m", "--target", "y", "--estimator", "trees")
    predicted = run("predict", "m", "n.csv")
    assert "count as missing" not in trained.stderr
    assert "levels that the model does not know count as missing, such as" in predicted.stderr


# --- the files of others --------------------------------------------------------------------------


def listed():
    with LIST.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", listed(), ids=lambda row: row["file"])
def test_the_kinds_that_were_checked_by_hand(data, row):
    path = data / "field" / row["file"]
    if not path.exists():
        pytest.skip(f"there is no {path}")
    if row["mark"] == "libsvm":
        pytest.skip("numbers alone")
    found = Counter(kinds_of(path, row["target"] or None))
    words = [f"{found[kind]} {kind}" for kind in ("number", "date", "text", "nothing")]
    assert " ".join(w for w in words if not w.startswith("0 ")) == row["kinds"]
