r"""Stacking: models joined by what they said of rows that they had not learned.

Classes: log-odds :math:`\sum_k a_k F_k(x) + b` with :math:`a_k \ge 0` of least log-loss on the
scores left out, plus :math:`10^{-3} |b|^2`. Targets: :math:`m + \sum_k a_k (F_k(x) - m)` about
their mean m, with :math:`a_k \ge 0` of least squared error. A model stays out if the others lose
less than a quarter of a standard error, or a thousandth, without it, and the sum goes from the
constant by `robust.shrinkage_factor`. The mean of what is then left of targets is added
where it is larger than its standard error, so that sums are kept.

Source: Wolpert 1992 (stacked generalization); Breiman 1996 (non-negative weights).
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, softmax

from tunefree.robust import shares_as_scores, shrinkage_factor, shrinkage_factor_of_classes

_OFFSETS = 1e-3
# Logarithms of the weights' ends, in units of one over the scores' size.
_ENDS = (-7.0, 7.0)
# A gain up to so many standard errors, or such a part of the loss, is none.
_NEGLIGIBLE, _TIED = 0.25, 1e-3


class Stack(NamedTuple):
    """Weights of models.

    Attributes
    ----------
    weights : ndarray of shape (n_models,)
    offsets : ndarray of shape (n_outputs,)
    shares : ndarray of shape (n_models,)
        The models' shares of the sum: weight times size; they add up to 1.
    losses : ndarray of shape (n_rows,)
        Log-losses or squared errors of the rows it was fitted to.
    """

    weights: np.ndarray
    offsets: np.ndarray
    shares: np.ndarray
    losses: np.ndarray

    def join(self, scores):
        """The weighted sum of the models' scores."""
        total = np.zeros_like(scores[0]) + self.offsets
        for a, F in zip(self.weights, scores, strict=True):
            total += a * F
        return total


def log_losses(scores, codes):
    """Log-losses of log-odds of shape (n, 1), of the second class, or (n, n_classes)."""
    if scores.shape[1] == 1:
        return np.logaddexp(0.0, np.where(codes == 1, -1.0, 1.0) * scores[:, 0])
    return -log_softmax(scores, axis=1)[np.arange(len(codes)), codes]


def stack_classes(scores, codes, weights, *, whole=True, spent=0.0):
    """The stack of least log-loss: `whole`, or as far from the constant as rows left out bear out.

    Parameters
    ----------
    scores : list of ndarray of shape (n, 1) or (n, n_classes)
        Of every model, for rows that it had not learned.
    codes : ndarray of int of shape (n,)
    weights : ndarray of shape (n,)

    Returns
    -------
    Stack

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> good, noise = (2.0 * y - 1)[:, None] + rng.normal(size=(200, 1)), rng.normal(size=(200, 1))
    >>> bool(stack_classes([good, noise], y, np.ones(200)).shares[0] > 0.9)
    True
    """
    width = max(scores[0].shape[1], 2)
    total = weights.sum()
    # As if two more rows had been of every class in equal parts: separable data stay finite.
    aims = (total * np.eye(width)[codes] + 2.0 / width) / (total + 2.0)
    share = weights / total

    def fit(part):
        sizes = [max(_size(F, share), 1e-300) for F in part]
        part = [F / size for F, size in zip(part, sizes, strict=True)]
        m, k = len(part), part[0].shape[1]

        def risk(theta):
            a, b = np.exp(theta[:m]), theta[m:]
            Z = sum(x * F for x, F in zip(a, part, strict=True)) + b
            logs = log_softmax(_both(Z), axis=1)
            gap = (share[:, None] * (np.exp(logs) - aims))[:, -k:]
            slope = [x * np.vdot(gap, F) for x, F in zip(a, part, strict=True)]
            return (
                -np.vdot(share[:, None] * aims, logs) + _OFFSETS * b @ b,
                np.concatenate([slope, gap.sum(axis=0) + 2.0 * _OFFSETS * b]),
            )

        start = np.concatenate([np.full(m, np.log(1.5 / m)), np.zeros(k)])
        ends = [_ENDS] * m + [(None, None)] * k
        theta = minimize(risk, start, jac=True, method="L-BFGS-B", bounds=ends).x
        a = np.exp(theta[:m])
        a[theta[:m] <= _ENDS[0] + 1e-6] = 0.0
        joined = sum(x * F for x, F in zip(a, part, strict=True)) + theta[m:]
        return a / sizes, theta[m:], a / max(a.sum(), 1e-300), log_losses(joined, codes)

    stack = _pruned(fit, scores, weights)
    if whole:
        return stack
    null = shares_as_scores(codes, weights, scores[0].shape[1])
    return _believed(stack, scores, null, codes, weights, spent)


def stack_targets(predictions, targets, weights, spread, spent=0.0):
    """The stack of least squared error, targets in units of their spreads.

    Parameters
    ----------
    predictions : list of ndarray of shape (n, n_targets)
    targets : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,)
    spread : ndarray of shape (n_targets,)

    Returns
    -------
    Stack
    """
    share = weights / weights.sum()
    mean, scale = share @ targets, np.sqrt(share[:, None] / spread)

    def fit(part):
        columns = np.column_stack([((F - mean) * scale).ravel() for F in part])
        a, _ = nnls(columns, ((targets - mean) * scale).ravel())
        sizes = a * np.sqrt(np.square(columns).sum(axis=0))
        joined = mean + sum(x * (F - mean) for x, F in zip(a, part, strict=True))
        losses = (np.square(joined - targets) / spread).sum(axis=1)
        return a, mean * (1.0 - a.sum()), sizes / max(sizes.sum(), 1e-300), losses

    stack = _pruned(fit, predictions, weights)
    step, ahead = ((part - mean) / np.sqrt(spread) for part in (stack.join(predictions), targets))
    each = np.repeat(weights, step.shape[1])
    way = float(shrinkage_factor(step.reshape(-1, 1), ahead.reshape(-1, 1), each, spent=spent)[0])
    gap, error = _mean(ahead - way * step, weights)
    # Beyond it squared errors of new rows are expected to fall by gap**2 - error**2.
    gap = np.where(np.abs(gap) > error, gap, 0.0)
    if way == 1.0 and not gap.any():
        return stack
    losses = np.square(way * step + gap - ahead).sum(axis=1)
    offsets = mean * (1.0 - way * stack.weights.sum()) + gap * np.sqrt(spread)
    return Stack(way * stack.weights, offsets, stack.shares, losses)


def stack_means(predictions, targets, weights, family):
    """The stack of least deviance: non-negative weights of means, within the family's range.

    Parameters
    ----------
    predictions : list of ndarray of shape (n, 1)
    targets : ndarray of shape (n, 1)
    weights : ndarray of shape (n,)
    family : part of `tunefree.families`

    Returns
    -------
    Stack
    """
    share, least = weights / weights.sum(), least_mean(targets)

    def fit(part):
        columns, m = np.column_stack(part), len(part)
        columns = np.maximum(columns, least)

        def risk(theta):
            a = np.exp(theta)
            mean = family.clipped(columns @ a)
            slope = 2.0 * share * (mean - targets[:, 0]) / family.variance(mean)
            return share @ family.deviance(targets[:, 0], mean), a * (slope @ columns)

        theta = minimize(
            risk, np.full(m, -np.log(m)), jac=True, method="L-BFGS-B", bounds=[_ENDS] * m
        ).x
        a = np.where(theta <= _ENDS[0] + 1e-6, 0.0, np.exp(theta))
        sizes = a * (share @ columns)
        losses = family.deviance(targets[:, 0], family.clipped(columns @ a))
        return a, np.zeros(1), sizes / max(sizes.sum(), 1e-300), losses

    return _pruned(fit, predictions, weights)


def _believed(stack, scores, null, codes, weights, spent):
    """The stack of classes, on its way from the log-odds of their shares."""
    joined = stack.join(scores)
    prior, p = (softmax(_both(each), axis=1) for each in (null[None], joined))
    way = shrinkage_factor_of_classes(p, prior[0], codes, weights, spent)
    if way == 1.0:
        return stack
    losses = log_losses(null + way * (joined - null), codes)
    return Stack(way * stack.weights, null + way * (stack.offsets - null), stack.shares, losses)


def _both(scores):
    """Scores of both classes, where those of the second were given."""
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


def least_mean(targets):
    """The least mean to believe where means are positive: half the least positive target."""
    positive = targets[targets > 0.0]
    return 0.5 * float(positive.min()) if len(positive) else 1e-300


def _pruned(fit, scores, weights):
    """Fit; leave out what the others hardly miss, the least share first, of equal ones the last."""
    kept = list(range(len(scores)))
    a, b, shares, losses = fit(scores)
    for i in sorted(kept, key=lambda i: (round(float(shares[i]), 1), -i))[:-1]:
        rest = [j for j in kept if j != i]
        less = fit([scores[j] for j in rest])
        gain, error = _mean(less[-1] - losses, weights)
        least = max(_NEGLIGIBLE * error, _TIED * _mean(losses, weights)[0])
        if shares[kept.index(i)] == 0.0 or gain <= least:
            kept, (a, b, shares, losses) = rest, less
    out = np.zeros((2, len(scores)))
    out[:, kept] = a, shares
    return Stack(out[0], b, out[1], losses)


def _size(F, share):
    """Root mean square of scores about their means."""
    return float(np.sqrt((share @ np.square(F - share @ F)).mean()))


def _mean(values, weights):
    """Mean and its standard error, of every column."""
    share = weights / weights.sum()
    mean = share @ values
    return mean, np.sqrt(np.square(share) @ np.square(values - mean))
