"""A stranger's files: text, dates, gaps, quotes; from train to report."""

import bz2
import csv
import gzip
import json
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import tunefree
from tunefree.cli import app
from tunefree.files import DataError
from tunefree.files.mixed import read_mixed
from tunefree.files.model import load_model, save_model

N = 90


def run(*arguments, stdin=None, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def columns(seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rome", "Oslo", "Paris, TX"], N)
    rooms = rng.integers(1, 8, N)
    sold = [f"2026-{m:02d}-15" for m in rng.integers(1, 13, N)]
    garage = rng.choice(["True", "False"], N)
    value = rooms * 10.0 + (city == "Oslo") * 20 + (garage == "True") * 5 + rng.normal(size=N)
    rooms = [str(r) if i % 9 else "" for i, r in enumerate(rooms)]
    city = [c if i % 11 else "NA" for i, c in enumerate(city)]
    return {
        "": [str(i) for i in range(N)], "address": [f'{i}"High"St,flat' for i in range(N)],
        "city": city, "rooms": rooms, "sold on": sold, "garage": garage.tolist(),
        "price": [f"{v:.3f}" for v in value],
    }  # fmt: skip


def write(path, table, **options):
    encoding = options.pop("encoding", "utf-8")
    with open(path, "w", newline="", encoding=encoding) as file:
        rows = csv.writer(file, **options)
        rows.writerow(table)
        rows.writerows(zip(*table.values(), strict=True))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("houses.csv", columns())
    return tmp_path


def test_a_table_of_everything_goes_all_the_way(here):
    result = run("train", "houses.csv", "m")
    for words in (
        "90 rows, 5 features (1 numeric, 1 boolean, 1 date, 2 text)",
        "column 1 has no name and numbers the rows",
        "19 missing values",
        "target: price (the last column; use --target to change this)",
        "High-cardinality text columns dropped: 'address'",
    ):
        assert words in result.stderr
    scores = json.loads(run("eval", "m", "houses.csv", "--json").stdout)
    assert scores["n"] == N and scores["r2"] > 0.9
    text = run("inspect", "m").stdout
    for words in ("city=Rome", "garage", "1 date", "missing"):
        assert words in text
    assert json.loads(run("inspect", "m", "--json").stdout)["data"]["kinds"][0] == "text"
    run("report", "m", "houses.csv", "-o", "page.html")
    assert "city=Rome" in (here / "page.html").read_text()


def test_the_form_of_the_file_changes_nothing(here):
    run("train", "houses.csv", "m")
    expected = run("predict", "m", "houses.csv").stdout
    table = columns()
    turned = {name: table[name] for name in reversed(table)} | {"note": ["x"] * N}
    write("turned.csv", turned, delimiter=";", lineterminator="\r\n", encoding="utf-8-sig")
    write("bare.csv", {name: table[name] for name in list(table)[1:-1]}, delimiter="\t")
    write("wide.csv", table, encoding="utf-16", quoting=csv.QUOTE_ALL)
    for name in ("turned.csv", "bare.csv", "wide.csv"):
        assert run("predict", "m", name).stdout == expected
    assert run("predict", "m", "-", stdin=(here / "bare.csv").read_bytes()).stdout == expected
    run("train", "-", "m2", stdin=(here / "houses.csv").read_bytes())
    assert run("predict", "m2", "houses.csv").stdout == expected


def test_parquet_is_the_same_table(here):
    from pyarrow import parquet

    table = columns()
    del table[""]
    typed = {
        "address": table["address"],
        "city": [None if c == "NA" else c for c in table["city"]],
        "rooms": [int(r) if r else None for r in table["rooms"]],
        "sold on": pa.array(table["sold on"]).cast(pa.date32()),
        "garage": [g == "True" for g in table["garage"]],
        "price": [float(p) for p in table["price"]],
    }
    parquet.write_table(pa.table(typed), "houses.parquet")
    run("train", "houses.csv", "m")
    run("train", "houses.parquet", "p")
    expected = run("predict", "m", "houses.csv").stdout
    for model in ("m", "p"):
        for name in ("houses.csv", "houses.parquet"):
            assert run("predict", model, name).stdout == expected


def test_what_a_model_has_not_seen(here):
    run("train", "houses.csv", "m")
    names = "address,city,rooms,sold on,garage\n"
    text = names + "a,Lima,3,2026-01-31,True\nb,,,,\n"
    assert len(run("predict", "m", "-", stdin=text).stdout.split()) == 2
    (here / "new.csv").write_text("address,city,rooms,sold on\na,Rome,3,2026-01-31\n")
    assert "new.csv:1: the header lacks 'garage'" in run("predict", "m", "new.csv", code=3).stderr
    for row, words in (
        ("a,Rome,three,2026-01-31,True", "'rooms': 1 cell is no number, the first 'three' in "),
        ("a,Rome,3,some day,True", "'sold on': 1 cell is no date, the first 'some day' in "),
        ("a,Rome,3,2026-01-31,maybe", "'garage': 1 cell is no truth value, the first 'maybe' in "),
    ):
        (here / "new.csv").write_text(names + row + "\n")
        found = run("predict", "m", "new.csv")
        assert words + "new.csv:2:" in found.stderr and len(found.stdout.split()) == 1
        refused = run("predict", "m", "new.csv", "--on-bad-cell", "error", code=3)
        assert words in refused.stderr and refused.stdout == ""
    (here / "new.csv").write_text(names + "a,Rome,3\n")
    error = run("predict", "m", "new.csv", code=3).stderr
    assert "new.csv:2:9: this row has 3 cells, the first one has 5" in error
    assert run("predict", "m", "new.csv", "--on-bad-row", "skip", code=3)


def test_large_files_are_predicted_in_parts(here, monkeypatch):
    run("train", "houses.csv", "m")
    expected = run("predict", "m", "houses.csv").stdout
    scores = json.loads(run("eval", "m", "houses.csv", "--json").stdout)
    monkeypatch.setattr("tunefree.cli.rows._LARGE_FILE", 1000)
    monkeypatch.setattr("tunefree.cli.rows._LARGE_INPUT", 1000)
    monkeypatch.setattr("tunefree.files.mixed._PART", 1000)
    assert run("predict", "m", "houses.csv").stdout == expected
    assert run("predict", "m", "-", stdin=(here / "houses.csv").read_bytes()).stdout == expected
    again = json.loads(run("eval", "m", "houses.csv", "--json").stdout)
    tenths, expected = again.pop("calibration"), scores.pop("calibration")
    assert again.pop("drift") == scores.pop("drift")
    assert again.pop("risk_interval_kind") == scores.pop("risk_interval_kind")
    assert again.pop("risk_interval") == pytest.approx(scores.pop("risk_interval"))
    assert again == pytest.approx(scores)
    assert tenths == [pytest.approx(tenth) for tenth in expected]


def test_numbers_with_a_gap_are_predicted_by_a_model_of_numbers(here):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    write("n.csv", {"a": rows[:, 0], "b": rows[:, 1], "y": rows[:, 0] * 3})
    run("train", "n.csv", "m")
    median = sorted(rows[:, 1].tolist())[29]
    gap, full = (run("predict", "m", "-", stdin=f"a,b\n1,{b}\n").stdout for b in ("", median))
    assert gap == full


def test_other_learners_want_numbers_and_say_so(here):
    for arguments, words in (
        (["--estimator", "ridge"], "--estimator auto and trees accept text, dates and empty cells"),
        (["--checkpoint", "c"], "--hash 262144 accepts text, and so does --estimator auto"),
        (["--window", "5"], "--estimator auto without --window"),
    ):
        result = run("train", "houses.csv", "m", *arguments, code=3)
        assert "houses.csv:2:4: column 'address': not a finite number" in result.stderr
        assert words in result.stderr and not (here / "m").exists()
    error = run(
        "train", "-", "m", "--format", "csv", "--hash", 9, stdin="a,y\n1,2\n", code=2
    ).stderr
    assert "--hash needs a file" in error
    run("train", "houses.csv", "h", "--hash", 64)
    assert json.loads(run("eval", "h", "houses.csv", "--json").stdout)["n"] == N
    (here / "l.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
    found = run("train", "l.csv", "m", "--hash", 9, code=3).stderr
    assert "l.csv is not UTF-8: read as Windows-1252" in found
    error = run("train", "houses.csv", "m", "--hash", 9, "--target", "address", code=3).stderr
    assert "90 different texts in 90 rows: too many for classes" in error
    write("semicolons.csv", {"k": ["u", "v"] * 40, "y": ["no", "yes"] * 40}, delimiter=";")
    assert "80 rows" in run("train", "semicolons.csv", "m", "--hash", 64).stderr


def test_numbers_declared_as_categories_by_name_or_position(here):
    """Without and with a header: levels of the column said, wherever the target stands."""
    rng = np.random.default_rng(0)
    code, x = rng.integers(0, 5, N), rng.normal(size=N)
    y = np.array([3.0, -1.0, 2.0, 0.0, -2.0])[code] + 0.1 * x
    rows = [f"{v:.4f},{c},{u:.4f}" for v, c, u in zip(y, code, x, strict=True)]
    (here / "bare.csv").write_text("\n".join(rows))
    (here / "named.csv").write_text("\n".join(["y,code,x", *rows]))
    run("train", "bare.csv", "bare", "--target", 0, "--categorical", 1, "--compress", 30)
    run("train", "named.csv", "named", "--target", "y", "--categorical", "code")
    for name in ("bare", "named"):
        model = load_model(name)
        assert [*model.table_.kinds_] == ["category", "number"]
    assert load_model("bare").compression_.n_landmarks == 30
    told = run("train", "named.csv", "m", "--target", "y", "--categorical", "y", code=2).output
    assert "--categorical y" in told
    told = run("train", "bare.csv", "m", "--categorical", 1, "--estimator", "pistol", code=2).output
    assert "--categorical is for --estimator auto" in told


def test_a_first_line_that_may_be_no_header_is_questioned(here):
    (here / "t.csv").write_text("red,big,yes\nblue,small,no\nred,small,yes\nblue,big,no\n")
    assert "4 rows" in run("train", "t.csv", "m").stderr  # its cells occur again below
    assert "3 rows" in run("train", "t.csv", "m", "--header").stderr
    (here / "t.csv").write_text("red|big|yes\n")
    error = run("train", "t.csv", "n", code=3).stderr
    assert "the file has a header and no rows" in error


def test_on_bad_row_skip_leaves_out_and_counts(here):
    text = (here / "houses.csv").read_text() + "90,x,Rome,oops,2026-01-15,True,9\n1,2\n"
    (here / "bad.csv").write_text(text)
    result = run("train", "bad.csv", "m", "--on-bad-row", "skip")
    assert "skipped 1 malformed rows" in result.stderr and "bad.csv:93:4" in result.stderr


@pytest.mark.filterwarnings("ignore:Column 'address'. numbers stand within its cells")
def test_a_model_saved_from_python_reads_csv_too(here):
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv("houses.csv").drop(columns=["Unnamed: 0"])
    X, y = table.drop(columns="price"), table["price"]
    with pytest.warns(UserWarning, match="columns dropped: 'address'"):
        model = tunefree.TuneFreeRegressor(budget=40, random_state=0).fit(X, y)
    assert model.report_.dropped == ["address"]
    save_model(model, "m")
    assert load_model("m").feature_names_in_.tolist() == X.columns.tolist()
    assert json.loads(run("eval", "m", "houses.csv", "--json").stdout)["r2"] > 0.8
    assert "city=Rome" in run("inspect", "m").stdout


def test_days_stand_first_in_new_rows_where_they_did_in_those_learned(here):
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2022-01-01", periods=120)
    X = pandas.DataFrame({"d": days.strftime("%d/%m/%Y"), "x": 0.5 * np.arange(120)})
    model = tunefree.TuneFreeRegressor(candidates=("linear",), random_state=0)
    with pytest.warns(tunefree.DataWarning, match="in the order of these dates"):
        model.fit(X, days.day.to_numpy())
    save_model(model, "m")
    X[:9].to_csv("few.csv", index=False)  # they could be months, too
    said = [float(v) for v in run("predict", "m", "few.csv").stdout.split()]
    np.testing.assert_allclose(said, model.predict(X[:9]))


def test_ids_and_groups_are_no_features_and_predictions_name_their_rows(here):
    table = columns() | {"price": columns()["price"]}
    table["id"], table["district"] = table.pop(""), [f"d{i % 9}" for i in range(N)]
    del table["address"]
    write("t.csv", table)
    told = ("--target", "price", "--id", "id", "--groups", "district", "--scoring", "r2")
    result = run("train", "t.csv", "m", *told)
    assert result.stderr.index("task: regression") < result.stderr.index(
        "Gaussian kernel: held-out loss"
    )
    assert "4 features" in result.stderr and "Best r2 on held-out rows" in result.stderr
    assert load_model("m").feature_names_in_.tolist() == ["city", "rooms", "sold on", "garage"]
    plain = [float(v) for v in run("predict", "m", "t.csv").stdout.split()]
    for name in ("p.csv", "p.jsonl", "p.parquet"):
        run("predict", "m", "t.csv", "--id", "id", "-o", name)
    with open("p.csv", newline="") as file:
        found = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (here / "p.jsonl").read_text().splitlines()]
    stored = pa.parquet.read_table("p.parquet").to_pylist()
    for rows in (found, lines, stored):
        assert [row["id"] for row in rows] == table["id"]
        assert [float(row["prediction"]) for row in rows] == plain
    assert (
        "did you mean 'district'?"
        in run("train", "t.csv", "n", *told[:2], "--groups", "distric", code=2).stderr
    )
    assert run("predict", "m", "t.csv", "--id", "city").stdout.startswith("city,prediction\n")
    head = run("predict", "m", "t.csv", "--id", "id", "--coverage", ".9").stdout.split("\n")[0]
    assert head == "id,prediction,low,high"


@pytest.mark.parametrize("packed", ["csv.bz2", "csv.zip", "zip", "jsonl", "ndjson.gz"])
def test_packed_files_and_json_lines_are_read(here, packed):
    table = columns()
    text = (here / "houses.csv").read_bytes()
    if "json" in packed:
        rows = [dict(zip(table, r, strict=True)) for r in zip(*table.values(), strict=True)]
        rows = [{k: v or None for k, v in r.items() if k} for r in rows]
        text = "".join(json.dumps(r | {"price": float(r["price"])}) + "\n" for r in rows).encode()
    if packed.endswith("zip"):
        with zipfile.ZipFile(f"h.{packed}", "w") as archive:
            archive.writestr("houses.csv", text)
    else:
        pack = {"bz2": bz2.compress, ".gz": gzip.compress}.get(packed[-3:], bytes)
        (here / f"h.{packed}").write_bytes(pack(text))
    found = read_mixed(f"h.{packed}")
    same = read_mixed("houses.csv")
    assert found.y.tolist() == same.y.tolist()
    assert found.X["city"].to_pylist()[1:9] == same.X["city"].to_pylist()[1:9]
    (here / f"h.{packed}").write_bytes((here / f"h.{packed}").read_bytes()[:60])
    with pytest.raises(DataError):
        read_mixed(f"h.{packed}")


def test_a_bad_row_names_the_option_that_leaves_it_out(here):
    (here / "bad.csv").write_text("a,y\n1,2\n1,2,3\n")
    assert (
        "(use --on-bad-row skip to skip such rows)" in run("train", "bad.csv", "m", code=3).stderr
    )


BAD_LINES = {
    "null": 1, "\nnull\n" + '{"a": 1, "y": 2}': 2, '{"a": 1, "y": 2}\nnull': 2,
    '{"a": 1, "y": 2} null': 1, '{} null': 1,
    '{"a":\n1, "y": 2}': None, "[1, 2]": None,
    '{"a": 1, "y": 2}\n3': 2, '{"a": 1, "a": 2, "y": 2}': 1,
    '{"a": 1, "y": 2}}': 1, '{"a": "\x01", "y": 2}': 1,
}  # fmt: skip
READ_BAD_LINES = """
import json, sys
from tunefree.files import read
from tunefree.files.files import DataError
from tunefree.files.mixed import read_mixed
from tunefree.files.records import records
for text in json.loads(sys.argv[1]):
    for reader in (read, read_mixed, lambda text, format: list(records(text, format))):
        try:
            reader([text.encode()], format="jsonl")
            print("read", flush=True)
        except DataError as error:
            print(json.dumps([error.line, str(error)]), flush=True)
"""


def test_a_line_of_json_is_one_object_for_all_readers():
    """In a process of its own: pyarrow would end the interpreter at a null."""
    command = [sys.executable, "-c", READ_BAD_LINES, json.dumps(list(BAD_LINES))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line for line, _ in found] == [line for line in BAD_LINES.values() for _ in range(3)]
    for first, second, third in zip(found[::3], found[1::3], found[2::3], strict=True):
        assert first == second == third
        assert " object at 0x" not in first[1]
