r"""Linear quantile regression: the exact minimum of the pinball loss, and the density there.

The minimum is a linear program. Its dual, with one bounded variable a row, is

.. math:: \max_a \; y^\top a \quad \text{with} \quad A^\top a = (1 - q)\, A^\top w, \quad
    0 \le a \le w ,

and the coefficients are the multipliers of its equations. The slope of the score is f, the density
of the errors at 0: Epanechnikov's kernel estimate, in the width of Hall and Sheather.

Source: Koenker and Bassett 1978; Powell 1991; Hall and Sheather 1988; Koenker 2005, chapter 3.
"""

from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.stats import norm

from tunefree import families


def least_pinball(A: np.ndarray, y: np.ndarray, weights: np.ndarray, q: float) -> np.ndarray:
    """The coefficients of the least pinball loss.

    Examples
    --------
    >>> least_pinball(np.ones((3, 1)), np.array([1.0, 7.0, 2.0]), np.ones(3), 0.5).round(9)
    array([2.])
    """
    if A.shape[1] == 1 and (A == 1.0).all():
        return families.quantiles(y[:, None], weights, q)
    scale = float(np.abs(y).max()) or 1.0
    share = weights / weights.mean()
    limits = np.column_stack([np.zeros(len(y)), share])
    right = (1.0 - q) * (share @ A)
    found: Any = linprog(-y / scale, A_eq=A.T, b_eq=right, bounds=limits, method="highs-ds")
    if found.status != 0:
        raise ValueError(f"The minimum of the pinball loss was not found: {found.message}")
    return -scale * found.eqlin.marginals


def density(errors: np.ndarray, y: np.ndarray, counts: np.ndarray, q: float) -> float:
    """The density of the errors at 0, as by default in `QuantReg` of statsmodels.

    A row counts `counts` times.

    Examples
    --------
    >>> e = norm.ppf((np.arange(2000) + 0.5) / 2000)
    >>> bool(abs(density(e, e, np.ones(2000), 0.5) - norm.pdf(0.0)) < 0.01)
    True
    """
    n, z = counts.sum(), norm.ppf(q)
    part = 1.5 * norm.pdf(z) ** 2 / (2.0 * z * z + 1.0)
    reach = (norm.ppf(0.975) ** 2 * part / n) ** (1.0 / 3.0)
    low, high = _percentiles(errors, counts, (0.25, 0.75))
    deviation = np.sqrt(np.average(np.square(y - np.average(y, weights=counts)), weights=counts))
    # Near the ends of (0, 1) the normal quantiles are those of the nearest levels inside.
    levels = np.clip([q - reach, q + reach], 0.5 / n, 1.0 - 0.5 / n)
    width = min(deviation, (high - low) / 1.34) * float(np.diff(norm.ppf(levels))[0])
    if width <= 0.0:
        raise ValueError(
            "Half of the errors are equal, so that they have no density and coefficients no "
            "standard errors."
        )
    kernel = np.maximum(0.75 * (1.0 - np.square(errors / width)), 0.0)
    return float(counts @ kernel / (n * width))


def _percentiles(values, counts, shares):
    """Quantiles between neighbours, as of rows that are repeated."""
    order = np.argsort(values, kind="stable")
    values, last = values[order], np.cumsum(counts[order])
    places = np.asarray(shares) * (last[-1] - 1.0)
    below = np.floor(places)
    ends = [values[np.searchsorted(last, below + i, side="right")] for i in (0, 1)]
    return ends[0] + (places - below) * (ends[1] - ends[0])
