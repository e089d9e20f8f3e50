"""`tunefree look` shows what `train` reads and finds, and models keep it."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tunefree import load_model
from tunefree.cli import app
from tunefree.cli.scores import Scores

TITLES = "id", "when", "city", "km", "age"


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


def facts(*arguments):
    return json.loads(run("look", *arguments, "--json").stdout)


def table(n=120):
    """A table with row numbers, dates in order, a typing error, units, a marker and a leak."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "id": np.arange(n) + 100,
        "when": pd.date_range("2021-01-01", periods=n, freq="3D").strftime("%d.%m.%Y"),
        "city": rng.choice(["Berlin", "Hamburg"], n),
        "km": [f"{x:.1f} km" for x in rng.uniform(1.0, 9.0, n)],
        "age": rng.integers(20, 70, n).astype(str),
    })  # fmt: skip
    frame.loc[3, "city"], frame.loc[7, "age"] = "Berlni", "Unknown"
    frame["price"] = (rng.integers(20, 70, n) + 5.0 * rng.normal(size=n)).round(3)
    frame.insert(0, "usd", (1.1 * frame["price"]).round(3))
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table in several formats, a model of it, and what was printed at training."""
    folder = tmp_path_factory.mktemp("look")
    frame = table()
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "t.parquet", index=False)
    frame.to_json(folder / "t.jsonl", orient="records", lines=True)
    done = run("train", folder / "t.csv", folder / "m", "--json")
    (folder / "printed").write_text(done.stderr)
    (folder / "summary").write_text(done.stdout)
    return folder


@pytest.mark.parametrize("name", ["t.tsv", "t.parquet", "t.jsonl"])
def test_a_table_looks_the_same_in_every_format(folder, name):
    of_csv, other = facts(folder / "t.csv"), facts(folder / name)
    own = ("file", "written", "columns")
    assert {k: v for k, v in other.items() if k not in own} == {
        k: v for k, v in of_csv.items() if k not in own
    }
    for row, same in zip(other["columns"], of_csv["columns"], strict=True):
        assert row | {"holds": same["holds"]} == same


def test_look_finds_what_train_finds_and_the_model_keeps(folder):
    seen = facts(folder / "t.csv")
    printed = (folder / "printed").read_text()
    kept = json.loads(run("inspect", folder / "m", "--json").stdout)
    starts = "'usd': alone", "'id': whole", "'city': nearly", "'age': 'Unknown'", "'when': the"
    for start in starts:
        assert sum(f"Column {start}" in words for words in seen["findings"]) == 1
    assert kept["notes"] == seen["findings"]
    report, page = load_model(folder / "m").report_, folder / "page.html"
    run("report", folder / "m", "-o", page)
    text = page.read_text().replace("&#39;", "'")
    summary = json.loads((folder / "summary").read_text())["report"]
    assert list(report.notes) == seen["findings"]
    for words in seen["findings"]:
        assert printed.count(f"note: {words}") == 1 == printed.count(words)
        assert (
            words in str(report)
            and words in summary
            and words in report._repr_html_().replace("&#x27;", "'")
        )
        assert words in text and words in run("inspect", folder / "m").stdout
    assert text.index("Data as read") < text.index("Leaderboard")
    for row in seen["columns"]:
        assert {name: row[name] for name in ("column", "holds", "note")} in kept["columns"]
        assert row["holds"] in text and ", ".join(row["cells"]) in text


def test_look_counts_what_is_missing_and_skipped(folder, tmp_path):
    frame = table().astype(object)
    frame.loc[[2, 5, 9], "km"] = ""
    frame.loc[[4, 30], "price"] = "NaN"
    text = frame.to_csv(index=False).split("\n")
    text.insert(11, "1,2")
    (tmp_path / "t.csv").write_text("\n".join(text))
    seen = facts(tmp_path / "t.csv", "--on-bad-row", "skip")
    assert {row["column"]: row["missing"] for row in seen["columns"] if row["missing"]} == {
        "km": 3, "age": 1
    }  # fmt: skip
    assert seen["rows"] == len(frame) - 2
    assert (seen["skipped"]["malformed"], seen["skipped"]["without_target"]) == (1, 2)
    assert "t.csv:12" in seen["skipped"]["first_malformed"]
    shown = run("look", tmp_path / "t.csv").stdout  # it learns nothing: no bad row ends it
    assert "1 row malformed" in shown and "--on-bad-row skip" in " ".join(shown.split())
    assert all(name in shown for name in TITLES)


def test_what_cannot_be_learned_is_shown_too(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,2\n")
    seen = facts(tmp_path / "t.csv")
    assert seen["obstacle"] == "the target is the same in every row: 2.0" and seen["fit"] is None
    assert [row["column"] for row in seen["columns"]] == ["a"]
    assert seen["target"]["column"] == "b"
    seen = facts(tmp_path / "t.csv", "--target", "a")
    assert seen["obstacle"] is None and seen["fit"]["seconds"] > 0.0


@pytest.mark.parametrize("command", [("look",), ("train",)])
def test_a_file_without_any_target_is_an_error_with_the_reason(tmp_path, command):
    (tmp_path / "t.csv").write_text(",b\n0,\n1,\n2,\n")
    out = [] if command == ("look",) else [tmp_path / "m"]
    result = CliRunner().invoke(app, [*command, *map(str, [tmp_path / "t.csv", *out])])
    assert result.exit_code == 3 and "3 of 3 rows cannot be learned" in result.stderr


def test_rows_sorted_by_the_target_are_noted(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "y": np.repeat(["a", "b"], 30)})
    for sorted_, rows in ((True, frame), (False, frame.sample(frac=1.0, random_state=0))):
        rows.to_csv(tmp_path / "t.csv", index=False)
        found = " ".join(facts(tmp_path / "t.csv")["findings"])
        assert ("sorted by the target" in found) == sorted_


def test_columns_without_names_have_their_numbers_in_the_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[:, 1] = X[:, 0] + 0.01 * X[:, 1]
    np.savetxt(tmp_path / "t.csv", np.column_stack([X[:, 0] + X[:, 2], X]), delimiter=",")
    assert [row["column"] for row in facts(tmp_path / "t.csv", "--target", 0)["columns"]] == [
        "column 2", "column 3", "column 4"
    ]  # fmt: skip
    done = run("train", tmp_path / "t.csv", tmp_path / "m", "--target", 0)
    words = done.stderr + run("inspect", tmp_path / "m").stdout
    assert "column 2, column 3" in words
    assert not re.search(r"\bx\d|feature \d", words)


def test_unknown_classes_are_named_beside_the_known_ones():
    scores = Scores(np.array(["50K", "<50K"]))
    y = np.array(["50K.", "50K", "50K."])
    scores.add(y, np.array(["50K", "50K", "50K"]))
    (words,) = scores.words_of_unknown()
    assert "2 rows have a class" in words and "'50K.' (did you mean '50K'?)" in words


@pytest.mark.parametrize("name", ["large.csv", "large.svm"])
def test_of_large_data_the_first_rows_are_looked_at(name, tmp_path, monkeypatch):
    """Whole rows, as many as are in the first part, read as those of a small file."""
    rng = np.random.default_rng(0)
    path, rows = tmp_path / name, []
    for number in rng.integers(100, 1000, 4000).tolist():
        rows.append(f"{number % 2} 1:{number} 2:{number + 0.5}")
        if name.endswith(".csv"):
            rows[-1] = f'{number},"a\nb{number % 3}",{number + 0.5}'
    path.write_text("\n".join(rows) + "\n")
    small = facts(path)
    monkeypatch.setattr("tunefree.cli.rows._LARGE_FILE", 1000)
    monkeypatch.setattr("tunefree.cli.look._PART", 5000)
    monkeypatch.setattr("tunefree.files.files.CHUNK", 3000)
    found = facts(path)
    assert small["whole"] and small["rows"] == 4000
    assert not found["whole"] and 0 < found["rows"] < 4000
    assert found["features"] == small["features"] == 2
    assert [row["holds"] for row in found["columns"]] == [row["holds"] for row in small["columns"]]
    assert found["target"]["task"] == small["target"]["task"]
