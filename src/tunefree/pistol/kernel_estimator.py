"""What kernel estimators of PiSTOL share: in memory and on streams, for classes and for numbers."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base, scores
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.reading import ReadOnDemand
from tunefree.base.sizes import check_kernel_values
from tunefree.base.uncertainty_mixins import PredictsIntervals, RiskIntervalMixin
from tunefree.core.parameters import compression_options, seed_of
from tunefree.core.process import workers
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.core.warn import warn
from tunefree.engine.run import run
from tunefree.held_out.shrinkage import shares_as_scores, shrinkage_factor
from tunefree.held_out.stacking import log_losses
from tunefree.kernels.compression import CHECKED, compress
from tunefree.kernels.expansion import Expansion
from tunefree.kernels.kernels import Precomputed
from tunefree.parts.averaging import AVERAGES, PolynomialDecay, scheme_of
from tunefree.parts.averaging import within as placed
from tunefree.pistol.bandwidths import (
    HoldOutSelection,
    ProgressiveSelection,
    SingleRun,
    absolute_errors,
    mistakes,
    read_outs,
    squared_errors,
)
from tunefree.pistol.kernel_blocked import Member
from tunefree.pistol.kernel_problem import Choice, KernelPiSTOLProblem, Recipe
from tunefree.pistol.kernel_stream import KernelStream
from tunefree.pistol.linear_estimator import is_dense
from tunefree.pistol.rules import DoWG, PiSTOL
from tunefree.rows.order import visits_of
from tunefree.rows.outliers import DELTA, EXTREME, clip_outliers, location_and_scale

# The rule of 'auto' was chosen on four public data sets. After a few passes it is as good as
# 'global' there, or better. No benchmark is named for it.
RULE = PiSTOL(a=0.25, squares=True)
# Rows are predicted in blocks of a multiple of this size.
_ALIGNED = 16
# With fewer numbers than this (stored ones of sparse rows) one thread is faster than two: no
# benchmark is named for it.
_THREADED = 2_000_000


class KernelEstimator(CallbackSupport, BaseEstimator, metaclass=ABCMeta):
    """Learns an expansion over support rows in memory.

    Subclasses have the parameters, and define the abstract methods.
    """

    kernel: Any
    average: Any
    max_iter: Any
    shuffle: bool
    compress: Any
    n_jobs: int | None
    random_state: Any
    intercept_: Any
    _CLASSIFY = True  # whether targets are signs of classes
    _LIMIT = 12  # the most passes of 'auto'
    _AVERAGES: tuple[str, ...] = ("auto",)  # in addition to the schemes

    @abstractmethod
    def _learner(self, n_rounds, largest=1.0) -> Any:
        """The learner for so many visits (None: unknown) of rows with k(x, x) <= `largest`."""

    @abstractmethod
    def _encode(self, y, kept, weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Targets of the rows `kept`, labels for the order of rows, and weights."""

    @abstractmethod
    def _standard(self, encoded, rows, totals, dtype) -> tuple[np.ndarray, Any]:
        """The targets in the units of learning, and what predictions are shrunk to."""

    @abstractmethod
    def _selection_loss(self) -> Any:
        """The function of decisions and targets that selects: a loss for each row."""

    @abstractmethod
    def _losses(self, values, targets) -> np.ndarray:
        """The loss of every row, for a compression."""

    @abstractmethod
    def _finish(self, engine, outcome, prior) -> tuple[Any, Any, Any]:
        """The factor of coefficients, predictions of held-out rows, and those to keep."""

    def _scheme(self):
        """The averaging scheme; the uniform one for an average that only this estimator has."""
        if self.average in self._AVERAGES:
            return AVERAGES["uniform"]
        return scheme_of(self.average, also=self._AVERAGES)

    def _check(self):
        """Check the parameters; returns the `Recipe` of the kernel."""
        self._scheme()
        recipe = Recipe.of(self)
        if compression_options(self.compress) and isinstance(recipe.kernel, Precomputed):
            raise ValueError("compress= needs rows, not a precomputed kernel.")
        return recipe

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or the kernel's values, of shape (n_samples, n_samples), for kernel='precomputed'.
        y : array-like of shape (n_samples,), or in regression (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        self._learn(X, y, sample_weight)
        return self

    def _learn(self, X, y, sample_weight=None, held=None):
        """Choose bandwidths and passes on the rows `held`, by default on every tenth row.

        Below 500 rows it is up to every fourth. Returns the predictions of the rows `held`, or
        None.
        """
        recipe = self._check()
        problem = self._problem(recipe, X, y, sample_weight)
        apart = None if held is None else np.flatnonzero(np.asarray(held, bool)[problem.given])
        one_thread = self.n_jobs is None and getattr(problem.X, "size", 0) < _THREADED
        with workers(1 if one_thread else self.n_jobs) as team:
            learner = self._learner(len(problem.visits.rows))
            choice = Choice.preselected(recipe, team, problem, learner, self._CLASSIFY, apart)
            learner, engine, data, n_passes = self._plan(team, problem, choice, apart)
            watch = self._progress.passes(n_passes)
            result = run(learner, learner.init(engine), data, **watch)
            outcome = learner.read(result.state)
        predictions = self._publish(problem, choice, data, result, outcome)
        return None if apart is None else predictions[np.argsort(problem.given[apart])]

    def _problem(self, recipe, X, y, sample_weight):
        """The rows of positive weight, in the order of learning."""
        real = not self._CLASSIFY
        X, y = base.check_rows_and_targets(self, X, y, multi_output=real, numeric=real)
        weights = base.check_weights(sample_weight, X)
        recipe.check(X)
        kept = np.flatnonzero(weights)
        encoded = _, labels, weights = self._encode(y, kept, weights[kept])
        X = X if len(kept) == X.shape[0] else X[kept]
        seed = seed_of(self.random_state)
        visits, rows, totals = visits_of(
            X, labels, weights, self.shuffle, seed, affine=real and is_dense(X)
        )
        targets, prior = self._standard(encoded, rows, totals, X.dtype)
        if recipe.drops_outliers:  # one extreme entry would determine a column's unit
            X = clip_outliers(X, rows, EXTREME)
        problem = KernelPiSTOLProblem(X, targets, visits, kept, prior)
        problem.check_memory(4 if recipe.single(X.dtype, X) else 8)
        return problem

    def _plan(self, team, problem, choice, apart):
        """The learner, its engine, the source, and the most passes."""
        if self.average != "auto":
            return self._plan_one(team, problem, choice)
        kernel, gammas, loss_of = choice.recipe.kernel, choice.gammas, self._selection_loss()
        when = read_outs(problem.n_visits, self.max_iter, self._LIMIT)
        one_pass = when == [1]
        data = choice.data(team, problem, gammas, keep=not one_pass)
        learner = self._learner(len(problem.visits.rows), data.largest)
        if one_pass and apart is None:
            rules = [r._replace(average=PolynomialDecay()) for r in self._rivals(learner)]
            members = [Member(*pair) for pair in product(gammas, rules)]
            runner = ProgressiveSelection(team, loss_of, self._CLASSIFY)
            return runner, data.engine(kernel, members), data, 1
        members = [Member(g, learner, name) for g in gammas for name in ("part", "all")]
        runner = HoldOutSelection(team, data, when, loss_of, self._CLASSIFY, apart)
        return runner, data.engine(kernel, members, watched=runner.held), data, when[-1]

    def _plan_one(self, team, problem, choice):
        """The plan where the user has chosen the average: one bandwidth."""
        scheme = self._scheme()
        n_passes = 1 if self.max_iter == "auto" else self.max_iter
        last, late = self._reads_last(), hasattr(scheme, "within")
        data = choice.data(team, problem, [choice.best], keep=n_passes > 1)
        learner = self._learner(len(problem.visits.rows), data.largest)
        if not last:
            learner = learner._replace(average=placed(scheme, problem.n_visits * n_passes))
        runner = SingleRun(team, n_passes, self._CLASSIFY, last=last, late=late)
        engine = data.engine(choice.recipe.kernel, [Member(choice.best, learner)], self._apart())
        return runner, engine, data, n_passes

    def _reads_last(self):
        """Whether the iterate after the last row is read."""
        return self.average == "last"

    def _apart(self):
        """Whether every update of a single member gets its own support row."""
        return False

    def _rivals(self, learner):
        """The learners that compete in a single pass."""
        return [learner, learner._replace(rule=DoWG())]

    def _publish(self, problem, choice, data, result, outcome):
        """Set the fitted attributes; returns the predictions of held-out rows.

        Rows with a coefficient are the support.
        """
        engine = result.state.engine
        factor, predictions, self.held_out_ = self._finish(engine, outcome, problem.prior)
        coefs = [factor * c for c in outcome.coefs.values()]
        kept = np.flatnonzero(np.any([c.any(axis=1) for c in coefs], axis=0))
        numbers = engine.numbers()[kept]
        self._stream, self.n_iter_ = None, result.n_passes
        self.leaderboard_, self.coordinates_ = choice.leaderboard, choice.view
        self.trace_ = outcome.trace | choice.trace
        self.support_ = problem.given[numbers]
        support = self.support_ if data.rows is None else data.rows.rows[numbers]
        coefs = tuple(c[kept].astype(engine.dtype) for c in coefs)
        self.expansion_ = Expansion(choice.recipe.with_bandwidths(outcome.coefs), support, coefs)
        self._compress(problem)
        return predictions

    def _compress(self, problem):
        """Project the predictor onto landmarks, as `compress` requires."""
        f, options, self.compression_ = self.expansion_, compression_options(self.compress), None
        if not options or not f.support.shape[0]:
            return
        n = len(problem.stored)
        at = np.arange(min(n, CHECKED)) * n // min(n, CHECKED)
        rows = self.coordinates_.show(problem.X[problem.stored[at]])
        targets = problem.targets[at]
        share = problem.weights[at] / problem.weights[at].sum()

        def risk(values):
            return float(share @ self._losses(values, targets))

        self.expansion_, kept, self.compression_ = compress(
            f, rows, risk, **options, n_jobs=self.n_jobs
        )
        self.support_ = self.support_[kept]

    @property
    def dual_coef_(self) -> np.ndarray:
        """Coefficients of the support rows, shape (n_bandwidths, n_outputs, n_support)."""
        check_is_fitted(self, "expansion_")
        return np.stack([c.T for c in self.expansion_.coefs])

    @property
    def gamma_(self) -> Any:
        """The bandwidths of the predictor, shape (n_bandwidths,)."""
        check_is_fitted(self, "expansion_")
        return np.array([getattr(k, "gamma", np.nan) for k in self.expansion_.kernels])

    def _values(self, X):
        """The predictor's values, shape (n, n_outputs), of the type of X."""
        check_is_fitted(self, "expansion_")
        X = base.check_rows(self, X)
        f, view, dtype = self.expansion_, self.coordinates_, X.dtype
        if isinstance(f.kernels[0], Precomputed):
            return self._expanded(f, X).astype(dtype)
        far = view.far_rows(X)
        if not far.any():
            values = self._expanded(f, view.show(X))
        else:
            wide, double = f._replace(support=f.support.astype(float)), view._replace(single=False)
            values = np.empty((X.shape[0], f.n_outputs))
            values[~far] = self._expanded(f, view.show(X[~far]))
            values[far] = self._expanded(wide, double.show(X[far].astype(float)))
        check_kernel_values(values, X, vars(self).get("feature_names_in_"))
        return values.astype(dtype)

    def _expanded(self, f, X):
        """The values of an expansion at rows in its coordinates."""
        n = X.shape[0]
        if not sparse.issparse(X):
            # Padded, so that a row's arithmetic does not depend on the number of rows.
            X = np.pad(X, ((0, -n % _ALIGNED), (0, 0)))
        return f(X, self.n_jobs)[:n]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class LearnsKernelStreams(ReadOnDemand):
    """A `KernelEstimator` with ``partial_fit``: the expansion is read out of a `KernelStream`."""

    _ON_DEMAND = ("expansion_", "coordinates_", "leaderboard_", "trace_", "n_iter_", "held_out_")
    _LEARNER = ()  # a model file holds the predictor
    # Of the estimator.
    max_support: int | None
    _CLASSIFY: bool
    _learner: Callable[..., Any]

    def _opened(self, recipe, X, units=None):
        """The stream, or a new one."""
        stream = getattr(self, "_stream", None)
        if stream is not None:
            return stream
        if "expansion_" in vars(self):
            warn(
                "partial_fit starts a new model and discards the model from fit, which cannot be "
                "continued. Use partial_fit from the start to learn from a stream."
            )
        if isinstance(recipe.kernel, Precomputed):
            raise ValueError("partial_fit needs rows, not a precomputed kernel.")
        recipe.check(X)
        learner = self._learner(None)._replace(average=PolynomialDecay())
        single = recipe.single(X.dtype)
        return KernelStream(recipe, learner, single, self._CLASSIFY, self.max_support, units)

    def _publish_stream(self, ready, outcome, board, held_out, scale=1.0):
        """Set the fitted attributes from the reading of a stream, times a scale."""
        self.coordinates_, self.n_iter_ = ready.coordinates, 1
        self.leaderboard_, self.trace_ = board, outcome.trace
        dtype, support = ready.engine.dtype, ready.engine.support.rows.copy()
        coefs = tuple((scale * c).astype(dtype) for c in outcome.coefs.values())
        self.held_out_ = held_out
        # Last: another thread that finds the expansion expects the other attributes, too.
        self.expansion_ = Expansion(ready.recipe.with_bandwidths(outcome.coefs), support, coefs)


class KernelClassifier(scores.LabelsByDecisions, KernelEstimator):
    """A kernel estimator of classes."""

    class_weight: Any

    def _encode(self, y, kept, weights):
        base.encode_labels(y)
        self.classes_, codes = base.encode_labels(y[kept], fewest=2)
        self.class_count_ = np.bincount(codes, weights)
        weights = base.balanced(self.class_weight, self.classes_, codes, weights)
        return base.signs(codes, len(self.classes_)), codes[:, None].astype(float), weights

    def _standard(self, encoded, rows, totals, dtype):
        signs, codes, _ = encoded
        codes = codes[rows, 0].astype(int)  # of distinct rows, as a weight is a repetition
        return signs, shares_as_scores(codes, totals, signs.shape[1])

    def _selection_loss(self):
        return mistakes

    def _losses(self, values, targets):
        return log_losses(values + self.intercept_, base.codes_of(targets))

    def _finish(self, engine, outcome, prior):
        return 1.0, outcome.decisions, None

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Decisions for the second class or every class; log-odds where there are probabilities.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or kernel values of shape (n_samples, n_samples_fit) for kernel='precomputed'.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._values(X)
        scores += np.asarray(getattr(self, "intercept_", 0.0), dtype=scores.dtype)
        return base.squeezed(scores)


class Standard(NamedTuple):
    """Targets in units of a scale about a location."""

    m: np.ndarray
    s: np.ndarray

    @classmethod
    def of(cls, targets, tails):
        """From the targets; with `tails` quantiles are used."""
        return cls(*location_and_scale(targets, tails=tails))

    def __call__(self, y):
        """Standardise."""
        return (y - self.m) / self.s


class KernelRegressor(
    RiskIntervalMixin, PredictsIntervals, scores.ScoresTargets, MultiOutputMixin, KernelEstimator
):
    """A kernel estimator of targets with any location and scale."""

    _CLASSIFY = False
    _LIMIT = 30

    @abstractmethod
    def _loss(self) -> Any:
        """The loss of the parameter `loss`."""

    @property
    def _tails(self):
        """Whether quantiles are used for the targets' units: not with a loss for outliers."""
        return not getattr(self._loss(), "outliers", False)

    def _encode(self, y, kept, weights):
        targets = np.asarray(y, dtype=np.float64)
        self._flat = np.ndim(y) == 1
        targets = targets.reshape(len(y), -1)[kept]
        return targets, targets, weights

    def _standard(self, encoded, rows, totals, dtype):
        targets = clip_outliers(encoded[0], rows, EXTREME)
        standard = Standard.of(targets[rows], self._tails)
        limited = np.clip(standard(targets), -DELTA, DELTA) * standard.s + standard.m
        ends = np.array([limited.min(axis=0), limited.max(axis=0)], dtype=dtype)
        targets, mean = standard(targets), None
        if self._of_mean:
            mean = np.average(targets[rows], axis=0, weights=totals)
        return targets, (standard, ends, mean)

    def _publish_units(self, standard, ends):
        """Set the attributes that turn values of the learner into targets."""
        (m, s), dtype = standard, ends.dtype
        self.scale_, self.prediction_limits_ = s.astype(dtype), ends
        (self.intercept_,) = base.of_targets(self._flat, m.astype(dtype))

    def _held_out_predictions(self, outcome, factor):
        s, m = (np.atleast_1d(a).astype(np.float64) for a in (self.scale_, self.intercept_))
        predictions, targets = outcome.decisions * s + m, outcome.targets * s + m
        return base.held_out_predictions(
            predictions, targets, outcome.weights, self.prediction_limits_
        )

    @property
    def _of_mean(self):
        """Whether the loss is least at the mean."""
        return getattr(self._loss(), "elicits_mean", False)

    def _selection_loss(self):
        return squared_errors if self._of_mean else absolute_errors

    def _losses(self, values, targets):
        return np.square(values - targets).sum(axis=1)

    def _finish(self, engine, outcome, prior):
        (m, s), ends, mean = prior
        f, y, weights = outcome.decisions, outcome.targets, outcome.weights
        share, constant = 1.0, 0.0
        if mean is not None:
            share = shrinkage_factor(f - mean, y - mean, weights)
            constant = (1.0 - share) * mean
        self._publish_units((m + s * constant, s), ends)
        predictions = (constant + share * f) * s + m
        held_out = base.held_out_predictions(predictions, y * s + m, weights, ends)
        return share, np.clip(predictions, *ends), held_out

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Targets, within `prediction_limits_`, of shape (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or kernel values of shape (n_samples, n_samples_fit) for kernel='precomputed'.
        """
        y = np.clip(self._values(X) * self.scale_ + self.intercept_, *self.prediction_limits_)
        return y[:, 0] if np.ndim(self.intercept_) == 0 else y
