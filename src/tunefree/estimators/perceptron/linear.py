"""Separating hyperplanes with a certificate: the Optimistic Perceptron."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_array

from tunefree.engine.sources import Block, Whole
from tunefree.estimators import base
from tunefree.estimators.callbacks import told
from tunefree.estimators.journal import runner
from tunefree.estimators.perceptron.base import (
    Fit,
    LinearDecisions,
    Separator,
    check_range,
    double,
    prepare,
    squared_norms,
    status,
)
from tunefree.estimators.perceptron.from_source import OfSource
from tunefree.learners.perceptron.spaces import Linear
from tunefree.protocols import Source


class OptimisticPerceptron(OfSource, LinearDecisions, Separator):
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
        few rows support the margin; 'auto' starts with it and goes on with 'accelerated' beyond 300
        support rows. All are judged by the same bounds.
    step : {'adaptive', 'paper'} or float, default='adaptive'
        The data player's step: 'paper' is 1 / r^2, a float a multiple of it. 'adaptive' takes the
        longest for which the proof of the guarantee goes through; the guaranteed number of rounds T
        is that of the paper, and 2 + log2(T) more at most. For method='optimistic'.
    potential : {'entropy', 'euclidean'}, default='entropy'
        The data player's potential. For method='optimistic'.
    stop : {'separated', 'margin'}, default='separated'
        Stop at the first separator, or when the margin is known to `tol`.
    tol : float, default=0.01
        Relative width of the bounds, (upper - lower) / upper, for stop='margin'.
    margin : float, optional
        The smallest margin of interest, in the units of the rows (with the constant coordinate,
        see `intercept_scaling`). The fit gives up as soon as no separator can have it: when the
        upper bound is below, or at the round at which Theorem 3 promises a separator. By default
        1e-4 of the longest row, by the upper bound only; 0 never gives up.
    max_iter : int, default=10000
        Most rounds; each takes two products with the rows.
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
        `certified` says whether that is what `stop` asked for, or a proof that no separator has a
        margin above `margin`. Arrays, one entry a class against the rest, if there are several.
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
    Rows that no hyperplane separates: the upper bound falls to 0, `status_` says so, and the
    predictor with the fewest (weighted) errors is returned.
    Weights are the distribution p_0 (for 'min-norm' only whether they are 0 matters).
    Several classes are learned one against the rest.

    References
    ----------
    Hanashiro and Abernethy, "Linear Separation via Optimism", Algorithm 1, Theorems 1 to 3. The
    certificates, the adaptive step and the other methods are ours.

    Examples
    --------
    >>> from tunefree.datasets import make_perceptron_hard
    >>> X, y = make_perceptron_hard(8)
    >>> model = OptimisticPerceptron(step="paper", fit_intercept=False).fit(X, y)
    >>> model.n_updates_, model.n_operations_, model.separated_  # Perceptron: 21845 and 109230
    (489, 8810, True)
    """

    def __init__(
        self,
        method="optimistic",
        *,
        step="adaptive",
        potential="entropy",
        stop="separated",
        tol=1e-2,
        margin=None,
        max_iter=10_000,
        fit_intercept=True,
        intercept_scaling="auto",
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

    @told
    def fit(self, X, y, sample_weight=None):
        """Find separators.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            The prior p_0; whole weights are repetitions, rows of weight 0 are left out.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, signs, weights, alive, n_rows = prepare(self, X, y, sample_weight)
        dtype, X = X.dtype, double(X)
        bias = self._bias(squared_norms(X) if self.fit_intercept else 0.0)
        sources = (Whole(X, column[:, None], weights) for column in signs.T)
        self._fit_all(Linear(bias), sources, dtype, alive, n_rows)
        return self

    def _fit_all(self, space, sources, dtype, alive, n_rows):
        """Fit every class against the rest, each with a source of its own."""
        bias, d = space.bias, self.n_features_in_

        def publish(w):
            """Round as the published coefficients are: the bounds are for these."""
            coef = w[:d].astype(dtype).astype(np.float64)
            if bias == 0.0:
                return coef
            return np.append(coef, np.float64((bias * w[d]).astype(dtype)) / bias)

        watch = self._passes(len(self.classes_))
        fits = [self._solve(space, source, publish, watch) for source in sources]
        w = np.stack([f.w for f, _ in fits])
        self.coef_ = w[:, :d].astype(dtype)
        self.intercept_ = (bias * w[:, d] if bias else np.zeros(len(w))).astype(dtype)
        self.intercept_scale_ = bias
        self._publish(fits, alive, n_rows)

    def fit_blocks(self, blocks, classes):
        """Find separators of rows that are read anew in every pass and never kept.

        The learner's state has O(n_features) numbers; there are no `support_weights_`.

        Parameters
        ----------
        blocks : callable
            `blocks()` gives an iterable of (X, y) or (X, y, sample_weight), the same in each pass:
            dense or sparse pieces of a file, say.
        classes : array-like of shape (n_classes,)
            All labels that occur.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For another method or potential than the default, which keep a number for each row.

        Examples
        --------
        >>> X, y = np.array([[2.0, 1.0], [-1.0, -3.0], [1.0, 2.0]]), np.array([1, 0, 1])
        >>> model = OptimisticPerceptron()
        >>> model.fit_blocks(lambda: [(X[:2], y[:2]), (X[2:], y[2:])], classes=[0, 1]).separated_
        True
        """
        self._check_parameters()
        if (self.method, self.potential) != ("optimistic", "entropy"):
            raise ValueError("fit_blocks needs method='optimistic' and potential='entropy'.")
        self.classes_ = np.unique(classes)
        if len(self.classes_) < 2:
            raise ValueError(f"classes={list(self.classes_)} is not two classes or more.")
        largest = 0.0
        for X, _, weights in _Reread(blocks, self.classes_, 0).pieces():
            self.n_features_in_ = d = X.shape[1]
            largest = max(largest, np.max(squared_norms(X), where=weights > 0.0, initial=0.0))
        return self._stream(lambda k: _Reread(blocks, self.classes_, k, d), largest)

    def _stream(self, source_of, largest):
        """Play with O(n_features) numbers on `source_of(k)`, the rows as class k against the rest.

        `largest` is the largest squared norm of a row.
        """
        bias, goal, fits = self._bias(largest), self._goal(), []
        game, norm = self._game(Linear(bias), goal), Linear().norm
        for k in range(len(self.classes_)) if len(self.classes_) > 2 else [1]:
            result = runner(self)(game, game.init(), source_of(k), max_passes=self.max_iter + 1)
            s, c = result.state, result.state.certificate
            w = s.w if c.w is None else c.w
            w = w / (norm(w) or 1.0)
            fit = Fit(
                w, None, c.lower, c.upper, result.converged, s.n_updates, s.n_operations, s.n_sweeps
            )
            fits.append((fit, status(fit, goal.floor(s.radius))))
        w, d = np.stack([f.w for f, _ in fits]), self.n_features_in_
        self.coef_, self.intercept_ = w[:, :d], bias * w[:, d] if bias else np.zeros(len(w))
        self.intercept_scale_ = bias
        self._publish(fits)
        return self


@dataclass(frozen=True)
class _Reread(Source):
    """Rows that are read anew in every pass, as one class against the rest."""

    read: object
    classes: np.ndarray
    k: int
    n_features: int | None = None

    def pieces(self):
        """Checked (X, labels, weights)."""
        for X, y, *weights in self.read():
            X = check_array(X, accept_sparse="csr", dtype=np.float64, order="C")
            X = double(base.canonical(X))
            check_range(X)
            y = np.asarray(y)
            if not np.isin(y, self.classes).all():
                raise ValueError(f"y has labels that are not in classes={list(self.classes)}.")
            if self.n_features is not None and X.shape[1] != self.n_features:
                raise ValueError(f"X has {X.shape[1]} features in a later block, not the first's.")
            weights = np.ones(len(y)) if not weights else np.asarray(weights[0], np.float64)
            if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
                raise ValueError("sample_weight has entries that are negative or not finite.")
            yield X, y, weights

    def blocks(self, epoch):
        """The blocks of a pass."""
        start, positive = 0, self.classes[self.k]
        for X, y, weights in self.pieces():
            signs = np.where(y == positive, 1.0, -1.0)[:, None]
            yield Block(X, None, signs, weights, start, epoch)
            start += len(y)
