"""Arrays of torch, CuPy and others, under scikit-learn's ``array_api_dispatch``.

Products with all rows take most of the time. They are computed in the namespace and on the device
of X (`Elsewhere`): those of predictions, of the Reflectron's batches, of ridge regression's normal
equations, and of kernels on landmarks. Everything else (checks, hashes, units, links, small
solutions) is done in NumPy on the host. Fitted arrays and predictions are moved to the device of X.
Without dispatch, and for NumPy arrays, this module is not used.
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


class Space(NamedTuple):
    """A namespace of arrays and a device."""

    xp: Any
    device: Any

    def put(self, a):
        """A NumPy array of numbers on the device; other values unchanged."""
        if not isinstance(a, np.ndarray) or a.dtype.kind not in "biuf":
            return a
        if a.dtype == np.float64 and _max_precision_float_dtype(*self) == self.xp.float32:
            a = a.astype(np.float32)
        return self.xp.asarray(np.ascontiguousarray(a), device=self.device)


def is_foreign(a):
    """Whether a value is an array of another namespace than NumPy's."""
    ours = np.ndarray | np.generic | Elsewhere
    return hasattr(a, "shape") and hasattr(a, "device") and not isinstance(a, ours)


def space_of(X):
    """The space of an array; None for NumPy, and without dispatch."""
    if not get_config().get("array_api_dispatch") or not is_foreign(X):
        return None
    xp, _, device = get_namespace_and_device(X)
    return Space(xp, device)


def here(a):
    """An array as a NumPy array; other values unchanged."""
    if isinstance(a, Elsewhere):
        return np.asarray(a)
    if not is_foreign(a):
        return a
    with config_context(array_api_dispatch=True):
        return np.array(_convert_to_numpy(a, get_namespace_and_device(a)[0]))


class Elsewhere:
    """A matrix on a device; its products with NumPy arrays are NumPy arrays."""

    __array_priority__ = 100  # NumPy lets it compute products

    def __init__(self, values, space):
        self.values, self.space = values, space

    @property
    def shape(self):
        """Rows and columns."""
        return self.values.shape

    @property
    def size(self):
        """The number of entries."""
        return self.shape[0] * self.shape[1]

    @property
    def dtype(self):
        """The type, as NumPy has it."""
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
        """The matrix with entries outside the columns' limits replaced by their middle."""
        low, high, middle = (self._there(a)[None, :] for a in (low, high, 0.5 * low + 0.5 * high))
        outside = (self.values < low) | (self.values > high)
        return Elsewhere(self.space.xp.where(outside, middle, self.values), self.space)

    def __mul__(self, other):
        return Elsewhere(self.values * self._there(other), self.space)


def moved(a: Any) -> Any:
    """A NumPy matrix on the device of this fit; without one, or for other values, itself."""
    space = SPACE.get()
    if space is None or not isinstance(a, np.ndarray):
        return a
    return Elsewhere(space.put(a), space)


def elsewhere():
    """Whether the arrays of this fit are on a device."""
    return SPACE.get() is not None


def checked(X, n_columns):
    """Rows to predict, as `Elsewhere`, if they are finite and have `n_columns` columns."""
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
    """Inside, products are computed in a space, and scikit-learn gets only NumPy arrays."""
    token = SPACE.set(space)
    try:
        with config_context(array_api_dispatch=False):
            yield
    finally:
        SPACE.reset(token)
