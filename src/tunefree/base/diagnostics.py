"""What a generalized linear model's rows show of it: residuals, influence, bands of the mean."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from tunefree.base import base
from tunefree.base.exposures import given_terms, per_exposure, row_term
from tunefree.base.uncertainty_mixins import CoefficientInferenceMixin
from tunefree.core.protocols import MatrixLike, Seed, TargetLike
from tunefree.core.warn import none_of
from tunefree.parts.links import index_of_mean
from tunefree.rows.levels import MISSING
from tunefree.rows.matrices import as_columns, as_dense
from tunefree.rows.missing import complete
from tunefree.uncertainty.influence import Influence, influence_of
from tunefree.uncertainty.intervals import rates
from tunefree.uncertainty.kept import ONE_TARGET
from tunefree.uncertainty.mean_bands import mean_band, unknown_rows
from tunefree.uncertainty.nested import LikelihoodRatioTest, nested_test
from tunefree.uncertainty.residuals import (
    FittedRows,
    PartialResiduals,
    check_kind,
    refuse_classes,
)
from tunefree.uncertainty.samples import CovarianceOptions, are_frequencies

_OF = ("likelihood", "predictions")


class DiagnosticsMixin(CoefficientInferenceMixin):
    """A generalized linear model with residuals, influence and bands of its mean.

    They are those of the maximum likelihood fit, which `summary` shows.
    """

    family_: Any
    link_: Any
    classes_: np.ndarray
    predict: Any
    predict_proba: Any
    _check_offset: Any
    _checked_terms: Any
    _mean_of_rows: Any
    _margins: Any

    def residuals(
        self,
        X: MatrixLike,
        y: TargetLike = None,
        kind: str = "deviance",
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        weight_type: str = "auto",
        of: str = "likelihood",
        random_state: Seed = None,
    ) -> np.ndarray:
        r"""Residuals of rows: how far targets are from their means, on a scale of your choice.

        With the mean mu = u(s) of a target y per unit of exposure e, the variance function V, the
        unit deviance d and a weight w that is a precision:

        ============  ===============================================================
        kind          residual
        ============  ===============================================================
        'response'    e (y - mu): in the units of the targets
        'working'     (y - mu) / u'(s): in the units of the index
        'pearson'     sqrt(w e) (y - mu) / sqrt(V(mu))
        'deviance'    sign(y - mu) sqrt(w e d(y, mu))
        'quantile'    the normal quantile of P(Y <= y); of a count a random number in its
                      jump
        ============  ===============================================================

        Quantile residuals of a true model are exactly normal, whatever the family. The others are
        those of statsmodels and R.

        Parameters
        ----------
        X, y, sample_weight, exposure, offset, weight_type
            See `summary`. The rows may be those of the fit, or others. A frequency does not change
            its row's residual.
        kind : {'deviance', 'pearson', 'response', 'working', 'quantile'}, default='deviance'
        of : {'likelihood', 'predictions'}, default='likelihood'
            Of the means of the maximum likelihood fit that `summary` shows, or of those of
            `predict`. Where `fit` kept no table, the maximum likelihood fit is that of these rows.
        random_state : int, RandomState or None, default=None
            Seed of the quantile residuals of counts.

        Returns
        -------
        ndarray of the shape of y
            With several quantiles one column each. NaN, with a warning, for rows with a level that
            the fit has no coefficient of.

        Raises
        ------
        ValueError
            For an unknown kind, one that the family does not define, or several classes; see also
            `summary`.

        References
        ----------
        McCullagh and Nelder 1989, section 2.4; Dunn and Smyth 1996 (quantile residuals).

        Examples
        --------
        >>> from tunefree import GLMRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 2))
        >>> y = rng.poisson(np.exp(X[:, 0]))
        >>> model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
        >>> r = model.residuals(X, y, kind="quantile", random_state=0)
        >>> bool(abs(r.mean()) < 0.1), bool(abs(r.std() - 1.0) < 0.1)
        (True, True)
        """
        check_is_fitted(self)
        if of not in _OF:
            raise none_of("of", of, _OF)
        refuse_classes("Residuals are", self.family_, self._labels())
        check_kind(kind, self.family_)
        options = CovarianceOptions(weight_type=weight_type)
        options.check(0, self.family_)
        y = complete(self._targets_given(X, y))
        given = sample_weight, exposure, offset
        made = self._rows_of_likelihood if of == "likelihood" else self._rows_of_predictions
        parts = made(X, y, *given, options)
        found = [rows.residuals(kind, scale, random_state) for rows, scale in parts]
        residuals = np.concatenate(found, axis=1)
        return residuals if np.ndim(y) == 2 or residuals.shape[1] > 1 else residuals[:, 0]

    def influence(
        self,
        X: MatrixLike,
        y: TargetLike = None,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        weight_type: str = "auto",
        observed: bool = True,
    ) -> Influence:
        """Leverage, Cook's distance and changes of the coefficients: what every row does to them.

        They are of the maximum likelihood fit of these rows; its leverages add up to the number of
        coefficients. Changes without a row are those of one of Newton's steps.

        Parameters
        ----------
        X, y, sample_weight, exposure, offset, weight_type
            See `summary`.
        observed : bool, default=True
            By the curvature of the loss, as in ``get_influence`` of statsmodels; False is Fisher's
            information, as in R. With a family's own link the two are equal.

        Returns
        -------
        Influence
            Its print shows the rows of the largest Cook's distances, `to_frame()` all rows.

        Raises
        ------
        ValueError
            For several targets or classes, and families without a variance; see also `summary`.

        References
        ----------
        Cook 1977; Pregibon 1981; Belsley, Kuh and Welsch 1980.

        Examples
        --------
        >>> from tunefree import GLMRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = rng.poisson(np.exp(X[:, 0]))
        >>> y[7] = 60
        >>> model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
        >>> table = model.influence(X, y)
        >>> int(table.largest(1)[0]), bool(abs(table.leverage.sum() - 3.0) < 1e-8)
        (7, True)
        """
        check_is_fitted(self)
        refuse_classes("Influence is", self.family_, self._labels())
        check_kind("pearson", self.family_)
        y = self._targets_given(X, y)
        options = CovarianceOptions(cov_type="HC0", weight_type=weight_type)
        fits, *_ = self._inferred(X, y, sample_weight, exposure, offset, options)
        if len(fits) > 1:
            raise ValueError(ONE_TARGET)
        found = influence_of(fits[0], observed)
        weights = self._weights_of_rows(X, sample_weight)
        if weights is None:
            return found
        return found.among(np.broadcast_to(np.asarray(weights, dtype=float), len(y)) > 0.0)

    def partial_residuals(
        self,
        X: MatrixLike,
        y: TargetLike,
        column: str | int,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        weight_type: str = "auto",
    ) -> PartialResiduals:
        """Working residuals plus the effect of one column: what a curve in it would be fitted to.

        The effect is the change of the index from the column's median, or most frequent level, to
        its value in each row; its mean is 0. If the partial residuals bend away from it, then a
        curve fits better, such as ``bs(age, df=4)`` in a formula.

        Parameters
        ----------
        X, y, sample_weight, exposure, offset, weight_type
            See `residuals`.
        column : str or int
            The name of a column of X, or its position.

        Returns
        -------
        PartialResiduals
            With the arrays `values`, `effect`, `residuals` and `weights`, of shape (n_samples,).

        Raises
        ------
        ValueError
            For an unknown column, and several targets or classes.

        References
        ----------
        Landwehr, Pregibon and Shoemaker 1984; ``resid(model, type = "partial")`` of R.

        Examples
        --------
        >>> from tunefree import GLMRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 2))
        >>> y = rng.poisson(np.exp(X[:, 0]))
        >>> model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
        >>> found = model.partial_residuals(X, y, "x0")
        >>> slope = np.polyfit(found.values, found.effect, 1)[0]
        >>> bool(abs(slope - model.summary().coef[0]) < 1e-8)
        True
        """
        check_is_fitted(self)
        refuse_classes("Residuals are", self.family_, self._labels())
        options = CovarianceOptions(weight_type=weight_type)
        options.check(0, self.family_)
        y = complete(self._targets_given(X, y))
        terms = exposure, offset
        parts = self._rows_of_likelihood(X, y, sample_weight, *terms, options)
        if len(parts) > 1:
            raise ValueError(ONE_TARGET)
        fits, columns = self._fits_kept(X, y, sample_weight, terms, options)
        (found, _), fit = parts[0], fits[0]
        name, values, rows, others = self._with_constant(X, column)
        effect = fit.index(columns.of(rows)) - fit.index(columns.of(others))
        information = found.family.curvature(found.link, found.index)
        weights = np.broadcast_to(found.weight * information, found.index.shape)[:, 0]
        effect = effect - effect.mean()
        residuals = effect + found.residuals("working")[:, 0]
        return PartialResiduals(name, values, effect, residuals, weights)

    def predict_mean_interval(
        self,
        X: MatrixLike,
        alpha: float | ArrayLike = 0.05,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        cov_type: str = "HC3",
        use_t: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Means of the maximum likelihood fit, and intervals for them: the band of the mean.

        An interval holds the mean of all targets with the row's columns, in 1 - alpha of samples.
        `predict_interval` has intervals for one new target, which are wider.

        With the covariance V of the table that `summary` shows, and the index s = <x, beta> + b,

        .. math:: u\bigl(s \pm t_{1 - \alpha / 2} \sqrt{x^\top V x}\bigr)

        times the exposure. That is asymptotic, and needs a true mean; 'nonrobust' needs the
        family, too.

        Parameters
        ----------
        X : as for `predict`
        alpha : float or array-like of shape (n_alpha,), default=0.05
            The miss rate.
        exposure, offset : array-like of shape (n_samples,), optional
            As in `predict`: needed if they were given to `fit`.
        cov_type, use_t
            See `summary`; 'cluster' needs the rows of the fit, and is not offered here.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Of two classes the probability of ``classes_[1]``.
        intervals : ndarray of shape (n_samples, 2, n_alpha) or (n_samples, n_targets, 2, n_alpha)
            NaN, with a warning, for rows with a level that the fit has no coefficient of.

        Raises
        ------
        ValueError
            If `fit` kept no table; the message has the reason. For several classes.

        References
        ----------
        McCullagh and Nelder 1989; ``get_prediction`` of statsmodels.

        Examples
        --------
        >>> from tunefree import GLMRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 1))
        >>> y = rng.poisson(np.exp(X[:, 0]))
        >>> model = GLMRegressor(family="poisson", random_state=0).fit(X, y)
        >>> mean, ends = model.predict_mean_interval([[0.0]])
        >>> ends.shape, bool(ends[0, 0, 0] < 1.0 < ends[0, 1, 0])
        ((1, 2, 1), True)
        """
        alphas = rates(alpha)
        kept = self._kept_fits()
        refuse_classes("Bands of the mean are", self.family_, self._labels())
        if kept.problem:
            raise ValueError(f"There is no band of the mean. {_without_advice(kept.problem)}")
        options = CovarianceOptions(cov_type=cov_type, use_t=use_t)
        rows, terms = self._rows_of_tables(X), self._terms_of_rows(X, exposure, offset)
        terms = self._known_terms(rows, *terms)
        fits = kept.checked(options, {}).coefficient_fits(options)
        bands = [mean_band(fit, kept.columns, rows, alphas, *terms) for fit in fits]
        mean = np.stack([band[0] for band in bands], axis=1)
        ends = np.stack([band[1] for band in bands], axis=1)
        return (mean, ends) if kept.are_several or len(fits) > 1 else (mean[:, 0], ends[:, 0])

    def compare_lr_test(self, restricted: DiagnosticsMixin) -> LikelihoodRatioTest:
        r"""The likelihood-ratio test of this model against a smaller one that is nested in it.

        The hypothesis is that the columns of this model that the smaller lacks have no effect. With
        deviances D and numbers k of coefficients of the two maximum likelihood fits

        .. math:: \frac{D_0 - D_1}{\phi} \sim \chi^2(k_1 - k_0)

        where the dispersion phi is 1; where it is estimated, by this model, the ratio to the
        degrees of freedom has an F distribution. Where both models learned the dispersion of the
        negative binomial, the statistic is twice the difference of their log-likelihoods.

        Parameters
        ----------
        restricted : GLMRegressor or GLMClassifier
            The smaller model, of the same rows, targets, weights, exposure, offset, family and
            link. Both keep their tables after `fit`: no rows are needed.

        Returns
        -------
        LikelihoodRatioTest

        Raises
        ------
        ValueError
            If the two are not nested, were fitted to other targets, or have no likelihood.

        References
        ----------
        ``compare_lr_test`` of statsmodels; ``anova(small, large, test = "Chisq")`` of R.

        Examples
        --------
        >>> from tunefree import GLMRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 3))
        >>> y = rng.poisson(np.exp(X[:, 0]))
        >>> large = GLMRegressor(family="poisson", random_state=0).fit(X, y)
        >>> small = GLMRegressor(family="poisson", random_state=0).fit(X[:, :1], y)
        >>> large.compare_lr_test(small).df_num
        2
        """
        if not isinstance(restricted, DiagnosticsMixin):
            raise ValueError(
                f"restricted= is a {type(restricted).__name__}: give a GLMRegressor or a "
                "GLMClassifier."
            )
        tables = []
        for name, model in (("This model", self), ("The restricted model", restricted)):
            kept = model._kept_fits()
            if kept.problem:
                raise ValueError(f"{name} has no likelihood. {_without_advice(kept.problem)}")
            tables.append(kept.only())
        return nested_test(*tables)

    def _labels(self):
        """The classes; empty for numbers."""
        return vars(self).get("classes_", ())

    def _known_terms(self, rows, exposure, offset):
        """The exposure of which the mean is a multiple, and the offset, checked; 1 and 0."""
        self._check_terms(exposure, offset)
        over, shift = (
            row_term(values, rows, name)
            for name, values in (("exposure", exposure), ("offset", offset))
        )
        return 1.0 if over is None else over, 0.0 if shift is None else shift

    def _check_terms(self, exposure, offset):
        """Refuse terms that `fit` did not have, and rows without those that it had."""
        if not is_classifier(self):
            self._checked_terms(exposure, offset)
            return
        if exposure is not None:
            raise ValueError(f"{type(self).__name__} takes no exposure=.")
        self._check_offset(offset)

    def _rows_of_likelihood(self, X, y, sample_weight, exposure, offset, options):
        """The `FittedRows` and the dispersion of every target, of the maximum likelihood fit."""
        if y is None:
            raise ValueError("y is missing: only a formula with a left-hand side has it in X.")
        fits, columns = self._fits_kept(X, y, sample_weight, (exposure, offset), options)
        exposure, offset = self._terms_of_rows(X, exposure, offset)
        rows = self._rows_of_tables(X)
        law, targets = self._estimand_of_rows(np.asarray(y), exposure, offset)
        A = columns.of(rows)
        precision = self._precision(self._weights_of_rows(X, sample_weight), rows, options)
        if len(targets) != len(A):
            raise ValueError(f"y has {len(targets)} rows, and X has {len(A)}.")
        unknown = unknown_rows(columns, rows)
        parts = []
        pairs = zip(fits, law.of_outputs(len(fits)), as_columns(targets).T, strict=True)
        for fit, own, target in pairs:
            own = own._replace(family=fit.family)
            s = fit.index(A)
            found = FittedRows(
                family=fit.family,
                link=own.link,
                y=target[:, None],
                mean=own.mean(s)[:, None],
                index=np.reshape(s + own.offset, (-1, 1)),
                exposure=_column(own.exposure),
                precision=precision,
                known=~unknown[:, None],
            )
            parts.append((found, fit.statistics.scale))
        return parts

    def _fits_kept(self, X, y, sample_weight, terms, options):
        """The `CoefficientFit` of every target that `fit` kept, or that of these rows; columns."""
        kept = vars(self).get("likelihood_")
        if kept is not None and not kept.problem:
            return kept.coefficient_fits(), kept.columns
        exposure, offset = terms
        return self._inferred(X, y, sample_weight, exposure, offset, options)[:2]

    def _with_constant(self, X, column):
        """A column's name and values, the rows of tables, and these with the column constant."""
        formula = vars(self).get("formula")
        if formula is not None:
            frame = X.to_pandas() if hasattr(X, "to_pandas") else X
            names = list(getattr(frame, "columns", ()))
            name = _named(column, names)
            values = np.asarray(frame[name])
            others = frame.assign(**{name: _middle(values)})
            return name, values, self._rows_of_tables(frame), self._rows_of_tables(others)
        names = [str(name) for name in _check_feature_names_in(self)]
        name = _named(column, names)
        place = names.index(name)
        rows = as_dense(self._rows_of_tables(X))
        categories = vars(self).get("categories_")
        levels = None if categories is None else categories[place]
        values, others = rows[:, place].copy(), rows.copy()
        middle = _middle(values if levels is None else values.astype(str))
        others[:, place] = float(middle)
        if levels is not None:
            named = np.array([*map(str, levels), MISSING], dtype=object)
            values = named[values.astype(int)]
        return name, values, rows, others

    def _rows_of_predictions(self, X, y, sample_weight, exposure, offset, options):
        """The `FittedRows` of `predict`, and Pearson's estimate of the dispersion."""
        family, link = self.family_, self.link_
        known = given_terms(None, offset)
        exposure, offset = self._terms_of_rows(X, exposure, offset)
        self._check_terms(exposure, offset)
        if is_classifier(self):
            mean = self.predict_proba(X, **known)[:, 1:]
            margins = functools.partial(self._margins, X, **known)
            targets = base.places_of(self.classes_, np.asarray(y)).astype(float)[:, None]
        else:
            over = None if family.exposure == "rate" else exposure
            mean = as_columns(self._mean_of_rows(X, exposure=over, offset=offset))
            margins = functools.partial(self._margins, X)
            targets = family.targets(as_columns(np.asarray(y)))
        if len(targets) != len(mean):
            raise ValueError(f"y has {len(targets)} rows, and X has {len(mean)}.")
        ones = np.ones(len(mean))
        targets, over, _ = per_exposure(family, link, targets, ones, exposure, None)
        clipped = family.clipped(np.asarray(mean, dtype=np.float64))
        index = index_of_mean(link, clipped)
        rows = FittedRows(
            family=family,
            link=link,
            y=targets,
            mean=clipped,
            index=margins() if index is None else index,
            exposure=_column(over),
            precision=self._precision(self._weights_of_rows(X, sample_weight), mean, options),
        )
        return [(rows, rows.dispersion())]

    def _precision(self, sample_weight, rows, options):
        """One over the variances of rows, up to the dispersion; 1 for frequencies."""
        weights = base.check_weights(sample_weight, rows, as_given=True)
        return 1.0 if are_frequencies(weights, options) else weights[:, None]


def _column(values: Any) -> Any:
    """Numbers of rows as a column; a scalar as it is."""
    return np.reshape(values, (-1, 1)) if np.ndim(values) else values


def _without_advice(problem):
    """Why there is no table, without the advice to give rows, which not all methods take."""
    return problem.replace(": give X and y.", ".")


def _named(column, names):
    """The name of a column, which may be given by its position."""
    if column in names:
        return column
    if isinstance(column, int | np.integer) and -len(names) <= column < len(names):
        return names[column]
    raise none_of("column", column, names)


def _middle(values):
    """The median of numbers, or the most frequent of other values."""
    if np.issubdtype(values.dtype, np.number):
        return np.median(values)
    found, counts = np.unique(values.astype(str), return_counts=True)
    return found[np.argmax(counts)]
