"""Exposures and offsets of rows on a cluster: collections, or names of columns of X."""

import warnings
from typing import Any, NamedTuple

import numpy as np

from tunefree.base.exposures import class_columns
from tunefree.reflectron.glm.model import are_names, in_columns
from tunefree.rows.columns import names_of


class GivenTerms(NamedTuple):
    """What a fit was given besides X and y, without rows."""

    columns: dict  # names of columns of X, by argument
    classes: list | None  # the names of the columns of the offset
    grades: Any  # of ordered classes, from the lowest

    @classmethod
    def of(cls, terms, found, grades=None):
        """Those of arguments, and of the collections that `with_terms` found for them."""
        columns = {name: value for name, value in terms.items() if _names_columns(name, value)}
        offset = found.get("offset")
        names = names_of(getattr(offset, "_meta", offset))
        if isinstance(columns.get("offset"), list | tuple):
            names = None  # they name columns of X, and are in the order of the classes
        return cls(columns, names, grades)

    def places(self, n, labels):
        """The places of the offsets of several classes among n columns."""
        given = self.columns.get("offset")
        if isinstance(given, list | tuple) and list(given) != list(map(str, labels)):
            if sorted(given) == sorted(map(str, labels)):
                raise ValueError(
                    f"offset={list(given)} has the names of the classes in another order: a list "
                    f"has the order of classes_, {list(map(str, labels))}."
                )
        return class_columns(n, self.classes, labels)


def _names_columns(role, value):
    return isinstance(value, str) or (role == "offset" and are_names(value))


def with_terms(X, terms, known=None, labels=None):
    """A collection without the columns that are terms, and the terms as collections or numbers.

    `known` are the names of columns that `fit` was given, by argument, and `labels` the classes.
    """
    columns = list(getattr(X, "columns", ()))
    terms, drop = dict(terms), []
    for role, names in (known or {}).items():
        own = [names] if isinstance(names, str) else in_columns(names)
        drop += own
        if role not in terms and set(own) <= set(columns):
            terms[role] = names
    found = {}
    for role, value in terms.items():
        if not _names_columns(role, value):
            found[role] = value
            continue
        own = [value] if isinstance(value, str) else in_columns(value)
        for name in own:
            if name not in columns:
                raise ValueError(
                    f"{role}: {name!r} is no column of X: give one, or an array or series."
                )
        drop += own
        found[role] = X[value] if isinstance(value, str) else _by_class(X, value, labels)
    drop = [name for name in columns if name in drop]
    return (X[[name for name in columns if name not in drop]] if drop else X), found


def _by_class(X, names, labels):
    """The columns of the offset of several classes, named as these if they are known."""
    found = X[in_columns(names)]
    if isinstance(names, dict):
        found.columns = list(map(str, names))
    elif labels is not None and len(names) == len(labels):
        found.columns = list(map(str, labels))
    return found


class LocalCall(NamedTuple):
    """A method of a local estimator, called on the parts of a collection and of its terms."""

    local: Any
    method: str
    names: tuple = ()  # of the terms that are collections, too
    numbers: dict = {}  # the others: a number for all rows

    def __call__(self, rows, parts):
        """What the method returns for rows and their terms."""
        terms = {n: _plain(part) for n, part in zip(self.names, parts, strict=True)}
        return getattr(self.local, self.method)(rows, **terms, **self.numbers)

    def of_any(self, row):
        """What it returns for a row whose terms do not matter."""
        terms = dict.fromkeys(self.names, 1.0)
        with warnings.catch_warnings(action="ignore"):  # the row is no one's
            return getattr(self.local, self.method)(row, **terms, **self.numbers)


def _plain(part):
    """A term of some rows: a vector, or columns."""
    return np.ravel(part) if np.ndim(part) < 2 or np.shape(part)[1] == 1 else part


def call_of(local, method, terms):
    """A `LocalCall`, and the terms that are collections."""
    collections, numbers = {}, {}
    for name, values in terms.items():
        if hasattr(values, "dask"):
            collections[name] = values
        elif isinstance(values, int | float):
            numbers[name] = float(values)
        else:
            raise TypeError(
                f"{name} is a {type(values).__name__}, and X a Dask collection: give a Dask array, "
                "series or frame, or a number for all rows."
            )
    return LocalCall(local, method, tuple(collections), numbers), list(collections.values())


def as_partitions_of(values, X, local):
    """A term as a series or frame with the partitions of a frame X."""
    if not hasattr(values, "chunks"):
        return values
    from dask.dataframe import from_dask_array

    names = None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    elif values.ndim == 2 and values.shape[1] == len(vars(local).get("classes_", ())):
        names = list(map(str, local.classes_))
    rows = tuple(X.map_partitions(len, enforce_metadata=False).compute())
    return from_dask_array(values.rechunk({0: rows}), columns=names, index=X.index)


def as_columns_of(values, X):
    """A term as an array with the blocks of the rows of an array X."""
    if not hasattr(values, "chunks"):
        values = values.to_dask_array()
    values = values.reshape(-1, 1) if values.ndim == 1 else values
    if values.numblocks[1] > 1:
        values = values.rechunk({1: -1})
    # Sums of unknown sizes are NaN, which equal nothing.
    if sum(values.chunks[0]) == sum(X.chunks[0]):
        values = values.rechunk({0: X.chunks[0]})
    return values
