"""``tunefree stream``: predict each row when it arrives, then learn it."""

import itertools
import json
import math
import os
import time
from typing import Any

import numpy as np

from tunefree._warn import did_you_mean
from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    FAILED,
    INTERRUPTED,
    USAGE,
    answer,
    as_csv,
    failing,
    note,
    stop,
)
from tunefree.cli.train import check_output, guess_task
from tunefree.engine.session import Checkpoint
from tunefree.engine.sources import Mark
from tunefree.estimators.stream import StreamClassifier, StreamRegressor
from tunefree.io import DataError, Named, Skipped, detected, format_of
from tunefree.io.files import chunks, fingerprint, name_of
from tunefree.io.model import ModelError, save_model
from tunefree.io.records import records
from tunefree.learners.mixture.betting import ALPHAS
from tunefree.learners.mixture.drift import DriftAlarm

# The task is guessed from this many targets.
_LOOK = 200
_HEADS = {
    "classification": ("prediction", "probability", "set"),
    "regression": ("prediction", "low", "high"),
}


_MAKES: dict[str, Any] = {"classification": StreamClassifier, "regression": StreamRegressor}


class _Source:
    """The data, as a checkpoint identifies them."""

    def __init__(self, data, pieces):
        self.name, self.pieces = "<stdin>" if data == "-" else data, pieces

    def identity(self, mark):
        """A hash of the file up to the mark; None for other data."""
        found = os.path.isfile(self.name)
        return {"content": fingerprint(self.name, mark.place[0]) if found else None}


class _StreamRun:
    """The state of a run, which a checkpoint saves."""

    epoch, width = 0, 1

    def __init__(self, task, source, options, out):
        self.estimator, self.source, self.task = _MAKES[task](), source, task
        self.coverage, self.delay, self.out = options.coverage, options.delay, out
        self.alpha = round(1.0 - self.coverage, 12)
        self.ids, self.dropped = options.id or [], options.drop or []
        # Rows whose labels are delayed: number, values, label, whether covered, and how wrong.
        self.pending = []
        self.alarm, self.drifts = DriftAlarm(), []
        self.mark, self.layout, self.covered, self.rows = Mark((0, 1)), [], 0, 0

    @property
    def state(self):
        """The position in the file of predictions, the layout of the first line, and the counts."""
        if self.out is not None:
            self.out.flush()
            os.fsync(self.out.fileno())
        written = 0 if self.out is None else self.out.tell()
        waiting = vars(self.estimator).get("_waiting", {})
        names = ("task", "coverage", "delay", "layout", "covered", "rows", "pending", "drifts")
        counts = {name: getattr(self, name) for name in names} | {"alarm": vars(self.alarm)}
        return counts | {"written": written, "waiting": [*waiting.items()]}

    def resume(self, estimator, mark, epoch, width, state):
        """Continue from a checkpoint; predictions after it are made again."""
        for name in ("coverage", "delay"):
            if state[name] != getattr(self, name):
                raise ModelError(f"the checkpoint was written with --{name} {state[name]}")
        self.pending = state["pending"]
        if state["waiting"]:
            vars(estimator)["_waiting"] = dict(state["waiting"])
        self.estimator, self.mark, self.task = estimator, mark, state["task"]
        self.layout, self.covered, self.rows = state["layout"], state["covered"], state["rows"]
        self.drifts = state["drifts"]
        vars(self.alarm).update(state["alarm"])
        if self.out is not None:
            if os.fstat(self.out.fileno()).st_size < state["written"]:
                raise ModelError(f"{self.out.name} lacks predictions made before the checkpoint")
            self.out.truncate(state["written"])
            self.out.seek(state["written"])

    def take(self, record):
        """Predict a row, write the prediction, and learn the row whose label arrives now."""
        model, x, y = self.estimator, record.x, record.y
        row = self.mark.rows + 1
        ids = [x.pop(name, "") for name in self.ids]
        for name in self.dropped:
            x.pop(name, None)
        key = row if self.delay else None
        if self.task == "classification":
            probabilities = model.predict_proba_one(x, key)
            best = max(probabilities, key=probabilities.__getitem__) if probabilities else ""
            labels = model.predict_set_one(x, self.alpha)
            line = (best, probabilities.get(best, ""), "|".join(sorted(map(str, labels))))
            covered, wrong = y in labels, best != y
        else:
            prediction = model.predict_one(x, key)
            low, high = model.predict_interval_one(x, self.alpha)
            line = ("" if prediction is None else prediction, low, high)
            covered = y is not None and low <= y <= high
            wrong = 0.0 if prediction is None or y is None else abs(y - prediction)
        if self.out is not None:
            self.out.write(as_csv([[*ids, *line]]).encode())
        self.pending.append((row, x, y, covered, wrong))
        if len(self.pending) > self.delay:
            self._learn(*self.pending.pop(0))
        self.mark = Mark(record.place, row)

    def _learn(self, row, x, y, covered, wrong):
        """Learn a row whose label has arrived."""
        model = self.estimator
        model.learn_one(x, y, key=row if self.delay else None)
        if y is None:
            return
        self.covered, self.rows = self.covered + covered, self.rows + 1
        add = self.alarm.add if self.task == "classification" else self.alarm.add_residual
        if add(wrong, model.half_life_):
            self.drifts.append(row)

    def summary(self):
        """What ``--json`` prints."""
        model = self.estimator
        summary = {"task": self.task, "rows": self.mark.rows, "labelled": self.rows}
        if self.rows:
            summary["error"] = model.progressive_error_
            summary["half_life"] = model.half_life_
            summary["covered"] = self.covered / self.rows
            summary["outlier_rows"] = model.n_outlier_rows_
            summary["drift_at_rows"] = self.drifts
        return summary


def run_stream(options):
    """Carry out ``tunefree stream``; `options` is a `StreamOptions`."""
    _check(options)
    resuming = options.resume and os.path.exists(str(options.checkpoint))
    reading = {"target": options.target, "header": options.header}
    reading = {name: value for name, value in reading.items() if value is not None}
    skipped = Skipped() if options.on_bad_row == "skip" else None
    with failing(BAD_DATA, options.data):
        pieces, kind = _open(options.data, options.format)
        if kind == "libsvm" and (options.target or options.header is not None):
            stop("--target and --header are for csv and JSON lines", USAGE)
        if kind == "libsvm" and (options.id or options.drop):
            stop("--id and --drop are for csv and JSON lines", USAGE)
        if kind not in ("csv", "libsvm", "jsonl"):
            stop(f"{kind} files cannot be streamed: use csv, libsvm or JSON lines", USAGE)
        task = options.task
        if not resuming:
            pieces, task = _guess_task(pieces, kind, task, reading)
    with failing(FAILED, options.output), _predictions_file(options.output, resuming) as out:
        if resuming and task == "auto":
            task = _task_of(options.checkpoint)
        run = _StreamRun(task, _Source(options.data, pieces), options, out)
        start = time.perf_counter()
        _go(run, kind, skipped, reading, options)
        if not run.mark.rows:
            stop(str(_no_rows(run.source.name, run.layout)), BAD_DATA)
    seconds = time.perf_counter() - start
    if skipped is not None and skipped.count:
        note(f"skipped {skipped.count} malformed rows, the first: {skipped.first}")
    if options.model is not None and run.rows:
        with failing(FAILED, options.model):
            save_model(run.estimator, options.model, notes={"task": task})
    if options.json:
        answer(json.dumps(run.summary() | {"seconds": seconds}))


def _check(options):
    """Stop, before any work, if the options do not fit."""
    if options.resume and options.restart:
        stop("--resume continues, --restart begins again: give one of them", USAGE)
    if not (options.resume or options.restart):
        for path in filter(_has_content, (options.checkpoint, options.output)):
            more = " or --resume to continue" if options.checkpoint else ""
            stop(f"{path} exists: give --restart to overwrite it{more}", USAGE)
    choices = [round(1.0 - alpha, 12) for alpha in ALPHAS]
    if options.coverage not in choices:
        words = ", ".join(map(str, choices))
        stop(f"--coverage {options.coverage} is none of {words}", USAGE)
    for path, what in ((options.model, "model"), (options.checkpoint, "checkpoint")):
        if path is not None:
            check_output(path, what)


def _has_content(path):
    return path is not None and os.path.isfile(path) and os.path.getsize(path) > 0


def _no_rows(path, layout):
    """The error for data without rows; the layout is that of the first line, if there is one."""
    return DataError(f"the file has {'a header and ' if layout else ''}no rows", path)


def _open(data, format):
    """The bytes of the data, and their format: as given, from the name or from the first line."""
    kind = format or format_of(data)
    if kind is not None and data != "-":
        return data, kind
    sniffed, pieces = detected(chunks(data))
    return Named(name_of(data), pieces), kind or sniffed


def _guess_task(pieces, kind, task, reading):
    """The data, and the task: as given, or guessed from the first targets."""
    if task != "auto":
        return pieces, task
    head = whole = pieces
    if not isinstance(pieces, str):
        first, rest = b"", iter(pieces)
        while first.count(b"\n") < 2 and (piece := next(rest, b"")):  # a header and a row
            first += piece
        head = Named(pieces.name, [first[: first.rfind(b"\n") + 1] or first])
        whole = Named(pieces.name, itertools.chain([first], rest))
    skipped, layout = Skipped(), []
    rows = records(head, kind, skipped=skipped, layout=layout, **reading)
    first = next(rows, None)
    if first is None:
        raise skipped.first or _no_rows(head if isinstance(head, str) else head.name, layout)
    found = (row.y for row in itertools.chain([first], rows) if row.y is not None)
    y = list(itertools.islice(found, _LOOK))
    if not y:
        stop("no complete row with a target was found: see --target, or give --task", USAGE)
    numbers = all(type(v) in (int, float) for v in y)
    task, reason = guess_task(np.array(y, dtype=float if numbers else str))
    other = "regression" if task == "classification" else "classification"
    note(f"{task}: {reason}" + (f"; use --task {other} to change this" if numbers else ""))
    return whole, task


def _task_of(checkpoint):
    from tunefree.io.model import load_values

    with failing(BAD_MODEL, checkpoint):
        values = load_values(checkpoint, kind="checkpoint")
        return values["state"]["task"] if isinstance(values["state"], dict) else "classification"


class _predictions_file:
    """The file of predictions, or None; a run that resumes appends to it."""

    def __init__(self, path, resuming):
        self.path, self.mode = path, "r+b" if resuming and path and os.path.exists(path) else "wb"

    def __enter__(self):
        self.file: Any = None if self.path is None else open(self.path, self.mode)
        return self.file

    def __exit__(self, *problem):
        if self.file is not None:
            self.file.close()


def _go(run, kind, skipped, reading, options):
    """Take all rows, with or without a checkpoint."""
    path = options.checkpoint
    if path is None:
        with failing(BAD_DATA, options.data):
            _take_all(run, None, kind, skipped, reading, options.json)
        return
    saved = Checkpoint(path, every=options.every, resume=options.resume)
    try:
        with saved.watch(run):
            with failing(BAD_DATA, options.data):
                _take_all(run, saved, kind, skipped, reading, options.json)
            saved.save(run)
    except KeyboardInterrupt:
        if not run.mark.rows:
            raise
        words = f"{path} holds the state after {run.mark.rows} rows"
        stop(f"interrupted; {words}: continue with --resume", INTERRUPTED)
    except ModelError as problem:
        stop(str(problem), BAD_MODEL)


def _take_all(run, saved, kind, skipped, reading, quiet):
    """Take all rows from the mark on, and print the error each time their number has doubled."""
    if run.out is not None and run.out.tell() == 0:
        run.out.write(as_csv([[*run.ids, *_HEADS[run.task]]]).encode())
    print_error = _ErrorLines(run, quiet)
    place, layout = run.mark.place, run.layout
    for record in records(
        run.source.pieces, kind, place=place, layout=layout, skipped=skipped, **reading
    ):
        _check_target(record.y, run)
        if not run.mark.rows:
            _check_columns(record.x, run)
        if saved is not None:
            saved.begin()
        run.take(record)
        if saved is not None:
            saved.end(run)
        print_error()
    print_error(last=True)


def _check_target(y, run):
    """Raise unless a target of a regression is a number."""
    if run.task != "regression" or y is None:
        return
    if type(y) not in (int, float) or not math.isfinite(y):
        row = run.mark.rows + 1
        raise ValueError(f"{run.source.name}: row {row}: the target {y!r} is not a number")


def _check_columns(x, run):
    """Raise unless the first row has the columns that are no features."""
    for name in (*run.ids, *run.dropped):
        if name not in x:
            error = DataError(f"there is no column {name!r}", run.source.name)
            error.hint = did_you_mean(name, [*x])
            raise error


class _ErrorLines:
    """Prints on stderr the error of all rows, and of the rows since the previous line.

    There is a line each time the number of rows has doubled, and each time drift is noticed.
    """

    def __init__(self, run, quiet):
        self.run, self.quiet = run, quiet
        self.next, self.before, self.n_drifts = 1, (0, 0.0), len(run.drifts)
        while self.next <= run.rows:
            self.next *= 2
        if not quiet:
            name = "error" if run.task == "classification" else "squared error"
            note(f"{'rows':>14} {name:>14} {'new rows':>14} {'half-life':>10} {'drift at row':>14}")

    def __call__(self, last=False):
        rows, drifts = self.run.rows, self.run.drifts[self.n_drifts :]
        is_due = rows >= self.next or drifts or (last and rows > self.before[0])
        if self.quiet or not is_due:
            return
        model = self.run.estimator
        so_far = model.progressive_error_
        n, total = self.before
        recent = (so_far * rows - total) / (rows - n)
        at = f"{drifts[-1]:14,}" if drifts else ""
        line = f"{rows:14,} {so_far:14.4g} {recent:14.4g} {model.half_life_:10,.0f} {at}"
        note(line.rstrip())
        self.before, self.n_drifts = (rows, so_far * rows), len(self.run.drifts)
        while self.next <= rows:
            self.next *= 2
