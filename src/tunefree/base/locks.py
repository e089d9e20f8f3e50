"""A fit is alone, and all or nothing.

If a fit fails, attributes stay as they were.

A fit (or a chunk of a stream) holds its estimator's lock. Meanwhile other threads predict from the
attributes as they were before it. If these have yet to be read out of the learner, they wait for
the lock. A prediction during which a fit begins or ends is repeated. Saving, pickling and copying
wait for the lock.
"""

import copy
import functools
import os
import threading
import weakref
from contextlib import contextmanager
from typing import Any

from tunefree.base.saved import KeepsState
from tunefree.core.parameters import check_values, restored_on_error
from tunefree.core.process import interruptible, one_blas_thread

_PREDICTS = (
    "predict", "predict_proba", "predict_log_proba", "decision_function", "predict_interval",
    "predict_set",
)  # fmt: skip
# Methods that read fitted attributes.
_READS = (
    *_PREDICTS, "predict_venn_abers", "predict_one", "predict_proba_one", "predict_set_one",
    "predict_interval_one", "predict_mean_interval",
)  # fmt: skip
# Methods that change a learner, row by row or chunk by chunk.
_UPDATES = ("learn_one", "partial_fit")


class _Access:
    """An estimator's lock, the thread that fits it, and its attributes before that fit."""

    def __init__(self):
        self.lock, self.version = threading.RLock(), 0
        self.owner: Any = None
        self.before: Any = None


_accesses: Any = weakref.WeakKeyDictionary()
_creating = threading.Lock()


def _access(estimator):
    access = _accesses.get(estimator)
    if access is None:
        with _creating:
            access = _accesses.setdefault(estimator, _Access())
    return access


if hasattr(os, "register_at_fork"):  # the child has no other thread that could release a lock
    os.register_at_fork(after_in_child=_accesses.clear)


@contextmanager
def alone(estimator):
    """Inside, no other thread fits the estimator or reads attributes out of its learner."""
    with _access(estimator).lock:
        yield


@contextmanager
def locked(estimator):
    """`alone`; meanwhile other threads predict from the attributes as they are now."""
    access = _access(estimator)
    with access.lock:
        if access.owner is not None:  # a fit within a fit
            yield
            return
        access.before = vars(estimator).copy()
        access.version += 1
        access.owner = threading.get_ident()
        try:
            yield
        finally:
            access.owner = access.before = None
            access.version += 1


def _consistent(method):
    """A method that sees one complete state, whatever other threads do to its estimator."""

    @functools.wraps(method)
    def read(self, *args, **kwargs):
        access = _access(self)
        if access.owner == threading.get_ident():
            return method(self, *args, **kwargs)
        for _ in range(2):
            version, before = access.version, access.before
            if before is not None:
                if not self._reads_on_demand(before):
                    earlier = object.__new__(type(self))
                    vars(earlier).update(before)
                    return method(earlier, *args, **kwargs)
                break
            try:
                answer = method(self, *args, **kwargs)
            except Exception:
                if access.version == version:
                    raise
            else:
                if access.version == version:
                    return answer
        with access.lock:
            return method(self, *args, **kwargs)

    return read


def _waiting(method, updates=False):
    """A method that waits for the lock; `updates`: predictions made meanwhile are repeated."""

    @functools.wraps(method)
    def waited(self, *args, **kwargs):
        access = _access(self)
        with access.lock:
            access.version += updates
            try:
                return method(self, *args, **kwargs)
            finally:
                access.version += updates

    return waited


class Threaded(KeepsState):
    """An estimator that several threads may use: its methods of `_READS` see complete states.

    A subclass whose learner is read while it learns sets `_ONE_BY_ONE`: all methods wait.
    """

    _ONE_BY_ONE = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name, method in list(vars(cls).items()):
            if callable(method) and name in _UPDATES:
                setattr(cls, name, _waiting(method, updates=True))
            elif callable(method) and name in _READS:
                setattr(cls, name, (_waiting if cls._ONE_BY_ONE else _consistent)(method))

    def __getstate__(self):
        """The state between two fits or chunks; a copy if later chunks would change it."""
        estimator: Any = self
        with alone(self):
            state: Any = super().__getstate__()
            if not hasattr(self, "partial_fit"):
                return state.copy()
            parameters = estimator.get_params(deep=False)
            learned = {k: v for k, v in state.items() if k not in parameters}
            return state | copy.deepcopy(learned, {id(self): self})

    def _alone(self):
        """The context in which `tunefree.files.model` saves the estimator."""
        return alone(self)

    def __copy__(self):
        """A shallow copy, which shares its learner."""
        other = object.__new__(type(self))
        with alone(self):
            vars(other).update(vars(self))
        return other

    def _reads_on_demand(self, attributes):
        """Whether some fitted attributes are yet to be read out of the learner."""
        return False


@contextmanager
def rollback_on_error(estimator):
    """Restore the estimator's attributes if the body raises.

    Inside, BLAS uses one thread, and no other thread fits the estimator.
    """
    check_values(estimator)
    with locked(estimator), restored_on_error(estimator), interruptible(), one_blas_thread():
        yield


def all_or_nothing(method):
    """Make a method restore the estimator's attributes if it raises."""

    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        with rollback_on_error(self):
            return method(self, *args, **kwargs)

    return guarded
