"""Mirror descent for targets that are numbers."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from tunefree._warn import warn
from tunefree.estimators import base
from tunefree.estimators.fitting import all_or_nothing
from tunefree.estimators.reflectron.descent import MirrorDescent, is_streamed, validation_rows
from tunefree.estimators.reflectron.problem import link_range
from tunefree.estimators.uncertainty_mixins import PredictsIntervals, RiskIntervalMixin
from tunefree.families import Matching
from tunefree.protocols import MatrixLike, TargetLike


class MirrorRegressor(
    RiskIntervalMixin, PredictsIntervals, RegressorMixin, MultiOutputMixin, MirrorDescent
):
    """What the regressors share."""

    def _validation(self, X_val, y_val, family):
        """Validation rows, targets and weights; None if there are none."""
        if X_val is None:
            return None
        X_val = validation_rows(self, X_val, y_val)
        y_val = np.asarray(y_val, dtype=np.float64).reshape(X_val.shape[0], -1)
        return X_val, family.targets(y_val), np.ones(X_val.shape[0])

    @available_if(is_streamed)
    @all_or_nothing
    def partial_fit(
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from the next rows of a stream by stochastic steps.

        All columns have one unit, computed from the first 64 rows (``standardize``). Each row is
        predicted before it is learned; these risks choose among potentials and steps. The sizes of
        chunks make no difference.

        Parameters
        ----------
        X : array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        reset = "link_" not in vars(self)
        X, y = base.check_rows_and_targets(self, X, y, reset=reset, multi_output=True, numeric=True)
        weights = base.check_weights(sample_weight, X, stream=True)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        self._learn(X, targets, weights, np.ndim(y) == 1)
        return self

    def _source_targets(self, survey, classes, rows):
        self._flat, (family, link) = rows.flat, self._law()
        if isinstance(family, Matching):
            warn_outside(survey.outside / (rows.rows * survey.sums.shape[1]), link)
        elif survey.outside:
            raise ValueError(
                f"{survey.outside} targets of the source are outside the range of {family!r}: give "
                "another family."
            )
        sums = family.targets(survey.sums)
        return lambda y: family.targets(np.asarray(y, np.float64).reshape(len(y), -1)), sums


def warn_outside(share, link):
    """Warn if most targets, a share of them, lie outside the range of the link."""
    if share > 0.5:
        low, high = link_range(link)
        warn(
            f"Most targets lie outside the range [{low:g}, {high:g}] of the link {link!r}, and "
            "predictions never do: give link='identity' for real targets.",
        )


def share_outside(targets, link):
    """The share of targets outside the range of the link."""
    low, high = link_range(link)
    return np.mean((targets < low) | (targets > high))
