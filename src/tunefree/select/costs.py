"""The plan of a race: what each candidate costs, and what is let go, worked out before work starts.

Costs are declared: formulas of the data's shape in seconds of the reference core (one that makes
2e10 multiply-adds a second in a product of matrices) and in bytes at the peak, above what was
measured. What goes beyond the time or the memory allowed is made smaller, the dearest first, or
left out. A plan is a record: as `budget=` it is followed again, on another machine, too.
"""

import re
import time
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tunefree._process import amount, machine_memory, one_blas_thread

# Seconds allowed when no budget is given: five minutes of the reference core.
_DEFAULT = 300.0
# What the probe of the machine's speed takes on the reference core.
_PROBE = 0.0095


class Cost(NamedTuple):
    """Seconds of the reference core, and bytes at the peak beside the data."""

    seconds: float
    bytes: float


class Step(NamedTuple):
    """What becomes of a candidate.

    Attributes
    ----------
    candidate : str
    seconds, bytes : float
        What judging it and its last fit take at most: seconds of the reference core.
    limit : int or None
        Landmarks or rows that it is limited to; None without a limit.
    unit : str
        'landmarks' or 'rows'.
    reason : str
        Why it is left out; '' if it takes part.
    """

    candidate: str
    seconds: float
    bytes: float
    limit: int | None = None
    unit: str = ""
    reason: str = ""


class Plan(NamedTuple):
    """What takes part in a race, fixed before it starts; given as `budget=` it is followed again.

    Attributes
    ----------
    steps : tuple of Step
    seconds : float
    bytes : float or None
        Allowed; bytes if they were given.
    speed : float
        Of the machine in units of the reference core, where seconds are those of a clock; else 1.
    again : float or None
        Seconds of the reference core that learning all rows may take in the end, of what was judged
        on some; None if it may not.
    """

    steps: tuple
    seconds: float
    bytes: float | None
    speed: float = 1.0
    again: float | None = None

    @property
    def expected(self):
        """The `Cost` of all steps, seconds by the machine's clock."""
        taken = [s for s in self.steps if not s.reason]
        seconds = sum(s.seconds for s in taken) + (self.again or 0.0)
        return Cost(seconds / self.speed, max(s.bytes for s in taken))

    @property
    def told(self):
        """What was made smaller, in a sentence; '' if nothing was."""
        few = [
            f"{s.candidate} to {s.limit} {s.unit}" for s in self.steps if s.limit and not s.reason
        ]
        return f"Limited by the plan: {', '.join(few)}." if few else ""

    def __repr__(self):
        cost = self.expected
        lines = [f"Plan: at most {cost.seconds:.2g} s and {amount(cost.bytes)} beside the data"]
        for step in self.steps:
            words = f"{step.seconds / self.speed:.2g} s, {amount(step.bytes)}"
            words += f", limited to {step.limit} {step.unit}" if step.limit else ""
            lines.append(f"  {step.candidate}: {step.reason or words}")
        return "\n".join(lines)

    __str__ = __repr__


class Limits:
    """What a fit may take, counted from the moment that this is made.

    Parameters
    ----------
    budget : None, float, str or Plan
        Seconds of the reference core; text such as "30s" is seconds of the clock.
    max_memory : None, int or str
        Bytes; text such as "2GB". None is three quarters of what the process may have.

    Examples
    --------
    >>> Limits("1.5 min", "500 MB").bytes
    500000000.0
    """

    def __init__(self, budget, max_memory):
        self.start, self.plan, self.measured = time.perf_counter(), None, False
        self.seconds, self.bytes = _DEFAULT, _memory(max_memory)
        self.given = None if max_memory is None else self.bytes
        words = f"budget={budget!r} is neither seconds, nor text such as '30s', nor a plan."
        if isinstance(budget, Plan):
            self.plan = budget
        elif isinstance(budget, str):
            found = re.fullmatch(r"\s*(\d+\.?\d*)\s*(s|min|h)\s*", budget)
            if not found or not float(found[1]) > 0:
                raise ValueError(words)
            self.seconds = float(found[1]) * {"s": 1, "min": 60, "h": 3600}[found[2]]
            self.measured = True
        elif budget is not None:
            if isinstance(budget, bool) or not isinstance(budget, int | float | np.number):
                raise ValueError(words)
            if not budget > 0:
                raise ValueError(f"budget={budget!r} is not positive.")
            self.seconds = float(budget)

    def plan_for(self, candidates, cost, again):
        """A `Plan`, and the candidates with their limits, those left out as they were.

        `cost(candidate)` is the `Cost` of all that is done with it, `again(candidate)` that of
        learning all rows after it was judged on some; a candidate has a `name`,
        `limits` that it can have, the largest first, in some `unit`, and `limited(limit)`.
        """
        if self.plan is not None:
            return _followed(self.plan, candidates)
        speed, allowed = 1.0, self.seconds
        if self.measured:
            speed = machine_speed()
            allowed = (self.seconds - (time.perf_counter() - self.start)) * speed
        options = [[_step(c, limit, cost) for limit in (None, *c.limits)] for c in candidates]
        least = int(np.argmin([steps[-1].seconds for steps in options]))
        taken: list[Step] = []
        for steps in options:  # memory: each by itself
            small = [s for s in steps if s.bytes <= self.bytes]
            words = f"would take {amount(steps[-1].bytes)}, beyond max_memory"
            taken.append(small[0] if small else steps[-1]._replace(reason=words))
        if all(s.reason for s in taken):
            raise MemoryError(
                f"max_memory={amount(self.bytes)} is too little: {taken[least].candidate!r}, the "
                f"cheapest candidate, takes about {amount(taken[least].bytes)} beside the data. "
                "Give fewer columns, or learn from a file with fit_source (PiSTOL, Reflectron)."
            )
        least = min(
            (i for i, s in enumerate(taken) if not s.reason), key=lambda i: options[i][-1].seconds
        )

        def spent():
            return sum(s.seconds for s in taken if not s.reason)

        while spent() > allowed:
            in_turn = sorted(range(len(taken)), key=lambda i: -taken[i].seconds)
            running = [i for i in in_turn if not taken[i].reason]
            smaller = {i: _smaller(taken[i], options[i]) for i in running}
            can = [i for i in running if i != least or smaller[i]]
            if not can:
                break
            step = taken[can[0]]
            words = f"would take {step.seconds / speed:.2g} s, beyond the budget"
            taken[can[0]] = smaller[can[0]] or step._replace(reason=words)
        limited = [c.limited(s.limit) for c, s in zip(candidates, taken, strict=True)]
        later = [again(c) for c, s in zip(limited, taken, strict=True) if not s.reason]
        more: float | None = sum(c.seconds for c in later)
        if spent() + more > allowed or any(c.bytes > self.bytes for c in later):
            more = None
        return Plan(tuple(taken), self.seconds, self.given, speed, more), limited


def _step(candidate, limit, cost):
    seconds, size = cost(candidate.limited(limit))
    return Step(candidate.name, seconds, size, limit, candidate.unit)


def _smaller(step, steps):
    """The largest that a step can still be made smaller to, or None."""
    return next((s for s in steps if s.seconds < step.seconds and s.bytes <= step.bytes), None)


def _followed(plan, candidates):
    steps = {s.candidate: s for s in plan.steps}
    strange = [c.name for c in candidates if c.name not in steps]
    if strange or len(steps) > len(candidates):
        raise ValueError(
            f"budget= is a plan of {', '.join(steps)}; the candidates for these data are "
            f"{', '.join(c.name for c in candidates)}."
        )
    return plan, [c.limited(steps[c.name].limit) for c in candidates]


def _memory(given):
    if given is None:
        return machine_memory()
    size = 0.0
    if isinstance(given, str):
        if found := re.fullmatch(r"\s*(\d+\.?\d*)\s*([kMGT]?)B\s*", given):
            size = float(found[1]) * 10.0 ** (3 * " kMGT".index(found[2] or " "))
    elif isinstance(given, int | float | np.number) and not isinstance(given, bool):
        size = float(given)
    if not size > 0.0:
        raise ValueError(f"max_memory={given!r} is neither bytes nor text such as '2GB'.")
    return size


def machine_speed():
    """The machine's speed in units of the reference core, as it is now: other work slows it."""
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
