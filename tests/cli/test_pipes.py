"""Rows of a pipe are predicted as they arrive, with the bits of the whole file at once."""

import json
import os
import select
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tunefree
from tunefree.cli import app
from tunefree.files.files import Named

pytestmark = pytest.mark.filterwarnings("ignore")
MAIN = "from tunefree.cli import main; main()"
N = 150
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "id": np.arange(N),
        "a": RNG.normal(size=N).round(3),
        "b": RNG.integers(0, 9, N),
        "city": RNG.choice(["Rome", "Oslo"], N),
    }
)
Y = (2.0 * ROWS.a + (ROWS.city == "Rome") + 0.1 * ROWS.b + RNG.normal(size=N)).round(3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models, and the same rows in each format."""
    folder = tmp_path_factory.mktemp("pipes")
    trees = tunefree.BoostedTreesRegressor(random_state=0).fit(ROWS[["a", "b", "city"]], Y)
    tunefree.save_model(trees, folder / "table.model")
    tunefree.save_model(tunefree.RidgePathRegressor().fit(ROWS[["a", "b"]], Y), folder / "numbers")
    ROWS.to_csv(folder / "rows.csv", index=False)
    ROWS.to_json(folder / "rows.jsonl", orient="records", lines=True)
    sparse = (f"0 1:{a} 2:{b}\n" for a, b in zip(ROWS.a, ROWS.b, strict=True))
    (folder / "rows.libsvm").write_text("".join(sparse))
    return folder


def run(*arguments, stdin=None, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


CASES = [("table.model", "csv"), ("table.model", "jsonl"), ("numbers", "csv"), ("numbers", "jsonl")]
CASES += [("numbers", "libsvm")]


@pytest.mark.parametrize("model, form", CASES)
def test_a_pipe_gives_the_bits_of_the_file_wherever_it_is_cut(folder, model, form, monkeypatch):
    path = folder / f"rows.{form}"
    more = [] if form == "libsvm" else ["--id", "id", "--output-format", "jsonl"]
    whole = run("predict", folder / model, path, *more).stdout
    assert len(whole.splitlines()) == N
    text, parts = path.read_bytes(), []
    monkeypatch.setattr("tunefree.cli.apply.answer", parts.append)
    for size in (97, 1 << 20):
        pieces = [text[k : k + size] for k in range(0, len(text), size)]
        arriving = Named("<stdin>", pieces)
        monkeypatch.setattr("tunefree.cli.apply.opened", lambda _, pipe=arriving: pipe)
        parts.clear()
        run("predict", folder / model, "-", *more)
        assert "".join(f"{part}\n" for part in parts) == whole
        assert len(parts) == 1 if size > len(text) else len(parts) > 10


@pytest.mark.parametrize("form", ["csv", "jsonl", "libsvm"])
@pytest.mark.parametrize("command", ["predict", "stream"])
def test_each_row_is_answered_before_the_next_one_comes(folder, command, form, monkeypatch):
    lines = (folder / f"rows.{form}").read_bytes().splitlines(keepends=True)
    model = "numbers" if form == "libsvm" else "table.model"
    arguments = ["predict", str(folder / model), "-"]
    if command == "stream":
        target = [] if form == "libsvm" else ["--target", "a"]
        arguments = ["stream", "-", "--task", "regression", *target]
    answers = []

    def write_and_read(rows, out):
        with open(out, "rb", buffering=0) as stdout, open(rows, "wb", buffering=0) as stdin:
            if form == "csv":
                stdin.write(lines.pop(0))
            for k in range(3):
                stdin.write(lines[k])
                for _ in range(1 + (command == "stream" and k == 0)):
                    if select.select([stdout], [], [], 60.0)[0]:  # else rows are held back
                        answers.append(stdout.readline())
            stdin.close()
            answers.append(stdout.read())

    (rows, stdin), (stdout, out) = os.pipe(), os.pipe()
    user = threading.Thread(target=write_and_read, args=(stdin, stdout))
    with open(rows) as source, open(out, "w") as results:
        monkeypatch.setattr(sys, "stdin", source)
        monkeypatch.setattr(sys, "stdout", results)
        user.start()
        app(arguments, standalone_mode=False)
    user.join()
    header = [b"prediction,low,high\n"] if command == "stream" else []
    assert answers[: len(header)] == header
    assert len(answers) == len(header) + 4 and answers[-1] == b""


def test_pipes_with_names_and_a_reader_that_comes_late_lose_no_row(folder, tmp_path):
    whole = run("predict", folder / "table.model", folder / "rows.csv").stdout
    rows, answers, found = tmp_path / "rows", tmp_path / "answers", []
    os.mkfifo(rows)
    os.mkfifo(answers)

    def write():
        rows.write_bytes((folder / "rows.csv").read_bytes())

    def read():
        found.append(answers.read_text())

    threads = [threading.Thread(target=write), threading.Timer(0.3, read)]
    for thread in threads:
        thread.start()
    run("predict", folder / "table.model", rows, "-o", answers)
    for thread in threads:
        thread.join()
    assert found == [whole]


@pytest.mark.parametrize("output", ["-", "/dev/stdout"])
def test_standard_output_has_two_more_names(folder, output):
    for command in ("predict", "stream"):
        of = [folder / "table.model"] if command == "predict" else []
        more = ["--task", "regression", "--target", "a"] if command == "stream" else []
        found = run(command, *of, folder / "rows.csv", *more, "-o", output)
        assert len(found.stdout.splitlines()) == N + (command == "stream")
        assert not os.path.exists("-")


def test_identifiers_of_json_keep_their_type(folder):
    text = '{"id": 0, "a": 1.0, "b": 2, "city": "Rome"}\n{"id": "0", "a": 1.0, "b": 2}\n'
    more = ["--id", "id", "--output-format", "jsonl"]
    lines = run("predict", folder / "table.model", "-", *more, stdin=text).stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [0, "0"]


@pytest.mark.parametrize("is_pipe", [True, False])
@pytest.mark.parametrize(
    "form, bad", [("csv", "7,1\n"), ("jsonl", '{"id": 7,\n'), ("libsvm", "0 1:x\n")]
)
def test_malformed_rows_are_skipped_and_counted_or_an_error(folder, tmp_path, form, bad, is_pipe):
    lines = (folder / f"rows.{form}").read_text().splitlines(keepends=True)[:5]
    text = "".join([*lines, bad, *lines[-2:]])
    path = tmp_path / f"rows.{form}"
    path.write_text(text)
    data = {"stdin": text} if is_pipe else {}
    command = ["predict", folder / ("numbers" if form == "libsvm" else "table.model")]
    command += ["-" if is_pipe else path]
    assert ":6" in run(*command, code=3, **data).stderr
    found = run(*command, "--on-bad-row", "skip", **data)
    assert len(found.stdout.split()) == 7 - (form == "csv")
    assert "skipped 1 malformed rows, the first: " in found.stderr


BAD = {"csv": ["7,1\n", '7,"1\n2"\n'], "jsonl": ['{"id": 7,\n', "7\n"], "libsvm": ["0 1:x\n"]}


@pytest.mark.parametrize("form, bad", [(form, bad) for form, rows in BAD.items() for bad in rows])
def test_a_malformed_row_of_a_pipe_costs_only_itself(folder, form, bad, monkeypatch):
    lines = (folder / f"rows.{form}").read_text().splitlines(keepends=True)[:9]
    if form == "csv":
        lines[2] = lines[2].replace("Rome", '"Rome\nor so"').replace("Oslo", '"Oslo\nor so"')
    command = ["predict", folder / ("numbers" if form == "libsvm" else "table.model"), "-"]
    whole = run(*command, stdin="".join(lines)).stdout.splitlines()
    text = "".join([*lines[:6], bad, *lines[6:]]).encode()
    before = 6 - (form == "csv")
    for size in (len(text), 50):  # all in one part, and in many
        pieces = [text[k : k + size] for k in range(0, len(text), size)]
        arriving = Named("<stdin>", pieces)
        monkeypatch.setattr("tunefree.cli.apply.opened", lambda _, pipe=arriving: pipe)
        stopped = run(*command, code=3)
        assert stopped.stdout.splitlines() == whole[:before]
        assert f"<stdin>:{7 + (form == 'csv') + bad.strip().count(chr(10))}" in stopped.stderr
        found = run(*command, "--on-bad-row", "skip")
        assert found.stdout.splitlines() == whole and "skipped 1 malformed row" in found.stderr


@pytest.mark.parametrize("size", [20, 10_000])
def test_bad_cells_of_a_pipe_count_the_same_however_rows_arrive(folder, size, monkeypatch):
    text = ("id,a,b,city\n" + "1,1.0,2,Rome\n" + "2,oops,2,Rome\n" * 3 + "3,1,2,Oslo\n").encode()
    pieces = [text[k : k + size] for k in range(0, len(text), size)]
    arriving = Named("<stdin>", pieces)
    monkeypatch.setattr("tunefree.cli.apply.opened", lambda _: arriving)
    found = run("predict", folder / "table.model", "-")
    assert len(found.stdout.split()) == 5
    assert "column 'a': 3 cells are no number, the first 'oops' in <stdin>:3:3" in found.stderr
    stopped = run("predict", folder / "table.model", "-", "--on-bad-cell", "error", code=3)
    assert stopped.stdout.split() == found.stdout.split()[:1]
    assert "<stdin>:3:3" in stopped.stderr or "oops" in stopped.stderr


def answers_of_a_run_that_ends_early(folder, lines, monkeypatch):
    """What a command has answered when it is interrupted as it waits for its next row."""
    answers = []

    def arriving():
        for k in range(0, 60, 20):
            yield b"".join(lines[k : k + 20])
        raise KeyboardInterrupt

    monkeypatch.setattr("tunefree.cli.apply.answer", answers.append)
    monkeypatch.setattr("tunefree.cli.apply.opened", lambda _: Named("<stdin>", arriving()))
    run("predict", folder / "table.model", "-", code=130)
    monkeypatch.undo()
    assert len(answers) > 1
    return "".join(f"{part}\n" for part in answers).encode()


def answers_of_a_process_that_is_killed(folder, lines, _):
    """What it has answered while its pipe was open."""
    command = [sys.executable, "-c", MAIN, "predict", str(folder / "table.model"), "-"]
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **ends)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"".join(lines[:60]))
    process.stdin.flush()
    first = process.stdout.readline()
    process.kill()
    answers = first + process.stdout.read()
    process.stdin.close()
    process.stdout.close()
    assert process.wait() == -9
    return answers


@pytest.mark.parametrize(
    "answers_of", [answers_of_a_run_that_ends_early, answers_of_a_process_that_is_killed]
)
def test_what_ends_early_has_answered_a_prefix_and_the_next_run_goes_on(
    folder, answers_of, monkeypatch
):
    lines = (folder / "rows.csv").read_bytes().splitlines(keepends=True)
    answers = answers_of(folder, lines, monkeypatch)
    whole = run("predict", folder / "table.model", folder / "rows.csv").stdout.encode()
    assert answers and whole.startswith(answers)
    done = answers.count(b"\n")
    rest = b"".join([lines[0], *lines[1 + done :]])
    again = run("predict", folder / "table.model", "-", stdin=rest).stdout.encode()
    assert b"".join(answers.splitlines(keepends=True)[:done]) + again == whole


@pytest.mark.parametrize("command", ["predict", "eval", "train", "look"])
def test_a_pipe_of_another_kind_or_without_rows_is_bad_data(folder, tmp_path, command):
    ROWS.to_parquet(tmp_path / "rows.parquet")
    given = [folder / "table.model", "-"] if command in ("predict", "eval") else ["-"]
    given += [tmp_path / "new"] if command == "train" else []
    found = run(command, *given, stdin=(tmp_path / "rows.parquet").read_bytes(), code=3)
    assert "parquet data must come from a file, not through a pipe" in found.stderr
    assert "no rows" in run(command, *given, stdin=b"", code=3).stderr
