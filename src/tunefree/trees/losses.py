"""Losses of boosted trees: best constants, pseudogradients and curvatures, losses, leaf values."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from tunefree.core.jit import fast_exp, kernel, maximum, minimum
from tunefree.trees.tree import leaf_sums

# Scores beyond this are certain; shares of classes are not below this.
_CERTAIN, _RAREST = 500.0, 1e-15


def newton_values(leaves, n_leaves, gradients, curvatures, ridge, scores, targets):
    """The Newton steps of all leaves and outputs."""
    sums = leaf_sums(leaves, n_leaves, gradients)
    return sums / (leaf_sums(leaves, n_leaves, curvatures) + ridge)


def no_shift(scores, targets, weights):
    """What is added to all scores, given those of held-out rows: nothing."""
    return np.zeros(scores.shape[1])


class Deviance(NamedTuple):
    """The deviance of a family."""

    family: Any
    link: Any

    def start(self, sample):
        """The best constant scores of all outputs."""
        mean = self.family.start(sample.targets, sample.weights)
        start = np.asarray(self.link.inverse(self.family.clipped(mean)))
        if np.ndim(sample.offset) == 0:
            return start
        # The constant whose means have the sum of the targets, with a logarithmic link.
        known = self.family.start(self.link.mean(sample.offset), sample.weights)
        return start - self.link.inverse(known)

    def slopes(self, scores, targets):
        """Pseudogradients and curvatures."""
        return (
            -self.family.residuals(self.link, scores, targets)[0],
            self.family.curvature(self.link, scores),
        )

    def losses(self, scores, targets):
        """The deviance of every row."""
        return self.family.residuals(self.link, scores, targets)[1].sum(axis=1)

    values = staticmethod(newton_values)
    shift = staticmethod(no_shift)


class QuantileLoss(NamedTuple):
    """The pinball loss of one quantile an output, and its pseudogradients."""

    family: Any  # `tunefree.parts.families.Quantile`

    def start(self, sample):
        """The quantile of the targets, less their offsets."""
        return self.family.start(sample.targets - sample.offset, sample.weights)

    def slopes(self, scores, targets):
        """Pseudogradients, and curvatures of 1."""
        q = self.family.q
        return q * (targets > scores) - (1.0 - q) * (targets < scores), np.ones_like(scores)

    def losses(self, scores, targets):
        """The pinball loss of every row."""
        return self.family.deviance(targets, scores).sum(axis=1)

    def values(self, leaves, n_leaves, gradients, curvatures, ridge, scores, targets):
        """The values of all leaves, before the step: here curvatures are the weights of rows."""
        weights = leaf_sums(leaves, n_leaves, curvatures)
        out = np.empty((n_leaves, len(ridge)))
        for j, q in enumerate(self.family.q):
            numbers = targets[:, j] - scores[:, j]
            each = curvatures[:, j]
            order = np.argsort(numbers, kind="stable")
            out[:, j] = _leaf_quantiles(leaves, numbers, each, order, q * weights[:, j])
        return out * (weights / (weights + ridge))

    def shift(self, scores, targets, weights):
        """What is added to all scores: the quantile of the residuals of held-out rows."""
        return self.family.start(targets - scores, weights)


@kernel
def _leaf_quantiles(leaves, numbers, weights, order, shares):
    """The first number of every leaf, in this order, up to which the weights reach its share."""
    out, mass = np.zeros(len(shares)), np.zeros(len(shares))
    for i in order:
        leaf = leaves[i]
        least = shares[leaf] * (1.0 - 1e-12)
        if mass[leaf] < least:
            mass[leaf] += weights[i]
            if mass[leaf] >= least:
                out[leaf] = numbers[i]
    return out


class SquaredError(NamedTuple):
    """The squared error; scores are means."""

    def start(self, sample):
        """The means of all outputs, less their offsets."""
        return sample.weights @ (sample.targets - sample.offset) / sample.weights.sum()

    def slopes(self, scores, targets):
        """Pseudogradients and curvatures."""
        return targets - scores, np.ones_like(scores)

    def losses(self, scores, targets):
        """The squared error of every row."""
        gaps = np.square(scores - targets)
        return gaps[:, 0] if gaps.shape[1] == 1 else gaps.sum(axis=1)

    values = staticmethod(newton_values)
    shift = staticmethod(no_shift)


class LogLoss(NamedTuple):
    """The log-loss of two classes, whose scores are log-odds, or of several, by a softmax."""

    def start(self, sample):
        """The scores of the classes' shares."""
        shares = sample.weights @ sample.targets / sample.weights.sum()
        if len(shares) == 1:
            return logit(np.clip(shares, _RAREST, 1.0 - _RAREST))
        logs = np.log(np.maximum(shares, _RAREST))
        return logs - logs.mean()

    def slopes(self, scores, targets):
        """Pseudogradients and curvatures."""
        gradients, curvatures = np.empty_like(scores), np.empty_like(scores)
        slopes = _slopes_of_two if scores.shape[1] == 1 else _slopes_of_several
        slopes(scores, targets, gradients, curvatures)
        return gradients, curvatures

    def losses(self, scores, targets):
        """The log-loss of every row."""
        out = np.empty(len(scores))
        (_losses_of_two if scores.shape[1] == 1 else _losses_of_several)(scores, targets, out)
        return out

    values = staticmethod(newton_values)
    shift = staticmethod(no_shift)


@kernel(borrows=True, unrolls=False)
def _slopes_of_two(scores, targets, gradients, curvatures):
    for i in range(scores.shape[0]):
        p = 1.0 / (1.0 + fast_exp(minimum(maximum(-scores[i, 0], -_CERTAIN), _CERTAIN)))
        gradients[i, 0] = targets[i, 0] - p
        curvatures[i, 0] = p * (1.0 - p)


@kernel(borrows=True, unrolls=False)
def _losses_of_two(scores, targets, out):
    for i in range(scores.shape[0]):
        s = scores[i, 0]
        out[i] = (
            maximum(s, 0.0) - targets[i, 0] * s + np.log1p(fast_exp(maximum(-abs(s), -_CERTAIN)))
        )


@kernel(borrows=True, unrolls=False)
def _highest(scores, i):
    highest = scores[i, 0]
    for c in range(1, scores.shape[1]):
        highest = maximum(highest, scores[i, c])
    return highest


@kernel(borrows=True, unrolls=False)
def _slopes_of_several(scores, targets, gradients, curvatures):
    k = scores.shape[1]
    for i in range(scores.shape[0]):
        highest, total = _highest(scores, i), 0.0
        for c in range(k):
            gradients[i, c] = fast_exp(maximum(scores[i, c] - highest, -_CERTAIN))
            total += gradients[i, c]
        for c in range(k):
            p = gradients[i, c] / total
            gradients[i, c] = targets[i, c] - p
            curvatures[i, c] = p * (1.0 - p)


@kernel(borrows=True, unrolls=False)
def _losses_of_several(scores, targets, out):
    k = scores.shape[1]
    for i in range(scores.shape[0]):
        highest, total, own = _highest(scores, i), 0.0, 0.0
        for c in range(k):
            total += fast_exp(maximum(scores[i, c] - highest, -_CERTAIN))
            own += targets[i, c] * scores[i, c]
        out[i] = np.log(total) + highest - own
