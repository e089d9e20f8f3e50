"""Regression in one call: learners are compared on held-out rows, and the best stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin

from tunefree.base.exposures import TakesExposures, given_terms, over_exposure, row_term
from tunefree.base.progress import report_progress
from tunefree.core.parameters import seed_of
from tunefree.core.protocols import MatrixLike, Seed, TargetLike
from tunefree.core.warn import none_of
from tunefree.held_out.dominant_targets import without_dominant
from tunefree.held_out.stacking import Means, Quantiles, Targets
from tunefree.parts.families import FAMILIES, HuberT, Quantile, Tweedie
from tunefree.reflectron.glm.regressor import GLMRegressor
from tunefree.rows.checks import ignore_outlier_warnings
from tunefree.rows.level_means import targets_of_means
from tunefree.rows.matrices import as_columns
from tunefree.rows.outliers import EXTREME, clip_outliers, warn_of_changes
from tunefree.rows.row_labels import matched_by_place
from tunefree.stack.candidates import MOST_COLUMNS
from tunefree.stack.costs import Plan
from tunefree.stack.estimator import TuneFreeStack
from tunefree.stack.problem import NumberTargets, TableRows
from tunefree.trees.regressor import BoostedTreesRegressor
from tunefree.uncertainty.intervals import ResidualScores

_LOSSES = (
    "squared_error",
    "absolute_error",
    "quantile",
    "huber",
    "poisson",
    "gamma",
    "tweedie",
)


class TuneFreeRegressor(TakesExposures, RegressorMixin, MultiOutputMixin, TuneFreeStack):
    r"""Regression in one call: a stack of models that are compared on held-out rows.

    As `TuneFreeClassifier`, with exact ridge regression as one more candidate. The weighted sum has
    the least `loss` on held-out rows: squared errors by default.

    Parameters
    ----------
    candidates : 'all' or sequence of {'linear', 'kernel', 'trees'}, default='all'
        The kinds of candidates to evaluate.
    budget : float, str, Plan or None, default=None
        See `TuneFreeClassifier`.
    max_memory : float, str or None, default=None
        See `TuneFreeClassifier`.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        See `TuneFreeClassifier`.
    merge_levels : bool, default=False
        See `TuneFreeClassifier`.
    schema : dict or None, default=None
        See `TuneFreeClassifier`.
    on_bad_cell : {'missing', 'error'}, default='missing'
        See `TuneFreeClassifier`.
    compress, cross_fit, n_jobs : int or None, default=None
        See `TuneFreeClassifier`.
    scoring, cv : default=None
        See `TuneFreeClassifier`.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.
    loss : str or family, default='squared_error'
        The loss of the stack.

        - 'squared_error': means.
        - 'absolute_error', 'quantile': medians, or the quantiles of the levels `quantile`.
        - 'huber': means without the pull of outliers. Errors count by their squares up to 1.345
          robust standard deviations of the held-out errors, and linearly beyond.
        - 'poisson', 'gamma', 'tweedie' or such a family: means of counts and amounts, by their
          deviance. The power of 'tweedie' is that of maximum likelihood for held-out means of
          boosted trees, in `family_`; ``Tweedie(1.6)`` has a power of your choice.

        Of all but the first the GLM of this family is one more candidate, boosted trees learn by
        this loss (for 'huber' by absolute errors), and `score` is D2.
    quantile : float or sequence of float, default=0.5
        The level of loss='quantile', between 0 and 1. For several increasing levels predictions
        have a column each, and do not cross.
    monotonic_cst : array-like of int of shape (n_features,) or dict of str to int, default=None
        1 for columns of numbers in which predictions do not decrease, -1 where they do not
        increase, 0 for others; or the signs of some columns by name. The candidates are boosted
        trees and a GLM, which keep them.

    Attributes
    ----------
    chosen_, models_, views_, weights_, table_, traces_, report_, seconds_, plan_
        See `TuneFreeClassifier`.
    feature_relevances_, level_relevances_, encoded_relevances_, permutation_importances_
        See `TuneFreeClassifier`.
    permutation_importances_se_, group_importances_
        See `TuneFreeClassifier`.
    compression_
        See `TuneFreeClassifier`.
    feature_importances_, coef_, coef_names_, intercept_, background_
        See `TuneFreeClassifier`.
    held_out_, copies_, risk_interval_kind_, column_shares_
        See `TuneFreeClassifier`.
    risk_interval_ : tuple of float or None
        An interval for the leaderboard's risk on new rows (95 %).
    offsets_ : ndarray of shape (n_targets,)
        See `TuneFreeClassifier`.
    family_ : part
        The distribution of the targets, whose deviance is the loss.
    row_terms_ : tuple of str
        'exposure' if it was given to `fit`.
    leaderboard_ : list of dict
        See `TuneFreeClassifier`; the risk is the mean squared error, for several targets the mean
        over them in units of their variances.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Raises
    ------
    ValueError
        For infinite values, missing targets, weights that are all zero.

    Warns
    -----
    DataWarning
        See `TuneFreeClassifier`.
    UserWarning
        For a target 10,000 times as far from the middle as any other: the median replaces it.
        For a target that carries most of the squares about the median, and that the columns do not
        explain: it is limited (docs/reliability.md).

    References
    ----------
    The rule is in docs/selection.md.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tunefree import TuneFreeRegressor
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> model = TuneFreeRegressor(candidates=("linear",), random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    """

    _TERMS = ("exposure",)

    def __init__(
        self,
        candidates: Literal["all"] | Sequence[Literal["linear", "kernel", "trees"]] = "all",
        *,
        budget: float | str | Plan | None = None,
        max_memory: float | str | None = None,
        categorical_features: Any = "from_dtype",
        merge_levels: bool = False,
        schema: dict | None = None,
        on_bad_cell: str = "missing",
        compress: int | None = None,
        cross_fit: int | None = None,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        loss: Any = "squared_error",
        quantile: float | Sequence[float] = 0.5,
        monotonic_cst: Any = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.candidates = candidates
        self.budget = budget
        self.max_memory = max_memory
        self.categorical_features = categorical_features
        self.merge_levels = merge_levels
        self.schema = schema
        self.on_bad_cell = on_bad_cell
        self.compress = compress
        self.cross_fit = cross_fit
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.loss = loss
        self.quantile = quantile
        self.monotonic_cst = monotonic_cst
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
    ) -> Self:
        """Evaluate the candidates, stack them, and fit those in the stack.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        groups : array-like of shape (n_samples,), optional
            See `TuneFreeClassifier.fit`.
        exposure : array-like of shape (n_samples,), optional
            The duration or size over which y was counted, for losses of counts and amounts:
            predictions are exposure times a rate. An exposure of e is e rows with the target y / e.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, groups, exposure)

    def _family(self) -> Any:
        """The family of the loss."""
        if self.loss == "squared_error":
            return FAMILIES["gaussian"]
        if isinstance(self.loss, str) and self.loss in ("absolute_error", "quantile"):
            return Quantile.of(self.quantile if self.loss == "quantile" else 0.5)
        is_family = not isinstance(self.loss, str) or self.loss in FAMILIES.names()
        family: Any = FAMILIES.find(self.loss, ["squared_error"]) if is_family else None
        if family is None:
            raise none_of("loss", self.loss, _LOSSES)
        is_of_amounts = family.range == (0.0, np.inf)
        if isinstance(family, HuberT) or (is_of_amounts and family.exposure == "rate"):
            return family
        raise none_of("loss", self.loss, _LOSSES)

    def _score(self, family, targets, weights):
        """The score of the candidates: squared errors, pinball losses, or deviances."""
        if self.loss == "squared_error":
            spread = np.ones(1)
            if targets.shape[1] > 1:
                mean = np.average(targets, axis=0, weights=weights)
                variance = np.average(np.square(targets - mean), axis=0, weights=weights)
                spread = np.where(variance > 0.0, variance, 1.0) * targets.shape[1]
            return Targets(spread)
        if targets.shape[1] > 1:
            raise ValueError(
                f"loss={self.loss!r} is for one target: y has {targets.shape[1]}. Fit a model for "
                "each target."
            )
        family.check(targets)
        if isinstance(family, HuberT):
            return Quantiles(Quantile(0.5))
        if isinstance(family, Quantile):
            return Quantiles(family)
        return Means.of(family, targets, weights)

    def _rows(self, X, y, sample_weight, groups, exposure):
        checks = {"multi_output": True, "numeric": True}
        rows = TableRows.of(self, X, y, sample_weight, groups, **checks)
        self._check_directions(rows.y)
        if exposure is None:
            return rows
        if self.cross_fit is not None:
            raise ValueError("exposure= and cross_fit= exclude each other.")
        exposure = row_term(exposure, np.asarray(y), "exposure")[rows.kept]
        family = self._family()
        if self.loss == "squared_error" or not family.exposure:
            raise ValueError(f"loss={self.loss!r} takes no exposure=: use a loss of counts.")
        if (rows.y < family.range[0]).any():
            family.check(rows.y)  # an error about the targets, and not about their rates
        return rows._replace(
            y=rows.y.reshape(-1) / exposure, weights=rows.weights * exposure, exposure=exposure
        )

    def _check_directions(self, y):
        """Refuse `monotonic_cst` for several outputs, whose scores have no common direction."""
        several_levels = np.ndim(getattr(self._family(), "levels", 0)) > 0
        several_targets = np.ndim(y) == 2 and np.shape(y)[1] > 1
        if self.monotonic_cst is not None and (several_levels or several_targets):
            what = "several quantiles" if several_levels else f"{np.shape(y)[1]} targets"
            raise ValueError(
                f"monotonic_cst= is for one output, not for {what}: fit a model for each."
            )

    def _problem(self, rows, y):
        seed, given = seed_of(self.random_state), as_columns(rows.y)
        rows = rows.with_means(targets_of_means(rows.y, False))
        distinct = rows.distinct(given, seed)
        targets = clip_outliers(given, distinct[0], EXTREME)
        every = as_columns(y) if rows.exposure is None else given
        warn_of_changes(given, targets, every, "y")
        family, is_flat = self._family(), rows.y.ndim == 1
        score = self._score(family, targets, rows.weights)
        if isinstance(family, Tweedie) and family.power is None:
            family = self._likely_family(rows)
            score = score._replace(family=family)
        row_terms = tuple(given_terms(rows.exposure, None))
        flat = is_flat and score.n_outputs == 1
        y = targets[:, 0] if is_flat or not isinstance(score, Targets) else targets
        return rows.problem(
            distinct,
            y,
            score.strata(y),
            score,
            seed,
            terms=rows.terms(given, seed, distinct[0]),
            signs=rows.signs(self.monotonic_cst),
            targets=NumberTargets(family, score.limits(targets), flat, row_terms),
        )

    def _likely_family(self, rows):
        """Tweedie's family with the power of maximum likelihood, for the means of a model."""
        y, seed, over = rows.y.reshape(-1), seed_of(self.random_state), rows.exposure
        if rows.X.shape[1] > MOST_COLUMNS:
            model: Any = GLMRegressor(Tweedie(), random_state=seed, n_jobs=self.n_jobs)
            return model.fit(rows.X, y, rows.weights).family_
        trees: Any = BoostedTreesRegressor(loss="tweedie", random_state=seed, n_jobs=self.n_jobs)
        if over is None:
            return trees._likely_family(rows.X, y, rows.weights, None)
        return trees._likely_family(rows.X, over * y, rows.weights / over, over)

    def _without_dominant(self, problem, candidates):
        """The problem without dominant targets, judged by the cheapest candidate."""
        y = problem.y
        if not isinstance(problem.score, Targets) or y.ndim > 1:
            return problem

        def held_out(limited):
            with ignore_outlier_warnings():
                entry = candidates[0].evaluate(problem._replace(y=limited), [])
            if not len(entry.losses):
                return np.empty(0, dtype=np.int64), np.empty(0)
            return entry.rows, entry.scores[:, 0]

        limited = without_dominant(y, problem.weights, problem.numbers, held_out)
        if limited is None:
            return problem
        ends = problem.score.limits(limited[:, None])
        return problem._replace(y=limited, targets=problem.targets._replace(limits=ends))

    def _copy_held_out(self, copy, X, y, weights):
        predictions = copy.predict(X).reshape(len(weights), -1)
        gap = np.abs(as_columns(y) - predictions)
        return ResidualScores(gap / copy._sigma(X, predictions), weights)

    def _reach(self, ends):
        """Let predictions and intervals reach the lowest and highest targets of all rows.

        Beyond the range of the sample's targets predictions reach by its width at most.
        """
        low, high = self.prediction_limits_
        lowest, highest = np.clip(ends, 2.0 * low - high, 2.0 * high - low)
        has_negative = (ends[0] < 0.0).any()
        self.prediction_limits_ = (lowest if has_negative else low, highest)
        self._join_ranges(ends)

    def _columns_of(self, X):
        return self._numbers(X)

    @matched_by_place
    def predict(self, X: MatrixLike, exposure: ArrayLike | None = None) -> np.ndarray:
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets or n_quantiles).

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        exposure : array-like of shape (n_samples,), optional
            As in `fit`, and needed here if it was given there: predictions are rates times the
            exposure, with ``exposure=1`` rates.

        Returns
        -------
        ndarray

        Raises
        ------
        ValueError
            If an exposure was given to `fit` and not here.
        """
        self._check_predicted(exposure, None)
        raw = self._joined(X, Targets(np.ones(1)))
        y = NumberTargets(self.family_, self.prediction_limits_).limited(raw)
        y = over_exposure(y, exposure)
        return y[:, 0] if self.flat_ else y
