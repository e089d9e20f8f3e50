"""Batch learners on a source: rows that are read anew in every pass, runs that can be resumed."""

import contextlib
import copy
from typing import Any

import numpy as np
from scipy import sparse

from tunefree.engine.run import run
from tunefree.engine.sources import Mark, open_source, widened
from tunefree.estimators import base

# Rows of a block while little is known of them, and numbers of a block of dense rows.
_ROWS, _NUMBERS = 4096, 1 << 19
# Stored entries of a block once the rows are known: at least, and at most.
_FEWEST, _MOST = 1 << 18, 1 << 22


class Reread:
    """The rows of a source, checked, as often as they are wanted.

    Blocks end where the rows say, not where the source's chunks do. Rows of weight 0 are left out.
    `width`, `rows` and `entries` (columns, rows and stored entries) are known after a `survey`;
    `dtype` is that of the first rows, `flat` whether targets are a vector.

    Raises
    ------
    ValueError
        If the source can be read once only, or has no rows or no targets.
    """

    def __init__(self, source):
        self.source = source = open_source(source)
        if not source.again:
            raise ValueError(
                f"{source.name} can be read once only, and this learner needs several passes: "
                "give a file, or a function that makes the iterator."
            )
        first = next(source.chunks(), None)
        if first is None:
            raise ValueError(f"{source.name} has no rows.")
        if first.y is None:
            raise ValueError(f"{source.name} has no targets to learn from.")
        self.dtype = np.dtype(np.float32 if first.X.dtype == np.float32 else np.float64)
        self.width, self.rows, self.entries = first.X.shape[1], 0, 0
        self.flat = np.ndim(first.y) == 1
        self.grid, self._fetched = _ROWS, {}
        self._places: Any = None
        if not sparse.issparse(first.X):
            self.grid = int(np.clip(_NUMBERS // max(1, self.width), 1, _ROWS))

    def survey(self):
        """The first pass: (X, y, weights) as they come, columns of sparse rows still growing."""
        X: Any = None
        for X, y, weights in self._pieces():
            self.width, self.rows = max(self.width, X.shape[1]), self.rows + X.shape[0]
            self.entries += X.nnz if sparse.issparse(X) else X.size
            yield X, y, weights
        if not self.rows:
            raise ValueError(f"{self.source.name} has no row with a positive weight.")
        if sparse.issparse(X):  # as many entries as columns, or sums would cost more than products
            wanted = np.clip(self.width, _FEWEST, _MOST) * self.rows // max(1, self.entries)
            self.grid = int(max(1, wanted))

    def pieces(self):
        """The rows with all their columns: (X, y, weights)."""
        row, mark, places = 0, None, []
        for X, y, weights in self._pieces():
            places.append((row, mark))
            row, mark = row + X.shape[0], self._mark
            yield widened(X, self.width), y, weights
        self._places = places

    def row(self, j):
        """Row j, a matrix of one row; it is kept."""
        if self._places is None:
            for _ in self.pieces():
                pass
        if j not in self._fetched:
            places: Any = self._places
            start, mark = [place for place in places if place[0] <= j][-1]
            X, _, _ = next(self._pieces(mark))
            self._fetched[j] = widened(X, self.width)[j - start : j - start + 1]
        return self._fetched[j]

    def _pieces(self, start=None):
        for chunk in self.source.chunks(start, rows=self.grid):
            X, y = chunk.X, chunk.y
            X = X if X.dtype == self.dtype else X.astype(self.dtype)
            X = base.canonical(X) if sparse.issparse(X) else np.ascontiguousarray(X)
            base.check_size(X)
            self._mark = chunk.mark
            if chunk.weight is None:
                yield X, y, np.ones(len(chunk))
                continue
            weights = np.asarray(chunk.weight, dtype=np.float64)
            if weights.min(initial=0.0) < 0.0:
                raise ValueError(f"{self.source.name} has a row whose weight is negative.")
            kept = weights > 0.0
            if kept.any():
                yield base.take(X, np.flatnonzero(kept)), y[kept], weights[kept]


class Journal:
    """The results of runs that have ended, and where the last one is: what a checkpoint saves.

    What is not of a run (units of the columns, steps, proofs) follows from the rows and from the
    runs' results, and is worked out anew on resuming. `state` holds the results of the runs that
    have ended, and of the one under way after its last whole pass, or None. `mark` is the start:
    a checkpoint is made between passes; `width` says that there is something to save.
    """

    mark, width = Mark(), 1

    def __init__(self, estimator, source, checkpoint):
        self.estimator, self.source, self.checkpoint = estimator, source, checkpoint
        self.state, self.begun = ((), None), 0

    @property
    def epoch(self):
        """Passes of all runs."""
        ended, last = self.state
        return sum(r.n_passes for r in ended) + (last.n_passes if last else 0)

    def resume(self, estimator, mark, epoch, width, state):
        """Go on from what a checkpoint holds."""
        self.state = state

    def run(self, learner, state, source, **options):
        """`engine.run.run`, or what is left of it."""
        (ended, last), number = self.state, self.begun
        self.begun += 1
        if number < len(ended):
            return ended[number]

        def keep(result):
            self.state = ended, copy.deepcopy(result)
            self.checkpoint.passed(self, self.source.rows)

        result = run(learner, state, source, begun=last, keep=keep, **options)
        self.state = (*ended, copy.deepcopy(result)), None
        return result


@contextlib.contextmanager
def journal(estimator, source, checkpoint):
    """Have a checkpoint (or None) save the runs that an estimator begins by `runner`."""
    if checkpoint is None:
        yield
        return
    estimator._journal = Journal(estimator, source, checkpoint)
    try:
        with checkpoint.watch(estimator._journal):
            yield
    finally:
        del estimator._journal


def runner(estimator):
    """What an estimator makes its runs by: `engine.run.run`, unless they are saved."""
    kept = vars(estimator).get("_journal")
    return run if kept is None else kept.run
