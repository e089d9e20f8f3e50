"""What both boosted trees share: rows, tables of text, relevances and explanations."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.explanations import BACKGROUND, Explanation, Interaction
from tunefree.base.exposures import Terms, row_term
from tunefree.base.from_source import FitsSums
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.state_checks import require
from tunefree.core.parameters import seed_of
from tunefree.core.process import workers
from tunefree.core.protocols import MatrixLike, Seed, TargetLike
from tunefree.rows.columns import as_table, must_be_read, names_of
from tunefree.rows.kinds import infinity_ordered
from tunefree.rows.level_means import LevelMeans, targets_of_means, with_columns
from tunefree.rows.matrices import as_columns, check_frame, take
from tunefree.rows.order import even_sample, hashed_visits
from tunefree.rows.preprocessing import (
    LearnedRows,
    TablePreprocessor,
    of_source_columns,
    signs_of,
    signs_of_columns,
    source_layout,
)
from tunefree.rows.schema import Schema
from tunefree.trees.bins import bins_of
from tunefree.trees.boosting import MOST_ROUNDS, BinnedRows
from tunefree.trees.forests import BLOCK
from tunefree.trees.learning import GivenRows, TreeRows, learn_trees
from tunefree.trees.shapley import terms_of_trees
from tunefree.trees.state_checks import check_trees

# Rows of a source that are learned.
_MOST_SAMPLED = 100_000


def _needs_table(X):
    """Whether a table holds more than numbers, by its cells: so it does in any container."""
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biufOUSMm"
    if not (is_array or names_of(X) is not None) or 0 in X.shape:
        return must_be_read(X)
    schema = Schema.of(X, names_of(X))
    return not schema.is_of_numbers or any(column.sentinels for column in schema.columns)


class LearnsByTrees(base.TakesSparse, FitsSums, CallbackSupport, BaseEstimator):
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
        table = self._with_parameter(self._without_dominant(self._binned(given)))
        self._publish(self._learned(table, table.folds()), table)
        sample = table.sample
        self.background_ = sample.codes[:, even_sample(sample.weights, BACKGROUND)]
        return self

    def _without_dominant(self, table):
        """The table without targets that have most of the variance."""
        return table

    def _with_parameter(self, table):
        """The table with the loss of which an unknown parameter was estimated."""
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
            signs = signs_of(self, self.monotonic_cst)
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
        table, found = self._table_of(X, sample_weight) if is_own else (None, LearnedRows(X))
        X = found.X
        X, y = base.check_rows_and_targets(
            self, X, y, multi_output=real, numeric=real, missing=True
        )
        if table is not None:
            self.table_, self.schema_ = table, table.schema_
            self.n_features_in_ = table.n_features_in_
            if hasattr(table, "feature_names_in_"):
                self.feature_names_in_ = table.feature_names_in_
        weights = base.check_weights(sample_weight, X)
        as_given = base.check_weights(sample_weight, X, as_given=True)
        are_precisions = bool((as_given != np.round(as_given)).any())
        if self.class_weight is not None:
            weights = base.balanced(self.class_weight, *base.encode_labels(y), weights)
        given = {name: values for name, values in terms.items() if values is not None}
        terms = {name: row_term(values, X, name) for name, values in given.items()}
        kept = np.flatnonzero(weights > 0.0)
        rare = () if groups is not None else tuple(one.of_rows(kept) for one in found.rare)
        groups = base.group_numbers(groups, X, kept)
        if len(kept) < len(weights):
            X = take(X, kept)
            y = y[kept]
            weights = weights[kept]
            terms = {name: values[kept] for name, values in terms.items()}
        X = self._with_means(X, y, weights, rare, terms.get("exposure"))
        if table is not None and "_known_table" not in vars(self):  # else it has warned
            table._warn_of_columns(found.remarks)
        more = {"X": X, "groups": groups, "are_precisions": are_precisions}
        return self._encode(y, weights, **terms)._replace(**more)

    def _with_means(self, X, y, weights, rare, exposure):
        """Rows with the mean targets of levels that are many, which the table learns."""
        if not rare:
            return X
        if is_classifier(self):
            targets = targets_of_means(base.encode_labels(y)[1], True)
        else:
            over = 1.0 if exposure is None else exposure
            targets, weights = targets_of_means((as_columns(y).T / over).T, False), weights * over
        starts, blocks, seed = source_layout(self.table_).starts, [], seed_of(self.random_state)
        for one in (one.credible(targets, weights) for one in rare):
            if np.isfinite(one.strength):
                means, columns = LevelMeans.of_rows(one, X, targets, weights, seed)
                blocks.append((starts[one.place + 1], columns))
                self.table_.means_[str(one.place)] = means
        return with_columns(X, blocks)

    def _table_of(self, X, sample_weight):
        """The `TablePreprocessor` of a table with text or dates, or None; and its `LearnedRows`."""
        if "_known_table" in vars(self):  # the rows are its numbers
            table = self._known_table.fit(X)
            return table, LearnedRows(table.transform(X))
        declared = self.categorical_features
        is_default = isinstance(declared, str) and declared == "from_dtype"
        declares = not (is_default or declared is None or np.size(declared) == 0)
        if not (declares or self.schema):
            check_frame(X)
            rows = as_table(X)
            if not _needs_table(rows):
                return None, LearnedRows(X)
        table = TablePreprocessor(
            categorical_features=declared, schema=self.schema, on_bad_cell=self.on_bad_cell
        )
        with infinity_ordered():
            return table, table._learned_rows(X, sample_weight)

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
        found = TreeRows(bins, given.loss, sample, strata, terms, numbers=rows)
        return found._replace(are_precisions=given.are_precisions)

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
        with infinity_ordered():
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
