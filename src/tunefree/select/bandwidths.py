"""Choosing bandwidth and number of passes while learning: what the kernel estimators run.

Learners of learners, for `engine.run.run` over a `Data`:

`Passes`
    learns all members side by side, each row predicted before it is learned in the first pass. One
    over the first rows under every view and bandwidth of a grid scouts: the best three bandwidths
    of the best view go on.
`HoldOutSelection`
    passes over all rows, once without every tenth row (below 500 rows, without some more) and once
    with it, side by side: they share the kernel's values. After passes 1, 2, 3, 5, 8, 12, ... the
    average of the pass is read and its error e on the left-out rows noted.
`ProgressiveSelection`
    a single pass that chooses: nothing need be left out to compare bandwidths and rules by the
    errors over the last half of it (the latest 8,192 rows, at most).
`Alone`
    passes of a single member, for an average that has a name.

Read-outs are blended: each is, where decisions are signs (`normalise`), divided by the size of its
decisions on the rows that it had not learned, and has the weight p exp(-2 (e - e_min) / SE), p the
pass, e the error there and SE its standard error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tunefree.learners.kernel.blocked import BLOCK, Blocked, Cache, Memory, Rows, base, root_of
from tunefree.protocols import Source
from tunefree.select.progressive_risk import (
    ProgressiveRisk,
    curve,
    recent_rows,
    record,
    risks,
    rms,
    start_progress,
)

READ_OUTS = (1, 2, 3, 5, 8, 12, 20, 30)
# Visits of rows worth making, and rows up to which the distances of all pairs are kept.
VISITS, CACHED = 200_000, 16_384
SCOUTED = 6_000
KEPT = 3
# One row in ten is left out, or in so few that fifty are, but no more than one in four.
_SHARE, _ENOUGH, _LARGEST = 10, 50, 4
# With so many rows left out, a race ends when so many read-outs in a row bring no new best.
_MANY, _PATIENCE = 500, 2
# Decisions of this size are small: learners aim at 1.
_SMALL = 0.25


@dataclass(frozen=True)
class Data(Source):
    """Rows in memory, in the order in which the first pass visits them: the source of a run."""

    rows: Any  # `Facts` in the coordinates of learning; None where the cache has all there is
    squares: np.ndarray  # k(x, x)
    targets: np.ndarray  # of shape (n, n_outputs)
    order: Callable  # epoch -> (numbers, weights) of visits; numbers from n on are passed over
    cache: Any = None  # a `Cache`

    def blocks(self, epoch):
        """The blocks of a pass."""
        numbers, weights = self.order(epoch)
        known = numbers < len(self.targets)
        numbers, weights = numbers[known], weights[known]
        ahead = np.append(np.minimum.accumulate(numbers[::-1])[::-1], len(self.targets))
        for start in range(0, len(numbers), BLOCK):
            stop = min(len(numbers), start + BLOCK)
            r = numbers[start:stop]
            yield Rows(
                None, r, self.squares[r], self.targets[r], weights[start:stop], start, ahead[stop]
            )

    @property
    def largest(self):
        """The largest k(x, x)."""
        return max(float(self.squares.max(initial=0.0)), 1e-300)

    def engine(self, kernel, members, apart=False, watched=None):
        """An engine that has learned nothing yet; it follows averages at some rows, or at all."""
        like = self.cache.values if self.rows is None else self.rows.rows
        n, k = self.targets.shape
        watched = np.arange(n) if watched is None else watched
        memory = Memory(n, watched, self.rows, self.cache)
        return Blocked(kernel, members, k, like[:0], memory, apart)


def pairs(team, kernel, gammas, rows):
    """What all pairs of rows have to say for some bandwidths, from half of the pairs."""
    n, size, root = rows.rows.shape[0], 512, root_of(gammas)
    out = np.empty((n, n), rows.rows.dtype)

    def tile(corner):
        i, j = corner
        a, b = slice(i, i + size), slice(j, j + size)
        values = base(kernel, root, rows[a], rows[b])
        out[a, b] = values
        if i != j:
            out[b, a] = values.T

    starts = range(0, n, size)
    team.map(tile, [(i, j) for i in starts for j in starts if i <= j])
    return Cache(out, root)


class ReadOut(NamedTuple):
    """What a member had learned after a pass."""

    gamma: float | None
    passes: int
    error: float  # mean loss of rows that were not learned, and its standard error
    spread: float
    coef: np.ndarray  # of shape (n_slots, n_outputs)
    decisions: np.ndarray  # of the rows that were not learned


class State(NamedTuple):
    """State of a run."""

    engine: Blocked  # all members' learners; changed in place
    progress: ProgressiveRisk | None = None  # what was predicted before it was learned
    epoch: int = 0
    read_outs: tuple = ()


class Outcome(NamedTuple):
    """A predictor, and decisions on rows that what is behind them had not learned."""

    coefs: dict  # bandwidth to coefficients of shape (n_slots, n_outputs)
    decisions: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    trace: dict


class Passes:
    """Passes of members side by side; the first records what is predicted before it is learned.

    `classify` records mistakes rather than squared errors.
    """

    _RECORDED = 1  # of each member the running average

    def __init__(self, team, n_passes=1, classify=True):
        self.team, self.n_passes, self.classify = team, n_passes, classify

    def init(self, engine):
        """The state before the first row."""
        n = len(engine.members) * self._RECORDED
        return State(engine, start_progress(n, engine.n_outputs, engine.memory.n))

    def scan(self, state, rows):
        """Learn a block of rows."""
        first, k = state.epoch == 0, state.engine.n_outputs
        if state.epoch + 1 < self.n_passes:
            rows = rows._replace(ahead=0)
        scores = state.engine.learn(self.team, rows, first)
        if first:
            found = [s for member in scores for s in member[: self._RECORDED]]
            record(state.progress, self.classify, k, found, rows.targets, rows.weights)
        return state

    def turn(self, state):
        """End a pass."""
        epoch = state.epoch + 1
        return state._replace(epoch=epoch), epoch >= self.n_passes


class SingleRun(Passes):
    """Passes of a single member, of which the average, or the `last` iterate, is read.

    `suffix` starts the average anew with each pass; where it comes `late`, it has no mass in the
    beginning, and the iterates' decisions stand for its own.
    """

    _RECORDED = 2  # the running average and the iterate

    def __init__(self, team, n_passes, classify, *, suffix=False, last=False, late=False):
        super().__init__(team, n_passes, classify)
        self.suffix, self.last, self.late = suffix, last, late

    def scan(self, state, rows):
        """Learn a block of rows."""
        if self.suffix and rows.start == 0:
            state.engine.restart()
        return super().scan(state, rows)

    def read(self, state):
        """The member's coefficients."""
        engine, progress = state.engine, state.progress
        decisions, targets, weights = recent_rows(progress)
        rows, risk = curve(progress)
        trace = {"rows": rows, "progressive_error_average": risk[:, 0],
                 "progressive_error_last": risk[:, 1]}  # fmt: skip
        coefs = {engine.members[0].gamma: engine.last(0) if self.last else engine.mean(0)}
        return Outcome(coefs, decisions[:, int(self.last or self.late)], targets, weights, trace)


class ProgressiveSelection(Passes):
    """One pass of several rules and bandwidths, blended by their errors on the way."""

    def __init__(self, team, loss_of, normalise):
        super().__init__(team, classify=False)
        self.loss_of, self.normalise = loss_of, normalise

    def read(self, state):
        """The blend."""
        recent, targets, weights = recent_rows(state.progress)
        found = []
        for i, member in enumerate(state.engine.members):
            f, coef = recent[:, i], state.engine.mean(i)
            loss = self.loss_of(f, targets)
            error = float(np.average(loss, weights=weights))
            found.append(ReadOut(member.gamma, 1, error, standard_error(loss), coef, f))
        return blend(found, targets, weights, state.engine.n_slots, self.normalise)


class HoldOutSelection:
    """Passes over all rows, read on rows left out.

    Of every two members the first does not learn these rows, by default those of `left_out`. If
    they are given (`held`), half of them chooses the weights for the decisions of the other half.
    `when` says after which passes to read.
    """

    def __init__(self, team, data, when, loss_of, normalise, held=None):
        self.team, self.data, self.when = team, data, when
        self.loss_of, self.normalise, self.honest = loss_of, normalise, held is not None
        self.held = held_out(len(data.targets)) if held is None else held
        self.apart = np.isin(np.arange(len(data.targets)), self.held)

    def init(self, engine):
        """The state before the first row."""
        return State(engine)

    def scan(self, state, rows):
        """Learn a block of rows."""
        if rows.start == 0:
            state.engine.restart()
        without = np.arange(len(state.engine.members))[:, None] % 2 == 0
        weights = np.where(without & self.apart[rows.numbers], 0.0, rows.weights)
        state.engine.learn(self.team, rows._replace(weights=weights, ahead=0))
        return state

    def turn(self, state):
        """End a pass; after some read the averages, and go on with those that do not lag."""
        state = state._replace(epoch=state.epoch + 1)
        if state.epoch not in self.when:
            return state, False
        new = self._read(state.engine, state.epoch)
        found = (*state.read_outs, *new)
        best = min(found, key=lambda r: r.error)
        far = [r.error > best.error + 2.0 * best.spread for r in new]
        since = len({r.passes for r in found if r.passes > best.passes})
        done = all(far) or (since >= _PATIENCE and len(self.held) >= _MANY)
        if not done:
            state.engine.keep([2 * i + j for i, out in enumerate(far) if not out for j in (0, 1)])
        return state._replace(read_outs=found), done or state.epoch >= self.when[-1]

    def _read(self, engine, passes):
        out, targets = [], self.data.targets[self.held]
        engine.tell(self.team)
        for i in range(0, len(engine.members), 2):
            f, coef = engine.watched(i), engine.mean(i + 1)
            loss = self.loss_of(f, targets)
            error, spread = float(loss.mean()), standard_error(loss)
            out.append(ReadOut(engine.members[i].gamma, passes, error, spread, coef, f))
        return out

    def read(self, state):
        """The blend of the read-outs."""
        targets, found = self.data.targets[self.held], state.read_outs
        totals = np.bincount(*self.data.order(0), minlength=len(self.data.targets))[self.held]
        out = blend(found, targets, totals, state.engine.n_slots, self.normalise)
        if not self.honest:
            return out
        return out._replace(decisions=crossed(found, targets, self.loss_of, self.normalise))


def read_outs(n_visits, max_iter=None, limit=12):
    """After which passes to read: at most `limit`, and `VISITS` in all, or `max_iter`."""
    most = min(limit, max(1, VISITS // max(1, n_visits))) if max_iter is None else max_iter
    chosen = [p for p in READ_OUTS if p <= most]
    return chosen if max_iter is None or max_iter in chosen else [*chosen, max_iter]


def held_out(n):
    """The rows that half of the members do not learn; 1 at least.

    Examples
    --------
    >>> [len(left_out(n)) for n in (2, 60, 300, 5000)]
    [1, 15, 50, 500]
    """
    every = max(_LARGEST, min(_SHARE, n // _ENOUGH))
    return np.arange(every - 1, n, every) if n >= every else np.array([n - 1])


def shortlist(progress, keep=KEPT):
    """Which members go on: the best by progressive risk over the last half of the rows."""
    return sorted(np.argsort(risks(progress), kind="stable")[:keep].tolist())


def standard_error(loss):
    """Standard error of a mean; no smaller than that of a rare mistake."""
    return float(np.sqrt(max(loss.var(), 1e-3 * max(1.0, loss.max(initial=0.0))) / len(loss)))


def blend(found, targets, weights, n_slots, normalise):
    """The weighted read-outs, whose decisions are of rows with these targets and weights."""
    shares = _shares([(r.passes, r.error, r.spread) for r in found])
    trace = [
        {"gamma": r.gamma, "pass": r.passes, "error": r.error, "weight": float(w)}
        for r, w in zip(found, shares, strict=True)
    ]
    shares = shares / _sizes(found) if normalise else shares
    coefs: dict = {}
    decisions: Any = 0.0
    for r, share in zip(found, shares, strict=True):
        total = coefs.setdefault(r.gamma, np.zeros((n_slots, r.coef.shape[1])))
        total[: len(r.coef)] += share * r.coef
        decisions = decisions + share * r.decisions
    return Outcome(coefs, decisions, targets, weights, {"read_outs": trace})


def crossed(found, targets, loss_of, normalise):
    """Decisions of the left-out rows by blends whose weights the other half of them chose."""
    losses = [loss_of(r.decisions, targets) for r in found]
    sizes = _sizes(found) if normalise else 1.0
    out, halves = np.empty(targets.shape), (slice(0, None, 2), slice(1, None, 2))
    for half, other in (halves, halves[::-1]):
        shares = _shares(
            [
                (r.passes, loss[other].mean(), standard_error(loss[other]))
                for r, loss in zip(found, losses, strict=True)
            ]
        )
        shares = zip(shares / sizes, found, strict=True)
        out[half] = sum(share * r.decisions[half] for share, r in shares)
    return out


def _shares(found):
    """Weights of read-outs (passes, error, spread); they add up to 1."""
    passes, error, spread = np.array(found).T
    best = int(error.argmin())
    weights = passes * np.exp(-2.0 * (error - error[best]) / spread[best])
    return weights / weights.sum()


def _sizes(found):
    """Sizes of the decisions of read-outs, as far as they are not next to nothing.

    A narrow kernel decides nothing on rows that it has not learned. Brought to the size of others,
    it would decide everything on those that it has, where learners aim at decisions of about 1.
    """
    return np.maximum([rms(r.decisions) for r in found], _SMALL)
