"""Classes of streams that drift: learned row by row, with nothing to tune."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tunefree.base import base, scores
from tunefree.base.locks import rollback_on_error
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.core.warn import DataWarning, warn
from tunefree.streams.betting import rate_index
from tunefree.streams.estimator import LearnsByMixture, of_river
from tunefree.streams.rows import label_of, objects
from tunefree.uncertainty.risk import online


@of_river("Classifier")
class StreamClassifier(scores.ScoresLabels, LearnsByMixture):
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
            NaN is a missing value; in dicts and frames None, too. Frames with text or dates are
            learned like lists of dicts.
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
            expected = [] if classes is None else base.named_classes(classes).tolist()
            return self._learn(X, y, sample_weight, expected)

    def _label(self, y):
        label = label_of(y)
        if type(label) is float and not label.is_integer() and label not in self._codes():
            warn(
                f"y is {label!r:.40}, a fraction, and becomes a class: StreamRegressor learns "
                "numbers.",
                DataWarning,
            )
        return label

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
            other = next(
                (one for one in codes if isinstance(one, str) != isinstance(label, str)), None
            )
            if other is not None:
                warn(
                    f"y is {label!r:.40}, and the classes so far are such as {other!r:.40}: labels "
                    "of two types are different classes.",
                    DataWarning,
                )
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
        n = int(self.mixture_.rows)
        wrong = float(self.mixture_.numbers["errors"])
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
        sets = 1.0 - p <= self.mixture_.radius(rate_index(alpha))
        sets |= p == p.max(axis=1, keepdims=True)
        return self.classes_[p.argmax(axis=1)], sets[:, :, None]

    def predict_set_one(self, x: Any, alpha: float = 0.1) -> set:
        """The set of classes of one row (see `predict_set`)."""
        probabilities = self._probabilities(x)
        if not probabilities:
            return set()
        most = max(probabilities.values())
        reach = self.mixture_.radius(rate_index(alpha))
        return {label for label, p in probabilities.items() if 1.0 - p <= reach or p == most}
