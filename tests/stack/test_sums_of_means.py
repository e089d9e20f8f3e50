"""Counts and amounts: predictions add up to the targets, and nothing else limits them."""

import numpy as np
import pytest

from tunefree import BoostedTreesRegressor, TuneFreeRegressor
from tunefree.held_out.stacking import Means, lowest_mean
from tunefree.parts.families import FAMILIES

LEARNED, TESTED = 400, 4000
CELLS = [
    ("poisson", 0.08, True, 0.0), ("poisson", 0.02, False, 0.5), ("poisson", 0.1, True, 0.95),
    ("poisson", 0.5, False, 0.9), ("poisson", 1.0, True, 0.0), ("poisson", 5.0, False, 0.5),
    ("tweedie", 0.05, True, 0.0), ("tweedie", 0.3, False, 0.9), ("tweedie", 2.0, True, 0.5),
    ("gamma", 0.05, False, 0.0), ("gamma", 5.0, True, 0.0),
]  # fmt: skip


def _draw(seed, loss, rate, exposed, zeros, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    exposure = rng.uniform(0.1, 1.0, n) if exposed else np.ones(n)
    mean = rate * np.exp(0.7 * X[:, 0] - 0.245) * exposure
    if loss == "gamma":
        return X, rng.gamma(2.0 * exposure, mean / (2.0 * exposure)), exposure
    alive = X[:, 1] > np.quantile(X[:, 1], zeros) if zeros else np.ones(n, dtype=bool)
    counts = rng.poisson(mean * alive / (1.0 - zeros))
    return X, counts if loss == "poisson" else rng.gamma(2.0 * counts, 0.5), exposure


def _deviations(make, cells):
    """Residual sums on new rows in standard errors: those of new and of learned targets."""
    out = []
    for seed, cell in cells:
        X, y, exposure = _draw(seed, *cell, LEARNED + TESTED)
        given = {"exposure": exposure[:LEARNED]} if cell[2] else {}
        new = {"exposure": exposure[LEARNED:]} if cell[2] else {}
        model = make(cell[0]).fit(X[:LEARNED], y[:LEARNED], **given)
        residuals = y[LEARNED:] - model.predict(X[LEARNED:], **new)
        error = np.linalg.norm(residuals) * np.sqrt(1.0 + TESTED / LEARNED)
        out.append(residuals.sum() / error)
    return np.array(out)


@pytest.mark.parametrize(
    "estimator, step",
    [(BoostedTreesRegressor, 6), (BoostedTreesRegressor, 1), (TuneFreeRegressor, 2)],
)
def test_sums_of_predictions_are_those_of_new_targets(estimator, step):
    cells = list(enumerate(CELLS))[::step]
    found = _deviations(lambda loss: estimator(loss=loss, random_state=0), cells)
    assert np.mean(np.abs(found) > 2.0) < 0.1, found.round(2)
    assert np.sqrt(np.mean(np.square(found))) < 1.5, found.round(2)


def test_low_rates_are_predicted():
    """The smallest positive count is 1: it is no limit of rates."""
    X, y, _ = _draw(3, "poisson", 0.1, False, 0.0, 6000)
    model = TuneFreeRegressor(candidates=("linear", "trees"), loss="poisson", random_state=0)
    predicted = model.fit(X[:3000], y[:3000]).predict(X[3000:])
    low = np.argsort(predicted)[:1000]
    total = y[3000:][low].sum()
    assert abs(predicted[low].sum() - total) < 3.0 * np.sqrt(total)
    ratio = model.report_.verdict.sum_ratio
    assert abs(ratio - 1.0) < 3.0 * model.report_.verdict.sum_ratio_se
    assert f"Sum of predictions / sum of targets on held-out rows: {ratio:.3g}"[:60] in str(
        model.report_
    )


@pytest.mark.parametrize("n_events", [1, 2, 3])
@pytest.mark.parametrize("estimator", [TuneFreeRegressor, BoostedTreesRegressor])
def test_folds_share_a_few_events(estimator, n_events):
    """No fold has zeros only, where the logarithm of a mean is infinite."""
    X = np.random.default_rng(0).normal(size=(150, 2))
    y = np.zeros(150)
    y[:n_events] = 1.0
    predicted = estimator(loss="poisson", random_state=0).fit(X, y).predict(X)
    assert np.isfinite(predicted).all() and (predicted > 0.0).all()
    assert 0.2 * n_events < predicted.sum() < 5.0 * n_events


def test_the_lower_limit_has_the_least_deviance():
    rng = np.random.default_rng(0)
    predicted, weights = rng.normal(1.0, 1.0, 300), rng.uniform(0.5, 2.0, 300)
    y = rng.poisson(np.maximum(predicted, 0.05)).astype(float)
    family, least = FAMILIES["poisson"], lowest_mean(predicted, y, weights)

    def deviance(limit):
        one = weights.mean() * family.deviance(np.average(y, weights=weights), limit)
        return weights @ family.deviance(y, np.maximum(predicted, limit)) + one

    # The first minimum: no limit between the lowest positive prediction and this one is better.
    limits = np.geomspace(predicted[predicted > 0.0].min(), 1.2 * least, 200)
    assert deviance(least) <= min(map(deviance, limits)) + 1e-9


def test_a_stack_of_means_has_the_right_sum_and_unit():
    rng = np.random.default_rng(1)
    scores = [rng.normal(1.0, 1.0, (400, 1)), rng.gamma(2.0, 0.5, (400, 1))]
    y, weights = rng.gamma(2.0, 0.5 * np.maximum(scores[0][:, 0], 0.1)), np.ones(400)
    for name in ("poisson", "gamma", "tweedie"):
        kind = Means.of(FAMILIES[name], y[:, None], weights)
        stack = kind.stack(scores, y, weights)
        joined = np.maximum(stack.join(scores)[:, 0], stack.least)
        assert np.isclose(joined.sum(), y.sum(), rtol=1e-9)
        assert 0.0 < stack.least < y.mean()
        larger = kind.stack([1e6 * F for F in scores], 1e6 * y, weights)
        np.testing.assert_allclose(larger.weights, stack.weights, rtol=1e-3)
