"""The paper's first baseline in a feature space: averaged SGD with a constant step."""

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tunefree._parameters import is_number
from tunefree.averaging import scheme_of, within
from tunefree.estimators import base
from tunefree.estimators.callbacks import told
from tunefree.estimators.kernel.baselines import Baseline, BaselineClassifier
from tunefree.learners.pistol.isotropic import Isotropic
from tunefree.learners.pistol.rules import ConstantStep
from tunefree.losses import make_loss
from tunefree.robust import location_and_scale


class _SGD(Baseline):
    def __init__(
        self,
        kernel="rbf",
        gamma="scale",
        *,
        degree=3,
        coef0=1,
        step=0.25,
        loss="squared",
        average="uniform",
        max_iter=1,
        precision="auto",
        shuffle=True,
        n_jobs=None,
        random_state=None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.step = step
        self.loss = loss
        self.average = average
        self.max_iter = max_iter
        self.precision = precision
        self.shuffle = shuffle
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _step(self):
        if not (is_number(self.step) and self.step > 0):
            raise ValueError(f"step={self.step!r} is not a positive number.")
        return float(self.step)

    def _scheme(self, n):
        return within(scheme_of(self.average), n)


class KernelAveragedSGDClassifier(BaselineClassifier, _SGD):
    r"""Averaged kernel SGD with a constant step (the paper's Algorithm 1), for comparison.

    :math:`f_{t+1} = f_t - \eta\, \ell'(f_t(x_t), y_t)\, k(x_t, \cdot)` from f_1 = 0, and the
    predictor is an average of the iterates. Step and number of passes are the user's to choose,
    which is what `KernelPiSTOLClassifier` does away with.

    Parameters
    ----------
    kernel : str or callable, default='rbf'
        See `KernelPiSTOLClassifier`, as for all parameters that are not named here.
    gamma : 'auto', 'scale' or float, default='scale'
        'auto' learns the grid of bandwidths and takes that of the least progressive error.
    degree, coef0 : float, default=3 and 1
    step : float, default=0.25
        In units of 1 / (the largest k(x, x)).
    loss : {'squared', 'hinge', 'logistic', ...} or part, default='squared'
        'squared' is (1 - y f)^2.
    average : {'uniform', 'polynomial', 'geometric', 'last', 'tail'} or part, default='uniform'
        A scheme of `tunefree.averaging`, such as ``Geometric(rate=0.01)``.
    max_iter : int, default=1
        Passes.
    precision : {'auto', 'single', 'double'}, default='auto'
    shuffle : bool, default=True
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_, gamma_, support_, coordinates_, expansion_, leaderboard_, n_iter_
        See `KernelPiSTOLClassifier`.
    trace_ : dict
        'rows' and the progressive errors of the running average and of the last iterate.
    n_features_in_ : int

    Raises
    ------
    ValueError
        As `KernelPiSTOLClassifier`, and for a step that is not positive.

    References
    ----------
    Orabona 2014, Algorithm 1 and equation 3; Neu and Rosasco 2018 for geometric averages.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import KernelAveragedSGDClassifier
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.hypot(*X.T) > 1.2
    >>> model = KernelAveragedSGDClassifier(loss="hinge", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    @told
    def fit(self, X, y, sample_weight=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        loss, step = make_loss(self.loss, "classification"), self._step()
        self._scheme(1)
        prepared = self._prepare(X, y, sample_weight)
        problem, data, engine, kernels = self._run(
            *prepared,
            lambda largest, n: Isotropic(ConstantStep(step / largest), loss, self._scheme(n)),
            classify=True,
        )
        self._publish(problem, data, engine, kernels, [engine.mean(0)])
        return self


class KernelAveragedSGDRegressor(RegressorMixin, MultiOutputMixin, _SGD):
    r"""Averaged kernel SGD with a constant step (the paper's Algorithm 1) for regression.

    Parameters
    ----------
    kernel : str or callable, default='rbf'
        All parameters are those of `KernelAveragedSGDClassifier`; targets are learned in units of a
        robust scale about their median.
    gamma : 'auto', 'scale' or float, default='scale'
    degree, coef0 : float, default=3 and 1
    step : float, default=0.25
    loss : {'squared', 'huber', 'absolute', 'epsilon_insensitive'} or part, default='squared'
    average : str or part, default='uniform'
    max_iter : int, default=1
    precision : {'auto', 'single', 'double'}, default='auto'
    shuffle : bool, default=True
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    intercept_ : float or ndarray of shape (n_targets,)
        Medians of the targets.
    scale_ : ndarray of shape (n_targets,)
        Their robust scales.
    dual_coef_, gamma_, support_, coordinates_, expansion_, leaderboard_, trace_, n_iter_
        See `KernelAveragedSGDClassifier`.
    n_features_in_ : int

    Raises
    ------
    ValueError
        As `KernelPiSTOLRegressor`, and for a step that is not positive.

    References
    ----------
    Orabona 2014, Algorithm 1 and equation 3.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import KernelAveragedSGDRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (300, 1))
    >>> y = np.sin(X[:, 0])
    >>> model = KernelAveragedSGDRegressor(gamma=1.0, max_iter=10, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    @told
    def fit(self, X, y, sample_weight=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        loss, step = make_loss(self.loss, "regression"), self._step()
        kernel = self._check_baseline()
        self._scheme(1)
        X, y = base.check_rows_and_targets(self, X, y, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X)
        self._check_values(kernel, X)
        kept = np.flatnonzero(weights)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)[kept]
        X = X if len(kept) == X.shape[0] else X[kept]
        m, s = location_and_scale(np.unique(targets, axis=0))
        problem, data, engine, kernels = self._run(
            kernel, X, (targets - m) / s, targets, weights[kept], kept,
            lambda largest, n: Isotropic(ConstantStep(step / largest), loss, self._scheme(n)),
            classify=False,
        )  # fmt: skip
        self._publish(problem, data, engine, kernels, [engine.mean(0)])
        self.scale_ = s.astype(X.dtype)
        self.intercept_ = X.dtype.type(m[0]) if np.ndim(y) == 1 else m.astype(X.dtype)
        return self

    def predict(self, X):
        """Predicted targets, shape (n_samples,) or (n_samples, n_targets)."""
        check_is_fitted(self, "expansion_")
        y = self._values(X) * self.scale_ + self.intercept_
        return y[:, 0] if np.ndim(self.intercept_) == 0 else y
