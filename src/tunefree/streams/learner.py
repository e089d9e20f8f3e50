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
of numbers (`state`) and a ring of the latest rows. A row changes them in place whatever chunk it
comes in: no split of a stream changes a bit, and a copy of them is a checkpoint.

Sources: Vovk 1998 (mixability), Herbster and Warmuth 1998 (fixed share), Kulis and Bartlett 2010
and Campolongo and Orabona 2020 (implicit updates), West and Harrison 1997 (dynamic models).
"""

import numpy as np

from tunefree.core.jit import kernel
from tunefree.streams.betting import FIRST, radius
from tunefree.streams.classes import class_slopes, learn_class, predict_classes
from tunefree.streams.drift import MOST_POINTS, POINT, half_life, record_point
from tunefree.streams.members import (
    MOST_VARIANCE,
    find_directions,
    find_gains,
    find_steps,
    score_lines,
    update_covariances,
    update_weights,
)
from tunefree.streams.mixers import take_snapshot
from tunefree.streams.numbers import learn_number, number_slopes, predict_numbers, record_error
from tunefree.streams.standardize import StandardRow, squared_norm, standardize, take_target
from tunefree.streams.state import (
    ANSWER,
    DIAGONAL,
    DRIFTS,
    SPARSE,
    WHOLE,
    WINDOW,
    CSRRows,
    Labels,
    MixtureParts,
    MixtureShape,
    MixtureState,
    Work,
    copy_to,
    fresh,
)
from tunefree.streams.votes import store_row, vote


@kernel(borrows=True)
def _score(stream, real, row):
    """Scores of all members for a standardised row; this row counts in the mean norm."""
    state, work = stream.state, stream.work
    now = state.numbers[0]
    scratch = work.scratch[0]
    is_whole = stream.form == WHOLE
    mean_norm = now.norm + (row.norm - now.norm) / (now.rows + 1.0)
    score_lines(state.weights, row, work.scores)
    find_directions(is_whole, state.covariances, state.last_row, now.rows, row, work.directions)
    find_gains(row, mean_norm, work.directions, scratch.gains)
    vote(real, now, stream.memory, row.z, mean_norm, work.scores, scratch.nearness)


@kernel
def _rows_fit(rows, is_sparse, d, n):
    """Whether rows in CSR form have values, and columns of a stream of `d`, for `n` rows."""
    starts, columns, values = rows
    if len(starts) <= n or starts[0] < 0 or starts[n] > len(values):
        return False
    fewest = 0 if is_sparse else d
    for i in range(n):
        size = starts[i + 1] - starts[i]
        if size < fewest or size > d:
            return False
    if not is_sparse:
        return True
    if starts[n] > len(columns):
        return False
    for k in range(starts[0], starts[n]):
        if columns[k] < 0 or columns[k] >= d:
            return False
    return True


@kernel
def _labels_fit(codes, targets, width, n):
    """Whether there are labels for `n` rows, of classes that exist."""
    if targets is not None:
        if len(targets) < n:
            return False
    if codes is not None:
        if len(codes) < n:
            return False
        for i in range(n):
            if codes[i] < 0 or codes[i] >= width:
                return False
    return True


@kernel(borrows=True)
def _fits(stream, rows, labels, out):
    """Whether rows, labels and answers have the shapes by which `run_rows` reads and writes."""
    codes, targets, weights = labels
    n = len(weights)
    width = len(stream.work.members)
    d = stream.state.moments.shape[1]
    if not _rows_fit(rows, stream.form == SPARSE, d, n):
        return False
    if not _labels_fit(codes, targets, width, n):
        return False
    if len(out) == 0:  # no answers are asked for
        return True
    return len(out) >= n and out.shape[1] == width


@kernel
def _is_predicted(z, previous, rows, keep):
    """Whether the row is the one that was predicted last; `keep` it for the next call."""
    n = len(z)
    is_same = previous[n] == rows
    for i in range(n):
        is_same &= previous[i] == z[i]
        previous[i] = z[i]
    previous[n] = rows if keep else -1.0
    return is_same


@kernel(borrows=True)
def _standardized(stream, entries, store):
    """The standardised row of its columns, values and weight; statistics learn it if `store`."""
    state, work = stream.state, stream.work
    statistics = state.moments, state.outliers, state.latest
    now = state.numbers[0]
    z = work.rows[0]
    is_sparse = stream.form == SPARSE
    n = standardize(is_sparse, now, statistics, entries, store, work.places, z)
    return StandardRow(work.places[:n], z[:n], squared_norm(z[:n]))


@kernel(borrows=True)
def _predict(stream, codes, targets):
    """Predictions by members, mixers and the answer, from the members' scores."""
    state, work = stream.state, stream.work
    now = state.numbers[0]
    learned = state.learned[0]
    gains = work.scratch[0].gains
    members, mixers = work.members, work.mixers
    if targets is not None:
        d = state.moments.shape[1] if stream.form == WHOLE else 0
        predict_numbers(now, learned, d, work.scores, gains, members, mixers)
    if codes is not None:
        predict_classes(learned, work.scores, gains, members, work.probabilities, mixers)
    take_snapshot(learned, now.rows, work.snapshot[0])


@kernel(borrows=True)
def _learn_label(stream, row, codes, targets, i, weight, is_late):
    """Update mixers, find slopes, and store the row; False if its target is refused."""
    state, work = stream.state, stream.work
    now = state.numbers[0]
    learned = state.learned[0]
    members = work.members
    mixers = work.mixers
    scratch, snapshot = work.scratch[0], work.snapshot[0]
    if targets is not None:
        y, centre, unit = targets[i], now.centre, now.unit
        if not take_target(now, state.weights[0], y, weight):
            record_error(now, learned.bets, y, mixers[ANSWER], False)
            return False
        if unit != now.unit or centre != now.centre:
            _score(stream, True, row)
        if now.rows >= 2.0:  # one target has no deviation
            learn_number(now, learned, y, weight, is_late, members, mixers, snapshot, scratch)
        number_slopes(now, learned.member_variances, y, weight, work.scores[0], scratch)
        store_row(stream.memory, np.int64(now.rows), row.z, y, weight)
    if codes is not None:
        outputs, m = (members, work.probabilities, mixers), len(work.scores)
        learn_class(now, learned, m, codes[i], weight, is_late, outputs, snapshot, scratch)
        class_slopes(codes[i], weight, work.scores, work.by_class, scratch)
        store_row(stream.memory, np.int64(now.rows), row.z, codes[i], weight)
    return True


@kernel(borrows=True)
def _update_members(stream, row, weight):
    """A step of each linear member, by its slope."""
    state, work = stream.state, stream.work
    now = state.numbers[0]
    scratch = work.scratch[0]
    is_whole = stream.form == WHOLE
    find_steps(weight, row.norm, scratch)
    update_weights(state.weights, row, work.scores, work.directions, scratch.steps)
    update_covariances(
        is_whole, state.covariances, state.last_row, now.rows, row, scratch.curvatures,
        work.directions,
    )  # fmt: skip
    now.norm += (row.norm - now.norm) / (now.rows + 1.0)
    now.rows += 1.0


@kernel(borrows=True)
def _run(stream, rows, labels, is_late, out):
    """`run_rows` of records."""
    if not _fits(stream, rows, labels, out):
        return False
    codes, targets, weights = labels
    work = stream.work
    now = stream.state.numbers[0]
    learned = stream.state.learned[0]
    is_sparse, real, answers = stream.form == SPARSE, targets is not None, len(out) > 0
    for i in range(len(weights)):
        first, stop, weight = rows.starts[i], rows.starts[i + 1], weights[i]
        columns = rows.columns[first:stop]
        values = rows.values[first:stop]
        learn = weight > 0.0
        is_predicted = learn and is_late  # it was, before
        # A row is predicted as one of weight 1, and then standardised by the weight that it has.
        last = 1 if learn and not is_late and weight != 1.0 else 0
        for turn in range(last + 1):
            store = learn and turn == last
            predict = turn == 0 and not is_predicted
            row = _standardized(stream, (columns, values, weight if store else 1.0), store)
            if is_sparse or not _is_predicted(row.z, work.rows[1], now.rows, not store):
                _score(stream, real, row)
                if predict:
                    _predict(stream, codes, targets)
        if answers:
            copy_to(out[i], work.mixers[ANSWER])
        if learn and _learn_label(stream, row, codes, targets, i, weight, is_late):
            _update_members(stream, row, weight)
            record_point(real, now, learned, stream.trace)
    return True


@kernel(borrows=True)
def _named(stream):
    """The record of a stream that came as plain tuples: of these Numba finds the types faster.

    A call with records in records takes 4 microseconds, with tuples in a tuple 1.3.
    """
    form, state, work, memory, trace = stream
    return MixtureParts(form, MixtureState(*state), Work(*work), memory, trace)


@kernel(borrows=True)
def run_rows(stream, rows, labels, is_late, out):
    """Predict rows in order, and learn those of positive weight.

    Parameters
    ----------
    stream, rows, labels : tuple
        A `MixtureParts`, `CSRRows` and `Labels` as plain tuples. The stream's work holds the
        prediction of the row that was predicted last.
    is_late : bool
        Whether the rows to learn were predicted before; else they are predicted now.
    out : ndarray of shape (n, width) or (0, 0)
        Where to write the answers.

    Returns
    -------
    bool
        False if an argument has another shape: nothing is read or changed then.
    """
    return _run(_named(stream), CSRRows(*rows), Labels(*labels), is_late, out)


@kernel
def _of_row(labels, i):
    """The label of a row among others."""
    return None if labels is None else labels[i : i + 1]


@kernel(borrows=True)
def run_late_rows(stream, vector, past, rows, labels, unlabeled, no_answers):
    """Learn rows in order whose labels are late, each predicted from the state it was asked in.

    A row of weight 0 has no label: it is one of the rows that others are late by.

    Parameters
    ----------
    stream, rows, labels : tuple
        As for `run_rows`.
    vector : ndarray of shape (size,)
        The numbers of the stream's state.
    past : ndarray of shape (late, size)
        A ring of earlier states.
    unlabeled : ndarray of shape (1,)
        The weight 0.
    no_answers : ndarray of shape (0, 0)

    Returns
    -------
    bool
        False if an argument has another shape: nothing is read or changed then.
    """
    stream = _named(stream)
    rows = CSRRows(*rows)
    labels = Labels(*labels)
    if not _fits(stream, rows, labels, no_answers):
        return False
    codes, targets, weights = labels
    now = stream.state.numbers[0]
    for i in range(len(weights)):
        row = CSRRows(rows.starts[i : i + 2], rows.columns, rows.values)
        code = _of_row(codes, i)
        target = _of_row(targets, i)
        weight = weights[i : i + 1]
        oldest = past[np.int64(now.rows + now.refused + now.unlabeled) % len(past)]
        if weight[0] == 0.0:
            copy_to(oldest, vector)
            now.unlabeled += 1.0
            continue
        for k in range(len(vector)):
            vector[k], oldest[k] = oldest[k], vector[k]
        _run(stream, row, Labels(code, target, unlabeled), False, no_answers)
        copy_to(vector, oldest)
        _run(stream, row, Labels(code, target, weight), True, no_answers)
    return True


# --- the learner ----------------------------------------------------------------------------------


# No answers, states or rows.
_NONE = np.empty((0, 0))
# The most bytes of states that are kept for labels that come late.
_LATE_BYTES = 1 << 28


def _has_form(array, shape):
    """Whether a value is an array that kernels accept, of this shape."""
    is_array = isinstance(array, np.ndarray) and array.dtype == float
    return is_array and array.shape == shape and array.flags.c_contiguous


def _check_shapes(fits):
    """Refuse rows that the kernels refused."""
    if not fits:
        raise ValueError("rows or labels do not have the shape of this stream")


def _are_valid_counts(state):
    """Whether numbers of rows are valid, and the next score to bet on has a place."""
    numbers, bets = state.numbers[0], state.learned[0]["bets"]
    counts = numbers["rows"], numbers["refused"], numbers["unlabeled"], bets["rows"]
    has_place = bets["rows"] < FIRST or bets["unit"] > 0.0
    return all(0.0 <= count < 2.0**53 for count in counts) and has_place


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
    ...     mixture.learn(rows, np.array([y]), np.ones(1))
    >>> mixture.rows, round(float(mixture.ask(rows)[0, 0]), 1)
    (3, 2.8)
    """

    _SAVED = ("d", "m", "form", "real", "state", "past", "memory", "trace")
    # Not saved, but made when first used: the parts of the state, what the kernel gets of the
    # stream, and the labels and the answer of one row.
    __slots__ = ("parts", "prediction", "stream", "one", "__dict__")

    def __init__(self, d, m, form, real, late=0):
        self.d, self.m, self.form, self.real = d, m, form, real
        self.state = fresh(self.shape)
        if late * self.state.nbytes > _LATE_BYTES:
            raise ValueError(
                f"delay={late} would keep {late} copies of {self.state.nbytes} bytes: give keys to "
                "predict_one and learn_one instead."
            )
        self.past = np.tile(self.state, (late, 1)) if late else _NONE
        self.memory = self._empty_memory(late)
        self.trace = np.zeros((MOST_POINTS, POINT))

    @property
    def shape(self):
        """What the sizes of its parts depend on."""
        return MixtureShape(self.d, self.m, self.form, self.real)

    def _empty_memory(self, late):
        """An empty ring for the latest rows, and for those whose labels are late."""
        return np.zeros((self.d + 2, WINDOW + late)) if self.form == WHOLE else _NONE

    def __getattr__(self, name):
        """Make what is not saved when it is first used, of a state that may come from a file."""
        if name not in self.__slots__[:-1] or "d" not in self.__dict__:
            raise AttributeError(name)
        self._check()
        self.parts, (self.prediction, work) = self.shape.state_of(self.state), self.shape.work()
        self.stream = self.form, tuple(self.parts), tuple(work), self.memory, self.trace
        start = np.zeros(2, dtype=np.int64)
        self.one = start, self._labels(1), np.zeros(1), np.empty((1, self.width))
        return getattr(self, name)

    def __getstate__(self):
        return {name: self.__dict__[name] for name in self._SAVED}

    def _check(self):
        """Refuse a state (perhaps of a forged file) by which kernels would read beyond arrays."""
        if not (self._has_valid_shape() and self._has_valid_arrays()):
            raise ValueError("the saved state of its learner is inconsistent")
        for name in ("state", "past", "memory", "trace"):  # a memory map may be read-only
            if not getattr(self, name).flags.writeable:
                setattr(self, name, getattr(self, name).copy())

    def _has_valid_shape(self):
        d, m, size = self.d, self.m, len(self.state)
        if not (type(d) is type(m) is type(self.form) is int and type(self.real) is bool):
            return False
        if self.form not in (WHOLE, DIAGONAL, SPARSE):
            return False
        most_outputs = 1 if self.real else size
        if not (0 <= d <= size and 1 <= m <= most_outputs):
            return False
        return _has_form(self.state, (self.shape.state_size(),))

    def _has_valid_arrays(self):
        size, late = len(self.state), len(self.past)
        forms = {
            "past": (late, size) if late else (0, 0),
            "memory": self._empty_memory(late).shape,
            "trace": (MOST_POINTS, POINT),
        }
        if not all(_has_form(getattr(self, name), shape) for name, shape in forms.items()):
            return False
        if not (np.isfinite(self.memory).all() and self._votes_for_classes()):
            return False
        numbers = self.shape.state_of(self.state).numbers[0]
        if not (0 <= numbers["points"] < MOST_POINTS and numbers["stride"] >= 1.0):
            return False
        return all(_are_valid_counts(self.shape.state_of(v)) for v in (self.state, *self.past))

    def _votes_for_classes(self):
        """Whether the latest rows have classes that exist."""
        if self.real or self.form != WHOLE:
            return True
        codes = self.memory[-2]
        return 0 <= codes.min() <= codes.max() < self.width

    @property
    def numbers(self):
        """The numbers of the stream: a record of `NUMBERS`."""
        return self.parts.numbers[0]

    @property
    def learned(self):
        """What members and mixers have in every stream: a record of `LEARNED`."""
        return self.parts.learned[0]

    @property
    def rows(self):
        """How many rows were learned."""
        return int(self.numbers["rows"])

    @property
    def answered(self):
        """How many rows had a target, learned or refused."""
        return int(self.numbers["rows"] + self.numbers["refused"])

    @property
    def width(self):
        """How many numbers an answer has."""
        return self.shape.width_of()

    def history(self):
        """The points of the trace and of now: rows, half-life, errors, loss, members' losses."""
        points = self.trace[: int(self.numbers["points"])]
        numbers = self.numbers
        if self.answered == (points[-1, 0] if len(points) else 0):
            return points
        now = self.answered, self.half_life(), numbers["errors"], numbers["loss"]
        return np.vstack([points, [*now, *self.learned["losses"]]])

    def _labels(self, n):
        """Labels of rows that are not learned, as `learn` takes them."""
        return np.zeros(n, dtype=float if self.real else np.int64)

    def _weighted(self, labels, weights):
        """Labels and weights as kernels take them."""
        return (None, labels, weights) if self.real else (labels, None, weights)

    def _run(self, is_late, rows, labels, weights, out):
        labels = self._weighted(labels, weights)
        _check_shapes(run_rows(self.stream, rows, labels, is_late, out))

    def learn(self, rows, labels, weights):
        """Learn rows in order, by class numbers or real targets."""
        if not len(self.past):
            self._run(False, rows, labels, weights, _NONE)
            return
        given = rows, self._weighted(labels, weights)
        late = self.stream, self.state, self.past
        _check_shapes(run_late_rows(*late, *given, np.zeros(1), _NONE))

    def ask(self, rows):
        """The answers to rows."""
        n = len(rows[0]) - 1
        out = np.empty((n, self.width))
        self._run(False, rows, self._labels(n), np.zeros(n), out)
        return out

    def learn_row(self, columns, values, label, weight=1.0, asked=None):
        """`learn` for one row, with little overhead; `asked` is its prediction made before."""
        start, labels, weights, _ = self.one
        start[1], labels[0], weights[0] = len(values), label, weight
        rows = start, columns, values
        if asked is None or asked.shape != self.prediction.shape:
            self.learn(rows, labels, weights)
            return
        if weight > 0.0:
            self.prediction[:] = asked
        self._run(weight > 0.0, rows, labels, weights, _NONE)

    def ask_row(self, columns, values):
        """The answer to one row; the next call overwrites it, and the whole `prediction`."""
        start, labels, weights, out = self.one
        start[1], weights[0] = len(values), 0.0
        self._run(False, (start, columns, values), labels, weights, out)
        return out[0]

    def radius(self, i):
        """The radius around the next answer at the miss rate `ALPHAS[i]`, in its scale."""
        return radius(self.learned["bets"], i)

    def half_life(self):
        """The half-life of what was learned, in rows (`half_life`)."""
        return half_life(self.real, self.numbers, self.learned)

    def grow(self, d=None, m=None, form=None):
        """The learner for more columns, one more class, or sparse rows."""
        new = Mixture.__new__(Mixture)
        new.d, new.m = self.d if d is None else d, self.m if m is None else m
        new.form = self.form if form is None else form
        new.real = self.real
        new.state = _grown(self.shape, new.shape, self.state)
        new.trace = self.trace
        past = [_grown(self.shape, new.shape, vector) for vector in self.past]
        new.past = np.array(past) if past else _NONE
        new.memory = new._empty_memory(len(self.past))
        if len(new.memory):  # new columns were 0, and so at their mean
            new.memory[: self.d], new.memory[-2:] = self.memory[:-2], self.memory[-2:]
        return new


def _grown(old_shape, new_shape, vector):
    """A state in a larger shape."""
    grown = fresh(new_shape)
    old, new = old_shape.state_of(vector), new_shape.state_of(grown)
    d = old_shape.d
    m = old_shape.m
    rows = old.numbers["rows"][0]
    new.numbers[:], new.learned[:] = old.numbers, old.learned
    new.moments[:, :d], new.latest[:, :d] = old.moments, old.latest
    new.outliers[:d], new.last_row[: d + 1] = old.outliers, old.last_row
    weights, covariances = old.weights, old.covariances
    if old_shape.form == WHOLE != new_shape.form:
        weights, covariances = _measured_from_zero(old, new)
    elif new_shape.form == WHOLE and new_shape.d > d:  # new columns were 0 so far
        new.moments[0, d:] = rows
        added = range(d + 1, new_shape.d + 1)
        new.covariances[added, added] += np.minimum(DRIFTS * rows, MOST_VARIANCE - 1.0)
    new.covariances[: len(covariances), : d + 1] = covariances
    if m == 1 < new_shape.m:  # log-odds of the second class are half of either's
        weights = np.concatenate([-weights / 2, weights / 2])
        m = 2
    new.weights[:m, : d + 1] = weights
    return grown


def _measured_from_zero(old, new):
    """Weights and variances with the same predictions from columns that are measured from 0."""
    d, (count, mean, square) = len(old.outliers), old.moments
    sd = np.sqrt(square / np.maximum(count, 1.0))
    size = np.sqrt(sd**2 + mean**2)
    varies = sd > 0.0
    ratio, shift = np.ones((d + 1, 1)), np.zeros((d + 1, 1))
    ratio[1:, 0][varies] = size[varies] / sd[varies]
    shift[1:, 0][varies] = mean[varies] / sd[varies]
    new.moments[1, :d], new.moments[2, :d], new.latest[:, :d] = 0.0, count * size**2, 0.0
    weights = old.weights * ratio
    weights[:, 0] -= (weights / ratio * shift)[:, 1:].sum(axis=1)
    every = np.arange(d + 1)
    return weights, old.covariances[every, every][None] * ratio**2
