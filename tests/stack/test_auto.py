"""The race keeps its rule: rows left out judge, the budget is kept, what is told is true."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import softmax
from scipy.stats import spearmanr
from sklearn.datasets import load_iris
from sklearn.inspection import permutation_importance
from sklearn.model_selection import TimeSeriesSplit

from tunefree import (
    KernelPiSTOLRegressor,
    TuneFreeClassifier,
    TuneFreeRegressor,
    load_model,
    save_model,
)
from tunefree.base.progress import NoProgress
from tunefree.held_out.predictions import Entry, automatic_folds, folds_of
from tunefree.held_out.stacking import Targets
from tunefree.rows.checks import CORRELATED, SourceColumn, correlated_columns
from tunefree.stack import candidates
from tunefree.stack.candidates import Candidate
from tunefree.stack.costs import Plan, Step, shape_of
from tunefree.stack.evaluation import evaluate_candidates
from tunefree.stack.problem import StackProblem
from tunefree.stack.schedule import Fixed
from tunefree.uncertainty.calibration import Slopes


def crossed(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n), rng


def entry(losses):
    losses = np.asarray(losses, dtype=float)
    rows = np.arange(len(losses))
    return Entry(None, losses[:, None], losses, losses, rows, 0.0, "finished")


@pytest.mark.parametrize("n", [50, 1999, 2000, 26_000])
def test_folds_are_even_within_classes(n):
    groups = np.random.default_rng(0).integers(0, 3, n)
    fold, count = folds_of(groups)
    assert count == (5 if n <= 25_000 else 6)
    table = np.zeros((count, 3))
    np.add.at(table, (fold, groups), 1)
    assert (np.ptp(table, axis=0) <= 1).all()


def test_a_candidate_is_never_judged_on_rows_it_has_seen():
    seen = []

    class Spy:
        def get_params(self, deep=True):
            return {}

        def set_params(self):
            return self

        def fit(self, X, y, sample_weight=None):
            seen.append(set(X[:, 0]))
            return self

        def predict(self, X):
            assert not seen[-1] & set(X[:, 0])
            return X[:, 0]

    for n in (100, 3000):
        X = np.arange(float(n))[:, None]
        plan, strata = Plan((Step("spy", 1.0, 1.0),), 300.0, None), np.zeros(n, int)
        problem = StackProblem(
            X, X[:, 0], np.ones(n), strata, None, automatic_folds(strata, None), False,
            Targets(np.ones(1)), shape_of(X, 1), 0, (),
        )  # fmt: skip
        schedule = Fixed(plan, [Candidate("spy", Spy())])
        (result,) = evaluate_candidates(schedule, problem, NoProgress())
        assert len(result.rows) == (n if n < 2000 else n // 5)
        np.testing.assert_array_equal(result.scores[:, 0], X[result.rows, 0])


def test_lines_and_interactions_are_both_learned():
    X, y, rng = crossed(560)
    line = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * rng.normal(size=len(X))
    model = TuneFreeClassifier(random_state=0).fit(X[:260], line[:260] > 0)
    assert [row["candidate"] for row in model.leaderboard_ if row["chosen"]] == [*model.chosen_]
    assert model.score(X[260:], line[260:] > 0) > 0.9
    model = TuneFreeRegressor(random_state=0).fit(X[:260], y[:260])
    assert "kernel" in [*model.chosen_][0] and model.score(X[260:], y[260:]) > 0.8
    assert sum(model.chosen_.values()) == pytest.approx(1.0)
    assert set(np.argsort(-model.feature_relevances_)[:2]) == {0, 1}


@pytest.mark.parametrize("n", [300, 2500])
def test_the_risks_told_are_those_of_new_rows(n):
    """Rows left out are as new ones: log-loss and errors told agree with those of a large test."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n + 5000, 3))
    y = X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=len(X)) > 0
    model = TuneFreeClassifier(random_state=0).fit(X[:n], y[:n])
    right = model.predict_proba(X[n:])[np.arange(5000), y[n:].astype(int)]
    best = model.leaderboard_[0]
    assert -np.log(right).mean() < best["log_loss"] + 0.05
    assert abs(np.mean(model.predict(X[n:]) != y[n:]) - best["risk"]) < 3 * best["risk_se"] + 0.01


@pytest.mark.parametrize("d", [100, 200])
def test_few_weights_of_many_are_found_by_the_glm(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, d))
    y = X[:, :5] @ [1.0, -1.0, 1.0, -1.0, 1.0] + 0.5 * rng.normal(size=500)
    model = TuneFreeRegressor(candidates=("linear",), random_state=0).fit(X[:150], y[:150])
    assert [*model.chosen_][0] == "GLM" and model.score(X[150:], y[150:]) > 0.9
    assert all("GLM" not in r["candidate"] for r in _narrow(X, y).leaderboard_)


def _narrow(X, y):
    return TuneFreeRegressor(candidates=("linear",), random_state=0).fit(X[:, :20], y)


@pytest.mark.parametrize("n", [700, 2600])
def test_kernel_pistol_judges_itself_honestly(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n)
    held = np.arange(n) % 5 == 0
    model = KernelPiSTOLRegressor(random_state=0, max_iter=3)
    predictions = model._learn(X, y, held=held)
    honest = np.mean((predictions[:, 0] - y[held]) ** 2)
    alone = KernelPiSTOLRegressor(random_state=0, max_iter=3).fit(X[~held], y[~held])
    # What it says of these rows is what a model without them would: not what it says now.
    assert honest < 1.5 * np.mean((alone.predict(X[held]) - y[held]) ** 2)
    assert honest > np.mean((model.predict(X[held]) - y[held]) ** 2)
    # Their targets have no influence on what is said, but through the blend of few read-outs.
    other = y.copy()
    other[np.flatnonzero(held)[: n // 130]] += 1.0
    again = KernelPiSTOLRegressor(random_state=0, max_iter=3, shuffle=False)
    first = KernelPiSTOLRegressor(random_state=0, max_iter=3, shuffle=False)
    first, again = (m._learn(X, t, held=held) for m, t in ((first, y), (again, other)))
    assert np.abs(first - again).max() < 0.2


@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")
def test_kernels_of_many_rows_wait_for_a_pilot(monkeypatch):
    """They join a stack that they improve, and are skipped where trees predict better."""
    monkeypatch.setattr("tunefree.stack.suited._PILOTED", 2000)
    monkeypatch.setattr(candidates, "_KERNEL_PILOT_ROWS", 1000)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (3000, 4))
    smooth = np.sin(X @ [1.0, 2.0, 0.5, -1.0]) + 0.1 * rng.normal(size=3000)
    steps = np.floor(X[:, 0]) * np.floor(X[:, 1]) + 0.3 * rng.normal(size=3000)
    chosen = []
    for y in (smooth, steps):
        model = TuneFreeRegressor(random_state=0).fit(X, y)
        status = {r["candidate"]: r["status"] for r in model.leaderboard_}
        assert set(status) & {"Laplace kernel", "Gaussian kernel", "kernel PiSTOL"} == set()
        chosen.append(status["kernel ridge"])
    assert chosen[0] == "finished"
    assert chosen[1].startswith("skipped: kernels of 1000 rows did not lower")
    rare = np.arange(len(X)) < 3
    rarely = TuneFreeClassifier(random_state=0).fit(X, rare)
    assert np.isfinite(rarely.predict_proba(X)).all(), "few rows may have one class"
    alone = TuneFreeRegressor(("kernel",), random_state=0).fit(X, steps)
    assert list(alone.chosen_) == ["kernel ridge"], "no other candidate is there to be compared"


def test_the_better_kernel_of_few_rows_is_tried_on_more(monkeypatch):
    """Where neither lowers the stack's loss, none is."""
    monkeypatch.setattr("tunefree.stack.suited._PILOTED", 2000)
    monkeypatch.setattr(candidates, "_FIRST_PILOT_ROWS", 300)
    monkeypatch.setattr(candidates, "_KERNEL_PILOT_ROWS", 600)
    tried, pilot = [], candidates.PilotedKernel._pilot

    def recorded(self, problem, others, kernel, few, held):
        gain, model = pilot(self, problem, others, kernel, few, held)
        tried.append((len(few), kernel, gain))
        return gain, model

    monkeypatch.setattr(candidates.PilotedKernel, "_pilot", recorded)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (2500, 3))
    noise = 0.1 * rng.normal(size=len(X))
    for y in (np.sin(X @ [1.0, 2.0, -1.0]) + noise, np.sign(X[:, 0] * X[:, 1]) + noise):
        tried.clear()
        model = TuneFreeRegressor(random_state=0, n_jobs=1).fit(X, y)
        (status,) = [r["status"] for r in model.leaderboard_ if r["candidate"] == "kernel ridge"]
        better = max(tried[:2], key=lambda found: found[2])
        assert [n for n, *_ in tried[:2]] == [300, 300]
        if better[2] > 0.0:
            assert [found[:2] for found in tried[2:]] == [(600, better[1])] and status == "finished"
        else:
            assert not tried[2:] and status.startswith("skipped: kernels of 300 rows")


@pytest.mark.parametrize("candidates", [("linear",), "all"])
def test_relevances_are_per_column_free_of_units_and_add_up(candidates):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    frame["city"] = rng.choice(["Rome", "Oslo", "Bern"], 400)
    frame.loc[::11, "b"] = np.nan
    y = 2 * frame["a"] + 3 * (frame["city"] == "Rome") + 0.1 * rng.normal(size=400)
    one = TuneFreeRegressor(candidates, random_state=0).fit(frame, y)
    assert one.feature_relevances_.shape == (4,) and one.feature_relevances_.sum() == pytest.approx(
        1.0
    )
    # Independent columns of an additive function: shares of its variance.
    assert one.feature_relevances_ == pytest.approx([4 / 6, 0, 0, 2 / 6], abs=0.08)
    levels = one.level_relevances_["city"]
    assert max(levels, key=levels.get) == "Rome" and set(levels) == {"Bern", "Oslo", "Rome"}
    assert sum(levels.values()) == pytest.approx(one.feature_relevances_[3])
    assert [*one.report_.relevances][:2] == ["a", "city"]
    two = TuneFreeRegressor(candidates, random_state=0)
    two.fit(frame.assign(a=frame["a"] * 1024.0), 8.0 * y)
    assert two.feature_relevances_ == pytest.approx(one.feature_relevances_, abs=0.02)


@pytest.mark.parametrize("kind", ["kernel", "trees"])
def test_importances_of_correlated_columns_are_those_of_new_rows(kind):
    def rows(n, seed):
        rng = np.random.default_rng(seed)
        a, b, c, d = rng.normal(size=(4, n))
        X = np.column_stack([a, b, a + 0.3 * c, d])
        return X, a + X[:, 2] + b + 0.1 * rng.normal(size=n), rng.permutation(n)

    X, y, _ = rows(600, 0)
    model = TuneFreeRegressor(candidates=(kind,), random_state=0).fit(X, y)
    (group,) = model.group_importances_
    assert group["columns"] == ["x0", "x2"]
    X, y, order = rows(5000, 1)
    permuted = X.copy()
    permuted[:, [0, 2]] = X[order][:, [0, 2]]
    before, after = (np.square(model.predict(Z) - y).mean() for Z in (X, permuted))
    assert group["importance"] == pytest.approx(after - before, rel=0.2)
    assert abs(group["importance"] - after + before) < 4.0 * group["importance_se"] + 0.3
    assert group["importance"] > 1.5 * model.permutation_importances_[[0, 2]].sum()
    assert "correlated columns together: x0, x2:" in str(model.report_)


def test_correlated_columns_are_those_of_scipys_ranks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    X[:, 1], X[:, 3] = np.exp(X[:, 0]), -X[:, 4] + 0.2 * rng.normal(size=300)
    X[::9, 1], X[:, 2] = np.nan, np.nan
    columns = [SourceColumn(j, f"x{j}", "number", x) for j, x in enumerate(X.T)]
    assert correlated_columns(columns) == [[0, 1], [3, 4]]
    assert abs(spearmanr(X[:, 3], X[:, 4]).statistic) > CORRELATED
    X = rng.normal(size=(300, 1)) + 0.6 * rng.normal(size=(300, 3))
    columns = [SourceColumn(j, f"x{j}", "number", x) for j, x in enumerate(X.T)]
    rho = np.abs(spearmanr(X).statistic)
    for group in correlated_columns(columns):
        assert rho[np.ix_(group, group)].min() >= CORRELATED


@pytest.mark.parametrize("candidates", [("kernel",), "all"])
def test_permutation_importances_are_those_of_new_rows(candidates):
    """The target's columns a, b and a letter; levels of one column move together."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(900, 3)), columns=["a", "b", "noise"])
    X["letter"] = rng.choice(["x", "y", "z"], 900)
    y = X["a"] * X["b"] + 2.0 * (X["letter"] == "x") + 0.1 * rng.normal(size=900)
    model = TuneFreeRegressor(candidates, random_state=0).fit(X[:500], y[:500])
    new = permutation_importance(
        model, X[500:], y[500:], scoring="neg_mean_squared_error", n_repeats=5, random_state=0
    )
    assert model.permutation_importances_ == pytest.approx(new.importances_mean, rel=0.2, abs=0.03)
    gap = np.abs(model.permutation_importances_ - new.importances_mean)
    assert (gap < 4.0 * model.permutation_importances_se_ + 0.05 * new.importances_mean).all()


def test_importances_vary_between_draws_by_their_standard_errors_or_more():
    """More, because other draws have other models, too."""
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 3))
        y = X[:, 0] + 0.3 * X[:, 1] + rng.normal(size=3000)
        model = TuneFreeRegressor(("trees",), random_state=0).fit(X, y)
        found.append([model.permutation_importances_, model.permutation_importances_se_])
    each, errors = np.array(found).transpose(1, 0, 2)
    ratio = each.std(axis=0, ddof=1)[:2] / errors.mean(axis=0)[:2]
    assert (ratio > 0.7).all() and (ratio < 2.2).all()
    assert np.abs(each.mean(axis=0) - [2.0, 0.18, 0.0]).max() < 0.15


@pytest.mark.parametrize("n", [150, 2100])
def test_sparse_rows_of_few_columns_go_through_all_candidates(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = X[:, 0] * X[:, 1]
    X = sparse.csr_array(X * (X > 0.5))
    model = TuneFreeRegressor(random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert (
        not hasattr(model, "permutation_importances_") or len(model.permutation_importances_) == 4
    )


@pytest.mark.parametrize("candidates", [("kernel",), "all"])
def test_fewer_landmarks_and_what_they_cost(candidates):
    """The loss told is that of new rows, and of so many landmarks."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1500, 2))
    y = np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + 0.1 * rng.normal(size=1500)
    whole, few = (
        TuneFreeRegressor(candidates, compress=m, random_state=0).fit(X[:700], y[:700])
        for m in (None, 20)
    )
    assert whole.compression_ is None and few.compression_.n_landmarks == 20
    kernels = [m for m in few.models_ if getattr(m, "geometry_", None) is not None]
    assert kernels and all(len(m.landmarks_.centers) == 20 for m in kernels)
    told = few.compression_
    assert told.loss_before < told.loss_after and "landmarks" in few.report_.reason
    errors = [np.mean((m.predict(X[700:]) - y[700:]) ** 2) for m in (whole, few)]
    assert errors == pytest.approx([told.loss_before, told.loss_after], rel=0.25)
    with pytest.raises(ValueError, match="compress=0.5"):
        TuneFreeRegressor(compress=0.5).fit(X, y)
    with pytest.raises(ValueError, match="exclude each other"):
        TuneFreeRegressor(compress=40).fit(X, y, groups=np.arange(1500) % 9)


def test_a_linear_stack_tells_relevances_and_permutations_agree():

    X, _, rng = crossed(400)
    y = X @ [2.0, 1.0, 0.0, 0.0] + 0.1 * rng.normal(size=400)
    model = TuneFreeRegressor(candidates=("linear",), random_state=0).fit(X[:200], y[:200])
    assert model.feature_relevances_ == pytest.approx([0.8, 0.2, 0.0, 0.0], abs=0.06)
    # The increase of the squared error on new rows is twice the variance of the column's part.
    found = permutation_importance(
        model, X[200:], y[200:], scoring="neg_mean_squared_error", n_repeats=10, random_state=0
    )
    assert found.importances_mean == pytest.approx([8.0, 2.0, 0.0, 0.0], abs=1.5)


@pytest.mark.parametrize("strata", [1, 3])
@pytest.mark.parametrize("n", [60, 3000])
def test_groups_are_dealt_whole_and_evenly(n, strata):
    rng = np.random.default_rng(n)
    groups = rng.integers(0, n // 5, n)
    _, groups = np.unique(groups, return_inverse=True)
    fold, count = folds_of(rng.integers(0, strata, n), groups)
    assert count == 5
    assert all(len(np.unique(fold[groups == g])) == 1 for g in range(groups.max() + 1))
    sizes = np.bincount(fold, minlength=5)
    assert np.ptp(sizes) <= 0.2 * n / 5 + 2


@pytest.mark.parametrize("classify", [False, True])
def test_with_groups_the_risk_told_is_that_of_new_groups(classify):
    rng = np.random.default_rng(0)
    places, level = rng.normal(size=(100, 2)), rng.normal(size=100)

    def rows(groups):  # what a row says beyond its group is noise
        X = places[groups] + 0.01 * rng.normal(size=(len(groups), 2))
        return X, level[groups] + 0.1 * rng.normal(size=len(groups))

    groups = np.repeat(np.arange(50), 6)
    (X, y), (Z, t) = rows(groups), rows(np.repeat(np.arange(50, 100), 6))
    make = TuneFreeClassifier if classify else TuneFreeRegressor
    y, t = (y > 0, t > 0) if classify else (y, t)
    named = np.array([f"g{g}" for g in groups])
    apart = make(random_state=0).fit(X, y, groups=named)
    together = make(random_state=0).fit(X, y)
    new = np.mean(apart.predict(Z) != t) if classify else np.mean((apart.predict(Z) - t) ** 2)
    assert apart.leaderboard_[0]["risk"] > 0.6 * new
    assert together.leaderboard_[0]["risk"] < 0.3 * new


def test_groups_must_be_several_and_as_many_as_rows():
    X, y, _ = crossed(60)
    with pytest.raises(ValueError, match="one group"):
        TuneFreeRegressor().fit(X, y, groups=np.zeros(60))
    with pytest.raises(ValueError, match="groups has .* values, but X has .* rows"):
        TuneFreeRegressor().fit(X, y, groups=np.arange(59))


@pytest.mark.filterwarnings("ignore:Levels that fit has not seen")
@pytest.mark.parametrize("levels", [12, 40])
def test_declared_categories_are_learned_level_by_level(tmp_path, levels):
    rng, n = np.random.default_rng(0), 15 * levels
    X = np.column_stack([rng.integers(0, levels, n + 300), rng.normal(size=n + 300)])
    effect = rng.normal(size=levels)
    y = effect[X[:, 0].astype(int)] + 0.1 * rng.normal(size=n + 300)
    model = TuneFreeRegressor(categorical_features=[0], random_state=0).fit(X[:n], y[:n])
    assert model.score(X[n:], y[n:]) > 0.95
    assert model.feature_relevances_[0] > 0.95 and len(model.level_relevances_["x0"]) == levels
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.categorical_features == [0]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert np.isfinite(model.predict([[77.0, 0.0]])).all()  # a level not seen


def test_the_family_and_the_budget_bound_what_is_tried():
    X, y, _ = crossed(200)
    model = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(X, y > 0)
    assert all("kernel" not in row["candidate"] for row in model.leaderboard_)
    model = TuneFreeClassifier(budget=0.01, random_state=0).fit(X, y > 0)
    ran = [row["candidate"] for row in model.leaderboard_ if row["status"] == "finished"]
    assert len(ran) == 1 and [*model.chosen_] == ran
    assert "beyond the budget" in repr(model.report_)
    for budget in (0, -1, "soon", True, "0s", float("nan")):
        with pytest.raises(ValueError, match="budget="):
            TuneFreeClassifier(budget=budget).fit(X, y > 0)
    with pytest.raises(ValueError, match="candidates='trees' is neither"):
        TuneFreeClassifier("trees").fit(X, y > 0)


@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")
def test_mixed_frames_go_in_and_units_make_no_difference():
    X, y, rng = crossed(300)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["city"] = rng.choice(["Rome", "Oslo", None], len(X))
    frame.loc[::7, "a"] = np.nan
    target = np.where(frame["city"] == "Rome", "yes", "no")
    one = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(frame, target)
    assert one.score(frame, target) > 0.99
    scaled = frame.assign(a=frame["a"] * 1e6, b=frame["b"] * 1e-6)
    two = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(scaled, target)
    assert (one.predict(frame) == two.predict(scaled)).mean() > 0.98


def test_a_report_names_every_candidate_and_a_model_file_keeps_it(tmp_path):
    X, y, _ = crossed(90)
    for make, target in ((TuneFreeRegressor, y), (TuneFreeClassifier, y > 0)):
        model = make(random_state=0).fit(X, target)
        text, html = repr(model.report_), model.report_._repr_html_()
        for row in model.leaderboard_:
            assert row["candidate"] in text and row["candidate"] in html
        assert model.report_.reason in text
        save_model(model, tmp_path / "model")
        again = load_model(tmp_path / "model")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert repr(again.report_) == repr(model.report_.timeless())


def test_few_rows_take_the_cheapest():
    X, y, _ = crossed(12)
    model = TuneFreeRegressor(random_state=0).fit(X, y)
    assert "too few rows" in model.report_.reason
    assert np.isfinite(model.predict(X)).all()


def test_many_classes_after_few_rows_are_as_likely_as_the_model_says():
    rng = np.random.default_rng(0)
    centers = 1.5 * rng.normal(size=(12, 10))
    y = rng.integers(0, 12, 3200)
    X = centers[y] + rng.normal(size=(3200, 10))
    model = TuneFreeClassifier(random_state=0).fit(X[:200], y[:200])
    p = model.predict_proba(X[200:])
    assert p.max(axis=1).mean() == pytest.approx(model.score(X[200:], y[200:]), abs=0.06)
    np.testing.assert_array_equal(model.predict(X[200:]), p.argmax(axis=1))
    decisions = model.decision_function(X[200:])
    np.testing.assert_allclose(softmax(decisions, axis=1), p, rtol=1e-6, atol=1e-12)


def test_cv_says_which_rows_judge_and_scoring_what_is_best(tmp_path):
    X, y, _ = crossed(240)
    split = TimeSeriesSplit(3)
    model = TuneFreeRegressor(cv=split, scoring="neg_median_absolute_error", random_state=0)
    model.fit(X, y)
    board = [r for r in model.leaderboard_ if r["score"] is not None]
    assert len(board) == 4 and all(r["rows"] == 180 for r in board)
    best = max(r["score"] for r in board)
    if len(model.chosen_) == 1:
        assert board[0]["score"] == best
    # The scores are those of fits on the rows before.
    alone = TuneFreeRegressor(cv=[*split.split(X)], scoring="neg_median_absolute_error",
                              random_state=0).fit(X[:, ::-1], y)  # fmt: skip
    found = {r["candidate"]: r["score"] for r in alone.leaderboard_}
    for r in board:
        assert found[r["candidate"]] == pytest.approx(r["score"], rel=5e-2)
    assert "Best neg_median_absolute_error on held-out rows" in repr(model.report_)
    save_model(alone, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.cv is None and (again.predict(X) == alone.predict(X)).all()


@pytest.mark.parametrize(
    "options, y, words",
    [
        ({"cv": 3, "compress": 50}, [0, 1], "exclude each other"),
        ({"cv": [([0, 1], [1, 2])]}, [0, 1], "holds out a row twice, or trains"),
        ({}, np.arange(4).reshape(2, 2), "columns that are not 0 and 1"),
        ({"scoring": "beauty"}, [0, 1], "beauty"),
    ],
)
def test_what_cannot_judge_is_named(options, y, words):
    y = np.tile(y, (25,) + (1,) * (np.ndim(y) - 1))
    with pytest.raises(ValueError, match=words):
        TuneFreeClassifier(**options).fit(np.arange(50.0)[:, None], y)


def test_a_score_that_does_not_suit_the_task_is_named():
    X, y, _ = crossed(60)
    with pytest.raises(ValueError, match="scoring='accuracy': "):
        TuneFreeRegressor(candidates=("linear",), scoring="accuracy", random_state=0).fit(X, y)


def test_class_weights_are_weights_of_rows():
    X, y, _ = crossed(120)
    y = (y > 0.3).astype(int)
    one = TuneFreeClassifier(candidates=("linear",), class_weight={0: 1, 1: 3}, random_state=0).fit(
        X, y
    )
    two = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(
        X, y, sample_weight=1 + 2 * y
    )
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_linear_stacks_have_coefficients_and_all_have_importances_free_of_units():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": 1e6 * rng.normal(size=200),
                      "c": rng.choice(["u", "v"], 200)})  # fmt: skip
    y = X["a"] + 2e-6 * X["b"] + (X["c"] == "u") + 0.01 * rng.normal(size=200)
    model = TuneFreeRegressor(candidates=("linear",), random_state=0).fit(X, y)
    assert model.coef_names_.tolist() == ["a", "b", "c=u", "c=v"]
    line = model.table_.transform(X) @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(X), np.clip(line, y.min(), y.max()), atol=1e-8)
    shares = model.feature_importances_
    assert shares.sum() == pytest.approx(1.0) and np.argsort(shares).tolist() == [2, 0, 1]
    again = TuneFreeRegressor(candidates=("linear",), random_state=0).fit(
        X.assign(b=X["b"] / 1e6), y
    )
    np.testing.assert_allclose(again.feature_importances_, shares, rtol=1e-4)
    kernels = TuneFreeRegressor(("kernel",), random_state=0).fit(X, y)
    with pytest.raises(AttributeError, match="a stack of linear models; this one has"):
        _ = kernels.coef_


def test_coefficients_of_classes_are_those_of_the_log_odds_which_calibration_bends():
    X, y = load_iris(return_X_y=True)
    model = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-8)
    model.calibration_ = Slopes(np.array([0.5, 1.0, 2.0]), np.zeros(3))
    middle = np.array([X[0], 0.5 * (X[0] + X[-1]), X[-1]])
    first, half, last = model.decision_function(middle)
    assert np.abs(half - 0.5 * (first + last)).max() > 0.1  # no line goes through these
    with pytest.raises(AttributeError, match="coef_ needs log-odds that are linear"):
        _ = model.coef_


@pytest.mark.filterwarnings("ignore::tunefree.DataWarning")
@pytest.mark.parametrize("helps", [True, False])
def test_a_kernel_learns_all_rows_only_if_they_promise_a_lower_loss(helps, monkeypatch):
    """Else the pilot is the model, and the report names its rows."""
    monkeypatch.setattr("tunefree.stack.suited._PILOTED", 2000)
    monkeypatch.setattr(candidates, "_FIRST_PILOT_ROWS", 300)
    monkeypatch.setattr(candidates, "_KERNEL_PILOT_ROWS", 600)
    pilot, losses = candidates.PilotedKernel._pilot, {300: 0.8, 600: 0.7 if helps else 0.8}

    def with_known_gain(self, problem, others, kernel, few, held):
        return 1.0 - losses[len(few)], pilot(self, problem, others, kernel, few, held)[1]

    monkeypatch.setattr(candidates.PilotedKernel, "_pilot", with_known_gain)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (2500, 3))
    y = np.sin(X @ [1.0, 2.0, -1.0]) + 0.1 * rng.normal(size=len(X))
    model = TuneFreeRegressor(random_state=0).fit(X, y)
    place = list(model.chosen_).index("kernel ridge")
    assert (len(model.models_[place].dual_coef_) > 600) == helps
    assert ("kernel ridge learned 600 rows" in str(model.report_)) != helps
