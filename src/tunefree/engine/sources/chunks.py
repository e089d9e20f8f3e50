"""Chunks: rows on their way from a reader to a learner, each with the mark to go on from.

A reader gives chunks of whatever size suits it. They can be cut anew on a fixed grid of rows, and
shuffled within windows; after either, reading can still go on from any chunk's mark.
"""

import queue
import threading
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

# A shuffled window is handed on in pieces of so many rows.
_PIECE = 4096


class Mark(NamedTuple):
    """Where reading goes on.

    Attributes
    ----------
    place : tuple of int
        Where the reader begins: what it means is the reader's own affair; () is the start.
    rows : int
        Rows before that place.
    skip : int
        Rows from there to the block that comes next, or of which some have been read.
    done : int
        Rows of that block that have been read.
    skipped : int
        Malformed rows left out before the place.

    >>> Mark((1024, 17), rows=16, skip=2).row
    18
    """

    place: tuple = ()
    rows: int = 0
    skip: int = 0
    done: int = 0
    skipped: int = 0

    @property
    def row(self):
        """Rows read so far."""
        return self.rows + self.skip + self.done


class Chunk(NamedTuple):
    """Some rows.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, d)
    y : ndarray of shape (n,) or (n, n_targets), or None
    weight : ndarray of shape (n,) or None
    mark : Mark
        Where reading goes on after them.
    """

    X: Any
    y: np.ndarray | None
    weight: np.ndarray | None
    mark: Mark

    def __len__(self):
        """How many rows."""
        return self.X.shape[0]

    def take(self, rows, mark):
        """Chosen rows, with another mark."""
        y, weight = (None if a is None else a[rows] for a in (self.y, self.weight))
        return Chunk(self.X[rows], y, weight, mark)


def widened(X, d):
    """A CSR matrix as one of d columns, which shares its memory; arrays as they are.

    >>> widened(sparse.csr_array(np.eye(2)), 5).shape
    (2, 5)
    """
    if not sparse.issparse(X) or X.shape[1] == d:
        return X
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], d))


def joined(chunks):
    """Several chunks as one, with the mark of the last."""
    if len(chunks) == 1:
        return chunks[0]
    X = [c.X for c in chunks]
    if sparse.issparse(X[0]):
        d = max(x.shape[1] for x in X)
        X = sparse.vstack([widened(x, d) for x in X], format="csr")
    else:
        X = np.concatenate(X)
    y, weight = (
        None if parts[0] is None else np.concatenate(parts)
        for parts in ([c.y for c in chunks], [c.weight for c in chunks])
    )
    return Chunk(X, y, weight, chunks[-1].mark)


def on_grid(chunks, size, mark=None):
    """Cut anew, so that chunks end at the multiples of `size` rows, counted from the first row.

    The chunks are those of a reader from the place of the mark on.

    >>> X = np.arange(7.0)[:, None]
    >>> parts = [Chunk(X[a:b], X[a:b, 0], None, Mark((b,), b)) for a, b in [(0, 4), (4, 7)]]
    >>> [(len(c), c.mark.row) for c in on_grid(parts, 3)]
    [(3, 3), (3, 6), (1, 7)]
    """
    mark = mark or Mark()
    at, leave_out = mark.rows, mark.skip
    held = []
    for chunk in chunks:
        begin, start = min(leave_out, len(chunk)), mark._replace(skip=0, done=0)
        leave_out -= begin
        while begin < len(chunk):
            row = at + begin
            stop = min(len(chunk), begin + size - row % size)
            whole = stop == len(chunk)
            after = chunk.mark if whole else start._replace(skip=stop)
            held.append(chunk.take(slice(begin, stop), after))
            begin = stop
            if (at + stop) % size == 0:
                yield joined(held)
                held = []
        at += len(chunk)
        mark = chunk.mark
    if held:
        yield joined(held)


def shuffled(chunks, window, seed, epoch, mark=None):
    """Shuffle the rows of each window of so many rows.

    The order is a function of seed, pass and window alone; pieces of shuffled windows come out.

    >>> X = np.arange(6.0)[:, None]
    >>> part = Chunk(X, X[:, 0], None, Mark((6,), 6))
    >>> sorted(next(shuffled([part], 4, 0, 0)).y.tolist())
    [0.0, 1.0, 2.0, 3.0]
    """
    begin = (mark or Mark())._replace(done=0)
    done = mark.done if mark else 0
    for whole in on_grid(chunks, window, begin):
        n = len(whole)
        order = np.random.default_rng([seed, epoch, begin.row // window]).permutation(n)
        for start in range(done, n, _PIECE):
            stop = min(start + _PIECE, n)
            after = whole.mark if stop == n else begin._replace(done=stop)
            yield whole.take(order[start:stop], after)
        begin, done = whole.mark, 0


def ahead(items, depth=3):
    """Run an iterator in a thread, so many items ahead; an exception comes where it was raised.

    >>> list(ahead(range(4)))
    [0, 1, 2, 3]
    """
    ready, closed = queue.Queue(depth), threading.Event()

    def put(item):
        while not closed.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work():
        try:
            for item in items:
                put((item, None))
                if closed.is_set():
                    return
            put((None, StopIteration))
        except BaseException as error:  # whatever it is, it belongs to whoever reads
            put((None, error))

    threading.Thread(target=work, daemon=True, name="tunefree-reader").start()
    try:
        while True:
            item, error = ready.get()
            if error is StopIteration:
                return
            if error is not None:
                raise error
            yield item
    finally:
        closed.set()
