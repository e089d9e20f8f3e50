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
and b. For other functions (`Sampled`) orders are drawn, each followed from b to x and in reverse:
at little cost for kernels, whose values are products over columns (`Products`).

Source: Lundberg et al. 2020, "From local explanations to global understanding with explainable AI
for trees" (interventional values of trees); Janzing, Minorics and Bloebaum 2020 (why columns are
replaced as if they were independent); Castro, Gomez and Tejada 2009 (sampled orders); Mitchell,
Cooper, Frank and Holmes 2022 (antithetic orders); Liu and Owen 2006 (`pair_effects`).
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import REASSOCIATE, kernel

# Background rows of sampled values: at least so many, and beyond that so many scores for each row.
_FEWEST, _EVALUATIONS = 10, 1000
# Numbers in the rows that are scored at once, factors of rows that stay in the cache, and products
# that are computed at once.
_CELLS, FACTORS, _PRODUCTS = 4_000_000, 1_000_000, 256
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


class AnyFunction(NamedTuple):
    """Any function; `score` maps rows to (rows, outputs)."""

    score: Callable[[np.ndarray], np.ndarray]

    def of_rows(self, rows, groups):
        """What `between` takes for each row: the row."""
        return (rows,)

    def between(self, rows, row, order, groups):
        """Scores of rows whose first 1, 2, ... columns of an order are theirs, the rest `row`'s.

        The shape is (len(order) - 1, rows, outputs).
        """
        (rows,), (row,) = rows, row
        place, steps = np.argsort(order), len(order) - 1
        replaced = place[groups] < np.arange(1, steps + 1)[:, None]
        mixed = np.where(replaced[:, None, :], rows, row)
        return self.score(mixed.reshape(-1, rows.shape[1])).reshape(steps, len(rows), -1)


class Products(NamedTuple):
    r"""Sums of products, and of functions, of single columns.

    .. math:: f(x) = \sum_m c_m \prod_j e_{jm}(x_j) + \sum_j g_j(x_j)

    Kernels are such sums. When a column is replaced, one factor of each product changes.
    """

    score: Callable[[np.ndarray], np.ndarray]
    # From rows and groups to e, of shape (rows, columns, products), and g (rows, columns, outputs).
    of_rows: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    coef: np.ndarray  # c, of shape (outputs, products)

    def between(self, rows, row, order, groups):
        """See `AnyFunction.between`."""
        (factors, terms), (other_factors, other_terms) = rows, row
        out = np.cumsum((terms - other_terms)[:, order[:-1]], axis=1).transpose(1, 0, 2)
        out = out + other_terms.sum(axis=0)
        _add_products(factors, other_factors, order, self.coef, out)
        return out


@kernel(fastmath=REASSOCIATE)
def _add_products(factors, others, order, coef, out):
    """Add the products of rows' first factors in an order and another row's last ones to `out`.

    Parameters
    ----------
    factors : of shape (rows, columns, products)
    others : of shape (columns, products)
    order : the columns' order
    coef : of shape (outputs, products)
    out : of shape (columns - 1, rows, outputs)
    """
    (n_outputs, m), steps = coef.shape, len(order) - 1
    first, last = np.empty(_PRODUCTS), np.empty((n_outputs, steps, _PRODUCTS))
    for left in range(0, m, _PRODUCTS):
        part = slice(left, min(left + _PRODUCTS, m))
        size = part.stop - left
        for c in range(n_outputs):
            following = coef[c, part]
            for s in range(steps - 1, -1, -1):
                last[c, s, :size] = following * others[order[s + 1], part]
                following = last[c, s, :size]
        for i in range(len(factors)):
            first[:] = 1.0
            for s in range(steps):
                own = factors[i, order[s], part]
                for j in range(size):
                    first[j] *= own[j]
                for c in range(n_outputs):
                    rest, total = last[c, s], 0.0
                    for j in range(size):
                        total += first[j] * rest[j]
                    out[s, i, c] += total


class Sampled(NamedTuple):
    """A sum of functions; `parts` are `AnyFunction` and `Products`."""

    parts: list
    seed: int

    def score(self, rows) -> Any:
        """Scores of shape (rows, outputs)."""
        return sum(part.score(rows) for part in self.parts)

    def values(self, rows, background, groups, n_columns):
        """The `Values` of rows, against the first 10 to 100 background rows.

        An order and its reverse are followed from each background row. Half the difference of the
        two is an upper estimate of the error of their mean: their errors often cancel.
        """
        columns, groups = np.unique(groups, return_inverse=True)
        random, p = np.random.default_rng(self.seed), len(columns)
        background = background[: max(_FEWEST, _EVALUATIONS // (2 * p))]
        orders = [random.permutation(p) for _ in background]
        # Of each part what it takes for every background row.
        others = [zip(*part.of_rows(background, groups), strict=True) for part in self.parts]
        others = [list(of_part) for of_part in others]
        starts, scores = self.score(background), self.score(rows)
        mean, square = np.zeros((2, len(rows), n_columns, scores.shape[1]))
        size = self._block(rows, p)
        for first in range(0, len(rows), size):
            block = slice(first, first + size)
            shown = [part.of_rows(rows[block], groups) for part in self.parts]
            for i, (start, order) in enumerate(zip(starts, orders, strict=True)):
                row = [of_part[i] for of_part in others]
                one, reverse = (
                    self._gains(shown, scores[block], row, start, groups, each)
                    for each in (order, order[::-1])
                )
                mean[block, columns] += 0.5 * (one + reverse) / len(background)
                square[block, columns] += np.square(0.5 * (one - reverse) / len(background))
        return Values(mean, starts.mean(axis=0), square)

    def _block(self, rows, p):
        """How many rows are explained at once."""
        sizes = [
            FACTORS // (p * part.coef.shape[1]) for part in self.parts if hasattr(part, "coef")
        ]
        return max(1, min([_CELLS // (p * rows.shape[1]), *sizes]))

    def _gains(self, rows, ends, row, start, groups, order):
        """What each column adds when columns of a background row are replaced in this order."""
        scores: list = [np.broadcast_to(start, (1, *ends.shape)), ends[None]]
        if len(order) > 1:
            triples = zip(self.parts, rows, row, strict=True)
            scores.insert(1, sum(part.between(a, b, order, groups) for part, a, b in triples))
        gains: Any = np.diff(np.concatenate(scores), axis=0).transpose(1, 0, 2)
        return gains[:, np.argsort(order)]


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
