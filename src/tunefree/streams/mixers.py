"""Mixers: Bayes mixtures of the members with a fixed share, stackings, and the answer."""

from tunefree.core.jit import REASSOCIATE, kernel, maximum
from tunefree.streams.state import ANSWER, N_BAYES, N_MEMBERS, N_MIXERS, SHARES, copy_to


@kernel(fastmath=REASSOCIATE)
def dot(one, two):
    """The sum of products over members."""
    total = 0.0
    for k in range(N_MEMBERS):
        total += one[k] * two[k]
    return total


@kernel
def answer(final, mixers, c):
    """Write the answer: the mixers' mixture by the final weights."""
    total = 0.0
    for a in range(N_MIXERS):
        total += final[a] * mixers[a, c]
    mixers[ANSWER, c] = total


@kernel
def take_snapshot(learned, rows, snapshot):
    """Keep the weights by which a row was predicted, and how many rows were learned then."""
    for a in range(N_BAYES):
        copy_to(snapshot.posteriors[a], learned.posteriors[a])
    copy_to(snapshot.final, learned.final)
    snapshot.rows = rows


@kernel
def power_of(now, snapshot, weight, is_late):
    """The power of the likelihoods in Bayes' rule.

    Of a label that comes n rows late it takes the (n + 1)th root: until it came, n more rows were
    predicted with the same posteriors, and were likely right or wrong with it.
    """
    return weight / (1.0 + (now.rows - snapshot.rows if is_late else 0.0))


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
            top = maximum(top, likelihood[k])
        for k in range(n):
            posterior[k] *= (likelihood[k] / top) ** power
    for k in range(n):
        total += posterior[k]
    scale, spread = (1.0 - share) / total, share / n
    for k in range(n):
        posterior[k] = scale * posterior[k] + spread


@kernel
def update_posteriors(t, learned, scratch, power):
    """Update the Bayes mixtures and the final weights by the likelihoods of the label."""
    likelihoods = scratch.likelihoods[:]  # slices have one type: one function is compiled
    for a in range(N_BAYES):
        share = SHARES[a] if SHARES[a] > 0.0 else 1.0 / (t + 2.0)
        _fixed_share(learned.posteriors[a], likelihoods, power, share)
    _fixed_share(learned.final[:], scratch.mixer_likelihoods[:], power, 1.0 / (t + 2.0))
