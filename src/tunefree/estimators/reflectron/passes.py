"""Stochastic passes over rows in memory: steps spelt out, the choice of a run, its refit."""

from typing import NamedTuple

import numpy as np

from tunefree import averaging
from tunefree.bounds import reflectron_step
from tunefree.choose.halving import HOPELESS, MULTIPLES, Pace
from tunefree.engine.order import Visits, given_visits
from tunefree.engine.sources import Rows
from tunefree.estimators.reflectron.parts import THEOREMS, geometry

# Passes without progress before the runs end; at least as many as progress took.
_PATIENCE = 5


def scheme_of(average):
    """The averaging scheme of a name; None and 'last' are none."""
    if average is None or (isinstance(average, str) and average == "last"):
        return None
    return averaging.scheme_of(average, also=["last"], online=True)


def paced(configurations, link, weight, intercept, d, rounds, k=1):
    """Configurations with the multiples of the automatic step spelt out, and the pace of each."""
    spelt, paces = [], []
    for configuration in configurations:
        sigma, exponent = geometry(configuration, d, k)
        step = configuration.step
        if isinstance(step, float):
            spelt.append(configuration)
            paces.append(Pace(step))
            continue
        bound = link.bound() if hasattr(link, "bound") else 1.0
        largest = 1.0 if weight is None or callable(weight) else bound
        extra = float(intercept)
        if step is None:
            # Where nothing is known about the geometry, the multiples have to find the step.
            known = sigma if sigma is not None and sigma > 0.0 else 1.0
            base = reflectron_step(1.0, bound, convexity=known, weight=largest, theorem="5.2")
            for multiple in MULTIPLES:
                spelt.append(configuration._replace(step=f"auto x {multiple:g}"))
                paces.append(Pace(None, multiple * base, exponent, extra))
            continue
        base = reflectron_step(
            1.0, bound, convexity=min(sigma, 1.0) if intercept else sigma, weight=largest,
            theorem="4.1" if step == "theorem-4.1" else "5.2",
        )  # fmt: skip
        most = 1.0 / np.sqrt(rounds) if THEOREMS[step] == "5.1" else np.inf
        spelt.append(configuration)
        paces.append(Pace(None, base, exponent, extra, float(most)))
    return tuple(spelt), tuple(paces)


class Outcome(NamedTuple):
    """What passes in memory leave behind.

    Attributes
    ----------
    theta, offset : ndarray
    configuration : Configuration
    epochs : int
        Passes that led to the predictor.
    n_passes : int
        All passes.
    board : list of (risk, epochs, Configuration)
        Every configuration's lowest risk, the best first.
    trace : ndarray of shape (n_passes, n_configurations)
        Risks on the rows held out; NaN after a run's end.
    path : list of ndarray
        Parameters of all runs after every pass.
    """

    theta: np.ndarray
    offset: np.ndarray
    configuration: object
    epochs: int
    n_passes: int
    board: list
    trace: np.ndarray
    path: list


def passes(make, X, targets, visits, learns, measure, *, most, tol, refit, choosing, watch):
    """Pass over rows until the risk on others stops falling; then once more over all of them.

    Parameters
    ----------
    make : callable
        Makes the `Walks` before the first row.
    X, targets, visits
        All rows, and how they are visited.
    learns : ndarray of bool
        Which rows to learn from at first.
    measure : callable
        (theta, offset) -> risk on the rows held out.
    most : int
        Most passes.
    tol : float
        Relative fall of the risk that counts as progress.
    refit : bool
        Whether to learn again from all rows, in the chosen configuration.
    choosing : bool
        False reads the last pass.
    watch : dict
        What to call around each pass, as `engine.run.run` does.

    Returns
    -------
    Outcome
    """
    walks, best, marks, curves, path = make(), {}, {}, [], []
    names = [run.configuration for run in walks.runs]
    hopeless = HOPELESS * measure(*walks.runs[0].read())
    alive, epoch, source = list(range(len(names))), 0, Rows(X, targets, _only(visits, learns))
    while epoch < most:
        walks, stopped = _pass(walks, source, epoch, **watch)
        epoch += 1
        curve, points = np.full(len(names), np.nan), []
        for c, run in zip(alive, walks.runs, strict=True):
            theta, offset = run.read()
            points.append((c, theta))
            curve[c] = measure(theta, offset) if np.isfinite(run.risk()) else np.inf
            if c not in best or curve[c] < best[c][0] or not choosing:
                best[c] = float(curve[c]), epoch, theta, offset
            if c not in marks or curve[c] < (1.0 - tol) * marks[c][0]:
                marks[c] = float(curve[c]), epoch
        curves.append(curve)
        path.append(points)
        latest = max(marks[c][1] for c in alive)
        if stopped or epoch - latest >= max(_PATIENCE, latest):
            break
        if len(alive) > 1 and epoch & (epoch - 1) == 0:
            risks = [best[c][0] for c in alive]
            kept = set(np.argsort(risks, kind="stable")[: (len(alive) + 1) // 2])
            walks = walks._replace(runs=tuple(r for i, r in enumerate(walks.runs) if i in kept))
            alive = [c for i, c in enumerate(alive) if i in kept]
    order = sorted(best, key=lambda c: best[c][0])
    risk, epochs, theta, offset = best[order[0]]
    if not np.isfinite(risk) or risk > hopeless > 0.0:
        raise ValueError(
            "No step was finite, or they led far away: give a smaller step, or step='auto'."
        )
    n_passes = epoch
    if refit:
        walks, n_passes = make(order[0]), epoch + epochs
        source = Rows(X, targets, visits)
        for e in range(epochs):
            walks, _ = _pass(walks, source, e, **watch)
        theta, offset = walks.runs[0].read()
    board = [(best[c][0], best[c][1], names[c]) for c in order]
    return Outcome(theta, offset, names[order[0]], epochs, n_passes, board, np.array(curves), path)


def _only(visits, learns):
    """The visits of some rows."""
    kept = learns[visits.rows]
    keys = None if visits.keys is None else visits.keys[kept]
    return Visits(visits.rows[kept], visits.weights[kept], keys, visits.repeats[kept])


def _pass(walks, source, epoch, before_pass=None, on_pass=None):
    if before_pass is not None:
        before_pass()
    for block in source.blocks(epoch):
        walks = walks.learn(block.X[block.rows], block.targets, block.weights, halve=False)
    return walks, on_pass is not None and on_pass(walks)


def on_stream(walks, X, targets, weights):
    """Learn rows in the order given; a whole weight repeats its row.

    What is far beyond all before counts as missing (`tunefree.robust`).
    """
    rows, importance = given_visits(weights).order(0)
    of_rows, of_targets = walks.guards
    return walks.take(of_rows.screen(X[rows]), of_targets.screen(targets[rows]), importance)
