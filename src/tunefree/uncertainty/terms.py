"""Tests of the terms of a fit: likelihood ratios and Wald tests, of types I, II and III."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.warn import none_of
from tunefree.uncertainty.coefficients import Anova, WaldTest, chi2_or_f, wald
from tunefree.uncertainty.inference import CoefficientFit, deviance_of
from tunefree.uncertainty.minima import minimum, standard

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
            self.known[key] = deviance_of(smaller, found), len(found.beta)
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
        before = standard(sample)
        after = standard(sample._replace(X=sample.X[:, order], names=names))
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
