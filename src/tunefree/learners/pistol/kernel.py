r"""The isotropic learners in a feature space known by inner products only.

A vector of the feature space is a sum over rows: g = sum_s z_s k(x_s, .), and the average of the
iterates needs a second coefficient u_s = sum C dz_s per row (see `learners.pistol.isotropic`):

    g(x) = sum_s z_s k(x_s, x),    average(x) = sum_s (C z_s - u_s) k(x_s, x) / mass.

Rows are learned in blocks: the values h = g(x) of a block's rows before the block are matrix
products, and inside the block the recursion is exact,

    h_i = h0_i + sum_(j<i) dz_j k(x_j, x_i),      |g|^2 += dz_i (2 h_i + dz_i k(x_i, x_i)).

Source: Orabona 2014, Algorithm 3; the blocked form is ours.
"""

from typing import NamedTuple

import numpy as np

from tunefree._jit import REASSOCIATE, Kernel, kernel, part
from tunefree.learners.pistol.isotropic import coefficients, recursion
from tunefree.learners.pistol.rules import MASS, N_SCALARS, SUM


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


@part
class Gram(NamedTuple):
    """The space of a block's rows: their kernel values, and coefficients to come.

    Attributes
    ----------
    gram : ndarray of shape (n, n)
    squares : ndarray of shape (n,)
        Its diagonal, in double precision.
    known : tuple of ndarray of shape (n, n_outputs)
        g(x) and u(x) of the rows before the block.
    new : tuple of ndarray of shape (n_outputs, n)
        What is added to the rows' z and u.
    """

    gram: np.ndarray
    squares: np.ndarray
    known: tuple
    new: tuple

    def square(self, i):
        """The squared norm of row i."""
        return self.squares[i]

    def inner(self, i, field, out):
        """The inner products of row i with g or u of every output."""
        gram, known, new = self.gram, self.known[field], self.new[field]
        for k in range(out.shape[0]):
            total = 0.0
            for j in range(i):
                total += gram[i, j] * new[k, j]
            out[k] = known[i, k] + total

    def move(self, i, step, lag):
        """Add multiples of row i to g and u."""
        for k in range(step.shape[0]):
            self.new[0][k, i] = step[k]
            self.new[1][k, i] = lag[k]


_learn = Kernel(recursion, fastmath=REASSOCIATE)


def start(capacity, n_outputs):
    """The state before the first row."""
    return KernelState(
        np.zeros((capacity, n_outputs)),
        np.zeros((capacity, n_outputs)),
        np.zeros((n_outputs, N_SCALARS)),
        np.zeros(3),
    )


def learn(learner, state, block, gram, known, lagged, scored=False):
    """Learn a block in order; the state's scalars advance, its coefficients are left to `deposit`.

    `block` holds the rows' values with themselves, targets and weights; `gram` the values among
    them; `known` and `lagged` the sums of z and u times the kernel over the rows before. Gives what
    is added to the rows' z and u, both of shape (n_outputs, n), and, if `scored`, what the running
    average and the iterate predicted before they saw each row, of shape (2, n, n_outputs).
    """
    squares, targets, weights = block
    n, k = targets.shape
    step, lag = np.zeros((k, n)), np.zeros((k, n))
    scores = np.empty((2, n if scored else 0, k))
    space = Gram(gram, squares, (known, lagged), (step, lag))
    _learn(learner, space, targets, weights, state.scalars, state.shared, scores)
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
    return coefficients(learner, state.scalars, state.shared) * state.z[:n]


def restart(state):
    """Forget the average, not what was learned: the next average is that of a tail."""
    state.u[:] = 0.0
    state.scalars[:, SUM] = 0.0
    state.scalars[:, MASS] = 0.0
