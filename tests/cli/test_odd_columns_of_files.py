"""A table with odd columns is the same table in every format, for every command."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tunefree.cli import app

pytestmark = pytest.mark.filterwarnings("ignore")
N = 80
RNG = np.random.default_rng(0)
DAYS = RNG.integers(0, 400, N)
PART = RNG.integers(0, 3, N)
SECONDS = pd.Series(pd.Timestamp("2024-01-05 03:10") + pd.to_timedelta(DAYS, "D"))


def run(*arguments, code=0, text=None):
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=text)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result.stdout


def _records(frame):
    are_plain = {name: isinstance(frame[name].iloc[0], str | int | float) for name in frame}
    text = frame.astype({name: str for name, is_plain in are_plain.items() if not is_plain})
    return text.to_dict("records")


WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "json": lambda frame, path: path.write_text(json.dumps(_records(frame))),
    "jsonl": lambda frame, path: path.write_text(
        "".join(json.dumps(row) + "\n" for row in _records(frame))
    ),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "arrow": lambda frame, path: frame.to_feather(path),
}
COLUMNS = {
    "times with an offset": (SECONDS.dt.tz_localize("America/New_York"), DAYS / 100),
    "times of UTC": (SECONDS.dt.tz_localize("UTC"), DAYS / 100),
    "whole numbers that are no floats": (pd.Series(2**60 + PART * 2**55), PART),
}


def written(folder, name, frame):
    paths = {suffix: folder / f"{name}.{suffix}" for suffix in WRITERS}
    for suffix, path in paths.items():
        WRITERS[suffix](frame, path)
    return paths


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_same_model_and_the_same_answers(tmp_path, kind):
    x, score = COLUMNS[kind]
    a = RNG.normal(size=N).round(4)
    paths = written(tmp_path, "rows", pd.DataFrame({"a": a, "x": x, "y": (a + score).round(3)}))
    found = set()
    for trained, path in paths.items():
        model = tmp_path / f"{trained}.model"
        run("train", path, model, "--target", "y", "--estimator", "trees")
        for data in paths.values():
            drift = json.dumps(json.loads(run("drift", model, data, "--json")))
            scores = json.loads(run("eval", model, data, "--target", "y", "--json"))
            found.add((run("predict", model, data), drift, scores["r2"]))
    assert len(found) == 1, {one[0].splitlines()[0] for one in found}


TIMED = {
    "durations": SECONDS - SECONDS.min() + pd.to_timedelta(RNG.integers(0, 86400, N), "s"),
    "whole days": pd.to_timedelta(pd.Series(DAYS), "D"),
    "times of a day": (SECONDS + pd.to_timedelta(RNG.integers(0, 86400, N), "s")).dt.time,
}


@pytest.mark.parametrize("kind", TIMED)
def test_a_stream_learns_the_same_from_every_format(tmp_path, kind):
    y = (RNG.normal(size=N) + DAYS / 100).round(3)
    paths = written(tmp_path, "rows", pd.DataFrame({"x": TIMED[kind], "a": 1.0 + PART, "y": y}))
    found = set()
    for learned, path in paths.items():
        model = tmp_path / f"{learned}.model"
        lines = run("stream", path, "--target", "y", "--model", model, "-o", "-")
        found.update((lines, run("predict", model, data)) for data in paths.values())
    assert len(found) == 1


def test_truth_values_among_text_are_one_level_in_every_format(tmp_path):
    x = pd.Series([["x", 3, True][part] for part in PART], dtype=object)
    frame = pd.DataFrame({"a": RNG.normal(size=N), "x": x, "y": 1.5 * PART})
    answers = set()
    for trained in ("csv", "json", "jsonl"):
        WRITERS[trained](frame, tmp_path / f"rows.{trained}")
        run("train", tmp_path / f"rows.{trained}", tmp_path / trained, "--estimator", "trees")
    for trained in ("csv", "json", "jsonl"):
        for data in ("csv", "json", "jsonl"):
            answers.add(run("predict", tmp_path / trained, tmp_path / f"rows.{data}"))
    assert len(answers) == 1


def test_blanks_around_names_of_columns_do_not_matter(tmp_path):
    """Headers of text have none; workbooks, JSON and typed files may."""
    frame = pd.DataFrame({" a": RNG.normal(size=N).round(4), "b ": 1.0 * PART})
    frame["y "] = (frame.sum(axis=1) + RNG.normal(size=N)).round(3)
    paths = written(tmp_path, "rows", frame)
    for command in ("train", "stream"):
        answers, scores = set(), set()
        for learned, path in paths.items():
            model = tmp_path / f"{command}.{learned}.model"
            if command == "train":
                run("train", path, model, "--target", "y", "--estimator", "ridge")
            else:
                target = "y" if learned == "csv" else "y "
                run("stream", path, "--target", target, "--model", model)
            for data in paths.values():
                answers.add(run("predict", model, data))
                scores.add(json.loads(run("eval", model, data, "--target", "y", "--json"))["r2"])
            for suffix in ("csv", "jsonl"):
                answers.add(run("predict", model, "-", text=paths[suffix].read_text()))
        assert len(answers) == len(scores) == 1
