"""Batch learners killed between and within passes: what follows has the same bytes."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tunefree import (
    Checkpoint,
    GLMClassifier,
    OptimisticPerceptron,
    ReflectronRegressor,
    save_model,
)
from tunefree.files.model import ModelError

ROWS = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 6))
SCORES = X @ RNG.normal(size=6)
KINDS = np.array(["low", "middle", "high"])[np.digitize(SCORES, [-1, 1])]
FAR = np.abs(SCORES) > 0.5

LEARNERS = {
    "reflectron": (ReflectronRegressor("logit", random_state=0), X, 1 / (1 + np.exp(-SCORES))),
    "reflectron of classes": (GLMClassifier(random_state=0, max_iter=25), X, KINDS),
    "perceptron": (OptimisticPerceptron(max_iter=30), X, KINDS),
    "auto": (OptimisticPerceptron("auto", stop="margin"), X[FAR], SCORES[FAR] > 0),
    "accelerated": (OptimisticPerceptron("accelerated", max_iter=15), X, KINDS),
    "min-norm": (OptimisticPerceptron("min-norm", stop="margin"), X[FAR], SCORES[FAR] > 0),
}
each = pytest.mark.parametrize("name", LEARNERS)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Killed(Exception):
    pass


class Reading:
    """The rows in pieces; something happens in the middle of a reading."""

    def __init__(self, X, y, at=np.inf, what=None):
        self.X, self.y, self.at, self.what, self.readings = X, y, at, what, 0

    def __call__(self):
        self.readings += 1
        for start in range(0, len(self.y), 100):
            if self.readings == self.at and start == 100:
                self.what()
            yield self.X[start : start + 100], self.y[start : start + 100]


def stop():
    raise Killed


def contents(model, folder):
    save_model(model, folder / "model")
    return (folder / "model").read_bytes()


@each
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bytes(name, tmp_path):
    model, X, y = LEARNERS[name]
    source = Reading(X, y)
    expected, kills, passes = contents(model.fit_source(source), tmp_path), 0, [0]
    overhead = source.readings  # a resumed run reads the rows for what it needs besides
    while True:
        saved = Checkpoint(tmp_path / "run", every=1, resume=True)
        at = overhead - model.n_iter_ + 4 + 5 * kills % 7
        try:
            model.fit_source(Reading(X, y, max(at, 6), stop), checkpoint=saved)
        except Killed:
            kills += 1
            passes.append(saved.passes)
            assert kills < 60
        else:
            break
    assert contents(model, tmp_path) == expected
    assert kills >= 1 and passes == sorted(passes) and passes[-1] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_within_a_pass_saves_what_the_passes_before_it_found(number, tmp_path):
    model, X, y = LEARNERS["perceptron"]
    expected = contents(model.fit_source(Reading(X, y)), tmp_path)
    saved = Checkpoint(tmp_path / "run", every=10**9)
    reading = Reading(X, y, 12, lambda: os.kill(os.getpid(), number))
    with pytest.raises(KeyboardInterrupt):
        model.fit_source(reading, checkpoint=saved)
    assert 5 < saved.passes < 12 and saved.rows == 0
    source, again = Reading(X, y), Checkpoint(tmp_path / "run", resume=True)
    assert contents(model.fit_source(source, checkpoint=again), tmp_path) == expected


def test_kill_9_leaves_the_last_pass(tmp_path):
    code = f"""
import os, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_batch_checkpoints import LEARNERS, Reading, Checkpoint
model, X, y = LEARNERS["perceptron"]
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
model.fit_source(Reading(X, y, 20, kill), checkpoint=Checkpoint("run", every=1))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL
    model, X, y = LEARNERS["perceptron"]
    saved = Checkpoint(tmp_path / "run", resume=True)
    source = Reading(X, y)
    resumed = contents(model.fit_source(source, checkpoint=saved), tmp_path)
    whole = Reading(X, y)
    assert resumed == contents(model.fit_source(whole), tmp_path)
    assert source.readings < whole.readings - 10


def test_every_says_how_often(tmp_path):
    model, X, y = LEARNERS["perceptron"]
    passes = []
    for reading in range(8, 20):
        saved = Checkpoint(tmp_path / "run", every=3 * ROWS)
        with pytest.raises(Killed):
            model.fit_source(Reading(X, y, reading, stop), checkpoint=saved)
        passes.append(saved.passes)
    assert set(np.diff(passes)) == {0, 3}


def test_what_cannot_be_resumed_is_said(tmp_path):
    _, X, y = LEARNERS["reflectron"]
    saved = Checkpoint(tmp_path / "run", every=1)
    ReflectronRegressor("logit", max_iter=10).fit_source((X, y), checkpoint=saved)
    before = (tmp_path / "run").read_bytes()
    again = Checkpoint(tmp_path / "run", resume=True)
    with pytest.raises(ModelError, match="another model: max_iter=10, not 11"):
        ReflectronRegressor("logit", max_iter=11).fit_source((X, y), checkpoint=again)
    with pytest.raises(ModelError, match="checkpoint of a ReflectronRegressor"):
        OptimisticPerceptron().fit_source((X, y > 0.5), checkpoint=again)
    assert (tmp_path / "run").read_bytes() == before
