"""Boosted trees for numbers, whose rounds and shapes held-out rows choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin

from tunefree.base import base
from tunefree.base.exposures import (
    TakesExposures,
    given_terms,
    over_exposure,
    per_exposure,
    row_term,
)
from tunefree.base.progress import report_progress
from tunefree.base.uncertainty_mixins import RiskIntervalMixin
from tunefree.core.parameters import seed_of
from tunefree.core.protocols import MatrixLike, Seed, TargetLike
from tunefree.core.warn import none_of
from tunefree.held_out.dominant_targets import without_dominant
from tunefree.parts.families import FAMILIES, Family, Gamma, Poisson, Quantile, Tweedie
from tunefree.rows.matrices import as_columns
from tunefree.rows.row_labels import matched_by_place
from tunefree.trees.estimator import LearnsByTrees
from tunefree.trees.learning import GivenRows
from tunefree.trees.losses import Deviance, QuantileLoss, SquaredError
from tunefree.trees.parameters import likely_family
from tunefree.uncertainty.intervals import Residuals

# The family of each loss.
_LOSSES = {
    "squared_error": "gaussian",
    "absolute_error": "quantile",
    "quantile": "quantile",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie": "tweedie",
}
# The families of positive means, which may be given as parts, too.
_OF_AMOUNTS = Poisson, Gamma, Tweedie


class BoostedTreesRegressor(
    RiskIntervalMixin, TakesExposures, RegressorMixin, MultiOutputMixin, LearnsByTrees
):
    r"""Regression by boosted trees; there is nothing to tune.

    The scores are sums over rounds, :math:`F = F_0 + \sum_t v_t(\mathrm{leaf}_t(x))`, and the
    prediction is u(F), with the link u of the loss. Each round grows one tree from the
    pseudogradients of the loss, and adds to every leaf

    .. math:: v = \eta\, \frac{\sum G}{\sum H + 3 \bar H} .

    Held-out rows choose the number of rounds: five folds, or with 2,000 distinct rows and more a
    fifth of the rows. The trees of the model are then learned from all rows. There are forests of
    several shapes: oblivious trees, which have one split a level, of depths 3 and 6; from 4,000
    rows on of depths 6 or 8 (of several outputs 4 and 8), and leaf-wise trees of 31 leaves. Steps
    are 0.12, of leaf-wise trees for several outputs 0.06. The held-out loss chooses the share of
    each. From 100,000 rows on the trees of all rows have the splits of those that held rows out.

    For quantiles v is the quantile of the leaf's residuals, times eta H / (H + 3 mean H), where H
    is the weight of the leaf. In the end the quantile of the held-out residuals is added to F.

    Parameters
    ----------
    loss : str or family, default='squared_error'
        One of 'squared_error', 'absolute_error', 'quantile', 'poisson', 'gamma', 'tweedie'. The
        last three are deviances and have a logarithmic link. The power of 'tweedie' is that of
        maximum likelihood for held-out means, in `family_`; ``Tweedie(1.6)`` of
        `tunefree.parts.families` has a power of your choice.
    quantile : float or sequence of float, default=0.5
        The level of the quantile for loss='quantile', between 0 and 1. Several increasing levels
        have the same splits; their predictions are sorted, so that they do not cross.
    monotonic_cst : array-like of int of shape (n_features,) or dict of str to int, default=None
        1 for columns in which predictions do not decrease, -1 where they do not increase, 0 for
        others; or the signs of some columns by name. It needs one target.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        Columns of numbers that are categories: a mask, positions or names.
    schema : dict or None, default=None
        What is known of some columns, as for `TablePreprocessor`.
    on_bad_cell : {'missing', 'error'}, default='missing'
        What a cell is that is not of its column's kind.
    n_jobs : int or None, default=None
        Threads, all by default; results do not depend on it.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash that assigns rows to folds.

    Attributes
    ----------
    table_ : TablePreprocessor
        Reads the columns of a table with text, categories or dates as numbers. A table of numbers
        alone, in any container, has none: its missing values are missing for the trees.
    bins_ : part
        The borders of the columns of numbers (`tunefree.trees.bins.Bins`).
    forests_ : tuple of parts
        The trees of every shape that has a share (`tunefree.trees.forests`).
    shares_ : ndarray of shape (n_forests,)
        The share of each forest: multiples of a quarter.
    family_, link_ : parts
        The distribution of the targets and the link u.
    background_ : ndarray of uint8 of shape (n_features, at most 100)
        The bins of training rows, evenly drawn by weight: `explain` compares with them.
    feature_relevances_ : ndarray of shape (n_features,)
        The mean squared effects of the splits on each column, added over the trees; they sum to 1.
    feature_importances_ : ndarray of shape (n_features,)
        The same, under scikit-learn's name.
    n_iter_ : ndarray of shape (n_forests,)
        The number of trees of each forest.
    trace_ : dict
        'held_risk': for each forest the held-out loss after every round, of shape (n_rounds + 1,).
    flat_ : bool
        Whether `y` had one dimension.
    row_terms_ : tuple of str
        Which of 'exposure' and 'offset' were given to `fit`.
    held_out_ : part or tuple of parts
        Held-out predictions, from which `risk_interval_` and intervals are computed
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For targets outside the range of the loss, an unknown loss, several targets with another
        loss than squared errors or with `monotonic_cst`, one group only, weights that are all zero.

    Warns
    -----
    DataWarning
        For a target that carries most of the squares about the median, and that held-out trees do
        not explain: it is limited (docs/reliability.md).

    Notes
    -----
    Text, categories and dates become columns of numbers by a `TablePreprocessor`. Numbers may be
    text, too. Relevances, explanations and `monotonic_cst` are those of the columns of X.

    NaN is a missing value: it goes to the side of a split where it lowers the loss more, or, if
    the column had none in training, to the side with more curvature. Infinite values are ordered
    like others. An increasing transform of a column does not change the training, nor does the
    order of the rows.

    Several targets have the same splits. They are learned in units of their standard deviations.
    Missing values are on one side of a split: `monotonic_cst` orders the others.

    References
    ----------
    Friedman 2001, "Greedy function approximation: a gradient boosting machine", algorithm 1;
    Prokhorenkova, Gusev, Vorobev, Dorogush and Gulin 2018, "CatBoost: unbiased boosting with
    categorical features", section 4 (oblivious trees); Shi 2007, "Best-first decision tree
    learning", section 2 (leaf-wise trees). The choice of rounds and shapes is this library's.

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
        loss: Literal["squared_error", "absolute_error", "quantile", "poisson", "gamma", "tweedie"]
        | Family = "squared_error",
        quantile: float | Sequence[float] = 0.5,
        monotonic_cst: Any = None,
        categorical_features: Any = "from_dtype",
        schema: dict | None = None,
        on_bad_cell: str = "missing",
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.loss = loss
        self.quantile = quantile
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.schema = schema
        self.on_bad_cell = on_bad_cell
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
            NaN, and an empty cell, is a missing value.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        groups : array-like of shape (n_samples,), optional
            Groups of dependent rows, which are held out as a whole.
        exposure : array-like of shape (n_samples,), optional
            The duration or size over which y was counted: E[y | x] = exposure * u(F(x)). An
            exposure of e is e rows with the target y / e.
        offset : array-like of shape (n_samples,), optional
            Known terms of the scores: E[y | x] = u(F(x) + offset).

        Returns
        -------
        self
        """
        terms: dict[str, Any] = {"exposure": exposure, "offset": offset}
        return self._fit(self._given(X, y, sample_weight, groups, **terms))

    def _law(self):
        """The family of the loss."""
        if isinstance(self.loss, _OF_AMOUNTS):
            return self.loss
        if not isinstance(self.loss, str) or self.loss not in _LOSSES:
            raise none_of("loss", self.loss, _LOSSES)
        if _LOSSES[self.loss] == "quantile":
            return Quantile.of(self.quantile if self.loss == "quantile" else 0.5)
        return FAMILIES[_LOSSES[self.loss]]

    def _encode(self, y, weights, exposure=None, offset=None):
        self.family_ = family = self._law()
        self.link_ = family.link
        self.flat_ = np.ndim(y) == 1
        targets = as_columns(y)
        if targets.shape[1] > 1 and self.loss != "squared_error":
            raise ValueError(
                f"loss={self.loss!r} is for one target, and y has {targets.shape[1]}: "
                "loss='squared_error' is for several."
            )
        self.row_terms_ = tuple(given_terms(exposure, offset))
        rows = targets, weights, exposure, offset
        targets, weights, offset = per_exposure(family, self.link_, *rows)
        family.check(targets)
        if isinstance(family, Quantile):
            targets, loss = family.targets(targets), QuantileLoss(family)
            self.flat_ = self.flat_ and targets.shape[1] == 1
        else:
            loss = SquaredError() if self.loss == "squared_error" else Deviance(family, self.link_)
        # The folds share rare positive targets evenly: the means of each are positive.
        rare = isinstance(loss, Deviance)
        strata = (targets[:, 0] > 0.0).astype(np.int64) if rare else np.zeros(len(targets), int)
        return GivenRows(None, loss, targets, weights, strata, None, offset, exposure)

    def _with_parameter(self, table):
        family = self.family_
        if isinstance(family, Tweedie) and family.power is None:
            self.family_ = likely_family(table, seed_of(self.random_state), self.n_jobs)
            return table._replace(loss=Deviance(self.family_, self.link_))
        return table

    def _likely_family(self, X, y, weights, exposure):
        """The family that `fit` would estimate from numbers that a table has become."""
        terms: dict[str, Any] = {} if exposure is None else {"exposure": exposure}
        self._with_parameter(self._binned(self._given(X, y, weights, is_own=False, **terms)))
        return self.family_

    def _learned(self, table, folds):
        sample = table.sample
        if sample.targets.shape[1] == 1:
            return super()._learned(table, folds)
        share = sample.weights / sample.weights.sum()
        units = np.sqrt(share @ np.square(sample.targets - share @ sample.targets))
        units = np.where(np.ptp(sample.targets, axis=0) > 0.0, units, 1.0)
        table = table._replace(sample=sample.in_units(units))
        return super()._learned(table, folds).in_units(units)

    def _without_dominant(self, table):
        """The table without dominant targets, judged by trees that have learned limited ones."""
        sample = table.sample
        is_squared = self.loss == "squared_error" and sample.targets.shape[1] == 1
        if not is_squared or np.ndim(sample.offset):
            return table

        def with_targets(y):
            return table._replace(sample=sample._replace(targets=y[:, None]))

        def held_out(y):
            fitted = self._learned(with_targets(y), table.folds())
            return fitted.held_rows, fitted.held_out[:, 0]

        y = sample.targets[:, 0]
        limited = without_dominant(y, sample.weights, table.numbers, held_out)
        return table if limited is None else with_targets(limited)

    def _publish(self, fitted, table):
        super()._publish(fitted, table)
        held, predictions = fitted.held_rows, self._outputs(fitted.held_out)
        targets, weights = table.sample.targets[held], table.sample.weights[held]
        groups = None if table.sample.groups is None else table.sample.groups[held]
        n_groups = None if groups is None else len(np.unique(groups))
        if table.terms is not None:
            given = held, predictions, targets, self.family_
            self.held_out_ = table.terms.held_out(*given, n_groups)._replace(groups=groups)
        elif groups is not None:
            more = {"groups": groups, "n_groups": n_groups}
            pairs = zip(predictions.T, targets.T, strict=True)
            parts = (Residuals.of(*pair, weights, **more) for pair in pairs)
            self.held_out_ = tuple(part._replace(groups=groups) for part in parts)
        else:
            self.held_out_ = base.held_out_predictions(predictions, targets, weights)

    def _outputs(self, scores):
        """Scores as means."""
        return self.family_.predicted(self.link_, scores)

    @matched_by_place
    def predict(
        self,
        X: MatrixLike,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> np.ndarray:
        """Predicted means or quantiles, shape (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        exposure, offset : array-like of shape (n_samples,), optional
            As in `fit`, and needed here if they were given there: the means are those of counts
            over the exposure, with ``exposure=1`` rates.

        Returns
        -------
        ndarray

        Raises
        ------
        ValueError
            If an exposure or an offset was given to `fit` and not here.
        """
        self._check_predicted(exposure, offset)
        scores = self._scores(X)
        if offset is not None:
            scores = scores + row_term(offset, scores, "offset")[:, None]
        mean = over_exposure(self._outputs(scores), exposure)
        return mean[:, 0] if self.flat_ else mean

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.loss == "squared_error"
        tags.target_tags.positive_only = isinstance(self.loss, _OF_AMOUNTS) or self.loss in (
            "poisson",
            "gamma",
            "tweedie",
        )
        return tags
