"""What linear PiSTOL estimators share: no step size, no penalties, no cross-validation.

`fit` checks the rows, poses the problem, makes the passes of a `Portfolio`, and publishes the line
that is read out. `partial_fit` gives the rows of a stream to the same portfolio.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.from_source import FitsSource
from tunefree.base.locks import all_or_nothing
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.targets import TargetScale
from tunefree.core.parameters import seed_of
from tunefree.core.protocols import MatrixLike, Seed, TargetLike
from tunefree.core.warn import none_of
from tunefree.engine.run import run
from tunefree.engine.sources import Rows
from tunefree.parts.averaging import PolynomialDecay, scheme_of
from tunefree.pistol.bounds import run_regret
from tunefree.pistol.linear import SETTINGS
from tunefree.pistol.linear_regret import linear_regret, norms_in_view
from tunefree.pistol.portfolio import Portfolio, PortfolioState, ViewMember, with_average
from tunefree.pistol.short_chunks import TakesShortChunks
from tunefree.pistol.state_checks import check_pistol_learner
from tunefree.pistol.stream import Stream
from tunefree.pistol.views import ViewSet
from tunefree.rows.matrices import as_dense
from tunefree.rows.moments import moments
from tunefree.rows.order import Visits, visits_of

# Wider rows are not whitened: the eigenvectors would take longer than learning.
MOST_WHITENED = 1000
MOST_WHITENED_STREAM = 256
# Sparse data up to this many cells are learned as dense: centring and whitening help.
_MOST_CELLS = 5e7


class PiSTOLProblem(NamedTuple):
    """Rows in memory, their targets, and the order in which to learn them."""

    X: Any  # of shape (n, d)
    targets: np.ndarray  # of shape (n, n_outputs)
    visits: Visits
    rows: np.ndarray  # distinct ones, of shape (m,), and the weight of each
    totals: np.ndarray


class PiSTOLRun(NamedTuple):
    """The state from which a fit continues."""

    portfolio: Portfolio
    state: PortfolioState
    scale: Any = None  # a `TargetScale`, of real targets

    def again(self, problem):
        """The problem in the form that the views need, and the run before more passes over it."""
        if any(view.dense for view in self.state.views.values()):
            problem = problem._replace(X=as_dense(problem.X))
        return problem, self._replace(state=self.state._replace(epoch=1))


class Line(NamedTuple):
    """The predictor that is read out of a portfolio, and what it predicted while learning."""

    coef: np.ndarray  # of shape (d, n_outputs)
    intercept: np.ndarray
    held_out: tuple  # predictions of the latest rows before they were learned, targets, weights


class LinearPiSTOLEstimator(
    TakesShortChunks, base.TakesSparse, FitsSource, CallbackSupport, BaseEstimator
):
    """A linear estimator whose learner is a `Portfolio`: on rows in memory, or on a stream.

    A subclass has the parameters that are declared here, and the abstract methods.
    """

    _ON_DEMAND = (
        "coef_", "intercept_", "n_iter_", "leaderboard_", "trace_", "regret_", "held_out_",
    )  # fmt: skip

    setting: str
    average: Any
    fit_intercept: bool
    shuffle: bool
    warm_start: bool
    random_state: Seed

    @abstractmethod
    def _loss(self) -> Any:
        """The loss of the parameter `loss`; None for the members' own."""

    @abstractmethod
    def _filters_outliers(self) -> bool:
        """Whether outliers among the entries are filtered."""

    @abstractmethod
    def _problem(self, X, y, weights, warm) -> PiSTOLProblem:
        """Rows of positive weight as a problem; `warm`: they continue an earlier fit."""

    @abstractmethod
    def _begin(self, problem) -> tuple[PiSTOLProblem, PiSTOLRun]:
        """The problem as it is learned, and the run before the first row."""

    @abstractmethod
    def _stream_members(self, sparse_data, d) -> tuple[tuple, TargetScale | None]:
        """The members for a stream of `d` columns, and the scale of targets that are numbers."""

    @abstractmethod
    def _chunk(self, stream, y, weights, classes) -> tuple[np.ndarray, np.ndarray, Any]:
        """Targets and weights of a chunk, and what `_quick_targets` needs of its labels."""

    @abstractmethod
    def _read(self, run, problem=None, candidates=None) -> Line:
        """The line that is read out; `problem` has the rows of a fit, and is None on a stream."""

    @abstractmethod
    def _publish_line(self, run, line) -> None:
        """Set the attributes that make up the predictor, and its held-out predictions."""

    def _check(self):
        """Refuse parameter values that mean nothing, naming the parameter."""
        if self.setting != "auto" and self.setting not in SETTINGS:
            raise none_of("setting", self.setting, ["auto", *SETTINGS])
        self._loss()
        if self.average != "auto":
            scheme_of(self.average, also=("auto",))

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or (n_samples, n_targets) for a regressor
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        before = vars(self).get("_run") if self.warm_start else None
        problem = self._fit(X, y, sample_weight, before)
        if before is None:
            self._shrink_by_folds(problem)
        return self

    def _fit(self, X, y, sample_weight, before=None):
        """Learn rows, from the start or after the run `before`; returns the problem."""
        self._check()
        rows = self._rows(X, y, sample_weight, reset=before is None)
        problem = self._problem(*base.of_positive_weight(*rows), warm=before is not None)
        problem, start = self._begin(problem) if before is None else before.again(problem)
        self._run, self._stream = self._learn(problem, start), None
        self._publish(self._run, problem)
        return problem

    def _rows(self, X, y, sample_weight, reset, stream=False):
        """Rows, targets and weights, checked."""
        numeric = is_regressor(self)
        base.check_columns(X)
        X, y = base.check_rows_and_targets(
            self, X, y, reset=reset, multi_output=numeric, numeric=numeric
        )
        self._dtype = X.dtype.name
        return X, y, base.check_weights(sample_weight, X, stream=stream)

    def _learn(self, problem, start):
        """Make the passes; returns the `PiSTOLRun` at the end."""
        portfolio, state, scale = start
        targets = problem.targets if scale is None else scale.standardise(problem.targets)
        source = Rows(problem.X, targets, problem.visits)

        def publish(model, state):
            model._publish(PiSTOLRun(portfolio, state, scale), problem)

        watch = self._progress.passes(portfolio.n_passes, publish)
        is_first = state.epoch == 0 and portfolio.n_passes > 1
        if is_first and scale is not None and scale.outliers:
            # The first pass gives the size of residuals, which sets the width of the loss.
            state = run(portfolio, state, source, max_passes=1, **watch).state
            portfolio = scale.after(portfolio, state)
        if not self._progress.stopped:
            state = run(portfolio, state, source, **watch).state
        return PiSTOLRun(portfolio, state, scale)

    def _publish(self, learned, problem):
        """Read out the line that was learned from rows in memory, and set the fitted attributes."""
        line = self._read(learned, problem)
        if learned.scale is not None:
            learned.scale.weigh_all(problem, line.coef, line.intercept)
        self._publish_run(learned, line, learned.state.epoch)

    def _publish_run(self, learned, line, n_passes, moving=False):
        """Set the fitted attributes; `moving`: views were updated as rows came."""
        self._publish_line(learned, line)
        self.n_iter_ = n_passes
        self.leaderboard_ = learned.portfolio.leaderboard(learned.state)
        self.trace_ = learned.portfolio.trace(learned.state)
        self.regret_ = linear_regret(learned, moving)

    def _visits(self, X, labels, weights, affine: Any = False):
        return visits_of(X, labels, weights, self.shuffle, seed_of(self.random_state), affine)

    def _start(self, problem, members, n_passes, tail, caps, scale=None):
        """The `PiSTOLRun` before the first row; `caps` are limits of dense columns."""
        X, targets, visits, rows, totals = problem
        members, tail = self._averaged(members, tail)
        views = self._views(members)
        centred = self.fit_intercept and caps is not None
        m = moments(X, rows, totals, centred=centred, products=views.products, caps=caps)
        portfolio = Portfolio(members, scale is None, n_passes, tail=tail)
        shape = X.shape[1], targets.shape[1], len(visits.rows)
        state = portfolio.init(views.make(m, caps), *shape)
        if scale is not None:
            state = portfolio.expect(state, X, rows)
            scale.add_all(problem, m)
        return PiSTOLRun(portfolio, state, scale)

    def _single(self, view, loss, n_rows):
        """The member of a setting that names one rule."""
        return (ViewMember(view, SETTINGS[self.setting](loss, n_rows), self.setting),)

    def _views(self, members):
        return ViewSet(tuple(dict.fromkeys(m.view for m in members)), self.fit_intercept)

    def _averaged(self, members, tail, stream=False):
        """Members with the scheme that `average` names, and the share of passes to average."""
        if self.average == "auto":
            return members, tail
        scheme = scheme_of(self.average)
        fraction = getattr(scheme, "fraction", None)  # of 'tail' and 'last'
        if fraction is None:
            return with_average(members, scheme), 1.0
        if stream and fraction > 0.0:  # the end of a stream is not known
            return with_average(members, PolynomialDecay()), 1.0
        return members, fraction

    @all_or_nothing
    def _learn_chunk(self, X, y, sample_weight, classes=None):
        """Learn the next rows of a stream."""
        self._check()
        stream = self._going_on()
        X, y, weights = self._rows(X, y, sample_weight, reset=stream is None, stream=True)
        stream = stream or self._open_stream(X)
        targets, weights, codes = self._chunk(stream, y, weights, classes)
        self._stream = stream.learn(X, targets, weights)
        self._forget_read()
        self._trusted = [(n, getattr(self, n)) for n in self._get_param_names()], codes
        return self

    def _open_stream(self, X):
        """A stream that begins with these rows."""
        sparse_data = sparse.issparse(X)
        members, scale = self._stream_members(sparse_data, X.shape[1])
        members, tail = self._averaged(members, 1.0, stream=True)
        return Stream(
            Portfolio(members, scale is None, 1, tail=tail, unseen=scale is None),
            self._views(members),
            sparse=sparse_data,
            renew=scale is None,
            scale=scale,
            guarded=self._filters_outliers(),
        )

    def _going_on(self):
        """The stream, or one that continues from `fit`; None if nothing has been learned."""
        stream = self._stream
        if stream is not None or "coef_" not in vars(self):
            return stream
        if vars(self).get("_run") is None:
            raise ValueError(
                "This model holds a predictor but no learner to continue from: save it with "
                "save_model(model, path, learner=True), or fit it again."
            )
        return Stream.after_fit(*self._run, self.n_features_in_, self._filters_outliers())

    def _check_learner(self):
        """Refuse an inconsistent learner from a model file."""
        check_pistol_learner(self)

    def _read_stream(self):
        ready = self._stream.opened()
        ready.set_column_means()
        learned = PiSTOLRun(ready.portfolio, ready.state, ready.scale)
        candidates = ready.best(last=None if self.average == "auto" else ready.portfolio.last)
        line = self._read(learned, candidates=candidates)
        moving = ready.renew or ready.scale is not None
        self._publish_run(learned, line, 1, moving=moving)
        self.trace_["outlier_rows"] = ready.n_outliers

    def _shrink_by_folds(self, problem):
        """Do nothing; only decisions of a regression grow by overfitting."""

    def regret_bound(self, coef: ArrayLike, intercept: ArrayLike = 0.0) -> float:
        """The largest possible regret: losses of the learner less those of a linear competitor.

        It is the regret of the predictions made while learning, each before its row was learned,
        summed over all visits of rows in their order; a visit of weight below 1 counts by its
        weight (weights are divided by their greatest divisor, or by their mean). Losses are those
        of `loss`, summed over outputs. A regressor's are in units of its robust scale of the
        targets ('huber' has the current width), and its competitor has columns without outliers, as
        in learning.

        Parameters
        ----------
        coef : array-like of the shape of `coef_`
            The competitor: any vector, even one chosen after learning.
        intercept : float or array-like of the shape of `intercept_`, default=0

        Returns
        -------
        float

        Raises
        ------
        ValueError
            Where nothing is proved: settings other than 'theorem-1' and 'guaranteed', visits that
            weigh more than 1, streams whose columns' units are learned.

        References
        ----------
        Orabona 2014, Theorem 1; `tunefree.bounds.pistol_regret_seen`.
        """
        check_is_fitted(self, "coef_")
        fitted = np.atleast_2d(self.coef_)
        if isinstance(self.regret_, str):
            raise ValueError(self.regret_.format(self.setting))
        regret, view, m, s = self.regret_
        coef = np.asarray(coef, dtype=float)
        if coef.size != fitted.size:
            raise ValueError(f"coef has {coef.size} entries, and coef_ has {fitted.size}.")
        coef = coef.reshape(fitted.shape)
        intercept = np.broadcast_to(np.asarray(intercept, dtype=float), (len(fitted),))
        return run_regret(regret, norms_in_view(view, coef / s[:, None], (intercept - m) / s))


def is_dense(X):
    """Whether a regression learns rows as dense, whatever their format is."""
    small = X.shape[1] <= MOST_WHITENED and X.shape[0] * X.shape[1] <= _MOST_CELLS
    return small or base.share_stored(X) >= 0.25


def passes(max_iter, n_visits, entries, n_outputs=1, visits=3.2e4):
    """How many passes: enough visits of rows for small data, 3 (several classes: 4) to 12.

    More passes gained little on any data set.
    """
    if max_iter != "auto":
        return int(max_iter)
    fewest = 3 if n_outputs == 1 else 4
    return int(np.clip(np.ceil(min(visits / n_visits, 1e7 / max(entries, 1))), fewest, 12))
