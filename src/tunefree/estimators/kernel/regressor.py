"""Kernel PiSTOL for regression, with targets of unknown location and scale."""

from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tunefree._array import seed_of
from tunefree.estimators import base
from tunefree.estimators.callbacks import told
from tunefree.estimators.kernel.base import KernelEstimator
from tunefree.estimators.kernel.fitting import Problem, without_absurd
from tunefree.estimators.pistol.fitting import is_dense, visits_of
from tunefree.learners.pistol.isotropic import Isotropic
from tunefree.learners.pistol.rules import DoWG, PiSTOL
from tunefree.losses import make_loss, within
from tunefree.robust import ABSURD, DELTA, location_and_scale, screened

_RULE = PiSTOL(a=0.25, squares=True)
_PASSES = 30


def squared_errors(decisions, targets):
    """Mean squared error of every row, over its targets."""
    return np.mean(np.square(decisions - np.clip(targets, -DELTA, DELTA)), axis=1)


def absolute_errors(decisions, targets):
    """Mean absolute error of every row, over its targets."""
    return np.mean(np.abs(decisions - targets), axis=1)


class Standard(NamedTuple):
    """Targets in units of a scale about a location."""

    m: np.ndarray
    s: np.ndarray

    def __call__(self, y):
        """Standardise."""
        return (y - self.m) / self.s


def _standard(targets, tails):
    return Standard(*location_and_scale(targets, tails=tails))


class KernelPiSTOLRegressor(RegressorMixin, MultiOutputMixin, KernelEstimator):
    r"""Kernel regression that needs no tuning: parameter-free learning in feature space.

    The predictor is :math:`f(x) = m + s \sum_i c_i k(x_i, x)`, learned as in
    `KernelPiSTOLClassifier` from targets in units of a robust scale s about their median m. The
    squared loss goes on linearly beyond 4 s, which bounds what one row can do. Read-outs of the
    best three bandwidths after 1 to 30 passes are averaged by their errors on left-out rows.

    Parameters
    ----------
    kernel : str or callable, default='rbf'
        See `KernelPiSTOLClassifier`, as for all parameters that are not named here.
    gamma : 'auto', 'scale' or float, default='auto'
    degree, coef0 : float, default=3 and 1
    loss : {'squared', 'huber', 'absolute', 'epsilon_insensitive'} or part, default='squared'
        'squared' is linear beyond 4 robust standard deviations of the target, 'huber' beyond 1.345;
        'epsilon_insensitive' has the width 0.1. Units are robust standard deviations of the target.
    average : {'auto', 'uniform', 'last-pass', 'last'}, default='auto'
    max_iter : int or 'auto', default='auto'
        'auto' is up to 30 passes; a single one leaves no row out, as for the classifier.
    standardize : bool or 'auto', default='auto'
    precision : {'auto', 'single', 'double'}, default='auto'
    compress : None, True, float or int, default=None
        As for the classifier; the loss is the squared error.
    max_support : int or None, default=None
    shuffle : bool, default=True
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_bandwidths, n_targets, n_support)
        Of the targets in units of `scale_`.
    scale_ : ndarray of shape (n_targets,)
        Robust scales of the targets.
    intercept_ : float or ndarray of shape (n_targets,)
        Medians of the targets.
    range_ : ndarray of shape (2, n_targets)
        Predictions are clipped to the range of the targets within 4 s of m.
    gamma_, support_, coordinates_, expansion_, compression_, leaderboard_, trace_, n_iter_
        See `KernelPiSTOLClassifier`; errors are squared, in robust variances of the target.
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, weights that are all zero, gamma <= 0, a kernel that is not symmetric
        or not finite, a precomputed one that is not square, or more rows than memory holds.

    References
    ----------
    Orabona 2014, Algorithm 3; the treatment of targets is this library's.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import KernelPiSTOLRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (300, 1))
    >>> y = 50 + np.sin(2 * X[:, 0])
    >>> model = KernelPiSTOLRegressor(random_state=0).fit(X[:200], y[:200])
    >>> bool(model.score(X[200:], y[200:]) > 0.99)
    True
    """

    _ON_DEMAND = (*KernelEstimator._ON_DEMAND, "scale_", "range_", "intercept_")

    def __init__(
        self,
        kernel="rbf",
        gamma="auto",
        *,
        degree=3,
        coef0=1,
        loss="squared",
        average="auto",
        max_iter="auto",
        standardize="auto",
        precision="auto",
        compress=None,
        max_support=None,
        shuffle=True,
        n_jobs=None,
        random_state=None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.average = average
        self.max_iter = max_iter
        self.standardize = standardize
        self.precision = precision
        self.compress = compress
        self.max_support = max_support
        self.shuffle = shuffle
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check(self):
        kernel = self._check_common()
        make_loss(self.loss, "regression")
        return kernel

    def _loss(self):
        loss = make_loss(self.loss, "regression")
        return loss if np.isfinite(loss.bound()) else within(loss, DELTA)

    @told
    def fit(self, X, y, sample_weight=None, held=None, like=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or the kernel's values, of shape (n_samples, n_samples), for kernel='precomputed'.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        held : array-like of bool of shape (n_samples,), optional
            Rows on which bandwidths and passes are chosen; by default every tenth, below 500
            rows up to every fourth.
        like : estimator, optional
            A fitted one of this class, of fewer rows, whose bandwidths are taken over. Columns are
            not scaled.

        Returns
        -------
        self
        """
        kernel = self._check()
        X, y = base.check_rows_and_targets(self, X, y, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X)
        self._check_values(kernel, X)
        kept = np.flatnonzero(weights)
        flat, targets = np.ndim(y) == 1, np.asarray(y, dtype=np.float64).reshape(len(y), -1)[kept]
        X = X if len(kept) == X.shape[0] else X[kept]
        visits, rows, _ = visits_of(
            X, targets, weights[kept], self.shuffle, seed_of(self.random_state),
            affine=is_dense(X),
        )  # fmt: skip
        targets = screened(targets, rows, ABSURD)
        m, s = location_and_scale(targets[rows], tails=self.loss != "huber")
        standard = (targets - m) / s
        problem = Problem(without_absurd(self, kernel, X, rows), visits, kept)
        errors = squared_errors if self.loss == "squared" else absolute_errors
        learner = Isotropic(_RULE, self._loss())
        coefs, publish, decisions, *_ = self._learn(
            kernel, problem, standard[problem.stored], learner, errors,
            classify=False, limit=_PASSES, rivals=[learner._replace(rule=DoWG())],
            held=held, like=like,
        )  # fmt: skip
        self._stream = None
        publish(coefs)
        limited = np.clip(standard, -DELTA, DELTA) * s + m
        self.range_ = np.array([limited.min(axis=0), limited.max(axis=0)], dtype=X.dtype)
        self.scale_ = s.astype(X.dtype)
        self.intercept_ = X.dtype.type(m[0]) if flat else m.astype(X.dtype)
        if held is not None:
            self._recall(np.clip(decisions * s + m, *self.range_))
        return self

    @base.all_or_nothing
    def partial_fit(self, X, y, sample_weight=None):
        """Learn from the next chunk of a stream, in the order given.

        Columns' scaling, the bandwidths and the targets' location and scale come from the first 128
        rows. The chunks' sizes make no difference, to the last bit. After `fit` it starts a new
        model, with a warning.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        kernel, old = self._check(), getattr(self, "_stream", None)
        X, y = base.check_rows_and_targets(
            self, X, y, reset=old is None, multi_output=True, numeric=True
        )
        weights = base.check_weights(sample_weight, X)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        learner, tails = Isotropic(_RULE, self._loss()), self.loss != "huber"
        stream = self._open_stream(
            kernel, X, learner, classify=False,
            targets=partial(_standard, tails=tails),
        )  # fmt: skip
        known = stream.n_outputs()
        if known not in (None, targets.shape[1]):
            raise ValueError(f"y has {targets.shape[1]} targets, but this model learns {known}.")
        stream.learn(X, targets, weights, self.n_jobs)
        self._stream, self._flat = stream, np.ndim(y) == 1
        self._dtype = X.dtype
        self._forget_read()
        return self

    def _read_stream(self):
        ready = self._stream.caught_up(self.n_jobs)
        m, s = ready.scale
        self.scale_, self.range_ = s.astype(self._dtype), np.array([m - DELTA * s, m + DELTA * s])
        self.intercept_ = self._dtype.type(m[0]) if self._flat else m.astype(self._dtype)
        # Last: where there is an expansion, another thread takes the rest to be there.
        self._publish_reading(ready, ready.read())

    def predict(self, X):
        """Targets, within the range of those seen, of shape (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or kernel values of shape (n_samples, n_samples_fit) for kernel='precomputed'.
        """
        check_is_fitted(self, "expansion_")
        y = np.clip(self._values(X) * self.scale_ + self.intercept_, *self.range_)
        return y[:, 0] if np.ndim(self.intercept_) == 0 else y
