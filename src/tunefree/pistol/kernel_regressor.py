"""Kernel PiSTOL for numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from tunefree.base import base
from tunefree.base.locks import all_or_nothing
from tunefree.core.protocols import (
    Auto,
    Average,
    AverageName,
    AverageWithin,
    Kernel,
    KernelName,
    Loss,
    LossOfNumbers,
    MatrixLike,
    Seed,
    TargetLike,
)
from tunefree.parts.losses import make_loss, within
from tunefree.pistol.kernel_estimator import RULE, KernelRegressor, LearnsKernelStreams, Standard
from tunefree.pistol.linear import Isotropic
from tunefree.rows.matrices import as_columns
from tunefree.rows.outliers import DELTA
from tunefree.rows.row_labels import matched_by_place


class KernelPiSTOLRegressor(LearnsKernelStreams, KernelRegressor):
    r"""Kernel regression that needs no tuning: parameter-free learning in feature space.

    The predictor is :math:`f(x) = m + s \sum_i c_i k(x_i, x)`, learned as in
    `KernelPiSTOLClassifier` from targets in units of a robust scale s about their median m. The
    squared loss is linear beyond 4 s, which bounds the influence of one row. Read-outs of the best
    three bandwidths after 1 to 30 passes are averaged with weights by their held-out errors.

    Parameters
    ----------
    kernel : str or callable, default='rbf'
        See `KernelPiSTOLClassifier`, as for all parameters that are not named here.
    gamma : 'auto', 'scale' or float, default='auto'
    degree, coef0 : float, default=3 and 1
    loss : str or part of `tunefree.parts.losses`, default='squared_error'
        'squared_error', 'huber', 'absolute_error', 'epsilon_insensitive', or a part. The squared
        error is linear beyond 4 robust standard deviations of the target, 'huber' beyond 1.345;
        'epsilon_insensitive' has the width 0.1. Units are robust standard deviations of the target.
    average : str or part, default='auto'
    max_iter : int or 'auto', default='auto'
        'auto' is up to 30 passes; with a single one no row is held out, as for the classifier.
    standardize : bool or 'auto', default='auto'
    precision : {'auto', 'single', 'double'}, default='auto'
    compress : None, True, float or int, default=None
        As for the classifier; the loss is the squared error.
    max_support : int or None, default=None
    shuffle : bool, default=True
    n_jobs : int or None, default=None
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_bandwidths, n_targets, n_support)
        Of the targets in units of `scale_`.
    scale_ : ndarray of shape (n_targets,)
        Robust scales of the targets.
    intercept_ : float or ndarray of shape (n_targets,)
        Medians of the targets.
    prediction_limits_ : ndarray of shape (2, n_targets)
        Predictions are clipped to the range of the targets within 4 s of m.
    gamma_, support_, coordinates_, expansion_, compression_, leaderboard_, trace_, n_iter_
        See `KernelPiSTOLClassifier`; errors are squared, in robust variances of the target.
    held_out_ : part
        Held-out predictions, from which `risk_interval_` and intervals are computed
        (docs/guide/sure.md).
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

    _ON_DEMAND = (*LearnsKernelStreams._ON_DEMAND, "scale_", "prediction_limits_", "intercept_")

    def __init__(
        self,
        kernel: KernelName | Callable | Kernel = "rbf",
        gamma: float | str = "auto",
        *,
        degree: float = 3,
        coef0: float = 1,
        loss: LossOfNumbers | Loss = "squared_error",
        average: AverageName | Auto | Average | AverageWithin = "auto",
        max_iter: int | Auto = "auto",
        standardize: bool | Auto = "auto",
        precision: Literal["auto", "single", "double"] = "auto",
        compress: float | None = None,
        max_support: int | None = None,
        shuffle: bool = True,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Seed = None,
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
        self.verbose = verbose
        self.random_state = random_state

    def _check(self):
        self._loss()
        return super()._check()

    def _loss(self):
        return make_loss(self.loss, "regression")

    def _learner(self, n_rounds, largest=1.0):
        loss = self._loss()
        return Isotropic(RULE, loss if np.isfinite(loss.bound()) else within(loss, DELTA))

    @all_or_nothing
    @matched_by_place
    def partial_fit(
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> Self:
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
        recipe = self._check()
        fresh = getattr(self, "_stream", None) is None
        X, y = base.check_rows_and_targets(self, X, y, reset=fresh, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X, stream=True)
        targets = as_columns(y)
        stream = self._opened(recipe, X, partial(Standard.of, tails=self._tails))
        base.check_n_targets(targets, stream.n_outputs())
        stream.learn(X, targets, weights, self.n_jobs)
        self._stream = stream
        self._flat = np.ndim(y) == 1
        self._dtype = X.dtype
        self._forget_read()
        return self

    def _read_stream(self):
        ready = self._stream.caught_up(self.n_jobs)
        m, s = ready.scale
        ends = np.array([m - DELTA * s, m + DELTA * s], dtype=self._dtype)
        self._publish_units(ready.scale, ends)
        outcome, board = ready.read()
        held_out = self._held_out_predictions(outcome, 1.0)
        self._publish_stream(ready, outcome, board, held_out)
