"""Generalized linear regression: families, links, exposures and offsets."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from tunefree.base import base
from tunefree.base.exposures import (
    TakesExposures,
    given_terms,
    over_exposure,
    per_exposure,
    row_term,
)
from tunefree.base.progress import report_progress
from tunefree.core.protocols import (
    Auto,
    FamilyOfNumbers,
    Link,
    LinkName,
    MatrixLike,
    PotentialName,
    Seed,
    TargetLike,
)
from tunefree.core.warn import warn
from tunefree.held_out.shrinkage import limits_of_predictions, shrinkage_factor
from tunefree.parts.families import (
    FAMILIES,
    Binomial,
    Family,
    HuberT,
    Matching,
    Quantile,
    family_of,
)
from tunefree.parts.links import LINKS, link_range, target_margin
from tunefree.reflectron.descent import Training
from tunefree.reflectron.glm.model import TEXTS, GeneralizedLinearModel, check_link, suits
from tunefree.reflectron.potentials import Potential
from tunefree.reflectron.reflectron import MirrorRegressor, documented
from tunefree.rows.matrices import as_columns
from tunefree.rows.row_labels import matched_by_place
from tunefree.uncertainty.kept import check_work

# Links that are chosen or learned.
_LEARNED = ("auto", "learned")


@documented(**TEXTS)
class GLMRegressor(GeneralizedLinearModel, TakesExposures, MirrorRegressor):
    r"""Generalized linear regression E[y | x] = u(<theta, x> + b), with nothing to tune.

    Mirror descent along the score of the family, in several geometries at once. There is no
    penalty and no step size to choose: held-out rows choose the potential (the geometry, which is
    the regularizer) and when to stop.

    Unless the family is named, `fit` infers it from y: shares in [0, 1] are binomial, counts
    Poisson, skewed amounts gamma or (with zeros) Tweedie, others Gaussian. The result is
    `family_`. `partial_fit` and `fit_source` need the family.

    Parameters
    ----------
    family : str or family, default='auto'
        The distribution of targets: a name of `tunefree.parts.families.FAMILIES` or a part. The fit
        follows its score and is evaluated by its deviance.
    link : str, link or None, default=None
        The mean u of the model: a name of `tunefree.parts.links.LINKS`, one of its parts, or any
        object with a nondecreasing ``mean(s)``. None is the family's own; 'learned' is a
        nondecreasing link estimated with the coefficients, and 'auto' the named link with the
        lowest deviance on held-out rows, unless the learned link is better by a standard error.
        With a named link and family='auto' the family is Gaussian where the link does not have the
        inferred family's range.
    {formula}
    {geometry}
    {common}
    {selection}
    {last}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    prediction_limits_ : ndarray of shape (2, n_targets) or None
        The limits of predictions (per unit of exposure), of every family and link: the range of the
        fitted means, widened on either side by that part of its width (1, 1/2, 1/4 or 0) which was
        best for held-out rows. None after `fit` with an offset, `fit_source` and `partial_fit`. The
        formula without limits is ``link_.mean(X @ coef_ + intercept_)``.
    input_limits_ : ndarray of shape (2, n_features) or None
        Entries of new rows outside of these limits (ten times as far from the middle as any learned
        entry) count as missing, as in `fit`. None where `prediction_limits_` is, and with
        ``standardize=False``.
    {fitted}

    Raises
    ------
    ValueError
        For NaN or infinity, weights that are all zero, a decreasing link, targets that the family
        does not have, or a pair of constraint and potential without a rule.

    References
    ----------
    McCullagh and Nelder 1989 (the models); Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting
    geometry for learning generalized linear models", eq. 7-8 (mirror descent); the automatic steps
    and the choice of the family, the link and the geometry are this library's.

    Examples
    --------
    >>> from tunefree import GLMRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (500, 3))
    >>> y = rng.poisson(np.exp(1.0 + X[:, 0]))
    >>> model = GLMRegressor(random_state=0).fit(X, y)
    >>> model.family_, bool(abs(model.coef_[0] - 1.0) < 0.2)
    (Poisson(), True)
    """

    def __init__(
        self,
        family: FamilyOfNumbers | Auto | Family = "auto",
        link: LinkName | Literal["auto", "learned"] | Link | None = None,
        *,
        formula: str | None = None,
        potential: PotentialName | Auto | Literal["none"] | Potential = "auto",
        constraint: Any = None,
        fit_intercept: bool = True,
        standardize: bool | Auto = "auto",
        per_output: bool = False,
        validation_fraction: float | Auto = "auto",
        n_splits: int | Auto = "auto",
        tol: float = 1e-3,
        max_iter: int | Auto = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.family = family
        self.link = link
        self.formula = formula
        self.potential = potential
        self.constraint = constraint
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.per_output = per_output
        self.validation_fraction = validation_fraction
        self.n_splits = n_splits
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _begin(self, problem):
        super()._begin(problem)
        self.input_limits_, self.prediction_limits_ = problem.limits

    def _learn(self, X, targets, weights, flat, is_open=False):
        super()._learn(X, targets, weights, flat, is_open)
        self.input_limits_ = self.prediction_limits_ = None

    def _fit_rows(self, *source):
        super()._fit_rows(*source)
        self.input_limits_ = self.prediction_limits_ = None

    def _infers_family(self):
        return isinstance(self.family, str) and self.family == "auto"

    def _learns_link(self):
        return isinstance(self.link, str) and self.link in _LEARNED

    def _law(self, y=None):
        named_link = self.link is not None and not self._learns_link()
        link: Any = LINKS.find(self.link) if named_link else None
        if not self._infers_family():
            family: Any = FAMILIES.find(self.family, ["auto"])
        elif y is None:
            raise ValueError(
                "Rows that come in chunks need family=, such as family='poisson': the first rows "
                "do not determine the family."
            )
        else:
            family = family_of(y)
            if named_link and not suits(link, family):
                family = FAMILIES["gaussian"]
        if isinstance(family, Matching):
            raise ValueError("family='matching' is the loss of ReflectronRegressor.")
        if family.tied or type(family).residuals is not Family.residuals:
            raise ValueError(f"family={self.family!r} is for classes: use GLMClassifier.")
        if not named_link:
            return family, family.link
        check_link(link, family, self.link)
        return family, link

    def _stream_law(self):
        if self._learns_link():
            raise ValueError(f"link={self.link!r} is learned by fit: name a link for a stream.")
        return super()._stream_law()

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike = None,
        sample_weight: ArrayLike | str | None = None,
        X_val: MatrixLike = None,
        y_val: TargetLike = None,
        *,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            By default the left-hand side of the formula.
        sample_weight : array-like of shape (n_samples,) or str, optional
            Whole weights are repetitions. A text is the name of a column of X, also below: it is
            then no feature, and all methods read it from X.
        X_val, y_val : array-like, optional
            Validation rows, in place of held-out rows.
        exposure : array-like of shape (n_samples,) or str, optional
            The duration or size over which y was counted: E[y | x] = exposure * u(<theta, x> + b).
            For a binomial family the number of trials; y is the number of successes.
        offset : array-like of shape (n_samples,) or str, optional
            Known terms of the index: E[y | x] = u(<theta, x> + b + offset).

        Returns
        -------
        self
        """
        rows, self.model_spec_, y = self._encoded(X, y)
        own = self._offset_of_formula(X)
        if own is not None:
            offset = own if offset is None else own + np.asarray(offset, dtype=np.float64)
        X, y = base.check_rows_and_targets(self, rows.X, y, multi_output=True, numeric=True)
        self.categories_, self.schema_ = rows.categories, rows.schema
        if np.shape(y)[1:] == (1,) and not self.__sklearn_tags__().target_tags.multi_output:
            y = column_or_1d(y, warn=True)
        weights, targets = base.check_weights(sample_weight, X), as_columns(y)
        given_weights, given_offset = base.check_weights(sample_weight, X, as_given=True), offset
        family, link = law = self._law(_inferred_from(targets, exposure))
        learned = self.link if self._learns_link() else None
        self.row_terms_ = tuple(given_terms(exposure, offset))
        if self._is_unpenalized():
            return self._fit_likelihood(X, y, given_weights, X_val, law, exposure, offset)
        likely = None
        if learned is None:
            likely = self._likely_fits(X, y, given_weights, law, exposure, given_offset)
        if likely is not None and len(likely) == 1:
            law = family, link = likely[0].family, link
        setup = self._setup(law, learned_link=learned)
        if X_val is not None and self.row_terms_:
            raise ValueError("X_val= cannot be combined with exposure= or offset=.")
        offset = row_term(offset, X, "offset")
        targets, weights, offset = per_exposure(family, link, targets, weights, exposure, offset)
        family.check(targets[weights > 0.0])
        targets = family.targets(targets)
        validation = self._validation(X_val, y_val, family, as_columns(y).shape[1])
        self._flat = np.ndim(y) == 1
        over = None if family.exposure != "rate" else row_term(exposure, X, "exposure")
        # With an offset means have no range of their own.
        terms: Any = {"offset": offset, "exposure": over, "limited": offset is None}
        self._fit(setup, Training(X, targets, weights, validation=validation, **terms))
        self._keep_likelihood(X, y, given_weights, exposure, given_offset, likely)
        return self

    def _likely_fits(self, X, y, weights, law, exposure, offset):
        """The maximum likelihood fits with the family's unknown parameter; None if it has none.

        The parameter depends on no held-out rows. Where there is no such maximum, or rows are too
        many, the descent learns it.
        """
        self.family_, self.link_ = law
        self.constraint_ = self.constraint
        if not self._learns_parameter():
            return None
        try:
            columns = self._table_columns(X, weights, {})
            check_work(X.shape[0], len(columns.names), 1, True)
            with np.errstate(all="ignore"):
                own, targets = self._estimand_of_rows(np.asarray(y), exposure, offset)
                return self._fits_of(columns.of(X), columns, own, targets, weights, None)
        except ValueError:
            return None

    def _fit_likelihood(self, X, y, weights, X_val, law, exposure, offset):
        """Learn by maximum likelihood from checked rows."""
        self._check_unpenalized(X_val)
        if self._learns_link():
            raise ValueError(f"link={self.link!r} is learned by held-out rows: name a link.")
        self._flat = np.ndim(y) == 1
        self.family_, self.link_ = law
        self.constraint_ = self.input_limits_ = self.prediction_limits_ = None
        self._solve(X, y, weights, exposure, offset)
        return self

    def _learns_law(self, family):
        return self._learns_link() or type(family).learned is not Family.learned

    def _law_of(self, sample, columns):
        """The family and the link learned from a sample of the rows, and the start with these."""
        model = GLMRegressor(**self.get_params(deep=False))
        model.fit(sample.X, sample.y, sample.weights)
        coef, k = np.atleast_2d(model.coef_), np.size(model.intercept_)
        wide = np.zeros((k, len(columns.scale)))
        wide[:, : coef.shape[1]] = coef
        offset = np.reshape(model.intercept_, -1) + wide @ columns.centre
        return model.family_, model.link_, (wide * columns.scale, offset)

    @matched_by_place
    def predict(
        self, X: MatrixLike, exposure: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> np.ndarray:
        """Expected targets, shape (n_samples,) or (n_samples, n_targets or n_quantiles).

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        exposure, offset : number, array-like of shape (n_samples,) or str, optional
            As in `fit`, and needed if they were given there: the means are those of counts over
            the exposure. ``exposure=1`` gives rates.

        Returns
        -------
        ndarray
            Within `prediction_limits_`, times the exposure.

        Raises
        ------
        ValueError
            If an exposure or an offset was given to `fit` and not here.

        Warns
        -----
        UserWarning
            If a prediction is not finite.
        """
        exposure, offset = self._terms_of_rows(X, exposure, offset)
        self._check_predicted(exposure, offset)
        return self._mean_of_rows(X, exposure, offset)

    def _mean_of_rows(self, X, exposure=None, offset=None):
        margins = self._margins(X, getattr(self, "input_limits_", None))
        if offset is not None:
            margins = margins + row_term(offset, margins, "offset")[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self._means_of(margins)
            mean = over_exposure(mean.astype(self.coef_.dtype, copy=False), exposure)
        base.warn_infinite(mean)
        return mean[:, 0] if self.coef_.ndim == 1 else mean

    def _means_of(self, margins):
        """Means, for an exposure of 1, at indices."""
        mean = self.family_.predicted(self.link_, margins)
        ends: Any = getattr(self, "prediction_limits_", None)
        return mean if ends is None else np.clip(mean, *ends)

    @matched_by_place
    def score(
        self,
        X: MatrixLike,
        y: TargetLike = None,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """D2, the share of the deviance of the best constant that is explained; R2 of squares.

        Parameters
        ----------
        X, y, sample_weight, exposure, offset
            As in `fit`.

        Returns
        -------
        float
        """
        y, weights = self._targets_given(X, y), self._weights_of_rows(X, sample_weight)
        return super().score(X, y, weights, exposure, offset)

    def _evaluated(self, result, held, terms):
        batch, (family, link) = held.batch, (result.family, result.link)
        y, w = held.targets, held.weights
        predictions = family.predicted(link, held.indices)
        if self.prediction_limits_ is not None:
            if np.ndim(batch.held):  # rows of `fit`, not of validation
                fitted = family.predicted(link, held.fitted)
                loss = family.deviance if isinstance(family, HuberT | Quantile) else None
                limits = limits_of_predictions(predictions, fitted, y, w, held.rows, loss)
                self.prediction_limits_ = np.clip(limits, *self.prediction_limits_)
            predictions = np.clip(predictions, *self.prediction_limits_)
        is_inferred = self._infers_family() and self.link is None
        if self.prediction_limits_ is not None and is_inferred and self.fit_intercept:
            result, predictions = _shrunk(result, held, predictions)
        if terms is None:
            limits = self.prediction_limits_
            return result, base.held_out_predictions(predictions, y, w, limits)
        return result, terms.held_out(held.rows, predictions, y, family)

    def _check_indices(self, result, held):
        """Warn if all successes lie above all failures along the fitted coefficients."""
        if isinstance(result.family, Binomial) and self.constraint is None:
            _warn_of_separable(held.batch.targets[:, 0], held.fitted[:, 0])

    def _estimand(self, y):
        return self._estimand_of_rows(y, None, None)

    def _estimand_of_rows(self, y, exposure, offset):
        self._checked_terms(exposure, offset)
        law, targets = self._smooth(as_columns(y))
        ones, offset = np.ones(len(y)), row_term(offset, targets, "offset")
        targets, exposures, offset = per_exposure(*law[:2], targets, ones, exposure, offset)
        law.family.check(targets)
        return law._replace(exposure=exposures, offset=0.0 if offset is None else offset), targets

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        try:
            family, link = self._law(np.array([-1.0, 1.0]))
        except ValueError:
            return tags
        # The means of a bounded link cannot fit targets of any size.
        tags.regressor_tags.poor_score = bool(np.isfinite(link_range(link)).any())
        tags.target_tags.positive_only = family.range == (0.0, np.inf)
        # In scikit-learn's checks several targets are negative, too.
        tags.target_tags.multi_output = bool(np.isinf(family.range).all()) and not hasattr(
            family, "levels"
        )
        return tags


def _shrunk(result, held, predictions):
    """The result and its predictions, as near to a constant as held-out rows are best with."""
    batch, y, (family, link) = held.batch, held.targets, (result.family, result.link)
    mean = np.broadcast_to(family.clipped(family.start(batch.targets, batch.weights)), y.shape)
    losses = [family.deviance(y, family.clipped(m)) for m in (mean, predictions)]
    share = shrinkage_factor(predictions - mean, y - mean, held.weights, losses)
    if not (share < 1.0).any():
        return result, predictions
    null = target_margin(link, mean[0])
    nearer = family.predicted(link, null + share * (held.indices - null))
    return result.shrunk(share, null), nearer


def _warn_of_separable(y, s):
    """Warn if all successes y have larger indices s than all failures."""
    if not np.isin(y, (0.0, 1.0)).all() or y.min() == y.max():
        return
    gap = s[y == 1.0].min() - s[y == 0.0].max()
    if gap > 0.0:
        warn(
            "The rows are separable: along coef_ every success lies above every failure, by "
            f"{gap:.3g}. The likelihood has no maximum, and the size of coef_ depends on when "
            "held-out rows stopped the fit: give constraint=LpBall(2, radius) to bound it."
        )


def _inferred_from(targets, exposure):
    """The targets from which a family is inferred.

    Counts with an exposure are Poisson, even if all are 0 or 1.
    """
    is_counts = exposure is not None and np.all(targets == np.floor(targets))
    return targets + 1.0 if is_counts else targets
