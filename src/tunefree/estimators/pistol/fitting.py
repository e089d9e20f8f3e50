"""`fit` and `partial_fit` of estimators whose learner is a portfolio: in memory, or on streams."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from tunefree._array import seed_of
from tunefree.averaging import Polynomial, scheme_of
from tunefree.choose.portfolio import Portfolio
from tunefree.engine.order import Visits, given_visits, hashed_visits
from tunefree.engine.run import run
from tunefree.engine.sources import Rows
from tunefree.engine.stream import Stream
from tunefree.estimators import base
from tunefree.estimators.callbacks import TellsCallbacks, told
from tunefree.estimators.from_source import FitsSource
from tunefree.estimators.pistol.settings import SETTINGS, check_horizon, view_set
from tunefree.estimators.regret import MOVING, RegretBound, linear_regret
from tunefree.robust import Guard


class Problem(NamedTuple):
    """Rows in memory, their targets, and the order in which to learn them.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, d)
    targets : ndarray of shape (n, n_outputs)
    visits : Visits
    rows, totals : ndarray of shape (m,)
        Distinct rows, and the weight of each.
    """

    X: object
    targets: np.ndarray
    visits: Visits
    rows: np.ndarray
    totals: np.ndarray


class Run(NamedTuple):
    """What a fit goes on from.

    Attributes
    ----------
    portfolio : Portfolio
    state : PortfolioState
    scale : TargetScale or None
        Of real targets.
    """

    portfolio: Portfolio
    state: tuple
    scale: object = None


def visits_of(X, labels, weights, shuffle, seed, affine=False):
    """Visits in the order of the rows' content, or as given; distinct rows and their weights."""
    if shuffle:
        visits = hashed_visits(X, labels, weights, seed, affine=affine)
    else:
        visits = given_visits(weights)
    return visits, *visits.unique()


def run_passes(portfolio, state, source, read, validate=None, watch=None):
    """Make the passes that are left: the state, the passes made, and what ``read(state)`` gives.

    ``validate(coef, intercept)``, a risk on validation rows, chooses the members and the pass after
    which to read. `watch` has what `run` calls around each pass besides.
    """
    watch = watch or {}
    if validate is None:
        state = run(portfolio, state, source, **watch).state
        return state, state.epoch, read(state)
    best, told_pass = [], watch.get("on_pass", lambda state: False)

    def note(state):
        line = read(state)
        best.append((validate(*line), state.epoch, line))

    def on_pass(state):
        note(state)
        return told_pass(state)

    watch = {**watch, "on_pass": on_pass}
    state = run(portfolio._replace(rank=validate), state, source, **watch).state
    if not best:
        note(state)
    _, n_passes, line = min(best, key=lambda b: b[:2])
    return state, n_passes, line


def resume(run, n_columns, guarded):
    """A stream that goes on where `fit` ended, with the columns' statistics of `fit`.

    Raises
    ------
    ValueError
        If there is no learner to go on from.
    """
    if run is None:
        raise ValueError(
            "This model holds a predictor but no learner to go on from: save it with "
            "save_model(model, path, learner=True), or fit it again."
        )
    portfolio, state, scale = run
    dense = any(view.dense for view in state.views.values())
    stream = Stream(portfolio, None, sparse=not dense, renew=False, scale=scale, guarded=guarded)
    if guarded:
        shifts = [view.shift for view in state.views.values() if view.shift is not None]
        stream.guards = (Guard.of(shifts[0] if shifts else np.zeros(n_columns)),)
        stream.guards += () if scale is None else (Guard.of(scale.m),)
    stream.state, stream.seen = state._replace(epoch=0), int(state.progress.clock[0])
    return stream


def new_columns(known, every):
    """How a stream's outputs are rearranged when classes appear that it had not seen.

    A new class starts as the output that has seen negatives only; two classes shared one output.
    """
    old = np.searchsorted(known, every)
    old = np.where(np.isin(every, known), old, -1)
    if len(known) == 2:
        index = [1 if k < 0 else 0 for k in old]
        sign = [1.0 if k < 0 else (-1.0, 1.0)[k] for k in old]
        return [*index, 1], [*sign, 1.0]
    return [*(len(known) if k < 0 else k for k in old), len(known)], np.ones(len(every) + 1)


class LearnsByPortfolio(RegretBound, FitsSource, TellsCallbacks, BaseEstimator):
    """A linear estimator whose learner is a `Portfolio`: on rows in memory, or on a stream.

    A subclass says how it differs by the methods that raise NotImplementedError here.
    """

    def _loss(self):
        """The part that `loss` names; None for the members' own."""
        raise NotImplementedError

    def _rows(self, X, y, sample_weight, reset):
        """Rows, targets and weights, checked."""
        raise NotImplementedError

    def _problem(self, X, y, weights, warm):
        """Rows of positive weight as a `Problem`."""
        raise NotImplementedError

    def _begin(self, problem):
        """The problem as it is learned, and a `Run` that has learned nothing."""
        raise NotImplementedError

    def _open_stream(self, X):
        """A stream that begins with these rows."""
        raise NotImplementedError

    def _validation(self, X_val, y_val, scale):
        """(coef, intercept) -> risk on validation rows."""
        raise NotImplementedError

    def _read(self, run, problem=None, candidates=None):
        """Coefficients (d, n_outputs) and intercepts of what has been learned."""
        raise NotImplementedError

    def _publish_line(self, line, scale):
        """Set the attributes that make up the predictor."""
        raise NotImplementedError

    @property
    def _guarded(self):
        """Whether entries far beyond all before them are missing."""
        raise NotImplementedError

    def _check(self):
        """Refuse parameter values that mean nothing, naming the parameter."""
        if self.setting != "auto" and self.setting not in SETTINGS:
            raise ValueError(f"setting={self.setting!r} is none of auto, {', '.join(SETTINGS)}.")
        self._loss()
        if self.average != "auto":
            scheme_of(self.average, also=("auto",))
        check_horizon(self.horizon)
        if self.max_iter != "auto" and (
            not isinstance(self.max_iter, int | np.integer) or self.max_iter < 1
        ):
            raise ValueError(
                f"max_iter={self.max_iter!r} is neither 'auto' nor a positive integer."
            )

    @told
    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or (n_samples, n_targets) for a regressor
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Validation rows: members and the number of passes are then chosen on them.

        Returns
        -------
        self
        """
        self._check()
        warm = vars(self).get("_run") if self.warm_start else None
        X, y, weights = self._rows(X, y, sample_weight, reset=warm is None)
        kept = weights > 0
        if not kept.all():
            X, y, weights = X[kept], y[kept], weights[kept]
        problem = self._problem(X, y, weights, warm is not None)
        if warm is None:
            problem, begun = self._begin(problem)
        else:
            begun = warm._replace(state=warm.state._replace(epoch=1))
            problem = problem._replace(X=base.stored(problem.X, begun.state.views))
        portfolio, state, scale = begun
        targets = problem.targets if scale is None else scale.standardise(problem.targets)
        source = Rows(problem.X, targets, problem.visits)
        validate = None if X_val is None else self._validation(X_val, y_val, scale)

        def read(state):
            return self._read(Run(portfolio, state, scale), problem)

        def publish(model, state, line=None, n_passes=None):
            line = read(state) if line is None else line
            if scale is not None:
                scale.weigh_all(problem, *line)
            model._publish(Run(portfolio, state, scale), line, n_passes or state.epoch)

        watch = self._told.passes(portfolio.n_passes, publish)
        if warm is None and scale is not None and scale.outliers and portfolio.n_passes > 1:
            # The first pass tells the residuals' size; the loss's width follows it from then on.
            first = portfolio._replace(rank=validate)
            state = run(first, state, source, max_passes=1, **watch).state
            portfolio = scale.after(portfolio, state)
            watch = {"max_passes": 0} if self._told.stopped else watch
        state, n_passes, line = run_passes(portfolio, state, source, read, validate, watch)
        publish(self, state, line, n_passes)
        self._run, self._stream = Run(portfolio, state, scale), None
        return self

    def _going_on(self):
        """The stream, or one that goes on from `fit`; None if nothing has been learned."""
        stream = vars(self).get("_stream")
        if stream is None and "coef_" in vars(self):
            stream = resume(vars(self).get("_run"), self.n_features_in_, self._guarded)
        return stream

    def _averaged(self, members, tail, stream=False):
        """Members with the scheme that `average` names, and the share of passes to average."""
        if self.average == "auto":
            return members, tail
        scheme = scheme_of(self.average)
        fraction = getattr(scheme, "fraction", None)
        if fraction is None:
            tail = 1.0
        elif stream and fraction > 0.0:  # where a stream ends is not known
            scheme, tail = Polynomial(), 1.0
        else:
            return members, fraction
        return tuple(m._replace(learner=m.learner._replace(average=scheme)) for m in members), tail

    def _stream_of(self, members, X, scale=None, unseen=False):
        members, tail = self._averaged(members, 1.0, stream=True)
        return Stream(
            Portfolio(members, scale is None, 1, tail=tail, unseen=unseen),
            view_set(members, self.fit_intercept),
            sparse=sparse.issparse(X),
            renew=scale is None,
            scale=scale,
            guarded=self._guarded,
        )

    def _visits(self, X, labels, weights, affine=False):
        return visits_of(X, labels, weights, self.shuffle, seed_of(self.random_state), affine)

    def _read_stream(self):
        ready = self._stream.opened()
        ready.tell_means()
        learned = Run(ready.portfolio, ready.state, ready.scale)
        candidates = ready.best(last=None if self.average == "auto" else ready.portfolio.last)
        self._publish(learned, self._read(learned, candidates=candidates), 1, moving=ready.renew)
        self.trace_["struck"] = ready.struck
        if ready.scale is not None and not isinstance(self.regret_, str):
            self.regret_ = MOVING

    def _publish(self, run, line, n_passes, moving=False):
        portfolio, state, scale = run
        self._publish_line(line, scale)
        self.n_iter_ = n_passes
        self.leaderboard_ = portfolio.leaderboard(state)
        self.trace_ = portfolio.trace(state)
        units = None if scale is None else (scale.m.copy(), scale.s.copy())
        self.regret_ = linear_regret(portfolio, state, moving, units)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
