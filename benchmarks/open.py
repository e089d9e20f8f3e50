"""The open benchmark: everything at its defaults, on real tables that no rule was made on.

    python benchmarks/open.py                # run, or go on where the last run ended, and print
    python benchmarks/open.py --summary      # print what is there, and draw the two figures
    python benchmarks/open.py --half open --only MASS/Boston --rows FILE    # try something out

Tables: the sealed half of `frames.csv`, chosen by the rules of `_frames.py`, which look at no
result. They come in a random order (seed 0), so that those done so far are a fair sample. Each is
split three times into three quarters to learn and a quarter to test; classes keep their shares.
Methods: `_open_methods.py`, at their defaults, one thread each; a new class there is one more
method. Each method has a process of its own for a table, and first fits a small made table, so that
imports and compilation are not timed. A fit with its prediction that takes more than ten CPU
minutes, or that ends in an error, has failed; it counts as the constant predictor.

Every finished method and table is appended to docs/results/open.csv. CPU seconds are those of a
fit with its search, microseconds those of a predicted row.

``--methods "AutoGluon, 60 s" "CatBoost, 50 trials"`` runs those that search, too: hours of work.
They have a table of their own, of the tables that they have finished.

``--half press --data CLONE`` runs a second list, by another rule: `_press.py`.
"""

import argparse
import csv
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

import _data
import _frames
import _press
from _open_methods import METHODS
from _tables_peers import measured

DOCS = Path(__file__).resolve().parents[1] / "docs"
SPLITS, TESTED = 3, 0.25
STALLED = 3600.0  # seconds after which a process without progress ends; more for a long method
AT_DEFAULTS = [name for name, method in METHODS.items() if not method.searches]
FIELDS = (
    "table", "kind", "rows", "columns", "method", "split", "tested", "loss", "log_loss", "cpu",
    "predict", "wall", "failure",
)  # fmt: skip
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main():
    options = arguments()
    if not options.summary:
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
        run(options)
    import _open_summary

    _open_summary.show(options.rows, options.figures)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=("sealed", "open", "press"), default="sealed")
    parser.add_argument("--data", metavar="DIR", help="of --half press: the clone (`_press.py`)")
    parser.add_argument("--only", nargs="+", metavar="TABLE", help="these tables only")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=AT_DEFAULTS)
    parser.add_argument("--jobs", type=int, default=2, help="methods at the same time")
    parser.add_argument("--rows", type=Path, default=DOCS / "results/open.csv", metavar="FILE")
    parser.add_argument("--figures", type=Path, default=DOCS / "figures", metavar="DIR")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    return parser.parse_args()


def shuffled(half, only):
    """Names and lines of the list, in random order."""
    lines = _press.in_list() if half == "press" else _frames.in_list(half)
    names = np.random.default_rng(0).permutation(sorted(lines))
    return {name: lines[name] for name in names if not only or name in only}


def run(options):
    """Append the rows of every method and table that the file does not have."""
    for method in map(METHODS.get, options.methods):
        for task in method.tasks:  # a package that is not installed ends the run here
            method().model(task, made(task).X_train)
    lines, results = shuffled(options.half, options.only), Results(options.rows)
    pairs = [(name, method) for name in lines for method in options.methods]
    work = [
        (name, method)
        for name, method in pairs
        if task_of(lines[name]["kind"]) in METHODS[method].tasks
        and (name, method) not in results.known
    ]
    clock, todo, running = Clock(len(work)), jobs(work, lines, options.data), []
    try:
        while len(running) < options.jobs and (job := next(todo, None)):
            running.append(job)
        while running:
            wait([job.pipe for job in running], timeout=1.0)
            for job in [job for job in running if job.ended()]:
                results.append(job.rows)
                clock.show(job)
                running.remove(job)
                running.extend(filter(None, [next(todo, None)]))
    finally:
        for job in running:
            job.stop()


def jobs(work, lines, data):
    """Start the pieces of work, one by one."""
    frame = None
    for name, method in work:
        if frame is None or frame.name != name:
            line = lines[name]
            frame = _press.load(line, data) if "file" in line else _frames.load(line)
        yield Job(frame, method)


def task_of(kind):
    return "Classifier" if kind == "classes" else "Regressor"


class Job:
    """A method on the splits of a table, in a process of its own."""

    def __init__(self, frame, method, longest=None, stalled=None):
        longest = longest or METHODS[method].longest
        stalled = max(STALLED, 2.0 * longest) if stalled is None else stalled
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe(duplex=False)
        self.process = context.Process(
            target=fit_all, args=(other, frame, method, longest), daemon=True
        )
        self.process.start()
        other.close()
        self.about = {
            "table": frame.name, "kind": frame.kind, "rows": frame.X.shape[0],
            "columns": frame.X.shape[1], "method": method,
        }  # fmt: skip
        self.longest, self.stalled, self.rows = longest, stalled, []
        self.warm, self.since = METHODS[method].searches, time.monotonic()

    def ended(self):
        """Read what has come; whether the last split is done, or failed for all of them."""
        while len(self.rows) < SPLITS and self.pipe.poll():
            try:
                self._note(self.pipe.recv())
            except EOFError:
                self.process.join()
                code = self.process.exitcode
                late = code == -signal.SIGXCPU
                self._fail(f"more than {self.longest} CPU s" if late else f"exit code {code}")
        if len(self.rows) < SPLITS and time.monotonic() - self.since > self.stalled:
            self._fail(f"no result after {self.stalled:.0f} s")
        if len(self.rows) == SPLITS:
            self.stop()
        return len(self.rows) == SPLITS

    def stop(self):
        """End the process."""
        self.process.kill()
        self.process.join()

    def _note(self, row):
        """A row of a split; the first one is of the made table."""
        if self.warm:
            self.rows.append({**self.about, "split": len(self.rows), **row})
        self.warm, self.since = True, time.monotonic()

    def _fail(self, reason):
        """Count this split as failed, and those to come, which are of the same size."""
        for split in range(len(self.rows), SPLITS):
            self.rows.append({**self.about, "split": split, "failure": reason})


def fit_all(pipe, frame, method, longest):
    """Send the rows of the made table and of every split."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    os.chdir(tempfile.mkdtemp())  # some methods write files, and to the screen
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    # Imports and compilation of seconds do not matter in a search of minutes.
    first = [] if METHODS[method].searches else [made(task_of(frame.kind))]
    for data in (*first, *splits(frame)):
        start, spent = time.perf_counter(), int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (spent + longest, resource.RLIM_INFINITY))
        try:
            row = fit(data, METHODS[method]())
        except Exception as error:
            row = {"failure": f"{type(error).__name__}: {error}".replace("\n", " ")[:200]}
        pipe.send({**row, "wall": time.perf_counter() - start})


def fit(data, method):
    """The losses and times of a split."""
    row = measured(lambda: method.model(data.task, data.X_train), data)
    del row["losses"]
    if data.task == "Regressor":
        row["loss"] /= np.var(data.y_test)  # 1 - R2
    if not np.isfinite(row["loss"]):
        raise ValueError("predictions are not finite")
    return {**row, "tested": len(data.y_test)}


def splits(frame):
    """Yield the training and test rows of every split."""
    task, y = task_of(frame.kind), frame.y
    if task == "Classifier":
        _, y = np.unique(y, return_inverse=True)
    kind = StratifiedShuffleSplit if task == "Classifier" else ShuffleSplit
    for train, test in kind(SPLITS, test_size=TESTED, random_state=0).split(frame.X, y):
        parts = (frame.X.iloc[train], y[train], frame.X.iloc[test], y[test])
        yield _data.Data(frame.name, task, *parts)


def made(task):
    """A small table with text and missing values."""
    import pandas as pd

    z = np.random.default_rng(0).normal(size=(300, 2))
    text = np.where(z[:, 1] > 0, "a", "b").astype(object)
    text[:9] = None
    X = pd.DataFrame({"number": np.where(z[:, 0] > 2, np.nan, z[:, 0]), "text": text})
    y = z[:, 0] * z[:, 1]
    y = (y > 0).astype(int) if task == "Classifier" else y
    return _data.Data("made", task, X, y, X, y)


class Results:
    """The file of results, to which rows are added."""

    def __init__(self, path):
        self.path, self.known = path, set()
        if path.exists():
            with open(path, newline="") as file:
                self.known = {(row["table"], row["method"]) for row in csv.DictReader(file)}
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(",".join(FIELDS) + "\n")

    def append(self, rows):
        """Add the rows of one method and table, all at once."""
        short = [{k: f"{v:.6g}" if isinstance(v, float) else v for k, v in r.items()} for r in rows]
        with open(self.path, "a", newline="") as file:
            csv.DictWriter(file, FIELDS, lineterminator="\n").writerows(short)


class Clock:
    """Prints what is done, and about how long the rest takes."""

    def __init__(self, total):
        self.total, self.done, self.start = total, 0, time.monotonic()

    def show(self, job):
        """Print a line for a piece of work."""
        self.done += 1
        hours = (time.monotonic() - self.start) / 3600
        left = hours / self.done * (self.total - self.done)
        failed = sum("failure" in row for row in job.rows)
        about = f"{job.about['table']:32} {job.about['method']:24}"
        note = f", {failed} failed" if failed else ""
        times = f"{hours:.2f} h, about {left:.1f} h left{note}"
        print(f"{self.done:4} of {self.total}  {about} {times}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
