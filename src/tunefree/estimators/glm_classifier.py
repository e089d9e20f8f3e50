"""Reflectron for labels: classification through a link, with the geometry as the regularizer."""

import numpy as np
from sklearn.utils.metaestimators import available_if

from tunefree.constraints.rules import is_odd
from tunefree.estimators import base
from tunefree.estimators.callbacks import told
from tunefree.estimators.fitting import new_columns
from tunefree.estimators.glm_base import Reflectron, validation_rows
from tunefree.estimators.glm_docs import documented
from tunefree.estimators.glm_parts import link_range
from tunefree.estimators.labels import stream_labels
from tunefree.links import target_margin


def _has_probabilities(estimator):
    if np.isfinite(estimator._levels()).all():
        return True
    raise AttributeError(f"predict_proba needs a link of bounded range, not {estimator.link!r}.")


@documented
class ReflectronClassifier(base.LabelsByDecisions, Reflectron):
    r"""Linear classification through a link, with no step size and no penalty to choose.

    Two classes are one output whose mean is the probability of the second; more are one output
    each, trained on one-hot targets. See `ReflectronRegressor` for the method.

    {parameters}
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; 'balanced' takes a stream's row by the counts up to it.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        The weight of the rows of each class.
    {fitted}

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero, a decreasing link, or
        a pair of constraint and potential without a rule.

    References
    ----------
    Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting geometry for learning generalized
    linear models", eq. 7-8; Boffi and Slotine 2020, appendix B.1
    (one-hot targets); the automatic step is this library's.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import ReflectronClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ReflectronClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

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
        class_weight=None,
    ):
        super().__init__(
            link,
            potential,
            constraint,
            step=step,
            weight=weight,
            feature_map=feature_map,
            solver=solver,
            average=average,
            batch_size=batch_size,
            init=init,
            validation_fraction=validation_fraction,
            n_splits=n_splits,
            patience=patience,
            tol=tol,
            max_iter=max_iter,
            fit_intercept=fit_intercept,
            standardize=standardize,
            keep_path=keep_path,
            warm_start=warm_start,
            random_state=random_state,
            per_output=per_output,
        )
        self.class_weight = class_weight

    @told
    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Rows to choose on, in place of a share held out.

        Returns
        -------
        self
        """
        self._check(self.solver == "batch")
        X, y = base.check_rows_and_targets(self, X, y)
        weights = base.check_weights(sample_weight, X)
        base.encode_labels(y[weights > 0.0], fewest=2)
        classes, codes = base.encode_labels(y)
        counts = np.bincount(codes, weights)
        weights = base.balanced(self.class_weight, classes, codes, weights)
        validation = None
        if X_val is not None:
            X_val, y_val = validation_rows(self, X_val, y_val), np.asarray(y_val)
            if not np.isin(y_val, classes).all():
                raise ValueError("y_val has classes that y has not.")
            y_val = self._targets(np.searchsorted(classes, y_val), len(classes))
            validation = X_val, y_val, np.ones(X_val.shape[0])
        self.classes_, self.class_count_ = classes, counts
        self._fit(X, self._targets(codes, len(classes)), weights, codes, validation)
        return self

    @base.all_or_nothing
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from the next rows of a stream, one stochastic step each (or a few together).

        Rows are taken in one unit for all columns, learned from the first 64 (``standardize``).
        Every row is predicted before it is learned; these risks choose among potentials and steps.
        The chunks' sizes make no difference.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that may come, in the first call. Without them classes may appear at any
            time, at the cost of one more output: a late class begins as one that has seen every
            row so far as one of the others. This needs outputs that learn on their own: a
            separable potential without a constraint, or ``per_output``.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        reset = "link_" not in vars(self)
        X, y = base.check_rows_and_targets(self, X, y, reset=reset)
        weights = base.check_weights(sample_weight, X)
        stream, known = (None, None) if reset else (self._stream, self.classes_)
        is_open = classes is None if reset else stream is not None and stream.is_open
        every, codes, weights, counts = stream_labels(self, y, weights, classes, known)
        closed = None if is_open else np.unique(classes) if reset else known
        if closed is not None and not np.array_equal(every, closed):
            raise ValueError(
                f"y or classes have labels beyond {closed}, those of the first call: a stream that "
                "is to meet more must begin with partial_fit without classes."
            )
        if not reset and len(every) > len(known):
            self._stream = self._more_outputs(stream, known, every)
        targets = self._targets(codes, len(every))
        if is_open:
            targets = np.hstack([targets, np.full((len(y), 1), self._ends()[0])])
        self._learn(X, targets, weights, False, is_open)
        self.classes_, self.class_count_ = every, counts
        return self

    def _more_outputs(self, stream, known, every):
        """Outputs for classes that come late, each from the one that has seen none of its rows."""
        (index, sign), ends = new_columns(known, every), sum(self._ends())
        link, s = stream.runs[0].learner.link, np.array([0.3, 1.0, 3.0])
        mirrored = np.allclose(link.mean(s) + link.mean(-s), ends) and all(
            is_odd(c.potential) and c.constraint is None
            for c in (run.configuration for run in stream.runs)
        )
        if min(sign) < 0.0 and not mirrored:
            raise ValueError(
                f"The one output of the classes {known} has no mirror image here: announce all "
                "classes in the first call of partial_fit."
            )
        return stream.outputs(index, sign, ends)

    def _levels(self):
        """The means that stand for 'no' and 'yes': the ends of the link's range."""
        return np.array(link_range(self.link, (0.0, 1.0)), dtype=float)

    def _ends(self):
        low, high = self._levels()
        low = low if np.isfinite(low) else -1.0
        return low, high if np.isfinite(high) else low + 2.0

    def _targets(self, codes, n_classes):
        low, high = self._ends()
        return np.where(base.signs(codes, n_classes) > 0.0, high, low)

    def decision_function(self, X):
        """Margins above the middle of the link's range: (n_samples,), or one a class."""
        margins = self._margins(X)
        middle = 0.5 * sum(self._ends())
        if hasattr(self.link_, "inverse"):
            margins = margins - target_margin(self.link_, middle)
        else:
            margins = self.link_.mean(margins) - middle
        margins = margins.astype(self.coef_.dtype, copy=False)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Means of the model, as shares of the link's range; of several classes, made to sum to 1.

        Shape (n_samples, n_classes).
        """
        margins = self._margins(X)
        means = np.asarray(self.link_.mean(margins), dtype=np.float64)
        low, high = self._levels()
        p = (means - low) / (high - low)
        if p.shape[1] == 1:
            p = np.hstack([1.0 - p, p])
        else:
            total = p.sum(axis=1, keepdims=True)
            p = np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0.0)
        return p.astype(self.coef_.dtype, copy=False)
