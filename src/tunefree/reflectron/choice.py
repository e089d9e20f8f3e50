"""The family, the link and the geometry of a generalized linear model, chosen in rounds.

First several geometries compete, with the family's own link. Their indices (linear predictors) of
held-out rows determine unknown parameters of the family (a power, a scale), or a link; then the
coefficients are learned on from their present values. Each member learns from the same rows
throughout, so that held-out rows remain held out.

With many rows the geometries compete on some of them. The curvature there gives a metric in which
all rows need few passes.

Source: Kakade, Kalai, Kanade and Shamir 2011 (Isotron and SLISOTRON: a monotone regression on the
index alternates with the step); the rest is this library's.
"""

from collections.abc import Callable
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np

from tunefree.held_out.predictions import weighted_mean
from tunefree.parts.families import Family
from tunefree.parts.links import Learned
from tunefree.reflectron.mirror import Configuration
from tunefree.reflectron.potentials import Whitened

# Further candidates of potential='auto', up to so many columns; the only ones from so many rows a
# column on.
NATURAL = tuple(Whitened(a) for a in (1.0, 1e-1, 1e-2, 1e-4))
MOST_COLUMNS, _MANY = 500, 100
# Geometries compete on at most so many rows, or so many a column, of data with so many entries.
_PILOT, _PILOT_A_COLUMN, _LARGE = 20_000, 40, 4_000_000
# Patience and factor of the tolerance on these rows, which only give a start; then patience and
# factor of the step with all rows, as a step computed from some rows may be too long.
_FIRST_PATIENCE, _COARSE, _LAST_PATIENCE, _SAFETY = 15, 10, 5, 0.5
# Rounds for a family's parameters, and for a link; least relative gain for another round of a link.
_ROUNDS, _MOST_ROUNDS, _WORTH = 2, 4, 1e-3
_MOST_PASSES = 150  # of a round
# A link is fitted to at most so many means of rows, each of at least so many rows.
_POINTS, _FEWEST_POINTS, _ROWS_A_POINT = 2000, 20, 5
# Its knots, rows for each, and the number of links tried: the first fit and its corrections.
_KNOTS, _ROWS_A_KNOT, _LINKS = (2, 3, 4, 6, 9, 14, 20), 10, 5


def _increasing(values, weights):
    """Values made increasing: where they fall they are pooled with their neighbours."""
    if (np.diff(values) >= 0.0).all():
        return values
    from sklearn.isotonic import isotonic_regression

    return isotonic_regression(values, sample_weight=weights)


def binned(s, y, weights):
    """Sorted indices, targets and weights: means of neighbours, unless there are few rows."""
    s, y, w = np.broadcast_arrays(s, y, weights)
    order = np.argsort(s, axis=None, kind="stable")
    s, y, w = (a.reshape(-1)[order] for a in (s, y, w))
    points = min(_POINTS, len(s) // _ROWS_A_POINT)
    if points < _FEWEST_POINTS:
        return s, y, w
    starts = np.linspace(0, len(s), points, endpoint=False).astype(int)
    total = np.add.reduceat(w, starts)
    used = total > 0.0
    return *(np.add.reduceat(w * a, starts)[used] / total[used] for a in (s, y)), total[used]


def _intervals(y, w, n_knots, by_rise):
    """The interval of every point, of so many of equal weight, or of equal weight and rise."""
    share = (np.cumsum(w) - 0.5 * w) / w.sum()
    if by_rise:
        from sklearn.isotonic import isotonic_regression

        fitted = isotonic_regression(y, sample_weight=w)
        rise = fitted[-1] - fitted[0]
        if rise > 0.0:
            share = 0.5 * (share + (fitted - fitted[0]) / rise)
    return np.minimum((n_knots * share).astype(int), n_knots - 1)


def monotone(base, family, points, n_knots, by_rise=False):
    """Yield increasing links of so many knots, or fewer, from points of an index and a mean.

    `points` are indices s, means y and weights, sorted by the index (`binned`). One knot is the
    link of the base. Otherwise the points are cut into intervals of equal weight, and monotone
    regression (pool adjacent violators) of their mean targets gives the knots. `by_rise` counts the
    rise of the points' monotone regression as much as their weight: knots are close where targets
    jump. Every further link corrects the one before: values at the knots change by the error of its
    mean over each interval (the link of a mean is not the mean of the link). Corrections can
    diverge, so their number is to be chosen on held-out rows. Nothing is yielded where fewer than
    two knots remain.
    """
    s, y, w = points
    if n_knots == 1:
        yield Learned.through(base, *[(s[0], s[-1] + 1.0)] * 2)
        return
    interval = _intervals(y, w, n_knots, by_rise)
    total = np.bincount(interval, w, n_knots)
    used = total > 0.0
    mean = np.bincount(interval, w * y, n_knots)[used] / total[used]
    mean = _increasing(mean, total[used])
    low, high = family.range
    # An interval whose mean is an end of the range, which no index has, joins its neighbour.
    block = np.cumsum(np.diff(mean, prepend=mean[0]) > 0.0)
    inside = np.flatnonzero((mean > low) & (mean < high))
    if not len(inside):
        return
    block = np.clip(block, block[inside[0]], block[inside[-1]])
    block = (block - block[0])[np.cumsum(used)[interval] - 1]  # of every point
    sums = np.bincount(block, w)
    index, mean = (np.bincount(block, w * a) / sums for a in (s, y))
    values = wanted = np.asarray(base.inverse(mean), dtype=float)
    for _ in range(_LINKS):
        fresh = np.diff(index, prepend=-np.inf) > 1e-9 * (index[-1] - index[0])
        fresh &= np.diff(values, prepend=-np.inf) > 0.0
        if fresh.sum() < 2:
            return
        link = Learned.through(base, index[fresh], values[fresh])
        yield link
        with np.errstate(all="ignore"):
            found = base.inverse(np.bincount(block, w * link.mean(s)) / sums)
        if not np.isfinite(found).all():
            return
        values = _increasing(values + (wanted - found), sums)


def with_default_geometries(learner, shape):
    """The learner with the geometries that compete by default.

    `shape` counts rows and columns. With many rows a column sparsity makes no difference, and
    `Whitened` alone competes.
    """
    configurations, (n, d) = learner.configurations, shape
    plain = all(c.constraint is None and c.step is None for c in configurations)
    if not plain or d > MOST_COLUMNS:
        return learner
    whitened = tuple(Configuration(p) for p in NATURAL)
    is_small = learner.last or n < _MANY * d
    return learner._replace(configurations=configurations + whitened if is_small else whitened)


def n_pilot_rows(learner, shape):
    """How many rows geometries compete on first; 0 if on all rows."""
    n, d = shape
    n_pilot = max(_PILOT, _PILOT_A_COLUMN * d)
    natural = learner.configurations[-1].potential == NATURAL[-1]
    return n_pilot if natural and n * d > _LARGE and n > 2 * n_pilot else 0


def with_first_step(learner, offset, k):
    """The learner with the inverse of the mean curvature at the start as its first step.

    `offset` has the intercepts of the start, if any, and k counts outputs.
    """
    s = np.zeros((1, k)) if offset is None else np.reshape(offset, (-1, k))
    with np.errstate(all="ignore"):
        mean = float(np.mean(learner.family.curvature(learner.link, s)))
    return learner._replace(first_step=1.0 / mean if 0.0 < mean < np.inf else 1.0)


def _is_better(costs, others, weights):
    """Whether the mean of costs is lower than that of others by more than a standard error."""
    mean, error = weighted_mean(others - costs, weights)
    return mean > error


class Linked(NamedTuple):
    """A link, the state learned before it, and the risk and deviances of held-out rows with it."""

    learner: Any
    state: Any
    link: Any
    risk: float
    costs: Any


class Task(NamedTuple):
    """What there is to choose from, and how to learn.

    `batches` are the rows and, if given, the validation rows; `pilot` are some of many rows, or
    None. `descend` is a function of (learner, start, batches, most passes), which returns a
    `DescentResult` and the last state; `start_with` is a function of a link, which returns
    coefficients and intercepts to start from.
    """

    batches: list
    pilot: Any
    link: str | None  # 'learned' or 'auto'; None keeps the learner's
    start_with: Callable[[Any], tuple[np.ndarray, np.ndarray]]
    descend: Callable[[Any, Any, list, int], tuple]


def select_family(learner, task):
    """Choose the family, the link and the geometry.

    `learner` has a family with a link, and the geometries that compete. The answer is the
    `DescentResult`, the learner that found it, and its last state.
    """
    return _Selection(learner, task).selected()


class _Selection:
    """The rounds of one selection."""

    def __init__(self, learner, task):
        self.learner, self.task, self.batches = learner, task, task.batches
        self.courses = []  # results of runs, and the potentials that each had

    def selected(self):
        """The result after all rounds."""
        y, w = self.batches[0].targets, self.batches[0].weights
        family = self.learner.family
        learns = type(family).learned is not Family.learned
        if learns:
            null = np.broadcast_to(family.clipped(family.start(y, w)), y.shape)
            self.learner = self.learner._replace(family=family.learned(y, null, w))
        state = self._race()
        for _ in range(_ROUNDS if learns else 0):
            mean = family.clipped(self.learner.link.mean(self._held_out(state)))
            state = self._go_on(state, family=family.learned(y, mean, w))
        if self.task.link is not None:
            state = self._linked(state)
        fitted = self._joined(state)
        if hasattr(family, "levels"):  # corrects the shift due to smoothing
            s = self._held_out(state)
            fitted = fitted._replace(offset=fitted.offset + family.start(y - s, w))
        return fitted, self.learner, state

    # ---------------------------------------------------------------- runs of the batch learner

    def _course(self, learner, start, batches=None, most=None):
        """Learn from a start; the last state."""
        batches = self.batches if batches is None else batches
        fitted, state = self.task.descend(learner, start, batches, most)
        self.courses.append((fitted, [c.potential for c in learner.configurations]))
        self.learner = learner
        return state

    def _race(self):
        """The state after geometries have competed."""
        task, batch = self.task, self.batches[0]
        start, k = task.start_with(self.learner.link), batch.targets.shape[1]
        learner = with_first_step(self.learner, start[1], k)
        pilot = batch if task.pilot is None else task.pilot
        learner = learner.with_metric(pilot.design, pilot.weights, pilot.weights.sum())
        if pilot is batch:
            return self._course(learner, start)
        return self._race_on_pilot(learner, start, pilot)

    def _race_on_pilot(self, learner, start, pilot):
        """The state of all rows after geometries have competed on some of them."""
        # The first step is one of Fisher scoring, although columns of levels vary little.
        learner = learner._replace(
            patience=min(learner.patience, _FIRST_PATIENCE),
            first_step=learner.first_step * learner.configurations[-1].potential.unit,
        )
        state = self._course(learner._replace(tol=_COARSE * learner.tol), start, [pilot])
        c = learner.chosen(state)
        s = learner.indices(state, pilot)[:, 0]
        curved = learner.family.curvature(learner.link, s).mean(axis=1)
        weights = pilot.weights * curved
        last = learner._replace(
            configurations=(Configuration(NATURAL[-1]),),
            patience=min(learner.patience, _LAST_PATIENCE),
        ).with_metric(pilot.design, weights, weights.sum())
        unit = last.configurations[0].potential.unit
        step = unit * pilot.weights.sum() / (pilot.weights @ curved)
        start = state.best.theta[c], state.best.offset[c]
        return self._course(last._replace(first_step=_SAFETY * float(step)), start)

    def _go_on(self, state, **changes):
        """Continue in the chosen geometry, with another family or link."""
        learner, c = self.learner, self.learner.chosen(state)
        learner = learner._replace(
            configurations=(learner.configurations[c],),
            first_step=float(state.step[c]),
            patience=min(learner.patience, _FIRST_PATIENCE),
            **changes,
        )
        start = state.best.theta[c], state.best.offset[c]
        return self._course(learner, start, most=_MOST_PASSES)

    def _held_out(self, state):
        """Indices of rows by the member that they are held out from, or else by the first."""
        return self.learner.held_out(state, self.batches[0])

    # ---------------------------------------------------------------- links

    def _folds(self, learner, state):
        """(indices, targets, weights) to learn a link from, and to evaluate it on, of each fold."""
        by_member = [learner.indices(state, b) for b in self.batches]
        wholes = [
            (s[:, 0], b.targets, b.weights) for s, b in zip(by_member, self.batches, strict=True)
        ]
        if len(wholes) > 1:
            return [tuple(wholes)]
        s, batch, folds = by_member[0], self.batches[0], []
        for m in range(1, s.shape[1]):
            sides = batch.held != m, batch.held == m
            folds.append(tuple((s[i, m], batch.targets[i], batch.weights[i]) for i in sides))
        return folds or [(wholes[0], wholes[0])]

    def _own_risks(self, learner, state):
        """The same as `_risks`, with the learner's link."""
        folds = self._folds(learner, state)
        return self._risks(folds, [learner.link] * len(folds))

    def _risks(self, folds, links):
        """Deviances of held-out rows, with one link for each fold, and their weights."""
        family = self.learner.family
        costs = [
            family.residuals(link, s, y)[1].sum(axis=1)
            for link, (_, (s, y, _)) in zip(links, folds, strict=True)
        ]
        return np.concatenate(costs), np.concatenate([test[2] for _, test in folds])

    def _tried(self, base, folds, points, shape):
        """Links of a shape: (hold-out risk, deviances, shape, number of links before).

        They end when a correction no longer lowers the risk.
        """
        courses = [monotone(base, self.learner.family, each, *shape) for each in points]
        tried = []
        for before, links in enumerate(zip(*courses, strict=False)):
            costs, weights = self._risks(folds, links)
            risk = weights @ costs / weights.sum()
            if tried and not risk < tried[-1][0]:
                break
            tried.append((risk, costs, shape, before))
        return tried

    def _link_for(self, state, now=None):
        """The link learned for these coefficients, or None; its hold-out risk and deviances.

        It has the shape of the base, unless another is better by a standard error. The link `now`,
        with which the coefficients were learned, is returned if it is better by a standard error.
        """
        family, base = self.learner.family, getattr(self.learner.link, "base", self.learner.link)
        folds, batch = self._folds(self.learner, state), self.batches[0]
        points = [binned(s, y, w[:, None]) for (s, y, w), _ in folds]
        present, weights = self._risks(folds, [now or base] * len(folds))
        knots = [k for k in _KNOTS if k == 2 or k * _ROWS_A_KNOT <= len(batch.targets)]
        chosen = None
        for shapes in ([(1, False)], product(knots, [False]), product(knots, [True])):
            tried = [each for shape in shapes for each in self._tried(base, folds, points, shape)]
            best = min(tried, key=lambda each: each[0], default=None)
            if best and (not chosen or _is_better(best[1], chosen[1], weights)):
                chosen = best
        if not chosen:
            return None, np.inf, None
        risk, costs, shape, before = chosen
        if now is not None and _is_better(present, costs, weights):
            return now, weights @ present / weights.sum(), present
        points = binned(self._held_out(state), batch.targets, batch.weights[:, None])
        links = list(islice(monotone(base, family, points, *shape), before + 1))
        return links[-1] if links else None, risk, costs

    def _linked(self, state):
        """The state with the best closed form of a link, or with a learned link."""
        closed, weights = self._closed(state)
        best = Linked(self.learner, closed.state, *self._link_for(closed.state))
        for _ in range(0 if best.link is None else _MOST_ROUNDS):
            after = self._go_on(best.state, link=best.link)
            found = Linked(self.learner, after, *self._link_for(after, best.link))
            if found.link is None or not found.risk < best.risk:
                break
            worth = found.risk < best.risk * (1.0 - _WORTH)
            best = found
            if not worth:
                break
        auto = self.task.link == "auto"
        if best.link is None or (auto and not _is_better(best.costs, closed.costs, weights)):
            best = closed
        self.learner = best.learner._replace(link=best.link)
        return best.state

    def _closed(self, state):
        """The state with the best closed form of a link, `Linked`, and weights of its costs."""
        costs, weights = self._own_risks(self.learner, state)
        best = Linked(self.learner, state, self.learner.link, np.inf, costs)
        for link in self.learner.family.others if self.task.link == "auto" else ():
            configuration = best.learner.configurations[best.learner.chosen(best.state)]
            learner = best.learner._replace(link=link, configurations=(configuration,))
            start = self.task.start_with(link)
            other = self._course(learner, start, most=_MOST_PASSES)
            costs, _ = self._own_risks(learner, other)
            if weights @ costs < weights @ best.costs:
                best = Linked(learner, other, link, np.inf, costs)
        self.learner = best.learner
        return best, weights

    # ---------------------------------------------------------------- the result

    def _joined(self, state):
        """The last state's parameters, the first run's leaderboard and the trace of all runs."""
        theta, offset = self.learner.read(state)
        first, potentials = self.courses[0]
        names = [repr(p) for p in potentials]

        def wide(a, own):
            out = np.full((len(a), len(names), *a.shape[2:]), np.nan)
            out[:, [names.index(repr(p)) for p in own]] = a
            return out

        def joined(name):
            return np.concatenate([wide(f.trace[name], own) for f, own in self.courses])

        return first._replace(
            theta=theta,
            offset=offset,
            trace={name: joined(name) for name in first.trace},
            n_iter=sum(f.n_iter for f, _ in self.courses),
            family=self.learner.family,
            link=self.learner.link,
        )
