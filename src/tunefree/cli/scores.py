"""The scores of a model on rows with targets, which may come in parts."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.cli.apply import matched_by_us, read_tables
from tunefree.cli.console import BAD_DATA, failing, note, working
from tunefree.cli.rows import named, split_role_columns
from tunefree.data.checks import drift_findings, messages
from tunefree.families import Family
from tunefree.io.files import DataError, name_of
from tunefree.preprocessing import source_layout
from tunefree.uncertainty.risk import EXACT, NORMAL_NEW, exact

_LEAST = 1e-15  # lower probabilities count as this, so that one error does not cost infinitely
_MOST = 1e6  # higher unit deviances count as this
_MOST_COMPARED = 1 << 20  # rows whose predictions are compared with targets by deciles


class EvaluatedRows(NamedTuple):
    """Rows, their targets, and the predictions of a model."""

    X: Any  # None if the features are not in memory
    y: np.ndarray
    weight: np.ndarray | None
    roles: dict  # exposure and offset
    predicted: np.ndarray
    probabilities: np.ndarray | None
    decisions: np.ndarray | None
    drifted: Any = ()  # sentences on columns that differ from those of the training rows


def evaluate(estimator, notes, data, whole, **options):
    """Scores, calibration and the `EvaluatedRows` of the last part; of all rows if `whole`."""
    classes, rows = getattr(estimator, "classes_", None), None
    options["target_type"] = float if classes is None or classes.dtype.kind in "biuf" else str
    scores = Scores(classes, getattr(estimator, "family_", None))
    drift = _Drift(estimator, notes)
    with failing(BAD_DATA, data):
        for table in read_tables(estimator, notes, data, labelled=True, whole=whole, **options):
            if table.y is None:
                words = "there is no target column to evaluate against (see --target)"
                raise DataError(words, name_of(data))
            with working("predicting"), matched_by_us():
                rows = _evaluated(estimator, notes, table)
                drift.add(rows.X)
            scores.add(rows.y, rows.predicted, rows.probabilities, rows.decisions, rows.weight)
        if rows is None:
            raise DataError("the file has no rows", data)
        if scores.unknown:
            note(f"note: {scores.unknown} rows have a class that the model does not know: errors")
        rows = rows._replace(drifted=drift.found())
        for words in rows.drifted:
            note(f"note: {words}")
        return scores.result(), scores.calibration(), rows


class _Drift:
    """Compares the columns of rows with those of the training, if the model has their shares."""

    def __init__(self, estimator, notes):
        self.shares: Any = getattr(estimator, "column_shares_", None)
        self.estimator, self.notes, self.counts = estimator, notes, 0.0
        self.layout: Any = None if self.shares is None else source_layout(estimator.table_)

    def add(self, X):
        """Count some rows."""
        if self.shares is not None:
            self.counts += self.shares.count(self.layout, self.estimator.table_.transform(X))

    def found(self):
        """Sentences on columns that differ."""
        if self.shares is None:
            return []
        findings = drift_findings(self.shares.drift(self.layout, self.counts))
        return [named(message, self.notes) for message in messages(findings)]


def _evaluated(estimator, notes, table):
    """A table with the predictions for it."""
    X, roles = split_role_columns(table.X, notes.get("beside"))
    classes, probabilities, decisions = getattr(estimator, "classes_", None), None, None
    if classes is not None and hasattr(estimator, "predict_proba"):
        probabilities = estimator.predict_proba(X)
    if classes is not None and len(classes) == 2:
        decisions = estimator.decision_function(X)
    predicted = estimator.predict(X, **roles)
    return EvaluatedRows(X, table.y, table.weight, roles, predicted, probabilities, decisions)


class Scores:
    """Error, log-loss and AUC (two classes), or mse, mae and r2; and the number of rows n.

    All but the AUC, which needs the decisions of all rows, are running means, so that rows may come
    in parts. A row of a class that the model does not know is an error; its log-loss is that of a
    probability of 1e-15 (scikit-learn's `log_loss` refuses it).

    `classes` are the model's; None for regression. The `family` of a model has a mean deviance,
    which is a score, too, if it is not the squared error. `calibration()` compares predictions with
    targets by deciles of the predictions (of two classes: of the probability of the second).

    >>> y, decisions = np.array([0, 0, 1]), np.array([-1.0, 1.0, 2.0])
    >>> scores = Scores(np.array([0, 1]))
    >>> for part in (slice(0, 2), slice(2, 3)):
    ...     scores.add(y[part], (decisions > 0)[part] * 1, None, decisions[part])
    >>> scores.result()
    {'error': 0.333..., 'auc': 1.0, 'n': 3, 'risk_interval': [0.00..., 0.90...], ...}
    """

    def __init__(self, classes=None, family=None):
        self.classes: Any = classes
        is_square = family is not None and type(family).deviance is Family.deviance
        self.family, self.rows, self.unknown = None if is_square else family, 0, 0
        self.means = WeightedMeans()
        self._shift = None  # near the mean of the targets, for their variance
        self._decisions = []  # parts of (is of the second class, decision, weight)
        self._pairs = []  # parts of (prediction, target, weight), of the first rows

    def add(self, y, predicted, probabilities=None, decisions=None, weight=None):
        """Add some rows."""
        self.rows += len(y)
        weight = np.ones(len(y)) if weight is None else weight
        if self.classes is None:
            costs = self._costs_of_numbers(y, predicted, weight)
            self._compare(predicted, y, weight)
        else:
            costs = self._costs_of_classes(y, predicted, probabilities)
        if self.classes is not None and len(self.classes) == 2:
            is_second = y == self.classes[1]
            if probabilities is not None:
                self._compare(probabilities[:, 1], is_second.astype(float), weight)
            if decisions is not None and weight.any():
                self._decisions.append((is_second, decisions, weight))
        if weight.any():
            self.means.add(costs, weight)

    def _compare(self, predicted, target, weight):
        """Add predictions and targets to those that `calibration` compares."""
        if np.ndim(predicted) == 1 and self.rows <= _MOST_COMPARED:
            self._pairs.append((np.asarray(predicted, dtype=float), target, weight))

    def _costs_of_numbers(self, y, predicted, weight):
        """What the scores of a regression are means of."""
        if self._shift is None and weight.any():
            self._shift = np.average(y, weights=weight)
        risk = (predicted - y) ** 2
        costs = {"mse": risk, "mae": np.abs(predicted - y)}
        if self.family is not None and np.ndim(predicted) == 1:
            mean, target = (np.asarray(a, dtype=float)[:, None] for a in (predicted, y))
            with np.errstate(all="ignore"):
                deviance = self.family.deviance(target, self.family.clipped(mean))[:, 0]
            costs["deviance"] = np.minimum(deviance, _MOST)
        gap = y - (self._shift or 0.0)
        return costs | {"square": np.square(risk), "gap": gap, "gap square": gap**2}

    def _costs_of_classes(self, y, predicted, probabilities):
        """What the scores of a classification are means of."""
        from tunefree.estimators.base import places_of

        code = places_of(self.classes, y)
        known = self.classes[code] == y
        self.unknown += int(np.count_nonzero(~known))
        costs = {"error": y != predicted}
        if probabilities is not None:
            p = np.where(known, probabilities[np.arange(len(y)), code], 0.0)
            costs["log_loss"] = -np.log(np.maximum(p, _LEAST))
        return costs | {"square": costs["error"]}

    def result(self):
        """The scores of all rows so far, as a dict."""
        if not self.means.weight:
            raise ValueError("every row has weight 0: there is nothing to score")
        scores = dict(self.means)
        interval = self._risk_interval(scores.pop("square"))
        if self.classes is None:
            variance = scores.pop("gap square") - scores.pop("gap") ** 2
            scores["r2"] = 1.0 - scores["mse"] / variance if variance > 0 else None
        elif self._decisions:
            from sklearn.metrics import roc_auc_score

            side, decisions, weight = _joined(self._decisions)
            if np.any(weight[side]) and np.any(weight[~side]):
                scores["auc"] = float(roc_auc_score(side, decisions, sample_weight=weight))
        return scores | {"n": self.rows} | interval

    def _risk_interval(self, square):
        """A 95 % interval of the risk (error or mse) on new rows, and its method."""
        means = self.means
        mean = means["mse" if self.classes is None else "error"]
        if self.classes is not None and means.equal:
            ends, kind = exact(round(mean * self.rows), self.rows), EXACT
        else:
            error = np.sqrt(max(square - mean**2, 0.0) * means.squares) / means.weight
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
            {
                "predicted": float(np.average(predicted[i], weights=weight[i])),
                "observed": float(np.average(target[i], weights=weight[i])),
                "rows": len(i),
            }
            for i in np.array_split(order, 10)
            if len(i)
        ]


class WeightedMeans(dict):
    """Means of named columns of values over all rows so far."""

    weight = squares = 0.0  # sums of the weights, and of their squares
    equal = True  # whether all weights are 1

    def add(self, columns, weight):
        """Add some rows."""
        added = float(weight.sum())
        self.weight += added
        self.squares += float(np.square(weight).sum())
        self.equal &= bool((weight == 1.0).all())
        for name, values in columns.items():
            old = self.get(name, 0.0)
            mean = float(np.average(values, weights=weight))
            self[name] = old + added / self.weight * (mean - old)


def _joined(parts):
    return (np.concatenate(part) for part in zip(*parts, strict=True))
