"""Streams that drift: estimators that learn row by row, with nothing to tune.

A row is an array, or a dict of names and values as in river: text values are categories, None and
NaN are missing, absent names are 0. A row of a frame with text is such a dict. The learner is a
`Mixture`; here rows and labels are converted to its numbers.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tunefree.bounds.stream import stream_mixing
from tunefree.designs import as_dense, canonical, check_frame
from tunefree.estimators import base
from tunefree.estimators.fitting import Threaded, rollback_on_error
from tunefree.estimators.sizes import HUGE_TARGET, check_target_sizes, warn_of_entries
from tunefree.estimators.state_checks import require
from tunefree.learners.mixture.betting import ALPHAS
from tunefree.learners.mixture.drift import POINT
from tunefree.learners.mixture.learner import Mixture
from tunefree.learners.mixture.state import (
    DIAGONAL,
    DRIFTS,
    MOST_WHOLE,
    NARROW,
    RATES,
    SPARSE,
    WHOLE,
)
from tunefree.preprocessing import series
from tunefree.protocols import MatrixLike, TargetLike
from tunefree.uncertainty.risk import online

# Beyond this many names of columns, new names share existing columns.
_MOST_COLUMNS = 1 << 16
# Most predictions that wait for their label.
_MOST_WAITING = 1 << 20
# What was learned, which `fit` forgets.
_LEARNED = "mixture_", "classes_", "codes_", "columns_", "_by_name", "_by_label", "_waiting"
_MEMBERS = [
    *(f"filter, drift {q:.3g}" for q in DRIFTS),
    *(f"gradient, rate {e:.3g}" for e in RATES),
    *(f"votes, narrowness {g:.3g}" for g in NARROW),
]


class LearnsByMixture(Threaded, BaseEstimator):
    """What both stream estimators share: rows, the mixture, and its diagnostics."""

    _ONE_BY_ONE = True
    _REAL = False
    _supervised = True  # for river
    # Of subclasses: learn checked rows, and one row with its weight and key.
    _learn_rows: Callable
    _learn_row: Callable
    mixture_: Mixture
    columns_: Any  # names in the order of their appearance; None if rows are arrays

    def __init__(self, delay: int = 0):
        self.delay = delay

    # --- rows ---

    def _open(self, d, columns, wide=DIAGONAL):
        """Begin a stream of named columns, or of `d` columns in arrays."""
        if not (isinstance(self.delay, (int, np.integer)) and self.delay >= 0):
            raise ValueError(f"delay={self.delay!r} is not a number of rows: give 0 or more.")
        form = WHOLE if d <= MOST_WHOLE else wide
        self.mixture_, self.columns_ = Mixture(d, 1, form, self._REAL, int(self.delay)), columns

    @property
    def _ready(self):
        return "mixture_" in vars(self)

    def _matrix(self, X, reset, y: Any = None):
        """Rows of numbers in the form of CSR; `reset` begins a stream."""
        if not reset and self.columns_ is not None:
            raise ValueError("This stream has rows with names: give a list of dicts.")
        check_frame(X)
        targets: dict[str, Any] = {} if y is None else {"y": y, "y_numeric": self._REAL}
        form = base.ROWS | {"ensure_all_finite": "allow-nan"}
        with base.plain_errors(self, X, y):
            checked = validate_data(self, X, reset=reset, **form, **targets)
            if self._REAL and targets:
                np.asarray(checked[1], dtype=np.float64)  # text is an error
        X, y = checked if targets else (checked, None)
        if reset:
            warn_of_entries(X, getattr(self, "feature_names_in_", None))
        if self._REAL and targets:
            check_target_sizes(y, fresh=reset)
        d = X.shape[1]
        if reset:
            self._open(d, None, SPARSE if sparse.issparse(X) else DIAGONAL)
        if self.mixture_.form == SPARSE:
            X = canonical(sparse.csr_array(X))
            return (X.indptr, X.indices.astype(np.int64), _writable(X.data)), y
        values = _writable(as_dense(X)).ravel()
        return (np.arange(X.shape[0] + 1) * d, _NO_COLUMNS, values), y

    def _as_records(self, X):
        """A frame as a list of dicts, if the stream has names or a column is not numeric."""
        check_frame(X)
        if not hasattr(X, "columns") or not len(X):
            return X
        return _frame_rows(X, self._ready, self._ready and self.columns_ is not None)

    def _row(self, x, learn):
        """The columns and values of a row, a dict or an array; `learn` adds new names."""
        if isinstance(x, Mapping):
            return self._named_row(x, learn)
        x = _writable(x).ravel()
        if not self._ready:
            self._open(len(x), None)
            self.n_features_in_ = len(x)
        if self.columns_ is not None:
            raise ValueError("x is an array, but this stream has names: give a dict.")
        if len(x) != self.mixture_.d:
            raise ValueError(f"x has {len(x)} columns, but this stream has {self.mixture_.d}.")
        if self.mixture_.form == SPARSE:
            columns = np.flatnonzero(x)
            return columns, x[columns]
        return _NO_COLUMNS, x

    def _named_row(self, x, learn):
        if not self._ready:
            self._open(0, [])
        names = self._names()
        if len(x) == len(names) == self.mixture_.d and str not in set(map(type, x.values())):
            try:
                return _NO_COLUMNS, np.fromiter(map(x.__getitem__, names), float, len(x))
            except KeyError:
                pass
        values_of = {}
        for name, value in _features(x):
            j = _column(name, names, self.columns_, learn)
            if j is not None:
                values_of[j] = values_of[j] + value if j in values_of else value
        fixed = self.columns_ is None
        if not fixed:
            self._widen(len(names))
        if self.mixture_.form == SPARSE:
            columns = np.fromiter(values_of, dtype=np.int64, count=len(values_of))
            values = np.fromiter(values_of.values(), dtype=np.float64, count=len(values_of))
            return columns, values
        values = np.full(self.mixture_.d, math.nan if fixed else 0.0)
        for j, value in values_of.items():
            values[j] = value
        return _NO_COLUMNS, values

    def _names(self):
        """Columns by their names."""
        if "_by_name" not in vars(self):
            ordered = self.columns_
            if ordered is None:
                ordered = getattr(self, "feature_names_in_", None)
            if ordered is None:
                raise ValueError("x is a dict, but this stream has arrays: give an array.")
            self._by_name = {name: j for j, name in enumerate(ordered)}
        return self._by_name

    def _widen(self, d):
        """Extend to d columns; beyond 32 rows become sparse, with spare columns."""
        form = self.mixture_.form
        if d > MOST_WHOLE:
            form, d = SPARSE, max(64, 1 << (d - 1).bit_length())
        if d > self.mixture_.d:
            self.mixture_ = self.mixture_.grow(d=d, form=form)
            self.n_features_in_ = d

    def _predict_row(self, x, key=None):
        """The prediction of a row; with a key it is stored until the label comes."""
        columns, values = self._row(x, False)
        answer = self.mixture_.ask_row(columns, values)
        if key is not None:
            waiting = vars(self).setdefault("_waiting", {})
            waiting[key] = self.mixture_.prediction.copy()
            if len(waiting) > _MOST_WAITING:  # labels that never come must not fill the memory
                del waiting[next(iter(waiting))]
        return answer

    def _stored(self, key):
        """The prediction that was stored under a key, or None."""
        return None if key is None else vars(self).get("_waiting", {}).pop(key, None)

    def _predictions(self, X):
        """Predictions of rows, of shape (n, width)."""
        check_is_fitted(self, "mixture_" if self._REAL else ("mixture_", "classes_"))
        X = self._as_records(X)
        if _is_records(X):
            return np.array([self.mixture_.ask_row(*self._row(x, False)).copy() for x in X])
        return self.mixture_.ask(self._matrix(X, reset=False)[0])

    # --- learning ---

    def fit(self, X: MatrixLike, y: TargetLike) -> Self:
        """Begin again, and learn rows in the order given (see `partial_fit`)."""
        with rollback_on_error(self):
            for name in _LEARNED:
                vars(self).pop(name, None)
            return self._learn(X, y)

    def learn_one(self, x: Any, y: Any, w: float = 1.0, key: Any = None) -> None:
        """Learn one row.

        Parameters
        ----------
        x : dict or array-like of shape (n_features,)
        y : label or float; None (unlabeled) is ignored
        w : float, default=1.0
            The weight of the row's loss.
        key : hashable, optional
            The key of an earlier prediction of this row: members are then evaluated by what they
            predicted at that time.
        """
        if y is None:
            self._stored(key)
            return
        if not 0.0 <= w <= base.WEIGHTS_APART:
            raise ValueError(f"w={w!r} is not a weight from 0 to {base.WEIGHTS_APART:g}.")
        self._learn_row(x, y, w, key)

    def _learn(self, X, y, sample_weight=None, classes=()) -> Self:
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        X = self._as_records(X)
        if _is_records(X):
            weights = base.check_weights(sample_weight, np.empty((len(X), 1)), stream=True)
            with base.plain_errors(self, None, y):
                y = np.asarray(y, dtype=float if self._REAL else None)
            if len(y) != len(X):
                raise ValueError(f"y has {len(y)} rows, and X has {len(X)}.")
            for x, target, weight in zip(X, y.tolist(), weights.tolist(), strict=True):
                self._learn_row(x, target, weight, None)
            return self
        rows, y = self._matrix(X, not self._ready, y)
        weights = base.check_weights(sample_weight, np.empty((len(y), 1)), stream=True)
        self._learn_rows(rows, y, weights, classes)
        return self

    def __getstate__(self):
        state: Any = super().__getstate__()
        return {k: v for k, v in state.items() if k not in ("_by_name", "_by_label")}

    def _check_learner(self):
        """Refuse an inconsistent state from a model file."""
        mixture, columns, names = self.mixture_, self.columns_, vars(self).get("feature_names_in_")
        require(type(mixture) is Mixture and mixture.rows >= 0)  # reading it checks the rest
        require(mixture.real == self._REAL and vars(self).get("n_features_in_", 0) == mixture.d)
        require(names is None or len(names) == mixture.d)
        if columns is not None:
            require(type(columns) is list and len(set(columns)) == len(columns) <= mixture.d)
        if not self._REAL:
            k, codes = len(getattr(self, "classes_", [])), getattr(self, "codes_", [])
            require(sorted(codes) == list(range(k)) and mixture.m == (k if k > 2 else 1))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    # --- diagnostics ---

    @property
    def drift_(self) -> dict[str, np.ndarray]:
        """Forgetting rates and errors of the mixture, at up to 256 points of the stream.

        ``rows`` (labeled rows up to the point), ``half_life`` (rows after which what was learned
        has half its weight), ``error`` of the rows since the last point, ``error_so_far``. Errors
        are shares of rows for a classifier, squared errors for a regressor.
        """
        check_is_fitted(self, "mixture_")
        rows, life, wrong = self.mixture_.history()[:, :3].T.copy()
        gaps = np.diff(rows, prepend=0.0)
        return {
            "rows": rows,
            "half_life": life,
            "error": np.diff(wrong, prepend=0.0) / gaps,
            "error_so_far": wrong / rows,
        }

    @property
    def half_life_(self) -> float:
        """Rows after which what was learned has half its weight, by the present mixture weights."""
        check_is_fitted(self, "mixture_")
        return self.mixture_.half_life()

    @property
    def progressive_error_(self) -> float:
        """The mean error of the predictions, each made before its row was learned.

        Targets that a regressor did not learn as outliers count, too.
        """
        check_is_fitted(self, "mixture_")
        return float(self.mixture_.numbers["errors"] / max(self.mixture_.answered, 1))

    @property
    def n_outlier_rows_(self) -> int:
        """Rows with an entry or a target that was not learned, as an outlier."""
        check_is_fitted(self, "mixture_")
        return int(self.mixture_.numbers["outliers"])

    @property
    def members_(self) -> dict[str, float]:
        """The weight of each member in the Bayes mixtures; the weights add up to 1."""
        check_is_fitted(self, "mixture_")
        posteriors = self.mixture_.learned["posteriors"]
        shares = self.mixture_.learned["final"][: len(posteriors)] @ posteriors
        return dict(zip(_MEMBERS, (shares / shares.sum()).tolist(), strict=True))

    def excess(self, start: int = 0, stop: int | None = None) -> dict[str, Any]:
        """How much the log loss of predictions exceeds that of the best member on an interval.

        Parameters
        ----------
        start, stop : int
            Labeled rows before the interval, and at its end (default: now). The stream stores its
            losses at up to 256 points: the nearest are used. Targets that were not learned as
            outliers have no loss.

        Returns
        -------
        dict
            ``start``, ``stop`` (as used), ``member`` (the best there), ``excess`` in nats,
            ``bound`` (`tunefree.bounds.stream_mixing`; nothing is proved for labels that come late
            or rows that weigh more than 1).
        """
        check_is_fitted(self, "mixture_")
        table = np.vstack([np.zeros(POINT), self.mixture_.history()])
        stop = self.mixture_.answered if stop is None else stop
        a, b = (int(np.abs(table[:, 0] - row).argmin()) for row in (start, stop))
        gained = table[b] - table[a]
        best = int(gained[4:].argmin())
        first, last = int(table[a, 0]), int(table[b, 0])
        bound = stream_mixing(max(last, 1), first, clipped=not self._REAL)
        return {
            "start": first,
            "stop": last,
            "member": _MEMBERS[best],
            "excess": float(gained[3] - gained[4 + best]),
            "bound": bound,
        }


_NO_COLUMNS = np.empty(0, dtype=np.int64)
_NUMBERS = (Real, Decimal, np.bool_)


def _writable(values):
    """A writable float64 array; kernels would be compiled again for a read-only one."""
    out = np.ascontiguousarray(values, dtype=np.float64)
    return out if out.flags.writeable else out.copy()


def _is_missing(value):
    return value is None or value != value


def _is_numbers(column):
    """Whether a column holds numbers; one without any value does not count."""
    if column.dtype.kind != "O":
        return column.dtype.kind in "biuf"
    values = [value for value in column.tolist() if not _is_missing(value)]
    return bool(values) and all(isinstance(value, _NUMBERS) for value in values)


def _check_cells(name, column):
    """Refuse a column of a frame that holds neither numbers nor text."""
    if column.dtype.kind in "mM":
        raise ValueError(f"Column {name!r} holds dates or times: give numbers or text.")
    for value in column.tolist() if column.dtype.kind == "O" else ():
        if not (isinstance(value, (str, *_NUMBERS)) or _is_missing(value)):
            raise ValueError(f"Column {name!r} holds {value!r}: give numbers or text.")


def _frame_rows(X, began, has_names):
    """The rows of a frame as dicts where a stream has names or begins with text, else the frame."""
    names = list(getattr(X, "column_names", X.columns))
    columns = {name: series(X, j) for j, name in enumerate(names)}
    not_numeric = [name for name, column in columns.items() if not _is_numbers(column)]
    if began and not has_names and not_numeric:
        raise ValueError(
            f"Column {not_numeric[0]!r} is not numeric, but this stream began without text."
        )
    if not (has_names or not_numeric):
        return X
    for name, column in columns.items():
        _check_cells(name, column)
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _features(x):
    """Names and numbers of a dict: text is a category, None is missing."""
    for name, value in x.items():
        if type(value) is str:
            yield f"{name}={value}", 1.0
        else:
            name = name if type(name) is str else repr(name)
            yield name, math.nan if value is None else value


def _column(name, names, columns, learn):
    """The column of a name; None of a new name that is not learned."""
    if name in names:
        return names[name]
    if columns is None:
        raise ValueError(f"x has a column {name!r} that this stream does not have.")
    if len(names) >= _MOST_COLUMNS:  # the name shares the column of another
        return zlib.crc32(name.encode()) % _MOST_COLUMNS
    if learn:
        names[name] = len(names)
        columns.append(name)
    return names.get(name)


def _is_records(X):
    return isinstance(X, Sequence) and len(X) > 0 and isinstance(X[0], Mapping)


def _rate(alpha):
    """The index of a miss rate; there are bettors for a few rates."""
    for i, rate in enumerate(ALPHAS):
        if math.isclose(alpha, rate):
            return i
    raise ValueError(f"alpha={alpha!r} is none of {', '.join(map(str, ALPHAS))}.")


class StreamClassifier(ClassifierMixin, LearnsByMixture):
    r"""Classifier for streams that drift: nothing to tune, about a dozen microseconds a row.

    Sixteen linear members forget at different rates, from never to within a few rows (Kalman
    filters of the log-odds with a drift, implicit gradient steps). In four more the latest 512 rows
    vote, which gives nonlinear boundaries. Mixtures of all members predict; every member keeps a
    share, so that it can take over. On any interval of the stream the log loss exceeds that of the
    best member there by at most :math:`\ln 20 + \ln 15 + 2 \ln t`
    (`tunefree.bounds.stream_mixing`). Classes and, in dicts, columns may appear at any time. A
    column's mean and scale are learned from the stream; up to 32 columns, so are correlations. The
    sizes of chunks change no bit.

    Parameters
    ----------
    delay : int, default=0
        By how many rows labels come late: a row is predicted before the labels of the latest
        `delay` rows are known. `partial_fit` and `learn_one` then evaluate the members by what they
        would have predicted at that time. If the delay varies, keep 0 and give keys.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    mixture_ : Mixture
        All that has been learned.
    drift_ : dict
        Half-lives and errors over the stream (`DriftDisplay` draws them).
    half_life_, progressive_error_ : float
    online_risk_interval_ : tuple of float or None
        Interval (95 %, at all times together) for the mean risk of the predictions so far.
    members_ : dict
    n_outlier_rows_ : int
    n_features_in_ : int

    References
    ----------
    Vovk 1998, "A game of prediction with expert advice"; Herbster and Warmuth 1998, "Tracking the
    best expert"; Campolongo and Orabona 2020, "Temporal variability in implicit online learning".

    Examples
    --------
    >>> from tunefree import StreamClassifier
    >>> model = StreamClassifier()
    >>> for t in range(300):
    ...     x = {"price": t % 7, "day": "monday" if t % 3 else "sunday"}
    ...     model.learn_one(x, y=t % 7 > 2)
    >>> model.predict_one({"price": 5, "day": "sunday"})
    True
    """

    _multiclass = True  # for river

    def partial_fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn rows in the order given; the sizes of chunks change no bit.

        Parameters
        ----------
        X : array-like, CSR or frame of shape (n_samples, n_features), or list of dicts
            NaN is a missing value; in dicts and frames None, too. Frames with text are learned like
            lists of dicts.
        y : array-like of shape (n_samples,)
        classes : array-like, optional
            Classes to expect. More may appear at any time.
        sample_weight : array-like of shape (n_samples,), optional
            The weights of the rows' losses.

        Returns
        -------
        self
        """
        with rollback_on_error(self):
            return self._learn(X, y, sample_weight, () if classes is None else classes)

    def _learn_rows(self, rows, y, weights, classes):
        base.check_labels(y)
        self._expect(np.unique(classes).tolist())
        found, first, codes = np.unique(y, return_index=True, return_inverse=True)
        labels, known = found.tolist(), self._codes()
        firsts = zip(first.tolist(), labels, strict=True)
        new = {i: label for i, label in firsts if label not in known}
        start = 0
        for stop in [*sorted(new), len(y)]:  # the next row with a new label, or the end
            if stop > start:
                codes_of = np.array([known.get(label, -1) for label in labels])
                piece = rows[0][start : stop + 1], rows[1], rows[2]
                self.mixture_.learn(piece, codes_of[codes[start:stop]], weights[start:stop])
                start = stop
            if stop in new:
                self._expect([new[stop]])

    def _codes(self) -> dict[Any, int]:
        """The number of each class, in the order of their appearance."""
        codes = vars(self).get("_by_label")
        if codes is None:
            known = getattr(self, "classes_", np.empty(0)).tolist()
            codes = self._by_label = dict(zip(known, getattr(self, "codes_", []), strict=True))
        return codes

    def _expect(self, labels):
        """Add new classes, in their order."""
        codes = self._codes()
        for label in labels:
            if label in codes:
                continue
            codes[label] = len(codes)
            if len(codes) > 2:
                self.mixture_ = self.mixture_.grow(m=len(codes))
            try:
                known = sorted(codes)
            except TypeError:  # labels of several types
                known = sorted(codes, key=lambda label: (str(type(label)), label))
            self.classes_ = np.array(known) if len(set(map(type, known))) == 1 else _objects(known)
            self.codes_ = np.array([codes[label] for label in known])

    def _learn_row(self, x, y: Any, w, key):
        rows = self._row(x, True)
        codes = self._codes()
        if y not in codes:
            label: Any = y.item() if isinstance(y, np.generic) else y
            self._expect([label])
        self.mixture_.learn_row(*rows, codes[y], w, self._stored(key))

    def predict_proba_one(self, x: Any, key: Any = None) -> dict:
        """Probability of each class for one row; {} before any label.

        With a `key`, the prediction is stored for `learn_one`, when the label comes.
        """
        return self._probabilities(x, key)

    def _probabilities(self, x, key=None) -> dict:
        if not self._ready and key is None:
            return {}
        predictions, codes = self._predict_row(x, key), self._codes()
        if len(codes) == 2:
            p = float(predictions[0])
            return {label: p if code else 1.0 - p for label, code in codes.items()}
        if len(codes) < 2:
            return dict.fromkeys(codes, 1.0)
        return {label: float(predictions[code]) for label, code in codes.items()}

    def predict_one(self, x: Any, key: Any = None) -> Any:
        """The most likely class of one row; None before any label."""
        p = self._probabilities(x, key)
        return max(p, key=p.__getitem__) if p else None

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes, shape (n_samples, n_classes)."""
        predictions = self._predictions(X)
        if len(self.classes_) == 1:
            return np.ones((len(predictions), 1))
        if len(self.classes_) == 2:
            predictions = np.stack([1.0 - predictions[:, 0], predictions[:, 0]], axis=1)
        return predictions[:, self.codes_]

    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most likely class of every row, shape (n_samples,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    @property
    def online_risk_interval_(self) -> tuple[float, float] | None:
        """Interval (95 %, at all times together) for the mean risk of the predictions so far.

        A theorem for any stream whose rows weigh 1 and are predicted before their label is known
        (`tunefree.uncertainty.risk`); None before the first row.
        """
        check_is_fitted(self, "mixture_")
        n, wrong = int(self.mixture_.rows), float(self.mixture_.numbers["errors"])
        return online(min(wrong, n), n) if n else None

    def predict_set(self, X: MatrixLike, alpha: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
        """The most likely class, and a set of classes that holds the true one in 1 - alpha of rows.

        The rate holds on average over any stream in which each label comes before the next row
        (`tunefree.bounds.stream_coverage`). The most likely class is always in the set.

        Parameters
        ----------
        X : array-like, CSR or frame of shape (n_samples, n_features), or list of dicts
        alpha : float, default=0.1
            One of .01, .02, .05, .1, .2, .3, .5.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        sets : ndarray of bool of shape (n_samples, n_classes, 1)
        """
        p = self.predict_proba(X)
        sets = 1.0 - p <= self.mixture_.radius(_rate(alpha))
        sets |= p == p.max(axis=1, keepdims=True)
        return self.classes_[p.argmax(axis=1)], sets[:, :, None]

    def predict_set_one(self, x: Any, alpha: float = 0.1) -> set:
        """The set of classes of one row (see `predict_set`)."""
        probabilities = self._probabilities(x)
        if not probabilities:
            return set()
        most, reach = max(probabilities.values()), self.mixture_.radius(_rate(alpha))
        return {label for label, p in probabilities.items() if 1.0 - p <= reach or p == most}


def _objects(values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


class StreamRegressor(RegressorMixin, LearnsByMixture):
    r"""Regression for streams that drift: nothing to tune, about a dozen microseconds a row.

    As `StreamClassifier`, with squared loss: exact Kalman filters and implicit gradient steps on
    targets that are standardised as they come, with residual variances that forget
    over fifty rows, mixed by Student densities. Predictions are clipped to the range of the targets
    so far. With up to 32 columns, early predictions are shrunk towards the mean: after n rows of d
    columns by the factor :math:`n^2 / (n^2 + d^2 / 2)`, until n = 8 d.

    Parameters
    ----------
    delay : int, default=0
        By how many rows targets come late (see `StreamClassifier`).

    Attributes
    ----------
    mixture_ : Mixture
        All that has been learned.
    drift_ : dict
        Half-lives and squared errors over the stream (`DriftDisplay` draws them).
    half_life_, progressive_error_ : float
    members_ : dict
    n_outlier_rows_ : int
    n_features_in_ : int

    References
    ----------
    West and Harrison 1997, "Bayesian forecasting and dynamic models"; see `StreamClassifier`.

    Examples
    --------
    >>> from tunefree import StreamRegressor
    >>> model = StreamRegressor()
    >>> for t in range(300):
    ...     model.learn_one([t % 10, t % 7], 2.0 * (t % 10) - t % 7)
    >>> round(model.predict_one([4, 6]), 1)
    2.0
    """

    _REAL = True

    def partial_fit(
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn rows in the order given; the sizes of chunks change no bit.

        Parameters
        ----------
        X : array-like, CSR or frame of shape (n_samples, n_features), or list of dicts
            NaN is a missing value; in dicts and frames None, too. Frames with text are learned like
            lists of dicts.
        y : array-like of shape (n_samples,)
            A target more than 30 standard deviations off is not learned, unless more such follow.
            Its error counts in `progressive_error_`.
        sample_weight : array-like of shape (n_samples,), optional
            The weights of the rows' losses.

        Returns
        -------
        self
        """
        with rollback_on_error(self):
            return self._learn(X, y, sample_weight)

    def _learn_rows(self, rows, y, weights, classes):
        check_target_sizes(y, fresh=False)
        self.mixture_.learn(rows, _writable(y), weights)

    def _learn_row(self, x, y: Any, w, key):
        if not math.isfinite(y):
            raise ValueError(f"y={y!r} is not finite.")
        if abs(y) > HUGE_TARGET:
            check_target_sizes([y], fresh=False)
        rows = self._row(x, True)
        self.mixture_.learn_row(*rows, y, w, self._stored(key))

    def predict_one(self, x: Any, key: Any = None) -> Any:
        """The target of one row; None before any.

        With a `key`, the prediction is stored for `learn_one`, when the target comes.
        """
        if not self._ready and key is None:
            return None
        predictions = self._predict_row(x, key)
        return float(predictions[0]) if self.mixture_.rows else None

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predicted targets, shape (n_samples,)."""
        return self._predictions(X)[:, 0]

    def predict_interval(self, X: MatrixLike, alpha: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
        """Predictions, and intervals that hold the target in 1 - alpha of rows.

        The rate holds on average over any stream in which each target comes before the next row
        (`tunefree.bounds.stream_coverage`); targets that are not learned as outliers count, too.
        Intervals are infinite until 64 targets have been scored.

        Parameters
        ----------
        X : array-like, CSR or frame of shape (n_samples, n_features), or list of dicts
        alpha : float, default=0.1
            One of .01, .02, .05, .1, .2, .3, .5.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        intervals : ndarray of shape (n_samples, 2, 1)
        """
        y, scale = self._predictions(X).T[:2]
        reach = self._reach(alpha) * scale
        return y, np.stack([y - reach, y + reach], axis=1)[:, :, None]

    def predict_interval_one(self, x: Any, alpha: float = 0.1) -> tuple[float, float]:
        """The interval of one row (see `predict_interval`)."""
        if not self._ready:
            return -math.inf, math.inf
        y, scale = self._predict_row(x)[:2].tolist()
        reach = self._reach(alpha) * scale
        return y - reach, y + reach

    def _reach(self, alpha):
        """Half the width of intervals, in standard deviations."""
        return max(self.mixture_.radius(_rate(alpha)), 0.0)


try:  # metrics and evaluations of river use isinstance
    from river import base as _river  # pyright: ignore[reportMissingImports]
except ImportError:
    pass
else:
    _river.Classifier.register(StreamClassifier)
    _river.Regressor.register(StreamRegressor)
