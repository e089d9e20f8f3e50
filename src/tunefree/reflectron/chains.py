r"""Chains of steps, which follow the Reflectron's curve in fewer passes than plain steps.

A plain step h follows the mirror flow w' = -g(theta), but the steepest direction limits its length,
while the remaining error lies in flat directions. A chain of j = 1, 2, ... steps from w_0,

.. math:: w_j = w_{j-1} + \Bigl(1 - \frac1j\Bigr)(w_{j-1} - w_{j-2})
                - \Bigl(2 - \frac1j\Bigr)\, h\, g(\theta_{j-1}),

is the Runge-Kutta-Legendre method of j stages. Along an eigenvector of a linear w -> g(theta(w))
with the eigenvalue l it multiplies by the Legendre polynomial P_j(1 - h l), which is at most 1 in
absolute value where h l <= 2, and is 1 - l h j (j + 1) / 2 + ... for small l: after j passes the
flow's time is h j (j + 1) / 2, to first order, and not h j. Without a constraint w stays a
combination of gradients, so that on data that can be fitted exactly the limit is that of the plain
iteration. A chain ends when it would be longer than twice the time before it. So it stays near the
flow, and early stopping finds the same point as on the plain path. (Nesterov's weights, which have
no such bound, end at higher hold-out risks.)

With D = theta_j - theta_{j-1}, a trial is kept if both

.. math:: h \langle g(\theta_j) - g(\theta_{j-1}), D\rangle
             \le c\, \langle w_j - w_{j-1}, D\rangle,
          \qquad \langle g(\theta_j), \theta_j - \theta_0\rangle \le 0,

with c = 1.3, or if j = 1 and the first holds with c = 1. The first measures h l along D, the second
the progress: g is the gradient of the convex matching loss F, so F(theta_j) <= F(theta_0)
+ <g(theta_j), theta_j - theta_0>, and j = 1 with c = 1 is the plain step's own test. Hence F is
never above its value at the chain's start, and from chain to chain it does not rise, for any
potential, projected or not. Within a chain it may rise; nothing is proved about the rate where
theta(w) or g is not linear. A rejected trial ends the chain: the next begins at the last accepted
point, with a smaller h if h was too long.

Source: Meyer, Balsara and Aslam 2014, "A stabilized Runge-Kutta-Legendre method for explicit
super-time-stepping of parabolic and mixed equations"; the flow: Boffi and Slotine 2020; both tests
and the lengths of chains are this library's.
"""

from typing import NamedTuple

import numpy as np

from tunefree.reflectron.mirror import Point, inner

_STIFFNESS = 1.3  # c: below 2, as the steepest direction may be steeper than those measured
_LONGEST_TIME, _MOST_STEPS = 2.0, 30  # longest chain: relative to the time before it; in steps
_SAFETY, _CHAIN_GROWTH, _CHAIN_SHRINKAGE = 0.8, 2.0, (0.1, 0.7)


class Chain(NamedTuple):
    """The chains of the running configurations."""

    before: Point  # the point accepted before the present one
    origin: Point  # the chain's start
    number: np.ndarray  # j of the next point
    since: np.ndarray  # the flow's time at the start
    worst: np.ndarray  # the largest h l so far

    def take(self, index):
        """Some of the configurations."""
        points = self.before.take(index), self.origin.take(index)
        return Chain(*points, *(a[index] for a in self[2:]))

    def restarted(self, mask, now, time):
        """The chains, some of them begun anew at the points `now`."""
        return self._replace(
            origin=now.where(mask, self.origin),
            number=np.where(mask, 1, self.number),
            since=np.where(mask, time, self.since),
            worst=np.where(mask, 0.0, self.worst),
        )


class ChainedSteps(NamedTuple):
    """Chains of steps, where the step is automatic; the `Chain` of a state is where they are."""

    def begin(self, start):
        """The chains at their start."""
        n = len(start.dual)
        return Chain(start, start, np.ones(n, int), np.zeros(n), np.zeros(n))

    def is_good(self, state, gradient, slope, curvature, move):
        """Whether the loss is proved to stay below its value at the chain's start."""
        origin, trial = state.chain.origin, state.trial
        progress = inner(gradient, trial.theta - origin.theta)
        progress += inner(slope, trial.offset - origin.offset)
        plain = (state.chain.number == 1) & (curvature <= move)
        return plain | ((curvature <= _STIFFNESS * move) & (progress <= 0.0))

    def next_steps(self, state, accept, moved, curvature, move):
        """The time of accepted trials, the next steps, and the next `Chain`."""
        chain, live = state.chain, state.live
        step, j, automatic = state.step[live], chain.number, state.automatic[live]
        advance = np.where(moved, step * j, 0.0)
        with np.errstate(all="ignore"):
            stiffness = np.where(move > 0.0, step * curvature / move, 0.0)  # h l
            worst = np.where(moved, np.maximum(chain.worst, stiffness), chain.worst)
            grown = np.minimum(_CHAIN_GROWTH, _SAFETY * _STIFFNESS / np.maximum(worst, 1e-300))
            limit = np.where(j == 1, 1.0, _STIFFNESS)
            shrunk = np.clip(_SAFETY * limit / stiffness, *_CHAIN_SHRINKAGE)
        shrunk = np.where(np.isfinite(stiffness), shrunk, _CHAIN_SHRINKAGE[0])
        # Uphill, but h is not too long: the next chain begins with the same h.
        shrunk = np.where((j > 1) & (stiffness <= _STIFFNESS), 1.0, shrunk)
        longer = 0.5 * step * (j + 1) * (j + 2)
        full = (j >= _MOST_STEPS) | (longer > _LONGEST_TIME * np.maximum(chain.since, step))
        factor = np.where(accept, np.where(moved & full, grown, 1.0), shrunk)
        now = state.trial.where(accept, state.now)
        chain = chain._replace(
            before=state.now.where(accept, chain.before), number=j + 1, worst=worst
        )
        chain = chain.restarted(~moved | full | ~automatic, now, state.time[live] + advance)
        return advance, np.where(automatic, step * factor, step), chain

    def next_points(self, state, step, single, units):
        """The next duals and intercepts; a `single` step is the first of a chain."""
        now, before, j = state.now, state.chain.before, np.where(single, 1, state.chain.number)
        keep, length = (a[:, None, None] for a in (1.0 - 1.0 / j, (2.0 - 1.0 / j) * step))
        dual = now.dual + keep[..., None] * (now.dual - before.dual)
        offset = now.offset + keep * (now.offset - before.offset)
        dual -= length[..., None] * state.gradient
        return dual, offset - length / units * state.offset_gradient

    def restarted(self, state, single):
        """The `Chain` after steps to infinity were shortened."""
        return state.chain.restarted(single, state.now, state.time[state.live])
