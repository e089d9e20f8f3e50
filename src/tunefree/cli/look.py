"""``tunefree look``: what is read from a file, and what a person should know before any fit."""

import json
import warnings
from typing import Any

import numpy as np

from tunefree.cli.console import BAD_DATA, answer, failing, working
from tunefree.cli.reading import cells_of, reading_of
from tunefree.cli.report import print_grid, print_table
from tunefree.cli.rows import (
    check_classes,
    column_label,
    columns_of,
    hints,
    layout_of,
    named,
    open_data,
    read_table,
    skip_hint,
    skipped_of,
    why_not_learned,
    with_schema,
    words_of_bad,
)
from tunefree.cli.train import guess_and_advise, read_schema
from tunefree.core.format import duration
from tunefree.core.process import amount
from tunefree.core.registry import estimator_class
from tunefree.core.warn import DataWarning
from tunefree.files.files import DataError, Named, chunks, detected, name_of
from tunefree.files.mixed import TABLES, mixed_parts
from tunefree.rows.checks import are_sorted
from tunefree.rows.schema import BadCells

# Of data that are too large for memory so many bytes are looked at.
_PART = 8 << 20
# Columns that are printed, and classes.
_MOST_PRINTED, _MOST_CLASSES = 60, 5


def run_look(options):
    """Carry out ``tunefree look``; `options` is a `LookOptions`."""
    facts = look_at(options)
    if options.json:
        answer(json.dumps(facts))
        return
    _print_look(facts)


def look_at(options):
    """What is read from a file and found in it, as plain values."""
    data, skipped = options.data, skipped_of(options)
    given = None if options.schema is None else read_schema(options.schema)
    reading: dict[str, Any] = columns_of(options) | {"drop": options.drop or ()}
    reading["skipped"] = skipped
    with (
        failing(BAD_DATA, data),
        working(f"reading {data}"),
        hints(None, skip_hint(skipped)),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", DataWarning)
        source, is_large = open_data(data)
        table, whole = _first_part(source, reading, given) if is_large else (None, True)
        if table is None:
            table = read_table(source, None, reading, given=given)
    facts: dict[str, Any] = {"file": data, "rows": table.X.shape[0], "whole": whole}
    facts |= reading_of(table, options.format, table.X.shape[1])
    del facts["more_columns"]
    facts["features"] = table.X.shape[1]
    facts["skipped"] = _skipped(skipped)
    facts["notes"] = list(table.notes)
    target: Any = None
    findings, fit = [], None
    with failing(BAD_DATA, data), working("looking"):
        obstacle = _obstacle(table)
        if table.y is not None and len(table.y):
            target = _target(table)
        if obstacle is None:
            findings, fit, obstacle = _before_a_fit(table, target["task"], given)
    facts |= {"target": target, "fit": fit, "obstacle": obstacle}
    facts["findings"] = findings
    return facts


def _first_part(source, reading, given):
    """The first part of data that are too large for memory, and that this is not all of them."""
    kind, source = detected(source, reading.get("format"))
    if kind == "libsvm":
        text = b""
        for piece in chunks(source):
            text += piece
            if len(text) >= _PART:
                break
        lines = Named(name_of(source), [text[: text.rfind(b"\n") + 1]])
        return read_table(lines, None, {**reading, "format": kind}, given=given), False
    if kind not in TABLES:
        return None, True
    table = next(mixed_parts(source, part=_PART, **reading))
    return with_schema(table, table.X.column_names, given), False


def _skipped(skipped):
    """How many rows would be skipped, and the first of each kind."""
    return {
        "malformed": skipped.count,
        "first_malformed": skipped.first and str(skipped.first),
        "without_target": skipped.n_unlabelled,
        "first_without_target": skipped.first_unlabelled and str(skipped.first_unlabelled),
    }


def _obstacle(table):
    """Why nothing can be learned; None if something can."""
    if words := why_not_learned(table):
        return words
    try:
        check_classes(table.y, table.path)
    except DataError as problem:
        return str(problem)
    return None


def _target(table):
    """The column that is predicted, and the task that is guessed from it."""
    y = table.y
    task, reason = guess_and_advise(y)
    levels, counts = np.unique(y, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_CLASSES].tolist()
    found = {
        "column": None if table.target is None else column_label(table.target),
        "task": task,
        "reason": reason,
        "cells": cells_of(y),
        "distinct": len(levels),
    }
    if task == "classification":
        found["classes"] = {cells_of(levels[[i]])[0]: int(counts[i]) for i in order}
    else:
        found |= {"least": float(y.min()), "median": float(np.median(y)), "most": float(y.max())}
    return found


def _before_a_fit(table, task, given):
    """What the estimator finds before it fits, its time and memory, and why it would not fit."""
    kind = "Classifier" if task == "classification" else "Regressor"
    estimator = estimator_class(f"TuneFree{kind}")(random_state=0, schema=given)
    X, y = table.X, table.y
    notes = layout_of(table, task, len(y), X.shape[1], table.zero_based)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            plan, found = estimator._look(X, y, table.weight)
        except ValueError as problem:
            return [], None, named(str(problem), notes)
    findings = [
        words_of_bad(message.found, table)
        if isinstance(message, BadCells)
        else named(str(message), notes)
        for message in found
    ]
    if are_sorted(y, task == "classification"):
        words = "The rows are sorted by the target: shuffle them before some are kept for a test."
        findings.append(words)
    cost = plan.expected
    return findings, {"seconds": round(cost.seconds, 1), "bytes": int(cost.bytes)}, None


# --- What is printed ------------------------------------------------------------------------------


def _print_look(facts):
    """Print what was found as tables."""
    rows = f"{facts['rows']:,}" + ("" if facts["whole"] else ", the first of a large file")
    lines = [("file", facts["file"]), ("read as", facts["written"]), ("rows", rows)]
    lines.append(("features", str(facts["features"])))
    lines += _target_lines(facts["target"])
    lines += [("skipped", words) for words in _skipped_words(facts["skipped"])]
    if facts["fit"] is not None:
        seconds, size = duration(facts["fit"]["seconds"]), amount(facts["fit"]["bytes"])
        lines.append(("a fit takes", f"at most about {seconds}, and {size} besides the data"))
    if facts["obstacle"] is not None:
        lines.append(("no fit", facts["obstacle"]))
    print_grid(lines)
    columns = facts["columns"]
    print_table("columns", [_column_line(row) for row in columns[:_MOST_PRINTED]])
    if len(columns) > _MOST_PRINTED:
        answer(f"... and {len(columns) - _MOST_PRINTED} more columns: see --json")
    for words in [*facts["notes"], *facts["findings"]]:
        answer(f"note: {words}")


def _target_lines(target):
    """Titles and texts about the target."""
    if target is None:
        return []
    lines = [("target", target["column"])] if target["column"] else []
    lines.append(("task", f"{target['task']} ({target['reason']})"))
    if "classes" in target:
        more = ", ..." if target["distinct"] > len(target["classes"]) else ""
        shares = ", ".join(f"{name} ({n} rows)" for name, n in target["classes"].items())
        lines.append(("classes", shares + more))
    return lines


def _skipped_words(skipped):
    """What would be skipped, in words."""
    words = []
    for kind, title in (("malformed", "malformed"), ("without_target", "without a target")):
        if n := skipped[kind]:
            first = skipped[f"first_{kind}"]
            rows = "1 row" if n == 1 else f"{n} rows"
            words.append(f"{rows} {title}" + (f", the first: {first}" if first else ""))
    if skipped["malformed"]:
        words[0] += "; other commands need --on-bad-row skip"
    return words


def _column_line(row):
    """A column as a line of the table."""
    return {
        "column": row["column"],
        "holds": row["holds"],
        "cells": " | ".join(row["cells"]),
        "missing": str(row["missing"] or ""),
    }
