"""Choices of kernel ridge regression: the view of the columns, the geometry, and the solver."""

from typing import Any

import numpy as np

from tunefree.core.clock import clock
from tunefree.held_out.predictions import weighted_mean
from tunefree.kernel_ridge import solvers as ridge
from tunefree.kernel_ridge.solvers import (
    AllRowsSolver,
    ExactSolver,
    KernelTransform,
    LandmarkSolver,
    SumsSolver,
    in_double_precision,
)
from tunefree.kernels.coordinates import Coordinates, components, coordinates
from tunefree.kernels.evidence import MORE_ROWS, ROWS, best_view
from tunefree.kernels.exact import SINGLE_MANY
from tunefree.kernels.kernels import KERNELS

# Beyond the rows that are solved exactly, landmarks start with so many and double while the
# held-out risk falls by such a share. If it still falls at the end, all rows become landmarks,
# provided that a product with their kernel values takes at most so many multiply-adds.
_START, _FALL, _STEP = 500, 0.01, 1e12
# Whether all rows become landmarks is decided with at most so many landmarks.
DECIDING = 1000
# All rows, whose kernel values have single precision, give way to landmarks, which have double
# precision, if the risk of these is lower by such a factor.
_ROUNDED_AWAY = 0.9
# Landmarks drawn by their residuals (`pivots`) are compared with so many.
_TRIED = 250
# With fewer rows than this, or fewer rows a rate, the search is evaluated by folds.
_FEW, _RATED = 2000, 4
# From so many columns on as many principal components are tried, too.
_WIDE = 32


def needs_folds(kernel, n, d):
    """Whether leave-one-out errors are too optimistic, since the search used the same rows."""
    return kernel != "linear" and n < min(_FEW, _RATED * d)


def rates_optimism(view, n):
    """Of leave-one-out errors of n rows: q / (2 n) for the q rates of the search."""
    return 0.5 * len(np.unique(view.rate)) / n


def choose_geometry(problem, like: Any = None):
    """The problem in the units of a kernel: those of `like`, or those of most evidence.

    `like` is the `KernelTransform` of another fit. If its kernel is another one, its view is used.
    """
    X, kernel = problem.X, problem.options.kernel
    known = getattr(like, "geometry", None)
    if known is not None and type(known.kernel) is type(KERNELS[kernel]):
        return problem.transformed(like)
    given = getattr(like, "view", None)
    given = given if isinstance(given, Coordinates) else None
    if kernel == "rbf" and X.shape[1] >= _WIDE:
        return problem.transformed(_transform_of_wide_rows(problem, given))
    view = coordinates(X, problem.weights) if given is None else given
    is_linear = kernel == "linear"
    transform = KernelTransform(view, None) if is_linear else _best_transform(problem, [view])
    return problem.transformed(transform)


def _transform_of_wide_rows(problem, given):
    """Coordinates, those `given` if any, or principal components; compared on the first rows."""
    X, weights, first = problem.X, problem.weights, slice(ridge.EXACT_ROWS)
    view = coordinates(X[first], weights[first]) if given is None else given
    principal = components(X[first], weights[first], _WIDE)
    views = [view, principal] if principal.axes.size else [view]
    transform = _best_transform(problem, views)
    of_first_rows = given is None and len(X) > ridge.EXACT_ROWS
    if of_first_rows and transform.view is view:
        return _best_transform(problem, [coordinates(X, weights)])
    return transform


def _search_rows(problem):
    """How many rows the search uses: held-out ones, which come last, only if others are few.

    Never if they are in groups.
    """
    n, d = problem.X.shape
    m = n - problem.n_held
    may_share = problem.groups is None and not needs_folds(problem.options.kernel, n, d)
    if m == 0 or (m < ROWS and may_share):
        m = n
    return min(m, int(np.clip(m // 4, ROWS, MORE_ROWS)))


def _best_transform(problem, views):
    """The view of most evidence, with its geometry."""
    p, m, options = problem, _search_rows(problem), problem.options
    rows = [(view.show(p.X[:m]).astype(np.float32), view.rate) for view in views]
    number, geometry = best_view(
        KERNELS[options.kernel], rows, p.Y[:m], p.weights[:m], options.labels, p.team
    )
    view, n = views[number], len(p.X)
    optimism = rates_optimism(view, n) if m > n - p.n_held else 0.0
    return KernelTransform(view, geometry, optimism)


def choose_solution(problem):
    """The solution of least held-out risk, and the problem in the units of its kernel.

    Solvers are tried from cheap to expensive while the risk falls and the time suffices: how long
    one takes follows from the one before.
    """
    best: Any = None
    least = np.inf
    time, is_cut = clock(), False
    rate = 0.0  # seconds for a multiply-add
    for solver in solvers(problem):
        if best is not None and rate * solver.work(problem) > time.left():
            is_cut = True
            solver = _fewer_landmarks(solver, problem, len(best.coef), time.left() / rate)
            if solver is None:
                continue
        start = time.spent()
        found = solver.solve(problem)
        rate = (time.spent() - start) / solver.work(problem)
        risk, before = problem.risk(found.held_out), least
        if best is None or risk < least:
            best, least = found, risk
        if risk > (1.0 - _FALL) * before or isinstance(solver, AllRowsSolver):
            break
    if is_cut:
        time.cut_at(len(best.coef))
    if problem.options.n_landmarks == "all" and not problem.exact:
        best = _unless_rounded_away(problem, best)
    best = in_double_precision(problem, best)
    if best.transform is not problem.transform:
        problem = problem.transformed(best.transform)
    return problem, best


def _fewer_landmarks(solver, problem, least, most_work):
    """The solver with as many landmarks as so many multiply-adds suffice for, in steps of 500.

    None if these are not more than `least`, or if all rows are the landmarks.
    """
    if not isinstance(solver, LandmarkSolver):
        return None
    sizes = range(least // _START * _START + _START, solver.n_landmarks, _START)
    fewer = [solver._replace(n_landmarks=m) for m in sizes]
    return next((s for s in reversed(fewer) if s.work(problem) <= most_work), None)


def _unless_rounded_away(problem, of_all_rows):
    """The solution of all rows, or of landmarks where rounding has spoiled it.

    It may where targets have so little noise that the penalty is small.
    """
    if problem.geometry is None or of_all_rows.penalty >= SINGLE_MANY:
        return of_all_rows
    of_landmarks = LandmarkSolver(DECIDING, pivots_pay(problem)).solve(problem)
    least = _ROUNDED_AWAY * problem.risk(of_all_rows.held_out)
    return of_landmarks if problem.risk(of_landmarks.held_out) < least else of_all_rows


def choose_sums(problem, solution, source, target_transform):
    """The solution from sums over a source's rows, or that of a sample of them if it is better."""
    m = problem.options.n_landmarks
    if isinstance(m, str):
        m = affordable(source.n_rows)
    found = SumsSolver(source, target_transform, int(m)).solve(problem)
    if problem.risk(found.held_out) > problem.risk(solution.held_out):
        return solution
    return found._replace(permuted=solution.permuted)


def solvers(problem):
    """The solvers to compare, from cheap to expensive."""
    n, m = len(problem.A), problem.options.n_landmarks
    if problem.exact:
        return [ExactSolver()]
    if problem.geometry is None:
        return [LandmarkSolver(problem.A.shape[1])]
    if m == "all":
        return [AllRowsSolver()]
    pivoted = pivots_pay(problem)
    if m != "auto" and not problem.options.fewer:
        return [LandmarkSolver(min(int(m), n), pivoted)]
    most = affordable(n) if m == "auto" else int(m)
    halves = [most] + [most // 2**i for i in range(1, 10) if most // 2**i >= _START]
    sizes = sorted({min(half, n) for half in halves})
    if m != "auto" or not all_rows_affordable(n, problem.A.shape[1]):
        return [LandmarkSolver(size, pivoted) for size in sizes]
    deciding = [LandmarkSolver(size, pivoted) for size in sizes if size <= DECIDING]
    if clock().left() == np.inf:
        return [*deciding, AllRowsSolver()]
    # If the time is too short for all rows, there are more landmarks.
    more = [LandmarkSolver(size, pivoted) for size in sizes if size > DECIDING]
    return [*deciding, AllRowsSolver(), *more]


def pivots_pay(problem):
    """Whether few pivots predict the held-out rows better than as many first rows."""
    p, n, most = problem, len(problem.A), ridge.EXACT_ROWS
    if n <= most:
        return False
    rows = np.r_[: min(most, n - p.n_held), n - p.n_held : n]
    sample = p._replace(A=p.A[rows], Y=p.Y[rows], weights=p.weights[rows])

    def losses(pivoted):
        predictions = LandmarkSolver(_TRIED, pivoted).solve(sample).held_out
        return np.square(predictions - p.held_out(p.Y)).sum(axis=1)

    first, drawn = losses(False), losses(True)
    mean, error = weighted_mean(drawn - first, p.held_out(p.weights))
    return mean < -2.0 * error


def affordable(n):
    """The most landmarks of many rows for which n m^2 + 10 m^3 multiply-adds stay within 4e12."""
    m = np.arange(500, 4001, 500.0)
    return int(m[np.searchsorted(n * m**2 + 10 * m**3, 4e12, "right") - 1])


def all_rows_affordable(n, d):
    """Whether all of n rows of d coordinates may be landmarks."""
    return n**2 * (d + 50.0) <= _STEP
