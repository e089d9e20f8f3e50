"""The problem of a kernel learner: kernel, coordinates, bandwidths, and the order of rows."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tunefree.base import base
from tunefree.base.sizes import largest_column, largest_entry
from tunefree.core.process import check_memory
from tunefree.engine.run import run
from tunefree.held_out.progressive_risk import curve, risks
from tunefree.kernels.bandwidths import Facts
from tunefree.kernels.kernels import (
    Function,
    Precomputed,
    check_gamma,
    check_gram,
    make_kernel,
    median_gamma,
    resolve_gamma,
)
from tunefree.pistol.bandwidths import CACHED, KEPT, PRESELECTION, Data, KernelPasses, pairs
from tunefree.pistol.kernel_blocked import Cache, Member
from tunefree.rows.matrices import as_dense
from tunefree.rows.scaling import Scaling, asinh_scaling, show, standard_scaling

# The grid of bandwidths, in units of 1 / median distance.
GRID = 2.0 ** np.arange(-2, 6)
# Rows on which a user's function is tried; sparse rows of up to so many bytes become dense.
_TRIED, _FILLED = 50, 1 << 30
# Between these sizes, squares of entries and their sums are in the range of single precision.
_SINGLE = 1e-15, 1e15
# Sums of squares of larger entries overflow in single precision.
_LARGEST_SINGLE = 1e17


class KernelView(NamedTuple):
    """The transformation of rows for the kernel."""

    name: str  # 'raw', 'standardised' or 'asinh' (standardised on an asinh scale)
    parts: tuple  # applied one after the other; without any rows stay as they are
    dense: bool  # whether sparse rows become dense
    single: bool  # whether rows have single precision

    def show(self, X):
        """The rows in these coordinates."""
        X = show(self.parts, as_dense(X) if self.dense else X)
        return X.astype(np.float32) if self.single else X

    def far_rows(self, X):
        """Which rows are beyond the range of single precision, in these coordinates."""
        if not self.single:
            return np.zeros(X.shape[0], dtype=bool)
        X = self._replace(single=False).show(X)
        tops = abs(X).max(axis=1)
        return np.ravel(tops.toarray() if sparse.issparse(tops) else tops) > _LARGEST_SINGLE


class Recipe(NamedTuple):
    """The kernel and the estimators' parameters of these names."""

    kernel: Any  # a part; its bandwidth is 1 until it is resolved
    gamma: Any
    standardize: Any
    precision: str

    @classmethod
    def of(cls, estimator):
        """The recipe of an estimator's parameters."""
        e = estimator
        check_gamma(e.gamma, "auto", "scale")
        if e.precision not in ("auto", "single", "double"):
            raise ValueError(f"precision={e.precision!r} is none of auto, single, double.")
        kernel = make_kernel(e.kernel, 1.0, e.degree, e.coef0)
        return cls(kernel, e.gamma, e.standardize, e.precision)

    def check(self, X):
        """Check, before work starts, that values are those of a kernel."""
        if X.dtype == np.float32 and largest_entry(X) > _LARGEST_SINGLE:
            raise ValueError(
                f"{largest_column(X)} in single precision, in which sums of squares overflow: give "
                "X in double precision, as X.astype(float)."
            )
        if isinstance(self.kernel, Precomputed):
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"A precomputed kernel is square; X has the shape {X.shape}.")
            check_gram(as_dense(X), "the precomputed kernel")
        elif isinstance(self.kernel, Function):
            rows = X[:_TRIED]
            check_gram(self.kernel.gram(rows, rows), "kernel")

    @property
    def radial(self):
        """Whether a bandwidth multiplies a distance."""
        return hasattr(self.kernel, "distances")

    @property
    def auto(self):
        """Whether bandwidth and scaling are chosen automatically."""
        return isinstance(self.gamma, str) and self.gamma == "auto"

    @property
    def as_given(self):
        """Whether rows are no columns of numbers, so that they must not be changed."""
        return getattr(self.kernel, "as_given", False)

    @property
    def drops_outliers(self):
        """Whether outlying entries count as missing: in columns of numbers that may be rescaled."""
        return self.standardize is not False and not self.as_given

    @property
    def standard(self):
        """Whether columns are standardised, or may be."""
        if self.standardize == "auto":
            return self.auto and getattr(self.kernel, "free", True)
        return bool(self.standardize) and not self.as_given

    def single(self, dtype, X=None):
        """Whether kernel values have single precision, which is enough if they are at most 1.

        Rows whose squares exceed the range of single precision have double precision.
        """
        if self.precision != "auto":
            return self.precision == "single"
        least, most = _SINGLE
        if X is not None and not least < largest_entry(X) < most:
            return False
        return getattr(self.kernel, "bounded", self.radial) or dtype == np.float32

    def views(self, problem):
        """The coordinates that compete."""
        X = problem.X
        single = bool(self.single(problem.X.dtype, problem.X))
        fits = X.shape[0] * X.shape[1] * 4 <= _FILLED
        filled = not sparse.issparse(X) or bool(fits and base.share_stored(X) > 0.005)
        if self.as_given or not filled:
            return [KernelView("raw", (), filled, single)]
        # Centring does not change distances, and keeps their digits.
        raw = (Scaling(problem.centre(), np.ones(X.shape[1]), asinh=False),) if self.radial else ()
        raw = KernelView("raw", raw, True, single)
        if not self.standard:
            return [raw]
        rows = as_dense(problem.rows())
        parts = (standard_scaling(rows, problem.weights),)
        standardised = KernelView("standardised", parts, True, single)
        if self.standardize is True or not self.radial:
            return [standardised]
        asinh = asinh_scaling(rows)
        parts = (asinh, standard_scaling(asinh.show(rows), problem.weights))
        return [raw, standardised, KernelView("asinh", parts, True, single)]

    @property
    def has_gamma(self):
        """Whether the kernel has a bandwidth."""
        return "gamma" in getattr(self.kernel, "_fields", ())

    def resolved(self, X, weights=None):
        """The recipe with a number as its bandwidth, for transformed rows."""
        if not self.has_gamma:
            return self
        gamma = resolve_gamma("scale" if self.auto else self.gamma, X, weights)
        return self._replace(kernel=self.kernel._replace(gamma=gamma), gamma=gamma)

    def with_bandwidths(self, gammas):
        """A kernel for each bandwidth; None is for a kernel without bandwidths."""
        return tuple(
            self.kernel if g is None else self.kernel._replace(gamma=float(g)) for g in gammas
        )


class KernelPiSTOLProblem:
    """Rows in memory with their targets, in the order in which the first pass visits them.

    `numbers` are their positions in the rows given to `fit`; predictions are shrunk to `prior`.
    """

    def __init__(self, X, targets, visits, numbers, prior):
        rows, _ = visits.order(0)
        _, first = np.unique(rows, return_index=True)
        self.X, self.stored, self.prior = X, rows[np.sort(first)], prior
        number = np.full(X.shape[0], -1)
        number[self.stored] = np.arange(len(self.stored))
        self.visits = visits._replace(rows=number[visits.rows])
        self.given, self.targets = numbers[self.stored], targets[self.stored]
        distinct, totals = self.visits.unique()
        self.weights = np.zeros(len(self.stored))
        self.weights[distinct] = totals

    @cached_property
    def n_visits(self):
        """The number of visits of a pass."""
        return int(self.visits.repeats.sum())

    def rows(self, most=None):
        """The first rows, by default all, in their original scale."""
        return self.X[self.stored[:most]]

    def centre(self, size=1024):
        """The mean row, computed in blocks that fit a processor's cache."""
        total = 0.0
        for start in range(0, len(self.stored), size):
            part = slice(start, start + size)
            total = total + self.weights[part] @ self.X[self.stored[part]]
        return np.asarray(total) / self.weights.sum()

    def check_memory(self, itemsize):
        """Raise an error if the machine has too little memory."""
        (n, k), X = self.targets.shape, self.X
        # An entry of a sparse row has an index, too.
        d = 2 * X.nnz // max(1, X.shape[0]) if sparse.issparse(X) else X.shape[1]
        check_memory(
            n * d * itemsize + n * k * 6 * 32,  # six members: two sums and two coefficients each
            f"A fit with {n} support rows of {d} columns",
            "Learn from fewer rows, or use random features (RBFSampler, Nystroem) and a linear "
            "learner.",
        )


class Choice(NamedTuple):
    """The coordinates and bandwidths of the fit, and how they were chosen."""

    recipe: Recipe
    view: KernelView
    gammas: list  # None for a kernel without bandwidths
    leaderboard: list  # of the pre-selection, the best first
    trace: dict

    @property
    def best(self):
        """The best bandwidth."""
        return self.leaderboard[0]["gamma"] if self.leaderboard else self.gammas[0]

    @classmethod
    def preselected(cls, recipe, team, problem, learner, classify, apart):
        """The user's bandwidth, or the best of a grid on the first rows, without those `apart`."""
        views = recipe.views(problem)
        learns_bandwidth = recipe.radial and recipe.auto
        if not learns_bandwidth:
            return cls.given(recipe, views[0], problem)
        kernel, n, visits = recipe.kernel, len(problem.stored), problem.visits
        most = min(n, max(PRESELECTION, n // 8))
        if apart is not None:
            visits = visits.without(apart)
        passes, results = KernelPasses(team, 1, classify), []
        for view in views:
            rows = view.show(problem.rows(most))
            unit = median_gamma(kernel, rows)
            members = [Member(unit * g, learner, f"{view.name} gamma={unit * g:.3g}") for g in GRID]
            squares = kernel.diag(rows).astype(np.float64)
            data = Data(Facts.of(kernel, rows), squares, problem.targets[:most], visits)
            state = run(passes, passes.init(data.engine(kernel, members)), data).state
            results.append((view, members, state.progress))
        view, members, progress = min(results, key=lambda result: risks(result[2]).min())
        best = np.argsort(risks(progress), kind="stable")[:KEPT]
        chosen = [members[i] for i in sorted(best)]
        board, trace = _board_and_trace(results, {m.name for m in chosen})
        return cls(recipe, view, [m.gamma for m in chosen], board, trace)

    @classmethod
    def given(cls, recipe, view, problem):
        """The user's bandwidth, or none."""
        if recipe.has_gamma:
            rows = problem.rows() if view.name == "raw" else view.show(problem.rows())
            recipe = recipe.resolved(rows, problem.weights)
        return cls(recipe, view, [recipe.gamma if recipe.radial else None], [], {})

    def data(self, team, problem, gammas, keep):
        """The source of a run; with `keep` the values of all pairs are cached, if they fit."""
        kernel, view = self.recipe.kernel, self.view
        if isinstance(kernel, Precomputed):
            X = as_dense(problem.X)
            K = X[np.ix_(problem.stored, problem.given)]
            K = np.ascontiguousarray(K.astype(np.float32) if view.single else K)
            squares = np.asarray(K.diagonal(), dtype=np.float64)
            return Data(None, squares, problem.targets, problem.visits, Cache(K))
        rows = view.show(problem.rows())
        squares = kernel.diag(rows).astype(np.float64)
        facts = Facts.of(kernel, rows)
        cache = None
        if keep and len(problem.stored) <= CACHED * (4 / rows.dtype.itemsize) ** 0.5:
            cache = pairs(team, kernel, gammas, facts)
        return Data(facts, squares, problem.targets, problem.visits, cache)


def _board_and_trace(results, chosen):
    """The leaderboard of a pre-selection, those of the names `chosen` first, and its errors."""
    board, errors = [], {}
    for view, members, progress in results:
        rows, curves = curve(progress)
        for m, risk, error in zip(members, risks(progress), curves.T, strict=True):
            errors[m.name] = error
            found = {"name": m.name, "view": view.name, "gamma": m.gamma}
            board.append(found | {"progressive_error": float(risk), "chosen": m.name in chosen})
    board.sort(key=lambda row: (not row["chosen"], row["progressive_error"]))
    return board, {"rows": rows, "progressive_error": errors}
