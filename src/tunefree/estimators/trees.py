"""Boosted trees, whose rounds and depths held-out rows choose."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from tunefree._array import here
from tunefree._parameters import seed_of
from tunefree._threads import workers
from tunefree.engine.order import hashed_visits
from tunefree.estimators import base
from tunefree.estimators.base import CallbackSupport, report_progress
from tunefree.estimators.from_source import FitsSums
from tunefree.estimators.state_checks import check_trees
from tunefree.estimators.uncertainty_mixins import (
    PredictsIntervals,
    PredictsSets,
    RiskIntervalMixin,
)
from tunefree.families import FAMILIES
from tunefree.learners.trees.bins import bins_of
from tunefree.learners.trees.boosting import BinnedRows, boost
from tunefree.learners.trees.losses import Deviance, LogLoss
from tunefree.protocols import MatrixLike, Seed
from tunefree.select.stacking import FEW_ROWS, folds_of

# Trees of two depths are learned, of larger ones from so many rows on.
DEPTHS, DEPTHS_OF_MANY, _MANY_ROWS = (3, 6), (4, 8), 4000
# Held-out rows choose the share of each depth among these.
_SHARES = np.linspace(0.0, 1.0, 5)
# Rows of a source that are learned.
_MOST_SAMPLED = 100_000
# The family of each loss.
_LOSSES = {
    "squared_error": "gaussian",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie": "tweedie",
}


class TreeRows(NamedTuple):
    """Distinct rows in the order of the hash of their bins."""

    bins: Any
    sample: BinnedRows
    rows: np.ndarray  # their numbers among the user's rows
    strata: np.ndarray  # class numbers, or zeros


class FittedTrees(NamedTuple):
    """Forests, the share of each, and held-out scores of shape (rows, outputs)."""

    bins: Any
    forests: tuple
    shares: np.ndarray
    held_out: np.ndarray
    held_rows: np.ndarray  # places of the held-out rows


def learn_trees(bins, sample, folds, loss, seed, n_jobs=None):
    """The `FittedTrees` of a sample: forests of every depth, weighted by their held-out loss."""
    depths = DEPTHS if len(sample.weights) < _MANY_ROWS else DEPTHS_OF_MANY
    with workers(n_jobs) as team:
        fits = team.map(lambda depth: boost(sample, folds, loss, bins, depth, seed), depths)
    held = np.concatenate([out for _, out in folds])
    order = np.argsort(held)
    held, (one, other) = held[order], (fit.scores[order] for fit in fits)
    targets, weights = sample.targets[held], sample.weights[held]
    risks = [
        weights @ loss.losses(share * one + (1.0 - share) * other, targets) for share in _SHARES
    ]
    share = _SHARES[int(np.argmin(risks))]
    forests, shares = tuple(fit.forest for fit in fits), np.array([share, 1.0 - share])
    return FittedTrees(bins, forests, shares, share * one + (1.0 - share) * other, held)


class _BoostedTrees(base.TakesArrays, FitsSums, CallbackSupport, BaseEstimator):
    """Boosted trees; subclasses define what is marked as abstract."""

    class_weight: Any = None  # a parameter of classifiers
    # Abstract: the loss, targets of shape (rows, outputs) and class numbers; scores as outputs.
    _encode: Callable
    _outputs: Callable

    def __init__(self, *, n_jobs: int | None = None, random_state: Seed = None):
        self.n_jobs = n_jobs
        self.random_state = random_state

    @report_progress
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            NaN is a missing value.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        X, y, weights = self._checked(X, y, sample_weight)
        loss, targets, strata = self._encode(y)
        table = self._table(X, targets, weights, strata)
        fold, count = folds_of(table.strata)
        n_used = count if len(table.rows) < FEW_ROWS else 1
        folds = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n_used)]
        self._publish(self._learned(table, folds, loss), table)
        return self

    def _fit_rows(self, rows, sample: Any = None, like=None):
        """Learn an even sample of the rows."""
        sample = rows.drawn(seed_of(self.random_state), _MOST_SAMPLED, is_classifier(self))
        return self.fit(sample.X, sample.y, sample_weight=sample.weights)

    def _learn(self, X, y, weights, folds):
        """Learn distinct rows; returns the scores of the held-out rows of `folds`, in order."""
        X, y, weights = self._checked(X, np.ravel(y), weights)
        loss, targets, strata = self._encode(y)
        bins = bins_of(X, weights)
        sample = BinnedRows(bins.codes(X), targets, weights)
        table = TreeRows(bins, sample, np.arange(len(y)), strata)
        fitted = self._learned(table, folds, loss)
        self._publish(fitted, table)
        return self._outputs(fitted.held_out)

    def _learned(self, table, folds, loss):
        seed = seed_of(self.random_state)
        return learn_trees(table.bins, table.sample, folds, loss, seed, self.n_jobs)

    def _checked(self, X, y, sample_weight):
        """Rows, targets and positive weights."""
        X, y = base.check_rows_and_targets(
            self, X, y, numeric=not hasattr(self, "predict_proba"), missing=True
        )
        weights = base.check_weights(sample_weight, X)
        if self.class_weight is not None:
            weights = base.balanced(self.class_weight, *base.encode_labels(y), weights)
        kept = weights > 0.0
        if not kept.all():
            X, y, weights = base.take(X, kept), y[kept], weights[kept]
        return X, y, weights

    def _table(self, X, targets, weights, strata):
        """Rows in bins; equal ones are merged."""
        bins = bins_of(X, weights)
        codes = bins.codes(X)
        seed = seed_of(self.random_state)
        visits = hashed_visits(codes.T.astype(np.float32), targets, weights, seed)
        rows, totals = visits.unique()
        sample = BinnedRows(np.ascontiguousarray(codes[:, rows]), targets[rows], totals)
        return TreeRows(bins, sample, rows, strata[rows])

    def _publish(self, fitted, table):
        """Set the fitted attributes."""
        self.bins_, self.forests_, self.shares_ = fitted[:3]
        self.n_iter_ = np.array([len(forest.columns) for forest in fitted.forests])
        effects = [forest.relevances(self.n_features_in_) for forest in fitted.forests]
        total = np.square(fitted.shares) @ effects
        self.feature_relevances_ = total / total.sum() if total.any() else total

    def _scores(self, X):
        check_is_fitted(self, "forests_")
        rows = base.check_rows(self, here(X), missing=True)
        check_trees(self.bins_, self.forests_, self.n_features_in_)
        codes = self.bins_.codes(rows)
        with workers(self.n_jobs):
            scores = [forest.scores(codes) for forest in self.forests_]
        return np.tensordot(self.shares_, scores, axes=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class BoostedTreesRegressor(RiskIntervalMixin, PredictsIntervals, RegressorMixin, _BoostedTrees):
    r"""Regression by boosted trees; there is nothing to tune.

    The scores are sums over rounds, :math:`F = F_0 + \sum_t v_t(\mathrm{leaf}_t(x))`, and the
    prediction is u(F), with the link u of the loss. Each round grows one oblivious tree, which has
    one split a level, from the pseudogradients of the loss, and adds to every leaf

    .. math:: v = 0.12\, \frac{\sum G}{\sum H + 3 \bar H} .

    Held-out rows choose the number of rounds: five folds, or with 2,000 distinct rows and more a
    fifth of the rows. The trees of the model are then learned from all rows. There are forests of
    depth 3 and of depth 6, and the held-out loss chooses the share of each.

    Parameters
    ----------
    loss : {'squared_error', 'poisson', 'gamma', 'tweedie'}, default='squared_error'
        The deviance to minimize; all but the first have a logarithmic link.
    n_jobs : int or None, default=None
        Threads, all by default; results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the hash that assigns rows to folds.

    Attributes
    ----------
    bins_ : part
        The borders of the columns (`tunefree.learners.trees.bins.Bins`).
    forests_ : tuple of parts
        The trees of every depth (`tunefree.learners.trees.boosting.Forest`).
    shares_ : ndarray of shape (2,)
        The share of each forest.
    feature_relevances_ : ndarray of shape (n_features,)
        The mean squared effects of the splits on each column, added over the trees; they sum to 1.
    n_iter_ : ndarray of shape (2,)
        The number of trees of each forest.
    held_out_ : part
        Held-out predictions, from which `risk_interval_` and intervals are computed
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For targets outside the range of the loss, an unknown loss, weights that are all zero.

    Notes
    -----
    NaN is a missing value: it goes to the side of a split where it lowers the loss more, or, if
    the column had none in training, to the side with more curvature. Infinite values are ordered
    like others. An increasing transform of a column does not change the training, nor does the
    order of the rows.

    References
    ----------
    Friedman 2001, "Greedy function approximation: a gradient boosting machine", algorithm 1;
    Prokhorenkova, Gusev, Vorobev, Dorogush and Gulin 2018, "CatBoost: unbiased boosting with
    categorical features", section 4 (oblivious trees). The choice of rounds and depths is this
    library's.

    Examples
    --------
    >>> from tunefree import BoostedTreesRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (500, 2))
    >>> y = np.where(X[:, 0] > 0, 2.0, 0.0) + X[:, 1]
    >>> model = BoostedTreesRegressor(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    def __init__(
        self,
        *,
        loss: str = "squared_error",
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        super().__init__(n_jobs=n_jobs, random_state=random_state)
        self.loss = loss

    @property
    def _family(self):
        if self.loss not in _LOSSES:
            raise ValueError(f"loss={self.loss!r} is none of {', '.join(_LOSSES)}.")
        return FAMILIES[_LOSSES[self.loss]]

    def _encode(self, y):
        targets, family = np.asarray(y, dtype=np.float64)[:, None], self._family
        family.check(targets)
        return Deviance(family, family.link), targets, np.zeros(len(targets), np.int64)

    def _publish(self, fitted, table):
        super()._publish(fitted, table)
        held, sample = fitted.held_rows, table.sample
        predictions = self._outputs(fitted.held_out)
        self.held_out_ = base.held_out_predictions(
            predictions, sample.targets[held], sample.weights[held]
        )

    def _outputs(self, scores):
        """Scores as means."""
        family = self._family
        return family.predicted(family.link, scores)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted means, shape (n_samples,)."""
        return self._outputs(self._scores(X))[:, 0]


class BoostedTreesClassifier(
    RiskIntervalMixin, PredictsSets, base.LabelsByDecisions, _BoostedTrees
):
    r"""Classification by boosted trees, with calibrated probabilities; there is nothing to tune.

    The scores are log-odds, of the second class or, with a softmax, of every class. They are
    learned as in `BoostedTreesRegressor` from the pseudogradients y - p of the log-loss. One tree
    serves all classes. For more than 4 classes its splits are found on 4 random projections of
    the pseudogradients.

    Parameters
    ----------
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes, which multiply those of rows.
    n_jobs : int or None, default=None
        Threads, all by default; results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the projections, and of the hash that assigns rows to folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    bins_, forests_, shares_, feature_relevances_, n_iter_
        See `BoostedTreesRegressor`.
    held_out_ : part
        Held-out probabilities, from which `risk_interval_` and sets are computed
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For labels of one class, weights that are all zero.

    References
    ----------
    See `BoostedTreesRegressor`; Iosipoi and Vakhrushev 2022, "SketchBoost: fast gradient boosted
    decision tree for multioutput problems", section 3.3 (random projections).

    Examples
    --------
    >>> from tunefree import BoostedTreesClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.hypot(*X.T) > 1
    >>> model = BoostedTreesClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.9)
    True
    """

    def __init__(
        self,
        *,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        super().__init__(n_jobs=n_jobs, random_state=random_state)
        self.class_weight = class_weight

    def _encode(self, y):
        self.classes_, codes = base.encode_labels(y, fewest=2)
        if len(self.classes_) == 2:
            return LogLoss(), codes[:, None].astype(np.float64), codes
        return LogLoss(), FAMILIES["multinomial"].codes(codes, len(self.classes_)), codes

    def _outputs(self, scores):
        """Scores as decisions."""
        return scores

    def _publish(self, fitted, table):
        super()._publish(fitted, table)
        held, sample = fitted.held_rows, table.sample
        p = base.probabilities(fitted.held_out, joint=True)
        self.held_out_ = base.held_out_probabilities(p, table.strata[held], sample.weights[held])

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class; shape (n,) or (n, n_classes)."""
        return base.squeezed(self._scores(X))

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes)."""
        return base.probabilities(self.decision_function(X), joint=True)
