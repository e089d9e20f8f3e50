"""The race: candidates judged on the same rows that they have not seen, from cheap to dear.

Rows are put into folds in their hash order. With few rows every fold is left out in turn, and a
proper score decides; with many one fold is the hold-out, and the loss itself does. All comparisons
are of the same rows, so that what they share cancels: the standard error is that of the mean
difference. The rule is written down in docs/selection.md.
"""

import re
import time
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import log_softmax, softmax

from tunefree.choose.risk import temperature

# Below this many rows every fold is left out in turn; the most rows of a single hold-out.
_FEW_ROWS, _FOLDS, _MOST_HELD = 2000, 5, 5000
# Fewer rows than this tell nothing about which candidate is better.
_FEWEST_ROWS = 40
# A candidate is stopped when it is worse by so many standard errors; one is a tie.
_LOST, _TIE = 2.5, 1.0
# What decides, and what decides between equals: with many rows, with few.
_LOSSES, _SCORES = ("losses", "second"), ("second", "losses")
# Multiply-adds allowed when no budget is given: about two minutes of one core.
_DEFAULT_WORK = 6e12
# Rows and landmarks of a pilot, which is held where there are three times as many rows.
_PILOT, _FEW_MARKS = 2000, 200
_LEAST = 1e-12  # probability


class Candidate(Protocol):
    """What the race needs of a candidate.

    Attributes
    ----------
    name, family : str
    leads : bool
        Whether it is the one whose view of the columns others take over.
    follows : bool
        Whether it takes over that view, and judges itself on some rows while it learns the others.
    most_rows : int
        The most rows of which it learns all while it is judged.
    pilot_seconds, pilot_risk : float
        What a pilot on few rows took, and its risk there; NaN without one.
    """

    name: str
    family: str
    leads: bool
    follows: bool
    most_rows: int
    pilot_seconds: float
    pilot_risk: float

    def passes(self, shape, **rows) -> float:
        """The price of one fit in passes over the data."""
        ...

    def fit(self, X, y, weights, leader=None, **more) -> Any:
        """Something with `show(X)` and a `model`."""
        ...

    def recall(self, fitted) -> Any:
        """The same for the rows left out only: what the model said of them while it learned."""
        ...

    def small(self, n_landmarks) -> Any:
        """A small one of its kind, for a pilot."""
        ...

    def after_pilot(self, fitted, seconds, risk) -> Any:
        """Itself, going on from what a pilot found."""
        ...


class Entry(NamedTuple):
    """What became of a candidate.

    Attributes
    ----------
    candidate : Candidate
    losses, second : ndarray of shape (n_scored,)
        Losses of the rows scored (mistakes or squared errors), and their proper scores (log-losses
        or, again, squared errors), which break ties and decide where rows are few.
    rows : ndarray of shape (n_scored,)
        Which rows these are.
    seconds : float
    status : str
        'finished', 'stopped', or why it was not run.
    leaders : tuple of estimator
        The kernel on landmarks as fitted for every fold.
    trace : dict or None
        'rows' seen and 'risk' up to there, of a candidate that predicts before it learns.
    fitted : Fitted or None
        On all rows, if judging left that behind.
    power : float
        Of its probabilities, for the proper scores.
    """

    candidate: Any
    losses: np.ndarray
    second: np.ndarray
    rows: np.ndarray
    seconds: float
    status: str
    leaders: tuple = ()
    trace: dict | None = None
    fitted: Any = None
    power: float = 1.0


def folds_of(groups):
    """Fold number of every row, even within each group, and how many folds there are.

    Parameters
    ----------
    groups : ndarray of int of shape (n,)
        Class numbers, or zeros; rows in random order.

    Examples
    --------
    >>> folds_of(np.array([0, 0, 0, 0, 0, 1, 1]))
    (array([0, 1, 2, 3, 4, 0, 1]), 5)
    """
    n = len(groups)
    count = _FOLDS if n < _FEW_ROWS else max(_FOLDS, -(-n // _MOST_HELD))
    fold = np.empty(n, dtype=np.int64)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        fold[members] = np.arange(len(members)) % count
    return fold, count


class Budget:
    """Passes (or seconds) that may be spent, and those that were.

    Parameters
    ----------
    given : None, float or str
        Passes; text such as "30s" is seconds, for which results depend on the machine.
    pass_work : float
        Multiply-adds of one pass.
    """

    def __init__(self, given, pass_work):
        self.seconds = np.inf
        self.passes = _DEFAULT_WORK / max(pass_work, 1.0)
        if isinstance(given, str):
            found = re.fullmatch(r"\s*(\d+\.?\d*)\s*s\s*", given)
            if not found or not float(found[1]) > 0:
                raise ValueError(f"budget={given!r} is neither passes nor seconds such as '30s'.")
            self.seconds = float(found[1])
        elif given is not None:
            if isinstance(given, bool) or not isinstance(given, int | float | np.number):
                raise ValueError(f"budget={given!r} is neither passes nor seconds such as '30s'.")
            if not given > 0:
                raise ValueError(f"budget={given!r} is not positive.")
            self.passes = float(given)
        self.spent, self.start = 0.0, time.perf_counter()

    def allows(self, passes):
        """Whether so many passes more are within the budget."""
        if self.spent + passes > self.passes:
            return False
        elapsed = time.perf_counter() - self.start
        rate = elapsed / self.spent if self.spent else 0.0
        return elapsed + rate * passes <= self.seconds


def difference(one, other, weights, of="losses"):
    """Mean of (one's losses less the other's) on the rows both were scored on, and its error."""
    n = min(len(one.losses), len(other.losses))
    gap = getattr(one, of)[:n] - getattr(other, of)[:n]
    return weighted_mean(gap, weights[one.rows[:n]])


def race(candidates, shape, X, y, weights, groups, score, budget, callbacks):
    """Judge candidates on rows they have not seen.

    Parameters
    ----------
    candidates : list of Candidate
        From cheap to dear.
    shape : Shape
    X, y, weights
        Rows in random order, none twice.
    groups : ndarray of int of shape (n,)
        What is to be spread evenly over the folds.
    score : Mistakes or Squares
    budget : Budget
    callbacks
        Hear of every candidate, and may end the race (`tunefree.estimators.base`).

    Returns
    -------
    list of Entry
    """
    fold, count = folds_of(groups)
    few = shape.n < _FEW_ROWS
    used = range(_FOLDS) if few else range(1)
    entries, comparable = [], shape.n >= _FEWEST_ROWS and _learnable(groups, fold, used)
    callbacks.expect(len(candidates) + 1)
    for candidate in candidates:
        refit = candidate.passes(shape)
        train = shape.rows(max(1, int(shape.n * (1 - 1 / count))))
        price = len(used) * candidate.passes(train) * train.n / shape.n
        if _at_once(candidate, used):
            price, refit = refit, 0.0
        reason = None
        if callbacks.stopped:
            reason = "not tried: a callback ended the race"
        elif not comparable:
            reason = "too few rows to compare" if entries else "finished"
        elif entries and not budget.allows(price + refit):
            reason = f"would take {price + refit:.0f} passes, beyond the budget"
        elif candidate.follows and not few and not _pays(entries, weights):
            reason = "not tried: the kernel on landmarks does not pay"
        elif candidate.follows and not few:
            ahead, candidate = _piloted(candidate, entries, X, y, weights, fold, groups, score)
            if not ahead:
                reason = f"not ahead of the kernel on landmarks on {_PILOT} rows"
        if reason is not None:
            entries.append(_unscored(candidate, reason))
            continue
        callbacks.begin(candidate.name)
        entries.append(_judge(candidate, X, y, weights, fold, used, score, entries))
        callbacks.end()
        budget.spent += price
    return entries


def _at_once(candidate, used):
    """Whether the candidate is not fitted again.

    It learns all rows while it judges itself on the hold-out, or all that it may.
    """
    return candidate.follows and len(used) == 1


def _unscored(candidate, reason):
    nothing, rows = np.empty(0), np.empty(0, dtype=np.int64)
    return Entry(candidate, nothing, nothing, rows, candidate.pilot_seconds, reason)


def _learnable(groups, fold, used):
    """Whether the rows learned from have two groups, or all rows are of one (regression)."""
    if len(np.unique(groups)) == 1:
        return True
    return all(len(np.unique(groups[fold != f])) > 1 for f in used)


def leading_entry(entries):
    """The entry of the kernel on landmarks, if that was judged on all folds."""
    found = [e for e in entries if e.candidate.leads and e.status == "finished" and e.leaders]
    return found[0] if found else None


def _pays(entries, weights):
    """Whether the kernel on landmarks beat the best linear candidate by a standard error."""
    leading = leading_entry(entries)
    others = [e for e in entries if e.candidate.family == "linear" and e.status == "finished"]
    if leading is None or not others:
        return True
    mean, error = difference(leading, best_of(others, weights), weights)
    return mean < -_TIE * error


def _piloted(candidate, entries, X, y, weights, fold, groups, score):
    """Whether a candidate is ahead of the kernel on landmarks after few rows, which both learn.

    They are judged on the hold-out. The candidate goes on from what it found.
    """
    leading = leading_entry(entries)
    if leading is None or len(y) < 3 * _PILOT:
        return True, candidate
    held, few = np.flatnonzero(fold == 0), np.flatnonzero(fold != 0)[:_PILOT]
    if not _learnable(groups[few], fold[few], [0]):
        return True, candidate
    leader, start = leading.leaders[0], time.perf_counter()
    losses, fits = [], []
    for one in (candidate, leading.candidate.small(_FEW_MARKS)):
        fits.append(one.fit(X[few], y[few], weights[few], leader))
        losses.append(score.of(fits[-1], X[held], y[held])[0])
    mean, _ = weighted_mean(losses[0] - losses[1], weights[held])
    early, _ = weighted_mean(losses[0], weights[held])
    spent = time.perf_counter() - start
    return mean < 0.0, candidate.after_pilot(fits[0], spent, early)


def _judge(candidate, X, y, weights, fold, used, score, entries):
    """Score a candidate fold by fold, as long as it can still win."""
    losses, evidence, rows, fits, trace, whole = [], [], [], [], None, None
    leaders = [e for e in entries if e.status == "finished" and len(e.losses)]
    start = time.perf_counter() - candidate.pilot_seconds
    leading, more = leading_entry(entries), {"keep": True} if candidate.leads else {}
    for i, f in enumerate(used):
        held, kept = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
        leader = None if leading is None else leading.leaders[i]
        if _at_once(candidate, used) and len(y) <= candidate.most_rows:
            fitted = whole = candidate.fit(X, y, weights, leader, held=fold == f)
            answers = candidate.recall(whole)
        elif _at_once(candidate, used):
            few = kept[: candidate.most_rows]
            fitted = answers = whole = candidate.fit(X[few], y[few], weights[few], leader)
        else:
            fitted = answers = candidate.fit(X[kept], y[kept], weights[kept], leader, **more)
        fits += [fitted.model] if candidate.leads else []
        trace = trace or _trace(fitted.model)
        one, two = score.of(answers, X[held], y[held])
        losses, evidence, rows = [*losses, one], [*evidence, two], [*rows, held]
        scored = np.concatenate(rows)
        second, power = score.proper(np.concatenate(evidence), y[scored], weights[scored])
        entry = Entry(
            candidate, np.concatenate(losses), second, scored, time.perf_counter() - start,
            "finished", tuple(fits), trace, whole, power,
        )  # fmt: skip
        if leaders and f != used[-1]:
            best = best_of(leaders, weights, _SCORES)
            mean, error = difference(entry, best, weights, "second")
            if mean > _LOST * error:
                return entry._replace(status=f"stopped after {i + 1} of {len(used)} folds")
    return entry


def wants_all_rows(entry, n, weights):
    """Whether a candidate that was judged after its most rows of n rows should learn all of them.

    Its risks after the pilot and after the race are two points of a power law of the rows. It
    should if the risk after n rows lies more than a standard error below that after the race.
    """
    pilot, most = entry.candidate.pilot_risk, entry.candidate.most_rows
    if entry.fitted is None or n <= most or not pilot > 0.0:
        return False
    risk, error = weighted_mean(entry.losses, weights[entry.rows])
    fall = np.log(pilot / max(risk, 1e-300)) / np.log(most / _PILOT)
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


def best_of(entries, weights, by=_LOSSES):
    """The entry of least mean loss, the second loss deciding between equals, then the order."""

    def risk(e):
        w = weights[e.rows]
        return tuple(w @ getattr(e, name) / w.sum() for name in by)

    return min(entries, key=risk)


def choose(entries, weights):
    """The winner, and the sentence that says why.

    The candidate of least risk wins, unless cheaper ones are within one standard error of it: then
    the cheapest of these, if its proper score is not worse by more than two. With few rows the risk
    is the proper score: mistakes are too few there to tell candidates apart. The kernel on
    landmarks is not cheaper than a candidate that has learned all rows already.

    Returns
    -------
    Entry
    str
    """
    scored = [e for e in entries if e.status == "finished" and len(e.losses)]
    if not scored:
        return entries[0], "There were too few rows to compare candidates: the cheapest is taken."
    few = len(weights) < _FEW_ROWS
    by = _SCORES if few else _LOSSES
    best = best_of(scored, weights, by)
    twice = np.array_equal(best.losses, best.second)  # regression
    kind = "log-loss" if few and not twice else "validation risk"
    for entry in scored:
        if entry is best:
            return (
                best,
                f"{best.candidate.name!r} had the least {kind} of those that finished.",
            )
        if best.fitted is not None and entry.candidate.leads:
            continue  # the best is ready, this one would have to be fitted again
        mean, error = difference(entry, best, weights, by[0])
        extra, spread = difference(entry, best, weights, "second")
        if mean <= _TIE * error and extra <= 2.0 * spread:
            if mean == 0.0:
                return entry, f"{entry.candidate.name!r} equals the best and is the cheapest."
            words = (
                f"{best.candidate.name!r} had the least {kind}, but by less than one standard "
                f"error of the difference: the tie goes to {entry.candidate.name!r}, which is "
                "cheaper."
            )
            return entry, words
    return best, ""


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


class Mistakes(NamedTuple):
    """Of classification: mistakes, and log-losses.

    Attributes
    ----------
    n_classes : int
    """

    n_classes: int

    @property
    def task(self):
        """What is learned."""
        return "classification"

    def of(self, fitted, X, y):
        """Mistakes, and what `proper` needs: logarithms of all probabilities."""
        shown, known = fitted.show(X), fitted.model.classes_
        p = np.full((len(y), self.n_classes), _LEAST)
        p[:, known] = np.maximum(fitted.model.predict_proba(shown), _LEAST)
        return (fitted.model.predict(shown) != y).astype(float), np.log(p)

    def proper(self, logs, y, weights):
        """Log-loss of every row, and the power of the probabilities that makes the least of them.

        The power is 1 unless another one is better by more than a standard error. Candidates are
        compared without it: those that need none turn out to err less on new rows.
        """
        right = np.arange(self.n_classes) == y[:, None]
        power = temperature(logs, np.where(right, 1.0, -1.0), weights)
        plain, mended = (-log_softmax(a * logs, axis=1)[right] for a in (1.0, power))
        gain, error = weighted_mean(plain - mended, weights)
        return -logs[right], power if gain > error else 1.0


class Squares(NamedTuple):
    """Of regression: squared errors, in units of the targets' variances if there are several.

    Attributes
    ----------
    spread : ndarray of shape (n_outputs,)
    """

    spread: np.ndarray

    @property
    def task(self):
        """What is learned."""
        return "regression"

    def of(self, fitted, X, y):
        """Squared errors, twice: nothing else breaks ties."""
        predicted = fitted.model.predict(fitted.show(X))
        off = predicted.reshape(len(y), -1) - y.reshape(len(y), -1)
        square = (np.square(off.astype(np.float64)) / self.spread).sum(axis=1)
        return square, square

    def proper(self, squares, y, weights):
        """The squared errors themselves."""
        return squares, 1.0


def raised(p, power):
    """Probabilities to a power, made to sum to 1.

    Examples
    --------
    >>> raised(np.array([[0.2, 0.8]]), 2.0).round(3)
    array([[0.059, 0.941]])
    """
    if power == 1.0:
        return p
    return softmax(power * np.log(np.maximum(p, np.finfo(p.dtype).tiny)), axis=1)
