"""Fits and predictions on arrays of any namespace (the array API)."""

import functools
import inspect
from typing import Any

from sklearn._config import get_config
from sklearn.utils._available_if import _AvailableIfDescriptor
from sklearn.utils.metaestimators import available_if

from tunefree._array import Elsewhere, entered, here, is_foreign, space_of

# Methods that take arrays of any namespace.
_METHODS = (
    "fit", "score", "predict", "predict_proba", "predict_log_proba", "decision_function",
    "predict_interval", "predict_set", "predict_quantiles",
)  # fmt: skip


def _wrapped(name, method):
    """A method for arrays of any namespace."""

    @functools.wraps(method)
    def dispatched(self, X, *args, **kwargs):
        if not get_config().get("array_api_dispatch"):
            return method(self, X, *args, **kwargs)
        space = space_of(X)
        attributes = {} if name == "fit" else vars(self)
        foreign = [a for a in attributes.values() if is_foreign(a)]
        if foreign and (space is None or space_of(foreign[0]) != space):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{name}() must use the same namespace and "
                "the same device as those passed to fit()."
            )
        if space is None:
            return method(self, X, *args, **kwargs)
        args = [here(a) for a in args]
        kwargs = {key: here(a) for key, a in kwargs.items()}
        with entered(space):
            if name == "fit":
                method(self, here(X), *args, **kwargs)
                on_device = {k: space.put(a) for k, a in vars(self).items() if k != "classes_"}
                vars(self).update(on_device)
                return self
            on_host = object.__new__(type(self))
            vars(on_host).update({key: here(a) for key, a in vars(self).items()})
            answer = method(on_host, Elsewhere(X, space), *args, **kwargs)
        return tuple(map(space.put, answer)) if isinstance(answer, tuple) else space.put(answer)

    vars(dispatched)["_anywhere"] = True
    return dispatched


class TakesArrays:
    """An estimator whose fits and predictions take arrays of any namespace."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in _METHODS:
            method: Any = inspect.getattr_static(cls, name, None)
            if isinstance(method, _AvailableIfDescriptor):
                if not hasattr(method.fn, "_anywhere"):
                    setattr(cls, name, available_if(method.check)(_wrapped(name, method.fn)))
            elif inspect.isfunction(method) and not (
                hasattr(method, "_anywhere") or method.__module__.startswith("sklearn.")
            ):  # scikit-learn's own scores dispatch themselves
                setattr(cls, name, _wrapped(name, method))

    def __sklearn_tags__(self):
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.array_api_support = True
        return tags
