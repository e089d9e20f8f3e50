"""Laws of Shapley values: brute force over all coalitions, additivity, errors of sampled values."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from tunefree import BoostedTreesClassifier, BoostedTreesRegressor
from tunefree.base.shapley import Additive, AnyFunction, Products, Sampled, pair_effects
from tunefree.rows.order import even_sample
from tunefree.trees.shapley import Trees


def brute_force(score, rows, background, groups, n_columns):
    """Shapley values from their definition, over all coalitions of columns."""
    columns = range(n_columns)

    def worth(coalition):
        inside = np.isin(groups, coalition)
        mixed = np.where(inside, rows[:, None], background)
        scores = score(mixed.reshape(-1, rows.shape[1]))
        return scores.reshape(len(rows), len(background), -1).mean(axis=1)

    worths = {s: worth(s) for size in range(n_columns + 1) for s in combinations(columns, size)}
    out = np.zeros((len(rows), n_columns, worths[()].shape[1]))
    for coalition, value in worths.items():
        for j in coalition:
            others = tuple(i for i in coalition if i != j)
            weight = factorial(len(others)) * factorial(n_columns - len(coalition))
            out[:, j] += weight / factorial(n_columns) * (value - worths[others])
    return out


def table(n=600, seed=0):
    """Rows with ties and missing values; the columns 1 and 2 are one column of the user's."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6))
    X[:, 1] = np.round(X[:, 1])
    target = X[:, 0] * X[:, 1] + np.abs(X[:, 3]) * (X[:, 2] > 0) + X[:, 4] * X[:, 5]
    X[random.random(n) < 0.1, 3] = np.nan
    return X, target + random.normal(size=n)


GROUPS = np.array([0, 1, 1, 2, 3, 4])


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_values_of_trees_are_those_of_all_coalitions(n_classes):
    X, target = table()
    if n_classes:
        y = np.searchsorted(np.quantile(target, [0.4, 0.7][: n_classes - 1]), target)
        model = BoostedTreesClassifier(random_state=0).fit(X, y)
    else:
        model = BoostedTreesRegressor(random_state=0).fit(X, target)
    for forest in model.forests_:
        few = forest._replace(**{k: getattr(forest, k)[:40] for k in forest._fields[:-1]})
        term, rows, others = Trees(model.bins_.codes, few, 0.5), X[:20], X[20:50]
        found = term.values(rows, others, GROUPS, 5)
        direct = brute_force(term.score, rows, others, GROUPS, 5)
        np.testing.assert_allclose(found.values, direct, atol=1e-12)
        total = found.base + found.values.sum(axis=1)
        np.testing.assert_allclose(total, term.score(rows), atol=1e-12)


def additive(rows):
    """A sum of functions of the user's columns, with two outputs."""
    both = rows[:, 1] * rows[:, 2]
    return np.column_stack([np.sin(rows[:, 0]) + both, 100.0 + rows[:, 3] ** 2 - rows[:, 5]])


def mixed(rows):
    """A function with interactions of three columns."""
    return (rows[:, :1] * rows[:, 3:4] * rows[:, 4:5] + np.tanh(rows.sum(axis=1))[:, None]) * 2.0


def test_values_of_a_sum_are_those_of_all_coalitions():
    rows, others = np.random.default_rng(0).normal(size=(2, 9, 6))
    found = Additive(additive).values(rows, others, GROUPS, 5)
    np.testing.assert_allclose(
        found.values, brute_force(additive, rows, others, GROUPS, 5), atol=1e-12
    )
    np.testing.assert_allclose(found.base, additive(others).mean(axis=0))
    # Sampled orders find the same without an error: half the difference of two orders is 0.
    sampled = Sampled([AnyFunction(additive)], 0).values(rows, others, GROUPS, 5)
    np.testing.assert_allclose(sampled.values, found.values, atol=1e-12)
    assert sampled.square.max() < 1e-24


def test_sampled_values_add_up_and_their_errors_cover_the_truth():
    random = np.random.default_rng(1)
    rows, others = random.normal(size=(40, 6)), random.normal(size=(30, 6))
    truth = brute_force(mixed, rows, others, GROUPS, 5)
    found = Sampled([AnyFunction(mixed)], 3).values(rows, others, GROUPS, 5)
    total = found.base + found.values.sum(axis=1)
    np.testing.assert_allclose(total, mixed(rows), rtol=0, atol=1e-12)
    gap, error = found.values - truth, np.sqrt(found.square)
    assert 0.1 < np.sqrt(np.square(gap).mean() / np.square(error).mean()) < 1.0
    assert (np.abs(gap) <= 2.0 * error + 1e-12).mean() > 0.95
    again = Sampled([AnyFunction(mixed)], 3).values(rows, others, GROUPS, 5)
    assert (again.values == found.values).all()


def products(n_products=300):
    """A sum of products of functions of the user's columns, with two outputs, and a sum."""
    random = np.random.default_rng(2)
    centers, coef = random.normal(size=(n_products, 6)), random.normal(size=(2, n_products))

    def of_rows(rows, groups):
        near = np.exp(-0.1 * np.square(rows[:, None] - centers))
        factors = [near[:, :, groups == j].prod(axis=2) for j in range(groups.max() + 1)]
        terms = [rows[:, groups == j].sum(axis=1)[:, None] * [1, -2] for j in range(len(factors))]
        return np.stack(factors, axis=1), np.stack(terms, axis=1)

    def score(rows):
        near = np.exp(-0.1 * np.square(rows[:, None] - centers)).prod(axis=2)
        return near @ coef.T + rows.sum(axis=1)[:, None] * [1, -2]

    return Products(score, of_rows, coef)


@pytest.mark.parametrize("groups", [GROUPS, np.zeros(6, dtype=int)])
def test_products_have_the_values_of_their_function(groups):
    rows, others = np.random.default_rng(0).normal(size=(2, 9, 6))
    part = products()
    fast, slow = (
        Sampled(parts, 0).values(rows, others, groups, 5)
        for parts in ([part, AnyFunction(mixed)], [AnyFunction(lambda X: part.score(X) + mixed(X))])
    )
    np.testing.assert_allclose(fast.values, slow.values, atol=1e-11)
    np.testing.assert_allclose(fast.square, slow.square, atol=1e-11)
    np.testing.assert_array_equal(fast.base, slow.base)


@pytest.mark.parametrize("limit", ["_CELLS", "FACTORS"])
def test_sampled_values_do_not_depend_on_blocks(limit, monkeypatch):
    rows, others = np.random.default_rng(0).normal(size=(2, 9, 6))
    sampled = Sampled([AnyFunction(mixed), products()], 0)
    whole = sampled.values(rows, others, GROUPS, 5)
    monkeypatch.setattr(f"tunefree.base.shapley.{limit}", 60)
    in_blocks = sampled.values(rows, others, GROUPS, 5)
    np.testing.assert_allclose(in_blocks.values, whole.values, atol=1e-12)


def test_pairs_have_the_deviation_of_their_product():
    rows = np.random.default_rng(0).normal(size=(100, 6))

    def score(X):
        return (3.0 * X[:, 0] * X[:, 3] + X[:, 4] + X[:, 1] * X[:, 2])[:, None]

    found = pair_effects(score, rows, GROUPS)
    assert list(found) == [(0, 2)]  # products within a column of the user's are no interaction
    strength, error = found[0, 2]
    assert abs(strength - 3.0) < 3.0 * error < 1.0


def test_background_rows_are_spread_evenly_by_weight():
    weights = np.random.default_rng(0).integers(1, 5, 1000).astype(float)
    chosen = even_sample(weights, 100)
    repeated = even_sample(np.ones(int(weights.sum())), 100)
    assert len(chosen) == 100
    assert (np.repeat(np.arange(1000), weights.astype(int))[repeated] == chosen).all()
    assert (even_sample(np.ones(30), 100) == np.arange(30)).all()
