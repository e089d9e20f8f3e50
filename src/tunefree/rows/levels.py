"""Columns of text and categories: codes, levels and indicators."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.rows.designs import Categorical, Dense, Split
from tunefree.rows.matrices import check_frame

# How the types of columns of text and categories begin: of pandas and polars, and of Arrow.
_TEXTS = "category", "categorical", "enum", "str", "object", "utf8", "large_string", "dictionary"
_TEXTS_OF_ARROW = "string", "large_string", "string_view"


def coded(frame, categories=None):
    """A data frame with codes for the levels of its columns of text and categories.

    `categories` are the levels of every column, None for a column of numbers; by default they are
    those of the frame. Other values have the code -1. An array, or a frame of numbers, is returned
    as it is, without categories.

    Examples
    --------
    >>> import pandas as pd
    >>> coded(pd.DataFrame({"a": ["u", "v", "u"], "b": [1.0, 2.0, 3.0]}))[1]
    [array(['u', 'v'], dtype=object), None]
    """
    check_frame(frame)
    names = _names_of(frame)
    if names is None:
        return frame, None
    found, columns = [], {}
    for j, name in enumerate(names):
        own_levels: Any = None if categories is None else categories[j]
        column = _column_of(frame, name)
        is_new = categories is None and _is_text(column)
        if is_new or own_levels is not None:
            levels, codes = _levels_and_codes(column)
            if is_new:
                is_used = np.bincount(codes[codes >= 0], minlength=len(levels)) > 0
                own_levels = levels[is_used].astype(object)
            place = {str(level): float(k) for k, level in enumerate(own_levels)}
            code = [place.get(level, -1.0) for level in levels.tolist()]
            columns[name] = np.array([*code, -1.0])[codes]
        found.append(own_levels)
    if not columns:
        return frame, None
    if hasattr(frame, "assign"):
        return frame.assign(**columns), found
    if hasattr(frame, "set_column"):
        for name, codes in columns.items():
            frame = frame.set_column(names.index(name), name, [codes])
        return frame, found
    return frame.with_columns([type(frame[n])(n, c) for n, c in columns.items()]), found


def _names_of(frame):
    """The names of the columns of a pandas, polars or Arrow table; None of other rows."""
    if hasattr(frame, "columns") and hasattr(frame, "dtypes"):
        return list(frame.columns)
    return list(frame.column_names) if hasattr(frame, "set_column") else None


def _column_of(frame, name):
    """A column of a frame; of an Arrow table as a plain array, its dictionary decoded."""
    column = frame[name]
    if not hasattr(column, "combine_chunks"):
        return column
    kind = str(column.type)
    if kind.startswith("dictionary") or not kind.startswith(_TEXTS_OF_ARROW):
        levels = getattr(column.type, "value_type", column.type)
        if not str(levels).startswith(_TEXTS_OF_ARROW):
            return column
    return np.array(column.to_pylist(), dtype=object)


def _levels_and_codes(column):
    """The levels of a column as texts, and the code of every row; -1 where it is missing."""
    if str(column.dtype) == "category" and hasattr(column, "cat"):  # pandas has the codes
        return np.asarray(column.cat.categories).astype(str), np.asarray(column.cat.codes)
    values = np.asarray(column, dtype=object)
    is_missing = np.array([v is None or v != v for v in values])  # noqa: PLR0124
    levels, codes = np.unique(values.astype(str), return_inverse=True)
    return levels, np.where(is_missing, -1, codes)


def _is_text(column):
    if not hasattr(column, "dtype"):  # an Arrow column of numbers
        return False
    kind = str(column.dtype).lower()
    if isinstance(column, np.ndarray):  # of Arrow's text
        return kind == "object"
    if kind.startswith(_TEXTS):
        return not (kind == "object" and isinstance(column.iloc[0], int | float | np.number))
    return False


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
