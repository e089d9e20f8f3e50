"""The evaluation of candidates of `TuneFree*` within limits, and the last fits of those chosen."""

import time
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.clock import limited as limited_time
from tunefree.core.format import duration
from tunefree.core.process import workers
from tunefree.core.progress import task
from tunefree.held_out.predictions import FEW_ROWS, Entry, finished
from tunefree.held_out.stacking import choose_stack
from tunefree.stack import costs
from tunefree.stack.candidates import (
    MOST_COLUMNS,
    TREES_NAME,
    BoostedTrees,
    KernelRidge,
    LinearPiSTOL,
    OneFit,
    view_donor,
)
from tunefree.stack.costs import Step
from tunefree.stack.problem import StackProblem
from tunefree.stack.schedule import limited, schedule_of

# With fewer rows than this candidates cannot be compared.
_FEWEST_ROWS = 20
# So many rounds of all rows must fit into the time, else fewer rows are learned.
_FEW_ROUNDS = 200
# Fewer wide rows are learned if half of them take less than this share of the time: their columns
# cost, too.
_PAYS = 0.75
# So many times the rows that trees of so many rounds can learn are worth reading. Chosen.
_READ_FOR_LEARNED = 1.5
# Where trees are dearer than kernels, the time must suffice for so many kernels. Chosen: MNIST.
_SEVERAL_KERNELS = 1.5


def plan_candidates(candidates, limits, problem):
    """The schedule of candidates (`schedule`) within `limits` of time and memory."""
    shape = problem.shape
    folds = problem.folds if problem.given or problem.groups is not None else None

    def step(candidate, limit):
        seconds, size = limited(candidate, limit).total_cost(shape, folds)
        seconds += candidate.more_on_clock(shape) if limits.measured else 0.0
        return Step(candidate.name, seconds, size, limit, candidate.unit)

    sizes = [[step(c, limit) for limit in (None, *c.limits)] for c in candidates]
    leasts = {c.name: c.least_cost(shape) for c in candidates if c.ends_early}
    return schedule_of(candidates, limits, sizes, leasts, problem.sample)


def rows_to_learn(limits, problem, kinds, n_jobs=None):
    """How many rows are learned: fewer than there are only if trees, and kernels, take too long.

    Of wide rows, which trees do not learn, linear models count, if the budget is clock time. Rows
    that are held out by groups, by `cv`, or with an exposure, are all learned.
    """
    plain = not problem.given and problem.groups is None and problem.terms is None
    return learned_in_time(limits, problem.shape, kinds, n_jobs) if plain else problem.shape.n


def worth_reading(limits, shape, kinds, n_jobs=None):
    """How many of the rows are worth reading: more than are learned at first, as samples grow."""
    return min(int(_READ_FOR_LEARNED * learned_in_time(limits, shape, kinds, n_jobs)), shape.n)


def learned_in_time(limits, shape, kinds, n_jobs):
    """How many rows of a shape are learned."""
    is_wide = shape.d > MOST_COLUMNS
    is_timed = limits.measured or limits.plan is not None
    if not (is_timed if is_wide else "trees" in kinds):
        return shape.n
    first: Any = LinearPiSTOL("linear", None)
    if not is_wide:
        first = BoostedTrees(TREES_NAME, None, OneFit(), most_rounds=_FEW_ROUNDS)

    def seconds(shape):
        needed = first.total_cost(shape).seconds
        if limits.measured and "kernel" in kinds and not is_wide:
            kernel = costs.kernel_ridge_cost(shape, "rbf", "auto").seconds
            needed = min(needed, _SEVERAL_KERNELS * kernel)
        return needed

    if is_wide and seconds(shape.rows(shape.n // 2)) > _PAYS * seconds(shape):
        return shape.n
    return limits.rows_for(shape, seconds, n_jobs)


class Round(NamedTuple):
    """Candidates that learn a number of rows: planned, and then evaluated."""

    problem: StackProblem  # of these rows
    schedule: Any  # `Fixed` or `ByClock`
    skipped: dict  # candidates that do not suit the data, and why
    entries: list = []

    def evaluated(self, callbacks):
        """The round with the candidates' entries (`evaluate_candidates`)."""
        return self._replace(entries=evaluate_candidates(self.schedule, self.problem, callbacks))

    def rows_for_more(self, n_all):
        """How many of all rows a larger round learns in the time that is left; or None."""
        if self.problem.sample is None or not finished(self.entries):
            return None
        return self.schedule.rows_for_more(self.entries, self.problem.sample, n_all)

    def was_cut(self):
        """Whether time was short for one of the candidates."""
        return any(step.limit or step.reason for step in self.schedule.result().steps)

    def loss(self):
        """The held-out loss of the stack; infinite if no candidate has one."""
        if not finished(self.entries):
            return np.inf
        chosen = choose_stack(self.entries, self.problem)
        weights = self.problem.weights[chosen.rows]
        return np.sum(weights @ chosen.stack.losses) / weights.sum()


def is_better(larger, smaller):
    """Whether the `Round` of more rows is kept: where its candidates were cut, by the loss."""
    return not larger.was_cut() or larger.loss() <= smaller.loss()


def _runs_beside(candidate, plan, problem):
    """Whether it is a kernel of few rows: of one thread each, without each other's scores."""
    if problem.shape.n >= FEW_ROWS or plan.bytes is not None:
        return False
    return type(candidate) is KernelRidge and type(candidate.evaluation) is OneFit


def evaluate_candidates(schedule, problem, callbacks):
    """Evaluate candidates on held-out rows.

    Parameters
    ----------
    schedule : Fixed or ByClock
        The candidates from cheap to expensive, those that use the entries of others last; and which
        of them are limited or skipped.
    problem : StackProblem
    callbacks
        Called for every candidate; they may stop the evaluation (`tunefree.base.progress`).

    Returns
    -------
    list of Entry
    """
    entries: list[Entry] = []
    kept: dict[str, Any] = {}  # of candidates that were cut short, and may go on
    ahead: dict[str, Entry] = {}  # of kernels that were evaluated with the one before them
    candidates = schedule.candidates
    comparable = len(problem.y) >= _FEWEST_ROWS and problem.learnable(problem.folds)

    def status(turn):
        """Why a candidate is not evaluated; None if it is."""
        if callbacks.stopped:
            return "skipped: a callback stopped the fit"
        if turn.reason:
            return f"skipped: {turn.reason}"
        if comparable:
            return None
        first = all(e.status != "finished" for e in entries)
        return "finished" if first else "too few rows to compare"

    callbacks.expect(schedule.tasks_of_each * len(candidates))
    for i, candidate in enumerate(candidates):
        if candidate.name in ahead:
            callbacks.begin(candidate.name)
            entries.append(ahead[candidate.name])
            callbacks.evaluated(entries[-1], problem.weights)
            callbacks.end()
            continue
        turn = schedule.turn(candidate, entries)
        reason = status(turn)
        if reason is not None:
            entries.append(Entry.unscored(candidate, reason))
            callbacks.evaluated(entries[-1], problem.weights)
            continue
        callbacks.begin(candidate.name)
        turns = [turn]
        if _runs_beside(candidate, schedule.plan, problem):
            others = [c for c in candidates[i + 1 :] if _runs_beside(c, schedule.plan, problem)]
            turns += [t for t in (schedule.turn(c, entries) for c in others) if not t.reason]
        time = "" if turn.seconds == np.inf else f", at most {duration(max(turn.seconds, 0.0))}"
        with task(f"candidate {i + 1} of {len(candidates)}{time}, {candidate.name}"):
            ahead |= _evaluated(turns, problem, entries, schedule, kept)
        entries.append(ahead[candidate.name])
        callbacks.evaluated(entries[-1], problem.weights)
        callbacks.end()
    while not callbacks.stopped and (turn := schedule.more(entries, kept)) is not None:
        name = turn.candidate.name
        callbacks.begin(name)
        with task(f"{name}, in the time that is left"):
            (entry,) = _evaluated([turn], problem, entries, schedule, kept).values()
        i = [e.candidate.name for e in entries].index(name)
        entries[i] = entry._replace(seconds=entries[i].seconds + entry.seconds)
        callbacks.evaluated(entries[i], problem.weights)
        callbacks.end()
    order = [step.candidate for step in schedule.plan.steps]
    return sorted(entries, key=lambda e: order.index(e.candidate.name))


def _evaluated(turns, problem, others, schedule, kept):
    """The `Entry` of each candidate by name, after those of `others`; several in threads.

    What those that are cut short keep is taken from `kept`, and put there.
    """
    # With `cv` there may be several fits, of which each would keep something.
    may_go_on = not problem.given and schedule.plan.bytes is None

    def timed(turn):
        name = turn.candidate.name
        with limited_time(turn.seconds, kept.pop(name, None)) as own:
            entry = turn.candidate.evaluate(problem, list(others))
        if own.kept is not None and may_go_on:
            kept[name] = own.kept
        return entry._replace(seconds=own.spent()), own.cut

    if len(turns) == 1:
        found = [timed(turns[0])]
    else:
        with workers(turns[0].candidate.estimator.n_jobs) as team:
            found = team.map(timed, turns)
    for turn, (entry, cut) in zip(turns, found, strict=True):
        schedule.ended(turn.candidate, entry.seconds, cut)
    return {entry.candidate.name: entry for entry, _ in found}


class LastFits(NamedTuple):
    """The models of the stack, fitted to all rows."""

    fits: list  # `Fitted` models
    donor: Any  # the model whose view of the columns they use
    names: list  # of candidates that were fitted again
    partial: list  # of candidates for which no time was left: they have not learned held-out rows
    seconds: float


def fit_all_rows(chosen, entries, problem, schedule, callbacks):
    """The `LastFits` of the models of a stack."""
    start, donor = time.perf_counter(), view_donor(entries)
    fits, names, partial = [], [], []
    for entry in chosen.entries:
        candidate, fitted = entry.candidate, entry.fitted
        is_open = fitted is None and entry.held_out is not None
        if is_open and not schedule.has_time_for_all_rows(entry):
            fitted = entry.held_out
            partial.append(candidate.name)
        if fitted is None:
            callbacks.begin(f"{candidate.name} on all rows")
            with task(f"{candidate.name} on all rows"):
                fitted = candidate.fit(*problem[:3], donor)
            callbacks.end()
            names.append(candidate.name)
        fits.append(fitted.without_held_out())
    return LastFits(fits, donor, names, partial, time.perf_counter() - start)
