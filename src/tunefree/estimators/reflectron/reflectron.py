"""The Reflectron: the papers' algorithm, for any link, potential and step."""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from tunefree.estimators import base
from tunefree.estimators.fitting import report_progress
from tunefree.estimators.reflectron.descent import Training, link_range
from tunefree.estimators.reflectron.linear import (
    COMMON,
    FITTED,
    GEOMETRY,
    MirrorClassifier,
    MirrorRegressor,
    documented,
    share_outside,
    warn_outside,
)
from tunefree.families import Matching
from tunefree.links import LINKS
from tunefree.potentials import Potential
from tunefree.protocols import (
    Auto,
    Average,
    AverageName,
    AverageWithin,
    Link,
    LinkName,
    MatrixLike,
    PotentialName,
    Seed,
    TargetLike,
)

_LINK = """link : str, link or None, default=None
        The mean u of the model: a name of `tunefree.links.LINKS`, one of its parts, or any object
        with a nondecreasing ``mean(s)``. None is"""

_STEPS = """step : 'auto', float > 0, name or list, default='auto'
        The names are 'theorem-4.1', 'theorem-5.1' and 'theorem-5.2': steps computed from the
        longest row and the potential's convexity, safe and slow. In stochastic form 'auto' tries
        several multiples of Theorem 5.2's step. Every combination of potential, constraint and step
        is learned, all in the same passes.
    solver : {'auto', 'batch', 'stochastic'}, default='auto'
        Full batches, or passes of steps of ``batch_size`` rows. 'auto' is 'batch', and for a source
        that can be read once only 'stochastic'; `partial_fit` is stochastic.
    average : {'auto', 'uniform', 'polynomial', 'geometric', 'last'} or scheme, default='auto'
        Which average of the stochastic iterates to read; 'auto' is 'uniform'.
    batch_size : int, default=1
        Rows a stochastic step. With 1, a step costs only the entries of its row, unless there is
        a constraint other than 'non_negative' or 'box'.
    feature_map : callable, transformer, kernel or str, optional
        Features in place of the columns: a function of rows, an object with ``fit`` and
        ``transform``, or a part of `tunefree.kernels` or its name (the Alphatron, whose potential
        is the Euclidean one). Kernels compare rows in standardised columns; 'rbf' and 'laplacian'
        have the median distance as bandwidth."""

_SEED = """random_state : int, RandomState or None, default=None
        Seed of the hash by which rows are held out."""

_TEXTS = {
    "link": _LINK,
    "geometry": GEOMETRY.replace("{also}", ""),
    "steps": _STEPS,
    "common": COMMON,
    "seed": _SEED,
    "fitted": "feature_map_ : fitted map or None\n    " + FITTED,
}


class _Settings:
    """The settings of both Reflectrons."""

    def __init__(
        self,
        link: LinkName | Link | None = None,
        *,
        potential: PotentialName | Auto | Potential = "auto",
        constraint: Any = None,
        step: Any = "auto",
        solver: Literal["auto", "batch", "stochastic"] = "auto",
        average: AverageName | Auto | Average | AverageWithin = "auto",
        batch_size: int = 1,
        feature_map: Any = None,
        fit_intercept: bool = True,
        standardize: bool | Auto = "auto",
        max_iter: int | Auto = "auto",
        random_state: Seed = None,
    ):
        self.link = link
        self.potential = potential
        self.constraint = constraint
        self.step = step
        self.solver = solver
        self.average = average
        self.batch_size = batch_size
        self.feature_map = feature_map
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.max_iter = max_iter
        self.random_state = random_state


@documented(**_TEXTS)
class ReflectronRegressor(_Settings, MirrorRegressor):
    r"""The Reflectron for numbers: mirror descent on a link's own matching loss.

    .. math:: \nabla\psi(\theta_{t+1}) = \nabla\psi(\theta_t)
        - \frac{\lambda}{n} \sum_i \left(u(\langle\theta_t, x_i\rangle) - y_i\right) x_i

    Targets need no distribution: E[y | x] = u(<theta, x> + b) is all that is assumed. The potential
    decides which of the predictors that fit is found; held-out rows choose the potential and when
    to stop. For families, exposures and inference see `GLMRegressor`.

    Parameters
    ----------
    {link} 'identity'.
    {geometry}
    {steps}
    {common}
    {seed}

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
        If most targets lie outside the range of the link.

    References
    ----------
    Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting geometry for learning generalized
    linear models", eq. 7-8 and section 6; the automatic step is this library's.

    Examples
    --------
    >>> from tunefree import ReflectronRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 50))
    >>> y = 1 / (1 + np.exp(-4 * X[:, 0]))
    >>> model = ReflectronRegressor(link="logit", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    def _law(self, y=None):
        return Matching(), LINKS["identity"] if self.link is None else LINKS.find(self.link)

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        X_val: MatrixLike = None,
        y_val: TargetLike = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Validation rows, in place of held-out rows.

        Returns
        -------
        self
        """
        X, y = base.check_rows_and_targets(self, X, y, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        setup = self._setup(self._law())
        warn_outside(share_outside(targets, setup.link), setup.link)
        validation = self._validation(X_val, y_val, setup.family)
        self._flat = np.ndim(y) == 1
        return self._fit(setup, Training(X, targets, weights, validation=validation))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Expected targets, shape (n_samples,) or (n_samples, n_targets)."""
        margins = self._margins(X)
        mean = np.asarray(self.link_.mean(margins))
        mean = mean.astype(self.coef_.dtype, copy=False)
        return mean[:, 0] if self.coef_.ndim == 1 else mean

    def _evaluated(self, result, held, terms):
        predictions = np.asarray(self.link_.mean(held.indices))
        return result, base.held_out_predictions(predictions, held.targets, held.weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The means of a bounded link cannot fit targets of any size.
        tags.regressor_tags.poor_score = bool(np.isfinite(link_range(self._law()[1])).any())
        return tags


@documented(**_TEXTS)
class ReflectronClassifier(_Settings, MirrorClassifier):
    r"""The Reflectron for classes: mirror descent on one-hot targets, through any link.

    Two classes are one output, whose mean is the probability of the second class; of more classes
    each is one output. For a softmax, ordered classes and inference see `GLMClassifier`; for the
    method `ReflectronRegressor`.

    Parameters
    ----------
    {link} 'logit'.
    {geometry}
    {steps}
    {common}
    {seed}

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
    linear models", eq. 7-8; Boffi and Slotine 2020, appendix B.1 (one-hot targets); the automatic
    step is this library's.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import ReflectronClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ReflectronClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    def _law(self, y=None):
        return Matching(), self._link()

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        X_val: MatrixLike = None,
        y_val: TargetLike = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Validation rows, in place of held-out rows.

        Returns
        -------
        self
        """
        return self._fit_labels(X, y, sample_weight, X_val, y_val)
