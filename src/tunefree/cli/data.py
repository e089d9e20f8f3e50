"""The rows that a command learns from: read, checked, and what a model remembers of them."""

import contextlib
import itertools
import os

import numpy as np

from tunefree.cli.console import BAD_DATA, USAGE, failing, note, stop, working
from tunefree.engine.sources.readers import Replay
from tunefree.io import DataError, Named, read
from tunefree.io.mixed import read_mixed
from tunefree.io.opening import chunks
from tunefree.io.tables import unnamed

MOST_CLASSES = 20
# Files and standard input beyond so many bytes do not lie in memory.
_LARGE, _HELD = 256 << 20, 32 << 20
_NAMES = {"number": "numbers", "truth": "truth values", "date": "dates", "text": "text"}


def take_in(data):
    """Where to read data from, and whether they are too large to be taken into memory.

    Standard input ("-") is held as far as it is not large: a `Named` of all of it, or a `Replay`
    of its beginning and what follows.
    """
    if data != "-":
        return data, os.path.isfile(data) and os.path.getsize(data) > _LARGE
    pieces, held, size = chunks("-"), [], 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size > _HELD:
            return Replay("<stdin>", itertools.chain(held, pieces)), True
    return Named("<stdin>", held), False


@contextlib.contextmanager
def way_out(words):
    """Add what the user can do to the error for a feature that is no number."""
    try:
        yield
    except DataError as problem:
        if problem.feature:
            problem.hint = words
        raise


def read_rows(
    source, name, kind, options, *, mixed=False,
    hint="--estimator auto takes text, dates and empty cells",
):  # fmt: skip
    """Read a `tunefree.io.Table` to learn from.

    `kind` is what the targets must be (None: anything); `mixed` welcomes text, dates and gaps, and
    where they are not welcome `hint` says what to do.
    """
    reader = read_mixed if mixed else read
    with failing(BAD_DATA, name), working(f"reading {name}"):
        with contextlib.nullcontext() if mixed else way_out(hint):
            table = reader(source, target_type=kind, **options)
        if table.y is None:
            raise DataError("the file has no target column", table.path)
        if table.X.shape[1] == 0:
            raise DataError("the file has no features", table.path)
        if np.all(table.y == table.y[0]):
            raise DataError(f"the target is the same in every row: {table.y[0]}", table.path)
        check_classes(table.y, table.path)
        table = _without_count(table)
        if options["header"] is None and _is_no_header(table):
            note("note: line 1 is taken for a header, but its cells occur below it: --no-header?")
    for option in ("target", "weight_column", "header"):
        if table.zero_based is not None and options[option] is not None:
            stop(f"--{option.replace('_', '-')} is for csv, but {name} is libsvm", USAGE)
    return table


def check_classes(y, path):
    """Refuse texts as targets that hardly repeat."""
    values, rows = len(np.unique(y)), len(y)
    if y.dtype.kind == "U" and values > max(MOST_CLASSES, rows / 2):
        words = f"the target has {values} different texts in {rows} rows: these are no classes"
        raise DataError(f"{words} (see --target)", path)


def _is_no_header(table):
    """Whether every name occurs in its own column, all of which are text."""
    if not hasattr(table.X, "column_names") or set(table.kinds) != {"text"}:
        return False
    if table.feature_names is None or table.target.name not in table.y:
        return False
    names = zip(table.X.column_names, table.X.columns, strict=True)
    return all(name in set(column.to_pylist()) for name, column in names)


def _without_count(table):
    """Leave out a first column that has no name and counts the rows, as pandas writes it."""
    names, X = table.feature_names, table.X
    if not names or names[0] != unnamed(0) or len(names) < 2:
        return table
    framed = hasattr(X, "column_names")
    first = X.column(0).to_numpy() if framed else X[:, 0]
    if first.dtype.kind != "f" or not np.array_equal(first - first[0], np.arange(len(first))):
        return table
    note("note: column 1 has no name and counts the rows: it is left out")
    X = X.drop_columns(names[:1]) if framed else np.ascontiguousarray(X[:, 1:])
    return table._replace(X=X, feature_names=names[1:], kinds=table.kinds and table.kinds[1:])


def layout_of(found, task, rows, features, zero_based):
    """What a model file remembers of its data for prediction; `found` is a table or a reader."""
    return {
        "task": task,
        "rows": rows,
        "features": int(features),
        "feature_names": found.feature_names,
        "zero_based": zero_based,
        "target": found.target and list(found.target),
        "weight_column": found.weight_column and list(found.weight_column),
    }


def noted(table, task):
    """The layout of a table, with its kinds of columns and its gaps."""
    zero_based = "auto" if table.zero_based is None else table.zero_based
    notes = layout_of(table, task, len(table.y), table.X.shape[1], zero_based)
    if table.kinds is None:
        stored = table.X if table.zero_based is None else table.X.data
        return notes | {"nonzeros": int(np.count_nonzero(stored))}
    if hasattr(table.X, "column_names"):
        gaps = sum(column.null_count for column in table.X.columns)
    else:
        gaps = int(np.count_nonzero(np.isnan(table.X)))
    return notes | {"kinds": table.kinds, "gaps": gaps}


def kinds_told(notes):
    """How many columns are of which kind; nothing if all are numbers.

    Examples
    --------
    >>> kinds_told({"kinds": ["number", "text", "number"]})
    '2 of numbers, 1 of text'
    """
    kinds = notes.get("kinds") or []
    if set(kinds) <= {"number"}:
        return ""
    return ", ".join(f"{kinds.count(k)} of {name}" for k, name in _NAMES.items() if k in kinds)


def column_told(column):
    """The name of a column, or its number."""
    name, position = column
    return unnamed(position) if name is None else name


def layout_told(notes):
    """What there is to say of the columns of a model's data: titles and words."""
    rows = [(name, str(notes[name])) for name in ("task", "rows", "nonzeros") if name in notes]
    if kinds_told(notes):
        rows.append(("columns", kinds_told(notes)))
    if notes.get("gaps"):
        rows.append(("missing values", str(notes["gaps"])))
    if notes.get("target"):
        rows.append(("target", column_told(notes["target"])))
    return rows
