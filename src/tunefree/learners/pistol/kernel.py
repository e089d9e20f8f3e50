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
    known : ndarray of shape (n, 2 n_outputs)
        g(x) and u(x) of the rows before the block.
    new : ndarray of shape (2, n_outputs, n)
        What is added to the rows' z and u.
    """

    gram: np.ndarray
    squares: np.ndarray
    known: np.ndarray
    new: np.ndarray

    # Arrays are named where an entry is read: held in a variable, each costs two atomic operations.
    def square(self, i):
        """The squared norm of row i."""
        return self.squares[i]

    def inner(self, i, field, out):
        """The inner products of row i with g or u of every output."""
        for k in range(out.shape[0]):
            total = 0.0
            for j in range(i):
                total += self.gram[i, j] * self.new[field, k, j]
            out[k] = self.known[i, field * out.shape[0] + k] + total

    def move(self, i, step, lag):
        """Add multiples of row i to g and u."""
        for k in range(step.shape[0]):
            self.new[0, k, i] = step[k]
            self.new[1, k, i] = lag[k]


_learn = Kernel(recursion, fastmath=REASSOCIATE)


def start(capacity, n_outputs):
    """The state before the first row."""
    return KernelState(
        np.zeros((capacity, n_outputs)),
        np.zeros((capacity, n_outputs)),
        np.zeros((n_outputs, N_SCALARS)),
        np.zeros(3),
    )


def learn(learner, state, block, gram, known, scored=False):
    """Learn a block in order; the state's scalars advance, its coefficients are left to `deposit`.

    `block` holds the rows' values with themselves, targets and weights; `gram` the values among
    them; `known` the sums of z and, if `scored`, of u times the kernel over the rows before. Gives
    what is added to the rows' z and u, of shape (2, n_outputs, n), and, if `scored`, what the
    running average and the iterate predicted before they saw each row, (2, n, n_outputs).
    """
    squares, targets, weights = block
    n, k = targets.shape
    new, scores = np.zeros((2, k, n)), np.empty((2, n if scored else 0, k))
    space = Gram(gram, squares, known, new)
    _learn(learner, space, targets, weights, state.scalars, state.shared, scores)
    return new, scores


@kernel
def _deposit(z, u, slots, new):
    for k in range(new.shape[1]):
        for i in range(len(slots)):
            if slots[i] >= 0:
                z[slots[i], k] += new[0, k, i]
                u[slots[i], k] += new[1, k, i]


def deposit(state, slots, new):
    """Add new coefficients to the slots of their rows, but those of negative slots."""
    _deposit(state.z, state.u, slots, new)


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
