"""Kernel ridge regression with a learned geometry, on all rows or on landmarks among them."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from tunefree._array import elsewhere, here
from tunefree._parameters import seed_of
from tunefree._process import check_memory, one_blas_thread
from tunefree._threads import ALONE, n_threads, workers
from tunefree.columns import Coordinates, components, coordinates
from tunefree.engine.order import hashed_visits
from tunefree.estimators import base
from tunefree.estimators.base import CallbackSupport, report_progress
from tunefree.estimators.from_source import FitsSums
from tunefree.estimators.uncertainty_mixins import (
    PredictsIntervals,
    PredictsSets,
    RiskIntervalMixin,
)
from tunefree.kernels import KERNELS
from tunefree.learners.kernel.expansion import Expansion
from tunefree.learners.kernel.full import full, preconditioner_rows, rescaled
from tunefree.learners.kernel.geometry import (
    ROWS,
    best_view,
    exact,
    n_permuted_rows,
    permutation_effects,
    rows_of,
)
from tunefree.learners.kernel.logistic import (
    OnLandmarks,
    OnMatrix,
    OnTiles,
    held_out_masks,
    learn,
    losses,
)
from tunefree.learners.kernel.memory import MemoryBudget
from tunefree.learners.kernel.nystroem import (
    ALPHAS,
    Columns,
    Landmarks,
    accumulate,
    make_landmarks,
    pivots,
    refined,
    solve,
)
from tunefree.learners.kernel.projection import CHECKED, asked_of, compress
from tunefree.learners.kernel.tiles import times
from tunefree.protocols import MatrixLike, Seed, TargetLike
from tunefree.robust import (
    EXTREME,
    clip_outliers,
    shares_as_scores,
    shrinkage_factor,
    shrinkage_factor_of_classes,
)
from tunefree.select.candidates import weighted_mean
from tunefree.select.costs import Limits
from tunefree.select.progressive_risk import temperature
from tunefree.uncertainty.intervals import Residuals

# Up to so many rows are solved exactly. Beyond, landmarks start with so many and double while the
# held-out risk falls by such a share. If it still falls at the end, all rows become landmarks,
# provided that a product with their kernel values takes at most so many multiply-adds.
_ALL, _START, _FALL, _STEP = 8000, 500, 0.01, 1e12
# Whether all rows become landmarks is decided with at most so many landmarks.
_DECIDING = 1000
# Landmarks drawn by their residuals (`pivots`) are compared with so many.
_TRIED = 250
# With fewer rows than this, or fewer rows a rate, the search is evaluated by folds.
_FEW, _RATED, _FOLDS = 2000, 4, 3
# Numbers in a block of rows to predict; rows are padded to a multiple of so many.
_CELLS, _ALIGNED = 50_000_000, 16
# From so many columns on as many principal components are tried, too.
_WIDE = 32
# Up to so many rows all are held out in turn; of more rows, so many that the search does not use.
_HELD_OUT, _HELD = 2000, 1000
# Features of up to so many bytes are cached while the log loss is minimized.
_CACHED_BYTES = 1e9
# Vectors of all rows' targets that squared errors and the log loss keep. With a memory limit there
# are at least so many landmarks (also of the preconditioner) and rows of the search.
_VECTORS, _LOG_VECTORS, _LEAST = 20, 80, 64
# Rounding may change a prediction by such a share of the range of the targets. From so many
# landmarks on kernel values have single precision if that changes predictions of so many rows by
# at most a tenth of it.
_PRECISE, _MANY, _SHOWN = 1e-4, 1000, 64


class _Fitted(NamedTuple):
    """The result of `_solve`."""

    coef: np.ndarray
    intercept: np.ndarray
    ends: tuple  # the targets' range
    held_out: np.ndarray  # held-out predictions
    targets: np.ndarray  # their targets
    weights: np.ndarray
    effects: np.ndarray  # changes of the first of them when columns come from the next row
    rows: Any  # the held-out rows


class KernelTransform(NamedTuple):
    """Transforms rows to the units of the kernel."""

    view: Any
    geometry: Any

    def __call__(self, X):
        """Rows in the view, scaled by the rates."""
        Z = self.view.show(X.toarray() if sparse.issparse(X) else X)
        return Z if self.geometry is None else _transformed(self.geometry, Z)


class TargetTransform(NamedTuple):
    """Transforms y to targets of a solution: signs of classes, or clipped; in units."""

    classes: Any
    ends: tuple
    level: np.ndarray
    unit: np.ndarray

    def __call__(self, y):
        """Targets, of shape (n, n_outputs)."""
        if self.classes is None:
            y = np.clip(np.asarray(y, dtype=np.float64).reshape(len(y), -1), *self.ends)
        else:
            y = base.signs(np.searchsorted(self.classes, y), len(self.classes))
        return (y - self.level) / self.unit


def _sums(piece, transform, target_transform, landmarks):
    """The sums over some rows."""

    def rows(start, stop):
        return transform(piece.X[start:stop])

    targets = target_transform(piece.y)
    return accumulate(
        landmarks, rows, len(piece.y), targets, piece.weights, np.zeros(len(target_transform.unit))
    )


def _plus(a, b, *_):
    return a.plus(b)


class _KernelRidge(base.TakesArrays, FitsSums, CallbackSupport, BaseEstimator):
    """Least squares on landmarks; subclasses define what is marked as abstract."""

    _CLASSIFY = True  # abstract: whether targets are signs of classes
    _logistic = False  # whether the log loss is minimized
    classes_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: Any

    def __init__(
        self,
        kernel: str = "rbf",
        *,
        n_landmarks: int | str = "auto",
        compress: bool | float | None = None,
        max_memory: float | str | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.compress = compress
        self.max_memory = max_memory
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _encode(self, y):
        """Abstract: targets, and labels by which otherwise equal rows differ."""
        raise NotImplementedError

    def _finish(self, fitted, dtype):
        """Abstract: set the fitted attributes."""
        raise NotImplementedError

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or in regression (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        compression = asked_of(self.compress)
        self._learn(X, y, sample_weight)
        self._shrink_by_folds(X, y, sample_weight)
        self._compress(compression, X, y, sample_weight)
        return self

    def _compress(self, compression, X, y, sample_weight):
        """Project the predictor onto fewer landmarks, as `asked_of(compress)` requires."""
        self.compression_ = None
        if not compression or self.geometry_ is None:
            return
        real = not self._CLASSIFY
        X, y = base.check_rows_and_targets(self, X, y, multi_output=real, numeric=real)
        weights = base.check_weights(sample_weight, X)
        targets, labels = self._encode(y)
        visits = hashed_visits(X, labels, weights, seed_of(self.random_state), affine=True)
        rows, totals = (part[:CHECKED] for part in visits.unique())
        memory = self._memory_budget(X)
        most = memory.most(memory.compression, max(len(self.dual_coef_), CHECKED))
        rows, totals = rows[:most], totals[:most]
        A = KernelTransform(self.view_, self.geometry_)(X[rows].astype(self.dual_coef_.dtype))
        share, targets = totals / totals.sum(), targets[rows]
        landmarks: Any = self.landmarks_
        f = Expansion((self.geometry_,), landmarks.centers.astype(A.dtype), (self.dual_coef_,))
        f, kept, self.compression_ = compress(
            f, A, lambda values: float(share @ self._losses(values + self.intercept_, targets)),
            **compression, most=most, n_jobs=self.n_jobs,
        )  # fmt: skip
        self.landmarks_ = landmarks._replace(centers=landmarks.centers[kept])
        width = np.ptp(f(A, self.n_jobs), axis=0)
        self._single = self._single_is_enough(A[:_SHOWN], f.coefs[0], width)
        self.dual_coef_ = _rounded(f.coefs[0], X.dtype, width)

    def _losses(self, values, targets):
        """Abstract: the loss of every row, for a compression."""
        raise NotImplementedError

    def _shrink_by_folds(self, X, y, sample_weight):
        """Abstract: with few rows a rate, shrink the predictor by held-out predictions of folds."""

    def _fit_rows(self, rows, sample: Any = None, like=None):
        """Learn rows of which only a `Sample` and sums are kept, with the view of `like`.

        View, geometry and landmarks come from the sample. The coefficients are those of all rows,
        unless they predict held-out rows of the sample worse than the sample's coefficients.
        """
        compression = asked_of(self.compress)
        if sample is None:
            sample = rows.drawn(seed_of(self.random_state), _ALL, self._CLASSIFY)
        if self._logistic and not sample.whole:
            raise ValueError(
                "loss='log_loss' needs all rows in memory: its solution cannot be computed from "
                "sums over the rows. Use loss='squared_error', or fit on a part of the rows."
            )
        sampled = sample.X, sample.y, sample.weights
        self._learn(*sampled, like, stream=None if sample.whole else (rows, sample.ends))
        self._shrink_by_folds(*sampled)
        self._compress(compression, *sampled)
        return self

    def _needs_folds(self, n, d):
        """Whether leave-one-out errors are too optimistic, since the search used the same rows."""
        return self.kernel != "linear" and n < min(_FEW, _RATED * d)

    def _optimism(self, n):
        """Of leave-one-out errors of n rows: q / (2 n) for the q rates of the search."""
        return 0.5 * len(np.unique(self.view_.rate)) / n

    def _learn(
        self, X, y, sample_weight=None, like: Any = None, held=None, groups=None, column_groups=(),
        stream: Any = None,
    ):  # fmt: skip
        """Learn, and keep held-out predictions of the rows `held`.

        It uses the view of `like`, and its geometry if the kernels are the same. The search does
        not use targets of the rows `held`. The effects of permuting each column and the columns of
        each group are kept, too, unless `column_groups` is None. `groups` are group numbers: those
        of held rows are held out as a whole (only if all rows are landmarks). `stream` has more
        rows, of which sums can be computed, and the range of their targets.
        """
        real = not self._CLASSIFY
        if self.n_landmarks not in ("auto", "all") and not (
            isinstance(self.n_landmarks, int | np.integer) and self.n_landmarks > 0
        ):
            raise ValueError(
                f"n_landmarks={self.n_landmarks!r} is none of a positive integer, 'auto', 'all'."
            )
        if self.kernel not in (*_GEOMETRIC, "linear"):
            raise ValueError(f"kernel={self.kernel!r} is none of rbf, laplacian, linear.")
        X, y = base.check_rows_and_targets(self, X, y, multi_output=real, numeric=real)
        weights = base.check_weights(sample_weight, X)
        check_memory(
            self._memory_budget(X).given,
            f"{type(self).__name__} stores rows as arrays: {X.shape[0]} x {X.shape[1]}",
            "Hash or select columns, or use PiSTOL* or KernelPiSTOL*, which keep rows sparse.",
        )
        kept, X = weights > 0, X.toarray() if sparse.issparse(X) else X
        if not kept.all():
            X = X[kept]
        weights = weights[kept]
        targets, labels = self._encode(y[kept])
        held = None if held is None else held[kept]
        if groups is not None:
            groups = groups[kept]
            labels = np.column_stack([labels, groups])
        seed = seed_of(self.random_state)
        rows, totals = hashed_visits(X, labels, weights, seed, affine=True).unique()
        targets = clip_outliers(targets, rows, EXTREME)
        held, groups = (None if part is None else part[rows] for part in (held, groups))
        # The held rows in the order in which they were given.
        given = np.arange(len(rows)) if held is None else np.argsort(rows[held], kind="stable")
        memory = self._memory_budget(X, targets.shape[1])
        memory.check(self._least_bytes(memory), type(self).__name__)
        with workers(min(n_threads(self.n_jobs), memory.threads)) as team:
            fitted = self._solve(
                X[rows], targets[rows], totals, like, held, groups, given, column_groups, team,
                stream,
                memory,
            )  # fmt: skip
        if held is not None:
            self.held_out_values_, self.held_out_effects_ = fitted.held_out[given], fitted.effects
        self._finish(fitted, X.dtype)
        return self

    def _memory_budget(self, X, n_outputs=1):
        """The memory limit, and the shape of the fit with one coordinate a column."""
        (n, d), size = X.shape, X.dtype.itemsize
        vectors = _LOG_VECTORS if self._logistic else _VECTORS
        memory = MemoryBudget(n, d, d, n_outputs, size, vectors)
        most = Limits(None, self.max_memory).given
        return memory if most is None else memory._replace(bytes=most)

    def _exact_bytes(self, memory, held):
        """Bytes of the exact solution with all rows' matrix; infinite beyond 8,000 rows."""
        if memory.n > _ALL or self.n_landmarks not in ("auto", "all"):
            return np.inf
        exactly = memory.exact(memory.n, held)
        if not self._logistic:
            return exactly
        return max(exactly, memory.matrix(8 if memory.n < _MANY else 4))

    def _landmark_bytes(self, memory):
        """A function: bytes of m landmarks, and of their features if the log loss caches them."""
        features = 8.0 * memory.n * self._logistic
        return lambda m: memory.landmarks(m) + min(features * m, _CACHED_BYTES)

    def _least_bytes(self, memory):
        """Bytes of the smallest solver that the parameters allow."""
        m = self.n_landmarks
        if self.kernel == "linear":
            return memory.landmarks(memory.q)
        least = min(memory.n, _LEAST)
        search, exactly = memory.search(least), self._exact_bytes(memory, _n_held(memory.n))
        if m == "all":
            solver = memory.tiles(least) if memory.n > _HELD_OUT else np.inf
        else:
            solver = memory.landmarks(least if m == "auto" else min(m, memory.n))
        return max(search, min(exactly, solver))

    def _solve(self, X, y, weights, like, held, groups, given, column_groups, team, stream, memory):
        n, share = len(X), weights / weights.sum()
        level = share @ y
        unit = np.sqrt(share @ np.square(y - level))
        unit = np.where(unit > 0.0, unit, 1.0)
        Y = (y - level) / unit
        if held is None:
            held = np.arange(n) >= n - _n_held(n)
        order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
        X, Y, weights, r = X[order], Y[order], weights[order], int(held.sum())
        Z, geometry = self._view_and_geometry(X, Y, weights, like, r, team, memory)
        memory = memory._replace(q=Z.shape[1])
        memory.check(self._least_bytes(memory), type(self).__name__)
        self.geometry_ = geometry
        A = Z if geometry is None else _transformed(geometry, Z)
        exactly = geometry is not None and n <= _ALL and self.n_landmarks in ("auto", "all")
        exactly = exactly and memory.allows(self._exact_bytes(memory, r))
        intercept, without = np.zeros(Y.shape[1]), None
        # More rows for permutation effects if the inverse of all rows is computed anyway.
        most = 1000 if r == n or geometry is None else 200
        n_permuted = n_permuted_rows(n if exactly else _START, X.shape[1], most)
        n_permuted = memory.most(lambda rows: memory.permutation_effects(rows, n), n_permuted)
        permuted = n - r + given[given < r][:n_permuted]
        if exactly:
            landmarks, held_groups = (
                Landmarks(A, geometry, np.empty((0, 0))),
                None if groups is None else groups[order[-r:]],
            )
            coef, held_out, self.alpha_, inverse = exact(
                geometry, A, Y, weights, r, held_groups, permuted, team
            )
            if groups is None:
                without = inverse, (Y[-r:] - held_out)[permuted - n + r]
        else:
            landmarks, coef, intercept, held_out = self._solve_many(
                Z, A, Y, weights, r, team, memory
            )
            permuted = permuted[: n_permuted_rows(len(coef), X.shape[1], most)]
            if self.geometry_ is not geometry:
                geometry, A = self.geometry_, _transformed(self.geometry_, Z)
        ends = y.min(axis=0), y.max(axis=0)
        targets = Y[-r:] * unit + level
        if self._logistic:
            codes, unit = base.codes_of(Y * unit + level), np.ones(Y.shape[1])
            level, Y = shares_as_scores(codes, weights, Y.shape[1]), _indicators(codes, Y.shape[1])
            masks = held_out_masks(Y, r, None if groups is None else groups[order])
            space = self._space(landmarks, A, exactly, team, memory)
            coef, held_out, self.alpha_ = learn(space, self.alpha_, Y, weights, level, masks)
            held_out, without = held_out - level, None
            if geometry is None:
                coef, intercept = coef[:-1], coef[-1]
            elif isinstance(space, OnLandmarks):
                coef, intercept = landmarks.fold(coef), 0.0 * level
        if stream is not None:
            low, high = ends
            if not self._CLASSIFY:  # limits extend beyond the sample's range by at most its width
                ends = tuple(np.clip(stream[1], 2.0 * low - high, 2.0 * high - low))
            classes = self.classes_ if self._CLASSIFY else None
            transform = TargetTransform(classes, ends, level, unit)
            solution = self._solve_sums(stream[0], transform, A, Y, weights, r, held_out, memory)
            if solution is not None:
                (landmarks, coef, intercept, held_out), without = solution, None
        self.landmarks_ = landmarks.alone()
        width = np.ptp(held_out if self._logistic else Y, axis=0)
        self._single = self._single_is_enough(A[:_SHOWN], coef, width)
        if self._logistic:
            loss = losses(held_out + level, Y[-r:])
        else:
            loss = np.square((held_out - Y[-r:]) * unit).sum(axis=1)
        self.leave_one_out_risk_ = float(weights[-r:] @ loss / weights[-r:].sum())
        effects = np.zeros((0, len(permuted), Y.shape[1]))
        if column_groups is not None:
            columns = [*np.arange(X.shape[1])[:, None], *column_groups]
            centers = getattr(landmarks, "centers", None)
            source = getattr(self.view_, "source", self._permuter(X[permuted]))
            effects = permutation_effects(
                geometry, A, permuted, centers, coef, source, columns, without
            )
            each = np.square(effects[: X.shape[1]]).sum(axis=2) @ weights[permuted]
            self.feature_relevances_ = each / each.sum() if each.any() else each
        back = np.argsort(order[-r:], kind="stable")
        return _Fitted(
            coef * unit, level + intercept * unit, ends,
            (held_out * unit + level)[back], targets[back], weights[-r:][back],
            effects * unit, X[-r:][back],
        )  # fmt: skip

    def _solve_many(self, Z, A, Y, weights, held, team, memory):
        """Landmarks or all rows, coefficients, intercepts, held-out predictions of the last rows.

        Landmarks are the first rows, in the order of their hash, or pivots.
        """
        n, geometry = len(A), self.geometry_
        if geometry is None:
            landmarks = Columns(A.shape[1])
            return self._refined((landmarks, *self._ridge(landmarks, A, Y, weights, held, team)))
        m, best, sizes = self.n_landmarks, None, []
        if m not in ("auto", "all"):
            sizes = [min(int(m), n)]
        elif m == "auto":
            top, most = affordable(n), memory.most(self._landmark_bytes(memory), n)
            sizes = [top // 2**i for i in range(9, -1, -1) if top // 2**i >= _START]
            sizes = sorted({min(m, most) for m in sizes})
        # While all rows are solved, the landmarks and their solution stay in memory.
        deciding = [m for m in sizes if m <= _DECIDING]
        later = memory._replace(bytes=memory.bytes - 16.0 * max(deciding, default=0) ** 2)
        n_rows = later.most(memory.tiles, preconditioner_rows(n, 0.0))
        all_rows = m == "all" or m == "auto" and all_rows_affordable(n, A.shape[1])
        all_rows &= n > held and (m == "all" or n_rows >= min(_TRIED, n))
        pivoted = bool(sizes) and self._pivots_pay(A, Y, weights, held, team)
        for m in deciding if all_rows and deciding else sizes:
            landmarks = make_landmarks(self._centers(A, m, pivoted), geometry, team)
            solution = landmarks, *self._ridge(landmarks, A, Y, weights, held, team)
            enough = best is not None and solution[4] > (1.0 - _FALL) * best[4]
            if best is None or solution[4] < best[4]:
                best, alpha = solution, self.alpha_
            if enough:
                all_rows = False
                break
        if best is not None and not all_rows:
            self.alpha_ = alpha
            return self._refined(best)
        sample = later.most(lambda rows: memory.exact(rows, rows / 2), n - held)
        geometry = rescaled(geometry, A, Y, weights, sample, team)
        A = _transformed(geometry, Z).astype(np.float32)
        n_rows = min(n_rows, preconditioner_rows(n, geometry.penalty))
        coef, intercept, predictions = full(
            A[:n_rows], geometry, A, Y, weights, geometry.penalty, held, team, labels=self._CLASSIFY
        )
        risk = weights[-held:] @ np.square(predictions - Y[-held:]).sum(axis=1)
        if best is not None and not risk < best[4]:
            self.alpha_ = alpha
            return self._refined(best)
        self.geometry_, self.alpha_ = geometry, geometry.penalty
        return Landmarks(A, geometry, np.empty((0, 0))), coef, intercept, predictions

    def _centers(self, A, m, pivoted):
        """Transformed rows as landmarks: the first ones, or pivots."""
        if not pivoted:
            return A[:m]
        pool = A[: max(_ALL, 4 * m)].astype(np.float32)
        return A[pivots(self.geometry_, pool, m, seed_of(self.random_state))]

    def _pivots_pay(self, A, Y, weights, held, team):
        """Whether few pivots predict the last rows better than as many first rows."""
        if len(A) <= _ALL:
            return False
        rows = np.r_[: min(_ALL, len(A) - held), len(A) - held : len(A)]
        sample = A[rows], Y[rows], weights[rows], held, team

        def losses(pivoted):
            centers = self._centers(A, _TRIED, pivoted)
            predictions = self._ridge(make_landmarks(centers, self.geometry_), *sample)[2]
            return np.square(predictions - Y[-held:]).sum(axis=1)

        first, drawn = losses(False), losses(True)
        mean, error = weighted_mean(drawn - first, weights[-held:])
        return mean < -2.0 * error

    def _ridge(self, landmarks, A, Y, weights, held, team):
        """Ridge regression at the best penalty.

        Returns coefficients, intercepts, predictions of the last rows, their risk, and a function
        that gives the first three in double precision.
        """
        # `solve` predicts the first rows.
        A, Y, weights = (np.roll(part, held, axis=0) for part in (A, Y, weights))
        single = len(A) > _ALL and self.geometry_ is not None and not elsewhere()
        dtype = np.float32 if single else np.float64

        def double_rows(start, stop):
            return A[start:stop].astype(np.float64)

        def rows(start, stop):
            return A[start:stop].astype(dtype)

        solution, i, risk = _best(landmarks, rows, len(A), Y, weights, held, team)
        self.alpha_ = float(ALPHAS[i])
        chosen = solution.coef[:, i], solution.intercept[i], solution.held_out[:, i]

        def refine():
            if not single:
                return chosen
            return refined(landmarks, double_rows, len(A), Y, weights, solution, i, team)

        return *chosen, risk, refine

    def _refined(self, solution):
        """Landmarks and the results of `_ridge` in double precision."""
        return solution[0], *solution[-1]()

    def _space(self, landmarks, A, exactly, team, memory):
        """The functions over which the log loss is minimized: of landmarks, or of all rows."""
        geometry, n = self.geometry_, len(A)
        if geometry is not None and not landmarks.basis.size:
            A = landmarks.centers
            if exactly:
                A = A.astype(np.float32 if n >= _MANY else np.float64, copy=False)
                return OnMatrix(geometry.values(A, A))
            n_rows = memory.most(memory.tiles, preconditioner_rows(n, 0.0))
            return OnTiles(A[:n_rows], geometry, A, team)
        dtype: Any = np.float64 if geometry is None or n <= _ALL else np.float32
        if geometry is None:  # with a constant, as kernels have
            landmarks, A = Columns(A.shape[1] + 1), np.column_stack([A, np.ones(n)])

        def rows(start, stop):
            return A[start:stop].astype(dtype, copy=False)

        free = memory.bytes - memory.rows - memory.landmarks(landmarks.size)
        cached = min(_CACHED_BYTES, free) / np.dtype(dtype).itemsize
        return OnLandmarks(landmarks, rows, n, cached, team)

    def _solve_sums(self, rows, target_transform, A, Y, weights, held, before, memory):
        """Landmarks and their solution from sums over all rows; None if it is no better."""
        geometry, last = self.geometry_, slice(len(A) - held, None)
        landmarks, m = Columns(A.shape[1]), self.n_landmarks
        if geometry is not None:
            m = (
                memory.most(memory.landmarks, affordable(rows.n_rows))
                if isinstance(m, str)
                else int(m)
            )
            landmarks = make_landmarks(A[: min(m, len(A))], geometry)
        transform = KernelTransform(self.view_, geometry)
        sums = rows.total("features", _sums, transform, target_transform, landmarks, merge=_plus)
        A, Y, weights = A[last], Y[last], weights[last]
        solution, i, risk = _best(
            landmarks, lambda a, b: A[a:b].astype(np.float64), held, Y, weights, held, sums=sums
        )
        if risk > weights @ np.square(before - Y).sum(axis=1):
            return None
        self.alpha_ = float(ALPHAS[i])
        return landmarks, solution.coef[:, i], solution.intercept[i], solution.held_out[:, i]

    def _view_and_geometry(self, X, Y, weights, like, held, team, memory):
        """Rows in the view, and the geometry: those of `like`, or those of most evidence."""
        (n, d), kernel, self._search_optimism = X.shape, KERNELS[self.kernel], 0.0
        reused = None if like is None else like.geometry_
        if like is not None and reused is not None and reused.kernel == kernel:
            self.view_, self._search_optimism = like.view_, like._search_optimism
            return self.view_.show(X), reused
        wide = self.kernel == "rbf" and d >= _WIDE
        # If there are several views, they are compared on a part of the rows.
        part = slice(_ALL if wide else n)
        has_view = like is not None and isinstance(like.view_, Coordinates)
        self.view_ = (
            like.view_ if like is not None and has_view else coordinates(X[part], weights[part])
        )
        if self.kernel == "linear":
            return self.view_.show(X), None
        # The held-out rows come last. The search uses them only if there are few others.
        m = n - held
        if uses_held := m == 0 or m < ROWS and not self._needs_folds(n, d):
            m = n
        if (allowed := memory.most(memory.search, rows_of(m))) < rows_of(m):
            m = allowed if allowed < ROWS else 4 * allowed
        sample, views = slice(rows_of(m) if wide else n), [self.view_]
        if wide:
            principal = components(X[part], weights[part], _WIDE)
            views += [principal] if principal.axes.size else []
        shown = [view.show(X[sample]) for view in views]

        def best():
            pairs = [
                (Z[:m].astype(np.float32), view.rate) for Z, view in zip(shown, views, strict=True)
            ]
            return best_view(kernel, pairs, Y[:m], weights[:m], self._CLASSIFY, team)

        number, geometry = best()
        if wide and not number and n > _ALL and not has_view:
            views = [coordinates(X, weights)]
            shown = [views[0].show(X)]
            number, geometry = best()
        self.view_ = views[number]
        if uses_held:
            self._search_optimism = self._optimism(n)
        Z = shown[number]
        return Z if len(Z) == n else self.view_.show(X), geometry

    def _permuter(self, X):
        """A function of columns: the transformed rows with these columns from the next row."""

        def permuted(columns):
            new = X.copy()
            new[:, columns] = np.roll(X[:, columns], 1, axis=0)
            return _transformed(self.geometry_, self.view_.show(new))

        return permuted

    @one_blas_thread()
    def _scores(self, X):
        check_is_fitted(self, "landmarks_")
        X = base.check_rows(self, X)
        out = np.empty((X.shape[0], self.dual_coef_.shape[1]), dtype=X.dtype)
        dtype = np.result_type(X, self.dual_coef_) if X.dtype == np.float32 else X.dtype
        if elsewhere():  # sums have another order: large coefficients would amplify rounding
            dtype = np.dtype(np.float64)
        coef = self.dual_coef_.astype(dtype, copy=False)
        step = max(1, min(2048, _CELLS // max(1, X.shape[1])))
        transform = KernelTransform(self.view_, self.geometry_)
        for start in range(0, X.shape[0], step):
            Z = transform(here(X[start : start + step]).astype(dtype, copy=False))
            out[start : start + step] = self._values(Z, coef) + np.atleast_1d(self.intercept_)
        return out

    def _single_is_enough(self, A, coef, width):
        """Whether single precision of kernel values is enough, by predictions of some rows."""
        if self.geometry_ is None or not _MANY <= len(coef) <= _ALL:
            return False
        gap = np.abs(self._by_tiles(A, coef) - self.landmarks_.values(A.astype(np.float64)) @ coef)
        return bool((gap.max(axis=0) <= 0.1 * _PRECISE * width).all())

    def _by_tiles(self, Z, coef):
        """Kernel values in single precision, times the coefficients in double precision."""
        with workers(self.n_jobs) as team:
            landmarks: Any = self.landmarks_
            centers = landmarks.centers.astype(np.float32, copy=False)
            # Padded, so that a row's arithmetic does not depend on the number of rows.
            A = np.pad(Z.astype(np.float32), ((0, -len(Z) % _ALIGNED), (0, 0)))
            return times(self.geometry_, A, centers, coef, team)[: len(Z)]

    def _values(self, Z, coef):
        """Transformed rows' kernel values with the landmarks, times the coefficients."""
        if elsewhere():
            return self.landmarks_.there(Z) @ coef
        if len(coef) > _ALL and self.geometry_ is not None or getattr(self, "_single", False):
            return self._by_tiles(Z, coef)
        return self.landmarks_.values(Z) @ coef

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _n_held(n):
    """How many of n rows are held out."""
    return n if n <= _HELD_OUT else _HELD


def _transformed(geometry, Z):
    return np.ascontiguousarray(geometry.show(Z))


def _best(landmarks, rows, n, Y, weights, held, team=ALONE, sums=None):
    """Solutions for all penalties, the number of the best for the first rows, and its risk."""
    solution = solve(landmarks, rows, n, Y, weights, most=held, team=team, sums=sums)
    risk = weights[:held] @ np.square(solution.held_out - Y[:held, None]).sum(axis=2)
    i = int(np.argmin(risk))
    return solution, i, float(risk[i])


def _indicators(codes, k):
    """1 for the class of each output, else 0."""
    return (codes[:, None] == (np.ones(1) if k == 1 else np.arange(k))).astype(np.float64)


def _log_losses(scores, codes):
    """-log p of the rows' classes, of log-odds."""
    p = base.probabilities(scores, joint=True)
    p_class = np.broadcast_to(p, (len(codes), p.shape[1]))[np.arange(len(codes)), codes]
    return -np.log(np.maximum(p_class, np.finfo(float).tiny))


def _rounded(coef, dtype, width):
    """Coefficients in the type of the rows, unless they are large and cancel each other.

    A rounded kernel value changes a prediction in proportion to its coefficient, which is compared
    with `width`, the range of the targets.
    """
    error = np.finfo(dtype).eps * np.sqrt(np.square(coef).sum(axis=0))
    return coef if (error > _PRECISE * width).any() else coef.astype(dtype)


def affordable(n):
    """The most landmarks of many rows for which n m^2 + 10 m^3 multiply-adds stay within 4e12."""
    m = np.arange(500, 4001, 500.0)
    return int(m[np.searchsorted(n * m**2 + 10 * m**3, 4e12, "right") - 1])


def all_rows_affordable(n, d):
    """Whether all of n rows of d coordinates may be landmarks."""
    return n**2 * (d + 50.0) <= _STEP


# Kernels whose columns have rates.
_GEOMETRIC = ("rbf", "laplacian")


class KernelRidgeRegressor(
    RiskIntervalMixin, PredictsIntervals, RegressorMixin, MultiOutputMixin, _KernelRidge
):
    r"""Kernel ridge regression with a learned geometry; there is nothing to tune.

    :math:`f(x) = b + \sum_j a_j k(x, c_j)` with rows of the data as landmarks :math:`c_j` (all of
    them, if that improves predictions) and :math:`k(x, c) = e^{-D} + \beta (b(x) + b(c) - D) + 1`,
    where :math:`D = \sum_i S_i |v_i(x) - v_i(c)|^p`, :math:`b(x) = \sum_i S_i |v_i(x)|^p`. The view
    v has every column as a number, as ranks and, if its values may be codes, as levels. The rates
    S, beta and the penalty maximize the evidence of 700 rows
    (`tunefree.learners.kernel.geometry`). Beyond 8,000 rows leave-one-out errors choose the
    penalty, and held-out errors choose between landmarks and all rows, which are then solved by
    conjugate gradients (`tunefree.learners.kernel.full`).

    Parameters
    ----------
    kernel : {'rbf', 'laplacian', 'linear'}, default='rbf'
        p = 2: smooth functions and lines; p = 1: rough functions and sums of piecewise linear
        functions of single columns; 'linear': ridge regression on the view.
    n_landmarks : int, 'auto' or 'all', default='auto'
        'all' rows, by conjugate gradients beyond 8,000. 'auto': all of up to 8,000 distinct rows;
        beyond, the landmarks are doubled while the held-out risk falls, and all rows are used if it
        falls to the end (up to about 120,000 rows of 20 columns).
    compress : None, True, float or int, default=None
        Project the predictor onto few landmarks after the fit. A float: as few as change the mean
        loss on (at most 4,096) training rows by less than this share of the loss of the constant
        predictor; True is 0.001. An integer: the number of landmarks. See `compression_`.
    max_memory : float, str or None, default=None
        Bytes that the fit may take in addition to the data, or text such as '500MB'. To stay within
        the limit, a fit uses conjugate gradients in place of the matrix of all rows, fewer
        landmarks (also of their preconditioner), fewer rows of the search, two threads and one more
        for every GB. A sufficient limit changes nothing. None: 8,000 rows may take 1.2 GB, 4,000
        landmarks 1 GB.
    n_jobs : int or None, default=None
        Threads of large fits and predictions, all by default; results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_landmarks, n_targets)
    intercept_ : float or ndarray of shape (n_targets,)
    view_ : part
        The coordinates of the columns (`tunefree.columns.Coordinates`), or from 32 columns on, if
        they have more evidence, principal components (`tunefree.columns.Components`).
    geometry_ : part or None
        Kernel, rates, slope and penalty.
    landmarks_ : part
        Landmarks in the units of the kernel.
    feature_relevances_ : ndarray of shape (n_features,)
        The columns' shares of the variation of predictions, whatever their units; they sum to 1.
        Each is half the mean squared change when that column alone is drawn from another row.
    alpha_ : float
        The penalty, for targets of unit variance.
    leave_one_out_risk_ : float
        Mean squared leave-one-out error, summed over targets (from 2,000 rows on, of 1,000 rows
        that the search does not use).
    compression_ : part or None
        `n_support` and `n_landmarks`, the mean `loss_before` and `loss_after`, and the `change` of
        predictions (root mean square, relative to their size); None without compression.
    held_out_ : part
        Held-out predictions, from which `risk_interval_` and intervals are computed
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, or weights that are all zero.
    MemoryError
        Before work starts, if `max_memory` is too little for any solver, with the least amount.

    References
    ----------
    Rasmussen and Williams 2006, "Gaussian processes for machine learning", chapter 5 (evidence);
    Williams and Seeger 2001, "Using the Nystroem method to speed up kernel machines". The kernel,
    the view and the search are this library's.

    Examples
    --------
    >>> from tunefree import KernelRidgeRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (300, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(KernelRidgeRegressor(random_state=0).fit(X, y).score(X, y) > 0.99)
    True
    """

    _CLASSIFY = False

    def _shrink_by_folds(self, X, y, sample_weight):
        """Shrink the predictor towards the mean by held-out predictions of folds.

        Only with few rows a rate: the search then fits noise, which leave-one-out errors of its
        own rows do not show.
        """
        X, y = base.check_rows_and_targets(self, X, y, multi_output=True, numeric=True)
        n, d = X.shape
        if not self._needs_folds(n, d):
            return
        weights, targets = base.check_weights(sample_weight, X), y.reshape(n, -1)
        visits = hashed_visits(X, targets, weights, seed_of(self.random_state), affine=True)
        rows, totals = visits.unique()
        mean = weights @ targets / weights.sum()
        share, predictions = np.zeros(targets.shape[1]), np.tile(mean, (len(rows), 1))
        if len(rows) >= _FOLDS:
            fold = np.arange(len(rows)) % _FOLDS
            for f in range(_FOLDS):  # rates of other rows, coefficients of all others
                model = clone(self)._learn(
                    X[rows], y[rows], totals, held=fold == f, column_groups=None
                )
                predictions[fold == f] = np.clip(model.held_out_values_, *model.prediction_limits_)
            share = shrinkage_factor(predictions - mean, targets[rows] - mean, totals)
        self.dual_coef_ = (self.dual_coef_ * share).astype(self.dual_coef_.dtype)
        intercept = mean + share * (np.atleast_1d(self.intercept_) - mean)
        intercept = intercept.astype(self.prediction_limits_.dtype)
        self.intercept_ = intercept[0] if self._flat else intercept
        self._set_held_out(mean + share * (predictions - mean), targets[rows], totals, X[rows])

    def _searched(self):
        n, linear = len(self.held_out_[0].residuals), self.kernel == "linear"
        if linear or n >= ROWS or self._needs_folds(n, self.n_features_in_):
            return 0.0
        return self._optimism(n)

    def _set_held_out(self, predictions, targets, weights, X):
        """Keep the held-out predictions."""
        self.held_out_ = tuple(
            Residuals.of(f, y, weights, X, self.view_)
            for f, y in zip(predictions.T, targets.T, strict=True)
        )

    def _encode(self, y):
        targets, self._flat = np.asarray(y, dtype=np.float64), np.ndim(y) == 1
        targets = targets.reshape(len(y), -1)
        return targets, targets

    def _finish(self, fitted, dtype):
        low, high = fitted.ends
        coef, intercept = fitted.coef, fitted.intercept
        if "held_out_values_" not in vars(self):
            y, weights = fitted.targets, fitted.weights
            mean, predictions = (
                np.average(y, axis=0, weights=weights),
                np.clip(fitted.held_out, low, high),
            )
            share = np.ones(len(mean))
            if not self._needs_folds(*fitted.rows.shape):  # else `_shrink_by_folds` shrinks
                share = shrinkage_factor(
                    predictions - mean, y - mean, weights, spent=self._search_optimism
                )
            coef, intercept = (
                coef * share,
                np.where(share < 1.0, mean + share * (intercept - mean), intercept),
            )
            self._set_held_out(mean + share * (predictions - mean), y, weights, fitted.rows)
        self.dual_coef_ = _rounded(coef, dtype, high - low)
        self.intercept_ = dtype.type(intercept[0]) if self._flat else intercept.astype(dtype)
        self.prediction_limits_ = np.array(fitted.ends, dtype=dtype)

    def _columns_of(self, X):
        return base.check_rows(self, X)

    def _losses(self, values, targets):
        return np.square(values - targets).sum(axis=1)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, within the range of the training targets."""
        y = np.clip(self._scores(X), *self.prediction_limits_)
        return y[:, 0] if np.ndim(self.intercept_) == 0 else y


class KernelRidgeClassifier(RiskIntervalMixin, PredictsSets, base.LabelsByDecisions, _KernelRidge):
    r"""Kernel classification with a learned geometry, and calibrated probabilities.

    One output a class (one for two classes), +1 or -1, learned as in `KernelRidgeRegressor`; the
    class of the largest output is predicted, and a temperature fitted to the leave-one-out outputs
    turns them into log-odds. With ``loss="log_loss"`` the outputs are log-odds: kernel and
    landmarks are those of least squares, and f then minimizes

    .. math:: \sum_i w_i\, \ell(b + f(x_i), y_i) + \tfrac{\lambda}{2} \|f\|^2,

    with b the log-odds of the classes' shares, one sigmoid or a softmax, and the penalty of least
    held-out loss (`tunefree.learners.kernel.logistic`).

    Parameters
    ----------
    kernel : {'rbf', 'laplacian', 'linear'}, default='rbf'
    loss : {'squared_error', 'log_loss'}, default='squared_error'
        'log_loss' costs several times as much, and its probabilities are better if classes are
        noisy. It needs all rows in memory.
    n_landmarks : int, 'auto' or 'all', default='auto'
    compress : None, True, float or int, default=None
        See `KernelRidgeRegressor`; the loss is the log loss, and the constant predictor is that of
        the classes' shares.
    max_memory : float, str or None, default=None
    n_jobs : int or None, default=None
        See `KernelRidgeRegressor`.
    random_state : int, RandomState or None, default=None
        Seed of the hash that picks the landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_landmarks, n_outputs)
    intercept_ : ndarray of shape (n_outputs,)
    view_, geometry_, landmarks_, feature_relevances_, alpha_, leave_one_out_risk_, compression_
        See `KernelRidgeRegressor`.
    held_out_ : part
        Held-out probabilities, from which `risk_interval_` and sets are computed
        (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero.
    MemoryError
        See `KernelRidgeRegressor`.

    References
    ----------
    See `KernelRidgeRegressor`.

    Examples
    --------
    >>> from tunefree import KernelRidgeClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.hypot(*X.T) > 1
    >>> bool(KernelRidgeClassifier(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        kernel: str = "rbf",
        *,
        loss: str = "squared_error",
        n_landmarks: int | str = "auto",
        compress: bool | float | None = None,
        max_memory: float | str | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        super().__init__(
            kernel, n_landmarks=n_landmarks, compress=compress, max_memory=max_memory,
            n_jobs=n_jobs, random_state=random_state,
        )  # fmt: skip
        self.loss = loss

    @property
    def _logistic(self):
        if self.loss not in ("squared_error", "log_loss"):
            raise ValueError(f"loss={self.loss!r} is neither 'squared_error' nor 'log_loss'.")
        return self.loss == "log_loss"

    def _encode(self, y):
        self.classes_, codes = base.encode_labels(y, fewest=2)
        return base.signs(codes, len(self.classes_)), codes[:, None].astype(float)

    def _finish(self, fitted, dtype):
        a = self._slope = temperature(fitted.held_out, fitted.targets, fitted.weights)
        if hasattr(self, "held_out_values_"):
            self.held_out_values_, self.held_out_effects_ = (
                a * self.held_out_values_,
                a * self.held_out_effects_,
            )
            coef, intercept = a * fitted.coef, a * fitted.intercept
        else:
            codes, weights = base.codes_of(fitted.targets), fitted.weights
            predictions = a * fitted.held_out
            null = shares_as_scores(codes, weights, predictions.shape[1])
            p, prior = (base.probabilities(each, joint=True) for each in (predictions, null[None]))
            share = 1.0
            if not self._needs_folds(*fitted.rows.shape):  # else `_shrink_by_folds` shrinks
                share = shrinkage_factor_of_classes(
                    p, prior[0], codes, weights, self._search_optimism
                )
            coef, intercept = a * share * fitted.coef, a * fitted.intercept
            if share < 1.0:
                intercept, predictions = (
                    null + share * (s - null) for s in (intercept, predictions)
                )
            p = base.probabilities(predictions, joint=True)
            self.held_out_ = base.held_out_probabilities(p, codes, weights)
        self.dual_coef_ = _rounded(coef, dtype, 2.0 * a)
        self.intercept_ = intercept.astype(dtype)

    def _shrink_by_folds(self, X, y, sample_weight):
        """Shrink the predictor towards the classes' shares by held-out predictions of folds.

        Only with few rows a rate, as in `KernelRidgeRegressor`.
        """
        X, y = base.check_rows_and_targets(self, X, y)
        n, d = X.shape
        if not self._needs_folds(n, d):
            return
        weights = base.check_weights(sample_weight, X)
        codes = np.searchsorted(self.classes_, y)
        labels = codes[:, None].astype(float)
        visits = hashed_visits(X, labels, weights, seed_of(self.random_state), affine=True)
        rows, totals = visits.unique()
        fold = np.empty(len(rows), dtype=np.int64)
        fold[np.argsort(codes[rows], kind="stable")] = np.arange(len(rows)) % _FOLDS
        targets = base.signs(codes[rows], len(self.classes_))
        predictions = np.zeros(targets.shape)
        for f in np.unique(fold):
            held = fold == f
            model = clone(self)._learn(X[rows], y[rows], totals, held=held, column_groups=None)
            predictions[held] = model.held_out_values_ / model._slope
        slope = temperature(predictions, targets, totals)
        null = shares_as_scores(codes[rows], totals, targets.shape[1])
        p, prior = (
            base.probabilities(each, joint=True) for each in (slope * predictions, null[None])
        )
        share = shrinkage_factor_of_classes(p, prior[0], codes[rows], totals)
        factor = share * min(slope / self._slope, 1.0)
        self.dual_coef_ = (factor * self.dual_coef_).astype(self.dual_coef_.dtype)
        self.intercept_ = ((1.0 - share) * null + factor * self.intercept_).astype(X.dtype)
        p = base.probabilities(null + share * (slope * predictions - null), joint=True)
        self.held_out_ = base.held_out_probabilities(p, codes[rows], totals)

    def _losses(self, values, targets):
        return _log_losses(values, base.codes_of(targets))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class; shape (n,) or (n, n_classes)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes)."""
        return base.probabilities(self.decision_function(X), joint=True)
