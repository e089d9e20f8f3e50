r"""Guarantees of the Reflectron in batches (Theorems 3.1, 4.1) and in single rows (5.1, 5.2).

Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting geometry for learning generalized linear
models".
"""

from typing import Any

import numpy as np

from tunefree.reflectron.potentials import PNorm


def reflectron_step(
    radius: float,
    slope: float,
    *,
    convexity: float = 1.0,
    weight: float = 1.0,
    theorem: str = "4.1",
    rounds: Any = None,
) -> float:
    r"""The step of a theorem: safe, and far below the best one.

    ======  ==========================================================
    4.1     sigma / (2 C^2 B L), full batches
    5.1     min(sigma / (C^2 B L), 1 / sqrt(T)), one row a step
    5.2     sigma / (C^2 B L), one row a step and noiseless targets
    ======  ==========================================================

    Theorems 5.1 and 5.2 allow 2 (1 - beta) sigma / (C^2 B L); these are for beta = 1/2.

    Parameters
    ----------
    radius : float
        C, the largest dual norm of a row.
    slope : float
        L, the link's largest slope.
    convexity : float, default=1.0
        sigma, strong convexity of the potential.
    weight : float, default=1.0
        B, the largest weight of the pseudogradient: 1 for GLM-tron, L for mirror descent.
    theorem : {'4.1', '5.1', '5.2'}, default='4.1'
    rounds : int, optional
        T, for Theorem 5.1.

    References
    ----------
    Boffi, Tu and Slotine 2021, Theorems 4.1, 5.1 and 5.2.

    Examples
    --------
    >>> reflectron_step(2.0, 0.25)
    0.5
    >>> reflectron_step(2.0, 0.25, theorem="5.1", rounds=100)
    0.1
    """
    longest = float(convexity / (radius**2 * weight * slope))
    if theorem == "4.1":
        return 0.5 * longest
    return longest if theorem == "5.2" else float(min(longest, 1.0 / np.sqrt(rounds)))


def reflectron_risk(
    n_samples: int,
    noise: float,
    value: float,
    complexity: float,
    slope: float,
    delta: float,
    *,
    convexity: float = 1.0,
    radius: float | None = None,
    weight: float = 1.0,
    least_weight: float = 1.0,
) -> float:
    r"""A bound on the excess risk of the best iterate of the Reflectron, of probability 1 - delta.

    .. math::
        \sqrt{\frac{8 L^2 \eta^2 \psi(\theta)}{\sigma}} + 4 R_n
        + \sqrt{\frac{8 \log(1/\delta)}{n}}

    for the flow (Theorem 3.1); with `radius` for the iteration (Theorem 4.1), where the first term
    is multiplied by (2 / gamma) (2 C^2 L B + 1) / (2 C^2 L B).

    Parameters
    ----------
    n_samples : int
    noise : float
        eta, a bound of the dual norm of the pseudogradient at the true parameters.
    value : float
        psi(theta) of the true parameters.
    complexity : float
        R_n, the Rademacher complexity of the predictors within psi(theta).
    slope : float
        L, the link's largest slope.
    delta : float
    convexity : float, default=1.0
        sigma.
    radius : float, optional
        C, the largest dual norm of a row; the flow's guarantee without it.
    weight, least_weight : float, default=1.0
        B and gamma, the largest and the smallest weight of the pseudogradient.

    References
    ----------
    Boffi, Tu and Slotine 2021, Theorems 3.1 and 4.1.

    Examples
    --------
    >>> round(reflectron_risk(10_000, 0.01, 1.0, 0.01, 0.25, 0.05), 3)
    0.096
    """
    first = np.sqrt(8.0 * value / convexity) * slope * noise
    if radius is not None:
        scale = 2.0 * radius**2 * slope * weight
        first *= 2.0 / least_weight * (scale + 1.0) / scale
    return float(first + 4.0 * complexity + np.sqrt(8.0 * np.log(1.0 / delta) / n_samples))


def reflectron_risk_norm(
    n_samples: int, norm: float, radius: float, slope: float, delta: float, *, p: float = 2.0
) -> float:
    r"""Corollary 4.1: the potential ||w||_p^2 / 2 (1 < p <= 2) and rows bounded in the dual norm.

    Parameters
    ----------
    n_samples : int
    norm : float
        W, the p-norm of the true parameters.
    radius : float
        C, the largest norm of a row with the exponent p / (p - 1).
    slope, delta : float
    p : float in (1, 2], default=2.0

    References
    ----------
    Boffi, Tu and Slotine 2021, Corollary 4.1 (whose q is this p).

    Examples
    --------
    >>> round(reflectron_risk_norm(10**6, 1.0, 1.0, 0.25, 0.05), 4)
    0.0253
    """
    s, root = p - 1.0, np.sqrt(n_samples)
    first = 4.0 * slope * norm * radius / s * (np.sqrt(2.0 * np.log(4.0 / delta) * s) + 1.0) / root
    scale = 2.0 * radius**2 * slope  # the iteration's factor over the flow, for B = 1
    first *= (scale + 1.0) / scale
    second = 4.0 * radius * norm / (root * np.sqrt(s)) * (1.0 + 1.0 / np.sqrt(s))
    return float(first + second + np.sqrt(8.0 * np.log(2.0 / delta)) / root)


def reflectron_risk_l1(
    n_samples: int,
    n_features: int,
    radius: float,
    slope: float,
    delta: float,
    *,
    norm: float | None = None,
) -> float:
    r"""Corollaries 4.2 and 4.3, corrected: rows with bounded entries, growth with log d.

    With `norm` for the potential ``PNorm("log")`` and parameters of that l1 norm (4.2); without,
    for the entropy and parameters on the simplex (4.3). It is Theorem 4.1 (`reflectron_risk`) with

    .. math:: \eta = C\,\frac{\sqrt{2 \log(4/\delta)} + \sqrt{2 \log 2d}}{\sqrt n}, \qquad
        R_n \le C W \Big(1 + \frac1{\sqrt\sigma}\Big) \sqrt{\frac{2 \log 2d}{n}}, \qquad
        \psi(\theta) \le \frac{W^2}2

    and delta/2; for the entropy R_n <= C sqrt(2 log d / n) and psi <= log d. The mean of n rows
    within C has a largest entry of at most C sqrt(2 log(2d) / n) in expectation (Hoeffding's lemma
    on 2d signed entries), the l1 ball of radius W that complexity (its 2d corners). The paper takes
    1 / (3 log d) for sigma, which is too large (see
    `tunefree.reflectron.potentials.PNorm.convexity`): here it is 1 / (e^2 (log d - 1)), and 1 / d
    up to d = 7, where the potential is the Euclidean one.

    Parameters
    ----------
    n_samples, n_features : int
    radius : float
        C, the largest entry of a row.
    slope, delta : float
    norm : float, optional
        W, the l1 norm of the true parameters.

    References
    ----------
    Boffi, Tu and Slotine 2021, Corollaries 4.2 and 4.3.

    Examples
    --------
    >>> round(reflectron_risk_l1(10**6, 1000, 1.0, 0.25, 0.05), 3)
    0.097
    """
    root, corners = np.sqrt(n_samples), np.sqrt(2.0 * np.log(2.0 * n_features))
    noise = radius * (np.sqrt(2.0 * np.log(4.0 / delta)) + corners) / root
    value, sigma = np.log(n_features), 1.0
    complexity = radius * np.sqrt(2.0 * np.log(n_features)) / root
    if norm is not None:
        value, (sigma, p) = 0.5 * norm**2, PNorm("log").convexity(n_features)
        sigma = sigma if p == 1.0 else sigma / n_features
        complexity = radius * norm * (1.0 + 1.0 / np.sqrt(sigma)) * corners / root
    return reflectron_risk(
        n_samples, noise, value, complexity, slope, delta / 2.0, convexity=sigma, radius=radius
    )


def reflectron_realizable(
    rounds: int,
    radius: float,
    slope: float,
    divergence: float,
    *,
    convexity: float = 1.0,
    step: float | None = None,
) -> float:
    r"""Training risk of noiseless data after T steps of a fixed length.

    .. math:: \min_{t \le T} \hat\varepsilon(h_t) \le
        \frac{L\, d_\psi(\theta, \theta_1)}{\lambda T (1 - \lambda L C^2 / (2 \sigma))}

    It is the sum of the decrease of the divergence in the proof of Lemma 4.1; the step
    sigma / (C^2 L), which makes it smallest, is the default.

    Parameters
    ----------
    rounds : int
        T.
    radius, slope : float
        C and L.
    divergence : float
        From the true parameters to the start.
    convexity : float, default=1.0
        sigma.
    step : float, optional
        lambda < 2 sigma / (C^2 L).

    Raises
    ------
    ValueError
        If the step is too long for a guarantee.

    References
    ----------
    Boffi, Tu and Slotine 2021, Lemma 4.1 and appendix C.5.

    Examples
    --------
    >>> reflectron_realizable(100, 1.0, 0.25, 8.0)
    0.01
    """
    best = convexity / (radius**2 * slope)
    step = best if step is None else step
    left = 1.0 - step / (2.0 * best)
    if not 0.0 < left < 1.0:
        raise ValueError(f"step={step!r} is not between 0 and {2.0 * best:g}.")
    return float(slope * divergence / (step * rounds * left))


def reflectron_stochastic(
    rounds: int,
    radius: float,
    slope: float,
    divergence: float,
    delta: float,
    *,
    convexity: float = 1.0,
    share: float = 0.5,
) -> float:
    r"""Theorem 5.2: risk of the best of T stochastic steps on noiseless data, with its constants.

    .. math:: \frac{L^2 C^2 d_\psi(\theta, \theta_1)}{\sigma (3 - e) T}
        \left(\log\frac1\delta + \frac{1}{2 (1 - \beta) \beta}\right)

    for the step 2 (1 - beta) sigma / (L C^2), GLM-tron's weight, and half the squared error.

    Parameters
    ----------
    rounds : int
    radius, slope : float
        C and L.
    divergence : float
    delta : float
    convexity : float, default=1.0
        sigma.
    share : float in (0, 1), default=0.5
        beta.

    References
    ----------
    Boffi, Tu and Slotine 2021, Theorem 5.2 and appendix C.8.

    Examples
    --------
    >>> round(reflectron_stochastic(10_000, 1.0, 0.25, 8.0, 0.05), 5)
    0.00089
    """
    factor = slope**2 * radius**2 * divergence / (convexity * (3.0 - np.e) * rounds)
    return float(factor * (np.log(1.0 / delta) + 1.0 / (2.0 * (1.0 - share) * share)))


def reflectron_stochastic_noisy(
    rounds: int,
    radius: float,
    slope: float,
    divergence: float,
    diameter: float,
    delta: float,
    *,
    convexity: float = 1.0,
    weight: float = 1.0,
    least_weight: float = 1.0,
    share: float = 0.5,
) -> float:
    r"""Theorem 5.1: risk of the best of T stochastic steps on noisy targets in [0, 1].

    .. math::
        \frac{1}{2 (3 - e) T} \Big( b \log\frac3\delta + \frac{L}{\bar\beta\gamma} \Big[
        \frac{d_\psi(\theta, \theta_1)}{\lambda}
        + \Big(C B R + \frac{\lambda C^2 B^2}{\sigma} \sqrt b\Big) \sqrt{2 T \log\frac3\delta}
        + \frac{\lambda C^2 B^2 T}{2 \sigma} \Big] \Big)

    with lambda = min(2 (1 - beta) sigma / (C^2 L B), 1 / sqrt(T)),
    beta-bar = 1 - lambda L C^2 B / (2 sigma) and b = min(1, (L C R)^2), for half the squared error.
    It is the proof of appendix C.7 with the constants of its inequalities: Azuma's is
    c sqrt(2 T log(1 / delta)) for differences up to c (the paper has sqrt(c T log(1 / delta))), and
    the squared differences are up to (L C R)^2 (the paper has L^2 C^2 R).

    Parameters
    ----------
    rounds : int
        T.
    radius, slope : float
        C, the largest dual norm of a row, and L.
    divergence : float
        From the true parameters to the start.
    diameter : float
        R, of the constraint, in the potential's norm.
    delta : float
    convexity : float, default=1.0
        sigma.
    weight, least_weight : float, default=1.0
        B and gamma, the largest and the smallest weight of the pseudogradient.
    share : float in (0, 1), default=0.5
        beta.

    References
    ----------
    Boffi, Tu and Slotine 2021, Theorem 5.1 and appendix C.7.

    Examples
    --------
    >>> round(reflectron_stochastic_noisy(10**6, 1.0, 0.25, 0.5, 2.0, 0.05), 4)
    0.003
    """
    longest = 2.0 * (1.0 - share) * convexity / (radius**2 * slope * weight)
    step = min(longest, 1.0 / np.sqrt(rounds))
    left = 1.0 - step * slope * radius**2 * weight / (2.0 * convexity)
    most, log = min(1.0, (slope * radius * diameter) ** 2), np.log(3.0 / delta)
    drift = step * radius**2 * weight**2 / convexity
    noise = (radius * weight * diameter + drift * np.sqrt(most)) * np.sqrt(2.0 * rounds * log)
    regret = slope / (left * least_weight) * (divergence / step + noise + 0.5 * drift * rounds)
    return float((most * log + regret) / (2.0 * (3.0 - np.e) * rounds))
