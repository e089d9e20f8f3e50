"""The likelihood-ratio test of two nested models, each by the table that it keeps."""

from typing import NamedTuple

import numpy as np

from tunefree.uncertainty.coefficients import chi2_or_f
from tunefree.uncertainty.terms import check_likelihood

# Null deviances of the same rows differ by rounding alone.
_SAME = 1e-6


class LikelihoodRatioTest(NamedTuple):
    """A likelihood-ratio test: the statistic is F if it has `df_denom`, and chi2 if infinite.

    Attributes
    ----------
    statistic, p_value : float
    df_num : int
        How many coefficients the smaller model lacks.
    df_denom : float
        Degrees of freedom of the dispersion; infinite where it is known.
    note : str
        What was compared.
    """

    statistic: float
    p_value: float
    df_num: int
    df_denom: float
    note: str

    def __repr__(self):
        if np.isinf(self.df_denom):
            law = f"chi2({self.df_num})"
        else:
            law = f"F({self.df_num}, {self.df_denom:g})"
        return f"{law} = {self.statistic:.6g}, p = {self.p_value:.4g}\n{self.note}"


def nested_test(larger, smaller):
    """The `LikelihoodRatioTest` of two `KeptFit`."""
    for fit in (larger, smaller):
        check_likelihood(fit)
    _check_same_rows(larger, smaller)
    own, other = larger.statistics, smaller.statistics
    df = round(other.df_resid - own.df_resid)
    lacking = [name for name in smaller.names if name not in larger.names]
    if df < 1 or lacking:
        what = f"it lacks {lacking[0]}" if lacking else "it has no further coefficient"
        raise ValueError(f"restricted= is not nested in this model: {what}.")
    unit_scale = larger.family.unit_scale
    if larger.family == smaller.family:
        rise, basis = (other.deviance - own.deviance) / own.scale, "deviance"
    elif unit_scale:
        rise, basis = 2.0 * (own.llf - other.llf), "log-likelihood"
    else:
        raise ValueError(
            f"The families differ, {larger.family!r} and {smaller.family!r}: name one for both, "
            "such as family=Tweedie(1.6)."
        )
    df_denom = np.inf if unit_scale else own.df_resid
    test = chi2_or_f(max(rise, 0.0), df, df_denom)
    added = [name for name in larger.names if name not in smaller.names]
    scale = "" if unit_scale else "; the dispersion is that of the larger"
    note = f"By the {basis} of the models with and without {', '.join(added)}{scale}."
    return LikelihoodRatioTest(*test, note)


def _check_same_rows(larger, smaller):
    """Refuse tables of other kinds of models, or of other rows."""
    own, other = larger.statistics, smaller.statistics
    if type(larger.family) is not type(smaller.family) or larger.link != smaller.link:
        raise ValueError(
            f"The models differ in family or link: {larger.family!r}, {larger.link!r} and "
            f"{smaller.family!r}, {smaller.link!r}."
        )
    same_family = larger.family == smaller.family
    same_null = np.isclose(own.null_deviance, other.null_deviance, rtol=_SAME, atol=0.0)
    if own.nobs != other.nobs or (same_family and not same_null):
        raise ValueError(
            f"The models were fitted to other rows ({own.nobs:g} and {other.nobs:g}; null "
            f"deviances {own.null_deviance:.6g} and {other.null_deviance:.6g}): fit both to the "
            "same rows, targets, weights, exposure and offset."
        )
