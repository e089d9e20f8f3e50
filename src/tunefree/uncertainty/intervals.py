r"""Intervals and sets from what was said of rows left out: split-conformal quantiles and CV+.

With scores s_i of n rows left out, r is the score of rank ceil((1 - alpha)(n + 1)). A target lies
within :math:`f(x) \pm r\,\sigma(x)`, :math:`s_i = |y_i - f_{-i}(x_i)| / \sigma_{-i}(x_i)`, a class
c in the set where 1 - p_c(x) <= r. That covers 1 - alpha if the scores are exchangeable with that
of the new row. Scores of a refit on all rows are not quite (it is better by the rows that they left
out, its kernel's rates saw them): there no finite-sample guarantee is claimed. With the K models
that left the rows out at hand, each with a scale of its own rows, CV+ covers at least

.. math:: 1 - 2\alpha - \min\{2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1)\}.

The scale is a ridge regression of log(|r| + .05 median|r|) on at most 100 landmarks, of the
prediction alone or with the columns, with bandwidth and penalty by leave-one-out (with groups:
by folds of whole groups).

Many targets may have one value, an atom. Then the scores of its rows are nearly equal, and an
interval may end just beside the atom, because the final model predicts a little else than the
models that left rows out. So the scores of these rows are raised by how far the predictions of the
atom's rows have moved, quantile by quantile (`allowance`).

Rows of a group are one draw: with G groups the rank is that of (1 - alpha)(G + 1) of G, as in
hierarchical conformal prediction.

Source: Vovk, Gammerman and Shafer 2005; Lei et al. 2018 (local scale); Barber et al. 2021 (CV+);
Romano, Sesia and Candes 2020 (sets by CV+, APS); Sadinle, Lei and Wasserman 2019 (LAC); Dunn,
Wasserman and Ramdas 2022 (groups). The allowance for atoms is this library's.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np

from tunefree.columns import coordinates
from tunefree.kernels import RBF
from tunefree.learners.kernel.geometry import Geometry
from tunefree.learners.kernel.nystroem import make_landmarks, solve

# The scale: bandwidths in root mean square distances of a column, landmarks, part of the median
# that keeps logarithms finite, share of its values that is cut off on either side.
_BANDS, _MARKS, _FLOOR, _CUT = (0.5, 1.0, 2.0), 100, 0.05, 0.005
# Fewer rows than this do not tell where the noise is.
_FEWEST = 40
# What the choice of a scale and of sides is judged at.
_ALPHA = 0.1
# A value that so large a share of the targets has is an atom.
_ATOM = 0.02
_NEAR = 1e-6  # of the targets' range: targets that have been in other units are equal to that
# Of Pearson residuals: rows a bin of predictions, at least, and bins.
_A_BIN, _MOST_BINS = 100, 5
_FOLDS = 10  # of groups, for the local scale
_ROWS = 2048  # rows shown to a scale together
_NUMBERS = 4e6  # ends of intervals held together


def rates(alpha):
    """The misses asked for, as an array of shape (n_alpha,).

    >>> rates(0.1), rates([0.1, 0.2])
    (array([0.1]), array([0.1, 0.2]))
    """
    out = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    if out.ndim != 1 or not len(out) or not ((out > 0.0) & (out < 1.0)).all():
        raise ValueError(f"alpha={alpha!r} is not between 0 and 1, nor a list of such numbers.")
    return out


def effective(weights):
    """How many rows weights stand for: whole ones their sum, others (sum w)^2 / sum w^2."""
    if not len(weights):
        return 0.0
    if (weights == np.round(weights)).all():
        return float(weights.sum())
    return float(weights.sum() ** 2 / np.square(weights).sum())


def quantiles(scores, weights, alphas, n_groups=None):
    """The least scores with a share of (1 - alpha)(n + 1) / n of the weight at or below them.

    n counts the rows, or the groups if there are any. Infinite, with a warning, where n is below
    1 / alpha - 1.

    >>> quantiles(np.arange(1.0, 20.0), np.ones(19), np.array([0.1, 0.05]))
    array([18., 19.])
    """
    n, order = n_groups or effective(weights), np.argsort(scores, kind="stable")
    total = np.append(np.cumsum(weights[order]) * (n / max(weights.sum(), 1e-300)), np.inf)
    place = np.searchsorted(total, (1.0 - alphas) * (n + 1.0) * (1.0 - 1e-12))
    if (place == len(scores)).any():
        warnings.warn(
            f"{n:.0f} {'groups' if n_groups else 'rows'} left out are fewer than 1 / alpha - 1 at "
            f"alpha={alphas.min():g}: there is no limit to what may come.",
            stacklevel=4,
        )
    return np.append(scores[order], np.inf)[place]


def in_order(groups):
    """Groups by the numbers 0, 1, 2 ... in the order of their first rows.

    >>> in_order(np.array(["b", "a", "b", "c"]))
    array([0, 1, 0, 2])
    """
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def atoms(y):
    """The values that at least 2 % of the targets have, and more than one of them.

    >>> atoms(np.array([0.0, 0.0, 0.0, 1.5, 2.5]))
    array([0.])
    """
    values, counts = np.unique(y, return_counts=True)
    return values[(counts >= _ATOM * len(y)) & (counts > 1)]


def allowance(held_out, y, final, known, values):
    """How far predictions of the rows of each atom have moved from the held-out to the final ones.

    Parameters
    ----------
    held_out, y : ndarray of shape (n,)
        Held-out predictions, and targets.
    final, known : ndarray of shape (n_final,)
        Predictions of the final model, and the targets of these rows.
    values : ndarray of shape (n_atoms,)

    Returns
    -------
    ndarray of shape (n,)
        For a row of an atom the distance of its prediction from the final prediction of the same
        rank within the atom, and a little for rounding; 0 for other rows.

    Examples
    --------
    >>> y, values = np.array([0.0, 0.0, 7.0]), np.array([0.0])
    >>> allowance(np.array([0.1, 0.2, 6.0]), y, np.array([0.1, 0.4, 5.0]), y, values).round(3)
    array([0. , 0.2, 0. ])
    """
    out = np.zeros(len(y))
    if not len(y):
        return out
    near = _NEAR * np.ptp(y)
    for value in values:
        rows = np.flatnonzero(np.abs(y - value) <= near)
        order = rows[np.argsort(held_out[rows], kind="stable")]
        ranks = (np.arange(len(rows)) + 0.5) / max(len(rows), 1)
        moved = np.quantile(final[np.abs(known - value) <= near], ranks, method="hazen")
        out[order] = np.abs(moved - held_out[order]) + near
    return out


def interval_score(low, high, y, alpha):
    """Width, and 2 / alpha times what a target lies outside (Gneiting and Raftery 2007).

    >>> interval_score(np.zeros(2), np.ones(2), np.array([0.5, 1.5]), 0.1)
    array([ 1., 11.])
    """
    return high - low + 2.0 / alpha * (np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0))


class Constant(NamedTuple):
    """The same scale everywhere."""

    value: float

    def of(self, predictions, X):
        """The scale of rows: predictions of shape (n,)."""
        return np.full(len(predictions), self.value)


class Binned(NamedTuple):
    """The scale 1, with quantiles of their own for the predictions between each two cuts.

    Attributes
    ----------
    cuts : ndarray of shape (n_bins - 1,)
    bins : ndarray of int of shape (n,)
        The bin of each row left out.
    """

    cuts: np.ndarray
    bins: np.ndarray

    @classmethod
    def by(cls, predictions, weights):
        """Bins of equal weight, of at least 100 rows each."""
        n_bins = int(np.clip(effective(weights) // _A_BIN, 1, _MOST_BINS))
        order = np.argsort(predictions, kind="stable")
        mass = np.cumsum(weights[order]) / weights.sum()
        cuts = predictions[order][np.searchsorted(mass, np.arange(1, n_bins) / n_bins)]
        return cls(cuts, np.searchsorted(cuts, predictions))

    def of(self, predictions, X):
        """The scale of rows."""
        return np.ones(len(predictions))


class Local(NamedTuple):
    """A scale that depends on the prediction, and on the columns if there is a `view` of them.

    Attributes
    ----------
    own : part
        The readings of the prediction (`tunefree.columns.Coordinates`).
    view : part or None
        Those of the columns.
    marks : part
        Landmarks, with their kernel.
    coef : ndarray of shape (n_landmarks, 1)
    intercept, low, high : float
        Of the logarithm, and its ends.
    """

    own: Any
    view: Any
    marks: Any
    coef: np.ndarray
    intercept: float
    low: float
    high: float

    def of(self, predictions, X):
        """The scale of rows: predictions of shape (n,), and the columns."""
        out = np.empty(len(predictions))
        for start in range(0, len(predictions), _ROWS):
            part = slice(start, start + _ROWS)
            Z = self.shown(predictions[part], None if X is None else X[part])
            logs = self.marks.values(self.marks.geometry.show(Z)) @ self.coef + self.intercept
            out[part] = np.exp(np.clip(logs[:, 0], self.low, self.high))
        return out

    def shown(self, predictions, X):
        """Rows as the kernel takes them, before its rates."""
        z = self.own.show(predictions[:, None])
        if self.view is None:
            return z
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        return np.hstack([self.view.show(X), z])


def _local(view, predictions, residuals, weights, X, groups=None):
    """A local scale, and its values for rows, or whole groups, that it has not seen."""
    share, size = weights / weights.sum(), np.abs(residuals)
    logs = np.log(size + _FLOOR * np.median(size) + 1e-300)[:, None]
    own = coordinates(predictions[:, None], weights)
    blank = Local(own, view, None, logs, 0.0, float(logs.min()), float(logs.max()))
    Z, best = blank.shown(predictions, X), None
    for band in _BANDS:
        q = Z.shape[1]
        geometry = Geometry(RBF(), np.full(q, 0.5 / (q * band**2)), 1e-3, 0.0)
        A = geometry.show(Z)
        marks = make_landmarks(A[:_MARKS], geometry)
        found, told = _log_scale(marks, A, logs, weights)
        folds = np.empty(0) if groups is None else groups % _FOLDS
        for fold in np.unique(folds):
            out = folds == fold
            if not out.all():
                told[out] = _log_scale(marks, A, logs, np.where(out, 0.0, weights))[1][out]
        risk = share @ np.square(told - logs)
        i = int(np.argmin(risk))
        if best is None or risk[i] < best[0]:
            best = risk[i], marks.alone(), found.coef[:, i], found.intercept[i, 0], told[:, i]
    assert best is not None
    _, marks, coef, intercept, told = best
    ends = np.clip(np.quantile(told, [_CUT, 1.0 - _CUT]), blank.low, blank.high)
    scale = blank._replace(
        marks=marks, coef=coef, intercept=float(intercept), low=float(ends[0]), high=float(ends[1])
    )
    return scale, np.exp(np.clip(told, *ends))


def _log_scale(marks, A, logs, weights):
    """Ridge regressions of the logarithms, and their leave-one-out values (n, n_penalties).

    Rows of weight 0 have the values of the fit, which has not seen them.
    """
    found = solve(marks, lambda a, b: A[a:b].astype(float), len(A), logs, weights)
    return found, found.held_out[:, :, 0]


class Residuals(NamedTuple):
    """What is known of rows left out, of one target.

    Attributes
    ----------
    residuals : ndarray of shape (n,)
        Targets less what was predicted, in units of the rows.
    sigma : ndarray of shape (n,)
        The scale as the others have it.
    weights : ndarray of shape (n,)
    scale : Constant, Local or Binned
    two_sided : bool
        Whether either end has a quantile of its own.
    targets : ndarray of shape (n,)
    allowance : ndarray of shape (n,)
        What is added to the residuals' size (`allowance`).
    n_groups : int or None
        How many groups the rows are of.
    """

    residuals: np.ndarray
    sigma: np.ndarray
    weights: np.ndarray
    scale: Any
    two_sided: bool = False
    targets: Any = None
    allowance: Any = 0.0
    n_groups: int | None = None

    def scores(self):
        """Absolute residuals in units of the scale."""
        return (np.abs(self.residuals) + self.allowance) / self.sigma

    @classmethod
    def of(
        cls, predictions, y, weights, X=None, view=None, *, groups=None, n_groups=None, unit=None
    ):
        """Of predictions of rows left out; a local scale or two sides only where they pay.

        That is where the interval score of these rows gains more than a standard error. The local
        scale leaves rows of equal `groups` out together. With a `unit`, the standard deviations
        that a family has, up to a factor, residuals are Pearson's, with quantiles for each bin.
        """
        predictions, y = (np.asarray(a, dtype=np.float64) for a in (predictions, y))
        if unit is not None:
            scale = Binned.by(predictions, weights)
            several = len(y) >= _FEWEST
            return cls(
                (y - predictions) / unit, scale.of(predictions, None), weights, scale, several, y
            )
        residuals = y - predictions
        size = float(np.average(np.abs(residuals), weights=weights)) if len(y) else 1.0
        plain = Constant(size or 1.0)
        groups = None if groups is None else in_order(groups)
        best = cls(residuals, plain.of(predictions, None), weights, plain, False, y)
        if len(y) < _FEWEST or not residuals.any():
            return best._replace(n_groups=n_groups)
        cost = best._costs()
        varied = np.ptp(predictions) > 1e-9 * np.abs(predictions).max()
        for seen in ((None,) if view is None else (None, view)) if varied else ():
            scale, sigma = _local(seen, predictions, residuals, weights, X, groups)
            local = best._replace(sigma=sigma, scale=scale)
            errors = 1.0 if best.scale is plain else 0.0
            best, cost = local._better(best, cost, errors, groups)
        best, _ = best._replace(two_sided=True)._better(best, cost, 1.0, groups)
        return best._replace(n_groups=n_groups)

    def _better(self, best, cost, errors, groups=None):
        """Itself and its costs if these are lower by so many standard errors, else the best."""
        own = self._costs()
        gain, share = cost - own, self.weights / self.weights.sum()
        mean = share @ gain
        parts = share * (gain - mean)
        if groups is not None:
            parts = np.bincount(groups, parts)
        error = np.sqrt(np.square(parts).sum())
        return (self, own) if mean > errors * error else (best, cost)

    def _costs(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            low, high = self.ends(np.array([_ALPHA]))
        ends = (self.sigma * low[0], self.sigma * high[0])
        return interval_score(*ends, self.residuals, _ALPHA)

    def ends(self, alphas, predictions=None):
        """The ends of an interval of scale 1 about 0: two arrays of shape (n_alpha,).

        With bins they depend on the predictions `said`, and have shape (n, n_alpha).
        """
        every = self._ends_of(slice(None), alphas)
        if predictions is None or not isinstance(self.scale, Binned):
            return every
        low, high = (np.tile(end, (len(predictions), 1)) for end in every)
        place = np.searchsorted(self.scale.cuts, predictions)
        for b in range(len(self.scale.cuts) + 1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                own = self._ends_of(self.scale.bins == b, alphas)
            rows = place == b  # a bin of too few rows has the ends of all
            low[rows], high[rows] = (
                np.where(np.isfinite(end), end, whole)
                for end, whole in zip(own, every, strict=True)
            )
        return low, high

    def _ends_of(self, rows, alphas):
        """The ends by some of the rows."""
        weights = self.weights[rows]
        if not self.two_sided:
            reach = quantiles(self.scores()[rows], weights, alphas, self.n_groups)
            return -reach, reach
        above = ((self.allowance + self.residuals) / self.sigma)[rows]
        below = ((self.allowance - self.residuals) / self.sigma)[rows]
        half = 0.5 * alphas
        low = quantiles(below, weights, half, self.n_groups)
        high = quantiles(above, weights, half, self.n_groups)
        return np.minimum(-low, high), high


class HeldOutPredictions(NamedTuple):
    """What was said of rows that had not been learned, and what they were.

    Attributes
    ----------
    said, targets : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,)
    unit : ndarray of shape (n, n_targets) or None
        Standard deviations of the targets as a family has them, up to a factor.
    allowance : ndarray of shape (n, n_targets) or None
        See `Residuals`.
    """

    predictions: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    unit: Any = None
    allowance: Any = None

    @classmethod
    def of_residuals(cls, parts):
        """Of `Residuals` of every target: the residuals stand for the targets."""
        y = np.stack([part.residuals for part in parts], axis=1)
        return cls(np.zeros_like(y), y, parts[0].weights)

    def parts(self):
        """`Residuals` of every target."""
        out = []
        for j, (predictions, y) in enumerate(zip(self.predictions.T, self.targets.T, strict=True)):
            unit = None if self.unit is None else self.unit[:, j]
            part = Residuals.of(predictions, y, self.weights, unit=unit)
            if self.allowance is not None:
                part = part._replace(allowance=self.allowance[:, j])
            out.append(part)
        return tuple(out)

    def losses(self):
        """Squared errors, of several targets their mean in units of variances."""
        square = np.square(self.predictions - self.targets)
        if square.shape[1] == 1:
            return square[:, 0]
        variance = np.average(
            np.square(self.targets - self.targets.mean(axis=0)), axis=0, weights=self.weights
        )
        return (square / np.where(variance > 0.0, variance, 1.0)).mean(axis=1)


def intervals(parts, y, sigma, alphas, joint=False):
    """Intervals of shape (n, n_targets, 2, n_alpha) about predictions of shape (n, n_targets).

    `parts` are the targets' `Residuals`, `sigma` the scales of the predictions. Jointly, one
    quantile is of the largest score of a row.
    """
    out, reach = np.empty((*y.shape, 2, len(alphas))), np.empty(0)
    if joint:
        scores = np.max([p.scores() for p in parts], axis=0)
        reach = quantiles(scores, parts[0].weights, alphas, parts[0].n_groups)
    for j, part in enumerate(parts):
        low, high = (-reach, reach) if joint else part.ends(alphas, y[:, j])
        predictions, unit = y[:, j, None].astype(np.float64), sigma[:, j, None]
        out[:, j, 0], out[:, j, 1] = predictions + unit * low, predictions + unit * high
    return out


class Scores(NamedTuple):
    """|residual| / sigma of rows that a model left out, by the model itself.

    Attributes
    ----------
    scores : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,)
    """

    scores: np.ndarray
    weights: np.ndarray


def plus_interval(scores, weights, predictions, sigma, alphas):
    """CV+ of one target: ends of shape (n, 2, n_alpha).

    Parameters
    ----------
    scores, weights : list of ndarray
        |residual| / sigma of the rows that each model left out.
    said, sigma : list of ndarray of shape (n,)
        Of new rows, by each model.
    alphas : ndarray of shape (n_alpha,)
    """
    w, n = np.concatenate(weights), len(predictions[0])
    out, step = np.empty((n, 2, len(alphas))), max(1, int(_NUMBERS / max(len(w), 1)))
    for start in range(0, n, step):
        part = slice(start, start + step)
        for side, sign in enumerate((-1.0, 1.0)):
            ends = [
                sign * f[part, None] + s * scale[part, None]
                for f, s, scale in zip(predictions, scores, sigma, strict=True)
            ]
            out[part, side] = sign * _row_quantiles(np.hstack(ends), w, alphas)
    return out


def _row_quantiles(scores, weights, alphas):
    """`quantiles` of every row of scores, shape (n, n_alpha)."""
    ranks = np.ceil((1.0 - alphas) * (len(weights) + 1.0) * (1.0 - 1e-12)).astype(int)
    if (weights == 1.0).all() and ranks.max() <= len(weights):
        return np.partition(scores, ranks - 1, axis=1)[:, ranks - 1]
    return np.array([quantiles(row, weights, alphas) for row in scores])


def lacks(p, score="lac"):
    """How far each class is from being the likely one, of the shape of the probabilities.

    'lac' is 1 - p_c; 'aps' is the probability of the classes before c, the likeliest first, and of
    c itself.

    >>> lacks(np.array([[0.5, 0.3, 0.2]]), "aps")
    array([[0.5, 0.8, 1. ]])
    """
    if score == "lac":
        return 1.0 - p
    if score != "aps":
        raise ValueError(f"score={score!r} is neither 'lac' nor 'aps'.")
    order = np.argsort(-p, axis=1, kind="stable")
    out = np.empty_like(p)
    np.put_along_axis(out, order, np.cumsum(np.take_along_axis(p, order, axis=1), axis=1), axis=1)
    return out


class HeldOutProbabilities(NamedTuple):
    """What is known of rows left out, of classes.

    Attributes
    ----------
    p : ndarray of shape (n, n_classes)
        Probabilities that were said of them.
    codes : ndarray of int of shape (n,)
    weights : ndarray of shape (n,)
    mistakes, rows : int or None
        Of a whole stream whose rows, of weight 1 each, were predicted before they were learned.
    rivals : int
        How many members of the stream's portfolio the mistakes are those of the best of.
    """

    p: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    mistakes: int | None = None
    rows: int | None = None
    rivals: int = 1

    def wrong(self):
        """1 where another class was likelier."""
        return (self.p.argmax(axis=1) != self.codes).astype(np.float64)

    def own(self, score="lac"):
        """What each row lacked."""
        return lacks(self.p, score)[np.arange(len(self.codes)), self.codes]

    def sets(self, p, alphas, score="lac", class_conditional=False):
        """Sets of shape (n, n_classes, n_alpha) of rows with these probabilities.

        With a rate kept in every class a class of fewer than 1 / alpha - 1 rows is always in.
        """
        own, told = self.own(score), lacks(p, score)[:, :, None]
        if not class_conditional:
            return told <= quantiles(own, self.weights, alphas) + 1e-12
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reach = [
                quantiles(own[self.codes == c], self.weights[self.codes == c], alphas)
                for c in range(p.shape[1])
            ]
        return told <= np.array(reach) + 1e-12


def plus_set(parts, p, alphas, score="lac"):
    """CV+ of classes: those that do not lack more than too many rows did, (n, n_classes, n_alpha).

    `parts` are the `HeldOutProbabilities` of each model's held-out rows, `p` the models'
    probabilities of new rows.
    """
    worse: Any = 0.0
    for part, own in zip(parts, p, strict=True):
        scores = part.own(score)
        order = np.argsort(scores, kind="stable")
        below = np.append(0.0, np.cumsum(part.weights[order]))
        worse = worse + below[np.searchsorted(scores[order], lacks(own, score) - 1e-12)]
    weights = np.concatenate([part.weights for part in parts])
    n = effective(weights)
    return (worse * (n / weights.sum()))[:, :, None] < (1.0 - alphas) * (n + 1.0)
