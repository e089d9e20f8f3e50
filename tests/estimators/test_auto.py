"""The race keeps its rule: unseen rows judge, ties go to the cheapest, the budget is kept."""

import numpy as np
import pytest

from tunefree import (
    KernelPiSTOLClassifier,
    KernelPiSTOLRegressor,
    TuneFreeClassifier,
    TuneFreeRegressor,
    load_model,
    save_model,
)
from tunefree.choose.race import Budget, Entry, choose, folds_of, race, wants_all_rows
from tunefree.estimators import auto
from tunefree.estimators.auto import Candidate, Shape
from tunefree.estimators.base import Silent


def crossed(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n), rng


def entry(name, losses, second=None):
    losses = np.asarray(losses, dtype=float)
    second = losses if second is None else np.asarray(second, dtype=float)
    candidate = Candidate(name, "linear", False, None, lambda shape: 1.0)
    return Entry(candidate, losses, second, np.arange(len(losses)), 0.0, "finished")


def test_ties_go_to_the_cheapest_and_clear_wins_do_not():
    rng = np.random.default_rng(0)
    w, base = np.ones(4000), (rng.random(4000) < 0.02).astype(float)
    little = base.copy()
    little[np.flatnonzero(base)[:2]] = 0.0
    little[np.flatnonzero(base == 0.0)[:1]] = 1.0
    much = base.copy()
    much[np.flatnonzero(base)[:20]] = 0.0
    won, why = choose([entry("cheap", base), entry("dear", little)], w)
    assert won.candidate.name == "cheap" and "tie" in why
    won, why = choose([entry("cheap", base), entry("dear", much)], w)
    assert won.candidate.name == "dear" and "least validation risk" in why
    # Equal errors, but clearly worse probabilities: no tie.
    won, _ = choose([entry("cheap", base, base + 1.0), entry("dear", little, base)], w)
    assert won.candidate.name == "dear"


def test_few_rows_are_judged_by_a_proper_score():
    rng, w = np.random.default_rng(0), np.ones(400)
    wrong = (np.arange(400) < 3).astype(float)
    # One mistake less says little, a likelihood that is higher on most rows says much.
    sure = rng.exponential(0.1, 400)
    cheap, dear = (
        entry("cheap", wrong * (np.arange(400) < 2), sure + 0.05),
        entry("dear", wrong, sure),
    )
    won, why = choose([cheap, dear], w)
    assert won is dear and "log-loss" in why
    tied = cheap._replace(second=sure + 0.01 + np.resize([-1.0, 1.0], 400))
    won, why = choose([tied, dear], w)
    assert won is tied and "tie" in why
    won, why = choose([entry("cheap", sure + 1e-3), entry("dear", sure)], w)
    assert won.candidate.name == "dear" and "validation risk" in why


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

    class Score:
        def of(self, fitted, X, y):
            assert not seen[-1] & set(X[:, 0])
            return np.zeros(len(y)), np.zeros(len(y))

        def proper(self, evidence, y, weights):
            return evidence, 1.0

    for n in (100, 3000):
        X = np.arange(float(n))[:, None]
        spy = Candidate("spy", "linear", False, Spy(), lambda shape: 1.0)
        (result,) = race(
            [spy], Shape(n, 1, n, 1), X, X[:, 0], np.ones(n), np.zeros(n, int), Score(),
            Budget(None, 1.0), Silent(),
        )  # fmt: skip
        assert len(result.rows) == (n if n < 2000 else n // 5)


def test_a_linear_problem_gets_a_linear_model_and_a_crossed_one_a_kernel():
    X, y, rng = crossed(260)
    line = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * rng.normal(size=len(X))
    model = TuneFreeClassifier(random_state=0).fit(X[:160], line[:160] > 0)
    assert model.leaderboard_[0]["candidate"] == model.chosen_
    assert not model.chosen_.startswith("kernel")
    model = TuneFreeRegressor(random_state=0).fit(X[:160], y[:160])
    assert model.chosen_.startswith("kernel")
    assert model.score(X[160:], y[160:]) > 0.6


def test_few_weights_of_many_are_found_by_the_reflectron():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 400))
    y = X[:, :5] @ [1.0, -1.0, 1.0, -1.0, 1.0] + 0.5 * rng.normal(size=500)
    model = TuneFreeRegressor("linear", random_state=0).fit(X[:200], y[:200])
    assert model.chosen_ == "Reflectron" and model.score(X[200:], y[200:]) > 0.9
    assert all("Reflectron" not in r["candidate"] for r in _narrow(X, y).leaderboard_)


def _narrow(X, y):
    return TuneFreeRegressor("linear", random_state=0).fit(X[:, :20], y)


def test_kernel_pistol_judges_itself_honestly():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2600, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=2600)
    held = np.arange(2600) % 5 == 0
    model = KernelPiSTOLRegressor(random_state=0, max_iter=3)._learn(X, y, held=held)
    told = model.held_values_[:, 0]
    honest = np.mean((told - y[held]) ** 2)
    alone = KernelPiSTOLRegressor(random_state=0, max_iter=3).fit(X[~held], y[~held])
    # What it says of these rows is what a model without them would: not what it says now.
    assert honest < 1.5 * np.mean((alone.predict(X[held]) - y[held]) ** 2)
    assert honest > np.mean((model.predict(X[held]) - y[held]) ** 2)
    # Their targets have no influence on what is said, but through the blend of few read-outs.
    other = y.copy()
    other[np.flatnonzero(held)[:20]] += 1.0
    again = KernelPiSTOLRegressor(random_state=0, max_iter=3, shuffle=False)
    first = KernelPiSTOLRegressor(random_state=0, max_iter=3, shuffle=False)
    first, again = (m._learn(X, t, held=held) for m, t in ((first, y), (again, other)))
    assert np.abs(first.held_values_ - again.held_values_).max() < 0.2


@pytest.fixture
def steep(monkeypatch):
    """Rows whose classes are small squares of a board, and a race that judges on 3,000 of them."""
    monkeypatch.setattr(auto, "MOST_ROWS", 3000)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(11_000, 2))
    return X, np.floor(X * 12).astype(int).sum(axis=1) % 2


def test_a_kernel_whose_errors_fall_with_the_rows_learns_all_of_them(steep):
    X, y = steep
    few = KernelPiSTOLClassifier(random_state=0).fit(X[:3000], y[:3000])
    model = TuneFreeClassifier(random_state=0).fit(X[:9000], y[:9000])
    assert model.chosen_ == "kernel PiSTOL" and "again on all rows" in model.report_.reason
    assert len(model.model_.support_) > 3000
    assert model.score(X[9000:], y[9000:]) > few.score(X[9000:], y[9000:]) + 0.02
    # What was spent is told, and a smaller budget ends with what was judged.
    spent = model.report_.passes
    small = TuneFreeClassifier(budget=0.9 * spent, random_state=0).fit(X[:9000], y[:9000])
    assert small.chosen_ == "kernel PiSTOL" and "not fitted again" in small.report_.reason
    assert len(small.model_.support_) <= 3000 and small.report_.passes < 0.9 * spent


def test_all_rows_are_wanted_if_a_power_law_promises_a_standard_error():
    n, held = auto.MOST_ROWS, np.zeros(5000)
    held[:150] = 1.0  # 3 % with a standard error of .24 %
    judged, w = entry("kernel", held)._replace(fitted="a model"), np.ones(5000)

    def wants(early, rows, one=judged):
        one = one._replace(candidate=one.candidate._replace(pilot_risk=early))
        return wants_all_rows(one, rows, w)

    # From .06 after 2,000 to .03 after 16,384: .03 / 2 after 8 times as many.
    assert wants(0.06, 8 * n) and not wants(0.06, n) and not wants(0.06, 1.2 * n)
    assert not wants(0.031, 8 * n) and not wants(0.02, 8 * n)
    assert not wants(np.nan, 8 * n) and not wants(0.06, 8 * n, judged._replace(fitted=None))
    assert not wants(0.06, 8 * n, entry("kernel", np.zeros(5000))._replace(fitted="a model"))


def test_the_family_and_the_budget_bound_what_is_tried():
    X, y, _ = crossed(200)
    model = TuneFreeClassifier("linear", random_state=0).fit(X, y > 0)
    assert all("kernel" not in row["candidate"] for row in model.leaderboard_)
    model = TuneFreeClassifier(budget=1, random_state=0).fit(X, y > 0)
    ran = [row["candidate"] for row in model.leaderboard_ if row["risk"] is not None]
    assert len(ran) == 1 and model.chosen_ == ran[0]
    assert "beyond the budget" in repr(model.report_)
    for budget in (0, -1, "soon", True, "0s"):
        with pytest.raises(ValueError, match="budget="):
            TuneFreeClassifier(budget=budget).fit(X, y > 0)
    with pytest.raises(ValueError, match="family='trees' is none of"):
        TuneFreeClassifier("trees").fit(X, y > 0)


def test_mixed_frames_go_in_and_units_make_no_difference():
    pandas = pytest.importorskip("pandas")
    X, y, rng = crossed(300)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame["city"] = rng.choice(["Rome", "Oslo", None], len(X))
    frame.loc[::7, "a"] = np.nan
    target = np.where(frame["city"] == "Rome", "yes", "no")
    one = TuneFreeClassifier("linear", random_state=0).fit(frame, target)
    assert one.score(frame, target) > 0.99
    scaled = frame.assign(a=frame["a"] * 1e6, b=frame["b"] * 1e-6)
    two = TuneFreeClassifier("linear", random_state=0).fit(scaled, target)
    assert (one.predict(frame) == two.predict(scaled)).mean() > 0.98


def test_reports_and_model_files(tmp_path):
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
        assert repr(again.report_.timed(model.report_.times())) == text


def test_few_rows_take_the_cheapest():
    X, y, _ = crossed(12)
    model = TuneFreeRegressor(random_state=0).fit(X, y)
    assert "too few rows" in model.report_.reason
    assert np.isfinite(model.predict(X)).all()
