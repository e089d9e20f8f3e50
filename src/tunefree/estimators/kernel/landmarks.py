"""Kernel ridge regression on landmarks: view, bandwidth, penalty and size by leave-one-out."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from tunefree._parameters import seed_of
from tunefree._process import one_blas_thread
from tunefree.choose.risk import temperature
from tunefree.columns import show
from tunefree.engine.order import hashed_visits
from tunefree.estimators import base
from tunefree.estimators.base import TellsCallbacks, told
from tunefree.learners.kernel.nystroem import ALPHAS, Search, gather, place, risks, solve
from tunefree.protocols import MatrixLike, Seed, TargetLike
from tunefree.robust import ABSURD, screened

# Rows beyond these do not improve so few coefficients; multiply-adds of the final solution.
_MOST_ROWS, _SATURATED = 50_000, 500
# Rows that are left out to choose the penalty, unless their predictions are more numbers than this.
_LEFT_OUT, _MOST_LEFT_OUT = 5000, 20_000_000
# Rounding may move a prediction by so much of the range of the targets.
_PRECISE = 1e-4


class _Fitted(NamedTuple):
    """Coefficients, the targets' range, and predictions of rows left out with what they were."""

    coef: np.ndarray
    intercept: np.ndarray
    ends: tuple
    left_out: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


class _Landmark(TellsCallbacks, BaseEstimator):
    """Rows in, least squares on landmarks out; a subclass says what is marked as abstract."""

    _CLASSIFY = True  # abstract: whether targets are signs of classes
    classes_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: Any

    def __init__(self, *, n_landmarks: int | str = "auto", random_state: Seed = None):
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def _encode(self, y):
        """Abstract: targets, and what tells equal rows apart."""
        raise NotImplementedError

    def _finish(self, fitted, dtype):
        """Abstract: publish the coefficients."""
        raise NotImplementedError

    @told
    def fit(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or in regression (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.

        Returns
        -------
        self
        """
        return self._learn(X, y, sample_weight)

    def _learn(self, X, y, sample_weight=None, like: Any = None, known=None, keep=False):
        """Take over the view and bandwidth of `like`, if there is one, without a search.

        Of the rows `known` it has kept sums, if it was told to `keep` them: about as many numbers
        as landmarks squared. They need not be gone through again.
        """
        real = not self._CLASSIFY
        if self.n_landmarks != "auto" and not (
            isinstance(self.n_landmarks, int | np.integer) and self.n_landmarks > 0
        ):
            raise ValueError(f"n_landmarks={self.n_landmarks!r} is no positive integer or 'auto'.")
        X, y = base.check_rows_and_targets(self, X, y, multi_output=real, numeric=real)
        weights = base.check_weights(sample_weight, X)
        kept, X = weights > 0, X.toarray() if sparse.issparse(X) else X
        X, weights = X[kept], weights[kept]
        targets, labels = self._encode(y[kept])
        if not real and known is not None and len(like.classes_) < len(self.classes_):
            known = None
        known = None if known is None else known[kept]
        self._finish(self._solve(X, targets, labels, weights, like, known, keep), X.dtype)
        return self

    def _solve(self, X, targets, labels, weights, like, known, keep):
        seed = seed_of(self.random_state)
        rows, totals = hashed_visits(X, labels, weights, seed, affine=True).unique()
        targets = screened(targets, rows, ABSURD)
        ends = targets.min(axis=0), targets.max(axis=0)
        rows, totals = rows[:_MOST_ROWS], totals[:_MOST_ROWS]
        X, y = X[rows], targets[rows]
        found = Search(X, y, totals).result() if like is None else like._found()
        self.parts_, self.relevance_, self.gamma_, self.saturated_, self.leaderboard_ = found
        n, Z = len(rows), show(self.parts_, X)
        most = min(_LEFT_OUT, max(1000, _MOST_LEFT_OUT // (len(ALPHAS) * y.shape[1])))
        marks, sums = self._taken_over(like, known, rows, totals)
        if sums is None:
            marks, new = place(Z[: min(self._size(n), n)], self.gamma_), np.arange(n)
        else:
            new = np.flatnonzero(~known[rows])
        sums = gather(marks, lambda a, b: Z[new[a:b]], len(new), y[new], totals[new], sums)
        solution = solve(marks, lambda a, b: Z[a:b], n, y, totals, most=most, sums=sums)
        self._sums = (marks, sums) if keep else None
        risk = risks(solution, y, totals)
        i = int(np.argmin(risk.mean(axis=0)))
        self.landmarks_ = marks._replace(basis=np.empty((0, 0)))
        self.alpha_ = float(ALPHAS[i])
        self.leave_one_out_risk_ = float(risk[:, i].mean())
        left_out = solution.left_out[:, i]
        coef, intercept = solution.coef[:, i], solution.intercept[i]
        return _Fitted(coef, intercept, ends, left_out, y[:most], totals[:most])

    def _size(self, n):
        """How many landmarks."""
        if self.n_landmarks != "auto":
            return int(self.n_landmarks)
        if self.saturated_:
            return min(_SATURATED, _affordable(n))
        return _affordable(n)

    def _taken_over(self, like, known, rows, totals) -> tuple[Any, Any]:
        """Landmarks of another fit, and its sums in units of the weights here; else two None."""
        if known is None or len(known) > _MOST_ROWS:
            return None, None
        if like._sums is None:
            raise ValueError("like has kept no sums of the rows known: fit it with keep=True.")
        marks, sums = like._sums
        shift, unit = sums.shift, totals[known[rows]].sum() / sums.total
        return marks, type(sums)(*(unit * part for part in sums))._replace(shift=shift)

    def _found(self):
        check_is_fitted(self, "landmarks_")
        return self.parts_, self.relevance_, self.gamma_, self.saturated_, self.leaderboard_

    @one_blas_thread()
    def _scores(self, X):
        check_is_fitted(self, "landmarks_")
        X = base.check_rows(self, X)
        out = np.empty((X.shape[0], self.dual_coef_.shape[1]), dtype=X.dtype)
        dtype = np.result_type(X, self.dual_coef_) if X.dtype == np.float32 else X.dtype
        coef = self.dual_coef_.astype(dtype, copy=False)
        for start in range(0, X.shape[0], 2048):
            Z = X[start : start + 2048]
            Z = (Z.toarray() if sparse.issparse(Z) else Z).astype(dtype, copy=False)
            Z = show(self.parts_, Z)
            values = self.landmarks_.values(Z) @ coef
            out[start : start + 2048] = values + np.atleast_1d(self.intercept_)
        return out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _rounded(coef, dtype, width):
    """Coefficients in the type of the rows, but for large ones that cancel each other.

    A rounded kernel value moves a prediction by the size of its coefficient: `width`, the range of
    the targets, tells how much is too much.
    """
    error = np.finfo(dtype).eps * np.sqrt(np.square(coef).sum(axis=0))
    return coef if (error > _PRECISE * width).any() else coef.astype(dtype)


def _affordable(n):
    """The most landmarks for which 4 n m^2 + 20 m^3 multiply-adds stay within 1e10 + 2e6 n."""
    m = np.arange(50, 4001, 50.0)
    return int(m[np.searchsorted(4 * n * m**2 + 20 * m**3, 1e10 + 2e6 * n) - 1])


class LandmarkRegressor(RegressorMixin, MultiOutputMixin, _Landmark):
    r"""Kernel ridge regression on landmarks, in which leave-one-out errors choose everything.

    :math:`f(x) = b + \sum_j a_j \exp(-\gamma \|v(x) - v(c_j)\|^2)` with rows of the data as
    landmarks c_j. A search on at most 3,000 rows picks the view v (standardised columns, or columns
    on a robust logarithmic scale first, each then weighted by how much the function found so far
    depends on it) and the bandwidth gamma; one eigendecomposition on all rows
    then gives the leave-one-out error of every ridge penalty, and the best is taken.

    Parameters
    ----------
    n_landmarks : int or 'auto', default='auto'
        'auto': 500 if the last third of the search's gained no standard error, else as many as
        1e10 + 2e6 n multiply-adds allow (about 700).
    random_state : int, RandomState or None, default=None
        Seed of the hash that picks the landmarks.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_landmarks, n_targets)
    intercept_ : float or ndarray of shape (n_targets,)
    landmarks_ : part
        Landmarks under the view, and gamma.
    parts_ : tuple of parts
        The view: an asinh scale where it helped, standardised columns, and their relevance.
    relevance_ : ndarray of shape (n_features,)
        Weights of the standardised columns in the view.
    saturated_ : bool
        Whether the landmarks of the search were no better than two thirds of them.
    gamma_, alpha_ : float
    leave_one_out_risk_ : float
        Mean squared leave-one-out error, summed over targets.
    leaderboard_ : list of dict
        What the search tried.
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, or weights that are all zero.

    References
    ----------
    Williams and Seeger 2001, "Using the Nystroem method to speed up kernel machines";
    Radhakrishnan, Beaglehole, Pandit and Belkin 2024, "Mechanism for feature learning in neural
    networks and backpropagation-free machine learning models" (relevance by average squared
    gradients; here of columns only). The rules of choice are this library's.

    Examples
    --------
    >>> from tunefree import LandmarkRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (300, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(LandmarkRegressor(random_state=0).fit(X, y).score(X, y) > 0.99)
    True
    """

    _CLASSIFY = False

    def _encode(self, y):
        targets, self._flat = np.asarray(y, dtype=np.float64), np.ndim(y) == 1
        targets = targets.reshape(len(y), -1)
        return targets, targets

    def _finish(self, fitted, dtype):
        low, high = fitted.ends
        self.dual_coef_ = _rounded(fitted.coef, dtype, high - low)
        intercept = fitted.intercept
        self.intercept_ = dtype.type(intercept[0]) if self._flat else intercept.astype(dtype)
        self.range_ = np.array(fitted.ends, dtype=dtype)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, within the range of those seen."""
        y = np.clip(self._scores(X), *self.range_)
        return y[:, 0] if np.ndim(self.intercept_) == 0 else y


class LandmarkClassifier(base.LabelsByDecisions, _Landmark):
    r"""Kernel least squares on landmarks, with calibrated probabilities.

    One output a class (one for two classes), +1 or -1, learned as in `LandmarkRegressor`; the class
    of the largest output wins, and a temperature fitted to the leave-one-out outputs turns them
    into log-odds.

    Parameters
    ----------
    n_landmarks : int or 'auto', default='auto'
        See `LandmarkRegressor`.
    random_state : int, RandomState or None, default=None
        Seed of the hash that picks the landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_landmarks, n_outputs)
    intercept_ : ndarray of shape (n_outputs,)
    landmarks_, parts_, relevance_, gamma_, alpha_, leaderboard_, leave_one_out_risk_
        See `LandmarkRegressor`.
    n_features_in_ : int

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero.

    References
    ----------
    See `LandmarkRegressor`.

    Examples
    --------
    >>> from tunefree import LandmarkClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.hypot(*X.T) > 1
    >>> bool(LandmarkClassifier(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """

    def _encode(self, y):
        self.classes_, codes = base.encode_labels(y, fewest=2)
        return base.signs(codes, len(self.classes_)), codes[:, None].astype(float)

    def _finish(self, fitted, dtype):
        a = temperature(fitted.left_out, fitted.targets, fitted.weights)
        self.dual_coef_ = _rounded(a * fitted.coef, dtype, 2.0 * a)
        self.intercept_ = (a * fitted.intercept).astype(dtype)

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Log-odds of the second class, or of every class; shape (n,) or (n, n_classes)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes)."""
        return base.probabilities(self.decision_function(X), joint=True)
