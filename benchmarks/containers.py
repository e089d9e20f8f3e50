"""Whether predictions of the same table in any two containers are equal, bit for bit.

    python benchmarks/containers.py > docs/results/containers.txt

Each estimator learns a table of 60 rows in every container, and predicts it in every container. A
line is an estimator, a column the container that it learned; an entry counts the containers in
which its predictions are those of a fit and a prediction with pandas. The table has numbers and
truth values; text, money, dates, times, durations and gaps where the estimator takes them. Times
and durations have no type in some containers: these hold them as text. A stream learns the names of
columns with their text, and refuses rows of text without names.
"""

import inspect
import io
import warnings
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import csv, json

from tunefree.core.registry import ESTIMATORS, estimator_class

N = 60
WITH_DATES = ("BoostedTrees", "TuneFree", "TablePreprocessor")
WITH_TEXT = (*WITH_DATES, "GLM", "Stream")
OTHERS = ("DynamicsReflectron", "SharedReflectron")  # of targets and rows of another kind


def columns_of(name):
    """The columns of a table that an estimator takes, as values of Python."""
    rng = np.random.default_rng(0)
    start = datetime(2023, 5, 1)
    found = {
        "size": ((rng.normal(size=N) * 64).round() / 16.0).tolist(),
        "count": rng.integers(0, 50, N).tolist(),
        "new": (rng.random(N) < 0.5).tolist(),
    }
    if name.startswith(WITH_TEXT):
        found["city"] = rng.choice(["Rome", "Oslo", "Bern"], N).tolist()
        found["price"] = [f"${1000.0 + v:,.2f}" for v in rng.integers(0, 500, N)]
    if name.startswith(WITH_DATES):
        days = rng.integers(0, 400, N).tolist()
        found["day"] = [start + timedelta(days=day) for day in days]
        found["spent"] = [timedelta(minutes=11 * day) for day in days]
        found["at"] = [(start + timedelta(minutes=3 * day)).time() for day in days]
        found["size"][3] = found["city"][7] = found["day"][9] = None
    return found


def _as_text(columns):
    return {k: ["" if v is None else str(v) for v in values] for k, values in columns.items()}


def _objects(columns):
    out = np.empty((N, len(columns)), dtype=object)
    for j, values in enumerate(columns.values()):
        out[:, j] = values
    return out


def _rows(columns):
    return [list(row) for row in zip(*columns.values(), strict=True)]


def _categories(columns):
    frame = pd.DataFrame(columns)
    return frame.astype({"city": "category"}) if "city" in frame else frame


def _csv(columns):
    text = pd.DataFrame(_as_text(columns)).to_csv(index=False).encode()
    return csv.read_csv(io.BytesIO(text), csv.ReadOptions(use_threads=False))


def _json(columns):
    lines = pd.DataFrame(columns).assign(**_text_of_times(columns))
    text = lines.to_json(orient="records", lines=True, date_format="iso").encode()
    return json.read_json(io.BytesIO(text), json.ReadOptions(use_threads=False))


def _text_of_times(columns):
    return {k: v for k, v in _as_text(columns).items() if k in ("spent", "at", "day")}


CONTAINERS = {
    "pandas": pd.DataFrame,
    "objects": lambda c: pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in c.items()}),
    "nullable": lambda c: pd.DataFrame(c).convert_dtypes(),
    "category": _categories,
    "polars": pl.DataFrame,
    "Arrow": pa.table,
    "text": lambda c: pd.DataFrame(_as_text(c)),
    "dicts": lambda c: [dict(zip(c, row, strict=True)) for row in _rows(c)],
    "array": _objects,
    "lists": _rows,
    "csv": _csv,
    "JSON": _json,
}
UNNAMED = ("array", "lists")


def targets(name, columns):
    size = np.array([0.0 if v is None else v for v in columns["size"]])
    y = size + 2.0 * np.array(columns["new"]) + 0.5 * np.random.default_rng(1).normal(size=N)
    if name.endswith("Regressor"):
        return np.exp(0.1 * y) if "GLM" in name or "Reflectron" in name else y
    return (y > np.median(y)).astype(int)


def learned(name, rows, y):
    kind = estimator_class(name)
    quick = {"random_state": 0, "candidates": ("linear",), "max_iter": 20, "n_landmarks": 10}
    known = inspect.signature(kind).parameters
    model = kind(**{key: value for key, value in quick.items() if key in known})
    return (model.partial_fit if name.startswith("Stream") else model.fit)(rows, y)


def answer(model, rows):
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(rows))
    found = model.predict(rows) if hasattr(model, "predict") else model.transform(rows)
    return found.toarray() if hasattr(found, "toarray") else np.asarray(found)


def entry(name, made, y, container, expected):
    """How many containers give the bits of `expected`, of how many."""
    try:
        model = learned(name, made[container], y)
    except (ValueError, TypeError) as problem:
        return f"refused: {str(problem)[:40]}"
    equal = total = 0
    for other, rows in made.items():
        # Rows without names are not matched with a stream's names.
        if name.startswith("Stream") and (other in UNNAMED) != (container in UNNAMED):
            continue
        total += 1
        try:
            found = answer(model, rows)
        except (ValueError, TypeError):
            continue
        equal += np.array_equal(found, expected, equal_nan=True)
    return f"{equal}/{total}"


def main():
    warnings.simplefilter("ignore")
    print("Learned in:".ljust(28) + "".join(c.rjust(10) for c in CONTAINERS))
    for name in sorted(ESTIMATORS):
        if name in OTHERS:
            continue
        columns = columns_of(name)
        y = targets(name, columns)
        made = {container: make(columns) for container, make in CONTAINERS.items()}
        named = answer(learned(name, made["pandas"], y), made["pandas"])
        cells = []
        for container in CONTAINERS:
            expected = named
            if name.startswith("Stream") and container in UNNAMED:
                try:  # the names of columns are a part of what a stream learns
                    expected = answer(learned(name, made["array"], y), made["array"])
                except (ValueError, TypeError):
                    cells.append("refused")
                    continue
            cells.append(entry(name, made, y, container, expected))
        print(name.ljust(28) + "".join(cell.rjust(10) for cell in cells), flush=True)


if __name__ == "__main__":
    main()
