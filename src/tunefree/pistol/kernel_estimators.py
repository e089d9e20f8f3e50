"""Kernel PiSTOL: no step size, no bandwidth, no regularization to tune."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.locks import all_or_nothing
from tunefree.base.progress import CallbackSupport, report_progress
from tunefree.base.reading import ReadOnDemand
from tunefree.base.uncertainty_mixins import PredictsIntervals, PredictsSets, RiskIntervalMixin
from tunefree.core.parameters import compression_options, seed_of
from tunefree.core.process import workers
from tunefree.core.protocols import (
    Auto,
    Average,
    AverageName,
    AverageWithin,
    Kernel,
    KernelName,
    Loss,
    LossOfClasses,
    LossOfNumbers,
    MatrixLike,
    Seed,
    TargetLike,
)
from tunefree.core.warn import warn
from tunefree.engine.run import run
from tunefree.held_out.shrinkage import shares_as_scores, shrinkage_factor
from tunefree.held_out.stacking import log_losses
from tunefree.kernels.compression import CHECKED, compress
from tunefree.kernels.expansion import Expansion
from tunefree.kernels.kernels import Precomputed
from tunefree.parts.averaging import AVERAGES, PolynomialDecay, scheme_of
from tunefree.parts.averaging import within as placed
from tunefree.parts.losses import LOSSES, check_bounded, make_loss, within
from tunefree.pistol.bandwidths import (
    HoldOutSelection,
    ProgressiveSelection,
    SingleRun,
    absolute_errors,
    mistakes,
    read_outs,
    squared_errors,
)
from tunefree.pistol.bounds import run_regret
from tunefree.pistol.estimators import NO_RULE, is_dense
from tunefree.pistol.kernel_blocked import Member
from tunefree.pistol.kernel_problem import Choice, KernelPiSTOLProblem, Recipe
from tunefree.pistol.kernel_stream import KernelStream
from tunefree.pistol.linear import SETTINGS, Isotropic
from tunefree.pistol.rules import DoWG, PiSTOL
from tunefree.rows.matrices import as_columns
from tunefree.rows.order import visits_of
from tunefree.rows.outliers import DELTA, EXTREME, clip_outliers, location_and_scale

# The rule of 'auto' was chosen on four public data sets. After a few passes it is as good as
# 'global' there, or better.
_RULE = PiSTOL(a=0.25, squares=True)
_PROVED = ("theorem-1", "guaranteed")
_NAMED = ("paper", *_PROVED, "global", "dowg")
_STREAM = "regret_bound is not available for a stream: use fit."
# Rows are predicted in blocks of a multiple of this size.
_ALIGNED = 16
# With fewer numbers than this (stored ones of sparse rows) one thread is faster than two.
_THREADED = 2_000_000


class KernelEstimator(ReadOnDemand, CallbackSupport, BaseEstimator):
    """Learns an expansion over support rows, in memory or on a stream.

    Subclasses have the parameters, and define what is marked as abstract.
    """

    _ON_DEMAND = ("expansion_", "coordinates_", "leaderboard_", "trace_", "n_iter_", "held_out_")
    _LEARNER = ()  # a model file holds the predictor

    # Abstract: whether targets are signs of classes, and the most passes of 'auto'.
    _CLASSIFY, _LIMIT = True, 12
    _AVERAGES: tuple[str, ...] = ("auto",)  # in addition to the schemes
    # Abstract: the learner for so many rows (None: unknown) with k(x, x) up to a largest value.
    _learner: Callable
    # Abstract: targets of some rows, labels for the order of rows, and weights; then the targets in
    # the units of learning, and what predictions are shrunk to.
    _encode: Callable
    _standard: Callable
    # Abstract: the function of decisions and targets that selects, a loss for each row; and the
    # loss of every row, for a compression.
    _selection_loss: Callable
    _losses: Callable
    # Abstract: the factor of coefficients, predictions of held-out rows, and those to keep; and the
    # latter for a stream.
    _finish: Callable
    _held_out_predictions: Callable

    def _scheme(self):
        """The averaging scheme; the uniform one for an average that only this estimator has."""
        if self.average in self._AVERAGES:
            return AVERAGES["uniform"]
        return scheme_of(self.average, also=self._AVERAGES)

    def _check(self):
        """Check the parameters; returns the `Recipe` of the kernel."""
        self._scheme()
        recipe = Recipe.of(self)
        if compression_options(self.compress) and isinstance(recipe.kernel, Precomputed):
            raise ValueError("compress= needs rows, not a precomputed kernel.")
        return recipe

    @report_progress
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or the kernel's values, of shape (n_samples, n_samples), for kernel='precomputed'.
        y : array-like of shape (n_samples,), or in regression (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        self._learn(X, y, sample_weight)
        return self

    def _learn(self, X, y, sample_weight=None, held=None):
        """Choose bandwidths and passes on the rows `held`, by default on every tenth row.

        Below 500 rows it is up to every fourth. Returns the predictions of the rows `held`, or
        None.
        """
        recipe = self._check()
        problem = self._problem(recipe, X, y, sample_weight)
        apart = None if held is None else np.flatnonzero(np.asarray(held, bool)[problem.given])
        one_thread = self.n_jobs is None and getattr(problem.X, "size", 0) < _THREADED
        with workers(1 if one_thread else self.n_jobs) as team:
            learner = self._learner(len(problem.visits.rows))
            choice = Choice.preselected(recipe, team, problem, learner, self._CLASSIFY, apart)
            learner, engine, data, n_passes = self._plan(team, problem, choice, apart)
            watch = self._progress.passes(n_passes)
            result = run(learner, learner.init(engine), data, **watch)
            outcome = learner.read(result.state)
        predictions = self._publish(problem, choice, data, result, outcome)
        return None if apart is None else predictions[np.argsort(problem.given[apart])]

    def _problem(self, recipe, X, y, sample_weight):
        """The rows of positive weight, in the order of learning."""
        real = not self._CLASSIFY
        X, y = base.check_rows_and_targets(self, X, y, multi_output=real, numeric=real)
        weights = base.check_weights(sample_weight, X)
        recipe.check(X)
        kept = np.flatnonzero(weights)
        encoded = _, labels, weights = self._encode(y, kept, weights[kept])
        X, seed = X if len(kept) == X.shape[0] else X[kept], seed_of(self.random_state)
        visits, rows, totals = visits_of(
            X, labels, weights, self.shuffle, seed, affine=real and is_dense(X)
        )
        targets, prior = self._standard(encoded, rows, totals, X.dtype)
        if recipe.drops_outliers:  # one extreme entry would determine a column's unit
            X = clip_outliers(X, rows, EXTREME)
        problem = KernelPiSTOLProblem(X, targets, visits, kept, prior)
        problem.check_memory(4 if recipe.single(X.dtype, X) else 8)
        return problem

    def _plan(self, team, problem, choice, apart):
        """The learner, its engine, the source, and the most passes."""
        if self.average != "auto":
            return self._plan_one(team, problem, choice)
        kernel, gammas, loss_of = choice.recipe.kernel, choice.gammas, self._selection_loss()
        when = read_outs(problem.n_visits, self.max_iter, self._LIMIT)
        one_pass = when == [1]
        data = choice.data(team, problem, gammas, keep=not one_pass)
        learner = self._learner(len(problem.visits.rows), data.largest)
        if one_pass and apart is None:
            rules = [r._replace(average=PolynomialDecay()) for r in self._rivals(learner)]
            members = [Member(*pair) for pair in product(gammas, rules)]
            runner = ProgressiveSelection(team, loss_of, self._CLASSIFY)
            return runner, data.engine(kernel, members), data, 1
        members = [Member(g, learner, name) for g in gammas for name in ("part", "all")]
        runner = HoldOutSelection(team, data, when, loss_of, self._CLASSIFY, apart)
        return runner, data.engine(kernel, members, watched=runner.held), data, when[-1]

    def _plan_one(self, team, problem, choice):
        """The plan where the user has chosen the average: one bandwidth."""
        scheme, n_passes = self._scheme(), 1 if self.max_iter == "auto" else self.max_iter
        last, late = self._reads_last(), hasattr(scheme, "within")
        data = choice.data(team, problem, [choice.best], keep=n_passes > 1)
        learner = self._learner(len(problem.visits.rows), data.largest)
        if not last:
            learner = learner._replace(average=placed(scheme, problem.n_visits * n_passes))
        runner = SingleRun(team, n_passes, self._CLASSIFY, last=last, late=late)
        engine = data.engine(choice.recipe.kernel, [Member(choice.best, learner)], self._apart())
        return runner, engine, data, n_passes

    def _reads_last(self):
        """Whether the iterate after the last row is read."""
        return self.average == "last"

    def _apart(self):
        """Whether every update of a single member gets its own support row."""
        return False

    def _rivals(self, learner):
        """The learners that compete in a single pass."""
        return [learner, learner._replace(rule=DoWG())]

    def _publish(self, problem, choice, data, result, outcome):
        """Set the fitted attributes; returns the predictions of held-out rows.

        Rows with a coefficient are the support.
        """
        engine = result.state.engine
        factor, predictions, self.held_out_ = self._finish(engine, outcome, problem.prior)
        coefs = [factor * c for c in outcome.coefs.values()]
        kept = np.flatnonzero(np.any([c.any(axis=1) for c in coefs], axis=0))
        numbers = engine.numbers()[kept]
        self._stream, self.n_iter_ = None, result.n_passes
        self.leaderboard_, self.coordinates_ = choice.leaderboard, choice.view
        self.trace_ = outcome.trace | choice.trace
        self.support_ = problem.given[numbers]
        support = self.support_ if data.rows is None else data.rows.rows[numbers]
        coefs = tuple(c[kept].astype(engine.dtype) for c in coefs)
        self.expansion_ = Expansion(choice.recipe.with_bandwidths(outcome.coefs), support, coefs)
        self._compress(problem)
        return predictions

    def _compress(self, problem):
        """Project the predictor onto landmarks, as `compress` requires."""
        f, options, self.compression_ = self.expansion_, compression_options(self.compress), None
        if not options or not f.support.shape[0]:
            return
        n = len(problem.stored)
        at = np.arange(min(n, CHECKED)) * n // min(n, CHECKED)
        rows = self.coordinates_.show(problem.X[problem.stored[at]])
        targets, share = problem.targets[at], problem.weights[at] / problem.weights[at].sum()

        def risk(values):
            return float(share @ self._losses(values, targets))

        self.expansion_, kept, self.compression_ = compress(
            f, rows, risk, **options, n_jobs=self.n_jobs
        )
        self.support_ = self.support_[kept]

    def _opened(self, recipe, X, units=None):
        """The stream, or a new one."""
        stream = getattr(self, "_stream", None)
        if stream is not None:
            return stream
        if "expansion_" in vars(self):
            warn(
                "partial_fit starts a new model and discards the model from fit, which cannot be "
                "continued. Use partial_fit from the start to learn from a stream."
            )
        if isinstance(recipe.kernel, Precomputed):
            raise ValueError("partial_fit needs rows, not a precomputed kernel.")
        recipe.check(X)
        learner = self._learner(None)._replace(average=PolynomialDecay())
        single = recipe.single(X.dtype)
        return KernelStream(recipe, learner, single, self._CLASSIFY, self.max_support, units)

    def _publish_stream(self, ready, outcome, board, scale=1.0):
        """Set the fitted attributes from the reading of a stream, times a scale."""
        self.coordinates_, self.n_iter_ = ready.coordinates, 1
        self.leaderboard_, self.trace_ = board, outcome.trace
        dtype, support = ready.engine.dtype, ready.engine.support.rows.copy()
        coefs = tuple((scale * c).astype(dtype) for c in outcome.coefs.values())
        self.held_out_ = self._held_out_predictions(outcome, scale)
        # Last: another thread that finds the expansion expects the other attributes, too.
        self.expansion_ = Expansion(ready.recipe.with_bandwidths(outcome.coefs), support, coefs)

    @property
    def dual_coef_(self) -> np.ndarray:
        """Coefficients of the support rows, shape (n_bandwidths, n_outputs, n_support)."""
        check_is_fitted(self, "expansion_")
        return np.stack([c.T for c in self.expansion_.coefs])

    @property
    def gamma_(self) -> Any:
        """The bandwidths of the predictor, shape (n_bandwidths,)."""
        check_is_fitted(self, "expansion_")
        return np.array([getattr(k, "gamma", np.nan) for k in self.expansion_.kernels])

    def _values(self, X):
        """The predictor's values, shape (n, n_outputs), of the type of X."""
        check_is_fitted(self, "expansion_")
        X = base.check_rows(self, X)
        f, dtype, n = self.expansion_, X.dtype, X.shape[0]
        if not isinstance(f.kernels[0], Precomputed):
            X = self.coordinates_.show(X)
        if not sparse.issparse(X):
            # Padded, so that a row's arithmetic does not depend on the number of rows.
            X = np.pad(X, ((0, -n % _ALIGNED), (0, 0)))
        return f(X, self.n_jobs)[:n].astype(dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class KernelClassifier(base.LabelsByDecisions, KernelEstimator):
    """A kernel estimator of classes."""

    def _encode(self, y, kept, weights):
        base.encode_labels(y)
        self.classes_, codes = base.encode_labels(y[kept], fewest=2)
        self.class_count_ = np.bincount(codes, weights)
        weights = base.balanced(self.class_weight, self.classes_, codes, weights)
        return base.signs(codes, len(self.classes_)), codes[:, None].astype(float), weights

    def _standard(self, encoded, rows, totals, dtype):
        signs, codes, _ = encoded
        codes = codes[rows, 0].astype(int)  # of distinct rows, as a weight is a repetition
        return signs, shares_as_scores(codes, totals, signs.shape[1])

    def _selection_loss(self):
        return mistakes

    def _losses(self, values, targets):
        return log_losses(values + self.intercept_, base.codes_of(targets))

    def _finish(self, engine, outcome, prior):
        return 1.0, outcome.decisions, None

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Decisions for the second class or every class; log-odds where there are probabilities.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or kernel values of shape (n_samples, n_samples_fit) for kernel='precomputed'.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._values(X)
        scores += np.asarray(getattr(self, "intercept_", 0.0), dtype=scores.dtype)
        return base.squeezed(scores)


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


class KernelPiSTOLClassifier(RiskIntervalMixin, PredictsSets, KernelClassifier):
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

    _ON_DEMAND = (*KernelEstimator._ON_DEMAND, "regret_", "intercept_")

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
            return Isotropic(_RULE, self._loss())
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
        if self.calibrate and self.setting == "auto" and self.average == "auto":
            share = base.class_shrinkage(a * f, prior, base.codes_of(y), weights)
        self.intercept_, factor = (1.0 - share) * prior, share * a
        held_out = self._held_out_predictions(outcome, factor)
        return factor, factor * f + self.intercept_, held_out

    @all_or_nothing
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
        self._publish_stream(ready, outcome, board, scale)

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


class Standard(NamedTuple):
    """Targets in units of a scale about a location."""

    m: np.ndarray
    s: np.ndarray

    @classmethod
    def of(cls, targets, tails):
        """From the targets; with `tails` quantiles are used."""
        return cls(*location_and_scale(targets, tails=tails))

    def __call__(self, y):
        """Standardise."""
        return (y - self.m) / self.s


class KernelRegressor(
    RiskIntervalMixin, PredictsIntervals, RegressorMixin, MultiOutputMixin, KernelEstimator
):
    """A kernel estimator of targets with any location and scale."""

    _CLASSIFY, _LIMIT = False, 30
    _loss: Callable  # abstract: the loss of the parameter `loss`

    @property
    def _tails(self):
        """Whether quantiles are used for the targets' units: not with a loss for outliers."""
        return not getattr(self._loss(), "outliers", False)

    def _encode(self, y, kept, weights):
        targets, self._flat = np.asarray(y, dtype=np.float64), np.ndim(y) == 1
        targets = targets.reshape(len(y), -1)[kept]
        return targets, targets, weights

    def _standard(self, encoded, rows, totals, dtype):
        targets = clip_outliers(encoded[0], rows, EXTREME)
        standard = Standard.of(targets[rows], self._tails)
        limited = np.clip(standard(targets), -DELTA, DELTA) * standard.s + standard.m
        ends = np.array([limited.min(axis=0), limited.max(axis=0)], dtype=dtype)
        targets, mean = standard(targets), None
        if self._of_mean:
            mean = np.average(targets[rows], axis=0, weights=totals)
        return targets, (standard, ends, mean)

    def _publish_units(self, standard, ends):
        """Set the attributes that turn values of the learner into targets."""
        (m, s), dtype = standard, ends.dtype
        self.scale_, self.prediction_limits_ = s.astype(dtype), ends
        (self.intercept_,) = base.of_targets(self._flat, m.astype(dtype))

    def _held_out_predictions(self, outcome, factor):
        s, m = (np.atleast_1d(a).astype(np.float64) for a in (self.scale_, self.intercept_))
        predictions, targets = outcome.decisions * s + m, outcome.targets * s + m
        return base.held_out_predictions(
            predictions, targets, outcome.weights, self.prediction_limits_
        )

    @property
    def _of_mean(self):
        """Whether the loss is least at the mean."""
        return getattr(self._loss(), "elicits_mean", False)

    def _selection_loss(self):
        return squared_errors if self._of_mean else absolute_errors

    def _losses(self, values, targets):
        return np.square(values - targets).sum(axis=1)

    def _finish(self, engine, outcome, prior):
        (m, s), ends, mean = prior
        f, y, weights = outcome.decisions, outcome.targets, outcome.weights
        share, constant = 1.0, 0.0
        if mean is not None:
            share = shrinkage_factor(f - mean, y - mean, weights)
            constant = (1.0 - share) * mean
        self._publish_units((m + s * constant, s), ends)
        predictions = (constant + share * f) * s + m
        held_out = base.held_out_predictions(predictions, y * s + m, weights, ends)
        return share, np.clip(predictions, *ends), held_out

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Targets, within `prediction_limits_`, of shape (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
            Or kernel values of shape (n_samples, n_samples_fit) for kernel='precomputed'.
        """
        y = np.clip(self._values(X) * self.scale_ + self.intercept_, *self.prediction_limits_)
        return y[:, 0] if np.ndim(self.intercept_) == 0 else y


class KernelPiSTOLRegressor(KernelRegressor):
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

    _ON_DEMAND = (*KernelEstimator._ON_DEMAND, "scale_", "prediction_limits_", "intercept_")

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
        return Isotropic(_RULE, loss if np.isfinite(loss.bound()) else within(loss, DELTA))

    @all_or_nothing
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
        recipe, fresh = self._check(), getattr(self, "_stream", None) is None
        X, y = base.check_rows_and_targets(self, X, y, reset=fresh, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X, stream=True)
        targets = as_columns(y)
        stream = self._opened(recipe, X, partial(Standard.of, tails=self._tails))
        base.check_n_targets(targets, stream.n_outputs())
        stream.learn(X, targets, weights, self.n_jobs)
        self._stream, self._flat, self._dtype = stream, np.ndim(y) == 1, X.dtype
        self._forget_read()
        return self

    def _read_stream(self):
        ready = self._stream.caught_up(self.n_jobs)
        m, s = ready.scale
        ends = np.array([m - DELTA * s, m + DELTA * s], dtype=self._dtype)
        self._publish_units(ready.scale, ends)
        outcome, board = ready.read()
        self._publish_stream(ready, outcome, board)
