r"""Stacking: a weighted sum of models, fitted to their held-out predictions.

Classes: log-odds :math:`\sum_k a_k F_k(x) + b` with :math:`a_k \ge 0`, which minimize the log-loss
of held-out rows plus :math:`10^{-3} |b|^2`. Targets: :math:`m + \sum_k a_k (F_k(x) - m)` with their
mean m and :math:`a_k \ge 0`, which minimize the squared error. Quantiles and robust means:
:math:`\sum_k a_k F_k(x) + b` with :math:`a_k \ge 0`, with weights of every quantile's own, which
minimize the pinball loss or Huber's loss.

A model is dropped if the loss without it grows by less than a quarter of its standard error, or by
less than a thousandth. The sum is then shrunk towards the constant by `shrinkage_factor`.
The mean of the remaining residuals of targets is added where it exceeds its standard error, so that
predictions have the right sum.

Positive means: :math:`\max(\sum_k a_k F_k(x), c)` with :math:`a_k \ge 0`, which minimize the
deviance of a family. The lower limit c is the mean of the rows below it (see `lowest_mean`). Then
all are multiplied by one number, so that the sum of predictions is the sum of targets.

Source: Wolpert 1992 (stacked generalization); Breiman 1996 (non-negative weights).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import log_softmax, softmax

from tunefree.held_out.predictions import finished, lowest, weighted_mean
from tunefree.held_out.shrinkage import (
    shares_as_scores,
    shrinkage_factor,
    shrinkage_factor_of_classes,
)
from tunefree.parts.families import HuberT, quantiles
from tunefree.parts.links import Identity
from tunefree.rows.order import summed_by

# The penalty of the squared offsets of classes.
_OFFSETS = 1e-3
# Bounds of the weights' logarithms, in units of one over the scores' size.
_LOG_BOUNDS = (-7.0, 7.0)
# Gains up to so many standard errors, or up to this share of the loss, are ignored.
_NEGLIGIBLE, _TIED = 0.25, 1e-3
# The pinball loss is smoothed over this share of the mean residual, found in so many steps.
_WIDTH, _SOLUTIONS = 0.1, 2
# Members of smaller shares are not listed.
LEAST_SHARE = 0.005
_TINY, _ROUNDING = 1e-300, 1e-12


def weighted_sum(weights, scores, offsets: Any = 0.0) -> Any:
    """The weighted sum of the models' scores."""
    return sum((a * F for a, F in zip(weights, scores, strict=True)), offsets)


class Stack(NamedTuple):
    """Weights of models."""

    weights: np.ndarray  # of shape (n_models,), of quantiles (n_models, n_outputs)
    offsets: np.ndarray  # of shape (n_outputs,)
    shares: np.ndarray  # weight times size of the scores, of shape (n_models,); they sum to 1
    losses: np.ndarray  # log-losses or squared errors of the rows it was fitted to, (n_rows,)
    least: Any = None  # the lower limit of positive means

    def join(self, scores):
        """The weighted sum of the models' scores."""
        return weighted_sum(self.weights, scores, self.offsets)

    def times(self, factor):
        """The stack whose sums are multiplied by a number."""
        least = None if self.least is None else factor * self.least
        return self._replace(
            weights=factor * self.weights, offsets=factor * self.offsets, least=least
        )


class Chosen(NamedTuple):
    """The entries of a stack, the largest share first, and a sentence on why they are chosen."""

    stack: Stack
    entries: list
    reason: str

    @property
    def rows(self):
        """The numbers of the held-out rows."""
        return self.entries[0].rows

    @property
    def optimism(self):
        """The largest of its entries."""
        return max(e.optimism for e in self.entries)

    def scores(self):
        """The stack's held-out scores."""
        return self.stack.join([e.scores for e in self.entries])


def choose_stack(entries, problem):
    """The `Chosen` stack of the finished entries; of the cheapest one, if there is none.

    `problem` has the rows' targets `y`, their `weights` and the task's `score`.
    """
    evaluated, score = finished(entries), problem.score
    if not evaluated:
        first = [e for e in entries if e.status == "finished"] or entries
        alone = Stack(np.ones(1), np.zeros(problem.shape.k), np.ones(1), np.empty(0))
        reason = "There are too few rows to compare: the cheapest candidate is used."
        return Chosen(alone, first[:1], reason)
    rows = evaluated[0].rows
    y, weights = problem.y[rows], problem.weights[rows]
    optimism = max(e.optimism for e in evaluated)
    groups = problem.groups_of(rows)
    stack = score.stack([e.scores for e in evaluated], y, weights, optimism, groups)
    # A search on few rows may cost a stack its step, and not those that did not search.
    honest = [e for e in evaluated if e.optimism == 0.0]
    if optimism and honest:
        other = score.stack([e.scores for e in honest], y, weights, 0.0, groups)
        if np.sum(weights @ other.losses) < np.sum(weights @ stack.losses):
            stack, evaluated = other, honest
    best = lowest(evaluated, problem.weights)
    order = [i for i in np.argsort(-stack.shares, kind="stable") if stack.shares[i] > 0.0]
    if not order:
        order = [next(i for i, e in enumerate(evaluated) if e is best)]
    large = [i for i in order if stack.shares[i] >= LEAST_SHARE] or order[:1]
    names = [f"{evaluated[i].candidate.name!r} {stack.shares[i]:.0%}" for i in large]
    stack = stack._replace(weights=stack.weights[order], shares=stack.shares[order])
    return Chosen(stack, [evaluated[i] for i in order], f"Chosen: {', '.join(names)}.")


def with_loss_of_stack(problem, entries):
    """The problem with the loss of the stack, and the entries' losses by it.

    They differ for Huber's loss, whose scale is that of the errors of the stack of medians.
    """
    targets = problem.targets
    if not isinstance(getattr(targets, "family", None), HuberT) or not finished(entries):
        return problem, entries
    medians = choose_stack(entries, problem)
    _, y, weights = problem.part(medians.rows)
    family = targets.family.learned(y[:, None], medians.scores(), weights)
    score, targets = RobustMeans(family), targets._replace(family=family)

    def evaluated(entry):
        if not len(entry.losses):
            return entry
        losses, proper_losses = score.evaluate(entry.scores, *problem.part(entry.rows)[1:])
        return entry._replace(losses=losses, proper_losses=proper_losses)

    return problem._replace(score=score, targets=targets), [evaluated(e) for e in entries]


def permutation_importances(chosen, problem):
    """How much the stack's held-out loss grows with every change of columns, and standard errors.

    The changes are those of `Entry.permutation_effects`: permutation importances of a cyclic
    permutation, without another fit. None if a model of the stack does not have them.
    """
    entries = chosen.entries
    if any(e.permutation_effects is None for e in entries):
        return None
    n = min(e.permutation_effects.shape[1] for e in entries)
    rows = chosen.rows[:n]
    y, weights = problem.y[rows], problem.weights[rows]

    def losses(scores):
        return problem.score.losses(chosen.stack.join(scores), y)

    scores = [e.scores[:n] for e in entries]
    effects = zip(*(e.permutation_effects[:, :n] for e in entries), strict=True)
    after = [losses([F + m for F, m in zip(scores, each, strict=True)]) for each in effects]
    rises = np.array(after) - losses(scores)
    share = weights / weights.sum()
    means = rises @ share
    # A row is in two terms: with its own columns, and as the row after its neighbour.
    parts = (rises - means[:, None]) * share
    squares = np.square(parts).sum(axis=1)
    products = (parts * np.roll(parts, 1, axis=1)).sum(axis=1)
    return means, np.sqrt(np.maximum(squares + 2.0 * products, squares))


def _pruned(fit, scores, weights, groups):
    """Fit, then drop models that the stack does not need, the smallest share first.

    `fit` maps scores of models to their weights, offsets, sizes and the losses of the rows. Of
    models with equal shares the last one goes first.
    """

    def fitted(kept):
        a, b, sizes, losses = fit([scores[i] for i in kept])
        return a, b, sizes / max(sizes.sum(), _TINY), losses

    kept = list(range(len(scores)))
    a, b, shares, losses = fitted(kept)
    for i in sorted(kept, key=lambda i: (round(float(shares[i]), 1), -i))[:-1]:
        rest = [j for j in kept if j != i]
        without = fitted(rest)
        gain, error = weighted_mean(without[-1] - losses, weights, groups)
        negligible = max(_NEGLIGIBLE * error, _TIED * weighted_mean(losses, weights)[0])
        if shares[kept.index(i)] == 0.0 or gain <= negligible:
            kept, (a, b, shares, losses) = rest, without
    every_weight, every_share = np.zeros((len(scores), *a.shape[1:])), np.zeros(len(scores))
    every_weight[kept], every_share[kept] = a, shares
    return Stack(every_weight, b, every_share, losses)


def _log_weights(risk, start, n_offsets=0):
    """Weights and offsets of least risk, found by the weights' logarithms.

    `risk` and its gradient are functions of the weights and the offsets.
    """
    m = len(start)

    def of_logs(theta):
        a = np.exp(theta[:m])
        value, slopes = risk(a, theta[m:])
        slopes[:m] *= a
        return value, slopes

    theta = np.concatenate([start, np.zeros(n_offsets)])
    bounds = [_LOG_BOUNDS] * m + [(None, None)] * n_offsets
    theta = optimize.minimize(of_logs, theta, jac=True, method="L-BFGS-B", bounds=bounds).x
    logs = theta[:m]
    return np.where(logs <= _LOG_BOUNDS[0] + 1e-6, 0.0, np.exp(logs)), theta[m:]


def log_losses(scores, codes):
    """Log-losses of log-odds of shape (n, 1), of the second class, or (n, n_classes)."""
    if scores.shape[1] == 1:
        return np.logaddexp(0.0, np.where(codes == 1, -1.0, 1.0) * scores[:, 0])
    return -log_softmax(scores, axis=1)[np.arange(len(codes)), codes]


def _both(scores):
    """Scores of both classes, where only those of the second were given."""
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


class Classes(NamedTuple):
    """Scores of classification: log-odds, with mistakes and log-losses.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> good, noise = (2.0 * y - 1)[:, None] + rng.normal(size=(200, 1)), rng.normal(size=(200, 1))
    >>> bool(Classes(2).stack([good, noise], y, np.ones(200)).shares[0] > 0.9)
    True
    """

    n_classes: int
    task = "classification"
    kind = "log-loss"
    losses = staticmethod(log_losses)

    @property
    def n_outputs(self):
        """Of a model."""
        return 1 if self.n_classes == 2 else self.n_classes

    def of_all(self, scores, model):
        """Log-odds of a model as scores of all classes; the row's minimum for an unknown class."""
        model_classes = model.classes_
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
        best = self.whole_stack([scores], y, weights)
        log_odds = best.join([scores])
        chosen = log_odds[:, 0] > 0.0 if log_odds.shape[1] == 1 else log_odds.argmax(axis=1)
        return (chosen != y).astype(float), best.losses

    def constant(self, y, weights):
        """The scores of the least loss that are the same for all rows: the classes' shares."""
        return shares_as_scores(y, weights, self.n_outputs)

    def whole_stack(self, scores, y, weights, groups=None):
        """The stack of least log-loss, not shrunk towards the constant."""
        width, total = max(self.n_classes, 2), weights.sum()
        # Smoothed labels, as if two more rows had been of every class in equal parts: weights stay
        # finite on separable data.
        labels = (total * np.eye(width)[y] + 2.0 / width) / (total + 2.0)
        share = weights / total

        def fit(models):
            sizes = [max(_size(F, share), _size_of_constant(F)) for F in models]
            models = [F / size for F, size in zip(models, sizes, strict=True)]
            m, k = len(models), models[0].shape[1]

            def risk(a, b):
                logs = log_softmax(_both(weighted_sum(a, models) + b), axis=1)
                gap = (share[:, None] * (np.exp(logs) - labels))[:, -k:]
                slopes = [np.vdot(gap, F) for F in models]
                loss = -np.vdot(share[:, None] * labels, logs) + _OFFSETS * b @ b
                return loss, np.concatenate([slopes, gap.sum(axis=0) + 2.0 * _OFFSETS * b])

            a, b = _log_weights(risk, np.full(m, np.log(1.5 / m)), k)
            return a / sizes, b, a, log_losses(weighted_sum(a, models) + b, y)

        return _pruned(fit, scores, weights, groups)

    def stack(self, scores, y, weights, optimism=0.0, groups=None):
        """The stack of least log-loss, shrunk towards the log-odds of the classes' shares."""
        stack = self.whole_stack(scores, y, weights, groups)
        null = self.constant(y, weights)
        joined = stack.join(scores)
        prior, p = (softmax(_both(each), axis=1) for each in (null[None], joined))
        factor = shrinkage_factor_of_classes(p, prior[0], y, weights, optimism, groups)
        if factor == 1.0:
            return stack
        losses = log_losses(null + factor * (joined - null), y)
        offsets = null + factor * (stack.offsets - null)
        return Stack(factor * stack.weights, offsets, stack.shares, losses)


def _size(F, share):
    """Root mean square of scores about their means."""
    return float(np.sqrt((share @ np.square(F - share @ F)).mean()))


def _size_of_constant(F):
    """The least size of scores: theirs if all are the same, up to rounding."""
    top = float(np.abs(F).max(initial=0.0))
    return max(top if np.ptp(F) <= _ROUNDING * top else 0.0, _TINY)


class Targets(NamedTuple):
    """Scores of regression: predictions, with squared errors."""

    spread: np.ndarray  # units of the squared errors of several targets, of shape (n_outputs,)
    task = "regression"
    kind = "squared error"
    constant_name = "the mean"

    @property
    def n_outputs(self):
        """Of a model."""
        return len(self.spread)

    def limits(self, targets):
        """The range of predictions."""
        return targets.min(axis=0), targets.max(axis=0)

    def strata(self, y):
        """Class numbers of targets, which the folds share evenly: there is one class."""
        return np.zeros(len(y), dtype=np.int64)

    def of_all(self, predictions, model):
        """Predictions of a model, of shape (n, n_outputs)."""
        return np.asarray(predictions, dtype=np.float64).reshape(len(predictions), -1)

    def losses(self, predicted, y):
        """Squared errors."""
        return (np.square(predicted - y.reshape(predicted.shape)) / self.spread).sum(axis=1)

    def constant(self, y, weights):
        """The prediction of the least loss that is the same for all rows."""
        return np.average(y.reshape(len(y), -1), axis=0, weights=weights)

    def evaluate(self, predicted, y, weights):
        """The losses, twice."""
        losses = self.losses(predicted, y)
        return losses, losses

    def stack(self, scores, y, weights, optimism=0.0, groups=None):
        """The stack of least squared error, targets in units of their spreads."""
        targets = y.reshape(len(y), -1)
        share = weights / weights.sum()
        mean = share @ targets
        scale = np.sqrt(share[:, None] / self.spread)

        def fit(models):
            columns = np.column_stack([((F - mean) * scale).ravel() for F in models])
            a, _ = optimize.nnls(columns, ((targets - mean) * scale).ravel())
            joined = mean + weighted_sum(a, [F - mean for F in models])
            sizes = a * np.sqrt(np.square(columns).sum(axis=0))
            return a, mean * (1.0 - a.sum()), sizes, self.losses(joined, targets)

        stack = _pruned(fit, scores, weights, groups)
        unit = np.sqrt(self.spread)
        step, truth = ((values - mean) / unit for values in (stack.join(scores), targets))
        each = np.repeat(weights, self.n_outputs)
        columns = step.reshape(-1, 1), truth.reshape(-1, 1)
        of_each = None if groups is None else np.repeat(groups, self.n_outputs)
        factor = float(shrinkage_factor(*columns, each, spent=optimism, groups=of_each)[0])
        residuals = truth - factor * step
        gap = share @ residuals
        parts = summed_by(groups, share[:, None] * (residuals - gap))
        error = np.sqrt(np.square(parts).sum(axis=0))
        # Adding the gap is expected to lower the squared error of new rows by gap**2 - error**2.
        gap = np.where(np.abs(gap) > error, gap, 0.0)
        if factor == 1.0 and not gap.any():
            return stack
        losses = np.square(factor * step + gap - truth).sum(axis=1)
        offsets = mean * (1.0 - factor * stack.weights.sum()) + gap * unit
        return Stack(factor * stack.weights, offsets, stack.shares, losses)


class Means(NamedTuple):
    """Scores of regression: predictions, with the deviance of a family of positive means."""

    family: Any  # a part of `tunefree.parts.families`
    least: float  # the lower limit of means
    task = "regression"
    n_outputs = 1
    of_all, constant = Targets.of_all, Targets.constant
    constant_name = Targets.constant_name

    @classmethod
    def of(cls, family, targets, weights):
        """Before any row was predicted: the lower limit if all rows but one had the target 0."""
        mean = weights @ targets[:, 0] / weights.sum()
        return cls(family, max(mean / (len(targets) + 1.0), _TINY))

    def limits(self, targets):
        """The range of predictions: a mean of 0 would be a certain prediction."""
        return np.array([self.least]), targets.max(axis=0)

    def strata(self, y):
        """Whether targets are positive: the folds share these evenly, however rare they are."""
        return (y > 0.0).astype(np.int64)

    @property
    def kind(self):
        """The name of the risk in the leaderboard."""
        return f"{type(self.family).__name__} deviance"

    def losses(self, predicted, y):
        """Deviances."""
        return self._deviances(predicted[:, 0], y.reshape(-1), self.least)

    def evaluate(self, predicted, y, weights):
        """The losses with the best factor and lower limit, twice."""
        losses = self.stack([predicted], y, weights).losses
        return losses, losses

    def stack(self, scores, y, weights, _=0.0, groups=None):
        """The stack of least deviance, and of the right sum."""
        share = weights / weights.sum()

        def fit(models):
            columns = np.column_stack(models)
            a = np.full(len(models), 1.0 / len(models))
            for _ in range(_SOLUTIONS):
                least = lowest_mean(columns @ a, y, weights)
                a = self._best_weights(columns, y, share, least, a)
            joined = columns @ a
            losses = self._deviances(joined, y, lowest_mean(joined, y, weights))
            return a, np.zeros(1), a * (share @ np.abs(columns)), losses

        stack = _pruned(fit, scores, weights, groups)
        joined = stack.join(scores)[:, 0]
        stack = stack._replace(least=lowest_mean(joined, y, weights))
        stack = stack.times(factor_of_sum(np.maximum(joined, stack.least), y, weights))
        return stack._replace(losses=self._deviances(stack.join(scores)[:, 0], y, stack.least))

    def _best_weights(self, columns, y, share, least, start):
        """The weights of least deviance, from a start; sums below `least` count as that."""
        # The optimizer's tolerances are absolute: the risk has no unit.
        unit = max(float(share @ self._deviances(columns @ start, y, least)), _TINY)

        def risk(a, _):
            joined = columns @ a
            mean = self.family.clipped(np.maximum(joined, least))
            slope = 2.0 * share * (mean - y) / self.family.variance(mean) * (joined > least)
            return share @ self.family.deviance(y, mean) / unit, slope @ columns / unit

        return _log_weights(risk, np.log(np.maximum(start, np.exp(_LOG_BOUNDS[0]))))[0]

    def _deviances(self, joined, y, least):
        return self.family.deviance(y, self.family.clipped(np.maximum(joined, least)))


def lowest_mean(predicted, y, weights):
    """The lower limit of positive means: the mean target of the rows that are predicted below it.

    It is the limit of least deviance, with one more row whose target is the mean of all: rows that
    had the target 0 so far may have another one. Predictions of 0 and less are always below it.

    Examples
    --------
    >>> y, w = np.array([0.0, 0.0, 0.0, 4.0, 6.0]), np.ones(5)
    >>> lowest_mean(np.array([-1.0, 0.0, -2.0, 4.0, 6.0]), y, w)
    0.5
    """
    order = np.argsort(predicted, kind="stable")
    one = weights.mean()
    mean = weights @ y / weights.sum()
    totals = np.append(0.0, np.cumsum((weights * y)[order])) + one * mean
    limits = totals / (np.append(0.0, np.cumsum(weights[order])) + one)
    following = np.append(predicted[order], np.inf)
    # With so many rows below it, a limit is not above the next prediction, which is positive.
    fits = (limits <= following) & (following > 0.0)
    return max(float(limits[np.argmax(fits)]), _TINY)


def factor_of_sum(predicted, y, weights):
    """The factor by which positive predictions have the sum of the targets."""
    total = float(weights @ predicted)
    factor = float(weights @ y) / total if total > 0.0 else 1.0
    return factor if factor > 0.0 else 1.0


def with_limit_of_stack(problem, chosen):
    """The problem whose means have the lower limit of the stack."""
    least, score = chosen.stack.least, problem.score
    if least is None:
        return problem
    limits = np.array([least]), problem.targets.limits[1]
    return problem._replace(
        score=score._replace(least=least), targets=problem.targets._replace(limits=limits)
    )


def with_sum_of_all_rows(chosen, fits, problem):
    """The stack of positive means that has the right sum over all rows, as its models fit them.

    Where a single fold was held out, most of the rows were not: the fold's sum is more uncertain
    than that of all rows.
    """
    if chosen.stack.least is None or len(chosen.rows) == len(problem.y):
        return chosen
    scores = [fitted.scores(problem.X, problem.score) for fitted in fits]
    predicted = np.maximum(chosen.stack.join(scores)[:, 0], chosen.stack.least)
    factor = factor_of_sum(predicted, problem.y, problem.weights)
    return chosen._replace(stack=chosen.stack.times(factor))


class Quantiles(NamedTuple):
    """Scores of regression: quantiles, one output for each level, with their pinball losses."""

    family: Any  # `tunefree.parts.families.Quantile`
    task = "regression"
    limits, strata = Targets.limits, Targets.strata

    @property
    def n_outputs(self):
        """One for each level."""
        return len(self.family.q)

    @property
    def kind(self):
        """The name of the risk in the leaderboard."""
        return "half the absolute error" if self._is_median() else "pinball loss"

    def _is_median(self):
        return len(self.family.q) == 1 and self.family.q[0] == 0.5

    @property
    def constant_name(self):
        """What the best constant predicts."""
        return "the median" if self._is_median() else "the quantiles of all rows"

    def constant(self, y, weights):
        """The quantiles or the median of the targets."""
        return self.family.start(self.family.targets(y[:, None]), weights)

    def of_all(self, predictions, model):
        """Predictions of shape (n, n_outputs); a model's one output serves all levels."""
        scores = np.asarray(predictions, dtype=np.float64).reshape(len(predictions), -1)
        return np.repeat(scores, self.n_outputs // scores.shape[1], axis=1)

    def losses(self, predicted, y):
        """Deviances of predictions in order, added over the outputs."""
        return self.family.deviance(y.reshape(-1, 1), np.sort(predicted, axis=1)).sum(axis=1)

    def evaluate(self, predicted, y, weights):
        """The losses with the best slope and offset, twice."""
        losses = self.stack([predicted], y, weights).losses
        return losses, losses

    def stack(self, scores, y, weights, _=0.0, groups=None):
        """The stack of least pinball loss."""
        losses = [_Pinball(float(q)) for q in self.family.q]
        return stack_locations(scores, y, weights, self.family, losses, groups=groups)


class RobustMeans(NamedTuple):
    """Scores of regression: predictions, with Huber's loss."""

    family: Any  # `tunefree.parts.families.HuberT`, of a known scale
    task, kind = "regression", "Huber loss"
    n_outputs = 1
    limits, strata, of_all = Targets.limits, Targets.strata, Targets.of_all
    constant_name = "the median"
    constant, losses, evaluate = Quantiles.constant, Quantiles.losses, Quantiles.evaluate

    def stack(self, scores, y, weights, optimism=0.0, groups=None):
        """The stack of least loss."""
        loss = [_Huber(self.family)]
        return stack_locations(scores, y, weights, self.family, loss, optimism, groups)


def stack_locations(predictions, y, weights, family, losses, optimism=0.0, groups=None):
    """The stack of quantiles or robust means: of least pinball loss, or least Huber's loss.

    Every output has non-negative weights of its own, and is shrunk towards the best constant.

    Parameters
    ----------
    predictions : list of ndarray of shape (n, n_outputs)
    y, weights : ndarray of shape (n,)
    family : Quantile or HuberT
    losses : list of `_Pinball` or `_Huber`
        The loss of every output, smoothed.
    optimism : float, default=0
        Degrees of freedom a row that the models' search took from these rows: the argument `spent`
        of `shrinkage_factor`.
    groups : ndarray of int of shape (n,), optional
        Rows of one group are not independent.

    Returns
    -------
    Stack
    """
    share = weights / weights.sum()
    targets = family.targets(y[:, None])

    def deviances(joined):
        return family.deviance(targets, joined).sum(axis=1)

    def fit(models):
        pairs = [
            _least_loss(np.column_stack([F[:, j] for F in models]), targets[:, j], share, loss)
            for j, loss in enumerate(losses)
        ]
        a, b = np.column_stack([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
        sizes = np.array([(x * F.std(axis=0)).sum() for x, F in zip(a, models, strict=True)])
        return a, b, sizes, deviances(b + weighted_sum(a, models))

    stack = _pruned(fit, predictions, weights, groups)
    null = family.start(targets, weights)
    joined = stack.join(predictions)
    factors = np.zeros(len(null))
    for j, loss in enumerate(losses):
        step, residuals = joined[:, j] - null[j], targets[:, j] - null[j]
        factors[j] = _factor_of_step(step, residuals, loss, weights, optimism, groups)
    if (factors == 1.0).all():
        return stack
    joined = null + factors * (joined - null)
    pairs = zip(losses, (targets - joined).T, strict=True)
    shifts = np.array([loss.shift(residuals, weights) for loss, residuals in pairs])
    offsets = null + factors * (stack.offsets - null) + shifts
    return Stack(factors * stack.weights, offsets, stack.shares, deviances(joined + shifts))


def _factor_of_step(step, residuals, loss, weights, optimism, groups):
    """How far an output goes from the constant: the factor of least squares near the constant.

    Near it the loss is a square, with the slopes g of the rows and the curvature H for which the
    whole step is best. So the targets are g / H, in units of their root mean square, and a unit of
    the loss is the mean of g^2 / H.
    """
    null, slopes = loss(residuals, _TINY)
    learned = loss(residuals - step, _TINY)[0]
    products = weights @ (slopes * step)
    squares = weights @ np.square(step)
    if products <= 0.0:
        return 0.0
    curvature = products / squares
    unit = weights @ np.square(slopes) / weights.sum() / curvature
    pair = null[:, None] / unit, learned[:, None] / unit
    target = (slopes / curvature)[:, None]
    size = np.sqrt(unit / curvature)  # the root mean square of the targets
    columns = step[:, None] / size, target / size
    return float(shrinkage_factor(*columns, weights, pair, optimism, groups)[0])


class _Pinball(NamedTuple):
    """The pinball loss of a level, smoothed near 0."""

    q: float

    def __call__(self, residuals, width):
        """Losses of residuals, and their slopes."""
        size = np.hypot(residuals, width)
        return 0.5 * size + (self.q - 0.5) * residuals, 0.5 * residuals / size + (self.q - 0.5)

    def shift(self, residuals, weights):
        """The constant of least loss, without smoothing."""
        return float(quantiles(residuals[:, None], weights, self.q)[0])


class _Huber(NamedTuple):
    """Huber's loss."""

    family: Any  # `tunefree.parts.families.HuberT` of a known scale

    def __call__(self, residuals, _):
        """Losses of residuals, and their slopes."""
        slopes = self.family.score(Identity(), 0.0, residuals, 0.0)
        return 0.5 * self.family.deviance(residuals, 0.0), slopes

    def shift(self, residuals, weights):
        """The constant of least loss: it is found."""
        return 0.0


def _least_loss(columns, y, share, loss):
    """Non-negative weights of columns, and an offset, of least loss."""
    centre, m = share @ columns, columns.shape[1]
    units = np.maximum(np.sqrt(share @ np.square(columns - centre)), _TINY)
    columns = (columns - centre) / units
    median = np.median(y)
    theta, residuals = np.zeros(m + 1), y - median
    # The optimizer's tolerances are absolute: parameters and risk have no unit.
    unit = max(float(share @ np.abs(residuals)), _TINY)
    size = max(float(share @ loss(residuals, _TINY)[0]), _TINY)
    options: Any = {"method": "L-BFGS-B", "bounds": [(0.0, None)] * m + [(None, None)]}

    def rest(theta):
        return y - median - unit * (columns @ theta[:m] + theta[m])

    def risk(theta, width):
        losses, slopes = loss(rest(theta), width)
        slopes = share * slopes
        return share @ losses / size, -unit / size * np.append(slopes @ columns, slopes.sum())

    for _ in range(_SOLUTIONS):
        width = max(_WIDTH * float(share @ np.abs(residuals)), _TINY)
        theta = optimize.minimize(risk, theta, (width,), jac=True, **options).x
        residuals = rest(theta)
    a = unit * theta[:m] / units
    return a, median + unit * theta[m] + loss.shift(residuals, share) - centre @ a
