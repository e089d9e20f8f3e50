"""What a call enters of the library: files, climbs between its floors, the functions' lengths."""

import ast
import inspect
import sys
import textwrap
import threading
import tomllib
from collections import namedtuple
from pathlib import Path

import tunefree
from house import ROOT, code_lines

HOME = Path(tunefree.__file__).parent
Walk = namedtuple("Walk", "files climbs functions")
_POOL = "_process.py"


def floors():
    """The import contract's floors, from the lowest: lists of module names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    named = ([m.strip(" ()") for m in layer.split("|")] for layer in reversed(layers))
    return list(named)


def floor_of(module, table):
    """The floor of a module: that of its longest prefix in the contract; None where none is."""
    known = {name: level for level, names in enumerate(table) for name in names}
    parts = module.split(".")
    prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((known[p] for p in prefixes if p in known), None)


def _ours(frame):
    return frame.f_code.co_filename.startswith(str(HOME))


def _module(path):
    return ".".join(["tunefree", *path.relative_to(HOME).with_suffix("").parts])


def walk(run):
    """Run and note every Python function of the library that is entered.

    A climb is a call from a lower floor of the import contract into a higher one, by a callback
    for example; each pair of functions counts once. The pool of threads is no floor of its own:
    what it calls is called by who gave it the work.
    """
    calls = set()

    def note(frame, event, argument):
        if event != "call" or not _ours(frame):
            return
        caller = frame.f_back
        while caller and (not _ours(caller) or caller.f_code.co_filename.endswith(_POOL)):
            caller = caller.f_back
        calls.add((caller.f_code if caller else None, frame.f_code))

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return _summary(calls)


def _summary(calls):
    table = floors()
    entered = {callee for _, callee in calls if callee.co_name != "<module>"}
    files = sorted({str(Path(c.co_filename).relative_to(HOME)) for c in entered})
    climbs = []
    for caller, callee in calls:
        if caller is None or "<module>" in (caller.co_name, callee.co_name):
            continue
        homes = [_module(Path(c.co_filename)) for c in (caller, callee)]
        low, high = (floor_of(home, table) for home in homes)
        if low is not None and high is not None and low < high:
            climbs.append(f"{homes[0]}: {caller.co_qualname} -> {homes[1]}: {callee.co_qualname}")
    return Walk(files, sorted(set(climbs)), entered)


def long_functions(codes, limit=60):
    """{name: code lines} of the entered functions that have more code lines than `limit`."""
    found = {}
    for code in codes:
        if not code.co_name.startswith("<"):
            text = textwrap.dedent(inspect.getsource(code))
            lines = code_lines(ast.parse(text).body[0], text)
            found |= {code.co_qualname: lines} if lines > limit else {}
    return found
