"""The page of ``tunefree drift``: which columns drift, and how their shares have moved."""

import datetime

from tunefree.cli.console import FAILED, failing, note, working
from tunefree.cli.drawing import number
from tunefree.cli.figures import Figure, PageTable, compared_shares
from tunefree.cli.page import Section, Words, rendered
from tunefree.files.files import write_atomically

# Columns whose distributions are drawn.
_MOST_DRAWN = 8


def write_drift_page(output, model, data, reference, rows, report, threshold):
    """Write the page of a `DriftReport` of some `CollectedRows`."""
    with failing(FAILED, output), working("drawing"):
        page = rendered(
            title=f"Drift of {data}: {model}",
            top=_top(report, threshold),
            sections=[
                _table(report),
                *_distributions(reference, rows, report),
                _about(model, data, report, threshold),
            ],
        )
        write_atomically(output, [page.encode(errors="replace")])
    note(f"wrote {output}")


def _top(report, threshold):
    """What was found, in a sentence or two."""
    names = [one.column for one in report.columns if one.drifts]
    if report.predictions is not None and report.predictions.drifts:
        names.append("the predictions")
    if names:
        words = f"Drift: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}."
    else:
        words = f"No drift: no column has an index above {threshold:g} and a small p-value."
    words += f" {report.outside:.1%} of {report.rows} rows have a value outside the ranges."
    found = [Words(words, "verdict")]
    if report.absent:
        found.append(Words(f"Columns that the rows lack: {', '.join(report.absent)}.", "warning"))
    return found


def _table(report):
    """Index, p-value and share outside of each column, the largest index first."""
    every = sorted(report.columns, key=lambda one: -one.index)
    every += [] if report.predictions is None else [report.predictions]
    lines = [
        (
            one.column,
            number(one.index),
            "" if one.p_value is None else number(one.p_value),
            "" if one.outside is None else f"{one.outside:.1%}",
            "yes" if one.drifts else "",
        )
        for one in every
    ]
    chosen = [k for k, one in enumerate(every) if one.drifts]
    head = "column", "index", "p-value", "outside the range", "drifts"
    bars = [one.index for one in every]
    words = "Index: the population stability index, 0 for equal shares. A column drifts if its "
    words += "index is above the threshold, and its p-value below .001 over the number of columns."
    return Section("Columns", PageTable(head, lines, chosen, bars), Words(words))


def _distributions(reference, rows, report):
    """The shares of the training and of the new rows: predictions, and the largest indices."""
    columns, drawn = rows.columns(reference), []
    if report.predictions is not None:
        drawn.append(_figure("prediction", reference.shares(None, rows.predictions())))
    for one in sorted(report.columns, key=lambda one: -one.index)[:_MOST_DRAWN]:
        drawn.append(_figure(one.column, reference.shares(one.column, columns[one.column])))
    drawn = [figure for figure in drawn if figure is not None]
    words = "Shares of the rows in tenths of the training's values, or of its levels."
    return [Section("Distributions", Words(words), *drawn)] if drawn else []


def _figure(name, found):
    """The shares of one column as bars; None if there are none."""
    if found is None:
        return None
    labels, before, now = found
    svg = compared_shares([_label(label) for label in labels], before, now)
    return Figure(f"{name}: shares in the training, and now", svg)


def _label(label):
    """A level, or the ends of a tenth."""
    if not isinstance(label, tuple):
        return f"{label:.4g}" if isinstance(label, float) else str(label)
    low, high = label
    if low is None:
        return f"up to {high:.4g}"
    return f"above {low:.4g}" if high is None else f"{low:.4g} to {high:.4g}"


def _about(model, data, report, threshold):
    """What was compared."""
    facts = [
        ("model", str(model)),
        ("rows", f"{report.rows} of {data}"),
        ("threshold of the index", f"{threshold:g}"),
        ("page written", datetime.date.today().isoformat()),
    ]
    return Section("About", PageTable((), facts))
