r"""Regret bounds of PiSTOL: its losses less those of the best competitor.

Orabona 2014, "Simultaneous model selection and optimization through parameter-free stochastic
learning".

What is proved, and for which rule:

- b fixed (the settings "theorem-1", and "paper" but for its a): Theorem 1, for a >= 2.25 L;
- b sqrt(alpha) in place of b (the setting "guaranteed"): `pistol_regret_root`, for a >= 2.25 L;
- nothing for a = L / 8 (the paper's experiments), for a = 1/4 (the setting "global"), for variances
  that grow with squared gradients (the default), or for DoWG on an unbounded domain.

Each proof needs one scalar inequality, which was checked on a grid; `phi` is the constant for which
the paper proves its own.
"""

import numpy as np

# For a / L of at least the first number: the smallest phi of the paper's inequality (19), and the
# smallest k of `pistol_regret_root`, both found on a grid and rounded up.
_SHARP = ((2.25, 0.51, 4.50), (2.5, 0.38, 2.55), (3.0, 0.29, 1.70), (4.0, 0.21, 1.35))


def _sharp(a, lipschitz):
    rows = [row for row in _SHARP if a >= row[0] * lipschitz]
    if not rows:
        raise ValueError(f"a={a!r} is below 2.25 times lipschitz={lipschitz!r}.")
    return rows[-1][1:]


def phi(x: float) -> float:
    r"""The constant of Theorem 1, as stated: x/2 c^2 / (1 - x e^(x/2) - x), c = e^(x/2) (x+1) + 2.

    The proof has another one, x/2 c exp(x/2 c / (1 - x e^(x/2) - x)) (its equation 18), which at
    x = 1 / 2.25 is beyond 10^600. Neither is tight: the proof only needs inequality 19, which holds
    with 0.51 there (see ``sharp`` in `pistol_regret`).

    Parameters
    ----------
    x : float
        L / a, at most 1 / 2.25.

    References
    ----------
    Orabona 2014, Theorem 1.

    Examples
    --------
    >>> round(phi(1 / 2.25)), round(phi(1 / 3), 1)
    (6285, 7.8)
    """
    c = np.exp(x / 2) * (x + 1) + 2
    return float(x / 2 * c * c / (1 - x * np.exp(x / 2) - x))


def pistol_regret(
    norm: float,
    slopes: float,
    rounds: int,
    *,
    a: float,
    b: float,
    lipschitz: float,
    sharp: bool = False,
) -> float:
    r"""Theorem 1: the largest regret of PiSTOL (Algorithm 3) against a competitor h.

    ||h|| sqrt(2 a (L + S) log(||h|| sqrt(a L T) / b + 1)) + b phi(L / a) log(1 + T).

    Parameters
    ----------
    norm : float
        ||h||.
    slopes : float
        S, the sum of \|s_t\| ||x_t|| over the rounds before the last, for rows with ||x_t|| <= 1
        and the largest norm taken as 1 from the start.
    rounds : int
        T.
    a, b, lipschitz : float
        Parameters of the algorithm, a >= 2.25 L.
    sharp : bool, default=False
        With the constant of inequality 19 found on a grid in place of phi, S / L in place of T and
        a (L + S) in place of a L T, all of which the proof allows; then S runs over all rounds.

    Raises
    ------
    ValueError
        If a < 2.25 L.

    References
    ----------
    Orabona 2014, Theorem 1.

    Examples
    --------
    >>> round(pistol_regret(1.0, 50.0, 100, a=3.0, b=1.0, lipschitz=1.0), 1)
    65.9
    >>> round(pistol_regret(1.0, 50.0, 100, a=3.0, b=1.0, lipschitz=1.0, sharp=True), 1)
    29.3
    """
    constant, _ = _sharp(a, lipschitz)
    if sharp:
        alpha = a * (lipschitz + slopes)
        leading = norm * np.sqrt(2 * alpha * np.log1p(norm * np.sqrt(alpha) / b))
        return float(leading + b * constant * np.log1p(slopes / lipschitz))
    logarithm = np.log1p(norm * np.sqrt(a * lipschitz * rounds) / b)
    leading = norm * np.sqrt(2 * a * (lipschitz + slopes) * logarithm)
    return float(leading + b * phi(lipschitz / a) * np.log1p(rounds))


def pistol_regret_coordinates(
    largest: float,
    slopes: np.ndarray,
    rounds: int,
    *,
    a: float,
    lipschitz: float,
    sharp: bool = False,
) -> float:
    r"""Corollary 3: the largest regret of PiSTOL per coordinate, with b = 1 / d, against u.

    The sum over coordinates of Theorem 1, each with \|u_i\| <= ||u||_inf and its own S_i.

    Parameters
    ----------
    largest : float
        ||u||_inf.
    slopes : ndarray of shape (d,)
        S_i, the sum of \|s_t x_(t,i)\| over the rounds before the last, for \|x_(t,i)\| <= 1.
    rounds : int
        T.
    a, lipschitz : float
        Parameters of the algorithm, a >= 2.25 L.
    sharp : bool, default=False
        See `pistol_regret`.

    References
    ----------
    Orabona 2014, Corollary 3.

    Examples
    --------
    >>> slopes = np.array([50.0, 0.0])
    >>> round(pistol_regret_coordinates(1.0, slopes, 100, a=3.0, lipschitz=1.0), 1)
    73.7
    """
    b = 1.0 / len(slopes)
    return sum(
        pistol_regret(largest, s, rounds, a=a, b=b, lipschitz=lipschitz, sharp=sharp)
        for s in slopes
    )


def pistol_regret_smooth(
    norm: float,
    loss: float,
    rounds: int,
    *,
    a: float,
    b: float,
    lipschitz: float,
    smoothness: float,
) -> float:
    r"""Corollary 1 with the constants of its proof: the regret for H-smooth losses.

    B + ||h|| T^(1/4) C max((2 ||h|| T^(1/4) C)^(1/3), 2^(1/4) (F + B + L^2 / 4H)^(1/4)), where
    F is the loss of h, B = b phi(L / a) log(1 + T) and
    C = sqrt(2 a sqrt(4 H) log(||h|| sqrt(a L T) / b + 1)).

    Parameters
    ----------
    norm : float
        ||h||.
    loss : float
        F, the sum of the losses of h.
    rounds : int
        T.
    a, b, lipschitz : float
        Parameters of the algorithm, a >= 2.25 L.
    smoothness : float
        H, the Lipschitz bound of the losses' slope.

    References
    ----------
    Orabona 2014, Corollary 1 and appendix D.4.

    Examples
    --------
    >>> arguments = dict(a=6.0, b=1.0, lipschitz=2.0, smoothness=2.0)
    >>> round(pistol_regret_smooth(1.0, 10.0, 1000, **arguments), 1)
    424.8
    """
    logarithm = np.log1p(norm * np.sqrt(a * lipschitz * rounds) / b)
    c = np.sqrt(2 * a * np.sqrt(4 * smoothness) * logarithm)
    rest = b * phi(lipschitz / a) * np.log1p(rounds)
    slope = norm * rounds**0.25 * c
    level = 2 * (loss + rest + lipschitz**2 / (4 * smoothness))
    return float(rest + slope * max((2 * slope) ** (1 / 3), level**0.25))


def pistol_regret_seen(
    norm: float, alpha: float, growth: float, *, a: float, b: float, lipschitz: float, root: bool
) -> float:
    r"""The largest regret of a run against h, from the sums that it stored.

    Our learners track the largest norm X instead of knowing it. With alpha = A / X, where
    A = a L X + a sum \|s_t\| ||x_t||:

    - b fixed: n sqrt(2 alpha log(1 + n sqrt(alpha) / b)) + b c V, V = sum of (A' - A) / A';
    - b sqrt(alpha): n sqrt(2 alpha log(1 + n / b)) + b (k V + sqrt(a L) - sqrt(alpha)),
      V = sum of (sqrt(A') - sqrt(A)) / sqrt(X),

    where A' is A after the gradient of a row, n = ||h|| X, and c and k are the constants of
    `pistol_regret` (``sharp``) and `pistol_regret_root`. With X = 1 from the start, the second
    equals `pistol_regret_root`, and the first is at most `pistol_regret`. A growing X costs
    nothing: the potentials b exp(||g||^2 / 2 A X) and b sqrt(A / X) exp(||g||^2 / 2 A X), whose
    gradients are the predictors, fall as X grows, and at any X the sums are those of Algorithm 3
    on rows with norms up to 1.

    Parameters
    ----------
    norm : float
        n, ||h|| times the largest norm of a row.
    alpha, growth : float
        alpha and V after the last row.
    a, b, lipschitz : float
        Parameters of the algorithm, a >= 2.25 L.
    root : bool
        Whether b is multiplied by sqrt(alpha).

    Raises
    ------
    ValueError
        If a < 2.25 L.

    Examples
    --------
    >>> grown = np.sqrt(153.0) - np.sqrt(3.0)
    >>> arguments = dict(a=3.0, b=1.0, lipschitz=1.0)
    >>> round(pistol_regret_seen(1.0, 153.0, grown, root=True, **arguments), 1)
    22.0
    >>> round(pistol_regret_root(1.0, 50.0, **arguments), 1)
    22.0
    """
    constant, k = _sharp(a, lipschitz)
    if root:
        rest = k * growth + np.sqrt(a * lipschitz) - np.sqrt(alpha)
        return float(norm * np.sqrt(2 * alpha * np.log1p(norm / b)) + b * rest)
    leading = norm * np.sqrt(2 * alpha * np.log1p(norm * np.sqrt(alpha) / b))
    return float(leading + b * constant * growth)


def pistol_regret_root(
    norm: float, slopes: float, *, a: float, b: float, lipschitz: float
) -> float:
    r"""The regret of PiSTOL with b sqrt(alpha_t) in place of b: no logarithm of T.

    With alpha = a (L + S): ||h|| sqrt(2 alpha log(1 + ||h|| / b)) + b (k - 1) (sqrt(alpha) -
    sqrt(a L)). The potential is b sqrt(alpha) (exp(||g||^2 / 2 alpha) - k). That it never grows by
    more than <f, step> was checked on a grid for k = 4.50, 2.55, 1.70, 1.35 at a = 2.25, 2.5, 3,
    4 L; the rest of the proof is complete. It holds for the setting "guaranteed" (a = 3 L); the a
    of "global" and of the default (1/4 and 1) are too small.

    Parameters
    ----------
    norm : float
        ||h||.
    slopes : float
        S, the sum of \|s_t\| ||x_t|| over all rounds, for ||x_t|| <= 1 and the largest norm taken
        as 1 from the start.
    a, b, lipschitz : float
        Parameters of the algorithm, a >= 2.25 L.

    Raises
    ------
    ValueError
        If a < 2.25 L.

    Examples
    --------
    >>> round(pistol_regret_root(1.0, 50.0, a=3.0, b=1.0, lipschitz=1.0), 1)
    22.0
    """
    _, k = _sharp(a, lipschitz)
    alpha = a * lipschitz + a * slopes
    start = a * lipschitz
    leading = norm * np.sqrt(2 * alpha * np.log1p(norm / b))
    return float(leading + b * (k - 1) * (np.sqrt(alpha) - np.sqrt(start)))


def run_regret(run, norms) -> float:
    """The sum over a run's outputs of `pistol_regret_seen` against competitors of these norms.

    Raises
    ------
    ValueError
        If the proof does not cover the run.
    """
    if not np.isfinite(run.growth).all():
        raise ValueError(
            "Nothing is proved about this run: a visit weighed more than 1, or the bound of "
            "the loss's slope increased."
        )
    if run.largest == 0.0:
        return 0.0
    constants = {"a": run.a, "b": run.b, "lipschitz": run.lipschitz, "root": run.root}
    return sum(
        pistol_regret_seen(run.largest * norm, alpha, growth, **constants)
        for norm, alpha, growth in zip(norms, run.alpha, run.growth, strict=True)
    )
