"""Rounds over the partitions: a task each, a tree of merges, a time limit, state on the client."""

import pickle
import uuid

import numpy as np
from distributed import Client, default_client, wait
from distributed import TimeoutError as _DistributedTimeout

from tunefree.dask.partitions import aligned, facts

_FAN_IN = 8
_SMALL = 1 << 20  # bytes that are sooner sent with all tasks of a round than fetched by them


class Cluster:
    """Partitions that stay on their workers, and rounds over them.

    Every task takes one partition and small arguments, and can be run again, so that the scheduler
    repairs the loss of a worker by itself. An argument that is more than a megabyte for all tasks
    travels as a task of its own, for the same reason: data that a client scatters are lost with the
    worker that holds them.

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

    def each(self, what, function, *arguments, parts=None):
        r"""Submit function(partition, \\*arguments) for each; futures, in order."""
        parts = self.parts if parts is None else parts
        key, sent = self._send(what, arguments, len(parts))
        return [
            self.client.submit(function, part, *sent, key=f"{key}-{i}", pure=False)
            for i, part in enumerate(parts)
        ]

    def total(self, what, function, *arguments, merge, parts=None):
        r"""What each partition adds: function(partition, \\*arguments), merged a few at a time.

        `merge` is called with two results and the arguments.
        """
        parts = self.parts if parts is None else parts
        key, sent = self._send(what, arguments, len(parts))
        level, added = 0, [
            self.client.submit(function, part, *sent, key=f"{key}-{i}", pure=False)
            for i, part in enumerate(parts)
        ]  # fmt: skip
        merged = added
        while len(merged) > 1:
            level += 1
            groups = [merged[i : i + _FAN_IN] for i in range(0, len(merged), _FAN_IN)]
            merged = [
                self.client.submit(
                    _merged, merge, g, *sent, key=f"{key}-merge-{level}-{i}", pure=False
                )
                for i, g in enumerate(groups)
            ]
        return self.gather(merged, what, added)[0]

    def _send(self, what, arguments, n_tasks):
        key = f"tunefree-{what.replace(' ', '-')}-{uuid.uuid4().hex[:12]}"
        return key, [
            self.client.submit(_same, a, key=f"{key}-given-{i}", pure=False)
            if n_tasks * len(pickle.dumps(a, -1)) > _SMALL
            else a
            for i, a in enumerate(arguments)
        ]

    def gather(self, futures, what, pending=None):
        """Results of futures; nothing is waited for without end.

        Raises
        ------
        TimeoutError
            That names the partitions without an answer.
        """
        try:
            wait(futures, timeout=self.timeout)
        except (TimeoutError, _DistributedTimeout):
            pending = futures if pending is None else pending
            late = [i for i, f in enumerate(pending) if f.status != "finished"]
            self.client.cancel([*futures, *pending])
            names = getattr(self, "names", range(len(pending)))
            listed = ", ".join(str(names[i]) for i in late[:8]) or "the merge"
            raise TimeoutError(
                f"{what}: no answer within {self.timeout:g} s from partition {listed}. Is a worker "
                "stuck? A longer timeout= waits for longer."
            ) from None
        return [future.result() for future in futures]


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


def _merged(merge, parts, *arguments):
    whole = parts[0]
    for part in parts[1:]:
        whole = merge(whole, part, *arguments)
    return whole


class Sheets:
    """A source whose blocks lie on the cluster: a sweep is a round.

    Only what a block changed in the learner's state travels back.

    Parameters
    ----------
    cluster : Cluster
    blocks : list of Future
        One list of blocks a partition, as the learner scans them.
    """

    def __init__(self, cluster, blocks):
        self.cluster, self.blocks = cluster, blocks

    def sweep(self, learner, state, epoch):
        """The state after all blocks."""
        found = self.cluster.total(
            f"pass {epoch}", _scan, learner, state, merge=_joined, parts=self.blocks
        )
        return state._replace(**found)


def _scan(blocks, learner, state):
    after = state
    for block in blocks:
        after = learner.scan(after, block)
    return _changed(after, state)


def _joined(a, b, learner, state):
    whole = learner.merge(state, [state._replace(**part) for part in (a, b)])
    return _changed(whole, state)


def _changed(after, before):
    pairs = zip(after._fields, after, before, strict=True)
    return {name: new for name, new, old in pairs if new is not old}
