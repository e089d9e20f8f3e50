"""The verdict: scores of held-out rows with their errors, beside the constant."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import d2_tweedie_score, log_loss, mean_squared_error, r2_score

from tunefree import TuneFreeClassifier, TuneFreeRegressor, load_model, save_model
from tunefree.core.format import duration, number


@pytest.fixture(scope="module")
def numbers():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return TuneFreeRegressor(("linear",), random_state=0).fit(X, y), y


@pytest.fixture(scope="module")
def classes():
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    return TuneFreeClassifier(("linear",), random_state=0).fit(X, names), names


def constant_row(model):
    (row,) = [row for row in model.leaderboard_ if row["status"] == "baseline"]
    assert row["candidate"] == "constant" and not row["chosen"] and row["share"] == 0.0
    return row


def test_numbers_have_r2_beside_the_mean(numbers):
    model, _ = numbers
    (held_out,), verdict = model.held_out_, model.report_.verdict
    y, p = held_out.targets, held_out.targets - held_out.residuals
    assert verdict.kind == "R2" and verdict.is_better and not verdict.is_constant
    assert verdict.score == pytest.approx(r2_score(y, p), abs=1e-9)
    assert verdict.loss == pytest.approx(mean_squared_error(y, p))
    mean = DummyRegressor().fit(y[:, None], y).predict(y[:, None])
    for risk in (verdict.constant_loss, constant_row(model)["risk"]):
        assert risk == pytest.approx(mean_squared_error(y, mean))


def test_classes_have_accuracy_beside_the_most_frequent_one(classes):
    model, names = classes
    held_out, verdict = model.held_out_, model.report_.verdict
    y = model.classes_[held_out.codes]
    predicted = model.classes_[held_out.p.argmax(axis=1)]
    assert verdict.kind == "Accuracy" and verdict.constant == "'benign'"
    assert verdict.score == pytest.approx(np.mean(y == predicted))
    most = DummyClassifier().fit(y[:, None], y)
    row = constant_row(model)
    assert 1.0 - row["risk"] == verdict.constant_score == pytest.approx(most.score(y[:, None], y))
    prior = log_loss(y, most.predict_proba(y[:, None]))
    assert row["log_loss"] == pytest.approx(prior) == verdict.constant_loss


def test_the_standard_errors_are_those_of_the_bootstrap(numbers, classes):
    rng = np.random.default_rng(0)
    (held_out,) = numbers[0].held_out_
    y, p = held_out.targets, held_out.targets - held_out.residuals
    draws = rng.integers(0, len(y), (1000, len(y)))
    scores = [r2_score(y[i], p[i]) for i in draws]
    assert numbers[0].report_.verdict.score_se == pytest.approx(np.std(scores), rel=0.15)
    held_out = classes[0].held_out_
    right = held_out.p.argmax(axis=1) == held_out.codes
    draws = rng.integers(0, len(right), (1000, len(right)))
    expected = np.std(right[draws].mean(axis=1))
    assert classes[0].report_.verdict.score_se == pytest.approx(expected, rel=0.15)


def test_counts_have_d2():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    model = TuneFreeRegressor(("linear",), loss="poisson", random_state=0).fit(X, y)
    verdict, (held_out,) = model.report_.verdict, model.held_out_
    y, p = held_out.targets, held_out.targets - held_out.residuals
    assert verdict.kind == "D2" and verdict.loss_kind == "Poisson deviance"
    assert verdict.score == pytest.approx(d2_tweedie_score(y, p, power=1), abs=1e-9)


def test_no_signal_is_reported_where_the_constant_is_predicted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    model = TuneFreeRegressor(random_state=0).fit(X, y)
    assert np.ptp(model.predict(X)) < 1e-9 and model.report_.verdict.is_constant
    assert "No signal was found: it predicts the mean." in str(model.report_)
    labels = rng.choice(["a", "b"], 200, p=[0.6, 0.4])
    model = TuneFreeClassifier(("linear",), random_state=0).fit(X, labels)
    assert np.ptp(model.predict_proba(X)[:, 0]) < 1e-9 and model.report_.verdict.is_constant
    assert "No signal was found: it predicts &#x27;a&#x27;." in model.report_._repr_html_()


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_not_significantly_better(seed):
    rng = np.random.default_rng(seed + 100)
    model = TuneFreeRegressor(random_state=0).fit(rng.normal(size=(80, 4)), rng.normal(size=80))
    assert not model.report_.verdict.is_better


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(120, 2)), rng.integers(1, 4, 120)
    y = X[:, 0] + rng.normal(size=120)
    one = TuneFreeRegressor(("linear",), random_state=0).fit(X, y, sample_weight=weights)
    two = TuneFreeRegressor(("linear",), random_state=0).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    assert one.report_.verdict.score == pytest.approx(two.report_.verdict.score, abs=1e-9)


def test_without_held_out_rows_there_is_no_verdict():
    X = np.arange(12.0)[:, None]
    model = TuneFreeRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    assert model.report_.verdict is None
    assert all(row["status"] != "baseline" for row in model.leaderboard_)


@pytest.mark.parametrize("value", [0.0, 0.1, 3e8])
def test_equal_targets_have_no_signal(value):
    X = np.random.default_rng(0).normal(size=(60, 2))
    verdict = (
        TuneFreeRegressor(("linear",), random_state=0).fit(X, np.full(60, value)).report_.verdict
    )
    assert verdict.is_constant and verdict.score == 0.0 and not verdict.is_better


def test_a_model_file_keeps_the_verdict(classes, tmp_path):
    save_model(classes[0], tmp_path / "m")
    assert load_model(tmp_path / "m").report_.verdict == classes[0].report_.verdict


def test_a_fitted_model_shows_its_report_in_notebooks(numbers):
    model = numbers[0]
    for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert html.endswith(model.report_._repr_html_()) and "sk-estimator" in html
        assert "R2 on held-out rows" in html
    fresh = TuneFreeRegressor()
    assert "held-out" not in fresh._repr_html_() + fresh._repr_mimebundle_()["text/html"]


def test_numbers_are_as_people_read_them():
    values = [2934.2, 29342.0, 1.0, 0.99961, 0.05, 1.2e-7, 0.0, -2934.2, 5e6, 170, np.inf]
    shown = ["2,930", "29,300", "1.00", "1.00", "0.0500", "1.2e-07", "0", "-2,930", "5,000,000"]
    assert [*map(number, values)] == [*shown, "170", "inf"]
    times = [duration(s) for s in (174.0, 9.97, 2.94, 0.052, 1e-6, 4000.0)]
    assert times == ["174 s", "10 s", "2.9 s", "0.05 s", "0 s", "4,000 s"]
