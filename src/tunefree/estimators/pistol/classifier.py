"""PiSTOL for linear prediction: no step size, no regularization grid, no cross-validation."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tunefree._threads import product
from tunefree.choose.portfolio import Member, Portfolio, rms
from tunefree.choose.risk import recent_rows, temperature
from tunefree.columns import moments
from tunefree.estimators import base
from tunefree.estimators.labels import stream_labels, validation
from tunefree.estimators.pistol.fitting import (
    MOST_WHITENED,
    MOST_WHITENED_STREAM,
    ONE_PASS,
    SETTINGS,
    LearnsByPortfolio,
    Problem,
    Run,
    dense_members,
    new_columns,
    passes,
    sparse_members,
    stream_members,
    view_set,
)
from tunefree.losses import SmoothedHinge, check_bounded, make_loss
from tunefree.protocols import Average, AverageWithin, Loss, MatrixLike, Seed, TargetLike
from tunefree.robust import column_caps, screened

# Rows used to measure the size of decisions, and rows of a stream from which it is calibrated.
_SIZED, _CALIBRATED = 8192, 1024


def _has_probabilities(estimator):
    if estimator.setting == "auto" or getattr(estimator._loss(), "probabilities", False):
        return True
    raise AttributeError(
        f"predict_proba needs setting='auto' or a logistic or multinomial loss; this is "
        f"setting={estimator.setting!r} with loss={estimator.loss!r}."
    )


class PiSTOLClassifier(base.LabelsByDecisions, LearnsByPortfolio):
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
    loss : str or part of `tunefree.losses`, default='auto'
        'smoothed_hinge', 'hinge', 'squared_hinge', 'logistic', 'multinomial', or a part whose slope
        has a bound; 'auto' is the members' own in the portfolio, else the smoothed hinge.
    average : str or part of `tunefree.averaging`, default='auto'
        Read-out: the average of the iterates by 'uniform', 'polynomial', 'geometric' or other
        weights, over 'tail' (the second half of the passes; of a single pass all), or the 'last'
        iterate. 'auto' is 'tail'; on a stream, where the end is not known, later iterates count
        more, as for 'polynomial', under 'tail' and in the portfolio of 'auto'.
    max_iter : int or 'auto', default='auto'
        Passes over the data. 'auto': 3 to 12, fewer for larger data; 1 for the paper's settings.
    horizon : int or None, default=None
        How many rows a stream will have, which the settings 'paper' and 'paper-per-coordinate' need
        for their b; None counts them in `fit`, and refuses streams of these settings.
    fit_intercept : bool, default=True
        Learn an intercept, as one more column of the size of the others.
    shuffle : bool, default=True
        Learn in the order of a hash of the rows' content, with equal rows merged: the result does
        not depend on the order of the rows, and a weight of 2 equals a row given twice. False
        keeps the given order and loses both.
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; 'balanced' takes a stream's row by the counts up to it.
    warm_start : bool, default=False
        Keep the learner's state after `fit`, and go on from it in the next `fit` or `partial_fit`.
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
        effective 'scale' after every pass; of a stream also how many rows had entries 'struck'.
    regret_ : tuple or str
        What `regret_bound` needs, or why nothing is proved.
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

    _ON_DEMAND = ("coef_", "intercept_", "n_iter_", "leaderboard_", "trace_", "regret_")

    def __init__(
        self,
        setting: str = "auto",
        *,
        loss: str | Loss = "auto",
        average: str | Average | AverageWithin = "auto",
        max_iter: int | str = "auto",
        horizon: int | None = None,
        fit_intercept: bool = True,
        shuffle: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
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
        self.random_state = random_state

    def _loss(self):
        if isinstance(self.loss, str) and self.loss == "auto":
            return None
        return check_bounded(make_loss(self.loss, "classification", SmoothedHinge()))

    @property
    def _guarded(self):
        return self.setting == "auto"

    def _rows(self, X, y, sample_weight, reset):
        X, y = base.check_rows_and_targets(self, X, y, reset=reset)
        self._dtype = X.dtype.name
        return X, y, base.check_weights(sample_weight, X)

    def _problem(self, X, y, weights, warm):
        classes, codes = base.encode_labels(y, fewest=1 if warm else 2)
        if warm:
            if not np.isin(classes, self.classes_).all():
                raise ValueError(f"y has classes {classes} beyond those of the first fit.")
            classes, codes = self.classes_, np.searchsorted(self.classes_, y)
        counts = np.bincount(codes, weights, minlength=len(classes))
        weights = base.balanced(self.class_weight, classes, codes, weights)
        self.classes_, self.class_count_ = classes, counts
        visits = self._visits(X, codes[:, None].astype(float), weights)
        return Problem(X, base.signs(codes, len(classes)), *visits)

    def _members(self, n_rows, n_outputs, sparse_data, whiten, stream=False):
        loss = self._loss()
        if stream:
            loss = getattr(loss, "uncoupled", loss)
        if self.setting != "auto":
            learner = SETTINGS[self.setting](loss or SmoothedHinge(), n_rows)
            return (Member("raw", learner, self.setting),)
        if stream:
            return stream_members(sparse_data, loss, whiten)
        if sparse_data:
            return sparse_members(n_outputs, loss)
        return dense_members(n_outputs, loss, whiten)

    def _begin(self, problem):
        """Choose the portfolio by how many entries are zero, not by how they are stored."""
        X, targets, visits, rows, totals = problem
        n, d, n_visits, n_outputs = len(rows), X.shape[1], len(visits.rows), targets.shape[1]
        density = base.share_stored(X[rows])
        sparse_data = density < 0.25 or self.setting != "auto"
        whiten = d <= MOST_WHITENED and d * d <= 100 * n
        members = self._members(self.horizon or n_visits, n_outputs, sparse_data, whiten)
        members, tail = self._averaged(members, 0.5)
        views, centred, caps = view_set(members, self.fit_intercept), self.fit_intercept, None
        if sparse_data:
            X, centred = base.canonical(sparse.csr_array(X)) if density < 0.25 else X, False
            X = screened(X, rows) if self.setting == "auto" else X
        else:
            X = X.toarray() if sparse.issparse(X) else X
            caps = column_caps(X, rows)
        m = moments(X, rows, totals, centred=centred, products=views.products, caps=caps)
        single = self.setting in ONE_PASS and self.max_iter == "auto"
        entries = density * n * d * n_outputs
        n_passes = 1 if single else passes(self.max_iter, n_visits, entries, n_outputs)
        portfolio = Portfolio(members, True, n_passes, tail=tail)
        state = portfolio.init(views.make(m, caps), d, n_outputs, n_visits)
        return problem._replace(X=X), Run(portfolio, state)

    def _open_stream(self, X):
        sparse_data, whiten = sparse.issparse(X), X.shape[1] <= MOST_WHITENED_STREAM
        members = self._members(self.horizon, 1, sparse_data, whiten, stream=True)
        return self._stream_of(members, X, unseen=True)

    @base.all_or_nothing
    def partial_fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in the order given.

        The chunks' sizes make no difference, to the last bit. Entries ten times beyond all before
        in their column count as the farthest before, entries 10^6 times beyond as missing, until
        they keep coming (`tunefree.robust`).

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
        self._check()
        stream = self._going_on()
        X, y, weights = self._rows(X, y, sample_weight, reset=stream is None)
        known: Any = getattr(self, "classes_", None)
        every, codes, weights, counts = stream_labels(self, y, weights, classes, known)
        if stream is None:
            stream = self._open_stream(X)
        elif len(every) > len(known):
            if not stream.portfolio.unseen:
                raise ValueError(
                    "y has classes that fit did not see. A model that is to meet new classes must "
                    "start with partial_fit."
                )
            stream.outputs(*new_columns(known, every))
        targets = base.signs(codes, len(every))
        if stream.portfolio.unseen:
            targets = np.hstack([targets, np.full((len(y), 1), -1.0)])
        self.classes_, self.class_count_ = every, counts
        self._stream = stream.learn(X, targets, weights)
        self._forget_read()
        return self

    def _validation(self, X_val, y_val, scale):
        return validation(self, X_val, y_val)

    def _read(self, run, problem=None, candidates=None):
        """Coefficients and intercepts: the blend of the portfolio, calibrated to log-odds."""
        portfolio, state, _ = run
        if self.setting != "auto":
            (candidate,) = portfolio.candidates(state)
            coef, intercept = portfolio.weights(state, *candidate)
            return (coef[:, :-1], intercept[:-1]) if portfolio.unseen else (coef, intercept)

        def size(coef, intercept, predicted):
            if problem is None:
                return rms(predicted)
            return rms(problem.X[problem.rows[:_SIZED]] @ coef + intercept)

        most = _CALIBRATED if problem is None else _SIZED
        coef, intercept, predicted = portfolio.blend(state, size, candidates, most)
        _, targets, weights = recent_rows(state.progress, most=len(predicted))
        a = temperature(predicted, targets[:, : predicted.shape[1]], weights)
        return a * coef, a * intercept

    def _publish_line(self, line, scale):
        coef, intercept = line
        self.coef_ = np.ascontiguousarray(coef.T, dtype=self._dtype)
        self.intercept_ = intercept.astype(self._dtype)

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
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @available_if(_has_probabilities)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes).

        With ``setting='auto'`` they are calibrated on the progressive predictions. After a few
        hundred rows of many classes these know less than the model: its probabilities are then too
        even, which `TuneFreeClassifier` mends on left-out rows.
        """
        joint = self.setting == "auto" or hasattr(self._loss(), "slopes")
        return base.probabilities(self.decision_function(X), joint)
