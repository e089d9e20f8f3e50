"""Kernel ridge with a learned geometry: left-out errors are true, choices need no help."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from tunefree import KernelRidgeClassifier, KernelRidgeRegressor, load_model, save_model
from tunefree.kernels.geometry import Geometry
from tunefree.kernels.kernels import RBF, Laplacian
from tunefree.kernels.nystroem import ColumnFeatures, make_landmarks, solve

KERNELS = ["rbf", "laplacian", "linear"]


def curve(n=150, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(n, 1)), rng


def marks_of(kernel, centers):
    return make_landmarks(centers, Geometry(kernel, np.ones(centers.shape[1]), 0.2, 0.1))


@pytest.mark.parametrize("make", [RBF(), Laplacian(), None])
def test_leave_one_out_is_leaving_one_out(make):
    X, y, rng = curve(60)
    w = rng.integers(1, 4, 60).astype(float)
    marks = ColumnFeatures(2) if make is None else marks_of(make, X[:20])
    whole = solve(marks, lambda a, b: X[a:b], y, w)
    for i in (7, 41):
        k = np.arange(60) != i
        rest = solve(marks, lambda a, b, k=k: X[k][a:b], y[k], w[k])
        alone = rest.intercept + np.tensordot(marks.values(X[[i]])[0], rest.coef, axes=1)
        np.testing.assert_allclose(whole.held_out[i], alone, atol=1e-9)
    few = solve(marks, lambda a, b: X[a:b], y, w, most=10)
    np.testing.assert_allclose(few.held_out, whole.held_out[:10], atol=1e-9)


def test_columns_are_ridge_regression():
    X, y, _ = curve(80, 5)
    found = solve(ColumnFeatures(5), lambda a, b: X[a:b], y, np.ones(80), np.array([0.3]))
    ridge = Ridge(alpha=0.3).fit(X, y[:, 0])
    np.testing.assert_allclose(found.coef[:, 0, 0], ridge.coef_, atol=1e-10)
    assert found.intercept[0, 0] == pytest.approx(ridge.intercept_)


def test_with_all_rows_as_landmarks_it_is_kernel_ridge_regression():
    X, y, _ = curve(80)
    y = y - y.mean()
    marks = marks_of(RBF(), X)
    solution = solve(marks, lambda a, b: X[a:b], y, np.ones(80), np.array([0.3]))
    # The same with a free intercept: kernel ridge on centred kernels.
    K, H = marks.values(X), np.eye(80) - 1 / 80
    ours = K @ solution.coef[:, 0] + solution.intercept
    theirs = H @ K @ H @ np.linalg.solve(H @ K @ H + 0.3 * np.eye(80), y)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("make", [KernelRidgeRegressor, KernelRidgeClassifier])
def test_units_of_columns_make_no_difference(make, kernel):
    X, y, rng = curve()
    y = y[:, 0] if make is KernelRidgeRegressor else y[:, 0] > 0
    one = make(kernel, random_state=0).fit(X, y)
    scale = np.array([2.0**-14, 2.0**17])
    two = make(kernel, random_state=0).fit(X * scale, y)
    new = rng.normal(size=(40, 2))
    if make is KernelRidgeRegressor:
        np.testing.assert_allclose(one.predict(new), two.predict(new * scale), atol=1e-4)
    else:
        assert (one.predict(new) == two.predict(new * scale)).mean() >= 0.95


def test_heavy_tails_call_for_ranks():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 3))
    X, y = np.sinh(3 * Z), np.sin(2 * Z[:, 0])
    model = KernelRidgeRegressor(random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.9


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_columns_that_do_not_matter_are_found_out(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 15))
    y = np.sin(2 * X[:, 0]) * X[:, 1]
    model = KernelRidgeRegressor(kernel, random_state=0).fit(X[:600], y[:600])
    share = model.feature_relevances_
    assert share.sum() == pytest.approx(1.0)
    assert set(np.argsort(-share)[:2]) == {0, 1} and share[:2].min() > 5 * share[2:].max()
    assert model.score(X[600:], y[600:]) > 0.9


def test_codes_without_an_order_are_levels():
    """Each level has a mean of its own, at random: as a number the column tells nothing smooth."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 12, (900, 2))
    means = rng.normal(size=(12, 12))
    y = means[codes[:, 0], codes[:, 1]] + 0.1 * rng.normal(size=900)
    model = KernelRidgeRegressor(random_state=0).fit(codes[:700].astype(float), y[:700])
    assert model.score(codes[700:].astype(float), y[700:]) > 0.85


@pytest.mark.parametrize("n", [400, 2400])
@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_held_have_no_influence_on_what_is_said_of_them(n, kernel):
    X, y, rng = curve(n, 3)
    held = np.arange(n) % 4 == 0
    first = KernelRidgeRegressor(kernel, random_state=0)
    predictions = first._learn(X, y[:, 0], held=held).held_out.predictions[:, 0]
    alone = KernelRidgeRegressor(kernel, random_state=0).fit(X[~held], y[~held, 0])
    # Each is left out alone: a little better than without all of them.
    assert np.mean((predictions - y[held, 0]) ** 2) < 1.05 * np.mean(
        (alone.predict(X[held]) - y[held, 0]) ** 2
    )
    if n > 700:  # then the search has not seen them
        other = y[:, 0].copy()
        other[0] += 3.0
        model = KernelRidgeRegressor(kernel, random_state=0)
        again = model._learn(X, other, like=first, held=held).held_out.predictions
        assert abs(again[0, 0] - predictions[0]) < 0.02


def test_like_takes_over_what_was_found():
    X, y, _ = curve()
    one = KernelRidgeRegressor(random_state=0).fit(X[:100], y[:100, 0])
    two = KernelRidgeRegressor(random_state=0)
    two._learn(X, y[:, 0], like=one)
    assert two.geometry_ is one.geometry_ and two.view_ is one.view_


def test_many_rows_have_few_landmarks():
    X, y, _ = curve(9000)
    model = KernelRidgeRegressor(random_state=0).fit(X[:8500], y[:8500, 0])
    assert len(model.dual_coef_) < 2000 and model.score(X[8500:], y[8500:, 0]) > 0.97
    few = KernelRidgeRegressor(n_landmarks=30, random_state=0).fit(X[:500], y[:500, 0])
    assert len(few.dual_coef_) == 30


def test_probabilities_are_calibrated():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 2))
    p = 1 / (1 + np.exp(-3 * (X[:, 0] * X[:, 1])))
    y = rng.random(3000) < p
    model = KernelRidgeClassifier(random_state=0).fit(X[:1500], y[:1500])
    assert np.abs(model.predict_proba(X[1500:])[:, 1] - p[1500:]).mean() < 0.07


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_model_file_keeps_it(tmp_path, kernel):
    X, y, _ = curve()
    for model in (KernelRidgeRegressor(kernel), KernelRidgeClassifier(kernel)):
        model.fit(X, np.round(y[:, 0]).astype(int))
        save_model(model, tmp_path / "model")
        again = load_model(tmp_path / "model")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("seed", range(4))
def test_single_precision_rows_get_the_predictions_of_double_ones(seed):
    """Wide kernels fit lines by large coefficients that cancel: these are kept in double."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    y = X.astype(float).sum(axis=1) + 0.01 * rng.normal(size=60)
    narrow = KernelRidgeRegressor(random_state=0).fit(X, y)
    wide = KernelRidgeRegressor(random_state=0).fit(X.astype(float), y)
    assert narrow.predict(X).dtype == np.float32
    np.testing.assert_allclose(narrow.predict(X), wide.predict(X), rtol=0, atol=1e-4 * np.ptp(y))


@pytest.mark.parametrize("n", [1500, 9000])
def test_log_odds_of_all_rows_have_the_classes_share(n):
    """The intercept of the squared loss is no part of log-odds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    p = 1.0 / (1.0 + np.exp(3.0 - 1.5 * X[:, 0]))
    y = (rng.random(n) < p).astype(int)
    model = KernelRidgeClassifier(loss="log_loss", n_landmarks="all", random_state=0).fit(X, y)
    assert len(model.dual_coef_) == n
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.015)
    # At the minimum a coefficient is y - p over the penalty, also where the kernel is nearly 0.
    assert np.abs(model.dual_coef_).max() < 1.1 / model.alpha_


def test_a_model_file_predicts_the_same_bits_in_single_precision(tmp_path):
    """Noise allows kernel values of single precision; the file keeps that choice."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 4))
    model = KernelRidgeRegressor(random_state=0).fit(X, X[:, 0] + 2.0 * rng.normal(size=2500))
    assert model.single_precision_
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X[:500]), model.predict(X[:500]))


@pytest.mark.parametrize("targets", [np.sign, np.array])
def test_repeated_rows_are_weights_if_distinct_rows_are_few_for_the_columns(targets):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 20))
    y = targets(X[:, 0] + rng.normal(size=30))
    kind = KernelRidgeClassifier if targets is np.sign else KernelRidgeRegressor
    weighted = kind(random_state=0).fit(X, y, sample_weight=np.full(30, 4.0))
    repeated = kind(random_state=0).fit(np.repeat(X, 4, axis=0), np.repeat(y, 4))
    output = "decision_function" if targets is np.sign else "predict"
    ours, theirs = (getattr(model, output)(X) for model in (weighted, repeated))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_fewer_landmarks_do_where_more_do_not_help():
    X, y, _ = curve(2500)
    most, few = (KernelRidgeRegressor(n_landmarks=2000, random_state=0) for _ in range(2))
    few._learn(X, y[:, 0], fewer=True)
    most.fit(X, y[:, 0])
    assert len(few.dual_coef_) <= 1000 and len(most.dual_coef_) == 2000
    assert few.leave_one_out_risk_ <= 1.01 * most.leave_one_out_risk_
