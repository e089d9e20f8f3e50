r"""The accelerated separator: momentum in the dual, with a line search and restarts.

The dual of the margin problem, min_p \|Z' p\|^2 / 2 over the simplex, is solved by an accelerated
mirror descent whose smoothness constant L is found as it goes: with the distribution p_0 and
D(z, z') = sum (z - z')^2 / (2 p_0),

    a = (1 + sqrt(1 + 4 L A)) / (2 L),     tau = a / (A + a),
    g = (1 - tau) Z x_p + tau Z x_z,       z+ = argmin_z a <g, z> + D(z, z_t),

L doubles until tau^2 |Z'(z+ - z)|^2 / 2 <= D(z+, z) / (A + a), and (p, x_p) moves by tau towards
(z+, Z' z+). It restarts when the certified gap has fallen to a quarter, or when p went uphill,
<g, p_{t+1} - p_t> > 0.

Source: the dual problem and its game: Hanashiro and Abernethy, "Linear Separation via Optimism",
section 4; momentum for it: Ji, Srebro and Telgarsky 2021; the uphill test: O'Donoghue and Candes
2015; line search, metric and restarts on the certified gap are ours.
"""

from typing import NamedTuple

import numpy as np

from tunefree._jit import part
from tunefree.learners.perceptron.certificates import Certificate, Goal, tally
from tunefree.learners.perceptron.players import project_simplex
from tunefree.learners.perceptron.spaces import Linear


class AcceleratedState(NamedTuple):
    """State of a run.

    Attributes
    ----------
    p, z : ndarray of shape (n,)
        The averaged and the leading distribution.
    pulled, lead : ndarray
        Z' p and Z' z.
    margins, ahead : ndarray of shape (n,)
        Z Z' p and Z Z' z.
    time, smoothness : float
        A and L.
    mark : float
        The relative gap at the last restart.
    uphill : bool
        Whether the last move of p was uphill.
    radius : float
        The longest row.
    n_updates, n_operations : int
        Iterations; inner products and additions of rows.
    certificate : Certificate
    """

    p: np.ndarray | None
    z: np.ndarray | None = None
    pulled: np.ndarray | None = None
    lead: np.ndarray | None = None
    margins: np.ndarray | None = None
    ahead: np.ndarray | None = None
    time: float = 0.0
    smoothness: float = 0.0
    mark: float = np.inf
    uphill: bool = False
    radius: float = 0.0
    n_updates: int = 0
    n_operations: int = 0
    certificate: Certificate = Certificate()


@part
class Accelerated(NamedTuple):
    """Learn a separator by accelerated descent in the dual.

    Parameters
    ----------
    space : Linear or Gram
        Where the rows live; they must come as one block.
    goal : Goal
        When to stop.

    Examples
    --------
    >>> from tunefree.engine.run import run
    >>> from tunefree.engine.sources import Whole
    >>> X, y = np.array([[1.0, 0.2], [-1.0, 0.2]]), np.array([[1.0], [-1.0]])
    >>> learner = Accelerated(goal=Goal(tight=True, tol=1e-3))
    >>> state = run(learner, learner.init(), Whole(X, y, np.ones(2)), max_passes=99).state
    >>> round(state.certificate.lower, 3)  # the margin is 1
    1.0
    """

    space: NamedTuple = Linear()
    goal: NamedTuple = Goal()

    def init(self, p=None):
        """The state before the first pass; `p` starts elsewhere than at p_0 (the weights)."""
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
            bend = 0.5 * tau * tau * dot(moved, moved)
            # Below rounding there is nothing to compare.
            if distance <= 1e-30 or bend <= distance / (s.time + a) * (1.0 + 1e-12):
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
        """Restart if the interval has closed by a factor of four, or if p went uphill."""
        c, gap = state.certificate, state.certificate.gap
        if (c.lower > 0.0 and gap <= 0.25 * state.mark) or state.uphill:
            state = state._replace(
                mark=gap, time=0.0, z=state.p, lead=state.pulled, ahead=state.margins, uphill=False
            )
        return state, self.goal.reached(c, state.radius)

    def read(self, state):
        """The best predictor so far, a vector of the space."""
        return state.certificate.w

    def observe(self, state):
        """What a trace shows."""
        c = state.certificate
        return {"lower": c.lower, "upper": c.upper, "errors": c.errors}

    def _open(self, state, view, weights):
        prior = weights / weights.sum()
        p = prior if state.p is None else state.p
        x = view.pull(p)
        margins = view.push(x)
        square = float(np.max(view.squares(), where=prior > 0.0, initial=0.0))
        # A first guess of the smoothness, an eighth of the one along the steepest direction: free
        # of the data's scale, of the number of rows and of that of the weights.
        slope = prior * (margins - prior @ margins)
        bend = view.pull(slope)
        steep = float(slope @ margins)
        smoothness = self.space.dot(bend, bend) / steep if steep > 0.0 else square
        state = state._replace(
            p=p,
            z=p,
            pulled=x,
            lead=x,
            margins=margins,
            ahead=margins,
            radius=float(np.sqrt(square)),
        )
        state = state._replace(
            smoothness=max(smoothness / 8.0, 1e-12 * square) or 1.0, n_operations=3 * len(prior)
        )
        return self._certify(state, weights)

    def _certify(self, state, weights):
        least, errors = tally(state.margins, weights)
        terms = len(weights) + state.n_updates
        certificate = state.certificate.below(
            self.space, state.pulled, least, errors, terms, state.radius
        ).above(self.space, state.pulled, state.p, terms, state.radius)
        return state._replace(certificate=certificate)
