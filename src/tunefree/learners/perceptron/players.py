"""Data players: how the rows answer a weight vector with a distribution over themselves.

A player answers with argmin_p <p, g> + D(p, p_{t-1}), D the divergence of its potential. The
potential may be any that is strongly convex in the 1-norm; its range decides the guarantee.

Source: Hanashiro and Abernethy, "Linear Separation via Optimism", Theorem 2 and appendix A.2.
"""

from typing import NamedTuple

import numpy as np

from tunefree._jit import fast_exp, kernel, part


@kernel
def _tilt(margins, weights, shift, out):
    """Out = weights exp(shift - margins), and its sum."""
    total = 0.0
    for i in range(margins.shape[0]):
        out[i] = weights[i] * fast_exp(max(min(shift - margins[i], 700.0), -700.0))
    for i in range(out.shape[0]):
        total += out[i]
    return total


@kernel
def project_simplex(s, q, out):
    """Out = q max(0, s - tau), the point of the simplex with the least sum (out - q s)^2 / q.

    Michelot's iteration: tau grows while rows leave the support.
    """
    top = -np.inf
    for i in range(s.shape[0]):
        if q[i] > 0.0:
            top = max(top, s[i])
    tau = -np.inf
    while True:
        mass, total = 0.0, 0.0
        for i in range(s.shape[0]):
            if s[i] - top > tau:
                mass += q[i]
                total += q[i] * (s[i] - top)
        threshold = (total - 1.0) / mass
        if not threshold > tau:
            break
        tau = threshold
    for i in range(s.shape[0]):
        out[i] = q[i] * max(0.0, s[i] - top - tau)


@part
class Entropy(NamedTuple):
    """Negative entropy, the paper's choice: D is the Kullback-Leibler divergence.

    Examples
    --------
    >>> round(Entropy().range(1 / 8), 4)  # log 8
    2.0794
    """

    streams = True

    def convexity(self):
        """Strong convexity with respect to the 1-norm."""
        return 1.0

    def range(self, least):
        """Largest divergence from a p_0 whose smallest entry is `least`."""
        return -float(np.log(least))

    def respond(self, margins, before, previous, weights, least):
        """Unnormalised p, its sum, and the exponent that is divided out."""
        out = np.empty_like(margins)
        return out, _tilt(margins, weights, least, out), least

    def divergence(self, drop, log_ratio, memory):
        """D(p_t, p_{t-1}) from a <p_t, Z w_t> and log(mass_t / mass_{t-1})."""
        return -drop - log_ratio


@part
class Euclidean(NamedTuple):
    """Half the squared distance in units of p_0: D(p, p') = sum (p - p')^2 / (2 p_0).

    Strongly convex with lambda = 1 in the 1-norm, as the entropy, but its range is (n - 1) / 2
    instead of log n. It needs all rows in one block.

    Examples
    --------
    >>> Euclidean().range(1 / 8)
    3.5
    """

    streams = False

    def convexity(self):
        """Strong convexity with respect to the 1-norm."""
        return 1.0

    def range(self, least):
        """Largest divergence from a p_0 whose smallest entry is `least`."""
        return 0.5 * (1.0 / least - 1.0)

    def respond(self, margins, before, previous, weights, least):
        """p, its sum, and the exponent that is divided out (none)."""
        out, prior = np.empty_like(margins), weights / weights.sum()
        density = np.divide(previous, prior, out=np.ones_like(prior), where=prior > 0.0)
        project_simplex(density - (margins - before), prior, out)
        return out, float(out.sum()), 0.0

    def divergence(self, drop, log_ratio, memory):
        """D(p_t, p_{t-1}) from the two vectors; rows without a weight never move."""
        move = memory.answer - memory.p
        return 0.5 * float(np.sum(move * move / np.where(memory.prior > 0.0, memory.prior, 1.0)))


PLAYERS = {"entropy": Entropy(), "euclidean": Euclidean()}
