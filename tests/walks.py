"""What a call enters of the library: its functions, their files, climbs between floors."""

import sys
import tempfile
import threading
import tomllib
import warnings
from collections import namedtuple
from functools import partial
from pathlib import Path

import numpy as np

import tunefree
from house import ROOT

HOME = Path(tunefree.__file__).parent
Walk = namedtuple("Walk", "files climbs functions")
_POOL = "_process.py"


def floors():
    """The import contract's floors, from the lowest: lists of module names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    named = ([m.strip(" ()") for m in layer.split("|")] for layer in reversed(layers))
    return list(named)


def floor_of(module, table):
    """The floor of a module: that of its longest prefix in the contract; None where none is."""
    known = {name: level for level, names in enumerate(table) for name in names}
    parts = module.split(".")
    prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((known[p] for p in prefixes if p in known), None)


def _ours(frame):
    return frame.f_code.co_filename.startswith(str(HOME))


def _module(path):
    return ".".join(["tunefree", *path.relative_to(HOME).with_suffix("").parts])


def walk(run):
    """Run and note every Python function of the library that is entered.

    A climb is a call from a lower floor of the import contract into a higher one, by a callback
    for example; each pair of functions counts once. The pool of threads is no floor of its own:
    what it calls is called by who gave it the work.
    """
    calls = set()

    def note(frame, event, argument):
        if event != "call" or not _ours(frame):
            return
        caller = frame.f_back
        while caller and (not _ours(caller) or caller.f_code.co_filename.endswith(_POOL)):
            caller = caller.f_back
        calls.add((caller.f_code if caller else None, frame.f_code))

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return _summary(calls)


def _summary(calls):
    table = floors()
    entered = {callee for _, callee in calls if callee.co_name != "<module>"}
    files = sorted({str(Path(c.co_filename).relative_to(HOME)) for c in entered})
    climbs = []
    for caller, callee in calls:
        if caller is None or "<module>" in (caller.co_name, callee.co_name):
            continue
        homes = [_module(Path(c.co_filename)) for c in (caller, callee)]
        low, high = (floor_of(home, table) for home in homes)
        if low is not None and high is not None and low < high:
            climbs.append(f"{homes[0]}: {caller.co_qualname} -> {homes[1]}: {callee.co_qualname}")
    return Walk(files, sorted(set(climbs)), entered)


def ways():
    """(Name, walk) of twelve ways that users go, on small data.

    A way runs twice: the first run compiles what is not compiled yet.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, run in _runs(Path(folder)):
            run()
            yield name, walk(run)


def _runs(folder):
    """(Name, function that goes a way)."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 8))
    score = X[:, 0] + 0.3 * random.normal(size=400)
    y = (score > 0).astype(int)
    counts = random.poisson(np.exp(0.3 * X[:, 0]))
    for estimator in (
        tunefree.PiSTOLClassifier,
        tunefree.KernelPiSTOLClassifier,
        tunefree.BoostedTreesClassifier,
        tunefree.OptimisticPerceptron,
        tunefree.TuneFreeClassifier,
    ):
        yield f"{estimator.__name__}.fit", partial(estimator().fit, X, y)
    for estimator in (tunefree.KernelRidgeRegressor, tunefree.RidgePathRegressor):
        yield f"{estimator.__name__}.fit", partial(estimator().fit, X, score)

    glm = tunefree.GLMRegressor(family="poisson").fit(X, counts)
    yield "GLMRegressor.fit", partial(glm.fit, X, counts)
    yield "GLMRegressor.summary", partial(glm.summary, X, counts)

    table = tunefree.TuneFreeClassifier().fit(X, y)
    yield "predict_proba and predict_set", lambda: (table.predict_proba(X), table.predict_set(X))

    rows = [dict(zip("abcdefgh", row, strict=True)) for row in X.tolist()]
    stream = tunefree.StreamClassifier().partial_fit(rows, y)
    yield "StreamClassifier.learn_one", lambda: stream.learn_one(rows[0], y[0])

    np.savetxt(folder / "rows.csv", np.column_stack([X, y]), delimiter=",")
    yield "tunefree train", partial(_command, "train", folder / "rows.csv", folder / "model")


def _command(*words):
    """Run a command of the shell in this process."""
    from typer.testing import CliRunner

    from tunefree.cli import app

    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
