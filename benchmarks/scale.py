"""Data larger than memory: peak memory, reading speed, training against peers, and kill -9.

python benchmarks/scale.py [--gigabytes 10] [--kills 100] [--folder DIR] [--cluster-rows N]
                           [--cluster-kills 20] [--data DIR] [--cluster] [--only pipes]

`--gigabytes 0`, `--kills 0` and `--cluster-rows 0` skip their parts; `--cluster` runs only the
last one, and `--only pipes` only the rows a second through a pipe, of csv, JSON lines and libsvm
text, with a linear model and with a stack.

A libsvm file of the given size is made in DIR (a temporary folder by default) and deleted at the
end. CPU seconds are those of the whole process and its threads; MB are 10^6 bytes of text. Reading
is timed on the first gigabyte, the peers (scikit-learn, Vowpal Wabbit) on the first 200 MB.
The kills interrupt a training on 40,000 rows of 2,000 columns at random moments, and resume it each
time; it runs in a fork of a process that has loaded all modules, so that the kills hit the
learning. The last part (`_cluster.py`) is about Dask: speed-up, the cost of a round, dying workers.
"""

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from _tables import table

COLUMNS, ENTRIES = 100_000, 40
# At its end a process writes its CPU seconds since START and its own peak memory (that of `wait4`
# includes memory of the parent before the fork).
PROLOGUE = """
import atexit, time
START = 0.0
def write():
    status = open("/proc/self/status").read()
    peak = status[status.index("VmHWM:"):].split()[1]
    open("measured", "w").write(f"{time.process_time() - START} {peak}")
atexit.register(write)
"""
MAIN = [sys.executable, "-c", PROLOGUE + "from tunefree.cli import main; main()"]


def main():
    options = arguments()
    if options.only == "pipes":
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            pipes(Path(folder))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = Path(folder)
        if options.gigabytes:
            warm_up(folder)
            apart(make, folder / "data.svm", int(options.gigabytes * 1e9))
            cut(folder / "data.svm", folder / "read.svm", 1_000_000_000)
            cut(folder / "data.svm", folder / "peer.svm", 200_000_000)
            reading(folder)
            training(folder)
        if options.kills:
            killing(folder, options.kills)
    if options.cluster_rows:
        from _cluster import run_part

        run_part(options.cluster_rows, 200, options.cluster_kills, options.data)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--cluster-rows", type=int, default=2_000_000, help="0: no Dask")
    parser.add_argument("--cluster-kills", type=int, default=20)
    parser.add_argument("--data", type=Path, help="folder of data sets: averages on a9a, too")
    parser.add_argument("--only", choices=["pipes"], help="this part alone")
    parser.add_argument("--cluster", action="store_true", help="the part about Dask alone")
    options = parser.parse_args()
    if options.cluster:
        options.gigabytes = options.kills = 0
    return options


def lines(rows, seed, columns=COLUMNS):
    """Rows of text: Zipf columns, binary labels of a linear rule with noise."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(1).standard_normal(columns)
    drawn = np.minimum((columns ** rng.random((rows, ENTRIES))).astype(int), columns - 1)
    values = rng.integers(1, 1000, (rows, ENTRIES))
    out = []
    for j, v in zip(drawn, values, strict=True):
        j, first = np.unique(j, return_index=True)
        v = v[first] / 1000
        label = "+1" if weights[j] @ v + rng.standard_normal() > 0 else "-1"
        pairs = map("%d:%.3f".__mod__, zip((j + 1).tolist(), v.tolist(), strict=True))
        out.append(f"{label} {' '.join(pairs)}\n")
    return "".join(out).encode()


def make(path, size):
    """Repeat 64 MB of random rows, each time in another order, until the file is large enough."""
    pool = lines(200_000, 0).splitlines(keepends=True)
    rng, written = np.random.default_rng(2), 0
    with open(path, "wb") as file:
        while written < size:
            order = rng.permutation(len(pool))
            text = b"".join([pool[i] for i in order])[: size - written]
            text = text[: text.rfind(b"\n") + 1]
            if not text:
                break
            written += file.write(text)


def apart(function, *arguments):
    """Call a function in a new process, so that this one stays small."""
    process = multiprocessing.Process(target=function, args=arguments)
    process.start()
    process.join()


def cut(source, target, size):
    """The first bytes of a file, up to a whole line."""
    with open(source, "rb") as file, open(target, "wb") as out:
        while size > 0 and (text := file.read(min(size, 1 << 20))):
            text = text if len(text) < size else text[: text.rfind(b"\n") + 1]
            out.write(text)
            size -= 1 << 20


def warm_up(folder):
    """Compile and cache all kernels that are used below."""
    (folder / "small.svm").write_bytes(lines(2000, 3))
    measured([*MAIN, "train", "small.svm", "small", "--checkpoint", "c"], folder)
    make_csv(folder / "small.csv", 1000)
    measured([*MAIN, "train", "small.csv", "small", "--checkpoint", "d"], folder)


def measured(command, folder):
    """Run a command: wall and CPU seconds, peak memory in MB."""
    start = time.perf_counter()
    installed = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # bytecode is stored
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=folder, env=installed, **silent)
    status = process.wait()
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"{command} ended with status {status}")
    cpu, peak = (folder / "measured").read_text().split()
    return wall, float(cpu), int(peak) / 1024


def python(code, *arguments):
    return [sys.executable, "-c", PROLOGUE + code, *map(str, arguments)]


READ = """
import sys
from tunefree.files.libsvm import blocks
START = time.process_time()
print(sum(len(block.labels) for block, _ in blocks(sys.argv[1])))
"""
SOURCE = """
import sys
from tunefree import open_source
START = time.process_time()
print(sum(len(chunk) for chunk in open_source(sys.argv[1]).chunks()))
"""
PEER = """
import sys
from sklearn.datasets import load_svmlight_file
START = time.process_time()
print(load_svmlight_file(sys.argv[1])[0].shape)
"""


def reading(folder):
    """MB/s of reading, without the start of the interpreter."""
    rows = []
    for name, code, file in (
        ("tunefree parser", READ, "read.svm"),
        ("open_source, with its thread", SOURCE, "read.svm"),
        ("load_svmlight_file", PEER, "peer.svm"),
    ):
        size = (folder / file).stat().st_size / 1e6
        wall, cpu, memory = measured(python(code, file), folder)
        speed = size / cpu
        rows.append((name, size, wall, cpu, speed, memory))
    best = rows[-1][4]
    table(
        "Reading libsvm text",
        ("", "MB", "wall s", "CPU s", "MB / CPU s", "times peer", "peak MB"),
        [
            (n, f"{s:.0f}", f"{w:.1f}", f"{c:.1f}", f"{v:.0f}", f"{v / best:.1f}", f"{m:.0f}")
            for n, s, w, c, v, m in rows
        ],
    )


WABBIT = """
import sys
from vowpalwabbit import Workspace
vw = Workspace(arg_list=["--quiet", "--pistol", "--loss_function", "logistic", "-b", "18"])
for line in open(sys.argv[1]):
    label, _, rest = line.partition(" ")
    vw.learn(label + " | " + rest)
"""
PARTIAL = """
import sys
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier
X, y = load_svmlight_file(sys.argv[1])
X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")  # SGD takes no int64
SGDClassifier(loss="log_loss").partial_fit(X, y, classes=[-1, 1])
"""
PARTIAL_CSV = """
import sys
import pandas
from sklearn.linear_model import SGDClassifier
model = SGDClassifier(loss="log_loss")
for chunk in pandas.read_csv(sys.argv[1], chunksize=10_000):
    X = chunk.to_numpy()
    model.partial_fit(X[:, :-1], X[:, -1], classes=[0, 1])
"""


def make_csv(path, size, columns=20):
    """Rows of normal columns with six digits, and labels of a linear rule with noise."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((100_000, columns))
    y = X @ rng.standard_normal(columns) + rng.standard_normal(len(X)) > 0
    pool = [",".join(["%.6g"] * columns + ["%d\n"]) % (*x, t) for x, t in zip(X, y, strict=True)]
    with open(path, "w") as file:
        written = file.write(",".join([f"c{j}" for j in range(columns)] + ["y\n"]))
        while written < size:
            written += file.write("".join([pool[i] for i in rng.permutation(len(pool))]))


def training(folder):
    """One pass of learning from text: the large file, and the peers on the first megabytes."""
    apart(make_csv, folder / "peer.csv", 200_000_000)
    command = [*MAIN, "train", "{}", "model", "--checkpoint", "large", "--every", "2000000"]
    jobs = [
        ("tunefree train", command, "data.svm"),
        ("tunefree train", command, "peer.svm"),
        ("load_svmlight_file + SGD", python(PARTIAL, "{}"), "peer.svm"),
        ("tunefree train, csv", command, "peer.csv"),
        ("read_csv + SGD", python(PARTIAL_CSV, "{}"), "peer.csv"),
    ]
    try:
        import vowpalwabbit  # noqa: F401

        jobs.append(("vw --pistol (Python binding)", python(WABBIT, "{}"), "peer.svm"))
    except ImportError:
        print("vowpalwabbit is not installed: skipped")
    rows = []
    for name, job, file in jobs:
        size = (folder / file).stat().st_size / 1e6
        wall, cpu, memory = measured([part.replace("{}", file) for part in job], folder)
        row = (name, f"{size:.0f}", f"{wall:.1f}", f"{cpu:.1f}", f"{size / wall:.0f}")
        rows.append((*row, f"{size / cpu:.1f}", f"{memory:.0f}"))
    table(
        "One pass of training from text",
        ("", "MB", "wall s", "CPU s", "MB / s", "MB / CPU s", "peak MB"),
        rows,
    )


def pipes(folder):
    """Rows a second through ``tunefree predict MODEL -``, and the wait for a row that comes alone.

    The rows of a pipe are compared with those of the file at once: equal bits, or the largest
    difference, since kernels are summed in blocks of rows.
    """
    rng = np.random.default_rng(6)
    X = rng.standard_normal((200_000, 10)).round(5)
    y = (X @ rng.standard_normal(10) + np.sin(3.0 * X[:, 0]) * X[:, 1]).round(4)
    names = [f"c{j}" for j in range(10)]
    text = {
        "csv": [
            ",".join([*names, "y"]),
            *(",".join(map(str, [*x, t])) for x, t in zip(X, y, strict=True)),
        ],
        "jsonl": [json.dumps(dict(zip(names, x, strict=True))) for x in X.tolist()],
        "svm": [" ".join(f"{j}:{v}" for j, v in enumerate(x, 1)) for x in X.tolist()],
    }
    for form, rows in text.items():
        (folder / f"rows.{form}").write_text("\n".join(rows) + "\n")
    (folder / "train.csv").write_text("\n".join(text["csv"][:4001]) + "\n")
    found = []
    for name, estimator in (("linear", "pistol"), ("stack", "auto")):
        measured([*MAIN, "train", "train.csv", name, "--estimator", estimator], folder)
        for form in ("csv", "jsonl"):
            found.append(_through_pipe(folder, name, f"rows.{form}"))
    measured([*MAIN, "train", "svm.svm", "sparse", "--estimator", "pistol"], _labelled(folder, y))
    found.append(_through_pipe(folder, "sparse", "rows.svm"))
    head = ("model", "rows", "start s", "rows/s", "rows/CPU s", "wait ms", "from the file")
    table("Rows through a pipe", head, found)


def _labelled(folder, y):
    """The folder, in which the first rows of libsvm text have labels."""
    with open(folder / "rows.svm") as file:
        rows = [next(file) for _ in range(4000)]
    text = "".join(f"{t} {row}" for t, row in zip(y, rows, strict=False))
    (folder / "svm.svm").write_text(text)
    return folder


def _through_pipe(folder, model, file):
    """A row of the table."""
    with open(folder / file, "rb") as stream:
        lines = stream.readlines()
    n_head = int(file.endswith(".csv"))
    start, usage = time.perf_counter(), os.times()
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([*MAIN, "predict", model, "-"], cwd=folder, **ends)
    source, answers = process.stdin, process.stdout
    waits, at = [], n_head + 1
    source.write(b"".join(lines[:at]))
    source.flush()
    out = [answers.readline()]
    started = time.perf_counter() - start
    for line in lines[at : at + 50]:
        sent = time.perf_counter()
        source.write(line)
        source.flush()
        out.append(answers.readline())
        waits.append(time.perf_counter() - sent)
    rest = lines[at + 50 :]
    writer = threading.Thread(target=lambda: (source.write(b"".join(rest)), source.close()))
    start = time.perf_counter()
    writer.start()
    out.append(answers.read())
    seconds = time.perf_counter() - start
    writer.join()
    process.wait()
    cpu = os.times().children_user + os.times().children_system
    cpu -= usage.children_user + usage.children_system
    whole = subprocess.run([*MAIN, "predict", model, file], cwd=folder, stdout=subprocess.PIPE)
    ours, all_at_once = (np.array(text.split(), float) for text in (b"".join(out), whole.stdout))
    same = "same" if (ours == all_at_once).all() else f"{np.abs(ours - all_at_once).max():.0e}"
    speeds = f"{len(rest) / seconds:,.0f}", f"{len(rest) / cpu:,.0f}"
    wait = f"{1e3 * np.median(waits):.1f}"
    return model, file, f"{started:.1f}", *speeds, wait, same


def killing(folder, kills):
    """Kill -9 at random moments and resume, so many times; compare the bytes of the models."""
    (folder / "kill.svm").write_bytes(lines(40_000, 4, 2000))
    rng = np.random.default_rng(0)
    train(folder, "warm")
    start = time.perf_counter()
    finish(fork_training(folder, "whole"))
    wall = time.perf_counter() - start
    expected = digest(folder / "whole")
    done, same, runs, early = 0, 0, 0, 0
    while done < kills:
        runs += 1
        name = f"run{runs}"
        while True:
            process = fork_training(folder, name)
            if done == kills or finish(process, rng.uniform(0.0, 1.0) * wall):
                break
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            done += 1
            early += not (folder / f"{name}.checkpoint").exists()
        if done == kills:
            finish(process)
        same += digest(folder / name) == expected
        for path in folder.glob(f"*{name}*"):
            path.unlink()
    table(
        "kill -9 at random moments, then --resume",
        ("kills", "before a checkpoint", "runs", "same bytes as uninterrupted"),
        [(done, early, runs, f"{same} of {runs}")],
    )


def train(folder, name):
    """Train on the rows in this process, with a checkpoint every 1,000; the exit code."""
    from tunefree.cli import app

    path = str(folder / name)
    options = ["--checkpoint", f"{path}.checkpoint", "--every", "1000", "--resume"]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        try:
            app(["train", str(folder / "kill.svm"), path, *options])
        except SystemExit as end:
            return end.code or 0


def fork_training(folder, name):
    """`train` in a fork of this process; returns its process id."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            code = train(folder, name)
        finally:
            os._exit(code)
    return process


def finish(process, seconds=None):
    """Wait for a process; False if it is not done after so many seconds."""
    until = None if seconds is None else time.perf_counter() + seconds
    while until is None or time.perf_counter() < until:
        number, status = os.waitpid(process, 0 if until is None else os.WNOHANG)
        if number:
            if status:
                raise SystemExit(f"the training ended with status {status}")
            return True
        time.sleep(0.002)
    return False


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
