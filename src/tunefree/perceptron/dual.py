r"""Separators by the dual of the margin problem, min_p \|Z' p\|^2 / 2 over the simplex.

`Accelerated` is mirror descent with momentum whose smoothness constant L is found as it goes: with
the distribution p_0 and D(z, z') = sum (z - z')^2 / (2 p_0),

    a = (1 + sqrt(1 + 4 L A)) / (2 L),     tau = a / (A + a),
    g = (1 - tau) Z x_p + tau Z x_z,       z+ = argmin_z a <g, z> + D(z, z_t),

L doubles until tau^2 |Z'(z+ - z)|^2 / 2 <= D(z+, z) / (A + a), and (p, x_p) moves by tau towards
(z+, Z' z+). It restarts when the certified gap has fallen to a quarter, or when the step of p was
uphill, <g, p_{t+1} - p_t> > 0.

`MinNorm` is Wolfe's method, which ends after finitely many steps: it keeps a small set S of
affinely independent rows and the point x of least norm in their affine hull. Each round adds the
row with the smallest margin Z_j x; while the new point would leave the convex hull, x moves to the
boundary and a row is dropped.

Source: the dual problem and its game: Hanashiro and Abernethy, "Linear Separation via Optimism",
section 4; momentum for it: Ji, Srebro and Telgarsky 2021; the uphill test: O'Donoghue and Candes
2015; line search, metric and restarts on the certified gap are ours. Wolfe 1976, "Finding the
nearest point in a polytope".
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from tunefree.core.jit import part
from tunefree.perceptron.margins import EPS, Certificate, Goal, LinearRows, tally
from tunefree.perceptron.optimistic import project_simplex

_LEAST_WEIGHT = 1e-13  # rows with a smaller weight leave the support


class AcceleratedState(NamedTuple):
    """State of a run of `Accelerated`."""

    p: np.ndarray | None  # the averaged distribution, and the leading one
    z: np.ndarray | None = None
    pulled: np.ndarray | None = None  # Z' p and Z' z
    lead: np.ndarray | None = None
    margins: np.ndarray | None = None  # Z Z' p and Z Z' z
    ahead: np.ndarray | None = None
    time: float = 0.0  # A and L
    smoothness: float = 0.0
    mark: float = np.inf  # the relative gap at the last restart
    uphill: bool = False
    radius: float = 0.0  # the longest row
    n_updates: int = 0
    n_operations: int = 0  # inner products and additions of rows
    certificate: Certificate = Certificate()


@part
class Accelerated(NamedTuple):
    """Learn a separator by accelerated descent in the dual; the rows must come as one block."""

    space: Any = LinearRows()
    goal: Any = Goal()

    def init(self, p=None):
        """The state before the first pass; it starts at `p`, by default at p_0 (the weights)."""
        return AcceleratedState(p)

    def scan(self, state, block):
        """One iteration, its line search included."""
        view, weights = self.space.view(block), block.weights
        prior = weights / weights.sum()
        if state.z is None:
            return self._open(state, view, weights)
        if len(state.p) != len(prior):
            raise ValueError("The accelerated method needs all rows in one block.")
        dot, s, n = self.space.dot, state, len(prior)
        smoothness, z, operations = state.smoothness, np.empty(n), 0
        density = np.divide(s.z, prior, out=np.zeros(n), where=prior > 0.0)
        while True:
            a = (1.0 + np.sqrt(1.0 + 4.0 * smoothness * s.time)) / (2.0 * smoothness)
            tau = a / (s.time + a)
            g = (1.0 - tau) * s.margins + tau * s.ahead
            project_simplex(density - a * g, prior, z)
            x = view.pull(z)
            operations += n
            distance = 0.5 * np.sum((z - s.z) * (z / np.where(prior > 0.0, prior, 1.0) - density))
            moved = x - s.lead
            curvature = 0.5 * tau * tau * dot(moved, moved)
            # A distance below rounding cannot be compared.
            if distance <= 1e-30 or curvature <= distance / (s.time + a) * (1.0 + 1e-12):
                break
            smoothness *= 2.0
        ahead = view.push(x)
        step = tau * (z - s.p)
        state = s._replace(
            p=s.p + step,
            z=z,
            pulled=(1.0 - tau) * s.pulled + tau * x,
            lead=x,
            margins=(1.0 - tau) * s.margins + tau * ahead,
            ahead=ahead,
            time=s.time + a,
            smoothness=smoothness / 1.3,
            uphill=bool(g @ step > 0.0),
            n_updates=s.n_updates + 1,
            n_operations=s.n_operations + operations + n + 1,
        )
        return self._certify(state, weights)

    def turn(self, state):
        """Restart if the interval is four times narrower, or if the step of p was uphill."""
        c, gap = state.certificate, state.certificate.gap
        is_narrower = c.lower > 0.0 and gap <= 0.25 * state.mark
        if is_narrower or state.uphill:
            state = state._replace(
                mark=gap, time=0.0, z=state.p, lead=state.pulled, ahead=state.margins, uphill=False
            )
        return state, self.goal.reached(c, state.radius)

    def _open(self, state, view, weights):
        prior = weights / weights.sum()
        p = prior if state.p is None else state.p
        x = view.pull(p)
        margins = view.push(x)
        square = float(np.max(view.squares(), where=prior > 0.0, initial=0.0))
        # The first smoothness is an eighth of that along the steepest direction: independent of the
        # scale of the data, of the number of rows and of the scale of the weights.
        slope = prior * (margins - prior @ margins)
        along = view.pull(slope)
        steepness = float(slope @ margins)
        smoothness = self.space.dot(along, along) / steepness if steepness > 0.0 else square
        smoothness = max(smoothness / 8.0, 1e-12 * square) or 1.0
        radius = float(np.sqrt(square))
        sizes = {"smoothness": smoothness, "radius": radius, "n_operations": 3 * len(prior)}
        state = AcceleratedState(p, p, x, x, margins, margins, **sizes)
        return self._certify(state, weights)

    def _certify(self, state, weights):
        space = self.space
        x = state.pulled
        terms = len(weights) + state.n_updates
        found = state.certificate.below(
            space, x, tally(state.margins, weights), terms, state.radius
        )
        return state._replace(certificate=found.above(space, x, state.p, terms, state.radius))


class MinNormState(NamedTuple):
    """State of a run of `MinNorm`."""

    support: Any = None  # the rows of S and their weights
    p: np.ndarray | None = None
    # Their inner products plus the constant `shift`, which makes the matrix positive definite as
    # soon as the rows are affinely independent; its lower Cholesky factor.
    gram: np.ndarray | None = None
    factor: np.ndarray | None = None
    shift: float = 0.0  # the mean squared row
    radius: float = 0.0  # the longest row
    n_updates: int = 0  # rows added
    n_operations: int = 0  # inner products and additions of rows
    stalled: bool = False  # no row can be added: rounding limits the interval, or S is full
    certificate: Certificate = Certificate()


@part
class MinNorm(NamedTuple):
    """Learn the separator of maximal margin by Wolfe's method; the rows must come as one block.

    `most` is the largest support; a round costs O(k^2), or O(k^3) when a row is dropped.
    """

    space: Any = LinearRows()
    goal: Any = Goal()
    most: int = 2000

    def init(self):
        """The state before the first pass."""
        return MinNormState()

    def scan(self, state, block):
        """One round: find the row with the smallest margin and add it."""
        view, weights = self.space.view(block), block.weights
        if state.support is None:
            state = self._open(state, view, weights)
        p = np.zeros(len(weights))
        p[state.support] = state.p
        x = view.pull(p)
        margins = view.push(x)
        margins[weights <= 0.0] = np.inf
        terms, radius = len(state.support), state.radius
        found = state.certificate.below(self.space, x, tally(margins, weights), terms, radius)
        state = state._replace(
            certificate=found.above(self.space, x, p, terms, radius),
            n_operations=state.n_operations + len(weights) + terms,
        )
        if self.goal.reached(state.certificate, radius):
            return state
        return self._add(state, view, int(np.argmin(margins)))

    def turn(self, state):
        """End a round."""
        return state, state.stalled or self.goal.reached(state.certificate, state.radius)

    def _open(self, state, view, weights):
        squares = np.where(weights > 0.0, view.squares(), np.inf)
        finite = squares[weights > 0.0]
        shift = float(finite.mean()) or 1.0
        # The shortest row. Of several (under many kernels all have length one) the one with the
        # smallest margin under the mean row, so that the order of rows has no effect.
        against = view.push(view.pull(weights / weights.sum()))
        first = int(np.argmin(np.where(squares <= finite.min() * (1.0 + 1e-12), against, np.inf)))
        gram = np.array([[squares[first] + shift]])
        radius = float(np.sqrt(finite.max()))
        n = 2 * len(weights)
        return MinNormState(
            np.array([first]), np.ones(1), gram, np.sqrt(gram), shift, radius, n_operations=n
        )

    def _add(self, state, view, j):
        """Add row j, then drop rows until the nearest point is inside their hull."""
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
        gram, extended = np.empty((k, k)), np.zeros((k, k))
        gram[:-1, :-1], extended[:-1, :-1] = state.gram, factor
        gram[-1], gram[:, -1] = column, column
        extended[-1, :-1], extended[-1, -1] = edge, np.sqrt(corner)
        factor, p = extended, np.append(state.p, 0.0)
        while True:
            nearest = cho_solve((factor, True), np.ones(len(p)))
            nearest /= nearest.sum()
            if nearest.min() > _LEAST_WEIGHT:
                break
            leaving = nearest <= _LEAST_WEIGHT
            fall = np.where(leaving, p - nearest, 1.0)
            # The part of the step after which each weight would be zero.
            until = np.where(leaving & (fall > 0.0), p / np.where(fall > 0.0, fall, 1.0), np.inf)
            theta = min(1.0, float(until.min()))
            p = np.maximum(p + theta * (nearest - p), 0.0)
            stay = p > _LEAST_WEIGHT
            stay[np.argmin(until)] = False
            support = support[stay]
            p = p[stay] / p[stay].sum()
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
