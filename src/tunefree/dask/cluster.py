"""Rows on a Dask cluster: checked partitions, and rounds over them.

A round is a task for each partition, a tree of merges, and a time limit; the client has the state.
"""

import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from dask.delayed import delayed
from distributed import Client, default_client, wait
from distributed import TimeoutError as _DistributedTimeout
from scipy import sparse
from sklearn.utils.validation import check_array, column_or_1d

from tunefree.base.exposures import columns_of_terms, row_term
from tunefree.base.from_source import SourceSample
from tunefree.core.process import kept_memory, one_blas_thread
from tunefree.core.protocols import Remote
from tunefree.rows.columns import as_table, must_be_read, names_of, raw_columns
from tunefree.rows.designs import CSR, design_of
from tunefree.rows.matrices import canonical, take
from tunefree.rows.missing import complete
from tunefree.rows.order import as_repetitions, in_units_of_rows
from tunefree.rows.outliers import FAR, clip_outliers, odd_entries, warn_of
from tunefree.rows.summaries import ColumnSummary

_FAN_IN = 8  # of merges by tasks
_SMALL = 1 << 20  # bytes; larger arguments become a task, instead of being sent with every task
_FEWEST = 1000  # rows; smaller partitions are not cut
_MOST_WEIGHTS = 1000  # distinct ones that are looked at
_TRIES = 20  # lost workers that a pass survives
_WORTH = 0.8  # share of columns; if more are not empty, all of them are sent


class Part(NamedTuple):
    """The rows of one partition, checked, on a worker."""

    X: Any
    y: np.ndarray
    weights: np.ndarray
    odd: tuple = ()  # `Odd` entries: outliers, taken as missing
    exposure: Any = None
    offset: Any = None

    def positive(self):
        """The rows of positive weight; no copy if these are all."""
        rows = self.weights > 0.0
        return self if rows.all() else self.taken(np.flatnonzero(rows))

    def taken(self, rows):
        """Some of the rows."""
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else take(self.X, rows)
        exposure, offset = (v if v is None else v[rows] for v in (self.exposure, self.offset))
        return Part(X, self.y[rows], self.weights[rows], exposure=exposure, offset=offset)


class Refusal(NamedTuple):
    """Why a partition cannot be learned; returned, since Dask logs every error of a task."""

    kind: type
    message: str


class TableFacts(NamedTuple):
    """The columns of a partition that is a table."""

    names: list | None
    summaries: list  # `ColumnSummary`; of a table without rows there are none
    distinct_weights: np.ndarray  # at most `_MOST_WEIGHTS`
    n_rows: int
    total: float

    def join(self, other, *_):
        """Those of both partitions."""
        if not other.n_rows or not self.n_rows:
            return self if self.n_rows else other
        if self.names != other.names or len(self.summaries) != len(other.summaries):
            raise ValueError("the partitions have several columns: give all the same, in order.")
        pairs = zip(self.summaries, other.summaries, strict=True)
        weights = np.union1d(self.distinct_weights, other.distinct_weights)
        return TableFacts(
            self.names,
            [one.join(two) for one, two in pairs],
            weights[:_MOST_WEIGHTS],
            self.n_rows + other.n_rows,
            self.total + other.total,
        )

    def unit(self):
        """What weights are multiplied by, so that an ordinary row weighs 1."""
        weights = self.distinct_weights
        whole = as_repetitions(weights)
        are_whole = len(weights) < _MOST_WEIGHTS and (whole == np.floor(whole)).all()
        if are_whole:
            return float(in_units_of_rows(weights)[0] / weights[0])
        return self.n_rows / self.total


class PartitionFacts(NamedTuple):
    """Facts about a partition, for the client."""

    n_rows: int
    n_columns: int
    n_outputs: int  # 0 for a vector of targets
    n_offsets: int  # columns of the offset; 0 for one number a row, or none
    weight: float
    dtype: Any
    labels: np.ndarray | None  # distinct targets, for classifiers
    largest: float  # the largest squared norm of a row of positive weight
    sparse: bool
    odd: tuple
    plain: bool  # whether rows are numbers, of which none is missing


def _checked(values, name, **form):
    """`check_array` of a partition, which may be empty."""
    return check_array(values, ensure_min_samples=0, input_name=name, **form)


def _numbers(X):
    """A partition's rows as an array, or a CSR array."""
    try:
        X = _checked(X, "X", accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
    except (TypeError, ValueError) as problem:
        kinds = X.dtypes.items() if hasattr(X, "dtypes") else ()
        other = [name for name, kind in kinds if kind.kind not in "biuf"]
        if not other or "NaN" in str(problem):
            raise
        raise ValueError(f"X: encode columns {other} as numbers ({problem}).") from problem
    return canonical(X)


def _labels(y):
    """A partition's labels."""
    y = column_or_1d(complete(y))
    kinds = {type(label).__name__ for label in y} if y.dtype == object else ()
    if len(kinds) > 1:
        raise ValueError(f"y holds labels of several types: {', '.join(sorted(kinds))}.")
    if y.dtype.kind == "f":
        _checked(y, "y", ensure_2d=False)
        if (y != np.floor(y)).any():
            raise ValueError("y holds fractions: a classifier needs labels.")
    return y


def _targets(y):
    """A partition's targets."""
    y = complete(y)
    try:
        y = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"y must hold numbers ({problem}).") from problem
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    return _checked(y, "y", ensure_2d=False)


def load(X, y, weights, terms, number, how):
    """Check the rows of one partition: a `Part`, or a `Refusal` that names the partition.

    `terms` are an exposure and an offset, or None.
    """
    try:
        X = _table(X) if how.tables else _numbers(X)
        y = _labels(y) if how.classify else _targets(y)
        if len(y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y {len(y)}.")
        terms = {name: _term(values, X, name, how) for name, values in terms.items()}
        weights = complete(weights, "sample_weight")
        weights = np.ones(len(y)) if weights is None else np.ravel(weights)
        weights = _checked(weights, "sample_weight", dtype=np.float64, ensure_2d=False)
        if len(weights) != len(y) or (weights < 0.0).any():
            raise ValueError("sample_weight must hold a number that is not negative for each row.")
    except (TypeError, ValueError) as problem:
        return Refusal(ValueError, f"partition {number}: {problem}")
    part = Part(X, y, weights, **terms)
    return _guarded(part, how.classify) if how.guard and not how.tables and len(y) else part


def _term(values, X, name, how):
    """The exposure or the offset of the rows of a partition; classes may have an offset each."""
    if name == "offset" and how.classify:
        return columns_of_terms(values, X)
    return row_term(values, X, name)


def _table(X):
    """The rows of a partition as a table: a frame, or an array of any type."""
    X = canonical(X) if sparse.issparse(X) else as_table(X)
    if not sparse.issparse(X) and not hasattr(X, "dtypes"):
        X = np.asarray(X)
        X = X if X.dtype.kind in "OUSMmbf" else X.astype(np.float64)
    return X


def summarised(part):
    """The `TableFacts` of a partition."""
    part = part.positive()
    names, weights = names_of(part.X), part.weights
    columns = raw_columns(part.X) if len(weights) else ()
    return TableFacts(
        None if names is None else list(map(str, names)),
        [ColumnSummary.of(raw, weights) for raw in columns],
        np.unique(weights)[:_MOST_WEIGHTS],
        len(weights),
        float(weights.sum()),
    )


def _encoded(part, number, function, how):
    """A partition of a table as numbers, or a `Refusal`."""
    try:
        X = _numbers(function(part.X) if part.X.shape[0] else np.zeros((0, how.n_columns)))
    except (TypeError, ValueError) as problem:
        return Refusal(ValueError, f"partition {number}: {problem}")
    part = part._replace(X=X)
    return _guarded(part, how.classify) if how.guard and len(part.y) else part


def _guarded(part, classify):
    every, odd = np.arange(len(part.y)), []
    targets = part.y.reshape(len(every), -1)
    X = clip_outliers(part.X, every, FAR)
    y = targets if classify else clip_outliers(targets, every, FAR)
    for name, before, after in (("X", part.X, X), ("y", targets, y)):
        found = None if after is before else odd_entries(before, after, name)
        odd += [] if found is None else [found]
    return part._replace(X=X, y=y.reshape(part.y.shape), odd=tuple(odd)) if odd else part


def facts(part, how):
    """What the client knows about a partition; a `Refusal` as it is."""
    if isinstance(part, Refusal):
        return part
    classify, plain = how.classify, not how.tables or _is_plain(part.X)
    squares = np.zeros(part.X.shape[0])
    if not how.tables:
        squares = design_of(part.X.astype(np.float64, copy=False)).squares()
    return PartitionFacts(
        int(np.count_nonzero(part.weights)),
        part.X.shape[1],
        0 if part.y.ndim == 1 else part.y.shape[1],
        part.offset.shape[1] if np.ndim(part.offset) == 2 else 0,
        float(part.weights.sum()),
        np.dtype(np.float64) if how.tables else part.X.dtype,
        np.unique(part.y[part.weights > 0.0]) if classify else None,
        float(np.max(squares, where=part.weights > 0.0, initial=0.0)),
        sparse.issparse(part.X),
        part.odd,
        plain,
    )


def _is_plain(X):
    """Whether a table holds numbers, none of which is missing."""
    if must_be_read(X):
        return False
    if hasattr(X, "isna"):
        return not X.isna().to_numpy().any()
    return sparse.issparse(X) or not np.isnan(X).any()


def _cut(part, k, n):
    """One of n parts of a partition."""
    return part.taken(slice(len(part.y) * k // n, len(part.y) * (k + 1) // n))


def _drawn(part, *arguments):
    return SourceSample.of(*part.positive()[:3], *arguments)


def split(name, collection):
    """The partitions of a Dask array, frame or series, as delayed objects."""
    if not hasattr(collection, "to_delayed"):
        raise TypeError(
            f"{name} is a {type(collection).__name__}, not a Dask array or frame: rows in memory "
            "are for the estimators of tunefree itself, or for dask.array.from_array."
        )
    if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "numblocks"):
        if collection.numblocks[1] > 1:
            collection = collection.rechunk({1: -1})
    return list(np.ravel(collection.to_delayed()))


class Checks(NamedTuple):
    """How rows are checked."""

    classify: bool
    guard: bool  # whether outliers are taken as missing
    tables: bool  # whether rows may be more than numbers
    n_columns: int = 0  # of the numbers of a table


def aligned(X, y, sample_weight, terms, how):
    """A delayed `Part` for each partition of X; all others must be cut alike."""
    rows = split("X", X)
    none = [None] * len(rows)
    weights = none if sample_weight is None else _cut_as(X, rows, sample_weight, "sample_weight")
    cut = {name: _cut_as(X, rows, values, name) for name, values in terms.items()}
    terms = [{name: parts[i] for name, parts in cut.items()} for i in range(len(rows))]
    cut = zip(rows, _cut_as(X, rows, y, "y"), weights, terms, strict=True)
    return [delayed(load, pure=False)(*piece, i, how) for i, piece in enumerate(cut)]


def _cut_as(X, rows, collection, name):
    """The partitions of targets, weights or terms, one for each partition of X.

    A number is that of every row.
    """
    if isinstance(collection, int | float):
        return [collection] * len(rows)
    if hasattr(collection, "rechunk") and hasattr(X, "chunks"):
        # Sums of unknown sizes are NaN, which equal nothing.
        if sum(collection.chunks[0]) == sum(X.chunks[0]):
            collection = collection.rechunk({0: X.chunks[0]})
    parts = split(name, collection)
    if len(parts) != len(rows):
        raise ValueError(
            f"{name} has {len(parts)} partitions and X has {len(rows)}: cut them alike."
        )
    return parts


class Cluster:
    """Partitions that stay on their workers, and rounds over them.

    Every task takes partitions of one worker and small arguments, and can be repeated; so the
    scheduler recovers from a lost worker. An argument of more than a megabyte for all tasks becomes
    a task, for the same reason: scattered data are lost with the worker that holds them. A round
    may take `timeout` seconds.
    """

    def __init__(
        self,
        X,
        y,
        sample_weight=None,
        *,
        classify=False,
        client=None,
        timeout=600.0,
        guard=False,
        tables=False,
        terms=None,
    ):
        if not timeout > 0.0:
            raise ValueError(f"timeout={timeout!r} is not a positive number of seconds.")
        self.client: Any = _client(client)  # asynchronous or not: both have one type
        self.timeout, self.how = timeout, Checks(classify, guard, tables)
        self.terms = tuple(terms or ())  # the names of those that rows have
        self.parts = self.client.compute(aligned(X, y, sample_weight, terms or {}, self.how))
        self.names = list(range(len(self.parts)))
        self._read_facts("reading the partitions")
        self._check_shapes()
        self._warn_of_outliers()

    @property
    def is_plain(self):
        """Whether rows are numbers, of which none is missing."""
        return all(f.plain for f in self.facts)

    def encoded(self, function, n_columns=0):
        """The same rows as numbers: function(table) of every partition."""
        how = self.how._replace(n_columns=n_columns)
        self.parts = [
            self.each("numbers", _encoded, name, function, how, parts=[part])[0]
            for name, part in zip(self.names, self.parts, strict=True)
        ]
        self.how = how._replace(tables=False)
        self._read_facts("reading the tables")
        self._warn_of_outliers()
        return self

    def _check_shapes(self):
        """Refuse partitions with other numbers of columns than the first."""
        first = self.facts[0]
        for i, f in zip(self.names, self.facts, strict=True):
            for name in ("n_columns", "n_outputs", "n_offsets"):
                mine, other = getattr(first, name), getattr(f, name)
                if mine != other:
                    others = f"partition {self.names[0]} has {mine}"
                    raise ValueError(f"partition {i} has {name}={other}, and {others}.")

    def _warn_of_outliers(self):
        """One warning for X and one for y."""
        for name in ("X", "y"):
            pairs = zip(self.names, self.facts, strict=True)
            odd = [(i, o) for i, f in pairs for o in f.odd if o.name == name]
            if odd:
                i, first = odd[0]
                position = f"row {first.row} of partition {i} and column {first.column}"
                warn_of([o for _, o in odd], f"{position}, counted from 0")

    def _read_facts(self, what):
        """Read the facts, and drop partitions without rows."""
        found = self.gather(self.each("facts", facts, self.how), what)
        for one in found:
            if isinstance(one, Refusal):
                raise one.kind(one.message)
        kept = [i for i, f in enumerate(found) if f.weight > 0.0]
        if not kept:
            raise ValueError("There is no row with a positive weight.")
        self.names, self.parts, self.facts = (
            [each[i] for i in kept] for each in (self.names, self.parts, found)
        )

    def even(self):
        """Cut partitions with more rows than the share of a thread."""
        share = -(-self.n_rows // max(1, sum(self.client.nthreads().values())))
        cuts = [-(-f.n_rows // max(share, _FEWEST)) for f in self.facts]
        if max(cuts) == 1:
            return self
        pieces = [(i, k, n) for i, n in enumerate(cuts) for k in range(n)]
        names, parts = self.names, self.parts
        self.names = [names[i] for i, _, _ in pieces]
        self.parts = [
            parts[i] if n == 1 else self.each("cut", _cut, k, n, parts=[parts[i]])[0]
            for i, k, n in pieces
        ]
        self._read_facts("cutting the partitions")
        return self

    @property
    def n_rows(self):
        """Rows of positive weight."""
        return sum(f.n_rows for f in self.facts)

    @property
    def n_columns(self):
        """Columns of X."""
        return self.facts[0].n_columns

    @property
    def n_outputs(self):
        """Columns of y."""
        return max(1, self.facts[0].n_outputs)

    @property
    def dtype(self):
        """The type that holds all partitions' values."""
        return np.result_type(*(f.dtype for f in self.facts))

    def classes(self):
        """All labels."""
        return np.unique(np.concatenate([f.labels for f in self.facts]))

    def drawn(self, seed, *options):
        """A `SourceSample` of all rows."""
        return self.total("sample", _drawn, seed, *options, merge=joined)

    def shown(self, function):
        """A cluster of function(partition) for each partition."""
        other = copy(self)
        other.parts = self.each("shown", function)
        other._read_facts("showing the partitions")
        return other

    def each(self, what, function, *arguments, parts=None, at=None):
        """Submit function(partition, ...) for each; futures, in order.

        `at` lists a worker for each, as long as it is alive; by default the scheduler chooses.
        """
        return self._submit(what, function, parts, arguments, at)[1]

    def total(self, what, function, *arguments, merge, parts=None):
        """The results of function(partition, ...), merged in a tree, and last on the client.

        `merge` is called with two results and the arguments.
        """
        (key, sent), results = self._submit(what, function, parts, arguments)
        level, merged = 0, results
        while len(merged) > _FAN_IN:
            level += 1
            groups = [merged[i : i + _FAN_IN] for i in range(0, len(merged), _FAN_IN)]
            merged = [
                self.client.submit(
                    _merged, merge, g, *sent, key=f"{key}-merge-{level}-{i}", pure=False
                )
                for i, g in enumerate(groups)
            ]
        return _merged(merge, self.gather(merged, what, results), *arguments)

    def _submit(self, what, function, parts, arguments, at=None):
        """A task for each of `parts`; also their common key, and the arguments as they are sent."""
        parts = self.parts if parts is None else parts
        at = [None] * len(parts) if at is None else at
        key = f"tunefree-{what.replace(' ', '-')}-{uuid.uuid4().hex[:12]}"
        sent = [
            self.client.submit(_same, a, key=f"{key}-given-{i}", pure=False)
            if len(parts) * len(pickle.dumps(a, -1)) > _SMALL
            else a
            for i, a in enumerate(arguments)
        ]
        tasks = []
        for i, (part, worker) in enumerate(zip(parts, at, strict=True)):
            how = {"key": f"{key}-{i}", "pure": False, "workers": worker}
            if worker is not None:
                how["allow_other_workers"] = True
            tasks.append(self.client.submit(_alone, function, part, *sent, **how))
        return (key, sent), tasks

    def assigned(self, futures):
        """Futures of the partitions, assigned to the threads of the workers, evenly.

        A list of (worker or None, indices of the futures of one of its threads). A thread gets the
        partitions on its worker, up to half a partition more than its share of the rows.
        """
        threads = {worker: [[] for _ in range(n)] for worker, n in self.client.nthreads().items()}
        threads = threads or {None: [[]]}  # all workers have died; another one may start
        lists = [thread for worker in threads.values() for thread in worker]
        rows = [f.n_rows for f in self.facts]
        workers_of, rest = self.client.who_has(futures), []

        def n_rows(thread):
            return sum(rows[i] for i in thread)

        for i, future in enumerate(futures):
            local = [t for worker in workers_of[future.key] for t in threads.get(worker, [])]
            thread = min(local, key=n_rows, default=rest)
            full = thread is rest or (n_rows(thread) + rows[i] / 2) * len(lists) > self.n_rows
            (rest if full else thread).append(i)
        for i in sorted(rest, key=lambda i: -rows[i]):
            min(lists, key=n_rows).append(i)
        return [(worker, thread) for worker, own in threads.items() for thread in own if thread]

    def gather(self, futures, what, pending=None, names=None):
        """Results of futures, or the error of the first partition that failed.

        After `timeout` seconds a TimeoutError names the partitions without an answer: those of
        the `pending` futures, by default of `futures`.
        """
        try:
            wait(futures, timeout=self.timeout)
            for future in futures:  # of several errors that of the first partition
                if future.status == "error":
                    future.result(self.timeout)
            return self.client.sync(self.client.gather, futures, callback_timeout=self.timeout)
        except (TimeoutError, _DistributedTimeout):
            if any(future.status == "error" for future in futures):
                raise  # an error of a task
            names = self.names if names is None else names
            pending = zip(names, futures if pending is None else pending, strict=True)
            late = [(str(name), future) for name, future in pending if future.status != "finished"]
            busy = {key: at for at, keys in self.client.processing().items() for key in keys}
            workers = sorted({busy[future.key] for _, future in late if future.key in busy})
            self.client.cancel([*futures, *(future for _, future in late)])
            raise self.timeout_error(what, [name for name, _ in late], workers) from None

    def timeout_error(self, what, names, workers):
        """A TimeoutError that names partitions and workers."""
        listed = ", ".join(names[:8]) or "none: the merge is late"
        return TimeoutError(
            f"{what}: no answer within {self.timeout:g} s from partition {listed} (on "
            f"{', '.join(workers[:8]) or 'no worker'}). Is a worker stuck? Or give a longer "
            "timeout=."
        )


class Assigned(NamedTuple):
    """A `Scanner` on its worker."""

    actor: Any
    future: Any  # keeps the actor alive
    worker: str | None
    names: list  # of its partitions
    columns: np.ndarray | None  # that its rows have; None for all


class RemoteBatches(Remote):
    """A source whose batches are on the cluster: a sweep is a round.

    `function` makes a list of batches for the learner from a partition and the arguments. They are
    assigned evenly to the threads of the workers, and again when a worker is lost. Workers are
    called without the scheduler (by Dask actors), in a fifth of the time of a task. Only the part
    of the learner's state that a batch reads, and its changes, are sent: for wide sparse rows, the
    columns that are not empty on that worker. A `centre` is subtracted from the rows here, not by
    their designs.
    """

    def __init__(self, cluster, function, *arguments, centre=None):
        self.cluster, self.centre, self._scanners = cluster, centre, []
        worker_of = {
            i: worker for worker, thread in cluster.assigned(cluster.parts) for i in thread
        }
        at = [worker_of[i] for i in range(len(cluster.parts))]
        self.batches = cluster.each("batches", function, *arguments, at=at)

    def _assign(self):
        """Make an actor for each worker with batches."""
        cluster, threads = self.cluster, {}
        cluster.gather(cluster.each("sizes", len, parts=self.batches), "making batches")
        for worker, thread in cluster.assigned(self.batches):
            threads.setdefault(worker, []).append(thread)
        names = [[str(cluster.names[i]) for t in own for i in t] for own in threads.values()]
        futures = []
        for worker, own in threads.items():
            batches = [[self.batches[i] for i in thread] for thread in own]
            how = {"actor": True, "pure": False, "workers": worker}
            futures.append(cluster.client.submit(Scanner, batches, **how))
        actors = cluster.gather(futures, "starting actors", names=[", ".join(n) for n in names])
        columns = [answer.result(cluster.timeout) for answer in [a.columns() for a in actors]]
        made = zip(actors, futures, threads, names, columns, strict=True)
        self._scanners = [Assigned(*one) for one in made]

    def sweep(self, learner, state, epoch, on_block=None):
        """The state after all batches."""
        narrow: Any = learner if hasattr(learner, "narrowed") else None
        needed = narrow.asked(state, self.centre) if narrow else state
        changes = self._swept_despite_losses(learner, needed, epoch)
        if narrow:
            columns = [one.columns for one in self._scanners]
            sums = [change["sums"] for change in changes]
            return narrow.gathered(state, zip(sums, columns, strict=True), self.centre)
        return state._replace(**_merged(_merge_changes, changes, learner, state))

    def _swept_despite_losses(self, learner, needed, epoch) -> Any:
        """The changes by each scanner; batches are assigned again when a worker is lost."""
        for retries in range(_TRIES, -1, -1):
            try:
                if not self._scanners:
                    self._assign()
                return self._swept(learner, needed, epoch)
            except (OSError, RuntimeError) as problem:
                if not retries or not _is_loss(problem):
                    raise
                self._scanners = []

    def _swept(self, learner, needed, epoch):
        """The changes by each scanner."""
        until, asked, found = monotonic() + self.cluster.timeout, [], []
        for one in self._scanners:
            own = needed if one.columns is None else learner.narrowed(needed, one.columns)
            asked.append(one.actor.scan(learner, own))
        for answer in asked:
            try:
                found.append(answer.result(max(0.0, until - monotonic())))
            except (TimeoutError, _DistributedTimeout):
                pairs = zip(asked, self._scanners, strict=True)
                late = [one for done, one in pairs if not done.done()]
                if not late:
                    raise
                names = sorted((name for one in late for name in one.names), key=int)
                workers = [one.worker for one in late]
                raise self.cluster.timeout_error(f"pass {epoch}", names, workers) from None
        return found


def _is_loss(problem):
    """Whether an error of actors is the loss of a worker."""
    if isinstance(problem, TimeoutError):  # which is an OSError, too
        return False
    return isinstance(problem, OSError) or "Actor" in str(problem)


class Scanner:
    """An actor that scans the batches of a worker, a list for each thread."""

    def __init__(self, threads):
        self.threads, self._columns = _narrowed(threads)

    def columns(self):
        """The columns of the states that it gets and returns; None for all."""
        return self._columns

    def scan(self, learner, state):
        """The changes of the state by all batches."""
        with ThreadPoolExecutor(len(self.threads)) as pool:
            found = list(pool.map(lambda batches: _scan(batches, learner, state), self.threads))
        return _merged(_merge_changes, found, learner, state)


def _narrowed(threads):
    """Batches without the columns that are empty in all of them, and the other columns."""
    batches = (batch for thread in threads for part in thread for batch in part)
    designs: Any = [getattr(batch, "design", None) for batch in batches]
    wide = all(isinstance(d, CSR) and 8 * d.n_columns >= _SMALL for d in designs)
    if not designs or not wide:
        return threads, None
    present = np.zeros(designs[0].n_columns, dtype=bool)
    for design in designs:
        present[design.indices] = True
    columns = np.flatnonzero(present)
    if len(columns) > _WORTH * len(present):
        return threads, None
    position = np.cumsum(present, dtype=designs[0].indices.dtype) - 1

    def narrow(batch):
        design = batch.design._replace(
            indices=position[batch.design.indices], n_columns=len(columns)
        )
        return batch._replace(design=design)

    return [[[narrow(b) for b in batches] for batches in thread] for thread in threads], columns


@kept_memory()
@one_blas_thread()
def _scan(partitions, learner, state):
    after = state
    for batches in partitions:
        for batch in batches:
            after = learner.scan(after, batch)
    return _changes(after, state)


def _merge_changes(a, b, learner, state):
    whole = learner.merge(state, [state._replace(**part) for part in (a, b)])
    return _changes(whole, state)


def _changes(after, before):
    pairs = zip(after._fields, after, before, strict=True)
    return {name: new for name, new, old in pairs if new is not old}


def _client(client):
    if client is None:
        try:
            return default_client()
        except ValueError:
            raise ValueError(
                "There is no Dask client: create one (distributed.Client()), or give client=."
            ) from None
    if not isinstance(client, Client):
        raise TypeError(f"client is a {type(client).__name__}, not a distributed.Client.")
    return client


def _same(value):
    return value


@kept_memory()
@one_blas_thread()
def _alone(function, *arguments):
    return function(*arguments)


@one_blas_thread()
def _merged(merge, parts, *arguments):
    whole = parts[0]
    for part in parts[1:]:
        whole = merge(whole, part, *arguments)
    return whole


def joined(a, b, *_):
    """A merge of objects with a method ``join``."""
    return a.join(b)


def added(a, b, *_):
    """A merge of tuples of numbers."""
    return tuple(x + y for x, y in zip(a, b, strict=True))
