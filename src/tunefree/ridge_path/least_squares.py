"""Least-squares problems in the learner's coordinates, and runs of SGD that give their path."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.engine.run import run
from tunefree.engine.sources import Rows
from tunefree.parts.averaging import Geometric
from tunefree.ridge_path.coordinates import Columns, columns, shown, squared_norms
from tunefree.ridge_path.path import SGD, averages, compress
from tunefree.rows.matrices import take
from tunefree.rows.order import Visits, hashed_visits

# Penalties of the automatic path.
_N_ALPHAS = 50
# The least folds, and the most rows of a fold; up to 2000 rows every fold is held out.
_FOLDS, _MOST_HELD_OUT, _MOST_CROSS_VALIDATED = 5, 20_000, 2000
_SCALING_ROWS = 2000  # rows on which scaled and raw columns are compared


class UniqueRows(NamedTuple):
    """Distinct rows in the order of their hash, so that no sum depends on the order of the input.

    `totals` are their weights in units of visits, and `unit` is the user's weight of a visit of
    weight 1.
    """

    X: Any
    targets: np.ndarray
    totals: np.ndarray
    visits: Visits
    unit: float

    @classmethod
    def of(cls, X, targets, weights, seed):
        """The distinct rows of given rows, all of positive weight."""
        visits = hashed_visits(X, targets, weights, seed)
        rows, totals = visits.unique()
        position = np.empty(X.shape[0], np.int64)
        position[rows] = np.arange(len(rows))
        visits = visits._replace(rows=position[visits.rows])
        unit = float(weights.sum() / totals.sum())
        return cls(take(X, rows), targets[rows], totals, visits, unit)

    def pose(self, *, intercept, scaling, view=None):
        """The problem, centred; scaling='auto' compares both scalings by a pass over some rows.

        A `view` of more rows than these may be given.
        """
        if scaling == "auto":
            scaled, raw = self.scaling_risks(intercept)
            scaling = scaled < raw
        if view is None:
            view = columns(self.X, self.targets, self.totals, intercept=intercept)
        return self._in_view(view if scaling else view.unscaled())

    def scaling_risks(self, intercept):
        """Progressive risks of a pass over some rows, with scaled columns and with raw ones."""
        first = slice(0, _SCALING_ROWS)
        visited = self.visits.rows < _SCALING_ROWS
        fields: Any = self.visits
        rows = take(self.X, first), self.targets[first], self.totals[first]
        part = UniqueRows(*rows, Visits(*(field[visited] for field in fields)), self.unit)
        scaled = columns(part.X, part.targets, part.totals, intercept=intercept)
        return [progressive_risk(part._in_view(view)) for view in (scaled, scaled.unscaled())]

    def _in_view(self, view):
        """The problem in the coordinates of a view."""
        Z, centre, view = shown(self.X, view)
        norms, targets = squared_norms(Z, centre), self.targets - view.target
        return LeastSquares(Z, centre, view, targets, self.totals, self.visits, norms, self.unit)


class LeastSquares(NamedTuple):
    """`UniqueRows` in the coordinates of the learner."""

    Z: Any  # (m, d), of which `centre`, (d,) or (0,), is to be subtracted
    centre: np.ndarray
    columns: Columns
    targets: np.ndarray  # less their means
    totals: np.ndarray
    visits: Visits
    norms: np.ndarray  # squared norms of the rows
    unit: float

    def sized(self):
        """The total weight of the rows times their mean squared norm."""
        return float(self.totals @ self.norms) * self.unit

    def step(self):
        """The safe step 1 / (2 max ||z||^2); 1 if all rows are zero."""
        largest = float((self.visits.weights * self.norms[self.visits.rows]).max())
        return 0.5 / largest if largest > 0.0 else 1.0

    def schemes(self, alphas, others=()):
        """One `Geometric` for each alpha, at the rate eta alpha / n a step, then the others."""
        visited = self.unit * self.visits.repeats.sum()
        rates = self.step() * np.asarray(alphas, dtype=float) / visited
        return [*(Geometric(float(rate)) for rate in rates), *others]


def penalties(alphas, sized):
    """The user's penalties, or 50 from 10 to 1e-8 times the rows' total squared norm."""
    if alphas is None:
        return (sized or 1.0) * np.logspace(1, -8, _N_ALPHAS)
    alphas = np.array(alphas, dtype=np.float64).ravel()
    are_valid = np.isfinite(alphas) & (alphas > 0.0)
    if not (len(alphas) and are_valid.all()):
        raise ValueError("alphas must hold at least one number, all positive and finite.")
    return alphas


class SGDRun(NamedTuple):
    """The result of a run of SGD: a basis of averages, and how the schemes combine it."""

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

    def only(self, k):
        """The run with scheme k alone as its basis."""
        return SGDRun(np.einsum("drk,r->dk", self.basis, self.mix[:, k])[:, None], np.ones((1, 1)))

    def predict(self, Z, centre):
        """Predictions of all schemes, of shape (n, n_schemes, n_outputs), less the mean."""
        flat = self.basis.reshape(len(self.basis), -1)
        out = Z @ flat - (centre @ flat if len(centre) else 0.0)
        return np.einsum(
            "nrk,rs->nsk", out.reshape(-1, *self.basis.shape[1:]), self.mix, optimize=True
        )


class Folded(NamedTuple):
    """A path in the user's units, the mean of several runs."""

    coef: np.ndarray  # (n_outputs, d, n_schemes)
    intercept: np.ndarray  # (n_outputs, n_schemes)

    @property
    def n_schemes(self):
        """How many averages there are."""
        return self.intercept.shape[1]

    def fold(self, view, first=0, stop=None, dtype=float):
        """Some of the coefficients and intercepts; the view is not needed."""
        part = slice(first, stop)
        return self.coef[:, :, part].astype(dtype), self.intercept[:, part].astype(dtype)


def folds(problem):
    """The fold of every row, and how many folds are held out: all for few rows, one for many."""
    m = len(problem.totals)
    n_folds = min(max(_FOLDS, m // _MOST_HELD_OUT), m)
    return np.arange(m) % n_folds, (n_folds if m <= _MOST_CROSS_VALIDATED else 1)


def descend(problem, n_passes, n_folds=0, **watch):
    """Run SGD and return its state: outputs that learn all rows, then all but fold 0, 1, ...

    The runs share every visit of a row: a second one costs a fifth of the first. Callbacks around
    each pass go to `run`.
    """
    n_outputs = problem.targets.shape[1]
    held_out_folds = np.repeat(np.arange(-1, n_folds), n_outputs)
    learner = SGD(problem.step(), n_passes)
    setting = learner.on(problem.Z, problem.centre, folds(problem)[0], held_out_folds)
    source = Rows(problem.Z, np.tile(problem.targets, n_folds + 1), problem.visits)
    state = learner.init(problem.Z.shape[1], len(held_out_folds))
    return run(setting, state, source, **watch).state


def read(problem, state, schemes, tolerance=1e-12):
    """The averages of the outputs that learned all rows; those of others by `state.only`."""
    state = state.only(0, problem.targets.shape[1])
    basis, mix = compress(schemes, sum(map(len, state.rows)) + 1, tolerance)
    return SGDRun(averages(state, basis, problem.Z, problem.centre), mix)


def held_out_risks(problem, state, schemes):
    """Mean squared errors of all schemes on held-out rows.

    Also a list with the held-out rows and the `SGDRun` of the others, for each fold.
    """
    n_outputs = problem.targets.shape[1]
    fold, risk, weight, runs = folds(problem)[0], 0.0, 0.0, []
    for f in range(len(state.weights) // n_outputs - 1):
        held = np.flatnonzero(fold == f)
        # Three digits are enough for a choice.
        model = read(problem, state.only((f + 1) * n_outputs, (f + 2) * n_outputs), schemes, 1e-3)
        totals = problem.totals[held]
        predicted = model.predict(take(problem.Z, held), problem.centre)
        error = predicted - problem.targets[held][:, None]
        risk = risk + totals @ np.square(error).sum(axis=2)
        weight += totals.sum()
        runs.append((held, model))
    return risk / weight, runs


def held_out_errors(problem, runs, k):
    """The held-out rows of `held_out_risks`, and the errors of scheme k there."""
    errors = []
    for held, of_others in runs:
        predicted = of_others.only(k).predict(take(problem.Z, held), problem.centre)
        errors.append(problem.targets[held] - predicted[:, 0])
    return np.concatenate([held for held, _ in runs]), np.concatenate(errors)


def progressive_risk(problem):
    """Mean squared error in the second half of a pass, each row before it is learned."""
    step, scalars = problem.step(), descend(problem, 1).scalars
    _, importance = problem.visits.order(0)
    half = len(importance) // 2
    errors = (np.concatenate(scalars)[half:] / (step * importance[half:, None])) ** 2
    return float(importance[half:] @ errors.sum(axis=1) / importance[half:].sum())


def passes(max_iter, n_visits):
    """Passes over the data: 1.5e5 visits, but 3 to 20 passes."""
    return int(np.clip(np.ceil(1.5e5 / n_visits), 3, 20)) if max_iter == "auto" else int(max_iter)
