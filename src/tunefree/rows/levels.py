"""Columns of text and categories: codes, levels and indicators."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.rows.columns import DATE, as_table, must_be_read, named_table, names_of
from tunefree.rows.designs import Categorical, Dense, Split
from tunefree.rows.kinds import UnknownLevel
from tunefree.rows.matrices import check_frame
from tunefree.rows.schema import learn_columns, read_columns, warn_of_notes, warn_of_unknown

# The name of the level of missing values.
MISSING = "missing"


class Coded(NamedTuple):
    """A table with codes for the levels of its columns of text and categories."""

    X: Any  # numbers; -1 is the code of a level that is not known, and of a missing one
    categories: Any  # the levels of every column, None for a column of numbers; None if all are
    schema: Any  # None for a table of numbers by their types


def coded(X, known=None, is_new=True, unknown=None):
    """A table with codes for the levels of its columns of text and categories.

    Parameters
    ----------
    X : table
    known : Coded, optional
        What `coded` has returned for the rows of a fit. By default it is learned.
    is_new : bool, default=True
        Whether rows are new; otherwise they are a part of those of the fit.
    unknown : list, optional
        Gets the `UnknownLevel` of each column that has one, which is not warned of then.

    Raises
    ------
    ValueError
        If a column holds dates, or another kind than in the fit.

    Warns
    -----
    UnknownLevels
        A `DataWarning` that counts the cells with levels that the fit has not seen.

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
    if known is None:
        schema, found_columns = learn_columns(X, labels, sentinels=False)
        warn_of_notes(schema)
    else:
        schema = known.schema
        found_columns = read_columns(schema, X, is_new=is_new)
    categories: Any = [None] * len(labels)
    if known is not None and known.categories is not None:
        categories = known.categories
    columns, levels, new = [], [], []
    for name, found, own in zip(labels, found_columns, categories, strict=True):
        if found.kind == DATE:
            raise _dates(name)
        if found.levels is None:
            columns.append(np.where(found.missing, np.nan, found.values))
            levels.append(None)
            continue
        if known is None:
            own = _used_levels(found)
        place = {level: float(k) for k, level in enumerate(own.tolist())}
        code = [place.get(level, -1.0) for level in found.levels.tolist()]
        if is_new and -1.0 in code:
            is_unknown = np.array(code) < 0.0
            new.append(UnknownLevel.of(name, is_unknown, found.levels, found.codes))
        columns.append(np.array([*code, -1.0])[found.codes])
        levels.append(own)
    if unknown is None:
        warn_of_unknown(new)
    else:
        unknown += [one for one in new if one is not None]
    rows = named_table(columns, names)
    return Coded(rows, levels if any(own is not None for own in levels) else None, schema)


def _dates(name):
    """The error of a column of dates: it would be one coefficient of days since 1970."""
    return ValueError(
        f"Column {name!r} of X holds dates: give numbers, such as days since a date, or text, or "
        "leave it out. TuneFree* and BoostedTrees* read dates."
    )


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
            raise _dates(name)
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


class CodedLevels(NamedTuple):
    """A column of codes in a table of coefficients."""

    name: str
    place: int  # of the column in X
    n_levels: int  # the code of missing values
    codes: list  # of the levels that rows have
    levels: list  # their names
    reference: Any  # the code of the reference; None if every level has a column

    @property
    def with_column(self):
        """The codes and the names of the levels that have a column."""
        pairs = zip(self.codes, self.levels, strict=True)
        return [(code, level) for code, level in pairs if code != self.reference]


class TableColumns(NamedTuple):
    """The columns of a table of coefficients: numbers, and a 0-1 column for a level.

    In a column of categories every level has a column but the reference. Missing values are a
    level. A level that the rows do not have has no column.

    Examples
    --------
    >>> X, levels = np.array([[0.0], [1.0], [1.0]]), [np.array(["u", "v"])]
    >>> columns = TableColumns.learned(X, ["a"], levels, np.ones(3), True, {})
    >>> columns.names, columns.reference, columns.of(X).tolist()
    (['a[u]'], {'a': 'v'}, [[1.0], [0.0], [0.0]])
    """

    numbers: list  # the names of the columns that are not coded
    own_terms: list  # the term of each of these
    coded: list  # of CodedLevels
    of_factors: Any = {}  # the reference levels of a formula's factors

    @property
    def names(self):
        """The names of the columns."""
        return [*self.numbers, *(f"{c.name}[{u}]" for c in self.coded for _, u in c.with_column)]

    @property
    def terms(self):
        """The terms of the columns: the columns of X."""
        return [*self.own_terms, *(c.name for c in self.coded for _ in c.with_column)]

    @property
    def reference(self):
        """The reference levels of columns of categories, by name."""
        return self.of_factors | {
            c.name: c.levels[c.codes.index(c.reference)]
            for c in self.coded
            if c.reference is not None
        }

    @classmethod
    def learned(cls, X, names, categories, weights, intercept, reference):
        """The columns for some rows.

        `reference` has the reference levels of some columns. By default it is the level of most
        rows, and of several the first by name. Weights do not decide: the models of one table have
        one reference. Without an intercept the first column of categories has none.
        """
        counts = []
        for j, own in enumerate(categories):
            if own is not None:
                codes = _codes_with_missing(X[:, j], len(own))
                counts.append([np.bincount(codes, w, len(own) + 1) for w in (weights, None)])
        return cls.of_counts(names, categories, counts, intercept).with_reference(reference)

    @classmethod
    def of_counts(cls, names, categories, counts, intercept):
        """The columns for rows whose weights and numbers were counted, of every level.

        `counts` are these two of each column of categories, in order; missing values come last.
        """
        numbers = [name for name, own in zip(names, categories, strict=True) if own is None]
        columns, places = [], [j for j, own in enumerate(categories) if own is not None]
        for j, (weights, rows) in zip(places, counts, strict=True):
            level_names = [*map(str, categories[j]), MISSING]
            used = np.flatnonzero(weights > 0.0)
            most: Any = int(used[np.argmax(rows[used])]) if intercept or columns else None
            own = [level_names[code] for code in used]
            columns.append(CodedLevels(names[j], j, len(categories[j]), used.tolist(), own, most))
        return cls(numbers, list(numbers), columns)

    def with_reference(self, reference):
        """The columns with the reference levels of some columns, by name."""
        check_reference(reference, {c.name: c.levels for c in self.coded})
        coded = []
        for own in self.coded:
            if own.name in reference and own.reference is not None:
                code = own.codes[own.levels.index(str(reference[own.name]))]
                own = own._replace(reference=code)
            coded.append(own)
        return self._replace(coded=coded)

    def change_of(self, other):
        """The coefficients of `other` columns as T times those of these, and the constant.

        Returns T and what is added to the intercept, as weights of these coefficients. `other` has
        other reference levels.
        """
        n, places = len(self.numbers), {name: k for k, name in enumerate(self.names)}
        T, constant = np.zeros((len(other.names), len(self.names))), np.zeros(len(self.names))
        T[:n, :n] = np.eye(n)
        row = n
        for old, new in zip(self.coded, other.coded, strict=True):
            base = None
            if new.reference != old.reference:
                level = new.levels[new.codes.index(new.reference)]
                base = places[f"{new.name}[{level}]"]
                constant[base] += 1.0
            for code, level in new.with_column:
                if code != old.reference:
                    T[row, places[f"{new.name}[{level}]"]] += 1.0
                if base is not None:
                    T[row, base] -= 1.0
                row += 1
        return T, constant

    def unknown_levels(self, X):
        """Which rows have a level without a column that is not the reference."""
        unknown = np.zeros(X.shape[0], dtype=bool)
        for own in self.coded:
            codes = _codes_with_missing(X[:, own.place], own.n_levels)
            unknown |= ~np.isin(codes, own.codes)
        return unknown

    def of(self, X):
        """The columns of rows of codes."""
        if not self.coded:
            return X
        columns = list(np.delete(X, [own.place for own in self.coded], axis=1).T)
        for own in self.coded:
            codes = _codes_with_missing(X[:, own.place], own.n_levels)
            columns += [(codes == code).astype(np.float64) for code, _ in own.with_column]
        return np.column_stack(columns) if columns else np.empty((len(X), 0))


def _codes_with_missing(codes, n_levels):
    """Codes of levels, in which that of missing values follows the others."""
    return np.where(codes < 0.0, n_levels, codes).astype(int)
