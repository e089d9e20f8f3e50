"""Held-out rows: which they are, and how well candidates predict them.

Below 40 rows there are ten folds, below 2,000 five, and beyond a single one of five is held out.
With `groups` a single one has ten groups or more: else five are held out.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.rows.order import summed_by

# Below this many rows all folds are evaluated, else one. A single one has at most so many rows.
FEW_ROWS, _FOLDS, _MOST_HELD = 2000, 5, 5000
# Below so many rows there are more folds: each model learns nearly all of the few rows.
_VERY_FEW_ROWS, _FOLDS_OF_VERY_FEW = 40, 10
# The fewest groups of a single one: their halves choose the number of rounds for each other.
_FEWEST_GROUPS = 10
# A candidate is stopped when it is worse by so many standard errors.
_STOPPED = 2.5


class Entry(NamedTuple):
    """The evaluation of one candidate: its held-out predictions, and what they cost."""

    candidate: Any
    scores: np.ndarray  # held-out scores, of shape (n_scored, n_outputs)
    losses: np.ndarray  # mistakes or squared errors, of shape (n_scored,)
    # Log-losses with the best slope and offsets; of regression squared errors again.
    proper_losses: np.ndarray
    rows: np.ndarray  # the numbers of the rows scored
    seconds: float
    status: str  # 'finished', 'stopped ...', or why it was skipped
    # 'rows' seen and 'risk' up to there, of a candidate that predicts before it learns.
    trace: dict | None = None
    fitted: Any = None  # on all rows, if the evaluation made such a fit
    held_out: Any = None  # the fit without the first fold, which serves where time is short
    # Changes of the first rows' scores when columns come from the next row, of shape
    # (n_changes, n_rows, n_outputs).
    permutation_effects: np.ndarray | None = None
    n_learned: int | None = None  # rows, if more of them promised hardly a lower loss
    optimism: float = 0.0  # q / (2 n), for q parameters that a search fitted to the n rows

    @classmethod
    def unscored(cls, candidate, status):
        """Of a candidate without held-out predictions."""
        empty, rows = np.empty(0), np.empty(0, dtype=np.int64)
        return cls(candidate, empty[:, None], empty, empty, rows, 0.0, status)


def n_folds(n):
    """The number of folds of n rows."""
    if n < _VERY_FEW_ROWS:
        return _FOLDS_OF_VERY_FEW
    return _FOLDS if n < FEW_ROWS else max(_FOLDS, -(-n // _MOST_HELD))


def folds_of(strata, groups=None, count=None):
    """Fold number of every row, even within each stratum, and the number of folds.

    Parameters
    ----------
    strata : ndarray of int of shape (n,)
        Class numbers, or zeros; rows in random order.
    groups : ndarray of int of shape (n,), optional
        Numbers of groups, none of which is split. The largest are assigned first, each to the fold
        that has the smallest share of the group's strata.
    count : int, optional
        How many folds, in place of the automatic number.

    Examples
    --------
    >>> folds_of(np.array([0, 0, 0, 0, 0, 1, 1]), count=5)
    (array([0, 1, 2, 3, 4, 0, 1]), 5)
    >>> folds_of(np.zeros(5, int), np.array([0, 0, 1, 2, 2]))
    (array([0, 0, 2, 1, 1]), 3)
    """
    if count is None:
        count = n_folds(len(strata))
    if groups is None:
        fold = np.empty(len(strata), dtype=np.int64)
        for stratum in np.unique(strata):
            members = np.flatnonzero(strata == stratum)
            fold[members] = np.arange(len(members)) % count
        return fold, count
    table = np.zeros((groups.max() + 1, strata.max() + 1))
    np.add.at(table, (groups, strata), 1.0)
    count = min(count, len(table))
    share = table / np.maximum(table.sum(axis=0), 1.0)
    held = np.zeros((count, table.shape[1]))
    fold = np.empty(len(table), dtype=np.int64)
    for group in np.argsort(-table.sum(axis=1), kind="stable"):
        fold[group] = np.argmin(held @ share[group])
        held[fold[group]] += share[group]
    return fold[groups], count


def automatic_folds(strata, groups=None):
    """Training rows and held-out rows of five folds, ten if rows are few, or one if they are many.

    Examples
    --------
    >>> len(automatic_folds(np.zeros(39, int))), len(automatic_folds(np.zeros(40, int)))
    (10, 5)
    """
    fold, count = folds_of(strata, groups)
    is_few = len(strata) < FEW_ROWS
    if groups is not None:
        is_few |= len(np.unique(groups[fold == 0])) < _FEWEST_GROUPS
    most = _FOLDS_OF_VERY_FEW if len(strata) < _VERY_FEW_ROWS else _FOLDS
    used = [f for f in range(min(count, most) if is_few else 1) if (fold == f).any()]
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in used]


def is_cross_validation(folds):
    """Whether every fold is predicted by a model of all other folds' held-out rows.

    In splits by time it is not: later rows are not learned. Nor is it with one fold only.
    """
    everything = np.concatenate([held for _, held in folds])
    learned = [np.isin(everything, np.concatenate(fold)).all() for fold in folds]
    return len(folds) > 1 and all(learned)


def folds_within(rows, folds):
    """The folds all of whose rows are among these, with the places of their rows in `rows`.

    Examples
    --------
    >>> first, second = (np.arange(2), np.array([2])), (np.arange(3), np.array([3]))
    >>> folds_within(np.arange(3), [first, second])
    [(array([0, 1]), array([2]))]
    """
    order = np.argsort(rows)
    within = [fold for fold in folds if np.isin(np.concatenate(fold), rows).all()]
    return [
        tuple(order[np.searchsorted(rows, part, sorter=order)] for part in fold) for fold in within
    ]


def finished(entries):
    """Those with scores of all held-out rows."""
    return [e for e in entries if e.status == "finished" and len(e.losses)]


def lowest(entries, weights):
    """The entry of least held-out loss."""
    return min(entries, key=lambda e: weights[e.rows] @ e.proper_losses)


def loses(entry, others, weights, groups=None):
    """Whether an entry is clearly worse than the best of others that are finished."""
    others = finished(others)
    if not others:
        return False
    best = lowest(others, weights)
    same_rows = np.searchsorted(best.rows, entry.rows)
    gap = entry.proper_losses - best.proper_losses[same_rows]
    groups = None if groups is None else groups[entry.rows]
    mean, error = weighted_mean(gap, weights[entry.rows], groups)
    return mean > _STOPPED * error


def weighted_mean(values, weights, groups=None):
    """Mean and its standard error; rows of one group are not independent of each other.

    Examples
    --------
    >>> mean, se = weighted_mean(np.array([0.0, 1.0]), np.ones(2))
    >>> float(mean), round(float(se), 3)
    (0.5, 0.354)
    """
    total = weights.sum()
    mean = weights @ values / total
    parts = summed_by(groups, weights * (values - mean))
    return mean, np.sqrt(np.square(parts).sum()) / total
