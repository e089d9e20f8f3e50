"""The Reflectron for any link, potential and step, and what it shares with the GLM."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from tunefree.base import base, scores
from tunefree.base.from_source import FitsSource, RepeatableSource, name_columns, run_log
from tunefree.base.locks import all_or_nothing
from tunefree.base.progress import CallbackSupport, report_progress, runner
from tunefree.base.uncertainty_mixins import PredictsIntervals, RiskIntervalMixin
from tunefree.core.process import product, workers
from tunefree.core.protocols import (
    Auto,
    Average,
    AverageName,
    AverageWithin,
    Link,
    LinkName,
    MatrixLike,
    PotentialName,
    Seed,
    TargetLike,
)
from tunefree.core.warn import warn
from tunefree.engine.run import Rows, run
from tunefree.engine.sources import open_source
from tunefree.parts.families import Matching
from tunefree.parts.links import link_of, link_range
from tunefree.reflectron.descent import (
    DescentResult,
    Settings,
    Setup,
    Training,
    descend,
    leaderboard,
    pose,
)
from tunefree.reflectron.potentials import Potential
from tunefree.reflectron.stochastic import (
    Rule,
    check_halving,
    descend_in_steps,
    stochastic_weight,
)
from tunefree.reflectron.surveys import Survey
from tunefree.rows.columns import as_table, names_of
from tunefree.rows.levels import Coded, Levels, coded
from tunefree.rows.matrices import as_columns, check_frame
from tunefree.rows.order import given_visits
from tunefree.rows.outliers import within_limits
from tunefree.rows.row_labels import matched_by_place
from tunefree.rows.units import Units

GEOMETRY = """potential : str, potential or list, default='auto'
        The geometry, which is the regularizer: a name of
        `tunefree.reflectron.potentials.POTENTIALS`, a part, or a list of these to choose from.
        'auto' chooses among the Euclidean potential and the hypentropies of beta 1e-4, 1e-6, 1e-8,
        1e-12{also}.
    constraint : str, constraint, None or list, default=None
        A set to project onto, from `tunefree.reflectron.constraints`."""

COMMON = """fit_intercept : bool, default=True
        Learn an intercept, free of potential and constraint.
    standardize : bool or 'auto', default='auto'
        Standardise columns (centred if there is an intercept), so that a potential means the same
        for all; constraints then hold in these units. Outliers, entries and targets ten times as
        far from the middle of their column as any other, then count as missing in `fit`, with a
        warning. 'auto' is True; with False rows are learned as they are. A stream has one unit for
        all columns instead, the median of the largest entries of its first 64 rows; its
        constraints, and the entropy, are in the user's units.
    max_iter : int or 'auto', default='auto'
        Most passes; 'auto' is 1000."""

FITTED = """link_ : part
        The link in use.
    potential_, constraint_ : the chosen parts
    held_out_ : part
        Held-out predictions, from which `risk_interval_`, intervals and sets are computed
        (docs/guide/sure.md).
    leaderboard_ : list of dict
        Every configuration's lowest hold-out risk and its time (the sum of steps; in stochastic
        form passes, on a stream rows), the best first.
    trace_ : dict of ndarray of shape (n_passes, n_configurations)
        'risk' (mean squared error, or deviance, on the training rows), 'held_risk' (on the held-out
        rows), 'time', 'step', and 'move', the symmetric Bregman divergence of the last step. In
        stochastic form 'held_risk' only, NaN after a run has ended.
    n_iter_ : int
        Passes over the rows, rejected trials included.
    n_features_in_ : int"""


def documented(**texts):
    """A decorator that fills in the shared parts of a class's docstring."""

    def filled(cls):
        for name, text in texts.items():
            if cls.__doc__:  # none under python -OO
                cls.__doc__ = cls.__doc__.replace("{" + name + "}", text)
        return cls

    return filled


class MirrorDescent(base.TakesSparse, FitsSource, CallbackSupport, BaseEstimator):
    """A generalized linear model learned by mirror descent; subclasses define its targets.

    Each subclass shows some of the settings as parameters. The others keep the values here.
    """

    link: str | Link | None = None
    solver: str = "auto"
    class_weight: Any = None
    n_jobs: int | None = None

    _ON_DEMAND = (
        "coef_", "intercept_", "potential_", "constraint_", "leaderboard_", "held_out_",
    )  # fmt: skip
    _LEARNER = ("_stream", "_dtype", "_flat")
    fit_intercept: bool
    _stream: Any
    feature_map_: Any
    link_: Any
    family_: Any

    def __getattr__(self, name):
        if name == "partial_fit":  # why it is not available
            is_streamed(self)
        return super().__getattr__(name)

    @abstractmethod
    def _law(self, y=None) -> Any:
        """The family and the link of targets; without targets those of a stream."""

    @abstractmethod
    def _source_targets(self, survey, classes) -> tuple[Callable, Any]:
        """A function from a source's y to targets, and the weighted sums of these in every fold."""

    @abstractmethod
    def _evaluated(self, result, held, terms) -> tuple[Any, Any]:
        """The result, shrunk if that is better for held-out rows, and held-out predictions."""

    def _setup(self, law, **others):
        """The checked settings, for the family and the link of `law`."""
        settings = Settings.of(self)
        if settings.warm_start and "coef_" in vars(self):
            others["last_fit"] = self.coef_, self.intercept_
        return Setup.of(law, settings, **others)

    def _fit(self, setup, training):
        """Learn from checked rows."""
        self.held_out_ = None
        with workers(self.n_jobs):
            problem = pose(setup, training._replace(levels=self._levels_of_columns()))
            self._begin(problem)
            if self.solver == "stochastic":
                result = descend_in_steps(problem, self._progress)
            else:
                result, held = descend(problem, self._progress)
                self.link_, self.family_ = result.link, result.family
                self._check_indices(result, held)
                if held.indices is not None:
                    result, self.held_out_ = self._evaluated(result, held, problem.terms)
        return self._publish(result, problem.X.dtype)

    def _begin(self, problem):
        """Set what predictions need beside coefficients."""
        self.feature_map_, self._stream = problem.features, None

    def _check_indices(self, result, held):
        """Warn if the fitted indices of rows show that there is no best model."""

    def _levels_of_columns(self):
        """The `Levels` of columns of text and categories; None if there are none."""
        categories = vars(self).get("categories_")
        return None if categories is None else Levels.of(categories)

    # ---------------------------------------------------------------- sources and streams

    @all_or_nothing
    def fit_source(
        self,
        source: Any,
        *,
        classes: ArrayLike | None = None,
        checkpoint: Any = None,
        on_chunk: Callable | None = None,
    ) -> Self:
        """Learn from a source of any size, in constant memory.

        A source that can be read again is read once for the units of its columns and once for
        every step. The result is that of `fit` with the same held-out rows, which are chosen by
        their hash (one fold from 1,000 rows on). A learned link, and unknown parameters of a
        family, are estimated from a uniform sample of 20,000 rows. A source that can be read once
        only, or ``solver="stochastic"``, is learned in one pass, as by `partial_fit`.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes
        classes : array-like, optional
            For classifiers: all labels. Without them one pass accepts new classes at any time.
        checkpoint : Checkpoint, optional
            Saves the run (in many passes between two of these) and resumes it with the same bits.
        on_chunk : callable, optional
            Called with (estimator, rows seen, pass) after each chunk.

        Returns
        -------
        self
        """
        source = open_source(source)
        if self.solver == "stochastic" or (self.solver == "auto" and not source.again):
            return super().fit_source(
                source, classes=classes, checkpoint=checkpoint, on_chunk=on_chunk
            )
        if not source.again:
            raise ValueError(
                f"{source.name} can be read once only, and solver='batch' needs many passes: give "
                "a file, a function that makes the iterator, or solver='stochastic'."
            )
        with run_log(self, source, checkpoint):
            self._fit_rows(RepeatableSource(source), classes, on_chunk)
        name_columns(self, source)
        return self

    def _fit_rows(self, rows, classes, on_chunk):
        setup = self._setup(self._law())
        if setup.settings.feature_map is not None:
            raise ValueError(
                "fit_source does not support feature_map: transform the rows of the source."
            )
        if self.class_weight is not None:
            raise ValueError(
                "class_weight needs rows in memory or partial_fit: give weights of rows in the "
                "source instead."
            )
        family, link, start = setup.family, setup.link, None
        learns_law = self._learns_law(family)
        survey = Survey(rows, setup, is_classifier(self), learns_law)
        targets, sums = self._source_targets(survey, classes)
        columns = survey.units(setup.settings)
        if is_classifier(self):
            family, link = self._law(self.classes_)
        if learns_law:
            family, link, start = self._law_of(survey.sample, columns)
        setup = setup._replace(family=family, link=link)

        def on_block(state, block):
            on_chunk(self, rows.source.rows, state.passes)

        self.n_features_in_, self.feature_map_, self._stream = rows.width, None, None
        how: Any = {"progress": self._progress, "run": runner(self)}
        how["on_block"] = on_chunk and on_block
        result = survey.descend(setup, columns, targets, sums, start, **how)
        self._publish(result, rows.dtype)

    def _learns_law(self, family):
        """Whether a link, or parameters of a family, are to be learned."""
        return False

    def _source_passes(self):
        return 1  # `max_iter` is of batches

    def _stream_rule(self):
        """The rule of `partial_fit`."""
        return Rule(self._setup(self._stream_law(), stochastic=True))

    def _stream_law(self):
        """The family and the link of `partial_fit`."""
        return self._law()

    def _learn(self, X, targets, weights, flat, is_open=False):
        """Learn from the next rows of a stream; an open stream has one more output."""
        rule = self._stream_rule()
        if rule.setup.settings.feature_map is not None:
            raise ValueError("partial_fit does not support feature_map: transform the rows first.")
        stream, d, k = vars(self).get("_stream"), X.shape[1], targets.shape[1]
        start, known = (None, None), None
        if stream is not None:
            known = stream.n_outputs()
        elif "coef_" in vars(self):
            theta = np.asarray(self.coef_, dtype=np.float64).reshape(-1, d)
            offset = np.reshape(self.intercept_, -1).astype(np.float64)
            start, known = (theta, offset), len(theta)
        base.check_n_targets(targets, known)
        if stream is None:
            stream = rule.stream(d, k, start, is_open)
        chunk = Rows(X, targets, given_visits(weights))
        self._stream = run(rule, stream, chunk, max_passes=1).state
        self._dtype, self._flat = X.dtype.name, flat
        self.link_, self.family_, self.feature_map_ = rule.setup.link, self._law()[0], None
        self._forget_read()

    def _check_learner(self):
        if vars(self).get("_stream") is not None:
            check_halving(self._stream, self.n_features_in_)

    def _read_stream(self):
        self.held_out_ = None
        theta, offset, board = self._stream_rule().read(self._stream)
        own = self.family_, self.link_, Units.unchanged(self.n_features_in_)
        self._predict_with(DescentResult(theta, offset, board, {}, 1, *own), self._dtype)

    # ---------------------------------------------------------------- the model

    def _publish(self, result, dtype) -> Self:
        """Set the fitted attributes, in the user's units."""
        self.trace_, self.n_iter_ = result.trace, result.n_iter
        return self._predict_with(result, dtype)

    def _predict_with(self, result, dtype) -> Self:
        """Set coefficients and intercepts, flat if the targets were, and the parts in use."""
        self.link_, self.family_ = result.link, result.family
        line = result.coefficients(dtype)
        flat = vars(self).get("_flat") and len(line[0]) == 1
        self.coef_, self.intercept_ = base.of_targets(flat, *line)
        if result.board:
            self.leaderboard_ = leaderboard(result.board)
            self.potential_, self.constraint_ = result.parts
        return self

    def _coded(self, X, unknown=None):
        """Rows with codes for the levels of `categories_`; `unknown` is that of `coded`."""
        known = vars(self)
        if known.get("categories_") is None:
            return X  # `check_rows` reads it
        check_frame(X)
        X = as_table(X, known.get("feature_names_in_"))
        if names_of(X) is None and np.ndim(X) != 2:
            return X  # `check_rows` refuses it
        # An error names columns that the fit did not have.
        validate_data(self, X, reset=False, skip_check_array=True)
        return coded(X, Coded(None, self.categories_, self.schema_), unknown=unknown).X

    def _margins(self, X, limits=None):
        check_is_fitted(self, "link_")
        return self._margins_of_rows(base.check_rows(self, self._coded(X)), limits)

    def _margins_of_rows(self, X, limits=None):
        """The indices of checked rows."""
        X = X if limits is None else within_limits(X, limits)
        if getattr(self, "feature_map_", None) is not None:
            X = self.feature_map_.transform(X)
        coef, levels = np.atleast_2d(self.coef_).T, self._levels_of_columns()
        scores = product(X, coef) if levels is None else levels.design(X).apply(coef)
        return scores + np.reshape(self.intercept_, -1)


def is_streamed(estimator):
    """Whether rows may come in chunks; or else an AttributeError with the reason."""
    try:
        stochastic_weight(*estimator._stream_law())
    except ValueError as refusal:
        raise AttributeError(str(refusal)) from None
    return True


def validation_rows(estimator, X_val, y_val):
    """Checked validation rows, their targets and their weights; None without any."""
    if X_val is None and y_val is None:
        return None
    if X_val is None:
        raise ValueError("y_val is given without X_val: give both.")
    if y_val is None:
        raise ValueError("X_val is given without y_val: give both.")
    X_val = base.check_rows(estimator, estimator._coded(X_val))
    return X_val, y_val, np.ones(X_val.shape[0])


class MirrorRegressor(
    RiskIntervalMixin, PredictsIntervals, scores.ScoresTargets, MultiOutputMixin, MirrorDescent
):
    """What the regressors share."""

    def _validation(self, X_val, y_val, family, n_targets):
        """Validation rows, targets and weights; None if there are none."""
        found = validation_rows(self, X_val, y_val)
        if found is None:
            return None
        X_val, y_val, weights = found
        y_val = scores.targets_of(y_val, np.empty((len(weights), n_targets)), "y_val")
        if y_val.any():  # a few rows may well be zeros only
            family.check(y_val)
        return X_val, family.targets(y_val), weights

    @available_if(is_streamed)
    @all_or_nothing
    @matched_by_place
    def partial_fit(
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from the next rows of a stream by stochastic steps.

        All columns have one unit, computed from the first 64 rows (``standardize``). Each row is
        predicted before it is learned; these risks choose among potentials and steps. The sizes of
        chunks make no difference.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        reset = "link_" not in vars(self)
        X, y = base.check_rows_and_targets(self, X, y, reset=reset, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X, stream=True)
        self._learn(X, as_columns(y), weights, np.ndim(y) == 1)
        return self

    def _source_targets(self, survey, classes):
        self._flat, (family, link) = survey.rows.flat, self._law()
        if isinstance(family, Matching):
            warn_outside(survey.outside / (survey.rows.rows * survey.sums.shape[1]), link)
        elif survey.outside:
            raise ValueError(
                f"{survey.outside} targets of the source are outside the range of {family!r}: give "
                "another family."
            )
        sums = family.targets(survey.sums)
        return lambda y: family.targets(as_columns(y)), sums


def warn_outside(share, link):
    """Warn if most targets, a share of them, lie outside the range of the link."""
    if share > 0.5:
        low, high = link_range(link)
        warn(
            f"Most targets lie outside the range [{low:g}, {high:g}] of the link {link!r}, and "
            "predictions never do: give link='identity' for real targets.",
        )


def share_outside(targets, link):
    """The share of targets outside the range of the link."""
    low, high = link_range(link)
    return np.mean((targets < low) | (targets > high))


_LINK = """link : str, link or None, default=None
        The mean u of the model: a name of `tunefree.parts.links.LINKS`, one of its parts, or any
        object with a nondecreasing ``mean(s)``. None is"""

_STEPS = """step : 'auto', float > 0 or list, default='auto'
        In stochastic form 'auto' tries several multiples of Theorem 5.2's step. Every combination
        of potential, constraint and step is learned, all in the same passes. Safe, slow steps are
        those of `tunefree.bounds.reflectron_step`.
    solver : {'auto', 'batch', 'stochastic'}, default='auto'
        Full batches, or passes of steps of ``batch_size`` rows. 'auto' is 'batch', and for a source
        that can be read once only 'stochastic'; `partial_fit` is stochastic.
    average : {'auto', 'uniform', 'polynomial', 'geometric', 'last'} or scheme, default='auto'
        Which average of the stochastic iterates to read; 'auto' is 'uniform'.
    batch_size : int, default=1
        Rows a stochastic step. With 1, a step costs only the entries of its row, unless there is
        a constraint other than 'non_negative' or 'box'.
    feature_map : kernel or str, optional
        A part of `tunefree.kernels` or its name: coordinates in the kernel's feature space in place
        of the columns (the Alphatron, whose potential is the Euclidean one). Kernels compare rows
        in standardised columns; 'rbf' and 'laplacian' have the median distance as bandwidth. For
        other features put a transformer before the model, by ``make_pipeline``."""

_SEED = """random_state : int, RandomState or None, default=None
        Seed of the hash by which rows are held out."""

TEXTS = {
    "link": _LINK,
    "geometry": GEOMETRY.replace("{also}", ""),
    "steps": _STEPS,
    "common": COMMON,
    "seed": _SEED,
    "fitted": "feature_map_ : fitted map or None\n    " + FITTED,
}


class ReflectronSettings:
    """The settings of both Reflectrons."""

    def __init__(
        self,
        link: LinkName | Link | None = None,
        *,
        potential: PotentialName | Auto | Potential = "auto",
        constraint: Any = None,
        step: Any = "auto",
        solver: Literal["auto", "batch", "stochastic"] = "auto",
        average: AverageName | Auto | Average | AverageWithin = "auto",
        batch_size: int = 1,
        feature_map: Any = None,
        fit_intercept: bool = True,
        standardize: bool | Auto = "auto",
        max_iter: int | Auto = "auto",
        random_state: Seed = None,
    ):
        self.link = link
        self.potential = potential
        self.constraint = constraint
        self.step = step
        self.solver = solver
        self.average = average
        self.batch_size = batch_size
        self.feature_map = feature_map
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.max_iter = max_iter
        self.random_state = random_state


@documented(**TEXTS)
class ReflectronRegressor(ReflectronSettings, MirrorRegressor):
    r"""The Reflectron for numbers: mirror descent on a link's own matching loss.

    .. math:: \nabla\psi(\theta_{t+1}) = \nabla\psi(\theta_t)
        - \frac{\lambda}{n} \sum_i \left(u(\langle\theta_t, x_i\rangle) - y_i\right) x_i

    Targets need no distribution: E[y | x] = u(<theta, x> + b) is all that is assumed. The potential
    decides which of the predictors that fit is found; held-out rows choose the potential and when
    to stop. For families, exposures and inference see `GLMRegressor`.

    Parameters
    ----------
    {link} 'identity'.
    {geometry}
    {steps}
    {common}
    {seed}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    {fitted}

    Raises
    ------
    ValueError
        For NaN or infinity, weights that are all zero, a decreasing link, or a pair of constraint
        and potential without a rule. Targets outside the link's range are accepted.

    Warns
    -----
    UserWarning
        If most targets lie outside the range of the link.

    References
    ----------
    Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting geometry for learning generalized
    linear models", eq. 7-8 and section 6; the automatic step is this library's.

    Examples
    --------
    >>> from tunefree import ReflectronRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 50))
    >>> y = 1 / (1 + np.exp(-4 * X[:, 0]))
    >>> model = ReflectronRegressor(link="logit", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    def _law(self, y=None):
        return Matching(), link_of(self.link, "identity")

    @report_progress
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
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Validation rows, in place of held-out rows.

        Returns
        -------
        self
        """
        X, y = base.check_rows_and_targets(self, X, y, multi_output=True, numeric=True)
        weights, targets = base.check_weights(sample_weight, X), as_columns(y)
        setup = self._setup(self._law())
        warn_outside(share_outside(targets, setup.link), setup.link)
        validation = self._validation(X_val, y_val, setup.family, targets.shape[1])
        self._flat = np.ndim(y) == 1
        return self._fit(setup, Training(X, targets, weights, validation=validation))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Expected targets, shape (n_samples,) or (n_samples, n_targets)."""
        margins = self._margins(X)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.asarray(self.link_.mean(margins))
            mean = mean.astype(self.coef_.dtype, copy=False)
        base.warn_infinite(mean)
        return mean[:, 0] if self.coef_.ndim == 1 else mean

    def _evaluated(self, result, held, terms):
        predictions = np.asarray(self.link_.mean(held.indices))
        return result, base.held_out_predictions(predictions, held.targets, held.weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The means of a bounded link cannot fit targets of any size.
        tags.regressor_tags.poor_score = bool(np.isfinite(link_range(self._law()[1])).any())
        return tags
