r"""Intervals for streams by betting: no rate to choose, no exchangeability to assume.

A row's score S_t >= 0 measures the error of its prediction. With M misses among the t - 1 rows
before, b_t is the bet on a miss and W the bettor's wealth, 1 at first:

    b_t = (M + k b) / (t - 1 + k),    k = 25 / (alpha (1 - alpha)),    b = alpha + 5 / k,
    s_t = 5 q u W (b_t - alpha) / (alpha (1 - alpha)),    a miss where S_t > s_t,
    W *= b_t / alpha on a miss, (1 - b_t) / (1 - alpha) otherwise,

so that W_t - W_(t-1) = (s_t / (5 q u)) (miss - alpha). A negative radius covers nothing. The unit u
is the median of the first 64 scores; until then everything is covered and nothing is bet. The first
radius is q u, which covers 1 - alpha of normal errors: q is the ratio of their quantiles.

For scores within [0, D], whatever their order, the wealth is at most 1 + (1 - alpha) T D / (5 q u).
With c = k b and e = k (1 - b) the bets are the means of a Beta(c, e) prior given the misses so far:

    W_T alpha^M (1 - alpha)^(T - M) = B(c + M, e + T - M) / B(c, e):

it grows with the distance of M / T from alpha: `tunefree.bounds.stream_coverage` has the bound
as shares of misses. It is about the average over the stream, and the answer must come before the
next row. A prior of half a miss in one row (Krichevsky and Trofimov) has more misses: .118 in place
of .110 of 4,000 normal errors at alpha = .1, .176 in place of .117 of the first 136.

Source: Podkopaev, Xu and Lee 2024, "Adaptive conformal inference by betting"; the radius and its
bound were derived here.
"""

import math
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import betaln, ndtri

from tunefree.core.jit import kernel, maximum, minimum

# The miss rates on offer: each has a bettor with its own wealth.
ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
# The weight of the prior, and so of the first radius: that of so many rows of variance 1.
_PRIOR_ROWS = 25.0


def record(*numbers, **arrays):
    """The type of a record of numbers and of arrays, or other records, in this order."""
    fields: list[Any] = [(name, np.float64) for name in numbers]
    for name, kind in arrays.items():
        fields.append((name, kind) if isinstance(kind, np.dtype) else (name, np.float64, kind))
    return np.dtype(fields, align=True)


def prior(alpha):
    """Rows that the prior counts as, its share of misses, and 5 q: see above.

    >>> [round(float(number), 3) for number in prior(0.1)]
    [277.778, 0.118, 12.193]
    """
    variance = alpha * (1.0 - alpha)
    rows = _PRIOR_ROWS / variance
    radius = _PRIOR_ROWS**0.5 * ndtri(1.0 - 0.5 * alpha) / ndtri(0.75)
    return rows, alpha + _PRIOR_ROWS**0.5 / rows, radius


def log_wealth(misses, rows, alpha):
    """The logarithm of the wealth after so many misses in so many rows.

    >>> round(float(log_wealth(20, 100, 0.1)), 3)
    2.281
    """
    count, share, _ = prior(alpha)
    a, b = count * share, count * (1.0 - share)
    mixed = betaln(a + misses, b + rows - misses) - betaln(a, b)
    return mixed - misses * np.log(alpha) - (rows - misses) * np.log1p(-alpha)


_RATES = np.array(ALPHAS)
_COUNTS, _SHARES, _REACHES = prior(_RATES)
FIRST = 64  # scores whose median is the unit
# Limits of the unit (of exact fits it is 0) and of scores: wealth, their quotient, stays finite.
_LEAST_UNIT, _MOST_SCORE = 1e-150, 1e150
# The wealth minus 1, so that the state before the first row is all zeros.
BETS = record(
    "rows",  # bet on
    "unit",
    scores=FIRST,
    accounts=(len(ALPHAS), 2),  # misses and wealth - 1 of each rate
)


def bettors():
    """The state of a bettor for every rate before the first row: a record.

    Examples
    --------
    >>> bets, rng = bettors(), np.random.default_rng(0)
    >>> misses = 0
    >>> for t in range(4000):
    ...     score = abs(rng.normal()) * (1 + t / 1000)
    ...     misses += score > radius(bets, 3)
    ...     bet(bets, score)
    >>> abs(misses / 4000 - ALPHAS[3]) < 0.03
    True
    """
    return np.zeros(1, BETS)[0]


def rate_index(alpha):
    """The index of a miss rate in `ALPHAS`.

    >>> rate_index(0.05)
    2
    """
    for i, rate in enumerate(ALPHAS if isinstance(alpha, Real) else ()):
        if math.isclose(alpha, rate):
            return i
    raise ValueError(f"alpha={alpha!r} is none of {', '.join(map(str, ALPHAS))}.")


@kernel
def radius(bets, i):
    """The largest score covered next at the miss rate `ALPHAS[i]`; negative covers nothing."""
    if bets.unit == 0.0:
        return np.inf
    alpha = _RATES[i]
    misses = bets.accounts[i][0]
    wealth = 1.0 + bets.accounts[i][1]
    stake = _bet_on_miss(misses, bets.rows + 1.0, i) - alpha
    return bets.unit * _REACHES[i] * wealth * stake / (alpha * (1.0 - alpha))


@kernel
def _bet_on_miss(misses, t, i):
    return (misses + _COUNTS[i] * _SHARES[i]) / (t - 1.0 + _COUNTS[i])


@kernel
def _sort(scores):
    """Insertion sort: np.sort would take long to compile."""
    for i in range(1, len(scores)):
        j = i
        while j > 0 and scores[j - 1] > scores[j]:
            scores[j - 1], scores[j] = scores[j], scores[j - 1]
            j -= 1


@kernel
def _learn_unit(bets, score):
    """Collect the first scores; their median is the unit."""
    scores, n = bets.scores, np.int64(bets.rows)
    scores[n] = score
    bets.rows += 1.0
    if n + 1 < FIRST:
        return
    _sort(scores)
    middle = 0.5 * (scores[FIRST // 2 - 1] + scores[FIRST // 2])
    bets.unit = maximum(maximum(middle, 1e-9 * scores[FIRST - 1]), _LEAST_UNIT)
    bets.rows = 0.0


@kernel
def bet(bets, score):
    """Update all bettors by the next score."""
    score = minimum(score, _MOST_SCORE)
    if bets.unit == 0.0:
        _learn_unit(bets, score)
        return
    t = bets.rows + 1.0
    for i in range(len(_RATES)):
        alpha, account = _RATES[i], bets.accounts[i]
        share = _bet_on_miss(account[0], t, i)
        if score <= radius(bets, i):
            factor = (1.0 - share) / (1.0 - alpha)
        else:
            factor = share / alpha
            account[0] += 1.0
        account[1] = (1.0 + account[1]) * factor - 1.0
    bets.rows = t
