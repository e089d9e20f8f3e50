r"""A mixture over implicit learners for streams: the rate of drift need not be known.

Log loss is mixable: over a grid of K learners a mixture loses ln K, and with a fixed share 1/(t+1)
at most ln K + ln t more, on any interval of the stream, than the learner that is best there. So no
rate is chosen: all are run. Each row passes five stages:

standardize  update the columns' running means and variances; z = (x - m) / sd, and a constant 1;
members      20 predictions: 16 by linear learners (Kalman filters with drift q a row, and
             implicit gradient learners of rate eta), 4 by votes of the latest rows, the nearer
             the more;
mixers       15 combinations of the members: four Bayes mixtures with a fixed share, and eleven
             stackings whose coefficients learn by gradients. The answer is the Bayes mixture of
             the 15;
update       when the label comes, mixers learn from the predictions made before it,
             and each linear member directions to the minimum of its loss plus its distance;
store        the row joins the rows that vote.

There is one recursion for two classes (one output of log-odds), several (an output each, softmax)
and real targets (standardised as they come). Up to 32 columns a filter has a whole covariance;
beyond, and for sparse rows, it has the diagonal only, and voting is off. The state is one vector
of numbers and a ring of the latest rows. A row changes them in place whatever chunk it comes in:
no split of a stream changes a bit, and a copy of them is a checkpoint.

Sources: Vovk 1998 (mixability), Herbster and Warmuth 1998 (fixed share), Kulis and Bartlett 2010
and Campolongo and Orabona 2020 (implicit updates), West and Harrison 1997 (dynamic models).
"""

import numpy as np

from tunefree._jit import REASSOCIATE, fast_exp, kernel
from tunefree.learners.mixture.betting import FIRST, bet, radius
from tunefree.learners.mixture.betting import SIZE as _BET_SIZE

# Members: the filters' drifts, the gradient learners' rates, and how narrow the votes are.
DRIFTS = np.array([0.0, *(2.0**e for e in range(-20, 0, 3))])
RATES = np.array([2.0**e for e in range(-10, 5, 2)])
NARROW = np.array([2.0, 8.0, 32.0, 128.0])
_F, _LINES, _VOTES = len(DRIFTS), len(DRIFTS) + len(RATES), len(NARROW)
N_MEMBERS = _LINES + _VOTES
# Rows that vote; votes that each class has before any row (the nearest row has 1).
WINDOW, _PRIOR = 512, 0.5
# Mixers: the shares of the Bayes mixtures (0 means 1/(t+1)); the stackings' rates; and the share of
# labels that each stacking assumes to be random: no logistic curve is steep and curvatures at .9.
SHARES = np.array([0.0, 2.0**-4, 2.0**-7, 2.0**-10])
STACKS = np.array([*(2.0**e for e in range(-10, 3, 2)), 1.0, 4.0, 1.0, 4.0])
NOISE = np.array([0.0] * 7 + [0.1, 0.1, 0.25, 0.25])
_B, _S = len(SHARES), len(STACKS)
N_MIXERS = _B + _S
# Log-odds and centred log-probabilities are clipped: this costs at most 6e-6 a row.
CLIP = 12.0
_MOST_VARIANCE, _LEAST_CURVATURE = 100.0, 1e-4
# An outlier is an entry this many standard deviations from the mean; it counts as missing. Each
# outlier in succession makes the limit 4 times wider, and a column of n < 16 entries makes it
# 10^(16 / n) times wider: values that keep coming are learned in the end.
_OUTLIER_SD, _WIDENING, _FEW_ENTRIES = 30.0, 4.0, 16.0
# An accepted target cancels this much of a refused one: what half of the targets are is learned.
_CANCELLED = 0.9
# With fewer rows a column than this, real answers are shrunk towards the mean.
_SHRUNK_BELOW = 8.0
# A column's statistics restart where the variance of its latest 64 entries is this much smaller
# than that of all entries.
_BLOCK, _RESTART_RATIO = 64.0, 1e-4
_HUGE = 1e150  # larger entries are missing: their squares overflow
# Degrees of freedom of a real target's distribution; weight of a new residual in its variance.
NU, _VARIANCE_RATE = 5.0, 0.02
_T5 = 0.3796066898224944  # Gamma(3) / (Gamma(2.5) sqrt(5 pi))
# Forms: dense rows with whole covariances, dense rows with diagonals, sparse rows with diagonals.
WHOLE, DIAGONAL, SPARSE = 0, 1, 2
MOST_WHOLE = 32

# The head of the state.
(
    T,  # rows learned
    NORM,  # mean squared norm of rows
    CURVATURE,  # mean curvature of the loss
    ENERGY,  # mean squared norm of the members' predictions
    Y_WEIGHT,  # targets: total weight, mean, sum of squares, recent outliers
    Y_MEAN,
    Y_SQUARES,
    Y_OUTLIERS,
    CENTRE,  # location and scale by which targets are standardised
    UNIT,
    LOW,  # range of targets
    HIGH,
    LOSS,  # total loss of the answers
    ERRORS,  # total weight of wrong answers, or of squared errors
    OUTLIERS,  # rows with an outlier
    POINTS,  # points of the trace, and rows between two of them
    STRIDE,
    REFUSED,  # targets refused as outliers
) = range(18)
_HEAD = 20
# Most points of the trace; the numbers of a point: rows, half-life, errors, loss, members' losses.
MOST_POINTS, POINT = 256, 4 + N_MEMBERS


# The layout: four settings, then where each part of the state begins, then where each part of the
# scratch begins. Members are the last axis everywhere, so that loops over them are vectorised.
(
    N_COLUMNS,
    N_OUTPUTS,
    FORM,
    REAL,  # whether targets are numbers
    # The state, from its head on.
    COLUMNS,  # weight, mean, squares, outliers in succession; of the latest 64 n, mean, squares
    LAST_ROW,  # of each column and the constant: rows learned when it last had an entry
    WEIGHTS,  # (output, column, linear member); the constant is the first column
    COVARIANCES,  # (row, column, filter)
    LOSSES,  # total losses of the members
    VARIANCES,  # of real residuals: of members, then of mixers
    POSTERIORS,  # (Bayes mixture, member): weights
    STACKINGS,  # (stacking, member): coefficients
    FINAL,  # weights of the mixers in the answer
    BETS,  # state of `betting`
    STATE_SIZE,
    # The scratch. A prediction is all of it before SCORES: the members' predictions come first.
    MIXED,  # the mixers' predictions, then the answer
    SNAPSHOT,  # POSTERIORS, FINAL and T as they were when the row was predicted
    SCORES,  # w z of each member and output
    GAINS,  # z C z of filters, step times squared norm of gradient learners
    DIRECTIONS,  # C z: how a filter's weights move
    NEW_SCORES,  # after an implicit step
    PROBABILITIES,  # of every class by every member
    ROW,  # the standardised row
    LIKELIHOODS,  # of the label: by members, then by mixers
    STEPS,
    NEARNESS,  # of the latest rows
    PREVIOUS_ROW,  # the row predicted last, and T then
    SCRATCH_SIZE,
) = range(28)


def layout(d, m, form, real):
    """The layout for d columns and m outputs, which kernels read."""
    D, w = d + 1, max(m, 2)
    at = np.zeros(28, dtype=np.int64)
    at[:4] = d, m, form, real
    sizes = (
        7 * d, D, _LINES * m * D, _F * (D * D if form == WHOLE else D), N_MEMBERS,
        N_MEMBERS + N_MIXERS, _B * N_MEMBERS, _S * N_MEMBERS, N_MIXERS, _BET_SIZE,
    )  # fmt: skip
    at[COLUMNS : STATE_SIZE + 1] = _HEAD + np.cumsum((0, *sizes))
    sizes = (
        N_MEMBERS * w, (N_MIXERS + 1) * w, _B * N_MEMBERS + N_MIXERS + 1, N_MEMBERS * m, N_MEMBERS,
        _F * D, w, w * N_MEMBERS, D, N_MEMBERS + N_MIXERS, N_MEMBERS,
        WINDOW, D + 1,
    )  # fmt: skip
    at[MIXED:] = np.cumsum(sizes)
    return at


# --- standardize: statistics of the columns ------------------------------------------------------


@kernel
def _is_outlier(gap, count, square, n_outliers):
    """Whether a value is an outlier: `gap` is its distance from the mean."""
    if square == 0.0:
        return False
    limit = _OUTLIER_SD * _WIDENING ** min(n_outliers, 500.0)
    if count < _FEW_ENTRIES:
        limit *= 10.0 ** (_FEW_ENTRIES / count)
    return abs(gap) > limit * np.sqrt(square / count)


@kernel
def _standardize(s, at, columns, values, first, stop, weight, store, where, work, z):
    """Standardise the row, the constant first, and return how many entries it has.

    The row itself counts in the means and variances used; they are kept only if `store`.
    """
    d, sparse, n_outliers, n = at[N_COLUMNS], at[FORM] == SPARSE, 0.0, 1
    where[0], work[z] = 0, 1.0
    for i in range(first, stop):
        j, x = (columns[i] if sparse else i - first), values[i]
        if not sparse:
            where[n], work[z + n] = j + 1, 0.0
            n += 1
        if not abs(x) <= _HUGE or (sparse and x == 0.0):
            continue
        a = at[COLUMNS] + j
        count, mean, square = s[a], s[a + d], s[a + 2 * d]
        gap = x - mean
        if _is_outlier(gap, count, square, s[a + 3 * d]):
            n_outliers = 1.0
            if store:
                s[a + 3 * d] += 1.0
            continue
        count += weight
        if sparse:  # measured from 0: an absent entry has no effect
            square += weight * x * x
        else:
            mean += gap * weight / count
            square += weight * gap * (x - mean)
            gap = x - mean
        if store:
            n_latest, middle, squares = s[a + 4 * d] + 1.0, s[a + 5 * d], s[a + 6 * d]
            latest_gap = x - middle
            middle += 0.0 if sparse else latest_gap / n_latest
            squares += latest_gap * (x - middle)
            if n_latest == _BLOCK:
                if 0.0 < squares < _RESTART_RATIO * _BLOCK * square / count:
                    count, mean, square = n_latest, middle, squares
                    gap = x - mean
                n_latest, middle, squares = 0.0, 0.0, 0.0
            s[a + 4 * d], s[a + 5 * d], s[a + 6 * d] = n_latest, middle, squares
            s[a], s[a + d], s[a + 2 * d], s[a + 3 * d] = count, mean, square, 0.0
        if square > 0.0:
            if sparse:
                where[n] = j + 1
                n += 1
            work[z + n - 1] = gap / np.sqrt(square / count)
    if store:
        s[OUTLIERS] += n_outliers
    return n


# --- members: their scores and predictions -------------------------------------------------------


@kernel
def _drifted(variance, drift, rows):
    """The variance of a weight whose column had no entry for so many rows."""
    return variance if variance >= _MOST_VARIANCE else min(variance + drift * rows, _MOST_VARIANCE)


@kernel(fastmath=REASSOCIATE)
def _vote(s, at, memory, work, z, mean):
    """Scores of the voting members: the latest rows vote, each by its nearness.

    A row at the squared distance r has (1 - g (r - r_0) / (16 sqrt(mean squared norm)))_+^8 of a
    vote, about exp(-g (r - r_0) / (2 sqrt(..))), where r_0 is that of the nearest row: between
    unrelated rows r varies by the root. Narrower votes are powers of it. The oldest row comes
    first, so that sums do not depend on where the ring begins.
    """
    m, d, h, near = at[N_OUTPUTS], at[N_COLUMNS], at[SCORES] + _LINES, at[NEARNESS]
    for c in range(m):
        for k in range(_VOTES):
            work[h + c * N_MEMBERS + k] = 0.0
    for k in range(_VOTES):
        work[at[GAINS] + _LINES + k] = 0.0
    size, t = memory.shape[1], int(s[T])
    count = min(t, WINDOW)
    if size == 0 or count == 0:
        return
    start = (t - count) % size
    until = min(count, size - start)  # here the ring wraps around
    for first, begin, stop in ((start, 0, until), (0, until, count)):
        r, last = work[near + begin : near + stop], first + stop - begin
        for i in range(r.shape[0]):
            r[i] = (work[z + d] - memory[d - 1, first + i]) ** 2 if d % 2 else 0.0
        for j in range(0, d - 1, 2):  # two columns at a time: half the memory traffic
            x, column = work[z + 1 + j], memory[j, first:last]
            x_, column_ = work[z + 2 + j], memory[j + 1, first:last]
            for i in range(r.shape[0]):
                gap, gap_ = x - column[i], x_ - column_[i]
                r[i] += gap * gap + gap_ * gap_
    r, least = work[near : near + count], np.inf
    for i in range(count):
        least = min(least, r[i])
    scale = NARROW[0] / (16.0 * np.sqrt(max(mean - 1.0, 1e-300)))  # the constant is no column
    for i in range(count):
        v = max(1.0 - scale * (r[i] - least), 0.0)
        v *= v
        v *= v
        r[i] = v * v
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
    centre = s[CENTRE]
    for first, begin, stop in ((start, 0, until), (0, until, count)):
        r, last = work[near + begin : near + stop], first + stop - begin
        labels, weight = memory[d, first:last], memory[d + 1, first:last]
        if m > 1:
            for i in range(r.shape[0]):
                a, v = h + int(labels[i]) * N_MEMBERS, r[i]
                for k in range(_VOTES):
                    work[a + k] += v * weight[i]
                    v *= v
                    v *= v
            continue
        for i in range(r.shape[0]):
            v, w, y = r[i], weight[i], labels[i] - centre
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
    for k, a, b in ((0, a0, b0), (1, a1, b1), (2, a2, b2), (3, a3, b3)):
        if m > 1:
            for c in range(m):
                i = h + c * N_MEMBERS + k
                work[i] = np.log(work[i] + _PRIOR)
        elif at[REAL]:
            work[h + k] = b / a / s[UNIT]
        else:
            work[h + k] = np.log((max(b, 0.0) + _PRIOR) / (max(a - b, 0.0) + _PRIOR))


@kernel
def _store(s, at, memory, work, z, y, weight):
    """Store the row among those that vote, in place of the oldest."""
    if memory.shape[1] == 0:
        return
    d, oldest = at[N_COLUMNS], int(s[T]) % memory.shape[1]
    for j in range(d):
        memory[j, oldest] = work[z + 1 + j]
    memory[d, oldest], memory[d + 1, oldest] = y, weight


@kernel
def _score_members(s, at, memory, where, work, z, n, norm):
    """Scores h = w z of each linear member, its gain Q = z C z, and its direction C z."""
    D, form, t = at[N_COLUMNS] + 1, at[FORM], s[T]
    gains = at[GAINS]
    for o in range(at[N_OUTPUTS]):
        h, w = at[SCORES] + o * N_MEMBERS, at[WEIGHTS] + o * D * _LINES
        scores = work[h : h + _LINES]
        for k in range(_LINES):
            scores[k] = 0.0
        for i in range(n):
            a, x = w + where[i] * _LINES, work[z + i]
            column = s[a : a + _LINES]
            for k in range(_LINES):
                scores[k] += column[k] * x
    directions = work[at[DIRECTIONS] : at[DIRECTIONS] + n * _F]
    if form == WHOLE:
        for q in range(n * _F):
            directions[q] = 0.0
        for j in range(n):  # C is symmetric: a row at a time is a vector
            a, x = at[COVARIANCES] + j * D * _F, work[z + j]
            row = s[a : a + n * _F]
            for q in range(n * _F):
                directions[q] += row[q] * x
    else:
        for i in range(n):
            a, rows = at[COVARIANCES] + where[i] * _F, t - s[at[LAST_ROW] + where[i]]
            for f in range(_F):
                directions[i * _F + f] = work[z + i] * _drifted(s[a + f], DRIFTS[f], rows)
    total = work[gains : gains + _F]
    for f in range(_F):
        total[f] = 0.0
    for i in range(n):
        direction, x = directions[i * _F : (i + 1) * _F], work[z + i]
        for f in range(_F):
            total[f] += direction[f] * x
    mean = s[NORM] + (norm - s[NORM]) / (t + 1.0)  # this row included
    for k in range(_F, _LINES):
        work[gains + k] = RATES[k - _F] * norm / mean
    _vote(s, at, memory, work, z, mean)


@kernel
def _softmax(x, a, y, b, m):
    top, total = x[a], 0.0
    for c in range(1, m):
        top = max(top, x[a + c])
    for c in range(m):
        y[b + c] = np.exp(x[a + c] - top)
        total += y[b + c]
    for c in range(m):
        y[b + c] /= total


@kernel
def _sigmoid(x):
    e = fast_exp(-min(abs(x), 700.0))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@kernel
def _clipped(x):
    return min(max(x, -CLIP), CLIP)


@kernel
def _in_range(s, y):
    return min(max(y, s[LOW]), s[HIGH])


@kernel
def _variance(s, at, k):
    """The variance of residuals of a member or mixer."""
    v, unit = s[at[VARIANCES] + k], s[UNIT] ** 2
    return max(v if v > 0.0 else unit, 1e-12 * unit, 1e-300)


@kernel
def _predict_members(s, at, work):
    """The members' predictions: log-odds, centred log-probabilities, or location and scale."""
    m, h, gains = at[N_OUTPUTS], at[SCORES], at[GAINS]
    for k in range(N_MEMBERS):
        gain = max(work[gains + k], 0.0) if k < _F else 0.0
        if at[REAL]:
            work[k] = _in_range(s, s[CENTRE] + s[UNIT] * work[h + k])
            work[N_MEMBERS + k] = np.sqrt(_variance(s, at, k) * (1.0 + gain))
            continue
        shrink, mean = 1.0 / np.sqrt(1.0 + 0.125 * np.pi * gain), 0.0
        for c in range(m if m > 1 else 0):
            mean += work[h + c * N_MEMBERS + k] / m
        for c in range(m):
            work[c * N_MEMBERS + k] = _clipped((work[h + c * N_MEMBERS + k] - mean) * shrink)


# --- mixers ---------------------------------------------------------------------------------------


@kernel
def _probabilities(work, m, a, b):
    """Write to b the probabilities of the log-odds or centred logarithms at a, of all members."""
    if m == 1:
        odds, out = work[a : a + N_MEMBERS], work[b : b + N_MEMBERS]
        for k in range(N_MEMBERS):
            out[k] = _sigmoid(odds[k])
        return
    for k in range(N_MEMBERS):
        total = 0.0
        for c in range(m):  # clipped to +-12: no sum overflows
            work[b + c * N_MEMBERS + k] = fast_exp(work[a + c * N_MEMBERS + k])
            total += work[b + c * N_MEMBERS + k]
        for c in range(m):
            work[b + c * N_MEMBERS + k] /= total


@kernel(fastmath=REASSOCIATE)
def _dot(x, a, y, b):
    # Slices, so that no index is checked for being negative.
    one, two, total = x[a : a + N_MEMBERS], y[b : b + N_MEMBERS], 0.0
    for k in range(N_MEMBERS):
        total += one[k] * two[k]
    return total


@kernel
def _predict_mixers(s, at, work):
    """The mixers' probabilities (of the second of two classes), or locations and scales.

    The answer comes last.
    """
    m, mixed, probabilities, real = at[N_OUTPUTS], at[MIXED], at[PROBABILITIES], at[REAL]
    w = max(m, 2)
    answer, odds = mixed + N_MIXERS * w, work[at[LIKELIHOODS] : at[LIKELIHOODS] + _S]
    if real:
        probabilities = 0
    else:
        _probabilities(work, m, 0, probabilities)
    for a in range(_B):
        b, line = at[POSTERIORS] + a * N_MEMBERS, mixed + a * w
        for c in range(m):
            work[line + c] = _dot(s, b, work, probabilities + c * N_MEMBERS)
        if real:
            total = 0.0
            for k in range(N_MEMBERS):
                total += s[b + k] * (work[N_MEMBERS + k] ** 2 + (work[k] - work[line]) ** 2)
            work[line + 1] = np.sqrt(total)
    for a in range(_S):
        b, line = at[STACKINGS] + a * N_MEMBERS, mixed + (_B + a) * w
        if real:
            total = s[CENTRE]
            for k in range(N_MEMBERS):
                total += s[b + k] * (work[k] - s[CENTRE])
            work[line] = _in_range(s, total)
            work[line + 1] = np.sqrt(_variance(s, at, N_MEMBERS + _B + a))
            continue
        for c in range(m):
            work[line + c] = _clipped(_dot(s, b, work, c * N_MEMBERS))
        if m == 1:
            odds[a] = work[line]
        else:
            _softmax(work, line, work, line, m)
    if m == 1 and not real:
        for a in range(_S):
            odds[a] = _sigmoid(odds[a])
        for a in range(_S):
            work[mixed + (_B + a) * w] = odds[a]
    for a in range(0 if real else _S):
        for c in range(m):
            i = mixed + (_B + a) * w + c
            work[i] += NOISE[a] * (1.0 / w - work[i])
    for c in range(m):
        work[answer + c] = 0.0
        for a in range(N_MIXERS):
            work[answer + c] += s[at[FINAL] + a] * work[mixed + a * w + c]
    if real:
        total = 0.0
        for a in range(N_MIXERS):
            line = mixed + a * w
            total += s[at[FINAL] + a] * (work[line + 1] ** 2 + (work[line] - work[answer]) ** 2)
        work[answer] = _shrunk(s, at, work[answer])
        work[answer + 1] = np.sqrt(total)


@kernel
def _shrunk(s, at, answer):
    """A real answer, shrunk towards the mean while there are few rows a column.

    Filters then fit any targets, and their losses do not yet show which of them overfit.
    """
    n, d, mean = s[T], at[N_COLUMNS], s[Y_MEAN]
    if at[FORM] != WHOLE or n >= _SHRUNK_BELOW * d:
        return answer
    return mean + n**2 / (n**2 + 0.5 * d**2) * (answer - mean)


# --- update: mixers learn from predictions made before the label ----------------------------------


@kernel
def _density(y, location, scale):
    """Student's density of 5 degrees of freedom."""
    r = (y - location) / scale
    return _T5 / (scale * (1.0 + r * r / NU) ** 3)


@kernel
def _probability(work, line, m, code):
    """The probability of a class, in the probabilities that begin at `line`."""
    if m == 1:
        return work[line] if code == 1 else 1.0 - work[line]
    return work[line + code]


@kernel
def _fixed_share(s, a, n, work, likelihoods, power, share):
    """Bayes' rule for a posterior; then a fixed share of it is spread evenly."""
    posterior, likelihood, total = s[a : a + n], work[likelihoods : likelihoods + n], 0.0
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
def _update_mixers(s, at, work, code, y, weight, is_late):
    """Update the mixers by the label of a row that was predicted.

    Of a label that comes n rows late Bayes' rule takes the (n + 1)th root: until it came, n more
    rows were predicted with the same posteriors, and were likely right or wrong with it.
    """
    m, real, t = at[N_OUTPUTS], at[REAL], s[T]
    w, mixed, asked = max(m, 2), at[MIXED], at[SNAPSHOT]
    answer, final = mixed + N_MIXERS * w, asked + _B * N_MEMBERS
    likelihoods, line = at[LIKELIHOODS], at[PROBABILITIES]
    of_mixers = likelihoods + N_MEMBERS
    power = weight / (1.0 + (t - work[final + N_MIXERS] if is_late else 0.0))
    energy, total = 0.0, 0.0
    if real:
        for k in range(N_MEMBERS):
            work[likelihoods + k] = _density(y, work[k], work[N_MEMBERS + k])
            energy += ((work[k] - s[CENTRE]) / s[UNIT]) ** 2
    else:
        _probabilities(work, m, 0, line)
        for k in range(N_MEMBERS):
            chance = work[line + (code if m > 1 else 0) * N_MEMBERS + k]
            work[likelihoods + k] = 1.0 - chance if m == 1 and code == 0 else chance
        for c in range(m):
            energy += _dot(work, c * N_MEMBERS, work, c * N_MEMBERS) * (1.0 if m == 1 else 2.0)
    for k in range(N_MEMBERS):
        s[at[LOSSES] + k] -= weight * np.log(work[likelihoods + k])
    for a in range(N_MIXERS):
        if not real:
            chance = max(_probability(work, mixed + a * w, m, code), 1e-300)
        elif a < _B:
            chance = _dot(work, asked + a * N_MEMBERS, work, likelihoods)
        else:
            chance = _density(y, work[mixed + a * w], work[mixed + a * w + 1])
        work[of_mixers + a] = chance
        total += work[final + a] * chance
    s[LOSS] -= weight * np.log(total)
    for a in range(_B):
        b, share = at[POSTERIORS] + a * N_MEMBERS, SHARES[a] if SHARES[a] > 0.0 else 1.0 / (t + 2.0)
        _fixed_share(s, b, N_MEMBERS, work, likelihoods, power, share)
    _fixed_share(s, at[FINAL], N_MIXERS, work, of_mixers, power, 1.0 / (t + 2.0))
    s[ENERGY] += (energy - s[ENERGY]) / (t + 1.0)
    for a in range(_S):
        b, step = at[STACKINGS] + a * N_MEMBERS, power * STACKS[a] / max(s[ENERGY], energy, 1e-150)
        line = mixed + (_B + a) * w
        trusted, even = 1.0 - NOISE[a], NOISE[a] / w
        if real:  # an implicit step: the slope of the squared loss has no bound
            step *= (y - work[line]) / s[UNIT] ** 2 / (1.0 + step * energy)
        else:  # the probability that the label is not random
            step *= 1.0 - even / _probability(work, line, m, code)
        for c in range(m):
            slope = step
            if not real:
                right = 1.0 if (code == 1 if m == 1 else c == code) else 0.0
                slope *= right - (work[line + c] - even) / trusted
                slope *= 1.0 if m == 1 else 2.0
            stack, predicted = s[b : b + N_MEMBERS], work[c * N_MEMBERS : (c + 1) * N_MEMBERS]
            centre = s[CENTRE]
            for k in range(N_MEMBERS):
                stack[k] += slope * (predicted[k] - centre)
    if real:
        for a in range(N_MIXERS):
            _update_variance(s, at, N_MEMBERS + a, y - work[mixed + a * w], weight)
        _record_error(s, at, work, y, weight, True)
        return
    best = 0
    if m == 1:
        best = 1 if work[answer] > 0.5 else 0
    for c in range(1, m):
        best = c if work[answer + c] > work[answer + best] else best
    s[ERRORS] += weight * (best != code)
    s[CURVATURE] += (_curvature(work, answer, m) - s[CURVATURE]) / (t + 1.0)
    bet(s, at[BETS], 1.0 - _probability(work, answer, m, code))


@kernel
def _record_error(s, at, work, y, weight, learned):
    """Count the error of a real answer, and update the bets.

    A refused target does not count for the unit of scores. Once that is known, it is bet on like
    any other target, and its interval may miss it.
    """
    answer = at[MIXED] + 2 * N_MIXERS
    gap = min(abs(y - work[answer]), _HUGE)
    s[ERRORS] += weight * gap**2
    if learned or radius(s, at[BETS], 0) < np.inf:
        bet(s, at[BETS], gap / work[answer + 1])


@kernel
def _curvature(work, line, m):
    """The largest p (1 - p) of some probabilities: the curvature of the loss."""
    most = 0.0
    for c in range(m):
        most = max(most, work[line + c] * (1.0 - work[line + c]))
    return most


@kernel
def _update_variance(s, at, k, residual, weight):
    """Update the variance of a member's or mixer's residuals; one counts as 10 sd at most."""
    rate = min(1.0, weight * max(_VARIANCE_RATE, 1.0 / (s[T] + 2.0)))
    now = _variance(s, at, k)
    s[at[VARIANCES] + k] = now + rate * (min(residual * residual, 100.0 * now) - now)


# --- update: members move to the minimum of their loss plus their distance ------------------------


@kernel(fastmath=REASSOCIATE)
def implicit_margins(x, t, m, E, n):
    """The roots of t = m + E / (1 + exp(t)): margins after implicit steps of energies E.

    x holds n of each, from x[t], x[m] and x[E] on. Newton's method starts on the side where it is
    monotone (near log E where E is large); all n step at the same time, so that loops vectorise.
    """
    for k in range(n):
        a, e = x[m + k], x[E + k]
        x[t + k] = max(0.0, a) if a + 0.5 * e > 0.0 else min(0.0, a + e)
        if e > 64.0 and x[t + k] >= 0.0:
            near = np.log(e)
            near -= np.log(near)
            if near > x[t + k] and near - a - e * _sigmoid(-near) <= 0.0:
                x[t + k] = near
    T, M, energies = x[t : t + n], x[m : m + n], x[E : E + n]
    for _ in range(60):
        moved = 0.0
        for k in range(n):
            old, energy = T[k], energies[k]
            e = fast_exp(-min(abs(old), 700.0))  # p = 1 / (1 + exp(t)), p (1 - p) = e / (1 + e)^2
            d, p = 1.0 + e, (e if old >= 0.0 else 1.0)
            step = ((old - M[k]) * d - energy * p) * d / (d * d + energy * e)
            T[k] = old - step
            moved += abs(step)
        if moved <= 1e-4:  # the remaining error is of the order of its square
            break


@kernel
def implicit_scores(h, a, stride, m, code, E, new, probabilities):
    """The root of h' = h + E (e_code - softmax(h')), and its softmax: Newton, steps capped at 4.

    h is every `stride`-th number from h[a]; h' and the softmax go to h[new] and h[probabilities].
    """
    for c in range(m):
        h[new + c] = h[a + c * stride]
    for _ in range(60):
        _softmax(h, new, h, probabilities, m)
        top, bottom, most = 0.0, 0.0, 0.0
        for c in range(m):
            p = h[probabilities + c]
            h[new + c] -= h[a + c * stride] - E * (p - (1.0 if c == code else 0.0))  # the gap
            top += p * h[new + c] / (1.0 + E * p)
            bottom += p / (1.0 + E * p)
        for c in range(m):
            p = h[probabilities + c]
            gap = h[new + c]
            step = min(max((gap + E * p * top / bottom) / (1.0 + E * p), -4.0), 4.0)
            most = max(most, abs(step))
            h[new + c] = gap + h[a + c * stride] - E * (p - (1.0 if c == code else 0.0)) - step
        if most <= 1e-6:
            break
    _softmax(h, new, h, probabilities, m)


@kernel
def _implicit_slopes(s, at, code, y, weight, work):
    """Overwrite each score by the negative slope of its implicit step; curvatures for filters."""
    m, h, gains, curvatures = at[N_OUTPUTS], at[SCORES], at[GAINS], at[LIKELIHOODS] + N_MEMBERS
    for f in range(_F):
        work[gains + f] = max(work[gains + f], 0.0)
    if at[REAL]:
        for k in range(N_MEMBERS):
            r = (y - s[CENTRE]) / s[UNIT] - work[h + k]
            work[h + k] = weight * r / (1.0 + weight * work[gains + k])  # not used for votes
            if s[T] >= 1.0:  # one target has no deviation
                inner = np.sqrt(1.0 + work[gains + k]) if k < _F else 1.0
                _update_variance(s, at, k, r * s[UNIT] / inner, weight)
        for f in range(_F):
            work[curvatures + f] = 1.0
    elif m == 1:
        side, t, E = 1.0 if code == 1 else -1.0, at[LIKELIHOODS], at[STEPS]
        for k in range(_LINES):
            work[h + k] *= side
            work[E + k] = weight * work[gains + k]
        implicit_margins(work, t, h, E, _LINES)
        for k in range(_LINES):
            p = _sigmoid(-work[t + k])
            work[h + k] = weight * side * p
            if k < _F:
                work[curvatures + k] = p * (1.0 - p)
    else:
        for k in range(_LINES):
            probabilities = at[PROBABILITIES]
            E = weight * work[gains + k]
            implicit_scores(work, h + k, N_MEMBERS, m, code, E, at[NEW_SCORES], probabilities)
            if k < _F:
                work[curvatures + k] = _curvature(work, probabilities, m)
            for c in range(m):
                right = 1.0 if c == code else 0.0
                work[h + c * N_MEMBERS + k] = weight * (right - work[probabilities + c])


@kernel
def _update_members(s, at, code, y, weight, where, work, z, n, norm):
    """Update all linear members by the row."""
    D, form, t = at[N_COLUMNS] + 1, at[FORM], s[T]
    h, directions, rates = at[SCORES], at[DIRECTIONS], at[STEPS]
    factors = at[LIKELIHOODS] + N_MEMBERS
    _implicit_slopes(s, at, code, y, weight, work)
    for f in range(_F):
        v = weight * max(work[factors + f], _LEAST_CURVATURE)
        work[factors + f] = v / (1.0 + v * work[at[GAINS] + f])
    for k in range(_F, _LINES):
        work[rates + k] = work[at[GAINS] + k] / norm
    for o in range(at[N_OUTPUTS]):
        g, w = h + o * N_MEMBERS, at[WEIGHTS] + o * D * _LINES
        slopes, rate = work[g : g + _LINES], work[rates : rates + _LINES]
        for i in range(n):
            a, u, x = w + where[i] * _LINES, directions + i * _F, work[z + i]
            column, direction = s[a : a + _LINES], work[u : u + _F]
            for f in range(_F):
                column[f] += slopes[f] * direction[f]
            for k in range(_F, _LINES):
                column[k] += slopes[k] * rate[k] * x
    factor = work[factors : factors + _F]
    for i in range(n):
        u, first, last = directions + i * _F, 0, n
        row_direction = work[u : u + _F]
        if form != WHOLE:
            a, rows = at[COVARIANCES] + where[i] * _F, t - s[at[LAST_ROW] + where[i]]
            for f in range(_F):
                s[a + f] = _drifted(s[a + f], DRIFTS[f], rows)
            first, last = i, i + 1
        for j in range(first, last):
            a = at[COVARIANCES] + (i * D + j if form == WHOLE else where[i]) * _F
            b = directions + j * _F
            entry, column_direction = s[a : a + _F], work[b : b + _F]
            for f in range(_F):
                entry[f] -= factor[f] * (row_direction[f] * column_direction[f])
        a = at[COVARIANCES] + (i * D + i if form == WHOLE else where[i]) * _F
        entry = s[a : a + _F]
        for f in range(_F):
            entry[f] += DRIFTS[f] if entry[f] < _MOST_VARIANCE else 0.0
        s[at[LAST_ROW] + where[i]] = t + 1.0


@kernel
def _take_target(s, at, y, weight):
    """Whether a real target counts; update its statistics, and the unit when rows have doubled."""
    count, mean, square = s[Y_WEIGHT], s[Y_MEAN], s[Y_SQUARES]
    if _is_outlier(y - mean, count, square, s[Y_OUTLIERS]):
        s[Y_OUTLIERS] += 1.0
        s[OUTLIERS] += 1.0
        s[REFUSED] += 1.0
        return False
    s[Y_OUTLIERS] = max(s[Y_OUTLIERS] - _CANCELLED, 0.0)
    s[LOW] = y if count == 0.0 else min(s[LOW], y)
    s[HIGH] = y if count == 0.0 else max(s[HIGH], y)
    s[Y_WEIGHT] = count + weight
    s[Y_MEAN] = mean + (y - mean) * weight / s[Y_WEIGHT]
    s[Y_SQUARES] = square + weight * (y - mean) * (y - s[Y_MEAN])
    rows = int(s[T]) + 1
    if rows & (rows - 1) == 0:
        centre, unit, D = s[CENTRE], s[UNIT], at[N_COLUMNS] + 1
        s[CENTRE] = s[Y_MEAN]
        s[UNIT] = np.sqrt(s[Y_SQUARES] / s[Y_WEIGHT]) if s[Y_SQUARES] > 0.0 else unit
        # Rescale the weights so that predictions stay; at the first target they become that target.
        if count > 0.0:
            a = at[WEIGHTS]
            for j in range(a, a + D * _LINES):
                s[j] *= unit / s[UNIT]
            for k in range(a, a + _LINES):
                s[k] += (centre - s[CENTRE]) / s[UNIT]
    return True


# --- rows -----------------------------------------------------------------------------------------


@kernel
def half_life(s, at):
    """After how many rows what was learned counts half: a mean of members by the posteriors."""
    weight, total, t = 0.0, 0.0, max(s[T], 1.0)
    curvature = 1.0 if at[REAL] else max(s[CURVATURE], _LEAST_CURVATURE)
    for k in range(N_MEMBERS):
        rows = t
        if k >= _LINES:
            rows = 0.5 * WINDOW
        elif k >= _F:
            rows = np.log(2.0) * s[NORM] / (RATES[k - _F] * curvature)
        elif DRIFTS[k] > 0.0:
            rows = np.log(2.0) / np.sqrt(DRIFTS[k] * curvature)
        for a in range(_B):
            posterior = s[at[FINAL] + a] * s[at[POSTERIORS] + a * N_MEMBERS + k]
            weight += posterior
            total += posterior * np.log(min(max(rows, 1.0), t))
    return np.exp(total / weight)


@kernel
def _record_point(s, at, trace):
    """Add a point to the trace; where it is full, drop every other point."""
    if s[T] % s[STRIDE] != 0.0:
        return
    n = int(s[POINTS])
    trace[n, 0], trace[n, 1] = s[T] + s[REFUSED], half_life(s, at)
    trace[n, 2], trace[n, 3] = s[ERRORS], s[LOSS]
    for k in range(N_MEMBERS):
        trace[n, 4 + k] = s[at[LOSSES] + k]
    n += 1
    if n == trace.shape[0]:
        n //= 2
        for i in range(n):
            for j in range(trace.shape[1]):
                trace[i, j] = trace[2 * i + 1, j]
        s[STRIDE] *= 2.0
    s[POINTS] = n


@kernel
def _prepare(s, at, memory, columns, values, first, stop, weight, store, predict, where, work, z):
    """Standardise a row and, if `predict`, predict it: its number of entries and squared norm."""
    n = _standardize(s, at, columns, values, first, stop, weight, store, where, work, z)
    norm = 0.0
    for i in range(n):
        norm += work[z + i] ** 2
    if at[FORM] != SPARSE:  # the row that was predicted last is not computed again
        previous, row = work[at[PREVIOUS_ROW] : at[PREVIOUS_ROW] + n + 1], work[z : z + n]
        is_same = previous[n] == s[T]
        for i in range(n):
            is_same &= previous[i] == row[i]
            previous[i] = row[i]
        previous[n] = s[T] if predict and not store else -1.0
        if is_same:
            return n, norm
    _score_members(s, at, memory, where, work, z, n, norm)
    if predict:
        _predict_members(s, at, work)
        _predict_mixers(s, at, work)
        for i in range(_B * N_MEMBERS):
            work[at[SNAPSHOT] + i] = s[at[POSTERIORS] + i]
        for i in range(N_MIXERS):
            work[at[SNAPSHOT] + _B * N_MEMBERS + i] = s[at[FINAL] + i]
        work[at[SCORES] - 1] = s[T]
    return n, norm


@kernel
def run_rows(
    state, at, work, memory, starts, columns, values, codes, targets, weights, asked, past, trace,
    out,
):  # fmt: skip
    """Predict rows in order, and learn those of positive weight.

    Parameters
    ----------
    state : ndarray
    at : ndarray
        Its `layout`.
    work : ndarray
        The scratch; it holds the prediction of the row that was predicted last.
    memory : ndarray of shape (columns + 2, rows) or (0, 0)
        A ring of the latest rows, standardised, their classes or targets and their weights.
    starts, columns, values : ndarray
        The rows in CSR form; dense rows need no `columns`.
    codes, targets, weights : ndarray of shape (n,)
        Class numbers, real targets, weights.
    asked : ndarray of shape (n, numbers) or (0, 0)
        The predictions made before labels came; empty: rows are predicted now.
    past : ndarray of shape (late, len(state)) or (0, 0)
        The states before the latest rows, as many as labels come late. The prediction of a row is
        that of the oldest.
    trace : ndarray of shape (points, numbers)
    out : ndarray of shape (n, numbers), (n, width) or (0, 0)
        Where to write whole predictions of the rows, or the answers alone.
    """
    w, z, D = max(at[N_OUTPUTS], 2), at[ROW], at[N_COLUMNS] + 1
    where = np.empty(D, dtype=np.int64)
    late, is_predicted = past.shape[0] > 0, asked.shape[0] > 0
    for i in range(starts.shape[0] - 1):
        first, stop, weight, code, y = starts[i], starts[i + 1], weights[i], codes[i], targets[i]
        learn = weight > 0.0
        by_past = learn and late and not is_predicted
        n, norm = 0, 0.0
        for i_state in range(0 if by_past else 1, 2):  # one call: the compiler inlines each
            now = i_state == 1
            answered = int(state[T] + state[REFUSED])
            s, store = state if now else past[answered % past.shape[0]], now and learn
            predict = not now or not (by_past or learn and is_predicted)
            n, norm = _prepare(
                s, at, memory, columns, values, first, stop, weight if store else 1.0, store,
                predict, where, work, z,
            )  # fmt: skip
            if not now:
                for j in range(state.shape[0]):
                    s[j] = state[j]
        if learn and is_predicted:
            for j in range(asked.shape[1]):
                work[j] = asked[i, j]
        if out.shape[0] > 0:
            a = 0 if out.shape[1] != w else at[SNAPSHOT] - w
            for j in range(out.shape[1]):
                out[i, j] = work[a + j]
        if not learn:
            continue
        if at[REAL]:
            centre, unit = state[CENTRE], state[UNIT]
            if not _take_target(state, at, y, weight):
                _record_error(state, at, work, y, weight, False)
                continue
            if unit != state[UNIT] or centre != state[CENTRE]:
                _score_members(state, at, memory, where, work, z, n, norm)
        if not at[REAL] or state[T] >= 2.0:  # one target has no deviation
            _update_mixers(state, at, work, code, y, weight, is_predicted or by_past)
        _update_members(state, at, code, y, weight, where, work, z, n, norm)
        _store(state, at, memory, work, z, y if at[REAL] else float(code), weight)
        state[NORM] += (norm - state[NORM]) / (state[T] + 1.0)
        state[T] += 1.0
        _record_point(state, at, trace)


# --- states ---------------------------------------------------------------------------------------


def fresh(at):
    """The state of a layout before the first row.

    Examples
    --------
    >>> len(fresh(layout(8, 1, WHOLE, False)))
    1327
    """
    state = np.zeros(at[STATE_SIZE])
    state[UNIT] = state[STRIDE] = 1.0
    D = at[N_COLUMNS] + 1
    C = state[at[COVARIANCES] : at[LOSSES]].reshape(-1, _F)
    C[:: D + 1 if at[FORM] == WHOLE else 1] = 1.0
    state[at[POSTERIORS] : at[FINAL]] = 1.0 / N_MEMBERS
    state[at[FINAL] : at[BETS]] = 1.0 / N_MIXERS
    return state


_NONE = np.empty((0, 0))
_LATE_BYTES = 1 << 28


def _has_form(array, shape):
    """Whether a value is an array that kernels accept, of this shape."""
    is_array = isinstance(array, np.ndarray) and array.dtype == float
    return is_array and array.shape == shape and array.flags.c_contiguous


def _are_valid_bets(bets):
    """Whether the number of rows is valid, and the next score has a place among the first."""
    rows, unit = bets[:2]
    return 0.0 <= rows < 2.0**53 and (rows < FIRST or unit > 0.0)


class Mixture:
    """The learner of one stream: its state, the states for late labels, and its trace.

    Parameters
    ----------
    d, m : int
        Columns and outputs: 1 for two classes and for real targets, else the number of classes.
    form : int
        `WHOLE`, `DIAGONAL` or `SPARSE`.
    real : bool
        Whether targets are numbers.
    late : int, default=0
        How many rows late a label comes.

    Examples
    --------
    >>> mixture = Mixture(1, 1, WHOLE, True)
    >>> rows = np.array([0, 1]), np.empty(0, dtype=np.int64), np.ones(1)
    >>> for y in (2.0, 4.0, 3.0):
    ...     mixture.learn(rows, targets=np.array([y]))
    >>> mixture.rows, round(float(mixture.ask(rows)[0, 0]), 1)
    (3, 2.8)
    """

    _SAVED = ("d", "m", "form", "real", "state", "past", "memory", "trace")
    # Not saved, but made when first used: the layout, the arguments for one row, the scratch.
    __slots__ = ("at", "one", "work", "__dict__")

    def __init__(self, d, m, form, real, late=0):
        self.d, self.m, self.form, self.real = d, m, form, real
        self.state = fresh(self.at)
        if late * self.state.nbytes > _LATE_BYTES:
            raise ValueError(
                f"delay={late} would keep {late} copies of {self.state.nbytes} bytes: give keys to "
                "predict_one and learn_one instead."
            )
        self.past = np.tile(self.state, (late, 1)) if late else _NONE
        self.memory = self._empty_memory(late)
        self.trace = np.zeros((MOST_POINTS, POINT))

    def _empty_memory(self, late):
        """An empty ring for the latest rows, and for those whose labels are late."""
        return np.zeros((self.d + 2, WINDOW + late)) if self.form == WHOLE else _NONE

    def __getattr__(self, name):
        """Make the layout when it is first used, and check a state that may come from a file."""
        if name not in ("at", "one", "work") or "d" not in self.__dict__:
            raise AttributeError(name)
        if name == "one":
            made = np.array([0, self.d]), np.zeros(1), np.empty((1, self.width))
            self.one = (*made[:1], np.zeros(1, dtype=np.int64), np.zeros(1), np.ones(1), *made[1:])
            return self.one
        if name == "work":
            self.work = np.full(self.at[SCRATCH_SIZE], -1.0)
            return self.work
        at = layout(self.d, self.m, self.form, self.real)
        if "state" in self.__dict__:
            self._check(int(at[STATE_SIZE]))
        self.at = at  # after the check, so that a refused state is refused again
        return at

    def __getstate__(self):
        return {name: self.__dict__[name] for name in self._SAVED}

    def _check(self, size):
        """Refuse a state (perhaps of a forged file) by which kernels would read beyond arrays."""
        d, m, heads = self.d, self.m, (self.state, *self.past)
        arrays = {
            "state": (size,),
            "past": (len(self.past), size) if len(self.past) else (0, 0),
            "memory": self._empty_memory(len(self.past)).shape,
            "trace": (MOST_POINTS, POINT),
        }
        sound = (
            type(d) is type(m) is type(self.form) is int
            and type(self.real) is bool
            and self.form in (WHOLE, DIAGONAL, SPARSE)
            and 0 <= d <= size
            and 1 <= m <= (1 if self.real else size)
            and all(_has_form(getattr(self, name), shape) for name, shape in arrays.items())
            and np.isfinite(self.memory).all()
            and self._votes_for_classes()
            and 0 <= self.state[POINTS] < MOST_POINTS
            and self.state[STRIDE] >= 1.0
            and all(0.0 <= head[i] < 2.0**53 for head in heads for i in (T, REFUSED))
            and all(_are_valid_bets(head[size - _BET_SIZE :]) for head in heads)
        )
        if not sound:
            raise ValueError("the saved state of its learner is inconsistent")
        for name in arrays:  # a memory map may be read-only
            if not getattr(self, name).flags.writeable:
                setattr(self, name, getattr(self, name).copy())

    def _votes_for_classes(self):
        """Whether the latest rows have classes that exist."""
        if self.real or self.form != WHOLE:
            return True
        codes = self.memory[-2]
        return 0 <= codes.min() <= codes.max() < self.width

    @property
    def rows(self):
        """How many rows were learned."""
        return int(self.state[T])

    @property
    def answered(self):
        """How many rows had a target, learned or refused."""
        return int(self.state[T] + self.state[REFUSED])

    @property
    def width(self):
        """How many numbers an answer has."""
        return max(self.m, 2)

    def part(self, name, state=None):
        """A part of the state, named by its index in the layout, in its shape."""
        at, D = self.at, self.d + 1
        shape = {
            COLUMNS: (7, self.d), WEIGHTS: (self.m, D, _LINES), POSTERIORS: (_B, N_MEMBERS),
            COVARIANCES: (D, D, _F) if self.form == WHOLE else (D, _F),
        }.get(name, (-1,))  # fmt: skip
        return (self.state if state is None else state)[at[name] : at[name + 1]].reshape(shape)

    def learn(self, rows, codes=None, targets=None, weights=None, asked=None):
        """Learn rows in order; `asked` are their predictions (`ask`), made before."""
        n = len(rows[0]) - 1
        weights = np.ones(n) if weights is None else weights
        codes = np.zeros(n, dtype=np.int64) if codes is None else codes
        targets = np.zeros(n) if targets is None else targets
        at = self.at
        asked = _NONE if asked is None or asked.shape[1] != at[SCORES] else asked
        run_rows(self.state, at, self.work, self.memory, *rows, codes, targets, weights, asked,
                 self.past, self.trace, _NONE)  # fmt: skip

    def ask(self, rows, everything=False):
        """Predictions of rows: the answers, or everything that `learn` takes as `asked`."""
        n = len(rows[0]) - 1
        at = self.at
        out = np.empty((n, at[SCORES] if everything else self.width))
        none = np.zeros(n)
        run_rows(self.state, at, self.work, self.memory, *rows, none.astype(np.int64), none, none,
                 _NONE, _NONE, self.trace, out)  # fmt: skip
        return out

    def learn_row(self, columns, values, code=0, target=0.0, weight=1.0, asked=None):
        """`learn` for one row, with little overhead."""
        at, (starts, codes, targets, weights, _, _) = self.at, self.one
        starts[1], codes[0], targets[0], weights[0] = len(values), code, target, weight
        asked = _NONE if asked is None or asked.shape[1] != at[SCORES] else asked
        run_rows(self.state, at, self.work, self.memory, starts, columns, values, codes, targets,
                 weights, asked, self.past, self.trace, _NONE)  # fmt: skip

    def ask_row(self, columns, values):
        """The answer to one row; the next call overwrites it."""
        at, (starts, codes, targets, _, no_weight, out) = self.at, self.one
        starts[1] = len(values)
        run_rows(self.state, at, self.work, self.memory, starts, columns, values, codes, targets,
                 no_weight, _NONE, _NONE, self.trace, out)  # fmt: skip
        return out[0]

    def answer_of(self, asked):
        """The answers in whole predictions."""
        return asked[:, self.at[SNAPSHOT] - self.width : self.at[SNAPSHOT]]

    def radius(self, i):
        """The radius around the next answer at the miss rate `ALPHAS[i]`, in its scale."""
        return radius(self.state, self.at[BETS], i)

    def half_life(self):
        """The half-life of what was learned, in rows (`half_life`)."""
        return half_life(self.state, self.at)

    def grow(self, d=None, m=None, form=None):
        """The learner for more columns, one more class, or sparse rows."""
        new = Mixture.__new__(Mixture)
        new.d, new.m = self.d if d is None else d, self.m if m is None else m
        new.form, new.real = self.form if form is None else form, self.real
        new.state, new.trace = self._grown(new, self.state), self.trace
        new.past = np.array([self._grown(new, s) for s in self.past]) if len(self.past) else _NONE
        new.memory = new._empty_memory(len(self.past))
        if len(new.memory):  # new columns were 0, and so at their mean
            new.memory[: self.d], new.memory[-2:] = self.memory[:-2], self.memory[-2:]
        return new

    def _grown(self, new, old):
        state, d = fresh(new.at), self.d
        state[: new.at[COLUMNS]] = old[: self.at[COLUMNS]]
        state[new.at[LOSSES] : new.at[STATE_SIZE]] = old[self.at[LOSSES] : self.at[STATE_SIZE]]
        names = (COLUMNS, LAST_ROW, WEIGHTS, COVARIANCES)
        columns, last, weights, C = (self.part(name, old) for name in names)
        columns_, last_, weights_, C_ = (new.part(name, state) for name in names)
        columns_[:, :d], last_[: d + 1] = columns, last
        if self.form == WHOLE and new.form != WHOLE:
            # The same predictions from columns that are measured from 0.
            count, mean, square = columns[:3]
            sd = np.sqrt(square / np.maximum(count, 1.0))
            size = np.sqrt(sd**2 + mean**2)
            varies = sd > 0.0
            ratio, shift = np.ones(d + 1), np.zeros(d + 1)
            ratio[1:][varies], shift[1:][varies] = (size / sd)[varies], (mean / sd)[varies]
            columns_[1, :d], columns_[2, :d] = 0.0, count * size**2
            columns_[4:, :d] = 0.0
            weights = weights * ratio[:, None]
            weights[:, 0] -= (weights / ratio[:, None] * shift[:, None])[:, 1:].sum(axis=1)
            C = C[np.arange(d + 1), np.arange(d + 1)] * ratio[:, None] ** 2
        elif new.form == WHOLE and new.d > d:  # new columns were 0 so far
            columns_[0, d:] = state[T]
            C_[range(d + 1, new.d + 1), range(d + 1, new.d + 1)] += np.minimum(
                DRIFTS * state[T], _MOST_VARIANCE - 1.0
            )
        C_[tuple(slice(k) for k in C.shape[:-1])] = C
        if new.m == self.m:
            weights_[:, : d + 1] = weights
        elif self.m == 1:  # log-odds of the second class are half of either's
            weights_[0, : d + 1], weights_[1, : d + 1] = -weights[0] / 2, weights[0] / 2
        else:
            weights_[: self.m, : d + 1] = weights
        return state
