"""Coordinates of kernels: columns as numbers, ranks and levels, or principal components."""

from typing import NamedTuple

import numpy as np
from sklearn.utils.extmath import randomized_svd

# A column of up to _LEVELS whole numbers may be a code; up to _OWN_RATES levels have a rate each.
_LEVELS, _OWN_RATES = 30, 8
# Standardised numbers are clipped at this many deviations.
_CLIP = 6.0
# Ranks become a coordinate unless their correlation with the numbers is at least this.
_ALIKE = 0.97
_NUMBER, _RANK, _LEVEL = 0, 1, 2


class Coordinates(NamedTuple):
    """Each column as a number, and where useful as ranks and as one indicator for every level.

    Numbers are standardised and clipped at six deviations. Ranks (mid-ranks, standardised, and
    interpolated between the values seen) are added where they differ from the numbers. Columns of 3
    to 30 whole numbers may be codes, so they get an indicator for every value, too. The rates of
    the kernel decide which of these count.

    Attributes
    ----------
    source, kind, rate : ndarray of int of shape (q,)
        For each coordinate: its column, its kind (number, rank or level), and the number of its
        rate. If a column has more than eight levels, they share one rate.
    center, scale : ndarray of shape (q,)
        Mean and deviation; for a level its value and 1.
    start, knots, heights : ndarray
        Where a coordinate's knots begin, all knots, and their ranks.
    """

    source: np.ndarray
    kind: np.ndarray
    rate: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    start: np.ndarray
    knots: np.ndarray
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
        for i, (j, kind) in enumerate(zip(self.source, self.kind, strict=True)):
            x = X[:, j]
            if kind == _LEVEL:
                out[i] = x == self.center[i]
            elif kind == _RANK:
                part = slice(self.start[i], self.start[i + 1])
                out[i] = np.interp(x, self.knots[part], self.heights[part])
            else:
                out[i] = np.clip((x - self.center[i]) / self.scale[i], -_CLIP, _CLIP)
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

    Attributes
    ----------
    center : ndarray of shape (d,)
    axes : ndarray of shape (d, k)
        Orthogonal, of one length: the first component has a variance of 1.
    """

    center: np.ndarray
    axes: np.ndarray

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


def _distinct(x):
    """`numpy.unique` with `return_inverse` for finite numbers; five times as fast for few."""
    order = np.argsort(x)
    ordered, position = x[order], np.empty(len(x), np.intp)
    first = np.ones(len(x), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    position[order] = np.cumsum(first) - 1
    return ordered[first], position


def coordinates(X, weights):
    """The `Coordinates` of weighted rows; a constant column has none.

    For a column of two values the deviation is at least a quarter of their difference, so that a
    rare value does not dominate.
    """
    total = weights.sum()
    entries, start, knots, heights, rate = [], [0], [], [], 0
    for j in range(X.shape[1]):
        x = X[:, j].astype(np.float64)
        if not (x != x[0]).any():
            continue
        values, position = _distinct(x)
        share = np.bincount(position, weights, len(values)) / total
        mean = share @ values
        spread = np.sqrt(share @ np.square(values - mean))
        if len(values) == 2:
            spread = max(spread, 0.25 * (values[1] - values[0]))
        if not spread > 1e-10 * np.abs(values).max():
            continue
        entries.append((j, _NUMBER, rate, mean, spread))
        start.append(start[-1])
        rate += 1
        may_be_codes = len(values) <= _LEVELS and (values == np.round(values)).all()
        if len(values) > 10:
            rank = np.cumsum(share) - 0.5 * share
            rank -= share @ rank
            rank /= np.sqrt(share @ np.square(rank))
            z = np.clip((values - mean) / spread, -_CLIP, _CLIP)
            z -= share @ z
            correlation = share @ (rank * z) / max(np.sqrt(share @ np.square(z)), 1e-300)
            if correlation < _ALIKE:
                entries.append((j, _RANK, rate, 0.0, 1.0))
                knots.append(values)
                heights.append(rank)
                start.append(start[-1] + len(values))
                rate += 1
        if may_be_codes and len(values) > 2:
            own_rates = len(values) <= _OWN_RATES
            for i, value in enumerate(values):
                entries.append((j, _LEVEL, rate + i * own_rates, value, 1.0))
                start.append(start[-1])
            rate += len(values) if own_rates else 1
    if not entries:  # all columns are constant: one coordinate that is always 0
        entries, start = [(0, _NUMBER, 0, 0.0, np.inf)], [0, 0]
    table = np.array(entries, dtype=np.float64).reshape(-1, 5)
    source, kind, rates = table[:, :3].astype(np.int64).T
    empty, units = [np.empty(0)], (table[:, 3], table[:, 4])
    ranks = np.concatenate(knots or empty), np.concatenate(heights or empty)
    return Coordinates(source, kind, rates, *units, np.array(start, dtype=np.int64), *ranks)
