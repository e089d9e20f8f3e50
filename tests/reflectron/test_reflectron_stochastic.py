"""The Reflectron's stochastic form, its streams, and features behind the estimators."""

import warnings
from functools import cache, partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from hidden import with_settings
from tunefree import (
    GLMClassifier,
    ReflectronClassifier,
    ReflectronRegressor,
    load_model,
    save_model,
)
from tunefree.kernels.kernels import RBF
from tunefree.parts.links import Logit
from tunefree.reflectron.constraints import (
    CONSTRAINTS,
    Bounds,
    Box,
    L1Ball,
    L2Ball,
    LpBall,
    NuclearBall,
    SchattenBall,
    Simplex,
)
from tunefree.reflectron.potentials import (
    POTENTIALS,
    Euclidean,
    Grouped,
    Hypentropy,
    PNorm,
    Spectral,
)


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [ReflectronRegressor("identity", potential="euclidean", solver="stochastic", max_iter=5),
     ReflectronClassifier(solver="stochastic", potential="hypentropy", max_iter=5)]
)  # fmt: skip
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def _problem(n=300, d=40, seed=0, outputs=1):
    rng = np.random.default_rng(seed)
    X, theta = rng.uniform(-1, 1, (n, d)), np.zeros((outputs, d))
    theta[:, :3] = 3.0 * rng.standard_normal((outputs, 3))
    mean = 1.0 / (1.0 + np.exp(-(X @ theta.T) - 0.5))
    y = mean + 0.1 * rng.uniform(-1, 1, mean.shape)
    return (X, y[:, 0], mean[:, 0]) if outputs == 1 else (X, y, mean)


def _walk(**parameters):
    return ReflectronRegressor(
        solver="stochastic", random_state=0, **{"link": "logit", **parameters}
    )


def test_passes_in_memory_come_near_the_batch_form():
    X, y, mean = _problem(1500)
    X, y, fresh, truth = X[:500], y[:500], X[500:], mean[500:]
    batch = ReflectronRegressor("logit", random_state=0).fit(X, y)
    errors = [np.mean((m.predict(fresh) - truth) ** 2) for m in (batch, _walk().fit(X, y))]
    assert errors[1] < 3.0 * errors[0] < 3e-3
    assert np.var(truth) > 0.05


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_repetitions(seed):
    rng = np.random.default_rng(seed)
    X, y, _ = _problem(30, 5, seed)
    weights = rng.integers(0, 4, 30)
    repeated = rng.permutation(np.repeat(np.arange(30), weights))
    a = _walk(max_iter=8).fit(X, y, sample_weight=weights)
    b = _walk(max_iter=8).fit(X[repeated], y[repeated])
    assert np.abs(a.coef_ - b.coef_).max() <= 1e-10


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize("constraint", [None, "non_negative", L1Ball(3.0)])
def test_a_streams_chunks_make_no_difference_to_the_last_bit(size, constraint):
    X, y, _ = _problem(1300)
    parameters = {"potential": ["euclidean", "hypentropy"], "batch_size": size, "step": [0.1, 1.0]}
    whole = _walk(constraint=constraint, **parameters).partial_fit(X, y)
    for rows in (7, 640):
        model = _walk(constraint=constraint, **parameters)
        for start in range(0, 1300, rows):
            model.partial_fit(X[start : start + rows], y[start : start + rows])
        np.testing.assert_array_equal(model.coef_, whole.coef_)
        assert model.leaderboard_ == whole.leaderboard_


def test_a_stream_chooses_potential_and_step_and_learns():
    X, y, mean = _problem(6000, 200)
    stream = _walk().partial_fit(X[:5000], y[:5000])
    error = np.mean((stream.predict(X[5000:]) - mean[5000:]) ** 2)
    assert error < 0.02 * np.var(mean)
    assert 1 <= len(stream.leaderboard_) <= 8
    assert isinstance(stream.potential_, Hypentropy)
    stored = _walk().partial_fit(sparse.csr_array(X[:5000]), y[:5000])
    assert np.allclose(stored.coef_, stream.coef_, rtol=1e-6, atol=1e-9)


def test_streams_of_labels_and_of_several_targets():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(np.tile(np.arange(150), 20))
    names = np.array(["a", "b", "c"])[y]
    model = GLMClassifier(potential="euclidean")
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for part in np.array_split(order, 10):
        model.partial_fit(Z[part], names[part], classes=["a", "b", "c"])
    assert model.score(Z, names) > 0.85
    assert np.allclose(model.predict_proba(Z).sum(axis=1), 1.0)
    X, y, mean = _problem(3000, 10, outputs=3)
    several = _walk().partial_fit(X, y)
    assert several.coef_.shape == (3, 10)
    assert np.mean((several.predict(X) - mean) ** 2) < 5e-3


def test_a_stream_goes_on_from_a_fit():
    X, y, _ = _problem(400)
    before = ReflectronRegressor("logit", random_state=0).fit(X, y)
    model = ReflectronRegressor("logit", random_state=0, step=1e-9, potential="euclidean").fit(X, y)
    model.coef_, model.intercept_ = before.coef_, before.intercept_
    model.partial_fit(X, y)
    assert np.allclose(model.coef_, before.coef_, atol=1e-6)
    lone = _walk(step=1e-9, potential="euclidean", average="last").fit(X, y)
    assert lone.n_iter_ < 20


def test_float32_streams_stay_in_float32():
    X, y, _ = _problem()
    model = _walk().partial_fit(X.astype(np.float32), y.astype(np.float32))
    assert model.coef_.dtype == model.predict(X.astype(np.float32)).dtype == np.float32


def test_a_model_file_keeps_the_stream(tmp_path):
    X, y, _ = _problem(200)
    model = _walk(potential=["euclidean", "hypentropy"]).partial_fit(X[:100], y[:100])
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    for one in (model, again):
        one.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(again.coef_, model.coef_)


# --- Features and kernels ------------------------------------------------------------------------


def _rings(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, (np.hypot(*X.T) < 0.75).astype(int)


@pytest.mark.parametrize("feature_map", ["rbf", RBF(2.0)], ids=["name", "kernel"])
@pytest.mark.parametrize("solver", ["batch", "stochastic"])
def test_features_make_rings_separable(feature_map, solver):
    X, y = _rings()
    fresh, labels = _rings(seed=1)
    model = ReflectronClassifier(feature_map=feature_map, solver=solver, random_state=0).fit(X, y)
    assert model.score(fresh, labels) > 0.9
    assert model.n_features_in_ == 2


def test_the_kernel_form_is_the_alphatron():
    """alpha <- alpha - step / n (u(K alpha) - y), from 0."""
    X, y = _rings(60)
    kernel, step, passes = RBF(1.5), 2.0, 25
    model = with_settings(
        ReflectronRegressor,
        link="logit", feature_map=kernel, step=step, max_iter=passes + 1, patience=1000,
        fit_intercept=False, standardize=False, validation_fraction=0.0, random_state=0,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="passes were not enough"):
        model.fit(X, y)
    K, alpha = kernel.gram(X, X), np.zeros(60)
    for _ in range(passes):
        alpha -= step / 60 * (Logit().mean(K @ alpha) - y)
    assert np.allclose(model.predict(X), Logit().mean(K @ alpha), atol=1e-7)
    fresh, _ = _rings(20, 3)
    expected = Logit().mean(kernel.gram(fresh, X) @ alpha)
    assert np.allclose(model.predict(fresh), expected, atol=1e-6)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"solver": "sgd"}, "none of auto, batch, stochastic"),
        ({"average": "mean"}, "average='mean' is none of"),
        ({"batch_size": 0}, "not a positive integer"),
        ({"feature_map": "gauss"}, "is none of rbf"),
        ({"feature_map": 3}, "feature_map=3 is none of rbf"),
        ({"feature_map": "rbf", "potential": "hypentropy"}, "needs potential='euclidean'"),
        ({"step": "long"}, "neither 'auto' nor a positive number"),
        ({"solver": "stochastic", "step": 1e300, "link": "identity", "potential": Euclidean()},
         "No step was finite"),
        ({"solver": "stochastic", "potential": PNorm(1.5), "constraint": L1Ball(0.0001)}, None),
        ({"solver": "stochastic", "potential": Euclidean(), "constraint": Box(0.0, 1.0)}, None),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_in_one_sentence(parameters, message):
    X, y, _ = _problem(50, 4)
    model = ReflectronRegressor(random_state=0, max_iter=5, **{"link": "logit", **parameters})
    if message is None:
        assert np.isfinite(model.fit(X, y).coef_).all()
        return
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_bad_streams_are_refused_and_change_nothing():
    X, y = load_breast_cancer(return_X_y=True)
    model = GLMClassifier()
    with pytest.raises(ValueError, match="only one class so far"):
        model.partial_fit(X, np.ones_like(y))
    with pytest.raises(ValueError, match="labels beyond"):
        model.partial_fit(X, y, classes=[1])
    model.partial_fit(X[:100], y[:100], classes=[0, 1])
    coef = model.coef_.copy()
    with pytest.raises(ValueError, match="labels beyond"):
        model.partial_fit(X, y + 5)
    with pytest.raises(ValueError, match="labels beyond"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X * np.nan, y)
    np.testing.assert_array_equal(model.coef_, coef)
    several = _walk().partial_fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="y has 1 targets"):
        several.partial_fit(X, y)
    with pytest.raises(ValueError, match="does not support feature_map"):
        ReflectronRegressor("logit", feature_map="rbf").partial_fit(X, y)


# --- The unit of a stream ------------------------------------------------------------------------


FREE = {
    "auto": {},
    "hypentropy": {"potential": "hypentropy", "link": "identity", "fit_intercept": False},
    "p_norm": {"potential": "p_norm"},
    "power": {"potential": "power"},
    "batches": {"potential": "hypentropy", "batch_size": 7},
    "fixed": {"potential": "euclidean", "step": 0.3},
}


@pytest.mark.parametrize("factor", [1e-8, 0.03, 1e3, 1e8])
@pytest.mark.parametrize("name", FREE)
def test_all_columns_times_one_factor_are_the_same_stream(name, factor):
    X, y, _ = _problem(600, 10)
    if FREE[name].get("link") == "identity":
        y = X[:, 0] - 2.0 * X[:, 1]
    plain = ReflectronRegressor(**{"link": "logit"} | FREE[name]).partial_fit(X, y)
    scaled = ReflectronRegressor(**{"link": "logit"} | FREE[name]).partial_fit(factor * X, y)
    assert np.allclose(scaled.predict(factor * X), plain.predict(X), rtol=1e-6, atol=1e-9)
    assert plain.score(X, y) > 0.3
    assert scaled.leaderboard_[0]["step"] == plain.leaderboard_[0]["step"]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("rows, empty", [(50, 0), (64, 3), (300, 80)])
def test_chunks_make_no_difference_while_the_unit_is_learned(form, rows, empty):
    """Few rows, first rows of zeros: to the last bit; the first rows are predicted from, too."""
    X, y, _ = _problem(rows, 6)
    X = 0.03 * X
    X[:empty] = 0.0
    parameters = {"potential": ["euclidean", "hypentropy"]}
    whole = ReflectronRegressor(**{"link": "logit", **parameters}).partial_fit(form(X), y)
    for size in (1, 7, 64):
        model = ReflectronRegressor(**{"link": "logit", **parameters})
        for start in range(0, rows, size):
            part = slice(start, start + size)
            model.partial_fit(form(X[part]), y[part])
            if start == 7:
                assert np.isfinite(model.predict(X)).all()
        np.testing.assert_array_equal(model.coef_, whole.coef_)
        np.testing.assert_array_equal(model.intercept_, whole.intercept_)


def test_without_units_of_columns_a_stream_is_learned_as_it_is():
    """Equation 9 in the user's units, and those of a constraint in any case."""
    X, y, _ = _problem(300, 5)
    X, w, b, step = 0.1 * X, np.zeros(5), 0.0, 2.0
    model = ReflectronRegressor(
        "logit", potential="euclidean", step=step, average="last", standardize=False
    ).partial_fit(X, y)
    for x, target in zip(X, y, strict=True):
        r = 1.0 / (1.0 + np.exp(-(w @ x + b))) - target
        w, b = w - step * r * x, b - step * r
    assert np.allclose(model.coef_, w, rtol=1e-9) and np.allclose(model.intercept_, b)
    within = ReflectronRegressor(
        "logit", potential="euclidean", constraint=L1Ball(0.5)
    ).partial_fit(X, y)
    free = ReflectronRegressor("logit", potential="euclidean").partial_fit(X, y)
    assert 0.2 < np.abs(within.coef_).sum() <= 0.5 * (1.0 + 1e-9) < np.abs(free.coef_).sum()


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_a_stream_that_diverged_predicts_the_mean_and_says_so(link):
    X, y, _ = _problem(400)
    y = 1e6 * y if link == "identity" else y
    step = 1e3 if link == "identity" else 1e308
    potential = PNorm(1.5) if link == "identity" else Hypentropy(1e-2)
    model = ReflectronRegressor(link, potential=potential, step=step, batch_size=2)
    with pytest.warns(ConvergenceWarning, match="diverged"):
        model.partial_fit(X, y)
        predicted = model.predict(X)
    assert np.allclose(predicted, y.mean(), rtol=1e-6)
    free = clone(model).set_params(fit_intercept=False)
    with pytest.warns(ConvergenceWarning, match="diverged"):
        assert not free.partial_fit(X, y).coef_.any()


@pytest.mark.parametrize("link", ["identity", "logit"])
@pytest.mark.parametrize(
    "potential",
    [Hypentropy(1.0), Hypentropy(1e2), Hypentropy(1e6), Spectral(Hypentropy(1e2)),
     Grouped(Hypentropy(1e2))],
)  # fmt: skip
def test_streams_learn_with_a_hypentropy_of_any_beta(link, potential):
    X, y, _ = _problem(1100, 60)
    y = y if link == "logit" else 0.3 + X[:, 0] - 0.5 * X[:, 1]
    stream = ReflectronRegressor(link, potential=potential).partial_fit(X, y)
    assert np.mean((stream.predict(X) - y) ** 2) < 0.15 * np.var(y)


def test_a_stream_that_the_mean_would_have_predicted_better_says_so():
    """Means within ends are never far off: coins, by steps that are far too long."""
    rng = np.random.default_rng(0)
    X, coins = rng.uniform(-1, 1, (2000, 10)), rng.integers(0, 2, 2000)
    ReflectronRegressor("logit").partial_fit(X, coins).predict(X)  # has nothing to say
    stream = ReflectronRegressor("logit", potential="euclidean", step=1e3)
    with pytest.warns(ConvergenceWarning, match="mean would have predicted this stream better"):
        stream.partial_fit(X, coins).predict(X)


def test_a_model_file_keeps_rows_that_wait_for_the_unit(tmp_path):
    X, y, _ = _problem(100, 6)
    for rows in (X, sparse.csr_array(X)):
        model = ReflectronRegressor("logit", potential="hypentropy").partial_fit(rows[:20], y[:20])
        save_model(model, tmp_path / "model")
        again = load_model(tmp_path / "model")
        for one in (model, again):
            one.partial_fit(rows[20:], y[20:])
        np.testing.assert_array_equal(again.coef_, model.coef_)


def test_late_classes_may_come_while_rows_wait():
    X, y = load_iris(return_X_y=True)
    order = np.r_[np.arange(0, 20), np.arange(50, 70), np.arange(100, 150), np.arange(20, 50)]
    X, y = (X - X.mean(axis=0))[order], y[order]
    announced = GLMClassifier().partial_fit(X, y, classes=[0, 1, 2])
    late = GLMClassifier().partial_fit(X[:39], y[:39])
    late.partial_fit(X[39:], y[39:])
    assert np.allclose(late.coef_, announced.coef_, rtol=1e-9, atol=1e-12)


# --- Several outputs -----------------------------------------------------------------------------


# Constraints that never bind; of the simplex that is for the entropy, which lives there.
LOOSE = {
    "l1": L1Ball(1e9), "l2": L2Ball(1e9), "lp": LpBall(1.5, 1e9), "box": Box(-1e9, 1e9),
    "bounds": Bounds(-1e9, 1e9), "nuclear": NuclearBall(1e9), "schatten": SchattenBall(1.5, 1e9),
    "simplex": Simplex(),
}  # fmt: skip


def _forms(**parameters):
    """Coefficients in every form of use, of rows whose unit is far from 1."""
    X, y, _ = _problem(80, 4, outputs=2)
    X = 30.0 * X
    given = {"link": "logit", "max_iter": 3, "random_state": 0, **parameters}
    make = partial(with_settings, ReflectronRegressor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {
            "fit": make(**given).fit(X, y).coef_,
            "passes": make(solver="stochastic", **given).fit(X, y).coef_,
            "stream": make(**given).partial_fit(X, y).coef_,
            "batches": make(batch_size=7, **given).partial_fit(X, y).coef_,
            "source": make(**given).fit_source((X, y)).coef_,
        }


@cache
def _free(potential, per_output):
    return _forms(potential=potential, per_output=per_output)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("potential", POTENTIALS)
def test_a_constraint_that_never_binds_changes_nothing(potential, constraint):
    if constraint not in LOOSE or (constraint == "simplex" and potential != "entropy"):
        return
    per_output = constraint == "lp"
    try:
        within = _forms(potential=potential, constraint=LOOSE[constraint], per_output=per_output)
    except ValueError as refused:
        assert "no rule to project" in str(refused)
        return
    for form, free in _free(potential, per_output).items():
        assert np.abs(within[form] - free).max() <= 1e-9 * np.abs(free).max(), form


def test_outputs_are_one_matrix_unless_each_is_on_its_own():
    X, y, _ = _problem(200, 10, outputs=2)
    parameters = {"potential": PNorm(1.2), "step": 0.2, "max_iter": 3, "validation_fraction": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = with_settings(ReflectronRegressor, link="logit", **parameters).fit(X, y).coef_
        each = (
            with_settings(ReflectronRegressor, per_output=True, **{"link": "logit", **parameters})
            .fit(X, y)
            .coef_
        )
        alone = [
            with_settings(ReflectronRegressor, link="logit", **parameters).fit(X, y[:, j]).coef_
            for j in range(2)
        ]
    assert np.allclose(each, alone, rtol=1e-9)
    assert np.abs(whole - alone).max() > 0.01


def test_per_output_streams_are_separate_models():
    X, y, _ = _problem(500, 10, outputs=2)
    parameters = {"potential": PNorm(1.2), "step": 0.2}
    each = (
        with_settings(ReflectronRegressor, per_output=True, **{"link": "logit", **parameters})
        .partial_fit(X, y)
        .coef_
    )
    for j in range(2):
        alone = ReflectronRegressor(**{"link": "logit", **parameters}).partial_fit(X, y[:, j]).coef_
        assert np.allclose(each[j], alone, rtol=1e-10)


def test_outputs_that_hang_together_must_be_known():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="announce all classes"):
        GLMClassifier(potential="p_norm").partial_fit(X, y)
    GLMClassifier(potential="p_norm").partial_fit(X, y, classes=[0, 1, 2])
    GLMClassifier(potential="p_norm", per_output=True).partial_fit(X, y)
