"""Columns: their moments, and the views in which a learner is given them.

Moments of columns are computed here: `moments` of rows in memory, `RunningMoments` of a stream, and
`RowMeans`, `Deviations` and `Ranges` of parts that are joined (chunks of a source, a cluster).

A view gives a learner ``z = [(clip(x) - shift) scale rotation, bias]``. Linear predictors are
invariant to such changes, but learning is not, so several views compete. At the end a weight vector
in view coordinates is converted to coefficients and an intercept for the raw columns. A `Scaling`
may also transform x to asinh((x - median) / scale): linear near the median and logarithmic far from
it, which suits heavy tails and skewed counts.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from tunefree._jit import REASSOCIATE, kernel, maximum, minimum
from tunefree.designs import CSR, Dense, as_dense, design_of, resized, squares_about

_BLOCK = 1024
# Rows from which centre and scale of an asinh column are computed.
_MOST_ROWS = 20_000


class Moments(NamedTuple):
    """Weighted statistics of d columns."""

    weight: float  # of all rows
    mean: np.ndarray
    square: np.ndarray  # the mean square about the mean, of sparse data about 0
    largest: np.ndarray  # the largest absolute value
    product: Any  # the covariance, of shape (d, d); None if it was not computed
    magnitude: float  # the root mean square of the entries that are not 0


def _blocks(X, rows, caps):
    for start in range(0, len(rows), _BLOCK):
        block = as_dense(X[rows[start : start + _BLOCK]]).astype(np.float64, copy=False)
        yield slice(start, start + _BLOCK), block if caps is None else np.clip(block, *caps)


def moments(X, rows, weights, *, centred=True, products=False, caps=None):
    """Moments of chosen rows, summed in their order; columns are clipped to `caps` first.

    About the mean if `centred`, else about zero, which reads stored entries only. With `products`
    the covariance is computed, too.

    Examples
    --------
    >>> m = moments(np.array([[1.0], [3.0]]), np.array([0, 1]), np.ones(2))
    >>> m.mean, m.square
    (array([2.]), array([1.]))
    """
    d, total = X.shape[1], float(weights.sum())
    if not centred and sparse.issparse(X):
        sums = RunningMoments(d, sparse=True, products=False)
        sums.add(X, weights, rows)
        sums.total = total
        return sums.moments()
    mean, largest = np.zeros(d), np.zeros(d)
    stored = energy = 0.0
    for part, block in _blocks(X, rows, caps):
        w = weights[part]
        mean += w @ block
        np.maximum(largest, np.abs(block).max(axis=0), out=largest)
        stored += float(w @ np.count_nonzero(block, axis=1))
        energy += float(w @ np.einsum("ij,ij->i", block, block))
    mean /= total
    product = np.zeros((d, d)) if products else None
    square = np.zeros(d)
    for part, block in _blocks(X, rows, caps):
        block = block - mean if centred else block
        weighted = block * weights[part][:, None]
        square += np.einsum("ij,ij->j", weighted, block)
        if products:
            product += weighted.T @ block
    return Moments(
        total,
        mean,
        square / total,
        largest,
        None if product is None else product / total,
        float(np.sqrt(energy / max(stored, 1e-300))),
    )


@kernel(fastmath=REASSOCIATE)
def _stream_sums(X, weights, total, mean, square, largest, product, counts):
    """Welford's update, row by row, so that chunks of any size give the same bits."""
    d = X.shape[1]
    gap = np.empty(d)
    for i in range(X.shape[0]):
        w = weights[i]
        total += w
        for j in range(d):
            v = X[i, j]
            gap[j] = v - mean[j]
            mean[j] += gap[j] * w / total
            square[j] += w * gap[j] * (v - mean[j])
            largest[j] = maximum(largest[j], abs(v))
            if v != 0.0:
                counts[0] += w
                counts[1] += w * v * v
        shrink = w * (1.0 - w / total)
        if product.shape[0] > 0:
            for j in range(d):
                s = shrink * gap[j]
                for k in range(d):
                    product[j, k] += s * gap[k]
    return total


@kernel
def _sparse_sums(data, indices, indptr, rows, weights, mean, square, largest, counts):
    total = 0.0
    for i in range(rows.shape[0]):
        w = weights[i]
        total += w
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            v = float(data[p])
            if v != 0.0:
                mean[indices[p]] += w * v
                square[indices[p]] += w * v * v
                largest[indices[p]] = maximum(largest[indices[p]], abs(v))
                counts[0] += w
                counts[1] += w * v * v
    return total


class RunningMoments:
    """Moments of a stream, updated row by row; of sparse rows about 0, else about the mean.

    Examples
    --------
    >>> running = RunningMoments(1, sparse=False, products=False)
    >>> running.add(np.array([[1.0], [3.0]]), np.ones(2))
    >>> running.moments().square
    array([1.])
    """

    _SAVED = ("sparse", "total", "counts", "mean", "square", "largest", "product")

    def __init__(self, d, *, sparse, products):
        self.sparse, self.total, self.counts = sparse, 0.0, np.zeros(2)
        self.mean, self.square, self.largest = np.zeros(d), np.zeros(d), np.zeros(d)
        self.product = np.zeros((d, d) if products else (0, 0))

    def add(self, X, weights, rows=None):
        """Add rows: chosen ones of a sparse matrix, or all."""
        sums = self.mean, self.square, self.largest
        if self.sparse:
            rows = np.arange(X.shape[0]) if rows is None else rows
            self.total += _sparse_sums(
                X.data, X.indices, X.indptr, rows, weights, *sums, self.counts
            )
        else:
            X = X.astype(np.float64, copy=False)
            self.total = _stream_sums(X, weights, self.total, *sums, self.product, self.counts)

    def columns(self, d):
        """Extend to d columns; new columns have been 0 so far."""
        for name in ("mean", "square", "largest"):
            setattr(self, name, resized(getattr(self, name), d))

    def moments(self):
        """The moments so far."""
        total = max(self.total, 1e-300)
        return Moments(
            self.total,
            self.mean / total if self.sparse else self.mean.copy(),
            self.square / total,
            self.largest.copy(),
            self.product / total if self.product.size else None,
            float(np.sqrt(self.counts[1] / max(self.counts[0], 1e-300))),
        )


class RowMeans(NamedTuple):
    """Total weight of rows, and weighted means of their columns and targets."""

    weight: float
    columns: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The means of rows."""
        total = float(weights.sum())
        share = weights / total
        return cls(total, np.asarray(share @ X, dtype=np.float64).reshape(-1), share @ targets)

    def join(self, other):
        """The means of the union."""
        total = self.weight + other.weight
        share = other.weight / total
        return RowMeans(
            total,
            self.columns + share * (other.columns - self.columns),
            self.targets + share * (other.targets - self.targets),
        )


class Deviations(NamedTuple):
    """Means of rows, and the sums of squared deviations of their columns: they can be joined."""

    means: RowMeans
    square: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The deviations of rows."""
        means = RowMeans.of(X, targets, weights)
        return cls(means, squares_about(means.columns, X, weights, means.weight))

    def join(self, other):
        """The deviations of the union (Chan, Golub and LeVeque 1979)."""
        means = self.means.join(other.means)
        share, gap = other.means.weight / means.weight, other.means.columns - self.means.columns
        between = self.means.weight * share * gap**2
        return Deviations(means, self.square + other.square + between)

    def widened(self, d):
        """The same with d columns; new columns were 0 so far."""
        means = self.means._replace(columns=resized(self.means.columns, d))
        return Deviations(means, resized(self.square, d))


class Ranges(NamedTuple):
    """Means of rows, and the range of every column: they can be joined."""

    means: RowMeans
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, X, targets, weights):
        """The ranges of rows of positive weight."""
        return cls(RowMeans.of(X, targets, weights), *design_of(X).ranges())

    def join(self, other):
        """The ranges of the union."""
        means = self.means.join(other.means)
        return Ranges(means, np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@kernel
def _scaled_rows(data, indices, indptr, rows, scale, bias, width):
    """Chosen rows of a CSR matrix, scaled by column, with a constant last entry."""
    n = rows.shape[0]
    extra = 1 if bias != 0.0 else 0
    starts = np.empty(n + 1, np.int64)
    starts[0] = 0
    for i in range(n):
        starts[i + 1] = starts[i] + indptr[rows[i] + 1] - indptr[rows[i]] + extra
    out, columns = np.empty(starts[n]), np.empty(starts[n], np.uint32)
    scaled = scale.shape[0] > 0
    for i in range(n):
        q = starts[i]
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            j = indices[p]
            out[q] = data[p] * scale[j] if scaled else data[p]
            columns[q] = j
            q += 1
        if extra:
            out[q] = bias
            columns[q] = width
    return out, columns, starts


@kernel(fastmath=REASSOCIATE)
def _rotate(out, rotation):
    """out[i, :d] = out[i, :d] rotation, row by row: the bits do not depend on the block."""
    d = rotation.shape[0]
    row = np.empty(d)
    # No slices are assigned: for the message of their error Numba compiles all of its strings.
    for i in range(out.shape[0]):
        for k in range(d):
            row[k] = 0.0
        for j in range(d):
            v = out[i, j]
            for k in range(d):
                row[k] += v * rotation[j, k]
        for k in range(d):
            out[i, k] = row[k]


class View(NamedTuple):
    """A linear change of columns; None skips a step.

    Parameters
    ----------
    bias : float
        The constant appended as a last column; 0 for none.
    shift : ndarray of shape (d,) or None
        Subtracted (dense data only).
    scale : ndarray of shape (d,) or None
        Multiplies the columns.
    rotation : ndarray of shape (d, d) or None
        Multiplies the scaled rows from the right.
    low, high : ndarray of shape (d,) or None
        Columns are clipped to them first (dense data only).

    Examples
    --------
    >>> v = View(1.0, shift=np.array([1.0]), scale=np.array([2.0]))
    >>> v.show(np.array([[4.0]]), np.array([0])).values
    array([[6., 1.]])
    >>> v.fold(np.array([[3.0], [5.0]]))
    (array([[6.]]), array([-1.]))
    """

    bias: float = 0.0
    shift: np.ndarray | None = None
    scale: Any = None  # an array, or None
    rotation: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    @property
    def dense(self):
        """Whether the view needs dense rows."""
        return self.shift is not None or self.rotation is not None or self.low is not None

    def show(self, X, rows):
        """Chosen rows of X (ndarray or CSR) as a design in view coordinates."""
        if sparse.issparse(X) and not self.dense:
            scale = np.empty(0) if self.scale is None else self.scale
            data, columns, starts = _scaled_rows(
                X.data, X.indices, X.indptr, rows, scale, self.bias, X.shape[1]
            )
            return CSR(data, columns, starts, X.shape[1] + (self.bias != 0.0))
        out = np.empty((len(rows), X.shape[1] + (self.bias != 0.0)))
        z = out[:, : X.shape[1]]
        z[:] = as_dense(X[rows])
        if self.low is not None:
            np.clip(z, self.low, self.high, out=z)
        if self.shift is not None:
            z -= self.shift
        if self.scale is not None:
            z *= self.scale
        if self.rotation is not None:
            _rotate(out, self.rotation)
        out[:, X.shape[1] :] = self.bias
        return Dense(out)

    def columns(self, d):
        """The view for d columns of sparse data; new columns have a scale of 0."""
        return self if self.scale is None else self._replace(scale=resized(self.scale, d))

    def fold(self, weights):
        """Coefficients (d, n_outputs) and intercepts (n_outputs,) on the raw columns."""
        coef, intercept = weights, np.zeros(weights.shape[1])
        if self.bias != 0.0:
            coef, intercept = weights[:-1], self.bias * weights[-1]
        if self.rotation is not None:
            coef = self.rotation @ coef
        if self.scale is not None:
            coef = self.scale[:, None] * coef
        if self.shift is not None:
            intercept = intercept - self.shift @ coef
        return coef, intercept


def inverse(x, floor):
    """1 / x where x exceeds the floor, else 0, so that constant columns are ignored."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > floor)


def raw(m):
    """Columns as they are; the constant is as large as the entries, so that scale cancels."""
    return View(m.magnitude if m.magnitude > 0.0 else 1.0)


def scaled(m):
    """Columns divided by their root mean square (sparse data stay sparse)."""
    return View(1.0, scale=inverse(np.sqrt(m.square), 0.0))


def standardised(m):
    """Columns centred and divided by their standard deviation."""
    return View(1.0, shift=m.mean, scale=inverse(np.sqrt(m.square), 1e-10 * m.largest))


def whitened(m, ridge=1.0):
    """Standardised columns times V (lambda + ridge mean(lambda))^(-1/2) V' (symmetric whitening).

    lambda and V are the eigenvalues and eigenvectors of the correlation matrix. The symmetric form
    changes little when the statistics change little, so a stream may update it.
    """
    base = standardised(m)
    values, vectors = np.linalg.eigh(m.product * base.scale * base.scale[:, None])
    values = np.maximum(values, 0.0)
    level = values.mean()
    if level <= 0.0:
        return base
    rotation = (vectors / np.sqrt(values + ridge * level)) @ vectors.T
    # Rounding would leave tiny values for constant columns, and scale-free learners would use them.
    constant = base.scale == 0.0
    rotation[constant], rotation[:, constant] = 0.0, 0.0
    return base._replace(rotation=rotation)


def strongly_whitened(m):
    """`whitened` with a hundredth of the ridge, for strongly correlated columns."""
    return whitened(m, ridge=0.01)


VIEWS = {
    "raw": raw,
    "scaled": scaled,
    "standardised": standardised,
    "whitened": whitened,
    "strongly_whitened": strongly_whitened,
}


class ViewSet(NamedTuple):
    """Views by name (keys of `VIEWS`), made from moments.

    Without an intercept they have neither a shift nor a constant.

    Examples
    --------
    >>> m = moments(np.array([[1.0], [3.0]]), np.array([0, 1]), np.ones(2))
    >>> ViewSet(("standardised",)).make(m)["standardised"].shift
    array([2.])
    """

    names: tuple
    intercept: bool = True

    @property
    def products(self):
        """Whether the covariance is needed."""
        return any("whitened" in name for name in self.names)

    def make(self, m, caps=None):
        """The views as a dict; columns are clipped to caps = (low, high) first, if given."""
        out = {name: VIEWS[name](m) for name in self.names}
        if caps is not None and np.isfinite(caps[0]).any():
            out = {k: v._replace(low=caps[0], high=caps[1]) for k, v in out.items()}
        if not self.intercept:
            out = {k: v._replace(bias=0.0, shift=None) for k, v in out.items()}
        return out


class Scaling(NamedTuple):
    """z = asinh((x - center) / scale), or a plain shift and rescaling.

    Parameters
    ----------
    center, scale : ndarray of shape (d,)
    asinh : bool, default=True
        False: no asinh.
    """

    center: np.ndarray
    scale: np.ndarray
    asinh: bool = True

    def show(self, X):
        """The transformed rows, of the same type of float.

        Examples
        --------
        >>> Scaling(np.zeros(1), np.ones(1)).show(np.array([[0.0], [1e6]])).round(1)
        array([[ 0. ],
               [14.5]])
        """
        z = (X - self.center.astype(X.dtype)) / self.scale.astype(X.dtype)
        return np.arcsinh(z) if self.asinh else z

    def onnx(self, g, X):
        """The same in a graph (`tunefree.onnx`)."""
        X = g("Div", g("Sub", X, self.center), self.scale)
        if self.asinh:  # asinh(z) = sign(z) log(|z| + sqrt(z^2 + 1))
            root = g("Sqrt", g("Add", g("Mul", X, X), 1.0))
            X = g("Mul", g("Sign", X), g("Log", g("Add", g("Abs", X), root)))
        return X


def asinh_scaling(X):
    """Asinh scaling of rows in random order: median, and the 75 % quantile of the distance to it.

    Where that is 0, the smallest distance that is not (1 for a constant).

    Examples
    --------
    >>> asinh_scaling(np.array([[1.0, 0.0], [2.0, 0.0], [9.0, 5.0]])).scale
    array([4. , 2.5])
    """
    X = np.asarray(X[:_MOST_ROWS], dtype=np.float64)
    center = np.median(X, axis=0)
    away = np.abs(X - center)
    scale = np.quantile(away, 0.75, axis=0)
    least = np.where(away > 0.0, away, np.inf).min(axis=0)
    return Scaling(center, np.where(scale > 0.0, scale, np.where(np.isfinite(least), least, 1.0)))


def standard_scaling(X, weights):
    """Mean and standard deviation of weighted rows (deviation 1 for a constant).

    Examples
    --------
    >>> standard_scaling(np.array([[1.0], [3.0]]), np.ones(2)).center
    array([2.])
    """
    share = (weights / weights.sum()).astype(np.float64)
    center = share @ X
    spread = np.sqrt(np.maximum(share @ np.square(X - center), 0.0))
    largest = np.abs(X).max(axis=0, initial=0.0)
    return Scaling(center, np.where(spread > 1e-10 * largest, spread, 1.0), asinh=False)


def show(parts, X):
    """Rows under all parts of a view, one after the other."""
    for part in parts:
        X = part.show(X)
    return X


# A column of up to _LEVELS whole numbers may be a code; up to _OWN_RATES levels have a rate each.
_LEVELS, _OWN_RATES = 30, 8
# Larger whole numbers are no codes: in some power of two all floats are whole.
_LARGEST_CODE = 2.0**20
# Standardised numbers are clipped at this many deviations.
_CLIP = 6.0
# Ranks become a coordinate unless their correlation with the numbers is at least this.
_ALIKE = 0.97
_NUMBER, _RANK, _LEVEL = 0, 1, 2


@kernel(borrows=True)
def _interpolated(x, knots, heights):
    """`numpy.interp` for one number, to the bit."""
    if x >= knots[-1]:
        return heights[-1]
    low, high = 0, len(knots)
    while low < high:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle + 1
        else:
            high = middle
    j = low - 1
    if j < 0 or x == knots[j]:
        return heights[maximum(j, 0)]
    slope = (heights[j + 1] - heights[j]) / (knots[j + 1] - knots[j])
    return slope * (x - knots[j]) + heights[j]


@kernel(borrows=True)
def _show(X, source, kind, out, center, scale, start, knots, heights):
    """Write the coordinates of rows; False if an index is out of bounds, as in a forged file."""
    n = len(source)
    same = len(kind) == len(center) == len(scale) == n and len(knots) == len(heights)
    if not same or len(start) != n + 1:
        return False
    for i in range(n):
        rank = kind[i] == _RANK
        if not 0 <= source[i] < X.shape[1] or not 0 <= start[i] <= start[i + 1] <= len(knots):
            return False
        if rank and start[i] == start[i + 1]:
            return False
    for i in range(n):
        row, j = out[i], source[i]
        if kind[i] == _LEVEL:
            for r in range(len(X)):
                row[r] = X[r, j] == center[i]
        elif kind[i] == _RANK:
            part = slice(start[i], start[i + 1])
            x, y = knots[part], heights[part]
            for r in range(len(X)):
                row[r] = _interpolated(np.float64(X[r, j]), x, y)
        else:
            for r in range(len(X)):
                z = (X[r, j] - center[i]) / scale[i]
                row[r] = minimum(maximum(z, -_CLIP), _CLIP)
    return True


class Coordinates(NamedTuple):
    """Each column as a number, and where useful as ranks and as one indicator for every level.

    Numbers are standardised and clipped at six deviations. Ranks (mid-ranks, standardised, and
    interpolated between the values seen) are added where they differ from the numbers. Columns of 3
    to 30 whole numbers, in any power of two as their unit, may be codes, so they get an indicator
    for every value, too. The rates of the kernel decide which of these count. If a column has more
    than eight levels, they share one rate.
    """

    source: np.ndarray  # of each coordinate the column,
    kind: np.ndarray  # the kind (number, rank or level),
    rate: np.ndarray  # and the number of its rate
    center: np.ndarray  # mean and deviation; for a level its value and 1
    scale: np.ndarray
    start: np.ndarray  # where a coordinate's knots begin
    knots: np.ndarray  # those of all coordinates, and their ranks
    heights: np.ndarray

    def show(self, X):
        """The coordinates of rows, of the same type of float, shape (n, q).

        Examples
        --------
        >>> X = np.array([[0.0], [1.0], [2.0]])
        >>> coordinates(X, np.ones(3)).show(X).round(1)
        array([[-1.2,  1. ,  0. ,  0. ],
               [ 0. ,  0. ,  1. ,  0. ],
               [ 1.2,  0. ,  0. ,  1. ]])
        """
        out = np.empty((len(self.source), len(X)), X.dtype)
        if not _show(np.ascontiguousarray(X), self.source, self.kind, out, *self[3:]):
            raise ValueError("The coordinates do not fit together, or are those of other columns.")
        return out.T

    def onnx(self, g, X):
        """The coordinates of rows as nodes of a graph."""
        columns = []
        for i, (j, kind) in enumerate(zip(self.source, self.kind, strict=True)):
            x = g("Gather", X, np.array([j]), axis=1)
            if kind == _LEVEL:
                columns.append(g.cast(g("Equal", x, float(self.center[i])), np.float64))
            elif kind == _RANK:
                part = slice(self.start[i], self.start[i + 1])
                knots, heights = self.knots[part], self.heights[part]
                # A piecewise linear function is a sum of clipped differences.
                steps = np.diff(heights) / np.diff(knots)
                rise = g("Min", g("Max", g("Sub", x, knots[:-1]), 0.0), np.diff(knots))
                total = g("ReduceSum", g("Mul", rise, steps), np.array([1]), keepdims=1)
                columns.append(g("Add", total, float(heights[0])))
            else:
                z = g("Div", g("Sub", x, float(self.center[i])), float(self.scale[i]))
                columns.append(g("Max", g("Min", z, _CLIP), -_CLIP))
        return g("Concat", *columns, axis=1)


class Components(NamedTuple):
    """Principal components, for columns of one unit such as pixels.

    Neither columns nor components are rescaled, so directions of small variance count for little.
    All components share one rate.
    """

    center: np.ndarray
    axes: np.ndarray  # (d, k), orthogonal, of one length: the first component has a variance of 1

    @property
    def rate(self):
        """The number of each component's rate: all share one."""
        return np.zeros(self.axes.shape[1], dtype=np.int64)

    def show(self, X):
        """The components of rows, of the same type of float, shape (n, k).

        Examples
        --------
        >>> X = np.array([[0.0, 0.0], [3.0, 3.0], [6.0, 6.0]])
        >>> np.abs(components(X, np.ones(3), 1).show(X)).round(1)
        array([[1.2],
               [0. ],
               [1.2]])
        """
        return (X - self.center.astype(X.dtype)) @ self.axes.astype(X.dtype)

    def onnx(self, g, X):
        """The components of rows as nodes of a graph."""
        return g("MatMul", g("Sub", X, self.center), self.axes)


def components(X, weights, most):
    """At most `most` principal components of weighted rows; none if no column varies.

    Source: Halko, Martinsson and Tropp 2011 (random projections, for many columns).
    """
    share = weights / weights.sum()
    center = share @ X.astype(np.float64, copy=False)
    A = np.sqrt(share)[:, None] * (X - center)
    _, sizes, axes = randomized_svd(A, min(most, *A.shape), random_state=0)
    kept = sizes > 1e-10 * max(np.abs(center).max(), sizes.max(initial=0.0))
    return Components(center, np.ascontiguousarray(axes[kept].T) / (sizes[:1] if kept.any() else 1))


def coordinates(X, weights):
    """The `Coordinates` of weighted rows; a constant column has none.

    For a column of two values the deviation is at least a quarter of their difference, so that a
    rare value does not dominate.
    """
    total, rate = weights.sum(), 0
    entries = []  # fields of `Coordinates`, but for `start`, with the knots and heights of each
    for j in range(X.shape[1]):
        x = X[:, j].astype(np.float64)
        if not (x != x[0]).any():
            continue
        values, position = np.unique(x, return_inverse=True)
        share = np.bincount(position, weights, len(values)) / total
        mean = share @ values
        spread = np.sqrt(share @ np.square(values - mean))
        if len(values) == 2:
            spread = max(spread, 0.25 * (values[1] - values[0]))
        if not spread > 1e-10 * np.abs(values).max():
            continue
        entries.append((j, _NUMBER, rate, mean, spread, (), ()))
        rate += 1
        rank = _other_ranks(values, share, np.clip((values - mean) / spread, -_CLIP, _CLIP))
        if rank is not None:
            entries.append((j, _RANK, rate, 0.0, 1.0, values, rank))
            rate += 1
        if 2 < len(values) <= _LEVELS and _may_be_codes(values):
            own_rates = len(values) <= _OWN_RATES
            for i, value in enumerate(values):
                entries.append((j, _LEVEL, rate + i * own_rates, value, 1.0, (), ()))
            rate += len(values) if own_rates else 1
    if not entries:  # all columns are constant: one coordinate that is always 0
        entries = [(0, _NUMBER, 0, 0.0, np.inf, (), ())]
    *fields, knots, heights = zip(*entries, strict=True)
    start = np.cumsum([0, *map(len, knots)])
    ranks = np.concatenate(knots), np.concatenate(heights)
    arrays: Any = [*map(np.array, fields), start, *ranks]
    return Coordinates(*arrays)


def _may_be_codes(values):
    """Whether values are whole numbers below a million, in some power of two as their unit.

    >>> _may_be_codes(np.array([1.0, 2.0, 12.0]) / 64.0), _may_be_codes(np.array([0.1, 0.2, 0.3]))
    (True, False)
    """
    fractions, exponents = np.frexp(values[values != 0.0])
    digits = np.ldexp(fractions, 53).astype(np.int64)
    last = np.frexp((digits & -digits).astype(np.float64))[1]  # the place of the last digit
    unit = int((exponents + last).min()) - 54
    return bool(np.abs(np.ldexp(values, -unit)).max() <= _LARGEST_CODE)


def _other_ranks(values, share, z):
    """The standardised mid-ranks of values, unless there are few or the numbers z are like them."""
    if len(values) <= 10:
        return None
    rank = np.cumsum(share) - 0.5 * share
    rank -= share @ rank
    rank /= np.sqrt(share @ np.square(rank))
    z = z - share @ z
    correlation = share @ (rank * z) / max(np.sqrt(share @ np.square(z)), 1e-300)
    return rank if correlation < _ALIKE else None
