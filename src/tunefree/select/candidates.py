"""Evaluation of candidates on held-out rows, and the stack of them.

Below 2,000 rows there are five folds, beyond a single one of five is held out. Some candidates
need one fit for their held-out predictions: kernels and ridge regression (exact leave-one-out),
and kernel PiSTOL (which predicts before it learns). Others are fitted fold by fold. Kernels with
few rows a column use leave-one-out, too, but by 3 folds, whose targets their search does not use.
`tunefree.select.stacking` combines the predictions. The rule is described in docs/selection.md.
"""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from tunefree._array import as_columns
from tunefree._threads import n_threads, side_by_side
from tunefree.select.costs import Cost
from tunefree.select.stacking import Stack, log_losses, stack_classes, stack_targets

# Below this many rows all folds are evaluated, else one. A single one has at most so many rows.
FEW_ROWS, _FOLDS, _THREE_FOLDS, _MOST_HELD = 2000, 5, 3, 5000
# With fewer rows than this candidates cannot be compared.
_FEWEST_ROWS = 40
# A candidate is stopped when it is worse by so many standard errors.
_STOPPED = 2.5
# A pilot's landmarks, and its rows at least and at most.
_PILOT_LANDMARKS, _PILOT_ROWS = 200, (1333, 4000)


class Candidate(Protocol):
    """What the evaluation needs of a candidate."""

    name: str
    kind: str
    provides_view: bool  # whether others reuse its view of the columns
    reuses_view: bool  # whether it reuses the view of another
    # Whether it continues from the best kernel that provides a view, with more landmarks.
    adds_landmarks: bool
    one_fit: bool  # whether one fit to all rows gives its held-out predictions, too
    three_folds: bool  # whether that takes 3 fits, so that held-out targets choose no rates
    most_rows: int  # the most rows that it learns in its evaluation
    pilot_seconds: float  # what its pilot on few rows took
    pilot_risk: float  # the risk after the pilot; NaN without one

    def cost(self, shape) -> Cost:
        """The cost of one fit."""
        ...

    def fit(self, X, y, weights, donor=None, **more) -> Any:
        """A fitted candidate with `show(X)` and a `model`; `donor` is the model with the view."""
        ...

    def permutation_effects(self, fitted, X, rows, score) -> Any:
        """Changes of the first rows' scores when columns come from the next row, or None."""
        ...

    def with_landmarks(self, n_landmarks) -> Any:
        """The candidate with so many landmarks."""
        ...

    def after_pilot(self, fitted, seconds, risk, own_view) -> Any:
        """The candidate with the results of its pilot."""
        ...


class Entry(NamedTuple):
    """The evaluation of one candidate."""

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
    # Changes of the first rows' scores when columns come from the next row, of shape
    # (n_changes, n_rows, n_outputs).
    permutation_effects: np.ndarray | None = None


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


def total_cost(candidate, shape, splits=None):
    """The `Cost` of evaluating a candidate, on `splits` if they are given, and of its last fit."""
    whole = candidate.cost(shape)
    if candidate.one_fit:
        return whole
    if splits is not None:
        each = [candidate.cost(shape.rows(len(train))).seconds for train, _ in splits]
        return Cost(whole.seconds + sum(each), whole.bytes)
    count = _FOLDS if shape.n < FEW_ROWS else max(_FOLDS, -(-shape.n // _MOST_HELD))
    count = _THREE_FOLDS if candidate.three_folds else count
    train = candidate.cost(shape.rows(max(1, int(shape.n * (1 - 1 / count)))))
    times = count if shape.n < FEW_ROWS else 1
    return Cost(whole.seconds + times * train.seconds, whole.bytes)


def evaluate_candidates(
    candidates, plan, X, y, weights, strata, score, callbacks, groups=None, splits=None
):
    """Evaluate candidates on held-out rows.

    Parameters
    ----------
    candidates : list of Candidate
        From cheap to expensive; those that reuse a view or add landmarks come last.
    plan : Plan
        Which candidates are limited or skipped.
    X, y, weights
        Rows in random order, none twice.
    strata : ndarray of int of shape (n,)
        Class numbers, or zeros, which are spread evenly over the folds.
    score : Classes or Targets
    callbacks
        Called for every candidate; they may stop the evaluation (`tunefree.estimators.base`).
    groups : ndarray of int of shape (n,), optional
        Numbers of groups, which are held out as a whole.
    splits : list of (ndarray, ndarray) of int, optional
        Training rows and held-out rows, in place of the automatic folds.

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

    def skip_reason(i, step):
        """The status of a candidate that is not evaluated; None if it is."""
        if callbacks.stopped:
            return "skipped: a callback stopped the fit"
        if step.reason:
            return f"skipped: {step.reason}"
        if not comparable:
            first = all(before.reason for before in plan.steps[:i])
            return "finished" if first else "too few rows to compare"
        if is_late[i] and not _kernels_pay(earlier, weights):
            return "skipped: kernels did not beat linear models"
        return None

    def evaluate(candidate, earlier):
        if candidate.reuses_view:
            ahead, candidate = _pilot(candidate, earlier, X, y, weights, splits[0], strata, score)
            if not ahead:
                rows = pilot_rows(len(y), candidate.most_rows)
                reason = f"skipped: no better than the kernel on landmarks after {rows} rows"
                return _unscored(candidate, reason)
        return _evaluate(candidate, X, y, weights, splits, strata, score, earlier, groups)

    def start(numbers):
        """Start evaluating several in parallel, if there are cores and memory for it."""
        n_jobs = getattr(candidates[numbers[0]].estimator, "n_jobs", 1)
        sequential = n_threads(n_jobs) == 1 or plan.bytes is not None
        if sequential or any(skip_reason(k, plan.steps[k]) for k in numbers):
            return
        tasks = [partial(evaluate, candidates[k], list(earlier)) for k in numbers]
        for k, task in zip(numbers, side_by_side(tasks, n_jobs), strict=True):
            running[k] = pool.submit(task)

    callbacks.expect(2 * len(candidates))  # a refit on all rows is a task of its own
    earlier, running = entries, {}
    # With many rows the kernels on landmarks are evaluated in parallel.
    kernels = [k for k, c in enumerate(candidates) if _is_parallel_kernel(c)]
    kernels = kernels if any(c.adds_landmarks for c in candidates) else []
    with ThreadPoolExecutor(2) as pool, ignore_outlier_warnings():
        for i, (candidate, step) in enumerate(zip(candidates, plan.steps, strict=True)):
            if i in kernels[:1]:
                start(kernels)
            if is_late[i] and earlier is entries:
                earlier = list(entries)
                start(range(i, len(candidates)))  # the last candidates do not need each other
            reason = skip_reason(i, step)
            if reason is not None:
                entries.append(_unscored(candidate, reason))
                callbacks.evaluated(entries[-1], weights)
                continue
            callbacks.begin(candidate.name)
            entries.append(running[i].result() if i in running else evaluate(candidate, earlier))
            callbacks.evaluated(entries[-1], weights)
            callbacks.end()
    return entries


@contextmanager
def ignore_outlier_warnings():
    """Ignore warnings of outliers: their counts are not of the user's rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*ten times as far from the middle")
        yield


def _is_parallel_kernel(candidate):
    return candidate.provides_view and candidate.one_fit and candidate.kind == "kernel"


def _unscored(candidate, reason):
    empty, rows = np.empty(0), np.empty(0, dtype=np.int64)
    return Entry(candidate, empty[:, None], empty, empty, rows, candidate.pilot_seconds, reason)


def _learnable(strata, splits):
    """Whether the training rows have two strata, or all rows have one (regression)."""
    if len(np.unique(strata)) == 1:
        return True
    return all(len(np.unique(strata[train])) > 1 for train, _ in splits)


def view_donor(entries, weights=None):
    """The last model whose view of the columns others reuse, or None.

    With the rows' weights: the kernel of least held-out loss among these models.
    """
    donors = [e for e in entries if e.candidate.provides_view and e.fitted is not None]
    if weights is not None:
        donors = [e for e in donors if e.candidate.kind == "kernel"]
        donors.sort(key=lambda e: -weights[e.rows] @ e.proper_losses)
    return donors[-1].fitted.model if donors else None


def finished(entries):
    """Those with scores of all held-out rows."""
    return [e for e in entries if e.status == "finished" and len(e.losses)]


def search_optimism(entries):
    """The largest q / (2 n), for q parameters that a search fitted to the n held-out rows."""
    return max(getattr(e.fitted and e.fitted.model, "_search_optimism", 0.0) for e in entries)


def _kernels_pay(entries, weights):
    """Whether a kernel beat the best linear candidate by a standard error."""
    best = {}
    for e in finished(entries):
        other = best.get(e.candidate.kind)
        if other is None or weights[e.rows] @ e.losses < weights[other.rows] @ other.losses:
            best[e.candidate.kind] = e
    if len(best) < 2:
        return True
    rows = best["kernel"].rows
    mean, error = weighted_mean(best["kernel"].losses - best["linear"].losses, weights[rows])
    return mean < -error


def pilot_rows(n, most=np.inf):
    """How many rows a pilot learns: a third of those of the evaluation, within limits."""
    return int(np.clip(min(n, most) // 3, *_PILOT_ROWS))


def _pilot(candidate, entries, X, y, weights, split, strata, score):
    """Whether a candidate beats the kernel on landmarks when both learn few rows.

    The candidate learns with the kernel's view of the columns and with its own. All are evaluated
    on the held-out rows. The candidate continues with the better view and the pilot's bandwidths.
    """
    kernels = [e for e in entries if e.candidate.kind == "kernel" and e.candidate.provides_view]
    kernels = [e for e in kernels if e.fitted is not None][-1:]
    if not kernels or len(y) < 3 * _PILOT_ROWS[0]:
        return True, candidate
    kernel = kernels[0]
    donor, small = kernel.fitted.model, kernel.candidate.with_landmarks(_PILOT_LANDMARKS)
    train, held = split
    train = train[: pilot_rows(len(y), candidate.most_rows)]
    if not _learnable(strata, [(train, held)]):
        return True, candidate
    start, risks, fits = time.perf_counter(), [], []
    for one, view in ((candidate, donor), (candidate, None), (small, donor)):
        fits.append(one.fit(X[train], y[train], weights[train], view))
        scores = score.scores_of(fits[-1], X[held])
        losses = score.evaluate(scores, y[held], weights[held])[0]
        risks.append(weighted_mean(losses, weights[held])[0])
    own_view, seconds = bool(risks[1] < risks[0]), time.perf_counter() - start
    risk = min(risks[:2])
    candidate = candidate.after_pilot(fits[own_view], seconds, risk, own_view)
    return bool(risk < risks[2]), candidate


def _evaluate(candidate, X, y, weights, splits, strata, score, entries, groups=None):
    """Evaluate a candidate by one fit of all rows, or by folds as long as it can still win."""
    start = time.perf_counter() - candidate.pilot_seconds
    donor = view_donor(entries, weights if candidate.adds_landmarks else None)
    held = np.zeros(len(y), dtype=bool)
    held[np.concatenate([out for _, out in splits])] = True
    if candidate.one_fit:
        learned = np.arange(len(y))
        if candidate.reuses_view and len(y) > candidate.most_rows:
            learned = np.flatnonzero(~held)[: candidate.most_rows]
        held_learned = held[learned]
        more = {"held": held_learned} if held_learned.any() else {}
        if groups is not None:
            more["groups"] = groups[learned]
        whole = candidate.fit(X[learned], y[learned], weights[learned], donor, **more)
        rows = np.flatnonzero(held)
        scores = score.pop_held_out(whole) if more else score.scores_of(whole, X[rows])
        effects = vars(whole.model).pop("held_out_effects_", None)
        if effects is None:
            effects = candidate.permutation_effects(whole, X, rows, score)
        entry = _entry(candidate, scores, rows, y, weights, score, start, whole)
        complete = effects is not None and effects.shape[2] == scores.shape[1]
        return entry._replace(permutation_effects=effects if complete else None)
    parts, rows, trace, entry = [], [], None, None
    if candidate.three_folds:
        fold, count = folds_of(strata, groups, _THREE_FOLDS)
        splits = [(np.arange(len(y)), np.flatnonzero(fold == f)) for f in range(count)]
    for i, (train, out) in enumerate(splits):
        if candidate.three_folds:
            more = {} if groups is None else {"groups": groups}
            in_fold = np.isin(train, out)
            fitted = candidate.fit(X, y, weights, donor, held=in_fold, column_groups=None, **more)
            scores = score.pop_held_out(fitted)
        else:
            fitted = candidate.fit(X[train], y[train], weights[train], donor)
            scores = score.scores_of(fitted, X[out])
        trace = trace or _trace(fitted.model)
        parts, rows = [*parts, scores], [*rows, out]
        order = np.concatenate(rows)
        at = np.argsort(order)
        scores = np.concatenate(parts)[at]
        entry = _entry(candidate, scores, order[at], y, weights, score, start)
        entry = entry._replace(trace=trace)
        others = finished(entries)
        if others and i < len(splits) - 1:
            best = min(others, key=lambda e: weights[e.rows] @ e.proper_losses)
            same_rows = np.searchsorted(best.rows, entry.rows)
            gap = entry.proper_losses - best.proper_losses[same_rows]
            mean, error = weighted_mean(gap, weights[entry.rows])
            if mean > _STOPPED * error:
                return entry._replace(status=f"stopped after {i + 1} of {len(splits)} folds")
    return entry


def _entry(candidate, scores, rows, y, weights, score, start, whole=None):
    losses, proper = score.evaluate(scores, y[rows], weights[rows])
    trace = None if whole is None else _trace(whole.model)
    seconds = time.perf_counter() - start
    return Entry(candidate, scores, losses, proper, rows, seconds, "finished", trace, whole)


def stack(entries, y, weights, score):
    """The stack of the finished entries, the entries in it, and a sentence for the report.

    Returns
    -------
    Stack or None
        None if there were too few rows to compare.
    list of Entry
        The largest share first; without a stack the cheapest entry.
    str
    """
    evaluated = finished(entries)
    if not evaluated:
        first = [e for e in entries if e.status == "finished"] or entries
        return None, first[:1], "There are too few rows to compare: the cheapest candidate is used."
    rows = evaluated[0].rows
    joined = score.stack(
        [e.scores for e in evaluated], y[rows], weights[rows], search_optimism(evaluated)
    )
    order = [i for i in np.argsort(-joined.shares, kind="stable") if joined.shares[i] > 0.0]
    order = order or [int(np.argmin([weights[rows] @ e.proper_losses for e in evaluated]))]
    shares = ", ".join(f"{evaluated[i].candidate.name!r} {joined.shares[i]:.0%}" for i in order)
    best = min(evaluated, key=lambda e: weights[rows] @ e.proper_losses)
    best_risk, risk = (
        weighted_mean(v, weights[rows])[0] for v in (best.proper_losses, joined.losses)
    )
    sentence = f"Chosen: {shares}. Held-out {score.kind}: {risk:.4g}"
    if len(order) > 1:
        sentence += f", {best_risk:.4g} for {best.candidate.name!r} alone"
    chosen = np.array(order)
    joined = Stack(joined.weights[chosen], joined.offsets, joined.shares[chosen], joined.losses)
    return joined, [evaluated[i] for i in order], sentence + "."


def importances(joined, entries, y, weights, score):
    """How much the stack's held-out loss grows with every change of columns, or None.

    The changes are those of `Entry.permutation_effects`: permutation importances of a cyclic
    permutation, without another fit. None if a model of the stack does not have them.
    """
    if joined is None or any(e.permutation_effects is None for e in entries):
        return None
    n = min(e.permutation_effects.shape[1] for e in entries)
    rows = entries[0].rows[:n]

    def risk(scores):
        return weighted_mean(score.losses(joined.join(scores), y[rows]), weights[rows])[0]

    scores = [e.scores[:n] for e in entries]
    before = risk(scores)
    effects = zip(*(e.permutation_effects[:, :n] for e in entries), strict=True)
    after = [risk([F + m for F, m in zip(scores, each, strict=True)]) for each in effects]
    return np.array(after) - before


def should_learn_all_rows(entry, n, weights):
    """Whether a candidate that was evaluated after learning `most_rows` of n rows should learn all.

    Its risks after the pilot and after the evaluation are two points of a power law of the rows.
    It should if the expected risk after n rows is lower by more than a standard error.
    """
    pilot, most = entry.candidate.pilot_risk, entry.candidate.most_rows
    if entry.fitted is None or n <= most or not pilot > 0.0:
        return False
    risk, error = weighted_mean(entry.losses, weights[entry.rows])
    exponent = np.log(pilot / max(risk, 1e-300)) / np.log(most / pilot_rows(n, most))
    return bool(risk * (1.0 - (n / most) ** -max(exponent, 0.0)) > error)


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
    """Scores of classification: log-odds, with mistakes and log-losses."""

    n_classes: int
    task = "classification"
    kind = "log-loss"

    def scores_of(self, fitted, X):
        """Log-odds of the second class or of all; the row's minimum for an unknown class."""
        scores = fitted.model.decision_function(fitted.show(X))
        return self._of_all(scores, fitted.model.classes_)

    def pop_held_out(self, fitted):
        """The held-out scores of a model, which are removed from it."""
        return self._of_all(vars(fitted.model).pop("held_out_values_"), fitted.model.classes_)

    def _of_all(self, scores, model_classes):
        scores = scores.reshape(len(scores), -1).astype(np.float64)
        if self.n_classes == 2 or len(model_classes) == self.n_classes:
            return scores
        if scores.shape[1] == 1:
            scores = np.hstack([-scores, scores])
        out = np.repeat(scores.min(axis=1, keepdims=True), self.n_classes, axis=1)
        out[:, model_classes] = scores
        return out

    def evaluate(self, scores, y, weights):
        """Mistakes, and log-losses with the best slope and offsets, of every row."""
        joined = stack_classes([scores], y, weights)
        log_odds = joined.join([scores])
        chosen = log_odds[:, 0] > 0.0 if log_odds.shape[1] == 1 else log_odds.argmax(axis=1)
        return (chosen != y).astype(float), joined.losses

    def losses(self, scores, y):
        """Log-losses."""
        return log_losses(scores, y)

    def stack(self, scores, y, weights, optimism=0.0):
        """The stack of least log-loss."""
        return stack_classes(scores, y, weights, whole=False, optimism=optimism)


class Targets(NamedTuple):
    """Scores of regression: predictions, with squared errors."""

    spread: np.ndarray  # units of the squared errors of several targets, of shape (n_outputs,)
    task = "regression"
    kind = "squared error"

    def scores_of(self, fitted, X):
        """Predictions of shape (n, n_outputs)."""
        return as_columns(fitted.model.predict(fitted.show(X)))

    def pop_held_out(self, fitted):
        """The held-out predictions of a model, which are removed from it."""
        return as_columns(vars(fitted.model).pop("held_out_values_"))

    def losses(self, predicted, y):
        """Squared errors."""
        return (np.square(predicted - as_columns(y)) / self.spread).sum(axis=1)

    def evaluate(self, predicted, y, weights):
        """Squared errors, twice."""
        square = self.losses(predicted, y)
        return square, square

    def stack(self, scores, y, weights, optimism=0.0):
        """The stack of least squared error."""
        return stack_targets(scores, as_columns(y), weights, self.spread, optimism)
