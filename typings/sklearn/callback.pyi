"""What estimators take from the callbacks of scikit-learn 1.9."""

from typing import Any, Self, TypeVar

_M = TypeVar("_M")

class CallbackSupportMixin:
    def set_callbacks(self, *callbacks: Any) -> Self: ...
    def _init_callback_context(self, *, max_subtasks: int | None = None) -> Any: ...

def with_callbacks(method: _M) -> _M: ...
