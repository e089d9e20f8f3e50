"""Files as people have them: looked at, trained, evaluated, reported and predicted from the shell.

python benchmarks/files.py --data DIR [--only NAME ...] [--records N] [--budget TIME]
                           [--without peer report ...] [--cache FILE] [--page FILE]

`files.csv` lists the files, their targets, and what is odd in them. Three quarters of the records
of each, drawn at random, are learned, with the header, the delimiters, the quotes and the ends of
lines of the file. The others are tested, and predicted once more without the target's column: the
predictions must be equal. ``--records`` takes at most so many, and ``--budget`` is an option of
`tunefree train`. The commands run in one process, so that imports do not count.

Ours: R2 of numbers, log-loss of classes, on the rows that were held out. CatBoost: the same rows,
read by our schema: numbers, dates as their parts, categories and text as categories; defaults but
for 300 iterations. An interrupted run with ``--cache FILE`` goes on where it stopped. ``--page
docs/results/files.csv`` writes the table of the page docs/field.md; files that were not run have no
scores there.
"""

import argparse
import contextlib
import csv
import json
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from _files import Records
from _tables import console, table
from tunefree.cli import app
from tunefree.cli.rows import describe_kinds
from tunefree.files.files import Skipped
from tunefree.files.mixed import read_mixed
from tunefree.files.model import describe_model
from tunefree.rows.columns import CATEGORY, DATE, TEXT
from tunefree.rows.schema import Schema, read_columns

LIST = Path(__file__).with_name("files.csv")
ITERATIONS, LEAST = 300, 1e-6
PARTS = ("eval", "report", "predict", "peer")


def main():
    options = arguments()
    files = [row for row in listed() if not options.only or row["file"] in options.only]
    found = known(options.cache)
    for row in files:
        path = Path(options.data, row["file"])
        if not path.exists():
            console.print(f"{row['file']}: skipped, there is no {path}")
        elif row["file"] not in found:
            found[row["file"]] = verdict(row, path, options)
            keep(options.cache, found)
    shown([(row, found[row["file"]]) for row in files if row["file"] in found], options.notes)
    if options.page is not None:
        page(options.page, [(row, found.get(row["file"], {})) for row in listed()])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="the folder of the files")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these files")
    parser.add_argument("--records", type=int, default=10**9, help="at most so many of a file")
    parser.add_argument("--budget", help="of training, such as 20s")
    parser.add_argument("--without", nargs="+", choices=PARTS, default=[], help="steps to skip")
    parser.add_argument("--cache", type=Path, help="keeps the results of finished files")
    parser.add_argument("--notes", action="store_true", help="also what training prints on stderr")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the documentation's table")
    return parser.parse_args()


def listed():
    """The lines of `files.csv`."""
    with LIST.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def known(cache):
    return json.loads(cache.read_text()) if cache is not None and cache.exists() else {}


def keep(cache, found):
    if cache is not None:
        cache.write_text(json.dumps(found))


# --- one file -------------------------------------------------------------------------------------


class Failed(Exception):
    """A command that ended with an error."""


def shell(*words):
    """What a command prints to stdout, and to stderr."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    error = result.exception
    if result.exit_code:
        why = result.stderr.strip().splitlines() or [repr(error)]
        if error is not None and not isinstance(error, SystemExit):
            why = traceback.format_exception(error)[-2:]
        raise Failed(f"{words[0]} ends with {result.exit_code}: {' '.join(why[-2:]).strip()}")
    return result.stdout, result.stderr


def verdict(row, path, options):
    """What became of a file."""
    records = Records.of(path, row["mark"], int(row["lines"]))
    learned, tested = split(records.body, options.records)
    seen = {"records": len(records.body), "verdict": "good"}
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        names = ("train", "test", "new")
        train, test, new = (Path(folder, f"{name}_{row['file']}") for name in names)
        records.write(train, learned)
        records.write(test, tested)
        model = Path(folder, "model.tunefree")
        given = split_options(row["options"])
        if row["target"]:
            given += ["--target", row["target"]]
            records.write(new, tested, without=records.position(row["target"]))
        try:
            steps(seen, train, test, new, model, given, options)
        except Failed as problem:
            seen["verdict"] = str(problem)
        seen["seconds"] = time.process_time() - start
        if "score" in seen and "peer" not in options.without:
            seen["peer"] = peer(train, test, model)
    return seen


def split_options(text):
    """An option and its value, which may hold blanks."""
    return text.split(" ", 1) if text else []


def split(records, most):
    """Three quarters to learn, and the others, each in their order."""
    rng = np.random.default_rng(0)
    drawn = rng.permutation(len(records))[: min(len(records), most)]
    parts = np.split(drawn, [3 * len(drawn) // 4])
    return [[records[i] for i in np.sort(part)] for part in parts]


def steps(seen, train, test, new, model, given, options):
    """Run the commands."""
    budget = ["--budget", options.budget] if options.budget else []
    shell("look", train, *(given if "--task" not in given else given[2:]))
    seen["notes"] = shell("train", train, model, *given, *budget)[1]
    notes = describe_model(model)["notes"]
    seen["rows"], seen["kinds"] = notes["rows"], describe_kinds(notes)
    seen["kilobytes"] = model.stat().st_size / 1e3
    shell("inspect", model, "--schema")
    if "eval" not in options.without:
        scores = json.loads(shell("eval", model, test, "--json")[0])
        seen["score"] = scores.get("r2", scores.get("log_loss"))
        seen["measure"] = "R2" if "r2" in scores else "log-loss"
    if "report" not in options.without:
        shell("report", model, test, "--output", model.with_suffix(".html"))
    if "predict" not in options.without:
        predictions = shell("predict", model, test)[0]
        if new.exists() and shell("predict", model, new)[0] != predictions:
            raise Failed("predict: other predictions without the column of the target")


# --- the peer -------------------------------------------------------------------------------------


def peer(train, test, model):
    """The score of CatBoost on columns that our schema reads."""
    import catboost

    notes = describe_model(model)["notes"]
    X, y, X_test, y_test = columns_of(train, test, notes)
    is_numeric = notes["task"] == "regression"
    kind = catboost.CatBoostRegressor if is_numeric else catboost.CatBoostClassifier
    texts = [name for name in X if X[name].dtype.kind not in "fiub"]
    how = {"iterations": ITERATIONS, "verbose": 0, "allow_writing_files": False, "random_seed": 0}
    fitted = kind(**how, thread_count=1, cat_features=texts).fit(X, y)
    if is_numeric:
        return 1.0 - np.sum((y_test - fitted.predict(X_test)) ** 2) / np.sum(
            (y_test - y_test.mean()) ** 2
        )
    classes = fitted.classes_.astype(str).tolist()
    p = np.maximum(fitted.predict_proba(X_test), LEAST)
    of_class = [classes.index(label) if label in classes else -1 for label in y_test.astype(str)]
    p = np.where(np.array(of_class) < 0, LEAST, p[np.arange(len(p)), of_class])
    return float(-np.log(p).mean())


def columns_of(train, test, notes):
    """Frames and targets of both parts."""
    how = {"target": place(notes), "cells": True}
    first = read_mixed(str(train), skipped=Skipped(malformed=False), **how)
    X, names = first.X, first.feature_names
    if first.zero_based is not None:
        second = read_mixed(str(test), n_features=X.shape[1], zero_based=first.zero_based)
        return pd.DataFrame(X.toarray()), first.y, pd.DataFrame(second.X.toarray()), second.y
    same = {"n_features": X.shape[1]} if names is None else {"columns": names}
    second = read_mixed(str(test), skipped=Skipped(malformed=False), **how, **same)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells that do not fit
        schema = Schema.of(X, X.column_names)
        frames = [frame(schema, part.X) for part in (first, second)]
    return frames[0], first.y, frames[1], second.y


def place(notes):
    """The option for the column of the target."""
    if not notes["target"]:
        return None
    name, position = notes["target"]
    return position if name is None else name


def frame(schema, X):
    """Columns that the schema reads, as CatBoost takes them."""
    found = {}
    for name, column in zip(schema.names, read_columns(schema, X), strict=True):
        if column.kind in (TEXT, CATEGORY):
            levels = np.array([*column.levels, ""], dtype=object)
            found[name] = levels[column.codes].astype(str)
            continue
        values = np.where(column.missing, np.nan, column.values)
        found[name] = values
        if column.kind == DATE:
            found[f"{name}, of the day"] = values % 1.0
            found[f"{name}, of the week"] = np.floor(values) % 7
            found[f"{name}, of the year"] = values % 365.25
    return pd.DataFrame(found)


# --- the table ------------------------------------------------------------------------------------


def shown(rows, with_notes):
    """Print the verdicts, what is odd in the files, and the notes."""
    columns = ["file", "records", "columns", "", "ours", "CatBoost", "CPU s", "kB", "verdict"]
    table("Files from the shell", columns, [cells(row, seen) for row, seen in rows])
    for row, seen in rows:
        console.print(f"{row['file']}: {row['odd']}", markup=False)
        if seen["verdict"] != "good":
            console.print(f"    {seen['verdict']}", markup=False)
        if with_notes:
            for line in seen.get("notes", "").splitlines():
                with contextlib.suppress(IndexError):
                    if line.split()[0] in ("note:", "task:", "target:", "skipped"):
                        console.print(f"    {line}", markup=False)
    good = sum(seen["verdict"] == "good" for _, seen in rows)
    console.print(f"{good} of {len(rows)} files pass every step.")


PAGE, SCORES = ("file", "what is odd in it", "read as"), ("score", "ours", "CatBoost")
WORDS = {"number": "numbers", "date": "dates", "text": "text", "nothing": "empty"}
ONE = WORDS | {"number": "number", "date": "date"}


def page(path, rows):
    """Write the table of the documentation; without a run it has no scores."""
    with_scores = any(seen for _, seen in rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*PAGE, *(SCORES if with_scores else ())])
        for row, seen in rows:
            fails = "" if seen.get("verdict", "good") == "good" else f"; fails: {seen['verdict']}"
            about = [row["file"].removesuffix(".gz"), row["odd"], in_words(row["kinds"]) + fails]
            scores = [f"{seen[name]:.3f}" if name in seen else "" for name in ("score", "peer")]
            writer.writerow(about + [seen.get("measure", ""), *scores] * with_scores)


def in_words(kinds):
    """The kinds of columns in words.

    >>> in_words("39 number 1 date")
    '39 numbers, 1 date'
    """
    words = kinds.split()
    counted = zip(words[::2], words[1::2], strict=True)
    return ", ".join(f"{n} {(ONE if n == '1' else WORDS)[kind]}" for n, kind in counted)


def cells(row, seen):
    """The cells of a line of the table."""

    def score(name):
        return f"{seen[name]:.3f}" if name in seen else ""

    return (
        row["file"].removesuffix(".gz"),
        seen["records"],
        seen.get("kinds", ""),
        seen.get("measure", ""),
        score("score"),
        score("peer"),
        f"{seen['seconds']:.1f}",
        f"{seen.get('kilobytes', 0.0):.0f}",
        "good" if seen["verdict"] == "good" else "FAILS",
    )


if __name__ == "__main__":
    main()
