"""Reflectron: generalized linear models whose geometry is the regularizer."""

import warnings

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from tunefree.estimators import base
from tunefree.estimators.glm_base import Reflectron, validation_rows
from tunefree.estimators.glm_docs import with_parameters
from tunefree.estimators.glm_parts import link_range
from tunefree.links import target_margin


@with_parameters
class ReflectronRegressor(RegressorMixin, MultiOutputMixin, Reflectron):
    r"""Generalized linear regression E[y | x] = u(<theta, x> + b), with no step size to choose.

    Mirror descent along the pseudogradient (u(s) - y) x, in several geometries at once: the
    potential decides which of the predictors that fit is found, in place of a penalty, and rows
    held out decide which potential, and when to stop. The default step needs no constant.

    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
    n_iter_ : int
        Passes over the rows, rejected trials included.
    link_ : part
        The link in use.
    potential_, constraint_ : the chosen parts
    feature_map_ : fitted map or None
    leaderboard_ : list of dict
        Every configuration's lowest hold-out risk and the time that had it (the sum of steps; in
        stochastic form passes, on a stream rows), the best first.
    trace_ : dict of ndarray of shape (n_passes, n_configurations)
        'risk' (mean squared error on the rows learned from), 'held_risk' (on the rows held out),
        'time', 'step', and 'move', the symmetric Bregman divergence of the last step. In stochastic
        form 'held_risk' only, NaN after a run has ended.
    coef_path_ : ndarray of shape (n_passes, n_configurations, n_outputs, n_features)
        If kept.
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, weights that are all zero, a decreasing link, or a pair of constraint
        and potential without a rule. Targets outside the link's range are accepted.

    Warns
    -----
    UserWarning
        If most targets lie outside the link's range: real targets want ``link='identity'``.

    References
    ----------
    Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting geometry for learning generalized
    linear models", eq. 7-8 and section 6; the automatic step is this library's.

    Examples
    --------
    >>> from tunefree import ReflectronRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 50))
    >>> y = 1 / (1 + np.exp(-4 * X[:, 0]))
    >>> model = ReflectronRegressor(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    @base.all_or_nothing
    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Rows to choose on, in place of a share held out.

        Returns
        -------
        self
        """
        self._check(self.solver == "batch")
        X, y = base.check_rows_and_targets(self, X, y, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        low, high = link_range(self.link)
        self._warn_outside(np.mean((targets < low) | (targets > high)))
        validation = None
        if X_val is not None:
            X_val = validation_rows(self, X_val, y_val)
            y_val = np.asarray(y_val, dtype=np.float64).reshape(X_val.shape[0], -1)
            validation = X_val, y_val, np.ones(X_val.shape[0])
        self._fit(X, targets, weights, np.zeros(len(targets)), validation)
        if np.ndim(y) == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    @base.all_or_nothing
    def partial_fit(self, X, y, sample_weight=None):
        """Learn from the next rows of a stream, one stochastic step each (or a few together).

        Columns are taken in the units given. Every row is predicted before it is learned; these
        risks choose among potentials and steps. The chunks' sizes make no difference.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        reset = "link_" not in vars(self)
        X, y = base.check_rows_and_targets(self, X, y, reset=reset, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        self._learn(X, targets, weights, np.ndim(y) == 1)
        return self

    def _warn_outside(self, share):
        if share > 0.5:
            low, high = link_range(self.link)
            warnings.warn(
                f"Most targets lie outside the range [{low:g}, {high:g}] of link={self.link!r}, "
                "whose predictions never leave it: real targets want link='identity'.",
                UserWarning, stacklevel=4,
            )  # fmt: skip

    def predict(self, X):
        """Expected targets, shape (n_samples,) or (n_samples, n_targets)."""
        margins = self._margins(X)
        mean = np.asarray(self.link_.mean(margins))
        mean = mean.astype(self.coef_.dtype, copy=False)
        return mean[:, 0] if self.coef_.ndim == 1 else mean

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # A bounded link cannot follow targets of any size.
        tags.regressor_tags.poor_score = bool(np.isfinite(link_range(self.link)).any())
        return tags


def _has_probabilities(estimator):
    if np.isfinite(estimator._levels()).all():
        return True
    raise AttributeError(f"predict_proba needs a link of bounded range, not {estimator.link!r}.")


@with_parameters
class ReflectronClassifier(ClassifierMixin, Reflectron):
    r"""Linear classification through a link, with no step size and no penalty to choose.

    Two classes are one output whose mean is the probability of the second; more are one output
    each, trained on one-hot targets. See `ReflectronRegressor` for the method.

    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Passes over the rows, rejected trials included.
    link_ : part
        The link in use.
    potential_, constraint_ : the chosen parts
    feature_map_ : fitted map or None
    leaderboard_ : list of dict
        Every configuration's lowest hold-out risk and the time that had it (the sum of steps; in
        stochastic form passes, on a stream rows), the best first.
    trace_ : dict of ndarray of shape (n_passes, n_configurations)
        'risk' (mean squared error on the rows learned from), 'held_risk' (on the rows held out),
        'time', 'step', and 'move', the symmetric Bregman divergence of the last step. In stochastic
        form 'held_risk' only, NaN after a run has ended.
    coef_path_ : ndarray of shape (n_passes, n_configurations, n_outputs, n_features)
        If kept.
    n_features_in_ : int

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

    @base.all_or_nothing
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
        classes, codes = base.encode_labels(y)
        if len(np.unique(codes[weights > 0.0])) < 2:
            raise ValueError(
                f"y has only one class ({classes[0]}): a classifier needs rows of at least two."
            )
        validation = None
        if X_val is not None:
            X_val, y_val = validation_rows(self, X_val, y_val), np.asarray(y_val)
            if not np.isin(y_val, classes).all():
                raise ValueError("y_val has classes that y has not.")
            y_val = self._targets(np.searchsorted(classes, y_val), len(classes))
            validation = X_val, y_val, np.ones(X_val.shape[0])
        self.classes_ = classes
        self._fit(X, self._targets(codes, len(classes)), weights, codes, validation)
        return self

    @base.all_or_nothing
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from the next rows of a stream, one stochastic step each (or a few together).

        Columns are taken in the units given. Every row is predicted before it is learned; these
        risks choose among potentials and steps. The chunks' sizes make no difference.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that may come; needed in the first call.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        reset = "link_" not in vars(self)
        X, y = base.check_rows_and_targets(self, X, y, reset=reset)
        weights = base.check_weights(sample_weight, X)
        if reset and classes is None:
            raise ValueError("The first call of partial_fit needs classes: all labels to come.")
        known = np.unique(classes) if reset else self.classes_
        if len(known) < 2:
            raise ValueError(f"classes has only {len(known)} label: a classifier needs two.")
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(f"classes={classes!r} differ from those of the first call.")
        if not np.isin(y, known).all():
            raise ValueError("y has labels that are not among the classes of the first call.")
        targets = self._targets(np.searchsorted(known, y), len(known))
        self._learn(X, targets, weights, False)
        self.classes_ = known
        return self

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

    def predict(self, X):
        """Labels, shape (n_samples,)."""
        decisions = self.decision_function(X)
        codes = (decisions > 0.0).astype(int) if decisions.ndim == 1 else decisions.argmax(axis=1)
        return self.classes_[codes]

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
