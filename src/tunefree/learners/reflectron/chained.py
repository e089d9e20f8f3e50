r"""The Reflectron in chains of steps: the same curve in fewer passes.

A plain step h follows the mirror flow w' = -g(theta), but its length is limited by the steepest
direction, while what is left to learn lies in flat ones. A chain of j = 1, 2, ... steps from w_0,

.. math:: w_j = w_{j-1} + \Bigl(1 - \frac1j\Bigr)(w_{j-1} - w_{j-2})
                - \Bigl(2 - \frac1j\Bigr)\, h\, g(\theta_{j-1}),

is the Runge-Kutta-Legendre method of j stages. Along an eigenvector of a linear w -> g(theta(w))
with the eigenvalue l it multiplies by the Legendre polynomial P_j(1 - h l), which is at most 1 in
absolute value where h l <= 2, and is 1 - l h j (j + 1) / 2 + ... for small l: after j passes the
flow's time is h j (j + 1) / 2, to first order, and not h j. Without a constraint w stays a
combination of gradients, so that the limit on data that fit is the one of the plain iteration; and
the chain ends when it would be longer than twice the time before it, so that it stays near the flow
and a hold-out set finds what it finds on the plain path. (Nesterov's weights, which are not bounded
so, arrive at higher hold-out risks.)

With D = theta_j - theta_{j-1}, a trial is kept if both

.. math:: h \langle g(\theta_j) - g(\theta_{j-1}), D\rangle
             \le c\, \langle w_j - w_{j-1}, D\rangle,
          \qquad \langle g(\theta_j), \theta_j - \theta_0\rangle \le 0,

with c = 1.3, or if j = 1 and the first holds with c = 1. The first measures h l along D, the second
is the progress: g is the gradient of the convex matching loss F, so F(theta_j) <= F(theta_0)
+ <g(theta_j), theta_j - theta_0>, and j = 1 with c = 1 is the plain step's own test. Hence F is
never above its value at the chain's start, and from chain to chain it does not rise, for any
potential, projected or not. Within a chain it may rise; nothing is proved about the rate where
theta(w) or g is not linear. A rejected trial ends the chain: the next begins at the last point
kept, with a smaller h if h was too long.

Source: the method of stages: Meyer, Balsara and Aslam 2014, "A stabilized Runge-Kutta-Legendre
method for explicit super-time-stepping of parabolic and mixed equations"; the flow: Boffi and
Slotine 2020; both tests and the lengths of chains are this library's.
"""

from typing import NamedTuple

import numpy as np

from tunefree.learners.reflectron.mirror import Mirror, Point, inner

_STIFF = 1.3  # c: below 2, as the steepest direction is steeper than those met
_REACH, _MOST = 2.0, 30  # of the time before: as long a chain; steps
_SAFETY, _GROWTH, _SHRINKAGE = 0.8, 2.0, (0.1, 0.7)


class Chain(NamedTuple):
    """What the running configurations' chains remember.

    The point kept before the present one and the chain's start, j of the next point, the flow's
    time at the start, and the largest h l met.
    """

    before: Point
    origin: Point
    number: np.ndarray
    since: np.ndarray
    worst: np.ndarray

    def take(self, index):
        """Some of the configurations."""
        points = self.before.take(index), self.origin.take(index)
        return Chain(*points, *(a[index] for a in self[2:]))


class Chained(Mirror):
    """`Mirror` in chains, where the step is automatic."""

    __slots__ = ()

    def init(self, d, k=1, theta=None, offset=None):
        """The state before the first sweep."""
        state = super().init(d, k, theta, offset)
        n = len(state.live)
        chain = Chain(state.now, state.now, np.ones(n, int), np.zeros(n), np.zeros(n))
        return state._replace(chain=chain)

    def _good(self, state, gradient, slope, bend, move):
        origin, trial = state.chain.origin, state.trial
        progress = inner(gradient, trial.theta - origin.theta)
        progress += inner(slope, trial.offset - origin.offset)
        plain = (state.chain.number == 1) & (bend <= move)
        return plain | ((bend <= _STIFF * move) & (progress <= 0.0))

    def _pace(self, state, accept, moved, move, bend):
        chain, live = state.chain, state.live
        step, j, automatic = state.step[live], chain.number, self._automatic(live)
        advance = np.where(moved, step * j, 0.0)
        with np.errstate(all="ignore"):
            steep = np.where(move > 0.0, step * bend / move, 0.0)
            worst = np.where(moved, np.maximum(chain.worst, steep), chain.worst)
            grown = np.minimum(_GROWTH, _SAFETY * _STIFF / np.maximum(worst, 1e-300))
            limit = np.where(j == 1, 1.0, _STIFF)
            shrunk = np.clip(_SAFETY * limit / steep, *_SHRINKAGE)
        shrunk = np.where(np.isfinite(steep), shrunk, _SHRINKAGE[0])
        # Uphill, but not for the length of h: a plain step will do.
        shrunk = np.where((j > 1) & (steep <= _STIFF), 1.0, shrunk)
        longer = 0.5 * step * (j + 1) * (j + 2)
        full = (j >= _MOST) | (longer > _REACH * np.maximum(chain.since, step))
        anew = ~moved | full | ~automatic
        factor = np.where(accept, np.where(moved & full, grown, 1.0), shrunk)
        now = state.trial.where(accept, state.now)
        chain = Chain(
            before=state.now.where(accept, chain.before),
            origin=now.where(anew, chain.origin),
            number=np.where(anew, 1, j + 1),
            since=np.where(anew, state.time[live] + advance, chain.since),
            worst=np.where(anew, 0.0, worst),
        )
        return advance, np.where(automatic, step * factor, step), chain

    def _onward(self, state, i, step, plain):
        now, before = state.now, state.chain.before
        j = 1 if plain else state.chain.number[i]
        keep, length = 1.0 - 1.0 / j, (2.0 - 1.0 / j) * step
        return (
            now.dual[i] + keep * (now.dual[i] - before.dual[i]) - length * state.gradient[i],
            now.offset[i]
            + keep * (now.offset[i] - before.offset[i])
            - length * state.offset_gradient[i],
        )

    def _begun_anew(self, state, plain):
        chain = state.chain
        time = state.time[state.live]
        chain = chain._replace(
            origin=state.now.where(plain, chain.origin),
            number=np.where(plain, 1, chain.number),
            since=np.where(plain, time, chain.since),
            worst=np.where(plain, 0.0, chain.worst),
        )
        return state._replace(chain=chain)
