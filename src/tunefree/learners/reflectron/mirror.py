r"""The Reflectron in full batches: mirror descent along the pseudogradient, many at a time.

.. math::
    w^+ = w - \lambda\, g(\theta), \qquad
    \theta^+ = \Pi(\nabla\psi^{-1}(w^+)), \qquad
    g(\theta) = \frac1n \sum_i (u(\langle\theta, x_i\rangle) - y_i)\, x_i

The state is the dual w. Several *configurations* (a potential, a constraint, a step) are swept over
the rows together: their predictors are stacked, so that two matrix products serve all of them.
Each configuration has one or more *members*, which differ only in the rows held out from them and
share their steps: the first is the one to read, and the risk on the rows held out from any of them
says after which step. So cross-validation and the final fit are the same sweep.

The automatic step needs no constant of the problem. With D = theta+ - theta (of all members), a
trial is kept if

.. math:: \lambda \langle g(\theta^+) - g(\theta), D\rangle \le \langle w^+ - w, D\rangle ,

which makes the matching loss fall, projected or not; the step is then multiplied by 1.3, and
otherwise halved. Its gradient is needed for the next step anyway, so a test costs nothing; a
rejected trial costs one pass.

Source: Boffi, Tu and Slotine 2021, eq. 7-8; the automatic step and the stacking are this library's.
"""

from typing import NamedTuple

import numpy as np

from tunefree.pseudogradient import residuals

NONE = -1  # no member
_GROWTH, _SHRINKAGE = 1.3, 0.5
_STILL = 1e-14  # a relative move below this is rounding
_MOST_SHRINKAGES = 200
_SHARE_OF_START = 0.1


class Configuration(NamedTuple):
    """A geometry to learn in; the step None is automatic.

    Potential and constraint are of the whole matrix of parameters, or of every output on its own.
    """

    potential: object
    constraint: object = None
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

        `near` may have the predictors before this step: a hint.
        """
        if self.per_output:
            alone = self._replace(per_output=False)
            pairs = alone.place(duals.reshape(-1, 1, duals.shape[-1]))
            return tuple(a.reshape(duals.shape) for a in pairs)
        if self.constraint is not None:
            pairs = [self.constraint.project(dual, self.potential) for dual in duals]
            return np.array([theta for theta, _ in pairs]), np.array([dual for _, dual in pairs])
        if getattr(self.potential, "separable", False):
            return self.potential.inverse(duals), duals
        return np.array([self.potential.inverse(dual) for dual in duals]), duals


class Batch(NamedTuple):
    """A block of rows, targets of shape (n, k) and weights for batch learners.

    `held` says which member does not learn from a row: its risk there is measured.
    """

    design: object
    targets: np.ndarray
    weights: np.ndarray
    held: object = NONE


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
    """What a sweep adds up, of the L configurations still running and their M members.

    `gradient` (L, M, k, d), `offset` (L, M, k) and `weight` (M,) are of the rows learned from,
    `squares` (L,) the first member's squared residuals there; `held` (L,) and `held_weight` of the
    rows held out, of the members they are held out from.
    """

    gradient: object = 0.0
    offset: object = 0.0
    weight: object = 0.0
    squares: object = 0.0
    held: object = 0.0
    held_weight: float = 0.0

    def add(self, other):
        """Both together."""
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))

    def less(self, other):
        """What came after `other`."""
        return Sums(*(a - b for a, b in zip(self, other, strict=True)))


class State(NamedTuple):
    """Everything a run knows; L of the C configurations are still running.

    Attributes
    ----------
    live : ndarray of shape (L,), int
        Their numbers.
    now, trial : Point
        Accepted and on trial: of the running configurations, all members, (L, M, k, d).
    gradient, offset_gradient : ndarray
        At the accepted points.
    best : Point
        Of the first member, (C, k, d): where the risk was lowest, or the last.
    step : ndarray of shape (C,)
    sums : Sums
    accepted : ndarray of shape (C,)
        Points accepted so far, the start included.
    score, best_at : ndarray of shape (C,)
        The lowest risk and the accepted point that had it.
    mark, mark_at : ndarray of shape (C,)
        The same, counting only improvements worth waiting for.
    begun : ndarray of shape (C,)
        The risk of the start.
    time, best_time : ndarray of shape (C,)
        The sum of the accepted steps, now and at the best point.
    risk, held_risk, move : ndarray of shape (C,)
        Mean squared errors of the accepted point, and the symmetric Bregman divergence
        <w+ - w, theta+ - theta> of the last move.
    passes : int
    chain : object
        What `tunefree.learners.reflectron.chained` remembers, of the L running ones.
    """

    live: np.ndarray
    now: Point
    trial: Point
    gradient: np.ndarray
    offset_gradient: np.ndarray
    best: Point
    step: np.ndarray
    sums: Sums
    accepted: np.ndarray
    score: np.ndarray
    best_at: np.ndarray
    mark: np.ndarray
    mark_at: np.ndarray
    begun: np.ndarray
    time: np.ndarray
    best_time: np.ndarray
    risk: np.ndarray
    held_risk: np.ndarray
    move: np.ndarray
    passes: int
    chain: object = None


class Mirror(NamedTuple):
    """Batch learner of one or more configurations.

    Attributes
    ----------
    link : a part of `tunefree.links`
    configurations : tuple of Configuration
    weight : None, 'slope' or callable
        The pseudogradient's weight; other than None it needs fixed steps.
    intercept : bool
        Learn an intercept, outside potential and constraint.
    members : int
        How many members a configuration has.
    first_step : float
        Where automatic steps start; any value does.
    patience : int
        Accepted points without progress before a configuration ends; at least half as many as
        progress took, and as many times more as the potential's duals have a longer `way`.
    behind : int or None
        The same for a configuration that has made progress, but not as far as another; None does
        not compare.
    tol : float
        Fall of the risk that counts as progress, relative to the risk and a tenth of the start's.
    last : bool
        Read the last point, not the best.
    """

    link: object
    configurations: tuple
    weight: object = None
    intercept: bool = True
    members: int = 1
    first_step: float = 1.0
    patience: int = 50
    behind: int | None = None
    tol: float = 1e-3
    last: bool = False

    def init(self, d, k=1, theta=None, offset=None):
        """The state before the first sweep.

        Parameters
        ----------
        d, k : int
            Columns and outputs.
        theta : ndarray of shape (k, d), optional
            Where to start; the potential's minimiser by default.
        offset : ndarray of shape (k,) or (members, k), optional
            Intercepts to start from.
        """
        n, shape = len(self.configurations), (self.members, k, d)
        duals, thetas = np.zeros((n, *shape)), np.zeros((n, *shape))
        for c, configuration in enumerate(self.configurations):
            if theta is not None:
                duals[c] = configuration.mirror(theta)
            thetas[c], duals[c] = configuration.place(duals[c])
        offsets = np.zeros((n, *shape[:2])) if offset is None else np.tile(
            np.broadcast_to(offset, shape[:2]), (n, 1, 1)
        )  # fmt: skip
        start = Point(duals, thetas, offsets)
        steps = [self.first_step if c.step is None else c.step for c in self.configurations]
        zeros, none, worst = np.zeros(n), np.zeros(n, int), np.full(n, np.inf)
        return State(
            live=np.arange(n), now=start, trial=start, gradient=np.zeros((n, *shape)),
            offset_gradient=np.zeros((n, *shape[:2])), best=Point(*(a[:, 0] for a in start)),
            step=np.array(steps, dtype=float), sums=Sums(), accepted=none, score=worst,
            best_at=none, mark=worst, mark_at=none, begun=zeros, time=zeros, best_time=zeros,
            risk=worst, held_risk=worst, move=zeros, passes=0,
        )  # fmt: skip

    def scan(self, state, block):
        """Add a block's residuals and gradients at the points on trial."""
        outputs = getattr(block.design, "outputs", 1)  # rows a sample, where these share weights
        theta, offset = state.trial.theta, state.trial.offset
        n_live, members, k, d = theta.shape
        margins = block.design.apply(theta.reshape(-1, d).T) + offset.reshape(-1)
        margins = margins.reshape(-1, n_live, members, k)
        r, squares = residuals(self.link, self.weight, margins, block.targets[:, None, None, :])
        held = np.broadcast_to(block.held, len(r))[:, None] == np.arange(members)
        measured, learns = block.weights[:, None] * held, block.weights[:, None] * ~held
        squares = squares.sum(axis=3)
        r = (r * learns[:, None, :, None]).reshape(len(r), -1)
        gradient = np.zeros(theta.shape)
        if learns.any():  # rows that are only measured have no gradient
            gradient += block.design.adjoint(r).T.reshape(theta.shape)
        sums = Sums(
            gradient,
            r.sum(axis=0).reshape(offset.shape),
            learns.sum(axis=0) / outputs,
            learns[:, 0] @ squares[:, :, 0],
            np.einsum("im,ilm->l", measured, squares),
            float(measured.sum()) / outputs,
        )
        return state._replace(sums=state.sums.add(sums))

    def merge(self, base, parts):
        """Join what several workers scanned, each from `base`."""
        sums = base.sums
        for part in parts:
            sums = sums.add(part.sums.less(base.sums))
        return base._replace(sums=sums)

    def turn(self, state):
        """Accept or reject every point on trial, and set out the next ones."""
        sums, live = state.sums, state.live
        gradient = sums.gradient / sums.weight[:, None, None]
        slope = sums.offset / sums.weight[:, None]
        risk = sums.squares / sums.weight[0]
        held_risk = sums.held / sums.held_weight if sums.held_weight > 0.0 else risk
        accept, ended, move, bend = self._judge(state, gradient, slope)
        first = accept & (state.accepted[live] == 0)
        better = accept & (held_risk < state.score[live])
        here = np.where(better | (accept & self.last), live, NONE)
        start = np.where(first, held_risk, state.begun[live])
        worth = self.tol * (held_risk + _SHARE_OF_START * start)
        progress = accept & (held_risk < state.mark[live] - worth)
        moved = accept & ~first
        advance, step, chain = self._pace(state, accept, moved, move, bend)
        time = state.time[live] + advance
        at = state.accepted[live]

        def noted(name, mask, value):
            new = getattr(state, name).copy()
            new[live[mask]] = value[mask]
            return new

        state = state._replace(
            now=state.trial.where(accept, state.now),
            gradient=_pick(accept, gradient, state.gradient),
            offset_gradient=_pick(accept, slope, state.offset_gradient),
            best=_noted(state.best, here, state.trial),
            step=noted("step", np.ones_like(accept), step),
            sums=Sums(),
            accepted=noted("accepted", accept, at + 1),
            score=noted("score", better, held_risk),
            best_at=noted("best_at", better, at),
            mark=noted("mark", progress, held_risk),
            mark_at=noted("mark_at", progress, at),
            begun=noted("begun", first, held_risk),
            time=noted("time", accept, time),
            best_time=noted("best_time", better, time),
            risk=noted("risk", accept, risk),
            held_risk=noted("held_risk", accept, held_risk),
            move=noted("move", np.ones_like(accept), move),
            passes=state.passes + 1,
            chain=chain,
        )
        return self._set_out(state, ~ended & ~self._tired(state))

    def _pace(self, state, accept, moved, move, bend):
        """The time that accepted trials took, the next steps, and what a chain remembers."""
        step, automatic = state.step[state.live], self._automatic(state.live)
        advance = np.where(moved, step, 0.0)
        step = np.where(moved & automatic, step * _GROWTH, step)
        return advance, np.where(~accept & automatic, step * _SHRINKAGE, step), None

    def _automatic(self, live):
        return np.array([self.configurations[c].step is None for c in live], dtype=bool)

    def _judge(self, state, gradient, slope):
        """Which trials to accept, which configurations end, <w+ - w, D> and <g+ - g, D>.

        A trial that does not move is accepted, and the last if its dual does not move either; one
        of a fixed step that is not finite is the end.
        """
        now, trial, live = state.now, state.trial, state.live
        step, automatic = state.step[live], self._automatic(live)
        theta, offset = trial.theta - now.theta, trial.offset - now.offset
        own, drift = _largest(trial.theta), _largest(trial.dual - now.dual)
        still = _largest(offset) <= _STILL * np.maximum(own, _largest(trial.offset))
        still |= _largest(np.abs(state.offset_gradient)) <= _STILL * np.sqrt(state.risk[live])
        offset = np.where(still[:, None, None], 0.0, offset)  # rounding tells nothing of the step
        still &= _largest(theta) <= _STILL * own
        move = inner(trial.dual - now.dual, theta) + inner(offset, offset)
        with np.errstate(invalid="ignore", over="ignore"):
            bend = inner(gradient - state.gradient, theta)
            bend += inner(slope - state.offset_gradient, offset)
            good = self._good(state, gradient, slope, step * bend, move)
        finite, begins = np.isfinite(bend), state.accepted[live] == 0
        accept = finite & (begins | still | good | ~automatic)
        # Parameters far below the largest may be on their way, as hypentropy's are from beta.
        still &= ~begins & (drift <= _STILL * _largest(trial.dual))
        return accept, np.where(finite, still, begins | ~automatic), move, bend

    def _good(self, state, gradient, slope, bend, move):
        """Whether the matching loss falls, by what is known."""
        return bend <= move

    def _tired(self, state):
        """Which running configurations have waited for progress for too long."""
        at = state.mark_at[state.live]
        waited = state.accepted[state.live] - at
        potentials = [self.configurations[c].potential for c in state.live]
        way = [getattr(getattr(p, "base", p), "way", 1.0) for p in potentials]
        tired = waited > np.maximum(self.patience * np.array(way), at // 2)
        if self.behind is not None and len(self.configurations) > 1:
            lagging = (at > 0) & (state.score[state.live] > state.score.min())
            tired |= lagging & (waited > self.behind)
        return tired

    def _set_out(self, state, goes):
        """Put the next points on trial; a step to infinity is shortened at once."""
        step, score = state.step.copy(), state.score.copy()
        duals, thetas = np.empty_like(state.now.dual), np.empty_like(state.now.theta)
        plain = np.zeros(len(state.live), dtype=bool)
        for i in np.flatnonzero(goes):
            c = state.live[i]
            configuration = self.configurations[c]
            for _ in range(_MOST_SHRINKAGES):
                with np.errstate(invalid="ignore", over="ignore"):
                    dual = self._onward(state, i, step[c], plain[i])[0]
                    thetas[i], duals[i] = configuration.place(dual, state.now.theta[i])
                goes[i] = np.isfinite(thetas[i]).all() and np.isfinite(duals[i]).all()
                if goes[i] or configuration.step is not None:
                    break
                step[c] *= _SHRINKAGE
                plain[i] = True
            if not goes[i] and state.accepted[c] <= 1:
                score[c] = np.inf  # it never left the start
        offsets = state.now.offset
        if self.intercept and len(goes):
            each = enumerate(state.live)
            with np.errstate(invalid="ignore", over="ignore"):
                offsets = np.array([self._onward(state, i, step[c], plain[i])[1] for i, c in each])
        state = self._begun_anew(state, plain)
        state = state._replace(step=step, score=score, trial=Point(duals, thetas, offsets))
        if not goes.all():
            state = state._replace(
                live=state.live[goes], now=state.now.take(goes), trial=state.trial.take(goes),
                gradient=state.gradient[goes], offset_gradient=state.offset_gradient[goes],
                chain=None if state.chain is None else state.chain.take(goes),
            )  # fmt: skip
        return state, len(state.live) == 0

    def _onward(self, state, i, step, plain):
        """The dual and the intercepts that come next; `plain` after a step to infinity."""
        now = state.now
        return now.dual[i] - step * state.gradient[i], now.offset[i] - step * (
            state.offset_gradient[i]
        )

    def _begun_anew(self, state, plain):
        """The state after steps to infinity were shortened."""
        return state

    def chosen(self, state):
        """The configuration of the lowest risk."""
        return int(np.argmin(state.score))

    def read(self, state, c=None):
        """Parameters (k, d) and intercepts (k,) of a configuration, by default the chosen one."""
        c = self.chosen(state) if c is None else c
        return state.best.theta[c], state.best.offset[c]

    def observe(self, state):
        """Risks, time, step and move of every configuration."""
        return {
            name: getattr(state, name) for name in ("time", "risk", "held_risk", "step", "move")
        }


def inner(a, b):
    """Inner products of the entries of the first axis."""
    n = len(a)
    return np.einsum("lx,lx->l", a.reshape(n, -1), b.reshape(n, -1))


def _largest(a):
    a = a.reshape(len(a), -1)
    return np.maximum(a.max(axis=1, initial=0.0), -a.min(axis=1, initial=0.0))


def _noted(best, here, trial):
    """The best points, with those on trial that are better (`here` says which, -1 none)."""
    rows = np.flatnonzero(here >= 0)
    new = Point(*(a.copy() for a in best))
    for mine, theirs in zip(new, trial, strict=True):
        mine[here[rows]] = theirs[rows, 0]
    return new


def _pick(mask, a, b):
    """Rows of a where the mask is true, else those of b."""
    return a if mask.all() else np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)
