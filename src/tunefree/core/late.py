"""Libraries that are imported at their first use, so that a command starts soon.

scikit-learn and this package name `scipy.stats`, whose import takes a third of the start of a
prediction, which never uses it.
"""

import sys
import threading
from importlib import util
from types import ModuleType
from typing import Any

# What takes long and is rarely used.
_LATE = (
    "scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.spatial", "scipy.cluster",
)  # fmt: skip
_LOCK = threading.RLock()


class _LateModule(ModuleType):
    """A module that is imported when an attribute of it is read."""

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            if type(self) is _LateModule:
                found: Any = self
                found.__class__ = ModuleType
                spec: Any = self.__spec__
                found.__path__ = spec.submodule_search_locations
                spec.loader.exec_module(self)
        return getattr(self, name)


def import_late():
    """Import some modules at their first use; one that is already imported stays as it is.

    >>> import_late()
    >>> from scipy import stats
    >>> round(float(stats.norm.cdf(0.0)), 3)
    0.5
    """
    for name in _LATE:
        if name in sys.modules:
            continue
        spec = util.find_spec(name)
        if spec is None or spec.loader is None:
            continue
        module = util.module_from_spec(spec)
        # Whoever imports a module within this one reads this path first, and so imports this one.
        del module.__path__
        module.__class__ = _LateModule
        sys.modules[name] = module
