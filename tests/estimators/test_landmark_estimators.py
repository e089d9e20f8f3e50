"""Kernel ridge on landmarks: its leave-one-out errors are true, its choices need no help."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from tunefree import LandmarkClassifier, LandmarkRegressor, load_model, save_model
from tunefree.columns import show
from tunefree.learners.kernel.nystroem import place, solve


def curve(n=150, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(n, 1)), rng


def test_leave_one_out_is_leaving_one_out():
    X, y, rng = curve(60)
    w = rng.integers(1, 4, 60).astype(float)
    marks = place(X[:20], 0.5)
    whole = solve(marks, lambda a, b: X[a:b], 60, y, w)
    for i in (7, 41):
        k = np.arange(60) != i
        rest = solve(marks, lambda a, b, k=k: X[k][a:b], 59, y[k], w[k])
        alone = rest.intercept + np.tensordot(marks.values(X[[i]])[0], rest.coef, axes=1)
        np.testing.assert_allclose(whole.left_out[i], alone, atol=1e-9)


def test_with_all_rows_as_landmarks_it_is_kernel_ridge_regression():
    X, y, _ = curve(80)
    y = y - y.mean()
    solution = solve(place(X, 0.5), lambda a, b: X[a:b], 80, y, np.ones(80), np.array([0.3]))
    # The same with a free intercept: kernel ridge on centred kernels.
    K = KernelRidge(kernel="rbf", gamma=0.5)._get_kernel(X)
    H = np.eye(80) - 1 / 80
    ours = K @ solution.coef[:, 0] + solution.intercept
    theirs = H @ K @ H @ np.linalg.solve(H @ K @ H + 0.3 * np.eye(80), y)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("make", [LandmarkRegressor, LandmarkClassifier])
def test_units_of_columns_make_no_difference(make):
    X, y, rng = curve()
    y = y[:, 0] if make is LandmarkRegressor else y[:, 0] > 0
    one = make(random_state=0).fit(X, y)
    scale = np.array([1e-4, 1e5])
    two = make(random_state=0).fit(X * scale, y)
    new = rng.normal(size=(40, 2))
    if make is LandmarkRegressor:
        np.testing.assert_allclose(one.predict(new), two.predict(new * scale), atol=1e-5)
    else:
        assert (one.predict(new) == two.predict(new * scale)).mean() >= 0.95


def test_heavy_tails_call_for_the_asinh_view():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 3))
    X, y = np.sinh(3 * Z), np.sin(2 * Z[:, 0])
    model = LandmarkRegressor(random_state=0).fit(X[:300], y[:300])
    assert model.parts_[0].asinh and model.score(X[300:], y[300:]) > 0.8


def test_columns_that_do_not_matter_are_found_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 15))
    y = np.sin(2 * X[:, 0]) * X[:, 1]
    model = LandmarkRegressor(random_state=0).fit(X[:600], y[:600])
    weight = 1.0 / (model.parts_[-1].scale * X.std(axis=0))
    assert set(np.argsort(-weight)[:2]) == {0, 1} and weight[:2].min() > 5 * weight[2:].max()
    assert model.score(X[600:], y[600:]) > 0.9


def test_like_takes_over_what_was_found():
    X, y, _ = curve()
    one = LandmarkRegressor(random_state=0).fit(X[:100], y[:100, 0])
    two = LandmarkRegressor(random_state=0)._learn(X, y[:, 0], like=one)
    assert two.gamma_ == one.gamma_ and two.parts_ is one.parts_


def test_rows_that_are_added_count_as_if_they_had_been_there():
    X, y, _ = curve(400)
    known = np.arange(400) % 5 != 0
    one = LandmarkRegressor(random_state=0)._learn(X[known], y[known, 0], keep=True)
    more = LandmarkRegressor(random_state=0)._learn(X, y[:, 0], like=one, known=known)
    marks = place(more.landmarks_.centers, more.gamma_)
    Z = show(more.parts_, X)
    whole = solve(marks, lambda a, b: Z[a:b], 400, y, np.ones(400), np.array([more.alpha_]))
    ours = marks.values(Z) @ whole.coef[:, 0] + whole.intercept[0]
    np.testing.assert_allclose(more.predict(X), np.clip(ours[:, 0], y.min(), y.max()), atol=1e-5)
    with pytest.raises(ValueError, match="fit it with keep=True"):
        LandmarkRegressor(random_state=0)._learn(X, y[:, 0], like=more, known=known)


def test_probabilities_are_calibrated():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 2))
    p = 1 / (1 + np.exp(-3 * (X[:, 0] * X[:, 1])))
    y = rng.random(3000) < p
    model = LandmarkClassifier(random_state=0).fit(X[:1500], y[:1500])
    assert np.abs(model.predict_proba(X[1500:])[:, 1] - p[1500:]).mean() < 0.07


def test_a_model_file_keeps_it(tmp_path):
    X, y, _ = curve()
    for model in (LandmarkRegressor(), LandmarkClassifier()):
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
    narrow = LandmarkRegressor(random_state=0).fit(X, y)
    wide = LandmarkRegressor(random_state=0).fit(X.astype(float), y)
    assert narrow.predict(X).dtype == np.float32
    np.testing.assert_allclose(narrow.predict(X), wide.predict(X), rtol=0, atol=1e-4 * np.ptp(y))
