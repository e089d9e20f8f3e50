"""Mirror descent on rows in memory: settings, geometries, the problem, the learner, the result."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tunefree.base.exposures import Terms
from tunefree.base.progress import NO_PROGRESS
from tunefree.core.parameters import seed_of
from tunefree.core.process import check_memory
from tunefree.core.protocols import Seed
from tunefree.core.warn import none_of, warn
from tunefree.engine.run import Batches, run
from tunefree.parts import averaging
from tunefree.parts.families import Family, Matching
from tunefree.parts.links import LINKS, Exp, check_increasing, index_of_mean
from tunefree.reflectron.alphatron import KernelMap
from tunefree.reflectron.choice import (
    MOST_COLUMNS,
    Task,
    n_pilot_rows,
    select_family,
    with_default_geometries,
)
from tunefree.reflectron.constraints import CONSTRAINTS
from tunefree.reflectron.constraints.rules import is_odd, is_separable
from tunefree.reflectron.mirror import (
    NONE,
    Batch,
    Configuration,
    Mirror,
    PlainSteps,
    of_singular_values,
)
from tunefree.reflectron.potentials import POTENTIALS, Euclidean, Hypentropy
from tunefree.reflectron.subspace import LowRank
from tunefree.rows.levels import Levels
from tunefree.rows.matrices import take
from tunefree.rows.order import hashed_visits, in_order
from tunefree.rows.outliers import drop_outliers, limits_of_columns
from tunefree.rows.units import Among, Units

# The candidates of potential='auto'.
AUTO = (Euclidean(), *(Hypentropy(beta) for beta in (1e-4, 1e-6, 1e-8, 1e-12)))
SOLVERS = "auto", "batch", "stochastic"
# Of fewer distinct rows none are held out.
_FEWEST_ROWS = 2
# n_splits='auto' has several folds below _FEW_ROWS, where one fold is too small to choose by; for
# families, which need few passes, below _MANY_ROWS.
_FEW_ROWS, _SPLITS, _MANY_ROWS = 1000, 5, 20_000
_SHARE = 0.2
_MOST_PASSES = 1000  # of max_iter='auto'
# Bytes of a fit for each column and target.
_WIDE_BYTES = 5500.0
# The patience of a configuration that another has overtaken is divided by this.
_BEHIND = 2


class Settings(NamedTuple):
    """The settings of mirror descent; estimators show some of them as parameters."""

    potential: Any = "auto"
    constraint: Any = None
    step: Any = "auto"
    solver: str = "auto"
    average: Any = "auto"
    batch_size: int = 1
    feature_map: Any = None
    validation_fraction: float | str = "auto"
    n_splits: int | str = "auto"
    patience: int = 50  # accepted steps without progress before a configuration ends
    tol: float = 1e-3
    max_iter: int | str = "auto"
    fit_intercept: bool = True
    standardize: bool | str = "auto"
    per_output: bool = False
    warm_start: bool = False
    random_state: Seed = None

    @classmethod
    def of(cls, estimator, **others):
        """The settings that an estimator has, and others."""
        own = {name: value for name, value in vars(estimator).items() if name in cls._fields}
        return cls(**own | others)

    @property
    def most_passes(self):
        """The largest number of passes."""
        return _MOST_PASSES if isinstance(self.max_iter, str) else self.max_iter

    def check(self):
        """Refuse values that mean nothing."""
        if self.solver not in SOLVERS:
            raise none_of("solver", self.solver, SOLVERS)
        known = self.potential in ("auto", "euclidean", Euclidean())
        if self.feature_map is not None and not known:
            raise ValueError("feature_map= needs potential='euclidean' (the Alphatron).")

    def folds(self, n_rows, n_splits):
        """The `HeldOutFolds` of the rows."""
        share: Any = self.validation_fraction
        if n_splits == "auto":
            n_splits = _SPLITS if n_rows < _FEW_ROWS else 1
        if share == "auto":
            share = min(_SHARE, 1.0 / n_splits)
        if share == 0.0 or n_rows < _FEWEST_ROWS:
            return HeldOutFolds(1, 0)
        return HeldOutFolds(max(2, round(1.0 / share)), n_splits)


class HeldOutFolds(NamedTuple):
    """The number of folds of the rows, and how many of these are held out, one after another."""

    number: int
    n_splits: int

    def members(self, order):
        """The member that rows numbered in this order are held out from; the first learns all."""
        fold = order % self.number
        return np.where(fold < self.n_splits, fold + 1, NONE)


class PlainRows(NamedTuple):
    """Rows of X as rows of a design, one for each row of targets."""

    def units(self, X, *arguments):
        """The units of the columns."""
        return Units.of(X, *arguments)

    def batch(self, columns, X, targets, weights, held, offset=None, own=False):
        """A batch of rows; `own` rows may be overwritten."""
        return Batch(columns.design(X, own), targets, weights, held, offset)


class Setup(NamedTuple):
    """What is to be learned, and how: the model, its geometries and the checked settings."""

    family: Any
    link: Any
    configurations: tuple
    settings: Settings
    scheme: Any  # the averages of stochastic steps; None reads the last iterate
    learned_link: str | None = None  # 'learned' or 'auto'; None keeps the link
    last_fit: Any = None  # (coef, intercept) to start from, in the user's units
    steps: Any = PlainSteps()
    samples: Any = PlainRows()

    @classmethod
    def of(cls, law, settings, *, stochastic=False, auto=AUTO, **others):
        """The setup for a family and a link; `auto` are the potentials of 'auto'."""
        settings.check()
        family, link = law
        check_increasing(link)
        configurations = combinations(
            settings.potential if settings.feature_map is None else Euclidean(),
            settings.constraint,
            settings.step,
            settings.per_output,
            auto,
        )
        if (stochastic or settings.solver == "stochastic") and link == LINKS["log"]:
            link = LINKS["exp"]  # a step is computed from the bound, and that of 'log' is too large
        return cls(family, link, configurations, settings, scheme_of(settings.average), **others)

    def check_choice(self, choosing, n_rows):
        """Refuse several configurations where nothing is held out to choose by."""
        # With very few rows none are held out: the training risk chooses.
        if not choosing and n_rows >= _FEWEST_ROWS and len(self.configurations) > 1:
            raise ValueError(
                f"Choosing among {len(self.configurations)} configurations needs rows held out: "
                "give X_val and y_val, a positive validation_fraction, or a single potential, "
                "constraint and step."
            )

    def learner(self, members, choosing):
        """The batch learner."""
        settings = self.settings
        return Mirror(
            self.link,
            self.configurations,
            intercept=settings.fit_intercept,
            members=members,
            patience=settings.patience,
            behind=max(1, settings.patience // _BEHIND),
            tol=settings.tol,
            last=not choosing,
            family=None if isinstance(self.family, Matching) else self.family,
            steps=self.steps,
        )

    def folds(self, n_rows):
        """The `HeldOutFolds` of rows in memory."""
        settings, n_splits = self.settings, self.settings.n_splits
        if settings.solver == "stochastic":
            n_splits = 1
        elif n_splits == "auto" and n_rows < _MANY_ROWS and not isinstance(self.family, Matching):
            n_splits = _SPLITS
        return settings.folds(n_rows, n_splits)

    def with_geometries(self, learner, shape):
        """The learner with the default geometries, unless these are named."""
        named = self.settings.potential != "auto" or self.settings.per_output
        return learner if named else with_default_geometries(learner, shape)

    def in_units(self, columns):
        """The same for these columns: bounds in their units, groups of their levels."""
        configurations = []
        for c in self.configurations:
            if hasattr(c.constraint, "in_units"):
                c = c._replace(constraint=c.constraint.in_units(columns.scale))
            levels = columns.levels
            if hasattr(c.potential, "grouped_as") and levels is not None:
                n = len(columns.scale) - sum(levels.sizes) + len(levels.sizes)
                c = c._replace(potential=c.potential.grouped_as(levels.groups(n)))
            configurations.append(c)
        return self._replace(configurations=tuple(configurations))

    def start(self, columns, batch, members):
        """Parameters and intercepts to start from, in the units of the columns."""
        family, link = self.family, self.link
        if self.last_fit is not None:
            return self._last_start(columns, batch.targets.shape[1])
        if not self.settings.fit_intercept:
            return None, None
        learns = batch.weights * (batch.held != np.arange(members)[:, None])
        if type(family).start is Family.start:
            mean = learns @ batch.targets / learns.sum(axis=1, keepdims=True)
        else:
            mean = np.array([family.start(batch.targets, each) for each in learns])
        if batch.offset is None:
            return None, index_of_mean(link, mean)
        if isinstance(link, Exp):  # the mean rate
            mean = mean / np.average(link.mean(batch.offset), weights=batch.weights)
            return None, index_of_mean(link, mean)
        index = index_of_mean(link, mean)
        middle = np.average(batch.offset, axis=0, weights=batch.weights)
        return None, None if index is None else index - middle

    def _last_start(self, columns, k):
        """The coefficients and intercepts of the last fit, in the units of the columns."""
        coef, intercept = (np.asarray(a, dtype=np.float64) for a in self.last_fit)
        d = len(columns.scale)
        if self.family.tied and coef.size == d:
            coef = np.repeat(coef.reshape(1, d), k, axis=0)
        if coef.size != k * d:
            raise ValueError(
                f"warm_start=True: the last fit has {coef.size} coefficients, but {k} outputs of "
                f"{d} features have {k * d}."
            )
        coef = coef.reshape(k, d)
        return coef * columns.scale, intercept.reshape(-1) + coef @ columns.centre


class Training(NamedTuple):
    """The checked rows of a fit; the same share of each of the `strata` is held out."""

    X: Any
    targets: np.ndarray
    weights: np.ndarray
    strata: Any = None
    validation: tuple | None = None  # rows, targets and weights to choose by
    offset: Any = None  # added to the indices of rows
    exposure: Any = None  # of which targets and weights are per unit
    groups: Any = None  # of rows that are held out together, in place of strata
    levels: Levels | None = None  # of columns of categories
    limited: bool = False  # whether columns and predictions get limits

    def positive(self):
        """The rows of positive weight."""
        used = self.weights > 0.0
        if used.all():
            return self
        names = ("X", "targets", "weights", "strata", "offset", "exposure", "groups")
        rows = {name: getattr(self, name) for name in names}
        return self._replace(**{n: a[used] for n, a in rows.items() if a is not None})


class DescentProblem(NamedTuple):
    """The rows of a fit, and what is to be learned from them."""

    setup: Setup
    X: Any
    targets: np.ndarray
    visits: Any
    rows: np.ndarray  # numbers of the distinct rows
    weights: np.ndarray  # their total weights
    held: np.ndarray  # the member that each distinct row is held out from, or NONE
    validation: tuple | None  # rows, targets and weights to choose by
    offset: Any  # of the margins of the distinct rows
    terms: Any  # `Terms` of rows with an exposure or an offset
    among: Any  # `Among` of the columns of X where empty columns were dropped
    features: Any  # the fitted map of rows to X
    levels: Levels | None
    limits: tuple  # of columns, and of predictions; or None

    @property
    def width(self):
        """The number of columns, dropped ones included."""
        return self.X.shape[1] if self.among is None else self.among.width

    @property
    def shape(self):
        """The numbers of outputs and of columns."""
        return self.targets.shape[1], self.X.shape[1]

    @property
    def choosing(self):
        """Whether there are rows to choose by."""
        return self.validation is not None or bool(self.held.max() > NONE)

    @property
    def members(self):
        """The number of members: one that learns from all rows, and one for each fold."""
        return 1 + max(0, self.held.max())

    def units(self, X, centred):
        """The units of the columns."""
        settings = self.setup.settings
        scaled = settings.standardize and settings.feature_map is None
        columns = self.setup.samples.units(X, self.weights, centred, scaled, self.levels)
        return columns._replace(among=self.among)


def pose(setup, training):
    """The `DescentProblem`: the distinct rows, and which of them are held out."""
    X, targets, settings = training.X, training.targets, setup.settings
    among = columns_with_entries(setup, X)
    n_columns = X.shape[1] if among is None else len(among.places)
    check_memory(
        _WIDE_BYTES * n_columns * targets.shape[1],
        f"A fit of {n_columns} columns and {targets.shape[1]} targets",
        "Hash or select columns, or take PiSTOL*.",
    )
    X, targets, weights, strata, validation, offset, exposure, groups, *_ = training.positive()
    seed = seed_of(settings.random_state)
    hashed = targets if offset is None else np.column_stack([targets, offset])
    visits = hashed_visits(X, hashed, weights, seed)
    rows, distinct_weights = visits.unique()
    terms = None
    if exposure is not None or offset is not None:
        terms = Terms.of(X, hashed, weights, seed, rows, exposure)
    if settings.standardize:
        X, targets = drop_outliers(X, targets, rows, (training.X, training.targets))
    limits = None, None
    if training.limited:
        low, high = targets[rows].min(axis=0), targets[rows].max(axis=0)
        inputs = limits_of_columns(X) if settings.standardize else None
        limits = inputs, np.stack([2.0 * low - high, 2.0 * high - low])
    features: Any = None
    if settings.feature_map is not None:
        features = KernelMap.of(
            settings.feature_map, X[rows], distinct_weights, settings.standardize, seed
        )
    view: Any = features or among
    if view is not None:
        X = view.transform(X)
        validation = validation and (view.transform(validation[0]), *validation[1:])
    held = np.full(len(rows), NONE)
    if validation is None:
        parts = (None if a is None else a[rows] for a in (strata, groups))
        held = setup.folds(len(rows)).members(fold_order(len(rows), *parts))
    problem = DescentProblem(
        setup, X, targets, visits, rows, distinct_weights, held, validation,
        None if offset is None else offset[rows], terms, among, features, training.levels, limits,
    )  # fmt: skip
    setup.check_choice(problem.choosing, len(rows))
    return problem


def columns_with_entries(setup, X):
    """The columns that have an entry, if it is enough to learn these; else None."""
    settings = setup.settings
    plain = settings.solver != "stochastic" and settings.feature_map is None
    is_wide = X.shape[1] > MOST_COLUMNS  # with fewer, the metric includes empty columns
    wanted = plain and is_wide and not settings.warm_start and keeps_zeros(setup.configurations)
    return Among.of(X) if wanted else None


def fold_order(n_rows, strata=None, groups=None):
    """Rows numbered through one stratum after another, or groups numbered by their first rows."""
    if groups is not None and groups.min() < groups.max():
        return in_order(groups)
    order = np.arange(n_rows)
    if strata is not None:
        order[np.argsort(strata, kind="stable")] = np.arange(n_rows)
    return order


class DescentResult(NamedTuple):
    """The result of a fit; parameters are in the units of the columns."""

    theta: np.ndarray
    offset: np.ndarray
    board: list  # (risk, time, configuration) of all configurations, the best first
    trace: dict
    n_iter: int
    family: Any
    link: Any
    columns: Any  # their `Units`

    @property
    def parts(self):
        """The potential and the constraint of the best configuration."""
        potential, constraint = self.board[0][2][:2]
        # Without the metric of the rows.
        unbound = getattr(potential, "unbound", lambda: potential)
        return unbound(), constraint

    def shrunk(self, share, null):
        """The result, shrunk to the null model's indices by the factor `share` of each output."""
        offset = null + share * (self.offset - null)
        return self._replace(theta=self.theta * share[:, None], offset=offset)

    def coefficients(self, dtype):
        """Coefficients and intercepts in the user's units."""
        theta = self.theta[:1] if self.family.tied else self.theta
        coef = theta / self.columns.scale
        intercept = (self.offset - coef @ self.columns.centre).astype(dtype)
        return self.columns.whole(coef.astype(dtype)), intercept


class HeldOut(NamedTuple):
    """Rows held out of a fit, or validation rows."""

    batch: Batch
    rows: np.ndarray  # their positions in the batch
    indices: Any  # by the members that did not learn them; None where nothing is held out
    fitted: np.ndarray  # indices of all rows of the batch, by the result

    @classmethod
    def of(cls, batch, result, learner, state):
        """The rows held out of a batch, or the whole batch if it is for validation."""
        rows = np.flatnonzero(np.broadcast_to(batch.held, len(batch.targets)) != NONE)
        several = np.ndim(getattr(result.family, "levels", 0))  # quantiles, which are intervals
        indices = None
        if len(rows) and not several:
            indices = learner.held_out(state, batch)[rows]
        return cls(batch, rows, indices, batch.indices(result.theta, result.offset))

    @property
    def targets(self):
        """Their targets."""
        return self.batch.targets[self.rows]

    @property
    def weights(self):
        """Their weights."""
        return self.batch.weights[self.rows]


def descend(problem, progress=NO_PROGRESS):
    """Full batches: the `DescentResult`, and the `HeldOut` rows of it."""
    setup, samples = problem.setup, problem.setup.samples
    X, targets = take(problem.X, problem.rows), problem.targets[problem.rows]
    columns = problem.units(X, setup.settings.fit_intercept)
    own = targets, problem.weights, problem.held, problem.offset
    batches = [samples.batch(columns, X, *own, own=True)]
    if problem.validation is not None:
        batches.append(samples.batch(columns, *problem.validation, held=0))
    start, design = setup.start(columns, batches[0], problem.members), batches[0].design
    setup = setup.in_units(columns)
    learner = setup.learner(problem.members, problem.choosing)
    learner = learner.with_metric(design, problem.weights, problem.weights.sum())
    k, most_passes = batches[0].targets.shape[1], setup.settings.most_passes
    descent = Descent(columns, k, problem.X.dtype, most_passes, progress)

    def follow(learner, start, batches, most=None):
        return descent.follow(learner, start, Batches(tuple(batches)), most)

    if learner.family is None:
        result, state = follow(learner, start, batches)
    else:
        shape = design.shape[0], problem.width
        learner = setup.with_geometries(learner, shape)

        def start_with(link):
            if link is setup.link:
                return start
            return setup._replace(link=link).start(columns, batches[0], problem.members)

        n_pilot = n_pilot_rows(learner, shape) if problem.validation is None else 0
        pilot = batches[0].part(slice(0, n_pilot)) if n_pilot else None
        task = Task(batches, pilot, setup.learned_link, start_with, follow)
        result, learner, state = select_family(learner, task)
    return result, HeldOut.of(batches[-1], result, learner, state)


class Descent(NamedTuple):
    """How to pass over rows, and the form of the result."""

    columns: Units
    k: int  # outputs
    dtype: Any
    most_passes: int
    progress: Any = NO_PROGRESS
    run: Any = run
    on_block: Any = None

    def follow(self, learner, start, source, most=None):
        """Pass over a source, `most` times at most: the `DescentResult` and the last state."""
        state = learner.init(len(self.columns.scale), self.k, *start)
        law = learner.family or Matching(), learner.link

        def result_of(state, board, trace, n_iter):
            theta, offset = learner.read(state)
            return DescentResult(theta, offset, board, trace, n_iter, *law, self.columns)

        def publish(model, state):
            model._predict_with(result_of(state, [], {}, 0), self.dtype)

        limit = self.most_passes
        found = self.run(
            learner,
            state,
            source,
            max_passes=limit if most is None else min(most, limit),
            on_block=self.on_block,
            **self.progress.passes(limit, publish),
        )
        state = found.state
        if not np.isfinite(state.score).any():
            raise ValueError("No step was finite: give a smaller step, or step='auto'.")
        if learner.last and not (found.converged or found.stopped):
            warn(
                f"{limit} passes were not enough for the risk to settle: give a larger max_iter.",
                ConvergenceWarning,
            )
        board = [
            (float(state.score[c]), float(state.best_time[c]), learner.configurations[c])
            for c in np.argsort(state.score, kind="stable")
        ]
        trace = {name: np.array([t[name] for t in found.trace]) for name in found.trace[0]}
        return result_of(state, board, trace, found.n_passes), state


def leaderboard(board):
    """The configurations of a board, as users see them."""
    return [
        {
            "potential": repr(configuration.potential),
            "constraint": repr(configuration.constraint),
            "step": configuration.step or "auto",
            "risk": risk,
            "time": time,
        }
        for risk, time, configuration in board
    ]


# ---------------------------------------------------------------- geometries and steps


def combinations(potential, constraint, step, per_output=False, auto=AUTO):
    """Every combination of potential, constraint and step (None and names included)."""
    potentials = []
    for p in _listed(potential):
        if isinstance(p, str) and p == "auto":
            potentials += auto
        else:
            potentials.append(POTENTIALS.find(p, ["auto"]))
    constraints = [c if c is None else CONSTRAINTS.find(c) for c in _listed(constraint)]
    steps = []
    for s in _listed(step):
        is_number = isinstance(s, int | float) and 0.0 < s < np.inf
        if not is_number and s != "auto":
            raise ValueError(f"step={s!r} is neither 'auto' nor a positive number.")
        steps.append(float(s) if is_number else None)
    return tuple(
        LowRank(*each)
        if of_singular_values(*each[:2]) and not per_output
        else Configuration(*each, per_output)
        for each in product(potentials, constraints, steps)
    )


def scheme_of(average):
    """The averaging scheme of a name; None for 'last'."""
    if isinstance(average, str) and average == "last":
        return None
    if isinstance(average, str) and average == "auto":
        return averaging.Uniform()
    return averaging.scheme_of(average, also=["auto", "last"], online=True)


def _listed(value):
    return list(value) if isinstance(value, list) or type(value) is tuple else [value]


def keeps_zeros(configurations):
    """Whether a column without an entry has the coefficient 0, and affects no other column."""
    return all(
        is_separable(c.potential) and is_odd(c.potential) and c.constraint is None
        for c in configurations
    )
