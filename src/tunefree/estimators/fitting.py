"""How a fit runs: alone, all or nothing, with callbacks.

If a fit fails, attributes stay as they were.

A fit (or a chunk of a stream) holds its estimator's lock. Meanwhile other threads predict from the
attributes as they were before it. If these have yet to be read out of the learner, they wait for
the lock. A prediction during which a fit begins or ends is repeated. Saving, pickling and copying
wait for the lock.

Callbacks of scikit-learn (1.9 and later) get the events of a fit. The fit is a task. Its passes, or
the candidates that it evaluates, are the tasks below it. After each a callback may see the model as
it would be if the fit had ended there, and may end it. Older scikit-learn has no callbacks:
estimators then have no `set_callbacks`, and nothing else changes.
"""

import copy
import functools
import inspect
import os
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tunefree._format import duration, number
from tunefree._parameters import check_values, restored_on_error
from tunefree._process import interruptible, one_blas_thread
from tunefree.designs import (
    with_sorted_indices,
)
from tunefree.engine.run import run
from tunefree.estimators.state_checks import require
from tunefree.select.held_out import weighted_mean

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:
    if not TYPE_CHECKING:
        CallbackSupportMixin = object

        def with_callbacks(method):
            """The method itself."""
            return method


_PREDICTS = (
    "predict", "predict_proba", "predict_log_proba", "decision_function", "predict_interval",
    "predict_set",
)  # fmt: skip
# Methods that read fitted attributes.
_READS = (
    *_PREDICTS, "predict_venn_abers", "predict_one", "predict_proba_one", "predict_set_one",
    "predict_interval_one",
)  # fmt: skip
# Methods that change a learner, row by row or chunk by chunk.
_UPDATES = ("learn_one", "partial_fit")
# Most tasks below a fit. Of more passes several are one task: scikit-learn's progress bar adds up
# all finished tasks at the end of each.
_MOST_TASKS = 1000


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


class Threaded:
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
        """The context in which `tunefree.io.model` saves the estimator."""
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


class NoProgress:
    """A fit without callbacks."""

    stopped = False  # whether a callback has asked to end the fit

    def passes(self, most, publish=None):
        """No callbacks for `engine.run.run`."""
        return {}

    def expect(self, most):
        """Do nothing."""

    def begin(self, name):
        """Do nothing."""

    def evaluated(self, entry, weights):
        """Do nothing; gets the `Entry` of a candidate, and the rows' weights."""

    def end(self, publish=None):
        """Whether to stop: never."""
        return False


class Progress(NoProgress):
    """A fit with callbacks, which get `X`, `y` and `metadata` as given to `fit`."""

    def __init__(self, estimator, arguments):
        self.estimator, self.arguments = estimator, {"estimator": estimator, **arguments}
        self.root: Any = None
        self.task: Any = None

    def expect(self, most):
        """Begin the fit, with at most `most` tasks."""
        if self.root is None:
            self.root = self.estimator._init_callback_context(max_subtasks=most)
            self.root.call_on_fit_task_begin(**self.arguments)

    def begin(self, name):
        """Begin a task."""
        self.task = self.root.subcontext(task_name=name)
        self.task.call_on_fit_task_begin(**self.arguments)

    def end(self, publish: Any = None):
        """End the task; `publish(model)` sets what is fitted on a copy of the estimator."""

        def attributes():
            model = copy.copy(self.estimator)
            publish(model)
            return vars(model)

        task, self.task = self.task, None
        self.stopped |= task.call_on_fit_task_end(
            **self.arguments, reconstruction_attributes=None if publish is None else attributes
        )
        return self.stopped

    def passes(self, most, publish: Any = None):
        """Callbacks for `engine.run.run`, around each of at most `most` passes."""
        passes_per_task, n_made = -(-most // _MOST_TASKS), 0
        self.expect(-(-most // passes_per_task))

        def before_pass():
            if self.task is None:
                self.begin("pass")

        def on_pass(state):
            nonlocal n_made
            n_made += 1
            if n_made % passes_per_task:
                return False
            return self.end(publish and (lambda model: publish(model, state)))

        return {"before_pass": before_pass, "on_pass": on_pass}

    def close(self):
        """End the fit: the estimator is fitted."""
        if self.task is not None:
            self.end()
        self.expect(0)
        self.root.call_on_fit_task_end(**self.arguments, reconstruction_attributes={})


def _to_stderr(line):
    print(line, file=sys.stderr, flush=True)


class PrintedProgress(NoProgress):
    """Prints the events of a fit, and passes them on to its callbacks.

    It prints every candidate; of passes, and of other tasks of one name, each time their number has
    doubled.
    """

    def __init__(self, name, callbacks, write=_to_stderr):
        self.name, self.callbacks, self.write = name, callbacks, write
        self.start, self.best, self.counts = time.perf_counter(), None, Counter()
        self.task: Any = None

    @property
    def stopped(self):
        """Whether a callback has asked to end the fit."""
        return self.callbacks.stopped

    def _count(self, name, of=""):
        """Print a task of a name, if their number has doubled."""
        self.counts[name] += 1
        count = self.counts[name]
        if count & (count - 1) == 0:
            self.line(f"{name} {count}{of}")

    def line(self, words):
        """Print words, and the seconds since the start."""
        self.write(f"{self.name}: {words}; {duration(time.perf_counter() - self.start)}")

    def passes(self, most, publish=None):
        """Callbacks for `engine.run.run`."""
        calls = self.callbacks.passes(most, publish)

        def on_pass(state):
            self._count("pass", f" of at most {most}")
            return "on_pass" in calls and calls["on_pass"](state)

        return calls | {"on_pass": on_pass}

    def expect(self, most):
        """Begin the fit, with at most `most` tasks."""
        self.callbacks.expect(most)

    def begin(self, name):
        """Begin a task."""
        self.task = name
        self.callbacks.begin(name)

    def evaluated(self, entry, weights):
        """Print the held-out loss of a candidate."""
        self.callbacks.evaluated(entry, weights)
        self.task, name = None, entry.candidate.name
        if not len(entry.losses):
            self.line(f"{name}: {entry.status}")
            return
        risk = weighted_mean(entry.proper_losses, weights[entry.rows])[0]
        self.best = risk if self.best is None else min(self.best, risk)
        self.line(f"{name}: held-out loss {number(risk)}, best {number(self.best)}")

    def end(self, publish=None):
        """Print a task that is no candidate, and end it; whether to stop."""
        if self.task is not None:
            self._count(self.task)
        return self.callbacks.end(publish)


class CallbackSupport(Threaded, CallbackSupportMixin):
    """An estimator whose `fit` has the decorator `report_progress`, and reports to `_progress`."""

    @property
    def _progress(self):
        return vars(self).get("_active_progress", NO_PROGRESS)

    def _after_fit(self, X, y, sample_weight):
        """Do nothing; a subclass may add something to a fit."""


NO_PROGRESS = NoProgress()


def _weights_of_classes(estimator, y, sample_weight):
    """The rows' weights, 0 for classes of no weight: a fit ignores such rows."""
    class_weight = getattr(estimator, "class_weight", None)
    if not isinstance(class_weight, Mapping) or np.ndim(y) != 1:
        return sample_weight
    ignored = [label for label, weight in class_weight.items() if weight == 0]
    if not ignored:
        return sample_weight
    labels = np.asarray(y)
    has_weight = ~np.isin(labels, ignored)
    if len(np.unique(labels[has_weight])) < 2:
        raise ValueError(
            f"class_weight={class_weight!r} leaves rows of one class at most: a classifier needs "
            "two classes of positive weight."
        )
    if sample_weight is None:
        return has_weight.astype(np.float64)
    return np.where(has_weight, np.asarray(sample_weight, dtype=np.float64), 0.0)


def report_progress(fit):
    """Make `fit` report its progress to callbacks and on stderr, and change nothing if it fails."""
    signature = inspect.signature(fit)

    @with_callbacks
    def with_reports(self, arguments, *args, **kwargs):
        weights = arguments.get("sample_weight")
        metadata = None if weights is None else {"sample_weight": weights}
        given = {"X": arguments["X"], "y": arguments.get("y"), "metadata": metadata}
        progress = Progress(self, given)
        reported(self, progress, *args, **kwargs)
        progress.close()
        return self

    def reported(self, progress, *args, **kwargs):
        verbose = getattr(self, "verbose", False)
        self._active_progress = (
            PrintedProgress(type(self).__name__, progress) if verbose else progress
        )
        try:
            fit(self, *args, **kwargs)
            if verbose:
                self._active_progress.line("fitted")
        finally:
            del self._active_progress

    @functools.wraps(fit)
    def guarded(self, *args, **kwargs):
        bound = signature.bind(self, *args, **kwargs)
        arguments = bound.arguments
        arguments["X"] = with_sorted_indices(arguments["X"])  # once: rows are checked again below
        weights = _weights_of_classes(self, arguments.get("y"), arguments.get("sample_weight"))
        if weights is not None:
            arguments["sample_weight"] = weights
        args, kwargs = bound.args[1:], bound.kwargs
        with rollback_on_error(self):
            if getattr(self, "_skl_callbacks", None):
                with_reports(self, arguments, *args, **kwargs)
            elif getattr(self, "verbose", False):
                reported(self, NO_PROGRESS, *args, **kwargs)
            else:
                fit(self, *args, **kwargs)
            self._after_fit(arguments["X"], arguments.get("y"), arguments.get("sample_weight"))
        return self

    return guarded


def runner(estimator):
    """The function for an estimator's runs: `engine.run.run`, or one that a checkpoint saves."""
    log = vars(estimator).get("_run_log")
    return run if log is None else log.run


def fitted_names(estimator):
    """The names of what an estimator has learned."""
    return [n for n in vars(estimator) if n.endswith("_") and not n.startswith("_")]


def forget_fit(estimator):
    """Delete what an earlier fit has learned."""
    for name in fitted_names(estimator):
        delattr(estimator, name)


class ReadOnDemand(Threaded):
    """Fitted attributes that are read out of a stream's learner when they are first used.

    Reading coefficients costs O(d), too much for every small chunk.
    """

    _ON_DEMAND = ()
    # Abstract: sets the attributes named in `_ON_DEMAND`.
    _read_stream: Callable
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
        return {name: vars(self)[name] for name in sorted(fitted_names(self))}

    def _reads_on_demand(self, attributes):
        return attributes.get("_stream") is not None and not set(self._ON_DEMAND) <= set(attributes)

    def _check_learner(self):
        """Refuse an inconsistent learner from a model file; without an own check, any."""
        require(not any(vars(self).get(name) is not None for name in ("_stream", "_run")))

    def _forget_read(self):
        for name in self._ON_DEMAND:
            self.__dict__.pop(name, None)
