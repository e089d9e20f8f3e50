"""Separating hyperplanes and surfaces with a proof of their margin, and Rosenblatt's Perceptron."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.from_source import RepeatableSource, name_columns, run_log
from tunefree.base.locks import all_or_nothing
from tunefree.base.progress import CallbackSupport, report_progress, runner
from tunefree.base.sizes import largest_entry
from tunefree.core.parameters import is_number
from tunefree.core.process import one_blas_thread, product
from tunefree.core.protocols import (
    Auto,
    BlockSource,
    Kernel,
    KernelName,
    MatrixLike,
    Numbers,
    TargetLike,
)
from tunefree.core.warn import none_of, warn
from tunefree.engine.run import run
from tunefree.engine.sources import Block, Whole, open_source
from tunefree.kernels.kernels import check_gamma, check_gram, make_kernel, resolve_gamma
from tunefree.perceptron.classical import Classical
from tunefree.perceptron.dual import Accelerated, MinNorm
from tunefree.perceptron.margins import Goal, GramRows, LinearRows, certify
from tunefree.perceptron.optimistic import PLAYERS, Optimistic
from tunefree.rows.designs import design_of
from tunefree.rows.matrices import as_dense, one_index_type, stacked

# Up to this many support rows Wolfe's method is the fastest: no benchmark is named for it.
_SMALL_SUPPORT = 300
# Passes of the game for a predictor, where a dual method could not separate the rows.
_GAME_PASSES = 500
_METHODS = ("optimistic", "accelerated", "min-norm", "auto")
_STOPS = ("separated", "margin")
_STEPS: Any = {"auto": None, "paper": 1.0}
# Most passes for max_iter='auto'.
_MOST_PASSES = 10_000
# Stored entries that the compiled loop of the classical Perceptron visits between two callbacks.
_CALL_ENTRIES = 50_000_000


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


class Hyperplanes(base.LabelsByDecisions, CallbackSupport, BaseEstimator):
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


class OptimisticPerceptron(Separator):
    r"""Linear classifier that finds a separating hyperplane and proves how wide its margin is.

    A weight vector and a distribution p over the rows play against each other,

    .. math:: w_t = w_{t-1} + 2 \tilde x_{t-1} - \tilde x_{t-2}, \quad
        p_{t,i} \propto p_{t-1,i} \exp(-y_i \langle w_t, x_i \rangle / r^2), \quad
        \tilde x_t = \sum_i p_{t,i} y_i x_i,

    and the average of the w_t separates after O(1 / margin) rounds, where the Perceptron needs
    O(1 / margin^2). Any w bounds the largest possible margin from below by its own, any p bounds it
    from above by :math:`\|\sum_i p_i y_i x_i\|`: the fit publishes both bounds and both witnesses.

    Parameters
    ----------
    method : {'optimistic', 'accelerated', 'min-norm', 'auto'}, default='optimistic'
        'optimistic' is the paper's; 'accelerated' adds momentum, a line search and restarts to the
        dual problem; 'min-norm' (Wolfe) ends after finitely many rounds and is the fastest while
        few rows support the margin; 'auto' starts with it and continues with 'accelerated' beyond
        300 support rows. All stop by the same bounds.
    step : {'auto', 'paper'} or float, default='auto'
        The data player's step: 'paper' is 1 / r^2, a float a multiple of it. 'auto' is the
        longest step for which the proof of the guarantee holds; the guaranteed number of rounds T
        is that of the paper, and 2 + log2(T) more at most. For method='optimistic'.
    potential : {'entropy', 'euclidean'} or part, default='entropy'
        The data player's potential. For method='optimistic'.
    stop : {'separated', 'margin'}, default='separated'
        Stop at the first separator, or when the bounds of the margin are within `tol`.
    tol : float, default=0.01
        Relative width of the bounds, (upper - lower) / upper, for stop='margin'.
    margin : float, optional
        The smallest margin of interest, in the units of the rows (with the constant coordinate,
        see `intercept_scaling`). The fit ends as soon as no separator can have it: when the upper
        bound is below, or at the round at which Theorem 3 guarantees a separator. By default 1e-4
        of the longest row, by the upper bound only; 0 has no such end.
    max_iter : int or 'auto', default='auto'
        Most rounds; each takes two products with the rows. 'auto' is 10,000.
    fit_intercept : bool, default=True
        Learn an intercept, as the weight of one more, constant coordinate.
    intercept_scaling : 'auto' or float, default='auto'
        Value of that coordinate; 'auto' is the norm of the longest row. Margins are those in the
        space with this coordinate.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Together with the intercept's coordinate, vectors of length one: decisions are distances.
    classes_ : ndarray of shape (n_classes,)
    margin_bounds_ : MarginBounds
        (lower, upper, certified): the largest possible margin lies between them, rounding included;
        `certified` is whether the condition of `stop` holds, or it is proved that no separator has
        a margin above `margin`. With several classes arrays, one entry each.
    separated_ : bool or ndarray of shape (n_classes,)
        Whether the hyperplane is proven to separate (lower > 0).
    support_weights_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
        The distribution over the rows that proves `upper`; the rows with weight support the margin.
    status_ : str or list of str
        The proof in words.
    n_updates_ : int
        Updates of the weight vector, summed over the classes.
    n_operations_ : int
        Inner products and additions of rows, counted as in the paper, summed over the classes.
    n_iter_ : int
        Passes over the rows.
    intercept_scale_ : float
        Value of the constant coordinate (0 without an intercept).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero or negative.

    Notes
    -----
    If no hyperplane separates the rows, the upper bound falls to 0 (see `status_`), and the
    predictor with the fewest (weighted) errors is returned.
    Weights are the distribution p_0 (for 'min-norm' only whether they are 0 matters).
    Several classes are learned one against the rest.

    References
    ----------
    Hanashiro and Abernethy, "Linear Separation via Optimism", Algorithm 1, Theorems 1 to 3. The
    certificates, the adaptive step and the other methods are ours.

    Examples
    --------
    >>> from papers.datasets import make_perceptron_hard
    >>> X, y = make_perceptron_hard(8)
    >>> model = OptimisticPerceptron(step="paper", fit_intercept=False).fit(X, y)
    >>> model.n_updates_, model.n_operations_, model.separated_  # Perceptron: 21845 and 109230
    (489, 8810, True)
    """

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find separators.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            The prior p_0; whole weights are repetitions, rows of weight 0 are skipped.

        Returns
        -------
        self
        """
        self._check_parameters()
        problem = SeparationProblem.of(self, X, y, sample_weight)
        bias = self._bias(design_of(problem.X).squares() if self.fit_intercept else 0.0)
        space, sources = LinearRows(bias), problem.sources()
        self._fit_rows(space, sources, problem.dtype, problem.rows, problem.n_rows)
        return self

    def _fit_rows(self, space, sources, dtype, rows, n_rows):
        """Fit every class against the rest, with numbers for every row."""
        bias, d = space.bias, self.n_features_in_

        def rounded(view, w):
            """Round like the published coefficients, for which the bounds hold."""
            coef = w[:d].astype(dtype).astype(np.float64)
            if bias == 0.0:
                return coef
            return np.append(coef, np.float64((bias * w[d]).astype(dtype)) / bias)

        watch = self._passes(len(self.classes_))
        fits = [self._solve(space, source, rounded, watch) for source in sources]
        self._publish_coef(np.stack([f.w for f in fits]), bias, dtype)
        self._publish(fits, bias, rows, n_rows)

    def _fit_streams(self, source_of, largest):
        """Play the game in O(n_features) memory on `source_of(k)`: class k against the rest.

        `largest` is the largest squared norm of a row.
        """
        bias, goal, fits = self._bias(largest), self._goal(), []
        game = self._game(LinearRows(bias), goal)
        n_classes = len(self.classes_)
        for k in range(n_classes) if n_classes > 2 else [1]:
            result = runner(self)(game, game.init(), source_of(k), max_passes=self._most_passes + 1)
            s, c = result.state, result.state.certificate
            w = s.w if c.w is None else c.w
            w = w / (game.space.norm(w) or 1.0)
            fits.append(Separation.of(w, None, c, result.converged, goal.floor(s.radius), [result]))
        self._publish_coef(np.stack([f.w for f in fits]), bias, np.float64)
        self._publish(fits, bias)

    @property
    def _streams(self):
        """Whether the method needs no memory for each row."""
        return self.method == "optimistic" and PLAYERS.find(self.potential).streams

    @all_or_nothing
    def fit_source(
        self, source: Any, *, classes: ArrayLike | None = None, checkpoint: Any = None
    ) -> Self:
        """Find separators of a source that can be read again, in up to `max_iter` passes.

        ``method="optimistic"`` with the entropy needs O(n_features) numbers in memory. The others,
        and the Euclidean potential, also need about ten numbers for each row, and their result is
        that of `fit` up to rounding.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes
        classes : array-like, optional
            Labels to expect besides those that occur.
        checkpoint : Checkpoint, optional
            Saves the run between two passes, resumes it with the same bits.

        Returns
        -------
        self
        """
        self._check_parameters()
        source = open_source(source)
        with run_log(self, source, checkpoint):
            self._fit_source(RepeatableSource(source), classes)
        return self

    def _fit_source(self, rows, classes):
        labels, weights, largest = [], [], 0.0
        found: Any = None
        for X, y, weight in rows.survey():
            check_range(X)
            found = np.unique(y) if found is None else np.union1d(found, y)
            largest = max(largest, float(np.max(design_of(double(X)).squares())))
            if not self._streams:
                weights.append(weight)
                labels.append(y)
        self.classes_ = found if classes is None else np.union1d(found, classes)
        if len(self.classes_) < 2:
            raise ValueError(f"{rows.source.name} has one class: a separator needs at least two.")
        self.n_features_in_ = rows.width
        name_columns(self, rows.source)
        if self._streams:
            self._fit_streams(lambda k: Signed(rows, self.classes_[k]), largest)
            return
        codes = np.searchsorted(self.classes_, np.concatenate(labels))
        signs = base.signs(codes, len(self.classes_))
        weights = np.concatenate(weights)
        sources = [Whole(rows, column[:, None], weights) for column in signs.T]
        space = Passing(self._bias(largest))
        self._fit_rows(space, sources, rows.dtype, np.arange(rows.rows), rows.rows)


def signed(X, y, weights, positive, start=0, epoch=0):
    """A block of rows as one class against the rest, in float64 for the certificate."""
    signs = np.where(y == positive, 1.0, -1.0)[:, None]
    return Block(double(X), None, signs, weights, start, epoch)


@dataclass(frozen=True)
class Signed(BlockSource):
    """The rows of a `RepeatableSource` as one class against the rest, a block a piece."""

    rows: RepeatableSource
    positive: Any

    def blocks(self, epoch):
        """The blocks of a pass."""
        start = 0
        for X, y, weights in self.rows.pieces():
            yield signed(X, y, weights, self.positive, start, epoch)
            start += len(y)


class Passing(NamedTuple):
    """`LinearRows` for a block whose X is a `RepeatableSource`: a product is a pass over it."""

    bias: float = 0.0

    def view(self, block):
        """The signed rows of a block."""
        return _Passes(block.X, block.targets[:, 0], LinearRows(self.bias))

    dot, norm, slack = LinearRows.dot, LinearRows.norm, LinearRows.slack


class _Passes(NamedTuple):
    rows: RepeatableSource
    signs: np.ndarray
    space: LinearRows

    def _views(self):
        start = 0
        for X, _, weights in self.rows.pieces():
            at = slice(start, start + len(weights))
            block = Block(double(X), None, self.signs[at, None], weights, start, 0)
            yield at, self.space.view(block)
            start = at.stop

    def push(self, x):
        out = np.empty(len(self.signs))
        for at, view in self._views():
            out[at] = view.push(x)
        return out

    def pull(self, p):
        return sum(view.pull(p[at]) for at, view in self._views())

    def squares(self):
        return np.concatenate([view.squares() for _, view in self._views()])

    def inner(self, rows, j):
        one = double(self.rows.row(j))
        support = [double(self.rows.row(i)) for i in rows]
        out = stacked(support) @ as_dense(one)[0]
        return self.signs[rows] * self.signs[j] * (out + self.space.bias**2)


class KernelOptimisticPerceptron(Separator):
    r"""Kernel classifier that finds a separating surface and proves how wide its margin is.

    The rounds of `OptimisticPerceptron` need only inner products of rows: with
    :math:`Q_{ij} = y_i y_j k(x_i, x_j)` and :math:`h_t = Q p_t`, the margins of w_t are
    :math:`m_t = m_{t-1} + 2 h_{t-1} - h_{t-2}`, so that a round is one product with Q. Margins are
    those of the rows in the kernel's feature space.

    Parameters
    ----------
    kernel : str or callable, default='rbf'
        A kernel of `tunefree.kernels` or of `sklearn.metrics.pairwise`, by name; a function of two
        matrices or of two rows; or 'precomputed': X is the matrix.
    gamma : 'auto' or float, default='auto'
        Of the 'rbf', 'polynomial', 'sigmoid', 'laplacian' and 'chi2' kernels; 'auto' is
        1 / (n_features * variance of all entries): `sklearn.svm.SVC` calls this 'scale'.
    degree : float, default=3
        Of the 'polynomial' kernel.
    coef0 : float, default=1
        Of the 'polynomial' and 'sigmoid' kernels.
    method, step, potential, stop, tol
        As in `OptimisticPerceptron`.
    margin : float, optional
        The smallest margin of interest; by default 1e-4 of the longest row in feature space.
    max_iter : int or 'auto', default='auto'
        Most rounds; each takes one product with the kernel matrix. 'auto' is 10,000.
    fit_intercept : bool, default=True
        Learn an intercept: a constant is added to the kernel.
    intercept_scaling : 'auto' or float, default='auto'
        Root of that constant; 'auto' is the norm of the longest row in feature space.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        decision(x) = sum_i dual_coef_i k(x_i, x) + intercept, a vector of length one.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    support_ : ndarray of shape (n_support,)
        Which rows of the input have a coefficient.
    X_fit_ : ndarray or CSR of shape (n_support, n_features)
        Those rows (None for a precomputed kernel).
    classes_, margin_bounds_, separated_, support_weights_, status_
        As in `OptimisticPerceptron`.
    n_updates_, n_operations_, n_iter_, intercept_scale_, n_features_in_, feature_names_in_
        As in `OptimisticPerceptron`.
    gamma_ : float
        The value of `gamma` for these rows (not for a precomputed kernel).

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero or negative, a
        precomputed kernel that is not square.

    Notes
    -----
    Time O(n^2) a round and memory O(n^2). The bounds are exact for the kernel matrix as computed in
    float64, which must be positive semidefinite.

    References
    ----------
    Hanashiro and Abernethy, "Linear Separation via Optimism", Algorithm 1; the kernel form is ours.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), [0, 0, 1, 1]
    >>> model = KernelOptimisticPerceptron(gamma=1.0).fit(X, y)
    >>> model.separated_, model.predict(X)
    (True, array([0, 0, 1, 1]))
    """

    def __init__(
        self,
        kernel: KernelName | Callable | Kernel = "rbf",
        *,
        gamma: float | str = "auto",
        degree: float = 3,
        coef0: float = 1,
        method: str = "optimistic",
        step: float | str = "auto",
        potential: Any = "entropy",
        stop: str = "separated",
        tol: float = 1e-2,
        margin: float | None = None,
        max_iter: int | Auto = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float | str = "auto",
    ):
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        end = {"stop": stop, "tol": tol, "margin": margin, "max_iter": max_iter}
        bias = {"fit_intercept": fit_intercept, "intercept_scaling": intercept_scaling}
        super().__init__(method, step=step, potential=potential, **end, **bias)

    def _check_parameters(self):
        super()._check_parameters()
        check_gamma(self.gamma, "auto")

    def _kernel(self):
        return make_kernel(self.kernel, self.gamma_, self.degree, self.coef0)

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find separators.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or the kernel matrix of shape (n_samples, n_samples) for kernel='precomputed'.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            The prior p_0; whole weights are repetitions, rows of weight 0 are skipped.

        Returns
        -------
        self
        """
        self._check_parameters()
        problem = SeparationProblem.of(self, X, y, sample_weight)
        X, dtype = problem.X, problem.dtype
        if self.kernel == "precomputed":
            if X.shape[1] != problem.n_rows:
                raise ValueError(f"A precomputed kernel must be square: X has the shape {X.shape}.")
            gram = np.ascontiguousarray(as_dense(X[:, problem.rows]))
        else:
            gamma = "scale" if self.gamma == "auto" else self.gamma
            self.gamma_ = resolve_gamma(gamma, X, problem.weights)
            gram = self._kernel().gram(X, X)
            check_gram(gram, f"kernel={self.kernel!r}")
        bias = self._bias(np.diag(gram))
        space = GramRows(bias)
        watch = self._passes(problem.signs.shape[1])

        def rounded(view, w):
            """Round like the published coefficients, for which the bounds hold."""
            return view.pull(w[0].astype(dtype).astype(np.float64))

        sources = problem.sources(gram)
        fits = [self._solve(space, source, rounded, watch) for source in sources]
        duals = problem.signs.T * [f.w[0] for f in fits]
        support = np.flatnonzero(duals.any(axis=0))
        self.dual_coef_ = duals[:, support].astype(dtype)
        self.intercept_ = (bias**2 * duals.sum(axis=1)).astype(dtype)
        self.support_ = problem.rows[support]
        self.X_fit_ = None if self.kernel == "precomputed" else X[support].astype(dtype)
        self._publish(fits, bias, problem.rows, problem.n_rows)
        return self

    @one_blas_thread()
    def _scores(self, X):
        if self.kernel == "precomputed":
            gram = double(X)[:, self.support_]
        else:
            gram = self._kernel().gram(double(X), double(self.X_fit_))
        return gram @ self.dual_coef_.T.astype(np.float64)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class ClassicalPerceptron(Hyperplanes):
    r"""Rosenblatt's Perceptron, with its work counted: a baseline of the optimistic one.

    Rows are visited in order, cyclically; a row with :math:`y \langle w, x \rangle \le 0` is added,
    w += y x, until all rows in succession are right. On separable rows there are at most
    (r / margin)^2 updates; on others the fit ends at `max_iter`.

    Parameters
    ----------
    max_iter : int or 'auto', default='auto'
        Most passes over the rows; 'auto' is 10,000.
    fit_intercept : bool, default=True
        Learn an intercept, as the weight of one more, constant coordinate.
    intercept_scaling : 'auto' or float, default='auto'
        Value of that coordinate; 'auto' is the norm of the longest row.

    Attributes
    ----------
    separated_ : bool or ndarray of shape (n_classes,)
        Whether all rows in succession were right.
    n_updates_ : int
        Updates of the weight vector, summed over the classes.
    n_operations_ : int
        Inner products and updates, summed over the classes.
    n_iter_ : int
        Passes over the rows, the last one rounded up.
    coef_, intercept_, classes_, n_features_in_, feature_names_in_
        As in `OptimisticPerceptron`.

    Raises
    ------
    ValueError
        For NaN or infinity, or labels of one class.

    References
    ----------
    Rosenblatt 1958; counted as in Hanashiro and Abernethy, "Linear Separation via Optimism",
    sections 2.1 and 3.

    Examples
    --------
    >>> from tunefree.perceptron import ClassicalPerceptron
    >>> from papers.datasets import make_perceptron_hard
    >>> X, y = make_perceptron_hard(6)
    >>> model = ClassicalPerceptron(max_iter=10**6, fit_intercept=False).fit(X, y)
    >>> model.n_updates_, (4**6 - 1) // 3
    (1365, 1365)
    """

    def __init__(
        self,
        *,
        max_iter: int | Auto = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float | str = "auto",
    ):
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike) -> Self:
        """Find separators.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        problem, most = SeparationProblem.of(self, X, y), self._most_passes
        bias = self._bias(design_of(problem.X).squares() if self.fit_intercept else 0.0)
        cycles = int(np.clip(_CALL_ENTRIES // max(problem.X.size, 1), 1, max(most - 1, 1)))
        learner = Classical(bias, cycles)
        # The first call makes one pass, and the last one the rest.
        n_calls, n_rest = divmod(most - 1, cycles)
        results = []
        watch = self._progress.passes(problem.signs.shape[1] * (n_calls + 2))
        for source in problem.sources():
            start = learner.init(problem.X.shape[1])
            result = run(learner, start, source, max_passes=1 + n_calls, **watch)
            if n_rest and not (result.converged or result.stopped):
                last = learner._replace(cycles=n_rest)
                result = run(last, result.state, source, max_passes=1, **watch)
            results.append(result)
        states, separated = zip(*((r.state, r.converged) for r in results), strict=True)
        self._publish_coef(np.stack([s.w for s in states]), bias, problem.dtype)
        self.separated_ = separated[0] if len(separated) == 1 else np.array(separated)
        self.n_updates_ = sum(s.n_updates for s in states)
        self.n_operations_ = sum(s.n_operations for s in states)
        products = max(s.n_operations - s.n_updates for s in states)
        self.n_iter_ = -(-products // problem.n_rows)
        if not (all(separated) or any(r.stopped for r in results)):
            warn(
                f"max_iter={most} passes did not separate the rows.",
                ConvergenceWarning,
            )
        return self
