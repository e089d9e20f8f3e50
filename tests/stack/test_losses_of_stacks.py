"""Laws of `TuneFree*` with quantiles, robust losses, exposures and monotone columns."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import linprog
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, mean_pinball_loss
from sklearn.model_selection import KFold

from tunefree import (
    BoostedTreesRegressor,
    GLMRegressor,
    TuneFreeClassifier,
    TuneFreeRegressor,
    load_model,
    save_model,
)
from tunefree.held_out.stacking import Quantiles, RobustMeans
from tunefree.parts.families import HuberT, Quantile

LEVELS = (0.1, 0.5, 0.9)
FAST = ("linear", "trees")


def rows(n, seed=0):
    """Rows whose noise grows with a column, and the quantiles of the levels 0.1 and 0.9."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1.0, 1.0, size=(n, 3))
    scale = 0.2 + 0.8 * (X[:, 1] > 0.0)
    mean = np.sin(3.0 * X[:, 0])
    return X, mean + scale * random.normal(size=n), mean, scale


def regressor(loss="squared_error", **options):
    return TuneFreeRegressor(loss=loss, random_state=0, **options)


# Quantiles.


def test_each_quantile_is_above_its_share_of_new_rows():
    X, y, *_ = rows(600)
    X_new, y_new, mean, scale = rows(4000, seed=1)
    model = regressor("quantile", quantile=LEVELS).fit(X, y)
    q = model.predict(X_new)
    assert q.shape == (4000, 3) and (np.diff(q, axis=1) >= 0.0).all()
    assert np.abs((y_new[:, None] < q).mean(axis=0) - LEVELS).max() < 0.035
    assert np.abs(q[:, 2] - q[:, 0] - 2.563 * scale).mean() < 0.35 * scale.mean()
    known = mean_pinball_loss(y_new, mean + 1.2816 * scale, alpha=0.9)
    assert mean_pinball_loss(y_new, q[:, 2], alpha=0.9) < 1.12 * known


@pytest.mark.parametrize("candidates, n_folds", [(FAST, 1), ("all", 4)])
def test_a_quantile_is_no_worse_than_trees_at_their_defaults_on_real_data(candidates, n_folds):
    X, y = load_diabetes(return_X_y=True)
    ours, theirs = [], []
    for train, out in [*KFold(4, shuffle=True, random_state=0).split(X)][:n_folds]:
        models = (
            regressor("quantile", quantile=0.9, candidates=candidates),
            HistGradientBoostingRegressor(loss="quantile", quantile=0.9, random_state=0),
        )
        for model, losses in zip(models, (ours, theirs), strict=True):
            p = model.fit(X[train], y[train]).predict(X[out])
            losses.append(mean_pinball_loss(y[out], p, alpha=0.9))
    assert np.mean(ours) < np.mean(theirs)


def test_the_weights_minimize_the_pinball_loss():
    """Beside the exact minimum, a linear program."""
    random = np.random.default_rng(0)
    n, m, q = 300, 3, 0.8
    F = random.normal(size=(n, m))
    y = F @ [0.7, 0.4, -0.5] + random.normal(size=n) * np.where(F[:, 0] > 0, 2.0, 0.5)
    weights = random.integers(1, 4, n).astype(float)
    stack = Quantiles(Quantile(q)).stack([F[:, [j]] for j in range(m)], y, weights)
    cost = np.concatenate([np.zeros(m + 1), q * weights, (1.0 - q) * weights])
    A = np.hstack([F, np.ones((n, 1)), np.eye(n), -np.eye(n)])
    bounds = [(0, None)] * m + [(None, None)] + [(0, None)] * (2 * n)
    least = linprog(cost, A_eq=A, b_eq=y, bounds=bounds).fun / weights.sum()
    assert stack.weights.min() >= 0.0 and stack.weights[2, 0] == 0.0
    assert least <= np.average(stack.losses, weights=weights) < 1.005 * least


@pytest.mark.parametrize("candidates, n_draws", [(FAST, 1), ("all", 5)])
def test_quantiles_of_noise_are_nearly_those_of_the_targets(candidates, n_draws):
    ratios = []
    for seed in range(n_draws):
        random = np.random.default_rng(seed)
        X, y, X_new = (random.normal(size=shape) for shape in ((300, 5), 300, (2000, 5)))
        y_new = random.normal(size=2000)
        model = regressor("quantile", quantile=0.9, candidates=candidates)
        q = model.fit(X, y).predict(X_new)
        constant = np.full(2000, np.quantile(y, 0.9))
        losses = [mean_pinball_loss(y_new, p, alpha=0.9) for p in (q, constant)]
        ratios.append(losses[0] / losses[1])
    assert np.mean(ratios) < 1.02


@pytest.mark.parametrize("candidates", [("trees",), "all"])
def test_equal_bits_for_order_weights_and_threads(candidates):
    X, y, *_ = rows(120)
    twice = np.concatenate([np.arange(120), np.arange(50)])
    weights = np.where(np.arange(120) < 50, 2.0, 1.0)
    options = {"quantile": LEVELS, "candidates": candidates}
    one = regressor("quantile", **options).fit(X, y, sample_weight=weights)
    for other in (
        regressor("quantile", n_jobs=1, **options).fit(X[twice], y[twice]),
        regressor("quantile", **options).fit(X[::-1], y[::-1], sample_weight=weights[::-1]),
    ):
        assert (one.predict(X) == other.predict(X)).all()


def test_the_score_is_d2_of_the_pinball_loss():
    X, y, *_ = rows(200)
    model = regressor("quantile", quantile=0.9, candidates=FAST).fit(X, y)
    expected = d2_pinball_score(y, model.predict(X), alpha=0.9)
    assert model.score(X, y) == pytest.approx(expected, abs=1e-9)
    assert {r["loss"] for r in model.leaderboard_} == {"pinball loss"}


def test_quantiles_take_tables_and_model_files(tmp_path):
    X, y, *_ = rows(300)
    level = np.where(X[:, 1] > 0, "wide", "narrow")
    frame = pd.DataFrame({"a": X[:, 0], "level": pd.Categorical(level)})
    model = regressor("quantile", quantile=LEVELS).fit(frame, y)
    width = np.ptp(model.predict(frame), axis=1)
    assert width[level == "wide"].mean() > 2.0 * width[level == "narrow"].mean()
    save_model(model, tmp_path / "model")
    assert (load_model(tmp_path / "model").predict(frame) == model.predict(frame)).all()


@pytest.mark.parametrize("make", [BoostedTreesRegressor, TuneFreeRegressor])
def test_intervals_about_quantiles_cover_targets_that_are_mostly_equal(make):
    """Half of the targets are 0: every interval of 9 in 10 holds as many of them."""
    X, y, *_ = rows(400)
    y = np.maximum(y, 0.0)
    model = make(loss="quantile", quantile=LEVELS, random_state=0).fit(X, y)
    X, y, *_ = rows(3000, seed=1)
    y = np.maximum(y, 0.0)
    q, ends = model.predict_interval(X)
    assert q.shape == (3000, 3) and ends.shape == (3000, 3, 2, 1)
    inside = (y[:, None] >= ends[:, :, 0, 0]) & (y[:, None] <= ends[:, :, 1, 0])
    assert (inside.mean(axis=0) > 0.87).all()


# Losses for outliers.


@pytest.mark.parametrize("candidates", [("trees",), "all"])
def test_outliers_do_not_change_robust_predictions(candidates):
    X, y, mean, _ = rows(500)
    random = np.random.default_rng(1)
    y = mean + 0.2 * random.normal(size=500)
    far = random.random(500) < 0.08
    y[far] += 15.0

    def gap(loss):
        model = regressor(loss, candidates=candidates).fit(X, y)
        return np.square(model.predict(X) - mean).mean()

    square = gap("squared_error")
    assert gap("huber") < 0.1 * square and gap("absolute_error") < 0.1 * square


def test_the_weights_minimize_hubers_loss():
    random = np.random.default_rng(0)
    F = random.normal(size=(200, 2))
    y, family = F @ [1.0, 0.5] + random.standard_t(2, size=200), HuberT(scale=0.7)
    score = RobustMeans(family)
    stack = score.stack([F[:, [0]], F[:, [1]]], y, np.ones(200))
    least = stack.losses.mean()
    for _ in range(50):
        near = stack.weights + 0.1 * random.normal(size=stack.weights.shape)
        other = stack._replace(weights=near, offsets=stack.offsets + 0.1 * random.normal())
        assert score.losses(other.join([F[:, [0]], F[:, [1]]]), y).mean() >= least - 1e-9


def test_the_scale_of_hubers_loss_is_that_of_held_out_errors():
    X, y, mean, _ = rows(600)
    y = mean + 0.3 * np.random.default_rng(1).normal(size=600)
    model = regressor("huber").fit(X, y)
    assert model.family_.scale == pytest.approx(0.3, rel=0.15)
    assert model.leaderboard_[0]["loss"] == "Huber loss"


# Exposures.


def counts(n, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-1.0, 1.0, size=(n, 3))
    exposure = np.exp(random.uniform(-2.0, 2.0, size=n))
    mean = exposure * np.exp(1.0 + np.sin(3.0 * X[:, 0]))
    return X, random.poisson(mean), exposure, mean


@pytest.mark.parametrize("loss", ["absolute_error", "huber", "poisson", "gamma", "tweedie"])
@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_the_unit_of_targets_makes_no_difference(loss, unit):
    X, y, *_ = rows(120)
    y = y if loss in ("absolute_error", "huber") else np.exp(y)
    model = regressor(loss, candidates=("kernel",))
    p = model.fit(X, y).predict(X)
    assert np.corrcoef(p, y)[0, 1] > 0.5
    assert model.fit(X, unit * y).predict(X) == pytest.approx(unit * p, rel=1e-6)


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_an_exposure_may_be_in_years_or_in_seconds(loss):
    X, y, exposure, _ = counts(150)
    model = regressor(loss, candidates=("kernel",))
    p = model.fit(X, y, exposure=exposure).predict(X, exposure=exposure)
    seconds = 2.0**25 * exposure
    same = model.fit(X, y, exposure=seconds).predict(X, exposure=seconds)
    assert same == pytest.approx(p, rel=1e-6)


def test_counts_over_an_exposure_are_weighted_rates():
    X, y, exposure, _ = counts(200)
    one = regressor("poisson").fit(X, y, exposure=exposure)
    other = regressor("poisson").fit(X, y / exposure, sample_weight=exposure)
    assert (one.predict(X, exposure=1.0) == other.predict(X)).all()
    assert one.predict(X, exposure) == pytest.approx(exposure * other.predict(X), rel=1e-12)


def test_intervals_of_counts_hold_them():
    X, y, exposure, _ = counts(800)
    model = regressor("poisson").fit(X, y, exposure=exposure)
    X, y, exposure, mean = counts(4000, seed=1)
    p, ends = model.predict_interval(X, exposure=exposure)
    inside = (y >= ends[:, 0, 0]) & (y <= ends[:, 1, 0])
    assert abs(inside.mean() - 0.9) < 0.04
    assert abs(inside[exposure > np.median(exposure)].mean() - 0.9) < 0.06
    assert np.abs(p / mean - 1.0).mean() < 0.12
    assert model.score(X, y, exposure=exposure) > 0.9 * _d2(y, mean, exposure)


def _d2(y, mean, exposure):
    return d2_tweedie_score(y / exposure, mean / exposure, sample_weight=exposure, power=1)


def test_an_exposure_is_refused_where_it_means_nothing():
    X, y, exposure, _ = counts(100)
    for loss in ("squared_error", "absolute_error", "quantile", "huber"):
        with pytest.raises(ValueError, match="takes no exposure="):
            regressor(loss).fit(X, y, exposure=exposure)
    with pytest.raises(ValueError, match="cross_fit= exclude"):
        regressor("poisson", cross_fit=2).fit(X, y, exposure=exposure)
    model = regressor("poisson", candidates=FAST).fit(X, y, exposure=exposure)
    with pytest.raises(ValueError, match="give exposure= for these rows"):
        model.predict_interval(X)


# Monotone columns.


@pytest.mark.parametrize("make", [TuneFreeRegressor, TuneFreeClassifier])
def test_predictions_increase_with_monotone_columns(make):
    X, y, *_ = rows(400)
    y = y + X[:, 2] if make is TuneFreeRegressor else y + X[:, 2] > 0.0
    model = make(monotonic_cst=[0, 0, 1], random_state=0).fit(X, y)
    grid = np.repeat(X[:40], 30, axis=0)
    grid[:, 2] = np.tile(np.linspace(-1.5, 1.5, 30), 40)
    p = model.predict(grid) if make is TuneFreeRegressor else model.predict_proba(grid)[:, 1]
    steps = np.diff(p.reshape(40, 30), axis=1)
    assert steps.min() >= 0.0 and steps.max() > 0.0
    assert set(model.chosen_) <= {"boosted trees", "GLM, monotone"}


def test_signs_by_name_are_of_columns_of_numbers():
    X, y, *_ = rows(200)
    frame = pd.DataFrame(X, columns=list("abc")).assign(level=pd.Categorical(list("xy") * 100))
    model = regressor(monotonic_cst={"b": -1}).fit(frame, y - X[:, 1])
    lower = model.predict(frame.assign(b=frame["b"] - 0.3))
    assert (lower >= model.predict(frame)).all()
    with pytest.raises(ValueError, match="'level' is a category column"):
        regressor(monotonic_cst={"level": 1}).fit(frame, y)
    with pytest.raises(ValueError, match="needs two classes: y has 3"):
        TuneFreeClassifier(monotonic_cst=[1, 0, 0]).fit(X, np.arange(200) % 3)


@pytest.mark.parametrize("loss", ["huber", "absolute_error", "quantile"])
def test_sparse_rows_and_single_precision_predict_nearly_the_same(loss):
    X, y, *_ = rows(200)
    X[np.abs(X) < 0.4] = 0.0
    single, csr = X.astype(np.float32), sparse.csr_array(X)
    wide = sparse.csr_matrix(csr)
    wide.indices = wide.indices.astype(np.int64)
    one, *others = (
        regressor(loss, candidates=FAST).fit(Z, y).predict(Z) for Z in (X, single, csr, wide)
    )
    assert np.abs(one - others[0]).max() < 0.05 * np.ptp(y)
    assert np.corrcoef(one, others[1])[0, 1] > 0.97  # sparse rows have other linear candidates
    assert (others[1] == others[2]).all()


# Several labels.


def test_several_labels_are_a_model_each(tmp_path):
    X, y, mean, _ = rows(100)
    noise = 0.5 * np.random.default_rng(1).normal(size=(100, 2))
    labels = np.column_stack([y > 0.0, X[:, 1] > noise[:, 0], mean > noise[:, 1]]).astype(int)
    model = TuneFreeClassifier(("linear",), random_state=0).fit(X, labels)
    alone = TuneFreeClassifier(("linear",), random_state=0).fit(X, labels[:, 1])
    assert (model.predict_proba(X)[:, 1] == alone.predict_proba(X)[:, 1]).all()
    assert (model.predict(X) == (model.predict_proba(X) > 0.5)).all()
    sparse_labels = TuneFreeClassifier(("linear",), random_state=0).fit(X, sparse.csr_array(labels))
    assert (sparse_labels.predict(X) == model.predict(X)).all()
    save_model(model, tmp_path / "model")
    assert (load_model(tmp_path / "model").predict(X) == model.predict(X)).all()
    assert len(alone.fit(X, labels).report_) == 3  # that of the one label is forgotten
    alone.set_params(scoring="accuracy").fit(X, labels[:, 1])
    fresh = TuneFreeClassifier(("linear",), scoring="accuracy", random_state=0)
    assert not hasattr(alone, "label_models_")
    assert alone.report_.reason == fresh.fit(X, labels[:, 1]).report_.reason
    with pytest.raises(ValueError, match="Column 2 of y has one class only"):
        model.fit(X, labels * [1, 1, 0])
    with pytest.raises(ValueError, match="columns that are not 0 and 1"):
        model.fit(X, labels * 2 + [0, 1, 2])


def test_a_glm_of_a_stack_has_tables_of_rows_that_are_given():
    X, y, _, _ = counts(150)
    model = regressor("poisson", candidates=("linear",)).fit(X, y)
    (glm,) = (one for one in model.models_ if isinstance(one, GLMRegressor))
    with pytest.raises(ValueError, match="give X and y"):
        glm.coef_interval()
    alone = GLMRegressor(family="poisson", random_state=0).fit(X, y)
    given, kept = glm.coef_interval(X, y), alone.coef_interval()
    for part, own in zip(given, kept, strict=True):
        np.testing.assert_allclose(np.hstack([*part]), np.hstack([*own]), rtol=1e-6)
