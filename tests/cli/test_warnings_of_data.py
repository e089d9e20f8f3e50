"""What the commands print about a table: findings with the file's names, and a verdict."""

import json
import random

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tunefree.cli import app


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of a table with a leak, row numbers, a constant and a typing error; new rows."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    frame = pd.DataFrame({
        "id": np.arange(150) + 100,
        "age": rng.integers(20, 70, 150),
        "city": rng.choice(["Berlin", "Hamburg"], 150),
        "land": "DE",
    })  # fmt: skip
    frame.loc[3, "city"] = "Berlni"
    frame["price"] = frame["age"] + 5 * rng.normal(size=150)
    frame.drop(columns=["id", "land"]).to_csv(folder / "plain.csv", index=False)
    frame.assign(age=frame["age"] + 30).to_csv(folder / "new.csv", index=False)
    frame.assign(usd=1.1 * frame["price"]).to_csv(folder / "train.csv", index=False)
    numbers = frame[["id", "age", "price"]]
    numbers.to_csv(folder / "numbers.csv", index=False)
    run("train", folder / "plain.csv", folder / "plain")
    return folder


def test_train_names_the_columns_of_the_file(folder):
    words = run("train", folder / "train.csv", folder / "m", "--target", "price").stderr
    found = ["'id': whole numbers", "'land': all values", "'usd': alone enough"]
    for start in [*found, "'city': nearly equal levels: 'Berlni' and 'Berlin'."]:
        assert words.count(f"note: Column {start}") == 1
    # A table of numbers is an array, without names in Python.
    words = run("train", folder / "numbers.csv", folder / "m").stderr
    assert words.count("note: Column") == 1 and "note: Column 'id': whole numbers" in words


def test_merged_levels_are_reported(folder):
    words = run("train", folder / "plain.csv", folder / "m", "--merge-levels").stderr
    assert "nearly equal levels" not in words
    assert "Merged levels of city: 'Berlni' into 'Berlin'." in words


def test_eval_and_report_name_columns_of_another_distribution(folder):
    for command, output in (("eval", "--html"), ("report", "-o")):
        page = folder / f"{command}.html"
        result = run(command, folder / "plain", folder / "new.csv", output, page)
        found = [line for line in result.stderr.split("\n") if "distribution" in line]
        assert len(found) == 1 and found[0].startswith("note: Column 'age': its distribution")
        assert "Column &#39;age&#39;: its distribution differs" in page.read_text()
    assert "distribution" not in run("eval", folder / "plain", folder / "plain.csv").stderr


def test_the_verdict_is_everywhere(folder):
    verdict = run("inspect", folder / "plain", "--json").stdout
    verdict = json.loads(verdict)["verdict"]
    assert (
        verdict.startswith("R2 on held-out rows: 0.") and "Always predicting the mean: 0" in verdict
    )
    first = verdict.split(". A")[0]
    summary = run("train", folder / "plain.csv", folder / "again", "--json")
    assert first in summary.stderr and first in json.loads(summary.stdout)["report"]
    assert "constant" in summary.stderr
    page = folder / "page.html"
    run("report", folder / "plain", "-o", page)
    text = page.read_text()
    assert first in text and "Predicted and actual" in text and "held out in training" in text
    shown = " ".join(run("inspect", folder / "plain").stdout.split())
    assert "verdict R2 on held-out rows" in shown


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("command", ["predict", "predict --id", "eval", "report"])
def test_cells_that_do_not_fit_are_noted_once(command, is_large, tmp_path, monkeypatch):
    """Of all parts of a file, however often it is read; the first one with its place."""
    draw = random.Random(0)
    lines = ["key,name,a,b,y"]
    for k in range(400):
        a = draw.gauss(0.0, 1.0)
        lines.append(f"{k},n{k},{a:.3f},{draw.choice('uv')},{int(a > 0.0)}")
    (tmp_path / "train.csv").write_text("\n".join(lines) + "\n")
    for k in range(50, 400, 50):
        lines[k] = lines[k].replace(lines[k].split(",")[2], "oops", 1)
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    ids = ["--id", "key", "--id", "name"]
    model, data = tmp_path / "m", tmp_path / "new.csv"
    run("train", tmp_path / "train.csv", model, "--estimator", "trees", *ids)
    if is_large:
        monkeypatch.setattr("tunefree.cli.rows._LARGE_FILE", 100)
        monkeypatch.setattr("tunefree.files.mixed._PART", 2000)
        monkeypatch.setattr("tunefree.files.files.CHUNK", 1000)
    more = ids if command == "predict --id" else []
    result = run(command.split()[0], model, data, *more)
    assert result.stderr.count("no number") == 1
    assert f"7 cells are no number, the first 'oops' in {data}:51:" in result.stderr
