"""The Reflectron's stochastic form: passes over rows in memory, and streams."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from tunefree.base.state_checks import require, same_form
from tunefree.core.warn import warn
from tunefree.engine.run import Rows, run
from tunefree.parts.families import Family, Matching
from tunefree.reflectron.bounds import reflectron_step
from tunefree.reflectron.constraints.rules import acts_on_entries, is_separable
from tunefree.reflectron.descent import DescentResult, Setup
from tunefree.reflectron.halving import HOPELESS, MULTIPLES, Halving, Pace, Run, better_half
from tunefree.reflectron.mirror import NONE, Batch
from tunefree.reflectron.stochastic_steps import Lazy, MiniBatches, stochastic
from tunefree.rows.order import Visits
from tunefree.rows.outliers import OutlierFilter

# Runs end after so many passes without progress, and at least as many as progress took.
_PATIENCE = 5


class Rule(NamedTuple):
    """What the runs of a model have in common."""

    setup: Setup

    def runs(self, d, k, unit=1.0):
        """Runs for rows in a unit; constraints hold in the user's unit."""
        setup, runs = self.setup, []
        weight = stochastic_weight(setup.family, setup.link)
        for configuration in setup.configurations:
            potential, constraint, scaled = *configuration[:2], configuration
            u = float(unit) if _is_scalable(configuration) else 1.0
            if constraint is not None and u != 1.0:
                scaled = configuration._replace(constraint=constraint.scaled(u))
            longer = max(1.0, _beta(potential)) * float(setup.settings.fit_intercept)
            how = setup.scheme, weight, longer, d, setup.settings.batch_size
            size = d if configuration.per_output else k * d
            for step, pace in paces(configuration, setup.link, longer, size):
                learner = stochastic(setup.link, scaled._replace(step=step), *how)
                runs.append(Run(configuration._replace(step=step), learner, None, pace, u))
        return runs

    def stream(self, d, k, start, is_open):
        """The runs of a stream."""
        if is_open and any(map(_is_coupled, self.setup.configurations)):
            raise ValueError(
                "This potential or constraint couples the outputs, so that all must be known: "
                "announce all classes in the first call of partial_fit (classes=), or give "
                "per_output=True."
            )
        halving = Halving.begin(self.runs(d, k), d, k, start)
        start = start if self.setup.settings.standardize else None
        return halving._replace(is_open=is_open, start=start)

    def scan(self, halving, block):
        """Learn rows of a stream; outliers count as missing."""
        of_rows, of_targets = halving.guards
        X, targets = of_rows.screen(block.X[block.rows]), of_targets.screen(block.targets)
        return self.measured(halving.take(X, targets, block.weights))

    def turn(self, halving):
        """Nothing: where a chunk ends makes no difference."""
        return halving, False

    def measured(self, halving, now=False):
        """The stream in its unit, once known (or assumed, with `now`), after its waiting rows."""
        unit = None if halving.start is None else halving.unit(now)
        if unit is None:
            return halving
        d, k = len(halving.guards[0].centre), halving.n_outputs()
        fresh = Halving.begin(self.runs(d, k, unit), d, k, halving.start)
        fresh = fresh._replace(guards=halving.guards, is_open=halving.is_open, tally=halving.tally)
        for rows in halving.waiting:
            fresh = fresh.learn(*rows)
        return fresh

    def read(self, stream):
        """Coefficients and intercepts of the best run, and (risk, rows, configuration) of all."""
        halving: Any = self.measured(stream, now=True)
        runs = sorted(halving.runs, key=lambda run: run.risk())
        board = [(run.risk(), halving.seen, run.configuration) for run in runs]
        theta, offset = runs[0].read()
        if halving.diverged(runs[0]):
            theta, offset = halving.constant()
            warn(
                "Every step of this stream diverged, and predictions are the mean of the targets "
                "so far: give smaller steps, or targets in units in which they are near 1.",
                ConvergenceWarning,
            )
        elif halving.beaten(runs[0]):
            warn(
                "The targets' mean would have predicted this stream better than every step: "
                "give smaller steps, or rows in random order.",
                ConvergenceWarning,
            )
        n = len(theta) - stream.is_open
        return theta[:n], offset[:n], board


def _is_coupled(configuration):
    """Whether an output's parameters depend on the other outputs."""
    potential, constraint, _, per_output = configuration
    alone = is_separable(potential) and acts_on_entries(constraint, potential)
    return not (per_output or alone)


def _is_scalable(configuration):
    """Whether a geometry is the same in other units of the rows; that of the simplex is not."""
    constraint = configuration.constraint
    return not getattr(configuration.potential, "simplex", False) and (
        constraint is None or hasattr(constraint, "scaled")
    )


def _beta(potential):
    """The beta of a hypentropy of entries, groups or singular values; 0 of other potentials."""
    of = getattr(potential, "of", getattr(potential, "base", potential))
    return float(getattr(of, "beta", 0.0))


def paces(configuration, link, longer, size):
    """(Step, pace) of a fixed step, or of several multiples of the automatic one.

    `longer` is how much longer the steps of an intercept are, and `size` counts the coefficients on
    which the potential acts. The automatic step ignores the constraint, so that one which is not
    active changes nothing. If the convexity of a potential is unknown, one of the multiples must
    fit.
    """
    potential, step = configuration.potential, configuration.step
    if step is not None:
        return [(step, Pace(step))]
    bound = link.bound() if hasattr(link, "bound") else 1.0
    sigma, p = 0.0, 2.0
    if hasattr(potential, "convexity"):
        sigma, p = potential.convexity(size, np.inf)
    base = reflectron_step(1.0, bound, convexity=sigma or 1.0, theorem="5.2")
    # A hypentropy's parameters change hypot(x, beta) times as much as their duals.
    exponent, beta = np.inf if p == 1.0 else p / (p - 1.0), _beta(potential)
    return [
        (f"auto x {m:g}", Pace(None, m * base, exponent, longer, euclidean=beta)) for m in MULTIPLES
    ]


def check_halving(halving, d):
    """Refuse runs from a file if their arrays do not have the form that kernels need."""
    require(type(halving) is Halving and len(halving.runs) > 0 and type(halving.is_open) is bool)
    k = halving.n_outputs()
    require(
        same_form(halving.guards, (OutlierFilter.of(np.zeros(d)), OutlierFilter.of(np.zeros(k))))
    )
    require(same_form(halving.tally, np.zeros((3, k))))
    require(type(halving.start) in (tuple, type(None)) and type(halving.waiting) is tuple)
    for X, targets, weights in halving.waiting:
        require(X.shape == (len(weights), d) and targets.shape == (len(weights), k))
    for each in halving.runs:
        require(type(each) is Run and type(each.learner) in (Lazy, MiniBatches))
        state, fresh = each.state, each.learner.init(d, k)
        if type(each.learner) is MiniBatches:
            require(all(w[0].shape[1] == d for w in state.waiting))
            state = state._replace(waiting=())
        require(same_form(state, fresh))


class Best(NamedTuple):
    """The pass with a run's lowest risk, and the parameters after it."""

    risk: float
    epoch: int
    theta: np.ndarray
    offset: np.ndarray


@dataclasses.dataclass
class Epochs:
    """Runs after some passes."""

    halving: Halving
    alive: list  # numbers of the runs that continue
    best: dict  # the `Best` of each run
    marks: dict  # risk and pass of the last progress of each run
    curves: list  # risks after every pass, NaN after a run's end


class Passes(NamedTuple):
    """Parallel runs until the hold-out risk stops falling; half of them end at passes 1, 2, 4, ...

    Without `measure`, (theta, offset) -> risk, all passes are made. Without `choosing` the last
    pass is read.
    """

    measure: Any = None
    tol: float = 0.0
    choosing: bool = True

    def init(self, halving):
        """The state before the first pass."""
        return Epochs(halving, list(range(len(halving.runs))), {}, {}, [])

    def scan(self, state, block):
        """Learn a block; the state is consumed."""
        X = block.X[block.rows]
        state.halving = state.halving.learn(X, block.targets, block.weights, halve=False)
        return state

    def turn(self, state):
        """Measure the runs; end those that fall behind."""
        if self.measure is None:
            return state, False
        alive, best, marks = state.alive, state.best, state.marks
        epoch = len(state.curves) + 1
        curve = np.full(len(state.curves[0] if state.curves else alive), np.nan)
        for c, each in zip(alive, state.halving.runs, strict=True):
            theta, offset = each.read()
            curve[c] = self.measure(theta, offset) if np.isfinite(each.risk()) else np.inf
            if c not in best or curve[c] < best[c].risk or not self.choosing:
                best[c] = Best(float(curve[c]), epoch, theta, offset)
            if c not in marks or curve[c] < (1.0 - self.tol) * marks[c][0]:
                marks[c] = float(curve[c]), epoch
        state.curves.append(curve)
        latest = max(marks[c][1] for c in alive)
        done = epoch - latest >= max(_PATIENCE, latest)
        if not done and len(alive) > 1 and epoch & (epoch - 1) == 0:
            better = better_half([best[c].risk for c in alive])
            state.halving, state.alive = state.halving.only(better), [alive[i] for i in better]
        return state, done


def descend_in_steps(problem, progress):
    """Learn from some rows until the risk on the others stops falling; then again from all rows."""
    setup, settings, k, d = problem.setup, problem.setup.settings, *problem.shape
    centred = settings.fit_intercept and not sparse.issparse(problem.X)
    columns = problem.units(problem.X[problem.rows], centred)
    Z, start = columns.rows(problem.X), _start(problem, columns)
    measure, runs = _risk(setup.link, *_measured(problem, columns, Z)), Rule(setup).runs(d, k)
    most, begun = settings.most_passes, Halving.begin(runs, d, k, start)
    passes, watch = Passes(measure, settings.tol, problem.choosing), progress.passes(2 * most)
    source = Rows(Z, problem.targets, _learned(problem))
    hopeless = HOPELESS * measure(*begun.runs[0].read())
    found = run(passes, passes.init(begun), source, max_passes=most, **watch)
    best, n_passes = found.state.best, found.n_passes
    order = sorted(best, key=lambda c: best[c].risk)
    chosen = best[order[0]]
    if not np.isfinite(chosen.risk) or chosen.risk > hopeless > 0.0:
        raise ValueError(
            "No step was finite, or all diverged: give a smaller step, or step='auto'."
        )
    theta, offset = chosen.theta, chosen.offset
    if problem.choosing and problem.validation is None:
        again, ended = Passes(), watch.get("on_pass")
        if ended is not None:  # callbacks are called, but do not stop these passes
            watch = watch | {"on_pass": lambda state: ended(state) and False}
        fresh = again.init(Halving.begin([runs[order[0]]], d, k, start))
        source = Rows(Z, problem.targets, problem.visits)
        last = run(again, fresh, source, max_passes=chosen.epoch, **watch)
        n_passes += last.n_passes
        theta, offset = last.state.halving.runs[0].read()
    board = [(best[c].risk, best[c].epoch, runs[c].configuration) for c in order]
    trace = {"held_risk": np.array(found.state.curves)}
    law = setup.family, setup.link
    return DescentResult(theta, offset, board, trace, n_passes, *law, columns)


def _start(problem, columns):
    """Where to start: that of the member without held-out rows."""
    batch = Batch(None, problem.targets[problem.rows], problem.weights, problem.held)
    theta, offset = problem.setup.start(columns, batch, problem.members)
    return theta, offset if offset is None else np.reshape(offset, (-1, problem.shape[0]))[-1]


def _measured(problem, columns, Z):
    """Rows, targets and weights on which the risk is measured."""
    if problem.validation is not None:
        X, *others = problem.validation
        return columns.rows(X), *others
    held = problem.held > NONE if problem.choosing else slice(None)
    return Z[problem.rows[held]], problem.targets[problem.rows[held]], problem.weights[held]


def _learned(problem):
    """The visits of the rows that are not held out."""
    learns = np.zeros(len(problem.targets), bool)
    learns[problem.rows[problem.held == NONE]] = True
    chosen = learns[problem.visits.rows]
    kept: Any = (None if field is None else field[chosen] for field in problem.visits)
    return Visits(*kept)


def _risk(link, X, targets, weights):
    """The mean squared error as a function of coefficients and intercepts."""

    def measure(theta, offset):
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(link.mean(X @ theta.T + offset) - targets).sum(axis=1)
        return float(weights @ squares / weights.sum())

    return measure


class Score(NamedTuple):
    """The weight u'(s) / V(u(s)) that makes residuals the score of a family, at margins s."""

    family: Any
    link: Any

    def __call__(self, margins):
        """The weights."""
        mean = self.family.clipped(self.link.mean(margins))
        return self.link.slope(margins) / self.family.variance(mean)


def stochastic_weight(family, link):
    """The weight of residuals that makes stochastic steps follow a family's score."""
    if isinstance(family, Matching):
        return None
    batch = family.tied or type(family).residuals is not Family.residuals
    if batch or family.exposure is None:
        raise ValueError(f"family={family!r} needs all rows at once: use fit.")
    own = family.canonical is not None and isinstance(link, family.canonical)
    return None if own else Score(family, link)
