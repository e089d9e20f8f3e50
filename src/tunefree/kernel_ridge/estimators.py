"""Kernel ridge regression with a learned geometry, on all rows or on landmarks among them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base, scores
from tunefree.base.from_source import FitsSums
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.uncertainty_mixins import PredictsIntervals, PredictsSets, RiskIntervalMixin
from tunefree.core.parameters import compression_options, seed_of
from tunefree.core.process import check_memory, workers
from tunefree.core.protocols import Auto, MatrixLike, Seed, TargetLike
from tunefree.held_out.shrinkage import shares_as_scores, shrinkage_factor
from tunefree.held_out.stacking import log_losses
from tunefree.kernel_ridge import solvers as ridge
from tunefree.kernel_ridge.choice import (
    choose_geometry,
    choose_solution,
    choose_sums,
    needs_folds,
    rates_optimism,
)
from tunefree.kernel_ridge.logistic import losses
from tunefree.kernel_ridge.solvers import (
    KernelOptions,
    KernelPredictor,
    KernelProblem,
    KernelTransform,
    column_effects,
    minimize_log_loss,
)
from tunefree.kernels.compression import CHECKED, compress
from tunefree.kernels.evidence import ROWS
from tunefree.kernels.expansion import Expansion
from tunefree.rows.matrices import as_columns, as_dense
from tunefree.rows.order import hashed_visits
from tunefree.rows.outliers import EXTREME, clip_outliers
from tunefree.uncertainty.intervals import Residuals

# Up to so many rows all are held out in turn; of more rows, so many that the search does not use.
_ALL_HELD_OUT, _HELD_OUT = 2000, 1000
# Folds that evaluate the search if rows are few.
_FOLDS = 3


class TargetTransform(NamedTuple):
    """Transforms y to targets of a solution: signs of classes, or clipped; in units."""

    classes: Any
    limits: tuple
    level: np.ndarray
    unit: np.ndarray

    def __call__(self, y):
        """Targets, of shape (n, n_outputs)."""
        if self.classes is None:
            y = np.clip(as_columns(y), *self.limits)
        else:
            y = base.signs(np.searchsorted(self.classes, y), len(self.classes))
        return (y - self.level) / self.unit


class TrainingRows(NamedTuple):
    """Rows of positive weight as arrays, and the distinct ones in the order of their hash."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    targets: np.ndarray  # as numbers, of shape (n, n_outputs); signs of classes
    classes: Any  # of a classifier
    rows: np.ndarray  # numbers of the distinct rows
    totals: np.ndarray  # their weights
    held: Any  # which of these are held out; None: as many as usual
    groups: Any  # and their groups
    seed: int


class HeldOutRows(NamedTuple):
    """Held-out predictions with their rows."""

    predictions: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    X: np.ndarray


class FittedKernel(NamedTuple):
    """What is learned from rows, in the units of the targets."""

    predictor: KernelPredictor
    limits: tuple  # the range of the targets
    penalty: float
    risk: float
    held_out: HeldOutRows
    effects: np.ndarray  # changes of the first predictions when columns come from the next row
    relevances: Any  # shares of the columns in these changes; None if they are not computed
    slope: float = 1.0  # of log-odds
    held_out_result: Any = None  # the published form of held-out predictions
    compression: Any = None


class _KernelRidge(base.TakesSparse, FitsSums, CallbackSupport, BaseEstimator):
    """Least squares on landmarks; subclasses define the abstract methods."""

    _CLASSIFY = True  # whether targets are signs of classes
    _logistic = False  # whether the log loss is minimized
    class_weight: Any = None  # a parameter of classifiers

    def __init__(
        self,
        kernel: Literal["rbf", "laplacian", "linear"] = "rbf",
        *,
        n_landmarks: int | Auto = "auto",
        compress: bool | float | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.compress = compress
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @abstractmethod
    def _encode(self, y) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Targets as numbers, numbers by which otherwise equal rows differ, and classes."""

    @abstractmethod
    def _finished(self, fitted, table) -> FittedKernel:
        """What is learned, shrunk and rounded, with held-out predictions to publish."""

    @abstractmethod
    def _shrunk(self, fitted, table, held_out) -> FittedKernel:
        """The finished fit, shrunk by other held-out predictions."""

    @abstractmethod
    def _losses(self, values, targets) -> np.ndarray:
        """The loss of every row, for a compression."""

    def _join_ranges(self, ends) -> None:
        """Do nothing: only targets that are numbers have a range."""

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or in regression (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        self._fit_table(self._table(*self._checked(X, y, sample_weight)))
        return self

    def _fit_rows(self, rows, sample: Any = None, like=None):
        """Learn rows of which only a `Sample` and sums are kept, with the view of `like`.

        View, geometry and landmarks come from the sample. The coefficients are those of all rows,
        unless they predict held-out rows of the sample worse than the sample's coefficients.
        """
        if sample is None:
            sample = rows.drawn(seed_of(self.random_state), ridge.EXACT_ROWS, self._CLASSIFY)
        if self._logistic and not sample.whole:
            raise ValueError(
                "loss='log_loss' needs all rows in memory: its solution cannot be computed from "
                "sums over the rows. Use loss='squared_error', or fit on a part of the rows."
            )
        if self.class_weight is not None and not sample.whole:
            raise ValueError(
                "class_weight needs all rows in memory: give weights of rows in place of it, or "
                "fit on a part of the rows."
            )
        table = self._table(*self._checked(sample.X, sample.y, sample.weights))
        self._fit_table(table, like, None if sample.whole else (rows, sample.ends))
        self._join_ranges(sample.ends)
        return self

    def _fit_table(self, table, like=None, stream=None):
        """Learn, shrink, compress, and publish the result."""
        fitted = self._learned(table, like, stream=stream)
        fitted = self._shrunk_by_folds(fitted, table)
        fitted = self._compressed(fitted, table)
        self._publish(fitted, table)
        self.compression_ = fitted.compression

    def _learn(
        self,
        X,
        y,
        sample_weight=None,
        like=None,
        held=None,
        groups=None,
        column_groups=(),
        fewer=False,
    ):
        """Learn; returns the `FittedKernel`, with held-out predictions of the rows `held`.

        It uses the view of `like`, and its geometry if the kernels are the same. The search does
        not use targets of the rows `held`. The effects of permuting each column and the columns of
        each group are computed, too, unless `column_groups` is None. `groups` are group numbers:
        those of held rows are held out as a whole (only if all rows are landmarks). With `fewer`
        there are `n_landmarks` only if as many help.
        """
        table = self._table(*self._checked(X, y, sample_weight), held, groups)
        fitted = self._learned(table, like, column_groups, fewer=fewer)
        self._publish(fitted, table)
        return fitted

    def _publish(self, fitted, table):
        """Set the fitted attributes."""
        transform, landmarks, self.dual_coef_, intercept, self.single_precision_ = fitted.predictor
        self.view_, self.geometry_, self._search_optimism = transform
        self.landmarks_ = landmarks.alone()
        self.alpha_, self.leave_one_out_risk_ = fitted.penalty, fitted.risk
        self.feature_relevances_ = fitted.relevances
        if fitted.held_out_result is not None:
            self.held_out_ = fitted.held_out_result
        if self._CLASSIFY:
            self.classes_, self.intercept_ = table.classes, intercept
        else:
            self.intercept_ = intercept[0] if table.y.ndim == 1 else intercept
            self.prediction_limits_ = np.array(fitted.limits, dtype=table.X.dtype)

    def _checked(self, X, y, sample_weight):
        """Rows, targets and weights, and the parameters."""
        compression_options(self.compress)
        m, real = self.n_landmarks, not self._CLASSIFY
        is_count = isinstance(m, int | np.integer) and m > 0
        if not is_count and m not in ("auto", "all"):
            raise ValueError(f"n_landmarks={m!r} is none of a positive integer, 'auto', 'all'.")
        if self.kernel not in ("rbf", "laplacian", "linear"):
            raise ValueError(f"kernel={self.kernel!r} is none of rbf, laplacian, linear.")
        X, y = base.check_rows_and_targets(self, X, y, multi_output=real, numeric=real)
        weights = base.check_weights(sample_weight, X)
        if self.class_weight is not None:
            weights = base.balanced(self.class_weight, *base.encode_labels(y), weights)
        size = X.shape[0] * X.shape[1] * X.dtype.itemsize
        check_memory(
            4.0 * size,  # also in the order of learning, and as knots
            f"{type(self).__name__} stores rows as arrays: {X.shape[0]} x {X.shape[1]}",
            "Hash or select columns, or use PiSTOL* or KernelPiSTOL*, which keep rows sparse.",
        )
        return X, y, weights

    def _table(self, X, y, weights, held=None, groups=None):
        """The `TrainingRows` of checked rows."""
        kept, X = weights > 0, as_dense(X)
        if not kept.all():
            X = X[kept]
        y = y[kept]
        weights = weights[kept]
        seed = seed_of(self.random_state)
        targets, labels, classes = self._encode(y)
        if groups is not None:
            labels = np.column_stack([labels, groups[kept]])
        rows, totals = hashed_visits(X, labels, weights, seed, affine=True).unique()
        held, groups = (None if part is None else part[kept][rows] for part in (held, groups))
        return TrainingRows(X, y, weights, targets, classes, rows, totals, held, groups, seed)

    def _problem(self, table, team):
        """The distinct rows, the held-out ones last, with targets of mean 0 and variance 1."""
        rows, weights, groups = table.rows, table.totals, table.groups
        y = clip_outliers(table.targets, rows, EXTREME)[rows]
        n, share = len(rows), weights / weights.sum()
        level = share @ y
        unit = np.sqrt(share @ np.square(y - level))
        unit = np.where(unit > 0.0, unit, 1.0)
        if table.held is None:
            n_held = n if n <= _ALL_HELD_OUT else _HELD_OUT
            held, given = np.arange(n) >= n - n_held, np.arange(n_held)
        else:
            held, given = table.held, np.argsort(rows[table.held], kind="stable")
        order = np.argsort(held, kind="stable")
        return KernelProblem(
            X=table.X[rows[order]],
            Y=((y - level) / unit)[order],
            level=level,
            unit=unit,
            limits=(y.min(axis=0), y.max(axis=0)),
            weights=weights[order],
            n_held=len(given),
            given=given,
            groups=None if groups is None else groups[order],
            options=KernelOptions(self.kernel, self.n_landmarks, self._CLASSIFY, table.seed),
            team=team,
        )

    def _learned(self, table, like: Any = None, column_groups=(), stream: Any = None, fewer=False):
        """What the rows teach; `stream` has more rows."""
        if like is not None:
            like = KernelTransform(like.view_, like.geometry_, like._search_optimism)
        with workers(self.n_jobs) as team:
            problem = choose_geometry(self._problem(table, team), like)
            options = problem.options._replace(fewer=fewer)
            problem = problem._replace(permutes=column_groups is not None, options=options)
            problem, solution = choose_solution(problem)
            targets = problem.targets
            if self._logistic:
                problem = _of_log_loss(problem)
                solution = minimize_log_loss(problem, solution)
            if stream is not None:
                problem, solution = _of_all_rows(problem, solution, table.classes, *stream)
            fitted = self._evaluated(problem, solution, targets, column_groups)
        fitted = self._finished(fitted, table)
        if table.held is None:
            return fitted
        in_given_order = (part[problem.given] for part in fitted.held_out)
        return fitted._replace(held_out=HeldOutRows(*in_given_order))

    def _shrunk_by_folds(self, fitted, table):
        """Shrink the predictor towards the constant by held-out predictions of folds.

        Only with few rows a rate: the search then fits noise, which leave-one-out errors of its
        own rows do not show.
        """
        X, y, rows, totals = table.X, table.y, table.rows, table.totals
        if not needs_folds(self.kernel, len(rows), X.shape[1]):
            return fitted
        targets = table.targets[rows]
        strata = base.codes_of(targets) if self._CLASSIFY else np.zeros(len(rows))
        fold = np.empty(len(rows), np.int64)
        predictions = np.zeros(targets.shape)
        fold[np.argsort(strata, kind="stable")] = np.arange(len(rows)) % _FOLDS
        for f in np.unique(fold):  # rates of other rows, coefficients of all others
            part = self._table(X[rows], y[rows], totals, fold == f)
            learned = self._learned(part, column_groups=None)
            predictions[fold == f] = learned.held_out.predictions / learned.slope
        return self._shrunk(fitted, table, HeldOutRows(predictions, targets, totals, X[rows]))

    def _evaluated(self, problem, solution, targets, column_groups):
        """A solution in the units of the targets, its risk, and the effects of columns."""
        p, unit, predictions = problem, problem.unit, solution.held_out
        Y, weights = p.held_out(p.Y), p.held_out(p.weights)
        if self._logistic:
            width = np.ptp(predictions, axis=0)
            loss = losses(predictions + p.level, Y)
        else:
            width = np.ptp(p.Y, axis=0)
            loss = np.square((predictions - Y) * unit).sum(axis=1)
        predictor = KernelPredictor(
            p.transform, solution.landmarks, solution.coef, solution.intercept
        ).checked(p.A, width)
        predictor = predictor.scaled(unit, p.level + predictor.intercept * unit)
        effects = np.zeros((0, len(solution.permuted), Y.shape[1]))
        relevances = None
        if column_groups is not None:
            effects = column_effects(problem, solution, column_groups)
            sizes = np.square(effects[: p.X.shape[1]]).sum(axis=2) @ p.weights[solution.permuted]
            relevances = sizes / (sizes.sum() or 1.0)
        held_out = HeldOutRows(
            predictions * unit + p.level, p.held_out(targets), weights, p.held_out(p.X)
        )
        risk = float(weights @ loss / weights.sum())
        return FittedKernel(
            predictor, p.limits, solution.penalty, risk, held_out, effects * unit, relevances
        )

    def _compressed(self, fitted, table):
        """With a predictor on fewer landmarks, as `compress` requires."""
        (transform, landmarks, coef, intercept, _), X = fitted.predictor, table.X
        options = compression_options(self.compress)
        if not options or transform.geometry is None:
            return fitted
        rows, totals = table.rows[:CHECKED], table.totals[:CHECKED]
        A = transform(X[rows].astype(coef.dtype))
        share, targets = totals / totals.sum(), table.targets[rows]
        f = Expansion((transform.geometry,), landmarks.centers.astype(A.dtype), (coef,))

        def risk(values):
            return float(share @ self._losses(values + intercept, targets))

        f, kept, report = compress(f, A, risk, **options, n_jobs=self.n_jobs)
        landmarks = landmarks._replace(centers=landmarks.centers[kept])
        width = np.ptp(f(A, self.n_jobs), axis=0)
        predictor = fitted.predictor._replace(landmarks=landmarks, coef=f.coefs[0])
        predictor = predictor.checked(A, width).rounded(X.dtype, width)
        return fitted._replace(predictor=predictor, compression=report)

    def _scores(self, X):
        check_is_fitted(self, "landmarks_")
        transform = KernelTransform(self.view_, self.geometry_)
        predictor = KernelPredictor(
            transform, self.landmarks_, self.dual_coef_, self.intercept_, self.single_precision_
        )
        return predictor(base.check_rows(self, X), self.n_jobs)


def _of_all_rows(problem, solution, classes, source, ends):
    """The problem with limits for a source's rows, and the solution by sums over these.

    `ends` are the lowest and the highest targets of the source.
    """
    if classes is None:  # at most a width beyond the range of the sample
        low, high = problem.limits
        limits = tuple(np.clip(ends, 2.0 * low - high, 2.0 * high - low))
        problem = problem._replace(limits=limits)
    transform = TargetTransform(classes, problem.limits, problem.level, problem.unit)
    return problem, choose_sums(problem, solution, source, transform)


def _of_log_loss(problem):
    """The problem with 1 for a row's class, else 0, at the level of the classes' shares."""
    codes = base.codes_of(problem.targets)
    k = problem.Y.shape[1]
    level = shares_as_scores(codes, problem.weights, k)
    Y = (problem.targets > 0.0).astype(np.float64)
    return problem._replace(Y=Y, level=level, unit=np.ones(k))


class KernelRidgeRegressor(
    RiskIntervalMixin, PredictsIntervals, scores.ScoresTargets, MultiOutputMixin, _KernelRidge
):
    r"""Kernel ridge regression with a learned geometry; there is nothing to tune.

    :math:`f(x) = b + \sum_j a_j k(x, c_j)` with rows of the data as landmarks :math:`c_j` (all of
    them, if that improves predictions) and :math:`k(x, c) = e^{-D} + \beta (b(x) + b(c) - D) + 1`,
    where :math:`D = \sum_i S_i |v_i(x) - v_i(c)|^p`, :math:`b(x) = \sum_i S_i |v_i(x)|^p`. The view
    v has every column as a number, as ranks and, if its values may be codes, as levels. The rates
    S, beta and the penalty maximize the evidence of 700 rows
    (`tunefree.kernels.evidence`). Beyond 8,000 rows leave-one-out errors choose the
    penalty, and held-out errors choose between landmarks and all rows, which are then solved by
    conjugate gradients (`tunefree.kernel_ridge.full`).

    Parameters
    ----------
    kernel : {'rbf', 'laplacian', 'linear'}, default='rbf'
        p = 2: smooth functions and lines; p = 1: rough functions and sums of piecewise linear
        functions of single columns; 'linear': ridge regression on the view.
    n_landmarks : int, 'auto' or 'all', default='auto'
        'all' rows, by conjugate gradients beyond 8,000; 1,000 landmarks, if single precision is not
        enough for targets of nearly no noise. 'auto': all of up to 8,000 distinct rows;
        beyond, the landmarks are doubled while the held-out risk falls, and all rows are used if it
        falls to the end (up to about 120,000 rows of 20 columns). 8,000 rows may take 1.2 GB, 4,000
        landmarks 1 GB, beside the data: m landmarks take about 64 m^2 bytes.
    compress : None, True, float or int, default=None
        Project the predictor onto few landmarks after the fit. A float: as few as change the mean
        loss on (at most 4,096) training rows by less than this share of the loss of the constant
        predictor; True is 0.001. An integer: the number of landmarks. See `compression_`.
    n_jobs : int or None, default=None
        Threads of large fits and predictions, all by default; results do not depend on it.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_landmarks, n_targets)
    intercept_ : float or ndarray of shape (n_targets,)
    view_ : part
        `tunefree.kernels.coordinates.Coordinates` of the columns, or from 32 columns on, if they
        have more evidence, principal components (`tunefree.kernels.coordinates.Components`).
    geometry_ : part or None
        Kernel, rates, slope and penalty.
    landmarks_ : part
        Landmarks in the units of the kernel.
    feature_relevances_ : ndarray of shape (n_features,)
        The columns' shares of the variation of predictions, whatever their units; they sum to 1.
        Each is half the mean squared change when that column alone is drawn from another row.
    alpha_ : float
        The penalty, for targets of unit variance.
    single_precision_ : bool
        Whether predictions use kernel values of single precision, as these are enough.
    leave_one_out_risk_ : float
        Mean squared leave-one-out error, summed over targets (from 2,000 rows on, of 1,000 rows
        that the search does not use).
    compression_ : part or None
        `n_support` and `n_landmarks`, the mean `loss_before` and `loss_after`, and the `change` of
        predictions (root mean square, relative to their size); None without compression.
    held_out_ : part
        Held-out predictions, from which `risk_interval_` and intervals are computed
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, or weights that are all zero.
    MemoryError
        Before work starts, if the rows as arrays are more than memory holds.

    References
    ----------
    Rasmussen and Williams 2006, "Gaussian processes for machine learning", chapter 5 (evidence);
    Williams and Seeger 2001, "Using the Nystroem method to speed up kernel machines". The kernel,
    the view and the search are this library's.

    Examples
    --------
    >>> from tunefree import KernelRidgeRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (300, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(KernelRidgeRegressor(random_state=0).fit(X, y).score(X, y) > 0.99)
    True
    """

    _CLASSIFY = False

    def _encode(self, y):
        targets = as_columns(y)
        return targets, targets, None

    def _finished(self, fitted, table):
        low, high = fitted.limits
        predictor = fitted.predictor
        if table.held is None:
            predictions, y, weights, X = fitted.held_out
            predictions = np.clip(predictions, low, high)
            mean = np.average(y, axis=0, weights=weights)
            share = np.ones(len(mean))
            if not needs_folds(self.kernel, *X.shape):  # else `_shrunk_by_folds` shrinks
                optimism = predictor.transform.optimism
                share = shrinkage_factor(predictions - mean, y - mean, weights, spent=optimism)
            shrunk_intercept = mean + share * (predictor.intercept - mean)
            intercept = np.where(share < 1.0, shrunk_intercept, predictor.intercept)
            predictor = predictor.scaled(share, intercept)
            shrunk = fitted.held_out._replace(predictions=mean + share * (predictions - mean))
            fitted = fitted._replace(held_out_result=_residuals(shrunk, predictor))
        return fitted._replace(predictor=predictor.rounded(table.X.dtype, high - low))

    def _shrunk(self, fitted, table, held_out):
        predictions, targets, weights, X = held_out
        mean = table.weights @ table.targets / table.weights.sum()
        predictions = np.clip(predictions, *np.array(fitted.limits, dtype=X.dtype))
        share = shrinkage_factor(predictions - mean, targets - mean, weights)
        intercept = mean + share * (fitted.predictor.intercept - mean)
        predictor = fitted.predictor.scaled(share, intercept)
        shrunk = held_out._replace(predictions=mean + share * (predictions - mean))
        return fitted._replace(predictor=predictor, held_out_result=_residuals(shrunk, predictor))

    def _searched(self):
        n = len(self.held_out_[0].residuals)
        linear = self.kernel == "linear"
        if linear or n >= ROWS or needs_folds(self.kernel, n, self.n_features_in_):
            return 0.0
        return rates_optimism(self.view_, n)

    def _columns_of(self, X):
        return base.check_rows(self, X)

    def _losses(self, values, targets):
        return np.square(values - targets).sum(axis=1)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, within the range of the training targets."""
        y = np.clip(self._scores(X), *self.prediction_limits_)
        return y[:, 0] if np.ndim(self.intercept_) == 0 else y


def _residuals(held_out, predictor):
    """The residuals of held-out rows, for each target."""
    predictions, y, weights, X = held_out
    pairs = zip(predictions.T, y.T, strict=True)
    return tuple(Residuals.of(f, t, weights, X, predictor.transform.view) for f, t in pairs)


class Shrinkage(NamedTuple):
    """Log-odds shrunk towards those of the classes' shares, by held-out rows."""

    share: float  # that remains of the difference
    null: np.ndarray  # log-odds of the shares

    @classmethod
    def of(cls, scores, codes, weights, optimism=0.0):
        """The shrinkage of held-out scores; `optimism` is what a search spent on these rows."""
        null = shares_as_scores(codes, weights, scores.shape[1])
        return cls(base.class_shrinkage(scores, null, codes, weights, optimism), null)

    def __call__(self, scores):
        """Shrink scores."""
        return self.null + self.share * (scores - self.null)


class KernelRidgeClassifier(
    RiskIntervalMixin, PredictsSets, scores.LabelsByDecisions, _KernelRidge
):
    r"""Kernel classification with a learned geometry, and calibrated probabilities.

    One output a class (one for two classes), +1 or -1, learned as in `KernelRidgeRegressor`; the
    class of the largest output is predicted, and a temperature fitted to the leave-one-out outputs
    turns them into log-odds. With ``loss="log_loss"`` the outputs are log-odds: kernel and
    landmarks are those of least squares, and f then minimizes

    .. math:: \sum_i w_i\, \ell(b + f(x_i), y_i) + \tfrac{\lambda}{2} \|f\|^2,

    with b the log-odds of the classes' shares, one sigmoid or a softmax, and the penalty of least
    held-out loss (`tunefree.kernel_ridge.logistic`).

    Parameters
    ----------
    kernel : {'rbf', 'laplacian', 'linear'}, default='rbf'
    loss : {'squared_error', 'log_loss'}, default='squared_error'
        'log_loss' costs several times as much, and its probabilities are better if classes are
        noisy. It needs all rows in memory.
    n_landmarks : int, 'auto' or 'all', default='auto'
    compress : None, True, float or int, default=None
        See `KernelRidgeRegressor`; the loss is the log loss, and the constant predictor is that of
        the classes' shares.
    n_jobs : int or None, default=None
        See `KernelRidgeRegressor`.
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes, which multiply those of rows. They need all rows in memory.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash that picks the landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_landmarks, n_outputs)
    intercept_ : ndarray of shape (n_outputs,)
    view_, geometry_, landmarks_, feature_relevances_, alpha_, leave_one_out_risk_, compression_
        See `KernelRidgeRegressor`.
    held_out_ : part
        Held-out probabilities, from which `risk_interval_` and sets are computed
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero.
    MemoryError
        See `KernelRidgeRegressor`.

    References
    ----------
    See `KernelRidgeRegressor`.

    Examples
    --------
    >>> from tunefree import KernelRidgeClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.hypot(*X.T) > 1
    >>> bool(KernelRidgeClassifier(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        kernel: Literal["rbf", "laplacian", "linear"] = "rbf",
        *,
        loss: Literal["squared_error", "log_loss"] = "squared_error",
        n_landmarks: int | Auto = "auto",
        compress: bool | float | None = None,
        n_jobs: int | None = None,
        class_weight: Any = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        options = {"compress": compress, "n_jobs": n_jobs, "verbose": verbose}
        super().__init__(kernel, n_landmarks=n_landmarks, random_state=random_state, **options)
        self.loss = loss
        self.class_weight = class_weight

    @property
    def _logistic(self):
        if self.loss not in ("squared_error", "log_loss"):
            raise ValueError(f"loss={self.loss!r} is neither 'squared_error' nor 'log_loss'.")
        return self.loss == "log_loss"

    def _encode(self, y):
        classes, codes = base.encode_labels(y, fewest=2)
        return base.signs(codes, len(classes)), codes[:, None].astype(float), classes

    def _finished(self, fitted, table):
        scores, targets, weights, X = fitted.held_out
        codes = base.codes_of(targets)
        slope = base.temperature(scores, targets, weights)
        scores = slope * scores
        intercept = slope * fitted.predictor.intercept
        share = 1.0
        result = None
        is_published = table.held is None  # else a stack or a fold takes the scores
        if is_published and not needs_folds(self.kernel, *X.shape):  # else `_shrunk_by_folds`
            shrinkage = Shrinkage.of(scores, codes, weights, fitted.predictor.transform.optimism)
            share = shrinkage.share
            if share < 1.0:
                scores = shrinkage(scores)
                intercept = shrinkage(intercept)
        if is_published:
            result = _held_out_classes(scores, codes, weights)
        predictor = fitted.predictor.scaled(slope * share, intercept)
        return fitted._replace(
            predictor=predictor.rounded(table.X.dtype, 2.0 * slope),
            slope=slope,
            held_out=fitted.held_out._replace(predictions=scores),
            effects=slope * fitted.effects,
            held_out_result=result,
        )

    def _shrunk(self, fitted, table, held_out):
        scores, targets, weights, _ = held_out
        codes = base.codes_of(targets)
        slope = base.temperature(scores, targets, weights)
        scores = slope * scores
        shrinkage = Shrinkage.of(scores, codes, weights)
        factor = shrinkage.share * min(slope / fitted.slope, 1.0)
        level = (1.0 - shrinkage.share) * shrinkage.null
        intercept = level + factor * fitted.predictor.intercept
        return fitted._replace(
            predictor=fitted.predictor.scaled(factor, intercept),
            held_out_result=_held_out_classes(shrinkage(scores), codes, weights),
        )

    def _losses(self, values, targets):
        return log_losses(values, base.codes_of(targets))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class; shape (n,) or (n, n_classes)."""
        return base.squeezed(self._scores(X))

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes)."""
        return base.probabilities(self.decision_function(X), joint=True)


def _held_out_classes(scores, codes, weights):
    """Held-out log-odds in the form in which they are published."""
    return base.held_out_probabilities(base.probabilities(scores, joint=True), codes, weights)
