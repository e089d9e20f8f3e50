"""``tunefree stream``: predict each row, then learn it, as it comes."""

import itertools
import json
import math
import os
import time
from typing import Any

import numpy as np

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
from tunefree.io import Named, Skipped, format_of, sniff_text
from tunefree.io.files import chunks, fingerprint
from tunefree.io.model import ModelError, save_model
from tunefree.io.records import records

# So many first rows tell the task.
_LOOK = 200
_HEADS = {
    "classification": ("prediction", "probability", "set"),
    "regression": ("prediction", "low", "high"),
}


class _Source:
    """The data, for a checkpoint to know them by."""

    def __init__(self, data, pieces):
        self.name, self.pieces = "<stdin>" if data == "-" else data, pieces

    def identity(self, mark):
        """What comes before the mark."""
        found = os.path.isfile(self.name)
        return {"content": fingerprint(self.name, mark.place[0]) if found else None}


class _Run:
    """A stream under way: what a checkpoint saves of it."""

    epoch, width = 0, 1

    def __init__(self, estimator, source, task, alpha, delay, out):
        self.estimator, self.source, self.task = estimator, source, task
        self.alpha, self.delay, self.out = alpha, delay, out
        self.late = []  # rows whose labels have yet to come: number, values, label, whether held
        self.mark, self.layout, self.held, self.rows = Mark((0, 1)), [], 0, 0

    @property
    def state(self):
        """Where the predictions are, and what the first line said."""
        if self.out is not None:
            self.out.flush()
            os.fsync(self.out.fileno())
        written = 0 if self.out is None else self.out.tell()
        asked = vars(self.estimator).get("_waiting", {})
        return {"task": self.task, "alpha": self.alpha, "delay": self.delay, "layout": self.layout,
                "held": self.held, "rows": self.rows, "written": written, "late": self.late,
                "asked": [*asked.items()]}  # fmt: skip

    def resume(self, estimator, mark, epoch, width, state):
        """Go on from what a checkpoint holds; predictions after it are made again."""
        for name in ("alpha", "delay"):
            if state[name] != getattr(self, name):
                raise ModelError(f"the checkpoint has --{name} {state[name]}")
        self.late = state["late"]
        if state["asked"]:
            vars(estimator)["_waiting"] = dict(state["asked"])
        self.estimator, self.mark, self.task = estimator, mark, state["task"]
        self.layout, self.held, self.rows = state["layout"], state["held"], state["rows"]
        if self.out is not None:
            if os.fstat(self.out.fileno()).st_size < state["written"]:
                raise ModelError(f"{self.out.name} lacks predictions made before the checkpoint")
            self.out.truncate(state["written"])
            self.out.seek(state["written"])

    def take(self, record):
        """Predict a row, write what was predicted, and learn the row whose label comes now."""
        model, x, y = self.estimator, record.x, record.y
        row = self.mark.rows + 1
        key = row if self.delay else None
        if self.task == "classification":
            chances = model.predict_proba_one(x, key)
            best = max(chances, key=chances.__getitem__) if chances else ""
            within = model.predict_set_one(x, self.alpha)
            line = (best, chances.get(best, ""), "|".join(sorted(map(str, within))))
            held = y in within
        else:
            said = model.predict_one(x, key)
            low, high = model.predict_interval_one(x, self.alpha)
            line = ("" if said is None else said, low, high)
            held = y is not None and low <= y <= high
        if self.out is not None:
            self.out.write(as_csv([line]).encode())
        self.late.append((row, x, y, held))
        if len(self.late) > self.delay:
            row_then, x, y, held = self.late.pop(0)
            model.learn_one(x, y, key=row_then if self.delay else None)
            if y is not None:
                self.held, self.rows = self.held + held, self.rows + 1
        self.mark = Mark(record.place, row)

    def summary(self):
        """What has been learned, in numbers."""
        model = self.estimator
        told = {"task": self.task, "rows": self.mark.rows, "labelled": self.rows}
        if self.rows:
            told["error"] = model.progressive_error_
            told["half_life"] = model.half_life_
            told["covered"] = self.held / self.rows
            told["outlier_rows"] = model.n_outlier_rows_
        return told


def run_stream(
    data, *, task, output, model, alpha, delay, checkpoint, every, resume, on_bad_row, as_json,
    format, **columns,
):  # fmt: skip
    """Carry out ``tunefree stream``."""
    if resume and checkpoint is None:
        stop("--resume needs --checkpoint FILE", USAGE)
    for path, what in ((model, "model"), (checkpoint, "checkpoint")):
        if path is not None:
            check_output(path, what)
    going_on = resume and os.path.exists(str(checkpoint))
    with failing(BAD_DATA, data):
        pieces, kind = _opened(data, format)
        if kind == "libsvm" and (columns["target"] or columns["header"] is not None):
            stop("--target and --header are for csv and JSON lines", USAGE)
        if kind not in ("csv", "libsvm", "jsonl"):
            stop(f"rows of {kind} do not come one by one: give csv, libsvm or JSON lines", USAGE)
        options = {k: v for k, v in columns.items() if v is not None}
        if not going_on:
            pieces, task = _told_task(pieces, data, kind, task, options)
    with failing(FAILED, output), _written(output, going_on) as out:
        makes: Any = {"classification": StreamClassifier, "regression": StreamRegressor}
        if going_on and task == "auto":
            task = _task_of(checkpoint)
        run = _Run(makes[task](), _Source(data, pieces), task, alpha, delay, out)
        skipped = Skipped() if on_bad_row == "skip" else None
        start = time.perf_counter()
        try:
            if checkpoint is None:
                with failing(BAD_DATA, data):
                    _go(run, None, kind, skipped, options, as_json)
            else:
                saved = Checkpoint(checkpoint, every=every, resume=resume)
                with saved.watch(run):
                    with failing(BAD_DATA, data):
                        _go(run, saved, kind, skipped, options, as_json)
                    saved.save(run)
        except KeyboardInterrupt:
            if checkpoint is None or not run.mark.rows:
                raise
            words = f"{checkpoint} holds what {run.mark.rows} rows taught: --resume goes on"
            stop(f"interrupted; {words}", INTERRUPTED)
        except ModelError as problem:
            stop(str(problem), BAD_MODEL)
    seconds = time.perf_counter() - start
    if skipped is not None and skipped.count:
        note(f"skipped {skipped.count} malformed rows, the first: {skipped.first}")
    if model is not None and run.rows:
        with failing(FAILED, model):
            save_model(run.estimator, model, notes={"task": task})
    if as_json:
        answer(json.dumps(run.summary() | {"seconds": seconds}))


def _opened(data, format):
    """The bytes of the data, and how they hold rows: as told, by the name or by the first line."""
    pieces = data
    suffix = os.path.splitext(data.removesuffix(".gz").removesuffix(".zst"))[1].lower()
    kind = format or ("jsonl" if suffix in (".jsonl", ".ndjson") else format_of(data))
    if kind is None or data == "-":
        stream = chunks(data)
        sniffed, head = sniff_text(stream)
        kind = format or ("jsonl" if head.lstrip()[:1] == b"{" else sniffed)
        pieces = Named("<stdin>" if data == "-" else data, itertools.chain([head], stream))
    return pieces, kind


def _told_task(pieces, data, kind, task, options):
    """The task that was said, or that the targets of the first rows tell."""
    if isinstance(pieces, str):
        look = again = pieces
    else:
        first = next(iter(pieces), b"")
        look = Named(pieces.name, [first[: first.rfind(b"\n") + 1] or first])
        again = Named(pieces.name, itertools.chain([first], pieces))
    if task != "auto":
        return again, task
    found = (r.y for r in records(look, kind, skipped=Skipped(), **options) if r.y is not None)
    y = list(itertools.islice(found, _LOOK))
    if not y:
        stop("no row has a target: --task tells what they will be", USAGE)
    numbers = all(type(v) in (int, float) for v in y)
    task, reason = guess_task(np.array(y, dtype=float if numbers else str))
    other = "regression" if task == "classification" else "classification"
    note(f"{task}: {reason}" + (f"; --task {other} overrules" if numbers else ""))
    return again, task


def _task_of(checkpoint):
    from tunefree.io.model import load_values

    with failing(BAD_MODEL, checkpoint):
        values = load_values(checkpoint, kind="checkpoint")
        return values["state"]["task"] if isinstance(values["state"], dict) else "classification"


class _written:
    """The file of predictions, open to be gone on with; None if none is wanted."""

    def __init__(self, path, going_on):
        self.path, self.mode = path, "r+b" if going_on and path and os.path.exists(path) else "wb"

    def __enter__(self):
        self.file: Any = None if self.path is None else open(self.path, self.mode)
        return self.file

    def __exit__(self, *problem):
        if self.file is not None:
            self.file.close()


def _go(run, saved, kind, skipped, options, quiet):
    """Take all rows from the mark on; the error is told whenever the rows have doubled."""
    if run.out is not None and run.out.tell() == 0:
        run.out.write(as_csv([_HEADS[run.task]]).encode())
    told = _Told(run, quiet)
    for record in records(
        run.source.pieces, kind, place=run.mark.place, layout=run.layout, skipped=skipped, **options
    ):
        _check(record.y, run)
        if saved is None:
            run.take(record)
        else:
            saved.begin()
            run.take(record)
            saved.end(run)
        told()
    told(last=True)


def _check(y, run):
    if (
        run.task == "regression"
        and y is not None
        and (type(y) not in (int, float) or not math.isfinite(y))
    ):
        raise ValueError(
            f"{run.source.name}: row {run.mark.rows + 1}: the target {y!r} is no number"
        )


class _Told:
    """Prints the running error on stderr."""

    def __init__(self, run, quiet):
        self.run, self.quiet = run, quiet
        self.next, self.before, self.start = 1, (0, 0.0), time.perf_counter()
        while self.next <= run.rows:
            self.next *= 2
        if not quiet:
            name = "error" if run.task == "classification" else "squared error"
            note(f"{'rows':>14} {name:>14} {'of late':>14} {'half-life':>10}")

    def __call__(self, last=False):
        rows = self.run.rows
        if self.quiet or rows < self.next and not (last and rows > self.before[0]):
            return
        model = self.run.estimator
        so_far = model.progressive_error_
        n, total = self.before
        late = (so_far * rows - total) / (rows - n)
        note(f"{rows:14,} {so_far:14.4g} {late:14.4g} {model.half_life_:10,.0f}")
        self.before, self.next = (rows, so_far * rows), 2 * rows
