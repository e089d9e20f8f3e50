"""Coordinates of a kernel's rows: numbers, ranks and levels of columns, each with its own scale."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.rows.scaling import _CLIP, _LEVEL, _NUMBER, _RANK, SEARCHED, _show

# A column of up to _LEVELS whole numbers may be a code; up to _OWN_RATES levels have a rate each.
_LEVELS, _OWN_RATES = 30, 8
# Larger whole numbers are no codes: in some power of two all floats are whole.
_LARGEST_CODE = 2.0**20
# Ranks are known at about so many values of a column, and at and beside values of larger shares.
_KNOTS = 1000
# Ranks become a coordinate unless their correlation with the numbers is at least this.
_ALIKE = 0.97


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
        n = max(1, min(len(X), SEARCHED))
        memory = np.empty(n), np.empty(n, np.int64)
        if not _show(np.ascontiguousarray(X), self.source, self.kind, out, *memory, *self[3:]):
            raise ValueError("The coordinates do not fit together, or are those of other columns.")
        return out.T

    def bounds(self):
        """The largest absolute value of each coordinate, of any row."""
        out = np.where(self.kind == _NUMBER, _CLIP, 1.0)
        for i in np.flatnonzero(self.kind == _RANK):
            out[i] = np.abs(self.heights[self.start[i] : self.start[i + 1]]).max()
        return out

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
    from sklearn.utils.extmath import randomized_svd

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
            known = _knots(share)
            entries.append((j, _RANK, rate, 0.0, 1.0, values[known], rank[known]))
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


def _knots(share):
    """Which values in order know their rank; between them it is interpolated.

    Of 10,000 values in 20 columns all ranks would take 3 MB of a model.
    """
    if len(share) <= _KNOTS:
        return slice(None)
    evenly = np.linspace(0, len(share) - 1, _KNOTS).astype(np.int64)
    steps = np.flatnonzero(share > 1.0 / _KNOTS)
    beside = np.clip([steps - 1, steps, steps + 1], 0, len(share) - 1)
    return np.union1d(evenly, beside)


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
