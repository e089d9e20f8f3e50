r"""A kernel with a rate for each column.

The kernel is :math:`k(x, z) = e^{-D} + \beta\,(b(x) + b(z) - D) + 1` with the distance
:math:`D = \sum_j S_j |x_j - z_j|^p` and :math:`b(x) = \sum_j S_j |x_j|^p`: a product kernel, an
additive one and a constant. The middle term is positive definite: for p = 1 it is a sum of
Brownian motions (piecewise linear functions of single columns), for p = 2 the linear kernel. Its
cost is negligible once D is known.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import REASSOCIATE, fast_exp, fast_exp32, maximum
from tunefree.core.jit import kernel as compiled
from tunefree.kernels.factors import parts_of
from tunefree.kernels.kernels import HALVED


# Kernel values in place of distances, in one sweep.
@compiled(borrows=True, unrolls=False)
def _values32(D, left, right, slope):
    one, lowest = np.float32(1.0), np.float32(-87.0)
    for i in range(len(D)):
        row, size = D[i], left[i]
        for k in range(len(row)):
            lines = ((row[k] - size) - right[k]) * slope
            row[k] = fast_exp32(maximum(-row[k], lowest)) - lines + one


@compiled(borrows=True, unrolls=False)
def _values64(D, left, right, slope):
    for i in range(len(D)):
        row, size = D[i], left[i]
        for k in range(len(row)):
            lines = ((row[k] - size) - right[k]) * slope
            row[k] = fast_exp(maximum(-row[k], -700.0)) - lines + 1.0


@compiled(fastmath=REASSOCIATE)
def _distance(a, b, squares):
    """The distance of two rows, and the sum of their sizes."""
    distance = sizes = 0.0
    if squares:
        for k in range(len(a)):
            distance += (a[k] - b[k]) ** 2
            sizes += a[k] * a[k] + b[k] * b[k]
    else:
        for k in range(len(a)):
            distance += abs(a[k] - b[k])
            sizes += abs(a[k]) + abs(b[k])
    return distance, sizes


@compiled
def _add_products(A, B, squares, slope, coef, out):
    """Add the kernel values of rows A with rows B, times coefficients."""
    for i in range(len(A)):
        for j in range(len(B)):
            distance, sizes = _distance(A[i], B[j], squares)
            value = fast_exp(maximum(-distance, -700.0)) - (distance - sizes) * slope + 1.0
            for c in range(coef.shape[1]):
                out[i, c] += value * coef[j, c]


class Geometry(NamedTuple):
    """A kernel with a rate for each column."""

    kernel: Any  # `kernels.RBF` (p = 2) or `kernels.Laplacian` (p = 1) with gamma = 1
    rates: np.ndarray
    slope: float
    penalty: float

    def show(self, Z):
        """Rows in the units of the kernel, so that every rate is 1."""
        return Z * (self.rates ** (1.0 / self.kernel.power)).astype(Z.dtype)

    def gram(self, A, B, out=None):
        """Kernel values of rows in these units, shape (n, m)."""
        a, b = self.kernel.sizes(A), self.kernel.sizes(B)
        D = self.kernel.distances(A, B, a, b, out)
        to_values = _values32 if D.dtype == np.float32 else _values64
        to_values(D, a, b, D.dtype.type(self.slope))
        return D

    def products(self, A, B, coef):
        """`gram(A, B) @ coef` in double precision, for few rows A, without the matrix."""
        A, B, coef = (np.ascontiguousarray(part, np.float64) for part in (A, B, coef))
        out = np.zeros((len(A), coef.shape[1]))
        if A.shape[1] != B.shape[1] or len(B) != len(coef):
            raise ValueError(f"Rows of {A.shape[1]} columns do not fit landmarks of {B.shape[1]}.")
        _add_products(A, B, self.kernel.power == 2, float(self.slope), coef, out)
        return out

    def onnx(self, g, X):
        """Rows in the units of the kernel, as nodes of a graph."""
        return g("Mul", X, self.rates ** (1.0 / self.kernel.power))

    def onnx_values(self, g, X, B):
        """Kernel values of rows in these units with those of the array B, as nodes of a graph."""
        E, lines = self.kernel.onnx(g, X, B), self.kernel.onnx_lines(g, X, B)
        return g("Add", g("Add", E, 1.0), g("Mul", lines, float(self.slope)))


def against_all(kernel, A):
    """Blocks of rows whose distances to all rows are a task, and their places."""
    if kernel.power == 1 and A.shape[1] > HALVED:  # half of the distances of A to itself is enough
        return [(A, slice(None))]
    return [(A[part], part) for part in parts_of(len(A))]


def gram(geometry, A, team):
    """Kernel values of transformed rows with themselves."""
    K = np.empty((len(A), len(A)), A.dtype)
    blocks = against_all(geometry.kernel, A)
    team.map(lambda block: geometry.gram(block[0], A, K[block[1]]), blocks)
    return K
