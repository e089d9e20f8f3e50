"""Fitted attributes: which there are, how a fit forgets them, and those read on demand."""

from abc import ABC, abstractmethod

from tunefree.base.locks import Threaded, alone
from tunefree.base.saved import fitted_names
from tunefree.base.state_checks import require
from tunefree.core.process import one_blas_thread


def forget_fit(estimator):
    """Delete what an earlier fit has learned."""
    for name in fitted_names(estimator):
        delattr(estimator, name)


class ReadOnDemand(Threaded, ABC):
    """Fitted attributes that are read out of a stream's learner when they are first used.

    Reading coefficients costs O(d), too much for every small chunk.
    """

    _ON_DEMAND = ()
    _LEARNER = ("_run", "_stream", "_path", "_dtype", "_flat")

    @abstractmethod
    def _read_stream(self) -> None:
        """Set the attributes that are named in `_ON_DEMAND`."""

    def __getattr__(self, name):
        if name in type(self)._ON_DEMAND and self.__dict__.get("_stream") is not None:
            with alone(self), one_blas_thread():
                if name not in self.__dict__:  # no other thread has read it meanwhile
                    self._read_stream()
                return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _model_state(self):
        """The fitted attributes of the predictor, as a model file stores them."""
        if self._reads_on_demand(vars(self)):
            with alone(self), one_blas_thread():
                self._read_stream()
        return {name: vars(self)[name] for name in sorted(fitted_names(self))}

    def _reads_on_demand(self, attributes):
        return attributes.get("_stream") is not None and not set(self._ON_DEMAND) <= set(attributes)

    def _check_learner(self):
        """Refuse an inconsistent learner from a model file; without an own check, any."""
        require(not any(vars(self).get(name) is not None for name in ("_stream", "_run")))

    def _forget_read(self):
        for name in self._ON_DEMAND:
            vars(self).pop(name, None)
