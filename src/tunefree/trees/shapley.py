r"""Exact Shapley values of trees.

An oblivious tree depends on at most as many columns as it has levels, and only on the leaves of x
and of the background row b.

A leaf of another tree is reached by a coalition of columns if x fulfils the conditions on its path
in the columns of the coalition, and b those in the others. With A the columns that only x fulfils,
and B those that only b does, a leaf with the value v adds

.. math:: v \frac{(|A| - 1)! \, |B|!}{(|A| + |B|)!} \text{ to each column of } A, \qquad
    -v \frac{|A|! \, (|B| - 1)!}{(|A| + |B|)!} \text{ to each of } B,

and nothing if a column is fulfilled by neither (see `tunefree.base.shapley` for what the values
are).
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
from tunefree.trees.leafwise import paths
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
        out = np.zeros((len(rows), n_columns, len(self.forest.start)))
        self.forest.add_shapley(codes, others, np.asarray(groups), out)
        return Values(self.share * out, self.score(background).mean(axis=0))


def add_oblivious(forest, codes, others, groups, out):
    """Add the Shapley values of an `ObliviousForest` to `out`, of shape (rows, columns, outputs).

    `codes` and `others` are the bins of rows and of background rows. `groups` are the user's
    columns that these columns come from.
    """
    columns, thresholds, missing, values, _ = forest
    depth, sources = columns.shape[1], groups[columns]
    weights = _coalition_weights(depth)
    for t, names in enumerate(sources):
        players, place = np.unique(names, return_inverse=True)
        masks = np.zeros(len(players), dtype=np.int64)
        np.add.at(masks, place, 1 << np.arange(depth - 1, -1, -1))
        split = columns[t], thresholds[t], missing[t]
        of_rows, of_others = leaves_of(codes, *split), leaves_of(others, *split)
        shares = np.bincount(of_others, minlength=1 << depth) / len(of_others)
        _add_tree(values[t], masks, players, of_rows, shares, weights, out)


def add_leafwise(forest, codes, others, groups, out):
    """Add the Shapley values of a `LeafwiseForest` to `out`: see `add_oblivious`."""
    columns, thresholds, missing, children, values, _ = forest
    weights = _coalition_weights(columns.shape[1])
    for t, names in enumerate(groups[columns]):
        players, place = np.unique(names, return_inverse=True)
        splits = columns[t], thresholds[t], missing[t], place.astype(np.int64)
        reach = paths(children[t])
        for leaf in np.flatnonzero(reach.any(axis=1)):
            of_rows = _fulfilled(codes, *splits, reach[leaf])
            of_others = _fulfilled(others, *splits, reach[leaf])
            own = np.unique(place[reach[leaf] != 0])
            kinds, counts = np.unique(of_others, return_counts=True)
            whole = np.bitwise_or.reduce(np.int64(1) << own)
            shares = counts / len(of_others)
            _add_leaf(values[t, leaf], own, players, of_rows, kinds, shares, whole, weights, out)


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


@kernel
def _fulfilled(codes, columns, thresholds, missing, place, reach):
    """Bits of the columns in which rows fulfil all conditions on the path to a leaf."""
    out = np.zeros(codes.shape[1], dtype=np.int64)
    for node in range(len(reach)):
        if reach[node] != 0:
            out |= np.int64(1) << place[node]
    for node in range(len(reach)):
        if reach[node] == 0:
            continue
        bit = np.int64(1) << place[node]
        for i in range(len(out)):
            code = codes[columns[node], i]
            right = missing[node] if code == 0 else code > thresholds[node]
            if right != (reach[node] > 0):
                out[i] &= ~bit
    return out


@kernel
def _add_leaf(value, own, players, of_rows, of_others, shares, whole, weights, out):
    """Add what one leaf of a tree adds to the Shapley values of rows.

    Parameters
    ----------
    value : scores of the leaf, of shape (outputs,)
    own : the columns of its path, as places among the tree's
    players : the numbers of the tree's columns
    of_rows : bits of the columns whose conditions each row fulfils
    of_others, shares : the same of background rows: distinct ones, and how many have them
    whole : the bits of all columns of the path
    weights : see `_coalition_weights`
    out : of shape (rows, columns, outputs)
    """
    for i in range(len(of_rows)):
        row = of_rows[i]
        for k in range(len(of_others)):
            other = of_others[k]
            if row | other != whole:
                continue
            gained, lost = row & ~other, other & ~row
            a, b = 0, 0
            for p in own:
                a += (gained >> p) & 1
                b += (lost >> p) & 1
            for p in own:
                if (gained >> p) & 1:
                    factor = shares[k] * weights[a + b, a - 1]
                elif (lost >> p) & 1:
                    factor = -shares[k] * weights[a + b, a]
                else:
                    continue
                for c in range(len(value)):
                    out[i, players[p], c] += factor * value[c]
