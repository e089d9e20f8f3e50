"""Laws of boosted trees: splits of largest gain, exact invariances, missing values, noise."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import train_test_split

from tunefree import BoostedTreesClassifier, BoostedTreesRegressor, load_model, save_model
from tunefree.trees import boosting, learning
from tunefree.trees.bins import MOST_BORDERS, Bins, bins_of
from tunefree.trees.boosting import RIDGE, BinnedRows, Booster, BoostingOptions
from tunefree.trees.forests import Leafwise, LeafwiseForest, Oblivious, ObliviousForest
from tunefree.trees.losses import LogLoss
from tunefree.trees.tree import (
    first_bins,
    fours_of,
    grow,
    leaf_sums,
    leaves_of,
    packed,
    tree_memory,
)

BINOMIAL, SHAPE = LogLoss(), Oblivious(3)


def problem(n=300, d=4, seed=0, missing=True):
    """Rows with ties and missing values, labels of a rule, and a regression target."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    X[:, 1] = np.round(X[:, 1])
    target = X[:, 0] * (X[:, 1] > 0) + 0.3 * random.normal(size=n)
    if missing:
        X[random.random(n) < 0.1, 2] = np.nan
        X[random.random(n) < 0.1, 0] = np.nan
    return X, (target > 0).astype(int), target


def gain(codes, gradients, curvatures, splits, ridge):
    """The gain of splits (column, threshold, missing to the right), from its definition."""
    leaf = np.zeros(codes.shape[1], dtype=int)
    for column, threshold, missing in splits:
        code = codes[column]
        leaf = 2 * leaf + np.where(code == 0, missing, code > threshold)
    total = 0.0
    for member in np.unique(leaf):
        rows = leaf == member
        total += (gradients[rows].sum(axis=0) ** 2).sum() / (curvatures[rows].sum() + ridge)
    return total


@pytest.mark.parametrize("outputs", [1, 3])
def test_every_level_has_the_split_of_largest_gain(outputs):
    X, _, _ = problem(120, 3)
    bins = bins_of(X, np.ones(len(X)))
    codes = bins.codes(X)
    random = np.random.default_rng(1)
    gradients = random.normal(size=(len(X), outputs))
    curvatures = random.uniform(0.1, 1.0, len(X))
    words, units = packed(gradients, curvatures)
    has_missing = (codes == 0).any(axis=1)
    memory = tree_memory(bins.sizes(), 3, outputs, len(X))
    sizes = bins.sizes()
    columns = codes, fours_of(codes), 0, sizes, first_bins(sizes)
    depth = grow(*columns, words, units, has_missing, 3, 2.0, None, memory)
    assert depth == 3
    chosen = [(j, b, side == 1) for j, b, side in memory.splits.T.tolist()]
    for level in range(depth):
        best = max(
            gain(codes, gradients, curvatures, [*chosen[:level], (j, b, side)], 2.0)
            for j in range(3)
            for b in range(bins.sizes()[j] - 1)
            for side in (False, True)
        )
        found = gain(codes, gradients, curvatures, chosen[: level + 1], 2.0)
        assert found == pytest.approx(best, rel=1e-6)


def test_sums_of_leaves_do_not_depend_on_the_order():
    random = np.random.default_rng(0)
    numbers, leaves = random.normal(size=(1000, 2)), random.integers(0, 8, 1000).astype(np.uint8)
    order = random.permutation(1000)
    sums = leaf_sums(leaves, 8, numbers)
    assert (sums == leaf_sums(leaves[order], 8, numbers[order])).all()
    expected = [np.bincount(leaves, numbers[:, c], minlength=8) for c in range(2)]
    np.testing.assert_allclose(sums.T, expected, rtol=1e-12)


def test_a_round_is_a_newton_step_in_every_leaf():
    X, y, _ = problem()
    bins = bins_of(X, np.ones(len(X)))
    sample = BinnedRows(bins.codes(X), y[:, None].astype(float), np.ones(len(X)))
    booster = Booster(sample, sample.part(slice(0, 0)), BoostingOptions(BINOMIAL, bins, 0), SHAPE)
    booster.run(1)
    columns, thresholds, missing, values = booster.trees[0]
    p = np.mean(y)
    leaves = leaves_of(sample.codes, columns, thresholds, missing)
    for leaf in np.unique(leaves):
        rows = leaves == leaf
        h = p * (1.0 - p)
        step = SHAPE.step * (y[rows] - p).sum() / (h * rows.sum() + RIDGE * h)
        assert values[leaf, 0] == pytest.approx(step, rel=1e-9)


def scores(X, y, rows=None, **options):
    """Scores of given rows, by a model of all rows."""
    weights = options.pop("sample_weight", None)
    kind = BoostedTreesClassifier if y.dtype.kind == "i" else BoostedTreesRegressor
    model = kind(random_state=0, **options).fit(X, y, sample_weight=weights)
    given = X if rows is None else rows
    return model.decision_function(given) if y.dtype.kind == "i" else model.predict(given)


@pytest.mark.parametrize("shape", [SHAPE, Leafwise(8)])
def test_a_learner_that_follows_another_one_of_the_same_rows_is_the_same(shape):
    """And with other rows it has the same splits; it may follow in several steps."""
    X, labels, _ = problem()
    bins = bins_of(X, np.ones(len(X)))
    options = BoostingOptions(BINOMIAL, bins, 0)
    sample = BinnedRows(bins.codes(X), 1.0 * labels[:, None], np.ones(len(X)))
    part, none = sample.part(slice(0, 200)), sample.part(slice(0, 0))
    first = Booster(part, none, options, shape)
    first.run(6)
    same, of_all = Booster(part, none, options, shape), Booster(sample, none, options, shape)
    for follower in (same, of_all):
        follower.follow(first, 2)
        follower.follow(first, 6)
    for known, found, other in zip(first.trees, same.trees, of_all.trees, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(known, found, strict=True))
        assert all(np.array_equal(*pair) for pair in zip(known[:-1], other[:-1], strict=True))
        assert not np.array_equal(known[-1], other[-1])


@pytest.mark.parametrize("kind", [BoostedTreesClassifier, BoostedTreesRegressor])
def test_trees_that_follow_do_not_depend_on_threads_and_weights_repeat_rows(kind, monkeypatch):
    """As many rows have them."""
    monkeypatch.setattr(boosting, "FOLLOWED", 1.0)
    X, labels, target = problem(2200)
    y = labels if kind is BoostedTreesClassifier else target
    weights = 1 + np.arange(len(X)) % 2
    one = kind(random_state=0, n_jobs=1).fit(X, y, weights)
    several = kind(random_state=0, n_jobs=2).fit(X, y, weights)
    repeated = kind(random_state=0).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    for other in (several, repeated):
        assert np.array_equal(one._scores(X), other._scores(X))


@pytest.mark.parametrize("interacts", [True, False])
def test_one_of_two_rival_depths_goes_on(interacts, monkeypatch):
    """The deeper trees where they are far better, else the others."""
    monkeypatch.setattr(learning, "SHAPES", (Oblivious(1), Oblivious(2, rival=1)))
    monkeypatch.setattr(boosting, "_RACE", 30)
    ended, boost = {}, learning.boost

    def recorded(*given):
        fits = boost(*given)
        ended.update(zip((1, 2), [len(fit.risks) - 1 for fit in fits], strict=True))
        return fits

    monkeypatch.setattr(learning, "boost", recorded)
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    y = np.sign(X[:, 0] * X[:, 1] if interacts else X[:, 0])
    BoostedTreesRegressor(random_state=0).fit(X, y + 0.1 * random.normal(size=300))
    winner, loser = (2, 1) if interacts else (1, 2)
    assert ended[loser] == 30 < ended[winner]


@pytest.mark.parametrize("kind", ["class", "number"])
def test_scores_do_not_depend_on_order_threads_or_units_and_weights_repeat_rows(kind):
    X, labels, target = problem(150)
    y = labels if kind == "class" else target
    before, order = scores(X, y), np.random.default_rng(5).permutation(len(y))
    assert (scores(X[order], y[order], X) == before).all(), "the order of rows"
    assert (scores(X, y, n_jobs=1) == scores(X, y, n_jobs=2)).all(), "threads"
    moved = np.column_stack([np.exp(X[:, 0]), 1e3 * X[:, 1], X[:, 2] ** 3, 5.0 + X[:, 3]])
    assert (scores(moved, y) == before).all(), "an increasing transform of columns"
    twice = np.r_[np.arange(len(y)), np.arange(50)]
    weights = np.where(np.arange(len(y)) < 50, 2.0, 1.0)
    repeated = scores(X[twice], y[twice], X)
    assert (scores(X, y, sample_weight=weights) == repeated).all(), "weights repeat rows"
    wild = X.copy()
    wild[:20] = 1e9
    weights = np.where(np.arange(len(y)) < 20, 0.0, 1.0)
    assert (scores(wild, y, X, sample_weight=weights) == scores(X[20:], y[20:], X)).all()
    dense = np.nan_to_num(X)
    same = scores(dense, y)
    for index in (np.int32, np.int64):
        rows = sparse.csr_array(dense)
        rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
        assert (scores(rows, y) == same).all(), "sparse rows"


def test_constant_empty_and_infinite_columns_do_no_harm():
    X, y, _ = problem(missing=False)
    odd = np.column_stack([
        X, np.full(len(y), 3.0), np.full(len(y), np.nan), np.where(y == 1, np.inf, -np.inf),
    ])  # fmt: skip
    model = BoostedTreesClassifier(random_state=0).fit(odd, y)
    assert model.score(odd, y) == 1.0, "an infinite column predicts the class"
    model = BoostedTreesClassifier(random_state=0).fit(X, y)
    gaps = X.copy()
    gaps[::3] = np.nan
    assert np.isfinite(model.decision_function(gaps)).all(), "missing in new rows only"


def test_missing_values_may_be_the_signal():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    y = random.integers(0, 2, 400)
    X[y == 1, 0] = np.nan
    assert BoostedTreesClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) == 1


def test_borders_are_distinct_values_or_quantiles():
    X = np.array([[0.0, 1.0], [1.0, np.inf], [1.0, -np.inf], [4.0, np.nan]])
    bins = bins_of(X, np.ones(4))
    np.testing.assert_array_equal(bins.borders, [0.5, 2.5, -np.inf, 1.0])
    np.testing.assert_array_equal(bins.codes(X), [[1, 2, 2, 3], [2, 3, 1, 0]])
    many = np.random.default_rng(0).normal(size=(10_000, 1))
    codes = bins_of(many, np.ones(10_000)).codes(many)[0]
    assert codes.max() == MOST_BORDERS + 1
    assert np.bincount(codes)[1:].max() < 10_000 / MOST_BORDERS + 3


@pytest.mark.parametrize("n", [60, 300, 1000, 3000])
def test_noise_costs_little(n):
    losses = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        X, y = random.normal(size=(n + 2000, 5)), random.normal(size=n + 2000)
        model = BoostedTreesRegressor(random_state=0).fit(X[:n], y[:n])
        squares = np.square(y[n:] - model.predict(X[n:])).mean()
        losses.append(squares / np.square(y[n:] - y[:n].mean()).mean())
    assert np.mean(losses) < 1.03


@pytest.mark.parametrize("n_draws", [2, 6])
def test_held_out_predictions_are_as_good_as_new_ones(n_draws):
    """The rows choose neither their own round nor, beyond a share of five, their own depth."""
    random = np.random.default_rng(0)
    ratios = []
    for _ in range(n_draws):
        X = random.normal(size=(3300, 6))
        y = np.sin(2 * X[:, 0]) * X[:, 1] + random.normal(size=3300)
        model = BoostedTreesRegressor(random_state=0).fit(X[:300], y[:300])
        held = model.held_out_
        own = np.average(np.square(held.predictions - held.targets).ravel(), weights=held.weights)
        ratios.append(own / np.square(model.predict(X[300:]) - y[300:]).mean())
    assert abs(np.mean(ratios) - 1.025) < 0.125 * np.sqrt(6 / n_draws)


@pytest.mark.parametrize("n_classes", [15, 100])
def test_many_classes_are_learned(n_classes):
    random, n = np.random.default_rng(0), 30 * n_classes
    X = random.uniform(0, n_classes, (n, 2))
    y = X[:, 0].astype(int)
    model = BoostedTreesClassifier(random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (n, n_classes)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_means_of_each_family_are_found(loss):
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 3))
    mean = np.exp(np.where(X[:, 0] > 0, 1.0, -0.5) + 0.3 * X[:, 1])
    y = random.gamma(2.0, mean / 2.0) if loss != "poisson" else random.poisson(mean).astype(float)
    model = BoostedTreesRegressor(loss=loss, random_state=0).fit(X[:1500], y[:1500])
    assert np.corrcoef(np.log(model.predict(X[1500:])), np.log(mean[1500:]))[0, 1] > 0.95
    with pytest.raises(ValueError, match="range"):
        BoostedTreesRegressor(loss=loss).fit(X, -y - 1.0)


def test_an_unknown_loss_is_refused():
    with pytest.raises(ValueError, match="loss='l2' is none of squared_error"):
        BoostedTreesRegressor(loss="l2").fit(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize(
    "loads",
    [[load_diabetes], [load_breast_cancer, load_digits, load_wine, load_diabetes]],
)
def test_trees_are_as_good_as_a_peers_on_real_data(loads):
    """The geometric mean of log-losses and squared errors is below that of a peer's defaults."""
    ratios = []
    for load in loads:
        X, y = load(return_X_y=True)
        X, Z, y, t = train_test_split(X, y, test_size=0.4, random_state=0)
        if load is load_diabetes:
            kinds, loss = (BoostedTreesRegressor, HistGradientBoostingRegressor), mean_squared_error
        else:
            kinds, loss = (BoostedTreesClassifier, HistGradientBoostingClassifier), log_loss
        models = [kind(random_state=0).fit(X, y) for kind in kinds]
        predict = "predict" if load is load_diabetes else "predict_proba"
        own, peer = (loss(t, getattr(model, predict)(Z)) for model in models)
        ratios.append(own / peer)
    assert np.exp(np.mean(np.log(ratios))) < 1.0


def test_a_model_file_predicts_the_same(tmp_path):
    X, y, target = problem()
    for kind, values in ((BoostedTreesClassifier, y), (BoostedTreesRegressor, target)):
        model = kind(random_state=0).fit(X, values)
        save_model(model, tmp_path / "model")
        assert (load_model(tmp_path / "model").predict(X) == model.predict(X)).all()


def test_one_row_of_every_class_leaves_nothing_but_the_classes_shares():
    X = np.arange(3.0)[:, None]
    model = BoostedTreesClassifier(random_state=0).fit(X, ["a", "b", "c"])
    np.testing.assert_allclose(model.predict_proba(X), 1.0 / 3.0)


@pytest.mark.parametrize("outputs", [1, 2, 3, 7, 19])
@pytest.mark.parametrize("n_rows", [1, 5, 1100])
def test_scores_are_added_tree_by_tree(outputs, n_rows):
    """Bit for bit, for forests of both shapes with any number of trees."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 9, (4, n_rows)).astype(np.uint8)
    start = random.normal(size=outputs)
    for n_trees in (0, 1, 6, 37):
        splits = [random.integers(0, most, (n_trees, 3)) for most in (4, 9, 2)]
        columns, thresholds, missing = map(np.array, splits)
        values = random.normal(size=(n_trees, 8, outputs))
        parts = columns.astype(np.int32), thresholds.astype(np.uint8), missing.astype(bool)
        oblivious = ObliviousForest(*parts, values, start)
        children = np.tile(np.array([[1, -1, -3], [2, -2, -4]], np.int16), (n_trees, 1, 1))
        leafwise = LeafwiseForest(*parts, children, values[:, :4].copy(), start)
        for forest, shape in ((oblivious, Oblivious(3)), (leafwise, Leafwise(4))):
            expected = np.tile(start, (n_rows, 1))
            for t in range(n_trees):
                one = [part[t] for part in forest[:-2]]
                expected += forest.values[t][shape.leaves(codes, one)]
            np.testing.assert_array_equal(forest.scores(codes), expected)


@pytest.mark.parametrize("n_borders", [0, 1, 2, 7, 254])
def test_a_bin_counts_the_borders_below_a_value(n_borders):
    random = np.random.default_rng(0)
    borders = np.sort(random.normal(size=n_borders))
    x = np.concatenate([random.normal(size=600), borders, [np.inf, -np.inf, np.nan]])
    expected = np.where(np.isnan(x), 0, np.searchsorted(borders, x) + 1)
    codes = Bins(borders, np.array([0, n_borders])).codes(x[:, None])
    np.testing.assert_array_equal(codes[0], expected)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_infinite_values_are_ordered_in_a_table_as_in_an_array(sign):
    """Beside a column of text they were refused; any larger number has the same order."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    y = np.where(x > 0.5, 3.0, x) + 0.3 * rng.normal(size=100)
    x = sign * np.where(x > 0.5, np.inf, x)
    new = sign * np.array([np.inf, -np.inf, 0.0, 0.4])
    with_infinity, without = (
        [values[:, None], pd.DataFrame({"x": values, "text": "same"})]
        for values in (x, np.clip(x, -1e6, 1e6))
    )
    later = [new[:, None], pd.DataFrame({"x": new, "text": "same"})]
    for infinite, finite, rows in zip(with_infinity, without, later, strict=True):
        found = BoostedTreesRegressor(random_state=0).fit(infinite, y).predict(rows)
        other = BoostedTreesRegressor(random_state=0).fit(finite, y).predict(rows)
        np.testing.assert_allclose(found, other, rtol=1e-9)
