"""The state of a stream: one vector of numbers, and its parts as named views of it.

The vector is what a model file holds, and a copy of it is a checkpoint. Members are the last axis
of every part, so that loops over them are vectorised. What has the same size in every stream is a
record; the parts that grow with columns and classes are arrays.
"""

from typing import Any, NamedTuple

import numpy as np

from tunefree.core.jit import kernel
from tunefree.streams.betting import BETS, record

# Members: the filters' drifts, the gradient learners' rates, and how narrow the votes are.
DRIFTS = np.array([0.0, *(2.0**e for e in range(-20, 0, 3))])
RATES = np.array([2.0**e for e in range(-10, 5, 2)])
NARROW = np.array([2.0, 8.0, 32.0, 128.0])
N_FILTERS = len(DRIFTS)
N_LINES = len(DRIFTS) + len(RATES)
N_VOTES = len(NARROW)
N_MEMBERS = N_LINES + N_VOTES
# Rows that vote.
WINDOW = 512
# Mixers: the shares of the Bayes mixtures (0 means 1/(t+1)); the stackings' rates; and the share of
# labels that each stacking assumes to be random: no logistic curve is steep and curvatures at .9.
SHARES = np.array([0.0, 2.0**-4, 2.0**-7, 2.0**-10])
STACKS = np.array([*(2.0**e for e in range(-10, 3, 2)), 1.0, 4.0, 1.0, 4.0])
NOISE = np.array([0.0] * 7 + [0.1, 0.1, 0.25, 0.25])
N_BAYES, N_STACKS = len(SHARES), len(STACKS)
N_MIXERS = ANSWER = N_BAYES + N_STACKS  # the answer is stored behind the mixers
# Forms: dense rows with whole covariances, dense rows with diagonals, sparse rows with diagonals.
WHOLE, DIAGONAL, SPARSE = 0, 1, 2
MOST_WHOLE = 32


NUMBERS = record(
    "rows",  # learned
    "norm",  # mean squared norm of rows
    "curvature",  # mean curvature of the loss
    "energy",  # mean squared norm of the members' predictions
    "y_weight",  # targets: total weight, mean, sum of squares, recent outliers
    "y_mean",
    "y_squares",
    "y_outliers",
    "centre",  # location and scale by which targets are standardised
    "unit",
    "low",  # range of targets
    "high",
    "loss",  # total loss of the answers
    "errors",  # wrong answers, or the sum of squared errors; every row counts once
    "outliers",  # rows with an outlier
    "points",  # points of the trace, and rows between two of them
    "stride",
    "refused",  # targets refused as outliers
    "unlabeled",  # rows without a label, where labels come late
    spare=1,
)
LEARNED = record(
    losses=N_MEMBERS,  # total losses of the members
    member_variances=N_MEMBERS,  # of real residuals
    mixer_variances=N_MIXERS,
    posteriors=(N_BAYES, N_MEMBERS),  # weights of the members
    stackings=(N_STACKS, N_MEMBERS),  # coefficients
    final=N_MIXERS,  # weights of the mixers in the answer
    bets=BETS,
)
# What the mixture was when a row was predicted.
SNAPSHOT = record(posteriors=(N_BAYES, N_MEMBERS), final=N_MIXERS, rows=())
SCRATCH = record(
    gains=N_MEMBERS,  # z C z of filters, step times squared norm of gradient learners
    steps=N_MEMBERS,
    margins=N_MEMBERS,
    likelihoods=N_MEMBERS,  # of the label
    mixer_likelihoods=N_MIXERS,
    curvatures=N_FILTERS,
    nearness=WINDOW,  # of the latest rows
)


class MixtureState(NamedTuple):
    """The parts of a state. A record is passed to a kernel as an array of one."""

    moments: Any  # (3, column): weight, mean, sum of squares
    outliers: Any  # in succession, of each column
    latest: Any  # moments of the latest 64 entries
    last_row: Any  # rows learned when each column, the constant first, last had an entry
    weights: Any  # (output, column, linear member); the constant is the first column
    covariances: Any  # (row, column, filter); one row of variances unless `WHOLE`
    numbers: Any  # one `NUMBERS`
    learned: Any  # one `LEARNED`


class Work(NamedTuple):
    """The prediction of a row (members, mixers and snapshot), and the scratch."""

    members: Any  # (width, member): log-odds, centred log-probabilities, or location and scale
    mixers: Any  # (mixer, width): probabilities, or location and scale; the last is the answer
    scores: Any  # (output, member): w z, then the negative slopes of implicit steps
    probabilities: Any  # (class, member)
    by_class: Any  # of one member after an implicit step: scores, then probabilities
    rows: Any  # the standardised row; then the row predicted last, and the rows learned then
    directions: Any  # (entry, filter): C z
    places: Any  # the columns of the row's entries
    snapshot: Any  # one `SNAPSHOT`
    scratch: Any  # one `SCRATCH`


class MixtureParts(NamedTuple):
    """All that the kernels read and write of one stream."""

    form: int
    state: MixtureState
    work: Work
    memory: Any  # (columns + 2, row): a ring of the latest rows, their labels and weights; or empty
    trace: Any  # (point, number)


class CSRRows(NamedTuple):
    """Rows in CSR form; dense rows need no columns."""

    starts: Any  # (n + 1,)
    columns: Any
    values: Any


class Labels(NamedTuple):
    """The labels of rows: class numbers or real targets, of which the other is None."""

    codes: Any
    targets: Any
    weights: Any  # (n,); rows of weight 0 are only predicted


class MixtureShape(NamedTuple):
    """What the sizes of a stream's parts depend on, and the parts of its vectors."""

    d: int  # columns
    m: int  # outputs: 1 for two classes and for real targets, else the number of classes
    form: int
    real: bool  # whether targets are numbers

    def width_of(self):
        """How many numbers an answer has."""
        return max(self.m, 2)

    def _state_sizes(self):
        D = self.d + 1
        lines = D if self.form == WHOLE else 1
        weights = self.m * D * N_LINES
        variances = lines * D * N_FILTERS
        return _size(NUMBERS), 7 * self.d, D, weights, variances, _size(LEARNED)

    def state_size(self):
        """How many numbers the state has."""
        return sum(self._state_sizes())

    def state_of(self, vector):
        """The parts of the state that a vector holds."""
        parts = _split(vector, self._state_sizes())
        numbers, columns, last_row, weights, covariances, learned = parts
        columns = columns.reshape(7, self.d)
        return MixtureState(
            columns[:3],
            columns[3],
            columns[4:],
            last_row,
            weights.reshape(self.m, -1, N_LINES),
            covariances.reshape(-1, self.d + 1, N_FILTERS),
            numbers.view(NUMBERS),
            learned.view(LEARNED),
        )

    def work(self):
        """The parts of a prediction, in one vector, and the scratch."""
        width, D = self.width_of(), self.d + 1
        sizes = width * N_MEMBERS, (N_MIXERS + 1) * width, _size(SNAPSHOT)
        prediction = np.zeros(sum(sizes))
        members, mixers, snapshot = _split(prediction, sizes)
        return prediction, Work(
            members.reshape(width, N_MEMBERS),
            mixers.reshape(N_MIXERS + 1, width),
            np.zeros((self.m, N_MEMBERS)),
            np.zeros((width, N_MEMBERS)),
            np.zeros((2, width)),
            np.full((2, D + 1), -1.0),
            np.zeros((D, N_FILTERS)),
            np.zeros(D, dtype=np.int64),
            snapshot.view(SNAPSHOT),
            np.zeros(1, SCRATCH),
        )


def _size(record):
    """How many numbers a record has."""
    return record.itemsize // 8


def _split(vector, sizes):
    """Views of the successive parts of a vector."""
    return np.split(vector, np.cumsum(sizes)[:-1])


@kernel
def copy_to(target, numbers):
    """Copy numbers to an array that may be longer."""
    for k in range(len(numbers)):
        target[k] = numbers[k]


def fresh(shape):
    """The state before the first row.

    Examples
    --------
    >>> len(fresh(MixtureShape(8, 1, WHOLE, False)))
    1327
    """
    vector = np.zeros(shape.state_size())
    state = shape.state_of(vector)
    numbers, learned = state.numbers[0], state.learned[0]
    numbers["unit"] = numbers["stride"] = 1.0
    state.covariances.reshape(-1, N_FILTERS)[:: shape.d + 2 if shape.form == WHOLE else 1] = 1.0
    learned["posteriors"][:] = learned["stackings"][:] = 1.0 / N_MEMBERS
    learned["final"][:] = 1.0 / N_MIXERS
    return vector
