"""``tunefree compare``: two models on the same rows, pair by pair."""

import json
from typing import Any, NamedTuple

import numpy as np

from tunefree.cli.apply import bad_options, load, matched_by_us, plain, read_tables
from tunefree.cli.console import BAD_DATA, USAGE, answer, failing, stop, working
from tunefree.cli.rows import columns_of, split_role_columns
from tunefree.cli.scores import MOST_STRANGE, ComparedLabels
from tunefree.core.format import number
from tunefree.files.files import DataError, Skipped

_LEAST = 1e-15  # lower probabilities count as this, as in `tunefree eval`
_NORMAL = 1.959963984540054


class PairedDifference(NamedTuple):
    """The mean loss of two models on the same rows, and that of their differences."""

    old: float
    new: float
    difference: float  # new less old: below 0 the new model is better
    interval: list  # 95 %, of the mean difference on new rows

    @classmethod
    def of(cls, old, new, weight):
        """Of the losses of each row; the interval is a normal one of the paired differences.

        >>> one = PairedDifference.of(np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.ones(2))
        >>> one.difference, one.interval
        (-1.0, [-1.0, -1.0])
        """
        share, steps = weight / weight.sum(), new - old
        mean = float(share @ steps)
        n = 1.0 / np.square(share).sum()
        variance = float(share @ np.square(steps - mean)) * n / max(n - 1.0, 1.0)
        half = _NORMAL * np.sqrt(variance / n)
        ends = [float(mean - half), float(mean + half)]
        return cls(float(share @ old), float(share @ new), mean, ends)

    @property
    def verdict(self) -> str:
        """'new', 'old', or 'neither' if the interval holds 0."""
        low, high = self.interval
        return "new" if high < 0.0 else "old" if low > 0.0 else "neither"


def run_compare(options):
    """Carry out ``tunefree compare``; `options` is a `CompareOptions`."""
    models = [load(path) for path in (options.old, options.new)]
    are_classes = [hasattr(estimator, "classes_") for estimator, _ in models]
    if are_classes[0] != are_classes[1]:
        stop("one model predicts classes, and the other numbers", USAGE)
    found = [_predicted(estimator, notes, options) for estimator, notes in models]
    (y, weight, *old), (y_new, _, *new) = found
    if len(y) != len(y_new) or not np.array_equal(y, y_new):
        with failing(BAD_DATA, options.data):
            words = "the models do not read the same rows and targets: give --target"
            raise DataError(words, options.data)
    if are_classes[0]:
        classes = [ComparedLabels.of(estimator).classes for estimator, _ in models]
        _refuse_unknown(y, np.concatenate(classes), options.data)
        losses, moved = _of_classes(y, old, new, classes), _moved_classes(old, new)
    else:
        losses, moved = _of_numbers(y, old[0], new[0]), _moved_numbers(y, old[0], new[0])
    scores = {name: PairedDifference.of(a, b, weight) for name, (a, b) in losses.items()}
    decided_by = next(iter(scores))
    answer_of = _as_json if options.json else _as_text
    answer(answer_of(scores, decided_by, moved, len(y)))


def _predicted(estimator, notes, options):
    """Targets, weights, predictions, and probabilities if there are any."""
    labels = ComparedLabels.of(estimator)
    reading: Any = columns_of(options) | bad_options(options)
    reading["target_type"] = labels.target_type
    skipped, parts = Skipped(malformed=False), []
    with failing(BAD_DATA, options.data):
        tables = read_tables(
            estimator, notes, options.data, labelled=True, skipped=skipped, **reading
        )
        for table in tables:
            if table.y is None:
                raise DataError("there is no target column (see --target)", options.data)
            X, roles = split_role_columns(table.X, notes.get("beside"))
            with working("predicting"), matched_by_us():
                weights = np.ones(len(table.y)) if table.weight is None else table.weight
                row = [labels.read(table.y), weights]
                row.append(labels.of_model(estimator.predict(X, **roles)))
                if labels.classes is not None and hasattr(estimator, "predict_proba"):
                    row.append(estimator.predict_proba(X, **roles))
            if np.ndim(row[2]) != 1:
                raise DataError("models of several outputs are not compared", options.data)
            parts.append(row)
        if not parts:
            raise DataError("the file has no rows", options.data)
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _refuse_unknown(y, classes, data):
    """Refuse targets of which most are no class of the models: another column may be the target."""
    unknown = ~np.isin(y, classes)
    if unknown.mean() > MOST_STRANGE:
        n, first = np.count_nonzero(unknown), plain(y[unknown][0])
        words = f"{n} rows have a class that no model knows, such as {first!r}"
        with failing(BAD_DATA, data):
            raise DataError(f"{words}: is another column the target?", data)


def _of_classes(y, old, new, classes):
    """Log-losses, if both models have probabilities, and errors."""
    losses = {}
    if len(old) == len(new) == 2:
        pairs = zip((old, new), classes, strict=True)
        losses["log_loss"] = [_log_loss(y, model[1], known) for model, known in pairs]
    return losses | {"error": [(model[0] != y).astype(float) for model in (old, new)]}


def _log_loss(y, probabilities, classes):
    found = np.zeros(len(y))
    for k, label in enumerate(classes.tolist()):
        found = np.where(y == label, probabilities[:, k], found)
    return -np.log(np.maximum(found, _LEAST))


def _of_numbers(y, old, new):
    """Squared and absolute errors."""
    return {
        "mse": [np.square(old - y), np.square(new - y)],
        "mae": [np.abs(old - y), np.abs(new - y)],
    }


def _moved_classes(old, new):
    """How the predictions have changed."""
    return {"rows_with_another_class": float(np.mean(old[0] != new[0]))}


def _moved_numbers(y, old, new):
    """How the predictions have changed, in units of the deviation of the targets."""
    step, scale = np.abs(new - old), float(np.std(y)) or 1.0
    return {
        "mean_change": float(np.mean(new - old)),
        "mean_absolute_change": float(step.mean()),
        "rows_changed_by_a_tenth_deviation": float(np.mean(step > 0.1 * scale)),
    }


def _as_json(scores, decided_by, moved, n):
    found = {name: one._asdict() for name, one in scores.items()}
    verdict = {"better": scores[decided_by].verdict, "by": decided_by}
    return json.dumps(verdict | {"n": n, "scores": found, "predictions": moved})


def _as_text(scores, decided_by, moved, n):
    lines = [f"{'':10}{'old':>12}{'new':>12}{'new - old':>12}  95 % interval"]
    for name, one in scores.items():
        cells = "".join(f"{number(value):>12}" for value in one[:3])
        low, high = map(number, one.interval)
        lines.append(f"{name:10}{cells}  [{low}, {high}]")
    one = scores[decided_by]
    if one.verdict == "neither":
        lines.append(f"no difference is found on these {n} rows")
    else:
        lines.append(f"the {one.verdict} model is better, by {number(abs(one.difference))}")
    words = "; ".join(f"{name.replace('_', ' ')}: {number(value)}" for name, value in moved.items())
    return "\n".join([*lines, f"predictions: {words}"])
