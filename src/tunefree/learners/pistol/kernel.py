r"""The isotropic learners in a feature space known by inner products only.

A vector of the feature space is a sum over rows: g = sum_s z_s k(x_s, .), and the average of the
iterates needs a second coefficient u_s = sum C dz_s per row (see `learners.isotropic`):

    g(x) = sum_s z_s k(x_s, x),    average(x) = sum_s (C z_s - u_s) k(x_s, x) / mass.

Rows are learned in blocks: the values h = g(x) of a block's rows before the block are matrix
products (`learners.sweep`), and inside the block the recursion is exact,

    h_i = h0_i + sum_(j<i) dz_j k(x_j, x_i),      |g|^2 += dz_i (2 h_i + dz_i k(x_i, x_i)).

Source: Orabona 2014, Algorithm 3; the blocked form is ours.
"""

from typing import NamedTuple

import numpy as np

from tunefree._jit import REASSOCIATE, Kernel, kernel
from tunefree.averaging import mass
from tunefree.learners.pistol import rules
from tunefree.learners.pistol.rules import GROWTH, HEAVIEST, MASS, N_SCALARS, SQUARED_NORM, SUM
from tunefree.losses import bound, slopes


class KernelState(NamedTuple):
    """State of a run, but for the rows themselves.

    Attributes
    ----------
    z, u : ndarray of shape (capacity, n_outputs)
        Coefficients of the rows, by slot.
    scalars : ndarray of shape (n_outputs, N_SCALARS)
    shared : ndarray of shape (3,)
        The largest norm X, the rounds t, the Lipschitz bound L.
    """

    z: np.ndarray
    u: np.ndarray
    scalars: np.ndarray
    shared: np.ndarray


def _recursion(
    rule,
    loss,
    average,
    gram,
    known,
    lagged,
    squares,
    targets,
    weights,
    scalars,
    shared,
    negligible,
    scores,
    current,
    step,
    lag,
):
    """Learn a block's rows in order.

    `known` and `lagged` hold g(x) and u(x) of the block's rows before the block, `gram` the values
    among them; `step` and `lag`, of shape (n_outputs, n_rows), receive the rows' new coefficients;
    `scores` and `current` what the running average and the iterate predict before they see the
    row, unless they have no rows.
    """
    n_rows, n_outputs = targets.shape
    scored = scores.shape[0] > 0
    h, predicted, y = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs)
    gradient = np.empty(n_outputs)
    if bound(loss) > shared[2]:
        for k in range(n_outputs):
            if shared[0] > 0.0:
                rules.loosen(rule, scalars, k, shared[0], shared[2], bound(loss))
        shared[2] = bound(loss)
    for i in range(n_rows):
        square = squares[i]
        norm = np.sqrt(square)
        t = shared[1]
        shared[1] = t + 1.0
        if norm > shared[0]:
            for k in range(n_outputs):
                rules.enter(rule, scalars, k, shared[0], norm, shared[2])
            shared[0] = norm
        share = mass(average, t, t + 1.0)
        if shared[0] == 0.0:
            for k in range(n_outputs):
                scalars[k, MASS] += share * rules.importance(rule, scalars, k)
                step[k, i] = 0.0
                lag[k, i] = 0.0
                if scored:
                    scores[i, k] = 0.0
                    current[i, k] = 0.0
            continue
        for k in range(n_outputs):
            total = 0.0
            for j in range(i):
                total += gram[i, j] * step[k, j]
            h[k] = known[i, k] + total
            c = rules.coefficient(rule, scalars, k, shared[0])
            importance = share * rules.importance(rule, scalars, k)
            scalars[k, SUM] += importance * c
            scalars[k, MASS] += importance
            predicted[k], y[k] = c * h[k], targets[i, k]
            if scored:
                total = 0.0
                for j in range(i):
                    total += gram[i, j] * lag[k, j]
                a = lagged[i, k] + total
                scores[i, k] = (scalars[k, SUM] * h[k] - a) / scalars[k, MASS]
                current[i, k] = predicted[k]
        slopes(loss, predicted, y, gradient)
        for k in range(n_outputs):
            z = gradient[k]
            if abs(z) <= negligible * shared[2] or norm == 0.0 or weights[i] == 0.0:
                z = 0.0
            else:
                z = rules.increment(rule, scalars, k, weights[i] * z, norm, shared[0])
                if weights[i] > HEAVIEST:
                    scalars[k, GROWTH] = np.inf
                squared = scalars[k, SQUARED_NORM] + z * (2.0 * h[k] + z * square)
                scalars[k, SQUARED_NORM] = max(0.0, squared)
                rules.settle(rule, scalars, k)
            step[k, i] = z
            lag[k, i] = scalars[k, SUM] * z


_recur = Kernel(_recursion, fastmath=REASSOCIATE)


def start(capacity, n_outputs):
    """The state before the first row."""
    return KernelState(
        np.zeros((capacity, n_outputs)),
        np.zeros((capacity, n_outputs)),
        np.zeros((n_outputs, N_SCALARS)),
        np.zeros(3),
    )


def learn(learner, state, block, gram, known, lagged, scored=False):
    """Learn a block in order.

    Parameters
    ----------
    learner : Isotropic
        Rule, loss and average.
    state : KernelState
        Its scalars are advanced; its coefficients are left to the caller.
    block : tuple
        Values of the rows with themselves, targets, weights.
    gram : ndarray of shape (n, n)
        Values among the block's rows.
    known, lagged : ndarray of shape (n, n_outputs)
        Sums over the rows before the block of z and u times the kernel.
    scored : bool, default=False

    Returns
    -------
    step, lag : ndarray of shape (n_outputs, n)
        What is added to the rows' z and u.
    scores : ndarray of shape (2, n, n_outputs), or (2, 0, n_outputs) unless `scored`
        What the running average and the iterate predicted before they saw each row.
    """
    squares, targets, weights = block
    n, k = targets.shape
    step, lag = np.empty((k, n)), np.empty((k, n))
    scores = np.empty((2, n if scored else 0, k))
    _recur(
        learner.rule, learner.loss, learner.average, gram, known, lagged, squares, targets,
        weights, state.scalars, state.shared, learner.negligible, scores[0], scores[1], step, lag,
    )  # fmt: skip
    return step, lag, scores


@kernel
def _deposit(z, u, slots, step, lag):
    for k in range(step.shape[0]):
        for i in range(len(slots)):
            if slots[i] >= 0:
                z[slots[i], k] += step[k, i]
                u[slots[i], k] += lag[k, i]


def deposit(state, slots, step, lag):
    """Add new coefficients to the slots of their rows, but those of negative slots."""
    _deposit(state.z, state.u, slots, step, lag)


def mean(state, n):
    """Coefficients of the average iterate of the first n rows, shape (n, n_outputs)."""
    total = state.scalars[:, MASS]
    raw = state.scalars[:, SUM] * state.z[:n] - state.u[:n]
    return raw / np.where(total > 0.0, total, 1.0)


def last(learner, state, n):
    """Coefficients of the current iterate of the first n rows, shape (n, n_outputs)."""
    if state.shared[0] == 0.0:
        return np.zeros_like(state.z[:n])
    c = [learner.rule.coefficient(state.scalars, k, state.shared[0])
         for k in range(len(state.scalars))]  # fmt: skip
    return np.array(c) * state.z[:n]


def restart(state):
    """Forget the average, not what was learned: the next average is that of a suffix."""
    state.u[:] = 0.0
    state.scalars[:, SUM] = 0.0
    state.scalars[:, MASS] = 0.0
