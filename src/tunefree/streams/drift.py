"""How fast a stream forgets, and the trace of its errors."""

import numpy as np

from tunefree.core.jit import kernel, maximum, minimum
from tunefree.streams.members import LEAST_CURVATURE
from tunefree.streams.state import (
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
def half_life(real, now, learned):
    """After how many rows what was learned counts half: a mean of members by the posteriors."""
    weight, total, t = 0.0, 0.0, maximum(now.rows, 1.0)
    curvature = 1.0 if real else maximum(now.curvature, LEAST_CURVATURE)
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
            total += posterior * np.log(minimum(maximum(rows, 1.0), t))
    return np.exp(total / weight)


@kernel
def record_point(real, now, learned, trace):
    """Add a point to the trace; where it is full, drop every other point."""
    if np.int64(now.rows) & (np.int64(now.stride) - 1) != 0:  # the stride is a power of two
        return
    n = np.int64(now.points)
    point = trace[n]
    point[0], point[1] = now.rows + now.refused, half_life(real, now, learned)
    point[2], point[3] = now.errors, now.loss
    copy_to(point[4:], learned.losses)
    n += 1
    if n == len(trace):
        n //= 2
        for i in range(n):
            copy_to(trace[i], trace[2 * i + 1])
        now.stride *= 2.0
    now.points = n


class DriftAlarm:
    """Notices that a stream has changed.

    There is an alarm at a row if both hold, from the 200th row after the last alarm on:

    - the half-life is below a quarter of its highest value since the last alarm, and
    - there are more bad rows among the latest 32, or the latest 128, than their share so far
      explains, by 4 standard errors. Shares below 1 in 20 count as 1 in 20.

    A bad row has a wrong class, or a residual above 2.5 times the mean absolute residual.

    Examples
    --------
    >>> alarm = DriftAlarm()
    >>> [row for row in range(1, 401) if alarm.add(row > 300, 100.0 if row < 300 else 9.0)]
    [307]
    """

    FIRST, WINDOWS, LEAST, ERRORS = 200, (32, 128), 0.05, 4.0

    def __init__(self):
        self.latest, self.n_rows, self.n_bad, self.total, self.longest = [], 0, 0, 0.0, 0.0

    def add_residual(self, residual, half_life):
        """Add a row with this absolute residual; whether there is an alarm."""
        is_bad = residual * self.n_rows > 2.5 * self.total
        self.total += residual
        return self.add(is_bad, half_life)

    def add(self, is_bad, half_life):
        """Add a row, bad or not, and the half-life after it; whether there is an alarm."""
        self.latest = [*self.latest, int(is_bad)][-max(self.WINDOWS) :]
        self.n_rows += 1
        self.n_bad += int(is_bad)
        self.longest = max(self.longest, half_life)
        if self.n_rows < self.FIRST or 4.0 * half_life >= self.longest:
            return False
        if not any(self._has_many(window) for window in self.WINDOWS):
            return False
        vars(self).update(vars(DriftAlarm()))  # begin again
        return True

    def _has_many(self, window):
        """Whether there are more bad rows among the latest than before explain."""
        found = sum(self.latest[-window:])
        share = (self.n_bad - found) / (self.n_rows - window)
        share = min(max(share, self.LEAST), 1.0 - self.LEAST)
        return found - window * share > self.ERRORS * np.sqrt(window * share * (1.0 - share))
