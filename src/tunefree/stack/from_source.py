"""The models of a stack that was chosen on a sample, fitted to all rows of a source."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from tunefree.base import base
from tunefree.base.from_source import FitsSums
from tunefree.stack.candidates import Fitted


class ToModelRows(NamedTuple):
    """Transforms the user's rows to those of a model of the stack."""

    table: Any
    view: tuple
    classes: np.ndarray | None
    class_weights: np.ndarray | None

    def __call__(self, rows):
        """Rows with columns as the model takes them, class numbers, and weights."""
        X = Fitted(self.view, None).show(self.table.transform(rows.X))
        y, weights = rows.y, rows.weights
        if self.classes is not None:
            y = np.searchsorted(self.classes, y)
        if self.class_weights is not None:
            weights = weights * self.class_weights[y]
        return rows._replace(X=X, y=y, weights=weights)


def fit_source_rows(stack, rows, sample):
    """The models of a stack that was chosen on a sample, fitted to all rows if they can be.

    Returns the models, and the names of those that have learned all rows, and of the others.
    """
    classes, class_weights = getattr(stack, "classes_", None), _class_weights(stack, rows)
    models, fitted, others = [], [], []
    for name, view, model in zip(stack.chosen_, stack.views_, stack.models_, strict=True):
        to_model_rows = ToModelRows(stack.table_, view, classes, class_weights)
        all_rows, sampled = rows.shown(to_model_rows), to_model_rows(sample)
        if isinstance(model, FitsSums):
            fresh: Any = clone(model)
            learned = fresh._fit_rows(all_rows, sampled, like=model)
            learned = Fitted(view, learned).without_held_out().model
        else:
            learned = all_rows.fitted(clone(model))
        (others if learned is None else fitted).append(name)
        models.append(model if learned is None else learned)
    return models, fitted, others


def _class_weights(stack, rows):
    """The weight of each class, from all rows; None without weights."""
    class_weight = getattr(stack, "class_weight", None)
    if class_weight is None:
        return None
    codes = np.arange(len(stack.classes_))
    totals = rows.total("class weights", _weights_of_classes, stack.classes_, merge=_added)
    return base.balanced(class_weight, stack.classes_, codes, totals) / totals


def _weights_of_classes(rows, classes):
    """The sum of the weights of each class."""
    return np.bincount(np.searchsorted(classes, rows.y), rows.weights, len(classes))


def _added(one, other, *_):
    return one + other
