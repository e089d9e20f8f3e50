"""What only a process of its own can show: streams, signals, exit codes."""

import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
import time

import pytest

import tunefree
from tunefree.cli import app

DATA = "".join(f"{(-1) ** i} 1:{(-1) ** i * (i + 1)} 2:{i % 7}\n" for i in range(200))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.libsvm").write_text(DATA)
    return tmp_path


def run(*arguments):
    """Run a command in this process."""
    app(arguments, standalone_mode=False)


MAIN = "from tunefree.cli import main; main()"


def process(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def test_help_does_not_load_the_numerics():
    code = (
        "import sys\nsys.argv = ['tunefree', '--help']\n"
        "from tunefree.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.exit(any(m in sys.modules for m in ('numba', 'sklearn', 'scipy', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_a_process_keeps_stdout_for_results(here):
    training = process("train", "data.libsvm", "m")
    out, err = training.communicate()
    assert training.returncode == 0 and out == b"" and b"200 rows" in err and b"\x1b" not in err
    predicting = process("predict", "m", "-", stdin=subprocess.PIPE)
    out, err = predicting.communicate(b"1 1:20\n0 1:-20\n")
    assert (out, err, predicting.returncode) == (b"1\n-1\n", b"", 0)


def unread(pipe):
    """How many bytes in a pipe nobody has read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_ctrl_c_exits_with_130_and_leaves_nothing(here):
    waiting = process("train", "-", "m", stdin=subprocess.PIPE)
    waiting.stdin.write(b"1 1:1\n-1 1:2\n")
    waiting.stdin.flush()
    while unread(waiting.stdin):  # until the command has begun to read
        assert waiting.poll() is None
        time.sleep(0.02)
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate()
    assert waiting.returncode == 130 and b"interrupted" in err
    assert not (here / "m").exists()


def test_a_reader_that_has_seen_enough_is_no_error_message(here):
    run("train", "data.libsvm", "m")
    (here / "long.svm").write_text("1 1:1\n" * 100_000)
    with process("predict", "m", "long.svm") as predicting:
        predicting.stdout.readline()
        predicting.stdout.close()
        assert predicting.stderr.read() == b""
    assert predicting.returncode == 1


def said_here(arguments, full, monkeypatch, capsys):
    """The exit code of a command in this process, and what it says."""
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "stdout", full)
        app(arguments)
    return ended.value.code, capsys.readouterr().err


def said_elsewhere(arguments, full, *_):
    """That of a process, which may say more as it ends."""
    command = [sys.executable, "-c", MAIN, *arguments]
    done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("said", [said_here, said_elsewhere])
def test_a_full_disk_behind_stdout_is_a_sentence(here, said, monkeypatch, capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    run("train", "data.libsvm", "m")
    capsys.readouterr()
    for arguments in (["predict", "m", "data.libsvm"], ["eval", "m", "data.libsvm", "--json"]):
        with open("/dev/full", "w") as full:
            code, words = said(arguments, full, monkeypatch, capsys)
        assert (code, words) == (1, "error: standard output: No space left on device\n")


def test_the_package_runs_as_a_module():
    told = subprocess.run(
        [sys.executable, "-m", "tunefree", "--version"], capture_output=True, text=True, check=True
    )
    assert told.stdout.split()[-1] == tunefree.__version__
