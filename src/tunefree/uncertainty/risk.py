r"""Intervals for a risk: the share of mistakes, or a mean loss.

- `exact` is for independent rows that took no part in learning or choosing: a theorem.
- `hedged` is for losses in [0, 1] of rows held out fold by fold, whose models overlap: a theorem
  for independent losses, here only measured.
- `of_weighted` is approximate: it is `exact` at the effective number of rows; `of_groups` is, too.
- `skewed` is approximate: for unbounded losses no interval can be proved for finitely many rows.
- `online` is for a stream whose rows were predicted before they were learned. Let :math:`\mu_t` be
  the risk of the prediction at row t given all before, S the mistakes of the first n rows, and m
  the mean of :math:`\mu_1 .. \mu_n`. Then

.. math:: e^{\lambda S} / \prod_t (1 + \mu_t (e^\lambda - 1))
    \ge e^{\lambda S - n \log(1 + m (e^\lambda - 1))},

since the logarithm is concave. The left is a martingale. So a mixture of the right over fixed
:math:`\lambda` exceeds 1 / alpha at any time with probability at most alpha (Ville). It holds at
all n together, for any stream, and needs S and n alone.

Source: Clopper and Pearson 1934; Korn and Graubard 1998 ("Confidence intervals for proportions with
small expected number of positive counts estimated from survey data"); Hall 1992 ("On the removal of
skewness by transformation"); Waudby-Smith and Ramdas 2024 ("Estimating means of bounded random
variables by betting", section 4.4); Howard et al. 2021 (mixtures). The bound above is this
library's.
"""

import numpy as np
from scipy import optimize, stats

from tunefree.rows.order import summed_by

# The largest bet, so that wealth stays positive; the values of lambda in the mixture.
_LARGEST_BET, _LAMBDAS = 0.75, np.geomspace(1e-3, 4.0, 60)


HELD_OUT = "Clopper-Pearson on held-out rows (measured; they also chose the stack's few weights)"
HEDGED = "Waudby-Smith-Ramdas on mistakes on held-out rows (coverage is measured, not proved)"
SKEWED = "t interval, wider for skewed losses, on held-out rows (approximate; measured)"
WEIGHTED = "Clopper-Pearson at the effective number of weighted rows (approximate)"
GROUPED = "Clopper-Pearson at the effective number of rows in held-out groups (approximate)"
GROUPED_LOSSES = "t interval, wider for skewed losses, on held-out groups (approximate)"
EXACT = "Clopper-Pearson, 95 %: exact for independent rows that the model has not seen"
NORMAL_NEW = "normal, 95 %: asymptotic, for independent rows that the model has not seen"
_MOST_ROWS = 1_000_000  # rows that whole weights may stand for
# Models of several folds overlap, and were chosen by the held-out rows: only so much of alpha is
# used for the draw of the rows.
_SHARE = 0.25
# A search has lowered the risk at most by this share.
_MOST_SEARCHED = 0.5


def held_out(losses, weights, *, bounded, once=False, spent=0.0, groups=None):
    """Limits (95 %) of the risk from held-out losses (None without rows), and the method.

    `bounded` losses are mistakes; `once` is whether one model predicted all held-out rows. `spent`
    is q / (2 n) for q parameters that a search fitted to these n rows: their mean loss is then too
    small by about 2 q / n of the risk (.6 to 4 q / n were measured). With `groups`, rows of one
    group are not independent: groups count.

    >>> held_out(np.ones(3), np.ones(3), bounded=False)[0]
    (1.0, 1.0)
    """
    if not len(losses):
        return None, "no held-out rows"
    alpha = 0.05 if once else _SHARE * 0.05
    if not bounded:
        kind = SKEWED
        if groups is not None:
            totals, kind = summed_by(groups, weights), GROUPED_LOSSES
            losses, weights = summed_by(groups, weights * losses) / totals, totals
        low, high = skewed(losses, weights, alpha)
        return (low, high / (1.0 - min(4.0 * spent, _MOST_SEARCHED))), kind
    if groups is not None:
        return of_groups(losses, weights, groups, alpha), GROUPED
    are_repetitions = (weights == np.round(weights)).all() and weights.sum() <= _MOST_ROWS
    if not are_repetitions:
        return of_weighted(losses, weights, alpha), WEIGHTED
    if once:
        return exact(float(weights @ losses), float(weights.sum()), alpha), HELD_OUT
    return hedged(np.repeat(losses, weights.astype(np.int64)), alpha), HEDGED


def exact(mistakes, n, alpha=0.05):
    """Limits of the probability of a mistake (Clopper and Pearson).

    >>> [round(e, 3) for e in exact(5, 100)]
    [0.016, 0.113]
    """
    low = stats.beta.ppf(0.5 * alpha, mistakes, n - mistakes + 1) if mistakes > 0 else 0.0
    high = stats.beta.ppf(1.0 - 0.5 * alpha, mistakes + 1, n - mistakes) if mistakes < n else 1.0
    return float(low), float(high)


def of_weighted(mistakes, weights, alpha=0.05):
    """Limits of the probability of a mistake from weighted rows (Korn and Graubard 1998).

    They are those of (sum w)^2 / sum w^2 rows with the weighted share of mistakes.

    >>> of_weighted(np.repeat([1.0, 0.0], [5, 95]), np.full(100, 0.3)) == exact(5, 100)
    True
    """
    n = float(weights.sum() ** 2 / np.square(weights).sum())
    share = float(np.average(mistakes, weights=weights))
    return exact(round(n * share, 9), round(n, 9), alpha)


def of_groups(mistakes, weights, groups, alpha=0.05):
    """Limits of the probability of a mistake from rows in groups (Korn and Graubard 1998).

    They are those of as many independent rows as have the variance of the mean of the groups. Few
    groups show this variance badly: the number is reduced as Student's t is wider.

    >>> mistakes, groups = np.repeat([1.0, 0.0], [50, 950]), np.arange(1000) // 10
    >>> [round(e, 3) for e in of_groups(mistakes, np.ones(1000), groups)]
    [0.016, 0.114]
    """
    share = weights / weights.sum()
    mean, of_group = float(share @ mistakes), summed_by(groups, share)
    n_groups, n_rows = len(of_group), 1.0 / float(share @ share)
    n = 1.0 / float(of_group @ of_group)
    if 0.0 < mean < 1.0 and n_groups > 1:
        parts = summed_by(groups, share * (mistakes - mean))
        variance = n_groups / (n_groups - 1.0) * float(parts @ parts)
        n = min(mean * (1.0 - mean) / max(variance, 1e-300), n_rows)
    if n_groups > 1:
        few, many = (
            stats.t.ppf(1.0 - 0.5 * alpha, m) for m in (n_groups - 1.0, max(n_rows - 1.0, 1.0))
        )
        n = max(n * (many / few) ** 2, 1.0)
    return exact(round(n * mean, 9), round(n, 9), alpha)


def skewed(losses, weights, alpha=0.05):
    """Limits of a mean loss: Student's t, with a higher upper one for skewed losses (Hall 1992).

    Squared errors are skewed: the large ones are rare, and a few rows contain none.

    >>> [round(e, 3) for e in skewed(np.array([0.0, 0.1, 0.2, 1.1]), np.ones(4))]
    [0.0, 3.633]
    """
    share = weights / weights.sum()
    mean, n = share @ losses, 1.0 / (share @ share)
    gap = losses - mean
    if n < 1.0 + 1e-9:
        return 0.0, np.inf
    spread = np.sqrt(share @ np.square(gap) * n / (n - 1.0))
    reach = stats.t.ppf(1.0 - 0.5 * alpha, n - 1.0) / np.sqrt(n)
    high = mean + reach * spread
    skew = share @ (gap / spread) ** 3 if spread > 0.0 else 0.0
    if skew > 0.0:
        root = np.cbrt(1.0 - skew * (reach + skew / (6.0 * n)))
        high = max(high, mean + 3.0 * spread * (1.0 - root) / skew)
    return float(max(mean - reach * spread, 0.0)), float(high)


def hedged(losses, alpha=0.05):
    """Limits of the mean of losses in [0, 1], by bets for and against every mean.

    >>> low, high = hedged(np.tile([0.0, 0.0, 0.0, 1.0], 100))
    >>> bool(0.19 < low < 0.25 < high < 0.32)
    True
    """
    n = len(losses)
    count = np.arange(1, n + 1)
    mean = (0.5 + np.cumsum(losses)) / (count + 1.0)
    spread = (0.25 + np.cumsum(np.square(losses - mean))) / (count + 1.0)
    before = np.concatenate([[0.25], spread[:-1]])
    bets = np.sqrt(2.0 * np.log(2.0 / alpha) / (n * before))

    def excess(m):
        """The log of the largest wealth, less that at which the mean is refuted."""
        up = np.minimum(bets, _LARGEST_BET / max(m, 1e-12))
        down = np.minimum(bets, _LARGEST_BET / max(1.0 - m, 1e-12))
        gain_up = np.cumsum(np.log1p(up * (losses - m))).max()
        gain_down = np.cumsum(np.log1p(-down * (losses - m))).max()
        return max(gain_up, gain_down) - np.log(2.0 / alpha)

    return _limits(excess, float(losses.mean()))


def online(mistakes, n, alpha=0.05):
    """Limits of the mean risk of all predictions so far, at all times together.

    >>> [round(e, 3) for e in online(100, 1000)]
    [0.07, 0.136]
    """

    def excess(m):
        above = _LAMBDAS * mistakes - n * np.log1p(m * np.expm1(_LAMBDAS))
        below = -_LAMBDAS * mistakes - n * np.log1p(m * np.expm1(-_LAMBDAS))
        return max(_log_mean(above), _log_mean(below)) - np.log(2.0 / alpha)

    return _limits(excess, mistakes / n)


def _log_mean(logs):
    top = logs.max()
    return top + np.log(np.exp(logs - top).mean())


def _limits(excess, middle):
    """The limits of the means that are not refuted, where `excess` is below 0."""
    if excess(middle) >= 0.0:
        return middle, middle
    low = (
        optimize.brentq(excess, 0.0, middle, xtol=1e-9)
        if middle > 0.0 and excess(0.0) > 0.0
        else 0.0
    )
    high = (
        optimize.brentq(excess, middle, 1.0, xtol=1e-9)
        if middle < 1.0 and excess(1.0) > 0.0
        else 1.0
    )
    return float(low), float(high)
