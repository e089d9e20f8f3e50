"""What an estimator tells scikit-learn's callbacks while it fits (scikit-learn 1.9 and later).

A fit is a task. The passes in it, or the candidates that it judges, are the tasks below it; after
each a callback may see the model as it would be if the fit had ended there, and may end it. Older
scikit-learn has no callbacks: estimators then have no `set_callbacks`, and nothing else changes.
"""

import copy
import functools
import inspect
from typing import TYPE_CHECKING, Any

from tunefree.estimators.base import unharmed

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:
    if not TYPE_CHECKING:
        CallbackSupportMixin = object

        def with_callbacks(method):
            """The method itself."""
            return method


# Tasks below a fit: of more passes several make up one, since the stock progress bar adds up all
# finished tasks at the end of each.
_MOST = 1000


class Silent:
    """A fit that nobody follows."""

    stopped = False

    def passes(self, most, publish=None):
        """Nothing for `engine.run.run` to call."""
        return {}

    def expect(self, most):
        """Nothing."""

    def begin(self, name):
        """Nothing."""

    def end(self, publish=None):
        """Never stops."""
        return False


class Told(Silent):
    """A fit that callbacks follow.

    Parameters
    ----------
    estimator : estimator
    shown : dict
        `X`, `y` and `metadata`, as given to `fit`.

    Attributes
    ----------
    stopped : bool
        Whether a callback has asked to end the fit.
    """

    def __init__(self, estimator, shown):
        self.estimator, self.shown = estimator, {"estimator": estimator, **shown}
        self.root: Any = None
        self.task: Any = None

    def expect(self, most):
        """Begin the fit; it has at most so many tasks."""
        if self.root is None:
            self.root = self.estimator._init_callback_context(max_subtasks=most)
            self.root.call_on_fit_task_begin(**self.shown)

    def begin(self, name):
        """Begin a task."""
        self.task = self.root.subcontext(task_name=name)
        self.task.call_on_fit_task_begin(**self.shown)

    def end(self, publish: Any = None):
        """End the task; `publish(model)` sets what is fitted on a copy of the estimator.

        Returns
        -------
        bool
            Whether to stop.
        """

        def attributes():
            model = copy.copy(self.estimator)
            publish(model)
            return vars(model)

        task, self.task = self.task, None
        self.stopped |= task.call_on_fit_task_end(
            **self.shown, reconstruction_attributes=None if publish is None else attributes
        )
        return self.stopped

    def passes(self, most, publish: Any = None):
        """What `engine.run.run` calls around each of at most so many passes.

        Parameters
        ----------
        most : int
        publish : callable, optional
            (model, state) -> None sets what is fitted.
        """
        size, made = -(-most // _MOST), 0
        self.expect(-(-most // size))

        def before_pass():
            if self.task is None:
                self.begin("pass")

        def on_pass(state):
            nonlocal made
            made += 1
            if made % size:
                return False
            return self.end(publish and (lambda model: publish(model, state)))

        return {"before_pass": before_pass, "on_pass": on_pass}

    def close(self):
        """End the fit: the estimator is fitted."""
        if self.task is not None:
            self.end()
        self.expect(0)
        self.root.call_on_fit_task_end(**self.shown, reconstruction_attributes={})


class TellsCallbacks(CallbackSupportMixin):
    """An estimator whose `fit` is decorated with `told`, and tells of its tasks by `_told`."""

    @property
    def _told(self):
        return vars(self).get("_telling", _SILENT)


_SILENT = Silent()


def told(fit):
    """Make `fit` tell callbacks of its beginning and its end, and do all of its work or nothing."""
    named = inspect.signature(fit)

    @with_callbacks
    def aloud(self, given, *args, **kwargs):
        weights = given.get("sample_weight")
        metadata = None if weights is None else {"sample_weight": weights}
        telling = Told(self, {"X": given["X"], "y": given.get("y"), "metadata": metadata})
        self._telling = telling
        try:
            fit(self, *args, **kwargs)
        finally:
            del self._telling
        telling.close()
        return self

    @functools.wraps(fit)
    def guarded(self, *args, **kwargs):
        with unharmed(self):
            if not getattr(self, "_skl_callbacks", None):
                return fit(self, *args, **kwargs)
            return aloud(self, named.bind(self, *args, **kwargs).arguments, *args, **kwargs)

    return guarded
