"""A user's scorer on held-out rows: a single candidate replaces the stack if it scores higher."""

import copy
import inspect
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from tunefree.core.format import number
from tunefree.core.warn import warn
from tunefree.held_out.predictions import finished
from tunefree.held_out.stacking import Chosen, with_limit_of_stack


class KnownScores(NamedTuple):
    """Held-out scores in place of a preprocessor and a model: predictions of these rows alone."""

    scores: np.ndarray
    classes_: Any

    def _numbers_for(self, estimator, X):
        """The scores of the rows."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if n != len(self.scores):
            raise ValueError(
                f"the scorer asks for predictions of {n} rows, and there are held-out predictions "
                f"of {len(self.scores)}: ask for those of all rows that it gets."
            )
        return self.scores

    def decision_function(self, X):
        """The scores of all rows."""
        return self.scores

    predict = decision_function


def takes_weights(scorer):
    """Whether a scorer of scikit-learn, or any function of (estimator, X, y), takes weights."""
    function = getattr(scorer, "_score_func", scorer)
    try:
        return "sample_weight" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function of C without a signature
        return True


class ScoredRows(NamedTuple):
    """The held-out rows as a scorer gets them."""

    X: Any  # the user's
    targets: np.ndarray
    places: np.ndarray  # of each among the distinct held-out rows
    weights: dict[str, Any]  # 'sample_weight', for a scorer that takes it

    @classmethod
    def of(cls, scorer, name, X, rows, problem, held):
        """Rows of weights, or for a scorer without weights each as often as the table has it."""
        _, y, weights = problem.part(held)
        classes = getattr(problem.targets, "classes", None)
        targets = y if classes is None else classes[y]
        numbers = problem.numbers[held]
        if takes_weights(scorer):
            places = np.arange(len(held))
            return cls(_safe_indexing(X, numbers), targets, places, {"sample_weight": weights})
        counts = weights / rows.weights[0]
        are_equal = np.ptp(rows.weights) == 0.0
        whole = np.maximum(np.round(counts), 1.0)
        if not are_equal or not np.allclose(counts, whole):
            warn(f"scoring={name} takes no sample_weight: rows of all weights count alike in it.")
            whole = np.ones(len(held))
        places = np.repeat(np.arange(len(held)), whole.astype(np.int64))
        return cls(_safe_indexing(X, numbers[places]), targets[places], places, {})


def choose_by_score(estimator, scorer, chosen, entries, problem, X, rows):
    """The stack, or a candidate of a higher held-out score, and the scores of all candidates.

    The scorer gets copies of the estimator that predict the held-out rows of the user's table X, of
    which `rows` are the `TableRows`.
    """
    scores, classes = {}, getattr(problem.targets, "classes", None)
    _, y, weights = problem.part(chosen.rows)
    scoring = estimator.scoring
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", repr(scoring))
    given = ScoredRows.of(scorer, name, X, rows, problem, chosen.rows)

    def score_of(one):
        known = KnownScores(one.scores()[given.places], classes)
        model = copy.copy(estimator)
        stack = {"models_": [known], "views_": [()], "weights_": np.ones(1)}
        stack |= {"table_": known, "offsets_": np.zeros(known.scores.shape[1])}
        vars(model).update(with_limit_of_stack(problem, one).targets.attributes() | stack)
        try:
            return float(scorer(model, given.X, given.targets, **given.weights))
        except ValueError as error:
            raise ValueError(f"scoring={scoring!r}: {error}") from error

    of_stack = score_of(chosen)
    best, highest = chosen, of_stack
    for entry in finished(entries):
        candidate = entry.candidate.name
        alone = Chosen(problem.score.stack([entry.scores], y, weights), [entry], candidate)
        scores[candidate] = score_of(alone)
        if scores[candidate] > highest:
            best, highest = alone, scores[candidate]
    reason, winner = chosen.reason, "the stack."
    if best is not chosen:  # the report names the model that is used
        reason = f"Chosen: {best.reason!r} 100%."
        winner = f"{best.reason!r}, {number(of_stack)} for the stack of least loss."
    words = f"Best {name} on held-out rows: {number(highest)} for {winner}"
    return best._replace(reason=f"{reason} {words}"), scores
