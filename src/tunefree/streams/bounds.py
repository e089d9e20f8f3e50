r"""Guarantees for streams that drift; also in `tunefree.bounds`."""

import math

import numpy as np
from numpy.typing import ArrayLike

from tunefree.streams.betting import log_wealth, prior

# Members and mixers of `StreamClassifier` and `StreamRegressor`, and the loss per row of clipping
# log-odds at 12.
_MEMBERS = 20
_MIXERS = 15
_CLIPPED = math.log1p(math.exp(-12.0))


def stream_mixing(
    stop: int,
    start: int = 0,
    *,
    members: int = _MEMBERS,
    mixers: int = _MIXERS,
    clipped: bool = True,
) -> float:
    r"""Excess of the mixture's log loss over any member's on rows start + 1 .. stop.

    The Bayes mixture with the share 1/(t + 1) at row t gives each of K members a weight of at least
    1/(K t) at row t. Of this the product of the t/(t + 1) remains, hence ln K + ln stop on any
    interval. The prediction mixes `mixers` such mixtures in the same way:

    ln members + ln mixers + 2 ln stop, and log(1 + e^-12) a row for clipped log-odds.

    Parameters
    ----------
    stop, start : int
        Rows learned at the end of the interval, and before it.
    members, mixers : int
    clipped : bool, default=True
        Whether losses are compared with those of members that are not clipped (classification).

    Returns
    -------
    float
        In nats, for rows of weight at most 1 whose label comes before the next row.

    References
    ----------
    Vovk 1998; Herbster and Warmuth 1998; the share 1/(t + 1) as in Adamskiy, Koolen, Chernov and
    Vovk 2016, "A closer look at adaptive regret".

    Examples
    --------
    >>> round(stream_mixing(45312, clipped=False), 1)
    27.1
    """
    if not 0 <= start <= stop or stop < 1:
        raise ValueError(f"start={start!r}, stop={stop!r} is not an interval of rows.")
    rows = (stop - start) * _CLIPPED if clipped else 0.0
    return math.log(members) + math.log(mixers) + 2.0 * math.log(stop) + rows


def stream_path_regret(
    stiffness: ArrayLike,
    losses: ArrayLike,
    slopes: ArrayLike,
    norms: ArrayLike,
    iterates: ArrayLike,
    path: ArrayLike,
) -> float:
    r"""Regret of implicit gradient steps against any path of linear predictors.

    With w_1 = 0 and w_(t+1) = argmin l_t(w) + A_t ||w - w_t||^2 / 2, l_t convex and not negative,

    sum l_t(w_t) - l_t(u_t) <= A_1 ||u_1||^2 / 2 + 1/2 sum (A_(t+1) - A_t)_+ ||w_(t+1) - u_(t+1)||^2
    + (M + U) sum A_t ||u_(t+1) - u_t|| + sum min(l_t(w_t), s_t^2 ||z_t||^2 / (2 A_t)),

    where M and U are the largest norms of the iterates and of the path. The members of rate eta
    have A_t = nbar_t / eta, nbar_t the mean squared norm of rows.

    Parameters
    ----------
    stiffness, losses, slopes, norms : array-like of shape (T,)
        A_t; l_t(w_t); its slope s_t in the score w_t z_t; ||z_t||.
    iterates, path : array-like of shape (T, d)
        w_t and u_t.

    Returns
    -------
    float

    References
    ----------
    Campolongo and Orabona 2020, "Temporal variability in implicit online learning"; the proof is
    the inequality of proximal points and a telescoping sum.

    Examples
    --------
    >>> round(stream_path_regret([1.0], [0.7], [0.5], [1.0], [[0.0]], [[1.0]]), 3)
    0.625
    """
    A, losses, slopes, norms = (np.asarray(a, float) for a in (stiffness, losses, slopes, norms))
    W, path = np.asarray(iterates, float), np.asarray(path, float)
    gaps = np.square(W - path).sum(axis=1)
    largest = float(np.linalg.norm(W, axis=1).max() + np.linalg.norm(path, axis=1).max())
    moved = np.linalg.norm(np.diff(path, axis=0), axis=1)
    return float(
        0.5 * A[0] * gaps[0]
        + 0.5 * np.maximum(np.diff(A), 0.0) @ gaps[1:]
        + largest * (A[:-1] @ moved)
        + np.minimum(losses, np.square(slopes * norms) / (2.0 * A)).sum()
    )


def stream_coverage(rows: int, alpha: float, *, largest: float, unit: float) -> tuple[float, float]:
    r"""The range of the share of misses that the intervals of a stream must have.

    For scores in [0, D] in any order the bettor's wealth is at most 1 + (1 - alpha) T D / (5 q u),
    where q is the quantile 1 - alpha of the absolute value of a normal number, divided by its
    median. The wealth is a function of T and of the number of misses, and is large where their
    share is far from alpha (`tunefree.streams.betting`).

    Parameters
    ----------
    rows : int
        T: those after the first 64. In a regression, rows whose target was not learned as an
        outlier count, except those before the 64th row that was learned.
    alpha : float
        The miss rate.
    largest : float
        D: the largest score. In a regression the score is the distance of the target from its
        prediction in units of the predicted scale, also for targets that were not learned: one at
        10^6 makes D about 10^6. Only the logarithm of D matters. For classes a score is at most 1.
    unit : float
        u: the median of the first 64 scores of targets that were learned.

    Returns
    -------
    low, high : float
        An empty interval or set counts as a miss, though it is published as a point, or with the
        most likely class.

    References
    ----------
    Podkopaev, Xu and Lee 2024, "Adaptive conformal inference by betting"; the bound was derived
    here.

    Examples
    --------
    >>> low, high = stream_coverage(10_000, 0.1, largest=10.0, unit=1.0)
    >>> round(low, 3), round(high, 3)
    (0.086, 0.114)
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha={alpha!r} is not between 0 and 1.")
    most = math.log1p((1.0 - alpha) * rows * largest / (unit * prior(alpha)[2]))

    def edge(far):
        near = alpha
        for _ in range(200):
            middle = 0.5 * (near + far)
            if log_wealth(rows * middle, rows, alpha) <= most:
                near = middle
            else:
                far = middle
        return near

    return edge(0.0), edge(1.0)
