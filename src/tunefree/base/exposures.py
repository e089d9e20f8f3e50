"""Exposures and offsets: known terms of the rows of a generalized linear model.

An exposure e is the duration or size over which a target was counted. The rate y / e is learned
with the weight e. An offset is a known term of the score.

Source: McCullagh and Nelder 1989, sections 6.3 and 8.2 (rates, offsets, Pearson residuals).
"""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tunefree.base import base, scores
from tunefree.base.uncertainty_mixins import PredictsIntervals
from tunefree.core.protocols import MatrixLike, TargetLike
from tunefree.parts.families import Family
from tunefree.parts.links import Exp
from tunefree.rows.columns import names_of
from tunefree.rows.matrices import as_columns
from tunefree.rows.missing import complete
from tunefree.rows.order import content_hash
from tunefree.rows.row_labels import matched_by_place


def row_term(values: Any, X: Any, name: str) -> Any:
    """The 'exposure' or 'offset' of rows: one finite number a row; None if there is none.

    A scalar is that of every row.
    """
    if values is None:
        return None
    if isinstance(values, str):
        raise ValueError(
            f"{name}={values!r} is text: give the numbers (GLMs take the name of a column, too)."
        )
    values = complete(values, name)
    if np.ndim(values) == 0 and not isinstance(values, Real | Decimal | np.generic | np.ndarray):
        raise ValueError(f"{name}={values!r:.60} is no number: give one a row, or one for all.")
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(X.shape[0], values)
    if values.ndim > 2 or values.size != len(values):
        raise ValueError(f"{name} has the shape {values.shape}: give one number a row.")
    values = values.reshape(-1)
    if len(values) != X.shape[0]:
        raise ValueError(f"{name} has {len(values)} numbers, but X has {X.shape[0]} rows.")
    valid, kind = np.isfinite(values), "finite"
    if name == "exposure":
        valid, kind = valid & (values > 0.0), "positive and finite"
    if not valid.all():
        place = int(np.argmin(valid))
        raise ValueError(f"{name} must be {kind}, and holds {values[place]} at {name}[{place}].")
    return values


def class_columns(n: int, names: Any, classes: Any) -> list[int]:
    """The places of the offsets of several classes among n columns; n is 0 for one number a row.

    Columns without names are in the order of the classes.
    """
    labels = [str(label) for label in classes]
    if not n:
        raise ValueError(
            f"offset has one number a row, which changes nothing for {len(labels)} classes: give "
            "one column for each class, or a dict of the columns of X by class (in the shell "
            "--offset takes one column, for two or ordered classes)."
        )
    if names is None:
        if n != len(labels):
            raise ValueError(
                f"offset has {n} columns, but there are {len(labels)} classes: give one column for "
                "each class."
            )
        return list(range(n))
    names = [str(name) for name in names]
    if sorted(names) != sorted(labels):
        raise ValueError(
            f"offset has the columns {', '.join(names)}: give one for each of the classes "
            f"{', '.join(labels)}."
        )
    return [names.index(label) for label in labels]


def columns_of_terms(values: Any, X: Any) -> Any:
    """The offsets of rows whose classes are not known yet: (n,), or (n, k) of k > 1 columns."""
    if np.ndim(values) < 2 or np.shape(values)[1] == 1:
        return row_term(values, X, "offset")
    values = np.asarray(complete(values, "offset"), dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(f"offset has the shape {values.shape}: give rows and columns.")
    if len(values) != X.shape[0]:
        raise ValueError(f"offset has {len(values)} rows, but X has {X.shape[0]} rows.")
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"offset must be finite, and holds {values[row, column]} at offset[{row}, {column}]."
        )
    return np.ascontiguousarray(values)  # sums over classes in one order, whatever the container


def class_terms(values: Any, X: Any, classes: Any) -> Any:
    """The offsets of rows for several classes, shape (n, n_classes); None if there are none.

    They have a column for each class in this order, or columns with the names of the classes. A
    scalar is that of every row and class.
    """
    if values is None:
        return None
    names = names_of(values)
    values = np.asarray(complete(values, "offset"), dtype=np.float64)
    if values.ndim == 0:
        return np.full((X.shape[0], len(classes)), values)
    if names is not None or values.ndim != 2:
        n = values.shape[1] if values.ndim == 2 else 0
        values = values[:, class_columns(n, names, classes)]
    if values.shape != (X.shape[0], len(classes)):
        raise ValueError(
            f"offset has the shape {values.shape}, but X has {X.shape[0]} rows, and there are "
            f"{len(classes)} classes: give one column for each class."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"offset must be finite, and holds {values[~np.isfinite(values)][0]}.")
    return np.ascontiguousarray(values)  # sums over classes in one order, whatever the container


def given_terms(exposure: Any, offset: Any) -> dict[str, Any]:
    """Those of the two that are given, by name."""
    terms = {"exposure": exposure, "offset": offset}
    return {name: values for name, values in terms.items() if values is not None}


def neutral_terms(estimator: Any) -> dict[str, float]:
    """The terms with which an estimator predicts rates: an exposure of 1 and no offset.

    They are those that it was fitted with.
    """
    neutral = {"exposure": 1.0, "offset": 0.0}
    return {name: neutral[name] for name in vars(estimator).get("row_terms_", ())}


def over_exposure(mean: np.ndarray, exposure: Any) -> np.ndarray:
    """Means (n, k) for an exposure of 1 as those for the rows' exposure."""
    return mean if exposure is None else mean * row_term(exposure, mean, "exposure")[:, None]


def per_exposure(family, link, targets, weights, exposure, offset):
    """Targets, weights and offsets of rows with an exposure, for an exposure of 1."""
    if exposure is None:
        return targets, weights, offset
    exposure = row_term(exposure, targets, "exposure")
    if family.exposure is None:
        raise ValueError(f"family={family!r} takes no exposure=: give a family of counts or rates.")
    if family.exposure == "rate":
        if ((targets < family.range[0]) & (weights > 0.0)[:, None]).any():
            family.check(targets)  # an error about the targets, and not about their rates
        return targets / exposure[:, None], weights * exposure, offset
    if not isinstance(link, Exp):
        raise ValueError(f"exposure= with family={family!r} needs link='log', not {link!r}.")
    return targets, weights, np.log(exposure) + (0.0 if offset is None else offset)


class Terms(NamedTuple):
    """Rows with an exposure or an offset, before equal rows were merged."""

    place: np.ndarray  # the distinct row into which each row was merged
    exposure: np.ndarray  # of which the target is a rate; 1 if it is none
    weights: np.ndarray  # without the exposure

    @classmethod
    def of(cls, X, targets, weights, seed, distinct, exposure):
        """The terms of rows, given the numbers of `distinct` ones; weights include the exposure."""
        exposure = np.ones(len(targets)) if exposure is None else exposure
        keys = content_hash(X, targets, seed)[1]
        order = np.argsort(keys[distinct])
        place = order[np.searchsorted(keys[distinct], keys, sorter=order)]
        return cls(place, exposure, weights / exposure)

    def within(self, held):
        """The rows merged into some distinct rows, and the position of each among these."""
        positions = np.full(self.place.max() + 1, -1)
        positions[held] = np.arange(len(held))
        at = positions[self.place]
        rows = np.lexsort((self.exposure, at))
        rows = rows[at[rows] >= 0]
        return rows, at[rows]

    def held_out(self, held, predictions, targets, family, n_groups=None):
        """`HeldOutPredictions` of the targets themselves, such as counts, with Pearson's unit.

        `predictions` and `targets` are those of the distinct rows `held`, for an exposure of 1.
        `n_groups` is the number of groups, if whole groups were held out.
        """
        rows, at = self.within(held)
        exposure, weights = self.exposure[rows, None], self.weights[rows]
        predictions, targets = exposure * predictions[at], exposure * targets[at]
        unit = deviation(family, predictions, exposure)
        found = base.held_out_predictions(predictions, targets, weights, unit=unit)
        return found._replace(n_groups=n_groups)


def deviation(family, mean, exposure):
    """The standard deviation of targets with these means, up to a factor: Pearson's unit."""
    rate = family.clipped(mean / exposure)
    return np.sqrt(exposure * family.variance(rate))


class TakesExposures(PredictsIntervals):
    """A regressor with a family, whose rows may have an exposure and an offset.

    A subclass has `family_`, and `row_terms_`: which of the two were given to `fit`.
    """

    family_: Any
    _TERMS = "exposure", "offset"  # those that `fit` and `predict` take

    @matched_by_place
    def predict_interval(
        self,
        X: MatrixLike,
        alpha: float | ArrayLike = 0.1,
        *,
        joint: bool = False,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predictions, and intervals that contain the target in 1 - alpha of new rows.

        With an exposure or an offset they are intervals of the targets themselves, such as counts,
        and their width is proportional to the family's standard deviation (Pearson residuals).

        Parameters
        ----------
        X : as for `predict`
        alpha : float or array-like of shape (n_alpha,), default=0.1
            The share of targets that may lie outside.
        joint : bool, default=False
            With several targets: all of a row's lie within in 1 - alpha of rows.
        exposure, offset : array-like of shape (n_samples,), optional
            As in `fit`: needed here if they were given there.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
        intervals : ndarray of shape (n_samples, 2, n_alpha) or (n_samples, n_targets, 2, n_alpha)
            Infinite, with a warning, if there are fewer than 1 / alpha - 1 held-out rows.

        Raises
        ------
        ValueError
            If there are no held-out predictions, alpha is not between 0 and 1, or an exposure or
            an offset was given to `fit` and not here, or here and not there.
        """
        exposure, offset = self._terms_of_rows(X, exposure, offset)
        given = self._checked_terms(exposure, offset)
        for name in given:
            if name not in vars(self).get("row_terms_", ()):
                raise ValueError(
                    f"This {type(self).__name__} was fitted without {name}=: do not give it here."
                )
        y = self._mean_of_rows(X, **given)
        if not given:
            return self._intervals(X, y, alpha, joint)
        over: Any = 1.0
        if exposure is not None and self.family_.exposure == "rate":
            over = np.asarray(exposure, dtype=np.float64).reshape(-1, 1)
        unit = deviation(self.family_, as_columns(y), over)
        most = self.family_.range[1] * np.reshape(over, (-1, 1, 1, 1))
        y, ends = self._intervals(X, y, alpha, joint, unit)
        ends = np.minimum(ends.reshape(len(y), -1, 2, ends.shape[-1]), most).reshape(ends.shape)
        return y, ends

    def _possible(self, ends):
        low, high = self.family_.range
        return np.clip(ends, low, np.inf if vars(self).get("row_terms_") else high)

    def _terms_of_rows(self, X, exposure, offset):
        """The exposure and the offset of rows; a subclass may find them in X."""
        return exposure, offset

    def _mean_of_rows(self, X, **terms):
        """`predict` with terms that `_terms_of_rows` has found."""
        return self.predict(X, **terms)

    def _taken_terms(self, exposure, offset):
        """The given terms, which this estimator takes."""
        given = given_terms(exposure, offset)
        for name in given:
            if name not in self._TERMS:
                raise ValueError(
                    f"{type(self).__name__} takes no {name}=: use GLMRegressor or "
                    "BoostedTreesRegressor."
                )
        return given

    def _check_predicted(self, exposure, offset):
        """Refuse rows to predict without the terms that the model was fitted with.

        Their means would be rates, which scorers of scikit-learn compare with counts.
        """
        given = given_terms(exposure, offset)
        for name in vars(self).get("row_terms_", ()):
            if name not in given:
                other = "exposure=1 for rates" if name == "exposure" else "offset=0 for none"
                by_name = "name a column of X instead, or " if hasattr(self, "row_columns_") else ""
                raise ValueError(
                    f"This {type(self).__name__} was fitted with {name}=: give {name}= for these "
                    f"rows, too ({other}). Scorers of scikit-learn give none: {by_name}use "
                    f"score, to which {name} can be routed."
                )

    def _checked_terms(self, exposure, offset):
        """The given terms, with all that the model was fitted with."""
        given = self._taken_terms(exposure, offset)
        for name in vars(self).get("row_terms_", ()):
            if name not in given:
                raise ValueError(
                    f"This {type(self).__name__} was fitted with {name}=: give {name}= for these "
                    "rows, too."
                )
        return given

    @matched_by_place
    def score(
        self,
        X: MatrixLike,
        y: TargetLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """D2, the share of the deviance of the best constant that is explained; R2 of squares.

        Parameters
        ----------
        X : frame, array-like or CSR of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight, exposure, offset : array-like of shape (n_samples,), optional
            As in `fit`: an exposure or an offset is needed here if it was given there.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If an exposure or an offset was given to `fit` and not here.
        """
        exposure, offset = self._terms_of_rows(X, exposure, offset)
        self._checked_terms(exposure, offset)
        one = None if exposure is None else 1.0
        mean = self._mean_of_rows(X, **given_terms(one, offset))
        return self._score_of(mean, y, sample_weight, exposure)

    def _score_of(self, mean, y, sample_weight, exposure):
        """The score of means for an exposure of 1."""
        if exposure is None:
            return self._d2(y, mean, sample_weight)
        over = row_term(exposure, mean, "exposure")[:, None]
        mean = mean.reshape(len(mean), -1)
        if self.family_.exposure == "offset":
            return self._d2(y, over * mean, sample_weight, over)
        weights = scores.weights_of(sample_weight, len(mean))
        weights = over[:, 0] if weights is None else over[:, 0] * weights
        return self._d2(scores.targets_of(y, mean) / over, mean, weights)

    def _d2(self, y, mean, weights=None, exposure=None):
        """The score of means; R2 where deviances are squares. An exposure is an offset."""
        if type(self.family_).deviance is Family.deviance:
            return scores.share_explained(y, mean, weights)
        weights = scores.weights_of(1.0 if weights is None else weights, len(mean))
        mean = as_columns(mean)
        targets = self.family_.targets(scores.targets_of(y, mean))
        return self.family_.d2(targets, mean, weights, exposure)
