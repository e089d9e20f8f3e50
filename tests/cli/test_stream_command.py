"""``tunefree stream``: rows as they come, predictions before labels, killed and resumed."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree import StreamClassifier, load_model
from tunefree.cli import app

MAIN = "from tunefree.cli import main; main()"


def run(*arguments, stdin=None, code=0):
    result = CliRunner().invoke(app, ["stream", *map(str, arguments)], input=stdin)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def lines(n=400):
    """Rows of a csv file: a number, a word, a gap now and then, a class."""
    rng = np.random.default_rng(0)
    yield "size,town,kind\n"
    for t in range(n):
        size, town = rng.normal(), rng.choice(["Rome", "Oslo"])
        kind = "big" if (size > 0) == (t < n // 2) and town == "Rome" else "small"
        yield f"{'' if t % 20 == 7 else size},{town},{kind}\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("".join(lines()))
    return tmp_path


def test_the_running_error_predictions_and_the_model(here):
    result = run("data.csv", "-o", "said.csv", "--model", "m")
    assert "classification: the target is text" in result.stderr
    assert "half-life" in result.stderr and "256" in result.stderr
    said = (here / "said.csv").read_text().splitlines()
    assert said[0] == "prediction,probability,set" and len(said) == 401
    model = StreamClassifier()
    right = 0
    for row, line in zip(list(lines())[1:], said[1:], strict=True):
        size, town, kind = row.strip().split(",")
        x = {"size": float(size) if size else None, "town": town}
        assert line.split(",")[0] == (model.predict_one(x) or "")
        right += line.split(",")[0] == kind
        model.learn_one(x, kind)
    assert right > 320
    saved = load_model(here / "m")
    assert saved.mixture_.state.tobytes() == model.mixture_.state.tobytes()


def test_numbers_libsvm_and_json_lines(here):
    """The same rows in three formats are the same stream; targets that are absent are predicted."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2))
    y = X @ [2.0, -1.0] + 0.1 * rng.normal(size=150)
    rows = [*zip(X.tolist(), y.tolist(), strict=True)]
    (here / "d.libsvm").write_text("".join(f"{t} 1:{a} 2:{b}\n" for (a, b), t in rows))
    (here / "d.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{t}\n" for (a, b), t in rows))
    objects = [json.dumps({"1": a, "2": b, "target": t}) for (a, b), t in rows]
    (here / "d.jsonl").write_text("\n".join([*objects, '{"1": 0.5, "2": null}', ""]))
    always, told = ("--task", "regression", "--json", "-o"), []
    for kind, more in (("libsvm", []), ("jsonl", []), ("csv", ["--header"])):
        result = run(f"d.{kind}", *more, *always, f"{kind}.out")
        told.append(json.loads(result.stdout))
    assert [t["labelled"] for t in told] == [150] * 3 and told[1]["rows"] == 151
    assert told[0]["error"] == told[1]["error"] == told[2]["error"] < 0.5
    assert 0.8 < told[0]["covered"] < 1.0
    texts = [(here / f"{kind}.out").read_text().splitlines()[:151] for kind in ("libsvm", "csv")]
    assert texts[0] == texts[1] and texts[0][0] == "prediction,low,high"


def test_killed_and_resumed_to_the_same_bytes(here):
    """SIGKILL in the middle of a pipe; the rest of the run ends where a whole run does."""
    run("data.csv", "-o", "whole.csv", "--model", "whole")
    command = [sys.executable, "-c", MAIN, "stream", "-", "--format", "csv", "-o", "said.csv",
               "--task", "classification", "--checkpoint", "saved", "--every", "50"]  # fmt: skip
    stream = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert stream.stdin is not None
    stream.stdin.write("".join(list(lines())[:231]).encode())
    stream.stdin.flush()
    for _ in range(3000):
        if (here / "saved").exists() and b"\n" in (here / "said.csv").read_bytes():
            break
        time.sleep(0.02)
    stream.send_signal(signal.SIGKILL)
    stream.communicate()
    with open(here / "said.csv", "ab") as said:
        said.write(b"half a li")  # what was written after the checkpoint is made again
    run("-", "--format", "csv", "-o", "said.csv", "--checkpoint", "saved", "--resume", "--model",
        "again", stdin="".join(lines()))  # fmt: skip
    assert (here / "said.csv").read_bytes() == (here / "whole.csv").read_bytes()
    assert (here / "again").read_bytes() == (here / "whole").read_bytes()


def test_a_run_that_ended_goes_on_with_rows_that_came_later(here):
    rows = list(lines())
    (here / "log.csv").write_text("".join(rows[:200]))
    run("log.csv", "--checkpoint", "saved", "-o", "said.csv")
    with open(here / "log.csv", "a") as log:
        log.write("".join(rows[200:]))
    run("log.csv", "--checkpoint", "saved", "-o", "said.csv", "--resume")
    run("data.csv", "-o", "whole.csv")
    assert (here / "said.csv").read_bytes() == (here / "whole.csv").read_bytes()


def test_labels_that_come_late(here):
    """--delay learns a row when its label would have come, judged by what was said; also resumed.

    The rows whose labels have not come when the file ends are learned when it goes on.
    """
    rows = list(lines())
    run("data.csv", "--delay", "20", "-o", "whole.csv", "--model", "m")
    model, kept = StreamClassifier(), []
    for t, (row, line) in enumerate(
        zip(rows[1:], (here / "whole.csv").read_text().splitlines()[1:], strict=True)
    ):
        size, town, kind = row.strip().split(",")
        kept.append(({"size": float(size) if size else None, "town": town}, kind))
        assert line.split(",")[0] == (model.predict_one(kept[t][0], key=t) or "")
        if t >= 20:
            model.learn_one(*kept[t - 20], key=t - 20)
    assert load_model(here / "m").mixture_.state.tobytes() == model.mixture_.state.tobytes()
    (here / "log.csv").write_text("".join(rows[:200]))
    run("log.csv", "--delay", "20", "--checkpoint", "saved", "-o", "said.csv")
    (here / "log.csv").write_text("".join(rows))
    assert "--delay 20" in run("log.csv", "--checkpoint", "saved", "--resume", code=4).stderr
    run("log.csv", "--delay", "20", "--checkpoint", "saved", "-o", "said.csv", "--resume")
    assert (here / "said.csv").read_bytes() == (here / "whole.csv").read_bytes()


def test_faults_name_file_and_line(here):
    with open(here / "data.csv", "a") as data:
        data.write("1,2\n")
    assert (
        "data.csv:402: this row has 2 cells, the first one has 3" in run("data.csv", code=3).stderr
    )
    assert "skipped 1 malformed rows" in run("data.csv", "--on-bad-row", "skip").stderr
    assert "--coverage 0.93 is none of 0.99" in run("data.csv", "--coverage", "0.93", code=2).stderr
    assert "--resume needs --checkpoint" in run("data.csv", "--resume", code=2).stderr
    assert "is not a number" in run("data.csv", "--task", "regression", code=3).stderr
    (here / "bad.jsonl").write_text('{"a": [1], "y": 2}\n')
    assert "bad.jsonl:1: 'a' is neither" in run("bad.jsonl", "--task", "regression", code=3).stderr
    run("data.csv", "--checkpoint", "data.csv", code=2)
