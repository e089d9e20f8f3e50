"""How fast a stream forgets, and the trace of its errors."""

import numpy as np

from tunefree._jit import kernel
from tunefree.learners.mixture.members import LEAST_CURVATURE
from tunefree.learners.mixture.state import (
    DRIFTS,
    N_BAYES,
    N_FILTERS,
    N_LINES,
    N_MEMBERS,
    RATES,
    WINDOW,
    copy_to,
)

# Most points of the trace; the numbers of a point: rows, half-life, errors, loss, members' losses.
MOST_POINTS, POINT = 256, 4 + N_MEMBERS


@kernel
def half_life(state):
    """After how many rows what was learned counts half: a mean of members by the posteriors."""
    now, learned = state.numbers[0], state.learned[0]
    weight, total, t = 0.0, 0.0, max(now.rows, 1.0)
    curvature = 1.0 if state.real else max(now.curvature, LEAST_CURVATURE)
    for k in range(N_MEMBERS):
        rows = t
        if k >= N_LINES:
            rows = 0.5 * WINDOW
        elif k >= N_FILTERS:
            rows = np.log(2.0) * now.norm / (RATES[k - N_FILTERS] * curvature)
        elif DRIFTS[k] > 0.0:
            rows = np.log(2.0) / np.sqrt(DRIFTS[k] * curvature)
        for a in range(N_BAYES):
            posterior = learned.final[a] * learned.posteriors[a, k]
            weight += posterior
            total += posterior * np.log(min(max(rows, 1.0), t))
    return np.exp(total / weight)


@kernel
def record_point(state, trace):
    """Add a point to the trace; where it is full, drop every other point."""
    now = state.numbers[0]
    if now.rows % now.stride != 0.0:
        return
    n = int(now.points)
    point = trace[n]
    point[0], point[1] = now.rows + now.refused, half_life(state)
    point[2], point[3] = now.errors, now.loss
    copy_to(point[4:], state.learned[0].losses)
    n += 1
    if n == len(trace):
        n //= 2
        for i in range(n):
            copy_to(trace[i], trace[2 * i + 1])
        now.stride *= 2.0
    now.points = n
