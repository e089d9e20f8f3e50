"""Explanations of single predictions: what each column adds to a model's score."""

import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from tunefree.base import shapley
from tunefree.base.explanations import ScoreTerms, _names, as_numbers
from tunefree.held_out.stacking import Classes, Targets
from tunefree.kernel_ridge.solvers import KernelTransform
from tunefree.kernels.kernels import decay
from tunefree.parts.links import LINKS
from tunefree.stack.candidates import MOST_COLUMNS, Fitted
from tunefree.trees.shapley import Trees
from tunefree.trees.state_checks import check_trees


def terms_of_stack(model):
    """The `ScoreTerms` of a stack; rows are those of its `table_`."""
    check_is_fitted(model, "models_")
    groups = model.table_.sources_
    if len(groups) > MOST_COLUMNS:
        raise ValueError(
            f"explain is for at most {MOST_COLUMNS} columns of numbers: these are {len(groups)}. "
            "feature_relevances_ shows which columns matter."
        )
    classify = is_classifier(model)
    kind = Classes(len(model.classes_)) if classify else Targets(np.ones(1))
    terms, others = [], []
    for weight, view, member in zip(model.weights_, model.views_, model.models_, strict=True):
        of_all = not classify or len(member.classes_) == len(model.classes_)
        part = partial(_weighted, weight, Fitted(view, _unlimited(member)), kind)
        if of_all and hasattr(member, "forests_") and _is_linear(member):
            check_trees(member.bins_, member.forests_, len(groups))
            # The weight of a stack of quantiles has an entry for every output.
            shares = np.multiply.outer(member.shares_, weight)
            pairs = zip(member.forests_, shares, strict=True)
            terms += [Trees(member.bins_.codes, *pair) for pair in pairs]
        elif of_all and _is_additive(member):
            terms.append(shapley.Additive(part))
        elif of_all and not view and _has_factors(member, groups):
            others.append(_products(part, member, weight))
        else:
            others.append(shapley.AnyFunction(part))
    if others:
        terms.append(shapley.Sampled(others, 0))
    background = as_numbers(model.background_)
    return ScoreTerms(terms, model.offsets_, background, groups, _names(model))


def line_of_stack(model):
    """Coefficients and intercepts of a stack of linear models, a row and a number an output."""
    check_is_fitted(model, "models_")
    classify = is_classifier(model)
    if classify and model.calibration_ is not None:
        raise AttributeError(
            "coef_ needs log-odds that are linear: those of this stack are calibrated class by "
            "class (calibration_), which is not."
        )
    coef: Any = 0.0
    intercept: Any = model.offsets_
    for a, view, member in zip(model.weights_, model.views_, model.models_, strict=True):
        has_all_classes = not classify or len(member.classes_) == len(model.classes_)
        is_line = hasattr(member, "coef_") and _is_linear(member) and has_all_classes
        if view or not is_line:
            raise AttributeError(
                f"coef_ needs a stack of linear models; this one has {', '.join(model.chosen_)}."
            )
        coef = coef + np.reshape(a, (-1, 1)) * np.atleast_2d(member.coef_).astype(np.float64)
        intercept = intercept + a * np.atleast_1d(member.intercept_)
    return coef, intercept


def _weighted(weight, fitted, kind, rows):
    """The scores of a model of a stack, times its weight."""
    return weight * fitted.scores(rows, kind)


def _has_factors(member, groups):
    """Whether a model is a sum over kernel values that are products over columns."""
    if getattr(member, "geometry_", None) is None or not hasattr(member.view_, "source"):
        return False
    return len(np.unique(groups)) * len(member.dual_coef_) <= shapley.FACTORS


def _products(score, member, weight):
    """The `Products` of a kernel model, times its weight."""
    transform = KernelTransform(member.view_, member.geometry_)
    coef = weight * np.asarray(member.dual_coef_, dtype=np.float64)
    constant = coef.sum(axis=0) + weight * member.intercept_
    centers = member.landmarks_.centers.astype(np.float64)
    of_rows = partial(_factors, transform, centers, coef, constant)
    return shapley.Products(score, of_rows, np.ascontiguousarray(coef.T))


def _factors(transform, centers, coef, constant, rows, groups):
    """The factors of the kernel values of rows, and the rest of the scores; see `Geometry`."""
    A, source = transform(rows), groups[transform.view.source]
    kernel, slope = transform.geometry.kernel, transform.geometry.slope
    n = len(A)
    p = int(groups.max()) + 1
    m = len(centers)
    factors, terms = np.empty((n, p, m)), np.empty((n, p, coef.shape[1]))
    for j in range(p):
        a, c = (np.ascontiguousarray(part[:, source == j]) for part in (A, centers))
        left, right = kernel.sizes(a), kernel.sizes(c)
        D = kernel.distances(a, c, left, right)
        terms[:, j] = slope * (left[:, None] + right - D) @ coef
        factors[:, j] = decay(D, 1.0, D)
    terms[:, 0] += constant
    return factors, terms


def _unlimited(model):
    """A copy without limits of predictions, whose scores are sums of what its parts add."""
    ends = getattr(model, "prediction_limits_", None)
    if ends is None:
        return model
    out: Any = copy.copy(model)
    out.prediction_limits_ = np.array(ends)
    out.prediction_limits_[0], out.prediction_limits_[1] = -np.inf, np.inf
    return out


def _is_linear(model):
    """Whether predictions of a model, or log-odds, are its scores."""
    link = getattr(model, "link_", None)
    return link is None or link == LINKS["identity" if not is_classifier(model) else "logit"]


def _is_additive(model):
    """Whether the score of a model is a sum of functions of single columns."""
    linear = hasattr(model, "coef_") or getattr(model, "kernel", None) == "linear"
    return linear and _is_linear(model)
