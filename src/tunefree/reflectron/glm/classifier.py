"""Generalized linear models of classes: two, several, and ordered ones."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from tunefree.base import base, scores
from tunefree.base.exposures import class_terms, given_terms, row_term
from tunefree.base.progress import report_progress
from tunefree.core.protocols import (
    Auto,
    FamilyOfClasses,
    Link,
    LinkName,
    MatrixLike,
    PotentialName,
    Seed,
    TargetLike,
)
from tunefree.parts.families import FAMILIES, OF_CLASSES, Family, Ordinal
from tunefree.parts.links import LINKS
from tunefree.reflectron.classifier import MirrorClassifier, has_probabilities
from tunefree.reflectron.glm.model import TEXTS, GeneralizedLinearModel, check_link
from tunefree.reflectron.potentials import Potential
from tunefree.reflectron.reflectron import documented
from tunefree.rows.missing import complete
from tunefree.rows.row_labels import matched_by_place


@documented(**TEXTS)
class GLMClassifier(GeneralizedLinearModel, MirrorClassifier):
    r"""Linear classification by likelihood, with no penalty to choose.

    .. math:: P(y = c \mid x) \propto \exp(\langle \theta_c, x \rangle + b_c)

    Two classes are logistic regression (``family='binomial'``), more are a softmax
    (``family='multinomial'``); with another link, and on streams, each class is one output.
    Ordered classes have ``family='ordinal'``: one index and a threshold between neighbours. See
    `GLMRegressor` for the method.

    Parameters
    ----------
    family : {'auto', 'binomial', 'multinomial', 'ordinal'} or family, default='auto'
    link : str, link or None, default=None
        The probability as a function of the index: 'probit', 'cloglog', ...; None is 'logit'. Of
        ordered classes u in P(y <= j) = u(threshold_j - index): 'logit', 'probit' or 'cloglog'.
        family='multinomial' has 'logit' only.
    {formula}
    {geometry}
    {common}
    {selection}
    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; on a stream 'balanced' uses the counts up to each row.
    categories : array-like or None, default=None
        For family='ordinal', the grades from the lowest to the highest. None uses the order of an
        ordered categorical (pandas, polars Enum) or of numbers; other text is refused.
    {last}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        Sorted; with family='ordinal' from the lowest grade to the highest.
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
    McCullagh and Nelder 1989 (the models); Boffi, Tu and Slotine 2021, "The Reflectron: Exploiting
    geometry for learning generalized linear models", eq. 7-8 (mirror descent).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tunefree import GLMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GLMClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    def __init__(
        self,
        family: FamilyOfClasses | Auto | Family = "auto",
        link: LinkName | Literal["auto", "learned"] | Link | None = None,
        *,
        formula: str | None = None,
        potential: PotentialName | Auto | Literal["none"] | Potential = "auto",
        constraint: Any = None,
        fit_intercept: bool = True,
        standardize: bool | Auto = "auto",
        per_output: bool = False,
        validation_fraction: float | Auto = "auto",
        n_splits: int | Auto = "auto",
        tol: float = 1e-3,
        max_iter: int | Auto = "auto",
        warm_start: bool = False,
        class_weight: Any = None,
        categories: ArrayLike | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Seed = None,
    ):
        self.family = family
        self.link = link
        self.formula = formula
        self.potential = potential
        self.constraint = constraint
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.per_output = per_output
        self.validation_fraction = validation_fraction
        self.n_splits = n_splits
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.categories = categories
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Scikit-learn's classes have no order, as thresholds need.
        tags.classifier_tags.poor_score = self.family == "ordinal"
        return tags

    def _law(self, y=None):
        """The family and the link for classes `y`, if these are known."""
        link: Any = self._link()
        several = y is not None and len(y) > 2
        if isinstance(self.family, str) and self.family == "auto":
            softmax = several and link == LINKS["logit"]
            family: Any = FAMILIES["multinomial" if softmax else "binomial"]
        else:
            family = FAMILIES.find(self.family, ["auto"])
            if FAMILIES.get(self.family) is not None and self.family not in OF_CLASSES:
                raise ValueError(
                    f"family={self.family!r} is not for classes: choose one of auto, "
                    f"{', '.join(OF_CLASSES)}."
                )
            if hasattr(family, "probabilities") and self.link is not None:
                family = _with_link(family, link)
            if hasattr(family, "probabilities") and y is not None and not several:
                family = FAMILIES["binomial"]
        if hasattr(family, "probabilities"):
            return family, family.link
        check_link(link, family, self.link)
        return family, link

    @report_progress
    def fit(
        self,
        X: MatrixLike,
        y: TargetLike = None,
        sample_weight: ArrayLike | str | None = None,
        X_val: MatrixLike = None,
        y_val: TargetLike = None,
        *,
        offset: Any = None,
    ) -> Self:
        """Learn from rows in memory.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional
            By default the left-hand side of the formula.
        sample_weight : array-like of shape (n_samples,) or str, optional
            Whole weights are repetitions. A text is the name of a column of X, also below.
        X_val, y_val : array-like, optional
            Validation rows, in place of held-out rows.
        offset : array-like of shape (n_samples,) or (n_samples, n_classes), or names, optional
            Known terms of the index: of two classes P(y = 1 | x) = u(<theta, x> + b + offset), of
            ordered ones P(y <= j | x) = u(threshold_j - <theta, x> - offset). Several classes have
            a column each, in the order of ``classes_``, or a frame whose columns have the names of
            the classes: <theta_c, x> + b_c + offset_c is then the index of class c, and what is
            added to all columns of a row changes no probability. A text is the name of a column of
            X, and so are the texts of a list, one for each class, or of a dict by class:
            ``{"bus": "cost_bus", "car": "cost_car", "train": "cost_train"}``.

        Returns
        -------
        self
        """
        self._law()
        rows, self.model_spec_, y = self._encoded(X, y)
        self.categories_ = rows.categories
        grades, offset = grades_of(y), self._terms_of_rows(X, None, offset)[1]
        self.row_terms_ = tuple(given_terms(None, offset))
        if offset is not None:
            if X_val is not None:
                raise ValueError("X_val= cannot be combined with offset=.")
            used = base.check_weights(sample_weight, rows.X) > 0.0
            labels = base.encode_labels(np.asarray(complete(y))[used])[0]
            self._check_order_of_names(labels)
            offset = self._offset_of(offset, rows.X, labels)
        if self._is_unpenalized():
            self._fit_likelihood(rows, y, sample_weight, X_val, grades, offset)
        else:
            self._fit_labels(rows.X, y, sample_weight, X_val, y_val, grades, offset)
            self.schema_ = rows.schema
            X = base.check_rows(self, rows.X)
            weights = base.check_weights(sample_weight, X, as_given=True)
            self._keep_likelihood(X, np.asarray(complete(y)), weights, None, offset)
        return self

    def _fit_likelihood(self, rows, y, sample_weight, X_val, grades, offset):
        """Learn by maximum likelihood from `Coded` rows."""
        self._check_unpenalized(X_val)
        if self.class_weight is not None:
            raise ValueError(
                "potential='none' has no class_weight=, with which the likelihood is not that of "
                "the rows: give sample_weight."
            )
        X, y = base.check_rows_and_targets(self, rows.X, y)
        self.schema_ = rows.schema
        weights = base.check_weights(sample_weight, X, as_given=True)
        base.encode_labels(y)
        used = y[weights > 0.0]
        classes = self._in_order(base.encode_labels(used, fewest=2)[0], grades)
        self.family_, self.link_ = self._law(classes)
        codes = base.places_of(classes, used)
        self.classes_ = classes
        self.class_count_ = np.bincount(codes, weights[weights > 0.0])
        self.constraint_ = None
        self._solve(X, y, weights, None, offset)

    def _means_of(self, margins):
        """Probabilities at indices."""
        return self._probabilities(margins)

    def _margins(self, X, limits=None, offset=None):
        margins, offset = super()._margins(X, limits), self._terms_of_rows(X, None, offset)[1]
        self._check_offset(offset)
        if offset is None:
            return margins
        return margins + self._added(offset, margins)

    def _added(self, offset, rows):
        offset = self._offset_of(offset, rows, self.classes_)
        return offset if offset.ndim == 2 else offset[:, None]

    def _offset_of(self, offset, rows, classes):
        """The checked offset of rows: (n, n_classes) of several classes without an order."""
        if len(classes) > 2 and not isinstance(self._law(classes)[0], Ordinal):
            return class_terms(offset, rows, classes)
        return row_term(offset, rows, "offset")

    def _check_order_of_names(self, classes):
        """Refuse a list of columns that are named like the classes, in another order."""
        names, labels = self.row_columns_.get("offset"), [str(label) for label in classes]
        if isinstance(names, list | tuple) and list(names) != labels:
            if sorted(names) == sorted(labels):
                raise ValueError(
                    f"offset={list(names)} has the names of the classes in another order: a list "
                    f"has the order of classes_, {labels}."
                )

    def _check_offset(self, offset):
        """Refuse rows without an offset that the model was fitted with, or with another one."""
        own = "offset" in vars(self).get("row_terms_", ())
        if own and offset is None:
            raise ValueError(
                f"This {type(self).__name__} was fitted with offset=: give offset= for these rows, "
                "too."
            )
        if offset is not None and not own:
            raise ValueError(
                f"This {type(self).__name__} was fitted without offset=: do not give it here."
            )

    @matched_by_place
    def predict(self, X: MatrixLike, offset: Any = None) -> np.ndarray:
        """The most likely class of every row, shape (n_samples,).

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        offset : array-like of shape (n_samples,) or (n_samples, n_classes), or names, optional
            As in `fit`: needed here if it was given there.
        """
        scores = self.decision_function(X, offset)
        return self.classes_[base.codes_of(scores.reshape(len(scores), -1))]

    @matched_by_place
    def decision_function(self, X: MatrixLike, offset: Any = None) -> np.ndarray:
        """Margins above the middle of the link's range: (n_samples,), or one for each class.

        With several ordered classes the logarithms of their probabilities. `offset` is as in `fit`.
        """
        return self._decisions(self._margins(X, offset=offset))

    @available_if(has_probabilities)
    @matched_by_place
    def predict_proba(self, X: MatrixLike, offset: Any = None) -> np.ndarray:
        """Means of the model as shares of the link's range; for several classes normalised to 1.

        Shape (n_samples, n_classes). `offset` is as in `fit`.
        """
        margins = self._margins(X, offset=offset)
        return self._probabilities(margins).astype(self.coef_.dtype, copy=False)

    @available_if(has_probabilities)
    @matched_by_place
    def predict_log_proba(self, X: MatrixLike, offset: Any = None) -> np.ndarray:
        """Logarithms of `predict_proba`; `offset` is as in `fit`."""
        return np.log(self.predict_proba(X, offset))

    @available_if(has_probabilities)
    @matched_by_place
    def predict_set(
        self,
        X: MatrixLike,
        alpha: float | ArrayLike = 0.1,
        *,
        score: str = "lac",
        class_conditional: bool = False,
        offset: Any = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The most likely class, and a set of classes that holds the true one in 1 - alpha of rows.

        Parameters
        ----------
        X, alpha, score, class_conditional
            As in `PiSTOLClassifier.predict_set`.
        offset
            As in `fit`: needed here if it was given there.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        sets : ndarray of bool of shape (n_samples, n_classes, n_alpha)

        Raises
        ------
        ValueError
            If there are no held-out predictions, or alpha is not between 0 and 1.
        """
        return self._predicted_sets(X, alpha, score, class_conditional, offset=offset)

    @available_if(has_probabilities)
    @matched_by_place
    def predict_venn_abers(self, X: MatrixLike, offset: Any = None) -> np.ndarray:
        """Two probabilities of every class, of which one is calibrated.

        Parameters
        ----------
        X : as for `predict`
        offset
            As in `fit`: needed here if it was given there.

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2)
        """
        return self._venn_abers(X, offset=offset)

    @matched_by_place
    def score(
        self,
        X: MatrixLike,
        y: TargetLike = None,
        sample_weight: ArrayLike | str | None = None,
        offset: Any = None,
    ) -> float:
        """The share of rows whose class is predicted.

        Parameters
        ----------
        X, y, sample_weight, offset
            As in `fit`.

        Returns
        -------
        float
        """
        y, weights = self._targets_given(X, y), self._weights_of_rows(X, sample_weight)
        return scores.share_right(y, self.predict(X, offset), weights)

    def _in_order(self, classes, grades=None):
        """Sorted classes; with family='ordinal' in the order of `categories`, or else `grades`."""
        if not isinstance(self._law()[0], Ordinal):
            if self.categories is not None:
                raise ValueError("categories= is the order of grades and needs family='ordinal'.")
            return classes
        if self.categories is not None:
            grades = np.asarray(self.categories)
        if grades is None:
            if len(classes) > 2 and isinstance(classes[0], str):
                raise ValueError(
                    f"y has text without an order ({', '.join(classes[:5])}): give categories=, "
                    "all grades from the lowest to the highest (in the shell --categories "
                    "low,mid,high), or y as an ordered categorical (pandas.CategoricalDtype(..., "
                    "ordered=True), polars.Enum)."
                )
            return classes
        if len(np.unique(grades)) < len(grades):
            raise ValueError(f"categories={grades.tolist()} names a grade twice.")
        ranks = {grade: rank for rank, grade in enumerate(grades.tolist())}
        for grade in classes.tolist():
            if grade not in ranks:
                raise ValueError(f"categories={grades.tolist()} lacks {grade!r}, which y has.")
        return classes[np.argsort([ranks[grade] for grade in classes.tolist()])]

    def _estimand(self, y):
        codes = base.places_of(self.classes_, y)
        return self._smooth(self._targets(codes, self.classes_))

    def _estimand_of_rows(self, y, exposure, offset):
        self._check_offset(offset)
        law, targets = super()._estimand_of_rows(y, exposure, None)
        if offset is None:
            return law, targets
        return law._replace(offset=self._offset_of(offset, targets, self.classes_)), targets


def _with_link(family, link):
    """A family of several classes with a link that the user named."""
    if isinstance(family, Ordinal):
        return Ordinal(link)
    if link != LINKS["logit"]:
        raise ValueError(
            f"link={link!r} is not for family='multinomial', a softmax: leave link= out, or give "
            "family='auto', which has one output for each class."
        )
    return family


def grades_of(y):
    """The grades of an ordered categorical, from the lowest to the highest; else None."""
    dtype: Any = getattr(y, "dtype", None)
    if type(dtype).__name__ == "Enum" or getattr(dtype, "ordered", False):
        return np.asarray(dtype.categories)
    return None
