"""Two versions of a model, what a file notes, and drift: what an operator asks of the shell."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tunefree
from tunefree.cli import app
from tunefree.cli.compare import PairedDifference
from tunefree.uncertainty.drift import DriftReference

pytestmark = pytest.mark.filterwarnings("ignore")
N = 240
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "key": np.arange(N),
        "a": RNG.normal(size=N).round(3),
        "b": RNG.integers(0, 9, N),
        "city": RNG.choice(["Rome", "Oslo"], N),
    }
)
Y = (2.0 * TABLE.a + (TABLE.city == "Rome") + RNG.normal(size=N)).round(3)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions")
    TABLE.assign(y=Y).to_csv(folder / "rows.csv", index=False)
    TABLE.assign(y=Y, a=TABLE.a + 3.0).to_csv(folder / "moved.csv", index=False)
    TABLE.assign(y=np.where(Y > 0.5, "hi", "lo")).to_csv(folder / "classes.csv", index=False)
    more = ["--estimator", "trees", "--drop", "key,b", "--note", "date=2026-11-28"]
    run("train", folder / "rows.csv", folder / "old", *more)
    run("train", folder / "classes.csv", folder / "classes", *more)
    tunefree.save_model(
        tunefree.BoostedTreesRegressor(random_state=0).fit(TABLE[["b", "city"]], Y),
        folder / "new", notes={"date": "2026-11-29", "target": "price"},
    )  # fmt: skip
    return folder


def test_inspect_and_describe_model_have_the_notes_of_the_caller(folder):
    assert tunefree.describe_model(folder / "old")["notes"]["user"] == {"date": "2026-11-28"}
    assert "2026-11-28" in run("inspect", folder / "old").stdout
    found = json.loads(run("inspect", folder / "new", "--json").stdout)
    assert found["user_notes"] == {"date": "2026-11-29", "target": "price"}
    run("train", folder / "rows.csv", folder / "x", "--note", "stage", code=2)


def test_columns_are_dropped_in_a_list_and_limits_are_checked_before_reading(folder):
    names = tunefree.load_model(folder / "old").feature_names_in_.tolist()
    assert names == ["a", "city"]
    (folder / "broken.csv").write_text("a,b\n1\n")
    for option in ("--budget", "--max-memory"):
        error = run("train", folder / "broken.csv", folder / "x", option, "3x", code=2).stderr
        assert f"{option} '3x'" in error


def test_exit_codes_are_in_every_help():
    for command in ((), ("predict",), ("drift",)):
        words = " ".join(run(*command, "--help").stdout.split())
        assert "3 bad data" in words and "5 drift" in words


def test_drift_ends_with_exit_code_5_and_equal_rows_with_0(folder):
    same, moved = folder / "rows.csv", folder / "moved.csv"
    assert not json.loads(run("drift", folder / "old", same, "--json").stdout)["drift"]
    found = json.loads(run("drift", folder / "old", moved, "--json", code=5).stdout)
    assert [one["column"] for one in found["columns"] if one["drifts"]] == ["a"]
    assert found["outside"] > 0.2 and found["predictions"]["index"] > 0.25
    run("drift", folder / "old", moved, "--threshold", 99)
    error = run("drift", folder / "new", moved, code=2).stderr
    assert "give --reference FILE" in error
    run("drift", folder / "new", moved, "--reference", same)
    of_eval = json.loads(run("eval", folder / "old", moved, "--target", "y", "--json").stdout)
    assert of_eval["drift"]["drift"] is True
    checked = run("predict", folder / "old", moved, "--check", code=5)
    assert len(checked.stdout.split()) == N and "drift: a" in checked.stderr
    run("predict", folder / "old", same, "--check")
    found = json.loads(run("drift", folder / "classes", folder / "classes.csv", "--json").stdout)
    assert found["predictions"]["index"] < 1e-9


def test_compare_names_the_better_model_and_how_far_predictions_moved(folder):
    for one, other, better in (("old", "new", "old"), ("new", "old", "new")):
        found = json.loads(
            run("compare", folder / one, folder / other, folder / "rows.csv", "--json",
                "--target", "y").stdout
        )  # fmt: skip
        assert found["better"] == better and found["n"] == N
        score = found["scores"]["mse"]
        assert score["difference"] == pytest.approx(score["new"] - score["old"])
    same = run("compare", folder / "old", folder / "old", folder / "rows.csv").stdout
    assert "no difference is found" in same and "mean change: 0" in same
    of_classes = [folder / "classes"] * 2
    found = run("compare", *of_classes, folder / "classes.csv", "--json").stdout
    assert json.loads(found)["by"] == "log_loss"
    assert "predicts classes" in run(
        "compare", folder / "old", folder / "classes", folder / "rows.csv", code=2
    ).stderr  # fmt: skip


def test_intervals_of_paired_differences_hold_the_truth_19_times_in_20():
    rng, n_draws, held = np.random.default_rng(0), 600, 0
    for _ in range(n_draws):
        shared = rng.gamma(2.0, size=80)
        old, new = shared + rng.normal(size=80), shared + rng.normal(size=80) - 0.1
        low, high = PairedDifference.of(old, new, np.ones(80)).interval
        held += low <= -0.1 <= high
    assert abs(held / n_draws - 0.95) < 0.025


def test_the_page_about_drift_says_what_the_command_says(folder, tmp_path):
    page, model = tmp_path / "drift.html", folder / "m"
    if not model.exists():
        run("train", folder / "rows.csv", model, "--target", "y", "--estimator", "trees")
    found = json.loads(
        run("drift", model, folder / "moved.csv", "--page", page, "--json", code=5).stdout
    )
    text = page.read_text()
    drifting = [one["column"] for one in found["columns"] if one["drifts"]]
    assert f"Drift: {', '.join(drifting)}." in text and "training, and now" in text
    run("drift", model, folder / "rows.csv", "--page", page)
    assert "No drift" in page.read_text()


def test_shares_add_up_and_are_those_of_the_index():
    rng = np.random.default_rng(0)
    old = {"a": rng.normal(size=500), "b": rng.choice(["x", "y"], 500).astype(object)}
    new = {"a": rng.normal(size=90) + 1.0, "b": np.array(["y", None, "z"] * 30, dtype=object)}
    reference = DriftReference.of(old)
    for name, index in ((c.column, c.index) for c in reference.compare(new).columns):
        labels, before, now = reference.shares(name, new[name])
        assert before.sum() == pytest.approx(1.0) and now.sum() == pytest.approx(1.0)
        assert len(labels) == len(before) == len(now)
        both = (before > 0) & (now > 0)
        if both.all():  # else the index adds half a row to each part
            expected = ((now - before) * np.log(now / before)).sum()
            assert index == pytest.approx(expected, rel=0.2)
    labels, before, now = reference.shares("b", new["b"])
    assert dict(zip(labels, now, strict=True)) == pytest.approx(
        {"x": 0.0, "y": 1 / 3, "(others)": 1 / 3, "(missing)": 1 / 3}
    )


@pytest.mark.parametrize("beside", [{}, {"c": "text"}])
def test_rows_of_the_training_do_not_drift_whatever_numbers_stand_for(beside, tmp_path):
    rng = np.random.default_rng(0)
    marked = np.where(rng.random(300) < 0.15, -999, rng.integers(1, 9999, 300))
    days = 20200000 + 100 * rng.integers(1, 13, 300) + rng.integers(1, 29, 300)
    table = pd.DataFrame({"marked": marked, "day": days}).assign(**beside)
    path, model = tmp_path / "a.csv", tmp_path / "a.model"
    table.assign(y=marked + rng.normal(size=300)).to_csv(path, index=False)
    run("train", path, model, "--target", "y", "--estimator", "trees")
    found = json.loads(run("drift", model, path, "--json").stdout)
    assert [one["column"] for one in found["columns"] if one["drifts"]] == []
