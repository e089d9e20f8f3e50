"""Selection of bandwidth and number of passes while learning, for the kernel estimators.

These learners run several kernel learners at once; `engine.run.run` runs them over a `Data`:

`KernelPasses`
    learns with all members side by side. In the first pass each row is predicted before it is
    learned. A pre-selection runs it on the first rows, with every view and every bandwidth of a
    grid: the best three bandwidths of the best view continue.
`HoldOutSelection`
    learns with every bandwidth twice, side by side: without every tenth row (of fewer than 500
    rows, without more of them), and with all rows. Both share the kernel's values. After passes
    1, 2, 3, 5, 8, 12, ... the average of the pass is read out, with its error e on held-out rows.
`ProgressiveSelection`
    makes a single pass without held-out rows: bandwidths and rules are compared by their
    progressive errors over the last half of the pass (at most the latest 8,192 rows).
`SingleRun`
    makes passes with a single member, where the user has chosen the average.

The predictor is a weighted sum of read-outs, with the weights p exp(-2 (e - e_min) / SE): p is the
pass, e the held-out error and SE its standard error. Where decisions are signs (`normalise`), each
read-out is first divided by the size of its held-out decisions.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.protocols import BlockSource
from tunefree.held_out.progressive_risk import (
    ProgressiveRisk,
    curve,
    recent_rows,
    record,
    rms,
    start_progress,
)
from tunefree.kernels.bandwidths import BLOCK, base, root_of
from tunefree.pistol.kernel_blocked import Cache, KernelBlock, Memory, MemoryEngine
from tunefree.rows.order import Visits
from tunefree.rows.outliers import DELTA

# The passes after which held-out rows are predicted: any of them may be the last.
READ_OUTS = (1, 2, 3, 5, 8, 12, 20, 30)
# Visits of rows at most, and rows up to which the distances of all pairs are cached.
VISITS, CACHED = 200_000, 16_384
# Rows of the pre-selection, and how many bandwidths continue after it.
PRESELECTION, KEPT = 6_000, 3
# One row in ten is held out; of few rows so many that fifty are, but at most one in four.
_SHARE, _ENOUGH, _LARGEST = 10, 50, 4
# With so many held-out rows, passes end after so many read-outs without a new best.
_MANY, _PATIENCE = 500, 2
# Decisions are divided by their size, but by no less than this: learners aim at 1.
_SMALL = 0.25


@dataclass(frozen=True)
class Data(BlockSource):
    """Rows in memory, in the order in which the first pass visits them: the source of a run."""

    rows: Any  # `Facts` in the coordinates of learning; None where the cache is enough
    squares: np.ndarray  # k(x, x)
    targets: np.ndarray  # of shape (n, n_outputs)
    visits: Visits  # of rows by their numbers; numbers from n on are skipped
    cache: Any = None  # a `Cache`

    def blocks(self, epoch):
        """The blocks of a pass."""
        numbers, weights = self.visits.order(epoch)
        included = numbers < len(self.targets)
        numbers, weights = numbers[included], weights[included]
        ahead = np.append(np.minimum.accumulate(numbers[::-1])[::-1], len(self.targets))
        for start in range(0, len(numbers), BLOCK):
            stop = min(len(numbers), start + BLOCK)
            r = numbers[start:stop]
            yield KernelBlock(
                None, r, self.squares[r], self.targets[r], weights[start:stop], start, ahead[stop]
            )

    @property
    def largest(self):
        """The largest k(x, x)."""
        return max(float(self.squares.max(initial=0.0)), 1e-300)

    def engine(self, kernel, members, apart=False, watched=None):
        """A new engine. It evaluates averages at the rows `watched`, by default at all."""
        n, k = self.targets.shape
        watched = np.arange(n) if watched is None else watched
        memory = Memory(n, watched, self.rows, self.cache)
        return MemoryEngine(kernel, members, k, memory, apart)


def pairs(team, kernel, gammas, rows):
    """The `Cache` of kernel values or distances of all pairs of rows, computed for half of them."""
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
    """A member's average after a pass."""

    gamma: float | None
    passes: int
    error: float  # mean held-out loss
    spread: float  # its standard error
    coef: np.ndarray  # of shape (n_slots, n_outputs)
    decisions: np.ndarray  # of the held-out rows


class SelectionState(NamedTuple):
    """State of a run."""

    engine: MemoryEngine  # all members' learners; changed in place
    progress: ProgressiveRisk | None = None  # predictions made before rows were learned
    epoch: int = 0
    read_outs: tuple = ()


class BandwidthOutcome(NamedTuple):
    """A predictor, and held-out decisions with the targets and weights of their rows."""

    coefs: dict  # bandwidth to coefficients of shape (n_slots, n_outputs)
    decisions: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    trace: dict


class KernelPasses:
    """Passes of members side by side; the first predicts each row before it is learned.

    With `classify` it records mistakes rather than squared errors.
    """

    _RECORDED = 1  # the running average of each member

    def __init__(self, team, n_passes, classify):
        self.team, self.n_passes, self.classify = team, n_passes, classify

    def init(self, engine):
        """The state before the first row."""
        n = len(engine.members) * self._RECORDED
        return SelectionState(engine, start_progress(n, engine.n_outputs, engine.memory.n))

    def scan(self, state, rows):
        """Learn a block of rows."""
        first, k = state.epoch == 0, state.engine.n_outputs
        if state.epoch + 1 < self.n_passes:
            rows = rows._replace(ahead=0)
        scores = state.engine.learn(self.team, rows, first)
        if first:
            recorded = [s for member in scores for s in member[: self._RECORDED]]
            record(state.progress, self.classify, k, recorded, rows.targets, rows.weights)
        return state

    def turn(self, state):
        """End a pass."""
        epoch = state.epoch + 1
        return state._replace(epoch=epoch), epoch >= self.n_passes


class SingleRun(KernelPasses):
    """Passes of a single member, whose average, or `last` iterate, is read.

    A `late` average has no mass in the beginning: the decisions of the iterates are read in place
    of its own.
    """

    _RECORDED = 2  # the running average and the iterate

    def __init__(self, team, n_passes, classify, *, last=False, late=False):
        super().__init__(team, n_passes, classify)
        self.last, self.late = last, late

    def read(self, state):
        """The member's coefficients."""
        engine, progress = state.engine, state.progress
        decisions, targets, weights = recent_rows(progress)
        rows, risk = curve(progress)
        trace = {
            "rows": rows,
            "progressive_error_average": risk[:, 0],
            "progressive_error_last": risk[:, 1],
        }
        coefs = {engine.members[0].gamma: engine.last(0) if self.last else engine.mean(0)}
        decisions = decisions[:, 1] if self.last or self.late else decisions[:, 0]
        return BandwidthOutcome(coefs, decisions, targets, weights, trace)


class ProgressiveSelection(KernelPasses):
    """One pass of several rules and bandwidths, weighted by their progressive errors."""

    def __init__(self, team, loss_of, normalise):
        super().__init__(team, 1, classify=False)
        self.loss_of, self.normalise = loss_of, normalise

    def read(self, state):
        """The weighted sum of the members."""
        recent, targets, weights = recent_rows(state.progress)
        outs = []
        for i, member in enumerate(state.engine.members):
            f = recent[:, i]
            coef = state.engine.mean(i)
            loss = self.loss_of(f, targets)
            error = float(np.average(loss, weights=weights))
            outs.append(ReadOut(member.gamma, 1, error, standard_error(loss), coef, f))
        return blend(outs, targets, weights, state.engine.n_slots, self.normalise)


class HoldOutSelection:
    """Passes over all rows, compared on held-out rows.

    Of every two members the first does not learn the held-out rows, by default those of `held_out`.
    If they are given (`held`), each half of them chooses the weights for the decisions of the other
    half. `when` are the passes after which averages are read.
    """

    def __init__(self, team, data, when, loss_of, normalise, held):
        self.team, self.data, self.when = team, data, when
        self.loss_of, self.normalise, self.cross_fit = loss_of, normalise, held is not None
        self.held = held_out(len(data.targets)) if held is None else held
        self.apart = np.isin(np.arange(len(data.targets)), self.held)

    def init(self, engine):
        """The state before the first row."""
        return SelectionState(engine)

    def scan(self, state, rows):
        """Learn a block of rows."""
        if rows.start == 0:
            state.engine.restart()
        without = np.arange(len(state.engine.members))[:, None] % 2 == 0
        weights = np.where(without & self.apart[rows.numbers], 0.0, rows.weights)
        state.engine.learn(self.team, rows._replace(weights=weights, ahead=0))
        return state

    def turn(self, state):
        """End a pass; after the passes of `when` read averages, and drop bandwidths that lag."""
        state = state._replace(epoch=state.epoch + 1)
        if state.epoch not in self.when:
            return state, False
        new = self._read(state.engine, state.epoch)
        outs = (*state.read_outs, *new)
        best = min(outs, key=lambda r: r.error)
        in_reach = np.array([r.error <= best.error + 2.0 * best.spread for r in new])
        without_gain = len({r.passes for r in outs if r.passes > best.passes})
        stalled = without_gain >= _PATIENCE and len(self.held) >= _MANY
        done = stalled or not in_reach.any()
        if not done:
            state.engine.keep(np.flatnonzero(np.repeat(in_reach, 2)))  # both members of a pair
        return state._replace(read_outs=outs), done or state.epoch >= self.when[-1]

    def _read(self, engine, passes):
        outs, targets = [], self.data.targets[self.held]
        engine.update_sums(self.team)
        for i in range(0, len(engine.members), 2):
            f = engine.watched(i)
            coef = engine.mean(i + 1)
            loss = self.loss_of(f, targets)
            error, spread = float(loss.mean()), standard_error(loss)
            outs.append(ReadOut(engine.members[i].gamma, passes, error, spread, coef, f))
        return outs

    def read(self, state):
        """The weighted sum of the read-outs."""
        targets, outs = self.data.targets[self.held], state.read_outs
        totals = np.bincount(*self.data.visits.order(0), minlength=len(self.apart))[self.held]
        outcome = blend(outs, targets, totals, state.engine.n_slots, self.normalise)
        if not self.cross_fit:
            return outcome
        decisions = cross_fitted(outs, targets, self.loss_of, self.normalise)
        return outcome._replace(decisions=decisions)


def read_outs(n_visits, max_iter, limit):
    """The passes after which to read: up to `max_iter`; of 'auto' up to `limit`, and few visits."""
    if max_iter == "auto":
        most = min(limit, max(1, VISITS // max(1, n_visits)))
        return [p for p in READ_OUTS if p <= most]
    return [*(p for p in READ_OUTS if p < max_iter), max_iter]


def held_out(n):
    """The held-out rows, which half of the members do not learn; at least 1.

    Examples
    --------
    >>> [len(held_out(n)) for n in (2, 60, 300, 5000)]
    [1, 15, 50, 500]
    """
    every = max(_LARGEST, min(_SHARE, n // _ENOUGH))
    return np.arange(every - 1, n, every) if n >= every else np.array([n - 1])


def mistakes(decisions, targets):
    """1 for each row whose decision is wrong; targets are signs of classes."""
    if targets.shape[1] == 1:
        return ((decisions[:, 0] > 0.0) != (targets[:, 0] > 0.0)).astype(float)
    return (decisions.argmax(axis=1) != targets.argmax(axis=1)).astype(float)


def squared_errors(predictions, targets):
    """Mean squared errors of rows, whose targets are clipped to `DELTA` scales."""
    return np.mean(np.square(predictions - np.clip(targets, -DELTA, DELTA)), axis=1)


def absolute_errors(predictions, targets):
    """Mean absolute errors of rows."""
    return np.mean(np.abs(predictions - targets), axis=1)


def standard_error(loss):
    """Standard error of a mean; no smaller than that of a rare mistake."""
    return float(np.sqrt(max(loss.var(), 1e-3 * max(1.0, loss.max(initial=0.0))) / len(loss)))


def blend(outs, targets, weights, n_slots, normalise):
    """What weighted read-outs give; targets and weights are of their decisions' rows."""
    shares = _shares(outs)
    trace = [
        {"gamma": r.gamma, "pass": r.passes, "error": r.error, "weight": float(w)}
        for r, w in zip(outs, shares, strict=True)
    ]
    shares = shares / _sizes(outs) if normalise else shares
    coefs: dict = {}
    decisions: Any = 0.0
    for r, share in zip(outs, shares, strict=True):
        total = coefs.setdefault(r.gamma, np.zeros((n_slots, r.coef.shape[1])))
        total[: len(r.coef)] += share * r.coef
        decisions = decisions + share * r.decisions
    return BandwidthOutcome(coefs, decisions, targets, weights, {"read_outs": trace})


def cross_fitted(outs, targets, loss_of, normalise):
    """Decisions of the held-out rows, each half with weights that were chosen on the other half."""
    sizes = _sizes(outs) if normalise else 1.0
    out = np.empty(targets.shape)
    halves = (slice(0, None, 2), slice(1, None, 2))
    for half, other in (halves, halves[::-1]):
        losses = [loss_of(r.decisions, targets)[other] for r in outs]
        judged = [
            r._replace(error=loss.mean(), spread=standard_error(loss))
            for r, loss in zip(outs, losses, strict=True)
        ]
        shares = zip(_shares(judged) / sizes, outs, strict=True)
        out[half] = sum(share * r.decisions[half] for share, r in shares)
    return out


def _shares(outs):
    """Weights of read-outs; they sum to 1."""
    passes, error, spread = np.array([(r.passes, r.error, r.spread) for r in outs]).T
    best = int(error.argmin())
    weights = passes * np.exp(-2.0 * (error - error[best]) / spread[best])
    return weights / weights.sum()


def _sizes(outs):
    """Sizes of the read-outs' decisions, at least `_SMALL`.

    With a narrow kernel, decisions on held-out rows are near 0. Divided by their size, they would
    dominate on rows that were learned, where learners aim at decisions of about 1.
    """
    return np.maximum([rms(r.decisions) for r in outs], _SMALL)
