"""The race: candidates say what they think of rows that they have not learned, and are stacked.

Below 2,000 rows every row is left out in turn, beyond one fold of five is. A candidate that can
leave rows out at no price (kernels and ridge regression, exactly; kernel PiSTOL, which predicts
before it learns) learns all rows at once; another is fitted fold by fold. Kernels with few rows a
column leave rows out exactly, too, but by thirds, which their search does not see. What they said
becomes one model by `tunefree.select.stacking`. The rule is written down in docs/selection.md.
"""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from tunefree._threads import n_threads, side_by_side
from tunefree.select.costs import Cost
from tunefree.select.stacking import Stack, log_losses, stack_classes, stack_targets

# Below this many rows every fold is left out in turn; the most rows of a single hold-out.
FEW_ROWS, _FOLDS, _THREE_FOLDS, _MOST_HELD = 2000, 5, 3, 5000
# Fewer rows than this tell nothing about which candidate is better.
_FEWEST_ROWS = 40
# A candidate is stopped when it is worse by so many standard errors.
_LOST = 2.5
# A pilot's landmarks, and its rows at least and at most.
_FEW_MARKS, _PILOT = 200, (1333, 4000)


class Candidate(Protocol):
    """What the race needs of a candidate.

    Attributes
    ----------
    name, family : str
    leads : bool
        Whether it is the one whose view of the columns others take over.
    follows : bool
        Whether it takes over that view.
    grows : bool
        Whether it goes on from the better of those that lead, with as many landmarks as pay.
    at_once : bool
        Whether it learns all rows while it says what it thinks of those held.
    thirds : bool
        Whether it does so by thirds, whose targets do not choose its rates.
    most_rows : int
        The most rows of which it learns all while it is judged.
    pilot_seconds, pilot_risk : float
        What a pilot on few rows took, and its risk there; NaN without one.
    """

    name: str
    family: str
    provides_view: bool
    reuses_view: bool
    adds_landmarks: bool
    at_once: bool
    three_folds: bool
    most_rows: int
    pilot_seconds: float
    pilot_risk: float

    def cost(self, shape) -> Cost:
        """The price of one fit."""
        ...

    def fit(self, X, y, weights, leader=None, **more) -> Any:
        """Something with `show(X)` and a `model`."""
        ...

    def permutation_effects(self, fitted, X, rows, score) -> Any:
        """How its scores of the first rows change with columns of the next row; None if sparse."""
        ...

    def small(self, n_landmarks) -> Any:
        """A small one of its kind, for a pilot."""
        ...

    def after_pilot(self, fitted, seconds, risk, alone) -> Any:
        """Itself, going on from what a pilot found."""
        ...


class Entry(NamedTuple):
    """What became of a candidate.

    Attributes
    ----------
    candidate : Candidate
    scores : ndarray of shape (n_scored, n_outputs)
        What it said of the rows scored.
    losses, second : ndarray of shape (n_scored,)
        Mistakes or squared errors, and proper scores (log-losses of the best slope and offsets, or,
        again, squared errors).
    rows : ndarray of shape (n_scored,)
        Which rows these are.
    seconds : float
    status : str
        'finished', 'stopped', or why it was not run.
    trace : dict or None
        'rows' seen and 'risk' up to there, of a candidate that predicts before it learns.
    fitted : Fitted or None
        On all rows, if judging left that behind.
    moves : ndarray of shape (n_changes, n_few, n_outputs) or None
        How the scores of the first rows change when columns come from the next row.
    """

    candidate: Any
    scores: np.ndarray
    losses: np.ndarray
    second: np.ndarray
    rows: np.ndarray
    seconds: float
    status: str
    trace: dict | None = None
    fitted: Any = None
    permutation_effects: np.ndarray | None = None


def folds_of(strata, groups=None, count=None):
    """Fold number of every row, even within each stratum, and how many folds there are.

    Parameters
    ----------
    strata : ndarray of int of shape (n,)
        Class numbers, or zeros; rows in random order.
    groups : ndarray of int of shape (n,), optional
        Numbers of groups, none of which is split between folds. The largest are dealt first, each
        to the fold that holds least of what it holds.
    count : int, optional
        How many folds, in place of the race's own number.

    Examples
    --------
    >>> folds_of(np.array([0, 0, 0, 0, 0, 1, 1]))
    (array([0, 1, 2, 3, 4, 0, 1]), 5)
    >>> folds_of(np.zeros(5, int), np.array([0, 0, 1, 2, 2]))
    (array([0, 0, 2, 1, 1]), 3)
    """
    n = len(strata)
    if count is None:
        count = _FOLDS if n < FEW_ROWS else max(_FOLDS, -(-n // _MOST_HELD))
    if groups is not None:
        table = np.zeros((groups.max() + 1, strata.max() + 1))
        np.add.at(table, (groups, strata), 1.0)
        count = min(count, len(table))
        share, held = table / np.maximum(table.sum(axis=0), 1.0), np.zeros((count, table.shape[1]))
        fold = np.empty(len(table), dtype=np.int64)
        for group in np.argsort(-table.sum(axis=1), kind="stable"):
            fold[group] = np.argmin(held @ share[group])
            held[fold[group]] += share[group]
        return fold[groups], count
    fold = np.empty(n, dtype=np.int64)
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        fold[members] = np.arange(len(members)) % count
    return fold, count


def price(candidate, shape, splits=None):
    """The `Cost` of judging a candidate, on `splits` if they are given, and of its last fit."""
    whole = candidate.cost(shape)
    if candidate.at_once:
        return whole
    if splits is not None:
        each = [candidate.cost(shape.rows(len(kept))).seconds for kept, _ in splits]
        return Cost(whole.seconds + sum(each), whole.bytes)
    count = _FOLDS if shape.n < FEW_ROWS else max(_FOLDS, -(-shape.n // _MOST_HELD))
    count = _THREE_FOLDS if candidate.three_folds else count
    train = candidate.cost(shape.rows(max(1, int(shape.n * (1 - 1 / count)))))
    times = count if shape.n < FEW_ROWS else 1
    return Cost(whole.seconds + times * train.seconds, whole.bytes)


def race(candidates, plan, X, y, weights, strata, score, callbacks, groups=None, splits=None):
    """Hear candidates on rows they have not learned.

    Parameters
    ----------
    candidates : list of Candidate
        From cheap to dear, those that follow last.
    plan : Plan
        Says which are left out.
    X, y, weights
        Rows in random order, none twice.
    strata : ndarray of int of shape (n,)
        What is to be spread evenly over the folds.
    score : Classes or Targets
    callbacks
        Hear of every candidate, and may end the race (`tunefree.estimators.base`).
    groups : ndarray of int of shape (n,), optional
        What is left out as a whole.
    splits : list of (ndarray, ndarray) of int, optional
        Rows learned and rows left out, in place of the race's own folds.

    Returns
    -------
    list of Entry
    """
    if splits is None:
        fold, count = folds_of(strata, groups)
        used = range(count) if len(y) < FEW_ROWS else range(1)
        splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in used]
    entries, comparable = [], len(y) >= _FEWEST_ROWS and _learnable(strata, splits)
    is_late = [c.reuses_view or c.adds_landmarks for c in candidates]

    def reason(i, step):
        if callbacks.stopped:
            return "not tried: a callback ended the race"
        if step.reason:
            return step.reason
        if not comparable:
            first = all(before.reason for before in plan.steps[:i])
            return "finished" if first else "too few rows to compare"
        if is_late[i] and not _pays(known, weights):
            return "not tried: the kernels do not pay"
        return None

    def hear(candidate, known):
        if candidate.reuses_view:
            ahead, candidate = _piloted(candidate, known, X, y, weights, splits[0], strata, score)
            if not ahead:
                few = pilot_rows(len(y), candidate.most_rows)
                words = f"not ahead of the kernel on landmarks on {few} rows"
                return _unscored(candidate, words)
        return _judge(candidate, X, y, weights, splits, strata, score, known, groups)

    def begin(numbers):
        """Hear some at once, where cores and memory are there for it."""
        n_jobs = getattr(candidates[numbers[0]].estimator, "n_jobs", 1)
        alone = n_threads(n_jobs) == 1 or plan.bytes is not None
        if alone or any(reason(k, plan.steps[k]) for k in numbers):
            return
        works = [partial(hear, candidates[k], list(known)) for k in numbers]
        for k, work in zip(numbers, side_by_side(works, n_jobs), strict=True):
            waiting[k] = pool.submit(work)

    callbacks.expect(len(candidates) + 1)
    known, waiting = entries, {}
    # Of many rows the kernels on landmarks find the same view of the columns side by side.
    leading = [
        k
        for k, c in enumerate(candidates)
        if c.provides_view and c.at_once and c.family == "kernel"
    ]
    leading = leading if any(c.adds_landmarks for c in candidates) else []
    with ThreadPoolExecutor(2) as pool, unwarned():
        for i, (candidate, step) in enumerate(zip(candidates, plan.steps, strict=True)):
            if i in leading[:1]:
                begin(leading)
            if is_late[i] and known is entries:
                known = list(entries)
                begin(range(i, len(candidates)))  # the last ones ask nothing of each other
            why = reason(i, step)
            if why is not None:
                entries.append(_unscored(candidate, why))
                callbacks.evaluated(entries[-1], weights)
                continue
            callbacks.begin(candidate.name)
            entries.append(waiting[i].result() if i in waiting else hear(candidate, known))
            callbacks.evaluated(entries[-1], weights)
            callbacks.end()
    return entries


@contextmanager
def unwarned():
    """Without warnings of guards: the rows that they count are not those of the user."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*ten times as far from the middle")
        yield


def _unscored(candidate, reason):
    nothing, rows = np.empty(0), np.empty(0, dtype=np.int64)
    return Entry(
        candidate, nothing[:, None], nothing, nothing, rows, candidate.pilot_seconds, reason
    )


def _learnable(strata, splits):
    """Whether the rows learned from have two strata, or all rows are of one (regression)."""
    if len(np.unique(strata)) == 1:
        return True
    return all(len(np.unique(strata[kept])) > 1 for kept, _ in splits)


def view_donor(entries, weights=None):
    """The last model whose view of the columns others take over, if there is one.

    With the rows' weights: the kernel among them that said most of rows left out.
    """
    found = [e for e in entries if e.candidate.provides_view and e.fitted is not None]
    if weights is not None:
        found = [e for e in found if e.candidate.family == "kernel"]
        found.sort(key=lambda e: -weights[e.rows] @ e.second)
    return found[-1].fitted.model if found else None


def finished(entries):
    """Those that said something of every row to be judged on."""
    return [e for e in entries if e.status == "finished" and len(e.losses)]


def searched(entries):
    """Give the most q / (2 n) for q parameters that a search fitted to the n rows left out."""
    return max(getattr(e.fitted and e.fitted.model, "_spent", 0.0) for e in entries)


def _pays(entries, weights):
    """Whether a kernel beat the best linear candidate by a standard error."""
    best = {}
    for e in finished(entries):
        told = best.get(e.candidate.family)
        if told is None or weights[e.rows] @ e.losses < weights[told.rows] @ told.losses:
            best[e.candidate.family] = e
    if len(best) < 2:
        return True
    rows = best["kernel"].rows
    mean, error = weighted_mean(best["kernel"].losses - best["linear"].losses, weights[rows])
    return mean < -error


def pilot_rows(n, most=np.inf):
    """How many rows a pilot learns: a third of those judged, not too few or too many."""
    return int(np.clip(min(n, most) // 3, *_PILOT))


def _piloted(candidate, entries, X, y, weights, split, strata, score):
    """Whether a candidate is ahead of the kernel on landmarks after few rows, which both learn.

    They are judged on the hold-out, the candidate with that kernel's view of the columns and with
    its own. It goes on with the better one, from what it found.
    """
    leading = [e for e in entries if e.candidate.family == "kernel" and e.candidate.provides_view]
    leading = [e for e in leading if e.fitted is not None][-1:]
    if not leading or len(y) < 3 * _PILOT[0]:
        return True, candidate
    leader, small = leading[0].fitted.model, leading[0].candidate.small(_FEW_MARKS)
    few, held = split
    few = few[: pilot_rows(len(y), candidate.most_rows)]
    if not _learnable(strata, [(few, held)]):
        return True, candidate
    start, risks, fits = time.perf_counter(), [], []
    for one, view in ((candidate, leader), (candidate, None), (small, leader)):
        fits.append(one.fit(X[few], y[few], weights[few], view))
        told = score.judge(score.of(fits[-1], X[held]), y[held], weights[held])[0]
        risks.append(weighted_mean(told, weights[held])[0])
    alone, spent = bool(risks[1] < risks[0]), time.perf_counter() - start
    early = min(risks[:2])
    return bool(early < risks[2]), candidate.after_pilot(fits[alone], spent, early, alone)


def _judge(candidate, X, y, weights, splits, strata, score, entries, groups=None):
    """Hear a candidate, fold by fold as long as it can still win, or on all rows at once."""
    start = time.perf_counter() - candidate.pilot_seconds
    leader = view_donor(entries, weights if candidate.adds_landmarks else None)
    held = np.zeros(len(y), dtype=bool)
    held[np.concatenate([out for _, out in splits])] = True
    if candidate.at_once:
        learned = np.arange(len(y))
        if candidate.reuses_view and len(y) > candidate.most_rows:
            learned = np.flatnonzero(~held)[: candidate.most_rows]
        mark = held[learned]
        more = {"held": mark} if mark.any() else {}
        if groups is not None:
            more["groups"] = groups[learned]
        whole = candidate.fit(X[learned], y[learned], weights[learned], leader, **more)
        rows = np.flatnonzero(held)
        scores = score.recalled(whole) if more else score.of(whole, X[rows])
        permutation_effects = vars(whole.model).pop("held_out_effects_", None)
        if permutation_effects is None:
            permutation_effects = candidate.permutation_effects(whole, X, rows, score)
        entry = _entry(candidate, scores, rows, y, weights, score, start, whole)
        complete = (
            permutation_effects is not None and permutation_effects.shape[2] == scores.shape[1]
        )
        return entry._replace(permutation_effects=permutation_effects if complete else None)
    scores, rows, trace, entry = [], [], None, None
    if candidate.three_folds:
        fold, count = folds_of(strata, groups, _THREE_FOLDS)
        splits = [(np.arange(len(y)), np.flatnonzero(fold == f)) for f in range(count)]
    for i, (kept, out) in enumerate(splits):
        if candidate.three_folds:
            more = {} if groups is None else {"groups": groups}
            mark = np.isin(kept, out)
            fitted = candidate.fit(X, y, weights, leader, held=mark, column_groups=None, **more)
            told = score.recalled(fitted)
        else:
            fitted = candidate.fit(X[kept], y[kept], weights[kept], leader)
            told = score.of(fitted, X[out])
        trace = trace or _trace(fitted.model)
        scores, rows = [*scores, told], [*rows, out]
        order = np.concatenate(rows)
        at = np.argsort(order)
        told = np.concatenate(scores)[at]
        entry = _entry(candidate, told, order[at], y, weights, score, start)._replace(trace=trace)
        others = finished(entries)
        if others and i < len(splits) - 1:
            best = min(others, key=lambda e: weights[e.rows] @ e.second)
            here = np.searchsorted(best.rows, entry.rows)
            mean, error = weighted_mean(entry.second - best.second[here], weights[entry.rows])
            if mean > _LOST * error:
                return entry._replace(status=f"stopped after {i + 1} of {len(splits)} folds")
    return entry


def _entry(candidate, scores, rows, y, weights, score, start, whole=None):
    losses, second = score.judge(scores, y[rows], weights[rows])
    trace = None if whole is None else _trace(whole.model)
    seconds = time.perf_counter() - start
    return Entry(candidate, scores, losses, second, rows, seconds, "finished", trace, whole)


def stack(entries, y, weights, score):
    """What the finished entries make together, the entries in it, and the sentence that says so.

    Returns
    -------
    Stack or None
        None if there were too few rows to compare.
    list of Entry
        The largest share first; without a stack the cheapest alone.
    str
    """
    evaluated = finished(entries)
    if not evaluated:
        first = [e for e in entries if e.status == "finished"] or entries
        return None, first[:1], "There were too few rows to compare: the cheapest is taken."
    rows = evaluated[0].rows
    joined = score.stack([e.scores for e in evaluated], y[rows], weights[rows], searched(evaluated))
    order = [i for i in np.argsort(-joined.shares, kind="stable") if joined.shares[i] > 0.0]
    order = order or [int(np.argmin([weights[rows] @ e.second for e in evaluated]))]
    parts = ", ".join(f"{evaluated[i].candidate.name!r} {joined.shares[i]:.0%}" for i in order)
    best = min(evaluated, key=lambda e: weights[rows] @ e.second)
    alone, column_groups = (
        weighted_mean(v, weights[rows])[0] for v in (best.second, joined.losses)
    )
    words = f"{parts}: left-out {score.kind} {column_groups:.4g}"
    if len(order) > 1:
        words += f", {alone:.4g} of {best.candidate.name!r} alone"
    chosen = np.array(order)
    joined = Stack(joined.weights[chosen], joined.offsets, joined.shares[chosen], joined.losses)
    return joined, [evaluated[i] for i in order], words + "."


def importances(joined, entries, y, weights, score):
    """How much more the stack loses on rows left out for every change of columns, or None.

    The changes are those of `Entry.moves`: permutation importances of a cyclic permutation, without
    another fit, as far as every model in the stack knows them.
    """
    if joined is None or any(e.permutation_effects is None for e in entries):
        return None
    few = min(e.permutation_effects.shape[1] for e in entries)
    rows = entries[0].rows[:few]

    def losses(scores):
        return weighted_mean(score.losses(joined.join(scores), y[rows]), weights[rows])[0]

    told = [e.scores[:few] for e in entries]
    before = losses(told)
    each = zip(*(e.permutation_effects[:, :few] for e in entries), strict=True)
    return (
        np.array([losses([F + m for F, m in zip(told, moved, strict=True)]) for moved in each])
        - before
    )


def wants_all_rows(entry, n, weights):
    """Whether a candidate that was judged after its most rows of n rows should learn all of them.

    Its risks after the pilot and after the race are two points of a power law of the rows. It
    should if the risk after n rows lies more than a standard error below that after the race.
    """
    pilot, most = entry.candidate.pilot_risk, entry.candidate.most_rows
    if entry.fitted is None or n <= most or not pilot > 0.0:
        return False
    risk, error = weighted_mean(entry.losses, weights[entry.rows])
    fall = np.log(pilot / max(risk, 1e-300)) / np.log(most / pilot_rows(n, most))
    return bool(risk * (1.0 - (n / most) ** -max(fall, 0.0)) > error)


def _trace(model):
    """Rows seen and progressive risk of the member that ended best, if the model kept them."""
    trace = getattr(model, "trace_", {})
    if "rows" not in trace or "progressive_error" not in trace:
        return None
    curves = [np.asarray(c) for c in dict(trace["progressive_error"]).values() if len(c)]
    curves = [c for c in curves if len(c) == len(trace["rows"]) and np.isfinite(c[-1])]
    if not curves:
        return None
    return {"rows": np.asarray(trace["rows"]), "risk": min(curves, key=lambda c: c[-1])}


def weighted_mean(values, weights):
    """Mean and its standard error.

    Examples
    --------
    >>> mean, se = weighted_mean(np.array([0.0, 1.0]), np.ones(2))
    >>> float(mean), round(float(se), 3)
    (0.5, 0.354)
    """
    total = weights.sum()
    mean = weights @ values / total
    return mean, np.sqrt(np.square(weights * (values - mean)).sum()) / total


class Classes(NamedTuple):
    """Of classification: log-odds, judged by mistakes and log-losses.

    Attributes
    ----------
    n_classes : int
    """

    n_classes: int
    task = "classification"
    kind = "log-loss"

    def of(self, fitted, X):
        """Log-odds of the second class or of all; the least for a class that is not known."""
        scores = fitted.model.decision_function(fitted.show(X))
        return self._of_all(scores, fitted.model.classes_)

    def recalled(self, fitted):
        """What a model said of rows left out while it learned the others; it forgets it."""
        return self._of_all(vars(fitted.model).pop("held_out_values_"), fitted.model.classes_)

    def _of_all(self, scores, known):
        scores = scores.reshape(len(scores), -1).astype(np.float64)
        if self.n_classes == 2 or len(known) == self.n_classes:
            return scores
        if scores.shape[1] == 1:
            scores = np.hstack([-scores, scores])
        out = np.repeat(scores.min(axis=1, keepdims=True), self.n_classes, axis=1)
        out[:, known] = scores
        return out

    def judge(self, scores, y, weights):
        """Mistakes, and log-losses with the best slope and offsets, of every row."""
        joined = stack_classes([scores], y, weights)
        told = joined.join([scores])
        chosen = told[:, 0] > 0.0 if told.shape[1] == 1 else told.argmax(axis=1)
        return (chosen != y).astype(float), joined.losses

    def losses(self, scores, y):
        """Log-losses."""
        return log_losses(scores, y)

    def stack(self, scores, y, weights, spent=0.0):
        """The stack of least log-loss."""
        return stack_classes(scores, y, weights, whole=False, spent=spent)


class Targets(NamedTuple):
    """Of regression: predictions, judged by squares, in units of the variances of several targets.

    Attributes
    ----------
    spread : ndarray of shape (n_outputs,)
    """

    spread: np.ndarray
    task = "regression"
    kind = "squared error"

    def of(self, fitted, X):
        """Predictions of shape (n, n_outputs)."""
        told = fitted.model.predict(fitted.show(X))
        return np.asarray(told, dtype=np.float64).reshape(len(told), -1)

    def recalled(self, fitted):
        """What a model said of rows left out while it learned the others; it forgets it."""
        told = vars(fitted.model).pop("held_out_values_")
        return np.asarray(told, dtype=np.float64).reshape(len(told), -1)

    def losses(self, predicted, y):
        """Squared errors."""
        return (np.square(predicted - y.reshape(len(y), -1)) / self.spread).sum(axis=1)

    def judge(self, predicted, y, weights):
        """Squared errors, twice."""
        square = self.losses(predicted, y)
        return square, square

    def stack(self, scores, y, weights, spent=0.0):
        """The stack of least squared error."""
        return stack_targets(scores, y.reshape(len(y), -1), weights, self.spread, spent)
