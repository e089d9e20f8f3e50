"""Bands of the mean: intervals for the means of rows, by the covariance of the coefficients."""

import numpy as np
from scipy import stats

from tunefree.core.warn import warn
from tunefree.rows.kinds import unknown_words


def mean_band(fit, columns, rows, alphas, exposure=1.0, offset=0.0):
    """The means of rows by a `CoefficientFit`, and their intervals.

    Parameters
    ----------
    fit : CoefficientFit
    columns : TableColumns
    rows : ndarray or CSR of shape (n, d)
    alphas : ndarray of shape (n_alpha,)
    exposure, offset : float or ndarray of shape (n,)

    Returns
    -------
    mean : ndarray of shape (n,)
    ends : ndarray of shape (n, 2, n_alpha)
    """
    A = columns.of(rows)
    D, index = fit.design(A), fit.index(A) + offset
    error = np.sqrt(((D @ np.nan_to_num(fit.covariance)) * D).sum(axis=1))
    reach = stats.t.ppf(1.0 - 0.5 * alphas, fit.df_denom) * error[:, None]
    ends = np.stack([index[:, None] - reach, index[:, None] + reach], axis=1)
    exposure = np.broadcast_to(exposure, index.shape)
    with np.errstate(over="ignore"):
        mean = exposure * np.asarray(fit.link.mean(index))
        ends = exposure[:, None, None] * np.asarray(fit.link.mean(ends))
    unknown = unknown_rows(columns, rows)
    if unknown.any():
        mean, ends = np.where(unknown, np.nan, mean), ends.copy()
        ends[unknown] = np.nan
    warn_aliased(fit)
    return mean, ends


def warn_aliased(fit):
    """Warn of columns without a coefficient."""
    if fit.aliased:
        warn(
            f"{', '.join(fit.aliased)} depend on other columns in the rows of the fit, and count "
            "as 0 here: means and intervals hold where new rows keep to the same dependence."
        )


def unknown_rows(columns, rows, fate="their means are NaN", new=()):
    """Which rows have a level without a coefficient, with a warning of their `fate`.

    It names `new` levels, each an `UnknownLevel`.
    """
    unknown = columns.unknown_levels(rows)
    if unknown.any():
        words = f"{int(unknown.sum())} rows have a level of which the fit has no coefficient"
        named = unknown_words(new, ". Levels that fit has not seen") if new else "."
        warn(f"{words}: {fate}{named}")
    return unknown
