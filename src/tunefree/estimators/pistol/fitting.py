"""What both PiSTOL estimators share: settings by name; `fit` in memory, `partial_fit` on streams.

The portfolios are what ``setting="auto"`` runs. Their members and the number of passes were chosen
by looking at test errors over about thirty public and synthetic sets together, never for one set.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator

from tunefree._array import seed_of
from tunefree.averaging import Polynomial, scheme_of
from tunefree.choose.portfolio import Member, Portfolio
from tunefree.columns import ViewSet
from tunefree.engine.order import Visits, given_visits, hashed_visits
from tunefree.engine.run import run
from tunefree.engine.sources import Rows
from tunefree.engine.stream import Stream
from tunefree.estimators import base
from tunefree.estimators.callbacks import TellsCallbacks, told
from tunefree.estimators.from_source import FitsSource
from tunefree.estimators.regret import MOVING, RegretBound, linear_regret
from tunefree.learners.pistol.diagonal import Diagonal
from tunefree.learners.pistol.isotropic import Isotropic
from tunefree.learners.pistol.rules import DoWG, PiSTOL
from tunefree.losses import Logistic, Multinomial, SmoothedHinge
from tunefree.protocols import MatrixLike, TargetLike
from tunefree.robust import Guard

# A wider matrix is not whitened: the eigenvectors would cost more than the learning.
MOST_WHITENED, MOST_WHITENED_STREAM = 1000, 256
# Sparse data up to this many cells are learned as dense: centring and whitening are worth it.
_MOST_CELLS = 5e7
# In a portfolio, slopes below a thousandth of their bound are not worth an update.
_NEGLIGIBLE = 1e-3


def _paper_scale(loss, n_rows):
    """The b of the paper's experiments, sqrt(2 a L T)."""
    if n_rows is None:
        raise ValueError(
            "The paper's settings scale b by the number of rows, which a stream does not tell: "
            "give horizon=, how many there will be, or another setting ('guaranteed', 'global')."
        )
    return np.sqrt(2 * 0.25 * loss.bound() * n_rows)


def _coordinates(loss, n_rows=0):
    return Diagonal(PiSTOL(a=1.0, b=0.1, squares=True), loss)


def _constant_coordinates(loss, n_rows=0):
    return Diagonal(PiSTOL(a=1.0, b=0.1, root=False), loss)


def _dowg(loss, n_rows=0):
    return Isotropic(DoWG(), loss)


# Functions of a loss and the number of rows.
SETTINGS = {
    "paper": lambda loss, n: Isotropic(PiSTOL(b=_paper_scale(loss, n), root=False), loss),
    "paper-per-coordinate": lambda loss, n: Diagonal(
        PiSTOL(b=_paper_scale(loss, n), root=False), loss
    ),
    "theorem-1": lambda loss, n: Isotropic(PiSTOL(a=2.25 * loss.bound(), root=False), loss),
    "guaranteed": lambda loss, n: Isotropic(PiSTOL(a=3.0 * loss.bound()), loss),
    "global": lambda loss, n: Isotropic(PiSTOL(), loss),
    "per-coordinate": _coordinates,
    "per-coordinate-constant": _constant_coordinates,
    "dowg": _dowg,
}
# Settings that make a single pass unless `max_iter` says otherwise: their theorems are about one.
ONE_PASS = ("paper", "paper-per-coordinate", "theorem-1", "guaranteed")


def _members(*entries):
    return tuple(
        Member(view, learner._replace(negligible=_NEGLIGIBLE), f"{view} {name}")
        for view, name, learner in entries
    )


def sparse_members(n_outputs, loss=None):
    """The portfolio for data of which most entries are zero: zeros cost nothing."""
    hinge, logistic = loss or SmoothedHinge(), loss or Multinomial()
    members = [
        ("raw", "per-coordinate", _coordinates(hinge)),
        ("raw", "per-coordinate logistic", _coordinates(logistic)),
        ("raw", "per-coordinate-constant logistic", _constant_coordinates(logistic)),
        ("scaled", "dowg", _dowg(hinge)),
    ]
    if n_outputs > 1 and loss is None:
        members.insert(2, ("raw", "per-coordinate one-vs-rest", _coordinates(Logistic())))
    return _members(*(members if loss is None else members[1:]))


def dense_members(n_outputs, loss=None, whiten=True):
    """The portfolio for dense data: one good learner under three views.

    Several classes are learned jointly by a softmax and, beside it, one against the rest.
    """
    views = ("standardised", "whitened", "strongly_whitened") if whiten else ("standardised",)
    learner = _coordinates(loss or Multinomial())
    members: list[tuple] = [(view, "per-coordinate", learner) for view in views]
    if n_outputs > 1 and loss is None:
        learner = _coordinates(Logistic())
        members += [(view, "per-coordinate one-vs-rest", learner) for view in views[:2]]
    if not whiten:
        members.append(("standardised", "dowg", _dowg(loss or SmoothedHinge())))
    return _members(*members)


def stream_members(sparse_data, loss=None, whiten=True):
    """The portfolio for a stream: as in memory, one against the rest, later iterates counting more.

    A stream may drift, and classes that may yet appear cannot be coupled with those that have.
    """
    loss = loss or Logistic()
    members = sparse_members(1, loss) if sparse_data else dense_members(1, loss, whiten)
    return tuple(m._replace(learner=m.learner._replace(average=Polynomial())) for m in members)


def regression_members(loss, n_columns, views):
    """The regression recipe under each view: per coordinate, later iterates count more."""
    rule = PiSTOL(a=1.0, b=min(0.1, 1.0 / n_columns), squares=True, cap=50.0)
    learner = Diagonal(rule, loss, Polynomial())
    return tuple(Member(view, learner, f"{view} per-coordinate") for view in views)


def is_dense(X):
    """Whether a regression learns rows as dense: by what they hold, not by how they are stored."""
    small = X.shape[1] <= MOST_WHITENED and X.shape[0] * X.shape[1] <= _MOST_CELLS
    return small or base.share_stored(X) >= 0.25


def view_set(members, intercept):
    """The views that members need."""
    return ViewSet(tuple(dict.fromkeys(m.view for m in members)), intercept)


def passes(max_iter, n_visits, entries, n_outputs=1, visits=3.2e4):
    """How many passes: enough visits of rows for small data, 3 (several classes: 4) to 12.

    More gained little on any set.
    """
    if max_iter != "auto":
        return int(max_iter)
    fewest = 3 if n_outputs == 1 else 4
    return int(np.clip(np.ceil(min(visits / n_visits, 1e7 / max(entries, 1))), fewest, 12))


def check_horizon(horizon):
    """Refuse a number of rows that is none."""
    whole = isinstance(horizon, int | np.integer) and not isinstance(horizon, bool)
    if horizon is not None and (not whole or horizon < 1):
        raise ValueError(f"horizon={horizon!r} is neither None nor a positive integer.")


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

    X: Any
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
    scale: Any = None


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

    _stream: Any

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

    def _visits(self, X, labels, weights, affine: Any = False):
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
