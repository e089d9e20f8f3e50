"""What an explanation is: what each column adds to the scores of rows, and which pairs interact."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import _check_feature_names_in

from tunefree.base import shapley
from tunefree.rows.matrices import as_dense

# Training rows that a model keeps, at most.
BACKGROUND = 100


class Explanation(NamedTuple):
    """What each column adds to the score of each row, against the mean of background rows.

    For every row ``base_value + values.sum(axis=1)`` is ``score``.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
        Shapley values, in the units of the score.
    base_value : float or ndarray of shape (n_outputs,)
        The mean score of the background rows: at most 100, of sampled values 10 to 100.
    score : ndarray of shape (n_samples,) or (n_samples, n_outputs)
    feature_names : list of str
    std_error : ndarray of the shape of `values`, or None
        An upper estimate of the standard errors of sampled values; None if all values are exact.
    """

    values: np.ndarray
    base_value: Any
    score: np.ndarray
    feature_names: list
    std_error: np.ndarray | None = None


class Interaction(NamedTuple):
    """How strongly two columns interact."""

    columns: tuple[str, str]
    strength: float  # in the units of the score
    std_error: float


class ScoreTerms(NamedTuple):
    """A score as a sum of terms, which can be explained one by one."""

    terms: list  # parts of `tunefree.base.shapley`
    start: np.ndarray  # of shape (n_outputs,)
    background: np.ndarray  # rows of numbers
    groups: np.ndarray  # the user's column of every column of numbers
    names: list  # of the user's columns

    def score(self, rows):
        """The score of rows of numbers, of shape (n, n_outputs)."""
        return self.start + sum(term.score(rows) for term in self.terms)

    def explained(self, rows, flat):
        """The `Explanation` of rows of numbers; `flat`: without the axis of outputs."""
        each = [
            term.values(rows, self.background, self.groups, len(self.names)) for term in self.terms
        ]
        values: Any = sum(e.values for e in each)
        square: Any = sum(e.square for e in each)
        base, score = self.start + sum(e.base for e in each), self.score(rows)
        error = np.sqrt(square) if np.ndim(square) else None
        if flat:
            values, base, score = values[:, :, 0], float(base[0]), score[:, 0]
            error = None if error is None else error[:, :, 0]
        return Explanation(values, base, score, self.names, error)

    def interactions(self, n_pairs):
        """The pairs of columns that interact most, the strongest first."""
        effects = shapley.pair_effects(self.score, self.background, self.groups)
        pairs = sorted(effects.items(), key=lambda pair: -pair[1][0])[:n_pairs]
        names = self.names
        return [Interaction((names[i], names[j]), *effect) for (i, j), effect in pairs]


def as_numbers(rows):
    """Rows as dense numbers in double precision."""
    return np.asarray(as_dense(rows), dtype=np.float64)


def _names(model):
    return [str(name) for name in _check_feature_names_in(model)]
