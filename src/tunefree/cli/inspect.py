"""``tunefree inspect``: what a model file holds."""

import json
import re

import numpy as np

from tunefree.cli.apply import load
from tunefree.cli.console import BAD_MODEL, answer, failing
from tunefree.cli.data import layout_told
from tunefree.io.model import describe_model

_MOST = 10


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
    _print(console, facts["largest_weights"], "largest weights")


def _collect(path):
    """What there is to know about a model file, as plain values."""
    estimator, notes = load(path)
    with failing(BAD_MODEL, path):
        facts = describe_model(path)
    del facts["notes"]
    classes = getattr(estimator, "classes_", None)
    weights = largest_weights(estimator, notes, _MOST)
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


def largest_weights(estimator, notes, most):
    """The features of the largest weights, by decreasing size, as dicts.

    ``feature``, ``weight`` (an estimator that names its own columns may have a ``relevance``) and,
    with several outputs, ``output``; empty for a model without weights.
    """
    names = notes.get("feature_names")
    first = 0 if notes.get("zero_based") is True else 1
    if hasattr(estimator, "largest"):
        kind, values = estimator.largest()
        names = getattr(estimator, "feature_names_in_", None) if names is None else names
        return [{"feature": column_name(name, names, first), kind: value}
                for name, value in list(values.items())[:most]]  # fmt: skip
    if not hasattr(estimator, "coef_"):
        return []
    names = getattr(estimator, "feature_names_in_", None) if names is None else names
    weights, outputs = np.atleast_2d(estimator.coef_), getattr(estimator, "classes_", None)
    best, sizes, rows = np.abs(weights).argmax(axis=0), np.abs(weights).max(axis=0), []
    for j in np.argsort(-sizes, kind="stable")[:most].tolist():
        name = column_name(f"x{j}", names, first)
        rows.append({"feature": name, "weight": float(weights[best[j], j])})
        if len(weights) > 1:
            k = best[j] if outputs is None else outputs[best[j]]
            rows[-1]["output"] = k.item()
    return rows


def column_name(name, names, first):
    """The user's name of a column where the model knows a position only, such as x0.

    Examples
    --------
    >>> column_name("x0", None, 1), column_name("x1 is missing", ["age", "income"], 1)
    ('feature 1', 'income is missing')
    """
    found = re.fullmatch(r"x(\d+)( is missing)?", name)
    if not found:
        return name
    position, rest = int(found[1]), found[2] or ""
    return (f"feature {position + first}" if names is None else str(names[position])) + rest


def _race(board):
    """The leaderboard of a race as briefly as its report has it."""
    shown = {"risk": ".4g", "risk_se": ".2g", "log_loss": ".4g", "seconds": ".2f"}
    shown = {name: form for name, form in shown.items()
             if any(row.get(name) is not None for row in board)}  # fmt: skip
    return [
        {"candidate": row["candidate"]}
        | {name: "" if row.get(name) is None else format(row[name], form)
           for name, form in shown.items()}
        | {"": "chosen" if row["chosen"] else row["status"].replace("finished", "")}
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
            table.add_row(*row)
        console.print(table)
        return
    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for name, value in rows[0].items():
        side = "right" if isinstance(value, float) else "left"
        table.add_column(name.replace("_", " "), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*("" if v is None else f"{v:.5g}" if isinstance(v, float) else str(v)
                        for v in row.values()))  # fmt: skip
    console.print(table)
