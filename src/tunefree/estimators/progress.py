"""Callbacks of scikit-learn (1.9 and later), which get the events of a fit.

The fit is a task. Its passes, or the candidates that it evaluates, are the tasks below it. After
each a callback may see the model as it would be if the fit had ended there, and may end it. Older
scikit-learn has no callbacks: estimators then have no `set_callbacks`, and nothing else changes.
"""

import copy
import functools
import inspect
from typing import TYPE_CHECKING, Any

from tunefree.engine.run import run
from tunefree.estimators.base import rollback_on_error
from tunefree.estimators.locking import Threaded

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
        """Do nothing; gets a candidate of `tunefree.select.candidates` and the rows' weights."""

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


class CallbackSupport(Threaded, CallbackSupportMixin):
    """An estimator whose `fit` has the decorator `report_progress`, and reports to `_progress`."""

    @property
    def _progress(self):
        return vars(self).get("_active_progress", _NO_PROGRESS)

    def _after_fit(self, X, y, sample_weight):
        """Do nothing; a subclass may add something to a fit."""


_NO_PROGRESS = NoProgress()


def report_progress(fit):
    """Make `fit` report its beginning and end to callbacks, and change nothing if it fails."""
    signature = inspect.signature(fit)

    @with_callbacks
    def with_reports(self, arguments, *args, **kwargs):
        weights = arguments.get("sample_weight")
        metadata = None if weights is None else {"sample_weight": weights}
        progress = Progress(
            self, {"X": arguments["X"], "y": arguments.get("y"), "metadata": metadata}
        )
        self._active_progress = progress
        try:
            fit(self, *args, **kwargs)
        finally:
            del self._active_progress
        progress.close()
        return self

    @functools.wraps(fit)
    def guarded(self, *args, **kwargs):
        arguments = signature.bind(self, *args, **kwargs).arguments
        with rollback_on_error(self):
            if getattr(self, "_skl_callbacks", None):
                with_reports(self, arguments, *args, **kwargs)
            else:
                fit(self, *args, **kwargs)
            if "y" in arguments:
                self._after_fit(arguments["X"], arguments["y"], arguments.get("sample_weight"))
        return self

    return guarded


def runner(estimator):
    """The function for an estimator's runs: `engine.run.run`, or one that a checkpoint saves."""
    log = vars(estimator).get("_run_log")
    return run if log is None else log.run
