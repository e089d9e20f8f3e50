"""The Reflectron's estimators with solver='flow' and 'natural-flow'."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from tunefree import ReflectronClassifier, ReflectronRegressor
from tunefree.constraints import L1Ball
from tunefree.potentials import Euclidean, Hypentropy, Power

FLOWS = ["flow", "natural-flow"]


def _data(n=150, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X, theta = rng.uniform(-1, 1, (n + 500, d)), np.zeros(d)
    theta[:3] = [2.0, -2.0, 1.0]
    mean = expit(X @ theta)
    return X[:n], mean[:n] + 0.1 * rng.uniform(-1, 1, n), X[n:], mean[n:]


@pytest.mark.parametrize("solver", FLOWS)
def test_the_flow_predicts_like_the_batch_iteration(solver):
    X, y, X_test, mean = _data()
    options = {"potential": [Euclidean(), Hypentropy(1e-2)], "random_state": 0, "n_splits": 2}
    flow = ReflectronRegressor(solver=solver, **{"link": "logit", **options}).fit(X, y)
    batch = ReflectronRegressor(**{"link": "logit", **options}).fit(X, y)
    risks = [np.mean((m.predict(X_test) - mean) ** 2) for m in (flow, batch)]
    assert risks[0] <= 1.5 * risks[1]
    assert flow.leaderboard_[0]["risk"] <= 1.02 * batch.leaderboard_[0]["risk"]
    assert flow.potential_ == batch.potential_
    assert flow.trace_["held_risk"].min() == flow.leaderboard_[0]["risk"]
    assert flow.trace_["time"].shape == flow.trace_["risk"].shape


def test_without_rows_held_out_it_ends_at_the_fit_of_the_batch_iteration():
    X, y, _, _ = _data(d=5)
    options = {"potential": "euclidean", "validation_fraction": 0.0, "max_iter": 5000}
    flow = ReflectronRegressor(solver="flow", **{"link": "logit", **options}).fit(X, y)
    batch = ReflectronRegressor(tol=1e-12, patience=500, **{"link": "logit", **options}).fit(X, y)
    assert np.allclose(flow.coef_, batch.coef_, atol=1e-4)
    assert np.allclose(flow.intercept_, batch.intercept_, atol=1e-4)


def test_the_rows_given_to_choose_by_are_used():
    X, y, X_test, mean = _data(60, 40)
    model = ReflectronRegressor("logit", solver="flow", potential=Hypentropy(1e-3))
    model.fit(X, y, X_val=X_test, y_val=mean)
    risk = np.mean((model.predict(X_test) - mean) ** 2)
    assert risk == pytest.approx(model.leaderboard_[0]["risk"], rel=1e-3)


def test_weights_are_repetitions_and_storage_does_not_matter():
    X, y, _, _ = _data(60, 6)
    weights = np.arange(60) % 3
    model = ReflectronRegressor(
        "logit", solver="flow", potential="euclidean", n_splits=1, max_iter=200, random_state=0
    )
    one = model.fit(X, y, sample_weight=weights).coef_
    other = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).coef_
    assert np.allclose(one, other, rtol=1e-10)
    assert np.allclose(model.fit(sparse.csr_array(X), y).coef_, model.fit(X, y).coef_, rtol=1e-4)


def test_several_classes_by_the_natural_flow_of_a_power():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 4))
    y = np.argmax(X[:, :3], axis=1)
    model = ReflectronClassifier(solver="natural-flow", potential=Power(1.5), random_state=0)
    assert model.fit(X[:150], y[:150]).score(X[150:], y[150:]) > 0.85


@pytest.mark.parametrize(
    "options, message",
    [
        ({"constraint": L1Ball(1.0)}, "has no constraint="),
        ({"step": 0.1}, "has no step="),
        ({"keep_path": True}, "has no keep_path="),
        ({"solver": "euler"}, "none of batch, stochastic, flow, natural-flow"),
    ],
)
def test_what_a_flow_does_not_have_is_refused(options, message):
    X, y, _, _ = _data(30, 4)
    options = {"solver": "flow", "potential": "euclidean"} | options
    with pytest.raises(ValueError, match=message):
        ReflectronRegressor(**{"link": "logit", **options}).fit(X, y)
