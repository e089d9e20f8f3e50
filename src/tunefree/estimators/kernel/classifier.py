"""Kernel PiSTOL for classification: no step size, no bandwidth, no regularization to tune."""

import numpy as np

from tunefree._array import seed_of
from tunefree.choose.risk import temperature
from tunefree.estimators import base
from tunefree.estimators.callbacks import told
from tunefree.estimators.kernel.base import KernelDecisions, KernelEstimator
from tunefree.estimators.kernel.fitting import Problem, without_absurd
from tunefree.estimators.labels import stream_labels
from tunefree.estimators.pistol.fitting import SETTINGS, check_horizon, new_columns, visits_of
from tunefree.estimators.regret import KernelRegretBound
from tunefree.learners.pistol.isotropic import Isotropic
from tunefree.learners.pistol.rules import DoWG, PiSTOL
from tunefree.losses import LOSSES, check_bounded, make_loss

# Chosen on four public sets beside 'global', which it equals or betters after a few passes.
_AUTO = PiSTOL(a=0.25, squares=True)
# More passes never helped on public sets, and hurt where classes overlap.
_PASSES = 12
_NAMED = ("paper", "theorem-1", "guaranteed", "global", "dowg")
_STREAM = "Nothing is kept of a stream for a bound: use fit."


def mistakes(decisions, targets):
    """1 for every row whose largest decision is not that of its class."""
    if targets.shape[1] == 1:
        return ((decisions[:, 0] > 0.0) != (targets[:, 0] > 0.0)).astype(float)
    return (decisions.argmax(axis=1) != targets.argmax(axis=1)).astype(float)


class KernelPiSTOLClassifier(KernelRegretBound, KernelDecisions, KernelEstimator):
    r"""Kernel classifier that needs no tuning: parameter-free learning in feature space.

    The predictor of each class is :math:`f(x) = \sum_i c_i k(x_i, x)`, trained by PiSTOL: with the
    sum g of the negative gradients, :math:`f = (b/\alpha) \exp(\|g\|^2 / (2 \alpha))\, g`, where
    :math:`\alpha` grows with the gradients, so that neither a step size nor a regularizer is
    chosen. With ``gamma='auto'`` a grid of bandwidths around the median heuristic is learned on the
    first rows under three scalings of the columns, each row predicted before it is learned; the
    three best go on, and are read after several passes. Every tenth row is left out by a second set
    of learners beside them, whose errors there weight the read-outs that make up the predictor.

    Parameters
    ----------
    kernel : str or callable, default='rbf'
        'rbf', 'laplacian', 'polynomial', 'linear', 'cosine', another kernel of
        `sklearn.metrics.pairwise`, a function of two matrices or of two rows, a part with
        ``gram(A, B)``, or 'precomputed': X is the matrix of values.
    gamma : 'auto', 'scale' or float, default='auto'
        'auto' learns the bandwidth of 'rbf' and 'laplacian' ('scale' for other kernels); 'scale' is
        1 / (n_features variance of X), and a number is taken as it is.
    degree, coef0 : float, default=3 and 1
        Of the 'polynomial' kernel.
    setting : {'auto', 'global', 'guaranteed', 'paper', 'theorem-1', 'dowg'}, default='auto'
        Constants of the rule: 'auto' lets alpha grow with squared gradients, 'global' with their
        norms (both with b = sqrt(alpha), a = 1/4), 'guaranteed' is that with a = 3 L; those of the
        paper's experiments; those of its Theorem 1; or distance over weighted gradients instead of
        PiSTOL. `regret_bound` has the bound of 'guaranteed' and 'theorem-1'.
    loss : str or part, default='auto'
        A loss of `tunefree.losses`; 'auto' is 'smoothed_hinge'.
    average : {'auto', 'uniform', 'last-pass', 'last'}, default='auto'
        'auto' weights the averages of single passes by their errors on left-out rows; else the
        average of all iterates, of those of the last pass, or the last iterate, of all rows.
    max_iter : int or 'auto', default='auto'
        Most passes; 'auto' is up to 12, with 200,000 visits of rows in all (1 or, for 'last-pass',
        3 if an average is named). With a single pass and no average named no row is left out: later
        iterates count more, and PiSTOL and 'dowg' are weighed by how they predicted rows before
        they learned them.
    horizon : int or None, default=None
        How many rows a stream will have, which the setting 'paper' needs for its b; None counts
        them in `fit`, and refuses streams of that setting.
    calibrate : bool, default=True
        Multiply decisions by the temperature that makes them log-odds of rows that were not yet
        learned. False leaves them as learned: with one bandwidth and an average, Algorithm 3's.
    standardize : bool or 'auto', default='auto'
        Standardise columns first. 'auto': with ``gamma='auto'`` the columns as given, standardised
        columns and standardised logarithms compete; with 'scale' or a number columns stay as given.
    precision : {'auto', 'single', 'double'}, default='auto'
        Of kernel values; sums are always of double precision. 'auto' is single for kernels whose
        values do not exceed 1, else that of X.
    compress : None, True, float or int, default=None
        Project the predictor onto a few landmarks after training: as few as change the mean log
        loss of (at most 4,096) rows of training by less than this share of that of predicting
        nothing (True is 0.001), or a number of landmarks. `compression_` reports what it did.
    max_support : int or None, default=None
        Bound on the support rows of a stream (`partial_fit`): beyond it the learners are projected
        onto half as many.
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; 'balanced' takes a stream's row by the counts up to it.
    shuffle : bool, default=True
        Learn in the order of a hash of the rows' content, with equal rows merged: the result does
        not depend on the order of the rows, and a weight of 2 equals a row given twice.
    n_jobs : int or None, default=None
        Threads; None and -1 are all cores. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the hash.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        The weight of the rows of each class.
    dual_coef_ : ndarray of shape (n_bandwidths, n_outputs, n_support)
        Coefficients of the support rows, one output for two classes.
    gamma_ : ndarray of shape (n_bandwidths,)
        Bandwidths in the coordinates of learning.
    support_ : ndarray of shape (n_support,)
        Which rows of the input have a coefficient (after `fit`).
    coordinates_ : Coordinates
        How rows are shown to the kernel; `name` says which view won.
    expansion_ : Expansion
        The predictor as a function of rows in these coordinates.
    compression_ : Compression or None
        `n_support` and `n_landmarks`, `loss_before` and `loss_after`, and the relative `change` of
        the decisions; None without compression.
    leaderboard_ : list of dict
        Bandwidths tried, with their progressive errors.
    trace_ : dict
        'rows' and 'progressive_error' of every bandwidth tried; 'read_outs': bandwidth, pass, error
        on left-out rows and weight.
    regret_ : tuple or str
        What `regret_bound` needs, or why nothing is proved.
    n_iter_ : int
        Passes made.
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

    _ON_DEMAND = (*KernelEstimator._ON_DEMAND, "regret_")

    def __init__(
        self,
        kernel="rbf",
        gamma="auto",
        *,
        degree=3,
        coef0=1,
        setting="auto",
        loss="auto",
        average="auto",
        max_iter="auto",
        horizon=None,
        calibrate=True,
        standardize="auto",
        precision="auto",
        compress=None,
        max_support=None,
        class_weight=None,
        shuffle=True,
        n_jobs=None,
        random_state=None,
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
        self.random_state = random_state

    def _check(self):
        kernel = self._check_common()
        if self.setting not in ("auto", *_NAMED):
            raise ValueError(f"setting={self.setting!r} is none of auto, {', '.join(_NAMED)}.")
        check_bounded(make_loss(self.loss, "classification", LOSSES["smoothed_hinge"]))
        check_horizon(self.horizon)
        return kernel

    def _learner(self, n_rows):
        loss = "smoothed_hinge" if self.loss == "auto" else self.loss
        loss = LOSSES.get(loss, loss)
        if self.setting == "auto":
            return Isotropic(_AUTO, loss)
        return SETTINGS[self.setting](loss, n_rows)

    @told
    def fit(self, X, y, sample_weight=None, held=None, like=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or the kernel's values, of shape (n_samples, n_samples), for kernel='precomputed'.
        y : array-like of shape (n_samples,)
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
        X, y = base.check_rows_and_targets(self, X, y)
        weights = base.check_weights(sample_weight, X)
        self._check_values(kernel, X)
        kept = np.flatnonzero(weights)
        base.encode_labels(y)
        classes, codes = base.encode_labels(y[kept], fewest=2)
        counts = np.bincount(codes, weights[kept])
        weights = base.balanced(self.class_weight, classes, codes, weights[kept])
        targets, labels = base.signs(codes, len(classes)), codes[:, None].astype(float)
        seed, X = seed_of(self.random_state), X if len(kept) == X.shape[0] else X[kept]
        visits, rows, _ = visits_of(X, labels, weights, self.shuffle, seed)
        problem = Problem(without_absurd(self, kernel, X, rows), visits, kept)
        self.classes_, self.class_count_ = classes, counts
        learner = self._learner(self.horizon or len(visits.rows))
        rivals = [learner._replace(rule=DoWG())] if self.setting == "auto" else ()
        coefs, publish, decisions, seen, w = self._learn(
            kernel, problem, targets[problem.stored], learner, mistakes,
            classify=True, limit=_PASSES, rivals=rivals, held=held, like=like,
        )  # fmt: skip
        a = temperature(decisions, seen, w, margin=1.0) if self.calibrate else 1.0
        self._stream = None
        publish([a * c for c in coefs])
        if held is not None:
            self._recall(a * decisions)
        return self

    @base.all_or_nothing
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from the next chunk of a stream, in the order given.

        Columns' scaling and the bandwidths come from the first 128 rows. The chunks' sizes make no
        difference, to the last bit. After `fit` it starts a new model, with a warning.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like, optional
            Classes to expect. More may appear at any time, with the result that they would have
            had if announced.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        kernel, old = self._check(), getattr(self, "_stream", None)
        X, y = base.check_rows_and_targets(self, X, y, reset=old is None)
        weights = base.check_weights(sample_weight, X)
        known = None if old is None else self.classes_
        every, codes, weights, counts = stream_labels(self, y, weights, classes, known)
        stream = self._open_stream(
            kernel, X, self._learner(self.horizon), classify=True, unseen=True
        )
        if old is not None and len(every) > len(known):
            stream.outputs(*new_columns(known, every))
        targets = np.hstack([base.signs(codes, len(every)), np.full((len(y), 1), -1.0)])
        stream.learn(X, targets, weights, self.n_jobs)
        self._stream, self.classes_, self.class_count_ = stream, every, counts
        self._forget_read()
        return self

    def _read_stream(self):
        ready = self._stream.caught_up(self.n_jobs)
        reading = ready.read()
        a = 1.0
        if self.calibrate:
            a = temperature(reading.decisions, reading.targets, reading.weights)
        self.regret_ = _STREAM
        self._publish_reading(ready, reading, a)

    def predict_proba(self, X):
        """Probabilities of the classes, shape (n_samples, n_classes).

        They are calibrated on rows that the predictor had not learned, if `calibrate` says so.
        """
        return base.probabilities(self.decision_function(X), joint=True)
