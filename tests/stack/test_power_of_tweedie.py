"""The power of Tweedie's loss is that of maximum likelihood, for trees and for stacks."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tunefree import BoostedTreesRegressor, TuneFreeRegressor, load_model, save_model
from tunefree.parts.families import Tweedie


def amounts(n, power, seed=0, over=1.0):
    """Rows, and Poisson numbers of gamma amounts whose mean has steps and an interaction."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    mean = np.exp(1.2 * (X[:, 0] > 0.0) + 0.6 * np.abs(X[:, 1]) - 0.5 * (X[:, 1] * X[:, 2] > 0.0))
    return X, drawn(rng, mean, power, 1.0 / over)


def drawn(rng, mean, power, dispersion):
    """Targets of Tweedie's distribution, as sums of gamma amounts."""
    number = rng.poisson(mean ** (2.0 - power) / (dispersion * (2.0 - power)))
    shape = np.where(number > 0, number * (2.0 - power) / (power - 1.0), 1.0)
    scale = dispersion * (power - 1.0) * mean ** (power - 1.0)
    return rng.gamma(shape) * scale * (number > 0)


def trees():
    return BoostedTreesRegressor(loss="tweedie", random_state=0)


def stack(**settings):
    return TuneFreeRegressor(loss="tweedie", candidates=["linear"], random_state=0, **settings)


@pytest.mark.parametrize(
    ("power", "n", "n_draws"), [(1.2, 1000, 1), (1.2, 1000, 2), (1.5, 1000, 2), (1.8, 4000, 2)]
)
def test_the_power_is_near_the_truth(power, n, n_draws):
    """Also where no generalized linear model is true."""
    draws = (amounts(n, power, seed) for seed in range(n_draws))
    found = [trees()._likely_family(*draw, None, None) for draw in draws]
    assert abs(np.mean([family.power for family in found]) - power) < 0.05


def test_the_power_of_an_exposure_is_that_of_rates_with_precisions():
    over = np.random.default_rng(1).uniform(0.1, 1.0, 1000)
    X, rates = amounts(1000, 1.6, over=over)
    family = trees()._likely_family(X, rates * over, None, over)
    assert abs(family.power - 1.6) < 0.05
    few = slice(0, 120)
    rows, paid, months = X[few], (rates * over)[few], over[few]
    model, weighed = trees(), trees()
    model.fit(rows, paid, exposure=months)
    weighed.fit(rows, rates[few], sample_weight=months)
    assert model.family_ == weighed.family_
    joined = stack().fit(rows, paid, exposure=months)
    alone = trees()._likely_family(rows, paid, None, months)
    assert joined.family_.power == pytest.approx(alone.power, abs=1e-3)


def test_equal_rows_give_equal_bits(tmp_path):
    X, y = amounts(60, 1.4)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    order = np.random.default_rng(2).permutation(len(y))
    shuffled = frame.iloc[order]
    others = [pl.from_pandas(shuffled), pa.Table.from_pandas(shuffled, preserve_index=False)]
    for make, rows in zip((trees, stack), others, strict=True):
        first, model = make().fit(frame, y), make().fit(rows, y[order])
        assert model.family_ == first.family_
        np.testing.assert_array_equal(model.predict(frame), first.predict(frame))
    save_model(first, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.family_ == first.family_
    np.testing.assert_array_equal(loaded.predict(frame), first.predict(frame))


def test_a_power_that_is_named_stays():
    X, y = amounts(300, 1.4)
    named = BoostedTreesRegressor(loss=Tweedie(1.7), random_state=0).fit(X, y)
    assert named.family_ == Tweedie(1.7)
    whole = TuneFreeRegressor(loss=Tweedie(1.7), candidates=["trees"], random_state=0).fit(X, y)
    assert whole.family_ == Tweedie(1.7)
    assert whole.models_[0].loss == Tweedie(1.7)


def test_trees_of_a_stack_learn_by_its_power():
    X, y = amounts(300, 1.4)
    model = TuneFreeRegressor(loss="tweedie", candidates=["trees"], random_state=0).fit(X, y)
    assert model.models_[0].family_ == model.family_
    assert model.family_.power not in (None, 1.5)


@pytest.mark.parametrize("y", [[2.0, 2.0, 2.0, 2.0], [0.0, 3.0]])
def test_a_few_equal_targets_have_a_model_though_no_power(y):
    X = np.arange(len(y), dtype=float)[:, None]
    assert np.isfinite(trees().fit(X, y).predict(X)).all()
