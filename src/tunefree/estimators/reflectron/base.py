"""What the Reflectron's two estimators share: rows held out, configurations, the fit."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tunefree._array import seed_of
from tunefree._threads import product
from tunefree.engine.order import hashed_visits
from tunefree.engine.sources import Sheets
from tunefree.estimators import base
from tunefree.estimators.callbacks import TellsCallbacks
from tunefree.estimators.reflectron.by_flow import SOLVERS, follow_flows
from tunefree.estimators.reflectron.features import fitted_map, is_kernel
from tunefree.estimators.reflectron.from_source import OfSource
from tunefree.estimators.reflectron.parts import (
    check_theorems,
    check_weight,
    combinations,
    with_steps,
)
from tunefree.estimators.reflectron.passes import scheme_of
from tunefree.estimators.reflectron.units import Columns
from tunefree.estimators.rereads import runner
from tunefree.learners.reflectron.mirror import Mirror
from tunefree.learners.reflectron.mirror_state import NONE, Sheet
from tunefree.links import LINKS, target_margin
from tunefree.potentials import Euclidean
from tunefree.pseudogradient import check_increasing
from tunefree.robust import guarded

# Fewer distinct rows than this are too few to hold any out.
_FEWEST_ROWS = 10
# n_splits='auto': below so many rows a single share held out is too few to choose by.
_FEW_ROWS, _SPLITS = 1000, 5
_SHARE = 0.2
# A configuration that another has overtaken waits for progress this many times shorter.
_BEHIND = 2


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


class Reflectron(OfSource, TellsCallbacks, BaseEstimator):
    """What both estimators share."""

    def __init__(
        self,
        link="logistic",
        potential="auto",
        constraint=None,
        *,
        step="auto",
        weight=None,
        feature_map=None,
        solver="batch",
        average="uniform",
        batch_size=1,
        init=None,
        validation_fraction="auto",
        n_splits="auto",
        patience=50,
        tol=1e-3,
        max_iter=1000,
        fit_intercept=True,
        standardize=True,
        keep_path=False,
        warm_start=False,
        random_state=None,
        per_output=False,
    ):
        self.link = link
        self.potential = potential
        self.constraint = constraint
        self.step = step
        self.weight = weight
        self.feature_map = feature_map
        self.solver = solver
        self.average = average
        self.batch_size = batch_size
        self.init = init
        self.validation_fraction = validation_fraction
        self.n_splits = n_splits
        self.patience = patience
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.keep_path = keep_path
        self.warm_start = warm_start
        self.random_state = random_state
        self.per_output = per_output

    def _check(self, batch=True):
        share = self.validation_fraction
        if share != "auto" and not (isinstance(share, int | float) and 0.0 <= share < 1.0):
            raise ValueError(f"validation_fraction={share!r} is neither 'auto' nor in [0, 1).")
        for name in ("max_iter", "patience", "n_splits", "batch_size"):
            value = getattr(self, name)
            if name == "n_splits" and value == "auto":
                continue
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}={value!r} is not a positive integer.")
        if self.solver not in ("batch", "stochastic", *SOLVERS):
            raise ValueError(
                f"solver={self.solver!r} is none of batch, stochastic, {', '.join(SOLVERS)}."
            )
        link = LINKS.find(self.link)
        check_increasing(link)
        potential = self.potential
        if is_kernel(self.feature_map):
            euclidean = isinstance(potential, str) and potential in ("auto", "euclidean")
            if not (euclidean or isinstance(potential, Euclidean)):
                raise ValueError(
                    "A kernel as feature_map needs potential='euclidean' (the Alphatron): other "
                    "potentials need coordinates, so give features in their place."
                )
            potential = Euclidean()
        configurations = combinations(potential, self.constraint, self.step, self.per_output)
        steps = [c.step for c in configurations]
        check_weight(self.weight, steps if batch else ())
        check_theorems(steps, self.weight, link)
        return link, configurations, scheme_of(self.average)

    def _fit(self, X, targets, weights, strata, validation):
        """Learn from checked rows; `strata` numbers groups to hold out the same share of."""
        batch = self.solver == "batch"
        link, configurations, scheme = self._check(batch)
        given, kept = (X, targets), weights > 0.0
        if not kept.all():
            X, targets, weights, strata = X[kept], targets[kept], weights[kept], strata[kept]
        seed = seed_of(self.random_state)
        visits = hashed_visits(X, targets, weights, seed)
        rows, weights = visits.unique()
        if self.standardize:
            X, targets = guarded(X, targets, rows, given)
        features = fitted_map(self.feature_map, X[rows], weights, self.standardize, seed)
        if features is not None:
            X = features.transform(X)
            if validation is not None:
                validation = (features.transform(validation[0]), *validation[1:])
        self.feature_map_, self._stream = features, None
        held = np.full(len(rows), NONE)
        if validation is None:
            splits = 1 if self.solver == "stochastic" else self.n_splits
            held = self._held(strata[rows], splits)
        choosing = validation is not None or held.max() > NONE
        self._check_choice(choosing, len(rows), configurations)
        if self.solver in SOLVERS:
            follow_flows(
                self, link, configurations, X[rows], targets[rows], weights, held, validation, seed
            )
            return
        learn = self._sweep if batch else self._walk
        learn(link, configurations, scheme, X, targets, weights, visits, held, validation)

    def _check_choice(self, choosing, n_rows, configurations):
        # Of very few rows none are held out: the risk on the rows learned from chooses.
        if not choosing and n_rows >= _FEWEST_ROWS and len(configurations) > 1:
            raise ValueError(
                f"Choosing among {len(configurations)} configurations needs rows held out: give "
                "X_val and y_val, a positive validation_fraction, or a single potential, "
                "constraint and step."
            )

    def _units(self, X, weights, centred):
        scaled = self.standardize and not is_kernel(self.feature_map)
        return Columns.of(X, weights, centred, scaled)

    def _sheet(self, columns, X, targets, weights, held):
        """Rows as batch learners and flows take them."""
        return Sheet(columns.design(X), targets, weights, held)

    def _sweep(self, link, configurations, scheme, X, targets, weights, visits, held, validation):
        """The batch form."""
        rows, _ = visits.unique()
        X, targets, choosing = X[rows], targets[rows], validation is not None or held.max() > NONE
        columns = self._units(X, weights, self.fit_intercept)
        sheets = [self._sheet(columns, X, targets, weights, held)]
        if validation is not None:
            sheets.append(self._sheet(columns, *validation, 0))
        configurations = with_steps(
            configurations, sheets[0].design, link, self.weight, self.fit_intercept,
            self.max_iter, targets.shape[1],
        )  # fmt: skip
        learner = self._mirror(link, configurations, 1 + max(0, held.max()), choosing)
        start = self._start(link, columns, sheets[0], learner.members, len(columns.scale))
        source, k = Sheets(tuple(sheets)), sheets[0].targets.shape[1]
        self._descend(learner, source, columns, start, k, X.dtype)

    def _mirror(self, link, configurations, members, choosing):
        """The batch learner."""
        return Mirror(
            link, configurations, self.weight, intercept=self.fit_intercept, members=members,
            patience=self.patience, behind=self._behind, tol=self.tol, last=not choosing,
        )  # fmt: skip

    def _descend(self, learner, source, columns, start, k, dtype, on_block=None):
        """Pass over a source and publish what was found."""
        state, path = learner.init(len(columns.scale), k, *start), []

        def publish(model, state):
            model.link_ = learner.link
            model._predict_with(*learner.read(state), columns, dtype)
            model._flatten()

        watch = self._told.passes(self.max_iter, publish)
        if self.keep_path:
            watch["on_pass"] = _remember(path, state, columns, watch.get("on_pass"))
        result = runner(self)(
            learner, state, source, max_passes=self.max_iter, on_block=on_block, **watch
        )  # fmt: skip
        if self.keep_path:
            self.coef_path_ = np.array(path)
        self._publish(learner, result, columns, dtype)

    @property
    def _behind(self):
        return max(1, self.patience // _BEHIND)

    def _publish(self, learner, result, columns, dtype):
        """Set out the predictor in the user's units, what was tried, and what was chosen."""
        if not np.isfinite(result.state.score).any():
            raise ValueError("No step was finite: give a smaller step, or step='auto'.")
        if learner.last and not (result.converged or result.stopped):
            warnings.warn(
                f"{self.max_iter} passes were not enough for the risk to settle: give a larger "
                "max_iter.", ConvergenceWarning, stacklevel=5,
            )  # fmt: skip
        self.trace_ = {name: np.array([t[name] for t in result.trace]) for name in result.trace[0]}
        state, self.n_iter_, self.link_ = result.state, result.n_passes, learner.link
        self._note(
            (float(state.score[c]), float(state.best_time[c]), learner.configurations[c])
            for c in np.argsort(state.score, kind="stable")
        )
        self._predict_with(*learner.read(state), columns, dtype)

    def _note(self, board):
        """Set out what was tried, the best first, and what was chosen."""
        board = list(board)
        self.leaderboard_ = [
            {
                "potential": repr(configuration.potential),
                "constraint": repr(configuration.constraint),
                "step": configuration.step or "auto",
                "risk": risk,
                "time": time,
            }
            for risk, time, configuration in board
        ]
        chosen = board[0][2]
        self.potential_, self.constraint_ = chosen.potential, chosen.constraint

    def _predict_with(self, theta, offset, columns, dtype):
        """Set the predictor in the user's units."""
        coef = theta / columns.scale
        self.coef_ = coef.astype(dtype)
        self.intercept_ = (offset - coef @ columns.centre).astype(dtype)

    def _shares(self, n_rows, n_splits):
        """Into how many shares rows are cut, and how many of these are held out."""
        share = self.validation_fraction
        if n_splits == "auto":
            n_splits = _SPLITS if n_rows < _FEW_ROWS else 1
        if share == "auto":
            share = min(_SHARE, 1.0 / n_splits)
        if share == 0.0 or n_rows < _FEWEST_ROWS:
            return 1, 0
        return max(2, round(1.0 / share)), n_splits

    def _held(self, strata, n_splits):
        """The member from which each row is held out; the given order is that of a hash."""
        every, n_splits = self._shares(len(strata), n_splits)
        if not n_splits:
            return np.full(len(strata), NONE)
        # Every so many-th row, counted through one stratum after another. The first member
        # learns from all rows.
        turn = np.empty(len(strata), int)
        turn[np.argsort(strata, kind="stable")] = np.arange(len(strata)) % every
        return np.where(turn < n_splits, turn + 1, NONE)

    def _start(self, link, columns, sheet, members, d):
        """Parameters and intercepts to start from, in the units of the columns."""
        theta, offset, k = None, None, sheet.targets.shape[1]
        warm = self.warm_start and hasattr(self, "coef_")
        start = self.coef_ if warm else self.init
        if start is not None:
            start = np.asarray(start, dtype=np.float64)
            if start.size != k * d:
                raise ValueError(
                    f"init has {start.size} numbers: {k} outputs of {d} features have {k * d}."
                )
            start = start.reshape(k, d)
            theta = start * columns.scale
        if warm:
            offset = np.reshape(self.intercept_, -1).astype(np.float64) + start @ columns.centre
        elif self.fit_intercept:
            learns = sheet.weights * (sheet.held != np.arange(members)[:, None])
            mean = learns @ sheet.targets / learns.sum(axis=1, keepdims=True)
            low, high = getattr(link, "range", (np.inf, -np.inf))
            if ((mean > low) & (mean < high)).all() and hasattr(link, "inverse"):
                offset = target_margin(link, mean)
        return theta, offset

    def _margins(self, X):
        check_is_fitted(self, "link_")
        X = base.check_rows(self, X)
        if getattr(self, "feature_map_", None) is not None:
            X = self.feature_map_.transform(X)
        coef = self.coef_.reshape(-1, X.shape[1])
        return product(X, coef.T) + np.reshape(self.intercept_, -1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _remember(path, state, columns, told=None):
    """Add every configuration's parameters to a path after each pass, before that is `told`."""
    current = state.now.theta[:, 0].copy()

    def remember(state):
        current[state.live] = state.now.theta[:, 0]
        path.append(current / columns.scale)
        return told is not None and told(state)

    return remember
