"""Streams that drift: estimators that learn row by row, with nothing to tune.

A row is an array, or a dict of names and values as in river: text values are categories, None and
NaN are missing, absent names are 0. A row of a frame with text is such a dict. The learner is a
`Mixture`, which takes numbers (`tunefree.streams.rows`) by places: here names and classes
get their places.
"""

import math
from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.locks import Threaded, rollback_on_error
from tunefree.base.sizes import HUGE_STREAMED_TARGET, warn_of_streamed_targets
from tunefree.base.state_checks import require
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.streams.betting import ALPHAS
from tunefree.streams.bounds import stream_mixing
from tunefree.streams.columns import ReadsRows
from tunefree.streams.drift import POINT
from tunefree.streams.learner import Mixture
from tunefree.streams.rows import (
    as_records,
    is_missing,
    label_of,
    objects,
    split_labels,
    target_of,
    writable,
)
from tunefree.streams.state import DRIFTS, NARROW, RATES
from tunefree.uncertainty.risk import online

# Most predictions that wait for their label.
_MOST_WAITING = 1 << 20
# What was learned, which `fit` forgets.
_LEARNED = "mixture_", "classes_", "codes_", "columns_", "_by_name", "_by_label", "_waiting"
_MEMBERS = [
    *(f"filter, drift {q:.3g}" for q in DRIFTS),
    *(f"gradient, rate {e:.3g}" for e in RATES),
    *(f"votes, narrowness {g:.3g}" for g in NARROW),
]


class LearnsByMixture(ReadsRows, Threaded, BaseEstimator, metaclass=ABCMeta):
    """What both stream estimators share: rows, the mixture, and its diagnostics."""

    _ONE_BY_ONE = True
    _REAL = False
    _supervised = True  # for river
    _waiting: dict[Any, np.ndarray]

    def __init__(self, delay: int = 0):
        self.delay = delay

    # --- labels ---

    @abstractmethod
    def _label(self, y) -> Any:
        """A checked label; None if it is not known."""

    @abstractmethod
    def _number(self, label) -> float:
        """The number of a label, which a new class gets."""

    @abstractmethod
    def _codes(self) -> dict[Any, int]:
        """The number of each class, in the order of their appearance."""

    @abstractmethod
    def _expect(self, labels) -> None:
        """Add the new ones of these classes."""

    @abstractmethod
    def _check_labels(self, y, known) -> np.ndarray:
        """The labels of rows, of which some are known; an error names the first that is none."""

    @abstractmethod
    def _learn_rows(self, rows, y, known, weights) -> None:
        """Learn checked rows of an array."""

    # --- predictions ---

    def _predict_row(self, x, key=None):
        """The prediction of a row; with a key it is stored until the label comes."""
        columns, values = self._row(x)
        answer = self.mixture_.ask_row(columns, values)
        if key is not None:
            waiting = vars(self).setdefault("_waiting", {})
            waiting[key] = self.mixture_.prediction.copy()
            if len(waiting) > _MOST_WAITING:  # labels that never come must not fill the memory
                del waiting[next(iter(waiting))]
        return answer

    def _predictions(self, X):
        """Predictions of rows, of shape (n, width)."""
        check_is_fitted(self, "mixture_" if self._REAL else ("mixture_", "classes_"))
        if self._REAL and not self.mixture_.answered:
            raise NotFittedError(f"This {type(self).__name__} has not learned any row yet.")
        X = self._as_records(X)
        if as_records(X) is not None:
            return self.mixture_.ask(self._all_places(self._read_records(X)))
        return self.mixture_.ask(self._matrix(X, reset=False)[0])

    # --- learning ---

    def fit(self, X: MatrixLike, y: TargetLike) -> Self:
        """Begin again, and learn rows in the order given (see `partial_fit`).

        Every label must be known.
        """
        with rollback_on_error(self):
            for name in _LEARNED:
                vars(self).pop(name, None)
            return self._learn(X, y, may_miss=False)

    def learn_one(self, x: Any, y: Any, w: float = 1.0, key: Any = None) -> None:
        """Learn one row.

        Parameters
        ----------
        x : dict, Series or array-like of shape (n_features,)
        y : label or float
            One that is missing (None, NaN, NaT, NA) is not known: nothing is learned from the row.
        w : float, default=1.0
            The weight of the row's loss.
        key : hashable, optional
            The key of an earlier prediction of this row: members are then evaluated by what they
            predicted at that time.
        """
        self._check_delay()
        label = self._label(y)
        if not (isinstance(w, (float, int, np.number)) and 0.0 <= w <= base.WEIGHTS_APART):
            raise ValueError(f"w={w!r} is not a weight from 0 to {base.WEIGHTS_APART:g}.")
        row = self._read(x)
        asked = None if key is None else vars(self).get("_waiting", {}).get(key)
        if label is None:
            self._pass(row)
        elif type(row) is dict:
            self._learn_names(row, label, w, asked)
        else:
            columns, values = row
            number = self._number(label)
            self.mixture_.learn_row(columns, values, number, w, asked)
        if asked is not None:
            del self._waiting[key]

    def _pass(self, row):
        """Take a row without a label: it is one of the rows by which labels come late."""
        if len(self.mixture_.past):
            columns, values = self._places(row) if type(row) is dict else row
            self.mixture_.learn_row(columns, values, 0, 0.0)

    def _learn_names(self, row, label, w, asked=None):
        """Learn numbers by names. New names get columns.

        The row is judged by what was predicted of it, before its new names had columns.
        """
        new = self._new_names(row)
        if new:
            if asked is None and not len(self.mixture_.past):
                self.mixture_.ask_row(*self._places(row))
                asked = self.mixture_.prediction.copy()
            names = self._names()
            for name in new:
                names[name] = len(names)
            self.columns_ += new
            self._widen(len(names))
        number = self._number(label)
        self.mixture_.learn_row(*self._places(row), number, w, asked)

    def _learn(self, X, y, sample_weight=None, classes=(), may_miss=True) -> Self:
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        self._check_delay()
        X = self._as_records(X)
        y, known = split_labels(y, self._REAL)
        if not (may_miss or known.all()):
            raise ValueError(
                f"Input y contains NaN. The first is y[{known.argmin()}]: drop the rows that have "
                "no label, or use partial_fit, which predicts them only."
            )
        has_names = as_records(X) is not None
        if has_names:
            if len(y) != len(X):
                raise ValueError(f"y has {len(y)} rows, and X has {len(X)}.")
            with base.plain_errors(self, None, y):
                y = self._check_labels(column_or_1d(y), known)
            rows = self._read_records(X)
        else:
            rows, y = self._matrix(X, not self._ready, y)
            y = self._check_labels(y, known)
        weights = base.check_weights(sample_weight, np.empty((len(y), 1)), stream=True)
        weights = np.where(known, weights, 0.0)
        self._expect(classes)
        (self._learn_records if has_names else self._learn_rows)(rows, y, known, weights)
        return self

    def _learn_records(self, rows, y, known, weights):
        """Learn rows of numbers by names, as many together as have no new name and no new class."""
        labels, start = y.tolist(), 0
        new = self._new_rows(rows, labels, known)
        if new and self.columns_ is not None:  # on copies: an interrupt leaves the old ones
            self.columns_ = [*self.columns_]
            vars(self).pop("_by_name", None)
        for i in [*new, len(rows)]:
            if start < i:
                pairs = zip(labels[start:i], known[start:i], strict=True)
                numbers = [self._number(label) if is_known else 0 for label, is_known in pairs]
                piece = self._all_places(rows[start:i])
                self.mixture_.learn(piece, np.array(numbers), weights[start:i])
            if i < len(rows):
                self._learn_names(rows[i], labels[i], float(weights[i]))
            start = i + 1

    def _new_rows(self, rows, labels, known):
        """The places of the rows that have a new name or a new class."""
        names, classes, new = set(self._names()), set(self._codes()), []
        may_grow = self.columns_ is not None
        for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
            if not known[i]:
                continue
            has_name = may_grow and not row.keys() <= names
            has_class = not self._REAL and label not in classes
            if has_name or has_class:
                new.append(i)
                names.update(row)
                classes.add(label)
        return new

    def _check_delay(self):
        """Refuse another delay than that with which the stream began."""
        mixture = vars(self).get("mixture_")
        if mixture is not None and self.delay != (began := len(mixture.past)):
            raise ValueError(
                f"delay={self.delay!r}, but this stream began with delay={began}, which cannot "
                "change later: begin again with fit or with a clone."
            )

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
        are shares of rows for a classifier, squared errors for a regressor; weights do not count.
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

        It is a share of rows, or a mean squared error. Every row counts once, whatever it weighs.
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
            One that is missing (None, NaN, NaT, NA) is not known: nothing is learned from its row.
        classes : array-like, optional
            Classes to expect. More may appear at any time.
        sample_weight : array-like of shape (n_samples,), optional
            The weights of the rows' losses.

        Returns
        -------
        self
        """
        with rollback_on_error(self):
            expected = [] if classes is None else np.unique(classes).tolist()
            if any(map(is_missing, expected)):
                raise ValueError(f"classes={expected!r:.80} has a missing value: give labels only.")
            return self._learn(X, y, sample_weight, expected)

    def _label(self, y):
        return label_of(y)

    def _number(self, label):
        number = self._codes().get(label)
        if number is None:
            self._expect([label])
            number = self._codes()[label]
        return number

    def _check_labels(self, y, known):
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError(f"y[{np.isfinite(y).argmin()}] is not finite.")
        if known.any():
            base.check_labels(y[known])
        return y

    def _learn_rows(self, rows, y, known, weights):
        if not known.any():
            self.mixture_.learn(rows, np.zeros(len(y), dtype=np.int64), weights)
            return
        found, first, codes = np.unique(y, return_index=True, return_inverse=True)
        labels, before = found.tolist(), self._codes()
        firsts = zip(first.tolist(), labels, strict=True)
        new = {i: label for i, label in firsts if label not in before}
        start = 0
        for stop in [*sorted(new), len(y)]:  # the next row with a new label, or the end
            if stop > start:
                numbers = self._codes()
                codes_of = np.array([numbers.get(label, -1) for label in labels])
                piece = rows[0][start : stop + 1], rows[1], rows[2]
                self.mixture_.learn(piece, codes_of[codes[start:stop]], weights[start:stop])
                start = stop
            if stop in new:
                self._expect([new[stop]])

    def _codes(self):
        codes = vars(self).get("_by_label")
        if codes is None:
            known = getattr(self, "classes_", np.empty(0)).tolist()
            codes = self._by_label = dict(zip(known, getattr(self, "codes_", []), strict=True))
        return codes

    def _expect(self, labels):
        """Add new classes, in their order."""
        for label in labels:
            codes = self._codes()
            if label in codes:
                continue
            # A copy: if a chunk is refused or interrupted, the old one is still there.
            codes = self._by_label = {**codes, label: len(codes)}
            if len(codes) > 2:
                self.mixture_ = self.mixture_.grow(m=len(codes))
            try:
                known = sorted(codes)
            except TypeError:  # labels of several types
                known = sorted(codes, key=lambda label: (str(type(label)), label))
            self.classes_ = np.array(known) if len(set(map(type, known))) == 1 else objects(known)
            self.codes_ = np.array([codes[label] for label in known])

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

        A theorem for any stream whose rows are predicted before their label is known, whatever they
        weigh (`tunefree.uncertainty.risk`); None before the first row.
        """
        check_is_fitted(self, "mixture_")
        n, wrong = int(self.mixture_.rows), float(self.mixture_.numbers["errors"])
        return online(min(wrong, n), n) if n else None

    def predict_set(self, X: MatrixLike, alpha: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
        """The most likely class, and a set of classes that holds the true one in 1 - alpha of rows.

        The rate holds on average over any stream in which each label comes before the next row
        (`tunefree.bounds.stream_coverage`), apart from the first row of each class. The most likely
        class is always in the set.

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
            One that is missing (None, NaN, NaT, NA) is not known: nothing is learned from its row.
            A target more than 30 standard deviations off is not learned, unless more such follow;
            one beyond 1e140 never is, with a warning. Its error counts in `progressive_error_`.
        sample_weight : array-like of shape (n_samples,), optional
            The weights of the rows' losses.

        Returns
        -------
        self
        """
        with rollback_on_error(self):
            return self._learn(X, y, sample_weight)

    def _label(self, y):
        target = target_of(y)
        if target is not None and abs(target) > HUGE_STREAMED_TARGET:
            warn_of_streamed_targets([target])
        return target

    def _codes(self):
        """No classes: targets are numbers."""
        return {}

    def _number(self, label):
        return label

    def _expect(self, labels):
        """Add no classes."""

    def _check_labels(self, y, known):
        targets = writable(y)
        if not np.isfinite(targets).all():
            raise ValueError(f"y[{np.isfinite(targets).argmin()}] is not finite.")
        warn_of_streamed_targets(targets)
        return targets

    def _learn_rows(self, rows, y, known, weights):
        self.mixture_.learn(rows, y, weights)

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
