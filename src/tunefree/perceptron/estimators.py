"""Perceptrons: linear and kernel separators with a proof of their margin, and Rosenblatt's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from tunefree.base import base
from tunefree.base.from_source import RepeatableSource, name_columns, run_log
from tunefree.base.locks import all_or_nothing
from tunefree.base.progress import report_progress, runner
from tunefree.base.sizes import check_kernel_values
from tunefree.core.process import one_blas_thread
from tunefree.core.protocols import (
    Auto,
    Kernel,
    KernelName,
    MatrixLike,
    TargetLike,
)
from tunefree.core.warn import warn
from tunefree.engine.run import run
from tunefree.engine.sources import Whole, open_source
from tunefree.kernels.kernels import check_gamma, check_gram, make_kernel, resolve_gamma
from tunefree.perceptron.blocks import Passing, Signed
from tunefree.perceptron.classical import Classical
from tunefree.perceptron.margins import GramRows, LinearRows
from tunefree.perceptron.optimistic import PLAYERS
from tunefree.perceptron.separator import (
    Hyperplanes,
    Separation,
    SeparationProblem,
    Separator,
    check_range,
    double,
)
from tunefree.rows.designs import design_of
from tunefree.rows.matrices import as_dense

# Stored entries that the compiled loop of the classical Perceptron visits between two callbacks.
_CALL_ENTRIES = 50_000_000


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
        values = gram @ self.dual_coef_.T.astype(np.float64)
        check_kernel_values(values, X, vars(self).get("feature_names_in_"))
        return values

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
