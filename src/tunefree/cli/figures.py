"""The figures of the page, as SVG, and its tables with bars."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from tunefree.cli.changed import column_of, grid_of, mean_predictions, taken_rows
from tunefree.cli.drawing import Chart

_MOST_DRAWN, _MOST_DOTS, _MOST_LEVELS = 300, 1000, 10
_SHARE = (0.0, 1.0)


class Figure(NamedTuple):
    """A drawing and its title."""

    kind = "figure"
    title: str
    svg: str


class PageTable(NamedTuple):
    """A table; the first cell of each row is its heading.

    Rows in `chosen` are bold; `bars` are values of the rows that are also drawn.
    """

    head: Any
    rows: list
    chosen: Any = ()
    bars: Any = None
    kind = "table"

    @property
    def widths(self):
        """The lengths of the bars in percent.

        >>> PageTable(("", "score"), [("up", 2.0), ("down", -1.0)], bars=[2.0, -1.0]).widths
        [100.0, 50.0]
        """
        if self.bars is None:
            return None
        sizes = np.abs(np.nan_to_num(self.bars, posinf=0.0))
        return np.round(100 * sizes / max(sizes.max(initial=0.0), 1e-300), 1).tolist()


def some(values, most):
    """At most so many values, evenly spread."""
    return values[:: max(1, -(-len(values) // most))]


def _ends(*values):
    """The least and the largest finite value, with a margin."""
    finite = np.concatenate([np.ravel(v) for v in values]).astype(float)
    finite = finite[np.isfinite(finite)]
    low, high = finite.min(), finite.max()
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def threshold_curves(curves, weight):
    """ROC and precision-recall curves; `curves` are names, whether each row is of it, scores."""
    from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_curve

    roc = Chart(_SHARE, _SHARE, "false positive rate", "true positive rate", height=300)
    roc.reference(_SHARE, _SHARE)
    precision = Chart(_SHARE, _SHARE, "recall", "precision", height=300)

    def drawn(values):
        return values[np.unique(np.linspace(0, len(values) - 1, _MOST_DRAWN).astype(int))]

    for k, (name, own, score) in enumerate(curves):
        wrong, right, _ = roc_curve(own, score, sample_weight=weight)
        roc.line(drawn(wrong), drawn(right), k, f"{name} (AUC {auc(wrong, right):.3g})")
        shares, found, _ = precision_recall_curve(own, score, sample_weight=weight)
        mean = average_precision_score(own, score, sample_weight=weight)
        steps = np.repeat(drawn(found), 2)[1:], np.repeat(drawn(shares), 2)[:-1]
        precision.line(*steps, k, f"{name} (average precision {mean:.3g})")
    return [Figure("ROC curve", roc.svg()), Figure("Precision against recall", precision.svg())]


def reliability(predicted, observed, what):
    """The observed share against the predicted probability, of groups of rows."""
    chart = Chart(_SHARE, _SHARE, "predicted probability", "observed share")
    chart.reference(_SHARE, _SHARE)
    chart.line(predicted, observed)
    chart.dots(predicted, observed, size=3.5)
    title = f"Reliability: predicted probability of {what}, and its observed share"
    return Figure(title, chart.svg())


def actual_and_predicted(y, predicted):
    """Targets, and residuals, against predictions."""
    y, predicted = (some(values, _MOST_DOTS).astype(float) for values in (y, predicted))
    both, ends, residuals = _ends(y, predicted), _ends(predicted), y - predicted
    actual = Chart(both, both, "predicted", "actual")
    actual.reference(both, both)
    actual.dots(predicted, y)
    residual = Chart(ends, _ends(residuals, [0.0]), "predicted", "residual")
    residual.dots(predicted, residuals)
    residual.reference(ends, (0.0, 0.0))
    return [
        Figure("Actual against predicted targets", actual.svg()),
        Figure("Residuals: actual minus predicted targets", residual.svg()),
    ]


def compared_shares(labels, before, now):
    """Shares before and now, two bars a label."""
    top = 1.08 * max(np.max(before), np.max(now), 1e-9)
    ends = (-0.5, len(labels) - 0.5)
    chart = Chart((0.0, top), ends, "share of the rows", "", height=44 * len(labels) + 70)
    return chart.bars(labels, [("training", before), ("now", now)])


def intervals(predicted, ends, y, share):
    """Prediction intervals over the predictions, of some rows; rings are targets outside."""
    predicted, (low, high), y = (some(v, _MOST_DRAWN).T for v in (predicted, ends, y))
    chart = Chart(_ends(predicted), _ends(low, high, y), "predicted", "actual, with its interval")
    chart.spans(predicted, low, high)
    inside = (low <= y) & (y <= high)
    chart.dots(predicted[inside], y[inside])
    chart.dots(predicted[~inside], y[~inside], 1, 3.0, "ring")
    title = f"{100 * share:.0f} % prediction intervals over the predictions; rings: outside"
    return Figure(title, chart.svg())


def partial_effect(estimator, X, j, names, what):
    """The mean prediction by the value of one column; None if it is constant, or holds dates."""
    column = column_of(X, j)
    if column is None:
        return None
    title, label = f"Partial effect of {names[j]} on the {what}", f"mean {what}"
    if column.dtype.kind == "O":  # the most frequent levels
        present = [text for text in column.tolist() if text is not None]
        levels = [level for level, _ in Counter(present).most_common(_MOST_LEVELS)]
        shown = np.flatnonzero(np.isin(column.astype(str), levels))
        if not len(shown):
            return None
        mean = mean_predictions(estimator, taken_rows(X, shown), j, np.array(levels, dtype=object))
        return PageTable((title, label), [*zip(levels, mean.tolist(), strict=True)], bars=mean)
    shown = np.flatnonzero(~np.isnan(column))
    column = column[shown].astype(np.float64)
    if len(np.unique(column)) < 2:
        return None
    values = grid_of(column)
    mean = mean_predictions(estimator, taken_rows(X, shown), j, values)
    chart = Chart((values.min(), values.max()), _ends(mean), names[j], label, height=230)
    chart.line(values, mean)
    deciles = np.quantile(column, np.arange(1, 10) / 10)
    chart.rug(deciles[(deciles >= values.min()) & (deciles <= values.max())])
    return Figure(title, chart.svg())
