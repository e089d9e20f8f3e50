"""A plan is made before work starts: within its limits, the dearest given up first, repeatable."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunefree import (
    KernelRidgeRegressor,
    TuneFreeClassifier,
    TuneFreeRegressor,
    load_model,
    save_model,
)
from tunefree.core.process import amount, machine_memory
from tunefree.stack.candidates import PilotedKernel
from tunefree.stack.costs import (
    _TYPICAL,
    Cost,
    Limits,
    Shape,
    Step,
    kernel_ridge_cost,
    machine_speed,
)


class Runner(NamedTuple):
    name: str
    cost: Cost
    limits: tuple = ()
    unit: str = "rows"

    def limited(self, limit):
        share = 1.0 if limit is None else limit / 100
        return self._replace(cost=Cost(self.cost.seconds * share, self.cost.bytes * share))


def sizes_of(runner):
    """A runner's steps, the largest first."""
    each = [(limit, runner.limited(limit)) for limit in (None, *runner.limits)]
    return [Step(runner.name, *c.cost, limit, c.unit) for limit, c in each]


def plan(runners, budget=None, memory=None):
    made = Limits(budget, memory).plan_for([sizes_of(c) for c in runners])
    steps = {step.candidate: step for step in made.steps}
    return made, [c.limited(steps[c.name].limit) for c in runners]


sizes = st.floats(0.01, 100)
runners = st.lists(
    st.tuples(sizes, sizes, st.sampled_from([(), (50,), (60, 20)])), min_size=1, max_size=5
).map(lambda each: [Runner(str(i), Cost(s, b), m) for i, (s, b, m) in enumerate(each)])


@given(runners, sizes, sizes)
def test_a_plan_keeps_its_limits_and_the_cheapest(each, budget, memory):
    def least(c, i):
        return min(c.limited(m).cost[i] for m in (None, *c.limits))

    if all(least(c, 1) > memory for c in each):
        with pytest.raises(MemoryError, match="is too little: '.', the cheapest candidate"):
            plan(each, budget, memory)
        return
    made, limited = plan(each, budget, memory)
    taken = [s for s in made.steps if not s.reason]
    assert all(s.bytes <= memory for s in taken)
    cheapest = min(least(c, 0) for c in each if least(c, 1) <= memory)
    assert made.expected.seconds <= budget or [s.seconds for s in taken] == [cheapest]
    assert [c.cost.seconds for c, s in zip(limited, made.steps, strict=True) if not s.reason] == [
        s.seconds for s in taken
    ]
    # Nothing is given up without need, and a plan that is given again is followed.
    if sum(c.cost.seconds for c in each) <= budget and max(c.cost.bytes for c in each) <= memory:
        assert taken == list(made.steps) and not made.limitations
    assert plan(each, made) == (made, limited)


def test_a_smaller_version_may_take_more_memory_than_all_if_it_is_there():
    steps = [Step("k", 200.0, 1e6), Step("k", 40.0, 3e6, 2000), Step("k", 10.0, 1e6, 1000)]
    other = [Step("other", 1.0, 1e6)]
    for memory, limit in (("10MB", 2000), ("2MB", 1000)):
        found = Limits(100.0, memory).plan_for([steps, other]).steps[0]
        assert (found.limit, found.reason) == (limit, "")


def test_pilots_of_kernels_cost_the_same_whatever_the_limit():
    shape = Shape(100_000, 20, 2e6, 1)
    whole = PilotedKernel("kernel ridge", KernelRidgeRegressor())

    def pilots(m):
        fit = kernel_ridge_cost(shape, "rbf", m)
        return whole.limited(m).cost(shape).seconds - fit.seconds

    assert pilots(4000) == pytest.approx(pilots("auto")) == pytest.approx(pilots(2000))
    assert pilots(4000) < kernel_ridge_cost(shape, "rbf", 2000).seconds


def test_the_dearest_is_made_smaller_first_and_what_is_left_says_so():
    each = [Runner("a", Cost(1, 1)), Runner("b", Cost(8, 1), (50, 25)), Runner("c", Cost(4, 1))]
    assert [s.limit for s in plan(each, 9)[0].steps] == [None, 50, None]
    steps = plan(each, 4)[0].steps
    assert (steps[1].limit, steps[2].reason) == (25, "would take 4 s, beyond the budget")
    assert plan(each, 9)[0].limitations == "Limited by the plan: b to 50 rows."
    text = repr(plan(each, 4)[0])
    assert "b: 2 s, 2.5e-07 MB, limited to 25 rows" in text and "at most 3 s" in text
    # What may follow counts, too.
    with pytest.raises(ValueError, match="is a plan of a, b, c; the candidates .* are a, b"):
        plan(each[:2], plan(each)[0])


def test_seconds_of_the_clock_are_those_of_this_machine_from_the_call_on(monkeypatch):
    assert 0.01 < machine_speed() < 100 and machine_memory() > 1e8
    # Fits take _TYPICAL of the formulas: two seconds of the clock for each of the plan.
    monkeypatch.setattr("tunefree.stack.costs.machine_speed", lambda: 0.5 * _TYPICAL)
    each = [Runner("a", Cost(1, 1)), Runner("b", Cost(3, 1), (50,))]
    limits = Limits("9s", None)
    options = [sizes_of(c) for c in each]
    assert limits.plan_for(options).expected.seconds == 8
    monkeypatch.setattr(limits.clock, "seconds", 7)  # reading the table has taken time
    assert limits.plan_for(options).expected.seconds == 5
    assert Limits("2 min", None).seconds == 120 and Limits(np.float32(3), None).seconds == 3
    assert amount(Limits(None, "1.5GB").bytes) == "1.5 GB"
    for memory in (0, -1, "much", True, "GB", float("nan")):
        with pytest.raises(ValueError, match="max_memory="):
            Limits(None, memory)


@pytest.mark.parametrize("make", [TuneFreeClassifier, TuneFreeRegressor])
def test_a_limited_fit_can_be_repeated_from_its_plan_and_its_file(make, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=700)
    y = y > 0 if make is TuneFreeClassifier else y
    model = make(max_memory="68MB", random_state=0).fit(X, y)
    assert {s.limit for s in model.plan_.steps} == {None, 250}
    assert "Gaussian kernel to 250 landmarks" in repr(model.report_)
    save_model(model, tmp_path / "m")
    known = load_model(tmp_path / "m").plan_
    assert known == model.plan_.timeless()
    again = make(budget=known, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(MemoryError, match="'ridge on ranks and levels', the cheapest candidate"):
        make(max_memory="0.1MB").fit(X, y)
