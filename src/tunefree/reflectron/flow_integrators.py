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
from numpy.typing import ArrayLike
from scipy import optimize
from scipy.integrate import solve_ivp

from tunefree.core.process import one_blas_thread

SMALL = 1e-3  # standard deviation of a random start
ATOL = 1e-9
# The natural flow must resolve duals, too, where parameters are near 0: for the power 1.1 the
# parameter 1e-9 has the dual 0.14. For powers near 2 ATOL is small enough, and much smaller
# tolerances stop an integrator where a parameter changes its sign.
RESOLUTION, LEAST_ATOL = 1e-4, 1e-200
STATIONARY = 1e-6  # |g| relative to |g| at the start
EVENTS = "stationary", "rise"
_TIME_STEP = 1e-4  # of the time so far: for the slope of the hold-out risk


class Sample(NamedTuple):
    """Rows to learn from, or to measure the risk on."""

    design: Any
    targets: np.ndarray
    weights: np.ndarray

    @property
    def shares(self):
        """The weights of rows in a mean over samples."""
        return self.weights / self.weights.sum() * getattr(self.design, "outputs", 1)

    def errors(self, link, theta, offset):
        """u(s) - y of every row and output."""
        return link.mean(self.design.apply(theta.T) + offset) - self.targets

    def risk(self, link, theta, offset):
        """Mean squared error, summed over the outputs."""
        r = self.errors(link, theta, offset)
        return float(self.shares @ (r * r).sum(axis=1))


def natural_atol(potential, size):
    """The absolute tolerance for parameters that resolves duals to `RESOLUTION`.

    >>> from tunefree.reflectron.potentials import Power
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
        sample = self.sample
        r = sample.errors(self.link, theta, offset) * sample.shares[:, None]
        return np.ascontiguousarray(sample.design.adjoint(r).T), r.sum(axis=0)

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


class Trajectory:
    """The trajectory of a flow: parameters and risks at every time.

    Attributes
    ----------
    times : ndarray of shape (m,)
        The integrator's own steps.
    risk : ndarray of shape (m,)
        Mean squared error there (summed over outputs) on the rows learned from.
    held_risk : ndarray of shape (m,) or None
        The same on X_val.
    events : dict of ndarray
        Times at which the hold-out risk began to rise, or the flow became stationary.
    ended : str
        'horizon', 'rise' or 'stationary'.
    n_evaluations : int
        Passes over the rows.

    Examples
    --------
    >>> from tunefree.reflectron import flow
    >>> path = flow(np.eye(2), [0.9, 0.2], horizon=50.0)
    >>> coef, intercept = path.at(25.0)
    >>> coef.shape, bool(path.risk[-1] < path.risk[0])
    ((1, 2), True)
    """

    def __init__(self, flow, held, solution, ended, n_evaluations):
        self._flow, self._held, self._between = flow, held, solution.sol
        self.times, self.ended, self.n_evaluations = solution.t, ended, n_evaluations
        self.events = dict(zip(EVENTS, solution.t_events, strict=False))
        self.risk = self.risk_at(self.times)
        self.held_risk = None if held is None else self.risk_at(self.times, held=True)

    @one_blas_thread()
    def at(self, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Parameters (k, d) and intercepts (k,) at a time from 0 to the end."""
        if not self.times[0] <= time <= self.times[-1]:
            raise ValueError(f"time={time!r} is not between 0 and {self.times[-1]:g}.")
        return self._flow.point(self._between(time))

    @one_blas_thread()
    def risk_at(self, times: ArrayLike, *, held: bool = False) -> np.ndarray:
        """Mean squared errors at some times, on the rows learned from or on X_val."""
        sample = self._held if held else self._flow.sample
        return np.array([sample.risk(self._flow.link, *self.at(t)) for t in np.atleast_1d(times)])

    @one_blas_thread()
    def best_time(self) -> float:
        """The time of the lowest risk on X_val, also between the integrator's steps."""
        held_risk: Any = self.held_risk
        i = int(np.argmin(held_risk))
        low, high = self.times[max(i - 1, 0)], self.times[min(i + 1, len(self.times) - 1)]
        found = optimize.minimize_scalar(
            lambda t: self.risk_at(t, held=True)[0],
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-6 * high},
        )
        return float(found.x if found.fun < held_risk[i] else self.times[i])


def follow(flow, unknowns, horizon, held, *, method: Any, rtol, atol, until):
    """The `Trajectory` of a flow until the horizon, or until an event.

    The events are 'stationary' and 'rise' (of the risk on the sample `held`, if there is one);
    those in `until` end the flow.
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
        h, slope = _TIME_STEP * t + 1e-10 * horizon, field(t, y)
        after = held.risk(flow.link, *flow.point(y + h * slope))
        return after - held.risk(flow.link, *flow.point(y - h * slope))

    checks: list[Any] = [stationary] if held is None else [stationary, rise]
    for event, direction in zip(checks, (-1.0, 1.0), strict=False):
        event.terminal, event.direction = event.__name__ in until, direction
    options = {"method": method, "rtol": rtol, "atol": atol, "dense_output": True}
    found: Any = solve_ivp(field, (0.0, horizon), unknowns, events=checks, **options)
    if found.status < 0:
        advice = "Give a shorter horizon, another method, or larger tolerances."
        if flow.natural:
            advice = (
                f"Where a parameter reaches 0 the natural-gradient flow needs atol={atol:g} to be "
                "larger; or follow the mirror flow, which is the same curve."
            )
        raise ValueError(
            f"The integrator {method} failed at time {found.t[-1]:g} of {horizon:g}: "
            f"{found.message} {advice}"
        )
    ended = "horizon"
    for name, times in zip(EVENTS, found.t_events, strict=False):
        if found.status == 1 and name in until and len(times):
            ended = name
    return Trajectory(flow, held, found, ended, calls[0])
