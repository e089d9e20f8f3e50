"""What both estimators of stacks share: `fit`, the joint scores, and explanations."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.explanations import BACKGROUND, Explanation, Interaction, as_numbers
from tunefree.base.from_source import FitsSums
from tunefree.base.labels import explanations, first, of_every_label
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.reading import fitted_names, forget_fit
from tunefree.core.parameters import seed_of
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.core.warn import findings_kept
from tunefree.held_out.predictions import finished
from tunefree.held_out.stacking import (
    choose_stack,
    weighted_sum,
    with_limit_of_stack,
    with_loss_of_stack,
    with_sum_of_all_rows,
)
from tunefree.kernel_ridge import solvers as ridge
from tunefree.rows.checks import ColumnDrift, ColumnShares, ignore_outlier_warnings, warn_of
from tunefree.rows.matrices import check_frame
from tunefree.rows.missing import complete
from tunefree.rows.order import even_sample
from tunefree.rows.preprocessing import of_source_columns, source_layout
from tunefree.rows.row_labels import warn_of_row_labels
from tunefree.stack.candidates import Fitted
from tunefree.stack.compression import compress_stack
from tunefree.stack.copies import check_copies, cross_fitted
from tunefree.stack.costs import Limits
from tunefree.stack.drawn import drawn_rows, most_rows_to_read, part_of, warn_of_drawn
from tunefree.stack.evaluation import (
    Round,
    fit_all_rows,
    is_better,
    plan_candidates,
    rows_to_learn,
)
from tunefree.stack.explain import line_of_stack, terms_of_stack
from tunefree.stack.from_source import fit_source_rows
from tunefree.stack.problem import EXCLUDE, StackProblem, TableRows
from tunefree.stack.report import (
    Importances,
    Stacked,
    column_relevances,
    level_relevances,
    report_of,
)
from tunefree.stack.scoring import choose_by_score
from tunefree.stack.suited import make_candidates

_KINDS = ("linear", "kernel", "trees")


class TuneFreeStack(FitsSums, CallbackSupport, BaseEstimator):
    """A stack of learners; subclasses define the abstract methods."""

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

    def _look_at_labels(self, arguments):
        """Do nothing: `_fit` does, and keeps what is found."""

    def _fit(self, X, y, sample_weight, groups, exposure=None):
        """Fit rows, in regression with their exposure."""
        check_frame(X)
        as_given, y = y, complete(y)
        forget_fit(self)
        limits, kinds, n_landmarks, scorer = self._checked()
        with findings_kept() as notes:
            beside = {"y": as_given, "sample_weight": sample_weight, "exposure": exposure}
            warn_of_row_labels(X, **beside, groups=groups)
            sample_weight = complete(sample_weight, "sample_weight")
            X, y, sample_weight, n_read = self._read_in_time(
                X, y, sample_weight, limits, kinds, groups is None and exposure is None
            )
            rows, whole = self._rows_and_problem(X, y, sample_weight, groups, exposure)
            check_copies(self.cross_fit, whole)
            n = rows_to_learn(limits, whole, kinds, self.n_jobs)
            planned = self._planned(whole, n, limits, kinds, n_landmarks)
        with ignore_outlier_warnings():
            found = planned.evaluated(self._progress)
            while (n := found.rows_for_more(whole.shape.n)) is not None:
                larger = self._planned(whole, n, limits, kinds, n_landmarks)
                larger = larger.evaluated(self._progress)
                if not is_better(larger, found):
                    break
                found = larger
            stacked = self._stacked(found, scorer, n_landmarks, X, rows)
        plan, seconds = found.schedule.result()._replace(read=n_read), limits.clock.spent()
        self._publish(rows, stacked._replace(plan=plan, seconds=seconds), tuple(map(str, notes)))
        self.copies_ = cross_fitted(self, X, y, stacked.problem, limits)
        return self

    def _planned(self, whole, n, limits, kinds, n_landmarks):
        """The `Round` of n rows, not yet evaluated."""
        problem = whole.sampled(n)
        candidates, skipped = make_candidates(problem, kinds, self.n_jobs, n_landmarks)
        schedule = plan_candidates(candidates, limits, problem)
        return Round(self._without_dominant(problem, schedule.candidates), schedule, skipped)

    def _stacked(self, found, scorer, n_landmarks, X, rows):
        """The stack of the candidates of a `Round`, fitted to all of its rows."""
        problem, entries = with_loss_of_stack(found.problem, found.entries)
        chosen, scores, compression = choose_stack(entries, problem), {}, None
        if scorer is not None and finished(entries):
            given = chosen, entries, problem, X, rows
            chosen, scores = choose_by_score(self, scorer, *given)
        if n_landmarks is not None and finished(entries):
            chosen, compression = compress_stack(chosen, problem, n_landmarks)
        last = fit_all_rows(chosen, entries, problem, found.schedule, self._progress)
        chosen = with_sum_of_all_rows(chosen, last.fits, problem)
        problem = with_limit_of_stack(problem, chosen)
        return Stacked(problem, entries, chosen, last, found.skipped, scores, compression)

    def _read_in_time(self, X, y, sample_weight, limits, kinds, are_single):
        """The rows that the time suffices to read, and their number, None if these are all.

        All rows are read if they are not single ones: if they have groups, splits, or an exposure.
        """
        most, rows = None, None
        if are_single and self.cv is None:
            most = most_rows_to_read(self, X, y, limits, kinds)
        if most is not None:
            rows = drawn_rows(self, X, y, sample_weight, most)
        if rows is None:
            return X, y, sample_weight, None
        warn_of_drawn(len(rows), len(y))
        return *part_of(rows, X, y, sample_weight), most

    def _rows_and_problem(self, X, y, sample_weight=None, groups=None, exposure=None):
        """The `TableRows` and the `StackProblem`, with a warning of every finding about them."""
        rows = self._rows(X, y, sample_weight, groups, exposure)
        problem = self._problem(rows, y)
        if "_known_table" not in vars(self):  # else it has warned
            rows.table._warn_of_columns(rows.remarks)
        rows = rows.complete()
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
            planned = self._planned(problem, problem.shape.n, limits, kinds, n_landmarks)
        return planned.schedule.plan, notes

    @property
    def schema_(self) -> Any:
        """What each column is, and how its cells are written: see `TablePreprocessor`."""
        check_is_fitted(self, "table_")
        return self.table_.schema_

    def _checked(self):
        """`Limits` of time and memory, kinds of candidates, most landmarks, and the scorer."""
        n_fits = 1 if self.cross_fit is None else 1 + int(self.cross_fit)
        limits = Limits(self.budget, self.max_memory, n_fits)
        given = self.candidates
        most = self.compress
        kinds = _KINDS if isinstance(given, str) and given == "all" else tuple(given)
        if not kinds or not set(kinds) <= set(_KINDS):
            raise ValueError(f"candidates={given!r} is neither 'all' nor some of {_KINDS}.")
        is_count = isinstance(most, int | np.integer) and most > 0
        if most is not None and not is_count:
            raise ValueError(f"compress={most!r} is not a number of landmarks: a positive integer.")
        for name in ("compress", "cross_fit"):
            if self.cv is not None and getattr(self, name) is not None:
                raise ValueError(EXCLUDE.format(name, "cv"))
        from sklearn.metrics import check_scoring

        scorer = None if self.scoring is None else check_scoring(self, self.scoring)
        return limits, kinds, None if most is None else int(most), scorer

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
        self._learns_source = not sample.whole
        try:
            self.fit(sample.X, sample.y, sample_weight=sample.weights)
        finally:
            del self._learns_source
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
        times = {"seconds_": None, "plan_": report.plan}
        return state | {"report_": report, "leaderboard_": report.leaderboard} | times

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
        return level_relevances(self._column_relevances(), self.table_)

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
