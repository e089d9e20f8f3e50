"""``tunefree predict``: a model on new data, which may be read in parts."""

import contextlib
import json
import os
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
from tunefree.cli.train import columns_of, open_data, split_role_columns
from tunefree.engine.sources import open_source
from tunefree.engine.sources.readers import Replay
from tunefree.io import Column, Named, detected
from tunefree.io.files import write_atomically
from tunefree.io.mixed import mixed_parts, read_mixed, read_numbers
from tunefree.io.model import describe_model, load_model


def load(path):
    """A model, and the notes of ``train`` about its data (none if it was saved from Python)."""
    with failing(BAD_MODEL, path), working(f"loading {path}"):
        return load_model(path), describe_model(path)["notes"]


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
    settings["drop"] = [Column(name, 0) for name in notes.get("drop", ())]
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


class Outputs(NamedTuple):
    """What is predicted for rows."""

    names: list[str]  # of the columns
    headed: bool  # whether text begins with the names
    columns: Callable  # from features to columns of predictions


def run_predict(options):
    """Carry out ``tunefree predict``; `options` is a `PredictOptions`."""
    output = options.output
    if len(options.id or ()) > 1:
        stop("predict copies one column: give --id once", USAGE)
    options = options._replace(id=options.id[0] if options.id else None)
    estimator, notes = load(options.model)
    outputs = _outputs(estimator, options)
    names, headed = outputs.names, outputs.headed
    if options.id is not None:
        names, headed = [options.id, *names], True
    form = os.path.splitext(output or "")[1].lower()
    sizes = []
    parts = _predictions(estimator, notes, outputs, options, sizes)
    if output is None:
        for text in _texts(parts, names, headed, form):
            answer(text.removesuffix("\n"))
        return
    with failing(FAILED, output):
        if form == ".parquet":
            write_atomically(output, [_parquet(parts, names)])
        else:
            texts = _texts(parts, names, headed, form)
            write_atomically(output, (text.encode() for text in texts))
    note(f"wrote {sum(sizes)} predictions to {output}")


def _predictions(estimator, notes, outputs, options, sizes):
    """Yield the columns of each part of the rows; their numbers of rows are added to `sizes`."""
    reading = columns_of(options)
    if options.id is not None:  # it is read like a target
        reading |= {"target": options.id, "target_type": str}
    for table in read_tables(estimator, notes, options.data, labelled=False, **reading):
        with failing(BAD_DATA, options.data), working("predicting"), matched_by_us():
            X, roles = split_role_columns(table.X, notes.get("beside"))
            columns = outputs.columns(X, **roles)
            if options.id is not None:
                columns.insert(0, _ids(table, options))
        sizes.append(len(columns[0]))
        yield columns


def _texts(parts, names, headed, form):
    """Yield the text of each part: JSON lines, csv, or plain lines of one column."""
    is_csv = len(names) > 1 or form == ".csv"
    head = as_csv([names]) if headed or form == ".csv" else ""
    for columns in parts:
        rows = zip(*columns, strict=True)
        if form in (".jsonl", ".ndjson"):
            yield "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
            continue
        lines = [[plain(value) for value in row] for row in rows]
        yield head + (as_csv(lines) if is_csv else "".join(f"{line[0]}\n" for line in lines))
        head = ""


def _ids(table, options):
    """The cells of the column that is copied in front of the predictions."""
    if getattr(table, "zero_based", None) is not None:
        stop(f"--id needs a table, but {options.data} is libsvm", USAGE)
    if table.y is None:
        id = options.id
        stop(f"--id {id} is a feature of the model: train with --id {id} to exclude it", USAGE)
    return np.asarray(table.y).tolist()


def _parquet(parts, names):
    """The bytes of a parquet file with all parts."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = [sum(column, []) for column in zip(*parts, strict=True)]
    file = pa.BufferOutputStream()
    parquet.write_table(pa.table(dict(zip(names, columns, strict=True))), file)
    return file.getvalue().to_pybytes()


def _outputs(estimator, options):
    """What to predict: values, probabilities, intervals or sets."""
    if options.proba and options.coverage is not None:
        stop("give only one of --proba and --coverage", USAGE)
    if options.coverage is not None:
        return _with_coverage(estimator, options)
    if options.proba:
        if not hasattr(estimator, "predict_proba"):
            stop(f"{options.model} has no probabilities", USAGE)
        proba = lambda X, **_: estimator.predict_proba(X).T.tolist()  # noqa: E731
        return Outputs(_labels(estimator), True, proba)
    return Outputs(["prediction"], False, lambda X, **r: [estimator.predict(X, **r).tolist()])


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
        return Outputs(["prediction", *_labels(estimator)], True, sets)
    names = ["prediction", "low", "high"]
    targets = len(getattr(estimator, "held_out_", ()) or ()) if hasattr(estimator, "table_") else 1
    if targets > 1:
        names = [f"{name} {j}" for j in range(targets) for name in names]
    return Outputs(names, True, intervals)


def plain(value):
    """A value as text; whole floats without a point: 1 rather than 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
