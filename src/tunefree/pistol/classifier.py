"""Linear PiSTOL for classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base, scores
from tunefree.base.uncertainty_mixins import (
    CoefficientInferenceMixin,
    PredictsSets,
    RiskIntervalMixin,
)
from tunefree.core.process import product
from tunefree.core.protocols import (
    Auto,
    Average,
    AverageName,
    AverageWithin,
    Loss,
    LossOfClasses,
    MatrixLike,
    Seed,
    TargetLike,
)
from tunefree.held_out.progressive_risk import recent_rows
from tunefree.held_out.shrinkage import shares_as_scores
from tunefree.parts.families import Binomial
from tunefree.parts.links import LINKS
from tunefree.parts.losses import Logistic, Multinomial, SmoothedHinge, check_bounded, make_loss
from tunefree.pistol.linear_estimator import (
    MOST_WHITENED,
    MOST_WHITENED_STREAM,
    Line,
    LinearPiSTOLEstimator,
    PiSTOLProblem,
    passes,
)
from tunefree.pistol.portfolio import dense_members, sparse_members, stream_members
from tunefree.rows.matrices import as_dense, canonical
from tunefree.rows.outliers import clip_outliers, column_caps
from tunefree.rows.row_labels import matched_by_place
from tunefree.uncertainty import risk
from tunefree.uncertainty.laws import Law

# Settings that make a single pass unless `max_iter` is set: their theorems are for one.
ONE_PASS = ("paper", "paper-per-coordinate", "theorem-1", "guaranteed")
# Rows that give the size of decisions.
_SIZE_ROWS = 8192
# Latest rows of a stream for calibration.
_CALIBRATION_ROWS = 1024


def _has_probabilities(estimator):
    if estimator.setting == "auto" or getattr(estimator._loss(), "probabilities", False):
        return True
    raise AttributeError(
        f"predict_proba needs setting='auto' or a logistic or multinomial loss; this is "
        f"setting={estimator.setting!r} with loss={estimator.loss!r}."
    )


def line_of_one(portfolio, state):
    """The `Line` of a portfolio of one member."""
    ((i, last),) = portfolio.candidates(state)
    coef, intercept = portfolio.weights(state, i, last)
    recent, targets, weights = recent_rows(state.progress)
    scored = targets.shape[1] - portfolio.unseen
    held_out = recent[:, 2 * i + last, :scored], targets[:, :scored], weights
    return Line(coef[:, :scored], intercept[:scored], held_out)


def calibrated(state, coef, intercept, predicted):
    """The `Line` of a blend, times the temperature that makes its decisions log-odds."""
    _, targets, weights = recent_rows(state.progress, most=len(predicted))
    targets = targets[:, : predicted.shape[1]]
    a = base.temperature(predicted, targets, weights)
    return Line(a * coef, a * intercept, (a * predicted, targets, weights))


def shrunk_to_shares(line, codes, totals):
    """A `Line` shrunk to the log-odds of the classes' shares, by its held-out predictions."""
    scores, targets, weights = line.held_out
    null = shares_as_scores(codes, totals, scores.shape[1])
    factor = base.class_shrinkage(scores, null, base.codes_of(targets), weights)
    if factor == 1.0:
        return line
    intercept, scores = (null + factor * (each - null) for each in (line.intercept, scores))
    return Line(factor * line.coef, intercept, (scores, targets, weights))


class PiSTOLClassifier(
    RiskIntervalMixin,
    CoefficientInferenceMixin,
    PredictsSets,
    scores.LabelsByDecisions,
    LinearPiSTOLEstimator,
):
    r"""Linear classifier that needs no tuning: parameter-free stochastic learning.

    The predictor of each class is f(x) = <w, x> + intercept, trained by PiSTOL: with the sum g of
    the negative gradients, :math:`w = (b/D) \exp(\|g\|^2 / (2 D))\, g`, where D grows with the
    gradients, so that neither a step size nor a regularizer is chosen. The default sweeps a small
    portfolio of rules and column views over the data together, scores each by progressive
    validation (every row is predicted before it is learned), and continues with the best two.
    Dense columns are clipped far outside their bulk while learning; the predictor stays linear.

    Parameters
    ----------
    setting : str, default='auto'
        'auto' (the portfolio) or one rule: 'paper' and 'paper-per-coordinate' (the constants of the
        paper's experiments), 'theorem-1' (those of its Theorem 1), 'guaranteed' (a = 3 L and
        b sqrt(alpha): our bound), 'global' (the same with a = 1/4), 'per-coordinate' (our
        constants), 'per-coordinate-constant', 'dowg'. `regret_bound` has the bound of 'theorem-1'
        and 'guaranteed'; for the others nothing is proved.
    loss : str or part of `tunefree.parts.losses`, default='auto'
        'smoothed_hinge', 'hinge', 'squared_hinge', 'log_loss', 'multinomial', or a part whose slope
        has a bound; 'auto' is the members' own in the portfolio, else the smoothed hinge.
    average : str or part of `tunefree.parts.averaging`, default='auto'
        Read-out: the average of the iterates by 'uniform', 'polynomial', 'geometric' or other
        weights, over 'tail' (the second half of the passes; all of a single pass), or the 'last'
        iterate. 'auto' is 'tail'. The end of a stream is not known: there 'tail', and 'auto' in the
        portfolio, are 'polynomial', by which later iterates weigh more.
    max_iter : int or 'auto', default='auto'
        Passes over the data. 'auto': 3 to 12, fewer for larger data; 1 for the paper's settings.
    horizon : int or None, default=None
        How many rows a stream will have. The settings 'paper' and 'paper-per-coordinate' need it
        for their b; None counts the rows in `fit`, and refuses streams for these settings.
    fit_intercept : bool, default=True
        Learn an intercept, as one more column of the size of the others.
    shuffle : bool, default=True
        Learn in the order of a hash of the rows' content, with equal rows merged: the result does
        not depend on the order of the rows, and a weight of 2 equals a row given twice. False
        keeps the given order and loses both.
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; 'balanced' in a stream uses the counts up to each row.
    warm_start : bool, default=False
        Continue from the learner's state in the next `fit` or `partial_fit`.
    verbose : bool or int, default=False
        Print the progress of `fit` on stderr.
    random_state : int, RandomState or None, default=None
        Seed of the hash.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        The weight of the rows of each class.
    n_iter_ : int
        Passes made.
    leaderboard_ : list of dict
        Every member's name and progressive error (a share of rows), the chosen ones first.
    trace_ : dict
        'rows' seen, the 'progressive_error' of every member up to there, and each member's
        effective 'scale' after every pass; for a stream also 'outlier_rows', rows with outliers.
    regret_ : tuple or str
        What `regret_bound` needs, or why nothing is proved.
    held_out_ : part
        Held-out predictions: the basis of `risk_interval_`, intervals and sets
        (docs/guide/sure.md).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero.

    References
    ----------
    Orabona 2014, "Simultaneous model selection and optimization through parameter-free stochastic
    learning", Algorithm 3 and appendix A.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import PiSTOLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PiSTOLClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    def __init__(
        self,
        setting: str = "auto",
        *,
        loss: LossOfClasses | Auto | Loss = "auto",
        average: AverageName | Auto | Average | AverageWithin = "auto",
        max_iter: int | Auto = "auto",
        horizon: int | None = None,
        fit_intercept: bool = True,
        shuffle: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.setting = setting
        self.loss = loss
        self.average = average
        self.max_iter = max_iter
        self.horizon = horizon
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _loss(self):
        if isinstance(self.loss, str) and self.loss == "auto":
            return None
        return check_bounded(make_loss(self.loss, "classification", SmoothedHinge()))

    def _filters_outliers(self):
        return self.setting == "auto"

    def _problem(self, X, y, weights, warm):
        classes, codes = base.encode_labels(y, fewest=1 if warm else 2)
        if warm:
            if not np.isin(classes, self.classes_).all():
                raise ValueError(f"y has classes {classes} beyond those of the first fit.")
            classes, codes = self.classes_, np.searchsorted(self.classes_, y)
        self.classes_, self.class_count_ = classes, np.bincount(codes, weights, len(classes))
        weights = base.balanced(self.class_weight, classes, codes, weights)
        visits = self._visits(X, codes[:, None].astype(float), weights)
        return PiSTOLProblem(X, base.signs(codes, len(classes)), *visits)

    def _begin(self, problem):
        """Choose the portfolio by the share of zeros, not by the format of the rows."""
        X, targets, visits, rows, _ = problem
        n = len(rows)
        d = X.shape[1]
        n_visits = len(visits.rows)
        n_outputs = targets.shape[1]
        density = base.share_stored(X[rows])
        caps = None
        loss = self._loss()
        is_sparse = density < 0.25
        X = canonical(sparse.csr_array(X)) if is_sparse else X
        if self.setting != "auto":
            members = self._single("raw", loss or SmoothedHinge(), self.horizon or n_visits)
        elif is_sparse:
            members, X = sparse_members(n_outputs, loss), clip_outliers(X, rows)
        else:
            whiten = d <= MOST_WHITENED and d * d <= 100 * n
            members, X = dense_members(n_outputs, loss, whiten), as_dense(X)
            caps = column_caps(X, rows)
        problem = problem._replace(X=X)
        single = self.setting in ONE_PASS and self.max_iter == "auto"
        entries = density * n * d * n_outputs
        n_passes = 1 if single else passes(self.max_iter, n_visits, entries, n_outputs)
        return problem, self._start(problem, members, n_passes, 0.5, caps)

    def _stream_members(self, sparse_data, d):
        loss = self._loss()
        loss = getattr(loss, "uncoupled", loss)
        if self.setting != "auto":
            return self._single("raw", loss or SmoothedHinge(), self.horizon), None
        return stream_members(sparse_data, loss, d <= MOST_WHITENED_STREAM), None

    @matched_by_place
    def partial_fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in the order given.

        The chunks' sizes make no difference, to the last bit. An entry ten times beyond all before
        it in its column is clipped to the farthest of these, and one 10^6 times beyond counts as
        missing, unless more follow (`tunefree.rows.outliers`).

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like, optional
            Classes to expect. More may appear at any time; the result is the same as if they had
            been given here.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        if classes is None and sample_weight is None and self._quickly(X, y):
            return self
        return self._learn_chunk(X, y, sample_weight, classes)

    def _quick_targets(self, labels, codes):
        try:
            rows = [codes[label] for label in labels]
        except (KeyError, TypeError):
            return None
        counts = self.class_count_.copy()
        for number, _ in rows:
            counts[number] += 1.0
        self.class_count_ = counts
        return np.array([row for _, row in rows])

    def _chunk(self, stream, y, weights, classes):
        known: Any = getattr(self, "classes_", None)
        classes = base.named_classes(classes)
        all_classes, codes, weights, counts = base.stream_labels(self, y, weights, classes, known)
        if known is not None and len(all_classes) > len(known):
            if not stream.portfolio.unseen:
                raise ValueError(
                    "y has classes that fit did not see: start with partial_fit if new classes may "
                    "appear."
                )
            stream.outputs(*base.new_columns(known, all_classes))
        self.classes_, self.class_count_ = all_classes, counts
        table = base.signs(np.arange(len(all_classes)), len(all_classes))
        if stream.portfolio.unseen:
            table = np.hstack([table, np.full((len(table), 1), -1.0)])
        quick = {label: (k, table[k]) for k, label in enumerate(all_classes.tolist())}
        return table[codes], weights, quick if self.class_weight is None else {}

    def _read(self, run, problem=None, candidates=None):
        """One member; or the blend of the portfolio, as log-odds."""
        portfolio, state, _ = run
        if self.setting != "auto":
            return line_of_one(portfolio, state)
        X, most = None, _CALIBRATION_ROWS
        if problem is not None:
            X, most = problem.X[problem.rows[:_SIZE_ROWS]], _SIZE_ROWS
        line = calibrated(state, *portfolio.blend(state, X, candidates, most))
        if problem is None or not self.fit_intercept:
            return line
        return shrunk_to_shares(line, base.codes_of(problem.targets[problem.rows]), problem.totals)

    def _estimand(self, y):
        if self._loss() not in (None, Logistic(), Multinomial()):
            raise ValueError(f"No interval is valid for loss={self.loss!r}: it has corners.")
        if len(self.classes_) > 2:
            raise ValueError("Intervals need two classes: give one class against the rest.")
        return Law(Binomial(), LINKS["logit"]), (y == self.classes_[1]).astype(float)

    def _publish_line(self, run, line):
        self.coef_ = np.ascontiguousarray(line.coef.T, dtype=self._dtype)
        self.intercept_ = line.intercept.astype(self._dtype)
        progress = run.state.progress
        rows, counted = int(progress.clock[0]), {}
        if rows and progress.weight.sum() == rows:
            wrong = progress.risk.sum(axis=0)
            counted = {"mistakes": round(wrong.min()), "rows": rows, "rivals": len(wrong)}
        scores, targets, weights = line.held_out
        p = base.probabilities(scores, self._is_joint())
        self.held_out_ = base.held_out_probabilities(p, base.codes_of(targets), weights, **counted)

    def _is_joint(self):
        """Whether probabilities are a softmax of all scores."""
        return self.setting == "auto" or hasattr(self._loss(), "slopes")

    @property
    def online_risk_interval_(self) -> tuple[float, float] | None:
        """Interval (95 %, at all times together) for the mean risk of predictions on the way.

        They are the best member's predictions in the first pass, each before its row was learned.
        It is a theorem for any stream, but not about the final predictor. None where rows have
        weights other than 1.
        """
        held_out = getattr(self, "held_out_", None)
        if held_out is None or not held_out.rows:
            return None
        return risk.online(held_out.mistakes, held_out.rows, 0.05 / held_out.rivals)

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class against the rest.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self, "coef_")
        X = base.check_rows(self, X)
        scores = product(X, self.coef_.T) + self.intercept_
        return base.squeezed(scores)

    @available_if(_has_probabilities)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes).

        With ``setting='auto'`` they are calibrated on the progressive predictions. For a few
        hundred rows of many classes these are worse than the final ones, and the probabilities too
        even: `TuneFreeClassifier` calibrates on held-out rows.
        """
        return base.probabilities(self.decision_function(X), self._is_joint())
