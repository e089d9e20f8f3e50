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
from tunefree.cli.parts import in_parts, kinds_of, named_as, needs_parts, tell_ignored
from tunefree.cli.running import RunningClasses, RunningValues
from tunefree.cli.scores import score_classes, score_values
from tunefree.io import Column, DataError, read
from tunefree.io.atomic import write_atomically
from tunefree.io.mixed import read_mixed
from tunefree.io.model import describe_model, load_model


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
        estimator, notes = load_model(path), describe_model(path)["notes"]
        times = notes.pop("seconds", None)
        if times is not None and hasattr(estimator, "report_"):
            estimator._set_times(times)
        return estimator, notes


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
        For `tunefree.io.read`; what is not None comes before the notes.

    Returns
    -------
    Table
        As many features as the model has, in its order.
    """
    names, kinds = notes.get("feature_names"), kinds_of(estimator, notes)
    if names is None and notes.get("task") is None and hasattr(estimator, "feature_names_in_"):
        names = estimator.feature_names_in_.tolist()
    noted = {name: Column(*notes[name]) for name in ("target", "weight_column") if notes.get(name)}
    given = {name: value for name, value in options.items() if value is not None}
    options = {"target": None if labelled else False} | noted | given
    options |= {"columns": names, "n_features": estimator.n_features_in_, "unseen": "ignore"}
    options["zero_based"] = notes.get("zero_based", "auto")
    if kinds is None:
        table = read(data, **options)
    else:
        table = read_mixed(data, kinds=kinds, **options)
    tell_ignored(table.ignored)
    return table._replace(X=named_as(estimator, table.X))


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
        For `tunefree.io.read`.
    """
    estimator, notes = load(model)
    if proba and not hasattr(estimator, "predict_proba"):
        stop(f"{model} gives no probabilities", USAGE)
    source, large = needs_parts(data, notes)
    if large:
        tables = in_parts(estimator, notes, source, data, labelled=False, **options)
    else:
        with failing(BAD_DATA, data), working(f"reading {data}"):
            tables = [read_for(estimator, notes, source, labelled=False, **options)]
    texts = _texts(estimator, tables, data, proba)
    if output is None:
        for text in texts:
            answer(text.removesuffix("\n"))
    else:
        count = Counted(texts)
        with failing(FAILED, output):
            write_atomically(output, (text.encode() for text in count))
        note(f"wrote {count.lines - proba} predictions to {output}")


class Counted:
    r"""Texts whose lines are counted as they go by.

    Examples
    --------
    >>> texts = Counted(["1\n2\n", "3\n"])
    >>> len("".join(texts)), texts.lines
    (6, 3)
    """

    def __init__(self, texts):
        self.texts, self.lines = texts, 0

    def __iter__(self):
        for text in self.texts:
            self.lines += text.count("\n")
            yield text


def _texts(estimator, tables, data, proba):
    """The predictions as lines of text."""
    if proba:
        yield _as_csv([[_plain(value) for value in estimator.classes_.tolist()]])
    for table in tables:
        with failing(BAD_DATA, data), working("predicting"), matched_by_us():
            if proba:
                text = _as_csv(estimator.predict_proba(table.X).tolist())
            else:
                found = estimator.predict(table.X).tolist()
                text = "".join(f"{_plain(value)}\n" for value in found)
        yield text


def _plain(value):
    """Write a number as briefly as it can be read back: 1 rather than 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _as_csv(rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


@contextlib.contextmanager
def matched_by_us():
    """Silence scikit-learn's warning about arrays without names: `read_for` matched the columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        warnings.filterwarnings("ignore", "X has feature names, but")
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
        For `tunefree.io.read`.
    """
    if html is not None:
        check_writable(html)
    estimator, notes = load(model)
    source, large = needs_parts(data, notes)
    if large and html is None:
        scores = _evaluate_parts(estimator, notes, source, data, options)
    else:
        table = read_labelled(estimator, notes, data, options, source)
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


def _evaluate_parts(estimator, notes, source, data, options):
    """The scores of data that are read in parts."""
    classes, scores = getattr(estimator, "classes_", None), None
    options = options | {"target_type": _kind_of_targets(estimator)}
    for part in in_parts(estimator, notes, source, data, labelled=True, **options):
        if part.y is None:
            stop(f"{data}: {_NO_TARGET}", BAD_DATA)
        with failing(BAD_DATA, data), matched_by_us():
            scores = scores or (RunningValues() if classes is None else RunningClasses(classes))
            scores.add(part.y, *_outputs(estimator, part.X), weight=part.weight)
    if scores is None:
        stop(f"{data}: the file is empty: it holds no row", BAD_DATA)
    if getattr(scores, "strangers", 0):
        _tell_strangers(scores.strangers)
    return scores.result()


_NO_TARGET = "there is no target column to compare with (see --target)"


def _kind_of_targets(estimator):
    classes = getattr(estimator, "classes_", None)
    return float if classes is None or classes.dtype.kind in "biuf" else str


def _tell_strangers(count):
    note(f"note: {count} rows have a class that the model does not know: errors")


def read_labelled(estimator, notes, data, options, source=None):
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
        For `tunefree.io.read`.
    source : str or iterable of bytes, optional
        Where to read, if not the file.

    Returns
    -------
    Table
    """
    kind, source = _kind_of_targets(estimator), data if source is None else source
    with failing(BAD_DATA, data), working(f"reading {data}"):
        table = read_for(estimator, notes, source, labelled=True, target_type=kind, **options)
        if table.y is None:
            raise DataError(_NO_TARGET, table.path)
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
    predicted, probabilities, decisions = _outputs(estimator, table.X)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return score_values(table.y, predicted, weight=table.weight)
    strangers = np.count_nonzero(~np.isin(table.y, classes))
    if strangers:
        _tell_strangers(strangers)
    return score_classes(
        table.y,
        predicted,
        classes,
        probabilities=probabilities,
        decisions=decisions,
        weight=table.weight,
    )


def _outputs(estimator, X):
    """Predictions; probabilities and decisions of two classes, if there are any."""
    classes = getattr(estimator, "classes_", None)
    probabilities = decisions = None
    if classes is not None and hasattr(estimator, "predict_proba"):
        probabilities = estimator.predict_proba(X)
    if classes is not None and len(classes) == 2:
        decisions = estimator.decision_function(X)
    return estimator.predict(X), probabilities, decisions
