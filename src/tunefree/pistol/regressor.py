"""Linear PiSTOL for numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import MultiOutputMixin, clone
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base, scores
from tunefree.base.targets import TargetScale
from tunefree.base.uncertainty_mixins import (
    CoefficientInferenceMixin,
    PredictsIntervals,
    RiskIntervalMixin,
)
from tunefree.core.process import product
from tunefree.core.protocols import (
    Auto,
    Average,
    AverageName,
    AverageWithin,
    Loss,
    LossOfNumbers,
    MatrixLike,
    Seed,
    TargetLike,
)
from tunefree.held_out.progressive_risk import recent_rows
from tunefree.held_out.shrinkage import shrinkage_factor
from tunefree.parts.families import Gaussian
from tunefree.parts.links import LINKS
from tunefree.parts.losses import LOSSES, check_bounded, make_loss, within
from tunefree.pistol.linear_estimator import (
    MOST_WHITENED,
    MOST_WHITENED_STREAM,
    Line,
    LinearPiSTOLEstimator,
    PiSTOLProblem,
    is_dense,
    passes,
)
from tunefree.pistol.portfolio import regression_members
from tunefree.rows.designs import n_entries
from tunefree.rows.matrices import as_columns, as_dense, canonical
from tunefree.rows.outliers import DELTA, EXTREME, clip_outliers
from tunefree.rows.row_labels import matched_by_place
from tunefree.uncertainty.laws import Law

# Visits of rows in a regression, within 3 to 12 passes. With more, rows whose far entries are
# clipped would pull the predictor away from the line of the others.
_VISITS = 4000
# With fewer rows than this, and fewer rows per column, folds compare a regression with the mean.
_COMPARED_ROWS = 2000
_COMPARED_PER_COLUMN = 4
_FOLDS = 5


class PiSTOLRegressor(
    RiskIntervalMixin,
    CoefficientInferenceMixin,
    PredictsIntervals,
    scores.ScoresTargets,
    MultiOutputMixin,
    LinearPiSTOLEstimator,
):
    r"""Linear regression that needs no tuning, on raw columns and targets of any scale.

    Each coordinate learns :math:`w_j = b g_j / (X_j \sqrt{V_j}) \exp(g_j^2 / (2 V_j))` from the
    gradients' sum :math:`g_j` and squared sum :math:`V_j`, on targets in units of a robust scale
    about their median, with a squared loss that is linear beyond 4 units, and columns clipped far
    outside their bulk. Three views of the columns are learned together and scored by
    progressive validation; the best two are shrunk by their progressive fit and averaged.

    Parameters
    ----------
    setting : str, default='auto'
        'auto' (the portfolio), 'per-coordinate' (the recipe under the standardised view alone), or
        a rule of `PiSTOLClassifier` on standardised columns.
    loss : str or part of `tunefree.parts.losses`, default='squared_error'
        'squared_error', 'huber', 'absolute_error', 'epsilon_insensitive', or a part. The squared
        error is linear beyond 4 robust standard deviations of the target; use 'huber', whose width
        is in robust standard deviations of the residuals, with a tenth of outliers or more, and
        'absolute_error' for the conditional median.
    average : str or part of `tunefree.parts.averaging`, default='auto'
        Read-out: see `PiSTOLClassifier`; 'auto' weights iterate t by t in the portfolio and the
        recipe, as 'polynomial' does.
    max_iter : int or 'auto', default='auto'
        Passes over the data; 'auto' is 3 to 12, fewer for larger data.
    horizon : int or None, default=None
        See `PiSTOLClassifier`.
    cap : float or None, default=10.0
        Columns are clipped at median -+ cap q95|x - median|; None does not clip (for heavy-tailed
        columns that carry signal).
    fit_intercept : bool, default=True
        Learn an intercept and centre columns.
    shuffle : bool, default=True
        See `PiSTOLClassifier`.
    warm_start : bool, default=False
        Continue from the state of the last `fit`.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the order of learning.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        `predict` is ``X @ coef_.T + intercept_`` of columns clipped to `input_limits_`, clipped to
        `prediction_limits_`.
    intercept_ : float or ndarray of shape (n_targets,)
    input_limits_ : ndarray of shape (2, n_features) or None
        Columns are clipped to these before prediction (None on sparse data): to their clipped
        range, or to ten times the raw one where rows beyond the limits follow the line.
    prediction_limits_ : ndarray of shape (2, n_targets)
        Predictions are clipped to the range of the (clipped) targets, or to ten times that on
        a side where the line predicts better than the limit.
    n_iter_ : int
    leaderboard_ : list of dict
        Progressive errors are mean squared errors in robust standard deviations of the target.
    trace_ : dict
    regret_, held_out_
        See `PiSTOLClassifier`.
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, or weights that are all zero.

    References
    ----------
    Orabona 2014, appendix A, with a variance-like growth of the denominators; the treatment of
    targets and columns is this library's.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tunefree import PiSTOLRegressor
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> model = PiSTOLRegressor(random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    """

    _ON_DEMAND = (*LinearPiSTOLEstimator._ON_DEMAND, "input_limits_", "prediction_limits_")

    def __init__(
        self,
        setting: str = "auto",
        *,
        loss: LossOfNumbers | Loss = "squared_error",
        average: AverageName | Auto | Average | AverageWithin = "auto",
        max_iter: int | Auto = "auto",
        horizon: int | None = None,
        cap: float | None = 10.0,
        fit_intercept: bool = True,
        shuffle: bool = True,
        warm_start: bool = False,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.setting = setting
        self.loss = loss
        self.average = average
        self.max_iter = max_iter
        self.horizon = horizon
        self.cap = cap
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _loss(self):
        loss = make_loss(self.loss, "regression")
        check_bounded(within(loss, DELTA))
        return loss

    def _filters_outliers(self):
        return self.cap is not None

    def _problem(self, X, y, weights, warm):
        self._flat = np.ndim(y) == 1
        y = as_columns(y)
        dense = is_dense(X)
        X = as_dense(X) if dense else canonical(sparse.csr_array(X))
        visits, rows, totals = self._visits(X, y, weights, affine=dense)
        if self._filters_outliers():
            X = clip_outliers(X, rows, EXTREME) if dense else clip_outliers(X, rows)
            y = clip_outliers(y, rows, EXTREME)
        return PiSTOLProblem(X, y, visits, rows, totals)

    def _scale(self):
        return TargetScale(self._loss(), self.cap, self.fit_intercept)

    def _members(self, n_rows, d, sparse_data, whiten):
        loss = within(self._loss(), DELTA)
        view = "scaled" if sparse_data else "standardised"
        if self.setting not in ("auto", "per-coordinate"):
            return self._single(view, loss, n_rows)
        several = self.setting == "auto" and whiten and not sparse_data
        views = ("standardised", "whitened", "strongly_whitened") if several else (view,)
        return regression_members(loss, d, views)

    def _shrink_by_folds(self, problem):
        """Shrink towards the mean by the held-out predictions of five folds.

        Only where there are few rows a column: several passes then overfit, and predictions made
        during the first pass do not show it.
        """
        X, y, _, rows, totals = problem
        n, dense = len(rows), not sparse.issparse(X)
        has_mean = self.fit_intercept and getattr(self._loss(), "elicits_mean", False)
        few_rows = n < min(_COMPARED_ROWS, _COMPARED_PER_COLUMN * X.shape[1])
        if not (has_mean and dense and few_rows):
            return
        mean = np.average(y[rows], axis=0, weights=totals)
        predictions = np.tile(mean, (n, 1))
        fold = np.arange(n) % _FOLDS
        for f in range(_FOLDS if n >= _FOLDS else 0):
            others, held = rows[fold != f], rows[fold == f]
            model = clone(self)
            model._fit(X[others], y[others], totals[fold != f])
            predictions[fold == f] = model.predict(X[held]).reshape(len(held), -1)
        factor = shrinkage_factor(predictions - mean, y[rows] - mean, totals)
        if (factor < 1.0).any():
            dtype = self.coef_.dtype
            coef = np.atleast_2d(self.coef_) * factor[:, None]
            intercept = mean + factor * (np.atleast_1d(self.intercept_) - mean)
            coef, intercept = coef.astype(dtype), intercept.astype(dtype)
            self.coef_, self.intercept_ = base.of_targets(self._flat, coef, intercept)
        self.held_out_ = base.held_out_predictions(
            mean + factor * (predictions - mean), y[rows], totals, self.prediction_limits_
        )

    def _begin(self, problem):
        X, targets, visits, rows, _ = problem
        n_visits = len(visits.rows)
        sparse_data = sparse.issparse(X)
        d = X.shape[1]
        scale = self._scale().open(X[rows], targets[rows])
        members = self._members(self.horizon or n_visits, d, sparse_data, d <= MOST_WHITENED)
        n_passes = passes(self.max_iter, n_visits, n_entries(X), visits=_VISITS)
        caps = None if sparse_data else (scale.low, scale.high)
        return problem, self._start(problem, members, n_passes, 1.0, caps, scale)

    def _stream_members(self, sparse_data, d):
        members = self._members(self.horizon, d, sparse_data, d <= MOST_WHITENED_STREAM)
        if sparse_data:  # later rows may have more columns, of unknown scales
            members = tuple(m._replace(view="raw") for m in members)
        return members, self._scale()

    @matched_by_place
    def partial_fit(
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from the next chunk of a stream, in the order given.

        The columns' and targets' scales come from the first 64 rows, the loss's width from the
        latest 256. The chunks' sizes make no difference, to the last bit. An entry or target ten
        times beyond all before it is clipped to the farthest of these, and one 10^6 times beyond
        counts as missing, unless more follow; ``cap=None`` learns them as they are.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        if sample_weight is None and self._quickly(X, y):
            return self
        return self._learn_chunk(X, y, sample_weight)

    def _quick_targets(self, labels, codes):
        try:
            targets = np.array(labels, dtype=np.float64)
        except (TypeError, ValueError):
            return None
        is_usual = self._flat and targets.ndim == 1 and np.isfinite(targets).all()
        return targets[:, None] if is_usual else None

    def _chunk(self, stream, y, weights, classes):
        self._flat = np.ndim(y) == 1
        targets = as_columns(y)
        base.check_n_targets(targets, stream.n_outputs())
        return targets, weights, None

    def _read(self, run, problem=None, candidates=None):
        """Members shrunk by their progressive fit and averaged, in standardised targets."""
        portfolio, state, scale = run
        n_rows = max(1, int(state.progress.clock[0]))
        first = max(8, min(64, n_rows // 4))
        recent, targets, weights = recent_rows(state.progress, max(0.0, (n_rows - first) / n_rows))
        y = np.clip(targets, *scale.standardise(np.array(scale.limit)))
        level = np.average(y, axis=0, weights=weights)
        chosen, squared = candidates or portfolio.candidates(state), scale.elicits_mean
        lines = []
        for i, last in chosen:
            coef, intercept = portfolio.weights(state, i, last)
            p = recent[:, 2 * i + last]
            mean = np.average(p, axis=0, weights=weights)
            p, factor = p - mean, 1.0
            if squared:
                energy = np.maximum(weights @ (p * p), 1e-300)
                factor = np.clip(weights @ (p * (y - level)) / energy, 0.0, 1.0)
            centre = level if squared and self.fit_intercept else mean
            lines.append((factor * coef, intercept, factor * p + centre))
        averages: Any = [sum(each) / len(lines) for each in zip(*lines, strict=True)]
        coef, intercept, predicted = averages
        if not self.fit_intercept:
            intercept = np.zeros(coef.shape[1])
        elif squared:
            intercept = scale.mean_y - scale.mean_x @ coef
        return Line(coef, intercept, (predicted, targets, weights))

    def _publish_line(self, run, line):
        scale, dtype = run.scale, np.dtype(self._dtype)
        coef, intercept = (line.coef * scale.s).T, line.intercept * scale.s + scale.m
        coef, intercept = np.ascontiguousarray(coef, dtype=dtype), intercept.astype(dtype)
        self.coef_, self.intercept_ = base.of_targets(self._flat, coef, intercept)
        limits, most = scale.limits(), np.finfo(dtype).max  # ten times the range may overflow
        self.input_limits_ = None if limits is None else np.clip(limits, -most, most).astype(dtype)
        self.prediction_limits_ = np.clip(scale.range(), -most, most).astype(dtype)
        late = slice(len(line.held_out[0]) // 2, None)  # early predictions are worse
        predictions, targets, weights = (a[late] for a in line.held_out)
        predictions, targets = (a * scale.s + scale.m for a in (predictions, targets))
        self.held_out_ = base.held_out_predictions(
            predictions, targets, weights, self.prediction_limits_
        )

    def _estimand(self, y):
        if self._loss() != LOSSES["squared_error"]:
            raise ValueError(
                f"No interval is valid for loss={self.loss!r}: give loss='squared_error'."
            )
        return Law(Gaussian(), LINKS["identity"]), y

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets).

        They are the line's for columns clipped to `input_limits_`, clipped to `prediction_limits_`.
        """
        check_is_fitted(self, "coef_")
        X = base.check_rows(self, X)
        if self.input_limits_ is not None:
            X = np.clip(as_dense(X), *self.input_limits_)
        y = product(X, self.coef_.T) + self.intercept_
        limits = self.prediction_limits_
        return np.clip(y, *(limits if y.ndim == 2 else limits[:, 0]))
