"""The Reflectron's estimators: generalized linear models whose geometry is the regularizer."""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tunefree._array import SPACE, moved
from tunefree._parameters import seed_of
from tunefree._process import check_memory, product
from tunefree._threads import workers
from tunefree.constraints.rules import is_odd
from tunefree.designs import Dense
from tunefree.engine.order import given_visits, hashed_visits, row_hash
from tunefree.engine.run import Batches, Rows, run
from tunefree.engine.sources import open_source
from tunefree.estimators import base
from tunefree.estimators.base import (
    CallbackSupport,
    new_columns,
    report_progress,
    runner,
    stream_labels,
)
from tunefree.estimators.from_source import FitsSource, RepeatableSource, run_log
from tunefree.estimators.reflectron.family_selection import (
    MOST_COLUMNS,
    FamilySelection,
    held_out,
    with_default_geometries,
)
from tunefree.estimators.reflectron.flow import SOLVERS, fit_flows
from tunefree.estimators.reflectron.problem import (
    Among,
    Columns,
    Fitted,
    Levels,
    Problem,
    Score,
    Survey,
    Surveyed,
    Terms,
    bound,
    check_theorems,
    check_weight,
    coded,
    combinations,
    family_range,
    fitted_map,
    in_units,
    is_kernel,
    link_range,
    scheme_of,
    taken,
    with_indicators,
    with_steps,
)
from tunefree.estimators.reflectron.stochastic import Rule, check_halving, fit_passes
from tunefree.estimators.uncertainty_mixins import (
    CoefficientInferenceMixin,
    PredictsIntervals,
    PredictsSets,
    RiskIntervalMixin,
)
from tunefree.families import FAMILIES, OF_CLASSES, Family, Matching, Ordinal, family_of
from tunefree.learners.reflectron.mirror import NONE, Batch, Mirror
from tunefree.links import LINKS, Exp, check_increasing, target_margin
from tunefree.potentials import Euclidean
from tunefree.protocols import (
    Average,
    AverageWithin,
    Link,
    MatrixLike,
    Seed,
    TargetLike,
)
from tunefree.robust import (
    drop_outliers,
    limits_of_columns,
    limits_of_predictions,
    shrinkage_factor,
    shrinkage_factor_of_classes,
    within_limits,
)
from tunefree.select.progressive_risk import temperature
from tunefree.uncertainty.inference import Law

# Of fewer distinct rows none are held out.
_FEWEST_ROWS = 2
# n_splits='auto' has several folds below _FEW_ROWS, where one fold is too small to choose by; for
# families, which need few passes, below _MANY_ROWS.
_FEW_ROWS, _SPLITS, _MANY_ROWS = 1000, 5, 20_000
_SHARE = 0.2
# Links that are chosen or learned.
_LEARNED = ("auto", "learned")
# Bytes of a fit for each column and target.
_WIDE_BYTES = 5500.0
# The patience of a configuration that another has overtaken is divided by this.
_BEHIND = 2

_PARAMETERS = """Parameters
    ----------
    link : str, link or None
        The mean u of the model: a name of `tunefree.links.LINKS`, one of its parts, or any object
        with a nondecreasing ``mean(s)``. None is the family's own; 'learned' is a nondecreasing
        link estimated with the coefficients, and 'auto' the closed form with the lowest deviance on
        held-out rows, unless the learned link is better by a standard error.
    family : str or family, default='auto'
        The distribution of targets: a name of `tunefree.families.FAMILIES` or a part. The fit
        follows its score and is evaluated by its deviance. If a link is named, 'auto' is
        'matching': the link's own matching loss for any targets, evaluated by squared errors
        (GLM-tron).
    potential : str, potential or list, default='auto'
        The geometry: a name of `tunefree.potentials.POTENTIALS`, a part, or a list of these to
        choose from. 'auto' is the Euclidean potential and the hypentropy of beta 1e-4, 1e-6, 1e-8,
        1e-12; with a family up to 500 columns also `Whitened`, in four shrinkages.
    constraint : str, constraint, None or list, default=None
        A set to project onto, from `tunefree.constraints`.
    step : 'auto', float > 0, 'theorem-4.1', 'theorem-5.1', 'theorem-5.2' or list, default='auto'
        The theorems' steps are computed from the longest row and the potential's convexity: safe
        and slow. In stochastic form 'auto' tries several multiples of Theorem 5.2's step. Every
        combination of potential, constraint and step is learned, all in the same passes.
    weight : None, 'slope' or callable, default=None
        Weight of the residuals: 1 (GLM-tron), the link's slope (mirror descent on the square
        loss), or a function of the margins; other than None it needs a number as step.
    feature_map : callable, transformer, kernel or str, optional
        Features in place of the columns: a function of rows, an object with ``fit`` and
        ``transform``, or a part of `tunefree.kernels` or its name (the Alphatron, whose potential
        is the Euclidean one). Kernels compare rows in standardised columns; 'rbf' and 'laplacian'
        have the median distance as bandwidth.
    solver : {'batch', 'stochastic', 'flow', 'natural-flow'}, default='batch'
        Full batches, or passes of steps of ``batch_size`` rows; `partial_fit` is stochastic,
        `fit_source` either (many passes over a file, or one). 'flow'
        follows the mirror flow in continuous time, 'natural-flow' the natural-gradient flow (the
        same curve, from a small random start where it cannot leave 0); both without constraint or
        step.
    average : {'auto', 'uniform', 'polynomial', 'geometric', 'last'} or scheme, default='auto'
        Which average of the stochastic iterates to read; 'auto' is 'uniform'.
    batch_size : int, default=1
        Rows a stochastic step. With 1, a step costs only the entries of its row, unless there is
        a constraint other than 'non_negative' or 'box'.
    init : array-like of shape (n_features,) or (n_outputs, n_features), optional
        Coefficients to start from: on data that can be fitted exactly, the fit is their Bregman
        projection onto the interpolating predictors.
    validation_fraction : float in [0, 1) or 'auto', default='auto'
        Share of the rows held out to choose the iterate and the configuration; 'auto' is a fifth,
        or less if disjoint splits need it. One row in round(1 / share) is held out.
    n_splits : int or 'auto', default='auto'
        The number of disjoint folds. For each a model learns from the other rows, with the same
        steps as the model that learns from all rows. 'auto' is 5 below 1,000 rows (in memory and
        with a family 20,000), else 1.
    patience : int, default=50
        Accepted steps without progress of the hold-out risk before a configuration ends: at least
        half as many as the progress took, and half the patience once another is better.
    tol : float, default=1e-3
        Fall of the risk that counts as progress, relative to the risk and a tenth of the start's.
    max_iter : int, default=1000
        Most passes; stochastic fits end after 5 passes without progress.
    fit_intercept : bool, default=True
        Learn an intercept, free of potential and constraint.
    standardize : bool, default=True
        Standardise columns (centred if there is an intercept), so that a potential means the same
        for all; constraints then hold in these units. Outliers, entries and targets ten times as
        far from the middle of their column as any other, then count as missing in `fit`, with a
        warning; with False rows are learned as they are.
        A stream has one unit for all columns instead, the median of the largest entries of its
        first 64 rows: all columns times one factor give the same predictions. Its constraints, and
        the entropy, are in the user's units.
    keep_path : bool, default=False
        Store the parameters after every pass in ``coef_path_``.
    warm_start : bool, default=False
        Start from the last fit's parameters.
    random_state : int, RandomState or None, default=None
        Seed of the hash by which rows are held out.
    per_output : bool, default=False
        With several outputs, potential and constraint act on the whole matrix of parameters (so
        that outputs share the pattern of sparsity); with True on every output separately.
    n_jobs : int or None, default=None
        Threads for batches of 16,384 rows or more, all by default; results do not depend on it."""


_FITTED = """n_iter_ : int
        Passes over the rows, rejected trials included.
    link_, family_ : parts
        The link and the family in use.
    potential_, constraint_ : the chosen parts
    feature_map_ : fitted map or None
    categories_ : list or None
        For a data frame with columns of text or categories, the levels of each (None: numbers).
        ``coef_`` has an entry for every column of numbers and then for every level; indicator
        columns are not stored in memory. A new level has the coefficient 0.
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
    coef_path_ : ndarray of shape (n_passes, n_configurations, n_outputs, n_features)
        With ``keep_path``.
    n_features_in_ : int"""


def _documented(cls):
    """Add the parameters and attributes of both estimators to a class's documentation."""
    if cls.__doc__:  # none under python -OO
        text = cls.__doc__.replace("{parameters}", _PARAMETERS)
        cls.__doc__ = text.replace("{fitted}", _FITTED)
    return cls


class Reflectron(
    CoefficientInferenceMixin, base.TakesArrays, FitsSource, CallbackSupport, BaseEstimator
):
    """What both estimators share; they define targets and `_source_targets`."""

    _ON_DEMAND = (
        "coef_", "intercept_", "potential_", "constraint_", "leaderboard_", "held_out_",
    )  # fmt: skip
    _LEARNER = ("_stream", "_dtype", "_flat")
    _stream: Any
    feature_map_: Any
    link_: Any
    family_: Any

    def __init__(
        self,
        link: str | Link | None = None,
        potential: Any = "auto",
        constraint: Any = None,
        *,
        step: Any = "auto",
        weight: Any = None,
        feature_map: Any = None,
        solver: str = "batch",
        average: str | Average | AverageWithin = "auto",
        batch_size: int = 1,
        init: Any = None,
        validation_fraction: float | str = "auto",
        n_splits: int | str = "auto",
        patience: int = 50,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        standardize: bool = True,
        keep_path: bool = False,
        warm_start: bool = False,
        per_output: bool = False,
        family: Any = "auto",
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.link = link
        self.potential = potential
        self.constraint = constraint
        self.step = step
        self.weight = weight
        self.feature_map = feature_map
        self.solver = solver
        self.average = average
        self.batch_size = batch_size
        self.init = init
        self.validation_fraction = validation_fraction
        self.n_splits = n_splits
        self.patience = patience
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.keep_path = keep_path
        self.warm_start = warm_start
        self.random_state = random_state
        self.per_output = per_output
        self.family = family
        self.n_jobs = n_jobs

    def _law(self, y=None):
        """The family and the link for targets `y`; None if there are no targets yet."""
        return Matching(), LINKS.find(self.link)

    def _check(self, batch=True, y=None, family_link=None):
        share: Any = self.validation_fraction
        if share != "auto" and not (isinstance(share, int | float) and 0.0 <= share < 1.0):
            raise ValueError(f"validation_fraction={share!r} is neither 'auto' nor in [0, 1).")
        for name in ("max_iter", "patience", "n_splits", "batch_size"):
            value = getattr(self, name)
            if name == "n_splits" and value == "auto":
                continue
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}={value!r} is not a positive integer.")
        if self.solver not in ("batch", "stochastic", *SOLVERS):
            raise ValueError(
                f"solver={self.solver!r} is none of batch, stochastic, {', '.join(SOLVERS)}."
            )
        family, link = family_link or self._law(y)
        if not batch and isinstance(self.link, str) and self.link in _LEARNED:
            raise ValueError(
                f"link={self.link!r} is learned by fit with solver='batch': name a link."
            )
        check_increasing(link)
        potential = self.potential
        if is_kernel(self.feature_map):
            euclidean = isinstance(potential, str) and potential in ("auto", "euclidean")
            if not (euclidean or isinstance(potential, Euclidean)):
                raise ValueError(
                    "A kernel as feature_map needs potential='euclidean' (the Alphatron): for "
                    "another potential give a feature_map that returns features."
                )
            potential = Euclidean()
        configurations = combinations(potential, self.constraint, self.step, self.per_output)
        steps = [c.step for c in configurations]
        check_weight(self.weight, steps if batch else ())
        check_theorems(steps, self.weight, link)
        return (family, link), configurations, scheme_of(self.average)

    def _source_targets(self, survey, classes, rows):
        """A function from a source's y to targets, and the targets' weighted sums in every fold."""
        raise NotImplementedError(f"{type(self).__name__} learns from no source.")

    # ---------------------------------------------------------------- rows in memory

    def _fit(
        self, X, targets, weights, strata, validation, offset=None, family_link=None, exposure=None
    ):
        """Learn from checked rows; the same share of each of the `strata` is held out.

        `offset` is added to the margins of rows; `family_link` is (family, link), if known; targets
        and weights are per unit of `exposure`, if it is not None.
        """
        self.held_out_ = None
        with workers(self.n_jobs if SPACE.get() is None else 1):
            problem = self._problem(
                X, targets, weights, strata, validation, offset, family_link, exposure
            )
            if self.solver == "batch":
                self._fit_batch(problem)
            elif self.solver == "stochastic":
                self._fit_stochastic(problem)
            else:
                self._fit_flow(problem)

    def _problem(self, X, targets, weights, strata, validation, offset, family_link, exposure=None):
        (family, link), configurations, scheme = self._check(
            self.solver == "batch", targets, family_link
        )
        if self.solver == "stochastic":
            link = _of_steps(link)
        if self.solver != "batch":
            self._weight_of(family, link, offset)
        among = self._among(X, configurations)
        d = X.shape[1] if among is None else len(among.places)
        check_memory(
            _WIDE_BYTES * d * targets.shape[1],
            f"{type(self).__name__} with {d} columns and {targets.shape[1]} targets",
            "Hash or select columns, or take PiSTOL*.",
        )
        given, used = (X, targets), weights > 0.0
        if not used.all():
            X, targets, weights, strata = X[used], targets[used], weights[used], strata[used]
            offset, exposure = (None if a is None else a[used] for a in (offset, exposure))
        seed = seed_of(self.random_state)
        hashed = targets if offset is None else np.column_stack([targets, offset])
        visits = hashed_visits(X, hashed, weights, seed)
        terms = None
        if exposure is not None or offset is not None:
            terms = Terms.of(X, hashed, weights, seed, visits.unique()[0], exposure)
        rows, weights = visits.unique()
        if self.standardize:
            X, targets = drop_outliers(X, targets, rows, given)
        self._set_limits(X, targets[rows], offset)
        if among is not None:
            X = X[:, among.places]
            if validation is not None:
                validation = (validation[0][:, among.places], *validation[1:])
        features = fitted_map(self.feature_map, X, rows, weights, self.standardize, seed)
        if features is not None:
            X = features.transform(X)
            if validation is not None:
                validation = (features.transform(validation[0]), *validation[1:])
        self.feature_map_, self._stream = features, None
        held = np.full(len(rows), NONE)
        if validation is None:
            splits = 1 if self.solver == "stochastic" else self.n_splits
            learns = self.solver == "batch" and not isinstance(family, Matching)
            if splits == "auto" and learns and len(rows) < _MANY_ROWS:
                splits = _SPLITS
            held = self._held(strata[rows], splits)
        problem = Problem(
            link, configurations, scheme, X, targets, visits, rows, weights, held, validation, seed,
            family, None if offset is None else offset[rows], terms, among,
        )  # fmt: skip
        self._check_choice(problem.choosing, len(rows), configurations)
        return problem

    def _among(self, X, configurations):
        """The columns that have an entry, if it is enough to learn these; else None."""
        started = self.init is not None or self.warm_start
        plain = self.solver == "batch" and self.feature_map is None and not started
        is_wide = X.shape[1] > MOST_COLUMNS  # with fewer, the metric includes empty columns
        return Among.of(X, configurations) if plain and is_wide else None

    def _set_limits(self, X, targets, offset):
        """Nothing for classes, whose means are bounded."""

    def _fit_batch(self, problem):
        columns, batches, start = self._batches(problem)
        configurations = with_steps(
            problem.configurations, batches[0].design, problem.link, self.weight,
            self.fit_intercept, self.max_iter, problem.targets.shape[1],
        )  # fmt: skip
        configurations = in_units(configurations, columns)
        learner = self._mirror(
            (problem.family, problem.link), bound(configurations, batches[0].design,
            problem.weights), problem.members, problem.choosing,
        )  # fmt: skip
        if SPACE.get() is not None:
            batches = [
                b._replace(design=Dense(moved(b.design.values)))
                if isinstance(b.design, Dense) else b
                for b in batches
            ]  # fmt: skip
        if learner.family is not None:
            made = FamilySelection(self, problem, columns, batches, start, learner).fitted()
            fitted, learner, state = made
        else:
            k, source = batches[0].targets.shape[1], Batches(tuple(batches))
            fitted, state = self._descended(learner, source, columns, start, k, problem.X.dtype)
        self._publish(fitted, learner, columns, problem.X.dtype)
        # Of held-out rows, or of validation rows, which no member learned.
        batch = batches[-1]
        held = np.flatnonzero(np.broadcast_to(batch.held, len(batch.targets)) != NONE)
        if len(held) and not np.ndim(getattr(self.family_, "levels", 0)):
            s = held_out(learner, state, batch)[held]
            now = batch.design.apply(np.ascontiguousarray(fitted.theta.T)) + fitted.offset
            self.held_out_ = self._held_out_predictions(s, batch, held, now, problem.terms)

    def _held_out_predictions(self, s, batch, held, now, terms):
        """The held-out predictions from indices `s` of held-out rows; for subclasses.

        `held` are the positions of these rows in the batch, `now` the fitted indices of the whole
        batch, and `terms` the `Terms` of rows with an exposure or an offset.
        """

    def _shrink_to_null(self, share, null, s):
        """Shrink the model to the null model by the factor `share`; predictions for indices s."""
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        coef, intercept = coef * share[:, None], null + share * (intercept - null)
        dtype, flat = self.coef_.dtype, self.coef_.ndim == 1
        self.coef_ = (coef[0] if flat else coef).astype(dtype)
        self.intercept_ = (intercept[0] if flat else intercept).astype(dtype)
        return self.family_.predicted(self.link_, null + share * (s - null))

    def _smooth(self, y):
        """The `Law` and the targets for inference of coefficients."""
        for name in ("constraint_", "feature_map_"):
            if vars(self).get(name) is not None:
                raise ValueError(
                    f"Coefficients have no valid intervals with {name[:-1]}=: fit without it."
                )
        family, link = self.family_, self.link_
        smooth = not (family.tied or hasattr(family, "levels") or hasattr(family, "probabilities"))
        if not smooth or not hasattr(link, "slope") or hasattr(link, "base"):
            raise ValueError(
                f"Coefficients of family={family!r} with the link {type(link).__name__} have no "
                "valid intervals: these need one smooth index for each target, and a link that "
                "was not learned."
            )
        return Law(family, link), family.targets(y)

    def _inference_columns(self, X, weights):
        rows, names = super()._inference_columns(self._coded(X), weights)
        categories = vars(self).get("categories_")
        if categories is None:
            return rows, names
        return with_indicators(rows, names, categories, weights, self.fit_intercept)

    def _weight_of(self, family, link, offset=None):
        """The weight of residuals with which stochastic steps and flows learn a family."""
        if isinstance(family, Matching):
            return self.weight
        batch = family.tied or type(family).residuals is not Family.residuals
        if batch or family.exposure is None or offset is not None:
            raise ValueError(f"family={family!r}, or an offset, needs fit with solver='batch'.")
        own = family.canonical is not None and isinstance(link, family.canonical)
        return self.weight if own else Score(family, link)

    def _fit_flow(self, problem):
        for name, wrong in (
            ("constraint", any(c.constraint is not None for c in problem.configurations)),
            ("step", any(c.step is not None for c in problem.configurations)),
            ("keep_path", self.keep_path),
            ("per_output", self.per_output and problem.targets.shape[1] > 1),
        ):
            if wrong:
                raise ValueError(
                    f"solver={self.solver!r} has no {name}={getattr(self, name)!r}: drop it, or "
                    "give solver='batch' (for whole trajectories see dynamics.flow)."
                )
        columns, batches, start = self._batches(problem)
        fitted = fit_flows(
            problem, batches, start, weight=self._weight_of(problem.family, problem.link),
            natural=self.solver == "natural-flow", intercept=self.fit_intercept, most=self.max_iter,
        )  # fmt: skip
        self._publish(fitted, problem, columns, problem.X.dtype)

    def _fit_stochastic(self, problem):
        X, rows, k = problem.X, problem.rows, problem.targets.shape[1]
        centred = self.fit_intercept and not sparse.issparse(X)
        columns = self._units(X[rows], problem.weights, centred)
        batch = Batch(None, problem.targets[rows], problem.weights, problem.held)
        family_link = problem.family, problem.link
        theta, offset = self._start(family_link, columns, batch, problem.members)
        if offset is not None:
            offset = np.reshape(offset, (-1, k))[-1]  # of the member without held-out rows
        fitted = fit_passes(
            problem, self._rule(self.max_iter * len(rows), problem.targets), columns,
            (theta, offset),
            most=self.max_iter, tol=self.tol, keep_path=self.keep_path,
            watch=self._progress.passes(2 * self.max_iter),
        )  # fmt: skip
        self._publish(fitted, problem, columns, X.dtype)

    def _check_choice(self, choosing, n_rows, configurations):
        # With very few rows none are held out: the training risk chooses.
        if not choosing and n_rows >= _FEWEST_ROWS and len(configurations) > 1:
            raise ValueError(
                f"Choosing among {len(configurations)} configurations needs rows held out: give "
                "X_val and y_val, a positive validation_fraction, or a single potential, "
                "constraint and step."
            )

    def _units(self, X, weights, centred):
        scaled = self.standardize and not is_kernel(self.feature_map)
        levels = Levels.of(vars(self).get("categories_"))
        if levels is not None and (self.solver != "batch" or self.feature_map is not None):
            raise ValueError(
                "Columns of text or categories need solver='batch' and no feature_map: give these, "
                "or encode the columns as numbers."
            )
        return Columns.of(X, weights, centred, scaled, levels)

    def _coded(self, X):
        """Rows with codes for the levels of `categories_`."""
        categories = vars(self).get("categories_")
        return X if categories is None else coded(X, categories)[0]

    def _batch(self, columns, X, targets, weights, held, offset=None, own=False):
        """A batch of rows; `own` rows may be overwritten."""
        return Batch(columns.design(X, own), targets, weights, held, offset)

    def _batches(self, problem):
        """The units, the batches of all rows and of validation rows, and the start."""
        X, targets = taken(problem.X, problem.rows), problem.targets[problem.rows]
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
        warm = self.warm_start and hasattr(self, "coef_")
        start = self.coef_ if warm else self.init
        if start is not None:
            start = np.asarray(start, dtype=np.float64)
            if family.tied and start.size == d:
                start = np.repeat(start.reshape(1, d), k, axis=0)
            if start.size != k * d:
                raise ValueError(
                    f"init has {start.size} numbers: {k} outputs of {d} features have {k * d}."
                )
            start = start.reshape(k, d)
            theta = start * columns.scale
        if warm:
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
            link, configurations, self.weight, intercept=self.fit_intercept, members=members,
            patience=self.patience, behind=max(1, self.patience // _BEHIND), tol=self.tol,
            last=not choosing, family=None if isinstance(family, Matching) else family,
        )  # fmt: skip

    def _descend(self, learner, source, columns, start, k, dtype, on_block=None):
        """Pass over a source and set the fitted attributes."""
        fitted, _ = self._descended(learner, source, columns, start, k, dtype, on_block)
        self._publish(fitted, learner, columns, dtype)

    def _descended(self, learner, source, columns, start, k, dtype, on_block=None, most=None):
        """Pass over a source, `most` times at most: the `Fitted` result and the last state."""
        state, path = learner.init(len(columns.scale), k, *start), []
        most = self.max_iter if most is None else min(most, self.max_iter)

        def publish(model, state):
            model.link_, model.family_ = learner.link, learner.family or Matching()
            model._predict_with(*learner.read(state), columns, dtype)

        watch = self._progress.passes(self.max_iter, publish)
        if self.keep_path:
            watch["on_pass"] = _with_path(path, state, columns, watch.get("on_pass"))
        result = runner(self)(
            learner, state, source, max_passes=most, on_block=on_block, **watch
        )  # fmt: skip
        state = result.state
        if not np.isfinite(state.score).any():
            raise ValueError("No step was finite: give a smaller step, or step='auto'.")
        if learner.last and not (result.converged or result.stopped):
            warnings.warn(
                f"{self.max_iter} passes were not enough for the risk to settle: give a larger "
                "max_iter.", ConvergenceWarning, stacklevel=7,
            )  # fmt: skip
        board = [
            (float(state.score[c]), float(state.best_time[c]), learner.configurations[c])
            for c in np.argsort(state.score, kind="stable")
        ]
        trace = {name: np.array([t[name] for t in result.trace]) for name in result.trace[0]}
        theta, offset = learner.read(state)
        return Fitted(theta, offset, board, trace, result.n_passes, np.array(path)), state

    # ---------------------------------------------------------------- sources and streams

    @base.all_or_nothing
    def fit_source(
        self,
        source: Any,
        *,
        classes: ArrayLike | None = None,
        checkpoint: Any = None,
        on_chunk: Callable | None = None,
    ) -> Self:
        """Learn from a source of any size, in constant memory.

        ``solver="batch"`` passes over the rows once for their units and once for every step. The
        result is that of `fit` with the same held-out rows, which are chosen by their hash (one
        fold from 1,000 rows on). A learned link, and unknown parameters of a family, are estimated
        from a uniform sample of 20,000 rows. ``solver="stochastic"`` learns in one pass, as
        `partial_fit` does.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes
            For ``solver="batch"`` one that can be read again.
        classes : array-like, optional
            For classifiers: all labels. Without them ``solver="stochastic"`` accepts new classes
            at any time.
        checkpoint : Checkpoint, optional
            Saves the run (with ``solver="batch"`` between two passes) and resumes it with the same
            bits.
        on_chunk : callable, optional
            Called with (estimator, rows seen, pass) after each chunk.

        Returns
        -------
        self
        """
        if self.solver == "stochastic":
            return super().fit_source(
                source, classes=classes, checkpoint=checkpoint, on_chunk=on_chunk
            )
        if self.solver != "batch":
            raise ValueError(
                f"solver={self.solver!r} needs all rows in memory: for a source give "
                "solver='batch' or 'stochastic'."
            )
        if checkpoint is not None and self.keep_path:
            raise ValueError("A checkpoint does not store the path: give keep_path=False.")
        source = open_source(source)
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
        (family, link), configurations, _ = self._check()
        if self.feature_map is not None:
            raise ValueError(
                "fit_source does not support feature_map: transform the rows of the source."
            )
        if getattr(self, "class_weight", None) is not None:
            raise ValueError(
                "class_weight needs rows in memory or solver='stochastic': give weights of rows in "
                "the source instead."
            )
        seed, (n_folds, _) = seed_of(self.random_state), self._shares(np.inf, self.n_splits)

        def fold_of(X):
            return (row_hash(X, seed) % np.uint64(n_folds)).astype(np.intp)

        learns = self._learns_law(family)
        survey = Survey(
            rows, fold_of, n_folds, is_classifier(self), family_range(family, link),
            seed + 1 if learns else None,
        )  # fmt: skip
        targets, sums = self._source_targets(survey, classes, rows)
        if is_classifier(self):
            family, link = self._law(self.classes_)
        held = _members(np.arange(n_folds), self._shares(rows.rows, self.n_splits)[1])
        choosing = bool(survey.weight[held > NONE].sum() > 0.0)
        if not choosing:
            held[:] = NONE
        self._check_choice(choosing, rows.rows, configurations)
        columns = Columns.unchanged(rows.width)
        if self.standardize:
            columns = survey.moments.columns(self.fit_intercept)
        start: Any = None
        if learns:
            family, link, start = self._law_of(survey.sample, columns)
        source = Surveyed(rows, columns, targets, lambda X: held[fold_of(X)])
        configurations = with_steps(
            in_units(configurations, columns), source, link, self.weight, self.fit_intercept,
            self.max_iter, sums.shape[1],
        )  # fmt: skip
        learner = self._mirror((family, link), configurations, 1 + max(0, held.max()), choosing)
        means = sums / np.maximum(survey.weight, np.finfo(float).tiny)[:, None]
        # The start depends on the means of targets only: one row for each fold is enough.
        folds = Batch(None, means, survey.weight, held)
        if not learns:
            start = self._start((family, link), columns, folds, learner.members)
        if learner.family is not None:
            shape = rows.rows, rows.width
            learner = with_default_geometries(self, learner, shape, start[1], means.shape[1])
            learner = learner._replace(configurations=bound(
                learner.configurations, source, None, float(survey.weight.sum())
            ))  # fmt: skip

        def on_block(state, block):
            on_chunk(self, rows.source.rows, state.passes)

        self.n_features_in_, self.feature_map_, self._stream = rows.width, None, None
        self._descend(learner, source, columns, start, means.shape[1], rows.dtype,
                      on_block if on_chunk is not None else None)  # fmt: skip

    def _learns_law(self, family):
        """Whether a link, or parameters of a family, are to be learned."""
        named = isinstance(self.link, str) and self.link in _LEARNED
        return named or type(family).learned is not Family.learned

    def _law_of(self, sample, columns):
        """The family and the link learned from a sample of the rows, and the start with these."""
        model = ReflectronRegressor(**self.get_params(deep=False)).set_params(keep_path=False)
        model.fit(sample.X, sample.y, sample.weights)
        coef, k = np.atleast_2d(model.coef_), np.size(model.intercept_)
        wide = np.zeros((k, len(columns.scale)))
        wide[:, : coef.shape[1]] = coef
        offset = np.reshape(model.intercept_, -1) + wide @ columns.centre
        return model.family_, model.link_, (wide * columns.scale, offset)

    def _source_passes(self):
        return 1  # `max_iter` is of batches

    def _rule(self, rounds, y=None):
        (family, link), configurations, scheme = self._check(batch=False, y=y)
        link = _of_steps(link)
        weight = self._weight_of(family, link)
        return Rule(
            link, configurations, scheme, weight, self.fit_intercept, self.batch_size, rounds
        )

    def _learn(self, X, targets, weights, flat, is_open=False):
        """Learn from the next rows of a stream; an open stream has one more output."""
        rule = self._rule(self.max_iter)
        if self.feature_map is not None:
            raise ValueError("partial_fit does not support feature_map: transform the rows first.")
        stream, d, k = self.__dict__.get("_stream"), X.shape[1], targets.shape[1]
        if stream is not None and stream.n_outputs() != k:
            raise ValueError(f"y has {k} outputs, but this model has {stream.n_outputs()}.")
        if stream is None:
            start = None, None
            if self.init is not None or "coef_" in vars(self):
                theta = np.asarray(vars(self).get("coef_", self.init), dtype=np.float64)
                offset = np.reshape(vars(self).get("intercept_", np.zeros(k)), -1)
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
        halving: Any = self._rule(self.max_iter).measured(self._stream, now=True)
        runs = sorted(halving.runs, key=lambda run: run.risk())
        self._set_leaderboard((run.risk(), halving.seen, run.configuration) for run in runs)
        theta, offset = runs[0].read()
        if halving.diverged(runs[0]):
            theta, offset = halving.constant()
            warnings.warn(
                "Every step of this stream diverged, and predictions are the mean of the targets "
                "so far: give smaller steps, or targets in units in which they are near 1.",
                ConvergenceWarning, stacklevel=2,
            )  # fmt: skip
        elif halving.beaten(runs[0]):
            warnings.warn(
                "The targets' mean would have predicted this stream better than every step: "
                "give smaller steps, or rows in random order.",
                ConvergenceWarning, stacklevel=2,
            )  # fmt: skip
        if self._stream.is_open:
            theta, offset = theta[:-1], offset[:-1]
        self._predict_with(theta, offset, Columns.unchanged(self.n_features_in_), self._dtype)

    # ---------------------------------------------------------------- the model

    def _publish(self, fitted, learner, columns, dtype):
        """Set the fitted attributes, in the user's units.

        `learner` has the link and the family (None for 'matching').
        """
        self.link_, self.family_ = learner.link, learner.family or Matching()
        self.trace_, self.n_iter_ = fitted.trace, fitted.n_iter
        if self.keep_path:
            self.coef_path_ = columns.whole(fitted.path)
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
        tied = "family_" in vars(self) and self.family_.tied
        coef = (theta[:1] if tied else theta) / columns.scale
        self.coef_ = columns.whole(coef.astype(dtype))
        self.intercept_ = (offset - coef @ columns.centre).astype(dtype)
        if self.__dict__.get("_flat") and len(coef) == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]

    def _margins(self, X, limits=None):
        check_is_fitted(self, "link_")
        X = base.check_rows(self, self._coded(X))
        X = X if limits is None else within_limits(X, limits)
        if getattr(self, "feature_map_", None) is not None:
            X = self.feature_map_.transform(X)
        levels = Levels.of(vars(self).get("categories_"))
        if levels is not None:
            coef = np.atleast_2d(self.coef_)
            return levels.design(X).apply(coef.T) + np.reshape(self.intercept_, -1)
        coef = self.coef_.reshape(-1, X.shape[1])
        return product(X, coef.T) + np.reshape(self.intercept_, -1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _with_path(path, state, columns, on_pass=None):
    """A callback that adds every configuration's parameters to a path, then calls `on_pass`."""
    current = state.now.theta[:, 0].copy()

    def add(state):
        current[state.live] = state.now.theta[:, 0]
        path.append(current / columns.scale)
        return on_pass is not None and on_pass(state)

    return add


def _validation_rows(estimator, X_val, y_val):
    if y_val is None:
        raise ValueError("X_val is given without y_val: give both.")
    return base.check_rows(estimator, estimator._coded(X_val))


def _of_steps(link):
    """The link from whose bound a step is computed: that of 'log' is far too large."""
    return LINKS["exp"] if link == LINKS["log"] else link


def _of_rows(values: Any, X: Any, name: str, positive: bool = False) -> Any:
    """One finite number a row."""
    if values is None:
        return None
    values = np.asarray(values, dtype=np.float64).reshape(-1)
    if len(values) != X.shape[0]:
        raise ValueError(f"{name} has {len(values)} numbers, but X has {X.shape[0]} rows.")
    if not np.isfinite(values).all() or positive and not (values > 0.0).all():
        kind = "positive and finite" if positive else "finite"
        wrong = values[~_is_valid(values, positive)][0]
        raise ValueError(f"{name} must be {kind}, and holds {wrong}.")
    return values


def _is_valid(values, positive):
    return np.isfinite(values) & ((values > 0.0) | (not positive))


def _rates(family, link, targets, weights, exposure, offset):
    """Targets, weights and offsets of rows with an exposure."""
    if exposure is None:
        return targets, weights, offset
    exposure = _of_rows(exposure, targets, "exposure", positive=True)
    if family.exposure is None:
        raise ValueError(f"family={family!r} takes no exposure=: give a family of counts or rates.")
    if family.exposure == "rate":
        return targets / exposure[:, None], weights * exposure, offset
    if not isinstance(link, Exp):
        raise ValueError(f"exposure= with family={family!r} needs link='log', not {link!r}.")
    return targets, weights, np.log(exposure) + (0.0 if offset is None else offset)


def _grades_of(y):
    """The grades of an ordered categorical, from the lowest to the highest; else None."""
    dtype: Any = getattr(y, "dtype", None)
    if type(dtype).__name__ == "Enum" or getattr(dtype, "ordered", False):
        return np.asarray(dtype.categories)
    return None


def _members(folds, n_splits):
    """The member that rows of each fold are held out from: one for each of the first folds."""
    return np.where(folds < n_splits, folds + 1, NONE)


def _is_named(estimator):
    own = estimator.link is None or isinstance(estimator.link, str) and estimator.link in _LEARNED
    if isinstance(estimator.family, str) and estimator.family == "auto" and own:
        raise AttributeError(
            "partial_fit needs family= or link=, such as family='poisson' or link='identity': the "
            "first rows of a stream do not determine the family."
        )
    try:
        estimator._weight_of(*estimator._law(np.array([0.0, 2.0])))
    except ValueError as refusal:
        raise AttributeError(str(refusal)) from None
    return True


@_documented
class ReflectronRegressor(
    RiskIntervalMixin, PredictsIntervals, RegressorMixin, MultiOutputMixin, Reflectron
):
    r"""Generalized linear regression E[y | x] = u(<theta, x> + b), with no step size to choose.

    Mirror descent along the pseudogradient (u(s) - y) x, in several geometries at once. In place of
    a penalty, the potential decides which of the predictors that fit is found; held-out rows choose
    the potential and when to stop. The default step needs no constant.

    Unless family or link is named, `fit` infers the family from y: shares in [0, 1] are binomial,
    counts Poisson, skewed amounts gamma or (with zeros) Tweedie, others normal. The result is
    `family_`. `partial_fit` and `fit_source` need the family or the link.

    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    prediction_limits_ : ndarray of shape (2, n_targets) or None
        With an inferred family, the limits of predictions: the range of the fitted means, widened
        on either side by that part of its width (1, 1/2, 1/4 or 0) which was best for held-out
        rows. None if family, link or offset was given.
    input_limits_ : ndarray of shape (2, n_features) or None
        With an inferred family: entries of new rows outside of these limits (ten times as far from
        the middle as any learned entry) count as missing, as in `fit`.
    {fitted}

    Raises
    ------
    ValueError
        For NaN or infinity, weights that are all zero, a decreasing link, targets that the family
        does not have, or a pair of constraint and potential without a rule. Without a family,
        targets outside the link's range are accepted.

    Warns
    -----
    UserWarning
        If, without a family, most targets lie outside the range of the link: real targets need
        ``link='identity'``.

    References
    ----------
    Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting geometry for learning generalized
    linear models", eq. 7-8 and section 6; the automatic step is this library's.

    Examples
    --------
    >>> from tunefree import ReflectronRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 50))
    >>> y = 1 / (1 + np.exp(-4 * X[:, 0]))
    >>> model = ReflectronRegressor(random_state=0).fit(X, y)
    >>> model.family_, bool(model.score(X, y) > 0.99)
    (Binomial(), True)
    """

    def __getattr__(self, name):
        if name == "partial_fit":  # why it is not available
            _is_named(self)
        return super().__getattr__(name)

    def _set_limits(self, X, targets, offset):
        self.prediction_limits_ = self.input_limits_ = None
        if isinstance(self.family, str) and self.family == "auto" and self.link is None:
            low, high = targets.min(axis=0), targets.max(axis=0)
            if offset is None:
                self.prediction_limits_ = np.stack([2.0 * low - high, 2.0 * high - low])
                self.input_limits_ = limits_of_columns(X) if self.standardize else None

    def _law(self, y=None):
        free = self.link is None or isinstance(self.link, str) and self.link in _LEARNED
        if isinstance(self.family, str) and self.family == "auto":
            if not free:
                return Matching(), LINKS.find(self.link)
            if y is None:
                raise ValueError(
                    "Rows that come in chunks need family= or link=, such as family='poisson' or "
                    "link='identity': the first rows do not determine the family."
                )
            family = family_of(y)
        else:
            family: Any = FAMILIES.find(self.family, ["auto"])
        if family.tied or type(family).residuals is not Family.residuals:
            raise ValueError(f"family={self.family!r} is for classes: use ReflectronClassifier.")
        if not free:
            link = LINKS.find(self.link)
            (low, high), (least, most) = link_range(link), family.range
            if not isinstance(family, Matching) and (low < least or high > most):
                raise ValueError(
                    f"link={self.link!r} has means from {low:g} to {high:g}, but "
                    f"family={self.family!r} has means from {least:g} to {most:g}: choose another "
                    "link or family."
                )
            if not isinstance(family, Matching) and not hasattr(link, "slope"):
                raise ValueError(f"link={self.link!r} needs a method slope(s) with a family.")
            return family, link
        if isinstance(family, Matching):
            raise ValueError("family='matching' needs link=.")
        return family, family.link

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        X_val: MatrixLike = None,
        y_val: TargetLike = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Validation rows, in place of held-out rows.
        exposure : array-like of shape (n_samples,), optional
            The duration or size over which y was counted: E[y | x] = exposure * u(<theta, x> + b).
            For a binomial family the number of trials; y is the number of successes.
        offset : array-like of shape (n_samples,), optional
            Known terms of the index: E[y | x] = u(<theta, x> + b + offset).

        Returns
        -------
        self
        """
        X, self.categories_ = coded(X)
        X, y = base.check_rows_and_targets(self, X, y, multi_output=True, numeric=True)
        if np.shape(y)[1:] == (1,) and not self.__sklearn_tags__().target_tags.multi_output:
            y = column_or_1d(y, warn=True)
        weights = base.check_weights(sample_weight, X)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        of_counts = isinstance(self.family, str) and self.family == "auto" and exposure is not None
        # Counts with an exposure are Poisson, even if all are 0 or 1.
        shown = targets + 1.0 if of_counts and np.all(targets == np.floor(targets)) else targets
        family_link = family, link = self._law(shown)
        self._check(self.solver == "batch", family_link=family_link)
        given = {"exposure": exposure, "offset": offset}
        self.row_terms_ = tuple(name for name, values in given.items() if values is not None)
        offset = _of_rows(offset, X, "offset")
        targets, weights, offset = _rates(family, link, targets, weights, exposure, offset)
        if isinstance(family, Matching):
            low, high = link_range(link)
            self._warn_outside(np.mean((targets < low) | (targets > high)))
        else:
            family.check(targets[weights > 0.0])
            targets = family.targets(targets)
        validation = None
        if X_val is not None:
            X_val = _validation_rows(self, X_val, y_val)
            if exposure is not None or offset is not None:
                raise ValueError("X_val= cannot be combined with exposure= or offset=.")
            y_val = np.asarray(y_val, dtype=np.float64).reshape(X_val.shape[0], -1)
            validation = X_val, family.targets(y_val), np.ones(X_val.shape[0])
        self._flat = np.ndim(y) == 1
        over = None if family.exposure != "rate" else _of_rows(exposure, X, "exposure")
        self._fit(
            X, targets, weights, np.zeros(len(targets)), validation, offset, family_link, over
        )
        return self

    @available_if(_is_named)
    @base.all_or_nothing
    def partial_fit(
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from the next rows of a stream, with a stochastic step for ``batch_size`` rows.

        All columns have one unit, computed from the first 64 rows (``standardize``). Each row is
        predicted before it is learned; these risks choose among potentials and steps. The sizes of
        chunks make no difference.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        reset = "link_" not in vars(self)
        X, y = base.check_rows_and_targets(self, X, y, reset=reset, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X, stream=True)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        self._learn(X, targets, weights, np.ndim(y) == 1)
        return self

    def _source_targets(self, survey, classes, rows):
        self._flat, family = rows.flat, self._law()[0]
        if isinstance(family, Matching):
            self._warn_outside(survey.outside / (rows.rows * survey.sums.shape[1]))
        elif survey.outside:
            raise ValueError(
                f"{survey.outside} targets of the source are outside the range of {family!r}: give "
                "another family."
            )
        sums = family.targets(survey.sums)
        return lambda y: family.targets(np.asarray(y, np.float64).reshape(len(y), -1)), sums

    def _warn_outside(self, share):
        if share > 0.5:
            low, high = link_range(self._law()[1])
            warnings.warn(
                f"Most targets lie outside the range [{low:g}, {high:g}] of link={self.link!r}, "
                "and predictions never do: give link='identity' for real targets.",
                UserWarning, stacklevel=5,
            )  # fmt: skip

    def predict(
        self,
        X: MatrixLike,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> np.ndarray:
        """Expected targets, shape (n_samples,) or (n_samples, n_targets or n_quantiles).

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        exposure, offset : array-like of shape (n_samples,), optional
            As in `fit`: the means are those of counts over the exposure.

        Returns
        -------
        ndarray
        """
        margins = self._margins(X, getattr(self, "input_limits_", None))
        if offset is not None:
            margins = margins + _of_rows(offset, margins, "offset")[:, None]
        mean = self.family_.predicted(self.link_, margins)
        mean = mean.astype(self.coef_.dtype, copy=False)
        ends: Any = getattr(self, "prediction_limits_", None)
        if ends is not None:
            mean = np.clip(mean, *ends).astype(mean.dtype)
        if exposure is not None:
            mean = mean * _of_rows(exposure, margins, "exposure", positive=True)[:, None]
        return mean[:, 0] if self.coef_.ndim == 1 else mean

    def _held_out_predictions(self, s, batch, held, now, terms):
        family, link, y, w = self.family_, self.link_, batch.targets[held], batch.weights[held]
        predictions = family.predicted(link, s)
        if self.prediction_limits_ is not None:
            fitted = family.predicted(link, now)
            self.prediction_limits_ = np.clip(
                limits_of_predictions(predictions, fitted, y, w, held), *self.prediction_limits_
            )
            predictions = np.clip(predictions, *self.prediction_limits_)
            mean = np.broadcast_to(
                family.clipped(family.start(batch.targets, batch.weights)), y.shape
            )
            losses = [family.deviance(y, family.clipped(m)) for m in (mean, predictions)]
            share = shrinkage_factor(predictions - mean, y - mean, w, losses)
            if (share < 1.0).any() and self.fit_intercept:
                predictions = self._shrink_to_null(share, target_margin(link, mean[0]), s)
        if terms is None:
            return base.held_out_predictions(predictions, y, w, self.prediction_limits_)
        rows, at = terms.within(held)
        exposure, w = terms.exposure[rows, None], terms.weights[rows]
        predictions, y = exposure * predictions[at], exposure * y[at]
        return base.held_out_predictions(
            predictions, y, w, unit=self._deviation(predictions, exposure)
        )

    def _deviation(self, mean, exposure):
        """The standard deviation of targets with these means, up to a factor: Pearson's unit."""
        rate = self.family_.clipped(mean / exposure)
        return np.sqrt(exposure * self.family_.variance(rate))

    def predict_interval(
        self,
        X: MatrixLike,
        alpha: float | ArrayLike = 0.1,
        *,
        joint: bool = False,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predictions, and intervals that contain the target in 1 - alpha of new rows.

        With an exposure or an offset they are intervals of the targets themselves, such as counts,
        and their width is proportional to the family's standard deviation (Pearson residuals).

        Parameters
        ----------
        X : as for `predict`
        alpha : float or array-like of shape (n_alpha,), default=0.1
            The share of targets that may lie outside.
        joint : bool, default=False
            With several targets: all of a row's lie within in 1 - alpha of rows.
        exposure, offset : array-like of shape (n_samples,), optional
            As in `fit`: needed here if they were given there.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
        intervals : ndarray of shape (n_samples, 2, n_alpha) or (n_samples, n_targets, 2, n_alpha)
            Infinite, with a warning, if there are fewer than 1 / alpha - 1 held-out rows.

        Raises
        ------
        ValueError
            If there are no held-out predictions, alpha is not between 0 and 1, or an exposure or
            an offset was given to `fit` and not here, or here and not there.
        """
        self._check_terms(exposure, offset)
        terms = vars(self).get("row_terms_", ())
        for name, values in (("exposure", exposure), ("offset", offset)):
            if values is not None and name not in terms:
                raise ValueError(
                    f"This {type(self).__name__} was fitted without {name}=: do not give it here."
                )
        y = self.predict(X, exposure, offset)
        if not terms:
            return self._intervals(X, y, alpha, joint)
        over: Any = 1.0
        if exposure is not None and self.family_.exposure == "rate":
            over = np.asarray(exposure, dtype=np.float64).reshape(-1, 1)
        unit = self._deviation(y.reshape(len(y), -1).astype(np.float64), over)
        most = self.family_.range[1] * np.reshape(over, (-1, 1, 1, 1))
        y, ends = self._intervals(X, y, alpha, joint, unit)
        ends = np.minimum(ends.reshape(len(y), -1, 2, ends.shape[-1]), most).reshape(ends.shape)
        return y, ends

    def _possible(self, ends):
        low, high = self.family_.range
        return np.clip(ends, low, np.inf if vars(self).get("row_terms_") else high)

    def _check_terms(self, exposure, offset):
        """Refuse rows without the exposure or the offset that the model was fitted with."""
        given = {"exposure": exposure, "offset": offset}
        for name in vars(self).get("row_terms_", ()):
            if given[name] is None:
                raise ValueError(
                    f"This {type(self).__name__} was fitted with {name}=: give {name}= for these "
                    "rows, too."
                )

    def _estimand_of_rows(self, y, exposure, offset):
        self._check_terms(exposure, offset)
        law, targets = self._smooth(np.asarray(y, dtype=np.float64).reshape(len(y), -1))
        ones, offset = np.ones(len(y)), _of_rows(offset, targets, "offset")
        targets, exposures, offset = _rates(*law[:2], targets, ones, exposure, offset)
        law.family.check(targets)
        return law._replace(exposure=exposures, offset=offset), targets

    def score(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """D2, the share of the deviance of the best constant that is explained; R2 of squares.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight, exposure, offset : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        float
        """
        mean = self.predict(X, offset=offset)
        if exposure is None:
            return self._d2(y, mean, sample_weight)
        over: Any = _of_rows(exposure, mean.reshape(len(mean), -1), "exposure", positive=True)
        weights = over if sample_weight is None else over * np.asarray(sample_weight, float)
        return self._d2(np.asarray(y, dtype=np.float64) / over, mean, weights)

    def _d2(self, y, mean, weights=None):
        """The score of means; R2 where deviances are squares."""
        if type(self.family_).deviance is Family.deviance:
            return float(r2_score(y, mean, sample_weight=weights))
        y = np.asarray(y, dtype=np.float64).reshape(len(mean), -1)
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, float)
        mean = np.asarray(mean, dtype=np.float64).reshape(len(y), -1)
        return self.family_.d2(self.family_.targets(y), mean, weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            family, link = self._law(np.array([-1.0, 1.0]))
        except ValueError:
            return tags
        # The means of a bounded link cannot fit targets of any size.
        tags.regressor_tags.poor_score = bool(np.isfinite(link_range(link)).any())
        tags.target_tags.positive_only = family.range == (0.0, np.inf)
        # In scikit-learn's checks several targets are negative, too.
        tags.target_tags.multi_output = bool(np.isinf(family.range).all()) and not hasattr(
            family, "levels"
        )
        return tags


def _is_streamed(estimator):
    try:
        estimator._weight_of(*estimator._law())
    except ValueError as refusal:
        raise AttributeError(str(refusal)) from None
    return True


def _has_probabilities(estimator):
    if hasattr(vars(estimator).get("family_"), "probabilities"):
        return True
    if np.isfinite(estimator._levels()).all():
        return True
    raise AttributeError(f"predict_proba needs a link of bounded range, not {estimator.link!r}.")


@_documented
class ReflectronClassifier(RiskIntervalMixin, PredictsSets, base.LabelsByDecisions, Reflectron):
    r"""Linear classification through a link, with no step size and no penalty to choose.

    Two classes are one output, whose mean is the probability of the second class. More classes are
    a softmax with one index for each, learned by its likelihood (``family='multinomial'``). With
    another link, with stochastic steps and on streams each class is one output, trained on one-hot
    targets (``family='matching'``). Ordered classes have ``family='ordinal'``: one index and a
    threshold between neighbours. See `ReflectronRegressor` for the method.

    {parameters}
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; on a stream 'balanced' uses the counts up to each row.
    categories : array-like or None, default=None
        For family='ordinal', the grades from the lowest to the highest. None uses the order of an
        ordered categorical (pandas, polars Enum) or of numbers; other text is refused.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        Sorted; with family='ordinal' from the lowest grade to the highest.
    class_count_ : ndarray of shape (n_classes,)
        The weight of the rows of each class.
    {fitted}

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero, a decreasing link, or
        a pair of constraint and potential without a rule.

    References
    ----------
    Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting geometry for learning generalized
    linear models", eq. 7-8; Boffi and Slotine 2020, appendix B.1
    (one-hot targets); the automatic step is this library's.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import ReflectronClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ReflectronClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    def __init__(
        self,
        link: str | Link = "logit",
        potential: Any = "auto",
        constraint: Any = None,
        *,
        step: Any = "auto",
        weight: Any = None,
        feature_map: Any = None,
        solver: str = "batch",
        average: str | Average | AverageWithin = "auto",
        batch_size: int = 1,
        init: Any = None,
        validation_fraction: float | str = "auto",
        n_splits: int | str = "auto",
        patience: int = 50,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        standardize: bool = True,
        keep_path: bool = False,
        warm_start: bool = False,
        per_output: bool = False,
        class_weight: Any = None,
        family: Any = "auto",
        n_jobs: int | None = None,
        categories: ArrayLike | None = None,
        random_state: Seed = None,
    ):
        super().__init__(
            link, potential, constraint, step=step, weight=weight, feature_map=feature_map,
            solver=solver, average=average, batch_size=batch_size, init=init,
            validation_fraction=validation_fraction, n_splits=n_splits, patience=patience,
            tol=tol, max_iter=max_iter, fit_intercept=fit_intercept, standardize=standardize,
            keep_path=keep_path, warm_start=warm_start, random_state=random_state,
            per_output=per_output, family=family, n_jobs=n_jobs,
        )  # fmt: skip
        self.class_weight = class_weight
        self.categories = categories

    def __getattr__(self, name):
        if name == "partial_fit":  # why it is not available
            _is_streamed(self)
        return super().__getattr__(name)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Scikit-learn's classes have no order, as thresholds need.
        tags.classifier_tags.poor_score = self.family == "ordinal"
        return tags

    def _law(self, y=None):
        """The family and the link for classes `y`, if these are known."""
        link = LINKS["logit"] if self.link is None else LINKS.find(self.link)
        if not (isinstance(self.family, str) and self.family == "auto"):
            family: Any = FAMILIES.find(self.family, ["auto"])
            if FAMILIES.get(self.family) is not None and self.family not in OF_CLASSES:
                raise ValueError(
                    f"family={self.family!r} is not for classes: choose one of auto, "
                    f"{', '.join(OF_CLASSES)}."
                )
            if hasattr(family, "probabilities") and y is not None and len(y) == 2:
                family = FAMILIES["binomial"]
            return family, family.link if hasattr(family, "probabilities") else link
        several = y is not None and len(y) > 2 and self.solver == "batch"
        if several and link == LINKS["logit"] and self.weight is None:
            family = FAMILIES["multinomial"]
            return family, family.link
        return Matching(), link

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        X_val: MatrixLike = None,
        y_val: TargetLike = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Validation rows, in place of held-out rows.

        Returns
        -------
        self
        """
        self._check(self.solver == "batch")
        X, self.categories_ = coded(X)
        grades = _grades_of(y)
        X, y = base.check_rows_and_targets(self, X, y)
        weights = base.check_weights(sample_weight, X)
        base.encode_labels(y[weights > 0.0], fewest=2)
        classes = self._in_order(base.encode_labels(y)[0], grades)
        codes = base.places_of(classes, y)
        counts = np.bincount(codes, weights)
        weights = base.balanced(self.class_weight, classes, codes, weights)
        validation = None
        if X_val is not None:
            X_val, y_val = _validation_rows(self, X_val, y_val), np.asarray(y_val)
            if not np.isin(y_val, classes).all():
                raise ValueError("y_val has classes that y does not have.")
            y_val = self._targets(base.places_of(classes, y_val), classes)
            validation = X_val, y_val, np.ones(X_val.shape[0])
        self.classes_, self.class_count_ = classes, counts
        targets, family_link = self._targets(codes, classes), self._law(classes)
        self._fit(X, targets, weights, codes, validation, family_link=family_link)
        return self

    @available_if(_is_streamed)
    @base.all_or_nothing
    def partial_fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next rows of a stream, with a stochastic step for ``batch_size`` rows.

        All columns have one unit, computed from the first 64 rows (``standardize``). Each row is
        predicted before it is learned; these risks choose among potentials and steps. The sizes of
        chunks make no difference.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels, in the first call. Without them new classes may appear at any time, at the
            cost of one more output: a new class starts with the output that has learned all rows so
            far as rows of other classes. This needs outputs that learn independently: a separable
            potential without a constraint, or ``per_output``.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        reset = "link_" not in vars(self)
        X, y = base.check_rows_and_targets(self, X, y, reset=reset)
        weights = base.check_weights(sample_weight, X, stream=True)
        old_classes: Any = None if reset else self.classes_
        stream = None if reset else self._stream
        is_open = classes is None if reset else stream is not None and stream.is_open
        all_classes, codes, weights, counts = stream_labels(self, y, weights, classes, old_classes)
        closed: Any = None if is_open else np.unique(np.asarray(classes)) if reset else old_classes
        if closed is not None and not np.array_equal(all_classes, closed):
            raise ValueError(
                f"y or classes have labels beyond {closed}, those of the first call: to allow new "
                "classes later, give no classes= in the first call of partial_fit."
            )
        if not reset and len(all_classes) > len(old_classes):
            self._stream = self._more_outputs(stream, old_classes, all_classes)
        targets = self._one_hot(codes, len(all_classes))
        if is_open:
            targets = np.hstack([targets, np.full((len(y), 1), self._ends()[0])])
        self._learn(X, targets, weights, False, is_open)
        self.classes_, self.class_count_ = all_classes, counts
        return self

    def _source_targets(self, survey, classes, rows):
        all_classes = survey.classes if classes is None else np.union1d(survey.classes, classes)
        if len(survey.classes) < 2:
            raise ValueError(
                f"{rows.source.name} has only one class ({survey.classes[0]}): a classifier needs "
                "rows of at least two."
            )
        self.classes_ = all_classes = self._in_order(all_classes)
        each = self._targets(np.arange(len(all_classes)), all_classes)
        sums = survey.sums @ each[base.places_of(all_classes, survey.classes)]
        return lambda y: each[base.places_of(all_classes, y)], sums

    def _in_order(self, classes, grades=None):
        """Sorted classes; with family='ordinal' in the order of `categories`, or else `grades`."""
        if not isinstance(self._law()[0], Ordinal):
            if self.categories is not None:
                raise ValueError("categories= is the order of grades and needs family='ordinal'.")
            return classes
        if self.categories is not None:
            grades = np.asarray(self.categories)
        if grades is None:
            if len(classes) > 2 and isinstance(classes[0], str):
                raise ValueError(
                    f"y has text without an order ({', '.join(classes[:5])}): give categories=, "
                    "all grades from the lowest to the highest (in the shell --categories "
                    "low,mid,high), or y as an ordered categorical (pandas.CategoricalDtype(..., "
                    "ordered=True), polars.Enum)."
                )
            return classes
        if len(np.unique(grades)) < len(grades):
            raise ValueError(f"categories={grades.tolist()} names a grade twice.")
        ranks = {grade: rank for rank, grade in enumerate(grades.tolist())}
        for grade in classes.tolist():
            if grade not in ranks:
                raise ValueError(f"categories={grades.tolist()} lacks {grade!r}, which y has.")
        return classes[np.argsort([ranks[grade] for grade in classes.tolist()])]

    def _more_outputs(self, stream, old_classes, new_classes):
        """Outputs for new classes, from the spare output, which has learned none of their rows."""
        (index, sign), ends = new_columns(old_classes, new_classes), sum(self._ends())
        link, s = stream.runs[0].learner.link, np.array([0.3, 1.0, 3.0])
        mirrored = np.allclose(link.mean(s) + link.mean(-s), ends) and all(
            is_odd(c.potential) and c.constraint is None
            for c in (run.configuration for run in stream.runs)
        )
        if min(sign) < 0.0 and not mirrored:
            raise ValueError(
                f"The one output of the classes {old_classes} cannot be split into two here: "
                "announce all classes in the first call of partial_fit (classes=)."
            )
        return stream.outputs(index, sign, ends)

    def _levels(self):
        """The means that stand for 'no' and 'yes': the ends of the link's range."""
        link = "logit" if self.link is None else self.link
        return np.array(link_range(link, (0.0, 1.0)), dtype=float)

    def _ends(self):
        low, high = self._levels()
        low = low if np.isfinite(low) else -1.0
        return low, high if np.isfinite(high) else low + 2.0

    def _one_hot(self, codes, n_classes):
        low, high = self._ends()
        return np.where(base.signs(codes, n_classes) > 0.0, high, low)

    def _targets(self, codes, classes):
        """Targets for the family of these classes."""
        family, _ = self._law(classes)
        codes_of = getattr(family, "codes", self._one_hot)
        return codes_of(codes, len(classes))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Margins above the middle of the link's range: (n_samples,), or one for each class.

        With several ordered classes the logarithms of their probabilities.
        """
        margins = self._margins(X)
        if self.family_.tied and len(self.classes_) > 2:
            p = self.family_.probabilities(margins.astype(np.float64))
            return np.log(np.maximum(p, 1e-300)).astype(self.coef_.dtype)
        if hasattr(self.family_, "probabilities") and len(self.classes_) > 2:
            return margins.astype(self.coef_.dtype, copy=False)
        middle = 0.5 * sum(self._ends())
        if hasattr(self.link_, "inverse"):
            margins = margins - target_margin(self.link_, middle)
        else:
            margins = self.link_.mean(margins) - middle
        margins = margins.astype(self.coef_.dtype, copy=False)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    @available_if(_has_probabilities)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Means of the model as shares of the link's range; for several classes normalised to 1.

        Shape (n_samples, n_classes).
        """
        return self._probabilities(self._margins(X)).astype(self.coef_.dtype, copy=False)

    def _estimand(self, y):
        codes = base.places_of(self.classes_, y)
        return self._smooth(self._targets(codes, self.classes_))

    def _held_out_predictions(self, s, batch, held, now, terms):
        targets, weights = batch.targets[held], batch.weights[held]
        if not (hasattr(self.family_, "probabilities") or np.isfinite(self._levels()).all()):
            return None
        each = self._targets(np.arange(len(self.classes_)), self.classes_)
        same = [(targets == row).all(axis=1) for row in each]
        p, codes = self._probabilities(s), np.argmax(same, axis=0)
        mean = batch.weights @ batch.targets / batch.weights.sum()
        tied = self.family_.tied  # thresholds are no log-odds of classes
        free = self.fit_intercept and not tied and vars(self).get("constraint_") is None
        if free and hasattr(self.link_, "inverse"):
            null = target_margin(self.link_, mean)
            share = shrinkage_factor_of_classes(
                p, self._probabilities(null[None])[0], codes, weights
            )
            if share < 1.0:
                signs = base.signs(codes, len(self.classes_))
                share *= min(temperature(s - null, signs, weights), 1.0)
                self._shrink_to_null(np.full(len(null), share), null, s)
                p = self._probabilities(null + share * (s - null))
        return base.held_out_probabilities(p, codes, weights)

    def _probabilities(self, margins):
        """Probabilities from indices."""
        if hasattr(self.family_, "probabilities"):
            return self.family_.probabilities(margins.astype(np.float64))
        means = np.asarray(self.link_.mean(margins), dtype=np.float64)
        low, high = self._levels()
        p = (means - low) / (high - low)
        if p.shape[1] == 1:
            p = np.hstack([1.0 - p, p])
        else:
            total = p.sum(axis=1, keepdims=True)
            p = np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0.0)
        return p
