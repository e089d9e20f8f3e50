"""What was read from a file, as plain values: for ``look``, ``train``, ``inspect`` and the page."""

from typing import Any

import numpy as np
from scipy import sparse

from tunefree.cli.rows import column_name, named
from tunefree.files.files import FORMATS, format_of
from tunefree.rows.schema import Schema

# Columns that a model file and a page hold, cells of each, and letters of a cell.
_MOST_COLUMNS, _CELLS, _LETTERS = 200, 3, 24
# Rows among whose cells the different ones are looked for.
_MOST_ROWS = 1000


def reading_of(table, format=None, most=_MOST_COLUMNS) -> dict[str, Any]:
    """What was read: how the file is written, and its columns, the first `most` of them."""
    return {
        "written": written_as(table, format),
        "columns": columns_read(table, most),
        "more_columns": max(table.X.shape[1] - most, 0),
    }


def reading_of_source(layout, skipped):
    """The same of text that is learned while it is read: its columns are numbers."""
    return {
        "written": f"text: {layout.dialect.words()}",
        "columns": [],
        "more_columns": 0,
        "findings": list(layout.notes),
        "malformed": skipped.count,
        "without_target": skipped.n_unlabelled,
    }


def written_as(table, format=None):
    """The format of a table, and the dialect of text, in words."""
    if table.zero_based is not None:
        first = 0 if table.zero_based else 1
        return f"libsvm, whose first feature is {first}"
    if table.dialect is not None:
        return f"text: {table.dialect.words()}"
    return format or FORMATS.get(format_of(table.path) or "") or "a table"


def columns_read(table, most=None):
    """Of every feature: its name, what it holds, three cells, and how many are missing, as dicts.

    Of libsvm there are no single columns.
    """
    X = table.X
    if table.zero_based is not None or sparse.issparse(X):
        return []
    d = X.shape[1] if most is None else min(X.shape[1], most)
    if not hasattr(X, "column_names"):
        names = table_names(table)
        part, names = X[:, :d], names[:d]
        schema = Schema.of_numbers(part, names) or Schema.of(part, names)
        return [
            _facts(name, column, cells_of(x), 0)
            for name, column, x in zip(names, schema.columns, X.T, strict=False)
        ]
    names = X.column_names[:d]
    schema = Schema(tuple(names), table.schema.columns[:d])
    part = X.select(range(d))
    columns = zip(names, schema.columns, part.columns, table.gaps[:d], strict=True)
    return [_facts(name, column, cells_of(cells), gaps) for name, column, cells, gaps in columns]


def table_names(table):
    """The names of the features, or their numbers in the file."""
    if table.feature_names is not None:
        return list(map(str, table.feature_names))
    slots = np.arange(table.X.shape[1]) if table.slots is None else table.slots
    places = np.flatnonzero(slots >= 0)
    places = places[np.argsort(slots[places], kind="stable")].tolist()
    return [column_name("x0", {"positions": [place]}) for place in places]


def _facts(name, column, cells, n_missing):
    """What is known of a column."""
    return {
        "column": name,
        "kind": column.kind,
        "holds": column.words(),
        "cells": cells,
        "missing": n_missing,
        "note": column.note or "",
    }


def cells_of(cells):
    """The first different cells of a column, as text.

    >>> cells_of(np.array([2.0, 2.0, 1.5]))
    ['2', '1.5']
    """
    head = cells[:_MOST_ROWS]
    values = head.to_pylist() if hasattr(head, "to_pylist") else head.tolist()
    found: dict[str, None] = {}
    for value in values:
        if value is not None and len(found) < _CELLS:
            found[_shortened(value)] = None
    return list(found)


def _shortened(value):
    """A cell as text that is not long."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    words = " ".join(str(value).split())
    return words if len(words) <= _LETTERS else words[: _LETTERS - 3] + "..."


# --- of a model -----------------------------------------------------------------------------------


def findings_of(estimator, notes):
    """The sentences about the data of a model: those of ``train``, or of `fit` in Python."""
    if "reading" in notes:
        return list(notes["reading"].get("findings", []))
    report = getattr(estimator, "report_", None)
    return [] if report is None else [named(words, notes) for words in report.notes]
