"""Predictions and updates for real targets, which are standardised as they come."""

import numpy as np

from tunefree.core.jit import kernel, maximum, minimum
from tunefree.streams.betting import bet, radius
from tunefree.streams.mixers import answer, dot, power_of, update_posteriors
from tunefree.streams.standardize import HUGE
from tunefree.streams.state import (
    ANSWER,
    N_BAYES,
    N_FILTERS,
    N_MEMBERS,
    N_MIXERS,
    N_STACKS,
    STACKS,
)

# With fewer rows a column than this, answers are shrunk towards the mean.
_SHRUNK_BELOW = 8.0
# Degrees of freedom of a target's distribution.
NU = 5.0
_T5 = 0.3796066898224944  # Gamma(3) / (Gamma(2.5) sqrt(5 pi))
_FAINT = 1e-200  # densities below this are computed as logarithms: they may underflow
_MOST_SDS = 1e150  # their squares do not overflow
_MOST_NATS = 600.0  # nor does the exponential of these
_VARIANCE_RATE = 0.02  # weight of a new residual in its variance


@kernel
def _in_range(now, y):
    """A location within the range of targets."""
    return minimum(maximum(y, now.low), now.high)


@kernel
def _variance_of(now, variance):
    """The variance of a member's or mixer's residuals, from that stored."""
    square = now.unit**2
    known = variance if variance > 0.0 else square
    return maximum(maximum(known, 1e-12 * square), 1e-300)


@kernel
def _update_variance(now, variances, k, residual, weight):
    """Update the variance of a member's or mixer's residuals; one counts as 10 sd at most."""
    rate = minimum(1.0, weight * maximum(_VARIANCE_RATE, 1.0 / (now.rows + 2.0)))
    variance = _variance_of(now, variances[k])
    limited = minimum(residual * residual, 100.0 * variance)
    variances[k] = variance + rate * (limited - variance)


@kernel
def _density(y, location, scale):
    """Student's density of 5 degrees of freedom."""
    r = (y - location) / scale
    return _T5 / (scale * (1.0 + r * r / NU) ** 3)


@kernel
def _log_density(y, location, scale):
    """The logarithm of Student's density, which is finite wherever the target is."""
    r = minimum(abs(y - location) / scale, _MOST_SDS)
    return np.log(_T5) - np.log(scale) - 3.0 * np.log1p(r * r / NU)


# --- predictions ----------------------------------------------------------------------------------


@kernel
def _predict_members(now, variances, scores, gains, members):
    """Locations and scales of the members."""
    for k in range(N_MEMBERS):
        gain = maximum(gains[k], 0.0) if k < N_FILTERS else 0.0
        members[0, k] = _in_range(now, now.centre + now.unit * scores[0, k])
        members[1, k] = np.sqrt(_variance_of(now, variances[k]) * (1.0 + gain))


@kernel
def _variance_between(weights, table, location):
    """The variance of a mixture of locations and scales: the rows of a table, or its columns."""
    total = 0.0
    for k in range(len(weights)):
        total += weights[k] * (table[1, k] ** 2 + (table[0, k] - location) ** 2)
    return total


@kernel
def _shrunk(now, d, location):
    """A location, shrunk towards the mean while there are few rows a column.

    Filters then fit any targets, and their losses do not yet show which of them overfit.
    """
    if now.rows >= _SHRUNK_BELOW * d:
        return location
    share = now.rows**2 / (now.rows**2 + 0.5 * d**2)
    return now.y_mean + share * (location - now.y_mean)


@kernel
def predict_numbers(now, learned, d, scores, gains, members, mixers):
    """Locations and scales by members, mixers and the answer, shrunk for `d` columns."""
    posteriors, stackings = learned.posteriors, learned.stackings
    _predict_members(now, learned.member_variances, scores, gains, members)
    for a in range(N_BAYES):
        location = dot(posteriors[a], members[0])
        variance = _variance_between(posteriors[a], members, location)
        mixers[a, 0], mixers[a, 1] = location, np.sqrt(variance)
    for a in range(N_STACKS):
        i, total = N_BAYES + a, now.centre
        for k in range(N_MEMBERS):
            total += stackings[a, k] * (members[0, k] - now.centre)
        mixers[i, 0] = _in_range(now, total)
        mixers[i, 1] = np.sqrt(_variance_of(now, learned.mixer_variances[i]))
    answer(learned.final, mixers, 0)
    variance = _variance_between(learned.final, mixers.T, mixers[ANSWER, 0])
    mixers[ANSWER, 0], mixers[ANSWER, 1] = _shrunk(now, d, mixers[ANSWER, 0]), np.sqrt(variance)


# --- updates of the mixers, by predictions made before the target ---------------------------------


@kernel
def _judge_members(now, y, weight, losses, members, likelihoods):
    """Likelihoods of the target by the members, and the squared norm of their predictions.

    All likelihoods, those of mixers too, are in a unit of which the logarithm is returned as well.
    It is 1 unless the target is so far off that densities underflow.
    """
    energy, least, most = 0.0, np.inf, 0.0
    for k in range(N_MEMBERS):
        likelihoods[k] = _density(y, members[0, k], members[1, k])
        least, most = minimum(least, likelihoods[k]), maximum(most, likelihoods[k])
        energy += ((members[0, k] - now.centre) / now.unit) ** 2
    if least >= _FAINT:
        for k in range(N_MEMBERS):
            losses[k] -= weight * np.log(likelihoods[k])
        return energy, 0.0
    unit = -np.inf
    for k in range(N_MEMBERS):
        log_density = _log_density(y, members[0, k], members[1, k])
        losses[k] -= weight * log_density
        unit = maximum(unit, log_density)
        likelihoods[k] = log_density
    unit = unit if most < _FAINT else 0.0
    for k in range(N_MEMBERS):
        likelihoods[k] = np.exp(likelihoods[k] - unit)
    return energy, unit


@kernel
def _judge_mixers(now, y, weight, mixers, snapshot, unit, scratch):
    """Likelihoods of the target by the mixers, in the members' unit; the answer's loss."""
    total = 0.0
    for a in range(N_MIXERS):
        if a < N_BAYES:
            chance = dot(snapshot.posteriors[a], scratch.likelihoods)
        elif unit == 0.0:
            chance = _density(y, mixers[a, 0], mixers[a, 1])
        else:
            chance = np.exp(minimum(_log_density(y, mixers[a, 0], mixers[a, 1]) - unit, _MOST_NATS))
        scratch.mixer_likelihoods[a] = chance
        total += snapshot.final[a] * chance
    now.loss -= weight * (np.log(total) + unit)


@kernel
def _update_stackings(now, y, stackings, members, mixers, power, energy):
    """An implicit step of each stacking: the slope of the squared loss has no bound."""
    for a in range(N_STACKS):
        step = power * STACKS[a] / maximum(maximum(now.energy, energy), 1e-150)
        step *= (y - mixers[N_BAYES + a, 0]) / now.unit**2 / (1.0 + step * energy)
        for k in range(N_MEMBERS):
            stackings[a, k] += step * (members[0, k] - now.centre)


@kernel
def record_error(now, bets, y, answer, learned):
    """Count the error of an answer, and update the bets: every row counts once.

    A refused target does not count for the unit of scores. Once that is known, it is bet on like
    any other target, and its interval may miss it.
    """
    gap = minimum(abs(y - answer[0]), HUGE)
    now.errors += gap * gap
    if learned or radius(bets, 0) < np.inf:
        bet(bets, gap / answer[1])


@kernel
def learn_number(now, learned, y, weight, is_late, members, mixers, snapshot, scratch):
    """Update the mixers by the target of a row that was predicted."""
    power = power_of(now, snapshot, weight, is_late)
    energy, unit = _judge_members(now, y, weight, learned.losses, members, scratch.likelihoods)
    _judge_mixers(now, y, weight, mixers, snapshot, unit, scratch)
    update_posteriors(now.rows, learned, scratch, power)
    now.energy += (energy - now.energy) / (now.rows + 1.0)
    _update_stackings(now, y, learned.stackings, members, mixers, power, energy)
    for a in range(N_MIXERS):
        _update_variance(now, learned.mixer_variances, a, y - mixers[a, 0], weight)
    record_error(now, learned.bets, y, mixers[ANSWER], True)


# --- updates of the linear members ----------------------------------------------------------------


@kernel
def number_slopes(now, variances, y, weight, scores, scratch):
    """Overwrite scores by the negative slopes of implicit steps; variances of residuals."""
    for k in range(N_MEMBERS):
        gain = scratch.gains[k]
        if k < N_FILTERS:
            gain = scratch.gains[k] = maximum(gain, 0.0)
        r = (y - now.centre) / now.unit - scores[k]
        scores[k] = weight * r / (1.0 + weight * gain)  # not used for votes
        if now.rows >= 1.0:  # one target has no deviation
            inner = np.sqrt(1.0 + gain) if k < N_FILTERS else 1.0
            _update_variance(now, variances, k, r * now.unit / inner, weight)
    for f in range(N_FILTERS):
        scratch.curvatures[f] = 1.0
