"""An even sample of the rows of a pass, drawn by their numbers.

Each row number has a hash, and the rows with the smallest hashes are kept: the sample depends on
the rows only, whatever the chunks are and wherever reading was interrupted. This is sampling
without replacement by random keys.

Source: Efraimidis, Spirakis 2006, "Weighted random sampling with a reservoir" (equal weights).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.engine.sources.source import widened
from tunefree.rows.matrices import stacked
from tunefree.rows.order import scramble

_NONE_SO_HIGH = np.uint64(2**64 - 1)
_ODD = np.uint64(0x9E3779B97F4A7C15)  # SplitMix64


def row_keys(start, stop):
    """The random keys of the rows with these numbers: 64 bits each, all different.

    >>> bool((row_keys(0, 9)[4:6] == row_keys(4, 6)).all())
    True
    """
    return scramble(np.arange(start + 1, stop + 1, dtype=np.uint64) * _ODD, 0)


class RowSample:
    """At most so many rows of a pass, drawn evenly.

    Parameters
    ----------
    most : int
    most_columns : int
        Of dense rows with more columns nothing is kept.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(100.0)[:, None]
    >>> one, other = RowSample(5, 9), RowSample(5, 9)
    >>> one.add(X, 0)
    >>> other.add(X[:37], 0)
    >>> other.add(X[37:], 37)
    >>> len(one.rows()), bool((one.rows() == other.rows()).all())
    (5, True)
    """

    def __init__(self, most: int, most_columns: int):
        self.most, self.most_columns = most, most_columns
        self._held = _Held(0, (), 0, _NONE_SO_HIGH)  # replaced at once: a signal may come between

    @property
    def n_seen(self) -> int:
        """The number of rows from which the sample is drawn."""
        return self._held.n_seen

    def add(self, X: Any, start: int) -> None:
        """Rows from number `start` on; those that do not continue what was seen are passed over.

        So a second pass adds nothing.
        """
        held = self._held
        n_known, stop = held.n_seen - start, start + X.shape[0]
        if not 0 <= n_known < X.shape[0]:
            return
        keys = row_keys(held.n_seen, stop)
        drawn = np.flatnonzero(keys <= held.highest)
        is_kept = sparse.issparse(X) or X.shape[1] <= self.most_columns
        parts = held.parts
        if len(drawn) and is_kept:
            parts = (*parts, (keys[drawn], drawn + held.n_seen, X[drawn + n_known]))
        more = held._replace(n_seen=stop, parts=parts, n_rows=held.n_rows + len(drawn))
        self._held = more.cut(self.most) if more.n_rows > 2 * self.most else more

    def rows(self) -> Any:
        """The sample in the order of the rows: ndarray or CSR of shape (n, d); None without any."""
        parts = self._held.cut(self.most).parts
        if not parts:
            return None
        _, numbers, X = parts[0]
        return X[np.argsort(numbers)]

    @property
    def state(self) -> tuple:
        """What a checkpoint saves."""
        return tuple(self._held.cut(self.most))

    def resume(self, state: tuple) -> None:
        """Continue from a `state`."""
        self._held = _Held(*state)


class _Held(NamedTuple):
    """What a sample keeps."""

    n_seen: int
    parts: tuple  # of (keys, numbers, rows)
    n_rows: int
    highest: Any  # rows with larger keys are not drawn

    def cut(self, most):
        """The rows with the smallest keys, as one part."""
        if not self.parts:
            return self._replace(n_rows=0)
        keys, numbers = (np.concatenate([part[k] for part in self.parts]) for k in (0, 1))
        X = [part[2] for part in self.parts]
        width = max(rows.shape[1] for rows in X)
        X = stacked([widened(rows, width) for rows in X])
        kept = np.argsort(keys)[:most]
        highest = keys[kept[-1]] if len(kept) == most else self.highest
        return _Held(self.n_seen, ((keys[kept], numbers[kept], X[kept]),), len(kept), highest)
