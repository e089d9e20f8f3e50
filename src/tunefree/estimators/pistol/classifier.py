"""PiSTOL for linear prediction: no step size, no regularization grid, no cross-validation."""

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tunefree._array import seed_of
from tunefree._threads import product
from tunefree.choose.portfolio import Member, Portfolio, rms
from tunefree.choose.risk import recent_rows, temperature
from tunefree.columns import moments
from tunefree.engine.sources import Rows
from tunefree.engine.stream import Stream
from tunefree.estimators import base
from tunefree.estimators.callbacks import TellsCallbacks, told
from tunefree.estimators.from_source import FitsSource
from tunefree.estimators.labels import stream_labels, validation
from tunefree.estimators.pistol.fitting import (
    new_columns,
    resume,
    run_passes,
    visits_of,
)
from tunefree.estimators.pistol.settings import (
    MOST_WHITENED,
    MOST_WHITENED_STREAM,
    SETTINGS,
    check_parameters,
    dense_members,
    passes,
    sparse_members,
    stream_members,
    view_set,
)
from tunefree.estimators.regret import RegretBound, linear_regret
from tunefree.losses import LOSSES
from tunefree.robust import column_caps, screened

# Rows used to measure the size of decisions, and rows of a stream from which it is calibrated.
_SIZED, _CALIBRATED = 8192, 1024


def _has_probabilities(estimator):
    if estimator.setting == "auto" or estimator.loss in ("logistic", "multinomial"):
        return True
    raise AttributeError(
        f"predict_proba needs setting='auto' or a logistic or multinomial loss; this is "
        f"setting={estimator.setting!r} with loss={estimator.loss!r}."
    )


class PiSTOLClassifier(
    RegretBound, base.LabelsByDecisions, FitsSource, TellsCallbacks, BaseEstimator
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
    loss : {'auto', 'smoothed_hinge', 'hinge', 'squared_hinge', 'logistic', 'multinomial'}
        'auto' is the members' own in the portfolio, else the smoothed hinge. A user's own loss
        part is taken too.
    average : {'auto', 'uniform', 'suffix', 'last'}, default='auto'
        Read-out: the mean of all iterates, of those of the second half, or the last iterate.
        'auto' is 'suffix', or 'uniform' in a single pass.
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
        setting="auto",
        *,
        loss="auto",
        average="auto",
        max_iter="auto",
        horizon=None,
        fit_intercept=True,
        shuffle=True,
        class_weight=None,
        warm_start=False,
        random_state=None,
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

    @told
    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None):
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Validation rows: members and the number of passes are then chosen on them.

        Returns
        -------
        self
        """
        self._check()
        warm = self.warm_start and hasattr(self, "_run")
        X, y = base.check_rows_and_targets(self, X, y, reset=not warm)
        weights = base.check_weights(sample_weight, X)
        kept = weights > 0
        if not kept.all():
            X, y, weights = X[kept], y[kept], weights[kept]
        classes, codes = self._known(y) if warm else base.encode_labels(y, fewest=2)
        counts = np.bincount(codes, weights, minlength=len(classes))
        weights = base.balanced(self.class_weight, classes, codes, weights)
        targets = base.signs(codes, len(classes))
        labels, seed = codes[:, None].astype(float), seed_of(self.random_state)
        visits, rows, totals = visits_of(X, labels, weights, self.shuffle, seed)
        if warm:
            portfolio, state = self._run
            X = base.stored(X, state.views)
            state = state._replace(epoch=1)
        else:
            X, portfolio, state = self._start(X, rows, totals, len(visits.rows), targets.shape[1])
        self.classes_, self.class_count_ = classes, counts
        validate = None if X_val is None else validation(self, X_val, y_val)

        def read(state):
            return self._read(portfolio, state, X, rows)

        def publish(model, state):
            model._publish(portfolio, state, *read(state), state.epoch, X.dtype)

        state, n_passes, coef, intercept = run_passes(
            portfolio,
            state,
            Rows(X, targets, visits),
            read,
            validate,
            self._told.passes(portfolio.n_passes, publish),
        )
        self._publish(portfolio, state, coef, intercept, n_passes, X.dtype)
        self._run, self._stream = (portfolio, state), None
        return self

    @base.all_or_nothing
    def partial_fit(self, X, y, classes=None, sample_weight=None):
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
        stream = getattr(self, "_stream", None)
        if stream is None and "coef_" in vars(self):
            run, d = getattr(self, "_run", None) or (None, None), self.n_features_in_
            stream = resume(*run, n_columns=d, guarded=self.setting == "auto")
        X, y = base.check_rows_and_targets(self, X, y, reset=stream is None)
        weights = base.check_weights(sample_weight, X)
        known = getattr(self, "classes_", None)
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
        self._stream, self.classes_, self.class_count_ = stream, every, counts
        stream.learn(X, targets, weights)
        self._dtype = X.dtype.name
        self._forget_read()
        return self

    def _read_stream(self):
        ready = self._stream.opened()
        candidates = ready.best() if self.setting == "auto" else None
        coef, intercept = self._read(ready.portfolio, ready.state, candidates=candidates)
        self._publish(ready.portfolio, ready.state, coef, intercept, 1, self._dtype)
        self.trace_["struck"] = ready.struck
        self.regret_ = linear_regret(ready.portfolio, ready.state, moving=ready.renew)

    def _check(self):
        check_parameters(self, ("auto", *SETTINGS), "classification", "auto")

    def _known(self, y):
        classes, _ = base.encode_labels(y)
        if not np.isin(classes, self.classes_).all():
            raise ValueError(f"y has classes {classes} beyond those of the first fit.")
        return self.classes_, np.searchsorted(self.classes_, y)

    def _members(self, n_rows, n_outputs, sparse_data, whiten, stream=False):
        loss = None if self.loss == "auto" else LOSSES.get(self.loss, self.loss)
        if stream and loss == LOSSES["multinomial"]:
            loss = LOSSES["logistic"]  # classes that may yet appear cannot be coupled with others
        if self.setting != "auto":
            loss = loss or LOSSES["smoothed_hinge"]
            return (Member("raw", SETTINGS[self.setting](loss, n_rows), self.setting),)
        if stream:
            return stream_members(sparse_data, loss, whiten)
        if sparse_data:
            return sparse_members(n_outputs, loss)
        return dense_members(n_outputs, loss, whiten)

    def _start(self, X, rows, totals, n_visits, n_outputs):
        """Choose the portfolio by how many entries are zero, not by how they are stored."""
        n, d = len(rows), X.shape[1]
        density = base.share_stored(X[rows])
        sparse_data = density < 0.25 or self.setting != "auto"
        whiten = d <= MOST_WHITENED and d * d <= 100 * n
        members = self._members(self.horizon or n_visits, n_outputs, sparse_data, whiten)
        views = view_set(members, self.fit_intercept)
        if sparse_data:
            X = base.canonical(sparse.csr_array(X)) if density < 0.25 else X
            X = screened(X, rows) if self.setting == "auto" else X
            m = moments(X, rows, totals, centred=False)
            caps = None
        else:
            X = X.toarray() if sparse.issparse(X) else X
            caps = column_caps(X, rows)
            m = moments(
                X, rows, totals, centred=self.fit_intercept, products=views.products, caps=caps
            )
        single = (
            self.setting.startswith(("paper", "theorem", "guaranteed")) and self.max_iter == "auto"
        )
        entries = density * n * d * n_outputs
        n_passes = 1 if single else passes(self.max_iter, n_visits, entries, n_outputs)
        portfolio = Portfolio(
            members,
            True,
            n_passes,
            suffix=self.average in ("auto", "suffix"),
            last=self.average == "last",
        )
        return X, portfolio, portfolio.init(views.make(m, caps), d, n_outputs, n_visits)

    def _open_stream(self, X):
        sparse_data, d = sparse.issparse(X), X.shape[1]
        whiten = d <= MOST_WHITENED_STREAM
        members = self._members(self.horizon, 1, sparse_data, whiten, stream=True)
        portfolio = Portfolio(members, True, 1, last=self.average == "last", unseen=True)
        views, guarded = view_set(members, self.fit_intercept), self.setting == "auto"
        return Stream(portfolio, views, sparse=sparse_data, guarded=guarded)

    def _read(self, portfolio, state, X=None, rows=None, candidates=None):
        """Coefficients and intercepts: the blend of the portfolio, calibrated to log-odds."""
        if self.setting != "auto":
            (candidate,) = candidates or portfolio.candidates(state)
            coef, intercept = portfolio.weights(state, *candidate)
            return (coef[:, :-1], intercept[:-1]) if portfolio.unseen else (coef, intercept)

        def size(coef, intercept, predicted):
            if X is None:
                return rms(predicted)
            return rms(X[rows[:_SIZED]] @ coef + intercept)

        most = _CALIBRATED if X is None else _SIZED
        coef, intercept, predicted = portfolio.blend(state, size, candidates, most)
        _, targets, weights = recent_rows(state.progress, most=len(predicted))
        a = temperature(predicted, targets[:, : predicted.shape[1]], weights)
        return a * coef, a * intercept

    def _publish(self, portfolio, state, coef, intercept, n_passes, dtype):
        self.coef_ = np.ascontiguousarray(coef.T, dtype=dtype)
        self.intercept_ = intercept.astype(dtype)
        self.n_iter_ = n_passes
        self.leaderboard_ = portfolio.leaderboard(state)
        self.trace_ = portfolio.trace(state)
        self.regret_ = linear_regret(portfolio, state)

    def decision_function(self, X):
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
    def predict_proba(self, X):
        """Probabilities of the classes, shape (n_samples, n_classes).

        With ``setting='auto'`` they are calibrated on the progressive predictions. After a few
        hundred rows of many classes these know less than the model: its probabilities are then too
        even, which `TuneFreeClassifier` mends on left-out rows.
        """
        joint = self.setting == "auto" or self.loss == "multinomial"
        return base.probabilities(self.decision_function(X), joint)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
