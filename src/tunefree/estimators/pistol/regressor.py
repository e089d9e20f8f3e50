"""PiSTOL for real targets: robust scales in place of a known bound of the loss."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tunefree._threads import product
from tunefree.choose.portfolio import Member, Portfolio
from tunefree.choose.risk import recent_rows
from tunefree.columns import moments
from tunefree.estimators import base
from tunefree.estimators.pistol.fitting import (
    MOST_WHITENED,
    MOST_WHITENED_STREAM,
    SETTINGS,
    LearnsByPortfolio,
    Problem,
    Run,
    is_dense,
    passes,
    regression_members,
    view_set,
)
from tunefree.estimators.pistol.targets import TargetScale
from tunefree.losses import check_bounded, make_loss, within
from tunefree.protocols import Average, AverageWithin, Loss, MatrixLike, Seed, TargetLike
from tunefree.robust import ABSURD, DELTA, screened

# Visits of rows to make, within 3 to 12 passes. More would follow the rows whose far entries are
# clipped away from the line of the others.
_VISITS = 4000


def _array(X):
    return X.toarray() if sparse.issparse(X) else X


class PiSTOLRegressor(RegressorMixin, MultiOutputMixin, LearnsByPortfolio):
    r"""Linear regression that needs no tuning, on raw columns and targets of any scale.

    Each coordinate learns :math:`w_j = b g_j / (X_j \sqrt{V_j}) \exp(g_j^2 / (2 V_j))` from the
    gradients' sum :math:`g_j` and squared sum :math:`V_j`, on targets in units of a robust scale
    about their median, with a squared loss that goes on linearly beyond 4 units, and columns
    clipped far outside their bulk. Three views of the columns are learned together and scored by
    progressive validation; the best two are shrunk by their progressive fit and averaged.

    Parameters
    ----------
    setting : str, default='auto'
        'auto' (the portfolio), 'per-coordinate' (the recipe under the standardised view alone), or
        a rule of `PiSTOLClassifier` on standardised columns.
    loss : str or part of `tunefree.losses`, default='squared'
        'squared', 'huber', 'absolute', 'epsilon_insensitive', or a part. The squared loss goes on
        linearly beyond 4 robust standard deviations of the target; use 'huber', whose width is in
        robust standard deviations of the residuals, with a tenth of outliers or more, and
        'absolute' for the conditional median.
    average : str or part of `tunefree.averaging`, default='auto'
        Read-out: see `PiSTOLClassifier`; 'auto' weights iterate t by t in the portfolio and the
        recipe, as 'polynomial' does.
    max_iter : int or 'auto', default='auto'
        Passes over the data; 'auto' is 3 to 12, fewer for larger data.
    horizon : int or None, default=None
        See `PiSTOLClassifier`.
    cap : float or None, default=10.0
        Columns are clipped at median -+ cap q95|x - median|; None switches this off (heavy-tailed
        columns that carry signal).
    fit_intercept : bool, default=True
        Learn an intercept and centre columns.
    shuffle : bool, default=True
        See `PiSTOLClassifier`.
    warm_start : bool, default=False
        Go on from the state of the last `fit`.
    random_state : int, RandomState or None, default=None
        Seed of the order of learning.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Within the columns' limits, predictions are ``X @ coef_.T + intercept_``.
    intercept_ : float or ndarray of shape (n_targets,)
    limits_ : ndarray of shape (2, n_features) or None
        Columns are clipped to these before prediction (None on sparse data): to their clipped
        range, or to ten times what was seen where rows beyond the limits follow the line.
    range_ : ndarray of shape (2, n_targets)
        Predictions are clipped to the range of the (clipped) targets seen, or to ten times that on
        a side where the line predicts better than the limit.
    n_iter_ : int
    leaderboard_ : list of dict
        Progressive errors are mean squared errors in robust standard deviations of the target.
    trace_ : dict
    regret_ : tuple or str
        What `regret_bound` needs, or why nothing is proved.
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

    _ON_DEMAND = (
        "coef_",
        "intercept_",
        "limits_",
        "range_",
        "n_iter_",
        "leaderboard_",
        "trace_",
        "regret_",
    )

    def __init__(
        self,
        setting: str = "auto",
        *,
        loss: str | Loss = "squared",
        average: str | Average | AverageWithin = "auto",
        max_iter: int | str = "auto",
        horizon: int | None = None,
        cap: float = 10.0,
        fit_intercept: bool = True,
        shuffle: bool = True,
        warm_start: bool = False,
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
        self.random_state = random_state

    def _loss(self):
        loss = make_loss(self.loss, "regression")
        check_bounded(within(loss, DELTA))
        return loss

    @property
    def _guarded(self):
        return self.cap is not None

    def _rows(self, X, y, sample_weight, reset):
        X, y = base.check_rows_and_targets(self, X, y, reset=reset, multi_output=True, numeric=True)
        self._dtype, self._flat = X.dtype.name, np.ndim(y) == 1
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        return X, targets, base.check_weights(sample_weight, X)

    def _problem(self, X, y, weights, warm):
        dense = is_dense(X)
        X = _array(X) if dense else base.canonical(sparse.csr_array(X))
        visits, rows, totals = self._visits(X, y, weights, affine=dense)
        if self._guarded:
            X = screened(X, rows, ABSURD) if dense else screened(X, rows)
            y = screened(y, rows, ABSURD)
        return Problem(X, y, visits, rows, totals)

    def _scale(self):
        return TargetScale(self._loss(), self.cap, self.fit_intercept)

    def _members(self, n_rows, d, sparse_data, whiten):
        loss = within(self._loss(), DELTA)
        view = "scaled" if sparse_data else "standardised"
        if self.setting not in ("auto", "per-coordinate"):
            return (Member(view, SETTINGS[self.setting](loss, n_rows), self.setting),)
        several = self.setting == "auto" and whiten and not sparse_data
        views = ("standardised", "whitened", "strongly_whitened") if several else (view,)
        return regression_members(loss, d, views)

    def _begin(self, problem):
        X, targets, visits, rows, totals = problem
        n_visits, sparse_data, d = len(visits.rows), sparse.issparse(X), X.shape[1]
        scale = self._scale().open(X[rows], targets[rows])
        members = self._members(self.horizon or n_visits, d, sparse_data, d <= MOST_WHITENED)
        members, tail = self._averaged(members, 1.0)
        views, centred = view_set(members, self.fit_intercept), self.fit_intercept
        caps = None if sparse_data else (scale.low, scale.high)
        centred = centred and not sparse_data
        m = moments(X, rows, totals, centred=centred, products=views.products, caps=caps)
        n_passes = passes(self.max_iter, n_visits, X.nnz if sparse_data else X.size, visits=_VISITS)
        portfolio = Portfolio(members, False, n_passes, tail=tail)
        state = portfolio.init(views.make(m, caps), d, targets.shape[1], n_visits)
        state = portfolio.expect(state, X, rows)
        scale.add_all(problem, m)
        return problem, Run(portfolio, state, scale)

    def _open_stream(self, X):
        sparse_data, d = sparse.issparse(X), X.shape[1]
        members = self._members(self.horizon, d, sparse_data, d <= MOST_WHITENED_STREAM)
        if sparse_data:  # columns may come that the first rows do not show: no scales of those
            members = tuple(m._replace(view="raw") for m in members)
        return self._stream_of(members, X, self._scale())

    @base.all_or_nothing
    def partial_fit(
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from the next chunk of a stream, in the order given.

        The columns' and targets' scales come from the first 64 rows, the loss's width from the
        latest 256. The chunks' sizes make no difference, to the last bit. Entries and targets ten
        times beyond all before count as the farthest before, those 10^6 times beyond as missing,
        until they keep coming; ``cap=None`` learns them.

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
        stream = self._going_on()
        X, targets, weights = self._rows(X, y, sample_weight, reset=stream is None)
        stream = stream or self._open_stream(X)
        known = stream.n_outputs()
        if known not in (None, targets.shape[1]):
            raise ValueError(f"y has {targets.shape[1]} targets, but this model learns {known}.")
        self._stream = stream.learn(X, targets, weights)
        self._forget_read()
        return self

    def _validation(self, X_val, y_val, scale):
        if y_val is None:
            raise ValueError("X_val is given without y_val.")
        X, y = scale.clip(base.check_rows(self, X_val)), np.asarray(y_val, dtype=float)
        if y.shape[:1] != X.shape[:1] or y.size != len(y) * len(scale.m) or np.isnan(y).any():
            raise ValueError("y_val must have the targets of each row of X_val.")
        y = scale.standardise(y.reshape(len(y), -1))

        def validate(coef, intercept):
            return float(np.mean((X @ coef + intercept - y) ** 2))

        return validate

    def _read(self, run, problem=None, candidates=None):
        """Members shrunk by their progressive fit and averaged, in standardised targets."""
        portfolio, state, scale = run
        seen = max(1, int(state.progress.clock[0]))
        first = max(8, min(64, seen // 4))
        recent, targets, weights = recent_rows(state.progress, max(0.0, (seen - first) / seen))
        y = np.clip(targets, *scale.standardise(np.array(scale.limit)))
        y = y - np.average(y, axis=0, weights=weights)
        chosen = portfolio.candidates(state) if candidates is None else candidates
        chosen = chosen or [(i, portfolio.last) for i in range(len(portfolio.members))]
        coef: Any = 0.0
        squared = scale.elicits_mean
        for i, last in chosen:
            p = recent[:, 2 * i + last]
            p = p - np.average(p, axis=0, weights=weights)
            energy = np.maximum(weights @ (p * p), 1e-300)
            kappa = np.clip(weights @ (p * y) / energy, 0.0, 1.0) if squared else 1.0
            coef = coef + kappa * portfolio.weights(state, i, last)[0]
        coef = coef / len(chosen)
        if not self.fit_intercept:
            return coef, np.zeros(coef.shape[1])
        if squared:
            return coef, scale.mean_y - scale.mean_x @ coef
        return coef, np.mean([portfolio.weights(state, *c)[1] for c in chosen], axis=0)

    def _publish_line(self, line, scale):
        coef, intercept = (line[0] * scale.s).T, line[1] * scale.s + scale.m
        dtype, flat = np.dtype(self._dtype), self._flat
        self.coef_ = np.ascontiguousarray(coef[0] if flat else coef, dtype=dtype)
        self.intercept_ = dtype.type(intercept[0]) if flat else intercept.astype(dtype)
        limits, most = scale.limits(), np.finfo(dtype).max  # ten times what was seen may overflow
        self.limits_ = None if limits is None else np.clip(limits, -most, most).astype(dtype)
        self.range_ = np.clip(scale.range(), -most, most).astype(dtype)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets)."""
        check_is_fitted(self, "coef_")
        X = base.check_rows(self, X)
        if self.limits_ is not None:
            X = np.clip(_array(X), *self.limits_)
        y = product(X, self.coef_.T) + self.intercept_
        low, high = self.range_ if self.coef_.ndim == 2 else self.range_[:, 0]
        return np.clip(y, low, high)
