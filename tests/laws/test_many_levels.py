"""Columns whose levels are many: shops, zip codes, players; their mean targets are a number.

Laws: what no row may know (its own target, or on noise anything at all), what the number is (the
credibility mean of Bühlmann and Straub), and that the answer is the same in every container, order
of rows, file and export.
"""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from sklearn.metrics import log_loss

from tunefree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    TuneFreeClassifier,
    TuneFreeRegressor,
    load_model,
    save_model,
)
from tunefree.onnx import to_scorer
from tunefree.rows.level_means import LevelMeans, RareLevels, random_order, targets_of_means
from tunefree.serve import Scorer

REGRESSORS = [TuneFreeRegressor, BoostedTreesRegressor]
CLASSIFIERS = [TuneFreeClassifier, BoostedTreesClassifier]
NOISE = 0.3


def shops(n, n_levels, seed=0):
    """A table with a column of many levels, and targets that depend on it and on a number."""
    rng = np.random.default_rng(seed)
    shop, effect, a = rng.integers(0, n_levels, n), rng.normal(size=n_levels), rng.normal(size=n)
    X = pd.DataFrame({"shop": [f"shop{k}" for k in shop], "a": a})
    return X, effect[shop] + a + NOISE * rng.normal(size=n)


def duplicates(n, n_levels, seed):
    """Rows of which many are equal: the level is also there as a number. Targets are noise."""
    rng = np.random.default_rng(seed)
    k = rng.integers(0, n_levels, n)
    X = pd.DataFrame({"id": [f"u{i}" for i in k], "number": k.astype(float)})
    return X, rng.normal(size=n), (rng.random(n) < 0.3).astype(int)


@pytest.mark.parametrize("model", REGRESSORS)
@pytest.mark.parametrize(("n", "n_levels"), [(700, 170), (2400, 700)])
def test_an_effect_of_each_level_is_learned(model, n, n_levels):
    X, y = shops(2 * n, n_levels)
    with warnings.catch_warnings(action="error"):  # the column is neither dropped nor one level
        fitted = model(random_state=0).fit(X[:n], y[:n])
    # What is unknown of an effect of variance 1, of which W noisy rows were seen.
    n_seen = X["shop"][n:].map(X["shop"][:n].value_counts()).fillna(0).to_numpy()
    least = np.mean(NOISE**2 / (NOISE**2 + n_seen)) + NOISE**2
    error = np.mean((fitted.predict(X[n:]) - y[n:]) ** 2)
    assert error < 3.0 * least < 0.5 * y.var()


@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")
@pytest.mark.parametrize("seed", range(4))
def test_noise_is_not_learned(seed):
    """No row knows its own target, directly or by the means of equal rows."""
    n, n_levels = [(400, 130), (1000, 400), (2000, 700), (1000, 90)][seed]
    X, y, labels = duplicates(2 * n, n_levels, seed)
    for model in REGRESSORS:
        error = np.mean((model(random_state=0).fit(X[:n], y[:n]).predict(X[n:]) - y[n:]) ** 2)
        assert error < 1.1 * y[n:].var()
    constant = log_loss(labels[n:], np.full(n, labels[:n].mean()))
    for model in CLASSIFIERS:
        found = model(random_state=0).fit(X[:n], labels[:n])
        assert log_loss(labels[n:], found.predict_proba(X[n:])) < 1.05 * constant


@pytest.mark.parametrize("n", [800, 3000])
def test_held_out_losses_of_stacks_are_those_of_new_rows(n):
    """Means of few rows are learned, those of all are predicted by: they err to the safe side."""
    X, y = shops(n + 4000, n // 6)
    fitted = TuneFreeRegressor(random_state=0).fit(X[:n], y[:n])
    error = np.mean((fitted.predict(X[n:]) - y[n:]) ** 2)
    best = min(row["risk"] for row in fitted.leaderboard_ if row["share"])
    assert error < 1.2 * best
    low, high = fitted.predict_interval(X[n:], alpha=0.1)[1][:, :, 0].T
    assert np.mean((low <= y[n:]) & (y[n:] <= high)) > 0.88


def test_the_number_of_a_row_does_not_know_its_target_nor_later_ones():
    rng = np.random.default_rng(0)
    rare = RareLevels(0, np.array([*"abcdef"]), rng.integers(0, 6, 60), strength=2.0)
    y, w, order = rng.normal(size=(60, 2)), rng.uniform(0.5, 2.0, 60), random_order(60, 0)
    _, numbers = LevelMeans.learned(rare, y, w, order)
    for place in (7, 31, 59):
        later = order[place:]
        changed = y.copy()
        changed[later] += rng.normal(size=(len(later), 2))
        changed[later] += (w @ y - w @ changed) / w[later].sum()  # the mean of all stays
        _, after = LevelMeans.learned(rare, changed, w, order)
        np.testing.assert_allclose(after[order[: place + 1]], numbers[order[: place + 1]])


def test_the_number_of_a_new_row_is_the_credibility_mean():
    """Bühlmann and Straub (1970): S / (W + a) around the mean, a = within / between variance."""
    rng = np.random.default_rng(1)
    codes, effect = rng.integers(0, 200, 4000), 2.0 * rng.normal(size=200)
    y = (effect[codes] + 3.0 * rng.normal(size=4000))[:, None]
    levels = np.array([f"l{k}" for k in range(200)])
    rare = RareLevels(0, levels, codes).credible(y, np.ones(4000))
    assert 0.7 * 9.0 / 4.0 < rare.strength < 1.4 * 9.0 / 4.0
    means, _ = LevelMeans.learned(rare, y, np.ones(4000), np.arange(4000))
    for k in (0, 17, 199):
        own = y[codes == k] - y.mean()
        expected = y.mean() + own.sum() / (len(own) + rare.strength)
        assert means.numbers(levels[[k]], np.array([0])) == pytest.approx(expected)
    assert means.numbers(np.array(["new"]), np.array([0])) == pytest.approx(y.mean())


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_strength_does_not_depend_on_units(scale):
    X, y = shops(900, 150)
    levels, codes = np.unique(X["shop"], return_inverse=True)
    given = RareLevels(0, levels, codes)
    one = given.credible(y[:, None], np.ones(900)).strength
    for shift, weight in ((0.0, 1.0), (5.0, 1.0)):
        other = given.credible(scale * (y[:, None] + shift), np.full(900, weight)).strength
        assert other == pytest.approx(one, rel=1e-6)


@pytest.mark.parametrize("model", [*REGRESSORS, *CLASSIFIERS])
def test_levels_that_determine_the_target(model):
    """No variance is within levels: rows that are the first of theirs have a number, too."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 90, 600)
    X = pd.DataFrame({"id": [f"u{k}" for k in codes], "x": rng.normal(size=600)})
    y = codes % 2 if "Classifier" in model.__name__ else 1.0 * codes
    fitted = model(random_state=0).fit(X[:400], y[:400])
    known = X["id"].isin(X["id"][:400].value_counts().loc[lambda n: n > 3].index)[400:]
    assert fitted.score(X[400:][known], y[400:][known]) > 0.9
    assert np.isfinite(np.asarray(fitted.predict(X), dtype=float)).all()


def test_targets_of_many_classes_are_the_most_frequent():
    y = np.repeat(np.arange(15), np.arange(1, 16))
    found = targets_of_means(y, True)
    assert found.shape == (120, 10)
    assert found.sum(axis=0).tolist() == list(range(6, 16))


@pytest.mark.parametrize("model", [*REGRESSORS, *CLASSIFIERS])
def test_the_answer_is_that_of_the_table(model, tmp_path):
    """In any container and order of rows, from a file, and from an export."""
    X, y = shops(500, 230)
    y = np.digitize(y, [-0.5, 0.5]) if "Classifier" in model.__name__ else y
    X.loc[::50, "shop"] = None
    fitted = model(random_state=0).fit(X[:400], y[:400])
    assert [*fitted.table_.means_] == ["0"]
    assert fitted.table_.get_feature_names_out()[-2].startswith("shop: mean target")
    expected = fitted.predict(X[400:])
    arrow = pyarrow.Table.from_pandas(X, preserve_index=False)
    for other in (polars.from_arrow(arrow), arrow, X.astype({"shop": "category"})):
        again = model(random_state=0).fit(other[:400], y[:400])
        np.testing.assert_array_equal(again.predict(other[400:]), expected)
    order = np.random.default_rng(0).permutation(400)
    moved = model(random_state=0).fit(X[:400].iloc[order], y[:400][order])
    np.testing.assert_allclose(moved.predict(X[400:]), expected, rtol=1e-9)
    save_model(fitted, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X[400:]), expected)
    to_scorer(fitted, tmp_path / "scorer")
    scored = Scorer(tmp_path / "scorer").predict(X[400:])
    if "Classifier" in model.__name__:
        assert [*map(str, scored)] == [*map(str, expected)]
    else:
        np.testing.assert_allclose(scored, expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [1.0 / 800, 1e-6, 50.0])
def test_units_of_weights_do_not_matter(scale):
    """Also where levels determine the target, and the mean of all counts least."""
    codes = np.random.default_rng(0).integers(0, 450, 800)
    levels, place = np.unique([f"u{k}" for k in codes], return_inverse=True)
    for y in (
        1.0 * place[:, None],
        place[:, None] + np.random.default_rng(1).normal(size=(800, 1)),
    ):
        found = []
        for weights in (np.ones(800), np.full(800, scale)):
            rare = RareLevels(0, levels, place).credible(y, weights)
            found.append(LevelMeans.learned(rare, y, weights, random_order(800, 0))[1])
        np.testing.assert_allclose(*found, rtol=1e-4)


@pytest.mark.parametrize("model", REGRESSORS)
def test_weights_may_sum_to_1(model):
    X, y = shops(300, 200)
    weights = np.random.default_rng(0).choice([1.0, 2.0], 300)
    one, other = (
        model(random_state=0).fit(X, y, sample_weight=given)
        for given in (np.ones(300), np.full(300, 1.0 / 300))
    )
    assert one.table_.means_
    np.testing.assert_allclose(other.predict(X), one.predict(X), rtol=1e-6)
    model(random_state=0).fit(X, y, sample_weight=weights / weights.sum())


def test_groups_and_splits_have_no_means():
    """Other rows of a group, or later ones, would show what is held out."""
    X, y = shops(300, 200)
    assert TuneFreeRegressor(random_state=0).fit(X, y).table_.means_
    groups = X["shop"].factorize()[0]
    assert not TuneFreeRegressor(random_state=0).fit(X, y, groups=groups).table_.means_
    assert not TuneFreeRegressor(random_state=0, cv=3).fit(X, y).table_.means_
    assert not BoostedTreesRegressor(random_state=0).fit(X, y, groups=groups).table_.means_


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", [*REGRESSORS, *CLASSIFIERS])
def test_rows_that_differ_in_levels_alone(model, seed):
    """The first rows of several levels have one number: they may be equal in all columns."""
    rng = np.random.default_rng(seed)
    n = 700
    level = np.concatenate([rng.integers(0, 120, n - 200), 1000 + np.arange(200)])
    X = pd.DataFrame({"id": [f"u{k}" for k in level], "x": rng.integers(0, 2, n)})
    y = level % 3 + 1.0 * (rng.random(n) < 0.1)
    y = y.astype(int) if "Classifier" in model.__name__ else y
    fitted = model(random_state=0).fit(X, y)
    assert fitted.table_.means_
    assert fitted.predict(X).shape == (n,)


def test_rates_of_levels_with_exposures():
    """Claims of vehicle models: the mean of a level is its claims over its exposure."""
    rng = np.random.default_rng(0)
    level, exposure = rng.integers(0, 500, 3000), rng.uniform(0.1, 2.0, 3000)
    rate = np.exp(0.8 * rng.normal(size=500))[level]
    claims = rng.poisson(rate * exposure)
    X = pd.DataFrame({"model": [f"m{k}" for k in level], "age": rng.integers(0, 3, 3000)})
    for model in REGRESSORS:
        fitted = model(loss="poisson", random_state=0)
        fitted.fit(X[:2000], claims[:2000], exposure=exposure[:2000])
        assert fitted.table_.means_
        assert np.corrcoef(fitted.predict(X[2000:], exposure=1.0), rate[2000:])[0, 1] > 0.6
        assert fitted.predict_interval(X[2000:], exposure=exposure[2000:])[1].shape == (1000, 2, 1)


@pytest.mark.filterwarnings("ignore:Column .x0")
def test_sources_have_no_means():
    """All rows are learned after a sample has chosen: that sample would know its own targets."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 1200, 9000)
    X = np.column_stack([codes, rng.normal(size=9000)])
    y = rng.normal(size=1200)[codes] + X[:, 1]
    model = TuneFreeRegressor(random_state=0, candidates=["linear"], categorical_features=[0])
    assert model.fit(X, y).table_.means_
    assert not model.fit_source((X, y)).table_.means_


def test_new_rows_of_the_training_do_not_drift():
    X, y = shops(3000, 500)
    fitted = TuneFreeRegressor(random_state=0).fit(X, y)
    assert fitted.table_.means_
    assert not any(drift.differs for drift in fitted.column_drift(X))


def test_memory_of_wide_tables_does_not_grow_with_the_square_of_columns():
    """Expressions of genes: few rows, thousands of columns."""
    X = np.random.default_rng(0).normal(size=(40, 6000))
    tracemalloc.start()
    TuneFreeClassifier(random_state=0).fit(X, X[:, 0] > 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 * X.nbytes
