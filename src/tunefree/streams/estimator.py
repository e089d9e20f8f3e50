"""What both estimators of streams share: rows, the mixture, and its diagnostics.

A row is an array, or a dict of names and values as in river: text values are categories, dates are
numbers, None and NaN are missing, absent names are 0. A row of a frame with text or dates is such a
dict. The learner is a `Mixture`, which takes numbers (`tunefree.streams.rows`) by places: here
names and classes get their places.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base
from tunefree.base.locks import Threaded, rollback_on_error
from tunefree.base.state_checks import require
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.rows.row_labels import warn_of_row_labels
from tunefree.streams.bounds import stream_mixing
from tunefree.streams.columns import ReadsRows
from tunefree.streams.drift import POINT
from tunefree.streams.learner import Mixture
from tunefree.streams.rows import NamedNumbers, as_records, date_of, split_labels
from tunefree.streams.state import DRIFTS, NARROW, RATES

# Most predictions that wait for their label.
_MOST_WAITING = 1 << 20
# What is found again from other attributes.
_FOUND_AGAIN = "_by_name", "_by_label", "_levels", "_lost", "_of_dates", "_rounded"
# What was learned, which `fit` forgets.
_LEARNED = "mixture_", "classes_", "codes_", "columns_", "_waiting", *_FOUND_AGAIN
_MEMBERS = [
    *(f"filter, drift {q:.3g}" for q in DRIFTS),
    *(f"gradient, rate {e:.3g}" for e in RATES),
    *(f"votes, narrowness {g:.3g}" for g in NARROW),
]


def of_river(kind):
    """Register a class as one of river's, if it is installed: its metrics use isinstance."""

    def registered(cls):
        try:
            from river import base as river  # pyright: ignore[reportMissingImports]
        except ImportError:
            return cls
        getattr(river, kind).register(cls)
        return cls

    return registered


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
            rows = self._read_records(X)
            self._warn_of_unknown(rows)
            self._warn_of_other_levels(rows)
            return self.mixture_.ask(self._all_places(rows))
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
        is_number = isinstance(w, (float, int, np.number))
        if not (is_number and 0.0 <= w <= base.WEIGHTS_APART):
            raise ValueError(f"w={w!r} is not a weight from 0 to {base.WEIGHTS_APART:g}.")
        row = self._read(x)
        asked = None if key is None else vars(self).get("_waiting", {}).get(key)
        if label is None:
            self._pass(row)
        elif type(row) is NamedNumbers:
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
            columns, values = self._places(row) if type(row) is NamedNumbers else row
            self.mixture_.learn_row(columns, values, 0, 0.0)

    def _learn_names(self, row, label, w, asked=None):
        """Learn numbers by names. New names get columns.

        The row is judged by what was predicted of it, before its new names had columns.
        """
        self._warn_of_lost([row])
        new = self._new_names(row)
        if new:
            if asked is None and not len(self.mixture_.past):
                self.mixture_.ask_row(*self._places(row))
                asked = self.mixture_.prediction.copy()
            names = self._names()
            for name in new:
                names[name] = len(names)
            self._of_dates.update(n for n in map(date_of, new) if n in names)
            self.columns_ += new
            self._widen(len(names))
            self._warn_of_levels(new)
        number = self._number(label)
        self.mixture_.learn_row(*self._places(row), number, w, asked)

    def _learn(self, X, y, sample_weight=None, classes=(), may_miss=True) -> Self:
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        self._check_delay()
        warn_of_row_labels(X, y=y, sample_weight=sample_weight)
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
        if not (may_miss or self._REAL):
            base.warn_of_labels(np.unique(y))
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
                self._warn_of_lost(rows[start:i])
                piece = self._all_places(rows[start:i])
                self.mixture_.learn(piece, np.array(numbers), weights[start:i])
            if i < len(rows):
                self._learn_names(rows[i], labels[i], float(weights[i]))
            start = i + 1

    def _new_rows(self, rows, labels, known):
        """The places of the rows that have a new name or a new class."""
        names = set(self._names())
        classes = set(self._codes())
        new = []
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
        return {k: v for k, v in state.items() if k not in _FOUND_AGAIN}

    def _check_learner(self):
        """Refuse an inconsistent state from a model file."""
        mixture = self.mixture_
        columns = self.columns_
        names = vars(self).get("feature_names_in_")
        require(type(mixture) is Mixture and mixture.rows >= 0)  # reading it checks the rest
        require(mixture.real == self._REAL and vars(self).get("n_features_in_", 0) == mixture.d)
        require(names is None or len(names) == mixture.d)
        if columns is not None:
            require(type(columns) is list and len(set(columns)) == len(columns) <= mixture.d)
        if not self._REAL:
            k = len(getattr(self, "classes_", []))
            codes = getattr(self, "codes_", [])
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
