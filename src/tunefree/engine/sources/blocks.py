"""Sources: where blocks of rows come from.

A learner sees blocks and does not know whether they come from an array or, later, from a file or a
cluster. Blocks follow a fixed grid of rows, so that chunking never changes a result.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.designs import CSR, Dense
from tunefree.engine.order import Visits
from tunefree.protocols import Source

# About 0.1 s of work at most: signals, checkpoints and progress are served between blocks.
_BLOCK_ENTRIES = 500_000
_MOST_ROWS = 4096


class Block(NamedTuple):
    """A stretch of rows in the order in which to learn them.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, d)
        The matrix the rows belong to.
    rows : ndarray of shape (m,) or None
        Which of its rows; None for all, in order.
    targets : ndarray of shape (m, n_outputs)
    weights : ndarray of shape (m,)
    start, epoch : int
        Position of the first row in its pass, and the number of the pass.
    """

    X: Any
    rows: np.ndarray | None
    targets: np.ndarray
    weights: np.ndarray
    start: int
    epoch: int

    @property
    def design(self):
        """The rows as a design, without a copy if they are all of the matrix."""
        X = self.X if self.rows is None else self.X[self.rows]
        return CSR.from_scipy(X) if sparse.issparse(X) else Dense(X)


@dataclass(frozen=True)
class Whole(Source):
    """All rows as a single block: what batch learners sweep over."""

    X: Any
    targets: np.ndarray
    weights: np.ndarray

    def blocks(self, epoch):
        """The one block of a pass."""
        yield Block(self.X, None, self.targets, self.weights, 0, epoch)


@dataclass(frozen=True)
class Batches(Source):
    """Blocks that are at hand: what batch learners sweep over when rows are held out."""

    batches: tuple

    def blocks(self, epoch):
        """The blocks of a pass."""
        return iter(self.batches)


@dataclass(frozen=True)
class Rows(Source):
    """Rows of an array in the order of their visits: what online learners pass over."""

    X: Any
    targets: np.ndarray
    visits: Visits

    def blocks(self, epoch):
        """The blocks of a pass."""
        rows, weights = self.visits.order(epoch)
        stored = self.X.nnz if sparse.issparse(self.X) else self.X.size
        per_row = max(1.0, stored / max(1, self.X.shape[0])) * self.targets.shape[1]
        size = int(np.clip(_BLOCK_ENTRIES / per_row, 64, _MOST_ROWS))
        for start in range(0, len(rows), size):
            r = rows[start : start + size]
            yield Block(self.X, r, self.targets[r], weights[start : start + size], start, epoch)
