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

from tunefree._jit import kernel
from tunefree.learners.mixture.betting import FIRST, radius
from tunefree.learners.mixture.drift import MOST_POINTS, POINT, half_life, record_point
from tunefree.learners.mixture.members import (
    MOST_VARIANCE,
    predict_members,
    score_members,
    update_members,
)
from tunefree.learners.mixture.mixers import (
    predict_mixers,
    record_error,
    take_snapshot,
    update_mixers,
)
from tunefree.learners.mixture.standardize import RowLabel, StandardRow, standardize, take_target
from tunefree.learners.mixture.state import (
    ANSWER,
    DIAGONAL,
    DRIFTS,
    N_MEMBERS,
    N_MIXERS,
    SPARSE,
    WHOLE,
    WINDOW,
    MixtureShape,
    MixtureState,
    Work,
    copy_to,
    fresh,
)
from tunefree.learners.mixture.votes import store_row, vote


@kernel
def _score(state, row, work, memory):
    """Scores of all members."""
    now = state.numbers
    mean_norm = now.norm + (row.norm - now.norm) / (now.rows + 1.0)  # this row included
    score_members(state, row, work, mean_norm)
    vote(state.real, now, memory, work.rows[0], mean_norm, work.scores, work.scratch.nearness)


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


@kernel
def _prepare(state, work, memory, entries, values, weight, store, predict, places):
    """Standardise a row and, if `predict`, predict it."""
    now, z, norm = state.numbers, work.rows[0], 0.0
    n = standardize(state, entries, values, weight, store, places, z)
    for i in range(n):
        norm += z[i] * z[i]
    row = StandardRow(places[:n], z[:n], norm)
    keep = predict and not store
    if state.form != SPARSE and _is_predicted(row.z, work.rows[1], now.rows, keep):
        return row
    _score(state, row, work, memory)
    if predict:
        predict_members(state, work)
        predict_mixers(state, work)
        take_snapshot(state.learned, now.rows, work.snapshot)
    return row


@kernel
def _learn(state, row, label, work, memory, trace, is_late):
    """Learn a row that was predicted."""
    now = state.numbers
    if state.real:
        centre, unit = now.centre, now.unit
        if not take_target(now, state.weights[0], label.y, label.weight):
            record_error(now, state.learned.bets, label, work.mixers[ANSWER], False)
            return
        if unit != now.unit or centre != now.centre:
            _score(state, row, work, memory)
    if not state.real or now.rows >= 2.0:  # one target has no deviation
        update_mixers(state, label, work, is_late)
    update_members(state, row, label, work)
    target = label.y if state.real else float(label.code)
    store_row(memory, int(now.rows), work.rows[0], target, label.weight)
    now.norm += (row.norm - now.norm) / (now.rows + 1.0)
    now.rows += 1.0
    record_point(state.real, now, state.learned, trace)


@kernel
def _swap(one, two):
    for k in range(len(one)):
        one[k], two[k] = two[k], one[k]


@kernel(borrows=True)
def run_rows(
    parts, numbers, learned, buffers, snapshot, scratch, vector, prediction, places, memory, past,
    trace, starts, columns, values, codes, targets, weights, asked, out,
):  # fmt: skip
    """Predict rows in order, and learn those of positive weight.

    Parameters
    ----------
    parts : tuple
        The parts of `MixtureState` but its records.
    numbers, learned : ndarray of shape (1,)
    buffers : tuple
        The parts of `Work` but its records.
    snapshot, scratch : ndarray of shape (1,)
        Of the row that was predicted last.
    vector, prediction : ndarray
        The numbers of the state, and of the prediction.
    places : ndarray
        The columns of the row's entries.
    memory : ndarray of shape (columns + 2, rows) or (0, 0)
        A ring of the latest rows, standardised, their classes or targets and their weights.
    past : ndarray of shape (late, len(state)) or (0, 0)
        The states before the latest rows, as many as labels come late. The prediction of a row is
        that of the oldest.
    trace : ndarray of shape (points, numbers)
    starts, columns, values : ndarray
        The rows in CSR form; dense rows need no `columns`.
    codes, targets, weights : ndarray of shape (n,)
        Class numbers, real targets, weights.
    asked : ndarray of shape (n, numbers) or (0, 0)
        The predictions made before labels came; empty: rows are predicted now.
    out : ndarray of shape (n, numbers), (n, width) or (0, 0)
        Where to write whole predictions of the rows, or the answers alone.
    """
    state = MixtureState(*parts, numbers[0], learned[0])  # pyright: ignore[reportCallIssue]
    work = Work(*buffers, snapshot[0], scratch[0])  # pyright: ignore[reportCallIssue]
    now, width, is_asked = state.numbers, len(work.members), len(asked) > 0
    for i in range(len(starts) - 1):
        first, stop, label = starts[i], starts[i + 1], RowLabel(codes[i], targets[i], weights[i])
        learn = label.weight > 0.0
        by_past = learn and len(past) > 0 and not is_asked
        oldest = int(now.rows + now.refused) % max(len(past), 1)
        for pass_ in range(0 if by_past else 1, 2):  # one call: the compiler inlines each
            is_past = pass_ == 0
            store, predict = learn and not is_past, is_past or not (by_past or learn and is_asked)
            if is_past:
                _swap(vector, past[oldest])
            row = _prepare(
                state, work, memory, columns[first:stop], values[first:stop],
                label.weight if store else 1.0, store, predict, places,
            )  # fmt: skip
            if is_past:
                _swap(vector, past[oldest])
                copy_to(past[oldest], vector)
        if learn and is_asked:
            copy_to(prediction, asked[i])
        if len(out) > 0:
            copy_to(out[i], work.mixers[ANSWER] if out.shape[1] == width else prediction)
        if learn:
            _learn(state, row, label, work, memory, trace, is_asked or by_past)


# --- the learner ----------------------------------------------------------------------------------


_NONE = np.empty((0, 0))
_LATE_BYTES = 1 << 28


def _has_form(array, shape):
    """Whether a value is an array that kernels accept, of this shape."""
    is_array = isinstance(array, np.ndarray) and array.dtype == float
    return is_array and array.shape == shape and array.flags.c_contiguous


def _are_valid_counts(state):
    """Whether numbers of rows are valid, and the next score to bet on has a place."""
    numbers, bets = state.numbers[0], state.learned[0]["bets"]
    counts = numbers["rows"], numbers["refused"], bets["rows"]
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
    ...     mixture.learn(rows, targets=np.array([y]))
    >>> mixture.rows, round(float(mixture.ask(rows)[0, 0]), 1)
    (3, 2.8)
    """

    _SAVED = ("d", "m", "form", "real", "state", "past", "memory", "trace")
    # Not saved, but made when first used: the parts of the state, what the kernel gets of the
    # stream, and the labels and the answer of one row.
    __slots__ = ("parts", "stream", "one", "__dict__")

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
        if name not in ("parts", "stream", "one") or "d" not in self.__dict__:
            raise AttributeError(name)
        self._check()
        shape, start = self.shape, np.zeros(2, dtype=np.int64)
        _, n_prediction, n_scratch = shape.sizes()
        self.parts, prediction = shape.state_of(self.state), np.full(n_prediction, -1.0)
        work = shape.work_of(prediction, np.full(n_scratch, -1.0))
        vectors = self.state, prediction, np.zeros(self.d + 1, dtype=np.int64)
        records = (self.parts[:-2], *self.parts[-2:], work[:-2], *work[-2:])
        self.stream = *records, *vectors, self.memory, self.past, self.trace
        self.one = start, start[:1].copy(), np.zeros(1), np.zeros(1), np.empty((1, self.width))
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
        return (
            type(d) is type(m) is type(self.form) is int
            and type(self.real) is bool
            and self.form in (WHOLE, DIAGONAL, SPARSE)
            and 0 <= d <= size
            and 1 <= m <= (1 if self.real else size)
            and _has_form(self.state, (self.shape.sizes()[0],))
        )

    def _has_valid_arrays(self):
        size, late = len(self.state), len(self.past)
        numbers = self.shape.state_of(self.state).numbers[0]
        return (
            _has_form(self.past, (late, size) if late else (0, 0))
            and _has_form(self.memory, self._empty_memory(late).shape)
            and _has_form(self.trace, (MOST_POINTS, POINT))
            and np.isfinite(self.memory).all()
            and self._votes_for_classes()
            and 0 <= numbers["points"] < MOST_POINTS
            and numbers["stride"] >= 1.0
            and all(_are_valid_counts(self.shape.state_of(v)) for v in (self.state, *self.past))
        )

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
        points, numbers = self.trace[: int(self.numbers["points"])], self.numbers
        if self.answered == (points[-1, 0] if len(points) else 0):
            return points
        now = self.answered, self.half_life(), numbers["errors"], numbers["loss"]
        return np.vstack([points, [*now, *self.learned["losses"]]])

    def _asked(self, predictions):
        """Earlier predictions, if they have the present shape."""
        return predictions if predictions.shape[1] == self.shape.sizes()[1] else _NONE

    def learn(self, rows, codes=None, targets=None, weights=None, asked=None):
        """Learn rows in order; `asked` are their predictions (`ask`), made before."""
        n = len(rows[0]) - 1
        codes = np.zeros(n, dtype=np.int64) if codes is None else codes
        targets = np.zeros(n) if targets is None else targets
        weights = np.ones(n) if weights is None else weights
        asked = _NONE if asked is None else self._asked(asked)
        run_rows(*self.stream, *rows, codes, targets, weights, asked, _NONE)

    def ask(self, rows, everything=False):
        """Predictions of rows: the answers, or everything that `learn` takes as `asked`."""
        n = len(rows[0]) - 1
        size = self.shape.sizes()[1] if everything else self.width
        out, none = np.empty((n, size)), np.zeros(n)
        run_rows(*self.stream, *rows, none.astype(np.int64), none, none, _NONE, out)
        return out

    def learn_row(self, columns, values, code=0, target=0.0, weight=1.0, asked=None):
        """`learn` for one row, with little overhead."""
        start, codes, targets, weights, _ = self.one
        start[1], codes[0], targets[0], weights[0] = len(values), code, target, weight
        asked = _NONE if asked is None else self._asked(asked)
        run_rows(*self.stream, start, columns, values, codes, targets, weights, asked, _NONE)

    def ask_row(self, columns, values):
        """The answer to one row; the next call overwrites it."""
        start, codes, targets, weights, out = self.one
        start[1], weights[0] = len(values), 0.0
        run_rows(*self.stream, start, columns, values, codes, targets, weights, _NONE, out)
        return out[0]

    def answer_of(self, asked):
        """The answers in whole predictions."""
        begin = (N_MEMBERS + N_MIXERS) * self.width
        return asked[:, begin : begin + self.width]

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
        new.form, new.real = self.form if form is None else form, self.real
        new.state, new.trace = _grown(self.shape, new.shape, self.state), self.trace
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
    d, m, rows = old_shape.d, old_shape.m, old.numbers["rows"][0]
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
        weights, m = np.concatenate([-weights / 2, weights / 2]), 2
    new.weights[:m, : d + 1] = weights
    return grown


def _measured_from_zero(old, new):
    """Weights and variances with the same predictions from columns that are measured from 0."""
    d, (count, mean, square) = len(old.outliers), old.moments
    sd = np.sqrt(square / np.maximum(count, 1.0))
    size = np.sqrt(sd**2 + mean**2)
    varies = sd > 0.0
    ratio, shift = np.ones((d + 1, 1)), np.zeros((d + 1, 1))
    ratio[1:, 0][varies], shift[1:, 0][varies] = (size / sd)[varies], (mean / sd)[varies]
    new.moments[1, :d], new.moments[2, :d], new.latest[:, :d] = 0.0, count * size**2, 0.0
    weights = old.weights * ratio
    weights[:, 0] -= (weights / ratio * shift)[:, 1:].sum(axis=1)
    every = np.arange(d + 1)
    return weights, old.covariances[every, every][None] * ratio**2
