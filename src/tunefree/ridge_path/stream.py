r"""Averaged least-squares SGD on a stream: scales of columns and averages are updated by each row.

Coordinate j moves by r x_j / (2 N m_j^2), where r is the residual, m_j the largest entry of the
column so far in size and N the largest sum of (x_j / m_j)^2; when m_j grows, w_j shrinks by
(m_old / m_new)^2. With M the mass of the iterates so far, the average of w_0 .. w_t is w_t - U / M,
where U gathers M times every change of w: K averages cost O(K nnz) a row and nothing is stored.

Source: Neu and Rosasco 2018; Ross, Mineiro and Langford 2013 (scales).
"""

from typing import NamedTuple

import numpy as np

from tunefree.core.jit import kernel, part
from tunefree.rows.designs import count, design_of, entry, index
from tunefree.rows.matrices import as_dense, resized
from tunefree.rows.outliers import OutlierFilter

_BY_COLUMN = ("weights", "sums", "largest")
ROUNDS, LARGEST_NORM, RESTART, WEIGHT = 0, 1, 2, 3


class StreamState(NamedTuple):
    """State of a stream; the last column is the constant."""

    origin: np.ndarray  # (d,) or (0,): subtracted from dense rows, whose columns may be far from 0
    weights: np.ndarray  # (d + 1, n_outputs): the iterate, on the unscaled columns
    sums: np.ndarray  # (d + 1, n_averages, n_outputs): U of the tail, then of each rate
    masses: np.ndarray  # (n_averages,): M
    largest: np.ndarray  # (d + 1,): largest entry of each column
    clock: np.ndarray  # rounds, N, round of the next restart of the tail, weight of the risks
    # (n_averages + 1,): discounted squared errors of the averages and of the iterate on rows before
    # they are learned
    risks: np.ndarray
    guards: tuple  # outlier filters of the rows and of the targets

    def columns(self, d):
        """The state with d columns before the constant (sparse streams only)."""
        rows, targets = self.guards
        tables = {name: resized(getattr(self, name), d, True) for name in _BY_COLUMN}
        return self._replace(guards=(rows.columns(d), targets), **tables)

    def risk(self, share=1.0):
        """The lowest progressive mean squared error; later rows count more."""
        return float(np.min(self.risks) / max(self.clock[WEIGHT], 1e-300))

    def end_pass(self):
        """The state for another pass: unchanged, as for one stream."""
        return self


@kernel
def _scan(design, rows, targets, importance, log, weights, sums, masses, largest, clock, risks):
    """Predict and learn rows in order."""
    n_outputs, n_averages = weights.shape[1], masses.shape[0]
    last = weights.shape[0] - 1
    gap, predicted = np.empty(n_averages), np.empty(n_outputs)
    for t in range(rows.shape[0]):
        i = rows[t]
        n = count(design, i)
        norm = 1.0 if largest[last] > 0.0 else 0.0
        for p in range(n):
            j, v = index(design, i, p), abs(entry(design, i, p))
            if v > largest[j]:
                ratio = largest[j] / v
                largest[j] = v
                for k in range(n_outputs):
                    if weights[j, k] != 0.0 and ratio > 0.0:
                        change = weights[j, k] * (ratio * ratio - 1.0)
                        weights[j, k] += change
                        for c in range(n_averages):
                            sums[j, c, k] += masses[c] * change
            if v > 0.0:
                norm += (v / largest[j]) ** 2
        clock[LARGEST_NORM] = max(clock[LARGEST_NORM], norm)
        # The tail restarts when the rounds have doubled: soon it holds half of them or more.
        if clock[ROUNDS] >= clock[RESTART]:
            clock[RESTART] = max(1.0, 2.0 * clock[ROUNDS])
            masses[0] = 0.0
            sums[:, 0] = 0.0
            risks *= 0.5
            clock[WEIGHT] *= 0.5
        masses[0] += 1.0
        for c in range(1, n_averages):
            masses[c] += np.exp(clock[ROUNDS] * log[c - 1])
        clock[ROUNDS] += 1.0
        clock[WEIGHT] += importance[t]
        for k in range(n_outputs):
            predicted[k] = weights[last, k]
            gap[:] = sums[last, :, k]
            for p in range(n):
                j, v = index(design, i, p), entry(design, i, p)
                predicted[k] += v * weights[j, k]
                for c in range(n_averages):
                    gap[c] += v * sums[j, c, k]
            error = targets[t, k] - predicted[k]
            risks[n_averages] += importance[t] * error * error
            for c in range(n_averages):
                risks[c] += importance[t] * (error + gap[c] / masses[c]) ** 2
            if clock[LARGEST_NORM] == 0.0:
                continue
            rate = importance[t] / (2.0 * clock[LARGEST_NORM])
            if rate * norm > 1.0:  # a step does not overshoot a row of large weight
                rate = 1.0 / norm
            a = rate * error
            for p in range(n):
                j, v = index(design, i, p), entry(design, i, p)
                if v != 0.0:
                    change = a * (v / largest[j]) / largest[j]
                    weights[j, k] += change
                    for c in range(n_averages):
                        sums[j, c, k] += masses[c] * change
            if largest[last] > 0.0:
                weights[last, k] += a
                for c in range(n_averages):
                    sums[last, c, k] += masses[c] * a


@part
class StreamSGD(NamedTuple):
    """Least-squares SGD on a stream; its averages predict each row before it is learned.

    `rates` are those of the geometric averages; 0 is the uniform one. The tail and the last iterate
    are always included.
    """

    rates: tuple = (0.0, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2)

    def init(self, n_columns, start, intercept=True, weights=None, origin=None):
        """The state before the first row.

        `start` is the prediction of w_0 at the origin (for dense rows the first row, for example; 0
        by default), `weights` are the other weights of w_0; with `intercept` a constant is learned.
        """
        n_averages = len(self.rates) + 1
        w = np.zeros((n_columns + 1, len(start)))
        w[:-1], w[-1] = 0.0 if weights is None else weights, start
        largest = np.zeros(n_columns + 1)
        largest[-1] = intercept
        sums, masses = np.zeros((n_columns + 1, n_averages, len(start))), np.zeros(n_averages)
        origin = np.empty(0) if origin is None else np.array(origin, dtype=np.float64)
        centre = origin if len(origin) else np.zeros(n_columns)
        guards = OutlierFilter.of(centre), OutlierFilter.of(start)
        risks = np.zeros(n_averages + 1)
        return StreamState(origin, w, sums, masses, largest, np.zeros(4), risks, guards)

    def turn(self, state):
        """Nothing: where a chunk ends makes no difference."""
        return state, False

    def scan(self, state, block):
        """Learn a block's rows in order."""
        rows, targets = np.arange(len(block.rows)), block.targets
        is_all = len(rows) == block.X.shape[0] and np.array_equal(block.rows, rows)
        X = block.X if is_all else block.X[block.rows]
        if len(state.origin):
            X = as_dense(X)
        X, targets = state.guards[0].screen(X), state.guards[1].screen(targets)
        if len(state.origin):
            X = X - state.origin
        design = design_of(X)
        log = -np.log1p(np.array(self.rates))
        _scan(design, rows, targets, block.weights, log, *state[1:-1])
        return state

    def risks(self, state):
        """Progressive mean squared errors of the tail, the rates and the last iterate."""
        return state.risks / max(state.clock[WEIGHT], 1e-300)

    def read(self, state, which=None):
        """Weights (d + 1, n_outputs) of an average, by default of that with the least risk."""
        which = int(np.argmin(state.risks)) if which is None else which
        weights = state.weights.copy()
        if which < len(state.masses) and state.masses[which] > 0.0:
            weights -= state.sums[:, which] / state.masses[which]
        if len(state.origin):
            weights[-1] -= state.origin @ weights[:-1]
        return weights
