"""Spaces: what a separating learner may do with the signed rows Z_i = y_i x_i.

A learner reaches the rows only through ``push`` (Z x), ``pull`` (Z' p) and ``dot``. `Linear` keeps
a vector as its coordinates; `Gram` keeps it as the pair (p, Q p) with Q_ij = y_i y_j K(x_i, x_j),
so that every algorithm written for rows runs on a kernel matrix, with one product an iteration.
"""

from typing import NamedTuple

import numpy as np

from tunefree._jit import Kernel, part
from tunefree.designs import count, entry, index

# Twice the unit roundoff: bounds that use it leave a factor of two for the rounding of the bounds.
EPS = float(np.finfo(np.float64).eps)


@Kernel
def _squared_norms(design, out):
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(count(design, i)):
            total += entry(design, i, k) * entry(design, i, k)
        out[i] = total


@Kernel
def _row_products(design, rows, j, buffer, out):
    """out[k] = row rows[k] times row j; the buffer (zeros, one a column) comes back as zeros."""
    for k in range(count(design, j)):
        buffer[index(design, j, k)] += entry(design, j, k)
    for i in range(rows.shape[0]):
        total = 0.0
        for k in range(count(design, rows[i])):
            total += entry(design, rows[i], k) * buffer[index(design, rows[i], k)]
        out[i] = total
    for k in range(count(design, j)):
        buffer[index(design, j, k)] = 0.0


class _Rows(NamedTuple):
    matrix: object
    design: object
    signs: np.ndarray
    bias: float

    def push(self, x):
        """Z x."""
        margins = self.matrix @ (x if self.bias == 0.0 else x[:-1])
        if self.bias != 0.0:
            margins += self.bias * x[-1]
        margins *= self.signs
        return margins

    def pull(self, p):
        """Z' p."""
        signed = self.signs * p
        x = self.matrix.T @ signed
        return x if self.bias == 0.0 else np.append(x, self.bias * signed.sum())

    def squares(self):
        """The squared norm of each row."""
        out = np.empty(len(self.signs))
        _squared_norms(self.design, out)
        return out + self.bias**2

    def inner(self, rows, j):
        """Z_i Z_j for the rows i."""
        out = np.empty(len(rows))
        _row_products(self.design, rows, j, np.zeros(self.design.shape[1]), out)
        return self.signs[rows] * self.signs[j] * (out + self.bias**2)


@part
class Linear(NamedTuple):
    """Rows as they are: a vector is an array of its coordinates.

    Parameters
    ----------
    bias : float, default=0.0
        Value of one more, constant coordinate (the intercept's); 0 for none.

    Examples
    --------
    >>> from tunefree.engine.sources import Whole
    >>> X, y = np.array([[3.0, 4.0], [1.0, 0.0]]), np.array([[1.0], [-1.0]])
    >>> view = Linear(bias=2.0).view(next(Whole(X, y, np.ones(2)).blocks(0)))
    >>> view.push(np.array([1.0, 0.0, 1.0])), view.pull(np.array([1.0, 1.0]))
    (array([ 5., -3.]), array([2., 4., 0.]))
    """

    bias: float = 0.0

    def view(self, block):
        """The signed rows of a block."""
        # The products of arrays and of SciPy's matrices are written alike; a CSR design would have
        # to make the matrix again for each of them.
        matrix = block.X if block.rows is None else block.X[block.rows]
        return _Rows(matrix, block.design, np.ascontiguousarray(block.targets[:, 0]), self.bias)

    def dot(self, x, y):
        """Inner product."""
        return float(x @ y)

    def norm(self, x, terms=0, radius=0.0):
        """Norm, rounded up (a coordinate vector needs no allowance for cancellation)."""
        return float(np.sqrt(x @ x)) * (1.0 + (len(x) + 4) * EPS)

    def slack(self, x, terms, radius):
        """Largest rounding error of an entry of ``push(x)`` for rows no longer than `radius`."""
        return (len(x) + terms + 4) * EPS * radius * self.norm(x)


class _Matrix(NamedTuple):
    gram: np.ndarray
    signs: np.ndarray
    bias: float

    def push(self, x):
        """Z x."""
        return x[1].copy()

    def pull(self, p):
        """Z' p."""
        signed = self.signs * p
        return np.stack([p, self.signs * (self.gram @ signed + self.bias**2 * signed.sum())])

    def squares(self):
        """The squared norm of each row."""
        return np.diag(self.gram) + self.bias**2

    def inner(self, rows, j):
        """Z_i Z_j for the rows i."""
        return self.signs[rows] * self.signs[j] * (self.gram[rows, j] + self.bias**2)


@part
class Gram(NamedTuple):
    """Rows known by their inner products: a vector is the pair (p, Q p).

    A block's X is the kernel matrix of all rows.

    Parameters
    ----------
    bias : float, default=0.0
        Its square is added to the kernel: the constant feature of the intercept.

    Examples
    --------
    >>> from tunefree.engine.sources import Whole
    >>> K, y = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[1.0], [-1.0]])
    >>> view = Gram().view(next(Whole(K, y, np.ones(2)).blocks(0)))
    >>> x = view.pull(np.array([0.5, 0.5]))
    >>> view.push(x), Gram().dot(x, x)
    (array([0.5, 0.5]), 0.5)
    """

    bias: float = 0.0

    def view(self, block):
        """The signed rows of the block, which must hold all of them."""
        return _Matrix(block.X, block.targets[:, 0], self.bias)

    def dot(self, x, y):
        """Inner product."""
        return float(x[0] @ y[1])

    def norm(self, x, terms=0, radius=0.0):
        """Norm, rounded up: the squared norm is a sum whose terms may cancel."""
        mass = np.abs(x[0]).sum() * radius
        error = (2 * len(x[0]) + terms) * EPS * mass * mass
        return float(np.sqrt(max(x[0] @ x[1], 0.0) + error))

    def slack(self, x, terms, radius):
        """Largest rounding error of an entry of ``push(x)``."""
        return (len(x[0]) + terms + 4) * EPS * radius * radius * np.abs(x[0]).sum()
