"""``tunefree train`` on data that is learned as it is read: large files, stdin, checkpoints."""

import itertools
import os
import time

import numpy as np

from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    FAILED,
    INTERRUPTED,
    USAGE,
    failing,
    note,
    stop,
)
from tunefree.cli.rows import check_classes, way_out
from tunefree.cli.training import Trained, choose_task
from tunefree.engine.session import Checkpoint
from tunefree.engine.sources import open_source
from tunefree.engine.sources.readers import Hashed, Replay
from tunefree.io import DataError, Named
from tunefree.io.model import ModelError
from tunefree.io.opening import chunks

# Standard input up to so many bytes of text is held and learned like a file.
_HELD = 32 << 20
# Larger files are learned as they are read.
_LARGE = 256 << 20
# Formats whose columns may be text.
_HASHED = ("csv", "parquet", "arrow")
# So many bytes of standard input, or rows of a file, are looked at to tell the task.
_LOOK, _ROWS = 128 << 10, 20_000


def implied(run, stream, format):
    """The option that wants rows learned as they are read, if there is one.

    Parameters
    ----------
    run, stream : dict
        As for `tunefree.cli.training.run_train`.
    format : str or None
        Of the data.

    Returns
    -------
    str or None
    """
    if run["resume"] and run["checkpoint"] is None:
        stop("--resume needs --checkpoint FILE", USAGE)
    if stream["hashed"] and format not in _HASHED:
        stop("--hash is for csv, parquet and Arrow files (see --format)", USAGE)
    said = {"--checkpoint": run["checkpoint"], "--hash": stream["hashed"],
            "--window": stream["window"]}  # fmt: skip
    return next((option for option, value in said.items() if value), None)


def is_large(data):
    """Whether a file is too large to be taken into memory.

    Parameters
    ----------
    data : str
        A path.

    Returns
    -------
    bool
    """
    return os.path.isfile(data) and os.path.getsize(data) > _LARGE


def from_stdin():
    """Take in standard input, if it is not large.

    Returns
    -------
    text : Named or Replay
        All of it, or its beginning and what follows.
    whole : bool
        Whether it is all.
    """
    pieces, held, size = chunks("-"), [], 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > _HELD:
            return Replay("<stdin>", itertools.chain(held, pieces)), False
    return Named("<stdin>", held), True


def waiting_stdin():
    """Standard input that is read as it comes.

    Returns
    -------
    Replay
    """
    return Replay("<stdin>", chunks("-"))


def first_targets(data, options):
    """The targets of the first rows.

    Parameters
    ----------
    data : str or Replay
        A file, or standard input.
    options : dict
        For `open_source`.

    Returns
    -------
    ndarray
    """
    name = data.name if isinstance(data, Replay) else data
    if isinstance(data, Replay):
        text = b""
        for piece in data:
            text += piece
            if len(text) >= _LOOK:
                break
        data = Replay(name, [text[: text.rfind(b"\n") + 1] or text])
    rows, found = 0, []
    for chunk in open_source(data, **options | {"window": 0}).chunks():
        if chunk.y is None:
            raise DataError("the file has no target column", name)
        rows += len(chunk)
        found.append(chunk.y)
        if rows > _ROWS:
            break
    if not rows:
        raise DataError("the file is empty: it holds no row", name)
    return np.concatenate(found)


class Progress:
    """Tells on a terminal how the learning goes, whenever the number of rows has doubled.

    Parameters
    ----------
    classify : bool
        Whether risks are shares of errors.
    """

    def __init__(self, classify):
        from rich.console import Console

        self.terminal = Console(stderr=True).is_terminal
        self.next, self.start = 1000, time.perf_counter()
        self.name = "error" if classify else "squared error"

    def __call__(self, estimator, row, epoch):
        """Show a line if it is time.

        Parameters
        ----------
        estimator : estimator
        row, epoch : int
            Rows of this pass, and passes before it.
        """
        if not self.terminal or epoch or row < self.next:
            return
        if self.next == 1000:
            note(f"{'rows':>14} {self.name:>14} {'of late':>14} {'rows/s':>10}")
        so_far, late = (estimator.progressive_risk(share) for share in (1.0, 0.5))
        speed = row / max(time.perf_counter() - self.start, 1e-9)
        note(f"{row:14,} {so_far:14.4g} {late:14.4g} {speed:10,.0f}")
        while self.next <= row:
            self.next *= 2


def learn(source, estimator, classes, *, checkpoint, every, resume):
    """Fit an estimator to a source, with or without a checkpoint.

    Parameters
    ----------
    source : Source
    estimator : estimator
        With ``fit_source``.
    classes : array or None
        Classes to expect.
    checkpoint : str or None
        The file.
    every : int
        Rows between two saves.
    resume : bool
        Go on from the file.

    Returns
    -------
    estimator
    """
    options = {} if classes is None else {"classes": classes}
    if hasattr(estimator, "progressive_risk") and getattr(estimator, "solver", None) != "batch":
        options["on_chunk"] = Progress(classes is not None)
    saved = None
    if checkpoint is not None:
        saved = options["checkpoint"] = Checkpoint(checkpoint, every=every, resume=resume)
        if resume and not os.path.exists(checkpoint):
            note(f"note: there is no {checkpoint} yet: beginning with the first row")
    try:
        estimator.fit_source(source, **options)
    except KeyboardInterrupt:
        if saved is None or not (saved.rows or saved.passes):
            raise
        taught = f"{saved.rows} rows" if saved.rows else f"{saved.passes} passes"
        words = f"{checkpoint} holds what {taught} taught: --resume goes on from there"
        stop(f"interrupted; {words}", INTERRUPTED)
    except ModelError as problem:
        stop(str(problem), BAD_MODEL)
    except OSError as problem:
        if saved is None or problem.filename != checkpoint:
            raise
        words = "an earlier checkpoint in it is intact"
        stop(f"{checkpoint}: {problem.strerror}; {words}", FAILED)
    return estimator


def notes_of(source, task, n_features):
    """What a model file remembers of its data, as `tunefree.cli.training` notes it of a table.

    Parameters
    ----------
    source : Source
    task : {"classification", "regression"}
    n_features : int

    Returns
    -------
    dict
    """
    reader = source.reader
    return {
        "task": task,
        "rows": source.rows,
        "features": int(n_features),
        "feature_names": source.feature_names,
        "zero_based": getattr(reader, "zero_based", "auto"),
        "target": reader.target and list(reader.target),
        "weight_column": reader.weight_column and list(reader.weight_column),
        "hashed": reader.n_features if isinstance(reader, Hashed) else None,
    }


def _choose(name, why, again):
    """The estimator and, of the Reflectron, its solver; `again` says whether passes are free."""
    if name == "auto":
        note(f"{why} implies --estimator pistol")
        return "pistol", None
    if name == "kernel":
        stop(f"{why} implies --estimator pistol: {name} needs all rows at once", USAGE)
    if name == "separator" and not again:
        stop(f"{why} implies --estimator pistol: {name} makes many passes over a file", USAGE)
    if name == "reflectron" and not again:
        note(f"{why}: one pass of stochastic steps, in place of passes over all rows")
    return name, "stochastic" if name == "reflectron" and not again else None


def _for_numbers(why):
    """What to do about text where rows are learned as they are read."""
    words = "rows that are learned as they are read hold numbers: --hash 262144 takes text and gaps"
    return f"{words}, and so does --estimator auto without {why}" if why[:2] == "--" else words


def from_source(data, shown, why, task, name, make, run, options):
    """Train on data that are learned as they are read.

    Parameters
    ----------
    data : str or Replay
        A file, or standard input.
    shown : str
        What the user calls it.
    why : str
        Why the rows are not taken into memory.
    task, name : str
        What the user said.
    make : callable
        (name, task) -> estimator.
    run : dict
        ``checkpoint``, ``every`` and ``resume``.
    options : dict
        For `open_source`.

    Returns
    -------
    Trained
    """
    if options["hashed"] and not isinstance(data, str):
        stop("--hash needs a file, not standard input", USAGE)
    name, solver = _choose(name, why, isinstance(data, str))
    kind = float if task == "regression" else None
    options = options | {"target_type": kind}
    with failing(BAD_DATA, shown), way_out(_for_numbers(why)):
        y = first_targets(data, options)
        check_classes(y, shown)
        task, reason = choose_task(task, y)
        if task == "regression":
            options["target_type"] = float
        classes = np.unique(y) if task == "classification" else None
        if classes is not None and len(classes) < 2:
            classes = None
        source = open_source(data, **options)
        estimator = make(name, task)
        if solver is not None:
            estimator.set_params(solver=solver)
        start = time.perf_counter()
        learn(source, estimator, classes, **run)
        seconds = time.perf_counter() - start
    known = getattr(estimator, "classes_", np.empty(0))
    if known.dtype.kind == "f" and len(known) and np.all(known == np.floor(known)):
        estimator.classes_ = known.astype(np.int64)  # so that predictions read 1, not 1.0
    notes = notes_of(source, task, estimator.n_features_in_)
    return Trained(estimator, notes, reason, source.skipped, seconds)
