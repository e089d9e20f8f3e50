"""``tunefree train``: read, choose the task, fit, save, and print a summary.

Data are learned from a table in memory, or while they are read: large files, large standard input,
and data with a checkpoint, hashed columns or shuffled windows.
"""

import contextlib
import inspect
import itertools
import json
import os
import re
import time
import warnings
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from rich.console import Console
from scipy import sparse
from sklearn.base import is_classifier

from tunefree._format import duration, number
from tunefree._warn import did_you_mean
from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    FAILED,
    INTERRUPTED,
    USAGE,
    answer,
    check_writable,
    failing,
    note,
    stop,
    working,
)
from tunefree.engine.session import Checkpoint
from tunefree.engine.sources import open_source
from tunefree.engine.sources.readers import Replay
from tunefree.estimators.fitting import NoProgress, PrintedProgress
from tunefree.io import DataError, Named, Skipped, format_of
from tunefree.io.files import chunks
from tunefree.io.mixed import read_mixed, read_numbers
from tunefree.io.model import ModelError, is_model, save_model
from tunefree.io.tables import IGNORED, no_rows, unnamed

# The task is guessed from so many bytes of standard input, or rows of a file.
_LOOK, _ROWS = 128 << 10, 20_000
MOST_CLASSES = 20
_MOST_NOTED = 1000  # columns whose spread a model file holds
# Files, and standard input, of more bytes are not loaded into memory.
_LARGE_FILE, _LARGE_INPUT = 256 << 20, 32 << 20
_KINDS = {
    "number": "numeric",
    "truth": "boolean",
    "date": "date",
    "date dmy": "date (day first)",
    "text": "text",
}


class Trained(NamedTuple):
    """The result of a training."""

    estimator: Any
    notes: dict
    skipped: Skipped
    seconds: float


def run_train(options):
    """Carry out ``tunefree train``; `options` is a `TrainOptions`."""
    check_output(options.model)
    if options.checkpoint is not None:
        check_output(options.checkpoint, "checkpoint")
    source, why = _opened(options)
    if why is None:
        done = _from_table(source, options)
    else:
        done = _from_source(source, why, _streamed(options, why, isinstance(source, str)))
    if done.skipped.count:
        note(f"skipped {done.skipped.count} malformed rows, the first: {done.skipped.first}")
    with failing(FAILED, options.model):  # without times: equal seeds give equal files
        save_model(done.estimator, options.model, notes=done.notes)
    summary = _summary(done)
    _print_summary(summary, options.model)
    if options.json:
        answer(json.dumps(summary))


def _opened(options):
    """The source of rows; and why they are learned while they are read, or None: from a table."""
    data, why = options.data, _implied(options)
    with failing(BAD_DATA, data), working(f"reading {data}"):
        if why is not None:
            source = Replay("<stdin>", chunks("-")) if data == "-" else data
        elif data != "-" and options.estimator in ("kernel", "trees"):
            source = data
        else:
            source, large = open_data(data)
            if large:
                why = "large standard input" if data == "-" else "a large file"
    role = next(iter(_role_columns(options)), None)
    if why and role is not None:
        stop(f"--{role} is not available with {why}: rows are learned as they are read", USAGE)
    return source, why


def check_output(model, what="model"):
    """Stop early if a file cannot be written, or is not a model that may be replaced."""
    check_writable(model)
    if os.path.isfile(model) and os.path.getsize(model):
        with failing(USAGE, model):
            if not is_model(model):
                stop(f"{model} exists and is not a {what}: it is not overwritten", USAGE)


# --- The task and the estimator -------------------------------------------------------------------


def guess_task(y):
    """Classification or regression, by the target, and the reason.

    Text is classification, and so are one or two distinct whole numbers, or up to 20 that occur at
    least twice on average: class numbers repeat, measurements and large counts do not.

    >>> guess_task(np.array([1.0, -1.0, 1.0]))
    ('classification', 'the target has 2 distinct values, all whole numbers')
    >>> guess_task(np.array([0.5, 1.0, 2.0]))[0]
    'regression'
    """
    if y.dtype.kind not in "biuf":
        return "classification", "the target is text"
    values = np.unique(y)
    if np.any(values != np.floor(values)):
        return "regression", "the target has fractions"
    are_classes = len(values) <= 2 or len(values) <= min(MOST_CLASSES, len(y) / 2)
    reason = f"the target has {len(values)} distinct values, all whole numbers"
    return ("classification" if are_classes else "regression"), reason


def _choose_task(options, y):
    """The task, and the reason for it."""
    task, reason = _implied_task(options)
    if task != "auto":
        return task, reason
    task, reason = guess_task(y)
    other = "regression" if task == "classification" else "classification"
    return task, reason + (f"; use --task {other} to change this" if y.dtype.kind in "biuf" else "")


# The estimators: the first part of their classes' names, or the only class and its task.
_STEMS = {
    "auto": "TuneFree",
    "trees": "BoostedTrees",
    "glm": "GLM",
    "reflectron": "Reflectron",
    "pistol": "PiSTOL",
    "kernel": "KernelPiSTOL",
}
_SINGLE = {
    "ridge": ("RidgePathRegressor", "regression"),
    "separator": ("OptimisticPerceptron", "classification"),
}
# Options that are parameters of an estimator, by their names there, and those that are of its fit.
_SAME = (
    "loss quantile family link potential categories compress budget max_memory scoring merge_levels"
).split()
_PARAMETERS = dict(zip(_SAME, _SAME, strict=True)) | {
    "passes": "max_iter",
    "categorical": "categorical_features",
}
_OF_FIT = ("exposure", "offset", "groups")
_NEEDED = ("exposure", "offset")  # columns beside the features that new rows must have, too


def _class_of(name, task):
    """The class of an estimator for a task; None if it does not have the task."""
    from tunefree._registry import estimator_class

    if name in _SINGLE:
        single, only = _SINGLE[name]
        return estimator_class(single) if task == only else None
    return estimator_class(_STEMS[name] + ("Regressor" if task == "regression" else "Classifier"))


def _takes(cls, option):
    """Whether a class has an option."""
    if option in _OF_FIT:
        return option in inspect.signature(cls.fit).parameters
    return _PARAMETERS[option] in inspect.signature(cls).parameters


def _flag(option):
    return "--" + option.replace("_", "-")


def make_estimator(options, task, table=None):
    """The estimator for a task, and for a table if the rows are in memory.

    Stops if it does not have the task, or an option that was given.
    """
    name = options.estimator
    cls = _class_of(name, task)
    if cls is None:
        stop(f"--estimator {name} is for {_SINGLE[name][1]}, but the task is {task}", USAGE)
    given = {option: getattr(options, option) for option in (*_PARAMETERS, *_OF_FIT)}
    given = {o: value for o, value in given.items() if value is not None and value is not False}
    if "family" in given and name in ("auto", "trees"):
        given.setdefault("loss", given.pop("family"))
    for option in given:
        if not _takes(cls, option):
            stop(f"{_flag(option)} is for {_owners(name, option, task)}", USAGE)
    settings = {_PARAMETERS[o]: value for o, value in given.items() if o in _PARAMETERS}
    settings |= _parsed(given, task, table)
    if name == "separator":
        settings |= {"method": "auto", "stop": "margin"}
    else:
        settings["random_state"] = options.seed
    if name == "glm" and task == "regression" and table is None:  # rows come in chunks
        settings.setdefault("family", "gaussian")
    return cls(**settings)


def _owners(name, option, task):
    """The estimators with an option; the task, if it is only for another one."""
    other = "classification" if task == "regression" else "regression"

    def owners(task):
        classes = {name: _class_of(name, task) for name in (*_STEMS, *_SINGLE)}
        return [name for name, cls in classes.items() if cls and _takes(cls, option)]

    if name in owners(other):
        return f"--task {other}, but the task is {task}"
    names = owners(task)
    words = "" if names else f" --task {other}"
    *first, last = names or owners(other)
    return f"--estimator {', '.join(first)}{' or ' if first else ''}{last}{words}"


def _parsed(given, task, table):
    """Parameters whose values in Python are no text."""
    parsed = {}
    if "categorical" in given:
        parsed["categorical_features"] = _positions(given["categorical"], table)
    if "quantile" in given:
        parsed["loss"] = given.get("loss", "quantile")
    if "categories" in given:
        if given.get("family") != "ordinal" or task == "regression":
            stop("--categories is for --family ordinal --task classification", USAGE)
        parsed["categories"] = [grade.strip() for grade in given["categories"].split(",")]
    return parsed


@contextlib.contextmanager
def _named_as_options(estimator):
    """Name the option in an error for a parameter of the estimator, which ends the command."""
    options = {parameter: _flag(option) for option, parameter in _PARAMETERS.items()}
    try:
        yield
    except ValueError as problem:
        parameter, _, words = str(problem).partition("=")
        if parameter not in options or parameter not in estimator.get_params(deep=False):
            raise
        stop(f"{options[parameter]} {words}", USAGE)


def _implied_task(options):
    """The task, and the reason, by the options; (auto, None) if these are of both tasks."""
    if options.task != "auto":
        return options.task, "set by --task"
    for option in _NEEDED:
        if getattr(options, option) is not None:
            return "regression", f"--{option} is for counts and amounts"
    if options.quantile is not None:
        return "regression", "--quantile is for numbers"
    option, name = ("loss", options.loss) if options.family is None else ("family", options.family)
    if name is None:
        return "auto", None
    from tunefree.families import FAMILIES, OF_CLASSES
    from tunefree.losses import LOSSES

    task = getattr(LOSSES.get(name), "task", "both")
    if name in FAMILIES and name != "binomial":  # which is of shares, too
        task = "classification" if name in OF_CLASSES else "regression"
    return ("auto", None) if task == "both" else (task, f"--{option} {name}")


def _role_columns(options):
    """The columns that are not features, by what they are."""
    names = {name: getattr(options, name) for name in _OF_FIT}
    return {name: column for name, column in names.items() if column is not None}


def _needed(options):
    """The options of columns that new rows must have, too."""
    return [name for name in _NEEDED if getattr(options, name) is not None]


def _positions(columns, table, option="categorical"):
    """The feature numbers of columns given by name, or by position in the file."""
    if not columns:
        return []
    if table.zero_based is not None:
        stop(f"--{option} needs a table, but this file is libsvm", USAGE)
    names, slots, out = table.feature_names or [], table.slots, []
    for column in columns:
        if column in names:
            out.append(names.index(column))
        elif column.lstrip("-").isdigit() and slots[int(column) % len(slots)] >= 0:
            out.append(int(slots[int(column) % len(slots)]))
        else:
            meant = did_you_mean(column, names, " (did you mean {}?)") or ""
            stop(f"--{option} {column}: there is no such feature column{meant}", USAGE)
    return out


def split_role_columns(X, positions):
    """Rows without the columns that are not features, and these columns by role.

    >>> split_role_columns(np.array([[1.0, 2.0, 3.0]]), {"exposure": 1})
    (array([[1., 3.]]), {'exposure': array([2.])})
    """
    if not positions:
        return X, {}
    if hasattr(X, "column_names"):
        names = {n: X.column_names[j] for n, j in positions.items()}
        return X.drop_columns(list(names.values())), {n: X[c].to_numpy() for n, c in names.items()}
    return np.delete(X, list(positions.values()), axis=1), {
        n: X[:, j] for n, j in positions.items()
    }


# --- From a table ---------------------------------------------------------------------------------


def _from_table(source, options):
    """Fit to all rows, in memory."""
    data, skipped = options.data, Skipped() if options.on_bad_row == "skip" else None
    kind = float if _implied_task(options)[0] == "regression" else None
    settings = _columns(options) | {"skipped": skipped}
    table = read_rows(source, data, kind, settings, mixed=options.estimator == "auto")
    _check_dropped(options, table.feature_names)
    task, reason = _choose_task(options, table.y)
    make_estimator(options, task, table)  # wrong options stop here, before any work
    positions = {n: _positions([c], table, n)[0] for n, c in _role_columns(options).items()}
    needed, names = _needed(options), table.feature_names
    for option in positions:
        if names is None and option not in needed:  # else new data would need the same position
            stop(f"--{option} needs a file whose columns have names", USAGE)
    table, roles = _without_roles(table, positions)
    notes = notes_of(table, task) | _ids_of(options)
    if needed:
        notes |= {"beside": {n: positions[n] for n in needed}, "columns": names}
    y = table.y
    if task == "classification":
        y = _as_whole_numbers(y)
    _print_data(data, notes, last=options.target is None)
    _print_task(task, reason, y)
    with failing(BAD_DATA, data), working(f"training on {len(y)} rows"), _compilation_noted():
        start, estimator = time.perf_counter(), make_estimator(options, task, table)
        if options.estimator == "auto":
            estimator._active_progress = PrintedProgress("training", NoProgress(), note)
        with _warnings_named(notes), _named_as_options(estimator):
            estimator.fit(table.X, y, sample_weight=table.weight, **roles)
        vars(estimator).pop("_active_progress", None)
        seconds = time.perf_counter() - start
    return Trained(estimator, notes, skipped or Skipped(), seconds)


def _columns(options) -> dict[str, Any]:
    """The options that describe the columns of a file to its reader."""
    return columns_of(options) | {"drop": [*(options.drop or ()), *(options.id or ())]}


def _ids_of(options):
    """The note about columns that name the rows."""
    return {"ids": options.id} if options.id else {}


def _check_dropped(options, names):
    """Stop if columns are dropped from a file in which new data could not be matched by name."""
    if names is None and (options.drop or options.id):
        stop("--drop and --id need a file whose columns have names", USAGE)


def _without_roles(table, positions):
    """A table without the columns that are not features, and these columns."""
    if not positions:
        return table, {}
    X, roles = split_role_columns(table.X, positions)
    rest = [j for j in range(table.X.shape[1]) if j not in positions.values()]
    names, kinds = table.feature_names, table.kinds
    names = names and [names[j] for j in rest]
    kinds = kinds and [kinds[j] for j in rest]
    return table._replace(X=X, feature_names=names, kinds=kinds), roles


def _as_whole_numbers(labels):
    """Classes that are whole numbers as integers, so that predictions read 1, not 1.0."""
    whole = labels.dtype.kind == "f" and len(labels) and np.all(labels == np.floor(labels))
    return labels.astype(np.int64) if whole else labels


@contextlib.contextmanager
def _compilation_noted():
    """Print a note once when numba begins to compile."""
    from numba.core import event

    class Once(event.Listener):
        noted = False

        def on_start(self, event):
            if not self.noted:
                self.noted = True
                note("compiling to machine code, once: the next run loads it from the cache")

        def on_end(self, event):
            pass

    listener = Once()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)


@contextlib.contextmanager
def _warnings_named(notes):
    """Print warnings with the file's names of the columns."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: note(f"note: {named(str(message), notes)}")
        yield


# --- From a source --------------------------------------------------------------------------------


def _implied(options):
    """The option that requires learning rows while they are read, if there is one."""
    format = options.format or format_of(options.data)
    if options.hashed and format not in ("csv", "parquet", "arrow"):
        stop("--hash is for csv, parquet and Arrow files (see --format)", USAGE)
    values = {
        "--checkpoint": options.checkpoint,
        "--hash": options.hashed,
        "--window": options.window,
    }
    return next((option for option, value in values.items() if value), None)


def _streamed(options, why, repeatable):
    """The options for rows that are learned while they are read.

    `repeatable`: whether the data can be read several times.
    """
    name = options.estimator
    if options.hashed and not repeatable:
        stop("--hash needs a file, not standard input", USAGE)
    if name == "auto":
        note(f"{why} implies --estimator pistol")
        return options._replace(estimator="pistol")
    if name in ("kernel", "trees"):
        stop(f"{why} implies --estimator pistol: {name} needs all rows in memory", USAGE)
    if name == "separator" and not repeatable:
        stop(f"{why} implies --estimator pistol: separator makes many passes over a file", USAGE)
    if name in ("glm", "reflectron") and not repeatable:
        note(f"{why}: one pass of stochastic steps instead of several passes")
    return options


def _first_targets(data, options):
    """The targets of the first rows of a file or of standard input."""
    name = data.name if isinstance(data, Replay) else data
    if isinstance(data, Replay):
        text = b""
        for piece in data:
            text += piece
            if len(text) >= _LOOK:
                break
        data = Replay(name, [text[: text.rfind(b"\n") + 1] or text])
    rows, found = 0, []
    source = open_source(data, **options | {"window": 0})
    for chunk in source.chunks():
        if chunk.y is None:
            raise DataError("the file has no target column", name)
        rows += len(chunk)
        found.append(chunk.y)
        if rows > _ROWS:
            break
    if not rows:
        raise no_rows(name, getattr(source.reader, "layout", None))
    return np.concatenate(found)


def _from_source(data, why, options):
    """Learn rows while they are read, because of `why`."""
    hint = "rows that are learned as they are read must be numbers: --hash 262144 accepts text"
    if why.startswith("--"):
        hint += f", and so does --estimator auto without {why}"
    strict = None if options.on_bad_row == "error" else Skipped()
    with failing(BAD_DATA, options.data), skip_hint(strict), feature_hint(hint):
        task, reason, classes, source = _opened_source(data, options)
        if options.hashed is None:
            _check_dropped(options, source.reader.feature_names)
        estimator = make_estimator(options, task)
        _print_task(task, reason, classes)
        start = time.perf_counter()
        with _compilation_noted(), _named_as_options(estimator):
            _learn(source, estimator, classes, options)
        seconds = time.perf_counter() - start
    if hasattr(estimator, "classes_"):
        estimator.classes_ = _as_whole_numbers(estimator.classes_)
    zero_based = getattr(source.reader, "zero_based", "auto")
    notes = layout_of(source.reader, task, source.rows, estimator.n_features_in_, zero_based)
    notes |= {"hashed": options.hashed} | _ids_of(options)
    if options.hashed:
        notes["drop"] = _columns(options)["drop"]
    _print_data(options.data, notes, last=options.target is None)
    return Trained(estimator, notes, source.skipped, seconds)


def _opened_source(data, options):
    """The task, the reason for it, the distinct first targets, and the source of rows."""
    settings: dict[str, Any] = _columns(options) | {
        "hashed": options.hashed,
        "window": options.window,
        "seed": options.seed,
        "on_bad_row": options.on_bad_row,
        "target_type": float if _implied_task(options)[0] == "regression" else None,
    }
    y = _first_targets(data, settings)
    check_classes(y, options.data)
    task, reason = _choose_task(options, y)
    if task == "regression":
        settings["target_type"] = float
    return task, reason, np.unique(y), open_source(data, **settings)


def _learn(source, estimator, classes, options):
    """Fit to a source, with or without a checkpoint."""
    classify = is_classifier(estimator)
    settings: dict[str, Any] = {}
    if classify and len(classes) > 1:
        settings["classes"] = classes
    has_risk = hasattr(estimator, "progressive_risk")
    if (
        has_risk
        and getattr(estimator, "solver", None) != "batch"
        and Console(stderr=True).is_terminal
    ):
        settings["on_chunk"] = _Progress(classify)
    if options.checkpoint is None:
        estimator.fit_source(source, **settings)
        return
    if options.resume and not os.path.exists(options.checkpoint):
        note(f"note: {options.checkpoint} does not exist yet: starting with the first row")
    saved = Checkpoint(options.checkpoint, every=options.every, resume=options.resume)
    with _checkpoint_problems(saved, options.checkpoint):
        estimator.fit_source(source, checkpoint=saved, **settings)


@contextlib.contextmanager
def _checkpoint_problems(saved, path):
    """Turn an interruption and problems with the checkpoint into messages about it."""
    try:
        yield
    except KeyboardInterrupt:
        if not (saved.rows or saved.passes):
            raise
        learned = f"{saved.rows} rows" if saved.rows else f"{saved.passes} passes"
        words = f"{path} holds the state after {learned}: continue with --resume"
        stop(f"interrupted; {words}", INTERRUPTED)
    except ModelError as problem:
        stop(str(problem), BAD_MODEL)
    except OSError as problem:
        if problem.filename != path:
            raise
        stop(f"{path}: {problem.strerror}; the previous checkpoint in it is intact", FAILED)


class _Progress:
    """Prints the error on a terminal each time the number of rows has doubled."""

    def __init__(self, classify):
        self.next, self.start = 1000, time.perf_counter()
        self.name = "error" if classify else "squared error"

    def __call__(self, estimator, row, epoch):
        if epoch or row < self.next:
            return
        if self.next == 1000:
            note(f"{'rows':>14} {self.name:>14} {'last half':>14} {'rows/s':>10}")
        so_far, last_half = (estimator.progressive_risk(share) for share in (1.0, 0.5))
        speed = row / max(time.perf_counter() - self.start, 1e-9)
        note(f"{row:14,} {number(so_far):>14} {number(last_half):>14} {speed:10,.0f}")
        while self.next <= row:
            self.next *= 2


# --- Rows, and the notes about them in a model file -----------------------------------------------


def columns_of(options):
    """The options that describe a file to its reader."""
    names = ("target", "header", "weight_column", "n_features", "format")
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def open_data(data):
    """A source for the readers, and whether the data are too large for memory.

    Standard input ("-") is a `Named` with all of its bytes, or, if it is large, a `Replay` of those
    read so far and of the rest.
    """
    if data != "-":
        return data, os.path.isfile(data) and os.path.getsize(data) > _LARGE_FILE
    pieces, held, size = chunks("-"), [], 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > _LARGE_INPUT:
            return Replay("<stdin>", itertools.chain(held, pieces)), True
    return Named("<stdin>", held), False


@contextlib.contextmanager
def skip_hint(skipped):
    """Add the option that skips malformed rows to the error for one."""
    try:
        yield
    except DataError as problem:
        if skipped is None and problem.row and problem.hint is None:
            problem.hint = "use --on-bad-row skip to skip such rows"
        raise


@contextlib.contextmanager
def feature_hint(words):
    """Add `words` to the error for a feature that is not a number."""
    try:
        yield
    except DataError as problem:
        if problem.feature:
            problem.hint = words
        raise


def read_rows(
    source,
    name,
    kind,
    options,
    *,
    mixed=False,
    hint="--estimator auto accepts text, dates and empty cells",
):
    """Read a `tunefree.io.Table` to learn from.

    `kind` is the type of the targets (None: any). `mixed` accepts text, dates and missing values;
    otherwise `hint` is added to the error for one.
    """
    reader = read_mixed if mixed else read_numbers
    bad = skip_hint(options["skipped"]) if "skipped" in options else contextlib.nullcontext()
    with failing(BAD_DATA, name), working(f"reading {name}"), bad:
        with contextlib.nullcontext() if mixed else feature_hint(hint):
            table = reader(source, target_type=kind, **options)
        if table.y is None:
            raise DataError("the file has no target column", table.path)
        if table.X.shape[1] == 0:
            raise DataError("the file has no features", table.path)
        if np.all(table.y == table.y[0]):
            raise DataError(f"the target is the same in every row: {table.y[0]}", table.path)
        check_classes(table.y, table.path)
        table = _without_row_numbers(table)
        if options["header"] is None and _is_no_header(table):
            note("note: line 1 was read as a header; use --no-header if it is a row of data")
    for option in ("target", "weight_column", "header", "drop"):
        if table.zero_based is not None and options.get(option) not in (None, []):
            stop(f"--{option.replace('_', '-')} is for csv, but {name} is libsvm", USAGE)
    return table


def check_classes(y, path):
    """Refuse text targets of which most values are different."""
    values, rows = len(np.unique(y)), len(y)
    if y.dtype.kind == "U" and values > max(MOST_CLASSES, rows / 2):
        words = f"the target has {values} different texts in {rows} rows: too many for classes"
        raise DataError(f"{words} (see --target)", path)


def _is_no_header(table):
    """Whether every name occurs in its own column, all of which are text."""
    if not hasattr(table.X, "column_names") or set(table.kinds) != {"text"}:
        return False
    if table.feature_names is None or table.target.name not in table.y:
        return False
    names = zip(table.X.column_names, table.X.columns, strict=True)
    return all(name in set(column.to_pylist()) for name, column in names)


def _without_row_numbers(table):
    """Drop a first column without a name that counts the rows, as pandas writes it."""
    names, X = table.feature_names, table.X
    if not names or names[0] != unnamed(0) or len(names) < 2:
        return table
    framed = hasattr(X, "column_names")
    first = X.column(0).to_numpy() if framed else X[:, 0]
    if first.dtype.kind != "f" or not np.array_equal(first - first[0], np.arange(len(first))):
        return table
    note("note: column 1 has no name and counts the rows: it is skipped")
    X = X.drop_columns(names[:1]) if framed else np.ascontiguousarray(X[:, 1:])
    slots = np.where(table.slots > 0, table.slots - 1, np.minimum(table.slots, IGNORED))
    rest = {"feature_names": names[1:], "kinds": table.kinds and table.kinds[1:]}
    return table._replace(X=X, slots=slots, **rest)


def layout_of(found, task, rows, features, zero_based):
    """The notes that prediction needs; `found` is a table or a reader."""
    return {
        "task": task,
        "rows": rows,
        "features": int(features),
        "feature_names": found.feature_names,
        "zero_based": zero_based,
        "target": found.target and list(found.target),
        "weight_column": found.weight_column and list(found.weight_column),
    }


def notes_of(table, task):
    """The notes about a table: layout, kinds of columns and number of missing values."""
    zero_based = "auto" if table.zero_based is None else table.zero_based
    notes = layout_of(table, task, len(table.y), table.X.shape[1], zero_based)
    notes["sample"] = sample_of(table.X, table.y)
    if table.kinds is None:
        stored = table.X if table.zero_based is None else table.X.data
        if table.zero_based is None and table.X.shape[1] <= _MOST_NOTED:
            with np.errstate(over="ignore", invalid="ignore"):
                notes["spread"] = [float(f"{s:.4g}") for s in table.X.std(axis=0)]
        return notes | {"nonzeros": int(np.count_nonzero(stored))}
    if hasattr(table.X, "column_names"):
        gaps = sum(column.null_count for column in table.X.columns)
    else:
        gaps = int(np.count_nonzero(np.isnan(table.X)))
    return notes | {"kinds": table.kinds, "gaps": gaps}


def fingerprints(X, y, rows):
    """A hash of each of some rows and their targets, independent of the file format.

    >>> eye = np.eye(2)
    >>> fingerprints(eye, np.ones(2), [1, 0]) == fingerprints(eye[::-1], np.ones(2), [0, 1])
    True
    """
    if hasattr(X, "schema"):
        cells = zip(*(column.to_pylist() for column in X.take(rows).columns), strict=True)
        texts = [repr(row).encode() for row in cells]
    elif sparse.issparse(X):
        X = X[rows].sorted_indices()
        spans = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        texts = [
            X.indices[a:b].astype(np.int64).tobytes() + X.data[a:b].tobytes() for a, b in spans
        ]
    else:
        texts = [np.asarray(row, dtype=np.float64).tobytes() for row in X[rows]]
    return [
        crc32(repr(label).encode(), crc32(text))
        for text, label in zip(texts, y[rows].tolist(), strict=True)
    ]


def sample_of(X, y, most=64, examined=20_000):
    """Fingerprints of some training rows, and the share of rows that occur more than once."""
    examined = max(most, min(examined, 2_000_000 // X.shape[1]))
    rows = np.arange(len(y))[:: -(-len(y) // examined)]
    prints = np.array(fingerprints(X, y, rows))
    _, codes, counts = np.unique(prints, return_inverse=True, return_counts=True)
    step = -(-len(rows) // most)
    return {"rows": prints[::step].tolist(), "twins": float(np.mean(counts[codes] > 1))}


def describe_kinds(notes):
    """The number of columns of each kind; nothing if all are numeric.

    >>> describe_kinds({"kinds": ["number", "text", "number"]})
    '2 numeric, 1 text'
    """
    kinds = notes.get("kinds") or []
    if set(kinds) <= {"number"}:
        return ""
    return ", ".join(f"{kinds.count(k)} {name}" for k, name in _KINDS.items() if k in kinds)


def column_label(column):
    """The name of a column, or its number."""
    name, position = column
    return unnamed(position) if name is None else name


# --- What is printed ------------------------------------------------------------------------------


def _summary(done):
    """What ``--json`` prints: the chosen candidates, their risk, passes and seconds."""
    from tunefree import PiSTOLClassifier, PiSTOLRegressor

    estimator, notes = done.estimator, done.notes
    rows = [row for row in getattr(estimator, "leaderboard_", []) if row.get("chosen")]
    compared = bool(rows) and "candidate" in rows[0]
    risk = rows[0]["risk" if compared else "progressive_error"] if rows else None
    if not rows and isinstance(estimator, (PiSTOLClassifier, PiSTOLRegressor)):
        risk = estimator.progressive_risk()  # a stream keeps all its candidates
        risk = None if np.isnan(risk) else risk
    summary = {"task": notes["task"], "n": notes["rows"], "n_features": notes["features"]}
    if notes["task"] == "classification":
        summary["classes"] = estimator.classes_.tolist()
    return summary | {
        "setting": [row["candidate" if compared else "name"] for row in rows],
        "validation_risk": risk,
        "report": _report_text(estimator, notes),
        "passes": int(np.max(getattr(estimator, "n_iter_", 0))),
        "seconds": round(done.seconds, 3),
        "skipped": done.skipped.count,
        "status": getattr(estimator, "status_", None),
    }


def _report_text(estimator, notes):
    """The report of the candidates, with the file's names of the columns."""
    report = getattr(estimator, "report_", None)
    if report is None:
        return ""
    first, names = 0 if notes.get("zero_based") is True else 1, notes.get("feature_names")
    relevances, importances, merged = (
        {column_name(name, names, first): value for name, value in shares.items()}
        for shares in (report.relevances, report.importances, report.merged)
    )
    return str(report._replace(relevances=relevances, importances=importances, merged=merged))


def named(words, notes):
    """A message about columns, with the file's names in place of x0, x1, ...

    >>> named("Columns 'x0', 'x1': ...", {"feature_names": ["age", "income"]})
    "Columns 'age', 'income': ..."
    """
    first, names = 0 if notes.get("zero_based") is True else 1, notes.get("feature_names")
    return re.sub(r"(?<=')x\d+(?=')", lambda found: column_name(found[0], names, first), words)


def column_name(name, names, first):
    """The file's name of a column for which the model has only a position, such as x0.

    >>> column_name("x0", None, 1), column_name("x1 is missing", ["age", "income"], 1)
    ('feature 1', 'income is missing')
    """
    found = re.fullmatch(r"x(\d+)( is missing)?", name)
    if not found:
        return name
    position, rest = int(found[1]), found[2] or ""
    return (f"feature {position + first}" if names is None else str(names[position])) + rest


def _print_data(data, notes, last):
    """Print the size of the data; `last`: whether the target is the last column by default."""
    words = f"{data}: {notes['rows']} rows, {notes['features']} features"
    if kinds := describe_kinds(notes):
        words += f" ({kinds})"
    if notes.get("gaps"):
        words += f", {notes['gaps']} missing values"
    note(words)
    if notes.get("target"):
        more = " (the last column; use --target to change this)" if last else ""
        note(f"target: {column_label(notes['target'])}{more}")


def _print_task(task, reason, y):
    """Print the task and the reason for it."""
    what = task
    if task == "classification":
        classes = np.unique(y)
        shown = ", ".join(map(str, classes[:5].tolist())) + (", ..." if len(classes) > 5 else "")
        what += f" into {len(classes)} classes: {shown}"
    note(f"task: {what} ({reason})")


def _print_summary(summary, model):
    """Print the summary as text."""
    classes = summary.get("classes")
    risk = summary["validation_risk"]
    if summary["report"]:
        note("\n".join(summary["report"].split("\n")[2:]) + "\n")
    elif risk is not None:
        kind = "squared error" if classes is None else "error"
        unit = " times the robust variance of the target" if classes is None else ""
        if summary["setting"]:
            note(f"chosen: {' + '.join(summary['setting'])}")
        note(
            f"progressive {kind}: {number(risk)}{unit} (every row predicted before it was learned)"
        )
    status = summary["status"]
    for words in [status] if isinstance(status, str) else status or []:
        note(words)
    passes = "1 pass" if summary["passes"] == 1 else f"{summary['passes']} passes"
    spent = "" if summary["report"] else f"{passes} in {duration(summary['seconds'])}; "
    note(f"{spent}wrote {model}")
    note(f"next: tunefree eval {model} TEST_DATA, or tunefree report {model} TEST_DATA")
