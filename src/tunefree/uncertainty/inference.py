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

Where the loss is a square, s_i and r_i are fitted values and residuals and l_i is the diagonal of
the hat matrix: that is the definition of HC2 and HC3. ``GLM.fit(cov_type=...)`` of statsmodels 0.14
has HC0 under all four names; ``vcovHC`` of R's sandwich divides by the leverages, too, with
Fisher's information for h_i. A frequency w is w rows, each of the leverage l_i; a precision w is in
the leverage of its row.

A row counts w times, or, if weights are precisions, its variance is divided by w. Several and
ordered classes have an index for each output: `tunefree.uncertainty.classes`. Quantiles have the
score 1[y <= s] - q; its slope is the density of the errors at 0: `tunefree.uncertainty.quantiles`.

Source: Huber 1967; White 1980; MacKinnon and White 1985 (HC0 to HC3); Long and Ervin 2000 (their
use); Liang and Zeger 1986 (groups); McCullagh and Nelder 1989 (the information, the dispersion).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, stats

from tunefree.parts.families import Gaussian, Quantile
from tunefree.parts.links import Logit
from tunefree.rows.matrices import as_dense
from tunefree.uncertainty import classes
from tunefree.uncertainty.coefficients import Statistics, Summary
from tunefree.uncertainty.covariances import Covariances
from tunefree.uncertainty.laws import is_identity
from tunefree.uncertainty.minima import minimum
from tunefree.uncertainty.samples import CovarianceOptions, sample_of

_ROWS_PER_COLUMN = 3  # fewer are noted


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
        reach = stats.t.ppf(1.0 - 0.5 * alpha, df_denom) * error
        t = np.divide(coef, error, out=np.full(len(coef), np.inf), where=error != 0.0)
        return Summary(
            names=self.names,
            coef=coef,
            standard_error=error,
            statistic=t,
            p_value=2.0 * stats.t.sf(np.abs(t), df_denom),
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
    >>> from tunefree.uncertainty.laws import Law
    >>> x, rng = np.linspace(-1, 1, 50)[:, None], np.random.default_rng(0)
    >>> y = 2.0 * x[:, 0] + rng.normal(size=50)
    >>> fit = inferred(x, y, np.ones(50), Law(Gaussian(), Identity()), True, ["x"])
    >>> bool(abs(fit.coef[0] - 2.0) < 3 * np.sqrt(fit.covariance[0, 0]))
    True
    """
    options = options or CovarianceOptions()
    options.check(len(y), law.family)
    sample = sample_of(X, y, weights, law, intercept, names, options, list(labels))
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
        covariance=Covariances(sample, found, statistics).of(options.cov_type),
        df_denom=df_denom,
        statistics=statistics,
        family=sample.law.family,
        link=sample.law.link,
        aliased=found.aliased,
        notes=[
            first_note(sample.n, options.cov_type, df_denom),
            *notes_of(sample, len(found.beta), found.aliased, learned, statistics),
        ],
        n_blocks=sample.n_blocks,
        sample=sample,
        minimum=found,
    )


def first_note(n, cov_type, df_denom):
    """What was estimated, and by which covariance and distribution."""
    law = "normal distribution" if np.isinf(df_denom) else "Student's t"
    return (
        f"Minimum of the loss over {n:.0f} rows without a penalty (not coef_); standard errors "
        f"{cov_type}, {law}."
    )


def notes_of(sample, k, aliased, learned, statistics):
    """What else is to be known of an estimate of k parameters, in sentences."""
    n, notes = statistics.nobs, []
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
    notes += [f"Aliased: {name}, {reason}." for name, reason in aliased.items()]
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

    best: Any = optimize.minimize_scalar(
        cost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-8}
    )
    return with_parameter(best.x)


def _statistics(sample, found, learned):
    """The `Statistics`; `learned` is whether the family has a parameter that was learned."""
    n, k = sample.n, len(found.beta)
    deviance, null = deviance_of(sample, found), _null_deviance(sample)
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


def deviance_of(sample, found):
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
    return deviance_of(constant, minimum(constant))


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
        return -0.5 * deviance_of(sample, found)
    # As in statsmodels: least squares at the variance of maximum likelihood, others at Pearson's.
    if isinstance(law.family, Gaussian) and is_identity(law.link):
        scale = deviance_of(sample, found) / sample.n
    else:
        scale = _dispersion(sample, found)
    exposure, mean = np.broadcast_to(law.exposure, y.shape), law.mean(found.s)
    if sample.are_frequencies:
        return float(weights @ law.family.log_likelihood(y, mean, exposure, scale))
    return float(law.family.log_likelihood(y, mean, exposure, scale / weights).sum())
