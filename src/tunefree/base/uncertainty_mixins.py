"""Uncertainty of every fitted estimator: intervals, sets, risks and coefficients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from tunefree.base import base
from tunefree.base.labels import by_rows, of_every_label, pairs_by_rows
from tunefree.base.locks import Threaded
from tunefree.core.format import listed
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.core.warn import warn
from tunefree.rows.columns import as_table
from tunefree.rows.levels import TableColumns, check_reference
from tunefree.rows.matrices import as_columns, as_rows, check_frame
from tunefree.rows.missing import complete
from tunefree.rows.order import row_hash
from tunefree.rows.row_labels import matched_by_place
from tunefree.uncertainty import risk
from tunefree.uncertainty.calibration import VennAbers
from tunefree.uncertainty.coefficients import Anova, Summary
from tunefree.uncertainty.inference import CoefficientFit, inferred
from tunefree.uncertainty.intervals import (
    HeldOutPredictions,
    HeldOutProbabilities,
    allowance,
    atoms,
    intervals,
    plus_interval,
    plus_set,
    rates,
    within_ranges,
)
from tunefree.uncertainty.kept import ONE_TARGET, KeptFits
from tunefree.uncertainty.ranges import TargetRange
from tunefree.uncertainty.samples import CovarianceOptions
from tunefree.uncertainty.terms import ANOVA_TYPES, terms_tested

# Most rows of atoms whose final predictions are compared with the held-out ones.
_MOST_ATOM_ROWS = 5000
NOTHING = (
    "This {} has no held-out predictions: give more rows to `fit`, or a share of them to hold out."
)


def _held_out(estimator):
    check_is_fitted(estimator)
    if getattr(estimator, "held_out_", None) is None:
        raise ValueError(NOTHING.format(type(estimator).__name__))
    return estimator.held_out_


class RiskIntervalMixin:
    """An estimator with an interval for its risk.

    Its basis is `held_out_`: `HeldOutProbabilities`, `HeldOutPredictions`, or `Residuals`.
    """

    held_out_: Any

    def _risk(self):
        held_out = getattr(self, "held_out_", None)
        if held_out is None:
            return risk.held_out(np.empty(0), np.empty(0), bounded=False)
        if isinstance(held_out, HeldOutProbabilities):
            groups = held_out.groups
            return risk.held_out(held_out.wrong(), held_out.weights, bounded=True, groups=groups)
        if not isinstance(held_out, HeldOutPredictions):
            held_out = HeldOutPredictions.of_residuals(held_out)
        more = {"spent": self._searched(), "groups": held_out.groups}
        return risk.held_out(held_out.losses(), held_out.weights, bounded=False, **more)

    def _searched(self) -> float:
        """Return q / (2 n) for q parameters that a search fitted to the n held-out rows."""
        return 0.0

    @property
    def risk_interval_(self) -> tuple[float, float] | None:
        """Interval (95 %) for the share of errors, or the mean squared error, on new rows."""
        return self._risk()[0]

    @property
    def risk_interval_kind_(self) -> str:
        """The method of `risk_interval_`, and what is known of it."""
        return self._risk()[1]


class PredictsIntervals(Threaded):
    """A regressor with intervals.

    A subclass has `held_out_`: a `Residuals` of every target, or `HeldOutPredictions`.
    """

    held_out_: Any

    predict: Callable[..., np.ndarray]

    def _columns_of(self, X: Any) -> Any:
        """The columns for the local scale; None if it depends on the prediction alone."""
        return None

    def predict_interval(
        self, X: MatrixLike, alpha: float | ArrayLike = 0.1, *, joint: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predictions, and intervals that hold the target in 1 - alpha of new rows.

        The width of an interval about its prediction comes from the errors on held-out rows, and
        varies with the row where that is better. docs/guide/sure.md has the guarantees and
        measurements.

        Parameters
        ----------
        X : as for `predict`
        alpha : float or array-like of shape (n_alpha,), default=0.1
            The miss rate: the share of targets outside.
        joint : bool, default=False
            With several targets: all of a row's lie within in 1 - alpha of rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
        intervals : ndarray of shape (n_samples, 2, n_alpha) or (n_samples, n_targets, 2, n_alpha)
            Infinite, with a warning, where held-out rows are fewer than 1 / alpha - 1.

        Raises
        ------
        ValueError
            If there are no held-out predictions, or alpha is not between 0 and 1.
        """
        return self._intervals(X, self.predict(X), alpha, joint)

    def _intervals(self, X, y, alpha, joint, unit=1.0):
        """Intervals about predictions; `unit`: the rows' standard deviations, up to a factor."""
        alphas, parts, predictions = rates(alpha), self._parts(), y.reshape(len(y), -1)
        copies = getattr(self, "copies_", None)
        if copies:
            out = self._plus(X, copies, predictions.shape, alphas, joint)
        else:
            out = intervals(parts, predictions, unit * self._sigma(X, predictions), alphas, joint)
        out = self._possible(within_ranges(parts, out, predictions))
        return y, out[:, 0] if y.ndim == 1 else out

    def _after_fit(self, X, y, sample_weight):
        """Let intervals keep the targets' range, and allow for atoms.

        The allowance follows from the final model's predictions of the rows of atoms.
        """
        held_out = vars(self).get("held_out_")
        if held_out is None:
            return
        targets = as_columns(y)
        weights = np.ones(len(targets))
        if sample_weight is not None:
            weights = weights * np.asarray(complete(sample_weight, "sample_weight"), np.float64)
        self._set_ranges([TargetRange.of(column[weights > 0.0]) for column in targets.T])
        # Pearson residuals of equal targets differ with the exposure: they have no atoms.
        if getattr(held_out, "unit", None) is not None:
            return
        values = [atoms(column, weights) for column in targets.T]
        if not any(map(len, values)):
            return
        has_atom = np.any([np.isin(*pair) for pair in zip(targets.T, values, strict=True)], axis=0)
        rows, final = self._final_predictions(X, np.flatnonzero(has_atom & (weights > 0.0)))

        def extra(j, predictions, of_these, held_weights):
            one = 0 if targets.shape[1] == 1 else j  # all quantiles predict the one target
            of_final = final[:, j], targets[rows, one], weights[rows]
            return allowance((predictions, of_these, held_weights), of_final, values[one])

        held_out = self.held_out_
        if isinstance(held_out, HeldOutPredictions):
            columns = zip(held_out.predictions.T, held_out.targets.T, strict=True)
            of_columns = [extra(j, *pair, held_out.weights) for j, pair in enumerate(columns)]
            self.held_out_ = held_out._replace(allowance=np.stack(of_columns, axis=1))
            return
        self.held_out_ = tuple(
            part._replace(
                allowance=extra(j, part.targets - part.residuals, part.targets, part.weights)
            )
            for j, part in enumerate(held_out)
        )

    def _set_ranges(self, ranges):
        """Set the range of every target, which intervals keep."""
        held_out = self.held_out_
        if isinstance(held_out, HeldOutPredictions):
            ranges = ranges if len(ranges) > 1 else ranges * held_out.targets.shape[1]
            self.held_out_ = held_out._replace(ranges=tuple(ranges))
            return
        ranges = ranges if len(ranges) > 1 else ranges * len(held_out)  # all quantiles have one
        pairs = zip(held_out, ranges, strict=True)
        self.held_out_ = tuple(part._replace(range=known) for part, known in pairs)

    def _join_ranges(self, ends):
        """Let intervals keep the range of more targets: the lowest and highest, shape (2, k)."""
        known = [part.target_range() for part in self._parts()]
        pairs = zip(known, np.broadcast_to(ends, (2, len(known))).T, strict=True)
        self._set_ranges([one.joined(*limits) for one, limits in pairs])

    def _final_predictions(self, X, rows):
        """Final predictions and their rows; of 5,000 rows where predicting is slow."""
        X = as_table(X, vars(self).get("feature_names_in_"))
        X = X if hasattr(X, "columns") else as_rows(X)
        if len(rows) < X.shape[0]:
            X = _safe_indexing(X, rows)
        columns = self._columns_of(X) if len(rows) > _MOST_ATOM_ROWS else None
        if columns is not None:  # a sample that does not depend on the rows' order
            sample = np.argsort(row_hash(columns, 0), kind="stable")[:_MOST_ATOM_ROWS]
            X, rows = _safe_indexing(X, sample), rows[sample]
        return rows, self.predict(X).reshape(len(rows), -1)

    def _parts(self):
        """`Residuals` of every target; those of `HeldOutPredictions` are computed once."""
        held_out = _held_out(self)
        if not isinstance(held_out, HeldOutPredictions):
            return held_out
        cached = vars(self).get("_residuals")
        if cached is None or cached[0] is not held_out:
            cached = vars(self)["_residuals"] = held_out, held_out.parts()
        return cached[1]

    def _sigma(self, X, predictions):
        """The scale of rows, of the shape of the predictions."""
        parts = self._parts()
        local = any(getattr(p.scale, "view", None) is not None for p in parts)
        columns = self._columns_of(X) if local else None
        return np.stack(
            [p.scale.of(f, columns) for p, f in zip(parts, predictions.T, strict=True)], 1
        )

    def _possible(self, ends):
        """Intervals clipped to the possible targets."""
        return ends

    def _plus(self, X, copies, shape, alphas, joint):
        """CV+ over cross-fitted copies."""
        predictions, sigma, scores, weights = [], [], [], []
        for copy, held_out in copies:
            f = copy.predict(X).reshape(shape)
            predictions.append(f)
            sigma.append(copy._sigma(X, f))
            scores.append(held_out.scores.max(axis=1, keepdims=True) if joint else held_out.scores)
            weights.append(held_out.weights)
        out = np.empty((*shape, 2, len(alphas)))
        for j in range(shape[1]):
            column = [s[:, 0 if joint else j] for s in scores]
            held_out = [f[:, j] for f in predictions], [s[:, j] for s in sigma]
            out[:, j] = plus_interval(column, weights, *held_out, alphas)
        return out


class PredictsSets(Threaded):
    """A classifier with sets; a subclass has `held_out_`, a `HeldOutProbabilities`."""

    held_out_: Any

    predict: Callable[..., np.ndarray]
    predict_proba: Callable[..., np.ndarray]
    classes_: np.ndarray

    @available_if(lambda self: callable(self.predict_proba))
    @of_every_label(pairs_by_rows)
    def predict_set(
        self,
        X: MatrixLike,
        alpha: float | ArrayLike = 0.1,
        *,
        score: str = "lac",
        class_conditional: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The most likely class, and a set of classes that holds the true one in 1 - alpha of rows.

        A set is empty if no class is as likely as the true class of most rows was.

        Parameters
        ----------
        X : as for `predict`
        alpha : float or array-like of shape (n_alpha,), default=0.1
            The miss rate: the share of rows whose class is not in the set.
        score : {'lac', 'aps'}, default='lac'
            'lac' has the smallest sets on average. 'aps' has larger ones where rows are hard, and
            no empty ones.
        class_conditional : bool, default=False
            Keep the rate in every class; a class of fewer than 1 / alpha - 1 rows is always in,
            with a warning that names it.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_labels)
        sets : ndarray of bool of shape (n_samples, n_classes, n_alpha)
            Of several labels, each with sets of 0 and 1: (n_samples, n_labels, 2, n_alpha).

        Raises
        ------
        ValueError
            If there are no held-out predictions, or alpha is not between 0 and 1.
        """
        return self._predicted_sets(X, alpha, score, class_conditional)

    def _predicted_sets(self, X, alpha, score, class_conditional, **terms):
        """`predict_set`, with the `terms` of rows that `predict` takes."""
        alphas, part = rates(alpha), _held_out(self)
        copies = getattr(self, "copies_", None)
        if copies and not class_conditional:
            p = [self._of_copy(copy, X) for copy, _ in copies]
            return self.predict(X), plus_set([held_out for _, held_out in copies], p, alphas, score)
        p = np.asarray(self.predict_proba(X, **terms), dtype=np.float64)
        if class_conditional:
            self._warn_of_rare_classes(part, alphas, score)
        return self.predict(X, **terms), part.sets(p, alphas, score, class_conditional)

    def _warn_of_rare_classes(self, part, alphas, score):
        """Name the classes that are in every set, because few held-out rows have them."""
        is_rare = np.isinf(part.reach_of_classes(alphas, score)).any(axis=1)
        if is_rare.any():
            names = listed([repr(name) for name in self.classes_[is_rare].tolist()])
            warn(
                f"Fewer than 1 / alpha - 1 held-out rows, at alpha={alphas.min():g}, are of "
                f"{'these classes' if is_rare.sum() > 1 else 'this class'}: {names}. Sets hold "
                "them always."
            )

    def _of_copy(self, copy, X):
        """Probabilities by a copy, which may know fewer classes."""
        probabilities = copy.predict_proba(X)
        out = np.zeros((len(probabilities), len(self.classes_)))
        out[:, base.places_of(self.classes_, copy.classes_)] = probabilities
        return out

    @available_if(lambda self: callable(self.predict_proba))
    @of_every_label(by_rows)
    def predict_venn_abers(self, X: MatrixLike) -> np.ndarray:
        """Two probabilities of every class, of which one is calibrated.

        For each class against the rest, isotonic regression on the held-out rows and the new row,
        once with the label 0 and once with the label 1 (Vovk, Petej and Fedorova 2015). The
        difference of the two shows how much is uncertain.

        Parameters
        ----------
        X : as for `predict`

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2), or (n_samples, n_labels, 2, 2)
        """
        return self._venn_abers(X)

    def _venn_abers(self, X, **terms):
        """`predict_venn_abers`, with the `terms` of rows that `predict` takes."""
        part, p = _held_out(self), np.asarray(self.predict_proba(X, **terms), dtype=np.float64)
        pairs = [
            VennAbers.fit(part.p[:, c], (part.codes == c).astype(float), part.weights).of(p[:, c])
            for c in range(len(self.classes_))
        ]
        return np.stack(pairs, axis=1)


class CoefficientInferenceMixin(ABC):
    """A linear estimator whose loss has a smooth minimum: intervals for its coefficients."""

    fit_intercept: bool

    @abstractmethod
    def _estimand(self, y) -> tuple[Any, np.ndarray]:
        """The `Law` of y, and targets (n, k); a ValueError where no interval is sound."""

    def _estimand_of_rows(self, y, exposure, offset):
        """`_estimand` of rows with an exposure or an offset, for estimators that take these."""
        if exposure is not None or offset is not None:
            raise ValueError(
                f"{type(self).__name__} takes no exposure= or offset=: use GLMRegressor."
            )
        return self._estimand(y)

    def _rows_of_tables(self, X: Any) -> Any:
        """Checked rows, of which `_table_columns` are made."""
        return base.check_rows(self, X)

    def _table_columns(
        self, rows: Any, weights: np.ndarray, reference: Mapping[str, Any]
    ) -> TableColumns:
        """The columns that have coefficients."""
        names = [str(name) for name in _check_feature_names_in(self)]
        check_reference(reference, {})
        return TableColumns(names, names, [])

    def _containing_terms(self) -> Mapping[str, list[str]]:
        """The terms that contain a term, of a formula with interactions."""
        return {}

    def _targets_given(self, X: Any, y: Any) -> Any:
        """The targets `y`, or those of a formula."""
        return y

    def _weights_of_rows(self, X: Any, sample_weight: Any) -> Any:
        """The weights of rows; a subclass may find them in X."""
        return sample_weight

    def _terms_of_rows(self, X: Any, exposure: Any, offset: Any) -> tuple[Any, Any]:
        """The exposure and the offset of rows; a subclass may find them in X."""
        return exposure, offset

    def _learns_parameter(self) -> bool:
        """Whether the family has a parameter that `fit` learned."""
        return False

    def _kept_fits(self) -> KeptFits:
        """The maximum likelihood fits that `fit` kept."""
        check_is_fitted(self)
        kept = vars(self).get("likelihood_")
        if kept is None:
            raise ValueError(
                f"This {type(self).__name__} kept no table of its rows: give X and y. "
                "(GLMRegressor and GLMClassifier keep it after fit, but not in a stack.)"
            )
        return kept

    def _kept(self, given, options, reference=None) -> KeptFits | None:
        """The `KeptFits` if no argument is given; None if there are rows."""
        if given["X"] is not None:
            return None
        more = [name for name, values in given.items() if values is not None]
        if more:
            raise ValueError(f"{more[0]} is given without X: give X, or neither.")
        return self._kept_fits().checked(options, reference or {})

    def _inferred(
        self, X, y, sample_weight, exposure, offset, options=None, reference=None
    ) -> tuple[list[CoefficientFit], TableColumns, str]:
        """The `CoefficientFit` of every target, the columns, and how far predictions are."""
        check_is_fitted(self)
        sample_weight = self._weights_of_rows(X, sample_weight)
        exposure, offset = self._terms_of_rows(X, exposure, offset)
        y = complete(self._targets_given(X, y))
        if y is None:
            raise ValueError("y is missing: only a formula with a left-hand side has it in X.")
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        check_frame(X)
        if len(y) != X.shape[0]:
            raise ValueError(f"y has {len(y)} rows, and X has {X.shape[0]}.")
        weights = base.check_weights(sample_weight, X, as_given=True)
        rows = self._rows_of_tables(X)
        columns = self._table_columns(rows, weights, reference or {})
        law, targets = self._estimand_of_rows(np.asarray(y), exposure, offset)
        fits = self._fits_of(columns.of(rows), columns, law, targets, weights, options)
        return fits, columns, self._distance(fits, rows, weights, offset)

    def _distance(self, fits, rows, weights, offset) -> str:
        """How far the model's predictions of checked rows are from the fits, in a sentence."""
        return ""

    def _fits_of(self, A, columns, law, targets, weights, options) -> list[CoefficientFit]:
        """The `CoefficientFit` of every target, given its `Law` and the columns A."""
        rest = bool(self.fit_intercept), columns.names, options, self._learns_parameter()
        if hasattr(law.family, "probabilities"):
            labels = [str(label) for label in vars(self)["classes_"]]
            return [inferred(A, targets, weights, law, *rest, labels)]
        outputs = as_columns(targets).T
        pairs = zip(outputs, law.of_outputs(len(outputs)), strict=True)
        return [inferred(A, one, weights, own, *rest) for one, own in pairs]

    @matched_by_place
    def coef_interval(
        self,
        X: MatrixLike = None,
        y: TargetLike = None,
        alpha: float = 0.05,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the best linear predictor of the loss, and intervals for them.

        The centre is not `coef_`, which is averaged and shrunk. It is the minimum of the loss over
        these rows without a penalty, by Newton's steps. The intervals hold for independent rows,
        whether or not the model is linear and errors have equal variance (HC3, see `summary`).

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features), optional
            As for `fit`. By default the rows of the fit, of which GLMs keep what the table needs.
            In a column of categories every level has a coefficient except that of most rows, the
            reference (of equally frequent ones the first by name).
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            Needed with X, unless a formula has a left-hand side.
        alpha : float, default=0.05
            The miss rate: the share of samples whose interval misses.
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions, others precisions.
        exposure, offset : array-like of shape (n_samples,), optional
            As in `fit`, for estimators that take them there.

        Returns
        -------
        center : ndarray of shape (n_columns,) or (n_targets, n_columns)
        intervals : ndarray of shape (n_columns, 2) or (n_targets, n_columns, 2)
            In the order of the rows of `summary`; NaN for an aliased column. With several classes
            in place of targets, each but the first against the first.

        Raises
        ------
        ValueError
            Where there is no interval: separable classes, no more rows than columns, corners in the
            loss, constraints, learned links; a model fitted with an exposure or an offset that is
            not given here.

        References
        ----------
        White 1980; MacKinnon and White 1985 (HC3).
        """
        alpha = float(rates(alpha)[0])
        given = _arguments(X, y, sample_weight, exposure, offset)
        kept = self._kept(given, CovarianceOptions())
        if kept is not None:
            fits, columns, several = kept.coefficient_fits(), kept.columns, kept.are_several
        else:
            y = self._targets_given(X, y)
            fits, columns, _ = self._inferred(X, y, sample_weight, exposure, offset)
            several = np.ndim(y) == 2
        numbers, d = [], len(columns.names)
        for fit in fits:
            table = fit.summary(alpha)
            ends = np.stack([table.coef, table.low, table.high])
            numbers.append(ends.reshape(3, fit.n_blocks, -1)[:, :, :d])
        center, *ends = np.concatenate(numbers, axis=1)
        ends = np.stack(ends, axis=2)
        return (center, ends) if several or len(center) > 1 else (center[0], ends[0])

    @matched_by_place
    def summary(
        self,
        X: MatrixLike = None,
        y: TargetLike = None,
        alpha: float = 0.05,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        cov_type: str = "HC3",
        groups: ArrayLike | None = None,
        weight_type: str = "auto",
        reference: Mapping[str, Any] | None = None,
        use_t: bool = True,
    ) -> Summary:
        """The table of coefficients: estimate, standard error, t, p-value and interval.

        With it come the family, the link, the deviance, the dispersion, the log-likelihood, AIC and
        BIC of that estimate.

        Parameters
        ----------
        X, y, alpha, sample_weight, exposure, offset
            See `coef_interval`.
        cov_type : {'nonrobust', 'HC0', 'HC1', 'HC2', 'HC3', 'cluster'}, default='HC3'
            How standard errors are estimated, by the names of statsmodels. 'nonrobust' needs the
            family to be true, the others do not; 'cluster' allows rows of a group to depend on each
            other. HC2 and HC3 divide a row's score by (1 - leverage)^(1/2) and by 1 - leverage, as
            `OLS` does; `GLM` of statsmodels has HC0 under all four names.
        groups : array-like of shape (n_samples,), optional
            The group of every row, for 'cluster'.
        weight_type : {'auto', 'frequency', 'precision'}, default='auto'
            What `sample_weight` means. With 'frequency' a row of weight 2 counts as two rows
            (freq_weights of statsmodels). With 'precision' its variance is divided by 2
            (var_weights). 'auto' is 'frequency' if all weights are whole numbers.
        reference : dict, optional
            The reference level of columns of categories, by name: ``{"city": "Berlin"}``. By
            default it is the most frequent level.
        use_t : bool, default=True
            Student's t; False is the normal distribution.

        Returns
        -------
        Summary
            Text when printed, `to_frame()` for pandas, `wald_test` for contrasts; the last row of a
            target is its intercept. With several classes the rows of class c are log-odds against
            the first class, as in `MNLogit`: they correspond to ``coef_[c] - coef_[0]``. Ordered
            classes have one row a column and one a threshold:
            P(y <= a) = u(threshold a|b - <coef, x>), as in `OrderedModel`. Quantiles are at the
            exact minimum of the pinball loss; 'HC0' is ``vcov="robust"`` of `QuantReg`, but for the
            rows on the plane, which have the larger score.

        Raises
        ------
        ValueError
            See `coef_interval`; also for unknown options, columns or levels.
        """
        alpha = float(rates(alpha)[0])
        options = CovarianceOptions(cov_type, groups, weight_type, use_t)
        kept = self._kept(_arguments(X, y, sample_weight, exposure, offset), options, reference)
        if kept is not None:
            fits, columns, remark = kept.coefficient_fits(options), kept.columns, kept.remark
        else:
            fits, columns, remark = self._inferred(
                X, y, sample_weight, exposure, offset, options, reference
            )
        if remark:
            fits = [fit._replace(notes=[*fit.notes, remark]) for fit in fits]
        tables = [fit.summary(alpha, columns.reference) for fit in fits]
        if len(tables) == 1:
            return tables[0]
        names = [
            f"{_output(table, j)}: {name}" for j, table in enumerate(tables) for name in table.names
        ]
        columns: Any = [np.concatenate([t[i] for t in tables]) for i in range(1, 7)]
        first = tables[0]
        table: Any = names, *columns, alpha, first.note, first.df_denom
        return Summary(*table)

    @matched_by_place
    def anova(
        self,
        X: MatrixLike = None,
        y: TargetLike = None,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        cov_type: str = "HC3",
        groups: ArrayLike | None = None,
        weight_type: str = "auto",
        use_t: bool = True,
        typ: int = 2,
        terms: Sequence[str | Sequence[str]] | None = None,
    ) -> Anova:
        """Likelihood-ratio and Wald tests of every term: a column, or all levels of a category.

        Each term is tested against the model without it. In a formula with interactions both models
        are without the terms that contain it (type II): ``x`` of ``x * C(city)`` is tested in the
        model without ``x:C(city)``. So the tests are of terms: they do not depend on reference
        levels, or on where x has its 0. They are those of ``anova_lm(typ=2)`` of statsmodels,
        ``Anova(type=2)`` of R's car, and, without interactions, of R's ``drop1``. The dispersion
        is that of the whole model.

        The Wald statistic of a term is that of the term and those that are in neither model, less
        that of the latter. A term that the others determine is aliased: it has no degree of
        freedom, and its tests are NaN.

        Parameters
        ----------
        X, y, sample_weight, exposure, offset, cov_type, groups, weight_type, use_t
            See `summary`; `cov_type`, `groups` and `use_t` are for the Wald tests.
        typ : {1, 2, 3}, default=2
            1 adds terms one after the other: each is tested in the model of those before it, as by
            R's ``anova``. 2 is described above. 3 drops each term from the whole model, also from
            below its interactions: for factors that depends on their coding, such as
            ``C(city, contr.sum)``. Without interactions 2 and 3 are the same.
        terms : list of str or of lists of str, optional
            The terms to be tested, in this order, and those of a list together:
            ``terms=["age", ["city", "car"]]``. The others are in all models. By default every
            term by itself, in the order of the columns of `summary`.

        Returns
        -------
        Anova
            Text when printed, `to_frame()` for pandas.

        Raises
        ------
        ValueError
            See `summary`; also for several targets, and families without a density.

        Examples
        --------
        >>> from tunefree import GLMRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = rng.poisson(np.exp(X[:, 0]))
        >>> model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
        >>> bool(model.anova(X, y).lr_p_value[0] < 1e-6)
        True
        """
        options = CovarianceOptions(cov_type, groups, weight_type, use_t)
        if typ not in ANOVA_TYPES:
            raise ValueError(f"typ={typ!r} is none of 1, 2, 3.")
        kept = self._kept(_arguments(X, y, sample_weight, exposure, offset), options)
        if kept is not None:
            return kept.only().anova(options, typ, terms)
        fits, columns, _ = self._inferred(X, y, sample_weight, exposure, offset, options)
        if len(fits) > 1:
            raise ValueError(ONE_TARGET)
        return terms_tested(fits[0], columns.terms, self._containing_terms(), typ, terms)


def _arguments(X, y, sample_weight, exposure, offset):
    """The rows that a table is of, by name."""
    return {"X": X, "y": y, "sample_weight": sample_weight, "exposure": exposure, "offset": offset}


def _output(table, j):
    """The name of an output in the table of several."""
    level = getattr(table.family, "levels", None)
    return f"target {j}" if level is None else f"quantile {level:g}"
