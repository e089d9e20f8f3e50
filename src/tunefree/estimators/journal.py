"""The runs of a batch learner on a source, so that a checkpoint can save them between passes.

What is not of a run (units of the columns, steps, proofs) follows from the rows and from the runs'
results, and is worked out anew on resuming: so nothing but results is saved.
"""

import contextlib
import copy

from tunefree.engine.run import run
from tunefree.engine.sources import Mark


class Journal:
    """The results of runs that have ended, and where the last one is.

    Parameters
    ----------
    estimator : estimator
    source : Source
    checkpoint : Checkpoint

    Attributes
    ----------
    state : tuple
        Results of the runs that have ended, and of the one under way after its last whole pass, or
        None.
    mark : Mark
        The start: a checkpoint is made between passes.
    width : int
        Says that there is something to save.
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
def journal(estimator, source, checkpoint):
    """Have a checkpoint save the runs that an estimator begins by `runner`, and resume them.

    Parameters
    ----------
    estimator : estimator
    source : Source
    checkpoint : Checkpoint or None

    Yields
    ------
    None
        To the fit.
    """
    if checkpoint is None:
        yield
        return
    estimator._journal = Journal(estimator, source, checkpoint)
    try:
        with checkpoint.watch(estimator._journal):
            yield
    finally:
        del estimator._journal


def runner(estimator):
    """What an estimator makes its runs by: `engine.run.run`, unless they are saved."""
    kept = vars(estimator).get("_journal")
    return run if kept is None else kept.run
