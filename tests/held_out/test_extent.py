"""A line is believed beyond its limits where the rows out there speak for it, and only there."""

import numpy as np
import pytest
from scipy import sparse

from tunefree import PiSTOLRegressor


def line(law, seed=0, n=1500, d=6):
    """Training and test rows of a line with noise 1."""
    rng = np.random.default_rng(seed)
    draw = {
        "normal": lambda size: rng.normal(size=size),
        "student": lambda size: rng.standard_t(2, size),
        "log-normal": lambda size: rng.lognormal(size=size),
        "pareto": lambda size: rng.pareto(2.0, size),
    }[law]
    X = draw((2 * n, d))
    y = X @ np.linspace(-1.0, 2.0, d) + rng.normal(size=2 * n)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.parametrize("verb, most", [("fit", 1.2), ("partial_fit", 2.5)])
@pytest.mark.parametrize("law", ["normal", "student", "log-normal", "pareto"])
def test_a_line_in_heavy_tails_is_followed(law, verb, most):
    """Median over seeds of the mean squared error; the noise alone has 1."""
    errors = []
    for seed in range(3):
        X, y, X_test, y_test = line(law, seed)
        model = getattr(PiSTOLRegressor(random_state=0), verb)(X, y)
        errors.append(np.mean((model.predict(X_test) - y_test) ** 2))
    assert np.median(errors) < most


def test_targets_with_an_end_keep_predictions_within_it():
    X, y, X_test, _ = line("student")
    y = np.clip(y, 0.0, 3.0)
    for model in (PiSTOLRegressor().fit(X, y), PiSTOLRegressor().partial_fit(X, y)):
        p = model.predict(X_test)
        assert 0.0 <= p.min() and p.max() <= 3.0


def test_a_column_that_saturates_is_clipped_and_the_others_are_not():
    """The target follows column 0 up to 20 only: its limit stays, that of column 1 is opened."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2, (3000, 2)) * [1.0, 1.0]
    X[::30, 0] *= 50.0
    y = np.clip(X[:, 0], -5.0, 5.0) + X[:, 1] + 0.1 * rng.normal(size=3000)
    model = PiSTOLRegressor(random_state=0).fit(X, y)
    farthest = np.abs(X).max(axis=0)
    reach = np.abs(model.input_limits_).max(axis=0)
    assert reach[0] < farthest[0] and reach[1] > farthest[1]


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
@pytest.mark.parametrize("odd", ["x", "y"])
def test_one_absurd_row_opens_nothing(verb, odd):
    X, y, X_test, y_test = line("normal")
    clean = getattr(PiSTOLRegressor(random_state=0), verb)(X, y)
    X, y = X.copy(), y.copy()
    if odd == "x":
        X[700, 2] = 3e3
    else:
        y[700] = 1e30
    model = getattr(PiSTOLRegressor(random_state=0), verb)(X, y)
    assert np.all(np.abs(model.prediction_limits_) <= 2.0 * np.abs(clean.prediction_limits_))
    assert model.score(X_test, y_test) > clean.score(X_test, y_test) - 0.02


def test_an_absurd_target_among_120_rows_costs_less_than_a_hundredth():
    for seed in range(4):
        X, y, X_test, y_test = line("normal", seed)
        X, y = X[:120], y[:120].copy()
        clean = PiSTOLRegressor(random_state=0).fit(X, y).score(X_test, y_test)
        y[17] = -1e30
        model = PiSTOLRegressor(random_state=0).fit(X, y)
        assert model.score(X_test, y_test) > clean - 0.01


def test_copies_units_and_chunks_make_no_difference_where_limits_open():
    X, y, X_test, _ = line("student", n=400)
    weights = np.random.default_rng(1).integers(0, 4, len(y))
    one = PiSTOLRegressor(random_state=0).fit(X, y, sample_weight=weights)
    rows = np.repeat(np.arange(len(y)), weights)
    other = PiSTOLRegressor(random_state=0).fit(X[rows], y[rows])
    for name in ("input_limits_", "prediction_limits_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10)
    plain = PiSTOLRegressor(shuffle=False).fit(X, y)
    assert np.any(plain.prediction_limits_[1] > y.max())  # a side is open
    units = 10.0 ** np.linspace(-4, 4, X.shape[1])
    moved = PiSTOLRegressor(shuffle=False).fit(X * units, 7.0 - 1e3 * y)
    np.testing.assert_allclose(
        moved.input_limits_, plain.input_limits_ * units, rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(
        moved.prediction_limits_[::-1], 7.0 - 1e3 * plain.prediction_limits_, rtol=1e-8
    )
    whole, parts = PiSTOLRegressor().partial_fit(X, y), PiSTOLRegressor()
    for start in range(0, len(y), 37):
        parts.partial_fit(X[start : start + 37], y[start : start + 37])
    assert whole.input_limits_.tobytes() == parts.input_limits_.tobytes()
    assert whole.predict(X_test).tobytes() == parts.predict(X_test).tobytes()


def test_limits_of_single_precision_do_not_overflow():
    X, y, *_ = line("normal", n=200)
    X = (2e37 * X).astype(np.float32)
    for model in (PiSTOLRegressor().fit(X, y), PiSTOLRegressor().partial_fit(X, y)):
        assert model.input_limits_.dtype == np.float32 and np.isfinite(model.input_limits_).all()
        assert model.score(X, y) > 0.8


def test_a_sparse_stream_opens_its_range_and_counts_the_columns_means():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.pareto(2.5, (4000, 5)) * (rng.random((4000, 5)) < 0.5) + 1.0)
    y = X @ np.ones(5) + 0.1 * rng.normal(size=4000)
    model = PiSTOLRegressor().partial_fit(X[:3000], y[:3000])
    assert model.input_limits_ is None and model.prediction_limits_[1, 0] > y[:3000].max()
    assert np.mean(model.predict(X) - y) == pytest.approx(0.0, abs=0.1 * y.std())
