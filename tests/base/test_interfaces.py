"""What a base class asks of its subclasses is an abstract method, with a sentence."""

import ast
import inspect
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import tunefree
from tunefree.core.registry import estimator_classes

CLASSES = estimator_classes()
if find_spec("distributed"):
    from tunefree import dask

    CLASSES |= {name: getattr(dask, name) for name in dask.__all__}


def _abstract_classes():
    """The classes of the library that have abstract methods."""
    modules = [module for name, module in sys.modules.items() if name.startswith("tunefree.")]
    classes = {c for module in modules for c in vars(module).values() if isinstance(c, type)}
    ours = {cls for cls in classes if cls.__module__.startswith("tunefree.")}
    return [cls for cls in ours if getattr(cls, "__abstractmethods__", ())]


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_estimator_defines_what_its_bases_ask_for(name):
    cls = CLASSES[name]
    assert not getattr(cls, "__abstractmethods__", ())


def test_every_abstract_method_has_a_sentence():
    classes = _abstract_classes()
    assert classes
    for cls in classes:
        for name in cls.__abstractmethods__:
            text = inspect.getdoc(getattr(cls, name))
            assert text and text.endswith("."), f"{cls.__name__}.{name} has no sentence"


def _bare_callables():
    """Class, name and annotation of what a class calls without saying how."""
    package = Path(tunefree.__file__).parent
    for path in sorted(package.rglob("*.py")):
        text = path.read_text()
        if not re.search(r": Callable\b(?!\[)", text):  # parsing takes long
            continue
        for cls in ast.walk(ast.parse(text)):
            for line in cls.body if isinstance(cls, ast.ClassDef) else ():
                is_bare = isinstance(line, ast.AnnAssign) and line.value is None
                if is_bare and ast.unparse(line.annotation) == "Callable":
                    yield f"{path.relative_to(package)}: {cls.name}.{ast.unparse(line.target)}"


def test_what_a_class_calls_has_a_signature():
    """An abstract method, or in a record the types of arguments and result."""
    assert not list(_bare_callables())


def _parameters(method):
    """The names of a method's own parameters, and whether it takes any others."""
    parameters = inspect.signature(method).parameters.values()
    takes_any = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    return [p.name for p in parameters], takes_any


@pytest.mark.parametrize("name", CLASSES)
def test_an_implementation_has_the_parameters_of_the_abstract_method(name):
    cls = CLASSES[name]
    for base in cls.__mro__:
        for method in vars(base):
            if not getattr(vars(base)[method], "__isabstractmethod__", False):
                continue
            asked, _ = _parameters(vars(base)[method])
            given, takes_any = _parameters(getattr(cls, method))
            assert takes_any or given[: len(asked)] == asked, f"{cls.__name__}.{method}"
