"""``tunefree train``: read, choose the task, fit, save, and print a summary.

Data are learned from a table in memory, or while they are read: large files, large standard input,
and data with a checkpoint, hashed columns or shuffled windows.
"""

import contextlib
import inspect
import json
import os
import re
import sys
import time
import warnings
from bisect import bisect_left
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from tunefree.base.progress import NoProgress, PrintedProgress
from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    FAILED,
    INTERRUPTED,
    USAGE,
    answer,
    check_writable,
    failing,
    flag,
    note,
    stop,
    working,
)
from tunefree.cli.drift import notes_of_reference, notes_of_sample, row_sample
from tunefree.cli.reading import reading_of, reading_of_source
from tunefree.cli.rows import (
    MOST_CLASSES,
    check_classes,
    column_label,
    columns_of,
    describe_kinds,
    hints,
    layout_of,
    named,
    named_report,
    note_skipped,
    notes_of,
    notes_of_formula,
    of_formula,
    open_data,
    positions_of,
    read_rows,
    skip_hint,
    skipped_of,
    warn_of_markers,
    with_targets_only,
    without_roles,
    words_of_bad,
)
from tunefree.core.format import duration, number
from tunefree.core.registry import estimator_class
from tunefree.core.warn import DataWarning
from tunefree.engine.session import Checkpoint
from tunefree.engine.sources import open_source
from tunefree.engine.sources.readers import Replay
from tunefree.files.files import DataError, Skipped, chunks, format_of
from tunefree.files.model import ModelError, is_model, save_model
from tunefree.files.tables import no_rows
from tunefree.rows.learned_kinds import sentinel_of
from tunefree.rows.schema import BadCells

# The task is guessed from so many bytes of standard input, or rows of a file.
_LOOK, _ROWS = 128 << 10, 20_000


class Trained(NamedTuple):
    """The result of a training."""

    estimator: Any
    notes: dict
    skipped: Skipped
    seconds: float


def run_train(options):
    """Carry out ``tunefree train``; `options` is a `TrainOptions`."""
    check_outputs(options)
    user_notes = _user_notes(options)
    _check_limits(options)
    options = _with_target_of_formula(options)
    source, why = _opened(options)
    done = _from_table(source, options) if why is None else _from_source(source, why, options)
    note_skipped(done.skipped)
    with failing(FAILED, options.model):  # without times: equal seeds give equal files
        save_model(done.estimator, options.model, notes=done.notes | user_notes)
    summary = _summary(done)
    _print_summary(summary, _report_text(done.estimator, done.notes, False), options.model)
    if options.json:
        answer(json.dumps(summary))


def _user_notes(options):
    """The notes that a user gives with ``--note``."""
    found = {}
    for text in options.note or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            stop(f"--note {text}: write KEY=VALUE, such as date=2026-11-28", USAGE)
        found[key] = value
    return {"user": found} if found else {}


def _check_limits(options):
    """Stop before anything is read if the limits of time and memory are none."""
    if options.budget is None and options.max_memory is None:
        return
    from tunefree.stack.costs import Limits

    try:
        Limits(options.budget, options.max_memory)
    except ValueError as problem:
        parameter, _, words = str(problem).partition("=")
        stop(f"{flag(parameter)} {words}", USAGE)


def check_outputs(options):
    """Stop early if a file cannot be written, or is not a model that may be replaced."""
    for path, what in ((options.model, "model"), (options.checkpoint, "checkpoint")):
        check_writable(path)
        if path is not None and os.path.isfile(path) and os.path.getsize(path):
            with failing(USAGE, path):
                if not is_model(path):
                    stop(f"{path} exists and is not a {what}: it is not overwritten", USAGE)


def _opened(options):
    """The source of rows; and why they are learned while they are read, or None: from a table."""
    data, why = options.data, _implied(options)
    needs_all = data != "-" and options.estimator in ("kernel", "trees")
    with failing(BAD_DATA, data), working(f"reading {data}"):
        if why is not None or needs_all:
            source = Replay("<stdin>", chunks("-")) if data == "-" else data
        else:
            source, large = open_data(data)
            if large:
                why = "large standard input" if data == "-" else "a large file"
    if why and (options.formula or options.reference):
        stop(f"--formula and --reference are not available with {why}", USAGE)
    if why:
        for role in _role_columns(options):
            stop(f"--{role} is not available with {why}: rows are learned as they are read", USAGE)
    return source, why


def _with_target_of_formula(options):
    """The options with the left-hand side of the formula as the target."""
    if options.formula is None or "~" not in options.formula:
        return options
    target = options.formula.partition("~")[0].strip().strip("`")
    if not target:
        return options._replace(formula=options.formula.strip().removeprefix("~"))
    if not re.fullmatch(r"[^()+*/<>=]+", target):
        stop(f"--formula: the left-hand side {target} is no column: add one to the file", USAGE)
    if options.target not in (None, target):
        stop(f"--target is {options.target}, and the target of --formula is {target}", USAGE)
    right = options.formula.partition("~")[2].strip()
    return options._replace(target=target, formula=right)


def _reference_of(options):
    """The reference levels, by column."""
    levels = {}
    for text in options.reference or ():
        column, equals, level = text.partition("=")
        if not (column and equals and level):
            stop(f"--reference {text}: write COLUMN=LEVEL, such as region=north", USAGE)
        levels[column] = level
    return levels


def _with_reference(formula, levels):
    """A formula whose factors have reference levels."""
    for column, level in levels.items():
        found = re.compile(rf"\bC\(\s*{re.escape(column)}\s*\)")
        if not found.search(formula):
            stop(f"--reference {column}={level}: --formula has no C({column})", USAGE)
        base = level if re.fullmatch(r"-?\d+(\.\d+)?", level) else repr(level)
        formula = found.sub(f"C({column}, contr.treatment(base={base}))", formula)
    return formula


# --- The task -------------------------------------------------------------------------------------


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


def guess_and_advise(y):
    """The task by the target, and the reason, with the option that changes it."""
    task, reason = guess_task(y)
    return task, reason + (f"; use --task {_other(task)} to change this" * (y.dtype.kind in "biuf"))


def _other(task):
    return "regression" if task == "classification" else "classification"


def _choose_task(options, y):
    """The task, and the reason for it."""
    task, reason = _implied_task(options)
    return guess_and_advise(y) if task == "auto" else (task, reason)


def _implied_task(options):
    """The task, and the reason, by the options; (auto, None) if these are of both tasks."""
    if options.task != "auto":
        return options.task, "set by --task"
    for option in _needed(options):
        return "regression", f"--{option} is for counts and amounts"
    if options.quantile is not None:
        return "regression", "--quantile is for numbers"
    option, name = ("loss", options.loss) if options.family is None else ("family", options.family)
    if name is None:
        return "auto", None
    from tunefree.parts.families import FAMILIES, OF_CLASSES
    from tunefree.parts.losses import LOSSES

    task = getattr(LOSSES.get(name), "task", "both")
    if name in FAMILIES and name != "binomial":  # which is of shares, too
        task = "classification" if name in OF_CLASSES else "regression"
    return ("auto", None) if task == "both" else (task, f"--{option} {name}")


def _target_type(options):
    """The type of the targets that the options imply; None: any."""
    return float if _implied_task(options)[0] == "regression" else None


# --- The estimator --------------------------------------------------------------------------------


# Names of classes for classification and regression; None where there is no such estimator.
_ESTIMATORS = {
    "auto": ("TuneFreeClassifier", "TuneFreeRegressor"),
    "trees": ("BoostedTreesClassifier", "BoostedTreesRegressor"),
    "glm": ("GLMClassifier", "GLMRegressor"),
    "reflectron": ("ReflectronClassifier", "ReflectronRegressor"),
    "pistol": ("PiSTOLClassifier", "PiSTOLRegressor"),
    "kernel": ("KernelPiSTOLClassifier", "KernelPiSTOLRegressor"),
    "ridge": (None, "RidgePathRegressor"),
    "separator": ("OptimisticPerceptron", None),
}
# Options that are parameters of an estimator, by their names there, and those that are of its fit.
_SAME = (
    "loss quantile family link potential categories compress budget max_memory scoring merge_levels"
    " schema on_bad_cell cv formula"
).split()
_PARAMETERS = dict(zip(_SAME, _SAME, strict=True)) | {
    "passes": "max_iter",
    "categorical": "categorical_features",
}
_OF_FIT = ("exposure", "offset", "groups")
# Estimators that learn from text, dates or missing cells.
_OF_CELLS = ("auto", "trees", "glm")
# Those for which numbers such as -999 that stand apart are missing values.
_OF_MARKERS = ("auto", "trees")
_NEEDED = ("exposure", "offset")  # columns beside the features that new rows must have, too


def _class_of(name, task):
    """The class of an estimator for a task; None if it does not have the task."""
    found = _ESTIMATORS[name][task == "regression"]
    return found and estimator_class(found)


def _takes(cls, option):
    """Whether a class has an option."""
    method, parameter = (cls.fit, option) if option in _OF_FIT else (cls, _PARAMETERS[option])
    return parameter in inspect.signature(method).parameters


def make_estimator(options, task, table=None):
    """The estimator for a task, and for a table if the rows are in memory.

    Stops if it does not have the task, or an option that was given.
    """
    name, cls = options.estimator, _class_of(options.estimator, task)
    if cls is None:
        stop(f"--estimator {name} is for {_other(task)}, but the task is {task}", USAGE)
    given = {option: getattr(options, option) for option in (*_PARAMETERS, *_OF_FIT)}
    given = {o: value for o, value in given.items() if value is not None and value is not False}
    if "family" in given and name in ("auto", "trees"):
        given.setdefault("loss", given.pop("family"))
    for option in given:
        if not _takes(cls, option):
            stop(f"{flag(option)} is for {_owners(name, option, task)}", USAGE)
    settings = {_PARAMETERS[o]: value for o, value in given.items() if o in _PARAMETERS}
    settings |= _parsed(given, task, table)
    if options.formula is not None:
        settings["formula"] = _with_reference(options.formula, _reference_of(options))
    if name == "separator":
        settings |= {"method": "auto", "stop": "margin"}
    else:
        settings["random_state"] = options.seed
    if name == "glm" and task == "regression" and table is None:  # rows come in chunks
        settings.setdefault("family", "gaussian")
    return cls(**settings)


def _owners(name, option, task):
    """The estimators with an option; the task, if it is only for another one."""

    def owners(task):
        classes = {name: _class_of(name, task) for name in _ESTIMATORS}
        return [name for name, cls in classes.items() if cls and _takes(cls, option)]

    ours, theirs = owners(task), owners(_other(task))
    if name in theirs:
        return f"--task {_other(task)}, but the task is {task}"
    words = "" if ours else f" --task {_other(task)}"
    *first, last = ours or theirs
    return f"--estimator {', '.join(first)}{' or ' if first else ''}{last}{words}"


def read_schema(path):
    """What is known of columns, from a file as ``inspect --schema`` prints it."""
    with failing(USAGE, path), open(path, encoding="utf-8") as file:
        return json.load(file)


def _parsed(given, task, table):
    """Parameters whose values in Python are no text."""
    parsed = {}
    if "schema" in given:
        parsed["schema"] = read_schema(given["schema"])
    if "categorical" in given:
        parsed["categorical_features"] = positions_of(given["categorical"], table, "categorical")
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
    options = {parameter: flag(option) for option, parameter in _PARAMETERS.items()}
    try:
        yield
    except ValueError as problem:
        parameter, _, words = str(problem).partition("=")
        if parameter not in options or parameter not in estimator.get_params(deep=False):
            raise
        stop(f"{options[parameter]} {words}", USAGE)


# --- Columns that are not features ----------------------------------------------------------------


def _role_columns(options):
    """The columns that are not features, by what they are."""
    names = {name: getattr(options, name) for name in _OF_FIT}
    return {name: column for name, column in names.items() if column is not None}


def _needed(options):
    """The options of columns that new rows must have, too."""
    return [name for name in _NEEDED if getattr(options, name) is not None]


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


def _split(table, options) -> tuple[Any, Any, Any]:
    """A table of features, the columns that are not features, and the notes about these."""
    positions = {n: positions_of([c], table, n)[0] for n, c in _role_columns(options).items()}
    needed, names = _needed(options), table.feature_names
    for option in positions:
        if names is None and option not in needed:  # else new data would need the same position
            stop(f"--{option} needs a file whose columns have names", USAGE)
    notes = _columns_of_new_rows(names, positions, needed) if needed else {}
    table, roles = without_roles(table, positions)
    return table, roles, notes | _ids_of(options)


def _columns_of_new_rows(names, positions, needed):
    """The notes about columns that are not features, of which new rows have only the needed ones.

    >>> _columns_of_new_rows(["g", "x", "e"], {"groups": 0, "exposure": 2}, ["exposure"])
    {'beside': {'exposure': 1}, 'columns': ['x', 'e']}
    """
    absent = sorted(place for name, place in positions.items() if name not in needed)
    places = {name: positions[name] - bisect_left(absent, positions[name]) for name in needed}
    kept = names and [name for j, name in enumerate(names) if j not in absent]
    return {"beside": places, "columns": kept}


# --- From a table ---------------------------------------------------------------------------------


def _from_table(source, options):
    """Fit to all rows, in memory."""
    data = options.data
    table, skipped = _table_of(source, options, _target_type(options))
    _check_dropped(options, table.feature_names)
    task, reason = _choose_task(options, table.y)
    if task == "classification" and not _may_be_labels(table.y):
        table, skipped = _table_of(source, options, str)  # as they are written, such as 50%
    table, markers = _without_sentinels(table, task, skipped)
    estimator = make_estimator(options, task, table)  # wrong options stop here, before any work
    reference = _reference_of(options)
    if reference and options.estimator != "glm":
        stop("--reference is for --estimator glm", USAGE)
    table, roles, more = _split(table, options)
    if options.formula is not None:
        more |= notes_of_formula(table)
    reading = reading_of(table, options.format)
    notes = notes_of(table, task) | more | {"reading": reading}
    if markers:
        notes["target_markers"] = markers
    if table.target_written is not None and table.y.dtype.kind == "f":
        notes["target_written"] = table.target_written._asdict()
    y = _as_whole_numbers(table.y) if task == "classification" else table.y
    _print_data(data, notes, last=options.target is None)
    _print_task(task, reason, y)
    start = time.perf_counter()
    with (
        failing(BAD_DATA, data),
        working(f"training on {len(y)} rows"),
        _reported(estimator, notes, table) as found,
    ):
        if options.estimator not in _OF_MARKERS:
            warn_of_markers(table)
        X = table.X if options.formula is None else of_formula(table).X
        estimator.fit(X, y, sample_weight=table.weight, **roles)
        if reference and options.formula is None:
            estimator.summary(reference=reference)  # an unknown level stops here
            notes["reference"] = reference
    seconds = time.perf_counter() - start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notes |= notes_of_reference(estimator, table, notes)
    reading |= {
        "findings": [*table.notes, *found],
        "malformed": skipped.count,
        "without_target": skipped.n_unlabelled,
    }
    if hasattr(estimator, "report_"):
        report = estimator.report_
        estimator.report_ = report._replace(notes=(*table.notes, *report.notes))
    return Trained(estimator, notes, skipped, seconds)


def _without_sentinels(table, task, skipped):
    """The rows whose target is no number such as -999 that stands apart, and such numbers."""
    value = sentinel_of(table.y) if task == "regression" else None
    if value is None:
        return table, []
    n = int(np.count_nonzero(table.y == value))
    words = f"{value:g} stands apart from all other targets and counts as missing: skipped {n} rows"
    note(f"note: {words} without a target")
    table = with_targets_only(table, [value], skipped)
    with failing(BAD_DATA, table.path):
        skipped.check(table.X.shape[0], table.path)
    return table._replace(notes=(*table.notes, f"{words} without a target.")), [value]


def _given_schema(options):
    """What is known of columns by the options."""
    return None if options.schema is None else read_schema(options.schema)


def _table_of(source, options, target_type):
    """A table to learn, with targets of a type, and what counts the rows that are skipped."""
    skipped = skipped_of(options)
    reading = _columns(options) | {"skipped": skipped}
    how: Any = {
        "mixed": options.estimator in _OF_CELLS,
        "given": _given_schema(options),
        "sentinels": options.estimator in _OF_MARKERS,
    }
    hint = "--estimator auto and trees accept text, dates and empty cells, and glm text"
    return read_rows(source, options.data, target_type, reading, hint=hint, **how), skipped


def _may_be_labels(y):
    """Whether targets are names of classes: text, or whole numbers that differ as floats."""
    return y.dtype.kind != "f" or bool(np.all((y == np.floor(y)) & (np.abs(y) < 2.0**53)))


def _as_whole_numbers(labels):
    """Classes that are whole numbers as integers, so that predictions read 1, not 1.0.

    >>> _as_whole_numbers(np.array([1.0, 2.0])), _as_whole_numbers(np.array([1e19, 2e19]))
    (array([1, 2]), array([1.e+19, 2.e+19]))
    """
    if labels.dtype.kind != "f" or not len(labels) or np.abs(labels).max() >= 2.0**53:
        return labels
    return labels.astype(np.int64) if np.all(labels == np.floor(labels)) else labels


@contextlib.contextmanager
def _reported(estimator, notes, table=None):
    """Print the progress of a fit, and its warnings with the file's names of the columns.

    The findings about the data among them are added to the list that it yields.
    """
    is_auto, found = type(estimator).__name__.startswith("TuneFree"), []

    def show(message, category, *_, **__):
        words = str(message)
        if isinstance(message, BadCells) and table is not None:
            words = words_of_bad(message.found, table)
        words = named(words, notes)
        if issubclass(category, DataWarning):
            found.append(words)
        note(f"note: {words}")

    with warnings.catch_warnings(), _compilation_noted(), _named_as_options(estimator):
        warnings.showwarning = show
        if is_auto:
            estimator._active_progress = PrintedProgress("training", NoProgress(), note)
        yield found
        vars(estimator).pop("_active_progress", None)


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

    with event.install_listener("numba:compile", Once()):
        yield


# --- From a source --------------------------------------------------------------------------------


def _implied(options):
    """The option that requires learning rows while they are read, if there is one."""
    format = options.format or format_of(options.data)
    if options.hashed and format in (None, "libsvm", "npy", "npz"):
        stop("--hash is for files of tables with names (see --format)", USAGE)
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


def _from_source(data, why, options):
    """Learn rows while they are read, because of `why`."""
    options = _streamed(options, why, isinstance(data, str))
    hint = "rows that are learned as they are read must be numbers: --hash 262144 accepts text"
    if why.startswith("--"):
        hint += f", and so does --estimator auto without {why}"
    with failing(BAD_DATA, options.data), hints(hint, skip_hint(skipped_of(options))):
        task, reason, classes, source = _opened_source(data, options)
        for words in getattr(getattr(source.reader, "layout", None), "notes", ()):
            note(f"note: {words}")
        if options.hashed is None:
            _check_dropped(options, source.reader.feature_names)
        estimator = make_estimator(options, task)
        _print_task(task, reason, classes)
        source.sample = row_sample()
        start = time.perf_counter()
        with _compilation_noted(), _named_as_options(estimator):
            _learn(source, estimator, classes, options)
        seconds = time.perf_counter() - start
    if hasattr(estimator, "classes_"):
        estimator.classes_ = _as_whole_numbers(estimator.classes_)
    notes = _notes_of_source(source, task, estimator.n_features_in_, options)
    with failing(BAD_DATA, options.data):
        notes |= notes_of_sample(estimator, source, notes)
    _print_data(options.data, notes, last=options.target is None)
    return Trained(estimator, notes, source.skipped, seconds)


def _notes_of_source(source, task, n_features, options):
    zero_based = getattr(source.reader, "zero_based", "auto")
    notes = layout_of(source.reader, task, source.rows, n_features, zero_based)
    notes |= {"hashed": options.hashed} | _ids_of(options)
    layout = getattr(source.reader, "layout", None)
    if getattr(layout, "dialect", None) is not None:
        notes["reading"] = reading_of_source(layout, source.skipped)
    return notes | ({"drop": _columns(options)["drop"]} if options.hashed else {})


def _opened_source(data, options):
    """The task, the reason for it, the distinct first targets, and the source of rows."""
    settings: dict[str, Any] = _columns(options) | {
        "hashed": options.hashed,
        "window": options.window,
        "seed": options.seed,
        "on_bad_row": options.on_bad_row,
        "target_type": _target_type(options),
    }
    y = _first_targets(data, settings)
    check_classes(y, options.data)
    task, reason = _choose_task(options, y)
    if task == "regression":
        settings["target_type"] = float
    return task, reason, np.unique(y), open_source(data, **settings)


def _first_targets(data, options):
    """The targets of the first rows of a file or of standard input."""
    name = data.name if isinstance(data, Replay) else data
    if isinstance(data, Replay):
        data = data.head(lambda text: len(text) >= _LOOK)
    rows, found = 0, []
    source = open_source(data, **options | {"window": 0})
    source.is_sample = True
    for chunk in source.chunks():
        if chunk.y is None:
            raise DataError("the file has no target column", name)
        rows += len(chunk)
        found.append(chunk.y)
        if rows > _ROWS:
            break
    if not rows:
        source.skipped.check(0, name)
        raise no_rows(name, getattr(source.reader, "layout", None))
    return np.concatenate(found)


def _learn(source, estimator, classes, options):
    """Fit to a source, with or without a checkpoint."""
    classify, one_pass = is_classifier(estimator), getattr(estimator, "solver", None) != "batch"
    settings: dict[str, Any] = {"classes": classes} if classify and len(classes) > 1 else {}
    if one_pass and hasattr(estimator, "progressive_risk") and sys.stderr.isatty():
        settings["on_chunk"] = _Progress(classify)
    if options.checkpoint is None:
        with working("training"):
            estimator.fit_source(source, **settings)
        return
    with resumable(options) as saved, working("training"):
        estimator.fit_source(source, checkpoint=saved, **settings)


@contextlib.contextmanager
def resumable(options):
    """A `Checkpoint`; what ends the run becomes a message about its file, and an exit code."""
    path = options.checkpoint
    if options.resume and not os.path.exists(path):
        note(f"note: {path} does not exist yet: starting with the first row")
    saved = Checkpoint(path, every=options.every, resume=options.resume)
    try:
        yield saved
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
        so_far, last_half = (number(estimator.progressive_risk(share)) for share in (1.0, 0.5))
        speed = row / max(time.perf_counter() - self.start, 1e-9)
        note(f"{row:14,} {so_far:>14} {last_half:>14} {speed:10,.0f}")
        while self.next <= row:
            self.next *= 2


# --- What is printed ------------------------------------------------------------------------------


def _summary(done):
    """What ``--json`` prints: the chosen candidates, their risk, passes and seconds."""
    estimator, notes = done.estimator, done.notes
    rows = [row for row in getattr(estimator, "leaderboard_", []) if row.get("chosen")]
    compared = bool(rows) and "candidate" in rows[0]
    risk = rows[0]["risk" if compared else "progressive_error"] if rows else None
    if not rows and type(estimator).__name__ in _ESTIMATORS["pistol"]:
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
        "without_target": done.skipped.n_unlabelled,
        "status": getattr(estimator, "status_", None),
    }


def _report_text(estimator, notes, with_findings=True):
    """The report of the candidates, with the file's names of the columns."""
    report = getattr(estimator, "report_", None)
    if report is None:
        return ""
    if not with_findings:
        report = report._replace(notes=())
    return str(named_report(report, notes))


def _print_data(data, notes, last):
    """Print what was read; `last`: whether the target is the last column by default."""
    words = f"{data}: {notes['rows']} rows, {notes['features']} features"
    if kinds := describe_kinds(notes):
        words += f" ({kinds})"
    if notes.get("gaps"):
        words += f", {notes['gaps']} missing values"
    note(words)
    if written := notes.get("reading", {}).get("written"):
        note(f"read as {written}")
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


def _print_summary(summary, report, model):
    """Print the summary as text; `report` is that of the candidates without what was printed."""
    risk, status = summary["validation_risk"], summary["status"]
    if report:
        note("\n".join(report.split("\n")[2:]) + "\n")
    elif risk is not None:
        kind, unit = "error", ""
        if "classes" not in summary:
            kind, unit = "squared error", " times the robust variance of the target"
        if summary["setting"]:
            note(f"chosen: {' + '.join(summary['setting'])}")
        words = "every row predicted before it was learned"
        note(f"progressive {kind}: {number(risk)}{unit} ({words})")
    for words in [status] if isinstance(status, str) else status or []:
        note(words)
    passes = "1 pass" if summary["passes"] == 1 else f"{summary['passes']} passes"
    spent = "" if report else f"{passes} in {duration(summary['seconds'])}; "
    note(f"{spent}wrote {model}")
    note(f"next: tunefree eval {model} TEST_DATA, or tunefree report {model} TEST_DATA")
