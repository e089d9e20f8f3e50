"""A reproducing kernel space on [0, 1] in which everything is known: spectrum, target, risks."""

from itertools import pairwise

import numpy as np

from tunefree.averaging import Uniform
from tunefree.designs import Dense
from tunefree.learners.pistol.isotropic import Isotropic

GRID = (np.arange(4000) + 0.5) / 4000


class Cosines:
    """Features sqrt(eigenvalue_i) phi_i(x), phi_i = sqrt(2) cos(i pi x), for x uniform on [0, 1].

    Parameters
    ----------
    decay : float
        The kernel's eigenvalues are i^-decay, scaled so that ||features|| <= 1.
    beta : float
        The target is L_K^beta of a function whose coefficients fall like i^-0.51, barely square
        summable: no smoother than beta says.
    size : float
        The largest value of the target.
    """

    def __init__(self, decay=1.1, beta=0.5, size=1.0, terms=400):
        order = np.arange(1.0, terms + 1)
        eigenvalues = order**-decay
        self.eigenvalues = eigenvalues / (2.0 * eigenvalues.sum())
        self._order = order
        signs = np.where(np.arange(terms) % 3 == 0, 1.0, -1.0)
        self.coefficients = self.eigenvalues**beta * order**-0.51 * signs
        self.coefficients *= size / np.abs(self.basis(GRID) @ self.coefficients).max()

    def basis(self, x):
        """The orthonormal functions at x, one a column."""
        return np.sqrt(2.0) * np.cos(np.pi * np.outer(x, self._order))

    def features(self, x):
        """The kernel's features at x."""
        return self.basis(x) * np.sqrt(self.eigenvalues)

    def target(self, x):
        """The function that minimizes the risk."""
        return self.basis(x) @ self.coefficients


def averages(rule, loss, X, y, marks):
    """Average the iterates of PiSTOL over the first rows, for each number of rows in `marks`.

    One run serves all of them, since reading the average leaves the state as it is.
    """
    learner = Isotropic(rule, loss, Uniform())
    state, out = learner.init(X.shape[1], 1), []
    for start, stop in pairwise([0, *marks]):
        rows = slice(start, stop)
        state = learner.scan(state, Dense(X[rows]), y[rows, None], np.ones(stop - start))
        out.append(learner.mean(state)[:, 0])
    return out


def risks(loss, predictions, chance):
    """Expected loss of predictions on the grid, given the chance of the label 1."""
    up = np.array([loss.value(p, 1.0) for p in predictions])
    down = np.array([loss.value(p, -1.0) for p in predictions])
    return float(np.mean(chance * up + (1.0 - chance) * down))
