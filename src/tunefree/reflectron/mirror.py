r"""The Reflectron in full batches: mirror descent along the pseudogradient, many at a time.

.. math::
    w^+ = w - \lambda\, g(\theta), \qquad
    \theta^+ = \Pi(\nabla\psi^{-1}(w^+)), \qquad
    g(\theta) = \frac1n \sum_i (u(\langle\theta, x_i\rangle) - y_i)\, x_i

The state is the dual w. Several *configurations* (a potential, a constraint, a step) are learned in
the same passes: their predictors are stacked, so that two matrix products serve all of them. Each
configuration has one or more *members*, which differ only in the rows held out from them and have
the same steps. The first member is the one to read; the risk on the rows held out from any member
decides after which step. So cross-validation and the final fit are the same passes.

The automatic step needs no constant of the problem. With D = theta+ - theta (of all members), a
trial is kept if

.. math:: \lambda \langle g(\theta^+) - g(\theta), D\rangle \le \langle w^+ - w, D\rangle ,

which makes the matching loss fall, projected or not. The step is then multiplied by 1.3, and
otherwise halved. The gradient is needed for the next step anyway, so the test costs nothing; a
rejected trial costs one pass.

Steps may also come in chains (`learners.reflectron.chains`).

Source: Boffi, Tu and Slotine 2021, eq. 7-8; the automatic step and the stacking are this library's.
"""

from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.process import team
from tunefree.reflectron.constraints import SchattenBall
from tunefree.reflectron.potentials import Euclidean, Spectral

NONE = -1  # no member
_GROWTH, _SHRINKAGE = 1.3, 0.5
_ROUNDING = 1e-14  # smaller relative moves are rounding
_MOST_SHRINKAGES = 200
_SHARE_OF_START = 0.1
_PIECE = 4096  # rows


class Configuration(NamedTuple):
    """A geometry to learn in; the step None is automatic.

    Potential and constraint act on the whole matrix of parameters, or on every output separately.
    """

    potential: Any
    constraint: Any = None
    step: float | None = None
    per_output: bool = False

    def mirror(self, theta):
        """The dual of parameters of shape (k, d)."""
        theta = np.asarray(theta, dtype=float)
        if self.per_output:
            return np.concatenate([self.potential.mirror(row[None]) for row in theta])
        return self.potential.mirror(theta)

    def place(self, duals, near=None):
        """The predictors of duals of shape (members, k, d), and the duals of those predictors.

        `near` may hold the predictors before this step, as a start for iterative methods.
        """
        if self.per_output:
            alone = self._replace(per_output=False)
            pairs = alone.place(duals.reshape(-1, 1, duals.shape[-1]))
            return tuple(a.reshape(duals.shape) for a in pairs)
        if self.constraint is not None:
            return paired(self.constraint.project(dual, self.potential) for dual in duals)
        if getattr(self.potential, "separable", False):
            return self.potential.inverse(duals), duals
        return np.array([self.potential.inverse(dual) for dual in duals]), duals


def paired(points):
    """Predictors and duals as two arrays, of pairs of them."""
    return tuple(np.array(each) for each in zip(*points, strict=True))


def of_singular_values(potential, constraint):
    """Whether a pair acts on singular values alone, and `subspace` supports it."""
    ball = isinstance(constraint, SchattenBall)
    if isinstance(potential, Spectral):
        return ball or constraint is None
    return ball and isinstance(potential, Euclidean)


class Batch(NamedTuple):
    """A block of rows, targets of shape (n, k) and weights for batch learners.

    `held` is the member that a row is held out from, whose risk is measured there. `offset`, one
    number a row, or one for each output, is added to its margins.
    """

    design: Any
    targets: np.ndarray
    weights: np.ndarray
    held: Any = NONE
    offset: Any = None

    def part(self, rows):
        """Some rows, a slice."""
        held = self.held[rows] if np.ndim(self.held) else self.held
        offset = None if self.offset is None else self.offset[rows]
        return Batch(self.design.rows(rows), self.targets[rows], self.weights[rows], held, offset)

    def indices(self, theta, offset):
        """The indices s = X theta + b, (n, ..., k), for theta (..., k, d) and b (..., k)."""
        s = self.design.apply(theta.reshape(-1, theta.shape[-1]).T) + offset.reshape(-1)
        s = s.reshape(-1, *offset.shape)
        if self.offset is None:
            return s
        n, *outputs = self.offset.shape
        return s + self.offset.reshape(n, *[1] * (s.ndim - 1 - len(outputs)), *outputs)

    def pieces(self):
        """The same in pieces whose products and residuals stay in the cache."""
        n = len(self.targets)
        if n < 4 * _PIECE:
            return [self]
        return [self.part(slice(i, min(i + _PIECE, n))) for i in range(0, n, _PIECE)]


class Point(NamedTuple):
    """Predictors: duals and parameters (..., k, d), intercepts (..., k)."""

    dual: np.ndarray
    theta: np.ndarray
    offset: np.ndarray

    def where(self, mask, other):
        """These where the mask of the first axis is true, else the others."""
        return Point(*(_pick(mask, a, b) for a, b in zip(self, other, strict=True)))

    def take(self, index):
        """Some of the first axis."""
        return Point(*(a[index] for a in self))


class Sums(NamedTuple):
    """The sums of a pass, of the L configurations still running and their M members."""

    gradient: Any = 0.0  # (L, M, k, d); this and the next three of the rows learned from
    offset: Any = 0.0  # (L, M, k)
    weight: Any = 0.0  # (M,)
    squares: Any = 0.0  # (L,): squared residuals of the first member
    held: Any = 0.0  # (L,): of the rows held out, by the members they are held out from
    held_weight: float = 0.0

    def add(self, other):
        """The sums of both."""
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))


class State(NamedTuple):
    """The state of a run; L of the C configurations are still running."""

    live: np.ndarray  # (L,): their numbers
    now: Point  # accepted: of the running configurations, all members, (L, M, k, d)
    trial: Point  # the next points, not yet accepted
    gradient: np.ndarray  # at the accepted points
    offset_gradient: np.ndarray
    best: Point  # of all members, (C, M, k, d): where the risk was lowest, or the last
    step: np.ndarray  # (C,), like all that follows
    sums: Sums
    accepted: np.ndarray  # points accepted so far, the start included
    score: np.ndarray  # the lowest risk
    best_at: np.ndarray  # ... and the number of the accepted point that had it
    mark: np.ndarray  # the same two, counting improvements beyond the tolerance only
    mark_at: np.ndarray
    begun: np.ndarray  # the risk of the start
    time: np.ndarray  # the sum of the accepted steps, now
    best_time: np.ndarray  # ... and at the best point
    risk: np.ndarray  # mean squared errors of the accepted point
    held_risk: np.ndarray
    move: np.ndarray  # symmetric Bregman divergence <w+ - w, theta+ - theta> of the last move
    passes: int
    automatic: np.ndarray  # whether the step is
    patience: np.ndarray  # points to wait for progress, at least
    half: np.ndarray  # the lowest risk when the accepted points were last a power of two
    chain: Any = None  # the `Chain` of the L running ones


class PlainSteps(NamedTuple):
    """Single steps: the automatic one grows when it is accepted, and shrinks when it is not."""

    def begin(self, start):
        """No `Chain`."""
        return None

    def is_good(self, state, gradient, slope, curvature, move):
        """Whether the matching loss is proved to fall."""
        return curvature <= move

    def next_steps(self, state, accept, moved, curvature, move):
        """The time of accepted trials, the next steps, and no `Chain`."""
        step, automatic = state.step[state.live], state.automatic[state.live]
        advance = np.where(moved, step, 0.0)
        step = np.where(moved & automatic, step * _GROWTH, step)
        return advance, np.where(~accept & automatic, step * _SHRINKAGE, step), None

    def next_points(self, state, step, single, units):
        """The next duals and intercepts; a step is divided by the `units` of the intercepts."""
        now, step = state.now, step[:, None, None]
        dual = now.dual - step[..., None] * state.gradient
        return dual, now.offset - step / units * state.offset_gradient

    def restarted(self, state, single):
        """Nothing to restart."""
        return None


class Mirror(NamedTuple):
    """Batch learner of one or more configurations.

    A configuration ends after `patience` accepted points without progress (times the potential's
    `patience_factor`, and at least half as many as progress took). One that has made progress, but
    less than another, ends after `behind` points without progress; None does not compare.
    """

    link: Any
    configurations: tuple
    intercept: bool = True  # outside potential and constraint
    members: int = 1  # of each configuration
    first_step: float = 1.0  # where automatic steps start; any value does
    patience: int = 50
    behind: int | None = None
    tol: float = 1e-3  # the fall that is progress, relative to the risk and a tenth of the start's
    last: bool = False  # read the last point, not the best
    family: Any = None  # scores and deviances in place of residuals and squared errors
    steps: Any = PlainSteps()  # or `chains.ChainedSteps`

    def with_metric(self, design, weights, total):
        """The learner whose potentials with a metric have that of these rows, of `total` weight."""
        unbound = [c.potential for c in self.configurations if hasattr(c.potential, "bound")]
        if not unbound:
            return self
        first = unbound[0].bound(np.asarray(design.gram(weights), dtype=np.float64), float(total))
        bound = (
            c._replace(potential=c.potential.like(first)) if hasattr(c.potential, "bound") else c
            for c in self.configurations
        )
        return self._replace(configurations=tuple(bound))

    def init(self, d, k=1, theta=None, offset=None):
        """The state before the first sweep.

        `theta` (k, d), by default the potential's minimiser, and `offset` (k,) or (members, k) are
        where to start.
        """
        n, shape = len(self.configurations), (self.members, k, d)
        duals, thetas = np.zeros((n, *shape)), np.zeros((n, *shape))
        for c, configuration in enumerate(self.configurations):
            if theta is not None:
                duals[c] = configuration.mirror(theta)
            thetas[c], duals[c] = configuration.place(duals[c])
        offsets = np.zeros((n, *shape[:2]))
        if offset is not None:
            offsets = np.tile(np.broadcast_to(offset, shape[:2]), (n, 1, 1))
        start = Point(duals, thetas, offsets)
        steps = [self.first_step if c.step is None else c.step for c in self.configurations]
        potentials = [c.potential for c in self.configurations]
        factors = [getattr(getattr(p, "base", p), "patience_factor", 1.0) for p in potentials]
        zeros, none, worst = np.zeros(n), np.zeros(n, int), np.full(n, np.inf)
        return State(
            live=np.arange(n), now=start, trial=start, gradient=np.zeros((n, *shape)),
            offset_gradient=np.zeros((n, *shape[:2])), best=start,
            step=np.array(steps, dtype=float), sums=Sums(), accepted=none, score=worst,
            best_at=none, mark=worst, mark_at=none, begun=zeros, time=zeros, best_time=zeros,
            risk=worst, held_risk=worst, move=zeros, passes=0,
            automatic=np.array([c.step is None for c in self.configurations]),
            patience=self.patience * np.array(factors), half=worst, chain=self.steps.begin(start),
        )  # fmt: skip

    def asked(self, state, centre=None):
        """The part of the state that `scan` reads: it is sent to the workers.

        A `centre` is that of all rows, if designs are not centred and `gathered` corrects for it.
        """
        unread = dict.fromkeys(("now", "gradient", "offset_gradient", "best", "chain"))
        trial = state.trial._replace(dual=None)
        if centre is not None:
            trial = trial._replace(offset=trial.offset - trial.theta @ centre)
        return state._replace(trial=trial, **unread)

    def narrowed(self, asked, columns):
        """The same for blocks with some of the columns."""
        theta = np.take(asked.trial.theta, columns, axis=-1)
        return asked._replace(trial=asked.trial._replace(theta=theta))

    def gathered(self, state, parts, centre=None):
        """Add up `parts` as they come: (sums, their columns, or None for all columns)."""
        whole, gradient = Sums(), 0.0
        for part, columns in parts:
            whole = whole.add(part._replace(gradient=0.0))
            if not np.ndim(part.gradient):
                continue
            if not np.ndim(gradient):
                gradient = np.zeros(state.trial.theta.shape)
            at = slice(None) if columns is None else columns
            for total, addend in zip(_vectors(gradient), _vectors(part.gradient), strict=True):
                total[at] += addend
        if centre is not None and np.ndim(gradient):
            for vector, total in zip(_vectors(gradient), whole.offset.reshape(-1), strict=True):
                vector -= total * centre
        return state._replace(sums=whole._replace(gradient=gradient))

    def indices(self, state, batch):
        """Indices of rows by every member of the chosen configuration: (n, members, k)."""
        c = self.chosen(state)
        return batch.indices(state.best.theta[c], state.best.offset[c])

    def held_out(self, state, batch):
        """Indices of rows by the member that they are held out from, or else by the first."""
        s = self.indices(state, batch)
        return s[np.arange(len(s)), np.maximum(batch.held, 0)]

    def scan(self, state, block):
        """Add a block's residuals and gradients at the trial points; its pieces run in threads."""
        parts = team().each(
            lambda piece: _summed(self, state.trial, piece), block.pieces(), ahead=4
        )
        return state._replace(sums=reduce(Sums.add, parts, state.sums))

    def merge(self, base, parts):
        """Add up what several workers scanned, each from the `base` of a pass."""
        return base._replace(sums=reduce(Sums.add, [part.sums for part in parts]))

    def turn(self, state):
        """Accept or reject every trial point, and make the next ones."""
        sums, live = state.sums, state.live
        gradient = sums.gradient / sums.weight[:, None, None]
        slope = sums.offset / sums.weight[:, None]
        risk = sums.squares / sums.weight[0]
        held_risk = sums.held / sums.held_weight if sums.held_weight > 0.0 else risk
        accept, ended, move, curvature = self._judge(state, gradient, slope)
        at = state.accepted[live]
        first = accept & (at == 0)
        better = accept & (held_risk < state.score[live])
        here = np.where(better | (accept & self.last), live, NONE)
        start = np.where(first, held_risk, state.begun[live])
        worth = self.tol * (held_risk + _SHARE_OF_START * start)
        progress = accept & (held_risk < state.mark[live] - worth)
        advance, step, chain = self.steps.next_steps(
            state, accept, accept & ~first, curvature, move
        )
        time = state.time[live] + advance

        def noted(mask, **values):
            """Copies of arrays, with new values of the running configurations in a mask."""
            arrays = {name: getattr(state, name).copy() for name in values}
            for name, value in values.items():
                arrays[name][live[mask]] = value[mask]
            return arrays

        state = state._replace(
            now=state.trial.where(accept, state.now),
            gradient=_pick(accept, gradient, state.gradient),
            offset_gradient=_pick(accept, slope, state.offset_gradient),
            best=_noted(state.best, here, state.trial),
            sums=Sums(),
            passes=state.passes + 1,
            chain=chain,
            **noted(np.ones_like(accept), step=step, move=move),
            **noted(accept, accepted=at + 1, time=time, risk=risk, held_risk=held_risk),
            **noted(better, score=held_risk, best_at=at, best_time=time),
            **noted(progress, mark=held_risk, mark_at=at),
            **noted(first, begun=held_risk),
        )
        ended |= self._without_progress(state)
        if self.behind is not None and self.family is not None:
            doubled = accept & (at & (at + 1) == 0)
            ended |= doubled & self._hopeless(state)
            state = state._replace(**noted(doubled, half=state.score[live]))
        return self._next_trials(state, ~ended)

    def _judge(self, state, gradient, slope):
        """Which trials to accept, which configurations end, <w+ - w, D> and <g+ - g, D>.

        A trial that does not move is accepted; if its dual does not move either, the configuration
        ends. It also ends if a fixed step is not finite.
        """
        now, trial, live = state.now, state.trial, state.live
        step, automatic = state.step[live], state.automatic[live]
        drift, theta, offset = (b - a for a, b in zip(now, trial, strict=True))
        own, begins = _largest(trial.theta), state.accepted[live] == 0
        still = _largest(offset) <= _ROUNDING * np.maximum(own, _largest(trial.offset))
        still |= _largest(state.offset_gradient) <= _ROUNDING * np.sqrt(state.risk[live])
        offset = np.where(still[:, None, None], 0.0, offset)  # rounding is no test of the step
        if still.any():
            still &= _largest(theta) <= _ROUNDING * own
        move = inner(drift, theta) + _intercept_units(self, live) * inner(offset, offset)
        with np.errstate(invalid="ignore", over="ignore"):
            curvature = inner(gradient - state.gradient, theta)
            curvature += inner(slope - state.offset_gradient, offset)
            good = self.steps.is_good(state, gradient, slope, step * curvature, move)
        finite = np.isfinite(curvature)
        accept = finite & (begins | still | good | ~automatic)
        # Parameters far below the largest may still grow, as the hypentropy's do from beta.
        if still.any():
            still &= ~begins & (_largest(drift) <= _ROUNDING * _largest(trial.dual))
        return accept, np.where(finite, still, begins | ~automatic), move, curvature

    def _without_progress(self, state):
        """Which running configurations have been without progress for too long."""
        at = state.mark_at[state.live]
        waited = state.accepted[state.live] - at
        has_ended = waited > np.maximum(state.patience[state.live], at // 2)
        if self.behind is not None and len(self.configurations) > 1:
            lagging = (at > 0) & (state.score[state.live] > state.score.min())
            has_ended |= lagging & (waited > self.behind)
        return has_ended

    def _hopeless(self, state):
        """Which running configurations would not beat the best even if they fell as far again."""
        live, best = state.live, state.score.min()
        score = state.score[live]
        with np.errstate(invalid="ignore"):
            expected = score - (state.half[live] - score)
        worth = self.tol * (best + _SHARE_OF_START * state.begun[live])
        old = (state.accepted[live] >= state.patience[live]) & (score > best)
        return old & (expected > best - worth)

    def _next_trials(self, state, continues):
        """Make the next trial points; a step to infinity is shortened at once."""
        step, score = state.step.copy(), state.score.copy()
        duals, thetas = np.empty_like(state.now.dual), np.empty_like(state.now.theta)
        single = np.zeros(len(state.live), dtype=bool)
        duals_next, offsets = self._next_points(state, step, single)
        for i in np.flatnonzero(continues):
            c = state.live[i]
            configuration = self.configurations[c]
            for _ in range(_MOST_SHRINKAGES):
                with np.errstate(invalid="ignore", over="ignore"):
                    thetas[i], duals[i] = configuration.place(duals_next[i], state.now.theta[i])
                continues[i] = np.isfinite(thetas[i]).all() and np.isfinite(duals[i]).all()
                if continues[i] or configuration.step is not None:
                    break
                step[c] *= _SHRINKAGE
                single[i] = True
                duals_next, offsets = self._next_points(state, step, single)
            if not continues[i] and state.accepted[c] <= 1:
                score[c] = np.inf  # no step from the start was finite
        if not self.intercept:
            offsets = state.now.offset
        trial, chain = Point(duals, thetas, offsets), self.steps.restarted(state, single)
        state = state._replace(step=step, score=score, trial=trial, chain=chain)
        if not continues.all():
            state = state._replace(
                live=state.live[continues],
                now=state.now.take(continues),
                trial=state.trial.take(continues),
                gradient=state.gradient[continues],
                offset_gradient=state.offset_gradient[continues],
                chain=None if state.chain is None else state.chain.take(continues),
            )
        return state, len(state.live) == 0

    def _next_points(self, state, step, single):
        units = _intercept_units(self, state.live)[:, None, None]
        with np.errstate(invalid="ignore", over="ignore"):
            return self.steps.next_points(state, step[state.live], single, units)

    def chosen(self, state):
        """The configuration of the lowest risk."""
        return int(np.argmin(state.score))

    def read(self, state):
        """Parameters (k, d) and intercepts (k,) of the chosen configuration."""
        c = self.chosen(state)
        return state.best.theta[c, 0], state.best.offset[c, 0]

    def observe(self, state):
        """Risks, time, step and move of every configuration."""
        return {
            name: getattr(state, name) for name in ("time", "risk", "held_risk", "step", "move")
        }


def _summed(learner, trial, block):
    """The `Sums` of a block at the trial points."""
    outputs = getattr(block.design, "outputs", 1)  # rows a sample, where these share weights
    theta, members = trial.theta, trial.theta.shape[1]
    s, targets = block.indices(theta, trial.offset), block.targets[:, None, None, :]
    held = np.broadcast_to(block.held, len(targets))
    is_held = held[:, None] == np.arange(members)
    measured, learns = block.weights[:, None] * is_held, block.weights[:, None] * ~is_held
    if learner.family is None:
        r = learner.link.mean(s) - targets
        squares = (r * r).sum(axis=3)
        risk = np.einsum("im,ilm->l", measured, squares)
    else:
        judged = None if members == 1 else partial(_first_and_held_out, held)
        r, squares = learner.family.residuals(learner.link, s, targets, judged)
        squares = squares.sum(axis=3)
        with np.errstate(invalid="ignore"):
            risk = measured.sum(axis=1) @ squares[:, :, -1]
    r = (r * learns[:, None, :, None]).reshape(len(r), -1)
    gradient: Any = 0.0  # 0 where all rows are held out
    if learns.any():
        gradient = block.design.adjoint(r).T.reshape(theta.shape)
        if getattr(learner.family, "tied", False):  # projected on equal coefficients
            gradient = np.broadcast_to(gradient.mean(axis=2, keepdims=True), theta.shape)
    return Sums(
        gradient,
        r.sum(axis=0).reshape(trial.offset.shape),
        learns.sum(axis=0) / outputs,
        learns[:, 0] @ squares[:, :, 0],
        risk,
        float(measured.sum()) / outputs,
    )


def _first_and_held_out(held, a):
    """Of numbers (n, configurations, members, k) those of two members, for each row.

    They are the first member, and the one that the row is held out from.
    """
    held_out = a[np.arange(len(a)), :, np.maximum(held, 0)]
    return np.stack([a[:, :, 0], held_out], axis=2)


def inner(a, b):
    """Inner products of the entries of the first axis."""
    n = len(a)
    return np.einsum("lx,lx->l", a.reshape(n, -1), b.reshape(n, -1))


def _intercept_units(learner, live):
    """The weight of half the squared intercept, relative to the potential."""
    return np.array([getattr(learner.configurations[c].potential, "unit", 1.0) for c in live])


def _vectors(a):
    """The vectors along the last axis."""
    return a.reshape(-1, a.shape[-1])


def _largest(a):
    a = a.reshape(len(a), -1)
    return np.maximum(a.max(axis=1, initial=0.0), -a.min(axis=1, initial=0.0))


def _noted(best, here, trial):
    """The best points, after those trials that are better; `here` has their numbers, or -1."""
    rows = np.flatnonzero(here >= 0)
    new = Point(*(a.copy() for a in best))
    for array, values in zip(new, trial, strict=True):
        array[here[rows]] = values[rows]
    return new


def _pick(mask, a, b):
    """Rows of a where the mask is true, else those of b."""
    return a if mask.all() else np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)
