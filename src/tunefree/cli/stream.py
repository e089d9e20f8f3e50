"""``tunefree stream``: predict each row when it arrives, then learn it."""

import contextlib
import itertools
import json
import math
import os
import sys
import time
import warnings
from typing import Any

import numpy as np

from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    FAILED,
    USAGE,
    answer,
    as_csv,
    failing,
    is_stdout,
    note,
    stop,
)
from tunefree.cli.drift import MOST_COLUMNS, notes_of_stream
from tunefree.cli.drift_streams import RecordSample
from tunefree.cli.rows import check_classes, note_cells, note_skipped, skipped_of
from tunefree.cli.train import check_outputs, guess_and_advise, resumable
from tunefree.core.warn import did_you_mean
from tunefree.engine.sources import Mark
from tunefree.engine.sources.readers import Replay
from tunefree.files.arriving import is_pipe
from tunefree.files.files import (
    DataError,
    Named,
    Skipped,
    chunks,
    detected,
    fingerprint,
    name_of,
)
from tunefree.files.model import ModelError, load_values, save_model
from tunefree.files.records import columns_with_commas, records
from tunefree.rows.cells import is_marker, value_of
from tunefree.rows.schema import BadCells, bad_words
from tunefree.rows.written_numbers import Numbers
from tunefree.streams.betting import ALPHAS
from tunefree.streams.classifier import StreamClassifier
from tunefree.streams.drift import DriftAlarm
from tunefree.streams.regressor import StreamRegressor

# The task is guessed from this many targets.
_LOOK = 200
# Rows that a model keeps to be compared with later ones.
_SAMPLED = 2000


class _Classification:
    """The lines of predicted classes, with sets of classes."""

    estimator: Any = StreamClassifier
    error, add_error = "error", DriftAlarm.add
    columns = "prediction", "probability", "set"

    @staticmethod
    def predict(model, x, y, key, alpha):
        """A line, whether the set holds the target, and the error."""
        probabilities = model.predict_proba_one(x, key)
        best = max(probabilities, key=probabilities.__getitem__) if probabilities else ""
        labels = model.predict_set_one(x, alpha)
        line = (best, probabilities.get(best, ""), "|".join(sorted(map(str, labels))))
        return line, y in labels, best != y


class _Regression:
    """The lines of predicted numbers, with intervals."""

    estimator: Any = StreamRegressor
    error, add_error = "squared error", DriftAlarm.add_residual
    columns = "prediction", "low", "high"

    @staticmethod
    def predict(model, x, y, key, alpha):
        """A line, whether the interval holds the target, and the error."""
        prediction = model.predict_one(x, key)
        low, high = model.predict_interval_one(x, alpha)
        line = ("" if prediction is None else prediction, low, high)
        wrong = 0.0 if prediction is None or y is None else abs(y - prediction)
        return line, y is not None and low <= y <= high, wrong


_TASKS: dict[str, Any] = {"classification": _Classification, "regression": _Regression}


class _Source:
    """The data: their rows, and what identifies them in a checkpoint."""

    sample: Any = None

    def __init__(self, data, kind, options):
        self.name, self.data, self.kind = name_of(options.data), data, kind
        names = ("target", "header", "delimiter", "sheet")
        columns = {name: getattr(options, name) for name in names}
        self.columns = {name: value for name, value in columns.items() if value is not None}
        is_kept = options.model is not None or options.checkpoint is not None
        if is_kept and kind != "libsvm":
            self.sample = RecordSample(_SAMPLED, MOST_COLUMNS)

    def records(self, layout, skipped, place, before):
        """The rows from a place on; `before` is called before each wait for more of a pipe."""
        data, how = self.data, {"layout": layout, "skipped": skipped, "place": place}
        if isinstance(data, Replay):
            data, how["is_live"] = Named(self.name, _waiting(data.for_good(), before)), True
        return records(data, self.kind, **how, **self.columns)

    def first_records(self, layout, skipped):
        """The first rows, which are read again; of a pipe those of its first two lines."""
        data = self.data
        if isinstance(data, Replay):
            data = data.head(lambda text: text.count(b"\n") >= 2)
        return records(data, self.kind, layout=layout, skipped=skipped, **self.columns)

    def no_rows(self, layout):
        """The error for data without rows; the layout is that of the first line, if any."""
        words = f"the file has {'a header and ' if layout else ''}no rows"
        return DataError(words, self.name)

    def identity(self, mark):
        """A hash of the file up to the mark; None for other data."""
        found = os.path.isfile(self.name)
        return {"content": fingerprint(self.name, mark.place[0]) if found else None}


def _waiting(pieces, before):
    """Pieces, with a call before each of them is waited for."""
    while True:
        before()
        piece = next(pieces, None)
        if piece is None:
            return
        yield piece


# What a checkpoint holds beside the estimator and the position.
_COUNTS = ("task", "coverage", "delay", "layout", "covered", "rows", "pending", "drifts")


class _StreamRun:
    """The state of a run, which a checkpoint saves."""

    epoch, width = 0, 1

    def __init__(self, task, source, options, out):
        self.estimator, self.source, self.task = _TASKS[task].estimator(), source, task
        self.coverage, self.delay, self.out = options.coverage, options.delay, out
        self.has_places = out is not None and os.path.isfile(options.output or "")
        self.alpha = round(1.0 - self.coverage, 12)
        self.ids, self.dropped = options.id or [], options.drop or []
        # Rows whose labels are delayed: number, values, label, whether covered, and how wrong.
        self.pending = []
        self.alarm, self.drifts = DriftAlarm(), []
        self.mark, self.layout, self.covered, self.rows = Mark((0, 1)), [], 0, 0

    @property
    def state(self):
        """The position in the file of predictions, the layout of the first line, and the counts."""
        written = 0
        if self.has_places:
            self.out.flush()
            os.fsync(self.out.fileno())
            written = self.out.tell()
        waiting = vars(self.estimator).get("_waiting", {})
        counts = {name: getattr(self, name) for name in _COUNTS} | {"alarm": vars(self.alarm)}
        return counts | {"written": written, "waiting": [*waiting.items()]}

    def resume(self, estimator, mark, epoch, width, state):
        """Continue from a checkpoint; predictions after it are made again."""
        for name in ("coverage", "delay"):
            if state[name] != getattr(self, name):
                raise ModelError(f"the checkpoint was written with --{name} {state[name]}")
        if state["waiting"]:
            vars(estimator)["_waiting"] = dict(state["waiting"])
        self.estimator, self.mark = estimator, mark
        for name in _COUNTS:
            setattr(self, name, state[name])
        vars(self.alarm).update(state["alarm"])
        if self.has_places:
            if os.fstat(self.out.fileno()).st_size < state["written"]:
                raise ModelError(f"{self.out.name} lacks predictions made before the checkpoint")
            self.out.truncate(state["written"])
            self.out.seek(state["written"])

    def flush(self):
        """Send the predictions so far."""
        if self.out is not None:
            self.out.flush()

    def take(self, record):
        """Predict a row, write the prediction, and learn the row whose label arrives now."""
        x, y, row = record.x, record.y, self.mark.rows + 1
        ids = [x.pop(name, "") for name in self.ids]
        for name in self.dropped:
            x.pop(name, None)
        if self.source.sample is not None:
            self.source.sample.add(x)
        key = row if self.delay else None
        line, covered, wrong = _TASKS[self.task].predict(self.estimator, x, y, key, self.alpha)
        if self.out is not None:
            self.out.write(as_csv([[*ids, *line]]).encode())
        self.pending.append((row, x, y, covered, wrong))
        if len(self.pending) > self.delay:
            self._learn(*self.pending.pop(0))
        self.mark = Mark(record.place, row)

    def known(self, record):
        """A record whose label is a number if labels are; None if that is a marker, such as "-"."""
        if not isinstance(record.y, str):
            return record
        if not is_marker(record.y):
            is_number = self.task == "regression"
            return record._replace(y=_as_number(record.y)) if is_number else record
        classes = vars(self.estimator).get("classes_", ())
        are_texts = any(isinstance(one, str) for one in np.asarray(classes).tolist())
        is_class = self.task == "classification" and are_texts
        return record if is_class else record._replace(y=None)

    def _learn(self, row, x, y, covered, wrong):
        """Learn a row whose label has arrived."""
        model = self.estimator
        model.learn_one(x, y, key=row if self.delay else None)
        if y is None:
            return
        self.covered, self.rows = self.covered + covered, self.rows + 1
        if _TASKS[self.task].add_error(self.alarm, wrong, model.half_life_):
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
    resuming, skipped = options.resume and os.path.exists(options.checkpoint), skipped_of(options)
    with failing(BAD_DATA, options.data):
        source, task = _opened(options), options.task
        if task == "auto":
            task = _task_of(options.checkpoint) if resuming else _guessed_task(source)
    start = time.perf_counter()
    output = "-" if _flows(options) else options.output
    with failing(FAILED, output), _predictions_file(output, resuming) as out:
        run = _StreamRun(task, source, options, out)
        _go(run, skipped, options)
        run.flush()
        if not run.mark.rows:
            stop(str(source.no_rows(run.layout)), BAD_DATA)
    note_skipped(skipped)
    if options.model is not None and run.rows:
        notes = _notes(task, options, run.layout)
        if source.sample is not None and source.sample.n_seen == run.mark.rows:
            notes |= notes_of_stream(run.estimator, source.sample.rows())
        with failing(FAILED, options.model):
            save_model(run.estimator, options.model, notes=notes)
    if options.json:
        answer(json.dumps(run.summary() | {"seconds": time.perf_counter() - start}))


def _flows(options):
    """Whether predictions go to stdout: those of a pipe do, unless something else is asked for."""
    if options.output is not None:
        return is_stdout(options.output)
    return is_pipe(options.data) and not options.json and options.checkpoint is None


def _notes(task, options, layout):
    """What other commands must know of the data."""
    notes = {"task": task}
    if options.target is not None:
        notes["target"] = [options.target, sys.maxsize]
    if commas := columns_with_commas(layout):
        notes["commas"] = commas
        if layout[2] in commas and task == "regression":
            notes["target_written"] = Numbers(",")._asdict()
    return notes | ({"ids": list(options.id)} if options.id else {})


def _check(options):
    """Stop, before any work, if the options do not fit."""
    if options.resume and options.restart:
        stop("--resume continues, --restart begins again: give one of them", USAGE)
    files = (options.checkpoint, None if is_stdout(options.output) else options.output)
    for path in filter(None, files):
        is_kept = not (options.resume or options.restart)
        if is_kept and os.path.isfile(path) and os.path.getsize(path):
            more = " or --resume to continue" if options.checkpoint else ""
            stop(f"{path} exists: give --restart to overwrite it{more}", USAGE)
    choices = [round(1.0 - alpha, 12) for alpha in ALPHAS]
    if options.coverage not in choices:
        words = ", ".join(map(str, choices))
        stop(f"--coverage {options.coverage} is none of {words}", USAGE)
    check_outputs(options)


def _opened(options):
    """The data, in the format that is given, or else that of the name or of the first line."""
    data, kind = options.data, options.format
    if data == "-" or not os.path.isfile(data):  # perhaps a pipe, which is read once
        data = Replay(name_of(data), chunks(data))
    kind, _ = detected(data, kind)
    if kind in ("npy", "npz"):
        stop(f"{kind} files cannot be streamed: their rows have no names", USAGE)
    if kind == "libsvm" and (options.target or options.header is not None):
        stop("--target and --header are for tables, but this file is libsvm", USAGE)
    if kind == "libsvm" and (options.id or options.drop):
        stop("--id and --drop are for tables, but this file is libsvm", USAGE)
    return _Source(data, kind, options)


def _guessed_task(source):
    """The task, by the first targets."""
    skipped, layout = Skipped(), []
    rows = source.first_records(layout, skipped)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rows are read again, with these warnings
        first = next(rows, None)
        if first is None:
            raise skipped.first or source.no_rows(layout)
        found = (row.y for row in itertools.chain([first], rows) if row.y is not None)
        y = list(itertools.islice(found, _LOOK))
    if not any(isinstance(v, str) and not is_marker(v) for v in y):
        y = [v for v in y if not isinstance(v, str)]  # markers of missing values among numbers
    written = [_as_number(v) if isinstance(v, str) else v for v in y]
    if all(type(v) in (int, float) for v in written):
        y = written  # such as $944.00
    if not y:
        stop("no complete row with a target was found: see --target, or give --task", USAGE)
    numbers = all(type(v) in (int, float) for v in y)
    targets = np.array(y, dtype=float if numbers else str)
    check_classes(targets, source.name)
    task, reason = guess_and_advise(targets)
    if layout and "target" not in source.columns:
        note(f"target: {layout[2] if source.kind == 'csv' else layout[0]}")
    note(f"{task}: {reason}")
    return task


def _as_number(label):
    """A label as a number if it is written as one, such as $944.00; else as it is."""
    value = value_of(label)
    return value if type(value) in (int, float) else label


def _task_of(checkpoint):
    with failing(BAD_MODEL, checkpoint):
        state = load_values(checkpoint, kind="checkpoint")["state"]
        return state["task"] if isinstance(state, dict) else "classification"


def _predictions_file(path, resuming):
    """The file of predictions, or None; a run that resumes appends to it."""
    if path is None:
        return contextlib.nullcontext()
    if path == "-":
        return contextlib.nullcontext(sys.stdout.buffer)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device
        return open(path, "wb")
    return open(path, "r+b" if resuming and os.path.exists(path) else "wb")


def _go(run, skipped, options):
    """Take all rows, with or without a checkpoint."""
    with failing(BAD_DATA, options.data):
        if options.checkpoint is None:
            _take_all(run, None, skipped, options.json)
            return
        with resumable(options) as saved, saved.watch(run):
            _take_all(run, saved, skipped, options.json)
            saved.save(run)


def _take_all(run, saved, skipped, quiet):
    """Take all rows from the mark on, and print the error each time their number has doubled."""
    if run.out is not None and not (run.has_places and run.out.tell()):
        run.out.write(as_csv([[*run.ids, *_TASKS[run.task].columns]]).encode())
    print_error = _ErrorLines(run, quiet)
    with _other_cells_counted(run):
        for record in run.source.records(run.layout, skipped, run.mark.place, run.flush):
            record = run.known(record)
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


@contextlib.contextmanager
def _other_cells_counted(run):
    """Name the first cell of each column that is not of its kind, by its row; count them all."""
    counted, latest = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("always", BadCells)
        show = warnings.showwarning

        def showwarning(message: Any, *args, **kwargs):
            if not isinstance(message, BadCells):
                show(message, *args, **kwargs)
                return
            row = run.mark.rows + 1
            for bad in message.found:
                if bad.column not in counted:
                    place = f"row {row} of {run.source.name}"
                    counted[bad.column] = bad._replace(count=0, row=place)
                    note(f"note: {bad_words([bad._replace(row=place)], str)}")
                known, is_new = counted[bad.column], latest.get(bad.column) != row
                counted[bad.column] = known._replace(count=known.count + is_new)
                latest[bad.column] = row

        warnings.showwarning = showwarning
        yield
    note_cells({name: bad for name, bad in counted.items() if bad.count > 1})


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
            words, hint = f"there is no column {name!r}", did_you_mean(name, [*x])
            raise DataError(words, run.source.name, hint=hint)


class _ErrorLines:
    """Prints on stderr the error of all rows, and of the rows since the previous line.

    There is a line each time the number of rows has doubled, and each time drift is noticed.
    """

    def __init__(self, run, quiet):
        self.run, self.quiet = run, quiet
        self.before, self.n_drifts = (0, 0.0), len(run.drifts)
        if not quiet:
            name = _TASKS[run.task].error
            head = f"{'rows':>14} {name:>14} {'latest rows':>14} {'half-life':>10}"
            note(f"{head} {'drift at row':>14}")

    def __call__(self, last=False):
        rows, drifts = self.run.rows, self.run.drifts[self.n_drifts :]
        is_doubled = rows & (rows - 1) == 0
        is_due = drifts or (rows > self.before[0] and (last or is_doubled))
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
