"""What the Reflectron's two estimators share: units, rows held out, configurations, the fit."""

import warnings
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tunefree._array import seed_of
from tunefree.constraints import CONSTRAINTS
from tunefree.designs import CSR, Dense
from tunefree.engine.order import hashed_visits
from tunefree.engine.run import run
from tunefree.estimators import base
from tunefree.learners.mirror import Configuration, Mirror, Sheet
from tunefree.links import LINKS, target_margin
from tunefree.potentials import POTENTIALS, Euclidean, Hypentropy
from tunefree.pseudogradient import check_increasing

# What potential='auto' tries together.
AUTO = (Euclidean(), *(Hypentropy(beta) for beta in (1e-4, 1e-6, 1e-8, 1e-12)))
# Fewer distinct rows than this are too few to hold any out.
_FEWEST_ROWS = 10
# n_splits='auto': below so many rows a single share held out is too few to choose by.
_FEW_ROWS, _SPLITS = 1000, 10
_SHARE = 0.2


class Centred(NamedTuple):
    """A design whose columns are measured from a centre, without storing the difference."""

    design: object
    centre: np.ndarray

    def apply(self, theta):
        """(X - 1 c') theta."""
        return self.design.apply(theta) - self.centre @ theta

    def adjoint(self, r):
        """(X - 1 c')' r."""
        return self.design.adjoint(r) - np.multiply.outer(self.centre, r.sum(axis=0))


class Columns(NamedTuple):
    """Units of the columns: x becomes (x - centre) / scale."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X, weights, centred, scaled):
        """The weighted means and standard deviations of the columns (from 0 if not centred)."""
        d, share = X.shape[1], weights / weights.sum()
        if not scaled:
            return cls(np.zeros(d), np.ones(d))
        # In units of the largest entry squares neither overflow nor vanish.
        top = np.asarray(abs(X).max(axis=0).todense() if sparse.issparse(X) else abs(X).max(axis=0))
        top = top.reshape(-1).astype(np.float64)
        top = np.where(top > 0.0, top, 1.0)
        if sparse.issparse(X):
            row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            value, column, mass = X.data / top[X.indices], X.indices, share[row]
            mean = np.bincount(column, mass * value, minlength=d) * centred
            square = np.bincount(column, mass * (value - mean[column]) ** 2, minlength=d)
            variance = square + (1.0 - np.bincount(column, mass, minlength=d)) * mean**2
        else:
            value = X / top
            mean = share @ value * centred
            variance = share @ np.square(value - mean)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        # A column that is constant up to rounding is left as it is.
        deviation = np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)
        return cls(mean * top, np.where(deviation > 0.0, deviation * top, 1.0))

    def design(self, X):
        """Rows in these units, in float64."""
        if not sparse.issparse(X):
            return Dense(np.ascontiguousarray((X.astype(np.float64) - self.centre) / self.scale))
        data = X.data.astype(np.float64) / self.scale[X.indices]
        rows = CSR(data, X.indices, X.indptr, X.shape[1])
        return Centred(rows, self.centre / self.scale) if self.centre.any() else rows


class Sheets(NamedTuple):
    """A source of whole blocks: the rows to learn from, then those held out."""

    sheets: tuple

    def blocks(self, epoch):
        """The blocks of a pass."""
        return iter(self.sheets)


def named(value, table, name, method):
    """A part by its name; a part itself as it is."""
    if isinstance(value, str):
        if value not in table:
            raise ValueError(f"{name}={value!r} is none of {', '.join(table)}.")
        return table[value]
    if not hasattr(value, method):
        raise ValueError(f"{name}={value!r} is neither a name nor a part: it has no {method}().")
    return value


def validation_rows(estimator, X_val, y_val):
    """Checked validation rows.

    Raises
    ------
    ValueError
        If there are rows without targets.
    """
    if y_val is None:
        raise ValueError("X_val is given without y_val.")
    return base.check_rows(estimator, X_val)


def mean_minimum(traces, c):
    """The lowest mean hold-out risk of a configuration over several runs, and its time.

    The time of an iterate is the sum of the steps before it: the automatic step differs from run
    to run, the trajectory that it follows hardly does.
    """
    curves = []
    for trace in traces:
        time = np.array([t["time"][c] for t in trace])
        risk = np.array([t["held_risk"][c] for t in trace])
        new = np.diff(time, prepend=-1.0) > 0.0
        curves.append((time[new], risk[new]))
    grid = np.unique(np.concatenate([time for time, _ in curves]))
    mean = np.mean([np.interp(grid, *curve) for curve in curves], axis=0)
    at = int(np.argmin(np.where(np.isfinite(mean), mean, np.inf)))
    return float(mean[at]), float(grid[at])


def _listed(value):
    return list(value) if isinstance(value, list) or type(value) is tuple else [value]


class Reflectron(BaseEstimator):
    """What both estimators share."""

    def __init__(
        self,
        link="logistic",
        potential="auto",
        constraint=None,
        *,
        step="auto",
        weight=None,
        init=None,
        validation_fraction="auto",
        n_splits="auto",
        refit=True,
        patience=50,
        tol=1e-3,
        max_iter=1000,
        fit_intercept=True,
        standardize=True,
        keep_path=False,
        warm_start=False,
        random_state=None,
    ):
        self.link = link
        self.potential = potential
        self.constraint = constraint
        self.step = step
        self.weight = weight
        self.init = init
        self.validation_fraction = validation_fraction
        self.n_splits = n_splits
        self.refit = refit
        self.patience = patience
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.keep_path = keep_path
        self.warm_start = warm_start
        self.random_state = random_state

    def _learner(self, held):
        link = named(self.link, LINKS, "link", "mean")
        check_increasing(link)
        names = POTENTIALS.keys() | {"auto"}
        potentials = []
        for p in _listed(self.potential):
            if isinstance(p, str) and p not in names:
                raise ValueError(f"potential={p!r} is none of auto, {', '.join(POTENTIALS)}.")
            potentials += AUTO if isinstance(p, str) and p == "auto" else [
                named(p, POTENTIALS, "potential", "inverse")
            ]  # fmt: skip
        constraints = [
            c if c is None else named(c, CONSTRAINTS, "constraint", "project")
            for c in _listed(self.constraint)
        ]
        steps = []
        for s in _listed(self.step):
            if not (isinstance(s, str) and s == "auto") and not (
                isinstance(s, int | float) and 0.0 < s < np.inf
            ):
                raise ValueError(f"step={s!r} is neither 'auto' nor a positive number.")
            steps.append(None if isinstance(s, str) else float(s))
        if self.weight is not None:
            if self.weight != "slope" and not callable(self.weight):
                raise ValueError(f"weight={self.weight!r} is none of None, 'slope', a function.")
            if None in steps:
                raise ValueError(
                    "step='auto' needs weight=None, whose pseudogradient is that of a convex "
                    "function: give a number as step."
                )
        configurations = tuple(
            Configuration(*each) for each in product(potentials, constraints, steps)
        )
        if not held and len(configurations) > 1:
            raise ValueError(
                f"Choosing among {len(configurations)} configurations needs rows held out: give "
                "X_val and y_val, a positive validation_fraction, or a single potential, "
                "constraint and step."
            )
        return Mirror(
            link,
            configurations,
            self.weight,
            intercept=self.fit_intercept,
            patience=self.patience,
            tol=self.tol,
            last=not held,
        )

    def _check(self):
        share = self.validation_fraction
        if share != "auto" and not (isinstance(share, int | float) and 0.0 <= share < 1.0):
            raise ValueError(f"validation_fraction={share!r} is neither 'auto' nor in [0, 1).")
        for name in ("max_iter", "patience", "n_splits"):
            value = getattr(self, name)
            if name == "n_splits" and value == "auto":
                continue
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}={value!r} is not a positive integer.")

    def _fit(self, X, targets, weights, strata, validation):
        """Learn from checked rows; `strata` numbers groups to hold out the same share of."""
        kept = weights > 0.0
        if not kept.all():
            X, targets, weights, strata = X[kept], targets[kept], weights[kept], strata[kept]
        visits = hashed_visits(X, targets, weights, seed_of(self.random_state))
        rows, weights = visits.unique()
        X, targets, strata = X[rows], targets[rows], strata[rows]
        splits = [] if validation is not None else self._splits(strata)
        choosing = validation is not None or len(splits) > 0
        # Of very few rows none are held out: the risk on the rows learned from chooses.
        learner = self._learner(choosing or len(rows) < _FEWEST_ROWS)._replace(last=not choosing)
        runs = [
            self._run(learner, X[~h], targets[~h], weights[~h], (X[h], targets[h], weights[h]))
            for h in splits
        ] or [self._run(learner, X, targets, weights, validation)]
        first, columns, path = runs[0]
        if not np.isfinite(first.state.score).any():
            raise ValueError("No step was finite: give a smaller step, or step='auto'.")
        if not first.converged and not choosing:
            warnings.warn(
                f"{self.max_iter} passes were not enough for the risk to settle: give a larger "
                "max_iter.", ConvergenceWarning, stacklevel=3,
            )  # fmt: skip
        self.trace_ = {name: np.array([t[name] for t in first.trace]) for name in first.trace[0]}
        if self.keep_path:
            self.coef_path_ = np.array(path)
        lowest = [mean_minimum([r.trace for r, *_ in runs], c)
                  for c in range(len(learner.configurations))]  # fmt: skip
        order = np.argsort([risk for risk, _ in lowest], kind="stable")
        self.leaderboard_ = [
            {
                "potential": repr(learner.configurations[c].potential),
                "constraint": repr(learner.configurations[c].constraint),
                "step": learner.configurations[c].step or "auto",
                "risk": lowest[c][0],
                "time": lowest[c][1],
            }
            for c in order
        ]
        c, state = order[0], first.state
        if splits and self.refit:
            # All rows, as far along the trajectory as the rows held out chose.
            learner = learner._replace(
                configurations=learner.configurations[c : c + 1],
                horizon=lowest[c][1], first_step=state.step[c], patience=self.max_iter, last=True,
            )  # fmt: skip
            runs.append(self._run(learner, X, targets, weights, None))
            last, columns, _ = runs[-1]
            c, state = 0, last.state
        chosen = learner.configurations[c]
        self.potential_, self.constraint_ = chosen.potential, chosen.constraint
        self.n_iter_ = sum(r.n_passes for r, *_ in runs)
        self.link_ = learner.link
        theta, offset = learner.read(state, c)
        coef = theta / columns.scale
        self.coef_ = coef.astype(X.dtype)
        self.intercept_ = (offset - coef @ columns.centre).astype(X.dtype)

    def _splits(self, strata):
        """Rows to hold out, in each of several ways; the given order is that of a hash."""
        n_splits, share = self.n_splits, self.validation_fraction
        if n_splits == "auto":
            n_splits = _SPLITS if self.refit and len(strata) < _FEW_ROWS else 1
        if share == "auto":
            share = min(_SHARE, 1.0 / n_splits)
        if share == 0.0 or len(strata) < _FEWEST_ROWS:
            return []
        # Every so many-th row, counted through one stratum after another.
        every = max(2, round(1.0 / share))
        turn = np.empty(len(strata), int)
        turn[np.argsort(strata, kind="stable")] = np.arange(len(strata)) % every
        return [turn == i for i in range(min(n_splits, every, len(strata)))]

    def _run(self, learner, X, targets, weights, validation):
        """One run, the units of its columns, and its path."""
        columns = Columns.of(X, weights, self.fit_intercept, self.standardize)
        sheets = [Sheet(columns.design(X), targets, weights)]
        if validation is not None:
            X_val, y_val, w_val = validation
            sheets.append(Sheet(columns.design(X_val), y_val, w_val, True))
        start = self._start(learner.link, columns, targets, weights, X.shape[1])
        state = learner.init(X.shape[1], targets.shape[1], *start)
        path = []

        def remember(state):
            path.append(state.now.theta / columns.scale)

        result = run(
            learner, state, Sheets(tuple(sheets)), max_passes=self.max_iter,
            on_pass=remember if self.keep_path else None,
        )  # fmt: skip
        return result, columns, path

    def _start(self, link, columns, targets, weights, d):
        """Parameters and intercepts to start from, in the units of the columns."""
        theta, offset, k = None, None, targets.shape[1]
        warm = self.warm_start and hasattr(self, "coef_")
        start = self.coef_ if warm else self.init
        if start is not None:
            start = np.asarray(start, dtype=np.float64).reshape(-1, d)
            if start.shape[0] != k:
                raise ValueError(f"init has {start.shape[0]} outputs, and the targets {k}.")
            theta = start * columns.scale
        if warm:
            offset = np.reshape(self.intercept_, -1).astype(np.float64) + start @ columns.centre
        elif self.fit_intercept:
            mean = weights @ targets / weights.sum()
            low, high = getattr(link, "range", (np.inf, -np.inf))
            if ((mean > low) & (mean < high)).all() and hasattr(link, "inverse"):
                offset = target_margin(link, mean)
        return theta, offset

    def _margins(self, X):
        check_is_fitted(self, "coef_")
        X = base.check_rows(self, X)
        return X @ self.coef_.reshape(-1, X.shape[1]).T + np.reshape(self.intercept_, -1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
