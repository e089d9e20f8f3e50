r"""Potentials: strictly convex functions whose gradients are mirror maps.

The learner keeps the dual w = grad psi(theta). The potential maps it to a predictor, and so decides
which of the many predictors that fit the data is found.

==============  ===============================  ===================================  ==========
name            psi(x)                           inverse(w) = grad psi*(w)            convexity
==============  ===============================  ===================================  ==========
euclidean       ||x||_2^2 / 2                    w                                    1 (l2)
p-norm          ||x||_p^2 / 2, 1 < p <= 2        ||w||_q^(2-q) sign(w) |w|^(q-1)      p - 1 (lp)
hypentropy      sum x asinh(x/b) - sqrt(x2+b2)   b sinh(w)                            1/(R+d b)
entropy         sum x log x, on the simplex      softmax(w)                           1 (l1)
power           sum |x|^q, q > 1                 sign(w) (|w|/q)^(1/(q-1))            -
spectral        any of these, of singular values the same, on singular values         -
grouped         any separable one, of groups' norms      the same, of groups' norms           -
whitened        x' (C + a I) x / 2               (C + a I)^-1 w                       -
==============  ===============================  ===================================  ==========

A potential acts on an array of any shape as a whole. Constraints read three of its attributes:
`separable` (a sum over entries), `odd` (its gradient keeps signs and zeros) and `simplex` (it is
defined on the simplex). Two verbs are optional: ``l1_shrink``, the projection onto an l1 ball in
closed form, and ``metric_solve(x, g)``, the inverse Hessian of psi at x times g, for the
natural-gradient flow.

Source: Boffi, Tu and Slotine 2021, section 6 and corollaries 4.1-4.3; Boffi and Slotine 2020, B.2.
"""

from tunefree.core.parts import PartTable
from tunefree.reflectron.potentials.entropy import Entropy
from tunefree.reflectron.potentials.grouped import Grouped
from tunefree.reflectron.potentials.spectral import Spectral
from tunefree.reflectron.potentials.vectors import Euclidean, Hypentropy, PNorm, Potential, Power
from tunefree.reflectron.potentials.whitened import Whitened

__all__ = [
    "POTENTIALS",
    "Entropy",
    "Euclidean",
    "Grouped",
    "Hypentropy",
    "PNorm",
    "Potential",
    "Power",
    "Spectral",
    "Whitened",
]

POTENTIALS = PartTable(
    "potential",
    "inverse",
    {
        "euclidean": Euclidean(),
        "p_norm": PNorm(),
        "log_norm": PNorm("log"),
        "hypentropy": Hypentropy(),
        "entropy": Entropy(),
        "power": Power(),
        "spectral": Spectral(),
        "whitened": Whitened(),
        "grouped": Grouped(),
    },
)
