"""``tunefree inspect``: what a model file holds."""

import json
import re

import numpy as np

from tunefree.cli.applying import load
from tunefree.cli.console import BAD_MODEL, answer, failing
from tunefree.cli.rows import layout_told
from tunefree.io.model import describe_model

MOST_WEIGHTS = 10


def collect(path):
    """Collect what there is to know about a model file.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    dict
        Plain values.
    """
    estimator, notes = load(path)
    with failing(BAD_MODEL, path):
        facts = describe_model(path)
    notes = facts.pop("notes")
    notes.pop("seconds", None)  # in the leaderboard
    names = notes.pop("feature_names", None)
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    classes = getattr(estimator, "classes_", None)
    first = 0 if notes.get("zero_based") is True else 1
    parameters = {name: repr(value) for name, value in estimator.get_params(deep=False).items()}
    return facts | {
        "data": notes,
        "parameters": parameters,
        "classes": None if classes is None else classes.tolist(),
        "leaderboard": getattr(estimator, "leaderboard_", []),
        "largest_weights": largest_weights(estimator, names, first),
    }


def largest_weights(estimator, names=None, first=1):
    """List the features with the largest weights.

    Parameters
    ----------
    estimator : estimator
        A model; without `coef_` the list is empty.
    names : sequence of str or None
        The features' names.
    first : int
        The number of the first feature where there are no names.

    Returns
    -------
    list of dict
        ``feature``, ``weight`` and, with several outputs, ``output``, by decreasing size.
    """
    if hasattr(estimator, "largest"):
        return _largest_columns(estimator, names, first)
    if not hasattr(estimator, "coef_"):
        return []
    weights = np.atleast_2d(estimator.coef_)
    outputs = getattr(estimator, "classes_", np.arange(len(weights)))
    best = np.abs(weights).argmax(axis=0)
    sizes = np.abs(weights).max(axis=0)
    rows = []
    for j in np.argsort(-sizes, kind="stable")[:MOST_WEIGHTS].tolist():
        name = str(names[j]) if names is not None else f"feature {j + first}"
        row = {"feature": name, "weight": float(weights[best[j], j])}
        rows.append(row | ({"output": outputs[best[j]].item()} if len(weights) > 1 else {}))
    return rows


def _largest_columns(estimator, names, first):
    """The same of an estimator that names its own columns; a kernel may give relevances."""
    kind, values = estimator.largest()
    return [
        {"feature": column_name(name, names, first), kind: value}
        for name, value in list(values.items())[:MOST_WEIGHTS]
    ]


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


def run_inspect(path, as_json):
    """Carry out ``tunefree inspect``.

    Parameters
    ----------
    path : str
        The model file.
    as_json : bool
        Whether to print a JSON object instead of tables.
    """
    facts = collect(path)
    if as_json:
        answer(json.dumps(facts, default=str))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    grid = Table.grid(padding=(0, 2))
    grid.add_row("estimator", facts["class"])
    grid.add_row("parameters", ", ".join(f"{k}={v}" for k, v in facts["parameters"].items()))
    grid.add_row("features", str(facts["n_features"]))
    for title, words in layout_told(facts["data"]):
        grid.add_row(title, words)
    if facts["classes"] is not None:
        grid.add_row("classes", ", ".join(map(str, facts["classes"])))
    versions = (f"{name} {version}" for name, version in facts["versions"].items())
    grid.add_row("written by", ", ".join(versions))
    grid.add_row("file", f"{facts['bytes']} bytes, format {facts['format']}")
    grid.add_row("sha256", facts["sha256"])
    console.print(grid)
    _print_rows(console, *_shown(facts["leaderboard"]))
    _print_rows(console, "largest weights", facts["largest_weights"])


def _shown(board):
    """Title and rows of a leaderboard, those of a race as briefly as its report has them."""
    if not board or "candidate" not in board[0]:
        return "progressive validation", board
    rows = []
    for row in board:
        cells = {"candidate": row["candidate"]}
        shown = {"risk": ".4g", "risk_se": ".2g", "log_loss": ".4g", "seconds": ".2f"}
        for name, form in shown.items():
            if any(r.get(name) is not None for r in board):
                value = row.get(name)
                cells[name] = "" if value is None else format(value, form)
        cells[""] = "chosen" if row["chosen"] else row["status"].replace("finished", "")
        rows.append(cells)
    return "validation on rows left out", rows


def _print_rows(console, title, rows):
    """Print a list of dicts as a table."""
    from rich import box
    from rich.table import Table

    if not rows:
        return
    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for name in rows[0]:
        number = isinstance(rows[0][name], float)
        table.add_column(
            name.replace("_", " "), justify="right" if number else "left", overflow="fold"
        )
    for row in rows:
        cells = (
            "" if v is None else f"{v:.5g}" if isinstance(v, float) else v for v in row.values()
        )
        table.add_row(*map(str, cells))
    console.print(table)
