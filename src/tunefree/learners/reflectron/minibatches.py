r"""The Reflectron in steps of a few rows, with any potential and constraint, at O(d) a step.

.. math::
    \nabla\psi(\phi_{t+1}) = \nabla\psi(\theta_t) - \frac{\lambda_t}{b} \sum_{i}
        \xi(s_i)\,(u(s_i) - y_i)\, x_i, \qquad \theta_{t+1} = \Pi(\phi_{t+1})

Rows wait until there are enough for a step, so the chunks in which they come make no difference.

Source: Boffi, Tu and Slotine 2021, eq. 9-10.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.designs import CSR, Dense
from tunefree.learners.reflectron.lazy import Lazy
from tunefree.pseudogradient import (
    HALF,
    MASS,
    RISK,
    ROUNDS,
    WEIGHT,
    fresh_clock,
    residuals,
)


class MiniBatchState(NamedTuple):
    """Arrays of shape (k, d) and (k,): `sums` are of the iterates times their masses.

    `waiting` has the chunks (rows, targets, importance, steps) since the last step.
    """

    dual: np.ndarray
    theta: np.ndarray
    sums: np.ndarray
    offset: np.ndarray
    offset_sum: np.ndarray
    waiting: tuple
    clock: np.ndarray


class MiniBatches(NamedTuple):
    """Steps of `size` rows, in any geometry; a scheme of None reads the last iterate."""

    link: object
    configuration: object
    scheme: object
    weight: object = None
    intercept: bool = True
    size: int = 1

    def init(self, d, k=1, theta=None, offset=None):
        """The state before the first row; theta (k, d) and offset (k,) are where to start."""
        dual = np.zeros((k, d))
        if theta is not None:
            dual = self.configuration.mirror(theta)
        theta, dual = (a[0] for a in self.configuration.place(dual[None]))
        offset = np.zeros(k) if offset is None else np.array(offset, dtype=float)
        return MiniBatchState(dual, theta, np.zeros((k, d)), offset, np.zeros(k), (), fresh_clock())

    def scan(self, state, X, targets, importance, steps):
        """Learn rows in order; the last ones may wait for more."""
        start, waits = 0, sum(len(w[1]) for w in state.waiting)
        while start < len(targets):
            stop = min(len(targets), start + self.size - waits)
            chunk = tuple(a[start:stop] for a in (X, targets, importance, steps))
            state = state._replace(waiting=(*state.waiting, chunk))
            start, waits = stop, waits + stop - start
            if waits == self.size:
                state, waits = self._step(state), 0
        return state

    def _step(self, state):
        """Predict the rows that wait, and take a step."""
        clock = state.clock.copy()
        rows, targets, importance, steps = (_stack(a) for a in zip(*state.waiting, strict=True))
        state = state._replace(waiting=(), clock=clock)
        if not np.isfinite(clock[RISK]):
            return state
        design = CSR.from_scipy(rows) if sparse.issparse(rows) else Dense(rows)
        if clock[ROUNDS] * self.size >= clock[HALF]:
            clock[HALF] *= 2.0
            clock[RISK] *= 0.5
            clock[WEIGHT] *= 0.5
        share = 0.0
        if self.scheme is not None:
            share = self.scheme.mass(clock[ROUNDS], clock[ROUNDS] + 1.0)
        clock[MASS] += share
        clock[ROUNDS] += 1.0
        state = state._replace(
            sums=state.sums + share * state.theta,
            offset_sum=state.offset_sum + share * state.offset,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            margins = design.apply(state.theta.T) + state.offset
            r, squares = residuals(self.link, self.weight, margins, targets)
            if share:
                theta, offset = self.read(state)
                squares = np.square(self.link.mean(design.apply(theta.T) + offset) - targets)
            r = (steps * importance)[:, None] * r / len(targets)
            dual = state.dual - design.adjoint(r).T
            theta, dual = (a[0] for a in self.configuration.place(dual[None]))
        clock[RISK] += importance @ squares.sum(axis=1)
        clock[WEIGHT] += importance.sum()
        if not (np.isfinite(theta).all() and np.isfinite(r).all()):
            clock[RISK] = np.inf
            return state
        offset = state.offset - r.sum(axis=0) if self.intercept else state.offset
        return state._replace(dual=dual, theta=theta, offset=offset)

    def outputs(self, state, index, sign, ends):
        """The state with outputs rearranged, as in `Halving.outputs`."""
        column = sign[:, None]
        waiting = tuple(
            (X, np.where(sign > 0.0, y[:, index], ends - y[:, index]), *rest)
            for X, y, *rest in state.waiting
        )
        dual, theta, sums = (a[index] * column for a in state[:3])
        offset, offset_sum = (a[index] * sign for a in (state.offset, state.offset_sum))
        return MiniBatchState(dual, theta, sums, offset, offset_sum, waiting, state.clock)

    def read(self, state):
        """Parameters (k, d) and intercepts (k,); rows that wait are learned first."""
        if state.waiting:
            state = self._step(state)
        if state.clock[MASS] == 0.0:
            return state.theta, state.offset
        return state.sums / state.clock[MASS], state.offset_sum / state.clock[MASS]


def _stack(parts):
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def stochastic(link, configuration, scheme, weight, intercept, d, size=1):
    """The cheapest learner of a configuration."""
    potential, constraint = configuration.potential, configuration.constraint
    lazy = size == 1 and (weight is None or isinstance(weight, str)) and isinstance(link, tuple)
    if lazy and constraint is not None:
        bounds = getattr(constraint, "dual_bounds", None)
        lazy = bounds is not None and bounds(potential) is not None
    if lazy and hasattr(potential, "coordinates") and potential.coordinates(d) is not None:
        return Lazy(link, configuration, scheme, weight, intercept)
    return MiniBatches(link, configuration, scheme, weight, intercept, size)
