"""The rows that a kernel predictor is made of, and products of the kernel with coefficients.

The only expensive thing in kernel learning is the table of values k(row, support row). It is made
in tiles that fit a processor's cache, by one matrix product each; a tile serves a whole grid of
bandwidths (twice the bandwidth is the square) and all outputs, and is gone before the next one.
Tiles are spread over threads and added in a fixed order, so results do not depend on how many.
"""

import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import joblib
import numpy as np
from scipy import sparse

from tunefree._threads import one_blas_thread
from tunefree.distances import decay

TILE = 1024


def n_threads(n_jobs):
    """How many threads `n_jobs` means; None and -1 are all that the process may use."""
    if n_jobs is None or n_jobs == -1:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        most = joblib.cpu_count()
        return min(most, int(limit)) if limit.isdigit() and int(limit) > 0 else most
    return max(1, joblib.effective_n_jobs(n_jobs))


class Workers:
    """Maps a function over tiles, in threads; matrix products inside use one thread each."""

    def __init__(self, pool=None):
        self._pool, self._local = pool, threading.local()

    def memory(self, shape, dtype, use="tile"):
        """Memory of the calling thread for a use: new pages cost more than the work on them."""
        held = self._local.__dict__
        size = math.prod(shape) * dtype.itemsize
        if use not in held or held[use].size < size:
            held[use] = np.empty(size, np.uint8)
        return held[use][:size].view(dtype).reshape(shape)

    def map(self, function, items):
        """Results in the order of the items."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self._pool.map(one_blas_thread()(function), items))


@contextmanager
def workers(n_jobs):
    """Threads for a stretch of work."""
    n = n_threads(n_jobs)
    with one_blas_thread():
        if n == 1:
            yield Workers()
            return
        with ThreadPoolExecutor(n) as pool:
            yield Workers(pool)


class Support:
    """Rows with coefficients, by slot; the memory grows by doubling.

    Parameters
    ----------
    like : ndarray or CSR
        Rows of the kind to hold.
    """

    def __init__(self, like):
        self._n, self._rows, self._sizes = 0, like[:0], np.empty(0, like.dtype)
        self._waiting = []

    def __len__(self):
        return self._n

    def append(self, rows, sizes):
        """Take in rows and what the kernel needs to know of them."""
        n = rows.shape[0]
        if sizes is not None:
            self._sizes = _room(self._sizes, self._n, n)
            self._sizes[self._n : self._n + n] = sizes
        if sparse.issparse(self._rows):
            self._waiting.append(rows)
        else:
            self._rows = _room(self._rows, self._n, n)
            self._rows[self._n : self._n + n] = rows
        self._n += n

    @property
    def rows(self):
        """All rows."""
        if self._waiting:
            self._rows = sparse.vstack([self._rows, *self._waiting], format="csr")
            self._waiting = []
        return self._rows[: self._n]

    def facts(self):
        """All rows with what the kernel needs to know of them."""
        return Facts(self.rows, self._sizes[: self._n] if len(self._sizes) else None)

    def branch(self):
        """A copy that may grow on its own, without copying the rows unless it must."""
        other = Support(self._rows)
        other._n, other._rows, other._sizes = self._n, self.rows, self._sizes[: self._n]
        return other


def _room(array, used, new):
    """The array, or a longer one, with space for new rows after those in use."""
    if used + new <= len(array):
        return array
    bigger = np.empty((max(2 * len(array), used + new, TILE), *array.shape[1:]), array.dtype)
    bigger[:used] = array[:used]
    return bigger


def root_of(gammas):
    """The lowest bandwidth, if squaring its values gives those of all others; else None."""
    if None in gammas or any(_doublings(min(gammas), g) is None for g in gammas):
        return None
    return min(gammas)


def _doublings(low, high):
    """How often a bandwidth is doubled to become the other; None if it never does."""
    (a, i), (b, j) = math.frexp(low), math.frexp(high)
    return j - i if a == b and j >= i else None


def bandwidths(kernel, values, gammas, root=None):
    """Yield the kernel's values for each bandwidth, in the memory of `values` at last.

    Parameters
    ----------
    kernel : part
        A kernel of `tunefree.kernels`.
    values : ndarray
        Overwritten. Those of the bandwidth `root`; without a root the distances, or all there is of
        a kernel without bandwidths.
    gammas : sequence of float or None
        Ascending.
    root : float or None
    """
    for gamma in gammas:
        if gamma is not None and root is None:
            yield decay(values, gamma, values if gamma == gammas[-1] else None)
            continue
        if gamma is not None:
            for _ in range(_doublings(root, gamma)):
                values *= values
            root = gamma
        yield values


class Facts(NamedTuple):
    """Rows, and what the kernel's distances need to know of them."""

    rows: object
    sizes: np.ndarray | None

    @classmethod
    def of(cls, kernel, rows):
        """Work it out."""
        return cls(rows, kernel.sizes(rows) if hasattr(kernel, "sizes") else None)

    def __getitem__(self, part):
        return Facts(self.rows[part], None if self.sizes is None else self.sizes[part])


def base(kernel, root, A, B, out=None):
    """The values of all pairs from which `bandwidths` makes the others.

    Parameters
    ----------
    kernel : part
    root : float or None
    A, B : Facts
    out : ndarray, optional
        Memory that may be used.
    """
    if not hasattr(kernel, "distances"):
        return kernel.gram(A.rows, B.rows)
    values = kernel.distances(A.rows, B.rows, A.sizes, B.sizes, out)
    return values if root is None else decay(values, root, values)


def products(team, kernel, gammas, root, tile_of, n, tables):
    """Sums over the support rows: for each bandwidth values @ table.

    Parameters
    ----------
    team : Workers
    kernel, gammas, root
        See `bandwidths`.
    tile_of : callable
        (start, stop) -> `base` of the block's rows and those support rows; is overwritten.
    n : int
        How many support rows.
    tables : list of ndarray of shape (at least n, width)
        Coefficients for each bandwidth.

    Returns
    -------
    list of ndarray of shape (n_rows, width), float64; None where there are no support rows
    """

    def tile(start):
        stop = min(n, start + TILE)
        values = bandwidths(kernel, tile_of(start, stop), gammas, root)
        return [K @ table[start:stop] for K, table in zip(values, tables, strict=True)]

    parts = team.map(tile, range(0, n, TILE))
    if not parts:
        return [None] * len(tables)
    return [np.sum([p[g] for p in parts], axis=0, dtype=np.float64) for g in range(len(tables))]
