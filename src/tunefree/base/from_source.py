"""``fit_source``: learn from rows that come in chunks and need not fit into memory.

`FitsSource` is for online learners, which read each chunk once, by ``partial_fit``. Batch learners
read the source again in every pass (`RepeatableSource`); a checkpoint saves their runs (`run_log`).
"""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import is_classifier

from tunefree.base.locks import Threaded, all_or_nothing
from tunefree.base.reading import ReadOnDemand, forget_fit
from tunefree.base.sizes import HUGE, check_entries
from tunefree.engine.run import run
from tunefree.engine.sources import Mark, joined, open_source, widened
from tunefree.rows.designs import n_entries
from tunefree.rows.matrices import as_columns, canonical, stacked, take
from tunefree.rows.order import content_hash

# Most rows that wait while all are of a single class.
_MOST_WAITING = 1 << 20
# Most rows of a block, and most numbers of a block of dense rows.
_ROWS, _NUMBERS = 4096, 1 << 19
# Stored entries of a block of sparse rows after the first pass: at least, and at most.
_FEWEST_ENTRIES, _MOST_ENTRIES = 1 << 18, 1 << 22
# Rows drawn from a source, and of every class at least.
_SAMPLE, _OF_CLASS = 20_000, 10


def name_columns(estimator, source):
    """Set the names of the columns, if the source has names."""
    if source.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(source.feature_names, dtype=object)


class FitsSource(ReadOnDemand):
    """``fit_source`` by ``partial_fit``, for a learner that does not depend on where chunks end.

    The learner is ``_stream``. It has ``end_pass()`` and, where later rows may have more columns,
    ``columns(d)``; both return the learner to continue with.
    """

    max_iter: Any

    @all_or_nothing
    def fit_source(
        self,
        source: Any,
        *,
        classes: ArrayLike | None = None,
        checkpoint: Any = None,
        on_chunk: Callable | None = None,
    ) -> Self:
        """Learn from a source of any size, in the order of its rows and in flat memory.

        One pass, unless `max_iter` is a number. The result is that of `partial_fit` on the rows,
        whatever the sizes of the chunks.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes
        classes : array-like, optional
            For classifiers: classes to expect. More may appear at any time.
        checkpoint : Checkpoint, optional
            Saves the run now and then, and when it is interrupted; resumes it with the same bits.
        on_chunk : callable, optional
            Called with (estimator, rows seen, pass) after each chunk.

        Returns
        -------
        self
        """
        source = open_source(source)
        n_passes = self._source_passes()
        if n_passes > 1 and not source.again:
            raise ValueError(
                f"max_iter={n_passes} needs a source that can be read again, and {source.name} "
                "cannot: give a file, or a function that makes the iterator."
            )
        forget_fit(self)
        self._stream = self._run = None
        run = _SourceRun(self, source, n_passes, classes, on_chunk)
        with contextlib.ExitStack() as stack:
            if n_passes > 1:
                stack.enter_context(source.parsed_once(checkpoint))
            if checkpoint is not None:
                stack.enter_context(checkpoint.watch(run))
            run.go(checkpoint)
        name_columns(self, source)
        return self

    def _source_passes(self):
        return 1 if self.max_iter == "auto" else int(self.max_iter)

    def progressive_risk(self, share: float = 1.0) -> float:
        """Mean loss of the best member or average on rows before they were learned.

        Parameters
        ----------
        share : float, default=1.0
            The share of rows, the latest ones, where the learner keeps their losses.

        Returns
        -------
        float
            A share of errors, or a squared error; NaN where there is no stream.
        """
        stream: Any = getattr(self, "_stream", None)
        return stream.risk(share) if hasattr(stream, "risk") else float("nan")


class _SourceRun:
    """The passes of a `fit_source` and their position, as a checkpoint saves them.

    `mark` is where reading continues, or None while rows wait; `width` is the columns so far.
    """

    state = None  # everything to save is in the estimator

    def __init__(self, estimator, source, n_passes, classes, on_chunk):
        self.estimator, self.source, self.n_passes = estimator, source, n_passes
        self.classes, self.on_chunk = classes, on_chunk
        self.mark, self.epoch, self.width, self.waiting = Mark(), 0, 0, []

    def resume(self, estimator, mark, epoch, width, state):
        """Continue from a checkpoint."""
        attributes = self.estimator.__dict__
        attributes.clear()
        attributes.update(vars(estimator))
        self.mark, self.epoch, self.width = mark, epoch, width

    def go(self, checkpoint=None):
        """Make the remaining passes."""
        while self.epoch < self.n_passes:
            for chunk in self.source.chunks(self.mark or Mark(), self.epoch):
                if checkpoint is not None:
                    checkpoint.begin()
                self._learn(chunk)
                if checkpoint is not None:
                    checkpoint.end(self)
                if self.on_chunk is not None:
                    self.on_chunk(self.estimator, chunk.mark.row, self.epoch)
            if self.waiting:
                self._flush(last=True)
            if self.width == 0:
                raise ValueError(f"{self.source.name} has no rows.")
            self.epoch, self.mark = self.epoch + 1, Mark()
            if self.epoch < self.n_passes:
                self.estimator._stream = self.estimator._stream.end_pass()
        if self.estimator.n_features_in_ != self.width:
            self._set_columns(self.width)
        _ = self.estimator.coef_  # reading it sets n_iter_ to that of one pass
        self.estimator.n_iter_ = self.n_passes

    def _learn(self, chunk):
        if chunk.y is None:
            raise ValueError(f"{self.source.name} has no targets to learn from.")
        self.width = max(self.width, chunk.X.shape[1])
        has_begun = self.estimator._stream is not None
        if not has_begun and is_classifier(self.estimator) and self.classes is None:
            self.waiting.append(chunk)
            self._flush()
        else:
            self._fit(chunk)
        self.mark = None if self.waiting else chunk.mark

    def _flush(self, last=False):
        """Learn the rows that wait, once they have two classes."""
        classes = np.unique(np.concatenate([np.unique(c.y) for c in self.waiting]))
        rows = sum(map(len, self.waiting))
        if len(classes) < 2 and (last or rows > _MOST_WAITING):
            raise ValueError(
                f"All of the first {rows} rows of {self.source.name} have the class {classes[0]}: "
                "a classifier needs two. Give classes=, or window= to shuffle."
            )
        if len(classes) >= 2:
            chunk, self.waiting = joined(self.waiting), []
            self._fit(chunk)

    def _fit(self, chunk):
        X, estimator = chunk.X, self.estimator
        if estimator._stream is not None:
            width = estimator.n_features_in_
            if X.shape[1] > width and hasattr(X, "indptr"):
                width = max(X.shape[1], width + width // 4)  # widening costs O(1) a column
                self._set_columns(width)
            X = widened(X, width)
        options = {"classes": self.classes} if is_classifier(estimator) else {}
        estimator.partial_fit(X, chunk.y, sample_weight=chunk.weight, **options)

    def _set_columns(self, d):
        if not hasattr(self.estimator._stream, "columns"):
            raise ValueError(
                "The number of columns must be known here: open the source with n_features=."
            )
        self.estimator._stream = self.estimator._stream.columns(d)
        self.estimator.n_features_in_ = d
        self.estimator._forget_read()


class RepeatableSource:
    """The rows of a source, checked; they can be read any number of times.

    Blocks have a fixed number of rows, whatever the source's chunks are. Rows of weight 0 are
    skipped. A `survey` sets `width`, `rows` and `entries` (columns, rows and stored entries).
    `dtype` is that of the first rows; `flat` is whether targets are a vector.
    """

    def __init__(self, source):
        self.source = source = open_source(source)
        if not source.again:
            raise ValueError(
                f"{source.name} can be read once only, and this learner needs several passes: "
                "give a file, or a function that makes the iterator."
            )
        first = next(source.chunks(), None)
        if first is None:
            raise ValueError(f"{source.name} has no rows.")
        if first.y is None:
            raise ValueError(f"{source.name} has no targets to learn from.")
        self.dtype = np.dtype(np.float32 if first.X.dtype == np.float32 else np.float64)
        self.width, self.rows, self.entries = first.X.shape[1], 0, 0
        self.flat, self.sparse = np.ndim(first.y) == 1, sparse.issparse(first.X)
        most = _ROWS if self.sparse else _NUMBERS // max(1, self.width)
        self.grid = int(np.clip(most, 1, _ROWS))
        self._cached_rows, self._marks = {}, []  # (first row, mark) of every block

    def survey(self):
        """The first pass: (X, y, weights); later sparse rows may have more columns."""
        for X, y, weights in self._pieces():
            self.width, self.rows = max(self.width, X.shape[1]), self.rows + X.shape[0]
            self.entries += n_entries(X)
            yield X, y, weights
        if not self.rows:
            raise ValueError(f"{self.source.name} has no row with a positive weight.")
        if self.sparse:  # with as many entries as columns, sums cost no more than products
            entries = np.clip(self.width, _FEWEST_ENTRIES, _MOST_ENTRIES)
            self.grid = int(max(1, entries * self.rows // max(1, self.entries)))

    def pieces(self):
        """The rows with all their columns: (X, y, weights)."""
        row, mark, marks = 0, None, []
        for X, y, weights in self._pieces():
            marks.append((row, mark))
            row, mark = row + X.shape[0], self._mark
            yield widened(X, self.width), y, weights
        self._marks = marks

    def total(self, what, function, *arguments, merge):
        """The sum over a pass: `merge` joins function(piece, *arguments) of all pieces in order."""
        whole: Any = None
        for piece in self._shown():
            if whole is None:
                whole = function(piece, *arguments)
            else:  # no variable holds the large sums of a piece
                whole = merge(whole, function(piece, *arguments), *arguments)
        return whole

    def shown(self, function):
        """The same source, whose pieces are transformed by `function`."""
        other: Any = copy.copy(self)
        other._shown = lambda: map(function, self._shown())
        return other

    def _shown(self):
        return (SourcePiece(*piece) for piece in self.pieces())

    def fitted(self, model):
        """A model fitted to all rows; None if it needs them in memory."""
        fit_source = getattr(model, "fit_source", None)
        return None if fit_source is None else fit_source(lambda: map(tuple, self._shown()))

    def drawn(self, seed, most, labels):
        """A `SourceSample` of the rows, drawn in the first pass."""
        whole: Any = None
        for X, y, weights in self.survey():
            part = SourceSample.of(X, y, weights, seed, most, labels)
            whole = part if whole is None else whole.join(part)
        return whole

    @property
    def n_rows(self):
        """How many rows of positive weight there are."""
        return self.rows

    def row(self, j):
        """Row j as a matrix of one row; it is cached."""
        if j not in self._cached_rows:
            start, mark = [entry for entry in self._marks if entry[0] <= j][-1]
            X, _, _ = next(self._pieces(mark))
            self._cached_rows[j] = widened(X, self.width)[j - start : j - start + 1]
        return self._cached_rows[j]

    def _pieces(self, start=None):
        for chunk in self.source.chunks(start, rows=self.grid):
            X, y = chunk.X, chunk.y
            X = X if X.dtype == self.dtype else X.astype(self.dtype)
            X = canonical(X)
            check_entries(X)
            self._mark = chunk.mark
            if chunk.weight is None:
                yield X, y, np.ones(len(chunk))
                continue
            weights = np.asarray(chunk.weight, dtype=np.float64)
            if weights.min(initial=0.0) < 0.0:
                raise ValueError(f"{self.source.name} has a row whose weight is negative.")
            if weights.max(initial=0.0) > HUGE:
                raise ValueError(f"{self.source.name} has a row whose weight is above {HUGE:g}.")
            positive = weights > 0.0
            if positive.any():
                yield take(X, np.flatnonzero(positive)), y[positive], weights[positive]


class FitsSums(Threaded, ABC):
    """``fit_source`` by an even sample and sums over all rows; a subclass has ``_fit_rows``."""

    @abstractmethod
    def _fit_rows(self, rows) -> Any:
        """Learn the rows of a source, of which only a sample and sums are kept."""

    @all_or_nothing
    def fit_source(self, source: Any, *, classes: ArrayLike | None = None) -> Self:
        """Learn from a source of any size, in flat memory.

        The first pass draws distinct rows evenly, by their hash, and at least a few of every class:
        8,000 rows, or 100,000 for trees. If there are no more, the result is that of `fit`. Kernels
        and linear models sum over all rows in a second pass; trees learn the sample.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes, and can be read again
        classes : array-like, optional
            For classifiers: the labels allowed.

        Returns
        -------
        self
        """
        source = open_source(source)
        with source.parsed_once():
            rows = RepeatableSource(source)
            if is_classifier(self) and not rows.flat:
                raise ValueError(
                    f"{source.name} has several labels a row, and fit_source takes one: give one "
                    "label at a time, or all rows to TuneFreeClassifier.fit."
                )
            self._fit_rows(rows)
        if classes is not None:
            unexpected = np.setdiff1d(getattr(self, "classes_", ()), np.asarray(classes))
            if len(unexpected):
                raise ValueError(
                    f"{source.name} has the label {unexpected[0]}, which is not in classes=."
                )
        name_columns(self, source)
        return self


class SourcePiece(NamedTuple):
    """Some rows for learners by sums; a partition of Dask has the same form."""

    X: Any
    y: np.ndarray
    weights: np.ndarray


class SourceSample(NamedTuple):
    """The distinct rows with the smallest hashes: an even sample, for any order and chunks of rows.

    Equal rows are merged, with the sum of their weights. With `labels` every class has a few rows.
    """

    hashes: np.ndarray
    X: Any
    y: np.ndarray
    weights: np.ndarray
    ends: np.ndarray  # (2, n_targets): lowest and highest targets of all rows; (2, 0) for text
    most: int = _SAMPLE
    labels: bool = False

    @classmethod
    def of(cls, X, y, weights, seed, most=_SAMPLE, labels=False):
        """The sample of some rows."""
        y = np.asarray(y)
        real_targets = as_columns(y) if y.dtype.kind in "biuf" else np.empty((len(y), 0))
        ends = np.array([real_targets.min(axis=0), real_targets.max(axis=0)])
        hashes = content_hash(X, real_targets, seed)[1]
        return cls(hashes, X, y, weights, ends, most, labels)._cut()

    @property
    def whole(self):
        """Whether the sample holds all rows."""
        return len(self.hashes) < self.most

    def join(self, other, *_):
        """The sample of the rows of both."""
        width = max(self.X.shape[1], other.X.shape[1])
        X = canonical(stacked([widened(self.X, width), widened(other.X, width)]))
        low, high = zip(self.ends, other.ends, strict=True)
        ends = np.array([np.minimum(*low), np.maximum(*high)])

        def both(name):
            return np.concatenate([getattr(self, name), getattr(other, name)])

        columns = {name: both(name) for name in ("hashes", "y", "weights")}
        return self._replace(X=X, ends=ends, **columns)._cut()

    def _cut(self):
        names, codes = np.unique(self.y, return_inverse=True) if self.labels else ((), self.hashes)
        order = np.lexsort((codes, self.hashes))
        hashes, codes = self.hashes[order], codes[order]
        first = np.flatnonzero(np.append(True, (np.diff(hashes) != 0) | (codes[1:] != codes[:-1])))
        weights = np.add.reduceat(self.weights[order], first)
        drawn = np.arange(len(first)) < self.most
        for k in range(len(names)):
            drawn[np.flatnonzero(codes[first] == k)[:_OF_CLASS]] = True
        positions = order[first[drawn]]
        return self._replace(
            hashes=hashes[first[drawn]],
            X=take(self.X, positions),
            y=self.y[positions],
            weights=weights[drawn],
        )


class RunLog:
    """The results of an estimator's runs so far, as a checkpoint saves them.

    `state` holds the results of the runs that have ended, and of the current run after its last
    whole pass, or None. Everything else (units of the columns, steps, proofs) follows from the rows
    and these results, and is computed again on resuming. `mark` is the start of the source, since
    checkpoints are made between passes; `width` 1 means that there is something to save.
    """

    mark, width = Mark(), 1

    def __init__(self, estimator, source, checkpoint):
        self.estimator, self.source, self.checkpoint = estimator, source, checkpoint
        self.state, self.begun = ((), None), 0

    @property
    def epoch(self):
        """The number of passes of all runs."""
        ended, current = self.state
        return sum(r.n_passes for r in ended) + (current.n_passes if current else 0)

    def resume(self, estimator, mark, epoch, width, state):
        """Continue from a checkpoint."""
        self.state = state

    def run(self, learner, state, source, **options):
        """`engine.run.run`, or the rest of it after resuming."""
        (ended, current), number = self.state, self.begun
        self.begun += 1
        if number < len(ended):
            return ended[number]

        def keep(result):
            self.state = ended, copy.deepcopy(result)
            self.checkpoint.passed(self, self.source.rows)

        result = run(learner, state, source, begun=current, keep=keep, **options)
        self.state = (*ended, copy.deepcopy(result)), None
        return result


@contextlib.contextmanager
def run_log(estimator, source, checkpoint):
    """Let a checkpoint (or None) save the runs that an estimator makes by `runner`.

    The source is read many times: text is parsed once.
    """
    with source.parsed_once(checkpoint):
        if checkpoint is None:
            yield
            return
        estimator._run_log = RunLog(estimator, source, checkpoint)
        try:
            with checkpoint.watch(estimator._run_log):
                yield
        finally:
            del estimator._run_log
