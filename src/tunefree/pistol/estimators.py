"""Linear PiSTOL as scikit-learn estimators: no step size, no penalties, no cross-validation.

`fit` checks the rows, poses the problem, makes the passes of a `Portfolio`, and publishes the line
that is read out. `partial_fit` gives the rows of a stream to the same portfolio.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone, is_regressor
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.from_source import FitsSource
from tunefree.base.locks import all_or_nothing
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.sizes import HUGE
from tunefree.base.targets import TargetScale
from tunefree.base.uncertainty_mixins import (
    CoefficientInferenceMixin,
    PredictsIntervals,
    PredictsSets,
    RiskIntervalMixin,
)
from tunefree.core.parameters import seed_of
from tunefree.core.process import one_blas_thread, product
from tunefree.core.protocols import (
    Auto,
    Average,
    AverageName,
    AverageWithin,
    Loss,
    LossOfClasses,
    LossOfNumbers,
    MatrixLike,
    Seed,
    TargetLike,
)
from tunefree.core.warn import none_of
from tunefree.engine.run import run
from tunefree.engine.sources import Rows
from tunefree.held_out.progressive_risk import recent_rows
from tunefree.held_out.shrinkage import shares_as_scores, shrinkage_factor
from tunefree.parts.averaging import PolynomialDecay, scheme_of
from tunefree.parts.families import Binomial, Gaussian
from tunefree.parts.links import LINKS
from tunefree.parts.losses import (
    LOSSES,
    Logistic,
    Multinomial,
    SmoothedHinge,
    check_bounded,
    make_loss,
    within,
)
from tunefree.pistol.bounds import run_regret
from tunefree.pistol.linear import SETTINGS
from tunefree.pistol.portfolio import (
    Portfolio,
    PortfolioState,
    ViewMember,
    dense_members,
    regression_members,
    sparse_members,
    stream_members,
    with_average,
)
from tunefree.pistol.state_checks import check_pistol_learner
from tunefree.pistol.stream import Stream
from tunefree.pistol.views import ViewSet
from tunefree.rows.designs import n_entries
from tunefree.rows.matrices import as_columns, as_dense, canonical, plain_rows
from tunefree.rows.moments import moments
from tunefree.rows.order import Visits, visits_of
from tunefree.rows.outliers import DELTA, EXTREME, clip_outliers, column_caps
from tunefree.uncertainty import risk
from tunefree.uncertainty.inference import Law

# Wider rows are not whitened: the eigenvectors would take longer than learning.
MOST_WHITENED, MOST_WHITENED_STREAM = 1000, 256
# Sparse data up to this many cells are learned as dense: centring and whitening help.
_MOST_CELLS = 5e7
# Settings that make a single pass unless `max_iter` is set: their theorems are for one.
ONE_PASS = ("paper", "paper-per-coordinate", "theorem-1", "guaranteed")
# Rows that give the size of decisions, and rows of a stream for calibration.
_SIZE_ROWS, _CALIBRATION_ROWS = 8192, 1024
# A chunk of a stream up to this many rows is short (see `_quickly`); this many of these may wait.
_SHORT, _MOST_WAITING = 8, 64
# Visits of rows in a regression, within 3 to 12 passes. With more, rows whose far entries are
# clipped would pull the predictor away from the line of the others.
_VISITS = 4000
# With fewer rows than this, and fewer rows per column, a regression is compared with the mean.
_COMPARED_ROWS, _COMPARED_PER_COLUMN, _FOLDS = 2000, 4, 5
NO_RULE = (
    "Nothing is proved about the rules of setting={!r}: 'theorem-1' and 'guaranteed' have a bound."
)
MOVING = (
    "Nothing is proved where the columns' units are learned from a stream: a linear competitor is "
    "not a fixed vector there. Use fit, or for a classifier fit_intercept=False."
)


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


class _LinearPiSTOL(base.TakesSparse, FitsSource, CallbackSupport, BaseEstimator):
    """A linear estimator whose learner is a `Portfolio`: on rows in memory, or on a stream.

    A subclass has the parameters and the methods that are declared here.
    """

    setting: str
    average: Any
    fit_intercept: bool
    shuffle: bool
    warm_start: bool
    random_state: Seed

    # The loss of the parameter `loss`; None for the members' own.
    _loss: Callable
    # Whether outliers among the entries are filtered.
    _filters_outliers: Callable
    # Rows of positive weight as a `PiSTOLProblem`.
    _problem: Callable
    # The problem as it is learned, and a `PiSTOLRun` before the first row.
    _begin: Callable
    # The members for a stream, and the `TargetScale` of numbers; None for classes.
    _stream_members: Callable
    # Targets and weights of a chunk, and the targets of each label for `_quickly`.
    _chunk: Callable
    # The targets of labels that need no further check; None if one does.
    _quick_targets: Callable
    # The `Line` that is read out; `problem` are the rows of a fit, None on a stream.
    _read: Callable
    # Set the attributes that make up the predictor, and its held-out predictions.
    _publish_line: Callable

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
        views, centred = self._views(members), self.fit_intercept and caps is not None
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

    @property
    def _stream(self) -> Any:
        """The stream, after it has learned the rows that wait (see `_quickly`)."""
        stream, waiting = vars(self).get("_stream"), vars(self).get("_waiting")
        if stream is not None and waiting:
            X, targets = (np.vstack(parts) for parts in zip(*waiting, strict=True))
            waiting.clear()  # in place, so that restoring attributes does not bring them back
            with one_blas_thread():
                stream = vars(self)["_stream"] = stream.learn(X, targets, np.ones(len(X)))
        return stream

    @_stream.setter
    def _stream(self, stream):
        vars(self)["_stream"] = stream
        for name in ("_waiting", "_trusted"):
            vars(self).pop(name, None)

    def _quickly(self, X, y):
        """Whether a short chunk of the usual form was accepted; its rows then wait to be learned.

        Full checks and a call of the learner take milliseconds, a row takes microseconds. So a
        chunk like the last one is checked at a glance, and rows are learned together: chunks of any
        size give the same bits.
        """
        attributes = vars(self)
        if not attributes.get("_trusted") or attributes["_stream"].sparse:
            return False
        parameters, codes = attributes["_trusted"]
        if any(attributes[name] is not value for name, value in parameters):
            return False
        X = plain_rows(self, X, missing=True)
        labels = y.tolist() if isinstance(y, np.ndarray) else y
        if X is None or len(X) > _SHORT or X.dtype != self._dtype:
            return False
        is_list = isinstance(labels, list) and len(labels) == len(X)
        if not (is_list and np.abs(X).max() <= HUGE):  # nor of NaN
            return False
        targets = self._quick_targets(labels, codes)
        if targets is None:
            return False
        waiting = attributes.setdefault("_waiting", [])
        waiting.append((X.copy(), targets))
        if len(waiting) == _MOST_WAITING:
            self._stream  # noqa: B018  (learns the rows that wait)
        self._forget_read()
        return True

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


def linear_regret(run, moving=False):
    """The regret of a portfolio's only member, with its view and the targets' location and scale.

    The reason in words, if there is none. `moving`: views were updated as rows came.
    """
    portfolio, state, scale = run
    (member, *others), (member_state, *_) = portfolio.members, state.members
    n_outputs = state.progress.targets.shape[1] - portfolio.unseen
    regret = None if others else member.learner.regret(member_state, n_outputs)
    if regret is None:
        return NO_RULE
    view = state.views[member.view]
    has_units = scale is not None or view.scale is not None or view.bias != 0.0
    if moving and has_units:
        return MOVING
    location, unit = (np.zeros(1), np.ones(1)) if scale is None else (scale.m, scale.s)
    return regret, view._replace(low=None, high=None, rotation=None), location, unit


def norms_in_view(view, slopes, level):
    """The norm of each linear function of columns, as one of the columns of a view."""
    if view.shift is not None:
        level = level + slopes @ view.shift
    if view.scale is not None:
        if slopes[:, view.scale == 0.0].any():
            raise ValueError("The competitor uses constant columns: set their coefficients to 0.")
        slopes = slopes / np.where(view.scale == 0.0, 1.0, view.scale)
    if view.bias != 0.0:
        level = level / view.bias
    elif level.any():
        raise ValueError("This model has no intercept: give a competitor with intercept=0.")
    return np.hypot(np.linalg.norm(slopes, axis=1), level)


def _has_probabilities(estimator):
    if estimator.setting == "auto" or getattr(estimator._loss(), "probabilities", False):
        return True
    raise AttributeError(
        f"predict_proba needs setting='auto' or a logistic or multinomial loss; this is "
        f"setting={estimator.setting!r} with loss={estimator.loss!r}."
    )


def line_of_one(portfolio, state):
    """The `Line` of a portfolio of one member."""
    ((i, last),) = portfolio.candidates(state)
    coef, intercept = portfolio.weights(state, i, last)
    recent, targets, weights = recent_rows(state.progress)
    scored = targets.shape[1] - portfolio.unseen
    held_out = recent[:, 2 * i + last, :scored], targets[:, :scored], weights
    return Line(coef[:, :scored], intercept[:scored], held_out)


def calibrated(state, coef, intercept, predicted):
    """The `Line` of a blend, times the temperature that makes its decisions log-odds."""
    _, targets, weights = recent_rows(state.progress, most=len(predicted))
    targets = targets[:, : predicted.shape[1]]
    a = base.temperature(predicted, targets, weights)
    return Line(a * coef, a * intercept, (a * predicted, targets, weights))


def shrunk_to_shares(line, codes, totals):
    """A `Line` shrunk to the log-odds of the classes' shares, by its held-out predictions."""
    scores, targets, weights = line.held_out
    null = shares_as_scores(codes, totals, scores.shape[1])
    factor = base.class_shrinkage(scores, null, base.codes_of(targets), weights)
    if factor == 1.0:
        return line
    intercept, scores = (null + factor * (each - null) for each in (line.intercept, scores))
    return Line(factor * line.coef, intercept, (scores, targets, weights))


class PiSTOLClassifier(
    RiskIntervalMixin,
    CoefficientInferenceMixin,
    PredictsSets,
    base.LabelsByDecisions,
    _LinearPiSTOL,
):
    r"""Linear classifier that needs no tuning: parameter-free stochastic learning.

    The predictor of each class is f(x) = <w, x> + intercept, trained by PiSTOL: with the sum g of
    the negative gradients, :math:`w = (b/D) \exp(\|g\|^2 / (2 D))\, g`, where D grows with the
    gradients, so that neither a step size nor a regularizer is chosen. The default sweeps a small
    portfolio of rules and column views over the data together, scores each by progressive
    validation (every row is predicted before it is learned), and continues with the best two.
    Dense columns are clipped far outside their bulk while learning; the predictor stays linear.

    Parameters
    ----------
    setting : str, default='auto'
        'auto' (the portfolio) or one rule: 'paper' and 'paper-per-coordinate' (the constants of the
        paper's experiments), 'theorem-1' (those of its Theorem 1), 'guaranteed' (a = 3 L and
        b sqrt(alpha): our bound), 'global' (the same with a = 1/4), 'per-coordinate' (our
        constants), 'per-coordinate-constant', 'dowg'. `regret_bound` has the bound of 'theorem-1'
        and 'guaranteed'; for the others nothing is proved.
    loss : str or part of `tunefree.parts.losses`, default='auto'
        'smoothed_hinge', 'hinge', 'squared_hinge', 'log_loss', 'multinomial', or a part whose slope
        has a bound; 'auto' is the members' own in the portfolio, else the smoothed hinge.
    average : str or part of `tunefree.parts.averaging`, default='auto'
        Read-out: the average of the iterates by 'uniform', 'polynomial', 'geometric' or other
        weights, over 'tail' (the second half of the passes; all of a single pass), or the 'last'
        iterate. 'auto' is 'tail'. The end of a stream is not known: there 'tail', and 'auto' in the
        portfolio, are 'polynomial', by which later iterates weigh more.
    max_iter : int or 'auto', default='auto'
        Passes over the data. 'auto': 3 to 12, fewer for larger data; 1 for the paper's settings.
    horizon : int or None, default=None
        How many rows a stream will have. The settings 'paper' and 'paper-per-coordinate' need it
        for their b; None counts the rows in `fit`, and refuses streams for these settings.
    fit_intercept : bool, default=True
        Learn an intercept, as one more column of the size of the others.
    shuffle : bool, default=True
        Learn in the order of a hash of the rows' content, with equal rows merged: the result does
        not depend on the order of the rows, and a weight of 2 equals a row given twice. False
        keeps the given order and loses both.
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; 'balanced' in a stream uses the counts up to each row.
    warm_start : bool, default=False
        Continue from the learner's state in the next `fit` or `partial_fit`.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        The weight of the rows of each class.
    n_iter_ : int
        Passes made.
    leaderboard_ : list of dict
        Every member's name and progressive error (a share of rows), the chosen ones first.
    trace_ : dict
        'rows' seen, the 'progressive_error' of every member up to there, and each member's
        effective 'scale' after every pass; for a stream also 'outlier_rows', rows with outliers.
    regret_ : tuple or str
        What `regret_bound` needs, or why nothing is proved.
    held_out_ : part
        Held-out predictions: the basis of `risk_interval_`, intervals and sets
        (docs/guide/sure.md).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero.

    References
    ----------
    Orabona 2014, "Simultaneous model selection and optimization through parameter-free stochastic
    learning", Algorithm 3 and appendix A.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import PiSTOLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PiSTOLClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    _ON_DEMAND = (
        "coef_", "intercept_", "n_iter_", "leaderboard_", "trace_", "regret_", "held_out_",
    )  # fmt: skip

    def __init__(
        self,
        setting: str = "auto",
        *,
        loss: LossOfClasses | Auto | Loss = "auto",
        average: AverageName | Auto | Average | AverageWithin = "auto",
        max_iter: int | Auto = "auto",
        horizon: int | None = None,
        fit_intercept: bool = True,
        shuffle: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.setting = setting
        self.loss = loss
        self.average = average
        self.max_iter = max_iter
        self.horizon = horizon
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _loss(self):
        if isinstance(self.loss, str) and self.loss == "auto":
            return None
        return check_bounded(make_loss(self.loss, "classification", SmoothedHinge()))

    def _filters_outliers(self):
        return self.setting == "auto"

    def _problem(self, X, y, weights, warm):
        classes, codes = base.encode_labels(y, fewest=1 if warm else 2)
        if warm:
            if not np.isin(classes, self.classes_).all():
                raise ValueError(f"y has classes {classes} beyond those of the first fit.")
            classes, codes = self.classes_, np.searchsorted(self.classes_, y)
        self.classes_, self.class_count_ = classes, np.bincount(codes, weights, len(classes))
        weights = base.balanced(self.class_weight, classes, codes, weights)
        visits = self._visits(X, codes[:, None].astype(float), weights)
        return PiSTOLProblem(X, base.signs(codes, len(classes)), *visits)

    def _begin(self, problem):
        """Choose the portfolio by the share of zeros, not by the format of the rows."""
        X, targets, visits, rows, _ = problem
        n, d, n_visits, n_outputs = len(rows), X.shape[1], len(visits.rows), targets.shape[1]
        density, caps, loss = base.share_stored(X[rows]), None, self._loss()
        is_sparse = density < 0.25
        X = canonical(sparse.csr_array(X)) if is_sparse else X
        if self.setting != "auto":
            members = self._single("raw", loss or SmoothedHinge(), self.horizon or n_visits)
        elif is_sparse:
            members, X = sparse_members(n_outputs, loss), clip_outliers(X, rows)
        else:
            whiten = d <= MOST_WHITENED and d * d <= 100 * n
            members, X = dense_members(n_outputs, loss, whiten), as_dense(X)
            caps = column_caps(X, rows)
        problem = problem._replace(X=X)
        single = self.setting in ONE_PASS and self.max_iter == "auto"
        entries = density * n * d * n_outputs
        n_passes = 1 if single else passes(self.max_iter, n_visits, entries, n_outputs)
        return problem, self._start(problem, members, n_passes, 0.5, caps)

    def _stream_members(self, sparse_data, d):
        loss = self._loss()
        loss = getattr(loss, "uncoupled", loss)
        if self.setting != "auto":
            return self._single("raw", loss or SmoothedHinge(), self.horizon), None
        return stream_members(sparse_data, loss, d <= MOST_WHITENED_STREAM), None

    def partial_fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in the order given.

        The chunks' sizes make no difference, to the last bit. An entry ten times beyond all before
        it in its column is clipped to the farthest of these, and one 10^6 times beyond counts as
        missing, unless more follow (`tunefree.rows.outliers`).

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like, optional
            Classes to expect. More may appear at any time; the result is the same as if they had
            been given here.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        if classes is None and sample_weight is None and self._quickly(X, y):
            return self
        return self._learn_chunk(X, y, sample_weight, classes)

    def _quick_targets(self, labels, codes):
        try:
            rows = [codes[label] for label in labels]
        except (KeyError, TypeError):
            return None
        counts = self.class_count_.copy()
        for number, _ in rows:
            counts[number] += 1.0
        self.class_count_ = counts
        return np.array([row for _, row in rows])

    def _chunk(self, stream, y, weights, classes):
        known: Any = getattr(self, "classes_", None)
        all_classes, codes, weights, counts = base.stream_labels(self, y, weights, classes, known)
        if known is not None and len(all_classes) > len(known):
            if not stream.portfolio.unseen:
                raise ValueError(
                    "y has classes that fit did not see: start with partial_fit if new classes may "
                    "appear."
                )
            stream.outputs(*base.new_columns(known, all_classes))
        self.classes_, self.class_count_ = all_classes, counts
        table = base.signs(np.arange(len(all_classes)), len(all_classes))
        if stream.portfolio.unseen:
            table = np.hstack([table, np.full((len(table), 1), -1.0)])
        quick = {label: (k, table[k]) for k, label in enumerate(all_classes.tolist())}
        return table[codes], weights, quick if self.class_weight is None else {}

    def _read(self, run, problem=None, candidates=None):
        """One member; or the blend of the portfolio, as log-odds."""
        portfolio, state, _ = run
        if self.setting != "auto":
            return line_of_one(portfolio, state)
        X, most = None, _CALIBRATION_ROWS
        if problem is not None:
            X, most = problem.X[problem.rows[:_SIZE_ROWS]], _SIZE_ROWS
        line = calibrated(state, *portfolio.blend(state, X, candidates, most))
        if problem is None or not self.fit_intercept:
            return line
        return shrunk_to_shares(line, base.codes_of(problem.targets[problem.rows]), problem.totals)

    def _estimand(self, y):
        if self._loss() not in (None, Logistic(), Multinomial()):
            raise ValueError(f"No interval is valid for loss={self.loss!r}: it has corners.")
        if len(self.classes_) > 2:
            raise ValueError("Intervals need two classes: give one class against the rest.")
        return Law(Binomial(), LINKS["logit"]), (y == self.classes_[1]).astype(float)

    def _publish_line(self, run, line):
        self.coef_ = np.ascontiguousarray(line.coef.T, dtype=self._dtype)
        self.intercept_ = line.intercept.astype(self._dtype)
        progress = run.state.progress
        rows, counted = int(progress.clock[0]), {}
        if rows and progress.weight.sum() == rows:
            wrong = progress.risk.sum(axis=0)
            counted = {"mistakes": round(wrong.min()), "rows": rows, "rivals": len(wrong)}
        scores, targets, weights = line.held_out
        p = base.probabilities(scores, self._is_joint())
        self.held_out_ = base.held_out_probabilities(p, base.codes_of(targets), weights, **counted)

    def _is_joint(self):
        """Whether probabilities are a softmax of all scores."""
        return self.setting == "auto" or hasattr(self._loss(), "slopes")

    @property
    def online_risk_interval_(self) -> tuple[float, float] | None:
        """Interval (95 %, at all times together) for the mean risk of predictions on the way.

        They are the best member's predictions in the first pass, each before its row was learned.
        It is a theorem for any stream, but not about the final predictor. None where rows have
        weights other than 1.
        """
        held_out = getattr(self, "held_out_", None)
        if held_out is None or not held_out.rows:
            return None
        return risk.online(held_out.mistakes, held_out.rows, 0.05 / held_out.rivals)

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class against the rest.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self, "coef_")
        X = base.check_rows(self, X)
        scores = product(X, self.coef_.T) + self.intercept_
        return base.squeezed(scores)

    @available_if(_has_probabilities)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes).

        With ``setting='auto'`` they are calibrated on the progressive predictions. For a few
        hundred rows of many classes these are worse than the final ones, and the probabilities too
        even: `TuneFreeClassifier` calibrates on held-out rows.
        """
        return base.probabilities(self.decision_function(X), self._is_joint())


class PiSTOLRegressor(
    RiskIntervalMixin,
    CoefficientInferenceMixin,
    PredictsIntervals,
    RegressorMixin,
    MultiOutputMixin,
    _LinearPiSTOL,
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

    _ON_DEMAND = (*PiSTOLClassifier._ON_DEMAND, "input_limits_", "prediction_limits_")

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
        self._flat, y = np.ndim(y) == 1, as_columns(y)
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
        predictions, fold = np.tile(mean, (n, 1)), np.arange(n) % _FOLDS
        for f in range(_FOLDS if n >= _FOLDS else 0):
            others, held = rows[fold != f], rows[fold == f]
            model = clone(self)
            model._fit(X[others], y[others], totals[fold != f])
            predictions[fold == f] = model.predict(X[held]).reshape(len(held), -1)
        factor = shrinkage_factor(predictions - mean, y[rows] - mean, totals)
        if (factor < 1.0).any():
            dtype, coef = self.coef_.dtype, np.atleast_2d(self.coef_) * factor[:, None]
            intercept = mean + factor * (np.atleast_1d(self.intercept_) - mean)
            coef, intercept = coef.astype(dtype), intercept.astype(dtype)
            self.coef_, self.intercept_ = base.of_targets(self._flat, coef, intercept)
        self.held_out_ = base.held_out_predictions(
            mean + factor * (predictions - mean), y[rows], totals, self.prediction_limits_
        )

    def _begin(self, problem):
        X, targets, visits, rows, _ = problem
        n_visits, sparse_data, d = len(visits.rows), sparse.issparse(X), X.shape[1]
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
        self._flat, targets = np.ndim(y) == 1, as_columns(y)
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
