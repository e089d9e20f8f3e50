"""The only loop: passes over a source, blocks within a pass, until the learner is done."""

from collections.abc import Callable

from tunefree.protocols import Learner, Observed, Remote, Result, Source, State

__all__ = ["Result", "run"]


def run(
    learner: Learner,
    state: State,
    source: Source | Remote,
    *,
    max_passes: int | None = None,
    on_block: Callable | None = None,
    before_pass: Callable | None = None,
    on_pass: Callable | None = None,
    begun: Result | None = None,
    keep: Callable | None = None,
) -> Result:
    """Pass over the source until the learner is done.

    `on_block(state, block)` is called after each block, `before_pass()` and `on_pass(state)` around
    each pass; a run ends where `on_pass` says True. `keep(result)` is called after each pass but
    the last: given as `begun`, such a result is gone on from.

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
    >>> result = run(Count(), (0,), source)
    >>> result.n_passes, result.sentence
    (2, 'The learner had what it was asked for.')
    """
    trace, epoch, ended = [], 0, "passes"
    if begun is not None:
        state, epoch, trace = begun.state, begun.n_passes, list(begun.trace)
    while ended == "passes" and (max_passes is None or epoch < max_passes):
        if before_pass is not None:
            before_pass()
        if isinstance(source, Remote):
            state = source.sweep(learner, state, epoch, on_block)
        else:
            for block in source.blocks(epoch):
                state = learner.scan(state, block)
                if on_block is not None:
                    on_block(state, block)
        state, done = learner.turn(state)
        epoch += 1
        if isinstance(learner, Observed):
            trace.append(learner.observe(state))
        stopped = on_pass is not None and on_pass(state)
        ended = "converged" if done else "stopped" if stopped else "passes"
        if keep is not None and ended == "passes":
            keep(Result(state, epoch, ended, list(trace)))
    return Result(state, epoch, ended, trace)
