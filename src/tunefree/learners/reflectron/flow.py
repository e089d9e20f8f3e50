r"""The Reflectron in continuous time: its flow, and events along it.

.. math::
    \frac{d}{dt}\nabla\psi(\theta) = -g(\theta)
    \qquad\text{or}\qquad
    \dot\theta = -(\nabla^2\psi(\theta))^{-1} g(\theta)

The first is the mirror flow, whose unknown is the dual w; the second the natural-gradient flow,
whose unknown is theta. They are the same curve. Any method of `scipy.integrate.solve_ivp` follows
it; forward Euler with the step lambda is the batch iteration of `learners.mirror`.

Where the inverse Hessian vanishes (at 0, for the p-norms and powers below 2) the natural-gradient
flow cannot move: there it starts from small random numbers. Other flows start at the minimiser.

Source: Boffi and Slotine 2020, eq. 5, 7 and 8.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from tunefree.links import residuals

METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")
SMALL = 1e-3  # standard deviation of a random start
ATOL = 1e-9
# The natural flow must resolve duals, too, where parameters are near 0: for the power 1.1 the
# parameter 1e-9 has the dual 0.14. For powers near 2 ATOL is small enough, and much smaller
# tolerances stop an integrator where a parameter changes its sign.
RESOLUTION, LEAST_ATOL = 1e-4, 1e-200
STATIONARY = 1e-6  # |g| relative to |g| at the start
_TIME_STEP = 1e-4  # of the time so far: for the slope of the hold-out risk


class Sample(NamedTuple):
    """Rows to learn from, or to measure the risk on."""

    design: Any
    targets: np.ndarray
    weights: np.ndarray

    def risk(self, link, theta, offset):
        """Mean squared error, summed over the outputs."""
        r = link.mean(self.design.apply(theta.T) + offset) - self.targets
        share = self.weights / self.weights.sum() * getattr(self.design, "outputs", 1)
        return float(share @ (r * r).sum(axis=1))


def natural_atol(potential, size):
    """The absolute tolerance for parameters that resolves duals to `RESOLUTION`.

    >>> from tunefree.potentials import Power
    >>> natural_atol(Power(1.5), 10), bool(natural_atol(Power(1.1), 10) < 1e-40)
    (1e-09, True)
    """
    if hasattr(potential, "given_norm"):  # p-norms, at points of norm 1
        potential, _ = potential.given_norm(1.0, size)
    if not potential.separable:
        return 1e-25
    return float(np.clip(potential.inverse(np.array(RESOLUTION)), LEAST_ATOL, ATOL))


class Flow(NamedTuple):
    """The vector field of theta (`natural`) or of the dual; the unknowns are one vector."""

    sample: Sample
    link: Any
    potential: Any
    weight: Any = None
    natural: bool = False
    intercept: bool = False

    @property
    def shape(self):
        """Outputs and columns."""
        return self.sample.targets.shape[1], self.sample.design.shape[1]

    def point(self, unknowns):
        """Parameters (k, d) and intercepts (k,)."""
        k, d = self.shape
        state = unknowns[: k * d].reshape(k, d)
        offset = unknowns[k * d :] if self.intercept else np.zeros(k)
        return state if self.natural else self.potential.inverse(state), offset

    def gradient(self, theta, offset):
        """The pseudogradient, (k, d) and (k,)."""
        design, targets, weights = self.sample
        r, _ = residuals(self.link, self.weight, design.apply(theta.T) + offset, targets)
        r *= (weights / weights.sum() * getattr(design, "outputs", 1))[:, None]
        return np.ascontiguousarray(design.adjoint(r).T), r.sum(axis=0)

    def field(self, t, unknowns):
        """The time derivative of the unknowns."""
        theta, offset = self.point(unknowns)
        g, slope = self.gradient(theta, offset)
        if self.natural:
            g = self.potential.metric_solve(theta, g)
        return -self._laid_out(g, slope)

    def _laid_out(self, state, offset):
        return np.concatenate([state.ravel(), offset]) if self.intercept else state.ravel()

    def start(self, theta=None, offset=None, rng=None):
        """The unknowns at time 0, by default at the potential's minimiser.

        If the natural flow cannot move from there, they are small random numbers.
        """
        if self.natural and not hasattr(self.potential, "metric_solve"):
            raise ValueError(
                f"The natural-gradient flow needs the inverse Hessian of {self.potential!r}, "
                "which has no metric_solve(): follow the mirror flow, which is the same curve."
            )
        has_init = theta is not None
        minimiser = self.potential.inverse(np.zeros(self.shape))
        theta = np.asarray(theta, dtype=float) if has_init else minimiser
        offset = np.zeros(self.shape[0]) if offset is None else np.asarray(offset, dtype=float)
        if not self.natural:
            return self._laid_out(self.potential.mirror(theta), offset)
        if not self.potential.metric_solve(theta, np.ones(self.shape)).any():
            if has_init:
                raise ValueError(
                    "The natural-gradient flow cannot leave init=0, where the inverse Hessian of "
                    f"{self.potential!r} vanishes: give small numbers, or no init for a random one."
                )
            rng = np.random.default_rng() if rng is None else rng
            theta = SMALL * rng.standard_normal(self.shape)
        return self._laid_out(theta, offset)


class Piece(NamedTuple):
    """A part of a flow: the integrator's own steps, with both ends.

    `between` maps a time to the unknowns, also between two steps.
    """

    times: np.ndarray
    states: np.ndarray
    between: Any
    events: dict
    ended: str
    n_evaluations: int


def follow(
    flow,
    start,
    stop,
    unknowns,
    *,
    held: Any = None,
    method: Any = "DOP853",
    rtol=1e-6,
    atol=None,
    until=(),
):
    """Follow a flow from one time to another, or until an event.

    The events are 'rise' (of the risk on the sample `held`) and 'stationary'; those in `until` end
    the flow.
    """
    calls = [0]
    if atol is None:
        atol = natural_atol(flow.potential, np.prod(flow.shape)) if flow.natural else ATOL

    def field(t, y):
        calls[0] += 1
        with np.errstate(over="ignore", invalid="ignore"):
            return flow.field(t, y)

    def size(y):
        calls[0] += 1
        g, slope = flow.gradient(*flow.point(y))
        return np.sqrt(np.sum(g * g) + flow.intercept * np.sum(slope * slope))

    initial = size(flow.start()) if not flow.natural else size(unknowns)

    def stationary(t, y):
        return size(y) - STATIONARY * initial

    def rise(t, y):
        h, slope = _TIME_STEP * t + 1e-10 * stop, field(t, y)
        after = held.risk(flow.link, *flow.point(y + h * slope))
        return after - held.risk(flow.link, *flow.point(y - h * slope))

    checks = {"stationary": stationary} | ({} if held is None else {"rise": rise})
    for name, event in checks.items():
        event.terminal, event.direction = name in until, -1.0 if name == "stationary" else 1.0
    asked = {"dense_output": True, "events": list(checks.values())}
    integrator = {"method": method, "rtol": rtol, "atol": atol}
    found = solve_ivp(field, (start, stop), unknowns, **integrator, **asked)
    if found.status < 0:
        raise ValueError(
            f"The integrator {method} failed at time {found.t[-1]:g} of {stop:g}: {found.message} "
            + (
                f"Where a parameter reaches 0 the natural-gradient flow needs atol={atol:g} to be "
                "larger; or follow the mirror flow, which is the same curve."
                if flow.natural
                else "Give a shorter horizon, another method, or larger tolerances."
            )
        )
    events = dict(zip(checks, found.t_events, strict=True))
    ended = "horizon"
    for name in until:
        if found.status == 1 and len(events.get(name, ())):
            ended = name
    return Piece(found.t, found.y.T, found.sol, events, ended, calls[0])
