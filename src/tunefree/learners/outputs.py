"""Outputs: one or many predictions a row, learned side by side from the same entries.

Tables of state have the shape (n_columns, n_fields, n_outputs). With one output the sums live in
registers; with many, the innermost loop runs over outputs that lie next to each other.
"""

from typing import NamedTuple

from tunefree._jit import part, verb
from tunefree.designs import count, entry, index

width = verb("width", 0)
dot, axpy2 = verb("dot", 5), verb("axpy2", 5)


@part
class One(NamedTuple):
    """A single output, known when a kernel is compiled so that its loops vanish."""

    def width(self):
        """How many outputs."""
        return 1

    def dot(self, design, i, table, field, out):
        """out[k] = sum over the entries of row i of entry * table[column, field, k]."""
        total = 0.0
        for p in range(count(design, i)):
            total += entry(design, i, p) * table[index(design, i, p), field, 0]
        out[0] = total

    def axpy2(self, design, i, table, first, second):
        """table[column, 0 and 1, k] += entry * first[k] and second[k] over the entries of row i."""
        a, b = first[0], second[0]
        for p in range(count(design, i)):
            j, v = index(design, i, p), entry(design, i, p)
            table[j, 0, 0] += a * v
            table[j, 1, 0] += b * v


@part
class Many(NamedTuple):
    """Several outputs: classes or targets."""

    n: int

    def width(self):
        """How many outputs."""
        return self.n

    def dot(self, design, i, table, field, out):
        """out[k] = sum over the entries of row i of entry * table[column, field, k]."""
        for k in range(self.n):
            out[k] = 0.0
        for p in range(count(design, i)):
            j, v = index(design, i, p), entry(design, i, p)
            for k in range(self.n):
                out[k] += v * table[j, field, k]

    def axpy2(self, design, i, table, first, second):
        """table[column, 0 and 1, k] += entry * first[k] and second[k] over the entries of row i."""
        for p in range(count(design, i)):
            j, v = index(design, i, p), entry(design, i, p)
            for k in range(self.n):
                table[j, 0, k] += v * first[k]
                table[j, 1, k] += v * second[k]


def outputs(n):
    """`One()` or ``Many(n)``."""
    return One() if n == 1 else Many(n)
