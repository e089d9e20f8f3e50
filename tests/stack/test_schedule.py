"""A budget of clock time is kept, whatever candidates take; what is cut short can be repeated."""

from time import process_time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tunefree import (
    BoostedTreesRegressor,
    KernelRidgeRegressor,
    TuneFreeClassifier,
    TuneFreeRegressor,
)
from tunefree.core import clock
from tunefree.core.warn import DataWarning
from tunefree.kernel_ridge.solvers import LandmarkSolver
from tunefree.stack import costs
from tunefree.stack.candidates import LinearPiSTOL, PilotedKernel
from tunefree.stack.costs import Cost, Limits, Step
from tunefree.stack.drawn import most_rows_to_read
from tunefree.stack.schedule import schedule_of


class Time:
    """A clock of which a test is the master."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def time(monkeypatch):
    made = Time()
    monkeypatch.setattr(clock, "now", made)
    monkeypatch.setattr(costs, "machine_speed", lambda: costs._TYPICAL)
    return made


class Runner(SimpleNamespace):
    """A candidate that takes some factor of what is foreseen."""

    usual = 1.0
    is_whole = False
    uses_others = False

    def limited(self, limit):
        return self

    def share_of_refit(self, n_rows):
        return 0.0


candidates = st.lists(st.tuples(st.floats(0.1, 50), st.booleans()), min_size=1, max_size=6)


@pytest.mark.filterwarnings("ignore:The budget of")
@given(candidates, st.floats(1, 100), st.floats(0.05, 1.0))
def test_the_time_is_kept_if_candidates_take_no_longer_than_foreseen(each, budget, factor):
    made = Time()
    runners = [
        Runner(name=str(i), seconds=seconds, factor=factor, ends_early=early, is_whole=not early)
        for i, (seconds, early) in enumerate(each)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now", made)
        patch.setattr(costs, "machine_speed", lambda: costs._TYPICAL)
        limits = Limits(f"{budget:.6f}s", None)
        sizes = [[Step(c.name, c.seconds, 1.0)] for c in runners]
        leasts = {c.name: Cost(0.01 * c.seconds, 1.0) for c in runners if c.ends_early}
        schedule = schedule_of(runners, limits, sizes, leasts, None)
        entries, first = [], 0.0
        for runner in schedule.candidates:
            turn = schedule.turn(runner, entries)
            if turn.reason:
                continue
            took = runner.factor * runner.seconds
            took = min(took, turn.seconds) if runner.ends_early else took
            made.now += max(took, 0.0)
            first = first or took
            cut = 7 if took < runner.factor * runner.seconds else None
            schedule.ended(runner, took, cut)
            done = SimpleNamespace(
                status="finished", losses=[1], rows=[0], seconds=took, candidate=runner
            )
            entries.append(done)
        assert entries and made.now <= max(budget, first) + 1e-6
        plan = schedule.result()
    for step, runner in zip(plan.steps, runners, strict=True):
        assert (step.used is None) == bool(step.reason)
        assert step.limit is None or (step.limit == 7 and runner.ends_early)
        assert not step.reason or "beyond the budget" in step.reason


def test_compiling_does_not_count(time):
    own = clock.Clock(10)
    time.now = 3.0
    with clock.compiling():
        time.now = 8.0
        with clock.compiling():
            time.now = 50.0
    assert own.spent() == 3.0 and own.left() == 7.0


class Slow:
    """Every look at the clock is a step of it, so that work has to end early."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.mark.parametrize("make", [TuneFreeClassifier, TuneFreeRegressor])
def test_trees_that_were_cut_short_are_repeated_by_their_plan(make, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=300)
    y = y > 0 if make is TuneFreeClassifier else y
    options = {"candidates": ("trees",), "random_state": 0, "n_jobs": 1}
    monkeypatch.setattr(costs, "machine_speed", lambda: 1.0)
    monkeypatch.setattr(clock, "now", Slow(0.04))
    model = make(budget="0.5s", **options).fit(X, y)
    monkeypatch.undo()
    (step,) = model.plan_.steps
    assert 1 <= step.limit < 60 and f"limited to {step.limit} rounds" in repr(model.plan_)
    again = make(budget=model.plan_, **options).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    assert again.plan_.timeless() == model.plan_.timeless()


@pytest.mark.parametrize("budget", [0.05, 2])
def test_reference_seconds_give_the_same_twice(budget):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = np.sin(3 * X[:, 0]) + rng.normal(size=6000) > 0
    fits = [TuneFreeClassifier(budget=budget, random_state=0).fit(X, y) for _ in range(2)]
    assert fits[0].plan_.timeless() == fits[1].plan_.timeless()
    np.testing.assert_array_equal(*(fit.decision_function(X) for fit in fits))


def test_a_sample_is_learned_if_the_time_is_too_short_for_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 3))
    y = (X[:, 0] + rng.normal(size=9000) > 0).astype(int)
    y[:15] = 2  # a rare class keeps its rows
    model = TuneFreeClassifier(budget=0.1, random_state=0).fit(X, y)
    assert 2000 <= model.plan_.rows < 3000
    assert f"a sample of {model.plan_.rows} rows" in repr(model.plan_)
    again = TuneFreeClassifier(budget=model.plan_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), again.decision_function(X))
    assert list(model.classes_) == [0, 1, 2] and model.score(X, y) > 0.7


class Fast:
    """A clock of which a second passes in a millisecond of this process."""

    def __call__(self):
        return 1000.0 * process_time()


def test_trees_that_were_cut_short_go_on_as_if_they_had_not_been(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=150)
    whole = BoostedTreesRegressor(random_state=0).fit(X, y)
    monkeypatch.setattr(clock, "now", Slow(0.04))
    kept, cuts = None, []
    for seconds in (0.5, 0.5, float("inf")):
        with clock.limited(seconds, kept) as own:
            model = BoostedTreesRegressor(random_state=0).fit(X, y)
        kept = own.kept
        cuts.append(own.cut)
    assert 0 < cuts[0] < cuts[1] and cuts[2] is None and kept is None
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


@pytest.mark.parametrize(("status", "goes_on"), [("skipped: no gain", True), ("finished", False)])
def test_what_was_cut_short_goes_on_in_the_time_that_is_left(time, status, goes_on):
    trees, kernel = (
        Runner(name=name, seconds=50.0, ends_early=True, uses_others=name == "kernel")
        for name in ("trees", "kernel")
    )
    sizes = [[Step(c.name, 50.0, 1.0)] for c in (trees, kernel)]
    leasts = {c.name: Cost(0.1, 1.0) for c in (trees, kernel)}
    schedule = schedule_of([trees, kernel], Limits("20s", None), sizes, leasts, None)
    entries, limit = [], {"trees": 9, "kernel": 7}
    for runner in (trees, kernel):
        turn = schedule.turn(runner, entries)
        took = turn.seconds if runner is trees else 1.0
        time.now += took
        schedule.ended(runner, took, limit[runner.name])
        losses = [1] if runner is trees or not goes_on else []
        how = status if runner is kernel else "finished"
        entries.append(
            SimpleNamespace(status=how, losses=losses, rows=[0], seconds=took, candidate=runner)
        )
    assert schedule.more(entries, {}) is None
    turn = schedule.more(entries, {"trees": "learners"})
    assert (turn is not None) == goes_on
    if goes_on:
        assert turn.seconds == pytest.approx(20.0 - time.now)
        schedule.ended(trees, 5.0, None)
        of_trees, of_kernel = schedule.result().steps
        assert of_trees.limit is None and of_trees.used == pytest.approx(time.now + 4.0)
        assert of_kernel.reason == "no gain"  # a plan that is given again does not try it


@pytest.mark.filterwarnings("ignore:The budget of")
def test_rows_that_cannot_be_read_in_time_are_left_out(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 60))
    y = (X[:, 0] + rng.normal(size=6000) > 0).astype(int)
    y[:25] = 2  # a rare class keeps its rows
    monkeypatch.setattr(clock, "now", Fast())
    with pytest.warns(DataWarning, match="of 6,000 rows were read: budget= suffices for no more"):
        model = TuneFreeClassifier(budget="1s", random_state=0, n_jobs=1).fit(X, y)
    assert model.plan_.read == 2000 and "only 2000 rows are read" in repr(model.plan_)
    assert list(model.classes_) == [0, 1, 2] and model.score(X, y) > 0.65
    monkeypatch.undo()
    with pytest.warns(DataWarning, match="rows were read"):
        again = TuneFreeClassifier(budget=model.plan_, random_state=0, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), again.decision_function(X))
    y = [*y[:-1], None]
    with pytest.raises(ValueError, match=r"y\[5999\]"):  # whether it is read or not
        TuneFreeClassifier(budget=model.plan_, random_state=0).fit(X, y)


def test_fits_of_one_call_share_its_budget(time):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    labels = (X @ rng.normal(size=(2, 3)) > 0).astype(int)
    linear = {"candidates": ("linear",), "random_state": 0}
    for budget, shares in (("9s", [3.0, 4.5, 9.0]), (0.3, [0.1] * 3)):  # no time passes
        model = TuneFreeClassifier(budget=budget, **linear).fit(X, labels)
        assert [one.plan_.seconds for one in model.label_models_] == pytest.approx(shares)
        model = TuneFreeClassifier(budget=budget, cross_fit=2, **linear).fit(X, labels[:, 0])
        fits = [model, *(copy for copy, _ in model.copies_)]
        assert [one.plan_.seconds for one in fits] == pytest.approx(shares)


def test_a_budget_too_short_for_any_candidate_gives_a_model_and_a_warning(time):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    with pytest.warns(UserWarning, match="too short: 'ridge on ranks .*' is evaluated all"):
        model = TuneFreeRegressor(budget="1ms", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9 and list(model.chosen_) == ["ridge on ranks and levels"]
    for budget in ("5", "5 parsecs", "-1s", "0ms", "infs", ""):
        with pytest.raises(ValueError, match="one of the units ms, s, min, h, such as '30s'"):
            TuneFreeRegressor(budget=budget).fit(X, y)


def test_a_pilot_is_kept_where_there_is_no_time_for_all_rows(time, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(5100, 3))
    y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.normal(size=5100)
    learn = PilotedKernel._pilot

    def pilot(*given):  # takes as long as the plan foresees for both, and more than what is left
        found = learn(*given)
        time.now += 20.0
        return found

    monkeypatch.setattr(PilotedKernel, "_pilot", pilot)
    monkeypatch.setattr("tunefree.stack.candidates._KERNEL_PILOT_ROWS", 800)
    options = {"candidates": ("linear", "kernel"), "random_state": 0, "n_jobs": 1}
    model = TuneFreeRegressor(budget="41s", **options).fit(X, y)
    step = model.plan_.steps[-1]
    assert step.candidate in model.chosen_ and step.limit == 800 and step.used == 40.0
    assert model.score(X, y) > 0.95 and model.feature_importances_[:2].sum() > 0.9
    assert model.permutation_importances_[0] > 0.1 > model.permutation_importances_[2]


@pytest.mark.parametrize("make", [TuneFreeClassifier, TuneFreeRegressor])
@pytest.mark.parametrize(("took", "is_partial"), [(10.0, True), (1.0, False)])
def test_the_held_out_model_is_kept_where_no_time_is_left_for_all_rows(
    make, took, is_partial, time, monkeypatch
):
    rng = np.random.default_rng(0)
    score = rng.normal(size=200)
    noise = sparse.random_array((200, 2500), density=0.001, rng=rng)  # too wide for others
    X = sparse.hstack([score[:, None], noise], format="csr")
    y = score > 0 if make is TuneFreeClassifier else score
    learn = LinearPiSTOL.fit

    def fit(*given, **more):
        time.now += took
        return learn(*given, **more)

    monkeypatch.setattr(LinearPiSTOL, "fit", fit)
    options = {"candidates": ("linear",), "random_state": 0}
    model = make(budget="40s", **options).fit(X, y)
    words = "not fitted to all rows, for want of time" in repr(model.plan_)
    reason = "Without the held-out rows, for want of time: linear" in model.report_.reason
    assert words == reason == is_partial
    assert model.score(X, y) > 0.9
    again = make(budget=model.plan_, **options).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    whole = make(**options).fit(X, y)
    assert np.array_equal(whole.models_[0].coef_, model.models_[0].coef_) != is_partial


def test_a_kernel_that_was_skipped_has_its_turn_in_the_time_that_is_left(time):
    kernel = Runner(name="kernel", is_whole=True, ends_early=False, uses_others=False)
    trees = Runner(name="trees", ends_early=True, uses_others=False)
    sizes = [[Step("kernel", 12.0, 1.0)], [Step("trees", 20.0, 1.0)]]
    limits = Limits("20s", None)
    schedule = schedule_of([kernel, trees], limits, sizes, {"trees": Cost(0.1, 1.0)}, None)
    done = [SimpleNamespace(candidate=trees, status="finished", losses=[1], rows=[0], seconds=0.0)]
    assert schedule.turn(kernel, done).reason == "would take 12 s, beyond the budget"
    schedule.turn(trees, [])
    time.now = 5.0
    schedule.ended(trees, 5.0, None)
    skipped = SimpleNamespace(candidate=kernel, status="skipped", losses=[])
    assert schedule.more([skipped], {}).seconds == 15.0
    schedule.ended(kernel, 12.0, None)
    assert [step.reason for step in schedule.result().steps] == ["", ""]
    assert schedule.more([skipped], {}) is None


@given(st.floats(0.1, 30), st.integers(2000, 10**5), st.floats(1.0, 100.0))
def test_a_sample_grows_by_what_the_time_that_is_left_suffices_for(took, n, times):
    made, n_all = Time(), int(n * times)
    linear = Runner(name="linear", ends_early=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now", made)
        patch.setattr(costs, "machine_speed", lambda: costs._TYPICAL)
        limits = Limits("60s", None)
        schedule = schedule_of([linear], limits, [[Step("linear", took, 1.0)]], {}, n)
        schedule.turn(linear, [])
        made.now = took
        schedule.ended(linear, took, None)
        done = SimpleNamespace(
            status="finished", losses=[1], rows=[0], seconds=took, candidate=linear
        )
        more = schedule.rows_for_more([done], n, n_all)
        if more is None:
            assert n_all < 1.3 * n or limits.left() < 1.4 * took
        else:
            assert 1.2 * n < more <= n_all and took * more / n <= limits.left()


def test_a_sample_that_has_grown_to_all_rows_is_a_fit_to_all_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = X[:, 0] + np.abs(X[:, 1]) + 0.1 * rng.normal(size=900)
    monkeypatch.setattr("tunefree.stack.estimator.rows_to_learn", lambda *_: 300)
    options = {"candidates": ("linear",), "random_state": 0, "n_jobs": 1}
    model = TuneFreeRegressor(budget="1000s", **options).fit(X, y)
    fixed = TuneFreeRegressor(budget=1000, **options).fit(X, y)
    assert model.plan_.rows is None and fixed.plan_.rows == 300  # reference seconds do not grow
    monkeypatch.undo()
    whole = TuneFreeRegressor(**options).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    again = TuneFreeRegressor(budget=model.plan_, **options).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


def test_what_takes_too_long_is_left_out_where_another_candidate_has_time(time, recwarn):
    slow, quick = (Runner(name=n, seconds=s, ends_early=False) for n, s in (("a", 30), ("b", 1)))
    sizes = [[Step(c.name, c.seconds, 1.0)] for c in (slow, quick)]
    schedule = schedule_of([slow, quick], Limits("10s", None), sizes, {}, None)
    assert "beyond the budget" in schedule.turn(slow, []).reason
    assert not schedule.turn(quick, []).reason and not recwarn


@pytest.mark.filterwarnings("ignore:The budget of")
@pytest.mark.parametrize(("seconds", "chosen"), [(20, "a"), (90, "b")])
def test_where_none_has_time_the_first_is_evaluated_unless_it_takes_much_longer(
    time, seconds, chosen
):
    both = [Runner(name=n, seconds=s, ends_early=False) for n, s in (("a", seconds), ("b", 12))]
    sizes = [[Step(c.name, c.seconds, 1.0)] for c in both]
    schedule = schedule_of(both, Limits("10s", None), sizes, {}, None)
    turn = schedule.turn(both[0], [])
    assert bool(turn.reason) == (chosen == "b")
    if turn.reason:
        assert not schedule.turn(both[1], []).reason


@pytest.mark.parametrize(("least", "first"), [(0.1, "linear"), (2.0, "kernel")])
def test_kernels_come_first_where_trees_are_dear(time, least, first):
    linear = Runner(name="linear", ends_early=False)
    trees = Runner(name="trees", ends_early=True)
    kernel = Runner(name="kernel", is_whole=True, ends_early=False)
    sizes = [[Step(name, 5.0, 1.0)] for name in ("linear", "trees", "kernel")]
    leasts = {"trees": Cost(least, 1.0)}
    schedule = schedule_of([linear, trees, kernel], Limits("60s", None), sizes, leasts, None)
    order = [c.name for c in schedule.candidates]
    assert order[0] == first and order[-1] == "trees"


@pytest.mark.parametrize(("worth", "most"), [(5000, 5000), (10**6, 75_000), (10, 2000)])
def test_no_more_rows_are_read_than_are_worth_it(time, monkeypatch, worth, most):
    def read(X, *_):
        time.now += 0.001 * len(X)
        return SimpleNamespace(X=X, y=np.zeros(len(X)))

    monkeypatch.setattr("tunefree.stack.drawn.worth_reading", lambda *_: worth)
    X = np.broadcast_to(np.float32(0.0), (10**6, 1000))
    estimator = TuneFreeRegressor()
    estimator._rows = read
    found = most_rows_to_read(estimator, X, X[:, 0], Limits("1000s", None), ("trees",))
    assert found == pytest.approx(most, rel=0.01)


@pytest.mark.parametrize(("enough_for", "landmarks"), [(1400, 1000), (1700, 1500), (3000, 2000)])
def test_a_kernel_has_the_landmarks_that_the_time_suffices_for(
    enough_for, landmarks, time, monkeypatch
):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(6000, 3))
    y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) * X[:, 2]
    solve = LandmarkSolver.solve

    def solve_slowly(solver, problem):
        time.now += solver.work(problem)
        return solve(solver, problem)

    monkeypatch.setattr(LandmarkSolver, "solve", solve_slowly)
    monkeypatch.setattr("tunefree.kernel_ridge.choice._START", 500)
    monkeypatch.setattr("tunefree.kernel_ridge.choice._FALL", -1.0)  # more are always tried
    model = KernelRidgeRegressor(kernel="rbf", n_landmarks=2000, random_state=0)
    sizes = np.array([250, 250, 500, 1000, enough_for])  # and two trials of pivots
    seconds = (6000 * sizes * (sizes + 3) + 20.0 * sizes**3).sum()
    with clock.limited(seconds) as own:
        model._learn(X, y, held=np.arange(6000) >= 5000, fewer=True)
    assert len(model.dual_coef_) == landmarks
    assert own.cut == (landmarks if landmarks < 2000 else None)
    assert own.left() >= 0.0


@pytest.mark.parametrize(("each", "rows"), [(2.0, 800), (12.0, 400)])
def test_the_first_pilot_is_kept_where_there_is_no_time_for_more_rows(
    each, rows, time, monkeypatch
):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(5100, 3))
    y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.normal(size=5100)
    learn = PilotedKernel._pilot

    def pilot(*given):
        found = learn(*given)
        time.now += each
        return found

    monkeypatch.setattr(PilotedKernel, "_pilot", pilot)
    monkeypatch.setattr(PilotedKernel, "_may_learn_all", lambda *_: False)
    monkeypatch.setattr("tunefree.stack.candidates._FIRST_PILOT_ROWS", 400)
    monkeypatch.setattr("tunefree.stack.candidates._KERNEL_PILOT_ROWS", 800)
    options = {"candidates": ("linear", "kernel"), "random_state": 0, "n_jobs": 1}
    model = TuneFreeRegressor(budget="26s", **options).fit(X, y)
    assert model.plan_.steps[-1].limit == rows
