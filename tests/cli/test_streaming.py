"""Data learned as they are read: the same model after any interruption, or a sentence."""

import gzip
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from tunefree.cli import app
from tunefree.files.model import load_model

RNG = np.random.default_rng(0)
ROWS = 16_000
X = np.round(RNG.standard_normal((ROWS, 3)), 3)
LABELS = np.where(X[:, 0] + 0.2 * X[:, 1] > 0, 1, -1)
LINES = [
    f"{y} 1:{a} 2:{b} 3:{c}\n" for y, (a, b, c) in zip(LABELS.tolist(), X.tolist(), strict=True)
]
TEXT = "".join(LINES)
MAIN = [sys.executable, "-c", "from tunefree.cli import main; main()"]


def run(*arguments, stdin=None, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.svm").write_text(TEXT)
    return tmp_path


@pytest.fixture
def expected(here):
    run("train", "data.svm", "expected", "--checkpoint", "once", "--seed", 1)
    return (here / "expected").read_bytes()


OPTIONS = ["train", "-", "m", "--checkpoint", "c", "--every", "500", "--seed", "1"]


def wait_for(path, process):
    for _ in range(300):
        if path.exists():
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.kill()
    raise AssertionError("no checkpoint after a minute")


def feed(process, text):
    """Write what is not yet all."""
    process.stdin.write(text.encode())
    process.stdin.flush()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_command_resumes_to_the_same_bytes(here, expected, number, monkeypatch):
    def arriving(_):
        for k in range(0, 12_000, 1000):
            if k == 9000:
                os.kill(os.getpid(), number)
            yield "".join(LINES[k : k + 1000]).encode()

    with monkeypatch.context() as patch:
        patch.setattr("tunefree.cli.train.chunks", arriving)
        err = run(*OPTIONS, code=130).stderr
    assert "interrupted; c holds the state after" in err and "with --resume" in err
    assert not (here / "m").exists()
    run(*OPTIONS, "--resume", stdin=TEXT)
    assert (here / "m").read_bytes() == expected


def test_a_killed_command_resumes_to_the_same_bytes(here, expected):
    ends = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*MAIN, *OPTIONS], **ends) as first:
        feed(first, "".join(LINES[:12_000]))
        wait_for(here / "c", first)
        first.kill()
        first.communicate(timeout=300)
    assert first.returncode == -9 and not (here / "m").exists()
    run(*OPTIONS, "--resume", stdin=TEXT)
    assert (here / "m").read_bytes() == expected


def test_checkpoint_and_large_input_imply_pistol(here, monkeypatch):
    result = run("train", "data.svm", "m", "--checkpoint", "c")
    assert "--checkpoint implies --estimator pistol" in result.stderr
    assert "progressive error" in result.stderr
    monkeypatch.setattr("tunefree.cli.rows._LARGE_FILE", 1000)
    assert "a large file implies --estimator pistol" in run("train", "data.svm", "m2").stderr
    assert (here / "m").read_bytes() == (here / "m2").read_bytes()
    monkeypatch.setattr("tunefree.cli.rows._LARGE_INPUT", 1000)
    result = run("train", "-", "m3", stdin=TEXT)
    assert "large standard input implies --estimator pistol" in result.stderr
    assert (here / "m").read_bytes() == (here / "m3").read_bytes()
    run("train", "data.svm", "m", "--estimator", "kernel", "--checkpoint", "c", code=2)
    run("train", "data.svm", "m", "--resume", code=2)
    (here / "letter").write_text("Dear all,")
    refused = run("train", "data.svm", "m", "--checkpoint", "letter", code=2)
    assert "letter exists and is not a checkpoint" in refused.stderr


def test_a_stream_of_csv_is_matched_by_name_in_prediction(here):
    lines = [
        f"{a},{b},{'up' if y > 0 else 'down'},{c}"
        for y, (a, b, c) in zip(LABELS, X.tolist(), strict=True)
    ]
    (here / "d.csv").write_text("\n".join(["a,b,kind,c", *lines, ""]))
    run("train", "d.csv", "m", "--target", "kind", "--checkpoint", "c")
    (here / "new.csv").write_text("c,b,a\n0,0,3\n0,0,-3\n")
    assert run("predict", "m", "new.csv").stdout.split() == ["up", "down"]
    assert load_model("m").feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "more", [["--estimator", "pistol"], ["--checkpoint", "c", "--every", "100"]]
)
def test_malformed_rows_stop_the_training_or_are_counted(here, more):
    bad = "".join([*LINES[:9500], "1 2:oops\n", *LINES[9500:], "1 1\n"])
    (here / "bad.svm").write_text(bad)
    refused = run("train", "bad.svm", "m", *more, code=3)
    assert "bad.svm:9501:5: the value must be a finite number" in refused.stderr
    assert not (here / "m").exists()
    skipping = run("train", "bad.svm", "m", "--on-bad-row", "skip", *more)
    assert "skipped 2 malformed rows, the first: bad.svm:9501:5" in skipping.stderr
    run("train", "data.svm", "clean", *more)
    assert load_model("m").coef_.tobytes() == load_model("clean").coef_.tobytes()


def test_a_truncated_archive_leaves_the_checkpoint(here, expected, monkeypatch):
    monkeypatch.setattr("tunefree.files.files.CHUNK", 4096)
    options = ["--checkpoint", "c", "--every", 100, "--seed", 1]
    packed = gzip.compress(TEXT.encode())
    (here / "d.gz").write_bytes(packed[: len(packed) // 2])
    assert "end too early" in run("train", "d.gz", "m", *options, code=3).stderr
    (here / "d.gz").write_bytes(packed[:-4])
    assert "end too early" in run("train", "d.gz", "m", *options, "--resume", code=3).stderr
    assert not (here / "m").exists()
    (here / "d.gz").write_bytes(packed)
    run("train", "d.gz", "m", *options, "--resume")
    assert (here / "m").read_bytes() == expected


def test_a_malformed_line_three_hundred_thousand_rows_in(here):
    block = "".join(f"{y} 1:{a}\n" for y, a in zip(LABELS[:1000], X[:1000, 0], strict=True))
    with open(here / "long.svm", "w") as file:
        file.writelines(block for _ in range(300))
        file.write("1 1:oops\n1 1:1\n")
    options = ["--checkpoint", "c", "--every", 100_000]
    refused = run("train", "long.svm", "m", *options, code=3)
    assert "long.svm:300001:5: the value must be a finite number, not 'oops'" in refused.stderr
    assert not (here / "m").exists()
    before = (here / "c").read_bytes()
    skipping = run("train", "long.svm", "m", *options, "--resume", "--on-bad-row", "skip")
    assert "long.svm: 300001 rows" in skipping.stderr
    assert "skipped 1 malformed rows, the first: long.svm:300001:5" in skipping.stderr
    size = len(block) * 300
    with open(here / "long.svm", "r+") as file:  # mended, behind the checkpoint
        file.truncate(size)
        file.seek(size)
        file.write("1 1:1\n")
    (here / "c").write_bytes(before)
    run("train", "long.svm", "mended", *options, "--resume")
    assert load_model("mended").coef_.tobytes() == load_model("m").coef_.tobytes()


def test_a_checkpoint_that_does_not_fit_exits_with_4(here, expected):
    def resume(*more, checkpoint="once"):
        options = ["--checkpoint", checkpoint, "--resume", *more]
        return run("train", "data.svm", "m", *options, code=4).stderr

    run("train", "data.svm", "m", "--checkpoint", "c", "--every", 100, "--seed", 1)
    before = (here / "c").read_bytes()
    assert "another model: random_state=1, not 2" in resume("--seed", 2, checkpoint="c")
    assert "not of a PiSTOLRegressor" in resume("--task", "regression", checkpoint="c")
    assert (here / "c").read_bytes() == before
    (here / "cut").write_bytes(before[:-1])
    assert "truncated" in resume(checkpoint="cut")
    assert "not a 'checkpoint'" in resume(checkpoint="m")


def test_a_full_disk_is_a_sentence_and_the_last_checkpoint_stays(here):
    run("train", "data.svm", "m", "--checkpoint", "c", "--every", 100)
    before = (here / "c").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        refused = run("train", "data.svm", "m2", "--checkpoint", "c", "--every", 100, code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert "c: the checkpoint cannot be written" in refused.stderr
    assert (here / "c").read_bytes() == before
    assert sorted(os.listdir(here)) == ["c", "data.svm", "m"]


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "zst"])
def test_other_formats_train_predict_and_score(here, kind):
    name = {"zst": "d.svm.zst"}.get(kind, f"d.{kind}")
    if kind == "npy":
        np.save(name, np.column_stack([X, LABELS]))
    elif kind == "npz":
        np.savez(name, X=X, y=LABELS)
    elif kind == "zst":
        import zstandard

        (here / name).write_bytes(zstandard.ZstdCompressor().compress(TEXT.encode()))
    else:
        import pyarrow as pa
        from pyarrow import parquet

        columns = {c: X[:, j] for j, c in enumerate("abc")}
        parquet.write_table(pa.table({**columns, "y": LABELS}), name)
    for more in (["--estimator", "pistol"], ["--checkpoint", "c"]):
        run("train", name, "m", *more)
        lines = run("predict", "m", name).stdout.split()
        assert set(lines) == {"1", "-1"}
        assert np.mean(np.array(lines, int) != LABELS) < 0.03
        assert "error" in run("eval", "m", name).stdout


@pytest.mark.parametrize("name", ["separator", "reflectron"])
def test_batch_learners_are_saved_between_passes(here, monkeypatch, name):
    monkeypatch.setattr("tunefree.cli.rows._LARGE_FILE", 100)
    clear = np.flatnonzero(np.abs(X[:, 0] + 0.2 * X[:, 1]) > 0.5)[:300].tolist()
    (here / "data.svm").write_text("".join(LINES[i] for i in clear))
    options = ["--estimator", name, "--passes", 60]
    run("train", "data.svm", "plain", *options)
    run("train", "data.svm", "saved", *options, "--checkpoint", "c", "--every", 1)
    checkpoint = (here / "c").read_bytes()
    run("train", "data.svm", "resumed", *options, "--checkpoint", "c", "--resume")
    models = [(here / m).read_bytes() for m in ("plain", "saved", "resumed")]
    assert models[0] == models[1] == models[2] and checkpoint == (here / "c").read_bytes()
