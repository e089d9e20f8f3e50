"""A budget of clock time is kept, whatever candidates take; what is cut short can be repeated."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunefree import TuneFreeClassifier, TuneFreeRegressor
from tunefree.core import clock
from tunefree.stack import costs
from tunefree.stack.costs import Cost, Limits, Step
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

    def limited(self, limit):
        return self

    def share_of_refit(self, n_rows):
        return 0.0


candidates = st.lists(st.tuples(st.floats(0.1, 50), st.booleans()), min_size=1, max_size=6)


@given(candidates, st.floats(1, 100), st.floats(0.05, 1.0))
def test_the_time_is_kept_if_candidates_take_no_longer_than_foreseen(each, budget, factor):
    made = Time()
    runners = [
        Runner(name=str(i), seconds=seconds, factor=factor, ends_early=early)
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
