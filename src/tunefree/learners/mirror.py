r"""The Reflectron in full batches: mirror descent along the pseudogradient, many at a time.

.. math::
    w^+ = w - \lambda\, g(\theta), \qquad
    \theta^+ = \Pi(\nabla\psi^{-1}(w^+)), \qquad
    g(\theta) = \frac1n \sum_i (u(\langle\theta, x_i\rangle) - y_i)\, x_i

The state is the dual w. Several *configurations* (a potential, a constraint, a step) are swept over
the rows together: their predictors are stacked, so that two matrix products serve all of them.

The automatic step needs no constant of the problem. With D = theta+ - theta, a trial is kept if

.. math:: \lambda \langle g(\theta^+) - g(\theta), D\rangle \le \langle w^+ - w, D\rangle ,

which makes the matching loss fall, projected or not; the step is then multiplied by 1.3, and
otherwise halved. Its gradient is needed for the next step anyway, so a test costs nothing; a
rejected trial costs one pass.

Source: Boffi, Tu and Slotine 2021, eq. 7-8; the automatic step and the stacking are this library's.
"""

from typing import NamedTuple

import numpy as np

from tunefree.pseudogradient import residuals

_GROWTH, _SHRINKAGE = 1.3, 0.5
_STILL = 1e-14  # a relative move below this is rounding
_MOST_SHRINKAGES = 200
_SHARE_OF_START = 0.1


class Configuration(NamedTuple):
    """A geometry to learn in.

    Attributes
    ----------
    potential : a part of `tunefree.potentials`
    constraint : a part of `tunefree.constraints` or None
    step : float or None
        A fixed step; None is automatic.
    """

    potential: object
    constraint: object = None
    step: float | None = None

    def place(self, dual):
        """The predictor of a dual, and the dual of that predictor."""
        if self.constraint is None:
            return self.potential.inverse(dual), dual
        return self.constraint.project(dual, self.potential)


class Sheet(NamedTuple):
    """A block of rows for batch learners: to learn from, or only to measure the risk on.

    Attributes
    ----------
    design : object with `apply` and `adjoint`
    targets : ndarray of shape (n, k)
    weights : ndarray of shape (n,)
    held : bool
    """

    design: object
    targets: np.ndarray
    weights: np.ndarray
    held: bool = False


class Point(NamedTuple):
    """Predictors of all configurations: duals and parameters (K, k, d), intercepts (K, k)."""

    dual: np.ndarray
    theta: np.ndarray
    offset: np.ndarray


class Sums(NamedTuple):
    """What a sweep adds up, of the configurations still running.

    Attributes
    ----------
    gradient, offset : ndarray of shape (L, k, d) and (L, k)
    squares, weight : ndarray of shape (L,), float
        Squared residuals and mass of the rows learned from.
    held, held_weight : ndarray of shape (L,), float
        The same of the rows held out.
    """

    gradient: object = 0.0
    offset: object = 0.0
    squares: object = 0.0
    weight: float = 0.0
    held: object = 0.0
    held_weight: float = 0.0

    def add(self, other):
        """Both together."""
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))

    def less(self, other):
        """What came after `other`."""
        return Sums(*(a - b for a, b in zip(self, other, strict=True)))


class State(NamedTuple):
    """Everything a run knows; leading axes are configurations.

    Attributes
    ----------
    live : ndarray of int
        The configurations still running.
    now, trial, best : Point
        Accepted, on trial, and of the lowest risk so far.
    gradient, offset_gradient : ndarray
        At the accepted point.
    step : ndarray of shape (K,)
    sums : Sums
    accepted : ndarray of shape (K,)
        Points accepted so far, the start included.
    score, best_at : ndarray of shape (K,)
        The lowest risk and the accepted point that had it.
    mark, mark_at : ndarray of shape (K,)
        The same, counting only improvements worth waiting for.
    begun : ndarray of shape (K,)
        The risk of the start.
    time, best_time : ndarray of shape (K,)
        The sum of the accepted steps, now and at the best point.
    risk, held_risk, move : ndarray of shape (K,)
        Mean squared errors of the accepted point, and the symmetric Bregman divergence
        <w+ - w, theta+ - theta> of the last move.
    passes : int
    """

    live: np.ndarray
    now: Point
    trial: Point
    best: Point
    gradient: np.ndarray
    offset_gradient: np.ndarray
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
    first_step : float
        Where automatic steps start; any value does.
    patience : int
        Accepted points without progress before a configuration ends; at least as many as progress
        took.
    tol : float
        Fall of the risk that counts as progress, relative to the risk and a tenth of the start's.
    last : bool
        Read the last point, not the best.
    horizon : float or None
        End when the steps sum to this.
    """

    link: object
    configurations: tuple
    weight: object = None
    intercept: bool = True
    first_step: float = 1.0
    patience: int = 50
    tol: float = 1e-3
    last: bool = False
    horizon: float | None = None

    def init(self, d, k=1, theta=None, offset=None):
        """The state before the first sweep.

        Parameters
        ----------
        d, k : int
            Columns and outputs.
        theta : ndarray of shape (k, d), optional
            Where to start; the potential's minimiser by default.
        offset : ndarray of shape (k,), optional
            Intercepts to start from.
        """
        n = len(self.configurations)
        duals, thetas = np.zeros((n, k, d)), np.zeros((n, k, d))
        for c, configuration in enumerate(self.configurations):
            dual = duals[c] if theta is None else configuration.potential.mirror(theta)
            thetas[c], duals[c] = configuration.place(dual)
        offsets = np.zeros((n, k)) if offset is None else np.tile(offset, (n, 1))
        start = Point(duals, thetas, offsets)
        steps = [self.first_step if c.step is None else c.step for c in self.configurations]
        zeros, worst = np.zeros((3, n)), np.full((4, n), np.inf)
        return State(
            live=np.arange(n), now=start, trial=_copy(start), best=_copy(start),
            gradient=np.zeros((n, k, d)), offset_gradient=np.zeros((n, k)),
            step=np.array(steps, dtype=float), sums=Sums(),
            accepted=np.zeros(n, int), score=worst[0], best_at=np.zeros(n, int),
            mark=worst[1], mark_at=np.zeros(n, int),
            begun=np.zeros(n), time=zeros[0], best_time=zeros[1],
            risk=worst[2], held_risk=worst[3], move=zeros[2], passes=0,
        )  # fmt: skip

    def scan(self, state, block):
        """Add a block's residuals and gradients at the points on trial."""
        theta, offset = state.trial.theta[state.live], state.trial.offset[state.live]
        n_live, k, d = theta.shape
        margins = block.design.apply(theta.reshape(n_live * k, d).T) + offset.reshape(-1)
        margins = margins.reshape(-1, n_live, k)
        r, squares = residuals(self.link, self.weight, margins, block.targets[:, None, :])
        squares = block.weights @ squares.sum(axis=2)
        weight = float(block.weights.sum())
        if block.held:
            return state._replace(sums=state.sums.add(Sums(held=squares, held_weight=weight)))
        r = (r * block.weights[:, None, None]).reshape(-1, n_live * k)
        gradient = np.ascontiguousarray(block.design.adjoint(r).T).reshape(n_live, k, d)
        sums = Sums(gradient, r.sum(axis=0).reshape(n_live, k), squares, weight)
        return state._replace(sums=state.sums.add(sums))

    def merge(self, base, parts):
        """Join what several workers scanned, each from `base`."""
        sums = base.sums
        for part in parts:
            sums = sums.add(part.sums.less(base.sums))
        return base._replace(sums=sums)

    def turn(self, state):
        """Accept or reject every point on trial, and set out the next ones."""
        # The state's arrays of one sweep are its own: they are written in place.
        gradient = state.sums.gradient / state.sums.weight
        slope = state.sums.offset / state.sums.weight
        risk = state.sums.squares / state.sums.weight
        held = state.sums.held_weight > 0.0
        held_risk = state.sums.held / state.sums.held_weight if held else risk
        running = []
        for i, c in enumerate(state.live):
            verdict = self._judge(state, c, gradient[i], slope[i])
            if verdict != "reject":
                state.risk[c], state.held_risk[c] = risk[i], held_risk[i]
                self._accept(state, c, gradient[i], slope[i])
            elif self.configurations[c].step is None:
                state.step[c] *= _SHRINKAGE
            waited = state.accepted[c] - state.mark_at[c]
            tired = waited > max(self.patience, state.mark_at[c])
            if verdict in ("accept", "reject") and not tired and self._set_out(state, c):
                running.append(c)
        live = np.array(running, dtype=int)
        state = state._replace(live=live, sums=Sums(), passes=state.passes + 1)
        return state, len(live) == 0

    def _judge(self, state, c, gradient, slope):
        """Whether to accept a trial: 'accept', 'reject', 'still' (no move) or 'lost' (diverged)."""
        if not (np.isfinite(gradient).all() and np.isfinite(slope).all()):
            return "reject" if self.configurations[c].step is None else "lost"
        if state.accepted[c] == 0:
            return "accept"
        now, trial = state.now, state.trial
        move, shift = trial.theta[c] - now.theta[c], trial.offset[c] - now.offset[c]
        state.move[c] = np.sum((trial.dual[c] - now.dual[c]) * move) + np.sum(shift * shift)
        size = max(np.abs(trial.theta[c]).max(), np.abs(trial.offset[c]).max())
        if max(np.abs(move).max(), np.abs(shift).max()) <= _STILL * size:
            return "still"
        if self.configurations[c].step is not None:
            return "accept"
        bend = np.sum((gradient - state.gradient[c]) * move)
        bend += np.sum((slope - state.offset_gradient[c]) * shift)
        return "accept" if state.step[c] * bend <= state.move[c] else "reject"

    def _accept(self, state, c, gradient, slope):
        """Take the trial as the point, note its risk, and lengthen the step."""
        _assign(state.now, state.trial, c)
        if state.accepted[c] > 0:
            state.time[c] += state.step[c]
        state.gradient[c], state.offset_gradient[c] = gradient, slope
        if state.held_risk[c] < state.score[c]:
            state.score[c], state.best_at[c] = state.held_risk[c], state.accepted[c]
            state.best_time[c] = state.time[c]
            _assign(state.best, state.trial, c)
        if state.accepted[c] == 0:
            state.begun[c] = state.held_risk[c]
        worth = self.tol * (state.held_risk[c] + _SHARE_OF_START * state.begun[c])
        if state.held_risk[c] < state.mark[c] - worth:
            state.mark[c], state.mark_at[c] = state.held_risk[c], state.accepted[c]
        if self.configurations[c].step is None and state.accepted[c] > 0:
            state.step[c] *= _GROWTH
        state.accepted[c] += 1

    def _set_out(self, state, c):
        """Put the next point on trial; a step to infinity is shortened at once."""
        configuration = self.configurations[c]
        if self.horizon is not None:
            left = self.horizon - state.time[c]
            if left <= _STILL * self.horizon:
                return False
            state.step[c] = min(state.step[c], left)
        for _ in range(_MOST_SHRINKAGES):
            with np.errstate(invalid="ignore", over="ignore"):
                dual = state.now.dual[c] - state.step[c] * state.gradient[c]
                theta, dual = configuration.place(dual)
            if np.isfinite(theta).all() and np.isfinite(dual).all():
                state.trial.theta[c], state.trial.dual[c] = theta, dual
                if self.intercept:
                    shift = state.step[c] * state.offset_gradient[c]
                    state.trial.offset[c] = state.now.offset[c] - shift
                return True
            if configuration.step is not None:
                break
            state.step[c] *= _SHRINKAGE
        if state.accepted[c] <= 1:
            state.score[c] = np.inf  # it never left the start
        return False

    def chosen(self, state):
        """The configuration of the lowest risk."""
        return int(np.argmin(state.score))

    def read(self, state, c=None):
        """Parameters (k, d) and intercepts (k,) of a configuration, by default the chosen one."""
        c = self.chosen(state) if c is None else c
        point = state.now if self.last else state.best
        return point.theta[c], point.offset[c]

    def observe(self, state):
        """Risks, time, step and move of every configuration."""
        return {
            "time": state.time.copy(),
            "risk": state.risk.copy(),
            "held_risk": state.held_risk.copy(),
            "step": state.step.copy(),
            "move": state.move.copy(),
        }


def _copy(point):
    return Point(*(a.copy() for a in point))


def _assign(point, other, c):
    for mine, theirs in zip(point, other, strict=True):
        mine[c] = theirs[c]
