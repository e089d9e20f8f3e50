"""The only loop: passes over a source, blocks within a pass, until the learner is done.

A learner does not depend on where blocks come from: rows in memory, as here, a file
(`tunefree.engine.sources`) or a cluster. Blocks follow a fixed grid of rows, so that chunking never
changes a result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.protocols import BlockSource, Learner, Observed, Remote, Result, State
from tunefree.rows.designs import design_of, n_entries
from tunefree.rows.order import Visits

__all__ = ["Batches", "Block", "Result", "Rows", "Whole", "run"]


def run(
    learner: Learner,
    state: State,
    source: BlockSource | Remote,
    *,
    max_passes: int | None = None,
    on_block: Callable | None = None,
    before_pass: Callable | None = None,
    on_pass: Callable | None = None,
    begun: Result | None = None,
    keep: Callable | None = None,
) -> Result:
    """Pass over the source until the learner is done.

    `on_block(state, block)` is called after each block, `before_pass()` and `on_pass(state)` around
    each pass; a run ends if `on_pass` returns True. `keep(result)` is called after each pass but
    the last: a run continues from such a result, given as `begun`.

    >>> class Count:
    ...     def scan(self, state, block):
    ...         return (state[0] + len(block.targets),)
    ...     def turn(self, state):
    ...         return state, state[0] >= 6
    >>> import numpy as np
    >>> source = Whole(np.ones((3, 1)), np.ones((3, 1)), np.ones(3))
    >>> result = run(Count(), (0,), source)
    >>> result.n_passes, result.ended
    (2, 'converged')
    """
    trace, epoch, ended = [], 0, "passes"
    observed: Any = learner if _observes(type(learner)) else None
    if begun is not None:
        state, epoch, trace = begun.state, begun.n_passes, list(begun.trace)
    while ended == "passes" and (max_passes is None or epoch < max_passes):
        if before_pass is not None:
            before_pass()
        if isinstance(source, Remote):
            state = source.sweep(learner, state, epoch, on_block)
        else:
            for block in source.blocks(epoch):
                state = learner.scan(state, block)
                if on_block is not None:
                    on_block(state, block)
        state, done = learner.turn(state)
        epoch += 1
        if observed is not None:
            trace.append(observed.observe(state))
        stopped = on_pass is not None and on_pass(state)
        ended = "converged" if done else "stopped" if stopped else "passes"
        if keep is not None and ended == "passes":
            keep(Result(state, epoch, ended, list(trace)))
    return Result(state, epoch, ended, trace)


@cache
def _observes(cls):
    """Whether a learner's class is `Observed` (cached: the test costs as much as a small chunk)."""
    return issubclass(cls, Observed)


# At most about 0.1 s of work: signals, checkpoints and progress are handled between blocks.
_BLOCK_ENTRIES = 500_000
_MOST_ROWS = 4096


class Block(NamedTuple):
    """Some rows, in the order in which to learn them."""

    X: Any  # the matrix the rows belong to
    rows: np.ndarray | None  # which of its rows; None for all, in order
    targets: np.ndarray  # (m, n_outputs)
    weights: np.ndarray
    start: int  # of the first row in its pass
    epoch: int  # the number of the pass

    @property
    def design(self):
        """The rows as a design, without a copy if they are all of the matrix."""
        return design_of(self.X if self.rows is None else self.X[self.rows])


@dataclass(frozen=True)
class Whole(BlockSource):
    """All rows as a single block, for batch learners."""

    X: Any
    targets: np.ndarray
    weights: np.ndarray

    def blocks(self, epoch):
        """The one block of a pass."""
        yield Block(self.X, None, self.targets, self.weights, 0, epoch)


@dataclass(frozen=True)
class Batches(BlockSource):
    """Blocks in memory, for batch learners when rows are held out."""

    batches: tuple

    def blocks(self, epoch):
        """The blocks of a pass."""
        return iter(self.batches)


@dataclass(frozen=True)
class Rows(BlockSource):
    """Rows of an array in the order of their visits, for online learners.

    A chunk of a stream is such a source, of one pass. `most_rows()` is the largest number of rows
    of the next block; by default it follows from the number of entries.
    """

    X: Any
    targets: np.ndarray
    visits: Visits
    most_rows: Callable | None = None

    def blocks(self, epoch):
        """The blocks of a pass."""
        rows, weights = self.visits.order(epoch)
        stored = n_entries(self.X)
        per_row = max(1.0, stored / max(1, self.X.shape[0])) * self.targets.shape[1]
        size = min(max(int(_BLOCK_ENTRIES / per_row), 64), _MOST_ROWS)
        start = 0
        while start < len(rows):
            part = slice(start, start + (size if self.most_rows is None else self.most_rows()))
            r = rows[part]
            yield Block(self.X, r, self.targets[r], weights[part], start, epoch)
            start += len(r)
