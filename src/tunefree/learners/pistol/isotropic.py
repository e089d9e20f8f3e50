r"""Learners with one scale for all directions: a vector g, a few scalars, two vectors of state.

The iterate of round t is f_t = c_t g_(t-1). Since g only moves along the rows, the average of all
iterates needs no O(d) work a round: with C_t = sum_(s<=t) m_s c_s (m_s the mass of round s),

    sum_t m_t c_t g_(t-1) = C_T g_T - u_T,      u_T = sum_t C_t z_t x_t.

Source: Orabona 2014, Algorithm 3; the two-vector average is ours.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree._array import resized
from tunefree._jit import Kernel, part, verb
from tunefree.averaging import Uniform, mass
from tunefree.designs import axpy2, count, dot, entry, outputs
from tunefree.learners.pistol import rules
from tunefree.learners.pistol.rules import GROWTH, HEAVIEST, MASS, N_SCALARS, SQUARED_NORM, SUM
from tunefree.losses import SmoothedHinge, bound, slopes
from tunefree.protocols import Loss

G, U = 0, 1  # the two vectors

square, inner, move = verb("square", 1), verb("inner", 3), verb("move", 3)


class IsotropicState(NamedTuple):
    """State of a run.

    Attributes
    ----------
    vectors : ndarray of shape (d, 2, n_outputs)
        g and u.
    scalars : ndarray of shape (n_outputs, N_SCALARS)
    shared : ndarray of shape (3,)
        The largest norm X, the rounds t, the Lipschitz bound L.
    """

    vectors: np.ndarray
    scalars: np.ndarray
    shared: np.ndarray


@part
class Coordinates(NamedTuple):
    """The space of rows with coordinates, in which g and u are kept as vectors."""

    outputs: Any
    design: Any
    vectors: np.ndarray

    def square(self, i):
        """The squared norm of row i."""
        total = 0.0
        for p in range(count(self.design, i)):
            v = entry(self.design, i, p)
            total += v * v
        return total

    def inner(self, i, field, out):
        """The inner products of row i with g or u of every output."""
        dot(self.outputs, self.design, i, self.vectors, field, out)

    def move(self, i, step, lag):
        """Add multiples of row i to g and u."""
        axpy2(self.outputs, self.design, i, self.vectors, step, lag)


def recursion(learner, space, targets, weights, scalars, shared, scores):
    """Learn rows in order: the one text of PiSTOL, in any space with `square`, `inner` and `move`.

    `scores`, of shape (2, n, n_outputs), receives what the running average and the iterate predict
    before they see the row, unless it has no rows.
    """
    rule = learner.rule
    n_rows, n_outputs = targets.shape
    scored = scores.shape[1] > 0
    h, a = np.empty(n_outputs), np.empty(n_outputs)
    predicted, y, gradient = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs)
    step, lag = np.empty(n_outputs), np.empty(n_outputs)
    limit = bound(learner.loss)
    if limit > shared[2]:
        for k in range(n_outputs):
            if shared[0] > 0.0:
                rules.loosen(rule, scalars, k, shared[0], shared[2], limit)
        shared[2] = limit
    for i in range(n_rows):
        squared = square(space, i)
        norm = np.sqrt(squared)
        t = shared[1]
        shared[1] = t + 1.0
        if norm > shared[0]:
            for k in range(n_outputs):
                rules.enter(rule, scalars, k, shared[0], norm, shared[2])
            shared[0] = norm
        share = mass(learner.average, t, t + 1.0)
        if shared[0] == 0.0:
            for k in range(n_outputs):
                scalars[k, MASS] += share * rules.importance(rule, scalars, k)
                if scored:
                    scores[0, i, k] = 0.0
                    scores[1, i, k] = 0.0
            continue
        inner(space, i, G, h)
        if scored:
            inner(space, i, U, a)
        for k in range(n_outputs):
            c = rules.coefficient(rule, scalars, k, shared[0])
            importance = share * rules.importance(rule, scalars, k)
            scalars[k, SUM] += importance * c
            scalars[k, MASS] += importance
            predicted[k], y[k] = c * h[k], targets[i, k]
            if scored:
                scores[1, i, k] = predicted[k]
                if scalars[k, MASS] > 0.0:
                    scores[0, i, k] = (scalars[k, SUM] * h[k] - a[k]) / scalars[k, MASS]
                else:  # a scheme may not count the first iterates
                    scores[0, i, k] = predicted[k]
        slopes(learner.loss, predicted, y, gradient)
        moved = False
        for k in range(n_outputs):
            z = gradient[k]
            if abs(z) <= learner.negligible * shared[2] or norm == 0.0 or weights[i] == 0.0:
                z = 0.0
            else:
                z = rules.increment(rule, scalars, k, weights[i] * z, norm, shared[0])
                if weights[i] > HEAVIEST:
                    scalars[k, GROWTH] = np.inf
                grown = scalars[k, SQUARED_NORM] + z * (2.0 * h[k] + z * squared)
                scalars[k, SQUARED_NORM] = max(0.0, grown)
                rules.settle(rule, scalars, k)
                moved = True
            step[k] = z
            lag[k] = scalars[k, SUM] * z
        if moved:
            move(space, i, step, lag)


_scan = Kernel(recursion)


def coefficients(learner, scalars, shared):
    """The c of f = c g for every output; 0 before the first row that is not zero."""
    if shared[0] == 0.0:
        return np.zeros(len(scalars))
    return np.array([learner.rule.coefficient(scalars, k, shared[0]) for k in range(len(scalars))])


@part
class Isotropic(NamedTuple):
    """Learn linear predictors with one scale for all columns.

    Parameters
    ----------
    rule : PiSTOL or DoWG
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
    >>> learner = Isotropic()
    >>> state = learner.init(n_columns=1, n_outputs=1)
    >>> rows, labels = Dense(np.array([[1.0], [-1.0]])), np.array([[1.0], [-1.0]])
    >>> state = learner.scan(state, rows, labels, np.ones(2))
    >>> bool(learner.last(state)[0, 0] > 0)
    True
    """

    rule: Any = rules.PiSTOL()
    loss: Loss = SmoothedHinge()
    average: Any = Uniform()
    negligible: float = 0.0

    def init(self, n_columns, n_outputs):
        """The state before the first row."""
        return IsotropicState(
            np.zeros((n_columns, 2, n_outputs)), np.zeros((n_outputs, N_SCALARS)), np.zeros(3)
        )

    def expect(self, state, largest):
        """The norms of rows are noticed as they come."""
        return state

    def scale(self, state):
        """The effective scale: mean of iterate over gradient sum, in units of the rows' norm."""
        c = coefficients(self, state.scalars, state.shared)
        return float(np.mean(c) * state.shared[0] ** 2)

    def outputs(self, state, index, sign):
        """Rearrange outputs: the new output i is sign[i] times the old output index[i]."""
        return state._replace(
            vectors=state.vectors[:, :, index] * sign, scalars=state.scalars[index].copy()
        )

    def columns(self, state, d, bias):
        """Give the state d columns before its last one, if that is the constant's, or in all."""
        return state._replace(vectors=resized(state.vectors, d, bias))

    def scan(self, state, design, targets, weights, scores=None):
        """Learn a block of rows in order.

        `scores`, of shape (2, n_rows, n_outputs), receives what the running average and the iterate
        predicted before they saw each row.
        """
        vectors, scalars, shared = state
        n_outputs = len(scalars)
        if scores is None:
            scores = np.empty((2, 0, n_outputs))
        space = Coordinates(outputs(n_outputs), design, vectors)
        _scan(self, space, targets, weights, scalars, shared, scores)
        return state

    def restart(self, state):
        """Forget the average, not what was learned: the next average is that of a tail."""
        state.vectors[:, U] = state.vectors[:, G] * state.scalars[:, SUM]
        state.scalars[:, MASS] = 0.0
        return state

    def last(self, state):
        """The current iterate, of shape (n_columns, n_outputs)."""
        return coefficients(self, state.scalars, state.shared) * state.vectors[:, G]

    def mean(self, state):
        """The average iterate, of shape (n_columns, n_outputs)."""
        total = state.scalars[:, MASS]
        if not (total > 0.0).all():  # a scheme may not count the first iterates
            return self.last(state)
        return (state.scalars[:, SUM] * state.vectors[:, G] - state.vectors[:, U]) / total
