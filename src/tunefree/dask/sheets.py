"""Rows on workers that a batch learner passes over again and again."""

from time import monotonic

from tunefree.protocols import Source

_OFTEN = 1.0  # seconds


class Sheets(Source):
    """A source whose blocks lie on the cluster: a sweep is a round, a worker's thread a task.

    A task takes the partitions that lie where it runs. Where they lie is looked up once a second at
    most: after the loss of a worker they are dealt out anew. Only what a block changed in the
    learner's state travels back.

    Parameters
    ----------
    cluster : Cluster
    function : callable
        Makes a list of blocks, as the learner scans them, of a partition and the arguments.
    """

    def __init__(self, cluster, function, *arguments):
        self.cluster = cluster
        self._hands = cluster.dealt(cluster.parts)
        worker_of = {i: worker for worker, hand in self._hands for i in hand}
        at = [worker_of[i] for i in range(len(cluster.parts))]
        self.blocks = cluster.each("sheet", function, *arguments, at=at)
        self._looked = monotonic()

    def sweep(self, learner, state, epoch, on_block=None):
        """The state after all blocks."""
        if monotonic() - self._looked > _OFTEN:
            self._hands, self._looked = self.cluster.dealt(self.blocks), monotonic()
        names = self.cluster.names
        found = self.cluster.total(
            f"pass {epoch}", _scan, learner, state, merge=_joined,
            parts=[[self.blocks[i] for i in hand] for _, hand in self._hands],
            at=[worker for worker, _ in self._hands],
            names=[", ".join(str(names[i]) for i in hand) for _, hand in self._hands],
        )  # fmt: skip
        return state._replace(**found)


def _scan(partitions, learner, state):
    after = state
    for blocks in partitions:
        for block in blocks:
            after = learner.scan(after, block)
    return _changed(after, state)


def _joined(a, b, learner, state):
    whole = learner.merge(state, [state._replace(**part) for part in (a, b)])
    return _changed(whole, state)


def _changed(after, before):
    pairs = zip(after._fields, after, before, strict=True)
    return {name: new for name, new, old in pairs if new is not old}
