"""The mean target of each level of a column whose levels are many, as a number.

A level of few rows has no 0/1 column of its own. Its mean target is drawn towards that of all
rows, by the formula of credibility: the fewer its rows, the more.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from tunefree.rows.matrices import as_dense
from tunefree.rows.order import content_hash, row_hash

# The variance between levels must be above chance by so many standard errors. Chosen.
_SURE = 3.0
# So many rows must have a level that another row has. Chosen.
_FEWEST = 20
# The mean of all rows counts at least as so many: a row of a new level has nothing else.
_LEAST = 0.01
# Of more classes, only the most frequent ones have a mean.
_MOST_CLASSES = 10


class RareLevels(NamedTuple):
    """The levels of a column, some of which have no 0/1 column of their own."""

    place: int  # of the column in the user's table
    levels: np.ndarray  # distinct texts
    codes: np.ndarray  # the level of every row
    strength: float = np.inf  # as so many rows, of mean weight, the mean of all rows counts

    def of_rows(self, rows):
        """The same of some rows."""
        return self._replace(codes=self.codes[rows])

    def credible(self, targets, weights):
        """The same with the strength that the targets show.

        It is the variance within levels over that between them (Bühlmann and Straub 1970), summed
        over outputs; infinity if the levels do not differ for sure.

        Parameters
        ----------
        targets : ndarray of shape (n_samples, n_outputs)
        weights : ndarray of shape (n_samples,)

        Examples
        --------
        >>> codes = np.repeat([0, 1, 2, 3], 25)
        >>> y = codes[:, None] + np.random.default_rng(0).normal(size=(100, 1))
        >>> given = RareLevels(0, np.array(["a", "b", "c", "d"]), codes)
        >>> bool(0.1 < given.credible(y, np.ones(100)).strength < 2.0)
        True
        """
        mass = np.bincount(self.codes, weights)
        used, total = mass > 0.0, mass.sum()
        between, within = np.count_nonzero(used) - 1, len(self.codes) - np.count_nonzero(used)
        centred = _centred(targets, weights)[0]
        if between < 1 or within < _FEWEST or not centred.any():
            return self
        sums = _sums(self.codes, centred, weights, len(mass))
        means = sums[used] / mass[used, None]
        of_levels = float(mass[used] @ np.square(means).sum(axis=1))
        rest = max(float(weights @ np.square(centred).sum(axis=1)) - of_levels, 0.0)
        spread, noise = of_levels / between, rest / within
        sure = 1.0 + _SURE * np.sqrt(2.0 / between + 2.0 / within)
        if spread <= sure * noise:
            return self
        size = (total - np.square(mass).sum() / total) / between  # rows of a level, about
        strength = noise * size / (spread - noise) * len(self.codes) / total
        strength = max(strength, _LEAST)
        # Its last digits depend on the order of rows.
        return self._replace(strength=float(f"{strength:.6g}"))


class LevelMeans(NamedTuple):
    """The mean target of every level, drawn towards that of all rows.

    A level with targets of the sum S and the weight W has (a m + S) / (a + W), with the mean m of
    all rows and the strength a of `RareLevels`. A row that is learned must not know its own target:
    its number is that of the rows of its level before it (Prokhorenkova et al. 2018, section 3.2).

    Attributes
    ----------
    levels : ndarray of str
    means : ndarray of shape (n_levels, n_outputs)
    other : ndarray of shape (n_outputs,)
        Of levels that `fit` has not seen.
    """

    levels: np.ndarray
    means: np.ndarray
    other: np.ndarray

    @classmethod
    def learned(cls, rare, targets, weights, order):
        """The means, and the numbers of the rows that they were learned of.

        Parameters
        ----------
        rare : RareLevels
        targets : ndarray of shape (n_samples, n_outputs)
        weights : ndarray of shape (n_samples,)
        order : ndarray of shape (n_samples,)
            The rows, in an order that does not depend on their targets.

        Examples
        --------
        >>> rare = RareLevels(0, np.array(["a", "b"]), np.array([0, 1, 0, 0]), strength=1.0)
        >>> y = np.array([[4.0], [0.0], [1.0], [3.0]])
        >>> means, numbers = LevelMeans.learned(rare, y, np.ones(4), np.arange(4))
        >>> means.means.ravel().tolist(), numbers.ravel().tolist()
        ([2.5, 1.0], [2.0, 2.0, 3.0, 2.3333333333333335])
        """
        centred, scale, mean = _centred(targets, weights)
        codes, strength = rare.codes, rare.strength * weights.mean()
        mass = np.bincount(codes, weights, len(rare.levels))
        sums = _sums(codes, centred, weights, len(rare.levels))
        means = mean + scale * sums / (strength + mass)[:, None]
        at = order[np.argsort(codes[order], kind="stable")]  # level by level
        is_first = np.diff(codes[at], prepend=-1) != 0
        first = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        before = _before(weights[at, None], first)
        numbers = np.empty_like(centred)
        numbers[at] = _before(weights[at, None] * centred[at], first) / (strength + before)
        used = mass > 0.0
        return cls(rare.levels[used], means[used], mean), mean + scale * numbers

    @classmethod
    def of_rows(cls, rare, X, targets, weights, seed):
        """`learned` of rows in an order of their content; `X` are the other columns."""
        rows = np.column_stack([np.nan_to_num(as_dense(X)), rare.codes, targets])
        at = np.argsort(row_hash(rows, seed), kind="stable")
        given = rare.of_rows(at), targets[at], weights[at], random_order(len(at), seed)
        means, of_rows = cls.learned(*given)
        numbers = np.empty_like(of_rows)
        numbers[at] = of_rows
        return means, numbers

    def numbers(self, levels, codes):
        """Shape (n_samples, n_outputs), for the codes of some levels."""
        place = {level: k for k, level in enumerate(self.levels.tolist())}
        found = np.array([place.get(level, -1) for level in levels.tolist()], dtype=np.int64)
        return np.vstack([self.means, self.other])[found[codes]]


def targets_of_means(y, is_class_numbers):
    """The targets that have means: y itself, or of class numbers the indicators of classes.

    >>> targets_of_means(np.array([0, 1, 1]), True).tolist()
    [[0.0], [1.0], [1.0]]
    >>> targets_of_means(np.array([0, 2, 1]), True).shape
    (3, 3)
    """
    if not is_class_numbers:
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)[:, :_MOST_CLASSES]
    counts = np.bincount(y)
    if len(counts) == 2:
        return y[:, None].astype(np.float64)
    most = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CLASSES])
    return (y[:, None] == most).astype(np.float64)


def random_order(n, seed):
    """An order of n rows for `LevelMeans.learned`.

    That of a hash alone would not do: where targets are a part of it, it may depend on them.
    """
    return np.random.default_rng(seed).permutation(n)


def occurrences(X, labels, seed):
    """Numbers that keep equal rows with equal labels apart: 0 for the first, 1 for the second.

    Equal rows must not be merged before their means are learned: of a level with three targets, two
    of them equal, the third would be known by the mean of the others.

    >>> occurrences(np.ones((3, 1)), np.array([[0.0], [1.0], [0.0]]), 0).tolist()
    [0, 0, 1]
    """
    hashed = content_hash(X, labels, seed)[1]
    order = np.argsort(hashed, kind="stable")
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = hashed[order][1:] != hashed[order][:-1]
    places = np.arange(len(order))
    out = np.empty(len(order), dtype=np.int64)
    out[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return out


def merged(X, labels, weights):
    """Numbers of the first of equal rows, the place of each row among these, and their weights.

    Rows of several levels may be equal: those that are the first of their levels.

    >>> X, labels = np.array([[1.0], [2.0], [1.0]]), np.zeros((3, 1))
    >>> [part.tolist() for part in merged(X, labels, np.ones(3))]
    [[0, 1], [0, 1, 0], [2.0, 1.0]]
    """
    hashed = content_hash(X, labels, 0)[1]
    _, first, place = np.unique(hashed, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    place = rank[place]
    return first[order], place, np.bincount(place, weights)


def with_columns(X, blocks):
    """Rows with blocks of columns before some of theirs: `blocks` are (place, columns), in order.

    >>> with_columns(np.zeros((1, 2)), [(1, np.ones((1, 1)))]).tolist()
    [[0.0, 1.0, 0.0]]
    """
    is_sparse, start, parts = sparse.issparse(X), 0, []
    for place, columns in blocks:
        columns = columns.astype(X.dtype, copy=False)
        parts += [X[:, start:place], sparse.csr_array(columns) if is_sparse else columns]
        start = place
    parts.append(X[:, start:])
    return sparse.hstack(parts, format="csr") if is_sparse else np.hstack(parts)


def _centred(targets, weights):
    """Targets less their mean, in units of the largest; the units, and the mean."""
    mean = weights @ targets / weights.sum()
    centred = targets - mean
    scale = np.abs(centred).max(axis=0)
    return centred / np.where(scale > 0.0, scale, 1.0), scale, mean


def _sums(codes, values, weights, n_levels):
    """The weighted sums of each column of values, by level."""
    return np.array([np.bincount(codes, weights * v, n_levels) for v in values.T]).T


def _before(values, first):
    """Sums of the values of the rows before each, from the first row of its level on."""
    sums = np.cumsum(values, axis=0) - values
    return sums - sums[first]
