"""The plan of a fit: what each candidate costs, and which are limited or skipped.

Costs are formulas of the data's shape, fitted to the upper end of measurements. Time is in seconds
of the reference core, which makes 2e10 multiply-adds a second in a product of matrices. Memory is
in bytes at the peak. Candidates beyond the time or memory allowed are made smaller, the most
expensive first, or skipped. With a budget of clock time this is only what is foreseen: see
`schedule`. A plan given as `budget=` is followed again, also on another machine.
"""

import re
from typing import NamedTuple

import numpy as np

from tunefree.core import clock
from tunefree.core.format import duration
from tunefree.core.parameters import bytes_of
from tunefree.core.process import amount, machine_memory, n_threads, one_blas_thread
from tunefree.kernel_ridge import solvers as ridge
from tunefree.kernel_ridge.choice import DECIDING, affordable, all_rows_affordable
from tunefree.pistol.bandwidths import PRESELECTION
from tunefree.rows.designs import n_entries

# Seconds allowed when no budget is given: five minutes of the reference core.
_DEFAULT = 300.0
# Fits take about so much of the formulas below, which are upper ends: candidates of 1,000 to
# 100,000 rows took .05 to .6 (by hand).
_TYPICAL = 0.3
# If a few rounds of trees would take more of the reference seconds than this, fewer rows are
# learned, but not fewer than so many.
_FOR_FEW_ROUNDS, FEWEST_SAMPLED = 0.4, 2000
# Of clock time they may take so many times all: there are then some fewer rounds. With so many rows
# the losses of protein, Friedman's function and the made classes were nearly least in 2 and 5
# seconds (by hand: 5,000 to 40,000 rows). Trees of t threads are t to this power times faster.
# Chosen.
_OF_CLOCK, _THREADS = 1.4, 0.7
# The least time of a fit that shares a budget with others.
_LEAST = 0.01
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
# Seconds of the speed test on the reference core.
_PROBE = 0.0095
# Seconds of PiSTOL for a column: 20 Newsgroups, of 1.4 million columns (benchmarks/budget.py --only
# newsgroups).
_EACH_COLUMN = 5e-6
# Kernel PiSTOL is evaluated after learning at most so many rows: their kernel values are cached.
MOST_ROWS = 16_384


class Cost(NamedTuple):
    """Seconds of the reference core, and bytes at the peak in addition to the data."""

    seconds: float
    bytes: float


class Shape(NamedTuple):
    """Rows, columns, stored entries and outputs of the data."""

    n: int
    d: int
    entries: float
    k: int

    def rows(self, n):
        """The shape of n rows of the same data."""
        return self._replace(n=n, entries=self.entries * n / self.n)


def shape_of(X, n_outputs):
    """The shape of dense or sparse rows."""
    n, d = X.shape
    return Shape(n, d, float(max(n_entries(X), 1)), n_outputs)


# Costs of one fit, fitted to the upper end of measurements on 14 tables of 300 to 16,000 rows.


def linear_cost(shape):
    """Of linear PiSTOL."""
    passes = np.clip(3.2e4 / shape.n, 3, 12)
    outputs = shape.entries * shape.k
    rotation = 2 * shape.entries * shape.d if shape.d <= 1000 else 0.0
    seconds = 0.03 + 5.5e-8 * (5 + 2 * passes) * outputs + rotation / 2e10
    seconds += _EACH_COLUMN * shape.d * shape.k
    return Cost(seconds, 2e7 + 40 * shape.entries + 130 * shape.n * shape.k)


def ridge_cost(shape):
    """Of ridge regression."""
    work = 2 * shape.n * shape.d * min(shape.n, shape.d)
    return Cost(0.01 + work / 2e10, 90 * shape.entries + 50 * min(shape.d, 1000) ** 2)


def glm_cost(shape):
    """Of a GLM: five folds and all rows, four potentials, some hundred steps of two sweeps each."""
    return Cost(0.1 + 6 * 4 * 200 * shape.entries * shape.k / 5e8, 1e7 + 40 * shape.entries)


def ranks_cost(shape):
    """Of ridge regression on ranks and levels."""
    work = shape.n * shape.d * min(shape.n, 2 * shape.d) + 20 * shape.d**3
    seconds = 0.02 + (work + 3e4 * shape.n + 1e6 * shape.k) / 2e10 + permutation_seconds(shape)
    return Cost(seconds, 90 * shape.n * shape.d + 330 * shape.n * shape.k + 100 * shape.d**2)


def kernel_ridge_cost(shape, kernel, landmarks):
    """Of kernel ridge regression; `landmarks` is their number or 'auto'."""
    n, sample = shape.n, min(shape.n, 700)
    search = 60 * sample**2 * (sample + 2 * shape.d) * (1 + shape.k / 30)
    search *= 1.3 if kernel == "laplacian" else 1.0  # no product of matrices
    if landmarks == "auto" and n <= ridge.EXACT_ROWS:
        solution = n**3 / 3
        memory = 17.0 * n**2 + 60 * n * shape.k
    else:
        has_all_rows = landmarks == "auto" and all_rows_affordable(n, shape.d)
        m = affordable(n) if landmarks == "auto" else min(landmarks, n)
        m = min(m, DECIDING) if has_all_rows else m
        # Half as many, a quarter, ... are tried before.
        solution = 1.3 * (n * m**2 + 20 * m**3)
        memory = 60.0 * m**2 + 260 * n * shape.k
        if has_all_rows:
            # Steps with and without the held-out rows, each with half of the kernel values.
            solution += 40 * n**2 / 2 * (25 + shape.d / 2 + 4 * shape.k)
            memory += 40.0 * n * (shape.d + 10 * shape.k)
    solution += n * min(n, 700) * 2 * shape.d
    memory += 130 * sample**2 + 30 * n * shape.d
    return Cost(0.1 + (search + solution) / 2e10 + permutation_seconds(shape), memory)


def trees_cost(shape, n_folds, most_rounds):
    """Of at most so many rounds of boosted trees, on the folds and on all rows."""
    n = shape.n
    d = shape.d
    outputs = 1 + min(shape.k, 4)
    # Few rows need few rounds.
    rounds, leaves = (min(600, most_rounds), 70) if n < 4000 else (most_rounds, 300)
    learners = 1 + n_folds * (1 - 1 / max(n_folds, 5))
    each_row = 4e-9 * d * outputs + 1e-7 * shape.k
    seconds = 3e-4 + each_row * n + 1.3e-9 * leaves * min(n, 255) * outputs * d
    memory = 2e7 + 4.0 * n * d + 200 * n * shape.k + 128 * 2048 * d * outputs
    return Cost(0.1 + rounds * learners * seconds, memory)


def kernel_pistol_cost(shape, most_rows):
    """Of kernel PiSTOL on at most so many rows."""
    n = min(shape.n, most_rows)
    width = shape.entries / shape.n
    work = n**2 * (width + 1250) + 13 * min(n, PRESELECTION) ** 2 * (30 + 2 * shape.k)
    memory = 4.0 * min(n, MOST_ROWS) ** 2 + 600 * n * shape.k + 16 * shape.entries
    return Cost(0.5 + work / 2e10 + _EACH_COLUMN * shape.d, 2e7 + memory)


def permutation_seconds(shape):
    """Seconds for the effects of permuting every column."""
    return 4e-7 * min(shape.n, 1000) * shape.d * shape.k


def decomposition_seconds(shape):
    """Seconds by which `ranks_cost` is too low for wide rows, whose view has up to 3 d columns.

    MNIST's columns, 300 and 784 of them, of 2,000 to 7,000 rows (benchmarks/budget.py).
    """
    return (280 * shape.d + 20 * shape.n) * shape.d**2 / 2e10


class Step(NamedTuple):
    """What is planned for one candidate."""

    candidate: str
    seconds: float  # of the reference core, at most: its evaluation and its last fit
    bytes: float
    limit: int | None = None  # landmarks or rows that it is limited to; None without a limit
    unit: str = ""  # of the limit: 'landmarks' or 'rows'
    reason: str = ""  # why it is skipped; '' if it is not
    used: float | None = None  # seconds of the clock that its evaluation took
    partial: bool = False  # whether the fit to all rows was left out, for want of time


class Plan(NamedTuple):
    """What a fit evaluates; given as `budget=` it is followed again.

    It is fixed before the fit starts, or, if the budget is clock time, made again before every
    candidate.

    Attributes
    ----------
    steps : tuple of Step
    seconds : float
        The budget.
    bytes : float or None
        The memory allowed, if it was given.
    speed : float
        Seconds of the plan for a second of the clock, if the budget is clock time; else 1.
    rows : int or None
        The rows that are learned, if the time is too short for all.
    read : int or None
        The rows that are read, if the time is too short for all.
    """

    steps: tuple
    seconds: float
    bytes: float | None
    speed: float = 1.0
    rows: int | None = None
    read: int | None = None

    @property
    def expected(self):
        """The `Cost` of all steps, in seconds of the machine's clock."""
        included = [s for s in self.steps if not s.reason]
        seconds = sum(s.seconds for s in included)
        return Cost(seconds / self.speed, max(s.bytes for s in included))

    def timeless(self):
        """The plan without measured times, as model files keep it."""
        return self._replace(steps=tuple(step._replace(used=None) for step in self.steps))

    @property
    def limitations(self):
        """A sentence on candidates that were made smaller; '' if none was."""
        limited = [
            f"{s.candidate} to {s.limit} {s.unit}" for s in self.steps if s.limit and not s.reason
        ]
        if self.rows is not None or self.read is not None:
            limited.append(f"all to {self.rows or self.read} rows")
        return f"Limited by the plan: {', '.join(limited)}." if limited else ""

    def __repr__(self):
        cost = self.expected
        memory = f"{amount(cost.bytes)} in addition to the data"
        used = [step.used for step in self.steps if step.used is not None]
        took = f"; candidates took {duration(sum(used))}" if used else ""
        lines = [f"Plan: at most {duration(cost.seconds)} and {memory}{took}"]
        if self.read is not None:
            lines.append(f"  only {self.read} rows are read, which the time suffices for")
        if self.rows is not None:
            lines.append(f"  a sample of {self.rows} rows, which the time suffices for")
        for step in self.steps:
            words = f"{duration(step.seconds / self.speed)}, {amount(step.bytes)}"
            words += f", limited to {step.limit} {step.unit}" if step.limit else ""
            words += "" if step.used is None else f"; took {duration(step.used)}"
            words += "; not fitted to all rows, for want of time" if step.partial else ""
            lines.append(f"  {step.candidate}: {step.reason or words}")
        return "\n".join(lines)


class Limits:
    """The time and memory that a fit may take; the clock starts when this is created.

    Parameters
    ----------
    budget : None, float, str or Plan
        Seconds of the reference core; text such as "30s" is clock time.
    max_memory : None, int or str
        Bytes, or text such as "2GB". None is three quarters of what the process may have.
    n_fits : int, default=1
        So many fits share the time; this is the first.

    Examples
    --------
    >>> Limits("1.5 min", "500 MB").bytes
    500000000.0
    """

    def __init__(self, budget, max_memory, n_fits=1):
        self.given = None if max_memory is None else bytes_of(max_memory)
        self.bytes = self.given or machine_memory()
        self.plan = budget if isinstance(budget, Plan) else None
        self.measured = isinstance(budget, str)  # in clock time
        is_default = budget is None or self.plan is not None
        self._whole = _DEFAULT if is_default else _seconds_of(budget)
        self.seconds = self._whole if is_default else self._whole / n_fits
        self.clock = clock.Clock(self.seconds)
        self._budget = None if is_default else self.seconds
        # Of kinds of candidates: seconds over the foreseen ones.
        self.ratios: dict[type, float] = {}
        self._read_in: float | None = None

    def of_others(self, n_fits):
        """The budget of each of the fits that are left, after what was spent; None without one."""
        if not self.measured:
            return self._budget
        left = max(self._whole - self.clock.spent(), _LEAST)
        return f"{left / n_fits:.6f}s"

    def plan_for(self, sizes, rows=None):
        """The `Plan` for candidates, each with a list of `Step`, the largest first."""
        if self.plan is not None:
            return _followed(self.plan, [each[0].candidate for each in sizes])
        speed = self.speed()
        allowed = self.left() * speed if self.measured else self.seconds
        fitting = [[s for s in steps if s.bytes <= self.bytes] for steps in sizes]
        planned = _within_time(self.within_memory(sizes), fitting, allowed, speed)
        return Plan(tuple(planned), self.seconds, self.given, speed, rows)

    def speed(self):
        """Seconds of the formulas that a fit takes in a second, if the budget is clock time."""
        return machine_speed() / _TYPICAL if self.measured else 1.0

    def left(self):
        """Seconds of the clock that are left; infinity if the budget is none of clock time."""
        return self.clock.left() if self.measured else float("inf")

    def read_in(self):
        """The seconds that were spent when this was asked first: before the first candidate."""
        self._read_in = self.clock.spent() if self._read_in is None else self._read_in
        return self._read_in

    def rows_for(self, shape, seconds, n_jobs=None):
        """How many of the rows are learned: all, or a part so often that the time suffices.

        The part is a half, or of clock time three quarters.

        `seconds(shape)` are those of the reference core for what should run at least.
        """
        if self.plan is not None:
            return self.plan.rows or shape.n
        n = shape.n
        allowed = _FOR_FEW_ROUNDS * self.seconds
        if self.measured:
            time = self.left() * machine_speed() * n_threads(n_jobs) ** _THREADS
            allowed = _OF_CLOCK * time
        kept, least = (3, 4) if self.measured else (1, 2), FEWEST_SAMPLED
        while n * kept[0] // kept[1] >= least and seconds(shape.rows(n)) > allowed:
            n = n * kept[0] // kept[1]
        return n

    def within_memory(self, sizes):
        """The largest step of each candidate that fits the memory: one runs after the other."""
        planned: list[Step] = []
        for steps in sizes:
            fitting = [s for s in steps if s.bytes <= self.bytes]
            reason = f"would take {amount(steps[-1].bytes)}, beyond max_memory"
            planned.append(fitting[0] if fitting else steps[-1]._replace(reason=reason))
        if all(s.reason for s in planned):
            step = min((steps[-1] for steps in sizes), key=lambda s: s.seconds)
            raise MemoryError(
                f"max_memory={amount(self.bytes)} is too little: {step.candidate!r}, the cheapest "
                f"candidate, takes about {amount(step.bytes)} in addition to the data. Give fewer "
                "columns, or learn from a file with fit_source (PiSTOL, GLM)."
            )
        return planned


def _seconds_of(budget):
    """Seconds of a number, or of text such as '30s'."""
    if isinstance(budget, str):
        found = re.fullmatch(rf"\s*(\d+\.?\d*)\s*({'|'.join(_UNITS)})\s*", budget)
        if found and float(found[1]) > 0:
            return float(found[1]) * _UNITS[found[2]]
        raise ValueError(
            f"budget={budget!r} is no time: give a number above 0 and one of the units "
            f"{', '.join(_UNITS)}, such as '30s'."
        )
    elif isinstance(budget, int | float | np.number) and not isinstance(budget, bool):
        if budget > 0:
            return float(budget)
        raise ValueError(f"budget={budget!r} is not positive.")
    raise ValueError(f"budget={budget!r} is neither seconds, nor text such as '30s', nor a plan.")


def _within_time(planned, sizes, allowed, speed):
    """The steps, the most expensive ones made smaller or skipped; the cheapest one always runs.

    `sizes` are the steps of each candidate that memory suffices for, the largest first.
    """
    included = [i for i, step in enumerate(planned) if not step.reason]
    cheapest = min(included, key=lambda i: min(step.seconds for step in sizes[i]))
    while sum(planned[i].seconds for i in included) > allowed:
        smaller = {i: _smaller(planned[i], sizes[i]) for i in included}
        reducible = [i for i in included if i != cheapest or smaller[i]]
        if not reducible:
            break
        i = max(reducible, key=lambda i: planned[i].seconds)
        reason = f"would take {duration(planned[i].seconds / speed)}, beyond the budget"
        planned[i] = smaller[i] or planned[i]._replace(reason=reason)
        included = [i for i in included if not planned[i].reason]
    return planned


def _smaller(step, steps):
    """The largest version of a step that takes less time; or None."""
    return next((s for s in steps if s.seconds < step.seconds), None)


def _followed(plan, names):
    known = [step.candidate for step in plan.steps]
    if set(known) != set(names):
        raise ValueError(
            f"budget= is a plan of {', '.join(known)}; the candidates for these data are "
            f"{', '.join(names)}."
        )
    return plan


def machine_speed():
    """The machine's current speed in units of the reference core; other processes slow it down."""
    rng = np.random.default_rng(0)
    A, values = rng.normal(size=(300, 300)), rng.normal(size=100_000)
    with one_blas_thread():
        took: list[float] = []
        for _ in range(3):
            start = clock.now()
            for _ in range(4):
                np.matmul(A, A)
            np.sort(values)
            took.append(clock.now() - start)
    return _PROBE / min(took)
