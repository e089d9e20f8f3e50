"""A least-squares problem in the learner's coordinates, and its path from runs of SGD."""

from typing import NamedTuple

import numpy as np

from tunefree.averaging import AVERAGES, SUFFIXES, Geometric
from tunefree.engine.order import Visits, hashed_visits
from tunefree.engine.run import run
from tunefree.engine.sources import Rows
from tunefree.estimators import base
from tunefree.learners.sgd.coordinates import Columns, columns, shown, squared_norms
from tunefree.learners.sgd.exact import decompose
from tunefree.learners.sgd.path import SGD, Setting, averages, compress

NAMED = {**AVERAGES, **SUFFIXES}
_N_ALPHAS = 50
# Up to here the eigenvectors cost less than the passes (measured: 2 to 2800 times).
_MOST_EXACT, _MOST_CELLS = 1000, 2e8
_FOLDS, _MOST_FOLDED, _MOST_HELD_OUT, _TRIED = 5, 2000, 20_000, 2000


class Problem(NamedTuple):
    """A least-squares problem in the coordinates of the learner.

    Equal rows are one row, and rows stand in the order of their hash: no sum depends on how the
    user gave them.

    Attributes
    ----------
    Z : ndarray or CSR of shape (m, d)
    centre : ndarray of shape (d,) or (0,)
    columns : Columns
    targets : ndarray of shape (m, n_outputs)
        Less their means.
    totals : ndarray of shape (m,)
        Weights in units of visits.
    visits : Visits
    norms : ndarray of shape (m,)
        Squared norms of the rows.
    unit : float
        What a visit of weight 1 weighs for the user.
    """

    Z: object
    centre: np.ndarray
    columns: Columns
    targets: np.ndarray
    totals: np.ndarray
    visits: Visits
    norms: np.ndarray
    unit: float

    def sized(self):
        """Total weight of the rows times the mean squared norm of a row."""
        return float(self.totals @ self.norms) * self.unit

    def step(self):
        """The safe step 1 / (2 max ||z||^2), 1 if there is no row but zero."""
        largest = float((self.visits.weights * self.norms[self.visits.rows]).max())
        return 0.5 / largest if largest > 0.0 else 1.0

    def schemes(self, alphas, others=()):
        """One `Geometric` an alpha, which is eta alpha / n a step, then the others."""
        visited = self.unit * self.visits.repeats.sum()
        rates = self.step() * np.asarray(alphas, dtype=float) / visited
        return [*(Geometric(float(rate)) for rate in rates), *others]


def distinct(X, targets, weights, seed):
    """Distinct rows in the order of their hash: rows, targets, totals, visits and their unit."""
    visits = hashed_visits(X, targets, weights, seed)
    rows, totals = visits.unique()
    place = np.empty(X.shape[0], np.int64)
    place[rows] = np.arange(len(rows))
    visits = visits._replace(rows=place[visits.rows])
    return base.take(X, rows), targets[rows], totals, visits, float(weights.sum() / totals.sum())


def scaling_risks(X, targets, totals, visits, unit, intercept):
    """Progressive risks of a pass over some of the rows, with scaled columns and with raw ones."""
    few, early = slice(0, _TRIED), visits.rows < _TRIED
    part = base.take(X, few), targets[few], totals[few]
    some = Visits(*(field[early] for field in visits)), unit
    scaled = columns(*part, intercept=intercept)
    return [progressive_risk(_viewed(view, *part, *some)) for view in (scaled, scaled.unscaled())]


def pose(X, targets, weights, seed, *, intercept, scaling, view=None):
    """The problem of rows with weights: merged, in hashed order, centred.

    With scaling='auto' one pass over some of the rows tells whether scaled columns suit them.
    A `view` may be given: that of more rows than these.
    """
    parts = distinct(X, targets, weights, seed)
    return posed(*parts, intercept=intercept, scaling=scaling, view=view)


def posed(X, targets, totals, visits, unit, *, intercept, scaling, view=None):
    """The problem of distinct rows."""
    if scaling == "auto":
        scaled, raw = scaling_risks(X, targets, totals, visits, unit, intercept)
        scaling = scaled < raw
    if view is None:
        view = columns(X, targets, totals, intercept=intercept)
    view = view if scaling else view.unscaled()
    return _viewed(view, X, targets, totals, visits, unit)


def _viewed(view, X, targets, totals, visits, unit):
    """The problem of distinct rows in the coordinates of a view."""
    Z, view = shown(X, view)
    centre = view.centre(X)
    norms = squared_norms(Z, centre)
    return Problem(Z, centre, view, targets - view.target, totals, visits, norms, unit)


def penalties(alphas, sized):
    """The user's, or 50 from ten times the rows' total squared norm down to 1e-8 times it."""
    if alphas is None:
        return (sized or 1.0) * np.logspace(1, -8, _N_ALPHAS)
    alphas = np.array(alphas, dtype=np.float64).ravel()
    if not (len(alphas) and np.isfinite(alphas).all() and (alphas > 0.0).all()):
        raise ValueError("alphas must be positive and finite, and there must be one.")
    return alphas


class Run(NamedTuple):
    """What a run of SGD leaves: a basis of averages and how the schemes combine it."""

    basis: np.ndarray
    mix: np.ndarray

    @property
    def n_schemes(self):
        """How many averages there are."""
        return self.mix.shape[1]

    def fold(self, view, first=0, stop=None, dtype=float):
        """Coefficients (n_outputs, d, n_schemes) and intercepts (n_outputs, n_schemes)."""
        mix = self.mix[:, first:stop]
        offset = np.tensordot(view.middle(), self.basis, axes=1).T @ mix
        intercept = (view.target[:, None] - offset).astype(dtype)
        return view.back(self.basis, mix, dtype), intercept

    def predict(self, Z, centre):
        """Predictions of all schemes, of shape (n, n_schemes, n_outputs), less the mean."""
        flat = self.basis.reshape(len(self.basis), -1)
        out = Z @ flat - (centre @ flat if len(centre) else 0.0)
        return np.einsum("nrk,rs->nsk", out.reshape(-1, *self.basis.shape[1:]), self.mix,
                         optimize=True)  # fmt: skip


class Folded(NamedTuple):
    """A path in the user's units: the mean of several runs.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, d, n_schemes)
    intercept : ndarray of shape (n_outputs, n_schemes)
    """

    coef: np.ndarray
    intercept: np.ndarray

    @property
    def n_schemes(self):
        """How many averages there are."""
        return self.intercept.shape[1]

    def fold(self, view, first=0, stop=None, dtype=float):
        """Some of it; it needs no view."""
        part = slice(first, stop)
        return self.coef[:, :, part].astype(dtype), self.intercept[:, part].astype(dtype)


def folds(problem):
    """The fold of every row, and how many are held out: five of few rows, one of many."""
    m = len(problem.totals)
    n_folds = min(max(_FOLDS, m // _MOST_HELD_OUT), m)
    return np.arange(m) % n_folds, (n_folds if m <= _MOST_FOLDED else 1)


def descend(problem, n_passes, n_folds=0, **watch):
    """Run SGD and return its state: outputs that learn all rows, then all but fold 0, 1, ...

    The runs share every visit of a row: a second one costs a fifth of the first. What is to be
    called around each pass goes to `run`.
    """
    n_outputs = problem.targets.shape[1]
    absent = np.repeat(np.arange(-1, n_folds), n_outputs)
    learner = SGD(problem.step(), n_passes)
    source = Rows(problem.Z, np.tile(problem.targets, n_folds + 1), problem.visits)
    state = learner.init(problem.Z.shape[1], len(absent))
    setting = Setting.of(learner, problem.Z, problem.centre, folds(problem)[0], absent)
    return run(setting, state, source, **watch).state


def read(problem, state, schemes, tolerance=1e-12):
    """The averages of the outputs that learned all rows, or of `state.only` some others."""
    state = state.only(0, problem.targets.shape[1])
    kept, mix = compress(schemes, sum(map(len, state.rows)) + 1, tolerance)
    return Run(averages(state, kept, problem.Z, problem.centre), mix)


def held_out_risks(problem, state, schemes):
    """Mean squared errors of all schemes on the rows that outputs of a run left out."""
    n_outputs = problem.targets.shape[1]
    fold, risk, weight = folds(problem)[0], 0.0, 0.0
    for f in range(len(state.weights) // n_outputs - 1):
        held = np.flatnonzero(fold == f)
        # Three digits are enough to choose by.
        model = read(problem, state.only((f + 1) * n_outputs, (f + 2) * n_outputs), schemes, 1e-3)
        totals = problem.totals[held]
        predicted = model.predict(base.take(problem.Z, held), problem.centre)
        error = predicted - problem.targets[held][:, None]
        risk = risk + totals @ np.square(error).sum(axis=2)
        weight += totals.sum()
    return risk / weight


def progressive_risk(problem):
    """Mean squared error of one pass on its second half, every row before it is learned."""
    step, scalars = problem.step(), descend(problem, 1).scalars
    _, importance = problem.visits.order(0)
    half = len(importance) // 2
    errors = (np.concatenate(scalars)[half:] / (step * importance[half:, None])) ** 2
    return float(importance[half:] @ errors.sum(axis=1) / importance[half:].sum())


def exact_path(problem, alphas):
    """The path of ridge regression itself, and the decomposition it comes from."""
    solved = decompose(problem.Z, problem.targets, problem.totals * problem.unit)
    return Run(solved.spectrum.path(alphas), np.eye(len(alphas))), solved


def risks_on(model, problem, X, targets):
    """Mean squared errors of all schemes on rows of the user's, summed over outputs."""
    predicted = model.predict(problem.columns.show(X), problem.centre)
    error = predicted - (targets - problem.columns.target)[:, None]
    return np.square(error).sum(axis=2).mean(axis=0)


def passes(max_iter, n_visits):
    """Passes over the data: enough visits for few rows, 3 to 20."""
    return int(np.clip(np.ceil(1.5e5 / n_visits), 3, 20)) if max_iter == "auto" else int(max_iter)


def check_parameters(estimator):
    """Refuse parameter values that mean nothing, naming the parameter."""
    p = estimator.get_params(deep=False)
    average = p["average"]
    if isinstance(average, str) and average not in ("auto", *NAMED):
        raise ValueError(f"average={average!r} is none of auto, {', '.join(NAMED)}.")
    if (
        not isinstance(average, str)
        and not hasattr(average, "mass")
        and not hasattr(average, "within")
    ):
        raise ValueError(f"average={average!r} is no averaging scheme: it has no mass.")
    if p["solver"] not in ("auto", "sgd", "exact"):
        raise ValueError(f"solver={p['solver']!r} is none of auto, sgd, exact.")
    if p["scaling"] not in (True, False, "auto"):
        raise ValueError(f"scaling={p['scaling']!r} is neither a bool nor 'auto'.")
    if p["max_iter"] != "auto" and (
        not isinstance(p["max_iter"], int | np.integer) or p["max_iter"] < 1
    ):
        raise ValueError(f"max_iter={p['max_iter']!r} is neither 'auto' nor a positive integer.")


def choose_solver(average, solver, shape):
    """The solver for rows of this shape, and a hint if the other one would be cheaper."""
    ridge = isinstance(average, str) and average in ("auto", "geometric")
    cheap = min(shape) <= _MOST_EXACT and shape[0] * shape[1] <= _MOST_CELLS
    if solver == "exact" and not ridge:
        raise ValueError("solver='exact' has no iterates: use average='auto' or 'geometric'.")
    if solver == "auto":
        return ("exact" if cheap and ridge else "sgd"), None
    if cheap and ridge and solver == "sgd":
        return solver, "With so few columns or rows, solver='exact' is cheaper and exact."
    if not cheap and solver == "exact":
        return solver, "With so many rows and columns, solver='sgd' is cheaper."
    return solver, None
