"""Exact Shapley values of oblivious trees.

A tree depends on at most as many columns as it has levels, and only on the leaves of x and of the
background row (see `tunefree.base.shapley` for what the values are).
"""

from collections.abc import Callable
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tunefree.base.explanations import ScoreTerms, _names
from tunefree.base.shapley import Values
from tunefree.base.state_checks import require
from tunefree.core.jit import kernel
from tunefree.trees.tree import leaves_of


class Trees(NamedTuple):
    """A share of a forest; `codes` maps rows to bins of shape (columns, rows)."""

    codes: Callable[[np.ndarray], np.ndarray]
    forest: Any
    share: float

    def score(self, rows):
        """Scores of shape (rows, outputs)."""
        return self.share * self.forest.scores(np.ascontiguousarray(self.codes(rows)))

    def values(self, rows, background, groups, n_columns):
        """The `Values` of rows."""
        codes, others = (np.ascontiguousarray(self.codes(part)) for part in (rows, background))
        columns, thresholds, missing, values, start = self.forest
        out = np.zeros((len(rows), n_columns, len(start)))
        depth, sources = columns.shape[1], np.asarray(groups)[columns]
        weights = _coalition_weights(depth)
        for t, names in enumerate(sources):
            players, place = np.unique(names, return_inverse=True)
            masks = np.zeros(len(players), dtype=np.int64)
            np.add.at(masks, place, 1 << np.arange(depth - 1, -1, -1))
            split = columns[t], thresholds[t], missing[t]
            of_rows, of_others = leaves_of(codes, *split), leaves_of(others, *split)
            shares = np.bincount(of_others, minlength=1 << depth) / len(of_others)
            _add_tree(values[t], masks, players, of_rows, shares, weights, out)
        return Values(self.share * out, self.score(background).mean(axis=0))


def terms_of_trees(model):
    """The `ScoreTerms` of boosted trees; rows are the bins of columns."""
    check_is_fitted(model, "forests_")
    background = model.background_
    require(background.dtype == np.uint8 and background.shape[0] == model._n_columns())
    pairs = zip(model.forests_, model.shares_, strict=True)
    terms = [Trees(np.transpose, *pair) for pair in pairs]
    start = np.zeros(len(model.forests_[0].start))
    table = vars(model).get("table_")
    columns = np.arange(len(background)) if table is None else table.sources_
    return ScoreTerms(terms, start, background.T, columns, _names(model))


def _coalition_weights(depth):
    """The weights of coalitions of s among k columns, ``weights[k, s]``."""
    weights = np.zeros((depth + 1, depth + 1))
    for k in range(1, depth + 1):
        for s in range(k):
            weights[k, s] = factorial(s) * factorial(k - s - 1) / factorial(k)
    return weights


@kernel
def _add_tree(values, masks, players, leaves, shares, weights, out):
    """Add a tree's Shapley values to `out`.

    Parameters
    ----------
    values : scores of the leaves, of shape (leaves, outputs)
    masks : the bits of a leaf's number that belong to each column of the tree
    players : the numbers of these columns
    leaves : the leaf of every row
    shares : the share of background rows in every leaf
    weights : see `_coalition_weights`
    out : of shape (rows, columns, outputs)
    """
    n_leaves, k = values.shape
    table = np.zeros((n_leaves, len(players), k))
    known = np.zeros(n_leaves, dtype=np.bool_)
    for i in range(len(leaves)):
        leaf = leaves[i]
        if not known[leaf]:
            known[leaf] = True
            for other in range(n_leaves):
                if shares[other] > 0.0:
                    _add_pair(values, masks, leaf, other, shares[other], weights, table[leaf])
        for p in range(len(players)):
            for c in range(k):
                out[i, players[p], c] += table[leaf, p, c]


@kernel
def _add_pair(values, masks, leaf, other, share, weights, out):
    """Add a share of the Shapley values of a row in one leaf against a row in another."""
    differ = np.int64(leaf) ^ np.int64(other)
    active = np.flatnonzero((masks & differ) != 0)
    n = len(active)
    for coalition in range(1 << n):
        changed, size = np.int64(0), 0
        for a in range(n):
            if (coalition >> a) & 1:
                changed |= masks[active[a]] & differ
                size += 1
        reached = np.int64(other) ^ changed
        for a in range(n):
            if (coalition >> a) & 1:
                factor = share * weights[n, size - 1]
            else:
                factor = -share * weights[n, size]
            for c in range(values.shape[1]):
                out[active[a], c] += factor * values[reached, c]
