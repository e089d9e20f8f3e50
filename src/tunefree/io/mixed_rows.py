"""What tables of cells and tables of typed columns have in common: bad rows, and the result."""

import numpy as np

from tunefree.io import Table
from tunefree.io.cells import WORDS
from tunefree.io.layout import TARGET, WEIGHT, unnamed
from tunefree.io.table import LONGEST_LABEL


def table_of(columns, names, kinds, y, weight, layout, path, kept):
    """A `Table` of columns: an array if all are numbers; `kept` are its rows, or None for all."""
    import pyarrow as pa

    if kept is not None:
        columns = [c.take(pa.array(kept)) for c in columns]
        y, weight = (None if a is None else a[kept] for a in (y, weight))
    if set(kinds) == {"number"}:
        X = np.column_stack([c.to_numpy(zero_copy_only=False) for c in columns]).astype(np.float64)
    else:
        X = pa.table(columns, names=names)
    return Table(
        X, y, weight, layout.feature_names, path, target=layout.find(TARGET),
        weight_column=layout.find(WEIGHT), kinds=list(kinds),
    )  # fmt: skip


def feature_order(layout):
    """Positions of the features in their order, and their names."""
    order = np.argsort(layout.slots, kind="stable")
    places = order[layout.slots[order] >= 0].tolist()
    return places, layout.feature_names or [unnamed(place) for place in places]


class Faults:
    """Cells that no row can be learned from: the first is an error, or their rows are left out.

    Parameters
    ----------
    skipped : Skipped or None
    at : callable
        (row, position of the column, words) -> DataError
    """

    def __init__(self, rows, skipped, at):
        self.rows, self.skipped, self.at, self.found = rows, skipped, at, []

    def add(self, bad, position, words):
        """Note the rows in which a column is bad; `words` are those for the first of them."""
        for row in np.flatnonzero(bad).tolist():
            self.found.append((row, position, words))

    def kept(self):
        """Which rows are sound, or None if all are."""
        if not self.found:
            return None
        first = self.at(*min(self.found, key=lambda f: f[:2]))
        if self.skipped is None:
            raise first
        bad = np.unique([row for row, _, _ in self.found])
        self.skipped.add(first, len(bad))
        return np.setdiff1d(np.arange(self.rows), bad)


def _shown(raw):
    raw = raw.strip()
    return repr(raw if len(raw) <= 40 else raw[:37] + "...")


def cell_words(kind, trained):
    """What to say of a cell of a feature that is not of its kind."""
    if trained:
        names = {"number": "numbers", "truth": "truth values", "date": "dates"}
        return lambda raw: (
            f"{_shown(raw)} is {WORDS[kind]}, and the model has learned {names[kind]}"
        )
    return lambda raw: f"{WORDS[kind]}: {_shown(raw)}; leave a cell empty whose value is missing"


def target_words(raw):
    """What to say of a target that is none."""
    if not raw.strip():
        return "the cell is empty: the row has no target"
    return f"not a finite number: {_shown(raw)}"


def long_words(raw):
    """What to say of a class with an endless name."""
    return f"a target of more than {LONGEST_LABEL} bytes: {_shown(raw)}"


def weight_words(raw):
    """What to say of a weight that is none."""
    return (
        f"no weight: {_shown(raw)}" if raw.strip() else "the cell is empty: the row has no weight"
    )
