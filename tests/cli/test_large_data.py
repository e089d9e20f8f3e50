"""Large data are applied part by part: the same lines and scores as in one piece."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.cli.scores import Scores
from tunefree.files.model import describe_model, load_model

RNG = np.random.default_rng(0)
ROWS = 4000
X = np.round(RNG.standard_normal((ROWS, 3)), 3)
SCORES = X[:, 0] + 0.2 * X[:, 1] + 0.3 * RNG.standard_normal(ROWS)
CITIES = RNG.choice(["Rome", "Oslo", "Lima"], ROWS)


def run(*arguments, stdin=None, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def numbers(scores):
    """The numbers among scores, those of pairs, too."""
    rest = {name: v for name, v in scores.items() if not isinstance(v, str | list | tuple)}
    return rest | dict(zip(("low", "high"), scores.get("risk_interval", ()), strict=False))


def libsvm(targets, extra=""):
    lines = [
        f"{y} 1:{a} 2:{b} 3:{c}{extra}" for y, (a, b, c) in zip(targets, X.tolist(), strict=True)
    ]
    return "\n".join(lines) + "\n"


def csv(targets, shuffled=False):
    names = ["b", "y", "c", "a"] if shuffled else ["a", "b", "c", "y"]
    columns = dict(zip("abc", X.T.tolist(), strict=True)) | {"y": list(targets)}
    rows = zip(*(columns[name] for name in names), strict=True)
    return "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n"


LABELS = np.where(SCORES > 0, 1, -1).tolist()
KINDS = {
    "libsvm": ("d.svm", libsvm(LABELS), libsvm(LABELS, " 7:1")),
    "csv": ("d.csv", csv(np.where(SCORES > 0, "up", "down").tolist()),
            csv(np.where(SCORES > 0, "up", "down").tolist(), shuffled=True)),
    "numbers": ("d.csv", csv(SCORES.round(3).tolist()), csv(SCORES.round(3).tolist(), True)),
}  # fmt: skip


@pytest.fixture
def large(monkeypatch):
    """Makes every file count as large, and text come in small pieces."""

    def make():
        monkeypatch.setattr("tunefree.cli.rows._LARGE_FILE", 1000)
        monkeypatch.setattr("tunefree.cli.rows._LARGE_INPUT", 1000)

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_and_scores_are_those_of_data_in_memory(kind, tmp_path, monkeypatch, large):
    monkeypatch.chdir(tmp_path)
    name, train, test = KINDS[kind]
    (tmp_path / name).write_text(train)
    options = ["--target", "y"] if name == "d.csv" else []
    run("train", name, "m", "--estimator", "pistol", *options)
    (tmp_path / name).write_text(test)
    small = [run("predict", "m", name).stdout, json.loads(run("eval", "m", name, "--json").stdout)]
    proba = None if kind == "numbers" else run("predict", "m", name, "--proba").stdout
    large()
    result = run("predict", "m", name, "-o", "out")
    assert (tmp_path / "out").read_text() == small[0] == run("predict", "m", name).stdout
    assert f"wrote {ROWS} predictions" in result.stderr
    assert small[0] == run("predict", "m", "-", stdin=test).stdout
    assert ("ignored 4000 values of features" in result.stderr) == (kind == "libsvm")
    scores = json.loads(run("eval", "m", name, "--json").stdout)
    assert scores.pop("n") == small[1].pop("n") == ROWS
    assert scores.pop("drift", None) == small[1].pop("drift", None)
    tenths, expected = scores.pop("calibration", []), small[1].pop("calibration", [])
    assert tenths == [pytest.approx(tenth, abs=1e-6) for tenth in expected]
    assert numbers(scores) == pytest.approx(numbers(small[1]), abs=1e-6)
    if proba:
        assert run("predict", "m", name, "--proba").stdout == proba


def test_a_fault_far_down_leaves_no_file_of_predictions(tmp_path, monkeypatch, large):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.svm").write_text(libsvm(LABELS))
    run("train", "d.svm", "m", "--estimator", "pistol")
    (tmp_path / "d.svm").write_text(libsvm(LABELS) + "1 2:oops\n")
    large()
    refused = run("predict", "m", "d.svm", "-o", "out", code=3)
    assert f"d.svm:{ROWS + 1}:5: the value must be a finite number" in refused.stderr
    assert not (tmp_path / "out").exists()
    assert f"d.svm:{ROWS + 1}:5" in run("eval", "m", "d.svm", code=3).stderr


def test_text_columns_are_hashed_in_training_and_prediction(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    up = np.where((CITIES == "Rome") ^ (RNG.random(ROWS) < 0.02), "up", "down")
    lines = [f"{c},{v},{y}" for c, v, y in zip(CITIES, X[:, 0].tolist(), up, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["city,v,y", *lines]) + "\n")
    result = run("train", "d.csv", "m", "--hash", 1024, "--window", 500)
    assert "--hash implies --estimator pistol" in result.stderr
    assert load_model("m").n_features_in_ == 1024 and describe_model("m")["notes"]["hashed"] == 1024
    assert json.loads(run("eval", "m", "d.csv", "--json").stdout)["error"] < 0.05
    (tmp_path / "new.csv").write_text("v,city\n0.1,Rome\n0.1,Lima\n")
    assert run("predict", "m", "new.csv").stdout.split() == ["up", "down"]
    (tmp_path / "d.svm").write_text(libsvm(LABELS))
    refused = run("train", "d.svm", "m", "--hash", 1024, code=2)
    assert "--hash is for files of tables with names" in refused.stderr


def test_windows_change_the_order_and_not_the_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.svm").write_text(libsvm(np.sort(LABELS).tolist()))
    models = []
    for options in (["--window", 1500], ["--window", 1500], ["--window", 1500, "--seed", 1]):
        run("train", "d.svm", "m", *options)
        models.append(load_model("m").coef_.tobytes())
    assert models[0] == models[1] != models[2]


@pytest.mark.parametrize("name", ["ridge", "glm", "separator"])
def test_other_learners_of_a_large_file(name, tmp_path, monkeypatch, large):
    monkeypatch.chdir(tmp_path)
    targets = SCORES.round(3).tolist() if name == "ridge" else np.where(X[:, 0] > 0, 1, -1).tolist()
    (tmp_path / "d.svm").write_text(libsvm(targets))
    run("train", "d.svm", "m", "--estimator", name)
    large()
    run("train", "d.svm", "large", "--estimator", name)
    small, model = load_model("m"), load_model("large")
    method = "predict" if name == "ridge" else "decision_function"
    agree = np.corrcoef(*(getattr(m, method)(X) for m in (small, model)))
    assert agree[0, 1] > 0.999
    if name == "separator":
        assert (
            "makes many passes over a file"
            in run("train", "-", "m", "--estimator", name, stdin=libsvm(targets), code=2).stderr
        )
        return
    result = run(
        "train", "-", "m2", "--estimator", name, "--checkpoint", "c2", stdin=libsvm(targets)
    )
    assert ("stochastic steps" in result.stderr) == (name == "glm")
    if name == "ridge":
        run("train", "d.svm", "m", "--estimator", name, "--checkpoint", "c", "--every", 500)
        assert load_model("m").coef_.tobytes() == load_model("m2").coef_.tobytes()


def test_scores_of_parts_are_those_of_all_rows():
    y, weight = RNG.integers(0, 3, ROWS), RNG.random(ROWS) * (np.arange(ROWS) >= 300)
    p = RNG.dirichlet([1, 1], ROWS)
    decisions = RNG.standard_normal(ROWS).cumsum() / 30 + y
    classes, parts = np.array([0, 1]), [slice(i, i + 300) for i in range(0, ROWS, 300)]
    for w in (None, weight):
        whole, wholes = Scores(classes), Scores()
        whole.add(y, y // 2, p, decisions, w)
        wholes.add(y, decisions, weight=w)
        running, values = Scores(classes), Scores()
        for s in parts:
            mine = None if w is None else w[s]
            running.add(y[s], y[s] // 2, p[s], decisions[s], mine)
            values.add(y[s], decisions[s], weight=mine)
        exact = whole.result()
        assert numbers(running.result()) == pytest.approx(numbers(exact), abs=1e-9)
        assert running.result()["auc"] == pytest.approx(exact["auc"], abs=1e-13)
        assert running.unknown == np.count_nonzero(y == 2)
        assert numbers(values.result()) == pytest.approx(numbers(wholes.result()), rel=1e-9)
