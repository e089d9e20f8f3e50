"""Mixers: Bayes mixtures of the members with a fixed share, stackings, and the answer."""

import numpy as np

from tunefree._jit import REASSOCIATE, fast_exp, kernel
from tunefree.learners.mixture.betting import bet, radius
from tunefree.learners.mixture.implicit import sigmoid, softmax
from tunefree.learners.mixture.members import (
    clipped,
    curvature,
    in_range,
    update_variance,
    variance_of,
)
from tunefree.learners.mixture.standardize import HUGE
from tunefree.learners.mixture.state import (
    ANSWER,
    N_BAYES,
    N_MEMBERS,
    N_MIXERS,
    N_STACKS,
    NOISE,
    SHARES,
    STACKS,
    WHOLE,
    copy_to,
)

# With fewer rows a column than this, real answers are shrunk towards the mean.
_SHRUNK_BELOW = 8.0
# Degrees of freedom of a real target's distribution.
NU = 5.0
_T5 = 0.3796066898224944  # Gamma(3) / (Gamma(2.5) sqrt(5 pi))


@kernel(fastmath=REASSOCIATE)
def _dot(one, two):
    total = 0.0
    for k in range(N_MEMBERS):
        total += one[k] * two[k]
    return total


@kernel
def _write_probabilities(members, m, out):
    """Write the probabilities of the members' log-odds or centred logarithms to `out`."""
    if m == 1:
        for k in range(N_MEMBERS):
            out[0, k] = sigmoid(members[0, k])
        return
    for k in range(N_MEMBERS):
        total = 0.0
        for c in range(m):  # clipped to +-12: no sum overflows
            out[c, k] = fast_exp(members[c, k])
            total += out[c, k]
        for c in range(m):
            out[c, k] /= total


# --- predictions ----------------------------------------------------------------------------------


@kernel
def _predict_real(now, learned, members, mixers):
    """Locations and scales of the mixers for real targets."""
    posteriors, stackings = learned.posteriors, learned.stackings
    for a in range(N_BAYES):
        location, total = _dot(posteriors[a], members[0]), 0.0
        for k in range(N_MEMBERS):
            total += posteriors[a, k] * (members[1, k] ** 2 + (members[0, k] - location) ** 2)
        mixers[a, 0], mixers[a, 1] = location, np.sqrt(total)
    for a in range(N_STACKS):
        i, total = N_BAYES + a, now.centre
        for k in range(N_MEMBERS):
            total += stackings[a, k] * (members[0, k] - now.centre)
        mixers[i, 0] = in_range(now, total)
        mixers[i, 1] = np.sqrt(variance_of(now, learned.mixer_variances[i]))


@kernel
def _predict_classes(m, learned, members, probabilities, mixers):
    """Probabilities of the mixers: of the second of two classes, or of every class."""
    posteriors, stackings = learned.posteriors, learned.stackings
    _write_probabilities(members, m, probabilities)
    for a in range(N_BAYES):
        for c in range(m):
            mixers[a, c] = _dot(posteriors[a], probabilities[c])
    for a in range(N_STACKS):
        i = N_BAYES + a
        for c in range(m):
            mixers[i, c] = clipped(_dot(stackings[a], members[c]))
        if m == 1:
            mixers[i, 0] = sigmoid(mixers[i, 0])
        else:
            softmax(mixers[i], mixers[i])
        for c in range(m):
            mixers[i, c] += NOISE[a] * (1.0 / len(members) - mixers[i, c])


@kernel
def _shrunk(state, answer):
    """A real answer, shrunk towards the mean while there are few rows a column.

    Filters then fit any targets, and their losses do not yet show which of them overfit.
    """
    now, d = state.numbers, state.moments.shape[1]
    if state.form != WHOLE or now.rows >= _SHRUNK_BELOW * d:
        return answer
    share = now.rows**2 / (now.rows**2 + 0.5 * d**2)
    return now.y_mean + share * (answer - now.y_mean)


@kernel
def predict_mixers(state, work):
    """The mixers' predictions, and the answer: their mixture by the final weights."""
    m, learned, members, mixers = len(work.scores), state.learned, work.members, work.mixers
    final = learned.final
    if state.real:
        _predict_real(state.numbers, learned, members, mixers)
    else:
        _predict_classes(m, learned, members, work.probabilities, mixers)
    for c in range(m):
        total = 0.0
        for a in range(N_MIXERS):
            total += final[a] * mixers[a, c]
        mixers[ANSWER, c] = total
    if state.real:
        total = 0.0
        for a in range(N_MIXERS):
            total += final[a] * (mixers[a, 1] ** 2 + (mixers[a, 0] - mixers[ANSWER, 0]) ** 2)
        mixers[ANSWER, 0] = _shrunk(state, mixers[ANSWER, 0])
        mixers[ANSWER, 1] = np.sqrt(total)


@kernel
def take_snapshot(learned, rows, snapshot):
    """Keep the weights by which a row was predicted, and how many rows were learned then."""
    for a in range(N_BAYES):
        copy_to(snapshot.posteriors[a], learned.posteriors[a])
    copy_to(snapshot.final, learned.final)
    snapshot.rows = rows


# --- updates: mixers learn from predictions made before the label ---------------------------------


@kernel
def _density(y, location, scale):
    """Student's density of 5 degrees of freedom."""
    r = (y - location) / scale
    return _T5 / (scale * (1.0 + r * r / NU) ** 3)


@kernel
def _probability(mixers, a, m, code):
    """The probability of a class by a mixer."""
    if m == 1:
        return mixers[a, 0] if code == 1 else 1.0 - mixers[a, 0]
    return mixers[a, code]


@kernel
def _fixed_share(posterior, likelihood, power, share):
    """Bayes' rule for a posterior; then a fixed share of it is spread evenly."""
    n, total = len(posterior), 0.0
    if power == 1.0:
        for k in range(n):
            posterior[k] *= likelihood[k]
    else:
        top = 1e-300  # relative to the best: a heavy row may not bring all to zero
        for k in range(n):
            top = max(top, likelihood[k])
        for k in range(n):
            posterior[k] *= (likelihood[k] / top) ** power
    for k in range(n):
        total += posterior[k]
    scale, spread = (1.0 - share) / total, share / n
    for k in range(n):
        posterior[k] = scale * posterior[k] + spread


@kernel
def _judge_members(state, label, work, is_late):
    """Likelihoods of the label by the members, and the squared norm of their predictions."""
    now, m, members, energy = state.numbers, len(work.scores), work.members, 0.0
    likelihoods, losses = work.scratch.likelihoods, state.learned.losses
    if state.real:
        for k in range(N_MEMBERS):
            likelihoods[k] = _density(label.y, members[0, k], members[1, k])
            energy += ((members[0, k] - now.centre) / now.unit) ** 2
    else:
        probabilities = work.probabilities
        if is_late:
            _write_probabilities(members, m, probabilities)
        for k in range(N_MEMBERS):
            chance = probabilities[label.code if m > 1 else 0, k]
            likelihoods[k] = 1.0 - chance if m == 1 and label.code == 0 else chance
        for c in range(m):
            energy += _dot(members[c], members[c]) * (1.0 if m == 1 else 2.0)
    for k in range(N_MEMBERS):
        losses[k] -= label.weight * np.log(likelihoods[k])
    return energy


@kernel
def _judge_mixers(real, now, label, m, mixers, snapshot, scratch):
    """Likelihoods of the label by the mixers; the answer's loss."""
    likelihoods, posteriors, total = scratch.likelihoods, snapshot.posteriors, 0.0
    for a in range(N_MIXERS):
        if not real:
            chance = max(_probability(mixers, a, m, label.code), 1e-300)
        elif a < N_BAYES:
            chance = _dot(posteriors[a], likelihoods)
        else:
            chance = _density(label.y, mixers[a, 0], mixers[a, 1])
        scratch.mixer_likelihoods[a] = chance
        total += snapshot.final[a] * chance
    now.loss -= label.weight * np.log(total)


@kernel
def _update_posteriors(t, learned, scratch, power):
    for a in range(N_BAYES):
        share = SHARES[a] if SHARES[a] > 0.0 else 1.0 / (t + 2.0)
        _fixed_share(learned.posteriors[a], scratch.likelihoods, power, share)
    _fixed_share(learned.final, scratch.mixer_likelihoods, power, 1.0 / (t + 2.0))


@kernel
def _update_stackings(real, now, stackings, label, m, members, mixers, power, energy):
    """A gradient step of each stacking."""
    width = len(members)
    now.energy += (energy - now.energy) / (now.rows + 1.0)
    for a in range(N_STACKS):
        i, step = N_BAYES + a, power * STACKS[a] / max(now.energy, energy, 1e-150)
        trusted, even = 1.0 - NOISE[a], NOISE[a] / width
        if real:  # an implicit step: the slope of the squared loss has no bound
            step *= (label.y - mixers[i, 0]) / now.unit**2 / (1.0 + step * energy)
        else:  # the probability that the label is not random
            step *= 1.0 - even / _probability(mixers, i, m, label.code)
        for c in range(m):
            slope = step
            if not real:
                right = 1.0 if (label.code == 1 if m == 1 else c == label.code) else 0.0
                slope *= right - (mixers[i, c] - even) / trusted
                slope *= 1.0 if m == 1 else 2.0
            centre = now.centre
            for k in range(N_MEMBERS):
                stackings[a, k] += slope * (members[c, k] - centre)


@kernel
def _record_class(now, bets, label, m, mixers):
    """Count the error of a predicted class, and update the bets."""
    best = 0
    if m == 1:
        best = 1 if mixers[ANSWER, 0] > 0.5 else 0
    for c in range(1, m):
        best = c if mixers[ANSWER, c] > mixers[ANSWER, best] else best
    now.errors += label.weight * (best != label.code)
    now.curvature += (curvature(mixers[ANSWER], m) - now.curvature) / (now.rows + 1.0)
    bet(bets, 1.0 - _probability(mixers, ANSWER, m, label.code))


@kernel
def record_error(now, bets, label, answer, learned):
    """Count the error of a real answer, and update the bets.

    A refused target does not count for the unit of scores. Once that is known, it is bet on like
    any other target, and its interval may miss it.
    """
    gap = min(abs(label.y - answer[0]), HUGE)
    now.errors += label.weight * (gap * gap)
    if learned or radius(bets, 0) < np.inf:
        bet(bets, gap / answer[1])


@kernel
def update_mixers(state, label, work, is_late):
    """Update the mixers by the label of a row that was predicted.

    Of a label that comes n rows late Bayes' rule takes the (n + 1)th root: until it came, n more
    rows were predicted with the same posteriors, and were likely right or wrong with it.
    """
    now, m, learned, mixers = state.numbers, len(work.scores), state.learned, work.mixers
    power = label.weight / (1.0 + (now.rows - work.snapshot.rows if is_late else 0.0))
    energy = _judge_members(state, label, work, is_late)
    _judge_mixers(state.real, now, label, m, mixers, work.snapshot, work.scratch)
    _update_posteriors(now.rows, learned, work.scratch, power)
    _update_stackings(
        state.real, now, learned.stackings, label, m, work.members, mixers, power, energy
    )
    if not state.real:
        _record_class(now, learned.bets, label, m, mixers)
        return
    variances = learned.mixer_variances
    for a in range(N_MIXERS):
        update_variance(now, variances, a, label.y - mixers[a, 0], label.weight)
    record_error(now, learned.bets, label, mixers[ANSWER], True)
