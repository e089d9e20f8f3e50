"""The rows that a kernel predictor is made of, and products of the kernel with coefficients.

The only expensive thing in kernel learning is the table of values k(row, support row). It is made
in tiles that fit a processor's cache, by one matrix product each; a tile serves a whole grid of
bandwidths (twice the bandwidth is the square) and all outputs, and is gone before the next one.
Tiles are spread over threads and added in a fixed order, so results do not depend on how many.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

import joblib
import numpy as np
from scipy import sparse
from threadpoolctl import ThreadpoolController

from tunefree.distances import decay

TILE = 1024


@cache
def _controller():
    return ThreadpoolController()


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
        self._pool = pool

    def map(self, function, items):
        """Results in the order of the items."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))


@contextmanager
def workers(n_jobs):
    """Threads for a stretch of work."""
    n = n_threads(n_jobs)
    with _controller().limit(limits=1, user_api="blas"):
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
        Rows of the kind to hold (for a precomputed kernel, numbers of rows).
    """

    def __init__(self, like):
        self._n, self._rows = 0, like[:0]
        self._waiting = []

    def __len__(self):
        return self._n

    def append(self, rows):
        """Take in rows."""
        n = rows.shape[0]
        if sparse.issparse(self._rows):
            self._waiting.append(rows)
        else:
            if self._n + n > len(self._rows):
                bigger = np.empty(
                    (max(2 * len(self._rows), self._n + n, TILE), *rows.shape[1:]),
                    self._rows.dtype,
                )
                bigger[: self._n] = self._rows[: self._n]
                self._rows = bigger
            self._rows[self._n : self._n + n] = rows
        self._n += n

    @property
    def rows(self):
        """All rows."""
        if self._waiting:
            self._rows = sparse.vstack([self._rows, *self._waiting], format="csr")
            self._waiting = []
        return self._rows[: self._n]

    def branch(self):
        """A copy that may grow on its own, without copying the rows unless it must."""
        other = Support(self._rows)
        other._n, other._rows = self._n, self.rows
        return other


def bandwidths(kernel, distances, gammas):
    """Yield the kernel's values for each bandwidth, in the memory of the distances at last.

    Parameters
    ----------
    kernel : part
        A kernel of `tunefree.kernels`.
    distances : ndarray
        Overwritten. For a kernel without bandwidths: its values.
    gammas : sequence of float or None
        Ascending.
    """
    values = None
    for i, gamma in enumerate(gammas):
        if gamma is None:
            values = distances
        elif i > 0 and gamma == 2.0 * gammas[i - 1]:
            values *= values
        else:
            out = distances if i == len(gammas) - 1 or _doubling(gammas[i:]) else None
            values = decay(distances, gamma, out)
        yield values


def _doubling(gammas):
    return all(b == 2.0 * a for a, b in zip(gammas[:-1], gammas[1:], strict=True))


def base(kernel, A, B):
    """Distances if the kernel has a bandwidth to vary, else its values."""
    return kernel.distances(A, B) if hasattr(kernel, "distances") else kernel.gram(A, B)


def products(team, kernel, gammas, tile_of, n, tables):
    """Sums over the support rows: for each bandwidth values @ table.

    Parameters
    ----------
    team : Workers
    kernel, gammas
        See `bandwidths`.
    tile_of : callable
        (start, stop) -> `base` of the block's rows and those support rows.
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
        D = tile_of(start, stop)
        return [
            K @ table[start:stop]
            for K, table in zip(bandwidths(kernel, D, gammas), tables, strict=True)
        ]

    parts = team.map(tile, range(0, n, TILE))
    if not parts:
        return [None] * len(tables)
    return [np.sum([p[g] for p in parts], axis=0, dtype=np.float64) for g in range(len(tables))]
