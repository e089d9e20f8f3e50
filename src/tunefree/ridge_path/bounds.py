r"""The guarantee of geometric averaging as a number; also in `tunefree.bounds`.

Neu and Rosasco 2018, "Iterate averaging as regularization for stochastic gradient descent".
"""

import numpy as np


def geometric_excess_risk(
    covariance: np.ndarray,
    gap: np.ndarray,
    steps: int,
    *,
    step: float,
    penalty: float,
    noise: float,
    radius: float | None = None,
) -> float:
    r"""Excess risk of geometrically averaged least-squares SGD, in expectation.

    With L = lambda + 1 / (eta (n + 1)), the average of w_0 .. w_n with weights (1 + eta lambda)^-t
    has E ||S^(1/2) (w - w*)||^2 <=

    - additive noise: L^2 ||S^(1/2) (S + lambda)^-1 (w_0 - w*)||^2
      + eta L sigma^2 tr[S^2 (S + lambda)^-2];
    - SGD: 2 L^2 (||S^(1/2) (S + lambda)^-1 (w_0 - w*)||^2
      + eta R^2 / (2 - eta R^2) ||w_0 - w*||^2 / (4 lambda))
      + 4 / (2 - eta R^2) eta L sigma^2 tr[S^2 (S + lambda)^-2].

    The constants are ours: those in the paper's text are missing. The proof is theirs, with the
    exact factor 1 / (eta q (lambda + s)) of each eigenvalue s, the stationary covariance
    eta sigma^2 / (2 - eta R^2) of the noise, and the energy that the start loses to the rows.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        S = E[x x'].
    gap : ndarray of shape (d,)
        w_0 - w*.
    steps : int
        n.
    step : float
        eta: at most 1 / (2 R^2), with additive noise at most 1 / ||S||.
    penalty : float
        lambda > 0.
    noise : float
        sigma: the noise times x has a second moment of at most sigma^2 S.
    radius : float, optional
        R with E[||x||^2 x x'] <= R^2 S; None for additive noise (S is known).

    Raises
    ------
    ValueError
        If the step is too large or the penalty is not positive.

    References
    ----------
    Neu and Rosasco 2018, Theorem 3; Proposition 10 for additive noise.

    Examples
    --------
    >>> arguments = dict(step=0.1, penalty=0.01, noise=0.5)
    >>> round(geometric_excess_risk(np.eye(2), np.ones(2), 1000, **arguments), 4)
    0.0018
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)
    largest = 1.0 / values[-1] if radius is None else 0.5 / radius**2
    if not 0.0 < step <= largest * (1.0 + 1e-12):
        raise ValueError(f"step={step!r} is not in (0, {largest:.3g}].")
    if not penalty > 0.0:
        raise ValueError(f"penalty={penalty!r} is not positive.")
    level = penalty + 1.0 / (step * (steps + 1))
    square = np.square(vectors.T @ gap)
    bias = float(np.sum(values / np.square(values + penalty) * square))
    spread = step * level * noise**2 * float(np.sum(np.square(values / (values + penalty))))
    if radius is None:
        return level**2 * bias + spread
    ratio = step * radius**2
    start = ratio / (2.0 - ratio) * float(square.sum()) / (4.0 * penalty)
    return 2.0 * level**2 * (bias + start) + 4.0 / (2.0 - ratio) * spread
