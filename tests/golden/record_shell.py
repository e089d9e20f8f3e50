"""The shell's part of the golden record: everyday commands, what they print and what they write.

`STEPS` is the table of commands, run in order in one temporary folder. A step records its exit
status, the numbers of what it printed as JSON or wrote as a table, and the printed text. Seconds
and folders are normalised away. A step that ends with another status than its own raises.
"""

import csv
import json
import re
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import numpy as np
from record_values import Leaves, without_folders

ROWS = 240


class Step(NamedTuple):
    """A command: its name in the record, its words, its exit status and the file it writes."""

    name: str
    command: str
    status: int = 0
    writes: str = ""


STEPS = [
    Step("train classes", "train kinds.csv kinds.model --target kind --id id --groups place"
         " --scoring roc_auc"),
    Step("predict classes", "predict kinds.model kinds.csv --id id -o kinds.out.csv",
         writes="kinds.out.csv"),
    Step("predict probabilities", "predict kinds.model kinds.csv --proba -o p.csv", writes="p.csv"),
    Step("predict sets", "predict kinds.model kinds.csv --coverage .9 -o sets.csv",
        writes="sets.csv"),
    Step("predict to the screen", "predict kinds.model few.csv"),
    Step("eval classes", "eval kinds.model kinds.csv"),
    Step("eval classes, json", "eval kinds.model kinds.csv --json"),
    Step("inspect classes", "inspect kinds.model"),
    Step("inspect classes, json", "inspect kinds.model --json"),
    Step("report classes", "report kinds.model kinds.csv -o page.html", writes="page.html"),
    Step("train numbers", "train numbers.csv numbers.model --compress 50 --json"),
    Step("predict intervals", "predict numbers.model numbers.csv --coverage .9 -o between.csv",
         writes="between.csv"),
    Step("eval numbers, json", "eval numbers.model numbers.csv --json"),
    Step("train counts", "train counts.csv counts.model --target n --estimator glm"
         " --family poisson --exposure years"),
    Step("predict counts", "predict counts.model counts.csv -o counts.out.csv",
         writes="counts.out.csv"),
    Step("eval counts, json", "eval counts.model counts.csv --json"),
    Step("inspect counts", "inspect counts.model"),
    Step("train grades", "train grades.csv grades.model --target grade --estimator glm"
         " --family ordinal --categories low,mid,high"),
    Step("train with a checkpoint", "train numbers.csv linear.model --checkpoint run.state"
         " --every 100 --json"),
    Step("inspect a linear model, json", "inspect linear.model --json"),
    Step("train ridge", "train numbers.csv ridge.model --estimator ridge"),
    Step("stream numbers", "stream numbers.csv -o live.csv --delay 3", writes="live.csv"),
    Step("stream classes, json", "stream kinds.csv --target kind --json"),
    Step("a misspelt column", "train numbers.csv m --target prise", status=3),
    Step("a bad row", "train bad.csv m", status=3),
    Step("a bad row that is skipped", "train bad.csv m --on-bad-row skip", status=3),
    Step("no such file", "predict nowhere.model numbers.csv", status=4),
    Step("no such estimator", "train numbers.csv m --estimator kernal", status=2),
]  # fmt: skip


def write_tables():
    """Small tables in the current folder."""
    rng = np.random.default_rng(5)
    a, b, c = rng.normal(size=(3, ROWS))
    place = rng.integers(0, 20, size=ROWS)
    noise = rng.normal(size=ROWS)
    score = a - b + 0.5 * np.sin(3.0 * c)
    kind = np.where(score + 0.3 * noise > 0.0, "up", "down")
    years = rng.uniform(0.5, 3.0, size=ROWS)
    day = np.datetime64("2026-01-01") + rng.integers(0, 500, size=ROWS) * np.timedelta64(1, "D")
    color = np.array(["red", "green", "blue"])[rng.integers(0, 3, size=ROWS)]
    tables = {
        "kinds": {"id": [f"k{i}" for i in range(ROWS)], "place": place, "color": color,
                  "day": day, "a": a, "b": b, "kind": kind},
        "numbers": {"a": a, "b": b, "c": c, "y": 3.0 + 2.0 * score + 0.2 * noise},
        "counts": {"a": a, "b": b, "years": years,
                   "n": rng.poisson(np.exp(0.3 * score) * years)},
        "grades": {"a": a, "b": b,
                   "grade": np.array(["low", "mid", "high"])[np.digitize(score, [-1.0, 1.0])]},
    }  # fmt: skip
    for name, columns in tables.items():
        write(f"{name}.csv", columns)
    write("few.csv", {name: values[:5] for name, values in tables["kinds"].items()})
    Path("bad.csv").write_text("a,price\n1,2\n3,4,5\n")


def write(path, columns):
    """A csv file."""
    lists = [np.asarray(values).tolist() for values in columns.values()]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*lists, strict=True))


def read(path):
    """The header of a csv file, and its cells as numbers; texts are numbered by the alphabet."""
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    columns = [as_numbers(column) for column in zip(*rows, strict=True)]
    return header, np.array(columns).T


def as_numbers(column):
    """The numbers of a column; an empty cell is NaN."""
    try:
        return [float(cell or "nan") for cell in column]
    except ValueError:
        return np.unique(column, return_inverse=True)[1].tolist()


_NUMBER = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_CLOCKS_AND_VERSIONS = [
    (re.compile(rf"{_NUMBER} (s|ms|min|seconds)\b"), r"N \1"),
    # The last column of numbers in the table of candidates.
    (re.compile(r"(?m)(?<=  )\d+\.\d\d(?=$|  \d+%|  [a-z])"), "N.NN"),
    (re.compile(r"\b\d+ bytes\b"), "N bytes"),
    (re.compile(r"\b\d+\.\d+\.\d+(\.\w+)?\b"), "VERSION"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "SHA256"),
]


def normalised(text):
    """A text without seconds, versions, folders, and sizes and checksums of files.

    >>> normalised("In 1.2 s, 3e-05 s for the last fit, by numpy 2.4.6")
    'In N s, N s for the last fit, by numpy VERSION'
    """
    text = without_folders(text)
    for pattern, plain in _CLOCKS_AND_VERSIONS:
        text = pattern.sub(plain, text)
    return text


def normalised_texts(value):
    """A JSON value with its texts normalised, and without sizes of files, which hold names."""
    if isinstance(value, dict):
        return {key: normalised_texts(v) for key, v in value.items() if key != "bytes"}
    if isinstance(value, list):
        return [normalised_texts(v) for v in value]
    return normalised(value) if isinstance(value, str) else value


_DRAWN = re.compile(r"<(style|script|svg)\b.*?</\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def text_of_page(page):
    """The words of an HTML page, a line each piece."""
    lines = (line.strip() for line in _TAG.sub("\n", _DRAWN.sub("\n", page)).splitlines())
    return "\n".join(line for line in lines if line)


def shell():
    """(Name, leaves) of every step."""
    from typer.testing import CliRunner

    from tunefree.cli import app

    runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"})
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_tables()
        for step in STEPS:
            result = runner.invoke(app, step.command.split())
            if result.exit_code != step.status:
                raise RuntimeError(
                    f"{step.command!r} ended with {result.exit_code}, not {step.status}: "
                    f"{result.output}{result.exception!r}"
                )
            yield f"shell/{step.name}", leaves_of(step, result)


def leaves_of(step, result):
    """What a command printed and wrote."""
    leaves = Leaves()
    leaves.add("exit_status", result.exit_code)
    printed = [result.stdout, result.stderr]
    if step.command.endswith("--json"):
        leaves.add("json", normalised_texts(json.loads(printed.pop(0))))
    leaves["printed"] = normalised("\n".join(printed))
    if step.writes.endswith(".html"):
        page = Path(step.writes).read_text()
        leaves["page"] = normalised(text_of_page(page))
        leaves.add("figures", page.count("<svg"))
    elif step.writes:
        header, leaves["predict"] = read(step.writes)
        leaves.add("header", header)
    return leaves
