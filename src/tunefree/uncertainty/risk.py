r"""Intervals for a risk: the share of mistakes, or a mean loss.

`exact` is of independent rows that took no part in learning or choosing: a theorem. `hedged` is of
losses in [0, 1] of rows left out in turn, whose models overlap: a theorem for independent losses,
here measured only. `skewed` is approximate: mean losses that have no bound allow no interval that
is proved for finitely many rows. `online` is of a stream whose rows were predicted before
they were learned: with :math:`\mu_t` the risk of what was said at row t given all before, S the
mistakes of the first n rows and m the mean of :math:`\mu_1 .. \mu_n`,

.. math:: e^{\lambda S} / \prod_t (1 + \mu_t (e^\lambda - 1))
    \ge e^{\lambda S - n \log(1 + m (e^\lambda - 1))},

a martingale on the left, and the concavity of the logarithm: what mixes the right over fixed
:math:`\lambda` exceeds 1 / alpha at any time with probability at most alpha (Ville). It holds at
all n together, whatever the stream does, and needs S and n alone.

Source: Clopper and Pearson 1934; Hall 1992 ("On the removal of skewness by transformation");
Waudby-Smith and Ramdas 2024 ("Estimating means of bounded random variables by betting", section
4.4); Howard et al. 2021 (mixtures). The bound above was derived here.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, t

# Bets are cut so that wealth stays positive; exponents of the mixture.
_CUT, _TILTS = 0.75, np.geomspace(1e-3, 4.0, 60)


HELD = "Clopper-Pearson on rows held out (measured; the stack's few weights saw them)"
HEDGED = "hedged betting on mistakes of rows left out (measured; their models overlap)"
SKEWED = "t interval, wider for skewed losses, of rows left out (approximate; measured)"
EXACT = "Clopper-Pearson, 95 %: exact for independent rows that the model has not seen"
NORMAL_NEW = "normal, 95 %: asymptotic, for independent rows that the model has not seen"
ONLINE = "confidence sequence of mistakes before learning (mean risk so far, at any time)"
_MOST = 1_000_000  # rows that weights may stand for
# Left out in turn, rows judge models that overlap and were chosen by them: of the chance to be
# wrong, so much is left for the draw of the rows.
_SHARE = 0.25
# At most such a share of the risk can be what a search has followed.
_MOST_FOLLOWED = 0.5


def held_out(losses, weights, *, bounded, once=False, spent=0.0, alpha=0.05):
    """Ends for the risk from losses of rows left out, or None without any, and what they are.

    `bounded` losses are mistakes; `once` says that the rows were left out together, of one model.
    `spent` is q / (2 n) for q parameters that a search fitted to these n rows: the mean of their
    losses is then too small by about 2 q / n of the risk (.6 to 4 q / n were seen).

    >>> left_out(np.ones(3), np.ones(3), bounded=False)[0]
    (1.0, 1.0)
    """
    if not len(losses):
        return None, "no row was left out"
    whole = (weights == np.round(weights)).all() and weights.sum() <= _MOST
    if bounded and once and whole:
        return exact(float(weights @ losses), float(weights.sum()), alpha), HELD
    if bounded and whole:
        return hedged(np.repeat(losses, weights.astype(np.int64)), _SHARE * alpha), HEDGED
    low, high = skewed(losses, weights, alpha if once else _SHARE * alpha)
    high = high / (1.0 - min(4.0 * spent, _MOST_FOLLOWED))
    return (low, min(high, 1.0) if bounded else high), SKEWED


def exact(mistakes, n, alpha=0.05):
    """Ends for the probability of a mistake (Clopper and Pearson).

    >>> [round(e, 3) for e in exact(5, 100)]
    [0.016, 0.113]
    """
    low = beta.ppf(0.5 * alpha, mistakes, n - mistakes + 1) if mistakes > 0 else 0.0
    high = beta.ppf(1.0 - 0.5 * alpha, mistakes + 1, n - mistakes) if mistakes < n else 1.0
    return float(low), float(high)


def skewed(losses, weights, alpha=0.05):
    """Ends for a mean loss: Student's t, and higher up where losses are skewed (Hall 1992).

    Squared errors are: their mean has a long tail upwards, of which few rows show little.

    >>> [round(e, 3) for e in skewed(np.array([0.0, 0.1, 0.2, 1.1]), np.ones(4))]
    [0.0, 3.633]
    """
    share = weights / weights.sum()
    mean, n = share @ losses, 1.0 / (share @ share)
    gap = losses - mean
    if n < 1.0 + 1e-9:
        return 0.0, np.inf
    spread = np.sqrt(share @ np.square(gap) * n / (n - 1.0))
    reach = t.ppf(1.0 - 0.5 * alpha, n - 1.0) / np.sqrt(n)
    high = mean + reach * spread
    skew = share @ gap**3 / spread**3 if spread > 0.0 else 0.0
    if skew > 0.0:
        root = np.cbrt(1.0 - skew * (reach + skew / (6.0 * n)))
        high = max(high, mean + 3.0 * spread * (1.0 - root) / skew)
    return float(max(mean - reach * spread, 0.0)), float(high)


def hedged(losses, alpha=0.05):
    """Ends for the mean of losses in [0, 1], by bets for and against every mean.

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

    def wealth(m):
        """How far the log of the most wealth is above what refutes the mean."""
        up = np.minimum(bets, _CUT / max(m, 1e-12))
        down = np.minimum(bets, _CUT / max(1.0 - m, 1e-12))
        rise = np.cumsum(np.log1p(up * (losses - m))).max()
        fall = np.cumsum(np.log1p(-down * (losses - m))).max()
        return max(rise, fall) - np.log(2.0 / alpha)

    return _ends(wealth, float(losses.mean()))


def online(mistakes, n, alpha=0.05):
    """Ends for the mean risk of all predictions so far, at every time together.

    >>> [round(e, 3) for e in online(100, 1000)]
    [0.07, 0.136]
    """

    def against(m):
        rise = _TILTS * mistakes - n * np.log1p(m * np.expm1(_TILTS))
        fall = -_TILTS * mistakes - n * np.log1p(m * np.expm1(-_TILTS))
        return max(_log_mean(rise), _log_mean(fall)) - np.log(2.0 / alpha)

    return _ends(against, mistakes / n)


def _log_mean(logs):
    top = logs.max()
    return top + np.log(np.exp(logs - top).mean())


def _ends(excess, middle):
    """The ends of the means that are not refuted, where `excess` is below 0."""
    if excess(middle) >= 0.0:
        return middle, middle
    low = brentq(excess, 0.0, middle, xtol=1e-9) if middle > 0.0 and excess(0.0) > 0.0 else 0.0
    high = brentq(excess, middle, 1.0, xtol=1e-9) if middle < 1.0 and excess(1.0) > 0.0 else 1.0
    return float(low), float(high)
