"""PiSTOL for real targets: robust scales in place of a known bound of the loss."""

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tunefree._array import seed_of
from tunefree._threads import product
from tunefree.choose.portfolio import Member, Portfolio
from tunefree.choose.risk import recent_rows
from tunefree.columns import moments
from tunefree.engine.run import run
from tunefree.engine.sources import Rows
from tunefree.engine.stream import Stream
from tunefree.estimators import base
from tunefree.estimators.callbacks import TellsCallbacks, told
from tunefree.estimators.from_source import FitsSource
from tunefree.estimators.pistol.fitting import resume, run_passes, visits_of
from tunefree.estimators.pistol.settings import (
    MOST_WHITENED,
    MOST_WHITENED_STREAM,
    SETTINGS,
    check_parameters,
    is_dense,
    passes,
    regression_members,
    view_set,
)
from tunefree.estimators.pistol.targets import DELTA, TargetScale, residual_width, with_width
from tunefree.estimators.regret import MOVING, RegretBound, linear_regret
from tunefree.losses import LOSSES, Huber
from tunefree.robust import ABSURD, screened

# Visits of rows to make, within 3 to 12 passes. More would follow the rows whose far entries are
# clipped away from the line of the others.
_VISITS = 4000


def _array(X):
    return X.toarray() if sparse.issparse(X) else X


class PiSTOLRegressor(
    RegretBound, RegressorMixin, MultiOutputMixin, FitsSource, TellsCallbacks, BaseEstimator
):
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
    loss : {'squared', 'huber', 'absolute', 'epsilon_insensitive'}, default='squared'
        'squared' is clipped at 4 robust standard deviations of the target; use 'huber' with a
        tenth of outliers or more, 'absolute' for the conditional median.
    average : {'auto', 'uniform', 'suffix', 'last'}, default='auto'
        Read-out; 'auto' weights iterate t by t in the portfolio and the recipe.
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
        setting="auto",
        *,
        loss="squared",
        average="auto",
        max_iter="auto",
        horizon=None,
        cap=10.0,
        fit_intercept=True,
        shuffle=True,
        warm_start=False,
        random_state=None,
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

    @told
    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Validation rows: members and the number of passes are then chosen on them.

        Returns
        -------
        self
        """
        self._check()
        warm = self.warm_start and getattr(self, "_run", None) is not None
        X, y = base.check_rows_and_targets(self, X, y, reset=not warm, multi_output=True,
                                           numeric=True)  # fmt: skip
        weights = base.check_weights(sample_weight, X)
        kept = weights > 0
        if not kept.all():
            X, y, weights = X[kept], y[kept], weights[kept]
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        dense = is_dense(X)
        X = base.canonical(sparse.csr_array(X)) if not dense else _array(X)
        seed = seed_of(self.random_state)
        visits, rows, totals = visits_of(X, targets, weights, self.shuffle, seed, affine=dense)
        if self.cap is not None:
            X = screened(X, rows, ABSURD) if dense else screened(X, rows)
            targets = screened(targets, rows, ABSURD)
        if warm:
            portfolio, state, scale = self._run
            X, state = base.stored(X, state.views), state._replace(epoch=1)
        else:
            scale = TargetScale(self.loss, self.cap, self.fit_intercept)
            scale.open(X[rows], targets[rows])
            portfolio, state, m = self._start(
                X, rows, totals, scale, targets.shape[1], len(visits.rows)
            )
            scale.add_all(X, targets, rows, totals, m)
        validate = None if X_val is None else self._validation(X_val, y_val, scale)
        source, flat = Rows(X, scale.standardise(targets), visits), np.ndim(y) == 1

        def read(state):
            return self._read(portfolio, state, scale)

        def publish(model, state, n_passes=None, line=None):
            line, n_passes = line or read(state), n_passes or state.epoch
            scale.weigh_all(X, targets, rows, totals, *line)
            model._publish(portfolio, state, scale, *line, n_passes, X.dtype, flat)

        watch = self._told.passes(portfolio.n_passes, publish)
        if self.loss == "huber" and not warm and portfolio.n_passes > 1:
            # The first pass tells the residuals' scale; Huber's width follows it from then on.
            first = portfolio._replace(rank=validate)
            state = run(first, state, source, max_passes=1, **watch).state
            predicted, seen, _ = recent_rows(state.progress)
            width = min(DELTA, residual_width(predicted[:, 2 * state.chosen[0]], seen))
            portfolio = with_width(portfolio, width)
            if self._told.stopped:
                watch = {"max_passes": 0}
        state, n_passes, coef, intercept = run_passes(
            portfolio, state, source, read, validate, watch
        )
        publish(self, state, n_passes, (coef, intercept))
        self._run, self._stream = (portfolio, state, scale), None
        return self

    @base.all_or_nothing
    def partial_fit(self, X, y, sample_weight=None):
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
        stream = getattr(self, "_stream", None)
        if stream is None and "coef_" in vars(self):
            *learner, scale = getattr(self, "_run", None) or (None, None, None)
            d, guarded = self.n_features_in_, self.cap is not None
            stream = resume(*learner, scale, n_columns=d, guarded=guarded)
        X, y = base.check_rows_and_targets(
            self, X, y, reset=stream is None, multi_output=True, numeric=True
        )
        weights = base.check_weights(sample_weight, X)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if stream is None:
            stream = self._open_stream(X)
        known = stream.n_outputs()
        if known not in (None, targets.shape[1]):
            raise ValueError(f"y has {targets.shape[1]} targets, but this model learns {known}.")
        self._stream = stream.learn(X, targets, weights)
        self._dtype, self._flat = X.dtype.name, np.ndim(y) == 1
        self._forget_read()
        return self

    def _read_stream(self):
        ready = self._stream.opened()
        ready.tell_means()
        coef, intercept = self._read(ready.portfolio, ready.state, ready.scale, ready.best)
        self._publish(
            ready.portfolio, ready.state, ready.scale, coef, intercept, 1, self._dtype, self._flat
        )
        self.trace_["struck"] = ready.struck
        self.regret_ = self.regret_ if isinstance(self.regret_, str) else MOVING

    def _check(self):
        check_parameters(self, ("auto", *SETTINGS), "regression")

    def _members(self, n_rows, d, sparse_data, whiten):
        loss = LOSSES.get(self.loss, self.loss)
        if self.loss == "huber":
            loss = Huber(1.0)
        base_view = "scaled" if sparse_data else "standardised"
        if self.setting not in ("auto", "per-coordinate"):
            learner = SETTINGS[self.setting](loss, n_rows)
            return (Member(base_view, learner, self.setting),)
        views = (base_view,)
        if self.setting == "auto" and whiten and not sparse_data:
            views = ("standardised", "whitened", "strongly_whitened")
        return regression_members(loss, d, views)

    def _start(self, X, rows, totals, scale, n_outputs, n_visits):
        sparse_data, d = sparse.issparse(X), X.shape[1]
        members = self._members(self.horizon or n_visits, d, sparse_data, d <= MOST_WHITENED)
        caps = None if sparse_data else (scale.low, scale.high)
        views = view_set(members, self.fit_intercept)
        m = moments(
            X,
            rows,
            totals,
            centred=self.fit_intercept and not sparse_data,
            products=views.products,
            caps=caps,
        )
        n_passes = passes(self.max_iter, n_visits, X.nnz if sparse_data else X.size, visits=_VISITS)
        portfolio = Portfolio(
            members, False, n_passes, suffix=self.average == "suffix", last=self.average == "last"
        )
        state = portfolio.init(views.make(m, caps), d, n_outputs, n_visits)
        return portfolio, portfolio.expect(state, X, rows), m

    def _open_stream(self, X):
        sparse_data, d = sparse.issparse(X), X.shape[1]
        members = self._members(self.horizon, d, sparse_data, d <= MOST_WHITENED_STREAM)
        if sparse_data:  # columns may come that the first rows do not show: no scales of those
            members = tuple(m._replace(view="raw") for m in members)
        scale = TargetScale(self.loss, self.cap, self.fit_intercept)
        portfolio = Portfolio(members, False, 1, last=self.average == "last")
        return Stream(
            portfolio,
            view_set(members, self.fit_intercept),
            sparse=sparse_data,
            renew=False,
            scale=scale,
            guarded=self.cap is not None,
        )

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

    def _read(self, portfolio, state, scale, best=None):
        """Members shrunk by their progressive fit and averaged, in standardised targets."""
        first = max(8, min(64, int(state.progress.clock[0]) // 4))
        seen = max(1, int(state.progress.clock[0]))
        recent, targets, weights = recent_rows(state.progress, max(0.0, (seen - first) / seen))
        limit = scale.standardise(np.array(scale.limit))
        y = np.clip(targets, *limit)
        y = y - np.average(y, axis=0, weights=weights)
        chosen = portfolio.candidates(state) if best is None else best()
        if not chosen:
            chosen = [(i, False) for i in range(len(portfolio.members))]
        coef = 0.0
        for i, last in chosen:
            p = recent[:, 2 * i + last]
            p = p - np.average(p, axis=0, weights=weights)
            energy = np.maximum(weights @ (p * p), 1e-300)
            kappa = np.clip(weights @ (p * y) / energy, 0.0, 1.0)
            if self.loss not in ("squared",):
                kappa = 1.0
            coef = coef + kappa * portfolio.weights(state, i, last)[0]
        coef = coef / len(chosen)
        if not self.fit_intercept:
            return coef, np.zeros(coef.shape[1])
        if self.loss == "squared":
            return coef, scale.mean_y - scale.mean_x @ coef
        return coef, np.mean([portfolio.weights(state, *c)[1] for c in chosen], axis=0)

    def _publish(self, portfolio, state, scale, coef, intercept, n_passes, dtype, flat):
        coef, intercept = (coef * scale.s).T, intercept * scale.s + scale.m
        self.coef_ = np.ascontiguousarray(coef[0] if flat else coef, dtype=dtype)
        self.intercept_ = np.dtype(dtype).type(intercept[0]) if flat else intercept.astype(dtype)
        limits, most = scale.limits(), np.finfo(dtype).max  # ten times what was seen may overflow
        self.limits_ = None if limits is None else np.clip(limits, -most, most).astype(dtype)
        self.range_ = np.clip(scale.range(), -most, most).astype(dtype)
        self.n_iter_ = n_passes
        self.leaderboard_ = portfolio.leaderboard(state)
        self.trace_ = portfolio.trace(state)
        self.regret_ = linear_regret(portfolio, state, units=(scale.m.copy(), scale.s.copy()))

    def predict(self, X):
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets)."""
        check_is_fitted(self, "coef_")
        X = base.check_rows(self, X)
        if self.limits_ is not None:
            X = np.clip(_array(X), *self.limits_)
        y = product(X, self.coef_.T) + self.intercept_
        low, high = self.range_ if self.coef_.ndim == 2 else self.range_[:, 0]
        return np.clip(y, low, high)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
