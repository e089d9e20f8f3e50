"""Covariances of coefficients: the sandwich, with groups or without, and the information."""

import functools

import numpy as np

from tunefree.parts.families import Quantile
from tunefree.uncertainty import classes, quantiles

_ON_THE_PLANE = 1e-9  # errors of a quantile, relative to the largest target


class Covariances:
    """The covariances of the coefficients of a fit, by `cov_type`; what they share is kept."""

    def __init__(self, sample, found, statistics):
        self.sample, self.found, self.scale = sample, found, statistics.scale

    def of(self, kind):
        """The covariance of a `cov_type`, of the coefficients of columns; NaN for aliased ones."""
        found, size = self.found, len(self.found.kept)
        covariance = np.full((size, size), np.nan)
        own = self.standardised(kind)
        covariance[np.ix_(found.kept, found.kept)] = found.to_raw @ own @ found.to_raw.T
        return covariance

    @functools.cached_property
    def slopes(self):
        """E of `classes`, and by rows the score, its slope and the information in the indices."""
        return _slopes(self.sample, self.found, in_groups=False)

    @functools.cached_property
    def bread(self):
        """The inverse of the curvature of the loss."""
        E, _, H, _ = self.slopes
        return _inverse(classes.curvature(self.found.A, E, self.sample.weights[:, None, None] * H))

    @functools.cached_property
    def leverages(self):
        """What the leverages of rows are multiples of."""
        return classes.leverages(self.found.A, self.slopes[0], self.bread)

    def standardised(self, kind):
        """The covariance of standardised coefficients, or of the parameters of classes."""
        sample, A = self.sample, self.found.A
        weights, n, each = sample.weights, sample.n, sample.weights[:, None, None]
        if kind == "cluster":
            E, r, *_ = _slopes(sample, self.found, in_groups=True)
            return _clustered(
                classes.scores(A, E, weights[:, None] * r), self.bread, sample.groups, n
            )
        E, r, H, information = self.slopes
        if kind == "nonrobust":
            return self.scale * _inverse(classes.curvature(A, E, each * information))
        if kind in ("HC2", "HC3"):
            counted = H if sample.are_frequencies else each * H
            over_rest = classes.studentized if kind == "HC2" else classes.without_own_row
            r = over_rest(counted, self.leverages, r)
        # A row of frequency w adds w g g', one of precision w adds (w g) (w g)'.
        factors = np.sqrt(weights) if sample.are_frequencies else weights
        g = classes.scores(A, E, factors[:, None] * r)
        factor = n / (n - len(self.found.beta)) if kind == "HC1" else 1.0
        return factor * self.bread @ (g.T @ g) @ self.bread


def _slopes(sample, found, in_groups):
    """E of `classes`, and by rows the score, its slope and the information in the indices."""
    law, y = sample.law, sample.y
    if sample.labels:
        r, H = law.family.residuals(None, found.s, y)[0], law.family.hessian(found.s, y)
        return classes.parameters(law.family, found.A.shape[1], y.shape[1]), r, H, H
    if isinstance(law.family, Quantile):
        score, slope, information = _slopes_of_quantile(sample, found, in_groups)
    else:
        score, slope = law.score(found.s, y), law.slope(found.s, y)
        information = law.information(found.s)
    one_index = np.eye(len(found.beta))[:, None]
    return one_index, score[:, None], slope[:, None, None], information[:, None, None]


def _slopes_of_quantile(sample, found, in_groups):
    """Scores, and their slope and information by the density of the errors at 0.

    The scores `in_groups` are added, others squared.
    """
    y, q, n = sample.y, float(sample.law.family.q[0]), len(sample.y)
    errors = y - sample.law.mean(found.s)
    counts = sample.weights if sample.are_frequencies else np.ones(n)
    f = quantiles.density(errors, y, counts, q)
    score = (1.0 - q) - found.above
    if not in_groups:
        on_plane = np.abs(errors) <= _ON_THE_PLANE * np.abs(y).max()
        score = quantiles.scores(found.above, on_plane, counts, len(found.beta), q)
    return score, np.full(n, f), np.full(n, f * f / (q * (1.0 - q)))


def _clustered(scores, bread, groups, n):
    """The covariance for scores of rows that depend on each other within groups."""
    n_groups, k = int(groups.max()) + 1, scores.shape[1]
    sums = np.zeros((n_groups, k))
    np.add.at(sums, groups, scores)
    factor = n_groups / (n_groups - 1.0) * (n - 1.0) / (n - k)
    return factor * bread @ (sums.T @ sums) @ bread


def _inverse(curvature):
    """The inverse of the curvature of the loss."""
    try:
        return np.linalg.inv(curvature)
    except np.linalg.LinAlgError:
        raise ValueError(
            "The loss is flat at its minimum, so that coefficients have no standard errors: give "
            "more rows, or fewer columns."
        ) from None
