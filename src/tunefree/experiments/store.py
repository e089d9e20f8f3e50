"""Finished cells of an experiment on disk, so that an interrupted run goes on where it stopped."""

import ast
import csv
import hashlib
import inspect
import json
import sys

import numpy as np

_PACKAGE = "tunefree.experiments."
_SHOWN = ("PAPER", "TITLE", "NOTES", "table", "draw")
_LOOKS = (f"{_PACKAGE}style",)


def _plain(value):
    """Numbers and lists that JSON knows."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def home(experiment):
    """The module that defines an experiment's `compute`: experiments that share it share cells."""
    return sys.modules[experiment.compute.__module__]


def _version(module):
    """A hash of the sources that a module's numbers depend on, as far as they are experiments'."""
    sources, found = {}, [module]
    while found:
        at = found.pop()
        sources[at.__name__] = _numbers_of(inspect.getsource(at))
        for value in vars(at).values():
            name = getattr(value, "__module__", None) or getattr(value, "__name__", "")
            if name.startswith(_PACKAGE) and name not in (*sources, *_LOOKS):
                found.append(sys.modules[name])
    text = "".join(sources[name] for name in sorted(sources))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _numbers_of(source):
    """A module's source without what only shows results: a better caption costs no new run."""
    tree = ast.parse(source)

    def shows(node):
        names = [getattr(node, "name", "")]
        names += [target.id for target in getattr(node, "targets", ()) if hasattr(target, "id")]
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        return text or any(name in _SHOWN for name in names)

    tree.body = [node for node in tree.body if not shows(node)]
    return ast.unparse(tree)


class Store:
    """One line of JSON a cell, under a key of the experiment's source and the cell's parameters.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    experiment : module
        The source of the module that defines its `compute`, and of the experiments' modules that
        that one uses, is part of the key (`table`, `draw` and titles are not): results of an older
        version are not taken for new ones.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tunefree.experiments import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder), load("pistol-bound"))
    ...     store.put({"n": 1}, {"risk": 0.5}, seconds=2.0)
    ...     store.get({"n": 1}), store.get({"n": 2}), store.seconds({"n": 1})
    ({'risk': 0.5}, None, 2.0)
    """

    def __init__(self, folder, experiment):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "cells.jsonl"
        self._version = _version(home(experiment))
        self._found = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                    self._found[entry["key"]] = entry["numbers"], entry["seconds"]
                except (ValueError, KeyError, TypeError):
                    continue  # the last line of a run that was cut off

    def _key(self, cell):
        return f"{self._version} {json.dumps(_plain_dict(cell), sort_keys=True)}"

    def get(self, cell):
        """What was computed for a cell; None if it was not."""
        return self._found.get(self._key(cell), (None, 0.0))[0]

    def seconds(self, cell):
        """The CPU seconds that it took; 0 if it was not computed."""
        return self._found.get(self._key(cell), (None, 0.0))[1]

    def put(self, cell, numbers, seconds=0.0):
        """Keep what was computed for a cell, and how long it took."""
        key, numbers = self._key(cell), _plain_dict(numbers)
        self._found[key] = numbers, seconds
        entry = {"key": key, "numbers": numbers, "seconds": round(seconds, 3)}
        # A run that was killed may have left half a line.
        ends = not self.path.exists() or self.path.read_bytes()[-1:] in (b"\n", b"")
        with self.path.open("a") as file:
            file.write(("" if ends else "\n") + json.dumps(entry) + "\n")


def _plain_dict(values):
    return {name: _plain(value) for name, value in values.items()}


def write_csv(path, results):
    """Write one line a number: the cell's parameters, the quantity, its place in a list, its value.

    Parameters
    ----------
    path : Path
    results : list of (dict, dict)
        Parameters and numbers of each cell.
    """
    names = list(dict.fromkeys(name for cell, _ in results for name in cell))
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow([*names, "quantity", "index", "value"])
        for cell, numbers in results:
            settings = [cell.get(name, "") for name in names]
            for quantity, value in numbers.items():
                listed = value if isinstance(value, list) else [value]
                for index, v in enumerate(listed):
                    at = index if isinstance(value, list) else ""
                    out.writerow([*settings, quantity, at, v])
