"""Explanations of stacks and of trees: what columns add to the score, and which pairs interact."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from tunefree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    TuneFreeClassifier,
    TuneFreeRegressor,
    load_model,
    save_model,
)

pytestmark = pytest.mark.filterwarnings("ignore::tunefree.DataWarning")


def gap(found):
    """How far base and values are from adding up to the score."""
    return np.abs(found.base_value + found.values.sum(axis=1) - found.score).max()


@pytest.mark.parametrize("kind", ["linear", "trees", "kernel"])
@pytest.mark.parametrize("data", [load_diabetes, load_breast_cancer, load_wine])
def test_values_add_up_to_the_score(data, kind):
    X, y = data(return_X_y=True)
    made = TuneFreeRegressor if data is load_diabetes else TuneFreeClassifier
    model = made(candidates=(kind,), random_state=0).fit(X, y)
    found = model.explain(X[:40])
    assert gap(found) < 1e-8
    assert (found.std_error is None) == (kind != "kernel")
    assert found.values.shape[:2] == (40, X.shape[1])
    if made is TuneFreeRegressor:
        limits = model.prediction_limits_
        predicted = np.clip(found.score, limits[0][0], limits[1][0])
        np.testing.assert_allclose(predicted, model.predict(X[:40]), atol=1e-8)
    elif model.calibration_ is None:
        np.testing.assert_allclose(found.score, model.decision_function(X[:40]), atol=1e-8)


def test_linear_stacks_have_the_values_of_their_coefficients():
    X, y = load_diabetes(return_X_y=True)
    from tunefree import RidgePathRegressor

    model = TuneFreeRegressor(candidates=("linear",), random_state=0).fit(X, y)
    ridge = RidgePathRegressor(random_state=0).fit(X, y)
    model.models_, model.views_, model.weights_ = [ridge], [()], np.array([1.0])
    model.offsets_ = np.zeros(1)
    centred = X[:9] - model.background_.mean(axis=0)
    np.testing.assert_allclose(model.explain(X[:9]).values, centred * ridge.coef_, atol=1e-9)


def mixed_table(n=400, seed=0):
    """A table of numbers with gaps, and of categories, with a target."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": random.normal(50, 10, n),
            "city": random.choice(["Bonn", "Kiel", "Rome"], n),
            "noise": random.normal(size=n),
        }
    )
    target = frame["age"] * (frame["city"] == "Rome") + random.normal(size=n)
    frame.loc[::9, "age"] = np.nan
    return frame, target.to_numpy()


@pytest.mark.parametrize("kind", ["linear", "trees", "kernel", "all"])
def test_columns_of_a_table_are_the_columns_of_the_user(kind, tmp_path):
    frame, target = mixed_table()
    kinds = kind if kind == "all" else (kind,)
    model = TuneFreeRegressor(candidates=kinds, random_state=0).fit(frame, target)
    found = model.explain(frame[:30])
    assert found.feature_names == ["age", "city", "noise"]
    assert found.values.shape == (30, 3)
    assert gap(found) < 1e-8
    assert np.abs(found.values[:, 2]).mean() < 0.1 * np.abs(found.values[:, 1]).mean()
    if kind != "linear":
        assert model.interactions(1)[0].columns == ("age", "city")
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model").explain(frame[:30])
    np.testing.assert_array_equal(again.values, found.values)


@pytest.mark.parametrize("data", [load_diabetes, load_wine])
def test_kernels_that_are_products_have_the_values_of_any_function(data, monkeypatch):
    X, y = data(return_X_y=True)
    X[:, 1] = np.round(X[:, 1])
    made = TuneFreeRegressor if data is load_diabetes else TuneFreeClassifier
    model = made(candidates=("kernel",), random_state=0).fit(X, y)
    fast = model.explain(X[:20])
    monkeypatch.setattr("tunefree.base.shapley.FACTORS", 0)
    slow = model.explain(X[:20])
    size = np.abs(slow.values).max()
    np.testing.assert_allclose(fast.values, slow.values, atol=1e-5 * size)
    np.testing.assert_allclose(fast.std_error, slow.std_error, atol=1e-5 * size)
    np.testing.assert_array_equal(fast.base_value, slow.base_value)


def test_explanations_do_not_depend_on_the_order_of_training_rows_or_on_threads():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:200], y[:200]
    order = np.random.default_rng(0).permutation(len(X))
    one = TuneFreeRegressor(random_state=0, n_jobs=1).fit(X, y)
    two = TuneFreeRegressor(random_state=0, n_jobs=2).fit(X[order], y[order])
    np.testing.assert_array_equal(one.background_, two.background_)
    np.testing.assert_array_equal(one.explain(X[:5]).values, two.explain(X[:5]).values)


def test_sparse_rows_have_the_values_of_dense_ones():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 8)) * (random.random((300, 8)) < 0.3)
    model = TuneFreeClassifier(candidates=("linear", "trees"), random_state=0)
    model.fit(sparse.csr_array(X), X[:, 0] + X[:, 1] > 0)
    dense, rows = model.explain(X[:20]), model.explain(sparse.csr_array(X[:20]))
    np.testing.assert_allclose(dense.values, rows.values, atol=1e-12)
    assert gap(rows) < 1e-8


def test_float32_rows_add_up():
    X, y = load_diabetes(return_X_y=True)
    for kind in ("linear", "trees", "kernel"):
        model = TuneFreeRegressor(candidates=(kind,), random_state=0)
        model.fit(X[:200].astype("f"), y[:200])
        found = model.explain(X[:20].astype("f"))
        assert gap(found) < 1e-8
        np.testing.assert_allclose(found.score, model.predict(X[:20].astype("f")), rtol=1e-3)


def test_several_targets_and_positive_means():
    X, y = load_diabetes(return_X_y=True)
    both = TuneFreeRegressor(candidates=("linear",), random_state=0)
    found = both.fit(X[:200], np.column_stack([y, X[:, 0]])[:200]).explain(X[:7])
    assert found.values.shape == (7, 10, 2)
    assert gap(found) < 1e-8
    means = TuneFreeRegressor(candidates=("trees",), loss="gamma", random_state=0)
    found = means.fit(X[:200], y[:200]).explain(X[:7])
    assert found.std_error is not None
    assert gap(found) < 1e-8


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "quantile"])
def test_trees_explain_their_scores(loss, tmp_path):
    X, y = load_diabetes(return_X_y=True)
    X[::7, 2] = np.nan
    model = BoostedTreesRegressor(loss=loss, random_state=0).fit(X, y)
    found = model.explain(X[:30])
    assert gap(found) < 1e-8
    assert found.std_error is None
    score = np.log(model.predict(X[:30])) if loss == "poisson" else model.predict(X[:30])
    np.testing.assert_allclose(found.score, score, atol=1e-8)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.explain(X[:30]).values, found.values)
    again.background_ = again.background_[:3]
    with pytest.raises(ValueError, match="inconsistent"):
        again.explain(X[:30])


def test_trees_find_the_pair_of_an_exclusive_or():
    X = np.random.default_rng(0).normal(size=(1000, 5))
    model = BoostedTreesClassifier(random_state=0).fit(X, (X[:, 1] > 0) ^ (X[:, 3] > 0))
    first, second, *_ = model.interactions()
    assert first.columns == ("x1", "x3")
    assert first.strength - 3.0 * first.std_error > 3.0 * second.strength
    assert gap(model.explain(X)) < 1e-8


def test_wide_tables_are_refused_by_name():
    X = sparse.random_array((60, 2001), density=0.01, rng=np.random.default_rng(0), format="csr")
    y = np.arange(60) % 2
    model = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="at most 2000 columns"):
        model.explain(X)
