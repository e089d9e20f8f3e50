"""``tunefree predict``: a model on new data, which may be read in parts."""

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    FAILED,
    USAGE,
    answer,
    as_csv,
    failing,
    note,
    stop,
    working,
)
from tunefree.cli.rows import column_name, columns_of, open_data, split_role_columns
from tunefree.engine.sources import open_source
from tunefree.engine.sources.readers import Replay
from tunefree.io.files import Named, detected, write_atomically
from tunefree.io.mixed import mixed_parts, read_mixed, read_numbers
from tunefree.io.model import describe_model, load_model
from tunefree.io.tables import Column


def load(path):
    """A model, and the notes of ``train`` about its data (none if it was saved from Python)."""
    with failing(BAD_MODEL, path), working(f"loading {path}"):
        return load_model(path), describe_model(path)["notes"]


def feature_names(estimator, notes):
    """The names of the columns, from the file if it has names."""
    if notes.get("feature_names") is None:
        notes = notes | {"feature_names": getattr(estimator, "feature_names_in_", None)}
    return [column_name(f"x{j}", notes) for j in range(estimator.n_features_in_)]


# --- Reading in the form that a model expects -----------------------------------------------------


def read_tables(estimator, notes, data, *, labelled, whole=False, **options):
    """Rows with the features of the model, in its order: one table, or parts of large data.

    `options` are those of `tunefree.io.read`; where one is None the notes decide.
    """
    with failing(BAD_DATA, data):
        source, large = open_data(data)
        noted = {key: Column(*notes[key]) for key in ("target", "weight_column") if notes.get(key)}
        settings = {
            "target": None if labelled else False,
            "columns": _names(estimator, notes),
            "n_features": estimator.n_features_in_ + len(notes.get("beside", ())),
            "zero_based": notes.get("zero_based", "auto"),
            "unseen": "ignore",
        }
        settings |= noted | {name: value for name, value in options.items() if value is not None}
        if (large or notes.get("hashed")) and not whole:
            yield from _parts(estimator, notes, source, settings, labelled)
            return
        kinds = _kinds(estimator, notes)
        with working(f"reading {data}"):
            if kinds is None:
                table = read_numbers(source, **settings)
            else:
                table = read_mixed(source, kinds=kinds, **settings)
        _note_ignored(table.ignored)
        yield table._replace(X=_named_as(estimator, notes, table.X))


def _parts(estimator, notes, source, settings, labelled):
    settings = {"target_type": None if labelled else str} | settings
    if notes.get("kinds"):
        settings["format"] = detected(source, settings.get("format"))[0]
        if isinstance(source, Replay):
            source = Named(source.name, source.for_good())
        for table in mixed_parts(source, kinds=notes["kinds"], **settings):
            yield table._replace(X=_named_as(estimator, notes, table.X))
        return
    id = getattr(settings["target"], "name", settings["target"])
    settings["drop"] = [Column(name, 0) for name in notes.get("drop", ()) if name != id]
    opened = open_source(source, hashed=notes.get("hashed"), **settings)
    yield from opened.chunks()
    _note_ignored(getattr(opened.reader, "ignored", 0))


def _names(estimator, notes):
    """Names to match columns by; a model that was saved from Python has its own."""
    names = notes.get("columns") or notes.get("feature_names")
    if names is None and notes.get("task") is None and hasattr(estimator, "feature_names_in_"):
        return estimator.feature_names_in_.tolist()
    return names


def _kinds(estimator, notes):
    """The kinds of the features for `read_mixed`; None if the model takes numbers only."""
    if not hasattr(estimator, "table_"):
        return None
    if notes.get("task") is not None:
        kinds = notes.get("kinds") or ["number"] * estimator.n_features_in_
        return _with_roles(kinds, notes, lambda role: "number")
    # The model parses dates itself: it knows whether their day comes first.
    return [None if kind == "number" else "text" for kind in estimator.table_.kinds_.tolist()]


def _with_roles(features, notes, value):
    """A list of the features, with a value of each column that is no feature at its place."""
    out = list(features)
    for role, position in sorted(notes.get("beside", {}).items(), key=lambda pair: pair[1]):
        out.insert(position, value(role))
    return out


def _named_as(estimator, notes, X):
    """A pyarrow table whose columns, in the order of the model, get the names of the model."""
    if not hasattr(X, "rename_columns") or not hasattr(estimator, "feature_names_in_"):
        return X
    names = _with_roles(estimator.feature_names_in_.tolist(), notes, lambda role: f"--{role}")
    return X.rename_columns(names)


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


_TABLES = (".csv", ".jsonl", ".ndjson", ".parquet")  # files whose columns have names


class Predicted(NamedTuple):
    """Columns of some rows, and their names."""

    names: list[str]
    columns: list


class Outputs(NamedTuple):
    """What is predicted for rows."""

    headed: bool  # whether text begins with the names of the columns
    part: Callable  # from features to a `Predicted`

    @classmethod
    def of(cls, names, columns, *, headed=True):
        """With these names; `columns` is a function of features."""
        return cls(headed, lambda X, **roles: Predicted([*names], columns(X, **roles)))


def run_predict(options):
    """Carry out ``tunefree predict``; `options` is a `PredictOptions`."""
    output = options.output
    estimator, notes = load(options.model)
    form = os.path.splitext(output or "")[1].lower()
    outputs = _outputs(estimator, notes, options, form in _TABLES)
    ids = options.id or []
    if options.id is None and form in _TABLES:  # those of training that the data have
        ids = [Column(name, sys.maxsize) for name in notes.get("ids", ())]
    if len(ids) > 1 and options.data == "-":
        stop("standard input is read once: give one --id", USAGE)
    sizes = []
    parts = _predictions(estimator, notes, outputs, options, ids, sizes)
    headed = outputs.headed or form == ".csv" or bool(ids)
    if output is None:
        for text in _texts(parts, headed, form):
            answer(text.removesuffix("\n"))
        return
    with failing(FAILED, output):
        if form == ".parquet":
            write_atomically(output, [_parquet(parts)])
        else:
            write_atomically(output, (text.encode() for text in _texts(parts, headed, form)))
    note(f"wrote {sum(sizes)} predictions to {output}")


def _predictions(estimator, notes, outputs, options, ids, sizes):
    """Yield each `Predicted` of the rows; their numbers of rows are added to `sizes`."""
    readings = [columns_of(options)]
    if ids:  # they are read like targets, one in each reading
        readings = [readings[0] | {"target": id, "target_type": str} for id in ids]
    read = [read_tables(estimator, notes, options.data, labelled=False, **r) for r in readings]
    for tables in zip(*read, strict=True):
        with failing(BAD_DATA, options.data), working("predicting"), matched_by_us():
            X, roles = split_role_columns(tables[0].X, notes.get("beside"))
            part = outputs.part(X, **roles)
            for table, id in zip(reversed(tables), reversed(ids), strict=bool(ids)):
                is_noted = isinstance(id, Column)
                if is_noted and table.y is None:
                    continue
                part.names.insert(0, id.name if is_noted else id)
                part.columns.insert(0, _ids(table, id, options.data))
        sizes.append(len(part.columns[0]))
        yield part


def _texts(parts, headed, form):
    """Yield the text of each part: JSON lines, csv, or plain lines of one column."""
    for names, columns in parts:
        rows = zip(*columns, strict=True)
        if form in (".jsonl", ".ndjson"):
            yield "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
            continue
        lines = [[plain(value) for value in row] for row in rows]
        is_csv = len(names) > 1 or form == ".csv"
        text = as_csv(lines) if is_csv else "".join(f"{line[0]}\n" for line in lines)
        yield (as_csv([names]) if headed else "") + text
        headed = False


def _ids(table, id, data):
    """The cells of a column that is copied in front of the predictions."""
    if getattr(table, "zero_based", None) is not None:
        stop(f"--id needs a table, but {data} is libsvm", USAGE)
    if table.y is None:
        stop(f"--id {id} is a feature of the model: train with --id {id} to exclude it", USAGE)
    return np.asarray(table.y).tolist()


def _parquet(parts):
    """The bytes of a parquet file with all parts."""
    import pyarrow as pa
    from pyarrow import parquet

    parts = [*parts]
    columns = [sum(column, []) for column in zip(*(p.columns for p in parts), strict=True)]
    file = pa.BufferOutputStream()
    parquet.write_table(pa.table(dict(zip(parts[0].names, columns, strict=True))), file)
    return file.getvalue().to_pybytes()


def _outputs(estimator, notes, options, is_table):
    """What to predict: values, probabilities, intervals, sets or explanations."""
    if options.proba + options.explain + (options.coverage is not None) > 1:
        stop("give only one of --proba, --coverage and --explain", USAGE)
    if options.coverage is not None:
        return _with_coverage(estimator, options)
    if options.explain:
        return _with_explanations(estimator, notes, options)
    has_proba = hasattr(estimator, "predict_proba")

    def predicted(X, **roles):
        return [estimator.predict(X, **roles).tolist()]

    def probabilities(X, **_):
        return estimator.predict_proba(X).T.tolist()

    def with_probabilities(X, **roles):
        return predicted(X, **roles) + probabilities(X)

    if options.proba:
        if not has_proba:
            stop(f"{options.model} has no probabilities", USAGE)
        return Outputs.of(_labels(estimator), probabilities)
    if is_table and has_proba:
        return Outputs.of(["prediction", *_labels(estimator)], with_probabilities)
    return Outputs.of(["prediction"], predicted, headed=False)


def _with_explanations(estimator, notes, options):
    """Predictions, their scores, and what each column adds to these."""
    if not hasattr(estimator, "explain"):
        stop(
            f"{options.model} has no explanations: only those of --estimator auto and trees", USAGE
        )
    features = feature_names(estimator, notes)

    def explained(X, **roles):
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
        return Predicted(names, columns)

    return Outputs(True, explained)


def _labels(estimator):
    """The classes as text."""
    return [plain(label) for label in estimator.classes_.tolist()]


def _with_coverage(estimator, options):
    """Intervals, or sets of classes, that contain a share of the targets."""
    kind = "set" if hasattr(estimator, "classes_") else "interval"
    if not hasattr(estimator, f"predict_{kind}"):
        stop(f"{options.model} has no {kind}s", USAGE)
    if not 0.0 < options.coverage < 1.0:
        stop(f"--coverage {options.coverage} is not between 0 and 1", USAGE)
    if getattr(estimator, "held_out_", 0) is None:
        stop(f"{options.model} has no held-out predictions, hence no {kind}s", USAGE)
    alpha = round(1.0 - options.coverage, 12)

    def sets(X, **_):
        y, members = estimator.predict_set(X, alpha)
        return [y.tolist(), *members[:, :, 0].astype(int).T.tolist()]

    def intervals(X, **roles):
        y, ends = estimator.predict_interval(X, alpha, **roles)
        y = y.reshape(len(y), -1)
        ends = ends.reshape(*y.shape, 2)
        return np.concatenate([y[:, :, None], ends], axis=2).reshape(len(y), -1).T.tolist()

    if kind == "set":
        return Outputs.of(["prediction", *_labels(estimator)], sets)
    names = ["prediction", "low", "high"]
    targets = len(getattr(estimator, "held_out_", ()) or ()) if hasattr(estimator, "table_") else 1
    if targets > 1:
        names = [f"{name} {j}" for j in range(targets) for name in names]
    return Outputs.of(names, intervals)


def plain(value):
    """A value as text; whole floats without a point: 1 rather than 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
