"""Order of time: what is noticed, and held out; and what a report keeps."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import TimeSeriesSplit

from tunefree import DataWarning, TuneFreeClassifier, TuneFreeRegressor, load_model, save_model
from tunefree.rows.checks import SourceColumn, rows_in_order_of_dates
from tunefree.stack.problem import _splits_by_time

LINEAR = {"candidates": ("linear",), "random_state": 0}


def dated(n=90):
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=n, freq="D")
    frame = pd.DataFrame({"x": rng.normal(size=n), "day": days})
    return frame, frame["x"] + 0.05 * np.arange(n)


def findings(model, X, y):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(w.message) for w in seen if issubclass(w.category, DataWarning)]


@pytest.mark.parametrize("seed", range(5))
def test_training_rows_are_earlier_than_held_out_rows(seed):
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 40, 100).astype(float)
    days[rng.random(100) < 0.1] = np.nan
    splits = _splits_by_time(100, days)
    for train, out in splits:
        assert days[train].max() < days[out].min()
    held = np.concatenate([out for _, out in splits])
    assert len(set(held)) == len(held) and not np.isnan(days[held]).any()


def test_later_rows_are_held_out_whatever_the_order_of_rows():
    X, y = dated()
    order = np.random.default_rng(1).permutation(len(y))
    one = TuneFreeRegressor(cv="time", **LINEAR).fit(X, y)
    other = TuneFreeRegressor(cv="time", **LINEAR).fit(X.iloc[order], y.iloc[order])
    np.testing.assert_allclose(one.predict(X), other.predict(X))
    assert one.report_.verdict == other.report_.verdict


def test_without_dates_the_order_of_rows_is_that_of_time():
    X, y = dated()
    X = X[["x"]].to_numpy()
    ours = TuneFreeRegressor(cv="time", **LINEAR).fit(X, y)
    theirs = TuneFreeRegressor(cv=TimeSeriesSplit(), **LINEAR).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_order_of_dates_is_a_finding_where_rows_are_held_out_at_random():
    X, y = dated()
    y = y + 20.0 * np.sin(np.arange(len(y)) ** 2)
    words = findings(TuneFreeRegressor(**LINEAR), X, y)
    assert any("in the order of these dates" in w and "cv='time'" in w for w in words)
    shuffled = X.sample(frac=1.0, random_state=0)
    for options, rows in (({"cv": "time"}, X), ({}, shuffled)):
        found = findings(TuneFreeRegressor(**options, **LINEAR), rows, y[rows.index])
        assert not any("in the order of these dates" in w for w in found)


def test_a_few_rows_out_of_order_change_nothing():
    days = np.arange(300.0)
    days[[5, 200]] = days[[200, 5]]
    days[17] = np.nan
    assert rows_in_order_of_dates([SourceColumn(0, "day", "date", days)])
    assert rows_in_order_of_dates([SourceColumn(0, "day", "date", -days)])
    assert not rows_in_order_of_dates([SourceColumn(0, "n", "number", days)])


@pytest.mark.parametrize(
    "options, words",
    [({"cv": "tme"}, "cv='tme'"), ({"cv": "time", "compress": 5}, "exclude each other")],
)
def test_bad_values_of_cv_are_refused(options, words):
    X, y = dated(40)
    with pytest.raises(ValueError, match=words):
        TuneFreeRegressor(**options).fit(X, y)
    with pytest.raises(ValueError, match="groups= and cv='time'"):
        TuneFreeRegressor(cv="time").fit(X, y, groups=np.arange(40) // 4)
    with pytest.raises(ValueError, match="more different dates"):
        TuneFreeRegressor(cv="time").fit(X.assign(day=X["day"].iloc[0]), y)


def test_a_report_keeps_every_finding(tmp_path):
    X, y = dated()
    X = X.assign(constant=1.0, copy=y, city=["Berlin"] * 50 + ["berlin"] * 5 + ["Rome"] * 35)
    model = TuneFreeRegressor(**LINEAR)
    words = findings(model, X, y)
    assert len(words) >= 4 and list(model.report_.notes) == words
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m").report_.notes == model.report_.notes
    shuffled = X[["x"]].sample(frac=1.0, random_state=0)
    words = findings(model, shuffled, y)
    assert "row labels in another order" in words[0] and list(model.report_.notes) == words
    assert findings(model, shuffled.reset_index(drop=True), y) == []
    assert list(model.report_.notes) == []


@pytest.mark.parametrize("d", [200, 1200])
def test_few_rows_are_compared_and_wide_tables_are_right(d):
    rng = np.random.default_rng(1)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, d))
    X[:, :10] += 2.5 * y[:, None]
    model = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(X[:28], y[:28])
    assert model.score(X[28:], y[28:]) > 0.9
    assert model.report_.verdict.is_better and len(model.leaderboard_) > 2


def test_few_rows_of_noise_give_a_constant():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 2
    model = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(X, y)
    p = model.predict_proba(rng.normal(size=(200, 4)))[:, 1]
    assert np.abs(p - 0.5).max() < 0.3
