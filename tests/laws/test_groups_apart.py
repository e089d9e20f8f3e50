"""What groups and splits by time hold out has no part in its own prediction."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.model_selection import KFold, TimeSeriesSplit

from tunefree import BoostedTreesClassifier, BoostedTreesRegressor, TuneFreeRegressor
from tunefree.held_out import predictions as held_out
from tunefree.held_out.predictions import automatic_folds, folds_within, is_cross_validation
from tunefree.stack.candidates import BoostedTrees, ThreeFolds
from tunefree.stack.suited import make_candidates
from tunefree.trees import boosting
from tunefree.trees import learning as trees
from tunefree.trees.forests import Oblivious

RNG = np.random.default_rng(0)
N, GROUPS = 400, np.repeat(np.arange(100), 4)


def grouped_rows(n_groups, size, seed):
    """Rows whose targets have an effect of the group that no column explains."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    X = rng.normal(size=(n_groups, 2))[groups] + 0.1 * rng.normal(size=(len(groups), 2))
    return X, rng.normal(size=n_groups)[groups] + 0.3 * rng.normal(size=len(groups)), groups


@pytest.mark.parametrize("make", [BoostedTreesRegressor, BoostedTreesClassifier])
def test_targets_of_a_group_do_not_choose_the_rounds_of_their_own_prediction(make, monkeypatch):
    monkeypatch.setattr(held_out, "FEW_ROWS", 100)  # one fold, as of 2,000 rows
    monkeypatch.setattr(trees, "SHAPES", (Oblivious(3),))
    # How long learning goes on depends on all rows: here it ends at the same round.
    monkeypatch.setattr(boosting, "_PATIENCE", 60)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    y = X[:, 0] + rng.normal(size=100)[GROUPS]
    folds = automatic_folds(np.zeros(N, np.int64), GROUPS)
    (_, out), own = folds[0], GROUPS[folds[0][1]]

    def predicted(y):
        y = y > 0.0 if make is BoostedTreesClassifier else y
        return make(random_state=0)._learn(X, y, np.ones(N), folds, GROUPS, most_rounds=60)

    before, moved = predicted(y), np.zeros(len(out), dtype=bool)
    for group in np.unique(own)[:3]:
        changed = np.where(GROUPS == group, -3.0 * y, y)
        after = predicted(changed)
        np.testing.assert_array_equal(after[own == group], before[own == group])
        moved |= (after != before).any(axis=1)
    assert moved.any(), "the other half has other rounds"


def test_a_single_fold_has_groups_enough_for_two_halves():
    strata, groups = np.zeros(3000, np.int64), np.arange(3000) % 30
    assert len(automatic_folds(strata)) == len(automatic_folds(strata, np.arange(3000))) == 1
    folds = automatic_folds(strata, groups)
    assert len(folds) == 5 and is_cross_validation(folds)


def test_rates_of_kernels_are_chosen_without_the_groups_that_they_predict():
    X, y, groups = grouped_rows(40, 5, 0)
    model = TuneFreeRegressor(("kernel",), random_state=0)
    problem = model._problem(model._rows(X, y, None, groups, None), y)
    for candidate in make_candidates(problem, ("kernel",))[0]:
        assert isinstance(candidate.evaluation, ThreeFolds)
        for train, out in candidate.evaluation._folds(problem):
            assert len(train) == len(y) and len(out)
            rest = np.setdiff1d(train, out)
            assert not np.isin(problem.groups[out], problem.groups[rest]).any()


@pytest.mark.parametrize("n_draws", [3, 5])
def test_held_out_risk_is_not_below_the_true_one_where_groups_are_all_there_is(n_draws):
    gaps = []
    for seed in range(n_draws):
        X, y, groups = grouped_rows(40, 5, seed)
        new, truth, _ = grouped_rows(300, 1, 1000 + seed)
        model = TuneFreeRegressor(("kernel",), random_state=0).fit(X, y, groups=groups)
        means = np.bincount(groups, y) / 5.0
        others = ((means.sum() - means) / 39.0)[groups]
        held = np.mean(np.square(model.held_out_[0].residuals)) - np.mean((y - others) ** 2)
        true = np.mean((truth - model.predict(new)) ** 2) - np.mean((truth - y.mean()) ** 2)
        gaps.append(held - true)
    assert np.mean(gaps) > -3.0 * np.std(gaps) / np.sqrt(n_draws) - 0.02


@pytest.mark.parametrize("loss", ["squared_error", "quantile"])
def test_trees_do_not_look_ahead_in_splits_by_time(loss):
    n = 160
    X = RNG.normal(size=(n, 2))
    y = X[:, 0] + 0.3 * RNG.normal(size=n)
    later = y.copy()
    later[100:] = y[100:][::-1]  # of the same range, on which the order of rows depends

    def scores(y):
        model = TuneFreeRegressor(("trees",), loss=loss, cv=TimeSeriesSplit(3), random_state=0)
        problem = model._problem(model._rows(X, y, None, None, None), y)
        made, _ = make_candidates(problem, ("trees",))
        candidate = next(c for c in made if isinstance(c, BoostedTrees))
        entry = candidate.evaluate(problem, [])
        out = np.zeros(n)
        out[problem.numbers[entry.rows]] = entry.scores[:, 0]
        return out

    before, after = scores(y), scores(later)
    np.testing.assert_array_equal(after[:100], before[:100])
    assert (after[120:] != before[120:]).any()


def test_which_splits_are_a_cross_validation():
    X = np.zeros((12, 1))
    assert is_cross_validation([*KFold(3).split(X)])
    forward = [*TimeSeriesSplit(3).split(X)]
    assert not is_cross_validation(forward) and not is_cross_validation(forward[:1])
    shuffled = RNG.permutation(9)
    train, out = folds_within(shuffled, forward)[1]
    np.testing.assert_array_equal(shuffled[train], forward[1][0])
    np.testing.assert_array_equal(shuffled[out], forward[1][1])


@pytest.mark.parametrize("make", [TuneFreeRegressor, BoostedTreesRegressor])
def test_groups_are_the_same_in_any_container(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.3 * rng.normal(size=120)
    groups = rng.integers(1, 200, 120)  # 10 is before 2 as text
    options = {"candidates": ("linear", "trees")} if make is TuneFreeRegressor else {}
    found = [
        make(random_state=0, **options).fit(X, y, groups=given).predict(X)
        for given in (
            groups,
            groups.astype(float),
            groups.astype(str),
            groups.astype(str).astype(object),
            groups.tolist(),
            pd.Series(groups).astype("category"),
            pa.array(groups.astype(str)),
        )
    ]
    for predictions in found[1:]:
        np.testing.assert_array_equal(predictions, found[0])
