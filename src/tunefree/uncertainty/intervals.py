r"""Intervals and sets from held-out predictions: split-conformal quantiles and CV+.

Let r be the score of rank ceil((1 - alpha)(n + 1)) among the scores s_i of n held-out rows. For a
target :math:`s_i = |y_i - f_{-i}(x_i)| / \sigma_{-i}(x_i)`, and its interval is
:math:`f(x) \pm r\,\sigma(x)`; a class c is in the set if 1 - p_c(x) <= r. The coverage is 1 - alpha
if the scores are exchangeable with that of the new row. After a refit on all rows they are not
quite: the final model has learned from more rows, and the rates of its kernel were chosen on the
held-out rows. So no finite-sample guarantee is claimed there. With the K models of
cross-validation, each with a scale from its own rows, CV+ covers at least

.. math:: 1 - 2\alpha - \min\{2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1)\}.

The scale is a ridge regression of log(|r| + .05 median|r|) on at most 100 landmarks, by the
prediction alone or with the columns. Its bandwidth and penalty are chosen by leave-one-out (with
groups: by folds of whole groups).

An atom is a value that many targets have. The scores of its rows are nearly equal, and an interval
may end just beside the atom, because predictions of the final model differ a little from the
held-out ones. So the scores of these rows are raised by that difference, quantile by quantile
(`allowance`). Intervals contain their prediction and keep the range of the targets
(`tunefree.uncertainty.ranges`).

The rows of a group count as one draw: with G groups the rank is that of (1 - alpha)(G + 1) of G, as
in hierarchical conformal prediction.

Source: Vovk, Gammerman and Shafer 2005; Lei et al. 2018 (local scale); Barber et al. 2021 (CV+);
Romano, Sesia and Candes 2020 (sets by CV+, APS); Sadinle, Lei and Wasserman 2019 (LAC); Dunn,
Wasserman and Ramdas 2022 (groups). The allowance for atoms is this library's.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np

from tunefree.core.warn import warn
from tunefree.kernels.coordinates import coordinates
from tunefree.kernels.geometry import Geometry
from tunefree.kernels.kernels import RBF
from tunefree.kernels.nystroem import RowBlocks, make_landmarks, solve
from tunefree.rows.matrices import as_dense
from tunefree.rows.order import in_order
from tunefree.rows.quantiles import weighted_quantiles
from tunefree.uncertainty.ranges import TargetRange

# The local scale: bandwidths in root mean square distances of a column, landmarks, share of the
# median that keeps logarithms finite, share of its values that is clipped on either side.
_BANDWIDTHS, _LANDMARKS, _FLOOR, _CLIPPED = (0.5, 1.0, 2.0), 100, 0.05, 0.005
# With fewer rows, or a smaller median residual (of the mean size), there is no local scale.
_FEWEST, _LEAST_MEDIAN = 40, 1e-3
# The miss rate at which scales, and one or two quantiles, are compared.
_ALPHA = 0.1
# A value that at least this share of the targets has is an atom.
_ATOM = 0.02
_TOLERANCE = 1e-6  # of the targets' range, for targets after a change of units
# Bins of predictions, for Pearson residuals: the least rows of a bin, and the most bins.
_ROWS_PER_BIN, _MOST_BINS = 100, 5
_FOLDS = 10  # of groups, for the local scale
_ROWS = 2048  # rows per block of a local scale
_NUMBERS = 4e6  # interval limits in memory at once


def rates(alpha):
    """Miss rates as an array of shape (n_alpha,).

    >>> rates(0.1), rates([0.1, 0.2])
    (array([0.1]), array([0.1, 0.2]))
    """
    try:
        out = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    except (TypeError, ValueError):  # text, or lists of several lengths
        out = np.empty(0)
    if out.ndim != 1 or not len(out) or not ((out > 0.0) & (out < 1.0)).all():
        raise ValueError(f"alpha={alpha!r} is not between 0 and 1, nor a list of such numbers.")
    return out


def effective(weights):
    """The effective number of rows: the sum of whole weights, else (sum w)^2 / sum w^2."""
    if not len(weights):
        return 0.0
    if (weights == np.round(weights)).all():
        return float(weights.sum())
    return float(weights.sum() ** 2 / np.square(weights).sum())


def quantiles(scores, weights, alphas, n_groups=None):
    """The smallest scores with a share of (1 - alpha)(n + 1) / n of the weight at or below them.

    n counts the rows, or the groups if there are any. The result is infinite, with a warning, where
    n is below 1 / alpha - 1.

    >>> quantiles(np.arange(1.0, 20.0), np.ones(19), np.array([0.1, 0.05]))
    array([18., 19.])
    """
    n = n_groups or effective(weights)
    order = np.argsort(scores, kind="stable")
    total = np.append(np.cumsum(weights[order]) * (n / max(weights.sum(), 1e-300)), np.inf)
    position = np.searchsorted(total, (1.0 - alphas) * (n + 1.0) * (1.0 - 1e-12))
    if (position == len(scores)).any():
        warn(
            f"{n:.0f} held-out {'groups' if n_groups else 'rows'} are fewer than 1 / alpha - 1 at "
            f"alpha={alphas.min():g}: intervals are infinite, and sets hold all classes."
        )
    return np.append(scores[order], np.inf)[position]


def atoms(y, weights):
    """The values that at least 2 % of the targets have, and at least two of them.

    >>> atoms(np.array([0.0, 0.0, 0.0, 1.5, 2.5]), np.ones(5))
    array([0.])
    """
    values, place = np.unique(y, return_inverse=True)
    counts = np.bincount(place, weights) * (effective(weights) / weights.sum())
    return values[(counts >= _ATOM * counts.sum()) & (counts > 1.0)]


def allowance(held_out, final, values):
    """How far the final predictions of each atom's rows differ from the held-out ones.

    Parameters
    ----------
    held_out : tuple of three ndarray of shape (n,)
        Held-out predictions, targets and weights.
    final : tuple of three ndarray of shape (n_final,)
        The same of the final model, for rows that have atoms as targets.
    values : ndarray of shape (n_atoms,)
        The atoms.

    Returns
    -------
    ndarray of shape (n,)
        For a row of an atom: the distance of its held-out prediction from the final prediction of
        the same rank within the atom, and a little for rounding. Else 0.

    Examples
    --------
    >>> y, w = np.array([0.0, 0.0, 7.0]), np.ones(3)
    >>> held_out, final = np.array([0.1, 0.2, 6.0]), np.array([0.1, 0.4, 5.0])
    >>> allowance((held_out, y, w), (final, y, w), np.array([0.0])).round(3)
    array([0. , 0.2, 0. ])
    """
    predictions, y, weights = held_out
    final_predictions, final_y, final_weights = final
    out = np.zeros(len(y))
    if not len(y):
        return out
    tolerance = _TOLERANCE * np.ptp(y)
    for value in values:
        rows = np.flatnonzero(np.abs(y - value) <= tolerance)
        order = rows[np.argsort(predictions[rows], kind="stable")]
        mass = weights[order]
        ranks = (np.cumsum(mass) - 0.5 * mass) / max(mass.sum(), 1e-300)
        same = np.abs(final_y - value) <= tolerance
        of_rank = weighted_quantiles(final_predictions[same], final_weights[same], ranks)
        out[order] = np.abs(of_rank - predictions[order]) + tolerance
    return out


def interval_score(low, high, y, alpha):
    """The width, plus 2 / alpha times the distance outside (Gneiting and Raftery 2007).

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
    """The scale 1, with separate quantiles for each bin of predictions."""

    cuts: np.ndarray  # (n_bins - 1,): where bins begin
    bins: np.ndarray  # (n,): the bin of each held-out row

    @classmethod
    def by(cls, predictions, weights):
        """Bins of equal weight, of at least 100 rows each."""
        n_bins = int(np.clip(effective(weights) // _ROWS_PER_BIN, 1, _MOST_BINS))
        order = np.argsort(predictions, kind="stable")
        mass = np.cumsum(weights[order]) / weights.sum()
        cuts = predictions[order][np.searchsorted(mass, np.arange(1, n_bins) / n_bins)]
        return cls(cuts, np.searchsorted(cuts, predictions))

    def of(self, predictions, X):
        """The scale of rows."""
        return np.ones(len(predictions))


class Local(NamedTuple):
    """A scale that depends on the prediction, and on the columns if there is a `view` of them."""

    own: Any  # `tunefree.kernels.coordinates.Coordinates` of the prediction
    view: Any  # those of the columns, or None
    marks: Any  # the landmarks, with their kernel
    coef: np.ndarray  # (n_landmarks, 1)
    intercept: float  # of the logarithm
    low: float  # limits of the logarithm
    high: float

    def of(self, predictions, X):
        """The scale of rows: predictions of shape (n,), and the columns."""
        out = np.empty(len(predictions))
        for start in range(0, len(predictions), _ROWS):
            part = slice(start, start + _ROWS)
            Z = _shown(self.own, self.view, predictions[part], None if X is None else X[part])
            logs = self.marks.values(self.marks.geometry.show(Z)) @ self.coef + self.intercept
            out[part] = np.exp(np.clip(logs[:, 0], self.low, self.high))
        return out


def _shown(own, view, predictions, X):
    """The kernel's coordinates of rows, before its rates."""
    z = own.show(predictions[:, None])
    if view is None:
        return z
    return np.hstack([view.show(np.asarray(as_dense(X), dtype=np.float64)), z])


def _local(view, predictions, residuals, weights, X, groups=None):
    """A local scale, and its held-out values (by rows, or by whole groups)."""
    share, size = weights / weights.sum(), np.abs(residuals)
    logs = np.log(size + _FLOOR * np.median(size) + 1e-300)[:, None]
    own = coordinates(predictions[:, None], weights)
    Z, found = _shown(own, view, predictions, X), []
    folds = []  # the rows of each, if there are several groups
    if groups is not None and groups.any():
        n_folds = min(_FOLDS, groups.max() + 1)
        folds = [groups % _FOLDS == fold for fold in range(n_folds)]
    for bandwidth in _BANDWIDTHS:
        q = Z.shape[1]
        geometry = Geometry(RBF(), np.full(q, 0.5 / (q * bandwidth**2)), 1e-3, 0.0)
        A = geometry.show(Z)
        marks = make_landmarks(A[:_LANDMARKS], geometry)
        fit = solve(marks, RowBlocks(A, float), logs, weights)
        held_out = fit.held_out[:, :, 0]  # leave-one-out values (n, n_penalties)
        for rows in folds:  # rows of weight 0 have the values of a fit without them
            of_others = solve(marks, RowBlocks(A, float), logs, np.where(rows, 0.0, weights))
            held_out[rows] = of_others.held_out[rows, :, 0]
        risk = share @ np.square(held_out - logs)
        i = int(np.argmin(risk))
        found.append((risk[i], marks, fit.coef[:, i], float(fit.intercept[i, 0]), held_out[:, i]))
    _, marks, coef, intercept, held_out = min(found, key=lambda one: one[0])
    ends = np.quantile(held_out, [_CLIPPED, 1.0 - _CLIPPED])
    low, high = np.clip(ends, logs.min(), logs.max()).tolist()
    scale = Local(own, view, marks.alone(), coef, intercept, low, high)
    return scale, np.exp(np.clip(held_out, low, high))


class Residuals(NamedTuple):
    """The residuals of held-out rows, of one target."""

    residuals: np.ndarray  # (n,): targets less held-out predictions
    sigma: np.ndarray  # (n,): the held-out scale
    weights: np.ndarray
    scale: Any  # Constant, Local or Binned
    two_sided: bool = False  # whether each side has its own quantile
    targets: Any = None  # (n,)
    allowance: Any = 0.0  # (n,): added to the residuals' size (`allowance`)
    n_groups: int | None = None
    range: TargetRange | None = None  # of all training targets; None: of `targets`
    groups: Any = None  # (n,): the groups' numbers, for an interval of the risk

    def target_range(self):
        """The range that intervals keep."""
        return TargetRange.of(self.targets) if self.range is None else self.range

    def scores(self):
        """Absolute residuals in units of the scale."""
        return (np.abs(self.residuals) + self.allowance) / self.sigma

    @classmethod
    def pearson(cls, predictions, y, weights, unit):
        """Of held-out predictions in units of their standard deviations by a family.

        A common factor of these is free. Every bin of predictions has its own quantiles.
        """
        scale = Binned.by(predictions, weights)
        sigma, two_sided = scale.of(predictions, None), len(y) >= _FEWEST
        return cls((y - predictions) / unit, sigma, weights, scale, two_sided, y)

    @classmethod
    def of(cls, predictions, y, weights, X=None, view=None, *, groups=None, n_groups=None):
        """Of held-out predictions, with a local scale or two sides only where they are better.

        They are better where the interval score gains more than a standard error. For the local
        scale, rows of equal `groups` are in one fold.
        """
        predictions, y = (np.asarray(a, dtype=np.float64) for a in (predictions, y))
        residuals = y - predictions
        mean_size = float(np.average(np.abs(residuals), weights=weights)) if len(y) else 1.0
        constant = Constant(mean_size or 1.0)
        groups = None if groups is None else in_order(groups)
        best = cls(residuals, constant.of(predictions, None), weights, constant, False, y)
        if len(y) < _FEWEST or not residuals.any():
            return best._replace(n_groups=n_groups)
        costs = best._costs()
        share = weights / weights.sum()
        varied = np.ptp(predictions) > 1e-9 * np.abs(predictions).max()
        # Where most residuals are 0, as with atoms, their logarithms are no scale.
        has_scale = np.median(np.abs(residuals)) > _LEAST_MEDIAN * mean_size
        views = (None,) if view is None else (None, view)
        for columns_view in views if varied and has_scale else ():
            scale, sigma = _local(columns_view, predictions, residuals, weights, X, groups)
            local = best._replace(sigma=sigma, scale=scale)
            least_errors = 1.0 if best.scale is constant else 0.0
            if _gains(costs - local._costs(), share, groups, least_errors):
                best, costs = local, local._costs()
        of_two_sides = best._replace(two_sided=True)
        if _gains(costs - of_two_sides._costs(), share, groups, 1.0):
            best = of_two_sides
        return best._replace(n_groups=n_groups)

    def _costs(self):
        """The interval score of every row."""
        with warnings.catch_warnings(action="ignore"):
            low, high = self.ends(np.array([_ALPHA]))
        limits = (self.sigma * low[0], self.sigma * high[0])
        return interval_score(*limits, self.residuals, _ALPHA)

    def ends(self, alphas, predictions=None):
        """The limits of an interval of scale 1 about 0: two arrays of shape (n_alpha,).

        With bins they depend on the predictions, and have the shape (n, n_alpha).
        """
        of_all = self._ends_of(slice(None), alphas)
        if predictions is None or not isinstance(self.scale, Binned):
            return of_all
        low, high = (np.tile(end, (len(predictions), 1)) for end in of_all)
        bins = np.searchsorted(self.scale.cuts, predictions)
        for b in range(len(self.scale.cuts) + 1):
            with warnings.catch_warnings(action="ignore"):
                of_bin = self._ends_of(self.scale.bins == b, alphas)
            rows = bins == b  # a bin of too few rows has the limits of all
            low[rows], high[rows] = (
                np.where(np.isfinite(end), end, whole)
                for end, whole in zip(of_bin, of_all, strict=True)
            )
        return low, high

    def _ends_of(self, rows, alphas):
        """The limits from some of the rows."""
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


def _gains(gain, share, groups, least_errors):
    """Whether the mean gain of rows, or of groups, is above so many standard errors."""
    mean = share @ gain
    parts = share * (gain - mean)
    if groups is not None:
        parts = np.bincount(groups, parts)
    return mean > least_errors * np.sqrt(np.square(parts).sum())


class HeldOutPredictions(NamedTuple):
    """Held-out predictions of real targets."""

    predictions: np.ndarray  # (n, n_targets)
    targets: np.ndarray  # (n, n_targets)
    weights: np.ndarray  # (n,)
    unit: Any = None  # (n, n_targets): standard deviations by a family, up to a factor
    allowance: Any = None  # (n, n_targets): see `Residuals`
    n_groups: Any = None  # the number of groups that were held out as a whole
    ranges: Any = None  # a `TargetRange` of every target, see `Residuals`
    groups: Any = None  # (n,): the groups' numbers, for an interval of the risk

    @classmethod
    def of_residuals(cls, parts):
        """Of `Residuals` of every target: residuals in place of targets, predictions of 0."""
        y = np.stack([part.residuals for part in parts], axis=1)
        return cls(np.zeros_like(y), y, parts[0].weights, groups=parts[0].groups)

    def parts(self):
        """`Residuals` of every target."""
        out = []
        for j, (predictions, y) in enumerate(zip(self.predictions.T, self.targets.T, strict=True)):
            if self.unit is None:
                part = Residuals.of(predictions, y, self.weights)
            else:
                part = Residuals.pearson(predictions, y, self.weights, self.unit[:, j])
            if self.allowance is not None:
                part = part._replace(allowance=self.allowance[:, j])
            known = None if self.ranges is None else self.ranges[j]
            out.append(part._replace(n_groups=self.n_groups, range=known))
        return tuple(out)

    def losses(self):
        """Squared errors; of several targets their mean, each in units of its variance."""
        square = np.square(self.predictions - self.targets)
        if square.shape[1] == 1:
            return square[:, 0]
        mean = np.average(self.targets, axis=0, weights=self.weights)
        variance = np.average(np.square(self.targets - mean), axis=0, weights=self.weights)
        return (square / np.where(variance > 0.0, variance, 1.0)).mean(axis=1)


def within_ranges(parts, ends, predictions):
    """Intervals (n, n_targets, 2, n_alpha) that contain predictions and keep the targets' ranges.

    `parts` are the targets' `Residuals`.
    """
    each = [
        part.target_range().of_intervals(ends[:, j], predictions[:, j])
        for j, part in enumerate(parts)
    ]
    return np.stack(each, axis=1)


def intervals(parts, y, sigma, alphas, joint=False):
    """Intervals of shape (n, n_targets, 2, n_alpha) about predictions of shape (n, n_targets).

    `parts` are the targets' `Residuals`, `sigma` the scales of the predictions. Joint intervals
    have one quantile, of each row's largest score.
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


class ResidualScores(NamedTuple):
    """|residual| / sigma of the held-out rows of one model, by that model."""

    scores: np.ndarray  # (n, n_targets)
    weights: np.ndarray  # (n,)


def plus_interval(scores, weights, predictions, sigma, alphas):
    """CV+ of one target: intervals of shape (n, 2, n_alpha).

    Parameters
    ----------
    scores, weights : list of ndarray
        |residual| / sigma of the held-out rows of each model.
    predictions, sigma : list of ndarray of shape (n,)
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


def conformity_scores(p, score="lac"):
    """How unlikely each class is: scores of the shape of the probabilities.

    'lac' is 1 - p_c; 'aps' is the total probability of all likelier classes. A set is then the
    fewest classes of some total probability, and never empty. (With the probability of c itself
    the last class always has the score 1, and sets of two classes hold both.)

    >>> conformity_scores(np.array([[0.5, 0.3, 0.2]]), "aps")
    array([[0. , 0.5, 0.8]])
    """
    if score == "lac":
        return 1.0 - p
    if score != "aps":
        raise ValueError(f"score={score!r} is neither 'lac' nor 'aps'.")
    order = np.argsort(-p, axis=1, kind="stable")
    likelier = np.cumsum(np.take_along_axis(p, order, axis=1), axis=1)[:, :-1]
    out = np.zeros_like(p)
    np.put_along_axis(out, order[:, 1:], likelier, axis=1)
    return out


class HeldOutProbabilities(NamedTuple):
    """Held-out probabilities of classes.

    A stream whose rows, of weight 1 each, were predicted before they were learned also has `rows`
    and `mistakes`: those of the best of `rivals` members of its portfolio.
    """

    p: np.ndarray  # (n, n_classes)
    codes: np.ndarray  # (n,): the classes
    weights: np.ndarray  # (n,)
    mistakes: int | None = None
    rows: int | None = None
    rivals: int = 1
    groups: Any = None  # (n,): the numbers of the groups that were held out as a whole

    def wrong(self):
        """1 where another class was likelier."""
        return (self.p.argmax(axis=1) != self.codes).astype(np.float64)

    def scores_of_true(self, score="lac"):
        """The conformity score of each row's true class."""
        return conformity_scores(self.p, score)[np.arange(len(self.codes)), self.codes]

    def sets(self, p, alphas, score="lac", class_conditional=False):
        """Sets of shape (n, n_classes, n_alpha) of rows with these probabilities.

        With `class_conditional`, a class of fewer than 1 / alpha - 1 rows is always in.
        """
        scores = conformity_scores(p, score)[:, :, None]
        if class_conditional:
            return scores <= self.reach_of_classes(alphas, score) + 1e-12
        n_groups = None if self.groups is None else len(np.unique(self.groups))
        reach = quantiles(self.scores_of_true(score), self.weights, alphas, n_groups)
        return scores <= reach + 1e-12

    def reach_of_classes(self, alphas, score="lac"):
        """The largest score in a set, of every class by its own rows: shape (n_classes, n_alpha).

        Of a class of fewer than 1 / alpha - 1 rows it is infinite.
        """
        held_out = self.scores_of_true(score)
        with warnings.catch_warnings(action="ignore"):
            reach = [
                quantiles(held_out[self.codes == c], self.weights[self.codes == c], alphas)
                for c in range(self.p.shape[1])
            ]
        return np.array(reach)


def plus_set(parts, p, alphas, score="lac"):
    """CV+ of classes: sets of shape (n, n_classes, n_alpha).

    A class is in the set if its score is not above those of too many held-out rows. `parts` are the
    `HeldOutProbabilities` of each model, `p` the models' probabilities of new rows.
    """
    n_below: Any = 0.0
    for part, of_model in zip(parts, p, strict=True):
        scores = part.scores_of_true(score)
        order = np.argsort(scores, kind="stable")
        below = np.append(0.0, np.cumsum(part.weights[order]))
        new_scores = conformity_scores(of_model, score) - 1e-12
        n_below = n_below + below[np.searchsorted(scores[order], new_scores)]
    weights = np.concatenate([part.weights for part in parts])
    n = effective(weights)
    return (n_below * (n / weights.sum()))[:, :, None] < (1.0 - alphas) * (n + 1.0)
