r"""Guarantees of the Reflectron in steps of one row: Theorems 5.1 and 5.2.

Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting geometry for learning generalized linear
models", section 5 and appendices C.7 and C.8.
"""

import numpy as np


def reflectron_stochastic(rounds, radius, slope, divergence, delta, *, convexity=1.0, share=0.5):
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

    Returns
    -------
    float

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
    rounds, radius, slope, divergence, diameter, delta, *, convexity=1.0, weight=1.0,
    least_weight=1.0, share=0.5,
):  # fmt: skip
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

    Returns
    -------
    float

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
