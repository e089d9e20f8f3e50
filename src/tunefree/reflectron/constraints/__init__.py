r"""Constraints: convex sets, and Bregman projections onto them.

``project(dual, potential)`` returns the point of the set that is nearest to potential.inverse(dual)
in the potential's divergence, and the dual of that point. The dual is the state of the learner: it
is shrunk or clipped, never recomputed from the point.

============  ==============================  ==================================================
name          set                             rule: the new dual is
============  ==============================  ==================================================
l1            sum |x| <= radius               w shrunk towards 0 by a constant
l2, lp        ||x||_p <= radius               w scaled, or v with v + mu |x(v)|^(p-1) = |w|
simplex       x >= 0, sum x = total           (w - nu)+; w - nu for the entropy
non-negative  x >= 0                          w+
box           low <= x <= high                w clipped
bounds        low_j <= x_j <= high_j          w clipped
nuclear       sum of singular values          the l1 rule on singular values
Schatten      ||singular values||_p           the lp rule on singular values
============  ==============================  ==================================================

The shrinking rule is the optimality condition grad psi(x) = w - tau s, s in d||x||_1, for every
potential whose gradient keeps signs and zeros, separable or not. ||x(tau)||_1 decreases in tau, so
only a one-dimensional root must be found. For half a squared p-norm every rule of separable
potentials needs one more root, that of the norm itself (`rules.by_norm`).

Source: Boffi, Tu and Slotine 2021, eq. 8; Michelot 1986 and Duchi et al. 2008 for the l1 ball; the
p-norm's rule is this library's.
"""

from tunefree.core.parts import PartTable
from tunefree.reflectron.constraints.balls import L1Ball, L2Ball, LpBall
from tunefree.reflectron.constraints.orthants import Bounds, Box, Monotone, NonNegative, Simplex
from tunefree.reflectron.constraints.spectral import NuclearBall, SchattenBall

__all__ = [
    "CONSTRAINTS",
    "Bounds",
    "Box",
    "L1Ball",
    "L2Ball",
    "LpBall",
    "Monotone",
    "NonNegative",
    "NuclearBall",
    "SchattenBall",
    "Simplex",
]

CONSTRAINTS = PartTable(
    "constraint",
    "project",
    {
        "l1": L1Ball(),
        "l2": L2Ball(),
        "lp": LpBall(1.5),
        "simplex": Simplex(),
        "non_negative": NonNegative(),
        "box": Box(),
        "bounds": Bounds(),
        "nuclear": NuclearBall(),
        "schatten": SchattenBall(1.5),
    },
)
