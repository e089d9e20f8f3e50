"""Rounds over the partitions: a task each, a tree of merges, a time limit, state on the client."""

import pickle
import uuid

import numpy as np
from distributed import Client, default_client, wait
from distributed import TimeoutError as _DistributedTimeout

from tunefree._threads import one_blas_thread
from tunefree.dask.partitions import aligned, facts

_FAN_IN = 8
_SMALL = 1 << 20  # bytes that are sooner sent with all tasks of a round than fetched by them


class Cluster:
    """Partitions that stay on their workers, and rounds over them.

    Every task takes partitions of one worker and small arguments, and can be run again, so that the
    scheduler repairs the loss of a worker by itself. An argument that is more than a megabyte for
    all tasks travels as a task of its own, for the same reason: data that a client scatters are
    lost with the worker that holds them.

    Parameters
    ----------
    X, y, sample_weight : Dask array, frame or series
    classify : bool
        Whether y holds labels.
    client : distributed.Client, optional
        The current one by default.
    timeout : float
        Seconds that a round may take.
    """

    def __init__(self, X, y, sample_weight=None, *, classify=False, client=None, timeout=600.0):
        if not timeout > 0.0:
            raise ValueError(f"timeout={timeout!r} is not a positive number of seconds.")
        self.client = _client(client)
        self.timeout = timeout
        self.parts = self.client.compute(aligned(X, y, sample_weight, classify))
        self.names = range(len(self.parts))
        self.facts = self.gather(self.each("facts", facts, classify), "reading the partitions")
        self._check()

    def _check(self):
        """Partitions must agree; those without rows are forgotten."""
        kept = [i for i, f in enumerate(self.facts) if f.weight > 0.0]
        if not kept:
            raise ValueError("There is no row with a positive weight.")
        first = self.facts[kept[0]]
        for i in kept:
            for name in ("n_columns", "n_outputs"):
                mine, other = getattr(first, name), getattr(self.facts[i], name)
                if mine != other:
                    raise ValueError(
                        f"partition {i} has {name}={other}, and partition {kept[0]} has {mine}."
                    )
        self.names = kept
        self.parts = [self.parts[i] for i in kept]
        self.facts = [self.facts[i] for i in kept]

    @property
    def n_columns(self):
        """Columns of X."""
        return self.facts[0].n_columns

    @property
    def n_outputs(self):
        """Columns of y."""
        return max(1, self.facts[0].n_outputs)

    @property
    def weights(self):
        """Total weight of each partition."""
        return np.array([f.weight for f in self.facts])

    @property
    def dtype(self):
        """The type that holds all partitions' values."""
        return np.result_type(*(f.dtype for f in self.facts))

    def classes(self):
        """All labels."""
        return np.unique(np.concatenate([f.labels for f in self.facts]))

    def each(self, what, function, *arguments, parts=None, at=None):
        r"""Submit function(partition, \\*arguments) for each; futures, in order.

        `at` says on which worker, as long as that is alive; by default the scheduler chooses.
        """
        parts = self.parts if parts is None else parts
        return self._submit(what, function, parts, arguments, at)[1]

    def total(self, what, function, *arguments, merge, parts=None, at=None, names=None):
        r"""What each partition adds: function(partition, \\*arguments), merged a few at a time.

        The last few are merged on the client. `merge` is called with two results and the arguments.
        `names` are those of the partitions behind each of `parts`, if that is not one.
        """
        parts = self.parts if parts is None else parts
        (key, sent), added = self._submit(what, function, parts, arguments, at)
        level, merged = 0, added
        while len(merged) > _FAN_IN:
            level += 1
            groups = [merged[i : i + _FAN_IN] for i in range(0, len(merged), _FAN_IN)]
            merged = [
                self.client.submit(
                    _merged, merge, g, *sent, key=f"{key}-merge-{level}-{i}", pure=False
                )
                for i, g in enumerate(groups)
            ]
        return _merged(merge, self.gather(merged, what, added, names), *arguments)

    def _submit(self, what, function, parts, arguments, at):
        """A task for each of `parts`; also the key they share, and the arguments as sent."""
        at = [None] * len(parts) if at is None else at
        key = f"tunefree-{what.replace(' ', '-')}-{uuid.uuid4().hex[:12]}"
        sent = [
            self.client.submit(_same, a, key=f"{key}-given-{i}", pure=False)
            if len(parts) * len(pickle.dumps(a, -1)) > _SMALL
            else a
            for i, a in enumerate(arguments)
        ]
        return (key, sent), [
            self.client.submit(
                _alone, function, part, *sent, key=f"{key}-{i}", pure=False,
                workers=worker, allow_other_workers=worker is not None,
            )
            for i, (part, worker) in enumerate(zip(parts, at, strict=True))
        ]  # fmt: skip

    def dealt(self, futures):
        """Futures dealt out to the workers' threads: to those that hold them, and evenly.

        Returns
        -------
        list of (str or None, list of int)
            A worker, and which of the futures a thread of it shall take.
        """
        threads = {worker: [[] for _ in range(n)] for worker, n in self.client.nthreads().items()}
        threads = threads or {None: [[]]}  # all have died; another one may come
        hands = [hand for worker in threads.values() for hand in worker]
        fair = -(-len(futures) // len(hands))
        places, rest = self.client.who_has(futures), []
        for i, future in enumerate(futures):
            near = [h for worker in places[future.key] for h in threads.get(worker, [])]
            hand = min(near, key=len, default=None)
            (rest if hand is None or len(hand) == fair else hand).append(i)
        for i in rest:
            min(hands, key=len).append(i)
        return [(worker, hand) for worker, dealt in threads.items() for hand in dealt if hand]

    def gather(self, futures, what, pending=None, names=None):
        """Results of futures; nothing is waited for without end.

        Raises
        ------
        TimeoutError
            That names the partitions without an answer.
        Exception
            A task's own; that of the first partition, if several fail.
        """
        try:
            wait(futures, timeout=self.timeout)
            for future in futures:  # of several errors the first one's, whoever was first to fail
                if future.status == "error":
                    future.result(self.timeout)
            return self.client.sync(self.client.gather, futures, callback_timeout=self.timeout)
        except (TimeoutError, _DistributedTimeout):
            if any(future.status == "error" for future in futures):
                raise  # a task's own
            names = self.names if names is None else names
            pending = zip(names, futures if pending is None else pending, strict=True)
            late = [(str(name), future) for name, future in pending if future.status != "finished"]
            busy = {key: at for at, keys in self.client.processing().items() for key in keys}
            workers = sorted({busy[future.key] for _, future in late if future.key in busy})
            self.client.cancel([*futures, *(future for _, future in late)])
            listed = ", ".join(name for name, _ in late[:8]) or "none: it is the merge that is late"
            raise TimeoutError(
                f"{what}: no answer within {self.timeout:g} s from partition {listed} (on "
                f"{', '.join(workers[:8]) or 'no worker'}). Is a worker stuck? A longer timeout= "
                "waits for longer."
            ) from None


def _client(client):
    if client is None:
        try:
            return default_client()
        except ValueError:
            raise ValueError(
                "There is no Dask client: make one (distributed.Client()), or give client=."
            ) from None
    if not isinstance(client, Client):
        raise TypeError(f"client is a {type(client).__name__}, not a distributed.Client.")
    return client


def _same(value):
    return value


@one_blas_thread()
def _alone(function, *arguments):
    return function(*arguments)


@one_blas_thread()
def _merged(merge, parts, *arguments):
    whole = parts[0]
    for part in parts[1:]:
        whole = merge(whole, part, *arguments)
    return whole
