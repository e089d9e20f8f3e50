"""The house rules as tests: style, floors, a docstring with an example for each public name."""

import ast
import importlib
import inspect
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import house
import tunefree

ROOT = Path(__file__).parent.parent
# Public names, those of modules with the module in front.
PUBLIC = [name for name in tunefree.__all__ if not name.startswith("__")]
PUBLIC += [
    f"{home}.{name}"
    for home in tunefree._MODULES
    for name in getattr(tunefree, home).__all__
    if name not in PUBLIC and home != "kernels"  # whose parts are held by the laws of parts
]
MOST_AT_THE_TOP = 27


def _named(name):
    return attrgetter(name)(tunefree)


def _run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing():
    _run(sys.executable, "-m", "ruff", "check", ".")


def test_ruff_would_format_nothing():
    _run(sys.executable, "-m", "ruff", "format", "--check", ".")


def test_types_are_right():
    """In `src`, and in what a user writes (`typed_use.py`)."""
    _run(sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable)


def test_type_checkers_see_the_lazy_names():
    tree = ast.parse(inspect.getsource(tunefree))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {name.asname: line.module for line in block.body for name in line.names}
    assert seen == tunefree._HOMES | dict.fromkeys(tunefree._MODULES, "tunefree")


HOMES = (
    "parts.losses", "parts.links", "parts.averaging", "reflectron.potentials",
    "reflectron.constraints", "kernels", "bounds", "dask",
)  # fmt: skip


def _public():
    """What the public names are, and the classes and functions of the parts' modules."""
    yield from map(_named, PUBLIC)
    for home in HOMES:
        module = importlib.import_module(f"tunefree.{home}")
        for name in dir(module):
            value = getattr(module, name)
            ours = getattr(value, "__module__", "").startswith(f"tunefree.{home}")
            if ours and callable(value) and not name.startswith("_"):
                yield value


def _functions(value):
    """A function, or what a class lets be called: methods of its own and of our mixins."""
    if not inspect.isclass(value):
        return [value]
    ours = [cls for cls in value.__mro__ if cls.__module__.startswith("tunefree")]
    members = [(name, m) for cls in ours for name, m in vars(cls).items()]
    wanted = [m for name, m in members if name == "__init__" or not name.startswith("_")]
    return [getattr(m, "__func__", getattr(m, "fget", m)) for m in wanted]


def test_public_signatures_say_their_types():
    functions = {inspect.unwrap(f) for value in _public() for f in _functions(value)}
    silent = []
    for function in filter(inspect.isfunction, functions):
        signature = inspect.signature(function)
        told = [p.annotation for n, p in signature.parameters.items() if n not in ("self", "cls")]
        if function.__name__ != "__init__":
            told.append(signature.return_annotation)
        if inspect.Signature.empty in told:
            silent.append(f"{function.__module__}: {function.__qualname__}{signature}")
    assert silent == []


def test_floors_import_only_lower_floors():
    _run(sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()")


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
    doc = inspect.getdoc(_named(name))
    assert doc, name
    assert "Examples\n--------" in doc, f"{name} has no example"


def test_every_public_name_is_in_the_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert [name for name in PUBLIC if name.split(".")[-1] not in text] == []


def test_few_names_are_at_the_top():
    assert len(tunefree.__all__) <= MOST_AT_THE_TOP


def test_names_of_test_files_are_unique():
    """Without packages in `tests` pytest imports them by their base name."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)


def test_a_class_name_has_one_home():
    assert house.repeated_class_names() == []


def test_public_text_has_the_words_of_the_field():
    assert list(house.banned_words()) == []
