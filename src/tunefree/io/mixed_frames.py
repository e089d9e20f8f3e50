"""Parquet and Arrow files whose columns may be anything, as pyarrow types them."""

import numpy as np

from tunefree.io import DataError
from tunefree.io.arrow import frame_batches, targets_of
from tunefree.io.cells import known, meant
from tunefree.io.layout import TARGET, WEIGHT, assign
from tunefree.io.mixed_rows import (
    Faults,
    cell_words,
    feature_order,
    table_of,
    target_words,
    weight_words,
)


def batches_of(source, path, format, whole, columns):
    """Tables of a parquet or Arrow file: (table, rows before it, layout)."""
    import pyarrow as pa

    start, layout = 0, None
    batches = frame_batches(source, format)
    if whole:
        found = list(batches)
        batches = [pa.Table.from_batches(found)] if found else []
    for batch in batches:
        names = batch.schema.names
        layout = layout or assign(names, len(names), (path,), **columns)
        yield batch, start, layout
        start += batch.num_rows


class Framed:
    """Checks tables that have types."""

    def __init__(self, path, kinds, skipped, target_type):
        self.path, self.kinds, self.skipped = path, kinds, skipped
        self.target_type = target_type

    def __call__(self, batch, start, layout):
        """A `Table` of some rows."""
        import pyarrow as pa
        from pyarrow import compute

        def at(row, position, words):
            named = f"{layout.describe(position)}: {words(str(batch.column(position)[row]))}"
            return DataError(f"row {start + row + 1}: {named}", self.path)

        faults = Faults(batch.num_rows, self.skipped, at)
        places, names = feature_order(layout)
        columns, kinds = [], []
        for k, place in enumerate(places):
            column, kind = self._typed(batch.column(place), layout.describe(place))
            wanted = (self.kinds and self.kinds[k]) or kind
            if kind == "text" and wanted != "text":
                column, bad = meant(known(column), wanted)
                faults.add(bad, place, cell_words(wanted, True))
            elif kind == "number" and wanted == "number":
                column = column.cast(pa.float64(), safe=False)
                infinite = compute.is_inf(column).fill_null(False).to_numpy(zero_copy_only=False)
                faults.add(infinite, place, cell_words("number", False))
            columns.append(column)
            kinds.append(wanted)
        y = weight = None
        if found := layout.find(TARGET):
            y = targets_of(batch, found.position, self.path, self.target_type)
            if y.dtype.kind == "f":
                faults.add(~np.isfinite(y), found.position, target_words)
        if found := layout.find(WEIGHT):
            weight = targets_of(batch, found.position, self.path, float)
            faults.add(~(weight >= 0.0), found.position, weight_words)
        return table_of(columns, names, kinds, y, weight, layout, self.path, faults.kept())

    def _typed(self, column, name):
        """A column of a type that we know, in one piece, and its kind."""
        import pyarrow as pa
        from pyarrow import types

        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            return column, "number"
        if types.is_boolean(kind):
            return column, "truth"
        if types.is_date(kind) or types.is_timestamp(kind):
            return column, "date"
        if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
            return column.cast(pa.string()), "text"
        words = f"{name} holds {kind}: neither numbers, text, truth values nor dates"
        raise DataError(words, self.path)
