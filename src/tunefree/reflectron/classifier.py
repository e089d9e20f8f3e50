"""The Reflectron for classes, and what it shares with the GLM: outputs, probabilities, streams."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from tunefree.base import base, scores
from tunefree.base.locks import all_or_nothing
from tunefree.base.progress import report_progress
from tunefree.base.uncertainty_mixins import PredictsSets, RiskIntervalMixin
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.held_out.shrinkage import shrinkage_factor_of_classes
from tunefree.parts.families import Matching
from tunefree.parts.links import link_of, target_margin
from tunefree.reflectron.constraints.rules import is_odd
from tunefree.reflectron.descent import Training
from tunefree.reflectron.reflectron import (
    TEXTS,
    MirrorDescent,
    ReflectronSettings,
    documented,
    is_streamed,
    validation_rows,
)
from tunefree.rows.matrices import take
from tunefree.rows.row_labels import matched_by_place


def _gives_probabilities(estimator):
    """Whether the family has probabilities of classes, or the link a bounded range."""
    own = hasattr(vars(estimator).get("family_"), "probabilities")
    return own or np.isfinite(estimator._levels()).all()


def has_probabilities(estimator):
    """Whether an estimator has `predict_proba`; or else an AttributeError with the reason."""
    if not _gives_probabilities(estimator):
        raise AttributeError(
            f"predict_proba needs a link of bounded range, not {estimator.link!r}."
        )
    return True


class MirrorClassifier(RiskIntervalMixin, PredictsSets, scores.LabelsByDecisions, MirrorDescent):
    """What the classifiers share: two classes are one output, several have one each."""

    classes_: np.ndarray

    def _link(self):
        return link_of(self.link, "logit")

    def _fit_labels(self, X, y, sample_weight, X_val, y_val, grades=None, offset=None):
        """Learn from rows in memory; an offset, of two classes, is added to their indices."""
        X, y = base.check_rows_and_targets(self, X, y)
        weights = base.check_weights(sample_weight, X)
        base.encode_labels(y)
        kept = np.flatnonzero(weights > 0.0)
        if len(kept) < len(weights):
            X, y, weights = take(X, kept), y[kept], weights[kept]
            offset = None if offset is None else offset[kept]
        classes = self._in_order(base.encode_labels(y, fewest=2)[0], grades)
        setup = self._setup(self._law(classes))
        codes = base.places_of(classes, y)
        counts = np.bincount(codes, weights)
        weights = base.balanced(self.class_weight, classes, codes, weights)
        validation = validation_rows(self, X_val, y_val)
        if validation is not None:
            X_val, y_val, ones = validation
            y_val = scores.given_with(y_val, ones, "y_val")
            if not np.isin(y_val, classes).all():
                raise ValueError("y_val has classes that y does not have.")
            y_val = self._targets(base.places_of(classes, y_val), classes)
            validation = X_val, y_val, ones
        self.classes_, self.class_count_ = classes, counts
        targets = self._targets(codes, classes)
        return self._fit(setup, Training(X, targets, weights, codes, validation, offset))

    @available_if(is_streamed)
    @all_or_nothing
    @matched_by_place
    def partial_fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next rows of a stream by stochastic steps.

        All columns have one unit, computed from the first 64 rows (``standardize``). Each row is
        predicted before it is learned; these risks choose among potentials and steps. The sizes of
        chunks make no difference.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels, in the first call. Without them new classes may appear at any time, at the
            cost of one more output: a new class starts with the output that has learned all rows so
            far as rows of other classes. This needs outputs that learn independently: a separable
            potential without a constraint, or `GLMClassifier` with ``per_output``.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        reset = "link_" not in vars(self)
        X, y = base.check_rows_and_targets(self, X, y, reset=reset)
        weights = base.check_weights(sample_weight, X, stream=True)
        classes = base.named_classes(classes)
        known, stream = (None, None) if reset else (self.classes_, self._stream)
        is_open = classes is None if reset else stream is not None and stream.is_open
        all_classes, codes, weights, counts = base.stream_labels(self, y, weights, classes, known)
        if not is_open:
            first: Any = classes if reset else known
            if not np.array_equal(all_classes, first):
                raise ValueError(
                    f"y or classes have labels beyond {first}, those of the first call: to allow "
                    "new classes later, give no classes= in the first call of partial_fit."
                )
        if known is not None and len(all_classes) > len(known):
            self._stream = self._more_outputs(stream, known, all_classes)
        targets = self._one_hot(codes, len(all_classes))
        if is_open:
            targets = np.hstack([targets, np.full((len(codes), 1), self._ends()[0])])
        self._learn(X, targets, weights, False, is_open)
        self.classes_, self.class_count_ = all_classes, counts
        return self

    def _source_targets(self, survey, classes):
        classes = base.named_classes(classes)
        all_classes = survey.classes if classes is None else np.union1d(survey.classes, classes)
        if len(survey.classes) < 2:
            raise ValueError(
                f"{survey.rows.source.name} has only one class ({survey.classes[0]}): a classifier "
                "needs rows of at least two."
            )
        self.classes_ = all_classes = self._in_order(all_classes)
        each = self._targets(np.arange(len(all_classes)), all_classes)
        sums = survey.sums @ each[base.places_of(all_classes, survey.classes)]
        return lambda y: each[base.places_of(all_classes, y)], sums

    def _in_order(self, classes, grades=None):
        """The classes in the order of outputs."""
        return classes

    def _more_outputs(self, stream, old_classes, new_classes):
        """Outputs for new classes, from the spare output, which has learned none of their rows."""
        (index, sign), ends = base.new_columns(old_classes, new_classes), sum(self._ends())
        link, s = stream.runs[0].learner.link, np.array([0.3, 1.0, 3.0])
        configurations = [run.configuration for run in stream.runs]
        odd = all(is_odd(c.potential) and c.constraint is None for c in configurations)
        is_mirrored = odd and np.allclose(link.mean(s) + link.mean(-s), ends)
        if min(sign) < 0.0 and not is_mirrored:
            raise ValueError(
                f"The one output of the classes {old_classes} cannot be split into two here: "
                "announce all classes in the first call of partial_fit (classes=)."
            )
        return stream.outputs(index, sign, ends)

    def _levels(self):
        """The means that stand for 'no' and 'yes': the ends of the link's range."""
        return np.array(getattr(self._link(), "range", (0.0, 1.0)), dtype=float)

    def _ends(self):
        low, high = self._levels()
        low = low if np.isfinite(low) else -1.0
        return low, high if np.isfinite(high) else low + 2.0

    def _one_hot(self, codes, n_classes):
        low, high = self._ends()
        return np.where(base.signs(codes, n_classes) > 0.0, high, low)

    def _targets(self, codes, classes):
        """Targets for the family of these classes."""
        codes_of = getattr(self._law(classes)[0], "codes", self._one_hot)
        return codes_of(codes, len(classes))

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Margins above the middle of the link's range: (n_samples,), or one for each class.

        With several ordered classes the logarithms of their probabilities.
        """
        return self._decisions(self._margins(X))

    def _decisions(self, margins):
        """Margins above the middle of the link's range, from indices."""
        if self.family_.tied and len(self.classes_) > 2:
            p = self.family_.probabilities(margins.astype(np.float64))
            return np.log(np.maximum(p, 1e-300)).astype(self.coef_.dtype)
        if hasattr(self.family_, "probabilities") and len(self.classes_) > 2:
            return margins.astype(self.coef_.dtype, copy=False)
        middle = 0.5 * sum(self._ends())
        if hasattr(self.link_, "inverse"):
            margins = margins - target_margin(self.link_, middle)
        else:
            margins = self.link_.mean(margins) - middle
        return base.squeezed(margins.astype(self.coef_.dtype, copy=False))

    @available_if(has_probabilities)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Means of the model as shares of the link's range; for several classes normalised to 1.

        Shape (n_samples, n_classes).
        """
        return self._probabilities(self._margins(X)).astype(self.coef_.dtype, copy=False)

    def _evaluated(self, result, held, terms):
        batch, s, weights = held.batch, held.indices, held.weights
        if not _gives_probabilities(self):
            return result, None
        each = self._targets(np.arange(len(self.classes_)), self.classes_)
        same = [(held.targets == row).all(axis=1) for row in each]
        p, codes = self._probabilities(s), np.argmax(same, axis=0)
        tied = self.family_.tied  # thresholds are no log-odds of classes
        plain = self.fit_intercept and batch.offset is None
        free = plain and not tied and result.parts[1] is None
        if free and hasattr(self.link_, "inverse"):
            mean = batch.weights @ batch.targets / batch.weights.sum()
            null = target_margin(self.link_, mean)
            shares = self._probabilities(null[None])[0]
            share = shrinkage_factor_of_classes(p, shares, codes, weights)
            if share < 1.0:
                signs = base.signs(codes, len(self.classes_))
                share *= min(base.temperature(s - null, signs, weights), 1.0)
                result = result.shrunk(np.full(len(null), share), null)
                p = self._probabilities(null + share * (s - null))
        return result, base.held_out_probabilities(p, codes, weights)

    def _probabilities(self, margins):
        """Probabilities from indices."""
        if hasattr(self.family_, "probabilities"):
            return self.family_.probabilities(margins.astype(np.float64))
        means = np.asarray(self.link_.mean(margins), dtype=np.float64)
        low, high = self._levels()
        p = (means - low) / (high - low)
        if p.shape[1] == 1:
            return np.hstack([1.0 - p, p])
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0.0)


@documented(**TEXTS)
class ReflectronClassifier(ReflectronSettings, MirrorClassifier):
    r"""The Reflectron for classes: mirror descent on one-hot targets, through any link.

    Two classes are one output, whose mean is the probability of the second class; of more classes
    each is one output. For a softmax, ordered classes and inference see `GLMClassifier`; for the
    method `ReflectronRegressor`.

    Parameters
    ----------
    {link} 'logit'.
    {geometry}
    {steps}
    {common}
    {seed}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    class_count_ : ndarray of shape (n_classes,)
        The weight of the rows of each class.
    {fitted}

    Raises
    ------
    ValueError
        For NaN or infinity, labels of one class, weights that are all zero, a decreasing link, or
        a pair of constraint and potential without a rule.

    References
    ----------
    Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting geometry for learning generalized
    linear models", eq. 7-8; Boffi and Slotine 2020, appendix B.1 (one-hot targets); the automatic
    step is this library's.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import ReflectronClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ReflectronClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    def _law(self, y=None):
        return Matching(), self._link()

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        X_val: MatrixLike = None,
        y_val: TargetLike = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Whole weights are repetitions.
        X_val, y_val : array-like, optional
            Validation rows, in place of held-out rows.

        Returns
        -------
        self
        """
        return self._fit_labels(X, y, sample_weight, X_val, y_val)
