"""Rosenblatt's Perceptron, with its work counted."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tunefree.engine.run import run
from tunefree.engine.sources import Whole
from tunefree.estimators.callbacks import told
from tunefree.estimators.perceptron.base import (
    Hyperplanes,
    LinearDecisions,
    check_positive,
    double,
    prepare,
    squared_norms,
)
from tunefree.learners.perceptron.classical import Classical

# Stored entries that the compiled loop visits before it looks up.
_STRETCH = 50_000_000


class ClassicalPerceptron(LinearDecisions, Hyperplanes):
    r"""Rosenblatt's Perceptron, with its work counted: the baseline of the optimistic one.

    Rows are visited in order, cyclically; a row with :math:`y \langle w, x \rangle \le 0` is added,
    w += y x, until all rows in succession are right. On separable rows there are at most
    (r / margin)^2 updates; on others the fit ends at `max_iter`.

    Parameters
    ----------
    max_iter : int, default=1000
        Most passes over the rows.
    fit_intercept : bool, default=True
        Learn an intercept, as the weight of one more, constant coordinate.
    intercept_scaling : 'auto' or float, default='auto'
        Value of that coordinate; 'auto' is the norm of the longest row.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    separated_ : bool or ndarray of shape (n_classes,)
        Whether all rows in succession were right.
    n_updates_ : int
        Updates of the weight vector, summed over the classes.
    n_operations_ : int
        Inner products and updates, summed over the classes.
    n_iter_ : int
        Passes over the rows, the last one rounded up.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

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
    >>> from tunefree import ClassicalPerceptron
    >>> from tunefree.datasets import make_perceptron_hard
    >>> X, y = make_perceptron_hard(6)
    >>> model = ClassicalPerceptron(max_iter=10**6, fit_intercept=False).fit(X, y)
    >>> model.n_updates_, (4**6 - 1) // 3
    (1365, 1365)
    """

    def __init__(self, *, max_iter=1000, fit_intercept=True, intercept_scaling="auto"):
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling

    @told
    def fit(self, X, y):
        """Find separators.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        check_positive(max_iter=self.max_iter)
        if self.intercept_scaling != "auto":
            check_positive(intercept_scaling=self.intercept_scaling)
        X, signs, weights, _, n_rows = prepare(self, X, y, None)
        dtype, X = X.dtype, double(X)
        bias = self._bias(squared_norms(X) if self.fit_intercept else 0.0)
        stretch = int(np.clip(_STRETCH // max(X.size, 1), 1, max(self.max_iter - 1, 1)))
        learner, d = Classical(bias, stretch), X.shape[1]
        # The first pass is a single one; what does not fill a stretch comes last.
        stretches, rest = divmod(self.max_iter - 1, stretch)
        states, separated, ended = [], [], False
        watch = self._told.passes(signs.shape[1] * (stretches + 2))
        for column in signs.T:
            source = Whole(X, column[:, None], weights)
            result = run(learner, learner.init(d), source, max_passes=1 + stretches, **watch)
            if rest and not (result.converged or result.stopped):
                last = learner._replace(cycles=rest)
                result = run(last, result.state, source, max_passes=1, **watch)
            ended |= result.stopped
            states.append(result.state)
            separated.append(result.converged)
        w = np.stack([s.w for s in states])
        self.coef_ = w[:, :d].astype(dtype)
        self.intercept_ = (bias * w[:, d] if bias else np.zeros(len(w))).astype(dtype)
        self.separated_ = separated[0] if len(separated) == 1 else np.array(separated)
        self.n_updates_ = sum(s.n_updates for s in states)
        self.n_operations_ = sum(s.n_operations for s in states)
        products = max(s.n_operations - s.n_updates for s in states)
        self.n_iter_ = -(-products // n_rows)
        if not (ended or all(separated)):
            warnings.warn(
                f"max_iter={self.max_iter} passes did not separate the rows.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self
