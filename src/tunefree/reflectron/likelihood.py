"""Maximum likelihood: the coefficients of a model from those of its table.

``potential="none"`` has no geometry, no held-out rows and no early stop: the model is the table.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.warn import warn
from tunefree.parts.families import Family

# Rounds of coefficients and a parameter that has no likelihood (Huber's scale), at most.
_MOST_ROUNDS = 100
_SETTLED = 1e-10


class LinearPredictor(NamedTuple):
    """The indices ``X @ coef.T + intercept`` of a maximum likelihood fit."""

    coef: np.ndarray  # (k, n_coefficients): numbers, then all levels of the categories
    intercept: np.ndarray  # (k,)


def line_of(fits, columns, levels, tied):
    """The `LinearPredictor` of `CoefficientFit`s of a table with these `TableColumns`.

    `levels` are the numbers of levels of the columns of categories, as in the model. The reference
    level and aliased columns have the coefficient 0. With rows without a value these have 0, as
    new levels have.
    """
    lines = [_of_one(fit, columns, levels, tied) for fit in fits]
    coef, intercept = (np.concatenate(parts) for parts in zip(*lines, strict=True))
    return LinearPredictor(coef, intercept)


def _of_one(fit, columns, levels, tied):
    """Coefficients and intercepts of one target, or of all classes."""
    d, n_numbers = len(columns.names), len(columns.numbers)
    table = np.nan_to_num(fit.coef).reshape(fit.n_blocks, -1)
    slopes, constants = table[:, :d], table[:, d:]
    coef = np.zeros((len(slopes), n_numbers + sum(levels)))
    coef[:, :n_numbers] = slopes[:, :n_numbers]
    shift, at, place = np.zeros(len(slopes)), n_numbers, n_numbers
    for own, size in zip(columns.coded, levels, strict=True):
        of_levels = np.zeros((len(slopes), size + 1))  # the last of missing values
        for code, _ in own.with_column:
            of_levels[:, code] = slopes[:, at]
            at += 1
        missing = of_levels[:, -1]
        coef[:, place : place + size] = of_levels[:, :-1] - missing[:, None]
        shift, place = shift + missing, place + size
    if tied:  # P(y <= j) has the index: threshold less <coef, x>
        return coef, shift - constants[0]
    if not constants.shape[1]:
        if shift.any():
            raise ValueError(
                "potential='none' needs fit_intercept=True with missing values in a column of "
                "categories."
            )
        constants = np.zeros((len(slopes), 1))
    intercept = constants[:, 0] + shift
    if hasattr(fit.family, "probabilities"):  # log-odds against the first class
        coef, intercept = (np.concatenate([0.0 * a[:1], a]) for a in (coef, intercept))
        coef, intercept = coef - coef.mean(axis=0), intercept - intercept.mean()
    return coef, intercept


def most_likely(fits_of, law, targets, weights):
    """The fits, where the family's unknown parameter is estimated with the coefficients.

    `fits_of` is a function from a `Law` to `CoefficientFit`s. A parameter of a density is that of
    maximum likelihood; Huber's scale, which has none, alternates with the coefficients.
    """
    family = law.family
    if family.at is not None or type(family).learned is Family.learned:
        fits = fits_of(law)
        if len(fits) > 1 and any(fit.family != fits[0].family for fit in fits):
            raise ValueError(
                f"potential='none' finds another parameter of {family!r} for every target: fit "
                "each target by itself, or name the parameter."
            )
        return fits
    mean = np.broadcast_to(family.clipped(family.start(targets, weights)), targets.shape)
    coef: Any = np.inf
    for _ in range(_MOST_ROUNDS):
        own = law._replace(family=family.learned(targets, mean, weights))
        fits = fits_of(own)
        before, coef = coef, np.concatenate([np.nan_to_num(fit.coef) for fit in fits])
        if np.all(np.abs(coef - before) <= _SETTLED * np.abs(coef).max(initial=1e-300)):
            break
        mean = np.full(targets.shape, np.nan)
        mean[weights > 0.0] = np.column_stack([fit.sample.law.mean(fit.minimum.s) for fit in fits])
        mean = np.nan_to_num(mean)
    return fits


def warn_aliased(fits):
    """Warn of columns that have no coefficient."""
    for name, reason in (pair for fit in fits[:1] for pair in fit.aliased.items()):
        warn(f"{name} has no coefficient, {reason}: its effect is that of the other columns.")


def distance(fits, predicted, are_classes):
    """How far predictions are from the means of a table, in a sentence; "" where they are equal.

    Parameters
    ----------
    fits : list of CoefficientFit
        With the rows.
    predicted : ndarray of shape (n, k)
        Predictions of these rows (of positive weight), for an exposure of 1; of classes their
        probabilities.
    are_classes : bool
    """
    means = []
    for fit in fits:
        law, s = fit.sample.law, fit.minimum.s
        means.append(law.family.probabilities(s) if fit.sample.labels else law.mean(s)[:, None])
    mean = np.concatenate(means, axis=1)
    if are_classes and predicted.shape[1] == 2 and mean.shape[1] == 1:
        predicted = predicted[:, 1:]
    if are_classes and mean.shape[1] == predicted.shape[1] > 2:
        mean = mean / mean.sum(axis=1, keepdims=True)
    weights = fits[0].sample.weights * fits[0].sample.law.exposure
    gap, unit = np.abs(predicted - mean), ""
    low, high = fits[0].family.range
    if low == 0.0 and high == np.inf:
        gap, unit = 100.0 * gap / mean, " %"
    average = float(np.average(gap.mean(axis=1), weights=weights))
    if not average > 0.0:
        return ""
    of = "probabilities" if are_classes else "means"
    return (
        f"predict is regularised: its {of} differ from those of this table by {average:.3g}{unit} "
        f"on average, by {gap.max():.3g}{unit} at most (potential='none' does not differ)."
    )
