"""Fitted attributes that are read out of a stream's learner when they are first used."""

from tunefree._process import one_blas_thread
from tunefree.estimators.locking import Threaded, alone
from tunefree.estimators.state_checks import check_learner


class ReadOnDemand(Threaded):
    """Fitted attributes that are read out of a stream's learner when they are first used.

    Reading coefficients costs O(d), too much for every small chunk. The subclass has
    ``_read_stream()``, which sets the attributes named in ``_ON_DEMAND``.
    """

    _ON_DEMAND = ()
    # Saved in a model file, so that `partial_fit` and `warm_start` can continue.
    _LEARNER = ("_run", "_stream", "_path", "_dtype", "_flat")

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
        names = [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]
        return {name: vars(self)[name] for name in sorted(names)}

    def _reads_on_demand(self, attributes):
        return attributes.get("_stream") is not None and not set(self._ON_DEMAND) <= set(attributes)

    def _check_learner(self):
        """Refuse an inconsistent learner from a model file."""
        check_learner(self)

    def _forget_read(self):
        for name in self._ON_DEMAND:
            self.__dict__.pop(name, None)
