"""Rows to learn from, that fit into memory: read, checked, and described."""

import contextlib

import numpy as np

from tunefree.cli.console import BAD_DATA, USAGE, failing, note, stop, working
from tunefree.io import DataError, read
from tunefree.io.mixed import read_mixed
from tunefree.io.tables import unnamed

MOST_CLASSES = 20
_NAMES = {"number": "numbers", "truth": "truth values", "date": "dates", "text": "text"}


@contextlib.contextmanager
def way_out(words):
    """Add words to the error for a feature that is no number.

    Parameters
    ----------
    words : str
        What the user can do.

    Yields
    ------
    None
        To the reading.
    """
    try:
        yield
    except DataError as problem:
        if problem.feature:
            problem.hint = words
        raise


def read_rows(
    data,
    kind,
    options,
    name=None,
    *,
    mixed=False,
    hint="--estimator auto takes text, dates and empty cells",
):
    """Read rows to learn from.

    Parameters
    ----------
    data : str or iterable of bytes
        The file, or its text.
    kind : type or None
        What the targets must be.
    options : dict
        For `tunefree.io.read`.
    name : str, optional
        What to call it.
    mixed : bool
        Whether text, dates and gaps are welcome.
    hint : str
        What to say where they are not.

    Returns
    -------
    Table
    """
    name, reader = name or data, read_mixed if mixed else read
    with failing(BAD_DATA, name), working(f"reading {name}"):
        with contextlib.nullcontext() if mixed else way_out(hint):
            table = reader(data, target_type=kind, **options)
        _check_rows(table)
        table = _without_count(table)
        if options["header"] is None and _is_no_header(table):
            note("note: line 1 is taken for a header, but its cells occur below it: --no-header?")
    for option in ("target", "weight_column", "header"):
        if table.zero_based is not None and options[option] is not None:
            stop(f"--{option.replace('_', '-')} is for csv, but {name} is libsvm", USAGE)
    return table


def _check_rows(table):
    if table.y is None:
        raise DataError("the file has no target column", table.path)
    if table.X.shape[1] == 0:
        raise DataError("the file has no features", table.path)
    if np.all(table.y == table.y[0]):
        raise DataError(f"the target is the same in every row: {table.y[0]}", table.path)
    check_classes(table.y, table.path)


def check_classes(y, path):
    """Refuse texts as targets that hardly repeat.

    Parameters
    ----------
    y : array of shape (n_rows,)
        The targets.
    path : str
        The file, for the message.
    """
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


def noted(table, task):
    """Remember how the data were laid out, for prediction.

    Parameters
    ----------
    table : Table
    task : {"classification", "regression"}

    Returns
    -------
    dict
    """
    notes = {
        "task": task,
        "rows": len(table.y),
        "features": table.X.shape[1],
        "feature_names": table.feature_names,
        "zero_based": "auto" if table.zero_based is None else table.zero_based,
        "target": table.target and list(table.target),
        "weight_column": table.weight_column and list(table.weight_column),
    }
    if table.kinds is None:
        stored = table.X if table.zero_based is None else table.X.data
        return notes | {"nonzeros": int(np.count_nonzero(stored))}
    return notes | {"kinds": table.kinds, "gaps": _gaps(table.X)}


def _gaps(X):
    """How many cells are missing."""
    if hasattr(X, "column_names"):
        return sum(column.null_count for column in X.columns)
    return int(np.count_nonzero(np.isnan(X)))


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


def layout_told(notes):
    """What there is to say of the columns of a model's data.

    Parameters
    ----------
    notes : dict
        As `noted` has them.

    Returns
    -------
    list of (str, str)
        Titles and words.
    """
    rows = [(name, str(notes[name])) for name in ("task", "rows", "nonzeros") if name in notes]
    if kinds_told(notes):
        rows.append(("columns", kinds_told(notes)))
    if notes.get("gaps"):
        rows.append(("missing values", str(notes["gaps"])))
    if notes.get("target"):
        rows.append(("target", column_told(notes["target"])))
    return rows


def column_told(column):
    """The name of a column, or its number."""
    name, position = column
    return unnamed(position) if name is None else name


def telling(data, done, last):
    """Say what the columns were taken for.

    Parameters
    ----------
    data : str
        What the user calls the file.
    done : Trained
    last : bool
        Whether the target is the last column for want of a word about it.

    Returns
    -------
    list of str
        Lines.
    """
    notes = done.notes
    words = f"{data}: {notes['rows']} rows, {notes['features']} features"
    if kinds := kinds_told(notes):
        words += f" ({kinds})"
    if notes.get("gaps"):
        words += f", {notes['gaps']} missing values"
    lines = [words]
    if notes.get("target"):
        more = " (the last column; --target overrules)" if last else ""
        lines.append(f"target: {column_told(notes['target'])}{more}")
    idle = _idle(done.estimator, notes)
    if idle:
        lines.append(f"note: nothing is learned from text that hardly repeats: {', '.join(idle)}")
    return lines


def _idle(estimator, notes):
    """Columns of text that the preprocessor makes nothing of (a table of text has names)."""
    table = getattr(estimator, "table_", None)
    if table is None:
        return []
    names = getattr(estimator, "feature_names_in_", None)
    return [repr(str(names[int(j)])) for j, levels in table.levels_.items() if not levels]
