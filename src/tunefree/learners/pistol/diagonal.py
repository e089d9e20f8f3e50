"""Learners with a scale for each coordinate, updated only where a row is not zero.

For every column j and output: the largest value X_j, the accumulator of the variance bound D_j,
the gradient sum g_j, the weight w_j = factor(D_j, X_j) g_j exp(g_j^2 / (2 D_j)), the lazily summed
average and the round up to which it is summed. One record a coordinate: a row costs one cache line
an entry.

Source: Orabona 2014, appendix A; the scale-free, lazily averaged form is ours.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree._array import resized
from tunefree._jit import Kernel, fast_exp, kernel, part
from tunefree.averaging import Uniform, mass
from tunefree.designs import count, dot, entry, index, outputs, width
from tunefree.learners.pistol import rules
from tunefree.losses import SmoothedHinge, bound, slopes
from tunefree.protocols import Loss

# The fields of a record.
LARGEST, ACCUMULATOR, GRADIENT, WEIGHT, SUM, ROUND = 0, 1, 2, 3, 4, 5
# Entries that the loop with division, root and exponential takes at a time.
_LANES = 8
# Smaller entries teach nothing: their squares would vanish, and D with them.
_NOTHING = 1e-150


class DiagonalState(NamedTuple):
    """State of a run.

    Attributes
    ----------
    records : ndarray of shape (d, n_fields, n_outputs)
        The six fields above; a single output pads them to a cache line of 64 bytes.
    shared : ndarray of shape (2,)
        The rounds t and the Lipschitz bound L.
    """

    records: np.ndarray
    shared: np.ndarray


@kernel
def _dot_average(outs, average, design, i, records, stop, out):
    for k in range(width(outs)):
        total = 0.0
        for p in range(count(design, i)):
            j = index(design, i, p)
            total += entry(design, i, p) * (
                records[j, SUM, k]
                + records[j, WEIGHT, k] * mass(average, records[j, ROUND, k], stop)
            )
        out[k] = total


@Kernel
def _scan(learner, outs, design, targets, weights, state, longest, scores):
    """Learn the rows of a design in order.

    `scores`, of shape (2, n, n_outputs), receives what the running average and the iterate predict
    before they see the row, unless it has no rows.
    """
    rule, average, records, shared = learner.rule, learner.average, state.records, state.shared
    n_outputs = width(outs)
    scored = scores.shape[1] > 0
    h, a = np.empty(n_outputs), np.empty(n_outputs)
    y, slope = np.empty(n_outputs), np.empty(n_outputs)
    # Buffers of the middle loop below, filled up to a whole number of vectors.
    size = longest + _LANES
    g, d, x, w = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    limit = bound(learner.loss)
    if limit > shared[1]:
        for j in range(records.shape[0]):
            for k in range(n_outputs):
                largest = records[j, LARGEST, k]
                records[j, ACCUMULATOR, k] += rules.grow(
                    rule, 0.0, 0.0, largest, limit
                ) - rules.grow(rule, 0.0, 0.0, largest, shared[1])
        shared[1] = limit
    lipschitz = shared[1]
    for i in range(targets.shape[0]):
        n = count(design, i)
        t = shared[0]
        total = mass(average, 0.0, t + 1.0)
        for p in range(n):
            j, v = index(design, i, p), entry(design, i, p)
            size = abs(v)
            if size > max(records[j, LARGEST, 0], _NOTHING):
                for k in range(n_outputs):
                    old = records[j, LARGEST, k]
                    records[j, SUM, k] += records[j, WEIGHT, k] * mass(
                        average, records[j, ROUND, k], t
                    )
                    records[j, ROUND, k] = t
                    acc = rules.grow(rule, records[j, ACCUMULATOR, k], old, size, lipschitz)
                    records[j, ACCUMULATOR, k] = acc
                    records[j, LARGEST, k] = size
                    gradient = records[j, GRADIENT, k]
                    bounded = rules.variance(rule, acc, size)
                    records[j, WEIGHT, k] = (
                        rules.factor(rule, bounded, size)
                        * gradient
                        * fast_exp(min(0.5 * gradient * gradient / bounded, rule.cap))
                    )
        dot(outs, design, i, records, WEIGHT, h)
        if scored:
            _dot_average(outs, average, design, i, records, t + 1.0, a)
        shared[0] = t + 1.0
        for k in range(n_outputs):
            y[k] = targets[i, k]
        slopes(learner.loss, h, y, slope)
        for k in range(n_outputs):
            if scored:
                scores[0, i, k] = a[k] / total if total > 0.0 else h[k]
                scores[1, i, k] = h[k]
            z = slope[k]
            if abs(z) <= learner.negligible * lipschitz:
                continue
            z *= -weights[i]
            # Three loops, so that the division, root and exponential in the middle one vectorise.
            for p in range(n):
                j, v = index(design, i, p), entry(design, i, p)
                acc = rules.add(rule, records[j, ACCUMULATOR, k], z, abs(v))
                gradient = records[j, GRADIENT, k] + z * v
                records[j, SUM, k] += records[j, WEIGHT, k] * mass(
                    average, records[j, ROUND, k], t + 1.0
                )
                records[j, ROUND, k] = t + 1.0
                records[j, ACCUMULATOR, k] = acc
                records[j, GRADIENT, k] = gradient
                g[p] = gradient
                x[p] = records[j, LARGEST, k]
                d[p] = acc
            whole = -(-n // _LANES) * _LANES
            for p in range(n, whole):
                g[p], d[p], x[p] = 0.0, 1.0, 1.0
            for p in range(whole):
                bounded = rules.variance(rule, d[p], x[p])
                w[p] = (
                    rules.factor(rule, bounded, x[p])
                    * g[p]
                    * fast_exp(min(0.5 * g[p] * g[p] / bounded, rule.cap))
                )
            for p in range(n):
                j = index(design, i, p)
                records[j, WEIGHT, k] = w[p] if x[p] > 0.0 else 0.0


@part
class Diagonal(NamedTuple):
    """Learn linear predictors with a scale of its own for each column.

    Parameters
    ----------
    rule : PiSTOL
        How gradients become a predictor.
    loss : part
        A loss of `tunefree.losses`.
    average : part
        A scheme of `tunefree.averaging`.
    negligible : float, default=0
        Slopes up to this fraction of their bound count as zero and cost no update.

    Examples
    --------
    >>> from tunefree.designs import Dense
    >>> learner = Diagonal()
    >>> state = learner.init(n_columns=2, n_outputs=1)
    >>> rows, labels = Dense(np.array([[1.0, 0.0], [-1.0, 1e9]])), np.array([[1.0], [-1.0]])
    >>> state = learner.scan(state, rows, labels, np.ones(2))
    >>> learner.last(state).shape
    (2, 1)
    """

    rule: Any = rules.PiSTOL(a=1.0, b=0.1, squares=True)
    loss: Loss = SmoothedHinge()
    average: Any = Uniform()
    negligible: float = 0.0

    def init(self, n_columns, n_outputs):
        """The state before the first row."""
        n_fields = 8 if n_outputs == 1 else 6
        return DiagonalState(np.zeros((n_columns, n_fields, n_outputs)), np.zeros(2))

    def expect(self, state, largest):
        """Take notice of the largest value of each column before the first row."""
        state.shared[1] = self.loss.bound()
        state.records[:, LARGEST] = largest[:, None]
        state.records[:, ACCUMULATOR] = self.rule.grow(0.0, 0.0, largest, state.shared[1])[:, None]
        return state

    def scale(self, state):
        """The effective scale: median of weight over gradient sum, in units of the columns."""
        r = state.records
        moved = r[:, GRADIENT] != 0.0
        if not moved.any():
            return 0.0
        ratio = r[:, WEIGHT][moved] / r[:, GRADIENT][moved] * r[:, LARGEST][moved] ** 2
        return float(np.median(ratio))

    def outputs(self, state, index, sign):
        """Rearrange outputs: the new output i is sign[i] times the old output index[i]."""
        records = state.records[:, :6, index].copy()
        for field in (GRADIENT, WEIGHT, SUM):
            records[:, field] *= sign
        return state._replace(records=records)

    def columns(self, state, d, bias):
        """Give the state d columns before its last one, if that is the constant's, or in all."""
        return state._replace(records=resized(state.records, d, bias))

    def scan(self, state, design, targets, weights, scores=None):
        """Learn a block of rows in order.

        `scores`, of shape (2, n_rows, n_outputs), receives what the running average and the iterate
        predicted before they saw each row.
        """
        n_outputs = state.records.shape[2]
        if scores is None:
            scores = np.empty((2, 0, n_outputs))
        longest = design.longest()
        _scan(self, outputs(n_outputs), design, targets, weights, state, longest, scores)
        return state

    def restart(self, state):
        """Forget the average, not what was learned: the next average is that of a tail.

        The masses start again from the first round.
        """
        state.records[:, SUM] = 0.0
        state.records[:, ROUND] = 0.0
        state.shared[0] = 0.0
        return state

    def last(self, state):
        """The current iterate, of shape (n_columns, n_outputs)."""
        return state.records[:, WEIGHT].copy()

    def mean(self, state):
        """The average iterate, of shape (n_columns, n_outputs)."""
        r, t = state.records, state.shared[0]
        total = self.average.mass(0.0, t)
        if not total > 0.0:  # a scheme may not count the first iterates
            return self.last(state)
        return (r[:, SUM] + r[:, WEIGHT] * self.average.mass(r[:, ROUND], t)) / total
