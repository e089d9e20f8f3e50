"""Mirror descent on rows in memory: settings, geometries, the problem, the learner, the result."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tunefree import averaging
from tunefree._parameters import seed_of
from tunefree._process import check_memory
from tunefree._warn import warn
from tunefree.bounds import reflectron_step
from tunefree.constraints import CONSTRAINTS
from tunefree.constraints.rules import is_odd, is_separable
from tunefree.data.levels import Levels
from tunefree.data.order import hashed_visits
from tunefree.data.units import Among, Units
from tunefree.designs import SPACE, Dense, moved, take
from tunefree.engine.run import Batches, run
from tunefree.estimators.exposures import Terms
from tunefree.estimators.fitting import NO_PROGRESS
from tunefree.estimators.reflectron.feature_maps import fitted_map, is_kernel
from tunefree.families import Family, Matching
from tunefree.learners.reflectron.mirror import (
    NONE,
    Batch,
    Configuration,
    Mirror,
    PlainSteps,
    bound,
    of_singular_values,
)
from tunefree.learners.reflectron.subspace import LowRank
from tunefree.links import LINKS, check_increasing, target_margin
from tunefree.potentials import POTENTIALS, Euclidean, Hypentropy
from tunefree.protocols import Seed
from tunefree.robust import drop_outliers, limits_of_columns
from tunefree.select.families import (
    MOST_COLUMNS,
    Task,
    n_pilot_rows,
    select_family,
    with_default_geometries,
)
from tunefree.uncertainty.intervals import in_order

# The candidates of potential='auto'.
AUTO = (Euclidean(), *(Hypentropy(beta) for beta in (1e-4, 1e-6, 1e-8, 1e-12)))
# Steps by name: the theorems of Boffi, Tu and Slotine 2021.
THEOREMS = {"theorem-4.1": "4.1", "theorem-5.1": "5.1", "theorem-5.2": "5.2"}
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

    @property
    def has_kernel(self):
        """Whether the features are those of a kernel."""
        return self.feature_map is not None and is_kernel(self.feature_map)

    def check(self):
        """Refuse values that mean nothing."""
        share: Any = self.validation_fraction
        if share != "auto" and not (isinstance(share, int | float) and 0.0 <= share < 1.0):
            raise ValueError(f"validation_fraction={share!r} is neither 'auto' nor in [0, 1).")
        if self.standardize not in (True, False, "auto"):
            raise ValueError(f"standardize={self.standardize!r} is neither a bool nor 'auto'.")
        for name in ("max_iter", "patience", "n_splits", "batch_size"):
            value = getattr(self, name)
            if name in ("max_iter", "n_splits") and value == "auto":
                continue
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}={value!r} is not a positive integer.")
        if self.solver not in ("auto", "batch", "stochastic"):
            raise ValueError(f"solver={self.solver!r} is none of auto, batch, stochastic.")
        euclidean = isinstance(self.potential, Euclidean) or (
            isinstance(self.potential, str) and self.potential in ("auto", "euclidean")
        )
        if self.has_kernel and not euclidean:
            raise ValueError(
                "A kernel as feature_map needs potential='euclidean' (the Alphatron): for "
                "another potential give a feature_map that returns features."
            )

    def folds(self, n_rows, n_splits):
        """The number of folds of the rows, and how many of these are held out."""
        share: Any = self.validation_fraction
        if n_splits == "auto":
            n_splits = _SPLITS if n_rows < _FEW_ROWS else 1
        if share == "auto":
            share = min(_SHARE, 1.0 / n_splits)
        if share == 0.0 or n_rows < _FEWEST_ROWS:
            return 1, 0
        return max(2, round(1.0 / share)), n_splits


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
    last_fit: tuple | None = None  # (coef, intercept) to start from, in the user's units
    steps: Any = PlainSteps()
    samples: Any = PlainRows()

    @classmethod
    def of(cls, law, settings, *, stochastic=False, auto=AUTO, **others):
        """The setup for a family and a link; `auto` are the potentials of 'auto'."""
        settings.check()
        family, link = law
        check_increasing(link)
        potential = Euclidean() if settings.has_kernel else settings.potential
        configurations = combinations(
            potential, settings.constraint, settings.step, settings.per_output, auto
        )
        named = [c.step for c in configurations if isinstance(c.step, str)]
        if named and not hasattr(link, "bound"):
            raise ValueError(f"step={named[0]!r} needs a link with a bound: give a number as step.")
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

    def with_geometries(self, learner, shape):
        """The learner with the default geometries, unless these are named."""
        settings = self.settings
        named = not isinstance(settings.potential, str) or settings.potential != "auto"
        if named or settings.per_output:
            return learner
        return with_default_geometries(learner, shape)

    def in_units(self, columns, design, k):
        """The same for these columns and `k` outputs: steps of theorems, bounds, groups."""
        configurations = []
        for c in self.configurations:
            if isinstance(c.step, str):
                c = c._replace(step=theorem_step(c, self, design, k))
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
        k, d = batch.targets.shape[1], len(columns.scale)
        if self.last_fit is not None:
            start = np.asarray(self.last_fit[0], dtype=np.float64)
            if family.tied and start.size == d:
                start = np.repeat(start.reshape(1, d), k, axis=0)
            if start.size != k * d:
                raise ValueError(
                    f"warm_start=True: the last fit has {start.size} coefficients, but {k} outputs "
                    f"of {d} features have {k * d}."
                )
            start = start.reshape(k, d)
            offset = np.reshape(self.last_fit[1], -1).astype(np.float64)
            return start * columns.scale, offset + start @ columns.centre
        if not self.settings.fit_intercept:
            return None, None
        learns = batch.weights * (batch.held != np.arange(members)[:, None])
        if type(family).start is Family.start:
            mean = learns @ batch.targets / learns.sum(axis=1, keepdims=True)
        else:
            mean = np.array([family.start(batch.targets, each) for each in learns])
        if batch.offset is not None:  # the mean rate, if the link is the logarithm
            mean = mean / np.average(link.mean(batch.offset), weights=batch.weights)
        low, high = link_range(link, (np.inf, -np.inf))
        inside = ((mean > low) & (mean < high)).all() and hasattr(link, "inverse")
        return None, target_margin(link, mean) if inside else None


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
        scaled = settings.standardize and not settings.has_kernel
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
    views = []
    if among is not None:
        views.append(lambda X: X[:, among.places])
    if settings.feature_map is not None:
        features = fitted_map(
            settings.feature_map, X, rows, distinct_weights, settings.standardize, seed
        )
        views.append(features.transform)
    for view in views:
        X = view(X)
        validation = validation and (view(validation[0]), *validation[1:])
    held = np.full(len(rows), NONE)
    if validation is None:
        parts = (None if a is None else a[rows] for a in (strata, groups))
        order = fold_order(len(rows), *parts)
        held = held_out_members(settings, order, _n_splits(setup, len(rows)))
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


def _n_splits(setup, n_rows):
    """How many folds are held out, one after another."""
    settings = setup.settings
    if settings.solver == "stochastic":
        return 1
    learns_family = not isinstance(setup.family, Matching)
    if settings.n_splits == "auto" and learns_family and n_rows < _MANY_ROWS:
        return _SPLITS
    return settings.n_splits


def fold_order(n_rows, strata=None, groups=None):
    """Rows numbered through one stratum after another, or groups numbered by their first rows."""
    if groups is not None and groups.min() < groups.max():
        return in_order(groups)
    order = np.arange(n_rows)
    if strata is not None:
        order[np.argsort(strata, kind="stable")] = np.arange(n_rows)
    return order


def held_out_members(settings, order, n_splits):
    """The member that each row is held out from; folds are assigned in this order."""
    every, n_splits = settings.folds(len(order), n_splits)
    return members_of(order % every, n_splits)


def members_of(folds, n_splits):
    """The member that rows of each fold are held out from: one for each of the first folds.

    The first member learns from all rows.
    """
    return np.where(folds < n_splits, folds + 1, NONE)


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
    setup, X = problem.setup, take(problem.X, problem.rows)
    targets, own = problem.targets[problem.rows], (problem.weights, problem.held)
    columns, dtype = problem.units(X, setup.settings.fit_intercept), problem.X.dtype
    samples = setup.samples
    batches = [samples.batch(columns, X, targets, *own, problem.offset, own=True)]
    if problem.validation is not None:
        batches.append(samples.batch(columns, *problem.validation, held=0))
    start, design = setup.start(columns, batches[0], problem.members), batches[0].design
    setup = setup.in_units(columns, design, targets.shape[1])
    learner = setup.learner(problem.members, problem.choosing)
    metric = bound(learner.configurations, design, problem.weights)
    learner = learner._replace(configurations=metric)
    if SPACE.get() is not None:
        batches = [
            b._replace(design=Dense(moved(b.design.values))) if isinstance(b.design, Dense) else b
            for b in batches
        ]

    def follow_batches(learner, start, batches, most=None):
        source, k = Batches(tuple(batches)), batches[0].targets.shape[1]
        return follow(setup, learner, source, columns, start, k, dtype, progress, most=most)

    if learner.family is None:
        result, state = follow_batches(learner, start, batches)
    else:
        shape = design.shape[0], problem.width
        learner = setup.with_geometries(learner, shape)

        def start_with(link):
            if link is setup.link:
                return start
            return setup._replace(link=link).start(columns, batches[0], problem.members)

        n_pilot = 0
        if problem.validation is None:
            n_pilot = n_pilot_rows(learner, shape)
        pilot = batches[0].part(slice(0, n_pilot)) if n_pilot else None
        task = Task(batches, pilot, setup.learned_link, start_with, follow_batches)
        result, learner, state = select_family(learner, task)
        result = result._replace(family=learner.family, link=learner.link)
    batch = batches[-1]
    rows = np.flatnonzero(np.broadcast_to(batch.held, len(batch.targets)) != NONE)
    fitted = batch.design.apply(np.ascontiguousarray(result.theta.T)) + result.offset
    measured = len(rows) and not np.ndim(getattr(result.family, "levels", 0))
    indices = learner.held_out(state, batch)[rows] if measured else None
    return result, HeldOut(batch, rows, indices, fitted)


def follow(
    setup,
    learner,
    source,
    columns,
    start,
    k,
    dtype,
    progress,
    *,
    most=None,
    run=run,
    on_block=None,
):
    """Pass over a source, `most` times at most: the `DescentResult` and the last state."""
    state = learner.init(len(columns.scale), k, *start)
    limit = setup.settings.most_passes
    most = limit if most is None else min(most, limit)
    law = learner.family or Matching(), learner.link

    def publish(model, state):
        theta, offset = learner.read(state)
        model._predict_with(DescentResult(theta, offset, [], {}, 0, *law, columns), dtype)

    watch = progress.passes(limit, publish)
    result = run(learner, state, source, max_passes=most, on_block=on_block, **watch)
    state = result.state
    if not np.isfinite(state.score).any():
        raise ValueError("No step was finite: give a smaller step, or step='auto'.")
    if learner.last and not (result.converged or result.stopped):
        warn(
            f"{limit} passes were not enough for the risk to settle: give a larger max_iter.",
            ConvergenceWarning,
        )
    board = [
        (float(state.score[c]), float(state.best_time[c]), learner.configurations[c])
        for c in np.argsort(state.score, kind="stable")
    ]
    trace = {name: np.array([t[name] for t in result.trace]) for name in result.trace[0]}
    theta, offset = learner.read(state)
    found = DescentResult(theta, offset, board, trace, result.n_passes, *law, columns)
    return found, state


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
        if isinstance(s, str) and (s == "auto" or s in THEOREMS):
            steps.append(None if s == "auto" else s)
        elif isinstance(s, int | float) and 0.0 < s < np.inf:
            steps.append(float(s))
        else:
            raise ValueError(
                f"step={s!r} is neither 'auto' nor a positive number nor one of "
                f"{', '.join(THEOREMS)}."
            )
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
        is_separable(c.potential)
        and is_odd(c.potential)
        and c.constraint is None
        and not isinstance(c.step, str)
        for c in configurations
    )


def strong_convexity(configuration, d, k=1) -> tuple[Any, float]:
    """Strong convexity (or None), and the exponent of the norm for rows."""
    potential, constraint, step, per_output = configuration
    size = d if per_output else k * d
    radius = getattr(constraint, "radius", getattr(constraint, "total", np.inf))
    if getattr(constraint, "p", 1.0) != 1.0:
        radius = np.inf
    sigma, p = None, 2.0
    if hasattr(potential, "convexity"):
        sigma, p = potential.convexity(size, radius)
    if isinstance(step, str) and not (sigma is not None and sigma > 0.0):
        raise ValueError(
            f"step={step!r} needs a strongly convex potential (hypentropy is one on an l1 ball: "
            f"give constraint=L1Ball(radius)), and {potential!r} with {constraint!r} is not: "
            "give step='auto' or a number."
        )
    return sigma, np.inf if p == 1.0 else p / (p - 1.0)


def theorem_step(configuration, setup, design, k):
    """The step of a theorem on these rows with `k` outputs."""
    sigma, exponent = strong_convexity(configuration, design.shape[1], k)
    norm = float(design.norms(exponent).max())
    if setup.settings.fit_intercept:  # one more column of ones, with the Euclidean potential
        norm, sigma = np.hypot(norm, 1.0), min(sigma, 1.0)
    name, rounds = THEOREMS[configuration.step], setup.settings.most_passes
    bound = setup.link.bound()
    return reflectron_step(norm, bound, convexity=sigma, theorem=name, rounds=rounds)


def link_of(link, default):
    """The part of a link's name; None is the default."""
    return LINKS[default] if link is None else LINKS.find(link)


def link_range(link, unknown=(-np.inf, np.inf)):
    """The range of a link or of the link of a name; `unknown` if it has none."""
    return getattr(LINKS.get(link) if isinstance(link, str) else link, "range", unknown)
