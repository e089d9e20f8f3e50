r"""The pseudogradient: residual times weight, of every row.

.. math:: g = \frac1n \sum_i \xi(s_i)\,(u(s_i) - y_i)\, x_i, \qquad s_i = \langle\theta, x_i\rangle

xi = 1 is GLM-tron's: the gradient of the convex matching loss. xi = u' is the gradient of the
(non-convex) square loss, ordinary mirror descent. Any other nonnegative function may be given.

Source: Boffi, Tu and Slotine 2021, eq. 5-8.
"""

import numpy as np


def residuals(link, weight, margins, targets):
    """xi(s) (u(s) - y) and the squared residuals; xi is 1 (None), the link's slope, or a function.

    Examples
    --------
    >>> from tunefree.links import Logistic
    >>> residuals(Logistic(), None, np.zeros(1), np.ones(1))
    (array([-0.5]), array([0.25]))
    """
    r = link.mean(margins) - targets
    if weight is None:
        return r, r * r
    xi = link.slope(margins) if isinstance(weight, str) else weight(margins)
    return xi * r, r * r


def check_increasing(link):
    """Refuse a link that decreases or is not finite somewhere on a grid of [-30, 30].

    Examples
    --------
    >>> from tunefree.links import Tanh
    >>> check_increasing(Tanh())
    """
    u = np.asarray(link.mean(np.linspace(-30.0, 30.0, 601)), dtype=float)
    if not np.isfinite(u).all() or (np.diff(u) < -1e-12 * np.abs(u).max()).any():
        raise ValueError(
            f"The link {link!r} decreases, or is not finite, between -30 and 30: give a "
            "nondecreasing one (for a decreasing link, change the sign of the features)."
        )


# The clock of a stochastic run: rounds, the average's mass, the discounted squared error of
# predictions made before rows were learned, its weight, and the round at which to halve these two.
ROUNDS, MASS, RISK, WEIGHT, HALF = 0, 1, 2, 3, 4


def fresh_clock():
    """The clock before the first round."""
    return np.array([0.0, 0.0, 0.0, 0.0, 64.0])
