r"""The Reflectron in steps of one row, at the cost of its entries, or of a few rows, at O(d).

.. math::
    \nabla\psi(\phi_{t+1}) = \nabla\psi(\theta_t)
        - \lambda_t\, (u(s_t) - y_t)\, x_t, \qquad
    \theta_{t+1} = \Pi(\phi_{t+1}), \qquad s_t = \langle\theta_t, x_t\rangle

Of parameters theta_j = factor(S, R) c_j, S = sum_j stat(w_j)
(`tunefree.reflectron.potentials.coordinates`), a step changes those of the row's entries, and the
others by a common factor. The running sum of this factor also gives the average of a parameter when
it is next read. This needs a potential with ``coordinates``, and no constraint or one that acts on
each coordinate (`Lazy`). `MiniBatches` takes all other configurations, and steps of several rows:
rows wait until there are enough for a step, so that chunks make no difference. Outputs share S,
unless the configuration is per output.

The factor of a p-norm falls as the duals grow, like N^(2 - q) of their norm N. Next to a running
sum that began with the first tiny duals, all later terms would be lost in rounding; and S is a
difference of terms added and subtracted. So S is summed with its rounding errors. Where it has
fallen by `_FALL`, or the running sum exceeds its next terms by `_EXCESS`, all averages are
updated, and S and the sum restart in units of a new reference R. This costs O(d), each time that N
has changed by a factor.

Each row is predicted with the present read-out before it is learned: the discounted mean of these
squared errors is a progressive risk, by which configurations are compared.

Source: Boffi, Tu and Slotine 2021, eq. 9-10; averages as in `tunefree.parts.averaging`.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import kernel, verb
from tunefree.parts.averaging import Uniform, mass
from tunefree.reflectron.constraints.rules import acts_on_entries
from tunefree.reflectron.potentials.coordinates import coordinate, factor, reference, stat
from tunefree.rows.designs import count, design_of, entry, index
from tunefree.rows.matrices import stacked

mean = verb("mean")

# The clock: rounds, mass of the average, discounted risk, its weight, the round to halve them at.
ROUNDS, MASS, RISK, WEIGHT, HALF = 0, 1, 2, 3, 4

# Where sums restart: S this much below its peak, or above a limit against overflow; the running
# sum this much above the rounds' mass times the factor.
_FALL, _MOST, _EXCESS = 2.0**-40, 1e200, 2.0**10
# The columns of `scale`: S, its rounding errors, its peak, and the reference R.
TOTAL, REST, PEAK, REFERENCE = 0, 1, 2, 3


@kernel
def _discount(clock, rows):
    """Halve the sums of the risk if the rows have doubled."""
    if rows >= clock[HALF]:
        clock[HALF] *= 2.0
        clock[RISK] *= 0.5
        clock[WEIGHT] *= 0.5


@kernel
def _add(scale, g, x):
    """S += x, and its rounding error is added to the rest (Knuth 1969)."""
    old = scale[g, TOTAL]
    new = old + x
    part = new - old
    scale[g, TOTAL] = new
    scale[g, REST] += (old - (new - part)) + (x - part)


@kernel
def _renew(part, g, dual, coords, scale, sums, seen, running):
    """Update the averages of a group of outputs, and restart its sums."""
    first, last = (g, g + 1) if running.shape[0] > 1 else (0, dual.shape[1])
    low, high = np.inf, -np.inf
    for j in range(dual.shape[0]):
        for k in range(first, last):
            low, high = min(low, dual[j, k]), max(high, dual[j, k])
            if seen[j, k] != running[g]:
                sums[j, k] += coords[j, k] * (running[g] - seen[j, k])
            seen[j, k] = 0.0
    ref = reference(part, low, high)
    scale[g, TOTAL], scale[g, REST], scale[g, REFERENCE] = 0.0, 0.0, ref
    for j in range(dual.shape[0]):
        for k in range(first, last):
            coords[j, k] = coordinate(part, dual[j, k], ref)
            _add(scale, g, stat(part, dual[j, k], coords[j, k], ref))
    running[g], scale[g, PEAK] = 0.0, scale[g, TOTAL]


@kernel
def _scan(
    design, targets, importance, steps, part, link, scheme, averaged, intercept, limits,
    dual, coords, scale, sums, seen, running, offset, offset_sum, clock,
):  # fmt: skip
    """Predict and learn rows in order."""
    n_outputs, n_groups = dual.shape[1], running.shape[0]
    commons, r = np.empty(n_groups), np.empty(n_outputs)
    for i in range(targets.shape[0]):
        if not np.isfinite(clock[RISK]):
            return
        _discount(clock, clock[ROUNDS])
        share = mass(scheme, clock[ROUNDS], clock[ROUNDS] + 1.0)
        clock[MASS] += share
        for g in range(n_groups):
            commons[g] = factor(part, scale[g, TOTAL] + scale[g, REST], scale[g, REFERENCE])
            running[g] += share * commons[g]
        n = count(design, i)
        for k in range(n_outputs):
            g = k if n_groups > 1 else 0
            margin, summed = 0.0, 0.0
            for p in range(n):
                j, v = index(design, i, p), entry(design, i, p)
                margin += v * coords[j, k]
                if averaged:
                    summed += v * (sums[j, k] + coords[j, k] * (running[g] - seen[j, k]))
            margin = commons[g] * margin + offset[k]
            offset_sum[k] += share * offset[k]
            read = margin
            if averaged:
                read = (summed + offset_sum[k]) / clock[MASS]
            error = mean(link, read) - targets[i, k]
            clock[RISK] += importance[i] * error * error
            r[k] = (mean(link, margin) - targets[i, k]) * (steps[i] * importance[i])
            if not np.isfinite(r[k]):
                clock[RISK] = np.inf
                return
        for k in range(n_outputs):
            g = k if n_groups > 1 else 0
            ref = scale[g, REFERENCE]
            for p in range(n):
                j = index(design, i, p)
                old = dual[j, k]
                new = min(max(old - r[k] * entry(design, i, p), limits[0]), limits[1])
                if new != old:
                    c = coords[j, k]
                    sums[j, k] += c * (running[g] - seen[j, k])
                    seen[j, k] = running[g]
                    _add(scale, g, -stat(part, old, c, ref))
                    c = coordinate(part, new, ref)
                    _add(scale, g, stat(part, new, c, ref))
                    coords[j, k] = c
                    dual[j, k] = new
            offset[k] -= intercept * r[k]
        for g in range(n_groups):
            total = scale[g, TOTAL] + scale[g, REST]
            scale[g, PEAK] = max(scale[g, PEAK], total)
            common = factor(part, total, scale[g, REFERENCE])
            exceeds = averaged and running[g] > _EXCESS * clock[MASS] * common
            if total < _FALL * scale[g, PEAK] or not total <= _MOST or exceeds:
                _renew(part, g, dual, coords, scale, sums, seen, running)
        clock[WEIGHT] += importance[i]
        clock[ROUNDS] += 1.0


def fresh_clock():
    """The clock before the first row; its sums are halved when rounds double, from 64 on."""
    return np.array([0.0, 0.0, 0.0, 0.0, 64.0])


def discounted_risk(clock):
    """Discounted mean squared error of the predictions made before rows were learned."""
    value = clock[RISK] / max(clock[WEIGHT], 1e-300)
    return float(value) if np.isfinite(value) else np.inf


class LazyState(NamedTuple):
    """State of a run; a group is one output if the configuration is per output, else all."""

    dual: np.ndarray  # (d, k)
    coords: np.ndarray  # (d, k)
    scale: np.ndarray  # (groups, 4): S, its rounding errors, its peak, and R
    sums: np.ndarray  # (d, k): of coordinates, for averages ...
    seen: np.ndarray  # (d, k): ... up to this value of `running`
    running: np.ndarray  # (groups,): sum of mass times common factor
    offset: np.ndarray
    offset_sum: np.ndarray
    clock: np.ndarray


class Lazy(NamedTuple):
    """Steps of one row that cost O(entries of the row); the scheme None reads the last iterate.

    The potential has coordinates; the constraint is None or has `dual_bounds`.
    """

    link: Any
    configuration: Any
    scheme: Any
    intercept: float = 1.0  # how much longer its steps are; 0 has none

    def init(self, d, k=1, theta=None, offset=None):
        """The state before the first row; theta (k, d) and offset (k,) are where to start."""
        dual = np.zeros((d, k))
        if theta is not None:
            dual[:] = self.configuration.mirror(theta).T
        dual = np.clip(dual, *self._limits())
        coords, sums, seen = np.zeros((3, d, k))
        n_groups = k if self.configuration.per_output else 1
        scale, running = np.zeros((n_groups, 4)), np.zeros(n_groups)
        for g in range(n_groups):
            _renew(self._part(d, k), g, dual, coords, scale, sums, seen, running)
        offset = np.zeros(k) if offset is None else np.array(offset, dtype=float)
        return LazyState(
            dual, coords, scale, sums, seen, running, offset, np.zeros(k), fresh_clock()
        )

    def _part(self, d, k):
        n_outputs = 1 if self.configuration.per_output else k  # of a group
        return self.configuration.potential.coordinates(d * n_outputs)

    def _limits(self) -> tuple[Any, Any]:
        constraint = self.configuration.constraint
        if constraint is None:
            return -np.inf, np.inf
        low, high = constraint.dual_bounds(self.configuration.potential)
        return float(low), float(high)

    def scan(self, state, X, targets, importance, steps):
        """Learn rows in order, one step each; the state is consumed."""
        design = design_of(X)
        scheme, averaged = (Uniform(), False) if self.scheme is None else (self.scheme, True)
        _scan(
            design, targets, importance, steps, self._part(*state.dual.shape), self.link,
            scheme, averaged, self.intercept, self._limits(), *state,
        )  # fmt: skip
        return state

    def outputs(self, state, index, sign, _):
        """The state with outputs rearranged, as in `Halving.outputs`."""
        by_output = [n for n in state._fields[:-1] if n not in ("scale", "running")]
        new = {name: np.ascontiguousarray(getattr(state, name)[..., index]) for name in by_output}
        for name in ("dual", "coords", "sums", "offset", "offset_sum"):
            new[name] *= sign
        if self.configuration.per_output:
            new.update(scale=state.scale[index], running=state.running[index])
        return state._replace(**new)

    def read(self, state):
        """Parameters (k, d) and intercepts (k,)."""
        if self.scheme is None or state.clock[MASS] == 0.0:
            part = self._part(*state.dual.shape)
            totals = state.scale[:, TOTAL] + state.scale[:, REST]
            pairs = zip(totals, state.scale[:, REFERENCE], strict=True)
            common = np.array([factor(part, s, ref) for s, ref in pairs])
            return (state.coords * common).T, state.offset.copy()
        sums = state.sums + state.coords * (state.running - state.seen)
        return (sums / state.clock[MASS]).T, state.offset_sum / state.clock[MASS]


class MiniBatchState(NamedTuple):
    """State of a run; arrays have the shapes (k, d) and (k,)."""

    dual: np.ndarray
    theta: np.ndarray
    sums: np.ndarray  # of the iterates times their masses
    offset: np.ndarray
    offset_sum: np.ndarray
    waiting: tuple  # chunks (rows, targets, importance, steps) since the last step
    clock: np.ndarray


class MiniBatches(NamedTuple):
    """Steps of `size` rows, in any geometry; the scheme None reads the last iterate."""

    link: Any
    configuration: Any
    scheme: Any
    weight: Any = None  # xi(s): a function of indices by which residuals are multiplied
    intercept: float = 1.0  # how much longer its steps are; 0 has none
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
        """Learn rows in order; the last ones may wait for a whole step."""
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
        """Predict the waiting rows, and take a step."""
        clock = state.clock.copy()
        rows, targets, importance, steps = map(stacked, zip(*state.waiting, strict=True))
        state = state._replace(waiting=(), clock=clock)
        if not np.isfinite(clock[RISK]):
            return state
        design = design_of(rows)
        _discount(clock, clock[ROUNDS] * self.size)
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
            s = design.apply(state.theta.T) + state.offset
            r = read = self.link.mean(s) - targets
            if self.weight is not None:
                r = self.weight(s) * r
            if share:
                theta, offset = self.read(state)
                read = self.link.mean(design.apply(theta.T) + offset) - targets
            r = (steps * importance)[:, None] * r / len(targets)
            dual = state.dual - design.adjoint(r).T
            theta, dual = (a[0] for a in self.configuration.place(dual[None]))
            squares = np.square(read).sum(axis=1)
        clock[RISK] += importance @ squares
        clock[WEIGHT] += importance.sum()
        if not (np.isfinite(theta).all() and np.isfinite(r).all()):
            clock[RISK] = np.inf
            return state
        offset = state.offset - self.intercept * r.sum(axis=0)
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
        """Parameters (k, d) and intercepts (k,); waiting rows are learned first."""
        if state.waiting:
            state = self._step(state)
        if state.clock[MASS] == 0.0:
            return state.theta, state.offset
        return state.sums / state.clock[MASS], state.offset_sum / state.clock[MASS]


def stochastic(link, configuration, scheme, weight, intercept, d, size=1):
    """The cheapest learner of a configuration."""
    potential, constraint = configuration.potential, configuration.constraint
    lazy = size == 1 and weight is None and isinstance(link, tuple)
    lazy &= acts_on_entries(constraint, potential)
    if lazy and hasattr(potential, "coordinates") and potential.coordinates(d) is not None:
        return Lazy(link, configuration, scheme, intercept)
    return MiniBatches(link, configuration, scheme, weight, intercept, size)
