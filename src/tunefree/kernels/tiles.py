"""Products of kernel matrices of many rows with vectors, tile by tile in the same memory.

Kernel values have single precision, sums that of the vectors. A thread's work is one compiled
function, which never takes Python's lock: two threads that exchange the lock many times in a
millisecond are no faster than one. Tiles have a fixed size and sums a fixed order, so that results
do not depend on the number of threads.
"""

import numpy as np

from tunefree.core.jit import REASSOCIATE, fast_exp32
from tunefree.core.jit import kernel as compiled
from tunefree.kernels.kernels import _manhattan

# Rows of a tile, of a task, and of a task of a symmetric product.
_TILE, _ROWS, _PANEL = 256, 512, 1024
# Columns of which at least this share of entries is 0, such as those of levels.
_ZEROS = 0.75


@compiled
def _to_values(D, squares, left, right, slope, out):
    """Kernel values from inner products, if `squares`, or from distances."""
    zero, one, lowest = np.float32(0.0), np.float32(1.0), np.float32(-87.0)
    for i in range(len(D)):
        row, result, size = D[i], out[i], left[i]
        if squares:
            for k in range(len(row)):
                row[k] = max(size + right[k] - (row[k] + row[k]), zero)
        for k in range(len(row)):
            lines = ((row[k] - size) - right[k]) * slope
            result[k] = fast_exp32(max(-row[k], lowest)) - lines + one


@compiled(fastmath=REASSOCIATE)
def _add_differences(A, W, start, D):
    """Add |x - w| of columns from `start` on: |w|, and |x - w| - |w| only where x is not 0."""
    sizes = np.zeros(W.shape[1], W.dtype)
    for j in range(start, len(W)):
        sizes += np.abs(W[j])
    for i in range(len(A)):
        row = D[i]
        for k in range(len(row)):
            row[k] += sizes[k]
        for j in range(start, len(W)):
            x, w = A[i, j], W[j]
            if x != 0.0:
                for k in range(len(row)):
                    row[k] += abs(x - w[k]) - abs(w[k])


@compiled
def _tile(A, B, a, b, squares, slope, n_full, D, K):
    """Kernel values of some rows with others, in the memory of K; later columns are mostly 0."""
    shape = len(A), len(B)
    D, K = D[: len(A) * len(B)].reshape(shape), K[: len(A) * len(B)].reshape(shape)
    if squares:
        np.dot(A, B.T, D)
    else:
        W = np.ascontiguousarray(B.T)
        _manhattan(np.ascontiguousarray(A[:, :n_full]), W[:n_full], D, False)
        if n_full < len(W):
            _add_differences(A, W, n_full, D)
    _to_values(D, squares, a, b, slope, K)
    return K


@compiled(fastmath=REASSOCIATE)
def _add(K, V, out):
    """Add K V."""
    if V.shape[1] > 1:
        out += np.dot(K, V)
        return
    for i in range(len(K)):
        row, total = K[i], K.dtype.type(0.0)
        for k in range(len(row)):
            total += row[k] * V[k, 0]
        out[i, 0] += total


@compiled
def _add_transposed(K, V, out):
    """Add K' V."""
    if V.shape[1] > 1:
        out += np.dot(K.T, V)
        return
    for i in range(len(K)):
        row, v = K[i], V[i, 0]
        for k in range(len(row)):
            out[k, 0] += row[k] * v


@compiled
def _multiply(A, B, a, b, squares, slope, n_full, V, start, stop, same, D, K, out):
    """Add the kernel values of the rows of A from `start` to `stop` with B, times V.

    If B is A (`same`), only columns from `start` on are computed, and each tile is used twice: as
    it is, and transposed for the rows below.
    """
    for i in range(start, stop, _TILE):
        rows = slice(i, min(i + _TILE, stop))
        for j in range(i if same else 0, len(B), _TILE):
            columns = slice(j, min(j + _TILE, len(B)))
            tile = _tile(A[rows], B[columns], a[rows], b[columns], squares, slope, n_full, D, K)
            _add(tile, V[columns], out[i - start : rows.stop - start])
            if same and j > i:
                _add_transposed(tile, V[rows], out[j - start : columns.stop - start])


def _parts(geometry, A, B, V, team, rows, same=False):
    """Yield the products of tasks of so many rows, in their order."""
    kernel, V = geometry.kernel, np.ascontiguousarray(V)
    zeros = (B == 0.0).mean(axis=0) >= _ZEROS
    order = np.argsort(zeros, kind="stable")
    A, B = (np.ascontiguousarray(part[:, order], np.float32) for part in (A, B))
    sizes = (kernel.sizes(A), kernel.sizes(B))
    slope = np.float32(geometry.slope)
    fixed = A, B, *sizes, kernel.power == 2, slope, len(zeros) - zeros.sum(), V

    def task(start):
        stop = min(start + rows, len(A))
        memory = [
            team.memory((_TILE * _TILE,), part.dtype, use)
            for part, use in ((A, "distances"), (V, "values"))
        ]
        out = np.zeros(((len(A) if same else stop) - start, V.shape[1]))
        _multiply(*fixed, start, stop, same, *memory, out)
        return out

    return team.each(task, range(0, len(A), rows), ahead=4)


def times(geometry, A, B, V, team, rows=_ROWS):
    """The kernel values of rows of A with those of B, times V: shape (len(A), n_outputs)."""
    return np.concatenate(list(_parts(geometry, A, B, V, team, rows)))


def symmetric(geometry, A, V, team):
    """The same for A with itself, by half of the values."""
    total = np.zeros(V.shape)
    for i, part in enumerate(_parts(geometry, A, A, V, team, _PANEL, same=True)):
        total[i * _PANEL :] += part
    return total
