"""Rows for the commands: how data are opened and read, and the notes about them in a model file."""

import contextlib
import itertools
import os
import re
import warnings
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from scipy import sparse

from tunefree.cli.console import BAD_DATA, USAGE, failing, flag, note, stop, working
from tunefree.core.warn import did_you_mean, warn
from tunefree.engine.sources.readers import Replay
from tunefree.files.files import DataError, Named, Skipped, chunks
from tunefree.files.mixed import read_mixed, read_numbers
from tunefree.files.tables import IGNORED, unnamed
from tunefree.rows.cells import value_of
from tunefree.rows.checks import near_levels
from tunefree.rows.columns import of_arrow
from tunefree.rows.schema import (
    BadCells,
    Schema,
    bad_words,
    learn_columns,
    numbers_among,
    read_columns,
    typed,
    warn_of_notes,
    what_targets_are,
)

# Files, and standard input, of more bytes are not loaded into memory.
_LARGE_FILE, _LARGE_INPUT = 256 << 20, 32 << 20
MOST_CLASSES = 20
_OF_TIME = ("date", "duration")  # so begin the words about such targets
_MOST_NOTED = 1000  # columns whose spread a model file holds
_SAMPLE = 64  # rows of which it holds a fingerprint
_MOST_CELLS = 200_000  # that are looked at for that, each by Python
REFERENCE = "drift_reference"  # the note of a model file about the rows of a training
_INDEX = "Unnamed: 0"  # how pandas names a column that it wrote without a name
_KINDS = {
    "number": "numeric",
    "truth": "boolean",
    "date": "date",
    "duration": "duration",
    "category": "category",
    "text": "text",
    "nothing": "empty",
}


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


def columns_of(options):
    """The options that describe a file to its reader."""
    names = ("target", "header", "delimiter", "sheet", "weight_column", "n_features", "format")
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def skipped_of(options):
    """What counts rows without a target, and malformed ones if these are no errors."""
    return Skipped(malformed=options.on_bad_row == "skip")


def note_skipped(skipped):
    """Print how many malformed rows were skipped."""
    if skipped.count:
        note(f"skipped {skipped.count} malformed rows, the first: {skipped.first}")


def with_targets_only(table, markers, skipped):
    """The rows of a table whose target is no marker of a missing one; others are noted."""
    absent = np.isin(table.y, markers)
    if not absent.any():
        return table
    kept, n = np.flatnonzero(~absent), int(absent.sum())
    first, where = int(np.argmax(absent)), getattr(table, "where", None)
    skipped.n_unlabelled += n
    skipped.note(f"row {first + 1}: {table.y[first]:g} is no target")
    weight = None if table.weight is None else table.weight[kept]
    rows = pa.array(kept) if _is_frame(table.X) else kept
    X = table.X.take(rows) if _is_frame(table.X) else table.X[rows]
    found = table._replace(X=X, y=table.y[kept], weight=weight)
    if where is None:
        return found
    return found._replace(where=lambda row, column: where(int(kept[row]), column))


# --- Reading --------------------------------------------------------------------------------------


@contextlib.contextmanager
def hints(of_features, of_rows):
    """Add advice to the error for a feature that is not a number, and for a malformed row."""
    try:
        yield
    except DataError as problem:
        if problem.feature and of_features:
            problem.hint = of_features
        elif problem.row:
            problem.hint = problem.hint or of_rows
        raise


def skip_hint(skipped):
    """The advice for a malformed row; None if these are skipped."""
    return None if skipped.malformed else "use --on-bad-row skip to skip such rows"


def read_rows(source, name, kind, options, *, mixed, hint, given=None, sentinels=True) -> Any:
    """Read a `tunefree.files.Table` to learn from, and print what may surprise in it.

    `kind` is the type of the targets (None: any). `mixed` accepts text, dates and missing values;
    otherwise `hint` is added to the error for one. `given` is what is known of some columns, and
    `sentinels` whether numbers such as -999 may stand for missing values.
    """
    of_rows = skip_hint(options["skipped"])
    with failing(BAD_DATA, name), working(f"reading {name}"), hints(hint, of_rows):
        table = read_table(source, kind, options, mixed=mixed, given=given, sentinels=sentinels)
        options["skipped"].check(table.X.shape[0], name)
        if words := why_not_learned(table):
            raise DataError(words, table.path)
        check_classes(table.y, table.path)
    for words in table.notes:
        note(f"note: {words}")
    options["skipped"].warn()
    return table


def read_table(source, kind, options, *, mixed=True, given=None, sentinels=True):
    """A `tunefree.files.Table` as it is in the file, with the schema of its columns."""
    reader = read_mixed if mixed else read_numbers
    table = reader(source, target_type=kind, **options)
    if not table.X.shape[0]:
        options["skipped"].check(0, table.path)
    table = _without_row_numbers(table)
    if _is_frame(table.X):
        return with_schema(table, table.X.column_names, given, sentinels)
    names = table.feature_names
    if sentinels and names and Schema.of_numbers(table.X, names) is None:
        return with_schema(table, names, given)  # they may be more: days such as 20190103
    return table


def with_schema(table, names, given, sentinels=True):
    """A table with the schema of its columns, and the number of missing cells of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BadCells)  # the fit warns of them
        schema, columns = learn_columns(table.X, names, table.weight, given, sentinels=sentinels)
    return table._replace(schema=schema, gaps=[int(c.missing.sum()) for c in columns])


def warn_of_markers(table):
    """Warn of plain numbers such as -999, where they are learned as numbers."""
    X = table.X
    if _is_frame(X) or table.zero_based is not None:
        return
    names = [f"x{j}" for j in range(X.shape[1])]
    if Schema.of_numbers(X, names) is None:
        warn_of_notes(Schema.of(X, names, table.weight, sentinels=False))


def why_not_learned(table):
    """Why nothing can be learned from a table; None if something can."""
    if table.y is None:
        return "the file has no target column"
    if table.X.shape[1] == 0:
        return "the file has no features"
    if np.all(table.y == table.y[0]):
        return f"the target is the same in every row: {table.y[0]}"
    return None


def check_classes(y, path):
    """Refuse text targets of which most values are different; note near names of classes."""
    levels, counts = np.unique(y, return_counts=True)
    values, rows = len(levels), len(y)
    if y.dtype.kind != "U":
        return
    if values <= MOST_CLASSES and (near := near_levels(levels.tolist(), counts)):
        few, much = next(iter(near.items()))
        more = f", and {len(near) - 1} more" if len(near) > 1 else ""
        warn(f"{path}: the classes {few!r} and {much!r} have nearly the same name{more}")
    what = what_targets_are(y) if values > MOST_CLASSES else None
    are_many, are_times = values > max(MOST_CLASSES, rows / 2), str(what).startswith(_OF_TIME)
    if are_many or are_times:
        if what is not None:
            raise DataError(f"the target holds {what} (see --target)", path)
        words = f"the target has {values} different texts in {rows} rows: too many for classes"
        raise DataError(f"{words} (see --target)", path)


def _is_frame(X):
    """Whether features are a pyarrow table."""
    return hasattr(X, "column_names")


def _without_row_numbers(table):
    """Drop a first column that numbers the rows: the index of pandas, of some rows in any order."""
    names, X = table.feature_names, table.X
    if not names or names[0] not in (unnamed(0), _INDEX) or len(names) < 2:
        return table
    first = numbers_among(of_arrow(X.column(0))) if _is_frame(X) else X[:, 0]
    is_whole = first.dtype.kind == "f" and np.array_equal(first, np.floor(first))
    if not is_whole or first.min() < 0.0 or len(np.unique(first)) < len(first):
        return table
    is_unnamed = names[0] == unnamed(0)
    column = "column 1 has no name and" if is_unnamed else f"the first column, {_INDEX!r},"
    words = f"{column} numbers the rows: it is skipped"
    table = without_roles(table, {"number": 0})[0]
    return table._replace(notes=(*table.notes, words))


@contextlib.contextmanager
def cells_counted(table, counted):
    """Count cells that are not of their column's kind in a dict, with the place of the first."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", BadCells)
        show = warnings.showwarning

        def showwarning(message, *args, **kwargs):
            if not isinstance(message, BadCells):
                show(message, *args, **kwargs)
                return
            for bad, place in zip(message.found, _places(message.found, table), strict=True):
                known = counted.setdefault(bad.column, bad._replace(count=0, row=place))
                counted[bad.column] = known._replace(count=known.count + bad.count)

        warnings.showwarning = showwarning
        yield


def note_cells(counted):
    """Print what `cells_counted` has counted, once for all parts of a file."""
    if counted:
        note(f"note: {bad_words([*counted.values()], str)}")


def words_of_bad(found, table):
    """The message about bad cells, with their places in the file."""
    places = _places(found, table)
    return bad_words([bad._replace(row=p) for bad, p in zip(found, places, strict=True)], str)


def _places(found, table):
    """The place in the file of the first bad cell of each column."""
    names = list(table.X.column_names)
    return [table.where(bad.row, names.index(bad.column)) for bad in found]


# --- Columns that are not features ----------------------------------------------------------------


def positions_of(columns, table, option):
    """The feature numbers of columns given by name, or by position in the file."""
    if table.zero_based is not None:
        stop(f"{flag(option)} needs a table, but this file is libsvm", USAGE)
    names, slots, out = table.feature_names or [], table.slots, []
    for column in columns:
        if column in names:
            out.append(names.index(column))
        elif column.lstrip("-").isdigit() and slots[int(column) % len(slots)] >= 0:
            out.append(int(slots[int(column) % len(slots)]))
        else:
            meant = did_you_mean(column, names, " (did you mean {}?)") or ""
            stop(f"{flag(option)} {column}: there is no such feature column{meant}", USAGE)
    return out


def split_role_columns(X, positions):
    """Rows without the columns that are not features, and these columns by role.

    >>> split_role_columns(np.array([[1.0, 2.0, 3.0]]), {"exposure": 1})
    (array([[1., 3.]]), {'exposure': array([2.])})
    """
    if not positions:
        return X, {}
    if _is_frame(X):
        roles = {role: _role_values(role, X.column(j)) for role, j in positions.items()}
        return X.drop_columns([X.column_names[j] for j in positions.values()]), roles
    roles = {role: X[:, j] for role, j in positions.items()}
    return np.delete(X, list(positions.values()), axis=1), roles


def _role_values(role, column):
    """A column that is no feature: numbers, or what names groups."""
    if role == "groups":
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]
    return numbers_among(of_arrow(column))


def without_roles(table, positions) -> Any:
    """A table without the columns that are not features, and these columns by role."""
    if not positions:
        return table, {}
    X, roles = split_role_columns(table.X, positions)

    def rest(values):
        gone = positions.values()
        return values and [value for j, value in enumerate(values) if j not in gone]

    schema = table.schema
    if schema is not None:
        schema = Schema(tuple(rest(schema.names)), tuple(rest(schema.columns)))
    gone = sorted(positions.values())
    is_gone = np.isin(table.slots, gone)
    slots = np.where(is_gone, IGNORED, table.slots - np.searchsorted(gone, table.slots))
    more = {"feature_names": rest(table.feature_names), "schema": schema, "slots": slots}
    more["gaps"] = rest(table.gaps)
    return table._replace(X=X, **more), roles


# --- Formulas -------------------------------------------------------------------------------------


def of_formula(table, known=None) -> Any:
    """A table whose columns a formula can name: numbers and text, as learned.

    `known` is what `notes_of_formula` has noted of the rows of a fit.
    """
    names = table.feature_names if known is None else known["names"]
    if names is None:
        stop("--formula needs a file whose columns have names", USAGE)
    if not _is_frame(table.X):
        return table._replace(X=pa.table([*np.asarray(table.X).T], list(names)))
    schema = table.schema
    if known is not None:
        schema = Schema.of(table.X, names, None, known["schema"])
    return table._replace(X=typed(schema, read_columns(schema, table.X)), schema=None)


def notes_of_formula(table):
    """What is known of the columns that a formula can name."""
    schema = None if table.schema is None else table.schema.as_dict()
    return {"of_formula": {"names": table.feature_names, "schema": schema}, "by_name": True}


# --- Notes ----------------------------------------------------------------------------------------


def layout_of(found, task, rows, features, zero_based):
    """The notes that prediction needs; `found` is a table or a reader."""
    return {
        "task": task,
        "rows": rows,
        "features": int(features),
        "feature_names": found.feature_names,
        "by_name": _is_frame(getattr(found, "X", None)),
        "zero_based": zero_based,
        "target": found.target and list(found.target),
        "weight_column": found.weight_column and list(found.weight_column),
    } | _positions_of(found)


def _positions_of(found):
    """The note about the places in the file of features that have no names."""
    slots = getattr(found, "slots", None)
    if slots is None or found.feature_names is not None:
        return {}
    places = np.flatnonzero(slots >= 0)
    places = places[np.argsort(slots[places], kind="stable")].tolist()
    return {} if places == [*range(len(places))] else {"positions": places}


def notes_of(table, task):
    """The notes about a table: layout, kinds of columns and number of missing values."""
    X, is_libsvm = table.X, table.zero_based is not None
    zero_based = table.zero_based if is_libsvm else "auto"
    notes = layout_of(table, task, len(table.y), X.shape[1], zero_based)
    notes["sample"] = sample_of(X, table.y)
    if table.schema is not None:
        kinds = [column.kind for column in table.schema.columns]
        return notes | {"kinds": kinds, "gaps": sum(table.gaps)}
    if not is_libsvm and X.shape[1] <= _MOST_NOTED:
        with np.errstate(over="ignore", invalid="ignore"):
            notes["spread"] = [float(f"{s:.4g}") for s in X.std(axis=0)]
    return notes | {"nonzeros": int(np.count_nonzero(X.data if is_libsvm else X))}


def fingerprints(X, y, rows):
    """A hash of each of some rows and their targets, independent of the file format.

    >>> eye = np.eye(2)
    >>> fingerprints(eye, np.ones(2), [1, 0]) == fingerprints(eye[::-1], np.ones(2), [0, 1])
    True
    """
    if _is_frame(X):
        columns = [map(_plain_cell, column.to_pylist()) for column in X.take(rows).columns]
        texts = [repr(row).encode() for row in zip(*columns, strict=True)]
    elif sparse.issparse(X):
        X = X[rows].sorted_indices()
        spans = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        texts = [
            X.indices[a:b].astype(np.int64).tobytes() + X.data[a:b].tobytes() for a, b in spans
        ]
    else:
        texts = [np.asarray(row, dtype=np.float64).tobytes() for row in X[rows]]
    labels = [repr(label).encode() for label in y[rows].tolist()]
    return [crc32(label, crc32(text)) for text, label in zip(texts, labels, strict=True)]


def _plain_cell(cell):
    """A cell as it is, whatever format it comes from: text as the number that it is."""
    if isinstance(cell, str):
        cell = value_of(cell)
    return float(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell


def sample_of(X, y):
    """Fingerprints of some training rows, and the share of rows that occur more than once."""
    cells = _MOST_CELLS if _is_frame(X) else 10 * _MOST_CELLS
    examined = max(_SAMPLE, min(20_000, cells // X.shape[1]))
    rows = np.arange(len(y))[:: -(-len(y) // examined)]
    prints = np.array(fingerprints(X, y, rows))
    _, codes, counts = np.unique(prints, return_inverse=True, return_counts=True)
    step = -(-len(rows) // _SAMPLE)
    return {"rows": prints[::step].tolist(), "twins": float(np.mean(counts[codes] > 1))}


def describe_kinds(notes):
    """The number of columns of each kind.

    >>> describe_kinds({"kinds": ["number", "text", "number"]})
    '2 numeric, 1 text'
    """
    kinds = notes.get("kinds") or []
    if not kinds and notes.get("zero_based") == "auto":
        kinds = ["number"] * notes["features"]
    return ", ".join(f"{kinds.count(k)} {name}" for k, name in _KINDS.items() if k in kinds)


def column_label(column):
    """The name of a column, or its number."""
    name, position = column
    return unnamed(position) if name is None else name


def column_name(name, notes):
    """The file's name of a column for which the model has only a position, such as x0.

    Without names it is the column's number in the file, or the index of a feature of libsvm.

    >>> column_name("x0", {}), column_name("x1 is missing", {"feature_names": ["age", "income"]})
    ('column 1', 'income is missing')
    """
    found = re.fullmatch(r"x(\d+)( is missing)?", name)
    if not found:
        return name
    j, names, zero_based = int(found[1]), notes.get("feature_names"), notes.get("zero_based")
    if names is not None:
        known = str(names[j])
    elif isinstance(zero_based, bool):  # libsvm
        known = f"feature {j if zero_based else j + 1}"
    else:
        known = unnamed(notes["positions"][j] if "positions" in notes else j)
    return known + (found[2] or "")


def named(words, notes):
    """A message about columns, with the file's names in place of x0, x1, ...

    An estimator that has learned rows `by_name` gives the file's names itself.

    >>> named("Columns 'x0', 'x1': ...", {"feature_names": ["age", "income"]})
    "Columns 'age', 'income': ..."
    >>> named("Column 'x1': ...", {"feature_names": ["x1", "x2"], "by_name": True})
    "Column 'x1': ..."
    """
    if notes.get("by_name"):
        return words
    return re.sub(r"(?<=')x\d+(?=')", lambda found: column_name(found[0], notes), words)


def named_report(report, notes):
    """The report of a stack with the file's names of the columns."""
    if notes.get("by_name"):
        return report

    def by_name(found):
        return {column_name(name, notes): value for name, value in found.items()}

    def names(columns):
        return [column_name(name, notes) for name in columns]

    return report._replace(
        relevances=by_name(report.relevances),
        importances=by_name(report.importances),
        merged=by_name(report.merged),
        groups=[{**row, "columns": names(row["columns"])} for row in report.groups],
        dropped=names(report.dropped),
        notes=tuple(named(words, notes) for words in report.notes),
    )
