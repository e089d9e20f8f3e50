r"""Margins: spaces of signed rows, and two-sided certificates of the largest margin in them.

A learner reaches the signed rows Z_i = y_i x_i only through ``push`` (Z x), ``pull`` (Z' p) and
``dot``. `LinearRows` keeps a vector as its coordinates; `GramRows` keeps it as the pair (p, Q p)
with Q_ij = y_i y_j K(x_i, x_j), so that every algorithm written for rows runs on a kernel matrix,
with one product an iteration. The maximal margin is a minimax value,

    max_{\|w\| <= 1} min_i Z_i w  =  min_{p in the simplex} \|Z' p\|,

so any w bounds it from below, any distribution p over the rows bounds it from above, and the two
vectors are a proof that can be checked with two products.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import kernel, part
from tunefree.rows.designs import count, design_of, entry, index

# Twice the unit roundoff: a factor of two for the rounding of the bounds themselves.
EPS = float(np.finfo(np.float64).eps)


@kernel
def _squared_norms(design, out):
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(count(design, i)):
            total += entry(design, i, k) * entry(design, i, k)
        out[i] = total


@kernel
def _row_products(design, rows, j, buffer, out):
    """out[k] = row rows[k] times row j; the buffer (one number a column) is 0 before and after."""
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
    """What views of both spaces offer: Z x, Z' p, squared norms, and Z_i Z_j for rows i."""

    matrix: Any
    design: Any
    signs: np.ndarray
    bias: float

    def push(self, x):
        margins = self.matrix @ (x if self.bias == 0.0 else x[:-1])
        if self.bias != 0.0:
            margins += self.bias * x[-1]
        margins *= self.signs
        return margins

    def pull(self, p):
        signed = self.signs * p
        x = self.matrix.T @ signed
        return x if self.bias == 0.0 else np.append(x, self.bias * signed.sum())

    def squares(self):
        out = np.empty(len(self.signs))
        _squared_norms(self.design, out)
        return out + self.bias**2

    def inner(self, rows, j):
        out = np.empty(len(rows))
        _row_products(self.design, rows, j, np.zeros(self.design.shape[1]), out)
        return self.signs[rows] * self.signs[j] * (out + self.bias**2)


@part
class LinearRows(NamedTuple):
    """Rows as they are: a vector is the array of its coordinates; `bias` is one more coordinate."""

    bias: float = 0.0

    def view(self, block):
        """The signed rows of a block."""
        # Arrays and SciPy matrices have the same products; a CSR design would make the matrix again
        # for each product.
        matrix = block.X if block.rows is None else block.X[block.rows]
        signs = np.ascontiguousarray(block.targets[:, 0])
        return _Rows(matrix, design_of(matrix), signs, self.bias)

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
        return x[1].copy()

    def pull(self, p):
        signed = self.signs * p
        return np.stack([p, self.signs * (self.gram @ signed + self.bias**2 * signed.sum())])

    def squares(self):
        return np.diag(self.gram) + self.bias**2

    def inner(self, rows, j):
        return self.signs[rows] * self.signs[j] * (self.gram[rows, j] + self.bias**2)


@part
class GramRows(NamedTuple):
    """Rows given by their inner products (a block's X): a vector is the pair (p, Q p).

    The square of `bias` is added to the kernel: the constant feature of the intercept.
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


@kernel
def tally(margins, weights):
    """The smallest margin of a row with a weight, and the weight of the rows with a mistake."""
    least, errors = np.inf, 0.0
    for i in range(margins.shape[0]):
        if weights[i] > 0.0:
            least = min(least, margins[i])
            if margins[i] <= 0.0:
                errors += weights[i]
    return least, errors


class Certificate(NamedTuple):
    """Bounds of the largest margin so far, with the vectors that prove them.

    `w` attains `lower` or, before there is a separator, makes the fewest errors; `p` attains
    `upper`. The bounds are valid in exact arithmetic.
    """

    lower: float = 0.0
    upper: float = np.inf
    errors: float = np.inf  # weight of the rows that w gets wrong
    w: np.ndarray | None = None
    p: np.ndarray | None = None

    def below(self, space, w, tallied, terms, radius):
        """Update by a predictor whose computed margins have this `tally`."""
        least, errors = tallied
        if least > 0.0:
            norm = space.norm(w, terms, radius)
            lower = (least - space.slack(w, terms, radius)) / norm if norm > 0.0 else 0.0
            if lower > self.lower:
                return self._replace(lower=float(lower), errors=0.0, w=w.copy())
        if self.lower == 0.0 and errors < self.errors:
            return self._replace(errors=errors, w=w.copy())
        return self

    def above(self, space, x, p, terms, radius):
        """Update by a distribution `p` (None if it is not stored) with x = Z' p."""
        upper = space.norm(x, terms, radius) + (terms + 4) * EPS * radius
        if upper < self.upper:
            return self._replace(upper=upper, p=None if p is None else p.copy())
        return self

    @property
    def gap(self):
        """The relative width of the interval."""
        return (self.upper - self.lower) / self.upper if self.upper > 0.0 else 1.0


def certify(space, block, w, p):
    """The `Certificate` of w and p alone, rounding included; p sums to 1."""
    view = space.view(block)
    radius = float(np.sqrt(np.max(view.squares(), where=block.weights > 0.0, initial=0.0)))
    found = Certificate().below(space, w, tally(view.push(w), block.weights), 0, radius)
    return found.above(space, view.pull(p), p, int(np.count_nonzero(p)), radius)


@part
class Goal(NamedTuple):
    """When to stop: at a relative gap of `tol` if `tight`, else at the first separator.

    Also when no separator can have a larger margin than `margin`; None is 1e-4 of the longest row.
    """

    tight: bool = False
    tol: float = 0.01
    margin: float | None = None

    def floor(self, radius):
        """The margin below which no separator is looked for."""
        return 1e-4 * radius if self.margin is None else self.margin

    def reached(self, certificate, radius):
        """Whether a certificate is enough."""
        if certificate.upper <= self.floor(radius) or certificate.upper == 0.0:
            return True
        is_tight_enough = not self.tight or certificate.gap <= self.tol
        return certificate.lower > 0.0 and is_tight_enough
