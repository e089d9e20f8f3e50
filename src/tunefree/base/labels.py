"""Several labels: one model each, whose methods and attributes are those of all, label by label.

A classifier with the attribute `label_models_` was fitted to several labels. `of_every_label` makes
its methods join the answers of these models, and `LabelModels` has their attributes.
"""

import functools
from html import escape
from typing import Any

import numpy as np

# Attributes that do not depend on the labels: those of the first model.
_SHARED = "table_", "column_shares_"
# Attributes with a row for each label; others of a fitted model are lists with one entry each.
_STACKED = "permutation_importances_", "permutation_importances_se_", "encoded_relevances_"
_LISTED = (
    "chosen_", "compression_", "group_importances_", "held_out_", "leaderboard_", "plan_",
    "report_", "risk_interval_", "risk_interval_kind_", "seconds_", "traces_",
)  # fmt: skip
# Attributes of which the score of one stack is made.
_OF_ONE_STACK = (
    "background_", "calibration_", "copies_", "models_", "offsets_", "views_", "weights_",
)  # fmt: skip


def of_every_label(join):
    """Make a method of several labels return `join` of the list of what their models return."""

    def decorated(method):
        @functools.wraps(method)
        def of_models(self, *args, **kwargs):
            models = vars(self).get("label_models_")
            if models is None:
                return method(self, *args, **kwargs)
            return join([method(model, *args, **kwargs) for model in models])

        return of_models

    return decorated


def first(found):
    """The answer of the first model, where labels make no difference."""
    return found[0]


def by_rows(found):
    """Arrays of rows of every label; the labels are the second axis."""
    return np.stack(found, axis=1)


def pairs_by_rows(found):
    """The same of pairs of arrays."""
    return tuple(np.stack(arrays, axis=1) for arrays in zip(*found, strict=True))


def explanations(found):
    """The `Explanation` of every label as one, whose outputs are the labels."""
    errors, like = [one.std_error for one in found], found[0]
    if all(error is None for error in errors):
        error = None
    else:  # values of some labels are exact
        of_labels = [np.zeros_like(like.values) if e is None else e for e in errors]
        error = np.stack(of_labels, axis=-1)
    return like._replace(
        values=np.stack([one.values for one in found], axis=-1),
        base_value=np.array([one.base_value for one in found]),
        score=np.stack([one.score for one in found], axis=-1),
        std_error=error,
    )


class LabelReports(list):
    """The report of every label: text in the shell, tables in notebooks."""

    def __repr__(self):
        return "\n\n".join(f"Label {j}\n{report}" for j, report in enumerate(self))

    def _repr_html_(self):
        return "".join(
            f"<p>{escape(f'Label {j}')}</p>{report._repr_html_()}" for j, report in enumerate(self)
        )


class LabelModels:
    """A classifier of one label, or of several: then it has the attributes of their models."""

    def __getattr__(self, name: str) -> Any:
        models = vars(self).get("label_models_")
        if models is not None and name in _OF_ONE_STACK:
            raise AttributeError(
                f"{name} is of one label, and this {type(self).__name__} has {len(models)}: "
                "label_models_ has the model of each."
            )
        if models is not None and name in _SHARED:
            return getattr(models[0], name)
        if models is not None and name in _STACKED:
            if not all(hasattr(model, name) for model in models):
                raise AttributeError(f"Not all of label_models_ have {name}: ask one of them.")
            return np.stack([getattr(model, name) for model in models])
        if models is not None and name in _LISTED:
            found = [getattr(model, name) for model in models]
            return LabelReports(found) if name == "report_" else found
        return super().__getattribute__(name)  # raises the error of the attribute
