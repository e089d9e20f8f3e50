"""What a generalized linear model's rows show of it: residuals, influence, bands of the mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from tunefree.base.diagnosed import DiagnosedRows, has_class_probabilities
from tunefree.base.exposures import row_term
from tunefree.base.uncertainty_mixins import CoefficientInferenceMixin
from tunefree.core.protocols import MatrixLike, Seed, TargetLike
from tunefree.core.warn import none_of
from tunefree.rows.missing import complete
from tunefree.rows.row_labels import matched_by_place
from tunefree.uncertainty import class_rows
from tunefree.uncertainty.class_rows import probability_band
from tunefree.uncertainty.influence import Influence, influence_of
from tunefree.uncertainty.intervals import rates
from tunefree.uncertainty.kept import ONE_TARGET
from tunefree.uncertainty.mean_bands import mean_band
from tunefree.uncertainty.nested import LikelihoodRatioTest, nested_test
from tunefree.uncertainty.residuals import PartialResiduals, check_kind, refuse_classes
from tunefree.uncertainty.samples import CovarianceOptions

_OF = ("likelihood", "predictions")


class DiagnosticsMixin(CoefficientInferenceMixin):
    """A generalized linear model with residuals, influence and bands of its mean.

    They are those of the maximum likelihood fit, which `summary` shows.
    """

    family_: Any
    link_: Any
    classes_: np.ndarray
    _check_offset: Any
    _offset_of: Any
    _checked_terms: Any

    @matched_by_place
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

        ============= ===============================================================
        kind          residual
        ============= ===============================================================
        'response'    e (y - mu): in the units of the targets
        'working'     (y - mu) / u'(s): in the units of the index
        'pearson'     sqrt(w e) (y - mu) / sqrt(V(mu))
        'deviance'    sign(y - mu) sqrt(w e d(y, mu))
        'quantile'    the normal quantile of P(Y <= y); of a count a random number in its
                      jump
        'probability' P(Y < y) - P(Y > y): between -1 and 1, with the mean 0
        ============= ===============================================================

        Quantile residuals of a true model are exactly normal, whatever the family. The others are
        those of statsmodels and R.

        Of three and more classes with the probabilities p, with y_k = 1 for the class c of a row:

        ============= ===============================================================
        kind          residual
        ============= ===============================================================
        'response'    y_k - p_k for every class k
        'working'     y_k / p_k - y_0 / p_0 for every class but the first; of ordered
                      classes one a threshold
        'pearson'     sqrt(w) (y_k - p_k) / sqrt(p_k (1 - p_k)) for every class
        'deviance'    sqrt(-2 w log p_c), one a row; of ordered classes with the sign of
                      'probability'
        'quantile'    one a row of ordered classes; of others one a class, against the rest
        'probability' one a row of ordered classes; not defined for others
        ============= ===============================================================

        Parameters
        ----------
        X, y, sample_weight, exposure, offset, weight_type
            See `summary`. The rows may be those of the fit, or others. A frequency does not change
            its row's residual.
        kind : str, default='deviance'
            'deviance', 'pearson', 'response', 'working', 'quantile' or 'probability'.
        of : {'likelihood', 'predictions'}, default='likelihood'
            Of the means of the maximum likelihood fit that `summary` shows, or of those of
            `predict`. Where `fit` kept no table, the maximum likelihood fit is that of these rows.
        random_state : int, RandomState or None, default=None
            Seed of the quantile residuals of counts.

        Returns
        -------
        ndarray of the shape of y
            With several quantiles one column each, with several classes as above. NaN, with a
            warning, for rows with a level that the fit has no coefficient of.

        Raises
        ------
        ValueError
            For an unknown kind, one that the family does not define, or several classes with an
            output each (another link than 'logit'); see also `summary`.

        References
        ----------
        McCullagh and Nelder 1989, section 2.4 and chapter 5; Dunn and Smyth 1996 (quantiles); Li
        and Shepherd 2012 (probabilities); Yee 2015 (working residuals of classes).

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
        self._check_classes("Residuals are")
        check = class_rows.check_kind if has_class_probabilities(self) else check_kind
        check(kind, self.family_)
        terms = sample_weight, exposure, offset
        return self._diagnosed(X, y, *terms, weight_type).residuals(kind, of, random_state)

    @matched_by_place
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
            For several targets, several classes with an output each (another link than 'logit'),
            and families without a variance; see also `summary`.

        References
        ----------
        Cook 1977; Pregibon 1981; Belsley, Kuh and Welsch 1980; Lesaffre and Albert 1989 (classes).

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
        self._check_classes("Influence is")
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

    @matched_by_place
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
        if has_class_probabilities(self):
            raise ValueError(
                f"Partial residuals are not defined for the {len(self.classes_)} classes of this "
                "model, which have no one index: fit two of them."
            )
        self._check_classes("Partial residuals are")
        rows = self._diagnosed(X, y, sample_weight, exposure, offset, weight_type)
        name, values, effect, found = rows.partial(column)
        information = found.family.curvature(found.link, found.index)
        weights = np.broadcast_to(found.weight * information, found.index.shape)[:, 0]
        residuals = effect + found.residuals("working")[:, 0]
        return PartialResiduals(name, values, effect, residuals, weights)

    @matched_by_place
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
        family, too. Probabilities of three and more classes have intervals for their log-odds, by
        the delta method.

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
            Of two classes the probability of ``classes_[1]``, of more those of all classes.
        intervals : ndarray of shape (n_samples, 2, n_alpha) or (n_samples, n_targets, 2, n_alpha)
            NaN, with a warning, for rows with a level that the fit has no coefficient of.

        Raises
        ------
        ValueError
            If `fit` kept no table; the message has the reason. For several classes with an output
            each (another link than 'logit').

        References
        ----------
        McCullagh and Nelder 1989; ``get_prediction`` of statsmodels; Agresti 2013 (classes).

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
        self._check_classes("Bands of the mean are")
        if kept.problem:
            raise ValueError(f"There is no band of the mean. {_without_advice(kept.problem)}")
        options = CovarianceOptions(cov_type=cov_type, use_t=use_t)
        rows, terms = self._rows_of_tables(X), self._terms_of_rows(X, exposure, offset)
        terms = self._known_terms(rows, *terms)
        fits = kept.checked(options, {}).coefficient_fits(options)
        if has_class_probabilities(self):
            return probability_band(fits[0], kept.columns, rows, alphas, terms[1])
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

    def _check_classes(self, what):
        """Refuse several classes with an output each."""
        labels = vars(self).get("classes_", ())
        if len(labels) > 2 and not has_class_probabilities(self):
            refuse_classes(what, labels)

    def _diagnosed(self, X, y, sample_weight, exposure, offset, weight_type):
        """The `DiagnosedRows` of arguments."""
        options = CovarianceOptions(weight_type=weight_type)
        options.check(0, self.family_)
        y = complete(self._targets_given(X, y))
        return DiagnosedRows(self, X, y, sample_weight, exposure, offset, options)

    def _known_terms(self, rows, exposure, offset):
        """The exposure of which the mean is a multiple, and the offset, checked; 1 and 0."""
        self._check_terms(exposure, offset)
        over = row_term(exposure, rows, "exposure")
        if offset is not None and is_classifier(self):
            shift = self._offset_of(offset, rows, self.classes_)
        else:
            shift = row_term(offset, rows, "offset")
        return 1.0 if over is None else over, 0.0 if shift is None else shift

    def _check_terms(self, exposure, offset):
        """Refuse terms that `fit` did not have, and rows without those that it had."""
        if not is_classifier(self):
            self._checked_terms(exposure, offset)
            return
        if exposure is not None:
            raise ValueError(f"{type(self).__name__} takes no exposure=.")
        self._check_offset(offset)


def _without_advice(problem):
    """Why there is no table, without the advice to give rows, which not all methods take."""
    return problem.replace(": give X and y.", ".")
