"""The scores of a model on rows with targets, which may come in parts."""

from typing import Any, NamedTuple

import numpy as np

from tunefree.cli.apply import matched_by_us, plain, read_tables
from tunefree.cli.console import BAD_DATA, failing, note, working
from tunefree.cli.drift import STABILITY, CollectedRows, reference_in
from tunefree.cli.rows import named, split_role_columns
from tunefree.core.format import listed
from tunefree.core.warn import did_you_mean
from tunefree.files.files import DataError, Skipped, name_of
from tunefree.parts.families import Family
from tunefree.rows.checks import drift_findings, messages
from tunefree.rows.columns import EXACT as EXACT_WHOLE
from tunefree.rows.preprocessing import source_layout
from tunefree.uncertainty.risk import EXACT, NORMAL_NEW, WEIGHTED, exact, of_weighted

_LEAST = 1e-15  # lower probabilities count as this, so that one error does not cost infinitely
_MOST = 1e6  # higher unit deviances count as this
_MOST_UNKNOWN = 3  # classes that a message names
MOST_STRANGE = 0.2  # share of rows of unknown classes; of more the target is another column


class EvaluatedRows(NamedTuple):
    """Rows, their targets, and the predictions of a model."""

    X: Any  # None if the features are not in memory
    y: np.ndarray
    predicted: np.ndarray
    weight: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    decisions: np.ndarray | None = None
    roles: Any = {}  # exposure and offset
    drift: Any = None  # the `DriftReport`, if the model keeps rows of the training
    drifted: Any = ()  # sentences on classes and columns that differ from those of training

    @property
    def tested(self):
        """The predictions whose distribution is compared."""
        p = self.probabilities
        return self.predicted if p is None or p.shape[1] != 2 else p[:, 1]

    @property
    def scored(self):
        """What `Scores.add` takes."""
        exposure = self.roles.get("exposure")
        return self.y, self.predicted, self.probabilities, self.decisions, self.weight, exposure


_TRUTHS = {"0": "false", "1": "true", "0.0": "false", "1.0": "true"}


class ComparedLabels(NamedTuple):
    """How targets of a file are compared with the classes of a model: as numbers or as text.

    Truth values, and whole numbers of which several are one float, are text. Truth values may be in
    any spelling, and 0 and 1.
    """

    classes: Any  # None of a regression
    target_type: type = float  # float or str
    truths: Any = None  # of truth values: the model's spelling of "false" and "true"

    @classmethod
    def of(cls, estimator):
        """Those of a model.

        >>> from types import SimpleNamespace
        >>> labels = ComparedLabels.of(SimpleNamespace(classes_=np.array([False, True])))
        >>> labels.read(np.array(["TRUE", "0"])).tolist()
        ['True', 'False']
        """
        classes = getattr(estimator, "classes_", None)
        if classes is None:
            return cls(None)
        kind = classes.dtype.kind
        is_exact = kind in "iu" and np.abs(classes.astype(float)).max() < EXACT_WHOLE
        if kind == "f" or is_exact:
            return cls(classes)
        classes = classes.astype(str) if kind in "biu" else classes
        spelt = {str(label).lower(): str(label) for label in classes.tolist()}
        return cls(classes, str, spelt if spelt.keys() == {"false", "true"} else None)

    def read(self, y):
        """Targets of a file as the model's labels."""
        if self.truths is None or y is None:
            return y
        words = ((text, _TRUTHS.get(text, text.lower())) for text in y.tolist())
        return np.array([self.truths.get(word, text) for text, word in words], dtype=np.str_)

    def of_model(self, predicted):
        """Predicted labels, as those of a file."""
        as_text = self.target_type is str and predicted.dtype.kind in "biu"
        return predicted.astype(str) if as_text else predicted


def evaluate(estimator, notes, data, whole, **options):
    """Scores, calibration and the `EvaluatedRows` of the last part; of all rows if `whole`."""
    labels, rows = ComparedLabels.of(estimator), None
    options["target_type"] = labels.target_type
    scores = Scores(labels.classes, getattr(estimator, "family_", None))
    drift, skipped = _Drift(estimator, notes), Skipped(malformed=False)
    options["skipped"] = skipped
    with failing(BAD_DATA, data):
        for table in read_tables(estimator, notes, data, labelled=True, whole=whole, **options):
            if table.y is None:
                target = (notes.get("target") or [None])[0]
                words = "there is no target column" + (f" {target!r}" if target else "")
                raise DataError(f"{words} to evaluate against (see --target)", name_of(data))
            if not table.X.shape[0]:
                continue
            with working("predicting"), matched_by_us():
                rows = _evaluated(estimator, notes, table, labels)
                _check_one_output(estimator, rows.predicted, data)
                drift.add(rows.X, rows.tested)
            scores.add(*rows.scored)
        skipped.check(scores.n_rows, data)
        skipped.warn()
        if rows is None:
            raise DataError("the file has no rows", data)
        if scores.unknown == scores.n_rows:
            raise DataError(scores.words_of_none_known(), data)
        if scores.unknown > MOST_STRANGE * scores.n_rows:
            (words,) = scores.words_of_unknown()
            raise DataError(f"{words.partition(':')[0]}: is another column the target?", data)
        rows = rows._replace(
            drift=drift.report(), drifted=[*scores.words_of_unknown(), *drift.found()]
        )
        for words in rows.drifted:
            note(f"note: {words}")
        return scores.result(), scores.calibration(), rows


def _check_one_output(estimator, predicted, data):
    """Refuse models of several targets or quantiles: rows have one target."""
    width = 1 if np.ndim(predicted) == 1 else np.shape(predicted)[1]
    if width == 1:
        return
    n_levels = np.size(getattr(getattr(estimator, "family_", None), "q", 0.0))
    what = "quantiles" if n_levels == width else "targets"
    raise DataError(
        f"the model predicts {width} {what}, and is compared with one target: use `tunefree "
        "predict`, or `score` in Python",
        name_of(data),
    )


class _Drift:
    """Compares the columns of rows with those of the training, if the model has their shares."""

    def __init__(self, estimator, notes):
        self.shares: Any = getattr(estimator, "column_shares_", None)
        self.estimator, self.notes, self.counts = estimator, notes, 0.0
        self.layout: Any = None if self.shares is None else source_layout(estimator.table_)
        self.reference, self.rows = reference_in(notes), CollectedRows(estimator, notes)

    def add(self, X, predicted):
        """Count some rows."""
        if self.reference is not None:
            self.rows.add(X, predicted)
        if self.shares is not None:
            self.counts += self.shares.count(self.layout, self.estimator.table_.transform(X))

    def report(self):
        """The `DriftReport`, or None."""
        return self.reference and self.rows.report(self.reference, STABILITY)

    def found(self):
        """Sentences on columns that differ."""
        if self.shares is None:
            return []
        findings = drift_findings(self.shares.drift(self.layout, self.counts))
        return [named(message, self.notes) for message in messages(findings)]


def _evaluated(estimator, notes, table, labels):
    """A table with the predictions for it."""
    X, roles = split_role_columns(table.X, notes.get("beside"))
    classes, probabilities, decisions = getattr(estimator, "classes_", None), None, None
    if classes is not None and hasattr(estimator, "predict_proba"):
        probabilities = estimator.predict_proba(X, **roles)
    if classes is not None and len(classes) == 2:
        if hasattr(estimator, "decision_function"):
            decisions = estimator.decision_function(X, **roles)
        elif probabilities is not None:
            decisions = probabilities[:, 1]
    y, predicted = labels.read(table.y), labels.of_model(estimator.predict(X, **roles))
    return EvaluatedRows(X, y, predicted, table.weight, probabilities, decisions, roles)


class Scores:
    """Error, log-loss and AUC (two classes), or mse, mae and r2; and the number of rows n.

    Rows may come in parts; a few numbers of each are kept. A row of a class that the model does not
    know is an error; its log-loss is that of a probability of 1e-15 (scikit-learn's `log_loss`
    refuses it).

    `classes` are the model's; None for regression. The `family` of a model has a mean deviance,
    which is a score, too, if it is not the squared error, and so is D2. `calibration()` compares
    predictions with targets by deciles of the predictions (of two classes: of the probability of
    the second).

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
        self.family, self._parts = None if is_square else family, []
        self.n_rows, self.unknown, self._unknown_classes = 0, 0, {}

    def add(self, y, predicted, probabilities=None, decisions=None, weight=None, exposure=None):
        """Add some rows."""
        self.n_rows += len(y)
        rows = {"weight": np.ones(len(y)) if weight is None else weight}
        if self.classes is None:
            rows |= {"target": y, "predicted": predicted}
            rows["exposure"] = np.ones(len(y)) if exposure is None else exposure
        else:
            rows |= self._classified(y, predicted, probabilities, decisions)
        self._parts.append(rows)

    def _classified(self, y, predicted, probabilities, decisions):
        """What the scores of a classification need of each row."""
        from tunefree.base.base import places_of

        code, rows = places_of(self.classes, y), {"error": y != predicted}
        known = self.classes[code] == y
        self.unknown += int(np.count_nonzero(~known))
        self._unknown_classes |= dict.fromkeys(y[~known].tolist())
        if probabilities is not None:
            rows["likelihood"] = np.where(known, probabilities[np.arange(len(y)), code], 0.0)
        if len(self.classes) == 2:
            rows["target"] = y == self.classes[1]
            if probabilities is not None:
                rows["predicted"] = probabilities[:, 1]
            if decisions is not None:
                rows["decision"] = decisions
        return rows

    def words_of_unknown(self):
        """A sentence on rows of classes that the model does not know, as a list; or no sentence."""
        if not self.unknown:
            return []
        rows = "1 row has" if self.unknown == 1 else f"{self.unknown} rows have"
        what = "a class that the model does not know"
        return [f"{rows} {what}, such as {listed(self._unknown_names())}: they count as errors"]

    def words_of_none_known(self):
        """A sentence on rows none of which has a class of the model."""
        known = [repr(plain(label)) for label in self.classes.tolist()[:_MOST_UNKNOWN]]
        return (
            f"no row has a class that the model knows ({listed(known)}), but "
            f"{listed(self._unknown_names())}: is another column the target?"
        )

    def _unknown_names(self):
        """Some of the classes that the model does not know, and similar ones."""
        labels = [*map(str, self.classes.tolist())]
        return [
            repr(name) + (did_you_mean(name, labels, " (did you mean {}?)") or "")
            for name in map(str, [*self._unknown_classes][:_MOST_UNKNOWN])
        ]

    def _rows(self):
        """What was added, as arrays."""
        names = self._parts[0] if self._parts else ()
        return {name: np.concatenate([part[name] for part in self._parts]) for name in names}

    def result(self):
        """The scores of all rows so far, as a dict."""
        rows: Any = self._rows()
        weight = rows["weight"]
        if not weight.any():
            raise ValueError("every row has weight 0: there is nothing to score")
        costs = self._costs(rows)
        scores: Any = {
            name: float(np.average(cost, weights=weight)) for name, cost in costs.items()
        }
        if self.classes is None:
            y = rows["target"]
            variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
            scores["r2"] = 1.0 - scores["mse"] / float(variance) if variance > 0 else None
            if self.family is not None:
                scores["d2"] = _d2(self.family, rows)
        elif "decision" in rows:
            from sklearn.metrics import roc_auc_score

            side = rows["target"]
            if np.any(weight[side]) and np.any(weight[~side]):
                scores["auc"] = float(roc_auc_score(side, rows["decision"], sample_weight=weight))
        cost = costs["mse" if self.classes is None else "error"]
        return scores | {"n": len(weight)} | self._risk_interval(cost, weight)

    def _costs(self, rows):
        """The columns whose means are scores."""
        if self.classes is not None:
            costs = {"error": rows["error"].astype(float)}
            if "likelihood" in rows:
                costs["log_loss"] = -np.log(np.maximum(rows["likelihood"], _LEAST))
            return costs
        y, predicted = rows["target"], rows["predicted"]
        costs = {"mse": (predicted - y) ** 2, "mae": np.abs(predicted - y)}
        if self.family is not None:
            mean, target = (np.asarray(a, dtype=float)[:, None] for a in (predicted, y))
            with np.errstate(all="ignore"):
                deviance = self.family.deviance(target, self.family.clipped(mean))[:, 0]
            costs["deviance"] = np.minimum(deviance, _MOST)
        return costs

    def _risk_interval(self, cost, weight):
        """A 95 % interval of the risk (error or mse) on new rows, and its method."""
        if self.classes is not None and (weight == 1.0).all():
            ends, kind = exact(int(cost.sum()), len(cost)), EXACT
        elif self.classes is not None:
            ends, kind = of_weighted(cost, weight), WEIGHTED
        else:
            mean = np.average(cost, weights=weight)
            variance = max(np.average(np.square(cost), weights=weight) - mean**2, 0.0)
            error = np.sqrt(variance * np.square(weight).sum()) / weight.sum()
            ends, kind = (max(mean - 1.96 * error, 0.0), mean + 1.96 * error), NORMAL_NEW
        return {"risk_interval": [float(end) for end in ends], "risk_interval_kind": kind}

    def calibration(self):
        """For each decile of the predictions: their mean, the mean of the targets, and the rows."""
        rows: Any = self._rows()
        if "predicted" not in rows:
            return []
        predicted, target, weight = (rows[name] for name in ("predicted", "target", "weight"))
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


def _d2(family, rows):
    """The share of the deviance of the best constant that is explained; of rates, if any."""
    names = "target", "predicted", "exposure"
    y, mean, over = (np.asarray(rows[name], dtype=float)[:, None] for name in names)
    weight = np.asarray(rows["weight"], dtype=float)
    with np.errstate(all="ignore"):
        if family.exposure == "offset":
            return family.d2(y, mean, weight, over)
        if family.exposure is None:
            return family.d2(y, mean, weight)
        return family.d2(y / over, mean / over, weight * over[:, 0])
