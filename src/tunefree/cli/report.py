"""``tunefree inspect``: the contents of a model file, as text or JSON."""

import json

import numpy as np

from tunefree.cli.apply import feature_names, is_stream, load
from tunefree.cli.console import BAD_MODEL, answer, failing, shown
from tunefree.cli.reading import findings_of
from tunefree.cli.rows import column_label, describe_kinds
from tunefree.core.format import number
from tunefree.files.model import describe_model
from tunefree.rows.columns import DATE, NUMBER, TEXT
from tunefree.rows.kinds import ColumnKind
from tunefree.rows.schema import Schema
from tunefree.streams.rows import is_of_date

_MOST_PRINTED = 10  # columns, those with the largest weights
_MOST_PARTS, _LEAST_PART = 4, 5.0  # of a file, and their least share in percent
_LONG = (
    "feature_names",
    "sample",
    "reading",
    "drift_reference",
    "user",
)  # notes that are not printed, or by themselves


# --- tunefree inspect -----------------------------------------------------------------------------


def run_inspect(options):
    """Carry out ``tunefree inspect``; `options` is an `InspectOptions`."""
    estimator, notes = load(options.model)
    if options.schema:
        answer(json.dumps(schema_of(estimator, notes).as_dict(), indent=1, ensure_ascii=False))
        return
    facts = _collect(options.model, estimator, notes, every=options.json)
    if options.json:
        answer(json.dumps(facts, default=str))
        return
    _print_facts(facts)
    columns = facts["columns"]
    if facts["notes"]:  # which are printed below
        columns = [{"column": row["column"], "holds": row["holds"]} for row in columns]
    print_table("columns", columns)
    candidates, title = facts["leaderboard"], "progressive validation"
    report = getattr(estimator, "report_", None)
    if report is not None:
        head, *rows = report.table()
        candidates = [dict(zip(head, row, strict=True)) for row in rows]
        title = "validation on held-out rows"
    print_table(title, candidates)
    if facts["coefficients"] is not None:
        answer(str(table_of(estimator, notes)))
        answer("")
    weights = facts["largest_weights"]
    is_stack = weights and "relevance" in weights[0]
    print_table("most important columns" if is_stack else "largest weights", weights)
    for words in facts["notes"]:
        answer(f"note: {words}")


def _collect(path, estimator, notes, every):
    """The contents of a model file, as plain values; `every`: also of columns of plain numbers."""
    with failing(BAD_MODEL, path):
        facts = describe_model(path)
    del facts["notes"]
    classes, report = getattr(estimator, "classes_", None), getattr(estimator, "report_", None)
    parameters = {name: repr(value) for name, value in estimator.get_params(deep=False).items()}
    return facts | {
        "user_notes": notes.get("user", {}),
        "data": {k: value for k, value in notes.items() if k not in _LONG},
        "parameters": parameters,
        "columns": describe_columns(schema_of(estimator, notes), every),
        "notes": findings_of(estimator, notes),
        "classes": None if classes is None else classes.tolist(),
        "verdict": None if report is None else " ".join(report.judgement()),
        "leaderboard": getattr(estimator, "leaderboard_", []),
        "largest_weights": largest_weights(estimator, notes, _MOST_PRINTED),
        "coefficients": _as_facts(table_of(estimator, notes)),
    }


def table_of(estimator, notes):
    """The table of coefficients of a GLM, why it has none, or None of other models."""
    if getattr(estimator, "likelihood_", None) is None:
        return None
    try:
        return estimator.summary(reference=notes.get("reference"))
    except ValueError as problem:
        return f"No table of coefficients: {problem}"


def _as_facts(table):
    """A table of coefficients as plain values."""
    if table is None or isinstance(table, str):
        return table
    columns = {heading: values.tolist() for heading, values in table.columns().items()}
    found: dict = {"names": table.names} | columns
    if table.statistics is not None:
        found |= table.statistics._asdict()
    return found | {"reference": table.reference, "note": table.note}


def schema_of(estimator, notes):
    """What the columns of a model are."""
    schema = getattr(estimator, "schema_", None)
    names = feature_names(estimator, notes)
    if is_stream(estimator):
        return Schema(tuple(names), tuple(_kind_in_stream(name, estimator) for name in names))
    return Schema.of_sparse(names) if schema is None else schema._replace(names=tuple(names))


def _kind_in_stream(name, estimator):
    """What a column of a stream holds."""
    if is_of_date(name, estimator.columns_):
        return ColumnKind(DATE)
    return ColumnKind(NUMBER if name in estimator.columns_ else TEXT)


def describe_columns(schema, every=False):
    """The columns that are more than plain numbers (or all) and how they are written, as dicts.

    >>> schema = Schema.of(np.array([["7%", "red"], ["8%", "blue"]], dtype=object))
    >>> [row["column"] for row in describe_columns(schema)]
    ['x0', 'x1']
    """
    rows = []
    for name, column in zip(schema.names, schema.columns, strict=True):
        words = column.words()
        if every or words not in ("number", "number (whole numbers)"):
            rows.append({"column": name, "holds": words, "note": column.note or ""})
    return rows


def overview(facts, notes, classes, most=None):
    """Titles and texts: the estimator, its data and classes, versions and checksum."""
    rows = [("estimator", facts["class"]), ("features", str(facts["n_features"]))]
    rows += describe_data(notes)
    if classes is not None:
        more = ", ..." if len(classes[:most]) < len(classes) else ""
        rows.append(("classes", ", ".join(map(str, classes[:most])) + more))
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return [*rows, ("written by", versions), ("sha256", facts["sha256"])]


def describe_data(notes):
    """Titles and texts about the data of a model."""
    rows = [(name, str(notes[name])) for name in ("task", "rows", "nonzeros") if name in notes]
    if kinds := describe_kinds(notes):
        rows.append(("columns", kinds))
    if notes.get("gaps"):
        rows.append(("missing values", str(notes["gaps"])))
    if notes.get("target"):
        rows.append(("target", column_label(notes["target"])))
    return rows


def largest_weights(estimator, notes, most):
    """The features of the largest weights, by decreasing effect, as dicts.

    The effect is the weight times the standard deviation of the column, if `train` noted that. The
    keys are ``feature``, ``weight`` and, with several outputs, ``output``. For a stack they are
    ``feature``, ``relevance``, ``levels`` (the most important ones of a category) and, if it is
    known, ``importance``: the permutation importance on held-out rows. Empty without weights.
    """
    if len(getattr(estimator, "encoded_relevances_", ())):
        return _relevances(estimator, feature_names(estimator, notes), most)
    if not hasattr(estimator, "coef_"):
        return []
    names, outputs = feature_names(estimator, notes), getattr(estimator, "classes_", None)
    weights = np.atleast_2d(estimator.coef_)
    if weights.shape[1] != len(names):  # a column of categories has a weight for every level
        names = getattr(estimator, "coef_names_", names)
    best, sizes, rows = np.abs(weights).argmax(axis=0), np.abs(weights).max(axis=0), []
    if len(notes.get("spread") or ()) == len(sizes):
        sizes = sizes * np.array(notes["spread"])
    for j in np.argsort(-sizes, kind="stable")[:most].tolist():
        rows.append({"feature": names[j], "weight": float(weights[best[j], j])})
        if len(weights) > 1:
            k = int(best[j])
            rows[-1]["output"] = k if outputs is None else outputs.tolist()[k]
    return rows


def _relevances(estimator, names, most):
    """The most important columns of a stack, as dicts."""
    each, rows = estimator.feature_relevances_, []
    of_levels = np.flatnonzero(estimator.table_.kinds_ == "category").tolist()
    levels = dict(zip(of_levels, estimator.level_relevances_.values(), strict=True))
    importances = getattr(estimator, "permutation_importances_", None)
    for j in np.argsort(-each, kind="stable")[:most].tolist():
        words = _describe_levels(names[j], levels.get(j, {}))
        rows.append({"feature": names[j], "relevance": float(each[j]), "levels": words})
        if importances is not None:
            rows[-1]["importance"] = float(importances[j])
    return rows


def _describe_levels(name, levels):
    """The three most important levels of a column, with their shares."""
    best = sorted(levels.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name}={level} {share:.1%}" for level, share in best)


def _console():
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _print_facts(facts):
    """Print the facts about a model."""
    first, *rest = overview(facts, facts["data"], facts["classes"])
    parameters = ", ".join(f"{k}={v}" for k, v in facts["parameters"].items())
    rows = [first, ("parameters", parameters), *rest]
    rows += [(f"note: {name}", str(value)) for name, value in facts["user_notes"].items()]
    rows.insert(-1, ("file", f"{facts['bytes']} bytes, format {facts['format']}"))
    rows.insert(-1, ("space is taken by", words_of_parts(facts["parts"], facts["bytes"])))
    if facts["verdict"]:
        rows.append(("verdict", facts["verdict"]))
    print_grid(rows)


def words_of_parts(parts, size):
    """The parts of a model file that take most of its space.

    >>> words_of_parts({"models_[0], GLMClassifier": 700, "held_out_": 280, "table_": 10}, 1000)
    'models_[0], GLMClassifier: 70 %; held_out_: 28 %'
    """
    shares = {name: 100.0 * part / size for name, part in [*parts.items()][:_MOST_PARTS]}
    return "; ".join(f"{name}: {p:.0f} %" for name, p in shares.items() if p >= _LEAST_PART)


def print_grid(rows):
    """Print titles and texts, side by side."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for row in rows:
        table.add_row(*map(shown, row))
    _console().print(table)


def print_table(title, rows):
    """Print dicts as a table."""
    from rich import box
    from rich.table import Table

    if not rows:
        return
    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for name, value in rows[0].items():
        side = "right" if isinstance(value, float) else "left"
        table.add_column(name.replace("_", " "), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    _console().print(table)


def _cell(value):
    if value is None:
        return ""
    return number(value) if isinstance(value, float) else shown(str(value))
