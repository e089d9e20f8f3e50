"""Kernels on many rows: risk, cost and memory of fits with defaults.

    python benchmarks/large.py --data DIR [--rows 100000] [--only PART ...] [--jobs 2]

DIR holds the data sets of `_data.py`. The parts:

risks    `KernelRidgeRegressor` on Friedman's first function of 13 columns (noise 1), kin40k and
         protein, against 1,000 landmarks and the same kernel on all rows run to convergence (steps
         until the held-out risk falls by less than 0.01 % in four); risks over the variance of y
classes  `KernelRidgeClassifier` by the squared error and by the log loss on a9a and magic04
race     `TuneFreeRegressor` with defaults on the same tables
mnist    `KernelRidgeClassifier` on MNIST
compress fewer landmarks: microseconds of CPU for a predicted row, risks, changes of predictions
growth   fits on 1,000 to ten times --rows of 20 columns, and the exponent of the cost in the rows
stacks   the same of `TuneFree*` from 10,000 rows on: a smooth law, one with jumps, two classes;
         and `fit_source` on the most rows, which come in chunks
threads  wall seconds with one thread over those with two, the minimum of --times alternating fits,
         and whether the bits are equal; --fits selects fits

Each fit runs in its own process, whose peak memory is printed; compilation is not timed. A fit that
two parts need runs once.
"""

import argparse
import gzip
import hashlib
import json
import resource
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1

import tunefree
from _data import load as load_named
from _tables import table
from tunefree.kernel_ridge import full

TABLES = ("friedman", "kin40k", "protein")
PARTS = ("risks", "classes", "race", "mnist", "compress", "growth", "stacks", "threads")
CLASSES = ("a9a", "magic04")
_CHUNK = 8192  # rows of a chunk of a source
COLUMNS = ["", "rows x columns", "landmarks", "test risk", "CPU s", "wall s", "MB"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fits", nargs="*", help="which fits of threads; by default all")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--one", help="a fit as JSON, for the parent")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(fit(options.data, **json.loads(options.one))))
        return
    for part in options.only:
        globals()[part](options)


def fit(
    folder, data, rows, jobs, estimator="KernelRidgeRegressor", converge=False, columns=13,
    source=False, **more,
):  # fmt: skip
    """Fit few rows to compile, and then all; a dict of the results."""
    X, y, Z, t = load(folder, data, rows, columns)
    model = getattr(tunefree, estimator)(n_jobs=jobs, random_state=0, **more)
    few = slice(9000 if estimator.startswith("TuneFree") else 3000)
    getattr(tunefree, estimator)(n_jobs=jobs, random_state=0, **more).fit(X[few], y[few])
    if converge:
        full._FALL = full._DONE = 1e-4
    cpu, wall = time.process_time(), time.perf_counter()
    if source:
        starts = range(0, len(X), _CHUNK)
        model.fit_source(lambda: ((X[i : i + _CHUNK], y[i : i + _CHUNK]) for i in starts))
    else:
        model.fit(X, y)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    took = []
    for _ in range(3):
        start = time.process_time()
        predicted = model.predict(Z)
        took.append(1e6 * (time.process_time() - start) / len(Z))
    change = getattr(getattr(model, "compression_", None), "change", 0.0)
    classify = hasattr(model, "classes_")
    risk = np.mean(predicted != t) if classify else np.mean(np.square(predicted - t)) / np.var(t)
    own = model.classes_ == t[:, None] if classify else None
    logs = float(-np.log(model.predict_proba(Z)[own]).mean()) if classify else None
    models = getattr(model, "models_", [model])
    marks = max(len(m.dual_coef_) if hasattr(m, "dual_coef_") else 0 for m in models)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    scores = getattr(model, "decision_function", model.predict)(Z)
    bits = hashlib.sha256(scores.tobytes()).hexdigest()
    return {"shape": X.shape, "marks": marks, "risk": risk, "cpu": cpu, "wall": wall, "mb": peak,
            "bits": bits, "log_loss": logs, "micros": min(took),
            "change": change}  # fmt: skip


def load(folder, data, rows, columns):
    """Training and test rows."""
    if data == "friedman":
        X, y = make_friedman1(rows + 5000, columns, noise=1.0, random_state=0)
        return X[5000:], y[5000:], X[:5000], y[:5000]
    if data == "jumps":
        rng = np.random.default_rng(0)
        X = rng.normal(size=(rows + 5000, columns))
        y = np.sign(X[:, 0]) * (X[:, 1] > 0.5) + np.floor(X[:, 2]) + 0.5 * rng.normal(size=len(X))
        return X[5000:], y[5000:], X[:5000], y[:5000]
    if data == "signs":
        rng = np.random.default_rng(0)
        X = rng.normal(size=(rows + 5000, columns))
        y = X[:, :5].sum(axis=1) + rng.logistic(size=len(X)) > 0.0
        return X[5000:], y[5000:], X[:5000], y[:5000]
    if data == "mnist":
        found = []
        for kind in ("train", "t10k"):
            for end, skip in (("images-idx3", 16), ("labels-idx1", 8)):
                with gzip.open(folder / f"mnist-{kind}-{end}-ubyte.gz") as file:
                    found.append(np.frombuffer(file.read(), np.uint8, offset=skip))
        X, y, Z, t = found
        return (X.reshape(-1, 784).astype(np.float32)[:rows], y[:rows],
                Z.reshape(-1, 784).astype(np.float32), t)  # fmt: skip
    if data in CLASSES:
        found = load_named(data, folder)
        X, Z = (getattr(A, "toarray", lambda A=A: A)() for A in (found.X_train, found.X_test))
        return X[:rows], found.y_train[:rows], Z, found.y_test
    found = np.load(folder / f"uci_{data}.npz")
    test = found["test_mask"][:, 0]
    X, y = found["X"], found["y"]
    return X[~test][:rows], y[~test][:rows], X[test], y[test]


def apart(options, **what):
    """`fit` in its own process, once."""
    what = {"rows": options.rows, "jobs": options.jobs} | what
    return _apart(options.data, json.dumps(what, sort_keys=True))


@cache
def _apart(folder, what):
    command = [sys.executable, __file__, "--data", str(folder), "--one", what]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def line(name, found):
    """The results of a fit, as a row of a table."""
    n, d = found["shape"]
    return (name, f"{n} x {d}", found["marks"], f"{found['risk']:.5f}", f"{found['cpu']:.1f}",
            f"{found['wall']:.1f}", f"{found['mb']:.0f}")  # fmt: skip


def risks(options):
    """Risk against the same kernel run to convergence."""
    rows = []
    for data in TABLES:
        auto = apart(options, data=data)
        few = apart(options, data=data, n_landmarks=1000)
        whole = apart(options, data=data, n_landmarks="all", converge=True)
        rows += [line(data, auto), line("  1,000 landmarks", few), line("  to convergence", whole)]
        rows.append(("  risk over it", "", "", f"{auto['risk'] / whole['risk']:.4f}", "", "", ""))
    table("KernelRidgeRegressor, Gaussian kernel", COLUMNS, rows)


def classes(options):
    """Squared error against log loss."""
    rows = []
    for data in CLASSES:
        for loss in ("squared_error", "log_loss"):
            found = apart(options, data=data, estimator="KernelRidgeClassifier", loss=loss)
            name, shape, marks, risk, *cost = line(f"{data}, {loss}", found)
            rows.append((name, shape, marks, risk, f"{found['log_loss']:.4f}", *cost))
    table("KernelRidgeClassifier", [*COLUMNS[:3], "test error", "log loss", *COLUMNS[4:]], rows)


def race(options):
    """Fits of TuneFree with defaults."""
    found = {data: apart(options, data=data, estimator="TuneFreeRegressor") for data in TABLES}
    table("TuneFreeRegressor", COLUMNS, [line(*one) for one in found.items()])


def mnist(options):
    """Ten classes of 784 columns."""
    found = apart(options, data="mnist", estimator="KernelRidgeClassifier")
    table("KernelRidgeClassifier", COLUMNS, [line("MNIST", found)])


def compress(options):
    """Fewer landmarks."""
    rows = []
    for data, kind in (("kin40k", "Regressor"), ("magic04", "Classifier")):
        for asked in (None, 0.01, 300):
            found = apart(
                options, data=data, rows=8000, estimator=f"KernelRidge{kind}", compress=asked
            )
            name, shape, marks, risk, *_ = line(f"{data}, compress={asked}", found)
            last = found["log_loss"]
            shown = "" if last is None else f"{last:.4f}"
            rows.append((name, shape, marks, risk, shown, f"{found['change']:.1e}",
                         f"{found['micros']:.1f}"))  # fmt: skip
    columns = [*COLUMNS[:4], "log loss", "change", "microseconds a row"]
    table("KernelRidge* with fewer landmarks", columns, rows)


def growth(options):
    """The cost of one kernel in the rows."""
    grow(options, "friedman", "KernelRidgeRegressor", 1000)


def stacks(options):
    """The cost of stacks in the rows, over three laws."""
    for data, kind in (("friedman", "Regressor"), ("jumps", "Regressor"), ("signs", "Classifier")):
        name, rows = f"TuneFree{kind}", 10 * options.rows
        grow(options, data, name, 10_000)
        found = apart(options, data=data, rows=rows, columns=20, estimator=name, source=True)
        table(f"{name}.fit_source, {data}", COLUMNS, [line("", found)])


def grow(options, data, estimator, least):
    """The exponent of the CPU seconds in the rows, if there are several sizes."""
    sizes = [n for n in (1000, 10_000, 100_000, 1_000_000) if least <= n <= 10 * options.rows]
    found = [apart(options, data=data, rows=n, columns=20, estimator=estimator) for n in sizes]
    spent = [one["cpu"] for one in found]
    table(f"{estimator}, {data}", COLUMNS, [line("", one) for one in found])
    if len(sizes) < 2:
        return
    steps = np.diff(np.log(spent)) / np.diff(np.log(sizes))
    overall = np.polyfit(np.log(sizes), np.log(spent), 1)[0]
    print(f"CPU seconds grow as rows to the power {', '.join(f'{s:.2f}' for s in steps)} from size "
          f"to size, {overall:.2f} overall")  # fmt: skip


def threads(options):
    """One thread against two."""
    rows = []
    fits = {
        "1,000 landmarks": {"data": "friedman", "n_landmarks": 1000},
        "all rows": {"data": "kin40k", "n_landmarks": "all"},
        "race": {"data": "kin40k", "estimator": "TuneFreeRegressor"},
        "GLM": {
            "data": "signs", "estimator": "GLMClassifier", "rows": 100_000, "columns": 100,
        },
    }  # fmt: skip
    for name in options.fits or fits:
        what = {"rows": min(options.rows, 12_000)} | fits[name]
        runs = [
            [apart(options, **what, jobs=jobs) for jobs in (1, 2)] for _ in range(options.times)
        ]
        one, two = (min(found, key=lambda run: run["wall"]) for found in zip(*runs, strict=True))
        same = "equal" if one["bits"] == two["bits"] else "different"
        rows.append((name, "{} x {}".format(*one["shape"]), f"{one['wall']:.1f}",
                     f"{two['wall']:.1f}", f"{one['wall'] / two['wall']:.2f}", same))  # fmt: skip
    columns = ["", "rows x columns", "wall s, 1 thread", "2 threads", "ratio", "predictions"]
    table("Threads", columns, rows)


if __name__ == "__main__":
    main()
