"""Which columns of sparse rows are compared for drift: those with most entries, and their number.

Columns that are chosen for their many entries would have fewer in new rows, by chance alone. So
every second row chooses the columns, and the others are the reference.
"""

from typing import NamedTuple

import numpy as np

_MOST = 50
ENTRIES = "non-zeros in a row"


class SparseNames(NamedTuple):
    """The names of sparse columns: a word and a number.

    >>> names = SparseNames.of({"zero_based": False})
    >>> names.name(0), names.place("feature 1")
    ('feature 1', 0)
    """

    word: str
    first: int  # the number of the first column

    @classmethod
    def of(cls, notes):
        """By the notes about the data: features of libsvm, hashed columns, or columns."""
        if notes.get("hashed"):
            return cls("hash", 0)
        zero_based = notes.get("zero_based")
        if isinstance(zero_based, bool):
            return cls("feature", 0 if zero_based else 1)
        return cls("column", 1)

    def name(self, place):
        """The name of a column."""
        return f"{self.word} {place + self.first}"

    def place(self, name):
        """The place of a column with this name."""
        return int(name.rpartition(" ")[2]) - self.first


def reference_columns(X, names):
    """The columns of a reference as arrays by name, of CSR rows."""
    if X.shape[1] <= _MOST:
        return _arrays(X, range(X.shape[1]), names)
    counts = _entries_of_columns(X[::2])
    most = np.argsort(-counts, kind="stable")[:_MOST]
    return _arrays(X[1::2], np.sort(most[counts[most] > 0]).tolist(), names)


def columns_like(reference, X, names):
    """The columns that a reference has, of CSR rows."""
    places = [names.place(name) for name in reference.facts["columns"] if name != ENTRIES]
    return _arrays(X, [place for place in places if 0 <= place < X.shape[1]], names)


def _entries_of_columns(X):
    return np.bincount(X.indices[X.data != 0.0], minlength=X.shape[1])


def _arrays(X, places, names):
    """Some columns, and how many non-zeros each row has."""
    values = X.tocsc()[:, list(places)].toarray()
    found = {names.name(place): x for place, x in zip(places, values.T, strict=True)}
    is_entry = np.append(0, np.cumsum(X.data != 0.0))
    return found | {ENTRIES: np.diff(is_entry[X.indptr]).astype(float)}
