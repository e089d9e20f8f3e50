"""One call that evaluates the library's learners on held-out rows and stacks the best."""

import copy
import inspect
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import (
    BaseEstimator,
    MultiOutputMixin,
    RegressorMixin,
    clone,
    is_classifier,
)
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from tunefree.base import base
from tunefree.base.explanations import BACKGROUND, Explanation, Interaction, as_numbers
from tunefree.base.exposures import TakesExposures, given_terms, over_exposure, row_term
from tunefree.base.from_source import FitsSums
from tunefree.base.labels import LabelModels, explanations, first, of_every_label
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.reading import fitted_names, forget_fit
from tunefree.base.uncertainty_mixins import PredictsSets
from tunefree.core.format import number
from tunefree.core.parameters import seed_of
from tunefree.core.protocols import MatrixLike, Seed, TargetLike
from tunefree.core.warn import findings_kept, none_of, warn
from tunefree.held_out.predictions import finished, folds_of, weighted_mean
from tunefree.held_out.stacking import (
    Chosen,
    Classes,
    Means,
    Quantiles,
    Targets,
    choose_stack,
    weighted_sum,
    with_limit_of_stack,
    with_loss_of_stack,
    with_sum_of_all_rows,
)
from tunefree.kernel_ridge import solvers as ridge
from tunefree.parts.families import FAMILIES, HuberT, Quantile
from tunefree.rows.checks import ColumnDrift, ColumnShares, ignore_outlier_warnings, warn_of
from tunefree.rows.matrices import as_columns, as_dense
from tunefree.rows.missing import complete
from tunefree.rows.order import even_sample
from tunefree.rows.outliers import (
    EXTREME,
    clip_outliers,
    limit_dominant,
    warn_of_changes,
    warn_of_dominant,
)
from tunefree.rows.preprocessing import of_source_columns, source_layout
from tunefree.stack.candidates import (
    Fitted,
    evaluate_candidates,
    fit_all_rows,
    make_candidates,
    plan_candidates,
)
from tunefree.stack.costs import Limits, Plan
from tunefree.stack.explain import line_of_stack, terms_of_stack
from tunefree.stack.from_source import fit_source_rows
from tunefree.stack.problem import (
    EXCLUDE,
    ClassTargets,
    NumberTargets,
    StackProblem,
    TableRows,
    log_odds,
)
from tunefree.stack.report import (
    Importances,
    Stacked,
    column_relevances,
    report_of,
)
from tunefree.uncertainty.intervals import HeldOutProbabilities, ResidualScores

_KINDS = ("linear", "kernel", "trees")
# Of fewer targets none is limited because it is dominant.
_FEWEST_LIMITED = 40
_LOSSES = (
    "squared_error",
    "absolute_error",
    "quantile",
    "huber",
    "poisson",
    "gamma",
    "tweedie",
)


class _TuneFree(FitsSums, CallbackSupport, BaseEstimator):
    _FOR_FIT = ("cv", "scoring")
    candidates: Any
    budget: Any
    max_memory: Any
    compress: Any
    scoring: Any
    cv: Any
    n_jobs: Any
    random_state: Any
    classes_: np.ndarray
    calibration_: Any
    flat_: bool
    cross_fit: Any

    @abstractmethod
    def _problem(self, rows, y) -> StackProblem:
        """What is to be learned of the `TableRows`; y are the targets of all of the user's rows."""

    @abstractmethod
    def _copy_held_out(self, copy, X, y, weights) -> Any:
        """The held-out predictions of a cross-fitted copy, for rows that it has not learned."""

    def _reach(self, ends) -> None:
        """Predict, and keep intervals, up to the ends of all targets: classes have none."""

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Evaluate the candidates, stack them, and fit those in the stack.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Several labels are 0 or 1 each.
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        groups : array-like of shape (n_samples,), optional
            Groups of dependent rows, which are held out as a whole: no row is predicted by a model
            that has learned another row of its group. Kernels on all rows do this exactly, others
            by folds of whole groups. With `cv` they are passed to the splitter.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, groups)

    def _fit(self, X, y, sample_weight, groups, exposure=None):
        """Fit rows, in regression with their exposure."""
        y = complete(y)
        forget_fit(self)
        limits, kinds, n_landmarks, scorer = self._checked()
        with findings_kept() as notes:
            rows, problem = self._rows_and_problem(X, y, sample_weight, groups, exposure)
            self._check_copies(problem)
            candidates, skipped = make_candidates(problem, kinds, self.n_jobs, n_landmarks)
            plan, candidates = plan_candidates(candidates, limits, problem)
            problem = self._without_dominant(problem, candidates)
        with ignore_outlier_warnings():
            entries = evaluate_candidates(candidates, plan, problem, self._progress)
            problem, entries = with_loss_of_stack(problem, entries)
            chosen, scores, compression = choose_stack(entries, problem), {}, None
            if scorer is not None and finished(entries):
                given = chosen, entries, problem, X, rows
                chosen, scores = choose_by_score(self, scorer, *given)
            if n_landmarks is not None and finished(entries):
                chosen, compression = compress_stack(chosen, problem, n_landmarks)
            last = fit_all_rows(chosen, entries, problem, self._progress)
            chosen = with_sum_of_all_rows(chosen, last.fits, problem)
            problem = with_limit_of_stack(problem, chosen)
        seconds = time.perf_counter() - limits.start
        self._publish(
            rows,
            Stacked(problem, entries, chosen, last, plan, skipped, scores, compression, seconds),
            tuple(map(str, notes)),
        )
        self.copies_ = cross_fitted(self, X, y, problem)
        return self

    def _rows_and_problem(self, X, y, sample_weight=None, groups=None, exposure=None):
        """The `TableRows` and the `StackProblem`, with a warning of every finding about them."""
        rows = self._rows(X, y, sample_weight, groups, exposure)
        problem = self._problem(rows, y)
        warn_of(rows.findings(problem))
        return rows, problem

    def _look(self, X, y, sample_weight=None):
        """What `fit` finds before it fits: the `Plan` and the findings, which are warned of, too.

        No attribute is set.
        """
        y = complete(y)
        limits, kinds, n_landmarks, _ = self._checked()
        with findings_kept() as notes:
            _, problem = self._rows_and_problem(X, y, sample_weight)
            candidates, _ = make_candidates(problem, kinds, self.n_jobs, n_landmarks)
            plan, candidates = plan_candidates(candidates, limits, problem)
            self._without_dominant(problem, candidates)
        return plan, notes

    @property
    def schema_(self) -> Any:
        """What each column is, and how its cells are written: see `TablePreprocessor`."""
        check_is_fitted(self, "table_")
        return self.table_.schema_

    def _checked(self):
        """`Limits` of time and memory, kinds of candidates, most landmarks, and the scorer."""
        limits, given, most = Limits(self.budget, self.max_memory), self.candidates, self.compress
        kinds = _KINDS if isinstance(given, str) and given == "all" else tuple(given)
        if not kinds or not set(kinds) <= set(_KINDS):
            raise ValueError(f"candidates={given!r} is neither 'all' nor some of {_KINDS}.")
        if most is not None and not (isinstance(most, int | np.integer) and most > 0):
            raise ValueError(f"compress={most!r} is not a number of landmarks: a positive integer.")
        for name in ("compress", "cross_fit"):
            if self.cv is not None and getattr(self, name) is not None:
                raise ValueError(EXCLUDE.format(name, "cv"))
        scorer = None if self.scoring is None else check_scoring(self, self.scoring)
        return limits, kinds, None if most is None else int(most), scorer

    def _check_copies(self, problem):
        """Refuse more cross-fitted copies than there are rows, or groups, to hold out."""
        if self.cross_fit is None:
            return
        groups, unit = problem.groups, "different rows"
        n_units = len(problem.strata)
        if groups is not None:
            n_units, unit = len(np.unique(groups)), "groups"
        if self.cross_fit > n_units:
            raise ValueError(
                f"cross_fit={self.cross_fit} copies each hold out some rows, but there are "
                f"{n_units} {unit}: give a smaller number, such as 5."
            )

    def _rows(self, X, y, sample_weight, groups, exposure):
        """The `TableRows` of positive weight."""
        return TableRows.of(self, X, y, sample_weight, groups)

    def _without_dominant(self, problem, candidates):
        """The problem without targets that have most of the variance."""
        return problem

    def _publish(self, rows, stacked, notes):
        """Set the fitted attributes."""
        table, problem, chosen, last = rows.table, stacked.problem, stacked.chosen, stacked.last
        view = getattr(last.donor, "view_", None)
        held_out = problem.targets.held_out(chosen, problem, view)
        relevances, importances = column_relevances(stacked), Importances.of(stacked, table)
        parts = held_out.losses, relevances, importances
        report = report_of(type(self).__name__, table, stacked, *parts, notes)
        vars(self).update(problem.targets.attributes(held_out.calibration))
        self.table_, self.n_features_in_ = table, table.n_features_in_
        if hasattr(table, "feature_names_in_"):
            self.feature_names_in_ = table.feature_names_in_
        self.models_, self.views_ = [f.model for f in last.fits], [f.view for f in last.fits]
        self.weights_, self.offsets_ = chosen.stack[:2]
        self.background_ = problem.X[even_sample(problem.weights, BACKGROUND)]
        self.chosen_, self.compression_ = stacked.shares(), stacked.compression
        self.encoded_relevances_ = relevances
        if importances is not None:
            self.permutation_importances_ = importances.values
            self.permutation_importances_se_ = importances.errors
        self.traces_ = {e.candidate.name: e.trace for e in stacked.entries if e.trace is not None}
        self.held_out_ = held_out.predictions
        self.plan_, self.seconds_ = stacked.plan, stacked.seconds
        layout = source_layout(table)
        self.column_shares_ = ColumnShares.of(layout, problem.X, rows.X, rows.weights)
        self.report_, self.leaderboard_ = report, report.leaderboard
        self.group_importances_ = report.groups
        self.risk_interval_ = report.risk_interval
        self.risk_interval_kind_ = report.risk_interval_kind

    def _repr_html_inner(self):
        return self._with_report(super()._repr_html_inner())

    def _repr_mimebundle_(self, **options):
        bundle = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_report(bundle["text/html"])
        return bundle

    def _with_report(self, html):
        """scikit-learn's diagram, and the report of a fitted model below it."""
        return html + (self.report_._repr_html_() if hasattr(self, "report_") else "")

    def _fit_rows(self, rows):
        """Fit a stratified sample; then the models of the stack learn all rows, if they can."""
        sample = rows.drawn(seed_of(self.random_state), ridge.EXACT_ROWS, is_classifier(self))
        self.fit(sample.X, sample.y, sample_weight=sample.weights)
        if sample.whole:
            return
        self.models_, fitted, others = fit_source_rows(self, rows, sample)
        self._reach(sample.ends)
        words = f"{self.report_.reason} Chosen on a sample of {len(sample.y)} rows."
        if fitted:
            words += f" Fitted on all {rows.n_rows} rows: {', '.join(fitted)}."
        if others:
            words += f" Fitted on the sample only: {', '.join(others)}."
        self.report_ = self.report_._replace(reason=words)

    def _numbers(self, X):
        """The user's rows as numbers."""
        return self.table_._numbers_for(self, X)

    def _joined(self, X, score):
        """The stack's scores of the user's rows."""
        check_is_fitted(self, "models_")
        X = self._numbers(X)
        pairs = zip(self.views_, self.models_, strict=True)
        scores = (Fitted(*pair).scores(X, score) for pair in pairs)
        total = weighted_sum(self.weights_, scores, self.offsets_)
        return total.astype(X.dtype if X.dtype == np.float32 else np.float64)

    @of_every_label(explanations)
    def explain(self, X: MatrixLike) -> Explanation:
        r"""What each column of X adds to the stack's score of each row: Shapley values.

        .. math:: F(x) = \mathrm{base} + \sum_j \phi_j(x)

        F is the weighted sum of the models' scores: log-odds of the second class or of every class,
        before `calibration_`; or predictions, before they are limited to the range of the targets.
        The base is the mean score of `background_`, at most 100 training rows. Linear models and
        boosted trees are explained exactly. For kernels and models of positive means orders of
        columns are drawn, the same at every call, and followed from the first 10 to 100 of these
        rows (about 1,000 scores for each row): `std_error` is then not None.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        Explanation
            `values`, `base_value`, `score`, `feature_names`, `std_error`. Several labels are
            outputs: `values` has the shape (n_samples, n_features, n_labels).

        Raises
        ------
        ValueError
            For a table of more than 2,000 columns of numbers.

        References
        ----------
        Lundberg et al. 2020, "From local explanations to global understanding with explainable AI
        for trees"; the algorithms are in `tunefree.base.shapley`.

        Examples
        --------
        >>> from tunefree import TuneFreeRegressor
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> model = TuneFreeRegressor(random_state=0).fit(X, X[:, 0] + X[:, 1] ** 2)
        >>> found = model.explain(X[:5])
        >>> bool(np.allclose(found.base_value + found.values.sum(axis=1), found.score))
        True
        """
        terms = terms_of_stack(self)
        flat = len(self.offsets_) == 1 and getattr(self, "flat_", True)
        return terms.explained(as_numbers(self._numbers(X)), flat)

    @of_every_label(list)
    def interactions(self, n_pairs: int = 10) -> list[Interaction]:
        r"""The pairs of columns that interact most in the stack's score, the strongest first.

        With x and b two of the rows `background_`, and :math:`x_{ij}` the row x with columns i and
        j from b, the strength of a pair is

        .. math:: \frac12 \sqrt{\mathrm{E}\left(F(x) - F(x_i) - F(x_j) + F(x_{ij})\right)^2} ,

        which is 0 if the columns add up. Only pairs of the 20 columns of largest effect are
        computed.

        Parameters
        ----------
        n_pairs : int, default=10

        Returns
        -------
        list of Interaction
            `columns`, their `strength` in the units of the score, and its `std_error`. Of several
            labels a list of these lists, one for each.

        References
        ----------
        Liu and Owen 2006, "Estimating mean dimensionality of analysis of variance decompositions".

        Examples
        --------
        >>> from tunefree import TuneFreeRegressor
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> model = TuneFreeRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
        >>> model.interactions(1)[0].columns
        ('x0', 'x1')
        """
        return terms_of_stack(self).interactions(n_pairs)

    @of_every_label(first)
    def column_drift(self, X: MatrixLike) -> list[ColumnDrift]:
        r"""How the distribution of each column of X differs from that of the training rows.

        .. math:: \mathrm{index} = \sum_k (p_k - q_k) \log \frac{p_k}{q_k}

        with the shares p of training rows, and q of the rows of X, in bins: deciles and missing
        values of numbers, levels of categories. Columns of dates and sentences, which differ by
        nature, are not compared.

        Training rows count by their `sample_weight`: whole weights are repetitions, so that a
        weight of 3 is three rows. Other weights, such as those of a survey, count as the
        :math:`(\sum w)^2 / \sum w^2` rows of equal weight that are as uncertain: their unit is
        free. The rows of X count once each.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        list of ColumnDrift
            `column`, `index` (the population stability index), `p_value` (of the chi-squared test,
            with neighbouring bins joined until five rows are expected in each)
            and `differs`: index above .25, and p_value below .001 over the number of columns.

        Raises
        ------
        ValueError
            For a model of more than 2,000 columns of numbers.

        References
        ----------
        Siddiqi 2006, "Credit risk scorecards".

        Examples
        --------
        >>> from tunefree import TuneFreeRegressor
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = TuneFreeRegressor(random_state=0).fit(X, X[:, 0] + X[:, 1] ** 2)
        >>> [one.column for one in model.column_drift(X + [0.0, 2.0]) if one.differs]
        ['x1']
        """
        check_is_fitted(self, "models_")
        if self.column_shares_ is None:
            raise ValueError("column_drift is for at most 2,000 columns of numbers.")
        layout = source_layout(self.table_)
        counts = self.column_shares_.count(layout, self._numbers(X))
        return self.column_shares_.drift(layout, counts)

    def _model_state(self):
        """The attributes that a model file keeps: no times, so that equal fits give equal files."""
        state = {name: vars(self)[name] for name in sorted(fitted_names(self))}
        if "report_" not in state:  # of several labels: each model has its own
            return state
        report = self.report_.timeless()
        return state | {"report_": report, "leaderboard_": report.leaderboard, "seconds_": None}

    @property
    @of_every_label(np.stack)
    def feature_relevances_(self) -> np.ndarray:
        """How much each column of X influences the predictions, shape (n_features,), sum 1.

        The columns' shares of the mean squared change of the prediction when one column alone is
        drawn from another row (for a linear model: coefficient times deviation, squared). Of a
        stack it is the mean over its models, weighted by their shares. Units do not matter. How
        much a column improves predictions of new rows is another question: see
        `permutation_importances_`.
        """
        return of_source_columns(self._column_relevances(), self.table_)

    @property
    @of_every_label(list)
    def level_relevances_(self) -> dict[str, dict[str, float]]:
        """The shares of the levels of every column of categories, by name."""
        each, table = self._column_relevances(), self.table_
        names = _check_feature_names_in(table).tolist()
        out = {}
        for j in np.flatnonzero(table.kinds_ == "category").tolist():
            levels = [*table.levels_[str(j)], "(rare)"]
            shares = each[table.sources_ == j].tolist()
            out[names[j]] = dict(zip(levels, shares, strict=False))
        return out

    @property
    @of_every_label(np.stack)
    def feature_importances_(self) -> np.ndarray:
        """`feature_relevances_`, under scikit-learn's name: shape (n_features,), sum 1."""
        return self.feature_relevances_

    @property
    @of_every_label(np.stack)
    def coef_(self) -> np.ndarray:
        """Coefficients, where the stack is linear in the columns of `table_`.

        Every model is then linear, and there is no `calibration_`.

        Shape (n_columns_out,), for several targets or for classes (n_outputs, n_columns_out), of
        the columns that `coef_names_` names: within the models' limits predictions, or log-odds,
        are ``table_.transform(X) @ coef_.T + intercept_``.
        """
        return self._line()[0]

    @property
    @of_every_label(np.stack)
    def intercept_(self) -> np.ndarray:
        """The intercept of `coef_`: a number, or one for each output."""
        return self._line()[1]

    @property
    @of_every_label(first)
    def coef_names_(self) -> np.ndarray:
        """The names of the columns of `coef_`."""
        check_is_fitted(self, "models_")
        return self.table_.get_feature_names_out()

    def _line(self):
        coef, intercept = line_of_stack(self)
        return base.of_targets(not is_classifier(self) and self.flat_, coef, intercept)

    def _column_relevances(self):
        check_is_fitted(self, "models_")
        if not len(self.encoded_relevances_):
            raise AttributeError("No model of this stack has relevances of columns.")
        return self.encoded_relevances_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


class KnownScores(NamedTuple):
    """Held-out scores in place of a preprocessor and a model: predictions of these rows alone."""

    scores: np.ndarray
    classes_: Any

    def _numbers_for(self, estimator, X):
        """The scores of the rows."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if n != len(self.scores):
            raise ValueError(
                f"the scorer asks for predictions of {n} rows, and there are held-out predictions "
                f"of {len(self.scores)}: ask for those of all rows that it gets."
            )
        return self.scores

    def decision_function(self, X):
        """The scores of all rows."""
        return self.scores

    predict = decision_function


def takes_weights(scorer):
    """Whether a scorer of scikit-learn, or any function of (estimator, X, y), takes weights."""
    function = getattr(scorer, "_score_func", scorer)
    try:
        return "sample_weight" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function of C without a signature
        return True


class ScoredRows(NamedTuple):
    """The held-out rows as a scorer gets them."""

    X: Any  # the user's
    targets: np.ndarray
    places: np.ndarray  # of each among the distinct held-out rows
    weights: dict[str, Any]  # 'sample_weight', for a scorer that takes it

    @classmethod
    def of(cls, scorer, name, X, rows, problem, held):
        """Rows of weights, or for a scorer without weights each as often as the table has it."""
        _, y, weights = problem.part(held)
        classes = getattr(problem.targets, "classes", None)
        targets, numbers = y if classes is None else classes[y], problem.numbers[held]
        if takes_weights(scorer):
            places = np.arange(len(held))
            return cls(_safe_indexing(X, numbers), targets, places, {"sample_weight": weights})
        counts = weights / rows.weights[0]
        are_equal, whole = np.ptp(rows.weights) == 0.0, np.maximum(np.round(counts), 1.0)
        if not are_equal or not np.allclose(counts, whole):
            warn(f"scoring={name} takes no sample_weight: rows of all weights count alike in it.")
            whole = np.ones(len(held))
        places = np.repeat(np.arange(len(held)), whole.astype(np.int64))
        return cls(_safe_indexing(X, numbers[places]), targets[places], places, {})


def choose_by_score(estimator, scorer, chosen, entries, problem, X, rows):
    """The stack, or a candidate of a higher held-out score, and the scores of all candidates.

    The scorer gets copies of the estimator that predict the held-out rows of the user's table X, of
    which `rows` are the `TableRows`.
    """
    scores, classes = {}, getattr(problem.targets, "classes", None)
    _, y, weights = problem.part(chosen.rows)
    scoring = estimator.scoring
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", repr(scoring))
    given = ScoredRows.of(scorer, name, X, rows, problem, chosen.rows)

    def score_of(one):
        known, model = KnownScores(one.scores()[given.places], classes), copy.copy(estimator)
        stack = {"models_": [known], "views_": [()], "weights_": np.ones(1)}
        stack |= {"table_": known, "offsets_": np.zeros(known.scores.shape[1])}
        vars(model).update(with_limit_of_stack(problem, one).targets.attributes() | stack)
        try:
            return float(scorer(model, given.X, given.targets, **given.weights))
        except ValueError as error:
            raise ValueError(f"scoring={scoring!r}: {error}") from error

    of_stack = score_of(chosen)
    best, highest = chosen, of_stack
    for entry in finished(entries):
        candidate = entry.candidate.name
        alone = Chosen(problem.score.stack([entry.scores], y, weights), [entry], candidate)
        scores[candidate] = score_of(alone)
        if scores[candidate] > highest:
            best, highest = alone, scores[candidate]
    reason, winner = chosen.reason, "the stack."
    if best is not chosen:  # the report names the model that is used
        reason = f"Chosen: {best.reason!r} 100%."
        winner = f"{best.reason!r}, {number(of_stack)} for the stack of least loss."
    words = f"Best {name} on held-out rows: {number(highest)} for {winner}"
    return best._replace(reason=f"{reason} {words}"), scores


class StackCompression(NamedTuple):
    """What fewer landmarks cost."""

    n_landmarks: int  # the most of a kernel
    loss_before: float  # mean held-out loss of the stack, with all landmarks
    loss_after: float  # and with fewer
    standard_error: float  # of their difference


def compress_stack(before, problem, most):
    """The `Chosen` stack of the same kernels with at most so many landmarks, and what it costs."""
    entries = [e.candidate.compressed(e, problem, most) for e in before.entries]
    after, weights = choose_stack(entries, problem), problem.weights[before.rows]
    groups = problem.groups_of(before.rows)
    _, error = weighted_mean(after.stack.losses - before.stack.losses, weights, groups)
    old, new = (float(weighted_mean(c.stack.losses, weights)[0]) for c in (before, after))
    words = (
        f"{before.reason} With at most {most} landmarks: {after.reason} The loss was {number(old)} "
        f"and is now {number(new)} (standard error of the difference {number(float(error), 2)})."
    )
    return after._replace(reason=words), StackCompression(most, old, new, float(error))


def cross_fitted(estimator, X, y, problem):
    """Copies of a stack, each fitted without its fold, with predictions of the fold."""
    if estimator.cross_fit is None:
        return []
    numbers, weights, groups, copies = problem.numbers, problem.weights, problem.groups, []
    one: Any = clone(estimator).set_params(cross_fit=None)
    if isinstance(estimator.budget, Plan):  # it is of all rows
        one.set_params(budget=None)
    if getattr(estimator, "class_weight", None) is not None:  # the weights include it
        one.set_params(class_weight=None)
    fold, count = folds_of(problem.strata, groups, int(estimator.cross_fit))

    def part(rows):
        return _safe_indexing(X, numbers[rows]), _safe_indexing(y, numbers[rows]), weights[rows]

    for f in range(count):
        others = np.flatnonzero(fold != f)
        of_others = None if groups is None else groups[others]
        with ignore_outlier_warnings():
            fitted = clone(one).fit(*part(others), groups=of_others)
        held_out = estimator._copy_held_out(fitted, *part(np.flatnonzero(fold == f)))
        copies.append((fitted, held_out))
    return copies


class TuneFreeClassifier(LabelModels, PredictsSets, base.LabelsByDecisions, _TuneFree):
    r"""Classification in one call: a stack of models that are compared on held-out rows.

    It takes any table: arrays, sparse matrices, and pandas, polars or pyarrow frames with text,
    categories, dates and missing values. The candidates are kernels with a geometry learned
    from the data, boosted trees, ridge regression on ranks and levels, and linear PiSTOL. Each one
    predicts held-out rows: every row below 2,000 rows, else a fifth of them (at most 5,000). The
    model is the weighted sum of candidates with the least log-loss on these rows.

    Parameters
    ----------
    candidates : 'all' or sequence of {'linear', 'kernel', 'trees'}, default='all'
        The kinds of candidates to evaluate.
    budget : float, str, Plan or None, default=None
        Seconds for evaluation and fitting. They are seconds of a reference core, computed from the
        data's shape, so that the choice is the same on every machine (None: 300). Text such as
        '60s' is clock time from the call on; the machine's speed is then measured first.
        Candidates beyond the budget are made smaller or skipped, the most expensive first, before
        any work starts (`plan_`); the cheapest one always runs. A plan of another fit is followed.
    max_memory : float, str or None, default=None
        Bytes that the fit may take in addition to the data, or text such as '2GB'. Candidates that
        need more are made smaller or skipped. None: three quarters of what the process may have.
    categorical_features : array-like, 'from_dtype' or None, default='from_dtype'
        Columns of numbers that are categories: a mask, positions or names. Text and columns of a
        category type always are. Columns of 3 to 30 whole numbers are used as numbers and as
        levels, declared or not.
    merge_levels : bool, default=False
        Whether nearly equal levels, such as 'Berlin', 'berlin' and 'Berlni', become the most
        frequent one of them; `report_` names them.
    schema : dict or None, default=None
        What is known of some columns: see `TablePreprocessor`. Others are learned (`schema_`).
    on_bad_cell : {'missing', 'error'}, default='missing'
        What a cell is that is not of its column's kind, such as text among numbers. Missing ones
        are counted in a `DataWarning`, in `fit` and for new rows.
    compress : int or None, default=None
        The most landmarks of each kernel: fewer make predictions proportionally faster.
        `compression_` reports the held-out loss before and after.
    cross_fit : int or None, default=None
        The number of folds for copies of the stack, each fitted without its fold: sets and
        intervals (`predict_set`, `predict_interval`) then have a guarantee for finitely many rows.
        The fit takes so many times longer.
    scoring : str, callable or None, default=None
        A scorer of scikit-learn ('roc_auc', 'balanced_accuracy', ...), or a function of (estimator,
        X, y). A single candidate replaces the stack if its score on held-out rows is higher;
        `leaderboard_` has every 'score'. A scorer need not take `sample_weight`: then rows of all
        weights count alike in it, with a warning.
    cv : 'time', int, splitter of scikit-learn, iterable or None, default=None
        The rows to hold out, in place of the automatic folds. 'time' holds out later rows
        (``TimeSeriesSplit()``), by the first column of dates, or without one by the order of rows;
        training rows are of earlier dates, and rows without a date are not held out. No row may be
        held out twice. All candidates are then fitted fold by fold. Model files keep no splitter
        and no callable.
    class_weight : dict, 'balanced' or None, default=None
        Weights of classes, which multiply those of rows. Probabilities are those of a population
        with these weights.
    monotonic_cst : array-like of int of shape (n_features,) or dict of str to int, default=None
        1 for columns of numbers in which the probability of the second of two classes does not
        decrease, -1 where it does not increase, 0 for others; or the signs of some columns by
        name. The candidates are boosted trees and a GLM, which keep them.
    n_jobs : int or None, default=None
        Threads of kernels and trees, all by default; results do not depend on it.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    chosen_ : dict of str to float
        The models of the stack by name, the largest first, and their shares: weight times size of
        their scores. They sum to 1.
    models_ : list of estimator
        These models, fitted on the class numbers of all rows.
    views_ : list of tuple of parts
        The transformations of columns before each of `models_`.
    weights_ : ndarray of shape (n_models,)
    offsets_ : ndarray of shape (1,) or (n_classes,)
        The log-odds are the offsets plus the weighted sum of the models' log-odds.
    feature_relevances_ : ndarray of shape (n_features,)
        How much each column influences predictions, whatever its unit; they sum to 1.
    feature_importances_ : ndarray of shape (n_features,)
        The same, under scikit-learn's name.
    coef_, coef_names_, intercept_ : ndarray
        If every model of the stack is linear, without `calibration_`: coefficients of the columns
        that `table_` makes, their names, and the intercepts.
    level_relevances_ : dict of str to dict
        The same for the levels of every column of categories.
    encoded_relevances_ : ndarray of shape (n_columns_out,)
        The same for the columns that `table_` makes; empty if no model has relevances.
    permutation_importances_ : ndarray of shape (n_features,)
        How much the stack's held-out loss (log-loss, squared error) grows when a column is
        permuted: how much the column improves predictions of new rows. No model is fitted for it.
        Missing if a model of the stack was fitted on sparse rows or fold by fold.
    permutation_importances_se_ : ndarray of shape (n_features,)
        Their standard errors for this model, over at most 1,000 held-out rows.
    group_importances_ : list of dict
        The same for groups of correlated columns that are permuted together: 'columns' (of every
        pair the absolute Spearman correlation is .7 or more), 'importance', 'importance_se'.
    background_ : ndarray or CSR of shape (at most 100, n_columns_out)
        Training rows, evenly drawn by weight, as `table_` transforms them: `explain` compares with
        them.
    compression_ : part or None
        With `compress`: n_landmarks, loss_before, loss_after and the standard_error of their
        difference (for kernel PiSTOL see its own `compression_`).
    risk_interval_ : tuple of float or None
        An interval for the share of errors on new rows (95 %); `risk_interval_kind_` is its method.
    held_out_ : part
        The stack's held-out probabilities.
    label_models_ : list of TuneFreeClassifier
        Of several labels (y of shape (n_samples, n_labels)): the model of each. Importances and
        coefficients then have a row for each label, `explain` has the labels as outputs, and
        `report_`, `leaderboard_`, `risk_interval_` and others are lists with an entry for each.
        What a single stack is made of (`models_`, `weights_`, ...) only these models have.
    calibration_ : part or None
        A slope and an offset for each of several classes, if they improve held-out probabilities.
    copies_ : list
        With `cross_fit`: the copies, each with its held-out predictions.
    table_ : TablePreprocessor
    leaderboard_ : list of dict
        For every candidate, those in the stack first: 'risk' (share of errors on held-out rows),
        its standard error 'risk_se' and 'risk_interval', its 'log_loss', its 'share' of the stack,
        'seconds' of its evaluation, 'cost' (its planned seconds), 'rows' scored, 'chosen',
        'status'.
    column_shares_ : part
        The shares of training rows in the deciles or levels of each column, with which
        `column_drift` compares new rows.
    plan_ : Plan
        The candidates, their limits, and their cost in seconds and bytes at most, fixed before any
        work started. Given as `budget=` it is followed again.
    traces_ : dict of str to dict
        For candidates that predict every row before they learn it: 'rows' seen and 'risk' so far.
    report_ : part
        What was stacked and why, findings about the data (`notes`), and the most important columns:
        text in the shell, tables in notebooks.
    seconds_ : float
        Duration of the fit. Model files keep no times (also none of `leaderboard_` and `report_`),
        so that fits with equal seeds give equal files.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Raises
    ------
    ValueError
        For infinite values, labels of one class, weights that are all zero, a single group.
    MemoryError
        Before work starts, if `max_memory` is too little for any candidate.

    Warns
    -----
    DataWarning
        For what a person should look at: a column that alone predicts nearly all of the target, one
        that identifies rows, constant columns, nearly equal levels, repeated rows with different
        targets; rows sorted by target, if `cv` holds them out in this order; rows in the order of
        dates, if they are held out at random. ``report_.notes`` keeps the sentences.

    References
    ----------
    Blum, Kalai and Langford 1999, "Beating the hold-out"; the rule is in docs/selection.md.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import TuneFreeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = TuneFreeClassifier(candidates=("linear",), random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

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
        class_weight: Any = None,
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
        self.class_weight = class_weight
        self.monotonic_cst = monotonic_cst
        self.verbose = verbose
        self.random_state = random_state

    def _fit(self, X, y, sample_weight, groups, exposure=None):
        y = complete(y)
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
        if len(shape) < 2 or shape[1] < 2:
            return super()._fit(X, y, sample_weight, groups)
        if type_of_target(y) != "multilabel-indicator":
            raise ValueError(
                f"y has {shape[1]} columns that are not 0 and 1. Several labels are given as 0 and "
                "1; to fit a model for each column use MultiOutputClassifier(TuneFreeClassifier()) "
                "of scikit-learn."
            )
        labels = np.asarray(as_dense(y)).T
        for j, label in enumerate(labels):
            if np.ptp(label) == 0:
                raise ValueError(f"Column {j} of y has one class only: all rows are {label[0]}.")
        one: Any = clone(self)
        models = [clone(one).fit(X, label, sample_weight, groups) for label in labels]
        forget_fit(self)
        classes: Any = [model.classes_ for model in models]
        self.label_models_, self.classes_ = models, classes
        self.n_features_in_ = models[0].n_features_in_
        if hasattr(models[0], "feature_names_in_"):
            self.feature_names_in_ = models[0].feature_names_in_
        return self

    def _problem(self, rows, y):
        seed, (classes, codes) = seed_of(self.random_state), base.encode_labels(rows.y, fewest=2)
        weights = base.balanced(self.class_weight, classes, codes, rows.weights)
        rows, signs = rows._replace(weights=weights), rows.signs(self.monotonic_cst)
        distinct = rows.distinct(codes[:, None].astype(float), seed)
        if signs is not None and len(classes) > 2:
            raise ValueError(f"monotonic_cst= needs two classes: y has {len(classes)}.")
        score, targets = Classes(len(classes)), ClassTargets(classes)
        return rows.problem(distinct, codes, codes, score, seed, signs=signs, targets=targets)

    def _copy_held_out(self, copy, X, y, weights):
        return HeldOutProbabilities(
            self._of_copy(copy, X), np.searchsorted(self.classes_, y), weights
        )

    def _log_odds(self, X):
        check_is_fitted(self, "models_")
        return log_odds(self.calibration_, self._joined(X, Classes(len(self.classes_))))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, of every class, or of every label.

        The shape is (n_samples,), (n_samples, n_classes) or (n_samples, n_labels).
        """
        if hasattr(self, "label_models_"):
            return np.column_stack([model.decision_function(X) for model in self.label_models_])
        return base.squeezed(self._log_odds(X))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most likely class of every row, or of several labels a column of 0 and 1 each."""
        if hasattr(self, "label_models_"):
            return np.column_stack([model.predict(X) for model in self.label_models_])
        return super().predict(X)

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Calibrated probabilities of the classes, shape (n_samples, n_classes), or of the labels.

        Probabilities of several labels have the shape (n_samples, n_labels).
        """
        if hasattr(self, "label_models_"):
            return expit(self.decision_function(X))
        return base.probabilities(self._log_odds(X), joint=True)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class TuneFreeRegressor(TakesExposures, RegressorMixin, MultiOutputMixin, _TuneFree):
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
          deviance.

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
        if isinstance(family, HuberT):
            return family
        if family is not None and family.range == (0.0, np.inf) and family.exposure == "rate":
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
        exposure, family = row_term(exposure, np.asarray(y), "exposure")[rows.kept], self._family()
        if self.loss == "squared_error" or not family.exposure:
            raise ValueError(f"loss={self.loss!r} takes no exposure=: use a loss of counts.")
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
        distinct = rows.distinct(given, seed)
        targets = clip_outliers(given, distinct[0], EXTREME)
        every = as_columns(y) if rows.exposure is None else given
        warn_of_changes(given, targets, every, "y")
        family, is_flat = self._family(), rows.y.ndim == 1
        score = self._score(family, targets, rows.weights)
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

    def _without_dominant(self, problem, candidates):
        """The problem without dominant targets: see `robust.limit_dominant`.

        They are limited about the median, and then about the held-out predictions of the cheapest
        candidate, which has learned the limited ones.
        """
        y, weights = problem.y, problem.weights
        if not isinstance(problem.score, Targets) or y.ndim > 1 or len(y) < _FEWEST_LIMITED:
            return problem
        limited = limit_dominant(y, np.full(len(y), np.median(y)), weights)
        changed = np.flatnonzero(limited != y)
        if not len(changed):
            return problem
        with ignore_outlier_warnings():
            entry = candidates[0].evaluate(problem._replace(y=limited), [])
        held = np.isin(changed, entry.rows)
        if held.all() and len(entry.losses):
            centres = np.full(len(y), np.median(y))
            centres[entry.rows] = entry.scores[:, 0]
            limited = np.where(limited != y, limit_dominant(y, centres, weights), y)
        if (limited == y).all():
            return problem
        warn_of_dominant(y, limited, problem.numbers)
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

    def predict(self, X: MatrixLike, exposure: ArrayLike | None = None) -> np.ndarray:
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets or n_quantiles).

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        exposure : array-like of shape (n_samples,), optional
            As in `fit`: predictions are rates times the exposure.

        Returns
        -------
        ndarray
        """
        raw = self._joined(X, Targets(np.ones(1)))
        y = NumberTargets(self.family_, self.prediction_limits_).limited(raw)
        y = over_exposure(y, exposure)
        return y[:, 0] if self.flat_ else y
