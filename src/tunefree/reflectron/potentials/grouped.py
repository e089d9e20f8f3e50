"""Potentials of the norms of groups of columns, which are zero or not as a group."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tunefree.reflectron.potentials.vectors import Hypentropy, Potential


@dataclass(frozen=True)
class Grouped(Potential):
    r"""A potential of the Euclidean norms of groups of columns: sparse in groups, not in columns.

    .. math:: \psi(x) = \sum_g \phi(\|x_g\|_2)

    `Spectral` is the same for singular values. The levels of a category are a group: if `groups` is
    empty, the estimators take the columns of a data frame as groups (`grouped_as`).

    Parameters
    ----------
    of : separable potential that keeps signs and zeros, default=Hypentropy()
    groups : tuple of int, default=()
        The group of every column; if empty, every column is a group.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from tunefree.reflectron.potentials import Euclidean
    >>> Grouped(Hypentropy(1.0), (0, 0, 1)).mirror(np.array([3.0, 4.0, 0.0])).round(3)
    array([1.387, 1.85 , 0.   ])
    """

    of: Any = Hypentropy()
    groups: tuple = ()

    def __post_init__(self):
        if not (getattr(self.of, "odd", False) and getattr(self.of, "separable", False)):
            raise ValueError(f"{self.of!r} has no form for groups: give an odd, separable one.")

    def grouped_as(self, groups: tuple) -> "Grouped":
        """The potential with these groups, unless it has groups already."""
        return self if self.groups else Grouped(self.of, groups)

    def _norms(self, x):
        """The norm of every group, and the group of every column."""
        d = x.shape[-1]
        labels = np.arange(d) if not self.groups else np.asarray(self.groups)
        if len(labels) != d:
            raise ValueError(
                f"groups has {len(labels)} numbers, and the rows have {d} columns: give one each."
            )
        _, group = np.unique(labels, return_inverse=True)
        rows = x.reshape(-1, d)
        top = np.max(np.abs(rows), initial=0.0) or 1.0
        squares = [np.bincount(group, np.square(row / top)) for row in rows]
        return top * np.sqrt(np.array(squares)), group

    def _through(self, x, function):
        norms, group = self._norms(x)
        factor = np.divide(function(norms), norms, out=np.zeros_like(norms), where=norms > 0.0)
        return x * factor[:, group].reshape(x.shape)

    def value(self, x: np.ndarray) -> float:
        """psi(x)."""
        return self.of.value(self._norms(x)[0])

    def conjugate(self, w: np.ndarray) -> float:
        """psi*(w)."""
        return self.of.conjugate(self._norms(w)[0])

    def mirror(self, x: np.ndarray) -> np.ndarray:
        """Gradient of psi."""
        return self._through(x, self.of.mirror)

    def inverse(self, w: np.ndarray) -> np.ndarray:
        """Gradient of psi*: undoes `mirror`."""
        return self._through(w, self.of.inverse)
