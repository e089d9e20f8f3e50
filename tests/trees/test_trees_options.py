"""Laws of boosted trees with quantiles, exposures, groups, signs of columns and several targets."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import KFold

from tunefree import BoostedTreesClassifier, BoostedTreesRegressor, load_model, save_model
from tunefree.parts.families import FAMILIES, Quantile, quantiles
from tunefree.plots import RiskCurveDisplay
from tunefree.trees.bins import bins_of
from tunefree.trees.boosting import RIDGE, BinnedRows, Booster, BoostingOptions
from tunefree.trees.forests import Oblivious
from tunefree.trees.losses import Deviance, QuantileLoss
from tunefree.trees.monotone import below_by_levels, increasing
from tunefree.trees.tree import leaves_of


def problem(n=300, seed=0):
    """Rows with ties and missing values, and a target with noise that grows."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1.0, 1.0, size=(n, 4))
    X[:, 1] = np.round(3.0 * X[:, 1])
    y = np.where(X[:, 0] > 0, 2.0, 0.0) + X[:, 1] + (0.2 + (X[:, 2] > 0)) * random.normal(size=n)
    X[random.random(n) < 0.1, 3] = np.nan
    return X, y


def regressor(loss="squared_error", **options):
    return BoostedTreesRegressor(loss=loss, random_state=0, **options)


# Quantiles.


def booster_of(sample, loss, X, rounds=1, **options):
    """Trees of depth 3 of all rows."""
    shared = BoostingOptions(loss, bins_of(X, sample.weights), 0, **options)
    booster = Booster(sample, sample.part(slice(0, 0)), shared, Oblivious(3))
    booster.run(rounds)
    return booster


def test_a_leaf_steps_towards_the_quantile_of_its_residuals():
    X, y = problem()
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    family = Quantile(0.8)
    sample = BinnedRows(bins_of(X, weights).codes(X), y[:, None], weights)
    columns, thresholds, missing, values = booster_of(sample, QuantileLoss(family), X).trees[0]
    start = quantiles(y[:, None], weights, 0.8)[0]
    leaves = leaves_of(sample.codes, columns, thresholds, missing)
    for leaf in np.unique(leaves):
        rows = leaves == leaf
        mass = weights[rows].sum()
        step = quantiles(y[rows, None] - start, weights[rows], 0.8)[0] * mass / (mass + RIDGE)
        assert values[leaf, 0] == pytest.approx(Oblivious(3).step * step, rel=1e-9)


@pytest.mark.parametrize("compared", [(0.9,), (0.1, 0.5, 0.9)])
def test_several_quantiles_have_the_same_splits_and_do_not_cross(compared):
    X, y = problem(600)
    X_new, y_new = problem(4000, seed=1)
    levels = (0.1, 0.5, 0.9)
    model = regressor("quantile", quantile=levels).fit(X, y)
    assert model.forests_[0].values.shape[2] == 3
    q = model.predict(X_new)
    assert (np.diff(q, axis=1) >= 0.0).all()
    assert np.abs((y_new[:, None] < q).mean(axis=0) - levels).max() < 0.04
    for level in compared:
        p = q[:, levels.index(level)]
        alone = regressor("quantile", quantile=level).fit(X, y).predict(X_new)
        losses = [mean_pinball_loss(y_new, each, alpha=level) for each in (p, alone)]
        assert losses[0] < 1.05 * losses[1]


def test_equal_bits_of_quantiles():
    X, y = problem(120)
    order = np.random.default_rng(5).permutation(len(y))
    before = regressor("quantile", quantile=0.7).fit(X, y).predict(X)
    moved = regressor("quantile", quantile=0.7).fit(X[order], y[order]).predict(X)
    assert (moved == before).all(), "the order of rows"
    twice = np.r_[np.arange(len(y)), np.arange(50)]
    weights = np.where(np.arange(len(y)) < 50, 2.0, 1.0)
    repeated = regressor("quantile", quantile=0.7).fit(X[twice], y[twice]).predict(X)
    weighted = regressor("quantile", quantile=0.7).fit(X, y, sample_weight=weights).predict(X)
    assert (repeated == weighted).all(), "weights repeat rows"
    median = regressor("quantile").fit(X, y).predict(X)
    assert (median == regressor("absolute_error").fit(X, y).predict(X)).all()


@pytest.mark.parametrize("q", [0.1, 0.9])
def test_a_share_q_of_new_targets_is_below_the_quantile(q):
    X, y = problem(5000)
    model = regressor("quantile", quantile=q).fit(X[:1500], y[:1500])
    share = np.mean(y[1500:] <= model.predict(X[1500:]))
    assert abs(share - q) < 0.02 + 3.0 * np.sqrt(q * (1.0 - q) / 3500)
    held = model.held_out_
    assert np.mean(held.targets <= held.predictions) == pytest.approx(q, abs=0.001)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_quantiles_are_as_good_as_a_peers_on_real_data(q):
    X, y = load_diabetes(return_X_y=True)
    losses = []
    for train, out in KFold(3, shuffle=True, random_state=0).split(X):
        peer = HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0)
        models = regressor("quantile", quantile=q), peer
        losses.append([
            mean_pinball_loss(y[out], model.fit(X[train], y[train]).predict(X[out]), alpha=q)
            for model in models
        ])  # fmt: skip
    own, other = np.mean(losses, axis=0)
    assert own < 1.03 * other


def test_targets_that_are_mostly_equal_have_quantiles():
    """Most targets are 0, also the smallest: the trees find the others."""
    X, _ = problem(1000)
    y = np.where(X[:, 0] > 0.3, 1.0 + X[:, 2], 0.0)
    assert np.quantile(y, 0.5) == 0.0
    found = regressor("quantile").fit(X, y).predict(X)
    assert np.abs(found - y).mean() < 0.2 * y.mean()


@pytest.mark.parametrize("q", [0.0, 1.0, None, "0.5"])
def test_levels_are_between_0_and_1(q):
    with pytest.raises(ValueError, match="quantile=.* is neither a number between 0 and 1"):
        regressor("quantile", quantile=q).fit(np.eye(4), np.arange(4.0))


# Exposures and offsets.


def counts(n=400, seed=0):
    """Rows of few values, exposures and counts."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 4, (n, 3)).astype(float)
    exposure = random.integers(1, 5, n).astype(float)
    return X, random.poisson(exposure * np.exp(0.5 * X[:, 0] - 1.0)).astype(float), exposure


def test_an_exposure_repeats_the_row_of_the_rate():
    X, y, exposure = counts()
    model = regressor("poisson").fit(X, y, exposure=exposure)
    each = np.repeat(np.arange(len(y)), exposure.astype(int))
    repeated = regressor("poisson").fit(X[each], (y / exposure)[each])
    rate = model.predict(X, exposure=1.0)
    assert (rate == repeated.predict(X)).all()
    assert (model.predict(X, exposure=exposure) == exposure * rate).all()


def test_counts_of_equal_rows_may_be_added():
    """Counts of unit rows, and their sum with the exposure of all, give the same trees."""
    X, _, exposure = counts()
    each = np.repeat(np.arange(len(X)), exposure.astype(int))
    units = np.random.default_rng(1).poisson(np.exp(0.5 * X[each, 0] - 1.0)).astype(float)
    rates = np.bincount(each, units) / exposure
    loss = Deviance(FAMILIES["poisson"], FAMILIES["poisson"].link)
    bins = bins_of(X, exposure)
    one = BinnedRows(bins.codes(X[each]), units[:, None], np.ones(len(each)))
    other = BinnedRows(bins.codes(X), rates[:, None], exposure)
    trees = [booster_of(sample, loss, X, 20).forest(20).values for sample in (one, other)]
    np.testing.assert_allclose(*trees, rtol=1e-9, atol=1e-12)


def test_an_offset_is_a_known_term_of_the_score():
    """Of Poisson counts the logarithm of the exposure, of squared errors a part of the target."""
    X, y, exposure = counts(1000)
    log = np.log(exposure)
    model = regressor("poisson").fit(X, y, offset=log)
    truth = np.exp(0.5 * X[:, 0] - 1.0)
    assert np.abs(np.log(model.predict(X, offset=0.0) / truth)).mean() < 0.2
    assert np.allclose(model.predict(X, offset=log), exposure * model.predict(X, offset=0.0))
    sample = BinnedRows(np.ones((1, 1000), np.uint8), y[:, None], np.ones(1000), log[:, None])
    start = Deviance(FAMILIES["poisson"], FAMILIES["poisson"].link).start(sample)
    assert np.exp(start[0] + log).sum() == pytest.approx(y.sum())
    shift = np.random.default_rng(0).normal(size=len(y))
    model = regressor().fit(X, truth + shift, offset=shift)
    assert np.abs(model.predict(X, offset=0.0) - truth).max() < 0.2
    assert (model.predict(X, offset=shift) == model.predict(X, offset=0.0) + shift).all()


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_intervals_with_an_exposure_hold_the_targets(loss):
    random = np.random.default_rng(0)
    X, exposure = random.integers(0, 3, (3000, 2)).astype(float), random.uniform(0.5, 8.0, 3000)
    mean = exposure * np.exp(X[:, 0])
    y = random.poisson(mean) if loss == "poisson" else random.gamma(2.0 * exposure, np.exp(X[:, 0]))
    train = slice(0, 1500)
    model = regressor(loss).fit(X[train], y[train], exposure=exposure[train])
    point, ends = model.predict_interval(X[1500:], exposure=exposure[1500:])
    share = np.mean((ends[:, 0, 0] <= y[1500:]) & (y[1500:] <= ends[:, 1, 0]))
    assert share > 0.87
    assert (point == model.predict(X[1500:], exposure=exposure[1500:])).all()
    assert model.score(X[1500:], y[1500:], exposure=exposure[1500:]) > 0.2


def test_terms_that_are_wrong_or_missing_are_named():
    X, y, exposure = counts(40)
    with pytest.raises(ValueError, match="exposure must be positive and finite, and holds 0"):
        regressor("poisson").fit(X, y, exposure=0.0 * exposure)
    with pytest.raises(ValueError, match="offset has 3 numbers, but X has 40 rows"):
        regressor("poisson").fit(X, y, offset=exposure[:3])
    with pytest.raises(ValueError, match="takes no exposure="):
        regressor("quantile").fit(X, y, exposure=exposure)
    model = regressor("poisson").fit(X, y, exposure=exposure)
    with pytest.raises(ValueError, match="was fitted with exposure=: give exposure="):
        model.predict_interval(X)
    with pytest.raises(ValueError, match="was fitted without offset="):
        model.predict_interval(X, exposure=exposure, offset=exposure)


# Groups.


@pytest.mark.parametrize("make", [BoostedTreesRegressor, BoostedTreesClassifier])
def test_groups_are_held_out_as_a_whole(make):
    """Rows that repeat within their group do not let it choose more rounds."""
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 10)
    X, y = random.normal(size=(60, 3))[groups], random.normal(size=60)[groups]
    X += 1e-3 * random.normal(size=X.shape)
    y = y if make is BoostedTreesRegressor else (y > 0).astype(int)
    alone, whole = (make(random_state=0).fit(X, y, groups=g) for g in (None, groups))
    assert whole.n_iter_.sum() < 0.2 * alone.n_iter_.sum()
    if make is BoostedTreesRegressor:  # the groups are the units of the interval's rank
        assert {part.n_groups for part in whole.held_out_} == {60}


def test_equal_rows_of_different_groups_are_not_merged():
    X, y = np.tile(np.arange(20.0), 3)[:, None], np.tile(np.arange(20.0), 3)
    model = regressor().fit(X, y, groups=np.repeat(["a", "b", "c"], 20))
    assert len(model.held_out_[0].residuals) == 60
    renamed = regressor().fit(X, y, groups=np.repeat([5, 7, 9], 20))
    assert (model.predict(X) == renamed.predict(X)).all()


def test_one_group_cannot_be_held_out():
    with pytest.raises(ValueError, match="groups= has one group only"):
        regressor().fit(np.eye(4), np.arange(4.0), groups=np.zeros(4))
    with pytest.raises(ValueError, match="groups= has one group of every class only"):
        BoostedTreesClassifier().fit(np.eye(4), [0, 0, 1, 1], groups=[0, 0, 1, 1])
    with pytest.raises(ValueError, match="groups has 3 values, but X has 4 rows"):
        regressor().fit(np.eye(4), np.arange(4.0), groups=np.zeros(3))


# Signs of columns.


@pytest.mark.parametrize("signs", [[0, 1], [0, -1], [1, -1]])
def test_leaf_values_keep_the_order(signs):
    """Every leaf below another has at most its value; values in order stay as they are."""
    random, signs = np.random.default_rng(0), np.array(signs)
    bits = (np.arange(16)[:, None] >> np.array([3, 2, 1, 0])) & 1
    for _ in range(20):
        columns, filled = random.integers(0, 2, 4), random.random(16) < 0.7
        order = below_by_levels(columns, signs)
        found = increasing(random.normal(size=(16, 1)), order, filled)
        change = bits[None] - bits[:, None]
        below = ((change == 0) | (change == signs[columns])).all(axis=2)
        gaps = found[:, 0][None] - found
        assert (gaps[below] >= 0.0).all()
        again = increasing(found, order, filled)
        np.testing.assert_array_equal(again[filled], found[filled])


def grid(X, column, n=60):
    """Rows in which a column takes many values in order, of shape (rows, values, columns)."""
    out = np.repeat(X[:, None], n, axis=1)
    out[:, :, column] = np.linspace(-1.5, 1.5, n)
    return out


@pytest.mark.parametrize("kind", ["squared_error", "poisson", "quantile", "class"])
def test_predictions_are_monotone(kind):
    random = np.random.default_rng(0)
    X = np.round(random.uniform(-1.0, 1.0, (400, 4)), 1)
    y = np.sin(4.0 * X[:, 0]) - X[:, 1] + X[:, 2] * X[:, 0] + random.normal(size=400)
    X[random.random(X.shape) < 0.1] = np.nan
    signs = np.array([1, -1, 0, 0])
    if kind == "class":
        model = BoostedTreesClassifier(monotonic_cst=signs, random_state=0).fit(X, y > 0)
        predict = model.decision_function
    else:
        model = regressor(kind, monotonic_cst=signs)
        model.fit(X, np.exp(y) if kind == "poisson" else y)
        predict = model.predict
    for column in (0, 1):
        rows = grid(X[:100], column)
        values = predict(rows.reshape(-1, 4)).reshape(rows.shape[:2])
        assert (signs[column] * np.diff(values, axis=1) >= 0.0).all()
        assert np.ptp(values) > 0.0
    free = predict(grid(X[:100], 2).reshape(-1, 4)).reshape(100, -1)
    assert (np.diff(free, axis=1) > 0.0).any() and (np.diff(free, axis=1) < 0.0).any()


@pytest.mark.parametrize("n_draws", [1, 4])
def test_signs_cost_nothing_where_the_truth_has_them(n_draws):
    random, losses = np.random.default_rng(0), []
    for _ in range(n_draws):
        X = random.uniform(-1.0, 1.0, (1300, 4))
        mean = np.exp(X[:, 0]) - 2.0 * (X[:, 1] > 0.2) + X[:, 2] * X[:, 3]
        y = mean + 0.5 * random.normal(size=1300)
        models = [regressor(monotonic_cst=s).fit(X[:300], y[:300]) for s in (None, [1, -1, 0, 0])]
        losses.append([np.square(m.predict(X[300:]) - mean[300:]).mean() for m in models])
    free, signed = np.mean(losses, axis=0)
    assert signed < 1.05 * free


def test_signs_by_name_and_wrong_ones():
    pandas = pytest.importorskip("pandas")
    X, y = problem()
    frame = pandas.DataFrame(X, columns=list("abcd"))
    named = regressor(monotonic_cst={"a": 1}).fit(frame, y).predict(frame)
    assert (named == regressor(monotonic_cst=[1, 0, 0, 0]).fit(X, y).predict(X)).all()
    with pytest.raises(ValueError, match="needs one target, one quantile or two classes"):
        regressor(monotonic_cst=[1, 0, 0, 0]).fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="needs one target, one quantile or two classes"):
        labels = np.digitize(y, [0.0, 1.0])
        BoostedTreesClassifier(monotonic_cst=[1, 0, 0, 0]).fit(X, labels)
    for wrong in ([1, 0], [2, 0, 0, 0], {"z": 1}):
        with pytest.raises(ValueError, match="monotonic_cst"):
            regressor(monotonic_cst=wrong).fit(frame, y)


# Several targets.


def test_units_of_targets_do_not_matter():
    X, y = problem(120)
    Y = np.c_[y, np.sin(3.0 * X[:, 0]), X[:, 1] * X[:, 0]]
    Y[:, 1:] += np.random.default_rng(1).normal(size=(len(y), 2))
    before = regressor().fit(X, Y)
    units = np.array([1.0, 1000.0, 1.0])
    after = regressor().fit(X, Y * units)
    np.testing.assert_allclose(after.predict(X) / units, before.predict(X), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(after.feature_relevances_, before.feature_relevances_)
    shifted = regressor().fit(X, Y + [0.0, 50.0, 0.0]).predict(X) - [0.0, 50.0, 0.0]
    np.testing.assert_allclose(shifted, before.predict(X), rtol=1e-6, atol=1e-9)


def test_several_targets_have_intervals_and_constants_are_learned(tmp_path):
    X, y = problem(2000)
    Y = np.c_[y, 3.0 - y, np.full(len(y), 7.0)]
    model = regressor().fit(X[:1000], Y[:1000])
    point, ends = model.predict_interval(X[1000:])
    assert point.shape == (1000, 3) and ends.shape == (1000, 3, 2, 1)
    inside = (ends[:, :, 0, 0] <= Y[1000:]) & (Y[1000:] <= ends[:, :, 1, 0])
    assert (inside[:, :2].mean(axis=0) > 0.86).all()
    assert point[:, 2] == pytest.approx(7.0)
    assert model.score(X[1000:, :], Y[1000:]) > 0.6
    save_model(model, tmp_path / "model")
    assert (load_model(tmp_path / "model").predict(X) == model.predict(X)).all()
    column = regressor().fit(X[:300], y[:300, None]).predict(X)
    assert (column[:, 0] == regressor().fit(X[:300], y[:300]).predict(X)).all()
    with pytest.raises(ValueError, match="loss='poisson' is for one target, and y has 3"):
        regressor("poisson").fit(X, np.exp(Y))


# The rounds.


def test_the_trace_has_the_held_out_loss_of_every_round():
    X, y = problem()
    model = regressor().fit(X, y)
    curves = model.trace_["held_risk"]
    for (name, curve), n_trees in zip(curves.items(), model.n_iter_, strict=True):
        assert np.argmin(curve) == n_trees < len(curve), name
    assert set(curves) <= {"depth 3", "depth 6"}
    assert all(curve[0] == pytest.approx(np.var(y), rel=0.05) for curve in curves.values())
    display = RiskCurveDisplay.from_estimator(model)
    assert list(display.curves) == list(curves)


def test_a_callback_ends_the_rounds():
    callback = pytest.importorskip("sklearn.callback")
    X, y = problem()

    class Stop(callback.FitCallback if hasattr(callback, "FitCallback") else object):
        def __init__(self):
            self.ended = 0

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, *, X=None):
            pass

        def on_fit_task_end(self, estimator, context, *, metadata=None, fitted_estimator=None):
            self.ended += context.task_name == "rounds"
            return True

    stop = Stop()
    model = regressor(n_jobs=1).set_callbacks(stop).fit(X, y)
    assert stop.ended == 2
    assert {len(curve) for curve in model.trace_["held_risk"].values()} == {31}
