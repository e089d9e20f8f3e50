import re
import shlex

import numpy as np
import pytest
from sklearn import metrics
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.cli.demo import compared, tables
from tunefree.cli.scores import Scores
from tunefree.files.model import load_model


def test_the_table_of_the_demo_has_dates_text_and_gaps():
    (head, *train), (_, *test) = tables()
    assert len(head) == 7 and len(train) == 600 and len(test) == 200
    cells = np.array(train, dtype=object)
    assert 0.04 < np.mean(cells[:, :-1] == "") < 0.08
    assert all(re.fullmatch(r"202[45]-\d\d-\d\d", cell) for cell in cells[:, 0] if cell)
    assert set(cells[:, 2]) == {"bicycle", "truck", ""} and set(cells[:, -1]) == {"yes", "no"}


def test_losses_within_two_standard_errors_are_level():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0]
    exact, constant = LinearRegression(), DummyRegressor()
    assert compared("", (X, y), constant, DummyRegressor(), 40).endswith("level")
    assert compared("", (X, y), exact, constant, 40).endswith("better")
    assert compared("", (X, y), constant, exact, 40).endswith("worse")


@pytest.mark.parametrize("n_rows", [120, None])
def test_the_demo_writes_a_report_and_its_commands_work(tmp_path, monkeypatch, n_rows):
    """With its first rows and without its comparisons; and as it is."""
    monkeypatch.chdir(tmp_path)
    if n_rows:
        few = [part[:n_rows] for part in tables()]
        monkeypatch.setattr("tunefree.cli.demo.tables", lambda: few)
        monkeypatch.setattr("tunefree.cli.demo.comparisons", lambda: ["level", "better"])
    runner = CliRunner()
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == 0, result.exception
    words = [line.split()[-1] for line in result.stdout.splitlines()[1:3]]
    assert words == ["level", "better"]
    error = float(re.search(r"^error +([\d.]+)$", result.stdout, re.MULTILINE)[1])
    assert error < (0.4 if n_rows else 0.25)
    page = (tmp_path / "tunefree-demo" / "report.html").read_text()
    verdict = result.stdout.splitlines()[-1]
    assert verdict in page and verdict.endswith("the model is better than that.")
    assert f"Accuracy {100 - 100 * error:.1f}\u00a0%" in verdict
    commands = re.findall(r"^tunefree (.*)$", result.stdout, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["train", "eval", "report"]
    model = load_model(tmp_path / "tunefree-demo" / "model")
    (tmp_path / "tunefree-demo" / "model").unlink()
    for command in commands:
        done = runner.invoke(app, shlex.split(command))
        assert done.exit_code == 0, (command, done.output)
    again = load_model(tmp_path / "tunefree-demo" / "model")
    assert again.leaderboard_ == model.leaderboard_


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
