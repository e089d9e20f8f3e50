"""Neu and Rosasco 2018: propositions in expectation (exact recursion) and by simulation."""

import numpy as np
import pytest

from papers.stored_iterates import additive_noise_sgd, average_iterates, sgd
from tunefree.bounds import geometric_excess_risk
from tunefree.parts.averaging import Geometric, survival

D, STEP, PENALTY = 4, 0.05, 0.3


def population(seed=0):
    """Covariance S, product b = S w*, and a start."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(D, D))
    covariance = root @ root.T / D
    return covariance, covariance @ rng.normal(size=D), rng.normal(size=D)


def expected(covariance, product, step, start, n, penalty=0.0):
    """The expected iterates: the noise has none."""
    return additive_noise_sgd(covariance, product, np.zeros((n, D)), step, start, penalty)


def geometric(iterates, rate=STEP * PENALTY):
    return average_iterates(iterates, [Geometric(rate)])[0]


@pytest.mark.parametrize("start_at_zero", [True, False])
def test_proposition_1_the_average_tends_to_ridge(start_at_zero):
    covariance, product, start = population()
    start = np.zeros(D) if start_at_zero else start
    ridge = np.linalg.solve(covariance + PENALTY * np.eye(D), product + PENALTY * start)
    average = geometric(expected(covariance, product, STEP, start, 4000))
    np.testing.assert_allclose(average, ridge, atol=1e-10)
    gamma = STEP / (1 + STEP * PENALTY)
    regularized = expected(covariance, product, gamma, start, 4000, PENALTY)[-1]
    np.testing.assert_allclose(regularized, ridge, atol=1e-10)


@pytest.mark.parametrize("t", [0, 1, 2, 17, 300])
def test_proposition_2_at_every_finite_time(t):
    """E v_t = sum_(k<t) gamma lambda q^k E w_k + q^t E w_t."""
    covariance, product, start = population()
    q, gamma = 1 / (1 + STEP * PENALTY), STEP / (1 + STEP * PENALTY)
    w = expected(covariance, product, STEP, start, t)
    v = expected(covariance, product, gamma, start, t, PENALTY)[-1]
    powers = q ** np.arange(t)
    np.testing.assert_allclose(
        gamma * PENALTY * (powers @ w[:t]) + q**t * w[t], v, rtol=0, atol=1e-10
    )


def test_the_average_is_the_mean_at_a_random_time():
    """Probabilistic early stopping: a geometric time, cut off at n, and the iterate there."""
    covariance, product, start = population()
    n = 200
    w = expected(covariance, product, STEP, start, n)
    rng, rate = np.random.default_rng(0), STEP * PENALTY
    times = rng.geometric(rate / (1 + rate), 400_000) - 1
    stopped = w[times[times <= n]]
    error = stopped.std(axis=0) / np.sqrt(len(stopped))
    assert (np.abs(stopped.mean(axis=0) - geometric(w)) < 5 * error).all()
    # The same law: P(time >= s) is the share of the iterates from s on.
    tail = [(times[times <= n] >= s).mean() for s in (1, 20, 100)]
    np.testing.assert_allclose(tail, survival(Geometric(rate), n + 1)[[0, 19, 99]], atol=4e-3)


def sample(rng, n, covariance, product, noise=0.5):
    """Bounded rows with the covariance, and targets of the model."""
    root = np.linalg.cholesky(covariance)
    X = rng.choice([-1.0, 1.0], size=(n, D)) @ root.T
    return X, X @ np.linalg.solve(covariance, product) + noise * rng.normal(size=n)


@pytest.mark.parametrize("n_draws", [300, 1500])
def test_propositions_by_simulation(n_draws):
    covariance, product, start = population()
    gamma, t = STEP / (1 + STEP * PENALTY), 40
    q, rng = 1 / (1 + STEP * PENALTY), np.random.default_rng(1)
    plain, regularized = [], []
    for _ in range(n_draws):
        X, y = sample(rng, t, covariance, product)
        w = sgd(X, y, STEP, start)
        plain.append(gamma * PENALTY * (q ** np.arange(t) @ w[:t]) + q**t * w[t])
        regularized.append(sgd(X, y, gamma, start, PENALTY)[-1])
    exact = expected(covariance, product, gamma, start, t, PENALTY)[-1]
    for draws in (np.array(plain), np.array(regularized)):
        error = draws.std(axis=0) / np.sqrt(len(draws))
        assert (np.abs(draws.mean(axis=0) - exact) < 5 * error).all()
    # Equal in expectation, not path by path.
    assert np.abs(np.array(plain) - np.array(regularized)).max() > 0.01


def excess(covariance, product, average):
    gap = average - np.linalg.solve(covariance, product)
    return gap @ covariance @ gap


@pytest.mark.parametrize("penalty", [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("n", [1, 10, 100, 1000])
def test_proposition_10_bounds_the_exact_excess_risk(n, penalty):
    """Additive noise: bias and variance of the average are known in closed form."""
    covariance, product, start = population()
    values, vectors = np.linalg.eigh(covariance)
    gap = start - np.linalg.solve(covariance, product)
    for step in (1.0 / values[-1], 0.1 / values[-1]):
        shares = survival(Geometric(step * penalty), n + 1)
        masses = -np.diff(np.concatenate([[1.0], shares, [0.0]]))
        powers = (1 - step * values) ** np.arange(n + 1)[:, None]
        bias = values @ (masses @ powers * (vectors.T @ gap)) ** 2
        passed = [masses[s:] @ powers[: n + 1 - s] for s in range(1, n + 1)]
        variance = np.square(step * 0.5 * np.array(passed)).sum(axis=0) @ values**2
        arguments = dict(step=step, penalty=penalty, noise=0.5)
        bound = geometric_excess_risk(covariance, gap, n, **arguments)
        assert bias + variance <= bound * (1 + 1e-12)
        # and it is not idle: within a factor of the truth where n is large
        assert n < 1000 or bound < 30 * (bias + variance)


def test_proposition_10_by_simulation():
    covariance, product, start = population()
    root, rng, n = np.linalg.cholesky(covariance), np.random.default_rng(2), 60
    found = [
        excess(
            covariance,
            product,
            geometric(
                additive_noise_sgd(
                    covariance, product, 0.5 * rng.normal(size=(n, D)) @ root.T, STEP, start
                )
            ),
        )
        for _ in range(300)
    ]
    gap = start - np.linalg.solve(covariance, product)
    bound = geometric_excess_risk(covariance, gap, n, step=STEP, penalty=PENALTY, noise=0.5)
    assert np.mean(found) < bound


@pytest.mark.parametrize("penalty", [0.01, 0.1, 1.0])
def test_theorem_3_holds_on_simulated_data(penalty):
    covariance, product, start = population()
    rng, n, noise = np.random.default_rng(3), 150, 0.5
    X, _ = sample(rng, 20_000, covariance, product)
    radius = np.sqrt(np.square(X).sum(axis=1).max())
    step = 0.5 / radius**2
    found = []
    for _ in range(150):
        X, y = sample(rng, n, covariance, product, noise)
        average = geometric(sgd(X, y, step, start), step * penalty)
        found.append(excess(covariance, product, average))
    gap = start - np.linalg.solve(covariance, product)
    bound = geometric_excess_risk(
        covariance, gap, n, step=step, penalty=penalty, noise=noise, radius=radius
    )
    assert np.mean(found) + 5 * np.std(found) / np.sqrt(len(found)) < bound


def test_bounds_refuse_what_they_do_not_cover():
    arguments = dict(penalty=0.1, noise=1.0)
    with pytest.raises(ValueError, match="step"):
        geometric_excess_risk(np.eye(2), np.ones(2), 10, step=0.6, radius=1.0, **arguments)
    with pytest.raises(ValueError, match="penalty"):
        geometric_excess_risk(np.eye(2), np.ones(2), 10, step=0.1, penalty=0.0, noise=1.0)
