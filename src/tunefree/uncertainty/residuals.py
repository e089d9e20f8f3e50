r"""Residuals of generalized linear models, row by row.

With a target y per unit of exposure e, its mean mu = u(s), the variance function V, the unit
deviance d and a precision w:

============  =====================================================================
response      e (y - mu): in the units of the targets
working       (y - mu) / u'(s): in the units of the index
pearson       sqrt(w e) (y - mu) / sqrt(V(mu))
deviance      sign(y - mu) sqrt(w e d(y, mu))
quantile      the normal quantile of P(Y <= y); of a jump a random part (seeded)
probability   P(Y < y) - P(Y > y): between -1 and 1, with the mean 0
============  =====================================================================

Squares of Pearson's and of deviance residuals add up to the statistics of the model. Quantile
residuals of a true model are exactly normal, for every family and every mean.

Source: McCullagh and Nelder 1989, section 2.4; Dunn and Smyth 1996 (quantile residuals); Li and
Shepherd 2012 (probability residuals).
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from tunefree.core.warn import none_of
from tunefree.parts.families import HuberT, Quantile

KINDS = ("deviance", "pearson", "response", "working", "quantile", "probability")


class PartialResiduals(NamedTuple):
    """The partial residuals of one column, row by row.

    Attributes
    ----------
    name : str
        Of the column.
    values : ndarray of shape (n_samples,)
        Of the column: numbers, or the names of levels.
    effect : ndarray of shape (n_samples,)
        What the column adds to the index; its mean is 0.
    residuals : ndarray of shape (n_samples,)
        The effect plus the working residual.
    weights : ndarray of shape (n_samples,)
        One over the variances of the residuals, up to the dispersion.
    """

    name: str
    values: np.ndarray
    effect: np.ndarray
    residuals: np.ndarray
    weights: np.ndarray


class FittedRows(NamedTuple):
    """Targets and means of rows per unit of exposure, each of shape (n, k)."""

    family: Any
    link: Any
    y: np.ndarray
    mean: np.ndarray
    index: np.ndarray
    exposure: Any  # of shape (n, 1), of which y is a rate; or 1
    precision: Any  # of shape (n, 1); or 1
    known: Any = True  # of shape (n, 1): False for rows without a mean, whose residuals are NaN

    def residuals(self, kind: str, scale: Any = 1.0, random_state: Any = None) -> np.ndarray:
        """The residuals of a kind, of the shape of the targets.

        Examples
        --------
        >>> from tunefree.parts.families import Poisson
        >>> y, mean = np.array([[0.0], [4.0]]), np.array([[1.0], [1.0]])
        >>> rows = FittedRows(Poisson(), Poisson().link, y, mean, np.log(mean), 1.0, 1.0)
        >>> rows.residuals("pearson")[:, 0]
        array([-1.,  3.])
        """
        check_kind(kind, self.family)
        return np.where(self.known, self._of_kind(kind, scale, random_state), np.nan)

    def _of_kind(self, kind, scale, random_state):
        """The residuals of all rows."""
        error = self.y - self.mean
        if kind == "response":
            return self.exposure * error
        if kind == "working":
            return error / self.link.slope(self.index)
        mean = self.family.clipped(self.mean)
        if kind == "pearson":
            return np.sqrt(self.weight) * error / np.sqrt(self.family.variance(mean))
        if kind == "deviance":
            square = np.maximum(self.family.deviance(self.y, mean), 0.0)
            return np.sign(error) * np.sqrt(self.weight * square)
        share = check_random_state(random_state).uniform(size=self.y.shape)
        # A variance is scale / precision; where the scale is known to be 1, a count has none.
        scale = 1.0 if self.family.unit_scale else scale / self.precision
        with np.errstate(divide="ignore", invalid="ignore"):
            tails = self.family.tails(self.y, mean, self.exposure, scale)
            return (
                tails.below - tails.above if kind == "probability" else tails.normal_scores(share)
            )

    def dispersion(self) -> float:
        """Pearson's estimate of the dispersion; 1 where it is known, or there is no variance."""
        if self.family.unit_scale or isinstance(self.family, HuberT):
            return 1.0
        return float(np.mean(np.square(self.residuals("pearson"))))

    @property
    def weight(self) -> Any:
        """Over the variance function: one over the variance, up to the dispersion."""
        return self.exposure * self.precision


def check_kind(kind, family):
    """Refuse a kind of residuals that is unknown, or that a family does not have."""
    if kind not in KINDS:
        raise none_of("kind", kind, KINDS)
    name = type(family).__name__
    has_variance = not isinstance(family, HuberT | Quantile)
    if not has_variance and kind not in ("response", "working"):
        raise ValueError(
            f"kind={kind!r} is not defined for the family {name}, which has no distribution: give "
            "kind='response'."
        )
    if kind in ("quantile", "probability") and family.tails is None:
        raise ValueError(
            f"kind={kind!r} needs the method tails of the family {name}: give kind='deviance'."
        )


def refuse_classes(what, labels):
    """Refuse several classes of one output each, whose probabilities are not those of one model."""
    raise ValueError(
        f"{what} not defined for {len(labels)} classes with an output each: give "
        "family='multinomial' or 'ordinal'."
    )
