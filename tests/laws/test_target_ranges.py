"""Intervals keep the range of the targets, contain their prediction, and cover as before."""

import numpy as np
import pytest

import tunefree
from tunefree.base import uncertainty_mixins
from tunefree.core.registry import estimator_class
from tunefree.uncertainty.ranges import TargetRange

LINEAR = {"candidates": ("linear",)}
MODELS = {
    "stack": ("TuneFreeRegressor", LINEAR),
    "copies": ("TuneFreeRegressor", {"cross_fit": 3, **LINEAR}),
    "quantiles": ("TuneFreeRegressor", {"loss": "quantile", "quantile": [0.1, 0.5, 0.9], **LINEAR}),
    "medians": ("TuneFreeRegressor", {"loss": "absolute_error", **LINEAR}),
    "means of counts": ("TuneFreeRegressor", {"loss": "poisson", **LINEAR}),
    "trees": ("BoostedTreesRegressor", {}),
    "kernel": ("KernelRidgeRegressor", {}),
    "online": ("PiSTOLRegressor", {}),
    "online kernel": ("KernelPiSTOLRegressor", {"gamma": 0.2}),
    "family": ("GLMRegressor", {}),
    "path": ("RidgePathRegressor", {}),
    "mirror": ("ReflectronRegressor", {"link": "identity"}),
}
# Their predictions lie within the range: lines of the others may leave it.
WITHIN = "stack", "copies", "quantiles", "medians", "means of counts", "online kernel", "family"


def drawn(kind, n, seed):
    """Rows, and targets of a kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    mean = np.exp(0.8 * X[:, 0])
    targets = {
        "zeros and amounts": np.where(rng.random(n) < 0.5, 0.0, mean * rng.lognormal(size=n)),
        "counts": rng.poisson(mean),
        "rare counts": rng.poisson(0.06 * mean),
        "shares": rng.beta(2.0 * mean, 1.0),
    }
    return X, np.asarray(targets[kind], dtype=np.float64)


def limits(kind):
    """The lowest and the highest possible target."""
    return 0.0, 1.0 if kind == "shares" else np.inf


KINDS = "zeros and amounts", "counts", "rare counts", "shares"
SLOW = "quantiles", "medians", "means of counts"  # a kind each
PAIRS = [(name, kind) for name in MODELS for kind in KINDS if name not in SLOW]
PAIRS += [*zip(SLOW, KINDS[:3], strict=True)]


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_intervals_keep_the_range_of_targets_and_lose_none(name, kind, tmp_path, monkeypatch):
    cls, parameters = MODELS[name]
    X, y = drawn(kind, 150, seed=1)
    new, target = drawn(kind, 1500, seed=2)
    model = estimator_class(cls)(random_state=0, **parameters).fit(X, y)
    predictions, ends = model.predict_interval(new, alpha=[0.1, 0.3])
    low, high = limits(kind)
    assert (ends >= low).all() and (ends <= high).all()
    if "counts" in kind:
        assert np.array_equal(ends, np.round(ends))
    ends = ends.reshape(len(new), -1, 2, 2)
    middle = predictions.reshape(len(new), -1, 1)
    inside = (ends[:, :, 0] <= middle) & (middle <= ends[:, :, 1])
    is_possible = (middle >= low) & (middle <= high)
    assert inside[is_possible.repeat(2, axis=2)].all()
    if name in WITHIN:
        assert is_possible.all()
    monkeypatch.setattr(uncertainty_mixins, "within_ranges", lambda parts, ends, predictions: ends)
    free = model.predict_interval(new, alpha=[0.1, 0.3])[1].reshape(ends.shape)
    monkeypatch.undo()
    before, after = (
        (each[:, :, 0] <= target[:, None, None]) & (target[:, None, None] <= each[:, :, 1])
        for each in (free, ends)
    )
    assert (before <= after).all()
    if name in ("family", "kernel"):
        tunefree.save_model(model, tmp_path / "model")
        again = tunefree.load_model(tmp_path / "model").predict_interval(new, alpha=[0.1, 0.3])[1]
        np.testing.assert_allclose(again.reshape(ends.shape), ends, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("targets", [np.arange(9.0), np.linspace(0, 1, 7), np.linspace(0.1, 9, 7),
                                     np.array([0.0, 1.0, 1.0]), np.array([-1.0, 3.0])])  # fmt: skip
def test_no_possible_target_leaves_an_interval(targets):
    rng = np.random.default_rng(0)
    range_, middle = TargetRange.of(targets), rng.normal(0.5, 2.0, size=400)
    widths = rng.exponential(size=(2, 400, 3))
    low, high = middle[:, None] - widths[0] + 0.3, middle[:, None] + widths[1]
    kept = range_.of_intervals(np.stack([low, high], axis=1), middle)
    for y in [*targets, *rng.permutation(np.arange(20.0))[:5]]:
        if range_.low <= y <= range_.high:
            before = (low <= y) & (y <= high)
            assert (before <= ((kept[:, 0] <= y) & (y <= kept[:, 1]))).all()


def test_a_range_is_that_of_all_rows_of_positive_weight():
    X, y = drawn("zeros and amounts", 2500, seed=0)
    y[7] = -0.1
    model = tunefree.BoostedTreesRegressor(random_state=0)
    assert model.fit(X, y).predict_interval(X)[1].min() < 0.0
    weights = np.ones(len(y))
    weights[7] = 0.0
    assert model.fit(X, y, sample_weight=weights).predict_interval(X)[1].min() == 0.0


def test_every_target_keeps_its_own_range_and_counts_of_exposures_are_whole():
    X, counts = drawn("counts", 150, seed=0)
    noisy = X[:, 0] + np.random.default_rng(3).normal(size=150)
    Y = np.column_stack([counts, noisy, drawn("shares", 150, seed=0)[1]])
    model = tunefree.TuneFreeRegressor(random_state=0, **LINEAR).fit(X, Y)
    for joint in (False, True):
        ends = model.predict_interval(3.0 * X, joint=joint)[1][..., 0]
        assert ends[:, 0].min() >= 0.0 and np.array_equal(ends[:, 0], np.round(ends[:, 0]))
        assert ends[:, 1].min() < -1.0 and not np.array_equal(ends[:, 1], np.round(ends[:, 1]))
        assert ends[:, 2].min() >= 0.0 and ends[:, 2].max() <= 1.0
    exposure = np.random.default_rng(0).uniform(0.5, 3.0, size=150)
    rates = tunefree.GLMRegressor(family="poisson", random_state=0)
    rates.fit(X, counts, exposure=exposure)
    mean, ends = rates.predict_interval(X, exposure=exposure)
    assert np.array_equal(ends, np.round(ends))
    assert ((ends[:, 0, 0] <= mean) & (mean <= ends[:, 1, 0])).all()


def test_a_range_is_that_of_a_sample_and_of_the_rows_beyond_it():
    shares = TargetRange.of(np.array([0.0, 1.0, 0.5]))
    assert shares.joined(0.0, 1.0) == shares
    assert shares.joined(0.0, 7.0) == (0.0, np.inf, False)
    assert shares.joined(-1.0, 1.0) == (-np.inf, np.inf, False)
    X, y = drawn("zeros and amounts", 200, seed=0)
    model = tunefree.KernelRidgeRegressor(random_state=0).fit_source((X, y))
    assert model.predict_interval(X)[1].min() == 0.0
    model._join_ranges(np.array([[-5.0], [3.0]]))
    assert model.predict_interval(X)[1].min() < 0.0
