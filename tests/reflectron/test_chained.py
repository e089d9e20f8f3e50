"""Chains of steps: Legendre polynomials, the flow's time, losses that do not rise."""

import numpy as np
import pytest
from scipy.special import eval_legendre, expit

from tunefree.engine.run import run
from tunefree.engine.sources import Batches
from tunefree.parts.links import Identity, Logit
from tunefree.reflectron.chains import ChainedSteps
from tunefree.reflectron.constraints import L1Ball
from tunefree.reflectron.mirror import Batch, Configuration, Mirror, PlainSteps
from tunefree.reflectron.potentials import Euclidean, Hypentropy, PNorm
from tunefree.rows.designs import Dense

GEOMETRIES = [
    Configuration(Euclidean()),
    Configuration(PNorm(1.1)),
    Configuration(Hypentropy(1e-4)),
    Configuration(Hypentropy(1e-4), L1Ball(2.0)),
]


def _states(learner, X, y, passes):
    """The state after every pass."""
    state, sheet, states = learner.init(X.shape[1]), Batch(Dense(X), y, np.ones(len(X))), []
    for _ in range(passes):
        state, done = learner.turn(learner.scan(state, sheet))
        if done:
            break
        states.append(state)
    return states


def _logistic(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (80, 30))  # a shared mean: one steep direction
    return X, expit(X[:, :1] - X[:, 1:2]) + 0.05 * rng.standard_normal((80, 1))


def test_a_chain_on_a_quadratic_is_a_legendre_polynomial():
    h, curvature = 0.1, np.array([1.0, 0.5, 0.05])
    X, start = np.diag(np.sqrt(3.0 * curvature)), np.array([[0.5, -1.0, 2.0]])
    geometry = (Configuration(Euclidean()),)
    learner = Mirror(Identity(), geometry, first_step=h, intercept=False, steps=ChainedSteps())
    state, sheet = learner.init(3, theta=start), Batch(Dense(X), np.zeros((3, 1)), np.ones(3))
    number = 0
    for _ in range(40):
        state, _ = learner.turn(learner.scan(state, sheet))
        origin, j = state.chain.origin.theta[0, 0], int(state.chain.number[0]) - 1
        expected = origin * eval_legendre(j, 1.0 - state.step[0] * curvature)
        np.testing.assert_allclose(state.now.theta[0, 0], expected, rtol=1e-9, atol=1e-12)
        number = max(number, j)
    assert number > 5


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("configuration", GEOMETRIES, ids=repr)
@pytest.mark.parametrize("first_step", [1e-3, 1e4])
def test_the_matching_loss_does_not_rise_above_the_start_of_a_chain(
    configuration, first_step, seed
):
    X, y = _logistic(seed)
    learner = Mirror(
        Logit(), (configuration,), first_step=first_step, intercept=False, patience=1000,
        last=True, steps=ChainedSteps(),
    )  # fmt: skip

    def loss(point):
        s = X @ point.theta[0, 0].T
        return np.mean(Logit().matching(s) - y * s)

    last = np.inf
    for state in _states(learner, X, y, 150):
        start = loss(state.chain.origin)
        assert loss(state.now) <= start + 1e-12
        assert start <= last + 1e-12
        last = start


@pytest.mark.parametrize("configuration", GEOMETRIES, ids=repr)
def test_time_is_the_flows(configuration):
    """What chains reach at a time is near what small plain steps reach then."""
    X, y = _logistic(3)
    options = dict(intercept=False, patience=10**6, last=True)
    learner = Mirror(Logit(), (configuration,), steps=ChainedSteps(), **options)
    chained = _states(learner, X, y, 60)[-1]
    time = chained.time[0]
    fixed = configuration._replace(step=time / 4000)
    small = _states(Mirror(Logit(), (fixed,), **options), X, y, 4001)[-1]
    there, here = small.now.theta[0, 0], chained.now.theta[0, 0]
    assert small.time[0] == pytest.approx(time)
    assert np.linalg.norm(X @ (here - there).T) < 0.15 * np.linalg.norm(X @ there.T)


def test_a_chain_with_a_number_as_step_is_the_plain_iteration():
    X, y = _logistic(4)
    sheets, found = Batches((Batch(Dense(X), y, np.ones(len(X))),)), []
    for steps in (ChainedSteps(), PlainSteps()):
        geometry = (Configuration(PNorm(1.1), None, 0.1),)
        learner = Mirror(Logit(), geometry, last=True, steps=steps)
        found.append(run(learner, learner.init(30), sheets, max_passes=20).state.now)
    np.testing.assert_array_equal(found[0].theta, found[1].theta)
    np.testing.assert_array_equal(found[0].offset, found[1].offset)
