"""Designs: the rows that a learner sees, dense or sparse.

A kernel reads the entries of a row (``count``, ``index``, ``entry``) whatever their storage. Batch
code uses two products, ``apply`` (X theta) and ``adjoint`` (X' r).

`One` and `Many` are the outputs that are learned from the same entries, in tables of shape
(n_columns, n_fields, n_outputs). With one output the sums stay in registers; with many, the
innermost loop runs over outputs that are adjacent in memory.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.core.jit import kernel, part, verb
from tunefree.rows.matrices import as_rows, canonical, csr, entries, one_index_type, stacked

count, index, entry = verb("count"), verb("index"), verb("entry")
put = verb("put")
width = verb("width")
square, dot, axpy2 = verb("square"), verb("dot"), verb("axpy2")


# From this many stored entries on, compiled products are used: SciPy's hold the GIL, and other
# threads would wait. For fewer entries compiling takes longer than it saves.
_MANY = 2**16


# The same sums in the same order as SciPy's, hence the same bits.
@kernel
def _apply_csr(data, indices, indptr, theta, out):
    width = out.shape[1]
    for i in range(out.shape[0]):
        values = data[indptr[i] : indptr[i + 1]]
        columns = indices[indptr[i] : indptr[i + 1]]
        if width == 1:
            total = out[i, 0]
            for p in range(len(values)):
                total += values[p] * theta[columns[p], 0]
            out[i, 0] = total
        else:
            sums = out[i]
            for p in range(len(values)):
                value, row = values[p], theta[columns[p]]
                for k in range(width):
                    sums[k] += value * row[k]


@kernel
def _adjoint_csr(data, indices, indptr, r, out):
    width = out.shape[1]
    for i in range(r.shape[0]):
        values = data[indptr[i] : indptr[i + 1]]
        columns = indices[indptr[i] : indptr[i + 1]]
        row = r[i]
        if width == 1:
            size = row[0]
            for p in range(len(values)):
                out[columns[p], 0] += values[p] * size
        else:
            for p in range(len(values)):
                value, sums = values[p], out[columns[p]]
                for k in range(width):
                    sums[k] += value * row[k]


@kernel
def _ranges_csr(data, indices, n, low, high):
    """Lowest and highest values of every column of n rows; zeros that are not stored count."""
    stored = np.zeros(low.shape[0], np.int64)
    for p in range(data.shape[0]):
        j, v = indices[p], float(data[p])
        if stored[j] == 0:
            low[j] = high[j] = v
        else:
            low[j], high[j] = min(low[j], v), max(high[j], v)
        stored[j] += 1
    for j in range(low.shape[0]):
        if stored[j] < n:
            low[j], high[j] = min(low[j], 0.0), max(high[j], 0.0)


class Dense(NamedTuple):
    """Rows stored as a C-contiguous array of shape (n_rows, n_columns).

    Examples
    --------
    >>> d = Dense(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> d.apply(np.array([1.0, 10.0])), d.adjoint(np.array([1.0, 1.0]))
    (array([21., 30.]), array([1., 5.]))
    """

    values: np.ndarray

    @property
    def shape(self):
        """Rows and columns."""
        return self.values.shape

    def rows(self, chosen):
        """The rows of a slice."""
        return Dense(self.values[chosen])

    def count(self, i):
        """How many entries row i stores."""
        return self.values.shape[1]

    def index(self, i, p):
        """Column of the p-th entry of row i."""
        return p

    def entry(self, i, p):
        """Value of the p-th entry of row i."""
        return self.values[i, p]

    def put(self, i, p, value):
        """Overwrite the p-th entry of row i."""
        self.values[i, p] = value

    def longest(self):
        """The largest number of entries in a row."""
        return self.values.shape[1]

    def ranges(self):
        """Lowest and highest value of each column, in double precision."""
        X = self.values
        return X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)

    def squares(self):
        """The squared length of every row."""
        return np.einsum("ij,ij->i", self.values, self.values)

    def norms(self, p):
        """The p-norm of every row."""
        return np.linalg.norm(self.values, p, axis=1)

    def apply(self, theta):
        """X theta, in the rows' precision."""
        return self.values @ theta.astype(self.values.dtype, copy=False)

    def adjoint(self, r):
        """X' r, in the rows' precision."""
        # Transposed, so that the sums of one output are adjacent in memory.
        return (r.astype(self.values.dtype, copy=False).T @ self.values).T

    def gram(self, weights):
        """X' diag(weights) X."""
        return (self.values * weights[:, None]).T @ self.values


class CSR(NamedTuple):
    """Rows stored compressed: row i has the entries indptr[i] .. indptr[i + 1] - 1.

    Examples
    --------
    >>> d = CSR.from_scipy(sparse.csr_array(np.array([[0.0, 2.0], [1.0, 0.0]])))
    >>> d.apply(np.array([1.0, 10.0]))
    array([20.,  1.])
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    n_columns: int

    @classmethod
    def from_scipy(cls, matrix):
        """Take a SciPy CSR matrix or array.

        Kernels read indices as unsigned, which needs no check for negative ones; SciPy reads the
        same memory as signed.
        """
        narrow = matrix.indices.astype(np.int32, copy=False).view(np.uint32)
        indices = narrow if matrix.shape[1] < 2**31 else matrix.indices
        return cls(
            matrix.data, indices, matrix.indptr.astype(np.int64, copy=False), matrix.shape[1]
        )

    @property
    def shape(self):
        """Rows and columns."""
        return len(self.indptr) - 1, self.n_columns

    def rows(self, chosen):
        """The rows of a slice."""
        ends = self.indptr[chosen.start : chosen.stop + 1]
        own = slice(ends[0], ends[-1])
        return CSR(self.data[own], self.indices[own], ends - ends[0], self.n_columns)

    def count(self, i):
        """How many entries row i stores."""
        return self.indptr[i + 1] - self.indptr[i]

    def index(self, i, p):
        """Column of the p-th entry of row i."""
        return self.indices[self.indptr[i] + p]

    def entry(self, i, p):
        """Value of the p-th entry of row i."""
        return self.data[self.indptr[i] + p]

    def put(self, i, p, value):
        """Overwrite the p-th entry of row i."""
        self.data[self.indptr[i] + p] = value

    def longest(self):
        """The largest number of entries in a row."""
        return int(np.diff(self.indptr).max(initial=0))

    def ranges(self):
        """Lowest and highest value of each column, in double precision."""
        low, high = np.zeros(self.n_columns), np.zeros(self.n_columns)
        _ranges_csr(self.data, self.indices, self.shape[0], low, high)
        return low, high

    def squares(self):
        """The squared length of every row."""
        return csr(self.data * self.data, self.indices, self.indptr, self.n_columns).sum(axis=1)

    def norms(self, p):
        """The p-norm of every row."""
        size, n = np.abs(self.data), self.shape[0]
        row = np.repeat(np.arange(n), np.diff(self.indptr))
        if p == np.inf:
            out = np.zeros(n)
            np.maximum.at(out, row, size)
            return out
        return np.bincount(row, size**p, minlength=n) ** (1.0 / p)

    def _matrix(self):
        signed = self.indices.view(np.int32 if self.indices.itemsize == 4 else np.int64)
        return sparse.csr_array((self.data, signed, self.indptr), shape=self.shape)

    def _product(self, product, factor, n):
        factor = factor.astype(self.data.dtype, copy=False)
        out = np.zeros((n, *factor.shape[1:]), self.data.dtype)
        factor, sums = (np.ascontiguousarray(a).reshape(len(a), -1) for a in (factor, out))
        product(self.data, self.indices, self.indptr, factor, sums)
        return out

    def apply(self, theta):
        """X theta, in the rows' precision."""
        if len(self.data) >= _MANY:
            return self._product(_apply_csr, theta, self.shape[0])
        return self._matrix() @ theta.astype(self.data.dtype, copy=False)

    def adjoint(self, r):
        """X' r, in the rows' precision."""
        if len(self.data) >= _MANY:
            return self._product(_adjoint_csr, r, self.n_columns)
        return self._matrix().T @ r.astype(self.data.dtype, copy=False)

    def gram(self, weights):
        """X' diag(weights) X."""
        matrix = self._matrix()
        return (matrix.T @ (sparse.diags_array(weights) @ matrix)).toarray()


class Categorical(NamedTuple):
    """Rows with a 1 in the column of their level and 0 elsewhere; only the levels are stored.

    A row of level -1 is empty.

    Examples
    --------
    >>> d = Categorical(np.array([1, 0, 1, -1]), 2)
    >>> d.apply(np.array([5.0, 7.0])), d.adjoint(np.ones(4))
    (array([7., 5., 7., 0.]), array([1., 2.]))
    """

    codes: np.ndarray
    n_levels: int

    @property
    def shape(self):
        """Rows and columns."""
        return len(self.codes), self.n_levels

    def rows(self, chosen):
        """The rows of a slice."""
        return self._replace(codes=self.codes[chosen])

    def _matrix(self):
        ends = np.concatenate([[0], np.cumsum(self.codes >= 0)])
        columns = self.codes[self.codes >= 0]
        return sparse.csr_array((np.ones(len(columns)), columns, ends), shape=self.shape)

    def apply(self, theta):
        """X theta."""
        return np.take(np.concatenate([theta, np.zeros_like(theta[:1])]), self.codes, axis=0)

    def adjoint(self, r):
        """X' r: the sums of every level."""
        levels, outputs = self.codes + 1, r.reshape(len(r), -1).T
        out = np.empty((self.n_levels, len(outputs)))
        for k, values in enumerate(outputs):
            out[:, k] = np.bincount(levels, values, self.n_levels + 1)[1:]
        return out.reshape(self.n_levels, *r.shape[1:])

    def gram(self, weights):
        """X' diag(weights) X."""
        return np.diag(self.adjoint(weights))


class Split(NamedTuple):
    """The columns of several designs, one after another.

    Examples
    --------
    >>> d = Split((Dense(np.array([[1.0], [2.0]])), Categorical(np.array([1, 0]), 2)))
    >>> d.shape, d.apply(np.array([10.0, 1.0, 5.0]))
    ((2, 3), array([15., 21.]))
    """

    parts: tuple

    @property
    def shape(self):
        """Rows and columns."""
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    def rows(self, chosen):
        """The rows of a slice."""
        return Split(tuple(part.rows(chosen) for part in self.parts))

    def _ends(self):
        return np.cumsum([part.shape[1] for part in self.parts])[:-1]

    def apply(self, theta):
        """X theta."""
        pieces = np.split(theta, self._ends())
        return sum(part.apply(piece) for part, piece in zip(self.parts, pieces, strict=True))

    def adjoint(self, r):
        """X' r."""
        return np.concatenate([part.adjoint(r) for part in self.parts])

    def gram(self, weights):
        """X' diag(weights) X."""

        def block(a, b):
            if a is b:
                return a.gram(weights)
            if isinstance(a, Dense):
                return b.adjoint(a.values * weights[:, None]).T
            if isinstance(b, Dense):
                return block(b, a).T
            return (a._matrix().T @ (sparse.diags_array(weights) @ b._matrix())).toarray()

        return np.block([[block(a, b) for b in self.parts] for a in self.parts])


class Centred(NamedTuple):
    """A design less a centre, whose difference is not stored.

    Examples
    --------
    >>> d = Centred(Dense(np.array([[1.0, 2.0], [3.0, 4.0]])), np.array([2.0, 3.0]))
    >>> d.apply(np.array([1.0, 1.0])), d.adjoint(np.array([1.0, 1.0]))
    (array([-2.,  2.]), array([0., 0.]))
    """

    design: Any
    centre: np.ndarray

    @property
    def shape(self):
        """Rows and columns."""
        return self.design.shape

    def rows(self, chosen):
        """The rows of a slice."""
        return self._replace(design=self.design.rows(chosen))

    def apply(self, theta):
        """(X - 1 c') theta."""
        return self.design.apply(theta) - self.centre @ theta

    def adjoint(self, r):
        """(X - 1 c')' r."""
        return self.design.adjoint(r) - np.multiply.outer(self.centre, r.sum(axis=0))

    def gram(self, weights):
        """(X - 1 c')' diag(weights) (X - 1 c')."""
        mixed = np.multiply.outer(self.design.adjoint(weights), self.centre)
        centre = weights.sum() * np.multiply.outer(self.centre, self.centre)
        return self.design.gram(weights) - mixed - mixed.T + centre


class Shared(NamedTuple):
    """Weights shared by the outputs: y_i = u(A(x_i) theta), the rows of all A(x_i) in one design.

    The pseudogradient is the mean of A(x_i)' r_i over the samples: `outputs` times the mean over
    the rows.

    Examples
    --------
    >>> d = Shared.of(np.arange(12.0).reshape(2, 3, 2))
    >>> d.shape, d.outputs
    ((6, 2), 3)
    >>> Shared.of(lambda x: np.outer([1.0, -1.0], x), np.eye(2)).apply(np.array([2.0, 3.0]))
    array([ 2., -2.,  3., -3.])
    """

    design: Dense | CSR
    outputs: int

    def gram(self, weights):
        """The weighted sum of A(x_i)' A(x_i)."""
        return self.design.gram(weights)

    @classmethod
    def of(cls, A, X=None):
        """Take matrices, or a function of a row that makes one.

        Parameters
        ----------
        A : array-like of shape (n, k, p), list of n matrices (k, p), or callable
            A callable takes a row of X and returns a matrix, dense or sparse.
        X : ndarray of shape (n, d), optional
            Rows for the callable.

        Raises
        ------
        ValueError
            If the matrices differ in shape, or hold NaN or infinity.
        """
        rows, outputs = equations(A, X)
        return cls(design_of(rows.astype(float, copy=False)), outputs)

    @property
    def shape(self):
        """Rows of all matrices, and columns."""
        return self.design.shape

    def rows(self, chosen):
        """The rows of a slice."""
        return self._replace(design=self.design.rows(chosen))

    def apply(self, theta):
        """A(x_i) theta, one after another."""
        return self.design.apply(theta)

    def adjoint(self, r):
        """The sum of A(x_i)' r_i."""
        return self.design.adjoint(r)


def equations(A: Any, X: Any = None):
    """The rows of matrices A(x_i) of shape (k, p), one after another.

    Parameters
    ----------
    A, X
        As for `Shared.of`.

    Returns
    -------
    rows : ndarray or CSR of shape (n * k, p)
    k : int

    Raises
    ------
    ValueError
        If the matrices differ in shape, or hold NaN or infinity.
    """
    if callable(A):
        A = [A(x) for x in X]
    A = [as_rows(matrix) for matrix in A]
    shapes = {matrix.shape for matrix in A}
    shape = shapes.pop() if len(shapes) == 1 else ()
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            "Shared weights need one matrix (k, p) for each row, all of one shape: an array "
            "(n, k, p), a list of n matrices, or a function of a row that makes one."
        )
    rows = one_index_type(canonical(stacked(A)))
    values, _ = entries(rows)
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise ValueError(
            "A matrix of shared weights has NaN or infinity, or values that are no real numbers."
        )
    return rows if values.dtype.kind == "f" else rows.astype(float), shape[0]


def _squared_norm(self, design, i):
    """The squared norm of row i."""
    total = 0.0
    for p in range(count(design, i)):
        v = entry(design, i, p)
        total += v * v
    return total


@part
class One(NamedTuple):
    """A single output; kernels are compiled for it without loops over outputs."""

    square = _squared_norm

    def width(self):
        """How many outputs."""
        return 1

    def dot(self, design, i, table, field, out):
        """out[k] = sum over the entries of row i of entry * table[column, field, k]."""
        total = 0.0
        for p in range(count(design, i)):
            total += entry(design, i, p) * table[index(design, i, p), field, 0]
        out[0] = total

    def axpy2(self, design, i, table, first, second):
        """table[column, 0 and 1, k] += entry * first[k] and second[k] over the entries of row i."""
        a, b = first[0], second[0]
        for p in range(count(design, i)):
            j, v = index(design, i, p), entry(design, i, p)
            table[j, 0, 0] += a * v
            table[j, 1, 0] += b * v


@part
class Many(NamedTuple):
    """Several outputs: classes or targets."""

    n: int
    square = _squared_norm

    def width(self):
        """How many outputs."""
        return self.n

    def dot(self, design, i, table, field, out):
        """out[k] = sum over the entries of row i of entry * table[column, field, k]."""
        for k in range(self.n):
            out[k] = 0.0
        for p in range(count(design, i)):
            j, v = index(design, i, p), entry(design, i, p)
            for k in range(self.n):
                out[k] += v * table[j, field, k]

    def axpy2(self, design, i, table, first, second):
        """table[column, 0 and 1, k] += entry * first[k] and second[k] over the entries of row i."""
        for p in range(count(design, i)):
            j, v = index(design, i, p), entry(design, i, p)
            for k in range(self.n):
                table[j, 0, k] += v * first[k]
                table[j, 1, k] += v * second[k]


def outputs(n):
    """`One()` or ``Many(n)``."""
    return One() if n == 1 else Many(n)


# --- Rows, and one function for all of their kinds ------------------------------------------------


def design_of(X):
    """Rows of an array or a CSR matrix as a design, without a copy."""
    return CSR.from_scipy(X) if sparse.issparse(X) else Dense(X)


def n_entries(X):
    """How many entries rows store."""
    return X.size  # SciPy's size is the number of stored entries, too
