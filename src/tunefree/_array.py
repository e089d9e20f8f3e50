"""Arrays that live elsewhere: torch, CuPy and others, under scikit-learn's ``array_api_dispatch``.

What costs are products with all rows. Those of predictions, of the Reflectron's batches, of ridge
regression's normal equations and of kernels on landmarks are made in the namespace and on the
device of X (`Elsewhere`). What is small, and what is no product (checks, hashes, units, links,
solutions), is done in NumPy on the host. Fitted arrays and predictions come back to where X lives.
Without dispatch, and for NumPy arrays, nothing here is entered.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from sklearn._config import config_context, get_config
from sklearn.utils._array_api import (
    _convert_to_numpy,
    _max_precision_float_dtype,
    get_namespace_and_device,
)

SPACE: Any = ContextVar("space", default=None)


def check_frame(X):
    """Refuse a table whose rows are yet to be read, and one whose names do not tell its columns.

    Raises
    ------
    TypeError
        X is a LazyFrame of polars.
    ValueError
        Two columns have the same name.
    """
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):
        raise TypeError(f"X is a {type(X).__name__}, which holds no rows yet: give X.collect().")
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has {names.count(twice)} columns named {twice!r}: give each its own.")


class Space(NamedTuple):
    """A namespace of arrays and a device."""

    xp: Any
    device: Any

    def put(self, a):
        """Numbers of NumPy, there; what is no array of numbers as it is."""
        if not isinstance(a, np.ndarray) or a.dtype.kind not in "biuf":
            return a
        if a.dtype == np.float64 and _max_precision_float_dtype(*self) == self.xp.float32:
            a = a.astype(np.float32)
        return self.xp.asarray(np.ascontiguousarray(a), device=self.device)


def is_foreign(a):
    """Whether an array is of another namespace than NumPy's."""
    return (
        hasattr(a, "shape") and hasattr(a, "device") and not isinstance(a, np.ndarray | np.generic)
    ) and not isinstance(a, Elsewhere)  # fmt: skip


def space_of(X):
    """Where an array lives; None for NumPy, and without dispatch."""
    if not get_config().get("array_api_dispatch") or not is_foreign(X):
        return None
    xp, _, device = get_namespace_and_device(X)
    return Space(xp, device)


def here(a):
    """An array in NumPy; anything else as it is."""
    if isinstance(a, Elsewhere):
        return np.asarray(a)
    if not is_foreign(a):
        return a
    with config_context(array_api_dispatch=True):
        return np.array(_convert_to_numpy(a, get_namespace_and_device(a)[0]))


class Elsewhere:
    """A matrix that lives elsewhere; products with arrays of NumPy are such arrays."""

    __array_priority__ = 100  # NumPy leaves products to it

    def __init__(self, values, space):
        self.values, self.space = values, space

    @property
    def shape(self):
        """Rows and columns."""
        return self.values.shape

    @property
    def size(self):
        """How many numbers."""
        return self.shape[0] * self.shape[1]

    @property
    def dtype(self):
        """The type of NumPy."""
        return np.dtype(str(self.values.dtype).rpartition(".")[2])

    @property
    def T(self):
        """Transposed."""
        return Elsewhere(self.values.T, self.space)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        rows = slice(*rows.indices(len(self)))
        return Elsewhere(self.values[rows, :], self.space)

    def __array__(self, dtype=None, copy=None):
        found = here(self.values)
        return found if dtype is None else found.astype(dtype, copy=False)

    def _there(self, other):
        if isinstance(other, Elsewhere):
            return other.values
        return self.space.put(np.asarray(other, dtype=self.dtype))

    def __matmul__(self, other):
        return here(self.values @ self._there(other))

    def __rmatmul__(self, other):
        return here(self._there(other) @ self.values)

    def within(self, low, high):
        """The same with entries outside these limits of the columns in the middle of them."""
        low, high, middle = (self._there(a)[None, :] for a in (low, high, 0.5 * low + 0.5 * high))
        out = (self.values < low) | (self.values > high)
        return Elsewhere(self.space.xp.where(out, middle, self.values), self.space)

    def __mul__(self, other):
        return Elsewhere(self.values * self._there(other), self.space)


def moved(a: Any) -> Any:
    """A matrix of NumPy as one that lives where the arrays of this fit do; else itself."""
    space = SPACE.get()
    if space is None or not isinstance(a, np.ndarray):
        return a
    return Elsewhere(space.put(a), space)


def elsewhere():
    """Whether the arrays of this fit live elsewhere."""
    return SPACE.get() is not None


def checked(X, n_columns):
    """Rows to predict that live elsewhere, if they are finite and have so many columns."""
    space = X.space
    if len(X.shape) != 2 or X.shape[1] != n_columns:
        raise ValueError(f"X has shape {tuple(X.shape)}, and {n_columns} features are expected.")
    if not space.xp.isdtype(X.values.dtype, "real floating"):
        wide = _max_precision_float_dtype(*space)
        X = Elsewhere(space.xp.astype(X.values, wide), space)
    if not bool(space.xp.all(space.xp.isfinite(X.values))):
        raise ValueError("Input X contains NaN or infinity.")
    return X


@contextmanager
def entered(space):
    """Within, products are made in a space, and scikit-learn sees arrays of NumPy alone."""
    token = SPACE.set(space)
    try:
        with config_context(array_api_dispatch=False):
            yield
    finally:
        SPACE.reset(token)
