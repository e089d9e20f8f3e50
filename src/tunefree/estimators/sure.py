"""How sure a fitted model is: intervals, sets, and what they rest on, for every estimator."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tunefree.protocols import MatrixLike
from tunefree.uncertainty.calibration import VennAbers
from tunefree.uncertainty.intervals import (
    intervals,
    plus_interval,
    plus_set,
    rates,
)

NOTHING = (
    "This {} knows nothing of rows left out: {}. Fit it again, or wrap it in a split-conformal "
    "method with rows of its own."
)


class TellsRisk:
    """An estimator that keeps what was said of rows left out in `left_out_`."""

    left_out_: Any
    _why_not = "it was fitted without any"

    def _left_out(self):
        check_is_fitted(self)
        if getattr(self, "left_out_", None) is None:
            raise ValueError(NOTHING.format(type(self).__name__, self._why_not))
        return self.left_out_


class PredictsIntervals(TellsRisk):
    """A regressor with intervals; a subclass has `left_out_`, a `Residuals` of every target."""

    predict: Callable[..., np.ndarray]

    def _columns_of(self, X: Any) -> Any:
        """The columns as the local scale takes them; None if it looks at the prediction alone."""
        return None

    def predict_interval(
        self, X: MatrixLike, alpha: float | ArrayLike = 0.1, *, joint: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predictions, and intervals that hold the target in 1 - alpha of new rows.

        They are about the prediction, as wide as the rows that were left out call for, and follow
        the noise where that pays. What is guaranteed, and what was measured, is in the guide "How
        sure, and what that means".

        Parameters
        ----------
        X : as for `predict`
        alpha : float or array-like of shape (n_alpha,), default=0.1
            The share of targets that may lie outside.
        joint : bool, default=False
            With several targets: all of a row's lie within in 1 - alpha of rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
        intervals : ndarray of shape (n_samples, 2, n_alpha) or (n_samples, n_targets, 2, n_alpha)
            Infinite, with a warning, where rows left out are fewer than 1 / alpha - 1.

        Raises
        ------
        ValueError
            If nothing is known of rows left out, or alpha is not between 0 and 1.
        """
        alphas, parts = rates(alpha), self._left_out()
        y = self.predict(X)
        said = y.reshape(len(y), -1)
        copies = getattr(self, "copies_", None)
        if copies:
            out = self._plus(X, copies, said.shape, alphas, joint)
        else:
            out = intervals(parts, said, self._sigma(X, said), alphas, joint)
        out = self._possible(out)
        return y, out[:, 0] if y.ndim == 1 else out

    def _sigma(self, X, said):
        """The scale of rows, of the shape of the predictions."""
        local = any(getattr(p.scale, "view", None) is not None for p in self.left_out_)
        columns = self._columns_of(X) if local else None
        each = [p.scale.of(said[:, j], columns) for j, p in enumerate(self.left_out_)]
        return np.stack(each, axis=1)

    def _possible(self, ends):
        """Intervals within what targets can be."""
        return ends

    def _plus(self, X, copies, shape, alphas, joint):
        """CV+ over cross-fitted copies."""
        said, sigma, scores, weights = [], [], [], []
        for copy, own in copies:
            f = copy.predict(X).reshape(shape)
            said.append(f)
            sigma.append(copy._sigma(X, f))
            scores.append(own.scores.max(axis=1, keepdims=True) if joint else own.scores)
            weights.append(own.weights)
        out = np.empty((*shape, 2, len(alphas)))
        for j in range(shape[1]):
            column = [s[:, 0 if joint else j] for s in scores]
            own = [f[:, j] for f in said], [s[:, j] for s in sigma]
            out[:, j] = plus_interval(column, weights, *own, alphas)
        return out


class PredictsSets(TellsRisk):
    """A classifier with sets; a subclass has `left_out_`, a `Chances`."""

    predict: Callable[..., np.ndarray]
    predict_proba: Callable[..., np.ndarray]
    classes_: np.ndarray

    def predict_set(
        self,
        X: MatrixLike,
        alpha: float | ArrayLike = 0.1,
        *,
        score: str = "lac",
        class_conditional: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The most likely class, and a set of classes that holds the true one in 1 - alpha of rows.

        A set may be empty: none of the classes is as likely as the true one of most rows was.

        Parameters
        ----------
        X : as for `predict`
        alpha : float or array-like of shape (n_alpha,), default=0.1
            The share of rows whose class may be missing.
        score : {'lac', 'aps'}, default='lac'
            'lac' has the smallest sets on average, 'aps' larger ones where rows are hard.
        class_conditional : bool, default=False
            Keep the rate in every class; one of fewer than 1 / alpha - 1 rows is always in.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        sets : ndarray of bool of shape (n_samples, n_classes, n_alpha)

        Raises
        ------
        ValueError
            If nothing is known of rows left out, or alpha is not between 0 and 1.
        """
        alphas, part = rates(alpha), self._left_out()
        copies = getattr(self, "copies_", None)
        if copies and not class_conditional:
            p = [self._of_copy(copy, X) for copy, _ in copies]
            return self.predict(X), plus_set([own for _, own in copies], p, alphas, score)
        p = np.asarray(self.predict_proba(X), dtype=np.float64)
        return self.predict(X), part.sets(p, alphas, score, class_conditional)

    def _of_copy(self, copy, X):
        """Probabilities of a copy, which may have seen fewer classes."""
        told = copy.predict_proba(X)
        out = np.zeros((len(told), len(self.classes_)))
        out[:, np.searchsorted(self.classes_, copy.classes_)] = told
        return out

    def predict_venn_abers(self, X: MatrixLike) -> np.ndarray:
        """Two probabilities of every class, of which one is calibrated.

        Each class against the rest, by isotonic regression with the new row among those left out,
        once as none of the class and once as one of it (Vovk, Petej and Fedorova 2015). Their
        difference says how far the rows left out settle the matter.

        Parameters
        ----------
        X : as for `predict`

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2)
        """
        part, p = self._left_out(), np.asarray(self.predict_proba(X), dtype=np.float64)
        pairs = [
            VennAbers.fit(part.p[:, c], (part.codes == c).astype(float), part.weights).of(p[:, c])
            for c in range(len(self.classes_))
        ]
        return np.stack(pairs, axis=1)
