r"""Kernels: the inner products of rows in a feature space that is never written down.

==============  =====================================  ===================
name            k(x, y)                                family of bandwidths
==============  =====================================  ===================
rbf             exp(-gamma \|x - y\|^2)                squared distances
laplacian       exp(-gamma \|x - y\|_1)                sums of distances
polynomial      (gamma <x, y> + coef0)^degree
linear          <x, y>
cosine          <x, y> / (\|x\| \|y\|)
==============  =====================================  ===================

A kernel is one class. It has ``gram(A, B)``, the matrix of all k(a, b), and ``diag(A)``, the values
k(a, a). A kernel of the form exp(-gamma distance) also has ``distances(A, B, left, right, out)``.
Left and right are the results of ``sizes(A)`` and ``sizes(B)``, if the kernel has that method. The
bandwidth of such a kernel is learned: a grid of bandwidths shares the distances, and k of bandwidth
2 gamma is the square of k.

Optional flags: ``bounded`` (values are at most 1, so single precision is enough; a kernel with
``distances`` has that property); ``free = False``
(columns are brought to one scale only if the user asks for it); ``as_given`` (rows are never
changed). For the export a kernel has ``onnx(g, X, B)``, its values as nodes of a graph.

Rows are arrays or CSR matrices, and values have the rows' type.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from scipy import sparse

from tunefree.core.jit import REASSOCIATE, fast_exp, fast_exp32, kernel, maximum, minimum, part
from tunefree.core.parameters import is_number
from tunefree.core.parts import PartTable
from tunefree.core.protocols import Kernel, Rows
from tunefree.core.vectors import VECTOR, instructions, intrinsic
from tunefree.rows.designs import design_of
from tunefree.rows.matrices import as_dense

# With more columns than this, sums of differences are computed for half of the pairs. With fewer,
# computing the second triangle costs less than copying it: no benchmark is named for it.
HALVED = 100
# Rows whose absolute differences are added at once.
_AT_ONCE = 4
# Largest accepted difference of a kernel matrix and its transpose, relative to its largest value.
_ASYMMETRY = 1e-6
# So many rows of a matrix stay in the cache while they are copied; the places below its diagonal.
_BLOCK = 64
_BELOW = np.tri(_BLOCK, k=-1, dtype=bool)


def _pairwise() -> Any:
    """scikit-learn's kernels, imported when one is used."""
    from sklearn.metrics import pairwise

    return pairwise


# In place: with a second array the compiler must expect that the two overlap. A call in place would
# then run one number at a time, fourteen times slower.
@kernel(borrows=True, unrolls=False)
def _decay32(values, gamma):
    gamma, lowest = np.float32(-gamma), np.float32(-87.0)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[i, j] = fast_exp32(maximum(gamma * values[i, j], lowest))


@kernel(borrows=True, unrolls=False)
def _decay64(values, gamma):
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[i, j] = fast_exp(maximum(-gamma * values[i, j], -700.0))


@kernel(borrows=True, unrolls=False)
def _to_squares(products, left, right):
    """Inner products become squared distances; rounding does not make them negative."""
    zero = products.dtype.type(0.0)
    for i in range(products.shape[0]):
        a = left[i]
        for j in range(products.shape[1]):
            p = products[i, j]
            products[i, j] = maximum(a + right[j] - (p + p), zero)


def _are_arrays(*matrices: Rows) -> bool:
    return not any(sparse.issparse(rows) for rows in matrices)


def inner(A: Rows, B: Rows, out: np.ndarray | None = None) -> np.ndarray:
    """Inner products of all pairs of rows as an array, for arrays written to `out`."""
    if _are_arrays(A, B):
        return np.matmul(A, B.T, out=out)
    return np.asarray(as_dense(A @ B.T))


def squared_norms(A: Rows) -> np.ndarray:
    """The squared length of each row."""
    return design_of(A).squares()


def mirror(A: np.ndarray, start: int, stop: int) -> None:
    """Copy the upper triangle of the rows from `start` to `stop` to the lower triangle."""
    for top in range(start, stop, _BLOCK):
        bottom = min(top + _BLOCK, stop)
        square = A[top:bottom, top:bottom]
        np.copyto(square, square.T.copy(), where=_BELOW[: bottom - top, : bottom - top])
        A[bottom:, top:bottom] = A[top:bottom, bottom:].T


def _differences(n_rows, lanes=None) -> Any:
    """A function for kernels that writes distances of some rows to a vector of others.

    ``write(A, i, B, k, out)`` writes those of the rows of A from i on to the columns of B from k
    on. Each sum has the same order: of four columns the last three, the first to the sum so far.
    """

    def generate(vectors, A, i, B, k, out):
        vectors = vectors._replace(lanes=lanes or vectors.lanes)
        builder = vectors.builder
        d, width = cgutils.unpack_tuple(builder, B.shape)
        whole = width.type
        rows = [builder.add(i, whole(r)) for r in range(n_rows)]
        starts = [builder.mul(row, d) for row in rows]
        totals = [cgutils.alloca_once_value(builder, vectors.kind(None)) for _ in rows]

        def add_columns(j, count):
            columns = [builder.add(j, whole(c)) for c in range(count)]
            places = [builder.add(builder.mul(column, width), k) for column in columns]
            loaded = [vectors.load(B.data, place) for place in places]
            for total, start in zip(totals, starts, strict=True):
                first, *others = (
                    vectors.difference(vectors.repeat(A.data, builder.add(start, column)), w)
                    for column, w in zip(columns, loaded, strict=True)
                )
                added = vectors.add(builder.load(total), first)
                if others:
                    added = vectors.add(reduce(vectors.add, others), added)
                builder.store(added, total)

        fours = builder.and_(d, whole(-4))
        with cgutils.for_range_slice(builder, whole(0), fours, whole(4)) as (j, _):
            add_columns(j, 4)
        with cgutils.for_range_slice(builder, fours, d, whole(1)) as (j, _):
            add_columns(j, 1)
        for row, total in zip(rows, totals, strict=True):
            place = builder.add(builder.mul(row, width), k)
            vectors.store(builder.load(total), out.data, place)

    def write(typing, A, i, B, k, out):
        return instructions(generate, types.void(A, types.intp, B, types.intp, out))

    return intrinsic(write)


_write_differences = _differences(_AT_ONCE)
_write_difference = _differences(1, lanes=1)


@kernel(borrows=True, unrolls=False)
def _manhattan(A, B, out, upper):
    """Distances of rows A to the columns of B; some below the diagonal are skipped with `upper`.

    Arrays are contiguous.
    """
    n, m, lanes = len(A), B.shape[1], VECTOR // out.itemsize
    if n < _AT_ONCE or m < lanes:
        for i in range(n):
            for k in range(m):
                _write_difference(A, i, B, k, out)
        return
    # A strip of B stays in the L1 cache. The last rows and vectors overlap those before.
    for left in range(0, m, 8 * lanes):
        right = minimum(left + 8 * lanes, m)
        for top in range(0, minimum(n, right) if upper else n, _AT_ONCE):
            for k in range(left, right, lanes):
                _write_differences(A, minimum(top, n - _AT_ONCE), B, minimum(k, m - lanes), out)


@kernel(fastmath=REASSOCIATE, borrows=True, unrolls=False)
def _manhattan_spread(A, W, out):
    # A holds its rows as columns.
    zero = A.dtype.type(0.0)
    for i in range(1, A.shape[1]):
        w = W[i]
        for j in range(len(A)):
            x, total = A[j], zero
            here = x[i]
            for k in range(i):
                total += w[k] * abs(here - x[k])
            out[j] += total


def decay(distances: np.ndarray, gamma: float, out: np.ndarray | None = None) -> np.ndarray:
    """Exp(-gamma distances), written to `out` if given, which may be `distances` itself.

    Values below 1e-37 are not distinguished.
    """
    if out is None:
        out = distances.copy()
    elif out is not distances:
        out[:] = distances
    (_decay32 if out.dtype == np.float32 else _decay64)(out, gamma)
    return out


@part
class RBF(NamedTuple):
    r"""exp(-gamma \|x - y\|^2), the Gaussian kernel.

    Parameters
    ----------
    gamma : float, default=1.0
        Units of 1 / (squared units of the columns).

    Examples
    --------
    >>> X = np.array([[0.0], [2.0]])
    >>> RBF(gamma=0.25).gram(X, X).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    gamma: float = 1.0
    power = 2  # of the differences in a distance

    def sizes(self, A: Rows) -> np.ndarray:
        """The squared length of every row, an input of `distances`."""
        return squared_norms(A)

    def spread(self, A: np.ndarray, W: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """Of every column the sum of W_ik (a_i - a_k)^2 over pairs i < k; W is symmetric.

        With `rows` the part of these rows in it.
        """
        block, weights = A[rows], W[rows]
        return np.square(block).T @ weights.sum(axis=1) - np.einsum("ij,ij->j", block, weights @ A)

    def spread_from_zero(self, A: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Of every column the sum of w_i a_i^2."""
        return np.square(A).T @ w

    def distances(
        self,
        A: Rows,
        B: Rows,
        left: np.ndarray | None = None,
        right: np.ndarray | None = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """The squared distances, which the bandwidth multiplies, by one matrix product.

        Rows far from the origin lose digits: centre them first. `left` and `right` are sizes, if
        known. `out` is memory for dense results: new pages cost more than the arithmetic.
        """
        out = inner(A, B, out)
        left = squared_norms(A) if left is None else left
        right = squared_norms(B) if right is None else right
        _to_squares(out, left.astype(out.dtype, copy=False), right.astype(out.dtype, copy=False))
        return out

    def gram(self, A: Rows, B: Rows) -> np.ndarray:
        """Values of all pairs of rows, shape (n, m)."""
        if _are_arrays(A, B) and len(B):
            centre = B.mean(axis=0)  # distances of rows far from the origin keep their digits
            A, B = A - centre, B - centre
        D = self.distances(A, B)
        return decay(D, self.gamma, D)

    def diag(self, A: Rows) -> np.ndarray:
        """Values of every row with itself."""
        return np.ones(A.shape[0], A.dtype)

    def onnx(self, g: Any, X: Any, B: np.ndarray) -> Any:
        """Values of rows X with the rows of the array B, as nodes of a graph."""
        centre = B.mean(axis=0)
        X, B = g("Sub", X, centre), B - centre
        squares = g("ReduceSum", g("Mul", X, X), np.array([1]), keepdims=1)
        square = g("Sub", g("Add", squares, squared_norms(B)), g("Mul", g("MatMul", X, B.T), 2.0))
        return g("Exp", g("Mul", g("Max", square, 0.0), -float(self.gamma)))

    def onnx_lines(self, g: Any, X: str, B: np.ndarray) -> str:
        """``|x|^2 + |b|^2 - |x - b|^2``, which is 2 <x, b>, as nodes of a graph."""
        return g("Mul", g("MatMul", X, B.T.astype(np.float64)), 2.0)


@part
class Laplacian(NamedTuple):
    r"""exp(-gamma \|x - y\|_1): rougher functions than the Gaussian kernel's.

    Parameters
    ----------
    gamma : float, default=1.0
        Units of 1 / (units of the columns).

    Examples
    --------
    >>> X = np.array([[0.0], [2.0]])
    >>> Laplacian(gamma=0.5).gram(X, X).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    gamma: float = 1.0
    power = 1  # of the differences in a distance

    def sizes(self, A: Rows) -> np.ndarray:
        """The distance of every row to the origin."""
        return np.abs(A).sum(axis=1)

    def spread(self, A: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Of every column the sum of ``W_ik |a_i - a_k|`` over pairs i < k; W is symmetric."""
        out = np.zeros(A.shape[1])
        _manhattan_spread(np.ascontiguousarray(A.T), W, out)
        return out

    def spread_from_zero(self, A: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Of every column the sum of ``w_i |a_i|``."""
        return np.abs(A).T @ w

    def distances(
        self,
        A: Rows,
        B: Rows,
        left: np.ndarray | None = None,
        right: np.ndarray | None = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """The sums of absolute differences, which the bandwidth multiplies."""
        if not _are_arrays(A, B):
            return _pairwise().manhattan_distances(A, B).astype(A.dtype, copy=False)
        out = np.empty((len(A), len(B)), A.dtype) if out is None else out
        upper = A is B and A.shape[1] > HALVED
        _manhattan(np.ascontiguousarray(A), np.ascontiguousarray(B.T), out, upper)
        if upper:
            mirror(out, 0, len(out))
        return out

    def gram(self, A: Rows, B: Rows) -> np.ndarray:
        """Values of all pairs of rows, shape (n, m)."""
        D = self.distances(A, B)
        return decay(D, self.gamma, D)

    diag = RBF.diag

    def onnx(self, g: Any, X: Any, B: np.ndarray) -> Any:
        """Values of rows X with the rows of the array B, as nodes of a graph."""
        return g("Exp", g("Mul", _manhattan_nodes(g, X, B), -float(self.gamma)))

    def onnx_lines(self, g: Any, X: str, B: np.ndarray) -> str:
        """``|x| + |b| - |x - b|``, as nodes of a graph."""
        size = g("ReduceSum", g("Abs", X), np.array([1]), keepdims=1)
        both = g("Add", size, np.abs(B).sum(axis=1))
        return g("Sub", both, _manhattan_nodes(g, X, B))


def _manhattan_nodes(g, X, B):
    gap = g("Abs", g("Sub", g("Unsqueeze", X, np.array([1])), B[None]))
    return g("ReduceSum", gap, np.array([2]), keepdims=0)


@part
class Polynomial(NamedTuple):
    """(gamma <x, y> + coef0)^degree.

    Parameters
    ----------
    gamma : float, default=1.0
    degree : float, default=3
    coef0 : float, default=1
        Not negative: otherwise this is no inner product.

    Examples
    --------
    >>> Polynomial(degree=2).gram(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]))
    array([[36.]])
    """

    gamma: float = 1.0
    degree: float = 3
    coef0: float = 1.0

    def _shape(self, products):
        products *= self.gamma
        products += self.coef0
        products **= self.degree
        return products

    def gram(self, A: Rows, B: Rows) -> np.ndarray:
        """Values of all pairs of rows, shape (n, m)."""
        return self._shape(inner(A, B))

    def diag(self, A: Rows) -> np.ndarray:
        """Values of every row with itself."""
        return self._shape(squared_norms(A))

    def onnx(self, g: Any, X: Any, B: np.ndarray) -> Any:
        """Values of rows X with the rows of the array B, as nodes of a graph."""
        base = g("Add", g("Mul", g("MatMul", X, B.T), float(self.gamma)), float(self.coef0))
        return g("Pow", base, float(self.degree))


@part
class Linear(NamedTuple):
    """<x, y>: linear learning by inner products.

    Examples
    --------
    >>> Linear().gram(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]))
    array([[5.]])
    """

    free = False

    def gram(self, A: Rows, B: Rows) -> np.ndarray:
        """Values of all pairs of rows, shape (n, m)."""
        return inner(A, B)

    def diag(self, A: Rows) -> np.ndarray:
        """Values of every row with itself."""
        return squared_norms(A)

    def onnx(self, g: Any, X: Any, B: np.ndarray) -> Any:
        """Values of rows X with the rows of the array B, as nodes of a graph."""
        return g("MatMul", X, B.T)


@part
class Cosine(NamedTuple):
    r"""<x, y> / (\|x\| \|y\|), 0 for a row of zeros.

    Examples
    --------
    >>> Cosine().gram(np.array([[3.0, 4.0]]), np.array([[2.0, 0.0]]))
    array([[0.6]])
    """

    bounded, free = True, False

    def gram(self, A: Rows, B: Rows) -> np.ndarray:
        """Values of all pairs of rows, shape (n, m)."""
        return _pairwise().cosine_similarity(A, B).astype(A.dtype, copy=False)

    def diag(self, A: Rows) -> np.ndarray:
        """Values of every row with itself."""
        return (squared_norms(A) > 0.0).astype(A.dtype)

    def onnx(self, g: Any, X: Any, B: np.ndarray) -> Any:
        """Values of rows X with the rows of the array B, as nodes of a graph."""
        length = g("Sqrt", g("ReduceSum", g("Mul", X, X), np.array([1]), keepdims=1))
        lengths = g("Mul", length, np.sqrt(squared_norms(B)))
        return g("Div", g("MatMul", X, B.T), g("Max", lengths, 1e-300))


class Pairwise(NamedTuple):
    """Any other kernel of `sklearn.metrics.pairwise`, by its name there.

    Parameters
    ----------
    metric : str
    gamma, degree, coef0 : float
        Used if the kernel has the parameter.

    Examples
    --------
    >>> Pairwise("chi2", gamma=1.0).gram(np.array([[1.0]]), np.array([[1.0]]))
    array([[1.]])
    """

    metric: str
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 1.0

    def gram(self, A: Rows, B: Rows) -> np.ndarray:
        """Values of all pairs of rows, shape (n, m)."""
        parameters = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        out = _pairwise().pairwise_kernels(
            A, B, metric=self.metric, filter_params=True, **parameters
        )
        return np.asarray(out).astype(A.dtype, copy=False)

    def diag(self, A: Rows) -> np.ndarray:
        """Values of every row with itself."""
        rows = (A[[i]] for i in range(A.shape[0]))
        return np.array([self.gram(row, row)[0, 0] for row in rows], A.dtype)


class Function(NamedTuple):
    """A user's function as a kernel.

    Parameters
    ----------
    function : callable
        Of two matrices, giving the matrix of all values (as in `sklearn.svm.SVC`), or of two rows,
        giving one value (as in `sklearn.metrics.pairwise.pairwise_kernels`).

    Examples
    --------
    >>> k = Function(lambda x, y: float(np.minimum(x, y).sum()))
    >>> k.gram(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]))
    array([[2.]])
    """

    function: Callable[..., Any]
    free, as_given = False, True

    def _takes_matrices(self, A, B):
        """Whether 2 and 3 rows (by repetition, if need be) give a 2 by 3 matrix."""
        try:
            return np.shape(self.function(A[[0, -1]], B[[0, 0, -1]])) == (2, 3)
        except Exception:
            # A function of two rows may raise anything for matrices. Real errors show with rows.
            return False

    def gram(self, A: Rows, B: Rows) -> np.ndarray:
        """Values of all pairs of rows, shape (n, m)."""
        if not A.shape[0] or not B.shape[0]:
            return np.empty((A.shape[0], B.shape[0]), A.dtype)
        if self._takes_matrices(A, B):
            out = self.function(A, B)
        else:
            out = _pairwise().pairwise_kernels(A, B, metric=self.function)
        return np.asarray(out).astype(A.dtype, copy=False)

    diag = Pairwise.diag


@part
class Precomputed(NamedTuple):
    """A matrix of values: a "row" holds its values with all training rows.

    Examples
    --------
    >>> Precomputed().gram(np.array([[2.0, 1.0, 0.0]]), np.array([0, 2]))
    array([[2., 0.]])
    """

    free, as_given = False, True

    def gram(self, A: Rows, B: Rows) -> np.ndarray:
        """The columns B (numbers of training rows) of A."""
        return as_dense(A[:, B])

    def diag(self, A: Rows) -> np.ndarray:
        """The diagonal of the square training matrix."""
        return np.asarray(A.diagonal())


def make_kernel(kernel: Any, gamma: float = 1.0, degree: float = 3, coef0: float = 1.0) -> Kernel:
    """The kernel of a name, a function or a part, with the parameters that it has.

    Raises
    ------
    ValueError
        For an unknown name, or gamma <= 0.

    Examples
    --------
    >>> make_kernel("rbf", gamma=0.5)
    RBF(gamma=0.5)
    """
    if hasattr(kernel, "gram"):
        return kernel
    if callable(kernel):
        return Function(kernel)
    if kernel == "precomputed":
        return Precomputed()
    name = "polynomial" if kernel == "poly" else kernel
    if name not in _pairwise().PAIRWISE_KERNEL_FUNCTIONS and name not in KERNELS.names():
        names = {*KERNELS, "poly", "precomputed", *_pairwise().PAIRWISE_KERNEL_FUNCTIONS}
        names = ", ".join(sorted(names))
        raise ValueError(f"kernel={kernel!r} is unknown: it is one of {names}, or a function.")
    check_gamma(gamma)
    options = {"gamma": float(gamma), "degree": degree, "coef0": coef0}
    if name not in KERNELS:
        return Pairwise(name, **options)
    shape = KERNELS[name]
    return shape._replace(**{k: v for k, v in options.items() if k in shape._fields})


def check_gamma(gamma: Any, *names: str) -> None:
    """Check that a bandwidth is one of the names or a positive number.

    Raises
    ------
    ValueError
    """
    is_known = gamma in names if isinstance(gamma, str) else is_number(gamma) and gamma > 0.0
    if not is_known:
        known = " or ".join([*map(repr, names), "a positive number"])
        raise ValueError(f"gamma={gamma!r} is not {known}.")


def resolve_gamma(gamma: Any, X: Rows, weights: np.ndarray | None = None) -> float:
    """The number that `gamma` means for rows: a number itself, 'scale' 1 / (d variance of X).

    Parameters
    ----------
    gamma : 'scale' or float
    X : ndarray or CSR of shape (n, d)
    weights : ndarray of shape (n,), optional
        Of the rows.

    Raises
    ------
    ValueError
        For another name, or gamma <= 0.

    Examples
    --------
    >>> resolve_gamma("scale", np.array([[0.0, 2.0], [2.0, 0.0]])), resolve_gamma(0.3, None)
    (0.5, 0.3)
    """
    check_gamma(gamma, "scale")
    if not isinstance(gamma, str):
        return float(gamma)
    weights = np.ones(X.shape[0]) if weights is None else weights
    share = weights / weights.sum()
    first = share @ X.mean(axis=1)
    square = (X * X).mean(axis=1)
    variance = float(share @ square - first * first)
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0


def check_gram(K: np.ndarray, name: str = "kernel") -> None:
    """Check that a square matrix can be a kernel's.

    Raises
    ------
    ValueError
        For NaN or infinity, a negative diagonal, or a matrix that is not symmetric.
    """
    if not np.isfinite(K).all():
        raise ValueError(f"{name} gives NaN or infinite values.")
    diagonal = np.asarray(K.diagonal())
    if diagonal.min(initial=0.0) < 0.0:
        raise ValueError(
            f"{name} gives {diagonal.min():.3g} for a row with itself: squared lengths in feature "
            "space are not negative."
        )
    size = max(float(np.abs(K).max(initial=0.0)), 1e-300)
    gap = float(np.abs(K - K.T).max(initial=0.0))
    tolerance = _ASYMMETRY if K.dtype == np.float64 else 1e-4
    if gap > tolerance * size:
        raise ValueError(
            f"{name} is not symmetric: k(x, y) and k(y, x) differ by up to {gap:.3g} "
            f"(largest value {size:.3g})."
        )


def median_gamma(k: Any, X: Rows, seed: int = 0) -> float:
    """The median heuristic: 1 / median distance of 20,000 random pairs, of those that differ.

    Parameters
    ----------
    k : RBF or Laplacian
        Its distances are used.
    X : ndarray or CSR of shape (n, d)
    seed : int, default=0

    Returns
    -------
    float
        1 if no two rows differ.

    Examples
    --------
    >>> median_gamma(RBF(), np.array([[0.0], [2.0]]))
    0.25
    """
    n = X.shape[0]
    rng = np.random.default_rng(seed)
    distances = []
    for _ in range(32):
        # Small squares of pairs, so that distances are matrix products.
        A, B = (X[rng.integers(0, n, 25)] for _ in range(2))
        distances.append(k.distances(A, B).ravel())
    distances = np.concatenate(distances).astype(np.float64)
    positive = distances[distances > 1e-6 * distances.max(initial=0.0)]
    return float(1.0 / np.median(positive)) if len(positive) else 1.0


KERNELS = PartTable(
    "kernel",
    "gram",
    {
        "rbf": RBF(),
        "laplacian": Laplacian(),
        "polynomial": Polynomial(),
        "linear": Linear(),
        "cosine": Cosine(),
    },
)
