"""Processes that are killed, interrupted or have a full disk; each gives texts (ours, peers)."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from _trust import maker
from tunefree import Checkpoint, PiSTOLClassifier, load_model, save_model
from tunefree.files.model import load_values, save_values


def interrupts(quick):
    """Ctrl-C during the fit of every learner, each in its own process."""
    script = Path(__file__).with_name("_interrupt.py")
    names = ["PiSTOLClassifier", "RidgePathRegressor", "OptimisticPerceptron"] if quick else []
    done = subprocess.run([sys.executable, str(script), *names], capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    delays = [f["delay"] for f in found if "delay" in f]
    spoiled = [f["name"] for f in found if f["state"] in ("spoiled", "not finite")]
    return (f"{len(delays)} learners: {max(delays):.2f} s at most, {len(spoiled)} spoiled", "-")


def _killed(work, longest, rng):
    """Run work() in a child and kill it after a random time; whether it had ended before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + rng.random() * longest
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                raise RuntimeError("a child failed by itself")
            return True
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def killed(n):
    """SIGKILL while a file is replaced again and again: the old or the new one is complete."""
    broken, rng = 0, random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "file")
        save_values({"k": 0, "text": "0" * 20000}, path, kind="run")

        def write():
            for k in range(10**9):
                save_values({"k": k, "text": str(k) * 20000}, path, kind="run")

        for _ in range(n):
            _killed(write, 0.1, rng)
            values = load_values(path, kind="run")
            broken += values["text"] != str(values["k"]) * 20000
    return f"{broken} of {n} kills leave a broken file", "-"


def resumed(n):
    """SIGKILL of a run with checkpoints, resumed until it ends: bytes of an uninterrupted one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 8)) + 1.0
    y = X @ rng.normal(size=8) + 0.1 * rng.normal(size=len(X))
    chance, differ, kills, runs = random.Random(0), 0, 0, 0
    names = ("PiSTOLClassifier", "RidgePathRegressor", "PiSTOLRegressor")
    with tempfile.TemporaryDirectory() as folder:
        place, whole, model = (str(Path(folder) / name) for name in ("run", "whole", "model"))
        for name in names:
            make, target = maker(name), y if "Regressor" in name else (y > 0).astype(int)

            def fit(path, make=make, target=target, **options):
                saved = Checkpoint(place, every=2000, **options)
                save_model(make().fit_source((X, target), checkpoint=saved), path)

            fit(whole)  # compiles, too
            start = time.monotonic()
            fit(whole)
            longest, mine = time.monotonic() - start, 0
            while mine < n // len(names) + (name == names[0]) * (n % len(names)):
                Path(place).unlink(missing_ok=True)
                runs += 1
                while not _killed(lambda fit=fit: fit(model, resume=True), longest, chance):
                    mine += 1
                differ += Path(model).read_bytes() != Path(whole).read_bytes()
            kills += mine
    return f"{kills} kills in {runs} runs of {len(names)} learners: {differ} differ", "-"


def full(n):
    """A disk that is full after so many bytes: the old model is unchanged, without other files."""
    X = np.random.default_rng(0).normal(size=(200, 10))
    models = [PiSTOLClassifier(random_state=s).fit(X, X[:, s] > 0) for s in (0, 1)]
    kept, (soft, hard) = 0, resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        save_model(models[1], path)
        most = os.path.getsize(path) - 1
        save_model(models[0], path)
        content = Path(path).read_bytes()
        for limit in np.linspace(0, most, n).astype(int).tolist():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                save_model(models[1], path)
            except OSError:
                kept += Path(path).read_bytes() == content and os.listdir(folder) == ["model"]
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        load_model(path)
    signal.signal(signal.SIGXFSZ, handler)
    return f"the old file is kept in {kept} of {n} full disks", "-"


def cluster(times):
    """SIGKILL of one of four Dask workers during a fit."""
    script = "import sys; sys.path.insert(0, sys.argv[1]); import _cluster_faults as c; "
    script += "c.kills(int(sys.argv[2]))"
    folder = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", "if __name__ == '__main__': " + script, folder,
                           str(times)], capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        return f"not measured: {done.stderr.splitlines()[-1]}", "-"
    return done.stdout.strip().splitlines()[-1].strip().partition("; 0 strikes")[0], "-"
