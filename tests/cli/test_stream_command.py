"""``tunefree stream``: rows as they come, predictions before labels, killed and resumed."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree import StreamClassifier, StreamRegressor, load_model
from tunefree.cli import app
from tunefree.streams.drift import DriftAlarm

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


ENDED = ["-", "--format", "csv", "-o", "said.csv", "--task", "classification",
         "--checkpoint", "saved", "--every", "50"]  # fmt: skip


def fails(here, monkeypatch):
    """A pipe that breaks after 230 rows."""

    def arriving(_):
        yield "".join(list(lines())[:231]).encode()
        raise OSError("broken")

    with monkeypatch.context() as patch:
        patch.setattr("tunefree.cli.stream.chunks", arriving)
        assert CliRunner().invoke(app, ["stream", *ENDED]).exit_code


def is_killed(here, _):
    """SIGKILL in the middle of a pipe."""
    command = [sys.executable, "-c", MAIN, "stream", *ENDED]
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


@pytest.mark.parametrize("ends", [fails, is_killed])
def test_ended_early_and_resumed_to_the_same_bytes(here, ends, monkeypatch):
    """The rest of the run ends where a whole run does."""
    run("data.csv", "-o", "whole.csv", "--model", "whole")
    ends(here, monkeypatch)
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
    (here / "bad.jsonl").write_text('{"a": 1, "y": 2}\n[1]\n')
    refused = run("bad.jsonl", "--task", "regression", code=3).stderr
    assert "bad.jsonl:2: not a JSON object" in refused
    run("data.csv", "--checkpoint", "data.csv", code=2)


def test_what_exists_is_not_overwritten_silently(here):
    """A state and predictions are continued or begun again, as the user says."""
    options = ("data.csv", "-o", "out.csv", "--checkpoint", "saved")
    run(*options)
    before = (here / "out.csv").read_bytes(), (here / "saved").read_bytes()
    for more in ((), ("--resume", "--restart")):
        assert "--restart" in run(*options, *more, code=2).stderr
    assert "out.csv exists: give --restart" in run("data.csv", "-o", "out.csv", code=2).stderr
    assert ((here / "out.csv").read_bytes(), (here / "saved").read_bytes()) == before
    run(*options, "--restart")
    assert (here / "out.csv").read_bytes() == before[0]


def test_ids_are_copied_and_dropped_columns_are_not_read(here):
    rows = list(lines())
    text = ["id,size,town,note,kind\n"]
    text += [
        f"k{t},{','.join(r.split(',')[:2])},n{t},{r.split(',')[2]}" for t, r in enumerate(rows[1:])
    ]
    (here / "ids.csv").write_text("".join(text))
    run("ids.csv", "--id", "id", "--drop", "note", "-o", "ids.out")
    run("data.csv", "-o", "plain.out")
    plain = (here / "plain.out").read_text().splitlines()
    expected = ["id," + plain[0], *(f"k{t},{line}" for t, line in enumerate(plain[1:]))]
    assert (here / "ids.out").read_text().splitlines() == expected
    assert "did you mean 'note'?" in run("ids.csv", "--drop", "nota", code=3).stderr


def test_a_file_without_rows_and_a_cut_line_are_named(here):
    (here / "head.csv").write_text("a,b,y\n")
    (here / "cut.jsonl").write_text('{"a": 1, "b')
    for task in ((), ("--task", "regression")):
        assert (
            "head.csv: the file has a header and no rows" in run("head.csv", *task, code=3).stderr
        )
        assert "cut.jsonl:1: the line ends within" in run("cut.jsonl", *task, code=3).stderr


def streams(seed, n, change=None, noise=0.3):
    """A stream of classes and one of numbers, whose rule changes sign at a row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X @ [1.0, -1.0, 0.5]
    if change:
        score[change:] *= -1.0
    score += noise * rng.normal(size=n)
    return X, (score > 0.0).astype(int), score


def alarms(model, X, y):
    """The rows at which drift is noticed."""
    alarm, found = DriftAlarm(), []
    for row, (x, target) in enumerate(zip(X, y.tolist(), strict=True), 1):
        predicted = model.predict_one(x)
        model.learn_one(x, target)
        if isinstance(model, StreamClassifier):
            noticed = alarm.add(predicted != target, model.half_life_)
        else:
            noticed = alarm.add_residual(abs(target - (predicted or 0.0)), model.half_life_)
        found += [row] if noticed else []
    return found


@pytest.mark.parametrize("seeds", [range(2), range(2, 10)], ids=["few", "many"])
def test_drift_is_noticed_after_a_change_and_not_without_one(seeds):
    """Streams that do not change have no alarm; a new rule has one within 300 rows."""
    for seed in seeds:
        X, kinds, numbers = streams(seed, 2000, noise=0.3 + 0.1 * seed)
        assert alarms(StreamClassifier(), X, kinds) == alarms(StreamRegressor(), X, numbers) == []
    for seed in seeds[:3]:
        X, kinds, numbers = streams(seed, 1300, change=1000)
        for found in (alarms(StreamClassifier(), X, kinds), alarms(StreamRegressor(), X, numbers)):
            assert 1000 < found[0] <= 1300


def test_the_row_of_a_drift_is_printed_and_survives_a_resumed_run(here):
    X, kinds, _ = streams(0, 1600, change=1000)
    rows = [
        "a,b,c,y\n",
        *(",".join(map(str, [*x, k])) + "\n" for x, k in zip(X, kinds, strict=True)),
    ]
    (here / "log.csv").write_text("".join(rows))
    whole = run("log.csv")
    assert "drift at row" in whole.stderr
    rows_of = json.loads(run("log.csv", "--json").stdout)["drift_at_rows"]
    assert 1000 < rows_of[0] < 1100 and f" {rows_of[0]:,}" in whole.stderr
    (here / "log.csv").write_text("".join(rows[:1001]))
    run("log.csv", "--checkpoint", "saved")
    (here / "log.csv").write_text("".join(rows))
    again = run("log.csv", "--checkpoint", "saved", "--resume", "--json")
    assert json.loads(again.stdout)["drift_at_rows"] == rows_of


@pytest.mark.parametrize("width", [33, 64, 128, 256])
def test_files_of_any_width(here, width):
    """Where the state has just so many columns, or for more."""
    X = np.random.default_rng(2).normal(size=(30, width))
    header = ",".join([*(f"c{j}" for j in range(width)), "y"])
    rows = (f"{','.join(map(str, x))},{'no' if x[0] < 0 else 'yes'}\n" for x in X.tolist())
    (here / "wide.csv").write_text(f"{header}\n{''.join(rows)}")
    assert json.loads(run("wide.csv", "--target", "y", "--json").stdout)["labelled"] == 30


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_targets_that_are_missing_are_not_known(here, task):
    """null, NaN and an absent name in JSON lines; an empty cell and NA in csv."""
    absent = ['{"a": 1, "y": null}', '{"a": 2, "y": NaN}', '{"a": 3}']
    known = [f'{{"a": {a}, "y": {a % 2}}}' for a in range(20)]
    (here / "d.jsonl").write_text("\n".join([*known[:10], *absent, *known[10:]]) + "\n")
    cells = [*(f"{a},{a % 2}" for a in range(20)), "1,", "2,NA", "3,NaN"]
    (here / "d.csv").write_text("a,y\n" + "\n".join(cells) + "\n")
    for name in ("d.jsonl", "d.csv"):
        found = json.loads(run(name, "--target", "y", "--task", task, "--json").stdout)
        assert (found["rows"], found["labelled"]) == (23, 20)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_column_of_dates_is_one_column_to_every_command(here, kind):
    """Its parts are the stream's own: no note, page or comparison names them."""
    hours = np.datetime64("2024-01-01T00") + np.arange(300)
    rows = [{"when": str(t).replace("T", " ") + ":30", "y": i % 24} for i, t in enumerate(hours)]
    csv = ["when,y\n", *(f"{row['when']},{row['y']}\n" for row in rows)]
    lines = csv if kind == "csv" else [json.dumps(row) + "\n" for row in rows]
    path = here / f"dates.{kind}"
    path.write_text("".join(lines))
    run(path, "--target", "y", "--task", "regression", "--model", "m")
    plain = StreamRegressor()
    for row in rows:
        plain.learn_one({"when": row["when"]}, row["y"])
    model = load_model(here / "m")
    assert model.mixture_.state.tobytes() == plain.mixture_.state.tobytes()
    said = {}
    for command in ("predict", "drift", "inspect", "eval"):
        files = ["m"] if command == "inspect" else ["m", str(path)]
        said[command] = CliRunner().invoke(app, [command, *files])
        assert said[command].exit_code == 0, said[command].output
        assert ": day" not in said[command].output, command
        assert "weekday" not in said[command].output, command
    assert "when" in said["inspect"].output and "date" in said["inspect"].output
