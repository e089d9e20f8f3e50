"""The interfaces of the library's pieces.

A *part* is a small frozen object of parameters with methods in plain NumPy. The methods that every
part of a kind has are here; optional ones are documented at its table (`tunefree.core.parts`). A
*learner* turns blocks of rows into a state, a *source* yields the blocks, and
`tunefree.engine.run.run` feeds the blocks to the learner.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

# Rows, of shape (n_samples, n_features), and targets from users: arrays, lists, SciPy matrices,
# data frames and series, arrays of other libraries. No union covers them all.
MatrixLike = Any
TargetLike = Any
Rows = Any  # rows of a learner: an array or a CSR matrix
Numbers = float | np.ndarray  # one number or an array of any shape; the result has that shape
Seed = int | np.random.RandomState | np.random.Generator | None  # scikit-learn's random_state

# The names of choices; another part is given as an object.
Auto = Literal["auto"]
FamilyOfNumbers = Literal[
    "gaussian",
    "normal",
    "poisson",
    "negative_binomial",
    "negativebinomial",
    "negative.binomial",
    "gamma",
    "tweedie",
    "binomial",
    "bernoulli",
    "inverse_gaussian",
    "inverse.gaussian",
    "inversegaussian",
    "huber",
    "quantile",
]
FamilyOfClasses = Literal["matching", "binomial", "bernoulli", "multinomial", "ordinal"]
LinkName = Literal[
    "identity",
    "logit",
    "probit",
    "cloglog",
    "tanh",
    "softplus",
    "relu",
    "leaky_relu",
    "clipped_identity",
    "exp",
    "log",
]
LossOfClasses = Literal[
    "smoothed_hinge", "hinge", "squared_hinge", "log_loss", "multinomial", "squared_error"
]
LossOfNumbers = Literal[
    "squared_error", "huber", "absolute_error", "quantile", "epsilon_insensitive"
]
PotentialName = Literal[
    "euclidean",
    "p_norm",
    "log_norm",
    "hypentropy",
    "entropy",
    "power",
    "spectral",
    "whitened",
    "grouped",
]
KernelName = Literal["rbf", "laplacian", "polynomial", "linear", "cosine"]
AverageName = Literal["uniform", "polynomial", "geometric", "last", "tail"]

State = Any  # a NamedTuple of arrays and numbers: saving it saves the run


class Model(Protocol):
    """A fitted estimator of any class; what only some classes have is not typed."""

    n_features_in_: int

    def fit(self, X: MatrixLike, y: TargetLike, *args: Any, **options: Any) -> Self:
        """Learn from rows."""
        ...

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The predictions for rows."""
        ...

    def score(self, X: MatrixLike, y: TargetLike) -> float:
        """The score on rows."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        ...

    def __getattr__(self, name: str) -> Any: ...


class SavedState(NamedTuple):
    """What a model file holds of an estimator: values by name, of the kinds that files know."""

    parameters: dict[str, Any]
    fitted: dict[str, Any]  # the attributes of the predictor
    learner: dict[str, Any]  # the attributes from which it continues to learn; may be empty


class Saved(Protocol):
    """All that a model file needs of an estimator (`tunefree.base.saved` has it for most)."""

    def _saved_state(self, learner: bool) -> SavedState:
        """The state; without `learner` that of the predictor only."""
        ...

    @classmethod
    def _from_saved_state(cls, state: SavedState) -> Self:
        """The estimator again; a ValueError if the state, perhaps of a forged file, is wrong."""
        ...

    def _alone(self) -> AbstractContextManager:
        """The context in which no other thread changes the estimator."""
        ...


class Loss(Protocol):
    """A loss of a prediction p for a label or target y, both numbers."""

    def value(self, p: float, y: float) -> float:
        """Loss of predicting p for y."""
        ...

    def slope(self, p: float, y: float) -> float:
        """Derivative in p."""
        ...

    def bound(self) -> float:
        """Largest absolute slope."""
        ...


class Link(Protocol):
    """The mean of a generalized linear model."""

    def mean(self, s: Any) -> Any:
        """u(s)."""
        ...


class Average(Protocol):
    """A scheme that weighs the iterates of a run."""

    def mass(self, start: Any, stop: Any) -> Any:
        """Total weight of the iterates start..stop-1."""
        ...


class AverageWithin(Protocol):
    """A scheme that depends on the length of the run."""

    def within(self, n: int) -> Average:
        """The scheme for a run of n iterates."""
        ...


class Kernel(Protocol):
    """Inner products of rows in a feature space."""

    def gram(self, A: Rows, B: Rows) -> np.ndarray:
        """Values of all pairs of rows, shape (n, m)."""
        ...

    def diag(self, A: Rows) -> np.ndarray:
        """Values of every row with itself."""
        ...


@runtime_checkable
class Learner(Protocol):
    """The methods of a learner that `run` calls.

    ``scan(state, block)`` adds a block; ``turn(state) -> (state, done)`` ends a pass.
    ``init`` (its own arguments) makes the first state.
    """

    def scan(self, state: State, block: Any, /) -> State:
        """Add a block."""
        ...

    def turn(self, state: State, /) -> tuple[State, bool]:
        """End a pass; `done` is whether the learner has converged."""
        ...


@runtime_checkable
class Observed(Learner, Protocol):
    """A learner with diagnostics of each pass, which become the run's trace."""

    def observe(self, state: State, /) -> Any:
        """The diagnostics of a pass."""
        ...


class BlockSource(Protocol):
    """Where blocks of rows come from: an array, a file or a pipe."""

    def blocks(self, epoch: int) -> Iterator[Any]:
        """The blocks of a pass, in the order of learning."""
        ...


@runtime_checkable
class Remote(Protocol):
    """A source whose blocks lie on other machines, and are scanned there."""

    def sweep(self, learner: Learner, state: State, epoch: int, on_block=None) -> State:
        """The state after a pass over all blocks."""
        ...


class Result(NamedTuple):
    """The result of a run."""

    state: State  # the learner's last state
    n_passes: int  # passes over the source
    ended: str  # by "converged", "stopped" (by a callback), or "passes" (the most allowed)
    trace: list  # the learner's diagnostics of each pass; may be empty

    @property
    def converged(self) -> bool:
        """Whether the learner ended the run."""
        return self.ended == "converged"

    @property
    def stopped(self) -> bool:
        """Whether a callback ended the run."""
        return self.ended == "stopped"
