"""Copies of a stack, each fitted without its fold."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from tunefree.held_out.predictions import folds_of
from tunefree.rows.checks import ignore_outlier_warnings


def check_copies(n_copies, problem):
    """Refuse more copies than there are rows, or groups, to hold out; None is no copy."""
    if n_copies is None:
        return
    n_units = len(problem.strata)
    unit = "different rows"
    if problem.groups is not None:
        n_units = len(np.unique(problem.groups))
        unit = "groups"
    if n_copies > n_units:
        raise ValueError(
            f"cross_fit={n_copies} copies each hold out some rows, but there are {n_units} {unit}: "
            "give a smaller number, such as 5."
        )


def cross_fitted(estimator, X, y, problem, limits):
    """Copies of a stack, each fitted without its fold, with predictions of the fold.

    They share the time that the `Limits` leave. A plan is of all rows: they do not follow it.
    """
    if estimator.cross_fit is None:
        return []
    numbers, weights, groups, copies = problem.numbers, problem.weights, problem.groups, []
    one: Any = clone(estimator).set_params(cross_fit=None)
    if getattr(estimator, "class_weight", None) is not None:  # the weights include it
        one.set_params(class_weight=None)
    fold, count = folds_of(problem.strata, groups, int(estimator.cross_fit))

    def part(rows):
        return _safe_indexing(X, numbers[rows]), _safe_indexing(y, numbers[rows]), weights[rows]

    for f in range(count):
        others = np.flatnonzero(fold != f)
        of_others = None if groups is None else groups[others]
        one.set_params(budget=limits.of_others(count - f))
        with ignore_outlier_warnings():
            fitted = clone(one).fit(*part(others), groups=of_others)
        held_out = estimator._copy_held_out(fitted, *part(np.flatnonzero(fold == f)))
        copies.append((fitted, held_out))
    return copies
