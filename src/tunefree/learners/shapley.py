r"""Shapley values: how much each column adds to a score, against background rows.

Of a row x and a background row b, the score of a coalition S of columns is f(z), where z has the
columns of S from x and the others from b. The value of a column j is its mean gain over all orders
in which columns join the coalition,

.. math:: \phi_j = \sum_{S \not\ni j} \frac{|S|! \, (d - |S| - 1)!}{d!}
    \left(f(z_{S \cup j}) - f(z_S)\right),

averaged over the background rows. So the values of a row add up to f(x) minus the mean score of the
background. Columns of numbers that come from one column of the user's (`groups`) join together.

Values are exact for sums of functions of single columns (`Additive`) and for oblivious trees
(`Trees`): a tree depends on at most as many columns as it has levels, and only on the leaves of x
and b. For other functions (`Sampled`) orders are drawn, each followed from b to x and in reverse.

Source: Lundberg et al. 2020, "From local explanations to global understanding with explainable AI
for trees" (interventional values of trees); Janzing, Minorics and Bloebaum 2020 (why columns are
replaced as if they were independent); Castro, Gomez and Tejada 2009 (sampled orders); Mitchell,
Cooper, Frank and Holmes 2022 (antithetic orders); Liu and Owen 2006 (`pair_effects`).
"""

from collections.abc import Callable
from itertools import combinations
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from tunefree._jit import kernel
from tunefree.learners.trees.tree import leaves_of

# Background rows of sampled values: at least so many, and beyond that so many scores for each row.
_FEWEST, _EVALUATIONS = 10, 1000
# Numbers in the rows that are scored at once.
_CELLS = 4_000_000
# Pairs of columns: others of each background row, columns, and the least strength in units of the
# largest effect of a column (less is rounding).
_SHIFTS, _PAIRED, _ROUNDING = 4, 20, 1e-6


class Values(NamedTuple):
    """Shapley values; ``base + values.sum(axis=1)`` are the scores."""

    values: np.ndarray  # of shape (rows, columns, outputs)
    base: np.ndarray  # the mean score of background rows, of shape (outputs,)
    square: Any = 0.0  # of the standard errors, of the shape of `values`; 0 if they are exact


class Additive(NamedTuple):
    """A sum of functions of single columns; `score` maps rows to (rows, outputs)."""

    score: Callable[[np.ndarray], np.ndarray]

    def values(self, rows, background, groups, n_columns):
        """The `Values` of rows."""
        n, both = len(rows), np.vstack([rows, background])
        base = self.score(background).mean(axis=0)
        values = np.zeros((n, n_columns, len(base)))
        for column in np.unique(groups):
            changed = np.tile(background[0], (len(both), 1))
            changed[:, groups == column] = both[:, groups == column]
            scores = self.score(changed)
            values[:, column] = scores[:n] - scores[n:].mean(axis=0)
        return Values(values, base)


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


class Sampled(NamedTuple):
    """Any function; `score` maps rows to (rows, outputs)."""

    score: Callable[[np.ndarray], np.ndarray]
    seed: int

    def values(self, rows, background, groups, n_columns):
        """The `Values` of rows, against the first 10 to 100 background rows.

        An order and its reverse are followed from each background row. Half the difference of the
        two is an upper estimate of the error of their mean: their errors often cancel.
        """
        random, columns = np.random.default_rng(self.seed), np.unique(groups)
        background = background[: max(_FEWEST, _EVALUATIONS // (2 * len(columns)))]
        orders = [random.permutation(columns) for _ in background]
        size = max(1, _CELLS // (len(columns) * rows.shape[1]))
        starts, parts = self.score(background), []
        for first in range(0, len(rows), size):
            block = rows[first : first + size]
            ends = self.score(block)
            mean, square = np.zeros((2, len(block), n_columns, ends.shape[1]))
            for row, start, order in zip(background, starts, orders, strict=True):
                one, reverse = (
                    self._gains(block, ends, row, start, groups, each, n_columns)
                    for each in (order, order[::-1])
                )
                mean += 0.5 * (one + reverse) / len(background)
                square += np.square(0.5 * (one - reverse) / len(background))
            parts.append((mean, square))
        values, square = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Values(values, starts.mean(axis=0), square)

    def _gains(self, rows, ends, row, start, groups, order, n_columns):
        """What each column adds when columns of a background row are replaced in this order."""
        n, k = ends.shape
        place = np.zeros(n_columns, dtype=np.int64)
        place[order] = np.arange(len(order))
        replaced = place[groups] < np.arange(1, len(order))[:, None]
        between = np.where(replaced[:, None, :], rows, row)
        scores = [np.broadcast_to(start, (1, n, k)), ends[None]]
        if len(between):
            inner = self.score(between.reshape(-1, rows.shape[1]))
            scores.insert(1, inner.reshape(-1, n, k))
        gains = np.zeros((n, n_columns, k))
        gains[:, order] = np.diff(np.concatenate(scores), axis=0).transpose(1, 0, 2)
        return gains


def pair_effects(score, background, groups):
    r"""How strongly each pair of columns interacts: {(i, j): (strength, standard error)}.

    With x and b two background rows, and :math:`x_{ij}` row x with the columns i and j from b,

    .. math:: \frac12 \sqrt{\mathrm{E}\left(f(x) - f(x_i) - f(x_j) + f(x_{ij})\right)^2}.

    For independent columns this is the standard deviation of the parts of f that need both columns.
    It is 0 if f is a sum of a function without column i and one without column j; such pairs are
    not returned. Pairs of the 20 columns of largest effect are computed.
    """
    shifts = range(1, min(_SHIFTS, len(background) - 1) + 1)
    rows = np.vstack([background for _ in shifts])
    others = np.vstack([np.roll(background, s, axis=0) for s in shifts])

    def changed(*columns):
        return score(np.where(np.isin(groups, columns), others, rows))

    before = score(rows)
    single = {int(j): changed(j) - before for j in np.unique(groups)}
    sizes = {j: float(np.square(effect).mean()) for j, effect in single.items()}
    largest = sorted(sizes, key=lambda j: -sizes[j])[:_PAIRED]
    least, out = _ROUNDING * np.sqrt(max(sizes.values())), {}
    for i, j in combinations(sorted(largest), 2):
        square = np.square(changed(i, j) - before - single[i] - single[j]).mean(axis=1) / 4.0
        strength = float(np.sqrt(square.mean()))
        if strength > least:
            error = float(square.std() / np.sqrt(len(square)))
            out[i, j] = strength, error / (2.0 * strength)
    return out
