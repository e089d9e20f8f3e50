r"""Sums of kernel values over landmarks for many rows: what predictions cost.

For rows x and landmarks :math:`c_k` in the units of the kernel the sums are

.. math:: \sum_k \alpha_k \left(e^{-D} + \beta\,(b(x) + b(c_k) - D) + 1\right)

(`tunefree.kernels.geometry`). Distances of six rows to some landmarks are added up in vector
registers, column by column, become kernel values in the L1 cache, and are multiplied there. No
order of additions depends on the number of rows, or on the place of a row among them.

- Squares: D is two sizes less an inner product, and :math:`b(x) + b(c) - D` is an inner product,
  whose sum over landmarks is one more inner product.
- Absolute differences in single precision are those of whole numbers, 31 bits for the largest
  possible distance: :math:`|x - c| = 2 \max(x, c) - x - c` is then exact, and half the work.
- Columns with one usual number, such as 0 of levels, are added for rows with another number.

Source: Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication" (registers
and caches).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import overload

from tunefree.core.jit import _WITHIN, REASSOCIATE, fast_exp2, fast_exp2_32
from tunefree.core.jit import kernel as compiled
from tunefree.core.process import ALONE
from tunefree.core.vectors import Vectors, instructions, intrinsic

# Products and sums are one operation where the processor has it.
CONTRACT = {"contract", "nsz"}
# Rows in registers at once: with twelve vectors of 32 bytes the sixteen of AVX2 suffice.
ROWS = 6
# Bytes of a row's distances to a tile of landmarks: the tile stays in the L2 cache for 50 columns
# (`benchmarks/tables.py`, us a row).
_TILE = 1024
# Rows of a task: so many use a tile of the landmarks while it is in the cache.
TASK = 64 * ROWS
# A number of at least this share of a column's entries is usual; it is found among so many.
_USUAL, _SEEN = 0.75, 31
# Vectors of a row in registers, for unusual numbers.
_WIDE = 4
# Whole numbers are below 2^31: two sizes and twice the larger of two numbers.
_LARGEST = 0.99 * 2.0**29
LOG2_E = float(np.log2(np.e))


def _of_six_rows(combine) -> Any:
    """A function for kernels that adds up combinations of six rows with a tile, column by column.

    ``add_up(A, first, W, columns, left, right, out)`` writes ``left[first + i] + right[k]`` plus
    the sum over the columns j of ``combine(A[first + i, j], W[j, k])`` to ``out[i, k]``. Arrays are
    contiguous, and rows of W are whole vectors.
    """

    def generate(vectors, A, first, W, columns, left, right, out):
        builder = vectors.builder
        d, width = cgutils.unpack_tuple(builder, W.shape)
        whole = width.type
        rows = [builder.add(first, whole(i)) for i in range(ROWS)]
        starts = [builder.mul(row, d) for row in rows]
        sizes = [vectors.repeat(left.data, row) for row in rows]
        totals = [cgutils.alloca_once(builder, vectors.kind) for _ in rows]
        (n_columns,) = cgutils.unpack_tuple(builder, columns.shape)
        with cgutils.for_range_slice(builder, whole(0), width, whole(vectors.lanes)) as (k, _):
            for total, size in zip(totals, sizes, strict=True):
                builder.store(vectors.add(size, vectors.load(right.data, k)), total)
            with cgutils.for_range(builder, n_columns) as loop:
                j = vectors.number_at(columns.data, loop.index)
                w = vectors.load(W.data, builder.add(builder.mul(j, width), k))
                for total, start in zip(totals, starts, strict=True):
                    x = vectors.repeat(A.data, builder.add(start, j))
                    builder.store(vectors.add(builder.load(total), combine(vectors, x, w)), total)
            for i, total in enumerate(totals):
                place = builder.add(builder.mul(whole(i), width), k)
                vectors.store(builder.load(total), out.data, place)

    def add_up(typing, A, first, W, columns, left, right, out):
        kinds = A, types.intp, W, columns, left, right, out
        return instructions(generate, types.void(*kinds))

    return intrinsic(add_up)


def _of_one_row(combine) -> Any:
    """A function for kernels that adds combinations of a row with a tile in some columns.

    ``add(A, i, W, columns, n_columns, out, to)`` adds the sum over the first columns j of
    ``columns[i]`` of ``combine(A[i, j], W[j, k])`` to ``out[to, k]``.
    """

    def generate(vectors, A, i, W, columns, n_columns, out, to):
        builder = vectors.builder
        d, width = cgutils.unpack_tuple(builder, W.shape)
        whole = width.type
        _, most = cgutils.unpack_tuple(builder, columns.shape)
        start, first, here = builder.mul(i, d), builder.mul(i, most), builder.mul(to, width)
        totals = [cgutils.alloca_once(builder, vectors.kind) for _ in range(_WIDE)]
        step = whole(_WIDE * vectors.lanes)
        with cgutils.for_range_slice(builder, whole(0), width, step) as (k, _):
            places = [builder.add(k, whole(v * vectors.lanes)) for v in range(_WIDE)]
            for total, place in zip(totals, places, strict=True):
                builder.store(vectors.load(out.data, builder.add(here, place)), total)
            with cgutils.for_range(builder, n_columns) as loop:
                j = vectors.number_at(columns.data, builder.add(first, loop.index))
                x, row = vectors.repeat(A.data, builder.add(start, j)), builder.mul(j, width)
                for total, place in zip(totals, places, strict=True):
                    w = vectors.load(W.data, builder.add(row, place))
                    builder.store(vectors.add(builder.load(total), combine(vectors, x, w)), total)
            for total, place in zip(totals, places, strict=True):
                vectors.store(builder.load(total), out.data, builder.add(here, place))

    def add(typing, A, i, W, columns, n_columns, out, to):
        kinds = A, types.intp, W, columns, types.intp, out, types.intp
        return instructions(generate, types.void(*kinds))

    return intrinsic(add)


add_products = _of_six_rows(Vectors.product)
add_differences = _of_six_rows(Vectors.difference)
add_more_products = _of_one_row(Vectors.product)
add_more_differences = _of_one_row(Vectors.more_than_of_zero)


def _exp2(x):
    """Two to a power, in the precision of the power."""


@overload(_exp2, strict=False, jit_options=_WITHIN)
def _exp2_of(x):
    return (lambda x: fast_exp2_32(x)) if x == types.float32 else (lambda x: fast_exp2(x))


@compiled(fastmath=CONTRACT, borrows=True, unrolls=False)
def to_values(row, unit, slope, out):
    """Kernel values of distances times `unit`; without a unit of the logarithms to base 2."""
    if unit is None:
        for k in range(len(row)):
            out[k] = _exp2(row[k])
    else:
        for k in range(len(row)):
            distance = unit * out.dtype.type(row[k])
            out[k] = _exp2(-distance) - slope * distance


@compiled(fastmath=REASSOCIATE, borrows=True, unrolls=False)
def _add_one(values, coef, out):
    """Add the products of a row's kernel values with one column of coefficients."""
    total = 0.0
    for k in range(len(values)):
        total += np.float64(values[k]) * coef[k]
    out[0] += total


@compiled(fastmath=REASSOCIATE, borrows=True, unrolls=False)
def _add_four(values, others, coef, out, out_of_others):
    """Add the products of two rows' kernel values with four columns of coefficients."""
    w, x, y, z = coef[0], coef[1], coef[2], coef[3]
    a = b = c = d = 0.0
    p = q = r = s = 0.0
    for k in range(len(values)):
        one, other = np.float64(values[k]), np.float64(others[k])
        a += one * w[k]
        b += one * x[k]
        c += one * y[k]
        d += one * z[k]
        p += other * w[k]
        q += other * x[k]
        r += other * y[k]
        s += other * z[k]
    out[0] += a
    out[1] += b
    out[2] += c
    out[3] += d
    out_of_others[0] += p
    out_of_others[1] += q
    out_of_others[2] += r
    out_of_others[3] += s


@compiled(fastmath=CONTRACT, borrows=True, unrolls=False)
def _add_values(
    A, W, left, right, columns, more, counts, coef, unit, slope, distances, values, out
):
    """Add the kernel values of rows with all tiles of landmarks, times coefficients.

    Their number is a multiple of six. Of other columns than `columns` each row has `more`; None if
    there are none. `coef` of one output has no axis of outputs.
    """
    for t in range(len(W)):
        own = coef[t]
        for first in range(0, len(A), ROWS):
            if unit is None:
                add_products(A, first, W[t], columns, left, right[t], distances)
            else:
                add_differences(A, first, W[t], columns, left, right[t], distances)
            for i in range(ROWS):
                if more is not None:
                    n, row = counts[first + i], first + i
                    if n > 0 and unit is None:
                        add_more_products(A, row, W[t], more, n, distances, i)
                    elif n > 0:
                        add_more_differences(A, row, W[t], more, n, distances, i)
                to_values(distances[i], unit, slope, values[i])
            if coef.ndim == 2:
                for i in range(ROWS):
                    _add_one(values[i], own, out[first + i])
            else:
                for i in range(0, ROWS, 2):
                    for c in range(0, len(own), 4):
                        one, other = out[first + i, c:], out[first + i + 1, c:]
                        _add_four(values[i], values[i + 1], own[c : c + 4], one, other)


@compiled(fastmath=REASSOCIATE, borrows=True, unrolls=False)
def _lay_out_for_products(A, usual, lines, constant, numbers, left, out):
    """Write rows less the `usual` numbers, their sizes, and what is added to their sums."""
    for i in range(len(A)):
        row, own, size = A[i], numbers[i], 0.0
        for j in range(len(row)):
            own[j] = row[j] - usual[j]
            size += np.float64(own[j]) * np.float64(own[j])
        left[i] = -LOG2_E * size
        for c in range(len(lines)):
            line, total = lines[c], 0.0
            for j in range(len(row)):
                total += row[j] * line[j]
            out[i, c] = constant[c] + total


@compiled(fastmath=REASSOCIATE, borrows=True, unrolls=False)
def _lay_out_for_differences(A, usual, scale, numbers, left, sizes):
    """Write rows less the `usual` numbers, what is added to distances, and the sizes of rows.

    With a scale they are twice the whole numbers.
    """
    for i in range(len(A)):
        row, own = A[i], numbers[i]
        size = total = 0.0
        for j in range(len(row)):
            x = row[j] - usual[j]
            if scale is not None:
                x = np.rint(scale * x)
                total += x
                x = 2.0 * x
            own[j] = x
            size += abs(row[j])
        left[i], sizes[i] = -total, size


@compiled(borrows=True, unrolls=False)
def list_entries(A, columns, more, counts):
    """Write the columns, of some, in which each row is not 0, and their number."""
    for i in range(len(A)):
        n = 0
        for j in columns:
            more[i, n] = j
            n += A[i, j] != 0
        counts[i] = n


class LandmarkSums(NamedTuple):
    """Landmarks and their coefficients, laid out for predictions of many rows.

    Examples
    --------
    >>> from tunefree.kernels.geometry import Geometry
    >>> from tunefree.kernels.kernels import RBF
    >>> geometry = Geometry(RBF(), np.ones(1), 0.0, 1.0)
    >>> sums = LandmarkSums.of(geometry, np.array([[0.0], [2.0]]), np.array([[1.0], [-1.0]]))
    >>> sums(np.array([[0.0], [1.0]])).round(4)
    array([[0.9817],
           [0.    ]])
    """

    W: np.ndarray  # of shape (tiles, columns, landmarks of a tile)
    right: np.ndarray  # the sizes of the landmarks, of shape (tiles, landmarks of a tile)
    columns: np.ndarray  # those that are added for all rows, and those for unusual numbers
    others: np.ndarray
    usual: np.ndarray  # from which numbers are differences
    coef: np.ndarray  # of shape (tiles, landmarks of a tile); of 4, 8, ... outputs between both
    unit: Any  # of distances, for powers of 2; None for squares
    slope: Any  # of such a distance
    scale: Any  # of whole numbers; None for others
    lines: np.ndarray  # what is added: inner products with rows, or with their sizes
    constant: np.ndarray

    @classmethod
    def of(cls, geometry, centers, coef, single=False, bounds: Any = None):
        """Lay out landmarks in the units of the kernel.

        `single`: whether kernel values have single precision. `bounds` are the largest absolute
        values of the columns of all rows, if they are known: absolute differences are then those of
        whole numbers.
        """
        B, coef = (np.ascontiguousarray(part, np.float64) for part in (centers, coef))
        (m, d), n_outputs = B.shape, coef.shape[1]
        squares, slope = geometry.kernel.power == 2, float(geometry.slope)
        number: Any = np.float32 if single else np.float64
        is_whole = bool(single and not squares and bounds is not None)
        usual, has_usual = _usual_numbers(B, not squares)
        scale, factor = None, 2.0 * LOG2_E if squares else 1.0
        if is_whole:
            most = np.maximum(np.asarray(bounds), np.abs(B).max(axis=0, initial=0.0)) + np.abs(
                usual
            )
            scale = factor = _LARGEST / max(most.sum(), 1e-300)
        kind = np.dtype(np.int32 if is_whole else number)
        # Whole vectors, and four of each type.
        count = max(1, -(-m * kind.itemsize // _TILE))
        width = -(-m // (64 * count)) * 64
        numbers, right, sizes = np.zeros((d, count * width)), np.zeros(count * width), np.zeros(m)
        np.subtract(B.T, usual[:, None], out=numbers[:, :m])
        numbers *= factor
        if is_whole:
            np.rint(numbers, out=numbers)
            numbers *= 2.0
        W = np.empty((count, d, width), kind)
        W[:] = numbers.reshape(d, count, width).swapaxes(0, 1)
        # Sizes are those of rounded numbers. One order of additions, whatever their number.
        if kind == np.float32:
            numbers = numbers.astype(kind).astype(np.float64)
        if squares:
            numbers *= numbers
            for row in numbers:
                right -= row
        else:
            for row, is_usual, x in zip(numbers, has_usual, np.abs(B.T, order="C"), strict=True):
                sizes += x
                if is_whole:
                    right += (0.5 if is_usual else -0.5) * row
                elif is_usual:
                    right += row
        right = right.reshape(count, width)
        constant: Any = coef.sum(axis=0)
        unit = of_distance = None
        if squares:
            lines = 2.0 * slope * (coef.T @ B)
            right /= 4.0 * LOG2_E
        else:
            lines = slope * constant[:, None]
            constant = constant + slope * (sizes @ coef)
            unit, of_distance = number(LOG2_E / (scale or 1.0)), number(slope / LOG2_E)
        coefs = np.zeros((count, n_outputs if n_outputs == 1 else -(-n_outputs // 4) * 4, width))
        for t, part in enumerate(coefs):
            own = coef[t * width : (t + 1) * width]
            part[:n_outputs, : len(own)] = own.T
        return cls(
            W,
            right.astype(kind),
            np.flatnonzero(~has_usual),
            np.flatnonzero(has_usual),
            usual,
            coefs[:, 0] if n_outputs == 1 else coefs,
            unit,
            of_distance,
            scale,
            lines,
            constant,
        )

    def __call__(self, A):
        """The sums of rows in the units of the kernel, float64 of shape (n, n_outputs)."""
        blocks = [self._of_block(A[start : start + TASK]) for start in range(0, len(A), TASK)]
        return np.concatenate([np.empty((0, len(self.constant))), *blocks])

    def _of_block(self, A):
        """The sums of some rows."""
        memory = ALONE.memory
        _, n_columns, width = self.W.shape
        n, kind = -(-len(A) // ROWS) * ROWS, self.W.dtype
        if A.shape[1] != n_columns:
            raise ValueError(f"Rows of {A.shape[1]} columns do not fit landmarks of {n_columns}.")
        A = np.ascontiguousarray(A, np.float64)
        numbers = memory((n, n_columns), kind, "rows")
        left = memory((n,), kind, "sizes")
        numbers[len(A) :] = 0
        left[len(A) :] = 0
        out = np.zeros((n, self.coef.shape[1] if self.coef.ndim == 3 else 1))
        if self.unit is None:
            lines = self.lines, self.constant
            _lay_out_for_products(A, self.usual, *lines, numbers, left, out)
        else:
            sizes = np.empty(len(A))
            _lay_out_for_differences(A, self.usual, self.scale, numbers, left, sizes)
            out[: len(A), : len(self.constant)] = self.constant + np.outer(sizes, self.lines[:, 0])
        of_values = kind if kind.kind == "f" else np.dtype(np.float32)
        distances = memory((ROWS, width), kind, "distances")
        values = memory((ROWS, width), of_values, "values")
        more = counts = None
        if len(self.others):
            more = memory((n, len(self.others) + 1), np.dtype(np.int64), "columns")
            counts = memory((n,), np.dtype(np.int64), "counts")
            list_entries(numbers, self.others, more, counts)
        rows = numbers, self.W, left, self.right, self.columns, more, counts
        _add_values(*rows, self.coef, self.unit, self.slope, distances, values, out)
        return out[: len(A), : len(self.constant)]


def _usual_numbers(B, are_least):
    """A number of each column, which is 0 if none is usual, and whether one is.

    `are_least`: whether it has to be the least one.
    """
    d = B.shape[1]
    if not len(B):
        return np.zeros(d), np.zeros(d, dtype=bool)
    seen = np.sort(B[:: max(1, len(B) // _SEEN)], axis=0)
    usual = seen[len(seen) // 2]
    has_usual = (B == usual).sum(axis=0) >= _USUAL * len(B)
    if are_least:
        has_usual &= B.min(axis=0) >= usual
    return np.where(has_usual, usual, 0.0), has_usual
