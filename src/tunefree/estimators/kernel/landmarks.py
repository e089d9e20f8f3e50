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
from tunefree.learners.kernel.full import full, preconditioner_rows, scaled
from tunefree.learners.kernel.geometry import (
    ROWS,
    best_view,
    exact,
    looked_at,
    permutation_effects,
    rows_of,
)
from tunefree.learners.kernel.logistic import (
    OnLandmarks,
    OnMatrix,
    OnTiles,
    learn,
    losses,
    parts,
)
from tunefree.learners.kernel.memory import MemoryBudget
from tunefree.learners.kernel.nystroem import (
    ALPHAS,
    Columns,
    Landmarks,
    accumulate,
    pivots,
    place,
    sharpened,
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

# Up to so many rows are solved exactly. Beyond, landmarks double from so many on while the risk on
# rows left out falls by such a share; if it still does in the end, all rows are landmarks, where
# that takes no more than so many multiply-adds for a product with their kernel values.
_ALL, _START, _FALL, _STEP = 8000, 500, 0.01, 1e12
# Up to so many landmarks tell whether all rows are worth it.
_TOLD = 1000
# Landmarks drawn by what others leave of them are tried with so many.
_TRIED = 250
# Fewer rows than that, or a rate, are left out of the search in folds.
_FEW, _RATED, _FOLDS = 2000, 4, 3
# Numbers of a block of rows to predict; rows come in multiples of so many.
_CELLS, _ALIGNED = 50_000_000, 16
# From so many columns on as many principal components are tried, too.
_WIDE = 32
# Rows that are left out to judge, of all and of those that the search has not seen.
_HELD_OUT, _HELD = 2000, 1000
# Features are held while the log loss is minimized up to so many bytes, beyond made anew.
_HELD_BYTES = 1e9
# Vectors of all rows' targets that squared errors and the log loss keep; under a limit of memory
# there are so many landmarks, leaders or rows of the search at least.
_VECTORS, _LOG_VECTORS, _LEAST = 20, 80, 64
# Rounding may move a prediction by so much of the range of the targets; of so many landmarks on,
# kernel values are in single precision if they move those of a few rows by a tenth of that.
_PRECISE, _MANY, _SHOWN = 1e-4, 1000, 64


class _Fitted(NamedTuple):
    """What `_solve` finds.

    Coefficients, the targets' range, predictions of rows left out with what they were, and how the
    first of these move when columns come from the next row.
    """

    coef: np.ndarray
    intercept: np.ndarray
    ends: tuple
    held_out: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    moved: np.ndarray
    rows: Any  # those left out


class Placed(NamedTuple):
    """What takes rows to the units of the kernel."""

    view: Any
    geometry: Any

    def __call__(self, X):
        """Rows, shown and placed."""
        Z = self.view.show(X.toarray() if sparse.issparse(X) else X)
        return Z if self.geometry is None else _placed(self.geometry, Z)


class TargetTransform(NamedTuple):
    """How targets of a solution are made of y: in its units, signs of classes or within ends."""

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


def _sums(piece, placed, told, marks):
    """What some rows add to the solution of all."""

    def rows(start, stop):
        return placed(piece.X[start:stop])

    shift = np.zeros(len(told.unit))
    return accumulate(marks, rows, len(piece.y), told(piece.y), piece.weights, shift)


def _plus(a, b, *_):
    return a.plus(b)


class _Landmark(base.TakesArrays, FitsSums, CallbackSupport, BaseEstimator):
    """Rows in, least squares on landmarks out; a subclass says what is marked as abstract."""

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
        """Abstract: targets, and what tells equal rows apart."""
        raise NotImplementedError

    def _finish(self, fitted, dtype):
        """Abstract: publish the coefficients."""
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
        asked = asked_of(self.compress)
        self._learn(X, y, sample_weight)
        self._compare(X, y, sample_weight)
        self._compress(asked, X, y, sample_weight)
        return self

    def _compress(self, asked, X, y, sample_weight):
        """Project the predictor onto fewer landmarks, if that is asked for."""
        self.compression_ = None
        if not asked or self.geometry_ is None:
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
        A = Placed(self.view_, self.geometry_)(X[rows].astype(self.dual_coef_.dtype))
        share, targets = totals / totals.sum(), targets[rows]
        marks: Any = self.landmarks_
        f = Expansion((self.geometry_,), marks.centers.astype(A.dtype), (self.dual_coef_,))
        f, kept, self.compression_ = compress(
            f, A, lambda values: float(share @ self._losses(values + self.intercept_, targets)),
            **asked, most=most, n_jobs=self.n_jobs,
        )  # fmt: skip
        self.landmarks_ = marks._replace(centers=marks.centers[kept])
        width = np.ptp(f(A, self.n_jobs), axis=0)
        self._single = self._rounds(A[:_SHOWN], f.coefs[0], width)
        self.dual_coef_ = _rounded(f.coefs[0], X.dtype, width)

    def _losses(self, values, targets):
        """Abstract: the loss of every row that a compression watches."""
        raise NotImplementedError

    def _compare(self, X, y, sample_weight):
        """Nothing: of classes, a subclass may know better."""

    def _fit_rows(self, rows, sample: Any = None, like=None):
        """Learn rows of which only a `Sample` and sums are kept, with the view of `like`.

        View, geometry and landmarks are those of the sample, the coefficients those of all rows,
        unless they say less of sampled rows left out than the coefficients of the sample.
        """
        asked = asked_of(self.compress)
        if sample is None:
            sample = rows.drawn(seed_of(self.random_state), _ALL, self._CLASSIFY)
        if self._logistic and not sample.whole:
            raise ValueError(
                "loss='log_loss' wants all rows in memory: sums do not tell its solution. "
                "Take loss='squared_error', or fit on a part of the rows."
            )
        known = sample.X, sample.y, sample.weights
        self._learn(*known, like, stream=None if sample.whole else (rows, sample.ends))
        self._compare(*known)
        self._compress(asked, *known)
        return self

    def _few_rows(self, n, d):
        """Whether leave-one-out errors of rows that were searched tell too little."""
        return self.kernel != "linear" and n < min(_FEW, _RATED * d)

    def _followed(self, n):
        """Of n rows left out: their values hide about half of what the rates have followed."""
        return 0.5 * len(np.unique(self.view_.rate)) / n

    def _learn(
        self, X, y, sample_weight=None, like: Any = None, held=None, groups=None, column_groups=(),
        stream: Any = None,
    ):  # fmt: skip
        """Learn.

        With the view of `like`, and its geometry if the kernels are the same. It keeps what it says
        of the rows `held` without them, whose targets the search does not see, and how that moves
        with each column and with those `together`, if these are not None. `groups` are numbers: all
        that are held, are left out as wholes (only where all rows are landmarks). `stream` are more
        rows, which have sums, and the ends of their targets.
        """
        real = not self._CLASSIFY
        if self.n_landmarks not in ("auto", "all") and not (
            isinstance(self.n_landmarks, int | np.integer) and self.n_landmarks > 0
        ):
            raise ValueError(
                f"n_landmarks={self.n_landmarks!r} is no positive integer, 'auto' or 'all'."
            )
        if self.kernel not in (*_GEOMETRIC, "linear"):
            raise ValueError(f"kernel={self.kernel!r} is none of rbf, laplacian, linear.")
        X, y = base.check_rows_and_targets(self, X, y, multi_output=real, numeric=real)
        weights = base.check_weights(sample_weight, X)
        check_memory(
            self._memory_budget(X).given,
            f"{type(self).__name__} holds rows as arrays: {X.shape[0]} x {X.shape[1]}",
            "Hash or select columns, or take PiSTOL* or KernelPiSTOL*, which keep rows sparse.",
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
        given = np.arange(len(rows)) if held is None else np.argsort(rows[held], kind="stable")
        memory = self._memory_budget(X, targets.shape[1])
        memory.check(self._least(memory), type(self).__name__)
        with workers(min(n_threads(self.n_jobs), memory.threads)) as team:
            fitted = self._solve(
                X[rows], targets[rows], totals, like, held, groups, given, column_groups, team,
                stream,
                memory,
            )  # fmt: skip
        if held is not None:
            # The rows held, in the order in which they were given.
            self.held_out_values_, self.held_out_effects_ = fitted.held_out[given], fitted.moved
        self._finish(fitted, X.dtype)
        return self

    def _memory_budget(self, X, n_outputs=1):
        """What the fit may take, and its shape, with a coordinate a column."""
        (n, d), size = X.shape, X.dtype.itemsize
        vectors = _LOG_VECTORS if self._logistic else _VECTORS
        memory = MemoryBudget(n, d, d, n_outputs, size, vectors)
        most = Limits(None, self.max_memory).given
        return memory if most is None else memory._replace(bytes=most)

    def _exact(self, memory, held):
        """Bytes of the solution by all rows' matrix, infinite beyond 8,000 of them."""
        if memory.n > _ALL or self.n_landmarks not in ("auto", "all"):
            return np.inf
        way = memory.exact(memory.n, held)
        return max(way, memory.matrix(8 if memory.n < _MANY else 4)) if self._logistic else way

    def _marks(self, memory):
        """Bytes of landmarks, and of their features if the log loss holds them."""
        held = 8.0 * memory.n * self._logistic
        return lambda m: memory.landmarks(m) + min(held * m, _HELD_BYTES)

    def _least(self, memory):
        """Bytes of the least way that the parameters leave open."""
        m = self.n_landmarks
        if self.kernel == "linear":
            return memory.landmarks(memory.q)
        few = min(memory.n, _LEAST)
        search = memory.search(few)
        whole = self._exact(memory, _held(memory.n))
        if m == "all":
            return max(search, min(whole, memory.tiles(few) if memory.n > _HELD_OUT else np.inf))
        return max(search, min(whole, memory.landmarks(few if m == "auto" else min(m, memory.n))))

    def _solve(self, X, y, weights, like, held, groups, given, column_groups, team, stream, memory):
        n, share = len(X), weights / weights.sum()
        level = share @ y
        unit = np.sqrt(share @ np.square(y - level))
        unit = np.where(unit > 0.0, unit, 1.0)
        Y = (y - level) / unit
        if held is None:
            held = np.arange(n) >= n - _held(n)
        order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
        X, Y, weights, r = X[order], Y[order], weights[order], int(held.sum())
        Z, geometry = self._seen(X, Y, weights, like, r, team, memory)
        memory = memory._replace(q=Z.shape[1])
        memory.check(self._least(memory), type(self).__name__)
        self.geometry_ = geometry
        A = Z if geometry is None else _placed(geometry, Z)
        exactly = geometry is not None and n <= _ALL and self.n_landmarks in ("auto", "all")
        exactly = exactly and memory.allows(self._exact(memory, r))
        intercept, without = np.zeros(Y.shape[1]), None
        # The inverse of all rows is at hand where all are left out.
        most = 1000 if r == n or geometry is None else 200
        some = looked_at(n if exactly else _START, X.shape[1], most)
        some = memory.most(lambda rows: memory.permutation_effects(rows, n), some)
        few = n - r + given[given < r][:some]
        if exactly:
            marks, whole = (
                Landmarks(A, geometry, np.empty((0, 0))),
                None if groups is None else groups[order[-r:]],
            )
            coef, held_out, self.alpha_, inverse = exact(
                geometry, A, Y, weights, r, whole, few, team
            )
            if groups is None:
                without = inverse, (Y[-r:] - held_out)[few - n + r]
        else:
            marks, coef, intercept, held_out = self._many(Z, A, Y, weights, r, team, memory)
            few = few[: looked_at(len(coef), X.shape[1], most)]
            if self.geometry_ is not geometry:
                geometry, A = self.geometry_, _placed(self.geometry_, Z)
        ends = y.min(axis=0), y.max(axis=0)
        targets = Y[-r:] * unit + level
        if self._logistic:
            codes, unit = base.codes_of(Y * unit + level), np.ones(Y.shape[1])
            level, Y = shares_as_scores(codes, weights, Y.shape[1]), _own(codes, Y.shape[1])
            out = parts(Y, r, None if groups is None else groups[order])
            space = self._space(marks, A, exactly, team, memory)
            coef, held_out, self.alpha_ = learn(space, self.alpha_, Y, weights, level, out)
            held_out, without = held_out - level, None
            if geometry is None:
                coef, intercept = coef[:-1], coef[-1]
            elif isinstance(space, OnLandmarks):
                coef, intercept = marks.fold(coef), 0.0 * level
        if stream is not None:
            low, high = ends
            if not self._CLASSIFY:  # no farther beyond the sample than it is wide
                ends = tuple(np.clip(stream[1], 2.0 * low - high, 2.0 * high - low))
            told = TargetTransform(self.classes_ if self._CLASSIFY else None, ends, level, unit)
            found = self._solve_sums(stream[0], told, A, Y, weights, r, held_out, memory)
            if found is not None:
                (marks, coef, intercept, held_out), without = found, None
        self.landmarks_ = marks.alone()
        width = np.ptp(held_out if self._logistic else Y, axis=0)
        self._single = self._rounds(A[:_SHOWN], coef, width)
        if self._logistic:
            lost = losses(held_out + level, Y[-r:])
        else:
            lost = np.square((held_out - Y[-r:]) * unit).sum(axis=1)
        self.leave_one_out_risk_ = float(weights[-r:] @ lost / weights[-r:].sum())
        moved = np.zeros((0, len(few), Y.shape[1]))
        if column_groups is not None:
            columns = [*np.arange(X.shape[1])[:, None], *column_groups]
            centers = getattr(marks, "centers", None)
            source = getattr(self.view_, "source", self._from_next(X[few]))
            moved = permutation_effects(geometry, A, few, centers, coef, source, columns, without)
            each = np.square(moved[: X.shape[1]]).sum(axis=2) @ weights[few]
            self.relevance_ = each / each.sum() if each.any() else each
        back = np.argsort(order[-r:], kind="stable")
        return _Fitted(
            coef * unit, level + intercept * unit, ends,
            (held_out * unit + level)[back], targets[back], weights[-r:][back],
            moved * unit, X[-r:][back],
        )  # fmt: skip

    def _many(self, Z, A, Y, weights, held, team, memory):
        """Landmarks or all rows, their coefficients, intercepts, and what is said of the last rows.

        Landmarks are the first rows: these are in the order of their hash.
        """
        n, geometry = len(A), self.geometry_
        if geometry is None:
            marks = Columns(A.shape[1])
            return self._sharpened((marks, *self._ridge(marks, A, Y, weights, held, team)))
        m, best, sizes = self.n_landmarks, None, []
        if m not in ("auto", "all"):
            sizes = [min(int(m), n)]
        elif m == "auto":
            top, most = affordable(n), memory.most(self._marks(memory), n)
            sizes = [top // 2**i for i in range(9, -1, -1) if top // 2**i >= _START]
            sizes = sorted({min(m, most) for m in sizes})
        # Landmarks wait, with what they were solved by, while all rows are.
        last = max((m for m in sizes if m <= _TOLD), default=0)
        later = memory._replace(bytes=memory.bytes - 16.0 * last**2)
        lead = later.most(memory.tiles, preconditioner_rows(n, 0.0))
        all_rows = m == "all" or m == "auto" and grown(n, A.shape[1])
        all_rows &= n > held and (m == "all" or lead >= min(_TRIED, n))
        pivoted = bool(sizes) and self._pivots_pay(A, Y, weights, held, team)
        for m in [m for m in sizes if m <= _TOLD] or sizes if all_rows else sizes:
            marks = place(self._centers(A, m, pivoted), geometry, team)
            found = marks, *self._ridge(marks, A, Y, weights, held, team)
            enough = best is not None and found[4] > (1.0 - _FALL) * best[4]
            if best is None or found[4] < best[4]:
                best, alpha = found, self.alpha_
            if enough:
                all_rows = False
                break
        if best is not None and not all_rows:
            self.alpha_ = alpha
            return self._sharpened(best)
        asked = later.most(lambda rows: memory.exact(rows, rows / 2), n - held)
        geometry = scaled(geometry, A, Y, weights, asked, team)
        A = _placed(geometry, Z).astype(np.float32)
        lead = min(lead, preconditioner_rows(n, geometry.penalty))
        found = A[:lead], geometry, A, Y, weights, geometry.penalty, held, team
        coef, intercept, predictions = full(*found, labels=self._CLASSIFY)
        risk = weights[-held:] @ np.square(predictions - Y[-held:]).sum(axis=1)
        if best is not None and not risk < best[4]:
            self.alpha_ = alpha
            return self._sharpened(best)
        self.geometry_, self.alpha_ = geometry, geometry.penalty
        return Landmarks(A, geometry, np.empty((0, 0))), coef, intercept, predictions

    def _centers(self, A, m, pivoted):
        """Placed rows as landmarks: the first ones, or those that say most of others."""
        if not pivoted:
            return A[:m]
        pool = A[: max(_ALL, 4 * m)].astype(np.float32)
        return A[pivots(self.geometry_, pool, m, seed_of(self.random_state))]

    def _pivots_pay(self, A, Y, weights, held, team):
        """Whether few landmarks so drawn say more of the last rows than as many of the first."""
        if len(A) <= _ALL:
            return False
        rows = np.r_[: min(_ALL, len(A) - held), len(A) - held : len(A)]
        given = A[rows], Y[rows], weights[rows], held, team
        even, drawn = (
            self._ridge(place(self._centers(A, _TRIED, pivoted), self.geometry_), *given)[2]
            for pivoted in (False, True)
        )
        even, drawn = (
            np.square(predictions - Y[-held:]).sum(axis=1) for predictions in (even, drawn)
        )
        mean, error = weighted_mean(drawn - even, weights[-held:])
        return mean < -2.0 * error

    def _ridge(self, marks, A, Y, weights, held, team):
        """Coefficients, intercepts, what is said of the last rows and its risk, at best penalty."""
        # These are to come first.
        A, Y, weights = (np.roll(part, held, axis=0) for part in (A, Y, weights))
        single = len(A) > _ALL and self.geometry_ is not None and not elsewhere()
        dtype = np.float32 if single else np.float64

        def exactly(start, stop):
            return A[start:stop].astype(np.float64)

        def rows(start, stop):
            return A[start:stop].astype(dtype)

        found, i, risk = _best(marks, rows, len(A), Y, weights, held, team)
        self.alpha_ = float(ALPHAS[i])
        known = found.coef[:, i], found.intercept[i], found.held_out[:, i]

        def sharp():
            given = marks, exactly, len(A), Y, weights, found, i, team
            return sharpened(*given) if single else known

        return *known, risk, sharp

    def _sharpened(self, found):
        """Of what is known of landmarks what is learned, in double precision."""
        return found[0], *found[-1]()

    def _space(self, marks, A, exactly, team, memory):
        """Where the log loss is minimized: the landmarks' coordinates, or all rows."""
        geometry, n = self.geometry_, len(A)
        if geometry is not None and not marks.basis.size:
            A = marks.centers
            if exactly:
                A = A.astype(np.float32 if n >= _MANY else np.float64, copy=False)
                return OnMatrix(geometry.values(A, A))
            lead = memory.most(memory.tiles, preconditioner_rows(n, 0.0))
            return OnTiles(A[:lead], geometry, A, team)
        dtype: Any = np.float64 if geometry is None or n <= _ALL else np.float32
        if geometry is None:  # as kernels do, it has a constant
            marks, A = Columns(A.shape[1] + 1), np.column_stack([A, np.ones(n)])

        def rows(start, stop):
            return A[start:stop].astype(dtype, copy=False)

        left = min(_HELD_BYTES, memory.bytes - memory.rows - memory.landmarks(marks.size))
        return OnLandmarks(marks, rows, n, left / np.dtype(dtype).itemsize, team)

    def _solve_sums(self, rows, told, A, Y, weights, held, before, memory):
        """Landmarks and their solution from sums over all rows; None if it is no better."""
        geometry, few = self.geometry_, slice(len(A) - held, None)
        marks, m = Columns(A.shape[1]), self.n_landmarks
        if geometry is not None:
            m = (
                memory.most(memory.landmarks, affordable(rows.n_rows))
                if isinstance(m, str)
                else int(m)
            )
            marks = place(A[: min(m, len(A))], geometry)
        sums = rows.total("features", _sums, Placed(self.view_, geometry), told, marks, merge=_plus)
        A, Y, weights = A[few], Y[few], weights[few]
        found, i, risk = _best(
            marks, lambda a, b: A[a:b].astype(np.float64), held, Y, weights, held, sums=sums
        )
        if risk > weights @ np.square(before - Y).sum(axis=1):
            return None
        self.alpha_ = float(ALPHAS[i])
        return marks, found.coef[:, i], found.intercept[i], found.held_out[:, i]

    def _seen(self, X, Y, weights, like, held, team, memory):
        """Rows as the view shows them, and the geometry: those of `like`, or of most evidence."""
        (n, d), kernel, self._spent = X.shape, KERNELS[self.kernel], 0.0
        near = None if like is None else like.geometry_
        if like is not None and near is not None and near.kernel == kernel:
            self.view_, self._spent = like.view_, like._spent
            return self.view_.show(X), near
        wide = self.kernel == "rbf" and d >= _WIDE
        # Of many rows a few tell by which of several views they are to be shown.
        some = slice(_ALL if wide else n)
        given = like is not None and isinstance(like.view_, Coordinates)
        self.view_ = (
            like.view_ if like is not None and given else coordinates(X[some], weights[some])
        )
        if self.kernel == "linear":
            return self.view_.show(X), None
        # The rows held come last: they are searched only where there are few others.
        m = n - held
        if hidden := m == 0 or m < ROWS and not self._few_rows(n, d):
            m = n
        if (some_rows := memory.most(memory.search, rows_of(m))) < rows_of(m):
            m = some_rows if some_rows < ROWS else 4 * some_rows
        few, views = slice(rows_of(m) if wide else n), [self.view_]
        if wide:
            turned = components(X[some], weights[some], _WIDE)
            views += [turned] if turned.axes.size else []
        shown = [view.show(X[few]) for view in views]

        def best():
            heard = [
                (Z[:m].astype(np.float32), view.rate) for Z, view in zip(shown, views, strict=True)
            ]
            return best_view(kernel, heard, Y[:m], weights[:m], self._CLASSIFY, team)

        number, geometry = best()
        if wide and not number and n > _ALL and not given:
            views = [coordinates(X, weights)]
            shown = [views[0].show(X)]
            number, geometry = best()
        self.view_ = views[number]
        if hidden:
            self._spent = self._followed(n)
        Z = shown[number]
        return Z if len(Z) == n else self.view_.show(X), geometry

    def _from_next(self, X):
        """What places some rows when some columns come from the next one."""

        def place(columns):
            new = X.copy()
            new[:, columns] = np.roll(X[:, columns], 1, axis=0)
            return _placed(self.geometry_, self.view_.show(new))

        return place

    @one_blas_thread()
    def _scores(self, X):
        check_is_fitted(self, "landmarks_")
        X = base.check_rows(self, X)
        out = np.empty((X.shape[0], self.dual_coef_.shape[1]), dtype=X.dtype)
        dtype = np.result_type(X, self.dual_coef_) if X.dtype == np.float32 else X.dtype
        if elsewhere():  # another order of sums: large coefficients would show what is rounded
            dtype = np.dtype(np.float64)
        coef = self.dual_coef_.astype(dtype, copy=False)
        step = max(1, min(2048, _CELLS // max(1, X.shape[1])))
        placed = Placed(self.view_, self.geometry_)
        for start in range(0, X.shape[0], step):
            Z = placed(here(X[start : start + step]).astype(dtype, copy=False))
            out[start : start + step] = self._values(Z, coef) + np.atleast_1d(self.intercept_)
        return out

    def _rounds(self, A, coef, width):
        """Whether single precision is enough for what is said of some rows."""
        if self.geometry_ is None or not _MANY <= len(coef) <= _ALL:
            return False
        gap = np.abs(self._by_tiles(A, coef) - self.landmarks_.values(A.astype(np.float64)) @ coef)
        return bool((gap.max(axis=0) <= 0.1 * _PRECISE * width).all())

    def _by_tiles(self, Z, coef):
        """Kernel values in single precision, times the coefficients in double precision."""
        with workers(self.n_jobs) as team:
            marks: Any = self.landmarks_
            centers = marks.centers.astype(np.float32, copy=False)
            # A row's arithmetic does not depend on how many others come with it.
            A = np.pad(Z.astype(np.float32), ((0, -len(Z) % _ALIGNED), (0, 0)))
            return times(self.geometry_, A, centers, coef, team)[: len(Z)]

    def _values(self, Z, coef):
        """Placed rows' kernel values with the landmarks, times the coefficients."""
        if elsewhere():
            return self.landmarks_.there(Z) @ coef
        if len(coef) > _ALL and self.geometry_ is not None or getattr(self, "_single", False):
            return self._by_tiles(Z, coef)
        return self.landmarks_.values(Z) @ coef

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _held(n):
    """How many of n rows are left out to judge."""
    return n if n <= _HELD_OUT else _HELD


def _placed(geometry, Z):
    return np.ascontiguousarray(geometry.show(Z))


def _best(marks, rows, n, Y, weights, held, team=ALONE, sums=None):
    """The solutions, the number of the one that says most of the first rows, and its risk."""
    found = solve(marks, rows, n, Y, weights, most=held, team=team, sums=sums)
    risk = weights[:held] @ np.square(found.held_out - Y[:held, None]).sum(axis=2)
    i = int(np.argmin(risk))
    return found, i, float(risk[i])


def _own(codes, k):
    """1 for the class of each output, else 0."""
    return (codes[:, None] == (np.ones(1) if k == 1 else np.arange(k))).astype(np.float64)


def _log_losses(scores, codes):
    """-log p of the rows' own classes, of log-odds."""
    p = base.probabilities(scores, joint=True)
    own = np.broadcast_to(p, (len(codes), p.shape[1]))[np.arange(len(codes)), codes]
    return -np.log(np.maximum(own, np.finfo(float).tiny))


def _rounded(coef, dtype, width):
    """Coefficients in the type of the rows, but for large ones that cancel each other.

    A rounded kernel value moves a prediction by the size of its coefficient: `width`, the range of
    the targets, tells how much is too much.
    """
    error = np.finfo(dtype).eps * np.sqrt(np.square(coef).sum(axis=0))
    return coef if (error > _PRECISE * width).any() else coef.astype(dtype)


def affordable(n):
    """The most landmarks of many rows for which n m^2 + 10 m^3 multiply-adds stay within 4e12."""
    m = np.arange(500, 4001, 500.0)
    return int(m[np.searchsorted(n * m**2 + 10 * m**3, 4e12, "right") - 1])


def grown(n, d):
    """Whether all of n rows of d coordinates may be landmarks."""
    return n**2 * (d + 50.0) <= _STEP


# Kernels whose columns have rates.
_GEOMETRIC = ("rbf", "laplacian")


class LandmarkRegressor(
    RiskIntervalMixin, PredictsIntervals, RegressorMixin, MultiOutputMixin, _Landmark
):
    r"""Kernel ridge regression with a learned geometry; nothing is to be tuned.

    :math:`f(x) = b + \sum_j a_j k(x, c_j)` with rows of the data as landmarks :math:`c_j` (all of
    them, where that pays) and :math:`k(x, c) = e^{-D} + \beta (b(x) + b(c) - D) + 1`, where
    :math:`D = \sum_i S_i |v_i(x) - v_i(c)|^p`, :math:`b(x) = \sum_i S_i |v_i(x)|^p`. The view v has
    every column as a number, as ranks and, where its values may be codes, as levels; its rates S,
    beta and the penalty maximize the evidence of 700 rows (`tunefree.learners.kernel.geometry`).
    Beyond 8,000 rows leave-one-out errors choose the penalty, and rows left out between landmarks
    and all rows, which conjugate gradients then solve for (`tunefree.learners.kernel.full`).

    Parameters
    ----------
    kernel : {'rbf', 'laplacian', 'linear'}, default='rbf'
        p = 2: smooth functions and lines; p = 1: rough functions and sums of piecewise linear
        functions of single columns; 'linear': ridge regression on the view.
    n_landmarks : int, 'auto' or 'all', default='auto'
        'all' rows, by conjugate gradients beyond 8,000. 'auto': all of up to 8,000 distinct rows;
        beyond, twice as many landmarks as long as the risk on rows left out falls, and all rows if
        it does to the end (up to about 120,000 rows of 20 columns).
    compress : None, True, float or int, default=None
        Project the predictor onto a few landmarks after the fit: as few as change the mean loss of
        (at most 4,096) rows of training by less than this share of that of the mean alone (True is
        0.001), or a number of landmarks. `compression_` tells what it did.
    max_memory : float, str or None, default=None
        Bytes that the fit may take beside the data, or text such as '500MB'. What does not fit is
        made smaller: all rows by conjugate gradients in place of their matrix, fewer leaders of
        these, fewer landmarks, fewer rows of the search, two threads and one more for every GB. One
        that is not needed changes nothing. None: 8,000 rows may take 1.2 GB, 4,000 landmarks 1 GB.
    n_jobs : int or None, default=None
        Threads of large fits and predictions, all by default; results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the hash that orders rows.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_landmarks, n_targets)
    intercept_ : float or ndarray of shape (n_targets,)
    view_ : part
        The readings of the columns (`tunefree.columns.Coordinates`), or from 32 columns on, where
        the evidence says so, their principal components (`tunefree.columns.Components`).
    geometry_ : part or None
        Kernel, rates, slope and penalty.
    landmarks_ : part
        Landmarks in the units of the kernel.
    relevance_ : ndarray of shape (n_features,)
        The columns' shares of how the predictor moves, without units; they sum to 1. Each is half
        the mean squared change when that column alone is drawn from another row.
    alpha_ : float
        The penalty, of targets of unit variance.
    leave_one_out_risk_ : float
        Mean squared leave-one-out error, summed over targets (from 2,000 rows on, of 1,000 which
        the search has not seen).
    compression_ : part or None
        `n_support` and `n_landmarks`, the mean `loss_before` and `loss_after`, and the root mean
        square of the `change` of what is said, relative to it; None without compression.
    held_out_ : part
        What was said of rows that were not learned, or not yet: what `risk_interval_`, intervals
        and sets rest on (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, or weights that are all zero.
    MemoryError
        Before work starts, if `max_memory` is too little for the least way; it tells what would do.

    References
    ----------
    Rasmussen and Williams 2006, "Gaussian processes for machine learning", chapter 5 (evidence);
    Williams and Seeger 2001, "Using the Nystroem method to speed up kernel machines". The kernel,
    the view and the search are this library's.

    Examples
    --------
    >>> from tunefree import LandmarkRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (300, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(LandmarkRegressor(random_state=0).fit(X, y).score(X, y) > 0.99)
    True
    """

    _CLASSIFY = False

    def _compare(self, X, y, sample_weight):
        """Go back towards the mean if that was better on rows left out.

        Only where there are few rows a rate: the search then fits noise, which leave-one-out errors
        of its own rows do not tell.
        """
        X, y = base.check_rows_and_targets(self, X, y, multi_output=True, numeric=True)
        n, d = X.shape
        if not self._few_rows(n, d):
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
        if linear or n >= ROWS or self._few_rows(n, self.n_features_in_):
            return 0.0
        return self._followed(n)

    def _set_held_out(self, predictions, targets, weights, X):
        """Keep what was said of rows left out."""
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
            if not self._few_rows(*fitted.rows.shape):  # else `_compare` tells
                share = shrinkage_factor(predictions - mean, y - mean, weights, spent=self._spent)
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
        """Predicted targets, within the range of those seen."""
        y = np.clip(self._scores(X), *self.prediction_limits_)
        return y[:, 0] if np.ndim(self.intercept_) == 0 else y


class LandmarkClassifier(RiskIntervalMixin, PredictsSets, base.LabelsByDecisions, _Landmark):
    r"""Kernel classification with a learned geometry, and calibrated probabilities.

    One output a class (one for two classes), +1 or -1, learned as in `LandmarkRegressor`; the class
    of the largest output wins, and a temperature fitted to the leave-one-out outputs turns them
    into log-odds. With ``loss="log_loss"`` the outputs are log-odds of their own: kernel and
    landmarks are those of least squares, and f then minimizes

    .. math:: \sum_i w_i\, \ell(b + f(x_i), y_i) + \tfrac{\lambda}{2} \|f\|^2,

    with b the log-odds of the classes' shares, one sigmoid or a softmax, and the penalty that says
    most of rows left out (`tunefree.learners.kernel.logistic`).

    Parameters
    ----------
    kernel : {'rbf', 'laplacian', 'linear'}, default='rbf'
    loss : {'squared_error', 'log_loss'}, default='squared_error'
        'log_loss' costs several times as much, and its probabilities are better where classes
        are noisy. It wants all rows in memory.
    n_landmarks : int, 'auto' or 'all', default='auto'
    compress : None, True, float or int, default=None
        See `LandmarkRegressor`; the loss is the log loss, and nothing is said but classes' shares.
    max_memory : float, str or None, default=None
    n_jobs : int or None, default=None
        See `LandmarkRegressor`.
    random_state : int, RandomState or None, default=None
        Seed of the hash that picks the landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_landmarks, n_outputs)
    intercept_ : ndarray of shape (n_outputs,)
    view_, geometry_, landmarks_, relevance_, alpha_, leave_one_out_risk_, compression_
        See `LandmarkRegressor`.
    held_out_ : part
        What was said of rows that were not learned, or not yet: what `risk_interval_`, intervals
        and sets rest on (docs/guide/sure.md).
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero.
    MemoryError
        See `LandmarkRegressor`.

    References
    ----------
    See `LandmarkRegressor`.

    Examples
    --------
    >>> from tunefree import LandmarkClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.hypot(*X.T) > 1
    >>> bool(LandmarkClassifier(random_state=0).fit(X, y).score(X, y) > 0.95)
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
            codes, weights, predictions = (
                base.codes_of(fitted.targets),
                fitted.weights,
                a * fitted.held_out,
            )
            null = shares_as_scores(codes, weights, predictions.shape[1])
            p, prior = (base.probabilities(each, joint=True) for each in (predictions, null[None]))
            share = 1.0
            if not self._few_rows(*fitted.rows.shape):  # else `_compare` tells
                share = shrinkage_factor_of_classes(p, prior[0], codes, weights, self._spent)
            coef, intercept = a * share * fitted.coef, a * fitted.intercept
            if share < 1.0:
                intercept, predictions = (
                    null + share * (s - null) for s in (intercept, predictions)
                )
            p = base.probabilities(predictions, joint=True)
            self.held_out_ = base.held_out_probabilities(p, codes, weights)
        self.dual_coef_ = _rounded(coef, dtype, 2.0 * a)
        self.intercept_ = intercept.astype(dtype)

    def _compare(self, X, y, sample_weight):
        """Go back towards the classes' shares as far as folds ask for it.

        Only where there are few rows a rate, as in `LandmarkRegressor`.
        """
        X, y = base.check_rows_and_targets(self, X, y)
        n, d = X.shape
        if not self._few_rows(n, d):
            return
        weights = base.check_weights(sample_weight, X)
        codes = np.searchsorted(self.classes_, y)
        labels = codes[:, None].astype(float)
        visits = hashed_visits(X, labels, weights, seed_of(self.random_state), affine=True)
        rows, totals = visits.unique()
        turn = np.empty(len(rows), dtype=np.int64)
        turn[np.argsort(codes[rows], kind="stable")] = np.arange(len(rows)) % _FOLDS
        targets = base.signs(codes[rows], len(self.classes_))
        predictions = np.zeros(targets.shape)
        for fold in np.unique(turn):
            held = turn == fold
            model = clone(self)._learn(X[rows], y[rows], totals, held=held, column_groups=None)
            predictions[held] = model.held_out_values_ / model._slope
        slope = temperature(predictions, targets, totals)
        null = shares_as_scores(codes[rows], totals, targets.shape[1])
        p, prior = (
            base.probabilities(each, joint=True) for each in (slope * predictions, null[None])
        )
        share = shrinkage_factor_of_classes(p, prior[0], codes[rows], totals)
        less = share * min(slope / self._slope, 1.0)
        self.dual_coef_ = (less * self.dual_coef_).astype(self.dual_coef_.dtype)
        self.intercept_ = ((1.0 - share) * null + less * self.intercept_).astype(X.dtype)
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
