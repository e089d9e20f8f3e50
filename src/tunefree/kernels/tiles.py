r"""Products of kernel matrices of many rows with vectors, tile by tile in the same memory.

Distances of six rows to a tile of others are added up in vector registers and become kernel values
in the L1 cache (`tunefree.kernels.sums`). There they are multiplied at once: by the coefficients of
the tile, and if the matrix is symmetric, by those of the six rows for the rows of the tile. Lines
are inner products with rows, or with their sizes, and are added for all rows together.

Kernel values have single precision. Products of one output have double precision, those of several
outputs the precision of the coefficients. A thread's work is one compiled function, which never
takes Python's lock: two threads that exchange the lock many times in a millisecond are no faster
than one. Tiles have a fixed size and sums a fixed order, so that results do not depend on the
number of threads.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import REASSOCIATE
from tunefree.core.jit import kernel as compiled
from tunefree.kernels.sums import (
    CONTRACT,
    LOG2_E,
    ROWS,
    add_differences,
    add_more_differences,
    add_more_products,
    add_products,
    list_entries,
    to_values,
)

# Rows of a tile: whole vectors, and whole groups of six. Tiles of a task, and of a task of a
# symmetric product.
_TILE, _TASK, _PANEL = 192, 3, 5
# Columns of which at least this share of entries is 0, such as those of levels.
_ZEROS = 0.75


@compiled(fastmath=CONTRACT, borrows=True, unrolls=False)
def _six_rows(A, left, first, W, right, columns, more, counts, unit, slope, distances, values):
    """Write the kernel values of six rows with a tile, less their lines."""
    if unit is None:
        add_products(A, first, W, columns, left, right, distances)
    else:
        add_differences(A, first, W, columns, left, right, distances)
    for i in range(ROWS):
        if more is not None:
            n, row = counts[first + i], first + i
            if n > 0 and unit is None:
                add_more_products(A, row, W, more, n, distances, i)
            elif n > 0:
                add_more_differences(A, row, W, more, n, distances, i)
        to_values(distances[i], unit, slope, values[i])


@compiled(fastmath=REASSOCIATE, borrows=True, unrolls=False)
def _add_six(values, V, out):
    """Add the products of six rows' kernel values with the coefficients of the tile."""
    a, b, c, d, e, f = values[0], values[1], values[2], values[3], values[4], values[5]
    p = q = r = s = t = u = 0.0
    for k in range(len(a)):
        v = V[k]
        p += np.float64(a[k]) * v
        q += np.float64(b[k]) * v
        r += np.float64(c[k]) * v
        s += np.float64(d[k]) * v
        t += np.float64(e[k]) * v
        u += np.float64(f[k]) * v
    out[0] += p
    out[1] += q
    out[2] += r
    out[3] += s
    out[4] += t
    out[5] += u


@compiled(fastmath=REASSOCIATE, borrows=True, unrolls=False)
def _add_six_below(values, own, below):
    """Add the products with the six rows' own coefficients, for the rows of the tile."""
    a, b, c, d, e, f = values[0], values[1], values[2], values[3], values[4], values[5]
    p, q, r, s, t, u = own[0], own[1], own[2], own[3], own[4], own[5]
    for k in range(len(a)):
        total = np.float64(a[k]) * p + np.float64(b[k]) * q + np.float64(c[k]) * r
        total += np.float64(d[k]) * s + np.float64(e[k]) * t + np.float64(f[k]) * u
        below[k] += total


@compiled(fastmath=CONTRACT, borrows=True, unrolls=False)
def _multiply_one(
    A, left, W, right, columns, more, counts, unit, slope, V, begin, same, distances, values, out
):
    """Add the kernel values of rows with tiles, less their lines, times one column V.

    If the tiles are of the same rows (`same`), those before the rows' own, `begin` for the first
    ones, are skipped, and each one is used twice: as it is, and transposed for the rows below.
    """
    for top in range(0, len(A), _TILE):
        place = begin + top // _TILE
        for t in range(place if same else 0, len(W)):
            for first in range(top, top + _TILE, ROWS):
                _six_rows(
                    A, left, first, W[t], right[t], columns, more, counts, unit, slope,
                    distances, values,
                )  # fmt: skip
                _add_six(values, V[t], out[first:])
                if same and t > place:
                    _add_six_below(values, V[place, first - top :], out[(t - begin) * _TILE :])


@compiled(fastmath=CONTRACT, borrows=True, unrolls=False)
def _tile(A, left, top, W, right, columns, more, counts, unit, slope, distances, values, K):
    """Write a tile of kernel values, less their lines."""
    for first in range(0, _TILE, ROWS):
        _six_rows(
            A, left, top + first, W, right, columns, more, counts, unit, slope, distances, values
        )
        for i in range(ROWS):
            row, own = K[first + i], values[i]
            for k in range(len(own)):
                row[k] = own[k]


@compiled
def _multiply(
    A, left, W, right, columns, more, counts, unit, slope, V, begin, same, distances, values, K, out
):
    """The same for several columns: a tile of kernel values K is multiplied as a matrix."""
    for top in range(0, len(A), _TILE):
        place = begin + top // _TILE
        for t in range(place if same else 0, len(W)):
            _tile(
                A, left, top, W[t], right[t], columns, more, counts, unit, slope, distances,
                values, K,
            )  # fmt: skip
            out[top : top + _TILE] += np.dot(K, V[t])
            if same and t > place:
                below = (t - begin) * _TILE
                out[below : below + _TILE] += np.dot(K.T, V[place])


@compiled(fastmath=CONTRACT, borrows=True, unrolls=False)
def _write(A, left, W, right, columns, more, counts, unit, slope, distances, values, out):
    """Write the kernel values of rows with tiles, less their lines."""
    for t in range(len(W)):
        for top in range(0, len(A), _TILE):
            block = out[top : top + _TILE, t * _TILE : (t + 1) * _TILE]
            _tile(
                A, left, top, W[t], right[t], columns, more, counts, unit, slope, distances,
                values, block,
            )  # fmt: skip


class _Whole(NamedTuple):
    """Rows in whole tiles, the last one filled up with zeros."""

    numbers: np.ndarray  # of shape (n, d)
    sizes: np.ndarray  # what is added to the distances of a row; of squares to minus a half

    @classmethod
    def of(cls, A, squares, others=()) -> Any:
        """Rows in units in which kernel values are powers of 2; of the columns `others` sizes."""
        numbers = np.zeros((-(-len(A) // _TILE) * _TILE, A.shape[1]), np.float32)
        np.multiply(A, np.float32(np.sqrt(2.0 * LOG2_E) if squares else 1.0), numbers[: len(A)])
        if squares:
            sizes = -0.5 * np.square(numbers, dtype=np.float64).sum(axis=1)
        else:
            sizes = numbers[:, others].sum(axis=1, dtype=np.float64)
        return cls(numbers, sizes.astype(np.float32))


class _Laid(NamedTuple):
    """Rows and the others with which kernel values are computed, in tiles."""

    rows: Any  # `_Whole`
    start: np.ndarray  # what is added to the rows' distances
    W: np.ndarray  # the others, of shape (tiles, columns, rows of a tile)
    right: np.ndarray  # and to their distances, of shape (tiles, rows of a tile)
    columns: np.ndarray  # those that are added for all rows, and those that are mostly 0
    others: np.ndarray
    unit: Any  # of distances, for powers of 2; None for squares
    slope: Any  # of such a distance

    @classmethod
    def of(cls, geometry, A, B, same=False) -> Any:
        """Lay out rows A and others B, which may be the same."""
        squares = geometry.kernel.power == 2
        has_zeros = (B == 0.0).mean(axis=0) >= _ZEROS
        if not squares:
            has_zeros &= B.min(axis=0, initial=0.0) >= 0.0
        others = np.flatnonzero(has_zeros)
        right = _Whole.of(B, squares, others)
        left = right if same else _Whole.of(A, squares)
        start = left.sizes if squares else np.zeros(len(left.numbers), np.float32)
        W = right.numbers.reshape(-1, _TILE, B.shape[1]).swapaxes(1, 2)
        tiles = np.ascontiguousarray(W), right.sizes.reshape(-1, _TILE)
        unit = None if squares else np.float32(LOG2_E)
        slope = None if squares else np.float32(geometry.slope / LOG2_E)
        return cls(left, start, *tiles, np.flatnonzero(~has_zeros), others, unit, slope)

    def part(self, start, stop, team):
        """What the compiled functions need for some rows, and their memory."""
        rows, more, counts = self.rows.numbers[start:stop], None, None
        if len(self.others):
            whole = np.dtype(np.int64)
            more = team.memory((len(rows), len(self.others) + 1), whole, "columns")
            counts = team.memory((len(rows),), whole, "counts")
            list_entries(rows, self.others, more, counts)
        six = (ROWS, _TILE), np.dtype(np.float32)
        memory = [team.memory(*six, use) for use in ("distances", "values")]
        tiles = self.W, self.right, self.columns, more, counts, self.unit, self.slope
        return (rows, self.start[start:stop], *tiles), memory


def _parts(geometry, A, B, V, team, tiles, same=False):
    """Yield the products of tasks of so many tiles of rows, less their lines, in their order."""
    laid, k = _Laid.of(geometry, A, B, same), V.shape[1]
    n, m = len(laid.rows.numbers), len(laid.W) * _TILE
    coef = np.zeros((m, k), np.float64 if k == 1 else V.dtype)
    coef[: len(V)] = V
    coef = coef.reshape(-1, _TILE) if k == 1 else coef.reshape(-1, _TILE, k)

    def task(start):
        stop = min(start + tiles * _TILE, n)
        parts, memory = laid.part(start, stop, team)
        out = np.zeros(((n if same else stop) - start, k))
        place = start // _TILE, same
        if k == 1:
            _multiply_one(*parts, coef, *place, *memory, out[:, 0])
        else:
            K = team.memory((_TILE, _TILE), coef.dtype, "tile")
            _multiply(*parts, coef, *place, *memory, K, out)
        return out

    return team.each(task, range(0, n, tiles * _TILE), ahead=4)


def matrix(geometry, A, B, team):
    """The kernel values of these products, in double precision: shape (len(A), len(B))."""
    laid = _Laid.of(geometry, A, B)
    n = len(laid.rows.numbers)
    parts, memory = laid.part(0, n, team)
    out = np.empty((n, len(laid.W) * _TILE))
    _write(*parts, *memory, out)
    out = np.ascontiguousarray(out[: len(A), : len(B)])
    slope, A, B = float(geometry.slope), A.astype(np.float64), B.astype(np.float64)
    if geometry.kernel.power == 2:
        out += (2.0 * slope * A) @ B.T
        out += 1.0
    else:
        left, right = (slope * np.abs(part).sum(axis=1) for part in (A, B))
        out += left[:, None] + 1.0
        out += right
    return out


def _lines(geometry, A, B, V):
    """What lines and the constant add to products with all rows."""
    V, slope = V.astype(np.float64, copy=False), float(geometry.slope)
    if geometry.kernel.power == 2:
        return V.sum(axis=0) + A @ (2.0 * slope * (B.T @ V))
    sizes, own = (np.abs(part).sum(axis=1, dtype=np.float64) for part in (B, A))
    total = V.sum(axis=0)
    return total + slope * (sizes @ V) + np.outer(own, slope * total)


def times(geometry, A, B, V, team, tiles=_TASK):
    """The kernel values of rows of A with those of B, times V: shape (len(A), n_outputs)."""
    none = np.zeros((0, V.shape[1]))
    parts = np.concatenate([none, *_parts(geometry, A, B, V, team, tiles)])
    return parts[: len(A)] + _lines(geometry, A, B, V)


def symmetric(geometry, A, V, team):
    """The same for A with itself, by half of the values."""
    total = np.zeros((-(-len(A) // _TILE) * _TILE, V.shape[1]))
    for i, part in enumerate(_parts(geometry, A, A, V, team, _PANEL, same=True)):
        total[i * _PANEL * _TILE :] += part
    return total[: len(A)] + _lines(geometry, A, A, V)
