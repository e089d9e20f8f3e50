"""Rows on workers: what a partition holds, and how Dask's collections become partitions."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, column_or_1d

from dask import delayed
from tunefree.estimators import base


class Part(NamedTuple):
    """The rows of one partition, checked, on a worker.

    Attributes
    ----------
    X : ndarray or csr_array of shape (m, d)
    y : ndarray of shape (m,) or (m, n_outputs)
    weights : ndarray of shape (m,)
    """

    X: object
    y: np.ndarray
    weights: np.ndarray

    def positive(self):
        """The rows of positive weight; nothing is copied if these are all."""
        kept = self.weights > 0.0
        return self if kept.all() else Part(self.X[kept], self.y[kept], self.weights[kept])


class Facts(NamedTuple):
    """What the client knows of a partition.

    Attributes
    ----------
    n_rows, n_columns : int
    n_outputs : int
        0 for a vector of targets.
    weight : float
    dtype : dtype
    labels : ndarray or None
        The targets' distinct values, for classifiers.
    largest : float
        The largest squared norm of a row with a weight.
    sparse : bool
    """

    n_rows: int
    n_columns: int
    n_outputs: int
    weight: float
    dtype: object
    labels: np.ndarray | None
    largest: float
    sparse: bool


def _values(block):
    """The array behind a frame or series."""
    return block.to_numpy() if hasattr(block, "to_numpy") else block


def _numbers(X):
    """A partition's rows as an array, or a CSR array."""
    try:
        X = check_array(
            X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
            ensure_min_samples=0, input_name="X",
        )  # fmt: skip
    except (TypeError, ValueError) as problem:
        kinds = X.dtypes.items() if hasattr(X, "dtypes") else ()
        other = [name for name, kind in kinds if kind.kind not in "biuf"]
        if not other or "NaN" in str(problem):
            raise
        raise ValueError(f"X: encode columns {other} as numbers ({problem}).") from problem
    return base.canonical(sparse.csr_array(X)) if sparse.issparse(X) else X


def _labels(y):
    """A partition's labels."""
    y = column_or_1d(_values(y))
    kinds = {type(label).__name__ for label in y} if y.dtype == object else ()
    if len(kinds) > 1:
        raise ValueError(f"y holds labels of several types: {', '.join(sorted(kinds))}.")
    if y.dtype.kind == "f":
        check_array(y, ensure_2d=False, ensure_min_samples=0, input_name="y")
        if (y != np.floor(y)).any():
            raise ValueError("y holds fractions: a classifier takes labels.")
    return y


def _targets(y):
    """A partition's targets."""
    try:
        y = np.asarray(_values(y), dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"y must hold numbers ({problem}).") from problem
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    return check_array(y, ensure_2d=False, ensure_min_samples=0, input_name="y")


def load(X, y, weights, number, classify):
    """Check one partition's rows.

    Raises
    ------
    ValueError
        That names the partition.
    """
    try:
        X, y = _numbers(X), _labels(y) if classify else _targets(y)
        if len(y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y {len(y)}.")
        if weights is None:
            weights = np.ones(len(y))
        weights = check_array(
            np.asarray(_values(weights)), dtype=np.float64, ensure_2d=False, ensure_min_samples=0,
            input_name="sample_weight",
        ).reshape(-1)  # fmt: skip
        if len(weights) != len(y) or (weights < 0.0).any():
            raise ValueError("sample_weight must hold a number that is not negative for each row.")
    except (TypeError, ValueError) as problem:
        raise ValueError(f"partition {number}: {problem}") from problem
    return Part(X, y, weights)


def facts(part, classify):
    """What the client has to know of a partition."""
    if sparse.issparse(part.X):
        squares = part.X.multiply(part.X).sum(axis=1)
    else:
        squares = np.einsum("ij,ij->i", part.X, part.X, dtype=np.float64)
    return Facts(
        *part.X.shape,
        0 if part.y.ndim == 1 else part.y.shape[1],
        float(part.weights.sum()),
        part.X.dtype,
        np.unique(part.y[part.weights > 0.0]) if classify else None,
        float(np.max(squares, where=part.weights > 0.0, initial=0.0)),
        sparse.issparse(part.X),
    )


def split(name, collection):
    """The partitions of a Dask array, frame or series, as delayed objects.

    Raises
    ------
    TypeError
        For anything else.
    """
    if not hasattr(collection, "to_delayed"):
        raise TypeError(
            f"{name} is a {type(collection).__name__}, not a Dask array or frame: rows in memory "
            "are for the estimators of tunefree itself, or for dask.array.from_array."
        )
    if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "numblocks"):
        if collection.numblocks[1] > 1:
            collection = collection.rechunk({1: -1})
    return list(np.ravel(collection.to_delayed()))


def aligned(X, y, sample_weight, classify):
    """One delayed `Part` a partition of X.

    Raises
    ------
    ValueError
        If y or sample_weight are cut into another number of partitions.
    """
    rows = split("X", X)
    given = {"y": y, "sample_weight": sample_weight}
    columns = {}
    for name, collection in given.items():
        if collection is None:
            columns[name] = [None] * len(rows)
            continue
        if hasattr(collection, "rechunk") and hasattr(X, "chunks"):
            known = not any(np.isnan(c) for c in (*X.chunks[0], *collection.chunks[0]))
            alike = known and sum(collection.chunks[0]) == sum(X.chunks[0])
            if alike and collection.chunks[0] != X.chunks[0]:
                collection = collection.rechunk({0: X.chunks[0]})
        columns[name] = split(name, collection)
        if len(columns[name]) != len(rows):
            raise ValueError(
                f"{name} has {len(columns[name])} partitions and X has {len(rows)}: cut them alike."
            )
    cut = zip(rows, columns["y"], columns["sample_weight"], strict=True)
    return [delayed(load, pure=False)(*piece, i, classify) for i, piece in enumerate(cut)]
