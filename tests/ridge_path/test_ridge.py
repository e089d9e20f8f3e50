"""RidgePathRegressor and sgd_ridge_path: the contract, Ridge, and what must not matter."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tunefree.parts.averaging import Geometric, Last, Suffix, Tail, Uniform
from tunefree.ridge_path.estimators import RidgePathRegressor, sgd_ridge_path

SOLVERS = ["sgd", "exact"]
ALPHAS = np.logspace(3, -3, 7)


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [
        RidgePathRegressor(solver="sgd"),
        RidgePathRegressor("tail", max_iter=3),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def rows(n=120, d=6, n_targets=1, seed=0):
    """Correlated columns in rough units, and noisy targets far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * np.logspace(-2, 2, d) + 3.0
    X[rng.random((n, d)) < 0.3] = 0.0
    y = 50.0 + X @ (rng.normal(size=(d, n_targets)) / X.std(axis=0)[:, None])
    y += rng.normal(size=(n, n_targets))
    return X, y[:, 0] if n_targets == 1 else y


def as_stored(X, kind):
    if kind == "dense":
        return X
    X = sparse.csr_matrix(X) if kind == "matrix" else sparse.csr_array(X)
    index = np.int64 if kind == "int64" else np.int32
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("shape", [(120, 6), (15, 40)])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_exact_path_is_ridge(n_targets, shape, intercept):
    X, y = rows(*shape, n_targets)
    weights = np.random.default_rng(1).integers(1, 4, len(y))
    alphas, coefs, intercepts = sgd_ridge_path(
        X, y, alphas=ALPHAS, sample_weight=weights, solver="exact", standardize=False,
        fit_intercept=intercept,
    )  # fmt: skip
    for k, alpha in enumerate(alphas):
        ridge = Ridge(alpha, fit_intercept=intercept, solver="svd").fit(X, y, weights)
        predicted = X @ coefs[..., k].T + intercepts[..., k]
        np.testing.assert_allclose(predicted, ridge.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(40, 6), (15, 30)])
def test_exact_scores_are_leave_one_out(shape):
    X, y = rows(*shape)
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    model = RidgePathRegressor(solver="exact", alphas=ALPHAS, standardize=False)
    model.fit(X, y, weights)
    squares = np.zeros((len(ALPHAS), len(y)))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        for k, alpha in enumerate(ALPHAS):
            ridge = Ridge(alpha, solver="svd").fit(X[rest], y[rest], weights[rest])
            squares[k, i] = (ridge.predict(X[i : i + 1])[0] - y[i]) ** 2
    brute = squares @ weights / weights.sum()
    np.testing.assert_allclose(model.validation_scores_, brute, rtol=1e-5)
    assert model.alpha_ == ALPHAS[brute.argmin()]


@pytest.mark.parametrize("alpha", [300.0, 30.0, 3.0])
def test_alphas_mean_what_they_mean_to_ridge(alpha):
    """Many fresh rows: the path of one pass is near the ridge path, on the same columns."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 3)) * [1.0, 0.5, 0.2]
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=len(X))
    _, coefs, intercepts = sgd_ridge_path(
        X, y, alphas=[alpha], max_iter=3, standardize=False, random_state=0
    )
    ridge = Ridge(alpha).fit(X, y)
    np.testing.assert_allclose(coefs[:, 0], ridge.coef_, rtol=0.05, atol=0.03)
    assert intercepts[0] == pytest.approx(ridge.intercept_, abs=0.03)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["dense", "int32"])
@pytest.mark.parametrize("n_draws", [10, 50])
def test_weights_are_repetitions_and_the_order_of_rows_is_nothing(solver, kind, n_draws):
    for seed in range(n_draws):
        X, y = rows(n=30, seed=seed)
        rng = np.random.default_rng(seed)
        weights = rng.integers(0, 4, len(y))
        repeated = rng.permutation(np.repeat(np.arange(len(y)), weights))
        model = RidgePathRegressor(solver=solver, max_iter=2, random_state=seed)
        one = model.fit(as_stored(X, kind), y, weights)
        coef, intercept, scores = one.coef_, one.intercept_, one.validation_scores_
        other = model.fit(as_stored(X[repeated], kind), y[repeated])
        np.testing.assert_array_equal(coef, other.coef_)
        np.testing.assert_array_equal(scores, other.validation_scores_)
        assert intercept == other.intercept_


@pytest.mark.parametrize("solver", SOLVERS)
def test_storage_makes_no_difference(solver):
    X, y = rows()
    found = [
        RidgePathRegressor(solver=solver, standardize=True, max_iter=3, random_state=0)
        .fit(as_stored(X, kind), y)
        .predict(as_stored(X, kind))
        for kind in ("dense", "int32", "int64", "matrix")
    ]
    np.testing.assert_array_equal(found[1], found[2])
    np.testing.assert_array_equal(found[1], found[3])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


@pytest.mark.parametrize("solver", [*SOLVERS, "stream"])
def test_sums_of_float32_are_float64(solver):
    X, y = rows()
    y = y.astype(np.float32)
    models = []
    for dtype in (np.float32, np.float64):
        data = X.astype(np.float32).astype(dtype)
        if solver == "stream":
            models.append(RidgePathRegressor().partial_fit(data, y.astype(dtype)))
        else:
            model = RidgePathRegressor(solver=solver, standardize=True, random_state=0)
            models.append(model.fit(data, y.astype(dtype)))
    single, double = models
    assert single.coef_.dtype == single.predict(X.astype(np.float32)).dtype == np.float32
    assert np.asarray(single.intercept_).dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_unit_of_a_column_makes_no_difference(solver):
    X, y = rows()
    units = np.logspace(-8, 8, X.shape[1])
    one, other = (
        RidgePathRegressor(solver=solver, random_state=0).fit(data, y).predict(data)
        for data in (X, X * units)
    )
    np.testing.assert_allclose(one, other, rtol=0.01)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_path_holds_the_chosen_penalty(solver):
    X, y = rows(n_targets=2)
    model = RidgePathRegressor("geometric", solver=solver, alphas=ALPHAS, random_state=0)
    model.fit(X, y)
    k = int(np.flatnonzero(model.alphas_ == model.alpha_)[0])
    assert k == model.validation_scores_.argmin()
    assert model.coefs_.shape == (7, 2, 6) and model.intercepts_.shape == (7, 2)
    np.testing.assert_allclose(model.coefs_[k], model.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercepts_[k], model.intercept_, rtol=1e-9)
    same = sgd_ridge_path(X, y, alphas=ALPHAS, solver=solver, random_state=0)
    np.testing.assert_allclose(np.moveaxis(same[1], -1, 0), model.coefs_, rtol=1e-12)
    assert [entry["alpha"] for entry in model.leaderboard_] == ALPHAS.tolist()


@pytest.mark.parametrize(
    "average", ["last", "uniform", "polynomial", "tail", Tail(0.2), Geometric(0.01)]
)
def test_a_fixed_average_is_the_one_that_was_asked_for(average):
    X, y = rows()
    model = RidgePathRegressor(average, random_state=0).fit(X, y)
    assert model.solver_ == "sgd" and model.validation_scores_ is None and model.alpha_ is None
    if not isinstance(average, str):
        assert model.average_ == average
    assert model.score(X, y) > 0.5


def test_averages_differ_and_a_user_gives_his_own():
    X, y = rows()
    own = Suffix(3.0 * len(y))  # of the last iterate alone
    coefs = {
        a: RidgePathRegressor(a, max_iter=3, random_state=0).fit(X, y).coef_
        for a in (Last(), Uniform(), own)
    }
    np.testing.assert_allclose(coefs[own], coefs[Last()], rtol=1e-9)
    assert np.abs(coefs[Last()] - coefs[Uniform()]).max() > 1e-3


@pytest.mark.parametrize("kind", ["dense", "int32", "int64"])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_chunks_of_a_stream_make_no_difference(kind, size):
    X, y = rows()
    weights = np.random.default_rng(0).integers(0, 3, len(y)) + np.arange(len(y)) % 2
    weights[0] = 1.0  # a chunk needs a row
    models = [RidgePathRegressor(), RidgePathRegressor()]
    for model, chunk in zip(models, (len(y), size), strict=True):
        for a in range(0, len(y), chunk):
            part = slice(a, a + chunk)
            if weights[part].any():
                model.partial_fit(as_stored(X[part], kind), y[part], weights[part])
    assert models[0].solver_ == "stream" and len(models[0].leaderboard_) > 2
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].intercept_ == models[1].intercept_


def test_a_stream_learns_and_goes_on_from_fit():
    X, y = rows(n=4000)
    stream = RidgePathRegressor()
    for a in range(0, 3000, 100):
        stream.partial_fit(X[a : a + 100], y[a : a + 100])
    assert stream.score(X[3000:], y[3000:]) > 0.7
    fitted = RidgePathRegressor(random_state=0).fit(X[:1000], y[:1000])
    before = fitted.score(X[3000:], y[3000:])
    fitted.partial_fit(X[1000:3000], y[1000:3000])
    assert fitted.score(X[3000:], y[3000:]) > before - 0.02
    with pytest.raises(ValueError, match="targets"):
        fitted.partial_fit(X[:5], np.zeros((5, 3)))


@pytest.mark.parametrize("seed", range(10))
def test_the_path_is_as_good_as_ridge_on_diabetes(seed):
    X, y = load_diabetes(return_X_y=True, scaled=False)
    test = np.random.default_rng(seed).permutation(len(y)) < 130
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 5, 50)))
    error = np.mean((ridge.fit(X[~test], y[~test]).predict(X[test]) - y[test]) ** 2)
    for solver, limit in (("auto", 1.03), ("sgd", 1.1)):
        model = RidgePathRegressor(solver=solver, random_state=seed).fit(X[~test], y[~test])
        assert np.mean((model.predict(X[test]) - y[test]) ** 2) < limit * error


def test_a_hint_names_the_cheaper_solver():
    X, y = rows()
    assert "exact" in RidgePathRegressor(solver="sgd").fit(X, y).hint_
    assert RidgePathRegressor().fit(X, y).hint_ is None
    assert RidgePathRegressor().fit(X, y).solver_ == "exact"
    wide = sparse.random_array((1100, 1200), density=0.005, random_state=0, format="csr")
    model = RidgePathRegressor(random_state=0, max_iter=2).fit(wide, wide @ np.ones(1200))
    assert model.solver_ == "sgd" and model.hint_ is None


@pytest.mark.parametrize(
    "parameters, word",
    [
        ({"average": "mean"}, "average"),
        ({"average": 3.0}, "average"),
        ({"solver": "cg"}, "solver"),
        ({"solver": "exact", "average": "tail"}, "exact"),
        ({"alphas": [0.0]}, "alphas"),
        ({"alphas": []}, "alphas"),
        ({"max_iter": 0}, "max_iter"),
        ({"standardize": "no"}, "standardize"),
    ],
)
def test_parameters_that_mean_nothing_are_named(parameters, word):
    with pytest.raises(ValueError, match=word):
        RidgePathRegressor(**parameters).fit(*rows())


def test_the_path_survives_a_pickle():
    X, y = rows()
    model = RidgePathRegressor(solver="sgd", random_state=0).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).coefs_, model.coefs_)
