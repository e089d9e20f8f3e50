"""Least squares by averaged SGD: a whole regularization path from one run, or exactly."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base, scores
from tunefree.base.from_source import FitsSource
from tunefree.base.locks import all_or_nothing
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.state_checks import require, same_form
from tunefree.base.uncertainty_mixins import (
    CoefficientInferenceMixin,
    PredictsIntervals,
    RiskIntervalMixin,
)
from tunefree.core.parameters import seed_of
from tunefree.core.process import one_blas_thread, product
from tunefree.core.protocols import (
    Auto,
    Average,
    AverageName,
    AverageWithin,
    MatrixLike,
    Seed,
    TargetLike,
)
from tunefree.core.warn import none_of
from tunefree.engine.run import Rows, run
from tunefree.held_out.shrinkage import limits_of_predictions, shrinkage_factor
from tunefree.parts.averaging import Geometric, Last, Tail, Uniform, scheme_of
from tunefree.parts.families import Gaussian
from tunefree.parts.links import LINKS
from tunefree.ridge_path.least_squares import (
    SGDRun,
    UniqueRows,
    descend,
    folds,
    held_out_errors,
    held_out_risks,
    passes,
    penalties,
    read,
)
from tunefree.ridge_path.path import decompose
from tunefree.ridge_path.stream import StreamSGD, StreamState
from tunefree.rows.matrices import as_columns, as_dense
from tunefree.rows.order import given_visits
from tunefree.rows.outliers import drop_outliers, limits_of_columns, within_limits
from tunefree.rows.row_labels import matched_by_place
from tunefree.uncertainty.laws import Law

# An estimator stores a path of at most this many numbers; `sgd_ridge_path` returns larger ones.
MOST_KEPT = 2e7
# Up to here the eigendecomposition is faster than the passes (measured:
# 2 to 2800 times; no benchmark is named for it).
_MOST_EXACT, _MOST_CELLS = 1000, 2e8
# Predictions lie at most this many half-widths of the targets' range from its middle.
_WIDENED = 3.0
_OTHERS = (Last(), Tail(0.25), Tail(0.5), Uniform())
_RIDGE = "auto", "geometric"


class RidgePathRegressor(
    base.TakesSparse,
    RiskIntervalMixin,
    CoefficientInferenceMixin,
    PredictsIntervals,
    scores.ScoresTargets,
    MultiOutputMixin,
    FitsSource,
    CallbackSupport,
    BaseEstimator,
):
    r"""Ridge regression with many penalties at once, of which the best is chosen.

    With at most 1,000 columns or rows it is solved exactly, and leave-one-out errors choose the
    penalty alpha. Otherwise SGD with the constant step eta visits the rows in the order of their
    hash, and averages of its iterates regularize: the geometric one, with weights
    :math:`(1 + \eta\alpha/n)^{-t}`, is ridge regression with the penalty alpha in expectation,
    and its test error is comparable. One run gives all averages, and held-out rows choose the best.

    Parameters
    ----------
    average : {'auto', 'geometric', 'last', 'uniform', 'polynomial', 'tail'} or part
        'auto', the default, chooses among last, uniform, the last half and quarter, and the
        geometric averages of all alphas; 'geometric' among these. Any other scheme is used
        without a choice.
    solver : {'auto', 'sgd', 'exact'}, default='auto'
        'auto' is 'exact' with at most 1000 columns or rows, for the averages 'auto' and
        'geometric'. It also guards against outliers: an entry or target ten times as far from the
        middle of its column as any other counts as missing, with a warning, and entries beyond
        `input_limits_` do in rows to predict; predictions are clipped to `prediction_limits_`, and
        shrunk towards the mean by the held-out error. With 'sgd' or 'exact', rows are learned as
        they are (the warning remains), and predictions are ``X @ coef_.T + intercept_``.
    alphas : array-like of shape (n_alphas,), optional
        Penalties alpha of ||y - Xw||^2 + alpha ||w||^2, as in Ridge, on the scaled columns. 50
        values on the scale of the rows by default.
    max_iter : int or 'auto', default='auto'
        Passes of SGD; 'auto' is 1.5e5 visits, but 3 to 20 passes.
    standardize : bool or 'auto', default='auto'
        Divide columns by their largest deviation from the mean; 'auto' does so on dense data, and
        on sparse data if that has the lower risk in a pass over 2000 rows.
    fit_intercept : bool, default=True
        Centre columns and targets.
    random_state : int, RandomState or None, default=None
        Seed of the order of rows.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    prediction_limits_ : ndarray of shape (2, n_targets) or None
        Predictions are clipped to it: the range of the fitted values, widened on either side by
        the share of its width (1, 1/2, 1/4 or 0) that was best on held-out rows. A line is not
        reliable far from the rows that it was fitted to.
    input_limits_ : ndarray of shape (2, n_features) or None
        Entries outside count as missing, and are replaced by the middle between the limits.
    solver_ : str
        'sgd', 'exact', or 'stream' after `partial_fit`.
    average_ : part or None
        The chosen average; None for the exact solver.
    alpha_ : float or None
        The chosen penalty; None where the chosen average has none.
    alphas_ : ndarray of shape (n_alphas,)
    validation_scores_ : ndarray of shape (n_alphas,) or None
        Mean squared error of every alpha on held-out rows (summed over targets); for solver 'sgd'
        to about three digits.
    leaderboard_ : list of dict
        The same for every average.
    coefs_ : ndarray of shape (n_alphas, n_features) or (n_alphas, n_targets, n_features)
        The path, computed when first used; beyond 2e7 numbers only `sgd_ridge_path` has it.
    intercepts_ : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
    hint_ : str or None
        A note if the other solver would have been cheaper.
    n_iter_ : int
    held_out_ : part
        Held-out predictions: the basis of `risk_interval_`, intervals and sets
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, weights that are all zero, or parameters out of range.

    References
    ----------
    Neu and Rosasco 2018, "Iterate averaging as regularization for stochastic gradient descent",
    equation 6 and section 4.1.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tunefree import RidgePathRegressor
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> model = RidgePathRegressor(solver="sgd", random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.45)
    True
    """

    _ON_DEMAND = (
        "coef_",
        "intercept_",
        "prediction_limits_",
        "input_limits_",
        "average_",
        "leaderboard_",
        "held_out_",
    )
    coef_: Any
    intercept_: Any
    prediction_limits_: Any
    _path: Any
    _stream: Any
    _widest: Any

    def __init__(
        self,
        average: AverageName | Auto | Average | AverageWithin = "auto",
        *,
        solver: Literal["auto", "sgd", "exact"] = "auto",
        alphas: ArrayLike | None = None,
        max_iter: int | Auto = "auto",
        standardize: bool | Auto = "auto",
        fit_intercept: bool = True,
        random_state: Seed = None,
    ):
        self.average = average
        self.solver = solver
        self.alphas = alphas
        self.max_iter = max_iter
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        self._check()
        self._stream = None
        problem = self._pose(X, y, sample_weight)
        self.alphas_ = penalties(self.alphas, problem.sized())
        return self._fit_exact(problem) if self.solver_ == "exact" else self._fit_sgd(problem)

    def _check(self):
        """Refuse parameter values that mean nothing, naming the parameter."""
        self._grid()
        if self.solver not in ("auto", "sgd", "exact"):
            raise none_of("solver", self.solver, ("auto", "sgd", "exact"))
        if self.standardize not in (True, False, "auto"):
            raise ValueError(f"standardize={self.standardize!r} is neither a bool nor 'auto'.")

    def _pose(self, X, y, sample_weight):
        """The problem; the solver for it is chosen."""
        X, y = base.check_rows_and_targets(self, X, y, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X)
        targets = as_columns(y)
        as_given = X, targets
        X, targets, weights = base.of_positive_weight(X, targets, weights)
        self._dtype = X.dtype.name
        self._flat = np.ndim(y) == 1
        self.solver_, self.hint_ = chosen_solver(self.solver, self._grid()[0], X.shape)
        if self.solver_ == "exact":
            X = as_dense(X)
        # Dense columns are always scaled.
        is_scaled = self.standardize
        if is_scaled == "auto" and not sparse.issparse(X):
            is_scaled = True
        rows = UniqueRows.of(X, targets, weights, seed_of(self.random_state))
        all_rows = np.arange(rows.X.shape[0])
        learned = self.solver != "auto"
        X, targets = drop_outliers(rows.X, rows.targets, all_rows, as_given, learned=learned)
        self.prediction_limits_ = self.input_limits_ = self._widest = None
        if not learned:
            low, high = targets.min(axis=0), targets.max(axis=0)
            self.prediction_limits_ = self._widest = np.stack([2.0 * low - high, 2.0 * high - low])
            self.input_limits_ = limits_of_columns(X)
        rows = rows._replace(X=X, targets=targets)
        return rows.pose(intercept=self.fit_intercept, scaling=is_scaled)

    def _fit_exact(self, problem):
        model, held_out = exact_path(problem, self.alphas_, self.fit_intercept)
        risks = held_out.risks()
        k = best_scheme(self.alphas_, risks)
        errors = held_out.errors(self.alphas_[k])
        held = held_out_line(problem, slice(None), errors, model.only(k), self._widest)
        return self._choose(problem.columns, model, [None] * len(self.alphas_), risks, k, 1, held)

    def _grid(self):
        """Whether the averages of all alphas are candidates, and which others are."""
        if isinstance(self.average, str) and self.average in _RIDGE:
            return True, _OTHERS if self.average == "auto" else ()
        return False, (scheme_of(self.average, also=_RIDGE[:1]),)

    def _fit_sgd(self, problem):
        n_passes = passes(self.max_iter, int(problem.visits.repeats.sum()))
        grid, others = self._grid()
        schemes = problem.schemes(self.alphas_, others)
        choose = grid and len(schemes) > 1 and len(problem.totals) > 1
        n_folds = folds(problem)[1] if choose else 0

        def publish(model, state):
            model._read_sgd(problem, state, schemes, n_folds)

        watch = self._progress.passes(n_passes, publish)
        state = descend(problem, n_passes, n_folds, **watch)
        return self._read_sgd(problem, state, schemes, n_folds)

    def _read_sgd(self, problem, state, schemes, n_folds):
        """Choose among the averages of a run."""
        (grid, _), n_alphas, risks = self._grid(), len(self.alphas_), None
        self.held_out_, runs, held = None, [], None
        if n_folds:
            risks, runs = held_out_risks(problem, state, schemes)
        k = best_scheme(self.alphas_, risks) if grid else n_alphas
        can_store = n_alphas * self.n_features_in_ * problem.targets.shape[1] <= MOST_KEPT
        model = read(problem, state, schemes if can_store else (schemes[k],))
        if n_folds:
            own = model.only(k if model.n_schemes == len(schemes) else 0)
            held = held_out_line(problem, *held_out_errors(problem, runs, k), own, self._widest)
        return self._choose(problem.columns, model, schemes, risks, k, state.epoch, held)

    def _choose(self, columns, model, schemes, risks, k, n_passes, held=None):
        """Publish the scheme k, shrunk if rows were `held` out; a model of one scheme has it."""
        n_alphas = len(self.alphas_)
        has_path = model.n_schemes == len(schemes)
        self.n_iter_, self.average_ = n_passes, schemes[k]
        self.alpha_ = float(self.alphas_[k]) if k < n_alphas else None
        self.validation_scores_ = None if risks is None else risks[:n_alphas]
        alphas = [*self.alphas_.tolist(), *[None] * (len(schemes) - n_alphas)]
        self.leaderboard_ = [] if risks is None else leaderboard(schemes, alphas, risks)
        self._path = (columns, model) if has_path else None
        position = k if has_path else 0
        line = model.fold(columns, position, position + 1, dtype=self._dtype)
        if held is not None:
            self.held_out_, self.prediction_limits_ = held.predictions, held.limits
            line = held.shrunk(*line)
        return self._publish(*line)

    @all_or_nothing
    @matched_by_place
    def partial_fit(
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from the next chunk of a stream, in the order given; after `fit`, continue from it.

        Dense columns are measured from the first row, scales follow the largest entries, and every
        average is scored on rows before they are learned. The chunks' sizes make no difference. A
        value ten times beyond all before it is clipped to the farthest of these; one 10^6 times
        beyond counts as missing (`tunefree.rows.outliers`).

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check()
        stream = getattr(self, "_stream", None)
        fitted = stream is None and "coef_" in vars(self)
        X, y = base.check_rows_and_targets(
            self, X, y, reset=stream is None and not fitted, multi_output=True, numeric=True
        )
        weights = base.check_weights(sample_weight, X, stream=True)
        targets = as_columns(y)
        learner = StreamSGD()
        if stream is None:
            first = int(np.argmax(weights > 0))
            centred = self.fit_intercept and not sparse.issparse(X)
            origin: Any = X[first].astype(np.float64) if centred else None
            coef, start = None, targets[first] * bool(self.fit_intercept)
            if fitted:
                coef = np.atleast_2d(self.coef_).T.astype(np.float64)
                start = np.atleast_1d(self.intercept_) + (origin @ coef if centred else 0.0)
            stream = learner.init(X.shape[1], start, self.fit_intercept, coef, origin)
            if fitted and vars(self).get("_widest") is not None:
                stream.guards[1].know(np.abs(self._widest - start).max(axis=0) / _WIDENED)
        base.check_n_targets(targets, stream.weights.shape[1])
        # As a single block, of which nothing is copied.
        chunk = Rows(X, targets, given_visits(weights), most_rows=lambda: X.shape[0])
        self._stream = run(learner, stream, chunk, max_passes=1).state
        self._dtype = X.dtype.name
        self._flat = np.ndim(y) == 1
        self._path = self.validation_scores_ = self.alpha_ = self.hint_ = None
        self.solver_, self.n_iter_ = "stream", 1
        self._forget_read()
        return self

    def _check_learner(self):
        stream = vars(self).get("_stream")
        d = self.n_features_in_
        require(type(d) is int and d > 0)
        if stream is not None:
            require(type(stream) is StreamState)
            origin = np.zeros(d) if len(stream.origin) else None
            start = np.zeros(stream.weights.shape[1])
            require(same_form(stream, StreamSGD().init(d, start, origin=origin)))

    def _read_stream(self):
        learner = StreamSGD()
        schemes = [Tail(0.5), *map(Geometric, learner.rates), Last()]
        risks = learner.risks(self._stream)
        self.leaderboard_ = leaderboard(schemes, [None] * len(schemes), risks)
        self.average_ = schemes[int(np.argmin(risks))]
        self.held_out_ = self.input_limits_ = None
        guard = self._stream.guards[1]
        self.prediction_limits_ = guard.centre + np.outer([-_WIDENED, _WIDENED], guard.reach)
        weights = learner.read(self._stream)
        self._publish(weights[:-1].T[:, :, None], weights[-1][:, None])

    def _estimand(self, y):
        return Law(Gaussian(), LINKS["identity"]), y

    def _publish(self, coef, intercept):
        coef, intercept = (a.astype(self._dtype, copy=False) for a in (coef, intercept))
        coef, intercept = coef[:, :, 0], intercept[:, 0]
        self.coef_, self.intercept_ = base.of_targets(self._flat, coef, intercept)
        return self

    @property
    def coefs_(self) -> np.ndarray:
        """Coefficients of the whole path."""
        return np.moveaxis(self._folded_path()[0], -1, 0)

    @property
    def intercepts_(self) -> np.ndarray:
        """Intercepts of the whole path."""
        return np.moveaxis(self._folded_path()[1], -1, 0)

    def _folded_path(self):
        if self.__dict__.get("_path") is None:
            raise AttributeError("This model has no path: sgd_ridge_path returns one, of any size.")
        view, model = self._path
        folded = model.fold(view, stop=len(self.alphas_), dtype=self._dtype)
        return base.of_targets(self._flat, *folded)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets)."""
        check_is_fitted(self)
        X = base.check_rows(self, X)
        if getattr(self, "input_limits_", None) is not None:
            X = within_limits(X, self.input_limits_)
        y = product(X, self.coef_.T) + self.intercept_
        ends: Any = getattr(self, "prediction_limits_", None)
        if ends is None:
            return y
        return np.clip(y, *(ends if y.ndim == 2 else ends[:, 0]).astype(y.dtype))


def chosen_solver(solver, has_grid, shape):
    """The solver for rows of this shape, and a hint if the other one is cheaper.

    `has_grid` is whether the averages of all alphas are candidates.
    """
    cheap = min(shape) <= _MOST_EXACT and shape[0] * shape[1] <= _MOST_CELLS
    if solver == "exact" and not has_grid:
        raise ValueError("solver='exact' has no iterates: use average='auto' or 'geometric'.")
    if solver == "auto":
        return "exact" if cheap and has_grid else "sgd", None
    if cheap and has_grid and solver == "sgd":
        return solver, "With so few columns or rows, solver='exact' is cheaper and exact."
    if not cheap and solver == "exact":
        return solver, "With so many rows and columns, solver='sgd' is cheaper."
    return solver, None


def best_scheme(alphas, risks):
    """The number of the scheme with the lowest risk, or of the largest penalty without risks."""
    if risks is None or not np.isfinite(risks).any():
        return int(np.argmax(alphas))
    return int(np.argmin(risks))


def leaderboard(schemes, alphas, risks):
    """The risk of every average."""
    return [
        {"average": scheme, "alpha": alpha, "risk": float(risk)}
        for scheme, alpha, risk in zip(schemes, alphas, risks, strict=True)
    ]


class HeldOutLine(NamedTuple):
    """Held-out predictions of a line, and how these clip and shrink it towards the `mean`."""

    predictions: Any
    limits: Any  # of predictions
    share: Any
    mean: np.ndarray

    def shrunk(self, coef, intercept):
        """The line, (n_outputs, d, 1) and (n_outputs, 1)."""
        if self.share is None or not (self.share < 1.0).any():
            return coef, intercept
        share, mean = self.share[:, None], self.mean[:, None]
        return coef * share[:, None], mean + share * (intercept - mean)


def held_out_line(problem, rows, errors, chosen, limits):
    """The `HeldOutLine` of targets less errors, for the line of an `SGDRun`.

    It is clipped and shrunk if there are `limits`, the widest ones allowed.
    """
    mean = problem.columns.target
    y = problem.targets[rows]
    totals = problem.totals[rows]
    predictions, share = y - errors, None
    if limits is not None:
        fitted = chosen.predict(problem.Z, problem.centre)[:, 0]
        ends = limits_of_predictions(predictions, fitted, y, totals, rows)
        ends = np.clip(ends, *(limits - mean))
        predictions = np.clip(predictions, *ends)
        share = shrinkage_factor(predictions, y, totals)
        limits, predictions = mean + share * ends, share * predictions
    rows = mean + predictions, mean + y, totals * problem.unit
    return HeldOutLine(base.held_out_predictions(*rows, limits), limits, share, mean)


def exact_path(problem, alphas, intercept):
    """The path of ridge regression, and its `HeldOutErrors`."""
    weights = problem.totals * problem.unit
    spectrum, left, targets = decompose(problem.Z, problem.targets, weights)
    held_out = HeldOutErrors(spectrum, left, targets, weights, bool(intercept), alphas)
    return SGDRun(spectrum.path(alphas), np.eye(len(alphas))), held_out


class HeldOutErrors(NamedTuple):
    """Exact leave-one-out errors of ridge regression."""

    spectrum: Any
    left: np.ndarray  # rows of B V
    targets: np.ndarray  # times the roots of the weights
    weights: np.ndarray
    intercept: bool
    alphas: np.ndarray

    @property
    def mass(self):
        """The rows' shares of the weight, if there is an intercept; else 0."""
        return self.weights / self.weights.sum() * self.intercept

    def risks(self):
        """Mean squared errors of every penalty."""
        squares = self.spectrum.held_out(self.left, self.targets, self.mass, self.alphas)
        return squares / self.weights.sum()

    def errors(self, alpha):
        """Errors of one penalty, of shape (n, n_outputs)."""
        found = self.spectrum.errors(self.left, self.targets, self.mass, alpha)
        return found / np.sqrt(self.weights)[:, None]


@one_blas_thread()
def sgd_ridge_path(
    X: MatrixLike,
    y: TargetLike,
    *,
    alphas: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    solver: Literal["sgd", "exact"] = "sgd",
    max_iter: int | Auto = "auto",
    standardize: bool | Auto = "auto",
    fit_intercept: bool = True,
    random_state: Seed = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""The ridge path by geometric averages of one run of SGD.

    For every alpha the average with weights :math:`(1 + \eta\alpha/n)^{-t}`, from the scalars of
    one run and one product.

    Parameters
    ----------
    X : array-like or CSR of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
    alphas : array-like of shape (n_alphas,), optional
        This and all others as in `RidgePathRegressor`.
    sample_weight : array-like of shape (n_samples,), optional
    solver : {'sgd', 'exact'}, default='sgd'
    max_iter : int or 'auto', default='auto'
    standardize : bool or 'auto', default='auto'
        'auto' scales dense columns only.
    fit_intercept : bool, default=True
    random_state : int, RandomState or None, default=None

    Returns
    -------
    alphas : ndarray of shape (n_alphas,)
    coefs : ndarray of shape (n_features, n_alphas) or (n_targets, n_features, n_alphas)
    intercepts : ndarray of shape (n_alphas,) or (n_targets, n_alphas)

    References
    ----------
    Neu and Rosasco 2018, section 4.1.

    Examples
    --------
    >>> from tunefree import sgd_ridge_path
    >>> x = np.linspace(-1, 1, 201)
    >>> alphas, coefs, _ = sgd_ridge_path(x[:, None], x, alphas=[x @ x / 20], random_state=0)
    >>> bool(abs(coefs[0, 0] - 20 / 21) < 0.05)  # x'x / (x'x + alpha)
    True
    """
    if solver not in ("sgd", "exact"):
        raise none_of("solver", solver, ("sgd", "exact"))
    if standardize == "auto":
        standardize = not sparse.issparse(X)
    model = RidgePathRegressor(
        "geometric",
        solver=solver,
        alphas=alphas,
        max_iter=max_iter,
        standardize=standardize,
        fit_intercept=fit_intercept,
        random_state=random_state,
    )
    model._check()
    problem = model._pose(X, y, sample_weight)
    alphas = penalties(alphas, problem.sized())
    if solver == "exact":
        path, _ = exact_path(problem, alphas, fit_intercept)
    else:
        n_passes = passes(max_iter, int(problem.visits.repeats.sum()))
        path = read(problem, descend(problem, n_passes), problem.schemes(alphas))
    folded = path.fold(problem.columns, dtype=model._dtype)
    coef, intercept = base.of_targets(model._flat, *folded)
    return alphas, coef, intercept
