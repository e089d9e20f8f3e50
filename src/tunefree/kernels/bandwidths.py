"""Grids of bandwidths that share their distances: twice the bandwidth is the square."""

import math
from typing import Any, NamedTuple

import numpy as np

from tunefree.kernels.kernels import decay

# Rows that a kernel learner predicts together, and support rows of a product at a time.
BLOCK, TILE = 128, 1024


def root_of(gammas):
    """The lowest bandwidth, if repeated squaring of its values gives all others; else None."""
    if None in gammas or any(_doublings(min(gammas), g) is None for g in gammas):
        return None
    return min(gammas)


def _doublings(low, high):
    """How often a bandwidth is doubled to become the other; None if it never does."""
    (a, i), (b, j) = math.frexp(low), math.frexp(high)
    return j - i if a == b and j >= i else None


def bandwidths(values, gammas, root=None, memory=None):
    """Yield the kernel's values for each bandwidth, ascending.

    `values` are those of the bandwidth `root`. Without a root they are the distances, or the values
    of a kernel without bandwidths. They are overwritten. With `memory` each result is overwritten
    by the next one, too.
    """
    for i, gamma in enumerate(gammas):
        if gamma is None:
            yield values
        elif root is None:
            out = values if i + 1 == len(gammas) else None
            if out is None and memory is not None:
                out = memory(values.shape, values.dtype, "bandwidth")
            yield decay(values, gamma, out)
        else:
            times: Any = _doublings(root, gamma)
            for _ in range(times):
                values *= values
            root = gamma
            yield values


class Facts(NamedTuple):
    """Rows, and their `sizes` for the kernel's distances."""

    rows: Any
    sizes: np.ndarray | None

    @classmethod
    def of(cls, kernel, rows):
        """Rows with sizes, if the kernel defines any."""
        return cls(rows, kernel.sizes(rows) if hasattr(kernel, "sizes") else None)

    def __getitem__(self, part):
        return Facts(self.rows[part], None if self.sizes is None else self.sizes[part])


def base(kernel, root, A, B, out=None):
    """The values of all pairs that `bandwidths` starts from; `out` is memory that may be used."""
    if not hasattr(kernel, "distances"):
        return kernel.gram(A.rows, B.rows)
    values = kernel.distances(A.rows, B.rows, A.sizes, B.sizes, out)
    return values if root is None else decay(values, root, values)


def products(team, gammas, root, tile_of, n, tables):
    """Sums over n support rows: for each bandwidth values @ table in float64.

    ``tile_of(start, stop)`` gives `base` of a block's rows and these support rows; the result is
    overwritten.
    """

    def tile(start):
        stop = min(n, start + TILE)
        values = bandwidths(tile_of(start, stop), gammas, root, team.memory)
        return [K @ table[start:stop] for K, table in zip(values, tables, strict=True)]

    parts = team.map(tile, range(0, n, TILE))
    totals = [values.astype(np.float64) for values in parts[0]]
    for part_sums in parts[1:]:
        for total, values in zip(totals, part_sums, strict=True):
            total += values
    return totals
