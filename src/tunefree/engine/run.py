"""The only loop: passes over a source, blocks within a pass, until the learner is done.

A learner has five verbs: ``init`` (its own arguments) makes a state; ``scan(state, block)`` adds a
block; ``merge(base, parts)`` joins what several workers scanned; ``turn(state) -> (state, done)``
ends a pass; ``read(state)`` is pure and gives the predictor. The state is a NamedTuple of arrays
and numbers, so saving it saves the run.
"""

from typing import NamedTuple


class Result(NamedTuple):
    """What a run leaves behind.

    Attributes
    ----------
    state : NamedTuple
        The learner's last state.
    n_passes : int
        Passes over the source.
    converged : bool
        Whether the learner ended the run itself.
    trace : list
        What ``learner.observe(state)`` said after each pass (empty if it has no such verb).
    stopped : bool
        Whether `on_pass` ended the run.
    """

    state: tuple
    n_passes: int
    converged: bool
    trace: list
    stopped: bool = False


def run(
    learner, state, source, *, max_passes=None, on_block=None, before_pass=None, on_pass=None,
    begun=None, keep=None,
):  # fmt: skip
    """Pass over the source until the learner is done.

    Parameters
    ----------
    learner : object with the verbs scan and turn
    state : NamedTuple
        From ``learner.init`` or an earlier run.
    source : object with ``blocks(epoch)``, or with ``sweep(learner, state, epoch)``
        A source whose blocks lie elsewhere has them scanned there, and gives the merged state.
    max_passes : int or None
        Upper limit of passes.
    on_block : callable or None
        Called with (state, block) after each block: progress bars, checkpoints.
    before_pass : callable or None
        Called without arguments before each pass.
    on_pass : callable or None
        Called with (state) after each pass: validation. The run ends if it says True.
    begun : Result or None
        What a run of the same has given to `keep`: the rest is made.
    keep : callable or None
        Called with a Result after each pass but the last: the run can go on from there.

    Returns
    -------
    Result

    Examples
    --------
    >>> class Count:
    ...     def scan(self, state, block):
    ...         return (state[0] + len(block.targets),)
    ...     def turn(self, state):
    ...         return state, state[0] >= 6
    >>> import numpy as np
    >>> from tunefree.engine.sources import Whole
    >>> source = Whole(np.ones((3, 1)), np.ones((3, 1)), np.ones(3))
    >>> run(Count(), (0,), source).n_passes
    2
    """
    observe = getattr(learner, "observe", None)
    trace, done, stopped, epoch = [], False, False, 0
    if begun is not None:
        state, epoch, trace = begun.state, begun.n_passes, list(begun.trace)
    while not (done or stopped) and (max_passes is None or epoch < max_passes):
        if before_pass is not None:
            before_pass()
        if hasattr(source, "sweep"):
            state = source.sweep(learner, state, epoch)
        else:
            for block in source.blocks(epoch):
                state = learner.scan(state, block)
                if on_block is not None:
                    on_block(state, block)
        state, done = learner.turn(state)
        epoch += 1
        if observe is not None:
            trace.append(observe(state))
        if on_pass is not None:
            stopped = bool(on_pass(state))
        if keep is not None and not (done or stopped):
            keep(Result(state, epoch, False, list(trace)))
    return Result(state, epoch, done, trace, stopped)
