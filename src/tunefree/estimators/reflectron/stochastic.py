"""The Reflectron's stochastic form behind the estimators: passes in memory, and streams."""

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from tunefree.choose.halving import Run, Walks
from tunefree.constraints.rules import is_separable
from tunefree.estimators.from_source import FitsSource
from tunefree.estimators.reflectron.passes import on_stream, paced, passes
from tunefree.estimators.reflectron.units import Columns
from tunefree.estimators.restoring import require, same_form
from tunefree.learners.reflectron.batches import Batches
from tunefree.learners.reflectron.lazy import Lazy
from tunefree.learners.reflectron.mirror_state import NONE, Sheet
from tunefree.robust import Guard


class Stochastic(FitsSource):
    """What the stochastic form adds to an estimator."""

    _ON_DEMAND = ("coef_", "intercept_", "potential_", "constraint_", "leaderboard_")
    _LEARNER = ("_stream", "_dtype", "_flat")

    def _walk(self, link, configurations, scheme, X, targets, weights, visits, held, validation):
        """The stochastic form: passes in the order of the rows' hash."""
        (rows, _), k = visits.unique(), targets.shape[1]
        columns = self._units(X[rows], weights, self.fit_intercept and not sparse.issparse(X))
        sheet = Sheet(None, targets[rows], weights, held)
        start = self._start(link, columns, sheet, 1 + max(0, held.max()), X.shape[1])
        if start[1] is not None:
            start = start[0], np.reshape(start[1], (-1, k))[-1]  # the member that holds rows out
        spelt, paces = paced(
            configurations, link, self.weight, self.fit_intercept, X.shape[1],
            self.max_iter * len(rows), k,
        )  # fmt: skip

        def make(c=slice(None)):
            chosen = (spelt[c], paces[c]) if isinstance(c, slice) else ([spelt[c]], [paces[c]])
            return Walks.begin(link, *chosen, scheme, self.weight, self.fit_intercept,
                               self.batch_size, X.shape[1], k, start)  # fmt: skip

        Z, choosing = columns.rows(X), validation is not None or held.max() > NONE
        X_held, y_held, w_held = Z[rows], targets[rows], weights
        if validation is not None:
            X_held, y_held, w_held = columns.rows(validation[0]), *validation[1:]
        elif choosing:
            X_held, y_held, w_held = (a[held > NONE] for a in (X_held, y_held, w_held))

        def measure(theta, offset):
            with np.errstate(over="ignore", invalid="ignore"):
                squares = np.square(link.mean(X_held @ theta.T + offset) - y_held).sum(axis=1)
            return float(w_held @ squares / w_held.sum())

        learns = np.zeros(X.shape[0], bool)
        learns[rows[held == NONE]] = True
        out = passes(make, Z, targets, visits, learns, measure, most=self.max_iter, tol=self.tol,
                     refit=choosing and validation is None, choosing=choosing,
                     watch=self._told.passes(2 * self.max_iter))  # fmt: skip
        self.trace_, self.n_iter_, self.link_ = {"held_risk": out.trace}, out.n_passes, link
        if self.keep_path:
            self.coef_path_ = np.full((len(out.path), len(spelt), k, X.shape[1]), np.nan)
            for epoch, points in enumerate(out.path):
                for c, theta in points:
                    self.coef_path_[epoch, c] = theta / columns.scale
        self._note(out.board)
        self._predict_with(out.theta, out.offset, columns, X.dtype)

    def _source_passes(self):
        return 1  # `max_iter` is of batches

    def _learn(self, X, targets, weights, flat, is_open=False):
        """Learn from the next rows of a stream; an open one has an output more."""
        link, *_ = self._check(batch=False)
        if self.feature_map is not None:
            raise ValueError(
                "partial_fit knows no feature_map: transform the rows before you give them."
            )
        stream, d, k = self.__dict__.get("_stream"), X.shape[1], targets.shape[1]
        if stream is not None and stream.n_outputs() != k:
            raise ValueError(f"y has {k} outputs, and this model {stream.n_outputs()}.")
        if stream is None:
            start = None, None
            if self.init is not None or "coef_" in vars(self):
                begun = vars(self).get("coef_", self.init)
                start = (
                    np.asarray(begun, dtype=np.float64).reshape(-1, d),
                    np.reshape(vars(self).get("intercept_", np.zeros(k)), -1).astype(np.float64),
                )
                if len(start[0]) != k:
                    raise ValueError(f"y has {k} outputs, and this model {len(start[0])}.")
            stream = self._begin(d, k, start, 1.0)._replace(is_open=is_open)
            if is_open and any(_is_coupled(run.configuration) for run in stream.runs):
                raise ValueError(
                    "This potential or constraint is of all outputs together, which must be known: "
                    "announce all classes in the first call of partial_fit, or give "
                    "per_output=True."
                )
            if self.standardize:
                stream = stream._replace(start=start)
        stream = on_stream(stream, X, targets, weights)
        if stream.start is not None and (unit := stream.unit()) is not None:
            stream = self._measured(stream, d, unit)
        self._stream, self._dtype, self._flat = stream, X.dtype.name, flat
        self.link_, self.feature_map_ = link, None
        self._forget_read()

    def _begin(self, d, k, start, unit):
        """Runs for rows in a unit; what is learned within a set holds it in the user's."""
        link, configurations, scheme = self._check(batch=False)
        rule = link, self.weight, self.fit_intercept, d, self.max_iter, k
        spelt, scaled, paces, units = [], [], [], []
        for configuration in configurations:
            constraint, u = configuration.constraint, unit if _is_scalable(configuration) else 1.0
            own = configuration
            if constraint is not None and u != 1.0:
                own = configuration._replace(constraint=constraint.scaled(u))
            mine, pace = paced([own], *rule)
            spelt += paced([configuration], *rule)[0]
            scaled, paces, units = [*scaled, *mine], [*paces, *pace], [*units, *[u] * len(mine)]
        return Walks.begin(link, spelt, paces, scheme, self.weight, self.fit_intercept,
                           self.batch_size, d, k, start, units, scaled)  # fmt: skip

    def _measured(self, stream, d, unit):
        """The stream in its unit, with the rows that waited for it learned."""
        fresh = self._begin(d, stream.n_outputs(), stream.start, unit)
        kept = {name: getattr(stream, name) for name in ("guards", "is_open", "tally")}
        fresh = fresh._replace(**kept)
        for rows in stream.waiting:
            fresh = fresh.learn(*rows)
        return fresh

    def _check_learner(self):
        if self.__dict__.get("_stream") is not None:
            check_walks(self._stream, self.n_features_in_)

    def _read_stream(self):
        walks, d = self._stream, self.n_features_in_
        if walks.start is not None:  # its unit is not known yet: as if it were
            walks = self._measured(walks, d, walks.unit(now=True))
        runs = sorted(walks.runs, key=lambda run: run.risk())
        self._note((run.risk(), walks.seen, run.configuration) for run in runs)
        theta, offset = runs[0].read()
        if walks.diverged(runs[0]):
            theta, offset = walks.constant()
            warnings.warn(
                "Every step of this stream diverged, and what is predicted is the targets' mean "
                "so far: give smaller steps, or targets in units in which they are near 1.",
                ConvergenceWarning, stacklevel=2,
            )  # fmt: skip
        if self._stream.is_open:
            theta, offset = theta[:-1], offset[:-1]
        self._predict_with(theta, offset, Columns(np.zeros(d), np.ones(d)), self._dtype)
        self._flatten()

    def _flatten(self):
        """Leave out the axis that targets had not."""
        if self.__dict__.get("_flat"):
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]


def _is_coupled(configuration):
    """Whether an output's parameters depend on the other outputs."""
    potential, constraint, _, per_output = configuration
    alone = is_separable(potential) and (
        constraint is None or getattr(constraint, "dual_bounds", lambda _: None)(potential)
    )
    return not (per_output or alone)


def _is_scalable(configuration):
    """Whether a geometry is the same in other units of the rows; the simplex is not."""
    constraint = configuration.constraint
    return not getattr(configuration.potential, "simplex", False) and (
        constraint is None or hasattr(constraint, "scaled")
    )


def check_walks(walks, d):
    """Refuse runs read from a file whose arrays have not the form that kernels trust.

    Raises
    ------
    ValueError
    """
    require(type(walks) is Walks and len(walks.runs) > 0 and type(walks.is_open) is bool)
    fresh = Guard.of(np.zeros(d)), Guard.of(np.zeros(walks.n_outputs()))
    require(same_form(walks.guards, fresh))
    k = walks.n_outputs()
    require(same_form(walks.tally, np.zeros((3, k))))
    require(type(walks.start) in (tuple, type(None)) and type(walks.waiting) is tuple)
    for X, targets, weights in walks.waiting:
        require(X.shape == (len(weights), d) and targets.shape == (len(weights), k))
    for run in walks.runs:
        require(type(run) is Run and type(run.learner) in (Lazy, Batches))
        state, fresh = run.state, run.learner.init(d, walks.n_outputs())
        if type(run.learner) is Batches:
            require(all(w[0].shape[1] == d for w in state.waiting))
            state = state._replace(waiting=())
        require(same_form(state, fresh))
