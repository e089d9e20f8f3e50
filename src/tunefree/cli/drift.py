"""``tunefree drift``: the distribution of new rows against that of the training, without labels."""

import json
import warnings
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import typer

from tunefree.cli.apply import (
    bad_options,
    feature_names,
    is_stream,
    load,
    matched_by_us,
    read_tables,
    stream_columns,
)
from tunefree.cli.console import BAD_DATA, DRIFT, USAGE, answer, failing, note, stop, working
from tunefree.cli.drift_sparse import SparseNames, columns_like, reference_columns
from tunefree.cli.drift_streams import columns_of_cells
from tunefree.cli.rows import (
    REFERENCE,
    column_name,
    columns_of,
    of_formula,
    split_role_columns,
)
from tunefree.core.format import number
from tunefree.engine.sources import RowSample, widened
from tunefree.files.files import DataError
from tunefree.rows.matrices import stacked
from tunefree.rows.schema import BadCells, read_columns, typed
from tunefree.streams.rows import is_of_date
from tunefree.uncertainty.drift import STABILITY, DriftReference

# Rows of a training that are kept as quantiles, rows that are predicted, and most columns.
_MOST_ROWS, _MOST_PREDICTED, MOST_COLUMNS = 20_000, 2000, 200
_MOST_COLLECTED = 200_000  # rows of a check


def run_drift(options):
    """Carry out ``tunefree drift``; `options` is a `DriftOptions`."""
    estimator, notes = load(options.model)
    if options.reference is None:
        reference = reference_in(notes)
        if reference is None:
            stop(f"{options.model} keeps no training rows to compare with: {_WAY_OUT}", USAGE)
    else:
        rows = _collected(estimator, notes, options.reference, options)
        reference = DriftReference.of(rows.columns(), rows.predictions(), held_out=True)
    rows = _collected(estimator, notes, options.data, options)
    report = rows.report(reference, options.threshold)
    if options.page is not None:
        from tunefree.cli.drift_page import write_drift_page

        given = options.model, options.data, reference, rows, report, options.threshold
        write_drift_page(options.page, *given)
    answer(json.dumps(as_json(report)) if options.json else as_text(report))
    if report.drifts:
        stop_for(report)


_WAY_OUT = "give --reference FILE with rows of the training, or better with rows held out of it"


def stop_for(report):
    """End with the exit code for drift."""
    names = [one.column for one in report.columns if one.drifts]
    names += ["the predictions"] if report.predictions and report.predictions.drifts else []
    note(f"drift: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}")
    raise typer.Exit(DRIFT)


def reference_in(notes):
    """The `DriftReference` that a model file keeps, or None."""
    return DriftReference(notes[REFERENCE]) if REFERENCE in notes else None


def notes_of_reference(estimator, table, notes):
    """The note about the rows of a table that was learned."""
    X = of_formula(table).X if "of_formula" in notes else table.X
    return notes_of_rows(estimator, X, notes)


def notes_of_rows(estimator, X, notes):
    """The note about rows that were learned; none for many columns that are not sparse."""
    is_sparse = hasattr(X, "tocsr")
    if X.shape[1] > MOST_COLUMNS and not is_sparse:
        return {}
    X = _some(X.tocsr() if is_sparse else X, _MOST_ROWS)
    names = [column_name(f"x{j}", notes) for j in range(X.shape[1])]
    names = list(getattr(X, "column_names", names))
    schema = getattr(estimator, "schema_", None)
    if schema is not None and not is_sparse and "of_formula" not in notes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BadCells)  # the fit has counted them
            X = typed(schema, read_columns(schema, X))
    predicted = None
    if not notes.get("beside"):  # of rows that were learned: an index, and no test
        predicted = predicted_values(estimator, _some(X, _MOST_PREDICTED), {})
        predicted = predicted if np.ndim(predicted) == 1 else None
    if is_sparse:
        columns = reference_columns(X, SparseNames.of(notes))
    else:
        columns = _arrays(X, names)
    return {REFERENCE: DriftReference.of(columns, predicted).as_dict()}


def row_sample():
    """The sample of rows that becomes the reference."""
    return RowSample(_MOST_ROWS, MOST_COLUMNS)


def notes_of_sample(estimator, source, notes):
    """The note about the rows of a source that was learned."""
    sample = source.sample
    if sample.n_seen < source.rows:  # resumed from a checkpoint that lacks a sample
        return {}
    X = sample.rows()
    if X is None:
        return {}
    X = widened(X, estimator.n_features_in_) if hasattr(X, "tocsr") else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return notes_of_rows(estimator, X, notes)


def notes_of_stream(estimator, rows):
    """The note about a sample of the rows of a stream; none for many columns."""
    every = estimator.columns_
    names = [name for name in stream_columns(estimator) if not is_of_date(name, every)]
    if not rows or len(names) > MOST_COLUMNS:
        return {}
    columns = columns_of_cells({name: [x.get(name) for x in rows] for name in names})
    predicted = predicted_values(estimator, rows, {})
    return {REFERENCE: DriftReference.of(columns, predicted).as_dict()}


def _some(X, most):
    """At most so many rows, evenly spaced."""
    rows = np.arange(X.shape[0])[:: -(-X.shape[0] // most)]
    return X.take(pa.array(rows)) if hasattr(X, "column_names") else X[rows]


class CollectedRows:
    """Rows of which the columns and the predictions are compared; they may come in parts."""

    def __init__(self, estimator, notes):
        self.estimator, self.notes, self.n = estimator, notes, 0
        self.sparse = SparseNames.of(notes)
        self.parts: list[Any] = []

    def add(self, X, predicted):
        """Add some rows, and the numbers or classes predicted for them."""
        if self.n >= _MOST_COLLECTED:
            return
        if hasattr(X, "tocsr"):
            rows: Any = X.tocsr()
        else:  # of a stream cells as they are
            rows = X if is_stream(self.estimator) else _arrays(X, self._names(X))
        self.parts.append((rows, np.asarray(predicted)))
        self.n += X.shape[0]

    def columns(self, reference=None):
        """The values of each column; of sparse rows those in a reference, if one is given."""
        parts = [rows for rows, _ in self.parts]
        if not parts:
            return {}
        if hasattr(parts[0], "column_names"):
            X = _some(pa.concat_tables(parts, promote_options="permissive"), _MOST_ROWS)
            known = None if reference is None else reference.facts["columns"]
            return columns_of_cells(X.to_pydict(), known)
        if not hasattr(parts[0], "tocsr"):
            return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        X = _some(stacked(parts), _MOST_ROWS)
        if reference is None:
            return reference_columns(X, self.sparse)
        return columns_like(reference, X, self.sparse)

    def predictions(self):
        """The predictions; None for several of each row."""
        found = np.concatenate([predicted for _, predicted in self.parts])
        return found if found.ndim == 1 else None

    def report(self, reference, threshold):
        """The `DriftReport`."""
        columns = self.columns(reference)
        return reference.compare(columns, self.predictions(), threshold=threshold)

    def _names(self, X):
        names = list(getattr(X, "column_names", ()))
        return names or feature_names(self.estimator, self.notes)


class CheckedRows(NamedTuple):
    """The rows of ``predict --check``, and what they are compared with."""

    rows: CollectedRows
    reference: DriftReference

    @classmethod
    def of(cls, estimator, notes, model):
        """Of a model file; stops if it keeps nothing to compare with."""
        reference = reference_in(notes)
        if reference is None:
            stop(f"{model} keeps no training rows to compare with: see tunefree drift", USAGE)
        return cls(CollectedRows(estimator, notes), reference)

    def add(self, X, roles):
        """Add some rows."""
        self.rows.add(X, predicted_values(self.rows.estimator, X, roles))

    def finish(self):
        """Print what was found; rows that drift end the command with its exit code."""
        if not self.rows.n:
            return
        report = self.rows.report(self.reference, STABILITY)
        note(as_text(report))
        if report.drifts:
            stop_for(report)


def _collected(estimator, notes, data, options):
    """The rows of a file."""
    rows = CollectedRows(estimator, notes)
    reading: Any = columns_of(options) | bad_options(options)
    for table in read_tables(estimator, notes, data, labelled=False, **reading):
        with failing(BAD_DATA, data), working("comparing"):
            X, roles = split_role_columns(table.X, notes.get("beside"))
            rows.add(X, predicted_values(estimator, X, roles))
    if not rows.n:
        with failing(BAD_DATA, data):
            raise DataError("the file has no rows", data)
    return rows


def predicted_values(estimator, X, roles):
    """Numbers, the probability of the second of two classes, or classes."""
    with matched_by_us():
        if len(getattr(estimator, "classes_", ())) == 2 and hasattr(estimator, "predict_proba"):
            return estimator.predict_proba(X, **roles)[:, 1]
        return estimator.predict(X, **roles)


def _arrays(X, names):
    """Columns as arrays by name; without dates and durations, which differ by nature."""
    if not hasattr(X, "column_names"):
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        return dict(zip(names, X.T, strict=True))
    found = {}
    for name, column in zip(names, X.columns, strict=True):
        kind = column.type
        if pa.types.is_temporal(kind) or pa.types.is_null(kind):
            continue
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            cells = column.to_numpy(zero_copy_only=False) if not column.null_count else None
            found[name] = _floats(column.to_pylist()) if cells is None else cells.astype(float)
        else:
            found[name] = np.array([*column.to_pylist(), None], dtype=object)[:-1]
    return found


def _floats(cells):
    return np.array([np.nan if cell is None else float(cell) for cell in cells])


# --- What is printed ------------------------------------------------------------------------------


def as_json(report):
    """A report as plain values."""
    of_predictions = report.predictions
    return {
        "drift": report.drifts,
        "rows": report.rows,
        "outside": report.outside,
        "columns": [one._asdict() for one in report.columns],
        "predictions": None if of_predictions is None else of_predictions._asdict(),
        "absent": report.absent,
    }


def as_text(report):
    """A report as a table, the largest index first."""
    width = max([10, *(len(str(one.column)) for one in report.columns)])
    lines = [f"{'column':{width}} {'index':>10} {'p-value':>10} {'outside':>10}  drifts"]
    rows = sorted(report.columns, key=lambda one: -one.index)
    for one in [*rows, *([] if report.predictions is None else [report.predictions])]:
        p = "" if one.p_value is None else number(one.p_value)
        outside = "" if one.outside is None else f"{one.outside:.1%}"
        cells = f"{number(one.index):>10} {p:>10} {outside:>10}"
        lines.append(f"{one.column:{width}} {cells}  {'yes' if one.drifts else ''}".rstrip())
    lines.append(f"{report.outside:.1%} of {report.rows} rows have a value outside the ranges")
    if report.absent:
        lines.append(f"absent: {', '.join(report.absent)}")
    return "\n".join(lines)
