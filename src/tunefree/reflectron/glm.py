"""Generalized linear models: families, links, exposures, inference."""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from tunefree.base import base
from tunefree.base.diagnostics import DiagnosticsMixin
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
    FamilyOfClasses,
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
    OF_CLASSES,
    Binomial,
    Family,
    HuberT,
    Matching,
    Ordinal,
    Quantile,
    family_of,
)
from tunefree.parts.links import LINKS, link_range, target_margin
from tunefree.reflectron.classifier import MirrorClassifier, has_probabilities
from tunefree.reflectron.descent import DescentResult, Training
from tunefree.reflectron.likelihood import distance, line_of, most_likely, warn_aliased
from tunefree.reflectron.potentials import Potential
from tunefree.reflectron.reflectron import (
    COMMON,
    FITTED,
    GEOMETRY,
    MirrorDescent,
    MirrorRegressor,
    documented,
)
from tunefree.rows import formulas
from tunefree.rows.columns import column_named, names_of, without_columns
from tunefree.rows.levels import Coded, TableColumns, coded, coefficient_names
from tunefree.rows.matrices import as_columns
from tunefree.rows.missing import complete
from tunefree.rows.units import Units
from tunefree.uncertainty.kept import KeptFit, KeptFits, check_work
from tunefree.uncertainty.laws import Law

# What a column of X may be that is no feature.
_ROLES = ("sample_weight", "exposure", "offset")
# Links that are chosen or learned.
_LEARNED = ("auto", "learned")

_FORMULA = """formula : str or None, default=None
        The columns, and y where it is not given, as text: ``"claims ~ age + C(region)"``. It is
        read by formulaic (``pip install 'tunefree[formula]'``), which evaluates the Python in it.
        All methods then take a frame. A model file keeps formulas of arithmetic, log, exp, sqrt, C,
        bs, cr, poly, center, scale, ``a:b``, ``a*b`` and ``offset(...)``."""

_SELECTION = """per_output : bool, default=False
        With several outputs, potential and constraint act on the whole matrix of coefficients (so
        that outputs share the pattern of sparsity); with True on every output separately.
    validation_fraction : float in [0, 1) or 'auto', default='auto'
        Share of the rows held out to choose the iterate and the configuration; 'auto' is a fifth,
        or less if disjoint splits need it. One row in round(1 / share) is held out.
    n_splits : int or 'auto', default='auto'
        The number of disjoint folds. For each a model learns from the other rows, with the same
        steps as the model that learns from all rows. 'auto' is 5 below 20,000 rows in memory, or
        1,000 of a source, else 1.
    tol : float, default=1e-3
        Fall of the deviance that counts as progress, relative to the deviance and a tenth of the
        start's."""

_LAST = """warm_start : bool, default=False
        Start from the last fit's coefficients.
    n_jobs : int or None, default=None
        Threads for batches of 16,384 rows or more, all by default; results do not depend on it.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash by which rows are held out."""

_FITTED = """family_ : part
        The family in use.
    categories_ : list or None
        For a data frame with columns of text or categories, the levels of each (None: numbers).
        ``coef_`` has an entry for every column of numbers and then for every level; indicator
        columns are not stored in memory. A new level has the coefficient 0.
    coef_names_ : ndarray of str
        The names of the entries of ``coef_``.
    likelihood_ : part
        What `summary`, `coef_interval` and `anova` need of the rows of `fit`, or why there is no
        table.
    model_spec_ : formulaic.ModelSpec or None
        The columns of the formula as learned, with levels and means.
    """

_NONE = """. 'none' is maximum likelihood: no penalty, no held-out rows,
        no early stop, no limits of predictions; `predict` is then that of the table of `summary`"""

_TEXTS = {
    "formula": _FORMULA,
    "geometry": GEOMETRY.replace(
        "{also}", ", and up to 500 columns `Whitened` in four\n        shrinkages" + _NONE
    ),
    "common": COMMON,
    "selection": _SELECTION,
    "last": _LAST,
    "fitted": _FITTED + FITTED,
}


class _Inference(DiagnosticsMixin, MirrorDescent):
    """Coefficients of a fitted family and link, with intervals."""

    constraint_: Any
    family: Any
    family_: Any
    formula: Any
    link_: Any
    model_spec_: Any

    @property
    def coef_names_(self) -> np.ndarray:
        """The names of the entries of `coef_`: columns of numbers, then the levels of categories.

        Features of a map are numbered.
        """
        check_is_fitted(self, "link_")
        if vars(self).get("feature_map_") is not None:
            names = [f"feature {j}" for j in range(np.shape(self.coef_)[-1])]
            return np.array(names, dtype=object)
        names = [str(name) for name in _check_feature_names_in(self)]
        categories = vars(self).get("categories_")
        if categories is not None:
            names = coefficient_names(names, categories)
        return np.array(names, dtype=object)

    def _encoded(self, X, y):
        """For `fit`: the `Coded` rows, the formula's encoding, and targets."""
        if self.formula is None:
            return coded(X), None, y
        columns, spec = formulas.model_columns(self.formula, X, self.fit_intercept)
        return Coded(columns, None, None), spec, self._targets_given(X, y)

    def _take_columns(self, arguments):
        """Replace names of columns by their numbers, and take these out of X."""
        X, self.row_columns_ = arguments["X"], {}
        for role in _ROLES:
            values = arguments.get(role)
            if isinstance(values, str):
                arguments[role] = column_named(X, values, role)
                self.row_columns_[role] = values
        if self.formula is None:
            arguments["X"] = without_columns(X, self.row_columns_.values())

    def _column_of_role(self, X, values, role):
        """The numbers of a role: as given, or those of its column in X; else None."""
        name = values if isinstance(values, str) else vars(self).get("row_columns_", {}).get(role)
        if name is None or not (values is None or isinstance(values, str)):
            return values
        if values is None and role == "sample_weight" and name not in (names_of(X) or ()):
            return None
        return column_named(X, name, role)

    def _weights_of_rows(self, X, sample_weight):
        return self._column_of_role(X, sample_weight, "sample_weight")

    def _terms_of_rows(self, X, exposure, offset):
        exposure = self._column_of_role(X, exposure, "exposure")
        offset = self._column_of_role(X, offset, "offset")
        own = self._offset_of_formula(X)
        if own is None:
            return exposure, offset
        return exposure, own if offset is None else own + np.asarray(offset, dtype=np.float64)

    def _offset_of_formula(self, X):
        """The sum of the formula's terms ``offset(...)``; None if it has none."""
        spec = vars(self).get("model_spec_")
        return None if spec is None else formulas.offset_of(spec, X)

    def _coded(self, X):
        X = without_columns(X, vars(self).get("row_columns_", {}).values())
        spec = vars(self).get("model_spec_")
        if spec is None:
            return super()._coded(X)
        return formulas.encoded(self.formula, spec, X)

    def _targets_given(self, X, y):
        if y is None and self.formula is not None:
            return formulas.targets_of(self.formula, X, vars(self).get("model_spec_"))
        return y

    def _after_fit(self, X, y, sample_weight):
        super()._after_fit(X, self._targets_given(X, y), sample_weight)

    def _stream_law(self):
        self._refuse_chunks()
        return super()._stream_law()

    def _fit_rows(self, *source):
        self._refuse_chunks()
        super()._fit_rows(*source)
        vars(self).pop("likelihood_", None)  # of rows that `fit` had before

    def _learn(self, X, targets, weights, flat, is_open=False):
        super()._learn(X, targets, weights, flat, is_open)
        vars(self).pop("likelihood_", None)  # of rows that `fit` had before

    def _refuse_chunks(self):
        if self.formula is not None:
            raise ValueError("formula= needs a frame in memory: use fit.")
        if self._is_unpenalized():
            raise ValueError("potential='none' needs all rows in memory: use fit.")

    def _smooth(self, y):
        """The `Law` and the targets for inference of coefficients."""
        if self.constraint_ is not None:
            raise ValueError(
                "Coefficients have no valid intervals with constraint=: fit without it."
            )
        family, link = self.family_, self.link_
        if hasattr(family, "probabilities"):
            return Law(family, getattr(family, "cumulative", LINKS["logit"])), family.targets(y)
        bent = hasattr(family, "levels") and link != LINKS["identity"]
        if bent or not hasattr(link, "slope") or hasattr(link, "base"):
            raise ValueError(
                f"Coefficients of family={family!r} with the link {type(link).__name__} have no "
                "valid intervals: these need one smooth index for each target, and a link that "
                "was not learned."
            )
        return Law(family, link), family.targets(y)

    def _rows_of_tables(self, X):
        return super()._rows_of_tables(self._coded(X))

    def _table_columns(self, rows, weights, reference):
        categories = vars(self).get("categories_")
        columns = super()._table_columns(rows, weights, reference if categories is None else {})
        if vars(self).get("model_spec_") is not None:
            spec = self.model_spec_
            return columns._replace(own_terms=formulas.terms_of(spec), of_factors=spec.reference)
        if categories is None:
            return columns
        names = columns.numbers
        return TableColumns.learned(rows, names, categories, weights, self.fit_intercept, reference)

    def _is_unpenalized(self):
        """Whether the model is the maximum likelihood fit."""
        return isinstance(self.potential, str) and self.potential == "none"

    def _keep_likelihood(self, rows, y, weights, exposure=None, offset=None):
        """Keep the maximum likelihood fit of checked rows, for tables without them."""
        try:
            with np.errstate(all="ignore"):
                columns = self._table_columns(rows, weights, {})
                law, targets = self._estimand_of_rows(np.asarray(y), exposure, offset)
                n_blocks = 1 if law.family.tied else max(len(targets.T) - 1, 1)
                check_work(len(targets), len(columns.names), n_blocks, self._learns_parameter())
                fits = self._fits_of(columns.of(rows), columns, law, targets, weights, None)
                remark = self._distance(fits, rows, weights, offset)
                self.likelihood_ = self._kept_of(fits, columns, np.ndim(y) == 2, remark)
        except ValueError as problem:
            self.likelihood_ = KeptFits.without(str(problem))

    def _kept_of(self, fits, columns, are_several, remark=""):
        """The `KeptFits` of fits with rows."""
        containing = self._containing_terms()
        kept = [KeptFit.of(fit, columns, containing) for fit in fits]
        return KeptFits(kept, columns, are_several, remark=remark)

    def _distance(self, fits, rows, weights, offset):
        """How far the model's predictions of checked rows are from the fits, in a sentence."""
        if self._is_unpenalized():
            return ""
        margins = self._margins_of_rows(rows)[weights > 0.0]
        if offset is not None:
            margins = margins + np.reshape(row_term(offset, rows, "offset"), (-1, 1))[weights > 0.0]
        return distance(fits, self._means_of(margins), hasattr(self, "classes_"))

    def _solve(self, rows, y, weights, exposure=None, offset=None):
        """Set the coefficients, and what predictions need, to those of maximum likelihood."""
        if self.constraint is not None:
            raise ValueError("potential='none' has no constraint=: give another potential.")
        columns = self._table_columns(rows, weights, {})
        law, targets = self._estimand_of_rows(np.asarray(y), exposure, offset)
        A = columns.of(rows)

        def fits_of(law):
            return self._fits_of(A, columns, law, targets, weights, None)

        with np.errstate(all="ignore"):
            fits = most_likely(fits_of, law, targets, weights)
        warn_aliased(fits)
        levels = self._levels_of_columns()
        line = line_of(fits, columns, () if levels is None else levels.sizes, law.family.tied)
        family = self.family_ if len(fits) > 1 else fits[0].family
        units = Units.unchanged(line.coef.shape[1])
        own: Any = family, self.link_, units
        dtype = np.result_type(rows.dtype, np.float32)
        self.held_out_ = self.feature_map_ = self._stream = None
        self._publish(DescentResult(*line, [], {}, 1, *own), dtype)
        self.potential_, self.constraint_, self.leaderboard_ = self.potential, None, []
        try:
            check_work(len(targets), len(columns.names), fits[0].n_blocks, False)
            self.likelihood_ = self._kept_of(fits, columns, np.ndim(y) == 2)
        except ValueError as problem:
            self.likelihood_ = KeptFits.without(str(problem))

    def _check_unpenalized(self, X_val):
        """Refuse validation rows, which would have nothing to choose."""
        if X_val is not None:
            raise ValueError("potential='none' has nothing to choose by X_val=: leave it out.")

    def _containing_terms(self):
        spec = vars(self).get("model_spec_")
        return {} if spec is None else formulas.containing_terms(spec)

    def _learns_parameter(self):
        named = isinstance(self.family, Family) or self.family in FAMILIES.names()
        given = FAMILIES.find(self.family) if named else None
        is_open = given is None or None in vars(given).values()
        return self.family_.at is not None and is_open


@documented(**_TEXTS)
class GLMRegressor(_Inference, TakesExposures, MirrorRegressor):
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
            if named_link and not _suits(link, family):
                family = FAMILIES["gaussian"]
        if isinstance(family, Matching):
            raise ValueError("family='matching' is the loss of ReflectronRegressor.")
        if family.tied or type(family).residuals is not Family.residuals:
            raise ValueError(f"family={self.family!r} is for classes: use GLMClassifier.")
        if not named_link:
            return family, family.link
        _check_link(link, family, self.link)
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
        if learned is None:
            law = self._with_likely_parameter(X, y, given_weights, law, exposure, given_offset)
            family, link = law
        setup = self._setup(law, learned_link=learned)
        if X_val is not None and self.row_terms_:
            raise ValueError("X_val= cannot be combined with exposure= or offset=.")
        offset = row_term(offset, X, "offset")
        targets, weights, offset = per_exposure(family, link, targets, weights, exposure, offset)
        family.check(targets[weights > 0.0])
        targets = family.targets(targets)
        validation = self._validation(X_val, y_val, family)
        self._flat = np.ndim(y) == 1
        over = None if family.exposure != "rate" else row_term(exposure, X, "exposure")
        # With an offset means have no range of their own.
        terms: Any = {"offset": offset, "exposure": over, "limited": offset is None}
        self._fit(setup, Training(X, targets, weights, validation=validation, **terms))
        self._keep_likelihood(X, y, given_weights, exposure, given_offset)
        return self

    def _with_likely_parameter(self, X, y, weights, law, exposure, offset):
        """The law with the family's unknown parameter at its maximum likelihood.

        It depends on no held-out rows. Where there is no such maximum, or rows are too many, the
        descent learns the parameter.
        """
        self.family_, self.link_ = law
        self.constraint_ = self.constraint
        if not self._learns_parameter():
            return law
        try:
            columns = self._table_columns(X, weights, {})
            check_work(X.shape[0], len(columns.names), 1, True)
            with np.errstate(all="ignore"):
                own, targets = self._estimand_of_rows(np.asarray(y), exposure, offset)
                fits = self._fits_of(columns.of(X), columns, own, targets, weights, None)
        except ValueError:
            return law
        return (fits[0].family, law[1]) if len(fits) == 1 else law

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

    def predict(
        self,
        X: MatrixLike,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> np.ndarray:
        """Expected targets, shape (n_samples,) or (n_samples, n_targets or n_quantiles).

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        exposure, offset : array-like of shape (n_samples,), optional
            As in `fit`: the means are those of counts over the exposure.

        Returns
        -------
        ndarray
            Within `prediction_limits_`, times the exposure.

        Warns
        -----
        UserWarning
            If a prediction is not finite.
        """
        exposure, offset = self._terms_of_rows(X, exposure, offset)
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
        batch, s, (family, link) = held.batch, held.indices, (result.family, result.link)
        y, w = held.targets, held.weights
        predictions = family.predicted(link, s)
        if self.prediction_limits_ is not None:
            if np.ndim(batch.held):  # rows of `fit`, not of validation
                fitted = family.predicted(link, held.fitted)
                loss = family.deviance if isinstance(family, HuberT | Quantile) else None
                limits = limits_of_predictions(predictions, fitted, y, w, held.rows, loss)
                self.prediction_limits_ = np.clip(limits, *self.prediction_limits_)
            predictions = np.clip(predictions, *self.prediction_limits_)
        if self.prediction_limits_ is not None and self._infers_family() and self.link is None:
            mean = np.broadcast_to(
                family.clipped(family.start(batch.targets, batch.weights)), y.shape
            )
            losses = [family.deviance(y, family.clipped(m)) for m in (mean, predictions)]
            share = shrinkage_factor(predictions - mean, y - mean, w, losses)
            if (share < 1.0).any() and self.fit_intercept:
                null = target_margin(link, mean[0])
                result = result.shrunk(share, null)
                predictions = family.predicted(link, null + share * (s - null))
        if terms is None:
            limits = self.prediction_limits_
            return result, base.held_out_predictions(predictions, y, w, limits)
        return result, terms.held_out(held.rows, predictions, y, family)

    def _check_indices(self, result, held):
        """Warn if all successes lie above all failures along the fitted coefficients."""
        batch, s = held.batch, held.fitted[:, 0]
        y = batch.targets[:, 0]
        free = isinstance(result.family, Binomial) and self.constraint is None
        if not free or not np.isin(y, (0.0, 1.0)).all() or y.min() == y.max():
            return
        gap = s[y == 1.0].min() - s[y == 0.0].max()
        if gap > 0.0:
            warn(
                "The rows are separable: along coef_ every success lies above every failure, by "
                f"{gap:.3g}. The likelihood has no maximum, and the size of coef_ depends on when "
                "held-out rows stopped the fit: give constraint=LpBall(2, radius) to bound it.",
            )

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


@documented(**_TEXTS)
class GLMClassifier(_Inference, MirrorClassifier):
    r"""Linear classification by likelihood, with no penalty to choose.

    .. math:: P(y = c \mid x) \propto \exp(\langle \theta_c, x \rangle + b_c)

    Two classes are logistic regression (``family='binomial'``), more are a softmax
    (``family='multinomial'``); with another link, and on streams, each class is one output.
    Ordered classes have ``family='ordinal'``: one index and a threshold between neighbours. See
    `GLMRegressor` for the method.

    Parameters
    ----------
    family : {'auto', 'binomial', 'multinomial', 'ordinal'} or family, default='auto'
    link : str, link or None, default=None
        The probability as a function of the index: 'probit', 'cloglog', ...; None is 'logit'. Of
        ordered classes u in P(y <= j) = u(threshold_j - index): 'logit', 'probit' or 'cloglog'.
        family='multinomial' has 'logit' only.
    {formula}
    {geometry}
    {common}
    {selection}
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; on a stream 'balanced' uses the counts up to each row.
    categories : array-like or None, default=None
        For family='ordinal', the grades from the lowest to the highest. None uses the order of an
        ordered categorical (pandas, polars Enum) or of numbers; other text is refused.
    {last}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        Sorted; with family='ordinal' from the lowest grade to the highest.
    class_count_ : ndarray of shape (n_classes,)
        The weight of the rows of each class.
    {fitted}

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero, a decreasing link, or
        a pair of constraint and potential without a rule.

    References
    ----------
    McCullagh and Nelder 1989 (the models); Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting
    geometry for learning generalized linear models", eq. 7-8 (mirror descent).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import GLMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GLMClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    def __init__(
        self,
        family: FamilyOfClasses | Auto | Family = "auto",
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
        class_weight: Any = None,
        categories: ArrayLike | None = None,
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
        self.class_weight = class_weight
        self.categories = categories
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Scikit-learn's classes have no order, as thresholds need.
        tags.classifier_tags.poor_score = self.family == "ordinal"
        return tags

    def _law(self, y=None):
        """The family and the link for classes `y`, if these are known."""
        link: Any = self._link()
        several = y is not None and len(y) > 2
        if isinstance(self.family, str) and self.family == "auto":
            softmax = several and link == LINKS["logit"]
            family: Any = FAMILIES["multinomial" if softmax else "binomial"]
        else:
            family = FAMILIES.find(self.family, ["auto"])
            if FAMILIES.get(self.family) is not None and self.family not in OF_CLASSES:
                raise ValueError(
                    f"family={self.family!r} is not for classes: choose one of auto, "
                    f"{', '.join(OF_CLASSES)}."
                )
            if hasattr(family, "probabilities") and self.link is not None:
                family = _with_link(family, link)
            if hasattr(family, "probabilities") and y is not None and not several:
                family = FAMILIES["binomial"]
        if hasattr(family, "probabilities"):
            return family, family.link
        _check_link(link, family, self.link)
        return family, link

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike = None,
        sample_weight: ArrayLike | str | None = None,
        X_val: MatrixLike = None,
        y_val: TargetLike = None,
        *,
        offset: ArrayLike | str | None = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional
            By default the left-hand side of the formula.
        sample_weight : array-like of shape (n_samples,) or str, optional
            Whole weights are repetitions. A text is the name of a column of X, also below.
        X_val, y_val : array-like, optional
            Validation rows, in place of held-out rows.
        offset : array-like of shape (n_samples,) or str, optional
            For two classes: known terms of the index, P(y = 1 | x) = u(<theta, x> + b + offset).

        Returns
        -------
        self
        """
        self._law()
        rows, self.model_spec_, y = self._encoded(X, y)
        self.categories_ = rows.categories
        grades, offset = _grades_of(y), self._terms_of_rows(X, None, offset)[1]
        self.row_terms_ = tuple(given_terms(None, offset))
        if offset is not None:
            if X_val is not None:
                raise ValueError("X_val= cannot be combined with offset=.")
            labels = base.encode_labels(np.asarray(complete(y)))[0]
            if len(labels) > 2:
                raise ValueError(f"offset= is for two classes, and y has {len(labels)}.")
            offset = row_term(offset, rows.X, "offset")
        if self._is_unpenalized():
            self._fit_likelihood(rows.X, y, sample_weight, X_val, grades, offset)
        else:
            self._fit_labels(rows.X, y, sample_weight, X_val, y_val, grades, offset)
            X = base.check_rows(self, rows.X)
            weights = base.check_weights(sample_weight, X, as_given=True)
            self._keep_likelihood(X, np.asarray(complete(y)), weights, None, offset)
        self.schema_ = rows.schema
        return self

    def _fit_likelihood(self, X, y, sample_weight, X_val, grades, offset):
        """Learn by maximum likelihood."""
        self._check_unpenalized(X_val)
        if self.class_weight is not None:
            raise ValueError(
                "potential='none' has no class_weight=, with which the likelihood is not that of "
                "the rows: give sample_weight."
            )
        X, y = base.check_rows_and_targets(self, X, y)
        weights = base.check_weights(sample_weight, X, as_given=True)
        base.encode_labels(y)
        used = y[weights > 0.0]
        classes = self._in_order(base.encode_labels(used, fewest=2)[0], grades)
        self.family_, self.link_ = self._law(classes)
        codes = base.places_of(classes, used)
        self.classes_ = classes
        self.class_count_ = np.bincount(codes, weights[weights > 0.0])
        self.constraint_ = None
        self._solve(X, y, weights, None, offset)

    def _means_of(self, margins):
        """Probabilities at indices."""
        return self._probabilities(margins)

    def _margins(self, X, limits=None, offset=None):
        margins, offset = super()._margins(X, limits), self._terms_of_rows(X, None, offset)[1]
        self._check_offset(offset)
        if offset is None:
            return margins
        return margins + row_term(offset, margins, "offset")[:, None]

    def _check_offset(self, offset):
        """Refuse rows without an offset that the model was fitted with, or with another one."""
        own = "offset" in vars(self).get("row_terms_", ())
        if own and offset is None:
            raise ValueError(
                f"This {type(self).__name__} was fitted with offset=: give offset= for these rows, "
                "too."
            )
        if offset is not None and not own:
            raise ValueError(
                f"This {type(self).__name__} was fitted without offset=: do not give it here."
            )

    def predict(self, X: MatrixLike, offset: ArrayLike | str | None = None) -> np.ndarray:
        """The most likely class of every row, shape (n_samples,).

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        offset : array-like of shape (n_samples,) or str, optional
            As in `fit`: needed here if it was given there.
        """
        scores = self.decision_function(X, offset)
        return self.classes_[base.codes_of(scores.reshape(len(scores), -1))]

    def decision_function(self, X: MatrixLike, offset: ArrayLike | str | None = None) -> np.ndarray:
        """Margins above the middle of the link's range: (n_samples,), or one for each class.

        With several ordered classes the logarithms of their probabilities. `offset` is as in `fit`.
        """
        return self._decisions(self._margins(X, offset=offset))

    @available_if(has_probabilities)
    def predict_proba(self, X: MatrixLike, offset: ArrayLike | str | None = None) -> np.ndarray:
        """Means of the model as shares of the link's range; for several classes normalised to 1.

        Shape (n_samples, n_classes). `offset` is as in `fit`.
        """
        margins = self._margins(X, offset=offset)
        return self._probabilities(margins).astype(self.coef_.dtype, copy=False)

    def score(
        self,
        X: MatrixLike,
        y: TargetLike = None,
        sample_weight: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
    ) -> float:
        """The share of rows whose class is predicted.

        Parameters
        ----------
        X, y, sample_weight, offset
            As in `fit`.

        Returns
        -------
        float
        """
        y, weights = self._targets_given(X, y), self._weights_of_rows(X, sample_weight)
        return float(accuracy_score(y, self.predict(X, offset), sample_weight=weights))

    def _in_order(self, classes, grades=None):
        """Sorted classes; with family='ordinal' in the order of `categories`, or else `grades`."""
        if not isinstance(self._law()[0], Ordinal):
            if self.categories is not None:
                raise ValueError("categories= is the order of grades and needs family='ordinal'.")
            return classes
        if self.categories is not None:
            grades = np.asarray(self.categories)
        if grades is None:
            if len(classes) > 2 and isinstance(classes[0], str):
                raise ValueError(
                    f"y has text without an order ({', '.join(classes[:5])}): give categories=, "
                    "all grades from the lowest to the highest (in the shell --categories "
                    "low,mid,high), or y as an ordered categorical (pandas.CategoricalDtype(..., "
                    "ordered=True), polars.Enum)."
                )
            return classes
        if len(np.unique(grades)) < len(grades):
            raise ValueError(f"categories={grades.tolist()} names a grade twice.")
        ranks = {grade: rank for rank, grade in enumerate(grades.tolist())}
        for grade in classes.tolist():
            if grade not in ranks:
                raise ValueError(f"categories={grades.tolist()} lacks {grade!r}, which y has.")
        return classes[np.argsort([ranks[grade] for grade in classes.tolist()])]

    def _estimand(self, y):
        codes = base.places_of(self.classes_, y)
        return self._smooth(self._targets(codes, self.classes_))

    def _estimand_of_rows(self, y, exposure, offset):
        self._check_offset(offset)
        law, targets = super()._estimand_of_rows(y, exposure, None)
        if offset is None:
            return law, targets
        return law._replace(offset=row_term(offset, targets, "offset")), targets


def _with_link(family, link):
    """A family of several classes with a link that the user named."""
    if isinstance(family, Ordinal):
        return Ordinal(link)
    if link != LINKS["logit"]:
        raise ValueError(
            f"link={link!r} is not for family='multinomial', a softmax: leave link= out, or give "
            "family='auto', which has one output for each class."
        )
    return family


def _suits(link, family):
    """Whether the means of a link lie in the range of a family."""
    (low, high), (least, most) = link_range(link), family.range
    return low >= least and high <= most


def _check_link(link, family, name):
    """Refuse a link that a family cannot have."""
    if not _suits(link, family):
        (low, high), (least, most) = link_range(link), family.range
        raise ValueError(
            f"link={name!r} has means from {low:g} to {high:g}, but {family!r} has means from "
            f"{least:g} to {most:g}: choose another link or family."
        )
    if not hasattr(link, "slope"):
        raise ValueError(f"link={name!r} needs a method slope(s) with a family.")


def _inferred_from(targets, exposure):
    """The targets from which a family is inferred.

    Counts with an exposure are Poisson, even if all are 0 or 1.
    """
    is_counts = exposure is not None and np.all(targets == np.floor(targets))
    return targets + 1.0 if is_counts else targets


def _grades_of(y):
    """The grades of an ordered categorical, from the lowest to the highest; else None."""
    dtype: Any = getattr(y, "dtype", None)
    if type(dtype).__name__ == "Enum" or getattr(dtype, "ordered", False):
        return np.asarray(dtype.categories)
    return None
