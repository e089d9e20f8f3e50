"""Reflectron for targets: generalized linear models whose geometry is the regularizer."""

import warnings

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from tunefree.estimators import base
from tunefree.estimators.callbacks import told
from tunefree.estimators.glm_base import Reflectron, validation_rows
from tunefree.estimators.glm_docs import documented
from tunefree.estimators.glm_parts import link_range


@documented
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
    {fitted}

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

    @told
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
        self._flat = np.ndim(y) == 1
        self._fit(X, targets, weights, np.zeros(len(targets)), validation)
        self._flatten()
        return self

    @base.all_or_nothing
    def partial_fit(self, X, y, sample_weight=None):
        """Learn from the next rows of a stream, one stochastic step each (or a few together).

        Rows are taken in one unit for all columns, learned from the first 64 (``standardize``).
        Every row is predicted before it is learned; these risks choose among potentials and steps.
        The chunks' sizes make no difference.

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
