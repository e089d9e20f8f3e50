"""Messages name the columns as the file does, and every estimator notes how they are read."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tunefree.cli import app

N = 60
NAMES = [["x1", "x2", "x3"], ["x3", "x1", "x9"], ["a", "x0", "x1"]]
OF_NUMBERS = ["ridge", "pistol", "kernel", "glm"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(names, gap):
    rng = np.random.default_rng(0)
    first = rng.normal(size=N).round(2)
    third = np.where(np.arange(N) % 9 == 0, -999, np.arange(N) % 17)
    found = pd.DataFrame(dict(zip(names, [first, third, np.full(N, 7)], strict=True)))
    if gap:
        found.loc[5, names[0]] = np.nan
    return found.assign(y=(2 * first).round(2))


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("names", NAMES)
def test_columns_named_x1_x2_keep_their_names(here, names, gap):
    table(names, gap).to_csv("data.csv", index=False)
    wanted = f"Column {names[1]!r}: -999 stands apart"
    assert wanted in run("look", "data.csv").output
    printed = run("train", "data.csv", "model", "--budget", "2s").stderr
    assert wanted in printed
    assert f"Column {names[2]!r}: all values are equal" in printed
    assert wanted in run("inspect", "model").output


@pytest.mark.parametrize("estimator", OF_NUMBERS)
@pytest.mark.parametrize("text", [False, True])
def test_estimators_of_numbers_note_numbers_that_may_be_missing_values(here, estimator, text):
    data = table(["a", "b", "c"], False)
    data["c"] = [f"{i % 7} km" if text else i % 7 for i in range(N)]
    data.to_csv("data.csv", index=False)
    printed = run("train", "data.csv", "model", "--estimator", estimator).stderr
    assert printed.count("Column 'b': -999 stands apart from the other numbers, in 7 rows") == 1
    assert "missing values, the" not in printed
    assert ", 7 missing values" not in printed  # they are learned


@pytest.mark.parametrize("estimator", OF_NUMBERS)
def test_estimators_of_numbers_note_how_columns_are_read(here, estimator):
    rows = [f"{i % 9},5;{i % 8 + 1},{100 + i};0{1000 + i};{i % 9 + i % 8}" for i in range(N)]
    (here / "data.csv").write_text("\n".join(["a;b;zip;y", *rows]) + "\n")
    printed = run("train", "data.csv", "model", "--estimator", estimator, "--task", "regression")
    for words in ("Column 'b': commas are decimal marks", "Column 'zip': digits such as"):
        assert printed.stderr.count(words) == 1


@pytest.mark.parametrize("learned", [".", ","])
@pytest.mark.parametrize("estimator", ["trees", "ridge"])
def test_other_decimal_marks_than_in_the_training_are_noted(here, estimator, learned):
    values = np.random.default_rng(0).normal(size=N).round(2)
    for mark, name in ((".", "points.csv"), (",", "commas.csv")):
        cells = [f"{v};{2 * v:.2f}".replace(".", mark) for v in values]
        (here / name).write_text("\n".join(["a;y", *cells]) + "\n")
    same, other = ("points.csv", "commas.csv")[:: 1 if learned == "." else -1]
    run("train", same, "model", "--estimator", estimator)
    for command in ("predict", "eval"):
        assert "decimal" not in run(command, "model", same).stderr
        assert "note: column 'a': a decimal" in run(command, "model", other).stderr
    assert run("predict", "model", same).stdout == run("predict", "model", other).stdout


FORMATS = {
    "csv": lambda data, path: data.to_csv(path, index=False),
    "jsonl": lambda data, path: data.to_json(path, orient="records", lines=True),
    "json": lambda data, path: data.to_json(path, orient="records"),
    "parquet": lambda data, path: data.to_parquet(path, index=False),
    "xlsx": lambda data, path: data.to_excel(path, index=False),
}


@pytest.mark.parametrize("kind", ["truths", "no name", "large classes"])
def test_a_table_is_the_same_in_every_format(here, kind):
    number = np.random.default_rng(0).integers(0, 90, N) / 4.0
    data = pd.DataFrame({"a": number, "b": np.arange(N) % 5, "y": number + 0.25})
    if kind == "truths":
        data["b"] = data.b > 2
    if kind == "no name":
        data = data.rename(columns={"b": ""})
    formats = [name for name in FORMATS if kind != "large classes" or name != "xlsx"]
    if kind == "large classes":
        data["y"] = 2**60 + (number > 9.0).astype(int)
    columns, predicted = set(), set()
    for name in formats:
        FORMATS[name](data, f"data.{name}")
        found = json.loads(run("look", f"data.{name}", "--json").output)
        columns.add(json.dumps([(row["column"], row["holds"]) for row in found["columns"]]))
        run("train", f"data.{name}", f"{name}.model", "--estimator", "trees")
    for model in formats:
        for rows in formats:
            predicted.add(run("predict", f"{model}.model", f"data.{rows}").stdout)
    assert len(columns) == 1
    assert len(predicted) == 1


@pytest.mark.parametrize("name", ["jsonl", "json", "parquet", "csv"])
def test_a_stream_finds_a_target_with_blanks_around_its_name(here, name):
    number = np.random.default_rng(0).integers(0, 90, N) / 4.0
    data = pd.DataFrame({"a": number, "y ": 2.0 * number})
    FORMATS[name](data, f"data.{name}")
    FORMATS["csv"](data.rename(columns={"y ": "y"}), "plain.csv")
    wanted = run("stream", "plain.csv", "--target", "y").stdout
    assert run("stream", f"data.{name}", "--target", "y").stdout == wanted
