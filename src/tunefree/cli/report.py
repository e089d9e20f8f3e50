"""``tunefree inspect`` and ``tunefree report``: what a model is and does, as text and as a page.

The page (also of ``tunefree eval --html``) is one HTML file with tables and the Displays' drawings
as SVG: no script, nothing from the network. Without matplotlib it has its tables only.
"""

import importlib.util
import io
import json
import re
import warnings
from html import escape
from typing import Any

import numpy as np
from scipy import sparse

from tunefree.cli.apply import evaluate, load, matched_by_us
from tunefree.cli.console import (
    BAD_MODEL,
    FAILED,
    answer,
    check_writable,
    failing,
    note,
    shown,
    working,
)  # fmt: skip
from tunefree.cli.train import column_name, column_told, kinds_told
from tunefree.io.files import write_atomically
from tunefree.io.model import describe_model

_PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">\
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; }} th, td {{ padding: .2rem .8rem .2rem 0; text-align: left;
       border-bottom: 1px solid #ddd; }} td.n, th.n {{ text-align: right; font-variant-numeric:
       tabular-nums; }} tr.chosen td {{ font-weight: 600; }} .note {{ color: #555; }}
svg {{ max-width: 100%; height: auto; }}
</style></head><body><h1>{title}</h1>{body}</body></html>
"""
_MOST, _MOST_PRINTED = 20, 10  # of the columns with the largest weights
# Importances: rows, and how often each column is shuffled; more columns take too long.
_ROWS_SHUFFLED, _REPEATS, _WIDEST, _MOST_EFFECTS, _MOST_LEVELS = 500, 3, 50, 4, 10


def run_report(model, data, output, **given):
    """Carry out ``tunefree report``."""
    output = output or f"{model}.html"
    check_writable(output)
    estimator, notes = load(model)
    table = scores = None
    if data is not None:
        scores, _, table = evaluate(estimator, notes, data, whole=True, **given)
    write_page(output, model, estimator, notes, data, table, scores)


def write_page(output, model, estimator, notes, data, table, scores):
    """Write the page of a model, and of its predictions for a table if there is one."""
    if importlib.util.find_spec("matplotlib") is None:
        note("note: the drawings need matplotlib: pip install 'tunefree[plots]'")
    with failing(FAILED, output), working("drawing"), matched_by_us():
        classes = getattr(estimator, "classes_", None)
        facts = overview(
            describe_model(model), notes, None if classes is None else classes.tolist(), most=12
        )
        sections = [("", _grid(("", ""), facts)), *_leaderboard(estimator)]
        if table is not None:
            sections.append((f"Scores on {data}", _grid(("score", "value"), scores.items())))
            sections += _calibration(estimator, table)
            sections += _effects(estimator, notes, table)
        sections += [*_curves(estimator), *_columns(estimator, notes)]
        body = "".join((f"<h2>{escape(h)}</h2>" if h else "") + html for h, html in sections)
        text = _PAGE.format(title=escape(f"tunefree: {model}"), body=body)
        write_atomically(output, [text.encode()])
    note(f"wrote {output}")


def _grid(head, rows, chosen=None):
    """A table; numbers are right-aligned, and one row may stand out."""
    rows = list(rows)

    def cell(tag, value, number):
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"<{tag}{' class=n' if number else ''}>{escape(text)}</{tag}>"

    kinds = [any(isinstance(row[i], int | float) for row in rows) for i in range(len(head))]
    top = "".join(cell("th", h, k) for h, k in zip(head, kinds, strict=True))
    body = "".join(
        f"<tr{' class=chosen' if i == chosen else ''}>"
        + "".join(cell("td", v, k) for v, k in zip(row, kinds, strict=True))
        + "</tr>"
        for i, row in enumerate(rows)
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _svg(draw, height=3.0):
    """What `draw` draws into axes, as SVG to stand within HTML; nothing without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return ""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    out = io.StringIO()
    with (
        rc_context({"svg.hashsalt": "tunefree", "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has its own fonts
        figure = Figure(figsize=(7.0, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.subplots())
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    # Within HTML an SVG needs neither a prologue nor namespaces; groups' names would not be unique.
    return re.sub(r' xmlns(:\w+)?="[^"]*"|(?<=<g) id="\w+"', "", text[text.index("<svg") :])


def _bars(rows, label):
    """Horizontal bars of (name, value), the first on top."""

    def draw(ax):
        names, values = zip(*rows, strict=True)
        bars = ax.barh(np.arange(len(rows)), values, color="#0072B2")
        ax.bar_label(bars, [f"{v:.3g}" for v in values], padding=3, fontsize=8)
        ax.set_yticks(np.arange(len(rows)), [n.replace("$", r"\$")[:40] for n in names])
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.set_xlabel(label)

    return _svg(draw, 1.0 + 0.25 * len(rows))


def _leaderboard(estimator):
    from tunefree.plots import LeaderboardDisplay

    board = getattr(estimator, "leaderboard_", [])
    if not board:
        return []
    report = getattr(estimator, "report_", None)
    drawn = _svg(LeaderboardDisplay.from_estimator(estimator).plot, 1.0 + 0.25 * len(board))
    if report is None:
        head = [name.replace("_", " ") for name in board[0]]
        return [("Leaderboard", _grid(head, [list(row.values()) for row in board]) + drawn)]
    head, *rows = report.table()
    left = "; ".join(f"{name}: {reason}" for name, reason in report.left_out.items())
    why = f"<p>{escape(report.reason)}</p>"
    why += f"<p class=note>Not suited: {escape(left)}.</p>" if left else ""
    timed = report.seconds is not None
    spent = [
        (r["candidate"], r["seconds" if timed else "cost"]) for r in board if r["risk"] is not None
    ]
    if timed:
        spent.append(("last fit, on all rows", report.refit_seconds))
    timing = (
        _bars(spent, "seconds" if timed else "seconds, as planned")
        + f"<p>{escape(report.closing())}</p>"
    )
    return [("Leaderboard", _grid(head, rows, chosen=0) + why + drawn), ("Timing", timing)]


def _calibration(estimator, table):
    """Probabilities of the predicted classes against how often they are right; or predictions."""
    from sklearn.calibration import CalibrationDisplay, calibration_curve
    from sklearn.metrics import PredictionErrorDisplay

    if getattr(estimator, "classes_", None) is None:
        display = PredictionErrorDisplay.from_predictions
        predicted, some = estimator.predict(table.X), {"subsample": 1000, "random_state": 0}
        return [("Calibration", _svg(
            lambda ax: display(table.y, predicted, kind="actual_vs_predicted", ax=ax, **some)
        ))]  # fmt: skip
    if not hasattr(estimator, "predict_proba"):
        return []
    p = np.asarray(estimator.predict_proba(table.X), dtype=float)
    said, right = p.max(axis=1), estimator.classes_[p.argmax(axis=1)] == table.y
    share, mean = calibration_curve(right, said, n_bins=10, strategy="quantile")
    text = "<p class=note>Rows in tenths by the probability of the predicted class.</p>"
    rows = np.column_stack([mean, share]).tolist()
    text += _grid(("probability said", "share right"), rows)

    def draw(ax):
        CalibrationDisplay(share, mean, said).plot(ax=ax, name="predicted class")
        ax.set(xlabel="probability said", ylabel="share right")

    return [("Calibration", text + _svg(draw))]


def _effects(estimator, notes, table):
    """What columns are worth for these rows, and how predictions move with them."""
    from sklearn.inspection import PartialDependenceDisplay, permutation_importance
    from sklearn.metrics import log_loss, mean_squared_error

    X, y = _few_rows(table.X, table.y, getattr(estimator, "classes_", None))
    if X is None or y is None:
        return []
    names = _feature_names(estimator, notes)
    if hasattr(estimator, "predict_proba"):
        kind, classes = "log-loss", estimator.classes_
        score = lambda m, X, y: -log_loss(y, m.predict_proba(X), labels=classes)  # noqa: E731
    elif getattr(estimator, "classes_", None) is not None:
        kind, score = "share of errors", "accuracy"
    else:
        kind = "mean squared error"
        score = lambda m, X, y: -mean_squared_error(y, m.predict(X))  # noqa: E731
    found = permutation_importance(
        estimator, X, y, scoring=score, n_repeats=_REPEATS, random_state=0
    )
    order = np.argsort(-found.importances_mean, kind="stable")[:_MOST]
    rows = [(names[j], float(found.importances_mean[j]), float(found.importances_std[j]))
            for j in order]  # fmt: skip
    words = f"Increase of the {kind} of {len(y)} of these rows when one column is shuffled among "
    words += f"them, mean and standard deviation of {_REPEATS} times. Rows that the model has "
    words += "learned tell too much."
    unit = f"increase of the {kind}"
    importances = f"<p class=note>{words}</p>" + _grid(("feature", unit, "deviation"), rows)
    out = [("Permutation importances", importances + _bars([r[:2] for r in rows], unit))]

    def draw(j):
        column: Any = X[:, j] if isinstance(X, np.ndarray) else X.iloc[:, j]
        known = column == column  # noqa: PLR0124 -- missing values differ from themselves
        text, target = column.dtype.kind == "O", None
        if text:  # the levels seen most
            counts = column[known].value_counts()
            known &= column.isin(counts.index[:_MOST_LEVELS])
        elif column.dtype.kind not in "iuf" or len(np.unique(column[known])) < 2:
            return ""
        if getattr(estimator, "classes_", None) is not None and len(estimator.classes_) > 2:
            target = estimator.classes_[-1]

        def plot(ax):
            display = PartialDependenceDisplay.from_estimator(
                estimator, X[np.asarray(known)], [j], ax=ax,
                categorical_features=[j] if text else None, grid_resolution=20, target=target,
                feature_names=names,
            )  # fmt: skip
            classes = getattr(estimator, "classes_", None)
            said = "prediction" if classes is None else f"probability of {classes[-1]}"
            for one in display.axes_.ravel():
                if text:  # bars begin at 0
                    low, high = one.get_ylim()
                    one.set_ylim(min(low, 0.0), max(high, 0.0))
                one.set(ylabel=f"mean {said}".replace("$", r"\$"))

        return _svg(plot, 2.4)

    drawn = "".join(draw(j) for j in order[:_MOST_EFFECTS] if found.importances_mean[j] > 0)
    if drawn:
        words = "Mean prediction for these rows if all of them had that value in one column."
        out.append(("Partial effects", f"<p class=note>{words}</p>{drawn}"))
    return out


def _few_rows(X, y, classes):
    """At most so many rows, evenly, as scikit-learn takes them; None if there is no such form."""
    d = X.shape[1]
    if sparse.issparse(X) or d > _WIDEST:
        return None, None
    kept = np.ones(len(y), dtype=bool) if classes is None else np.isin(y, classes)
    kept = np.flatnonzero(kept)
    kept = kept[:: max(1, -(-len(kept) // _ROWS_SHUFFLED))]
    if len(kept) < 2:
        return None, None
    if hasattr(X, "schema"):
        if importlib.util.find_spec("pandas") is None:
            return None, None
        X = X.take(kept).to_pandas(date_as_object=False)
        return X, y[kept]
    return X[kept], y[kept]


def _feature_names(estimator, notes):
    """The names of the columns, by the user where they have any."""
    names = notes.get("feature_names")
    names = getattr(estimator, "feature_names_in_", None) if names is None else names
    first = 0 if notes.get("zero_based") is True else 1
    return [column_name(f"x{j}", names, first) for j in range(estimator.n_features_in_)]


def _curves(estimator):
    from tunefree.plots import RiskCurveDisplay

    try:
        display = RiskCurveDisplay.from_estimator(estimator)
    except ValueError:  # it has no trace of its risk
        return []
    text = "<p class=note>Every row was predicted before it was learned.</p>"
    rows = display.xlabel == "rows seen"
    return [(f"Risk over {display.xlabel}", (text if rows else "") + _svg(display.plot))]


def _columns(estimator, notes):
    """Largest weights, or relevances, and the size of the support."""
    out, rows = [], largest_weights(estimator, notes, _MOST)
    if rows:
        kind = [*rows[0]][1]
        title = {"weight": "Largest weights", "relevance": "Most relevant columns"}[kind]
        unit = {"weight": kind, "relevance": "share of the predictions' spread"}[kind]
        bars = [(row["feature"], row[kind]) for row in rows]
        levels = "; ".join(row["levels"] for row in rows if row.get("levels"))
        more = f"<p class=note>Levels that count most: {escape(levels)}.</p>" if levels else ""
        out.append((title, (_bars(bars, unit) or _grid(("feature", kind), bars)) + more))
        worth = [(row["feature"], row["importance"]) for row in rows if "importance" in row]
        if worth:
            worth.sort(key=lambda bar: -bar[1])
            unit = "rise of the loss on rows left out when the column is permuted"
            drawn = _bars(worth, unit) or _grid(("feature", "importance"), worth)
            out.append(("Importances on rows left out", drawn))
    count = next((len(getattr(estimator, name)) for name in ("support_", "dual_coef_")
                  if hasattr(estimator, name)), None)  # fmt: skip
    if count is not None:
        out.append(("Support", f"<p>The predictor is a sum of {count} kernel functions.</p>"))
    return out


# --- tunefree inspect -----------------------------------------------------------------------------


def run_inspect(path, as_json):
    """Carry out ``tunefree inspect``."""
    facts = _collect(path)
    if as_json:
        answer(json.dumps(facts, default=str))
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    rows = [
        ("estimator", facts["class"]),
        ("parameters", ", ".join(f"{k}={v}" for k, v in facts["parameters"].items())),
        *overview(facts, facts["data"], facts["classes"])[1:],
    ]
    rows.insert(-1, ("file", f"{facts['bytes']} bytes, format {facts['format']}"))
    _print(console, rows)
    board = facts["leaderboard"]
    if board and "candidate" in board[0]:
        _print(console, _race(board), "validation on rows left out")
    else:
        _print(console, board, "progressive validation")
    rows = facts["largest_weights"]
    if rows and "relevance" in rows[0]:
        most = max(row["relevance"] for row in rows)
        rows = [
            {"feature": row["feature"], "relevance": row["relevance"],
             "": "#" * round(20 * row["relevance"] / max(most, 1e-300)), "levels": row["levels"],
             **{name: row[name] for name in ("importance",) if name in row}}
            for row in rows
        ]  # fmt: skip
        if not any(row["levels"] for row in rows):
            rows = [{k: v for k, v in row.items() if k != "levels"} for row in rows]
        _print(console, rows, "most relevant columns")
    else:
        _print(console, rows, "largest weights")


def _collect(path):
    """What there is to know about a model file, as plain values."""
    estimator, notes = load(path)
    with failing(BAD_MODEL, path):
        facts = describe_model(path)
    del facts["notes"]
    classes = getattr(estimator, "classes_", None)
    weights = largest_weights(estimator, notes, _MOST_PRINTED)
    parameters = {name: repr(value) for name, value in estimator.get_params(deep=False).items()}
    return facts | {
        "data": {name: value for name, value in notes.items() if name != "feature_names"},
        "parameters": parameters,
        "classes": None if classes is None else classes.tolist(),
        "leaderboard": getattr(estimator, "leaderboard_", []),
        "largest_weights": weights,
    }


def overview(facts, notes, classes, most=None):
    """Titles and words: the estimator, its data and classes, and who wrote the file."""
    rows = [("estimator", facts["class"]), ("features", str(facts["n_features"]))]
    rows += layout_told(notes)
    if classes is not None:
        more = ", ..." if len(classes[:most]) < len(classes) else ""
        rows.append(("classes", ", ".join(map(str, classes[:most])) + more))
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return [*rows, ("written by", versions), ("sha256", facts["sha256"])]


def layout_told(notes):
    """What there is to say of the columns of a model's data: titles and words."""
    rows = [(name, str(notes[name])) for name in ("task", "rows", "nonzeros") if name in notes]
    if kinds_told(notes):
        rows.append(("columns", kinds_told(notes)))
    if notes.get("gaps"):
        rows.append(("missing values", str(notes["gaps"])))
    if notes.get("target"):
        rows.append(("target", column_told(notes["target"])))
    return rows


def largest_weights(estimator, notes, most):
    """The features of the largest weights, by decreasing effect, as dicts.

    The effect is the weight times the column's spread, as far as `train` noted that. ``feature``,
    ``weight`` and, with several outputs, ``output``; of a stack ``relevance`` in place
    of the weight, the ``levels`` of a category that count most, and the ``importance``, if it is
    known: what permuting the column costs on rows left out. Empty for a model without.
    """
    if len(getattr(estimator, "column_relevances_", ())):
        names, each = _feature_names(estimator, notes), estimator.relevances_
        levels = dict(zip(
            np.flatnonzero(estimator.table_.kinds_ == "category").tolist(),
            estimator.relevances_by_level_.values(), strict=True,
        ))  # fmt: skip
        worth = getattr(estimator, "permutation_importances_", None)
        return [
            {"feature": names[j], "relevance": float(each[j]),
             "levels": _levels_told(names[j], levels.get(j, {})),
             **({} if worth is None else {"importance": float(worth[j])})}
            for j in np.argsort(-each, kind="stable")[:most].tolist()
        ]  # fmt: skip
    if not hasattr(estimator, "coef_"):
        return []
    names = _feature_names(estimator, notes)
    weights, outputs = np.atleast_2d(estimator.coef_), getattr(estimator, "classes_", None)
    best, sizes, rows = np.abs(weights).argmax(axis=0), np.abs(weights).max(axis=0), []
    if len(notes.get("spread") or ()) == len(sizes):
        sizes = sizes * np.array(notes["spread"])
    for j in np.argsort(-sizes, kind="stable")[:most].tolist():
        rows.append({"feature": names[j], "weight": float(weights[best[j], j])})
        if len(weights) > 1:
            k = best[j] if outputs is None else outputs[best[j]]
            rows[-1]["output"] = k.item()
    return rows


def _levels_told(name, levels, most=3):
    """The levels of a column that count most, with their shares."""
    best = sorted(levels.items(), key=lambda item: -item[1])[:most]
    return ", ".join(f"{name}={level} {share:.1%}" for level, share in best)


def _race(board):
    """The leaderboard of a race as briefly as its report has it."""
    shown = {"risk": ".4g", "risk_se": ".2g", "log_loss": ".4g", "seconds": ".2f"}
    shown = {name: form for name, form in shown.items()
             if any(row.get(name) is not None for row in board)}  # fmt: skip
    return [
        {"candidate": row["candidate"]}
        | {name: "" if row.get(name) is None else format(row[name], form)
           for name, form in shown.items()}
        | {"": f"{row['share']:.0%}" if row["chosen"] else row["status"].replace("finished", "")}
        for row in board
    ]  # fmt: skip


def _print(console, rows, title=None):
    """Print dicts as a table under a title, or pairs without one."""
    from rich import box
    from rich.table import Table

    if not rows:
        return
    if title is None:
        table = Table.grid(padding=(0, 2))
        for row in rows:
            table.add_row(*map(shown, row))
        console.print(table)
        return
    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for name, value in rows[0].items():
        side = "right" if isinstance(value, float) else "left"
        table.add_column(name.replace("_", " "), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*("" if v is None else f"{v:.5g}" if isinstance(v, float) else shown(str(v))
                        for v in row.values()))  # fmt: skip
    console.print(table)
