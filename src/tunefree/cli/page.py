"""``tunefree report``: how good a model is, what it goes by and how it was chosen, as one page.

The page (also of ``tunefree eval --html``) is one HTML file with tables and drawings as SVG: no
script, nothing from the network. Without matplotlib it has its tables only.
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

from tunefree.cli.apply import Scores, Seen, evaluate, load, matched_by_us
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
# What matplotlib draws in, and what the page has for it, by light and in the dark.
_INK, _SOFT = "#1d2126", "#59626c"
_MOST = 20  # columns with the largest weights, classes told one by one
# Importances: rows, and how often each column is shuffled; more columns take too long.
_ROWS_SHUFFLED, _REPEATS, _WIDEST, _MOST_EFFECTS, _MOST_LEVELS = 500, 3, 50, 4, 10
_MOST_CURVES, _MOST_REPEATED, _MOST_CELLS, _ALPHA = 6, 1e6, 1e8, 0.1
# What no page may hold, and a terminal may obey: C0 but for tabs and ends of lines, DEL and C1.
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d+)?%?")
_TITLES = {
    "accuracy": "accuracy", "error": "error rate", "log_loss": "log loss",
    "auc": "area under the ROC curve", "mse": "mean squared error",
    "rmse": "root mean squared error", "mae": "mean absolute error", "r2": "R²",
    "deviance": "mean deviance",
}  # fmt: skip


def run_report(model, data, output, **given):
    """Carry out ``tunefree report``."""
    output = output or f"{model}.html"
    check_writable(output)
    estimator, notes = load(model)
    seen = scores = None
    if data is not None:
        scores, _, seen = evaluate(estimator, notes, data, whole=True, **given)
    write_page(output, model, estimator, notes, data, seen, scores)


def write_page(output, model, estimator, notes, data, seen, scores):
    """Write the page of a model, and of its predictions for rows if there are any."""
    if importlib.util.find_spec("matplotlib") is None:
        note("note: the drawings need matplotlib: pip install 'tunefree[plots]'")
    with failing(FAILED, output), working("drawing"), matched_by_us():
        where = f"of {data}"
        if seen is None:
            seen, where = _held_out(estimator), "left out of training"
        title, body = _body(model, estimator, notes, where, seen, scores)
        page = _CONTROL.sub("\ufffd", _PAGE.format(title=escape(title), body=body))
        write_atomically(output, [page.encode(errors="replace")])
    note(f"wrote {output}")


def _body(model, estimator, notes, where, seen, scores):
    """Title and body of the page; `where` says which rows were seen."""
    classes = getattr(estimator, "classes_", None)
    target = (notes.get("target") or [None])[0]
    title = f"{target or 'tunefree'}: {model}"
    sections, top = [], []
    if seen is not None:
        if scores is None:
            scores = _scores(estimator, seen).result()
            if seen.X is None and (known := getattr(estimator, "risk_interval_", None)) is not None:
                scores["risk_interval"] = known
                scores["risk_interval_kind"] = estimator.risk_interval_kind_
        trivial = _trivial(estimator, seen)
        top.append(_verdict(seen, scores, trivial, where, classes is not None))
        top += _warning(notes, seen)
        sections.append(("Scores", _scores_told(scores, trivial, where)))
        if classes is None:
            sections += _regression(estimator, seen)
        else:
            sections += _classification(estimator, seen)
        sections += _sure(estimator, seen)
    elif hasattr(estimator, "report_"):
        top.append(estimator.report_.reason + " " + estimator.report_.sure())
    sections += [*_columns(estimator, notes, seen), *_leaderboard(estimator), *_curves(estimator)]
    facts = overview(
        describe_model(model), notes, None if classes is None else classes.tolist(), most=12
    )
    count = next((len(getattr(estimator, name)) for name in ("support_", "dual_coef_")
                  if hasattr(estimator, name)), None)  # fmt: skip
    if count is not None:
        facts.append(("predictor", f"a sum of {count} kernel functions"))
    facts.append(("page written", datetime.date.today().isoformat()))
    sections.append(("Model", _grid(("", ""), facts)))
    verdict, *warned = top or [""]
    body = f"<p class=verdict>{escape(verdict)}</p>" if verdict else ""
    body += "".join(f"<p class=warning role=note>{escape(words)}</p>" for words in warned)
    links = (f"<a href='#{_anchor(head)}'>{escape(head)}</a> " for head, _ in sections)
    body += f"<nav aria-label='Sections'>{''.join(links)}</nav>"
    return title, body + "".join(
        f"<section><h2 id='{_anchor(head)}'>{escape(head)}</h2>{html}</section>"
        for head, html in sections
    )


def _anchor(head):
    return re.sub(r"\W+", "-", head.lower())


def _few(value):
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def _grid(head, rows, chosen=(), bar=None):
    """A table whose rows are headed by their first cells; numbers are right-aligned.

    Rows that were chosen stand out; `bar` is the column that is drawn as bars, too.
    """
    rows = [list(row) for row in rows]
    columns = [[row[i] for row in rows if row[i] not in (None, "")] for i in range(len(head))]
    kinds = [all(isinstance(v, float) or _NUMBER.fullmatch(str(v)) for v in c) for c in columns]

    def cell(tag, value, number):
        return f"<{tag}{' class=n' if number else ''}>{escape(_few(value))}</{tag.split()[0]}>"

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
    """What `draw` draws into axes, as a named SVG within HTML; nothing without matplotlib.

    Between dollars text is `mathematics` only where there is none from a file, but powers of ten.
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
    # Within HTML an SVG needs neither a prologue nor namespaces; groups' names would not be unique.
    text = re.sub(r' xmlns(:\w+)?="[^"]*"|(?<=<g) id="\w+"', "", text[text.index("<svg") :])
    inks = {_INK: "ink", "#000000": "ink", "#333333": "ink", "#4c4c4c": "ink", "#808080": "soft"}
    inks |= {colour.lower(): f"c{i}" for i, colour in enumerate(COLOURS[:6])}
    text = re.sub("#[0-9a-f]{6}", lambda m: f"var(--{inks[m[0]]})" if m[0] in inks else m[0], text)
    name = escape(title)
    text = text.replace("<svg", f'<svg role="img" aria-label="{name}"', 1)
    return f"<figure>{text}<figcaption>{name}</figcaption></figure>"


def _drawings(*drawn):
    return f"<div class=drawings>{''.join(drawn)}</div>" if any(drawn) else ""


# --- How good it is -------------------------------------------------------------------------------


def _held_out(estimator):
    """What is known of rows left out of training, as if they had come from a file; or None."""
    known: Any = getattr(estimator, "held_out_", None)
    y, p = np.empty(0), None
    if hasattr(known, "codes"):
        p, y = known.p, estimator.classes_[known.codes]
        told = estimator.classes_[p.argmax(axis=1)] if len(p) else y
    elif hasattr(known, "predictions") and known.predictions.shape[1] == 1:
        told, y = known.predictions[:, 0], known.targets[:, 0]
    if not len(y):
        return None
    weight = known.weights
    if (weight == np.round(weight)).all() and weight.sum() <= _MOST_REPEATED:  # rows given twice
        again = np.repeat(np.arange(len(y)), weight.astype(int))
        y, told, weight, p = y[again], told[again], None, None if p is None else p[again]
    return Seen(None, y, weight, {}, told, p, None)


def _scores(estimator, seen):
    scores = Scores(getattr(estimator, "classes_", None), getattr(estimator, "family_", None))
    p = seen.probabilities
    odds = p[:, 1] if seen.decisions is None and p is not None and p.shape[1] == 2 else None
    odds = seen.decisions if odds is None else odds
    scores.add(seen.y, seen.predicted, p, odds, seen.weight)
    return scores


def _trivial(estimator, seen):
    """The scores of the best constant for these rows: class shares, or the mean."""
    y, weight = seen.y, np.ones(len(seen.y)) if seen.weight is None else seen.weight
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


def _verdict(seen, scores, trivial, where, classify):
    """What a person wants to know, in two sentences."""
    n, y, (low, high) = len(seen.y), seen.y, scores["risk_interval"]
    weight = np.ones(n) if seen.weight is None else seen.weight
    if classify:
        words = f"Accuracy {_share(1 - scores['error'])} on the {n} rows {where} (95\u00a0%: "
        words += f"{_share(1 - high)} to {_share(1 - low)}). Always answering “"
        words += f"{trivial['constant']}” would reach {_share(1 - trivial['error'])}"
        top = max(zip(*np.unique(y, return_counts=True), strict=True), key=lambda pair: pair[1])[0]
        gain = (seen.predicted != y).astype(float) - (y != top)
    else:
        words = f"For the {n} rows {where} it is off by {_few(scores['mae'])} on average"
        if scores["r2"] is not None:
            words += f", and explains {_share(scores['r2'])} of the variance"
        words += f". Always answering the mean would be off by {_few(trivial['mae'])}"
        gain = (seen.predicted - y) ** 2 - (np.average(y, weights=weight) - y) ** 2
    mean = np.average(gain, weights=weight)  # the difference, row by row: both meet the same rows
    reach = 1.96 * np.sqrt(np.square(weight * (gain - mean)).sum()) / weight.sum()
    if mean + reach < 0.0:
        return words + ": the model is better than that."
    if mean - reach > 0.0:
        return words + ": the model is worse than that."
    return words + ": on these rows the model is not surely better than that."


def _warning(notes, seen):
    """What to say where these rows are those that the model has learned."""
    sample = notes.get("sample")
    # Each cell of a table of text passes through Python once.
    if not sample or seen.X is None or len(seen.y) * seen.X.shape[1] > _MOST_CELLS:
        return []
    found = set(fingerprints(seen.X, seen.y, np.arange(len(seen.y))))
    share = np.mean([mark in found for mark in sample["rows"]])
    # New rows are twins of learned ones no more often than these are of each other.
    if share <= sample["twins"] + 3.0 * np.sqrt(0.25 / len(sample["rows"])):
        return []
    return [
        f"About {100 * share:.0f}\u00a0% of the rows that the model was trained on are among "
        "these: the scores flatter it. Give report rows that it has not seen."
    ]


def _scores_told(scores, trivial, where):
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
    words = f"{scores['n']} rows {where}. The {risk} on more rows like these lies in "
    words += f"[{_few(low)}, {_few(high)}] ({kind})."
    told = f"<p class=note>{escape(words)}</p>"
    return _grid(("score", "this model", "best constant"), rows) + told


def _classification(estimator, seen):
    """Classes one by one, confusions, ROC and precision-recall curves, reliability."""
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    y, told, weight = seen.y, seen.predicted, seen.weight
    labels, codes = np.unique(np.concatenate([y, told]), return_inverse=True)
    (y, told), names = np.split(codes, 2), [plain(label) for label in labels.tolist()]
    every = np.arange(len(labels))
    each = precision_recall_fscore_support(
        y, told, labels=every, zero_division=0.0, sample_weight=weight
    )
    rows = [(name, *map(float, line[:3]), int(np.sum(y == k)))
            for k, (name, *line) in enumerate(zip(names, *each, strict=True))]  # fmt: skip
    if len(rows) > _MOST:
        rows = sorted(rows, key=lambda row: row[3])[:_MOST]
    head = "Classes and confusion matrix"
    if len(names) > _MOST:
        head = "Classes of the lowest F1, most frequent mistakes"
    found = _confusion(confusion_matrix(y, told, labels=every), names)
    pair = _drawings(_grid(("class", "precision", "recall", "F1", "rows"), rows), found)
    out = [(head, pair)]
    out += _thresholds(estimator, seen, labels, y)
    p = seen.probabilities
    if p is None:
        return out
    from tunefree.plots import ReliabilityDisplay

    two = len(estimator.classes_) == 2
    right = seen.y == estimator.classes_[1] if two else y == told
    said = p[:, 1] if two else p.max(axis=1)
    what = plain(estimator.classes_.tolist()[1]) if two else "the predicted class"
    bins = np.array_split(np.argsort(said, kind="stable"), min(10, len(said)))
    rows = [(float(said[i].mean()), float(right[i].mean()), len(i)) for i in bins]
    head = (f"predicted probability of {what}", "share that came true", "rows")
    drawn = _svg(
        lambda ax: ReliabilityDisplay.from_predictions(right, said, ax=ax),
        f"Reliability: predicted probability of {what} against how often it came true",
    )
    out.append(("Reliability", _drawings(drawn, _grid(head, rows))))
    return out


def _confusion(found, names):
    """The matrix of true and predicted classes; of many classes the most frequent mistakes."""
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


def _thresholds(estimator, seen, labels, y):
    """ROC and precision-recall curves: of the second class, or of the largest against the rest."""
    from sklearn.metrics import (
        average_precision_score,
        precision_recall_curve,
        roc_auc_score,
        roc_curve,
    )

    from tunefree.plots import COLOURS, STROKES

    scores, classes = seen.probabilities, estimator.classes_.tolist()
    if scores is None:
        if seen.decisions is None:
            return []
        scores = np.column_stack([-seen.decisions, seen.decisions])
    weigh: dict[str, Any] = {"sample_weight": seen.weight}
    counts = np.bincount(y, minlength=len(labels))
    shown = [1] if len(classes) == 2 else range(len(classes))
    curves = []
    for k in shown:
        place = int(np.searchsorted(labels, classes[k]))
        own = y == place if place < len(labels) and labels[place] == classes[k] else None
        if own is not None and 0 < own.sum() < len(own):
            curves.append((counts[place], plain(classes[k]), own, scores[:, k]))
    if not curves:
        return []
    curves = sorted(curves, key=lambda curve: -curve[0])[:_MOST_CURVES]
    looks = [{"color": COLOURS[i], "linestyle": STROKES[i], "linewidth": 1.4}
             for i in range(len(curves))]  # fmt: skip

    def roc(ax):
        for (_, name, own, score), look in zip(curves, looks, strict=True):
            auc = roc_auc_score(own, score, **weigh)
            ax.plot(*roc_curve(own, score, **weigh)[:2], label=f"{name}: area {auc:.3f}", **look)
        ax.plot([0, 1], [0, 1], color="0.5", linewidth=0.8, linestyle=(0, (1, 3)))
        ax.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
        ax.legend(loc="lower right")

    def pr(ax):
        for (_, name, own, score), look in zip(curves, looks, strict=True):
            precision, recall, _ = precision_recall_curve(own, score, **weigh)
            area = average_precision_score(own, score, **weigh)
            ax.plot(recall, precision, label=f"{name}: {area:.3f}", drawstyle="steps-post", **look)
        ax.set(xlabel="recall", ylabel="precision", ylim=(0, 1.05), aspect="equal")
        ax.legend(title="average precision", title_fontsize=8)

    head = ("class", "area under the ROC curve", "average precision", "rows")
    rows = [(name, *(float(area(own, score, **weigh))
                     for area in (roc_auc_score, average_precision_score)), int(n))
            for n, name, own, score in curves]  # fmt: skip
    drawn = _drawings(_svg(roc, "ROC curve", 4.0), _svg(pr, "Precision against recall", 4.0))
    return [("ROC and precision-recall", drawn + _grid(head, rows))]


def _regression(estimator, seen):
    """Predicted against actual targets, and residuals."""
    from sklearn.metrics import PredictionErrorDisplay

    residuals = seen.y - seen.predicted
    at = (0.05, 0.25, 0.5, 0.75, 0.95)
    rows = [("target less prediction", *map(float, np.quantile(residuals, at)))]
    table = _grid(("", *(f"{100 * q:.0f} % below" for q in at)), rows)

    def drawn(kind, title):
        def draw(ax):
            from matplotlib.ticker import AutoLocator, ScalarFormatter

            PredictionErrorDisplay.from_predictions(
                seen.y, seen.predicted, kind=kind, ax=ax, subsample=1000, random_state=0,
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
        drawn("residual_vs_predicted", "Residuals: actual less predicted targets"),
    )
    return [("Predicted and actual", pair + table)]


def _sure(estimator, seen):
    """Intervals or sets of 90 % for some of the rows, and whether they hold it."""
    verb = "predict_interval" if getattr(estimator, "classes_", None) is None else "predict_set"
    known = getattr(estimator, "held_out_", None)
    if seen.X is None or seen.known or known is None or not hasattr(estimator, verb):
        return []
    kept = np.arange(len(seen.y))[:: max(1, -(-len(seen.y) // 1000))]
    X, y = (seen.X.take(kept) if hasattr(seen.X, "take") and hasattr(seen.X, "schema")
            else seen.X[kept]), seen.y[kept]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows too few for a finite end
        try:
            said, ends = getattr(estimator, verb)(X, alpha=_ALPHA)
        except (ValueError, NotImplementedError):  # nothing is known of rows left out
            return []
    words = f"{verb}(X, alpha={_ALPHA}) for {len(kept)} of these rows. "
    drawn = ""
    if verb == "predict_set":
        from tunefree.estimators.base import places_of

        place = places_of(estimator.classes_, y)
        inside = ends[np.arange(len(y)), place, 0] & (estimator.classes_[place] == y)
        size = ends[:, :, 0].sum(axis=1)
        words += f"Sets hold {size.mean():.3g} classes in the mean; "
    else:
        ends = ends.reshape(len(y), 2)
        inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
        words += (
            f"Intervals have a median width of {_few(float(np.median(np.ptp(ends, axis=1))))}; "
        )
        from tunefree.plots import IntervalDisplay

        some = slice(None, None, -(-len(y) // 300))
        display = IntervalDisplay(said[some], ends[some], target=y[some], share=1.0 - _ALPHA)
        drawn = _drawings(_svg(display.plot, "Intervals of 90 % over the predictions"))
    low, high = exact(int(inside.sum()), len(inside))
    words += f"{_share(inside.mean())} of them hold the truth (95\u00a0%: {_share(low)} to "
    words += f"{_share(high)}), where {100 - 100 * _ALPHA:.0f}\u00a0% are asked for."
    head = "Prediction intervals" if verb == "predict_interval" else "Prediction sets"
    return [(head, f"<p>{escape(words)}</p>{drawn}")]


# --- What it goes by ------------------------------------------------------------------------------


def importances(estimator, X=None):
    """How much every column counts, shares without units, or None.

    Of a linear predictor coefficient times standard deviation, squared, where rows are given.
    """
    for name in ("feature_importances_", "relevances_"):
        if (found := getattr(estimator, name, None)) is not None:
            return np.asarray(found)
    if not hasattr(estimator, "coef_") or X is None or hasattr(X, "schema"):
        return None
    square = X.multiply(X) if sparse.issparse(X) else np.square(X)
    mean = [np.asarray(a.mean(axis=0)).ravel() for a in (square, X)]
    spread = np.sqrt(np.maximum(mean[0] - np.square(mean[1]), 0.0))
    each = np.square(np.atleast_2d(estimator.coef_) * spread).sum(axis=0)
    return each / max(each.sum(), 1e-300)


def _columns(estimator, notes, seen):
    """What every column counts for, by all that is known, and how predictions move with it."""
    names, told, out = feature_names(estimator, notes), {}, []
    share = importances(estimator, None if seen is None else seen.X)
    if share is not None:
        told["share of the predictions' spread"] = share
    worth = getattr(estimator, "permutation_importances_", None)
    if worth is not None:
        told["rise of the loss when permuted, rows left out"] = worth
    X = y = None
    if seen is not None and seen.X is not None and not seen.known:
        X, y = _few_rows(seen.X, seen.y, getattr(estimator, "classes_", None))
    words = ""
    if X is not None and y is not None:
        found, kind = _permuted(estimator, X, y)
        told[f"rise of the {kind} when permuted, these rows"] = found.importances_mean
        told["standard deviation"] = found.importances_std
        words = f"Permuted: {len(y)} of these rows, {_REPEATS} times. "
    weights = largest_weights(estimator, notes, _MOST)
    if not told:  # sparse or streamed rows: the weights are all there is
        if not weights:
            return []
        rows = [(row["feature"], row["weight"]) for row in weights]
        return [("Largest weights", _grid(("feature", "weight"), rows, bar=1))]
    lead = [*told][-2 if "standard deviation" in told else -1]
    told = dict(sorted(told.items(), key=lambda item: item[0] not in (lead, "standard deviation")))
    order = np.argsort(-told[lead], kind="stable")[:_MOST].tolist()
    rows = [(names[j], *(float(values[j]) for values in told.values())) for j in order]
    table = _grid(("column", *told), rows, bar=1)
    levels = "; ".join(row["levels"] for row in weights if row.get("levels"))
    words += f"Levels that count most: {levels}." if levels else ""
    out.append(("Columns", table + (f"<p class=note>{escape(words)}</p>" if words else "")))
    if X is not None:
        drawn = [_effect(estimator, X, j, names) for j in order[:_MOST_EFFECTS]
                 if told[lead][j] > 0]  # fmt: skip
        words = "Mean prediction for these rows if all of them had that value in one column. "
        words += "Marks above the axis: tenths of the rows."
        if any(drawn):
            out.append(("Partial effects", f"<p class=note>{words}</p>{_drawings(*drawn)}"))
    return out


def _permuted(estimator, X, y):
    """Permutation importances on these rows, and of which loss."""
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
    """The partial dependence on one column; nothing where it has none."""
    from sklearn.inspection import PartialDependenceDisplay

    column: Any = X[:, j] if isinstance(X, np.ndarray) else X.iloc[:, j]
    known = column == column  # noqa: PLR0124 -- missing values differ from themselves
    text, target = column.dtype.kind == "O", None
    if text:  # the levels seen most
        counts = column[known].value_counts()
        known &= column.isin(counts.index[:_MOST_LEVELS])
    elif column.dtype.kind not in "iuf" or len(np.unique(column[known])) < 2:
        return ""
    classes = getattr(estimator, "classes_", None)
    if classes is not None and len(classes) > 2:
        target = classes[-1]
    said = "prediction" if classes is None else f"probability of {plain(classes.tolist()[-1])}"

    def plot(ax):
        display = PartialDependenceDisplay.from_estimator(
            estimator, X[np.asarray(known)], [j], ax=ax,
            categorical_features=[j] if text else None, grid_resolution=20, target=target,
            feature_names=names,
        )  # fmt: skip
        for one in display.axes_.ravel():
            if text:  # bars begin at 0
                low, high = one.get_ylim()
                one.set_ylim(min(low, 0.0), max(high, 0.0))
            one.set(ylabel=f"mean {said}")

    return _svg(plot, f"Partial effect of {names[j]} on the {said}", 2.8)


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


# --- How it was chosen ----------------------------------------------------------------------------


def _leaderboard(estimator):
    from tunefree.plots import LeaderboardDisplay

    board = getattr(estimator, "leaderboard_", [])
    if not board:
        return []
    report = getattr(estimator, "report_", None)
    drawn = _drawings(_svg(
        lambda ax: LeaderboardDisplay.from_estimator(estimator, ax=ax),
        "Candidates by their risk on rows left out" if report else "Candidates by their risk",
        1.0 + 0.25 * min(len(board), 15), mathematics=True,
    ))  # fmt: skip
    if report is None:
        head = [name.replace("_", " ") for name in board[0]]
        return [("Leaderboard", _grid(head, [list(row.values()) for row in board]) + drawn)]
    head, *rows = report.table()
    chosen = [i for i, row in enumerate(board) if row["chosen"]]
    left = "; ".join(f"{name}: {reason}" for name, reason in report.skipped.items())
    why = f"<p>{escape(f'{report.reason} {report.sure()} {report.closing()}')}</p>"
    why += f"<p class=note>Not suited: {escape(left)}.</p>" if left else ""
    timed = report.seconds is not None
    spent = [
        (r["candidate"], r["seconds" if timed else "cost"]) for r in board if r["risk"] is not None
    ]
    if timed:
        spent.append(("last fit, on all rows", report.refit_seconds))
    unit = "seconds" if timed else "seconds, as planned"
    timing = _grid(("candidate", unit), spent, bar=1)
    return [
        ("Leaderboard", _grid((*head[:-1], "share"), rows, chosen) + drawn + why),
        ("Timing", timing),
    ]


def _curves(estimator):
    from tunefree.plots import RiskCurveDisplay

    try:
        display = RiskCurveDisplay(**RiskCurveDisplay._told(estimator))
    except ValueError:  # it has no trace of its risk
        return []
    if display.errors:  # the leaderboard has shown these
        return []
    text = "<p class=note>Every row was predicted before it was learned.</p>"
    rows = display.xlabel == "rows seen"
    title = f"{display.ylabel} over {display.xlabel}".capitalize()
    drawn = _svg(display.plot, title, mathematics=True)
    return [(f"Risk over {display.xlabel}", (text if rows else "") + _drawings(drawn))]
