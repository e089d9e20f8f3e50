"""One target with nearly all of the variance: new rows near it, and all others."""

import warnings

import numpy as np
import pytest

from tunefree import BoostedTreesRegressor, DataWarning, TuneFreeRegressor
from tunefree.rows.outliers import limit_dominant

ESTIMATORS = [TuneFreeRegressor, BoostedTreesRegressor]
N = 300


def _draw(seed, kind):
    """Rows, targets, and the row of the farthest of the first N."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2300, 6))
    y = X[:, 0] - 2.0 * X[:, 1] + np.sin(X[:, 2]) + rng.normal(size=2300)
    if kind == "lognormal":
        y = np.exp(2.0 * y)
    elif kind == "Cauchy":
        y = y + 10.0 * rng.standard_cauchy(2300)
    else:
        y[rng.integers(N)] += 100.0
    return X, y, int(np.argmax(np.abs(y[:N] - np.median(y[:N]))))


def _fitted(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return estimator(random_state=0).fit(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_new_rows_near_it_are_no_worse_than_by_the_constant(estimator):
    ratios = []
    for seed, kind in enumerate(("lognormal", "Cauchy", "one", "lognormal", "one")):
        X, y, k = _draw(seed, kind)
        predicted = _fitted(estimator, X[:N], y[:N]).predict(X[N:])
        near = np.argsort(np.linalg.norm(X[N:] - X[k], axis=1))[:40]
        # Targets as far out as the one do not occur among so few.
        middle = np.median(y)
        reach = np.quantile(np.abs(y - middle), 0.99)
        truth = np.clip(y[N:], middle - reach, middle + reach)[near]
        constant = y[:N].mean()
        loss, of_constant = (np.mean(np.square(p - truth)) for p in (predicted[near], constant))
        ratios.append(loss / of_constant)
    assert np.mean(ratios) < 1.5, np.round(ratios, 2)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_others_are_predicted_as_without_it(estimator):
    X, y, k = _draw(7, "one")
    usual = np.delete(np.arange(N), k)
    with pytest.warns(DataWarning, match=rf"y\[{k}\] = .*'absolute_error'.*'huber'"):
        model = estimator(random_state=0).fit(X[:N], y[:N])
    without = _fitted(estimator, X[usual], y[usual])
    errors = [np.mean(np.square(m.predict(X[N:]) - y[N:])) for m in (model, without)]
    assert errors[0] < 1.2 * errors[1], errors


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_far_target_that_is_predicted_stays(estimator):
    """Targets that follow from the columns are no outliers, however far they are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    X[:30, 0] += 6.0
    y = 10.0 * (X[:, 0] > 3.0) + 0.1 * rng.normal(size=N)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model = estimator(random_state=0).fit(X, y)
    assert model.predict(X)[:30].mean() > 8.0


def test_limits_of_dominant_targets():
    rng = np.random.default_rng(0)
    for n in (50, 300, 2000):
        y, weights = rng.normal(size=n), np.ones(n)
        zeros = np.zeros(n)
        assert limit_dominant(y, zeros, weights) is y
        y[3] = -1e3
        limited = limit_dominant(y, zeros, weights)
        assert (np.delete(limited, 3) == np.delete(y, 3)).all()
        assert np.isclose(limited[3], -np.abs(np.delete(y, 3)).max())
        # Units, origins and the order of rows make no difference.
        order = rng.permutation(n)
        moved = limit_dominant(8.0 * y[order] + 64.0, zeros + 64.0, weights)
        np.testing.assert_allclose(moved, 8.0 * limited[order] + 64.0)
    rare = np.repeat([0.0, 1.0], [298, 2])
    assert limit_dominant(rare, np.zeros(300), np.ones(300)) is rare


def _skewed(rng, n):
    """Ordinary skewed targets, by name."""
    z, mean = rng.normal(size=n), np.exp(0.8 * rng.normal(size=n))
    counts = rng.poisson(mean)
    return {
        "squares": np.square(z),
        "exponential": mean * rng.exponential(size=n),
        "lognormal": np.exp(z),
        "zeros and amounts": np.where(rng.random(n) < 0.5, 0.0, mean * rng.lognormal(size=n)),
        "counts": counts.astype(float),
        "Tweedie": rng.gamma(2.0 * np.maximum(counts, 1e-9)) * (counts > 0),
    }


def test_ordinary_skewed_targets_hardly_ever_have_one():
    found = {}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        for n in (100, 300, 2000):
            for name, y in _skewed(rng, n).items():
                limited = limit_dominant(y, np.full(n, np.median(y)), np.ones(n))
                found.setdefault(name, []).append(limited is not y)
    shares = {name: np.mean(each) for name, each in found.items()}
    assert max(shares.values()) < 0.06, shares
    assert np.mean(list(shares.values())) < 0.015, shares


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_of_400_a_thousand_times_the_others_costs_little(estimator):
    rng = np.random.default_rng(3)
    X, new = rng.normal(size=(2, 400, 3))
    y, truth = 1500.0 + 500.0 * X[:, 0], 1500.0 + 500.0 * new[:, 0]
    expected = _fitted(estimator, X, y + 50.0 * rng.normal(size=400))
    y = y + 50.0 * rng.normal(size=400)
    y[11] = 500_000.0
    with pytest.warns(DataWarning, match=r"y\[11\] = 500000"):
        model = estimator(random_state=0).fit(X, y)
    errors = [np.mean(np.square(m.predict(new) - truth)) for m in (model, expected)]
    assert np.mean(np.abs(model.predict(new) - truth)) < 50.0
    assert errors[0] < 1.2 * errors[1] + 0.01 * np.var(truth), errors
