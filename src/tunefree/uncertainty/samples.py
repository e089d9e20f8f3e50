"""Rows from which coefficients are inferred, and how their covariances are estimated."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.warn import none_of
from tunefree.parts.families import Quantile
from tunefree.rows.matrices import as_dense
from tunefree.uncertainty.laws import Law

COV_TYPES = ("nonrobust", "HC0", "HC1", "HC2", "HC3", "cluster")
WEIGHT_TYPES = ("auto", "frequency", "precision")
_MOST_CELLS = 2e8  # numbers of the columns, or of the outputs of classes


class CovarianceOptions(NamedTuple):
    """How covariances are estimated; see `summary`."""

    cov_type: str = "HC3"
    groups: Any = None
    weight_type: str = "auto"
    use_t: bool = True

    def check(self, n, family):
        """Refuse options that are unknown, or do not fit n rows of a family."""
        if self.cov_type not in COV_TYPES:
            raise none_of("cov_type", self.cov_type, COV_TYPES)
        if self.weight_type not in WEIGHT_TYPES:
            raise none_of("weight_type", self.weight_type, WEIGHT_TYPES)
        if (self.cov_type == "cluster") != (self.groups is not None):
            raise ValueError("cov_type='cluster' needs groups=, and groups= needs it.")
        of_classes = hasattr(family, "probabilities")
        has_density = family.log_likelihood or of_classes or isinstance(family, Quantile)
        if self.cov_type == "nonrobust" and not has_density:
            raise ValueError(
                f"cov_type='nonrobust' needs a density, which {type(family).__name__} does not "
                "have: choose one of HC0 to HC3."
            )
        if self.groups is not None and np.shape(self.groups) != (n,):
            raise ValueError(f"groups has the shape {np.shape(self.groups)}, but X has {n} rows.")


class SampleRows(NamedTuple):
    """Rows of one output, or of classes, all of positive weight.

    `are_frequencies` holds where a weight is the number of repetitions of its row. With classes
    `y` is of shape (n, m), and `labels` are their names.
    """

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    law: Law
    intercept: bool
    names: list
    are_frequencies: bool
    labels: list
    groups: Any = None  # their numbers from 0 on, of shape (n,)

    @property
    def n_blocks(self):
        """How often every column has a coefficient: once for each class but the first."""
        return len(self.labels) - 1 if self.labels and not self.law.family.tied else 1

    def places(self, columns):
        """Where the coefficients of some columns are."""
        wide = len(self.names) + self.intercept
        return (wide * np.arange(self.n_blocks)[:, None] + columns).ravel()

    def coefficient_names(self):
        """The names of all coefficients, thresholds and intercepts."""
        if self.labels and self.law.family.tied:
            pairs = zip(self.labels[:-1], self.labels[1:], strict=True)
            return [*self.names, *(f"threshold {low}|{high}" for low, high in pairs)]
        names = [*self.names, "intercept"] if self.intercept else self.names
        if not self.labels:
            return names
        return [f"{label}: {name}" for label in self.labels[1:] for name in names]

    @property
    def n(self):
        """The number of rows, repetitions included."""
        return float(self.weights.sum()) if self.are_frequencies else float(len(self.y))

    def without(self, columns):
        """The sample without some of the columns."""
        kept = np.setdiff1d(np.arange(len(self.names)), columns)
        return self._replace(X=self.X[:, kept], names=[self.names[j] for j in kept])


def sample_of(X, y, weights, law, intercept, names, options, labels):
    """The rows of positive weight."""
    positive = weights > 0.0
    # Copies: with strides rounding may differ.
    y, weights, law = y[positive], weights[positive], law.only(positive)
    X = X if positive.all() else X[positive]
    if y.size * max(X.shape[1], len(labels)) > _MOST_CELLS:
        of_classes = f" for {len(labels)} classes" if labels else ""
        raise ValueError(
            f"{len(y)} rows of {X.shape[1]} columns{of_classes} are too many: give a sample of the "
            "rows."
        )
    groups = options.groups
    if groups is not None:
        groups = np.asarray(groups)[positive].astype(str)
        groups = np.unique(groups, return_inverse=True)[1]
        if not groups.any():
            raise ValueError("cov_type='cluster' needs two groups at least.")
    X = np.ascontiguousarray(as_dense(X), dtype=np.float64)
    counted, intercept = are_frequencies(weights, options), intercept or law.family.tied
    return SampleRows(X, y, weights, law, intercept, names, counted, labels, groups)


def are_frequencies(weights, options):
    """Whether weights are numbers of repetitions, and not precisions."""
    if options.weight_type == "auto":
        return bool((weights == np.round(weights)).all())
    return options.weight_type == "frequency"
