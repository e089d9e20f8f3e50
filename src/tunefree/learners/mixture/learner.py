r"""A mixture over implicit learners: what a stream's drift is need not be known.

Log loss is mixable: over a grid of K learners a mixture loses ln K, and with a fixed share 1/(t+1)
at most ln K + ln t more, on any interval of the stream, than the learner that is best there. So no
rate is chosen, but all are run. A row passes five stages:

look    the columns' running means and variances take it in, z = (x - m) / sd, and a constant 1;
say     16 lines: Kalman filters (with drift q a row) and implicit gradient learners (rate eta);
        and 4 members in whom the latest rows vote by their nearness;
mix     15 mixers of what they say: four Bayes mixtures with a fixed share, eleven stackings whose
        coefficients learn by gradients; and the Bayes mixture of the 15, which is the answer;
score   the mixers learn by what was said before the answer was known;
teach   lines learn: each moves to the minimum of its loss plus its distance; the row may vote.

There is one recursion for two classes (one output of log-odds), several (an output each, softmax)
and real targets (standardised as they come). Up to 32 columns a filter has a whole covariance;
beyond, and for sparse rows, its diagonal, and no row votes. All that has been learned is one vector
of numbers, and a ring of the latest rows: a row changes them in place whatever chunk it comes in,
so that no split of a stream changes a bit, and a copy of them is a checkpoint.

Sources: Vovk 1998 (mixability), Herbster and Warmuth 1998 (fixed share), Kulis and Bartlett 2010
and Campolongo and Orabona 2020 (implicit updates), West and Harrison 1997 (dynamic models).
"""

import numpy as np

from tunefree._jit import REASSOCIATE, fast_exp, kernel
from tunefree.learners.mixture.betting import FIRST, bet, radius
from tunefree.learners.mixture.betting import SIZE as _BET_SIZE

# Members: the filters' drifts, then the gradient learners' rates; then how narrow the votes of the
# latest rows are.
DRIFTS = np.array([0.0, *(2.0**e for e in range(-20, 0, 3))])
RATES = np.array([2.0**e for e in range(-10, 5, 2)])
NARROW = np.array([2.0, 8.0, 32.0, 128.0])
_F, _LINES, _VOTES = len(DRIFTS), len(DRIFTS) + len(RATES), len(NARROW)
N_MEMBERS = _LINES + _VOTES
# Rows that vote, and how much each class has of a vote before any (the nearest row has 1).
WINDOW, _PRIOR = 512, 0.5
# Mixers: the shares of the Bayes mixtures (0 is 1/(t+1)); then the stackings' rates, and the
# share of labels that each takes for drawn at random: no logistic curve is steep and flat at .9.
SHARES = np.array([0.0, 2.0**-4, 2.0**-7, 2.0**-10])
STACKS = np.array([*(2.0**e for e in range(-10, 3, 2)), 1.0, 4.0, 1.0, 4.0])
NOISE = np.array([0.0] * 7 + [0.1, 0.1, 0.25, 0.25])
_B, _S = len(SHARES), len(STACKS)
N_MIXERS = _B + _S
# Log-odds and centred logarithms of probabilities are clipped: a certainty costs 6e-6 a row.
CLIP = 12.0
_MOST_VARIANCE, _LEAST_CURVATURE = 100.0, 1e-4
# Entries so many standard deviations off are missing, until they keep coming: each in a row allows
# four times more. A column of n < 16 entries allows 10^(16 / n) times more. A target that is taken
# makes up for most of one refused: what is half of the targets is learned in the end.
_FAR, _PATIENCE, _YOUNG = 30.0, 4.0, 16.0
_MADE_UP = 0.9
# Up to so many rows a column, real answers are on their way from the mean.
_STEADY = 8.0
# Where the latest 64 entries of a column have spread a hundred times less than all, its scale has
# changed: it begins anew with theirs.
_BLOCK, _SMALL = 64.0, 1e-4
_HUGE = 1e150  # beyond, squares overflow: missing
# Degrees of freedom of a real target's law, and the weight of a new residual in its variance.
NU, _FORGET = 5.0, 0.02
_T5 = 0.3796066898224944  # Gamma(3) / (Gamma(2.5) sqrt(5 pi))
# What is held of a row: dense rows with whole covariances or diagonals, sparse rows with diagonals.
WHOLE, DIAGONAL, SPARSE = 0, 1, 2
MOST_WHOLE = 32

# The head of the state: rows, mean squared norm of rows, mean curvature of the loss, mean squared
# norm of what members say; weight, mean, squares and strikes of targets, their unit and
# their range; cumulative loss of the answers, what was wrong, rows with an entry struck; of the
# trace its points, its stride; targets refused.
(
    T, NORM, CURVATURE, ENERGY, Y_N, Y_MEAN, Y_SQUARES, Y_STRIKES, CENTRE, UNIT, LOW, HIGH, LOSS,
    WRONG, OUTLIERS, POINTS, STRIDE, REFUSED,
) = range(18)  # fmt: skip
_HEAD = 20
# Points of the trace and what each holds: rows, half-life, what was wrong, loss, members' losses.
MOST_POINTS, POINT = 256, 4 + N_MEMBERS


# The layout of a state, and of the scratch beside it: columns, outputs and form, whether targets
# are numbers, and where the parts of the state begin. Of each column weight, mean, sum of squares,
# strikes in a row, and of the latest 64 entries number, mean, sum of squares; the rows before the
# last one that it was in (and the constant); weights (output, column, member; the constant first);
# covariances (row, column, filter); the members' losses; variances of real residuals (members,
# mixers); what Bayes mixers, stackings and the answer give to whom; bets. Then of the scratch: what
# is said of a row (of members, of mixers and the answer, and the beliefs it came from), which is
# handed out; scores, gains and moves; steps; the row; chances of the truth. Members stand side by
# side everywhere, so that loops over them are vectors.
(
    D_, M_, FORM, REAL, COLUMNS, LAST, WEIGHTS, COVARIANCES, LOSSES, SPREAD, BELIEFS, STACKINGS,
    FINAL, BETS, SIZE, MIXED, ASKED, SCORES, GAINS, MOVES, NEW, CHANCES, ROW, TOLD, STEPS,
    NEAR, KEPT, WORK,
) = range(28)  # fmt: skip


def layout(d, m, form, real):
    """Where everything is, for d columns and m outputs: the numbers that kernels go by."""
    D, w = d + 1, max(m, 2)
    at = np.zeros(28, dtype=np.int64)
    at[:4] = d, m, form, real
    sizes = (
        7 * d, D, _LINES * m * D, _F * (D * D if form == WHOLE else D), N_MEMBERS,
        N_MEMBERS + N_MIXERS, _B * N_MEMBERS, _S * N_MEMBERS, N_MIXERS, _BET_SIZE,
    )  # fmt: skip
    at[COLUMNS : SIZE + 1] = _HEAD + np.cumsum((0, *sizes))
    sizes = (
        N_MEMBERS * w, (N_MIXERS + 1) * w, _B * N_MEMBERS + N_MIXERS + 1, N_MEMBERS * m, N_MEMBERS,
        _F * D, w, w * N_MEMBERS, D, N_MEMBERS + N_MIXERS, N_MEMBERS,
        WINDOW, D + 1,
    )  # fmt: skip
    at[MIXED:] = np.cumsum(sizes)
    return at


# --- look: the row as its columns' statistics see it ---------------------------------------------


@kernel
def _far(gap, count, square, strikes):
    """Whether a gap to the mean is absurd."""
    if square == 0.0:
        return False
    far = _FAR * _PATIENCE ** min(strikes, 500.0)
    if count < _YOUNG:
        far *= 10.0 ** (_YOUNG / count)
    return abs(gap) > far * np.sqrt(square / count)


@kernel
def _look(s, at, columns, values, first, stop, weight, store, where, work, z):
    """Write the row in standard units, the constant first; how many entries it has.

    The row counts in the statistics that it is seen by; `store` keeps them.
    """
    d, sparse, n_outliers, n = at[D_], at[FORM] == SPARSE, 0.0, 1
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
        if _far(gap, count, square, s[a + 3 * d]):
            n_outliers = 1.0
            if store:
                s[a + 3 * d] += 1.0
            continue
        count += weight
        if sparse:  # from 0, so that what is absent says nothing
            square += weight * x * x
        else:
            mean += gap * weight / count
            square += weight * gap * (x - mean)
            gap = x - mean
        if store:
            seen, middle, squares = s[a + 4 * d] + 1.0, s[a + 5 * d], s[a + 6 * d]
            gap_there = x - middle
            middle += 0.0 if sparse else gap_there / seen
            squares += gap_there * (x - middle)
            if seen == _BLOCK:
                if 0.0 < squares < _SMALL * _BLOCK * square / count:
                    count, mean, square = seen, middle, squares
                    gap = x - mean
                seen, middle, squares = 0.0, 0.0, 0.0
            s[a + 4 * d], s[a + 5 * d], s[a + 6 * d] = seen, middle, squares
            s[a], s[a + d], s[a + 2 * d], s[a + 3 * d] = count, mean, square, 0.0
        if square > 0.0:
            if sparse:
                where[n] = j + 1
                n += 1
            work[z + n - 1] = gap / np.sqrt(square / count)
    if store:
        s[OUTLIERS] += n_outliers
    return n


# --- say: what the members think ------------------------------------------------------------------


@kernel
def _waited(variance, drift, rows):
    """The variance of a weight whose column was not in so many rows."""
    return variance if variance >= _MOST_VARIANCE else min(variance + drift * rows, _MOST_VARIANCE)


@kernel(fastmath=REASSOCIATE)
def _vote(s, at, memory, work, z, mean):
    """Scores of the members who let the latest rows vote, each by its nearness.

    A row at the squared distance r has (1 - g (r - r_0) / (16 sqrt(mean squared norm)))_+^8 of a
    vote, about exp(-g (r - r_0) / (2 sqrt(..))), r_0 the nearest's: between rows that have nothing
    to do with one another r varies by the root. Narrower votes are powers of it. Oldest first, so
    that the sums do not depend on where rows are held.
    """
    m, d, h, near = at[M_], at[D_], at[SCORES] + _LINES, at[NEAR]
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
    until = min(count, size - start)  # there the ring begins anew
    for first, begin, stop in ((start, 0, until), (0, until, count)):
        r, last = work[near + begin : near + stop], first + stop - begin
        for i in range(r.shape[0]):
            r[i] = (work[z + d] - memory[d - 1, first + i]) ** 2 if d % 2 else 0.0
        for j in range(0, d - 1, 2):  # two at a time: half as much is read and written
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
        told, weight = memory[d, first:last], memory[d + 1, first:last]
        if m > 1:
            for i in range(r.shape[0]):
                a, v = h + int(told[i]) * N_MEMBERS, r[i]
                for k in range(_VOTES):
                    work[a + k] += v * weight[i]
                    v *= v
                    v *= v
            continue
        for i in range(r.shape[0]):
            v, w, y = r[i], weight[i], told[i] - centre
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
                place = h + c * N_MEMBERS + k
                work[place] = np.log(work[place] + _PRIOR)
        elif at[REAL]:
            work[h + k] = b / a / s[UNIT]
        else:
            work[h + k] = np.log((max(b, 0.0) + _PRIOR) / (max(a - b, 0.0) + _PRIOR))


@kernel
def _remember(s, at, memory, work, z, y, weight):
    """Put the row among those that vote, for the oldest."""
    if memory.shape[1] == 0:
        return
    d, place = at[D_], int(s[T]) % memory.shape[1]
    for j in range(d):
        memory[j, place] = work[z + 1 + j]
    memory[d, place], memory[d + 1, place] = y, weight


@kernel
def _think(s, at, memory, where, work, z, n, norm):
    """Scores h = w z of each line, its gain Q = z C z, and the direction C z that it moves in."""
    D, form, t = at[D_] + 1, at[FORM], s[T]
    gains = at[GAINS]
    for o in range(at[M_]):
        h, w = at[SCORES] + o * N_MEMBERS, at[WEIGHTS] + o * D * _LINES
        scores = work[h : h + _LINES]
        for k in range(_LINES):
            scores[k] = 0.0
        for i in range(n):
            a, x = w + where[i] * _LINES, work[z + i]
            column = s[a : a + _LINES]
            for k in range(_LINES):
                scores[k] += column[k] * x
    moves = work[at[MOVES] : at[MOVES] + n * _F]
    if form == WHOLE:
        for q in range(n * _F):
            moves[q] = 0.0
        for j in range(n):  # C is symmetric: a row at a time is a vector
            a, x = at[COVARIANCES] + j * D * _F, work[z + j]
            row = s[a : a + n * _F]
            for q in range(n * _F):
                moves[q] += row[q] * x
    else:
        for i in range(n):
            a, rows = at[COVARIANCES] + where[i] * _F, t - s[at[LAST] + where[i]]
            for f in range(_F):
                moves[i * _F + f] = work[z + i] * _waited(s[a + f], DRIFTS[f], rows)
    total = work[gains : gains + _F]
    for f in range(_F):
        total[f] = 0.0
    for i in range(n):
        move, x = moves[i * _F : (i + 1) * _F], work[z + i]
        for f in range(_F):
            total[f] += move[f] * x
    mean = s[NORM] + (norm - s[NORM]) / (t + 1.0)  # counts this row
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
    v, unit = s[at[SPREAD] + k], s[UNIT] ** 2
    return max(v if v > 0.0 else unit, 1e-12 * unit, 1e-300)


@kernel
def _say(s, at, work):
    """Write what members say: log-odds, centred log-probabilities, or location and scale."""
    m, h, gains = at[M_], at[SCORES], at[GAINS]
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


# --- mix: what the mixers make of it --------------------------------------------------------------


@kernel
def _chances(work, m, a, b):
    """Probabilities from log-odds or centred logarithms, for all members: m numbers at a, at b."""
    if m == 1:
        odds, out = work[a : a + N_MEMBERS], work[b : b + N_MEMBERS]
        for k in range(N_MEMBERS):
            out[k] = _sigmoid(odds[k])
        return
    for k in range(N_MEMBERS):
        total = 0.0
        for c in range(m):  # within +-12: no sum overflows
            work[b + c * N_MEMBERS + k] = fast_exp(work[a + c * N_MEMBERS + k])
            total += work[b + c * N_MEMBERS + k]
        for c in range(m):
            work[b + c * N_MEMBERS + k] /= total


@kernel(fastmath=REASSOCIATE)
def _dot(x, a, y, b):
    # Slices: an index that may be negative would have to be looked at, one by one.
    one, two, total = x[a : a + N_MEMBERS], y[b : b + N_MEMBERS], 0.0
    for k in range(N_MEMBERS):
        total += one[k] * two[k]
    return total


@kernel
def _mix(s, at, work):
    """Write the mixers' probabilities (of the second of two classes), or locations and scales.

    The last line is the answer.
    """
    m, mixed, chances, real = at[M_], at[MIXED], at[CHANCES], at[REAL]
    w = max(m, 2)
    answer, odds = mixed + N_MIXERS * w, work[at[TOLD] : at[TOLD] + _S]
    if real:
        chances = 0
    else:
        _chances(work, m, 0, chances)
    for a in range(_B):
        b, line = at[BELIEFS] + a * N_MEMBERS, mixed + a * w
        for c in range(m):
            work[line + c] = _dot(s, b, work, chances + c * N_MEMBERS)
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
            place = mixed + (_B + a) * w + c
            work[place] += NOISE[a] * (1.0 / w - work[place])
    for c in range(m):
        work[answer + c] = 0.0
        for a in range(N_MIXERS):
            work[answer + c] += s[at[FINAL] + a] * work[mixed + a * w + c]
    if real:
        total = 0.0
        for a in range(N_MIXERS):
            line = mixed + a * w
            total += s[at[FINAL] + a] * (work[line + 1] ** 2 + (work[line] - work[answer]) ** 2)
        work[answer] = _steady(s, at, work[answer])
        work[answer + 1] = np.sqrt(total)


@kernel
def _steady(s, at, said):
    """A real answer, nearer to the mean while there are few rows a column.

    Filters then go through any targets, and none of them has lost enough to tell.
    """
    n, d, mean = s[T], at[D_], s[Y_MEAN]
    if at[FORM] != WHOLE or n >= _STEADY * d:
        return said
    return mean + n**2 / (n**2 + 0.5 * d**2) * (said - mean)


# --- score: mixers learn by what was said ---------------------------------------------------------


@kernel
def _density(y, location, scale):
    """Student's density of 5 degrees of freedom."""
    r = (y - location) / scale
    return _T5 / (scale * (1.0 + r * r / NU) ** 3)


@kernel
def _chance(work, line, m, code):
    """The probability of a class in a line of probabilities."""
    if m == 1:
        return work[line] if code == 1 else 1.0 - work[line]
    return work[line + code]


@kernel
def _share(s, a, n, work, chances, power, share):
    """Bayes' rule, then a share of the belief goes back to all alike."""
    belief, chance, total = s[a : a + n], work[chances : chances + n], 0.0
    if power == 1.0:
        for k in range(n):
            belief[k] *= chance[k]
    else:
        top = 1e-300  # relative to the best, so that a heavy row leaves someone to believe
        for k in range(n):
            top = max(top, chance[k])
        for k in range(n):
            belief[k] *= (chance[k] / top) ** power
    for k in range(n):
        total += belief[k]
    kept, back = (1.0 - share) / total, share / n
    for k in range(n):
        belief[k] = kept * belief[k] + back


@kernel
def _score(s, at, work, code, y, weight, given):
    """Tell the mixers the truth about what was said.

    Of an answer that comes n rows late Bayes' rule takes the (n + 1)th root: until it came, n more
    were given by the same beliefs, and were likely right or wrong together.
    """
    m, real, t = at[M_], at[REAL], s[T]
    w, mixed, asked = max(m, 2), at[MIXED], at[ASKED]
    answer, final = mixed + N_MIXERS * w, asked + _B * N_MEMBERS
    chances, ours, line = at[TOLD], at[TOLD] + N_MEMBERS, at[CHANCES]
    power = weight / (1.0 + (t - work[final + N_MIXERS] if given else 0.0))
    energy, total = 0.0, 0.0
    if real:
        for k in range(N_MEMBERS):
            work[chances + k] = _density(y, work[k], work[N_MEMBERS + k])
            energy += ((work[k] - s[CENTRE]) / s[UNIT]) ** 2
    else:
        _chances(work, m, 0, line)
        for k in range(N_MEMBERS):
            chance = work[line + (code if m > 1 else 0) * N_MEMBERS + k]
            work[chances + k] = 1.0 - chance if m == 1 and code == 0 else chance
        for c in range(m):
            energy += _dot(work, c * N_MEMBERS, work, c * N_MEMBERS) * (1.0 if m == 1 else 2.0)
    for k in range(N_MEMBERS):
        s[at[LOSSES] + k] -= weight * np.log(work[chances + k])
    for a in range(N_MIXERS):
        if not real:
            chance = max(_chance(work, mixed + a * w, m, code), 1e-300)
        elif a < _B:
            chance = _dot(work, asked + a * N_MEMBERS, work, chances)
        else:
            chance = _density(y, work[mixed + a * w], work[mixed + a * w + 1])
        work[ours + a] = chance
        total += work[final + a] * chance
    s[LOSS] -= weight * np.log(total)
    for a in range(_B):
        share = SHARES[a] if SHARES[a] > 0.0 else 1.0 / (t + 2.0)
        _share(s, at[BELIEFS] + a * N_MEMBERS, N_MEMBERS, work, chances, power, share)
    _share(s, at[FINAL], N_MIXERS, work, ours, power, 1.0 / (t + 2.0))
    s[ENERGY] += (energy - s[ENERGY]) / (t + 1.0)
    for a in range(_S):
        b, step = at[STACKINGS] + a * N_MEMBERS, power * STACKS[a] / max(s[ENERGY], energy, 1e-150)
        line = mixed + (_B + a) * w
        kept, even = 1.0 - NOISE[a], NOISE[a] / w
        if real:  # an implicit step: the squared loss has no bound on its slope
            step *= (y - work[line]) / s[UNIT] ** 2 / (1.0 + step * energy)
        else:  # how likely the label was not drawn at random
            step *= 1.0 - even / _chance(work, line, m, code)
        for c in range(m):
            slope = step
            if not real:
                right = 1.0 if (code == 1 if m == 1 else c == code) else 0.0
                slope *= right - (work[line + c] - even) / kept
                slope *= 1.0 if m == 1 else 2.0
            stack, said = s[b : b + N_MEMBERS], work[c * N_MEMBERS : (c + 1) * N_MEMBERS]
            centre = s[CENTRE]
            for k in range(N_MEMBERS):
                stack[k] += slope * (said[k] - centre)
    if real:
        for a in range(N_MIXERS):
            _spread(s, at, N_MEMBERS + a, y - work[mixed + a * w], weight)
        _judge(s, at, work, y, weight, True)
        return
    best = 0
    if m == 1:
        best = 1 if work[answer] > 0.5 else 0
    for c in range(1, m):
        best = c if work[answer + c] > work[answer + best] else best
    s[WRONG] += weight * (best != code)
    s[CURVATURE] += (_flat(work, answer, m) - s[CURVATURE]) / (t + 1.0)
    bet(s, at[BETS], 1.0 - _chance(work, answer, m, code))


@kernel
def _judge(s, at, work, y, weight, learned):
    """Count the error of a real answer, and tell the bettors.

    A target that is refused tells them nothing of the unit of scores; afterwards it is bet on as
    any other, and its interval may miss it.
    """
    answer = at[MIXED] + 2 * N_MIXERS
    gap = min(abs(y - work[answer]), _HUGE)
    s[WRONG] += weight * gap**2
    if learned or radius(s, at[BETS], 0) < np.inf:
        bet(s, at[BETS], gap / work[answer + 1])


@kernel
def _flat(work, line, m):
    """The largest p (1 - p) of probabilities: the curvature of their loss."""
    most = 0.0
    for c in range(m):
        most = max(most, work[line + c] * (1.0 - work[line + c]))
    return most


@kernel
def _spread(s, at, k, residual, weight):
    """Take a residual into the variance of a member or mixer; none counts as more than 10 sd."""
    rate = min(1.0, weight * max(_FORGET, 1.0 / (s[T] + 2.0)))
    now = _variance(s, at, k)
    s[at[SPREAD] + k] = now + rate * (min(residual * residual, 100.0 * now) - now)


# --- teach: members move to the minimum of their loss plus their distance -------------------------


@kernel(fastmath=REASSOCIATE)
def implicit_margins(x, t, m, E, n):
    """The roots of t = m + E / (1 + exp(t)): margins after implicit steps of energies E.

    n of each stand in x, from x[t], x[m] and x[E]. Newton's steps go from the side on which they
    are monotone (from near log E where E is large), all together so that they vectorise.
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
        if moved <= 1e-4:  # what is left is of the order of its square
            break


@kernel
def implicit_scores(h, a, stride, m, code, E, new, chances):
    """The root of h' = h + E (e_code - softmax(h')), and its softmax: Newton, steps capped at 4.

    h is every `stride`-th number from h[a]; h' and the softmax go to h[new] and h[chances].
    """
    for c in range(m):
        h[new + c] = h[a + c * stride]
    for _ in range(60):
        _softmax(h, new, h, chances, m)
        top, bottom, most = 0.0, 0.0, 0.0
        for c in range(m):
            p = h[chances + c]
            h[new + c] -= h[a + c * stride] - E * (p - (1.0 if c == code else 0.0))  # now the gap
            top += p * h[new + c] / (1.0 + E * p)
            bottom += p / (1.0 + E * p)
        for c in range(m):
            p = h[chances + c]
            gap = h[new + c]
            step = min(max((gap + E * p * top / bottom) / (1.0 + E * p), -4.0), 4.0)
            most = max(most, abs(step))
            h[new + c] = gap + h[a + c * stride] - E * (p - (1.0 if c == code else 0.0)) - step
        if most <= 1e-6:
            break
    _softmax(h, new, h, chances, m)


@kernel
def _pull(s, at, code, y, weight, work):
    """How hard the row pulls at each score, in its place, and what curvature filters see."""
    m, h, gains, flat = at[M_], at[SCORES], at[GAINS], at[TOLD] + N_MEMBERS
    for f in range(_F):
        work[gains + f] = max(work[gains + f], 0.0)
    if at[REAL]:
        for k in range(N_MEMBERS):
            r = (y - s[CENTRE]) / s[UNIT] - work[h + k]
            work[h + k] = weight * r / (1.0 + weight * work[gains + k])  # of votes not used
            if s[T] >= 1.0:  # one target tells no unit
                inner = np.sqrt(1.0 + work[gains + k]) if k < _F else 1.0
                _spread(s, at, k, r * s[UNIT] / inner, weight)
        for f in range(_F):
            work[flat + f] = 1.0
    elif m == 1:
        side, t, E = 1.0 if code == 1 else -1.0, at[TOLD], at[STEPS]
        for k in range(_LINES):
            work[h + k] *= side
            work[E + k] = weight * work[gains + k]
        implicit_margins(work, t, h, E, _LINES)
        for k in range(_LINES):
            p = _sigmoid(-work[t + k])
            work[h + k] = weight * side * p
            if k < _F:
                work[flat + k] = p * (1.0 - p)
    else:
        for k in range(_LINES):
            chances = at[CHANCES]
            E = weight * work[gains + k]
            implicit_scores(work, h + k, N_MEMBERS, m, code, E, at[NEW], chances)
            if k < _F:
                work[flat + k] = _flat(work, chances, m)
            for c in range(m):
                right = 1.0 if c == code else 0.0
                work[h + c * N_MEMBERS + k] = weight * (right - work[chances + c])


@kernel
def _teach(s, at, code, y, weight, where, work, z, n, norm):
    """Teach all members the row."""
    D, form, t = at[D_] + 1, at[FORM], s[T]
    h, moves, factors, rates = at[SCORES], at[MOVES], at[TOLD] + N_MEMBERS, at[STEPS]
    _pull(s, at, code, y, weight, work)
    for f in range(_F):
        v = weight * max(work[factors + f], _LEAST_CURVATURE)
        work[factors + f] = v / (1.0 + v * work[at[GAINS] + f])
    for k in range(_F, _LINES):
        work[rates + k] = work[at[GAINS] + k] / norm
    for o in range(at[M_]):
        g, w = h + o * N_MEMBERS, at[WEIGHTS] + o * D * _LINES
        pulls, rate = work[g : g + _LINES], work[rates : rates + _LINES]
        for i in range(n):
            a, u, x = w + where[i] * _LINES, moves + i * _F, work[z + i]
            column, move = s[a : a + _LINES], work[u : u + _F]
            for f in range(_F):
                column[f] += pulls[f] * move[f]
            for k in range(_F, _LINES):
                column[k] += pulls[k] * rate[k] * x
    factor = work[factors : factors + _F]
    for i in range(n):
        u, first, last = moves + i * _F, 0, n
        here = work[u : u + _F]
        if form != WHOLE:
            a, rows = at[COVARIANCES] + where[i] * _F, t - s[at[LAST] + where[i]]
            for f in range(_F):
                s[a + f] = _waited(s[a + f], DRIFTS[f], rows)
            first, last = i, i + 1
        for j in range(first, last):
            a = at[COVARIANCES] + (i * D + j if form == WHOLE else where[i]) * _F
            b = moves + j * _F
            entry, there = s[a : a + _F], work[b : b + _F]
            for f in range(_F):
                entry[f] -= factor[f] * (here[f] * there[f])
        a = at[COVARIANCES] + (i * D + i if form == WHOLE else where[i]) * _F
        entry = s[a : a + _F]
        for f in range(_F):
            entry[f] += DRIFTS[f] if entry[f] < _MOST_VARIANCE else 0.0
        s[at[LAST] + where[i]] = t + 1.0


@kernel
def _take_target(s, at, y, weight):
    """Whether a real target counts; its statistics, and a new unit where the rows have doubled."""
    count, mean, square = s[Y_N], s[Y_MEAN], s[Y_SQUARES]
    if _far(y - mean, count, square, s[Y_STRIKES]):
        s[Y_STRIKES] += 1.0
        s[OUTLIERS] += 1.0
        s[REFUSED] += 1.0
        return False
    s[Y_STRIKES] = max(s[Y_STRIKES] - _MADE_UP, 0.0)
    s[LOW] = y if count == 0.0 else min(s[LOW], y)
    s[HIGH] = y if count == 0.0 else max(s[HIGH], y)
    s[Y_N] = count + weight
    s[Y_MEAN] = mean + (y - mean) * weight / s[Y_N]
    s[Y_SQUARES] = square + weight * (y - mean) * (y - s[Y_MEAN])
    rows = int(s[T]) + 1
    if rows & (rows - 1) == 0:
        centre, unit, D = s[CENTRE], s[UNIT], at[D_] + 1
        s[CENTRE] = s[Y_MEAN]
        s[UNIT] = np.sqrt(s[Y_SQUARES] / s[Y_N]) if s[Y_SQUARES] > 0.0 else unit
        # The members' lines stay what they were, but for the first one: that is the first target.
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
    """After how many rows the mixture believes that what was learned counts half."""
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
            belief = s[at[FINAL] + a] * s[at[BELIEFS] + a * N_MEMBERS + k]
            weight += belief
            total += belief * np.log(min(max(rows, 1.0), t))
    return np.exp(total / weight)


@kernel
def _note(s, at, trace):
    """Put a point into the trace; where it is full, every other point goes."""
    if s[T] % s[STRIDE] != 0.0:
        return
    n = int(s[POINTS])
    trace[n, 0], trace[n, 1] = s[T] + s[REFUSED], half_life(s, at)
    trace[n, 2], trace[n, 3] = s[WRONG], s[LOSS]
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
def _ask(s, at, memory, columns, values, first, stop, weight, store, say, where, work, z):
    """Look at a row, and write what is said of it; how many entries it has, and their norm."""
    n = _look(s, at, columns, values, first, stop, weight, store, where, work, z)
    norm = 0.0
    for i in range(n):
        norm += work[z + i] ** 2
    if at[FORM] != SPARSE:  # the very row that was asked last is not thought about again
        kept, row = work[at[KEPT] : at[KEPT] + n + 1], work[z : z + n]
        known = kept[n] == s[T]
        for i in range(n):
            known &= kept[i] == row[i]
            kept[i] = row[i]
        kept[n] = s[T] if say and not store else -1.0
        if known:
            return n, norm
    _think(s, at, memory, where, work, z, n, norm)
    if say:
        _say(s, at, work)
        _mix(s, at, work)
        for i in range(_B * N_MEMBERS):
            work[at[ASKED] + i] = s[at[BELIEFS] + i]
        for i in range(N_MIXERS):
            work[at[ASKED] + _B * N_MEMBERS + i] = s[at[FINAL] + i]
        work[at[SCORES] - 1] = s[T]
    return n, norm


@kernel
def run_rows(
    state, at, work, memory, starts, columns, values, codes, targets, weights, asked, past, trace,
    said,
):  # fmt: skip
    """Answer rows in order, and learn those of positive weight.

    Parameters
    ----------
    state : ndarray
    at : ndarray
        Its `layout`.
    work : ndarray
        The scratch; it holds what was said of the row that was asked last.
    memory : ndarray of shape (columns + 2, rows) or (0, 0)
        A ring of the latest rows as they were seen, their classes or targets and their weights.
    starts, columns, values : ndarray
        The rows as CSR has them; dense rows need no `columns`.
    codes, targets, weights : ndarray of shape (n,)
        Class numbers, real targets, weights.
    asked : ndarray of shape (n, numbers) or (0, 0)
        What was said of the rows when they were asked; no lines: they are asked now.
    past : ndarray of shape (late, len(state)) or (0, 0)
        The states before the latest rows, as many as answers come late: what was said of a row is
        what the oldest says.
    trace : ndarray of shape (points, numbers)
    said : ndarray of shape (n, numbers), (n, width) or (0, 0)
        Where to write all that is said of rows now, or the answers alone.
    """
    w, z, D = max(at[M_], 2), at[ROW], at[D_] + 1
    where = np.empty(D, dtype=np.int64)
    late, given = past.shape[0] > 0, asked.shape[0] > 0
    for i in range(starts.shape[0] - 1):
        first, stop, weight, code, y = starts[i], starts[i + 1], weights[i], codes[i], targets[i]
        learn = weight > 0.0
        before = learn and late and not given
        n, norm = 0, 0.0
        for turn in range(0 if before else 1, 2):  # one call: the compiler writes out each
            now = turn == 1
            answered = int(state[T] + state[REFUSED])
            s, store = state if now else past[answered % past.shape[0]], now and learn
            say = not now or not (before or learn and given)
            n, norm = _ask(
                s, at, memory, columns, values, first, stop, weight if store else 1.0, store, say,
                where, work, z,
            )  # fmt: skip
            if not now:
                for j in range(state.shape[0]):
                    s[j] = state[j]
        if learn and given:
            for j in range(asked.shape[1]):
                work[j] = asked[i, j]
        if said.shape[0] > 0:
            a = 0 if said.shape[1] != w else at[ASKED] - w
            for j in range(said.shape[1]):
                said[i, j] = work[a + j]
        if not learn:
            continue
        if at[REAL]:
            centre, unit = state[CENTRE], state[UNIT]
            if not _take_target(state, at, y, weight):
                _judge(state, at, work, y, weight, False)
                continue
            if unit != state[UNIT] or centre != state[CENTRE]:
                _think(state, at, memory, where, work, z, n, norm)
        if not at[REAL] or state[T] >= 2.0:  # one target tells no unit
            _score(state, at, work, code, y, weight, given or before)
        _teach(state, at, code, y, weight, where, work, z, n, norm)
        _remember(state, at, memory, work, z, y if at[REAL] else float(code), weight)
        state[NORM] += (norm - state[NORM]) / (state[T] + 1.0)
        state[T] += 1.0
        _note(state, at, trace)


# --- states ---------------------------------------------------------------------------------------


def fresh(at):
    """The state of a layout before the first row.

    Examples
    --------
    >>> len(fresh(layout(8, 1, WHOLE, False)))
    1327
    """
    state = np.zeros(at[SIZE])
    state[UNIT] = state[STRIDE] = 1.0
    D = at[D_] + 1
    C = state[at[COVARIANCES] : at[LOSSES]].reshape(-1, _F)
    C[:: D + 1 if at[FORM] == WHOLE else 1] = 1.0
    state[at[BELIEFS] : at[FINAL]] = 1.0 / N_MEMBERS
    state[at[FINAL] : at[BETS]] = 1.0 / N_MIXERS
    return state


_NONE, _NO_COLUMNS = np.empty((0, 0)), np.empty(0, dtype=np.int64)
_LATE_BYTES = 1 << 28


def _has_form(array, shape):
    """Whether it is an array as kernels take them."""
    is_array = isinstance(array, np.ndarray) and array.dtype == float
    return is_array and array.shape == shape and array.flags.c_contiguous


def _bets_fit(bets):
    """Whether bettors who wait for their unit have room for the next score."""
    rows, unit = bets[:2]
    return 0.0 <= rows < 2.0**53 and (rows < FIRST or unit > 0.0)


class Mixture:
    """The learner of one stream: its state, the states of late answers, and its trace.

    Parameters
    ----------
    d, m : int
        Columns and outputs: 1 for two classes and for real targets, else the number of classes.
    form : int
        `WHOLE`, `DIAGONAL` or `SPARSE`.
    real : bool
        Whether targets are numbers.
    late : int, default=0
        After how many more rows an answer comes.

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
    # What is saved, and what is worked out: the layout, and what calls for one row are made with.
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
        self.memory = self._room(late)
        self.trace = np.zeros((MOST_POINTS, POINT))

    def _room(self, late):
        """For the latest rows, and those that came after the oldest answer."""
        return np.zeros((self.d + 2, WINDOW + late)) if self.form == WHOLE else _NONE

    def __getattr__(self, name):
        """Work out the layout when it is first asked for, and look at what a file may hold."""
        if name not in ("at", "one", "work") or "d" not in self.__dict__:
            raise AttributeError(name)
        if name == "one":
            made = np.array([0, self.d]), np.zeros(1), np.empty((1, self.width))
            self.one = (*made[:1], np.zeros(1, dtype=np.int64), np.zeros(1), np.ones(1), *made[1:])
            return self.one
        if name == "work":
            self.work = np.full(self.at[WORK], -1.0)
            return self.work
        at = layout(self.d, self.m, self.form, self.real)
        if "state" in self.__dict__:
            self._check(int(at[SIZE]))
        self.at = at  # only now: what is refused once is refused again
        return at

    def __getstate__(self):
        return {name: self.__dict__[name] for name in self._SAVED}

    def _check(self, size):
        """Refuse a state, perhaps of a forged file, that kernels would read beyond its end."""
        d, m, heads = self.d, self.m, (self.state, *self.past)
        arrays = {
            "state": (size,),
            "past": (len(self.past), size) if len(self.past) else (0, 0),
            "memory": self._room(len(self.past)).shape,
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
            and all(_bets_fit(head[size - _BET_SIZE :]) for head in heads)
        )
        if not sound:
            raise ValueError("its learner does not fit together")
        for name in arrays:  # what a memory map holds may be read-only
            if not getattr(self, name).flags.writeable:
                setattr(self, name, getattr(self, name).copy())

    def _votes_for_classes(self):
        """Whether the latest rows are of classes that there are."""
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
        """A part of the state by its place in the layout, in its shape."""
        at, D = self.at, self.d + 1
        shape = {
            COLUMNS: (7, self.d), WEIGHTS: (self.m, D, _LINES), BELIEFS: (_B, N_MEMBERS),
            COVARIANCES: (D, D, _F) if self.form == WHOLE else (D, _F),
        }.get(name, (-1,))  # fmt: skip
        return (self.state if state is None else state)[at[name] : at[name + 1]].reshape(shape)

    def learn(self, rows, codes=None, targets=None, weights=None, asked=None):
        """Learn rows in order; `asked` is what was said of each when it was asked."""
        n = len(rows[0]) - 1
        weights = np.ones(n) if weights is None else weights
        codes = np.zeros(n, dtype=np.int64) if codes is None else codes
        targets = np.zeros(n) if targets is None else targets
        at = self.at
        given = _NONE if asked is None or asked.shape[1] != at[SCORES] else asked
        run_rows(self.state, at, self.work, self.memory, *rows, codes, targets, weights, given,
                 self.past, self.trace, _NONE)  # fmt: skip

    def ask(self, rows, everything=False):
        """What is said of rows: the answers, or all that `learn` takes as `asked`."""
        n = len(rows[0]) - 1
        at = self.at
        said = np.empty((n, at[SCORES] if everything else self.width))
        none = np.zeros(n)
        run_rows(self.state, at, self.work, self.memory, *rows, none.astype(np.int64), none, none,
                 _NONE, _NONE, self.trace, said)  # fmt: skip
        return said

    def learn_row(self, columns, values, code=0, target=0.0, weight=1.0, asked=None):
        """`learn` of one row, as fast as that can be called."""
        at, (starts, codes, targets, weights, _, _) = self.at, self.one
        starts[1], codes[0], targets[0], weights[0] = len(values), code, target, weight
        given = _NONE if asked is None or asked.shape[1] != at[SCORES] else asked
        run_rows(self.state, at, self.work, self.memory, starts, columns, values, codes, targets,
                 weights, given, self.past, self.trace, _NONE)  # fmt: skip

    def ask_row(self, columns, values):
        """The answer to one row; the next call overwrites it."""
        at, (starts, codes, targets, _, nothing, said) = self.at, self.one
        starts[1] = len(values)
        run_rows(self.state, at, self.work, self.memory, starts, columns, values, codes, targets,
                 nothing, _NONE, _NONE, self.trace, said)  # fmt: skip
        return said[0]

    def answer_of(self, asked):
        """The answer among all that was said."""
        return asked[:, self.at[ASKED] - self.width : self.at[ASKED]]

    def radius(self, i):
        """What covers the next answer at the rate `ALPHAS[i]`, in units of its scale."""
        return radius(self.state, self.at[BETS], i)

    def half_life(self):
        """After how many rows what was learned counts half, by the mixture's beliefs."""
        return half_life(self.state, self.at)

    def grow(self, d=None, m=None, form=None):
        """Go on with more columns, one more class, or sparse rows."""
        new = Mixture.__new__(Mixture)
        new.d, new.m = self.d if d is None else d, self.m if m is None else m
        new.form, new.real = self.form if form is None else form, self.real
        new.state, new.trace = self._grown(new, self.state), self.trace
        new.past = np.array([self._grown(new, s) for s in self.past]) if len(self.past) else _NONE
        new.memory = new._room(len(self.past))
        if len(new.memory):  # what is new was 0, and at its mean
            new.memory[: self.d], new.memory[-2:] = self.memory[:-2], self.memory[-2:]
        return new

    def _grown(self, new, old):
        state, d = fresh(new.at), self.d
        state[: new.at[COLUMNS]] = old[: self.at[COLUMNS]]
        state[new.at[LOSSES] : new.at[SIZE]] = old[self.at[LOSSES] : self.at[SIZE]]
        names = (COLUMNS, LAST, WEIGHTS, COVARIANCES)
        columns, last, weights, C = (self.part(name, old) for name in names)
        columns_, last_, weights_, C_ = (new.part(name, state) for name in names)
        columns_[:, :d], last_[: d + 1] = columns, last
        if self.form == WHOLE and new.form != WHOLE:
            # The same lines on columns that are measured from 0.
            count, mean, square = columns[:3]
            sd = np.sqrt(square / np.maximum(count, 1.0))
            size = np.sqrt(sd**2 + mean**2)
            seen = sd > 0.0
            ratio, shift = np.ones(d + 1), np.zeros(d + 1)
            ratio[1:][seen], shift[1:][seen] = (size / sd)[seen], (mean / sd)[seen]
            columns_[1, :d], columns_[2, :d] = 0.0, count * size**2
            columns_[4:, :d] = 0.0
            weights = weights * ratio[:, None]
            weights[:, 0] -= (weights / ratio[:, None] * shift[:, None])[:, 1:].sum(axis=1)
            C = C[np.arange(d + 1), np.arange(d + 1)] * ratio[:, None] ** 2
        elif new.form == WHOLE and new.d > d:  # what is new was 0 so far
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
