"""How far a predictor is shrunk and limited, by what held-out rows show."""

import numpy as np
from scipy.special import stdtrit

from tunefree.rows.order import summed_by
from tunefree.rows.outliers import _PART_OF_LOSS, _TIMES_SHARE
from tunefree.rows.quantiles import weighted_quantiles

# Shares of its width by which the range of fitted values may be widened.
_WIDER = (1.0, 0.5, 0.25, 0.0)
# The share of targets beyond each of their inner limits.
_TAIL_SHARE = 0.02
# Two standard errors, as a probability; so few rows show nothing about a choice.
_SURE, _FEWEST = 0.97725, 6


def limits_of_predictions(predictions, fitted, targets, weights, rows=slice(None), loss=None):
    """Limits of predictions, shape (2, k): the range of fitted values, wider where that was better.

    The range is widened by 1, 1/2, 1/4 or 0 of its width: by the share with the smallest squared
    errors, or `loss(targets, means)`, of the held-out `predictions` of `rows`, each within the
    limits from the other rows. A
    line is unreliable far from the rows that it was fitted to, and only the outermost rows show it.

    Examples
    --------
    >>> x, w = np.linspace(0.0, 1.0, 5)[:, None], np.ones(5)
    >>> limits_of_predictions(x, x, x, w).ravel(), limits_of_predictions(2 * x, x, x, w).ravel()
    (array([-1.,  2.]), array([0., 1.]))
    """
    if len(fitted) < 2:
        return np.repeat(fitted, 2, axis=0)
    first, second = np.partition(fitted, 1, axis=0)[:2]
    last, next_last = -np.partition(-fitted, 1, axis=0)[:2]
    f = fitted[rows]
    # Without itself, the range of an outermost row ends at the next one.
    low, high = np.where(f == first, second, first), np.where(f == last, next_last, last)
    width = np.maximum(high - low, 0.0)
    each = [np.clip(predictions, low - share * width, high + share * width) for share in _WIDER]
    risks = [weights @ (np.square(p - targets) if loss is None else loss(targets, p)) for p in each]
    spread = np.take(_WIDER, np.argmin(risks, axis=0)) * (last - first)
    return np.array([first - spread, last + spread])


def shrinkage_factor(step, targets, weights, losses=None, spent=0.0, groups=None):
    r"""How far predictions go from the constant to the learned ones: 0 to 1, for every target.

    It is 1 where held-out rows gain two standard errors or more (with few rows by Student's law).
    Else it is the least-squares factor b of the step, reduced for its uncertainty (James and
    Stein): :math:`b (1 - 1/t^2)_+`, t being b in standard errors. Distinct rows count, or groups of
    rows: the unit of weights is free.

    A few rows must not decide. Rows that each carry a tenth of the constant's loss, and ten times
    their share of it, are dropped until there are none, and the smallest factor is used.

    Parameters
    ----------
    step : ndarray of shape (n, k)
        Held-out predictions, less the constant.
    targets : ndarray of shape (n, k)
        Their targets, less the constant.
    weights : ndarray of shape (n,)
    losses : pair of ndarray of shape (n, k) or (n, 1), optional
        The constant's losses, and those of the predictions; squared errors by default.
    spent : float, default=0
        Degrees of freedom of a fit or search, for each row. The step follows the noise by this
        share of its variance (Mallows; or in nats of log-loss), and that gain is subtracted. One
        degree is the least, shared by all rows but six, of the variance that the step leaves: a
        penalty, a pass or a slope was chosen on these rows, and six rows show nothing.
    groups : ndarray of int of shape (n,), optional
        Rows of one group are not independent: standard errors are those of sums over groups.

    Examples
    --------
    >>> y, w = np.tile([[1.0], [-1.0], [2.0], [-2.0]], (5, 1)), np.ones(20)
    >>> [shrinkage_factor(c * y, y, w).round(2) for c in (0.5, 4.0, -1.0)]
    [array([1.]), array([0.25]), array([0.])]
    """
    null, learned = losses or (np.square(targets), np.square(targets - step))
    null, learned = np.broadcast_to(null, step.shape), np.broadcast_to(learned, step.shape)
    carried = weights[:, None] * null
    spent = np.maximum(spent, _noise(step, targets, weights) / max(len(step) - _FEWEST, 1))
    unit = 1.0 if losses else carried.sum(axis=0) / weights.sum()
    gain = null - learned - 2.0 * spent * unit
    factor = _factor(step, targets, weights, gain, spent, groups)
    most = np.maximum(_TIMES_SHARE * weights / weights.sum(), _PART_OF_LOSS)
    for j in range(step.shape[1]):
        kept = np.ones(len(step), dtype=bool)
        while (dominant := kept & (carried[:, j] > most * carried[kept, j].sum())).any():
            kept &= ~dominant
            column = slice(j, j + 1)
            moved, target = step[kept, column], targets[kept, column]
            of_kept = None if groups is None else groups[kept]
            factor_of_kept = _factor(
                moved, target, weights[kept], gain[kept, column], spent[column], of_kept
            )
            factor[j] = min(factor[j], factor_of_kept[0])
    return factor if len(step) > 1 else 0.0 * factor  # of one row there is no standard error


def _noise(step, targets, weights):
    """The share of the targets' squares that no multiple of the step explains, for every target."""
    target_squares, step_squares = weights @ np.square(targets), weights @ np.square(step)
    products = np.maximum(weights @ (step * targets), 0.0)
    explained = np.square(products) / np.maximum(step_squares * target_squares, 1e-300)
    return np.clip(1.0 - explained, 0.0, 1.0)


def _factor(step, targets, weights, gain, spent, groups):
    each = weights[:, None]
    n_units = len(step) if groups is None else len(np.unique(groups))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = weights @ gain / weights.sum()
        parts = summed_by(groups, each * (gain - mean))
        error = np.sqrt(np.square(parts).sum(axis=0)) / weights.sum()
        step_squares = weights @ np.square(step)
        noise_gain = spent * (weights @ np.square(targets))  # its error is as large as itself
        error = np.hypot(error, 2.0 * noise_gain / weights.sum())
        best = (weights @ (step * targets) - noise_gain) / step_squares
        slopes = summed_by(groups, each * step * (targets - best * step))
        noise = np.square(slopes).sum(axis=0) + noise_gain**2
        shrunk = np.clip(best - noise / np.square(step_squares) / best, 0.0, 1.0)
    threshold = float(stdtrit(max(n_units - 1, 1), _SURE))
    gains = (mean > 0.0) & (mean >= threshold * error)
    return np.where(gains, 1.0, np.where(best > 0.0, shrunk, 0.0))


def few_beyond(y, weights):
    """Limits of each target, of shape (2, k), with 2 % of the weight beyond each.

    Examples
    --------
    >>> few_beyond(np.arange(101.0)[:, None], np.ones(101)).ravel()
    array([ 2., 98.])
    """

    def low(column):
        return weighted_quantiles(column, weights, _TAIL_SHARE)

    return np.array([[low(c) for c in y.T], [-low(-c) for c in y.T]])


def shrinkage_factor_of_classes(p, prior, codes, weights, spent=0.0, groups=None):
    """How far probabilities go from the constant ones to the held-out ones: 0 to 1.

    By `shrinkage_factor` over all classes. The log-losses are those with two more rows, shared
    equally by all classes: few rows do not support certainty.

    Parameters
    ----------
    p, prior : ndarray of shape (n, n_classes) and (n_classes,)
    codes : ndarray of int of shape (n,)
    weights : ndarray of shape (n,)
    spent, groups
        As in `shrinkage_factor`.

    Returns
    -------
    float
    """
    n, width = p.shape
    targets = (n * np.eye(width)[codes] + 2.0 / width) / (n + 2.0)
    logs = (np.log(np.maximum(each, 1e-300)) for each in (prior, p))
    losses = [-(targets * each).sum(axis=1, keepdims=True) for each in logs]
    # The step of a row is its length over all classes; targets are projected onto it.
    step = np.linalg.norm(p - prior, axis=1, keepdims=True)
    along = ((p - prior) * (targets - prior)).sum(axis=1, keepdims=True) / np.maximum(step, 1e-300)
    return float(shrinkage_factor(step, along, weights, losses, spent, groups)[0])


def shares_as_scores(codes, weights, width):
    """Log-odds of the classes' shares, of shape (width,); width is 1 for two classes.

    Shares are at least half a row.
    """
    counts = np.bincount(codes, weights, minlength=max(width, 2)) / weights.sum()
    logs = np.log(np.maximum(counts, 0.5 / len(codes)))
    return logs[1:] - logs[:1] if width == 1 else logs
