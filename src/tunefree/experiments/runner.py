"""Run experiments: the cells that are missing, then table, CSV and PNG."""

import time
from pathlib import Path
from typing import NamedTuple

from tunefree._threads import one_blas_thread
from tunefree.experiments import EXPERIMENTS, load
from tunefree.experiments.store import Store, home, write_csv


class Outcome(NamedTuple):
    """What became of an experiment.

    Attributes
    ----------
    name : str
    rows : list of (what, paper, ours, setting)
        All of them str; empty if it was skipped.
    seconds : float
        CPU time of all its cells, whichever run computed them.
    skipped : str
        Why nothing was run; '' if it was.
    files : tuple of Path
        What was written.
    """

    name: str
    rows: list
    seconds: float
    skipped: str
    files: tuple


def missing(experiment, data):
    """Files that an experiment needs and the data folder lacks.

    Parameters
    ----------
    experiment : module
    data : Path or None

    Returns
    -------
    list of str
    """
    needs = getattr(experiment, "NEEDS", ())
    return [n for n in needs if data is None or not (Path(data) / n).exists()]


def store_of(name, out):
    """The finished cells of an experiment: its own, or those that it shares.

    Parameters
    ----------
    name : str
    out : path-like

    Returns
    -------
    Store
    """
    experiment = load(name)
    shared = home(experiment)
    if shared is not experiment:
        name = shared.__name__.rsplit(".", 1)[-1].replace("_", "-")
    return Store(Path(out) / name, experiment)


def reproduce(name, out, *, quick=False, data=None, progress=None, finished=False):
    """Compute an experiment's missing cells and write its table, CSV and PNG.

    Parameters
    ----------
    name : str
        A key of EXPERIMENTS.
    out : path-like
        A folder is made in it for the experiment.
    quick : bool, default=False
        Small sizes: under a minute.
    data : path-like, optional
        Folder of public data sets, for the experiments that name files.
    progress : callable, optional
        Called with (cells done, cells in all) before the first cell and after each.
    finished : bool, default=False
        Compute nothing: tables and figures of the cells that earlier runs have finished.

    Returns
    -------
    Outcome

    Raises
    ------
    ValueError
        For a name that is not in the table.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import tempfile
    >>> from tunefree.experiments.runner import reproduce
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outcome = reproduce("pistol-bound", folder, quick=True)
    >>> [path.name for path in outcome.files]
    ['pistol-bound.png', 'pistol-bound.csv', 'pistol-bound.md']
    """
    experiment = load(name)
    lacking = missing(experiment, data)
    if lacking:
        where = "no data folder was given" if data is None else f"not in {data}"
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
    write_csv(files[1], results)
    files[2].write_text(as_markdown(experiment, rows))
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


def as_markdown(experiment, rows):
    """The table *paper | ours | setting*, and what differs.

    Parameters
    ----------
    experiment : module
    rows : list of tuple of str

    Returns
    -------
    str
    """
    lines = [f"# {experiment.TITLE}", "", f"{experiment.PAPER}.", ""]
    lines += ["| what | paper | ours | setting |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", experiment.NOTES.strip(), ""])


def listing():
    """Every experiment's name, where it stands in its paper, and what it shows.

    Returns
    -------
    list of (str, str, str)
    """
    return [(name, load(name).PAPER, load(name).TITLE) for name in EXPERIMENTS]
