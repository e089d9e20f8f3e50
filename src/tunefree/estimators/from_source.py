"""``fit_source``: learn from rows that come in chunks and need not fit into memory.

`FitsSource` has online learners read each chunk once, by ``partial_fit``. Batch learners read a
source anew in every pass (`RepeatableSource`), in runs that a checkpoint saves (`journal`).
"""

import contextlib
import copy
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import is_classifier

from tunefree.engine.order import content_hash
from tunefree.engine.run import run
from tunefree.engine.sources import Mark, joined, open_source, widened
from tunefree.estimators import base
from tunefree.estimators.locking import Threaded

# Rows that are held back while they are of a single class.
_MOST_HELD = 1 << 20
# Rows of a block while little is known of them, and numbers of a block of dense rows.
_ROWS, _NUMBERS = 4096, 1 << 19
# Stored entries of a block once the rows are known: at least, and at most.
_FEWEST, _MOST = 1 << 18, 1 << 22
# Rows drawn from a source, and of every class at least.
_SAMPLE, _OF_CLASS = 20_000, 10


class FitsSource(base.ReadOnDemand):
    """``fit_source`` by ``partial_fit``, for a learner that does not depend on where chunks end.

    It lives in ``_stream``, which has ``columns(d)``, where the number of columns is known only as
    rows come, and ``end_pass()``; both return what to go on with.
    """

    @base.all_or_nothing
    def fit_source(
        self,
        source: Any,
        *,
        classes: ArrayLike | None = None,
        checkpoint: Any = None,
        on_chunk: Callable | None = None,
    ) -> Self:
        """Learn from a source of any size, in the order of its rows and in flat memory.

        One pass, unless `max_iter` is a number. The result is that of `partial_fit` on the rows;
        the chunks' sizes make no difference.

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
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)
        self._stream = self._run = None
        run = _Run(self, source, n_passes, classes, on_chunk)
        with contextlib.ExitStack() as stack:
            if n_passes > 1:
                stack.enter_context(source.parsed_once(checkpoint))
            if checkpoint is not None:
                stack.enter_context(checkpoint.watch(run))
            run.go(checkpoint)
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        return self

    def _source_passes(self):
        return 1 if self.max_iter == "auto" else int(self.max_iter)

    def progressive_risk(self, share: float = 1.0) -> float:
        """Mean loss of the best member or average on rows before they were learned.

        Parameters
        ----------
        share : float, default=1.0
            Of the latest rows, where the learner can tell.

        Returns
        -------
        float
            A share of errors, or a squared error; NaN where there is no stream.
        """
        stream: Any = getattr(self, "_stream", None)
        return stream.risk(share) if hasattr(stream, "risk") else float("nan")


class _Run:
    """The passes of a `fit_source`, and where they are: what a checkpoint saves of them.

    `mark` is where reading goes on, None while rows are held back; `width` the columns so far.
    """

    state = None  # the estimator has all there is to save

    def __init__(self, estimator, source, n_passes, classes, on_chunk):
        self.estimator, self.source, self.n_passes = estimator, source, n_passes
        self.classes, self.on_chunk = classes, on_chunk
        self.mark, self.epoch, self.width, self.held = Mark(), 0, 0, []

    def resume(self, estimator, mark, epoch, width, state):
        """Go on from what a checkpoint holds."""
        held = self.estimator.__dict__
        held.clear()
        held.update(vars(estimator))
        self.mark, self.epoch, self.width = mark, epoch, width

    def go(self, checkpoint=None):
        """Make the passes that are left."""
        while self.epoch < self.n_passes:
            for chunk in self.source.chunks(self.mark or Mark(), self.epoch):
                if checkpoint is not None:
                    checkpoint.begin()
                self._learn(chunk)
                if checkpoint is not None:
                    checkpoint.end(self)
                if self.on_chunk is not None:
                    self.on_chunk(self.estimator, chunk.mark.row, self.epoch)
            if self.held:
                self._flush(last=True)
            if self.width == 0:
                raise ValueError(f"{self.source.name} has no rows.")
            self.epoch, self.mark = self.epoch + 1, Mark()
            if self.epoch < self.n_passes:
                self.estimator._stream = self.estimator._stream.end_pass()
        if self.estimator.n_features_in_ != self.width:
            self._set_columns(self.width)
        _ = self.estimator.coef_  # reads the predictor, whose n_iter_ is that of a pass
        self.estimator.n_iter_ = self.n_passes

    def _learn(self, chunk):
        if chunk.y is None:
            raise ValueError(f"{self.source.name} has no targets to learn from.")
        self.width = max(self.width, chunk.X.shape[1])
        begun = self.estimator._stream is not None
        if not begun and is_classifier(self.estimator) and self.classes is None:
            self.held.append(chunk)
            self._flush()
        else:
            self._fit(chunk)
        self.mark = None if self.held else chunk.mark

    def _flush(self, last=False):
        """Learn the rows held back, once they are of two classes."""
        seen = np.unique(np.concatenate([np.unique(c.y) for c in self.held]))
        rows = sum(map(len, self.held))
        if len(seen) < 2 and (last or rows > _MOST_HELD):
            raise ValueError(
                f"All of the first {rows} rows of {self.source.name} have the class {seen[0]}: "
                "a classifier needs two. Give classes=, or window= to shuffle."
            )
        if len(seen) >= 2:
            chunk, self.held = joined(self.held), []
            self._fit(chunk)

    def _fit(self, chunk):
        X, estimator = chunk.X, self.estimator
        if estimator._stream is not None:
            known = estimator.n_features_in_
            if X.shape[1] > known and hasattr(X, "indptr"):
                known = max(X.shape[1], 2 * known)  # so that widening costs O(1) a column
                self._set_columns(known)
            X = widened(X, known)
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
    """The rows of a source, checked, as often as they are wanted.

    Blocks end where the rows say, not where the source's chunks do. Rows of weight 0 are left out.
    `width`, `rows` and `entries` (columns, rows and stored entries) are known after a `survey`;
    `dtype` is that of the first rows, `flat` whether targets are a vector.
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
        self.flat = np.ndim(first.y) == 1
        self.grid, self._fetched = _ROWS, {}
        self._places: Any = None
        if not sparse.issparse(first.X):
            self.grid = int(np.clip(_NUMBERS // max(1, self.width), 1, _ROWS))

    def survey(self):
        """The first pass: (X, y, weights) as they come, columns of sparse rows still growing."""
        X: Any = None
        for X, y, weights in self._pieces():
            self.width, self.rows = max(self.width, X.shape[1]), self.rows + X.shape[0]
            self.entries += X.nnz if sparse.issparse(X) else X.size
            yield X, y, weights
        if not self.rows:
            raise ValueError(f"{self.source.name} has no row with a positive weight.")
        if sparse.issparse(X):  # as many entries as columns, or sums would cost more than products
            wanted = np.clip(self.width, _FEWEST, _MOST) * self.rows // max(1, self.entries)
            self.grid = int(max(1, wanted))

    def pieces(self):
        """The rows with all their columns: (X, y, weights)."""
        row, mark, places = 0, None, []
        for X, y, weights in self._pieces():
            places.append((row, mark))
            row, mark = row + X.shape[0], self._mark
            yield widened(X, self.width), y, weights
        self._places = places

    def total(self, what, function, *arguments, merge):
        """What every piece adds, function(piece, ...), merged one by one: a round over a file."""
        whole: Any = None
        for piece in self._shown():
            one = function(piece, *arguments)
            whole = one if whole is None else merge(whole, one, *arguments)
        return whole

    def shown(self, function):
        """The same with pieces as `function` shows them."""
        other: Any = copy.copy(self)
        other._shown = lambda: map(function, self._shown())
        return other

    def _shown(self):
        return (Piece(*piece) for piece in self.pieces())

    def fitted(self, model):
        """A model after all rows; None if it wants them in memory."""
        learn = getattr(model, "fit_source", None)
        return None if learn is None else learn(lambda: map(tuple, self._shown()))

    def drawn(self, seed, most, labels):
        """A `Sample`: what the first pass finds out."""
        whole: Any = None
        for X, y, weights in self.survey():
            one = Sample.of(X, y, weights, seed, most, labels)
            whole = one if whole is None else whole.join(one)
        return whole

    @property
    def n_rows(self):
        """How many rows of positive weight there are."""
        return self.rows

    def row(self, j):
        """Row j, a matrix of one row; it is kept."""
        if self._places is None:
            for _ in self.pieces():
                pass
        if j not in self._fetched:
            places: Any = self._places
            start, mark = [place for place in places if place[0] <= j][-1]
            X, _, _ = next(self._pieces(mark))
            self._fetched[j] = widened(X, self.width)[j - start : j - start + 1]
        return self._fetched[j]

    def _pieces(self, start=None):
        for chunk in self.source.chunks(start, rows=self.grid):
            X, y = chunk.X, chunk.y
            X = X if X.dtype == self.dtype else X.astype(self.dtype)
            X = base.canonical(X) if sparse.issparse(X) else np.ascontiguousarray(X)
            base.check_size(X)
            self._mark = chunk.mark
            if chunk.weight is None:
                yield X, y, np.ones(len(chunk))
                continue
            weights = np.asarray(chunk.weight, dtype=np.float64)
            if weights.min(initial=0.0) < 0.0:
                raise ValueError(f"{self.source.name} has a row whose weight is negative.")
            if weights.max(initial=0.0) > base.HUGE:
                raise ValueError(
                    f"{self.source.name} has a row whose weight is above {base.HUGE:g}."
                )
            kept = weights > 0.0
            if kept.any():
                yield base.take(X, np.flatnonzero(kept)), y[kept], weights[kept]


class FitsSums(Threaded):
    """``fit_source`` from an even sample and sums over all rows: a subclass has ``_fit_rows``."""

    _fit_rows: Callable

    @base.all_or_nothing
    def fit_source(self, source: Any, *, classes: ArrayLike | None = None) -> Self:
        """Learn from a source of any size, in flat memory.

        The first pass draws 8,000 distinct rows evenly, by their hash (of every class a few); if
        there are no more, the result is that of `fit`. The second pass adds up what all rows say.

        Parameters
        ----------
        source : Source or anything that `tunefree.open_source` takes, and can be read again
        classes : array-like, optional
            For classifiers: the only labels there may be.

        Returns
        -------
        self
        """
        source = open_source(source)
        with source.parsed_once():
            self._fit_rows(RepeatableSource(source))
        if classes is not None:
            more = np.setdiff1d(getattr(self, "classes_", ()), np.asarray(classes))
            if len(more):
                raise ValueError(f"{source.name} has the label {more[0]}, which classes= has not.")
        if source.feature_names is not None:
            self.feature_names_in_: Any = np.asarray(source.feature_names, dtype=object)
        return self


class Piece(NamedTuple):
    """Some rows, as learners by sums take them: those of a partition look the same."""

    X: Any
    y: np.ndarray
    weights: np.ndarray


class Sample(NamedTuple):
    """The distinct rows of the least hashes: even draws, in whatever chunks and order rows come.

    Equal rows are one, with the sum of their weights. Of every class there are a few, if `labels`.
    """

    hashes: np.ndarray
    X: Any
    y: np.ndarray
    weights: np.ndarray
    ends: np.ndarray  # (2, n_targets): the lowest and the highest target of all rows, or of none
    most: int = _SAMPLE
    labels: bool = False

    @classmethod
    def of(cls, X, y, weights, seed, most=_SAMPLE, labels=False):
        """Those of some rows."""
        y = np.asarray(y)
        numbers = y.reshape(len(y), -1) if y.dtype.kind in "biuf" else np.empty((len(y), 0))
        numbers = numbers.astype(np.float64)
        ends = np.array([numbers.min(axis=0), numbers.max(axis=0)])
        hashes = content_hash(X, numbers, seed)[1]
        return cls(hashes, X, y, weights, ends, most, labels)._cut()

    @property
    def whole(self):
        """Whether these are all rows."""
        return len(self.hashes) < self.most

    def join(self, other, *_):
        """Those of both."""
        width = max(self.X.shape[1], other.X.shape[1])
        rows = [widened(part.X, width) for part in (self, other)]
        X = base.canonical(sparse.vstack(rows, "csr")) if sparse.issparse(rows[0]) else np.vstack(
            rows
        )  # fmt: skip
        hashes, y, weights = (
            np.concatenate([getattr(part, name) for part in (self, other)])
            for name in ("hashes", "y", "weights")
        )
        low, high = zip(self.ends, other.ends, strict=True)
        ends = np.array([np.minimum(*low), np.maximum(*high)])
        return self._replace(hashes=hashes, X=X, y=y, weights=weights, ends=ends)._cut()

    def _cut(self):
        names, codes = np.unique(self.y, return_inverse=True) if self.labels else ((), self.hashes)
        order = np.lexsort((codes, self.hashes))
        hashes, codes = self.hashes[order], codes[order]
        first = np.flatnonzero(np.append(True, (np.diff(hashes) != 0) | (codes[1:] != codes[:-1])))
        weights = np.add.reduceat(self.weights[order], first)
        kept = np.arange(len(first)) < self.most
        for k in range(len(names)):
            kept[np.flatnonzero(codes[first] == k)[:_OF_CLASS]] = True
        at = order[first[kept]]
        return self._replace(
            hashes=hashes[first[kept]], X=base.take(self.X, at), y=self.y[at],
            weights=weights[kept],
        )  # fmt: skip


class RunLog:
    """The results of runs that have ended, and where the last one is: what a checkpoint saves.

    What is not of a run (units of the columns, steps, proofs) follows from the rows and from the
    runs' results, and is worked out anew on resuming. `state` holds the results of the runs that
    have ended, and of the one under way after its last whole pass, or None. `mark` is the start:
    a checkpoint is made between passes; `width` says that there is something to save.
    """

    mark, width = Mark(), 1

    def __init__(self, estimator, source, checkpoint):
        self.estimator, self.source, self.checkpoint = estimator, source, checkpoint
        self.state, self.begun = ((), None), 0

    @property
    def epoch(self):
        """Passes of all runs."""
        ended, last = self.state
        return sum(r.n_passes for r in ended) + (last.n_passes if last else 0)

    def resume(self, estimator, mark, epoch, width, state):
        """Go on from what a checkpoint holds."""
        self.state = state

    def run(self, learner, state, source, **options):
        """`engine.run.run`, or what is left of it."""
        (ended, last), number = self.state, self.begun
        self.begun += 1
        if number < len(ended):
            return ended[number]

        def keep(result):
            self.state = ended, copy.deepcopy(result)
            self.checkpoint.passed(self, self.source.rows)

        result = run(learner, state, source, begun=last, keep=keep, **options)
        self.state = (*ended, copy.deepcopy(result)), None
        return result


@contextlib.contextmanager
def run_log(estimator, source, checkpoint):
    """Have a checkpoint (or None) save the runs that an estimator begins by `runner`.

    The source is read often: text is parsed once.
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
