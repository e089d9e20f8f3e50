r"""The memory of a fit at its peak, in addition to the data, and sizes that fit a limit.

Each solver is counted by its large arrays: matrices of :math:`n^2` or :math:`m^2` numbers that are
alive at once, blocks of every thread, and arrays of all rows. Not counted are columns of parameters
and single tiles, less than a few megabytes.
"""

from typing import NamedTuple

import numpy as np

from tunefree._process import amount
from tunefree.learners.kernel.full import NEAR
from tunefree.learners.kernel.nystroem import cells

# Threads that are planned for, and one more for every so many bytes of the limit.
_THREADS, _MORE = 2, 1e9
# Bytes of all small arrays.
_SMALL = 4e6


class MemoryBudget(NamedTuple):
    """The shape of a fit, and the bytes that it may take.

    Methods with the name of a step or a solver give its bytes.

    Examples
    --------
    >>> budget = MemoryBudget(5000, 10, 10, 1, 8, 20, 1e8)
    >>> budget.allows(budget.exact(5000, 1000)), budget.most(budget.landmarks, 4000)
    (False, 869)
    """

    n: int  # rows
    d: int  # columns
    q: int  # coordinates of the view
    k: int  # outputs
    size: int  # bytes of a number of the rows
    vectors: int  # how many vectors of all rows' targets a solution keeps
    bytes: float = np.inf  # the limit

    @property
    def threads(self):
        """The threads that are planned for; sizes do not depend on how many there really are."""
        return int(_THREADS + min(self.bytes, 1e12) // _MORE)

    @property
    def given(self):
        """Bytes of the rows as arrays, in the order of learning and as the view's knots."""
        return 4.0 * self.n * self.d * self.size

    @property
    def rows(self):
        """Bytes of all rows with any solver: as given, as coordinates, transformed, and targets."""
        transformed = 4.0 * self.n * self.q * self.size
        return _SMALL + self.given + transformed + 8.0 * self.n * self.k * self.vectors

    def search(self, m):
        """The evidence of m rows: four matrices in single precision, three in double."""
        return 40.0 * m**2

    def exact(self, n, held):
        """The matrix of n rows and its factor, the inverse for held-out rows and its root."""
        products = 8.0 * self.threads * held * max(held / 8, 256)
        return 16.0 * (n**2 + held**2) + products

    def matrix(self, size):
        """For the log loss: the matrix of all rows, its factor, an earlier one, and a copy."""
        return 4.0 * size * self.n**2

    def landmarks(self, m):
        """M landmarks: bases, sums, an eigendecomposition; each thread's block and sums."""
        threads = self.threads
        sums, blocks = max(64.0, 24.0 + 16.0 * threads), 24.0 * threads * cells(m, self.n)
        return sums * m**2 + blocks + 310.0 * (m + 2000.0) * self.k

    def tiles(self, m):
        """All rows with a preconditioner of m landmarks: these, blocks of rows, pending sums."""
        near = min(NEAR, m)
        blocks = 8.0 * near * (self.n + 4.0 * self.threads * near)
        return self.landmarks(m) + blocks + 8.0 * self.n * self.k * (2 * self.threads + 1)

    def compression(self, m):
        """The matrix and basis of m candidates, and as many rows for the evaluation."""
        return 40.0 * m**2

    def permutation_effects(self, m, n):
        """Kernel values of m rows with n, before and after columns are permuted."""
        return 28.0 * m * n

    def allows(self, needed):
        """Whether so many bytes fit the limit, together with those of the rows."""
        return self.rows + needed <= self.bytes

    def most(self, needed, n):
        """The largest m up to n for which `needed(m)` bytes are allowed, or 0."""
        low, high = 0, int(n) + 1
        if self.bytes == np.inf or self.allows(needed(n)):
            return int(n)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.allows(needed(middle)) else (low, middle)
        return low

    def check(self, least, name):
        """Raise MemoryError if not even the `least` bytes of any solver are allowed."""
        if not self.allows(least):
            raise MemoryError(
                f"max_memory={amount(self.bytes)} is too little: {name} takes at least "
                f"{amount(self.rows + least)} in addition to the data. Give fewer columns or "
                "landmarks."
            )
