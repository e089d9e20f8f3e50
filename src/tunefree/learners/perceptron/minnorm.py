r"""The minimum-norm point of the signed rows: the maximal margin in finitely many steps.

Wolfe's method for min \|Z' p\| over the simplex keeps a small set S of affinely independent rows
and the point x of least norm in their affine hull. Each round adds the row with the smallest
margin Z_j x; while the new point would leave the convex hull, x moves to the boundary and a row is
dropped.

Source: Wolfe 1976, "Finding the nearest point in a polytope"; the dual problem: Hanashiro and
Abernethy, "Linear Separation via Optimism", section 4.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from tunefree._jit import part
from tunefree.learners.perceptron.certificates import Certificate, Goal, tally
from tunefree.learners.perceptron.spaces import EPS, Linear

_GONE = 1e-13  # a weight below this has left the support


class MinNormState(NamedTuple):
    """State of a run.

    Attributes
    ----------
    support : ndarray of shape (k,)
        The rows of S.
    p : ndarray of shape (k,)
        Their weights.
    gram : ndarray of shape (k, k)
        Their inner products plus the constant `shift`, which makes the matrix positive definite
        as soon as the rows are affinely independent.
    factor : ndarray of shape (k, k)
        Its lower Cholesky factor.
    shift, radius : float
        The mean squared row, the longest row.
    n_updates, n_operations : int
        Rows added; inner products and additions of rows.
    stalled : bool
        No row can be added: the interval is as narrow as rounding allows, or S is full.
    certificate : Certificate
    """

    support: np.ndarray | None = None
    p: np.ndarray | None = None
    gram: np.ndarray | None = None
    factor: np.ndarray | None = None
    shift: float = 0.0
    radius: float = 0.0
    n_updates: int = 0
    n_operations: int = 0
    stalled: bool = False
    certificate: Certificate = Certificate()


@part
class MinNorm(NamedTuple):
    """Learn the separator of maximal margin by Wolfe's minimum-norm point.

    Parameters
    ----------
    space : Linear or Gram
        Where the rows live; they must come as one block.
    goal : Goal
        When to stop.
    most : int, default=2000
        Largest support; a round costs O(k^2), or O(k^3) when a row is dropped.

    Examples
    --------
    >>> from tunefree.engine.run import run
    >>> from tunefree.engine.sources import Whole
    >>> X, y = np.array([[1.0, 0.2], [-1.0, 0.2]]), np.array([[1.0], [-1.0]])
    >>> learner = MinNorm(goal=Goal(tight=True, tol=1e-9))
    >>> state = run(learner, learner.init(), Whole(X, y, np.ones(2)), max_passes=9).state
    >>> round(state.certificate.lower, 9), state.p  # the two signed rows are (1, 0.2) (1, -0.2)
    (1.0, array([0.5, 0.5]))
    """

    space: NamedTuple = Linear()
    goal: NamedTuple = Goal()
    most: int = 2000

    def init(self):
        """The state before the first pass."""
        return MinNormState()

    def scan(self, state, block):
        """One round: find the row with the smallest margin and take it in."""
        view, weights = self.space.view(block), block.weights
        if state.support is None:
            state = self._open(state, view, weights)
        p = np.zeros(len(weights))
        p[state.support] = state.p
        x = view.pull(p)
        margins = view.push(x)
        margins[weights <= 0.0] = np.inf
        least, errors = tally(margins, weights)
        terms = len(state.support)
        certificate = state.certificate.below(
            self.space, x, least, errors, terms, state.radius
        ).above(self.space, x, p, terms, state.radius)
        state = state._replace(
            certificate=certificate,
            n_operations=state.n_operations + len(weights) + len(state.support),
        )
        if self.goal.reached(certificate, state.radius):
            return state
        return self._add(state, view, int(np.argmin(margins)))

    def turn(self, state):
        """End a round."""
        done = state.stalled or self.goal.reached(state.certificate, state.radius)
        return state, done

    def read(self, state):
        """The best predictor so far, a vector of the space."""
        return state.certificate.w

    def observe(self, state):
        """What a trace shows."""
        c = state.certificate
        return {"lower": c.lower, "upper": c.upper, "errors": c.errors, "support": len(state.p)}

    def _open(self, state, view, weights):
        squares = np.where(weights > 0.0, view.squares(), np.inf)
        finite = squares[weights > 0.0]
        shift = float(finite.mean()) or 1.0
        # The shortest row; of several (all have length one under many kernels), the one that the
        # average row gets most wrong, whatever their order.
        against = view.push(view.pull(weights / weights.sum()))
        first = int(np.argmin(np.where(squares <= finite.min() * (1.0 + 1e-12), against, np.inf)))
        gram = np.array([[squares[first] + shift]])
        return state._replace(
            support=np.array([first]),
            p=np.ones(1),
            gram=gram,
            factor=np.sqrt(gram),
            shift=shift,
            radius=float(np.sqrt(finite.max())),
            n_operations=2 * len(weights),
        )

    def _add(self, state, view, j):
        """Take row j in, then drop rows until the nearest point is inside their hull."""
        support, factor = state.support, state.factor
        if j in support or len(support) >= self.most:
            return state._replace(stalled=True)
        support = np.append(support, j)
        column = view.inner(support, j) + state.shift
        edge = solve_triangular(factor, column[:-1], lower=True)
        corner = column[-1] - edge @ edge
        if corner <= 8.0 * len(support) * EPS * column[-1]:  # affinely dependent up to rounding
            return state._replace(stalled=True)
        k = len(support)
        gram, grown = np.empty((k, k)), np.zeros((k, k))
        gram[:-1, :-1], grown[:-1, :-1] = state.gram, factor
        gram[-1], gram[:, -1] = column, column
        grown[-1, :-1], grown[-1, -1] = edge, np.sqrt(corner)
        factor, p = grown, np.append(state.p, 0.0)
        while True:
            nearest = cho_solve((factor, True), np.ones(len(p)))
            nearest /= nearest.sum()
            if nearest.min() > _GONE:
                break
            leaving = nearest <= _GONE
            fall = np.where(leaving, p - nearest, 1.0)
            reach = np.where(leaving & (fall > 0.0), p / np.where(fall > 0.0, fall, 1.0), np.inf)
            theta = min(1.0, float(reach.min()))
            p = np.maximum(p + theta * (nearest - p), 0.0)
            stay = p > _GONE
            stay[np.argmin(reach)] = False
            support, p = support[stay], p[stay] / p[stay].sum()
            gram = gram[np.ix_(stay, stay)]
            factor = np.linalg.cholesky(gram)
        return state._replace(
            support=support,
            p=nearest,
            gram=gram,
            factor=factor,
            n_updates=state.n_updates + 1,
            n_operations=state.n_operations + k,
        )
