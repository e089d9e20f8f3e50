"""The figures of the page, as SVG for HTML. Without matplotlib there are none."""

import importlib.util
import io
import re
import warnings
from typing import Any, NamedTuple

import numpy as np

_INK, _GREY, _BLUE = "#1d2126", "0.5", "#0072b2"
_LOOK: dict[str, Any] = {
    "svg.hashsalt": "tunefree", "svg.fonttype": "none", "figure.facecolor": "none",
    "axes.facecolor": "none", "legend.frameon": False, "legend.fontsize": 8, "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.formatter.limits": (-4, 5),
    "text.color": _INK, "axes.edgecolor": _INK, "axes.labelcolor": _INK, "xtick.color": _INK,
    "ytick.color": _INK,
}  # fmt: skip
_MOST_DRAWN, _MOST_LEVELS = 300, 10


class Figure(NamedTuple):
    """A drawing and its title."""

    kind = "figure"
    title: str
    svg: str


def has_matplotlib():
    """Whether there are figures."""
    return importlib.util.find_spec("matplotlib") is not None


def figure(title, draw, height=3.2, mathematics=False):
    """What ``draw(axes)`` draws; None without matplotlib.

    `mathematics` reads text between dollars as formulas: not for drawings with text from files.
    """
    if not has_matplotlib():
        return None
    from cycler import cycler
    from matplotlib import figure, rc_context

    from tunefree.plots import COLOURS

    out = io.StringIO()
    look: Any = {"text.parse_math": mathematics, "axes.prop_cycle": cycler(color=COLOURS)}
    with rc_context(_LOOK | look), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has its own fonts
        canvas = figure.Figure(figsize=(4.6, height), layout="constrained")
        draw(canvas.subplots())
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    # In HTML an SVG needs neither a prologue nor namespaces; names of groups would not be unique.
    return Figure(
        title, re.sub(r' xmlns(:\w+)?="[^"]*"|(?<=<g) id="\w+"', "", text[text.index("<svg") :])
    )


def threshold_curves(curves, weight):
    """ROC and precision-recall curves; `curves` are names, whether each row is of it, scores."""
    from sklearn.metrics import PrecisionRecallDisplay, RocCurveDisplay

    from tunefree.plots import COLOURS, STROKES

    def draw(kind, ax, **options):
        ax.set_prop_cycle(color=COLOURS, linestyle=STROKES)
        for name, own, score in curves:
            kind.from_predictions(own, score, sample_weight=weight, name=name, ax=ax)
        ax.set(**options)

    def roc(ax):
        draw(RocCurveDisplay, ax, xlabel="false positive rate", ylabel="true positive rate")
        ax.plot([0, 1], [0, 1], color=_GREY, linewidth=0.8)

    def precision(ax):
        draw(PrecisionRecallDisplay, ax, xlabel="recall", ylabel="precision")

    return [figure("ROC curve", roc, 4.0), figure("Precision against recall", precision, 4.0)]


def reliability(correct, probability, what):
    """The observed share against the predicted probability."""
    from sklearn.calibration import CalibrationDisplay

    def draw(ax):
        CalibrationDisplay.from_predictions(
            correct, probability, n_bins=10, strategy="quantile", ax=ax
        )

    title = f"Reliability: predicted probability of {what}, and its observed share"
    return figure(title, draw)


def prediction_errors(y, predicted, kind, title):
    """Targets or residuals against predictions, as scikit-learn's PredictionErrorDisplay."""
    from sklearn.metrics import PredictionErrorDisplay

    def draw(ax):
        from matplotlib.ticker import AutoLocator

        look = {
            "scatter_kwargs": {"alpha": 0.4, "s": 9, "color": _BLUE, "linewidths": 0},
            "line_kwargs": {"color": _INK, "linewidth": 0.8},
        }
        PredictionErrorDisplay.from_predictions(
            y, predicted, kind=kind, ax=ax, subsample=1000, random_state=0, **look
        )
        for axis in (ax.xaxis, ax.yaxis):  # round ticks
            axis.set_major_locator(AutoLocator())
        ax.set(xlabel="predicted", ylabel="actual" if kind.startswith("actual") else "residual")

    return figure(title, draw)


def intervals(predicted, ends, y, share):
    """Prediction intervals over the predictions, of some rows."""
    if not has_matplotlib():
        return None
    from tunefree.plots import IntervalDisplay

    some = slice(None, None, -(-len(y) // _MOST_DRAWN))
    display = IntervalDisplay(predicted[some], ends[some], target=y[some], share=share)
    return figure(f"{100 * share:.0f} % prediction intervals over the predictions", display.plot)


def partial_effect(estimator, X, j, names, what):
    """The partial dependence on one column; None if the column is constant."""
    from sklearn.inspection import PartialDependenceDisplay

    column: Any = X[:, j] if isinstance(X, np.ndarray) else X.iloc[:, j]
    shown = np.asarray(column == column)  # noqa: PLR0124 -- missing values differ from themselves
    is_text = column.dtype.kind == "O"
    if is_text:  # the most frequent levels
        levels = column[shown].value_counts().index[:_MOST_LEVELS]
        shown = np.asarray(column.isin(levels))
    elif column.dtype.kind not in "iuf" or len(np.unique(column[shown])) < 2:
        return None
    classes = getattr(estimator, "classes_", ())

    def draw(ax):
        asked = {
            "feature_names": names,
            "categorical_features": [j] if is_text else None,
            "target": classes[-1] if len(classes) > 2 else None,
        }
        display = PartialDependenceDisplay.from_estimator(
            estimator, X[shown], [j], ax=ax, grid_resolution=20, **asked
        )
        for axes in display.axes_.ravel():
            if is_text:  # bars begin at 0
                low, high = axes.get_ylim()
                axes.set_ylim(min(low, 0.0), max(high, 0.0))
            axes.set(ylabel=f"mean {what}")

    return figure(f"Partial effect of {names[j]} on the {what}", draw, 2.8)


def leaderboard(estimator, title):
    """The risks of the candidates."""
    from tunefree.plots import LeaderboardDisplay

    def draw(ax):
        LeaderboardDisplay.from_estimator(estimator, ax=ax)

    height = 1.0 + 0.25 * min(len(estimator.leaderboard_), 15)
    return figure(title, draw, height, mathematics=True)
