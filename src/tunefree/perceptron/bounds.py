r"""How many rounds and mistakes separation takes.

Hanashiro and Abernethy, "Linear Separation via Optimism"; Novikoff 1962.
"""

import numpy as np


def separation_budget(
    radius: float,
    margin: float,
    n_samples: int | None = None,
    *,
    divergence: float | None = None,
    convexity: float = 1.0,
) -> float:
    r"""Rounds after which the averaged Optimistic Perceptron separates.

    The averaged vector separates for every T > r sqrt(2 H / lambda) / gamma, where H is the largest
    divergence from p_0: log n for the entropy and the uniform p_0. It is Theorem 3 with the best
    comparator c w*, minimised over c; unlike the paper's (1 + 2 r^2 log n) / (2 gamma) it does not
    change with the scale of the data.

    Parameters
    ----------
    radius : float
        r, the norm of the longest row.
    margin : float
        gamma > 0, the margin of some separator.
    n_samples : int, optional
        Number of rows n; H = log n.
    divergence : float, optional
        H itself, for another potential or p_0.
    convexity : float, default=1.0
        lambda, strong convexity of the potential in the 1-norm.

    Raises
    ------
    ValueError
        If `margin` is not positive, or neither or both of `n_samples`, `divergence` are given.

    References
    ----------
    Hanashiro and Abernethy, "Linear Separation via Optimism", Theorem 3.

    Examples
    --------
    >>> round(separation_budget(radius=1.0, margin=0.01, n_samples=1000), 1)
    371.7
    """
    if not margin > 0.0:
        raise ValueError(f"margin={margin!r} is not positive.")
    if (n_samples is None) == (divergence is None):
        raise ValueError("Give either n_samples or divergence.")
    h = np.log(n_samples or 0) if divergence is None else divergence
    return float(radius * np.sqrt(2.0 * h / convexity) / margin)


def game_gap(rounds: int, radius: float, divergence: float, convexity: float = 1.0) -> float:
    r"""The right-hand side of Theorem 3: (lambda + 2 H r^2) / (2 lambda T).

    It bounds min_p p' M_w* - min_p p' mean_t M_w_t for a unit vector w*, the step lambda / r^2, and
    the vectors w_t of Algorithm 1.

    Parameters
    ----------
    rounds : int
        T.
    radius : float
        r, the norm of the longest row.
    divergence : float
        H, the largest divergence from p_0 (log n for the entropy and the uniform p_0).
    convexity : float, default=1.0
        lambda, strong convexity of the potential in the 1-norm.

    References
    ----------
    Hanashiro and Abernethy, "Linear Separation via Optimism", Theorem 3, equation 6.

    Examples
    --------
    >>> game_gap(rounds=10, radius=2.0, divergence=1.0)
    0.45
    """
    return float((convexity + 2.0 * divergence * radius**2) / (2.0 * convexity * rounds))


def perceptron_mistakes(radius: float, margin: float) -> float:
    r"""Novikoff's bound on the updates of the classical Perceptron, (r / gamma)^2.

    Parameters
    ----------
    radius : float
        r, the norm of the longest row.
    margin : float
        gamma > 0, the margin of some separator.

    References
    ----------
    Novikoff 1962.

    Examples
    --------
    >>> perceptron_mistakes(radius=1.0, margin=0.5)
    4.0
    """
    if not margin > 0.0:
        raise ValueError(f"margin={margin!r} is not positive.")
    return float((radius / margin) ** 2)
