r"""Stacking: a weighted sum of models, fitted to their held-out predictions.

Classes: log-odds :math:`\sum_k a_k F_k(x) + b` with :math:`a_k \ge 0`, which minimize the log-loss
of held-out rows plus :math:`10^{-3} |b|^2`. Targets: :math:`m + \sum_k a_k (F_k(x) - m)` with their
mean m and :math:`a_k \ge 0`, which minimize the squared error.

A model is dropped if the loss without it grows by less than a quarter of its standard error, or by
less than a thousandth. The sum is then shrunk towards the constant by `robust.shrinkage_factor`.
The mean of the remaining residuals of targets is added where it exceeds its standard error, so that
predictions have the right sum.

Source: Wolpert 1992 (stacked generalization); Breiman 1996 (non-negative weights).
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, softmax

from tunefree.robust import shares_as_scores, shrinkage_factor, shrinkage_factor_of_classes

_OFFSETS = 1e-3
# Bounds of the weights' logarithms, in units of one over the scores' size.
_LOG_BOUNDS = (-7.0, 7.0)
# Gains up to so many standard errors, or up to this share of the loss, are ignored.
_NEGLIGIBLE, _TIED = 0.25, 1e-3


class Stack(NamedTuple):
    """Weights of models."""

    weights: np.ndarray  # of shape (n_models,)
    offsets: np.ndarray  # of shape (n_outputs,)
    shares: np.ndarray  # weight times size of the scores, of shape (n_models,); they sum to 1
    losses: np.ndarray  # log-losses or squared errors of the rows it was fitted to, (n_rows,)

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


def stack_classes(scores, codes, weights, *, whole=True, optimism=0.0):
    """The stack of least log-loss: `whole`, or shrunk towards the constant.

    Parameters
    ----------
    scores : list of ndarray of shape (n, 1) or (n, n_classes)
        Held-out scores of every model.
    codes : ndarray of int of shape (n,)
    weights : ndarray of shape (n,)
    whole : bool, default=True
        Whether the stack is not shrunk.
    optimism : float, default=0
        Degrees of freedom a row that the models' search took from these rows: the argument `spent`
        of `robust.shrinkage_factor`.

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
    # Smoothed labels, as if two more rows had been of every class in equal parts: weights stay
    # finite on separable data.
    labels = (total * np.eye(width)[codes] + 2.0 / width) / (total + 2.0)
    share = weights / total

    def fit(models):
        sizes = [max(_size(F, share), 1e-300) for F in models]
        models = [F / size for F, size in zip(models, sizes, strict=True)]
        m, k = len(models), models[0].shape[1]

        def risk(theta):
            a, b = np.exp(theta[:m]), theta[m:]
            Z = sum(x * F for x, F in zip(a, models, strict=True)) + b
            logs = log_softmax(_both(Z), axis=1)
            gap = (share[:, None] * (np.exp(logs) - labels))[:, -k:]
            gradient = [x * np.vdot(gap, F) for x, F in zip(a, models, strict=True)]
            return (
                -np.vdot(share[:, None] * labels, logs) + _OFFSETS * b @ b,
                np.concatenate([gradient, gap.sum(axis=0) + 2.0 * _OFFSETS * b]),
            )

        start = np.concatenate([np.full(m, np.log(1.5 / m)), np.zeros(k)])
        bounds = [_LOG_BOUNDS] * m + [(None, None)] * k
        theta = minimize(risk, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        a = np.exp(theta[:m])
        a[theta[:m] <= _LOG_BOUNDS[0] + 1e-6] = 0.0
        joined = sum(x * F for x, F in zip(a, models, strict=True)) + theta[m:]
        return a / sizes, theta[m:], a / max(a.sum(), 1e-300), log_losses(joined, codes)

    stack = _pruned(fit, scores, weights)
    if whole:
        return stack
    null = shares_as_scores(codes, weights, scores[0].shape[1])
    return _shrunk(stack, scores, null, codes, weights, optimism)


def stack_targets(predictions, targets, weights, spread, optimism=0.0):
    """The stack of least squared error, targets in units of their spreads.

    Parameters
    ----------
    predictions : list of ndarray of shape (n, n_targets)
    targets : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,)
    spread : ndarray of shape (n_targets,)
    optimism : float, default=0
        See `stack_classes`.

    Returns
    -------
    Stack
    """
    share = weights / weights.sum()
    mean, scale = share @ targets, np.sqrt(share[:, None] / spread)

    def fit(models):
        columns = np.column_stack([((F - mean) * scale).ravel() for F in models])
        a, _ = nnls(columns, ((targets - mean) * scale).ravel())
        sizes = a * np.sqrt(np.square(columns).sum(axis=0))
        joined = mean + sum(x * (F - mean) for x, F in zip(a, models, strict=True))
        losses = (np.square(joined - targets) / spread).sum(axis=1)
        return a, mean * (1.0 - a.sum()), sizes / max(sizes.sum(), 1e-300), losses

    stack = _pruned(fit, predictions, weights)
    step, truth = ((y - mean) / np.sqrt(spread) for y in (stack.join(predictions), targets))
    each = np.repeat(weights, step.shape[1])
    factor = float(
        shrinkage_factor(step.reshape(-1, 1), truth.reshape(-1, 1), each, spent=optimism)[0]
    )
    gap, error = _mean(truth - factor * step, weights)
    # Adding the gap is expected to lower the squared error of new rows by gap**2 - error**2.
    gap = np.where(np.abs(gap) > error, gap, 0.0)
    if factor == 1.0 and not gap.any():
        return stack
    losses = np.square(factor * step + gap - truth).sum(axis=1)
    offsets = mean * (1.0 - factor * stack.weights.sum()) + gap * np.sqrt(spread)
    return Stack(factor * stack.weights, offsets, stack.shares, losses)


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

    def fit(models):
        columns, m = np.column_stack(models), len(models)
        columns = np.maximum(columns, least)

        def risk(theta):
            a = np.exp(theta)
            mean = family.clipped(columns @ a)
            slope = 2.0 * share * (mean - targets[:, 0]) / family.variance(mean)
            return share @ family.deviance(targets[:, 0], mean), a * (slope @ columns)

        theta = minimize(
            risk, np.full(m, -np.log(m)), jac=True, method="L-BFGS-B", bounds=[_LOG_BOUNDS] * m
        ).x
        a = np.where(theta <= _LOG_BOUNDS[0] + 1e-6, 0.0, np.exp(theta))
        sizes = a * (share @ columns)
        losses = family.deviance(targets[:, 0], family.clipped(columns @ a))
        return a, np.zeros(1), sizes / max(sizes.sum(), 1e-300), losses

    return _pruned(fit, predictions, weights)


def _shrunk(stack, scores, null, codes, weights, optimism):
    """The stack of classes, shrunk towards the log-odds of the classes' shares."""
    joined = stack.join(scores)
    prior, p = (softmax(_both(each), axis=1) for each in (null[None], joined))
    factor = shrinkage_factor_of_classes(p, prior[0], codes, weights, optimism)
    if factor == 1.0:
        return stack
    losses = log_losses(null + factor * (joined - null), codes)
    offsets = null + factor * (stack.offsets - null)
    return Stack(factor * stack.weights, offsets, stack.shares, losses)


def _both(scores):
    """Scores of both classes, where only those of the second were given."""
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


def least_mean(targets):
    """The lower limit of positive means: half the smallest positive target."""
    positive = targets[targets > 0.0]
    return 0.5 * float(positive.min()) if len(positive) else 1e-300


def _pruned(fit, scores, weights):
    """Fit, then drop models that the stack does not need, the smallest share first.

    Of models with equal shares the last one goes first.
    """
    kept = list(range(len(scores)))
    a, b, shares, losses = fit(scores)
    for i in sorted(kept, key=lambda i: (round(float(shares[i]), 1), -i))[:-1]:
        rest = [j for j in kept if j != i]
        without = fit([scores[j] for j in rest])
        gain, error = _mean(without[-1] - losses, weights)
        negligible = max(_NEGLIGIBLE * error, _TIED * _mean(losses, weights)[0])
        if shares[kept.index(i)] == 0.0 or gain <= negligible:
            kept, (a, b, shares, losses) = rest, without
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
