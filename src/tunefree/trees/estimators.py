"""Boosted trees, whose rounds and shapes held-out rows choose."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, is_classifier
from sklearn.utils.validation import _check_monotonic_cst, check_is_fitted

from tunefree.base import base
from tunefree.base.explanations import BACKGROUND, Explanation, Interaction
from tunefree.base.exposures import (
    TakesExposures,
    Terms,
    given_terms,
    over_exposure,
    per_exposure,
    row_term,
)
from tunefree.base.from_source import FitsSums
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.state_checks import require
from tunefree.base.uncertainty_mixins import PredictsSets, RiskIntervalMixin
from tunefree.core.parameters import seed_of
from tunefree.core.process import workers
from tunefree.core.protocols import MatrixLike, Seed, TargetLike
from tunefree.core.warn import none_of
from tunefree.held_out.dominant_targets import without_dominant
from tunefree.held_out.predictions import automatic_folds
from tunefree.parts.families import FAMILIES, Quantile
from tunefree.rows.columns import as_table, must_be_read, names_of
from tunefree.rows.matrices import as_columns, check_frame, take
from tunefree.rows.order import even_sample, hashed_visits
from tunefree.rows.preprocessing import TablePreprocessor, of_source_columns, signs_of_columns
from tunefree.rows.schema import Schema
from tunefree.trees.bins import bins_of
from tunefree.trees.boosting import (
    MOST_ROUNDS,
    BinnedRows,
    BoostingOptions,
    best_shares,
    boost,
    mixed,
    n_reports,
)
from tunefree.trees.forests import BLOCK, Leafwise, Oblivious
from tunefree.trees.losses import Deviance, LogLoss, QuantileLoss, SquaredError
from tunefree.trees.shapley import terms_of_trees
from tunefree.trees.state_checks import check_trees
from tunefree.uncertainty.intervals import Residuals

# Trees of these shapes are learned: of few rows, and from so many rows on.
SHAPES, _MANY_ROWS = (Oblivious(3), Oblivious(6)), 4000
SHAPES_OF_MANY = (Oblivious(4), Oblivious(8), Leafwise())
# Threads are slower than one for fewer cells than twice this.
_CELLS_OF_A_THREAD = 5000
# Rows of a source that are learned.
_MOST_SAMPLED = 100_000
# The family of each loss.
_LOSSES = {
    "squared_error": "gaussian",
    "absolute_error": "quantile",
    "quantile": "quantile",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie": "tweedie",
}


class GivenRows(NamedTuple):
    """The user's rows of positive weight, and what is to be learned of them."""

    X: Any
    loss: Any  # of `tunefree.trees.losses`
    targets: np.ndarray  # of shape (rows, outputs)
    weights: np.ndarray  # with the exposure of rates
    strata: np.ndarray  # class numbers, or zeros
    groups: Any = None  # numbers of groups
    offset: Any = None
    exposure: Any = None  # of which the target is a rate


class TreeRows(NamedTuple):
    """Distinct rows in the order of the hash of their bins."""

    bins: Any
    loss: Any
    sample: BinnedRows
    strata: np.ndarray
    terms: Any = None  # `Terms` of rows with an exposure or an offset
    most_rounds: int = MOST_ROUNDS
    numbers: Any = None  # of these rows among those of positive weight

    def folds(self):
        """Training rows and held-out rows: of all folds, or of one if rows are many."""
        groups = self.sample.groups
        folds = automatic_folds(self.strata, groups)
        learns_none = not len(folds[0][0]) and len(self.strata) > 1
        if learns_none and groups is not None:
            raise ValueError("groups= has one group of every class only: none can be held out.")
        if learns_none:  # one row of every class: hold out one row at a time
            folds = automatic_folds(np.zeros_like(self.strata))
        return folds


class FittedTrees(NamedTuple):
    """Forests, the share of each, and held-out scores of shape (rows, outputs)."""

    forests: tuple
    shares: np.ndarray
    effects: np.ndarray  # of the columns, of shape (forests, columns)
    curves: dict  # the held-out loss after every round of each forest, by the shape's name
    held_out: np.ndarray
    held_rows: np.ndarray  # places of the held-out rows

    def in_units(self, units):
        """The same for targets in other units, one of every output."""
        forests = tuple(forest.in_units(units) for forest in self.forests)
        return self._replace(forests=forests, held_out=self.held_out * units)


def learn_trees(table, folds, seed, signs, n_jobs, progress):
    """The `FittedTrees` of rows: forests of every shape, weighted by their held-out loss."""
    loss, sample = table.loss, table.sample
    options = BoostingOptions(loss, table.bins, seed, signs)
    shapes = SHAPES if len(sample.weights) < _MANY_ROWS else SHAPES_OF_MANY
    progress.expect(len(shapes) * n_reports(table.most_rounds))

    def report():
        progress.begin("rounds")
        return progress.end()

    with workers(n_jobs, sample.codes.size // _CELLS_OF_A_THREAD):
        fits = boost(sample, folds, options, shapes, table.most_rounds, report)
    held = np.concatenate([out for _, out in folds])
    order = np.argsort(held)
    held = held[order]
    parts = np.array([fit.scores[order] for fit in fits])
    targets, weights = sample.targets[held], sample.weights[held]
    shares = best_shares(parts, lambda scores: weights @ loss.losses(scores, targets))
    scores = mixed(shares, parts)
    shift = loss.shift(scores, targets, weights)
    used = np.flatnonzero(shares)
    shares = shares[used]
    forests = tuple(fits[i].forest.shifted(shift) for i in used)
    effects = np.array([forest.relevances(len(signs)) for forest in forests])
    curves = {shapes[i].name: fits[i].risks for i in used}
    return FittedTrees(forests, shares, effects, curves, scores + shift, held)


def _needs_table(X):
    """Whether a table holds more than numbers, by its cells: so it does in any container."""
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biufOUSMm"
    if not (is_array or names_of(X) is not None) or 0 in X.shape:
        return must_be_read(X)
    schema = Schema.of(X, names_of(X))
    return not schema.is_of_numbers or any(column.sentinels for column in schema.columns)


class _BoostedTrees(base.TakesSparse, FitsSums, CallbackSupport, BaseEstimator):
    """Boosted trees; subclasses define the abstract methods."""

    class_weight: Any = None  # a parameter of classifiers
    monotonic_cst: Any
    categorical_features: Any
    schema: Any
    on_bad_cell: Any
    _known_table: Any
    n_jobs: int | None
    random_state: Seed

    @abstractmethod
    def _encode(self, y, weights) -> GivenRows:
        """What is to be learned of targets: `GivenRows` as yet without columns and groups."""

    @abstractmethod
    def _outputs(self, scores) -> np.ndarray:
        """Scores of shape (rows, outputs) as decisions, or as means."""

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
            NaN, and an empty cell, is a missing value.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        groups : array-like of shape (n_samples,), optional
            Groups of dependent rows, which are held out as a whole.

        Returns
        -------
        self
        """
        return self._fit(self._given(X, y, sample_weight, groups))

    def _fit(self, given):
        """Learn `GivenRows`."""
        table = self._without_dominant(self._binned(given))
        self._publish(self._learned(table, table.folds()), table)
        sample = table.sample
        self.background_ = sample.codes[:, even_sample(sample.weights, BACKGROUND)]
        return self

    def _without_dominant(self, table):
        """The table without targets that have most of the variance."""
        return table

    def _fit_rows(self, rows, sample: Any = None, like=None):
        """Learn an even sample of the rows; in a stack, of numbers that a table has become."""
        in_stack = like is not None
        sample = rows.drawn(seed_of(self.random_state), _MOST_SAMPLED, is_classifier(self))
        if in_stack:
            return self._fit(self._given(sample.X, sample.y, sample.weights, is_own=False))
        return self.fit(sample.X, sample.y, sample_weight=sample.weights)

    def _learn(self, X, y, weights, folds, groups=None, most_rounds=MOST_ROUNDS):
        """Learn distinct rows; returns the scores of the held-out rows of `folds`, in order.

        Without folds they are automatic.
        """
        given = self._given(X, y, weights, is_own=False)
        bins = bins_of(given.X, given.weights)
        codes = bins.codes(given.X)
        sample = BinnedRows(codes, given.targets, given.weights, groups=groups)
        table = TreeRows(bins, given.loss, sample, given.strata, most_rounds=most_rounds)
        fitted = self._learned(table, table.folds() if folds is None else folds)
        self._publish(fitted, table)
        return self._outputs(fitted.held_out)

    def _learned(self, table, folds):
        """The `FittedTrees` of a table."""
        if self._table is None:
            signs = np.asarray(_check_monotonic_cst(self, self.monotonic_cst), dtype=np.int8)
        else:
            signs = signs_of_columns(self._table, self.monotonic_cst)
        if signs.any() and table.sample.targets.shape[1] > 1:
            raise ValueError(
                "monotonic_cst= needs one target, one quantile or two classes: the scores of "
                "several have no common direction. Fit a model for each."
            )
        seed = seed_of(self.random_state)
        return learn_trees(table, folds, seed, signs, self.n_jobs, self._progress)

    def _given(self, X, y, sample_weight, groups=None, is_own=True, **terms: Any):
        """The `GivenRows`; `terms` are an exposure and an offset, or None.

        `is_own`: whether these are the user's rows, not numbers that a table has become.
        """
        real = not is_classifier(self)
        vars(self).pop("table_", None)
        table, X = self._table_of(X, sample_weight) if is_own else (None, X)
        X, y = base.check_rows_and_targets(
            self, X, y, multi_output=real, numeric=real, missing=True
        )
        if table is not None:
            self.table_, self.schema_ = table, table.schema_
            self.n_features_in_ = table.n_features_in_
            if hasattr(table, "feature_names_in_"):
                self.feature_names_in_ = table.feature_names_in_
        weights = base.check_weights(sample_weight, X)
        if self.class_weight is not None:
            weights = base.balanced(self.class_weight, *base.encode_labels(y), weights)
        given = {name: values for name, values in terms.items() if values is not None}
        terms = {name: row_term(values, X, name) for name, values in given.items()}
        kept = np.flatnonzero(weights > 0.0)
        groups = base.group_numbers(groups, X, kept)
        if len(kept) < len(weights):
            X = take(X, kept)
            y = y[kept]
            weights = weights[kept]
            terms = {name: values[kept] for name, values in terms.items()}
        return self._encode(y, weights, **terms)._replace(X=X, groups=groups)

    def _table_of(self, X, sample_weight):
        """The `TablePreprocessor` of a table with text or dates, or None; and the numbers."""
        if "_known_table" in vars(self):  # the rows are its numbers
            table = self._known_table.fit(X)
            return table, table.transform(X)
        declared = self.categorical_features
        is_default = isinstance(declared, str) and declared == "from_dtype"
        declares = not (is_default or declared is None or np.size(declared) == 0)
        if not (declares or self.schema):
            check_frame(X)
            rows = as_table(X)
            if not _needs_table(rows):
                return None, X
        table = TablePreprocessor(
            categorical_features=declared, schema=self.schema, on_bad_cell=self.on_bad_cell
        )
        return table, table.fit_transform(X, sample_weight=sample_weight)

    @property
    def _table(self):
        """The `TablePreprocessor` of a fit to text or dates, or None."""
        return vars(self).get("table_")

    def _binned(self, given):
        """Rows in bins; equal ones are merged."""
        bins = bins_of(given.X, given.weights)
        codes, seed = bins.codes(given.X), seed_of(self.random_state)
        apart = [values for values in (given.offset, given.groups) if values is not None]
        labels = np.column_stack([given.targets, *apart]) if apart else given.targets
        # The order of several targets does not depend on their units.
        several_numbers = given.targets.shape[1] > 1 and not is_classifier(self)
        hashed = codes.T.astype("f"), labels, given.weights, seed
        rows, totals = hashed_visits(*hashed, affine=several_numbers).unique()
        terms, groups, offset = None, given.groups, given.offset
        if given.exposure is not None or offset is not None:
            terms = Terms.of(*hashed, rows, given.exposure)
        sample = BinnedRows(
            np.ascontiguousarray(codes[:, rows]),
            given.targets[rows],
            totals,
            0.0 if offset is None else offset[rows, None],
            None if groups is None else groups[rows],
        )
        strata = given.strata[rows]
        return TreeRows(bins, given.loss, sample, strata, terms, numbers=rows)

    def _publish(self, fitted, table):
        """Set the fitted attributes."""
        self.bins_, self.forests_, self.shares_ = table.bins, fitted.forests, fitted.shares
        self.n_iter_ = np.array([len(forest.columns) for forest in fitted.forests])
        self.trace_ = {"held_risk": fitted.curves}
        total = np.square(fitted.shares) @ fitted.effects
        total = total if self._table is None else of_source_columns(total, self._table)
        self.feature_relevances_ = total / total.sum() if total.any() else total

    @property
    def feature_importances_(self) -> np.ndarray:
        """`feature_relevances_`, under scikit-learn's name: shape (n_features,), sum 1."""
        check_is_fitted(self, "forests_")
        return self.feature_relevances_

    def explain(self, X: MatrixLike) -> Explanation:
        r"""What each column of X adds to the score of each row: exact Shapley values.

        .. math:: F(x) = \mathrm{base} + \sum_j \phi_j(x)

        F is the score: log-odds of the second class or of every class, or the prediction; the
        logarithm of the mean for Poisson, gamma and Tweedie losses, without exposure and offset.
        The base is the mean score of at most 100 training rows, whose bins are `background_`.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        Explanation
            `values`, `base_value`, `score`, `feature_names`; `std_error` is None.

        References
        ----------
        Lundberg et al. 2020, "From local explanations to global understanding with explainable AI
        for trees"; the algorithm is in `tunefree.base.shapley`.

        Examples
        --------
        >>> from tunefree import BoostedTreesRegressor
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> model = BoostedTreesRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1])
        >>> found = model.explain(X[:5])
        >>> bool(np.allclose(found.base_value + found.values.sum(axis=1), model.predict(X[:5])))
        True
        """
        terms = terms_of_trees(self)
        flat = len(terms.start) == 1 and getattr(self, "flat_", True)
        return terms.explained(self._codes(X).T, flat)

    def interactions(self, n_pairs: int = 10) -> list[Interaction]:
        """The pairs of columns that interact most: see `TuneFreeRegressor.interactions`.

        Parameters
        ----------
        n_pairs : int, default=10

        Returns
        -------
        list of Interaction
            `columns`, their `strength` in the units of the score, and its `std_error`.
        """
        return terms_of_trees(self).interactions(n_pairs)

    def _codes(self, X):
        """The bins of rows."""
        check_is_fitted(self, "forests_")
        if self._table is None:
            return self.bins_.codes(base.check_rows(self, X, missing=True))
        return self.bins_.codes(self._table._numbers_for(self, X))

    def _check_learner(self):
        """Refuse bins and forests of a model file that compiled code must not read."""
        check_trees(self.bins_, self.forests_, self._n_columns())

    def _n_columns(self):
        """The number of columns of numbers, which have bins."""
        if self._table is None:
            return self.n_features_in_
        require(self._table.n_features_in_ == self.n_features_in_)
        return len(self._table.sources_)

    def _scores(self, X):
        codes = self._codes(X)
        with workers(self.n_jobs) if codes.shape[1] > BLOCK else nullcontext():
            pairs = zip(self.shares_, self.forests_, strict=True)
            scores = [share * forest.scores(codes) for share, forest in pairs]
        # In a matrix product rounding may differ from row to row, which breaks monotonicity.
        return np.sum(scores, axis=0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


class BoostedTreesRegressor(
    RiskIntervalMixin, TakesExposures, RegressorMixin, MultiOutputMixin, _BoostedTrees
):
    r"""Regression by boosted trees; there is nothing to tune.

    The scores are sums over rounds, :math:`F = F_0 + \sum_t v_t(\mathrm{leaf}_t(x))`, and the
    prediction is u(F), with the link u of the loss. Each round grows one tree from the
    pseudogradients of the loss, and adds to every leaf

    .. math:: v = \eta\, \frac{\sum G}{\sum H + 3 \bar H} .

    Held-out rows choose the number of rounds: five folds, or with 2,000 distinct rows and more a
    fifth of the rows. The trees of the model are then learned from all rows. There are forests of
    several shapes: oblivious trees, which have one split a level, of depths 3 and 6, with the step
    0.12; from 4,000 rows on of depths 4 and 8, and leaf-wise trees of 31 leaves, with the step
    0.06. The held-out loss chooses the share of each.

    For quantiles v is the quantile of the leaf's residuals, times eta H / (H + 3 mean H), where H
    is the weight of the leaf. In the end the quantile of the held-out residuals is added to F.

    Parameters
    ----------
    loss : str, default='squared_error'
        One of 'squared_error', 'absolute_error', 'quantile', 'poisson', 'gamma', 'tweedie'. The
        last three are deviances and have a logarithmic link.
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
        loss: Literal[
            "squared_error", "absolute_error", "quantile", "poisson", "gamma", "tweedie"
        ] = "squared_error",
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
        if self.loss not in _LOSSES:
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
            As in `fit`: the means are those of counts over the exposure.

        Returns
        -------
        ndarray
        """
        scores = self._scores(X)
        if offset is not None:
            scores = scores + row_term(offset, scores, "offset")[:, None]
        mean = over_exposure(self._outputs(scores), exposure)
        return mean[:, 0] if self.flat_ else mean

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.loss == "squared_error"
        tags.target_tags.positive_only = self.loss in ("poisson", "gamma", "tweedie")
        return tags


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
    monotonic_cst : array-like of int of shape (n_features,) or dict of str to int, default=None
        1 for columns in which the probability of the second class does not decrease, -1 where it
        does not increase, 0 for others; or the signs of some columns by name. It needs two classes.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        See `BoostedTreesRegressor`.
    schema : dict or None, default=None
        See `BoostedTreesRegressor`.
    on_bad_cell : {'missing', 'error'}, default='missing'
        See `BoostedTreesRegressor`.
    n_jobs : int or None, default=None
        Threads, all by default; results do not depend on it.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the projections, and of the hash that assigns rows to folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    table_, bins_, forests_, shares_, background_, feature_relevances_, n_iter_, trace_
        See `BoostedTreesRegressor`.
    feature_importances_ : ndarray of shape (n_features,)
        See `BoostedTreesRegressor`.
    held_out_ : part
        Held-out probabilities, from which `risk_interval_` and sets are computed
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For labels of one class, `monotonic_cst` with more than two, one group only, weights that
        are all zero.

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
        monotonic_cst: Any = None,
        categorical_features: Any = "from_dtype",
        schema: dict | None = None,
        on_bad_cell: str = "missing",
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.class_weight = class_weight
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.schema = schema
        self.on_bad_cell = on_bad_cell
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _encode(self, y, weights):
        self.classes_, codes = base.encode_labels(y, fewest=2)
        if len(self.classes_) == 2:
            targets = codes[:, None].astype(np.float64)
        else:
            targets = FAMILIES["multinomial"].codes(codes, len(self.classes_))
        return GivenRows(None, LogLoss(), targets, weights, codes)

    def _outputs(self, scores):
        """Scores as decisions."""
        return scores

    def _publish(self, fitted, table):
        super()._publish(fitted, table)
        held, sample = fitted.held_rows, table.sample
        groups = None if sample.groups is None else sample.groups[held]
        p = base.probabilities(fitted.held_out, joint=True)
        rows = table.strata[held], sample.weights[held], groups
        self.held_out_ = base.held_out_probabilities(p, *rows)

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class; shape (n,) or (n, n_classes)."""
        return base.squeezed(self._scores(X))

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes)."""
        return base.probabilities(self.decision_function(X), joint=True)
