"""The Reflectron's flow: integrators, discretisations, the natural gradient, events."""

import numpy as np
import pytest
from scipy.integrate import DenseOutput, OdeSolver
from scipy.special import expit

from papers.stiff import IDENTITY, SOLVERS, implicit, jacobian
from tunefree.parts.links import Logit, Tanh
from tunefree.reflectron import flow
from tunefree.reflectron.flow_integrators import Flow, Sample
from tunefree.reflectron.mirror import Batch, Configuration, Mirror
from tunefree.reflectron.potentials import Entropy, Euclidean, Hypentropy, PNorm, Power, Spectral
from tunefree.rows.designs import Dense


def _rows(n=40, d=12, k=1, seed=0, noise=0.05):
    rng = np.random.default_rng(seed)
    X, theta = rng.uniform(-1, 1, (n, d)), np.zeros((k, d))
    theta[:, :3] = rng.standard_normal((k, 3))
    y = expit(X @ theta.T)
    return X, y + noise * rng.uniform(-1, 1, y.shape), theta


def _flow(X, y, potential, **options):
    return Flow(Sample(Dense(X), y, np.ones(len(X))), Logit(), potential, **options)


# --- Discretisations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "potential", [Euclidean(), PNorm(1.1), Hypentropy(1e-4), Power(1.5), Entropy(), Spectral()],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("intercept", [False, True])
def test_forward_euler_is_the_batch_iteration(potential, intercept):
    X, y, _ = _rows(k=3)
    step = 0.5 if isinstance(potential, Euclidean | PNorm | Power) else 0.05
    learner = Mirror(Logit(), (Configuration(potential, None, step),), intercept=intercept)
    state = learner.init(12, 3)
    field = _flow(X, y, potential, intercept=intercept)
    unknowns = field.start()
    for _ in range(20):
        state, _ = learner.turn(learner.scan(state, Batch(Dense(X), y, np.ones(40))))
        unknowns = unknowns + step * field.field(0.0, unknowns)
    theta, offset = field.point(unknowns)
    # The state's trial is the point that the last step led to.
    assert np.allclose(state.trial.theta[0, 0], theta, rtol=1e-12, atol=1e-14)
    assert np.allclose(state.trial.offset[0, 0], offset, rtol=1e-12, atol=1e-14)
    assert np.abs(theta).max() > 0.0


def test_the_iteration_converges_to_the_flow_at_first_order():
    X, y, _ = _rows()
    exact, _ = flow(X, y, potential=Hypentropy(1e-3), horizon=8.0, rtol=1e-10).at(8.0)
    errors = []
    for steps in (200, 400, 800):
        field = _flow(X, y, Hypentropy(1e-3))
        unknowns = field.start()
        for _ in range(steps):
            unknowns = unknowns + 8.0 / steps * field.field(0.0, unknowns)
        errors.append(np.abs(field.point(unknowns)[0] - exact).max())
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.1)
    assert errors[1] / errors[2] == pytest.approx(2.0, abs=0.1)


def _synthetic(seed=0):
    from papers.datasets import make_cosine_glm

    return make_cosine_glm(random_state=seed)


@pytest.mark.parametrize(
    "natural, potential, horizon", [(False, PNorm(1.1), 100.0), (True, Power(1.1), 10.0)]
)
def test_five_integrators_agree(natural, potential, horizon):
    """Boffi and Slotine 2020, figures 4B and 3D: 2e-6 on the rows learned from, 2e-5 on others."""
    X, X_val, y, y_val, _ = _synthetic()
    times, risks = np.linspace(0.0, horizon, 41), []
    for method in ("DOP853", "LSODA", "RK45", "BDF", "Radau"):
        path = flow(
            X, y, potential=potential, natural=natural, horizon=horizon, method=method, X_val=X_val,
            y_val=y_val, random_state=0, atol=1e-40 if natural else None,
        )  # fmt: skip
        risks.append([path.risk_at(times), path.risk_at(times, held=True)])
    spread = np.ptp(risks, axis=0).max(axis=1)
    assert spread[0] <= 2e-6
    assert spread[1] <= 2e-5
    assert risks[0][0][-1] < 0.5 * risks[0][0][0]


@pytest.mark.parametrize("natural, potential", [(False, PNorm(1.3)), (True, Power(1.3))])
def test_implicit_integrators_solve_with_the_true_jacobian(natural, potential):
    X, y, _ = _rows(k=3)
    field, rng = _flow(X, y, potential, natural=natural), np.random.default_rng(1)
    unknowns, b, small = 0.3 * rng.normal(size=y.shape[1] * X.shape[1]), rng.normal(size=36), 1e-6
    columns = [
        (field.field(0.0, unknowns + e) - field.field(0.0, unknowns - e)) / (2.0 * small)
        for e in small * np.eye(len(unknowns))
    ]
    dense = 3.0 * np.eye(len(unknowns)) - 0.5 * np.transpose(columns)
    shifted = 3.0 * IDENTITY - 0.5 * jacobian(field, unknowns)
    np.testing.assert_allclose(shifted.solver()(b), np.linalg.solve(dense, b), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_implicit_integrators_by_blocks_agree_with_explicit_ones(name):
    X, y, _ = _rows(k=3)
    method = implicit(SOLVERS[name], _flow(X, y, PNorm(1.3)))
    paths = [flow(X, y, potential=PNorm(1.3), horizon=5.0, method=m) for m in (method, "DOP853")]
    risks = [path.risk_at(np.linspace(0.0, 5.0, 21)) for path in paths]
    np.testing.assert_allclose(*risks, rtol=0.0, atol=2e-6)


def test_an_integrator_of_ones_own_is_taken():
    class Euler(OdeSolver):
        def __init__(self, fun, t0, y0, t_bound, **options):
            super().__init__(fun, t0, y0, t_bound, vectorized=False)

        def _step_impl(self):
            step = min(0.05, self.t_bound - self.t)
            self.y_before, self.y = self.y, self.y + step * self.fun(self.t, self.y)
            self.t += step
            return True, None

        def _dense_output_impl(self):
            return Straight(self.t_old, self.t, self.y_before, self.y)

    class Straight(DenseOutput):
        def __init__(self, t_old, t, a, b):
            super().__init__(t_old, t)
            self.a, self.b = a, b

        def _call_impl(self, t):
            share = (t - self.t_old) / (self.t - self.t_old)
            return self.a + np.multiply.outer(self.b - self.a, share)

    X, y, _ = _rows()
    learner = Mirror(Logit(), (Configuration(Hypentropy(0.1), None, 0.05),), intercept=False)
    state = learner.init(12)
    for _ in range(40):
        state, _ = learner.turn(learner.scan(state, Batch(Dense(X), y, np.ones(40))))
    path = flow(X, y, potential=Hypentropy(0.1), horizon=2.0, method=Euler)
    assert np.allclose(path.at(2.0)[0], state.trial.theta[0, 0], rtol=1e-9, atol=1e-12)


# --- The natural gradient ------------------------------------------------------------------------


@pytest.mark.parametrize("potential", [Euclidean(), Hypentropy(0.1), PNorm(1.5), Power(1.5)])
def test_the_two_flows_are_the_same_curve(potential):
    X, y, _ = _rows(k=2)
    init = np.random.default_rng(3).uniform(0.1, 0.3, (2, 12))
    options = {"potential": potential, "init": init, "horizon": 3.0, "rtol": 1e-9}
    mirror, natural = flow(X, y, **options), flow(X, y, natural=True, **options)
    for t in (0.5, 1.0, 3.0):
        assert np.allclose(mirror.at(t)[0], natural.at(t)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("potential", [PNorm(1.1), Power(1.1)], ids=repr)
def test_the_natural_flow_is_stuck_at_zero_and_starts_at_random(potential):
    X, y, _ = _rows()
    field = _flow(X, y, potential, natural=True)
    assert not field.field(0.0, np.zeros(13)).any()
    assert field.gradient(np.zeros((1, 12)), np.zeros(1))[0].any()
    with pytest.raises(ValueError, match="cannot leave init=0"):
        flow(X, y, potential=potential, natural=True, init=np.zeros(12))
    path = flow(X, y, potential=potential, natural=True, random_state=1, horizon=20.0)
    start = path.at(0.0)[0]
    assert 0.0 < np.abs(start).max() < 5e-3
    assert path.risk[-1] < 0.5 * path.risk[0]
    again = flow(X, y, potential=potential, natural=True, random_state=1, horizon=20.0)
    np.testing.assert_array_equal(path.at(20.0)[0], again.at(20.0)[0])


@pytest.mark.parametrize("p", [1.1, 1.3, 1.5, 1.8])
@pytest.mark.parametrize("kind", [Power, PNorm])
def test_the_natural_flow_crosses_zero_with_the_tolerance_of_its_potential(kind, p):
    """Without a tolerance given: near 2 a tiny one stops it, near 1 a large one is wrong."""
    crossed = 0
    for seed in range(2):
        X, y, _ = _rows(seed=seed)
        init = 1e-3 * np.random.default_rng(seed).standard_normal(12)
        options = {"potential": kind(p), "init": init, "horizon": 20.0}
        natural, mirror = flow(X, y, natural=True, **options), flow(X, y, rtol=1e-9, **options)
        crossed += np.sum(np.sign(natural.at(20.0)[0]) != np.sign(init))
        assert np.abs(natural.at(20.0)[0] - mirror.at(20.0)[0]).max() < 1e-3
    assert crossed
    with pytest.raises(ValueError, match="atol=1e-40 to be larger; or follow the mirror flow"):
        flow(*_rows()[:2], potential=Power(1.8), natural=True, atol=1e-40, horizon=20.0,
             init=1e-3 * np.random.default_rng(0).standard_normal(12))  # fmt: skip


def test_hypentropy_leaves_zero_by_itself():
    X, y, _ = _rows()
    path = flow(X, y, potential=Hypentropy(0.1), natural=True, horizon=5.0)
    assert not path.at(0.0)[0].any() and path.at(5.0)[0].any()


# --- Events, risks -------------------------------------------------------------------------------


def test_the_flow_ends_where_the_hold_out_risk_turns():
    X, y, _ = _rows(230, 60, seed=1, noise=0.3)
    X, y, X_val, y_val = X[:30], y[:30], X[30:], y[30:]
    options = {"X_val": X_val, "y_val": y_val, "potential": Hypentropy(1e-2), "horizon": 500.0}
    path = flow(X, y, until="rise", **options)
    assert path.ended == "rise" and path.times[-1] < 400.0
    whole = flow(X, y, **options)
    t = path.times[-1]
    around = whole.risk_at([0.98 * t, t, 1.02 * t], held=True)
    assert around[1] < around[0] and around[1] < around[2]
    assert whole.events["rise"][0] == pytest.approx(t, rel=1e-3)
    assert whole.risk_at(whole.best_time(), held=True)[0] <= whole.held_risk.min()


def test_the_flow_ends_when_it_is_stationary():
    X, y, _ = _rows(200, 5)
    path = flow(X, y, horizon=1e6, until=("stationary",), fit_intercept=True)
    assert path.ended == "stationary" and path.times[-1] < 1e6
    field = _flow(X, y, Euclidean(), intercept=True)
    first = np.hypot(*[np.linalg.norm(g) for g in field.gradient(*path.at(0.0))])
    last = np.hypot(*[np.linalg.norm(g) for g in field.gradient(*path.at(path.times[-1]))])
    assert last == pytest.approx(1e-6 * first, rel=1e-2)


def test_the_risk_of_realizable_data_falls_like_one_over_t():
    """Lemma 3.1 of 2020: the integral of the training risk is at most L d_psi(theta*, 0)."""
    X, y, theta = _rows(100, 12, noise=0.0)
    for potential in (Euclidean(), PNorm(1.3), Hypentropy(1e-2)):
        path = flow(X, y, potential=potential, horizon=200.0)
        t = np.linspace(0.0, 200.0, 2001)
        integral = np.trapezoid(path.risk_at(t), t)
        assert 0.2 * 0.25 * potential.value(theta) < integral <= 0.25 * potential.value(theta)


def test_other_links():
    X, y, _ = _rows(noise=0.0)
    path = flow(X, 2.0 * y - 1.0, link=Tanh(), horizon=200.0)
    assert path.risk[-1] < 1e-2 * path.risk[0]


def test_a_flow_goes_on_where_another_ended():
    X, y, _ = _rows()
    options = {"potential": PNorm(1.2), "rtol": 1e-10}
    whole = flow(X, y, horizon=20.0, **options)
    first = flow(X, y, horizon=7.0, **options)
    second = flow(X, y, horizon=13.0, init=first.at(7.0)[0], **options)
    assert np.allclose(second.at(13.0)[0], whole.at(20.0)[0], rtol=1e-7)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"method": "Euler"}, "`method` must be one of"),
        ({"until": "rise"}, "give X_val, y_val"),
        ({"until": "later"}, "something other than"),
        ({"horizon": 0.0}, "horizon=0.0 is not"),
        ({"potential": "l2"}, "potential='l2' is none of"),
        ({"potential": "spectral", "natural": True}, "has no metric_solve"),
        ({"X_val": np.ones((2, 12))}, "X_val is given without y_val"),
        ({"init": np.full(12, np.nan)}, "init"),
    ],
)
def test_bad_input_is_named(options, message):
    X, y, _ = _rows()
    with pytest.raises(ValueError, match=message):
        flow(X, y, **options)


def test_a_time_outside_the_trajectory_is_refused():
    X, y, _ = _rows()
    with pytest.raises(ValueError, match="is not between 0 and 5"):
        flow(X, y, horizon=5.0).at(6.0)
