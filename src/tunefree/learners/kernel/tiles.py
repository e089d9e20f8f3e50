"""Products of kernel matrices of many rows with vectors, by tiles that are gone before the next.

Kernel values are in single precision, sums in that of the vectors. A thread's work is one compiled
function, which asks for Python's lock neither between tiles nor within them: two threads that hand
each other the lock many times in a millisecond are no quicker than one. Tiles have a fixed size and
sums a fixed order, so that results do not depend on the number of threads.
"""

import numpy as np

from tunefree._jit import REASSOCIATE, fast_exp32
from tunefree._jit import kernel as compiled
from tunefree.kernels import _manhattan

# Rows of a tile, of a piece of work, and of one with all the rows that follow.
_TILE, _ROWS, _PANEL = 256, 512, 1024


@compiled
def _turned(D, squares, left, right, slope, out):
    """Inner products, if they are to be squares, or distances become kernel values."""
    zero, one, lowest = np.float32(0.0), np.float32(1.0), np.float32(-87.0)
    for i in range(len(D)):
        row, to, size = D[i], out[i], left[i]
        if squares:
            for k in range(len(row)):
                row[k] = max(size + right[k] - (row[k] + row[k]), zero)
        for k in range(len(row)):
            lines = ((row[k] - size) - right[k]) * slope
            to[k] = fast_exp32(max(-row[k], lowest)) - lines + one


@compiled
def _tile(A, B, a, b, squares, slope, D, K):
    """Kernel values of some rows with others, in the memory of K."""
    shape = len(A), len(B)
    D, K = D[: len(A) * len(B)].reshape(shape), K[: len(A) * len(B)].reshape(shape)
    if squares:
        np.dot(A, B.T, D)
    else:
        _manhattan(A, np.ascontiguousarray(B.T), D, False)
    _turned(D, squares, a, b, slope, K)
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
def _add_turned(K, V, out):
    """Add K' V."""
    if V.shape[1] > 1:
        out += np.dot(K.T, V)
        return
    for i in range(len(K)):
        row, v = K[i], V[i, 0]
        for k in range(len(row)):
            out[k, 0] += row[k] * v


@compiled
def _seen(A, B, a, b, squares, slope, V, start, stop, same, D, K, out):
    """Add what rows from `start` to `stop` of A see of B, or where B is A, of what follows.

    Those that follow then see these, too.
    """
    for i in range(start, stop, _TILE):
        rows = slice(i, min(i + _TILE, stop))
        for j in range(i if same else 0, len(B), _TILE):
            some = slice(j, min(j + _TILE, len(B)))
            tile = _tile(A[rows], B[some], a[rows], b[some], squares, slope, D, K)
            _add(tile, V[some], out[i - start : rows.stop - start])
            if same and j > i:
                _add_turned(tile, V[rows], out[j - start : some.stop - start])


def _pieces(geometry, A, B, V, team, rows, same=False):
    """Yield what pieces of so many rows see, in their order."""
    A, B = (np.ascontiguousarray(part, np.float32) for part in (A, B))
    kernel, V = geometry.kernel, np.ascontiguousarray(V)
    known = A, B, kernel.sizes(A), kernel.sizes(B), kernel.power == 2, np.float32(geometry.slope), V

    def piece(start):
        stop = min(start + rows, len(A))
        memory = [
            team.memory((_TILE * _TILE,), part.dtype, use)
            for part, use in ((A, "distances"), (V, "values"))
        ]
        out = np.zeros(((len(A) if same else stop) - start, V.shape[1]))
        _seen(*known, start, stop, same, *memory, out)
        return out

    return team.each(piece, range(0, len(A), rows), ahead=4)


def times(geometry, A, B, V, team, rows=_ROWS):
    """The kernel values of rows of A with those of B, times V: shape (len(A), n_outputs)."""
    return np.concatenate(list(_pieces(geometry, A, B, V, team, rows)))


def symmetric(geometry, A, V, team):
    """The same of A with itself, by half the values."""
    total = np.zeros(V.shape)
    for i, found in enumerate(_pieces(geometry, A, A, V, team, _PANEL, same=True)):
        total[i * _PANEL :] += found
    return total
