"""The plan of a fit: what each candidate costs and which are skipped, computed before work starts.

Costs are formulas of the data's shape, fitted to the upper end of measurements. Time is in seconds
of the reference core, which makes 2e10 multiply-adds a second in a product of matrices. Memory is
in bytes at the peak. Candidates beyond the time or memory allowed are made smaller, the most
expensive first, or skipped. A plan given as `budget=` is followed again, also on another machine.
"""

import re
import time
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tunefree._parameters import bytes_of
from tunefree._process import amount, machine_memory, one_blas_thread

# Seconds allowed when no budget is given: five minutes of the reference core.
_DEFAULT = 300.0
# Seconds of the speed test on the reference core.
_PROBE = 0.0095


class Cost(NamedTuple):
    """Seconds of the reference core, and bytes at the peak in addition to the data."""

    seconds: float
    bytes: float


class Step(NamedTuple):
    """What is planned for one candidate."""

    candidate: str
    seconds: float  # of the reference core, at most: its evaluation and its last fit
    bytes: float
    limit: int | None = None  # landmarks or rows that it is limited to; None without a limit
    unit: str = ""  # of the limit: 'landmarks' or 'rows'
    reason: str = ""  # why it is skipped; '' if it is not


class Plan(NamedTuple):
    """What a fit evaluates, fixed before it starts; given as `budget=` it is followed again.

    Attributes
    ----------
    steps : tuple of Step
    seconds : float
        The budget.
    bytes : float or None
        The memory allowed, if it was given.
    speed : float
        Of the machine in units of the reference core, if the budget is clock time; else 1.
    again : float or None
        Seconds of the reference core planned for last fits on all rows, of candidates evaluated on
        a part of them; None if the budget does not allow these.
    """

    steps: tuple
    seconds: float
    bytes: float | None
    speed: float = 1.0
    again: float | None = None

    @property
    def expected(self):
        """The `Cost` of all steps, in seconds of the machine's clock."""
        included = [s for s in self.steps if not s.reason]
        seconds = sum(s.seconds for s in included) + (self.again or 0.0)
        return Cost(seconds / self.speed, max(s.bytes for s in included))

    @property
    def limitations(self):
        """A sentence on candidates that were made smaller; '' if none was."""
        limited = [
            f"{s.candidate} to {s.limit} {s.unit}" for s in self.steps if s.limit and not s.reason
        ]
        return f"Limited by the plan: {', '.join(limited)}." if limited else ""

    def __repr__(self):
        cost = self.expected
        memory = f"{amount(cost.bytes)} in addition to the data"
        lines = [f"Plan: at most {cost.seconds:.2g} s and {memory}"]
        for step in self.steps:
            words = f"{step.seconds / self.speed:.2g} s, {amount(step.bytes)}"
            words += f", limited to {step.limit} {step.unit}" if step.limit else ""
            lines.append(f"  {step.candidate}: {step.reason or words}")
        return "\n".join(lines)

    __str__ = __repr__


class Limits:
    """The time and memory that a fit may take; the clock starts when this is created.

    Parameters
    ----------
    budget : None, float, str or Plan
        Seconds of the reference core; text such as "30s" is clock time.
    max_memory : None, int or str
        Bytes, or text such as "2GB". None is three quarters of what the process may have.

    Examples
    --------
    >>> Limits("1.5 min", "500 MB").bytes
    500000000.0
    """

    def __init__(self, budget, max_memory):
        self.start, self.plan, self.measured = time.perf_counter(), None, False
        self.given = None if max_memory is None else bytes_of(max_memory)
        self.seconds, self.bytes = _DEFAULT, self.given or machine_memory()
        message = f"budget={budget!r} is neither seconds, nor text such as '30s', nor a plan."
        if isinstance(budget, Plan):
            self.plan = budget
        elif isinstance(budget, str):
            found = re.fullmatch(r"\s*(\d+\.?\d*)\s*(s|min|h)\s*", budget)
            if not found or not float(found[1]) > 0:
                raise ValueError(message)
            self.seconds = float(found[1]) * {"s": 1, "min": 60, "h": 3600}[found[2]]
            self.measured = True
        elif budget is not None:
            if isinstance(budget, bool) or not isinstance(budget, int | float | np.number):
                raise ValueError(message)
            if not budget > 0:
                raise ValueError(f"budget={budget!r} is not positive.")
            self.seconds = float(budget)

    def plan_for(self, candidates, cost, again):
        """A `Plan`, and the candidates with their limits; skipped ones are unchanged.

        `cost(candidate)` is the `Cost` of its evaluation and last fit, `again(candidate)` that of a
        last fit on all rows if it was evaluated on a part of them. A candidate has a `name`, its
        possible `limits`, the largest first, their `unit`, and a method `limited(limit)`.
        """
        if self.plan is not None:
            return _followed(self.plan, candidates)
        speed, allowed = 1.0, self.seconds
        if self.measured:
            speed = machine_speed()
            allowed = (self.seconds - (time.perf_counter() - self.start)) * speed
        options = [[_step(c, limit, cost) for limit in (None, *c.limits)] for c in candidates]
        cheapest = int(np.argmin([steps[-1].seconds for steps in options]))
        planned: list[Step] = []
        for steps in options:  # memory: candidates run one after the other
            fitting = [s for s in steps if s.bytes <= self.bytes]
            reason = f"would take {amount(steps[-1].bytes)}, beyond max_memory"
            planned.append(fitting[0] if fitting else steps[-1]._replace(reason=reason))
        if all(s.reason for s in planned):
            step = planned[cheapest]
            raise MemoryError(
                f"max_memory={amount(self.bytes)} is too little: {step.candidate!r}, the cheapest "
                f"candidate, takes about {amount(step.bytes)} in addition to the data. Give fewer "
                "columns, or learn from a file with fit_source (PiSTOL, GLM)."
            )
        cheapest = min(
            (i for i, s in enumerate(planned) if not s.reason), key=lambda i: options[i][-1].seconds
        )

        def total_seconds():
            return sum(s.seconds for s in planned if not s.reason)

        while total_seconds() > allowed:
            by_cost = sorted(range(len(planned)), key=lambda i: -planned[i].seconds)
            included = [i for i in by_cost if not planned[i].reason]
            smaller = {i: _smaller(planned[i], options[i]) for i in included}
            reducible = [i for i in included if i != cheapest or smaller[i]]
            if not reducible:
                break
            step = planned[reducible[0]]
            reason = f"would take {step.seconds / speed:.2g} s, beyond the budget"
            planned[reducible[0]] = smaller[reducible[0]] or step._replace(reason=reason)
        limited = [c.limited(s.limit) for c, s in zip(candidates, planned, strict=True)]
        last_fits = [again(c) for c, s in zip(limited, planned, strict=True) if not s.reason]
        seconds: float | None = sum(c.seconds for c in last_fits)
        if total_seconds() + seconds > allowed or any(c.bytes > self.bytes for c in last_fits):
            seconds = None
        return Plan(tuple(planned), self.seconds, self.given, speed, seconds), limited


def _step(candidate, limit, cost):
    seconds, size = cost(candidate.limited(limit))
    return Step(candidate.name, seconds, size, limit, candidate.unit)


def _smaller(step, steps):
    """The largest version of a step that is cheaper than it and fits the memory, or None."""
    return next((s for s in steps if s.seconds < step.seconds and s.bytes <= step.bytes), None)


def _followed(plan, candidates):
    steps = {s.candidate: s for s in plan.steps}
    unknown = [c.name for c in candidates if c.name not in steps]
    if unknown or len(steps) > len(candidates):
        raise ValueError(
            f"budget= is a plan of {', '.join(steps)}; the candidates for these data are "
            f"{', '.join(c.name for c in candidates)}."
        )
    return plan, [c.limited(steps[c.name].limit) for c in candidates]


def machine_speed():
    """The machine's current speed in units of the reference core; other processes slow it down."""
    A, values = _material()
    with one_blas_thread():
        took: list[float] = []
        for _ in range(3):
            start = time.perf_counter()
            for _ in range(4):
                np.matmul(A, A)
            np.sort(values)
            took.append(time.perf_counter() - start)
    return _PROBE / min(took)


@cache
def _material() -> Any:
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 300)), rng.normal(size=100_000)
