"""`help()` shows signatures as a person writes them."""

import inspect

import pytest

import tunefree
import tunefree.dask
from tunefree.core.registry import ESTIMATORS, estimator_class

PUBLIC = {name: getattr(tunefree, name) for name in tunefree.__all__ if not name.startswith("__")}
PUBLIC |= {f"dask.{name}": getattr(tunefree.dask, name) for name in tunefree.dask.__all__}
PUBLIC |= {f"plots.{name}": getattr(tunefree.plots, name) for name in tunefree.plots.__all__}
PUBLIC |= {name: estimator_class(name) for name in ESTIMATORS}
# What an alias looks like once Python has written it out.
WRITTEN_OUT = ("Union[", "numpy._typing", "numpy.random", "tunefree.", "collections.abc.")


def _functions(public):
    """The public functions under a name that the library defines itself."""
    if not inspect.isclass(public):
        yield public
        return
    for name, value in inspect.getmembers(public, inspect.isroutine):
        made = name.startswith("set_") and name.endswith("_request")  # by scikit-learn
        ours = str(getattr(inspect.unwrap(value), "__module__", "")).startswith("tunefree")
        if ours and not made and not name.startswith("_"):
            yield value
    yield public.__init__


@pytest.mark.parametrize("name", PUBLIC)
def test_signatures_name_their_types(name):
    signatures = []
    for function in filter(inspect.isfunction, _functions(PUBLIC[name])):
        signatures.append(f"{function.__qualname__}{inspect.signature(function)}")
    assert [s for s in signatures for text in WRITTEN_OUT if text in s] == []
