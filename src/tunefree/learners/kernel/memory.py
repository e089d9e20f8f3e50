r"""Bytes that ways of a fit take at the peak, beside the data, and what of them a limit allows.

Each way is counted by its large arrays: matrices of :math:`n^2` or :math:`m^2` numbers that are
alive at once, blocks of every thread, and arrays of all rows. What a count leaves out, columns of
parameters and single tiles, is less than a few megabytes.
"""

from typing import NamedTuple

import numpy as np

from tunefree._process import amount
from tunefree.learners.kernel.full import NEAR
from tunefree.learners.kernel.nystroem import cells

# Threads that a limit counts with, and one more for so many bytes of it.
_THREADS, _MORE = 2, 1e9
# What is small, in all.
_SMALL = 4e6


class MemoryBudget(NamedTuple):
    """The shape of a fit, and the bytes that it may take.

    Attributes
    ----------
    n, d, q, k : int
        Rows, columns, coordinates of the view and outputs.
    size : int
        Bytes of a number of the rows.
    vectors : int
        How many vectors of all rows' targets a solution keeps.
    bytes : float
        Allowed.

    Examples
    --------
    >>> room = Room(5000, 10, 10, 1, 8, 20, 1e8)
    >>> room.allows(room.exact(5000, 1000)), room.most(room.landmarks, 4000)
    (False, 869)
    """

    n: int
    d: int
    q: int
    k: int
    size: int
    vectors: int
    bytes: float = np.inf

    @property
    def threads(self):
        """How many threads there may be: sizes do not depend on how many there are."""
        return int(_THREADS + min(self.bytes, 1e12) // _MORE)

    @property
    def given(self):
        """Of the rows as arrays, in the order of learning and as the view's knots."""
        return 4.0 * self.n * self.d * self.size

    @property
    def rows(self):
        """Of all rows, whatever way is gone: as given, as coordinates and placed, and targets."""
        placed = 4.0 * self.n * self.q * self.size
        return _SMALL + self.given + placed + 8.0 * self.n * self.k * self.vectors

    def search(self, m):
        """Of the evidence of m rows: four matrices in single precision, three in double."""
        return 40.0 * m**2

    def exact(self, n, held):
        """Of n rows' matrix and its factor, and of the inverse for the rows held and its root."""
        products = 8.0 * self.threads * held * max(held / 8, 256)
        return 16.0 * (n**2 + held**2) + products

    def matrix(self, size):
        """Of all rows' matrix, its factor for the log loss, an earlier one and what is copied."""
        return 4.0 * size * self.n**2

    def landmarks(self, m):
        """Of m landmarks: bases, sums, an eigendecomposition; in threads blocks and their sums."""
        threads = self.threads
        sums, blocks = max(64.0, 24.0 + 16.0 * threads), 24.0 * threads * cells(m, self.n)
        return sums * m**2 + blocks + 310.0 * (m + 2000.0) * self.k

    def tiles(self, m):
        """Of all rows that m landmarks lead: theirs, blocks of rows, and sums that wait."""
        near = min(NEAR, m)
        blocks = 8.0 * near * (self.n + 4.0 * self.threads * near)
        return self.landmarks(m) + blocks + 8.0 * self.n * self.k * (2 * self.threads + 1)

    def compression(self, m):
        """Of m candidates' matrix and basis, and of as many rows that judge."""
        return 40.0 * m**2

    def permutation_effects(self, m, n):
        """Of m rows' kernel values with n, before and after columns are changed."""
        return 28.0 * m * n

    def allows(self, way):
        """Whether a way's bytes are within what is allowed."""
        return self.rows + way <= self.bytes

    def most(self, way, n):
        """The largest number up to n whose way is allowed, or 0."""
        low, high = 0, int(n) + 1
        if self.bytes == np.inf or self.allows(way(n)):
            return int(n)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.allows(way(middle)) else (low, middle)
        return low

    def check(self, least, name):
        """Refuse what does not allow the least way."""
        if not self.allows(least):
            raise MemoryError(
                f"max_memory={amount(self.bytes)} is too little: {name} takes at least "
                f"{amount(self.rows + least)} beside these data. Give fewer columns or landmarks."
            )
