"""Matrices of rows, dense or sparse: one function for both."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from tunefree.core.process import team
from tunefree.rows.missing import separated

# Of dense arrays with more entries rows are taken in blocks of so many.
_LARGE, _TAKEN = 4_000_000, 4096


def as_dense(X):
    """Rows as an array, if they are sparse."""
    return X.toarray() if sparse.issparse(X) else X


def as_columns(y):
    """Targets as numbers, a column each."""
    y = np.asarray(y if isinstance(y, np.ndarray) else separated(y)[0], dtype=np.float64)
    return y.reshape(len(y), -1)


def check_frame(X):
    """Refuse what is no table in memory, a single column, and duplicate column names.

    Raises
    ------
    TypeError
        X is a LazyFrame of polars, a frame of Dask, a dict, a generator, or a structured or masked
        array.
    ValueError
        X is None, text, an empty list, or a Series, holds complex numbers, or has no columns or
        two of the same name.
    """
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):
        raise TypeError(f"X is a {type(X).__name__}, which is not loaded yet: give X.collect().")
    if hasattr(X, "dask") and hasattr(X, "columns"):
        raise TypeError(
            f"X is a {type(X).__name__} of Dask, which is not loaded yet: give X.compute(), or use "
            "an estimator of tunefree.dask."
        )
    if X is None or isinstance(X, str | bytes):
        raise ValueError(
            f"Expected 2D array, got scalar array instead: X is {X!r:.60}. Give a table in memory; "
            "open_source reads files."
        )
    if isinstance(X, list | tuple) and not len(X):
        raise ValueError("Found array with 0 sample(s): X is an empty list. Give one row or more.")
    way_out = None
    if isinstance(X, Mapping) and not sparse.issparse(X):  # SciPy's DOK is a dict, too
        way_out = "a frame such as pandas.DataFrame(X), or of rows a list of dicts"
    elif isinstance(X, Iterator):
        way_out = "a list of its rows, list(X)"
    elif getattr(getattr(X, "dtype", None), "names", None):
        way_out = "a frame, such as pandas.DataFrame(X)"
    elif np.ma.is_masked(X):
        way_out = "X.filled(numpy.nan), so that masked entries are missing"
    if way_out is not None:
        raise TypeError(f"X is a {type(X).__name__}, which is no table: give {way_out}.")
    is_frame = hasattr(X, "columns") or hasattr(X, "column_names")
    # Arrays of one dimension have scikit-learn's message.
    if not is_frame and hasattr(X, "to_frame") and len(getattr(X, "shape", ())) == 1:
        raise ValueError(
            f"Expected 2D array, got 1D array instead: X is a {type(X).__name__}. Reshape your "
            "data: X.to_frame() is a table of one column, X.to_frame().T one of one row."
        )
    _refuse_complex(X)
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    if is_frame and not names:
        raise ValueError(
            f"Found array with 0 feature(s): X is a {type(X).__name__} without columns. Give one "
            "column or more."
        )
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"X has {names.count(duplicate)} columns named {duplicate!r}: rename them."
        )


def _refuse_complex(X):
    """Refuse complex numbers in an array or a list of rows; a frame's columns are read later."""
    if isinstance(X, list | tuple):
        rows = (row if isinstance(row, list | tuple) else (row,) for row in X)
        cells = (cell for row in rows for cell in row if isinstance(cell, complex))
        found = next(cells, None)
    elif getattr(getattr(X, "dtype", None), "kind", "") == "c":
        cells = X.tocsr().data if sparse.issparse(X) else np.asarray(X).ravel()
        found = complex(cells[0]) if len(cells) else 0j
    else:
        return
    if found is not None:
        raise ValueError(f"Complex data not supported: X holds {found}. Give real numbers.")


def plain_rows(estimator: Any, X: Any, *, missing: bool = False) -> Any:
    """Rows of a NumPy array or pandas frame of numbers as floats; None for what needs a check.

    scikit-learn's checks take longer than the prediction of one row. They would accept these rows:
    they are finite, or `missing` allows others, and have the columns of the fit.
    """
    fitted = vars(estimator)
    names = fitted.get("feature_names_in_")
    if names is not None and type(X).__module__.partition(".")[0] == "pandas":
        numbers = X.ndim == 2 and all(isinstance(dtype, np.dtype) for dtype in X.dtypes)
        if not numbers or X.columns.tolist() != names.tolist():
            return None
        X = X.to_numpy()
    elif type(X) is not np.ndarray or names is not None:
        return None
    if X.ndim != 2 or len(X) == 0 or X.shape[1] != fitted.get("n_features_in_"):
        return None
    if X.dtype.kind in "iu":
        X = X.astype(np.float64)
    if X.dtype not in (np.float64, np.float32) or not (missing or np.isfinite(X).all()):
        return None
    return np.ascontiguousarray(X)


def as_rows(X: Any) -> Any:
    """A user's rows as an array or a CSR array."""
    return sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)


def entries(X: Any) -> tuple[Any, Any]:
    """The stored values of rows, in their memory, and an index by which columns' numbers meet them.

    >>> values, columns = entries(sparse.csr_array([[0.0, 3.0], [4.0, 0.0]]))
    >>> values / np.array([2.0, 1.0])[columns]
    array([3., 2.])
    """
    return (X.data, X.indices) if sparse.issparse(X) else (X, slice(None))


def divided(X, units):
    """Rows whose columns are divided by numbers; what is not stored stays so."""
    if not sparse.issparse(X):
        return X / units
    return csr(X.data / units[X.indices], X.indices, X.indptr, X.shape[1])


def squares_about(mean, X, weights, total):
    """The weighted sums of each column's squared deviations from its mean; `total` is the weight.

    >>> squares_about(np.array([1.0]), sparse.csr_array([[0.0], [3.0]]), np.ones(2), 2.0)
    array([5.])
    """
    if not sparse.issparse(X):
        gap = X - mean
        return weights @ np.square(gap, out=gap)
    mass = np.repeat(weights, np.diff(X.indptr))
    gap = X.data.astype(np.float64) - mean[X.indices]
    stored = np.bincount(X.indices, mass * gap**2, minlength=len(mean))
    return stored + (total - np.bincount(X.indices, mass, minlength=len(mean))) * mean**2


def csr(data, indices, indptr, n_columns):
    """A CSR array that keeps the types of its indices, which SciPy's constructor changes."""
    out = sparse.csr_array((len(indptr) - 1, n_columns), dtype=data.dtype)
    out.data, out.indices, out.indptr = data, indices, indptr
    return out


def one_index_type(X: Any) -> Any:
    """The same rows; of CSR with one type for all indices, as SciPy selects and reshapes rows."""
    if not sparse.issparse(X):
        return X
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)


def canonical(X: Any) -> Any:
    """CSR with sorted, unique, nonzero entries and the narrowest index type; a contiguous array."""
    if not sparse.issparse(X):
        return np.ascontiguousarray(X)
    X = sparse.csr_array(X)
    if not X.has_canonical_format or (X.nnz and not X.data.all()):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    narrow = np.int32 if max(X.shape[1], 1) < 2**31 else np.int64
    indices, indptr = X.indices.astype(narrow, copy=False), X.indptr.astype(np.int64, copy=False)
    # Kernels are compiled for these types.
    return csr(X.data, indices, indptr, X.shape[1])


def with_sorted_indices(X: Any) -> Any:
    """CSR whose rows are in the order of columns; X itself if it is so, or dense."""
    if getattr(X, "has_sorted_indices", True):
        return X
    X = X.copy()
    X.sort_indices()
    return X


def take(X, rows):
    """Rows of an array, large ones in threads, or of canonical CSR, with the same index types."""
    if sparse.issparse(X):
        return canonical(one_index_type(X)[rows])
    if isinstance(rows, slice) or X.size <= _LARGE:
        return X[rows]
    out = np.empty((len(rows), X.shape[1]), X.dtype)
    blocks = [slice(i, i + _TAKEN) for i in range(0, len(rows), _TAKEN)]
    team().map(lambda b: np.take(X, rows[b], axis=0, out=out[b], mode="clip"), blocks)
    return out


def stacked(parts, axis=0):
    """Parts of rows, of the kind of the first, or of numbers, one after another along an axis."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return (sparse.hstack if axis else sparse.vstack)(parts, format="csr")
    return np.concatenate([as_dense(part) for part in parts], axis)


def resized(table, d, bias=False, fill=0.0):
    """A table with d columns (its first axis), and after them the constant's if there is one.

    New columns hold `fill`; columns that are dropped must hold it, too.

    Examples
    --------
    >>> resized(np.array([1.0, 2.0, 9.0]), 3, bias=True).tolist()
    [1.0, 2.0, 0.0, 9.0]
    """
    out = np.full((d + bias, *table.shape[1:]), fill)
    common = min(len(table) - bias, d)
    out[:common] = table[:common]
    if bias:
        out[-1] = table[-1]
    return out
