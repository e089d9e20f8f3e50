"""Implicit steps: a learner goes to the minimum of its loss plus its distance."""

import numpy as np

from tunefree.core.jit import REASSOCIATE, fast_exp, kernel, maximum, minimum


@kernel
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    e = fast_exp(-minimum(abs(x), 700.0))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@kernel
def softmax(scores, out):
    """Write the softmax of scores to `out`, which may be the scores."""
    top, total = scores[0], 0.0
    for c in range(1, len(scores)):
        top = maximum(top, scores[c])
    for c in range(len(scores)):
        out[c] = np.exp(scores[c] - top)
        total += out[c]
    for c in range(len(scores)):
        out[c] /= total


@kernel(fastmath=REASSOCIATE)
def _margin_to_start_from(a, e):
    """A margin from which Newton's method is monotone; near log e for large e."""
    start = maximum(0.0, a) if a + 0.5 * e > 0.0 else minimum(0.0, a + e)
    if e > 64.0 and start >= 0.0:
        near = np.log(e)
        near -= np.log(near)
        if near > start and near - a - e * sigmoid(-near) <= 0.0:
            return near
    return start


@kernel(fastmath=REASSOCIATE)
def implicit_margins(margins, energies, new):
    """Margins after implicit steps: the roots of t = m + E / (1 + exp(t)), by Newton's method.

    All step at the same time, so that loops vectorise.
    """
    n = len(new)
    for k in range(n):
        new[k] = _margin_to_start_from(margins[k], energies[k])
    for _ in range(60):
        moved = 0.0
        for k in range(n):
            old, energy = new[k], energies[k]
            e = fast_exp(
                -minimum(abs(old), 700.0)
            )  # p = 1 / (1 + exp(t)), p (1 - p) = e / (1 + e)^2
            d = 1.0 + e
            p = e if old >= 0.0 else 1.0
            step = ((old - margins[k]) * d - energy * p) * d / (d * d + energy * e)
            new[k] = old - step
            moved += abs(step)
        if moved <= 1e-4:  # the remaining error is of the order of its square
            break


@kernel
def implicit_scores(scores, code, E, new, probabilities):
    """The root of h' = h + E (e_code - softmax(h')), and its softmax: Newton, steps capped at 4."""
    m = len(scores)
    for c in range(m):
        new[c] = scores[c]
    for _ in range(60):
        softmax(new, probabilities)
        top, bottom, most = 0.0, 0.0, 0.0
        for c in range(m):
            p = probabilities[c]
            new[c] -= scores[c] - E * (p - (1.0 if c == code else 0.0))  # the gap
            top += p * new[c] / (1.0 + E * p)
            bottom += p / (1.0 + E * p)
        for c in range(m):
            p, gap = probabilities[c], new[c]
            step = minimum(maximum((gap + E * p * top / bottom) / (1.0 + E * p), -4.0), 4.0)
            most = maximum(most, abs(step))
            new[c] = gap + scores[c] - E * (p - (1.0 if c == code else 0.0)) - step
        if most <= 1e-6:
            break
    softmax(new, probabilities)
