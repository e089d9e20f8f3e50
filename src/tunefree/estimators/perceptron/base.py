"""What the linear and the kernel separator share: methods, proofs, published bounds."""

import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tunefree._parameters import is_number
from tunefree._threads import product
from tunefree.estimators import base
from tunefree.estimators.callbacks import TellsCallbacks
from tunefree.estimators.journal import runner
from tunefree.learners.perceptron.dual import Accelerated, MinNorm
from tunefree.learners.perceptron.margins import Goal, certify
from tunefree.learners.perceptron.optimistic import PLAYERS, Optimistic

# Up to here Wolfe's method is the fastest; with more support rows it hands over.
_SMALL_SUPPORT = 300
# Passes spent on a predictor for rows that a dual method could not separate.
_PLAY = 500


class MarginBounds(NamedTuple):
    """The maximal margin lies in [lower, upper]; arrays with one entry a class if several.

    Attributes
    ----------
    lower, upper : float or ndarray of shape (n_classes,)
        The bounds, valid in exact arithmetic for the data as given in float64.
    certified : bool or ndarray of shape (n_classes,)
        Whether the bounds prove what `stop` asks for, or that no separator has a margin above
        `margin`.
    """

    lower: float
    upper: float
    certified: bool


_BOUNDS = MarginBounds._fields


class Fit(NamedTuple):
    """What is known of one class against the rest."""

    w: np.ndarray
    p: np.ndarray | None
    lower: float
    upper: float
    certified: bool
    n_updates: int
    n_operations: int
    n_iter: int


def status(fit, floor):
    """The proof in words."""
    if fit.lower > 0.0:
        return f"separated with a margin of at least {fit.lower:.6g}"
    if fit.upper <= floor:
        return f"no separator with a margin above {fit.upper:.6g}"
    return f"not separated; no separator has a margin above {fit.upper:.6g}"


class Hyperplanes(base.LabelsByDecisions, TellsCallbacks, BaseEstimator):
    """A classifier by the signs, or the largest, of linear scores."""

    def _bias(self, squared_norms):
        """Value of the constant coordinate.

        It has the size of the longest row, so that nothing changes when the data are scaled.
        """
        if not self.fit_intercept:
            return 0.0
        if self.intercept_scaling != "auto":
            return float(self.intercept_scaling)
        return float(np.sqrt(np.max(squared_norms, initial=0.0))) or 1.0


class LinearDecisions:
    """Scores from `coef_` and `intercept_`, for dense and sparse rows."""

    def decision_function(self, X):
        """<w, x> + intercept; for vectors of length one, distances from the hyperplanes.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = base.check_rows(self, X)
        scores = product(double(X), self.coef_.T.astype(np.float64)) + self.intercept_
        scores = np.asarray(scores).astype(X.dtype)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def check_positive(**numbers):
    """Refuse parameters that are not positive numbers.

    Raises
    ------
    ValueError
    """
    for name, value in numbers.items():
        if not (is_number(value) and value > 0):
            raise ValueError(f"{name}={value!r} is not positive.")


class Separator(Hyperplanes):
    """A classifier whose hyperplanes come with a proof of their margin."""

    def _check_parameters(self):
        choices = {
            "method": ("optimistic", "accelerated", "min-norm", "auto"),
            "stop": ("separated", "margin"),
            "potential": tuple(PLAYERS),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                listed = ", ".join(allowed)
                raise ValueError(f"{name}={getattr(self, name)!r} is none of {listed}.")
        numbers = {"tol": self.tol, "max_iter": self.max_iter}
        if self.step not in ("adaptive", "paper"):
            numbers["step"] = self.step
        if self.intercept_scaling != "auto":
            numbers["intercept_scaling"] = self.intercept_scaling
        check_positive(**numbers)

    def _goal(self):
        return Goal(self.stop == "margin", self.tol, self.margin)

    def _game(self, space, goal):
        step = {"adaptive": None, "paper": 1.0}.get(self.step, self.step)
        return Optimistic(space, goal, PLAYERS[self.potential], step)

    def _passes(self, n_classes):
        """What to call around each pass of the runs for all classes against the rest."""
        return self._told.passes(n_classes * (self.max_iter + 1 + _PLAY))

    def _run(self, space, goal, source, watch):
        """Run the method and what has to follow it; the last result has the predictor to keep."""
        n, run = len(source.weights), runner(self)
        play = Optimistic(space, goal)
        if self.method == "optimistic":
            # One pass more: the first only measures the data.
            play = self._game(space, goal)
            return [run(play, play.init(n), source, max_passes=self.max_iter + 1, **watch)]
        if self.method == "accelerated":
            first = Accelerated(space, goal)
        else:
            first = MinNorm(space, goal, _SMALL_SUPPORT if self.method == "auto" else n)
        results = [run(first, first.init(), source, max_passes=self.max_iter, **watch)]
        left = self.max_iter - results[0].n_passes
        if self.method == "auto" and left > 0 and results[0].state.stalled:
            second, p = Accelerated(space, goal), np.zeros(n)
            p[results[0].state.support] = results[0].state.p
            results.append(run(second, second.init(p), source, max_passes=left, **watch))
        if all(r.state.certificate.lower == 0.0 for r in results):
            # The dual methods only say that there is no separator; play finds a good predictor.
            # Not ended by a callback: without it there would be nothing to predict with.
            watch = {"before_pass": watch["before_pass"]} if watch else {}
            results.append(run(play, play.init(n), source, max_passes=_PLAY, **watch))
        return results

    def _solve(self, space, source, publish, watch):
        """Fit one class against the rest; `publish(w)` is w as it will be read."""
        goal = self._goal()
        results = self._run(space, goal, source, watch)
        best = results[-1].state.certificate
        for c in (r.state.certificate for r in results[:-1]):
            if c.upper < best.upper:
                best = best._replace(upper=c.upper, p=c.p)
            if c.lower > best.lower:
                best = best._replace(lower=c.lower, w=c.w)
        block, p = next(iter(source.blocks(0))), best.p / best.p.sum()
        view = space.view(block)
        w = 0.0 * view.pull(p) if best.w is None else best.w
        w = publish(w / (space.norm(w, 0, 1.0) or 1.0))
        proof = certify(space, block, w, p)
        if self.method == "optimistic" and results[0].converged and not proof.lower > 0.0:
            # Given up at the round of Theorem 3, if not because of the witness.
            proof = proof._replace(upper=min(proof.upper, self.margin or np.inf))
        radius = float(np.sqrt(np.max(view.squares(), initial=0.0)))
        fit = Fit(
            w,
            p,
            proof.lower,
            proof.upper,
            bool(goal.reached(proof, radius)),
            sum(r.state.n_updates for r in results),
            sum(r.state.n_operations for r in results),
            sum(r.n_passes for r in results),
        )
        return fit, status(fit, goal.floor(radius))

    def _publish(self, fits, alive=None, n_rows=0):
        """The fitted attributes that both forms share; rows that were not kept have no weights."""
        fits, words = zip(*fits, strict=True)
        single = len(fits) == 1
        columns = MarginBounds(*(np.array([getattr(f, k) for f in fits]) for k in _BOUNDS))
        self.margin_bounds_ = MarginBounds(*(c[0].item() if single else c for c in columns))
        self.separated_ = bool(columns.lower[0] > 0.0) if single else columns.lower > 0.0
        self.status_ = words[0] if single else list(words)
        self.support_weights_ = None
        if alive is not None:
            support = np.zeros((len(fits), n_rows))
            support[:, alive] = [f.p for f in fits]
            self.support_weights_ = support[0] if single else support
        self.n_updates_ = sum(f.n_updates for f in fits)
        self.n_operations_ = sum(f.n_operations for f in fits)
        self.n_iter_ = max(f.n_iter for f in fits)
        for f, text in zip(fits, words, strict=True):
            if not f.certified:
                warnings.warn(
                    f"Stopped after {f.n_iter} passes: {text}. The largest margin is only known to "
                    f"lie in [{f.lower:.6g}, {f.upper:.6g}]. Raise max_iter={self.max_iter}, or "
                    "try method='auto'.",
                    ConvergenceWarning,
                    stacklevel=4,
                )


def prepare(estimator, X, y, sample_weight):
    """Checked rows with a weight, their signs, and which rows of the input they are."""
    X, y = base.check_rows_and_targets(estimator, X, y)
    check_range(X)
    n_rows = X.shape[0]
    weights = base.check_weights(sample_weight, X)
    alive = np.flatnonzero(weights > 0.0)
    if len(alive) < n_rows:
        X, y, weights = X[alive], y[alive], weights[alive]
    estimator.classes_, codes = base.encode_labels(y, fewest=2)
    return X, base.signs(codes, len(estimator.classes_)), weights, alive, n_rows


def check_range(X):
    """Refuse rows whose sixth powers leave the range of float64: nothing could be proven.

    Raises
    ------
    ValueError
    """
    largest = base.largest_entry(X)
    if largest != 0.0 and not 1e-40 < largest < 1e40:
        raise ValueError(
            f"The largest entry of X is {largest:.3g}: its powers leave the range of float64. "
            "Divide X by a constant first."
        )


def double(X):
    """X in float64, for which the certificates hold.

    CSR gets one type for all its indices, which SciPy's products need not convert.
    """
    X = X.astype(np.float64, copy=False)
    if not sparse.issparse(X):
        return X
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)


def squared_norms(X):
    """The squared norm of every row."""
    if not sparse.issparse(X):
        return np.einsum("ij,ij->i", X, X)
    return sparse.csr_array((X.data**2, X.indices, X.indptr), shape=X.shape).sum(axis=1)
