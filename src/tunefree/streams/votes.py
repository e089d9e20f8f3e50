"""Members by votes: the latest rows vote, the nearer the more."""

import numpy as np

from tunefree.core.jit import REASSOCIATE, _as_float, _as_integer, kernel, maximum, minimum
from tunefree.streams.state import N_LINES, N_MEMBERS, N_VOTES, NARROW, WINDOW

# Votes that each class has before any row (the nearest row has 1).
_PRIOR = 0.5


@kernel(fastmath=REASSOCIATE)
def _distances(z, memory, first, out):
    """Squared distances of a row to the stored rows from `first` on."""
    d = memory.shape[0] - 2
    last = first + len(out)
    for i in range(len(out)):
        gap = z[d] - memory[d - 1, first + i]
        out[i] = gap * gap if d % 2 else 0.0
    for j in range(0, d - 1, 2):  # two columns at a time: half the memory traffic
        x, column = z[1 + j], memory[j, first:last]
        x_, column_ = z[2 + j], memory[j + 1, first:last]
        for i in range(len(out)):
            gap, gap_ = x - column[i], x_ - column_[i]
            out[i] += gap * gap + gap_ * gap_


@kernel
def _least(r):
    """The least of some squares, which have the order of their bits: integers vectorise."""
    least = _as_integer(np.inf)
    for i in range(len(r)):
        least = minimum(least, _as_integer(r[i]))
    return _as_float(least)


@kernel(fastmath=REASSOCIATE)
def _widest_votes(r, scale):
    """Overwrite squared distances by the votes of the widest member."""
    least = _least(r)
    for i in range(len(r)):
        v = maximum(1.0 - scale * (r[i] - least), 0.0)
        v *= v
        v *= v
        r[i] = v * v


@kernel(fastmath=REASSOCIATE)
def _add_class_votes(votes, labels, weights, scores):
    """Add the rows' votes to the scores of their classes."""
    for i in range(len(votes)):
        score, v = scores[np.int64(labels[i]), N_LINES:], votes[i]
        for k in range(N_VOTES):
            score[k] += v * weights[i]
            v *= v
            v *= v


@kernel(fastmath=REASSOCIATE)
def _add_number_votes(votes, labels, weights, centre, sums):
    """Add the rows' votes, and votes times labels: two sums for each narrowness."""
    a0, b0, a1, b1, a2, b2, a3, b3 = sums
    for i in range(len(votes)):
        v = votes[i]
        w = weights[i]
        y = labels[i] - centre
        a0 += v * w
        b0 += v * w * y
        v *= v
        v *= v
        a1 += v * w
        b1 += v * w * y
        v *= v
        v *= v
        a2 += v * w
        b2 += v * w * y
        v *= v
        v *= v
        a3 += v * w
        b3 += v * w * y
    return a0, b0, a1, b1, a2, b2, a3, b3


@kernel(fastmath=REASSOCIATE)
def _score_means(sums, unit, score):
    """Mean targets."""
    for k in range(N_VOTES):
        score[k] = sums[2 * k + 1] / sums[2 * k] / unit


@kernel(fastmath=REASSOCIATE)
def _score_odds(sums, score):
    """Log-odds of the second class."""
    for k in range(N_VOTES):
        a, b = sums[2 * k], sums[2 * k + 1]
        score[k] = np.log((maximum(b, 0.0) + _PRIOR) / (maximum(a - b, 0.0) + _PRIOR))


@kernel(fastmath=REASSOCIATE)
def vote(real, now, memory, z, mean_norm, scores, nearness):
    """Scores of the voting members: the latest rows vote, each by its nearness.

    Unless `real` their labels are classes.

    A row at the squared distance r has (1 - g (r - r_0) / (16 sqrt(mean squared norm)))_+^8 of a
    vote, about exp(-g (r - r_0) / (2 sqrt(..))), where r_0 is that of the nearest row: between
    unrelated rows r varies by the root. Narrower votes are powers of it. The oldest row comes
    first, so that sums do not depend on where the ring begins.
    """
    for c in range(len(scores)):
        for k in range(N_LINES, N_MEMBERS):
            scores[c, k] = 0.0
    rows, size = memory.shape
    count = minimum(np.int64(now.rows), WINDOW)
    if size == 0 or count == 0:
        return
    start = (np.int64(now.rows) - count) % size
    until = minimum(count, size - start)  # here the ring wraps around
    first, part = start, nearness[:until]
    for _ in range(2):
        _distances(z, memory, first, part)
        first, part = 0, nearness[until:count]
    other_norm = maximum(mean_norm - 1.0, 1e-300)  # the constant is no column
    _widest_votes(nearness[:count], NARROW[0] / (16.0 * np.sqrt(other_norm)))
    sums = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    first, part = start, nearness[:until]
    for _ in range(2):
        last = first + len(part)
        labels, weights = memory[rows - 2, first:last], memory[rows - 1, first:last]
        if len(scores) > 1:
            _add_class_votes(part, labels, weights, scores)
        else:
            sums = _add_number_votes(part, labels, weights, now.centre, sums)
        first, part = 0, nearness[until:count]
    if real:
        _score_means(sums, now.unit, scores[0, N_LINES:])
        return
    if len(scores) == 1:
        _score_odds(sums, scores[0, N_LINES:])
        return
    for c in range(len(scores)):
        for k in range(N_LINES, N_MEMBERS):
            scores[c, k] = np.log(scores[c, k] + _PRIOR)


@kernel
def store_row(memory, n_rows, z, label, weight):
    """Store the row among those that vote, in place of the oldest."""
    if memory.shape[1] == 0:
        return
    d = memory.shape[0] - 2
    oldest = n_rows % memory.shape[1]
    for j in range(d):
        memory[j, oldest] = z[1 + j]
    memory[d, oldest], memory[d + 1, oldest] = label, weight
