"""Explanations of boosted trees: exact Shapley values of the score."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree.base.explanations import ScoreTerms, _names
from tunefree.base.state_checks import require
from tunefree.trees.shapley import Trees


def terms_of_trees(model):
    """The `ScoreTerms` of boosted trees; rows are the bins of columns."""
    check_is_fitted(model, "forests_")
    background = model.background_
    require(background.dtype == np.uint8 and background.shape[0] == model._n_columns())
    pairs = zip(model.forests_, model.shares_, strict=True)
    terms = [Trees(np.transpose, *pair) for pair in pairs]
    start, table = np.zeros(len(model.forests_[0].start)), vars(model).get("table_")
    columns = np.arange(len(background)) if table is None else table.sources_
    return ScoreTerms(terms, start, background.T, columns, _names(model))
