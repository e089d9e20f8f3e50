"""What all estimators share: checking rows, weights and labels, and saying what is wrong."""

import functools
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, validate_data

from tunefree._interrupts import interruptible
from tunefree._parameters import check_values
from tunefree._threads import one_blas_thread
from tunefree.protocols import MatrixLike

FLOATS = [np.float64, np.float32]
# The largest value to learn from.
_HUGE = 1e150


@contextmanager
def unharmed(estimator):
    """Leave the estimator's attributes as they were if what is done within raises.

    BLAS has one thread within.

    Raises
    ------
    ValueError
        For parameters that mean nothing, before anything is done.
    """
    check_values(estimator)
    before = vars(estimator).copy()
    try:
        with interruptible(), one_blas_thread():
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def all_or_nothing(method):
    """Make a method leave the estimator's attributes as they were if it raises."""

    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        with unharmed(self):
            return method(self, *args, **kwargs)

    return guarded


def check_rows(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """Rows as a C-contiguous array or a canonical CSR matrix; the user's memory never changes.

    Raises
    ------
    ValueError
        For NaN, infinity, text, or another number of columns than in `fit`.
    """
    X = validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=FLOATS, order="C",
        accept_large_sparse=True,
    )  # fmt: skip
    return canonical(X)


def check_rows_and_targets(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    reset: bool = True,
    multi_output: bool = False,
    numeric: bool = False,
) -> tuple[Any, Any]:
    """`check_rows`, with targets of the same length."""
    X, y = validate_data(
        estimator, X, y, reset=reset, accept_sparse="csr", dtype=FLOATS, order="C",
        accept_large_sparse=True, multi_output=multi_output, y_numeric=numeric,
    )  # fmt: skip
    check_size(X)
    return canonical(X), y


def check_size(X):
    """Refuse rows with entries whose squares overflow.

    Raises
    ------
    ValueError
    """
    if largest_entry(X) > _HUGE:
        raise ValueError(f"Input X contains values beyond {_HUGE:g}: their squares overflow.")


def largest_entry(X):
    """The largest absolute value."""
    values = X.data if sparse.issparse(X) else X
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def canonical(X):
    """CSR with sorted, unique, nonzero entries and the narrowest index type; arrays unchanged."""
    if not sparse.issparse(X):
        return X
    X = sparse.csr_array(X)
    if not X.has_canonical_format or (X.nnz and not X.data.all()):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    narrow = np.int32 if max(X.shape[1], 1) < 2**31 else np.int64
    indices, indptr = X.indices.astype(narrow, copy=False), X.indptr.astype(np.int64, copy=False)
    out = sparse.csr_array(X.shape, dtype=X.dtype)
    # The constructor would narrow indptr; kernels want one type of it.
    out.data, out.indices, out.indptr = X.data, indices, indptr
    return out


def take(X, rows):
    """Rows of an array or canonical CSR matrix, with the same index types."""
    if not sparse.issparse(X):
        return X[rows]
    # SciPy selects with one index type for both arrays: the constructor narrows indptr to it.
    return canonical(sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)[rows])


def check_weights(sample_weight, X):
    """Weights as float64, one a row; None means 1.

    Raises
    ------
    ValueError
        For NaN, infinite or negative weights, a wrong length, or weights that are all zero.
    """
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError(
            "All entries of sample_weight are zero: there is no row to learn from. "
            "Give at least one row a positive weight."
        )
    return weights


def encode_labels(y, fewest=1):
    """Sorted classes and the class number of every label.

    Raises
    ------
    ValueError
        For continuous targets, or labels of fewer classes.
    """
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {kind}. Only binary and multiclass labels are taken."
        )
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < fewest:
        raise ValueError(
            f"y has only one class ({classes[0]}): a classifier needs rows of at least two."
        )
    return classes, codes


def balanced(class_weight, classes, codes, weights):
    """Weights times the class weights; 'balanced' counts the weighted rows of each class."""
    if class_weight is None:
        return weights
    if class_weight == "balanced":
        total = np.bincount(codes, weights, minlength=len(classes))
        each = np.divide(total.sum(), len(classes) * total, out=np.zeros(len(total)),
                         where=total > 0)  # fmt: skip
    else:
        each = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    return weights * each[codes]


def signs(codes, n_classes):
    """Targets +1 / -1: one column for two classes (+1 is the second), else one a class."""
    if n_classes == 2:
        return np.where(codes == 1, 1.0, -1.0)[:, None]
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)


class LabelsByDecisions(ClassifierMixin):
    """What a classifier with `decision_function`, and perhaps `predict_proba`, has from them."""

    decision_function: Callable[..., np.ndarray]
    predict_proba: Callable[..., np.ndarray]
    classes_: np.ndarray

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most likely class of every row, shape (n_samples,)."""
        scores = self.decision_function(X)
        return self.classes_[chosen(scores.reshape(len(scores), -1))]

    @available_if(lambda self: callable(self.predict_proba))
    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))


def share_stored(X):
    """The share of entries that are not zero."""
    stored = X.nnz if sparse.issparse(X) else np.count_nonzero(X)
    return stored / max(1, X.shape[0] * X.shape[1])


def stored(X, views):
    """X as an array if a view needs that."""
    dense = any(view.dense for view in views.values())
    return X.toarray() if dense and sparse.issparse(X) else X


def chosen(scores):
    """The class number of every row of decisions, of shape (n, n_outputs)."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > 0.0).astype(int)
    return scores.argmax(axis=1)


def probabilities(scores, joint):
    """Probabilities from log-odds: softmax of joint outputs, else normalised sigmoids."""
    if scores.ndim == 1:
        second = expit(scores)
        return np.stack([1.0 - second, second], axis=1)
    if joint:
        return softmax(scores, axis=1)
    p = expit(scores)
    return p / p.sum(axis=1, keepdims=True)
