"""Callbacks and printed progress of a fit.

Callbacks of scikit-learn (1.9 and later) get the events of a fit. The fit is a task. Its passes, or
the candidates that it evaluates, are the tasks below it. After each a callback may see the model as
it would be if the fit had ended there, and may end it. Older scikit-learn has no callbacks:
estimators then have no `set_callbacks`, and nothing else changes.
"""

import copy
import functools
import inspect
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tunefree.base.locks import Threaded, rollback_on_error
from tunefree.core.format import duration, number
from tunefree.core.progress import clear, shown
from tunefree.engine.run import run
from tunefree.held_out.predictions import weighted_mean
from tunefree.rows.matrices import with_sorted_indices
from tunefree.rows.row_labels import warn_of_labels_of_fit

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:
    if not TYPE_CHECKING:
        CallbackSupportMixin = object

        def with_callbacks(method):
            """The method itself."""
            return method


# Most tasks below a fit. Of more passes several are one task: scikit-learn's progress bar adds up
# all finished tasks at the end of each.
_MOST_TASKS = 1000


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
    clear()
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

    def _take_columns(self, arguments):
        """Do nothing; a subclass may take columns of X that are no features."""

    def _look_at_labels(self, arguments):
        """Warn of labels of rows that are not those of X; a subclass may do so later."""
        warn_of_labels_of_fit(arguments)

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
        self._look_at_labels(bound.arguments)
        with rollback_on_error(self):
            self._take_columns(bound.arguments)
            with shown(type(self).__name__, on_stderr=bool(getattr(self, "verbose", False))):
                learn(self, bound)
        return self

    def learn(self, bound):
        arguments = bound.arguments
        arguments["X"] = with_sorted_indices(arguments["X"])  # once: rows are checked again below
        weights = _weights_of_classes(self, arguments.get("y"), arguments.get("sample_weight"))
        if weights is not None:
            arguments["sample_weight"] = weights
        args, kwargs = bound.args[1:], bound.kwargs
        if getattr(self, "_skl_callbacks", None):
            with_reports(self, arguments, *args, **kwargs)
        elif getattr(self, "verbose", False):
            reported(self, NO_PROGRESS, *args, **kwargs)
        else:
            fit(self, *args, **kwargs)
        self._after_fit(arguments["X"], arguments.get("y"), arguments.get("sample_weight"))

    return guarded


def runner(estimator):
    """The function for an estimator's runs: `engine.run.run`, or one that a checkpoint saves."""
    log = vars(estimator).get("_run_log")
    return run if log is None else log.run
