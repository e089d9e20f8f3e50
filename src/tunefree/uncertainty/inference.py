r"""Intervals for coefficients: of the M-estimand of a loss, with sandwich covariances.

Learned coefficients have no valid standard error: learning stops early, averages and shrinks. So
the centre of the intervals is the unpenalised minimum of the loss, by Newton's steps. With the
score r_i (half the slope of the deviance in the index s_i) and its slope h_i,

.. math:: V = A^{-1} \Bigl(\sum_i \frac{r_i^2}{(1 - l_i)^2} x_i x_i^\top\Bigr) A^{-1}, \qquad
    A = \sum_i h_i x_i x_i^\top,\quad l_i = h_i x_i^\top A^{-1} x_i,

is HC3, the default. HC2 divides by 1 - l_i, HC0 by 1, and HC1 is HC0 times n / (n - d). "cluster"
sums r_i x_i over the rows of a group before the square, times G / (G - 1) (n - 1) / (n - d) for G
groups. "nonrobust" is the inverse of Fisher's information times the dispersion: it needs the family
to be true. The others are for the best linear predictor of the loss, whether or not the model is
linear, errors normal or variances equal: rows, or groups, must be independent, and many more than
columns. Student's t has n - d degrees of freedom, with groups G - 1.

A row counts w times, or, if weights are precisions, its variance is divided by w. Several and
ordered classes have an index for each output: `tunefree.uncertainty.classes`. Quantiles have the
score 1[y <= s] - q; its slope is the density of the errors at 0: `tunefree.uncertainty.quantiles`.

Source: Huber 1967; White 1980; MacKinnon and White 1985 (HC0 to HC3); Liang and Zeger 1986
(groups); McCullagh and Nelder 1989 (the information, the dispersion).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import t as student

from tunefree.core.warn import none_of
from tunefree.parts.families import Binomial, Gaussian, HuberT, Matching, Quantile
from tunefree.parts.links import LINKS, Logit, index_of_mean, link_range
from tunefree.rows.matrices import as_dense
from tunefree.uncertainty import classes, quantiles
from tunefree.uncertainty.coefficients import (
    Anova,
    Statistics,
    Summary,
    WaldTest,
    chi2_or_f,
    wald,
)

COV_TYPES = ("nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster")
WEIGHT_TYPES = ("auto", "frequency", "precision")
_MOST_STEPS, _CONVERGED, _LARGEST_INDEX, _MOST_CELLS = 100, 1e-10, 30.0, 2e8
_MOST_HALVINGS, _SUFFICIENT = 40, 0.25  # of a step; the part of the promised fall
_ROUNDING = 1e-14  # of the first loss
_SMALL_STEP = 0.1  # in the index
_ROWS_PER_COLUMN = 3  # fewer are noted
_ON_THE_PLANE = 1e-9  # errors of a quantile, relative to the largest target
_ALIASED = 1e-9  # the part of a column that other columns do not explain


class CovarianceOptions(NamedTuple):
    """How covariances are estimated; see `summary`."""

    cov_type: str = "HC3"
    groups: Any = None
    weight_type: str = "auto"
    use_t: bool = True

    def check(self, n, family):
        """Refuse options that are unknown, or do not fit n rows of a family."""
        if self.cov_type not in COV_TYPES:
            raise none_of("cov_type", self.cov_type, COV_TYPES)
        if self.weight_type not in WEIGHT_TYPES:
            raise none_of("weight_type", self.weight_type, WEIGHT_TYPES)
        if (self.cov_type == "cluster") != (self.groups is not None):
            raise ValueError("cov_type='cluster' needs groups=, and groups= needs it.")
        of_classes = hasattr(family, "probabilities")
        has_density = family.log_likelihood or of_classes or isinstance(family, Quantile)
        if self.cov_type == "nonrobust" and not has_density:
            raise ValueError(
                f"cov_type='nonrobust' needs a density, which {type(family).__name__} does not "
                "have: choose one of HC0 to HC3."
            )
        if self.groups is not None and np.shape(self.groups) != (n,):
            raise ValueError(f"groups has the shape {np.shape(self.groups)}, but X has {n} rows.")


class Law(NamedTuple):
    r"""The law of one output: E[y | x] = exposure * u(s + offset) at the index s = <beta, x> + b.

    `score` and `slope` are of targets per unit of exposure; a row counts as much as its exposure.
    """

    family: Any
    link: Any
    exposure: Any = 1.0  # or of shape (n,)
    offset: Any = 0.0  # or of shape (n,)

    def of_outputs(self, n_outputs):
        """The law of every output."""
        levels = self.family.q if isinstance(self.family, Quantile) else ()
        own = [self._replace(family=Quantile(float(q))) for q in levels]
        return own or [self] * n_outputs

    def only(self, rows):
        """The law of some of the rows."""
        exposure, offset = (a[rows] if np.ndim(a) else a for a in self[2:])
        return self._replace(exposure=exposure, offset=offset)

    def score(self, s, y):
        """Half the slope of the deviance in the index, shape (n,)."""
        s = s + self.offset
        if isinstance(self.family, Matching):
            return self.exposure * (np.asarray(self.link.mean(s)) - y)
        mean = self.family.clipped(self.link.mean(s))
        return self.exposure * self.family.score(self.link, s, mean, y)

    def slope(self, s, y):
        """The slope of the score in the index, by a central difference."""
        step = 1e-5 * np.maximum(1.0, np.abs(s)) * max(float(np.std(s)), 1e-3)
        return (self.score(s + step, y) - self.score(s - step, y)) / (2.0 * step)

    def loss(self, s, y, share):
        """Half the mean deviance, which Newton's steps lower."""
        mean = self.mean(s)
        return 0.5 * float(share @ (self.exposure * self.family.deviance(y, mean)))

    def start(self, y, weights):
        """The first intercept: near the best constant, or 0 where the link has no inverse."""
        mean = np.average(y, weights=weights * self.exposure)
        index = index_of_mean(self.link, np.array([mean]))
        if index is None:
            return 0.0
        offset = np.average(np.broadcast_to(self.offset, y.shape), weights=weights)
        return float(index[0]) - offset

    def information(self, s):
        """Fisher's information of the index, shape (n,)."""
        return self.exposure * self.family.curvature(self.link, s + self.offset)

    def mean(self, s):
        """The mean of a target per unit of exposure."""
        return self.family.clipped(np.asarray(self.link.mean(s + self.offset)))


class SampleRows(NamedTuple):
    """Rows of one output, or of classes, all of positive weight.

    `are_frequencies` holds where a weight is the number of repetitions of its row. With classes
    `y` is of shape (n, m), and `labels` are their names.
    """

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    law: Law
    intercept: bool
    names: list
    are_frequencies: bool
    labels: list
    groups: Any = None  # their numbers from 0 on, of shape (n,)

    @property
    def n_blocks(self):
        """How often every column has a coefficient: once for each class but the first."""
        return len(self.labels) - 1 if self.labels and not self.law.family.tied else 1

    def places(self, columns):
        """Where the coefficients of some columns are."""
        wide = len(self.names) + self.intercept
        return (wide * np.arange(self.n_blocks)[:, None] + columns).ravel()

    def coefficient_names(self):
        """The names of all coefficients, thresholds and intercepts."""
        if self.labels and self.law.family.tied:
            pairs = zip(self.labels[:-1], self.labels[1:], strict=True)
            return [*self.names, *(f"threshold {low}|{high}" for low, high in pairs)]
        names = [*self.names, "intercept"] if self.intercept else self.names
        if not self.labels:
            return names
        return [f"{label}: {name}" for label in self.labels[1:] for name in names]

    @property
    def n(self):
        """The number of rows, repetitions included."""
        return float(self.weights.sum()) if self.are_frequencies else float(len(self.y))

    def without(self, columns):
        """The sample without some of the columns."""
        kept = np.setdiff1d(np.arange(len(self.names)), columns)
        return self._replace(X=self.X[:, kept], names=[self.names[j] for j in kept])


class StandardColumns(NamedTuple):
    """Standardised columns that are not aliased, and ones for the intercept."""

    A: np.ndarray
    to_raw: np.ndarray  # from their coefficients to those of the columns
    kept: np.ndarray  # which columns, and the intercept, have a coefficient
    aliased: dict  # the names of the others, and the reasons


class Minimum(NamedTuple):
    """Where the loss is least; the first fields are those of `StandardColumns`."""

    A: np.ndarray
    to_raw: np.ndarray
    kept: np.ndarray
    aliased: dict
    beta: np.ndarray
    s: np.ndarray  # indices
    above: Any = None  # of a quantile the part of every row above the plane


class CoefficientFit(NamedTuple):
    """Coefficients, the last of which is the intercept, and their covariance; NaN if aliased.

    One that a model keeps has neither `sample` nor `minimum`, which hold the rows.
    """

    names: list  # of the coefficients
    coef: np.ndarray
    covariance: np.ndarray
    df_denom: float
    statistics: Statistics
    family: Any
    link: Any
    aliased: dict
    notes: list
    n_blocks: int = 1  # how often every column has a coefficient
    sample: Any = None
    minimum: Any = None

    def design(self, A):
        """The columns A of rows, with ones for an intercept."""
        A = as_dense(A)
        return np.column_stack([A, np.ones(len(A))]) if len(self.coef) > A.shape[1] else A

    def index(self, A):
        """The indices of rows of the columns A; an aliased column counts as 0."""
        return self.design(A) @ np.nan_to_num(self.coef)

    def summary(self, alpha, reference=None):
        """The `Summary`, given the reference levels."""
        coef, df_denom = self.coef, self.df_denom
        error = np.sqrt(np.diag(self.covariance))
        reach = student.ppf(1.0 - 0.5 * alpha, df_denom) * error
        t = np.divide(coef, error, out=np.full(len(coef), np.inf), where=error != 0.0)
        return Summary(
            names=self.names,
            coef=coef,
            standard_error=error,
            statistic=t,
            p_value=2.0 * student.sf(np.abs(t), df_denom),
            low=coef - reach,
            high=coef + reach,
            alpha=alpha,
            note=" ".join(self.notes),
            df_denom=df_denom,
            covariance=self.covariance,
            family=self.family,
            link=self.link,
            statistics=self.statistics,
            aliased=self.aliased,
            reference=reference or {},
        )


def inferred(X, y, weights, law, intercept, names, options=None, learned=False, labels=()):
    """The `CoefficientFit` of one output, or of classes.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
    y : ndarray of shape (n,), or of shape (n, m) for classes
        Targets per unit of exposure.
    weights : ndarray of shape (n,)
    law : Law
    intercept : bool
    names : list of str
        Of the columns.
    options : CovarianceOptions, optional
    learned : bool, default=False
        Whether the parameter of the family is unknown. It is then that of maximum likelihood.
    labels : sequence of str, optional
        The names of the classes.

    Returns
    -------
    CoefficientFit

    Raises
    ------
    ValueError
        Where there is no minimum, or no covariance; the message has the reason.

    Examples
    --------
    >>> from tunefree.parts.links import Identity
    >>> x, rng = np.linspace(-1, 1, 50)[:, None], np.random.default_rng(0)
    >>> y = 2.0 * x[:, 0] + rng.normal(size=50)
    >>> fit = inferred(x, y, np.ones(50), Law(Gaussian(), Identity()), True, ["x"])
    >>> bool(abs(fit.coef[0] - 2.0) < 3 * np.sqrt(fit.covariance[0, 0]))
    True
    """
    options = options or CovarianceOptions()
    options.check(len(y), law.family)
    sample = _sample(X, y, weights, law, intercept, names, options, list(labels))
    if learned:
        sample = _most_likely(sample)
    found = minimum(sample)
    statistics = _statistics(sample, found, learned)
    degrees = statistics.df_resid if sample.groups is None else float(sample.groups.max())
    coef = np.full(len(found.kept), np.nan)
    coef[found.kept] = found.to_raw @ found.beta
    df_denom = degrees if options.use_t else np.inf
    return CoefficientFit(
        names=sample.coefficient_names(),
        coef=coef,
        covariance=covariance_of(sample, found, options, statistics),
        df_denom=df_denom,
        statistics=statistics,
        family=sample.law.family,
        link=sample.law.link,
        aliased=found.aliased,
        notes=[
            first_note(sample.n, options.cov_type, df_denom),
            *_notes(sample, found, learned, statistics),
        ],
        n_blocks=sample.n_blocks,
        sample=sample,
        minimum=found,
    )


def covariance_of(sample, found, options, statistics):
    """The covariance of the coefficients of the columns; NaN for aliased ones."""
    V = found.to_raw @ _covariance(sample, found, options, statistics) @ found.to_raw.T
    covariance = np.full((len(found.kept), len(found.kept)), np.nan)
    covariance[np.ix_(found.kept, found.kept)] = V
    return covariance


def first_note(n, cov_type, df_denom):
    """What was estimated, and by which covariance and distribution."""
    law = "normal distribution" if np.isinf(df_denom) else "Student's t"
    return (
        f"Minimum of the loss over {n:.0f} rows without a penalty (not coef_); standard errors "
        f"{cov_type}, {law}."
    )


def _sample(X, y, weights, law, intercept, names, options, labels):
    """The rows of positive weight."""
    positive = weights > 0.0
    X, y, weights, law = X[positive], y[positive], weights[positive], law.only(positive)
    if y.size * max(X.shape[1], len(labels)) > _MOST_CELLS:
        of_classes = f" for {len(labels)} classes" if labels else ""
        raise ValueError(
            f"{len(y)} rows of {X.shape[1]} columns{of_classes} are too many: give a sample of the "
            "rows."
        )
    groups = options.groups
    if groups is not None:
        groups = np.asarray(groups)[positive].astype(str)
        groups = np.unique(groups, return_inverse=True)[1]
        if not groups.any():
            raise ValueError("cov_type='cluster' needs two groups at least.")
    X = np.array(as_dense(X)).astype(np.float64)
    counted, intercept = are_frequencies(weights, options), intercept or law.family.tied
    return SampleRows(X, y, weights, law, intercept, names, counted, labels, groups)


def are_frequencies(weights, options):
    """Whether weights are numbers of repetitions, and not precisions."""
    if options.weight_type == "auto":
        return bool((weights == np.round(weights)).all())
    return options.weight_type == "frequency"


def _notes(sample, found, learned, statistics):
    """What else is to be known of an estimate, in sentences."""
    n, k, notes = sample.n, len(found.beta), []
    if (sample.weights != 1.0).any():
        kind = "numbers of repetitions" if sample.are_frequencies else "precisions"
        notes.append(f"Weights are {kind}.")
    if learned:
        notes.append("The parameter of the family is that of maximum likelihood.")
    if sample.labels and sample.law.family.tied:
        cumulative = sample.law.family.cumulative
        u = "logistic" if isinstance(cumulative, Logit) else type(cumulative).__name__.lower()
        notes.append(f"P(y <= a) = {u}(threshold a|b - <coef, x>).")
    elif sample.labels:
        notes.append(f"Rows are log-odds of a class against the class {sample.labels[0]}.")
    if statistics.llf is None:
        name = type(sample.law.family).__name__
        notes.append(f"There is no likelihood, AIC or BIC: {name} has no density.")
    if isinstance(sample.law.family, Quantile):
        notes.append("Density of the errors: Epanechnikov's kernel, width of Hall and Sheather.")
    if n <= _ROWS_PER_COLUMN * k:
        notes.append(f"{k} coefficients are many for {n:.0f} rows: intervals may be too short.")
    notes += [f"Aliased: {name}, {reason}." for name, reason in found.aliased.items()]
    return notes


def _most_likely(sample):
    """The sample with the parameter of the family at its maximum likelihood."""
    found: Any = None

    def with_parameter(share):
        return sample._replace(law=sample.law._replace(family=sample.law.family.at(share)))

    def cost(share):
        nonlocal found
        trial = with_parameter(share)
        found = minimum(trial, found)
        return -_log_likelihood(trial, found)

    best: Any = minimize_scalar(cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-8})
    return with_parameter(best.x)


def _statistics(sample, found, learned):
    """The `Statistics`; `learned` is whether the family has a parameter that was learned."""
    n, k = sample.n, len(found.beta)
    deviance, null = _deviance(sample, found), _null_deviance(sample)
    n_constants = len(sample.labels) - 1.0 if sample.labels else 1.0
    statistics = Statistics(
        nobs=n,
        df_model=k - n_constants,
        df_resid=n - k,
        deviance=deviance,
        null_deviance=null,
        pearson_chi2=_pearson_chi2(sample, found),
        scale=_dispersion(sample, found),
        d2=1.0 - deviance / null if null > 0.0 else 1.0,
    )
    if not sample.labels and sample.law.family.log_likelihood is None:
        return statistics
    llf, parameters = _log_likelihood(sample, found), k + learned
    aic, bic = 2.0 * (parameters - llf), float(np.log(n)) * parameters - 2.0 * llf
    return statistics._replace(llf=llf, aic=aic, bic=bic)


def _deviance(sample, found):
    """The deviance."""
    y, law = sample.y, sample.law
    if sample.labels:
        return float(sample.weights @ classes.deviances(law.family, found.s, y))
    return float(sample.weights @ (law.exposure * law.family.deviance(y, law.mean(found.s))))


def _null_deviance(sample):
    """The deviance of the best constant."""
    y, family = sample.y, sample.law.family
    if sample.labels and np.ndim(sample.law.offset) == 0:
        constant = np.broadcast_to(family.start(y, sample.weights), y.shape)
        return float(sample.weights @ classes.deviances(family, constant, y))
    constant = sample.without(np.arange(len(sample.names)))._replace(intercept=True)
    return _deviance(constant, minimum(constant))


def _pearson_chi2(sample, found):
    """The sum of squared Pearson residuals."""
    law = sample.law
    if sample.labels:  # the sum over classes of (y - p)^2 / p
        own = classes.deviances(law.family, found.s, sample.y)
        return float(sample.weights @ np.expm1(0.5 * own))
    mean = law.mean(found.s)
    square = law.exposure * np.square(sample.y - mean)
    return float(sample.weights @ (square / law.family.variance(mean)))


def _dispersion(sample, found):
    """1, or Pearson's estimate."""
    if sample.law.family.unit_scale:
        return 1.0
    return _pearson_chi2(sample, found) / (sample.n - len(found.beta))


def _log_likelihood(sample, found):
    """The log-likelihood of a family with a density."""
    y, weights, law = sample.y, sample.weights, sample.law
    if sample.labels:
        return -0.5 * _deviance(sample, found)
    # As in statsmodels: least squares at the variance of maximum likelihood, others at Pearson's.
    if isinstance(law.family, Gaussian) and _is_identity(law.link):
        scale = _deviance(sample, found) / sample.n
    else:
        scale = _dispersion(sample, found)
    exposure, mean = np.broadcast_to(law.exposure, y.shape), law.mean(found.s)
    if sample.are_frequencies:
        return float(weights @ law.family.log_likelihood(y, mean, exposure, scale))
    return float(law.family.log_likelihood(y, mean, exposure, scale / weights).sum())


def _covariance(sample, found, options, statistics):
    """The covariance of standardised coefficients, or of the parameters of classes."""
    A, weights, n, kind = found.A, sample.weights, sample.n, options.cov_type
    E, r, H, information = _slopes(sample, found, in_groups=kind == "cluster")
    each = weights[:, None, None]
    if kind == "nonrobust":
        return statistics.scale * _inverse(classes.curvature(A, E, each * information))
    bread = _inverse(classes.curvature(A, E, each * H))
    if kind == "cluster":
        return _clustered(classes.scores(A, E, weights[:, None] * r), bread, sample.groups, n)
    if kind in ("HC2", "HC3"):
        counted = H if sample.are_frequencies else each * H
        over_rest = classes.studentized if kind == "HC2" else classes.without_own_row
        r = over_rest(counted, classes.leverages(A, E, bread), r)
    # A row of frequency w adds w g g', one of precision w adds (w g) (w g)'.
    factors = np.sqrt(weights) if sample.are_frequencies else weights
    g = classes.scores(A, E, factors[:, None] * r)
    factor = n / (n - len(found.beta)) if kind == "HC1" else 1.0
    return factor * bread @ (g.T @ g) @ bread


def _slopes(sample, found, in_groups):
    """E of `classes`, and by rows the score, its slope and the information in the indices."""
    law, y = sample.law, sample.y
    if sample.labels:
        r, H = law.family.residuals(None, found.s, y)[0], law.family.hessian(found.s, y)
        return classes.parameters(law.family, found.A.shape[1], y.shape[1]), r, H, H
    if isinstance(law.family, Quantile):
        score, slope, information = _slopes_of_quantile(sample, found, in_groups)
    else:
        score, slope = law.score(found.s, y), law.slope(found.s, y)
        information = law.information(found.s)
    one_index = np.eye(len(found.beta))[:, None]
    return one_index, score[:, None], slope[:, None, None], information[:, None, None]


def _slopes_of_quantile(sample, found, in_groups):
    """Scores, and their slope and information by the density of the errors at 0.

    The scores `in_groups` are added, others squared.
    """
    y, q, n = sample.y, float(sample.law.family.q[0]), len(sample.y)
    errors = y - sample.law.mean(found.s)
    counts = sample.weights if sample.are_frequencies else np.ones(n)
    f = quantiles.density(errors, y, counts, q)
    score = (1.0 - q) - found.above
    if not in_groups:
        on_plane = np.abs(errors) <= _ON_THE_PLANE * np.abs(y).max()
        score = quantiles.scores(found.above, on_plane, counts, len(found.beta), q)
    return score, np.full(n, f), np.full(n, f * f / (q * (1.0 - q)))


def _clustered(scores, bread, groups, n):
    """The covariance for scores of rows that depend on each other within groups."""
    n_groups, k = int(groups.max()) + 1, scores.shape[1]
    sums = np.zeros((n_groups, k))
    np.add.at(sums, groups, scores)
    factor = n_groups / (n_groups - 1.0) * (n - 1.0) / (n - k)
    return factor * bread @ (sums.T @ sums) @ bread


def _inverse(curvature):
    """The inverse of the curvature of the loss."""
    try:
        return np.linalg.inv(curvature)
    except np.linalg.LinAlgError:
        raise ValueError(
            "The loss is flat at its minimum, so that coefficients have no standard errors: give "
            "more rows, or fewer columns."
        ) from None


ANOVA_TYPES = (1, 2, 3)


def terms_tested(
    fit: CoefficientFit,
    terms: list,
    containing: Mapping[str, Any] | None = None,
    typ: int = 2,
    groups: Any = None,
) -> Anova:
    """The likelihood-ratio and Wald tests of terms.

    Parameters
    ----------
    fit : CoefficientFit
    terms : list of str
        The term of every column.
    containing : mapping, optional
        The terms that contain a term: its interactions.
    typ : {1, 2, 3}, default=2
    groups : list of str or of lists of str, optional
        The terms to be tested, in order; those of a list together. By default every term by itself.

    Returns
    -------
    Anova
    """
    statistics = term_statistics(fit, terms, containing, typ, groups)
    return tests_of_terms(statistics, fit, typ)


def groups_of_terms(terms, groups=None):
    """The terms that are tested together, as tuples; those of a model if none are named.

    Examples
    --------
    >>> groups_of_terms(["a", "b", "b"]), groups_of_terms(["a", "b", "c"], ["c", ["a", "b"]])
    ([('a',), ('b',)], [('c',), ('a', 'b')])
    """
    known = list(dict.fromkeys(terms))
    if groups is None:
        return [(name,) for name in known]
    groups = [groups] if isinstance(groups, str) else list(groups)
    found = [(group,) if isinstance(group, str) else tuple(group) for group in groups]
    named = [name for group in found for name in group]
    for place, name in enumerate(named):
        if name not in known:
            raise none_of("terms", name, known)
        if name in named[:place]:
            raise ValueError(f"terms= names {name!r} twice.")
    if not all(found) or not found:
        raise ValueError("terms= has no term, or a list without one: name the terms to be tested.")
    return found


class TermStatistics(NamedTuple):
    """The chi2 statistics of the tests of terms, and their degrees of freedom."""

    terms: list
    lr_df: np.ndarray
    lr_chi2: np.ndarray
    wald_df: np.ndarray
    wald_chi2: np.ndarray
    has_interactions: bool


def term_statistics(fit, terms, containing=None, typ=2, groups=None):
    """The `TermStatistics`; see `terms_tested`."""
    check_likelihood(fit)
    table = _Terms(fit, np.array(terms), {})
    tested = _tested(terms, containing or {}, typ, groups)
    pairs = [(table.columns(own), table.columns(above)) for own, above in tested]
    lr = np.reshape([table.likelihood_ratio(own, above) for own, above in pairs], (-1, 2))
    walds = np.reshape([table.wald(own, above) for own, above in pairs], (-1, 2))
    names = [" + ".join(own) for own, _ in tested]
    is_above = any((containing or {}).values())
    return TermStatistics(names, lr[:, 0], lr[:, 1], walds[:, 0], walds[:, 1], is_above)


def walds_of_terms(fit, terms, containing):
    """The chi2 of Wald's test of every term, of type II."""
    table = _Terms(fit, np.array(terms), {})
    pairs = [
        (table.columns(own), table.columns(above)) for own, above in _tested(terms, containing)
    ]
    return np.array([table.wald(own, above)[1] for own, above in pairs])


def _tested(terms, containing, typ=2, groups=None):
    """Terms that are tested together, and those that neither model has; for every test."""
    tested, pairs = groups_of_terms(terms, groups), []
    for place, own in enumerate(tested):
        if typ == 1:  # those that are added later
            above = {name for later in tested[place + 1 :] for name in later}
        elif typ == 2:
            above = {name for one in own for name in containing.get(one, ())}
        else:
            above = set()
        pairs.append((own, above - set(own)))
    return pairs


def check_likelihood(fit):
    """Refuse a family without a density, whose models have no likelihood to compare."""
    if fit.statistics.llf is None:
        raise ValueError(
            f"{type(fit.family).__name__} has no likelihood to compare: use wald_test of the "
            "summary."
        )


def tests_of_terms(statistics, fit, typ=2):
    """The `Anova` of the statistics of a fit."""
    unit_scale = fit.family.unit_scale
    lr_denom = np.inf if unit_scale else fit.statistics.df_resid
    ratios = [
        _chi2_or_f(chi2, int(df), lr_denom)
        for df, chi2 in zip(statistics.lr_df, statistics.lr_chi2, strict=True)
    ]
    walds = [
        _chi2_or_f(chi2, int(df), fit.df_denom)
        for df, chi2 in zip(statistics.wald_df, statistics.wald_chi2, strict=True)
    ]
    kind = "chi2" if unit_scale else "F"
    against = "added to those before it" if typ == 1 else "against the model without it"
    notes = [f"Each term {against}; the likelihood-ratio statistic is {kind}."]
    if typ == 1:
        notes.append("Both models are without the terms after it (type I).")
    elif statistics.has_interactions and typ == 2:
        notes.append("Both models are without the terms that contain it (type II).")
    elif statistics.has_interactions:
        notes.append(
            "Both models have the terms that contain it (type III): the test of a factor depends "
            "on its coding, such as C(x, contr.sum)."
        )
    return Anova(
        terms=statistics.terms,
        df=np.array([test.df_num for test in ratios]),
        lr_statistic=np.array([test.statistic for test in ratios]),
        lr_p_value=np.array([test.p_value for test in ratios]),
        wald_statistic=np.array([test.statistic for test in walds]),
        wald_p_value=np.array([test.p_value for test in walds]),
        note=" ".join([*notes, *fit.notes]),
    )


class _Terms(NamedTuple):
    """Tests of the terms of a fit: of columns `own`, where columns `above` contain them."""

    fit: CoefficientFit
    terms: np.ndarray  # of every column
    known: dict  # deviances and numbers of coefficients, by columns that are absent

    def columns(self, terms):
        """The columns of some terms."""
        return np.flatnonzero(np.isin(self.terms, list(terms)))

    def likelihood_ratio(self, own, above):
        """The degrees of freedom and chi2 of the models without `above`, and without `own`, too."""
        larger, smaller = self._without(above), self._without(np.union1d(own, above))
        rise = max(smaller[0] - larger[0], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # the dispersion of a perfect fit is 0
            chi2 = np.divide(rise, self.fit.statistics.scale)
        return larger[1] - smaller[1], float(chi2)

    def _without(self, columns):
        """The deviance and the number of coefficients of the model without some columns."""
        key = tuple(columns)
        if not key:
            return self.fit.statistics.deviance, len(self.fit.minimum.beta)
        if key not in self.known:
            smaller = self.fit.sample.without(columns)
            found = minimum(smaller)
            self.known[key] = _deviance(smaller, found), len(found.beta)
        return self.known[key]

    def wald(self, own, above):
        """The degrees of freedom and chi2 of the part of `own` that is independent of `above`.

        Chi2 is that of both together less that of `above`.
        """
        others = np.setdiff1d(np.arange(len(self.terms)), np.union1d(own, above))
        columns, coef, covariance = self._coefficients(np.concatenate([others, own, above]))
        blocks = self.fit.sample.n_blocks
        of_above = np.tile(np.isin(columns, above), blocks)
        of_own = np.tile(np.isin(columns, own), blocks)

        def chi2(chosen):
            return wald(coef[chosen], covariance[np.ix_(chosen, chosen)], np.inf).statistic

        return int(of_own.sum()), max(chi2(of_own | of_above) - chi2(of_above), 0.0)

    def _coefficients(self, order):
        """Columns with coefficients, these, and their covariance.

        Where columns are aliased, the first in this order have coefficients.
        """
        sample = self.fit.sample
        kept = np.flatnonzero(self.fit.minimum.kept[: len(order)])
        places = sample.places(kept)
        coef, covariance = self.fit.coef[places], self.fit.covariance[np.ix_(places, places)]
        if not self.fit.minimum.aliased:
            return kept, coef, covariance
        names = [sample.names[j] for j in order]
        before = _standard(sample)
        after = _standard(sample._replace(X=sample.X[:, order], names=names))
        columns = order[after.kept[: len(order)]]
        m, k = len(columns), len(kept)
        change = np.linalg.lstsq(after.A, before.A, rcond=None)[0]
        change = after.to_raw @ change @ np.linalg.inv(before.to_raw)
        change = np.kron(np.eye(sample.n_blocks), change[:m, :k])
        return columns, change @ coef, change @ covariance @ change.T


def _chi2_or_f(statistic, df_num, df_denom):
    """The test of a term; NaN for one that is aliased, which has no degree of freedom."""
    if df_num == 0:
        return WaldTest(np.nan, np.nan, 0, df_denom)
    return chi2_or_f(statistic, df_num, df_denom)


def minimum(sample, near=None):
    """The `Minimum` of the loss; `near` is that of another loss of the same columns, if any."""
    columns = _standard(sample) if near is None else StandardColumns(*near[:4])
    if sample.labels:
        return _minimum_of_classes(sample, columns)
    A = columns.A
    _check_rows(sample, A.shape[1])
    if isinstance(sample.law.family, Quantile):
        y = sample.y - sample.law.offset
        q = float(sample.law.family.q[0])
        beta, above = quantiles.plane(A, y, sample.weights, q)
        return Minimum(*columns, beta, A @ beta, above)
    start = None if near is None else near.beta
    beta, s, converged = _newton(A, sample, _curvature, start)
    if not converged and isinstance(sample.law.family, HuberT):
        beta, s, converged = _newton(A, sample, _majorant)
    _check_finite(sample, beta, s, columns.kept, converged)
    return Minimum(*columns, beta, s)


def _minimum_of_classes(sample, columns):
    """The `Minimum` over the parameters of classes."""
    y, family, m = sample.y, sample.law.family, sample.y.shape[1]
    A, to_raw, kept, aliased = columns
    codes = y.sum(axis=1) if family.tied else y.argmax(axis=1)
    absent = [label for c, label in enumerate(sample.labels) if not (codes == c).any()]
    if absent:
        raise ValueError(f"The class {absent[0]} has no rows: its coefficients are infinite.")
    share = sample.weights / sample.weights.sum()
    E = classes.parameters(family, A.shape[1], m)
    _check_rows(sample, E.shape[2])
    given = E, y, share, family, sample.intercept, sample.law.offset
    theta, s, converged = classes.most_likely(A, *given)
    guessed = (s > 0.0).sum(axis=1) if family.tied else s.argmax(axis=1)
    separable = bool((guessed == codes).all())
    if separable or not converged or np.abs(s).max() > _LARGEST_INDEX:
        B = E @ theta
        B = B if family.tied else B - B.mean(axis=1, keepdims=True)
        one = int(np.argmax(np.square(B).sum(axis=0)))
        _refuse(sample, B[:, one], kept, separable, _separating_classes(sample))
    wide = E.reshape(-1, E.shape[2])
    to_raw = np.linalg.pinv(wide) @ np.kron(to_raw, np.eye(m)) @ wide
    if family.tied:
        kept = np.append(kept[:-1], np.ones(m, dtype=bool))
    return Minimum(A, to_raw, np.tile(kept, sample.n_blocks), aliased, theta, s)


def _check_rows(sample, k):
    """Refuse more coefficients than rows."""
    if k >= sample.n:
        raise ValueError(f"{k} coefficients are too many for {sample.n:.0f} rows: drop columns.")


def _standard(sample):
    """The `StandardColumns` of a sample."""
    A, intercept, d = sample.X, sample.intercept, len(sample.names)
    share = sample.weights / sample.weights.sum()
    center = share @ A if intercept else np.zeros(d)
    A = A - center
    scale = np.sqrt(share @ np.square(A))
    constant = scale <= 1e-12 * np.maximum(np.abs(center), 1e-300)
    A /= np.where(constant, 1.0, scale)
    kept, aliased = _independent(np.sqrt(share)[:, None] * A, constant, sample.names)
    A, scale = A[:, kept], scale[kept]
    to_raw = np.diag(np.append(1.0 / scale, 1.0) if intercept else 1.0 / scale)
    if intercept:
        A, kept = np.column_stack([A, np.ones(len(A))]), np.append(kept, True)
        to_raw[-1, :-1] = -center[kept[:-1]] / scale
    return StandardColumns(A, to_raw, kept, aliased)


def _independent(A, constant, names):
    """Which columns do not depend on columns before them, and the names of the others."""
    R: Any = np.linalg.qr(A, mode="r") if A.shape[1] else A
    basis: Any = np.zeros((len(R), 0))
    kept, aliased = np.zeros(len(names), dtype=bool), {}
    for j, name in enumerate(names):
        rest = R[:, j]
        for _ in range(2):  # again, because of rounding
            rest = rest - basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        if constant[j]:
            aliased[name] = "which is constant"
        elif size <= _ALIASED * np.linalg.norm(R[:, j]):
            weights = np.linalg.lstsq(R[:, :j][:, kept[:j]], R[:, j], rcond=None)[0]
            others = [names[i] for i in np.flatnonzero(kept)]
            aliased[name] = f"linear combination {_direction(weights, others)} (standardised)"
        else:
            kept[j], basis = True, np.column_stack([basis, rest / size])
    return kept, aliased


def _direction(weights, names, most=4):
    """A combination of standardised columns as text, the largest first."""
    order = np.argsort(-np.abs(weights), kind="stable")[:most]
    order = [j for j in order if abs(weights[j]) > 0.01 * np.abs(weights).max()]
    return " ".join(f"{weights[j]:+.2g} {names[j]}" for j in order)


def _newton(A, sample, curvature, start=None):
    """Parameters and indices where the weighted score vanishes, and whether they were found.

    Newton's steps, halved until the loss falls by a part of what its slope promises.
    """
    y, law, share = sample.y, sample.law, sample.weights / sample.weights.sum()
    beta, size = np.zeros(A.shape[1]) if start is None else start, np.inf
    if sample.intercept and start is None:
        beta[-1] = law.start(y, sample.weights)
    s = A @ beta
    # A step changes indices by at most 4 (logistic link), or 4 standard deviations.
    limit = 4.0 * max(1.0, float(np.std(y))) if _is_identity(law.link) else 4.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # A matching loss is convex, and has no value here: its steps are taken as they are.
        has_loss = not isinstance(law.family, Matching)
        loss = law.loss(s, y, share)
        rounding = _ROUNDING * loss if has_loss else np.inf
        for _ in range(_MOST_STEPS):
            slope = A.T @ (share * law.score(s, y))
            step = _newton_step(A, share, slope, [curvature(law, s, y, size), law.information(s)])
            if step is None:
                return beta, s, False
            change = A @ step
            size = float(np.abs(change).max(initial=0.0))
            part = min(1.0, limit / max(size, 1e-300))
            for _ in range(_MOST_HALVINGS):
                lower = law.loss(s - part * change, y, share)
                if lower <= loss - _SUFFICIENT * part * (slope @ step) + rounding:
                    break
                part *= 0.5
            beta, loss = beta - part * step, lower
            s = A @ beta
            if size <= _CONVERGED * max(1.0, float(np.abs(s).max())) or not np.isfinite(size):
                break
    return beta, s, size <= 1e-6 * max(1.0, float(np.abs(s).max()))


def _newton_step(A, share, slope, curvatures):
    """The step by the first curvature along which the loss falls; None if there is none."""
    for curvature in curvatures:
        try:
            step = np.linalg.solve(A.T @ ((share * curvature)[:, None] * A), slope)
        except np.linalg.LinAlgError:
            continue
        if slope @ step >= 0.0:
            return step
    return None


def _curvature(law, s, y, size):
    """The curvature of Newton's step after a step of a size.

    Where the loss is not convex it is Fisher's information, until steps are small.
    """
    slope = law.slope(s, y)
    if (slope < 0.0).any():
        return slope if size < _SMALL_STEP else law.information(s)
    return np.maximum(slope, 1e-3 * np.maximum(slope.max(), 1e-300))


def _majorant(law, s, y, size):
    """Huber's weights, with which no step raises the loss; the slope once steps are small."""
    score, error = law.score(s, y), law.mean(s) - y
    limit = float(np.abs(score).max())
    if size < _SMALL_STEP * limit or not _is_identity(law.link):
        return _curvature(law, s, y, size)
    return np.divide(score, error, out=np.ones_like(s), where=error != 0.0)


def _check_finite(sample, beta, s, kept, converged):
    """Refuse coefficients that grow without end, and name the columns."""
    y, law = sample.y, sample.law
    bounded = np.isfinite(link_range(law.link)).all()
    are_classes = bounded and set(np.unique(y).tolist()) == {0.0, 1.0}
    are_right = np.isfinite(s).all() and ((s > 0.0) == (y == 1.0)).all()
    separable = are_classes and bool(are_right)
    is_certain = are_classes and np.abs(s).max() > _LARGEST_INDEX
    if separable or is_certain or not converged:
        _refuse(sample, beta, kept, separable, _separating(sample))


def _refuse(sample, beta, kept, separable, alone):
    """Raise an error with the direction along which coefficients grow."""
    names = [name for name, own in zip(sample.names, kept, strict=False) if own]
    normal = np.nan_to_num(beta[: len(names)])
    direction = _direction(normal / max(np.linalg.norm(normal), 1e-300), names)
    if separable:
        raise ValueError(
            "The classes are separable, and no coefficient is finite: the standardised columns "
            f"{direction} separate them without a mistake{alone}."
        )
    are_classes = sample.labels or np.isfinite(link_range(sample.law.link)).all()
    way_out = (
        "OptimisticPerceptron proves whether classes are separable."
        if are_classes
        else "Drop columns, or give more rows."
    )
    raise ValueError(
        "The minimum of the loss lies at infinity or was not found: coefficients grow along "
        f"the standardised columns {direction}{alone}. {way_out}"
    )


def _separating(sample):
    """The columns and levels that separate the targets alone, as text."""
    ends = link_range(sample.law.link)
    at_ends, found = np.isfinite(ends[1]) and np.isin(sample.y, ends).all(), []
    for name, x in zip(sample.names, sample.X.T, strict=True):
        if len(np.unique(x)) == 2:
            found += _separating_levels(name, x, sample.y, ends)
        elif at_ends:
            zeros, ones = (x[sample.y == end] for end in ends)
            if min(zeros.max(), ones.max()) <= max(zeros.min(), ones.min()):
                found.append(f"; {name} separates the classes by itself")
    return "".join(found[:3])


def _separating_levels(name, x, y, ends):
    """The values of a column whose rows all have the same target, an end of its range."""
    found = []
    for value in np.unique(x):
        targets = np.unique(y[x == value])
        if len(targets) == 1 and targets[0] in ends:
            found.append(f"; every row with {name} = {value:g} has y = {targets[0]:g}")
    return found


def _separating_classes(sample):
    """`_separating` for each class against the others, or of thresholds."""
    law = Law(Binomial(), LINKS["logit"])
    outputs = sample.labels[1:] if sample.law.family.tied else sample.labels
    kind = "class {} or above" if sample.law.family.tied else "class {}"
    for label, y in zip(outputs, sample.y.T, strict=True):
        text = _separating(sample._replace(y=y, law=law))
        if text:
            return f"; with y = 1 for {kind.format(label)}, else 0{text.replace(';', ':', 1)}"
    return ""


def _is_identity(link):
    """Whether a link, also one of the user's own, is the identity."""
    probe = np.array([-1e6, 0.0, 1.0, 1e6])
    return bool(np.allclose(link.mean(probe), probe))
