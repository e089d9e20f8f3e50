"""Streams, each row predicted before it is learned: tunefree, river, vw and the last label.

    python benchmarks/streams.py [--only METHOD ...] [--on STREAM ...] [--rows N] [--large N]
        [--out FILE]

Accuracy and log loss of all rows but the first; wall and CPU microseconds to predict and learn a
row through the interface of each library for single rows; all with defaults (linear models of river
after its running StandardScaler, as in its guide). elec2 is the electricity market of New South
Wales, with its calendar columns. The others are from river: SEA is its generator with the four
published concepts one after the other and a tenth of the labels flipped; hyperplane, LED and random
RBF are its generators with drift; phishing, segments and bananas are its data sets. "shuffled" has
the same rows in random order: without drift nothing should be lost. Results already in FILE (JSON)
are kept; the printed table holds all of them.
"""

import argparse
import gzip
import json
import math
import random
import resource
import time
from pathlib import Path

import numpy as np

from tunefree import PiSTOLClassifier, StreamClassifier
from tunefree.streams.state import N_MEMBERS

DATA = Path(__file__).parents[2] / "shared" / "data"
HERE = Path(__file__).parents[1] / "docs" / "results" / "streams.json"


def elec2():
    with gzip.open(DATA / "elec2.csv.gz", "rt") as file:
        names = file.readline().strip().split(",")[1:-1]
        for line in file:
            _, *x, y = line.strip().split(",")
            yield dict(zip(names, map(float, x), strict=True)), y == "UP"


def sea(rows):
    from river.datasets import synth

    for i, variant in enumerate((0, 1, 2, 3)):
        yield from synth.SEA(variant=variant, noise=0.1, seed=i).take(rows // 4)


def streams(rows):
    """Name and rows of each stream."""
    from river import datasets
    from river.datasets import synth

    made = {
        "elec2": elec2,
        "SEA": lambda: sea(rows),
        "hyperplane": lambda: synth.Hyperplane(
            seed=1, n_features=10, n_drift_features=5, mag_change=0.01, noise_percentage=0.05
        ).take(rows),
        "LED": lambda: synth.LEDDrift(seed=1, noise_percentage=0.1, n_drift_features=4).take(rows),
        "RBF": lambda: synth.RandomRBFDrift(
            seed_model=1, seed_sample=1, n_features=10, n_centroids=20, change_speed=0.001,
            n_drift_centroids=10,
        ).take(rows),
        "phishing": datasets.Phishing,
        "segments": datasets.ImageSegments,
        "bananas": datasets.Bananas,
    }  # fmt: skip
    return {name: [(x, y) for x, y in make()] for name, make in made.items()}


class NoChange:
    """The last label."""

    last = None

    def predict_proba_one(self, x):
        """Probability 1 for the last label."""
        return {} if self.last is None else {self.last: 1.0}

    def learn_one(self, x, y):
        """Store the label."""
        self.last = y


class Wabbit:
    """vw --coin, one example at a time through its binding: one logistic loss a class."""

    def __init__(self):
        import vowpalwabbit

        self.make, self.learners = vowpalwabbit.Workspace, {}

    def _line(self, x):
        return "| " + " ".join(f"{k}:{float(v):.9g}" for k, v in x.items())

    def predict_proba_one(self, x):
        """Probabilities of the classes, normalized to a sum of 1."""
        if not self.learners:
            return {}
        line = self._line(x)
        p = {y: model.predict(line) for y, model in self.learners.items()}
        total = sum(p.values())
        return {y: v / total for y, v in p.items()}

    def learn_one(self, x, y):
        """Update the model of every class."""
        if y not in self.learners:
            options = ["--quiet", "--coin", "--loss_function", "logistic", "--link", "logistic"]
            self.learners[y] = self.make(arg_list=options)
        line = self._line(x)
        for label, model in self.learners.items():
            model.learn(f"{1 if label == y else -1} {line}")


def methods(classes):
    from river import forest, linear_model, multiclass, preprocessing, tree

    def linear(model):
        if classes > 2:
            model = multiclass.OneVsRestClassifier(model)
        return preprocessing.StandardScaler() | model

    return {
        "tunefree": StreamClassifier,
        "LogisticRegression": lambda: linear(linear_model.LogisticRegression()),
        "ALMA": lambda: linear(linear_model.ALMAClassifier()),
        "PA": lambda: linear(linear_model.PAClassifier()),
        "HoeffdingAdaptiveTree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0),
        "ARF": lambda: forest.ARFClassifier(seed=0),
        "vw --coin": Wabbit,
        "no change": NoChange,
    }


def walk(model, rows):
    """Accuracy, log loss and microseconds of a model that predicts each row before its label."""
    right = loss = 0.0
    proba = True
    wall, cpu = time.perf_counter(), time.process_time()
    for t, (x, y) in enumerate(rows):
        if proba:
            try:
                probabilities = model.predict_proba_one(x)
            except NotImplementedError:
                proba = False
        if proba:
            best = max(probabilities, key=probabilities.__getitem__) if probabilities else None
        else:
            best = model.predict_one(x)
        model.learn_one(x, y)
        if t:
            right += best == y
            if proba:
                loss -= math.log(min(max(probabilities.get(y, 0.0), 1e-6), 1.0))
    n = len(rows)
    return {
        "accuracy": right / (n - 1),
        "log loss": loss / (n - 1) if proba else None,
        "wall": (time.perf_counter() - wall) / n * 1e6,
        "cpu": (time.process_time() - cpu) / n * 1e6,
        "rows": n,
    }


def chunked(rows):
    """Microseconds a row of one call for all rows, and progressive errors of PiSTOL and ours."""
    X = np.array([list(x.values()) for x, _ in rows], dtype=float)
    y = np.array([y for _, y in rows])
    out = {}
    for name, model in (
        ("tunefree, one chunk", StreamClassifier()),
        ("PiSTOL", PiSTOLClassifier()),
    ):
        type(model)().partial_fit(X[:200], y[:200], classes=np.unique(y))
        cpu, wall = time.process_time(), time.perf_counter()
        model.partial_fit(X, y, classes=np.unique(y))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if name == "PiSTOL":
            error = model.progressive_risk()  # of its best candidate, in hindsight
        else:
            error = model.progressive_error_
        n = len(y)
        out[name] = {
            "accuracy": 1.0 - error, "log loss": None, "wall": wall / n * 1e6,
            "cpu": cpu / n * 1e6, "rows": n,
        }  # fmt: skip
    return out


def late(rows, delay):
    """Predictions with late labels, and those of single members: one rate of forgetting."""
    model, n = StreamClassifier(), len(rows)
    K = N_MEMBERS
    right, loss = np.zeros(K + 1), np.zeros(K + 1)
    for t in range(n + delay):
        if t < n and model._ready:
            x, y = rows[t]
            found, codes = model.predict_proba_one(x, key=t), model._codes()
            answer = next((p for label, p in found.items() if codes[label] == 1), 0.5)
            p = np.append(1.0 / (1.0 + np.exp(-model._waiting[t][:K])), answer)
            code = codes.get(y, 1)
            right += (p > 0.5) == code
            loss -= np.log(np.maximum(p if code else 1.0 - p, 1e-6))
        if t >= delay:
            model.learn_one(*rows[t - delay], key=t - delay)
    rate = right / (n - delay)
    print(f"\nelec2, labels {delay} rows late: accuracy {100 * rate[K]:.2f} %, log loss "
          f"{loss[K] / (n - delay):.3f}; the best member of each: {100 * rate[:K].max():.2f} %, "
          f"{loss[:K].min() / (n - delay):.3f}")  # fmt: skip


def hostile(rows):
    """One row in a hundred has an entry of 1e3 to 1e100, or NaN."""
    X = np.array([list(x.values()) for x, _ in rows])
    y = [label for _, label in rows]
    clean = 1.0 - StreamClassifier().partial_fit(X, y).progressive_error_
    rng = np.random.default_rng(0)
    for i in np.flatnonzero(rng.random(len(X)) < 0.01):
        value = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(3, 100)
        X[i, rng.integers(X.shape[1])] = np.nan if rng.random() < 0.2 else value
    model = StreamClassifier().partial_fit(X, y)
    kept = (1.0 - model.progressive_error_) / clean
    print(f"elec2, one row in 100 an outlier: {100 * kept:.2f} % of the accuracy, "
          f"{model.n_outlier_rows_} outlier rows")  # fmt: skip


def quickest(rows):
    """Microseconds a row without interruptions: the fastest of many short calls."""
    X = np.array([list(x.values()) for x, _ in rows[:4000]])
    y = np.array([label for _, label in rows[:4000]])
    model, named = StreamClassifier().partial_fit(X, y), StreamClassifier()
    pistol = PiSTOLClassifier().partial_fit(X, y)
    for x, label in rows[:4000]:
        named.learn_one(x, label)

    def one_by_one():
        for x, label in rows[:20]:
            named.predict_one(x)
            named.learn_one(x, label)

    def singly():
        for i in range(64):
            pistol.partial_fit(X[i : i + 1], y[i : i + 1])

    chunk = np.arange(1001) * X.shape[1], np.empty(0, dtype=np.int64), X[:1000].ravel()
    codes, ones = y[:1000].astype(np.int64), np.ones(1000)
    for name, call, n in (
        ("a question and its answer, dicts", one_by_one, 20),
        ("a row of a chunk", lambda: model.mixture_.learn(chunk, codes, ones), 1000),
        ("PiSTOL's partial_fit of one row", singly, 64),
    ):
        least, end = math.inf, time.monotonic() + 8.0
        while time.monotonic() < end:
            start = time.perf_counter()
            call()
            least = min(least, time.perf_counter() - start)
        print(f"quickest, elec2: {name}: {least / n * 1e6:.1f} us")


def large(rows):
    """Memory over a long stream."""
    model, rng, peaks = StreamClassifier(), np.random.default_rng(0), []
    for i in range(rows // 25_000):
        X, angle = rng.normal(size=(25_000, 8)), i / 20
        y = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) + 0.3 * rng.normal(size=25_000) > 0
        model.partial_fit(X, y)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    print(
        f"{model.mixture_.rows:,} rows: {peaks[0]} MB at the first 25,000, "
        f"{peaks[-1]} MB at the end"
    )


def show(found):
    """Print all results in the file."""
    names = list(dict.fromkeys(name for row in found.values() for name in row))
    for stream, row in found.items():
        n = next(iter(row.values()))["rows"]
        print(f"\n{stream}: {n:,} rows")
        print(f"{'':24}{'accuracy %':>11}{'log loss':>10}{'us wall':>10}{'us CPU':>10}")
        for name in names:
            if name in row:
                r = row[name]
                loss = "-" if r["log loss"] is None else f"{r['log loss']:.3f}"
                print(f"{name:24}{100 * r['accuracy']:11.2f}{loss:>10}{r['wall']:10.1f}"
                      f"{r['cpu']:10.1f}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--on", nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument(
        "--large", type=int, default=0, help="rows of a stream whose memory is printed"
    )
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    warm = StreamClassifier()
    warm.learn_one({"a": 1.0}, 0)
    warm.predict_one({"a": 1.0})
    for stream, rows in streams(options.rows).items():
        shuffled = random.Random(0).sample(rows, len(rows))
        for name, data in ((stream, rows), (f"{stream}, shuffled", shuffled)):
            if options.on and name not in options.on:
                continue
            kept = found.setdefault(name, {})
            classes = len({y for _, y in data})
            for method, make in methods(classes).items():
                slow = method in ("ARF", "HoeffdingAdaptiveTree", "vw --coin", "ALMA", "PA")
                if method in kept and method not in options.only:
                    continue
                if options.only and method not in options.only or slow and data is shuffled:
                    continue
                kept[method] = walk(make(), data)
                options.out.write_text(json.dumps(found, indent=1) + "\n")
            if not options.only or "tunefree, one chunk" in options.only:
                kept.update(chunked(data))
                options.out.write_text(json.dumps(found, indent=1) + "\n")
    show(found)
    market = [*elec2()]
    late(market, 48)
    hostile(market)
    quickest(market)
    if options.large:
        large(options.large)


if __name__ == "__main__":
    main()
