"""SharedReflectron: forms of A(x), the unshared case, hold-out by sample."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import tunefree
from hidden import with_settings
from tunefree import ReflectronRegressor
from tunefree.parts.families import Matching
from tunefree.parts.links import LINKS, Logit
from tunefree.reflectron import SharedReflectron, flow
from tunefree.reflectron.descent import Settings, Setup, Training, descend, pose
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm
from tunefree.reflectron.shared import Equations


def windows(x, width=6):
    """A filter slides over a row."""
    return np.lib.stride_tricks.sliding_window_view(x, width)


def _signals(n=120, d=20, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X, taps = rng.standard_normal((n, d)), np.array([0.0, 1.5, -1.0, 0.0, 0.0, 0.5])
    mean = Logit().mean(np.array([windows(x) @ taps for x in X]))
    return X, mean + noise * rng.uniform(-1, 1, mean.shape), taps, mean


def test_a_filter_is_found():
    X, y, taps, mean = _signals()
    potential = [Euclidean(), Hypentropy(1e-2)]
    model = SharedReflectron(windows, potential=potential, random_state=0, n_splits=1)
    model.fit(X[:80], y[:80])
    assert model.coef_.shape == (6,) and model.n_outputs_ == 15
    assert np.abs(model.coef_ - taps).max() < 0.08
    assert np.mean((model.predict(X[80:]) - mean[80:]) ** 2) < 5e-4
    assert {"risk", "potential"} <= model.leaderboard_[0].keys()


def test_all_forms_of_the_matrices_give_the_same_fit():
    X, y, _, _ = _signals(40)
    A = np.array([windows(x) for x in X])
    options = {"potential": Hypentropy(1e-2), "random_state": 0, "n_splits": 1, "max_iter": 200}
    models = [
        SharedReflectron(windows, **options).fit(X, y),
        SharedReflectron(windows, **options).fit(sparse.csr_array(X), y),
        SharedReflectron(**options).fit(A, y),
        SharedReflectron(**options).fit(list(A), y),
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
    csr = [sparse.csr_array(a) for a in A]
    model = SharedReflectron(**options).fit(csr, y)
    assert np.allclose(model.coef_, models[0].coef_, rtol=1e-4)
    assert np.allclose(model.predict(csr), models[0].predict(X), rtol=1e-3)


def test_without_rows_held_out_it_minimises_the_matching_loss():
    X, y, _, _ = _signals(60, noise=0.3)
    A = np.array([windows(x) for x in X])
    options = {"potential": "euclidean", "validation_fraction": 0.0, "max_iter": 5000}
    batch = SharedReflectron(tol=1e-12, patience=500, **options).fit(A, y)
    follow = flow(A, y, potential="euclidean", horizon=1e5, until="stationary")
    loss = minimize(
        lambda t: np.mean(np.sum(Logit().matching(A @ t) - y * (A @ t), axis=1)), np.zeros(6)
    )
    assert np.allclose(batch.coef_, loss.x, atol=1e-4)
    assert np.allclose(follow.at(follow.times[-1])[0][0], loss.x, atol=1e-4)


@pytest.mark.parametrize("potential", [PNorm(1.5), Hypentropy(0.1)], ids=repr)
def test_the_batch_form_ends_where_the_flow_ends(potential):
    """Theorem 4.1 of 2020 for the iteration: on data that can be fitted exactly its limit is the
    flow's, the point nearest to the start."""
    X, _, _, mean = _signals(1, 22, seed=3)
    A = np.array([windows(X[0], 20)])  # 3 equations, 20 unknowns
    y = mean[:, :3]
    model = SharedReflectron(potential=potential, validation_fraction=0.0, max_iter=20_000,
                             tol=1e-14, patience=5000, standardize=False).fit(A, y)  # fmt: skip
    path = flow(A, y, potential=potential, horizon=1e5, method="LSODA", until="stationary",
                rtol=1e-9)  # fmt: skip
    end = path.at(path.times[-1])[0][0]
    assert path.ended == "stationary"
    assert np.linalg.norm(model.coef_ - end) < 1e-3 * np.linalg.norm(end)
    assert np.allclose(model.predict(A), y, atol=1e-5)


def test_one_output_is_the_reflectron_without_intercept():
    X, y, _, _ = _signals(200, 6)
    options = {"fit_intercept": False, "random_state": 0, "potential": [PNorm(1.1), Euclidean()]}
    plain = ReflectronRegressor(**{"link": "logit", **options}).fit(X, y[:, 0])
    del options["fit_intercept"]
    shared = SharedReflectron(**options).fit(X, y[:, 0])
    np.testing.assert_array_equal(shared.coef_, plain.coef_)
    np.testing.assert_array_equal(shared.predict(X), plain.predict(X))
    assert shared.leaderboard_ == plain.leaderboard_


def test_block_diagonal_matrices_are_the_unshared_model():
    rng = np.random.default_rng(1)
    X, Y = rng.uniform(-1, 1, (80, 5)), rng.uniform(0, 1, (80, 3))
    options = {"potential": Hypentropy(0.1), "random_state": 0, "standardize": False, "step": 0.5,
               "max_iter": 60, "validation_fraction": 0.0}  # fmt: skip
    with pytest.warns(UserWarning, match="passes were not enough"):
        apart = with_settings(ReflectronRegressor, link="logit", fit_intercept=False, **options)
        apart.fit(X, Y)
    with pytest.warns(UserWarning, match="passes were not enough"):
        shared = SharedReflectron(lambda x: np.kron(np.eye(3), x), **options).fit(X, Y)
    assert np.allclose(shared.coef_.reshape(3, 5), apart.coef_, rtol=1e-9)
    assert shared.leaderboard_[0]["risk"] == pytest.approx(apart.leaderboard_[0]["risk"], rel=1e-9)


def test_samples_are_held_out_whole():
    """Copies of one equation in every sample would otherwise be seen and measured."""
    X, y, _, _ = _signals(60)
    A = np.array([windows(x) for x in X]).reshape(60, -1)
    settings = Settings(potential="euclidean", random_state=0, fit_intercept=False, max_iter=3)
    setup = Setup.of((Matching(), LINKS["logit"]), settings, samples=Equations(15))
    _, found = descend(pose(setup, Training(A, y, np.ones(60))))
    held = found.batch.held.reshape(60, 15)
    assert (held == held[:, :1]).all() and len(np.unique(held)) > 2


def test_weights_are_repetitions_and_float32_stays():
    X, y, _, _ = _signals(30)
    weights = np.arange(30) % 3
    model = SharedReflectron(windows, potential="euclidean", random_state=0, n_splits=1)
    one = model.fit(X, y, sample_weight=weights).coef_
    other = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0)).coef_
    assert np.allclose(one, other, rtol=1e-10)
    small = model.fit(X.astype(np.float32), y)
    assert small.coef_.dtype == small.predict(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    "options, X, y, message",
    [
        ({}, np.ones((4, 3, 2)), np.ones((4, 2)), "2 targets a sample, and the matrices 3 rows"),
        ({}, [np.ones((3, 2)), np.ones((2, 2))], np.ones((2, 3)), "all of one shape"),
        ({}, np.full((4, 3, 2), np.nan), np.ones((4, 3)), "NaN"),
        ({"matrices": 3}, np.ones((4, 3)), np.ones(4), "neither None nor a function"),
        ({"matrices": lambda x: x}, np.ones((4, 3)), np.ones(4), "function of a row"),
        ({}, np.ones((4, 3, 2)), np.ones((3, 3)), "inconsistent numbers of samples"),
    ],
)
def test_bad_input_is_named(options, X, y, message):
    with pytest.raises(ValueError, match=message):
        SharedReflectron(**options).fit(X, y)


def test_other_matrices_at_prediction_are_refused():
    X, y, _, _ = _signals(30)
    model = SharedReflectron(potential="euclidean").fit(np.array([windows(x) for x in X]), y)
    with pytest.raises(ValueError, match=r"features|columns"):
        model.predict(np.ones((2, 15, 7)))
    with pytest.raises(ValueError, match="the fit had 15 and 6"):
        model.predict(np.ones((2, 6, 15)))


def test_a_model_file_brings_it_back(tmp_path):
    X, y, _, _ = _signals(30)
    A = np.array([windows(x) for x in X])
    model = SharedReflectron(potential=Hypentropy(1e-2), n_splits=1, max_iter=50).fit(A, y)
    tunefree.save_model(model, tmp_path / "model")
    again = tunefree.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(A), model.predict(A))
