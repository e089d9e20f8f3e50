import io
import re
import shlex

import numpy as np
import pytest
from rich.console import Console
from sklearn import metrics
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.cli.apply import Scores
from tunefree.cli.demo import Outcome, contests, draw_png, methods, picture, warm_up


def test_the_data_are_a_mixed_table_a_regression_and_digits():
    made = contests()
    assert [contest.classify for contest in made] == [True, False, True]
    for contest in made:
        (X, y), (_, t) = contest.train, contest.test
        assert len(t) == int(0.3 * (len(y) + len(t))) and X.shape[1] == len(contest.columns)
    mixed = made[0].train[0]
    assert [str(field.type) for field in mixed.schema].count("string") == 3
    assert 0.08 < sum(c.null_count for c in mixed.columns) / (mixed.num_rows * 30) < 0.12


OUTCOMES = [
    Outcome("cancer, rescaled", "tunefree", True, 0.01, 0.1),
    Outcome("cancer, rescaled", "LinearSVC, CV", True, 0.6, 2.0),
    Outcome("diabetes", "tunefree", False, 0.5, 0.1),
    Outcome("diabetes", "SGDRegressor", False, -4.67e21, 0.1),
    Outcome("perfect", "tunefree", True, 0.0, 0.1),
]


def test_the_picture_fits_80_columns():
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(picture(OUTCOMES))
    lines = console.file.getvalue().rstrip("\n").split("\n")
    assert len(lines) == 3 + len(OUTCOMES)
    assert all(len(line) <= 80 for line in lines)
    ours, theirs, sgd, none = (line.count("█") for line in (lines[1], *lines[4:6], lines[7]))
    assert (ours, theirs, sgd, none) == (4, 20, 40, 0)
    assert "▶" in lines[5] and "4.67e+21" in lines[5] and "▶" not in lines[4]


def test_the_png_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    draw_png(OUTCOMES, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_everything_is_compiled_before_the_contest():
    warm_up()
    assert list(methods(True)) == ["tunefree", "SGDClassifier", "LinearSVC, CV"]
    assert list(methods(False)) == ["tunefree", "SGDRegressor", "RidgeCV"]


def test_the_demo_shows_its_table_writes_a_report_and_its_commands_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    result = runner.invoke(app, ["demo", "--write-data", "small", "--png", "here.png"])
    assert result.exit_code == 0, result.exception
    assert (tmp_path / "here.png").exists() and "here.png" in result.stderr
    ours = re.findall(r"tunefree +([\d.]+) %", result.stdout)
    theirs = re.findall(r"SGDClassifier +([\d.]+) %", result.stdout)
    assert len(ours) == len(theirs) == 2
    assert all(float(a) < float(b) for a, b in zip(ours, theirs, strict=True))
    assert "tunefree-demo.html" in result.stderr
    page = (tmp_path / "tunefree-demo.html").read_text()
    assert f"Accuracy {100 - float(ours[0]):.1f}\u00a0%" in page and "worst radius" in page
    commands = re.findall(r"^  tunefree (.*)$", result.stdout.split("next:")[1], re.MULTILINE)
    assert len(commands) == 5
    for command in commands[:3]:
        done = runner.invoke(app, shlex.split(command))
        assert done.exit_code == 0, (command, done.output)


def scored(y, predicted, classes=None, **more):
    scores = Scores(classes)
    scores.add(y, predicted, **more)
    return scores.result()


def test_scores_agree_with_their_definitions():
    rng = np.random.default_rng(0)
    y, p = rng.integers(3, size=50), rng.dirichlet(np.ones(3), size=50)
    weight = rng.random(50)
    ours = scored(y, p.argmax(axis=1), np.arange(3), probabilities=p, weight=weight)
    assert ours["log_loss"] == pytest.approx(metrics.log_loss(y, p, sample_weight=weight))
    assert ours["error"] == pytest.approx(
        metrics.zero_one_loss(y, p.argmax(1), sample_weight=weight)
    )
    z, guess = rng.standard_normal((2, 50))
    ours = scored(z, guess, weight=weight)
    assert ours["r2"] == pytest.approx(metrics.r2_score(z, guess, sample_weight=weight))
    assert ours["mse"] == pytest.approx(metrics.mean_squared_error(z, guess, sample_weight=weight))
    assert ours["mae"] == pytest.approx(metrics.mean_absolute_error(z, guess, sample_weight=weight))
    assert scored(np.ones(3), np.ones(3))["r2"] is None
    side = y > 0
    ours = scored(side * 1, guess > 0, np.arange(2), decisions=guess, weight=weight)
    assert ours["auc"] == metrics.roc_auc_score(side, guess, sample_weight=weight)
    with pytest.raises(ValueError, match="every row has weight 0"):
        scored(z, guess, weight=np.zeros(50))


def test_a_class_that_the_model_does_not_know_costs_but_not_infinitely():
    classes = np.array(["a", "b"])
    scores = scored(np.array(["a", "z"]), classes, classes, probabilities=np.eye(2))
    assert scores["error"] == 0.5 and scores["log_loss"] == pytest.approx(-np.log(1e-15) / 2)
