"""Laws of leaf-wise trees: best splits first, exact invariances, signs, explanations, files."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from test_shapley import brute_force

from tunefree import BoostedTreesClassifier, BoostedTreesRegressor, load_model, save_model
from tunefree.trees import learning
from tunefree.trees.bins import bins_of
from tunefree.trees.forests import Leafwise, LeafwiseForest, Oblivious
from tunefree.trees.leafwise import leaf_memory, paths
from tunefree.trees.shapley import Trees
from tunefree.trees.tree import first_bins, fours_of, packed


@pytest.fixture(autouse=True)
def every_forest_is_leafwise(monkeypatch):
    """Few rows have leaf-wise trees, too."""
    monkeypatch.setattr(learning, "SHAPES", (Leafwise(8),))


def problem(n=400, seed=0):
    """Rows with ties and missing values, and a target with rules for few rows."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    X[:, 1] = np.round(X[:, 1])
    rules = (X[:, 0] > 1.0) * (X[:, 1] > 0) * (X[:, 2] > -0.5)
    y = 3.0 * rules + X[:, 3] + 0.1 * random.normal(size=n)
    X[random.random(n) < 0.1, 2] = np.nan
    return X, y


def value(gradients, curvatures, ridge):
    """The part of the gain that one leaf has."""
    return (gradients.sum(axis=0) ** 2).sum() / (curvatures.sum() + ridge)


def best_split(codes, rows, gradients, curvatures, ridge, sizes):
    """The best gain of a leaf over all columns, thresholds and sides, and its two parts."""
    best, g, h = (0.0, rows, rows), gradients[rows], curvatures[rows]
    whole, least = value(g, h, ridge), 10 * h.mean()
    for j, size in enumerate(sizes):
        for threshold in range(size - 1):
            for missing in (False, True):
                code = codes[j, rows]
                right = np.where(code == 0, missing, code > threshold)
                if h[right].sum() < least - 1e-6 or h[~right].sum() < least - 1e-6:
                    continue
                parts = value(g[right], h[right], ridge) + value(g[~right], h[~right], ridge)
                if parts - whole > best[0] + 1e-9:
                    best = parts - whole, rows[~right], rows[right]
    return best


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_leaf_of_largest_gain_is_split_first(outputs):
    """Equal to best-first growth from its definition."""
    X, y = problem(150)
    bins = bins_of(X, np.ones(len(X)))
    codes, sizes, random = bins.codes(X), bins.sizes(), np.random.default_rng(1)
    gradients = y[:, None] * [1.0, -0.5, 2.0][:outputs] + random.normal(size=(len(X), outputs))
    curvatures = random.uniform(0.5, 1.0, len(X))
    words, units = packed(gradients, curvatures)
    shape, memory = Leafwise(6), leaf_memory(sizes, 6, outputs, len(X))
    rows = codes, fours_of(codes), 0, sizes, first_bins(sizes), words, units
    splits = shape.splits(*rows, (codes == 0).any(axis=1), 2.0, None, memory)
    found = shape.leaves(codes, splits)
    leaves = [np.arange(len(X))]
    for _ in range(5):
        best = [best_split(codes, leaf, gradients, curvatures, 2.0, sizes) for leaf in leaves]
        chosen = int(np.argmax([gain for gain, *_ in best]))
        gain, leaves[chosen], right = best[chosen]
        assert gain > 0.0
        leaves.append(right)
    for number, leaf in enumerate(leaves):
        np.testing.assert_array_equal(np.flatnonzero(found == number), np.sort(leaf))


def test_every_row_is_in_the_leaf_whose_path_it_follows():
    X, y = problem()
    model = BoostedTreesRegressor(random_state=0).fit(X, y)
    (forest,), codes = model.forests_, model.bins_.codes(X)
    for t in range(3):
        splits = (part[t] for part in forest[:4])
        columns, thresholds, missing, children = splits
        code = codes[columns]
        right = np.where(code == 0, missing[:, None], code > thresholds[:, None])
        reach = paths(children)[:, :, None]
        follows = ((reach == 0) | ((reach > 0) == right)).all(axis=1) & reach.any(axis=1)
        leaves = Leafwise(8).leaves(codes, (columns, thresholds, missing, children))
        np.testing.assert_array_equal(follows.argmax(axis=0), leaves)
        assert (follows.sum(axis=0) == 1).all()


def test_a_row_is_predicted_the_same_alone_and_among_many():
    X, y = problem()
    X[::7, 1] = np.nan
    model = BoostedTreesRegressor(random_state=0).fit(X, y)
    many = np.tile(X, (5000 // len(X) + 1, 1))
    found = model.predict(many)
    for i in (0, 7, len(many) - 1):
        assert model.predict(many[i : i + 1]) == found[i]
    np.testing.assert_array_equal(found[-len(X) :], model.predict(X))


def test_a_split_that_two_ways_lead_to_is_refused():
    X, y = problem()
    model = BoostedTreesRegressor(random_state=0).fit(X, y)
    (forest,) = model.forests_
    forest.check(4, 1)
    children = forest.children.copy()
    children[0, :, 0] = 1
    with pytest.raises(ValueError):
        forest._replace(children=children).check(4, 1)


def test_the_order_of_rows_and_repetitions_change_no_bit():
    X, y = problem()
    base = BoostedTreesRegressor(random_state=0).fit(X, y)
    order = np.random.default_rng(0).permutation(len(X))
    moved = BoostedTreesRegressor(random_state=0, n_jobs=2).fit(X[order], y[order])
    np.testing.assert_array_equal(moved.predict(X), base.predict(X))
    twice = np.where(np.arange(len(X)) % 3 == 0, 2, 1)
    weighted = BoostedTreesRegressor(random_state=0).fit(X, y, sample_weight=twice)
    repeated = BoostedTreesRegressor(random_state=0).fit(np.repeat(X, twice, 0), y.repeat(twice))
    np.testing.assert_array_equal(repeated.predict(X), weighted.predict(X))


@pytest.mark.parametrize("sign", [1, -1])
def test_predictions_are_monotone(sign):
    X, y = problem()
    y = y - 0.5 * np.sin(4.0 * X[:, 3]) - X[:, 0] ** 2
    model = BoostedTreesRegressor(monotonic_cst=[0, 0, 0, sign], random_state=0).fit(X, y)
    grid = np.repeat(X[:60], 40, axis=0)
    grid[:, 3] = np.tile(np.linspace(-4.0, 4.0, 40), 60)
    steps = sign * np.diff(model.predict(grid).reshape(60, 40), axis=1)
    assert (steps >= 0.0).all()
    assert (steps > 0.0).any() or sign < 0


@pytest.mark.parametrize("n_classes", [0, 3])
def test_shapley_values_are_those_of_all_coalitions(n_classes):
    X, y = problem()
    if n_classes:
        y = np.digitize(y, np.quantile(y, [0.3, 0.8]))
        model = BoostedTreesClassifier(random_state=0).fit(X, y)
    else:
        model = BoostedTreesRegressor(random_state=0).fit(X, y)
    (forest,), groups = model.forests_, np.array([0, 1, 1, 2])
    few = forest._replace(**{name: getattr(forest, name)[:30] for name in forest._fields[:-1]})
    term, rows, others = Trees(model.bins_.codes, few, 0.5), X[:15], X[20:50]
    found = term.values(rows, others, groups, 3)
    direct = brute_force(term.score, rows, others, groups, 3)
    np.testing.assert_allclose(found.values, direct, atol=1e-12)


def test_relevances_are_those_of_the_columns_that_matter():
    X, y = problem(1000)
    X = np.column_stack([X, np.random.default_rng(9).normal(size=1000)])
    relevances = BoostedTreesRegressor(random_state=0).fit(X, y).feature_relevances_
    assert relevances.argmin() == 4 and relevances[4] < 0.02
    assert relevances.sum() == pytest.approx(1.0)


def test_a_graph_predicts_the_same(monkeypatch):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tunefree.onnx import to_onnx

    monkeypatch.setattr(learning, "SHAPES", (Oblivious(2), Leafwise(8)))
    X, y = problem()
    model = BoostedTreesRegressor(random_state=0).fit(X, y)
    assert {type(forest).__name__ for forest in model.forests_} >= {"LeafwiseForest"}
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    found = session.run(None, {"X": X})[0]
    np.testing.assert_allclose(np.ravel(found), model.predict(X), rtol=1e-12)


def test_a_model_file_keeps_every_bit_and_a_way_that_does_not_end_is_refused(tmp_path):
    X, y = problem()
    model = BoostedTreesRegressor(random_state=0).fit(X, y)
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))
    forest = model.forests_[0]
    for child in (0, 7, -9):
        children = forest.children.copy()
        children[0, 0, 0] = child
        model.forests_ = (forest._replace(children=children),)
        with pytest.raises(ValueError):
            save_model(model, tmp_path / "forged")
            load_model(tmp_path / "forged")


def test_quantiles_and_classes_and_exposures_are_learned():
    X, y = problem(1200)
    upper = BoostedTreesRegressor(loss="quantile", quantile=0.9, random_state=0).fit(X, y)
    new, targets = problem(2000, 1)
    assert np.mean(targets <= upper.predict(new)) == pytest.approx(0.9, abs=0.04)
    counts = np.random.default_rng(0).poisson(2.0 * np.exp(0.3 * y))
    rates = BoostedTreesRegressor(loss="poisson", random_state=0)
    rates.fit(X, counts, exposure=np.full(len(X), 2.0))
    assert rates.predict(X, exposure=2.0).mean() == pytest.approx(counts.mean(), rel=0.05)


def test_rules_for_few_rows_are_learned_as_by_a_peer(monkeypatch):
    """Three rules of three columns each: beside scikit-learn's leaf-wise trees."""
    monkeypatch.setattr(learning, "SHAPES", (Leafwise(),))
    random = np.random.default_rng(3)
    X = random.uniform(size=(4000, 12))
    high = X > 0.5
    y = (high[:, 0] & high[:, 1] & high[:, 2]) | (high[:, 3] & ~high[:, 4] & high[:, 5])
    y = y | (~high[:, 6] & ~high[:, 7] & high[:, 8])
    train, test = slice(0, 2000), slice(2000, None)
    ours = BoostedTreesClassifier(random_state=0).fit(X[train], y[train])
    theirs = HistGradientBoostingClassifier(random_state=0).fit(X[train], y[train])
    assert isinstance(ours.forests_[0], LeafwiseForest)
    errors = [1.0 - model.score(X[test], y[test]) for model in (ours, theirs)]
    assert errors[0] <= errors[1] + 0.005
