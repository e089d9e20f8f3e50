"""Least squares on a cluster: the local exact fit from sums, and averages of independent runs."""

import numpy as np
import pytest
from scipy import sparse

import tunefree
from tunefree.core.registry import estimator_class
from tunefree.files.model import load_model, save_model
from tunefree.parts.averaging import Tail

pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask.array as da  # noqa: E402

from tunefree import dask as tfd  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


def rows(n=900, d=8, n_targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 10.0, d) + 3.0
    y = X @ rng.normal(size=(d, n_targets)) + rng.normal(size=(n, n_targets))
    return X, y[:, 0] if n_targets == 1 else y


def cut(values, size=250):
    return da.from_array(values, chunks=(size, *values.shape[1:]))


SETTINGS = [
    {},
    {"fit_intercept": False},
    {"standardize": False, "alphas": [1e3, 1.0]},
]


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_sums_give_the_local_exact_fit(client, setting, n_targets):
    X, y = rows(n_targets=n_targets)
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    local = tunefree.RidgePathRegressor(solver="exact", **setting).fit(X, y, weights)
    there = tfd.DaskRidgePathRegressor(**setting).fit(cut(X), cut(y), cut(weights))
    assert there.solver_ == "exact"
    np.testing.assert_allclose(there.alphas_, local.alphas_, rtol=1e-10)
    np.testing.assert_allclose(there.validation_scores_, local.validation_scores_, rtol=1e-8)
    assert there.alpha_ == pytest.approx(local.alpha_, rel=1e-12)
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(there.intercept_, local.intercept_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(there.coefs_, local.coefs_, rtol=1e-7, atol=1e-8)


def test_sparse_rows_are_solved_like_dense_ones(client):
    X, y = rows(400)
    X[np.abs(X) < 2.0] = 0.0
    pieces = cut(X, 100).map_blocks(sparse.csr_array, dtype=float)
    there = tfd.DaskRidgePathRegressor().fit(pieces, cut(y, 100))
    local = tunefree.RidgePathRegressor(solver="exact").fit(X, y)
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=1e-10, atol=1e-10)


def test_one_partition_is_the_local_run(client):
    X, y = rows()
    setting = {"solver": "sgd", "max_iter": 3, "random_state": 0}
    local = tunefree.RidgePathRegressor(**setting).fit(X, y)
    there = tfd.DaskRidgePathRegressor(**setting).fit(cut(X, 900), cut(y, 900))
    np.testing.assert_allclose(there.validation_scores_, local.validation_scores_, rtol=1e-9)
    np.testing.assert_allclose(there.coefs_, local.coefs_, rtol=1e-8, atol=1e-10)
    assert there.alpha_ == local.alpha_
    assert there.average_ == local.average_


@pytest.mark.parametrize("average", ["auto", Tail(0.5)], ids=["auto", "tail"])
@pytest.mark.parametrize("store", ["dense", "sparse"])
def test_averaged_runs_predict_nearly_as_well_as_one(client, average, store):
    X, y = rows(3000, seed=2)
    X_new, y_new, X, y = X[2000:], y[2000:], X[:2000], y[:2000]
    setting = {"average": average, "solver": "sgd", "random_state": 0}
    alone = tunefree.RidgePathRegressor(**setting)
    pieces = cut(X, 500)
    if store == "sparse":
        pieces = pieces.map_blocks(sparse.csr_array, dtype=float)
        alone.fit(sparse.csr_array(X), y)
    else:
        alone.fit(X, y)
    there = tfd.DaskRidgePathRegressor(**setting).fit(pieces, cut(y, 500))
    assert there.score(X_new, y_new) > alone.score(X_new, y_new) - 0.02
    assert there.coefs_.shape == (50, 8)


def test_a_path_too_long_to_keep_is_not_sent(client, monkeypatch):
    X, y = rows(500)
    setting = {"solver": "sgd", "max_iter": 2, "random_state": 0}
    whole = tfd.DaskRidgePathRegressor(**setting).fit(cut(X), cut(y))
    monkeypatch.setattr("tunefree.ridge_path.estimators.MOST_KEPT", 10)
    one = tfd.DaskRidgePathRegressor(**setting).fit(cut(X), cut(y))
    np.testing.assert_allclose(one.coef_, whole.coef_, rtol=1e-9)
    assert not hasattr(one, "coefs_")


MODELS = {
    "BoostedTreesClassifier": [{}],
    "BoostedTreesRegressor": [{}],
    "RidgePathRegressor": [{}, {"solver": "sgd", "max_iter": 2}],
    "GLMClassifier": [{"max_iter": 5}],
    "GLMRegressor": [{"max_iter": 5, "family": "gaussian"}],
    "KernelRidgeClassifier": [{}],
    "KernelRidgeRegressor": [{}],
    "OptimisticPerceptron": [{"max_iter": 5}],
    "ReflectronClassifier": [{"max_iter": 5}],
    "ReflectronRegressor": [{"max_iter": 5, "link": "identity"}],
    "TuneFreeClassifier": [{"candidates": ("linear",)}],
    "TuneFreeRegressor": [{"candidates": ("linear",)}],
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name, setting", [(name, s) for name, listed in MODELS.items() for s in listed]
)
def test_local_models_are_saved_and_loaded(client, tmp_path, name, setting):
    X, y = rows(300, 3)
    regression = name.endswith("Regressor")
    y = y if regression else np.array(["no", "yes"])[(y > np.median(y)) * 1]
    model = getattr(tfd, f"Dask{name}")(**setting).fit(cut(X, 150), cut(y, 150))
    local = model.to_local()
    assert type(local) is estimator_class(name)
    save_model(local, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.predict(X).tolist() == model.predict(X).tolist() == local.predict(X).tolist()


def test_all_models_are_saved():
    assert {f"Dask{name}" for name in MODELS} == set(tfd.__all__)
