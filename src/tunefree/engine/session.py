"""Checkpoints: a run is saved at intervals, and resumed with the same bits."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from tunefree._version import __version__
from tunefree.core.process import SIGNALS
from tunefree.engine.sources import Mark
from tunefree.files.model import ModelError, load_values, save_values


class Checkpoint:
    """Saves a run of ``fit_source`` every so many rows and when it is interrupted.

    Ctrl-C and SIGTERM wait for the chunk that is being learned, save the run, and raise
    `KeyboardInterrupt`. Batch learners are saved between two passes, in their state after the last
    complete pass. A resumed run ends with the same bits as one that was never interrupted.
    The file is written atomically: if a run is killed, the last complete checkpoint remains.

    Parameters
    ----------
    path : str or path-like
        The file. An existing one is replaced if it is a checkpoint.
    every : int, default=1_000_000
        Rows between two saves.
    resume : bool, default=False
        Continue from the file; if there is none, start.

    Raises
    ------
    ModelError
        On resuming: the file is damaged, is no checkpoint, or is one of another model, version or
        source.

    Examples
    --------
    >>> import os, tempfile, numpy as np
    >>> from tunefree import Checkpoint, PiSTOLRegressor
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = Checkpoint(os.path.join(folder, "run"), every=100)
    ...     model = PiSTOLRegressor().fit_source((X, X[:, 0]), checkpoint=saved)
    ...     again = Checkpoint(os.path.join(folder, "run"), resume=True)
    ...     PiSTOLRegressor().fit_source((X, X[:, 0]), checkpoint=again).coef_.tobytes() == (
    ...         model.coef_.tobytes())
    True
    """

    def __init__(self, path: str | os.PathLike, *, every: int = 1_000_000, resume: bool = False):
        if not every >= 1:
            raise ValueError(f"every={every!r} is not a positive number of rows.")
        self.path, self.every, self.resume = os.fspath(path), int(every), resume
        self._saved, self._busy, self._signal = (0, 0), False, None
        self._run: Any = None

    @contextlib.contextmanager
    def watch(self, run: Any) -> Iterator[None]:
        """Save a run when it is due or interrupted; first resume it, if `resume`.

        A run has `estimator` and `source`, and `mark`, `epoch`, `width` and `state`, which are
        saved and passed to its `resume`. The `sample` of its source, if any, is saved, too.
        """
        if os.path.exists(self.path):
            values = load_values(self.path, kind="checkpoint")
            if self.resume:
                self._restore(run, values)
        self._run, handlers = run, {}
        if threading.current_thread() is threading.main_thread():
            handlers = {s: signal.signal(s, self._interrupted) for s in SIGNALS}
        try:
            yield
        finally:
            self._run = None
            for number, handler in handlers.items():
                signal.signal(number, handler)

    @property
    def rows(self) -> int:
        """Rows of the current pass at the last save; 0 before the first."""
        return self._saved[1]

    @property
    def passes(self) -> int:
        """Complete passes at the last save."""
        return self._saved[0]

    def passed(self, run: Any, rows: int) -> None:
        """A pass over so many rows has ended; the learner is saved between passes only."""
        if rows * run.epoch // self.every > rows * self._saved[0] // self.every:
            self._busy = True
            self.save(run)
            self._busy = False
        if self._signal is not None:
            self._stop()

    def begin(self) -> None:
        """A chunk is about to be learned."""
        self._busy = True

    def end(self, run: Any) -> None:
        """A chunk has been learned."""
        self._busy = False
        if self._signal is not None:
            self._stop()
        elif run.mark is not None:
            epoch, row = self._saved
            if (run.epoch, run.mark.row // self.every) > (epoch, row // self.every):
                self.save(run)

    def save(self, run: Any) -> None:
        """Write the file."""
        values = {
            "version": __version__,
            "estimator": run.estimator,
            "source": run.source.identity(None if run.epoch else run.mark),
            "mark": tuple(run.mark),
            "epoch": run.epoch,
            "width": run.width,
            "state": run.state,
            "sample": None if run.source.sample is None else run.source.sample.state,
        }
        try:
            save_values(values, self.path, kind="checkpoint")
        except OSError as problem:
            words = f"the checkpoint cannot be written ({problem.strerror})"
            raise OSError(problem.errno, words, self.path) from None
        self._saved = run.epoch, run.mark.row

    def _interrupted(self, number, frame):
        self._signal = number
        if not self._busy:
            self._stop()

    def _stop(self):
        run = self._run
        if run.mark is not None and run.width and (run.epoch, run.mark.row) != self._saved:
            self._signal = None
            self.save(run)
        raise KeyboardInterrupt

    def _restore(self, run, values):
        if values["version"] != __version__:
            raise ModelError(
                f"{self.path} was written by tunefree {values['version']}, and this is "
                f"{__version__}: finish with that version, or delete the file and start again"
            )
        mark, epoch = Mark(*values["mark"]), values["epoch"]
        other = _other_model(values["estimator"], run.estimator)
        other = other or _other_data(values["source"], run.source, None if epoch else mark)
        if other is not None:
            raise ModelError(f"{self.path} is a checkpoint of {other}")
        run.resume(values["estimator"], mark, epoch, values["width"], values["state"])
        if run.source.sample is not None and values["sample"] is not None:
            run.source.sample.resume(values["sample"])
        self._saved = run.epoch, run.mark.row


def _other_model(old, new):
    """How the estimator of a checkpoint differs from that of a run; None if it does not."""
    if type(old) is not type(new):
        return f"a {type(old).__name__}, not of a {type(new).__name__}"
    ours = new.get_params(deep=False)
    for name, value in old.get_params(deep=False).items():
        if repr(ours[name]) != repr(value):
            return f"another model: {name}={value!r}, not {ours[name]!r}"
    return None


def _other_data(identity, source, mark):
    """How the data of a checkpoint differ from those of a run; None if they do not."""
    for name, value in source.identity(mark).items():
        if identity[name] != value:
            return f"a run on other data: {source.name} differs in its {name}"
    return None
