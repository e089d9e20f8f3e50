"""Which candidate comes next, and how long it may take: by a plan, or by the clock.

With a budget of clock time the plan is made again before every candidate. How long candidates take
follows from formulas of the data's shape, and by the candidates of the same kind that have run. A
candidate may take the time that is left, less what those after it need, and less the time for the
fits to all rows and the report. Some end early, and keep the rounds or landmarks that they have.
Where no time is left for a fit to all rows, the model without the held-out rows is kept.
"""

from typing import NamedTuple

from tunefree.core.format import duration
from tunefree.core.warn import warn
from tunefree.held_out.predictions import finished

# Those that follow may leave a candidate at least this share of the time that is left; trees, and
# kernels of few rows, which gain most a second, more. Chosen, and checked by benchmarks/budget.py.
_SHARE, _SHARE_OF_WHOLE, _SHARE_OF_ANYTIME = 0.2, 0.5, 0.6
# The report takes about so much of the time that was spent before the first candidate.
_REPORT = 0.5
_BEYOND = ", beyond the budget"
# A candidate that was cut short goes on if this share of the time that it took is left.
_WORTHWHILE = 0.15
# Nothing is finished yet: kernels of few rows may take this share. Chosen.
_SHARE_OF_FIRST = 0.8
# If none has time, the first is evaluated unless another takes so many times less, or can end at
# any time. Chosen.
_MUCH_LONGER = 3.0
# Trees are dear if so many times their least rounds take longer than a kernel. Chosen: MNIST.
_DEAR = 3.0
# A sample grows if the time that is left suffices for so many times the rows: candidates take the
# power of the rows (a9a, of 3,500 and 32,500 rows: .7 to 1.3).
_GROWS, _POWER = 1.25, 1.2
# The time of a candidate that took less than this is no measure of the next ones.
_MEASURED = 0.05


class Turn(NamedTuple):
    """What a candidate may do."""

    candidate: object  # limited to what the time or memory suffices for
    reason: str = ""  # why it is skipped; '' if it is not
    seconds: float = float("inf")  # of the clock, in which it ends


class Fixed:
    """A plan that was made before the fit."""

    tasks_of_each = 2  # of a candidate, at most: its evaluation, and a refit on all rows

    def __init__(self, plan, candidates):
        self.plan = plan
        self._steps = {step.candidate: step for step in plan.steps}
        self._reasons = {name: step.reason for name, step in self._steps.items()}
        self.candidates = [limited(c, self._steps[c.name].limit) for c in candidates]

    def turn(self, candidate, entries):
        """The `Turn` of a candidate, after the entries of others."""
        return Turn(candidate, self._reasons[candidate.name])

    def ended(self, candidate, seconds, cut):
        """Note the seconds that a candidate has taken, and the limit where it was cut short."""
        name = candidate.name
        self._steps[name] = self._steps[name]._replace(used=seconds)

    def more(self, entries, kept):
        """The `Turn` of one that was skipped and has time now, or cut short and goes on; or None.

        `kept` are the names of those that have kept what they need for it.
        """
        return

    def rows_for_more(self, entries, n, n_all):
        """How many rows the time that is left suffices to learn anew; None for hardly more than n.

        There are `n_all` of them.
        """
        return

    def has_time_for_all_rows(self, entry):
        """Whether the model of an entry is fitted again, to all rows."""
        return not self._steps[entry.candidate.name].partial

    def result(self):
        """The `Plan` that was followed."""
        steps = (self._steps[step.candidate] for step in self.plan.steps)
        return self.plan._replace(steps=tuple(steps))


class ByClock(Fixed):
    """A plan that is made again before every candidate, with the time that is left.

    Parameters
    ----------
    plan : Plan
        What is foreseen.
    candidates : list of Candidate
    limits : Limits
    sizes : list of list of Step
        The sizes of each candidate that memory suffices for, the largest first.
    leasts : dict of str to Cost
        Of candidates that end early: what they need at least.
    """

    tasks_of_each = 4  # a sample may grow

    def __init__(self, plan, candidates, limits, sizes, leasts):
        whole = plan._replace(steps=tuple(s._replace(limit=None, reason="") for s in plan.steps))
        self._limits, self._leasts = limits, leasts
        self._ratios = limits.ratios  # of a smaller sample, if there was one
        self._sizes = {steps[0].candidate: steps for steps in sizes}
        super().__init__(whole, self._with_cheap_kernels_first(plan, _in_order(candidates)))
        # Of candidates that have had their turn: the seconds they may take, and what is foreseen.
        self._begun: dict[str, float] = {}
        self._begun_foreseen: dict[str, float] = {}
        self._limit_before_cut: dict[str, int | None] = {}
        self._waiting = [c for c in candidates if self._sizes[c.name]]
        self._spent_before = limits.read_in()

    def _with_cheap_kernels_first(self, plan, candidates):
        """Candidates in another order if some rounds of trees take longer than a kernel.

        Then kernels come first: rows are wide, and trees learn little in the time.
        """
        self.plan = plan
        trees = [c for c in candidates if c.ends_early and not c.uses_others]
        kernels = [c for c in candidates if c.is_whole or (c.ends_early and c.uses_others)]
        dear = [self._leasts[c.name].seconds / plan.speed for c in trees]
        cheap = [self._foreseen(c, self._sizes[c.name][-1]) for c in kernels]
        if not dear or not cheap or _DEAR * min(dear) < min(cheap):
            return candidates
        others = [c for c in candidates if c not in trees and c not in kernels]
        return [*kernels, *others, *trees]

    def turn(self, candidate, entries):
        """The `Turn` of a candidate, after the entries of others."""
        self._waiting = [c for c in self._waiting if c.name != candidate.name]
        sizes = self._sizes[candidate.name]
        if all(step.reason for step in sizes):  # for want of memory
            self._steps[candidate.name] = sizes[-1]
            return Turn(candidate, sizes[-1].reason)
        left = self._limits.left() - self._reserve(entries) - sum(self._begun.values())
        share = _SHARE_OF_ANYTIME if candidate.ends_early else _SHARE
        must_run = not finished(entries)
        share_of_whole = _SHARE_OF_FIRST if must_run else _SHARE_OF_WHOLE
        share = share_of_whole if candidate.is_whole else share
        allowed = left - self._needed_by_others((1.0 - share) * left)
        least_of_others = min(map(self._least_of_sizes, self._waiting), default=float("inf"))
        can_end = any(c.ends_early and not c.uses_others for c in self._waiting)
        much = 1.0 if can_end else _MUCH_LONGER
        least = 0.0
        for step in sizes:
            seconds = self._foreseen(candidate, step)
            least = min(seconds, self._least(candidate, seconds))
            is_forced = must_run and least > allowed and step is sizes[-1]
            is_forced = is_forced and _must_be_first(least, least_of_others, left, much)
            if is_forced and least > left:
                time, name = f"{self.plan.seconds:g} s", candidate.name
                warn(f"The budget of {time} is too short: {name!r} is evaluated all the same.")
            if least <= allowed or is_forced:
                may_take = min(seconds, max(allowed, 0.0))
                self._begun[candidate.name] = may_take
                self._begun_foreseen[candidate.name] = seconds
                self._limit_before_cut[candidate.name] = step.limit
                planned = max(least, may_take) if candidate.ends_early else seconds
                self._steps[candidate.name] = step._replace(seconds=planned * self.plan.speed)
                return Turn(limited(candidate, step.limit), "", allowed)
        reason = f"would take {duration(least)}{_BEYOND}"
        self._steps[candidate.name] = sizes[-1]._replace(reason=reason)
        return Turn(candidate, reason)

    def ended(self, candidate, seconds, cut):
        """Note the seconds that a candidate has taken, and the limit where it was cut short."""
        name = candidate.name
        step = self._steps[name]
        del self._begun[name]
        before = self._ratios.get(type(candidate), candidate.usual)
        foreseen = self._begun_foreseen.pop(name) / before
        if cut is None and max(seconds, foreseen) > _MEASURED:
            least = candidate.usual if candidate.is_whole else 0.0  # few landmarks are no measure
            self._ratios[type(candidate)] = max(seconds / foreseen, least)
        limit = step.limit if cut is None else cut
        self._steps[name] = step._replace(used=seconds + (step.used or 0.0), limit=limit)

    def more(self, entries, kept):
        """The `Turn` of one that was skipped and has time now, or cut short and goes on; or None.

        `kept` are the names of those that have kept what they need for it. None does after another
        one that has compared itself with what it was: a repeated plan would choose otherwise. If
        such a one has been found useless, the plan notes it.
        """
        left = self._limits.left() - self._reserve(entries)
        for entry in entries:
            turn = self._turn_of_skipped(entry.candidate, left)
            if turn is not None:
                return turn
        places = [i for i, e in enumerate(entries) if e.candidate.name in kept]
        if not places:
            return None
        candidate = entries[places[0]].candidate
        step = self._steps[candidate.name]
        later = [e for e in entries[places[0] + 1 :] if e.candidate.uses_others]
        if finished(later) or left < _WORTHWHILE * step.used:
            return None
        for other in later:
            skipped = self._steps[other.candidate.name]
            reason = skipped.reason or other.status.removeprefix("skipped: ")
            self._steps[other.candidate.name] = skipped._replace(reason=reason)
        self._steps[candidate.name] = step._replace(limit=self._limit_before_cut[candidate.name])
        self._begun[candidate.name] = self._begun_foreseen[candidate.name] = left
        return Turn(candidate, "", left)

    def rows_for_more(self, entries, n, n_all):
        """How many rows the time that is left suffices to learn anew; None for hardly more than n.

        There are `n_all` of them.
        """
        took = sum(entry.seconds for entry in entries)
        left = self._limits.left() - self._reserve(entries)
        if took <= 0.0 or left <= took * _GROWS**_POWER:
            return None
        more = min(int(n * (left / took) ** (1.0 / _POWER)), n_all)
        return more if more >= _GROWS * n else None

    def has_time_for_all_rows(self, entry):
        """Whether the model of an entry is fitted again, to all rows; the plan notes if not."""
        name = entry.candidate.name
        has_time = _seconds_of_refit(entry) <= self._limits.left()
        self._steps[name] = self._steps[name]._replace(partial=not has_time)
        return has_time

    def _turn_of_skipped(self, candidate, left):
        """The `Turn` of a candidate that was skipped, and for which there is time now; or None."""
        is_late = self._steps[candidate.name].reason.endswith(_BEYOND)
        for step in self._sizes[candidate.name] if candidate.is_whole and is_late else ():
            seconds = self._foreseen(candidate, step)
            if seconds <= left:
                self._begun[candidate.name] = self._begun_foreseen[candidate.name] = seconds
                planned = seconds * self.plan.speed
                self._steps[candidate.name] = step._replace(seconds=planned)
                return Turn(limited(candidate, step.limit), "", left)
        return None

    def _needed_by_others(self, most):
        """Seconds of the clock for those that follow, at most so many."""
        needed = 0.0
        for candidate in self._waiting:
            sizes = self._sizes[candidate.name]
            seconds = [self._foreseen(candidate, step) for step in (sizes[0], sizes[-1])]
            if min(self._least(candidate, s) for s in seconds) <= most:
                needed += seconds[0]
        return min(needed, most)

    def _least_of_sizes(self, candidate):
        """The seconds of the clock that a candidate needs at least, at its smallest size."""
        steps = (s for s in self._sizes[candidate.name] if not s.reason)
        foreseen = (self._foreseen(candidate, step) for step in steps)
        return min((min(s, self._least(candidate, s)) for s in foreseen), default=float("inf"))

    def _foreseen(self, candidate, step):
        """The seconds of the clock that a size of a candidate takes."""
        ratio = self._ratios.get(type(candidate), candidate.usual)
        return step.seconds / self.plan.speed * ratio

    def _least(self, candidate, seconds):
        """The seconds of the clock that a candidate of `seconds` needs at least."""
        if candidate.name not in self._leasts:
            return seconds
        return self._leasts[candidate.name].seconds / self.plan.speed

    def _reserve(self, entries):
        """Seconds for the fit of a candidate to all rows, and for the report."""
        refits = [_seconds_of_refit(entry) for entry in finished(entries)]
        return max(refits, default=0.0) + _REPORT * self._spent_before


def _seconds_of_refit(entry):
    """Seconds of the clock that the fit to all rows takes."""
    return entry.seconds * entry.candidate.share_of_refit(len(entry.rows))


def _must_be_first(least, least_of_others, left, much):
    """Whether one of `least` seconds is evaluated though others wait, as none is finished.

    Where no one has time, it is unless another takes `much` less.

    >>> given = (9.0, 10.0), (4.0, 10.0), (2.0, 1.0), (1.0, 0.5)
    >>> [_must_be_first(5.0, *others, 3.0) for others in given]
    [True, False, True, False]
    """
    if least <= left:
        return least <= least_of_others
    return left < least_of_others and least < much * least_of_others


def _in_order(candidates):
    """Candidates that gain much, but cannot end early, before those that can.

    >>> from types import SimpleNamespace as Like
    >>> made = Like(name="linear", ends_early=False, is_whole=False), Like(
    ...     name="trees", ends_early=True, is_whole=False
    ... ), Like(name="kernel", ends_early=False, is_whole=True)
    >>> [c.name for c in _in_order(made)]
    ['linear', 'kernel', 'trees']
    """
    early = [i for i, c in enumerate(candidates) if c.ends_early]
    first = early[0] if early else len(candidates)
    before, after = candidates[:first], candidates[first:]
    whole = [c for c in after if c.is_whole]
    return [*before, *whole, *(c for c in after if not c.is_whole)]


def limited(candidate, limit):
    """The candidate of so many landmarks, rows or rounds; None is no limit."""
    return candidate if limit is None else candidate.limited(limit)


def schedule_of(candidates, limits, sizes, leasts, rows):
    """The schedule within `Limits`.

    `sizes` are the steps of each candidate, the largest first; `leasts` are the least costs, by
    name, of candidates that end early; `rows` is the size of a sample, or None.
    """
    plan = limits.plan_for(sizes, rows)
    if not limits.measured:
        return Fixed(plan, candidates)
    fitting = []
    for steps, step in zip(sizes, limits.within_memory(sizes), strict=True):
        smaller = [s for s in steps if s.bytes <= limits.bytes]
        fitting.append(smaller or [step])
    return ByClock(plan, candidates, limits, fitting, leasts)
