"""What the house's pieces must have: the only place that says it.

A *part* is a small frozen object of parameters with methods in plain NumPy; what a part of each
kind has is written at its table (`tunefree._parts`). A *learner* turns blocks of rows into a state,
a *source* gives the blocks, and `tunefree.engine.run.run` passes one over the other.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

State = Any  # a NamedTuple of arrays and numbers: saving it saves the run


class Block(Protocol):
    """A stretch of rows, as `tunefree.engine.sources.Block` has them."""

    X: Any
    rows: np.ndarray | None
    targets: np.ndarray
    weights: np.ndarray
    start: int
    epoch: int


@runtime_checkable
class Learner(Protocol):
    """What `run` needs of a learner.

    ``scan(state, block)`` adds a block; ``turn(state) -> (state, done)`` ends a pass.
    ``init`` (its own arguments) makes the first state.
    """

    def scan(self, state: State, block: Any) -> State:
        """Add a block."""
        ...

    def turn(self, state: State) -> tuple[State, bool]:
        """End a pass; done says that the learner has converged."""
        ...


@runtime_checkable
class Merging(Learner, Protocol):
    """A learner whose blocks may lie on several workers."""

    def merge(self, base: State, parts: list[State]) -> State:
        """Join what several workers scanned, each from `base`."""
        ...


@runtime_checkable
class Observed(Learner, Protocol):
    """A learner that has something to say after each pass: it becomes the run's trace."""

    def observe(self, state: State) -> Any:
        """What is worth keeping of a pass."""
        ...


class Source(Protocol):
    """Where blocks of rows come from: an array, a file or a pipe."""

    def blocks(self, epoch: int) -> Iterator[Any]:
        """The blocks of a pass, in the order in which to learn them."""
        ...


@runtime_checkable
class Remote(Protocol):
    """A source whose blocks lie elsewhere, and are scanned there."""

    def sweep(self, learner: Learner, state: State, epoch: int, on_block=None) -> State:
        """The state after a pass over all blocks."""
        ...


# Why a run ended, and the sentence that says so.
ENDED = {
    "converged": "The learner had what it was asked for.",
    "stopped": "A callback asked for the end.",
    "passes": "All passes that were allowed have been made.",
}


class Result(NamedTuple):
    """What a run leaves behind."""

    state: State  # the learner's last state
    n_passes: int  # passes over the source
    ended: str  # why: see `ENDED`
    trace: list  # what the learner observed after each pass; empty if it observes nothing

    @property
    def converged(self) -> bool:
        """Whether the learner ended the run."""
        return self.ended == "converged"

    @property
    def stopped(self) -> bool:
        """Whether a callback ended it."""
        return self.ended == "stopped"

    @property
    def sentence(self) -> str:
        """Why the run ended."""
        return ENDED[self.ended]
