"""Rows with targets beside what a generalized linear model makes of them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import _check_feature_names_in

from tunefree.base import base
from tunefree.base.exposures import given_terms, per_exposure
from tunefree.core.warn import none_of
from tunefree.parts.links import index_of_mean
from tunefree.rows.levels import MISSING
from tunefree.rows.matrices import as_columns, as_dense
from tunefree.uncertainty.class_rows import ClassRows, indices
from tunefree.uncertainty.kept import ONE_TARGET
from tunefree.uncertainty.mean_bands import unknown_rows
from tunefree.uncertainty.residuals import FittedRows
from tunefree.uncertainty.samples import CovarianceOptions, are_frequencies


def has_class_probabilities(model):
    """Whether a model is of several classes, whose probabilities are those of one family."""
    return hasattr(model.family_, "probabilities")


class DiagnosedRows(NamedTuple):
    """Rows as they were given to a method of a generalized linear model."""

    model: Any
    X: Any
    y: Any
    sample_weight: Any
    exposure: Any
    offset: Any
    options: CovarianceOptions

    def residuals(self, kind, of, random_state):
        """Residuals of means by `of`, "likelihood" or "predictions"; see the public method."""
        if has_class_probabilities(self.model):
            rows = self.classes_by_likelihood() if of == "likelihood" else self.predicted_classes()
            return rows.residuals(kind, random_state)
        parts = self.by_likelihood() if of == "likelihood" else self.predicted()
        found = [rows.residuals(kind, scale, random_state) for rows, scale in parts]
        residuals = np.concatenate(found, axis=1)
        return residuals if np.ndim(self.y) == 2 or residuals.shape[1] > 1 else residuals[:, 0]

    def by_likelihood(self):
        """The `FittedRows` and the dispersion of every target, of the maximum likelihood fit."""
        fits, columns, law, targets, rows = self._fits_and_targets()
        A = columns.of(rows)
        precision = self._precision(rows)
        _check_length(targets, A)
        unknown = unknown_rows(columns, rows)
        parts = []
        pairs = zip(fits, law.of_outputs(len(fits)), as_columns(targets).T, strict=True)
        for fit, own, target in pairs:
            own = own._replace(family=fit.family)
            s = fit.index(A)
            found = FittedRows(
                family=fit.family,
                link=own.link,
                y=target[:, None],
                mean=own.mean(s)[:, None],
                index=np.reshape(s + own.offset, (-1, 1)),
                exposure=_column(own.exposure),
                precision=precision,
                known=~unknown[:, None],
            )
            parts.append((found, fit.statistics.scale))
        return parts

    def predicted(self):
        """The `FittedRows` of `predict`, and Pearson's estimate of the dispersion."""
        model, X = self.model, self.X
        family, link = model.family_, model.link_
        known = given_terms(None, self.offset)
        exposure, offset = model._terms_of_rows(X, self.exposure, self.offset)
        model._check_terms(exposure, offset)
        if is_classifier(model):
            mean = model.predict_proba(X, **known)[:, 1:]
            margins = functools.partial(model._margins, X, **known)
            targets = base.places_of(model.classes_, np.asarray(self.y)).astype(float)[:, None]
        else:
            over = None if family.exposure == "rate" else exposure
            mean = as_columns(model._mean_of_rows(X, exposure=over, offset=offset))
            margins = functools.partial(model._margins, X)
            targets = family.targets(as_columns(np.asarray(self.y)))
        _check_length(targets, mean)
        ones = np.ones(len(mean))
        targets, over, _ = per_exposure(family, link, targets, ones, exposure, None)
        clipped = family.clipped(np.asarray(mean, dtype=np.float64))
        index = index_of_mean(link, clipped)
        rows = FittedRows(
            family=family,
            link=link,
            y=targets,
            mean=clipped,
            index=margins() if index is None else index,
            exposure=_column(over),
            precision=self._precision(mean),
        )
        return [(rows, rows.dispersion())]

    def classes_by_likelihood(self):
        """The `ClassRows` of the maximum likelihood fit."""
        fits, columns, law, _, rows = self._fits_and_targets()
        A = np.asarray(columns.of(rows), dtype=np.float64)
        p = fits[0].family.probabilities(indices(fits[0], A, law.offset)[2])
        return self._class_rows(p, rows, ~unknown_rows(columns, rows))

    def predicted_classes(self):
        """The `ClassRows` of `predict_proba`."""
        p = self.model.predict_proba(self.X, **given_terms(None, self.offset))
        return self._class_rows(np.asarray(p, dtype=np.float64), p)

    def _class_rows(self, p, rows, known=True):
        """The `ClassRows` of probabilities."""
        codes = base.places_of(self.model.classes_, np.asarray(self.y))
        _check_length(codes, p)
        precision = np.ravel(self._precision(rows))
        return ClassRows(self.model.family_, codes, p, precision, known)

    def partial(self, column):
        """A column's name, its values and its effect; `FittedRows`."""
        parts = self.by_likelihood()
        if len(parts) > 1:
            raise ValueError(ONE_TARGET)
        fits, columns = self._fits_kept()
        name, values, rows, others = self._with_constant(column)
        effect = fits[0].index(columns.of(rows)) - fits[0].index(columns.of(others))
        return name, values, effect - effect.mean(), parts[0][0]

    def _fits_and_targets(self):
        """Fits, their columns, the law and the targets of the rows, and the rows of tables."""
        if self.y is None:
            raise ValueError("y is missing: only a formula with a left-hand side has it in X.")
        fits, columns = self._fits_kept()
        exposure, offset = self.model._terms_of_rows(self.X, self.exposure, self.offset)
        rows = self.model._rows_of_tables(self.X)
        law, targets = self.model._estimand_of_rows(np.asarray(self.y), exposure, offset)
        return fits, columns, law, targets, rows

    def _fits_kept(self):
        """The `CoefficientFit` of every target that `fit` kept, or that of these rows; columns."""
        kept = vars(self.model).get("likelihood_")
        if kept is not None and not kept.problem:
            return kept.coefficient_fits(), kept.columns
        given = self.X, self.y, self.sample_weight, self.exposure, self.offset
        return self.model._inferred(*given, self.options)[:2]

    def _precision(self, rows):
        """One over the variances of rows, up to the dispersion; 1 for frequencies."""
        weights = self.model._weights_of_rows(self.X, self.sample_weight)
        weights = base.check_weights(weights, rows, as_given=True)
        return 1.0 if are_frequencies(weights, self.options) else weights[:, None]

    def _with_constant(self, column):
        """A column's name and values, the rows of tables, and these with the column constant."""
        model, X = self.model, self.X
        if vars(model).get("formula") is not None:
            frame = X.to_pandas() if hasattr(X, "to_pandas") else X
            names = list(getattr(frame, "columns", ()))
            name = _named(column, names)
            values = np.asarray(frame[name])
            others = frame.assign(**{name: _middle(values)})
            return name, values, model._rows_of_tables(frame), model._rows_of_tables(others)
        names = [str(name) for name in _check_feature_names_in(model)]
        name = _named(column, names)
        place = names.index(name)
        rows = as_dense(model._rows_of_tables(X))
        categories = vars(model).get("categories_")
        levels = None if categories is None else categories[place]
        values, others = rows[:, place].copy(), rows.copy()
        middle = _middle(values if levels is None else values.astype(str))
        others[:, place] = float(middle)
        if levels is not None:
            named = np.array([*map(str, levels), MISSING], dtype=object)
            values = named[values.astype(int)]
        return name, values, rows, others


def _check_length(targets, rows):
    """Refuse targets of another number of rows."""
    if len(targets) != len(rows):
        raise ValueError(f"y has {len(targets)} rows, and X has {len(rows)}.")


def _column(values: Any) -> Any:
    """Numbers of rows as a column; a scalar as it is."""
    return np.reshape(values, (-1, 1)) if np.ndim(values) else values


def _named(column, names):
    """The name of a column, which may be given by its position."""
    if column in names:
        return column
    if isinstance(column, int | np.integer) and -len(names) <= column < len(names):
        return names[column]
    raise none_of("column", column, names)


def _middle(values):
    """The median of numbers, or the most frequent of other values."""
    if np.issubdtype(values.dtype, np.number):
        return np.median(values)
    found, counts = np.unique(values.astype(str), return_counts=True)
    return found[np.argmax(counts)]
