"""Rows of one group are not independent: standard errors and intervals count groups."""

import numpy as np
import pytest

from tunefree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    TuneFreeClassifier,
    TuneFreeRegressor,
    load_model,
    save_model,
)
from tunefree.held_out.predictions import weighted_mean
from tunefree.held_out.shrinkage import shrinkage_factor
from tunefree.held_out.stacking import Targets
from tunefree.uncertainty import risk

SIZE = 20


def copied(rng, *arrays):
    """Arrays with `SIZE` copies of every entry in a random order, and the groups of copies."""
    n = len(arrays[0])
    groups = rng.permutation(np.repeat(np.arange(n), SIZE))
    return *(a[groups] for a in arrays), 7 * groups


@pytest.mark.parametrize("seed", range(3))
def test_copies_in_a_group_count_as_one_row(seed):
    rng = np.random.default_rng(seed)
    y, weights = rng.normal(size=(60, 1)), rng.uniform(0.5, 2.0, 60)
    step = 0.3 * y + rng.normal(size=(60, 1))
    many = copied(rng, step, y, weights)
    groups = {"groups": many[-1]}
    one, other = weighted_mean(y[:, 0], weights), weighted_mean(many[1][:, 0], many[2], **groups)
    np.testing.assert_allclose(other, one, rtol=1e-9)
    factor, by_rows = shrinkage_factor(step, y, weights), shrinkage_factor(*many[:3])
    np.testing.assert_allclose(shrinkage_factor(*many[:3], **groups), factor, atol=0.03)
    assert by_rows > factor or factor == 1.0
    ends = risk.held_out(y[:, 0] ** 2, weights, bounded=False)[0]
    of_groups = risk.held_out(many[1][:, 0] ** 2, many[2], bounded=False, **groups)[0]
    np.testing.assert_allclose(of_groups, ends, rtol=1e-9)


def test_a_group_of_its_own_for_every_row_changes_nothing():
    rng = np.random.default_rng(0)
    y, weights = rng.normal(size=(80, 1)), np.ones(80)
    step, own = 0.3 * y + rng.normal(size=(80, 1)), rng.permutation(80)
    for function, arrays in (
        (shrinkage_factor, (step, y, weights)),
        (weighted_mean, (y[:, 0], weights)),
        (Targets(np.ones(1)).stack, ([step, y + rng.normal(size=(80, 1))], y[:, 0], weights)),
    ):
        left, right = function(*arrays), function(*arrays, groups=own)
        for one, other in zip(left, right, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(other, one, rtol=1e-9)


def test_intervals_of_the_risk_cover_where_mistakes_are_those_of_groups():
    covered, of_rows = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(5, 30, size=40)
        groups = np.repeat(np.arange(40), sizes)
        wrong = (rng.random(40) < 0.3).astype(float)[groups]
        low, high = risk.of_groups(wrong, np.ones(len(groups)), groups)
        covered.append(low <= 0.3 <= high)
        low, high = risk.exact(float(wrong.sum()), len(wrong))
        of_rows.append(low <= 0.3 <= high)
    assert np.mean(covered) >= 0.93
    assert np.mean(of_rows) < 0.6
    # Independent rows lose little of their number.
    wrong = (np.random.default_rng(0).random(1000) < 0.3).astype(float)
    low, high = risk.of_groups(wrong, np.ones(1000), np.arange(1000) // 5)
    least, most = risk.exact(float(wrong.sum()), 1000)
    assert high - low < 1.3 * (most - least)


@pytest.mark.parametrize(
    "estimator",
    [BoostedTreesRegressor, BoostedTreesClassifier, TuneFreeRegressor, TuneFreeClassifier],
)
def test_risks_of_fitted_models_count_groups(estimator, tmp_path):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), SIZE)
    X = rng.normal(size=(40, 2))[groups] + 0.1 * rng.normal(size=(800, 2))
    y = X[:, 0] + rng.normal(size=40)[groups]  # an effect of the group
    y = y if estimator.__name__.endswith("Regressor") else (y > 0.0).astype(int)
    linear = {} if estimator.__name__.startswith("Boosted") else {"candidates": ("linear",)}
    model = estimator(random_state=0, **linear).fit(X, y, groups=groups)
    assert "group" in model.risk_interval_kind_
    low, high = model.risk_interval_
    without = estimator(random_state=0, **linear).fit(X, y)
    least, most = without.risk_interval_
    assert high - low > 1.5 * (most - least)
    if linear:
        rows, other = (
            next(r for r in m.leaderboard_ if r["candidate"] == "linear") for m in (model, without)
        )
        assert rows["risk_se"] > 1.5 * other["risk_se"]
    save_model(model, tmp_path / "model")
    assert load_model(tmp_path / "model").risk_interval_ == (low, high)
