"""What a model keeps of its maximum likelihood fit, so that its tables need no rows.

That is the estimate, its covariances (of every `cov_type` but "cluster"), the statistics and the
tests of terms: arrays of the size of the columns, whatever the number of rows.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.warn import none_of
from tunefree.rows.levels import TableColumns
from tunefree.uncertainty.coefficients import Statistics
from tunefree.uncertainty.covariances import Covariances
from tunefree.uncertainty.inference import CoefficientFit, first_note
from tunefree.uncertainty.samples import COV_TYPES, CovarianceOptions
from tunefree.uncertainty.terms import (
    check_likelihood,
    term_statistics,
    tests_of_terms,
    walds_of_terms,
)

# HC1 is a multiple of HC0.
_KEPT_TYPES = ("nonrobust", "HC0", "HC2", "HC3")
# Work that a fit spends on its table, and on the tests of terms: rows times squared columns (times
# terms). Measured on one core: a table of 2e7 takes .4 s, tests of 4e8 take 5 s. Beyond
# them tables need the rows.
MOST_WORK = 4e8
_MOST_WORK_OF_TERMS = 4e7
ONE_TARGET = "Terms are tested for one target: fit each target by itself."
# Most coefficients: of more the covariances would fill the model's file.
MOST_COEFFICIENTS = 500


def check_work(n_rows, n_columns, n_blocks, learns):
    """Refuse a table that would take a fit too long, or be too large for a model's file.

    `learns` is whether the family has a parameter to learn, which takes some more fits.
    """
    n_coefficients = (n_columns + 1) * n_blocks
    work = float(n_rows) * n_coefficients**2
    if learns:
        work = 10.0 * max(work, 400.0 * n_rows)
    if n_coefficients > MOST_COEFFICIENTS or work > MOST_WORK:
        raise ValueError(
            f"fit kept no table of {n_rows} rows and {n_coefficients} coefficients, which are too "
            "many: give X and y."
        )


class KeptFit(NamedTuple):
    """The maximum likelihood fit of one target, or of classes, without its rows."""

    names: list  # of the coefficients, the last of which is the intercept
    coef: np.ndarray  # NaN for an aliased column
    covariances: dict  # by `cov_type`
    statistics: Statistics
    family: Any
    link: Any
    aliased: dict
    notes: list
    n_blocks: int  # how often every column has a coefficient
    weight_type: str  # "equal", "frequency" or "precision"
    tests: Any = None  # TermStatistics of the likelihood ratio; None if they would take too long
    walds: Any = None  # the chi2 of Wald's tests, by `cov_type`

    @classmethod
    def of(cls, fit, columns, containing):
        """What to keep of a `CoefficientFit` of rows with these `TableColumns`."""
        sample, found = fit.sample, fit.minimum
        covariances, pieces = {}, Covariances(sample, found, fit.statistics)
        for kind in _KEPT_TYPES:
            own = CovarianceOptions(kind)
            try:
                own.check(len(sample.y), fit.family)
                covariances[kind] = pieces.of(kind)
            except ValueError:  # no density
                continue
        if (sample.weights == 1.0).all():
            weight_type = "equal"
        else:
            weight_type = "frequency" if sample.are_frequencies else "precision"
        kept = cls(
            names=list(fit.names),
            coef=fit.coef,
            covariances=covariances,
            statistics=fit.statistics,
            family=fit.family,
            link=fit.link,
            aliased=fit.aliased,
            notes=fit.notes[1:],
            n_blocks=sample.n_blocks,
            weight_type=weight_type,
        )
        n_terms = len(set(columns.terms))
        work = float(sample.y.size) * len(columns.terms) ** 2 * n_terms
        if fit.statistics.llf is None or work > _MOST_WORK_OF_TERMS:
            return kept
        walds = {
            kind: walds_of_terms(fit._replace(covariance=V), columns.terms, containing)
            for kind, V in covariances.items()
        }
        return kept._replace(tests=term_statistics(fit, columns.terms, containing), walds=walds)

    def _type_and_factor(self, cov_type):
        """The kept type of a covariance, and the factor to it."""
        if cov_type == "HC1":
            return "HC0", self.statistics.nobs / self.statistics.df_resid
        return cov_type, 1.0

    def fit(self, options):
        """The `CoefficientFit` with some `CovarianceOptions`, without rows."""
        kind, factor = self._type_and_factor(options.cov_type)
        df_denom = self.statistics.df_resid if options.use_t else np.inf
        return CoefficientFit(
            names=self.names,
            coef=self.coef,
            covariance=factor * self.covariances[kind],
            df_denom=df_denom,
            statistics=self.statistics,
            family=self.family,
            link=self.link,
            aliased=self.aliased,
            notes=[first_note(self.statistics.nobs, options.cov_type, df_denom), *self.notes],
            n_blocks=self.n_blocks,
        )

    def anova(self, options, typ=2, groups=None):
        """The `Anova` with some `CovarianceOptions`, of every term."""
        fit = self.fit(options)
        check_likelihood(fit)
        if self.tests is None:
            raise ValueError(
                "The tests of so many rows and terms were not kept by fit: give X and y."
            )
        if groups is not None:
            raise ValueError("terms= needs the rows: give X and y.")
        # Without interactions types 2 and 3 are the same.
        if typ == 1 or (typ == 3 and self.tests.has_interactions):
            raise ValueError(f"typ={typ} needs the rows: give X and y.")
        kind, factor = self._type_and_factor(options.cov_type)
        tests = self.tests._replace(wald_chi2=self.walds[kind] / factor)
        return tests_of_terms(tests, fit, typ)

    def with_columns(self, old, new):
        """The fit of `new` columns, which have other reference levels than the `old` ones."""
        if self.aliased:
            raise ValueError("reference= needs the rows where columns are aliased: give X and y.")
        change, constant = old.change_of(new)
        d, tail = len(old.names), len(self.coef) // self.n_blocks - len(old.names)
        if tail == 0:
            raise ValueError("reference= needs the rows without an intercept: give X and y.")
        T = np.eye(d + tail)
        T[:d, :d] = change
        # The thresholds of ordered classes are subtracted from, where an intercept is added to.
        T[d:, :d] = -constant if self.family.tied else constant
        T = np.kron(np.eye(self.n_blocks), T)
        names = list(self.names)
        for block in range(self.n_blocks):
            start = block * (d + tail)
            prefix = self.names[start].removesuffix(old.names[0])
            names[start : start + d] = [f"{prefix}{name}" for name in new.names]
        covariances = {kind: T @ V @ T.T for kind, V in self.covariances.items()}
        return self._replace(names=names, coef=T @ self.coef, covariances=covariances)


class KeptFits(NamedTuple):
    """The maximum likelihood fits of all targets; or the reason why there are none.

    Attributes
    ----------
    fits : list of KeptFit
    columns : TableColumns
        The columns of the tables; ``columns.of(X)`` makes them.
    are_several : bool
        Whether y had the shape (n, k).
    problem : str
        Why there are no fits; "" if there are.
    remark : str
        How far the predictions of the model are from those of the fit.
    """

    fits: list
    columns: TableColumns
    are_several: bool
    problem: str = ""
    remark: str = ""

    @classmethod
    def without(cls, problem):
        """No fits, because of a problem."""
        return cls([], TableColumns([], [], []), False, problem)

    def checked(self, options, reference):
        """The fits with some reference levels, after a check that the kept numbers suffice."""
        if self.problem:
            raise ValueError(self.problem)
        first = self.fits[0]
        if options.cov_type not in COV_TYPES:
            raise none_of("cov_type", options.cov_type, COV_TYPES)
        options.check(np.size(options.groups), first.family)
        if options.cov_type == "cluster":
            raise ValueError("cov_type='cluster' needs the rows: give X, y and groups.")
        if options.weight_type not in ("auto", first.weight_type) and first.weight_type != "equal":
            raise ValueError(
                f"weight_type={options.weight_type!r} needs the rows: give X, y and sample_weight. "
                f"The fit kept the numbers for {first.weight_type!r}."
            )
        if not reference:
            return self
        columns = self.columns.with_reference(reference)
        fits = [fit.with_columns(self.columns, columns) for fit in self.fits]
        return self._replace(fits=fits, columns=columns)

    def coefficient_fits(self, options=None):
        """The `CoefficientFit` of every target, without rows."""
        return [fit.fit(options or CovarianceOptions()) for fit in self.fits]

    def only(self):
        """The `KeptFit` of one target."""
        if len(self.fits) > 1:
            raise ValueError(ONE_TARGET)
        return self.fits[0]
