"""Linear members: Kalman filters that drift, and implicit gradient learners.

A filter's weights have the covariance C, to which its drift is added at each row; a gradient
learner's step is its rate over the mean squared norm of rows. Both go to the minimum of their loss
plus their distance.
"""

import numpy as np

from tunefree._jit import kernel
from tunefree.learners.mixture.implicit import implicit_margins, implicit_scores, sigmoid
from tunefree.learners.mixture.state import (
    DRIFTS,
    N_FILTERS,
    N_LINES,
    N_MEMBERS,
    RATES,
    WHOLE,
)

# Log-odds and centred log-probabilities are clipped: this costs at most 6e-6 a row.
CLIP = 12.0
MOST_VARIANCE, LEAST_CURVATURE = 100.0, 1e-4
_VARIANCE_RATE = 0.02  # weight of a new residual in its variance


@kernel
def clipped(x):
    """A logarithm of odds or probabilities within its limits."""
    return min(max(x, -CLIP), CLIP)


@kernel
def in_range(now, y):
    """A location within the range of targets."""
    return min(max(y, now.low), now.high)


@kernel
def variance_of(now, variance):
    """The variance of a member's or mixer's residuals, from that stored."""
    square = now.unit**2
    return max(variance if variance > 0.0 else square, 1e-12 * square, 1e-300)


@kernel
def update_variance(now, variances, k, residual, weight):
    """Update the variance of a member's or mixer's residuals; one counts as 10 sd at most."""
    rate = min(1.0, weight * max(_VARIANCE_RATE, 1.0 / (now.rows + 2.0)))
    variance = variance_of(now, variances[k])
    limited = min(residual * residual, 100.0 * variance)
    variances[k] = variance + rate * (limited - variance)


@kernel
def curvature(probabilities, m):
    """The largest p (1 - p) of some probabilities: the curvature of the loss."""
    most = 0.0
    for c in range(m):
        most = max(most, probabilities[c] * (1.0 - probabilities[c]))
    return most


# --- predictions ----------------------------------------------------------------------------------


@kernel
def _drifted(variance, drift, rows):
    """The variance of a weight whose column had no entry for so many rows."""
    return variance if variance >= MOST_VARIANCE else min(variance + drift * rows, MOST_VARIANCE)


@kernel
def _score(weights, row, scores):
    """Scores w z of the linear members."""
    for o in range(len(scores)):
        for k in range(N_LINES):
            scores[o, k] = 0.0
        for i in range(len(row.z)):
            place, x = row.places[i], row.z[i]
            for k in range(N_LINES):
                scores[o, k] += weights[o, place, k] * x


@kernel
def _point(is_whole, covariances, last_row, t, row, directions):
    """Directions C z of the filters."""
    n = len(row.z)
    if not is_whole:
        for i in range(n):
            place, x = row.places[i], row.z[i]
            rows = t - last_row[place]
            for f in range(N_FILTERS):
                directions[i, f] = x * _drifted(covariances[0, place, f], DRIFTS[f], rows)
        return
    for i in range(n):
        for f in range(N_FILTERS):
            directions[i, f] = 0.0
    for j in range(n):  # C is symmetric: a row at a time is a vector
        x = row.z[j]
        for i in range(n):
            for f in range(N_FILTERS):
                directions[i, f] += covariances[j, i, f] * x


@kernel
def score_members(state, row, work, mean_norm):
    """Scores of the linear members, directions and gains: z C z, or step times squared norm."""
    gains, directions = work.scratch.gains, work.directions
    _score(state.weights, row, work.scores)
    is_whole, t = state.form == WHOLE, state.numbers.rows
    _point(is_whole, state.covariances, state.last_row, t, row, directions)
    for k in range(N_MEMBERS):
        gains[k] = 0.0
    for i in range(len(row.z)):
        x = row.z[i]
        for f in range(N_FILTERS):
            gains[f] += directions[i, f] * x
    for k in range(N_FILTERS, N_LINES):
        gains[k] = RATES[k - N_FILTERS] * row.norm / mean_norm


@kernel
def predict_members(state, work):
    """The members' predictions: log-odds, centred log-probabilities, or location and scale."""
    now, m, scores, members = state.numbers, len(work.scores), work.scores, work.members
    gains = work.scratch.gains
    for k in range(N_MEMBERS):
        gain = max(gains[k], 0.0) if k < N_FILTERS else 0.0
        if state.real:
            members[0, k] = in_range(now, now.centre + now.unit * scores[0, k])
            variance = variance_of(now, state.learned.member_variances[k])
            members[1, k] = np.sqrt(variance * (1.0 + gain))
            continue
        shrink, mean = 1.0 / np.sqrt(1.0 + 0.125 * np.pi * gain), 0.0
        for c in range(m if m > 1 else 0):
            mean += scores[c, k] / m
        for c in range(m):
            members[c, k] = clipped((scores[c, k] - mean) * shrink)


# --- updates --------------------------------------------------------------------------------------


@kernel
def _real_slopes(now, variances, label, scores, scratch):
    """Slopes for a real target; update the variances of residuals."""
    for k in range(N_MEMBERS):
        gain = scratch.gains[k]
        r = (label.y - now.centre) / now.unit - scores[k]
        scores[k] = label.weight * r / (1.0 + label.weight * gain)  # not used for votes
        if now.rows >= 1.0:  # one target has no deviation
            inner = np.sqrt(1.0 + gain) if k < N_FILTERS else 1.0
            update_variance(now, variances, k, r * now.unit / inner, label.weight)
    for f in range(N_FILTERS):
        scratch.curvatures[f] = 1.0


@kernel
def _binary_slopes(label, scores, scratch):
    """Slopes for one of two classes."""
    side = 1.0 if label.code == 1 else -1.0
    for k in range(N_LINES):
        scores[k] *= side
        scratch.steps[k] = label.weight * scratch.gains[k]
    implicit_margins(scores[:N_LINES], scratch.steps[:N_LINES], scratch.margins[:N_LINES])
    for k in range(N_LINES):
        p = sigmoid(-scratch.margins[k])
        scores[k] = label.weight * side * p
        if k < N_FILTERS:
            scratch.curvatures[k] = p * (1.0 - p)


@kernel
def _class_slopes(label, scores, by_class, scratch):
    """Slopes for one of several classes."""
    new, probabilities = by_class[0], by_class[1]
    for k in range(N_LINES):
        energy = label.weight * scratch.gains[k]
        implicit_scores(scores[:, k], label.code, energy, new, probabilities)
        if k < N_FILTERS:
            scratch.curvatures[k] = curvature(probabilities, len(scores))
        for c in range(len(scores)):
            right = 1.0 if c == label.code else 0.0
            scores[c, k] = label.weight * (right - probabilities[c])


@kernel
def _update_weights(weights, row, slopes, directions, rates):
    for o in range(len(slopes)):
        for i in range(len(row.z)):
            place, x = row.places[i], row.z[i]
            for f in range(N_FILTERS):
                weights[o, place, f] += slopes[o, f] * directions[i, f]
            for k in range(N_FILTERS, N_LINES):
                weights[o, place, k] += slopes[o, k] * rates[k] * x


@kernel
def _update_covariances(is_whole, covariances, last_row, t, row, factors, directions):
    """Reduce the covariances by what the row showed, and add the drifts."""
    n = len(row.z)
    for i in range(n if is_whole else 0):
        for j in range(n):
            for f in range(N_FILTERS):
                covariances[i, j, f] -= factors[f] * (directions[i, f] * directions[j, f])
    for i in range(n):
        place = row.places[i]
        line, rows = place if is_whole else 0, t - last_row[place]
        for f in range(N_FILTERS):
            variance = covariances[line, place, f]
            if not is_whole:
                variance = _drifted(variance, DRIFTS[f], rows)
                variance -= factors[f] * (directions[i, f] * directions[i, f])
            drift = DRIFTS[f] if variance < MOST_VARIANCE else 0.0
            covariances[line, place, f] = variance + drift
        last_row[place] = t + 1.0


@kernel
def update_members(state, row, label, work):
    """Update all linear members by the row."""
    scores, scratch = work.scores, work.scratch
    gains, rates, factors = scratch.gains, scratch.steps, scratch.curvatures
    for f in range(N_FILTERS):
        gains[f] = max(gains[f], 0.0)
    if state.real:
        variances = state.learned.member_variances
        _real_slopes(state.numbers, variances, label, scores[0], scratch)
    elif len(scores) == 1:
        _binary_slopes(label, scores[0], scratch)
    else:
        _class_slopes(label, scores, work.by_class, scratch)
    for f in range(N_FILTERS):
        v = label.weight * max(factors[f], LEAST_CURVATURE)
        factors[f] = v / (1.0 + v * gains[f])
    for k in range(N_FILTERS, N_LINES):
        rates[k] = gains[k] / row.norm
    _update_weights(state.weights, row, scores, work.directions, rates)
    is_whole, t = state.form == WHOLE, state.numbers.rows
    _update_covariances(
        is_whole, state.covariances, state.last_row, t, row, factors, work.directions
    )
