r"""Kernel ridge regression on landmarks, with the leave-one-out error of every penalty.

With m landmarks the predictor is :math:`f(x) = b + \sum_j a_j k(x, c_j)`, the kernel
:math:`k(x, c) = \exp(-\gamma \|x - c\|^2)` and the penalty :math:`\alpha \|f\|^2` in the kernel's
norm. In the coordinates :math:`\phi(x) = L^{-1} k(c, x)`, with L L' the landmarks' Gram matrix,
this is ridge regression in m columns; one eigendecomposition gives the solutions of all penalties,
and with them every row's leverage. Rows are visited in blocks: memory is O(m^2). What is kept of
them are sums, so that more rows can be added to a solution at their own cost.

The `Search` finds the view of the columns and the bandwidth, judging each by leave-one-out on a few
rows: coarse bandwidths under both views, then rounds in which columns are weighted by relevance.

Source: Williams and Seeger 2001 (Nystroem); Allen 1974 (leave-one-out by leverages).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk, dtrmm

from tunefree.columns import Scaling, asinh_scaling, show, standard_scaling
from tunefree.kernels import decay, squared_distances

ALPHAS = np.logspace(-6.0, 3.0, 19)
# Numbers in a block of kernel values; and in all of them, if they are kept between two visits.
_BLOCK, _KEPT = 500_000, 1_000_000
# Bandwidths tried, relative to one over the median squared distance of two rows; and beyond.
_GRID, _BEYOND = (1 / 4, 1.0, 4.0), (1 / 16, 16.0)
# Rows of the first look at views and bandwidths, and of what follows.
_GLANCE, _SCOUTS = 1500, 3000
# Landmarks of what follows: half as many as rows, within these; the first look takes two thirds.
_FEWEST, _MOST = 120, 300
# Penalties tried: half of those of the last fit.
_FEWER_ALPHAS = ALPHAS[::2]
# Most rounds of relevance.
_ROUNDS = 6


class Landmarks(NamedTuple):
    """Landmarks and the map from kernel values to coordinates."""

    centers: np.ndarray  # of shape (m, d)
    gamma: float
    basis: np.ndarray  # of shape (m, m), upper triangular, in Fortran order

    def values(self, Z, out=None):
        """Kernel values, of shape (n, m), written to `out` if that is given."""
        distances = squared_distances(Z, self.centers.astype(Z.dtype, copy=False), out=out)
        return decay(distances, self.gamma, distances)

    def blocks(self, rows, n):
        """Yield (start, stop, coordinates) of the first n rows; each is gone with the next."""
        memory = np.empty((max(1, min(n, _BLOCK // len(self.centers))), len(self.centers)))
        for start in range(0, n, len(memory)):
            Z = rows(start, min(start + len(memory), n)).astype(np.float64, copy=False)
            K = self.values(Z, memory[: len(Z)])
            # Sums of products of the kernel values themselves would lose the digits that small
            # penalties need.
            F = dtrmm(1.0, self.basis, K.T, trans_a=True, overwrite_b=True)
            yield start, start + len(Z), F.T


class Sums(NamedTuple):
    """What a solution needs to know of the rows: sums over them, by weight."""

    total: float  # the weights
    first: np.ndarray  # coordinates, shape (m,)
    second: np.ndarray  # their products, shape (m, m), the upper triangle
    shift: np.ndarray  # what targets are measured from, no sum, shape (n_outputs,)
    targets: np.ndarray  # targets less the shift, shape (n_outputs,)
    cross: np.ndarray  # products of coordinates and these, shape (m, n_outputs)


class Solution(NamedTuple):
    """Ridge regression in the landmarks' coordinates, for every penalty."""

    coef: np.ndarray  # of the kernel values, of shape (m, n_alphas, n_outputs)
    intercept: np.ndarray  # of shape (n_alphas, n_outputs)
    left_out: np.ndarray  # predictions of the first rows by all others, (n, n_alphas, n_outputs)


def place(centers, gamma):
    """Landmarks with a basis in which their kernel is the identity.

    Examples
    --------
    >>> marks = place(np.array([[0.0], [3.0]]), 0.5)
    >>> F = marks.values(marks.centers) @ marks.basis
    >>> np.allclose(F @ F.T, marks.values(marks.centers))
    True
    """
    marks = Landmarks(centers, float(gamma), np.empty((0, 0)))
    gram = marks.values(centers.astype(np.float64))
    # The small ridge stands for equal or nearly equal landmarks.
    gram[np.diag_indices_from(gram)] += 1e-9 * len(gram)
    lower = np.linalg.cholesky(gram)
    return marks._replace(
        basis=np.asfortranarray(solve_triangular(lower, np.eye(len(gram)), lower=True).T)
    )


def gather(marks, rows, n, targets, weights, sums=None):
    """The sums over n rows, ``rows(start, stop)``, added to others."""
    if sums is None:
        sums = _nothing(marks, targets, weights)
    return _added(sums, marks.blocks(rows, n), targets, weights)


def _nothing(marks, targets, weights):
    """The sums over no rows, with targets measured from the mean."""
    m, k = len(marks.centers), targets.shape[1]
    shift, second = weights @ targets / weights.sum(), np.zeros((m, m), order="F")
    return Sums(0.0, np.zeros(m), second, shift, np.zeros(k), np.zeros((m, k)))


def _added(sums, blocks, targets, weights):
    """Sums and those over blocks of coordinates."""
    first, cross, second = sums.first.copy(), sums.cross.copy(), sums.second.copy(order="F")
    y = targets - sums.shift
    for start, stop, F in blocks:
        w = weights[start:stop]
        first += w @ F
        cross += F.T @ (w[:, None] * y[start:stop])
        if (w != 1.0).any():
            F = F * np.sqrt(w)[:, None]
        second = dsyrk(1.0, F.T, beta=1.0, c=second, overwrite_c=True)
    total = sums.total + weights.sum()
    return Sums(total, first, second, sums.shift, sums.targets + weights @ y, cross)


def solve(marks, rows, n, targets, weights, alphas=ALPHAS, most=None, sums=None):
    """Solve for every penalty, and predict each of the first `most` rows from all others.

    A row is left out with all its weight. `sums` are those of the rows, if they are known.
    """
    blocks = None
    if sums is None and most is None and n * len(marks.centers) <= _KEPT:
        # The search fits hundreds of times to few rows: their coordinates serve both visits.
        blocks = [(start, stop, F.copy(order="K")) for start, stop, F in marks.blocks(rows, n)]
        sums = _added(_nothing(marks, targets, weights), blocks, targets, weights)
    elif sums is None:
        sums = gather(marks, rows, n, targets, weights)
    total, k = sums.total, targets.shape[1]
    level, mean = sums.targets / total, sums.first / total
    gram = sums.second + np.triu(sums.second, 1).T
    gram -= np.outer(sums.first, mean)
    values, vectors = np.linalg.eigh(gram)
    inverse = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    cross = vectors.T @ (sums.cross - np.outer(sums.first, level))
    table = (cross[:, None] * inverse[:, :, None]).reshape(len(cross), -1)
    shape = (len(alphas), k)
    coef, level = marks.basis @ (vectors @ table), sums.shift + level
    mean, most = mean @ vectors, n if most is None else min(most, n)
    intercept = level - (mean @ table).reshape(shape)
    left_out = np.empty((most, *shape))
    for start, stop, F in blocks or marks.blocks(rows, most):
        F = F @ vectors
        F -= mean
        fit = left_out[start:stop]
        np.matmul(F, table, out=fit.reshape(len(F), -1))
        w, y = weights[start:stop, None], targets[start:stop, None] - level
        np.square(F, out=F)
        # A row that its own fit passes through says nothing: its prediction is the mean's.
        rest = np.maximum(1.0 - w * (F @ inverse) - w / total, 0.0)[:, :, None]
        # y - (y - fit) / rest, in place.
        fit -= y
        fit /= np.maximum(rest, 1e-8)
        fit += y
        fit *= rest > 1e-8
        fit += level
    return Solution(coef.reshape(len(coef), *shape), intercept, left_out)


def risks(solution, y, weights):
    """Squared leave-one-out errors of every row and penalty, times the rows' shares of weight."""
    n = len(solution.left_out)
    square = np.square(solution.left_out - y[:n, None]).sum(axis=2)
    return square * (weights[:n] / weights[:n].mean())[:, None]


def median_distance(Z):
    """Median squared distance of the first rows to as many others, without zeros."""
    half = len(Z) // 2
    square = np.square(Z[:half] - Z[half : 2 * half]).sum(axis=1)
    square = square[square > 0.0]
    return float(np.median(square)) if len(square) else 1.0


class Trial:
    """One view, bandwidth and number of landmarks, judged by leave-one-out."""

    def __init__(self, parts, Z, y, weights, factor, m):
        self.parts, self.Z, self.factor, self.m = parts, Z, factor, m
        self.gamma = float(factor / median_distance(Z))
        self.marks = place(Z[:m], self.gamma)
        n = len(Z)
        solution = solve(self.marks, lambda a, b: Z[a:b], n, y[:n], weights[:n], _FEWER_ALPHAS)
        table = risks(solution, y, weights)
        i = int(np.argmin(table.mean(axis=0)))
        self.losses, self.risk = table[:, i], float(table[:, i].mean())
        self.coef, self.alpha = solution.coef[:, i], float(_FEWER_ALPHAS[i])

    def beats(self, other):
        """Whether the risk is lower by more than a standard error of the difference."""
        gain = other.losses - self.losses
        return gain.mean() > gain.std() / np.sqrt(len(gain))

    def relevance(self):
        """Root mean squared derivative of the function in every column, of mean square 1."""
        K = self.marks.values(self.Z)
        square: Any = 0.0
        for a in self.coef.T:
            slope = self.Z * (K @ a)[:, None] - K @ (a[:, None] * self.marks.centers)
            square = square + np.square(slope).mean(axis=0)
        mean = square.mean()
        return np.sqrt(square / mean) if mean > 0.0 else np.ones(len(square))


class Search:
    """View and bandwidth for distinct rows in random order.

    The first 3,000 are used; the columns' statistics come from all.
    """

    def __init__(self, X, y, weights):
        s = min(len(X), _SCOUTS)
        bent = asinh_scaling(X)
        self.views = [
            (standard_scaling(X, weights),),
            (bent, standard_scaling(bent.show(X), weights)),
        ]
        self.rows, self.y, self.weights = X[:s].astype(np.float64), y[:s], weights[:s]
        self.more = min(_MOST, max(_FEWEST, s // 2))
        self.few = 2 * self.more // 3
        self.trials = []

    def _try(self, parts, factor, m, n=_SCOUTS):
        Z = show(parts, self.rows[:n])
        trial = Trial(parts, Z, self.y, self.weights, factor, m)
        self.trials.append(trial)
        return trial

    def _glance(self, parts):
        """The best of a few bandwidths on the first rows, and of one more beyond the edge."""
        tried = [self._try(parts, factor, self.few, _GLANCE) for factor in _GRID]
        best = min(tried, key=lambda t: t.risk)
        if best.factor == 1.0:
            return best
        beyond = self._try(parts, _BEYOND[best.factor > 1.0], self.few, _GLANCE)
        return min((best, beyond), key=lambda t: t.risk)

    def result(self):
        """View, relevance, gamma, whether more landmarks did not help, and what was tried."""
        best = min((self._glance(parts) for parts in self.views), key=lambda t: t.risk)
        glanced = len(best.Z) == len(self.rows)  # at all rows
        few = best if glanced else self._try(best.parts, best.factor, self.few)
        best = self._refined(self._try(best.parts, best.factor, self.more))
        saturated = not best.beats(few)
        for _ in range(_ROUNDS):
            weighted = Scaling(np.zeros(best.Z.shape[1]), self._inverse(best), asinh=False)
            trial = self._refined(self._try((*best.parts, weighted), best.factor, self.more), best)
            if not trial.beats(best):
                break
            best, saturated = trial, False
        board = [
            {
                "view": ("standardised", "asinh")[t.parts[0].asinh],
                "rounds": len(t.parts) - 1 - t.parts[0].asinh,
                "gamma": t.gamma,
                "landmarks": min(t.m, len(t.Z)),
                "rows": len(t.Z),
                "leave_one_out_risk": t.risk,
            }
            for t in sorted(self.trials, key=lambda t: t.risk)
        ]
        return *_joined(best.parts), best.gamma, bool(saturated), board

    def _inverse(self, trial):
        # A column of no relevance is not switched off for good: later rounds may want it.
        return 1.0 / np.maximum(trial.relevance(), 1e-3)

    def _refined(self, trial, to_beat=None):
        """The best of a trial and others of half, twice, four times ... its bandwidth.

        Columns of little relevance leave the distances smaller, so twice the bandwidth comes
        first; half of it is tried unless something is good enough already.
        """
        best = trial
        while best.factor >= trial.factor and best.factor < 64.0 * trial.factor:
            more = self._try(trial.parts, 2.0 * best.factor, self.more)
            if more.risk >= best.risk:
                break
            best = more
        if best is trial and not (to_beat is not None and best.beats(to_beat)):
            for _ in range(2):
                less = self._try(trial.parts, 0.5 * best.factor, self.more)
                if less.risk >= best.risk:
                    break
                best = less
        return best


def _joined(parts):
    """The rescalings as one part, and the relevance of the columns in it."""
    plain = [p for p in parts if not p.asinh]
    scale = np.prod([p.scale for p in plain], axis=0)
    view = (*(p for p in parts if p.asinh), Scaling(plain[0].center, scale, False))
    return view, plain[0].scale / scale
