"""How a model file keeps an estimator: the protocol `tunefree.core.protocols.Saved`."""

from typing import Any, Self

from tunefree.core.protocols import SavedState


def fitted_names(estimator):
    """The names of what an estimator has learned."""
    return [n for n in vars(estimator) if n.endswith("_") and not n.startswith("_")]


class KeepsState:
    """An estimator with the protocol `Saved`; a subclass may override each step of it."""

    # Attributes from which `partial_fit` and `warm_start` continue.
    _LEARNER: tuple[str, ...] = ()
    # Parameters that only `fit` uses, such as splitters and callables: a file has none of these.
    _FOR_FIT: tuple[str, ...] = ()

    def _saved_state(self, learner: bool) -> SavedState:
        """Parameters and fitted attributes and, if wanted, the learner."""
        estimator: Any = self
        parameters = estimator.get_params(deep=False)
        for name in self._FOR_FIT:
            if not isinstance(parameters[name], int | str):
                parameters[name] = None
        fitted = self._model_state()
        known = vars(self)
        names = [name for name in self._LEARNER if learner and name in known]
        return SavedState(parameters, fitted, {name: known[name] for name in names})

    @classmethod
    def _from_saved_state(cls, state: SavedState) -> Self:
        """The estimator again; a ValueError if a file has an inconsistent state."""
        if not set(state.learner) <= set(cls._LEARNER):
            raise ValueError(f"{cls.__name__} has no such learner")
        estimator = cls(**state.parameters)
        vars(estimator).update(state.fitted)
        vars(estimator).update(state.learner)
        estimator._check_learner()
        return estimator

    def _model_state(self) -> dict[str, Any]:
        """The fitted attributes of the predictor."""
        return {name: vars(self)[name] for name in fitted_names(self)}

    def _check_learner(self) -> None:
        """Refuse a state by which compiled code would read beyond arrays; here there is none."""
