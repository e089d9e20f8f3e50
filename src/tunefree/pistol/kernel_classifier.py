"""Kernel PiSTOL for classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.locks import all_or_nothing
from tunefree.base.uncertainty_mixins import PredictsSets, RiskIntervalMixin
from tunefree.core.protocols import (
    Auto,
    Average,
    AverageName,
    AverageWithin,
    Kernel,
    KernelName,
    Loss,
    LossOfClasses,
    MatrixLike,
    Seed,
    TargetLike,
)
from tunefree.parts.losses import LOSSES, check_bounded, make_loss
from tunefree.pistol.bounds import run_regret
from tunefree.pistol.kernel_estimator import RULE, KernelClassifier, LearnsKernelStreams
from tunefree.pistol.linear import SETTINGS, Isotropic
from tunefree.pistol.linear_regret import NO_RULE
from tunefree.rows.row_labels import matched_by_place

_STREAM = "regret_bound is not available for a stream: use fit."
_PROVED = ("theorem-1", "guaranteed")
_NAMED = ("paper", *_PROVED, "global", "dowg")


def _regret(engine):
    """For each member that learned all rows its bandwidth and regret."""
    return tuple(
        (
            None if m.gamma is None else float(m.gamma),
            m.learner.rule.regret(s.scalars, s.shared, m.learner.loss.bound()),
        )
        for m, s in zip(engine.members, engine.states, strict=True)
        if m.name != "part"
    )


class KernelPiSTOLClassifier(
    RiskIntervalMixin, PredictsSets, LearnsKernelStreams, KernelClassifier
):
    r"""Kernel classifier that needs no tuning: parameter-free learning in feature space.

    The predictor of each class is :math:`f(x) = \sum_i c_i k(x_i, x)`, trained by PiSTOL: with the
    sum g of the negative gradients, :math:`f = (b/\alpha) \exp(\|g\|^2 / (2 \alpha))\, g`, where
    :math:`\alpha` grows with the gradients. No step size and no regularizer is chosen.

    With ``gamma='auto'`` a grid of bandwidths around the median heuristic learns the first rows in
    three scalings of the columns; each row is predicted before it is learned. The three best
    bandwidths learn all rows, and their averages are read out after several passes. A second set of
    learners does the same without every tenth row. Its errors on these held-out rows are the
    weights of the read-outs, whose sum is the predictor.

    Parameters
    ----------
    kernel : str or callable, default='rbf'
        'rbf', 'laplacian', 'polynomial', 'linear', 'cosine', another kernel of
        `sklearn.metrics.pairwise`, a function of two matrices or of two rows, a part with
        ``gram(A, B)``, or 'precomputed': X is the matrix of values.
    gamma : 'auto', 'scale' or float, default='auto'
        'auto' learns the bandwidth of 'rbf' and 'laplacian' ('scale' for other kernels); 'scale' is
        1 / (n_features variance of X); a number is the bandwidth.
    degree, coef0 : float, default=3 and 1
        Of the 'polynomial' kernel.
    setting : {'auto', 'global', 'guaranteed', 'paper', 'theorem-1', 'dowg'}, default='auto'
        Constants of the rule. With 'auto' alpha grows with squared gradients, with 'global' with
        their norms (both have b = sqrt(alpha), a = 1/4); 'guaranteed' is 'global' with a = 3 L.
        'paper' has the constants of the paper's experiments, 'theorem-1' those of its Theorem 1.
        'dowg' is distance over weighted gradients instead of PiSTOL. `regret_bound` has the bound
        of 'guaranteed' and 'theorem-1'.
    loss : str or part, default='auto'
        A loss of `tunefree.parts.losses`; 'auto' is 'smoothed_hinge'.
    average : str or part, default='auto'
        'auto' weights the averages of single passes by their held-out errors; else a scheme of
        `tunefree.parts.averaging` over the iterates of all passes, of all rows ('uniform', 'tail',
        ... or ``Geometric(rate=0.01)``; 'last' is the last iterate).
    max_iter : int or 'auto', default='auto'
        The most passes. 'auto' is up to 12, with at most 200,000 visits of rows; with a named
        average it is 1. With a single pass and ``average='auto'`` no row is
        held out: later iterates have larger weights, and PiSTOL and 'dowg' are weighted by their
        errors on rows before they learned them.
    horizon : int or None, default=None
        The number of rows of a stream, which the setting 'paper' needs for its b. With None `fit`
        counts the rows, and `partial_fit` with that setting raises an error.
    calibrate : bool, default=True
        Multiply decisions by the temperature that makes them log-odds of rows that were not yet
        learned. False: decisions as learned; with one bandwidth and an average, Algorithm 3's.
    standardize : bool or 'auto', default='auto'
        Standardise columns first. 'auto': with ``gamma='auto'`` the columns as given, standardised
        columns and standardised logarithms compete; with 'scale' or a number columns stay as given.
    precision : {'auto', 'single', 'double'}, default='auto'
        Of kernel values; sums always have double precision. 'auto' is single for kernels whose
        values do not exceed 1, else that of X.
    compress : None, True, float or int, default=None
        Project the predictor onto few landmarks after training. A float: as few as change the mean
        log loss on (at most 4,096) training rows by less than this share of the loss of predicting
        zero; True is 0.001. An integer: the number of landmarks. See `compression_`.
    max_support : int or None, default=None
        Bound on the support rows of a stream (`partial_fit`): beyond it the learners are projected
        onto half as many.
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; on a stream 'balanced' uses the counts up to a row.
    shuffle : bool, default=True
        Learn in the order of a hash of the rows' content, with equal rows merged: the result does
        not depend on the order of the rows, and a weight of 2 equals a row given twice.
    n_jobs : int or None, default=None
        Threads; -1 is all cores, and so is None from 2 million numbers on. Results do not depend on
        it.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        The weight of the rows of each class.
    dual_coef_ : ndarray of shape (n_bandwidths, n_outputs, n_support)
        Coefficients of the support rows, one output for two classes.
    intercept_ : ndarray of shape (n_outputs,)
        A share of the log-odds of the classes' shares, as decisions are shrunk towards these; 0
        without shrinkage.
    gamma_ : ndarray of shape (n_bandwidths,)
        Bandwidths in the coordinates of learning.
    support_ : ndarray of shape (n_support,)
        The numbers of the input rows that have a coefficient (after `fit`).
    coordinates_ : KernelView
        The transformation of rows for the kernel; `name` is the view that was chosen.
    expansion_ : Expansion
        The predictor as a function of rows in these coordinates.
    compression_ : Compression or None
        `n_support` and `n_landmarks`, `loss_before` and `loss_after`, and the relative `change` of
        the decisions; None without compression.
    leaderboard_ : list of dict
        Bandwidths tried, with their progressive errors.
    trace_ : dict
        'rows' and 'progressive_error' of every bandwidth tried; 'read_outs': bandwidth, pass,
        held-out error and weight.
    regret_ : tuple or str
        The data of `regret_bound`, or a message why there is no bound.
    n_iter_ : int
        Passes made.
    held_out_ : part
        Held-out probabilities, from which `risk_interval_` and sets are computed
        (docs/guide/sure.md).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero, gamma <= 0, a kernel
        that is not symmetric or not finite, a precomputed one that is not square, or more rows than
        memory holds.

    References
    ----------
    Orabona 2014, "Simultaneous model selection and optimization through parameter-free stochastic
    learning", Algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> from tunefree import KernelPiSTOLClassifier
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.hypot(*X.T) > 1.2
    >>> model = KernelPiSTOLClassifier(random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.95)
    True
    """

    _ON_DEMAND = (*LearnsKernelStreams._ON_DEMAND, "regret_", "intercept_")

    def __init__(
        self,
        kernel: KernelName | Callable | Kernel = "rbf",
        gamma: float | str = "auto",
        *,
        degree: float = 3,
        coef0: float = 1,
        setting: str = "auto",
        loss: LossOfClasses | Auto | Loss = "auto",
        average: AverageName | Auto | Average | AverageWithin = "auto",
        max_iter: int | Auto = "auto",
        horizon: int | None = None,
        calibrate: bool = True,
        standardize: bool | Auto = "auto",
        precision: Literal["auto", "single", "double"] = "auto",
        compress: float | None = None,
        max_support: int | None = None,
        class_weight: Any = None,
        shuffle: bool = True,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.setting = setting
        self.loss = loss
        self.average = average
        self.max_iter = max_iter
        self.horizon = horizon
        self.calibrate = calibrate
        self.standardize = standardize
        self.precision = precision
        self.compress = compress
        self.max_support = max_support
        self.class_weight = class_weight
        self.shuffle = shuffle
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _check(self):
        if self.setting not in ("auto", *_NAMED):
            raise ValueError(f"setting={self.setting!r} is none of auto, {', '.join(_NAMED)}.")
        self._loss()
        return super()._check()

    def _loss(self):
        return check_bounded(make_loss(self.loss, "classification", LOSSES["smoothed_hinge"]))

    def _learner(self, n_rounds, largest=1.0):
        if self.setting == "auto":
            return Isotropic(RULE, self._loss())
        return SETTINGS[self.setting](self._loss(), self.horizon or n_rounds)

    def _rivals(self, learner):
        return super()._rivals(learner) if self.setting == "auto" else [learner]

    def _held_out_predictions(self, outcome, factor):
        p = base.probabilities(factor * outcome.decisions + self.intercept_, joint=True)
        return base.held_out_probabilities(p, base.codes_of(outcome.targets), outcome.weights)

    def _finish(self, engine, outcome, prior):
        self.regret_ = _regret(engine) if self.setting in _PROVED else NO_RULE
        _, f, y, weights, _ = outcome
        a = base.temperature(f, y, weights, margin=1.0) if self.calibrate else 1.0
        share = 1.0
        is_automatic = self.setting == "auto" and self.average == "auto"
        if self.calibrate and is_automatic:
            share = base.class_shrinkage(a * f, prior, base.codes_of(y), weights)
        self.intercept_, factor = (1.0 - share) * prior, share * a
        held_out = self._held_out_predictions(outcome, factor)
        return factor, factor * f + self.intercept_, held_out

    @all_or_nothing
    @matched_by_place
    def partial_fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in the order given.

        Columns' scaling and the bandwidths come from the first 128 rows. The chunks' sizes make no
        difference, to the last bit. After `fit` it starts a new model, with a warning.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like, optional
            Classes to expect. More may appear at any time; the result is the same as if they had
            been announced.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        recipe, old = self._check(), getattr(self, "_stream", None)
        X, y = base.check_rows_and_targets(self, X, y, reset=old is None)
        weights = base.check_weights(sample_weight, X, stream=True)
        before: Any = None if old is None else self.classes_
        classes = base.named_classes(classes)
        classes, codes, weights, counts = base.stream_labels(self, y, weights, classes, before)
        stream = self._opened(recipe, X)
        if old is not None and len(classes) > len(before):
            stream.outputs(*base.new_columns(before, classes))
        targets = np.hstack([base.signs(codes, len(classes)), np.full((len(y), 1), -1.0)])
        stream.learn(X, targets, weights, self.n_jobs)
        self._stream, self.classes_, self.class_count_ = stream, classes, counts
        self._forget_read()
        return self

    def _read_stream(self):
        ready = self._stream.caught_up(self.n_jobs)
        (outcome, board), self.regret_ = ready.read(), _STREAM
        _, f, y, weights, _ = outcome
        self.intercept_ = np.zeros(f.shape[1])
        scale = base.temperature(f, y, weights) if self.calibrate else 1.0
        held_out = self._held_out_predictions(outcome, scale)
        self._publish_stream(ready, outcome, board, held_out, scale)

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes).

        With `calibrate` they are calibrated on rows that the predictor had not learned.
        """
        return base.probabilities(self.decision_function(X), joint=True)

    def regret_bound(self, norm: float) -> dict[float | None, float]:
        """The largest regret, a sum of losses, of each learner against functions of this norm.

        The norm is that of the reproducing kernel Hilbert space of the learner's kernel. See
        `PiSTOLClassifier.regret_bound`; kernel values of single precision add their rounding.

        Parameters
        ----------
        norm : float or array-like of shape (n_outputs,)
            Of the competitor for every output.

        Returns
        -------
        dict of float or None to float
            The bound for each bandwidth that learned all rows to the end.

        Raises
        ------
        ValueError
            If there is no bound: for settings other than 'theorem-1' and 'guaranteed', for visits
            of weight larger than 1, and for streams.
        """
        check_is_fitted(self, "expansion_")
        if isinstance(self.regret_, str):
            raise ValueError(self.regret_.format(self.setting))
        norms = np.asarray(norm, dtype=float)
        if not (norms >= 0.0).all():
            raise ValueError(f"norm={norm!r} must not be negative.")
        return {
            gamma: run_regret(regret, np.broadcast_to(norms, regret.alpha.shape))
            for gamma, regret in self.regret_
        }
