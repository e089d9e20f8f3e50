"""Tables of coefficients, contrasts and terms: what `summary` and `anova` return."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from tunefree.core.format import aligned
from tunefree.parts.links import LINKS
from tunefree.uncertainty.contrasts import read_contrasts

_MANY_DIGITS = re.compile(r"\d+\.\d{4,}(e[-+]\d+)?")


class WaldTest(NamedTuple):
    """A Wald test: the statistic is F if it has `df_denom`, and chi2 if that is infinite."""

    statistic: float
    p_value: float
    df_num: int
    df_denom: float


def wald(difference: np.ndarray, covariance: np.ndarray, df_denom: float) -> WaldTest:
    """The test of R beta - q = 0, given this difference and its covariance.

    Examples
    --------
    >>> round(wald(np.array([1.96]), np.eye(1), np.inf).p_value, 3)
    0.05
    """
    df_num = len(difference)
    statistic = float(difference @ np.linalg.pinv(covariance) @ difference)
    return chi2_or_f(statistic, df_num, df_denom)


def chi2_or_f(statistic: float, df_num: int, df_denom: float) -> WaldTest:
    """The F test of a chi2 statistic, or its chi2 test if `df_denom` is infinite."""
    if np.isinf(df_denom):
        return WaldTest(statistic, float(stats.chi2.sf(statistic, df_num)), df_num, df_denom)
    ratio = statistic / max(df_num, 1)
    return WaldTest(ratio, float(stats.f.sf(ratio, df_num, df_denom)), df_num, df_denom)


def as_text(columns: dict, names: list, missing: str = "nan") -> str:
    """A table as text, its columns flush right, with a word for NaN."""
    cells = [
        [missing if np.isnan(value) else f"{value:.4g}" for value in column]
        for column in columns.values()
    ]
    body = [[name, *(column[i] for column in cells)] for i, name in enumerate(names)]
    return "\n".join(aligned([["", *columns], *body]))


class Statistics(NamedTuple):
    """How well a generalized linear model fits; the names are those of statsmodels.

    Attributes
    ----------
    nobs : float
        Rows; with weights that are frequencies their sum.
    df_model, df_resid : float
        Coefficients but for one; rows less coefficients.
    deviance, null_deviance : float
        Of the model, and of the best constant.
    pearson_chi2 : float
    scale : float
        The dispersion: 1 for Poisson, negative binomial and binomial, else
        ``pearson_chi2 / df_resid``.
    d2 : float
        The share of the null deviance that the model explains.
    llf, aic, bic : float or None
        The log-likelihood at its maximum, and the information criteria; None without a density.
        A learned dispersion of the negative binomial, or power of Tweedie, counts as a parameter;
        `scale` does not, as in statsmodels.
    """

    nobs: float
    df_model: float
    df_resid: float
    deviance: float
    null_deviance: float
    pearson_chi2: float
    scale: float
    d2: float
    llf: float | None = None
    aic: float | None = None
    bic: float | None = None

    def __str__(self):
        parts = [
            f"{self.nobs:g} rows, {self.df_resid:g} degrees of freedom",
            f"deviance {self.deviance:.6g} (null {self.null_deviance:.6g}, D2 {self.d2:.4g}), "
            f"dispersion {self.scale:.4g}",
        ]
        if self.llf is not None:
            parts.append(f"log-likelihood {self.llf:.7g}, AIC {self.aic:.7g}, BIC {self.bic:.7g}")
        return "\n".join(parts)


class Summary(NamedTuple):
    """The usual table of coefficients: `print` shows it, `to_frame` converts it to pandas.

    Attributes
    ----------
    names : list of str
    coef, standard_error, statistic, p_value, low, high : ndarray of shape (n_rows,)
        NaN for an aliased column.
    alpha : float
        The intervals from low to high hold the estimand in 1 - alpha of samples.
    note : str
        What is estimated, and by which method.
    df_denom : float
        Degrees of freedom of Student's t; infinite for the normal distribution.
    covariance : ndarray of shape (n_rows, n_rows) or None
    family, link : part or None
    statistics : `Statistics` or None
        Also as attributes: ``nobs``, ``deviance``, ``scale``, ``llf``, ``aic``, ``d2``, ...
    aliased : dict
        The names of columns without a coefficient, and the reasons.
    reference : dict
        The reference level of every column of categories that has one.

    `covariance`, `family`, `link` and `statistics` are None for several targets.
    """

    names: list
    coef: np.ndarray
    standard_error: np.ndarray
    statistic: np.ndarray
    p_value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    alpha: float
    note: str
    df_denom: float = np.inf
    covariance: Any = None
    family: Any = None
    link: Any = None
    statistics: Any = None
    aliased: Any = {}
    reference: Any = {}

    def __getattr__(self, name):
        if name in Statistics._fields and self.statistics is not None:
            return getattr(self.statistics, name)
        raise AttributeError(f"A Summary has no attribute {name!r}.")

    def columns(self):
        """The columns of the table, by their headings."""
        limits = f"[{0.5 * self.alpha:g}", f"{1.0 - 0.5 * self.alpha:g}]"
        t = "z" if np.isinf(self.df_denom) else "t"
        return {
            "coef": self.coef,
            "std err": self.standard_error,
            t: self.statistic,
            f"P>|{t}|": self.p_value,
            limits[0]: self.low,
            limits[1]: self.high,
        }

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, one row a coefficient."""
        import pandas as pd

        return pd.DataFrame(self.columns(), index=self.names)

    def wald_test(self, R: Any, q: Any = 0.0) -> WaldTest:
        """The Wald test of the linear contrasts R beta = q.

        Parameters
        ----------
        R : str, dict, list of these, or array-like of shape (n_rows,) or (n_contrasts, n_rows)
            The contrasts as text, ``"x - z = 0"``, with the names of the table, numbers,
            ``+ - * / ( )``, and commas between several; or the weights of coefficients:
            ``{"x": 1, "z": -1}`` with q=0 tests whether x and z have the same coefficient. An
            array has an entry for every row of the table.
        q : float or array-like of shape (n_contrasts,), default=0
            The values under the hypothesis, for other contrasts than text.

        Returns
        -------
        WaldTest

        Raises
        ------
        ValueError
            For an unknown or aliased coefficient, text that is no linear equation, linearly
            dependent contrasts, or several targets.

        Examples
        --------
        >>> from tunefree import RidgePathRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 2))
        >>> y = X.sum(axis=1) + rng.normal(size=100)
        >>> table = RidgePathRegressor(random_state=0).fit(X, y).summary(X, y)
        >>> bool(table.wald_test("x0 - x1 = 0").p_value > 0.05)
        True
        >>> bool(table.wald_test({"x0": 1, "x1": -1}).p_value > 0.05)
        True
        """
        if self.covariance is None:
            raise ValueError("Contrasts need the table of one target: fit each target by itself.")
        text = [R] if isinstance(R, str) else R
        if not isinstance(R, Mapping) and all(isinstance(row, str) for row in text):
            if np.any(q):
                raise ValueError("q= is for arrays and dicts: write its values into the text.")
            R, q = read_contrasts(", ".join(text), self.names)
        one = isinstance(R, Mapping) or (np.ndim(R) == 1 and not isinstance(R[0], Mapping))
        rows = np.array([self._weights(row) for row in ([R] if one else R)])
        if np.linalg.matrix_rank(rows) < len(rows):
            raise ValueError("R has linearly dependent contrasts: drop some of its rows.")
        difference = rows @ np.nan_to_num(self.coef) - q
        return wald(difference, rows @ np.nan_to_num(self.covariance) @ rows.T, self.df_denom)

    def _weights(self, row):
        """One contrast as an array."""
        if isinstance(row, Mapping):
            unknown = [name for name in row if name not in self.names]
            if unknown:
                raise ValueError(
                    f"R has no coefficient {unknown[0]!r}: choose of {', '.join(self.names)}."
                )
            row = [row.get(name, 0.0) for name in self.names]
        row = np.asarray(row, dtype=float)
        if row.shape != (len(self.names),):
            raise ValueError(f"A row of R has {row.size} entries, for {len(self.names)} rows.")
        absent = np.isnan(self.coef) & (row != 0.0)
        if absent.any():
            raise ValueError(
                f"{self.names[int(np.argmax(absent))]} is aliased: it has no estimate."
            )
        return row

    def __repr__(self):
        parts = [as_text(self.columns(), self.names), "", self.note]
        if self.reference:
            levels = ", ".join(f"{name} = {level}" for name, level in self.reference.items())
            parts.append(f"Reference levels: {levels}.")
        if self.statistics is not None:
            link = next((name for name, part in LINKS.items() if part == self.link), self.link)
            family = _MANY_DIGITS.sub(lambda digits: f"{float(digits[0]):.4g}", repr(self.family))
            law = f"family {family}, link {link}"
            parts = [law, str(self.statistics), "", *parts]
        return "\n".join(parts)


class Anova(NamedTuple):
    """Tests of the terms of a model, each against a model without it.

    Unless `typ` of `anova` is another, tests are of type II: both models are without the terms that
    contain the term.

    Attributes
    ----------
    terms : list of str
        A column, all levels of a column of categories, or several of these: "a + b".
    df : ndarray of shape (n_terms,)
        Coefficients of the term; 0 if it is aliased: the other terms determine it.
    lr_statistic, lr_p_value : ndarray of shape (n_terms,)
        NaN for an aliased term.
        The likelihood-ratio test: the rise of the deviance without the term has a chi2
        distribution where the dispersion is 1, else ``rise / df / scale`` an F distribution.
    wald_statistic, wald_p_value : ndarray of shape (n_terms,)
        The Wald test, with the covariance of `summary`.
    note : str
    """

    terms: list
    df: np.ndarray
    lr_statistic: np.ndarray
    lr_p_value: np.ndarray
    wald_statistic: np.ndarray
    wald_p_value: np.ndarray
    note: str

    def columns(self):
        """The columns of the table, by their headings."""
        return {
            "df": self.df,
            "LR": self.lr_statistic,
            "P>LR": self.lr_p_value,
            "Wald": self.wald_statistic,
            "P>Wald": self.wald_p_value,
        }

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame, one row a term."""
        import pandas as pd

        return pd.DataFrame(self.columns(), index=self.terms)

    def __repr__(self):
        return "\n".join([as_text(self.columns(), self.terms, "aliased"), "", self.note])
