"""``tunefree predict``: a model on new data, which may be read in parts."""

import contextlib
import json
import os
import sys
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    FAILED,
    INTERRUPTED,
    USAGE,
    answer,
    as_csv,
    failing,
    is_stdout,
    note,
    stop,
    working,
)
from tunefree.cli.options import TASKS
from tunefree.cli.rows import (
    REFERENCE,
    cells_counted,
    column_name,
    columns_of,
    note_cells,
    note_skipped,
    of_formula,
    open_data,
    split_role_columns,
    with_targets_only,
)
from tunefree.core.format import listed
from tunefree.engine.sources import open_source
from tunefree.engine.sources.readers import Replay
from tunefree.files.arriving import (
    arriving_tables,
    is_pipe,
    kind_of_lines,
    libsvm_tables,
    opened,
)
from tunefree.files.dialect import with_comma, with_point
from tunefree.files.files import DataError, Named, Skipped, detected, write_atomically
from tunefree.files.mixed import TABLES, mixed_parts, read_mixed
from tunefree.files.model import describe_model, load_model
from tunefree.files.tables import Column, names_beside_blanks, unnamed
from tunefree.rows.kinds import NUMBER, PLAIN_NUMBER
from tunefree.rows.schema import Schema, read_columns, typed
from tunefree.rows.written_numbers import Numbers


def load(path):
    """A model, and the notes of ``train`` about its data (none if it was saved from Python)."""
    with failing(BAD_MODEL, path), working(f"loading {path}"):
        estimator, notes = load_model(path), describe_model(path)["notes"]
        if notes.get("task") not in TASKS:  # those of Python say nothing of the data
            kept = {name: notes.pop(name) for name in (REFERENCE,) if name in notes}
            notes = kept | ({"user": notes} if notes else {})
        notes["by_name"] = hasattr(estimator, "feature_names_in_")
    if several := vars(estimator).get("label_models_"):
        stop(
            f"{path} has {len(several)} labels, and commands take models of one: save each of its "
            "label_models_ in Python",
            USAGE,
        )
    return estimator, notes


def feature_names(estimator, notes):
    """The names of the columns, from the file if it has names."""
    if is_stream(estimator):
        return stream_columns(estimator)
    if "of_formula" in notes:
        return estimator.feature_names_in_.tolist()
    if notes.get("feature_names") is None:
        notes = notes | {"feature_names": getattr(estimator, "feature_names_in_", None)}
    return [column_name(f"x{j}", notes) for j in range(estimator.n_features_in_)]


def is_stream(estimator):
    """Whether a model has learned rows by their names, one by one: `tunefree stream` does."""
    return hasattr(estimator, "learn_one")


def stream_columns(estimator):
    """The names of the columns of a stream, in the order of their appearance.

    >>> from tunefree import StreamRegressor
    >>> model = StreamRegressor()
    >>> _ = model.learn_one({"a": 1.0, "city": "Rome"}, 2.0)
    >>> stream_columns(model)
    ['a', 'city']
    """
    from tunefree.streams.rows import keys_of  # which loads the numerics

    return keys_of(estimator.columns_)


# --- Reading in the form that a model expects -----------------------------------------------------


def bad_options(options):
    """The options about rows and cells that cannot be read, for `read_tables`."""
    return {"on_bad_row": options.on_bad_row, "on_bad_cell": options.on_bad_cell}


def read_tables(
    estimator,
    notes,
    data,
    *,
    labelled,
    whole=False,
    skipped=None,
    is_repeated=False,
    on_bad_row="error",
    on_bad_cell=None,
    keep=(),
    as_they_arrive=False,
    **options,
):
    """Rows with the features of the model, in its order: one table, or parts of large data.

    `options` are those of `tunefree.files.read`; where one is None the notes decide. Rows without a
    target are skipped and counted in `skipped` if `labelled`; otherwise the columns of targets and
    weights may hold anything, or be absent. What was skipped is printed, unless the reading
    `is_repeated`. Tables keep the cells of the columns `keep`. Lines of a pipe are read
    `as_they_arrive`.
    """
    with failing(BAD_DATA, data):
        skipped = skipped or Skipped(unlabelled=labelled)
        skipped.malformed = on_bad_row == "skip"
        arrive = as_they_arrive and not notes.get("hashed")
        lines, source, large = _opened_pipe(data, options) if arrive else (None, *open_data(data))
        settings = _settings(estimator, notes, labelled, keep, options) | {"skipped": skipped}
        if lines is not None:
            tables = arriving_tables(source, lines, keep=keep, **settings)
        elif (large or notes.get("hashed")) and not whole:
            settings = {"target_type": None if labelled else str} | settings
            tables = _parts(estimator, notes, source, settings, keep)
        else:
            with working(f"reading {data}"):
                has_cells = _has_cells(estimator) or "of_formula" in notes or bool(keep)
                settings |= {"keep": keep} if keep else {}
                tables = [read_mixed(source, cells=has_cells, **settings)]
        found = _Found.before(estimator)
        known = partial(
            _as_known,
            estimator,
            notes,
            is_part=lines is not None,
            on_bad_cell=on_bad_cell or getattr(estimator, "on_bad_cell", "missing"),
            marks=found.marks,
        )
        for table in tables:
            found = found.with_table(table)
            if labelled and notes.get("target_markers"):
                table = with_targets_only(table, notes["target_markers"], skipped)
            if not table.X.shape[0]:
                continue
            if lines is None:
                yield known(table, counted=found.counted)
            else:
                yield from _before_error(table, known, found.counted)
        _note_ignored(found.ignored)
        if not is_repeated:
            note_cells(found.counted)
            note_skipped(skipped)
            _note_lacking(found.lacking)
            _note_marks(found.marks)


class _Found(NamedTuple):
    """What is counted while tables are read, and printed when all of them are."""

    counted: dict  # cells that are not of their column's kind, by column
    marks: dict  # decimal marks that are others than in the training, by column
    lacking: set  # names of columns of a stream that no table has had
    ignored: int = 0  # entries of features that the model does not know

    @classmethod
    def before(cls, estimator):
        """Before the first table."""
        return cls({}, {}, set(stream_columns(estimator)) if is_stream(estimator) else set())

    def with_table(self, table):
        """After one more table."""
        ignored = self.ignored + getattr(table, "ignored", 0)
        return self._replace(ignored=ignored, lacking=self.lacking - _named_in(table, self.lacking))


def _settings(estimator, notes, labelled, keep, options):
    """What `tunefree.files` is given to read the columns of a model.

    Without labels the columns of targets and weights are skipped, but for those that are kept.
    """
    noted: dict[str, Any] = {
        key: Column(*notes[key]) for key in ("target", "weight_column") if notes.get(key)
    }
    if not labelled:
        noted = {"drop": [column for column in noted.values() if column.name not in keep]}
        noted["drop"] += [column for column in keep if isinstance(column, str)]
    settings = {
        "target": None if labelled else False,
        "columns": _names(estimator, notes),
        "n_features": _n_features(estimator, notes),
        # A stream knows features of libsvm by the index that is written.
        "zero_based": True if is_stream(estimator) else notes.get("zero_based", "auto"),
        "unseen": "ignore",
    }
    settings |= noted | {name: value for name, value in options.items() if value is not None}
    if labelled and notes.get("target_written"):
        settings["target_written"] = Numbers(**notes["target_written"])
    return settings


def _named_in(table, names):
    """Which of some names are columns of a table; a feature that libsvm does not write is 0."""
    if not names or table.zero_based is not None:
        return names
    if hasattr(table.X, "column_names"):
        return names.intersection(names_beside_blanks(table.X.column_names, names))
    return names.intersection(table.feature_names or map(unnamed, range(table.X.shape[1])))


def _note_lacking(names):
    if names:
        words = listed(sorted(names, key=str), 5)
        note(f"note: no row has {words}, which the stream has learned: they count as missing")


def _note_marks(marks):
    """Print which columns have another decimal mark than in the training."""
    for mark, own, learned in ((",", "comma", "point"), (".", "point", "comma")):
        if names := [name for name, found in marks.items() if found == mark]:
            what = f"column{'s' if len(names) > 1 else ''} {listed([*map(repr, names)], 5)}"
            note(f"note: {what}: a decimal {own} here, and a decimal {learned} in the training")


def _before_error(table, known, counted):
    """What is known of a table; or of its rows before the first one with an error, and that."""
    found: dict = {}
    try:
        whole = known(table, counted=found)
    except ValueError:
        n = table.X.shape[0]
        if n == 1:
            raise
        for rows in (slice(0, n // 2), slice(n // 2, n)):
            yield from _before_error(_rows_of_table(table, rows), known, counted)
        return
    for name, bad in found.items():
        before = counted.get(name, bad._replace(count=0))
        counted[name] = before._replace(count=before.count + bad.count)
    yield whole


def _rows_of_table(table, rows):
    """Some consecutive rows of a table of cells."""
    kept = table.kept and {name: cells[rows] for name, cells in table.kept.items()}
    X, where = table.X[rows], table.where
    if where is None:
        return table._replace(X=X, kept=kept)
    return table._replace(X=X, kept=kept, where=lambda row, column: where(row + rows.start, column))


def _opened_pipe(data, options) -> Any:
    """The format of the lines of a pipe, its source, and whether that is large.

    The format is None if the rows are no lines: all of the data are needed then.
    """
    source: Any
    lines, source = kind_of_lines(opened(data), options.get("format"))
    if lines is None:
        source = Named(source.name, list(source))
    return lines, source, False


def _parts(estimator, notes, source, settings, keep):
    """Tables, or chunks of a source, of consecutive rows."""
    if notes.get("kinds") or is_stream(estimator) or keep or "target_written" in settings:
        kind = detected(source, settings.get("format"))[0]
        if is_stream(estimator) or kind != "libsvm":
            if isinstance(source, Replay):
                source = Named(source.name, source.for_good())
            if kind == "libsvm":
                labelled, skipped = settings["target"] is None, settings["skipped"]
                yield from libsvm_tables(source, skipped, labelled=labelled, zero_based=True)
            else:
                yield from mixed_parts(source, **settings | {"keep": keep, "format": kind})
            return
    skipped = settings.pop("skipped")
    settings["drop"] = [*settings.get("drop", ()), *(Column(n, 0) for n in notes.get("drop", ()))]
    opened = open_source(source, hashed=notes.get("hashed"), **settings)
    opened.keeps_unlabelled = not skipped.unlabelled
    yield from opened.chunks()
    skipped.join(opened.skipped)
    _note_ignored(getattr(opened.reader, "ignored", 0))


def _names(estimator, notes):
    """Names to match columns by; a model that was saved from Python has its own."""
    if is_stream(estimator):
        return None
    names = notes.get("columns") or notes.get("feature_names")
    if names is None and notes.get("task") is None and hasattr(estimator, "feature_names_in_"):
        return estimator.feature_names_in_.tolist()
    return names


def _n_features(estimator, notes):
    """The number of columns of new rows; None if it does not matter."""
    if is_stream(estimator):
        return None
    n_beside = len(notes.get("beside", ()))
    if "of_formula" in notes:  # it makes other columns of those of the file
        return len(notes["of_formula"]["names"]) + n_beside
    return estimator.n_features_in_ + n_beside


def _has_cells(estimator):
    """Whether some columns of a model are more than plain numbers: their cells must be read."""
    if is_stream(estimator):
        return True
    schema = getattr(estimator, "schema_", None)
    if schema is None:
        return False
    return any(column != PLAIN_NUMBER._replace(whole=column.whole) for column in schema.columns)


def _with_roles(features, notes, value):
    """A list of the features, with a value of each column that is no feature at its place."""
    out = list(features)
    for role, position in sorted(notes.get("beside", {}).items(), key=lambda pair: pair[1]):
        out.insert(position, value(role))
    return out


def _as_known(estimator, notes, table, on_bad_cell, counted, marks, is_part=False):
    """A table of cells as the model knows its columns: their names, kinds and values.

    Cells that are not of their column's kind are `counted`, and decimal marks that are others than
    in the training are added to `marks`. A part of rows that arrive does not
    decide that a column has become another kind: it would depend on how many arrive together.
    """
    X: Any = getattr(table, "X", None)
    if is_stream(estimator):
        commas = notes.get("commas", ())
        return table._replace(X=_named_rows(stream_columns(estimator), table, commas))
    if known := notes.get("of_formula"):
        names = _with_roles(known["names"], notes, lambda role: f"--{role}")
        number = {"kind": "number"}
        schema = (known["schema"] or {}) | {f"--{r}": number for r in notes.get("beside", ())}
        if hasattr(X, "rename_columns"):
            table = table._replace(X=X.rename_columns(names))
        return of_formula(table, {"names": names, "schema": schema})
    if not hasattr(X, "rename_columns"):
        return table
    beside = set(notes.get("beside", {}).values())
    features = [name for j, name in enumerate(X.column_names) if j not in beside]
    given = list(getattr(estimator, "feature_names_in_", features))
    names = _with_roles(given, notes, lambda role: f"--{role}")
    schema = getattr(estimator, "schema_", None) or Schema.of_sparse(given)
    columns = _with_roles(list(schema.columns), notes, lambda role: PLAIN_NUMBER)
    schema = Schema(tuple(names), tuple(columns))
    has_points = getattr(table.dialect, "points", False)
    X = _in_marks_of(schema, X, _with_commas(table), has_points, marks)
    table = table._replace(X=X.rename_columns(names))
    with cells_counted(table, counted):
        columns = read_columns(schema, table.X, on_bad_cell, is_part=is_part)
        return table._replace(X=typed(schema, columns))


def _in_marks_of(schema, X, commas, has_points, marks):
    """Text of numbers with the decimal marks that a model has learned, where a file has others.

    `commas` are the columns of the file with decimal commas; a model that has learned decimal
    points next to commas, as some files have them, keeps to what it has learned. Marks of the file
    that are others are added to `marks`, by column.
    """
    numbers = [column for column in schema.columns if column.kind == NUMBER and not column.whole]
    knows_points = any(_point_of(column) == "." for column in numbers)
    for j, (name, column) in enumerate(zip(X.column_names, schema.columns, strict=True)):
        if column.kind != NUMBER or not _is_text(X, name):
            continue
        if name in commas and _point_of(column) == ".":
            mark, own = ",", X[name].to_pylist()
            cells = [c if c is None or "," not in c else with_point(c) for c in own]
        elif has_points and not knows_points and _point_of(column) == ",":
            mark, own = ".", X[name].to_pylist()
            cells = [c if c is None else with_comma(c) for c in own]
        else:
            continue
        if cells != own:
            marks[name] = mark
        X = X.set_column(j, name, pa.array(cells, pa.string()))
    return X


def _point_of(column):
    """The decimal mark of a column of numbers."""
    return getattr(column.written, "point", ".")


def _named_rows(names, table, commas):
    """The columns of a table that have these names, and missing values for others.

    Numbers of the columns `commas` had decimal commas when they were learned. Without any, it is
    the file that shows which have.
    """
    X = table.X
    if table.zero_based is not None:
        return _rows_by_index(names, X, table.path)
    if not hasattr(X, "column_names"):
        known = table.feature_names or [unnamed(j) for j in range(X.shape[1])]
        X = X.toarray() if hasattr(X, "toarray") else X
        X = pa.table(list(X.T), list(known))
    renamed = dict(zip(X.column_names, names_beside_blanks(X.column_names, names), strict=True))
    X = X.rename_columns([*renamed.values()])
    known = set(X.column_names)
    if known.isdisjoint(names):
        raise _no_known_column(names, table.path)
    gap = pa.nulls(X.num_rows)
    own = {renamed[name] for name in _with_commas(table)}
    commas = {name for name in commas if _is_text(X, name)} or own
    return pa.table({
        name: _with_points(X[name]) if name in commas else X[name] if name in known else gap
        for name in names
    })  # fmt: skip


def _is_text(X, name):
    """Whether a table has a column of text of this name."""
    return name in X.column_names and pa.types.is_string(X[name].type)


def _with_commas(table):
    """The names of the columns of text whose numbers have a decimal comma."""
    dialect = table.dialect
    if dialect is None or not dialect.commas:
        return set()
    own = dialect.names or [unnamed(j) for j in range(dialect.width)]
    return {own[j] for j in dialect.commas}.intersection(table.X.column_names)


def _with_points(cells):
    """Cells as a stream reads them: alone, they do not show what a comma is."""
    return pa.array([None if c is None else with_point(c) for c in cells.to_pylist()], pa.string())


def _rows_by_index(names, X, path):
    """The features of rows of libsvm, named by their index; one that no row has is 0."""
    if not any(name.isdecimal() for name in names):
        raise _no_known_column(names, path)
    X, columns = X.tocsc(), {}
    for name in names:
        is_there = name.isdecimal() and int(name) < X.shape[1]
        columns[name] = X[:, [int(name)]].toarray()[:, 0] if is_there else np.zeros(X.shape[0])
    return pa.table(columns)


def _no_known_column(names, path):
    """The error for data with none of the columns that a stream has learned."""
    return DataError(f"no column is one of those learned: {listed(names, 5)}", path)


def _note_ignored(count):
    if count:
        values = "1 value" if count == 1 else f"{count} values"
        note(f"note: ignored {values} of features that the model does not know")


@contextlib.contextmanager
def matched_by_us():
    """Silence scikit-learn's warning about arrays without names: the columns were matched here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        warnings.filterwarnings("ignore", "X has feature names, but")
        yield


# --- tunefree predict -----------------------------------------------------------------------------


# A multiple of the rows that kernels of BLAS take at once: 4, 8, 16, 24 or 48.
_GROUP = 48
_TABLES = (".csv", ".jsonl", ".ndjson", ".parquet")  # files whose columns have names


def run_predict(options):
    """Carry out ``tunefree predict``; `options` is a `PredictOptions`."""
    output = None if is_stdout(options.output) else options.output
    estimator, notes = load(options.model)
    form = os.path.splitext(output or "")[1].lower()
    if options.output_format is not None:
        form = f".{options.output_format}"
    predict, headed = _outputs(estimator, notes, options, form in _TABLES)
    ids = options.id or []
    if options.id is None and form in _TABLES:  # those of training that the data have
        ids = [Column(name, sys.maxsize) for name in notes.get("ids", ())]
    sizes, checked = [], None
    if options.check:
        from tunefree.cli.drift import CheckedRows

        checked = CheckedRows.of(estimator, notes, options.model)
    parts = _predictions(estimator, notes, predict, options, ids, sizes, checked)
    texts = _texts(parts, headed or form == ".csv" or bool(ids), form)
    if output is None:
        with _counted_on_interruption(sizes):
            for text in texts:
                answer(text.removesuffix("\n"))
    else:
        with failing(FAILED, output):
            if form == ".parquet":
                write_atomically(output, [_parquet(parts)])
            else:
                write_atomically(output, (text.encode() for text in texts))
        note(f"wrote {sum(sizes)} predictions to {output}")
    if checked is not None:
        checked.finish()


@contextlib.contextmanager
def _counted_on_interruption(sizes):
    """Print how many rows were predicted before an interruption."""
    try:
        yield
    except KeyboardInterrupt:
        stop(f"interrupted after {sum(sizes)} predictions", INTERRUPTED)


def _predictions(estimator, notes, predict, options, ids, sizes, checked):
    """Yield the names and the columns of each part; its number of rows is added to `sizes`."""
    reading: Any = columns_of(options) | bad_options(options) | {"labelled": False}
    readings = [reading | {"as_they_arrive": is_pipe(options.data), "keep": ids}]
    if ids and not _keeps_cells(options, notes):  # they are read like targets, one in each reading
        readings = [reading | {"target": id, "target_type": str} for id in ids]
    read = [
        read_tables(estimator, notes, options.data, is_repeated=k > 0, **reading)
        for k, reading in enumerate(readings)
    ]
    for tables in zip(*read, strict=True):
        with failing(BAD_DATA, options.data), working("predicting"), matched_by_us():
            X, roles = split_role_columns(tables[0].X, notes.get("beside"))
            found = _ids_of(tables, ids, options.data)
            names, columns = _in_groups(predict, X, roles)
            if checked is not None:
                checked.add(X, roles)
        sizes.append(X.shape[0])
        yield [*found, *names], [*found.values(), *columns]


def _in_groups(predict, X, roles):
    """The names and columns of `predict`: each row has the same bits however rows are cut.

    BLAS computes groups of rows, and those that are left over in another order of sums. Kernels
    are summed in blocks of 512 rows, and differ by rounding.
    """
    n = X.shape[0]
    even = n - n % _GROUP
    parts = [(X[:even], {role: values[:even] for role, values in roles.items()})] if even else []
    if even < n:
        rows = np.minimum(np.arange(even, even + _GROUP), n - 1)  # the last one is repeated
        tail = X.take(pa.array(rows)) if hasattr(X, "take") and hasattr(X, "schema") else X[rows]
        parts.append((tail, {role: values[rows] for role, values in roles.items()}))
    names, found = [], []
    for part, more in parts:
        names, columns = predict(part, **more)
        found.append(columns)
    columns = [sum(parts, start=[]) for parts in zip(*found, strict=True)]
    return names, [column[:n] for column in columns]


def _keeps_cells(options, notes):
    """Whether the reader of the data can keep cells as they are."""
    if is_pipe(options.data):
        return True
    return detected(options.data, options.format)[0] in TABLES and not notes.get("hashed")


def _ids_of(tables, ids, data):
    """The columns that are copied in front of the predictions, by name."""
    kept = getattr(tables[0], "kept", None)
    if ids and kept is not None:
        return kept
    found = {}
    for table, id in zip(tables, ids, strict=bool(ids)):
        is_noted = isinstance(id, Column)
        if getattr(table, "zero_based", None) is not None:
            stop(f"--id needs a table, but {data} is libsvm", USAGE)
        if table.y is None and not is_noted:
            stop(f"--id {id} is a feature of the model: train with --id {id} to exclude it", USAGE)
        if table.y is not None:
            found[id.name if is_noted else id] = table.y.tolist()
    return found


def _texts(parts, headed, form):
    """Yield the text of each part: JSON lines, csv, or plain lines of one column."""
    for names, columns in parts:
        rows = zip(*columns, strict=True)
        if form in (".jsonl", ".ndjson"):
            records = (dict(zip(names, row, strict=True)) for row in rows)
            yield "".join(json.dumps(record, default=str) + "\n" for record in records)
            continue
        lines = [[plain(value) for value in row] for row in rows]
        is_csv = len(names) > 1 or form == ".csv"
        text = as_csv(lines) if is_csv else "".join(f"{line[0]}\n" for line in lines)
        yield (as_csv([names]) if headed else "") + text
        headed = False


def _parquet(parts):
    """The bytes of a parquet file with all parts."""
    from pyarrow import parquet

    tables = [pa.table(dict(zip(names, columns, strict=True))) for names, columns in parts]
    file = pa.BufferOutputStream()
    parquet.write_table(pa.concat_tables(tables), file)
    return file.getvalue().to_pybytes()


def _outputs(estimator, notes, options, is_table):
    """A function from features to names and columns; whether text begins with the names."""
    if options.proba + options.explain + (options.coverage is not None) > 1:
        stop("give only one of --proba, --coverage and --explain", USAGE)
    if options.coverage is not None:
        return _with_coverage(estimator, options), True
    if options.explain:
        return _with_explanations(estimator, notes, options), True
    has_proba = hasattr(estimator, "predict_proba")
    if options.proba and not has_proba:
        stop(f"{options.model} has no probabilities", USAGE)

    def predict(X, **roles):
        names, columns = [], []
        if not options.proba:
            names, columns = ["prediction"], [estimator.predict(X, **roles).tolist()]
        if options.proba or (is_table and has_proba):
            names, columns = (
                names + _labels(estimator),
                columns + estimator.predict_proba(X, **roles).T.tolist(),
            )
        return names, columns

    return predict, options.proba or (is_table and has_proba)


def _with_explanations(estimator, notes, options):
    """Predictions, their scores, and what each column adds to these."""
    if not hasattr(estimator, "explain"):
        words = "has no explanations: only those of --estimator auto and trees"
        stop(f"{options.model} {words}", USAGE)
    features = feature_names(estimator, notes)

    def predict(X, **roles):
        names, columns = ["prediction"], [estimator.predict(X, **roles).tolist()]
        found, n = estimator.explain(X), X.shape[0]
        values, scores = found.values.reshape(n, len(features), -1), found.score.reshape(n, -1)
        k = scores.shape[1]
        labels = _labels(estimator) if hasattr(estimator, "classes_") else range(k)
        ends = [""] if k == 1 else [f"_{label}" for label in labels]
        for c, (end, base) in enumerate(zip(ends, np.atleast_1d(found.base_value), strict=True)):
            names += [f"score{end}", f"base_value{end}"]
            names += [f"contribution_{feature}{end}" for feature in features]
            columns += [scores[:, c].tolist(), n * [float(base)], *values[:, :, c].T.tolist()]
        return names, columns

    return predict


def _labels(estimator):
    """The classes as text."""
    return [plain(label) for label in estimator.classes_.tolist()]


def _with_coverage(estimator, options):
    """Intervals, or sets of classes, that contain a share of the targets."""
    kind = "set" if hasattr(estimator, "classes_") else "interval"
    if not hasattr(estimator, f"predict_{kind}"):
        stop(f"{options.model} has no {kind}s", USAGE)
    if not 0.0 < options.coverage < 1.0:
        stop(f"--coverage {options.coverage} is not between 0 and 1: write .9 for 90 %", USAGE)
    if getattr(estimator, "held_out_", 0) is None:
        stop(f"{options.model} has no held-out predictions, hence no {kind}s", USAGE)
    alpha = round(1.0 - options.coverage, 12)

    def sets(X, **_):
        y, members = estimator.predict_set(X, alpha)
        columns = [y.tolist(), *members[:, :, 0].astype(int).T.tolist()]
        return ["prediction", *_labels(estimator)], columns

    def intervals(X, **roles):
        y, ends = estimator.predict_interval(X, alpha, **roles)
        y = y.reshape(len(y), -1)
        columns = np.concatenate([y[:, :, None], ends.reshape(*y.shape, 2)], axis=2)
        names, k = ["prediction", "low", "high"], y.shape[1]
        if k > 1:
            names = [f"{name} {j}" for j in range(k) for name in names]
        return names, columns.reshape(len(y), -1).T.tolist()

    return sets if kind == "set" else intervals


def plain(value):
    """A value as text; whole floats without a point: 1 rather than 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
