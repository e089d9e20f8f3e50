"""The batch Reflectron: stacking, merging, the automatic step, and what it converges to."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize, root

from tunefree.core import protocols
from tunefree.engine.run import run
from tunefree.parts.links import LINKS, Logit
from tunefree.reflectron.constraints import L1Ball, Simplex
from tunefree.reflectron.mirror import Batch, Configuration, Mirror
from tunefree.reflectron.potentials import Entropy, Euclidean, Hypentropy, PNorm, Power, Spectral
from tunefree.rows.designs import CSR, Dense


class Batches(protocols.BlockSource, tuple):
    def blocks(self, epoch):
        return iter(self)


def _problem(n=40, d=60, k=1, seed=0, noise=0.1, link=LINKS["logit"]):
    rng = np.random.default_rng(seed)
    X, theta = rng.uniform(-1, 1, (n, d)), np.zeros((k, d))
    theta[:, :4] = rng.standard_normal((k, 4))
    y = link.mean(X @ theta.T)
    return X, y + noise * rng.uniform(-1, 1, y.shape), theta


def _sheet(X, y, held=-1):
    return Batch(Dense(X), y, np.ones(len(X)), held)


def _matching(link, X, y, theta, offset):
    s = X @ theta.T + offset
    return np.mean(np.sum(link.matching(s) - y * s, axis=1))


def _values(learner, X, y, theta=None, passes=80):
    """The matching loss at every accepted point of the first configuration, and the state."""
    state, values = learner.init(X.shape[1], y.shape[1], theta), []
    for _ in range(passes):
        before = state.accepted[0]
        state, done = learner.turn(learner.scan(state, _sheet(X, y)))
        if state.accepted[0] > before:
            theta, offset = learner.read(state)
            values.append(_matching(learner.link, X, y, theta, offset))
        if done:
            break
    return np.array(values), state


GEOMETRIES = [
    Configuration(Euclidean()),
    Configuration(PNorm(1.1)),
    Configuration(Hypentropy(1e-4)),
    Configuration(Euclidean(), L1Ball(0.5)),
    Configuration(PNorm("log"), L1Ball(0.5)),
    Configuration(Hypentropy(1e-4), L1Ball(0.5)),
    Configuration(Entropy()),
    Configuration(Power(1.5)),
    Configuration(Hypentropy(1e-2), Simplex(0.5)),
]


@pytest.mark.parametrize("configuration", GEOMETRIES, ids=repr)
@pytest.mark.parametrize("first_step", [1e-4, 1.0, 1e4])
def test_the_automatic_step_lets_the_matching_loss_fall(configuration, first_step):
    X, y, _ = _problem()
    learner = Mirror(Logit(), (configuration,), first_step=first_step, patience=1000, last=True)
    values, _ = _values(learner, X, y)
    assert len(values) > 10
    assert np.diff(values).max() <= 1e-13
    assert values[-1] < values[0] - 1e-3


@pytest.mark.parametrize("name", LINKS)
def test_the_matching_loss_falls_for_every_link(name):
    X, y, _ = _problem(link=LINKS[name])
    learner = Mirror(LINKS[name], (Configuration(Hypentropy(1e-4)),), patience=1000, last=True)
    values, _ = _values(learner, X, y)
    assert np.diff(values).max() <= 1e-13 * max(1.0, np.abs(values).max())


def test_a_fixed_step_that_is_too_long_does_not_settle():
    """The automatic step is worth something: a long fixed step oscillates without overflow."""
    X, y, _ = _problem(n=200, d=5)
    learner = Mirror(Logit(), (Configuration(Euclidean(), None, 200.0),), patience=1000, last=True)
    values, _ = _values(learner, X, y)
    assert np.isfinite(values).all()
    assert np.diff(values[-20:]).max() > 1e-3


def test_stacked_configurations_do_what_each_does_alone():
    X, y, _ = _problem(k=2)
    configurations = (*GEOMETRIES[:6], Configuration(Euclidean(), None, 0.5))
    sheets = Batches((_sheet(X[:30], y[:30]), _sheet(X[30:], y[30:], 0)))
    together = Mirror(Logit(), configurations, patience=20)
    state = run(together, together.init(60, 2), sheets, max_passes=60).state
    for c, configuration in enumerate(configurations):
        alone = Mirror(Logit(), (configuration,), patience=20)
        one = run(alone, alone.init(60, 2), sheets, max_passes=60).state
        assert one.accepted[0] == state.accepted[c]
        assert np.allclose(one.best.theta[0], state.best.theta[c], rtol=1e-9, atol=1e-12)
        assert one.score[0] == pytest.approx(state.score[c], rel=1e-12)


def test_blocks_and_workers_add_up_to_one_pass():
    X, y, _ = _problem(k=2)
    learner = Mirror(Logit(), (Configuration(Hypentropy(1e-3)), Configuration(Euclidean())))
    start = learner.init(60, 2, theta=np.full((2, 60), 0.01))
    whole = learner.scan(start, _sheet(X, y))
    blocks = [_sheet(X[:7], y[:7]), _sheet(X[7:29], y[7:29]), _sheet(X[29:], y[29:])]
    in_turn = start
    for block in blocks:
        in_turn = learner.scan(in_turn, block)
    merged = learner.merge(start, [learner.scan(start, block) for block in blocks])
    for other in (in_turn, merged):
        for a, b in zip(whole.sums, other.sums, strict=True):
            assert np.allclose(a, b, rtol=1e-12, atol=1e-14)


def test_sparse_rows_give_the_same_sums():
    X, y, _ = _problem()
    X[np.abs(X) < 0.6] = 0.0
    learner = Mirror(Logit(), (Configuration(Hypentropy(1e-3)),))
    start = learner.init(60, 1, theta=np.full((1, 60), 0.1))
    dense = learner.scan(start, _sheet(X, y)).sums
    design = CSR.from_scipy(sparse.csr_array(X))
    stored = learner.scan(start, Batch(design, y, np.ones(len(X)))).sums
    for a, b in zip(dense, stored, strict=True):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-14)


def test_the_best_point_is_that_of_the_lowest_hold_out_risk():
    X, y, _ = _problem(noise=0.3)
    X_val, y_val, _ = _problem(seed=1, noise=0.3)
    learner = Mirror(Logit(), (Configuration(Euclidean()),), patience=30)
    sheets = Batches((_sheet(X, y), _sheet(X_val, y_val, 0)))
    result = run(learner, learner.init(60), sheets)
    theta, offset = learner.read(result.state)
    risk = np.mean((Logit().mean(X_val @ theta.T + offset) - y_val) ** 2)
    assert result.converged
    assert risk == pytest.approx(min(t["held_risk"][0] for t in result.trace), rel=1e-12)
    assert result.state.best_at[0] < result.state.accepted[0] - 1


def test_turning_a_sweep_leaves_its_state_as_it_was():
    X, y, _ = _problem()
    learner = Mirror(Logit(), (Configuration(Hypentropy(1e-3)), Configuration(Euclidean())))
    state = learner.scan(learner.init(60), _sheet(X, y))
    for _ in range(4):
        before = pickle.dumps(state)
        first, second = learner.turn(state)[0], learner.turn(state)[0]
        assert pickle.dumps(state) == before
        assert pickle.dumps(first) == pickle.dumps(second)
        state = learner.scan(first, _sheet(X, y))


def test_members_share_steps_and_learn_from_their_own_rows():
    """With a fixed step each member is a run of its own without the rows held out from it."""
    X, y, _ = _problem()
    held = np.arange(40) % 4 - 1  # -1: all members learn
    configuration = Configuration(Hypentropy(1e-2), None, 0.7)
    learner = Mirror(Logit(), (configuration,), members=3, patience=1000)
    state = learner.init(60, offset=np.array([[0.0], [0.1], [0.2]]))
    sheet = _sheet(X, y)._replace(held=held)
    for _ in range(10):
        state, _ = learner.turn(learner.scan(state, sheet))
    risks = []
    for member in range(3):
        rows = held != member
        alone = Mirror(Logit(), (configuration,), patience=1000, last=True)
        one = alone.init(60, offset=np.array([0.1 * member]))
        for _ in range(10):
            one, _ = alone.turn(alone.scan(one, _sheet(X[rows], y[rows])))
        assert np.allclose(one.now.theta[0, 0], state.now.theta[0, member], rtol=1e-10)
        mean = Logit().mean(X[~rows] @ one.now.theta[0, 0, 0] + one.now.offset[0, 0])
        risks.append(np.sum((mean - y[~rows, 0]) ** 2))
    assert state.held_risk[0] == pytest.approx(sum(risks) / np.sum(held >= 0), rel=1e-9)


def test_a_configuration_that_another_has_overtaken_ends_early():
    X, y, _ = _problem(n=100, d=200, noise=0.3)
    X_val, y_val, _ = _problem(n=100, d=200, seed=1, noise=0.3)
    sheets = Batches((_sheet(X, y), _sheet(X_val, y_val, 0)))
    geometries = (Configuration(Euclidean()), Configuration(Hypentropy(1e-6)))
    for behind in (None, 10):
        learner = Mirror(Logit(), geometries, patience=100, behind=behind)
        state = run(learner, learner.init(200), sheets).state
        lead = learner.chosen(state)
        waited = state.accepted - state.mark_at
        assert state.mark_at.max() < 100 and waited[lead] == 101
        assert waited[1 - lead] == 101 if behind is None else waited[1 - lead] < 30


def test_a_run_that_stands_still_ends():
    """At an exact fit the rounding guard accepts and stops, instead of halving for ever."""
    X, y, _ = _problem(n=5, d=5, noise=0.0)
    learner = Mirror(Logit(), (Configuration(Euclidean()),), patience=10**6, intercept=False)
    result = run(learner, learner.init(5), Batches((_sheet(X, y),)), max_passes=20_000)
    assert result.converged
    assert result.state.risk[0] < 1e-20


# --- What it converges to ------------------------------------------------------------------------

ORACLES = [Euclidean(), PNorm(1.5), Hypentropy(1e-2), Power(1.5), PNorm(1.3)]


def _oracle(potential, X, margins, start):
    """min d_psi(theta, start) over X theta = margins, by its dual in as many unknowns as rows."""
    dual = potential.mirror(start)

    def value(a):
        w = dual + X.T @ a
        return potential.conjugate(w) - a @ margins, X @ potential.inverse(w) - margins

    rough = minimize(value, np.zeros(len(X)), jac=True, method="BFGS", options={"gtol": 1e-8})
    fine = root(lambda a: value(a)[1], rough.x, tol=1e-13)
    return potential.inverse(dual + X.T @ fine.x)


@pytest.mark.parametrize("potential", ORACLES, ids=repr)
@pytest.mark.parametrize("nonzero", [False, True])
def test_implicit_regularization(potential, nonzero):
    """Theorem 4.2: the interpolator nearest to the start in the potential's divergence."""
    X, y, _ = _problem(n=10, d=30, noise=0.0)
    start = np.zeros(30)
    if nonzero:
        start = np.random.default_rng(5).uniform(-0.5, 0.5, 30)
    learner = Mirror(
        Logit(), (Configuration(potential),), intercept=False, patience=10**6, last=True
    )
    result = run(
        learner, learner.init(30, 1, start[None]), Batches((_sheet(X, y),)), max_passes=6000
    )
    theta, _ = learner.read(result.state)
    expected = _oracle(potential, X, Logit().inverse(y[:, 0]), start)
    assert np.allclose(X @ expected, Logit().inverse(y[:, 0]), atol=1e-9)
    assert np.linalg.norm(theta[0] - expected) <= 1e-6 * np.linalg.norm(expected)


def test_implicit_regularization_of_a_matrix_by_its_singular_values():
    X, y, _ = _problem(n=4, d=8, k=3, noise=0.0)
    potential, margins = Spectral(Hypentropy(1e-2)), Logit().inverse(y)
    learner = Mirror(
        Logit(), (Configuration(potential),), intercept=False, patience=10**6, last=True
    )
    result = run(learner, learner.init(8, 3), Batches((_sheet(X, y),)), max_passes=3000)
    theta, _ = learner.read(result.state)

    def value(a):
        w = a.reshape(3, 4) @ X
        slope = potential.inverse(w) @ X.T - margins.T
        return potential.conjugate(w) - np.sum(a.reshape(3, 4) * margins.T), slope.ravel()

    rough = minimize(value, np.full(12, 0.1), jac=True, method="BFGS", options={"gtol": 1e-8})
    fine = root(lambda a: value(a)[1], rough.x, tol=1e-13)
    expected = potential.inverse(fine.x.reshape(3, 4) @ X)
    assert np.allclose(X @ expected.T, margins, atol=1e-9)
    assert np.linalg.norm(theta - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("potential", [Euclidean(), PNorm(1.3)], ids=repr)
def test_the_training_risk_of_realizable_data_falls_like_one_over_t(potential):
    """Lemma 4.1: min risk <= L d(theta*, theta_1) / (step (1 - step L C^2 / (2 sigma)) T).

    With the step sigma / (C^2 L) the bound is 2 L^2 C^2 d(theta*, theta_1) / (sigma T).
    """
    X, y, theta = _problem(n=100, d=30, noise=0.0)
    sigma, p = potential.convexity(30)
    dual_norm = np.sum(np.abs(X) ** (p / (p - 1.0)), axis=1) ** (1.0 - 1.0 / p)
    C, L = dual_norm.max(), Logit().bound()
    learner = Mirror(
        Logit(), (Configuration(potential, None, sigma / (C * C * L)),), intercept=False,
        patience=10**6,
    )  # fmt: skip
    result = run(learner, learner.init(30), Batches((_sheet(X, y),)), max_passes=300)
    risks = np.minimum.accumulate([t["risk"][0] for t in result.trace])
    rounds = np.arange(1, len(risks) + 1)
    bound = 2.0 * L * L * C * C * potential.value(theta) / (sigma * rounds)
    assert (risks <= bound).all()
    assert risks[-1] < risks[0] / 10.0
