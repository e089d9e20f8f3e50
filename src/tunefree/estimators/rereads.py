"""Rows that are read anew in every pass: how batch learners see a source."""

import numpy as np
from scipy import sparse

from tunefree.engine.sources import open_source, widened
from tunefree.estimators import base

# Rows of a block while little is known of them, and numbers of a block of dense rows.
_ROWS, _NUMBERS = 4096, 1 << 19
# Stored entries of a block once the rows are known: at least, and at most.
_FEWEST, _MOST = 1 << 18, 1 << 22


class Reread:
    """The rows of a source, checked, as often as they are wanted.

    Blocks end where the rows say, not where the source's chunks do. Rows of weight 0 are left out.

    Parameters
    ----------
    source : Source or anything that `tunefree.open_source` takes

    Attributes
    ----------
    source : Source
    width, rows, entries : int
        Columns, rows and stored entries; known after a pass of `survey`.
    dtype : dtype
        Of the first rows.

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
        self.grid = _ROWS
        if not sparse.issparse(first.X):
            self.grid = int(np.clip(_NUMBERS // max(1, self.width), 1, _ROWS))

    def survey(self):
        """The first pass: pieces as they come, the columns of sparse ones still growing.

        Yields
        ------
        X, y, weights
        """
        for X, y, weights in self._pieces():
            self.width, self.rows = max(self.width, X.shape[1]), self.rows + X.shape[0]
            self.entries += X.nnz if sparse.issparse(X) else X.size
            yield X, y, weights
        if not self.rows:
            raise ValueError(f"{self.source.name} has no row with a positive weight.")
        if sparse.issparse(X):  # as many entries as columns, or sums would cost more than products
            wanted = np.clip(self.width, _FEWEST, _MOST) * self.rows // max(1, self.entries)
            self.grid = int(max(1, wanted))

    def pieces(self, start=None):
        """The rows with all their columns.

        Parameters
        ----------
        start : Mark, optional
            Where to begin: an end of a piece.

        Yields
        ------
        X, y, weights
        """
        for X, y, weights in self._pieces(start):
            yield widened(X, self.width), y, weights

    def _pieces(self, start=None):
        for chunk in self.source.chunks(start, rows=self.grid):
            X, y = chunk.X, chunk.y
            X = X if X.dtype == self.dtype else X.astype(self.dtype)
            X = base.canonical(X) if sparse.issparse(X) else np.ascontiguousarray(X)
            base.check_size(X)
            self.mark = chunk.mark
            if chunk.weight is None:
                yield X, y, np.ones(len(chunk))
                continue
            weights = np.asarray(chunk.weight, dtype=np.float64)
            if weights.min(initial=0.0) < 0.0:
                raise ValueError(f"{self.source.name} has a row whose weight is negative.")
            kept = weights > 0.0
            if kept.any():
                yield base.take(X, np.flatnonzero(kept)), y[kept], weights[kept]
