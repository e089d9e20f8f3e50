"""DynamicsReflectron: recovery, masks, continuous time, simulation, model files."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

import tunefree
from papers.datasets import make_low_rank_dynamics
from tunefree.reflectron import DynamicsReflectron
from tunefree.reflectron.constraints import NuclearBall, SchattenBall
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm, Spectral

LOW = Spectral(Hypentropy(1e-4))


def _model(**options):
    options = {"rho": 0.9, "potential": LOW, "max_iter": 150, "random_state": 0} | options
    return DynamicsReflectron(**options)


@pytest.mark.filterwarnings("ignore:400 passes were not enough")
@pytest.mark.parametrize("d, seed", [(10, 0), (24, 0), (24, 1)])
def test_figure_1f_spectral_geometries_are_below_glm_tron_with_a_nuclear_ball(d, seed):
    """2021, section 6.2, small: each with its ball of twice the true norm."""
    trajectories, theta = make_low_rank_dynamics(130, d, 1, random_state=seed)
    X = trajectories[30:, :-1].reshape(-1, d)
    s = np.linalg.svd(theta, compute_uv=False)
    nuclear, schatten = NuclearBall(2.0 * s.sum()), SchattenBall(1.1, 2.0 * s[0])
    excess = []
    for potential, ball in ((Euclidean(), nuclear), (Spectral(PNorm(1.1)), schatten),
                            (LOW, nuclear)):  # fmt: skip
        model = _model(potential=potential, constraint=ball, max_iter=400).fit(trajectories[:30])
        excess.append(np.mean((expit(X @ model.coef_.T) - expit(X @ theta.T)) ** 2))
    assert max(excess[1:]) < excess[0]


def test_rank_and_matrix_are_recovered():
    trajectories, theta = make_low_rank_dynamics(200, 12, 2, random_state=1)
    model = DynamicsReflectron(rho=0.9, max_iter=200, random_state=0).fit(trajectories)
    assert model.rank_ == 2 and len(model.spectrum_) == 12
    assert np.linalg.norm(model.coef_ - theta) < 0.1 * np.linalg.norm(theta)
    assert {"risk", "potential"} <= model.leaderboard_[0].keys()
    assert len(model.leaderboard_) == 5


def test_a_risk_that_still_falls_at_the_last_pass_is_told():
    trajectories, _ = make_low_rank_dynamics(60, 12, 1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="30 passes were not enough .* it fell by"):
        _model(max_iter=30).fit(trajectories)


@pytest.mark.parametrize("potential", [Spectral(PNorm(1.1)), LOW], ids=["p-norm", "hypentropy"])
@pytest.mark.parametrize("n, d", [(15, 8), (30, 24)])
def test_chains_find_the_risk_of_the_plain_path_in_a_third_of_the_passes(potential, n, d):
    trajectories, theta = make_low_rank_dynamics(n + 130, d, 1, random_state=1)
    X = trajectories[n:, :-1].reshape(-1, d)
    fits = {}
    for step, most in (("auto", 1000), ("plain", 5000)):
        model = _model(potential=potential, step=step, max_iter=most).fit(trajectories[:n])
        held = model.trace_["held_risk"][:, 0]
        excess = np.mean((expit(X @ model.coef_.T) - expit(X @ theta.T)) ** 2)
        fits[step] = held, excess
    (held, excess), (plain, other) = fits["auto"], fits["plain"]
    assert held.min() < 1.01 * plain.min()
    assert excess < 1.25 * other  # the hold-out curves are flat there
    reached = np.argmax(held < 1.01 * plain.min())
    assert 3 * reached < np.argmax(plain < 1.01 * plain.min())


def test_rho_is_estimated():
    trajectories, theta = make_low_rank_dynamics(60, 8, 1, rho=0.6, random_state=2)
    model = _model(rho=None).fit(trajectories)
    assert model.rho_ == pytest.approx(0.6, abs=0.08)
    assert model.rho is None


# --- Forms of trajectories -----------------------------------------------------------------------


def test_one_long_trajectory_a_stack_and_a_list_are_the_same():
    (x,), _ = make_low_rank_dynamics(1, 6, 1, n_steps=120, random_state=3)
    models = [_model().fit(form) for form in (x, x[None], [x], (x,))]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


@pytest.mark.parametrize("dt", [None, 0.1])
def test_masked_states_are_as_if_they_had_not_been_there(dt):
    trajectories, _ = make_low_rank_dynamics(20, 5, 1, n_steps=9, random_state=4)
    mask = np.ones((20, 10), dtype=bool)
    mask[:, 4] = False
    mask[3] = False
    gaps = trajectories.copy()
    gaps[~mask] = np.nan
    kept = np.delete(trajectories, 3, axis=0)
    pieces = [x[a] for x in kept for a in (slice(0, 4), slice(5, 10))]
    # By pairs held out: pieces of a trajectory are one trajectory to the default.
    of_pairs = {"dt": dt, "validation_fraction": 0.2}
    one = _model(**of_pairs).fit(gaps, mask=mask)
    other = _model(**of_pairs).fit(pieces)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    ragged = _model(**of_pairs).fit(list(gaps), mask=list(mask))
    np.testing.assert_array_equal(one.coef_, ragged.coef_)


@pytest.mark.parametrize("n_draws", [1, 3])
def test_whole_trajectories_choose_when_to_stop(n_draws):
    """Held-out pairs of known trajectories stop too early."""
    excesses = []
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=(15, 1)) @ rng.normal(size=(1, 15)) / np.sqrt(15)
        states = [rng.uniform(-1, 1, (230, 15))]
        for _ in range(5):
            noise = 0.1 * rng.uniform(-1, 1, (230, 15))
            states.append(0.9 * states[-1] + expit(states[-1] @ theta.T) + noise)
        x = np.stack(states, axis=1)
        new = x[30:, :-1].reshape(-1, 15)
        for options in ({}, {"validation_fraction": 0.2}):  # trajectories, and pairs
            model = _model(potential=Spectral(Hypentropy(1e-6)), max_iter="auto", **options)
            gap = expit(new @ model.fit(x[:30]).coef_.T) - expit(new @ theta.T)
            excesses.append(np.mean(np.square(gap)))
    assert np.sum(excesses[::2]) < 0.95 * np.sum(excesses[1::2])


def test_the_order_of_trajectories_does_not_matter_and_float32_stays():
    trajectories, _ = make_low_rank_dynamics(40, 5, 1, random_state=5)
    one, other = _model().fit(trajectories), _model().fit(trajectories[::-1])
    np.testing.assert_array_equal(one.coef_, other.coef_)
    small = _model().fit(trajectories.astype(np.float32))
    assert small.coef_.dtype == small.predict(trajectories[0].astype(np.float32)).dtype == "float32"
    x = trajectories[:, 0]
    assert np.allclose(small.predict(x.astype(np.float32)), one.predict(x), atol=0.05)


# --- Prediction ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [6, 15])
def test_continuous_time_by_central_differences(n):
    rng = np.random.default_rng(6)
    theta, times = np.outer(rng.standard_normal(4), rng.standard_normal(4)), np.arange(61) * 0.05

    def field(t, x):
        return -0.5 * x + np.tanh(theta @ x)

    trajectories = np.array([
        solve_ivp(field, (0.0, 3.0), x, t_eval=times, rtol=1e-10, atol=1e-12).y.T
        for x in rng.uniform(-2.0, 2.0, (n, 4))
    ])  # fmt: skip
    model = _model(rho=-0.5, link="tanh", dt=0.05, potential=Spectral(Hypentropy(1e-2)),
                   max_iter=1000, patience=300).fit(trajectories)  # fmt: skip
    assert np.linalg.norm(model.coef_ - theta) < 0.05 * np.linalg.norm(theta)
    ahead = model.predict(trajectories[:, 0])
    assert np.abs(ahead - trajectories[:, 1]).max() < 5e-3
    whole = model.simulate(trajectories[:, 0], 60)
    assert np.sqrt(np.mean((whole - trajectories) ** 2)) < 0.05


def test_simulation_repeats_prediction():
    trajectories, _ = make_low_rank_dynamics(40, 5, 1, random_state=7)
    model = _model(fit_intercept=True).fit(trajectories)
    x = trajectories[:3, 0]
    states = model.simulate(x, 4)
    assert states.shape == (3, 5, 5)
    np.testing.assert_array_equal(states[:, 0], x)
    for t in range(4):
        np.testing.assert_allclose(states[:, t + 1], model.predict(states[:, t]), rtol=1e-14)
    np.testing.assert_allclose(model.simulate(x[1], 4), states[1], rtol=1e-14)
    expected = 0.9 * x + expit(x @ model.coef_.T + model.intercept_)
    assert np.allclose(model.predict(x), expected, rtol=1e-12)
    assert model.intercept_.any()


def test_a_model_file_brings_the_system_back(tmp_path):
    trajectories, _ = make_low_rank_dynamics(30, 5, 1, random_state=8)
    model = _model(dt=0.5).fit(trajectories)
    tunefree.save_model(model, tmp_path / "model")
    again = tunefree.load_model(tmp_path / "model")
    np.testing.assert_array_equal(
        again.simulate(trajectories[0, 0], 5), model.simulate(trajectories[0, 0], 5)
    )
    assert again.potential_ == LOW and again.rank_ == model.rank_


@pytest.mark.parametrize(
    "options, states, message",
    [
        ({"rho": np.nan}, None, "rho=nan is neither"),
        ({"dt": -1.0}, None, "dt=-1.0 is neither None nor a positive number"),
        ({"validation_fraction": 1.0}, None, r"nor in \[0, 1\)"),
        ({"patience": 1.5}, None, "patience=1.5 is not a positive integer"),
        ({"link": "cosine"}, None, "link='cosine' is none of"),
        ({"constraint": NuclearBall(1.0), "potential": PNorm(1.1)}, None, "no rule to project"),
        ({}, np.ones((1, 3)), "minimum of 2"),
        ({"dt": 0.1}, np.ones((9, 2, 3)), "no 3 successive states"),
        ({}, np.full((5, 4, 3), np.inf), "infinity"),
        ({}, [np.ones((3, 2)), np.ones((3, 4))], "must match exactly"),
    ],
)
def test_bad_input_is_named_and_leaves_the_model_as_it_was(options, states, message):
    trajectories, _ = make_low_rank_dynamics(20, 3, 1, random_state=9)
    model = _model().fit(trajectories)
    before = model.coef_.copy()
    model.set_params(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(trajectories if states is None else states)
    np.testing.assert_array_equal(model.coef_, before)


def test_bad_masks_and_starts_are_refused():
    trajectories, _ = make_low_rank_dynamics(20, 3, 1, random_state=9)
    with pytest.raises(ValueError, match="one bool for each of the 120 states"):
        _model().fit(trajectories, mask=np.ones((20, 5), dtype=bool))
    gaps = trajectories.copy()
    gaps[0, 0] = np.nan
    with pytest.raises(ValueError, match="mask marks as observed"):
        _model().fit(gaps, mask=np.ones((20, 6), dtype=bool))
    with pytest.raises(ValueError, match="no 2 successive"):
        _model().fit(trajectories, mask=np.zeros((20, 6), dtype=bool))
    with pytest.raises(ValueError, match="steps=-1"):
        _model().fit(trajectories).simulate(trajectories[0, 0], -1)
