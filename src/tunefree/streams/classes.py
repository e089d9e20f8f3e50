"""Predictions and updates for classes: one output of log-odds for two, else one for each class."""

import numpy as np

from tunefree.core.jit import fast_exp, kernel, maximum, minimum
from tunefree.streams.betting import bet
from tunefree.streams.implicit import implicit_margins, implicit_scores, sigmoid, softmax
from tunefree.streams.mixers import answer, dot, power_of, update_posteriors
from tunefree.streams.state import (
    ANSWER,
    N_BAYES,
    N_FILTERS,
    N_LINES,
    N_MEMBERS,
    N_MIXERS,
    N_STACKS,
    NOISE,
    STACKS,
)

# Log-odds and centred log-probabilities are clipped: this costs at most 6e-6 a row.
CLIP = 12.0


@kernel
def _clipped(x):
    return minimum(maximum(x, -CLIP), CLIP)


@kernel
def _curvature(probabilities, m):
    """The largest p (1 - p) of some probabilities: the curvature of the loss."""
    most = 0.0
    for c in range(m):
        most = maximum(most, probabilities[c] * (1.0 - probabilities[c]))
    return most


@kernel
def _probability(mixers, a, m, code):
    """The probability of a class by a mixer."""
    if m == 1:
        return mixers[a, 0] if code == 1 else 1.0 - mixers[a, 0]
    return mixers[a, code]


# --- predictions ----------------------------------------------------------------------------------


@kernel
def _predict_members(scores, gains, members):
    """The members' log-odds or centred log-probabilities, nearer to 0 the less a filter knows."""
    m = len(scores)
    for k in range(N_MEMBERS):
        gain = maximum(gains[k], 0.0) if k < N_FILTERS else 0.0
        shrink = 1.0 / np.sqrt(1.0 + 0.125 * np.pi * gain)
        mean = 0.0
        for c in range(m if m > 1 else 0):
            mean += scores[c, k] / m
        for c in range(m):
            members[c, k] = _clipped((scores[c, k] - mean) * shrink)


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


@kernel
def predict_classes(learned, scores, gains, members, probabilities, mixers):
    """Probabilities by members, mixers and the answer: of the second of two, or of every class."""
    m, posteriors, stackings = len(scores), learned.posteriors, learned.stackings
    _predict_members(scores, gains, members)
    _write_probabilities(members, m, probabilities)
    for a in range(N_BAYES):
        for c in range(m):
            mixers[a, c] = dot(posteriors[a], probabilities[c])
    for a in range(N_STACKS):
        i = N_BAYES + a
        for c in range(m):
            mixers[i, c] = _clipped(dot(stackings[a], members[c]))
        if m == 1:
            mixers[i, 0] = sigmoid(mixers[i, 0])
        else:
            softmax(mixers[i], mixers[i])
        for c in range(m):
            mixers[i, c] += NOISE[a] * (1.0 / len(members) - mixers[i, c])
    for c in range(m):
        answer(learned.final, mixers, c)


# --- updates of the mixers, by predictions made before the label ----------------------------------


@kernel
def _judge_members(m, code, weight, losses, members, probabilities, likelihoods):
    """Likelihoods of the label by the members, and the squared norm of their predictions."""
    energy = 0.0
    for k in range(N_MEMBERS):
        chance = probabilities[code if m > 1 else 0, k]
        likelihoods[k] = 1.0 - chance if m == 1 and code == 0 else chance
    for c in range(m):
        energy += dot(members[c], members[c]) * (1.0 if m == 1 else 2.0)
    for k in range(N_MEMBERS):
        losses[k] -= weight * np.log(likelihoods[k])
    return energy


@kernel
def _judge_mixers(now, m, code, weight, mixers, final, likelihoods):
    """Likelihoods of the label by the mixers; the answer's loss."""
    total = 0.0
    for a in range(N_MIXERS):
        chance = maximum(_probability(mixers, a, m, code), 1e-300)
        likelihoods[a] = chance
        total += final[a] * chance
    now.loss -= weight * np.log(total)


@kernel
def _update_stackings(m, code, stackings, members, mixers, power, energy):
    """A gradient step of each stacking."""
    width = len(members)
    for a in range(N_STACKS):
        i = N_BAYES + a
        trusted = 1.0 - NOISE[a]
        even = NOISE[a] / width
        step = power * STACKS[a] / energy
        step *= 1.0 - even / _probability(mixers, i, m, code)  # the label is not random
        for c in range(m):
            right = 1.0 if (code == 1 if m == 1 else c == code) else 0.0
            slope = step * (right - (mixers[i, c] - even) / trusted)
            slope *= 1.0 if m == 1 else 2.0
            for k in range(N_MEMBERS):
                stackings[a, k] += slope * members[c, k]


@kernel
def _record_answer(now, bets, m, code, mixers):
    """Count the error of the predicted class, and update the bets: every row counts once."""
    best = 0
    if m == 1:
        best = 1 if mixers[ANSWER, 0] > 0.5 else 0
    for c in range(1, m):
        best = c if mixers[ANSWER, c] > mixers[ANSWER, best] else best
    now.errors += best != code
    now.curvature += (_curvature(mixers[ANSWER], m) - now.curvature) / (now.rows + 1.0)
    bet(bets, 1.0 - _probability(mixers, ANSWER, m, code))


@kernel
def learn_class(now, learned, m, code, weight, is_late, outputs, snapshot, scratch):
    """Update the mixers by the class of a row that was predicted."""
    members, probabilities, mixers = outputs
    if is_late:
        _write_probabilities(members, m, probabilities)
    power = power_of(now, snapshot, weight, is_late)
    energy = _judge_members(
        m, code, weight, learned.losses, members, probabilities, scratch.likelihoods
    )
    _judge_mixers(now, m, code, weight, mixers, snapshot.final, scratch.mixer_likelihoods)
    update_posteriors(now.rows, learned, scratch, power)
    now.energy += (energy - now.energy) / (now.rows + 1.0)
    energy = maximum(maximum(now.energy, energy), 1e-150)
    _update_stackings(m, code, learned.stackings, members, mixers, power, energy)
    _record_answer(now, learned.bets, m, code, mixers)


# --- updates of the linear members ----------------------------------------------------------------


@kernel
def _binary_slopes(code, weight, scores, scratch):
    """Slopes for one of two classes."""
    side = 1.0 if code == 1 else -1.0
    for k in range(N_LINES):
        scores[k] *= side
        scratch.steps[k] = weight * scratch.gains[k]
    implicit_margins(scores[:N_LINES], scratch.steps[:N_LINES], scratch.margins[:N_LINES])
    for k in range(N_LINES):
        p = sigmoid(-scratch.margins[k])
        scores[k] = weight * side * p
        if k < N_FILTERS:
            scratch.curvatures[k] = p * (1.0 - p)


@kernel
def class_slopes(code, weight, scores, by_class, scratch):
    """Overwrite scores by the negative slopes of implicit steps; curvatures there."""
    for f in range(N_FILTERS):
        scratch.gains[f] = maximum(scratch.gains[f], 0.0)
    if len(scores) == 1:
        _binary_slopes(code, weight, scores[0], scratch)
        return
    new, probabilities = by_class[0], by_class[1]
    for k in range(N_LINES):
        energy = weight * scratch.gains[k]
        implicit_scores(scores[:, k], code, energy, new, probabilities)
        if k < N_FILTERS:
            scratch.curvatures[k] = _curvature(probabilities, len(scores))
        for c in range(len(scores)):
            right = 1.0 if c == code else 0.0
            scores[c, k] = weight * (right - probabilities[c])
