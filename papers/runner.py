"""Run an experiment: the cells that are missing, then table, CSV and PNG.

A finished cell is a file, so that an interrupted run goes on where it stopped.
"""

import csv
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from papers import load
from tunefree.core.process import one_blas_thread
from tunefree.files.files import write_atomically


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


def reproduce(
    name, out, *, quick=False, data=None, track: Callable[[list], Iterable] = iter, finished=False
):
    """Compute an experiment's missing cells and write its table, CSV and PNG: an `Outcome`.

    `name` is a key of EXPERIMENTS; each experiment has a folder of its own in `out`. `quick` takes
    small sizes, under a minute. `data` is the folder of public data sets, for the experiments that
    name files. `track` wraps the list of cells, and may show progress. With `finished` nothing is
    computed: the table and the figure are those of the cells that earlier runs have finished.
    ValueError for an unknown name, ImportError without matplotlib.

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
    cells, results, seconds = experiment.cells(quick), [], 0.0
    for cell in track(cells):
        path = cell_file(experiment, out, cell)
        if not path.exists() and not finished:
            _compute(experiment, cell, data, path)
        if path.exists():
            stored = json.loads(path.read_text())
            seconds += stored["seconds"]
            results.append((cell, stored["numbers"]))
    if not results:
        return Outcome(name, [], 0.0, "no cell is finished: run it without --finished", ())
    rows = [tuple(str(v) for v in row) for row in experiment.table(results)]
    if len(results) < len(cells):
        done = f"{len(results)} of {len(cells)}"
        rows.append(("cells finished", "-", done, "the same command without --finished goes on"))
    folder = Path(out) / name
    folder.mkdir(parents=True, exist_ok=True)
    files = tuple(folder / f"{name}.{suffix}" for suffix in ("png", "csv", "md"))
    _draw(experiment, results, files[0])
    _write_csv(files[1], results)
    files[2].write_text(_markdown(experiment, rows))
    return Outcome(name, rows, seconds, "", files)


def cell_file(experiment, out, cell):
    """Where a cell is stored: experiments that inherit `compute` share the folder of its class."""
    home = next(c for c in type(experiment).__mro__ if "compute" in vars(c))
    settings = ", ".join(f"{name}={value}" for name, value in cell.items())
    return Path(out) / "cells" / home.__name__ / f"{settings.replace('/', ' or ')}.json"


def _compute(experiment, cell, data, path):
    """Compute a cell, and store its numbers and CPU seconds."""
    start = time.process_time()
    with one_blas_thread():
        numbers = experiment.compute(cell, data)
    stored = {"numbers": numbers, "seconds": round(time.process_time() - start, 3)}
    path.parent.mkdir(parents=True, exist_ok=True)
    # Arrays and numbers of NumPy have `tolist`.
    write_atomically(path, [json.dumps(stored, default=lambda v: v.tolist()).encode()])


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
