r"""Residuals and bands of several classes, row by row.

With the probabilities p of the classes, the class c of a row, the indices s of the outputs and a
precision w:

============  ===================================================================================
response      y_k - p_k for every class k, where y_k is 1 for the row's class and 0 for others
pearson       sqrt(w) (y_k - p_k) / sqrt(p_k (1 - p_k)) for every class: its variance is 1
working       y_k / p_k - y_0 / p_0 for every class but the first, in log-odds against it; of
              ordered classes (1[c > j] - P(c > j)) / u'(s_j) for every threshold j
deviance      sqrt(-2 w log p_c); of ordered classes with the sign of 'probability'
probability   P(Y < c) - P(Y > c), of ordered classes
quantile      of ordered classes the normal quantile of P(Y < c) + share p_c, with a random share;
              of others that of each class against the rest
============  ===================================================================================

The squares of deviance residuals add up to the deviance. Squares of Pearson's times 1 - p_k add up
to Pearson's statistic. Working residuals are the inverse of Fisher's information times the score.

The band of a probability is by the delta method for its log-odds,

.. math:: \operatorname{logit} p_k \pm t \sqrt{g^\top \Sigma g}, \qquad
    g = \frac{\partial p_k / \partial s}{p_k (1 - p_k)},

with the covariance Sigma of the indices of the row. For two classes that is the band of a logistic
regression.

Source: McCullagh and Nelder 1989, chapter 5; Yee 2015, "Vector generalized linear and additive
models" (working residuals); Dunn and Smyth 1996 (quantiles); Li and Shepherd 2012, "A new residual
for ordinal outcomes" (probabilities); Agresti 2013, "Categorical data analysis" (the delta method).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import expit
from sklearn.utils import check_random_state

from tunefree.core.warn import none_of
from tunefree.parts.families import Tails
from tunefree.uncertainty import classes
from tunefree.uncertainty.mean_bands import unknown_rows, warn_aliased

KINDS = ("deviance", "pearson", "response", "working", "quantile", "probability")


class ClassRows(NamedTuple):
    """The classes of rows, as numbers from 0 on, and the probabilities of all classes.

    Examples
    --------
    >>> from tunefree.parts.families import Ordinal
    >>> rows = ClassRows(Ordinal(), np.array([1]), np.array([[0.2, 0.7, 0.1]]))
    >>> rows.residuals("response")
    array([[-0.2,  0.3, -0.1]])
    >>> rows.residuals("probability").round(2)
    array([0.1])
    """

    family: Any
    codes: np.ndarray  # of shape (n,)
    p: np.ndarray  # of shape (n, n_classes)
    precision: Any = 1.0  # of shape (n,); or 1
    known: Any = True  # of shape (n,): False for rows without probabilities

    @property
    def y(self):
        """1 for the class of a row and 0 for the others."""
        return np.where(self.codes[:, None] == np.arange(self.p.shape[1]), 1.0, 0.0)

    @property
    def rest(self):
        """The probabilities of all classes but one, without cancellation."""
        return self.p @ (1.0 - np.eye(self.p.shape[1]))

    def residuals(self, kind: str, random_state: Any = None) -> np.ndarray:
        """The residuals of a kind: one a row, or one a class."""
        check_kind(kind, self.family)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self._of_kind(kind, random_state)
        known = np.broadcast_to(self.known, len(found))
        return np.where(known if found.ndim == 1 else known[:, None], found, np.nan)

    def _of_kind(self, kind, random_state):
        """The residuals of all rows."""
        if kind == "response":
            return self.y - self.p
        if kind == "working":
            return working(self.family, self.codes, self.p)
        if kind == "probability":
            return self._tails().below - self._tails().above
        if kind == "quantile":
            return self._scores(check_random_state(random_state))
        root = np.sqrt(np.broadcast_to(self.precision, len(self.p)))
        if kind == "pearson":
            return root[:, None] * (self.y - self.p) / np.sqrt(self.p * self.rest)
        size = root * np.sqrt(-2.0 * np.log(self._of_own_class()))
        if not self.family.tied:
            return size
        tails = self._tails()
        return np.where(tails.below < tails.above, -size, size)

    def _of_own_class(self):
        """The probability of the class of each row."""
        return np.take_along_axis(self.p, self.codes[:, None], axis=1)[:, 0]

    def _tails(self):
        """The `Tails` of ordered classes."""
        ones = np.ones(len(self.p))
        up_to, from_on = np.cumsum(self.p, axis=1), np.cumsum(self.p[:, ::-1], axis=1)[:, ::-1]
        up_to, from_on = np.minimum(up_to, 1.0), np.minimum(from_on, 1.0)
        up_to[:, -1], from_on[:, 0] = ones, ones
        below = np.column_stack([0.0 * ones, up_to[:, :-1]])
        above = np.column_stack([from_on[:, 1:], 0.0 * ones])
        own = self.codes[:, None]
        parts = below, up_to, above, from_on
        return Tails(*(np.take_along_axis(part, own, axis=1)[:, 0] for part in parts))

    def _scores(self, random):
        """Quantile residuals: of ordered classes one a row, of others one a class."""
        if self.family.tied:
            return self._tails().normal_scores(random.uniform(size=len(self.p)))
        is_own = self.y == 1.0
        against = Tails(
            below=np.where(is_own, self.rest, 0.0),
            up_to=np.where(is_own, 1.0, self.rest),
            above=np.where(is_own, 0.0, self.p),
            from_on=np.where(is_own, self.p, 1.0),
        )
        return against.normal_scores(random.uniform(size=self.p.shape))


def check_kind(kind, family):
    """Refuse a kind of residuals that is unknown, or that classes without an order do not have."""
    if kind not in KINDS:
        raise none_of("kind", kind, KINDS)
    if kind == "probability" and not family.tied:
        raise ValueError(
            "kind='probability' is not defined for classes without an order: give kind='quantile', "
            "which has a column a class, or family='ordinal'."
        )


def working(family, codes, p):
    """The working residuals of rows."""
    if not family.tied:
        ratio = np.where(codes[:, None] == np.arange(p.shape[1]), 1.0 / p, 0.0)
        return ratio[:, 1:] - ratio[:, :1]
    above = np.cumsum(p[:, :0:-1], axis=1)[:, ::-1]
    below = np.cumsum(p, axis=1)[:, :-1]
    is_above = codes[:, None] > np.arange(above.shape[1])
    error = np.where(is_above, below, -above)
    return error / family.cumulative.slope(family.at_threshold(below, above))


def indices(fit, A, offset=0.0):
    """The columns of rows, with ones; E of `classes`; and the indices of rows of the columns A.

    An aliased column counts as 0. An offset is of all indices, or one for each.
    """
    offset = offset if np.ndim(offset) == 2 else np.reshape(offset, (-1, 1))
    coef = np.nan_to_num(fit.coef)
    d, is_tied = A.shape[1], fit.family.tied
    has_ones = is_tied or len(coef) > fit.n_blocks * d
    D = np.column_stack([A, np.ones(len(A))]) if has_ones else A
    n_outputs = len(coef) - d if is_tied else fit.n_blocks + 1
    E = classes.parameters(fit.family, D.shape[1], n_outputs)
    return D, E, D @ (E @ coef) + offset


def probability_band(fit, columns, rows, alphas, offset=0.0):
    """The probabilities of all classes by a `CoefficientFit`, and their intervals.

    Parameters
    ----------
    fit : CoefficientFit
    columns : TableColumns
    rows : ndarray or CSR of shape (n, d)
    alphas : ndarray of shape (n_alpha,)
    offset : float or ndarray of shape (n,) or (n, n_classes)

    Returns
    -------
    p : ndarray of shape (n, n_classes)
    ends : ndarray of shape (n, n_classes, 2, n_alpha)
    """
    D, E, s = indices(fit, np.asarray(columns.of(rows), dtype=np.float64), offset)
    p = fit.family.probabilities(s)
    rest = p @ (1.0 - np.eye(p.shape[1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = fit.family.slopes(s) / (p * rest)[:, :, None]
        index = np.log(p) - np.log(rest)
    of_indices = classes.leverages(D, E, np.nan_to_num(fit.covariance))
    error = np.sqrt(np.einsum("ncj,njk,nck->nc", slopes, of_indices, slopes))
    reach = stats.t.ppf(1.0 - 0.5 * alphas, fit.df_denom) * error[:, :, None]
    ends = expit(np.stack([index[:, :, None] - reach, index[:, :, None] + reach], axis=2))
    unknown = unknown_rows(columns, rows)
    if unknown.any():
        p[unknown], ends[unknown] = np.nan, np.nan
    warn_aliased(fit)
    return p, ends
