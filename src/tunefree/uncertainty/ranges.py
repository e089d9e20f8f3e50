"""The range of targets, which their intervals keep: not negative, shares, whole numbers.

An interval is first widened to contain its prediction, then limited to the range. Both leave every
possible target inside that was inside before, so that coverage does not fall: a new target beyond
the range of n exchangeable ones has a probability of at most 2 / (n + 1).
"""

from typing import NamedTuple, Self

import numpy as np

# An end so near to a whole number, relative to its size, is that number up to rounding.
_ROUNDING = 1e-9
# Above it there are no numbers between the whole ones.
_LARGEST = 2.0**52


class TargetRange(NamedTuple):
    """What all targets have in common.

    Examples
    --------
    >>> TargetRange.of(np.array([0.0, 3.0, 1.0]))
    TargetRange(low=0.0, high=inf, whole=True)
    >>> TargetRange.of(np.array([0.2, 0.9]))
    TargetRange(low=0.0, high=1.0, whole=False)
    >>> TargetRange.of(np.array([-1.0, 2.0]))
    TargetRange(low=-inf, high=inf, whole=False)
    """

    low: float = -np.inf
    high: float = np.inf
    whole: bool = False  # whether they are counts

    @classmethod
    def of(cls, targets) -> Self:
        """The range of targets of shape (n,); without targets there is no limit."""
        if not len(targets) or not targets.min() >= 0.0:
            return cls()
        high = 1.0 if targets.max() <= 1.0 else np.inf
        are_small = targets.max() < _LARGEST
        return cls(0.0, high, bool(are_small and (targets == np.round(targets)).all()))

    def joined(self, low: float, high: float) -> Self:
        """The range of these targets and of others, which lie from `low` to `high`."""
        if low < self.low:
            return type(self)()
        return self if high <= self.high else self._replace(high=np.inf)

    def of_intervals(self, ends: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        """Intervals (n, 2, n_alpha) that contain their predictions (n,), within the range.

        Counts end on the first and the last whole number of the interval, or on those next to the
        prediction if these are farther out. A prediction beyond the range is not inside.

        Examples
        --------
        >>> ends = np.array([[[-0.8], [2.6]], [[0.2], [0.4]]])
        >>> TargetRange(0.0, np.inf, True).of_intervals(ends, np.array([0.3, 0.6]))[..., 0]
        array([[0., 2.],
               [0., 1.]])
        """
        low, high = ends[:, 0], ends[:, 1]
        middle = predictions[:, None].astype(np.float64)
        least, most = middle, middle
        if self.whole:
            low = np.ceil(low - _ROUNDING * np.maximum(1.0, np.abs(low)))
            high = np.floor(high + _ROUNDING * np.maximum(1.0, np.abs(high)))
            least, most = np.floor(middle), np.ceil(middle)
        inside = np.stack([np.minimum(low, least), np.maximum(high, most)], axis=1)
        return np.clip(inside, self.low, self.high) + 0.0  # no end is -0
