"""``tunefree predict`` and ``tunefree eval``: a model on new data, which may be read in parts."""

import contextlib
import json
import os
import warnings
from typing import Any, NamedTuple

import numpy as np

from tunefree.cli.console import (
    BAD_DATA,
    BAD_MODEL,
    FAILED,
    USAGE,
    answer,
    as_csv,
    check_writable,
    failing,
    note,
    stop,
    working,
)
from tunefree.cli.train import open_data, split_role_columns
from tunefree.engine.sources import open_source
from tunefree.engine.sources.readers import Replay
from tunefree.io import Column, DataError, Named, detected, read
from tunefree.io.files import write_atomically
from tunefree.io.mixed import mixed_parts, read_mixed
from tunefree.io.model import describe_model, load_model
from tunefree.uncertainty.risk import EXACT, NORMAL_NEW, exact

_LEAST = 1e-15  # lower probabilities count as this, so that one error does not cost infinitely
_MOST = 1e6  # higher unit deviances count as this
_EXACT_DECISIONS = 1 << 20  # for the AUC, more decisions than this are rounded


def load(path):
    """A model, and the notes of ``train`` about its data (none if it was saved from Python)."""
    with failing(BAD_MODEL, path), working(f"loading {path}"):
        return load_model(path), describe_model(path)["notes"]


# --- Reading in the form that a model expects -----------------------------------------------------


def _tables(estimator, notes, data, *, labelled, whole=False, **options):
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
                table = read(source, **settings)
            else:
                table = read_mixed(source, kinds=kinds, **settings)
        _note_ignored(table.ignored)
        yield table._replace(X=_named_as(estimator, table.X))


def _parts(estimator, notes, source, settings, labelled):
    settings = {"target_type": None if labelled else str} | settings
    if notes.get("kinds"):
        settings["format"] = detected(source, settings.get("format"))[0]
        if isinstance(source, Replay):
            source = Named(source.name, source.for_good())
        for table in mixed_parts(source, kinds=notes["kinds"], **settings):
            yield table._replace(X=_named_as(estimator, table.X))
        return
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
        return notes.get("kinds") or ["number"] * estimator.n_features_in_
    # The model parses dates itself: it knows whether their day comes first.
    return [None if kind == "number" else "text" for kind in estimator.table_.kinds_.tolist()]


def _named_as(estimator, X):
    """A pyarrow table whose columns, in the order of the model, get the names of the model."""
    if not hasattr(X, "rename_columns") or not hasattr(estimator, "feature_names_in_"):
        return X
    return X.rename_columns(estimator.feature_names_in_.tolist())


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


def run_predict(model, data, output, outputs, id=None, **options):
    """Carry out ``tunefree predict``; `outputs` requests probabilities, intervals or sets."""
    check_writable(output)
    estimator, notes = load(model)
    names, headed, columns_of = _output(estimator, model, outputs)
    if id is not None:  # it is read like a target
        options |= {"target": id, "target_type": str}
        names, headed = [str(id), *names], True
    form = os.path.splitext(output or "")[1].lower()
    count, parts = 0, []

    def rows():
        nonlocal count
        for table in _tables(estimator, notes, data, labelled=False, **options):
            with failing(BAD_DATA, data), working("predicting"), matched_by_us():
                X, roles = split_role_columns(table.X, notes.get("beside"))
                columns = columns_of(X, **roles)
                if id is not None:
                    columns.insert(0, _ids(table, id, data))
            count += len(columns[0])
            yield columns

    def texts():
        first = as_csv([names]) if headed or form == ".csv" else ""
        for columns in rows():
            if form in (".jsonl", ".ndjson"):
                each = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
                yield "".join(json.dumps(row) + "\n" for row in each)
                continue
            lines = ([_plain(value) for value in row] for row in zip(*columns, strict=True))
            wide = len(names) > 1 or form == ".csv"
            yield first + (as_csv(lines) if wide else "".join(f"{line[0]}\n" for line in lines))
            first = ""

    if output is None:
        for text in texts():
            answer(text.removesuffix("\n"))
        return
    with failing(FAILED, output):
        if form == ".parquet":
            parts = [sum(column, []) for column in zip(*rows(), strict=True)]
            write_atomically(output, [_parquet(names, parts)])
        else:
            write_atomically(output, (text.encode() for text in texts()))
    note(f"wrote {count} predictions to {output}")


def _ids(table, id, data):
    """The cells of the column that is copied in front of the predictions."""
    if getattr(table, "zero_based", None) is not None:
        stop(f"--id needs a table, but {data} is libsvm", USAGE)
    if table.y is None:
        stop(f"--id {id} is a feature of the model: train with --id {id} to exclude it", USAGE)
    return np.asarray(table.y).tolist()


def _parquet(names, columns):
    import pyarrow as pa
    from pyarrow import parquet

    file = pa.BufferOutputStream()
    parquet.write_table(pa.table(dict(zip(names, columns, strict=True))), file)
    return file.getvalue().to_pybytes()


def _output(estimator, model, outputs):
    """The names of the columns, whether text begins with them, and rows to columns of values."""
    coverage = outputs["coverage"]
    if outputs["proba"] and coverage is not None:
        stop("give only one of --proba and --coverage", USAGE)
    kind = "set" if hasattr(estimator, "classes_") else "interval"
    alpha = 0.0
    # Stop before any row is read.
    if outputs["proba"] and not hasattr(estimator, "predict_proba"):
        stop(f"{model} has no probabilities", USAGE)
    if coverage is not None:
        if not hasattr(estimator, f"predict_{kind}"):
            stop(f"{model} has no {kind}s", USAGE)
        if not 0.0 < coverage < 1.0:
            stop(f"--coverage {coverage} is not between 0 and 1", USAGE)
        if getattr(estimator, "held_out_", 0) is None:
            stop(f"{model} has no held-out predictions, hence no {kind}s", USAGE)
        alpha = round(1.0 - coverage, 12)
    classes = [_plain(label) for label in getattr(estimator, "classes_", np.empty(0)).tolist()]

    def interval(X, **roles):
        y, ends = estimator.predict_interval(X, alpha, **roles)
        y = y.reshape(len(y), -1)
        ends = ends.reshape(*y.shape, 2)
        return np.concatenate([y[:, :, None], ends], axis=2).reshape(len(y), -1).T.tolist()

    def sets(X, **_):
        y, members = estimator.predict_set(X, alpha)
        return [y.tolist(), *members[:, :, 0].astype(int).T.tolist()]

    if outputs["proba"]:
        return classes, True, lambda X, **_: estimator.predict_proba(X).T.tolist()
    if coverage is not None and kind == "interval":
        head = ["prediction", "low", "high"]
        k = len(getattr(estimator, "held_out_", ()) or ()) if hasattr(estimator, "table_") else 1
        numbered = [f"{word} {j}" for j in range(k) for word in head]
        return head if k < 2 else numbered, True, interval
    if coverage is not None:
        return ["prediction", *classes], True, sets
    return ["prediction"], False, lambda X, **roles: [estimator.predict(X, **roles).tolist()]


def _plain(value):
    """A value as text; whole floats without a point: 1 rather than 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


# --- Scores ---------------------------------------------------------------------------------------


class Scores:
    """Error, log-loss and AUC (two classes), or mse, mae and r2; and the number of rows n.

    Rows in one part are scored exactly. Above a million rows in several parts the decisions are
    rounded to one part in 2048 for the AUC, which keeps about four of its digits. A row of a class
    that the model does not know is an error; its log-loss is that of a probability of 1e-15
    (scikit-learn's `log_loss` refuses it).

    `classes` are the model's; None for regression. A generalized linear model has a `family`, whose
    mean deviance is a score, too. `calibration()` compares predictions with targets by deciles of
    the predictions (of two classes: of the probability of the second).

    >>> y, decisions = np.array([0, 0, 1]), np.array([-1.0, 1.0, 2.0])
    >>> scores = Scores(np.array([0, 1]))
    >>> for part in (slice(0, 2), slice(2, 3)):
    ...     scores.add(y[part], (decisions > 0)[part] * 1, None, decisions[part])
    >>> scores.result()
    {'error': 0.333..., 'auc': 1.0, 'n': 3, 'risk_interval': [0.00..., 0.90...], ...}
    """

    def __init__(self, classes=None, family=None):
        self.classes, self.family, self.rows, self.unknown = classes, family, 0, 0
        self.weight, self.means = 0.0, {}  # weighted means over the rows so far
        self.squares, self.equal = 0.0, True  # sum of squared weights; whether all weights are 1
        self._decisions = []  # parts of (is of the second class, decision, weight)
        self._pairs = []  # parts of (prediction, target, weight), of the first rows

    def add(self, y, predicted, probabilities=None, decisions=None, weight=None):
        """Add some rows."""
        self.rows += len(y)
        weight = np.ones(len(y)) if weight is None else weight
        if self.classes is None:
            costs = {"mse": (predicted - y) ** 2, "mae": np.abs(predicted - y)}
            if self.family is not None and np.ndim(predicted) == 1:
                mean, target = (np.asarray(a, dtype=float)[:, None] for a in (predicted, y))
                with np.errstate(all="ignore"):
                    cost = self.family.deviance(target, self.family.clipped(mean))[:, 0]
                costs["deviance"] = np.minimum(cost, _MOST)
        else:
            from tunefree.estimators.base import places_of

            code = places_of(self.classes, y)
            known = self.classes[code] == y
            self.unknown += int(np.count_nonzero(~known))
            costs = {"error": y != predicted}
            if probabilities is not None:
                p = np.where(known, probabilities[np.arange(len(y)), code], 0.0)
                costs["log_loss"] = -np.log(np.maximum(p, _LEAST))
        prediction, target = predicted, y
        if self.classes is not None:
            prediction = None
            if probabilities is not None and len(self.classes) == 2:
                prediction, target = probabilities[:, 1], (y == self.classes[1]).astype(float)
        if prediction is not None and np.ndim(prediction) == 1 and self.rows <= _EXACT_DECISIONS:
            self._pairs.append((np.asarray(prediction, dtype=float), target, weight))
        added = float(weight.sum())
        if not added:
            return
        self.squares += float(np.square(weight).sum())
        self.equal &= bool((weight == 1.0).all())
        costs["square"] = np.square(costs["mse" if self.classes is None else "error"])
        before, self.weight = self.weight, self.weight + added
        share = added / self.weight
        if self.classes is None:  # variance of the targets, around the mean of all rows
            mean = np.average(y, weights=weight)
            gap = mean - self.means.get("y", 0.0)
            costs["y"] = y
            costs["variance"] = (y - mean) ** 2 + before / self.weight * gap**2
        for name, cost in costs.items():
            old = self.means.get(name, 0.0)
            self.means[name] = old + share * (float(np.average(cost, weights=weight)) - old)
        if decisions is not None and self.classes is not None and len(self.classes) == 2:
            if sum(len(side) for side, _, _ in self._decisions) > _EXACT_DECISIONS:
                self._decisions = _rounded(self._decisions)
            self._decisions.append((y == self.classes[1], decisions, weight))

    def result(self):
        """The scores of all rows so far, as a dict."""
        if not self.weight:
            raise ValueError("every row has weight 0: there is nothing to score")
        scores = dict(self.means)
        interval = self._risk_interval(scores.pop("square"))
        if self.classes is None:
            variance, _ = scores.pop("variance"), scores.pop("y")
            scores["r2"] = 1.0 - scores["mse"] / variance if variance > 0 else None
        elif self._decisions:
            from sklearn.metrics import roc_auc_score

            side, decisions, weight = (
                np.concatenate(part) for part in zip(*self._decisions, strict=True)
            )
            if np.any(weight[side]) and np.any(weight[~side]):
                scores["auc"] = float(roc_auc_score(side, decisions, sample_weight=weight))
        return scores | {"n": self.rows} | interval

    def _risk_interval(self, square):
        """A 95 % interval of the risk (error or mse) on new rows, and its method."""
        mean = self.means["mse" if self.classes is None else "error"]
        if self.classes is not None and self.equal:
            ends, kind = exact(round(mean * self.rows), self.rows), EXACT
        else:
            error = np.sqrt(max(square - mean**2, 0.0) * self.squares) / self.weight
            ends, kind = (max(mean - 1.96 * error, 0.0), mean + 1.96 * error), NORMAL_NEW
        return {"risk_interval": [float(end) for end in ends], "risk_interval_kind": kind}

    def calibration(self):
        """For each decile of the predictions: their mean, the mean of the targets, and the rows."""
        if not self._pairs:
            return []
        predicted, target, weight = _joined(self._pairs)
        order = np.argsort(predicted, kind="stable")
        order = order[weight[order] > 0.0]
        return [
            {"predicted": float(np.average(predicted[i], weights=weight[i])),
             "observed": float(np.average(target[i], weights=weight[i])), "rows": len(i)}
            for i in np.array_split(order, 10) if len(i)
        ]  # fmt: skip


def _joined(parts):
    return (np.concatenate(part) for part in zip(*parts, strict=True))


def _rounded(parts):
    """Decisions rounded to their leading 20 bits; equal ones become one row."""
    side, decisions, weight = _joined(parts)
    bits = np.asarray(decisions, dtype=np.float32).view(np.uint32) & np.uint32(0xFFFFF000)
    out = []
    for k in (False, True):
        values, codes = np.unique(bits[side == k].view(np.float32), return_inverse=True)
        out.append((np.full(len(values), k), values, np.bincount(codes, weight[side == k])))
    return out


# --- tunefree eval --------------------------------------------------------------------------------


def run_eval(model, data, as_json, html=None, **options):
    """Carry out ``tunefree eval``; `html` is a file for the page of ``tunefree report``."""
    check_writable(html)
    estimator, notes = load(model)
    scores, deciles, rows = evaluate(estimator, notes, data, whole=html is not None, **options)
    if as_json:
        answer(json.dumps(scores | ({"calibration": deciles} if deciles else {})))
    else:
        shown: Any = dict(scores)
        (low, high), kind = shown.pop("risk_interval"), shown.pop("risk_interval_kind")
        for name, value in shown.items():
            answer(f"{name:10}{value:.6g}" if isinstance(value, float) else f"{name:10}{value}")
        answer(f"risk in   [{low:.6g}, {high:.6g}] ({kind})")
        if deciles:
            answer("calibration, by deciles of the predictions")
            answer(f"{'predicted':>12}{'observed':>12}{'rows':>10}")
        for row in deciles:
            answer(f"{row['predicted']:12.6g}{row['observed']:12.6g}{row['rows']:10}")
    if html is not None:
        from tunefree.cli.page import write_page

        write_page(html, model, estimator, notes, data, rows, scores)


class EvaluatedRows(NamedTuple):
    """Rows, their targets, and the predictions of a model."""

    X: Any  # None if the features are not in memory
    y: np.ndarray
    weight: np.ndarray | None
    roles: dict  # exposure and offset
    predicted: np.ndarray
    probabilities: np.ndarray | None
    decisions: np.ndarray | None


def evaluate(estimator, notes, data, whole, **options):
    """Scores, calibration and the `EvaluatedRows` of the last part; of all rows if `whole`."""
    classes, rows = getattr(estimator, "classes_", None), None
    options["target_type"] = float if classes is None or classes.dtype.kind in "biuf" else str
    scores = Scores(classes, getattr(estimator, "family_", None))
    with failing(BAD_DATA, data):
        for table in _tables(estimator, notes, data, labelled=True, whole=whole, **options):
            if table.y is None:
                words = "there is no target column to evaluate against (see --target)"
                raise DataError(words, "<stdin>" if data == "-" else data)
            with working("predicting"), matched_by_us():
                X, roles = split_role_columns(table.X, notes.get("beside"))
                probabilities = decisions = None
                if classes is not None and hasattr(estimator, "predict_proba"):
                    probabilities = estimator.predict_proba(X)
                if classes is not None and len(classes) == 2:
                    decisions = estimator.decision_function(X)
                predicted = estimator.predict(X, **roles)
                scores.add(table.y, predicted, probabilities, decisions, table.weight)
                rows = EvaluatedRows(
                    X, table.y, table.weight, roles, predicted, probabilities, decisions
                )
        if not scores.rows:
            raise DataError("the file has no rows", data)
        if scores.unknown:
            note(f"note: {scores.unknown} rows have a class that the model does not know: errors")
        return scores.result(), scores.calibration(), rows
