"""The golden record: what every public estimator predicts and publishes, on fixed made-up data.

    python tests/golden/record.py write FILE [ONLY]
    python tests/golden/record.py compare [--renames TABLE] OLD NEW
    python tests/golden/record.py store

`write` writes every case to FILE, with hashes of all bytes. ONLY is how the names of groups begin:
`PiSTOL`, `large/`, `shell`, `dask`, `parts`.

`compare` holds two such files of one environment against each other, bit for bit. TABLE has a
rename a line, `old new`: classes, settings and attributes of OLD as NEW calls them
(`record_compare.Renames`). Texts that differ are listed apart and do not count, because messages
are reworded. The exit status is 1 if a number differs, or if one record alone has a case or a path.

`store` renews the copy that the tests compare with: some thirty cases (`KEPT`) and the commands.
Store in a commit of its own whose message gives the reasons.

A change of structure must leave the record alone: write it before and after, in one environment,
and compare.

The cases:

- Each estimator with one of its `SETTINGS` in one form of use: dense, CSR, float32, weighted,
  `partial_fit` in two chunkings, a source, a model file, a Dask cluster with two partitions.
- `large/`: mostly 3,000 rows and more, with exposures, groups, categories, intervals, callbacks ...
  (`record_large.py`).
- `shell`: what the commands print and write (`record_shell.py`).

A setting that the constructor does not take raises. What `fit` or `predict` refuses is recorded:
which of them, the type of the error and its message.
"""

import argparse
import inspect
import json
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

# As in `tests/conftest.py`, and before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
from record_compare import Renames, compare
from record_large import LARGE, large
from record_shell import shell
from record_values import Leaves, as_json, digest, is_text, published, shortened
from scipy import sparse

import tunefree
from tunefree.core.registry import estimator_class
from tunefree.parts import links
from tunefree.reflectron import potentials

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from papers import baselines

STORED = Path(__file__).with_name("record.json")
ROWS, COLUMNS = 160, 6

# Estimator: its task and two settings beside the defaults.
SETTINGS = {
    "BoostedTreesClassifier": ("classes", {"class_weight": "balanced"}),
    "BoostedTreesRegressor": ("numbers", {"loss": "poisson"}),
    "RidgePathRegressor": (
        "numbers",
        {"solver": "sgd", "average": "tail", "alphas": [10.0, 0.1]},
        {"solver": "exact", "fit_intercept": False},
    ),
    "ClassicalPerceptron": ("classes", {"max_iter": 20}, {"fit_intercept": False}),
    "DynamicsReflectron": ("motion", {"link": "identity"}, {"step": 0.1, "max_iter": 40}),
    "KernelOptimisticPerceptron": ("classes", {"method": "auto"}, {"kernel": "poly"}),
    "KernelPiSTOLClassifier": ("classes", {"setting": "paper", "gamma": 0.1}, {"max_support": 50}),
    "KernelPiSTOLRegressor": ("numbers", {"kernel": "laplacian"}, {"gamma": 0.1, "max_iter": 2}),
    "KernelRidgeClassifier": (
        "classes",
        {"n_landmarks": 20},
        {"n_landmarks": 60},
        {"loss": "log_loss"},
        {"loss": "log_loss", "n_landmarks": 20},
    ),  # fmt: skip
    "KernelRidgeRegressor": ("numbers", {"n_landmarks": 20}, {"n_landmarks": 60}),
    "OptimisticPerceptron": ("classes", {"method": "auto", "stop": "margin"}, {"step": "paper"}),
    "PiSTOLClassifier": ("classes", {"setting": "theorem-1"}, {"loss": "log_loss", "max_iter": 2}),
    "PiSTOLRegressor": ("numbers", {"loss": "huber", "average": "last"}, {"cap": None}),
    "GLMClassifier": ("classes", {"potential": "p_norm"}),
    "GLMRegressor": ("shares", {"family": "binomial", "link": "learned", "max_iter": 60}),
    "ReflectronClassifier": ("classes", {"potential": "p_norm"}, {"solver": "stochastic"}),
    "ReflectronRegressor": (
        "shares",
        {"link": "logit", "potential": "hypentropy", "constraint": "l1", "max_iter": 50},
        {"link": "identity", "solver": "stochastic"},
        {"link": "logit"},
    ),
    "SharedReflectron": ("shared", {"link": "identity"}, {"potential": "euclidean"}),
    "StreamClassifier": ("classes", {"delay": 3}, {"delay": 40}),
    "StreamRegressor": ("numbers", {"delay": 3}, {"delay": 40}),
    "TablePreprocessor": ("table", {"max_levels": 2}, {"sparse_output": True}),
    "TuneFreeClassifier": ("classes", {"candidates": ("linear",)}, {"candidates": ("kernel",)}),
    "TuneFreeRegressor": ("numbers", {"candidates": ("linear",)}, {"candidates": ("kernel",)}),
}
# What the stored copy has beside the commands: each estimator at its defaults, and forms of use
# that go another way.
KEPT = (
    *(
        f"{name}/0/{task}/dense"
        for name, (task, *_) in SETTINGS.items()
        if task not in ("motion", "table")
    ),
    "DynamicsReflectron/0/motion/paths",
    "TablePreprocessor/0/table/frame",
    "PiSTOLClassifier/0/several/partial_fit 64",
    "StreamRegressor/0/numbers/partial_fit 64",
    "large/GLMRegressor/categories, exposure",
    "large/GLMClassifier/ordered grades",
    "large/KernelRidgeRegressor/all rows, weights",
    "large/TuneFreeClassifier/frame",
    "large/TuneFreeRegressor/groups",
)
# Those that papers compare with, in `papers.baselines`.
BASELINES = {
    "KernelAveragedSGDClassifier": ("classes", {"max_iter": 3}, {"kernel": "linear", "step": 0.1}),
    "KernelAveragedSGDRegressor": ("numbers", {"max_iter": 3}, {"kernel": "laplacian"}),
    "KernelPerceptron": ("classes", {"average": "voted"}, {"kernel": "laplacian", "max_iter": 2}),
}
LOGIT = {"link": "logit"}
# What `fit` and `predict` refuse with; a keyword that they do not take is a TypeError, and raises.
REFUSALS = (ValueError, AttributeError)
SEVERAL = (
    "GLMClassifier",
    "KernelPiSTOLClassifier",
    "PiSTOLClassifier",
    "BoostedTreesClassifier",
    "ReflectronClassifier",
    "StreamClassifier",
)


def data(task):
    """Fixed rows in rough units, and targets of a task."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.6)
    X *= [0.01, 0.1, 1.0, 1.0, 10.0, 100.0]
    score = (X / X.std(axis=0)) @ [1.0, -2.0, 0.5, 0.0, 0.0, 1.0]
    noisy = score + 0.7 * rng.normal(size=ROWS)
    if task == "classes":
        return X, np.where(noisy > 0, "yes", "no")
    if task == "several":
        return X, np.digitize(noisy, [-1.0, 1.0])
    if task == "shares":
        return X, 1.0 / (1.0 + np.exp(-noisy))
    return X, 30.0 + 4.0 * noisy


def named(name):
    """An estimator's class, of those that papers compare with, too."""
    return getattr(baselines, name) if name in BASELINES else estimator_class(name)


def make(name, setting):
    """A fresh estimator, its random state fixed where it has one."""
    model = named(name)(**setting)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model


class Form(NamedTuple):
    """A form of use: how a fresh model is fitted, and rows to predict."""

    name: str
    fit: Callable
    X: Any
    from_file: bool = False  # whether the model that predicts is read from a model file


def streamed(model, X, y, size, known):
    """Learn in chunks."""
    for i in range(0, len(y), size):
        model.partial_fit(X[i : i + size], y[i : i + size], **known)
    return model


def from_source(model, X, y, known):
    """Learn from a text file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        lines = (",".join([*map(repr, r), str(t)]) for r, t in zip(X.tolist(), y, strict=True))
        path.write_text("\n".join(lines) + "\n")
        source = tunefree.open_source(str(path), header=False)
        return model.fit_source(source, **known)


def saved_and_loaded(model):
    """The model as a model file has it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        tunefree.save_model(model, path)
        return tunefree.load_model(path)


def tabular(name, task):
    """Forms of use of an estimator of rows and targets."""
    X, y = data(task)
    weights = 1.0 + np.arange(ROWS) % 3
    known = {"classes": np.unique(y)} if task in ("classes", "several") else {}
    narrow, compressed = X.astype(np.float32), sparse.csr_array(X)

    yield Form("dense", lambda model: model.fit(X, y), X)
    yield Form("csr", lambda model: model.fit(compressed, y), compressed)
    yield Form("float32", lambda model: model.fit(narrow, y), narrow)
    if name != "ClassicalPerceptron" and "sample_weight" in fit_parameters(name):
        yield Form("weights", lambda model: model.fit(X, y, sample_weight=weights), X)
    if name not in BASELINES:
        yield Form("model file", lambda model: model.fit(X, y), X, from_file=True)
    if hasattr(named(name), "partial_fit"):
        for size in (7, 64):
            fit = partial(streamed, X=X, y=y, size=size, known=known)
            yield Form(f"partial_fit {size}", fit, X)
    if hasattr(named(name), "fit_source"):
        yield Form("source", partial(from_source, X=X, y=y, known=known), X)


def fit_parameters(name):
    """The names of what `fit` takes."""
    return inspect.signature(named(name).fit).parameters


def others(name):
    """Forms of use of the estimators whose `fit` takes something else than rows and targets."""
    rng = np.random.default_rng(11)
    if name == "DynamicsReflectron":
        paths = np.cumsum(0.3 * rng.normal(size=(12, 6, 5)), axis=1)
        yield Form("paths", lambda model: model.fit(paths), paths[0])
    elif name == "SharedReflectron":
        X, y = data("shares")
        Y = np.c_[y, y**2, 1.0 - y]
        weights = 1.0 + np.arange(ROWS) % 3
        yield Form("dense", lambda model: model.fit(X, Y), X)
        yield Form("weights", lambda model: model.fit(X, Y, weights), X)
    elif name == "TablePreprocessor":
        import pandas as pd

        X, _ = data("numbers")
        frame = pd.DataFrame(X, columns=list("abcdef"))
        frame["a"] = np.array(["red", "green", "blue"])[np.arange(ROWS) % 3]
        frame.loc[3, "b"] = np.nan
        frame["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(ROWS), unit="D")
        yield Form("frame", lambda model: model.fit(frame), frame)


def small(name):
    """The cases of an estimator on few rows: (name, function that gives the leaves)."""
    task, *settings = (SETTINGS | BASELINES)[name]
    for i, setting in enumerate([{}, *settings]):
        tasks = [task, "several"] if name in SEVERAL and i == 0 else [task]
        for t in tasks:
            forms = others(name) if t in ("motion", "shared", "table") else tabular(name, t)
            for form in forms:
                yield f"{name}/{i}/{t}/{form.name}", partial(outcome, make(name, setting), form)


def outcome(model, form):
    """What a fitted model predicts and publishes, or what refused the rows, and why."""
    try:
        model = form.fit(model)
    except REFUSALS as refusal:
        return refused("fit", refusal)
    if form.from_file:
        model = saved_and_loaded(model)
    try:
        return published(model, form.X)
    except REFUSALS as refusal:
        return refused("predict", refusal)


def refused(verb, refusal):
    """A refusal: the verb and the type are names of its path, which count; the message is text."""
    leaves = Leaves()
    leaves.add(f"refused.{verb}.{type(refusal).__name__}", True)
    leaves.add("refused.message", str(refusal))
    return leaves


def distributed():
    """The estimators of `tunefree.dask`, on two partitions."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from tunefree import dask as there

    with (
        LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for exported in there.__all__:
            name = exported.removeprefix("Dask")
            task, *_ = SETTINGS[name]
            X, y = data(task)
            codes = (
                y if task not in ("classes", "several") else np.unique(y, return_inverse=True)[1]
            )
            # A cluster's rows are not all at hand: their family or link is named.
            named = {
                "ReflectronRegressor": {"link": "logit"},
                "GLMRegressor": {"family": "binomial"},
            }
            model = getattr(there, exported)(**named.get(name, {}))
            if "random_state" in model.get_params():
                model.set_params(random_state=0)
            if name == "OptimisticPerceptron":
                model.set_params(max_iter=100)  # rows that nothing separates take all
            cut = ROWS // 2
            rows = da.from_array(X, chunks=(cut, COLUMNS)), da.from_array(codes, chunks=cut)
            yield f"dask.{name}", published(model.fit(*rows, client=client).to_local(), X)


def parts():
    """The papers' functions: a flow, a whole ridge path, mirrors."""
    X, y = data("numbers")
    leaves = Leaves()
    path = tunefree.sgd_ridge_path(X / X.std(axis=0), y, alphas=[10.0, 0.1], random_state=0)
    leaves.add("path", tuple(path))
    yield "sgd_ridge_path", leaves
    for name, potential in sorted(potentials.POTENTIALS.items()):
        leaves, w = Leaves(), np.array([[0.2, 0.3], [0.1, 0.4]])
        leaves.add("mirror", potential.mirror(w))
        leaves.add("inverse", potential.inverse(potential.mirror(w)))
        yield f"potential.{name}", leaves
    for name, link in sorted(links.LINKS.items()):
        leaves = Leaves()
        leaves.add("mean", np.array([link.mean(float(z)) for z in np.linspace(-3, 3, 13)]))
        yield f"link.{name}", leaves


def groups():
    """{Name of a group: function that gives its cases as (name, leaves)}."""
    return {
        **{name: partial(small, name) for name in SETTINGS | BASELINES},
        "dask": distributed,
        "parts": parts,
        **{name: partial(large, name) for name in LARGE},
        "shell": shell,
    }


def group_of(case):
    """The group that a case belongs to.

    >>> group_of("PiSTOLRegressor/0/numbers/dense"), group_of("dask.GLMRegressor")
    ('PiSTOLRegressor', 'dask')
    """
    first, slash, _ = case.partition("/")
    if first == "large":
        return case
    if slash:
        return first
    return "dask" if case.startswith("dask.") else "parts"


def names_of(only):
    """The groups whose names begin with `only`."""
    return [name for name in groups() if name.startswith(only)]


def record(names, wanted=lambda case: True):
    """The record {case: {path: digest}} of groups, or of their cases that are wanted."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            for case, leaves in groups()[name]():
                if wanted(case):
                    leaves = leaves() if callable(leaves) else leaves
                    found[case] = {path: digest(v) for path, v in sorted(leaves.items())}
    return found


def environment():
    """What last digits depend on: versions, the processor, and the kernels BLAS has for it."""
    import llvmlite.binding
    import numba
    import scipy
    import sklearn
    from threadpoolctl import threadpool_info

    versions = {m.__name__: m.__version__ for m in (np, scipy, sklearn, numba)}
    cpu = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    blas = sorted({pool["architecture"] for pool in threadpool_info() if "architecture" in pool})
    return versions | {
        "cpu": cpu or platform.processor(),
        "machine": platform.machine(),
        "target": llvmlite.binding.get_host_cpu_name(),
        "blas": ", ".join(blas),
    }


class Stored(NamedTuple):
    """The stored copy."""

    environment: dict
    cases: dict

    @classmethod
    def read(cls):
        """The copy as it is now."""
        cases = json.loads(STORED.read_text())
        return cls(cases.pop("environment"), cases)

    def write(self):
        """Write it."""
        STORED.write_text(as_json({"environment": self.environment} | self.cases))


def is_kept(case):
    """Whether the stored copy has a case.

    >>> is_kept("GLMRegressor/0/shares/dense"), is_kept("GLMRegressor/1/shares/dense")
    (True, False)
    """
    return case in KEPT or case.startswith("shell/")


def kept_groups():
    """The groups of the kept cases."""
    return list(dict.fromkeys([*map(group_of, KEPT), "shell"]))


def kept_cases(names):
    """The kept cases of groups, as they are now."""
    return shortened(record(names, is_kept))


def compare_with_stored(stored, found, same_environment):
    """Compare cases as far as the environments allow.

    Another processor or another NumPy adds in another order, and a choice may fall on the other
    side of a tie: then only predictions are compared, and only to two digits.
    """
    if same_environment:
        return compare(stored, found, 1e-10)
    return compare(_predictions(stored), _predictions(found), 1e-2)


def _predictions(cases):
    """The predicted numbers: probabilities where there are some, since a label may flip."""
    out = {}
    for case, leaves in cases.items():
        if "predict" in leaves and not is_text(leaves["predict"]):
            path = "predict_proba" if "predict_proba" in leaves else "predict"
            out[case] = {path: leaves[path]}
    return out


def main(arguments=None):
    """Write, compare or store; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    write_command = commands.add_parser("write")
    write_command.add_argument("file", type=Path)
    write_command.add_argument("only", nargs="?", default="")
    compare_command = commands.add_parser("compare")
    compare_command.add_argument("old", type=Path)
    compare_command.add_argument("new", type=Path)
    compare_command.add_argument("--renames", type=Path, metavar="TABLE")
    commands.add_parser("store")
    given = parser.parse_args(arguments)

    if given.command == "write":
        given.file.write_text(as_json(record(names_of(given.only))))
        return 0
    if given.command == "store":
        Stored(environment(), kept_cases(kept_groups())).write()
        return 0
    renames = Renames(given.renames.read_text() if given.renames else "")
    old, new = (json.loads(path.read_text()) for path in (given.old, given.new))
    comparison = compare(renames.of_cases(old), new)
    print(comparison)
    if renames.unused():
        print("renames of names that the old record has not:", ", ".join(renames.unused()))
    return int(comparison.counts)


if __name__ == "__main__":
    sys.exit(main())
