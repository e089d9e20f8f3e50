"""The Reflectron's estimators by their flow: how far to follow it, and in which geometry."""

from typing import NamedTuple

import numpy as np

from tunefree.learners.reflectron.flow import Flow, Sample, follow

SOLVERS = ("flow", "natural-flow")
_FIRST_TIME = 1.0  # a flow is followed to this time, then twice as far, and so on
_WITHIN = 16  # times between two of these at which the hold-out risk is measured
# Looser than for a trajectory: a coordinate of the natural flow that reaches 0 has to cross it.
_RTOL, _ATOL = 1e-5, 1e-9


class _Course(NamedTuple):
    """The hold-out risk along a configuration's flow, and where it was lowest."""

    times: np.ndarray
    risk: np.ndarray
    held_risk: np.ndarray
    evaluations: int

    @property
    def best(self):
        """Which time had the lowest risk."""
        return int(np.argmin(self.held_risk))


def follow_flows(estimator, link, configurations, X, targets, weights, held, validation, seed):
    """Fit by following the flow of every potential as far as rows held out say.

    Each configuration's flow is followed on the rows left by every share held out, to a time that
    doubles until the lowest mean risk lies in its first half; then on all rows to the time of that
    lowest risk. Without rows to choose by, it is followed until it is stationary.

    Parameters
    ----------
    estimator : Reflectron
    link, configurations : as checked
    X, targets, weights : ndarray or CSR
        Distinct rows.
    held : ndarray of int
        From which member each row is held out, -1 none.
    validation : tuple or None
        Rows, targets and weights to choose by.
    seed : int
        Of a random start.

    Raises
    ------
    ValueError
        For a constraint, a step, keep_path or per_output, which a flow does not have.
    """
    for name, wrong in (
        ("constraint", any(c.constraint is not None for c in configurations)),
        ("step", any(c.step is not None for c in configurations)),
        ("keep_path", estimator.keep_path),
        ("per_output", estimator.per_output and targets.shape[1] > 1),
    ):
        if wrong:
            raise ValueError(
                f"solver={estimator.solver!r} has no {name}={getattr(estimator, name)!r}: give "
                "solver='batch', or leave it out (tunefree.flow returns whole trajectories)."
            )
    columns = estimator._units(X, weights, estimator.fit_intercept)
    members, sheet = 1 + max(0, held.max()), estimator._sheet(columns, X, targets, weights, held)
    design, targets, weights, held = sheet
    theta, offset = estimator._start(link, columns, sheet, members, columns.scale.size)
    offset = np.zeros((members, targets.shape[1])) if offset is None else np.broadcast_to(
        offset, (members, targets.shape[1])
    )  # fmt: skip

    def flow(potential, member):
        mass = np.where(held == member, 0.0, weights)
        sample = Sample(design, targets, mass)
        made = Flow(sample, link, potential, estimator.weight, natural, estimator.fit_intercept)
        return made, made.start(theta, offset[member], np.random.default_rng(seed))

    natural = estimator.solver == "natural-flow"
    if validation is not None:
        folds = [(0, Sample(*estimator._sheet(columns, *validation, 0)[:3]))]
    else:
        folds = [(m, Sample(design, targets, np.where(held == m, weights, 0.0)))
                 for m in range(1, members)]  # fmt: skip
    choosing = len(folds) > 0
    folds = folds or [(0, None)]
    courses = [
        _course([(*flow(c.potential, m), sample) for m, sample in folds], estimator.max_iter)
        for c in configurations
    ]
    order = np.argsort([c.held_risk.min() for c in courses], kind="stable")
    best = courses[order[0]]
    end = best.times[best.best] if choosing else best.times[-1]
    made, unknowns = flow(configurations[order[0]].potential, 0)
    piece = follow(made, 0.0, float(end), unknowns, rtol=_RTOL, atol=_ATOL)
    estimator.link_ = link
    estimator.n_iter_ = piece.n_evaluations + sum(c.evaluations for c in courses)
    estimator.trace_ = _trace(courses)
    estimator._note(
        (float(courses[c].held_risk.min()), float(courses[c].times[courses[c].best]),
         configurations[c]) for c in order
    )  # fmt: skip
    estimator._predict_with(*made.point(piece.states[-1]), columns, X.dtype)


def _course(runs, most):
    """Follow flows beside each other, to times that double, until the mean risk has turned."""
    states = [unknowns for _, unknowns, _ in runs]
    times, risks, held_risks, calls = [], [], [], 0
    start, stop = 0.0, _FIRST_TIME
    still = [False] * len(runs)
    while True:
        grid = np.linspace(start, stop, _WITHIN + 1)[bool(times) :]
        measured = np.zeros((2, len(grid)))
        for i, (flow, _, sample) in enumerate(runs):
            piece = None
            if not still[i]:
                piece = follow(
                    flow, start, stop, states[i], rtol=_RTOL, atol=_ATOL, until=("stationary",)
                )
                calls += piece.n_evaluations
                states[i], still[i] = piece.states[-1], piece.ended == "stationary"
            for j, t in enumerate(grid):
                inside = piece is not None and t <= piece.times[-1]
                point = flow.point(piece.between(t) if inside else states[i])
                risk = flow.sample.risk(flow.link, *point)
                held = risk if sample is None else sample.risk(flow.link, *point)
                measured[:, j] += np.array([risk, held]) / len(runs)
        times.append(grid)
        risks.append(measured[0])
        held_risks.append(measured[1])
        course = _Course(*(np.concatenate(a) for a in (times, risks, held_risks)), calls)
        turned = runs[0][2] is not None and course.times[course.best] < 0.5 * stop
        if turned or all(still) or calls >= most * len(runs):
            return course
        start, stop = stop, 2.0 * stop


def _trace(courses):
    """Risks of all configurations; a shorter course stays at its end."""
    longest = max(len(c.times) for c in courses)

    def column(values):
        return np.concatenate([values, np.full(longest - len(values), values[-1])])

    fields = {"time": "times", "risk": "risk", "held_risk": "held_risk"}
    return {
        name: np.stack([column(getattr(c, field)) for c in courses], axis=1)
        for name, field in fields.items()
    }
