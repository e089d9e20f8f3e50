"""``tunefree report`` and ``tunefree eval --html``: a page that says what a model is and does."""

from html import escape

import numpy as np

from tunefree.cli.applying import evaluate, load, matched_by_us, read_labelled
from tunefree.cli.console import FAILED, check_writable, failing, note, working
from tunefree.cli.inspecting import column_name, largest_weights
from tunefree.cli.page import ORANGE, bars, curves, grid, page
from tunefree.cli.rows import layout_told
from tunefree.io.atomic import write_atomically
from tunefree.io.model import describe_model

_MOST = 20
_BINS = 10


def run_report(model, data, output, **options):
    """Carry out ``tunefree report``.

    Parameters
    ----------
    model : str
        The model file.
    data : str or None
        Rows with targets to compare with.
    output : str or None
        The page; None is the model's name with ``.html``.
    **options
        For `tunefree.io.read`.
    """
    output = output or f"{model}.html"
    check_writable(output)
    estimator, notes = load(model)
    table = None if data is None else read_labelled(estimator, notes, data, options)
    write_page(output, model, estimator, notes, data, table)


def write_page(output, model, estimator, notes, data, table):
    """Write the page of a model, and of its predictions for a table if there is one."""
    with failing(FAILED, output), working("drawing"), matched_by_us():
        text = page(f"tunefree: {model}", sections(model, estimator, notes, data, table))
        write_atomically(output, [text.encode()])
    note(f"wrote {output}")


def sections(model, estimator, notes, data, table):
    """Headings and HTML of the page.

    Returns
    -------
    list of (str, str)
    """
    out = [("", _overview(model, estimator, notes))]
    out += _leaderboard(estimator)
    if table is not None:
        out += _scores(estimator, table, data)
    traces = getattr(estimator, "traces_", None) or _own_trace(estimator)
    if traces:
        lines = {name: (t["rows"].tolist(), t["risk"].tolist()) for name, t in traces.items()}
        text = "<p class=note>Every row was predicted before it was learned.</p>"
        drawn = curves(lines, "rows seen", "mean loss so far")
        out.append(("Risk over rows seen", text + drawn))
    return out + _columns(estimator, notes)


def _overview(model, estimator, notes):
    facts = describe_model(model)
    rows = [("estimator", facts["class"]), ("features", str(facts["n_features"]))]
    rows += layout_told(notes)
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        shown = ", ".join(map(str, classes[:12].tolist()))
        rows.append(("classes", shown + (", ..." if len(classes) > 12 else "")))
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return grid(("", ""), [*rows, ("written by", versions), ("sha256", facts["sha256"])])


def _leaderboard(estimator):
    board = getattr(estimator, "leaderboard_", [])
    if not board:
        return []
    report = getattr(estimator, "report_", None)
    if report is None:
        head = [name.replace("_", " ") for name in board[0]]
        return [("Leaderboard", grid(head, [list(row.values()) for row in board]))]
    head, *rows = report.table()
    kind = head[1]
    known = [r for r in board if r["risk"] is not None]
    risks = bars([(r["candidate"], r["risk"], r["risk_se"]) for r in known], f"{kind}, -+ 1 SE")
    unit = "passes" if report.seconds is None else "seconds"
    spent = [(r["candidate"], r[unit], None) for r in known]
    if unit == "seconds":
        spent.append(("last fit, on all rows", report.refit_seconds, None))
    why = f"<p>{escape(report.reason)}</p>"
    left = [f"{name}: {reason}" for name, reason in report.left_out.items()]
    why += f"<p class=note>Not suited: {escape('; '.join(left))}.</p>" if left else ""
    return [
        ("Leaderboard", grid(head, rows, chosen=0) + why + risks),
        ("Timing", bars(spent, unit, ORANGE) + f"<p>{escape(report.closing())}</p>"),
    ]


def _scores(estimator, table, data):
    scores = evaluate(estimator, table)
    out = [(f"Scores on {data}", grid(("score", "value"), list(scores.items())))]
    if getattr(estimator, "classes_", None) is None:
        predicted = np.asarray(estimator.predict(table.X), dtype=float)
        return [*out, ("Calibration", _means(predicted, table.y))]
    if not hasattr(estimator, "predict_proba"):
        return out
    p = np.asarray(estimator.predict_proba(table.X), dtype=float)
    said, right = p.max(axis=1), estimator.classes_[p.argmax(axis=1)] == table.y
    rows = [
        (float(said[b].mean()), float(right[b].mean()), int(len(b)))
        for b in np.array_split(np.argsort(said, kind="stable"), min(_BINS, len(said)))
    ]
    text = "<p class=note>Rows in tenths by the probability of the predicted class.</p>"
    drawn = curves(
        {"": ([r[0] for r in rows], [r[1] for r in rows])}, "probability said", "share right", True
    )
    head = ("probability said", "share right", "rows")
    return [*out, ("Calibration", text + drawn + grid(head, rows))]


def _means(predicted, y):
    rows = [
        (float(predicted[b].mean()), float(y[b].mean()), int(len(b)))
        for b in np.array_split(np.argsort(predicted, kind="stable"), min(_BINS, len(y)))
    ]
    text = "<p class=note>Rows in tenths by prediction: the two means should agree.</p>"
    return text + grid(("mean prediction", "mean target", "rows"), rows)


def _own_trace(estimator):
    trace = getattr(estimator, "trace_", {})
    if "rows" not in trace or "progressive_error" not in trace:
        return {}
    curves_ = dict(trace["progressive_error"])
    return {
        name: {"rows": np.asarray(trace["rows"]), "risk": np.asarray(curve)}
        for name, curve in curves_.items()
        if len(curve) == len(trace["rows"])
    }


def _columns(estimator, notes):
    """Largest weights, or relevances, and the size of the support."""
    out = []
    names = notes.get("feature_names")
    if hasattr(estimator, "largest"):
        kind, values = estimator.largest()
        first = 0 if notes.get("zero_based") is True else 1
        rows = [(column_name(name, names, first), value) for name, value in values.items()]
    else:
        kind = "weight"
        rows = [(r["feature"], r["weight"]) for r in largest_weights(estimator, names)]
    if rows:
        title = {"weight": "Largest weights", "relevance": "Most relevant columns"}[kind]
        unit = "weight" if kind == "weight" else "root mean squared derivative, relative"
        out.append((title, bars([(name, value, None) for name, value in rows[:_MOST]], unit)))
    model = getattr(estimator, "model_", estimator)
    count = next((len(getattr(model, name)) for name in ("support_", "dual_coef_")
                  if hasattr(model, name)), None)  # fmt: skip
    if count is not None:
        out.append(("Support", f"<p>The predictor is a sum of {count} kernel functions.</p>"))
    return out
