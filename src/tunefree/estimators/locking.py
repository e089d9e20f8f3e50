"""One estimator, several threads: fits take turns, predictions answer from the last whole state.

A fit (or a chunk of a stream) holds its estimator's lock. What other threads ask meanwhile is
answered from the attributes as they were before it, or, where these have yet to be read out of
the learner that is at work, after it. An answer during which a fit begins or ends is given again.
Saving, pickling and copying wait until the fit or the chunk is over, and take the whole state.
"""

import copy
import functools
import os
import threading
import weakref
from contextlib import contextmanager
from typing import Any

# What reads fitted attributes.
_ANSWERS = (
    "predict", "predict_proba", "predict_log_proba", "predict_interval", "predict_set",
    "predict_quantiles", "predict_one", "predict_proba_one", "predict_set_one",
    "predict_interval_one", "decision_function", "transform", "scores",
)  # fmt: skip
# What changes a learner, row by row or chunk by chunk.
_LEARNS = ("learn_one", "partial_fit")


class _Turn:
    """Whose turn it is with an estimator."""

    __slots__ = ("before", "lock", "owner", "version")

    def __init__(self):
        self.lock, self.owner, self.version = threading.RLock(), None, 0
        self.before: Any = None


_turns: Any = weakref.WeakKeyDictionary()
_making = threading.Lock()


def _turn(estimator):
    turn = _turns.get(estimator)
    if turn is None:
        with _making:
            turn = _turns.setdefault(estimator, _Turn())
    return turn


if hasattr(os, "register_at_fork"):  # the child has no other thread that could give a lock back
    os.register_at_fork(after_in_child=_turns.clear)


@contextmanager
def alone(estimator):
    """Within it no other thread fits the estimator, or reads what is not yet read out."""
    with _turn(estimator).lock:
        yield


@contextmanager
def fitting(estimator):
    """`alone`, while other threads are answered from the attributes as they are now."""
    turn = _turn(estimator)
    with turn.lock:
        if turn.owner is not None:  # a fit within a fit
            yield
            return
        turn.before = vars(estimator).copy()
        turn.version += 1
        turn.owner = threading.get_ident()
        try:
            yield
        finally:
            turn.owner = turn.before = None
            turn.version += 1


def _answering(method):
    """A method that gives whole answers, whatever other threads do to its estimator."""

    @functools.wraps(method)
    def asked(self, *args, **kwargs):
        turn = _turn(self)
        if turn.owner == threading.get_ident():
            return method(self, *args, **kwargs)
        for _ in range(2):
            seen, before = turn.version, turn.before
            if before is not None:
                if not self._reads_on_demand(before):
                    whole = object.__new__(type(self))
                    vars(whole).update(before)
                    return method(whole, *args, **kwargs)
                break
            try:
                answer = method(self, *args, **kwargs)
            except Exception:
                if turn.version == seen:
                    raise
            else:
                if turn.version == seen:
                    return answer
        with turn.lock:
            return method(self, *args, **kwargs)

    return asked


def _in_turn(method):
    """A method that waits for its turn."""

    @functools.wraps(method)
    def waited(self, *args, **kwargs):
        with _turn(self).lock:
            return method(self, *args, **kwargs)

    return waited


def _learning(method):
    """A method that waits for its turn, and after which answers that it met are given again."""

    @functools.wraps(method)
    def waited(self, *args, **kwargs):
        turn = _turn(self)
        with turn.lock:
            turn.version += 1
            try:
                return method(self, *args, **kwargs)
            finally:
                turn.version += 1

    return waited


class Threaded:
    """An estimator that several threads may use: its methods of `_ANSWERS` give whole answers.

    A subclass whose learner is read while it learns says `_ONE_BY_ONE`: it answers in turn.
    """

    _ONE_BY_ONE = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name, method in list(vars(cls).items()):
            if callable(method) and name in _LEARNS:
                setattr(cls, name, _learning(method))
            elif callable(method) and name in _ANSWERS:
                setattr(cls, name, (_in_turn if cls._ONE_BY_ONE else _answering)(method))

    def __getstate__(self):
        """The state between two fits or chunks; it is a copy where later chunks would change it."""
        estimator: Any = self
        with alone(self):
            state: Any = super().__getstate__()
            if not hasattr(self, "partial_fit"):
                return state.copy()
            parameters = estimator.get_params(deep=False)
            learned = {k: v for k, v in state.items() if k not in parameters}
            return state | copy.deepcopy(learned, {id(self): self})

    def _alone(self):
        """What `tunefree.io.model` saves it in."""
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
