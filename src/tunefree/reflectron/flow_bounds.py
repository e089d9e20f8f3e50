r"""Guarantees of the Reflectron as a flow in continuous time, with one output or several.

Boffi and Slotine 2020, "The Reflectron: Exploiting geometry for learning generalized linear
models" (continuous-time version), Theorems 3.1, 4.2 and D.2. The theorems are stated with O(...);
the constants here are those of appendix C.
"""

import numpy as np


def reflectron_flow_risk(
    n_samples: int,
    norm: float,
    radius: float,
    slope: float,
    delta: float,
    *,
    n_outputs: int = 1,
    row_radius: float | None = None,
    training: bool = False,
) -> float:
    r"""The squared error that the flow attains at some time, with probability 1 - delta.

    On the rows learned from it is 2 L C W sqrt(n) eta with
    eta = 2 (1 + sqrt(log(2 / delta) / 2)) / sqrt(m); on fresh rows it is larger by at most

    .. math:: 4 K + 2 n \sqrt{\frac2m \log\frac2\delta}, \qquad
        K = \frac{8 L C W}{\sqrt m}, \quad
        \frac{8 \sqrt2\, n^{3/2} L C_r W}{\sqrt m}, \quad
        \frac{4 \sqrt2\, n L C W}{\sqrt m}

    for one output (Theorem 3.1), for n outputs that share their parameters (4.2, with
    `row_radius`) and for n outputs that do not (D.2).

    Parameters
    ----------
    n_samples : int
        m.
    norm : float
        W: the divergence from 0 to the true parameters is at most sigma W^2 / 2.
    radius : float
        C, the largest norm of a row's features (of their matrix, if parameters are shared).
    slope : float
        L, the largest slope of the links.
    delta : float
    n_outputs : int, default=1
        n.
    row_radius : float, optional
        C_r, the largest norm of one output's features, where outputs share their parameters.
    training : bool, default=False
        The error on the rows learned from.

    References
    ----------
    Boffi and Slotine 2020, Theorems 3.1, 4.2 and D.2; Lemma C.1 and Theorems C.1-C.5. A squared
    error over [0, 1]^n is at most n and 2 sqrt(n)-Lipschitz (the paper has sqrt(n) for both).

    Examples
    --------
    >>> round(reflectron_flow_risk(10**6, 1.0, 1.0, 0.25, 0.05, training=True), 5)
    0.00236
    >>> round(reflectron_flow_risk(10**6, 1.0, 1.0, 0.25, 0.05), 3)
    0.016
    """
    root, log = np.sqrt(n_samples), np.log(2.0 / delta)
    size = slope * norm / root
    learned = 2.0 * np.sqrt(n_outputs) * radius * size * _concentration(log)
    if training:
        return float(learned)
    if row_radius is not None:
        complexity = 8.0 * np.sqrt(2.0) * n_outputs**1.5 * row_radius * size
    elif n_outputs == 1:
        complexity = 8.0 * radius * size
    else:
        complexity = 4.0 * np.sqrt(2.0) * n_outputs * radius * size
    return float(learned + 4.0 * complexity + 2.0 * n_outputs * np.sqrt(2.0 * log) / root)


def reflectron_flow_time(
    n_samples: int,
    norm: float,
    radius: float,
    delta: float,
    *,
    n_outputs: int = 1,
    convexity: float = 1.0,
) -> float:
    r"""The time before which the flow attains `reflectron_flow_risk`: sigma W / (2 C sqrt(n) eta).

    Parameters
    ----------
    n_samples : int
    norm, radius, delta : float
    n_outputs : int, default=1
    convexity : float, default=1.0
        sigma.

    References
    ----------
    Boffi and Slotine 2020, proofs of Theorems 3.1, 4.2 and D.2.

    Examples
    --------
    >>> round(reflectron_flow_time(10_000, 1.0, 1.0, 0.05), 2)
    10.6
    """
    eta = _concentration(np.log(2.0 / delta)) / np.sqrt(n_samples)
    return float(convexity * norm / (2.0 * radius * np.sqrt(n_outputs) * eta))


def _concentration(log):
    """Lemma C.1: the norm of a mean of m vectors within the unit ball is this over sqrt(m)."""
    return 2.0 * (1.0 + np.sqrt(log / 2.0))
