"""``tunefree predict`` and ``tunefree eval``: a model meets new data."""

import contextlib
import csv
import io
import json
import warnings

import numpy as np

from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    FAILED,
    USAGE,
    answer,
    check_writable,
    failing,
    note,
    stop,
    working,
)
from tunefree.cli.scores import score_classes, score_values
from tunefree.persistence import describe_model, load_model, write_atomically
from tunefree.readers import Column, DataError, read


def load(path):
    """Load a model and what the training noted about its data.

    Parameters
    ----------
    path : str
        The model file.

    Returns
    -------
    estimator, dict
        The model; the notes, empty for a model that was not trained by the command line.
    """
    with failing(BAD_MODEL, path), working(f"loading {path}"):
        return load_model(path), describe_model(path)["notes"]


def read_for(estimator, notes, data, *, labelled, **options):
    """Read data in the form that a model expects.

    Parameters
    ----------
    estimator : estimator
        The model.
    notes : dict
        What the training noted.
    data : str
        The file.
    labelled : bool
        Whether the targets are wanted.
    **options
        For `tunefree.readers.read`; what is not None comes before the notes.

    Returns
    -------
    Table
        As many features as the model has, in its order.
    """
    names = notes.get("feature_names")
    if names is None and hasattr(estimator, "feature_names_in_"):
        names = estimator.feature_names_in_.tolist()
    noted = {name: Column(*notes[name]) for name in ("target", "weight_column") if notes.get(name)}
    given = {name: value for name, value in options.items() if value is not None}
    table = read(
        data,
        **({"target": None if labelled else False} | noted | given),
        columns=names,
        n_features=estimator.n_features_in_,
        zero_based=notes.get("zero_based", "auto"),
        unseen="ignore",
    )
    if table.ignored:
        values = "1 value" if table.ignored == 1 else f"{table.ignored} values"
        note(f"note: ignored {values} of features that the model has never seen")
    return table


def run_predict(model, data, output, proba, **options):
    """Carry out ``tunefree predict``.

    Parameters
    ----------
    model, data : str
        The files.
    output : str or None
        Where to write, None for stdout.
    proba : bool
        Whether to write probabilities instead of predictions.
    **options
        For `tunefree.readers.read`.
    """
    estimator, notes = load(model)
    if proba and not hasattr(estimator, "predict_proba"):
        stop(f"{model} gives no probabilities", USAGE)
    with failing(BAD_DATA, data), working(f"reading {data}"):
        table = read_for(estimator, notes, data, labelled=False, **options)
    with failing(BAD_DATA, data), working("predicting"), matched_by_us():
        if proba:
            text = _as_csv(estimator.classes_, estimator.predict_proba(table.X))
        else:
            text = "".join(f"{_plain(value)}\n" for value in estimator.predict(table.X).tolist())
    if output is None:
        answer(text.removesuffix("\n"))
    else:
        with failing(FAILED, output):
            write_atomically(output, [text.encode()])
        note(f"wrote {table.X.shape[0]} predictions to {output}")


def _plain(value):
    """Write a number as briefly as it can be read back: 1 rather than 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _as_csv(classes, probabilities):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_plain(value) for value in classes.tolist()])
    writer.writerows(probabilities.tolist())
    return text.getvalue()


@contextlib.contextmanager
def matched_by_us():
    """Silence scikit-learn's warning about arrays without names: `read_for` matched the columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


def run_eval(model, data, as_json, html=None, **options):
    """Carry out ``tunefree eval``.

    Parameters
    ----------
    model, data : str
        The files.
    as_json : bool
        Whether to print a JSON object instead of lines.
    html : str or None
        Where to write the page of ``tunefree report``, too.
    **options
        For `tunefree.readers.read`.
    """
    if html is not None:
        check_writable(html)
    estimator, notes = load(model)
    table = read_labelled(estimator, notes, data, options)
    with failing(BAD_DATA, data), working("predicting"):
        scores = evaluate(estimator, table)
    if as_json:
        answer(json.dumps(scores))
    else:
        for name, value in scores.items():
            answer(f"{name:10}{value:.6g}" if isinstance(value, float) else f"{name:10}{value}")
    if html is not None:
        from tunefree.cli.reporting import write_page

        write_page(html, model, estimator, notes, data, table)


def read_labelled(estimator, notes, data, options):
    """Read rows with targets, in the form that a model expects.

    Parameters
    ----------
    estimator : estimator
        The model.
    notes : dict
        What the training noted.
    data : str
        The file.
    options : dict
        For `tunefree.readers.read`.

    Returns
    -------
    Table
    """
    classes = getattr(estimator, "classes_", None)
    kind = float if classes is None or classes.dtype.kind in "biuf" else str
    with failing(BAD_DATA, data), working(f"reading {data}"):
        table = read_for(estimator, notes, data, labelled=True, target_type=kind, **options)
        if table.y is None:
            raise DataError("there is no target column to compare with (see --target)", table.path)
    return table


def evaluate(estimator, table):
    """Score a model on a table.

    Parameters
    ----------
    estimator : estimator
        The model.
    table : Table
        Features and targets.

    Returns
    -------
    dict
        See `tunefree.cli.scores`.
    """
    with matched_by_us():
        return _evaluate(estimator, table)


def _evaluate(estimator, table):
    predicted = estimator.predict(table.X)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return score_values(table.y, predicted, weight=table.weight)
    strangers = np.count_nonzero(~np.isin(table.y, classes))
    if strangers:
        note(f"note: {strangers} rows have a class that the model does not know: errors")
    probabilities = decisions = None
    if hasattr(estimator, "predict_proba"):
        probabilities = estimator.predict_proba(table.X)
    if len(classes) == 2:
        decisions = estimator.decision_function(table.X)
    return score_classes(
        table.y,
        predicted,
        classes,
        probabilities=probabilities,
        decisions=decisions,
        weight=table.weight,
    )
