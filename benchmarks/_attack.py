"""The classes of `attack.py`: each yields the input, and the problem or ''."""

import csv
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse

import tunefree
from _attack_tables import tables
from tunefree.files import DataError, read
from tunefree.files.model import ModelError

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def _tries(options, usual):
    return usual if options.tries is None else options.tries


def _rows(rng, n=600, d=6):
    X = rng.normal(size=(n, d))
    return X, X @ np.arange(float(d)) + 0.1 * rng.normal(size=n)


STREAMS = (
    "KernelPiSTOLRegressor", "KernelPiSTOLClassifier", "PiSTOLRegressor", "PiSTOLClassifier",
    "StreamRegressor", "StreamClassifier", "RidgePathRegressor",
)  # fmt: skip


def _in_child(work, seconds=120):
    """The problem in a forked child, which may crash, or ''."""
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            words = work() or ""
        except BaseException as problem:
            words = f"{type(problem).__name__}: {problem}"
        os.write(outlet, words.encode()[:2000])
        os._exit(0)
    os.close(outlet)
    end, status = time.monotonic() + seconds, 0
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hangs"
        time.sleep(0.01)
    status = done[1]
    with os.fdopen(inlet, "rb") as pipe:
        words = pipe.read().decode(errors="replace")
    return words if status == 0 else f"the interpreter ended with status {status}"


def threads(rng, options):
    """Four threads fit one learner and predict with it."""
    X, y = _rows(rng)

    def attack(name, seed):
        labels = 1 * (y > 0) + (X[:, 0] > 1)
        targets = labels if name.endswith("Classifier") else y
        model = getattr(tunefree, name)().partial_fit(X[:40], targets[:40])
        failed = []

        def work(k):
            own = np.random.default_rng([seed, k])
            for _ in range(25):
                rows = own.integers(0, len(X), own.integers(1, 60))
                try:
                    if own.random() < 0.5:
                        model.partial_fit(X[rows], targets[rows])
                    else:
                        predicted = model.predict(X[rows])
                        if len(predicted) != len(rows) or not np.isfinite(predicted).all():
                            failed.append("an invalid prediction")
                except Exception as problem:
                    failed.append(f"{type(problem).__name__}: {problem}")

        started = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in started:
            t.start()
        for t in started:
            t.join()
        return failed[0] if failed else ""

    for name in STREAMS:
        for seed in range(_tries(options, 20)):
            yield f"{name}, {seed}", _in_child(partial(attack, name, seed))


def storage(rng, options):
    """One stream in alternating dense and sparse chunks of any sizes."""
    X, y = _rows(rng)
    X[rng.random(X.shape) < 0.5] = 0.0
    for name in STREAMS:
        targets = (y > 0) * 1 if name.endswith("Classifier") else y
        whole = getattr(tunefree, name)().partial_fit(X, targets).predict(X)
        for k in range(_tries(options, 10)):
            cuts = np.unique([0, 50, *rng.integers(51, len(X), rng.integers(1, 20)), len(X)])
            model, kind = getattr(tunefree, name)(), rng.integers(3)
            if name in ("PiSTOLRegressor", "PiSTOLClassifier", "RidgePathRegressor"):
                kind = 0  # sparse rows are not centred: another learner, as documented
            for a, b in zip(cuts[:-1], cuts[1:], strict=True):
                chunk = X[a:b]
                if kind == 1 or (kind == 2 and rng.random() < 0.5):
                    chunk = sparse.csr_array(chunk)
                model.partial_fit(chunk, targets[a:b])
            gap = np.abs(model.predict(X).astype(float) - whole).max()
            yield f"{name}, {k}", f"differs by {gap:.2g}" if gap else ""


def models(rng, options):
    """Forged model files with valid checksums: none loads, runs code or takes memory."""
    from test_persistence import forge, header_of, hostile_files

    with tempfile.TemporaryDirectory() as folder:
        path, canary = Path(folder) / "model", Path(folder) / "canary"
        X, y = _rows(rng, 200)
        tunefree.save_model(tunefree.PiSTOLClassifier(random_state=0).fit(X, y > 0), path)
        good, data = header_of(path)
        files = [*hostile_files(path, canary), *_claims(good, data, forge)]
        for k, content in enumerate(files):
            path.write_bytes(content)

            def load():
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                try:
                    tunefree.load_model(path)
                except (ModelError, OSError):
                    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
                    return f"took {grown // 1024} MB" if grown > 200_000 else ""
                return "loads"

            problem = _in_child(load, 20)
            yield f"file {k}", problem or ("ran something" if canary.exists() else "")


def _claims(good, data, forge):
    """Shapes of 10^12 entries, nested JSON, duplicate members."""
    text = json.dumps(good)
    for shape in ("[1000000000000]", "[1000000, 1000000]", "[0, 1000000000000]"):
        yield forge(re.sub(r'"shape": \[[^\]]*\]', f'"shape": {shape}', text), data)
    for depth in (100, 10_000, 200_000):
        yield forge(text[:-1] + ', "x": ' + '{"a":' * depth + "1" + "}" * depth + "}", data)
    for name in re.findall(r'"(\w+)":', text)[:10]:
        yield forge(text[:-1] + f', "{name}": 1, "{name}": 2}}', data)


_BYTES = [b"1", b"-2.5", b"0", b"1e5", b"abc", b'"a,b"', b'"', b"", b" ", b"\t", b"\r", b"\v",
          b"\f", b"\x00", b"\xff", b"nan", b"1:2", b"3:0.5", b"#", b"qid:1", b"9" * 25,
          b"1e400"]  # fmt: skip


def readers(rng, options):
    """One text read as a stream, in small pieces and in memory: the same rows or the same error."""
    draw = random.Random(int(rng.integers(1 << 30)))
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(_tries(options, 3000)):
            kind = draw.choice(("csv", "libsvm"))
            between = b"," if kind == "csv" else b" "
            lines = [
                between.join(draw.choice(_BYTES) for _ in range(draw.randrange(1, 5)))
                for _ in range(draw.randrange(1, 6))
            ]
            if draw.random() < 0.7:  # mostly valid, with one strange byte
                lines = [b"1,2,3" if kind == "csv" else b"1 1:2 3:4"] * 4
                place = draw.randrange(5)
                strange = draw.choice(_BYTES)
                lines[2] = lines[2][:place] + strange + lines[2][place:]
            path = Path(folder) / f"a.{kind}"
            path.write_bytes(draw.choice([b"\n", b"\r\n"]).join(lines) + draw.choice([b"", b"\n"]))
            outcomes = [_outcome(path, way) for way in ("memory", "stream", "pieces")]
            same = all(t == outcomes[0] for t in outcomes)
            yield f"{kind} {path.read_bytes()!r}", "" if same else f"{outcomes}"[:300]


def _outcome(path, way):
    from tunefree.files import files

    try:
        if way == "memory":
            table = read(path)
            X, y = table.X, table.y
        else:
            before, files.CHUNK = files.CHUNK, files.CHUNK if way == "stream" else 3
            try:
                source = tunefree.open_source(str(path))
                chunks = list(source.chunks())
            finally:
                files.CHUNK = before
            d = max(c.X.shape[1] for c in chunks)
            X = np.vstack([_dense(c.X, d) for c in chunks])
            y = np.concatenate([c.y for c in chunks])
        if not X.shape[1]:  # in memory the estimator refuses it
            return "refused", []
        return _dense(X, X.shape[1]).tolist(), [str(v) for v in np.asarray(y).tolist()]
    except (DataError, ValueError) as problem:
        # A stream reads the first rows alone, and its message may differ: compare the line.
        return "refused", re.findall(r":(\d+)", str(problem))[:1]


def _dense(X, d):
    X = X.toarray() if sparse.issparse(X) else X
    return np.hstack([X, np.zeros((X.shape[0], d - X.shape[1]))])


_SAVING = """
import sys, numpy as np, tunefree
X = np.random.default_rng(0).normal(size=(4000, 200))
model = tunefree.PiSTOLRegressor(random_state=0).fit(X, X[:, 0])
print("ready", flush=True)
while True:
    tunefree.save_model(model, sys.argv[1])
"""
_CHECKPOINTS = """
import sys, numpy as np, tunefree
X = np.random.default_rng(0).normal(size=(20000, 100))
print("ready", flush=True)
tunefree.PiSTOLRegressor(max_iter=3).fit_source((X, X[:, 0]), checkpoint=tunefree.Checkpoint(
    sys.argv[1], every=200, resume=True))
"""


def kills(rng, options):
    """Kill -9 while a model is saved again and again, and while a run is saved and resumed."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, code in (("model", _SAVING), ("checkpoint", _CHECKPOINTS)):
            path = Path(folder) / kind
            for k in range(_tries(options, 10)):
                process = subprocess.Popen(
                    [sys.executable, "-c", code, path], stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )  # fmt: skip
                process.stdout.readline()
                time.sleep(0.02 + 0.5 * rng.random())
                process.kill()
                process.wait()
                yield f"{kind} {k}", _whole(kind, path)


def _whole(kind, path):
    if not path.exists():
        return ""
    try:
        if kind == "model":
            tunefree.load_model(path)
        else:
            from tunefree.files.model import load_values

            load_values(str(path), kind="checkpoint")
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


_NAMES = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\x1b[31mred\x1b[0m",
          "=cmd|' /C calc'!A0", "@SUM(1+1)", "+1", "-1+2", "a\nb", "a\tb", "[bold]b[/bold]",
          "\u202eabc", "&amp;", "{{7*7}}", "%s%n", "' or 1=1", "x" * 300]  # fmt: skip


def names(rng, options):
    """Columns and labels with markup, escape sequences and formulas: page, terminal, csv."""
    X, y = _rows(rng, 120, 2)
    with tempfile.TemporaryDirectory() as folder:
        for k, name in enumerate(_NAMES):
            data = Path(folder) / f"{k}.csv"
            with open(data, "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([name, "b", "target"])
                labels = [name if v > 0 else "other" for v in y]
                writer.writerows([*row, label] for row, label in zip(X, labels, strict=True))
            model, page, out = (Path(folder) / f"{k}.{end}" for end in ("m", "html", "out.csv"))
            shown = _command("train", data, model, "--budget", "0.1s")
            if not model.exists():  # refused, with a message that names the file and the line
                problem = "" if f"error: {data}:" in shown else shown[-200:]
                yield f"refusal, {name[:30]!r}", problem
                continue
            shown += _command("inspect", model)
            shown += _command("eval", model, data)
            output = _command("predict", model, data, "-o", out) + _command(
                "report", model, data, "-o", page
            )
            yield f"terminal, {name[:30]!r}", "escape sequences" if "\x1b[31m" in shown else ""
            text = page.read_text() if page.exists() else f"no page: {output[-200:]}"
            bad = re.search(r"<script>alert|<img src=x", text) or not page.exists()
            yield f"page, {name[:30]!r}", f"markup: {text[:80]}" if bad else ""
            labels = _labels_of(out)
            yield f"csv, {name[:30]!r}", "" if labels <= {name, "other"} else f"{labels}"


def _command(*arguments):
    from typer.testing import CliRunner

    from tunefree.cli import app

    return CliRunner().invoke(app, [str(a) for a in arguments]).output


def _labels_of(path):
    """The predictions in a csv file with a header."""
    if not path.exists():
        return {"no predictions"}
    with open(path, newline="") as file:
        return {row["prediction"] for row in csv.DictReader(file)}


CLASSES = {
    "tables": tables, "threads": threads, "storage": storage, "models": models,
    "readers": readers, "kills": kills, "names": names,
}  # fmt: skip
