"""What the kernel estimators share: coordinates, bandwidths, rows in memory, predictors."""

import os
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.choose.risk import curve, risks
from tunefree.choose.tournament import CACHED, SCOUTED, Data, pairs, scout, shortlist
from tunefree.columns.squash import Squash, squash_of, standardise_of
from tunefree.estimators import base
from tunefree.kernels import (
    Cosine,
    Function,
    Linear,
    Precomputed,
    check_gram,
    make_kernel,
    median_gamma,
)
from tunefree.learners.kernel.blocked import Cache, Facts, Member
from tunefree.robust import ABSURD, screened

# The grid of bandwidths, in units of 1 / median distance.
GRID = 2.0 ** np.arange(-2, 6)
# Rows on which a user's function is tried; bytes up to which sparse rows are filled.
_TRIED, _FILLED = 50, 1 << 30
# Largest entries whose squares, and sums of these, are numbers of single precision.
_SINGLE = 1e-15, 1e15


class Coordinates(NamedTuple):
    """How rows are shown to the kernel.

    Parameters
    ----------
    name : str
        'raw', 'standardised' or 'squashed' (standardised on a logarithmic scale).
    parts : tuple of Squash
        Applied in turn; none leave the rows as they are.
    dense : bool
        Fill sparse rows.
    single : bool
        In single precision.
    """

    name: str
    parts: tuple
    dense: bool
    single: bool

    def show(self, X):
        """The rows in these coordinates."""
        X = X.toarray() if self.dense and sparse.issparse(X) else X
        for part in self.parts:
            X = part.show(X)
        return X.astype(np.float32) if self.single else X


def check_kernel(estimator):
    """The kernel with a unit bandwidth.

    Raises
    ------
    ValueError
        For parameters that mean nothing.
    """
    gamma = estimator.gamma
    named = isinstance(gamma, str) and gamma in ("auto", "scale")
    number = isinstance(gamma, int | float | np.number) and not isinstance(gamma, bool)
    if not named and not (number and np.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma={gamma!r} is neither 'auto' nor 'scale' nor a positive number.")
    if estimator.standardize not in ("auto", True, False):
        raise ValueError(f"standardize={estimator.standardize!r} is none of 'auto', True, False.")
    if estimator.precision not in ("auto", "single", "double"):
        raise ValueError(f"precision={estimator.precision!r} is none of auto, single, double.")
    return make_kernel(estimator.kernel, 1.0, estimator.degree, estimator.coef0)


def is_single(estimator, kernel, dtype, X=None):
    """Whether kernel values are of single precision: enough where they are at most 1.

    Rows whose squares leave the range of single precision are taken in double.
    """
    if estimator.precision != "auto":
        return estimator.precision == "single"
    if X is not None and not _SINGLE[0] < base.largest_entry(X) < _SINGLE[1]:
        return False
    return hasattr(kernel, "distances") or isinstance(kernel, Cosine) or dtype == np.float32


def check_memory(n, d, n_outputs, n_members, itemsize):
    """Refuse what cannot be held.

    Raises
    ------
    ValueError
    """
    need = n * d * itemsize + n * n_outputs * n_members * (16 + itemsize)
    try:
        have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return
    if need > have:
        raise ValueError(
            f"{n} support rows of {d} columns need about {need / 1e9:.1f} GB, but this machine has "
            f"{have / 1e9:.1f} GB: learn from fewer rows, or use random features (RBFSampler, "
            "Nystroem) and a linear learner."
        )


def width_of(X):
    """How many numbers a row takes; an entry of a sparse row has an index, too."""
    return 2 * X.nnz // max(1, X.shape[0]) if sparse.issparse(X) else X.shape[1]


def guards_rows(kernel, standardize):
    """Whether rows have columns of a unit, whose far entries count as missing."""
    return standardize is not False and not isinstance(kernel, Precomputed | Function)


def without_absurd(estimator, kernel, X, rows):
    """Rows in memory without entries far beyond anything: one would set a column's unit."""
    return screened(X, rows, ABSURD) if guards_rows(kernel, estimator.standardize) else X


class Problem:
    """Rows in memory, in the order in which the first pass visits them.

    Parameters
    ----------
    X : ndarray or CSR
    visits : Visits
    numbers : ndarray of shape (n_rows,)
        Which of the rows that `fit` was given they are.
    """

    def __init__(self, X, visits, numbers):
        rows, _ = visits.order(0)
        _, first = np.unique(rows, return_index=True)
        self.X, self.visits, self.stored = X, visits, rows[np.sort(first)]
        self._number = np.full(X.shape[0], -1)
        self._number[self.stored] = np.arange(len(self.stored))
        self.given = numbers[self.stored]
        distinct, totals = visits.unique()
        self.weights = np.zeros(len(self.stored))
        self.weights[self._number[distinct]] = totals

    def order(self, epoch):
        """Numbers and weights of the visits of a pass."""
        rows, weights = self.visits.order(epoch)
        return self._number[rows], weights

    def without(self, apart):
        """`order` less the rows of some numbers."""
        kept = np.ones(len(self.stored), dtype=bool)
        kept[apart] = False

        def order(epoch):
            numbers, weights = self.order(epoch)
            return numbers[kept[numbers]], weights[kept[numbers]]

        return order

    def rows(self, most=None):
        """The rows as they are given."""
        return self.X[self.stored[:most]]

    def centre(self, size=1024):
        """The mean row, from a few rows at a time: copies of all would not fit a cache."""
        total = 0.0
        for start in range(0, len(self.stored), size):
            part = slice(start, start + size)
            total = total + self.weights[part] @ self.X[self.stored[part]]
        return np.asarray(total) / self.weights.sum()


def views_of(estimator, kernel, problem):
    """The coordinates that compete."""
    X, single = problem.X, is_single(estimator, kernel, problem.X.dtype, problem.X)
    radial, auto = hasattr(kernel, "distances"), isinstance(estimator.gamma, str)
    auto = auto and estimator.gamma == "auto"
    dense = not sparse.issparse(X) or _worth_filling(X)
    if isinstance(kernel, Precomputed | Function) or not dense:
        return [Coordinates("raw", (), dense, single)]
    raw = ()
    if radial:
        # Distances do not change, and keep their digits.
        raw = (Squash(problem.centre(), np.ones(X.shape[1]), curved=False),)
    out = [Coordinates("raw", raw, True, single)]
    standard = estimator.standardize
    if standard == "auto":
        standard = auto and not isinstance(kernel, Linear | Cosine)
    if standard:
        rows = problem.rows()
        rows = rows.toarray() if sparse.issparse(rows) else rows
        parts = (standardise_of(rows, problem.weights),)
        out.append(Coordinates("standardised", parts, True, single))
        if estimator.standardize is True or not radial:
            return out[1:]
        bent = squash_of(rows)
        parts = (bent, standardise_of(bent.show(rows), problem.weights))
        out.append(Coordinates("squashed", parts, True, single))
    return out


def _worth_filling(X):
    return X.shape[0] * X.shape[1] * 4 <= _FILLED and base.share_stored(X) > 0.005


def scale_gamma(X, weights):
    """1 / (n_features variance of all entries), as `sklearn.svm.SVC` has it."""
    share = weights / weights.sum()
    first = share @ X.mean(axis=1)
    square = X.multiply(X).mean(axis=1) if sparse.issparse(X) else np.square(X).mean(axis=1)
    variance = float(share @ square - first * first)
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0


class Choice(NamedTuple):
    """What goes into the race.

    Attributes
    ----------
    view : Coordinates
    gammas : list of float or None
    leaderboard : list of dict
    trace : dict
    """

    view: Coordinates
    gammas: list
    leaderboard: list
    trace: dict


def choose(estimator, team, kernel, problem, targets, learner, classify, apart=None):
    """The view and the bandwidths that go on, with the record of the scouts.

    Rows with the numbers in `apart` are not looked at.
    """
    views = views_of(estimator, kernel, problem)
    auto = isinstance(estimator.gamma, str) and estimator.gamma == "auto"
    if not hasattr(kernel, "distances") or not auto:
        gamma = None
        if hasattr(kernel, "gamma") and hasattr(kernel, "distances"):
            gamma = estimator.gamma
            if gamma == "scale":
                gamma = scale_gamma(problem.rows(), problem.weights)
        view = views[-1] if estimator.standardize is True else views[0]
        return Choice(view, [gamma], [], {})
    n = len(problem.stored)
    most = min(n, max(SCOUTED, n // 8))
    order = problem.order if apart is None else problem.without(apart)
    found = []
    for view in views:
        rows = view.show(problem.rows(most))
        unit = median_gamma(kernel, rows)
        members = [Member(unit * g, learner, f"{view.name} gamma={unit * g:.3g}") for g in GRID]
        squares = kernel.diag(rows).astype(np.float64)
        data = Data(Facts.of(kernel, rows), squares, targets[:most], order)
        found.append((view, members, scout(team, kernel, data, members, classify, most)))
    best = min(range(len(found)), key=lambda i: risks(found[i][2]).min())
    view, members, progress = found[best]
    chosen = shortlist(progress)
    rows, _ = curve(progress)
    board = [
        {
            "name": m.name,
            "view": v.name,
            "gamma": m.gamma,
            "progressive_error": float(risk),
            "chosen": v is view and i in chosen,
        }
        for v, members, progress in found
        for i, (m, risk) in enumerate(zip(members, risks(progress), strict=True))
    ]
    trace = {
        "rows": rows,
        "progressive_error": {
            m.name: curve(progress)[1][:, i]
            for _, members, progress in found
            for i, m in enumerate(members)
        },
    }
    board.sort(key=lambda row: (not row["chosen"], row["progressive_error"]))
    return Choice(view, [members[i].gamma for i in chosen], board, trace)


def taken_over(estimator, kernel, problem, like, classify):
    """The bandwidth that counted most in another fit; in classification the second one, too.

    Decisions gain from a blend; squared errors gain little, and one bandwidth costs half as much.
    """
    shares = {}
    for r in like.trace_["read_outs"]:
        shares[r["gamma"]] = shares.get(r["gamma"], 0.0) + r["weight"]
    gammas = sorted(sorted(shares, key=shares.get)[-2 if classify else -1 :])
    view = views_of(estimator, kernel, problem)[0]
    return Choice(view, gammas, like.leaderboard_, dict(like.trace_))


def resolved(estimator, kernel, problem):
    """The kernel with its parameters: a bandwidth that is not varied is set here."""
    if hasattr(kernel, "distances") or "gamma" not in getattr(kernel, "_fields", ()):
        return kernel
    gamma = estimator.gamma
    if isinstance(gamma, str):
        standard = estimator.standardize is True or (
            gamma == "auto" and estimator.standardize == "auto"
        )
        gamma = scale_gamma(problem.rows(), problem.weights)
        if standard:
            gamma = 1.0 / problem.X.shape[1]
    return kernel._replace(gamma=float(gamma))


def data_of(team, kernel, problem, view, gammas, targets, once=False):
    """Rows as the race wants them, with the values of all pairs if they are used twice and fit."""
    if isinstance(kernel, Precomputed):
        X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
        K = X[np.ix_(problem.stored, problem.given)]
        K = K.astype(np.float32) if view.single else K
        squares = np.asarray(K.diagonal(), dtype=np.float64)
        return Data(None, squares, targets, problem.order, Cache(np.ascontiguousarray(K)))
    rows = view.show(problem.rows())
    squares, facts, cache = kernel.diag(rows).astype(np.float64), Facts.of(kernel, rows), None
    if not once and len(problem.stored) <= CACHED * (4 / rows.dtype.itemsize) ** 0.5:
        cache = pairs(team, kernel, gammas, facts)
    return Data(facts, squares, targets, problem.order, cache)


def try_function(kernel, X):
    """See whether a user's function is a kernel, on some rows."""
    if isinstance(kernel, Function):
        rows = X[:_TRIED]
        check_gram(kernel.gram(rows, rows), "kernel")


def check_precomputed(kernel, X):
    """See whether precomputed values are a kernel's.

    Raises
    ------
    ValueError
    """
    if isinstance(kernel, Precomputed):
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"A precomputed kernel is square; X has the shape {X.shape}.")
        check_gram(X.toarray() if sparse.issparse(X) else X, "the precomputed kernel")


def kernels_of(kernel, gammas):
    """A part for each bandwidth."""
    return tuple(kernel if g is None else kernel._replace(gamma=float(g)) for g in gammas)
