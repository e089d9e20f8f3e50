"""Coverage in simulation: targets with atoms, new groups, counts over exposures."""

import numpy as np
import pytest
from scipy.stats import beta

import tunefree
from tunefree.core.registry import estimator_class
from tunefree.uncertainty.intervals import Residuals, allowance, atoms

DRAWS, NEW = 25, 400


def covered(model, X, y, **terms):
    """The share of targets within their intervals of 90 %."""
    low, high = model.predict_interval(X, **terms)[1][..., 0].T
    return np.mean((y >= low) & (y <= high))


def zeros_and_tens(rng, n):
    """One target in twelve is 10, the others are 0; columns say nothing."""
    return rng.normal(size=(n, 3)), 10.0 * (rng.random(n) < 0.08)


def zeros_and_amounts(rng, n):
    """Amounts that follow a column, or 0."""
    X = rng.normal(size=(n, 3))
    return X, np.exp(X[:, 0] + 0.5 * rng.normal(size=n)) * (rng.random(n) < 0.3)


def grades(rng, n):
    """Four values."""
    X = rng.normal(size=(n, 3))
    return X, np.clip(np.round(X[:, 0] + 1.5 + 0.7 * rng.normal(size=n)), 0.0, 3.0)


@pytest.mark.parametrize("law", [zeros_and_tens, zeros_and_amounts, grades])
@pytest.mark.parametrize(
    "name", ["RidgePathRegressor", "ReflectronRegressor", "PiSTOLRegressor", "KernelRidgeRegressor"]
)
def test_intervals_hold_the_atoms(name, law):
    """Many targets are equal: intervals do not end just beside them (n = 100)."""
    n, found = 100, []
    draws = DRAWS if law is zeros_and_tens else 8
    for seed in range(draws if name != "KernelRidgeRegressor" else 6):
        X, y = law(np.random.default_rng(seed), n + NEW)
        model = estimator_class(name)(random_state=0).fit(X[:n], y[:n])
        found.append(covered(model, X[n:], y[n:]))
    assert np.mean(found) >= 0.87
    # The law of an ideal conformal interval: PiSTOL has half as many rows predicted beforehand.
    rows = n // 2 if name == "PiSTOLRegressor" else n
    rank = int(np.ceil(0.9 * (rows + 1)))
    assert min(found) >= beta.ppf(0.001, rank, rows + 1 - rank) - 0.03


def test_an_atom_is_a_value_that_many_targets_have():
    rng = np.random.default_rng(0)
    w = np.ones(1000)
    assert len(atoms(rng.normal(size=1000), w)) == 0
    y = np.concatenate([np.zeros(50), np.full(30, 2.0), np.ones(10), rng.normal(size=910)])
    np.testing.assert_array_equal(atoms(y, w), [0.0, 2.0])
    # If all predictions have moved by .3, that is what their scores are raised by.
    held_out = rng.normal(size=1000)
    raised = allowance((held_out, y, w), (held_out + 0.3, y, w), atoms(y, w))
    np.testing.assert_allclose(raised[:80], 0.3, atol=1e-5)
    assert not raised[80:].any()


@pytest.mark.parametrize("noise, candidates", [(0.1, ("linear",)), (0.0, "all"), (0.1, "all")])
def test_intervals_hold_rows_of_new_groups(noise, candidates):
    """Sixty groups of five rows, whose columns are equal or near each other."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        A, effect, group = (
            rng.normal(size=(60, 3)),
            rng.normal(size=60),
            np.repeat(np.arange(60), 5),
        )
        X = A[group] + noise * rng.normal(size=(300, 3))
        y = A[group, 0] + effect[group] + 0.1 * rng.normal(size=300)
        new = rng.normal(size=(1000, 3))
        model = tunefree.TuneFreeRegressor(candidates, random_state=0).fit(X, y, groups=group)
        found.append(covered(model, new, new[:, 0] + rng.normal(size=1000)))
    assert abs(np.mean(found) - 0.9) < 0.05


def test_few_groups_set_no_limit():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(80, 2)), np.repeat(np.arange(8), 10)
    model = tunefree.TuneFreeRegressor(candidates=("linear",), random_state=0)
    model.fit(X, X[:, 0] + rng.normal(size=80), groups=group)
    with pytest.warns(UserWarning, match="8 held-out groups are fewer than 1 / alpha - 1"):
        assert np.isinf(model.predict_interval(X)[1]).all()


@pytest.mark.parametrize(
    "model",
    [
        tunefree.BoostedTreesRegressor(loss="poisson", random_state=0),
        tunefree.TuneFreeRegressor(loss="poisson", candidates=("linear",), random_state=0),
    ],
)
def test_few_groups_of_counts_with_an_exposure_set_no_limit(model):
    rng = np.random.default_rng(0)
    X, group, exposure = rng.normal(size=(80, 2)), np.repeat(np.arange(8), 10), np.full(80, 2.0)
    model.fit(X, rng.poisson(exposure), groups=group, exposure=exposure)
    with pytest.warns(UserWarning, match="8 held-out groups are fewer than 1 / alpha - 1"):
        assert np.isinf(model.predict_interval(X, exposure=exposure)[1][:, 1]).all()


def test_intervals_stay_finite_where_most_residuals_are_0():
    """The width is that of the errors, not of the logarithm of 0."""
    rng = np.random.default_rng(0)
    predictions = np.where(rng.random(800) < 0.7, 0.0, rng.uniform(1.0, 100.0, 800))
    y = predictions + np.where(predictions > 0.0, rng.normal(size=800), 0.0)
    part = Residuals.of(predictions, y, np.ones(800), predictions[:, None])
    part = part._replace(allowance=np.full(800, 1e-4))  # of the rounding of atoms
    low, high = part.ends(np.array([0.1]))
    assert (part.sigma * (high - low) < 10.0).all()


def counts(rng, exposure, mean, family):
    """Targets of a family over an exposure."""
    if family == "poisson":
        return rng.poisson(exposure * mean)
    if family == "negative_binomial":
        return rng.poisson(exposure * mean * rng.gamma(2.0, 0.5, len(mean)))
    return rng.gamma(2.0 * exposure, 0.5 * mean) + 1e-9


@pytest.mark.parametrize("family", ["poisson", "negative_binomial", "gamma"])
def test_intervals_of_counts_follow_the_exposure(family):
    """Exposures from e^-2 to e^2: all together, and every fifth of them, is covered."""
    n, every, fifths = 600, [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, exposure = rng.normal(size=(n + 3000, 4)), np.exp(rng.uniform(-2, 2, n + 3000))
        y = counts(rng, exposure, np.exp(0.5 * X[:, 0] + 1.0), family)
        model = tunefree.GLMRegressor(family=family, random_state=0)
        model.fit(X[:n], y[:n], exposure=exposure[:n])
        order = n + np.argsort(exposure[n:])
        parts = np.array_split(order, 5)
        fifths.append([covered(model, X[p], y[p], exposure=exposure[p]) for p in parts])
        every.append(np.mean(fifths[-1]))
    assert 0.88 <= np.mean(every) <= 0.96
    assert np.mean(fifths, axis=0).min() >= 0.86


def test_intervals_of_rows_with_terms_are_in_the_targets_units(tmp_path):
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(500, 2)), rng.uniform(-1, 1, 500)
    trials = rng.integers(1, 20, 500)
    y = rng.binomial(trials, 1.0 / (1.0 + np.exp(-X[:, 0] - offset)))
    terms = {"exposure": trials, "offset": offset}
    model = tunefree.GLMRegressor(family="binomial", random_state=0).fit(X, y, **terms)
    said, ends = model.predict_interval(X, **terms)
    np.testing.assert_array_equal(said, model.predict(X, **terms))
    assert (ends[:, 0] >= 0.0).all() and (ends[:, 1, 0] <= trials).all()
    assert abs(covered(model, X, y, **terms) - 0.9) < 0.05
    assert model.held_out_.targets.max() == y.max()  # counts, not rates
    tunefree.save_model(model, tmp_path / "model")
    again = tunefree.load_model(tmp_path / "model").predict_interval(X, **terms)[1]
    np.testing.assert_array_equal(again, ends)
    # Rows of weight 2 are two rows, and their order is none of our business.
    weights = np.tile([1.0, 2.0], 250)
    twice = np.repeat(np.arange(500), weights.astype(int))[::-1]
    make = tunefree.GLMRegressor(family="poisson", random_state=0)
    one = make.fit(X, y, weights, exposure=trials).predict_interval(X, exposure=trials)[1]
    make.fit(X[twice], y[twice], exposure=trials[twice])
    other = make.predict_interval(X, exposure=trials)[1]
    np.testing.assert_allclose(one, other, rtol=1e-6)
    with pytest.raises(ValueError, match="fitted without exposure="):
        make.fit(X, y).predict_interval(X, exposure=trials)


def test_intervals_about_atoms_count_weights_as_repetitions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = rng.poisson(np.exp(0.5 * X[:, 0])).astype(float)
    weights = rng.integers(0, 4, 150)
    rows = np.repeat(np.arange(150), weights)
    model = tunefree.BoostedTreesRegressor(loss="poisson", random_state=0)
    weighted = model.fit(X, y, sample_weight=weights).predict_interval(X)[1]
    repeated = model.fit(X[rows], y[rows]).predict_interval(X)[1]
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


def test_several_targets_count_weights_as_repetitions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    Y = X @ np.ones((2, 2)) + np.column_stack([rng.normal(size=100), rng.exponential(size=100)])
    weights = rng.integers(0, 4, 100)
    rows = np.repeat(np.arange(100), weights)
    model = tunefree.TuneFreeRegressor(("linear",), random_state=0)
    weighted = model.fit(X, Y, sample_weight=weights)
    p, ends = weighted.predict(X), weighted.risk_interval_
    repeated = model.fit(X[rows], Y[rows])
    np.testing.assert_allclose(p, repeated.predict(X), rtol=1e-9, atol=1e-9)
    assert ends == pytest.approx(repeated.risk_interval_, rel=1e-9)
