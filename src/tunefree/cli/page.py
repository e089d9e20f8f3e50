"""``tunefree report``: scores, importance and choice of a model, as one page.

The page (also of ``tunefree eval --html``) is one HTML file with tables and SVG drawings: no
script, nothing from the network. Without matplotlib it has tables only.
"""

import datetime
import importlib.util
import io
import re
import warnings
from html import escape
from typing import Any

import numpy as np
from scipy import sparse

from tunefree.cli.apply import EvaluatedRows, Scores, evaluate, load, matched_by_us
from tunefree.cli.apply import _plain as plain
from tunefree.cli.console import FAILED, check_writable, failing, note, working
from tunefree.cli.report import feature_names, largest_weights, overview
from tunefree.cli.train import fingerprints
from tunefree.io.files import write_atomically
from tunefree.io.model import describe_model
from tunefree.uncertainty.risk import exact

_PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">\
<meta name="viewport" content="width=device-width, initial-scale=1">\
<meta name="color-scheme" content="light dark"><title>{title}</title><style>
:root {{ color-scheme: light dark; --ink: #1d2126; --paper: #fff; --soft: #59626c; --line: #d9dde1;
  --wash: #f3f5f7; --c0: #0072b2; --c1: #c25100; --c2: #008763; --c3: #b35c8f; --c4: #b07800;
  --c5: #3a9bd9; --c6: #1d2126; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6e8ea; --paper: #14171a; --soft: #a3acb5;
  --line: #363d44; --wash: #1e2328; --c0: #4da9e8; --c1: #ff8f45; --c2: #2fc79a; --c3: #e39cc4;
  --c4: #f0b429; --c5: #8fd0f5; --c6: #e6e8ea; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }}
h1 {{ font-size: 1.5rem; line-height: 1.25; }} h2 {{ font-size: 1.2rem; margin: 2.5rem 0 .5rem; }}
.verdict {{ font-size: 1.15rem; background: var(--wash); border-left: 4px solid var(--c0);
  padding: .6rem 1rem; }} .warning {{ border-left: 4px solid var(--c1); padding: .4rem 1rem;
  background: var(--wash); }} .note, figcaption, nav {{ color: var(--soft); font-size: .9rem; }}
nav a {{ color: var(--c0); margin-right: 1rem; white-space: nowrap; }}
.scroll {{ overflow-x: auto; }} table {{ border-collapse: collapse; margin: .5rem 0; }}
th, td {{ padding: .25rem .9rem .25rem 0; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: normal; }} tbody th {{ font-weight: 400; }}
td.n, th.n {{ text-align: right; font-variant-numeric: tabular-nums; }}
tr.chosen > * {{ font-weight: 600; }} td.bar {{ min-width: 5rem; padding-right: 0;
  background: linear-gradient(var(--c0), var(--c0)) no-repeat 0 50% / var(--w) .7em; }}
table.confusion td {{ text-align: right; padding: .25rem .6rem; background:
  color-mix(in srgb, var(--c0) var(--p), transparent); }}
.drawings {{ display: flex; flex-wrap: wrap; gap: 1rem 2rem; }}
figure {{ margin: .5rem 0; max-width: 100%; }} figcaption {{ max-width: 27rem; }}
svg {{ max-width: 100%; height: auto; }}
svg text {{ fill: var(--ink); }}
@media print {{ nav {{ display: none; }} figure, tr {{ break-inside: avoid; }} }}
</style></head><body><h1>{title}</h1>{body}</body></html>
"""
# Colours of text in matplotlib, which become those of the page, light or dark.
_INK, _SOFT = "#1d2126", "#59626c"
_MOST = 20  # columns with the largest weights, or classes listed one by one
# Importances: rows, permutations of each column, and columns; more would take too long.
_ROWS_SHUFFLED, _REPEATS, _WIDEST, _MOST_EFFECTS, _MOST_LEVELS = 500, 3, 50, 4, 10
_MOST_CURVES, _MOST_REPEATED, _MOST_CELLS, _ALPHA = 6, 1e6, 1e8, 0.1
# Not allowed in the page: C0 except tabs and ends of lines, DEL and C1.
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d+)?%?")
_TITLES = {
    "accuracy": "accuracy", "error": "error rate", "log_loss": "log loss",
    "auc": "area under the ROC curve", "mse": "mean squared error",
    "rmse": "root mean squared error", "mae": "mean absolute error", "r2": "R²",
    "deviance": "mean deviance",
}  # fmt: skip


def run_report(model, data, output, **options):
    """Carry out ``tunefree report``."""
    output = output or f"{model}.html"
    check_writable(output)
    estimator, notes = load(model)
    rows = scores = None
    if data is not None:
        scores, _, rows = evaluate(estimator, notes, data, whole=True, **options)
    write_page(output, model, estimator, notes, data, rows, scores)


def write_page(output, model, estimator, notes, data, rows, scores):
    """Write the page of a model; `rows` are `EvaluatedRows`, or None."""
    if importlib.util.find_spec("matplotlib") is None:
        note("note: the drawings need matplotlib: pip install 'tunefree[plots]'")
    with failing(FAILED, output), working("drawing"), matched_by_us():
        where = f"of {data}"
        if rows is None:
            rows, where = _held_out(estimator), "held out in training"
        title, body = _body(model, estimator, notes, where, rows, scores)
        page = _CONTROL.sub("\ufffd", _PAGE.format(title=escape(title), body=body))
        write_atomically(output, [page.encode(errors="replace")])
    note(f"wrote {output}")


def _body(model, estimator, notes, where, rows, scores):
    """Title and body of the page; `where` describes the rows."""
    classes = getattr(estimator, "classes_", None)
    target = (notes.get("target") or [None])[0]
    title = f"{target or 'tunefree'}: {model}"
    sections, top = [], []
    if rows is not None:
        if scores is None:
            scores = _scores(estimator, rows).result()
            interval = getattr(estimator, "risk_interval_", None)
            if rows.X is None and interval is not None:
                scores["risk_interval"] = interval
                scores["risk_interval_kind"] = estimator.risk_interval_kind_
        trivial = _trivial(estimator, rows)
        top.append(_verdict(rows, scores, trivial, where, classes is not None))
        top += _warning(notes, rows)
        sections.append(("Scores", _scores_table(scores, trivial, where)))
        if classes is None:
            sections += _regression(estimator, rows)
        else:
            sections += _classification(estimator, rows)
        sections += _coverage(estimator, rows)
    elif hasattr(estimator, "report_"):
        top.append(f"{estimator.report_.reason} {estimator.report_.expected_risk()}")
    sections += [*_columns(estimator, notes, rows), *_leaderboard(estimator), *_curves(estimator)]
    facts = overview(
        describe_model(model), notes, None if classes is None else classes.tolist(), most=12
    )
    count = next((len(getattr(estimator, name)) for name in ("support_", "dual_coef_")
                  if hasattr(estimator, name)), None)  # fmt: skip
    if count is not None:
        facts.append(("predictor", f"a sum of {count} kernel functions"))
    facts.append(("page written", datetime.date.today().isoformat()))
    sections.append(("Model", _grid(("", ""), facts)))
    verdict, *notices = top or [""]
    body = f"<p class=verdict>{escape(verdict)}</p>" if verdict else ""
    body += "".join(f"<p class=warning role=note>{escape(words)}</p>" for words in notices)
    links = (f"<a href='#{_anchor(head)}'>{escape(head)}</a> " for head, _ in sections)
    body += f"<nav aria-label='Sections'>{''.join(links)}</nav>"
    return title, body + "".join(
        f"<section><h2 id='{_anchor(head)}'>{escape(head)}</h2>{html}</section>"
        for head, html in sections
    )


def _anchor(head):
    return re.sub(r"\W+", "-", head.lower())


def _text(value):
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def _grid(head, rows, chosen=(), bar=None):
    """A table; the first cell of each row is its heading, and numbers are right-aligned.

    Rows in `chosen` are bold; column `bar` is also drawn as bars.
    """
    rows = [list(row) for row in rows]
    columns = [[row[i] for row in rows if row[i] not in (None, "")] for i in range(len(head))]
    kinds = [all(isinstance(v, float) or _NUMBER.fullmatch(str(v)) for v in c) for c in columns]

    def cell(tag, value, number):
        return f"<{tag}{' class=n' if number else ''}>{escape(_text(value))}</{tag.split()[0]}>"

    top = "".join(cell("th scope=col", h, k) for h, k in zip(head, kinds, strict=True))
    most = 1.0
    if bar is not None:
        top = top.replace("</th>", "</th><td></td>", 1)
        most = max((abs(row[bar]) for row in rows if row[bar] is not None), default=0.0) or 1.0
    body = ""
    for i, row in enumerate(rows):
        cells = cell("th scope=row", row[0], kinds[0])
        if bar is not None:
            width = 100 * abs(row[bar] or 0.0) / most
            cells += f"<td class=bar style='--w:{width:.1f}%'></td>"
        row = [row[0], *("" if v is None else v for v in row[1:])]
        cells += "".join(cell("td", v, k) for v, k in zip(row[1:], kinds[1:], strict=True))
        body += f"<tr{' class=chosen' if i in chosen else ''}>{cells}</tr>"
    thead = f"<thead><tr>{top}</tr></thead>" if any(head) else ""
    return f"<div class=scroll><table>{thead}<tbody>{body}</tbody></table></div>"


def _svg(draw, title, height=3.2, mathematics=False):
    """The drawing of `draw(axes)` as an SVG with a title, in HTML; nothing without matplotlib.

    `mathematics` reads text between dollars as formulas: not for drawings with text from files.
    """
    if importlib.util.find_spec("matplotlib") is None:
        return ""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    from tunefree.plots import COLOURS

    out, ink = io.StringIO(), ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color")
    from cycler import cycler

    look: Any = dict.fromkeys((*ink, "ytick.color"), _INK) | {
        "text.parse_math": mathematics,
        "svg.hashsalt": "tunefree", "svg.fonttype": "none", "figure.facecolor": "none",
        "axes.facecolor": "none", "legend.frameon": False, "legend.fontsize": 8, "font.size": 9,
        "axes.spines.top": False, "axes.spines.right": False,
        "axes.formatter.limits": (-4, 5), "axes.prop_cycle": cycler(color=COLOURS),
    }  # fmt: skip
    with rc_context(look), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has its own fonts
        figure = Figure(figsize=(4.6, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.subplots())
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    # In HTML an SVG needs neither a prologue nor namespaces; names of groups would not be unique.
    text = re.sub(r' xmlns(:\w+)?="[^"]*"|(?<=<g) id="\w+"', "", text[text.index("<svg") :])
    inks = {_INK: "ink", "#000000": "ink", "#333333": "ink", "#4c4c4c": "ink", "#808080": "soft"}
    inks |= {colour.lower(): f"c{i}" for i, colour in enumerate(COLOURS[:6])}
    text = re.sub("#[0-9a-f]{6}", lambda m: f"var(--{inks[m[0]]})" if m[0] in inks else m[0], text)
    name = escape(title)
    text = text.replace("<svg", f'<svg role="img" aria-label="{name}"', 1)
    return f"<figure>{text}<figcaption>{name}</figcaption></figure>"


def _drawings(*drawn):
    return f"<div class=drawings>{''.join(drawn)}</div>" if any(drawn) else ""


# --- Scores ---------------------------------------------------------------------------------------


def _held_out(estimator):
    """The held-out predictions of training as `EvaluatedRows`, or None."""
    held_out: Any = getattr(estimator, "held_out_", None)
    y, p = np.empty(0), None
    if hasattr(held_out, "codes"):
        p, y = held_out.p, estimator.classes_[held_out.codes]
        predicted = estimator.classes_[p.argmax(axis=1)] if len(p) else y
    elif hasattr(held_out, "predictions") and held_out.predictions.shape[1] == 1:
        predicted, y = held_out.predictions[:, 0], held_out.targets[:, 0]
    if not len(y):
        return None
    weight = held_out.weights
    if (weight == np.round(weight)).all() and weight.sum() <= _MOST_REPEATED:  # repeated rows
        again = np.repeat(np.arange(len(y)), weight.astype(int))
        y, predicted, weight = y[again], predicted[again], None
        p = None if p is None else p[again]
    return EvaluatedRows(None, y, weight, {}, predicted, p, None)


def _scores(estimator, rows):
    scores = Scores(getattr(estimator, "classes_", None), getattr(estimator, "family_", None))
    p, decisions = rows.probabilities, rows.decisions
    if decisions is None and p is not None and p.shape[1] == 2:
        decisions = p[:, 1]
    scores.add(rows.y, rows.predicted, p, decisions, rows.weight)
    return scores


def _trivial(estimator, rows):
    """The scores of the best constant for these rows: class shares, or the mean."""
    y, weight = rows.y, np.ones(len(rows.y)) if rows.weight is None else rows.weight
    if getattr(estimator, "classes_", None) is None:
        scores = Scores(None, getattr(estimator, "family_", None))
        scores.add(y, np.full(len(y), np.average(y, weights=weight)), None, None, weight)
        return scores.result()
    labels, codes = np.unique(y, return_inverse=True)
    shares = np.bincount(codes, weight) / weight.sum()
    scores, top = Scores(labels), shares.argmax()
    scores.add(y, np.full(len(y), labels[top]), np.tile(shares, (len(y), 1)), None, weight)
    return scores.result() | {"auc": 0.5, "constant": plain(labels[top])}


def _share(part):
    return f"{100 * part:.1f}\u00a0%"


def _verdict(rows, scores, trivial, where, classify):
    """The score, and whether the model is better than a constant, in two sentences."""
    n, y, (low, high) = len(rows.y), rows.y, scores["risk_interval"]
    weight = np.ones(n) if rows.weight is None else rows.weight
    if classify:
        words = f"Accuracy {_share(1 - scores['error'])} on the {n} rows {where} (95\u00a0%: "
        words += f"{_share(1 - high)} to {_share(1 - low)}). Always predicting “"
        words += f"{trivial['constant']}” would reach {_share(1 - trivial['error'])}"
        top = max(zip(*np.unique(y, return_counts=True), strict=True), key=lambda pair: pair[1])[0]
        gain = (rows.predicted != y).astype(float) - (y != top)
    else:
        words = f"Mean absolute error {_text(scores['mae'])} on the {n} rows {where}"
        if scores["r2"] is not None:
            words += f"; {_share(scores['r2'])} of the variance is explained"
        words += f". Always predicting the mean would give {_text(trivial['mae'])}"
        gain = (rows.predicted - y) ** 2 - (np.average(y, weights=weight) - y) ** 2
    mean = np.average(gain, weights=weight)  # of differences on the same rows
    error = 1.96 * np.sqrt(np.square(weight * (gain - mean)).sum()) / weight.sum()
    if mean + error < 0.0:
        return words + ": the model is better than that."
    if mean - error > 0.0:
        return words + ": the model is worse than that."
    return words + ": on these rows the model is not significantly better than that."


def _warning(notes, rows):
    """A warning if these rows are those that the model was trained on."""
    sample = notes.get("sample")
    # Each cell of a table with text passes through Python once.
    if not sample or rows.X is None or len(rows.y) * rows.X.shape[1] > _MOST_CELLS:
        return []
    found = set(fingerprints(rows.X, rows.y, np.arange(len(rows.y))))
    share = np.mean([fingerprint in found for fingerprint in sample["rows"]])
    # New rows equal training rows no more often than these equal each other.
    if share <= sample["twins"] + 3.0 * np.sqrt(0.25 / len(sample["rows"])):
        return []
    return [
        f"About {100 * share:.0f}\u00a0% of the rows that the model was trained on are among "
        "these: the scores are too optimistic. Use rows that it was not trained on."
    ]


def _scores_table(scores, trivial, where):
    scores, trivial = dict(scores), dict(trivial)
    if "error" in scores:
        for one in (scores, trivial):
            one["accuracy"] = 1.0 - one["error"]
    else:
        for one in (scores, trivial):
            one["rmse"] = float(np.sqrt(one["mse"]))
    rows = [(title, scores[name], trivial.get(name))
            for name, title in _TITLES.items() if scores.get(name) is not None]  # fmt: skip
    (low, high), kind = scores["risk_interval"], scores["risk_interval_kind"]
    risk = _TITLES["error" if "error" in scores else "mse"]
    words = f"{scores['n']} rows {where}. 95\u00a0% interval of the {risk} on new rows: "
    words += f"[{_text(low)}, {_text(high)}] ({kind})."
    table = _grid(("score", "this model", "best constant"), rows)
    return f"{table}<p class=note>{escape(words)}</p>"


def _classification(estimator, rows):
    """Scores of each class, confusion matrix, ROC and precision-recall curves, reliability."""
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    y, predicted = rows.y, rows.predicted
    labels, codes = np.unique(np.concatenate([y, predicted]), return_inverse=True)
    (y, predicted), names = np.split(codes, 2), [plain(label) for label in labels.tolist()]
    every = np.arange(len(labels))
    each = precision_recall_fscore_support(
        y, predicted, labels=every, zero_division=0.0, sample_weight=rows.weight
    )
    lines = [(name, *map(float, line[:3]), int(np.sum(y == k)))
             for k, (name, *line) in enumerate(zip(names, *each, strict=True))]  # fmt: skip
    if len(lines) > _MOST:
        lines = sorted(lines, key=lambda line: line[3])[:_MOST]
    head = "Classes and confusion matrix"
    if len(names) > _MOST:
        head = "Classes with the lowest F1, most frequent confusions"
    found = _confusion(confusion_matrix(y, predicted, labels=every), names)
    pair = _drawings(_grid(("class", "precision", "recall", "F1", "rows"), lines), found)
    out = [(head, pair)]
    out += _thresholds(estimator, rows, labels, y)
    p = rows.probabilities
    if p is None:
        return out
    from sklearn.calibration import CalibrationDisplay

    two = len(estimator.classes_) == 2
    correct = rows.y == estimator.classes_[1] if two else y == predicted
    probability = p[:, 1] if two else p.max(axis=1)
    what = plain(estimator.classes_.tolist()[1]) if two else "the predicted class"
    bins = np.array_split(np.argsort(probability, kind="stable"), min(10, len(probability)))
    lines = [(float(probability[i].mean()), float(correct[i].mean()), len(i)) for i in bins]
    head = (f"predicted probability of {what}", "observed share", "rows")
    drawn = _svg(
        lambda ax: CalibrationDisplay.from_predictions(
            correct, probability, n_bins=10, strategy="quantile", ax=ax
        ),
        f"Reliability: predicted probability of {what}, and its observed share",
    )
    out.append(("Reliability", _drawings(drawn, _grid(head, lines))))
    return out


def _confusion(found, names):
    """The confusion matrix; for many classes the most frequent confusions."""
    if len(names) > _MOST:
        wrong = found - np.diag(np.diag(found))
        order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST]
        rows = [(names[i], names[j], int(wrong[i, j]))
                for i, j in zip(*np.unravel_index(order, found.shape), strict=True)
                if wrong[i, j]]  # fmt: skip
        return _grid(("true", "predicted", "rows"), rows)
    names = [escape(name) for name in names]
    top = "".join(f"<th scope=col class=n>{name}</th>" for name in names)
    share, body = found / np.maximum(found.sum(axis=1, keepdims=True), 1), ""
    for name, row, part in zip(names, found.tolist(), share.tolist(), strict=True):
        cells = "".join(f"<td style='--p:{70 * p:.0f}%'>{n}</td>"
                        for n, p in zip(row, part, strict=True))  # fmt: skip
        body += f"<tr><th scope=row>{name}</th>{cells}</tr>"
    head = f"<thead><tr><td></td>{top}</tr></thead>"
    return (
        "<div class=scroll><table class=confusion aria-label='Confusion matrix'>"
        f"{head}<tbody>{body}</tbody></table>"
        "<p class=note>Rows: the true class. Columns: the predicted class.</p></div>"
    )


def _thresholds(estimator, rows, labels, y):
    """ROC and precision-recall curves of the second class, or of each of the largest classes."""
    from sklearn.metrics import (
        average_precision_score,
        precision_recall_curve,
        roc_auc_score,
        roc_curve,
    )

    from tunefree.plots import COLOURS, STROKES

    scores, classes = rows.probabilities, estimator.classes_.tolist()
    if scores is None:
        if rows.decisions is None:
            return []
        scores = np.column_stack([-rows.decisions, rows.decisions])
    weights: dict[str, Any] = {"sample_weight": rows.weight}
    counts = np.bincount(y, minlength=len(labels))
    shown = [1] if len(classes) == 2 else range(len(classes))
    curves = []
    for k in shown:
        code = int(np.searchsorted(labels, classes[k]))
        own = y == code if code < len(labels) and labels[code] == classes[k] else None
        if own is not None and 0 < own.sum() < len(own):
            curves.append((counts[code], plain(classes[k]), own, scores[:, k]))
    if not curves:
        return []
    curves = sorted(curves, key=lambda curve: -curve[0])[:_MOST_CURVES]
    looks = [{"color": COLOURS[i], "linestyle": STROKES[i], "linewidth": 1.4}
             for i in range(len(curves))]  # fmt: skip

    def roc(ax):
        for (_, name, own, score), look in zip(curves, looks, strict=True):
            auc = roc_auc_score(own, score, **weights)
            ax.plot(*roc_curve(own, score, **weights)[:2], label=f"{name}: area {auc:.3f}", **look)
        ax.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, linestyle=(0, (1, 3)))
        ax.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
        ax.legend(loc="lower right")

    def pr(ax):
        for (_, name, own, score), look in zip(curves, looks, strict=True):
            precision, recall, _ = precision_recall_curve(own, score, **weights)
            area = average_precision_score(own, score, **weights)
            ax.plot(recall, precision, label=f"{name}: {area:.3f}", drawstyle="steps-post", **look)
        ax.set(xlabel="recall", ylabel="precision", ylim=(0, 1.05), aspect="equal")
        ax.legend(title="average precision", title_fontsize=8)

    head = ("class", "area under the ROC curve", "average precision", "rows")
    lines = [(name, *(float(area(own, score, **weights))
                     for area in (roc_auc_score, average_precision_score)), int(n))
            for n, name, own, score in curves]  # fmt: skip
    drawn = _drawings(_svg(roc, "ROC curve", 4.0), _svg(pr, "Precision against recall", 4.0))
    return [("ROC and precision-recall", drawn + _grid(head, lines))]


def _regression(estimator, rows):
    """Predicted against actual targets, and residuals."""
    from sklearn.metrics import PredictionErrorDisplay

    residuals = rows.y - rows.predicted
    at = (0.05, 0.25, 0.5, 0.75, 0.95)
    lines = [("target minus prediction", *map(float, np.quantile(residuals, at)))]
    table = _grid(("", *(f"{100 * q:.0f} % below" for q in at)), lines)

    def drawn(kind, title):
        def draw(ax):
            from matplotlib.ticker import AutoLocator, ScalarFormatter

            PredictionErrorDisplay.from_predictions(
                rows.y, rows.predicted, kind=kind, ax=ax, subsample=1000, random_state=0,
                scatter_kwargs={"alpha": 0.4, "s": 9, "color": "#0072B2", "linewidths": 0},
                line_kwargs={"color": _INK, "linewidth": 0.8},
            )  # fmt: skip
            words = {"xlabel": "predicted", "ylabel": "actual"}
            for axis in (ax.xaxis, ax.yaxis):  # round ticks
                axis.set_major_locator(AutoLocator())
                axis.set_major_formatter(ScalarFormatter())
            ax.set(**words if kind.startswith("actual") else words | {"ylabel": "residual"})

        return _svg(draw, title)

    pair = _drawings(
        drawn("actual_vs_predicted", "Actual against predicted targets"),
        drawn("residual_vs_predicted", "Residuals: actual minus predicted targets"),
    )
    return [("Predicted and actual", pair + table)]


def _coverage(estimator, rows):
    """Coverage of 90 % intervals or sets on some of the rows."""
    method = "predict_interval" if getattr(estimator, "classes_", None) is None else "predict_set"
    held_out = getattr(estimator, "held_out_", None)
    if rows.X is None or rows.roles or held_out is None or not hasattr(estimator, method):
        return []
    sample = np.arange(len(rows.y))[:: max(1, -(-len(rows.y) // 1000))]
    X, y = (rows.X.take(sample) if hasattr(rows.X, "take") and hasattr(rows.X, "schema")
            else rows.X[sample]), rows.y[sample]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about too few rows for a finite end
        try:
            predicted, ends = getattr(estimator, method)(X, alpha=_ALPHA)
        except (ValueError, NotImplementedError):  # there are no held-out predictions
            return []
    words = f"{method}(X, alpha={_ALPHA}) for {len(sample)} of these rows. "
    drawn = ""
    if method == "predict_set":
        from tunefree.estimators.base import places_of

        code = places_of(estimator.classes_, y)
        inside = ends[np.arange(len(y)), code, 0] & (estimator.classes_[code] == y)
        size = ends[:, :, 0].sum(axis=1)
        words += f"Sets hold {size.mean():.3g} classes on average; "
    else:
        ends = ends.reshape(len(y), 2)
        inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
        width = float(np.median(np.ptp(ends, axis=1)))
        words += f"Intervals have a median width of {_text(width)}; "
        from tunefree.plots import IntervalDisplay

        drawn_rows = slice(None, None, -(-len(y) // 300))
        display = IntervalDisplay(
            predicted[drawn_rows], ends[drawn_rows], target=y[drawn_rows], share=1.0 - _ALPHA
        )
        drawn = _drawings(_svg(display.plot, "90 % prediction intervals over the predictions"))
    low, high = exact(int(inside.sum()), len(inside))
    words += f"{_share(inside.mean())} of them contain the target (95\u00a0%: {_share(low)} to "
    words += f"{_share(high)}); the nominal coverage is {100 - 100 * _ALPHA:.0f}\u00a0%."
    head = "Prediction intervals" if method == "predict_interval" else "Prediction sets"
    return [(head, f"<p>{escape(words)}</p>{drawn}")]


# --- Importance of the columns --------------------------------------------------------------------


def importances(estimator, X=None):
    """The importance of every column, as shares, or None.

    For a linear predictor: the square of coefficient times standard deviation, if rows are given.
    """
    for name in ("feature_importances_", "feature_relevances_"):
        if (shares := getattr(estimator, name, None)) is not None:
            return np.asarray(shares)
    if not hasattr(estimator, "coef_") or X is None or hasattr(X, "schema"):
        return None
    square = X.multiply(X) if sparse.issparse(X) else np.square(X)
    mean = [np.asarray(a.mean(axis=0)).ravel() for a in (square, X)]
    spread = np.sqrt(np.maximum(mean[0] - np.square(mean[1]), 0.0))
    each = np.square(np.atleast_2d(estimator.coef_) * spread).sum(axis=0)
    return each / max(each.sum(), 1e-300)


def _columns(estimator, notes, rows):
    """The importance of every column, by all measures there are, and its partial effect."""
    names, measures, out = feature_names(estimator, notes), {}, []
    shares = importances(estimator, None if rows is None else rows.X)
    if shares is not None:
        measures["share of prediction variance"] = shares
    held_out = getattr(estimator, "permutation_importances_", None)
    if held_out is not None:
        measures["permutation importance (held-out rows)"] = held_out
    X = y = None
    if rows is not None and rows.X is not None and not rows.roles:
        X, y = _sample_rows(rows.X, rows.y, getattr(estimator, "classes_", None))
    words = ""
    if X is not None and y is not None:
        found, kind = _permuted(estimator, X, y)
        measures[f"permutation importance (these rows): rise of the {kind}"] = (
            found.importances_mean
        )
        measures["standard deviation"] = found.importances_std
        words = f"Each column was permuted {_REPEATS} times, on {len(y)} of these rows. "
    weights = largest_weights(estimator, notes, _MOST)
    if not measures:  # sparse or streamed rows
        if not weights:
            return []
        lines = [(row["feature"], row["weight"]) for row in weights]
        return [("Largest weights", _grid(("feature", "weight"), lines, bar=1))]
    # The best measure orders the columns: these rows, or else held-out rows, or else shares.
    best = [*measures][-2 if "standard deviation" in measures else -1]
    first = (best, "standard deviation")
    measures = dict(sorted(measures.items(), key=lambda item: item[0] not in first))
    order = np.argsort(-measures[best], kind="stable")[:_MOST].tolist()
    lines = [(names[j], *(float(values[j]) for values in measures.values())) for j in order]
    table = _grid(("column", *measures), lines, bar=1)
    levels = "; ".join(row["levels"] for row in weights if row.get("levels"))
    words += f"Most important levels: {levels}." if levels else ""
    out.append(("Columns", table + (f"<p class=note>{escape(words)}</p>" if words else "")))
    if X is not None:
        drawn = [_effect(estimator, X, j, names) for j in order[:_MOST_EFFECTS]
                 if measures[best][j] > 0]  # fmt: skip
        words = "Mean prediction if all of these rows had the same value in one column. "
        words += "Marks above the axis: deciles of the column."
        if any(drawn):
            out.append(("Partial effects", f"<p class=note>{words}</p>{_drawings(*drawn)}"))
    return out


def _permuted(estimator, X, y):
    """Permutation importances on these rows, and the name of the loss."""
    from sklearn.inspection import permutation_importance
    from sklearn.metrics import log_loss, mean_squared_error

    if hasattr(estimator, "predict_proba"):
        kind, classes = "log loss", estimator.classes_
        score: Any = lambda m, X, y: -log_loss(y, m.predict_proba(X), labels=classes)  # noqa: E731
    elif getattr(estimator, "classes_", None) is not None:
        kind, score = "error rate", "accuracy"
    else:
        kind = "mean squared error"
        score = lambda m, X, y: -mean_squared_error(y, m.predict(X))  # noqa: E731
    return permutation_importance(
        estimator, X, y, scoring=score, n_repeats=_REPEATS, random_state=0
    ), kind


def _effect(estimator, X, j, names):
    """The partial dependence on one column; nothing if the column is constant."""
    from sklearn.inspection import PartialDependenceDisplay

    column: Any = X[:, j] if isinstance(X, np.ndarray) else X.iloc[:, j]
    present = column == column  # noqa: PLR0124 -- missing values differ from themselves
    text, target = column.dtype.kind == "O", None
    if text:  # the most frequent levels
        counts = column[present].value_counts()
        present &= column.isin(counts.index[:_MOST_LEVELS])
    elif column.dtype.kind not in "iuf" or len(np.unique(column[present])) < 2:
        return ""
    classes = getattr(estimator, "classes_", None)
    if classes is not None and len(classes) > 2:
        target = classes[-1]
    what = "prediction" if classes is None else f"probability of {plain(classes.tolist()[-1])}"

    def plot(ax):
        display = PartialDependenceDisplay.from_estimator(
            estimator, X[np.asarray(present)], [j], ax=ax,
            categorical_features=[j] if text else None, grid_resolution=20, target=target,
            feature_names=names,
        )  # fmt: skip
        for one in display.axes_.ravel():
            if text:  # bars begin at 0
                low, high = one.get_ylim()
                one.set_ylim(min(low, 0.0), max(high, 0.0))
            one.set(ylabel=f"mean {what}")

    return _svg(plot, f"Partial effect of {names[j]} on the {what}", 2.8)


def _sample_rows(X, y, classes):
    """Evenly spread rows in a form for scikit-learn, or (None, None)."""
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


# --- Choice of the candidate ----------------------------------------------------------------------


def _leaderboard(estimator):
    from tunefree.plots import LeaderboardDisplay

    board = getattr(estimator, "leaderboard_", [])
    if not board:
        return []
    report = getattr(estimator, "report_", None)
    drawn = _drawings(_svg(
        lambda ax: LeaderboardDisplay.from_estimator(estimator, ax=ax),
        "Candidates by their held-out risk" if report else "Candidates by their risk",
        1.0 + 0.25 * min(len(board), 15), mathematics=True,
    ))  # fmt: skip
    if report is None:
        head = [name.replace("_", " ") for name in board[0]]
        return [("Leaderboard", _grid(head, [list(row.values()) for row in board]) + drawn)]
    head, *rows = report.table()
    chosen = [i for i, row in enumerate(board) if row["chosen"]]
    lines = [" ".join(report.sentences()), *report.notes()]
    why = "".join(f"<p>{escape(line)}</p>" for line in lines)
    timed = report.seconds is not None
    seconds = [
        (r["candidate"], r["seconds" if timed else "cost"]) for r in board if r["risk"] is not None
    ]
    if timed:
        seconds.append(("final fit, on all rows", report.refit_seconds))
    timing = _grid(("candidate", "seconds" if timed else "planned seconds"), seconds, bar=1)
    return [
        ("Leaderboard", _grid((*head[:-1], "share"), rows, chosen) + drawn + why),
        ("Timing", timing),
    ]


def _curves(estimator):
    from tunefree.plots import RiskCurveDisplay

    try:
        display = RiskCurveDisplay(**RiskCurveDisplay._data_of(estimator))
    except ValueError:  # it has no trace of its risk
        return []
    if display.errors:  # the leaderboard shows these
        return []
    text = "<p class=note>Every row was predicted before it was learned.</p>"
    rows = display.xlabel == "rows seen"
    title = f"{display.ylabel} over {display.xlabel}".capitalize()
    drawn = _svg(display.plot, title, mathematics=True)
    return [(f"Risk over {display.xlabel}", (text if rows else "") + _drawings(drawn))]
