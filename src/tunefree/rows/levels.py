"""Columns of text and categories: codes, levels and indicators."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tunefree.rows.columns import DATE, as_table, must_be_read, names_of
from tunefree.rows.designs import Categorical, Dense, Split
from tunefree.rows.matrices import check_frame
from tunefree.rows.schema import Schema, read_columns


class Coded(NamedTuple):
    """A table with codes for the levels of its columns of text and categories."""

    X: Any  # numbers; -1 is the code of a level that is not known, and of a missing one
    categories: Any  # the levels of every column, None for a column of numbers; None if all are
    schema: Any  # None for a table of numbers by their types


def coded(X, known=None, is_new=True):
    """A table with codes for the levels of its columns of text and categories.

    Parameters
    ----------
    X : table
    known : Coded, optional
        What `coded` has returned for the rows of a fit. By default it is learned.
    is_new : bool, default=True
        Whether rows are new; otherwise they are a part of those of the fit.

    Raises
    ------
    ValueError
        If a column holds dates, or another kind than in the fit.

    Examples
    --------
    >>> import pandas as pd
    >>> coded(pd.DataFrame({"a": ["u", "v", "u"], "b": [1.0, 2.0, 3.0]})).categories
    [array(['u', 'v'], dtype=object), None]
    """
    check_frame(X)
    X = as_table(X)
    if known is None and not must_be_read(X):
        return Coded(X, None, None)
    names = names_of(X)
    labels = [f"x{j}" for j in range(X.shape[1])] if names is None else names
    schema = Schema.of(X, labels, sentinels=False) if known is None else known.schema
    categories: Any = [None] * len(labels)
    if known is not None and known.categories is not None:
        categories = known.categories
    columns, levels = [], []
    read = read_columns(schema, X, is_new=is_new)
    for name, found, own in zip(labels, read, categories, strict=True):
        if found.kind == DATE:
            raise ValueError(f"Column {name!r} of X holds dates: give numbers or text.")
        if found.levels is None:
            columns.append(np.where(found.missing, np.nan, found.values))
            levels.append(None)
            continue
        if known is None:
            own = _used_levels(found)
        place = {level: float(k) for k, level in enumerate(own.tolist())}
        code = [place.get(level, -1.0) for level in found.levels.tolist()]
        columns.append(np.array([*code, -1.0])[found.codes])
        levels.append(own)
    rows = np.column_stack(columns) if names is None else pa.table(columns, names)
    return Coded(rows, levels if any(own is not None for own in levels) else None, schema)


def _used_levels(found):
    """The levels that rows have."""
    return found.levels[np.bincount(found.codes[found.codes >= 0], minlength=len(found.levels)) > 0]


def coded_as(read):
    """What `coded` needs to know of a table in `ReadSummaries`.

    Raises
    ------
    ValueError
        If a column holds dates.
    """
    for name, found in zip(read.schema.names, read.columns, strict=True):
        if found.kind == DATE:
            raise ValueError(f"Column {name!r} of X holds dates: give numbers or text.")
    levels = [None if found.levels is None else _used_levels(found) for found in read.columns]
    return Coded(None, levels if any(own is not None for own in levels) else None, read.schema)


class Levels(NamedTuple):
    """Columns that hold the codes of levels; in a design their indicators follow the numbers.

    `codes` are the positions of these columns and `sizes` their numbers of levels.

    Examples
    --------
    >>> Levels((0,), (2,)).design(np.array([[1.0, 5.0], [0.0, 6.0]])).apply(np.array([1.0, 7, 9]))
    array([14., 13.])
    """

    codes: tuple
    sizes: tuple

    @classmethod
    def of(cls, categories):
        """The columns that have categories; None if there are none."""
        if categories is None:
            return None
        places = [j for j, levels in enumerate(categories) if levels is not None]
        return cls(tuple(places), tuple(len(categories[j]) for j in places))

    def numbers(self, X):
        """The columns of numbers."""
        n_numbers = X.shape[1] - len(self.codes)
        if self.codes == tuple(range(n_numbers, X.shape[1])):
            return X[:, :n_numbers]
        return np.delete(X, self.codes, axis=1)

    def design(self, X, columns=None, own=False):
        """The rows as a design, with numbers in the units of `columns`."""
        numbers = self.numbers(X)
        if columns is not None:
            n = numbers.shape[1]
            numbers = columns._replace(
                centre=columns.centre[:n], scale=columns.scale[:n], levels=None
            ).rows(numbers, own)
        return Split((Dense(numbers), *self.indicators(X)))

    def indicators(self, X):
        """The levels of each column as a design."""
        return [
            Categorical(X[:, j].astype(np.int32), n)
            for j, n in zip(self.codes, self.sizes, strict=True)
        ]

    def groups(self, n_columns):
        """The group of every column of the design: the levels of a column are a group."""
        first = n_columns - len(self.codes)  # of the categorical columns
        return (*range(first), *np.repeat(np.arange(first, n_columns), self.sizes).tolist())


def coefficient_names(names, categories):
    """The names of coefficients: those of the columns of numbers, then of every level.

    Examples
    --------
    >>> coefficient_names(["city", "x"], [["Berlin", "Rome"], None])
    ['x', 'city[Berlin]', 'city[Rome]']
    """
    pairs = [*zip(names, categories, strict=True)]
    numbers = [name for name, levels in pairs if levels is None]
    of_levels = [f"{name}[{level}]" for name, own in pairs if own is not None for level in own]
    return numbers + of_levels


def check_reference(reference, levels):
    """Refuse reference levels of columns or levels that are not there.

    `levels` are the names of the levels of every column of categories.

    Examples
    --------
    >>> check_reference({"a": "u"}, {"a": ["u", "v"]})
    """
    for column, level in reference.items():
        if column not in levels:
            known = ", ".join(levels) or "none"
            raise ValueError(
                f"reference= names {column!r}, which is no column of categories (these: {known})."
            )
        if str(level) not in levels[column]:
            raise ValueError(
                f"reference= names the level {level!r} of {column}, whose levels are "
                f"{', '.join(levels[column])}."
            )


def with_indicators(X, names, categories, weights, intercept, reference):
    """Rows with a 0-1 column for every level but the reference, the columns' names and terms.

    `reference` has the reference levels of some columns. By default it is the level of the largest
    weight, or the first of several. Missing values are a level. Levels without a row have no
    column. Without an intercept the first categorical column has no reference.

    Examples
    --------
    >>> X, levels = np.array([[0.0], [1.0], [1.0]]), [np.array(["u", "v"])]
    >>> with_indicators(X, ["a"], levels, np.ones(3), True, {})
    (array([[1.],
           [0.],
           [0.]]), ['a[u]'], ['a'])
    """
    levels: Any = Levels.of(categories)
    columns = list(levels.numbers(X).T)
    terms = [name for name, own in zip(names, categories, strict=True) if own is None]
    out_names = list(terms)
    counted, used = {}, {}
    for j in levels.codes:
        level_names = [*map(str, categories[j]), "missing"]
        codes = np.where(X[:, j] < 0.0, len(level_names) - 1, X[:, j]).astype(int)
        total = np.bincount(codes, weights, minlength=len(level_names))
        counted[names[j]] = codes, total, level_names
        used[names[j]] = [level_names[code] for code in np.flatnonzero(total > 0.0)]
    check_reference(reference, used)
    for place, (name, (codes, total, level_names)) in enumerate(counted.items()):
        base: Any = int(np.argmax(total))
        if not intercept and place == 0:
            base = None
        elif name in reference:
            base = level_names.index(str(reference[name]))
        for code in np.flatnonzero(total > 0.0):
            if code != base:
                columns.append((codes == code).astype(np.float64))
                out_names.append(f"{name}[{level_names[code]}]")
                terms.append(name)
    X = np.column_stack(columns) if columns else np.empty((len(X), 0))
    return X, out_names, terms
