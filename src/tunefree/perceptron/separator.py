"""What separators share: the problem, the passes, the proof of the margin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base, scores
from tunefree.base.progress import CallbackSupport, runner
from tunefree.base.sizes import largest_entry
from tunefree.core.parameters import is_number
from tunefree.core.process import product
from tunefree.core.protocols import Auto, MatrixLike, Numbers
from tunefree.core.warn import none_of, warn
from tunefree.engine.sources import Whole
from tunefree.perceptron.dual import Accelerated, MinNorm
from tunefree.perceptron.margins import Goal, certify
from tunefree.perceptron.optimistic import PLAYERS, Optimistic
from tunefree.rows.matrices import one_index_type

# Up to this many support rows Wolfe's method is the fastest: no benchmark is named for it.
_SMALL_SUPPORT = 300
# Passes of the game for a predictor, where a dual method could not separate the rows.
_GAME_PASSES = 500
_METHODS = ("optimistic", "accelerated", "min-norm", "auto")
_STOPS = ("separated", "margin")
_STEPS: Any = {"auto": None, "paper": 1.0}
# Most passes for max_iter='auto'.
_MOST_PASSES = 10_000


class MarginBounds(NamedTuple):
    """The largest margin lies in [lower, upper]; with several classes arrays, one entry each.

    Attributes
    ----------
    lower, upper : float or ndarray of shape (n_classes,)
        The bounds, valid in exact arithmetic for the data as given in float64.
    certified : bool or ndarray of shape (n_classes,)
        Whether the bounds prove the condition of `stop`, or that no separator has a margin above
        `margin`.
    """

    lower: Numbers
    upper: Numbers
    certified: bool | np.ndarray


class Separation(NamedTuple):
    """The result for one class against the rest; `status` is the proof in words."""

    w: np.ndarray
    p: np.ndarray | None
    lower: float
    upper: float
    certified: bool
    status: str
    n_updates: int
    n_operations: int
    n_iter: int

    @classmethod
    def of(cls, w, p, proof, certified, floor, results):
        """The fit with this proof, after these runs."""
        if proof.lower > 0.0:
            status = f"separated with a margin of at least {proof.lower:.6g}"
        elif proof.upper <= floor:
            status = f"no separator with a margin above {proof.upper:.6g}"
        else:
            status = f"not separated; no separator has a margin above {proof.upper:.6g}"
        n_updates = sum(r.state.n_updates for r in results)
        n_operations = sum(r.state.n_operations for r in results)
        counts = n_updates, n_operations, sum(r.n_passes for r in results)
        bounds = float(proof.lower), float(proof.upper)
        return cls(w, p, *bounds, certified, status, *counts)


class SeparationProblem(NamedTuple):
    """The rows of positive weight, in float64, with signs for one class against the rest."""

    X: Any
    signs: np.ndarray  # a column a class
    weights: np.ndarray
    rows: np.ndarray  # their numbers in the input
    n_rows: int  # of the input
    dtype: np.dtype  # of the input

    @classmethod
    def of(cls, estimator, X, y, sample_weight=None):
        """The problem of checked rows; sets the estimator's classes."""
        X, y = base.check_rows_and_targets(estimator, X, y)
        check_range(X)
        n_rows = X.shape[0]
        weights = base.check_weights(sample_weight, X)
        rows = np.flatnonzero(weights > 0.0)
        if len(rows) < n_rows:
            X, y, weights = X[rows], y[rows], weights[rows]
        estimator.classes_, codes = base.encode_labels(y, fewest=2)
        signs = base.signs(codes, len(estimator.classes_))
        return cls(double(X), signs, weights, rows, n_rows, X.dtype)

    def sources(self, X=None):
        """A source for each class against the rest, of the rows or of their kernel matrix `X`."""
        X = self.X if X is None else X
        return [Whole(X, column[:, None], self.weights) for column in self.signs.T]


def check_range(X):
    """Refuse rows whose sixth powers leave the range of float64, where no proof is possible."""
    largest = largest_entry(X)
    has_proofs = largest == 0.0 or 1e-40 < largest < 1e40
    if not has_proofs:
        raise ValueError(
            f"The largest entry of X is {largest:.3g}: its powers leave the range of float64. "
            "Divide X by a constant first."
        )


def double(X):
    """X in float64, as the certificates need it; CSR with one type for all indices."""
    return one_index_type(X.astype(np.float64, copy=False))


class Hyperplanes(scores.LabelsByDecisions, CallbackSupport, BaseEstimator):
    """A classifier by the signs, or the largest, of linear scores <w, phi(x)> + intercept.

    A subclass has the attributes below, and `_scores` for <w, phi(x)>.
    """

    fit_intercept: bool
    intercept_scaling: float | str
    max_iter: int | str
    intercept_: np.ndarray

    def _scores(self, X):
        """<w, phi(x)> of checked rows for each hyperplane; by default with `coef_`."""
        return product(double(X), self.coef_.T.astype(np.float64))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Scores; where vectors have length one, distances from the hyperplanes.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Kernel values of shape (n_samples, n_samples_fit) for kernel='precomputed'.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = base.check_rows(self, X)
        scores = np.asarray(self._scores(X) + self.intercept_).astype(X.dtype)
        return base.squeezed(scores)

    @property
    def _most_passes(self):
        """The limit that `max_iter` means."""
        return _MOST_PASSES if self.max_iter == "auto" else int(self.max_iter)

    def _bias(self, squared_norms):
        """Value of the constant coordinate.

        It is the norm of the longest row, so that the result does not depend on the data's scale.
        """
        if not self.fit_intercept:
            return 0.0
        if self.intercept_scaling != "auto":
            return float(self.intercept_scaling)
        return float(np.sqrt(np.max(squared_norms, initial=0.0))) or 1.0

    def _publish_coef(self, w, bias, dtype):
        """Set coefficients and intercepts from vectors with the constant coordinate last."""
        d = self.n_features_in_
        self.coef_ = w[:, :d].astype(dtype)
        self.intercept_ = (bias * w[:, d] if bias else np.zeros(len(w))).astype(dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Separator(Hyperplanes):
    """A classifier whose hyperplanes come with a proof of their margin."""

    def __init__(
        self,
        method: str = "optimistic",
        *,
        step: float | str = "auto",
        potential: Any = "entropy",
        stop: str = "separated",
        tol: float = 1e-2,
        margin: float | None = None,
        max_iter: int | Auto = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float | str = "auto",
    ):
        self.method = method
        self.step = step
        self.potential = potential
        self.stop = stop
        self.tol = tol
        self.margin = margin
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling

    def _check_parameters(self):
        PLAYERS.find(self.potential)
        for name, known in (("method", _METHODS), ("stop", _STOPS)):
            if getattr(self, name) not in known:
                raise none_of(name, getattr(self, name), known)
        for name in ("tol",) if self.step in tuple(_STEPS) else ("tol", "step"):
            value = getattr(self, name)
            if not (is_number(value) and value > 0):
                raise ValueError(f"{name}={value!r} is not positive.")

    def _goal(self):
        return Goal(self.stop == "margin", self.tol, self.margin)

    def _game(self, space, goal):
        """The game, as the parameters `potential` and `step` set it."""
        step = _STEPS.get(self.step, self.step)
        return Optimistic(space, goal, PLAYERS.find(self.potential), step)

    def _passes(self, n_classes):
        """Callbacks around each pass of the runs for all classes against the rest."""
        return self._progress.passes(n_classes * (self._most_passes + 1 + _GAME_PASSES))

    def _run(self, space, goal, source, watch):
        """Run the method and its follow-ups; the last result has the final predictor."""
        n, most, results = len(source.weights), self._most_passes, []

        def follow(learner, start, max_passes, callbacks=watch):
            result = runner(self)(learner, start, source, max_passes=max_passes, **callbacks)
            results.append(result)
            return result

        if self.method == "optimistic":
            game = self._game(space, goal)
            follow(game, game.init(n), most + 1)  # the first pass only measures the data
            return results
        accelerated = Accelerated(space, goal)
        if self.method == "accelerated":
            follow(accelerated, accelerated.init(), most)
        else:
            wolfe = MinNorm(space, goal, _SMALL_SUPPORT if self.method == "auto" else n)
            found = follow(wolfe, wolfe.init(), most)
            stalled_early = found.state.stalled and found.n_passes < most
            if self.method == "auto" and stalled_early:
                p = np.zeros(n)
                p[found.state.support] = found.state.p
                follow(accelerated, accelerated.init(p), most - found.n_passes)
        if all(r.state.certificate.lower == 0.0 for r in results):
            # The dual methods only prove that there is no separator; the game finds a predictor.
            # Callbacks do not end it: without it there would be no predictor.
            unstopped = {name: call for name, call in watch.items() if name == "before_pass"}
            game = Optimistic(space, goal)
            follow(game, game.init(n), _GAME_PASSES, unstopped)
        return results

    def _solve(self, space, source, rounded, watch):
        """The `Separation` of one class from the rest; `rounded(view, w)` is w as published."""
        goal = self._goal()
        results = self._run(space, goal, source, watch)
        best = results[-1].state.certificate
        for c in (r.state.certificate for r in results[:-1]):
            if c.upper < best.upper:
                best = best._replace(upper=c.upper, p=c.p)
            if c.lower > best.lower:
                best = best._replace(lower=c.lower, w=c.w)
        block = next(iter(source.blocks(0)))
        p = best.p / best.p.sum()
        view = space.view(block)
        w = 0.0 * view.pull(p) if best.w is None else best.w
        w = rounded(view, w / (space.norm(w, 0, 1.0) or 1.0))
        proof = certify(space, block, w, p)
        separates = proof.lower > 0.0
        if self.method == "optimistic" and results[0].converged and not separates:
            # Ended at the round of Theorem 3, if not by the upper bound.
            proof = proof._replace(upper=min(proof.upper, self.margin or np.inf))
        radius = float(np.sqrt(np.max(view.squares(), initial=0.0)))
        certified = bool(goal.reached(proof, radius))
        return Separation.of(w, p, proof, certified, goal.floor(radius), results)

    def _publish(self, fits, bias, rows=None, n_rows=0):
        """Set the shared fitted attributes; `rows` of the input have the weights p."""

        def of_classes(values):
            return values[0] if len(fits) == 1 else np.array(values)

        self.intercept_scale_, lower = bias, of_classes([f.lower for f in fits])
        upper, certified = ([f.upper for f in fits], [f.certified for f in fits])
        self.margin_bounds_ = MarginBounds(lower, of_classes(upper), of_classes(certified))
        self.separated_ = lower > 0.0
        self.status_ = fits[0].status if len(fits) == 1 else [f.status for f in fits]
        self.support_weights_ = None
        if rows is not None:
            support = np.zeros((len(fits), n_rows))
            support[:, rows] = [f.p for f in fits]
            self.support_weights_ = of_classes(support)
        self.n_updates_ = sum(f.n_updates for f in fits)
        self.n_operations_ = sum(f.n_operations for f in fits)
        self.n_iter_ = max(f.n_iter for f in fits)
        for f in fits:
            if not f.certified:
                warn(
                    f"Stopped after {f.n_iter} passes: {f.status}. The largest margin lies in "
                    f"[{f.lower:.6g}, {f.upper:.6g}]. Raise max_iter={self._most_passes}, or try "
                    "method='auto'.",
                    ConvergenceWarning,
                )
