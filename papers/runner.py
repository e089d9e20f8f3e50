"""Run an experiment: the cells that are missing, then table, CSV and PNG.

Finished cells are on disk at once, so that an interrupted run goes on where it stopped.
"""

import ast
import csv
import hashlib
import inspect
import json
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from papers import EXPERIMENTS, Experiment, load
from tunefree._process import one_blas_thread

_PACKAGE = "papers"
_SHOWN = ("PAPER", "TITLE", "NOTES", "table", "draw")


class Outcome(NamedTuple):
    """What became of an experiment."""

    name: str
    rows: list  # (what, paper, ours, setting), all of them str; empty if it was skipped
    seconds: float  # CPU time of all its cells, whichever run computed them
    skipped: str  # why nothing was run; '' if it was
    files: tuple  # paths of what was written


def missing(experiment, data):
    """Files that an experiment needs and the data folder lacks."""
    return [n for n in experiment.NEEDS if data is None or not (Path(data) / n).exists()]


def reproduce(name, out, *, quick=False, data=None, progress=None, finished=False):
    """Compute an experiment's missing cells and write its table, CSV and PNG: an `Outcome`.

    `name` is a key of EXPERIMENTS; each experiment has a folder of its own in `out`. `quick` takes
    small sizes, under a minute. `data` is the folder of public data sets, for the experiments that
    name files. `progress` is called with (cells done, cells in all) before the first cell and after
    each. With `finished` nothing is computed: the table and the figure are those of the cells that
    earlier runs have finished. ValueError for an unknown name, ImportError without matplotlib.

    Examples
    --------
    >>> import tempfile
    >>> from papers.runner import reproduce
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outcome = reproduce("pistol-bound", folder, quick=True)
    >>> [path.name for path in outcome.files]
    ['pistol-bound.png', 'pistol-bound.csv', 'pistol-bound.md']
    """
    experiment = load(name)
    lacking = missing(experiment, data)
    if lacking:
        where = "no data folder was given (--data DIR)" if data is None else f"not in {data}"
        return Outcome(name, [], 0.0, f"needs {', '.join(lacking)}: {where}", ())
    folder = Path(out) / name
    folder.mkdir(parents=True, exist_ok=True)
    store = store_of(name, out)
    cells, results, seconds = experiment.cells(quick), [], 0.0
    for done, cell in enumerate(cells):
        if progress is not None:
            progress(done, len(cells))
        if store.get(cell) is None:
            if finished:
                continue
            start = time.process_time()
            with one_blas_thread():
                numbers = experiment.compute(cell, data)
            store.put(cell, numbers, time.process_time() - start)
        seconds += store.seconds(cell)
        results.append((cell, store.get(cell)))
    if progress is not None:
        progress(len(cells), len(cells))
    if not results:
        return Outcome(name, [], 0.0, "no cell is finished: run it without --finished", ())
    rows = [tuple(str(v) for v in row) for row in experiment.table(results)]
    if len(results) < len(cells):
        done = f"{len(results)} of {len(cells)}"
        rows.append(("cells finished", "-", done, "the same command without --finished goes on"))
    files = tuple(folder / f"{name}.{suffix}" for suffix in ("png", "csv", "md"))
    _draw(experiment, results, files[0])
    _write_csv(files[1], results)
    files[2].write_text(_markdown(experiment, rows))
    return Outcome(name, rows, seconds, "", files)


def _draw(experiment, results, path):
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'tunefree[plots]'.") from error
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    experiment.draw(figure, results)
    figure.savefig(path, dpi=130)


def _markdown(experiment, rows):
    """The table *paper | ours | setting*, and what differs."""
    lines = [f"# {experiment.TITLE}", "", f"{experiment.PAPER}.", ""]
    lines += ["| what | paper | ours | setting |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", experiment.NOTES.strip(), ""])


def _write_csv(path, results):
    """One line a number: the cell's parameters, the quantity, its place in a list, its value."""
    names = list(dict.fromkeys(name for cell, _ in results for name in cell))
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow([*names, "quantity", "index", "value"])
        for cell, numbers in results:
            settings = [cell.get(name, "") for name in names]
            for quantity, value in numbers.items():
                for index, v in enumerate(value) if isinstance(value, list) else [("", value)]:
                    out.writerow([*settings, quantity, index, v])


# --- Finished cells -------------------------------------------------------------------------------


def store_of(name, out):
    """The finished cells of an experiment: its own, or those of whose `compute` it inherits."""
    experiment = load(name)
    home = f"{_home(experiment).__module__}.{_home(experiment).__name__}"
    found = (n for n, place in EXPERIMENTS.items() if f"{_PACKAGE}.{place}" == home)
    return Store(Path(out) / next(found, name), experiment)


class Store:
    """One line of JSON a cell, under a key of what computes it and the cell's parameters.

    Results of an older version of `compute`, or of what it uses among the experiments, are not
    taken for new ones; `table`, `draw` and titles may change.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from papers import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder), load("pistol-bound"))
    ...     store.put({"n": 1}, {"risk": 0.5}, seconds=2.0)
    ...     store.get({"n": 1}), store.get({"n": 2}), store.seconds({"n": 1})
    ({'risk': 0.5}, None, 2.0)
    """

    def __init__(self, folder, experiment):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "cells.jsonl"
        self._version = _version(_home(experiment))
        self._found = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                    self._found[entry["key"]] = entry["numbers"], entry["seconds"]
                except (ValueError, KeyError, TypeError):
                    continue  # the last line of a run that was cut off

    def _key(self, cell):
        return f"{self._version} {json.dumps(_plain(cell), sort_keys=True)}"

    def get(self, cell):
        """What was computed for a cell; None if it was not."""
        return self._found.get(self._key(cell), (None, 0.0))[0]

    def seconds(self, cell):
        """The CPU seconds that it took; 0 if it was not computed."""
        return self._found.get(self._key(cell), (None, 0.0))[1]

    def put(self, cell, numbers, seconds=0.0):
        """Keep what was computed for a cell, and how long it took."""
        key, numbers = self._key(cell), _plain(numbers)
        self._found[key] = numbers, seconds
        entry = {"key": key, "numbers": numbers, "seconds": round(seconds, 3)}
        # A run that was killed may have left half a line.
        ends = not self.path.exists() or self.path.read_bytes()[-1:] in (b"\n", b"")
        with self.path.open("a") as file:
            file.write(("" if ends else "\n") + json.dumps(entry) + "\n")


def _plain(value):
    """Dicts, numbers and lists that JSON knows."""
    if isinstance(value, dict):
        return {name: _plain(v) for name, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(v) for v in value] if isinstance(value, tuple | list) else value


def _home(experiment):
    """The class that defines an experiment's `compute`."""
    return next(c for c in type(experiment).__mro__ if "compute" in vars(c))


def _version(figure):
    """A hash of the sources among the experiments that a figure's numbers depend on."""
    sources, found = {}, [sys.modules[figure.__module__]]
    while found:
        module = found.pop()
        others = set()  # the module's other figures
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Experiment):
                others |= {name} if value not in figure.__mro__ else set()
                continue
            home = getattr(value, "__module__", None) or getattr(value, "__name__", "")
            if home.startswith(f"{_PACKAGE}.") and not home.endswith(".style"):
                found += [sys.modules[home]] if home not in (*sources, module.__name__) else []
        sources[module.__name__] = _numbers_of(inspect.getsource(module), others)
    text = "".join(sources[name] for name in sorted(sources))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _numbers_of(source, others=()):
    """A source without what only shows results, so that a better caption costs no new run."""
    tree = ast.parse(source)

    def shows(node):
        names = [getattr(node, "name", "")]
        names += [target.id for target in getattr(node, "targets", ()) if hasattr(target, "id")]
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        return text or any(name in (*_SHOWN, *others) for name in names)

    for node in (tree, *(n for n in tree.body if isinstance(n, ast.ClassDef))):
        node.body = [part for part in node.body if not shows(part)] or [ast.Pass()]
    return ast.unparse(tree)
