"""Mirror descent on rows in memory, sources and streams: what GLMs and Reflectrons share."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tunefree._parameters import seed_of
from tunefree._process import check_memory, product, workers
from tunefree._warn import warn
from tunefree.data.levels import Levels, coded
from tunefree.data.order import given_visits, hashed_visits, row_hash
from tunefree.data.units import Among, Units
from tunefree.designs import SPACE, Dense, moved, take
from tunefree.engine.run import Batches, Rows, run
from tunefree.engine.sources import open_source
from tunefree.estimators import base
from tunefree.estimators.exposures import Terms
from tunefree.estimators.fitting import CallbackSupport, TakesArrays, all_or_nothing, runner
from tunefree.estimators.from_source import FitsSource, RepeatableSource, run_log
from tunefree.estimators.reflectron.feature_maps import fitted_map, is_kernel
from tunefree.estimators.reflectron.problem import (
    DescentProblem,
    DescentResult,
    Score,
    check_theorems,
    combinations,
    family_range,
    in_units,
    keeps_zeros,
    scheme_of,
    with_steps,
)
from tunefree.estimators.reflectron.stochastic import Rule, check_halving, fit_passes
from tunefree.estimators.reflectron.surveys import Survey, Surveyed
from tunefree.families import Family, Matching
from tunefree.learners.reflectron.mirror import NONE, Batch, Mirror, bound
from tunefree.links import LINKS, check_increasing, target_margin
from tunefree.potentials import Euclidean
from tunefree.protocols import Average, AverageWithin, Link, Seed
from tunefree.robust import drop_outliers, within_limits
from tunefree.select.families import (
    MOST_COLUMNS,
    Task,
    n_pilot_rows,
    select_family,
    with_default_geometries,
    with_first_step,
)

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

GEOMETRY = """potential : str, potential or list, default='auto'
        The geometry, which is the regularizer: a name of `tunefree.potentials.POTENTIALS`, a part,
        or a list of these to choose from. 'auto' chooses among the Euclidean potential and the
        hypentropies of beta 1e-4, 1e-6, 1e-8, 1e-12{also}.
    constraint : str, constraint, None or list, default=None
        A set to project onto, from `tunefree.constraints`."""

COMMON = """fit_intercept : bool, default=True
        Learn an intercept, free of potential and constraint.
    standardize : bool or 'auto', default='auto'
        Standardise columns (centred if there is an intercept), so that a potential means the same
        for all; constraints then hold in these units. Outliers, entries and targets ten times as
        far from the middle of their column as any other, then count as missing in `fit`, with a
        warning. 'auto' is True; with False rows are learned as they are. A stream has one unit for
        all columns instead, the median of the largest entries of its first 64 rows; its
        constraints, and the entropy, are in the user's units.
    max_iter : int or 'auto', default='auto'
        Most passes; 'auto' is 1000."""

FITTED = """link_ : part
        The link in use.
    potential_, constraint_ : the chosen parts
    held_out_ : part
        Held-out predictions, from which `risk_interval_`, intervals and sets are computed
        (docs/guide/sure.md).
    leaderboard_ : list of dict
        Every configuration's lowest hold-out risk and its time (the sum of steps; in stochastic
        form passes, on a stream rows), the best first.
    trace_ : dict of ndarray of shape (n_passes, n_configurations)
        'risk' (mean squared error, or deviance, on the training rows), 'held_risk' (on the held-out
        rows), 'time', 'step', and 'move', the symmetric Bregman divergence of the last step. In
        stochastic form 'held_risk' only, NaN after a run has ended.
    n_iter_ : int
        Passes over the rows, rejected trials included.
    n_features_in_ : int"""


def documented(**texts):
    """A decorator that fills in the shared parts of a class's docstring."""

    def filled(cls):
        for name, text in texts.items():
            if cls.__doc__:  # none under python -OO
                cls.__doc__ = cls.__doc__.replace("{" + name + "}", text)
        return cls

    return filled


class Setup(NamedTuple):
    """What is to be learned: the model, the candidate geometries and the averaging."""

    family: Any
    link: Any
    configurations: tuple
    scheme: Any  # None reads the last iterate


class Training(NamedTuple):
    """The checked rows of a fit; the same share of each of the `strata` is held out."""

    X: Any
    targets: np.ndarray
    weights: np.ndarray
    strata: np.ndarray
    validation: tuple | None = None  # rows, targets and weights to choose by
    offset: Any = None  # added to the indices of rows
    exposure: Any = None  # of which targets and weights are per unit

    def positive(self):
        """The rows of positive weight."""
        used = self.weights > 0.0
        if used.all():
            return self
        offset, exposure = (None if a is None else a[used] for a in (self.offset, self.exposure))
        return self._replace(
            X=self.X[used],
            targets=self.targets[used],
            weights=self.weights[used],
            strata=self.strata[used],
            offset=offset,
            exposure=exposure,
        )


class MirrorDescent(TakesArrays, FitsSource, CallbackSupport, BaseEstimator):
    """A generalized linear model learned by mirror descent; subclasses define its targets.

    Each subclass shows some of the settings as parameters. The others keep the values here.
    """

    link: str | Link | None = None
    potential: Any = "auto"
    constraint: Any = None
    step: Any = "auto"
    solver: str = "auto"
    average: str | Average | AverageWithin = "auto"
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
    class_weight: Any = None
    n_jobs: int | None = None
    random_state: Seed = None

    _ON_DEMAND = (
        "coef_", "intercept_", "potential_", "constraint_", "leaderboard_", "held_out_",
    )  # fmt: skip
    _LEARNER = ("_stream", "_dtype", "_flat")
    _stream: Any
    feature_map_: Any
    link_: Any
    family_: Any

    def __getattr__(self, name):
        if name == "partial_fit":  # why it is not available
            is_streamed(self)
        return super().__getattr__(name)

    @classmethod
    def _with_settings(cls, **settings: Any) -> Self:
        """An estimator with some of the settings above."""
        estimator = cls()
        for name, value in settings.items():
            if not hasattr(cls, name) and not hasattr(estimator, name):
                raise TypeError(f"{cls.__name__} has no setting {name!r}.")
            setattr(estimator, name, value)
        return estimator

    def _unfitted(self) -> Self:
        """A copy with the same settings, without what was learned."""
        names = [n for n in vars(self) if not n.startswith("_") and not n.endswith("_")]
        return type(self)._with_settings(**{name: getattr(self, name) for name in names})

    def _law(self, y=None):
        """The family and the link for targets `y`; without targets those of a stream."""
        return Matching(), LINKS.find(self.link)

    def _source_targets(self, survey, classes, rows):
        """A function from a source's y to targets, and the targets' weighted sums in every fold."""
        raise NotImplementedError(f"{type(self).__name__} learns from no source.")

    def _most_passes(self) -> int:
        return _MOST_PASSES if isinstance(self.max_iter, str) else self.max_iter

    def _setup(self, law, stochastic=False):
        """The checked settings, for the family and the link of `law`."""
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
        family, link = law
        check_increasing(link)
        potential = self.potential
        if self._has_kernel():
            euclidean = isinstance(potential, str) and potential in ("auto", "euclidean")
            if not (euclidean or isinstance(potential, Euclidean)):
                raise ValueError(
                    "A kernel as feature_map needs potential='euclidean' (the Alphatron): for "
                    "another potential give a feature_map that returns features."
                )
            potential = Euclidean()
        configurations = combinations(potential, self.constraint, self.step, self.per_output)
        check_theorems([c.step for c in configurations], link)
        if stochastic or self.solver == "stochastic":
            link = _of_steps(link)
        return Setup(family, link, configurations, scheme_of(self.average))

    # ---------------------------------------------------------------- rows in memory

    def _fit(self, setup, training):
        """Learn from checked rows."""
        self.held_out_ = None
        with workers(self.n_jobs if SPACE.get() is None else 1):
            problem = self._problem(setup, training)
            learn = self._in_steps if self.solver == "stochastic" else self._in_batches
            columns, fitted = learn(problem)
            self._publish(fitted, columns, problem.X.dtype)

    def _problem(self, setup, training):
        """The distinct rows, which of them are held out, and what is to be learned."""
        X, targets, family = training.X, training.targets, setup.family
        among = self._among(X, setup.configurations)
        n_columns = X.shape[1] if among is None else len(among.places)
        check_memory(
            _WIDE_BYTES * n_columns * targets.shape[1],
            f"{type(self).__name__} with {n_columns} columns and {targets.shape[1]} targets",
            "Hash or select columns, or take PiSTOL*.",
        )
        X, targets, weights, strata, validation, offset, exposure = training.positive()
        seed = seed_of(self.random_state)
        hashed = targets if offset is None else np.column_stack([targets, offset])
        visits = hashed_visits(X, hashed, weights, seed)
        rows, distinct_weights = visits.unique()
        terms = None
        if exposure is not None or offset is not None:
            terms = Terms.of(X, hashed, weights, seed, rows, exposure)
        if self.standardize:
            X, targets = drop_outliers(X, targets, rows, (training.X, training.targets))
        self._set_limits(X, targets[rows], offset)
        if among is not None:
            X = X[:, among.places]
            if validation is not None:
                validation = (validation[0][:, among.places], *validation[1:])
        features: Any = None
        if self.feature_map is not None:
            features = fitted_map(
                self.feature_map, X, rows, distinct_weights, self.standardize, seed
            )
            X = features.transform(X)
            if validation is not None:
                validation = (features.transform(validation[0]), *validation[1:])
        self.feature_map_, self._stream = features, None
        held = np.full(len(rows), NONE)
        if validation is None:
            held = self._held(strata[rows], self._splits_in_memory(family, len(rows)))
        problem = DescentProblem(
            setup.link, setup.configurations, setup.scheme, X, targets, visits, rows,
            distinct_weights, held, validation, seed, family,
            None if offset is None else offset[rows], terms, among,
        )  # fmt: skip
        self._check_choice(problem.choosing, len(rows), setup.configurations)
        return problem

    def _splits_in_memory(self, family, n_rows):
        """How many folds are held out, one after another."""
        if self.solver == "stochastic":
            return 1
        learns_family = not isinstance(family, Matching)
        if self.n_splits == "auto" and learns_family and n_rows < _MANY_ROWS:
            return _SPLITS
        return self.n_splits

    def _among(self, X, configurations):
        """The columns that have an entry, if it is enough to learn these; else None."""
        plain = self.solver != "stochastic" and self.feature_map is None and not self.warm_start
        is_wide = X.shape[1] > MOST_COLUMNS  # with fewer, the metric includes empty columns
        return Among.of(X) if plain and is_wide and keeps_zeros(configurations) else None

    def _set_limits(self, X, targets, offset):
        """Set limits of columns and predictions, for subclasses that have them."""

    def _in_batches(self, problem):
        """The units of the columns and the result of full batches."""
        columns, batches, start = self._batches(problem)
        design = batches[0].design
        how, n_outputs = (self.fit_intercept, self._most_passes()), problem.targets.shape[1]
        configurations = with_steps(problem.configurations, design, problem.link, *how, n_outputs)
        configurations = in_units(configurations, columns)
        configurations = bound(configurations, design, problem.weights)
        learner = self._mirror(
            (problem.family, problem.link), configurations, problem.members, problem.choosing
        )
        if SPACE.get() is not None:
            batches = [
                b._replace(design=Dense(moved(b.design.values)))
                if isinstance(b.design, Dense)
                else b
                for b in batches
            ]
        if learner.family is not None:
            learner, task = self._selection(problem, learner, columns, batches, start)
            fitted, learner, state = select_family(learner, task)
        else:
            source, k = Batches(tuple(batches)), batches[0].targets.shape[1]
            fitted, state = self._descended(learner, source, columns, start, k, problem.X.dtype)
        self.link_, self.family_ = learner.link, learner.family or Matching()
        # Of held-out rows, or of validation rows, which no member learned.
        batch = batches[-1]
        held = np.flatnonzero(np.broadcast_to(batch.held, len(batch.targets)) != NONE)
        now = batch.design.apply(np.ascontiguousarray(fitted.theta.T)) + fitted.offset
        self._check_indices(now, batch)
        if len(held) and not np.ndim(getattr(self.family_, "levels", 0)):
            s = learner.held_out(state, batch)[held]
            fitted, self.held_out_ = self._evaluated(fitted, s, batch, held, now, problem.terms)
        return columns, fitted

    def _selection(self, problem, learner, columns, batches, start):
        """The learner with all geometries that compete, and the `Task` of choosing."""
        batch, shape = batches[0], (batches[0].design.shape[0], problem.width)
        learner = self._with_geometries(learner, shape)
        n_pilot = n_pilot_rows(learner, shape) if problem.validation is None else 0
        pilot = None
        if n_pilot:
            rows = problem.rows[:n_pilot]
            offset = None if batch.offset is None else batch.offset[:n_pilot]
            targets, weights = batch.targets[:n_pilot], batch.weights[:n_pilot]
            held = batch.held[:n_pilot]
            pilot = self._batch(columns, problem.X[rows], targets, weights, held, offset)

        def start_with(link):
            if link is learner.link:
                return start
            return self._start((problem.family, link), columns, batch, problem.members)

        def descend(learner, start, batches, most):
            source, k = Batches(tuple(batches)), batches[0].targets.shape[1]
            dtype = problem.X.dtype
            return self._descended(learner, source, columns, start, k, dtype, most=most)

        link: Any = self.link if self._learns_link() else None
        return learner, Task(batches, pilot, link, start_with, descend)

    def _with_geometries(self, learner, shape):
        """The learner with the default geometries, unless these are named."""
        named = not isinstance(self.potential, str) or self.potential != "auto"
        if named or self.per_output:
            return learner
        return with_default_geometries(learner, shape)

    def _learns_link(self):
        """Whether the link is chosen or learned."""
        return False

    def _check_indices(self, s, batch):
        """Warn if the fitted indices of rows show that there is no best model."""

    def _evaluated(self, fitted, s, batch, held, now, terms):
        """The result, shrunk if that is better for held-out rows, and held-out predictions.

        `s` are the indices of held-out rows and `held` their positions in the batch, `now` the
        fitted indices of the whole batch, `terms` the `Terms` of rows with an exposure or an
        offset.
        """
        return fitted, None

    def _in_steps(self, problem):
        """The units of the columns and the result of stochastic passes."""
        X, rows, k = problem.X, problem.rows, problem.targets.shape[1]
        centred = self.fit_intercept and not sparse.issparse(X)
        columns = self._units(X[rows], problem.weights, centred)
        batch = Batch(None, problem.targets[rows], problem.weights, problem.held)
        self.link_, self.family_ = problem.link, problem.family
        law = problem.family, problem.link
        theta, offset = self._start(law, columns, batch, problem.members)
        if offset is not None:
            offset = np.reshape(offset, (-1, k))[-1]  # of the member without held-out rows
        most = self._most_passes()
        rule = self._rule(Setup(problem.family, *problem[:3]), most * len(rows))
        end = {"most": most, "tol": self.tol, "watch": self._progress.passes(2 * most)}
        return columns, fit_passes(problem, rule, columns, (theta, offset), **end)

    def _check_choice(self, choosing, n_rows, configurations):
        # With very few rows none are held out: the training risk chooses.
        if not choosing and n_rows >= _FEWEST_ROWS and len(configurations) > 1:
            raise ValueError(
                f"Choosing among {len(configurations)} configurations needs rows held out: give "
                "X_val and y_val, a positive validation_fraction, or a single potential, "
                "constraint and step."
            )

    def _units(self, X, weights, centred):
        scaled = self.standardize and not self._has_kernel()
        return Units.of(X, weights, centred, scaled, self._levels_of_columns())

    def _has_kernel(self):
        """Whether the features are those of a kernel."""
        return self.feature_map is not None and is_kernel(self.feature_map)

    def _levels_of_columns(self):
        """The `Levels` of columns of text and categories; None if there are none."""
        categories = vars(self).get("categories_")
        return None if categories is None else Levels.of(categories)

    def _batch(self, columns, X, targets, weights, held, offset=None, own=False):
        """A batch of rows; `own` rows may be overwritten."""
        return Batch(columns.design(X, own), targets, weights, held, offset)

    def _batches(self, problem):
        """The units, the batches of all rows and of validation rows, and the start."""
        X, targets = take(problem.X, problem.rows), problem.targets[problem.rows]
        weights = problem.weights
        columns = self._units(X, weights, self.fit_intercept)
        columns = columns._replace(among=problem.among)
        batches = [
            self._batch(columns, X, targets, weights, problem.held, problem.offset, own=True)
        ]
        if problem.validation is not None:
            batches.append(self._batch(columns, *problem.validation, held=0))
        family_link = problem.family, problem.link
        return columns, batches, self._start(family_link, columns, batches[0], problem.members)

    def _shares(self, n_rows, n_splits):
        """The number of folds of the rows, and how many of these are held out."""
        share: Any = self.validation_fraction
        if n_splits == "auto":
            n_splits = _SPLITS if n_rows < _FEW_ROWS else 1
        if share == "auto":
            share = min(_SHARE, 1.0 / n_splits)
        if share == 0.0 or n_rows < _FEWEST_ROWS:
            return 1, 0
        return max(2, round(1.0 / share)), n_splits

    def _held(self, strata, n_splits):
        """The member that each row is held out from; rows are in the order of a hash."""
        every, n_splits = self._shares(len(strata), n_splits)
        if not n_splits:
            return np.full(len(strata), NONE)
        # The first member learns from all rows.
        return _members(self._fold_order(strata) % every, n_splits)

    def _fold_order(self, strata):
        """Rows numbered through one stratum after another; folds are assigned in this order."""
        order = np.empty(len(strata), int)
        order[np.argsort(strata, kind="stable")] = np.arange(len(strata))
        return order

    def _start(self, family_link, columns, batch, members):
        """Parameters and intercepts to start from, in the units of the columns."""
        family, link = family_link
        theta, offset, k, d = None, None, batch.targets.shape[1], len(columns.scale)
        if self.warm_start and hasattr(self, "coef_"):
            start = np.asarray(self.coef_, dtype=np.float64)
            if family.tied and start.size == d:
                start = np.repeat(start.reshape(1, d), k, axis=0)
            if start.size != k * d:
                raise ValueError(
                    f"warm_start=True: the last fit has {start.size} coefficients, but {k} outputs "
                    f"of {d} features have {k * d}."
                )
            start = start.reshape(k, d)
            theta = start * columns.scale
            offset = np.reshape(self.intercept_, -1).astype(np.float64) + start @ columns.centre
        elif self.fit_intercept:
            learns = batch.weights * (batch.held != np.arange(members)[:, None])
            if type(family).start is Family.start:
                mean = learns @ batch.targets / learns.sum(axis=1, keepdims=True)
            else:
                mean = np.array([family.start(batch.targets, each) for each in learns])
            if batch.offset is not None:  # the mean rate, if the link is the logarithm
                mean = mean / np.average(link.mean(batch.offset), weights=batch.weights)
            low, high = getattr(link, "range", (np.inf, -np.inf))
            if ((mean > low) & (mean < high)).all() and hasattr(link, "inverse"):
                offset = target_margin(link, mean)
        return theta, offset

    # ---------------------------------------------------------------- runs of the batch form

    def _mirror(self, family_link, configurations, members, choosing):
        """The batch learner."""
        family, link = family_link
        return Mirror(
            link,
            configurations,
            intercept=self.fit_intercept,
            members=members,
            patience=self.patience,
            behind=max(1, self.patience // _BEHIND),
            tol=self.tol,
            last=not choosing,
            family=None if isinstance(family, Matching) else family,
        )

    def _descend(self, learner, source, columns, start, k, dtype, on_block=None):
        """Pass over a source and set the fitted attributes."""
        fitted, _ = self._descended(learner, source, columns, start, k, dtype, on_block)
        self.link_, self.family_ = learner.link, learner.family or Matching()
        self._publish(fitted, columns, dtype)

    def _descended(self, learner, source, columns, start, k, dtype, on_block=None, most=None):
        """Pass over a source, `most` times at most: the `DescentResult` and the last state."""
        state = learner.init(len(columns.scale), k, *start)
        limit = self._most_passes()
        most = limit if most is None else min(most, limit)

        def publish(model, state):
            model.link_, model.family_ = learner.link, learner.family or Matching()
            model._predict_with(*learner.read(state), columns, dtype)

        watch = self._progress.passes(limit, publish)
        result = runner(self)(learner, state, source, max_passes=most, on_block=on_block, **watch)
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
        return DescentResult(theta, offset, board, trace, result.n_passes), state

    # ---------------------------------------------------------------- sources and streams

    @all_or_nothing
    def fit_source(
        self,
        source: Any,
        *,
        classes: ArrayLike | None = None,
        checkpoint: Any = None,
        on_chunk: Callable | None = None,
    ) -> Self:
        """Learn from a source of any size, in constant memory.

        A source that can be read again is read once for the units of its columns and once for
        every step. The result is that of `fit` with the same held-out rows, which are chosen by
        their hash (one fold from 1,000 rows on). A learned link, and unknown parameters of a
        family, are estimated from a uniform sample of 20,000 rows. A source that can be read once
        only, or ``solver="stochastic"``, is learned in one pass, as by `partial_fit`.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes
        classes : array-like, optional
            For classifiers: all labels. Without them one pass accepts new classes at any time.
        checkpoint : Checkpoint, optional
            Saves the run (in many passes between two of these) and resumes it with the same bits.
        on_chunk : callable, optional
            Called with (estimator, rows seen, pass) after each chunk.

        Returns
        -------
        self
        """
        source = open_source(source)
        if self.solver == "stochastic" or self.solver == "auto" and not source.again:
            return super().fit_source(
                source, classes=classes, checkpoint=checkpoint, on_chunk=on_chunk
            )
        if not source.again:
            raise ValueError(
                f"{source.name} can be read once only, and solver='batch' needs many passes: give "
                "a file, a function that makes the iterator, or solver='stochastic'."
            )
        with run_log(self, source, checkpoint):
            self._fit_rows(RepeatableSource(source), classes, on_chunk)
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        return self

    def _fit_rows(self, rows, classes, on_chunk):
        family, link, configurations, _ = self._setup(self._law())
        if self.feature_map is not None:
            raise ValueError(
                "fit_source does not support feature_map: transform the rows of the source."
            )
        if self.class_weight is not None:
            raise ValueError(
                "class_weight needs rows in memory or partial_fit: give weights of rows in the "
                "source instead."
            )
        seed, (n_folds, _) = seed_of(self.random_state), self._shares(np.inf, self.n_splits)

        def fold_of(X):
            return (row_hash(X, seed) % np.uint64(n_folds)).astype(np.intp)

        learns = self._learns_law(family)
        inside, drawn = family_range(family, link), seed + 1 if learns else None
        survey = Survey(rows, fold_of, n_folds, is_classifier(self), inside, drawn)
        targets, sums = self._source_targets(survey, classes, rows)
        if is_classifier(self):
            family, link = self._law(self.classes_)
        held = _members(np.arange(n_folds), self._shares(rows.rows, self.n_splits)[1])
        choosing = bool(survey.weight[held > NONE].sum() > 0.0)
        if not choosing:
            held[:] = NONE
        self._check_choice(choosing, rows.rows, configurations)
        columns = Units.unchanged(rows.width)
        if self.standardize:
            columns = Units.of_moments(survey.moments, self.fit_intercept)
        start: Any = None
        if learns:
            family, link, start = self._law_of(survey.sample, columns)
        source = Surveyed(rows, columns, targets, lambda X: held[fold_of(X)])
        how, n_outputs = (self.fit_intercept, self._most_passes()), sums.shape[1]
        configurations = in_units(configurations, columns)
        configurations = with_steps(configurations, source, link, *how, n_outputs)
        learner = self._mirror((family, link), configurations, 1 + max(0, held.max()), choosing)
        means = sums / np.maximum(survey.weight, np.finfo(float).tiny)[:, None]
        # The start depends on the means of targets only: one row for each fold is enough.
        folds = Batch(None, means, survey.weight, held)
        if not learns:
            start = self._start((family, link), columns, folds, learner.members)
        if learner.family is not None:
            learner = self._with_geometries(learner, (rows.rows, rows.width))
            learner = with_first_step(learner, start[1], means.shape[1])
            total = float(survey.weight.sum())
            bounded = bound(learner.configurations, source, None, total)
            learner = learner._replace(configurations=bounded)

        def on_block(state, block):
            on_chunk(self, rows.source.rows, state.passes)

        self.n_features_in_, self.feature_map_, self._stream = rows.width, None, None
        watch = on_block if on_chunk is not None else None
        self._descend(learner, source, columns, start, means.shape[1], rows.dtype, watch)

    def _learns_law(self, family):
        """Whether a link, or parameters of a family, are to be learned."""
        return False

    def _source_passes(self):
        return 1  # `max_iter` is of batches

    def _rule(self, setup, rounds):
        """What the stochastic runs have in common; `rounds` is the most rows."""
        family, link, configurations, scheme = setup
        weight, how = stochastic_weight(family, link), (self.fit_intercept, self.batch_size)
        return Rule(link, configurations, scheme, weight, *how, rounds)

    def _stream_rule(self):
        """The rule of `partial_fit`."""
        setup = self._setup(self._stream_law(), stochastic=True)
        return self._rule(setup, self._most_passes())

    def _stream_law(self):
        """The family and the link of `partial_fit`."""
        return self._law()

    def _learn(self, X, targets, weights, flat, is_open=False):
        """Learn from the next rows of a stream; an open stream has one more output."""
        rule = self._stream_rule()
        if self.feature_map is not None:
            raise ValueError("partial_fit does not support feature_map: transform the rows first.")
        stream, d, k = self.__dict__.get("_stream"), X.shape[1], targets.shape[1]
        if stream is not None and stream.n_outputs() != k:
            raise ValueError(f"y has {k} outputs, but this model has {stream.n_outputs()}.")
        if stream is None:
            start = None, None
            if "coef_" in vars(self):
                theta = np.asarray(self.coef_, dtype=np.float64)
                offset = np.reshape(self.intercept_, -1)
                start = theta.reshape(-1, d), offset.astype(np.float64)
                if len(start[0]) != k:
                    raise ValueError(f"y has {k} outputs, but this model has {len(start[0])}.")
            stream = rule.stream(d, k, start, self.standardize, is_open)
        chunk = Rows(X, targets, given_visits(weights))
        self._stream = run(rule, stream, chunk, max_passes=1).state
        self._dtype, self._flat = X.dtype.name, flat
        self.link_, self.family_, self.feature_map_ = rule.link, self._law()[0], None
        self._forget_read()

    def _check_learner(self):
        if self.__dict__.get("_stream") is not None:
            check_halving(self._stream, self.n_features_in_)

    def _read_stream(self):
        self.held_out_ = None
        halving: Any = self._stream_rule().measured(self._stream, now=True)
        runs = sorted(halving.runs, key=lambda run: run.risk())
        self._set_leaderboard((run.risk(), halving.seen, run.configuration) for run in runs)
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
        if self._stream.is_open:
            theta, offset = theta[:-1], offset[:-1]
        self._predict_with(theta, offset, Units.unchanged(self.n_features_in_), self._dtype)

    # ---------------------------------------------------------------- the model

    def _publish(self, fitted, columns, dtype):
        """Set the fitted attributes, in the user's units."""
        self.trace_, self.n_iter_ = fitted.trace, fitted.n_iter
        self._set_leaderboard(fitted.board)
        self._predict_with(fitted.theta, fitted.offset, columns, dtype)

    def _set_leaderboard(self, board):
        """Set the leaderboard, the best first, and the chosen parts."""
        board = list(board)
        self.leaderboard_ = [
            {
                "potential": repr(configuration.potential),
                "constraint": repr(configuration.constraint),
                "step": configuration.step or "auto",
                "risk": risk,
                "time": time,
            }
            for risk, time, configuration in board
        ]
        chosen = board[0][2]
        self.potential_, self.constraint_ = chosen.potential, chosen.constraint
        if hasattr(self.potential_, "unbound"):
            self.potential_ = self.potential_.unbound()

    def _predict_with(self, theta, offset, columns, dtype):
        """Set coefficients and intercepts in the user's units, flat if the targets were."""
        coef = (theta[:1] if self.family_.tied else theta) / columns.scale
        self.coef_ = columns.whole(coef.astype(dtype))
        self.intercept_ = (offset - coef @ columns.centre).astype(dtype)
        if self.__dict__.get("_flat") and len(coef) == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]

    def _coded(self, X):
        """Rows with codes for the levels of `categories_`."""
        categories = vars(self).get("categories_")
        return X if categories is None else coded(X, categories)[0]

    def _margins(self, X, limits=None):
        check_is_fitted(self, "link_")
        X = base.check_rows(self, self._coded(X))
        X = X if limits is None else within_limits(X, limits)
        if getattr(self, "feature_map_", None) is not None:
            X = self.feature_map_.transform(X)
        levels = self._levels_of_columns()
        if levels is not None:
            coef = np.atleast_2d(self.coef_)
            return levels.design(X).apply(coef.T) + np.reshape(self.intercept_, -1)
        coef = self.coef_.reshape(-1, X.shape[1])
        return product(X, coef.T) + np.reshape(self.intercept_, -1)


def shrunk(fitted, share, null):
    """The result, shrunk to the null model's indices by the factor `share` of each output."""
    return fitted._replace(
        theta=fitted.theta * share[:, None], offset=null + share * (fitted.offset - null)
    )


def stochastic_weight(family, link):
    """The weight of residuals that makes stochastic steps follow a family's score."""
    if isinstance(family, Matching):
        return None
    batch = family.tied or type(family).residuals is not Family.residuals
    if batch or family.exposure is None:
        raise ValueError(f"family={family!r} needs all rows at once: use fit.")
    own = family.canonical is not None and isinstance(link, family.canonical)
    return None if own else Score(family, link)


def is_streamed(estimator):
    """Whether rows may come in chunks; or else an AttributeError with the reason."""
    try:
        stochastic_weight(*estimator._stream_law())
    except ValueError as refusal:
        raise AttributeError(str(refusal)) from None
    return True


def validation_rows(estimator, X_val, y_val):
    """Checked validation rows."""
    if y_val is None:
        raise ValueError("X_val is given without y_val: give both.")
    return base.check_rows(estimator, estimator._coded(X_val))


def _of_steps(link):
    """The link from whose bound a step is computed: that of 'log' is far too large."""
    return LINKS["exp"] if link == LINKS["log"] else link


def _members(folds, n_splits):
    """The member that rows of each fold are held out from: one for each of the first folds."""
    return np.where(folds < n_splits, folds + 1, NONE)
