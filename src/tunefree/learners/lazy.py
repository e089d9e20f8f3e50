r"""The Reflectron in steps of one row, each at the cost of the row's entries.

.. math::
    \nabla\psi(\phi_{t+1}) = \nabla\psi(\theta_t)
        - \lambda_t\, \xi(s_t)\,(u(s_t) - y_t)\, x_t, \qquad
    \theta_{t+1} = \Pi(\phi_{t+1}), \qquad s_t = \langle\theta_t, x_t\rangle

Of parameters theta_j = factor(S) coordinate(w_j), S = sum_j stat(w_j), a step changes those of the
row's entries, and the others by a common factor, whose running sum also gives every parameter its
average when it is next asked for. This needs a potential with ``coordinates``, and no constraint or
one that holds coordinate by coordinate; `tunefree.learners.batches` has the rest.

A row is predicted with what would be read out before it is learned: the discounted mean of those
squared errors is an honest risk to compare configurations by.

Source: Boffi, Tu and Slotine 2021, eq. 9-10; averages as in `tunefree.averaging`.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree import _special
from tunefree._jit import Kernel, kernel, verb
from tunefree.averaging import mass
from tunefree.designs import CSR, Dense, count, entry, index
from tunefree.learners.clock import HALF, MASS, RISK, ROUNDS, WEIGHT, fresh_clock
from tunefree.potentials.coordinates import base, coordinate, factor, stat

# Importing it teaches kernels the special functions of the links.
_TAUGHT = _special.__name__

mean, slope = verb("mean", 1), verb("slope", 1)

# Rounds after which the sums S are added up anew, so that rounding does not gather.
_RENEW = 1024


@kernel
def _flush(part, sums, seen, coords, running):
    """Bring every coordinate's average up to date."""
    for j in range(coords.shape[0]):
        for k in range(coords.shape[1]):
            sums[j, k] += coords[j, k] * (running[k] - seen[j, k])
            seen[j, k] = running[k]


@kernel
def _renew(part, dual, coords, total):
    """Subtract what may be subtracted from the duals, and add up S."""
    for k in range(dual.shape[1]):
        top = base(part, dual[:, k].max())
        total[k] = 0.0
        for j in range(dual.shape[0]):
            dual[j, k] -= top
            coords[j, k] = coordinate(part, dual[j, k])
            total[k] += stat(part, dual[j, k])


@Kernel
def _scan(
    design, targets, importance, steps, part, link, by_slope, scheme, averaged, intercept, limits,
    dual, coords, total, sums, seen, running, offset, offset_sum, clock,
):  # fmt: skip
    """Predict and learn rows in order."""
    n_outputs = dual.shape[1]
    for i in range(targets.shape[0]):
        if not np.isfinite(clock[RISK]):
            return
        if clock[ROUNDS] % _RENEW == 0.0:
            _flush(part, sums, seen, coords, running)
            _renew(part, dual, coords, total)
        if clock[ROUNDS] >= clock[HALF]:
            clock[HALF] *= 2.0
            clock[RISK] *= 0.5
            clock[WEIGHT] *= 0.5
        share = mass(scheme, clock[ROUNDS], clock[ROUNDS] + 1.0)
        clock[MASS] += share
        n = count(design, i)
        for k in range(n_outputs):
            common = factor(part, total[k])
            running[k] += share * common
            margin, gathered = 0.0, 0.0
            for p in range(n):
                j, v = index(design, i, p), entry(design, i, p)
                margin += v * coords[j, k]
                if averaged:
                    gathered += v * (sums[j, k] + coords[j, k] * (running[k] - seen[j, k]))
            margin = common * margin + offset[k]
            offset_sum[k] += share * offset[k]
            read = margin
            if averaged:
                read = (gathered + offset_sum[k]) / clock[MASS]
            error = mean(link, read) - targets[i, k]
            clock[RISK] += importance[i] * error * error
            r = mean(link, margin) - targets[i, k]
            if by_slope:
                r *= slope(link, margin)
            r *= steps[i] * importance[i]
            if not np.isfinite(r):
                clock[RISK] = np.inf
                return
            for p in range(n):
                j = index(design, i, p)
                old = dual[j, k]
                new = min(max(old - r * entry(design, i, p), limits[0]), limits[1])
                if new != old:
                    sums[j, k] += coords[j, k] * (running[k] - seen[j, k])
                    seen[j, k] = running[k]
                    total[k] += stat(part, new) - stat(part, old)
                    coords[j, k] = coordinate(part, new)
                    dual[j, k] = new
            if intercept:
                offset[k] -= r
        clock[WEIGHT] += importance[i]
        clock[ROUNDS] += 1.0


class LazyState(NamedTuple):
    """Tables of shape (d, k): duals, coordinates, sums of averages and the time they are of.

    Attributes
    ----------
    dual, coords, sums, seen : ndarray of shape (d, k)
    total : ndarray of shape (k,)
        S of every output.
    running : ndarray of shape (k,)
        The sum of mass times common factor.
    offset, offset_sum : ndarray of shape (k,)
    clock : ndarray of shape (5,)
    """

    dual: np.ndarray
    coords: np.ndarray
    total: np.ndarray
    sums: np.ndarray
    seen: np.ndarray
    running: np.ndarray
    offset: np.ndarray
    offset_sum: np.ndarray
    clock: np.ndarray


class Lazy(NamedTuple):
    """Steps of one row that cost O(entries of the row).

    Attributes
    ----------
    link : a part of `tunefree.links`
    potential : a part of `tunefree.potentials` that has coordinates
    scheme : a part of `tunefree.averaging` or None
        None reads the last iterate.
    weight : None or 'slope'
    intercept : bool
    constraint : None, or one with `dual_bounds`
    """

    link: object
    potential: object
    scheme: object
    weight: object = None
    intercept: bool = True
    constraint: object = None

    def init(self, d, k=1, theta=None, offset=None):
        """The state before the first row; theta (k, d) and offset (k,) are where to start."""
        dual = np.zeros((d, k))
        if theta is not None:
            dual[:] = np.array([self.potential.mirror(t) for t in theta]).T
        low, high = self._limits()
        dual = np.clip(dual, low, high)
        coords, sums, seen = np.zeros((3, d, k))
        total, running, offset_sum = np.zeros((3, k))
        _renew(self.potential.coordinates(d), dual, coords, total)
        offset = np.zeros(k) if offset is None else np.array(offset, dtype=float)
        return LazyState(
            dual, coords, total, sums, seen, running, offset, offset_sum, fresh_clock()
        )

    def _limits(self):
        if self.constraint is None:
            return -np.inf, np.inf
        return tuple(float(bound) for bound in self.constraint.dual_bounds(self.potential))

    def scan(self, state, X, targets, importance, steps):
        """Learn rows in order, one step each; the state is consumed."""
        d = len(state.dual)
        design = CSR.from_scipy(X) if sparse.issparse(X) else Dense(X)
        scheme, averaged = (_ANY, False) if self.scheme is None else (self.scheme, True)
        _scan(
            design, targets, importance, steps, self.potential.coordinates(d), self.link,
            self.weight is not None, scheme, averaged, self.intercept, self._limits(), *state,
        )  # fmt: skip
        return state

    def outputs(self, state, index, sign, _):
        """The state with outputs rearranged, as in `Walks.outputs`."""
        kept = {name: getattr(state, name)[..., index] for name in state._fields[:-1]}
        for name in ("dual", "coords", "sums", "offset", "offset_sum"):
            kept[name] = kept[name] * sign
        return LazyState(*map(np.ascontiguousarray, kept.values()), state.clock)

    def read(self, state):
        """Parameters (k, d) and intercepts (k,)."""
        part = self.potential.coordinates(len(state.dual))
        if self.scheme is None or state.clock[MASS] == 0.0:
            common = np.array([factor(part, s) for s in state.total])
            return (state.coords * common).T, state.offset.copy()
        sums = state.sums + state.coords * (state.running - state.seen)
        return (sums / state.clock[MASS]).T, state.offset_sum / state.clock[MASS]


class _Any(NamedTuple):
    """Masses where nothing is averaged."""

    def mass(self, start, stop):
        """One an iterate."""
        return 1.0


_ANY = _Any()
