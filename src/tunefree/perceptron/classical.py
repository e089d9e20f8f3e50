"""The classical Perceptron: rows in order, an update for each mistake.

Rows are visited cyclically; a margin y <w, x> <= 0 is a mistake, and the update is w += y x. The
run ends after n rows in succession without a mistake. Without a separating hyperplane it never
ends.

Source: Rosenblatt 1958; operations counted as in Hanashiro and Abernethy, "Linear Separation via
Optimism", section 2.1 (one for each inner product, one for each addition).
"""

from typing import NamedTuple

import numpy as np

from tunefree.core.jit import kernel, part
from tunefree.rows.designs import count, entry, index

# Places of the counters: rows since the last mistake, updates, products of rows and weights.
_STREAK, _UPDATES, _PRODUCTS = 0, 1, 2


class ClassicalState(NamedTuple):
    """State of a run."""

    w: np.ndarray  # the last entry is the intercept's if there is one
    counts: np.ndarray  # rows in succession without a mistake, updates, inner products
    seen: int = 0  # rows
    n_rows: int = 0  # of the source, known (not 0) after the first pass

    @property
    def n_updates(self):
        """Updates of the weight vector."""
        return int(self.counts[_UPDATES])

    @property
    def n_operations(self):
        """Inner products and updates."""
        return int(self.counts[_UPDATES] + self.counts[_PRODUCTS])


@kernel
def _cycle(design, signs, weights, bias, w, counts, n_rows, passes):
    """Visit the rows, `passes` times at most, until n_rows in succession have no mistake."""
    d = w.shape[0] - 1 if bias != 0.0 else w.shape[0]
    streak, updates, products = counts[_STREAK], counts[_UPDATES], counts[_PRODUCTS]
    for _ in range(passes):
        if streak >= n_rows:
            break
        for i in range(signs.shape[0]):
            if weights[i] > 0.0:
                products += 1
                total = bias * w[d] if bias != 0.0 else 0.0
                for k in range(count(design, i)):
                    total += entry(design, i, k) * w[index(design, i, k)]
                if signs[i] * total > 0.0:
                    streak += 1
                else:
                    streak = 0
                    updates += 1
                    for k in range(count(design, i)):
                        w[index(design, i, k)] += signs[i] * entry(design, i, k)
                    if bias != 0.0:
                        w[d] += signs[i] * bias
            else:
                streak += 1
            if streak >= n_rows:
                break
    counts[_STREAK], counts[_UPDATES], counts[_PRODUCTS] = streak, updates, products


@part
class Classical(NamedTuple):
    """Rosenblatt's Perceptron; `bias` is one more coordinate of every row.

    A block is visited `cycles` times before the next (more than once only if it holds all rows).
    """

    bias: float = 0.0
    cycles: int = 1

    def init(self, n_columns):
        """The state before the first pass."""
        return ClassicalState(np.zeros(n_columns + (self.bias != 0.0)), np.zeros(3, np.int64))

    def scan(self, state, block):
        """Visit a block's rows in order."""
        unknown = np.iinfo(np.int64).max
        rows = block.design, block.targets[:, 0], block.weights
        cycles = self.cycles if state.n_rows else 1
        _cycle(*rows, self.bias, state.w, state.counts, state.n_rows or unknown, cycles)
        return state._replace(seen=max(state.seen, block.start + len(block.weights)))

    def turn(self, state):
        """End a pass."""
        state = state._replace(n_rows=state.seen)
        return state, bool(state.counts[_STREAK] >= state.n_rows)
