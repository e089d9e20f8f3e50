"""The kernel estimators' common face: rows in, an expansion over support rows out."""

import warnings

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tunefree.averaging import Polynomial
from tunefree.choose.blend import blend, crossed
from tunefree.choose.risk import curve, recent_rows
from tunefree.choose.sprint import sprint
from tunefree.choose.tournament import race, read_outs, train
from tunefree.estimators import base
from tunefree.estimators.callbacks import TellsCallbacks
from tunefree.estimators.kernel.compression import check_compress, checked, compressed
from tunefree.estimators.kernel.fitting import (
    check_kernel,
    check_memory,
    check_precomputed,
    choose,
    data_of,
    is_single,
    kernels_of,
    resolved,
    taken_over,
    try_function,
    width_of,
)
from tunefree.estimators.kernel.stream import KernelStream
from tunefree.estimators.pistol.fitting import ReadOnDemand
from tunefree.estimators.regret import kernel_regret
from tunefree.kernels import Precomputed
from tunefree.learners.kernel.blocked import n_threads, workers
from tunefree.learners.kernel.expansion import Expansion

# Rows are predicted in blocks of a multiple of this size.
_ALIGNED = 16
AVERAGES = ("auto", "uniform", "last-pass", "last")


def check_passes(max_iter):
    """Refuse a number of passes that is none."""
    whole = isinstance(max_iter, int | np.integer) and not isinstance(max_iter, bool)
    if max_iter != "auto" and (not whole or max_iter < 1):
        raise ValueError(f"max_iter={max_iter!r} is neither 'auto' nor a positive integer.")


class KernelDecisions(base.LabelsByDecisions):
    """The decisions of a kernel expansion."""

    def decision_function(self, X):
        """Decisions for the second class or every class; log-odds where there are probabilities.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or kernel values of shape (n_samples, n_samples_fit) for kernel='precomputed'.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self, "expansion_")
        scores = self._values(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores


class KernelEstimator(ReadOnDemand, TellsCallbacks, BaseEstimator):
    """Prediction, the tournament and streams; subclasses know parameters and targets."""

    _ON_DEMAND = ("expansion_", "coordinates_", "leaderboard_", "trace_", "n_iter_")
    _LEARNER = ()  # a model file holds the predictor

    compress = None  # of subclasses without the parameter

    def _check_common(self):
        if self.average not in AVERAGES:
            raise ValueError(f"average={self.average!r} is none of {', '.join(AVERAGES)}.")
        check_passes(self.max_iter)
        check_compress(self.compress)
        return check_kernel(self)

    def _check_values(self, kernel, X):
        """Refuse before work starts what is no kernel, or more than memory holds."""
        check_precomputed(kernel, X)
        try_function(kernel, X)

    def _learn(
        self, kernel, problem, targets, learner, loss_of, *, classify, limit, rivals=(), held=None,
        like=None,
    ):  # fmt: skip
        """Run the tournament and set the predictor.

        Parameters
        ----------
        kernel : part
        problem : Problem
        targets : ndarray of shape (n_stored, n_outputs)
        learner : Isotropic
        loss_of : callable
            (decisions, targets) -> loss of every row, for the choice.
        classify : bool
            Score by mistakes, and divide decisions by their size before they are added.
        limit : int
            Most passes that are worth while.
        rivals : sequence of Isotropic
            Learn beside the learner if there is a single pass.
        held : ndarray of bool, optional
            Rows, as given, on which passes and bandwidths are chosen; by default every tenth, below
            500 rows up to every fourth. What is returned of decisions is then honest: half of these
            rows chose for the others.
        like : estimator, optional
            A fitted one whose bandwidths are taken over.

        Returns
        -------
        coefs : list of ndarray of shape (n_slots, n_outputs)
        publish : callable
            Sets the predictor from such a list.
        decisions, targets, weights : ndarray
            Of rows that the predictor behind the decisions had not learned.
        """
        n, k = targets.shape
        apart = None
        if held is not None:
            apart = np.flatnonzero(np.asarray(held, dtype=bool)[problem.given])
        single = is_single(self, kernel, problem.X.dtype, problem.X)
        check_memory(n, width_of(problem.X), k, 6, 4 if single else 8)
        kernel = resolved(self, kernel, problem)
        visits = int(problem.visits.repeats.sum())
        with workers(self.n_jobs) as team:
            if like is None:
                choice = choose(self, team, kernel, problem, targets, learner, classify, apart)
            else:
                choice = taken_over(self, kernel, problem, like, classify)
            gammas, when = choice.gammas, None
            if self.average == "auto":
                most = None if self.max_iter == "auto" else self.max_iter
                when = read_outs(visits, most, limit)
            elif choice.leaderboard:
                gammas = [choice.leaderboard[0]["gamma"]]
            once = when == [1] or (
                self.average in ("uniform", "last") and self.max_iter in ("auto", 1)
            )
            data = data_of(team, kernel, problem, choice.view, gammas, targets, once)
            trace = dict(choice.trace)
            if when is not None:
                if once and held is None:
                    rules = [r._replace(average=Polynomial()) for r in (learner, *rivals)]
                    outcome = sprint(team, kernel, data, gammas, rules, loss_of)
                else:
                    watch = self._told.passes(when[-1])
                    outcome = race(
                        team, kernel, data, gammas, learner, when, loss_of, apart, watch
                    )  # fmt: skip
                engine, n_passes = outcome.engine, outcome.n_passes
                coefs, decisions, shares = blend(outcome, normalise=classify)
                if held is not None:
                    decisions = crossed(outcome, loss_of, classify)
                    self._held = problem.given[apart]
                gammas, coefs = list(coefs), list(coefs.values())
                seen, weights = outcome.targets, outcome.weights
                trace["read_outs"] = [
                    {"gamma": r.gamma, "pass": r.passes, "error": r.error, "weight": float(w)}
                    for r, w in zip(outcome.read_outs, shares, strict=True)
                ]
            else:
                few = 3 if self.average == "last-pass" else 1
                n_passes = few if self.max_iter == "auto" else self.max_iter
                engine, progress, n_passes = train(
                    team, kernel, data, gammas[0], learner, n_passes,
                    suffix=self.average == "last-pass", classify=classify,
                    watch=self._told.passes(n_passes),
                )  # fmt: skip
                last = self.average == "last"
                coefs = [engine.last(0) if last else engine.mean(0)]
                decisions, seen, weights = recent_rows(progress)
                decisions = decisions[:, int(last)]
        self.n_iter_, self.trace_, self.leaderboard_ = n_passes, trace, choice.leaderboard
        if classify:
            self.regret_ = kernel_regret(engine)
        self.coordinates_ = choice.view

        def publish(coefs):
            self._publish(problem, data, engine, kernels_of(kernel, gammas), coefs)
            self._compress(problem, targets)

        return coefs, publish, decisions, seen, weights

    def _recall(self, values):
        """Keep what was said of the rows in `held` without them, in their order."""
        self.held_values_ = values[np.argsort(vars(self).pop("_held"))]

    def _publish(self, problem, data, engine, kernels, coefs):
        """Rows with a coefficient make up the predictor."""
        room = engine.n_slots
        coefs = [np.pad(c, ((0, room - len(c)), (0, 0))) for c in coefs]
        kept = np.flatnonzero(np.any([c.any(axis=1) for c in coefs], axis=0))
        if engine.apart:
            numbers = np.concatenate([np.empty(0, np.int64), *engine.origin])[kept]
        else:
            number_of = np.empty(room, np.int64)
            placed = (engine.slot_of >= 0) & (engine.slot_of < room)
            number_of[engine.slot_of[placed]] = np.flatnonzero(placed)
            numbers = number_of[kept]
        self.support_ = problem.given[numbers]
        support = self.support_ if data.rows is None else data.rows.rows[numbers]
        dtype = engine.dtype
        coefs = tuple(c[kept].astype(dtype) for c in coefs)
        self.expansion_ = Expansion(kernels, support, coefs)

    def _compress(self, problem, targets):
        """Project the predictor onto landmarks, if that is asked for."""
        f, at = self.expansion_, checked(len(problem.stored))
        self.compression_ = None
        if self.compress is None or self.compress is False or not f.support.shape[0]:
            return
        rows, support_rows = problem.X[problem.stored[at]], None
        if isinstance(f.kernels[0], Precomputed):
            order = np.argsort(problem.given)
            found = order[np.searchsorted(problem.given, self.support_, sorter=order)]
            support_rows = problem.X[problem.stored[found]]
        else:
            rows = self.coordinates_.show(rows)
        self.expansion_, kept, self.compression_ = compressed(
            self, f, rows, targets[at], problem.weights[at], support_rows
        )
        self.support_ = self.support_[kept]

    def _open_stream(self, kernel, X, learner, **options):
        """A stream, if there is none yet.

        Raises
        ------
        ValueError
            For a precomputed kernel.
        """
        stream = getattr(self, "_stream", None)
        if stream is not None:
            return stream
        if "expansion_" in vars(self):
            warnings.warn(
                "partial_fit starts a new model: what fit learned rests on all of its rows, and is "
                "dropped.",
                UserWarning,
                stacklevel=4,
            )
        if isinstance(kernel, Precomputed):
            raise ValueError("partial_fit needs rows, not a precomputed kernel.")
        try_function(kernel, X)
        learner = learner._replace(average=Polynomial())
        single = is_single(self, kernel, X.dtype)
        return KernelStream(
            kernel, self.gamma, self.standardize, single, learner,
            max_support=self.max_support, **options,
        )  # fmt: skip

    def _publish_reading(self, ready, reading, scale=1.0):
        """Set the predictor from what a stream has learned, times a scale."""
        self.coordinates_, self.n_iter_ = ready.coordinates, 1
        coefs = tuple((scale * c).astype(ready.engine.dtype) for c in reading.coefs)
        kernels = kernels_of(ready.kernel, reading.gammas)
        rows, risk = curve(ready.progress)
        self.leaderboard_ = reading.leaderboard
        self.trace_ = {
            "rows": rows,
            "progressive_error": dict(zip(ready.names, risk.T, strict=True)),
        }
        self.expansion_ = Expansion(kernels, reading.support.copy(), coefs)

    @property
    def dual_coef_(self):
        """Coefficients of the support rows, shape (n_bandwidths, n_outputs, n_support)."""
        check_is_fitted(self, "expansion_")
        return np.stack([c.T for c in self.expansion_.coefs])

    @property
    def gamma_(self):
        """The bandwidths of the predictor, shape (n_bandwidths,)."""
        check_is_fitted(self, "expansion_")
        return np.array([getattr(k, "gamma", np.nan) for k in self.expansion_.kernels])

    def _values(self, X):
        """The predictor's values, shape (n, n_outputs), of the type of X."""
        X = base.check_rows(self, X)
        f, dtype = self.expansion_, X.dtype
        if not isinstance(f.kernels[0], Precomputed):
            X = self.coordinates_.show(X)
        n = X.shape[0]
        if not sparse.issparse(X):
            # Full blocks: a row's arithmetic does not depend on how many others come with it.
            X = np.pad(X, ((0, -n % _ALIGNED), (0, 0)))
        return f(X, n_threads(self.n_jobs))[:n].astype(dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
