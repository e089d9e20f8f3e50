r"""Kernel ridge regression: the problem, its solution, and four solvers.

Each solver has ``solve(problem)``, which gives a `Solution`:

- `ExactSolver`: all rows, by a factor of their matrix;
- `LandmarkSolver`: features of landmarks, or the columns of a linear model;
- `AllRowsSolver`: all rows, by conjugate gradients;
- `SumsSolver`: features of landmarks, from sums over rows of which the problem is a sample.

`tunefree.kernel_ridge.choice` chooses among them.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.process import product, workers
from tunefree.kernel_ridge.full import full, preconditioner_rows, rescaled
from tunefree.kernel_ridge.logistic import OnLandmarks, OnMatrix, OnTiles, held_out_masks, learn
from tunefree.kernels.exact import exact
from tunefree.kernels.nystroem import (
    ALPHAS,
    ColumnFeatures,
    Landmarks,
    ProductSums,
    RowBlocks,
    accumulate,
    make_landmarks,
    pivots,
    refined,
    solve,
)
from tunefree.kernels.permutations import n_permuted_rows, permutation_effects
from tunefree.kernels.sums import TASK, LandmarkSums
from tunefree.rows.matrices import as_dense

# Up to so many rows are solved exactly. Landmarks of more rows have single precision at first.
EXACT_ROWS = 8000
# Landmarks of the smallest fit for which permutation effects are computed on fewer rows.
_FEW_LANDMARKS = 500
# Features of up to so many bytes are cached while the log loss is minimized.
_CACHED = 1e9
# Rounding may change a prediction by such a share of the range of the targets. From so many
# landmarks on kernel values have single precision if that changes predictions of so many rows by
# at most a tenth of it.
_PRECISE, _MANY, _SHOWN = 1e-4, 1000, 64
# Numbers in a block of rows to predict, and its rows in a linear model.
_CELLS, _ROWS = 50_000_000, 2048
# Up to so many rows are predicted one by one: with more columns more, as laying out landmarks for
# many rows takes longer. Measured: as fast for 4 rows of 10 columns and 16 of 100.
_FEW_ROWS, _MOST_FEW, _COLUMNS_OF_ROW = 4, 16, 8
# Kernel values of a thread: for fewer a second one would cost more than it saves.
_OF_THREAD = 1_000_000


class KernelOptions(NamedTuple):
    """What the user asks of a fit."""

    kernel: str
    n_landmarks: Any
    labels: bool  # whether targets are signs of classes
    seed: int
    fewer: bool = False  # whether a number of landmarks is the most, of which fewer may do


class KernelTransform(NamedTuple):
    """Transforms rows to the units of the kernel."""

    view: Any
    geometry: Any  # None for a linear model
    # By how much errors of rows that the search used are too small, as a share of their variance.
    optimism: float = 0.0

    def __call__(self, X):
        """Rows in the view, scaled by the rates."""
        Z = self.view.show(as_dense(X))
        return Z if self.geometry is None else np.ascontiguousarray(self.geometry.show(Z))


class KernelProblem(NamedTuple):
    """Rows in random order, the held-out ones last; targets are `level` + `unit` times Y."""

    X: np.ndarray
    Y: np.ndarray  # of shape (n, n_outputs)
    level: np.ndarray
    unit: np.ndarray
    limits: tuple  # the range of the targets
    weights: np.ndarray
    n_held: int
    given: np.ndarray  # numbers of the held-out rows, in the order in which they were given
    groups: Any  # of all rows, of which held-out ones are held out as a whole; None without
    options: KernelOptions
    team: Any
    transform: Any = None
    A: Any = None  # rows in the units of the kernel
    permutes: bool = True  # whether permutation effects are computed

    @property
    def geometry(self):
        """The kernel with its rates; None for a linear model."""
        return self.transform.geometry

    @property
    def targets(self):
        """Targets in their own units."""
        return self.Y * self.unit + self.level

    @property
    def exact(self):
        """Whether few rows are solved exactly, as the user allows."""
        few = len(self.A) <= EXACT_ROWS and self.options.n_landmarks in ("auto", "all")
        return self.geometry is not None and few

    def transformed(self, transform):
        """The problem in the units of a kernel."""
        return self._replace(transform=transform, A=transform(self.X))

    def held_out(self, values):
        """The held-out rows of some values of all rows."""
        return values[-self.n_held :]

    def risk(self, predictions):
        """The weighted sum of the squared errors of held-out predictions."""
        errors = np.square(predictions - self.held_out(self.Y)).sum(axis=1)
        return self.held_out(self.weights) @ errors

    def permuted_rows(self, n_landmarks):
        """The numbers of held-out rows on which permutation effects are computed, if they are."""
        if not self.permutes:
            return self.given[:0]
        most = n_permuted_rows(n_landmarks, self.X.shape[1], self.n_held)
        return len(self.A) - self.n_held + self.given[:most]


class Solution(NamedTuple):
    """The predictor of Y: `intercept` + kernel values with the landmarks, times `coef`."""

    transform: KernelTransform  # that of the problem, or with other rates
    landmarks: Any
    coef: np.ndarray  # of shape (n_landmarks, n_outputs)
    intercept: Any  # of shape (n_outputs,)
    held_out: np.ndarray  # predictions of the held-out rows, of shape (n_held, n_outputs)
    penalty: float
    permuted: np.ndarray  # numbers of rows for permutation effects
    inverse: Any = None  # these rows of the inverse; None if it is not computed
    path: Any = None  # solutions for all penalties in single precision, and the number of this one


class ExactSolver(NamedTuple):
    """All rows, by a factor of their matrix."""

    def work(self, problem):
        """Multiply-adds of a solution, about."""
        return len(problem.A) ** 3 / 3

    def solve(self, problem):
        """The solution, with rows of the inverse if no groups are held out."""
        p = problem
        groups = problem.groups
        rows = problem.permuted_rows(len(problem.A))
        groups = None if groups is None else p.held_out(groups)
        coef, held_out, penalty, inverse = exact(
            p.geometry, p.A, p.Y, p.weights, p.n_held, groups, rows, p.team
        )
        landmarks = Landmarks(p.A, p.geometry)
        intercept = 0.0 * p.level
        inverse = inverse if groups is None else None
        return Solution(p.transform, landmarks, coef, intercept, held_out, penalty, rows, inverse)


class LandmarkSolver(NamedTuple):
    """Features of landmarks, or the columns of a linear model, at the penalty of least risk."""

    n_landmarks: int
    pivoted: bool = False  # whether they are drawn by their residuals

    def work(self, problem):
        """Multiply-adds of a solution, about."""
        n, m = len(problem.A), self.n_landmarks
        return n * m * (m + problem.A.shape[1]) + 20.0 * m**3

    def solve(self, problem):
        """The solution, in single precision for many rows; see `in_double_precision`."""
        p, landmarks = problem, _features(problem, self.centers(problem))
        A, Y, weights = _held_out_first(p)
        single = len(A) > EXACT_ROWS and p.geometry is not None
        rows = RowBlocks(A, np.float32 if single else np.float64)
        found = solve(landmarks, rows, Y, weights, most=p.n_held, team=p.team)
        return _of_least_risk(p, landmarks, found, single)

    def centers(self, problem):
        """Rows in the units of the kernel: the first ones, or pivots."""
        m, A = self.n_landmarks, problem.A
        if not self.pivoted:
            return A[:m]
        pool = A[: max(EXACT_ROWS, 4 * m)].astype(np.float32)
        return A[pivots(problem.geometry, pool, m, problem.options.seed)]


class AllRowsSolver(NamedTuple):
    """All rows, by conjugate gradients."""

    def work(self, problem):
        """Multiply-adds of a solution, about: kernel values of two times some 50 steps."""
        (n, d), k = problem.A.shape, problem.Y.shape[1]
        return 50.0 * n**2 * (25 + d / 2 + 4 * k)

    def solve(self, problem):
        """The solution, whose kernel has a new scale of the rates."""
        p, n_rest = problem, len(problem.A) - problem.n_held
        geometry = rescaled(p.geometry, p.A, p.Y, p.weights, n_rest, p.team)
        p = p.transformed(p.transform._replace(geometry=geometry))
        p = p._replace(A=p.A.astype(np.float32))
        coef, intercept, held_out = full(p, preconditioner_rows(len(p.A), geometry.penalty))
        features = Landmarks(p.A, geometry)
        permuted = p.permuted_rows(len(coef))
        found = coef, intercept, held_out, geometry.penalty
        return Solution(p.transform, features, *found, permuted)


class SumsSolver(NamedTuple):
    """Features of landmarks, from sums over rows of which the problem is a sample."""

    source: Any  # the rows: `total` adds up a function of pieces
    target_transform: Any  # of their targets, to the units of Y
    n_landmarks: int  # at most

    def solve(self, problem):
        """The solution; its penalty has the least risk on held-out rows of the sample."""
        p = problem
        landmarks = _features(problem, problem.A[: self.n_landmarks])
        asked = p.transform, self.target_transform, landmarks
        rows = RowBlocks(p.held_out(p.A), np.float64)
        targets, weights = p.held_out(p.Y), p.held_out(p.weights)

        def sums():
            return self.source.total("features", _piece_sums, *asked, merge=ProductSums.plus)

        # No variable holds the sums: `solve` frees them.
        found = solve(landmarks, rows, targets, weights, team=p.team, sums=sums())
        return _of_least_risk(p, landmarks, found)


def _piece_sums(piece, transform, target_transform, landmarks):
    """The sums over some rows."""

    def rows(start, stop):
        return transform(piece.X[start:stop])

    return accumulate(landmarks, rows, target_transform(piece.y), piece.weights)


def _features(problem, centers):
    """The landmarks of a kernel, or the columns of a linear model."""
    if problem.geometry is None:
        return ColumnFeatures(centers.shape[1])
    return make_landmarks(centers, problem.geometry, problem.team)


def _held_out_first(problem):
    """Rows, targets and weights with the held-out rows first, which `nystroem.solve` predicts."""
    parts = problem.A, problem.Y, problem.weights
    return tuple(np.roll(part, problem.n_held, axis=0) for part in parts)


def _of_least_risk(problem, landmarks, path, single=False):
    """The solution for the penalty of least risk on the held-out rows."""
    weights, Y = problem.held_out(problem.weights), problem.held_out(problem.Y)
    risk = weights @ np.square(path.held_out - Y[:, None]).sum(axis=2)
    i = int(np.argmin(risk))
    m = max(_FEW_LANDMARKS, len(path.coef))
    found = path.coef[:, i], path.intercept[i], path.held_out[:, i], float(ALPHAS[i])
    permuted = problem.permuted_rows(m)
    kept = (path, i) if single else None
    return Solution(problem.transform, landmarks, *found, permuted, path=kept)


def in_double_precision(problem, solution):
    """A solution, refined if it was computed in single precision."""
    if solution.path is None:
        return solution
    A, Y, weights = _held_out_first(problem)
    rows = RowBlocks(A, np.float64)
    coef, intercept, held_out = refined(
        solution.landmarks, rows, Y, weights, *solution.path, team=problem.team
    )
    return solution._replace(coef=coef, intercept=intercept, held_out=held_out, path=None)


def minimize_log_loss(problem, solution):
    """The solution of least log loss; `problem.Y` has 1 for a row's class, else 0."""
    p, landmarks, intercept = problem, solution.landmarks, 0.0 * problem.level
    masks = held_out_masks(p.Y, p.n_held, p.groups)
    space = _function_space(p, landmarks)
    coef, held_out, penalty = learn(space, solution.penalty, p.Y, p.weights, p.level, masks)
    if p.geometry is None:
        coef, intercept = coef[:-1], coef[-1]
    elif landmarks.basis.size:
        coef = landmarks.fold(coef)
    return solution._replace(
        coef=coef, intercept=intercept, held_out=held_out - p.level, penalty=penalty, inverse=None
    )


def _function_space(problem, landmarks):
    """The functions over which the log loss is minimized: of landmarks, or of all rows."""
    geometry = problem.geometry
    team = problem.team
    A = problem.A
    n = len(problem.A)
    if geometry is not None and not landmarks.basis.size:
        centers = landmarks.centers
        if problem.exact:
            centers = centers.astype(np.float32 if n >= _MANY else np.float64, copy=False)
            return OnMatrix(geometry.gram(centers, centers))
        return OnTiles(centers[: preconditioner_rows(n, 0.0)], geometry, centers, team)
    dtype: Any = np.float64 if geometry is None or n <= EXACT_ROWS else np.float32
    if geometry is None:  # with a constant, as kernels have
        landmarks = ColumnFeatures(A.shape[1] + 1)
        A = np.column_stack([A, np.ones(n)])
    return OnLandmarks(landmarks, RowBlocks(A, dtype), n, _CACHED / np.dtype(dtype).itemsize, team)


def column_effects(problem, solution, groups):
    """Changes of predictions when columns come from the next row, (n_columns, n_rows, n_outputs).

    The last ones are those of `groups` of columns.
    """
    p, rows, coef = problem, solution.permuted, solution.coef
    columns = [*np.arange(p.X.shape[1])[:, None], *groups]
    A = p.A[rows]
    if p.geometry is None:
        step = np.roll(A, 1, axis=0) - A
        of_columns = [np.flatnonzero(np.isin(p.transform.view.source, each)) for each in columns]
        return np.array([step[:, own] @ coef[own] for own in of_columns])

    def permuted(columns):
        X = p.X[rows]
        X[:, columns] = np.roll(X[:, columns], 1, axis=0)
        return p.transform(X)

    without = None
    if solution.inverse is not None:
        gaps = p.held_out(p.Y) - solution.held_out
        without = solution.inverse, gaps[rows - len(p.A) + p.n_held]
    source = getattr(p.transform.view, "source", permuted)
    centers = solution.landmarks.centers
    return permutation_effects(p.geometry, A, centers, coef, source, columns, without, p.team)


class KernelPredictor(NamedTuple):
    """A learned function of rows in their own units."""

    transform: KernelTransform
    landmarks: Any
    coef: np.ndarray
    intercept: Any
    single: bool = False  # whether single precision of kernel values is enough

    def __call__(self, X, n_jobs=None):
        """Values on rows, of shape (n, n_outputs)."""
        blocks = [np.empty((0, self.coef.shape[1]))]
        dtype = np.result_type(X, self.coef) if X.dtype == np.float32 else X.dtype
        n_few = min(_FEW_ROWS + X.shape[1] // _COLUMNS_OF_ROW, _MOST_FEW)
        if X.shape[0] <= n_few:
            return (self._of_few(self.transform(X)) + self.intercept).astype(X.dtype)
        values, most = self._values(dtype)
        step = max(1, min(most, _CELLS // max(1, X.shape[1])))

        def block(start):
            A = self.transform(X[start : start + step].astype(dtype, copy=False))
            return values(A) + self.intercept

        with workers(n_jobs, X.shape[0] * len(self.coef) // _OF_THREAD) as team:
            blocks += team.map(block, range(0, X.shape[0], step))
        return np.concatenate(blocks).astype(X.dtype)

    def _values(self, dtype):
        """A function of rows in the units of the kernel, less the intercept; the rows of a task."""
        if self.transform.geometry is None:
            coef = self.coef.astype(dtype, copy=False)
            return lambda A: A @ coef, _ROWS
        single = self.single or len(self.coef) > EXACT_ROWS or dtype == np.float32
        return self._sums(single), TASK

    def _sums(self, single):
        """The sums over landmarks, laid out for many rows."""
        geometry, view = self.transform.geometry, self.transform.view
        bounds = geometry.show(view.bounds()) if hasattr(view, "bounds") else None
        return LandmarkSums.of(geometry, self.landmarks.centers, self.coef, single, bounds)

    def _of_few(self, A):
        """Values on few rows: threads and blocks would cost more than the arithmetic."""
        if self.transform.geometry is None:
            return product(A, self.coef)
        return self.transform.geometry.products(A, self.landmarks.centers, self.coef)

    def checked(self, A, width):
        """With `single` if single precision is enough, by predictions of the first rows.

        `width` is the range of the targets.
        """
        is_in_tiles = self.transform.geometry is not None
        if not (is_in_tiles and _MANY <= len(self.coef) <= EXACT_ROWS):
            return self._replace(single=False)
        A = A[:_SHOWN]
        values = self.landmarks.values(A.astype(np.float64)) @ self.coef
        gap = np.abs(self._sums(single=True)(A) - values)
        return self._replace(single=bool((gap.max(axis=0) <= 0.1 * _PRECISE * width).all()))

    def scaled(self, factor, intercept):
        """With coefficients times a factor, and another intercept, in the same type."""
        coef = (self.coef * factor).astype(self.coef.dtype)
        return self._replace(coef=coef, intercept=intercept.astype(self.intercept.dtype))

    def rounded(self, dtype, width):
        """In the type of the rows, unless coefficients are large and cancel each other.

        A rounded kernel value changes a prediction in proportion to its coefficient, which is
        compared with `width`, the range of the targets.
        """
        error = np.finfo(dtype).eps * np.sqrt(np.square(self.coef).sum(axis=0))
        exact = (error > _PRECISE * width).any()
        coef = self.coef if exact else self.coef.astype(dtype)
        return self._replace(coef=coef, intercept=self.intercept.astype(dtype))
