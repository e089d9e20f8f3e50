"""`score`, which takes the targets and weights that `fit` takes, and labels by decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight

from tunefree.base import base
from tunefree.base.locks import Threaded
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.rows.missing import complete
from tunefree.rows.row_labels import matched_by_place


class ScoresLabels(ClassifierMixin):
    """A classifier whose `score` takes the labels and weights that `fit` takes."""

    predict: Callable[..., Any]

    @matched_by_place
    def score(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of rows whose class is predicted.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        float
        """
        return share_right(y, self.predict(X), sample_weight)


def share_right(y: Any, predicted: Any, sample_weight: Any = None) -> float:
    """The share of labels that are predicted, by weight.

    >>> share_right(np.array([True, False], dtype=object), np.array([True, True]))
    0.5
    """
    from sklearn.metrics import accuracy_score

    weights = weights_of(sample_weight, len(predicted))
    return float(accuracy_score(_labels_of(y, predicted), predicted, sample_weight=weights))


def _labels_of(y, predicted):
    """The labels that `score` is given, of the type and shape of the predicted ones."""
    y = given_with(y, predicted)
    base.refuse_mixed(y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"Input y contains infinity.{base.first_target(y)}")
    if len(y) and base.kind_of(y) != base.kind_of(predicted):
        raise ValueError(
            f"y holds labels such as {y.ravel().tolist()[0]!r:.40}, and those of fit are such as "
            f"{predicted.ravel().tolist()[0]!r:.40}: give labels of the same type."
        )
    return y


def given_with(y: Any, predicted: np.ndarray, name: str = "y") -> np.ndarray:
    """Targets or labels beside the rows of a fit, such as those of `score`, in a given shape."""
    if y is None:
        raise ValueError(f"{name} is None: score needs the targets, one a row.")
    y = np.asarray(complete(y, name))
    y = y.reshape(len(y), -1) if y.ndim > 1 else y
    n, k = len(predicted), 1 if predicted.ndim == 1 else predicted.shape[1]
    if y.ndim == 0 or len(y) != n:
        rows, X = y.size if y.ndim < 2 else len(y), name.replace("y", "X")
        raise ValueError(f"{name} has {rows} rows, but {X} has {n} rows.")
    if y.size != n * k:
        raise ValueError(f"{name} has {y.size // n} targets a row, but this model predicts {k}.")
    return y.reshape(predicted.shape)


class ScoresTargets(RegressorMixin):
    """A regressor whose `score` takes the targets and weights that `fit` takes."""

    predict: Callable[..., Any]

    @matched_by_place
    def score(self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None) -> float:
        """The coefficient of determination R2, by weight.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        float
        """
        return share_explained(y, self.predict(X), sample_weight)


def share_explained(y: Any, predicted: Any, sample_weight: Any = None) -> float:
    """R2 of targets as `fit` takes them, by weight.

    >>> share_explained(["1", "2", "3"], [1.0, 2.0, 3.0], [[1.0], [1.0], [2.0]])
    1.0
    """
    from sklearn.metrics import r2_score

    predicted = np.asarray(predicted)
    weights = weights_of(sample_weight, len(predicted))
    return float(r2_score(targets_of(y, predicted), predicted, sample_weight=weights))


def weights_of(sample_weight: Any, n: int) -> Any:
    """The weights that `score` is given, one a row; None for none."""
    if sample_weight is None:
        return None
    weights = complete(sample_weight, "sample_weight")
    if np.ndim(weights) and len(weights) != n:
        raise ValueError(f"sample_weight has {len(weights)} numbers, but X has {n} rows.")
    rows = np.empty((n, 1))
    weights = _check_sample_weight(weights, rows, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("All entries of sample_weight are zero: there is no row to score.")
    return weights


def targets_of(y: Any, predicted: np.ndarray, name: str = "y") -> np.ndarray:
    """The targets that `score` is given, as finite numbers in the shape of the predicted ones."""
    y = given_with(y, predicted, name)
    if y.dtype.kind in "mM":
        raise ValueError(f"{name} holds dates or times: give numbers, such as days since a date.")
    for value in y.ravel().tolist() if y.dtype.kind in "OUS" else ():
        if isinstance(value, str) and not base.is_float(value):
            raise ValueError(f"{name} holds text such as {value!r:.60}: give numbers.")
    return base.as_finite(y.astype(np.float64), name)


class LabelsByDecisions(Threaded, ScoresLabels):
    """`predict` by `decision_function`, and `predict_log_proba` if there is `predict_proba`."""

    decision_function: Callable[..., np.ndarray]
    predict_proba: Callable[..., np.ndarray]
    classes_: np.ndarray

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most likely class of every row, shape (n_samples,)."""
        scores = self.decision_function(X)
        return self.classes_[base.codes_of(scores.reshape(len(scores), -1))]

    @available_if(lambda self: callable(self.predict_proba))
    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))
